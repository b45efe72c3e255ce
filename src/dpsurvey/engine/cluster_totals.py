"""Exact sums by cluster, for standard errors that are bought as norms; they stay in the engine until a mechanism has them."""

from __future__ import annotations

from functools import reduce
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import numpy.typing as npt
from ibis.expr.types import BooleanValue, Table

from ..errors import BadData
from ..statistic.encodings import LeafCounts
from ..statistic.exact_totals import ClusterTotals
from ..statistic.query import ByCluster, Query
from .source import POPULATION, PSU, STRATUM
from .staged_rows import ABSENT, STEPS, components_of, group_label, leaf_of, meets, staged
from .sums import cluster_label, known
from .values import double

UNITS, WEIGHT_ALONE, SQUARES = "__units", "__weight_alone", "__squares"
# Steps that the weight of a record is divided into, for the mean weight of records.
COARSE = 1024


def totals_by_cluster(table: Table, query: Query) -> ClusterTotals:
    """The sums of a query by cluster. Every cluster has its place, also one without a row that meets a condition."""
    assert isinstance(query.clusters, ByCluster)
    keys = [STRATUM, PSU] if query.clusters.strata else [PSU]
    rows = staged(table, query)
    names = [f"__group{index}" for index in range(len(query.by))]
    labels = [group_label(rows, query, place).name(name) for place, name in enumerate(names)]
    leaves = query.encoding if isinstance(query.encoding, LeafCounts) else None
    inside = inside_of(rows, query)
    # Coarse whole numbers, so that sums of their squares are exact and do not depend on the order of rows.
    coarse = (rows[STEPS].cast(dt.float64) * double(COARSE / query.steps)).floor().cast(dt.int64)
    units = [rows[STEPS].name(UNITS), coarse.name(WEIGHT_ALONE), (coarse * coarse).name(SQUARES)]
    if leaves is not None:
        leaf = leaf_of(rows, query, leaves)
        # Who is left out for a missing answer is counted behind the last leaf.
        leaf = rows[ABSENT].ifelse(ibis.literal(leaves.leaves, dt.int64), leaf) if query.absent else leaf
        more = [leaf.name("__leaf")]
        counted = [rows[STEPS] if inside is None else inside.ifelse(rows[STEPS], 0)]
    else:
        more = []
        counted = [part if inside is None else inside.ifelse(part, 0) for part in components_of(rows, query)]
    parts = [f"__part{index}" for index in range(len(counted))]
    cluster = [cluster_label(rows, key).name(key) for key in keys]
    narrow = rows.select(
        *labels, *cluster, *more, *units, *(part.cast(dt.int64).name(name) for part, name in zip(counted, parts, strict=True))
    )
    figures = [narrow[name].sum().fill_null(0).cast(dt.int64).name(name) for name in (UNITS, WEIGHT_ALONE, SQUARES, *parts)]
    grouped = [*names, *keys, *(each.get_name() for each in more)]
    found = narrow.group_by(grouped).aggregate(figures).to_pyarrow()
    place, strata = _places(found, keys, query.clusters)
    groups = {group: index for index, group in enumerate(query.groups)}
    of = list(zip(*(found[name].to_pylist() for name in names), strict=True)) if names else [()] * len(found)
    cell = np.array([known(groups.get(label)) for label in of], dtype=np.int64)
    sums = _summed(found, query, parts, place, cell, len(strata), leaves)
    fixed = len(query.groups) if query.stays else 1
    whole = np.zeros((len(strata), fixed), dtype=np.int64)
    np.add.at(whole, (place, cell if query.stays else np.zeros_like(cell)), whole_column(found, UNITS))
    alone, squares = (int(whole_column(found, name).sum()) for name in (WEIGHT_ALONE, SQUARES))
    per_record = squares / max(alone, 1) * (query.steps / COARSE)
    return ClusterTotals(sums, whole, strata, _fractions(table, query.clusters, strata), per_record)


def inside_of(rows: Table, query: Query) -> BooleanValue | None:
    """Whether a row meets the conditions that leave the others out; None where there are none."""
    if not query.where or query.masks:
        return None
    return reduce(lambda one, two: one & two, [meets(rows, each) for each in query.where])


def whole_column(found: Any, name: str) -> npt.NDArray[np.int64]:
    """A column of whole numbers."""
    return np.asarray(found[name].to_numpy(zero_copy_only=False), dtype=np.int64)


def _summed(
    found: Any,
    query: Query,
    parts: list[str],
    place: npt.NDArray[np.int64],
    cell: npt.NDArray[np.int64],
    clusters: int,
    leaves: LeafCounts | None,
) -> npt.NDArray[np.int64]:
    """The sums by cluster, group and component."""
    if leaves is None:
        sums = np.zeros((clusters, len(query.groups), query.components), dtype=np.int64)
        for index, part in enumerate(parts):
            np.add.at(sums[:, :, index], (place, cell), whole_column(found, part))
        return sums
    count = leaves.leaves
    by_leaf = np.zeros((clusters, len(query.groups), count + query.absent), dtype=np.int64)
    np.add.at(by_leaf, (place, cell, whole_column(found, "__leaf")), whole_column(found, parts[0]))
    return np.concatenate([leaves.of_leaves(by_leaf[..., :count]), by_leaf[..., count:]], axis=-1)


def _places(found: Any, keys: list[str], clusters: ByCluster) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The place of the cluster of each row, in the order of their labels, and the stratum of each cluster."""
    labels = list(zip(*(found[key].cast("string").to_pylist() for key in keys), strict=True))
    order = {label: index for index, label in enumerate(sorted(set(labels)))}
    place = np.array([order[label] for label in labels], dtype=np.int64)
    if not clusters.strata:
        return place, np.zeros(len(order), dtype=np.int64)
    strata = {label: index for index, label in enumerate(clusters.strata)}
    if any(label[0] not in strata for label in order):
        raise BadData("a stratum was not declared", hint="declare every stratum in Frame(categories=...)")
    return place, np.array([strata[label[0]] for label in order], dtype=np.int64)


def _fractions(table: Table, clusters: ByCluster, strata: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The share of clusters drawn in each stratum: declared, or by the column of the file that has their number."""
    count = max(1, len(clusters.strata))
    if not clusters.of_column:
        return np.array(clusters.fractions or (0.0,) * count, dtype=np.float64)
    held = table[STRATUM].cast(dt.string).name(STRATUM)
    found = table.select(held, table[POPULATION].name(POPULATION)).distinct().to_pyarrow()
    labels = {label: index for index, label in enumerate(clusters.strata)} if clusters.strata else {}
    drawn = np.bincount(strata, minlength=count)
    fractions = np.zeros(count)
    for label, population in zip(found[STRATUM].to_pylist(), found[POPULATION].to_pylist(), strict=True):
        place = labels.get(label, 0) if clusters.strata else 0
        fractions[place] = min(1.0, drawn[place] / float(population))
    return fractions
