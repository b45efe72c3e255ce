"""Trimmed weights: cut at a public weight, with a bound on the bias that this brings inside the interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .base import Numbers
from .facts import Facts
from .interval import Array
from .query import Query
from .random_size import Answer


def with_bias_bound(
    numbers: Numbers, answer: Answer, query: Query, facts: Facts, low: Array | float, high: Array | float
) -> Numbers:
    """The numbers with their intervals widened by what cutting the largest weights can have moved them.

    With B the share of the population that the cut weights no longer represent, the mean moves by at most
    B/(1-B) times the distance to the farther bound. B = 1 - tau sum(u)/N comes from the noisy count, two standard
    errors of its noise and of its draw towards the larger side.
    """
    if query.weights is None or query.weights.largest >= facts.largest_weight:
        return numbers
    cut = share_cut(answer.count, answer.count_sd, query.weights.largest, facts.size, len(query.groups))
    middle = np.clip(np.nan_to_num(answer.estimate, nan=0.0), low, high)
    reach = cut / (1.0 - cut) * np.maximum(middle - low, high - middle)
    return replace(
        numbers,
        low=np.maximum(numbers.low - reach, low),
        high=np.minimum(numbers.high + reach, high),
        method=numbers.method + ", bias bound of trimmed weights added",
    )


def share_cut(count: Array, count_sd: Array, largest: float, size: int, groups: int) -> Array:
    """At most this share of the population is lost by cutting weights, from noisy counts of all groups together.

    >>> share_cut(np.array([95.0]), np.array([0.0]), 10.0, 1000, 1).round(3)
    array([0.245])
    """
    whole = np.asarray(count).sum(axis=-1, keepdims=True)
    error = np.sqrt((np.asarray(count_sd) ** 2).sum(axis=-1, keepdims=True) + np.maximum(whole, 0.0))
    return np.asarray(np.clip(1.0 - largest * (whole - 2.0 * error) / size, 0.0, 0.5) * np.ones(groups))
