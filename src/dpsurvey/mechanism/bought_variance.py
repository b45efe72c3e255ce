"""A stratified mean and the variance within its strata, each with noise of its own, from exact sums of the strata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ..errors import BadValue
from ..privacy.budget import take_share
from ..privacy.profile import PrivacyProfile
from ..privacy.rounding import above
from .base import LARGEST_SUM, Array, Mechanism, Norm, Rows

# Whole steps per largest contribution of a unit, for the weights of the strata and for the variance.
FINE = 2**20
# The second moments of records are rounded to the lattice; a variance of n of them moves by a few parts in a million more.
ROUNDED = 1.0 + 2.0**-16


@dataclass(frozen=True)
class MeanAndVariance:
    """Answers rows of (sum of y, sum of y(1-y)) by stratum with one row: the noisy mean and the noisy variance.

    The mean is the sum of L_h times the stratum sums, L_h = whole steps in proportion to what a unit adds. The variance is
    the sum of g_h s_h^2. Replacing one record inside a stratum moves s^2 (of n values in [0, 1], divisor n-1) by at most 1/n:
    s^2 is the mean over pairs of (y_i - y_j)^2/2, and n-1 of the n(n-1)/2 pairs change, by at most 1/2 each.

    >>> from .laplace import Laplace
    >>> charge, sizes = PrivacyProfile.pure(1.0, "replace-one"), ((5, 5), (0.1, 0.1), (0.02, 0.02))
    >>> mechanism = MeanAndVariance.calibrate(charge, Laplace, 0.2, *sizes, lattice=1024, second_moment_scale=1.0)
    >>> [round(each / FINE, 2) for each in mechanism.exact([[2048, 512], [1024, 256]])]
    [3072.0, 1.56]
    """

    norm: ClassVar[Norm] = "L1"
    of_mean: Mechanism
    of_variance: Mechanism
    takes: tuple[int, ...]
    steps: tuple[int, ...]
    factors: tuple[float, ...]
    lattice: int
    second_moment_scale: float

    @classmethod
    def calibrate(
        cls,
        charge: PrivacyProfile,
        additive: type[Mechanism],
        bought: float,
        takes: Sequence[int],
        per_unit: Sequence[float],
        factors: Sequence[float],
        lattice: int,
        second_moment_scale: float,
    ) -> MeanAndVariance:
        """A share `bought` of the charge for the variance, the rest for the mean."""
        # Coarser for very large samples, so that no sum of records can come near what 64 bits hold.
        fine = min(FINE, LARGEST_SUM // (2 * sum(takes) * (lattice + 1)))
        if fine < 2**8:
            raise BadValue("the sample is too large for this estimator", hint='estimator="by-stratum" or "pooled"')
        steps = tuple(max(1, round(fine * each / max(per_unit))) for each in per_unit)
        # One step of rounding for the two ends of a replaced value; yes and no are not rounded.
        of_mean = additive.calibrate(take_share(charge, 1.0 - bought), float(max(steps) * (lattice + (lattice > 1))))
        of_variance = additive.calibrate(take_share(charge, bought), float(int(FINE * ROUNDED) + 2))
        return cls(of_mean, of_variance, tuple(takes), steps, tuple(factors), lattice, second_moment_scale)

    @property
    def variance_unit(self) -> float:
        """The most that one record moves the variance by: max of g_h/n_h."""
        return max(factor / take for factor, take in zip(self.factors, self.takes, strict=True))

    @property
    def parts(self) -> list[float]:
        """By which part of both sensitivities a record of each stratum moves mean and variance at most."""
        if not (self.of_mean.loss_is_linear and self.of_variance.loss_is_linear):
            return [1.0] * len(self.takes)
        found = []
        for steps, factor, take in zip(self.steps, self.factors, self.takes, strict=True):
            mean = Fraction(steps * (self.lattice + (self.lattice > 1))) / Fraction(self.of_mean.sensitivity)
            moved = math.ceil(FINE * ROUNDED * (factor / take / self.variance_unit)) + 2 if self.variance_unit else 2
            found.append(min(1.0, above(max(mean, Fraction(moved) / Fraction(self.of_variance.sensitivity)))))
        return found

    @property
    def kind(self) -> str:
        """The kind of both noises."""
        return self.of_mean.kind

    @property
    def kurtosis(self) -> float:
        """The excess kurtosis of both noises."""
        return self.of_mean.kurtosis

    @property
    def scale(self) -> float:
        """The scale of the noise on the mean."""
        return self.of_mean.scale

    @property
    def sensitivity(self) -> float:
        """The sensitivity of the mean, in its steps."""
        return self.of_mean.sensitivity

    @property
    def variance(self) -> float:
        """The noise variance of the mean, in its squared steps."""
        return self.of_mean.variance

    def exact(self, rows: Sequence[Sequence[float]]) -> tuple[float, float]:
        """Mean and variance without noise, in steps."""
        mean = sum(steps * row[0] for steps, row in zip(self.steps, rows, strict=True))
        within = sum(factor * self._spread(row, take) for factor, row, take in zip(self.factors, rows, self.takes, strict=True))
        return mean, within / self.variance_unit * FINE

    def read(self, sums: Array, largest: float) -> tuple[Array, Array, tuple[float, float]]:
        """Noisy mean and variance in units of the mean, and the noise variance of each; `largest` is the most of one record."""
        unit, second = largest / (max(self.steps) * self.lattice), self.variance_unit / FINE
        noise = (self.of_mean.variance * unit**2, self.of_variance.variance * second**2)
        return sums[..., 0, 0] * unit, sums[..., 0, 1] * second, noise

    def answer(self, rows: Rows) -> Rows:
        """One row: noisy mean and noisy variance, in whole steps."""
        mean, within = self.exact(rows)
        return [[self.of_mean.randomize([int(mean)])[0], self.of_variance.randomize([int(within)])[0]]]

    def _spread(self, row: Sequence[float], take: int) -> float:
        """s^2 of one stratum from its sums."""
        total = row[0] / self.lattice
        # Yes and no have no second component: y(1-y) is 0.
        squares = total - (row[1] / (self.lattice * self.second_moment_scale) if len(row) > 1 else 0.0)
        return max(0.0, (squares - total * total / take) / (take - 1.0)) if take > 1 else 0.25
