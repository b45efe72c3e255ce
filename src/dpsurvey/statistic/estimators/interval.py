"""Intervals from noisy sums: truncated variances, critical values, skew allowance, test inversion.

Everything here is post-processing of noisy sums and public figures, works on arrays, and looks at no rows.
Estimators and coverage: docs/proofs/estimation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Z = 1.959963984540054
# An end is found to 2^-52 of the range.
BISECTIONS = 52
# Below this many numbers a step costs the same however many points it tries.
FEW = 500


def truncated(value: Array, noise_sd: Array | float, cap: Array | float = np.inf) -> Array:
    """The posterior mean of a non-negative quantity seen with Gaussian error: value + sd phi(x)/Phi(x), x = value/sd.

    A variance from noisy sums may come out negative; a floor at 0 undercovers, this does not.

    >>> float(truncated(np.array(-1.0), 1.0).round(4))
    0.5251
    """
    from scipy.special import log_ndtr

    sd = np.maximum(noise_sd, 1e-300)
    ratio = np.clip(value / sd, -1e8, 1e8)
    log_density = -0.5 * ratio**2 - 0.5 * np.log(2.0 * np.pi)
    # Far below zero phi/Phi is -x + 1/x - ..., whose difference from x would be lost to rounding.
    correction = np.where(
        ratio < -1e4, -ratio - 1.0 / np.minimum(ratio, -1.0), np.exp(log_density - log_ndtr(np.maximum(ratio, -1e4)))
    )
    return np.asarray(np.minimum(np.maximum(value + sd * correction, 0.0), cap))


def student(df: Array | float) -> Array:
    """Student's t at 97.5 %."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(np.maximum(df, 1.0), 0.975))


def critical(t: Array | float, kurtosis: Array | float) -> Array:
    """A critical value plus (z^3 - 3z)/24 times the excess kurtosis that the noise brings."""
    return np.asarray(t + (Z**3 - 3.0 * Z) / 24.0 * kurtosis)


def skew_allowance(spread: Array, near: Array, n: Array, sampling_share: Array) -> Array:
    """How many standard errors to add at the end away from the nearer bound, for the skewness of bounded data.

    (2z^2 + 1)/6 * g/sqrt(n) * share^1.5 with g = min(2 s/near, ((1-near) - s^2/(1-near))/s): the skewness of a
    gamma law with that mean and spread, and never more than the largest skewness possible on [0, 1].
    """
    gamma = skewness(spread, near)
    return np.asarray((2.0 * Z**2 + 1.0) / 6.0 * gamma / np.sqrt(np.maximum(n, 1.0)) * sampling_share**1.5)


def skewness(spread: Array, near: Array) -> Array:
    """The skewness of a gamma law with this standard deviation and mean, at most the largest one possible on [0, 1].

    >>> float(skewness(np.array(0.1), np.array(0.05)))
    4.0
    """
    near = np.clip(near, 1e-9, 0.5)
    spread = np.maximum(spread, 1e-12)
    return np.asarray(np.minimum(2.0 * spread / near, np.maximum((1.0 - near) - spread**2 / (1.0 - near), 0.0) / spread))


def accepted_hull(
    accepts: Callable[[Array], npt.NDArray[np.bool_]],
    point: Array,
    low: Array | float,
    high: Array | float,
    intervals: bool = True,
) -> tuple[Array, Array]:
    """The ends of the accepted values around a point, by sections outward; a public bound where nothing is rejected.

    Without `intervals` nobody looks at them, and the whole range stands in: they take most of the time.
    """
    if not intervals:
        return np.broadcast_to(low, point.shape), np.broadcast_to(high, point.shape)
    # Where even the point is rejected nothing is accepted: then the data say nothing, and the whole range is given.
    sound = accepts(point)
    # Both ends at once, on a first axis.
    bounds = np.stack([np.broadcast_to(np.asarray(bound, dtype=np.float64), point.shape) for bound in (low, high)])
    inner, outer = np.stack([point, point]), bounds.copy()
    whole = accepts(bounds)
    # Few numbers are divided into sixteen at a time: each step then takes as long, and four times fewer are needed.
    cuts = 15 if point.size < FEW else 1
    parts = (np.arange(1, cuts + 1) / (cuts + 1.0)).reshape((-1,) + (1,) * inner.ndim)
    for _ in range(math.ceil(BISECTIONS / math.log2(cuts + 1.0))):
        reach = outer - inner
        inside = np.logical_and.accumulate(accepts(inner + parts * reach), axis=0).sum(axis=0)
        inner, outer = (
            inner + inside / (cuts + 1.0) * reach,
            np.where(inside == cuts, outer, inner + (inside + 1.0) / (cuts + 1.0) * reach),
        )
    found = np.where(whole | ~sound, bounds, outer)
    return found[0], found[1]
