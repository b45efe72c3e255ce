"""What one row adds: its values on [0, 1], its weight in lattice steps, and the sums that its encoding makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import BooleanValue, FloatingValue, IntegerValue, NumericValue, StringValue, Table

from ..statistic.condition import Condition
from ..statistic.encodings import LeafCounts
from ..statistic.query import Query, UnitWeights
from .source import PI, WEIGHT
from .values import as_label, as_number, double

STEPS, Y, YES, ABSENT, OTHER = "__steps", "__y", "__yes", "__absent", "__other"


def steps_of(table: Table, query: Query) -> IntegerValue:
    """The lattice steps of a whole record: its design weight over the largest one."""
    if query.weights:
        kept, middle = query.weights.kept, query.weights.middle
        weight = _weight(table, query)
        weight = weight * double(kept) + double((1.0 - kept) * middle) if kept < 1.0 else weight
        share = weight / _largest(table, query.weights)
        # A weight above the largest one counts as the largest, so that no record can add more than the sensitivity says.
        return to_steps(ibis.greatest(ibis.least(share, double(1.0)), double(0.0)) * query.weights.steps)
    if len(query.lattice) == 1:
        return ibis.literal(query.steps, dt.int64)
    labels = as_label(table, str(query.strata_column), (label for label, _ in query.lattice))
    return labels.cases(*((label, step) for label, step in query.lattice if label is not None), else_=0).cast(dt.int64)


def _largest(table: Table, weights: UnitWeights) -> NumericValue:
    """The largest weight that a row may have: of all, or of its category."""
    if weights.column is None:
        return double(weights.largest)
    labels = as_label(table, weights.column, (label for label, _ in weights.by_label))
    own = [(label, double(largest)) for label, largest in weights.by_label]
    return labels.cases(*own, else_=double(weights.largest)).cast(dt.float64)


def _weight(table: Table, query: Query) -> NumericValue:
    """How much a row counts: its design weight, times its size where values are measured per unit of size."""
    weight = table[WEIGHT].cast(dt.float64)
    return weight * as_number(table, query.per.column) if query.per else weight


def scaled_value(table: Table, query: Query, inside: Sequence[BooleanValue] = ()) -> NumericValue:
    """The measured value, clipped to its bounds, on [0, 1]; 0 on the scale of the column outside the conditions `inside`."""
    assert query.column is not None
    assert query.bounds is not None
    low, high = query.bounds
    value = filled_number(table, query)
    if query.own_bounds:
        labels = as_label(table, query.own_bounds.column, (label for label, _, _ in query.own_bounds.by_label))
        lows = labels.cases(*((label, double(low)) for label, low, _ in query.own_bounds.by_label), else_=double(low))
        highs = labels.cases(*((label, double(high)) for label, _, high in query.own_bounds.by_label), else_=double(low))
        value = ibis.least(ibis.greatest(value, lows), highs)
        if query.own_bounds.scaled:
            return ibis.least(
                ibis.greatest((value - lows) / ibis.greatest(highs - lows, double(5e-324)), double(0.0)), double(1.0)
            )
    value = value.clip(*(query.clip or (low, high)))
    for condition in inside:
        value = condition.ifelse(value, double(0.0))
    if query.expanded:
        least, most = query.expanded
        product = value * _weight(table, query)
        return (product.clip(least, most) - least) / (most - least)
    return (value - low) / (high - low)


def filled_number(table: Table, query: Query) -> NumericValue:
    """The measured value, per unit of size where that is asked; a missing one replaced by the public rule where there is one."""
    value = as_number(table, str(query.column))
    value = value / as_number(table, query.per.column) if query.per else value
    return value.fill_null(double(float(query.fill))) if query.fill is not None else value


def leaf_of(table: Table, query: Query, encoding: LeafCounts) -> IntegerValue:
    """The leaf that a value falls into: between edges i and i+1, the upper edge outside but for the last.

    An edge that stands twice is a leaf of its own, behind which all others lie one leaf further.
    """
    edges = encoding.edges
    value = filled_number(table, query).clip(edges[0], edges[-1])
    body = list(dict.fromkeys(edges))
    leaves = len(body) - 1
    step = (body[-1] - body[0]) / leaves
    even = all(abs(edge - (body[0] + index * step)) <= 1e-9 * abs(step) for index, edge in enumerate(body))
    if even:
        leaf = ibis.least(((value - body[0]) / step).floor().cast(dt.int64), ibis.literal(leaves - 1, dt.int64))
    else:
        leaf = value.bucket(body, close_extreme=True).cast(dt.int64)
    for edge in body:
        if edges.count(edge) > 1:
            behind = value >= double(edge) if edge == body[-1] else value > double(edge)
            leaf = leaf + behind.ifelse(1, 0).cast(dt.int64)
    return leaf


def group_label(table: Table, query: Query, place: int) -> StringValue:
    """The group of a row by one column. Who left it empty is in no group, and counted with the first."""
    column, labels = query.by[place], query.categories[place]
    label = as_label(table, column, labels)
    return label.fill_null(labels[0]) if column in query.dropped else label


def staged(table: Table, query: Query) -> Table:
    """The rows with the columns that components are made of, each computed once."""
    more: dict[str, Any] = {STEPS: steps_of(table, query)}
    inside = [meets(table, condition) for condition in query.where] if query.masks else []
    inside += [table[name].notnull() for name in query.dropped] if query.masks else []
    if query.value is not None or query.column is None:
        more[YES] = _yes(table, query, inside)
    elif query.bounds is not None:
        more[Y] = scaled_value(table, query, inside)
    for place, (name, low, high) in enumerate(query.encoding.others):
        more[f"{OTHER}{place}"] = (as_number(table, name).clip(low, high) - low) / (high - low)
    if query.absent:
        more[ABSENT] = reduce(lambda one, two: one | two, [table[name].isnull() for name in query.dropped])
    return table.mutate(**more)


def _yes(table: Table, query: Query, inside: list[BooleanValue]) -> BooleanValue:
    """Whether a record has the value that is counted, and meets the conditions under which others count as no."""
    tests = list(inside)
    if query.value is not None:
        label = as_label(table, str(query.column), (query.value,))
        label = label.fill_null(str(query.fill)) if query.fill is not None else label
        tests.append((label == query.value).fill_null(False))
    return reduce(lambda one, two: one & two, tests) if tests else ibis.literal(True)


def meets(table: Table, condition: Condition) -> BooleanValue:
    """Whether a row meets a condition; a missing value does not."""
    if condition.labels:
        return as_label(table, condition.column, condition.labels).isin(list(condition.labels)).fill_null(False)
    return as_number(table, condition.column).between(condition.low, condition.high).fill_null(False)


def components_of(rows: Table, query: Query, steps: str = STEPS) -> list[IntegerValue]:
    """The components of one staged row, whole lattice steps each; who is left out adds to the last one and to no other.

    `steps` is the column of the steps of a whole record: those of its weight, or of a replicate weight.
    """
    answers = query.encoding.record(StagedRow(rows, query, steps))
    if not query.absent:
        return answers
    absent, nothing = rows[ABSENT], ibis.literal(0, dt.int64)
    return [*(absent.ifelse(nothing, part) for part in answers), absent.ifelse(rows[steps], nothing)]


class StagedRow:
    """A staged row as encodings read it (`Row`)."""

    def __init__(self, rows: Table, query: Query, steps: str = STEPS) -> None:
        self._rows, self._query, self._steps = rows, query, steps

    @property
    def steps(self) -> IntegerValue:
        """The lattice steps of the whole record."""
        return self._rows[self._steps]

    @property
    def y(self) -> NumericValue:
        """The measured value on [0, 1]."""
        return self._rows[Y]

    @property
    def answer(self) -> IntegerValue:
        """The steps of a record with yes, or those of its measured value."""
        if self._query.value is not None or self._query.column is None:
            return self._rows[YES].ifelse(self.steps, 0).cast(dt.int64)
        return self.least(self.to_steps(self.steps * self.y), self.steps)

    @property
    def others(self) -> list[NumericValue]:
        """The further columns on [0, 1]."""
        return [self._rows[f"{OTHER}{place}"] for place in range(len(self._query.encoding.others))]

    @property
    def share(self) -> NumericValue:
        """u, the steps over the most that any record counts."""
        return self.steps.cast(dt.float64) / float(self._query.steps)

    @property
    def thinned(self) -> NumericValue:
        """The steps times u (1 - pi)."""
        share = self.share
        most = share * share * (double(1.0) - self._rows[PI].cast(dt.float64)) * self._query.steps
        return ibis.greatest(most, double(0.0))

    def to_steps(self, value: NumericValue) -> IntegerValue:
        """A value rounded to the nearest whole step."""
        return to_steps(value)

    def least(self, one: IntegerValue, other: IntegerValue) -> IntegerValue:
        """The smaller of two."""
        return ibis.least(one, other)


def to_steps(value: NumericValue | FloatingValue) -> IntegerValue:
    """A value rounded to the nearest whole step."""
    return (value + 0.5).floor().cast(dt.int64)
