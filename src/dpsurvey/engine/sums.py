"""The sums: each row adds whole lattice steps to its group, so results are exact on every engine."""

from __future__ import annotations

import hashlib
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from ibis.expr.types import NumericValue, Table

from ..errors import BadData, BadValue
from ..statistic.encodings import LeafCounts, Window
from ..statistic.query import Query, RandomGroups
from .source import PSU, STRATUM, send
from .staged_rows import ABSENT, STEPS, components_of, group_label, leaf_of, meets, scaled_value, staged

RANDOM_GROUP = "__random_group"
# Lattice steps that make a coarse cell when order statistics are looked for.
CELL = 1024


class SecretSums:
    """Exact sums of a sample. Printing them, in a log or a traceback, shows nothing, and nothing writes or copies them."""

    __slots__ = ("values",)

    def __init__(self, values: npt.NDArray[np.int64]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return "SecretSums(not shown)"

    def __reduce__(self) -> Any:
        raise BadValue("exact sums are not pickled or copied", because="only what has noise leaves the engine")


def sum_rows(table: Table, query: Query) -> SecretSums:
    """The exact sums of a query, cells (groups, or groups by random groups) by components; cells without rows are 0."""
    if query.random_groups:
        return _sum_random_groups(table, query)
    for condition in () if query.masks else query.where:
        table = table.filter(meets(table, condition))
    if isinstance(query.encoding, Window):
        return order_statistics(table, query, query.encoding.ranks)
    rows = staged(table, query)
    if isinstance(query.encoding, LeafCounts):
        return _in_leaves(rows, query, query.encoding)
    names, parts, totals = _totals(rows, query, [])
    sums = np.zeros((query.cells, len(parts)), dtype=np.int64)
    for place, row in _placed(totals.to_pyarrow().to_pylist(), names, query):
        sums[place] = [row[part] or 0 for part in parts]
    return SecretSums(sums)


def _sum_random_groups(table: Table, query: Query) -> SecretSums:
    """Sums by group and random group. All clusters are dealt: whether one has rows that meet a condition is an answer."""
    assert query.random_groups is not None
    keys = _keys(query)
    rows = staged(table, query)
    # Rows outside a condition add nothing but keep their cluster on the list.
    for condition in () if query.masks else query.where:
        rows = rows.mutate(meets(rows, condition).ifelse(rows[STEPS], 0).cast(dt.int64).name(STEPS))
    if isinstance(query.encoding, LeafCounts):
        labelled = rows.mutate(**{key: cluster_label(rows, key) for key in keys})
        return _in_leaves(labelled.inner_join(deal(table, query.random_groups), keys), query, query.encoding)
    names, parts, totals = _totals(rows, query, keys)
    found = totals.to_pyarrow()
    random_group = random_groups_of([found[key] for key in keys], query.random_groups)
    groups = {group: index for index, group in enumerate(query.groups)}
    labels = list(zip(*(found[name].to_pylist() for name in names), strict=True)) if names else [()] * len(found)
    sums = np.zeros((query.cells, len(parts)), dtype=np.int64)
    places = np.array([known(groups.get(label)) for label in labels], dtype=np.int64) * query.random_groups.cells + random_group
    for index, part in enumerate(parts):
        np.add.at(sums[:, index], places, np.asarray(found[part].to_numpy(zero_copy_only=False), dtype=np.int64))
    return SecretSums(sums)


def _totals(rows: Table, query: Query, keys: list[str]) -> tuple[list[str], list[str], Table]:
    """The components summed by group and further keys; with the names of the grouping and of the summed columns."""
    names = [f"__group{index}" for index in range(len(query.by))]
    parts = [f"__part{index}" for index in range(query.components)]
    labels = [group_label(rows, query, place).name(name) for place, name in enumerate(names)]
    components = [part.name(name) for part, name in zip(components_of(rows, query), parts, strict=True)]
    narrow = rows.select(*labels, *(cluster_label(rows, key).name(key) for key in keys), *components)
    grouped = [*names, *keys]
    sums = [narrow[part].sum().fill_null(0).cast(dt.int64).name(part) for part in parts]
    return names, parts, (narrow.group_by(grouped) if grouped else narrow).aggregate(sums)


def known(place: int | None) -> int:
    """The place of a declared category; refused where there is none."""
    if place is None:
        raise BadData(
            "a grouping column has a category that was not declared", hint="declare every category in Frame(categories=...)"
        )
    return place


def _keys(query: Query) -> list[str]:
    """What tells one cluster from another."""
    return [] if query.random_groups is None else [STRATUM, PSU] if query.random_groups.strata else [PSU]


def cluster_label(rows: Table, key: str) -> Any:
    """A label that groups exactly as it is hashed: 0.0 and -0.0 are equal numbers with different texts."""
    value = rows[key]
    return value if value.type().is_integer() or value.type().is_string() else value.cast(dt.string)


def deal(table: Table, random_groups: RandomGroups) -> Table:
    """The clusters of a sample, each with its random group."""
    keys = [STRATUM, PSU] if random_groups.strata else [PSU]
    found = table.select(*(cluster_label(table, key).name(key) for key in keys)).distinct().to_pyarrow()
    return send(
        found.append_column(RANDOM_GROUP, pa.array(random_groups_of([found[key] for key in keys], random_groups), pa.int64())),
        table,
    )


def random_groups_of(columns: list[Any], random_groups: RandomGroups) -> npt.NDArray[np.int64]:
    """The random group of the cluster of each row. Who shares one is decided by hashes of labels, not by any answer."""
    texts = [column.cast(pa.string()).cast(pa.binary()).to_pylist() for column in columns]
    rows = list(zip(*texts, strict=True))
    # Each cluster once, however many rows it has here.
    clusters = dict.fromkeys(rows)
    digests = b"".join([hashlib.sha256(b"slot\x1f" + b"\x1f".join(label)).digest() for label in clusters])
    hashed = np.frombuffer(digests, dtype=">u8")[::4].astype(np.uint64)
    strata = np.zeros(len(clusters), dtype=np.int64)
    if random_groups.strata:
        place = {label.encode(): index for label, index in random_groups.place_of.items()}
        strata = np.array([place[label[0]] for label in clusters], dtype=np.int64)
    random_group = (hashed % np.uint64(random_groups.count)).astype(np.int64)
    if random_groups.balanced:
        # One after the other within a stratum of the design, in the order of their hashes.
        own = {label: index for index, label in enumerate(dict.fromkeys(label[0] for label in clusters))}
        inside = np.array([own[label[0]] for label in clusters], dtype=np.int64) if random_groups.strata else strata
        order = np.lexsort((hashed, inside))
        starts = np.searchsorted(inside[order], np.arange(max(1, len(own)) if random_groups.strata else 1))
        random_group[order] = (np.arange(len(order)) - starts[inside[order]]) % random_groups.count
    cells = strata * random_groups.count + random_group
    if len(clusters) == len(rows):
        return np.asarray(cells, dtype=np.int64)
    found = {label: index for index, label in enumerate(clusters)}
    return np.asarray(cells[np.fromiter((found[label] for label in rows), dtype=np.int64, count=len(rows))], dtype=np.int64)


def _labelled(table: Table, query: Query) -> tuple[list[str], list[Any]]:
    """The names of the grouping columns and their values, random groups last."""
    names = [f"__group{index}" for index in range(len(query.by))]
    values: list[Any] = [group_label(table, query, place).name(name) for place, name in enumerate(names)]
    if query.random_groups:
        names.append(RANDOM_GROUP)
        values.append(table[RANDOM_GROUP])
    return names, values


def _placed(found: list[dict[str, Any]], names: list[str], query: Query) -> list[tuple[int, dict[str, Any]]]:
    """Each row of totals with the place of its cell."""
    place = {group: index for index, group in enumerate(query.groups)}
    random_groups = query.random_groups.cells if query.random_groups else 1
    placed = []
    for row in found:
        index = known(place.get(tuple(row[name] for name in names if name != RANDOM_GROUP)))
        placed.append((index * random_groups + (row[RANDOM_GROUP] if query.random_groups else 0), row))
    return placed


def _in_leaves(table: Table, query: Query, encoding: LeafCounts) -> SecretSums:
    """Lattice steps by cell and leaf; of a tree by every node above the leaves, coarsest level first."""
    names, values = _labelled(table, query)
    leaf, count = leaf_of(table, query, encoding), encoding.leaves
    # Who is left out for a missing answer is counted behind the last leaf.
    leaf = table[ABSENT].ifelse(ibis.literal(count, dt.int64), leaf) if query.absent else leaf
    rows = table.select(*values, leaf.name("__leaf"), table[STEPS].name("__part"))
    found = rows.group_by([*names, "__leaf"]).aggregate(rows["__part"].sum().name("__part")).to_pyarrow().to_pylist()
    leaves = np.zeros((query.cells, count + query.absent), dtype=np.int64)
    for place, row in _placed(found, names, query):
        leaves[place, int(row["__leaf"])] = row["__part"] or 0
    return SecretSums(np.concatenate([encoding.of_leaves(leaves[:, :count]), leaves[:, count:]], axis=1))


def order_statistics(table: Table, query: Query, ranks: tuple[int, int]) -> SecretSums:
    """The order statistics of some ranks, in lattice steps from the lower bound; ranks outside the rows are the bounds.

    Rows are counted by coarse cell, and by exact value inside the cells that hold these ranks: nothing is sorted, and only
    counts of values around the ranks leave the engine.
    """
    first, last = ranks
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
