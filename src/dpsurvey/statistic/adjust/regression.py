"""The generalised regression estimator of a mean from noisy sums of products.

A unit has regressors x_1..x_p and an answer y in [0, 1]. With z = (1, x_1 - 1/2, ..., x_p - 1/2, y - 1/2) the release is the
upper triangle of sum z z': 1 + q + q(q+1)/2 sums, q = p + 1, as one vector with the same noise on each.

*Sensitivity, add-remove.* Every entry of z z' is largest in size where all |z_a| = 1/2: L1 = 1 + q/2 + q(q+1)/8 and
L2^2 = 1 + q/4 + q(q+1)/32.

*Sensitivity, replace-one.* The number of units is fixed and not released. For z, z' let d = |z_a - z_a'| and s = |z_a + z_a'|,
s_a <= 1 - d_a. Linear entries move by d_a, squares by d_a s_a, products by at most (d_a s_b + s_a d_b)/2: all of them by at
most their value at s = 1 - d.
L1: sum d(2-d) + sum_{a<b} (d_a + d_b - 2 d_a d_b)/2 = S(q+3)/2 - S^2/2 - sum d^2/2 with S = sum d, and sum d^2 >= S^2/q; the
maximum over S is q(q+3)^2/(8(q+1)), reached by z = 1/2, z' = 1/2 - d for all coordinates alike.
L2^2: sum d^2(1 + (1-d)^2) + sum_{a<b} (d_a(1-d_b) + d_b(1-d_a))^2/4 is convex in every d_a (the second derivative of
2d^2 - 2d^3 + d^4 is 4(1 - 3d + 3d^2) > 0), so its maximum has k of the d_a at 1 and the others at 0: max_k k + k(q-k)/4, reached.
"""

from __future__ import annotations

import math

import numpy as np

from ...errors import BadValue
from ...mechanism.base import Norm
from ...privacy.relation import Relation
from ..estimators.interval import Array, truncated
from .answer import Adjusted, adjusted

WEAK = "weak regressors: their spread is not above the noise, so differences between respondents and others are not adjusted for"


def product_sensitivity(regressors: int, relation: Relation, norm: Norm) -> float:
    """The most that the sums of products of (1, x - 1/2, y - 1/2) move between neighbours; proof above.

    >>> product_sensitivity(2, "add-remove", "L1"), product_sensitivity(2, "replace-one", "L1")
    (4.0, 3.375)
    """
    if regressors < 1:
        raise BadValue("a regression has at least one regressor", given=f"regressors={regressors!r}")
    q = regressors + 1
    if relation == Relation.ADD_REMOVE:
        return 1.0 + q / 2.0 + q * (q + 1) / 8.0 if norm == "L1" else math.sqrt(1.0 + q / 4.0 + q * (q + 1) / 32.0)
    if norm == "L1":
        return q * (q + 3) ** 2 / (8.0 * (q + 1))
    return math.sqrt(max(k + k * (q - k) / 4.0 for k in range(1, q + 1)))


def greg(
    products: Array,
    noise_variance: float,
    means: Array,
    *,
    size: float | None = None,
    noise_kurtosis: float = 3.0,
    thinning: float = 1.0,
) -> Adjusted:
    """The mean of y in [0, 1], regressed on x with public population means: y_bar + (mean x - x_bar)'b.

    `products` (..., p+2, p+2) is the symmetric noisy matrix sum z z', z = (1, x - 1/2, y - 1/2), `noise_variance` that of every
    entry of its upper triangle; `size` is the number of units where it is public. b solves the noisy normal equations
    around the means with a ridge from the known noise: eigenvalues of x'x below 2 sqrt(p v) are raised to it.

    The errors are those of the residual e = y - b'x with the b that was used. With A the inverse of the raised x'x, K the
    noise covariance of x'y - x'x b, a the intercept and c = A (mean x - x_bar):

        sampling  (1-f) (1 + n (mean x - x_bar)'c) (sum e^2 + 2 tr(A K))/(n (n-p-1))
        noise     v (1 + |b|^2 + a^2)/n^2 + c'K c,  without a^2 where the size is public

    2 tr(A K) undoes that b was chosen by the noise that is also in sum e^2. Where x'x is raised, a sample that is off in x is
    not fully corrected: no matter for a sample drawn by chance, but not enough against nonresponse; the note says so.

    >>> x = np.linspace(0.0, 1.0, 101)
    >>> z = np.stack([np.ones(101), x - 0.5, 0.2 + 0.5 * x - 0.5])
    >>> float(greg(z @ z.T, 0.0, np.array([0.6])).estimate.round(6))
    0.5
    """
    p = products.shape[-1] - 2
    centre = np.asarray(means, dtype=np.float64) - 0.5
    if p < 1 or products.shape[-2] != p + 2 or centre.shape != (p,):
        raise BadValue(
            "products are a square matrix of 1, the regressors and y, with one mean for each regressor",
            given=f"a matrix {products.shape[-2:]} and {centre.size} means",
        )
    if not np.all(np.abs(centre) <= 0.5):
        raise BadValue("public means of the regressors lie in [0, 1]", given=f"means={np.asarray(means).tolist()}")
    entries = np.full((p + 2, p + 2), noise_variance)
    entries[0, 0] = noise_variance if size is None else 0.0
    units = np.full(products.shape[:-2], size, dtype=np.float64) if size is not None else products[..., 0, 0]
    n = np.maximum(units, 1.0)
    # Around the sample means: sums of products of deviations, whose noise is that of the entries to first order.
    first = products[..., 0, 1:]
    centred = products[..., 1:, 1:] - first[..., :, None] * first[..., None, :] / n[..., None, None]
    values, vectors = np.linalg.eigh(centred[..., :p, :p])
    ridge = 2.0 * math.sqrt(p * noise_variance)
    # An eigenvalue of zero is a regressor without spread: it explains nothing, and its coefficient is 0.
    raised = np.maximum(values, ridge)
    reciprocal = np.divide(1.0, raised, out=np.zeros_like(raised), where=raised > 1e-9 * n[..., None])
    inverse = np.einsum("...ik,...k,...jk->...ij", vectors, reciprocal, vectors)
    slope = np.einsum("...ij,...j->...i", inverse, centred[..., :p, p])
    mean_x, mean_y = first[..., :p] / n[..., None], first[..., p] / n
    intercept = mean_y - np.sum(slope * mean_x, axis=-1)
    estimate = 0.5 + intercept + np.sum(slope * centre, axis=-1)

    direction = np.concatenate([-slope, np.ones_like(intercept)[..., None]], axis=-1)
    residual = np.einsum("...i,...ij,...j->...", direction, centred, direction)
    gradient = _gradient_noise(slope, intercept, entries)
    overfit = 2.0 * np.einsum("...ij,...ji->...", inverse, gradient)
    all_in = np.concatenate([-intercept[..., None], direction], axis=-1)
    pairs = entries * (all_in[..., :, None] * all_in[..., None, :]) ** 2
    doubt = np.sqrt(2.0 * pairs.sum(axis=(-2, -1)) - np.einsum("...ii->...", pairs))
    most = n * ((1.0 + np.abs(slope).sum(axis=-1)) / 2.0) ** 2
    # How far the sample is from the population carries the errors of the slopes into the estimate.
    gap = centre - mean_x
    reach = 1.0 + n * np.einsum("...i,...ij,...j->...", gap, inverse, gap)
    sampling = thinning * reach * truncated(residual + overfit, doubt, most) / (n * np.maximum(n - p - 1.0, 1.0))

    row = entries[0] * all_in**2
    carried = np.einsum("...ij,...j->...i", inverse, gap)
    noise = row.sum(axis=-1) / n**2 + np.einsum("...i,...ij,...j->...", carried, gradient, carried)
    fourth = noise_kurtosis * np.sum(row**2, axis=-1) / n**4 if noise_kurtosis else np.zeros_like(noise)
    notes = [WEAK] if estimate.ndim == 0 and float(values.min(initial=np.inf)) < ridge else []
    silent = units < 5.0 * math.sqrt(entries[0, 0])
    return adjusted(estimate, sampling, noise, fourth, n, n - p - 1.0, notes, silent)


def _gradient_noise(slope: Array, intercept: Array, entries: Array) -> Array:
    """The noise covariance of x'y - x'x b around the means: every entry of x'x is shared by two equations."""
    p = slope.shape[-1]
    v = entries[1 : p + 1, 1 : p + 1]
    own = (
        entries[1 : p + 1, p + 1]
        + np.sum(v * slope[..., None, :] ** 2, axis=-1)
        + entries[0, 1 : p + 1] * intercept[..., None] ** 2
    )
    shared = v * slope[..., :, None] * slope[..., None, :]
    diagonal = np.eye(p, dtype=bool)
    return np.where(diagonal, own[..., :, None], shared)
