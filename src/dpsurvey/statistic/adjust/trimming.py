"""Public weights with a long tail: cutting them, or drawing them towards their mean, against noise that grows with the largest.

All of this is decided by the plan from the frame's public inclusion probabilities, before any answer is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...errors import BadValue
from ..estimators.interval import Array, Z
from .answer import Adjusted


@dataclass(frozen=True)
class Trimmed:
    """Weights cut at `largest`; `share_cut` is B = 1 - sum pi min(w, largest)/N, the part of the population they lose."""

    weights: Array
    largest: float
    share_cut: float

    def bias_bound(self, mean: float) -> float:
        """B/(1-B) max(m, 1-m): the most by which a mean of y in [0, 1] can be off, for the plan.

        With kept shares k_i = pi_i min(w_i, largest), the estimate is about m' = sum k y/sum k, and
        m = (1-B) m' + B m'' with m'' in [0, 1] the mean of what was cut. So m' - m = B/(1-B) (m - m'').
        """
        return self.share_cut / (1.0 - self.share_cut) * max(mean, 1.0 - mean)

    def widened(self, answer: Adjusted) -> Adjusted:
        """The answer with an interval for the untrimmed mean: if [low, high] holds m', then [(1-B) low, (1-B) high + B] holds m.

        This is m = (1-B) m' + B m'' at both ends, and lies inside what adding `bias_bound` on both sides would give.
        """
        kept = 1.0 - self.share_cut
        low, high = kept * answer.low, kept * answer.high + self.share_cut
        return Adjusted(answer.estimate, answer.se_sampling, answer.se_noise, np.asarray(low), np.asarray(high), answer.notes)


def trim(weights: Array, tau: float) -> Trimmed:
    """The public weights w = 1/pi of all units of the frame, none above tau.

    >>> cut = trim(np.array([1.0, 1.0, 2.0, 8.0]), 4.0)
    >>> cut.share_cut, cut.bias_bound(0.5)
    (0.125, 0.07142857142857142)
    """
    known = _checked(weights)
    if not (math.isfinite(tau) and tau > 0.0):
        raise BadValue("weights are cut at a positive number", given=f"tau={tau!r}")
    kept = np.minimum(known, tau)
    # pi w = 1 for a unit that is not cut, so its part of the sum is exact and B is 0 when nothing is cut.
    return Trimmed(kept, float(kept.max()), float(np.mean(1.0 - kept / known)))


def choose_trim(weights: Array, *, spread: float, mean: float, noise_variance: float) -> Trimmed:
    """The plan's rule: of all cuts whose bias bound is below a third of the predicted error, the one with the narrowest interval.

    `noise_variance` is that of one sum in units of w/w_max; `mean` and `spread` are public guesses on [0, 1]. Predicted are

        sampling  spread^2 sum (1-pi) pi w^2/(sum pi w)^2,   noise  v w_max^2 [(1-m)^2 + (1/2-m)^2 + m^2]/(sum pi w)^2

    with the cut weights, and an interval of 2 z se (1-B) + B. Without a cut that keeps the rule, nothing is cut.

    >>> w = np.array([2.0] * 900 + [50.0] * 10)
    >>> [round(choose_trim(w, spread=0.3, mean=0.3, noise_variance=v).largest) for v in (0.02, 20.0)]
    [26, 5]
    """
    known = _checked(weights)
    if not (0.0 <= mean <= 1.0 and spread >= 0.0 and noise_variance >= 0.0):
        raise BadValue(
            "a prediction needs mean in [0, 1], spread and noise_variance not negative",
            given=f"mean={mean!r}, spread={spread!r}, noise_variance={noise_variance!r}",
        )
    best, narrowest = trim(known, float(known.max())), math.inf
    for tau in np.geomspace(known.min(), known.max(), 201):
        cut = trim(known, float(tau))
        represented = float(np.sum(cut.weights / known))
        sampling = spread**2 * float(np.sum((1.0 - 1.0 / known) * cut.weights**2 / known)) / represented**2
        noise = noise_variance * cut.largest**2 * ((1.0 - mean) ** 2 + (0.5 - mean) ** 2 + mean**2) / represented**2
        se = math.sqrt(sampling + noise)
        width = 2.0 * Z * se * (1.0 - cut.share_cut) + cut.share_cut
        if (cut.share_cut == 0.0 or cut.bias_bound(mean) < se / 3.0) and width < narrowest:
            best, narrowest = cut, width
    return best


class Shrinkage(NamedTuple):
    """Weights lambda w + (1 - lambda) w_mean: lambda, and the mean squared error of the total without sampling."""

    factor: float
    mse: float


def shrinkage(bias: float, mean_weight: float, largest_weight: float, noise_variance: float) -> Shrinkage:
    """How far to draw public weights towards their mean, for the least bias and noise together.

    `bias` is B = sum (w - w_mean) y, from an earlier public survey or a noisy sum with its noise variance taken off B^2;
    `noise_variance` is kappa, that of sum y with weights of 1. With d = w_max - w_mean,

        MSE(lambda) = (1-lambda)^2 B^2 + kappa (w_mean + lambda d)^2
        lambda*     = (B^2 - kappa d w_mean)/(B^2 + kappa d^2), held in [0, 1].

    An interval then needs (1 - lambda) times a bound of |B| on both sides.

    >>> shrinkage(100.0, 2.0, 12.0, 1.0).factor.__round__(4)
    0.9881
    """
    if not (0.0 < mean_weight <= largest_weight < math.inf and noise_variance >= 0.0 and math.isfinite(bias)):
        raise BadValue(
            "shrinkage needs 0 < mean weight <= largest weight and a noise variance that is not negative",
            given=f"mean_weight={mean_weight!r}, largest_weight={largest_weight!r}, noise_variance={noise_variance!r}",
        )
    excess = largest_weight - mean_weight
    whole = bias**2 + noise_variance * excess**2
    # Without bias and noise, or with equal weights and no bias, every lambda is as good: keep the weights.
    factor = 1.0 if whole == 0.0 else min(max((bias**2 - noise_variance * excess * mean_weight) / whole, 0.0), 1.0)
    return Shrinkage(factor, (1.0 - factor) ** 2 * bias**2 + noise_variance * (mean_weight + factor * excess) ** 2)


def _checked(weights: Array) -> Array:
    known = np.asarray(weights, dtype=np.float64)
    if known.ndim != 1 or known.size == 0 or not np.all(np.isfinite(known)) or np.any(known < 1.0):
        raise BadValue(
            "weights are one over the inclusion probabilities: a list of numbers, 1 or more", hint="give all units of the frame"
        )
    return known
