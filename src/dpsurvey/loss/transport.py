"""Transport bounds on hockey-stick divergences: sources of mass, sinks, and how they are matched.

For mu = sum a_s P_s and nu = sum b_t Q_t, any non-negative matching a_st, b_st of the masses gives
    integral (mu - nu)_+ <= sum a_st H_(b_st/a_st)(P_s || Q_t).
Every matching is valid, so a numerical search for a good one cannot break a bound. Proof: docs/designs/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..privacy.curve import Curve, Gaussian, ZeroConcentrated
from ..privacy.relation import Relation
from ..privacy.rounding import up
from .bound import Losses

Profile = Callable[[float], float]


def profile_of(curve: Curve) -> Profile:
    """H_y as a function of the threshold y >= 0, from a curve that holds in both orders.

    >>> round(profile_of(Gaussian(1.0))(0.0), 12), profile_of(Gaussian(1.0))(1e6) < 1e-30
    (1.0, True)
    """

    def at(threshold: float) -> float:
        if threshold >= 1.0:
            return curve.delta(min(math.log(threshold), 1e6)) if math.isfinite(threshold) else 0.0
        if threshold <= 0.0:
            return 1.0
        # H_y(P||Q) = 1 - y + y H_(1/y)(Q||P).
        return min(1.0, 1.0 - threshold + threshold * curve.delta(-math.log(threshold)))

    return at


def replacing(curve: Curve, losses: Losses) -> Profile:
    """H_y for one replaced record: two steps of a curve that holds for a record more or less alone."""
    return profile_of(curve.steps(2) if losses.base == Relation.ADD_REMOVE else curve)


def one_source(mass: float, *sinks: tuple[float, Profile]) -> float:
    """min over m1 + m2 = mass of m1 h1(c1/m1) + m2 h2(c2/m2), for two sinks (c, h): a convex search."""
    if mass <= 0.0:
        return 0.0
    # scipy.optimize is slow to import, and pure budgets never need it.
    from scipy.optimize import minimize_scalar

    (first, near), (second, far) = sinks

    def cost(share: float) -> float:
        one, two = mass * (1.0 - share), mass * share
        return (one * near(first / one) if one > 0.0 else 0.0) + (two * far(second / two) if two > 0.0 else 0.0)

    # Shares of the far sink: its log scale matters, since it may deserve very little.
    found = minimize_scalar(lambda log_share: cost(math.exp(log_share)), bounds=(-60.0, 0.0), method="bounded")
    shares = (0.0, 1.0, math.exp(float(found.x)))
    return min(1.0, up(min(cost(share) for share in shares)))


def several_sources(sources: Sequence[tuple[float, int]], total: float, base: Curve, *, rising: bool = False) -> float:
    """min of sum w h_k(y_k) over sum w y_k <= total, for sources of weight w at k steps from one sink.

    Families of thresholds that are tried: all equal; y_k = a^k, which is best for (epsilon, delta) bases; likelihood
    ratios of shifted Gaussians at one point, which is best for Gaussian ones. `rising`: the sinks are stacked, so that
    thresholds must not fall with k (docs/designs/with-replacement.md).
    """
    weights = np.array([weight for weight, _ in sources])
    steps = np.array([step for _, step in sources], dtype=float)
    if total <= 0.0:
        return 1.0
    curves = {step: profile_of(base.steps(step)) for weight, step in sources if weight >= 1e-18}
    mu = base.mu if isinstance(base, Gaussian) else math.sqrt(2.0 * base.rho) if isinstance(base, ZeroConcentrated) else 0.0
    families: list[Callable[[float], np.ndarray]] = [
        lambda at: np.exp(np.full(len(steps), at)),
        lambda at: np.exp(np.clip(steps * at, -600.0, 600.0)),
    ]
    if mu:
        families.append(lambda at: np.exp(np.clip(mu * steps * at - (mu * steps) ** 2 / 2.0, -600.0, 600.0)))

    def cost(family: Callable[[float], np.ndarray]) -> float:
        def thresholds(at: float) -> np.ndarray:
            return np.maximum.accumulate(family(at)) if rising else family(at)

        # The lower end of the search never asks for more than there is.
        found = thresholds(_solve(lambda at: float(weights @ thresholds(at)) * (1.0 + 1e-12) - total)).tolist()
        far = [weight for weight, _ in sources if weight < 1e-18]
        return math.fsum([w * curves[k](y) for (w, k), y in zip(sources, found, strict=True) if w >= 1e-18] + far)

    return min(1.0, up(min(cost(family) for family in families)))


def several_sinks(sinks: Sequence[tuple[float, int]], inclusion: float, alpha: float, base: Curve) -> float:
    """The other order: the mass that is left of the population without the target, split over the sinks in proportion."""
    left = 1.0 - alpha * (1.0 - inclusion)
    if left <= 0.0:
        return 0.0
    threshold = alpha * inclusion / left
    far = math.fsum(weight for weight, _ in sinks if weight < 1e-18)
    near = [(weight, step) for weight, step in sinks if weight >= 1e-18]
    cost = math.fsum(weight * profile_of(base.steps(step))(threshold) for weight, step in near) + far
    return min(1.0, up(left * cost / inclusion))


def _solve(rising: Callable[[float], float]) -> float:
    """The largest point found where a rising function is not above zero."""
    low, high = -500.0, 500.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rising(middle) <= 0.0 else (low, middle)
    return low
