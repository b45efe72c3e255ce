"""Sampling variances for quantiles: of sum u(1{x <= t} - q) over the sample where t is the quantile, u = w/w_max.

Woodruff's idea: at the quantile the share below is q by definition, so its variance needs no data. Where the variance
also depends on who is below, the worst case is taken; no budget is spent on it.
"""

from __future__ import annotations

import numpy as np

from ...errors import BadValue
from .fixed_size import FixedSizes, worst_variance
from .interval import Array, truncated


def fixed_size_variance(q: float, sizes: FixedSizes) -> float:
    """For simple random and stratified samples of public size: (N/w_max)^2 max V(q) over how strata share the q.

    With one stratum this is n q(1-q)(1-n/N) N/(N-1), the variance of a hypergeometric count.

    >>> one = FixedSizes(np.array([1.0]), np.array([100.0]), np.array([0.1]))
    >>> round(fixed_size_variance(0.5, one), 4)
    22.5225
    """
    return float(worst_variance(np.asarray(q), sizes)) * sampled_weight(sizes) ** 2


def sampled_weight(sizes: FixedSizes) -> float:
    """The public total of u over a sample of fixed size, N/w_max: the root of the tree.

    >>> sampled_weight(FixedSizes(np.array([0.5, 0.5]), np.array([10.0, 20.0]), np.array([0.1, 0.2])))
    20.0
    """
    return float(np.sum(sizes.takes / sizes.rates) * sizes.rates.min())


def poisson_variance(q: float, sizes: Array, probabilities: Array) -> float:
    """For Poisson samples with public probabilities pi, `sizes` units of each, around the ratio (Hajek) estimate.

    pi_min^2 [(1-q)^2 sum over those below of g + q^2 sum over those above of g], g = 1/pi - 1, with qN units below:
    those with the largest g where q < 1/2, with the smallest where q > 1/2. With one pi it is N pi (1-pi) q(1-q).

    >>> round(poisson_variance(0.3, np.array([1000.0]), np.array([0.1])), 9)
    18.9
    """
    sizes, probabilities = np.asarray(sizes, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    if np.any(probabilities <= 0) or np.any(probabilities > 1) or np.any(sizes < 0):
        raise BadValue("inclusion probabilities lie in (0, 1]", hint="leave units that cannot be drawn out of the frame")
    g = 1.0 / probabilities - 1.0
    order = np.argsort(-g if q < 0.5 else g)
    g, sizes = g[order], sizes[order]
    # Fill up the q N places below in that order; the last group may be divided.
    below = np.clip(q * sizes.sum() - (np.cumsum(sizes) - sizes), 0.0, sizes)
    worst = (1.0 - q) ** 2 * np.sum(g * below) + q**2 * np.sum(g * (sizes - below))
    return float(worst * probabilities.min() ** 2)


def random_size_variance(q: float, total: Array, total_noise_sd: Array | float, thinning: Array | float) -> Array:
    """For groups whose size is not public: total q(1-q)(1-pi), the noisy total of u truncated at 0.

    `thinning` is 1 minus the smallest inclusion probability; 1 is never too small. With weights this is an upper
    bound, because u <= 1 makes the sum of u^2 at most the sum of u.

    >>> float(random_size_variance(0.5, np.array(400.0), 1.0, 0.9))
    90.0
    """
    return np.asarray(truncated(np.asarray(total, dtype=np.float64), total_noise_sd) * q * (1.0 - q) * thinning)
