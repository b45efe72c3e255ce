"""Exact sums of the parts of a sample, with the quadratic form in them that is a squared standard error, in whole numbers.

Between clusters the form compares the clusters of a stratum; between replicates it adds up the squares by which estimates with
replicate weights differ from the estimate. Both are fixed between neighbours whose answers differ in their place, so that the
root of either is a length, which `mechanism.cluster_norm` gives noise. Printing them shows nothing, and nothing copies them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import BadValue

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
# What is known of a number's standard error: its length, the factor to it, and degrees of freedom.
Measured = tuple[int, float, float]
# Steps of the leverage of a cluster, of the weight of a stratum and of the scale of a replicate.
LEVER = 2**20
# The most that leaving out one cluster is taken to move the rest.
MOST_LEVERAGE = 0.75
# How alike the records of a cluster are taken to be, for the degrees of freedom: a common intra-class correlation.
ALIKE = 0.05


class ExactSums:
    """Exact sums that stay where they are."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(not shown)"

    def __reduce__(self) -> Any:
        raise BadValue("exact sums are not pickled or copied", because="only what has noise leaves the engine")


@dataclass(frozen=True, repr=False)
class ReplicateTotals(ExactSums):
    """Exact sums with the weights and then with each set of replicate weights, in lattice steps, and what is held fixed of them.

    `sums` is (1 + replicates, cells, components). `scales` are the factors of the squared differences. `reach` is no less than
    the root of sum c_r (k_r - k)^2 over the replicates of any record, k and k_r its steps.
    """

    sums: Whole
    scales: tuple[float, ...]
    reach: int
    freedom: float

    @property
    def whole(self) -> Whole:
        """The sums of the whole sample: (cells, components)."""
        return np.asarray(self.sums[0])

    @property
    def unit(self) -> int:
        """Parts of a length that stand for a residual of one step."""
        return LEVER

    def moved(self, together: int, rounding: int, steps: int) -> int:
        """How far one record moves the lengths of all numbers together at most, in parts of a length."""
        # The sums of a record, and of the one in its place, are rounded apart for the weights and for every replicate.
        apart = 4.0 * rounding * math.sqrt(math.fsum(self.scales))
        return max(1, LEVER * (together * self.reach + math.ceil(apart * (1.0 + 1e-9))))

    def lengths(self, coefficients: Whole, members: Flags, levers: Flags, groups: int) -> list[Measured]:
        """Of every number the root of sum c_r (residual with replicate r - residual)^2; replicates know leverages themselves."""
        apart = (self.sums[1:] - self.sums[:1]).reshape(len(self.scales), -1)
        # Rounded down, so that no scale is larger than it says.
        scales = [int(scale * LEVER * LEVER) for scale in self.scales]
        found: list[Measured] = []
        for each in coefficients.reshape(len(coefficients), -1):
            squares = (scale * part**2 for scale, part in zip(scales, residuals(apart, each), strict=True))
            found.append((math.isqrt(sum(squares)), 1.0, self.freedom))
        return found


@dataclass(frozen=True, repr=False)
class ClusterTotals(ExactSums):
    """Exact sums of every cluster, in lattice steps, and what is held fixed of it.

    `sums` is (clusters, cells, components). `units` is (clusters, groups), the steps of whole records in every group that no
    record can change, or one column for all. `stratum` is the place of each cluster's stratum, `fractions` the share of clusters
    drawn by stratum. `per_record` is the mean number of steps of a whole record, each counted by its steps.
    """

    sums: Whole
    units: Whole
    stratum: Whole
    fractions: Array
    per_record: float = 0.0

    @property
    def whole(self) -> Whole:
        """The sums of the whole sample: (cells, components)."""
        return np.asarray(self.sums.sum(axis=0))

    @property
    def unit(self) -> int:
        """Parts of a length that stand for a residual of one step."""
        return LEVER * LEVER

    def moved(self, together: int, rounding: int, steps: int) -> int:
        """How far one record moves the lengths of all numbers together at most, in parts of a length."""
        # A record is in one cluster, where its rounded sums are what they are: nothing is rounded twice.
        return together * steps * self.unit

    def lengths(self, coefficients: Whole, members: Flags, levers: Flags, groups: int) -> list[Measured]:
        """Of every number the root of the variance between clusters, summed over groups, with the leverage of the jackknife."""
        flat = self.sums.reshape(len(self.sums), -1)
        dealt = deal_groups(self, groups)
        units = self._units_of(members)
        found: list[Measured] = []
        for number, each in enumerate(coefficients.reshape(len(coefficients), -1)):
            factors, most = self._levers(units[number], dealt, lever=bool(levers[number]))
            length = self._length_of(residuals(flat, each), factors, dealt)
            factor, freedom = self._figures(units[number], dealt)
            found.append((length, most * factor, freedom))
        return found

    def _fraction(self, clusters: npt.NDArray[np.intp]) -> float:
        """The share of clusters drawn in the stratum of some clusters."""
        return min(max(float(self.fractions[self.stratum[clusters[0]]]), 0.0), 1.0)

    def _cells(self, dealt: Whole) -> list[npt.NDArray[np.intp]]:
        """The clusters that are compared with each other: those of a stratum, of a group where there is one stratum."""
        strata = int(self.stratum.max(initial=0)) + 1
        key = self.stratum if strata > 1 else dealt
        return np.split(np.argsort(key, kind="stable"), np.cumsum(np.bincount(key))[:-1])

    def _units_of(self, members: Flags) -> Array:
        """The units of every number by cluster, of what no record can change: (numbers, clusters)."""
        units = self.units.astype(np.float64)
        if units.shape[1] == 1:
            return np.broadcast_to(units[:, 0], (len(members), len(units)))
        return np.asarray(members.astype(np.float64) @ units.T)

    def _levers(self, units: Array, dealt: Whole, *, lever: bool) -> tuple[list[int], float]:
        """What the jackknife makes of each cluster's residual, over the most that it makes of any, and that most.

        Leaving out cluster c and raising the others of its stratum moves the units by m/(m-1) (D_c - mean of D).
        """
        whole = units.sum()
        factors = np.ones(len(units))
        if lever and whole > 0.0:
            for own in self._cells(dealt):
                if len(own) > 1:
                    moved = len(own) / (len(own) - 1.0) * (units[own] - units[own].mean()) / whole
                    factors[own] = 1.0 / (1.0 - np.clip(moved, -MOST_LEVERAGE, MOST_LEVERAGE))
        most = float(factors.max(initial=1.0))
        return [int(each) for each in np.floor(factors / most * LEVER)], most

    def _length_of(self, apart: list[int], levers: list[int], dealt: Whole) -> int:
        """The sum over groups of the root of sum (1-f) m/(m-1) ((z - mean of z) times the leverage)^2, in whole parts."""
        squares: dict[int, int] = {}
        for own in self._cells(dealt):
            count = len(own)
            if count < 2:
                continue
            # Of (1-f)/(m(m-1)) the root, rounded down: m z - sum z moves by sqrt(m(m-1)) times what one z does, and leverages
            # over the largest of them are at most 1.
            finite = int((1.0 - self._fraction(own)) * LEVER * LEVER) * LEVER * LEVER
            weight = math.isqrt(finite // (count * (count - 1)))
            total = sum(apart[place] for place in own)
            square = sum(((count * apart[place] - total) * levers[place]) ** 2 for place in own)
            group = int(dealt[own[0]])
            squares[group] = squares.get(group, 0) + weight * weight * square
        # Weights have LEVER steps squared, one of which is taken off here.
        return sum(math.isqrt(each) for each in squares.values()) // LEVER

    def _figures(self, units: Array, dealt: Whole) -> tuple[float, float]:
        """By what a length becomes a standard error, and the degrees of freedom.

        Variances of strata are taken to go by those of records that are correlated by `ALIKE` within their cluster.
        """
        from scipy.special import gammaln

        shares, freedoms, groups = self._by_cell(units, dealt)
        held = shares > 0.0
        if not held.any():
            return 1.0, 1.0
        freedom = self._freedom(shares, freedoms, dealt)
        parts = np.unique(groups[held])
        if len(parts) == 1:
            # One length squared is unbiased as it is.
            return 1.0, freedom
        sizes = np.array([shares[held & (groups == each)].sum() for each in parts])
        nu = np.array([freedoms[held & (groups == each)].sum() for each in parts])
        unbiased = np.sqrt(2.0 / nu) * np.exp(gammaln((nu + 1.0) / 2.0) - gammaln(nu / 2.0))
        expected = float((np.sqrt(sizes) * unbiased).sum() ** 2 + (sizes * (1.0 - unbiased**2)).sum())
        return math.sqrt(float(sizes.sum()) / expected), freedom

    def _by_cell(self, units: Array, dealt: Whole) -> tuple[Array, Array, Whole]:
        """Of each set of clusters that are compared its part of the variance, its degrees of freedom and its group."""
        found = []
        for own in self._cells(dealt):
            if len(own) > 1:
                alone, together = self.per_record * float(units[own].sum()), float((units[own] ** 2).sum())
                share = (1.0 - self._fraction(own)) * ((1.0 - ALIKE) * alone + ALIKE * together)
                found.append((share, len(own) - 1.0, int(dealt[own[0]])))
        rows = np.array(found, dtype=np.float64).reshape(-1, 3)
        return rows[:, 0], rows[:, 1], rows[:, 2].astype(np.int64)

    def _freedom(self, shares: Array, freedoms: Array, dealt: Whole) -> float:
        """Satterthwaite's degrees of freedom of a number; of a group in some strata at least their part of those of all units.

        How a small group lies in strata says less of how their variances differ than how all units do.
        """
        whole, _, _ = self._by_cell(self.units.sum(axis=1).astype(np.float64), dealt)
        held = shares > 0.0
        part = float(freedoms[held].sum() / freedoms[whole > 0.0].sum())
        return max(_satterthwaite(shares, freedoms), part * _satterthwaite(whole, freedoms))


def _satterthwaite(shares: Array, freedoms: Array) -> float:
    return float(shares.sum() ** 2 / max(float((shares**2 / freedoms).sum()), 1e-300))


def residuals(sums: Whole, coefficients: Whole) -> list[int]:
    """What every part of a sample adds to an error, in whole numbers of any length: sums are (parts, coefficients)."""
    used = np.flatnonzero(coefficients)
    products = sums[:, used].astype(object) * coefficients[used].astype(object)
    return [int(sum(row)) for row in products]


def deal_groups(totals: ClusterTotals, groups: int) -> Whole:
    """The group of each cluster: whole strata dealt out by size, there and back; without strata clusters, so that each has many.

    It depends on what is held fixed alone.
    """
    strata = int(totals.stratum.max(initial=0)) + 1
    units = totals.units.sum(axis=1)
    of = totals.stratum if strata > 1 else np.arange(len(units))
    if strata == 1:
        # As many as leave two clusters or more to each group.
        groups = max(1, min(groups, len(units) // 2))
    sizes = np.bincount(of, weights=units.astype(np.float64))
    order = np.argsort(-sizes, kind="stable")
    turns, places = np.divmod(np.arange(len(order)), groups)
    dealt = np.empty(len(order), dtype=np.int64)
    dealt[order] = np.where(turns % 2 == 0, places, groups - 1 - places)
    return np.asarray(dealt[of])
