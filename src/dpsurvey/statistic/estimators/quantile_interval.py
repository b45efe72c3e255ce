"""Quantiles and their intervals from one noisy tree, and the public binnings a tree stands on.

Post-processing of noisy sums and public figures; looks at no rows. A leaf j holds the values from edges[j] up to edges[j+1] and
without it, or that one value where the two are equal. A record counts u = w/w_max, which is 1 where weights are equal. The
quantile of order q is the least value that q of the population do not exceed. Why the intervals cover: docs/proofs/quantiles.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from .interval import Array, Z, critical
from .tree import Tree, prefix_noise

# Below this many expected units on the rarer side a count is not near enough to normal: shifted ranks instead.
NORMAL_FROM = 10.0


@dataclass(frozen=True)
class QuantileAnswer:
    """Quantiles with 95 % intervals; an end that is a public bound says nothing about the data and is marked.

    `se_sampling` and `se_noise` divide the interval's width over 2z by the shares of the two variances.
    `estimate` is not a number where the noisy total is not positive.
    """

    estimate: Array
    se_sampling: Array
    se_noise: Array
    low: Array
    high: Array
    low_at_bound: npt.NDArray[np.bool_]
    high_at_bound: npt.NDArray[np.bool_]

    @property
    def whole_range(self) -> npt.NDArray[np.bool_]:
        """Where the interval goes from bound to bound."""
        return np.asarray(self.low_at_bound & self.high_at_bound)


def edges(
    low: float, high: float, leaves: int, spacing: Literal["equal", "log"] = "equal", *, first: float | None = None
) -> Array:
    """The leaves + 1 edges of a public binning: equal widths, or equal ratios for money.

    Equal ratios cannot start at 0: with low = 0 the first leaf is [0, first] and the others grow from there.

    >>> edges(0, 8, 4).tolist(), edges(1, 16, 4, "log").round(9).tolist()
    ([0.0, 2.0, 4.0, 6.0, 8.0], [1.0, 2.0, 4.0, 8.0, 16.0])
    >>> edges(0, 1000, 4, "log", first=1).round(9).tolist()
    [0.0, 1.0, 10.0, 100.0, 1000.0]
    """
    if not (np.isfinite([low, high]).all() and low < high and leaves >= 1):
        raise BadValue("a binning needs finite bounds in order and a leaf or more", given=f"({low:g}, {high:g}), leaves={leaves}")
    if spacing == "equal":
        found = np.linspace(low, high, leaves + 1)
    elif spacing == "log" and low > 0 and first is None:
        found = np.geomspace(low, high, leaves + 1)
    elif spacing == "log" and low == 0 and first is not None and 0 < first < high and leaves >= 2:
        found = np.concatenate([[0.0], np.geomspace(first, high, leaves)])
    else:
        raise BadValue(
            "this binning has no equal ratios" if spacing == "log" else "spacing is 'equal' or 'log'",
            given=f"spacing={spacing!r}, low={low:g}, first={first}",
            hint="log spacing takes low > 0, or low = 0 with first=, the end of the first leaf" if spacing == "log" else "",
        )
    found[0], found[-1] = low, high
    if np.any(np.diff(found) <= 0):
        raise BadValue("the leaves are too narrow for floating point", given=f"({low:g}, {high:g}), leaves={leaves}")
    return found


def grid(
    low: float,
    high: float,
    leaves: int,
    spacing: Literal["equal", "log"] = "equal",
    *,
    first: float | None = None,
    atoms: tuple[float, ...] | None = (),
) -> Array:
    """The edges of a binning in which both bounds, and the atoms between them, are leaves of their own: edges that stand twice.

    Many units may have exactly these values (no income, forty hours; whatever lies outside is moved to a bound), and a leaf
    with a width would spread them over it. For an atom the nearest edge is moved to it. With None nothing has a leaf of its own.

    >>> grid(0, 8, 6).tolist(), grid(0, 8, 7, atoms=(5.0,)).tolist()
    ([0.0, 0.0, 2.0, 4.0, 6.0, 8.0, 8.0], [0.0, 0.0, 2.0, 5.0, 5.0, 6.0, 8.0, 8.0])
    """
    if atoms is None:
        return edges(low, high, leaves, spacing, first=first)
    inner = tuple(atom for atom in sorted(atoms) if low < atom < high)
    if leaves < 4 or 2 * len(inner) > leaves - 3:
        raise BadValue(
            "each bound and each atom is a leaf of its own, and others are needed between them",
            given=f"leaves={leaves}, {len(inner)} atoms",
        )
    body = edges(low, high, leaves - 2 - len(inner), spacing, first=first)
    last = len(body) - 1
    place = 0
    for number, atom in enumerate(inner, 1):
        nearest = int(np.abs(body[1:last] - atom).argmin()) + 1
        place = min(max(nearest, place + 1), last - 1 - (len(inner) - number))
        body[place] = atom
    return np.sort(np.concatenate([body, [low, *inner, high]]))


def quantile_from_tree(
    noisy: Array,
    tree: Tree,
    q: float,
    leaf_edges: Array,
    noise_variance: float,
    root: Array | float | None,
    sampling_variance: Array | float | Callable[[Array], Array],
    noise_kurtosis: float,
) -> QuantileAnswer:
    """The q-quantile and its 95 % interval from noisy nodes (last axis; any axes before it are many trees at once).

    `noise_variance` is v of one node, `noise_kurtosis` the excess kurtosis of the noise, and `root` the total of u where it is
    public. `sampling_variance` is that of sum u(1{x <= t} - q) at the quantile, one number per tree, or a function of the (noisy)
    total that gives it.

    With F(t) the least-squares prefix sums and c(t) = k sqrt(V + p(t) v) + 1/2, leaf j is kept when
    F(j+1) >= q total - c(j+1) and F(j) <= q total + c(j); the interval is the hull of the leaves that are kept, and
    of the leaf that holds the estimate. The estimate is where F, made monotone, crosses q total.

    >>> tree, counts = Tree(4, 2), np.full(16, 100.0)
    >>> answer = quantile_from_tree(tree.add_up(counts), tree, 0.5, edges(0, 16, 16), 8.0, 1600.0, 400.0, 3.0)
    >>> float(answer.estimate), float(answer.low), float(answer.high)
    (8.0, 7.0, 9.0)
    """
    if not 0.0 < q < 1.0:
        raise BadValue("a quantile has an order between 0 and 1", given=f"q={q:g}")
    if leaf_edges.shape != (tree.leaves + 1,) or np.any(np.diff(leaf_edges) < 0):
        raise BadValue("the edges do not fit the tree", because=f"{tree.leaves} leaves have {tree.leaves + 1} edges in order")
    below = tree.prefix_sums(tree.consistent(noisy, root))
    total = np.broadcast_to(below[..., -1] if root is None else np.asarray(root, dtype=np.float64), below.shape[:-1])
    sampling = np.asarray(sampling_variance(total) if callable(sampling_variance) else sampling_variance, dtype=np.float64)
    factors = prefix_noise(tree, float(q), root is not None)
    noise = factors.variance * noise_variance
    variance = sampling[..., None] + noise
    # A census with a public total has no error at the bounds; dividing by infinity gives the zeros that belong there.
    divisor = np.where(variance > 0.0, variance, np.inf)
    share_squared = (noise_variance / divisor) ** 2
    kurtosis = noise_kurtosis * factors.fourth * share_squared if noise_kurtosis else np.zeros_like(variance)
    limit = critical(Z, kurtosis) * np.sqrt(variance) + 0.5

    # The test looks at F itself: after the monotone step its noise is no longer known, and can lean to one side.
    target = q * total
    gap = below - target[..., None]
    kept = (gap[..., 1:] >= -limit[..., 1:]) & (gap[..., :-1] <= limit[..., :-1])
    leaf, part = crossing(monotone(below), target)
    # F(0) = 0 and F(G) = total, so some leaf holds the target and is kept; a total below 0 has no quantiles.
    sound = total > 0.0
    first = np.where(sound, np.minimum(kept.argmax(axis=-1), leaf), 0)
    last = np.where(sound, np.maximum(tree.leaves - 1 - kept[..., ::-1].argmax(axis=-1), leaf), tree.leaves - 1)

    low, high = leaf_edges[first], leaf_edges[last + 1]
    estimate = leaf_edges[leaf] + part * (leaf_edges[leaf + 1] - leaf_edges[leaf])
    nearest = leaf + (part >= 0.5)
    share = noise[nearest] / np.take_along_axis(np.broadcast_to(divisor, below.shape), nearest[..., None], axis=-1)[..., 0]
    error = (high - low) / (2.0 * Z)
    return QuantileAnswer(
        estimate=np.where(total > 0.0, estimate, np.nan),
        se_sampling=np.asarray(error * np.sqrt(np.maximum(1.0 - share, 0.0))),
        se_noise=np.asarray(error * np.sqrt(share)),
        low=np.asarray(low),
        high=np.asarray(high),
        # Where the quantile is a bound itself, as many units are there or beyond, and that is what the data say.
        low_at_bound=np.asarray((first == 0) & (low < high)),
        high_at_bound=np.asarray((last == tree.leaves - 1) & (low < high)),
    )


def monotone(values: Array) -> Array:
    """The mean of the largest value so far and the smallest value still to come, on the last axis.

    >>> monotone(np.array([0.0, 3.0, 1.0, 4.0])).tolist()
    [0.0, 2.0, 2.0, 4.0]
    """
    so_far = np.maximum.accumulate(values, axis=-1)
    to_come = np.minimum.accumulate(values[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray(0.5 * (so_far + to_come))


def crossing(below: Array, target: Array) -> tuple[npt.NDArray[np.intp], Array]:
    """The leaf in which rising prefix sums first reach the target, and how far into it, linearly; an end where they never do.

    >>> leaf, part = crossing(np.array([0.0, 2.0, 2.0, 6.0]), np.array(3.0))
    >>> int(leaf), float(part)
    (2, 0.25)
    """
    reached = below[..., 1:] >= target[..., None]
    last = reached.shape[-1] - 1
    leaf = np.where(reached.any(axis=-1), reached.argmax(axis=-1), last)
    start, end = (np.take_along_axis(below, (leaf + step)[..., None], axis=-1)[..., 0] for step in (0, 1))
    rises = end > start
    part = np.where(rises, (np.clip(target, start, end) - start) / np.where(rises, end - start, 1.0), target > start)
    return leaf, part


def shifted_ranks_are_safer(n: float, q: float) -> bool:
    """Whether n q(1-q) < 10: too few units on one side for the tree's normal approximation.

    >>> shifted_ranks_are_safer(300, 0.99), shifted_ranks_are_safer(300, 0.5)
    (True, False)
    """
    return n * q * (1.0 - q) < NORMAL_FROM


def says_little(n: float, q: float, epsilon: float) -> bool:
    """Whether the interval will be wide before any row is read: n epsilon < 300 for the median, n q(1-q) epsilon < 100 else.

    >>> says_little(1000, 0.5, 0.1), says_little(1000, 0.9, 1.0), says_little(2000, 0.9, 1.0)
    (True, True, False)
    """
    return n * epsilon < 300.0 if q == 0.5 else n * q * (1.0 - q) * epsilon < 100.0
