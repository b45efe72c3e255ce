"""Post-stratification for precision, simple random sample of public size n: one total and noisy cells beside it.

Cell ratios would pay noise in every cell. Here most of the budget goes to the plain mean and the rest to the pairs
(sum y, sum 1-y) of the cells, which only say how much the mean of a cell differs, times how far the sample misses its share:

    m = A/n + sum_g d_g (W_g - n_g/n) + sum_g d_g' v (1 - 2m)/(n W_g n) + (1-f)/n sum_g d_g (1 - W_g)
    d_g = lambda_g D_g,   D_g = (a_g - (A/n) n_g)/(n W_g),   lambda_g = (1 - var D_g/D_g^2)+

The denominator n W_g is public. The third term is minus the covariance of the noises of d_g and n_g, by Stein's lemma with the
slope d_g' = 1 + var D_g/D_g^2 of d_g as a function of D_g (0 where lambda_g is 0). The last one is minus the
bias of a public denominator: D_g is n_g/(n W_g) times the difference of a mean, and the mean of n_g/(n W_g) (W_g - n_g/n) is
-(1-f)(1 - W_g)/n; its square adds 2 ((1-f)/n)^2 sum_g d_g^2 (1 - W_g)^2 to the sampling variance.

*Release.* (sum y, sum y(1-y)): replace-one L1 1 (statistic/query.py), with the share 0.7 of epsilon; the pairs of all cells
are cells with two sums (`cell_sensitivity`): replace-one L1 2, with the share 0.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...errors import BadValue
from ..estimators.interval import Array, truncated
from .answer import Adjusted, adjusted
from .classes import checked_shares

TOTAL_SHARE, CELL_SHARE = 0.7, 0.3
# Cells below this many sd of their noisy count bring more noise than they save; at 5 sd coverage fell to 0.938 as well.
LEAST_SDS = 12.0


@dataclass(frozen=True)
class NoisyTotal:
    """Noisy sum of y and of y(1-y) over a simple random sample of public size, with their noise variances."""

    total: Array
    second: Array
    total_noise: float
    second_noise: float
    size: int
    rate: float = 0.0


def cells_for_precision(whole: NoisyTotal, pairs: Array, pair_noise: float, shares: Array, *, laplace: bool = True) -> Adjusted:
    """The mean corrected for how far the sample's cells miss their public shares, with its errors and 95 % interval.

    `pairs` (..., cells, 2) are noisy sums of y and 1 - y by cell, each with noise variance `pair_noise`. Only cells with
    n W_g above 12 sd of their noisy count are used; with none, this is the plain mean.
    The sampling variance is that of y - sum_g d_g 1{g} with the d_g that were used:

        s2 - sum W_g (2 d_g D_g - 2 d_g' var D_g - d_g^2) - (sum W_g d_g)^2,  over n - 1 - number of cells used;

    2 d_g' var D_g undoes that d_g was chosen by the noise of D_g (Stein's lemma again).

    >>> whole = NoisyTotal(np.array(520.0), np.array(200.0), 2.0, 2.0, size=1000)
    >>> answer = cells_for_precision(whole, np.array([[320.0, 80.0], [200.0, 400.0]]), 20.0, np.array([0.5, 0.5]))
    >>> float(answer.estimate.round(3))
    0.565
    """
    known = checked_shares(shares, pairs.shape[-2], "shares")
    n = float(whole.size)
    used = n * known > LEAST_SDS * math.sqrt(2.0 * pair_noise)
    expected = np.where(used, n * known, 1.0)
    plain = whole.total / n
    middle = np.clip(plain, 0.0, 1.0)
    counts = pairs.sum(axis=-1)
    gap = np.where(used, (pairs[..., 0] - plain[..., None] * counts) / expected, 0.0)
    gap_noise = np.where(used, pair_noise * ((1.0 - middle) ** 2 + middle**2)[..., None] / expected**2, 0.0)
    shrunk = np.where(used, np.maximum(1.0 - gap_noise / np.maximum(gap**2, 1e-300), 0.0), 0.0)
    effect = shrunk * gap
    slope = np.where(shrunk > 0.0, 2.0 - shrunk, 0.0)
    missed = known - counts / n
    together = np.sum(slope * pair_noise * (1.0 - 2.0 * middle)[..., None] / (expected * n), axis=-1)
    thinned = (1.0 - whole.rate) / n
    curved = effect * thinned * (1.0 - known)
    estimate = plain + np.sum(effect * missed + curved, axis=-1) + together

    spread = middle * (1.0 - middle) + whole.total_noise / n**2 - whole.second / n
    explained = np.sum(known * (2.0 * effect * gap - 2.0 * slope * gap_noise - effect**2), axis=-1)
    explained = explained + np.sum(known * effect, axis=-1) ** 2
    doubt = (1.0 - 2.0 * middle) ** 2 * whole.total_noise / n**2 + whole.second_noise / n**2 + 2.0 * whole.total_noise**2 / n**4
    doubt = doubt + np.sum((2.0 * known * (effect + slope * (gap - effect))) ** 2 * gap_noise, axis=-1)
    left = max(n - 1.0 - float(used.sum()), 1.0)
    within = truncated(spread - explained, np.sqrt(doubt), middle * (1.0 - middle) + whole.total_noise / n**2)
    sampling = (1.0 - whole.rate) * within / left + 2.0 * np.sum(curved**2, axis=-1)
    # The noise of d_g times that of n_g; times the sampling error of n_g it is in the variance of y - sum d_g 1{g}.
    product = np.sum(slope**2 * gap_noise * 2.0 * pair_noise / n**2, axis=-1)
    noise = whole.total_noise / n**2 + 2.0 * pair_noise * np.sum(effect**2, axis=-1) / n**2 + product
    fourth = np.zeros_like(noise)
    if laplace:
        fourth = 3.0 * (whole.total_noise / n**2) ** 2 + 6.0 * pair_noise**2 * np.sum(effect**4, axis=-1) / n**4
    return adjusted(estimate, sampling, noise, fourth, np.asarray(n), np.asarray(left), [])


class Payoff(NamedTuple):
    """Whether post-stratification is predicted to pay, the sampling variance it saves and the noise variance it adds."""

    pays: bool
    gain: float
    noise_added: float


def pays(
    shares: Array, n: int, noise_variance: float, *, spread: float, explained: float, rate: float = 0.0, laplace: bool = True
) -> Payoff:
    """The plan's rule, from public figures: post-stratify for precision only if R2 s2/n is more than the noise it adds.

    `noise_variance` is that of sum y with the whole budget; `spread` is s and `explained` the share R2 of s2 between cells,
    both on the scale [0, 1] and guessed or known from an earlier survey.

    >>> pays(np.full(6, 1 / 6), 1000, 0.08, spread=0.2, explained=0.3).pays
    True
    >>> pays(np.full(6, 1 / 6), 1000, 2.0, spread=0.2, explained=0.3).pays
    False
    """
    known = checked_shares(shares, len(shares), "shares")
    if not (n > 1 and noise_variance >= 0.0 and spread > 0.0 and 0.0 <= explained <= 1.0 and 0.0 <= rate <= 1.0):
        raise BadValue(
            "a prediction needs n > 1, a noise variance >= 0, spread > 0, explained and rate in [0, 1]",
            given=f"n={n!r}, noise_variance={noise_variance!r}, spread={spread!r}, explained={explained!r}, rate={rate!r}",
        )
    # A share q of the budget makes Laplace scales 1/q times as large, Gaussian variances 1/q times; pairs move by 2 or sqrt(2).
    total_noise = noise_variance / TOTAL_SHARE ** (2 if laplace else 1)
    pair_noise = (4.0 if laplace else 2.0) * noise_variance / CELL_SHARE ** (2 if laplace else 1)
    used = known[n * known > LEAST_SDS * math.sqrt(2.0 * pair_noise)]
    between = explained * spread**2
    gap_noise = pair_noise / (n * used) ** 2
    kept = np.divide(between, between + gap_noise, out=np.zeros_like(gap_noise), where=between + gap_noise > 0.0)
    gain = (1.0 - rate) / n * between * float(np.sum(used * (2.0 * kept - kept**2)))
    product = float(
        np.sum(kept**2 * (2.0 * between * pair_noise / n**2 + 2.0 * gap_noise * (2.0 * pair_noise / n**2 + used / n)))
    )
    added = (total_noise - noise_variance) / n**2 + product
    return Payoff(bool(gain > added), gain, added)
