"""Totals, means and ratios, each with the values whose expanded total has its variance (Taylor linearisation).

    total  sum w y         z = w y
    mean   sum w y/sum w   z = w (y - mean)/sum w
    ratio  sum w y/sum w x z = w (y - ratio x)/sum w x

Rows outside a domain get z = 0 and stay in the design. Särndal, Swensson and Wretman 1992, 5.5 and 5.8.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import BadData
from .columns import Array, Mask


def total(weights: Array, y: Array, rows: Mask) -> tuple[float, Array]:
    """The weighted total over the rows of a domain, and its linearised values.

    >>> estimate, z = total(np.array([2.0, 3.0]), np.array([1.0, 4.0]), np.array([True, False]))
    >>> estimate, z.tolist()
    (2.0, [2.0, 0.0])
    """
    z = np.where(rows, weights * y, 0.0)
    return float(z.sum()), z


def mean(weights: Array, y: Array, rows: Mask) -> tuple[float, Array]:
    """The weighted mean over the rows of a domain, and its linearised values.

    >>> estimate, z = mean(np.array([1.0, 3.0]), np.array([1.0, 5.0]), np.array([True, True]))
    >>> estimate, z.tolist()
    (4.0, [-0.75, 0.75])
    """
    return ratio(weights, y, None, rows)


def ratio(weights: Array, y: Array, x: Array | None, rows: Mask) -> tuple[float, Array]:
    """The ratio of two weighted totals over the rows of a domain, and its linearised values; x = 1 when it is None.

    >>> ratio(np.array([1.0, 3.0]), np.array([1.0, 5.0]), np.array([2.0, 2.0]), np.array([True, True]))[0]
    2.0
    """
    inside = np.where(rows, weights, 0.0)
    below = float(inside.sum() if x is None else np.sum(inside * np.where(rows, x, 0.0)))
    if below == 0.0:
        raise BadData("the denominator of a ratio is zero")
    clean = np.where(rows, y, 0.0)
    found = float(np.sum(inside * clean)) / below
    residual = clean - (found if x is None else found * np.where(rows, x, 0.0))
    return found, inside * residual / below


def design_effects(variance: float, weights: Array, y: Array, rows: Mask, *, of_total: bool) -> tuple[float, float]:
    """The variance over that of a simple random sample of as many rows: (without, with) replacement.

    With S^2 = n/(n-1) sum w (y - mean)^2/sum w and N = sum w, a simple random sample has the variance S^2/n for a mean and
    N^2 S^2/n for a total, times 1 - n/N without replacement. N is the sum of the weights, so weights that were
    rescaled have no effect without replacement: NaN where N < n.

    >>> w, y, all_rows = np.full(4, 2.0), np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4, bool)
    >>> [round(effect, 9) for effect in design_effects(5.0 / 24.0, w, y, all_rows, of_total=False)]
    [1.0, 0.5]
    """
    n = int(rows.sum())
    inside = weights[rows]
    size = float(inside.sum())
    if n < 2 or not variance >= 0.0:
        return math.nan, math.nan
    centred = y[rows] - float(np.sum(inside * y[rows])) / size
    simple = n / (n - 1.0) * float(np.sum(inside * centred**2)) / size / n * (size**2 if of_total else 1.0)
    finite = simple * (1.0 - n / size)
    return (variance / finite if finite > 0.0 else math.nan), (variance / simple if simple > 0.0 else math.nan)
