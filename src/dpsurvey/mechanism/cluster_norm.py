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
# Steps of the residual that a record makes.
FINE = 2**30
# Figures of the design are printed to this many digits, upward.
DIGITS = 4


class Totals(Protocol):
    """Exact sums of the parts of a sample, in lattice steps, and the quadratic form in them that is a squared standard error."""

    @property
    def whole(self) -> Whole:
        """The sums of the whole sample: (cells, components)."""

    @property
    def unit(self) -> int:
        """Parts of a length that stand for a residual of one step."""

    def moved(self, together: int, rounding: int, steps: int) -> int:
        """How far one record moves the lengths of all numbers together at most, in parts of a length.

        `together` is how far a record of one step moves the residuals of all numbers, `rounding` how far a step in each of its
        sums would; `steps` are those of a whole record.
        """

    def lengths(
        self, coefficients: Whole, members: npt.NDArray[np.bool_], levers: npt.NDArray[np.bool_], groups: int
    ) -> list[tuple[int, float, float]]:
        """Of every number the length of its residuals, the factor that makes it a standard error, and its degrees of freedom."""


@dataclass(frozen=True)
class _Nobody:
    """Totals for a trial without rows: no part of a sample differs from another."""

    whole: Whole
    unit: int = 1

    def moved(self, together: int, rounding: int, steps: int) -> int:
        return together * steps

    def lengths(
        self, coefficients: Whole, members: npt.NDArray[np.bool_], levers: npt.NDArray[np.bool_], groups: int
    ) -> list[tuple[int, float, float]]:
        return [(0, 1.0, 1.0)] * len(coefficients)


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

    `stays` says that it adds to the same cell; `may_be_nothing` that it may also add nothing; `rounded` that its sums are rounded
    to whole steps, so that they are near a corner's share of its weight, and not always at it.
    """

    extremes: Array
    stays: bool
    may_be_nothing: bool
    rounded: bool = True

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

    def of_rounding(self, coefficients: Whole, norm: Norm) -> int:
        """How far all residuals together move at most if every sum of a cell moves by one step; 0 where sums are not rounded."""
        if not self.rounded:
            return 0
        each = np.abs(coefficients).sum(axis=-1).astype(np.float64)
        return math.ceil(float(_length(each, norm).max(initial=0.0)) * (1.0 + 1e-9))


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

    def answer(self, totals: Totals | Rows) -> list[list[Any]]:
        """Noisy sums by cell, and then one row for every number. Rows without clusters, as for a trial, have lengths of 0."""
        if isinstance(totals, list):
            totals = _Nobody(np.asarray(totals, dtype=np.int64))
        rows = self.of_sums.answer(totals.whole.tolist())
        directions = self.directions(np.asarray(rows, dtype=np.float64))
        lengths, figures = exact_norms(totals, directions, self.reach, self.groups, self.norm, self.steps)
        noisy = self.of_norms.randomize(lengths)
        return [*rows, *([length, *figure] for length, figure in zip(noisy, figures, strict=True))]


def figures_to_expect(directions: Directions, mechanism: SumsAndNorms, totals: Totals) -> list[tuple[float, float]]:
    """(factor, degrees of freedom) of every number, for totals of which what is held fixed is as it is to be expected."""
    return exact_norms(totals, directions, mechanism.reach, mechanism.groups, mechanism.norm, mechanism.steps)[1]


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
    totals: Totals, directions: Directions, reach: Reach, groups: int, norm: Norm, steps: int
) -> tuple[list[int], list[tuple[float, float]]]:
    """The lengths in whole steps, and (factor, degrees of freedom) of every number.

    A neighbour moves all lengths together by at most `NORM_STEPS`, and by rounding less than two steps more for each:
    residuals and what they are weighted with are whole numbers, their squares are exact, and the root is rounded down.
    """
    coefficients, scales = _whole_coefficients(directions.per_record, reach, norm)
    columns, corners = reach.columns(coefficients.astype(np.float64))
    # Whole numbers below 2^53 as doubles: differences are exact, and their sum is rounded up.
    together = max(1, math.ceil(reach.farthest(columns, corners, norm) * (1.0 + 1e-9)))
    moved = totals.moved(together, reach.of_rounding(coefficients, norm), steps)
    found = totals.lengths(coefficients, directions.members, directions.levers, groups)
    figures = []
    for scale, (_, factor, freedom) in zip(scales, found, strict=True):
        figures.append((_upward(scale * factor * (moved / (FINE * steps * totals.unit))), math.floor(10.0 * freedom) / 10.0))
    return [length * NORM_STEPS // moved for length, _, _ in found], figures


def _whole_coefficients(per_record: Array, reach: Reach, norm: Norm) -> tuple[npt.NDArray[np.int64], list[float]]:
    """What a record adds to each number, every number scaled by how far a record moves it alone, in whole parts of `FINE`."""
    columns, corners = reach.columns(per_record)
    scales = [reach.farthest(columns[place : place + 1], corners, norm) for place in range(len(columns))]
    scaled = np.zeros_like(per_record)
    for place, scale in enumerate(scales):
        if scale > 0.0 and math.isfinite(scale):
            scaled[place] = per_record[place] / scale
    return np.rint(scaled * FINE).astype(np.int64), [scale if math.isfinite(scale) else 0.0 for scale in scales]


def _upward(value: float) -> float:
    """A figure of the design, rounded up to a few digits: a hair more, never less."""
    if not value > 0.0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return math.ceil(value / unit * (1.0 - 1e-12)) * unit
