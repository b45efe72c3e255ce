"""Spending: what the charges of one survey cost the protected data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..privacy.budget import amount
from ..privacy.measure import Measure, counted
from ..privacy.profile import PrivacyProfile
from ..privacy.rounding import up
from ..privacy.running import Running
from ..text.layout import floor_text
from .books import SampleBook, SurveyBook
from .terms import Terms


@dataclass(frozen=True)
class Spending:
    """Totals of one survey: per sample composed then amplified once, over samples added."""

    charged: Mapping[str, Running]
    spent: float
    left: float
    by_sample: dict[str, float]
    in_sample: dict[str, float]
    delta: float
    # Why the charges do not keep the budget although their epsilon does; empty where they do.
    beyond: str = ""

    @property
    def epsilon_in_sample(self) -> float:
        """The loss of someone known to be in one of the samples, whichever is worst: its own, and the others amplified."""
        names = list(self.in_sample)
        worst = worst_sample([(self.in_sample[name], self.by_sample[name]) for name in names])
        if worst is None:
            return 0.0
        return add_samples(
            [self.in_sample[names[worst]], *(loss for name, loss in self.by_sample.items() if name != names[worst])]
        )

    def elsewhere(self, sample: str) -> float:
        """The amplified loss of the other samples of the survey."""
        others = [loss for name, loss in self.by_sample.items() if name != sample]
        return add_samples(others)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        samples = [
            {"sample": name, "epsilon": loss, "epsilon_in_sample": self.in_sample[name]} for name, loss in self.by_sample.items()
        ]
        return {"spent": self.spent, "left": self.left, "delta": self.delta, "samples": samples}


ONE_SAMPLE = (
    "a budget with delta covers one sample, and another is charged already: open a survey with a name and a budget of its own; "
    "a sample that is to serve several runs is drawn and sealed before the first release"
)
PURE_CAP = "in epsilon a budget with delta covers its pure part, and the delta that fits beside it"


def add_samples(losses: Iterable[float]) -> float:
    """The pure loss of independent samples together: each amplified once, then added."""
    values = list(losses)
    return values[0] if len(values) == 1 else up(math.fsum(values))


def worst_sample(losses: Sequence[tuple[float, float]]) -> int | None:
    """Of samples with a loss of somebody known to be in them and one of outsiders, the place of the one whose own loss makes
    the largest sum with the others' outside ones; exactly, and without adding up the others for each.

    >>> worst_sample([(1.0, 0.2), (1.5, 0.9), (1.0, 0.1)])
    2
    """
    unbounded = next((place for place, pair in enumerate(losses) if not math.isfinite(pair[0])), None)
    if unbounded is not None:
        return unbounded
    more = [Fraction(inside) - Fraction(outside) for inside, outside in losses]
    return max(range(len(more)), key=more.__getitem__, default=None)


def survey_spending(survey: SurveyBook, more: Mapping[str, Running] | None = None) -> Spending:
    """The totals of a survey; `more` holds samples as they would be after a request.

    Samples of a survey are drawn independently of each other, so their losses add (docs/guides/ledger.md, Theorem L1).
    """
    charged = {name: sample.running() for name, sample in survey.samples.items()} | dict(more or {})
    return spending(survey, {name: each for name, each in charged.items() if each})


def spending(survey: SurveyBook, charged: Mapping[str, Running]) -> Spending:
    """The totals of charges by sample."""
    budget = survey.terms.budget
    losses = {name: sample_losses(survey, each) for name, each in charged.items()}
    by_sample = {name: loss for name, (loss, _) in losses.items()}
    spent = add_samples(by_sample.values())
    beyond = ONE_SAMPLE if budget.delta > 0.0 and len(charged) > 1 else ""
    if budget.delta > 0.0 and any(_above_pure_cap(survey.terms, each) for each in charged.values()):
        beyond = PURE_CAP
    in_sample = {name: inside for name, (_, inside) in losses.items()}
    return Spending(charged, spent, max(0.0, budget.epsilon - spent), by_sample, in_sample, budget.delta, beyond)


def pure_cap(terms: Terms, charged: Running) -> tuple[Fraction, str | None]:
    """What charges in epsilon may add up to on the sample of a budget with a delta, in the stratum that is nearest to it or
    beyond it the furthest; without a stratum where all have the same. Fixed limits are a proved filter."""
    limits = terms.strata.amounts(Measure.EPSILON)
    if not limits:
        return Fraction(amount(terms.pure_in_sample_budget)), None
    worst = max(limits, key=lambda label: charged.amount_of(label) / limits[label])
    return limits[worst], worst


def _above_pure_cap(terms: Terms, charged: Running) -> bool:
    """Whether charges in epsilon exceed what was settled at the opening."""
    if charged.measure is not Measure.EPSILON:
        return False
    epsilon, stratum = pure_cap(terms, charged)
    return spent_in(charged, stratum) > epsilon or charged.delta > Fraction(terms.delta_in_sample)


def spent_in(charged: Running, stratum: str | None) -> Fraction:
    """What was charged to the records of a stratum, or of all."""
    return charged.amount if stratum is None else charged.amount_of(stratum)


def sample_losses(survey: SurveyBook, charged: Running) -> tuple[float, float]:
    """The loss of the protected data from one sample, amplified once; and of someone known to be in the sample."""
    profile = charged.composed
    if profile not in survey.losses:
        if len(survey.losses) > max(1000, 3 * len(survey.samples)):
            survey.losses.clear()
        terms, delta = survey.terms, survey.terms.budget.delta
        survey.losses[profile] = terms.amplify(profile).epsilon(delta), terms.on_sample(profile).epsilon(delta)
    return survey.losses[profile]


def share_left(terms: Terms, charged: Running) -> float:
    """The share of what one sample may be charged that is left of it."""
    if charged.measure is None:
        return 1.0
    return max(0.0, 1.0 - terms.used(charged))


def way_out(survey: SurveyBook, sample: str, samples: Sequence[str]) -> str:
    """The largest share that still fits one sample, in words."""
    charged = survey.samples[sample].running() if sample in survey.samples else Running()
    left = share_left(survey.terms, charged) if set(samples) <= {sample} else 0.0
    return f"plan with share={floor_text(left)} or less" if left >= 1e-4 else "plan with a smaller share="


def fixed_beforehand(sample: SampleBook) -> PrivacyProfile | None:
    """All charges of a sample by privacy loss distributions: only where they were fixed before its first release."""
    if not sample.profiles or (sample.fixed is not None and len(sample.profiles) > sample.fixed):
        return None
    if any(counted(profile)[0] is Measure.RHO for profile in sample.profiles) or len(sample.profiles) > 200:
        return None
    return sample.profiles[0].compose(*sample.profiles[1:], by="pld") if len(sample.profiles) > 1 else sample.profiles[0]
