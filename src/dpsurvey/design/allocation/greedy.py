"""Units in the order of what they save: the greedy allocation of a total or a budget, without one step for each unit.

The saving of a further unit falls from unit to unit in every stratum. So the units that save at least a level are the first
ones of each stratum, and the level that uses up the limit is found by bisection; only units around it are sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from .takes import Array, Takes, written

Money = npt.NDArray[Any]


class Purse(NamedTuple):
    """The price of a unit by stratum and what may be spent, as whole numbers of one small coin; for a total each unit is 1."""

    prices: Money
    limit: int

    def spent(self, takes: Takes) -> int:
        """The price of the units."""
        return int(self.prices @ takes)


class Savings(NamedTuple):
    """What a further unit saves. `saved(h, n)`: unit n + 1 of strata h; `reach(level, price, low, high)`: how many save that."""

    saved: Callable[[Takes, Takes], Array]
    reach: Callable[[float, Array, Takes, Takes], Takes]


class Filled(NamedTuple):
    """Takes, and the saving per price of the first unit that was left out; 0 where none was."""

    takes: Takes
    level: float


def purse(costs: Iterable[float], budget: float, sizes: Takes) -> Purse:
    """Money in the smallest decimal place that was written.

    >>> held = purse([0.1, 2.5], 30, np.array([10, 10]))
    >>> held.prices.tolist(), held.limit
    ([1, 25], 300)
    """
    figures = [*written(costs), *written([budget])]
    places = min(int(each.as_tuple().exponent) for each in figures)
    coins = [int(each.scaleb(-places)) if places < 0 else int(each) for each in figures]
    if max(coins) > 10**200:
        raise BadValue(
            "costs and budget are too far apart to be counted in one coin", hint="give costs in a fitting unit of money"
        )
    whole = sum(price * int(size) for price, size in zip(coins, sizes, strict=False))
    kind: Any = np.int64 if max(whole, coins[-1]) < 2**62 else object
    return Purse(np.array(coins[:-1], dtype=kind), coins[-1])


def by_bisection(saved: Callable[[Takes, Takes], Array]) -> Callable[[float, Array, Takes, Takes], Takes]:
    """The `reach` of savings without a closed form."""

    def reach(level: float, price: Array, low: Takes, high: Takes) -> Takes:
        low, high = low.copy(), high.copy()
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_] + 1) // 2
            enough = saved(open_, middle - 1) >= level * price[open_]
            low[open_] = np.where(enough, middle, low[open_])
            high[open_] = np.where(enough, high[open_], middle - 1)
        return low

    return reach


def fill(savings: Savings, held: Purse, lower: Takes, upper: Takes, levels: tuple[float, float] | None = None) -> Filled:
    """The units that save most for their price, until the next one does not fit; of equals the first listed.

    `levels` is a guess of two levels around the answer. What it leaves is optimal for the money that it spent.
    """
    price, every = held.prices.astype(np.float64), np.arange(len(lower))
    first = savings.saved(every, lower) / price
    most = np.where(first > 0.0, upper, lower)
    if held.spent(most) <= held.limit:
        return Filled(most, 0.0)
    low, high = lower, most
    top, bottom = 2.0 * float(first.max()), 0.0
    for guess in levels or ():
        if 0.0 < guess < top:
            takes = savings.reach(guess, price, low, high)
            if held.spent(takes) <= held.limit:
                low, top = takes, guess
            else:
                high, bottom = takes, max(guess, bottom)
    if bottom == 0.0:
        more = np.flatnonzero(high > low)
        last = savings.saved(more, high[more] - 1) / price[more]
        bottom = max(0.5 * float(last.min()), 1e-300)
    while int((high - low).sum()) > 2048 + len(lower) // 8 and bottom < (middle := float(np.sqrt(bottom) * np.sqrt(top))) < top:
        takes = savings.reach(middle, price, low, high)
        if held.spent(takes) <= held.limit:
            low, top = takes, middle
        else:
            high, bottom = takes, middle
    return _sorted_rest(savings, held, low, high)


def _sorted_rest(savings: Savings, held: Purse, low: Takes, high: Takes) -> Filled:
    """From `low`, which fits, towards `high`, which does not, unit by unit."""
    which = np.repeat(np.arange(len(low)), high - low)
    starts = np.repeat(np.cumsum(high - low) - (high - low), high - low)
    rate = savings.saved(which, low[which] + np.arange(len(which)) - starts) / held.prices[which].astype(np.float64)
    order = np.lexsort((which, -rate))
    left = held.limit - held.spent(low)
    fits = int(np.searchsorted(np.cumsum(held.prices[which[order]]), left, side="right"))
    takes = low + np.bincount(which[order[:fits]], minlength=len(low))
    return Filled(takes, float(rate[order[fits]]))


def fill_up(savings: Savings, held: Purse, takes: Takes, upper: Takes) -> Takes:
    """What still fits after `fill`, in the same order: units of strata that are cheap enough for what is left."""
    while True:
        left = held.limit - held.spent(takes)
        open_ = np.where(held.prices <= left, upper, takes)
        if not (open_ > takes).any():
            return takes
        more = fill(savings, held, takes, open_).takes
        if (more == takes).all():
            return takes
        takes = more
