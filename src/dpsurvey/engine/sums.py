"""The sums: each row adds whole lattice steps to its group, so results are exact on every engine."""

from __future__ import annotations

import hashlib
from typing import Any

import ibis.expr.datatypes as dt
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from ibis.expr.types import BooleanValue, NumericValue, Table

from ..errors import BadData
from ..statistic.condition import Condition
from ..statistic.query import Query, Slots
from .encodings import components_of, leaf_of, scaled_value, staged
from .source import PSU, STRATUM, send
from .values import as_label, as_number

SLOT = "__slot"
# Lattice steps that make a coarse cell when order statistics are looked for.
CELL = 1024


class SecretSums:
    """Exact sums of a sample. Printing them, in a log or a traceback, shows nothing."""

    def __init__(self, values: npt.NDArray[np.int64]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return "SecretSums(not shown)"


def sum_rows(table: Table, query: Query) -> SecretSums:
    """The exact sums of a query, cells (groups, or groups by slots) by components; cells without rows are 0."""
    # Clusters are dealt before any row is left out: whether a cluster has rows that meet a condition is an answer.
    dealt = deal(table, query.slots) if query.slots else None
    for condition in query.where:
        table = table.filter(meets(table, condition))
    if query.encoding == "window":
        return order_statistics(table, query)
    rows = staged(table, query)
    if query.encoding in ("tree", "histogram"):
        return _tree(_by_leaf(rows if dealt is None else rows.inner_join(dealt, _keys(query)), query), query)
    names = [f"__group{index}" for index in range(len(query.by))]
    keys = _keys(query)
    parts = [f"__part{index}" for index in range(query.components)]
    labels = [
        as_label(rows, *each).name(name) for each, name in zip(zip(query.by, query.categories, strict=True), names, strict=True)
    ]
    components = [part.name(name) for part, name in zip(components_of(rows, query), parts, strict=True)]
    narrow = rows.select(*labels, *(rows[key] for key in keys), *components)
    grouped = [*names, *keys]
    totals = (narrow.group_by(grouped) if grouped else narrow).aggregate([narrow[part].sum().name(part) for part in parts])
    if dealt is not None:
        # Clusters first, then their slots: only as many rows as there are clusters meet the list of slots.
        joined = totals.inner_join(dealt, keys)
        totals = joined.group_by([*names, SLOT]).aggregate([joined[part].sum().name(part) for part in parts])
    found: list[dict[str, Any]] = totals.to_pyarrow().to_pylist()
    sums = np.zeros((query.cells, len(parts)), dtype=np.int64)
    for place, row in _placed(found, names, query):
        sums[place] = [row[part] or 0 for part in parts]
    return SecretSums(sums)


def _keys(query: Query) -> list[str]:
    """What tells one cluster from another."""
    return [] if query.slots is None else [STRATUM, PSU] if query.slots.strata else [PSU]


def meets(table: Table, condition: Condition) -> BooleanValue:
    """Whether a row meets a condition; a missing value does not."""
    if condition.labels:
        return as_label(table, condition.column, condition.labels).isin(list(condition.labels)).fill_null(False)
    return as_number(table, condition.column).between(condition.low, condition.high).fill_null(False)


def deal(table: Table, slots: Slots) -> Table:
    """The clusters of a sample, each with its slot. Who shares a slot is decided by hashes of labels, not by any answer."""
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
    return send(found.append_column(SLOT, pa.array(places, pa.int64())), table)


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

    Rows are counted by coarse cell, and by exact value inside the cells that hold these ranks: nothing is sorted, and only
    counts of values around the ranks leave the engine.
    """
    assert query.ranks is not None
    first, last = query.ranks
    value: NumericValue = scaled_value(table, query)
    steps = table.select((value * query.steps + 0.5).floor().cast(dt.int64).name("__value"))
    rows = steps.mutate((steps["__value"] / CELL).floor().cast(dt.int64).name("__cell"))
    coarse = rows.group_by("__cell").aggregate(rows.count().name("__rows")).order_by("__cell").to_pyarrow()
    cells, counts = (np.asarray(coarse[name].to_numpy(), dtype=np.int64) for name in ("__cell", "__rows"))
    upto = np.cumsum(counts)
    held = cells[(upto >= first) & (upto - counts < last)].tolist()
    values = np.full(query.components, query.steps, dtype=np.int64)
    values[: max(0, 1 - first)] = 0
    if not held:
        return SecretSums(values[None, :])
    inside = rows.filter(rows["__cell"].isin(held))
    fine = inside.group_by("__value").aggregate(inside.count().name("__rows")).order_by("__value").to_pyarrow()
    before = int(counts[cells < held[0]].sum())
    for found, count in zip(fine["__value"].to_pylist(), fine["__rows"].to_pylist(), strict=True):
        low, high = max(first, before + 1), min(last, before + count)
        values[low - first : max(low, high + 1) - first] = found
        before += count
    return SecretSums(values[None, :])
