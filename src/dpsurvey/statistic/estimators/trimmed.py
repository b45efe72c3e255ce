"""Trimmed and shrunk weights, with a bound on the bias that they bring inside the interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...errors import BadValue
from ..base import Estimates
from ..facts import Facts
from ..notes import Note
from ..query import Query, UnitWeights
from .interval import Array
from .random_size import Answer


def with_bias_bound(
    numbers: Estimates, answer: Answer, query: Query, facts: Facts, low: Array | float, high: Array | float
) -> Estimates:
    """The numbers with their intervals widened by what cutting the largest weights can have moved them.

    With B the share of the population that the cut weights no longer represent, the mean moves by at most
    B/(1-B) times the distance to the farther bound. B = 1 - tau sum(u)/N comes from the noisy count, two standard
    errors of its noise and of its draw towards the larger side.
    """
    if query.weights is not None and query.weights.kept < 1.0:
        return with_shrink_bound(numbers, query, facts, low, high)
    if query.weights is None or query.weights.largest >= facts.largest_weight:
        return numbers
    if query.weights.cut is not None:
        return _with_declared_cut(numbers, query.weights.cut, low, high)
    cut = share_cut(answer.count, answer.count_sd, query.weights.largest, facts.size)
    middle = np.clip(np.nan_to_num(answer.estimate, nan=0.0), low, high)
    reach = cut / (1.0 - cut) * np.maximum(middle - low, high - middle)
    return _widened(numbers, reach, reach, low, high, "trimmed")


def _with_declared_cut(numbers: Estimates, cut: float, low: Array | float, high: Array | float) -> Estimates:
    """The numbers where at most this share of all weight is cut: the mean is 1 - cut times the cut one, and a part in the bounds.

    So each end moves towards its bound by that share of the way, whatever the noise did to the estimate.
    """
    below, above = cut * (numbers.low - low), cut * (high - numbers.high)
    return _widened(numbers, np.maximum(below, 0.0), np.maximum(above, 0.0), low, high, "trimmed")


def _widened(numbers: Estimates, below: Array, above: Array, low: Array | float, high: Array | float, how: str) -> Estimates:
    """The numbers with their intervals wider by bounds on the bias, and a note where nothing is left of them."""
    ends = np.maximum(numbers.low - below, low), np.minimum(numbers.high + above, high)
    before = np.zeros(numbers.estimate.shape, dtype=np.bool_) if numbers.whole_range is None else numbers.whole_range
    whole = np.asarray((ends[0] <= low) & (ends[1] >= high)) | before
    notes = tuple(
        (*own, Note.NOT_PUBLISHABLE) if fresh else own for own, fresh in zip(numbers.notes, whole & ~before, strict=False)
    )
    method = f"{numbers.method}, bias bound of {how} weights added"
    bias = np.broadcast_to(np.maximum(below, above), numbers.estimate.shape)
    return replace(numbers, low=ends[0], high=ends[1], notes=notes, method=method, bias=bias, whole_range=whole)


def share_cut(count: Array, count_sd: Array, largest: float, size: int) -> Array:
    """At most this share of each group is lost by cutting weights, from noisy counts, two standard errors to the larger side.

    Of all units B = 1 - tau sum(u)/N are lost; nobody knows from which groups, so each group is taken to have lost them all:
    B/(s(1-B) + B), s its share of the counts.

    >>> share_cut(np.array([95.0]), np.array([0.0]), 10.0, 1000).round(3)
    array([0.245])
    """
    whole = np.asarray(count).sum(axis=-1, keepdims=True)
    error = np.sqrt((np.asarray(count_sd) ** 2).sum(axis=-1, keepdims=True) + np.maximum(whole, 0.0))
    lost = np.clip(1.0 - largest * (whole - 2.0 * error) / size, 0.0, 0.999)
    if np.asarray(count).shape[-1] == 1:
        return np.asarray(lost)
    own = np.clip((count - 2.0 * count_sd) / np.maximum(whole, 1e-9), 0.0, 1.0)
    return np.asarray(np.clip(lost / np.maximum(own * (1.0 - lost) + lost, 1e-9), 0.0, 0.999))


def with_shrink_bound(numbers: Estimates, query: Query, facts: Facts, low: Array | float, high: Array | float) -> Estimates:
    """The numbers with intervals widened by what shrunk weights can have moved them: the same bound for every group."""
    if query.weights is None or query.weights.kept == 1.0:
        return numbers
    moved = shrink_bound(query.weights.kept, query.weights.middle, facts.weights) * np.asarray(high - low)
    return _widened(numbers, moved, moved, low, high, "shrunk")


def check_cuts(trim: float | None, facts: Facts, *, expanded: bool, shared: bool, declared: bool = False) -> None:
    """Refuse to change weights where they are constants, or where no bound on the bias is derived."""
    if facts.parts:
        raise BadValue(
            "trimming and shrinking are for weights of each unit's own", hint="the weights of these strata are constants"
        )
    if expanded or shared or (trim is not None and facts.clustering is not None):
        raise BadValue(
            "no bound on the bias is known here, and an interval without it would not cover",
            hint="trim= and shrink= serve means, and totals of groups with declared sizes; in clusters shrink= alone",
        )
    if declared and not (facts.collected and facts.charged_in_place(())):
        raise BadValue(
            "trimmed= is a share of all weight in a file, which is compared with it",
            because="that is safe only where neighbours have the same weights",
            hint='a collected file, protect="sample" with the frame held fixed and neighbours="replace-one"',
        )
    if trim is not None and facts.frame.size is None and not declared:
        raise BadValue(
            "trim= needs the public size of the frame",
            because="it says how much of the population the cut weights lose",
            hint="declare size=N; or shrink=, which needs none",
        )


def shrink_bound(kept: float, middle: float, weights: tuple[float, float]) -> float:
    """At most this part of the range a weighted mean moves when weights w become kept w + (1 - kept) middle.

    With w_bar the mean weight and c the middle, the two sets of normalised weights differ by
    (1-k) c |w - w_bar|/(n w_bar (k w_bar + (1-k) c)); half of their sum bounds the difference of two means of values in
    [0, 1], and the mean absolute deviation of weights between the extremes is at most
    2 (high - w_bar)(w_bar - low)/(high - low). The largest over all w_bar is taken.

    >>> round(shrink_bound(0.5, 20.0, (10.0, 40.0)), 4)
    0.1716
    """
    low, high = weights
    if high <= low:
        return 0.0
    mean = np.linspace(low, high, 2001)
    spread = (high - mean) * (mean - low) / ((high - low) * mean)
    return float(np.max((1.0 - kept) * middle / (kept * mean + (1.0 - kept) * middle) * spread))


def cut_weights(
    weights: UnitWeights, facts: Facts, trim: float | None, shrink: float | None, trimmed: float | None = None
) -> UnitWeights:
    """The weights cut at a public weight, or pulled towards the middle of their declared range."""
    if trim is not None:
        return UnitWeights(min(trim, weights.largest), weights.steps, cut=trimmed)
    if shrink is None:
        return weights
    low, high = facts.weights
    # Towards the mean weight where the sizes of frame and sample are public, else the geometric middle of the range.
    taken = facts.design.public_units
    known = facts.frame.size / taken if facts.frame.size is not None and taken is not None else (low * high) ** 0.5
    middle = min(high, max(low, known))
    return UnitWeights(shrink * high + (1.0 - shrink) * middle, weights.steps, shrink, middle)
