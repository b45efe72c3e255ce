"""Means and proportions from samples of fixed public size: simple random and stratified, strata invariant.

Means (one vector of two sums): A = sum a y, C = sum a y(1-y) with a = N_h/(N n_h), y in [0, 1]; C is free because
the pair moves no further than A alone. Proportions need no variance at all: it is a function of p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..facts import Facts
from .interval import Array, Z, accepted_hull, critical, skew_allowance, student, truncated


@dataclass(frozen=True)
class FixedSizes:
    """Public sizes of the strata that one number is about: shares of the population, takes and rates."""

    shares: Array
    takes: Array
    rates: Array

    @property
    def per_unit(self) -> Array:
        """a_h = W_h/n_h, what one sampled unit of a stratum adds to a mean."""
        return np.asarray(self.shares / self.takes)

    @property
    def spread_factor(self) -> Array:
        """N_h/(N_h-1), what turns a mean square around the stratum mean into the variance that sampling sees."""
        sizes = self.takes / np.maximum(self.rates, 1e-300)
        return np.asarray(np.where((sizes > 1.0) & (self.rates > 0.0), sizes / np.maximum(sizes - 1.0, 1e-9), 1.0))

    @property
    def n(self) -> float:
        """All sampled units."""
        return float(self.takes.sum())


def sizes_of(facts: Facts, group: tuple[str, ...]) -> FixedSizes:
    """All strata for the whole frame (empty group), or the one stratum that a group is."""
    parts = [part for part in facts.parts if not group or part.label == group[0]]
    sizes = np.array([float(part.size or 0) for part in parts])
    takes = np.array([float(part.take or 0) for part in parts])
    # With replacement the draw is not a part of a finite list, and nothing is corrected for it.
    rates = np.array([0.0 if part.replaced else take / size for part, take, size in zip(parts, takes, sizes, strict=True)])
    return FixedSizes(sizes / sizes.sum(), takes, rates)


def mean_interval(
    total: Array, second: Array, noise: tuple[float, float], sizes: FixedSizes, noise_kurtosis: float
) -> tuple[Array, ...]:
    """(estimate, se_sampling, se_noise, low, high) of a mean on [0, 1].

    `total` is noisy A, `second` noisy C, `noise` their noise variances, `noise_kurtosis` its excess kurtosis. With one
    stratum this is the classical (1 - n/N) s^2/n; with several, the largest a_h(1-f_h) stands for all, which ignores the
    gain of stratification and is never too small.
    """
    noise_total, noise_second = noise
    middle = np.clip(total, 0.0, 1.0)
    n = sizes.n
    correction = n / max(n - 1.0, 1.0) * (sizes.spread_factor if len(sizes.takes) > 1 else 1.0)
    raw = middle * (1.0 - middle) + noise_total - second
    # Outside [0, 1] the square of the noise is no longer what was added; clipping errs to the wide side.
    sd = np.sqrt((1.0 - 2.0 * middle) ** 2 * noise_total + noise_second + 2.0 * noise_total**2)
    spread = truncated(raw, sd, middle * (1.0 - middle) + noise_total)
    factor = float(np.max(sizes.per_unit * (1.0 - sizes.rates) * correction))
    sampling = factor * spread
    variance = sampling + noise_total
    share = noise_total / np.maximum(variance, 1e-300)
    kurtosis = noise_kurtosis * share**2 if noise_kurtosis else np.zeros_like(variance)
    half = critical(student(max(n - len(sizes.takes), 1.0)), kurtosis) * np.sqrt(variance)
    near = np.minimum(middle, 1.0 - middle)
    extra = np.sqrt(variance) * skew_allowance(np.sqrt(spread), near, np.asarray(n), sampling / np.maximum(variance, 1e-300))
    low = total - half - np.where(middle > 0.5, extra, 0.0)
    high = total + half + np.where(middle <= 0.5, extra, 0.0)
    return total, np.sqrt(sampling), np.full_like(total, np.sqrt(noise_total)), np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def variance_doubt(total: Array, second: Array, noise: tuple[float, float]) -> Array:
    """The noise of the spread over the spread: above 1.5 the variance is not resolved."""
    middle = np.clip(total, 0.0, 1.0)
    sd = np.sqrt((1.0 - 2.0 * middle) ** 2 * noise[0] + noise[1] + 2.0 * noise[0] ** 2)
    return np.asarray(sd / np.maximum(truncated(middle * (1.0 - middle) + noise[0] - second, sd), 1e-300))


def proportion_interval(
    estimate: Array, noise: float, sizes: FixedSizes, noise_kurtosis: float, intervals: bool = True
) -> tuple[Array, ...]:
    """(estimate, se_sampling, se_noise, low, high) of a proportion, by inversion of its score test.

    The sampling variance at p is the largest that strata with that overall proportion can have.
    """

    def variance(p: Array) -> Array:
        return worst_variance(p, sizes)

    def accepts(p: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        total = np.maximum(variance(p) + noise, 1e-300)
        kurtosis = noise_kurtosis * (noise / total) ** 2 if noise_kurtosis else np.zeros_like(total)
        return np.asarray(np.abs(estimate - p) <= critical(Z, kurtosis) * np.sqrt(total))

    point = np.clip(estimate, 0.0, 1.0)
    low, high = accepted_hull(accepts, point, 0.0, 1.0, intervals)
    # At an estimate of 0 or 1 the plug-in variance vanishes; the middle of the interval speaks for it.
    middle = np.clip(point, 0.5 * low, 0.5 * (1.0 + high))
    return estimate, np.sqrt(variance(middle)), np.full_like(estimate, np.sqrt(noise)), low, high


def worst_variance(p: Array, sizes: FixedSizes) -> Array:
    """max sum_h a_h p_h(1-p_h) subject to sum_h W_h p_h = p, a_h = W_h^2 (1-f_h)/n_h N_h/(N_h-1), by bisection on the multiplier.

    >>> sizes = FixedSizes(np.array([1.0]), np.array([100.0]), np.array([0.1]))
    >>> float(worst_variance(np.array(0.5), sizes).round(5))
    0.00225
    """
    weights = sizes.shares**2 * (1.0 - sizes.rates) / sizes.takes * sizes.spread_factor
    active = weights > 0.0
    p = np.asarray(p, dtype=np.float64)
    if not active.any():
        return np.zeros_like(p)
    if len(weights) == 1:
        return np.asarray(weights[0] * p * (1.0 - p))
    # A census stratum has no variance and may hold any proportion: a hair of weight keeps the optimum defined.
    weights = np.where(active, weights, weights[active].min() * 1e-9)
    slope = sizes.shares / weights
    reach = float(2.0 / slope.min() + 1.0)
    low, high = np.full(p.shape, -reach), np.full(p.shape, reach)

    def strata(multiplier: Array) -> Array:
        return np.clip((1.0 - multiplier[..., None] * slope) / 2.0, 0.0, 1.0)

    for _ in range(80):
        middle = 0.5 * (low + high)
        too_much = strata(middle) @ sizes.shares > p
        low, high = np.where(too_much, middle, low), np.where(too_much, high, middle)
    inside = strata(0.5 * (low + high))
    return np.asarray((weights * inside * (1.0 - inside)).sum(axis=-1))


def exact_interval(count: int, n: int, size: int, reaches: Callable[[Array], Array]) -> tuple[float, float]:
    """The exact 95 % interval of a proportion: sampled count plus noise, hypergeometric sampling.

    `reaches` gives the probability that the noise is at least a whole number. A population count M is kept when neither tail
    of Z = Hypergeometric(size, M, n) + noise at `count` is below 2.5 %.
    """

    # scipy.stats is slow to import, and small counts are rare.
    from scipy.stats import hypergeom

    def tail(population_count: int, upper: bool) -> float:
        law = hypergeom(size, population_count, n)
        drawn = np.arange(int(law.ppf(1e-13)), int(law.ppf(1.0 - 1e-13)) + 1)
        gap = (count - drawn) if upper else (drawn - count)
        return float(np.sum(law.pmf(drawn) * reaches(gap.astype(np.float64))))

    def first(keep_from: bool) -> int:
        # P(Z >= count) rises and P(Z <= count) falls with the population count.
        low, high = -1, size + 1
        while high - low > 1:
            middle = (low + high) // 2
            kept = tail(middle, upper=keep_from) > 0.025
            low, high = (low, middle) if kept == keep_from else (middle, high)
        return high if keep_from else low

    # Noise can carry the count so far that no population explains it; the nearest end then stands alone.
    return float(np.clip(first(True) / size, 0.0, 1.0)), float(np.clip(first(False) / size, 0.0, 1.0))
