"""Whether post-stratification pays for precision, in a simple random sample of public size: predicted from public figures.

Cell ratios would pay noise in every cell. The prediction is of one total and noisy cells beside it: most of the budget for the
plain mean, the rest for the pairs (sum y, sum 1-y) of the cells, which only say how much the mean of a cell differs, times how
far the sample misses its share W_g:

    m = A/n + sum_g d_g (W_g - n_g/n),   d_g = lambda_g D_g,   lambda_g = (1 - var D_g/D_g^2)+

with D_g = (a_g - (A/n) n_g)/(n W_g). The total moves by 1 under replace-one (L1) and has the share 0.7 of epsilon; the pairs of
all cells move by 2 and have 0.3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...errors import BadValue
from ...mechanism.base import Norm
from ..estimators.interval import Array
from .classes import checked_shares

TOTAL_SHARE, CELL_SHARE = 0.7, 0.3
# Cells below this many sd of their noisy count bring more noise than they save; at 5 sd coverage fell to 0.938 as well.
LEAST_SDS = 12.0


class Payoff(NamedTuple):
    """Whether post-stratification is predicted to pay, the sampling variance it saves and the noise variance it adds."""

    pays: bool
    gain: float
    noise_added: float


def pays(shares: Array, n: int, noise_variance: float, *, spread: float, explained: float, norm: Norm = "L1") -> Payoff:
    """The plan's rule, from public figures: post-stratify for precision only if R2 s2/n is more than the noise it adds.

    `noise_variance` is that of sum y with the whole budget; `spread` is s and `explained` the share R2 of s2 between cells,
    both on the scale [0, 1] and guessed or known from an earlier survey.

    >>> pays(np.full(6, 1 / 6), 1000, 0.08, spread=0.2, explained=0.3).pays
    True
    >>> pays(np.full(6, 1 / 6), 1000, 2.0, spread=0.2, explained=0.3).pays
    False
    """
    known = checked_shares(shares, len(shares), "shares")
    if not (n > 1 and noise_variance >= 0.0 and spread > 0.0 and 0.0 <= explained <= 1.0):
        raise BadValue(
            "a prediction needs n > 1, a noise variance >= 0, spread > 0, explained in [0, 1]",
            given=f"n={n!r}, noise_variance={noise_variance!r}, spread={spread!r}, explained={explained!r}",
        )
    # A share q of the budget makes scales 1/q times as large under L1, variances 1/q times under L2; pairs move by 2 or sqrt(2).
    power = 2 if norm == "L1" else 1
    total_noise = noise_variance / TOTAL_SHARE**power
    pair_noise = 2.0**power * noise_variance / CELL_SHARE**power
    used = known[n * known > LEAST_SDS * math.sqrt(2.0 * pair_noise)]
    between = explained * spread**2
    gap_noise = pair_noise / (n * used) ** 2
    kept = np.divide(between, between + gap_noise, out=np.zeros_like(gap_noise), where=between + gap_noise > 0.0)
    gain = 1.0 / n * between * float(np.sum(used * (2.0 * kept - kept**2)))
    product = float(
        np.sum(kept**2 * (2.0 * between * pair_noise / n**2 + 2.0 * gap_noise * (2.0 * pair_noise / n**2 + used / n)))
    )
    added = (total_noise - noise_variance) / n**2 + product
    return Payoff(bool(gain > added), gain, added)
