"""Discrete Gaussian noise on a vector of integer sums: zCDP from the L2 sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import BadValue
from ..privacy.budget import amount_in
from ..privacy.measure import Measure
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.rounding import up
from .base import Mechanism, Norm, opendp
from .registry import register


@register
@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Noise with P(k) proportional to e^(-k^2/(2 scale^2)) on each component: rho = sensitivity^2 / (2 scale^2).

    The profile is zCDP (Canonne, Kamath, Steinke 2020), which holds for discrete noise in any dimension; the
    continuous Gaussian curve is not claimed.

    >>> round(Gaussian.calibrate(PrivacyProfile.zcdp(0.5, "add-remove"), sensitivity=10.0).scale, 6)
    10.0
    """

    kind: ClassVar[str] = "gaussian"
    norm: ClassVar[Norm] = "L2"
    measure: ClassVar[Measure] = Measure.RHO
    loss_is_linear: ClassVar[bool] = True

    @classmethod
    def calibrate(cls, charge: PrivacyProfile, sensitivity: float) -> Gaussian:
        rho = amount_in(charge, Measure.RHO)
        mechanism = cls(up(sensitivity / math.sqrt(2.0 * rho)), sensitivity)
        if mechanism.sensitivity**2 / (2.0 * mechanism.scale**2) > rho:
            raise BadValue("the noise scale is out of range", given=f"rho={rho}, sensitivity={sensitivity}")
        return mechanism

    def profile(self, relation: Relation) -> PrivacyProfile:
        return PrivacyProfile.zcdp(up(self.sensitivity**2 / (2.0 * self.scale**2)), relation)

    @property
    def variance(self) -> float:
        # The discrete Gaussian's variance is at most scale^2 and equals it to 6 digits from scale 1 on.
        return self.scale**2

    def _measurement(self) -> Any:
        dp = opendp()
        return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=self.scale)

    def _check(self, measurement: Any) -> None:
        if measurement.map(self.sensitivity) > up(self.sensitivity**2 / (2.0 * self.scale**2)) * (1.0 + 1e-9):
            raise BadValue("OpenDP's privacy map exceeds the planned rho")
