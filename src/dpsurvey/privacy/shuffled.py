"""The curve of reports that are shuffled: locally private reports of many respondents, seen without names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue
from .curve import Approximate, Curve, check_parameter
from .derived import ManySteps

# The chance that is left out at each end of the number of clones; it is added to delta.
TAIL = 1e-18


@dataclass(frozen=True)
class Shuffled(Curve):
    """n reports of one epsilon0-private client, in random order: one answer replaced.

    With C ~ Bin(n-1, e^-epsilon0) others that hide the respondent, A ~ Bin(C, 1/2) and a = e^epsilon0/(1 + e^epsilon0), the
    worst pair shows C and A + 1 with probability a, else A; and the other way round (Feldman, McMillan, Talwar 2021, Hiding
    among the clones; proof in docs/guides/local.md; the sum over C is evaluated as it stands). Nothing is worse than not
    shuffling, so the curve is also at most that of epsilon0.

    >>> round(Shuffled(5000, 2.0).epsilon(1e-6), 3)
    0.225
    """

    kind: ClassVar[str] = "shuffled"
    reports: int
    local_epsilon: float

    def __post_init__(self) -> None:
        check_parameter("epsilon", self.local_epsilon)
        if isinstance(self.reports, bool) or not isinstance(self.reports, int) or self.reports < 1:
            raise BadValue("shuffling needs at least one report", given=f"reports={self.reports}")

    @cached_property
    def _clones(self) -> tuple[Any, Any, float]:
        """How many clones there may be, with what chances, and the chance of all other numbers."""
        # Imported here: it takes longer than the rest of the package.
        from scipy.stats import binom

        count, rate = self.reports - 1, math.exp(-self.local_epsilon)
        low, high = (int(each) for each in binom.ppf([TAIL, 1.0 - 1e-16], count, rate))
        low, high = max(0, low - 1), min(count, high + 10 + int(2.0 * math.sqrt(count * rate)))
        numbers = np.arange(low, high + 1, dtype=np.float64)
        outside = float(binom.cdf(low - 1, count, rate) + binom.sf(high, count, rate))
        return numbers, binom.pmf(numbers, count, rate), outside

    def delta(self, epsilon: float) -> float:
        plain = Approximate(self.local_epsilon).delta(epsilon)
        if plain == 0.0:
            return 0.0
        numbers, chances, outside = self._clones
        # The smaller chance is not 1 - a: that would lose the digits which e^epsilon brings back.
        shrunk, growth = math.exp(-self.local_epsilon), math.exp(min(epsilon, 700.0))
        a, b = 1.0 / (1.0 + shrunk), shrunk / (1.0 + shrunk)
        # The likelihood ratio rises with the number seen, so the best test is a threshold: where the ratio passes e^epsilon.
        at = (numbers + 1.0) * (growth * a - b) / ((a - b) * (1.0 + growth))
        best, seen = np.zeros_like(numbers), np.zeros_like(numbers)
        # Rounding may misplace the threshold by one; the largest of its neighbours is the one meant.
        tails = [_at_least(np.ceil(at) + shift, numbers) for shift in (-2.0, -1.0, 0.0, 1.0)]
        for here, next_one in pairwise(tails):
            first, second = a * here + b * next_one, b * here + a * next_one
            best, seen = np.maximum(best, first - growth * second), np.maximum(seen, first)
        # Binomial tails are known to about 1e-12 of their size.
        found = float(chances @ best) + 1e-11 * float(chances @ seen) + outside
        return min(1.0, plain, found)

    def epsilon(self, delta: float) -> float:
        if delta <= 0.0 or self.delta(0.0) <= delta:
            return self.local_epsilon if delta <= 0.0 else 0.0
        low, high = 0.0, self.local_epsilon
        # Each step costs a sum over all clones: eight digits are enough, and the end that is kept is the private one.
        while high - low > 1e-8 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    @property
    def flat_from(self) -> float | None:
        return self.local_epsilon

    def steps(self, count: int) -> Curve:
        return ManySteps(self, count)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "reports": self.reports, "epsilon": self.local_epsilon}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(fields["reports"], fields["epsilon"])


def _at_least(threshold: Any, trials: Any) -> Any:
    """The chance that Bin(trials, 1/2) is at least a threshold."""
    from scipy.special import betainc

    inside = np.clip(threshold, 1.0, np.maximum(trials, 1.0))
    tail = betainc(inside, np.maximum(trials, 1.0) - inside + 1.0, 0.5)
    return np.where(threshold <= 0.0, 1.0, np.where(threshold > trials, 0.0, tail))
