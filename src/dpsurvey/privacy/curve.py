"""Curves delta(epsilon): upper bounds on the hockey-stick divergence of a mechanism, one class per kind.

Each class states its formula and where it comes from. `delta` takes epsilon >= 0; `epsilon(delta)` is the
least epsilon on the curve, `inf` where there is none. Numerical searches end on the side that claims less.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from scipy.special import log_ndtr

from ..errors import BadValue
from .rounding import amplified, unamplified, up


def search_epsilon(curve: Curve, delta: float, upper: float = 1e4) -> float:
    """The least epsilon with curve.delta(epsilon) <= delta, by bisection that keeps the private end."""
    if curve.delta(0.0) <= delta:
        return 0.0
    if curve.delta(upper) > delta:
        return math.inf
    low, high = 0.0, upper
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (low, middle) if curve.delta(middle) <= delta else (middle, high)
    return high


class Curve(ABC):
    """An upper bound delta(epsilon), valid for every pair of neighbours in both orders."""

    kind: ClassVar[str]

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """The bound at one epsilon >= 0."""

    def epsilon(self, delta: float) -> float:
        """The least epsilon at which the curve is at most delta."""
        return search_epsilon(self, delta)

    def doubled(self) -> Curve:
        """The curve for two steps of the relation; (1 + e^(eps/2)) delta(eps/2) holds for any mechanism."""
        return TwoSteps(self)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-ready parameters; `from_dict` reads them back."""


@dataclass(frozen=True)
class Approximate(Curve):
    """(epsilon, delta)-DP; delta 0 is pure. Bound of the dominating randomised response:

    delta(e) = delta + (1 - delta) (e^epsilon - e^e)_+ / (1 + e^epsilon)   (Kairouz, Oh, Viswanath 2015).
    """

    kind: ClassVar[str] = "approximate"
    at_epsilon: float
    at_delta: float = 0.0

    def __post_init__(self) -> None:
        if not (self.at_epsilon >= 0.0 and 0.0 <= self.at_delta < 1.0):
            raise BadValue("epsilon must be at least 0 and delta in [0, 1)", given=f"{self.at_epsilon}, {self.at_delta}")

    def delta(self, epsilon: float) -> float:
        gap = -math.expm1(min(0.0, epsilon - self.at_epsilon)) / (1.0 + math.exp(-self.at_epsilon))
        return min(1.0, up(self.at_delta + (1.0 - self.at_delta) * gap)) if gap > 0.0 else self.at_delta

    def epsilon(self, delta: float) -> float:
        if delta < self.at_delta:
            return math.inf
        excess = (delta - self.at_delta) / (1.0 - self.at_delta)
        inside = excess * (1.0 + math.exp(-self.at_epsilon))
        return 0.0 if inside >= 1.0 else max(0.0, min(self.at_epsilon, up(self.at_epsilon + math.log1p(-inside))))

    def doubled(self) -> Curve:
        if self.at_delta == 0.0:
            return Approximate(2.0 * self.at_epsilon)
        return Approximate(2.0 * self.at_epsilon, min(1.0 - 1e-16, self.at_delta * (1.0 + math.exp(self.at_epsilon))))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": self.at_epsilon, "delta": self.at_delta}


@dataclass(frozen=True)
class Laplace(Curve):
    """One continuous Laplace variable whose centre moves by `ratio` scales: delta(e) = (1 - e^((e - ratio)/2))_+."""

    kind: ClassVar[str] = "laplace"
    ratio: float

    def delta(self, epsilon: float) -> float:
        return max(0.0, -math.expm1((epsilon - self.ratio) / 2.0))

    def epsilon(self, delta: float) -> float:
        return max(0.0, up(self.ratio + 2.0 * math.log1p(-delta))) if delta < 1.0 else 0.0

    def doubled(self) -> Curve:
        return Laplace(2.0 * self.ratio)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "ratio": self.ratio}


@dataclass(frozen=True)
class Gaussian(Curve):
    """Continuous Gaussian noise, centre moved by mu standard deviations (mu-GDP):

    delta(e) = Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu)   (Balle, Wang 2018).
    """

    kind: ClassVar[str] = "gaussian"
    mu: float

    def delta(self, epsilon: float) -> float:
        if self.mu == 0.0:
            return 0.0
        first = float(log_ndtr(self.mu / 2.0 - epsilon / self.mu))
        second = epsilon + float(log_ndtr(-self.mu / 2.0 - epsilon / self.mu))
        # 1e-13 covers the rounding of both terms; the curve is never below the truth.
        return min(1.0, max(0.0, math.exp(first) * -math.expm1(min(0.0, second - first)) * (1.0 + 1e-9) + 1e-300))

    def doubled(self) -> Curve:
        return Gaussian(2.0 * self.mu)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "mu": self.mu}


@dataclass(frozen=True)
class ZeroConcentrated(Curve):
    """rho-zCDP. For every alpha > 1, delta(e) <= e^((alpha-1)(alpha rho - e)) (1 - 1/alpha)^alpha / (alpha - 1)

    (Canonne, Kamath, Steinke 2020, Corollary 13); any alpha is valid, so the search cannot break the bound.
    """

    kind: ClassVar[str] = "zcdp"
    rho: float

    def _log_delta(self, log_excess: float, epsilon: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1.0 + excess
        return excess * (alpha * self.rho - epsilon) + alpha * (log_excess - math.log1p(excess)) - log_excess

    def delta(self, epsilon: float) -> float:
        if self.rho == 0.0:
            return 0.0
        # scipy.optimize is slow to import, and pure budgets never need it.
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(
            self._log_delta, args=(epsilon,), bounds=(-15.0, 30.0), method="bounded", options={"xatol": 1e-10}
        )
        return float(min(1.0, math.exp(min(0.0, float(found.fun))) * (1.0 + 1e-12)))

    def epsilon(self, delta: float) -> float:
        if self.rho == 0.0:
            return 0.0
        if delta <= 0.0:
            return math.inf
        return search_epsilon(self, delta)

    def doubled(self) -> Curve:
        return ZeroConcentrated(4.0 * self.rho)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rho": self.rho}


@dataclass(frozen=True)
class AmplifiedCurve(Curve):
    """delta'(e) = rate * delta(log(1 + (e^e - 1)/rate)): the whole curve of a subsampled mechanism.

    Exact for Poisson sampling under add-remove and for simple random sampling under replace-one
    (Balle, Barthe, Gaboardi 2018; proof in docs/amplification.md).
    """

    kind: ClassVar[str] = "amplified"
    base: Curve
    rate: float

    def delta(self, epsilon: float) -> float:
        return min(1.0, up(self.rate * self.base.delta(unamplified(epsilon, self.rate))))

    def epsilon(self, delta: float) -> float:
        inside = delta / self.rate
        if inside >= 1.0:
            return 0.0
        # Rounding delta/rate up would claim more than is proved: take the next number below.
        inner = self.base.epsilon(math.nextafter(inside, 0.0) if inside > 0.0 else 0.0)
        return amplified(inner, self.rate) if math.isfinite(inner) else math.inf

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rate": self.rate, "base": self.base.to_dict()}


@dataclass(frozen=True)
class TwoSteps(Curve):
    """Two neighbours in a row: delta_2(e) <= (1 + e^(e/2)) delta(e/2) (group privacy, any mechanism)."""

    kind: ClassVar[str] = "two-steps"
    base: Curve

    def delta(self, epsilon: float) -> float:
        inner = self.base.delta(epsilon / 2.0)
        return 0.0 if inner == 0.0 else min(1.0, up((1.0 + math.exp(min(700.0, epsilon / 2.0))) * inner))

    def epsilon(self, delta: float) -> float:
        # At delta = 0 the search cannot see a finite pure epsilon through rounding, the formula can.
        return 2.0 * self.base.epsilon(0.0) if delta == 0.0 else min(2.0 * self.base.epsilon(0.0), search_epsilon(self, delta))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "base": self.base.to_dict()}
