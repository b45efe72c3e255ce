"""Query: the sums over a sample that a statistic needs, on a public integer lattice, with their sensitivity.

What one record adds, and how far that moves the sums, is its encoding's: `encodings`. Records that are left out for a missing
answer add K to a component of their own, the last, and nothing to the others: no further than that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from ..mechanism.base import Norm
from ..privacy.relation import Relation
from .condition import Condition
from .encodings import ROOT, Encoding, LeafCounts

# Steps per unit of y: fine enough that rounding is a millionth, coarse enough for 10^12 rows in 64 bits.
FINE = 2**20
FINEST = 2**30
COARSE = 2**14


@dataclass(frozen=True)
class OwnBounds:
    """Bounds that differ by the category of a column; `scaled` where each category is measured on its own range."""

    column: str
    by_label: tuple[tuple[str, float, float], ...]
    scaled: bool


@dataclass(frozen=True)
class PerSize:
    """Values are measured per unit of the size in a column, and count by weight times size, of which this is the public range."""

    column: str
    low: float
    high: float


@dataclass(frozen=True)
class UnitWeights:
    """Weights that are each unit's own: u = w/largest, cut at 1, on `steps` lattice steps.

    With `kept` below 1 they are pulled towards `middle` first: kept w + (1 - kept) middle.
    """

    largest: float
    steps: int
    kept: float = 1.0
    middle: float = 0.0
    # At most this share of all weight is above the largest, by declaration.
    cut: float | None = None
    # The largest weight of each category of a column, where groups that no record leaves are measured by their own.
    column: str | None = None
    by_label: tuple[tuple[str, float], ...] = ()

    def share(self, weight: float) -> float:
        """u of a weight, before it is cut at 1.

        >>> UnitWeights(10.0, 1024).share(5.0), UnitWeights(8.0, 1024, kept=0.5, middle=6.0).share(10.0)
        (0.5, 1.0)
        """
        return (self.kept * weight + (1.0 - self.kept) * self.middle) / self.largest


@dataclass(frozen=True)
class RandomGroups:
    """Clusters dealt into groups, `count` in each stratum (one stratum without labels).

    With `merged`, pairs of a stratum and the place of the one that it is put into, `strata` are names of merged strata.
    `balanced` deals them one after the other in a hashed order, which is only safe where no neighbour has other
    clusters; else the hash of a cluster alone decides.
    """

    count: int
    strata: tuple[str, ...] = ()
    balanced: bool = True
    merged: tuple[tuple[str, int], ...] = ()

    @property
    def place_of(self) -> dict[str, int]:
        """The place of each stratum, or of the one that it was merged into."""
        return dict(self.merged) or {label: place for place, label in enumerate(self.strata)}

    @property
    def cells(self) -> int:
        """All random groups of all strata."""
        return self.count * max(1, len(self.strata))


@dataclass(frozen=True)
class ByCluster:
    """Sums by cluster that stay in the engine: noisy ones of all clusters, and how far clusters differ, are what is answered.

    `strata` are the labels of the strata (none for one stratum), `fractions` the public share of clusters drawn in each, where
    whole clusters were taken; `of_column` says that the file has the number of clusters of each stratum in a column.
    """

    strata: tuple[str, ...] = ()
    fractions: tuple[float, ...] = ()
    of_column: bool = False
    # Into how many parts strata, or clusters where there is one stratum, are dealt, with a length of its own for each.
    parts: int = 1
    # What carries the variance, in words.
    carried_by: ClassVar[str] = "between clusters"


@dataclass(frozen=True)
class ByReplicate:
    """Sums with the weights and with each set of replicate weights, that stay in the engine as those by cluster do.

    `scales` are the factors of the squared differences, `freedom` their degrees of freedom. `reach`, in units of the largest
    weight, is how far the replicates of a record may lie apart, where that is declared.
    """

    columns: tuple[str, ...]
    scales: tuple[float, ...]
    freedom: float
    reach: float | None = None
    parts: ClassVar[int] = 1
    # What a finite population takes off is in the replicates.
    fractions: ClassVar[tuple[float, ...]] = ()
    carried_by: ClassVar[str] = "replicate weights"


@dataclass(frozen=True)
class Query:
    """What an engine sums: columns in an encoding, by declared groups, on a lattice that may differ by stratum or unit."""

    encoding: Encoding
    column: str | None
    bounds: tuple[float, float] | None
    value: str | None
    by: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    lattice: tuple[tuple[str | None, int], ...]
    strata_column: str | None
    group_is_fixed: bool
    where: tuple[Condition, ...] = ()
    own_bounds: OwnBounds | None = None
    weights: UnitWeights | None = None
    random_groups: RandomGroups | None = None
    # Expanded: the value is w y on the range of (weight, value) pairs, for Horvitz-Thompson totals of a fixed size.
    expanded: tuple[float, float] | None = None
    # How many times further a record moves the sums because it may change the weights or the answers of others.
    reach: float = 1.0
    # Records outside the conditions stay, and count as 0 or no: for totals and counts, which are shares of all units.
    masks: bool = False
    # The bounds that values are clipped to before they count as 0, where the range had to be extended to hold 0.
    clip: tuple[float, float] | None = None
    # Values over sizes, which count by weight times size: together w y again.
    per: PerSize | None = None
    # What stands for a missing answer by a public rule: a number, or a category.
    fill: float | str | None = None
    # Columns whose missing answers leave a record out; with `masks` it counts as 0 or no.
    dropped: tuple[str, ...] = ()
    # Standard errors bought as norms, in the place of random groups: between clusters, or of replicate weights.
    clusters: ByCluster | ByReplicate | None = None

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Every declared group, in order; one empty group without `by`."""
        return tuple(itertools.product(*self.categories))

    @property
    def cells(self) -> int:
        """Rows of sums: groups, or groups times random groups."""
        return len(self.groups) * (self.random_groups.cells if self.random_groups else 1)

    @property
    def absent(self) -> bool:
        """Whether records that are left out for a missing answer are counted by one more sum, the last of each cell."""
        return bool(self.dropped) and not self.masks

    @property
    def components(self) -> int:
        """Sums per cell."""
        return self.encoding.width + self.absent

    @property
    def of_nobody(self) -> list[list[int]]:
        """The sums over no rows at all."""
        return [[0] * self.components for _ in range(self.cells)]

    @property
    def steps(self) -> int:
        """K: the most lattice steps that one record adds."""
        return self.weights.steps if self.weights else max(steps for _, steps in self.lattice)

    @property
    def finer(self) -> tuple[float, ...]:
        """How many times more a weight counts in each group than it would over the largest weight of all."""
        if self.weights is None or self.weights.column is None:
            return (1.0,) * len(self.groups)
        place, own = self.by.index(self.weights.column), dict(self.weights.by_label)
        return tuple(self.weights.largest / own[group[place]] for group in self.groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be present."""
        own = self.own_bounds.column if self.own_bounds else None
        asked = (
            self.column,
            *(name for name, _, _ in self.encoding.others),
            own,
            self.per.column if self.per else None,
            *self.by,
            *(condition.column for condition in self.where),
        )
        return tuple(dict.fromkeys(name for name in asked if name))

    @property
    def rounds(self) -> bool:
        """Whether sums are of measured values, in whole steps near to them; records, and yes and no, are exact."""
        return self.column is not None and self.value is None and not isinstance(self.encoding, LeafCounts)

    @property
    def stays(self) -> bool:
        """Whether a replaced record adds to the same cell as before, so that answers alone are replaced."""
        return self.group_is_fixed and not self.absent

    def sensitivity(self, relation: Relation, norm: Norm) -> float:
        """The most that the whole vector of sums can move between neighbours, in lattice steps."""
        moves = self.encoding.moves
        in_place = self.group_is_fixed or (self.cells == 1 and self.encoding.stays_in_one_cell)
        if relation == Relation.ADD_REMOVE or (in_place and not self.absent):
            most = moves.of(relation, norm)
        else:
            most = moves.of(Relation.ADD_REMOVE, norm) * (2.0 if norm == "L1" else ROOT)
        # Square roots are rounded up; steps that are whole numbers stay so.
        exact = most * self.steps * self.reach
        # Yes and no are whole steps: nothing is rounded, unless an encoding makes more of them.
        whole = self.value is not None and not self.encoding.rounds_counts
        slack = 0.0 if whole else self.encoding.slack(self.components)
        found = (exact if exact == int(exact) else exact * (1.0 + 1e-12)) + slack * self.reach
        # Whole steps move by whole steps, and OpenDP asks about whole distances.
        return float(math.ceil(found)) if norm == "L1" else found


def coarse_weights(query: Query) -> Query:
    """The query with weights good enough to choose by, which keep scores far from what 64 bits hold."""
    lattice = tuple((label, max(1, round(steps * min(1.0, COARSE / query.steps)))) for label, steps in query.lattice)
    weights = replace(query.weights, steps=COARSE) if query.weights else None
    return replace(query, lattice=lattice, weights=weights)


@dataclass(frozen=True)
class ColumnsAsked:
    """The columns that some queries read, by how they read them."""

    measured: tuple[str, ...]
    labelled: tuple[str, ...]
    grouping: tuple[str, ...]
    # Columns whose missing values have a rule in every query.
    may_be_missing: tuple[str, ...] = ()
    # Columns of sizes, which values are divided by.
    positive: tuple[str, ...] = ()
    # The labels that are looked for in each column.
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)


def columns_asked(queries: Iterable[Query]) -> ColumnsAsked:
    """The columns of queries: measured as numbers, read as labels, and those that make the published groups."""
    measured: dict[str, None] = {}
    labelled: dict[str, None] = {}
    grouping: dict[str, None] = {}
    ruled: dict[str, bool] = {}
    wanted: dict[str, tuple[str, ...]] = {}
    sizes: dict[str, None] = {}
    for query in queries:
        numbers = bool(query.bounds) or isinstance(query.encoding, LeafCounts)
        grouped = (*query.by, *((query.own_bounds.column,) if query.own_bounds else ()))
        for name in query.columns:
            # A value that stands for a missing answer names no group.
            filled = name == query.column and query.fill is not None and name not in grouped
            own_rule = name in query.dropped or filled
            ruled[name] = ruled.get(name, True) and own_rule
        if query.column:
            (measured if numbers else labelled)[query.column] = None
        measured |= dict.fromkeys(name for name, _, _ in query.encoding.others)
        for condition in query.where:
            (labelled if condition.labels else measured)[condition.column] = None
            wanted[condition.column] = (*wanted.get(condition.column, ()), *condition.labels)
        if query.column and query.value is not None:
            wanted[query.column] = (*wanted.get(query.column, ()), query.value)
        grouping |= dict.fromkeys(grouped)
        sizes |= dict.fromkeys([query.per.column] if query.per else [])
    missing = tuple(column for column, always in ruled.items() if always)
    return ColumnsAsked(tuple(measured), tuple(labelled), tuple(grouping), missing, tuple(sizes), wanted)
