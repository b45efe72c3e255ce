"""Query: the sums over a sample that a statistic needs, on a public integer lattice, with their sensitivity.

Every record adds whole lattice steps to the sums of its group, so sums are exact, do not depend on the order
of rows, and differ between neighbours by no more than the sensitivity stated here. With y in [0, 1]:

    encoding  components                                       add-remove L1, L2   replace-one L1, L2
    triple    K (y^2, 2y(1-y), (1-y)^2)                        K, K                2K, sqrt(2) K
    pair      K (yes, no)                                      K, K                2K, sqrt(2) K
    units     K                                                K, K                2K, sqrt(2) K
    yes       K yes                                            K, K                K, K inside a fixed group, else as pair
    moments   (K y, b K y(1-y)), b = 1 (L1) or phi^2.5 (L2)    not offered         K+2, K+2, inside a fixed group

The components of `triple`, `pair` and `units` are non-negative and add up to K exactly, which gives the first
column and, for two such vectors, 2K and sqrt(2) K. `moments`: docs/estimation.md; the rounding of two
components adds at most one step each.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

from ..errors import BadValue
from ..mechanism.base import Norm
from ..privacy.profile import Relation

Encoding = Literal["triple", "pair", "units", "yes", "moments"]
COMPONENTS: dict[Encoding, int] = {"triple": 3, "pair": 2, "units": 1, "yes": 1, "moments": 2}

# Steps per unit of y: fine enough that rounding is a millionth, coarse enough for 10^12 rows in 64 bits.
FINE = 2**20
FINEST = 2**30
GOLDEN = (1.0 + math.sqrt(5.0)) / 2.0
# The largest b with (y, b y(1-y)) of L2 sensitivity 1, a hair below phi^(5/2) for rounding.
SECOND_MOMENT_SCALE: dict[Norm, float] = {"L1": 1.0, "L2": GOLDEN**2.5 * (1.0 - 1e-9)}


@dataclass(frozen=True)
class Query:
    """What an engine sums: a column in an encoding, by declared groups, on a lattice that may differ by stratum."""

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

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Every declared group, in order; one empty group without `by`."""
        return tuple(itertools.product(*self.categories))

    @property
    def components(self) -> int:
        """Sums per group."""
        return COMPONENTS[self.encoding]

    @property
    def steps(self) -> int:
        """K: the most lattice steps that one record adds."""
        return max(steps for _, steps in self.lattice)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be present."""
        return tuple(dict.fromkeys(name for name in (self.column, *self.by) if name))

    def sensitivity(self, relation: Relation, norm: Norm) -> float:
        """The most that the whole vector of sums can move between neighbours, in lattice steps."""
        steps = float(self.steps)
        if self.encoding == "moments":
            if relation != "replace-one" or not self.group_is_fixed:
                raise BadValue("these sums are for fixed groups under replace-one")
            return steps + 2.0
        if relation == "add-remove" or (self.encoding == "yes" and self.group_is_fixed):
            return steps
        return 2.0 * steps if norm == "L1" else math.sqrt(2.0) * steps * (1.0 + 1e-12)
