"""Numbers from clusters: the noisy totals of the slots carry sampling error and noise together, and nothing is subtracted.

A number R solves T(R) = sum of z = A - R D over all slots, A and D the noisy numerator and denominator of a slot.
The spread of z between the slots of a stratum estimates both variances at once, so no budget goes to a variance and
it is never negative. V(R) = sum_h (1-f_h) G/(G-1) sum_g ((z - mean of z)/(1 - leverage))^2 + f_h * noise; the last term is
the part of the noise that the finite population correction would remove. The interval holds the R that
|T(R)| <= k sqrt(V(R)) accepts.

Degrees of freedom are k (G-1)/G, where k = (sum of u)^2 / sum of u^2 is how many slots carry the number, u the units of a slot:
a group that lies in some of the strata has those strata's alone. Noise moves them to those of all slots, by its share of V; but
it never makes an interval narrower than the same slots would have without noise, so more epsilon never costs width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .interval import Array, Z, accepted_hull, critical, student, truncated
from .random_size import Answer


@dataclass(frozen=True)
class SlotSums:
    """Noisy sums of one number by stratum and slot (last two axes), and the noise variance of one slot's A - R D.

    That variance is noise[0] - 2 R noise[1] + R^2 noise[2]. `fractions` are the shares of clusters that were drawn, by
    stratum (last axis), where all units of a cluster are taken, else 0.
    """

    numerator: Array
    denominator: Array
    noise: tuple[Array | float, Array | float, float]
    fractions: Array
    laplace: bool
    # Yes and no of equally weighted units: their variance is taken to be no smaller than without clusters.
    binary: bool = False
    # The units of the number by stratum and slot and the noise variance of one slot's, where the denominator is another thing.
    units: tuple[Array, float] | None = None

    @property
    def slots(self) -> int:
        """Slots in each stratum."""
        return int(self.numerator.shape[-1])

    @property
    def cells(self) -> int:
        """Slots of all strata."""
        return int(self.numerator.shape[-1] * self.numerator.shape[-2])

    @property
    def freedom(self) -> int:
        """Degrees of freedom of all slots."""
        return self.cells - int(self.numerator.shape[-2])


def solve_slots(sums: SlotSums, low: Array | float, high: Array | float) -> Answer:
    """The estimate, both standard errors and the 95 % interval of R in [low, high]."""
    top, bottom = sums.numerator.sum(axis=(-1, -2)), sums.denominator.sum(axis=(-1, -2))
    estimate = np.divide(top, bottom, out=np.full_like(top, np.nan), where=np.abs(bottom) > 1e-9)
    point = np.clip(np.where(np.isnan(estimate), 0.5 * (low + high), estimate), low, high)
    cells = sums.cells
    a, c, d = sums.noise

    def noise(value: Array) -> Array:
        # Where it is nought, rounding must not take it below.
        return np.asarray(np.maximum(cells * (a - 2.0 * value * c + value**2 * d), 0.0))

    units = truncated(bottom, np.sqrt(cells * d))
    drawn = sums.fractions.mean(axis=-1)

    def variance(value: Array) -> Array:
        between = _between(sums, value) + drawn * noise(value)
        if not sums.binary:
            return np.asarray(between)
        # Few or no cases in few clusters say little about their spread; a share has a variance of its own.
        alone = (1.0 - drawn) * units * value * (1.0 - value)
        return np.asarray(np.maximum(between, np.maximum(alone, 0.0) + noise(value)))

    effective = carried_freedom(*(sums.units or (sums.denominator, d)))
    freedom = freedom_with_noise(effective, sums.freedom, noise(point) / np.maximum(variance(point), 1e-300))

    def accepts(value: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        total = np.maximum(variance(value), 1e-300)
        # Each slot's noise enters with at most its own variance squared, so this is never too small.
        kurtosis = 3.0 / cells * np.minimum(noise(value) / total, 1.0) ** 2 if sums.laplace else np.zeros_like(total)
        limit = critical(student(freedom), kurtosis) * np.sqrt(total)
        least = least_reach(total, noise(value), effective, cells, sums.laplace)
        return np.asarray(np.abs(top - value * bottom) <= np.maximum(limit, least))

    ends = accepted_hull(accepts, point, low, high)
    size = np.maximum(np.abs(bottom), 1e-9)
    sampling = np.maximum(variance(point) - noise(point), 0.0)
    count_sd = np.sqrt(cells * d)
    return Answer(
        estimate=estimate,
        se_sampling=np.sqrt(sampling) / size,
        se_noise=np.sqrt(noise(point)) / size,
        low=ends[0],
        high=ends[1],
        count=bottom,
        count_sd=np.broadcast_to(count_sd, bottom.shape),
        df=freedom,
    )


def solve_slot_totals(sums: SlotSums) -> Answer:
    """The total of the numerators with its errors, where no size is public: nothing is divided."""
    total = sums.numerator.sum(axis=(-1, -2))
    cells = sums.cells
    noise = np.broadcast_to(cells * np.asarray(sums.noise[0]), total.shape)
    variance = _between(sums, np.zeros_like(total), leverage=False) + sums.fractions.mean(axis=-1) * noise
    share = noise / np.maximum(variance, 1e-300)
    effective = np.full_like(total, sums.freedom) if sums.units is None else carried_freedom(*sums.units)
    freedom = freedom_with_noise(effective, sums.freedom, share)
    kurtosis = 3.0 / cells * np.minimum(share, 1.0) ** 2 if sums.laplace else np.zeros_like(total)
    half = critical(student(freedom), kurtosis) * np.sqrt(variance)
    half = np.maximum(half, least_reach(variance, noise, effective, cells, sums.laplace))
    sampling = np.sqrt(np.maximum(variance - noise, 0.0))
    count = np.full_like(total, np.inf)
    return Answer(total, sampling, np.sqrt(noise), total - half, total + half, count, np.zeros_like(total), freedom)


def least_reach(variance: Array, noise: Array, effective: Array, cells: int, laplace: bool) -> Array:
    """How far an interval reaches at least: as far as the known noise alone carries a sum, and as the slots would without noise.

    Slots that happen to agree do not make it narrower than their noise, nor does noise stand for clusters that are not there.
    """
    kurtosis = np.full_like(noise, 3.0 / cells if laplace else 0.0)
    alone = critical(Z, kurtosis) * np.sqrt(noise)
    return np.asarray(np.maximum(alone, student(effective) * np.sqrt(np.maximum(variance - noise, 0.0))))


def _between(sums: SlotSums, value: Array, *, leverage: bool = True) -> Array:
    """The variance of T from the spread of its slots within strata."""
    residual = sums.numerator - value[..., None, None] * sums.denominator
    centred = residual - residual.mean(axis=-1, keepdims=True)
    if leverage:
        # What the jackknife does for a slot that holds much of the whole: leaving it out moves the rest more.
        whole = np.maximum(sums.denominator.sum(axis=(-1, -2), keepdims=True), 1e-9)
        centred = centred / (1.0 - np.clip(sums.denominator / whole, 0.0, 0.5))
    spread = sums.slots / (sums.slots - 1.0) * (centred**2).sum(axis=-1)
    return np.asarray(((1.0 - sums.fractions) * spread).sum(axis=-1))


def carried_freedom(units: Array, noise: Array | float) -> Array:
    """Degrees of freedom of the slots that carry a number, from their noisy units (last axes: strata, slots): k (G-1)/G.

    The noise variance of a slot's units is taken off their squares, so that slots with noise alone carry nothing.

    >>> two_of_four_strata = np.array([[50.0, 50.0], [50.0, 50.0], [0.0, 0.0], [0.0, 0.0]])
    >>> float(carried_freedom(two_of_four_strata, 0.0))
    2.0
    """
    strata, slots = units.shape[-2:]
    whole = units.sum(axis=(-1, -2)) ** 2
    squares = (units**2 - noise).sum(axis=(-1, -2))
    carrying = whole / np.maximum(np.maximum(squares, whole / (strata * slots)), 1e-300)
    return np.asarray(np.clip(carrying * (slots - 1.0) / slots, 1.0, strata * (slots - 1.0)))


def freedom_with_noise(effective: Array, whole: int, noise_share: Array) -> Array:
    """Degrees of freedom moved to those of all slots, `whole`, by the share of noise, which is alike in all of them."""
    share = np.clip(noise_share, 0.0, 1.0)
    return np.asarray(np.maximum((1.0 - share) * effective + share * whole, 1.0))
