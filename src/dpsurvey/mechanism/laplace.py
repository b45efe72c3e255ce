"""Discrete Laplace noise on a vector of integer sums: pure privacy from the L1 sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import BadValue
from ..privacy.account import amount
from ..privacy.profile import PrivacyProfile, Relation
from ..privacy.rounding import up
from .base import Mechanism, Norm, opendp


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Noise with P(k) proportional to e^(-|k|/scale) on each component: epsilon = sensitivity / scale.

    >>> round(Laplace.calibrate(PrivacyProfile.pure(0.5, "add-remove"), sensitivity=10).scale, 9)
    20.0
    """

    kind: ClassVar[str] = "laplace"
    norm: ClassVar[Norm] = "L1"

    @classmethod
    def calibrate(cls, charge: PrivacyProfile, sensitivity: float) -> Laplace:
        epsilon = amount(charge)
        mechanism = cls(up(sensitivity / epsilon), sensitivity)
        if sensitivity / mechanism.scale > epsilon:
            raise BadValue("the noise scale is out of range", given=f"epsilon={epsilon}, sensitivity={sensitivity}")
        return mechanism

    def profile(self, relation: Relation) -> PrivacyProfile:
        # The pure curve, not the continuous Laplace curve: discrete noise on a coarse lattice lies above that one.
        return PrivacyProfile.pure(up(self.sensitivity / self.scale), relation)

    @property
    def variance(self) -> float:
        # 2q/(1-q)^2 with q = e^(-1/scale), which is 1/(2 sinh^2(1/(2 scale))) without overflow at small scales.
        return 2.0 * math.exp(-1.0 / self.scale) / math.expm1(-1.0 / self.scale) ** 2

    def _measurement(self) -> Any:
        dp = opendp()
        return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=self.scale)

    def _check(self, measurement: Any) -> None:
        if measurement.map(math.ceil(self.sensitivity)) > up(self.sensitivity / self.scale) * (1.0 + 1e-9):
            raise BadValue("OpenDP's privacy map exceeds the planned epsilon")
