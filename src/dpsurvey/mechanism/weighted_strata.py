"""A stratified mean with its squares weighted as its variance weighs them: three noisy sums, from exact sums of the strata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ..errors import BadValue
from ..privacy.profile import PrivacyProfile
from ..privacy.rounding import above
from .base import LARGEST_SUM, Array, Mechanism, Norm, Rows

# Whole steps for the largest contribution of a unit.
FINE = 2**20
# The weight of the third sum: more of it costs noise on the mean, less of it noise on the variance.
THIRD = 0.15


@dataclass(frozen=True)
class WeightedStrata:
    """Answers rows of (sum of y, sum of y(1-y)) by stratum with one row: the sums of L y, of G y(1-y) and of THIRD G y.

    L_h are whole steps in proportion to what a unit adds to the mean, G_h in proportion to what its square adds to the variance,
    scaled so that no G_h is above its L_h. Then the second sum is free, as it is in one stratum, and the third costs its weight.

    >>> from .laplace import Laplace
    >>> charge = PrivacyProfile.pure(1.0, "replace-one")
    >>> sizes = ((5, 5), (0.1, 0.2), (0.01, 0.04))
    >>> mechanism = WeightedStrata.calibrate(charge, Laplace, *sizes, lattice=1024, second_moment_scale=1.0)
    >>> [round(each / FINE, 1) for each in mechanism.exact([[2048, 512], [1024, 256]])]
    [2048.0, 384.0, 230.4]
    """

    norm: ClassVar[Norm] = "L1"
    of_mean: Mechanism
    steps: tuple[int, ...]
    squares: tuple[int, ...]
    thirds: tuple[int, ...]
    # What a step of G stands for in the variance, over what a step of L stands for in the mean.
    per_step: float
    lattice: int
    second_moment_scale: float

    @classmethod
    def calibrate(
        cls,
        charge: PrivacyProfile,
        additive: type[Mechanism],
        takes: Sequence[int],
        per_unit: Sequence[float],
        factors: Sequence[float],
        lattice: int,
        second_moment_scale: float,
    ) -> WeightedStrata:
        """`per_unit` is what a sampled unit of each stratum adds to the mean, `factors` what its square adds to the variance."""
        fine = min(FINE, LARGEST_SUM // (2 * sum(takes) * (lattice + 1)))
        if fine < 2**8:
            raise BadValue("the sample is too large for this estimator", hint='estimator="by-stratum" or "pooled"')
        steps = tuple(max(1, round(fine * each / max(per_unit))) for each in per_unit)
        relative = [factor / each for factor, each in zip(factors, per_unit, strict=True)]
        most = max(relative)
        squares = tuple(math.floor(step * each / most) for step, each in zip(steps, relative, strict=True))
        thirds = tuple(math.floor(THIRD * each) for each in squares)
        # Products were rounded to the lattice, and are not those of the rounded values: half of this at each end of a change.
        rounded = max(squares) * 1.01 * (1.0 + second_moment_scale)
        if additive.norm == "L1":
            reach = float(max(step + third for step, third in zip(steps, thirds, strict=True)) * lattice + math.ceil(rounded))
        else:
            reach = max(math.hypot(step, third) for step, third in zip(steps, thirds, strict=True)) * lattice + rounded
            reach *= 1.0 + 1e-12
        noise = additive.calibrate(charge, reach)
        per_step = most * max(per_unit) / max(steps)
        return cls(noise, steps, squares, thirds, per_step, lattice, second_moment_scale)

    @property
    def parts(self) -> list[float]:
        """By which part of the sensitivity a record of each stratum moves the three sums at most."""
        if not self.of_mean.loss_is_linear:
            return [1.0] * len(self.steps)
        # What rounding adds in the stratum where it adds most: a millionth of the whole.
        rounded = math.ceil(max(self.squares) * 1.01 * (1.0 + self.second_moment_scale)) + 1
        pairs = zip(self.steps, self.thirds, strict=True)
        # In L1 the norms of sums and thirds add up; in L2 they are at right angles.
        each = [step + third if self.of_mean.norm == "L1" else math.hypot(step, third) * (1.0 + 1e-12) for step, third in pairs]
        whole = Fraction(self.sensitivity)
        return [min(1.0, above((Fraction(moved) * self.lattice + rounded) / whole)) for moved in each]

    @property
    def kind(self) -> str:
        """The kind of the noise."""
        return self.of_mean.kind

    @property
    def kurtosis(self) -> float:
        """The excess kurtosis of the noise."""
        return self.of_mean.kurtosis

    @property
    def scale(self) -> float:
        """The scale of the noise."""
        return self.of_mean.scale

    @property
    def sensitivity(self) -> float:
        """The sensitivity of all three sums together, in steps."""
        return self.of_mean.sensitivity

    @property
    def variance(self) -> float:
        """The noise variance of each sum, in squared steps."""
        return self.of_mean.variance

    def exact(self, rows: Sequence[Sequence[float]]) -> tuple[float, float, float]:
        """The three sums without noise, in steps."""
        mean = sum(step * row[0] for step, row in zip(self.steps, rows, strict=True))
        squares = sum(each * row[1] for each, row in zip(self.squares, rows, strict=True))
        third = sum(each * row[0] for each, row in zip(self.thirds, rows, strict=True))
        return mean, squares, third

    def read(self, sums: Array, largest: float) -> tuple[Array, Array, Array, tuple[float, float, float]]:
        """The mean, and the sums of G y(1-y) and of G y in units of its variance, noisy; and the noise variance of each.

        `largest` is the most that one record adds to the mean.
        """
        unit = largest / (max(self.steps) * self.lattice)
        square = self.per_step / self.lattice
        second, third = square / self.second_moment_scale, square / THIRD
        v = self.of_mean.variance
        return (
            sums[..., 0, 0] * unit,
            sums[..., 0, 1] * second,
            sums[..., 0, 2] * third,
            (v * unit**2, v * second**2, v * third**2),
        )

    def answer(self, rows: Rows) -> Rows:
        """One row: the three noisy sums, in whole steps."""
        return [self.of_mean.randomize([int(each) for each in self.exact(rows)])]
