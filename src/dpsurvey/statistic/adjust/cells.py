"""Noisy sums by weighting cell, what one record can move in them, and the merging of small cells.

A unit of cell g with answer y in [0, 1] adds u (y^2, 2y(1-y), (1-y)^2) to the three sums of g, u = 1 or w/w_max; a unit
without an answer adds u to a fourth sum of g, where that one is released too. All sums of all cells are one vector.

*Sensitivity.* What a unit adds is not negative, adds up to u <= 1 and lies in one cell: L1 = 1 and L2 <= L1 = 1 when it is
added or removed. Two such vectors a, b (cells may differ) have |a - b|_1 <= |a|_1 + |b|_1 <= 2, and
|a - b|_2^2 = |a|^2 + |b|^2 - 2ab <= 2 because ab >= 0. Both are reached by y = 0 in one cell and y = 1 in another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from ..estimators.interval import Array

# What the three sums are worth when sum y is read from them: y = y^2 + y(1-y).
LEVELS = np.array([1.0, 0.5, 0.0])


@dataclass(frozen=True)
class NoisyCells:
    """Noisy sums (..., cells, 3) of the triple, each with noise variance `noise_variance`, whose excess kurtosis is `kurtosis`.

    `parts` says how many released cells each cell is made of; merged cells carry the noise of all their parts.

    >>> cells = NoisyCells(np.array([[30.0, 10.0, 60.0], [5.0, 0.0, 15.0]]), noise_variance=2.0)
    >>> cells.counts.tolist(), cells.totals.tolist()
    ([100.0, 20.0], [35.0, 5.0])
    """

    sums: Array
    noise_variance: float
    kurtosis: float = 3.0
    parts: Array | None = None

    def __post_init__(self) -> None:
        if self.sums.ndim < 2 or self.sums.shape[-1] != 3:
            raise BadValue("noisy cells hold three sums for each cell", given=f"an array of shape {self.sums.shape}")
        if not (math.isfinite(self.noise_variance) and self.noise_variance >= 0.0):
            raise BadValue("the noise variance is a number that is not negative", given=f"noise_variance={self.noise_variance!r}")

    @property
    def size(self) -> int:
        """The number of cells."""
        return int(self.sums.shape[-2])

    @property
    def merged_parts(self) -> Array:
        """How many released cells each cell is made of."""
        return np.broadcast_to(np.ones(self.size) if self.parts is None else self.parts, self.sums.shape[:-1])

    @property
    def counts(self) -> Array:
        """The noisy number of units by cell."""
        return np.asarray(self.sums.sum(axis=-1))

    @property
    def totals(self) -> Array:
        """The noisy sum of y by cell."""
        return np.asarray(self.sums @ LEVELS)

    @property
    def variances(self) -> Array:
        """The noise variance of each of the three sums, by cell."""
        return np.asarray(self.noise_variance * self.merged_parts)

    def squares(self, around: Array) -> Array:
        """The noisy sum of (y - m)^2 by cell: Q(1-m)^2 - M m(1-m) + W m^2."""
        return np.asarray(np.sum(self.sums * square_coefficients(around), axis=-1))

    def merged(self, into: npt.NDArray[np.int64]) -> NoisyCells:
        """The cells with cell g added to place into[g]; places that nothing goes to are left empty, with no noise."""
        chosen = _chosen(into, self.size)
        sums = np.einsum("...gk,...gc->...kc", chosen, self.sums)
        return NoisyCells(sums, self.noise_variance, self.kurtosis, np.einsum("...gk,...g->...k", chosen, self.merged_parts))


@dataclass(frozen=True)
class Collapsed:
    """Cells after merging: `into` says where each cell went, `merged` which cells share their place with another."""

    cells: NoisyCells
    into: npt.NDArray[np.int64]

    @property
    def merged(self) -> npt.NDArray[np.bool_]:
        """Which cells are now together with another one."""
        together = self.spread(np.ones(self.cells.size))
        return np.asarray(np.take_along_axis(together, self.into, axis=-1) > 1.5)

    def spread(self, figures: Array) -> Array:
        """Figures by cell (public margins, counts) added up alike."""
        alike = np.broadcast_to(figures, self.into.shape)
        return np.asarray(np.einsum("...gk,...g->...k", _chosen(self.into, self.cells.size), alike))


def collapse(cells: NoisyCells, rule: float = 5.0, *, ordered: bool = False) -> Collapsed:
    """Cells whose noisy count is below `rule` times its noise are merged; noisy counts alone decide, so it costs no privacy.

    They become one rest cell; if that is small too, it joins the largest cell. With `ordered`, for cells listed in a public
    order in which neighbours are alike, a small cell joins its neighbour instead, which leaves far less bias. The sd of
    a noisy count is sqrt(3 v parts).

    >>> sums = np.array([[30.0, 0.0, 70.0], [1.0, 0.0, 2.0], [20.0, 0.0, 20.0], [2.0, 0.0, 2.0]])
    >>> collapse(NoisyCells(sums, noise_variance=1.0)).into.tolist()
    [0, 0, 2, 0]
    >>> collapse(NoisyCells(sums, noise_variance=1.0), ordered=True).into.tolist()
    [0, 2, 2, 2]
    """
    if not (math.isfinite(rule) and rule >= 0.0):
        raise BadValue("the rule is a number of standard deviations, not negative", given=f"rule={rule!r}")
    merge = _into_neighbours if ordered else _into_rest
    into = np.broadcast_to(np.arange(cells.size), cells.counts.shape)
    now = cells
    # A rest with a negative noisy count can make the cell that it joins small, so it goes on until nothing changes.
    for _ in range(cells.size):
        step = merge(now, rule)
        into = np.take_along_axis(step, into, axis=-1)
        before, now = now, cells.merged(into)
        if np.array_equal(before.merged_parts, now.merged_parts):
            break
    return Collapsed(now, into)


def _into_rest(cells: NoisyCells, rule: float) -> npt.NDArray[np.int64]:
    """All small cells to the place of the first of them, or to the largest cell."""
    counts, variance, held, small = _measured(cells, rule)
    rest = np.where(small, counts, 0.0).sum(axis=-1)
    rest_sd = np.sqrt(np.where(small, variance, 0.0).sum(axis=-1))
    largest = np.where(held & ~small, counts, -np.inf).argmax(axis=-1)
    too_small = ((rest < rule * rest_sd) | (rest <= 0.0)) & (held & ~small).any(axis=-1)
    home = np.where(too_small, largest, small.argmax(axis=-1))
    return np.asarray(np.where(small, home[..., None], np.arange(cells.size)))


def _into_neighbours(cells: NoisyCells, rule: float) -> npt.NDArray[np.int64]:
    """Runs of neighbours, each closed as soon as it is large enough; what is left at the end joins the run before it."""
    counts, variance, _, _ = _measured(cells, rule)
    run, noise = np.zeros(counts.shape[:-1]), np.zeros(counts.shape[:-1])
    closed = np.zeros(counts.shape, dtype=bool)
    for index in range(cells.size):
        run, noise = run + counts[..., index], noise + variance[..., index]
        closed[..., index] = (run >= rule * np.sqrt(noise)) & (run > 0.0)
        run, noise = np.where(closed[..., index], 0.0, run), np.where(closed[..., index], 0.0, noise)
    # The place of a run is the cell that closed it: for each cell the first closed one from it on, else the last closed.
    places = np.where(closed, np.arange(cells.size), cells.size)
    following = np.minimum.accumulate(places[..., ::-1], axis=-1)[..., ::-1]
    last = np.where(closed, np.arange(cells.size), 0).max(axis=-1)
    return np.asarray(np.where(following < cells.size, following, last[..., None]))


def _measured(cells: NoisyCells, rule: float) -> tuple[Array, Array, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Counts, their noise variance, which places hold anything, and which of them are small."""
    counts, variance = cells.counts, 3.0 * cells.variances
    held = cells.merged_parts > 0.0
    return counts, variance, held, held & ((counts < rule * np.sqrt(variance)) | (counts <= 0.0))


def square_coefficients(around: Array) -> Array:
    """What each of the three sums adds to sum (y - m)^2."""
    return np.stack([(1.0 - around) ** 2, -around * (1.0 - around), around**2], axis=-1)


def _chosen(into: npt.NDArray[np.int64], size: int) -> Array:
    return np.asarray(into[..., :, None] == np.arange(size), dtype=np.float64)
