"""What the records of each stratum may lose on one sample, where each stratum is amplified by its own rate. Pure.

The proof: docs/proofs/amplification.md, each stratum's own loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from ..design import Amplified, Design, Refused
from ..privacy.budget import Budget, amount, largest_in_sample
from ..privacy.measure import Measure, counted
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.running import Running
from ..privacy.setting import Setting

# What is kept back of a limit, so that parts of it that are rounded and added up fit into it.
KEPT_BACK = 1e-12


@dataclass(frozen=True)
class StrataLimits:
    """For each accounting measure, the amount by stratum; empty where all strata may lose the same.

    >>> from dpsurvey.design import poisson, stratified
    >>> design = stratified("size", within={"large": poisson(1.0), "small": poisson(0.02)})
    >>> setting = Setting("frame", neighbours="add-remove")
    >>> found = StrataLimits.of(design, setting, Budget(1.0), Relation.ADD_REMOVE)
    >>> {label: round(float(each), 3) for label, each in found.amounts(Measure.EPSILON).items()}
    {'large': 1.0, 'small': 4.465}
    """

    strata: Mapping[str, Design]
    setting: Setting
    budget: Budget
    relation: Relation

    @classmethod
    def of(cls, design: Design, setting: Setting, budget: Budget, relation: Relation) -> StrataLimits:
        """What each stratum's own design allows for a budget; nothing where the design does not amplify, or not by stratum."""
        strata = design.by_stratum(setting)
        once = design.copies == 1 and design.reach == 1.0
        whole = Measure.EPSILON.profile(budget.epsilon, relation)
        if len(set(strata.values())) < 2 or not once or not isinstance(design.amplify(whole, setting), Amplified):
            strata = {}
        return cls(strata, setting, budget, relation)

    def amounts(self, measure: Measure) -> Mapping[str, Fraction]:
        """What the records of each stratum may lose; empty where they may all lose the same."""
        if measure not in self._known:
            self._known[measure] = self._of(measure) if self.strata else {}
        return self._known[measure]

    @cached_property
    def _known(self) -> dict[Measure, Mapping[str, Fraction]]:
        """What was asked for before."""
        return {}

    def _of(self, measure: Measure) -> Mapping[str, Fraction]:
        budget = self.budget if measure.needs_delta else Budget(self.budget.epsilon)
        designs = dict.fromkeys(self.strata.values())
        found = {each: _largest(each, self.setting, budget, self.relation, measure) for each in designs}
        alike = len(set(found.values())) < 2
        return {} if alike else {label: found[each] for label, each in self.strata.items()}

    def most(self, measure: Measure, parts: Mapping[str, float], alike: PrivacyProfile) -> PrivacyProfile:
        """The most that may be charged by sums that records move by these parts; `alike` where all move them alike."""
        limits = self.amounts(measure)
        if not limits or not any(part < 1.0 for part in parts.values()):
            return alike
        found = [limit / measure.of_part(Fraction(1), parts.get(label, 1.0)) for label, limit in limits.items()]
        return PrivacyProfile(measure.curve(float(min(found)) * (1.0 - KEPT_BACK)), alike.relation, parts)

    def most_of_all(self, measure: Measure, alike: PrivacyProfile) -> PrivacyProfile:
        """Every stratum up to what its records may lose; `alike` where they may all lose the same."""
        limits = self.amounts(measure)
        if not limits:
            return alike
        largest = max(limits.values())
        parts = {label: measure.part_of(limit, largest) for label, limit in limits.items()}
        return PrivacyProfile(measure.curve(float(largest)), alike.relation, parts)

    def loads(self, charge: PrivacyProfile, measure: Measure, alike: PrivacyProfile) -> dict[str | None, float]:
        """The share of what each stratum may lose that a charge takes of it; of all (None), where all may lose the same."""
        limits, parts = self.amounts(measure), dict(charge.parts)
        spent = Fraction(amount(charge))
        if not limits:
            return {None: float(spent / Fraction(amount(alike)))}
        return {label: float(measure.of_part(spent, parts.get(label, 1.0)) / limit) for label, limit in limits.items()}

    def used(self, charged: Running, alike: PrivacyProfile) -> float:
        """The share that charges to one sample took of what may be charged: the largest of any stratum."""
        limits = self.amounts(charged.measure or Measure.EPSILON)
        if not limits:
            return float(charged.amount) / amount(alike)
        return max(float(charged.amount_of(label) / limit) for label, limit in limits.items())


def _largest(design: Design, setting: Setting, budget: Budget, relation: Relation, measure: Measure) -> Fraction:
    """The most that the records of one stratum may lose, by its own design."""
    inside = design.inside(setting)
    if isinstance(inside, Refused) or isinstance(design.amplify(measure.profile(1.0, relation), setting), Refused):
        most = largest_in_sample(budget, relation, lambda profile: design.protected(profile, setting), measure)
    else:
        # Not by `protected`, which writes down the conditions each time.
        most = largest_in_sample(budget, relation, lambda profile: inside.sampled(profile, setting.neighbours), measure)
    return counted(most)[1]
