"""The sums to expect of a query, from declared figures alone: what errors are predicted with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..estimators.interval import Array
from ..noisy import Asked
from ..random_group_layout import cells_in_use, unlike_random_groups
from .population import ExpectedPopulation


def expected_sums(population: ExpectedPopulation, asked: Asked, profile_at: Callable[[float, float], Array]) -> Array:
    """The sums of records with these means and mean squares on [0, 1]; `profile_at` says what a record with them adds.

    Groups of undeclared size count as equal parts of the frame, and so does what a condition leaves. Random groups share the
    units of their group equally, spread around their mean as independent units and the noise would spread them.
    """
    query, encoding, counts = asked.query, asked.query.encoding, population.counts
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
    added = asked.mechanism.variance * np.asarray(encoding.noise_between(mean, share, len(query.groups)))
    between = encoding.spread_between(mean, square, share) * np.repeat(counts, cells) * part
    deviation = np.sqrt(between * query.steps**2 + added)
    return np.asarray(encoding.apart(each, sign * deviation))
