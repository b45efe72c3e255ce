"""Intervals of a proportion, from its estimate, standard error and degrees of freedom.

t is Student's value for the design's degrees of freedom, n_e = p(1-p)/se^2 the effective sample size:

    mean        p -+ t se
    logit       on the scale log(p/(1-p)), with the standard error se/(p(1-p)); also called xlogit
    asin        on the scale arcsin(sqrt p), with the standard error se/(2 sqrt(p(1-p)))
    beta        Clopper-Pearson for n_e (t of n-1 / t)^2 trials (Korn and Graubard 1998, Survey Methodology 24)
    wilson      Wilson's score interval for n_e trials, with t
    likelihood  where the deviance rises by t^2 times its design effect (Rao and Scott 1984, Ann. Stat. 12), as R's
                survey reads it from a coarse table; exact-likelihood solves the same equation to rounding

A proportion lies in [0, 1] and so do its standard error and its interval; nothing is in percent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import betaincinv, expit, logit

from ..errors import BadValue
from .columns import Array
from .estimate import critical
from .profile import deviance_interval, table_interval


@dataclass(frozen=True)
class Proportion:
    """An estimated proportion and what its intervals need: n rows, the degrees of freedom and the level."""

    p: float
    se: float
    n: int
    df: float
    level: float

    @property
    def t(self) -> float:
        """The critical value."""
        return critical(self.df, self.level)

    @property
    def effective_n(self) -> float:
        """p(1-p)/se^2; the number of rows where the sample says nothing about the spread."""
        return self.p * (1.0 - self.p) / self.se**2 if self.se > 0.0 and 0.0 < self.p < 1.0 else float(self.n)


def mean_interval(at: Proportion) -> tuple[float, float]:
    """p -+ t se; it may leave [0, 1].

    >>> [round(end, 4) for end in mean_interval(Proportion(0.3, 0.05, 100, math.inf, 0.95))]
    [0.202, 0.398]
    """
    return at.p - at.t * at.se, at.p + at.t * at.se


def logit_interval(at: Proportion) -> tuple[float, float]:
    """The interval of log(p/(1-p)), turned back; NaN for an estimate of 0 or 1.

    >>> [round(end, 4) for end in logit_interval(Proportion(0.3, 0.05, 100, math.inf, 0.95))]
    [0.2118, 0.406]
    """
    if not 0.0 < at.p < 1.0:
        return math.nan, math.nan
    half = at.t * at.se / (at.p * (1.0 - at.p))
    middle = float(logit(at.p))
    return float(expit(middle - half)), float(expit(middle + half))


def asin_interval(at: Proportion) -> tuple[float, float]:
    """The interval of arcsin(sqrt p), turned back; NaN for an estimate of 0 or 1.

    >>> [round(end, 4) for end in asin_interval(Proportion(0.3, 0.05, 100, math.inf, 0.95))]
    [0.2073, 0.4018]
    """
    if not 0.0 < at.p < 1.0:
        return math.nan, math.nan
    half = at.t * at.se / (2.0 * math.sqrt(at.p * (1.0 - at.p)))
    # Past the ends of the scale the sine would turn back and cut the interval short.
    low, high = max(math.asin(math.sqrt(at.p)) - half, 0.0), min(math.asin(math.sqrt(at.p)) + half, math.pi / 2.0)
    return math.sin(low) ** 2, math.sin(high) ** 2


def beta_interval(at: Proportion) -> tuple[float, float]:
    """Clopper-Pearson for the effective sample size, corrected for the degrees of freedom.

    >>> [round(end, 4) for end in beta_interval(Proportion(0.3, 0.05, 100, 99.0, 0.95))]
    [0.2048, 0.4098]
    """
    trials = at.effective_n * (critical(at.n - 1.0, at.level) / at.t) ** 2
    successes, failures, tail = trials * at.p, trials * (1.0 - at.p), 0.5 - 0.5 * at.level
    low = float(betaincinv(successes, failures + 1.0, tail)) if at.p > 0.0 else 0.0
    high = float(betaincinv(successes + 1.0, failures, 1.0 - tail)) if at.p < 1.0 else 1.0
    return low, high


def wilson_interval(at: Proportion) -> tuple[float, float]:
    """Wilson's score interval for the effective sample size.

    >>> [round(end, 4) for end in wilson_interval(Proportion(0.3, 0.05, 100, math.inf, 0.95))]
    [0.2125, 0.405]
    """
    spread = at.t**2 / at.effective_n
    middle = (at.p + 0.5 * spread) / (1.0 + spread)
    half = math.sqrt(spread * (at.p * (1.0 - at.p) + 0.25 * spread)) / (1.0 + spread)
    return middle - half, middle + half


def exact_likelihood_interval(at: Proportion) -> tuple[float, float]:
    """Where 2 n_e KL(p, q) = t^2 n/(n-1), KL(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q)); NaN for an estimate of 0 or 1.

    >>> [round(end, 4) for end in exact_likelihood_interval(Proportion(0.3, 0.05, 100, math.inf, 0.95))]
    [0.2086, 0.4035]
    """
    if not 0.0 < at.p < 1.0 or math.isnan(at.t) or at.n < 2:
        return math.nan, math.nan
    return deviance_interval(at.p, 0.5 * at.t**2 / at.effective_n * at.n / (at.n - 1.0))


INTERVALS: dict[str, Callable[[Proportion], tuple[float, float]]] = {
    "mean": mean_interval,
    "logit": logit_interval,
    "xlogit": logit_interval,
    "asin": asin_interval,
    "beta": beta_interval,
    "wilson": wilson_interval,
    "exact-likelihood": exact_likelihood_interval,
}


def proportion_interval(at: Proportion, method: str, weights: Array, y: Array, scale: float) -> tuple[float, float]:
    """The interval by one method. Only "likelihood" looks at the rows, whose weights it divides by `scale`.

    >>> import numpy as np
    >>> at = Proportion(0.3, 0.05, 100, math.inf, 0.95)
    >>> proportion_interval(at, "mean", np.empty(0), np.empty(0), 1.0) == mean_interval(at)
    True
    """
    if method == "likelihood":
        if not 0.0 < at.p < 1.0 or not at.se > 0.0 or math.isnan(at.t):
            return math.nan, math.nan
        return table_interval(weights / scale, y, at.se, at.t)
    if method not in INTERVALS:
        raise BadValue(
            "the interval method is unknown", given=f"method={method!r}", hint="use one of likelihood, " + ", ".join(INTERVALS)
        )
    return INTERVALS[method](at)
