"""Draws by keyed number: any recipe, on any engine. Lists, groups and ranks are relations, computed where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
from ibis.expr.types import Table

from ...design.recipe import Clusters, Each, EachBy, Every, Repeated, Share, Simple, Sized, Step, Strata
from ...errors import BadData
from ..source import (
    BEFORE,
    CARRIED,
    COPY,
    DRAWS,
    LIMIT,
    NUMBER,
    ONE_DRAW,
    PI,
    PSU,
    RANK,
    ROW,
    SIZE,
    SSU,
    STRATUM,
    TAKE,
    WEIGHT,
    any_row,
    count_of,
    figures_of,
    keep_temporarily,
    send,
)
from ..values import as_label, as_number, double, in_order
from .drawn import MORE, TIMES, as_drawn, check_rates, lost_rows, unknown_stratum
from .keyed_list import ALL, WHOLE, Amount, KeyedNumbers, List, below, scaled
from .keyed_sizes import draw_sized


def draw_by_keyed_number(table: Table, recipe: Step, unit: str, columns: tuple[str, ...], numbers: KeyedNumbers) -> Table:
    """The drawn rows with stratum, clusters, probability and weight, as a temporary table of the rows' own engine."""
    roles = ("strata", "cluster", "size", "rate", "order")
    used = dict.fromkeys(
        [*columns, *(name for role in roles for name in recipe.columns(role)), *([ROW] if recipe.as_listed else [])]
    )
    rows = table.select(*used).mutate(double(1.0).name(PI), double(1.0).name(WEIGHT))
    if isinstance(recipe, Strata):
        return keep_temporarily(_strata(rows, recipe, unit, columns, numbers))
    declared = recipe.size if isinstance(recipe, Simple) else None
    return keep_temporarily(as_drawn(_run(rows, recipe, [], unit, list(recipe.amounts()), numbers, declared), columns))


def _strata(rows: Table, recipe: Strata, unit: str, columns: tuple[str, ...], numbers: KeyedNumbers) -> Table:
    """Each stratum by itself; those that are drawn in the same way are drawn together, each by its own amounts."""
    if isinstance(recipe.inside, Step):
        rows = rows.mutate(as_label(rows, recipe.strata, ()).name(STRATUM))
        drawn = [_run(rows, recipe.inside, [STRATUM], unit, list(recipe.inside.amounts()), numbers)]
    else:
        rows = rows.mutate(as_label(rows, recipe.strata, recipe.inside).name(STRATUM))
        if any_row(rows, ~rows[STRATUM].isin(list(recipe.inside))):
            raise unknown_stratum(recipe.strata)
        shapes: dict[Step, dict[str, Step]] = {}
        for label, step in recipe.inside.items():
            shapes.setdefault(step.shape(), {})[label] = step
        drawn = []
        for shape, steps in shapes.items():
            amounts = zip(*(step.amounts() for step in steps.values()), strict=True)
            by_place: list[Amount] = [dict(zip(steps, place, strict=True)) for place in amounts]
            sizes = {label: step.size for label, step in steps.items() if isinstance(step, Simple) and step.size}
            own = rows if len(shapes) == 1 else rows.filter(rows[STRATUM].isin(list(steps)))
            drawn.append(_run(own, shape, [STRATUM], unit, by_place, numbers, sizes if len(sizes) == len(steps) else None))
    # Strata may have clusters of different columns, and so of different types.
    whole = [as_drawn(each, columns) for each in drawn]
    texts = [each.mutate(each[PSU].cast(dt.string).name(PSU), each[SSU].cast(dt.string).name(SSU)) for each in whole]
    return ibis.union(*texts) if len(whole) > 1 else whole[0]


def _run(
    rows: Table,
    step: Step,
    groups: list[str],
    unit: str,
    amounts: Sequence[Amount],
    numbers: KeyedNumbers,
    declared: Amount | None = None,
) -> Table:
    """One step on the rows of a list, and the steps inside it."""
    if isinstance(step, Clusters):
        return _clusters(rows, step, groups, unit, amounts, numbers)
    # A cluster that was drawn several times is subsampled afresh each time.
    label = [*([COPY] if COPY in groups else []), unit]
    return STEPS[type(step)](List(rows, groups, label, numbers, amounts[0], declared), step)


def _clusters(
    rows: Table, step: Clusters, groups: list[str], unit: str, amounts: Sequence[Amount], numbers: KeyedNumbers
) -> Table:
    """Draw from the list of clusters, then take or draw the units of those that were drawn."""
    key = [*groups, step.cluster]
    carried = [name for name in CARRIED if name in rows.columns]
    constant = [*step.how.columns("size"), *step.how.columns("rate")]
    sorting = step.how.columns("order") + ((ROW,) if step.how.as_listed else ())
    listed = rows.group_by(key).aggregate(
        *(rows[name].max().name(name) for name in dict.fromkeys([*constant, *carried])),
        *(in_order(rows, name).min().name(name) for name in sorting if name not in (*key, *constant)),
        *((rows[name].min() != rows[name].max()).name(f"__differs{place}") for place, name in enumerate(constant)),
    )
    listed = keep_temporarily(listed)
    flags = [listed[f"__differs{place}"].any().fill_null(False).name(f"__differs{place}") for place in range(len(constant))]
    if flags and any(figures_of(listed, flags).values()):
        raise BadData("a cluster has different sizes or rates in its rows", hint="give every unit of a cluster the cluster's own")
    count = len(step.how.amounts())
    clusters = STEPS[type(step.how)](List(listed, groups, key, numbers, amounts[0], what=f"cluster {step.cluster}"), step.how)
    chosen = [name for name in (*key, COPY, *CARRIED) if name in clusters.columns]
    clusters = clusters.select(*dict.fromkeys(chosen))
    inside = rows.drop(*carried).join(clusters, key)
    # Clusters of a third stage and below are not written down.
    place = next((name for name in (PSU, SSU) if name not in rows.columns), None)
    inside = inside.mutate(inside[step.cluster].name(place)) if place else inside
    if step.inside is None:
        return inside
    deeper = [*key, *([COPY] if COPY in inside.columns and COPY not in key else [])]
    return _run(keep_temporarily(inside), step.inside, deeper, unit, amounts[count:], numbers)


def _each(given: List, step: Each) -> Table:
    """Each element by itself, with one probability."""
    rows = given.numbered()
    kept = rows.filter(below(rows, given.amount(rows)))
    return scaled(kept, given.amount(kept))


def _each_by(given: List, step: EachBy) -> Table:
    """Each element by itself, with its own probability, which is checked against the declared bound."""
    rows = given.numbered()
    check_rates(rows, step.rate, given.amount(rows))
    kept = rows.filter(below(rows, as_number(rows, step.rate)))
    return scaled(kept, as_number(kept, step.rate))


def _simple(given: List, step: Simple) -> Table:
    """The elements with the smallest numbers of each group: every set of that many is equally likely."""
    drawn = _smallest(given, given.counted_for_takes())
    return scaled(drawn, given.share(drawn)).drop(TAKE, SIZE)


def _share(given: List, step: Share) -> Table:
    """A share of each group, its size rounded by chance or to the nearest whole number."""
    sizes = given.counted()
    if step.rounding == "nearest":
        nearest = (sizes[TAKE] * sizes[SIZE] + double(0.5)).floor().cast(dt.float64)
        drawn = _smallest(given, keep_temporarily(sizes.mutate(ibis.greatest(nearest, double(1.0)).name(TAKE))))
        return scaled(drawn, drawn[TAKE] / drawn[SIZE]).drop(TAKE, SIZE)
    chance = given.numbered_groups(sizes, "rounding")
    floor = (chance[TAKE] * chance[SIZE]).floor().cast(dt.float64)
    up = below(chance, chance[TAKE] * chance[SIZE] - floor).ifelse(double(1.0), double(0.0))
    drawn = _smallest(given, keep_temporarily(chance.mutate((floor + up).name(TAKE)).drop(NUMBER))).drop(TAKE, SIZE)
    return scaled(drawn, given.amount(drawn))


def _smallest(given: List, sizes: Table) -> Table:
    """The elements with the smallest numbers of each group, so many as it takes, with the figures of the group."""
    # Only small numbers can win. Trying again with all of them treats the units of a group alike, so every set of
    # `take` units stays equally likely.
    limit = ibis.least(double(1.0), (double(TIMES) * sizes[TAKE] + double(MORE)) / sizes[SIZE])
    wanted = figures_of(sizes, [sizes[TAKE].sum().name(TAKE)])[TAKE]
    figures = sizes.mutate((limit * double(WHOLE)).floor().cast(dt.int64).name(LIMIT))
    for limited in (True, False):
        met = given.joined(given.numbered(), figures, SIZE, TAKE, LIMIT)
        if limited:
            met = met.filter(met[NUMBER] <= met[LIMIT])
        place = ibis.row_number().over(group_by=given.groups, order_by=given.sorting(met, "random"))
        ranked = met.mutate(place.name(RANK))
        kept = keep_temporarily(ranked.filter(ranked[RANK] < ranked[TAKE]).drop(RANK, LIMIT, NUMBER))
        if count_of(kept) == int(wanted or 0):
            return kept
    raise lost_rows()


def _every(given: List, step: Every) -> Table:
    """One element from each stretch of size/take elements, the first at random: in an order, or as chance has it."""
    sizes = given.counted() if step.by_share else given.counted_for_takes()
    started = keep_temporarily(given.numbered_groups(sizes, "start").rename(**{LIMIT: NUMBER}))
    met = given.joined(given.numbered(), started, SIZE, TAKE, LIMIT)
    place = ibis.row_number().over(group_by=given.groups, order_by=given.sorting(met, step.order)).cast(dt.int64)
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


def _repeated(given: List, step: Repeated) -> Table:
    """Draws with replacement: places in the list are drawn by a generator of the group's own, and looked up."""
    sizes = given.counted()
    groups = given.groups or [ALL]
    listed: dict[str, list[Any]] = {name: [] for name in (*groups, RANK, COPY)}
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
    rows = given.joined(given.grouped(), sizes, SIZE, TAKE)
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


STEPS: dict[type[Step], Callable[..., Table]] = {
    Each: _each,
    EachBy: _each_by,
    Simple: _simple,
    Share: _share,
    Repeated: _repeated,
    Every: _every,
    Sized: draw_sized,
}
