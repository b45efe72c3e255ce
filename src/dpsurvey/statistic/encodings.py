"""Encodings: what one record adds to the sums of its group, and how far that can move them.

Every record adds whole lattice steps, so sums are exact, do not depend on the order of rows, and differ between neighbours by
no more than what is stated here. With y, x in [0, 1] and K steps, what one record can move (`add`: one record more or less;
`fixed`: answers replaced, group, weight and cluster kept):

    name       sums                                             add L1, L2       fixed L1, L2
    triple     K (y^2, 2y(1-y), (1-y)^2)                        1, 1             2, sqrt 2
    spread     triple, and b times the triple of u^2(1-pi)      1+b, 1+b^2 *     twice, sqrt 2 times
    free spr.  triple, and b times the triple of u(1-u)         1, 1             2, sqrt 2
    free pair  pair, and b times the pair of u(1-u)             1, 1             2, sqrt 2
    in place   u(y-c), u, and three sums for the variance       never asked      1, 1
    pair       K (y, 1-y), or K (yes, no)                       1, 1             2, sqrt 2
    units      K                                                1, 1             2, sqrt 2
    yes        K yes                                            1, 1             1, 1
    moments    K (y, b y(1-y)), b = 1 (L1) or phi^2.5 (L2)      1, 1             1, 1
    weighted   K (z, b (z(1-z) - t u y(1-y))), z = u y          1, 1             1, 1
    sum        K y                                              1, 1             1, 1
    counted    K (y, 1)                                         2, sqrt 2        1, 1
    both       K (y, x)                                         2, sqrt 2        2, sqrt 2
    ratio      K (y, x, c y(1-y), c x(1-x), c (y-x)^2)          2, sqrt 2        2, sqrt 2
    centred    the same with c = 1, into a mechanism of two steps of its own
    products   K z z', z = (1, x - 1/2, y - 1/2)                docs/guides/weighting.md
    histogram  K in one leaf                                    scores, not sums
    tree       K at one node of each of L levels                L, sqrt L        2L, sqrt 2L
    window     the order statistics of some ranks               values, not sums
                                                                (* under the root)

A record that may change group costs twice `add` in L1 and sqrt 2 times in L2, because no sum is negative. Proofs:
docs/proofs/estimation.md. An encoding is listed where it is defined, and serves every engine: it says what a row adds in
terms of `Row`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import BadValue
from ..mechanism.base import Norm
from ..privacy.relation import Relation
from .adjust.regression import product_sensitivity
from .estimators.interval import Array
from .estimators.tree import Number, Tree, prefix_noise

if TYPE_CHECKING:
    from .facts import Facts

ROOT = math.sqrt(2.0)
GOLDEN = (1.0 + math.sqrt(5.0)) / 2.0
# The largest b with (y, b y(1-y)) of L2 sensitivity 1, a hair below phi^(5/2) for rounding.
SECOND_MOMENT_SCALE: dict[Norm, float] = {"L1": 1.0, "L2": GOLDEN**2.5 * (1.0 - 1e-9)}
# Whether the estimates made from these sums are not linear in them.
Bends = Literal["never", "with noise", "always"]
# A further column that a record is measured by, with its public bounds.
Column = tuple[str, float, float]


class Moves(NamedTuple):
    """How far one record moves all sums, in units of a whole record: added or removed, or replaced within its group."""

    add_l1: float
    add_l2: float
    fixed_l1: float
    fixed_l2: float

    def of(self, relation: Relation, norm: Norm) -> float:
        """The figure of a relation, for a record that stays in its group, and a norm."""
        add = relation == Relation.ADD_REMOVE
        return (self.add_l1 if add else self.fixed_l1) if norm == "L1" else (self.add_l2 if add else self.fixed_l2)


NOT_NEGATIVE = Moves(1.0, 1.0, 2.0, ROOT)
ONE_WAY = Moves(1.0, 1.0, 1.0, 1.0)
TWO_COLUMNS = Moves(2.0, ROOT, 2.0, ROOT)


def part_with_squares(share: float, scale: float, norm: Norm) -> float:
    """The same where squares of weights are summed in the room that a weight leaves: the largest (z, b z(1-z)) with z <= share.

    >>> part_with_squares(0.5, 1.0, "L1"), part_with_squares(1.0, 3.33, "L2")
    (0.75, 1.0)
    """
    if norm == "L1":
        return share * (1.0 + scale * (1.0 - share))

    def length(z: float) -> float:
        return z * math.sqrt(1.0 + (scale * (1.0 - z)) ** 2)

    # The length rises up to the first root of 2z^2 - 3z + 1 + 1/b^2, and may fall from there.
    root = 9.0 - 8.0 * (1.0 + scale**-2)
    top = (3.0 - math.sqrt(root)) / 4.0 if root > 0.0 else 1.0
    return min(1.0, max(length(share), length(min(share, top))))


class Row(Protocol):
    """One row as an engine shows it: figures are expressions that can be added, subtracted and multiplied."""

    @property
    def steps(self) -> Any:
        """The lattice steps of the whole record, by its design weight."""

    @property
    def answer(self) -> Any:
        """Of these the part that is yes, or the measured value: whole steps, at most `steps`."""

    @property
    def y(self) -> Any:
        """The measured value on [0, 1]; of a yes or no question 1 or 0."""

    @property
    def others(self) -> list[Any]:
        """The further columns of the encoding on [0, 1]."""

    @property
    def share(self) -> Any:
        """u, the steps over the most that any record counts."""

    @property
    def thinned(self) -> Any:
        """The steps times u (1 - pi), for the variance of sums with unequal weights."""

    def to_steps(self, value: Any) -> Any:
        """A value rounded to the nearest whole step."""

    def least(self, one: Any, other: Any) -> Any:
        """The smaller of two."""


class Encoding(ABC):
    """What one record adds to the sums of its group. Immutable, and equal to another with the same parameters."""

    name: ClassVar[str]
    # Sums of a replaced record that are rounded to the nearest step: each can move by one step more.
    rounded: ClassVar[float] = 0.0
    # Whether sums of yes and no are rounded too: elsewhere they are whole steps.
    rounds_counts: ClassVar[bool] = False
    # With a single cell a replaced record moves these no further than in place, whatever its weight, and also in or out of it.
    stays_in_one_cell: ClassVar[bool] = False
    # Whether the noisy sums of groups, added up, are those of all of them: not where each group is answered on terms of its own.
    adds_up: ClassVar[bool] = False
    # Whether the sums may be asked where one record changes the weights of all others.
    bears_moving_weights: ClassVar[bool] = False
    bends: ClassVar[Bends] = "never"
    # Whether estimates made of these sums have no bounds, so that a few surveys can make up most of their variance.
    endless: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            ENCODINGS[cls.name] = cls

    @property
    @abstractmethod
    def width(self) -> int:
        """Sums per cell."""

    @property
    @abstractmethod
    def moves(self) -> Moves:
        """How far one record moves the sums."""

    def slack(self, components: int) -> float:
        """The steps that rounding can add to how far a record moves so many sums."""
        return self.rounded

    def part(self, share: float, norm: Norm) -> float:
        """How much of what a whole record moves one reaches that counts this share of it."""
        return share

    @abstractmethod
    def record(self, row: Row) -> list[Any]:
        """The sums of one row."""

    @property
    def others(self) -> tuple[Column, ...]:
        """Further columns that a record is measured by."""
        return ()

    @property
    def counting(self) -> tuple[int, ...]:
        """The sums that together count records; empty where no sum does."""
        return ()

    @property
    def most(self) -> float:
        """The most that a record adds to one sum, over the steps of the whole record."""
        return 1.0

    @property
    def extremes(self) -> Array:
        """The corners of what one record can add, over the steps of the whole record: (corners, sums)."""
        raise BadValue("no standard error is bought of these sums", given=self.name)

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        """What a record adds on average if y has this mean and mean square, over the steps of a whole record."""
        raise BadValue("errors of these sums are predicted by the statistic that reads them", given=self.name)

    def noise_between(self, mean: float, share: Array, groups: int) -> Array | float:
        """The noise variance of what a random group adds to an estimate, over that of one sum; `share` is each group's."""
        return 1.0 + mean**2

    def spread_between(self, mean: float, square: float, share: Array) -> Array | float:
        """The variance of what one record adds to an estimate."""
        return max(square - mean**2, 0.0)

    def apart(self, sums: Array, deviation: Array) -> Array:
        """The sums of random groups, moved so that their estimates differ by a deviation each."""
        sums[:, 0] += deviation
        return sums


ENCODINGS: dict[str, type[Encoding]] = {}


@dataclass(frozen=True)
class Units(Encoding):
    """The records of each group."""

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "units"
    bends: ClassVar[Bends] = "with noise"
    width: ClassVar[int] = 1
    moves: ClassVar[Moves] = NOT_NEGATIVE
    counting: ClassVar[tuple[int, ...]] = (0,)

    @property
    def extremes(self) -> Array:
        return np.array([[1.0]])

    def record(self, row: Row) -> list[Any]:
        return [row.steps]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        return np.asarray([1.0])

    def noise_between(self, mean: float, share: Array, groups: int) -> Array:
        return np.asarray(1.0 - 2.0 * share + groups * share**2)

    def spread_between(self, mean: float, square: float, share: Array) -> Array:
        # Units vary as the number that falls into a group does.
        return np.asarray(1.0 - share)


@dataclass(frozen=True)
class Yes(Encoding):
    """The records of each group with yes, where their whole number is public."""

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "yes"
    stays_in_one_cell: ClassVar[bool] = True
    width: ClassVar[int] = 1
    moves: ClassVar[Moves] = ONE_WAY

    def record(self, row: Row) -> list[Any]:
        return [row.answer]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        return np.asarray([mean])


@dataclass(frozen=True)
class Pair(Encoding):
    """Yes and no, or a value and what is left of the record: both add up to the record."""

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "pair"
    bends: ClassVar[Bends] = "with noise"
    width: ClassVar[int] = 2
    moves: ClassVar[Moves] = NOT_NEGATIVE
    counting: ClassVar[tuple[int, ...]] = (0, 1)

    @property
    def extremes(self) -> Array:
        return np.array([[0.0, 1.0], [1.0, 0.0]])

    def record(self, row: Row) -> list[Any]:
        return [row.answer, row.steps - row.answer]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        return np.asarray([mean, 1.0 - mean])

    def noise_between(self, mean: float, share: Array, groups: int) -> float:
        return (1.0 - mean) ** 2 + mean**2

    def apart(self, sums: Array, deviation: Array) -> Array:
        sums[:, 0] += deviation
        sums[:, 1] -= deviation
        return sums


@dataclass(frozen=True)
class AnswerAndRecord(Encoding):
    """The answer and the record, where records stay in their group and cluster.

    There the number of records does not move, so it may be counted in as many steps as one likes: `record_scale` times those of
    the answer, and its noise is as much smaller.
    """

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "counted"
    rounded: ClassVar[float] = 1.0
    bends: ClassVar[Bends] = "with noise"
    width: ClassVar[int] = 2
    record_scale: int = 1

    @property
    def moves(self) -> Moves:
        return Moves(1.0 + self.record_scale, math.hypot(1.0, self.record_scale), 1.0, 1.0)

    @property
    def counting(self) -> tuple[int, ...]:
        return (1,) if self.record_scale == 1 else ()

    @property
    def most(self) -> float:
        return float(self.record_scale)

    @property
    def extremes(self) -> Array:
        return np.array([[0.0, self.record_scale], [1.0, self.record_scale]])

    def record(self, row: Row) -> list[Any]:
        return [row.answer, row.steps * self.record_scale]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        return np.asarray([mean, float(self.record_scale)])


@dataclass(frozen=True)
class Sum(Encoding):
    """The value alone."""

    name: ClassVar[str] = "sum"
    rounded: ClassVar[float] = 1.0
    stays_in_one_cell: ClassVar[bool] = True
    bears_moving_weights: ClassVar[bool] = True
    width: ClassVar[int] = 1
    moves: ClassVar[Moves] = ONE_WAY

    def record(self, row: Row) -> list[Any]:
        return [row.to_steps(row.steps * row.y)]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        return np.asarray([mean])


@dataclass(frozen=True)
class Moments(Encoding):
    """The value, and its second moment in the room that the first leaves: it costs nothing."""

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "moments"
    rounded: ClassVar[float] = 2.0
    stays_in_one_cell: ClassVar[bool] = True
    bears_moving_weights: ClassVar[bool] = True
    width: ClassVar[int] = 2
    moves: ClassVar[Moves] = ONE_WAY
    scale: float = 1.0

    @classmethod
    def under(cls, norm: Norm) -> Moments:
        """The moments with the largest scale that a norm leaves free."""
        return cls(SECOND_MOMENT_SCALE[norm])

    def record(self, row: Row) -> list[Any]:
        return [row.to_steps(row.steps * row.y), row.to_steps(row.steps * (self.scale * (row.y * (1.0 - row.y))))]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        return np.asarray([mean, self.scale * (mean - square)])


@dataclass(frozen=True)
class WeightedMoments(Moments):
    """The value by its weight, z = u y, and b (z(1-z) - t u y(1-y)): the variance of sums of z is free, with its squared weights.

    With t = u pi, the same for every record that counts by the inverse of its chance, that is what chances take off.
    """

    name: ClassVar[str] = "weighted moments"
    bears_moving_weights: ClassVar[bool] = False
    taken: float = 0.0

    def part(self, share: float, norm: Norm) -> float:
        return part_with_squares(share, self.scale, norm)

    def record(self, row: Row) -> list[Any]:
        product = row.y * (1.0 - row.share * row.y) - self.taken * (row.y * (1.0 - row.y))
        return [row.to_steps(row.steps * row.y), row.to_steps(row.steps * (self.scale * product))]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        low, high = facts.weights
        # Weights between the declared extremes, as if spread evenly on a logarithmic scale.
        return np.asarray([mean, self.scale * (mean - math.sqrt(low / high) * square - self.taken * (mean - square))])


@dataclass(frozen=True)
class Triple(Encoding):
    """The value, its second moment and the record in one: three sums that add up to the record."""

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "triple"
    bends: ClassVar[Bends] = "with noise"
    width: ClassVar[int] = 3
    moves: ClassVar[Moves] = NOT_NEGATIVE
    counting: ClassVar[tuple[int, ...]] = (0, 1, 2)

    def record(self, row: Row) -> list[Any]:
        return _triple(row, row.steps)

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        return np.asarray([square, 2.0 * (mean - square), 1.0 - 2.0 * mean + square])


@dataclass(frozen=True)
class Spread(Encoding):
    """A triple, and once more with u^2 (1 - pi), for the variance of sums with unequal weights; up to 0.8."""

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "spread"
    bends: ClassVar[Bends] = "with noise"
    width: ClassVar[int] = 6
    counting: ClassVar[tuple[int, ...]] = (0, 1, 2)
    scale: float = 1.0

    @property
    def moves(self) -> Moves:
        first, second = 1.0 + self.scale, math.sqrt(1.0 + self.scale**2)
        return Moves(first, second, 2.0 * first, ROOT * second)

    def record(self, row: Row) -> list[Any]:
        return [*_triple(row, row.steps), *_triple(row, row.to_steps(row.thinned * self.scale))]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        triple = Triple().profile(mean, square, facts)
        low, high = facts.weights
        # Weights between the declared extremes, as if spread evenly on a logarithmic scale.
        typical_share = (low / high) ** 0.5
        return np.concatenate([triple, self.scale * typical_share * triple])


@dataclass(frozen=True)
class FreeSpread(Triple):
    """A triple by u, and one by b u(1-u) in the room that u leaves: together they give the triple of u^2 at no cost."""

    name: ClassVar[str] = "free spread"
    width: ClassVar[int] = 6
    scale: float = 1.0

    @classmethod
    def under(cls, norm: Norm) -> FreeSpread:
        """The sums with the largest scale that a norm leaves free."""
        return cls(SECOND_MOMENT_SCALE[norm])

    def part(self, share: float, norm: Norm) -> float:
        return part_with_squares(share, self.scale, norm)

    def slack(self, components: int) -> float:
        # Each triple adds up to whole steps, of which the second are rounded.
        return 1.0

    def record(self, row: Row) -> list[Any]:
        return [*_triple(row, row.steps), *_triple(row, row.to_steps(row.steps * (self.scale * (1.0 - row.share))))]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        triple = super().profile(mean, square, facts)
        low, high = facts.weights
        # Weights between the declared extremes, as if spread evenly on a logarithmic scale.
        return np.concatenate([triple, self.scale * (1.0 - math.sqrt(low / high)) * triple])


@dataclass(frozen=True)
class FreePair(Pair):
    """Yes and no by u, and both by b u(1-u) in the room that u leaves: together they give those of u^2 at no cost."""

    name: ClassVar[str] = "free pair"
    rounds_counts: ClassVar[bool] = True
    width: ClassVar[int] = 4
    scale: float = 1.0

    @classmethod
    def under(cls, norm: Norm) -> FreePair:
        """The sums with the largest scale that a norm leaves free."""
        return cls(SECOND_MOMENT_SCALE[norm])

    def part(self, share: float, norm: Norm) -> float:
        return part_with_squares(share, self.scale, norm)

    def slack(self, components: int) -> float:
        # Of the last two sums a record has one, which is rounded.
        return 1.0

    def record(self, row: Row) -> list[Any]:
        both = super().record(row)
        return [*both, *(row.to_steps(each * (self.scale * (1.0 - row.share))) for each in both)]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        pair = super().profile(mean, square, facts)
        low, high = facts.weights
        # Weights between the declared extremes, as if spread evenly on a logarithmic scale.
        return np.concatenate([pair, self.scale * (1.0 - math.sqrt(low / high)) * pair])


@dataclass(frozen=True)
class Both(Encoding):
    """Two values."""

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "both"
    rounded: ClassVar[float] = 2.0
    bends: ClassVar[Bends] = "always"
    endless: ClassVar[bool] = True
    width: ClassVar[int] = 2
    moves: ClassVar[Moves] = TWO_COLUMNS
    second: str = ""
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def others(self) -> tuple[Column, ...]:
        return ((self.second, *self.bounds),)

    @property
    def extremes(self) -> Array:
        return np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])

    def record(self, row: Row) -> list[Any]:
        return [row.to_steps(row.steps * row.y), row.to_steps(row.steps * row.others[0])]

    def noise_between(self, mean: float, share: Array, groups: int) -> float:
        return 2.0


@dataclass(frozen=True)
class RatioMoments(Both):
    """Two values and their second moments, in the room that the values leave."""

    name: ClassVar[str] = "ratio"
    rounded: ClassVar[float] = 5.0
    width: ClassVar[int] = 5
    scale: float = 1.0

    def record(self, row: Row) -> list[Any]:
        y, x = row.y, row.others[0]
        squares = (y * (1.0 - y), x * (1.0 - x), (y - x) * (y - x))
        return [*super().record(row), *(row.to_steps(row.steps * (self.scale * square)) for square in squares)]

    def noise_between(self, mean: float, share: Array, groups: int) -> float:
        return 1.0 + mean**2


@dataclass(frozen=True)
class CentredMoments(RatioMoments):
    """The same sums for a mechanism that makes residuals of them once a centre is known: they are not released."""

    adds_up: ClassVar[bool] = False
    name: ClassVar[str] = "centred"
    # More than rounding adds to either step, so that no unit's part of the charge is stated too low.
    rounded: ClassVar[float] = 40.0


@dataclass(frozen=True)
class Products(Encoding):
    """The upper triangle of z z', z = (1, x - 1/2, y - 1/2) with any number of regressors x, row by row."""

    name: ClassVar[str] = "products"
    counting: ClassVar[tuple[int, ...]] = (0,)
    regressors: tuple[Column, ...] = ()

    @property
    def width(self) -> int:
        return (len(self.regressors) + 2) * (len(self.regressors) + 3) // 2

    def slack(self, components: int) -> float:
        return 2.0 * components

    @property
    def moves(self) -> Moves:
        count = len(self.regressors)
        return Moves(
            product_sensitivity(count, Relation.ADD_REMOVE, "L1"),
            product_sensitivity(count, Relation.ADD_REMOVE, "L2"),
            product_sensitivity(count, Relation.REPLACE_ONE, "L1"),
            product_sensitivity(count, Relation.REPLACE_ONE, "L2"),
        )

    @property
    def others(self) -> tuple[Column, ...]:
        return self.regressors

    def record(self, row: Row) -> list[Any]:
        z = [None, *(x - 0.5 for x in row.others), row.y - 0.5]

        def product(one: Any, other: Any) -> Any:
            # The first of z is 1, and no expression.
            return row.steps if other is None else row.to_steps(row.steps * (other if one is None else one * other))

        return [product(z[i], z[j]) for i in range(len(z)) for j in range(i, len(z))]

    def profile(self, mean: float, square: float, facts: Facts) -> Array:
        # Regressors that are unrelated to y, spread evenly.
        z = [1.0, *([0.0] * len(self.regressors)), mean - 0.5]
        own = [1.0, *([1.0 / 12.0] * len(self.regressors)), square - mean + 0.25]
        pairs = [(i, j) for i in range(len(z)) for j in range(i, len(z))]
        return np.asarray([own[i] if i == j else z[i] * z[j] for i, j in pairs])


@dataclass(frozen=True)
class LeafCounts(Encoding):
    """The records in each leaf of a public grid, for choices by score: the counts themselves are not released."""

    name: ClassVar[str] = "histogram"
    edges: tuple[float, ...] = ()

    @property
    def leaves(self) -> int:
        """Leaves between the edges."""
        return len(self.edges) - 1

    @property
    def width(self) -> int:
        return self.leaves

    @property
    def moves(self) -> Moves:
        raise BadValue("these figures are not summed, so they have no sensitivity of sums", given=self.name)

    def record(self, row: Row) -> list[Any]:
        return [row.steps]

    def of_leaves(self, leaves: NDArray[Number]) -> NDArray[Number]:
        """The sums, from the figures of the leaves (last axis)."""
        return leaves


@dataclass(frozen=True)
class TreeCounts(LeafCounts):
    """The records under each node of a tree above the leaves of a public grid."""

    adds_up: ClassVar[bool] = True
    name: ClassVar[str] = "tree"
    bends: ClassVar[Bends] = "always"
    branching: int = 0

    @cached_property
    def tree(self) -> Tree:
        """The tree above the leaves."""
        return Tree(self.branching, round(math.log(self.leaves, self.branching)))

    @property
    def width(self) -> int:
        return self.tree.nodes

    def of_leaves(self, leaves: NDArray[Number]) -> NDArray[Number]:
        return self.tree.add_up(leaves)

    @property
    def extremes(self) -> Array:
        return self.tree.add_up(np.eye(self.leaves))

    @property
    def counting(self) -> tuple[int, ...]:
        return tuple(range(self.branching))

    @property
    def moves(self) -> Moves:
        # A record is in one node of each level, and a replaced one may leave one path and enter another.
        levels = float(self.tree.levels)
        return Moves(levels, math.sqrt(levels), 2.0 * levels, math.sqrt(2.0 * levels))

    def noise_between(self, mean: float, share: Array, groups: int) -> float:
        return float(prefix_noise(self.tree, 0.5, False).variance.max())

    def spread_between(self, mean: float, square: float, share: Array) -> float:
        return 0.25

    def apart(self, sums: Array, deviation: Array) -> Array:
        # More than their part below the middle, or less: what the spread of a median is made of.
        leaves = self.tree.leaves
        half = np.where(np.arange(leaves) < leaves // 2, 1.0, -1.0) / (leaves / 2.0)
        return np.asarray(sums + self.tree.add_up(0.5 * deviation[:, None] * half[None, :]))


@dataclass(frozen=True)
class Window(Encoding):
    """The order statistics of some ranks, for noise that depends on them: they are not released."""

    name: ClassVar[str] = "window"
    ranks: tuple[int, int] = (1, 1)
    # How many ranks on each side the noise looks at.
    reach: int = 1

    @property
    def width(self) -> int:
        return self.ranks[1] - self.ranks[0] + 1

    @property
    def moves(self) -> Moves:
        raise BadValue("these figures are not summed, so they have no sensitivity of sums", given=self.name)

    def record(self, row: Row) -> list[Any]:
        raise BadValue("order statistics are not sums over records", given=self.name)


def _triple(row: Row, steps: Any) -> list[Any]:
    # To the nearest step: rounding down would lower the sum of squares by half a step a row.
    top = row.least(row.to_steps(steps * (row.y * row.y)), steps)
    # The last two are what is left of the whole, so the three add up to `steps` whatever floating point does.
    bottom = row.least(row.to_steps(steps * ((1.0 - row.y) * (1.0 - row.y))), steps - top)
    return [top, steps - top - bottom, bottom]
