"""Curves made from other curves: amplified by a sample, over two steps of the relation, the least of several."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from .curve import Approximate, Curve, check_parameter, curve_from, search_epsilon
from .rounding import amplified, geometric, replaced, unamplified, up


@dataclass(frozen=True)
class AmplifiedCurve(Curve):
    """delta'(e) = rate * delta(log(1 + (e^e - 1)/rate)): the whole curve of a subsampled mechanism.

    Exact for Poisson sampling under add-remove and for simple random sampling under replace-one
    (Balle, Barthe, Gaboardi 2018; proof in docs/proofs/amplification.md).
    """

    kind: ClassVar[str] = "amplified"
    base: Curve
    rate: float

    def __post_init__(self) -> None:
        check_parameter("rate", self.rate, above_zero=True, at_most=1.0)

    def delta(self, epsilon: float) -> float:
        inside, flat = unamplified(epsilon, self.rate), self.base.flat_from
        if flat is not None and epsilon >= amplified(flat, self.rate):
            # There and back is rounded: what is pure inside stays pure.
            inside = max(inside, flat)
        return min(1.0, up(self.rate * self.base.delta(inside)))

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

    def steps(self, count: int) -> Curve:
        return ManySteps(self, count)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rate": self.rate, "base": self.base.to_dict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(curve_from(fields["base"]), fields["rate"])


@dataclass(frozen=True)
class ReplacedCurve(Curve):
    """A pure add-remove mechanism on a Poisson sample, a record replaced: log((1-p+p e^eps)/(1-p+p e^-eps)).

    Kept to read releases of version 0.1; newer ones hold the design itself.
    """

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

    def steps(self, count: int) -> Curve:
        return self._pure.steps(count)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": self.base_epsilon, "rate": self.rate}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(fields["epsilon"], fields["rate"])


@dataclass(frozen=True)
class ManySteps(Curve):
    """k neighbours in a row: delta_k(e) <= (1 + e^s + ... + e^((k-1)s)) delta(s) for every s <= e/k (any mechanism)."""

    kind: ClassVar[str] = "many-steps"
    base: Curve
    count: int = 2

    def _at(self, epsilon: float) -> float:
        inner = self.base.delta(epsilon / self.count)
        return 0.0 if inner == 0.0 else min(1.0, up(geometric(epsilon / self.count, self.count) * inner))

    def delta(self, epsilon: float) -> float:
        # The bound may rise with epsilon; an earlier low point stays valid. It lies at 0 or where the base turns flat.
        lows = [0.0] if self.base.flat_from is None else [0.0, self.count * self.base.flat_from]
        return min(self._at(epsilon), *(self._at(low) for low in lows if low <= epsilon))

    def epsilon(self, delta: float) -> float:
        pure = self.count * self.base.epsilon(0.0)
        return pure if delta == 0.0 else min(pure, search_epsilon(self, delta))

    def steps(self, count: int) -> Curve:
        return ManySteps(self.base, self.count * count)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "base": self.base.to_dict(), "count": self.count}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(curve_from(fields["base"]), fields.get("count", 2))


# Releases that were saved before there were more than two steps name it so.
Curve.kinds["two-steps"] = ManySteps


@dataclass(frozen=True)
class Least(Curve):
    """Several valid bounds for one mechanism: the least of them, at each epsilon."""

    kind: ClassVar[str] = "least"
    parts: tuple[Curve, ...]

    def delta(self, epsilon: float) -> float:
        return min(part.delta(epsilon) for part in self.parts)

    def epsilon(self, delta: float) -> float:
        return min(part.epsilon(delta) for part in self.parts)

    def steps(self, count: int) -> Curve:
        return Least(tuple(part.steps(count) for part in self.parts))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(tuple(curve_from(part) for part in fields["parts"]))


@dataclass(frozen=True)
class Greatest(Curve):
    """What holds for everybody, where units of different strata have curves of their own: the greatest, at each epsilon."""

    kind: ClassVar[str] = "greatest"
    after_sampling: ClassVar[bool] = True
    parts: tuple[Curve, ...]

    def delta(self, epsilon: float) -> float:
        return max(part.delta(epsilon) for part in self.parts)

    def epsilon(self, delta: float) -> float:
        return max(part.epsilon(delta) for part in self.parts)

    @property
    def flat_from(self) -> float | None:
        found = [part.flat_from for part in self.parts]
        return None if None in found else max(each for each in found if each is not None)

    def steps(self, count: int) -> Curve:
        # Neighbours in a row may differ in records of different strata, so the greatest is taken first.
        return ManySteps(self, count)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(tuple(curve_from(part) for part in fields["parts"]))


def greatest(curves: Iterable[Curve]) -> Curve:
    """The greatest of some curves; where they are all the same, that one."""
    found = tuple(dict.fromkeys(curves))
    return found[0] if len(found) == 1 else Greatest(found)


def after_sampling(curve: Curve) -> bool:
    """Whether a sample has been at work on a curve, which may then be neither composed nor amplified again."""
    return isinstance(curve, AmplifiedCurve | ReplacedCurve | ManySteps | Least) or getattr(curve, "after_sampling", False)
