"""Formulas as the papers print them, for comparison and for the errata. No promise is ever made from them."""

from __future__ import annotations

import math

from ..privacy.rounding import log_mixture, up


def rounding_theorem(epsilon: float, rate: float) -> float:
    """Bun et al., Theorem 4.3: log(1 + 2r(e^2e - 1)) + log(1 + r(e^2e - 1)); valid, two to three times too large.

    >>> round(rounding_theorem(1.0, 0.1), 4)
    1.3172
    """
    if epsilon > 150.0:
        return up(4.0 * epsilon + math.log(2.0 * rate + math.exp(-2.0 * epsilon)) + math.log(rate + math.exp(-2.0 * epsilon)))
    spread = math.expm1(2.0 * epsilon)
    return up(math.log1p(2.0 * rate * spread) + math.log1p(rate * spread))


def sample_size_lemma(population: int, m: int, larger: int, epsilon: float) -> float:
    """Bun et al., Lemma B.1: log(1 + (m/(N+1))(e^2e - 1)) + |m - m'| e; true for add-remove mechanisms only.

    >>> round(sample_size_lemma(5, 2, 3, 1.0), 10)
    2.1409324776
    """
    return up(log_mixture((m / (population + 1), 2.0 * epsilon)) + abs(m - larger) * epsilon)


def advantage(epsilon: float) -> float:
    """Bun et al., Section 4.2: e^epsilon - 1; vacuous from epsilon = log 2, and tanh(epsilon/2) is exact.

    >>> round(advantage(1.0), 4)
    1.7183
    """
    return math.expm1(epsilon)


def allocation_slack(epsilon: float) -> float:
    """Bun et al., Proposition 4.2: 1/epsilon^2; wrong, the variance of the noise is 2/epsilon^2.

    >>> allocation_slack(0.5)
    4.0
    """
    return 1.0 / epsilon**2


def cluster_test(fraction: float, detects: float, loss_inside: float) -> float:
    """Bun et al., Theorem 5.3: log(1 + (e^e'' - 1) f/(f + e^-e'(1 - f))); false as a lower bound with that orientation.

    >>> round(cluster_test(0.5, 1.0, 1.0), 10)
    0.8136663235
    """
    return math.log1p(math.expm1(loss_inside) * fraction / (fraction + math.exp(-detects) * (1.0 - fraction)))
