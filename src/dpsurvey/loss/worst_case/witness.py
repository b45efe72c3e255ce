"""Witness: two small populations and a mechanism that attains a loss, executable and checked by plain enumeration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ...privacy.relation import Relation
from .contest import Contest, Counts, neighbours_of, steps


@dataclass(frozen=True)
class Witness:
    """The mechanism that says yes on the sample S with probability eta * max over S0 of e^(epsilon (level(S0) - d(S, S0))).

    It is epsilon-private on all data sets: the logarithm of the maximum changes by at most epsilon per step, and eta
    keeps every probability at most 1 - e^-epsilon, so that the answer no changes by at most a factor e^epsilon too.
    """

    contest: Contest
    epsilon: float
    base: Relation
    levels: tuple[float, ...]

    @cached_property
    def _scale(self) -> float:
        return -math.expm1(-self.epsilon)

    def __call__(self, sample: Counts) -> float:
        """The probability of the answer yes on a data set, given as the number of records of each kind."""
        pairs = zip(self.levels, self.contest.samples, strict=True)
        exponents = [self.epsilon * (level - steps(self.base, sample, known)) for level, known in pairs]
        return self._scale * math.exp(max(exponents)) if max(exponents) > -math.inf else self._scale * math.exp(min(self.levels))

    @property
    def loss(self) -> float:
        """log of the ratio of the two probabilities of yes, computed sample by sample."""
        chances = [self.chance(law) for law in (self.contest.first, self.contest.second)]
        return math.log(chances[0]) - math.log(chances[1])

    def chance(self, law: Mapping[Counts, float]) -> float:
        """The probability of yes when the sample follows a law."""
        return math.fsum(p * self(sample) for sample, p in law.items() if p > 0.0)

    def check(self, lower: float, tolerance: float = 1e-9) -> None:
        """Raise unless the mechanism has the stated type on every data set and attains `lower`: no solver is used."""
        factor = math.exp(self.epsilon) * (1.0 + 1e-12)
        answers = {data: self(data) for data in self.contest.data_sets()}
        for data, yes in answers.items():
            if not 0.0 <= yes <= 1.0:
                raise AssertionError("the witness is not a mechanism")
            for near in neighbours_of(data, self.base):
                if near in answers and (yes > factor * answers[near] or 1.0 - yes > factor * (1.0 - answers[near])):
                    raise AssertionError("the witness is not private")
        if not math.isclose(self.loss, lower, rel_tol=tolerance, abs_tol=tolerance * self.epsilon):
            raise AssertionError(f"the witness attains {self.loss}, not {lower}")

    def describe(self) -> str:
        """The two populations and the mechanism, in words."""
        one, two = self.contest.first_population, self.contest.second_population
        table = "\n".join(f"  sample {sample}: {self(sample):.6g}" for sample in self.contest.samples[:12])
        kinds = "other units, the protected unit, its replacement" if len(one) == 3 else "one number for each kind of record"
        return f"populations {one} and {two} ({kinds}); Pr[yes] by sample:\n{table}"
