"""Draws by keyed number with chances in proportion to size: certain units first, then the rest by a named method."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
from ibis.expr.types import Table

from ...design.recipe import Sized
from ...errors import BadData
from ..source import NUMBER, RANK, SIZE, TAKE, TICKS, TOTAL, any_row, figures_of, keep_temporarily, send
from ..values import as_number, double, not_positive
from .drawn import wrong_sizes
from .keyed_list import ALL, WHOLE, List, below, scaled

CHANCE, CERTAIN, REACHED = "__chance", "__certain", "__reached"
# Sizes are counted in whole ticks, this many bits in all, so that their sums are exact on every engine.
TICK_BITS = 52
# The smallest size has at least so many, so that its chance is right to a part in two thousand.
FEWEST_TICKS = 1024


def draw_sized(given: List, step: Sized) -> Table:
    """`take` elements of each group with chances in proportion to a column."""
    given = replace(given, rows=_with_ticks(given.rows, step.size))
    met = given.joined(given.rows, _without_certain(given), TAKE, TOTAL)
    chance = (met[TICKS].cast(dt.float64) * met[TAKE] >= met[TOTAL]).ifelse(
        double(1.0), met[TICKS].cast(dt.float64) * met[TAKE] / met[TOTAL]
    )
    rows = met.mutate(chance.name(CHANCE))
    if step.at_most < 1.0 and any_row(rows, rows[CHANCE] > double(step.at_most)):
        raise BadData(
            f"a unit's probability by {step.size!r} is above the declared at_most",
            because="this guarantee rests on it",
            hint="declare the true at_most=, or draw fewer",
        )
    certain, given = rows.filter(rows[CHANCE] >= 1.0), replace(given, rows=rows.filter(rows[CHANCE] < 1.0))
    rest = IN_THE_ENGINE.get(step.method, _listed)(given, step)
    drawn = ibis.union(certain, rest.select(*certain.columns))
    return scaled(drawn, drawn[CHANCE]).drop(TICKS, TAKE, TOTAL, CHANCE)


def _with_ticks(rows: Table, column: str) -> Table:
    """The rows with their sizes in whole ticks; refuses sizes that are missing, not finite, zero or negative."""
    number = as_number(rows, column)
    wrong = not_positive(number).any().fill_null(False)
    found = figures_of(rows, [wrong.name("wrong"), number.sum().name("sum"), number.min().name("least")])
    if found["wrong"]:
        raise wrong_sizes(column)
    whole = rows[column].type().is_integer() and found["sum"] is not None and found["sum"] < 2.0**TICK_BITS
    bits = 0 if whole or not found["sum"] else TICK_BITS - math.ceil(math.log2(found["sum"])) - 1
    if not whole and found["sum"] and found["least"] * 2.0**bits < FEWEST_TICKS:
        raise BadData(f"the sizes in {column!r} differ by too much to be told apart", hint="draw the largest units apart")
    ticks = rows[column].cast(dt.int64) if whole else ibis.greatest((number * double(2.0**bits)).round().cast(dt.int64), 1)
    return rows.mutate(ticks.name(TICKS))


def _without_certain(given: List) -> Table:
    """What is left to take, and of how many ticks, once those that would exceed probability 1 are taken: repeated."""
    groups = given.groups or [ALL]
    sizes, rows = given.counted_for_takes(), given.grouped()
    totals = rows.group_by(groups).aggregate(rows[TICKS].sum().cast(dt.float64).name(TOTAL))
    whole = keep_temporarily(sizes.join(totals, groups).select(*groups, TAKE, TOTAL))
    state, before = whole, -1
    while True:
        met = rows.join(state, groups)
        sure = met.filter(met[TICKS].cast(dt.float64) * met[TAKE] >= met[TOTAL])
        taken = sure.group_by(groups).aggregate(
            sure.count().cast(dt.float64).name(SIZE), sure[TICKS].sum().cast(dt.float64).name(CERTAIN)
        )
        found = keep_temporarily(taken)
        certain = int(found[SIZE].sum().to_pyarrow().as_py() or 0)
        if certain == before or certain == 0:
            return state
        # The bar falls as large units leave, so units once certain stay certain.
        left = whole.left_join(found, groups)
        state = keep_temporarily(
            left.select(
                *(left[name] for name in groups),
                (left[TAKE] - left[SIZE].fill_null(double(0.0))).name(TAKE),
                (left[TOTAL] - left[CERTAIN].fill_null(double(0.0))).name(TOTAL),
            )
        )
        before = certain


def _poisson(given: List, step: Sized) -> Table:
    """Each element by itself, where its number is below its chance."""
    rows = given.numbered()
    return rows.filter(below(rows, rows[CHANCE])).drop(NUMBER)


def _systematic(given: List, step: Sized) -> Table:
    """One start on the cumulated chances of a group; points one apart choose."""
    rows = given.numbered() if step.order == "random" else given.rows
    window = ibis.window(group_by=given.groups, order_by=given.sorting(rows, step.order), preceding=None, following=0)
    reached = keep_temporarily(rows.mutate(rows[TICKS].sum().over(window).cast(dt.int64).name(REACHED)))
    groups = reached.group_by(given.groups) if given.groups else reached
    named = keep_temporarily(groups.aggregate([reached[TAKE].max().name(SIZE)]))
    named = named if given.groups else named.mutate(ibis.literal(0, dt.int64).name(ALL))
    started = keep_temporarily(given.numbered_groups(named, "start").rename(**{RANK: NUMBER}))
    met = given.joined(reached, started, RANK)
    start = met[RANK] / double(WHOLE)
    behind = met[REACHED].cast(dt.float64) * met[TAKE] / met[TOTAL] - start
    first = (met[REACHED] - met[TICKS]).cast(dt.float64) * met[TAKE] / met[TOTAL] - start
    kept = met.filter(first.ceil() < behind.ceil())
    return kept.drop(*(name for name in (RANK, REACHED, NUMBER) if name in kept.columns))


def _pareto(given: List, step: Sized) -> Table:
    """The elements with the smallest ranks."""
    rows = given.numbered()
    uniform = (rows[NUMBER].cast(dt.float64) + double(0.5)) / double(WHOLE)
    value = uniform / (double(1.0) - uniform) * (double(1.0) - rows[CHANCE]) / rows[CHANCE]
    ranked = rows.mutate(value.name(RANK))
    order = [ranked[RANK], *(ranked[name] for name in given.label)]
    placed = ranked.mutate(ibis.row_number().over(group_by=given.groups, order_by=order).name(REACHED))
    return placed.filter(placed[REACHED] < placed[TAKE]).drop(NUMBER, RANK, REACHED)


IN_THE_ENGINE = {"poisson": _poisson, "systematic": _systematic, "pareto": _pareto}


def _listed(given: List, step: Sized) -> Table:
    """Any other method, which goes through the list: its public sizes come to Python, and the chosen labels go back."""
    rows = keep_temporarily(given.rows)
    texts = [rows[name].cast(dt.string).name(f"__label{place}") for place, name in enumerate(given.label)]
    groups = [rows[name].cast(dt.string).name(f"__group{place}") for place, name in enumerate(given.groups)]
    raw = [rows[name].name(f"__key{place}") for place, name in enumerate(given.label)]
    found = rows.select(*groups, *texts, *raw, rows[CHANCE]).to_pyarrow()
    if not found.num_rows:
        return rows
    found = found.sort_by([(name, "ascending") for name in found.column_names if name.startswith(("__group", "__label"))])
    chances = found[CHANCE].to_numpy()
    chosen: list[np.ndarray] = []
    for start, stop, label in _runs(found, len(groups)):
        own = chances[start:stop]
        chosen.append(start + step.drawn_by.draw(own, given.generator(step.method, *label)))
    drawn = found.take(pa.array(np.concatenate(chosen)))
    keys = send(pa.table({name: drawn[f"__key{place}"] for place, name in enumerate(given.label)}), rows)
    return rows.join(keys, given.label)


def _runs(found: pa.Table, groups: int) -> list[tuple[int, int, tuple[str, ...]]]:
    """Stretches of equal groups in a sorted table, with the label of each."""
    if not groups:
        return [(0, found.num_rows, ())]
    columns = [np.asarray(found[f"__group{place}"].to_pylist(), dtype=object) for place in range(groups)]
    change = np.zeros(found.num_rows, dtype=bool)
    for column in columns:
        change[1:] |= column[1:] != column[:-1]
    starts = [0, *np.flatnonzero(change).tolist(), found.num_rows]
    return [(a, b, tuple(str(column[a]) for column in columns)) for a, b in itertools.pairwise(starts) if b > a]
