"""The draw: where a secret draw can jump to its rows it does; any other recipe, and any key, goes by keyed numbers."""

from __future__ import annotations

from collections.abc import Mapping

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
from ibis.expr.types import FloatingValue, Table

from ..design.recipe import Each, EachBy, Simple, Sized, Step, Strata
from ..errors import BadData
from ..key import Key
from .arrays import candidate_limit, too_short
from .numbers import Numbers
from .relational import draw_by_recipe
from .secret import Rows, Uniforms, secret_generator, small_numbers
from .source import NUMBER, PI, PSU, RANK, ROW, SSU, STRATUM, WEIGHT, keep_temporarily, send
from .values import as_label, as_number, double


def draw_rows(
    table: Table,
    recipe: Step,
    unit: str,
    columns: tuple[str, ...],
    *,
    key: Key | None = None,
    start: float = 0.0,
    generator: np.random.Generator | None = None,
) -> Table:
    """The drawn rows with stratum, psu, probability and weight, as a temporary table of the rows' own engine."""
    if key is None and start == 0.0:
        # Row numbers are dear on a cluster, where rows have none of their own.
        jumps = table.get_backend().name != "pyspark"
        jumped = _jump(table, recipe, columns, generator or secret_generator()) if jumps else None
        if jumped is not None:
            return keep_temporarily(jumped)
    return draw_by_recipe(table, recipe, unit, columns, Numbers(key, start))


def _jump(table: Table, recipe: Step, columns: tuple[str, ...], generator: np.random.Generator) -> Table | None:
    """The rows that may win are chosen by row number, and meet the table in one pass; None for other recipes."""
    if isinstance(recipe, Each):
        met = _meet(table, *small_numbers(generator, _count(table), recipe.probability), columns)
        return _finished(met, columns, double(recipe.probability))
    if isinstance(recipe, Simple):
        return _fixed(table, recipe.take, columns, generator)
    if isinstance(recipe, EachBy):
        rate = as_number(table, recipe.rate)
        wrong = (rate.isnull() | ~(rate > 0.0) | (rate > double(recipe.at_most))).any().fill_null(False)
        if table.aggregate(wrong.name("wrong")).to_pyarrow()["wrong"][0].as_py():
            raise BadData(
                f"the rates in {recipe.rate!r} are not all above 0 and at most the declared bound",
                hint="declare at_most= as it is",
            )
        used = (*columns, recipe.rate)
        met = _meet(table, *small_numbers(generator, _count(table), recipe.at_most), used)
        kept = met.filter(met[NUMBER] <= as_number(met, recipe.rate))
        return _finished(kept, columns, as_number(kept, recipe.rate))
    if isinstance(recipe, Sized):
        return _sized(table, recipe, columns, generator)
    if isinstance(recipe, Strata) and isinstance(recipe.inside, Mapping):
        return _strata(table, recipe.strata, recipe.inside, columns, generator)
    return None


def _fixed(table: Table, take: int, columns: tuple[str, ...], generator: np.random.Generator) -> Table:
    rows = _count(table)
    if take > rows:
        raise too_short()
    chosen = np.sort(generator.choice(rows, take, replace=False, shuffle=False)).astype(np.int64)
    met = keep_temporarily(_meet(table, chosen, np.zeros(take), columns))
    # Estimates divide by n, so a draw of any other size must not get out.
    if met.count().to_pyarrow().as_py() != take:
        raise BadData("the draw did not reach its size", hint="the rows of the frame changed while they were read")
    return _finished(met, columns, double(take / rows))


def _strata(
    table: Table, by: str, inside: Mapping[str, Step], columns: tuple[str, ...], generator: np.random.Generator
) -> Table | None:
    used = tuple(dict.fromkeys((*columns, by)))
    rates = {label: step.probability for label, step in inside.items() if isinstance(step, Each)}
    if len(rates) == len(inside):
        met = _labelled(_meet(table, *small_numbers(generator, _count(table), max(rates.values())), used), by, inside)
        kept = met.filter(met[NUMBER] <= _by_label(met, rates))
        return _finished(kept, columns, _by_label(kept, rates))
    fixed = {label: step for label, step in inside.items() if isinstance(step, Simple) and step.size}
    if len(fixed) < len(inside):
        return None
    takes = {label: float(step.take) for label, step in fixed.items()}
    limit = candidate_limit(fixed)
    while True:
        # Trying again when a stratum has too few treats its units alike, so every set of n_h units stays equally likely.
        met = _labelled(_meet(table, *small_numbers(generator, _count(table), limit), used), by, inside)
        ranked = met.mutate(ibis.row_number().over(group_by=STRATUM, order_by=met[NUMBER]).name(RANK))
        kept = keep_temporarily(ranked.filter(ranked[RANK] < _by_label(ranked, takes)))
        if kept.count().to_pyarrow().as_py() == sum(takes.values()):
            return _finished(
                kept, columns, _by_label(kept, {label: step.take / (step.size or 1) for label, step in fixed.items()})
            )
        if limit >= 1.0:
            raise too_short()
        limit = min(1.0, 4.0 * limit)


def _sized(table: Table, step: Sized, columns: tuple[str, ...], generator: np.random.Generator) -> Table | None:
    """PPS one by one, or cumulated in the order of a file, where no unit is certain."""
    listed = step.method == "systematic" and step.order == "as listed" and table.get_backend().name == "duckdb"
    if step.method != "poisson" and not listed:
        return None
    size = as_number(table, step.size)
    wrong = (size.isnull() | ~(size > 0.0)).any().fill_null(False).name("wrong")
    found = table.aggregate([wrong, size.sum().name("sum"), size.max().name("max"), table.count().name("rows")])
    facts = found.to_pyarrow().to_pylist()[0]
    if facts["wrong"] or facts["sum"] is None or step.take * facts["max"] >= min(1.0, step.at_most) * facts["sum"]:
        # Bad sizes and broken bounds are named, and certainty units taken out, by the general way.
        return None
    used, scale = tuple(dict.fromkeys((*columns, step.size))), step.take / facts["sum"]
    if step.method == "poisson":
        met = _meet(table, *small_numbers(generator, facts["rows"], scale * facts["max"]), used)
        kept = met.filter(met[NUMBER] <= as_number(met, step.size) * double(scale))
        return _finished(kept, columns, as_number(kept, step.size) * double(scale))
    return _cumulated(table, step, columns, scale, generator)


def _cumulated(table: Table, step: Sized, columns: tuple[str, ...], scale: float, generator: np.random.Generator) -> Table | None:
    """A running sum without a sort: DuckDB hands rows on in the order of the file."""
    rows = table.select(*dict.fromkeys((*columns, step.size)))
    running = as_number(rows, step.size).sum().over(ibis.window(preceding=None, following=0))
    reached = rows.mutate(running.name(NUMBER))
    start = float(generator.random())
    behind = reached[NUMBER] * double(scale) - double(start)
    first = (reached[NUMBER] - as_number(reached, step.size)) * double(scale) - double(start)
    kept = keep_temporarily(reached.filter(first.ceil() < behind.ceil()))
    # Rounding at the seams of a running sum may lose or double a unit; such a draw is made again, in whole ticks.
    if kept.count().to_pyarrow().as_py() != step.take:
        return None
    return _finished(kept, columns, as_number(kept, step.size) * double(scale))


def _count(table: Table) -> int:
    return int(table.count().to_pyarrow().as_py())


def _meet(table: Table, numbers: Rows, uniforms: Uniforms, columns: tuple[str, ...]) -> Table:
    drawn = send(pa.table({ROW: numbers, NUMBER: uniforms}), table)
    return table.select(*columns, ROW).join(drawn, ROW).select(*columns, NUMBER)


def _labelled(met: Table, by: str, inside: Mapping[str, Step]) -> Table:
    return met.mutate(as_label(met, by, inside).name(STRATUM))


def _by_label(table: Table, amounts: Mapping[str, float]) -> FloatingValue:
    cases = ((label, double(amount)) for label, amount in amounts.items())
    return table[STRATUM].cases(*cases, else_=double(0.0))


def _finished(drawn: Table, columns: tuple[str, ...], chance: FloatingValue) -> Table:
    missing = {name: ibis.null(dt.string) for name in (STRATUM, PSU, SSU) if name not in drawn.columns}
    whole = drawn.mutate(chance.name(PI), (double(1.0) / chance).name(WEIGHT), **missing)
    return whole.select(*columns, STRATUM, PSU, SSU, PI, WEIGHT)
