"""Charged samples: a sample with what it was charged, and what that costs under the setting of an account."""

from __future__ import annotations

from dataclasses import dataclass

from ..privacy.budget import amount
from ..privacy.measure import Measure
from ..privacy.profile import PrivacyProfile
from ..privacy.running import Running
from .books import SampleBook, SurveyBook
from .other_settings import Implied, Rule
from .spending import sample_losses
from .terms import Terms


@dataclass(frozen=True)
class ChargedSample:
    """A sample that was charged in a period, and what its survey costs under the setting of an account."""

    survey: SurveyBook
    sample: SampleBook
    running: Running
    under: Implied | None = None

    @property
    def rule(self) -> Rule:
        """The rule by which it counts in this account; under the survey's own setting none is needed."""
        return Rule.OWN if self.under is None else self.under.rule

    @property
    def losses(self) -> tuple[float, float]:
        """The loss from this sample under the setting of the account, and that of somebody known to be in it."""
        if self.rule.own:
            return sample_losses(self.survey, self.running)
        return self._under(self.running.composed)

    @property
    def capped(self) -> tuple[float, float]:
        """The same for everything that may still be charged to a survey with a delta."""
        terms, measure = self.survey.terms, self.running.measure or Measure.EPSILON
        if self.rule.own:
            if measure not in self.survey.caps:
                self.survey.caps[measure] = terms.on_sample(_cap(terms, measure)).epsilon(terms.budget.delta)
            return terms.budget.epsilon, self.survey.caps[measure]
        return self._under(_cap(terms, measure))

    def _under(self, profile: PrivacyProfile) -> tuple[float, float]:
        """Both losses of a profile under the setting of the account; the same profile is worked out once."""
        assert self.under is not None
        memory, key, delta = (
            self.survey.losses,
            (profile, self.under.setting, self.under.relation_name),
            self.survey.terms.budget.delta,
        )
        if key not in memory:
            memory[key] = self.under.loss(profile).epsilon(delta), self.under.in_sample(profile).epsilon(delta)
        return memory[key]


def _cap(terms: Terms, measure: Measure) -> PrivacyProfile:
    """The most that a sample may be charged in an accounting measure under a budget with a delta."""
    if measure is Measure.RHO:
        return terms.most_of_all(measure)
    if measure is Measure.EPSILON:
        pure = terms.most_of_all(measure)
        return PrivacyProfile(measure.curve(amount(pure), terms.delta_in_sample), terms.relation, pure.parts)
    # From above: what is named is never less than what may be charged, of which the search keeps a part in 10^9 back.
    most = terms.most_of_all(measure)
    return PrivacyProfile(measure.curve(amount(most) * (1.0 + 1e-6)), terms.relation, most.parts)
