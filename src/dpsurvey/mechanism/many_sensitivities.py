"""Smooth sensitivities of many samples at once, exact for any beta: what simulations of medians need.

S is the largest e^(-beta p) F(y_i)/parts over i = lower-1-p, F(u) the largest line e^(-beta q)(y_j - u) over j = upper+q, and the
pairs with i = lower. F is convex, so between two values of u it is below its chord. F is computed at a few u; ranks whose
chord is below the best value found are left out, and the others are compared with the lines that can be highest there.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..errors import BadData, BadValue
from .order_statistic import FAINTEST, Array, Place

# How many values of u are looked at first: more of them cost more, fewer leave more ranks to compare one by one.
KNOTS = 20
# Rows are worked on together, so many that a block of them stays in the processor's cache.
BLOCK = 200_000


def smooth_sensitivities(ordered: npt.ArrayLike, place: Place, beta: float, low: float, high: float) -> Array:
    """The beta-smooth sensitivity of one order statistic, for every row of `ordered`; each row is sorted and within the bounds.

    >>> smooth_sensitivities([[2, 3, 7], [4, 5, 6]], Place.median(3), 0.5, 0, 10).round(6).tolist()
    [4.245715, 3.032653]
    """
    values = np.asarray(ordered, dtype=np.float64)
    if not -math.inf < low <= high < math.inf:
        raise BadValue("bounds must be finite, the lower one first", given=f"low={low}, high={high}")
    if not 0.0 < beta < math.inf:
        raise BadValue("beta must be positive and finite", given=f"beta={beta}")
    if values.ndim != 2 or values.shape[1] != place.size:
        raise BadValue("rows of as many sorted values as the place says are needed", hint="smooth_sensitivity is for one list")
    # Written so that a value that is not a number fails too.
    if not (np.all((values >= low) & (values <= high)) and np.all(values[:, 1:] >= values[:, :-1])):
        raise BadData("order statistics must be sorted and within the public bounds")
    step = max(1, BLOCK // (place.size + 2))
    found = [_of_block(values[start : start + step], place, beta, low, high) for start in range(0, len(values), step)]
    return np.concatenate(found) if found else np.empty(0)


def _of_block(values: Array, place: Place, beta: float, low: float, high: float) -> Array:
    padded = np.pad(values, ((0, 0), (1, 1)))
    padded[:, 0], padded[:, -1] = low, high
    # Measured from the place itself, so that gaps keep their digits however far from 0 the values lie.
    padded -= padded[:, place.upper, None].copy()
    right, left = padded[:, place.upper :], padded[:, place.lower - 1 :: -1]
    fall = np.exp(-beta * np.arange(max(left.shape[1], right.shape[1])))
    best = np.full(len(values), (high - low) * math.exp(-min(FAINTEST, beta * place.size)))
    middle = padded[:, place.lower, None]
    for gaps in (right[:, 1:] - middle, right - left[:, :1], -left):
        best = np.maximum(best, (fall[: gaps.shape[1]] * gaps).max(axis=1, initial=0.0))
    if high > low:
        # Pairs with a larger p or q weigh too little to beat what was found already.
        within = math.floor(min(math.log((high - low) / best.min()) / beta, float(place.size))) + 1
        best = _of_pairs(right[:, :within], left[:, :within], fall, best)
    return best / place.parts


def _of_pairs(right: Array, left: Array, fall: Array, best: Array) -> Array:
    """The largest e^(-beta (p + q))(right_q - left_p) of every row, or `best` where that is more."""
    knots = np.unique(np.linspace(0, left.shape[1] - 1, KNOTS).round().astype(np.int64))
    at = left[:, knots]
    weighted = fall[: right.shape[1]] * right
    found, highest = np.empty(at.shape), np.empty(at.shape, dtype=np.int64)
    lines, rows = np.empty(right.shape), np.arange(len(right))
    for knot in range(len(knots)):
        np.multiply(fall[: right.shape[1]], -at[:, knot, None], out=lines)
        lines += weighted
        highest[:, knot] = lines.argmax(axis=1)
        found[:, knot] = lines[rows, highest[:, knot]]
    best = np.maximum(best, (fall[knots] * found).max(axis=1))
    for strip in range(len(knots) - 1):
        between = slice(knots[strip] + 1, knots[strip + 1])
        best = _of_strip(right, left[:, between], fall, fall[between], at, found, highest, strip, best)
    return best


def _of_strip(
    right: Array,
    inner: Array,
    fall: Array,
    faded: Array,
    at: Array,
    found: Array,
    highest: npt.NDArray[np.int64],
    strip: int,
    best: Array,
) -> Array:
    """The same for the ranks strictly between two knots, where chords say that they can matter."""
    width = at[:, strip] - at[:, strip + 1]
    slope = np.divide(found[:, strip + 1] - found[:, strip], width, out=np.zeros(len(width)), where=width > 0.0)
    # The chord falls with the distance from the lower knot; twice the rounding is added, so that nothing is lost.
    chords = faded * (found[:, strip, None] + slope[:, None] * (at[:, strip, None] - inner))
    rows, ranks = np.nonzero(chords * (1.0 + 1e-14) > best[:, None])
    if not len(rows):
        return best
    # As u falls, the highest line is an earlier one: only lines between those of the two knots can be highest here.
    first = np.minimum(highest[:, strip], highest[:, strip + 1])[rows]
    count = np.abs(highest[:, strip] - highest[:, strip + 1])[rows] + 1
    best = best.copy()
    for some in np.array_split(np.arange(len(rows)), 1 + int(count.sum()) // (4 * BLOCK)):
        many = count[some]
        starts = np.cumsum(many) - many
        line = np.arange(int(many.sum())) - np.repeat(starts - first[some], many)
        row, rank = np.repeat(rows[some], many), np.repeat(ranks[some], many)
        heights = faded[rank] * fall[line] * (right[row, line] - inner[row, rank])
        np.maximum.at(best, rows[some], np.maximum.reduceat(heights, starts))
    return best
