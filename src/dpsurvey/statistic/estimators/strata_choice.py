"""Which estimator serves the whole of a stratified sample: the one with the smallest half width to expect, from public figures.

Where nothing declares how values vary, they are supposed to vary as in many surveys; what that costs where they do not is in
docs/proofs/estimation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...mechanism.weighted_strata import THIRD
from .fixed_size import FixedSizes, worst_variance
from .interval import Array, Z, student, truncated
from .names import BY_STRATUM, POOLED, SEPARATE_VARIANCE, WEIGHTED
from .strata_means import BOUGHT

# What is supposed where it is not declared: the mean and deviation of values on [0, 1], and the part of their variance that lies
# between strata; of yes and no less of it does.
SUPPOSED = (0.3, 0.1)
BETWEEN, BETWEEN_OF_SHARES = 0.2, 0.05
# Strata of fewer units say too little of their own proportions to be put together from these without need.
FEW_OF_SHARES = 10.0
# A variance is bought from so many units on; it and weighted squares where their own noise is small beside what they measure.
LEAST_TO_BUY, DOUBT = 100.0, 0.5
# By stratum all that stratification gains is in the interval, so by supposed figures it may be expected to be so much wider.
PREFERRED = 1.1
STRATA_PUBLISHED = "by-stratum: the strata are published by the same plan, and serve the whole at no further cost"


@dataclass(frozen=True)
class Choice:
    """An estimator, and the half widths that were predicted of it and of the others, as parts of the range of y."""

    name: str
    widths: Mapping[str, float]
    supposed: bool

    @property
    def reason(self) -> str:
        """Why it was chosen, in words."""
        own = self.widths[self.name]
        others = ", ".join(f"{width / own:.2f} with {name}" for name, width in self.widths.items() if name != self.name)
        figures = "figures that are supposed" if self.supposed else "declared figures"
        return f"{self.name}: intervals are expected to be {others} times as wide, by {figures}"


@dataclass(frozen=True)
class Strata:
    """What is declared or supposed of the values of each stratum: their means and variances on [0, 1]."""

    sizes: FixedSizes
    means: Array
    spreads: Array

    @classmethod
    def alike(cls, sizes: FixedSizes, mean: float, spread: float, between: float) -> Strata:
        """Strata of one spread whose means differ by a part of all variance, every other one up and down."""
        sign = np.where(np.arange(len(sizes.shares)) % 2 == 0, 1.0, -1.0)
        sign = sign - sizes.shares @ sign
        sign /= math.sqrt(float(sizes.shares @ sign**2))
        means = np.clip(mean + math.sqrt(between * spread) * sign, 0.0, 1.0)
        return cls(sizes, means, np.full(len(sign), spread * (1.0 - between)))

    @property
    def mean(self) -> float:
        """The mean of the whole."""
        return float(self.sizes.shares @ self.means)

    @property
    def around(self) -> Array:
        """The mean square of each stratum around the mean of the whole."""
        return np.asarray(self.spreads + (self.means - self.mean) ** 2)


def for_means(strata: Strata, v: float, weighted: float, *, alone: bool, supposed: bool) -> Choice:
    """The estimator of a mean under noise of variance `v` on a sum of one stratum, and `weighted` on a weighted sum of all.

    `alone` says that each record moves a variance alone.
    """
    found = half_widths(strata, v, weighted)
    # Three sums, or a bought variance, only where their own noise is small beside what they measure.
    if not alone or not _noise_of_squares(strata, weighted) < DOUBT * _squares(strata):
        del found[WEIGHTED]
    if not alone or strata.sizes.n < LEAST_TO_BUY or not _noise_of_bought(strata, weighted) < DOUBT * _within(strata):
        del found[SEPARATE_VARIANCE]
    return _least(found, supposed)


def half_widths(strata: Strata, v: float, weighted: float) -> dict[str, float]:
    """The half width to expect of every estimator of a mean."""
    return {
        POOLED: _pooled(strata, weighted),
        BY_STRATUM: _by_stratum(strata, v),
        WEIGHTED: _weighted(strata, weighted),
        SEPARATE_VARIANCE: _bought(strata, weighted),
    }


def _least(found: Mapping[str, float], supposed: bool) -> Choice:
    """The narrowest; by supposed figures the strata, where they are nearly as narrow."""
    best = min(found, key=lambda name: found[name])
    preferred = supposed and found[BY_STRATUM] <= PREFERRED * found[best]
    return Choice(BY_STRATUM if preferred else best, found, supposed)


def for_shares(strata: Strata, v: float, weighted: float, *, supposed: bool) -> Choice:
    """Whether a proportion of the whole is made of one noisy sum or of noisy strata."""
    sizes, p = strata.sizes, strata.mean
    one = float(worst_variance(np.asarray(p), sizes)) + weighted * float(sizes.per_unit.max()) ** 2
    weights = sizes.shares**2 * (1.0 - sizes.rates) / np.maximum(sizes.takes - 1.0, 1.0) * sizes.spread_factor
    several = float(weights @ (strata.means * (1.0 - strata.means))) + v * float(np.sum(sizes.per_unit**2))
    t = float(student(max(sizes.n - len(sizes.takes), 1.0)))
    return _least({POOLED: Z * math.sqrt(one), BY_STRATUM: t * math.sqrt(several)}, supposed)


def _pooled(strata: Strata, v: float) -> float:
    sizes, m = strata.sizes, strata.mean
    noise = v * float(sizes.per_unit.max()) ** 2
    sd = math.sqrt((1.0 - 2.0 * m) ** 2 * noise + noise + 2.0 * noise**2)
    spread = truncated(np.asarray(sizes.shares @ strata.around), sd, m * (1.0 - m) + noise)
    return Z * math.sqrt(float(np.max(sizes.per_unit * (1.0 - sizes.rates))) * float(spread) + noise)


def _weighted(strata: Strata, v: float) -> float:
    sampling = truncated(np.asarray(_squares(strata)), _noise_of_squares(strata, v))
    return Z * math.sqrt(float(sampling) + v * _reach(strata.sizes) ** 2)


def _reach(sizes: FixedSizes) -> float:
    """The most that a unit moves all three sums of weighted squares, over what the mean is made of."""
    each = sizes.per_unit * (1.0 - sizes.rates)
    return float(np.max(sizes.per_unit * (1.0 + THIRD * each / max(float(each.max()), 1e-300))))


def _squares(strata: Strata) -> float:
    """The sum of a_h^2 (1-f_h) (y - m)^2 over the sample."""
    sizes = strata.sizes
    return float(np.sum(sizes.takes * sizes.per_unit**2 * (1.0 - sizes.rates) * strata.around))


def _noise_of_squares(strata: Strata, v: float) -> float:
    sizes = strata.sizes
    most = float(np.max(sizes.per_unit * (1.0 - sizes.rates))) * _reach(sizes)
    return math.sqrt(v) * most * math.sqrt(((1.0 - 2.0 * strata.mean) / THIRD) ** 2 + 1.0)


def _by_stratum(strata: Strata, v: float) -> float:
    sizes, own = strata.sizes, v / strata.sizes.takes**2
    doubt = np.where(sizes.takes < 2.0, 0.0, (1.0 - 2.0 * strata.means) ** 2 * own + own + 2.0 * own**2)
    sampling = truncated(np.asarray(_within(strata)), math.sqrt(float(_scale(sizes) ** 2 @ doubt)))
    t = float(student(max(sizes.n - len(sizes.takes), 1.0)))
    return t * math.sqrt(float(sampling) + float(sizes.shares**2 @ own))


def _bought(strata: Strata, v: float) -> float:
    sizes, doubt = strata.sizes, _noise_of_bought(strata, v)
    noise = v * (float(sizes.per_unit.max()) / (1.0 - BOUGHT)) ** 2
    whole = max(float(truncated(np.asarray(_within(strata)), doubt)) + noise, 1e-300)
    t = float(student(max(sizes.n - len(sizes.takes), 1.0))) + (Z**3 + Z) / 8.0 * min((doubt / whole) ** 2, 0.1)
    return t * math.sqrt(whole)


def _noise_of_bought(strata: Strata, v: float) -> float:
    return math.sqrt(v) / BOUGHT * float(np.max(_scale(strata.sizes) / strata.sizes.takes))


def _within(strata: Strata) -> float:
    """The variance of the mean inside strata; a stratum of one unit adds the most it can have."""
    return float(_scale(strata.sizes) @ np.where(strata.sizes.takes < 2.0, 0.25, strata.spreads))


def _scale(sizes: FixedSizes) -> Array:
    return np.asarray(sizes.shares**2 * (1.0 - sizes.rates) / sizes.takes)


def with_ranges(sizes: FixedSizes, ranges: Array) -> FixedSizes:
    """Strata whose values lie on ranges of their own: they count by share times range."""
    return replace(sizes, shares=sizes.shares * ranges / float(sizes.shares @ ranges))
