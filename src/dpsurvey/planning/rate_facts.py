"""What theory says about sampling rates: closed forms, each with its condition. Proofs: docs/guides/rates.md.

All of them compare a simple random sample of `rate` = n/N with the whole frame at the same guarantee epsilon (pure, one record
replaced, or one added or removed under Poisson sampling). The sample may spend epsilon_n = log(1 + (e^epsilon - 1)/rate).
"""

from __future__ import annotations

import math

from ..errors import BadValue
from ..privacy.rounding import amplified, log_expm1


def gain_bound(epsilon: float, rate: float) -> float:
    """q = 1 - epsilon^2/epsilon_n^2: the largest share of the whole frame's noise variance that sampling variance may have.

    With more than q V_N a sample has a larger variance than the noisy figure of the whole frame, V_N = 2 (Delta/epsilon)^2.
    Holds for Laplace noise when the sensitivity is that of the whole frame; if it grows as n falls, the share is smaller.

    >>> round(gain_bound(3.0, 0.1676731574), 6), round(gain_bound(0.1, 0.6139590019), 6)
    (0.6, 0.6)
    """
    spent = _spent(*_checked(epsilon, rate))
    # epsilon_n - epsilon = log(1 + (1 - rate)(1 - e^-epsilon)/rate), without a difference of near equals.
    return _more(epsilon, rate, spent) / spent * (1.0 + epsilon / spent)


def rate_for_gain(epsilon: float, share: float) -> float:
    """The rate at which `gain_bound` is `share`: (e^epsilon - 1)/(e^(epsilon/sqrt(1 - share)) - 1). Larger rates cannot gain.

    Holds for Laplace noise when the sensitivity does not depend on n and sampling variance is `share` of V_N. As epsilon
    goes to 0 it goes to sqrt(1 - share).

    >>> round(rate_for_gain(3.0, 0.6), 4), round(rate_for_gain(0.1, 0.6), 3)
    (0.1677, 0.614)
    """
    _checked(epsilon, 1.0)
    if not 0.0 <= share < 1.0:
        raise BadValue("a share of the variance must be at least 0 and below 1", given=f"share={share}")
    inside = epsilon / math.sqrt(1.0 - share)
    if inside > 30.0:
        found = math.exp(log_expm1(epsilon) - log_expm1(inside))
    else:
        found = 1.0 if share == 0.0 else math.expm1(epsilon) / math.expm1(inside)
    if not found > 0.0:
        raise BadValue("no rate that can be written is small enough", given=f"epsilon={epsilon}, share={share}")
    return found


def never_gains(sampling_variance: float, sensitivity: float, epsilon: float, rate: float) -> bool:
    """Whether a sample is certain to be no better than the whole frame: variance >= 2 Delta_N^2 (1/epsilon^2 - 1/epsilon_n^2).

    Holds for Laplace noise and any statistic whose sensitivity on the sample is at least that on the whole frame, Delta_n >=
    Delta_N = `sensitivity`. False says only that this rule does not exclude a gain.

    >>> never_gains(1.0, 0.1, 1.0, 0.1), never_gains(1.0, 10.0, 1.0, 0.1)
    (True, False)
    """
    if not 0.0 <= sampling_variance < math.inf:
        raise BadValue("a sampling variance must be at least 0", given=f"sampling_variance={sampling_variance}")
    if not 0.0 < sensitivity < math.inf:
        raise BadValue("a sensitivity must be positive", given=f"sensitivity={sensitivity}")
    # Compared as standard deviations: their squares leave the range of floats sooner.
    return math.sqrt(sampling_variance) >= math.sqrt(2.0 * gain_bound(epsilon, rate)) * (sensitivity / epsilon)


def noise_ratio(epsilon: float, rate: float) -> float:
    """r = (rate epsilon_n/epsilon)^2: the noise variance of a mean of the whole frame over that of the sample's mean.

    Below 1 for every epsilon and every rate < 1, so the Laplace mean of a sample never has less noise. Holds for means whose
    sensitivity is range/n, and for totals. Where r is nearer to 1 than floats can tell, the float below 1 is given.

    >>> round(noise_ratio(1.0, 0.1), 6), noise_ratio(1e-16, 0.5) < 1.0, noise_ratio(1.0, 1.0)
    (0.084128, True, 1.0)
    """
    spent = _spent(*_checked(epsilon, rate))
    if rate == 1.0:
        return 1.0
    inside = math.expm1(epsilon) / rate if epsilon < 30.0 else math.inf
    if inside < 1.0:
        # Where r is near 1: two quotients near 1, each to the last digit.
        root = math.log1p(inside) / inside * (math.expm1(epsilon) / epsilon)
    elif epsilon > 1.0:
        root = spent / epsilon * rate
    else:
        root = spent / (epsilon / rate)
    return min(root * root, math.nextafter(1.0, 0.0))


def noise_inflation(epsilon: float, rate: float) -> float:
    """1/sqrt(r): how many times larger the noise of the sample's mean is than that of the whole frame's, as an error.

    Holds where `noise_ratio` does; at least 1 always.

    >>> round(noise_inflation(1.0, 0.1), 3), round(noise_inflation(0.01, 0.1), 3)
    (3.448, 1.044)
    """
    ratio = noise_ratio(epsilon, rate)
    if ratio < 1e-300:
        return _finite(epsilon / rate / _spent(epsilon, rate), f"epsilon={epsilon}, rate={rate}")
    return 1.0 / math.sqrt(ratio)


def inflation_bound(c: float) -> float:
    """c/log(1 + c): the most that `noise_inflation` can be for any rate when epsilon is at most c times the rate.

    Tight: reached as the rate goes to 0 with epsilon = c rate. Noise is about free only when epsilon is well below the rate.

    >>> round(inflation_bound(1.0), 3), round(inflation_bound(2.0), 3), round(inflation_bound(100.0), 2)
    (1.443, 1.82, 21.67)
    """
    if not 0.0 < c < math.inf:
        raise BadValue("c, the largest epsilon/rate, must be positive and finite", given=f"c={c}")
    return c / math.log1p(c)


def unit_loss_of_total(probability: float, bound_over_scale: float) -> float:
    """log(1 + pi (e^(R/(pi b)) - 1)), rounded up: what a unit loses in a weighted total with Laplace noise of scale b, |y| <= R.

    Holds for independent (Poisson) inclusion with public `probability` pi, weight 1/pi, one unit added or removed. It is at
    least R/b, what the unit would lose in a total of the whole frame, and equal only at pi = 1.

    >>> round(unit_loss_of_total(0.1, 0.5), 4), unit_loss_of_total(1.0, 0.5)
    (2.7563, 0.5)
    """
    _, pi = _checked(1.0, probability)
    if not 0.0 < bound_over_scale < math.inf:
        raise BadValue("the bound over the noise scale must be positive", given=f"bound_over_scale={bound_over_scale}")
    given = f"probability={probability}, bound_over_scale={bound_over_scale}"
    return amplified(_finite(bound_over_scale / pi, given), pi)


def _checked(epsilon: float, rate: float) -> tuple[float, float]:
    if not 0.0 < epsilon < math.inf:
        raise BadValue("epsilon must be positive and finite", given=f"epsilon={epsilon}")
    if not 0.0 < rate <= 1.0:
        raise BadValue("a sampling rate must be in (0, 1]", given=f"rate={rate}")
    return epsilon, rate


def _spent(epsilon: float, rate: float) -> float:
    """log(1 + (e^epsilon - 1)/rate) to nearest; `privacy.rounding.unamplified` is what a guarantee is made with."""
    logarithm = log_expm1(epsilon) - math.log(rate)
    return logarithm + math.log1p(math.exp(-logarithm)) if logarithm > 30.0 else math.log1p(math.expm1(epsilon) / rate)


def _more(epsilon: float, rate: float, spent: float) -> float:
    """epsilon_n - epsilon, without cancellation."""
    odds = (1.0 - rate) / rate * -math.expm1(-epsilon)
    return math.log1p(odds) if odds < math.inf else spent - epsilon


def _finite(value: float, given: str) -> float:
    if not value < math.inf:
        raise BadValue("the figure is larger than floats hold", given=given)
    return value
