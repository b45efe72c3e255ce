"""Draws in which every element of a list has the same chance: one by one, a fixed number, every k-th, with replacement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
from ibis.expr.types import BooleanValue, FloatingValue, Table

from ..design.recipe import Each, EachBy, Every, Repeated, Share, Simple
from ..errors import BadData
from .numbers import WHOLE
from .source import BEFORE, COPY, DRAWS, LIMIT, NUMBER, ONE_DRAW, PI, RANK, ROW, SIZE, TAKE, WEIGHT, keep_temporarily, send
from .values import as_number, double, in_order, not_positive

if TYPE_CHECKING:
    from .relational import List

ALL = "__all"


def scaled(table: Table, probability: FloatingValue) -> Table:
    """The rows with their probabilities and weights carried on by one more stage."""
    weight = (table[WEIGHT] / probability).name(WEIGHT)
    if DRAWS not in table.columns:
        return table.mutate((table[PI] * probability).name(PI), weight)
    # Each draw of a cluster with replacement gives the unit another chance.
    once = table[ONE_DRAW] * probability
    never = (double(1.0) - once).pow(table[DRAWS])
    return table.mutate((table[BEFORE] * (double(1.0) - never)).name(PI), once.name(ONE_DRAW), weight)


def below(table: Table, probability: FloatingValue) -> BooleanValue:
    """Whether the number of an element lies below a probability; rounded down, so that none exceeds its own."""
    return table[NUMBER] < (probability * double(WHOLE)).floor().cast(dt.int64)


def draw_each(given: List, step: Each) -> Table:
    """Each element by itself, with one probability."""
    rows = given.numbered
    kept = rows.filter(below(rows, given.amount(rows)))
    return scaled(kept, given.amount(kept))


def draw_each_by(given: List, step: EachBy) -> Table:
    """Each element by itself, with its own probability, which is checked against the declared bound."""
    rows = given.numbered
    rate = as_number(rows, step.rate)
    wrong = (not_positive(rate) | (rate > given.amount(rows))).any().fill_null(False)
    if rows.aggregate(wrong.name("wrong")).to_pyarrow()["wrong"][0].as_py():
        raise BadData(
            f"the rates in {step.rate!r} are not all above 0 and at most the declared bound", hint="declare at_most= as it is"
        )
    kept = rows.filter(below(rows, rate))
    return scaled(kept, as_number(kept, step.rate))


def counted(given: List, take: str = "amount") -> Table:
    """The groups of a list with their sizes and, for a fixed number, what is taken from each."""
    rows = given.rows if given.groups else given.rows.mutate(ibis.literal(0, dt.int64).name(ALL))
    sizes = rows.group_by(given.groups or [ALL]).aggregate(rows.count().cast(dt.int64).name(SIZE))
    return keep_temporarily(sizes.mutate(given.amount(sizes).name(TAKE)))


def joined(rows: Table, groups: list[str], sizes: Table, *wanted: str) -> Table:
    """The rows with figures of their groups."""
    if groups:
        return rows.join(sizes.select(*groups, *wanted), groups)
    return rows.cross_join(sizes.select(*wanted))


def enough(sizes: Table) -> None:
    """Refuse lists that are shorter than what is taken from them."""
    if sizes.aggregate((sizes[TAKE] > sizes[SIZE]).any().fill_null(False).name("short")).to_pyarrow()["short"][0].as_py():
        raise BadData("a list has fewer units than the design draws from it", hint="check the declared sizes, or draw fewer")


def draw_simple(given: List, step: Simple) -> Table:
    """The elements with the smallest numbers of each group: every set of that many is equally likely."""
    sizes = counted(given)
    enough(sizes)
    drawn = smallest(given, sizes)
    return scaled(drawn, given.share(drawn)).drop(TAKE, SIZE)


def draw_share(given: List, step: Share) -> Table:
    """A share of each group, its size rounded by chance or to the nearest whole number."""
    sizes = counted(given)
    whole = sizes[TAKE] * sizes[SIZE]
    if step.rounding == "nearest":
        sizes = keep_temporarily(
            sizes.mutate(ibis.greatest((whole + double(0.5)).floor().cast(dt.float64), double(1.0)).name(TAKE))
        )
        drawn = smallest(given, sizes)
        return scaled(drawn, drawn[TAKE] / drawn[SIZE]).drop(TAKE, SIZE)
    chance = given.of_groups(sizes, "rounding")
    floor = (chance[TAKE] * chance[SIZE]).floor().cast(dt.float64)
    up = below(chance, chance[TAKE] * chance[SIZE] - floor).ifelse(double(1.0), double(0.0))
    sizes = keep_temporarily(chance.mutate((floor + up).name(TAKE)).drop(NUMBER))
    drawn = smallest(given, sizes).drop(TAKE, SIZE)
    return scaled(drawn, given.amount(drawn))


def smallest(given: List, sizes: Table) -> Table:
    """The `take` elements with the smallest numbers of each group, with the figures of the group."""
    # Only small numbers can win. Trying again with all of them treats the units of a group alike, so every set of
    # `take` units stays equally likely.
    limit = ibis.least(double(1.0), (double(1.3) * sizes[TAKE] + double(20.0)) / sizes[SIZE])
    wanted = sizes.aggregate(sizes[TAKE].sum().name(TAKE)).to_pyarrow()[TAKE][0].as_py()
    for limited in (True, False):
        figures = sizes.mutate((limit * double(WHOLE)).floor().cast(dt.int64).name(LIMIT))
        met = joined(given.numbered, given.groups, figures, SIZE, TAKE, LIMIT)
        if limited:
            met = met.filter(met[NUMBER] <= met[LIMIT])
        order = [met[NUMBER], *(met[name] for name in given.label)]
        ranked = met.mutate(ibis.row_number().over(group_by=given.groups, order_by=order).name(RANK))
        kept = keep_temporarily(ranked.filter(ranked[RANK] < ranked[TAKE]).drop(RANK, LIMIT, NUMBER))
        if kept.count().to_pyarrow().as_py() == int(wanted or 0):
            return kept
    raise BadData("the draw did not reach its size", hint="the rows of the frame changed while they were read")


def draw_every(given: List, step: Every) -> Table:
    """One element from each stretch of size/take elements, the first at random: in an order, or as chance has it."""
    sizes = counted(given)
    if not step.by_share:
        enough(sizes)
    started = keep_temporarily(given.of_groups(sizes, "start").rename(**{LIMIT: NUMBER}))
    met = joined(given.numbered, given.groups, started, SIZE, TAKE, LIMIT)
    place = ibis.row_number().over(group_by=given.groups, order_by=sorting(met, step.order, given.label)).cast(dt.int64)
    ranked = met.mutate(place.name(RANK))
    share = ranked[TAKE] if step.by_share else ranked[TAKE] / ranked[SIZE]
    start = ranked[LIMIT] / double(WHOLE)
    if step.by_share:
        # Element r lies on the stretch from r f to (r+1) f of a line; the points start + 0, 1, 2, ... choose.
        first, behind = ranked[RANK] * share, (ranked[RANK] + 1) * share
        chosen = (first - start).ceil() < (behind - start).ceil()
    else:
        # In whole numbers: element r lies from r n to (r+1) n, and the points S, S + N, S + 2N, ... choose.
        size, take = ranked[SIZE], ranked[TAKE].cast(dt.int64)
        point = ibis.least((start * size).floor().cast(dt.int64), size - 1)
        chosen = (ranked[RANK] * take - 1 - point + size) // size < ((ranked[RANK] + 1) * take - 1 - point + size) // size
    kept = ranked.filter(chosen)
    kept = scaled(kept, kept[TAKE] if step.by_share else kept[TAKE] / kept[SIZE])
    return keep_temporarily(kept.drop(SIZE, TAKE, LIMIT, NUMBER, RANK))


def sorting(rows: Table, order: object, label: list[str]) -> list[object]:
    """The columns that a list is sorted by: given ones, its own order, or the secret numbers."""
    if order == "random":
        return [rows[NUMBER], *(rows[name] for name in label)]
    if order == "as listed":
        return [rows[ROW]]
    assert isinstance(order, tuple)
    return [in_order(rows, name) for name in (*order, *label)]


def draw_repeated(given: List, step: Repeated) -> Table:
    """Draws with replacement: places in the list are drawn by a generator of the group's own, and looked up."""
    sizes = counted(given)
    groups = given.groups or [ALL]
    listed: dict[str, list[object]] = {name: [] for name in (*groups, RANK, COPY)}
    for row in sizes.to_pyarrow().to_pylist():
        generator = given.generator("repeated", *(str(row[name]) for name in groups))
        places = generator.integers(0, row[SIZE], int(row[TAKE]))
        for name in groups:
            listed[name] += [row[name]] * len(places)
        listed[RANK] += places.tolist()
        listed[COPY] += range(len(places))
    if not listed[RANK]:
        raise BadData("there is nobody to draw from", hint="draws with replacement need a list with at least one unit")
    places_of = {name: np.asarray(listed[name], np.int64) for name in (RANK, COPY)}
    chosen = send(pa.table({**listed, **places_of}), given.rows)
    rows = given.rows if given.groups else given.rows.mutate(ibis.literal(0, dt.int64).name(ALL))
    rows = joined(rows, given.groups, sizes, SIZE, TAKE)
    order = [in_order(rows, name) for name in given.label]
    place = ibis.row_number().over(group_by=given.groups, order_by=order).cast(dt.int64)
    ranked = rows.mutate(place.name(RANK))
    drawn = ranked.drop(*(name for name in (COPY,) if name in ranked.columns)).join(chosen, [*groups, RANK])
    one = double(1.0)
    inclusion = one - (one - one / drawn[SIZE]).pow(drawn[TAKE])
    kept = drawn.mutate(
        (drawn[PI] * inclusion).name(PI),
        (drawn[WEIGHT] * drawn[SIZE] / drawn[TAKE]).name(WEIGHT),
        drawn[TAKE].name(DRAWS),
        (one / drawn[SIZE]).name(ONE_DRAW),
        drawn[PI].name(BEFORE),
    )
    return keep_temporarily(kept.drop(*(name for name in (SIZE, TAKE, RANK, ALL) if name in kept.columns)))
