"""What every mechanism answers: a scale calibrated to a charge, exact noise figures, and the noise itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from ..errors import BadValue
from ..privacy.measure import Measure
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation

Norm = Literal["L1", "L2"]
Rows = list[list[int]]
Array = npt.NDArray[np.float64]

# OpenDP's integers saturate at 2^63; sums must stay far from it so that the noise is never cut.
LARGEST_SUM = 2**61
LARGEST_SCALE = 2.0**55


@dataclass(frozen=True)
class Mechanism(ABC):
    """Additive integer noise on a whole vector of sums, from OpenDP's samplers.

    `scale` and `sensitivity` are in steps of the public lattice that the sums lie on.
    """

    kind: ClassVar[str]
    norm: ClassVar[Norm]
    # What a charge of this noise is counted in; rho needs a budget with a delta.
    measure: ClassVar[Measure]
    # The excess kurtosis of the noise: 0 for the normal law.
    kurtosis: ClassVar[float] = 0.0
    # Whether sums that move by a part of the sensitivity lose that part of an epsilon, or of the root of a rho.
    loss_is_linear: ClassVar[bool] = False
    # Whether tail probabilities are known in closed form, for exact intervals of small counts.
    exact_tails: ClassVar[bool] = False
    scale: float
    sensitivity: float

    @classmethod
    @abstractmethod
    def calibrate(cls, charge: PrivacyProfile, sensitivity: float) -> Self:
        """The least noise that keeps a charge, rounded to the private side."""

    @abstractmethod
    def profile(self, relation: Relation) -> PrivacyProfile:
        """The proved profile of this noise at this sensitivity."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the noise of one component, in squared lattice steps."""

    def simulated(self, random: np.random.Generator, shape: tuple[int, ...], terms: float = 1.0) -> Array:
        """Noise for predictions, each figure the sum of `terms` of them; of the normal law, unless a mechanism says otherwise.

        Nothing is released with it, so it comes from an ordinary generator.
        """
        return random.normal(0.0, np.sqrt(self.variance) * np.sqrt(terms), shape)

    def reaches(self, gap: Array) -> Array:
        """The probability that the noise of one component is at least a whole number, where `exact_tails` says it is known."""
        raise NotImplementedError

    @abstractmethod
    def _measurement(self) -> Any:
        """OpenDP's measurement on vectors of 64-bit integers."""

    def __post_init__(self) -> None:
        if self.scale > LARGEST_SCALE:
            raise BadValue("the noise would be larger than 64 bits hold", hint="a budget this small says nothing; ask for less")

    def randomize(self, sums: Sequence[int]) -> list[int]:
        """The sums with fresh noise. OpenDP's own privacy map must agree with ours before anything is released."""
        if not self.scale > 0.0:
            raise BadValue("a release needs a positive noise scale")
        if any(abs(value) > LARGEST_SUM for value in sums):
            raise BadValue("a sum is too large for the lattice", hint="split the frame into several surveys")
        measurement = self._measurement()
        self._check(measurement)
        return [int(value) for value in measurement([int(value) for value in sums])]

    def answer(self, rows: Rows) -> Rows:
        """All rows with fresh noise, as one vector."""
        flat = self.randomize([value for row in rows for value in row])
        width = len(rows[0])
        return [flat[start : start + width] for start in range(0, len(flat), width)]

    @abstractmethod
    def _check(self, measurement: Any) -> None:
        """Refuse to release when OpenDP's privacy map exceeds the profile."""


class Answering(Protocol):
    """What a plan needs of a mechanism: rows of secret figures in, rows of published whole numbers out."""

    @property
    def kind(self) -> str:
        """The name of the noise."""

    @property
    def scale(self) -> float:
        """Its public scale."""

    @property
    def sensitivity(self) -> float:
        """The sensitivity it was calibrated to."""

    @property
    def variance(self) -> float:
        """The variance of additive noise, in squared lattice steps."""

    @property
    def kurtosis(self) -> float:
        """The excess kurtosis of additive noise."""

    def answer(self, rows: Rows) -> Rows:
        """The answer to secret figures."""


def opendp() -> Any:
    """OpenDP's prelude, imported on first use."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp
