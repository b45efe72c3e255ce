"""Means, totals, proportions and counts whose denominator is random: Poisson samples, domains, respondents.

An estimate R solves T(R) = sum over its own group of (y - R) - R * (units outside it, for shares of the whole) = 0.
Its interval is the set of R that the test |T(R)| <= k sqrt(V(R)) accepts, so nothing is divided by a small noisy
count. V(R) = (1 - pi) S2(R) + noise(R), where S2 is the sum of squares, estimated from the same noisy sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..encodings import FreePair, FreeSpread, Spread
from ..facts import Facts
from ..noisy_sums import NoisySums
from ..query import Query
from .interval import Array, accepted_hull, critical, skew_allowance, skewness, student, truncated


@dataclass(frozen=True)
class GroupSums:
    """The sums of one number in units of the lattice, and the noise variance of each component.

    `own` has the components on its last axis, worth `levels` each: (hi, middle, lo) for a triple, (1, 0) for
    yes and no, (1,) for units; levels may differ by group. `rest` is the number of units outside the group, when R is a
    share of the whole, made of `rest_components` noisy sums. `whole` is set instead where the number of sampled units is public.
    """

    own: Array
    levels: Array
    noise_variance: float
    # The excess kurtosis of the noise.
    kurtosis: float
    rest: Array | float = 0.0
    rest_components: int = 0
    whole: float | None = None
    # The triple or pair of u^2(1-pi), where weights differ, and the noise variance of its components.
    spread: Array | None = None
    spread_variance: float = 0.0
    # Whether the ends of intervals are looked for.
    intervals: bool = True


def spread_of(noisy: NoisySums) -> tuple[Array | None, float]:
    """The triple or pair of u^2(1-pi) for every group and its noise variance; None where it is not among the sums.

    A unit that counts by the inverse of its chance has u pi = 1/w_max, so u^2(1-pi) = u(1 - 1/w_max) - u(1-u).
    """
    query, facts, variance = noisy.query, noisy.facts, noisy.variance
    if isinstance(query.encoding, Spread):
        return noisy.sums[..., 3:] / (query.steps * query.encoding.scale), variance / query.encoding.scale**2
    if not isinstance(query.encoding, FreeSpread | FreePair):
        return None, 0.0
    scale, kept, half = query.encoding.scale, 1.0 - takes_off(query, facts), query.encoding.width // 2
    return noisy.records[..., :half] * kept - noisy.records[..., half:] / scale, variance * (kept**2 + scale**-2)


def takes_off(query: Query, facts: Facts) -> float:
    """u pi, the same for every unit that counts by the inverse of its chance; 0 where chances take nothing off a variance."""
    weights = query.weights
    changed = weights is not None and (weights.kept < 1.0 or weights.largest < facts.largest_weight)
    with_replacement = any(part.replaced for part in facts.parts)
    return 0.0 if changed or facts.collected or facts.respondents_only or with_replacement else 1.0 / facts.largest_weight


@dataclass(frozen=True)
class Answer:
    """Estimates with their errors, on the scale of R."""

    estimate: Array
    se_sampling: Array
    se_noise: Array
    low: Array
    high: Array
    count: Array
    count_sd: Array
    df: Array | None = None
    # The noise of the variance over the variance, and whether there are too few units for the skewness; for triples.
    unresolved: Array | None = None
    skewed: Array | None = None


def solve(sums: GroupSums, low: Array | float, high: Array | float, thinning: Array) -> Answer:
    """The estimate, both standard errors and the 95 % interval of R in [low, high].

    `thinning` is 1 minus the smallest inclusion probability.
    """
    test = _Test(sums, thinning)
    estimate = np.divide(test.numerator, test.count, out=np.full_like(test.count, np.nan), where=np.abs(test.count) > 1e-9)
    point = np.clip(np.where(np.isnan(estimate), 0.5 * (low + high), estimate), low, high)
    ends = accepted_hull(test.accepts, point, low, high, sums.intervals)
    sampling, noise = test.sampling(point), test.noise(point)
    half = np.sqrt(sampling + noise) / test.positive_count
    unresolved = skewed = None
    if sums.levels.shape[-1] == 3:
        spread = np.sqrt(test.squares(point) / test.positive_count) / (high - low)
        near = np.minimum(point - low, high - point) / (high - low)
        extra = half * skew_allowance(spread, near, test.positive_count, sampling / np.maximum(sampling + noise, 1e-300))
        nearer_low = point - low <= high - point
        unresolved = test.squares_noise(point) / np.maximum(test.squares(point), 1e-300)
        skewed = (unresolved <= 1.5) & (test.positive_count < 25.0 * skewness(spread, near) ** 2)
        ends = (
            np.maximum(ends[0] - np.where(nearer_low, 0.0, extra), low),
            np.minimum(ends[1] + np.where(nearer_low, extra, 0.0), high),
        )
    return Answer(
        estimate=estimate,
        se_sampling=np.sqrt(sampling) / test.positive_count,
        se_noise=np.sqrt(noise) / test.positive_count,
        low=ends[0],
        high=ends[1],
        count=test.count,
        count_sd=np.broadcast_to(np.sqrt(test.count_variance), test.count.shape),
        df=test.positive_count - 1.0,
        unresolved=unresolved,
        skewed=skewed,
    )


def _squares(top: Array, bottom: Array) -> Array:
    """What the three sums of a triple are worth in the sum of squares: exact, because (y-R)^2 is a quadratic in y."""
    return np.stack([top**2, top * bottom, bottom**2], axis=-1)


class _Test:
    """T(R), its sampling variance and its noise variance, as functions of R."""

    def __init__(self, sums: GroupSums, thinning: Array) -> None:
        self.sums, self.thinning = sums, thinning
        self.known = sums.whole is not None
        self.numerator = np.asarray((sums.own * sums.levels).sum(axis=-1))
        own_count = sums.own.sum(axis=-1)
        self.count = np.full_like(own_count, sums.whole) if sums.whole is not None else own_count + sums.rest
        noisy = 0 if self.known else sums.levels.shape[-1] + sums.rest_components
        self.count_variance = noisy * sums.noise_variance
        self.positive_count = truncated(self.count, np.sqrt(self.count_variance)) if noisy else self.count
        self.t = student(self.positive_count - 1.0)

    def _own(self, value: Array) -> Array:
        # With a public whole the units outside the group carry no noise: their -R is taken off every component.
        base = value[..., None] if not self.known else np.zeros_like(value)[..., None]
        return np.asarray(self.sums.levels - base)

    def noise(self, value: Array) -> Array:
        """Noise variance of T."""
        return np.asarray(
            self.sums.noise_variance * (np.sum(self._own(value) ** 2, axis=-1) + self.sums.rest_components * value**2)
        )

    def squares(self, value: Array) -> Array:
        """The sum of squares around R over all units of the test, from the noisy sums, truncated at 0."""
        levels, sums = self.sums.levels, self.sums
        if levels.shape[-1] < 3:
            # 0/1 answers: the variance is a function of R itself, so no part of the budget goes to it.
            return np.asarray(self.positive_count * value * (1.0 - value))
        top, bottom = levels[..., 0] - value, levels[..., 2] - value
        own = _squares(top, bottom) - (value[..., None] ** 2 if self.known else 0.0)
        outside = value**2 * (sums.whole if sums.whole is not None else sums.rest)
        raw = np.sum(own * sums.own, axis=-1) + outside
        noise_sd = self.squares_noise(value)
        # Squares of values within [low, high] around a point of it: at most count * span^2 / 4 at the mean.
        return truncated(raw, noise_sd, np.maximum(top**2, bottom**2) * self.positive_count + np.abs(outside))

    def squares_noise(self, value: Array) -> Array:
        """The noise of the sum of squares around R."""
        levels = self.sums.levels
        own = _squares(levels[..., 0] - value, levels[..., 2] - value) - (value[..., None] ** 2 if self.known else 0.0)
        return np.asarray(np.sqrt(self.sums.noise_variance * (np.sum(own**2, axis=-1) + self.sums.rest_components * value**4)))

    def sampling(self, value: Array) -> Array:
        """Sampling variance of T. With weights of each unit's own: the sum of u^2(1-pi)(y-R)^2, and never more than with u."""
        most = self.thinning * self.squares(value)
        if self.sums.spread is None:
            return most
        levels = self.sums.levels
        if levels.shape[-1] == 2:
            # The mean of u(1-pi) among yes and among no, and as many of both as the tested share says.
            yes, no = self._thinned[..., 0], self._thinned[..., 1]
            return np.minimum(most, self.squares(value) * ((1.0 - value) * yes + value * no))
        own = _squares(levels[..., 0] - value, levels[..., 2] - value)
        raw = np.sum(own * self.sums.spread, axis=-1)
        return np.minimum(most, truncated(raw, np.sqrt(self.sums.spread_variance * np.sum(own**2, axis=-1))))

    @cached_property
    def _thinned(self) -> Array:
        sums = self.sums
        assert sums.spread is not None
        parts = truncated(sums.spread, np.sqrt(sums.spread_variance)) / truncated(sums.own, np.sqrt(sums.noise_variance))
        return np.clip(parts, 0.0, 1.0)

    def accepts(self, value: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Whether the test accepts R = value."""
        noise = self.noise(value)
        total = np.maximum(self.sampling(value) + noise, 1e-300)
        kurtosis = np.zeros_like(total)
        if self.sums.kurtosis:
            fourth = np.sum(self._own(value) ** 4, axis=-1) + self.sums.rest_components * value**4
            kurtosis = self.sums.kurtosis * fourth * (self.sums.noise_variance / total) ** 2
        limit = critical(self.t, kurtosis)
        statistic = self.numerator - value * self.count
        return np.asarray(np.abs(statistic) <= limit * np.sqrt(total))
