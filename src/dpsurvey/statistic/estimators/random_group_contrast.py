"""The difference of two estimates from the same random groups of clusters, with the covariance that shared clusters give them.

A random group moves R1 - R2 by z1/D1 - z2/D2, so V(R1 - R2) = V1/D1^2 + V2/D2^2 - 2 C/(D1 D2), where the products z1 z2
estimate C as the squares estimate V1 and V2. The noise of different groups is independent: it is in V1 and V2, and not in C. The
interval joins the limits of both estimates at this correlation, with the degrees of freedom of the difference. Proofs:
docs/proofs/estimation.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .clusters import Contributions, RandomGroupTest, carried_freedom, centred, freedom_with_noise, within_strata
from .interval import Array, student

# This part of a variance counts as sampling error at least, so that a number that shows none still has random groups.
TRACE = 1e-6


@dataclass(frozen=True)
class Difference:
    """The errors of a difference, how far its interval reaches below and above the estimate, and its degrees of freedom."""

    se_sampling: Array
    se_noise: Array
    below: Array
    above: Array
    df: Array | None = None


class _Linear(RandomGroupTest):
    """The test with the noise of the value tested and the spread that random groups have at the estimate, as in a linearised
    ratio.

    Elsewhere the spread grows with the differences in size of the random groups, which say nothing of a difference.
    """

    def between(self, value: Array) -> Array:
        own, here, there = super().between(self.point), self.noise(self.point), self.noise(value)
        # Random groups that agree more than their noise does do so everywhere.
        return np.asarray(np.maximum(own - here + there, np.minimum(own, here) / np.maximum(here, 1e-300) * there))


class _Term:
    """One side of a difference, with its variances at the estimate, on the scale of the number."""

    def __init__(self, random_groups: Contributions, places: list[int]) -> None:
        self.test = _Linear(random_groups.sums.of(places), random_groups.low, random_groups.high)
        self.span = np.broadcast_to(random_groups.span, random_groups.sums.numerator.shape[-3])[places]
        self.open_from = random_groups.high if random_groups.open else np.inf
        self.per_unit = (self.span / self.test.size) ** 2
        self.variance = self.per_unit * self.test.variance(self.test.point)
        self.noise = self.per_unit * self.test.noise(self.test.point)
        self.sampling = np.maximum(self.variance - self.noise, 0.0)

    def reaches(self, effective: Array, freedom: Array) -> tuple[Array, Array]:
        """How far the interval of the number reaches below and above, with these degrees of freedom."""
        low, high = self.test.ends(effective, freedom)
        return self.span * (self.test.point - low), self.span * (self._endless(high) - self.test.point)

    @property
    def room(self) -> tuple[Array, Array]:
        """How far the number can lie below and above."""
        low, high, point = self.test.low, self.test.high, self.test.point
        return self.span * (point - low), self.span * (self._endless(np.full_like(point, high)) - point)

    def _endless(self, value: Array) -> Array:
        return np.where(value >= self.open_from, np.inf, value)

    def standard_errors(self, effective: Array, freedom: Array) -> Array:
        """How many standard errors that is where no bound is near."""
        point = self.test.point
        return self.test.reach(point, effective, freedom) / np.sqrt(np.maximum(self.test.variance(point), 1e-300))

    def carried(self) -> Array:
        """The sampling variance of the number over its units."""
        return np.asarray((self.sampling + TRACE * self.variance) / self.test.size)


def joined(one: Array, other: Array, correlation: Array | float = 0.0) -> Array:
    """The length of a difference, from lengths of both and their correlation; infinite where one of them is.

    >>> float(joined(np.array(3.0), np.array(4.0))), float(joined(np.array(3.0), np.array(4.0), 1.0))
    (5.0, 1.0)
    """
    endless = np.isinf(one) | np.isinf(other)
    one, other = np.where(endless, 0.0, one), np.where(endless, 0.0, other)
    square = (one - other) ** 2 + 2.0 * (1.0 - correlation) * one * other
    return np.asarray(np.where(endless, np.inf, np.sqrt(square)))


def difference(random_groups: Contributions, one: list[int], two: list[int], bias: Array | float = 0.0) -> Difference:
    """The estimates at the places `one` minus those at the places `two`; `bias` bounds how far a rule has moved them apart."""
    first, second = _Term(random_groups, one), _Term(random_groups, two)
    # Groups in different strata have no clusters in common; the same places are other random groups there.
    together = random_groups.strata is None or bool(np.all(random_groups.strata[one] == random_groups.strata[two]))
    noise = first.noise + second.noise
    effective, whole = _carrying(first, second, together=together)
    rho = _correlation(first, second) if together else np.zeros_like(noise)
    variance = joined(np.sqrt(first.variance), np.sqrt(second.variance), rho) ** 2
    freedom = freedom_with_noise(effective, whole, noise / np.maximum(variance, 1e-300))
    multiples = [each.standard_errors(effective, freedom) for each in (first, second)]
    if together:
        # Limits that stand for sampling error alone, as without noise, have its correlation: that counts where it widens.
        more = np.maximum(1.0, student(effective) ** 2 / (multiples[0] * multiples[1]))
        rho = np.where(rho < 0.0, np.maximum(rho * more, -1.0), rho)
    # A bound cuts a limit short, and with it what is taken off for a covariance: then no less than far from any bound.
    one_error, two_error = np.sqrt(first.variance) * multiples[0], np.sqrt(second.variance) * multiples[1]
    least = np.where(rho > 0.0, joined(one_error, two_error, rho), 0.0)

    def reach(one: Array, other: Array, most: Array) -> Array:
        return np.minimum(np.maximum(joined(one, other, rho), least) + bias, most)

    one_low, one_high = first.reaches(effective, freedom)
    two_low, two_high = second.reaches(effective, freedom)
    return Difference(
        se_sampling=np.sqrt(np.maximum(variance - noise, 0.0)),
        se_noise=np.sqrt(noise),
        below=reach(one_low, two_high, first.room[0] + second.room[1]),
        above=reach(one_high, two_low, first.room[1] + second.room[0]),
        df=freedom,
    )


def _correlation(first: _Term, second: _Term) -> Array:
    """The correlation of both errors, noise and all, as the random groups show it."""
    one, two = first.test, second.test
    shared = within_strata(one.sums, centred(one.sums, one.point), centred(two.sums, two.point))
    squares = one.between(one.point) * two.between(two.point)
    rho = np.sign(one.bottom * two.bottom) * shared / np.sqrt(np.maximum(squares, 1e-300))
    product = np.sqrt(np.maximum(first.variance * second.variance, 1e-300))
    if one.sums.unit:
        # Few cases may share a random group by chance: one case more on each side that does not leaves less of it.
        apart = 0.5 * (1.0 - one.drawn) * (first.per_unit + second.per_unit) / product
        rho = np.where(rho > 0.0, np.maximum(rho - apart, 0.0), rho)
    # Sampling errors alone are shared, and their covariance is at most the product of both.
    return np.asarray(np.clip(rho, -1.0, np.sqrt(first.sampling * second.sampling) / product))


def _carrying(first: _Term, second: _Term, *, together: bool) -> tuple[Array, int]:
    """Degrees of freedom of the random groups that carry the difference, by the variance that each side has from them; and of
    all."""
    shares = [each.carried()[..., None, None] for each in (first, second)]
    units = [share * each.test.sums.denominator for share, each in zip(shares, (first, second), strict=True)]
    noise = [share**2 * each.test.sums.noise[2] for share, each in zip(shares, (first, second), strict=True)]
    if together:
        return carried_freedom(units[0] + units[1], noise[0] + noise[1]), first.test.sums.freedom
    noises = np.concatenate([np.broadcast_to(own, unit.shape) for own, unit in zip(noise, units, strict=True)], axis=-2)
    return carried_freedom(np.concatenate(units, axis=-2), noises), 2 * first.test.sums.freedom
