"""The draw: secret uniform numbers meet rows by row number, in one pass, and only drawn rows are kept."""

from __future__ import annotations

import math

import ibis
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from ibis.expr.types import Table

from ..design.base import Recipe
from ..errors import BadData
from .secret import secret_generator, small_uniforms
from .source import NUMBER, RANK, ROW, keep_temporarily
from .values import as_label


def draw_rows(
    table: Table, recipe: Recipe, columns: tuple[str, ...], sizes: dict[str, int], generator: np.random.Generator | None = None
) -> Table:
    """The drawn rows, as an expression on the table's own backend.

    Row numbers are any one-to-one numbering made independently of the secret numbers, so each row meets a fresh
    uniform number of its own. Without strata a fixed-size draw picks row numbers directly.
    """
    generator = generator or secret_generator()
    rows = int(table.count().to_pyarrow().as_py())
    if recipe.kind == "fixed" and recipe.by is None:
        take = int(recipe.amounts[None])
        if take > rows:
            raise BadData("the frame has fewer units than the design draws", hint="check the declared size of the frame")
        chosen = np.sort(generator.choice(rows, take, replace=False, shuffle=False)).astype(np.int64)
        met = keep_temporarily(_meet(table, chosen, np.zeros(take), columns))
        # Estimates divide by n, so a draw of any other size must not get out.
        if met.count().to_pyarrow().as_py() != take:
            raise BadData("the draw did not reach its size", hint="the rows of the frame changed while they were read")
        return met
    if recipe.kind == "independent":
        rates = {label: on_grid(rate) for label, rate in recipe.amounts.items()}
        numbers, uniforms = _candidates(generator, rows, max(rates.values()))
        met = _meet(table, numbers, uniforms, columns, keep_number=True)
        if len(set(rates.values())) > 1 and recipe.by is not None:
            met = met.filter(met[NUMBER] < _by_label(met, recipe.by, rates))
        return met.drop(NUMBER)
    return _fixed_in_strata(table, recipe, columns, sizes, rows, generator)


def on_grid(rate: float) -> float:
    """The rate rounded down to the grid of 2^-53 that uniform numbers lie on, so that no unit exceeds its rate.

    >>> on_grid(0.5), on_grid(0.02) <= 0.02
    (0.5, True)
    """
    return math.floor(rate * 2.0**53) / 2.0**53


def _fixed_in_strata(
    table: Table, recipe: Recipe, columns: tuple[str, ...], sizes: dict[str, int], rows: int, generator: np.random.Generator
) -> Table:
    takes = {label: int(take) for label, take in recipe.amounts.items()}
    # Only small numbers can win. Trying again when a stratum has too few of them treats its units alike, so every
    # set of n_h units stays equally likely.
    limit = min(1.0, 1.3 * max(take / sizes[str(label)] for label, take in takes.items()) + 20.0 / min(sizes.values()))
    while True:
        numbers, uniforms = _candidates(generator, rows, limit)
        met = _meet(table, numbers, uniforms, columns, keep_number=True)
        assert recipe.by is not None
        label = as_label(met, recipe.by, recipe.amounts)
        ranked = met.mutate(ibis.row_number().over(group_by=label, order_by=met[NUMBER]).name(RANK))
        kept = keep_temporarily(
            ranked.filter(ranked[RANK] < _by_label(ranked, recipe.by, {key: float(take) for key, take in takes.items()})).drop(
                NUMBER, RANK
            )
        )
        if kept.count().to_pyarrow().as_py() == sum(takes.values()):
            return kept
        if limit >= 1.0:
            raise BadData("a stratum has fewer units than the design draws", hint="check the declared sizes of the strata")
        limit = min(1.0, 2.0 * limit)


def _candidates(generator: np.random.Generator, rows: int, below: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    chunks = list(small_uniforms(generator, rows, below))
    if not chunks:
        return np.empty(0, np.int64), np.empty(0)
    return np.concatenate([numbers for numbers, _ in chunks]), np.concatenate([uniforms for _, uniforms in chunks])


def _meet(
    table: Table,
    numbers: npt.NDArray[np.int64],
    uniforms: npt.NDArray[np.float64],
    columns: tuple[str, ...],
    *,
    keep_number: bool = False,
) -> Table:
    drawn = ibis.memtable(pa.table({ROW: numbers, NUMBER: uniforms}))
    met = table.select(*columns, ROW).join(drawn, ROW)
    return met.select(*columns, NUMBER) if keep_number else met.select(*columns)


def _by_label(table: Table, by: str, amounts: dict[str | None, float]) -> ibis.expr.types.Value:
    cases = ((label, amount) for label, amount in amounts.items() if label is not None)
    return as_label(table, by, amounts).cases(*cases, else_=0.0)
