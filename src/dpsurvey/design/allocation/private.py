"""The allocation with the least variance, sampling and noise together, when every stratum has its guarantee.

n_h of N_h units, simple random samples in public strata. A record of stratum h loses at most epsilon_h on the frame if it loses
at most e_h(n) = log(1 + (e^epsilon_h - 1) N_h/n) on the sample. Everything turns on the reach u_h(n) = n e_h(n): it grows with
n and is concave, so noise, as sampling error, falls less with each further unit. Theorem and proof: docs/guides/allocation.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .greedy import Purse, Savings, by_bisection, fill, fill_up
from .takes import Array, Takes, shares_of_total, whole_total

# e^500 is far inside what a float holds; above it only the exponent matters, and it is carried by itself.
LARGEST = 500.0


class GuaranteedStrata(NamedTuple):
    """Strata with their sizes N, spreads S, widths R of the public ranges, and wanted losses on the frame."""

    sizes: Array
    deviations: Array
    widths: Array
    epsilons: Array

    @property
    def weights(self) -> Array:
        """W_h = N_h/N."""
        return np.asarray(self.sizes / self.sizes.sum())


def in_sample(sizes: Array, epsilons: Array, takes: Array | Takes) -> Array:
    """e_h(n): what may be lost on the sample for a loss of epsilon on the frame.

    >>> in_sample(np.array([100.0, 100.0]), np.array([1.0, 1.0]), np.array([10, 100])).round(6).tolist()
    [2.900477, 1.0]
    """
    held = np.minimum(epsilons, LARGEST)
    return np.asarray(np.log1p(np.expm1(held) * (sizes / takes)) + (epsilons - held))


def reach(sizes: Array, epsilons: Array, takes: Array | Takes) -> Array:
    """u_h(n) = n e_h(n): the noise of a stratum mean has the scale R_h/u_h."""
    return takes * in_sample(sizes, epsilons, takes)


def reach_growth(sizes: Array, epsilons: Array, takes: Array | Takes) -> Array:
    """u_h(n + 1) - u_h(n), without the cancellation of two large numbers."""
    chances = np.expm1(np.minimum(epsilons, LARGEST)) * sizes
    further = in_sample(sizes, epsilons, takes + 1)
    return np.maximum(further + takes * np.log1p(-1.0 / ((takes + 1.0) * (1.0 + takes / chances))), 0.0)


def largest_deviations(sizes: Array, widths: Array) -> Array:
    """The largest standard deviation of N values in a range of width R: half of them at each end.

    >>> largest_deviations(np.array([2.0, 3.0, 1.0]), np.array([1.0, 1.0, 1.0])).round(6).tolist()
    [0.707107, 0.57735, 0.0]
    """
    half = np.floor(sizes / 2.0)
    return np.asarray(widths * np.sqrt(half * (sizes - half) / (sizes * np.maximum(sizes - 1.0, 1.0))))


def sampling_variance(strata: GuaranteedStrata, takes: Takes) -> float:
    """sum W_h^2 S_h^2 (1/n_h - 1/N_h)."""
    return float(np.sum((strata.weights * strata.deviations) ** 2 * ((strata.sizes - takes) / (strata.sizes * takes))))


def noise_scales(strata: GuaranteedStrata, takes: Takes) -> Array:
    """R_h/u_h: the Laplace scale of each stratum mean, where each is released by itself."""
    return strata.widths / reach(strata.sizes, strata.epsilons, takes)


def noise_variance(strata: GuaranteedStrata, takes: Takes, release: str) -> float:
    """The variance that noise adds to the mean: of stratum means with noise each, or of one noisy mean.

    One record of stratum h moves the mean by W_h R_h/n_h at most, so one scale b serves all if b >= W_h R_h/u_h.
    """
    scales = strata.weights * noise_scales(strata, takes)
    return 2.0 * (float(np.sum(scales**2)) if release == "strata" else float(scales.max()) ** 2)


def variance(strata: GuaranteedStrata, takes: Takes, release: str) -> float:
    """Sampling and noise.

    >>> one = GuaranteedStrata(np.array([100.0]), np.array([0.5]), np.array([1.0]), np.array([1.0]))
    >>> round(variance(one, np.array([10]), "strata"), 6), round(variance(one, np.array([10]), "total"), 6)
    (0.024877, 0.024877)
    """
    return sampling_variance(strata, takes) + noise_variance(strata, takes, release)


def scaled(strata: GuaranteedStrata) -> GuaranteedStrata:
    """The same problem with the widest range at 1: squares neither overflow nor vanish."""
    widest = float(strata.widths.max())
    return strata._replace(deviations=strata.deviations / widest, widths=strata.widths / widest)


def strata_savings(strata: GuaranteedStrata) -> Savings:
    """What a further unit saves where every stratum mean has noise of its own."""
    spread = (strata.weights * strata.deviations) ** 2
    width = 2.0 * (strata.weights * strata.widths) ** 2

    def saved(h: Takes, n: Takes) -> Array:
        size, epsilon = strata.sizes[h], strata.epsilons[h]
        one, growth = reach(size, epsilon, n), reach_growth(size, epsilon, n)
        two = one + growth
        # 1/one^2 - 1/two^2.
        return np.asarray(spread[h] / (n * (n + 1.0)) + width[h] * (growth / two) * (1.0 + two / one) / (one * two))

    return Savings(saved, by_bisection(saved))


def best_for_strata(strata: GuaranteedStrata, held: Purse, lower: Takes) -> Takes:
    """Release "strata": every term of the variance is convex, so the units that save most are the best ones."""
    savings, upper = strata_savings(strata), strata.sizes.astype(np.int64)
    return fill_up(savings, held, fill(savings, held, lower, upper).takes, upper)


def use_all(strata: GuaranteedStrata, held: Purse, takes: Takes) -> Takes:
    """Units that save nothing go to the strata in proportion to their sizes, where all units must be used."""
    if int(takes.sum()) == held.limit:
        return takes
    ones = np.ones(len(takes))
    exact = shares_of_total(strata.sizes, ones, ones, takes.astype(np.float64), strata.sizes, held.limit)
    return whole_total(exact, strata.sizes, held.limit)
