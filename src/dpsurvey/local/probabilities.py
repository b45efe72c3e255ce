"""Probabilities as exact fractions: read from decimals, derived from an epsilon, and turned back into a privacy loss."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from ..errors import BadValue
from ..privacy.rounding import up
from .chance import LARGEST_TOTAL

Probability = Fraction | float | int | str


def fraction(name: str, value: Probability) -> Fraction:
    """A probability as it was written: 0.1 is one tenth, and not the nearest binary number; at most twelve decimals of a float.

    >>> fraction("pi_s", 0.45), fraction("pi_s", "1/3"), fraction("pi_1", 1 - 0.275 - 0.45)
    (Fraction(9, 20), Fraction(1, 3), Fraction(11, 40))
    >>> fraction("pi_s", 1.2)
    Traceback (most recent call last):
    dpsurvey.errors.BadValue: a probability lies outside 0 to 1
      given: pi_s=1.2
    """
    if isinstance(value, bool) or not isinstance(value, Fraction | float | int | str):
        raise BadValue("a probability is a number", given=f"{name}={value!r}")
    if isinstance(value, str) and not re.fullmatch(
        r"[0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20}|[0-9]{1,20}/[0-9]{1,20}", value, re.ASCII
    ):
        raise BadValue("a probability is a number", given=f"{name}={value[:40]}", hint='"0.45" or "9/20"')
    try:
        exact = Fraction(value) if isinstance(value, Fraction | int) or "/" in str(value) else Fraction(Decimal(str(value)))
    except (ValueError, InvalidOperation, OverflowError, ZeroDivisionError):
        raise BadValue("a probability is a number", given=f"{name}={value}") from None
    if not 0 <= exact <= 1:
        raise BadValue("a probability lies outside 0 to 1", given=f"{name}={value}")
    if exact.denominator > LARGEST_TOTAL and isinstance(value, float):
        # What is left over from arithmetic, as in 1 - 0.275 - 0.45, is not meant; digits that somebody wrote are.
        meant = Fraction(Decimal(f"{value:.12f}"))
        exact = meant if abs(meant - exact) <= exact * Fraction(1, 10**14) else exact
    if exact.denominator > LARGEST_TOTAL:
        raise BadValue(
            "a probability has more digits than a client can draw", given=f"{name}={value}", hint="use up to 14 decimals"
        )
    return exact


def die(parts: Iterable[Fraction]) -> list[int]:
    """The faces of a die as whole-number weights; their probabilities must add up to one.

    >>> die([Fraction(1, 4), Fraction(1, 2), Fraction(1, 4)])
    [1, 2, 1]
    """
    faces = list(parts)
    total = sum(faces, Fraction(0))
    if total != 1 or any(face < 0 for face in faces):
        raise BadValue("the probabilities do not add up to one", given=f"sum {float(total):.12g}")
    common = math.lcm(*(face.denominator for face in faces))
    if common > LARGEST_TOTAL:
        raise BadValue("the probabilities have more digits than a client can draw", hint="use fewer decimals")
    return [int(face * common) for face in faces]


def coin(chance: Fraction) -> list[int]:
    """A coin as weights of tails and heads, so that 1 is heads.

    >>> coin(Fraction(17, 20))
    [3, 17]
    """
    return [chance.denominator - chance.numerator, chance.numerator]


def loss(ratios: Iterable[tuple[Fraction, Fraction]]) -> float:
    """The largest log of a ratio of probabilities, in either order, rounded up; infinite if one of two is 0.

    >>> loss([(Fraction(3, 4), Fraction(1, 4))]) >= math.log(3), loss([(Fraction(1), Fraction(0))])
    (True, inf)
    """
    largest = Fraction(1)
    for one, other in ratios:
        if one == other:
            continue
        low, high = sorted((one, other))
        if low == 0:
            return math.inf
        largest = max(largest, high / low)
    return log_of(largest)


def log_of(ratio: Fraction) -> float:
    """The log of an exact ratio of at least 1, rounded up.

    >>> log_of(Fraction(1)), round(log_of(Fraction(10**400, 3)), 6)
    (0.0, 919.935425)
    """
    if ratio == 1:
        return 0.0
    if ratio < 2:
        return up(math.log1p(float(ratio - 1)))
    # Logs of whole numbers of any length; their difference keeps its digits once the ratio is not near 1.
    return up(up(math.log(ratio.numerator)) - math.log(ratio.denominator) + math.ulp(math.log(ratio.denominator)))


def weights_for(epsilon: float, parts: int) -> tuple[int, int]:
    """Whole weights (high, low) with high/low as large as e^epsilon allows, when `parts` lows and one high make a die.

    >>> high, low = weights_for(1.0, 1)
    >>> 0.0 <= 1.0 - log_of(Fraction(high, low)) < 1e-12
    True
    """
    check_epsilon(epsilon)
    low = max(1, int(LARGEST_TOTAL / (math.exp(min(epsilon, 40.0)) + parts + 1.0)))
    high = min(int(low * math.exp(min(epsilon, 40.0))) + 2, LARGEST_TOTAL - parts * low)
    while high > low and log_of(Fraction(high, low)) > epsilon:
        high -= 1
    if high <= low:
        raise BadValue("epsilon is too small to tell answers apart", given=f"epsilon={epsilon}, {parts + 1} categories")
    return high, low


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is not an epsilon."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0.0 < epsilon < math.inf:
        raise BadValue("epsilon must be a positive number", given=f"epsilon={epsilon}")


def check_categories(k: int) -> None:
    """Refuse a number of categories that asks nothing."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 2:
        raise BadValue("a question has at least 2 categories", given=f"k={k}")
