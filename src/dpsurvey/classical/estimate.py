"""What an estimation answers: the estimate, its standard error and its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri, stdtrit

from ..errors import BadValue


@dataclass(frozen=True)
class Estimate:
    """A survey estimate without privacy.

    `df` are the degrees of freedom of the design, `level` is the level of the interval from `ci_low` to `ci_high`.
    `deff` compares the variance with that of a simple random sample of as many rows without replacement,
    `deff_replace` with one drawn with replacement; both are None where no such comparison is made.

    >>> Estimate(10.0, 0.5, 30.0, 9.0, 11.0).cv
    0.05
    """

    estimate: float
    se: float
    df: float
    ci_low: float
    ci_high: float
    level: float = 0.95
    deff: float | None = None
    deff_replace: float | None = None

    @property
    def cv(self) -> float:
        """The coefficient of variation, se/estimate; NaN for an estimate of 0."""
        return self.se / self.estimate if self.estimate != 0.0 else math.nan


def critical(df: float, level: float) -> float:
    """The value that a Student t variable exceeds with chance (1-level)/2; the normal one for df = inf, NaN for df < 1.

    >>> round(critical(math.inf, 0.95), 6), round(critical(10, 0.95), 6)
    (1.959964, 2.228139)
    """
    if not 0.0 < level < 1.0:
        raise BadValue("the confidence level is out of range", given=f"level={level}", hint="use a level between 0 and 1")
    upper = 0.5 + 0.5 * level
    if df == math.inf:
        return float(ndtri(upper))
    return float(stdtrit(df, upper)) if df >= 1.0 else math.nan


def standard_error(variance: float) -> float:
    """The root of a variance; NaN where an unbiased estimator came out below zero.

    >>> standard_error(4.0)
    2.0
    """
    return math.sqrt(variance) if variance >= 0.0 else math.nan
