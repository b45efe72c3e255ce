"""The sums: each row adds whole lattice steps to its group, so results are exact on every engine."""

from __future__ import annotations

from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import numpy.typing as npt
from ibis.expr.types import IntegerValue, Table

from ..errors import BadData
from ..statistic.query import Query
from .values import as_label, as_number


class SecretSums:
    """Exact sums of a sample. Printing them, in a log or a traceback, shows nothing."""

    def __init__(self, values: npt.NDArray[np.int64]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return "SecretSums(not shown)"


def sum_rows(table: Table, query: Query) -> SecretSums:
    """The exact sums of a query, groups by components; groups without rows are 0."""
    names = [f"__group{index}" for index in range(len(query.by))]
    parts = _components(table, query)
    rows = table.select(
        *(
            as_label(table, column, labels).name(name)
            for column, name, labels in zip(query.by, names, query.categories, strict=True)
        ),
        *(part.name(f"__part{index}") for index, part in enumerate(parts)),
    )
    totals = [rows[f"__part{index}"].sum().name(f"__part{index}") for index in range(len(parts))]
    found: list[dict[str, Any]] = (rows.group_by(names) if names else rows).aggregate(totals).to_pyarrow().to_pylist()
    place = {group: index for index, group in enumerate(query.groups)}
    sums = np.zeros((len(place), len(parts)), dtype=np.int64)
    for row in found:
        index = place.get(tuple(row[name] for name in names))
        if index is None:
            raise BadData(
                "a grouping column has a category that was not declared", hint="declare every category in Frame(categories=...)"
            )
        sums[index] = [row[f"__part{part}"] or 0 for part in range(len(parts))]
    return SecretSums(sums)


def _components(table: Table, query: Query) -> list[IntegerValue]:
    if len(query.lattice) == 1:
        steps = ibis.literal(query.steps, dt.int64)
    else:
        labels = as_label(table, str(query.strata_column), (label for label, _ in query.lattice))
        steps = labels.cases(*((label, step) for label, step in query.lattice if label is not None), else_=0).cast(dt.int64)
    if query.encoding == "units":
        return [steps]
    assert query.column is not None
    if query.encoding in ("pair", "yes"):
        yes = (as_label(table, query.column, (query.value,)) == query.value).ifelse(steps, 0).cast(dt.int64)
        return [yes] if query.encoding == "yes" else [yes, steps - yes]
    assert query.bounds is not None
    low, high = query.bounds
    y = (as_number(table, query.column).clip(low, high) - low) / (high - low)
    if query.encoding == "moments":
        return [
            (steps * y + 0.5).floor().cast(dt.int64),
            (steps * (query.second_moment_scale * (y * (1.0 - y))) + 0.5).floor().cast(dt.int64),
        ]
    # To the nearest step: rounding down would lower the sum of squares by half a step a row.
    top = ibis.least((steps * (y * y) + 0.5).floor().cast(dt.int64), steps)
    # The last two are what is left of the whole, so the three add up to `steps` whatever floating point does.
    bottom = ibis.least((steps * ((1.0 - y) * (1.0 - y)) + 0.5).floor().cast(dt.int64), steps - top)
    return [top, steps - top - bottom, bottom]
