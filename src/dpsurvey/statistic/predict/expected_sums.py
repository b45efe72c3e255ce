"""The sums to expect of a query, from declared figures alone: what errors are predicted with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..estimators.interval import Array
from ..estimators.tree import Tree, prefix_noise
from ..facts import Facts
from ..query import Query
from ..random_group_layout import cells_in_use, unlike_random_groups
from .population import ExpectedPopulation


def expected_sums(
    population: ExpectedPopulation, query: Query, noise: float, profile_at: Callable[[float, float], Array]
) -> Array:
    """The sums of records with these means and mean squares on [0, 1]; `profile_at` says what a record with them adds.

    Groups of undeclared size count as equal parts of the frame, and so does what a condition leaves. Random groups share the
    units of their group equally, spread around their mean as independent units and the noise would spread them.
    """
    counts = population.counts
    means, squares = population.mixed(population.mean), population.mixed(population.square)
    profiles = {pair: profile_at(*pair) for pair in set(zip(means.tolist(), squares.tolist(), strict=True))}
    profile = np.stack([profiles[pair] for pair in zip(means.tolist(), squares.tolist(), strict=True)])
    mean, square = float(means.mean()), float(squares.mean())
    sums = counts[:, None] * profile * query.steps
    if query.random_groups is None:
        return np.asarray(sums)
    cells = query.random_groups.cells
    used = cells_in_use(query)
    part = (used / used.sum(axis=1, keepdims=True)).ravel()
    each = np.repeat(sums, cells, axis=0) * part[:, None]
    # Up and down by one standard deviation of a random group's residual: what the variance between random groups is made of.
    sign = (unlike_random_groups(query) * used).ravel()
    share = np.repeat(counts / max(float(np.sum(counts)), 1e-300), cells)
    by_encoding = {"pair": (1.0 - mean) ** 2 + mean**2, "both": 2.0, "units": 1.0 - 2.0 * share + len(query.groups) * share**2}
    if query.encoding == "tree":
        by_encoding["tree"] = float(prefix_noise(Tree(query.branching, query.levels), 0.5, False).variance.max())
    added = noise * np.asarray(by_encoding.get(query.encoding, 1.0 + mean**2))
    # Units vary as the number that falls into a group does; measured values as the declared spread says.
    spread = 1.0 - share if query.encoding == "units" else 0.25 if query.encoding == "tree" else max(square - mean**2, 0.0)
    between = spread * np.repeat(counts, cells) * part
    deviation = np.sqrt(between * query.steps**2 + added)
    if query.encoding == "tree":
        return _uneven_trees(each, sign * deviation, query)
    each[:, 0] += sign * deviation
    if query.encoding == "pair":
        each[:, 1] -= sign * deviation
    return np.asarray(each)


def _uneven_trees(trees: Array, deviation: Array, query: Query) -> Array:
    """Trees of random groups with more than their part below the middle, or less: what the spread of a median is made of."""
    tree = Tree(query.branching, query.levels)
    half = np.where(np.arange(tree.leaves) < tree.leaves // 2, 1.0, -1.0) / (tree.leaves / 2.0)
    return np.asarray(trees + tree.add_up(0.5 * deviation[:, None] * half[None, :]))


def profile_of(mean: float, square: float, query: Query, facts: Facts) -> Array:
    """What one record adds to its sums on average, over the steps of a whole record."""
    triple = [square, 2.0 * (mean - square), 1.0 - 2.0 * mean + square]
    scale = query.second_moment_scale
    if query.encoding == "spread":
        low, high = facts.weights
        # Weights between the declared extremes, as if spread evenly on a logarithmic scale.
        typical_share = (low / high) ** 0.5
        return np.asarray([*triple, *(scale * typical_share * each for each in triple)])
    if query.encoding == "products":
        # Regressors that are unrelated to y, spread evenly.
        z = [1.0, *([0.0] * len(query.regressors)), mean - 0.5]
        own = [1.0, *([1.0 / 12.0] * len(query.regressors)), square - mean + 0.25]
        pairs = [(i, j) for i in range(len(z)) for j in range(i, len(z))]
        return np.asarray([own[i] if i == j else z[i] * z[j] for i, j in pairs])
    profiles = {
        "triple": triple,
        "pair": [mean, 1.0 - mean],
        "yes": [mean],
        "sum": [mean],
        "units": [1.0],
        "moments": [mean, scale * (mean - square)],
        "counted": [mean, 1.0],
    }
    profile = profiles[query.encoding]
    return np.asarray([*profile, 0.0] if query.absent else profile)
