"""Exact sums with the weights and with every set of replicate weights, in one pass over the rows."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import numpy.typing as npt
from ibis.expr.types import NumericValue, Table

from ..statistic.encodings import LeafCounts
from ..statistic.exact_totals import ReplicateTotals
from ..statistic.query import ByReplicate, Query
from .cluster_totals import inside_of, whole_column
from .source import WEIGHT
from .staged_rows import ABSENT, STEPS, components_of, group_label, leaf_of, staged, to_steps
from .sums import known
from .values import as_number, double

APART = "__apart"


def totals_by_replicate(table: Table, query: Query) -> ReplicateTotals:
    """The sums of a query with the weights and with each set of replicate weights, by group."""
    by = query.clusters
    assert isinstance(by, ByReplicate)
    steps = [STEPS, *(f"{STEPS}{place}" for place in range(len(by.columns)))]
    rows = _with_replicates(staged(table, query), query, by, steps[1:])
    names = [f"__group{index}" for index in range(len(query.by))]
    labels = [group_label(rows, query, place).name(name) for place, name in enumerate(names)]
    leaves = query.encoding if isinstance(query.encoding, LeafCounts) else None
    inside = inside_of(rows, query)
    more = []
    if leaves is not None:
        more = [leaf_of(rows, query, leaves).name("__leaf"), *([rows[ABSENT]] if query.absent else [])]
    parts = {}
    for number, each in enumerate(steps):
        own = [rows[each]] if leaves is not None else components_of(rows, query, each)
        for index, part in enumerate(own):
            parts[f"__part{number}_{index}"] = (part if inside is None else inside.ifelse(part, 0)).cast(dt.int64)
    differences = [(rows[each] - rows[STEPS]).cast(dt.float64) for each in steps[1:]]
    apart = _added([each * each * double(c) for each, c in zip(differences, by.scales, strict=True)])
    narrow = rows.select(*labels, *more, apart.name(APART), *(part.name(name) for name, part in parts.items()))
    figures = [narrow[APART].max().fill_null(0.0).name(APART)]
    figures += [narrow[name].sum().fill_null(0).cast(dt.int64).name(name) for name in parts]
    grouped = [*names, *(each.get_name() for each in more)]
    found = (narrow.group_by(grouped) if grouped else narrow).aggregate(figures).to_pyarrow()
    # The reach is of all rows, whatever they answered: a neighbour has the same.
    farthest = max(found[APART].to_pylist(), default=0.0)
    sums = _sums(found, query, names, len(steps), leaves)
    return ReplicateTotals(sums, by.scales, _reach(farthest, query, by), by.freedom)


def _reach(farthest: float, query: Query, by: ByReplicate) -> int:
    """How far the replicates of any record lie apart at most, in whole steps: as declared, else by the rows."""
    if by.reach is None:
        return math.ceil(math.sqrt(farthest) * (1.0 + 1e-9))
    # The steps of a replicate are rounded after it was moved.
    return math.ceil((by.reach * query.steps + math.sqrt(math.fsum(by.scales))) * (1.0 + 1e-9))


def _with_replicates(rows: Table, query: Query, by: ByReplicate, names: list[str]) -> Table:
    """The rows with the steps of each replicate: those of the record times its replicate weight over its weight.

    So a weight that is cut, or pulled to the middle, takes its replicates with it. Where a reach is declared, the replicates of a
    record that lie further apart are moved towards its weight until they do not.
    """
    steps, weight = rows[STEPS].cast(dt.float64), rows[WEIGHT].cast(dt.float64)
    ratios = [as_number(rows, column) / weight for column in by.columns]
    if by.reach is None:
        return rows.mutate(**{name: to_steps(steps * ratio) for name, ratio in zip(names, ratios, strict=True)})
    apart = [ratio - double(1.0) for ratio in ratios]
    length = _added([part * part * double(c) for part, c in zip(apart, by.scales, strict=True)]).sqrt() * steps
    most = double(by.reach * query.steps)
    rows = rows.mutate(**{APART: ibis.least(most / ibis.greatest(length, double(1e-300)), double(1.0))})
    steps, weight = rows[STEPS].cast(dt.float64), rows[WEIGHT].cast(dt.float64)
    kept = [rows[APART] * (as_number(rows, column) / weight - double(1.0)) for column in by.columns]
    return rows.mutate(**{name: to_steps(steps * (double(1.0) + part)) for name, part in zip(names, kept, strict=True)})


def _added(parts: list[Any]) -> NumericValue:
    """The sum of many columns, in pairs, so that no expression is as deep as there are columns."""
    while len(parts) > 1:
        parts = [reduce(lambda one, two: one + two, parts[place : place + 2]) for place in range(0, len(parts), 2)]
    found: NumericValue = parts[0]
    return found


def _sums(found: Any, query: Query, names: list[str], sets: int, leaves: LeafCounts | None) -> npt.NDArray[np.int64]:
    """The sums by set of weights, group and component."""
    groups = {group: index for index, group in enumerate(query.groups)}
    of = list(zip(*(found[name].to_pylist() for name in names), strict=True)) if names else [()] * len(found)
    cell = np.array([known(groups.get(label)) for label in of], dtype=np.int64)
    if leaves is None:
        sums = np.zeros((sets, len(query.groups), query.components), dtype=np.int64)
        for number in range(sets):
            for index in range(query.components):
                np.add.at(sums[number, :, index], cell, whole_column(found, f"__part{number}_{index}"))
        return sums
    leaf = whole_column(found, "__leaf")
    if query.absent:
        left_out = np.asarray(found[ABSENT].to_numpy(zero_copy_only=False), dtype=np.bool_)
        leaf = np.where(left_out, leaves.leaves, leaf)
    by_leaf = np.zeros((sets, len(query.groups), leaves.leaves + query.absent), dtype=np.int64)
    for number in range(sets):
        np.add.at(by_leaf[number], (cell, leaf), whole_column(found, f"__part{number}_0"))
    return np.concatenate([leaves.of_leaves(by_leaf[..., : leaves.leaves]), by_leaf[..., leaves.leaves :]], axis=-1)
