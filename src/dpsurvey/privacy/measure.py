"""Accounting measures: what the charges of a sample are counted in. For each there is a proved filter (docs/guides/ledger.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import StrEnum
from fractions import Fraction
from operator import attrgetter
from typing import Any

from ..errors import BadValue
from .curve import Approximate, Curve, Gaussian, Laplace, ZeroConcentrated
from .profile import PrivacyProfile
from .relation import Relation
from .rounding import above, up


class Measure(StrEnum):
    """Epsilon adds up, and delta beside it; rho of zero-concentrated privacy adds up; mu of Gaussian privacy adds up in squares.

    A member is the name that stands on record. The *amount* of a charge is what adds up: epsilon, rho, or mu squared.

    >>> [(str(each), each.unit, each.needs_delta) for each in Measure]
    [('epsilon', 'epsilon', False), ('rho', 'rho', True), ('mu', 'mu squared', True)]
    """

    EPSILON = "epsilon"
    RHO = "rho"
    MU = "mu"

    @classmethod
    def read(cls, name: str) -> Measure:
        """The measure of a name; any other word is refused.

        >>> Measure.read("mu").unit
        'mu squared'
        """
        if name not in list(cls):
            raise BadValue("charges are counted in epsilon, rho or mu", given=repr(name))
        return cls(name)

    @property
    def unit(self) -> str:
        """What adds up, in words."""
        return "mu squared" if self is Measure.MU else self.value

    @property
    def needs_delta(self) -> bool:
        """Whether a budget needs a delta to be charged in it."""
        return self is not Measure.EPSILON

    @property
    def noise(self) -> str:
        """The kind of noise that is charged in it."""
        return {Measure.EPSILON: "laplace", Measure.RHO: "gaussian", Measure.MU: "gaussian-mu"}[self]

    @property
    def no_noise(self) -> float:
        """An amount that stands for no noise at all; more would leave the range of floats."""
        return {Measure.EPSILON: 300.0, Measure.RHO: 1e4, Measure.MU: 2e4}[self]

    def level(self, amount: float) -> float:
        """What an amount is called by: epsilon, rho, or mu; rounded up."""
        return up(math.sqrt(amount)) if self is Measure.MU else amount

    def exact(self, level: float) -> Fraction:
        """The amount of a level in epsilon, rho or mu, exactly.

        >>> Measure.MU.exact(0.5), Measure.RHO.exact(0.5)
        (Fraction(1, 4), Fraction(1, 2))
        """
        return Fraction(level) ** 2 if self is Measure.MU else Fraction(level)

    def of_part(self, amount: Fraction, part: float) -> Fraction:
        """What is left of an amount for a unit that moves sums by a part of their sensitivity, exactly.

        >>> Measure.RHO.of_part(Fraction(1), 0.5), Measure.EPSILON.of_part(Fraction(1), 0.5)
        (Fraction(1, 4), Fraction(1, 2))
        """
        return amount * Fraction(part) ** (2 if self.needs_delta else 1)

    def part_of(self, amount: Fraction, whole: Fraction) -> float:
        """By which part of their sensitivity a unit moves sums if so much is left of a whole amount; rounded up, at most 1.

        >>> Measure.RHO.part_of(Fraction(1, 4), Fraction(1)) >= 0.5
        True
        """
        ratio = above(amount / whole) if whole else 1.0
        return min(1.0, up(math.sqrt(ratio)) if self.needs_delta else ratio)

    def curve(self, amount: float, delta: float = 0.0) -> Curve:
        """The curve of an amount, and in epsilon of a delta beside it."""
        if self is Measure.EPSILON:
            return Approximate(amount, delta)
        return ZeroConcentrated(amount) if self is Measure.RHO else Gaussian(up(math.sqrt(amount)))

    def of_levels(self, levels: Iterable[float]) -> Curve:
        """The curve of somebody who is in samples that are charged up to these levels.

        >>> round(Measure.MU.of_levels([3.0, 4.0]).mu, 9)
        5.0
        """
        total = float(sum(self.exact(level) for level in levels))
        # Of mu the square root is rounded up in its turn.
        return self.curve(total if self is Measure.MU else up(total))

    def profile(self, amount: float, relation: Relation) -> PrivacyProfile:
        """The in-sample profile of an amount.

        >>> Measure.RHO.profile(0.1, Relation.BOTH) == PrivacyProfile.zcdp(0.1, "both")
        True
        """
        return PrivacyProfile(self.curve(amount), relation)


# The curves that are charged, each with its measure and its level.
_LEVELS: dict[type[Curve], tuple[Measure, Callable[[Any], float]]] = {
    Approximate: (Measure.EPSILON, attrgetter("at_epsilon")),
    Laplace: (Measure.EPSILON, attrgetter("ratio")),
    ZeroConcentrated: (Measure.RHO, attrgetter("rho")),
    Gaussian: (Measure.MU, attrgetter("mu")),
}


def counted(charge: PrivacyProfile) -> tuple[Measure, Fraction]:
    """What a charge is counted in, and its amount, exactly; a delta of its own adds up beside it.

    >>> counted(PrivacyProfile.gaussian(0.5, "both"))
    (<Measure.MU: 'mu'>, Fraction(1, 4))
    """
    if type(charge.curve) not in _LEVELS:
        raise BadValue(
            "this profile has no proved filter",
            given=f"kind {charge.curve.kind!r}",
            hint="charge a pure, (epsilon, delta), Laplace, zCDP or Gaussian profile",
        )
    measure, level = _LEVELS[type(charge.curve)]
    return measure, measure.exact(level(charge.curve))
