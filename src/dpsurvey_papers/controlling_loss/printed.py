"""Formulas as the papers print them, for comparison and for the errata. No guarantee is ever made from them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpsurvey.errors import BadValue


def sampled(rate: float, epsilon: float) -> float:
    """log(1 + rate (e^epsilon - 1)), for any epsilon.

    >>> round(sampled(0.1, 1.0), 10), sampled(0.5, 900.0) > 899.0
    (0.1585650787, True)
    """
    if epsilon < 30.0:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate + (1.0 - rate) * math.exp(-epsilon))


def sampling_theorem(epsilon: float, rate: float) -> float:
    """Bun et al., Theorem 2.2: log(1 + (m/n)(e^e - 1)) for replaced records; right, and exact.

    >>> round(sampling_theorem(1.0, 0.1), 10)
    0.1585650787
    """
    return math.log1p(rate * math.expm1(epsilon))


def linear_rule(epsilon: float, rate: float) -> float:
    """Bun et al., Section 2.4: rate times epsilon; right for small epsilon, wrong at the epsilon 1 and 100 it is used for.

    >>> linear_rule(1.0, 0.25)
    0.25
    """
    return rate * epsilon


def random_size_upper(epsilon: float, tilted_share: float) -> float:
    """Bun et al., Theorem 3.1, above: log(1 + E~[m]/n (e^e - 1)); false for a mechanism that is private under add-remove alone.

    `tilted_share` is the mean of m/n under weights e^(e m) t(m).

    >>> round(random_size_upper(1.0, 0.7310585786), 4)
    0.8137
    """
    return math.log1p(tilted_share * math.expm1(epsilon))


def random_size_lower(epsilon: float, tilted_share: float) -> float:
    """Bun et al., Theorem 3.1, below: -log(1 - E~[m]/n (1 - e^-e)); right, and reached by mechanisms of type both.

    >>> round(random_size_lower(1.0, 0.7310585786), 4)
    0.6201
    """
    return -math.log1p(tilted_share * math.expm1(-epsilon))


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


def rounding_theorem(epsilon: float, rate: float) -> float:
    """Bun et al., Theorem 4.3: log(1 + 2r(e^2e - 1)) + log(1 + r(e^2e - 1)); valid, two to three times too large.

    >>> round(rounding_theorem(1.0, 0.1), 4)
    1.3172
    """
    if epsilon > 150.0:
        return 4.0 * epsilon + math.log(2.0 * rate + math.exp(-2.0 * epsilon)) + math.log(rate + math.exp(-2.0 * epsilon))
    spread = math.expm1(2.0 * epsilon)
    return math.log1p(2.0 * rate * spread) + math.log1p(rate * spread)


def rounding_theorem_inverse(epsilon: float, rate: float) -> float:
    """What Theorem 4.3 of Bun et al., solved for the loss on the sample, allows; less than half of what is allowed.

    >>> round(rounding_theorem_inverse(1.0, 0.01), 10)
    1.9059088586
    """
    root = 8.0 * math.expm1(epsilon)
    # -3 + sqrt(9 + 8(e^e - 1)), without the cancellation at a small epsilon.
    return 0.5 * math.log1p(root / (3.0 + math.sqrt(9.0 + root)) / (4.0 * rate))


def rounding_rule(epsilon: float, rate: float) -> float:
    """Bun et al., Section 7.3: a loss of epsilon/(6r) on the sample; for small epsilon only, far too much otherwise.

    >>> rounding_rule(3.0, 0.25)
    2.0
    """
    return epsilon / (6.0 * rate)


def sample_size_lemma(population: int, m: int, larger: int, epsilon: float) -> float:
    """Bun et al., Lemma B.1: log(1 + (m/(N+1))(e^2e - 1)) + |m - m'| e; true for add-remove mechanisms only.

    >>> round(sample_size_lemma(5, 2, 3, 1.0), 10)
    2.1409324776
    """
    return sampled(m / (population + 1), 2.0 * epsilon) + abs(m - larger) * epsilon


def cluster_lower(epsilon: float, fraction: float, own: int, others: Sequence[int]) -> float:
    """Bun et al., Theorem 5.1: the smallest other cluster in place of all; right, though its proof replaces a unit.

    >>> round(cluster_lower(0.5, 1 / 3, 2, [1, 3]), 4)
    0.3706
    """
    return _cluster(epsilon, fraction, own, min(_clusters(others)))


def cluster_upper(epsilon: float, fraction: float, own: int, others: Sequence[int]) -> float:
    """Bun et al., Theorem 5.2: the largest other cluster in place of all; right for one population, no guarantee without a cap.

    >>> round(cluster_upper(0.5, 1 / 3, 2, [1, 3]), 4)
    0.4429
    """
    return _cluster(epsilon, fraction, own, max(_clusters(others)))


def _clusters(others: Sequence[int]) -> Sequence[int]:
    if not others:
        raise BadValue("the theorem needs another cluster", given="no other sizes")
    return others


def _cluster(epsilon: float, fraction: float, own: int, other: int) -> float:
    """ln(1 + f/(f + (1 - f) e^-(n_i + n)e) (e^e - 1))."""
    far = (1.0 - fraction) * math.exp(-epsilon * (own + other))
    return math.log1p(fraction / (fraction + far) * math.expm1(epsilon))


def cluster_test(fraction: float, detects: float, loss_inside: float) -> float:
    """Bun et al., Theorem 5.3: log(1 + (e^e'' - 1) f/(f + e^-e'(1 - f))); false as a lower bound with that orientation.

    >>> round(cluster_test(0.5, 1.0, 1.0), 10)
    0.8136663235
    """
    return math.log1p(math.expm1(loss_inside) * fraction / (fraction + math.exp(-detects) * (1.0 - fraction)))


def two_stage_rule(epsilon: float, unit_rate: float) -> float:
    """Bun et al., Section 5.2: about r epsilon for units drawn with rate r in drawn clusters; for small epsilon, and loose.

    >>> two_stage_rule(1.0, 0.25)
    0.25
    """
    return unit_rate * epsilon


def pps_lower(epsilon: float, inclusion: float) -> float:
    """Bun et al., Section 6.1: log(1 + a_i(e^e - 1)); right as a lower bound, for public sizes and methods that cover exact.

    >>> round(pps_lower(1.0, 0.3), 4)
    0.4157
    """
    return math.log1p(inclusion * math.expm1(epsilon))


__all__ = [
    "advantage",
    "allocation_slack",
    "cluster_lower",
    "cluster_test",
    "cluster_upper",
    "linear_rule",
    "pps_lower",
    "random_size_lower",
    "random_size_upper",
    "rounding_rule",
    "rounding_theorem",
    "rounding_theorem_inverse",
    "sample_size_lemma",
    "sampling_theorem",
    "two_stage_rule",
]
