"""One design among others, at the same sampling rate or the same sample size: what each says of itself for a comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..errors import BadValue
from ..privacy.relation import Neighbours, Relation
from .base import Design
from .frame import Frame

# Units in each cluster of a comparison.
CLUSTER = 10
LARGE = 1_000_000
MOST_UNITS = 10**15
# Designs that list their clusters or units are shown up to so many of them.
MOST = 2_000


@dataclass(frozen=True)
class AtRate:
    """A sampling rate, and the size of the frame that errors are predicted for."""

    rate: float
    size: int

    @property
    def fraction(self) -> tuple[int, int]:
        """The rate as a fraction with a denominator of at most a million, rounded up so that it is never too small.

        >>> AtRate(0.02, 1000).fraction
        (1, 50)
        """
        if self.rate < 1.0 / MOST_UNITS:
            raise BadValue("no frame is so large that this rate draws anybody", given=f"rate={self.rate}")
        exact = Fraction(repr(self.rate))
        if exact.denominator <= LARGE:
            return exact.numerator, exact.denominator
        if self.rate < 1.0 / LARGE:
            return 1, math.floor(1.0 / self.rate)
        near = Fraction(math.ceil(exact * LARGE), LARGE)
        return near.numerator, near.denominator

    @property
    def counts(self) -> tuple[int, int]:
        """Units drawn and units there are, in a large population."""
        taken, of = self.fraction
        many = max(1, LARGE // of)
        return taken * many, of * many

    @property
    def n(self) -> int:
        """Units drawn from the frame that errors are predicted for."""
        return max(2, round(self.rate * self.size))

    @property
    def clusters(self) -> int:
        """Clusters of that frame."""
        return max(2, self.size // CLUSTER)


@dataclass(frozen=True)
class SameSize:
    """What a plan draws, for other designs to draw as many from the same frame.

    `clusters` is a public column with the number of its clusters and the units in one at most, `sizes` a public column of sizes
    with the largest probability; None where none is named.
    """

    frame: Frame
    n: int
    rate: float
    clusters: tuple[str, int, int] | None = None
    sizes: tuple[str, float] | None = None


@dataclass(frozen=True)
class Candidate:
    """A design that draws as many, and the extremes of its weights where units have weights of their own."""

    name: str
    design: Design
    weight_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Compared:
    """A design with the relations that it is compared under, and a word on why.

    `drawn` is the design on the frame that errors are predicted for, where one is drawn like it; `inside` the share that is
    taken of a drawn cluster, where there are clusters.
    """

    name: str
    design: Design
    base: Relation
    neighbours: Neighbours
    note: str
    drawn: Design | None = None
    inside: float | None = None
