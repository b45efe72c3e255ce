"""Order statistics and how far one record can move them: global, local and smooth sensitivity.

Neighbours replace one of n records, n and the bounds [low, high] are public, and every value is clipped to them. Ranks
outside 1..n stand for the bounds: y_i = low for i < 1 and y_i = high for i > n. Proofs: docs/proofs/medians.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import BadData, BadValue

Array = npt.NDArray[np.float64]

# Weights e^(-k beta) below e^-700 leave the range of floats; no term under them is followed.
FAINTEST = 700.0


@dataclass(frozen=True)
class Place:
    """Which order statistic of `size` values is asked for: one rank, or the average of two ranks in a row.

    >>> Place.median(5), Place.median(6)
    (Place(lower=3, upper=3, size=5), Place(lower=3, upper=4, size=6))
    """

    lower: int
    upper: int
    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.lower <= self.upper <= min(self.size, self.lower + 1):
            given = f"ranks {self.lower} and {self.upper} of {self.size}"
            raise BadValue("a place is one rank of 1..n, or two in a row", given=given)

    @classmethod
    def rank(cls, rank: int, size: int) -> Place:
        """The rank-th smallest of `size` values."""
        return cls(rank, rank, size)

    @classmethod
    def median(cls, size: int) -> Place:
        """The middle value, or the average of the two middle ones."""
        return cls((size + 1) // 2, size // 2 + 1, size)

    @property
    def parts(self) -> int:
        """How many order statistics are averaged: 1 or 2."""
        return self.upper - self.lower + 1


def global_sensitivity(place: Place, low: float, high: float) -> float:
    """The most that one record can move the statistic in any data: high - low, and half of it for an average of two.

    >>> global_sensitivity(Place.median(5), 0.0, 10.0), global_sensitivity(Place.median(6), 0.0, 10.0)
    (10.0, 5.0)
    """
    return (high - low) / place.parts


def window_ranks(place: Place, reach: int) -> tuple[int, int]:
    """The first and last rank of 1..n that a window of this reach holds.

    >>> window_ranks(Place.median(101), 20), window_ranks(Place.rank(3, 101), 20)
    ((31, 71), (1, 23))
    """
    if reach < 1:
        raise BadValue("a window reaches at least one rank to either side", given=f"reach={reach}")
    return max(1, place.lower - reach), min(place.size, place.upper + reach)


def padded_window(present: npt.ArrayLike, place: Place, reach: int, low: float, high: float) -> Array:
    """The order statistics of ranks lower - reach .. upper + reach, the bounds in place of ranks that do not exist.

    `present` holds those of `window_ranks` in order, along its last axis; other axes are groups of equal size.

    >>> padded_window([2, 3, 7], Place.median(3), 3, 0, 10).tolist()
    [0.0, 0.0, 2.0, 3.0, 7.0, 10.0, 10.0]
    """
    first, last = window_ranks(place, reach)
    values = _ordered(present, last - first + 1, low, high)
    before = np.full((*values.shape[:-1], first - (place.lower - reach)), float(low))
    after = np.full((*values.shape[:-1], place.upper + reach - last), float(high))
    return np.concatenate([before, values, after], axis=-1)


def value_at(window: Array, place: Place) -> Array:
    """The statistic itself, from a window around it.

    >>> float(value_at(np.array([0.0, 2.0, 3.0, 10.0]), Place.median(2)))
    2.5
    """
    reach = _reach(window, place)
    return np.asarray(window[..., reach : reach + place.parts].mean(axis=-1))


def local_sensitivities(window: Array, place: Place) -> Array:
    """A^(0), ..., A^(reach-1): the most that one record can move the statistic after k others were changed.

    For one rank r, A^(k) = max over i = r-1-k..r of y_(i+k+1) - y_i. For the average of ranks h and h+1,
    A^(k) = 1/2 max over i = h-1-k..h of y_(i+k+2) - y_i. k = 0 is the local sensitivity. The last axis is k.

    >>> local_sensitivities(padded_window([2, 3, 7], Place.median(3), 3, 0, 10), Place.median(3)).tolist()
    [4.0, 7.0, 8.0]
    """
    reach = _reach(window, place)
    found = np.empty((*window.shape[:-1], reach))
    for distance in range(reach):
        gap = distance + place.parts
        left = window[..., reach - 1 - distance : reach + 1]
        right = window[..., reach - 1 - distance + gap : reach + 1 + gap]
        found[..., distance] = (right - left).max(axis=-1)
    return found / place.parts


def windowed_smooth_sensitivity(window: Array, place: Place, beta: float, span: float) -> Array:
    """A beta-smooth bound on the local sensitivity from a window alone; `span` is high - low.

    S' = max( max over k < reach of e^(-k beta) A^(k), e^(-reach beta) span/parts ). It is smooth: A^(k) of one data set
    is at most A^(k+1) of a neighbour, and the last A^(k) of the window is at most span/parts, so each term of S' is at
    most e^beta times a term of the neighbour's S'. S' is at least S and at most max(S, e^(-reach beta) span/parts).

    >>> window = padded_window([2, 3, 7], Place.median(3), 1, 0, 10)
    >>> round(float(windowed_smooth_sensitivity(window, Place.median(3), 0.5, 10.0)), 6)
    6.065307
    """
    reach = _reach(window, place)
    weights = np.exp(-_checked(beta) * np.arange(reach))
    rest = span / place.parts * math.exp(-beta * reach)
    return np.asarray(np.maximum((weights * local_sensitivities(window, place)).max(axis=-1), rest))


def reach_for_floor(place: Place, beta: float, span: float, floor: float) -> int:
    """The least reach at which what a window cannot see, e^(-reach beta) span/parts, is at most a public floor.

    >>> reach_for_floor(Place.median(10001), beta=0.08367, span=2000.0, floor=0.01)
    146
    """
    if not (0.0 < floor < math.inf and 0.0 <= span < math.inf):
        raise BadValue("a floor must be positive and the range finite", given=f"floor={floor}, range={span}")
    whole = span / place.parts
    reach = max(1, math.ceil(math.log(whole / floor) / _checked(beta))) if whole > floor else 1
    return reach if whole * math.exp(-reach * beta) <= floor else reach + 1


def smooth_sensitivity(ordered: npt.ArrayLike, place: Place, beta: float, low: float, high: float) -> float:
    """S = max over k of e^(-k beta) A^(k) in time proportional to n after sorting, by an upper envelope of lines.

    S is the largest e^(-beta k)(y_j - y_i)/parts over i <= lower, j >= upper, k = j - i - parts >= 0. With i = lower-1-p
    and j = upper+q this is e^(-beta p) times the line e^(-beta q)(y_j - u) at u = y_i: slopes rise with q, u falls with p.
    The pairs with i = lower are looked at one by one.

    >>> round(smooth_sensitivity([2, 3, 7], Place.median(3), 0.5, 0, 10), 6)
    4.245715
    """
    padded = _whole(ordered, place, low, high)
    # Measured from the place itself, so that gaps keep their digits however far from 0 the values lie.
    right = padded[place.upper :] - padded[place.upper]
    left = padded[place.lower - 1 :: -1] - padded[place.upper]
    middle = padded[place.lower] - padded[place.upper]
    fall = np.exp(-_checked(beta) * np.arange(max(len(left), len(right))))
    best = place.parts * _least(place, beta, low, high)
    for gaps in (right[1:] - middle, right - left[0], -left):
        best = max(best, float((fall[: len(gaps)] * gaps).max()))
    if best > 0.0 and high > low:
        # Pairs with a larger p or q weigh too little to beat what was found already.
        within = math.floor(min(math.log((high - low) / best) / beta, float(place.size))) + 1
        rises = _envelope(fall[:within], right[:within], float(left[0]))
        starts, lines = np.array([start for start, _ in rises]), np.array([line for _, line in rises])
        chosen = lines[np.searchsorted(starts, left[:within], side="right") - 1]
        highest = fall[: len(chosen)] * fall[chosen] * (right[chosen] - left[:within])
        best = max(best, float(highest.max()))
    return best / place.parts


def _envelope(steepness: Array, zeros: Array, furthest: float) -> list[tuple[float, int]]:
    """The lines steepness (zero - u) that are highest somewhere on u <= furthest, each with the u from which it is."""
    envelope = [(-math.inf, 0)]
    heights = (steepness[: len(zeros)] * zeros).tolist()
    slopes = steepness[: len(zeros)].tolist()
    for line in range(1, len(heights)):
        while envelope:
            start, top = envelope[-1]
            # Equal slopes are a beta too small to tell apart; the later line is then nowhere lower.
            fall = slopes[top] - slopes[line]
            crossing = (heights[top] - heights[line]) / fall if fall > 0.0 else -math.inf
            if crossing > start:
                break
            envelope.pop()
        else:
            crossing = -math.inf
        if crossing <= furthest:
            envelope.append((crossing, line))
    return envelope


def _least(place: Place, beta: float, low: float, high: float) -> float:
    """The pair of the two bounds counts at least this much; beyond e^-700 it stands for all that is not followed."""
    return global_sensitivity(place, low, high) * math.exp(-min(FAINTEST, beta * place.size))


def _whole(ordered: npt.ArrayLike, place: Place, low: float, high: float) -> Array:
    values = _ordered(ordered, place.size, low, high)
    if values.ndim != 1:
        raise BadValue("one sorted list of values is needed")
    return np.concatenate([[low], values, [high]])


def _ordered(present: npt.ArrayLike, count: int, low: float, high: float) -> Array:
    if not -math.inf < low <= high < math.inf:
        raise BadValue("bounds must be finite, the lower one first", given=f"low={low}, high={high}")
    values = np.asarray(present, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] != count:
        raise BadData("there are not as many order statistics as the public size asks for")
    if not (np.all((values >= low) & (values <= high)) and np.all(np.diff(values, axis=-1) >= 0.0)):
        raise BadData("order statistics must be sorted and within the public bounds")
    return values


def _reach(window: Array, place: Place) -> int:
    reach, odd = divmod(int(window.shape[-1]) - place.parts, 2)
    if odd or reach < 1:
        raise BadValue("a window reaches equally far to both sides of its place")
    return reach


def _checked(beta: float) -> float:
    if not 0.0 < beta < math.inf:
        raise BadValue("beta must be positive and finite", given=f"beta={beta}")
    return beta
