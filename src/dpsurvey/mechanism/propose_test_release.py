"""Propose a bound on the local sensitivity, test in private whether it is safe, and release only if the test passes.

The proposal is public. The test asks how many records would have to change before one more could move the value by more
than the proposal, and hides that distance with noise of its own. It is paid for whether or not it passes.
Proof: docs/proofs/medians.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import BadData, BadValue
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.rounding import up
from .laplace import Laplace
from .order_statistic import Array, Place, local_sensitivities


def distance_to_larger(window: Array, place: Place, bound: float) -> npt.NDArray[np.int64]:
    """How many records must change before the local sensitivity exceeds `bound`, counted up to the reach of the window.

    D = least k with A^(k) > bound. Data sets one record apart differ by at most 1 in D, and so in min(D, reach).

    >>> from dpsurvey.mechanism.order_statistic import padded_window
    >>> middle = Place.median(5)
    >>> window = padded_window([2, 3, 4, 5, 9], middle, 3, 0, 10)
    >>> [int(distance_to_larger(window, middle, bound)) for bound in (0.5, 1, 2, 5, 9)]
    [0, 1, 1, 2, 3]
    """
    larger = local_sensitivities(window, place) > bound
    return np.asarray(np.where(larger.any(axis=-1), larger.argmax(axis=-1), larger.shape[-1]), dtype=np.int64)


def chance_to_pass(distance: int, threshold: int, scale: float) -> float:
    """P(distance + noise > threshold), P(noise = k) proportional to e^(-|k|/scale); rounded up.

    >>> round(chance_to_pass(0, 9, 1.0), 10), round(chance_to_pass(30, 9, 1.0), 6)
    (3.319e-05, 1.0)
    """
    needed = threshold + 1 - distance
    tail = math.exp(-(needed if needed > 0 else 1 - needed) / scale) / (1.0 + math.exp(-1.0 / scale))
    return up(tail) if needed > 0 else min(1.0, up(1.0 - tail))


@dataclass(frozen=True)
class ProposeTestRelease:
    """Test whether `bound` steps are safe; if so, release the value with discrete Laplace noise of scale bound/release_epsilon.

    Released only if the noisy distance exceeds `threshold`, the least with P(pass | distance 0) <= delta asked for. Together
    (test_epsilon + release_epsilon, delta) under replace-one, whether or not the test passes.

    >>> mechanism = ProposeTestRelease.calibrate(1.0, 1e-6, bound=50)
    >>> mechanism.threshold, mechanism.delta <= 1e-6
    (26, True)
    """

    kind: ClassVar[str] = "propose-test-release"
    bound: int
    test_epsilon: float
    release_epsilon: float
    threshold: int

    def __post_init__(self) -> None:
        if self.bound != int(self.bound) or self.bound < 1:
            raise BadValue("a proposal is a whole number of steps, at least one", given=f"bound={self.bound}")
        if not (0.0 < self.test_epsilon < math.inf and 0.0 < self.release_epsilon < math.inf and self.threshold >= 0):
            raise BadValue("both parts need a positive epsilon, and the threshold is at least 0")

    @classmethod
    def calibrate(cls, epsilon: float, delta: float, *, bound: int, test_share: float = 0.5) -> ProposeTestRelease:
        """Split epsilon between the test and the release, with the least threshold that keeps delta."""
        if not (0.0 < epsilon < math.inf and 0.0 < delta < 1.0 and 0.0 < test_share < 1.0):
            given = f"epsilon={epsilon}, delta={delta}, test_share={test_share}"
            raise BadValue("epsilon must be positive, delta and the share of the test in (0, 1)", given=given)
        # A part in 10^12 is kept back, so that the two parts never add up to more than the whole.
        test, release = (epsilon * share * (1.0 - 1e-12) for share in (test_share, 1.0 - test_share))
        scale = _noise(test, 1).scale
        # P(noise > T) = e^(-(T+1)/scale)/(1 + e^(-1/scale)), solved for T and then moved to the private side.
        exact = -scale * math.log(delta * (1.0 + math.exp(-1.0 / scale))) - 1.0
        threshold = max(0, math.floor(exact))
        while chance_to_pass(0, threshold, scale) > delta:
            threshold += 1
        return cls(bound, test, release, threshold)

    @property
    def epsilon(self) -> float:
        """What the test and the release cost together."""
        return up(self.test_epsilon + self.release_epsilon)

    @property
    def delta(self) -> float:
        """The chance that the test passes where the proposal is not safe."""
        return chance_to_pass(0, self.threshold, _noise(self.test_epsilon, 1).scale)

    def profile(self, relation: Relation) -> PrivacyProfile:
        """(epsilon, delta) under replace-one, charged for the test whatever its outcome."""
        if relation != Relation.REPLACE_ONE:
            raise BadValue("the distance is counted in replaced records", given=f"relation={relation!r}")
        return PrivacyProfile.approximate(self.epsilon, self.delta, Relation.REPLACE_ONE)

    def randomize(self, value: int, distance: int) -> int | None:
        """The value with fresh noise, or None when the noisy distance does not exceed the threshold."""
        if value != int(value):
            raise BadValue("the value must be in whole steps", hint="use half steps for the average of two values")
        if distance != int(distance) or distance < 0:
            raise BadData("a distance counts records")
        if _noise(self.test_epsilon, 1).randomize([int(distance)])[0] <= self.threshold:
            return None
        return _noise(self.release_epsilon, self.bound).randomize([int(value)])[0]


def _noise(epsilon: float, sensitivity: int) -> Laplace:
    return Laplace.calibrate(PrivacyProfile.pure(epsilon, Relation.REPLACE_ONE), float(sensitivity))
