"""Inclusion probabilities proportional to size, with the largest units taken for certain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from .base import Array


def inclusion_probabilities(sizes: npt.ArrayLike, n: float) -> Array:
    """pi_i = n x_i / sum(x), after every unit for which that is 1 or more has been taken for certain, again and again.

    The certain units are the largest ones: with sizes in falling order, unit k (from 0) is certain when
    (n - k) x_k >= x_k + x_(k+1) + ..., and the first unit that is not ends the list. This is the same set as removing
    all units with n x / sum(x) >= 1 at once and repeating, because a removal never lowers what the others get.

    Holds when all sizes are positive and finite and n is between 1 and the number of units. The messages name the
    fact that is broken and no size, since sizes may come from rows.

    >>> inclusion_probabilities([1, 1, 2, 4], 2).tolist()
    [0.25, 0.25, 0.5, 1.0]
    >>> inclusion_probabilities([1, 3, 100, 1000], 3).tolist()
    [0.25, 0.75, 1.0, 1.0]
    """
    x = _sizes(sizes)
    wanted = _sample_size(n, x.size)
    if wanted == x.size:
        # Said outright, so that no rounded sum can leave a certain unit just below 1.
        return np.ones(x.size)
    order = np.argsort(-x, kind="stable")
    falling = x[order]
    remaining = np.cumsum(falling[::-1])[::-1]
    left = wanted - np.arange(x.size)
    chance = np.flatnonzero(left * falling < remaining)
    # There is such a unit: after n certain ones nothing is left to draw, and the others have positive sizes.
    certain = int(chance[0])
    result = np.ones(x.size)
    result[order[certain:]] = left[certain] * falling[certain:] / remaining[certain]
    if not result.min() > 0.0:
        raise _too_different()
    return result


def _sizes(sizes: npt.ArrayLike) -> Array:
    """Sizes as numbers whose largest is 1, so that no sum of them overflows."""
    try:
        x = np.array(sizes, dtype=np.float64)
    except (TypeError, ValueError):
        # The cause quotes the value it could not read; a size may come from rows.
        raise BadValue("a size is not a number", hint="sizes are positive numbers, one per unit") from None
    if x.ndim != 1:
        raise BadValue("sizes are a list of one number per unit", hint="sizes are positive numbers, one per unit")
    if not x.size:
        raise BadValue("there are no sizes", hint="give one size per unit of the frame")
    if not np.isfinite(x).all():
        raise BadValue("a size is missing or infinite", hint="every unit on the frame needs a size")
    if not (x > 0.0).all():
        raise BadValue(
            "a size is zero or negative",
            because="such a unit could never be drawn",
            hint="leave units without size off the frame, or give them a small size",
        )
    x /= x.max()
    if not x.min() > 0.0:
        raise _too_different()
    return x


def _too_different() -> BadValue:
    return BadValue(
        "the sizes differ too much",
        because="the smallest unit would have an inclusion probability that no number can hold",
        hint="raise the smallest sizes",
    )


def _sample_size(n: float, units: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int | float | np.integer | np.floating) or not float(n).is_integer() or n < 1:
        raise BadValue("the sample size must be a whole number of at least 1", given=f"n={n!r}")
    if n > units:
        raise BadValue("the sample is larger than the frame", given=f"n={n}", hint="draw at most every unit once")
    return int(n)
