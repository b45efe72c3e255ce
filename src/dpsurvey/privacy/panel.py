"""Panels: samples that share permanent random numbers, with a delta. The mixture over inclusion patterns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from ..errors import BadValue
from .curve import Curve, Gaussian, ZeroConcentrated, curve_from, search_epsilon
from .measure import Measure
from .rounding import up
from .windows import Window, patterns


@dataclass(frozen=True)
class PanelCurve(Curve):
    """Somebody added or removed with their whole history, who is in the samples of pattern z with probability p_z.

    P = p_0 Q + sum p_z P_z, where the releases of pattern z have profile h_z. For every choice of y_z with
    sum p_z y_z = e^epsilon - p_0, delta(epsilon) <= sum p_z h_z(y_z), and alike in the other order (docs/guides/ledger.md,
    Theorem L4). "common" takes y_z alike; "likelihood" takes the likelihood ratios of Gaussians at one point, which for
    Gaussian releases is exact for the worst scalar case.
    """

    kind: ClassVar[str] = "panel"
    after_sampling: ClassVar[bool] = True
    parts: tuple[tuple[float, Curve], ...]
    split: str = "likelihood"
    _in: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        inside = math.fsum(probability for probability, _ in self.parts)
        if self.split not in ("common", "likelihood") or not self.parts or inside > 1.0 + 1e-12:
            raise BadValue("a panel needs patterns whose probabilities add up to at most 1", given=f"{inside:g}, {self.split!r}")
        object.__setattr__(self, "_in", min(1.0, inside))

    def delta(self, epsilon: float) -> float:
        if epsilon > 500.0:
            # No curve rises, and e^500 is far beyond any epsilon that is of use.
            epsilon = 500.0
        forward = self._forward(epsilon, "common")
        backward = self._backward(epsilon, "common")
        if self.split == "likelihood":
            forward = min(forward, self._forward(epsilon, "likelihood"))
            backward = min(backward, self._backward(epsilon, "likelihood"))
        return min(1.0, max(forward, backward))

    def epsilon(self, delta: float) -> float:
        # The curve never reaches 0, although far out its floats do.
        return math.inf if delta <= 0.0 else search_epsilon(self, delta)

    def _forward(self, epsilon: float, split: str) -> float:
        """The unit is there, against it is not: sum p_z h_z(y_z) with sum p_z y_z at most e^epsilon - p_0."""
        target = math.expm1(epsilon) + self._in
        if split == "common":
            level = math.log1p(math.expm1(epsilon) / self._in) * (1.0 - 1e-14)
            return up(math.fsum(probability * _at(curve, level) for probability, curve in self.parts))
        low, _ = self._point(target)
        return up(math.fsum(probability * _at(curve, _ratio(curve, low)) for probability, curve in self.parts))

    def _backward(self, epsilon: float, split: str) -> float:
        """It is not there, against it is: sum w_z h_z(e^epsilon p_z / w_z) with sum w_z at least 1 - e^epsilon p_0."""
        alpha = math.exp(epsilon)
        # 1 - alpha p_0, without losing digits where p_0 is near 1.
        left = alpha * self._in - math.expm1(epsilon)
        if left <= 0.0:
            return 0.0
        if split == "common":
            level = epsilon + math.log(self._in / left)
            weights = [(left * probability / self._in, level, curve) for probability, curve in self.parts]
        else:
            _, high = self._point(left / alpha)
            ratios = [(probability, _ratio(curve, high), curve) for probability, curve in self.parts]
            weights = [(alpha * probability * math.exp(ratio), -ratio, curve) for probability, ratio, curve in ratios]
        slack = 1e-13
        return up(math.fsum(weight * (1.0 + slack) * _at(curve, level - slack) for weight, level, curve in weights))

    def _point(self, target: float) -> tuple[float, float]:
        """The point at which the likelihood ratios, weighted, add up to a target: from below and from above."""

        def total(point: float) -> float:
            return math.fsum(probability * math.exp(min(700.0, _ratio(curve, point))) for probability, curve in self.parts)

        low, high = -1.0, 1.0
        while total(low) > target:
            low *= 2.0
        while total(high) < target:
            high *= 2.0
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if total(middle) * (1.0 + 1e-14) <= target else (low, middle)
        while total(high) * (1.0 - 1e-14) < target:
            high += 1e-12 * max(1.0, abs(high))
        return low, high

    def steps(self, count: int) -> Curve:
        raise BadValue("a panel protects one unit with its whole history", hint="a group of units is not covered")

    def to_dict(self) -> dict[str, Any]:
        parts = [{"probability": probability, "curve": curve.to_dict()} for probability, curve in self.parts]
        return {"kind": self.kind, "parts": parts, "split": self.split}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(tuple((part["probability"], curve_from(part["curve"])) for part in fields["parts"]), fields["split"])


def _at(curve: Curve, log_level: float) -> float:
    """h(y) at y = e^log_level, for a symmetric profile; below 1 by H_y(P||Q) = 1 - y + y H_{1/y}(Q||P)."""
    if log_level >= 0.0:
        return curve.delta(log_level)
    return -math.expm1(log_level) + math.exp(log_level) * curve.delta(-log_level)


def _ratio(curve: Curve, point: float) -> float:
    """The log likelihood ratio of N(mu, 1) to N(0, 1) at a point; for rho-zCDP that of mu = sqrt(2 rho)."""
    mu = curve.mu if isinstance(curve, Gaussian) else math.sqrt(2.0 * curve.rho) if isinstance(curve, ZeroConcentrated) else 1.0
    return mu * point - mu * mu / 2.0


def panel_curve(windows: Sequence[Window], levels: Sequence[float], measure: Measure, *, fixed: bool) -> PanelCurve:
    """The curve of a panel: wave t is charged at most levels[t], in rho or in mu.

    `fixed` says that the levels were settled before the first release. Without that only the common split is claimed.

    >>> waves = [Window(0.005 * wave, 0.02) for wave in range(8)]
    >>> [round(panel_curve(waves, [1.0] * 8, Measure.MU, fixed=fixed).epsilon(1e-6), 2) for fixed in (True, False)]
    [5.89, 6.44]
    """
    if not measure.needs_delta or len(levels) != len(windows) or not all(level > 0.0 for level in levels):
        raise BadValue("a panel has one positive level for each wave, in rho or in mu", given=f"{len(levels)} in {measure}")
    parts: dict[Curve, Fraction] = {}
    for each in patterns(windows):
        curve = measure.of_levels(levels[number] for number in each.samples)
        parts[curve] = parts.get(curve, Fraction(0)) + each.probability
    rounded = tuple((up(float(probability)), curve) for curve, probability in parts.items())
    return PanelCurve(rounded, "likelihood" if fixed else "common")
