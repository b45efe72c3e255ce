"""Discrete Gaussian noise by its exact curve: Gaussian privacy of mu, from the L2 sensitivity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import BadValue
from ..privacy.budget import amount_in
from ..privacy.measure import Measure
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.rounding import up
from .base import LARGEST_SUM, Mechanism, Norm, opendp
from .registry import register

# Discrete noise is continuous noise, rounded at random with this standard deviation in steps of its lattice: what the rounding
# leaves of the difference is below 1e-33 in each component, which the slack of the Gaussian curve covers many times.
ROUNDED_BY = 2.0
# The lattice is refined until the noise has so many of its steps, so that the rounding costs a few parts in 10,000.
STEPS = 100.0


@register
@dataclass(frozen=True)
class GaussianByMu(Mechanism):
    """Noise with P(k) proportional to e^(-k^2/(2 scale^2)) on each component of a lattice that is `fine` times as fine; what
    comes out is rounded to whole steps. With m = `fine` it is mu-Gaussian private,

        mu = sensitivity / sqrt(scale^2 - (2/m)^2),

    which is continuous Gaussian noise but for the second term. Proof: docs/proofs/amplification.md, section 7.

    >>> made = GaussianByMu.calibrate(PrivacyProfile.gaussian(0.5, "add-remove"), sensitivity=1000.0)
    >>> round(made.scale, 3), made.fine, made.mu <= 0.5
    (2000.001, 1, True)
    """

    kind: ClassVar[str] = "gaussian-mu"
    norm: ClassVar[Norm] = "L2"
    measure: ClassVar[Measure] = Measure.MU
    loss_is_linear: ClassVar[bool] = True
    # By how much the lattice of sums is refined for the noise: an odd number, so that nothing lies in the middle of two steps.
    fine: int = 1

    @classmethod
    def calibrate(cls, charge: PrivacyProfile, sensitivity: float) -> GaussianByMu:
        mu = math.sqrt(amount_in(charge, Measure.MU))
        least = sensitivity / mu
        fine = 1 if least >= STEPS else 2 * math.ceil(STEPS / (2.0 * least)) + 1
        scale = math.hypot(least, ROUNDED_BY / fine) * (1.0 + 1e-12)
        mechanism = cls(scale, sensitivity, fine)
        if up(mechanism.mu**2) > amount_in(charge, Measure.MU):
            raise BadValue("the noise scale is out of range", given=f"mu={mu}, sensitivity={sensitivity}")
        return mechanism

    @property
    def mu(self) -> float:
        """The sensitivity over the standard deviation of the continuous noise that this one is made of."""
        return up(self.sensitivity / math.sqrt(self.scale**2 - (ROUNDED_BY / self.fine) ** 2))

    def profile(self, relation: Relation) -> PrivacyProfile:
        return PrivacyProfile.gaussian(self.mu, relation)

    @property
    def variance(self) -> float:
        if self.fine == 1:
            return self.scale**2
        # Of the rounded noise: every whole step has what lies within half a step of it.
        ends = [math.erf((step + 0.5) / (self.scale * math.sqrt(2.0))) for step in range(math.ceil(12.0 * self.scale) + 2)]
        return math.fsum(step**2 * (ends[step] - ends[step - 1]) for step in range(1, len(ends)))

    def randomize(self, sums: Sequence[int]) -> list[int]:
        if any(abs(value) > LARGEST_SUM // self.fine for value in sums):
            raise BadValue("a sum is too large for the lattice", hint="split the frame into several surveys")
        finer = super().randomize([int(value) * self.fine for value in sums])
        # To the nearest step: made of what is private already.
        return [(value + self.fine // 2) // self.fine for value in finer]

    def _measurement(self) -> Any:
        dp = opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        return dp.m.make_gaussian(*space, scale=self.scale * self.fine)

    def _check(self, measurement: Any) -> None:
        # OpenDP's map is in rho, of which this noise has no more than continuous noise of its scale.
        if measurement.map(self.sensitivity * self.fine) > up(self.sensitivity**2 / (2.0 * self.scale**2)) * (1.0 + 1e-9):
            raise BadValue("OpenDP's privacy map exceeds the planned rho")
