"""The allocation for one noisy mean: the search over its noise.

With t = 1/b the scale of the noise, stratum h needs the least n with u_h(n) >= W_h R_h t; above that the sampling variance is
separable and convex. The sampling variance of the best allocation never falls with t, the noise 2/t^2 does. The search halves
intervals of t and drops those whose lower bound is not below the best allocation found, up to a relative gap of 1e-9.
"""

from __future__ import annotations

import heapq
import itertools
from typing import NamedTuple

import numpy as np

from .greedy import Purse, Savings, fill, fill_up
from .private import GuaranteedStrata, best_for_strata, in_sample, sampling_variance, scaled, use_all, variance
from .takes import Array, Takes

GAP = 1e-9
# With unequal prices some money is left over, and no bound closes that gap: the search ends after so many intervals.
MOST_INTERVALS = 400
# Intervals with more steps than this have the plain bound alone.
MOST_STEPS = 200_000


class Point(NamedTuple):
    """A noise level t, what each stratum needs for it, and the saving per price at which the purse is empty."""

    t: float
    needs: Takes
    level: float
    sampling: float


class Search:
    """The best allocation for one noisy mean within a purse, from a minimum in each stratum."""

    def __init__(self, strata: GuaranteedStrata, held: Purse, lower: Takes) -> None:
        self.strata, self.held, self.lower = strata, held, lower
        self.upper: Takes = strata.sizes.astype(np.int64)
        self.steps: Array = strata.weights * strata.widths
        self.spread: Array = (strata.weights * strata.deviations) ** 2
        self.price: Array = held.prices.astype(np.float64)
        self.savings = Savings(self._saved, self._reach)
        self.equal = bool((held.prices == held.prices[0]).all())
        self.best, self.value = lower, np.inf

    def _saved(self, h: Takes, n: Takes) -> Array:
        return np.asarray(self.spread[h] / (n * (n + 1.0)))

    def _reach(self, level: float, price: Array, low: Takes, high: Takes) -> Takes:
        # The largest n with spread/(n(n-1)) >= level price.
        wanted = np.floor(0.5 + np.sqrt(0.25 + np.minimum(self.spread / (level * price), 1e30)))
        return np.asarray(np.clip(wanted, low, high).astype(np.int64))

    def served(self, takes: Takes, h: Takes | slice = slice(None)) -> Array:
        """The largest t that these takes allow, by stratum."""
        reached = takes * in_sample(self.strata.sizes[h], self.strata.epsilons[h], takes)
        return np.asarray(reached / self.steps[h])

    def needs(self, t: float, low: Takes, high: Takes) -> Takes:
        """The least units that allow t, between two takes of which the second does."""
        low, high = low.copy(), high.copy()
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_]) // 2
            enough = self.served(middle, open_) >= t
            high[open_] = np.where(enough, middle, high[open_])
            low[open_] = np.where(enough, low[open_], middle + 1)
        return low

    def look(self, t: float, needs: Takes, levels: tuple[float, float] | None = None) -> Point:
        """Allocate for one t, and keep the answer if it is the best so far."""
        filled = fill(self.savings, self.held, needs, self.upper, levels)
        takes = filled.takes if self.equal else fill_up(self.savings, self.held, filled.takes, self.upper)
        value = variance(self.strata, takes, "total")
        if value < self.value:
            self.best, self.value = takes, value
        return Point(t, needs, filled.level, sampling_variance(self.strata, filled.takes))

    def ends(self) -> tuple[float, float]:
        """The t that the minimum allows, and the largest that the purse does."""
        low = float(self.served(self.lower).min())
        high = float(self.served(self.upper).min())
        if self.held.spent(self.needs(high, self.lower, self.upper)) <= self.held.limit:
            return low, high
        least, most = self.lower, self.upper
        bottom = low
        while bottom < (middle := float(np.sqrt(bottom) * np.sqrt(high))) < high:
            takes = self.needs(middle, least, most)
            if self.held.spent(takes) <= self.held.limit:
                bottom, least = middle, takes
            else:
                high, most = middle, takes
        return low, bottom

    def bound(self, one: Point, two: Point, level: float) -> tuple[float, float | None]:
        """No allocation with t between two points has less variance than this; and the t where it may.

        A unit is charged `level` times its price, and what the purse holds is given back: the least sum over all takes
        bounds the variance from below. It only moves at the steps of t at which a stratum needs one unit more.
        """
        width = two.needs - one.needs
        count = int(width.sum())
        plain = (one.sampling if self.equal else 0.0) + 2.0 / two.t**2
        if count > MOST_STEPS or level <= 0.0:
            return plain, None
        takes = self._reach(level, self.price, one.needs, self.upper)
        start = sampling_variance(self.strata, takes) + level * float(self.held.spent(takes) - self.held.limit)
        which = np.repeat(np.arange(len(width)), width)
        n = one.needs[which] + np.arange(count) - np.repeat(np.cumsum(width) - width, width)
        at = self.served(n, which)
        order = np.argsort(at, kind="stable")
        extra = np.maximum(level * self.price[which] - self._saved(which, n), 0.0)[order]
        reached = np.append(at[order], two.t)
        values = start + np.concatenate([[0.0], np.cumsum(extra)]) + 2.0 / reached**2
        least = int(np.argmin(values))
        return max(plain, float(values[least])), float(reached[least])

    def run(self) -> Takes:
        """Halve intervals of t, the most promising first."""
        low, high = self.ends()
        first = self.look(low, self.needs(low, self.lower, self.upper))
        if not low < high:
            return self.best
        last = self.look(high, self.needs(high, self.lower, self.upper))
        number = itertools.count()
        intervals = [(self.bound(first, last, last.level)[0], next(number), first, last)]
        while intervals:
            bound, done, one, two = heapq.heappop(intervals)
            if bound >= self.value * (1.0 - GAP) or (not self.equal and done > MOST_INTERVALS):
                break
            middle = float(np.sqrt(one.t) * np.sqrt(two.t))
            # Where no stratum needs more, the right end has been looked at and is the best of the interval.
            if not one.t < middle < two.t or not (two.needs > one.needs).any():
                continue
            point = self.look(middle, self.needs(middle, one.needs, two.needs), (one.level, two.level))
            for left, right in ((one, point), (point, two)):
                bound, at = self.bound(left, right, point.level)
                if bound < self.value * (1.0 - GAP):
                    if at is not None and left.t < at < right.t:
                        self.look(at, self.needs(at, left.needs, right.needs), (left.level, right.level))
                    heapq.heappush(intervals, (bound, next(number), left, right))
        return self.best


def best_takes(strata: GuaranteedStrata, release: str, held: Purse, lower: Takes, whole: bool) -> Takes:
    """The allocation of least variance within the purse; `whole` says that all units must be used.

    For a total, or equal prices: exact for "strata", to a relative gap of 1e-9 for "total".

    >>> two = GuaranteedStrata(np.array([90.0, 10.0]), np.array([0.4, 0.2]), np.ones(2), np.full(2, 0.5))
    >>> held = Purse(np.ones(2, dtype=np.int64), 20)
    >>> [best_takes(two, release, held, np.ones(2, dtype=np.int64), True).tolist() for release in ("strata", "total")]
    [[17, 3], [18, 2]]
    """
    strata = scaled(strata)
    takes = best_for_strata(strata, held, lower) if release == "strata" else Search(strata, held, lower).run()
    return use_all(strata, held, takes) if whole else takes
