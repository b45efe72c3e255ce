"""Noisy sums of a cluster sample, and the standard errors that they make for, each bought as a norm.

A standard error between clusters is the length of a vector that is linear in the answers: sqrt(y'My) with M fixed between
neighbours whose answers differ in their place. By the reverse triangle inequality it moves no further than the vector does, so
its sensitivity is that of a total: no cluster has to be cut, however large. Theorem N, docs/proofs/estimation.md.

Two steps, each with a part of the charge. First the sums get noise. From the noisy sums follows, for every number, what one
record adds to its error: `directions`. Then the length of these residuals is taken, in whole numbers from the first to the last
operation, scaled so that one record moves all lengths together by one unit at most, and gets noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..privacy.budget import take_share
from ..privacy.profile import PrivacyProfile
from .base import Array, Mechanism, Norm, Rows

Whole = npt.NDArray[np.int64]
# Whole steps of the length that one record moves at most.
NORM_STEPS = 2**30
# Steps of the residual that a record makes, of the leverage of a cluster, and of the weight of a stratum.
FINE = 2**30
LEVER = 2**20
# The most that leaving out one cluster is taken to move the rest.
MOST_LEVERAGE = 0.75
# Figures of the design are printed to this many digits, upward.
DIGITS = 4


class ClusterTotals(Protocol):
    """Exact sums of every cluster, in lattice steps, and what is held fixed of it, as an engine hands them over."""

    @property
    def sums(self) -> Whole:
        """The sums: (clusters, cells, components)."""

    @property
    def units(self) -> Whole:
        """The steps of whole records in every group that no record can change, or in one column of all: (clusters, groups)."""

    @property
    def stratum(self) -> Whole:
        """The place of the stratum of each cluster."""

    @property
    def fractions(self) -> Array:
        """The share of clusters drawn, by stratum."""


@dataclass(frozen=True)
class _Nobody:
    """Totals of one cluster, for a trial without rows."""

    sums: Whole
    units: Whole
    stratum: Whole
    fractions: Array


@dataclass(frozen=True)
class Directions:
    """What one record adds to the error of every number: by number, cell and component, on the scale of the number.

    `members` says which groups a number is of (numbers by groups), `levers` whether it is divided by the units of its groups.
    """

    per_record: Array
    members: npt.NDArray[np.bool_]
    levers: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Reach:
    """Which records a neighbour may have in the place of one: `extremes` are the components at the corners of what a record adds.

    `stays` says that it adds to the same cell; `may_be_nothing` that it may also add nothing.
    """

    extremes: Array
    stays: bool
    may_be_nothing: bool

    def columns(self, per_record: Array) -> tuple[Array, int]:
        """What a record at each corner adds to each number: (numbers, cells times corners), and the corners of a cell."""
        # A sum of those who are left out is no part of any number, and may not be among what is told of them.
        added = np.einsum("ncj,ej->nce", per_record, self.extremes[:, : per_record.shape[-1]])
        if self.may_be_nothing:
            added = np.concatenate([added, np.zeros((*added.shape[:-1], 1))], axis=-1)
        return added.reshape(len(added), -1), added.shape[-1]

    def farthest(self, columns: Array, corners: int, norm: Norm) -> float:
        """How far all numbers together move at most, from one possible record to another."""
        if self.stays:
            blocks = columns.reshape(len(columns), -1, corners)
            if corners > FEW_CORNERS:
                # Each number by its own whole range: exact for one, no less for several.
                ranges = blocks.max(axis=-1) - blocks.min(axis=-1)
                return float(_length(ranges, norm).max(initial=0.0))
            pairs = ((blocks[:, :, i] - blocks[:, :, j]) for i in range(corners) for j in range(i))
            return max((float(_length(each, norm).max()) for each in pairs), default=0.0)
        if columns.shape[1] > MOST_PAIRS:
            # Of two columns no more than both lengths together; measured from the middle of all, which is no record.
            apart = columns - 0.5 * (columns.max(axis=1, keepdims=True) + columns.min(axis=1, keepdims=True))
            lengths = np.sort(np.minimum(_length(columns, norm), np.inf))
            centred = np.sort(_length(apart, norm))
            return float(min(lengths[-2:].sum(), centred[-2:].sum()))
        most = 0.0
        for place in range(columns.shape[1]):
            most = max(most, float(_length(columns - columns[:, place : place + 1], norm).max()))
        return most


# Corners that are compared two by two: of one cell, and of all.
FEW_CORNERS, MOST_PAIRS = 16, 600


def _length(columns: Array, norm: Norm) -> Array:
    return np.asarray(np.abs(columns).sum(axis=0) if norm == "L1" else np.sqrt((columns**2).sum(axis=0)))


@dataclass(frozen=True)
class SumsAndNorms:
    """Answers the sums of clusters with noisy sums of all of them, and a noisy standard error for every number.

    The last rows of an answer are [length, factor, degrees of freedom], one for each number: the standard error is the length
    times the factor over `NORM_STEPS`; both other figures are of the design, rounded.
    """

    of_sums: Mechanism
    of_norms: Mechanism
    directions: Callable[[Array], Directions] = field(compare=False, repr=False)
    reach: Reach = field(compare=False, repr=False)
    groups: int
    share: float
    # Lattice steps of a whole record.
    steps: int

    @classmethod
    def calibrate(
        cls,
        charge: PrivacyProfile,
        additive: type[Mechanism],
        sensitivity: float,
        directions: Callable[[Array], Directions],
        reach: Reach,
        numbers: int,
        *,
        groups: int,
        freedom: float,
        steps: int,
        times: float = 1.0,
    ) -> SumsAndNorms:
        """The share of the charge that makes intervals narrowest goes to the lengths; `times` how many records one may move."""
        share = norm_share(groups, freedom, additive.norm)
        # Rounding down to whole steps moves each length by less than two of them.
        moved = NORM_STEPS * times + 2.0 * (numbers if additive.norm == "L1" else math.sqrt(numbers)) + 1.0
        of_sums = additive.calibrate(take_share(charge, 1.0 - share), sensitivity)
        of_norms = additive.calibrate(take_share(charge, share), float(math.ceil(moved)))
        return cls(of_sums, of_norms, directions, reach, groups, share, steps)

    @property
    def norm(self) -> Norm:
        """In which norm neighbours are measured."""
        return self.of_sums.norm

    @property
    def kind(self) -> str:
        """The kind of both noises."""
        return self.of_sums.kind

    @property
    def kurtosis(self) -> float:
        """The excess kurtosis of both noises."""
        return self.of_sums.kurtosis

    @property
    def scale(self) -> float:
        """The scale of the noise on the sums."""
        return self.of_sums.scale

    @property
    def sensitivity(self) -> float:
        """The sensitivity of the sums, in their steps."""
        return self.of_sums.sensitivity

    @property
    def variance(self) -> float:
        """The noise variance of one sum, in its squared steps."""
        return self.of_sums.variance

    @property
    def length_noise(self) -> float:
        """The deviation of the noise of a length, in units of what one record moves."""
        return math.sqrt(self.of_norms.variance) / NORM_STEPS

    def answer(self, totals: ClusterTotals | Rows) -> list[list[Any]]:
        """Noisy sums by cell, and then one row for every number. Rows without clusters, as for a trial, have lengths of 0."""
        if isinstance(totals, list):
            totals = _one_cluster(totals, len(self.reach.extremes[0]))
        rows = self.of_sums.answer(totals.sums.sum(axis=0).tolist())
        directions = self.directions(np.asarray(rows, dtype=np.float64))
        lengths, figures = exact_norms(totals, directions, self.reach, self.groups, self.norm, self.steps)
        noisy = self.of_norms.randomize(lengths)
        return [*rows, *([length, *figure] for length, figure in zip(noisy, figures, strict=True))]


def _one_cluster(rows: Rows, components: int) -> ClusterTotals:
    sums = np.asarray(rows, dtype=np.int64).reshape(1, -1, components)
    return _Nobody(sums, np.ones((1, 1), dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(1))


def figures_to_expect(directions: Directions, mechanism: SumsAndNorms, strata: int, clusters: int) -> list[tuple[float, float]]:
    """(factor, degrees of freedom) of every number, if strata have equally many clusters, and clusters equally many units."""
    stratum = np.repeat(np.arange(strata), clusters)
    cells, components = directions.per_record.shape[1:]
    members = directions.members.shape[1]
    even = _Nobody(
        np.zeros((len(stratum), cells, components), dtype=np.int64),
        np.ones((len(stratum), members), dtype=np.int64),
        stratum,
        np.zeros(strata),
    )
    return exact_norms(even, directions, mechanism.reach, mechanism.groups, mechanism.norm, mechanism.steps)[1]


def norm_share(groups: int, freedom: float, norm: Norm) -> float:
    """The share of a charge that goes to the standard error, so that the interval is narrowest, whatever the data.

    It minimises z^2 v1 + t^2 z^2 tau^2, where v1 and tau^2 fall with the squares of their shares of an epsilon, and with their
    shares of a rho. It is no option: with less than three quarters of it intervals undercover.

    >>> round(norm_share(1, 15.0, "L1"), 2), round(norm_share(3, 15.0, "L1"), 2), round(norm_share(1, 15.0, "L2"), 2)
    (0.62, 0.53, 0.68)
    """
    from scipy.special import stdtrit

    t = float(stdtrit(max(freedom, 1.0), 0.975))
    ratio = (t * t / groups) ** (1.0 / 3.0) if norm == "L1" else t / math.sqrt(groups)
    return ratio / (1.0 + ratio)


def exact_norms(
    totals: ClusterTotals, directions: Directions, reach: Reach, groups: int, norm: Norm, steps: int
) -> tuple[list[int], list[tuple[float, float]]]:
    """The lengths in whole steps, and (factor, degrees of freedom) of every number.

    A neighbour moves all lengths together by at most `NORM_STEPS`, and by rounding less than two steps more for each:
    residuals, leverages and weights of strata are whole numbers, their squares are exact, and the root is rounded down.
    """
    coefficients, scales = _whole_coefficients(directions.per_record, reach, norm)
    columns, corners = reach.columns(coefficients.astype(np.float64))
    # Whole numbers below 2^53 as doubles: differences are exact, and their sum is rounded up.
    together = max(1, math.ceil(reach.farthest(columns, corners, norm) * (1.0 + 1e-9)))
    flat = totals.sums.reshape(len(totals.sums), -1)
    dealt = deal_groups(totals, groups)
    units = _units_of(totals, directions.members)
    lengths, figures = [], []
    for number, scale in enumerate(scales):
        levers, most = _levers(units[number], totals, dealt, lever=bool(directions.levers[number]))
        residuals = _residuals(flat, coefficients[number].ravel())
        length = _length_of(residuals, levers, totals, dealt)
        factor, freedom = _figures(units[number], totals, dealt)
        lengths.append(length * NORM_STEPS // (together * steps * _step()))
        whole = scale * together / FINE * most * factor
        figures.append((_upward(whole), math.floor(10.0 * freedom) / 10.0))
    return lengths, figures


def _residuals(sums: Whole, coefficients: Whole) -> list[int]:
    """What every cluster adds to an error, in whole numbers of any length."""
    used = np.flatnonzero(coefficients)
    products = sums[:, used].astype(object) * coefficients[used].astype(object)
    return [int(sum(row)) for row in products]


def _step() -> int:
    """Steps of the length of a residual of one."""
    return LEVER * LEVER


def _whole_coefficients(per_record: Array, reach: Reach, norm: Norm) -> tuple[npt.NDArray[np.int64], list[float]]:
    """What a record adds to each number, every number scaled by how far a record moves it alone, in whole parts of `FINE`."""
    columns, corners = reach.columns(per_record)
    scales = [reach.farthest(columns[place : place + 1], corners, norm) for place in range(len(columns))]
    scaled = np.zeros_like(per_record)
    for place, scale in enumerate(scales):
        if scale > 0.0 and math.isfinite(scale):
            scaled[place] = per_record[place] / scale
    return np.rint(scaled * FINE).astype(np.int64), [scale if math.isfinite(scale) else 0.0 for scale in scales]


def deal_groups(totals: ClusterTotals, groups: int) -> npt.NDArray[np.int64]:
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


def _cells(totals: ClusterTotals, dealt: npt.NDArray[np.int64]) -> list[npt.NDArray[np.intp]]:
    """The clusters that are compared with each other: those of a stratum, of a group where there is one stratum."""
    strata = int(totals.stratum.max(initial=0)) + 1
    key = totals.stratum if strata > 1 else dealt
    return np.split(np.argsort(key, kind="stable"), np.cumsum(np.bincount(key))[:-1])


def _units_of(totals: ClusterTotals, members: npt.NDArray[np.bool_]) -> Array:
    """The units of every number by cluster, of what no record can change: (numbers, clusters)."""
    units = totals.units.astype(np.float64)
    if units.shape[1] == 1:
        return np.broadcast_to(units[:, 0], (len(members), len(units)))
    return np.asarray(members.astype(np.float64) @ units.T)


def _levers(units: Array, totals: ClusterTotals, dealt: npt.NDArray[np.int64], *, lever: bool) -> tuple[list[int], float]:
    """What the jackknife makes of each cluster's residual, over the most that it makes of any, and that most.

    Leaving out cluster c and raising the others of its stratum moves the units by m/(m-1) (D_c - mean of D).
    """
    whole = units.sum()
    factors = np.ones(len(units))
    if lever and whole > 0.0:
        for own in _cells(totals, dealt):
            if len(own) > 1:
                moved = len(own) / (len(own) - 1.0) * (units[own] - units[own].mean()) / whole
                factors[own] = 1.0 / (1.0 - np.clip(moved, -MOST_LEVERAGE, MOST_LEVERAGE))
    most = float(factors.max(initial=1.0))
    return [int(each) for each in np.floor(factors / most * LEVER)], most


def _length_of(residuals: list[int], levers: list[int], totals: ClusterTotals, dealt: Whole) -> int:
    """The sum over groups of the root of sum (1-f) m/(m-1) (z - mean of z)^2, in parts of `_step()`, in whole numbers."""
    squares: dict[int, int] = {}
    for own in _cells(totals, dealt):
        count = len(own)
        if count < 2:
            continue
        fraction = min(max(float(totals.fractions[totals.stratum[own[0]]]), 0.0), 1.0)
        # Of (1-f)/(m(m-1)) the root, rounded down: m z - sum z moves by sqrt(m(m-1)) times what one z does.
        weight = math.isqrt(int((1.0 - fraction) * LEVER * LEVER) * LEVER * LEVER // (count * (count - 1)))
        parts = [int(residuals[place]) * levers[place] for place in own]
        total = sum(parts)
        square = sum((count * part - total) ** 2 for part in parts)
        group = int(dealt[own[0]])
        squares[group] = squares.get(group, 0) + weight * weight * square
    # Weights have LEVER steps squared, one of which is taken off here.
    return sum(math.isqrt(each) for each in squares.values()) // LEVER


def _figures(units: Array, totals: ClusterTotals, dealt: Whole) -> tuple[float, float]:
    """By what a length becomes a standard error, and the degrees of freedom, where variances go by squared units."""
    from scipy.special import gammaln

    shares: dict[int, float] = {}
    freedoms: dict[int, float] = {}
    doubt = 0.0
    for own in _cells(totals, dealt):
        if len(own) < 2:
            continue
        fraction = min(max(float(totals.fractions[totals.stratum[own[0]]]), 0.0), 1.0)
        share, group = (1.0 - fraction) * float(units[own].sum()) ** 2, int(dealt[own[0]])
        shares[group] = shares.get(group, 0.0) + share
        doubt += share**2 / (len(own) - 1.0)
        if share > 0.0:
            freedoms[group] = freedoms.get(group, 0.0) + len(own) - 1.0
    held = [group for group, share in shares.items() if share > 0.0]
    if not held:
        return 1.0, 1.0
    sizes = np.array([shares[group] for group in held])
    nu = np.array([freedoms[group] for group in held])
    unbiased = np.sqrt(2.0 / nu) * np.exp(gammaln((nu + 1.0) / 2.0) - gammaln(nu / 2.0))
    if len(held) == 1:
        # One length squared is unbiased as it is.
        return 1.0, float(sizes.sum() ** 2 / max(doubt, 1e-300))
    expected = float((np.sqrt(sizes) * unbiased).sum() ** 2 + (sizes * (1.0 - unbiased**2)).sum())
    return math.sqrt(float(sizes.sum()) / expected), float(sizes.sum() ** 2 / max(doubt, 1e-300))


def _upward(value: float) -> float:
    """A figure of the design, rounded up to a few digits: a hair more, never less."""
    if not value > 0.0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return math.ceil(value / unit * (1.0 - 1e-12)) * unit
