"""Composition of several releases from one sample: closed forms, and privacy loss distributions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import BadValue
from .curve import Approximate, Curve, Gaussian, Laplace, ZeroConcentrated, curve_from
from .derived import after_sampling
from .rounding import up

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

# Width of a cell of the discretised privacy loss; dp-accounting rounds every loss up to the next cell.
INTERVAL = 1e-4


@dataclass(frozen=True)
class Composed(Curve):
    """Curves composed by their privacy loss distributions (dp-accounting, pessimistic rounding)."""

    kind: ClassVar[str] = "composed"
    parts: tuple[Curve, ...]
    _pld: PrivacyLossDistribution = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        loss = loss_distribution(self.parts[0])
        for part in self.parts[1:]:
            loss = loss.compose(loss_distribution(part))
        object.__setattr__(self, "_pld", loss)

    def delta(self, epsilon: float) -> float:
        return min(1.0, float(self._pld.get_delta_for_epsilon(epsilon)))

    def epsilon(self, delta: float) -> float:
        return float(self._pld.get_epsilon_for_delta(delta))

    def steps(self, count: int) -> Curve:
        return Composed(tuple(part.steps(count) for part in self.parts))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        return cls(tuple(curve_from(part) for part in fields["parts"]))


def loss_distribution(curve: Curve) -> PrivacyLossDistribution:
    """The privacy loss distribution that dominates a curve's mechanism."""
    # dp-accounting takes a second to import, so only those who compose by PLD pay for it.
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    if isinstance(curve, Approximate):
        return pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(curve.at_epsilon, curve.at_delta), value_discretization_interval=INTERVAL
        )
    if isinstance(curve, Laplace):
        return pld.from_laplace_mechanism(1.0 / curve.ratio, value_discretization_interval=INTERVAL)
    if isinstance(curve, Gaussian):
        return pld.from_gaussian_mechanism(1.0 / curve.mu, value_discretization_interval=INTERVAL)
    if isinstance(curve, Composed):
        return curve._pld
    raise BadValue(
        "this curve has no privacy loss distribution",
        given=f"kind {curve.kind!r}",
        hint="compose zCDP with zCDP, Gaussian or pure profiles; compose first and amplify last",
    )


def _sum_up(values: Iterable[float]) -> float:
    """The sum, correctly rounded and then up by one unit in the last place."""
    total = math.fsum(values)
    return math.nextafter(total, math.inf) if total > 0.0 else total


def as_rho(curve: Curve) -> float | None:
    """The zCDP parameter of a curve: rho, mu^2/2, or epsilon^2/2 for pure DP (Bun, Steinke 2016)."""
    if isinstance(curve, ZeroConcentrated):
        return curve.rho
    if isinstance(curve, Gaussian):
        return up(curve.mu**2 / 2.0)
    if isinstance(curve, Approximate) and curve.at_delta == 0.0:
        return up(curve.at_epsilon**2 / 2.0)
    return None


def compose_curves(curves: Sequence[Curve], by: str = "closed form") -> Curve:
    """One curve for all releases together, each chosen before the first release.

    Pure and (epsilon, delta) profiles add up; Gaussians add mu in squares; anything with zCDP adds rho.
    Other mixtures, and everything under `by="pld"`, go through privacy loss distributions.
    """
    if by not in ("closed form", "pld"):
        raise BadValue(f"unknown way to compose {by!r}", hint='use "closed form" or "pld"')
    if any(after_sampling(curve) for curve in curves):
        raise BadValue(
            "an amplified or converted profile cannot be composed",
            because="one sample amplifies once, after everything asked of it was composed",
            hint="compose the in-sample profiles, then amplify the result",
        )
    if len(curves) == 1:
        return curves[0]
    if by == "pld":
        return Composed(tuple(curves))
    if all(isinstance(curve, Approximate) for curve in curves):
        epsilon = _sum_up(curve.at_epsilon for curve in curves if isinstance(curve, Approximate))
        delta = _sum_up(curve.at_delta for curve in curves if isinstance(curve, Approximate))
        return Approximate(epsilon, min(1.0, delta))
    if all(isinstance(curve, Gaussian) for curve in curves):
        return Gaussian(up(math.sqrt(math.fsum(curve.mu**2 for curve in curves if isinstance(curve, Gaussian)))))
    rhos = [as_rho(curve) for curve in curves]
    if any(isinstance(curve, ZeroConcentrated) for curve in curves) and None not in rhos:
        return ZeroConcentrated(_sum_up(rho for rho in rhos if rho is not None))
    return Composed(tuple(curves))
