"""Weighted quantiles by named rules.

A rule says which value answers for q when the sorted values x_1 <= ... <= x_n carry the cumulated weights S_1, ..., S_n:

    math       the smallest x with S_k >= q S_n (hf1)
    school     as math, but the middle of x_k and x_{k+1} where S_k = q S_n exactly (hf2)
    shahvaish  the last x_k with (S_k n/S_n + 1/2 - w_k/2)/(n+1) <= q
    hf4 ... hf9  straight lines between the points (p_k, x_k), with the p_k of Hyndman and Fan 1996 (American Statistician
               50) for weights; with equal weights they are the same rules of other packages

A cumulated weight that meets q to within rounding meets it. For shahvaish R's survey takes w_k as it stands, not relative
to the mean weight, and so does this rule, for equal numbers: it means something only where weights average 1, and
elsewhere its interval need not hold its estimate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import BadValue
from .columns import Array

ROUNDING = 1e-12


def sorted_quantile(y: Array, weights: Array, q: float, rule: str) -> float:
    """The q-quantile of values that are sorted already.

    >>> sorted_quantile(np.array([1.0, 5.0]), np.array([1.0, 3.0]), 0.25, "school")
    3.0
    """
    if rule in ("math", "hf1", "school", "hf2"):
        return _step(y, np.cumsum(weights), q, halve=rule in ("school", "hf2"))
    if rule == "shahvaish":
        return _shah_vaish(y, weights, q)
    if rule not in PLACES:
        known = "math, school, shahvaish, " + ", ".join(PLACES)
        raise BadValue("the quantile rule is unknown", given=f"rule={rule!r}", hint="use one of " + known)
    if len(y) == 1:
        return float(y[0])
    return float(np.interp(q, PLACES[rule](np.cumsum(weights), weights), y))


def _step(y: Array, cumulated: Array, q: float, *, halve: bool) -> float:
    """The inverse of the weighted distribution function."""
    share = cumulated / cumulated[-1]
    k = int(np.searchsorted(share, q - ROUNDING))
    k = min(k, len(y) - 1)
    if halve and abs(share[k] - q) <= ROUNDING and k + 1 < len(y):
        return float(0.5 * (y[k] + y[k + 1]))
    return float(y[k])


def _shah_vaish(y: Array, weights: Array, q: float) -> float:
    n = len(y)
    if n == 1:
        return float(y[0])
    places = (np.cumsum(weights / weights.mean()) + 0.5 - 0.5 * weights) / (n + 1.0)
    # Unequal weights can put the places out of order; values follow their places, and share them by their mean.
    order = np.argsort(places, kind="stable")
    places = places[order]
    k = max(int(np.searchsorted(places, q + ROUNDING, side="right")) - 1, 0)
    return float(y[order[np.abs(places - places[k]) <= ROUNDING]].mean())


def _before(cumulated: Array) -> Array:
    """The cumulated weight before each value."""
    return np.concatenate(([0.0], cumulated[:-1]))


PLACES: dict[str, Callable[[Array, Array], Array]] = {
    "hf4": lambda s, w: s / s[-1],
    "hf5": lambda s, w: (s - 0.5 * w) / s[-1],
    "hf6": lambda s, w: s / (s[-1] + w[-1]),
    "hf7": lambda s, w: _before(s) / s[-2],
    "hf8": lambda s, w: (_before(s) / 3.0 + 2.0 * s / 3.0) / (s[-1] + w[-1] / 3.0),
    "hf9": lambda s, w: (3.0 * _before(s) / 8.0 + 5.0 * s / 8.0) / (s[-1] + w[-1] / 4.0),
}
