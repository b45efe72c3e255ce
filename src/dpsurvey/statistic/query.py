"""Query: the sums over a sample that a statistic needs, on a public integer lattice, with their sensitivity.

Every record adds whole lattice steps to the sums of its group, so sums are exact, do not depend on the order
of rows, and differ between neighbours by no more than the sensitivity stated here. With y, x in [0, 1] and K steps,
what one record can move (`add`: one record more or less; `fixed`: answers replaced, group, weight and cluster kept):

    encoding  components                                        add L1, L2       fixed L1, L2
    triple    K (y^2, 2y(1-y), (1-y)^2)                         1, 1             2, sqrt 2
    spread    triple, and b times the triple of u^2(1-pi)       1+b, 1+b^2 *     twice, sqrt 2 times
    pair      K (y, 1-y), or K (yes, no)                        1, 1             2, sqrt 2
    units     K                                                 1, 1             2, sqrt 2
    yes       K yes                                             1, 1             1, 1
    moments   K (y, b y(1-y)), b = 1 (L1) or phi^2.5 (L2)       1, 1             1, 1
    sum       K y                                               1, 1             1, 1
    counted   K (y, 1)                                          2, sqrt 2        1, 1
    both      K (y, x)                                          2, sqrt 2        2, sqrt 2
    ratio     K (y, x, c y(1-y), c x(1-x), c (y-x)^2)           2, sqrt 2        2, sqrt 2
    products  K z z', z = (1, x - 1/2, y - 1/2)                 docs/weighting.md
    tree      K at one node of each of L levels                 L, sqrt L        2L, sqrt 2L
                                                                (* under the root)

A record that may change group costs twice `add` in L1 and sqrt 2 times in L2, because no component is negative. Records that are
left out for a missing answer add K to a component of their own, the last, and nothing to the others: no further than that.
Proofs: docs/estimation.md. Rounding adds `SLACK` steps where the components do not add up to K by construction.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from ..errors import BadValue
from ..mechanism.base import Norm
from ..privacy.profile import Relation
from .adjust.regression import product_sensitivity
from .condition import Condition

Encoding = Literal[
    "triple",
    "products",
    "spread",
    "pair",
    "units",
    "yes",
    "moments",
    "sum",
    "counted",
    "both",
    "ratio",
    "tree",
    "histogram",
    "window",
]
COMPONENTS: dict[Encoding, int] = {
    "triple": 3,
    "spread": 6,
    "pair": 2,
    "units": 1,
    "yes": 1,
    "moments": 2,
    "sum": 1,
    "counted": 2,
    "both": 2,
    "ratio": 5,
}
_ROOT = math.sqrt(2.0)
RELATIONS: tuple[Relation, ...] = ("add-remove", "replace-one")
NORMS: tuple[Norm, ...] = ("L1", "L2")
# (add L1, add L2, fixed L1, fixed L2) in units of K; encodings that are not here depend on their own parameters.
_MOVES: dict[Encoding, tuple[float, float, float, float]] = {
    "triple": (1.0, 1.0, 2.0, _ROOT),
    "pair": (1.0, 1.0, 2.0, _ROOT),
    "units": (1.0, 1.0, 2.0, _ROOT),
    "yes": (1.0, 1.0, 1.0, 1.0),
    "moments": (1.0, 1.0, 1.0, 1.0),
    "sum": (1.0, 1.0, 1.0, 1.0),
    "counted": (2.0, _ROOT, 1.0, 1.0),
    "both": (2.0, _ROOT, 2.0, _ROOT),
    "ratio": (2.0, _ROOT, 2.0, _ROOT),
}
# Steps that rounding to the nearest one can add: one for each rounded component of a replaced record.
SLACK: dict[Encoding, float] = {"moments": 2.0, "sum": 1.0, "counted": 1.0, "both": 2.0, "ratio": 5.0}

# With a single cell a replaced record moves these no further than in place, whatever its weight, and also in or out of it.
IN_ONE_CELL: tuple[Encoding, ...] = ("yes", "moments", "sum")

# Steps per unit of y: fine enough that rounding is a millionth, coarse enough for 10^12 rows in 64 bits.
FINE = 2**20
FINEST = 2**30
COARSE = 2**14
GOLDEN = (1.0 + math.sqrt(5.0)) / 2.0
# The largest b with (y, b y(1-y)) of L2 sensitivity 1, a hair below phi^(5/2) for rounding.
SECOND_MOMENT_SCALE: dict[Norm, float] = {"L1": 1.0, "L2": GOLDEN**2.5 * (1.0 - 1e-9)}


@dataclass(frozen=True)
class OwnBounds:
    """Bounds that differ by the category of a column; `scaled` where each category is measured on its own range."""

    column: str
    by_label: tuple[tuple[str, float, float], ...]
    scaled: bool


@dataclass(frozen=True)
class UnitWeights:
    """Weights that are each unit's own: u = w/largest, cut at 1, on `steps` lattice steps.

    With `kept` below 1 they are pulled towards `middle` first: kept w + (1 - kept) middle.
    """

    largest: float
    steps: int
    kept: float = 1.0
    middle: float = 0.0

    def share(self, weight: float) -> float:
        """u of a weight, before it is cut at 1.

        >>> UnitWeights(10.0, 1024).share(5.0), UnitWeights(8.0, 1024, kept=0.5, middle=6.0).share(10.0)
        (0.5, 1.0)
        """
        return (self.kept * weight + (1.0 - self.kept) * self.middle) / self.largest


@dataclass(frozen=True)
class RandomGroups:
    """Clusters dealt into groups, `count` in each stratum (one stratum without labels).

    `balanced` deals them one after the other in a hashed order, which is only safe where no neighbour has other
    clusters; else the hash of a cluster alone decides.
    """

    count: int
    strata: tuple[str, ...] = ()
    balanced: bool = True

    @property
    def cells(self) -> int:
        """All random groups of all strata."""
        return self.count * max(1, len(self.strata))


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
    second_moment_scale: float = 1.0
    second: str | None = None
    second_bounds: tuple[float, float] | None = None
    where: tuple[Condition, ...] = ()
    own_bounds: OwnBounds | None = None
    weights: UnitWeights | None = None
    random_groups: RandomGroups | None = None
    # Expanded: the value is w y on the range of (weight, value) pairs, for Horvitz-Thompson totals of a fixed size.
    expanded: tuple[float, float] | None = None
    edges: tuple[float, ...] = ()
    branching: int = 0
    ranks: tuple[int, int] | None = None
    # How many times further a record moves the sums because it may change the weights or the answers of others.
    reach: float = 1.0
    regressors: tuple[tuple[str, float, float], ...] = ()
    # Records outside the conditions stay, and count as 0 or no: for totals and counts, which are shares of all units.
    masks: bool = False
    # The bounds that values are clipped to before they count as 0, where the range had to be extended to hold 0.
    clip: tuple[float, float] | None = None
    # What stands for a missing answer by a public rule: a number, or a category.
    fill: float | str | None = None
    # Columns whose missing answers leave a record out; with `masks` it counts as 0 or no.
    dropped: tuple[str, ...] = ()

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Every declared group, in order; one empty group without `by`."""
        return tuple(itertools.product(*self.categories))

    @property
    def cells(self) -> int:
        """Rows of sums: groups, or groups times random groups."""
        return len(self.groups) * (self.random_groups.cells if self.random_groups else 1)

    @property
    def levels(self) -> int:
        """Levels of a tree over the leaves between the edges."""
        return round(math.log(len(self.edges) - 1, self.branching))

    @property
    def absent(self) -> bool:
        """Whether records that are left out for a missing answer are counted by one more sum, the last of each cell."""
        return bool(self.dropped) and not self.masks

    @property
    def components(self) -> int:
        """Sums per cell."""
        return self._answers + self.absent

    @property
    def _answers(self) -> int:
        if self.encoding == "tree":
            return sum(self.branching**level for level in range(1, self.levels + 1))
        if self.encoding == "histogram":
            return len(self.edges) - 1
        if self.encoding == "products":
            return (len(self.regressors) + 2) * (len(self.regressors) + 3) // 2
        if self.encoding == "window":
            assert self.ranks is not None
            return self.ranks[1] - self.ranks[0] + 1
        return COMPONENTS[self.encoding]

    @property
    def of_nobody(self) -> list[list[int]]:
        """The sums over no rows at all."""
        return [[0] * self.components for _ in range(self.cells)]

    @property
    def steps(self) -> int:
        """K: the most lattice steps that one record adds."""
        return self.weights.steps if self.weights else max(steps for _, steps in self.lattice)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be present."""
        own = self.own_bounds.column if self.own_bounds else None
        asked = (
            self.column,
            self.second,
            own,
            *(name for name, _, _ in self.regressors),
            *self.by,
            *(condition.column for condition in self.where),
        )
        return tuple(dict.fromkeys(name for name in asked if name))

    def _moves(self) -> tuple[float, float, float, float]:
        if self.encoding == "products":
            count = len(self.regressors)
            found = [product_sensitivity(count, relation, norm) for relation in RELATIONS for norm in NORMS]
            return found[0], found[1], found[2], found[3]
        if self.encoding == "tree":
            levels = float(self.levels)
            return levels, math.sqrt(levels), 2.0 * levels, math.sqrt(2.0 * levels)
        if self.encoding == "spread":
            extra = self.second_moment_scale
            first, second = 1.0 + extra, math.sqrt(1.0 + extra**2)
            return first, second, 2.0 * first, _ROOT * second
        if self.encoding not in _MOVES:
            raise BadValue("these figures are not summed, so they have no sensitivity of sums", given=self.encoding)
        return _MOVES[self.encoding]

    def sensitivity(self, relation: Relation, norm: Norm) -> float:
        """The most that the whole vector of sums can move between neighbours, in lattice steps."""
        at = 0 if norm == "L1" else 1
        moves = self._moves()
        if relation == "add-remove":
            most = moves[at]
        elif not self.absent and (self.group_is_fixed or (self.cells == 1 and self.encoding in IN_ONE_CELL)):
            most = moves[2 + at]
        else:
            most = moves[at] * (2.0 if norm == "L1" else _ROOT)
        # Square roots are rounded up; steps that are whole numbers stay so.
        exact = most * self.steps * self.reach
        slack = 2.0 * self.components if self.encoding == "products" else SLACK.get(self.encoding, 0.0)
        if self.value is not None:
            # Yes and no are whole steps: nothing is rounded.
            slack = 0.0
        found = (exact if exact == int(exact) else exact * (1.0 + 1e-12)) + slack * self.reach
        # Whole steps move by whole steps, and OpenDP asks about whole distances.
        return float(math.ceil(found)) if norm == "L1" else found


def coarse_weights(query: Query) -> Query:
    """The query with weights good enough to choose by, which keep scores far from what 64 bits hold."""
    lattice = tuple((label, max(1, round(steps * min(1.0, COARSE / query.steps)))) for label, steps in query.lattice)
    weights = replace(query.weights, steps=COARSE) if query.weights else None
    return replace(query, lattice=lattice, weights=weights)
