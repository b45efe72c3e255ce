"""The draw: where a secret draw can jump to its rows it does; any other recipe, and any key, goes by keyed numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
from ibis.expr.types import FloatingValue, NumericValue, Table

from ..design.key import Key
from ..design.recipe import Clusters, Each, EachBy, Simple, Sized, Step, Strata
from ..errors import BadData
from .arrays import LARGE, candidate_limit, too_short
from .numbers import Numbers
from .relational import draw_by_recipe
from .secret import Rows, Uniforms, secret_generator, small_numbers
from .source import NUMBER, PI, PSU, RANK, ROW, SSU, STRATUM, WEIGHT, keep_temporarily, send
from .values import as_label, as_number, double, not_positive


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
        if isinstance(recipe, Each) and recipe.probability >= 1.0:
            # A census is the table itself, and need not be copied.
            return _finished(table, columns, double(1.0))
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
        return _fixed(table, recipe, columns, generator)
    if isinstance(recipe, EachBy):
        rate = as_number(table, recipe.rate)
        wrong = (not_positive(rate) | (rate > double(recipe.at_most))).any().fill_null(False)
        if table.aggregate(wrong.name("wrong")).to_pyarrow()["wrong"][0].as_py():
            raise BadData(
                f"the rates in {recipe.rate!r} are not all above 0 and at most the declared bound",
                hint="declare at_most= as it is",
            )
        used = tuple(dict.fromkeys((*columns, recipe.rate)))
        met = _meet(table, *small_numbers(generator, _count(table), recipe.at_most), used)
        kept = met.filter(met[NUMBER] <= as_number(met, recipe.rate))
        return _finished(kept, columns, as_number(kept, recipe.rate))
    if isinstance(recipe, Clusters) and isinstance(recipe.how, Simple) and recipe.inside is None:
        return _clusters(table, recipe.cluster, recipe.how.take, columns, generator)
    if isinstance(recipe, Sized):
        return _sized(table, recipe, columns, generator)
    if isinstance(recipe, Strata) and isinstance(recipe.inside, Mapping):
        return _strata(table, recipe.strata, recipe.inside, columns, generator)
    return None


def _fixed(table: Table, step: Simple, columns: tuple[str, ...], generator: np.random.Generator) -> Table:
    take, rows = step.take, _count(table)
    if take > rows:
        raise too_short()
    chosen = generator.choice(rows, take, replace=False, shuffle=False).astype(np.int64)
    met = keep_temporarily(_meet(table, chosen, np.zeros(take), columns))
    # Estimates divide by n, so a draw of any other size must not get out.
    if met.count().to_pyarrow().as_py() != take:
        raise BadData("the draw did not reach its size", hint="the rows of the frame changed while they were read")
    return _finished(met, columns, double(take / (step.size or rows)))


def _clusters(table: Table, column: str, take: int, columns: tuple[str, ...], generator: np.random.Generator) -> Table:
    """Places in the list of clusters are drawn, and the units of those clusters met in one pass."""
    listed = keep_temporarily(table.select(column).distinct())
    numbered = keep_temporarily(listed.mutate(ibis.row_number().name(ROW)))
    count = _count(numbered)
    if take > count:
        raise too_short()
    chosen = generator.choice(count, take, replace=False, shuffle=False).astype(np.int64)
    drawn = keep_temporarily(_meet(numbered, chosen, np.zeros(take), (column,)).drop(NUMBER))
    kept = table.select(*dict.fromkeys((*columns, column))).join(drawn, column)
    return _finished(kept.mutate(kept[column].name(PSU)), columns, double(take / count))


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
    """PPS one by one, or cumulated in the order of a file; units that would exceed probability 1 are taken first."""
    listed = step.method == "systematic" and step.order == "as listed" and table.get_backend().name == "duckdb"
    if step.method != "poisson" and not listed:
        return None
    size = as_number(table, step.size)
    sums = [size.sum().name("sum"), size.max().name("max"), size.min().name("min")]
    found = table.aggregate([*sums, size.count().name("present"), table.count().name("rows")])
    facts = found.to_pyarrow().to_pylist()[0]
    if not (facts["present"] == facts["rows"] >= step.take and facts["min"] > 0.0 and math.isfinite(facts["sum"])):
        # What is wrong is named by the general way.
        return None
    take, total, largest = _without_certain(table, size, step.take, facts)
    if take == 0 or take * largest > step.at_most * total or (step.at_most < 1.0 and take < step.take):
        return None
    used = tuple(dict.fromkeys((*columns, step.size)))
    if step.method == "poisson":
        bar = min(LARGE * facts["sum"] / facts["rows"], largest)
        met = _meet(table, *small_numbers(generator, facts["rows"], min(1.0, take * bar / total)), used)
        small = met.filter((met[NUMBER] <= _chance(met, step, take, total)) & (as_number(met, step.size) <= double(bar)))
        kept = ibis.union(small.select(*used), _large(table, step, used, bar, take, total, generator))
    else:
        kept = _cumulated(table, step, used, take, total, generator)
    drawn = keep_temporarily(_finished(kept, columns, ibis.least(_chance(kept, step, take, total), double(1.0))))
    # Rounding at the seams of a running sum may lose or double a unit; such a draw is made again, in whole ticks.
    return None if step.method == "systematic" and _count(drawn) != step.take else drawn


def _large(
    table: Table, step: Sized, used: tuple[str, ...], bar: float, take: int, total: float, generator: np.random.Generator
) -> Table:
    """Units far above the mean size, few of them: a number for each."""
    rows = table.select(*used)
    large = rows.filter(as_number(rows, step.size) > double(bar))
    listed = keep_temporarily(large.mutate(ibis.row_number().name(ROW)))
    numbers = 1.0 - generator.random(_count(listed))
    met = _meet(listed, np.arange(len(numbers)), numbers, used)
    return met.filter(met[NUMBER] <= _chance(met, step, take, total)).select(*used)


def _chance(rows: Table, step: Sized, take: int, total: float) -> FloatingValue:
    return as_number(rows, step.size) * double(take) / double(total)


def _without_certain(table: Table, size: NumericValue, take: int, facts: dict[str, float]) -> tuple[int, float, float]:
    """What is left to take, of how much, and the largest size left, once units that would exceed 1 are out: repeated."""
    left, total, before, largest = take, facts["sum"], 0, facts["max"]
    while left * largest >= total:
        bar = size * double(left) >= double(total)
        rest = (~bar).ifelse(size, ibis.null(dt.float64)).max()
        sums = [bar.sum().name("count"), bar.ifelse(size, double(0.0)).sum().name("sum"), rest.name("max")]
        found = table.aggregate(sums).to_pyarrow().to_pylist()[0]
        if found["count"] == before:
            break
        # The bar falls as large units leave, so units once certain stay certain.
        before, left, total = found["count"], take - int(found["count"]), facts["sum"] - found["sum"]
        largest = found["max"] or 0.0
    return left, total, largest


def _cumulated(
    table: Table, step: Sized, used: tuple[str, ...], take: int, total: float, generator: np.random.Generator
) -> Table:
    """A running sum without a sort: DuckDB hands rows on in the order of the file."""
    rows, sure, start = table.select(*used), double(total / take), double(generator.random())
    certain = take < step.take

    def own(rows: Table) -> NumericValue:
        size = as_number(rows, step.size)
        return (size >= sure).ifelse(double(0.0), size) if certain else size

    reached = rows.mutate(own(rows).sum().over(ibis.window(preceding=None, following=0)).name(NUMBER))
    scale = double(take / total)
    hit = ((reached[NUMBER] - own(reached)) * scale - start).ceil() < (reached[NUMBER] * scale - start).ceil()
    return reached.filter(hit | (as_number(reached, step.size) >= sure) if certain else hit).select(*used)


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
