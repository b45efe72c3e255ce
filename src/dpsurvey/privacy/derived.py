"""Curves made from other curves: amplified by a sample, over two steps of the relation, the least of several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from .curve import Approximate, Curve, check_parameter, search_epsilon
from .rounding import amplified, replaced, unamplified, up


@dataclass(frozen=True)
class AmplifiedCurve(Curve):
    """delta'(e) = rate * delta(log(1 + (e^e - 1)/rate)): the whole curve of a subsampled mechanism.

    Exact for Poisson sampling under add-remove and for simple random sampling under replace-one
    (Balle, Barthe, Gaboardi 2018; proof in docs/amplification.md).
    """

    kind: ClassVar[str] = "amplified"
    base: Curve
    rate: float

    def __post_init__(self) -> None:
        check_parameter("rate", self.rate, above_zero=True, at_most=1.0)

    def delta(self, epsilon: float) -> float:
        return min(1.0, up(self.rate * self.base.delta(unamplified(epsilon, self.rate))))

    def epsilon(self, delta: float) -> float:
        inside = delta / self.rate
        if inside >= 1.0:
            return 0.0
        if Fraction(inside) * Fraction(self.rate) > Fraction(delta):
            # The quotient was rounded up, which would claim more than is proved.
            inside = math.nextafter(inside, 0.0)
        inner = self.base.epsilon(inside)
        return amplified(inner, self.rate) if math.isfinite(inner) else math.inf

    @property
    def flat_from(self) -> float | None:
        inner = self.base.flat_from
        return None if inner is None else amplified(inner, self.rate)

    def doubled(self) -> Curve:
        return TwoSteps(self)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rate": self.rate, "base": self.base.to_dict()}


@dataclass(frozen=True)
class ReplacedCurve(Curve):
    """A pure add-remove mechanism on a Poisson sample, a record replaced: log((1-p+p e^eps)/(1-p+p e^-eps))."""

    kind: ClassVar[str] = "replaced"
    base_epsilon: float
    rate: float

    def __post_init__(self) -> None:
        check_parameter("epsilon", self.base_epsilon)
        check_parameter("rate", self.rate, above_zero=True, at_most=1.0)

    @cached_property
    def _pure(self) -> Approximate:
        return Approximate(replaced(self.base_epsilon, self.rate))

    def delta(self, epsilon: float) -> float:
        return self._pure.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        return self._pure.epsilon(delta)

    def doubled(self) -> Curve:
        return self._pure.doubled()

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": self.base_epsilon, "rate": self.rate}


@dataclass(frozen=True)
class TwoSteps(Curve):
    """Two neighbours in a row: delta_2(e) <= (1 + e^(s/2)) delta(s/2) for every s <= e (group privacy, any mechanism)."""

    kind: ClassVar[str] = "two-steps"
    base: Curve

    def _at(self, epsilon: float) -> float:
        inner = self.base.delta(epsilon / 2.0)
        return 0.0 if inner == 0.0 else min(1.0, up((1.0 + math.exp(min(700.0, epsilon / 2.0))) * inner))

    def delta(self, epsilon: float) -> float:
        # The bound may rise with epsilon; an earlier low point stays valid. It lies at 0 or where the base turns flat.
        lows = [0.0] if self.base.flat_from is None else [0.0, 2.0 * self.base.flat_from]
        return min(self._at(epsilon), *(self._at(low) for low in lows if low <= epsilon))

    def epsilon(self, delta: float) -> float:
        pure = 2.0 * self.base.epsilon(0.0)
        return pure if delta == 0.0 else min(pure, search_epsilon(self, delta))

    def doubled(self) -> Curve:
        return TwoSteps(self)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "base": self.base.to_dict()}


@dataclass(frozen=True)
class Least(Curve):
    """Several valid bounds for one mechanism: the least of them, at each epsilon."""

    kind: ClassVar[str] = "least"
    parts: tuple[Curve, ...]

    def delta(self, epsilon: float) -> float:
        return min(part.delta(epsilon) for part in self.parts)

    def epsilon(self, delta: float) -> float:
        return min(part.epsilon(delta) for part in self.parts)

    def doubled(self) -> Curve:
        return Least(tuple(part.doubled() for part in self.parts))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}


# A sample has been at work on each of these; none may be composed or amplified again.
AFTER_SAMPLING = (AmplifiedCurve, ReplacedCurve, TwoSteps, Least)
