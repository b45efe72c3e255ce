"""Linear calibration of noisy cells to known shares; post-stratification and linear raking are two sets of indicators of it.

Cells c have indicators x_c and noisy sums with count n_c and total a_c; the population shares t of the indicators are
public. With M = sum n_c x_c x_c' the weights are g_c = x_c' M^+ t, the fit is h_c = x_c' M^+ sum x a, and

    m = sum_c g_c a_c - second-order noise bias
    V = (1-f) sum g_c^2 sum_{i in c} (y_i - h_c)^2  +  v sum g_c^2 [(1-h_c)^2 + (1/2-h_c)^2 + h_c^2].

*Why.* If the noise moves (a, n) by (da, dn), m moves by sum g_c (da_c - h_c dn_c) to first order; this is a sum of the
three noises of a cell with the coefficients g(1-h), g(1/2-h), -gh. To second order it moves by
sum g_c x_c' M^+ sum_b x_b dn_c (h_b dn_b - da_b), whose mean is sum g_c l_c 3v (h_c - 1/2) with the leverage
l_c = x_c' M^+ x_c, because var dn = 3v and cov(da, dn) = 3v/2; it is known but for h, and taken off.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..estimators.interval import Array, truncated
from .answer import Adjusted, adjusted
from .cells import LEVELS, NoisyCells, square_coefficients


def calibrated(
    cells: NoisyCells,
    indicators: Array,
    shares: Array,
    thinning: float,
    saturated: bool,
    notes: list[str],
    sampled: Array | None = None,
) -> Adjusted:
    """The mean of y calibrated to the shares of the indicators, with its errors.

    `thinning` is 1 - f, `saturated` says that every cell is fitted by its own mean. With `sampled`, the noisy number of all
    sampled units by cell (answers plus a fourth sum), the shares are those of the sample: cells are their own indicators,
    and the sampling error and the noise of the shares are added.
    """
    whole_sd = np.sqrt(3.0 * cells.variances.sum(axis=-1))
    # With all units together below 5 sd of their noise the data do not speak; below one, not even an estimate is made.
    silent, empty = cells.counts.sum(axis=-1) < 5.0 * whole_sd, cells.counts.sum(axis=-1) <= whole_sd
    sums = np.where(empty[..., None, None] & (cells.merged_parts > 0.0)[..., None], 1.0 + cells.noise_variance, cells.sums)
    cells = replace(cells, sums=sums)
    counts, variances = cells.counts, cells.variances
    gram = np.einsum("...cp,...c,...cq->...pq", indicators, counts, indicators)
    inverse = np.linalg.pinv(gram, rcond=1e-10, hermitian=True)
    weights = np.einsum("...cp,...pq,...q->...c", indicators, inverse, shares)
    fit = np.einsum("...cp,...pq,...dq,...d->...c", indicators, inverse, indicators, cells.totals, optimize=True)
    leverage = np.einsum("...cp,...pq,...cq->...c", indicators, inverse, indicators)
    estimate = np.sum(weights * cells.totals, axis=-1)
    # A mean of y lies in [0, 1]; a fit to margins may truly lie a little outside.
    within = np.clip(fit, 0.0, 1.0) if saturated else np.clip(fit, -1.0, 2.0)

    # A unit of a cell that is fitted by its own mean loses 1/n of its square: the leverage, never trusted above a half.
    freed = 1.0 / (1.0 - np.clip(leverage, 0.0, 0.5))
    coefficients = (LEVELS - within[..., None]) * weights[..., None]
    noise_of_fit = variances * np.sum((LEVELS - within[..., None]) ** 2, axis=-1) * np.maximum(leverage, 0.0)
    raw = np.sum(weights**2 * freed * (cells.squares(within) + noise_of_fit), axis=-1)
    spread = np.sum(square_coefficients(within) ** 2, axis=-1)
    doubt = np.sqrt(np.sum(weights**4 * freed**2 * variances * spread, axis=-1))
    largest = np.full_like(within, 0.25) if saturated else np.maximum(within**2, (1.0 - within) ** 2)
    most = np.sum(weights**2 * freed * largest * np.maximum(counts, 0.0), axis=-1)
    sampling = thinning * truncated(raw, doubt, most)

    correlated = weights
    if sampled is not None:
        whole = np.maximum(sampled.sum(axis=-1), 1.0)
        pull = np.where(sampled != 0.0, within - estimate[..., None], 0.0) / whole[..., None]
        sampling = sampling + thinning * np.sum(np.maximum(sampled, 0.0) * pull**2, axis=-1)
        # The units with an answer move the shares too; the fourth sum has the noise of one more component.
        coefficients = np.concatenate([coefficients + pull[..., None], pull[..., None]], axis=-1)
        correlated = weights - np.where(sampled != 0.0, 1.0 / whole[..., None], 0.0)
    estimate = estimate - np.sum(correlated * leverage * 3.0 * variances * (within - 0.5), axis=-1)

    noise = np.sum(variances * np.sum(coefficients**2, axis=-1), axis=-1)
    # Fourth cumulants add up: a cell of k parts has k times that of one sum, which is v^2 times the kurtosis.
    single = cells.kurtosis * cells.noise_variance * variances if cells.kurtosis else np.zeros_like(variances)
    fourth = np.sum(single * np.sum(coefficients**4, axis=-1), axis=-1)
    units = np.maximum(counts.sum(axis=-1), 1.0)
    used = np.sum(np.any(indicators != 0.0, axis=-2), axis=-1)
    return adjusted(estimate, sampling, noise, fourth, units, units - used, notes, silent | empty, empty)
