"""How many units each stratum gets: shares within bounds, and whole numbers that keep a total, a budget or a precision.

Every rule is n_h = K x_h, held between a minimum and the stratum size; one level K for all strata. With
x_h = N_h S_h/sqrt(c_h) this minimises the variance of the mean for a cost, or the cost for a variance (Neyman 1934;
Cochran 1977, 5.5 and 5.8), and the bounds keep it optimal: variance and cost are convex and separate by stratum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from ...errors import BadValue

Array = npt.NDArray[np.float64]
Takes = npt.NDArray[np.int64]


def neyman(sizes: Sequence[float], deviations: Sequence[float], total: float) -> list[float]:
    """Neyman's allocation N_h s_h / sum N s, before rounding; the figures must be public or noisy.

    >>> [round(share, 4) for share in neyman([100, 200, 300], [1, 2, 4], 60)]
    [3.5294, 14.1176, 42.3529]
    """
    products = [size * deviation for size, deviation in zip(sizes, deviations, strict=True)]
    if min(products, default=0.0) < 0.0 or not sum(products) > 0.0:
        raise BadValue("sizes and standard deviations must not be negative, and one product must be above 0")
    return [total * product / sum(products) for product in products]


def strata_array(figures: Mapping[str, float] | Mapping[str, int]) -> Array:
    """Figures by stratum as an array."""
    return np.array(list(figures.values()), dtype=np.float64)


def strata_takes(takes: Mapping[str, int]) -> Takes:
    """Units by stratum as an array."""
    return np.array(list(takes.values()), dtype=np.int64)


def stratified_se(sizes: Array, deviations: Array, takes: Array | Takes) -> float:
    """The standard error of the mean, sqrt(sum W_h^2 S_h^2 (1/n_h - 1/N_h)), simple random samples in strata.

    >>> round(stratified_se(np.array([100.0, 100.0]), np.array([2.0, 4.0]), np.array([10, 20])), 6)
    0.5
    """
    largest = max(float(deviations.max()), 1e-300)
    thinned = (sizes - takes) / (sizes * takes)
    return float(largest * np.sqrt(np.sum((sizes / sizes.sum() * (deviations / largest)) ** 2 * thinned)))


def written(figures: Iterable[float]) -> list[Decimal]:
    """Money in the decimal figures that were written, so that three units at 0.1 cost 0.3."""
    return [Decimal(repr(float(each))) for each in figures]


def spent(prices: list[Decimal], takes: Takes) -> Decimal:
    """The cost of the units.

    >>> spent(written([0.1, 2.0]), np.array([3, 1]))
    Decimal('2.3')
    """
    return sum((price * n for price, n in zip(prices, takes.tolist(), strict=True)), Decimal(0))


def shares_of_total(sizes: Array, factors: Array, costs: Array, lower: Array, upper: Array, total: float) -> Array:
    """n_h = K N_h factor_h/c_h within the bounds, with sum c_h n_h = total; at most the bounds allow.

    What strata with a positive factor cannot hold goes to the others in proportion to their sizes.
    """
    direction = sizes * factors / costs
    wanted = direction > 0.0
    if not wanted.all() and costs[wanted] @ upper[wanted] + costs[~wanted] @ lower[~wanted] < total:
        exact = upper.copy()
        rest = total - float(costs[wanted] @ upper[wanted])
        own, price, bounds = sizes[~wanted], costs[~wanted], (lower[~wanted], upper[~wanted])
        exact[~wanted] = shares_of_total(own, price, price, *bounds, rest)
        return exact
    if costs @ upper <= total:
        return upper.copy()
    exact, free = _held(direction, lower, upper, lambda takes: float(costs @ takes) >= total)
    left = total - float(costs[~free] @ exact[~free])
    if free.any():
        exact[free] = np.asarray(neyman(sizes[free].tolist(), factors[free].tolist(), left)) / costs[free]
    return np.clip(exact, lower, upper)


def shares_for_precision(sizes: Array, deviations: Array, costs: Array, lower: Array, upper: Array, se: float) -> Array:
    """The cheapest n_h within the bounds whose standard error of the mean is `se`, before rounding."""
    if stratified_se(sizes, deviations, lower) <= se:
        return lower.copy()
    largest = float(deviations.max())
    spread = sizes * (deviations / largest)
    direction = spread / np.sqrt(costs)
    exact, free = _held(direction, lower, upper, lambda takes: stratified_se(sizes, deviations, takes) <= se)
    if not free.any():
        return exact
    # K = sum_free spread sqrt(c) / (V - what the held strata contribute), V = (N se)^2 + sum N S^2.
    bound = (sizes.sum() * (se / largest)) ** 2 + float(spread[free] @ (spread[free] / sizes[free]))
    held = ~free
    bound -= float(np.sum(spread[held] ** 2 * (sizes[held] - exact[held]) / (sizes[held] * exact[held])))
    exact[free] = direction[free] * (float(spread[free] @ np.sqrt(costs[free])) / bound)
    return np.clip(exact, lower, upper)


def _held(direction: Array, lower: Array, upper: Array, reached: Callable[[Array], bool]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The strata at a bound, with their takes, and which are free, at the first level K where `reached` turns true.

    Between two neighbouring values of lower/x and upper/x the same strata are free; the pair around the answer is
    found by bisection, so that no level is approximated.
    """
    positive = direction > 0.0
    start = np.divide(lower, direction, out=np.full_like(lower, np.inf), where=positive)
    end = np.divide(upper, direction, out=np.full_like(upper, np.inf), where=positive)

    def takes(level: float) -> Array:
        return np.where(level >= end, upper, np.where(level <= start, lower, level * direction))

    marks = np.unique(np.concatenate([start[positive], end[positive]]))
    low, high = -1, len(marks) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(takes(float(marks[middle]))) else (middle, high)
    level = float(marks[low]) if low >= 0 else 0.0
    return takes(level), positive & (start <= level) & (level < end)


def whole_total(exact: Array, upper: Array, total: int) -> Takes:
    """Whole numbers with sum `total`: rounded down, then one more by largest remainder; of equals the first listed.

    >>> whole_total(np.array([2.5, 3.5, 4.0]), np.array([9.0, 9.0, 4.0]), 10).tolist()
    [3, 3, 4]
    """
    takes = np.floor(exact).astype(np.int64)
    # Remainders that differ by rounding error alone are equal.
    order = np.argsort(-np.round(exact - takes, 9), kind="stable")
    while (left := total - int(takes.sum())) > 0:
        takes[[index for index in order if takes[index] < upper[index]][:left]] += 1
    return takes


def whole_budget(spread: Array, costs: Array, lower: Takes, upper: Takes, budget: float) -> Takes:
    """Whole numbers within the budget: the units that lower the variance most for their cost, then what still fits."""
    prices, (limit,) = written(costs.tolist()), written([budget])
    takes, fits = lower.copy(), spread > 0.0
    while fits.any():
        least, most = _around(spread, costs, takes, np.where(fits, upper, takes), lambda each: spent(prices, each) > limit)
        takes, left = least, limit - spent(prices, least)
        for index in _by_gain(spread, costs, least, most):
            if prices[index] <= left:
                takes[index] += 1
                left -= prices[index]
        # What did not fit stays out, so every round has fewer strata to add to.
        fits &= (takes < upper) & np.array([price <= left for price in prices])
    return takes


def whole_precision(spread: Array, costs: Array, lower: Takes, upper: Takes, met: Callable[[Takes], bool]) -> Takes:
    """The fewest units that meet a precision; with unequal costs, at most one unit above the least cost.

    Units are added in the order of variance saved per cost: for equal costs every step is the best allocation of its
    size, since the savings S^2/(n(n-1)) of a stratum only fall.
    """
    if met(lower):
        return lower.copy()
    takes, most = _around(spread, costs, lower, upper, met)
    for index in _by_gain(spread, costs, takes, most):
        if met(takes):
            break
        takes[index] += 1
    return takes


def _around(spread: Array, costs: Array, lower: Takes, upper: Takes, over: Callable[[Takes], bool]) -> tuple[Takes, Takes]:
    """The takes on both sides of the saving per cost at which `over` turns true; they differ by units of one saving."""
    gains = np.divide(spread, np.sqrt(costs))

    def takes(saving: float) -> Takes:
        # The largest n with gain^2/(n(n-1)) >= saving^2.
        reach = np.floor(0.5 + np.sqrt(0.25 + np.minimum(gains / saving, 1e15) ** 2))
        return np.clip(np.where(gains > 0.0, reach, 0.0), lower, upper).astype(np.int64)

    positive = gains[gains > 0.0]
    if not len(positive):
        return lower.copy(), lower.copy()
    high, low = 2.0 * float(positive.max()), float(positive.min()) / (2.0 * float(upper.max()) + 2.0)
    if not over(takes(low)):
        return takes(low), takes(low)
    while low < (middle := float(np.sqrt(low) * np.sqrt(high))) < high:
        low, high = (middle, high) if over(takes(middle)) else (low, middle)
    return takes(high), takes(low)


def _by_gain(spread: Array, costs: Array, takes: Takes, most: Takes) -> list[int]:
    """The units between two takes, those that save most per cost first; of equals the first listed."""
    units = [
        (-float(spread[h] ** 2 / costs[h]) / max(n * (n + 1), 0.5), h)
        for h in range(len(takes))
        for n in range(int(takes[h]), int(most[h]))
    ]
    return [index for _, index in sorted(units)]
