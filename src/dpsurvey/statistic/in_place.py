"""The sums of records whose answers alone may change: weights, numbers of records and squares of weights cost nothing.

Where neighbours differ in the answers of one record, and in nothing that it was drawn, weighted or grouped by, a record counts
u = w/w_max <= 1 in both. With t = y - c for a public centre c, and b = 1 (L1) or phi^2.5 (L2), it adds K times

    u t,   u,   b u(1-u) t,   b u^2(1-pi) (y(1-y) - c(1-c)),   u^2(1-pi),   u^3

and with d = |y - y'| and z = u d it moves them by at most z, 0, b z(1-u), b z u(1-d), 0 and 0: in L1 by z(2 - z) <= 1, and in L2,
because (1-u)^2 + u^2(1-d)^2 <= (1-z)^2, by no more than moments do. So the variance of a weighted mean is free, with its squared
weights. Proof: docs/proofs/estimation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..mechanism.base import Norm
from .encodings import SECOND_MOMENT_SCALE, Bends, Encoding, Moves, Row, part_with_squares
from .estimators.interval import Array
from .facts import Facts


@dataclass(frozen=True)
class InPlace(Encoding):
    """A weighted value around a public centre, the record, and what the variance of their quotient is made of.

    `alike` says that all weights are the same, `counts` that values are yes or no, and `thinned` that the chance of a record to
    be drawn, which is its weight's inverse, takes its part off the variance.
    """

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "in place"
    bends: ClassVar[Bends] = "with noise"
    rounds_counts: ClassVar[bool] = True
    counting: ClassVar[tuple[int, ...]] = (1,)
    centre: float = 0.5
    scale: float = 1.0
    alike: bool = False
    counts: bool = False
    thinned: bool = False

    @classmethod
    def under(cls, facts: Facts, centre: float, *, counts: bool = False, cut: bool = False) -> InPlace:
        """The sums with the largest scale that the norm leaves free; `cut` where weights are no inverse chances any more."""
        drawn = not (cut or facts.collected or any(part.replaced for part in facts.parts))
        return cls(centre, SECOND_MOMENT_SCALE[facts.norm], not facts.weights_differ, counts, drawn)

    @property
    def width(self) -> int:
        return 2 + (not self.counts) + 3 * (not self.alike)

    @property
    def moves(self) -> Moves:
        # Nobody comes or goes where these sums are asked; what that would move is stated all the same. Sums may be negative
        # here, so the L2 figure holds the root of 2 by which two records may be further apart than either is from nothing.
        most = max(abs(self.centre), abs(1.0 - self.centre))
        product = self.centre * (1.0 - self.centre)
        parts = (most, 1.0, self.scale * most / 4.0, self.scale * max(abs(product), abs(0.25 - product)), 1.0, 1.0)
        return Moves(math.fsum(parts), math.sqrt(2.0 * math.fsum(part**2 for part in parts)), 1.0, 1.0)

    def part(self, share: float, norm: Norm) -> float:
        return share if self.alike else part_with_squares(share, self.scale, norm)

    def slack(self, components: int) -> float:
        # Of these sums three at most move, and all of them are rounded.
        return 3.0

    def record(self, row: Row) -> list[Any]:
        steps, share = row.steps, row.share
        # Yes and no are whole steps; of a measured value each sum is rounded by itself, and moves by one step more.
        apart = row.answer - row.to_steps(steps * self.centre) if self.counts else steps * (row.y - self.centre)
        sums = [apart if self.counts else row.to_steps(apart), steps]
        if not self.alike:
            sums.append(row.to_steps(self.scale * ((1.0 - share) * apart)))
        squared = row.thinned if self.thinned else steps * share
        if not self.counts:
            product = row.y * (1.0 - row.y) - self.centre * (1.0 - self.centre)
            sums.append(row.to_steps(self.scale * (squared * product)))
        return sums if self.alike else [*sums, row.to_steps(squared), row.to_steps(steps * (share * share))]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        # Sums over the steps of a record, so each has one factor u less; weights as if spread evenly on a logarithmic scale.
        low, high = facts.weights
        typical, least = math.sqrt(low / high), self.least(facts)
        squared = typical - least if self.thinned else typical
        found = [mean - self.centre, 1.0]
        found += [] if self.alike else [self.scale * (1.0 - typical) * (mean - self.centre)]
        found += [] if self.counts else [self.scale * squared * (mean - square - self.centre * (1.0 - self.centre))]
        return np.asarray(found if self.alike else [*found, squared, typical**2])

    def least(self, facts: Facts) -> float:
        """u pi, which is the same for every record that counts by the inverse of its chance; 0 where chances take nothing off."""
        return 1.0 / facts.largest_weight if self.thinned else 0.0
