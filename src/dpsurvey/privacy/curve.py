"""Curves delta(epsilon): upper bounds on the hockey-stick divergence of a mechanism, one class per kind.

Each class states its formula and where it comes from. `delta` takes a finite epsilon >= 0; `epsilon(delta)` is the
least epsilon on the curve, `inf` where there is none. Rounding and numerical searches end on the side that claims
less.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from ..errors import BadValue
from .rounding import ULPS, geometric, up


@cache
def _special() -> Any:
    """The module scipy.special, loaded when a curve first needs it: it takes longer to load than many commands run."""
    import scipy.special

    return scipy.special


def search_epsilon(curve: Curve, delta: float) -> float:
    """The least epsilon with curve.delta(epsilon) <= delta, by bisection that keeps the private end."""
    if curve.delta(0.0) <= delta:
        return 0.0
    high = next((upper for upper in (2.0**power for power in range(-20, 14)) if curve.delta(upper) <= delta), math.inf)
    low = 0.0 if math.isfinite(high) else high
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if curve.delta(middle) <= delta else (middle, high)
    return high


def check_parameter(name: str, value: float, *, above_zero: bool = False, at_most: float = math.inf) -> None:
    """Refuse a parameter that no mechanism has; a negative one would claim perfect privacy."""
    if not (0.0 <= value <= at_most) or math.isinf(value) or (above_zero and value == 0.0):
        raise BadValue(f"{name} is out of range", given=f"{name}={value}")


class Curve(ABC):
    """An upper bound delta(epsilon), valid for every pair of neighbours in both orders."""

    kind: ClassVar[str]
    # Every kind of curve, so that a saved one can be read back wherever it was defined.
    kinds: ClassVar[dict[str, type[Curve]]] = {}

    def __init_subclass__(cls) -> None:
        Curve.kinds[cls.kind] = cls

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """The bound at one finite epsilon >= 0."""

    def epsilon(self, delta: float) -> float:
        """The least epsilon at which the curve is at most delta."""
        return search_epsilon(self, delta)

    @property
    def flat_from(self) -> float | None:
        """The epsilon from which the curve no longer falls, where there is one below infinity."""
        return None

    @abstractmethod
    def steps(self, count: int) -> Curve:
        """The curve for `count` steps of the relation: a group of that many records."""

    def of_part(self, part: float) -> Curve:
        """The curve of a record that moves the sums by a part of what this curve is for; nothing less is claimed by itself."""
        return self

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-ready parameters; `curve_from` reads them back."""

    @classmethod
    @abstractmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        """The curve that `to_dict` wrote."""


# Kinds of curves that another room writes, with the room that reads them back.
READ_BY = {"sampled": "..design"}


def curve_from(fields: dict[str, Any]) -> Curve:
    """The curve, of any kind, that `to_dict` wrote.

    >>> curve_from(Gaussian(0.5).to_dict())
    Gaussian(mu=0.5)
    """
    kind = fields["kind"]
    if kind in READ_BY:
        # By its name, as files are opened by programs: nothing of this room knows what a design is.
        import_module(READ_BY[kind], __package__)
    if kind not in Curve.kinds:
        raise BadValue(f"unknown kind of curve {kind!r}")
    return Curve.kinds[kind].from_dict(fields)


@dataclass(frozen=True)
class Approximate(Curve):
    """(epsilon, delta)-DP; delta 0 is pure. Bound of the dominating randomised response:

    delta(e) = delta + (1 - delta) (e^epsilon - e^e)_+ / (1 + e^epsilon)   (Kairouz, Oh, Viswanath 2015).
    """

    kind: ClassVar[str] = "approximate"
    at_epsilon: float
    at_delta: float = 0.0

    def __post_init__(self) -> None:
        check_parameter("epsilon", self.at_epsilon)
        check_parameter("delta", self.at_delta, at_most=1.0)

    def delta(self, epsilon: float) -> float:
        gap = -math.expm1(min(0.0, epsilon - self.at_epsilon)) / (1.0 + math.exp(-self.at_epsilon))
        return min(1.0, up(self.at_delta + (1.0 - self.at_delta) * gap)) if gap > 0.0 else self.at_delta

    def epsilon(self, delta: float) -> float:
        if delta < self.at_delta:
            return math.inf
        if delta == self.at_delta:
            return self.at_epsilon
        excess = (delta - self.at_delta) / (1.0 - self.at_delta)
        inside = excess * (1.0 + math.exp(-self.at_epsilon))
        if inside >= 1.0:
            return 0.0
        # Near 1 an error of `inside` is enlarged by the logarithm.
        slack = ULPS * (math.ulp(self.at_epsilon) + 2.0**-53 / (1.0 - inside))
        return max(0.0, min(self.at_epsilon, self.at_epsilon + math.log1p(-inside) + slack))

    @property
    def flat_from(self) -> float | None:
        return self.at_epsilon

    def of_part(self, part: float) -> Curve:
        return self if part >= 1.0 else Approximate(min(self.at_epsilon, up(self.at_epsilon * part)), self.at_delta)

    def steps(self, count: int) -> Curve:
        # k steps of (e, d): k e and d (1 + e^e + ... + e^((k-1)e)).
        delta = self.at_delta and up(self.at_delta * geometric(self.at_epsilon, count))
        return Approximate(count * self.at_epsilon, min(1.0, delta))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": self.at_epsilon, "delta": self.at_delta}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(fields["epsilon"], fields["delta"])


@dataclass(frozen=True)
class Laplace(Curve):
    """One continuous Laplace variable whose centre moves by `ratio` scales: delta(e) = (1 - e^((e - ratio)/2))_+."""

    kind: ClassVar[str] = "laplace"
    ratio: float

    def __post_init__(self) -> None:
        check_parameter("ratio", self.ratio, above_zero=True)

    def delta(self, epsilon: float) -> float:
        return min(1.0, up(-math.expm1(min(0.0, (epsilon - self.ratio) / 2.0))))

    def epsilon(self, delta: float) -> float:
        if delta >= 1.0:
            return 0.0
        return max(0.0, min(self.ratio, self.ratio + 2.0 * math.log1p(-delta) + ULPS * math.ulp(self.ratio)))

    def of_part(self, part: float) -> Curve:
        return self if part >= 1.0 else Laplace(min(self.ratio, up(self.ratio * part)))

    def steps(self, count: int) -> Curve:
        return Laplace(count * self.ratio)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "ratio": self.ratio}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(fields["ratio"])


@dataclass(frozen=True)
class Gaussian(Curve):
    """Continuous Gaussian noise, centre moved by mu standard deviations (mu-GDP):

    delta(e) = Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu)   (Balle, Wang 2018).
    """

    kind: ClassVar[str] = "gaussian"
    mu: float

    def __post_init__(self) -> None:
        check_parameter("mu", self.mu, above_zero=True)

    def delta(self, epsilon: float) -> float:
        first = float(_special().log_ndtr(self.mu / 2.0 - epsilon / self.mu))
        second = epsilon + float(_special().log_ndtr(-self.mu / 2.0 - epsilon / self.mu))
        # The two logs are known to about 1e-14 of their size; their difference is widened by that much.
        slack = 4e-14 * (1.0 + abs(first) + abs(second) + epsilon)
        return min(1.0, up(math.exp(first + slack) * -math.expm1(min(0.0, second - first) - 2.0 * slack)))

    def epsilon(self, delta: float) -> float:
        # The curve never reaches 0, although far out its floats do.
        return math.inf if delta <= 0.0 < self.mu else search_epsilon(self, delta)

    def of_part(self, part: float) -> Curve:
        return self if part >= 1.0 else Gaussian(min(self.mu, up(self.mu * part)))

    def steps(self, count: int) -> Curve:
        return Gaussian(count * self.mu)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "mu": self.mu}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(fields["mu"])


@dataclass(frozen=True)
class ZeroConcentrated(Curve):
    """rho-zCDP. For every alpha > 1, delta(e) <= e^((alpha-1)(alpha rho - e)) (1 - 1/alpha)^alpha / (alpha - 1)

    (Canonne, Kamath, Steinke 2020, Corollary 13); any alpha is valid, so the search cannot break the bound.
    """

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        check_parameter("rho", self.rho, above_zero=True)

    def _terms(self, log_excess: float, epsilon: float) -> tuple[float, float, float]:
        """The log of the bound at alpha = 1 + e^log_excess, as three terms."""
        excess = math.exp(log_excess)
        alpha = 1.0 + excess
        return excess * (alpha * self.rho - epsilon), -alpha * math.log1p(math.exp(-log_excess)), -log_excess

    def delta(self, epsilon: float) -> float:
        # The derivative in alpha, (2 alpha - 1) rho - epsilon + log(1 - 1/alpha), rises; Newton on log(alpha - 1).
        excess = max(1e-6, (epsilon - self.rho) / (2.0 * self.rho))
        for _ in range(40):
            slope = (2.0 * excess + 1.0) * self.rho - epsilon - math.log1p(1.0 / excess)
            step = slope / (2.0 * self.rho * excess + 1.0 / (1.0 + excess))
            excess *= math.exp(max(-2.0, min(2.0, -step)))
            if abs(step) < 1e-9:
                break
        log_excess = min(30.0, max(-15.0, math.log(excess)))
        terms = self._terms(log_excess, epsilon)
        # Each term carries a relative rounding error; the bound is widened by more than that.
        slack = 1e-14 * math.fsum(abs(term) for term in terms) + 1e-14 * math.exp(log_excess) * epsilon
        return min(1.0, math.exp(min(0.0, math.fsum(terms) + slack)))

    def epsilon(self, delta: float) -> float:
        return math.inf if delta <= 0.0 else search_epsilon(self, delta)

    def of_part(self, part: float) -> Curve:
        return self if part >= 1.0 else ZeroConcentrated(min(self.rho, up(self.rho * part**2)))

    def steps(self, count: int) -> Curve:
        return ZeroConcentrated(count**2 * self.rho)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rho": self.rho}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(fields["rho"])
