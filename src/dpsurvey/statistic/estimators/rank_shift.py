"""Intervals for quantiles from two runs of the exponential mechanism, each at a rank moved outward. Pure.

A run picks a value t of a public grid with probability proportional to exp(epsilon_run score(t)/(2 sensitivity)).
The ranks are moved so far that each end is on the wrong side of the quantile with probability 2.5 % at most, sampling
and mechanism together. For equal weights this is a proof without approximation: docs/proofs/quantiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...errors import BadValue
from ...text.layout import ceiling_text
from .interval import Array

TAIL = 0.025
# Hoeffding: a hypergeometric count is further than 4 sqrt(n) from its mean with probability below 2 exp(-32).
WINDOW, OUTSIDE = 4.0, 2.6e-14


def shifted_ranks(n: int, size: int, q: float, epsilon_run: float, candidates: int) -> tuple[int | None, int | None]:
    """The ranks for the lower and the upper end, of a simple random sample of n from `size`; None: the public bound.

    The largest k with E min(1, (G-1) exp(-(epsilon_run/2)(M - k + 1))) <= 2.5 %, M ~ Hypergeometric(size, K, n), and the
    smallest k with E min(1, (G-1) exp(-(epsilon_run/2)(k - M'))) <= 2.5 %, M' ~ Hypergeometric(size, K - 1, n); K = ceil(q size).

    >>> shifted_ranks(1000, 100_000, 0.5, 0.5, 256)
    (442, 559)
    >>> shifted_ranks(20, 1000, 0.5, 0.5, 256)
    (None, None)
    """
    _check(q, epsilon_run, candidates)
    if not 1 <= n <= size:
        raise BadValue("a sample has between one unit and the whole population", given=f"n={n}, size={size}")
    # q times the size may land a hair above a whole number that it should equal.
    rank = max(1, math.ceil(q * size - 1e-12 * size))
    low_counts, low_chances = _hypergeometric(size, rank, n)
    high_counts, high_chances = _hypergeometric(size, rank - 1, n)

    def miss(chances: Array, gap: Array) -> float:
        bound = np.exp(np.minimum(0.0, math.log(candidates - 1) - 0.5 * epsilon_run * gap))
        # Not a matrix product: its threads would spin on a busy machine for a sum this small.
        return float(np.sum(chances * bound)) + OUTSIDE

    low = _largest(n, lambda k: miss(low_chances, low_counts - k + 1.0) <= TAIL)
    # Counted from the top the upper end is the same search.
    high = _largest(n, lambda k: miss(high_chances, n + 1.0 - k - high_counts) <= TAIL)
    return low, None if high is None else n + 1 - high


def shifted_weights(
    total_weight: float, q: float, variance: float, epsilon_run: float, sensitivity: float, candidates: int
) -> tuple[float | None, float | None]:
    """The sums of weights for the lower and the upper end, q W - D and q W + D; None: the public bound.

    D solves E min(1, (G-1) exp(-(epsilon_run/(2 sensitivity))(D + sqrt(variance) Z))) = 2.5 %, Z standard normal;
    `variance` is that of the sum of w(1{x <= t} - q) at the quantile. Where D is more than q W, or (1-q) W, no value
    has score 0 and the bound on the mechanism fails, so that end is public. Where W is random take a `total_weight`
    that it will not fall below.

    >>> low, high = shifted_weights(1000.0, 0.5, 225.0, 0.5, 1.0, 256)
    >>> round(low, 1), round(high, 1)
    (443.2, 556.8)
    >>> shifted_weights(1000.0, 0.01, 225.0, 0.5, 1.0, 256)[0] is None
    True
    """
    _check(q, epsilon_run, candidates)
    if min(total_weight, sensitivity) <= 0.0 or variance < 0.0:
        raise BadValue("weights are positive and a variance is not negative")
    shift = _normal_shift(math.sqrt(variance), epsilon_run / (2.0 * sensitivity), candidates)
    low, high = q * total_weight - shift, q * total_weight + shift
    return (low if low >= 0.0 else None), (high if high <= total_weight else None)


def interval_of_ends(
    low: float | None, high: float | None, bounds: tuple[float, float], step: float = 0.0
) -> tuple[float, float, bool, bool]:
    """The interval from the two values that were picked, and for each end whether it is the public bound.

    `step` is the grid's for continuous variables, which were rounded to it: half of it is added to both ends. Two runs
    that crossed are put in order.

    >>> interval_of_ends(10.0, 20.0, (0.0, 100.0), step=1.0)
    (9.5, 20.5, False, False)
    >>> interval_of_ends(None, 20.0, (0.0, 100.0))
    (0.0, 20.0, True, False)
    """
    first, last = (bounds[0] if low is None else low), (bounds[1] if high is None else high)
    first, last = min(first, last), max(first, last)
    first, last = max(bounds[0], first - 0.5 * step), min(bounds[1], last + 0.5 * step)
    return first, last, first <= bounds[0], last >= bounds[1]


def _normal_shift(spread: float, rate: float, candidates: int) -> float:
    """The least D with E min(1, (G-1) exp(-rate (D + spread Z))) <= 2.5 %, by bisection.

    With z = (log(G-1)/rate - D)/spread the mean is Phi(z) + (G-1) exp(-rate D + (rate spread)^2/2) Phi(-z - rate spread).
    """
    from scipy.special import log_ndtr, ndtr

    reach = math.log(candidates - 1) / rate
    if spread < 1e-9 * max(reach, 1.0 / rate):
        return reach - math.log(TAIL) / rate

    def miss(shift: float) -> float:
        z = (reach - shift) / spread
        beyond = rate * (reach - shift) + 0.5 * (rate * spread) ** 2 + float(log_ndtr(-z - rate * spread))
        return float(ndtr(z)) + math.exp(min(beyond, 0.0))

    low, high = 0.0, reach - math.log(TAIL) / rate + 10.0 * spread + 0.5 * rate * spread**2
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if miss(middle) <= TAIL else (middle, high)
    return high


def _hypergeometric(size: int, marked: int, n: int) -> tuple[Array, Array]:
    """Counts of marked units among n drawn from `size`, all but 2e-14 of the law, and their chances."""
    middle, reach = n * marked / size, WINDOW * math.sqrt(n)
    first = max(0, n + marked - size, math.floor(middle - reach))
    last = min(n, marked, math.ceil(middle + reach))
    m = np.arange(first, last + 1, dtype=np.float64)
    step = np.log((marked - m[:-1]) * (n - m[:-1])) - np.log((m[1:]) * (size - marked - n + m[1:]))
    logs = np.concatenate([[0.0], np.cumsum(step)])
    chances = np.exp(logs - logs.max())
    return m, chances / chances.sum()


def _largest(top: int, holds: Callable[[int], bool]) -> int | None:
    """The largest k in 1..top for which a condition holds that fails from some k on."""
    low, high = 0, top + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low or None


def _check(q: float, epsilon_run: float, candidates: int) -> None:
    if not (0.0 < q < 1.0 and epsilon_run > 0.0 and candidates >= 2):
        raise BadValue(
            "shifted ranks need 0 < q < 1, a positive epsilon and a grid of two values or more",
            given=f"q={q:g}, epsilon_run={ceiling_text(epsilon_run)}, candidates={candidates}",
        )
