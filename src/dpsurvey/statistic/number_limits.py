"""Numbers that doubles and 64-bit sums hold: what is larger is refused before anything is spent.

Estimates and variances multiply bounds, weights and sizes, and degrees of freedom take fourth powers of them. With bounds of at
most 1e30 in size and at least 1e-30 apart, weights of at most 1e12 and populations of at most 1e15, the largest of these,
(1e15 * 1e12 * 1e30)^4 = 1e228 and (1e30 / 1e-30)^4 = 1e240, are far from the 1.8e308 where doubles end.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import BadValue
from ..mechanism.base import LARGEST_SUM
from .facts import Facts
from .query import Query

LARGEST, CLOSEST = 1e30, 1e-30
# Bounds that are closer than this, relative to their size, leave doubles too few steps between them.
RELATIVELY_CLOSEST = 1e-10
LARGEST_WEIGHT = 1e12


def check_bounds(bounds: tuple[float, float] | list[float] | None, of: str) -> tuple[float, float]:
    """Public bounds as an ordered pair of numbers that can be reckoned with.

    >>> check_bounds((0, 8e307), "income")
    Traceback (most recent call last):
    dpsurvey.errors.BadValue: the bounds of 'income' are too large
      because: estimates and their variances would be larger than floating-point numbers
      given: bounds=(0, 8e+307)
      hint: bounds within -1e+30 and 1e+30; or measure the column in larger units
    """
    if bounds is None:
        raise BadValue(
            f"the bounds of {of!r} are missing",
            because="a value without public bounds can move a sum by any amount",
            hint="give bounds=(lowest, highest), from public knowledge, not from the data",
        )
    try:
        if any(isinstance(end, str | bool) for end in bounds):
            raise TypeError
        low, high = (_double(end) for end in bounds)
    except (TypeError, ValueError):
        raise BadValue(f"the bounds of {of!r} must be two numbers", given=repr(bounds)) from None
    given = f"bounds=({low:g}, {high:g})"
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise BadValue(f"the bounds of {of!r} must be finite and in order", given=given, hint="bounds=(lowest, highest)")
    largest = max(abs(low), abs(high))
    if largest > LARGEST:
        raise BadValue(
            f"the bounds of {of!r} are too large",
            because="estimates and their variances would be larger than floating-point numbers",
            given=given,
            hint=f"bounds within -{LARGEST:g} and {LARGEST:g}; or measure the column in larger units",
        )
    if high - low < max(CLOSEST, RELATIVELY_CLOSEST * largest):
        raise BadValue(
            f"the bounds of {of!r} are too close to each other",
            because="hardly any floating-point number lies between them",
            given=given,
            hint=f"at least {CLOSEST:g} apart, and {RELATIVELY_CLOSEST:g} of the larger one; or measure the column from a "
            "nearer zero, in smaller units",
        )
    return low, high


def check_weights(facts: Facts) -> None:
    """Refuse design weights that cannot be reckoned with."""
    low, high = facts.weights if facts.parts or facts.weight_range else (1.0, 1.0)
    if high > LARGEST_WEIGHT or low < 1.0 / LARGEST_WEIGHT:
        raise BadValue(
            "the design weights are too large" if high > LARGEST_WEIGHT else "the design weights are too small",
            because="estimates and their variances would be larger than floating-point numbers",
            given=f"weights from {low:.3g} to {high:.3g}",
            hint=f"weights from {1.0 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}",
        )


def check_sums(query: Query, facts: Facts) -> Query:
    """The query, if no sum of it can be larger than what holds it; else a refusal, before anything is spent."""
    most = most_records(facts)
    if most is not None and most * query.steps * query.encoding.most * query.reach > LARGEST_SUM:
        raise BadValue(
            "the sums of this sample could be larger than 64 bits hold",
            given=f"up to {most:.3g} records of up to {query.steps} steps each",
            hint="a smaller sample, weights that differ less, or several surveys with a part of the frame each",
        )
    return query


def most_records(facts: Facts) -> float | None:
    """More records than a sample will have, from public figures; None where a file has nobody knows how many."""
    if facts.parts and all(part.take is not None for part in facts.parts):
        return float(sum(part.take or 0 for part in facts.parts))
    if facts.frame.size is None or facts.collected:
        return None
    whole = float(facts.frame.size) * facts.design.copies
    # Twice what is expected and a thousand more is never reached where units are drawn one by one.
    return whole if facts.clustering is not None else min(whole, 2.0 * facts.size / facts.weights[0] + 1000.0)


def _double(end: Any) -> float:
    try:
        return float(end)
    except OverflowError:
        return math.inf if end > 0 else -math.inf
