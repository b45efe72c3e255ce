"""The sums to expect of a query, from declared figures alone: what errors are predicted with."""

from __future__ import annotations

import numpy as np

from ..frame import Frame
from .facts import Facts
from .interval import Array
from .query import Query
from .slot_layout import cells_in_use, unlike_slots
from .tree import Tree, prefix_noise


def expected_sums(typical: tuple[float, float], query: Query, facts: Facts, noise: float) -> tuple[Array, bool]:
    """The sums of records with this mean and mean square on [0, 1]; and whether all group sizes were declared.

    Groups of undeclared size count as equal parts of the frame, and so does what a condition leaves. Slots share the
    units of their group equally, spread around their mean as independent units and the noise would spread them.
    """
    mean, square = typical
    profile = _profile(mean, square, query, facts)
    strata = {part.label: part for part in facts.parts}
    flat = len(query.lattice) == 1 and query.weights is None
    low, high = facts.weights
    largest = query.weights.largest if query.weights is not None else high
    # Where nobody knows how many records there are, they are a share of the frame as small as supposed.
    thinned = facts.expected_units / facts.frame.size if facts.records_unknown and facts.frame.size else 1.0
    counts, declared = [], True
    for group in query.groups:
        size = None if query.where and not query.masks else facts.frame.known_size(query.by, group)
        declared = declared and size is not None
        whole = facts.frame.size or facts.expected_units * low
        units = (
            size
            if size is not None
            else whole * _share(facts.frame, query.by, group) * (0.5 if query.where and not query.masks else 1.0)
        )
        where = query.by.index(query.strata_column) if query.strata_column in query.by else None
        own = strata.get(group[where]) if where is not None else None
        rate = own.probability if own is not None and flat else 1.0 / largest
        counts.append(units * rate * thinned)
    sums = np.asarray(counts)[:, None] * profile[None, :] * query.steps
    if query.slots is None:
        return sums, declared
    cells = query.slots.cells
    used = cells_in_use(query)
    part = (used / used.sum(axis=1, keepdims=True)).ravel()
    each = np.repeat(sums, cells, axis=0) * part[:, None]
    # Up and down by one standard deviation of a slot's residual: what the variance between slots is made of.
    sign = (unlike_slots(query) * used).ravel()
    share = np.repeat(np.asarray(counts) / max(float(np.sum(counts)), 1e-300), cells)
    by_encoding = {"pair": (1.0 - mean) ** 2 + mean**2, "both": 2.0, "units": 1.0 - 2.0 * share + len(query.groups) * share**2}
    if query.encoding == "tree":
        by_encoding["tree"] = float(prefix_noise(Tree(query.branching, query.levels), 0.5, False).variance.max())
    added = noise * np.asarray(by_encoding.get(query.encoding, 1.0 + mean**2))
    # Units vary as the number that falls into a group does; measured values as the declared spread says.
    spread = 1.0 - share if query.encoding == "units" else 0.25 if query.encoding == "tree" else max(square - mean**2, 0.0)
    between = spread * np.repeat(np.asarray(counts), cells) * part
    deviation = np.sqrt(between * query.steps**2 + added)
    if query.encoding == "tree":
        return _uneven_trees(each, sign * deviation, query), declared
    each[:, 0] += sign * deviation
    if query.encoding == "pair":
        each[:, 1] -= sign * deviation
    return each, declared


def _uneven_trees(trees: Array, deviation: Array, query: Query) -> Array:
    """Trees of slots with more than their part below the middle, or less: what the spread of a median is made of."""
    tree = Tree(query.branching, query.levels)
    half = np.where(np.arange(tree.leaves) < tree.leaves // 2, 1.0, -1.0) / (tree.leaves / 2.0)
    return np.asarray(trees + tree.add_up(0.5 * deviation[:, None] * half[None, :]))


def _profile(mean: float, square: float, query: Query, facts: Facts) -> Array:
    triple = [square, 2.0 * (mean - square), 1.0 - 2.0 * mean + square]
    scale = query.second_moment_scale
    if query.encoding == "spread":
        low, high = facts.weights
        # Weights between the declared extremes, as if spread evenly on a logarithmic scale.
        typical_share = (low / high) ** 0.5
        return np.asarray([*triple, *(scale * typical_share * each for each in triple)])
    if query.encoding == "tree":
        nodes = [1.0 / query.branching**level for level in range(1, query.levels + 1) for _ in range(query.branching**level)]
        return np.asarray(nodes)
    if query.encoding == "products":
        # Regressors that are unrelated to y, spread evenly.
        z = [1.0, *([0.0] * len(query.regressors)), mean - 0.5]
        own = [1.0, *([1.0 / 12.0] * len(query.regressors)), square - mean + 0.25]
        pairs = [(i, j) for i in range(len(z)) for j in range(i, len(z))]
        return np.asarray([own[i] if i == j else z[i] * z[j] for i, j in pairs])
    if query.encoding == "histogram":
        return np.full(query.components, 1.0 / query.components)
    profiles = {
        "triple": triple,
        "quad": [*triple, 0.0],
        "pair": [mean, 1.0 - mean],
        "yes": [mean],
        "sum": [mean],
        "units": [1.0],
        "moments": [mean, scale * (mean - square)],
        "counted": [mean, 1.0],
        "both": [mean, mean],
        "ratio": [mean, mean, scale * (mean - square), scale * (mean - square), scale * (square - mean**2)],
    }
    return np.asarray(profiles[query.encoding])


def _share(frame: Frame, by: tuple[str, ...], group: tuple[str, ...]) -> float:
    """The share of a group if its columns were unrelated: declared shares where there are any, equal parts elsewhere."""
    share = 1.0
    for column, label in zip(by, group, strict=True):
        sizes = frame.category_sizes.get(column)
        share *= sizes[label] / sum(sizes.values()) if sizes else 1.0 / len(frame.labels(column))
    return share
