"""Any recipe on any engine: lists, groups and ranks as relations, computed where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
from ibis.expr.types import NumericValue, Table

from ..design.recipe import Clusters, Each, EachBy, Every, Repeated, Share, Simple, Sized, Step, Strata
from ..errors import BadData
from .equal_chances import ALL, draw_each, draw_each_by, draw_every, draw_repeated, draw_share, draw_simple
from .numbers import Numbers
from .source import CARRIED, COPY, PI, PSU, ROW, SIZE, SSU, STRATUM, TAKE, WEIGHT, keep_temporarily
from .unequal_chances import draw_sized
from .values import as_label, double, in_order

Amount = float | Mapping[str, float]


class List:
    """A list to draw from: its rows, the groups in which draws are independent, and what names an element."""

    def __init__(
        self, rows: Table, groups: list[str], label: list[str], numbers: Numbers, amount: Amount, what: str = "unit"
    ) -> None:
        self.rows, self.groups, self.label, self.numbers, self._amount = rows, groups, label, numbers, amount
        # A cluster and a unit of one name have numbers of their own.
        self.what = what
        # Declared sizes of the list, by stratum where there are strata: weights are made of public figures.
        self.declared: float | Mapping[str, float] | None = None

    def amount(self, table: Table) -> NumericValue:
        """The amount of the step, which may differ by stratum."""
        if isinstance(self._amount, Mapping):
            cases = ((label, double(amount)) for label, amount in self._amount.items())
            return table[STRATUM].cases(*cases, else_=ibis.null(dt.float64))
        return double(self._amount)

    def share(self, table: Table) -> NumericValue:
        """What is taken over what is there: the declared number of units, or where none is declared the counted one."""
        if isinstance(self.declared, Mapping):
            cases = ((label, double(size)) for label, size in self.declared.items())
            return table[TAKE] / table[STRATUM].cases(*cases, else_=ibis.null(dt.float64))
        return table[TAKE] / (double(self.declared) if self.declared else table[SIZE])

    @property
    def numbered(self) -> Table:
        """The rows with the number of each element."""
        return self.numbers.attach(self.rows, self.label, self.what, shifted=True)

    def of_groups(self, sizes: Table, purpose: str) -> Table:
        """The groups with a number of each, for one purpose."""
        return self.numbers.attach(sizes, self.groups or [ALL], f"{purpose} of {self.what}")

    def generator(self, purpose: str, *group: str) -> np.random.Generator:
        """A generator of its own for one group, for one purpose."""
        return self.numbers.generator(f"{purpose} of {self.what}", *group)


LEAVES: dict[type[Step], Callable[..., Table]] = {
    Each: draw_each,
    EachBy: draw_each_by,
    Simple: draw_simple,
    Share: draw_share,
    Repeated: draw_repeated,
    Every: draw_every,
    Sized: draw_sized,
}


def draw_by_recipe(table: Table, recipe: Step, unit: str, columns: tuple[str, ...], numbers: Numbers) -> Table:
    """The drawn rows with stratum, psu, inclusion probability and weight, as a table of the rows' own engine."""
    listed = any(getattr(step, "order", None) == "as listed" for step in recipe.below())
    roles = ("strata", "cluster", "size", "rate", "order")
    used = dict.fromkeys([*columns, *(name for role in roles for name in recipe.columns(role)), *([ROW] if listed else [])])
    rows = table.select(*used).mutate(double(1.0).name(PI), double(1.0).name(WEIGHT))
    amounts: list[Amount] = list(recipe.amounts())
    if not isinstance(recipe, Strata):
        declared = recipe.size if isinstance(recipe, Simple) else None
        return keep_temporarily(_finished(_run(rows, recipe, [], unit, amounts, numbers, declared), columns))
    rows = rows.mutate(as_label(rows, recipe.strata, _labels(recipe)).name(STRATUM))
    drawn = [_finished(_run(*branch, [STRATUM], unit, *rest), columns) for branch, rest in _branches(rows, recipe, numbers)]
    # Strata may have clusters of different columns, and so of different types.
    texts = [each.mutate(each[PSU].cast(dt.string).name(PSU), each[SSU].cast(dt.string).name(SSU)) for each in drawn]
    return keep_temporarily(ibis.union(*texts) if len(drawn) > 1 else drawn[0])


def _labels(recipe: Strata) -> tuple[str, ...]:
    return tuple(recipe.inside) if isinstance(recipe.inside, Mapping) else ()


def _branches(rows: Table, recipe: Strata, numbers: Numbers) -> list[tuple[tuple[Table, Step], tuple[Any, ...]]]:
    """Strata that are drawn in the same way are drawn together, each by its own amounts."""
    if isinstance(recipe.inside, Step):
        return [((rows, recipe.inside), (list(recipe.inside.amounts()), numbers))]
    if (
        rows.aggregate((~rows[STRATUM].isin(list(recipe.inside))).any().fill_null(False).name("other"))
        .to_pyarrow()["other"][0]
        .as_py()
    ):
        raise BadData(f"a stratum of {recipe.strata!r} is missing from the allocation", hint="give every stratum a design")
    shapes: dict[Step, list[str]] = {}
    for label, step in recipe.inside.items():
        shapes.setdefault(step.shape(), []).append(label)
    found = []
    for shape, labels in shapes.items():
        amounts = [recipe.inside[label].amounts() for label in labels]
        by_place: list[Amount] = [dict(zip(labels, place, strict=True)) for place in zip(*amounts, strict=True)]
        own = rows if len(shapes) == 1 else rows.filter(rows[STRATUM].isin(labels))
        sizes = {label: step.size for label in labels if isinstance(step := recipe.inside[label], Simple) and step.size}
        found.append(((own, shape), (by_place, numbers, sizes if len(sizes) == len(labels) else None)))
    return found


def _run(
    rows: Table,
    step: Step,
    groups: list[str],
    unit: str,
    amounts: list[Amount],
    numbers: Numbers,
    declared: float | Mapping[str, float] | None = None,
) -> Table:
    if isinstance(step, Clusters):
        return _clusters(rows, step, groups, unit, amounts, numbers)
    # A cluster that was drawn several times is subsampled afresh each time.
    label = [*([COPY] if COPY in groups else []), unit]
    given = List(rows, groups, label, numbers, amounts[0])
    given.declared = declared
    return LEAVES[type(step)](given, step)


def _clusters(rows: Table, step: Clusters, groups: list[str], unit: str, amounts: list[Amount], numbers: Numbers) -> Table:
    """Draw from the list of clusters, then take or draw the units of those that were drawn."""
    key = [*groups, step.cluster]
    carried = [name for name in CARRIED if name in rows.columns]
    constant = [*step.how.columns("size"), *step.how.columns("rate")]
    sorting = step.how.columns("order") + ((ROW,) if getattr(step.how, "order", None) == "as listed" else ())
    listed = rows.group_by(key).aggregate(
        *(rows[name].max().name(name) for name in dict.fromkeys([*constant, *carried])),
        *(in_order(rows, name).min().name(name) for name in sorting if name not in (*key, *constant)),
        *((rows[name].min() != rows[name].max()).name(f"__differs{place}") for place, name in enumerate(constant)),
    )
    listed = keep_temporarily(listed)
    flags = [listed[f"__differs{place}"].any().fill_null(False).name(f"__differs{place}") for place in range(len(constant))]
    if flags and any(listed.aggregate(flags).to_pyarrow().to_pylist()[0].values()):
        raise BadData("a cluster has different sizes or rates in its rows", hint="give every unit of a cluster the cluster's own")
    count = len(step.how.amounts())
    clusters = LEAVES[type(step.how)](List(listed, groups, key, numbers, amounts[0], f"cluster {step.cluster}"), step.how)
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


def _finished(drawn: Table, columns: tuple[str, ...]) -> Table:
    missing = {name: ibis.null(dt.string) for name in (STRATUM, PSU, SSU) if name not in drawn.columns}
    whole = drawn.mutate(**missing) if missing else drawn
    return whole.select(*columns, STRATUM, PSU, SSU, PI, WEIGHT)
