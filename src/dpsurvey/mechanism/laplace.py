"""Discrete Laplace noise on a vector of integer sums: pure privacy from the L1 sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue
from ..privacy.budget import amount_in
from ..privacy.measure import Measure
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.rounding import up
from .base import Array, Mechanism, Norm, opendp
from .registry import register


@register
@dataclass(frozen=True)
class Laplace(Mechanism):
    """Noise with P(k) proportional to e^(-|k|/scale) on each component: epsilon = sensitivity / scale.

    >>> round(Laplace.calibrate(PrivacyProfile.pure(0.5, "add-remove"), sensitivity=10).scale, 9)
    20.0
    """

    kind: ClassVar[str] = "laplace"
    norm: ClassVar[Norm] = "L1"
    measure: ClassVar[Measure] = Measure.EPSILON
    kurtosis: ClassVar[float] = 3.0
    loss_is_linear: ClassVar[bool] = True
    exact_tails: ClassVar[bool] = True

    @classmethod
    def calibrate(cls, charge: PrivacyProfile, sensitivity: float) -> Laplace:
        epsilon = amount_in(charge, Measure.EPSILON)
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

    def simulated(self, random: np.random.Generator, shape: tuple[int, ...], terms: float = 1.0) -> Array:
        # A sum of Laplace noises is the difference of two gamma numbers.
        one = np.sqrt(self.variance) / np.sqrt(2.0)
        if terms == 1.0:
            return random.laplace(0.0, one, shape)
        return np.asarray(one * (random.standard_gamma(terms, shape) - random.standard_gamma(terms, shape)))

    def reaches(self, gap: Array) -> Array:
        q = np.exp(-1.0 / self.scale)
        far, near = q ** np.maximum(gap, 0.0) / (1.0 + q), q ** np.maximum(1.0 - gap, 0.0) / (1.0 + q)
        return np.asarray(np.where(gap > 0.0, far, 1.0 - near))

    def _measurement(self) -> Any:
        dp = opendp()
        return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=self.scale)

    def _check(self, measurement: Any) -> None:
        if measurement.map(math.ceil(self.sensitivity)) > up(self.sensitivity / self.scale) * (1.0 + 1e-9):
            raise BadValue("OpenDP's privacy map exceeds the planned epsilon")
