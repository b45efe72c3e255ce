"""Parts: strata, or the whole frame, with their public selection figures; and how far a sample of them can grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .replicates import Replicates


@dataclass(frozen=True)
class Part:
    """A stratum, or the whole frame (label None), with its public selection figures.

    >>> Part(None, 0.02).weight
    50.0
    """

    label: str | None
    probability: float
    take: int | None = None
    size: int | None = None
    # Drawn with replacement: no finite population correction.
    replaced: bool = False

    @property
    def weight(self) -> float:
        """The design weight, one over the inclusion probability."""
        return 1.0 / self.probability


@dataclass(frozen=True)
class Clustering:
    """Clusters as a design draws them: how many in each stratum where that is fixed, of how many where that is declared.

    `whole` says that all units of a drawn cluster are taken. With `replicates` a variance is taken from replicate weights, and
    there may be no column of clusters.
    """

    drawn: int | None = None
    listed: int | None = None
    strata: tuple[str, ...] = ()
    whole: bool = True
    replicates: Replicates | None = None

    def replicate_freedom(self, *, in_one_stratum: bool) -> float:
        """The degrees of freedom of replicate weights: no more than clusters less strata, where clusters are named."""
        assert self.replicates is not None
        if self.drawn is None:
            return self.replicates.freedom(None)
        own = 1 if in_one_stratum else max(1, len(self.strata))
        return self.replicates.freedom(float(own * (self.drawn - 1)))


class DeclaredClusters(NamedTuple):
    """What is declared of clusters, in one stratum or (None) the whole frame: how many, the most and the fewest units in one.

    Clusters of a later stage are those that agree in all of the columns.
    """

    stratum: str | None
    columns: tuple[str, ...]
    number: int | None
    most: int | None
    fewest: int | None


def common_factor(parts: Sequence[Part], factor: float) -> float:
    """By what all rates are multiplied, none above 1, so that all parts together have `factor` times as many units.

    >>> parts = (Part("a", 0.1, size=100), Part("b", 0.5, size=100))
    >>> round(common_factor(parts, 2.0), 4), common_factor(parts, 9.0)
    (2.0, 10.0)
    >>> round(common_factor(parts, 2.5), 4)
    5.0
    """
    if any(part.size is None for part in parts) or all(part.replaced for part in parts):
        return factor
    now = sum((part.size or 0) * part.probability for part in parts)
    low, high = 0.0, max(factor, 1.0) * now / min((part.size or 0) * part.probability for part in parts)
    if factor >= largest_factor(parts) * (1.0 - 1e-12):
        return 1.0 / min(part.probability for part in parts)
    while low < (middle := 0.5 * (low + high)) < high:
        # Drawn with replacement, a part has no end.
        rates = [middle * part.probability if part.replaced else min(1.0, middle * part.probability) for part in parts]
        reached = sum((part.size or 0) * rate for part, rate in zip(parts, rates, strict=True))
        low, high = (middle, high) if reached < factor * now else (low, middle)
    return high


def largest_factor(parts: Sequence[Part]) -> float:
    """How many times larger the sample could be: all units over those drawn; where sizes are unknown, until one part is full."""
    if any(part.replaced for part in parts):
        return math.inf
    if any(part.size is None for part in parts) or not parts:
        return 1.0 / max((part.probability for part in parts), default=1.0)
    return sum(part.size or 0 for part in parts) / sum((part.size or 0) * part.probability for part in parts)
