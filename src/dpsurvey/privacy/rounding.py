"""Arithmetic that bounds privacy, rounded toward claiming less."""

from __future__ import annotations

import math

# A chain of log1p, expm1, one product and one quotient is off by a few units in the last place;
# eight of them are a safe allowance and change no printed digit.
ULPS = 8


def up(value: float) -> float:
    """The value moved up by a few units in the last place: for a loss that is claimed. Nothing stays nothing."""
    return value + ULPS * math.ulp(value) if math.isfinite(value) and value != 0.0 else value


def down(value: float) -> float:
    """The value moved down by a few units in the last place, never below 0: for a loss to be spent."""
    return max(0.0, value - ULPS * math.ulp(value)) if math.isfinite(value) else value


def amplified(epsilon: float, rate: float) -> float:
    """log(1 + rate (e^epsilon - 1)), rounded up; safe for epsilon from 1e-12 to several hundred.

    >>> round(amplified(3.0, 0.1), 10)
    1.0676559447
    """
    if rate >= 1.0:
        return epsilon
    if epsilon > 500.0:
        # log(1 - rate + rate e^epsilon) without forming e^epsilon.
        return up(epsilon + math.log(rate) + math.log1p((1.0 - rate) / rate * math.exp(-epsilon)))
    return min(epsilon, up(math.log1p(rate * math.expm1(epsilon))))


def replaced(epsilon: float, rate: float) -> float:
    """log((1-p+p e^epsilon)/(1-p+p e^-epsilon)), rounded up: a record replaced under Poisson sampling.

    >>> round(replaced(1.0, 1.0), 12), replaced(40.0, 1.0)
    (2.0, 80.0)
    """
    if rate >= 1.0:
        return 2.0 * epsilon
    removed = rate * math.expm1(-epsilon)
    # Near rate 1 the sum of two positive parts keeps its digits, where 1 + removed would cancel.
    below = math.log1p(removed) if removed > -0.5 else math.log((1.0 - rate) + rate * math.exp(-epsilon))
    return min(2.0 * epsilon, up(amplified(epsilon, rate) - below))


def unamplified(epsilon: float, rate: float) -> float:
    """The epsilon to spend on the sample for a target: log(1 + (e^epsilon - 1)/rate), rounded down.

    >>> round(unamplified(1.0, 0.02), 4)
    4.4649
    """
    if rate >= 1.0:
        return epsilon
    if epsilon > 30.0:
        # log((rate + e^epsilon - 1)/rate) without forming e^epsilon.
        inner = down(epsilon - math.log(rate) + math.log1p((rate - 1.0) * math.exp(-epsilon)))
    else:
        inner = down(math.log1p(math.expm1(epsilon) / rate))
    step = 1e-16
    while inner > 0.0 and amplified(inner, rate) > epsilon:
        inner, step = down(inner * (1.0 - step)), 2.0 * step
    return inner
