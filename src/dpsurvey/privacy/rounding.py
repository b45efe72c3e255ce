"""Arithmetic that bounds privacy, rounded toward claiming less."""

from __future__ import annotations

import math
from fractions import Fraction

# A chain of log1p, expm1, one product and one quotient is off by a few units in the last place;
# eight of them are a safe allowance and change no printed digit.
ULPS = 8
# More than rounding can add to a loss in all steps of a computation.
LOWERED = 1e-12


def up(value: float) -> float:
    """The value moved up by a few units in the last place: for a loss that is claimed. Nothing stays nothing."""
    return value + ULPS * math.ulp(value) if math.isfinite(value) and value != 0.0 else value


def down(value: float) -> float:
    """The value moved down by a few units in the last place, never below 0: for a loss to be spent."""
    return max(0.0, value - ULPS * math.ulp(value)) if math.isfinite(value) else value


def finite(loss: float) -> float | None:
    """A loss for JSON, which has no infinity: None where no bound is known.

    >>> finite(1.5), finite(math.inf)
    (1.5, None)
    """
    return loss if math.isfinite(loss) else None


def above(exact: Fraction) -> float:
    """The least float that is at least an exact sum.

    >>> above(Fraction(1, 2)), above(Fraction(1, 3)) > Fraction(1, 3)
    (0.5, True)
    """
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def times(count: int, epsilon: float) -> float:
    """The loss of so many steps, rounded up where the product is not a float, and left alone where it is.

    >>> times(51, 1.0), times(10, 0.1) > 1.0
    (51.0, True)
    """
    value = count * epsilon
    # One step and two are most of them, and exact; fractions take longer than all the rest of a bound.
    if count in (1, 2) or not math.isfinite(value):
        return value
    return math.nextafter(value, math.inf) if Fraction(value) < count * Fraction(epsilon) else value


def below(value: float) -> float:
    """A value that is surely no more than the exact one, for a loss that some mechanism is said to attain.

    Steps of a computation that are each rounded up add up, and what is rounded in an exponent counts as often as the exponent
    is large, up to the 700 where doubles end: together less than a part in 10^12.
    """
    return max(0.0, value * (1.0 - LOWERED)) if math.isfinite(value) else value


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


def log_mixture(*parts: tuple[float, float]) -> float:
    """log(1 + sum of weight (e^epsilon - 1)) to nearest, over (weight, epsilon); the weights sum to at most 1.

    >>> round(log_mixture((0.1, 1.0), (0.09, 2.0)), 10), log_mixture((1.0, -50.0)), log_mixture((0.5, 900.0)) > 899.0
    (0.5578102914, -50.0, True)
    """
    parts = tuple((weight, epsilon) for weight, epsilon in parts if weight > 0.0)
    largest = max((epsilon for _, epsilon in parts), default=0.0)
    rest = max(0.0, 1.0 - math.fsum(weight for weight, _ in parts))
    if largest < 300.0:
        excess = math.fsum(weight * math.expm1(epsilon) for weight, epsilon in parts)
        if excess > -0.5:
            return math.log1p(excess)
        # Near -1 the sum of positive parts keeps its digits, where 1 + excess would cancel.
        if rest > 0.0:
            return math.log(math.fsum([rest, *(weight * math.exp(epsilon) for weight, epsilon in parts)]))
        return largest + math.log(math.fsum(weight * math.exp(epsilon - largest) for weight, epsilon in parts))
    terms = [weight * math.exp(epsilon - largest) for weight, epsilon in parts]
    return largest + math.log(math.fsum([rest * math.exp(-largest), *terms]))


def geometric(epsilon: float, count: int) -> float:
    """1 + e^epsilon + ... + e^((count-1) epsilon), capped far above anything that can matter for a delta.

    >>> geometric(0.0, 3), round(geometric(1.0, 2), 10)
    (3.0, 3.7182818285)
    """
    if epsilon < 1e-8:
        return count * math.exp(min(700.0, (count - 1) * epsilon))
    return math.exp(min(700.0, log_expm1(count * epsilon) - log_expm1(epsilon)))


def log_expm1(epsilon: float) -> float:
    """log(e^epsilon - 1) for epsilon > 0, without overflow.

    >>> round(log_expm1(1.0), 10), log_expm1(800.0)
    (0.5413248546, 800.0)
    """
    return math.log(math.expm1(epsilon)) if epsilon < 30.0 else epsilon + math.log1p(-math.exp(-epsilon))
