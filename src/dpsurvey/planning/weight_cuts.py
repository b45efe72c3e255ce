"""Where to cut the weights of a file: the cut with the smallest predicted half width of a mean, and what it cuts off."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..errors import BadValue
from ..statistic.estimators.interval import Z

# The cut and what it cuts off are rounded to as many digits: both become public.
DIGITS = 2


class Cut(NamedTuple):
    """A weight at which weights are cut, and the share of all weight that is cut off, at most; none where no cut pays."""

    trim: float | None
    trimmed: float | None


def best_cut(weights: Iterable[float], epsilon: float, mean: float = 0.5, deviation: float = 0.3) -> Cut:
    """The cut of the weights of a file that makes the interval of a mean shortest, by prediction.

    `epsilon` is what the mean may be charged; `mean` and `deviation`, on a range from 0 to 1, are guesses from a public source.
    About 3/epsilon records are cut, fewer where sampling says more than the noise. The weights are those of the file: what comes
    back is rounded, becomes public when it is declared as trim= and trimmed=, and is not protected where weights are held fixed.

    >>> best_cut([1.0] * 950 + [10.0] * 48 + [60.0, 90.0], 0.5)
    Cut(trim=10.0, trimmed=0.083)
    >>> best_cut([1.0] * 900 + [2.0] * 100, 0.5)
    Cut(trim=None, trimmed=None)
    """
    w = np.sort(np.asarray([float(each) for each in weights]))[::-1]
    if len(w) == 0 or not np.all(np.isfinite(w)) or w[-1] <= 0.0 or not 0.0 < epsilon < math.inf:
        raise BadValue("best_cut takes positive weights and an epsilon", hint="best_cut(weights, epsilon=0.5)")
    if not 0.0 <= mean <= 1.0 or not 0.0 <= deviation <= 0.5:
        raise BadValue("mean= and deviation= are on a range from 0 to 1", given=f"mean={mean!r}, deviation={deviation!r}")
    most = max(mean, 1.0 - mean)
    found = [(_half_width(w, float(w[0]), most, epsilon, deviation), float(w[0]))]
    # Beyond this many the bias alone is more than all of the noise that is left to save.
    for place in range(1, min(len(w), 2 + math.ceil(6.0 / (epsilon * most)))):
        found.append((_half_width(w, _rounded(float(w[place])), most, epsilon, deviation), _rounded(float(w[place]))))
    trim = min(found)[1]
    if trim >= w[0]:
        return Cut(None, None)
    return Cut(trim, _rounded(float(np.maximum(w - trim, 0.0).sum() / w.sum())))


def _half_width(
    w: np.ndarray[tuple[int], np.dtype[np.float64]], trim: float, most: float, epsilon: float, deviation: float
) -> float:
    """The predicted half width of a mean of cut weights, times the sum of all weights."""
    kept = np.minimum(w, trim)
    bias = most * float((w - kept).sum())
    return bias + Z * math.sqrt(deviation**2 * float((kept**2).sum()) + 2.0 * (trim / epsilon) ** 2)


def _rounded(value: float) -> float:
    """Up to a few digits.

    >>> _rounded(123.4), _rounded(0.0101)
    (130.0, 0.011)
    """
    if value <= 0.0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return float(f"{math.ceil(value / unit * (1.0 - 1e-12)) * unit:.{DIGITS}g}")
