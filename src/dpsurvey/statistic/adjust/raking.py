"""Raking of a noisy table to public margins by linear weights.

The cells of a table of any number of variables are listed row by row (the last variable runs fastest). A margin names
the variables it is about; margins may share variables, and then must agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from ..estimators.interval import Array
from .answer import Adjusted
from .calibrated import calibrated
from .cells import Collapsed, NoisyCells, collapse
from .classes import checked_shares, merge_notes

CONTRADICTION = 1e-6


@dataclass(frozen=True)
class Margin:
    """Public shares of the population by one or more variables of a table; `axes` numbers the variables from 0.

    Levels of an `ordered` margin (ages, sizes) are merged with their neighbour where they are small (`collapse`).

    >>> Margin((1,), np.array([0.4, 0.6])).axes
    (1,)
    """

    axes: tuple[int, ...]
    shares: Array
    ordered: bool = False


def rake(cells: NoisyCells, layout: tuple[int, ...], margins: Sequence[Margin], *, thinning: float = 1.0) -> Adjusted:
    """The mean of y with linear weights that respect every margin (the generalised regression estimator on its indicators).

    Release: the triples of all cells of the table. Nothing is divided by the count of a cell, only by the
    counts of margins, so small cells are no trouble; levels of a margin with a noisy count below 5 times its
    noise are merged within that margin, and the notes name them.

    >>> sums = np.array([[30.0, 0.0, 70.0], [60.0, 0.0, 40.0], [50.0, 0.0, 50.0], [80.0, 0.0, 20.0]])
    >>> margins = [Margin((0,), np.array([0.3, 0.7])), Margin((1,), np.array([0.5, 0.5]))]
    >>> float(rake(NoisyCells(sums, noise_variance=0.0), (2, 2), margins).estimate.round(6))
    0.59
    """
    if math.prod(layout) != cells.size:
        raise BadValue("the layout does not fit the cells", given=f"layout={layout} for {cells.size} cells")
    levels, shares = _checked(layout, margins)
    columns, targets = [], []
    notes: list[str] = []
    for number, (margin, of_cell, known) in enumerate(zip(margins, levels, shares, strict=True)):
        after = _collapsed(cells, of_cell, known.size, margin.ordered)
        if cells.sums.ndim == 2:
            notes.extend(merge_notes(after, [f"level {level + 1} of margin {number + 1}" for level in range(known.size)]))
        merged = np.asarray(after.into[..., of_cell, None] == np.arange(known.size), dtype=np.float64)
        after_shares = after.spread(known)
        columns.append(merged)
        targets.append(np.broadcast_to(after_shares, (*merged.shape[:-2], after_shares.shape[-1])))
    indicators = np.concatenate(columns, axis=-1)
    return calibrated(cells, indicators, np.concatenate(targets, axis=-1), thinning, False, notes)


def _collapsed(cells: NoisyCells, of_cell: npt.NDArray[np.int64], levels: int, ordered: bool) -> Collapsed:
    """The levels of one margin, the small ones merged."""
    belongs = np.asarray(of_cell[:, None] == np.arange(levels), dtype=np.float64)
    sums = np.einsum("gl,...gc->...lc", belongs, cells.sums)
    parts = np.broadcast_to(belongs.sum(axis=0), sums.shape[:-1])
    return collapse(NoisyCells(sums, cells.noise_variance, cells.kurtosis, parts), ordered=ordered)


def _checked(layout: tuple[int, ...], margins: Sequence[Margin]) -> tuple[list[npt.NDArray[np.int64]], list[Array]]:
    """The level of each margin that every cell belongs to, and the shares; margins that contradict each other are refused."""
    if not margins:
        raise BadValue("raking needs at least one margin")
    places = np.unravel_index(np.arange(math.prod(layout)), layout)
    levels, shares = [], []
    for margin in margins:
        axes = margin.axes
        if not axes or len(set(axes)) < len(axes) or not all(0 <= axis < len(layout) for axis in axes):
            raise BadValue("a margin names variables of the table, each once", given=f"axes={axes} for {len(layout)} variables")
        sizes = tuple(layout[axis] for axis in axes)
        known = checked_shares(np.ravel(margin.shares), math.prod(sizes), "the shares of a margin")
        levels.append(np.ravel_multi_index(tuple(places[axis] for axis in axes), sizes).astype(np.int64))
        shares.append(known)
    indicators = np.concatenate([of[:, None] == np.arange(known.size) for of, known in zip(levels, shares, strict=True)], axis=1)
    stacked, wanted = np.asarray(indicators, dtype=np.float64), np.concatenate(shares)
    some_table = np.linalg.lstsq(stacked.T, wanted, rcond=None)[0]
    if np.abs(stacked.T @ some_table - wanted).max() > CONTRADICTION:
        raise BadValue(
            "the margins contradict each other",
            because="margins that share a variable give it different shares",
            hint="use margins from one source, of the same population and date",
        )
    return levels, shares
