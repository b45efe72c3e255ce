"""Tables without negative cells whose margins add up: post-processing for display, beside the linear estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..statistic.table import Table, declared_margins
from .plan import Plan

Array = npt.NDArray[np.float64]
# Rounds of projections on several declared margins, and the part of the whole at which they have settled.
ROUNDS, SETTLED = 5_000, 1e-11


def on_simplex(cells: Array, total: float) -> Array:
    """The nearest cells that are not negative and add up to a total (least squares).

    >>> on_simplex(np.array([5.0, -1.0, 2.0]), 6.0).tolist()
    [4.5, 0.0, 1.5]
    """
    ordered = np.sort(cells)[::-1]
    excess = np.cumsum(ordered) - total
    place = np.arange(1, len(cells) + 1)
    kept = int(np.max(np.nonzero(ordered - excess / place > 0.0)[0])) + 1
    return np.asarray(np.maximum(cells - excess[kept - 1] / kept, 0.0))


def nearest_table(cells: Array, total: float, margins: Mapping[int, Array]) -> Array:
    """The nearest cells that are not negative and add up to a total and to the margins of some axes (least squares).

    With one margin each of its slices is met apart; several are met in turn (Dykstra), up to a hair.

    >>> nearest_table(np.array([[5.0, -1.0], [2.0, 4.0]]), 8.0, {0: np.array([2.0, 6.0])}).tolist()
    [[2.0, 0.0], [2.0, 4.0]]
    """
    if not total > 0.0:
        return np.zeros_like(cells)
    if not margins:
        return on_simplex(cells.ravel(), total).reshape(cells.shape)
    found, left = cells, dict.fromkeys(margins, np.zeros_like(cells))
    for _ in range(ROUNDS if len(margins) > 1 else 1):
        before = found
        for axis, sizes in margins.items():
            moved = found + left[axis]
            found = _on_margin(moved, axis, sizes)
            left[axis] = moved - found
        if np.abs(found - before).max() <= SETTLED * total:
            break
    return found


def _on_margin(cells: Array, axis: int, sizes: Array) -> Array:
    slices = np.moveaxis(cells, axis, 0)
    met = [on_simplex(each.ravel(), float(size)).reshape(each.shape) for each, size in zip(slices, sizes, strict=True)]
    return np.moveaxis(np.stack(met), 0, axis)


def consistent_tables(plan: Plan, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of tables with one more figure, `consistent`: the nearest cells to what is declared, margins added up from them.

    The linear `estimate` stays as it is: it is the unbiased one, and sums of it are. Which rows are the cells of which table is
    known from the plan, whatever columns and categories are called.
    """
    found: list[dict[str, Any]] = []
    for statistic, categories, own in _tables(plan, rows):
        shape = tuple(len(labels) for labels in categories)
        count = math.prod(shape)
        cells = np.array([float(row["estimate"] or 0.0) for row in own[:count]]).reshape(shape)
        size = None if statistic.conditional else plan.terms.frame.size
        declared = declared_margins(statistic, plan.terms.frame)
        totals = [float(sizes.sum()) for sizes in declared.values()]
        total = totals[0] if totals else max(0.0, float(cells.sum())) if size is None else float(size)
        # Margins of two populations have no table in common; the first one is met.
        margins = {axis: sizes for axis, sizes in declared.items() if float(sizes.sum()) == total}
        nearest = nearest_table(cells, total, margins)
        figures: list[float] = []
        for margin in statistic.margins():
            dropped = tuple(axis for axis, kept in enumerate(margin) if not kept)
            figures += nearest.sum(axis=dropped).ravel().tolist()
        found += [dict(row) | {"consistent": figure} for row, figure in zip(own, figures, strict=True)]
    return found


def _tables(
    plan: Plan, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Table, tuple[tuple[str, ...], ...], list[Mapping[str, Any]]]]:
    """Each table of a release with its categories and its rows, cells first, as the plan has them."""
    place = 0
    for item in plan.items:
        for statistic in item.statistics:
            count = len(statistic.published(item.query_of(statistic)))
            if isinstance(statistic, Table):
                yield statistic, item.query_of(statistic).categories, list(rows[place : place + count])
            place += count
