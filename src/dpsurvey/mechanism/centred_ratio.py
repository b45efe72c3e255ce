"""A ratio in two steps: noisy sums give a public centre, then noise goes on the residuals from it and on their squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from ..privacy.budget import take_share
from ..privacy.profile import PrivacyProfile
from ..privacy.rounding import above
from .base import Array, Mechanism, Norm, Rows

# The part of the charge that finds the centre.
FIRST_STEP = 0.2
# A centre is a whole number of this many parts of 1, and no larger than MOST_CENTRE.
PARTS = 2**16
MOST_CENTRE = 2**10
# Whole steps for the weight of the squares and for their linear part.
FINE = 2**20
# The least weight of the squares: below it their noise would be the larger part of a variance.
LEAST_SQUARES = {"L1": 0.25, "L2": 0.5}
# The largest b with (s, b s(1-s)) of sensitivity 1 for s in [0, 1], a hair below phi^(5/2) in L2.
FREE = {"L1": 1.0, "L2": ((1.0 + math.sqrt(5.0)) / 2.0) ** 2.5 * (1.0 - 1e-9)}
# The most that rounding adds to what a record moves in the second step, at any centre.
ROUNDING = 24
# What a figure that is rounded to the nearest step is off by at most, and a hair for the arithmetic before it.
ROUNDED = 0.501


class Change(Enum):
    """How a record may change: its answers alone, by coming or going, or by leaving one group for another."""

    IN_PLACE = "in place"
    COMES_OR_GOES = "comes or goes"
    MOVES = "moves"


@dataclass(frozen=True)
class Residuals:
    """What a record adds once the centre r is known, with e = y - r x: e/(1+r), and c e(a - e)/(1+r).

    `one` is the most that a record moves these two, over the steps of a whole record; `slack` the steps that rounding adds.
    """

    parts: int
    linear: int
    squares: int
    one: float
    slack: float

    @property
    def centre(self) -> float:
        """r."""
        return self.parts / PARTS

    @property
    def a(self) -> float:
        """The linear part of the squares."""
        return self.linear / FINE

    @property
    def c(self) -> float:
        """The weight of the squares."""
        return self.squares / FINE

    def sums(self, row: Sequence[float]) -> tuple[float, float]:
        """Both sums in whole steps, from those of y, x, y(1-y), x(1-x) and (y-x)^2; of whole numbers without any rounding but
        the last, downwards."""
        y, x = row[0], row[1]
        yy, xx, apart = y - row[2], x - row[3], row[4]
        j, whole = self.parts, self.parts + PARTS
        residual = PARTS * y - j * x
        # (y - r x)^2 with 2 xy = y^2 + x^2 - (y-x)^2, times PARTS^2.
        square = PARTS * PARTS * yy - PARTS * j * (yy + xx - apart) + j * j * xx
        bent = self.squares * (self.linear * PARTS * residual - FINE * square)
        return residual // whole, bent // (whole * PARTS * FINE * FINE)


@lru_cache(maxsize=4096)
def residuals_at(parts: int, norm: Norm, change: Change) -> Residuals:
    """The residuals from a centre of so many parts, with squares that are as good as free; docs/proofs/estimation.md."""
    r = parts / PARTS
    if change is Change.IN_PLACE:
        linear, squares = round((1.0 - r) * FINE), math.floor(FREE[norm] / (1.0 + r) * FINE)
        # FINE is a multiple of PARTS, so the linear part is 1 - r to the last step.
        one = 1.0
    else:
        small = min(r, 1.0 / r) if r > 0.0 else 0.0
        c, a = _weights(small, norm, change)
        if r > 1.0:
            c, a = c / r, -a * r
        linear, squares = round(a * FINE), math.floor(c * FINE)
        one = _reach(r, squares / FINE, linear / FINE, norm, change) / (1.0 + r)
    a, c = linear / FINE, squares / FINE
    # Each of the five sums is off by ROUNDED for a record; what that does to the residual and to the squares.
    off = ROUNDED * c / (1.0 + r) * (abs(a - 1.0 + r) + abs(a * r + r * r - r) + abs(1.0 - r) + abs(r * r - r) + r)
    records = 1.0 if change is Change.COMES_OR_GOES else 2.0
    floors = 2.0 if change is Change.MOVES else 1.0
    slack = records * (ROUNDED + off) + 2.0 * floors
    return Residuals(parts, linear, squares, one * (1.0 + 1e-12), slack)


def _weights(r: float, norm: Norm, change: Change) -> tuple[float, float]:
    """c and a for e in [-r, 1], r of at most 1: as large a weight as costs nothing, or the least one and where it costs least."""
    least = LEAST_SQUARES[norm]
    room = (1.0 - r) / (r * r * (1.0 + r)) if r > 0.0 else math.inf
    c = min(FREE[norm], room * r if norm == "L1" else math.sqrt(room))
    if norm == "L2" and change is Change.MOVES:
        # Half of it, so that another answer in the same group costs no more than another group.
        c = min(c, max(0.5 * c, least))
    if c >= least:
        return c, 1.0
    return least, min(1.0, (1.0 - r) * (1.0 + 1.0 / (least * (1.0 + r))))


def _reach(r: float, c: float, a: float, norm: Norm, change: Change) -> float:
    """The most that a record moves (e, c e(a - e)), e in [-r, 1], that comes, goes, or moves to another group."""
    if norm == "L1":
        one = max(1.0 + c * abs(1.0 - a), r * (1.0 + c * abs(r + a)))
        return one if change is Change.COMES_OR_GOES else 2.0 * one
    one = max(_longest(c, a, 1.0), _longest(c, -a, r))
    if change is Change.COMES_OR_GOES:
        return one
    # To another group, or with another answer in its own, where e + e' leaves a - (e + e') no larger than the rest of this.
    return max(math.sqrt(2.0) * one, _longest(c, max(a + 2.0 * r, 2.0 - a), 1.0 + r))


def _longest(c: float, a: float, end: float) -> float:
    """The largest z sqrt(1 + c^2 (a - z)^2) over z in [0, end]: at the end, or where the derivative is 0."""
    root = a * a - 8.0 / (c * c)
    turns = [(3.0 * a + sign * math.sqrt(root)) / 4.0 for sign in (-1.0, 1.0)] if root >= 0.0 else []
    return max(z * math.sqrt(1.0 + (c * (a - z)) ** 2) for z in (end, *(turn for turn in turns if 0.0 < turn < end)))


@dataclass(frozen=True)
class CentredRatio:
    """Answers rows of sums of y, x, y(1-y), x(1-x) and (y-x)^2 with rows of five: noisy y and x, their centre, and the residuals.

    Every row is a group. A part of the charge goes on noisy sums of y and x; their ratio, a public number, is the centre of the
    group. With the rest noise goes on the sums of residuals from it and of their squares. Two steps add up (adaptive
    composition): the second is as private as charged whatever the first has said.

    >>> from .laplace import Laplace
    >>> charge = PrivacyProfile.pure(1e6, "replace-one")
    >>> mechanism = CentredRatio.calibrate(charge, Laplace, 2.0 * 1024, 1024, Change.IN_PLACE)
    >>> mechanism.answer([[20480, 40960, 5120, 5120, 10240]])[0][2] / PARTS
    0.5
    """

    of_sums: Mechanism
    rest: PrivacyProfile
    lattice: int
    change: Change
    reach: float

    # A row of answers: noisy sums of y and x, the centre in parts, residuals, squares.
    width: ClassVar[int] = 5

    @classmethod
    def calibrate(
        cls,
        charge: PrivacyProfile,
        additive: type[Mechanism],
        of_sums: float,
        lattice: int,
        change: Change,
        reach: float = 1.0,
    ) -> Self:
        """The first part of the charge for sums of this sensitivity, the rest for the residuals."""
        first = additive.calibrate(take_share(charge, FIRST_STEP), of_sums)
        return cls(first, take_share(charge, 1.0 - FIRST_STEP), lattice, change, reach)

    def part(self, steps: int) -> float:
        """By which part of both steps' sensitivities a record of so many lattice steps moves them at most, whatever the centre.

        A record of all steps moves residuals by at least half of these, in one group or in two together, and rounding adds less
        than 24 steps: docs/proofs/amplification.md, each stratum's own loss.
        """
        return min(1.0, above(Fraction(steps + 2 * ROUNDING, self.lattice))) if self.of_sums.loss_is_linear else 1.0

    @property
    def kind(self) -> str:
        """The kind of all noise."""
        return self.of_sums.kind

    @property
    def kurtosis(self) -> float:
        """The excess kurtosis of all noise."""
        return self.of_sums.kurtosis

    @property
    def scale(self) -> float:
        """The scale of the noise on both sums."""
        return self.of_sums.scale

    @property
    def sensitivity(self) -> float:
        """The sensitivity of both sums, in steps."""
        return self.of_sums.sensitivity

    @property
    def variance(self) -> float:
        """The noise variance of both sums, in squared steps."""
        return self.of_sums.variance

    def residuals(self, parts: int) -> Residuals:
        """What is summed at a centre."""
        return residuals_at(int(parts), self.of_sums.norm, self.change)

    def of_residuals(self, parts: int) -> Mechanism:
        """The noise of the second step at a centre."""
        found = self.residuals(parts)
        sensitivity = (self.lattice * found.one + found.slack) * self.reach
        whole = float(math.ceil(sensitivity)) if self.of_sums.norm == "L1" else sensitivity
        return type(self.of_sums).calibrate(self.rest, whole)

    def exact(self, rows: Sequence[Sequence[float]]) -> list[list[float]]:
        """The answer without noise: for predictions."""
        found = []
        for row in rows:
            parts = int(centres(np.asarray(row[0], dtype=np.float64), np.asarray(row[1], dtype=np.float64)))
            found.append([row[0], row[1], parts, *self.residuals(parts).sums(row)])
        return found

    def answer(self, rows: Rows) -> Rows:
        """For each group: noisy y and x, their centre, noisy residuals and squares."""
        flat = self.of_sums.randomize([value for row in rows for value in row[:2]])
        answered = []
        for row, y, x in zip(rows, flat[::2], flat[1::2], strict=True):
            parts = int(centres(np.float64(y), np.float64(x)))
            exact = self.residuals(parts).sums(row)
            answered.append([y, x, parts, *self.of_residuals(parts).randomize([int(each) for each in exact])])
        return answered


def centres(y: Array | np.float64, x: Array | np.float64) -> Array:
    """The centre of each group in parts, from noisy sums: their ratio, or 1 where it has no sign.

    >>> (centres(np.array([1.0, 5.0, -2.0]), np.array([4.0, -1.0, 3.0])) / PARTS).tolist()
    [0.25, 1.0, 0.0]
    """
    above = np.asarray(x) > 0.0
    ratio = np.divide(y, x, out=np.ones_like(np.asarray(y, dtype=np.float64)), where=above)
    return np.asarray(np.round(np.clip(ratio, 0.0, MOST_CENTRE) * PARTS))
