"""Which columns some queries read, and how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .encodings import LeafCounts
from .query import Query


@dataclass(frozen=True)
class ColumnsAsked:
    """The columns that some queries read, by how they read them."""

    measured: tuple[str, ...]
    labelled: tuple[str, ...]
    grouping: tuple[str, ...]
    # Columns whose missing values have a rule in every query.
    may_be_missing: tuple[str, ...] = ()
    # The labels that are looked for in each column.
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)


def columns_asked(queries: Iterable[Query]) -> ColumnsAsked:
    """The columns of queries: measured as numbers, read as labels, and those that make the published groups."""
    measured: dict[str, None] = {}
    labelled: dict[str, None] = {}
    grouping: dict[str, None] = {}
    ruled: dict[str, bool] = {}
    wanted: dict[str, tuple[str, ...]] = {}
    for query in queries:
        numbers = bool(query.bounds) or isinstance(query.encoding, LeafCounts)
        for name in query.columns:
            own_rule = name in query.dropped or (name == query.column and query.fill is not None)
            ruled[name] = ruled.get(name, True) and own_rule
        if query.column:
            (measured if numbers else labelled)[query.column] = None
        measured |= dict.fromkeys(name for name, _, _ in query.encoding.others)
        for condition in query.where:
            (labelled if condition.labels else measured)[condition.column] = None
            wanted[condition.column] = (*wanted.get(condition.column, ()), *condition.labels)
        if query.column and query.value is not None:
            wanted[query.column] = (*wanted.get(query.column, ()), query.value)
        grouping |= dict.fromkeys(query.by)
        if query.own_bounds:
            grouping[query.own_bounds.column] = None
    missing = tuple(column for column, always in ruled.items() if always)
    return ColumnsAsked(tuple(measured), tuple(labelled), tuple(grouping), missing, wanted)
