"""A tree of counts over a public grid: layout, sensitivity, least squares, and the exact noise of its prefix sums.

One record is counted in its leaf and in every node above it, the root left out: levels 1..L hold b, b^2, ..., b^L
nodes. Every node carries independent noise of one variance v. Least squares makes children add up to their
parents; its prefix sums F(t), the count in the first t leaves, answer all quantiles at once. Proofs: docs/proofs/quantiles.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from .interval import Array

# Counts are whole numbers where they are exact, and not where they are expected or noisy.
Number = TypeVar("Number", np.int64, np.float64)
# One noisy node per leaf: beyond a million the counts in them are all noise.
MOST_LEAVES = 2**20


@dataclass(frozen=True)
class Tree:
    """A complete tree with `levels` levels below its root and `branching` children to a node.

    Nodes lie in one flat vector, level 1 first, from left to right within a level.

    >>> tree = Tree(branching=2, levels=2)
    >>> tree.leaves, tree.nodes
    (4, 6)
    >>> tree.add_up(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [3.0, 7.0, 1.0, 2.0, 3.0, 4.0]
    """

    branching: int
    levels: int

    def __post_init__(self) -> None:
        sound = self.branching >= 2 and 1 <= self.levels <= 20
        if not sound or self.leaves > MOST_LEAVES:
            raise BadValue(
                "a tree has two or more children to a node, one or more levels, and at most 2^20 leaves",
                given=f"branching={self.branching}, levels={self.levels}",
                hint="16 children and 2 levels suit most surveys",
            )

    @property
    def leaves(self) -> int:
        """G = b^L."""
        return int(self.branching**self.levels)

    @property
    def nodes(self) -> int:
        """b + b^2 + ... + b^L."""
        return int(self.level(self.levels).stop)

    def level(self, level: int) -> slice:
        """Where the nodes of a level, 1 to L, lie in the flat vector."""
        start = sum(self.branching**above for above in range(1, level))
        return slice(start, int(start + self.branching**level))

    def add_up(self, leaves: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """All nodes of the tree from the sums in its leaves (last axis), in numbers of the same kind."""
        parts = [leaves]
        for _ in range(self.levels - 1):
            parts.insert(0, self._families(parts[0]).sum(axis=-1))
        return np.concatenate(parts, axis=-1)

    def consistent(self, noisy: Array, root: Array | float | None = None) -> Array:
        """The least-squares tree: the nodes nearest to the noisy ones whose children add up to their parents.

        `root` is the total where it is public. Upward, a node and the sum of its children's z are averaged by their
        precision; downward, what a parent has more than its children's z is divided among them equally.

        >>> Tree(2, 1).consistent(np.array([4.0, 8.0]), root=10.0).tolist()
        [3.0, 7.0]
        """
        if noisy.shape[-1:] != (self.nodes,):
            raise BadValue("the noisy vector does not fit the tree", because=f"the tree has {self.nodes} nodes")
        own = _own_shares(self)
        upward = [np.asarray(noisy[..., self.level(level)], dtype=np.float64) for level in range(1, self.levels + 1)]
        for level in range(self.levels - 1, 0, -1):
            below = self._families(upward[level]).sum(axis=-1)
            upward[level - 1] = own[level - 1] * upward[level - 1] + (1.0 - own[level - 1]) * below
        total = upward[0].sum(axis=-1) if root is None else np.asarray(root, dtype=np.float64)
        parents = np.asarray(total)[..., None]
        done = []
        for z in upward:
            families = self._families(z)
            parents = (families + ((parents - families.sum(axis=-1)) / self.branching)[..., None]).reshape(z.shape)
            done.append(parents)
        return np.concatenate(done, axis=-1)

    def prefix_sums(self, nodes: Array) -> Array:
        """F(0), ..., F(G) from the leaves of a consistent tree, on the last axis.

        >>> Tree(2, 1).prefix_sums(np.array([3.0, 7.0])).tolist()
        [0.0, 3.0, 10.0]
        """
        sums = np.cumsum(nodes[..., self.level(self.levels)], axis=-1)
        return np.concatenate([np.zeros_like(sums[..., :1]), sums], axis=-1)

    def _families(self, nodes: npt.NDArray[Number]) -> npt.NDArray[Number]:
        return nodes.reshape(*nodes.shape[:-1], nodes.shape[-1] // self.branching, self.branching)


@dataclass(frozen=True)
class PrefixNoise:
    """What the noise of the nodes adds to F(t) - q total, for t = 0..G, with c the coefficients of the nodes in it.

    `variance` is sum c^2, so the noise variance is v times it; `fourth` is sum c^4, for the kurtosis of Laplace noise.
    """

    variance: Array
    fourth: Array


@lru_cache(maxsize=64)
def prefix_noise(tree: Tree, q: float, root_known: bool) -> PrefixNoise:
    """The exact noise factors of F(t) - q total after least squares, for all t at once.

    With a public root the total has no noise and q does not matter. In closed form the variance is
    (t/G - q)^2 r + sum over levels of s (k + c^2 - (k + c)^2/b), r = 0 or b s_1: s is the variance of z at that level,
    k the children left of t, c the part of the child that holds t.

    >>> prefix_noise(Tree(2, 1), 0.5, True).variance.tolist(), prefix_noise(Tree(2, 1), 0.0, False).variance.tolist()
    ([0.0, 0.5, 0.0], [0.0, 1.0, 2.0])
    """
    variance, fourth = (_powers(tree, q, root_known, power) for power in (2, 4))
    for each in (variance, fourth):
        each.flags.writeable = False
    return PrefixNoise(variance, fourth)


def total_noise(tree: Tree) -> float:
    """The noise factor of the total where it is not public: b s_1, so its noise variance is v times it.

    >>> total_noise(Tree(2, 1))
    2.0
    """
    return float(prefix_noise(tree, 0.0, False).variance[-1])


def _powers(tree: Tree, q: float, root_known: bool, power: int) -> Array:
    """The sum over all nodes of the `power`-th powers of their coefficients in F(t) - q total, for t = 0..G.

    Coefficients are the same throughout a subtree that t does not cut, so only the path to t is walked.
    """
    b, own = tree.branching, _own_shares(tree)
    # What a whole subtree under a z of coefficient 1 adds.
    whole = np.ones(tree.levels)
    for level in range(tree.levels - 2, -1, -1):
        whole[level] = own[level] ** power + (1.0 - own[level]) ** power * b * whole[level + 1]
    t = np.arange(tree.leaves + 1)
    leaf = np.minimum(t, tree.leaves - 1)
    total = np.zeros(t.shape)
    part_above = t / tree.leaves
    from_above = np.zeros(t.shape) if root_known else part_above - q
    for level in range(tree.levels):
        size = b ** (tree.levels - 1 - level)
        place = (leaf // size) % b
        part = (t - (leaf // size) * size) / size
        left, right = from_above + 1.0 - part_above, from_above - part_above
        on_path = from_above + part - part_above
        total += whole[level] * (place * left**power + (b - 1 - place) * right**power) + (own[level] * on_path) ** power
        part_above, from_above = part, (1.0 - own[level]) * on_path
    return total


def _own_shares(tree: Tree) -> Array:
    """The weight of a node's own noisy count in its z, level by level: b s/(1 + b s) with s the variance of its children's z."""
    shares, spread = np.ones(tree.levels), 1.0
    for level in range(tree.levels - 2, -1, -1):
        shares[level] = spread = tree.branching * spread / (1.0 + tree.branching * spread)
    return shares
