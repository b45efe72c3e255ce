"""Estimates from clusters: the noisy totals of the random groups carry sampling error and noise together, and nothing is
subtracted.

An estimate R solves T(R) = sum of z = A - R D over all random groups, A and D the noisy numerator and denominator of one of
them. The spread of z between the random groups of a stratum estimates both variances at once, so no budget goes to a variance and
it is never negative. V(R) = sum_h (1-f_h) G/(G-1) sum_g ((z - mean of z)/(1 - leverage))^2 + f_h * noise; the last term is
the part of the noise that the finite population correction would remove. The interval holds the R that
|T(R)| <= k sqrt(V(R)) accepts.

Degrees of freedom are k (G-1)/G, where k = (sum of u)^2 / sum of u^2 is how many random groups carry the estimate, u the units of
a random group: a group that lies in some of the strata has those strata's alone. Noise moves them to those of all random groups,
by its share of V; but it never makes an interval narrower than the same random groups would have without noise, so more epsilon
never costs width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .interval import Array, Z, accepted_hull, critical, student, truncated
from .random_size import Answer


@dataclass(frozen=True)
class RandomGroupSums:
    """Noisy sums of one number by stratum and random group (last two axes), and the noise variance of one random group's A - R D.

    That variance is noise[0] - 2 R noise[1] + R^2 noise[2]. `fractions` are the shares of clusters that were drawn, by
    stratum (last axis), where all units of a cluster are taken, else 0.
    """

    numerator: Array
    denominator: Array
    noise: tuple[Array | float, Array | float, float]
    fractions: Array
    # The excess kurtosis of the noise.
    kurtosis: float
    # Of yes and no, what a unit counts on average, over the most that any does: their variance is taken to be no smaller than
    # that of as many units drawn alone. 0 for other values.
    unit: float = 0.0
    # The units of the number by stratum and random group and the noise variance of one random group's, where the denominator is
    # another thing.
    units: tuple[Array, float] | None = None
    # Whether the ends of intervals are looked for.
    intervals: bool = True

    @property
    def random_groups(self) -> int:
        """Random groups in each stratum."""
        return int(self.numerator.shape[-1])

    @property
    def cells(self) -> int:
        """Random groups of all strata."""
        return int(self.numerator.shape[-1] * self.numerator.shape[-2])

    @property
    def freedom(self) -> int:
        """Degrees of freedom of all random groups."""
        return self.cells - int(self.numerator.shape[-2])

    def of(self, places: list[int]) -> RandomGroupSums:
        """The sums of some of the numbers."""

        def kept(figure: Array | float) -> Array | float:
            return figure if np.ndim(figure) == 0 else np.asarray(figure)[..., places]

        own, shared, units = self.noise
        # By group and stratum, where each group has one stratum of its own; else by stratum, the same for all groups.
        fractions = self.fractions[places] if self.fractions.ndim > 1 else self.fractions
        return replace(
            self,
            numerator=self.numerator[..., places, :, :],
            denominator=self.denominator[..., places, :, :],
            noise=(kept(own), kept(shared), units),
            fractions=fractions,
            units=None if self.units is None else (self.units[0][..., places, :, :], self.units[1]),
        )


@dataclass(frozen=True)
class Contributions:
    """What every random group adds to the numbers of a statistic, which are `offset + span * R` with R in [low, high].

    `strata` has the place of the one stratum that each group lies in, where each has the random groups of its own stratum alone.
    `open` says that an R of `high` is as good as one without an end.
    """

    sums: RandomGroupSums
    low: float
    high: float
    offset: Array | float
    span: Array | float
    strata: npt.NDArray[np.int64] | None = None
    open: bool = False


class RandomGroupTest:
    """T(R) of every number, with its variances as functions of R, and how far they let an interval reach."""

    def __init__(self, sums: RandomGroupSums, low: Array | float, high: Array | float) -> None:
        self.sums, self.low, self.high = sums, low, high
        self.top, self.bottom = sums.numerator.sum(axis=(-1, -2)), sums.denominator.sum(axis=(-1, -2))
        self.estimate = np.divide(self.top, self.bottom, out=np.full_like(self.top, np.nan), where=np.abs(self.bottom) > 1e-9)
        self.point = np.clip(np.where(np.isnan(self.estimate), 0.5 * (low + high), self.estimate), low, high)
        self.size = np.maximum(np.abs(self.bottom), 1e-9)
        self.count_sd = np.sqrt(sums.cells * sums.noise[2])
        self.drawn = sums.fractions.mean(axis=-1)
        self._units = truncated(self.bottom, self.count_sd)
        self.effective = carried_freedom(*(sums.units or (sums.denominator, sums.noise[2])))
        self.own_freedom = freedom_with_noise(
            self.effective, sums.freedom, self.noise(self.point) / np.maximum(self.variance(self.point), 1e-300)
        )

    def noise(self, value: Array) -> Array:
        """Noise variance of T."""
        a, c, d = self.sums.noise
        # Where it is nought, rounding must not take it below.
        return np.asarray(np.maximum(self.sums.cells * (a - 2.0 * value * c + value**2 * d), 0.0))

    def between(self, value: Array) -> Array:
        """The variance of T, noise and all, from the spread of its random groups."""
        apart = centred(self.sums, value)
        return np.asarray(within_strata(self.sums, apart, apart) + self.drawn * self.noise(value))

    def variance(self, value: Array) -> Array:
        """The variance of T, noise and all."""
        between = self.between(value)
        if not self.sums.unit:
            return between
        # Few or no cases in few clusters say little about their spread; a share has a variance of its own.
        alone = (1.0 - self.drawn) * self.sums.unit * self._units * value * (1.0 - value)
        return np.asarray(np.maximum(between, np.maximum(alone, 0.0) + self.noise(value)))

    def reach(self, value: Array, effective: Array, freedom: Array) -> Array:
        """How far T may lie from 0, with these degrees of freedom: without noise, and with it."""
        noise, total = self.noise(value), np.maximum(self.variance(value), 1e-300)
        # Each random group's noise enters with at most its own variance squared, so this is never too small.
        own, cells = self.sums.kurtosis, self.sums.cells
        kurtosis = own / cells * np.minimum(noise / total, 1.0) ** 2 if own else np.zeros_like(total)
        limit = critical(student(freedom), kurtosis) * np.sqrt(total)
        return np.asarray(np.maximum(limit, least_reach(total, noise, effective, cells, own)))

    def ends(self, effective: Array, freedom: Array) -> tuple[Array, Array]:
        """The 95 % interval of R."""

        # Noise may carry T so far out that not even the end of the range is accepted: then that end is the estimate.
        nearest = self.point * self.bottom
        far = np.abs(self.top - nearest) > self.reach(self.point, effective, freedom)
        top = np.where(far, nearest, self.top)

        def accepts(value: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
            return np.asarray(np.abs(top - value * self.bottom) <= self.reach(value, effective, freedom))

        return accepted_hull(accepts, self.point, self.low, self.high, self.sums.intervals)


def solve_random_groups(sums: RandomGroupSums, low: Array | float, high: Array | float) -> Answer:
    """The estimate, both standard errors and the 95 % interval of R in [low, high]."""
    test = RandomGroupTest(sums, low, high)
    ends = test.ends(test.effective, test.own_freedom)
    noise = test.noise(test.point)
    return Answer(
        estimate=test.estimate,
        se_sampling=np.sqrt(np.maximum(test.variance(test.point) - noise, 0.0)) / test.size,
        se_noise=np.sqrt(noise) / test.size,
        low=ends[0],
        high=ends[1],
        count=test.bottom,
        count_sd=np.broadcast_to(test.count_sd, test.bottom.shape),
        df=test.own_freedom,
    )


def solve_random_group_totals(sums: RandomGroupSums) -> Answer:
    """The total of the numerators with its errors, where no size is public: nothing is divided."""
    total = sums.numerator.sum(axis=(-1, -2))
    cells = sums.cells
    noise = np.broadcast_to(cells * np.asarray(sums.noise[0]), total.shape)
    apart = centred(sums, np.zeros_like(total), leverage=False)
    variance = within_strata(sums, apart, apart) + sums.fractions.mean(axis=-1) * noise
    share = noise / np.maximum(variance, 1e-300)
    effective = np.full_like(total, sums.freedom) if sums.units is None else carried_freedom(*sums.units)
    freedom = freedom_with_noise(effective, sums.freedom, share)
    kurtosis = sums.kurtosis / cells * np.minimum(share, 1.0) ** 2 if sums.kurtosis else np.zeros_like(total)
    half = critical(student(freedom), kurtosis) * np.sqrt(variance)
    half = np.maximum(half, least_reach(variance, noise, effective, cells, sums.kurtosis))
    sampling = np.sqrt(np.maximum(variance - noise, 0.0))
    count = np.full_like(total, np.inf)
    return Answer(total, sampling, np.sqrt(noise), total - half, total + half, count, np.zeros_like(total), freedom)


def least_reach(variance: Array, noise: Array, effective: Array, cells: int, kurtosis: float) -> Array:
    """How far an interval reaches at least: as far as the known noise alone carries a sum, and as the random groups would
    without noise.

    Random groups that happen to agree do not make it narrower than their noise, nor does noise stand for clusters that are not
    there.
    """
    alone = critical(Z, np.full_like(noise, kurtosis / cells)) * np.sqrt(noise)
    return np.asarray(np.maximum(alone, student(effective) * np.sqrt(np.maximum(variance - noise, 0.0))))


def centred(sums: RandomGroupSums, value: Array, *, leverage: bool = True) -> Array:
    """What the random groups add to T, minus their mean within strata."""
    residual = sums.numerator - value[..., None, None] * sums.denominator
    apart = residual - residual.mean(axis=-1, keepdims=True)
    if leverage:
        # What the jackknife does for a random group that holds much of the whole: leaving it out moves the rest more.
        whole = np.maximum(sums.denominator.sum(axis=(-1, -2), keepdims=True), 1e-9)
        apart = apart / (1.0 - np.clip(sums.denominator / whole, 0.0, 0.5))
    return np.asarray(apart)


def within_strata(sums: RandomGroupSums, one: Array, other: Array) -> Array:
    """The covariance of two sums over random groups, from what the random groups add to them, centred: of one with itself its
    variance."""
    spread = sums.random_groups / (sums.random_groups - 1.0) * (one * other).sum(axis=-1)
    return np.asarray(((1.0 - sums.fractions) * spread).sum(axis=-1))


def carried_freedom(units: Array, noise: Array | float) -> Array:
    """Degrees of freedom of the random groups that carry a number, from their noisy units (last axes: strata, random groups): k
    (G-1)/G.

    The noise variance of a random group's units is taken off their squares, so that random groups with noise alone carry nothing.

    >>> two_of_four_strata = np.array([[50.0, 50.0], [50.0, 50.0], [0.0, 0.0], [0.0, 0.0]])
    >>> float(carried_freedom(two_of_four_strata, 0.0))
    2.0
    """
    strata, random_groups = units.shape[-2:]
    whole = units.sum(axis=(-1, -2)) ** 2
    squares = (units**2 - noise).sum(axis=(-1, -2))
    carrying = whole / np.maximum(np.maximum(squares, whole / (strata * random_groups)), 1e-300)
    return np.asarray(np.clip(carrying * (random_groups - 1.0) / random_groups, 1.0, strata * (random_groups - 1.0)))


def freedom_with_noise(effective: Array, whole: int, noise_share: Array) -> Array:
    """Degrees of freedom moved to those of all random groups, `whole`, by the share of noise, which is alike in all of them."""
    share = np.clip(noise_share, 0.0, 1.0)
    return np.asarray(np.maximum((1.0 - share) * effective + share * whole, 1.0))
