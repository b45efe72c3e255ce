"""The sums: each row adds whole lattice steps to its group, so results are exact on every engine."""

from __future__ import annotations

import hashlib
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from ibis.expr.types import BooleanValue, IntegerValue, NumericValue, Table

from ..errors import BadData
from ..statistic.condition import Condition
from ..statistic.query import Query, Slots
from .encodings import components_of, leaf_of, scaled_value
from .source import PSU, STRATUM, send
from .values import as_label, as_number

SLOT = "__slot"


class SecretSums:
    """Exact sums of a sample. Printing them, in a log or a traceback, shows nothing."""

    def __init__(self, values: npt.NDArray[np.int64]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return "SecretSums(not shown)"


def sum_rows(table: Table, query: Query) -> SecretSums:
    """The exact sums of a query, cells (groups, or groups by slots) by components; cells without rows are 0."""
    # Clusters are dealt before any row is left out: whether a cluster has rows that meet a condition is an answer.
    if query.slots:
        table = in_slots(table, query.slots)
    for condition in query.where:
        table = table.filter(meets(table, condition))
    if query.encoding == "window":
        return order_statistics(table, query)
    if query.encoding in ("tree", "histogram"):
        return _tree(_by_leaf(table, query), query)
    names, rows = _labelled(table, query)
    parts = components_of(table, query)
    rows = table.select(*rows, *(part.name(f"__part{index}") for index, part in enumerate(parts)))
    totals = [rows[f"__part{index}"].sum().name(f"__part{index}") for index in range(len(parts))]
    found: list[dict[str, Any]] = (rows.group_by(names) if names else rows).aggregate(totals).to_pyarrow().to_pylist()
    sums = np.zeros((query.cells, len(parts)), dtype=np.int64)
    for place, row in _placed(found, names, query):
        sums[place] = [row[f"__part{part}"] or 0 for part in range(len(parts))]
    return SecretSums(sums)


def meets(table: Table, condition: Condition) -> BooleanValue:
    """Whether a row meets a condition; a missing value does not."""
    if condition.labels:
        return as_label(table, condition.column, condition.labels).isin(list(condition.labels)).fill_null(False)
    return as_number(table, condition.column).between(condition.low, condition.high).fill_null(False)


def in_slots(table: Table, slots: Slots) -> Table:
    """The rows with the slot of their cluster. Who shares a slot is decided by hashes of labels, not by any answer."""
    keys = [STRATUM, PSU] if slots.strata else [PSU]
    found = table.select(*keys).distinct().to_pyarrow()
    labels = [tuple(str(value) for value in row.values()) for row in found.to_pylist()]
    hashed = [int.from_bytes(hashlib.sha256("\x1f".join(("slot", *label)).encode()).digest()[:8], "big") for label in labels]
    dealt = [number % slots.count for number in hashed]
    if slots.balanced:
        seen: dict[str, int] = {}
        for index in sorted(range(len(labels)), key=lambda index: (hashed[index], labels[index])):
            stratum = labels[index][0] if slots.strata else ""
            dealt[index] = seen.get(stratum, 0) % slots.count
            seen[stratum] = seen.get(stratum, 0) + 1
    places = [
        slots.strata.index(label[0]) * slots.count + slot if slots.strata else slot
        for label, slot in zip(labels, dealt, strict=True)
    ]
    sent = send(found.append_column(SLOT, pa.array(places, pa.int64())), table)
    return table.inner_join(sent, keys)


def _labelled(table: Table, query: Query) -> tuple[list[str], list[Any]]:
    """The names of the grouping columns and their values, slots last."""
    names = [f"__group{index}" for index in range(len(query.by))]
    values: list[Any] = [
        as_label(table, column, labels).name(name) for column, name, labels in zip(query.by, names, query.categories, strict=True)
    ]
    if query.slots:
        names.append(SLOT)
        values.append(table[SLOT])
    return names, values


def _placed(found: list[dict[str, Any]], names: list[str], query: Query) -> list[tuple[int, dict[str, Any]]]:
    """Each row of totals with the place of its cell."""
    place = {group: index for index, group in enumerate(query.groups)}
    slots = query.slots.cells if query.slots else 1
    placed = []
    for row in found:
        index = place.get(tuple(row[name] for name in names if name != SLOT))
        if index is None:
            raise BadData(
                "a grouping column has a category that was not declared", hint="declare every category in Frame(categories=...)"
            )
        placed.append((index * slots + (row[SLOT] if query.slots else 0), row))
    return placed


def _by_leaf(table: Table, query: Query) -> npt.NDArray[np.int64]:
    """Lattice steps by cell and leaf."""
    names, values = _labelled(table, query)
    rows = table.select(*values, leaf_of(table, query).name("__leaf"), components_of(table, query)[0].name("__part"))
    found = rows.group_by([*names, "__leaf"]).aggregate(rows["__part"].sum().name("__part")).to_pyarrow().to_pylist()
    leaves = np.zeros((query.cells, len(query.edges) - 1), dtype=np.int64)
    for place, row in _placed(found, names, query):
        leaves[place, row["__leaf"]] = row["__part"] or 0
    return leaves


def _tree(leaves: npt.NDArray[np.int64], query: Query) -> SecretSums:
    """The nodes of every level above the leaves, coarsest first; a histogram is its leaves."""
    if query.encoding == "histogram":
        return SecretSums(leaves)
    levels = [leaves]
    while levels[0].shape[1] > query.branching:
        levels.insert(0, levels[0].reshape(len(leaves), -1, query.branching).sum(axis=2))
    return SecretSums(np.concatenate(levels, axis=1))


def order_statistics(table: Table, query: Query) -> SecretSums:
    """The order statistics of some ranks, in lattice steps from the lower bound; ranks outside the rows are the bounds.

    Only these values leave the engine, never all rows.
    """
    assert query.ranks is not None
    first, last = query.ranks
    value: NumericValue = scaled_value(table, query)
    rows = table.select((value * query.steps + 0.5).floor().cast(dt.int64).name("__value"))
    ranked = rows.mutate(ibis.row_number().over(order_by=rows["__value"]).name("__rank"))
    wanted = ranked.filter(ranked["__rank"].between(first - 1, last - 1)).order_by("__rank")
    found: IntegerValue | list[Any] = wanted.to_pyarrow().to_pylist()
    values = np.full(query.components, query.steps, dtype=np.int64)
    values[: max(0, 1 - first)] = 0
    for row in found:
        values[row["__rank"] + 1 - first] = row["__value"]
    return SecretSums(values[None, :])
