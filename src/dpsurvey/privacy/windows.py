"""Windows of permanent random numbers: who is in which samples, and what they lose together.

Every unit has one number u, uniform on a circle of length 1. A sample holds the units whose u lies in its window
[start, start + rate). So the samples a unit is in, its *pattern*, are those whose windows u lies in, and the
probability of a pattern is the length of an arc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from ..errors import BadValue
from .rounding import log_mixture, up


@dataclass(frozen=True)
class Window:
    """The numbers of one sample: from `start` on, around the clock, as far as the largest inclusion probability.

    >>> Window(0.98, 0.05).holds(Fraction(1, 100))
    True
    """

    start: float
    rate: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.start < 1.0 and 0.0 < self.rate <= 1.0):
            raise BadValue("a window starts in [0, 1) and has a rate in (0, 1]", given=f"start={self.start}, rate={self.rate}")

    def holds(self, number: Fraction) -> bool:
        """Whether a unit with this number is drawn."""
        return (number - Fraction(self.start)) % 1 < Fraction(self.rate)


@dataclass(frozen=True)
class Pattern:
    """The samples that a unit is in, by their positions, and the probability of that."""

    samples: tuple[int, ...]
    probability: Fraction


def patterns(windows: Sequence[Window]) -> tuple[Pattern, ...]:
    """Every pattern with a positive probability, the empty one left out. Exact: arcs are measured as fractions.

    >>> [(each.samples, round(float(each.probability), 3)) for each in patterns([Window(0.0, 0.02), Window(0.015, 0.02)])]
    [((0,), 0.015), ((0, 1), 0.005), ((1,), 0.015)]
    """
    cuts = {Fraction(0)}
    for window in windows:
        start = Fraction(window.start)
        cuts |= {start % 1, (start + Fraction(window.rate)) % 1}
    ends = [*sorted(cuts), Fraction(1)]
    found: dict[tuple[int, ...], Fraction] = {}
    for low, high in pairwise(ends):
        inside = tuple(number for number, window in enumerate(windows) if window.holds(low))
        if inside and high > low:
            found[inside] = found.get(inside, Fraction(0)) + high - low
    return tuple(Pattern(samples, probability) for samples, probability in found.items())


def joint_loss(windows: Sequence[Window], losses: Sequence[float]) -> float:
    """The pure loss of somebody on the frame from all samples of one key: log of the mean of e^(loss of their pattern).

    log(1 + sum over patterns of p (e^(sum of losses) - 1)), rounded up. Exact for one unit more or less and Poisson
    samples, and it holds however each release is chosen after the answers before it (docs/guides/ledger.md, Theorem L2).

    >>> round(joint_loss([Window(0.0, 0.02)] * 2, [3.0, 3.0]), 4), round(joint_loss([Window(0.0, 0.02)], [6.0]), 4)
    (2.2026, 2.2026)
    """
    parts = [
        (up(float(each.probability)), up(math.fsum(losses[number] for number in each.samples))) for each in patterns(windows)
    ]
    return up(max(0.0, log_mixture(*parts)))


def worst_pattern(windows: Sequence[Window], losses: Sequence[float]) -> float:
    """The largest sum of losses of any pattern: what somebody loses who is known to be in all the samples they are in.

    >>> round(worst_pattern([Window(0.0, 0.02), Window(0.02, 0.02)], [3.0, 2.0]), 9)
    3.0
    """
    return max((up(math.fsum(losses[number] for number in each.samples)) for each in patterns(windows)), default=0.0)
