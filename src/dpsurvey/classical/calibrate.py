"""Weights adjusted to known totals, and what the adjustment does to a variance.

A calibrated total has the variance of the expanded residuals of y from its regression on the calibration variables
(Deville and Särndal 1992, JASA 87): with d the weights before, w after, and B fitted with weights d,

    z = w y    becomes    w (y - x B).

Calibrated weights treated as fixed would claim the variance of y itself. The values z may belong to any linearised
estimate; the regression runs over all rows, also those outside a domain, where y counts as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..errors import BadData, BadValue
from .columns import Array, Codes, Table, empty_cells, values

CLOSE, MOST_ROUNDS = 1e-12, 2000


@dataclass(frozen=True)
class Margins:
    """A calibration on the indicators of one or more groupings: weights before and after, and the group codes."""

    before: Array
    after: Array
    groups: tuple[Codes, ...]

    def residual(self, expanded: Array) -> Array:
        """w (y - x B) from w y: what is left after the groups explain what they can."""
        scaled = expanded / self.after
        offsets = np.cumsum([0, *(int(codes.max()) + 1 for codes in self.groups)])
        right = np.concatenate([np.bincount(codes, weights=self.before * scaled) for codes in self.groups])
        if len(self.groups) == 1:
            fitted = right / np.bincount(self.groups[0], weights=self.before)
        else:
            # Indicators of several groupings add up to the same 1, so the equations have many solutions with one fit.
            fitted = np.linalg.lstsq(self._normal(offsets), right, rcond=1e-12)[0]
        explained = sum(fitted[start + codes] for start, codes in zip(offsets, self.groups, strict=False))
        return np.asarray(self.after * (scaled - explained))

    def _normal(self, offsets: Array) -> Array:
        """The cross products of all indicators, weighted by the weights before."""
        table = np.zeros((int(offsets[-1]), int(offsets[-1])))
        for start, codes in zip(offsets, self.groups, strict=False):
            sums = np.bincount(codes, weights=self.before)
            place = np.arange(int(start), int(start) + len(sums))
            table[place, place] = sums
        for (i, one), (j, other) in combinations(enumerate(self.groups), 2):
            rows, columns = int(one.max()) + 1, int(other.max()) + 1
            cross = np.bincount(one * columns + other, weights=self.before, minlength=rows * columns).reshape(rows, columns)
            table[offsets[i] : offsets[i + 1], offsets[j] : offsets[j + 1]] = cross
            table[offsets[j] : offsets[j + 1], offsets[i] : offsets[i + 1]] = cross.T
        return table


def grouping(table: Table, columns: tuple[str, ...], totals: Mapping[Any, float]) -> tuple[Codes, Array]:
    """The group of each row, in the order of `totals`, and the totals.

    With one column the keys of `totals` are its values, with several they are tuples of values.

    >>> groups, known = grouping({"sex": ["f", "m", "f"]}, ("sex",), {"m": 40.0, "f": 60.0})
    >>> groups.tolist(), known.tolist()
    ([1, 0, 1], [40.0, 60.0])
    """
    found = [values(table, column, "columns") for column in columns]
    if any(empty_cells(each).any() for each in found):
        raise BadData("a calibration column holds rows without a value", hint="give such rows a category of their own")
    place = {key: number for number, key in enumerate(totals)}
    lists = [each.tolist() for each in found]
    keys: list[Any] = lists[0] if len(columns) == 1 else list(zip(*lists, strict=True))
    try:
        groups = np.array([place[key] for key in keys], dtype=np.intp)
    except KeyError:
        raise BadData("a category of the sample has no total", hint="totals names every category that occurs") from None
    known = np.array([float(total) for total in totals.values()])
    if not np.all(np.isfinite(known)) or np.any(known <= 0.0):
        raise BadValue("a calibration total is not a positive number")
    if len(np.unique(groups)) != len(known):
        raise BadData("a category with a total has no rows", hint="merge it with a similar category before calibrating")
    return groups, known


def post_stratify(weights: Array, groups: Codes, totals: Array) -> Margins:
    """Weights scaled in each group to its total: w = d T_g / sum of d in g.

    >>> post_stratify(np.array([1.0, 1.0, 2.0]), np.array([0, 0, 1]), np.array([10.0, 8.0])).after.tolist()
    [5.0, 5.0, 8.0]
    """
    return Margins(weights, weights * (totals / np.bincount(groups, weights=weights))[groups], (groups,))


def rake(weights: Array, margins: list[tuple[Codes, Array]]) -> Margins:
    """Weights scaled to one margin after the other until all agree to a relative 1e-12 (iterative proportional fitting).

    >>> found = rake(np.ones(4), [(np.array([0, 0, 1, 1]), np.array([6.0, 4.0])), (np.array([0, 1, 0, 1]), np.array([5.0, 5.0]))])
    >>> found.after.tolist()
    [3.0, 3.0, 2.0, 2.0]
    """
    sizes = [float(totals.sum()) for _, totals in margins]
    if max(sizes) - min(sizes) > 1e-9 * max(sizes):
        raise BadValue("the margins contradict each other", because="their totals add up to different populations")
    after = weights
    for _ in range(MOST_ROUNDS):
        furthest = 0.0
        for groups, totals in margins:
            factor = totals / np.bincount(groups, weights=after)
            furthest = max(furthest, float(np.abs(factor - 1.0).max()))
            after = after * factor[groups]
        if furthest < CLOSE:
            return Margins(weights, after, tuple(groups for groups, _ in margins))
    raise BadData(
        "raking did not converge", because="no weights meet all margins", hint="merge rare categories, or drop a margin"
    )
