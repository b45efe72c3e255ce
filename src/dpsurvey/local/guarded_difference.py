"""A safe relative of Sampling Privacy: the same die and the same two rounds, and noise on the difference that is published.

Aggregators that hold additive shares compute the difference of the rounds, D_v = c2_v - c1_v for v >= 1, and each adds
discrete Laplace noise of scale 1/eps0 to its part before anybody sees it. A respondent moves D only if sampled, which happens
with probability pi_s and is secret. So answers 0 and v differ as a sampled record that is there or not, and v and v' as one
that is replaced:

    two categories           log(1 + pi_s (e^eps0 - 1))
    three or more            log((1 - pi_s + pi_s e^eps0)/(1 - pi_s + pi_s e^-eps0))

These hold against outsiders, and against all aggregators but one: its noise alone is enough. The variance of a count is
Y_v (1 - pi_s)/pi_s + m V/pi_s^2 for m aggregators, V = 2 e^-eps0/(1 - e^-eps0)^2, and it does not grow with the number of
respondents. Proof: docs/guides/local.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue
from ..mechanism.laplace import Laplace
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.rounding import amplified, replaced, unamplified
from ..text.layout import ceiling_text
from .aggregated import MODULUS
from .base import Array, Marks, Reports, Words
from .probabilities import Probability, check_epsilon, fraction
from .sampling_privacy import SamplingPrivacy

GUARD = "one aggregator at least keeps its shares and its noise to itself, and publishes one sum"
DIE = "whether a respondent was sampled by the die is known to the respondent alone"


@dataclass(frozen=True)
class GuardedDifference(SamplingPrivacy):
    """Sampling Privacy whose published difference is differentially private.

    >>> safe = guarded([0.275, 0.275], 0.45, epsilon=1.0)
    >>> round(safe.inside_epsilon, 4), round(safe.published.epsilon(0.0), 4), round(safe.sum_variance(aggregators=2), 3)
    (1.5724, 1.0, 1.322)
    """

    kind: ClassVar[str] = "guarded"
    title: ClassVar[str] = "Sampling Privacy with a guarded difference"
    against: ClassVar[str] = "all who see the published difference, and all aggregators but one"
    holds_when: ClassVar[tuple[str, ...]] = (GUARD, DIE)
    source: ClassVar[str] = "discrete Laplace noise on a secretly sampled count, docs/guides/local.md"
    at_epsilon: float = math.nan
    aggregators: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.at_epsilon)
        if isinstance(self.aggregators, bool) or not isinstance(self.aggregators, int) or self.aggregators < 2:
            raise BadValue("shares need two or more aggregators", given=f"aggregators={self.aggregators}")

    @property
    def inside_epsilon(self) -> float:
        """eps0: what one unit of the difference may lose, so that a respondent loses `at_epsilon`."""
        # A hair below, so that rounding in the noise scale does not lift the loss above what was asked for.
        rate, target = self._rate, self.at_epsilon * (1.0 - 2.0**-44)
        inside = unamplified(target, rate)
        if self.k == 2:
            return inside
        low, high = 0.0, inside
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (middle, high) if replaced(middle, rate) <= target else (low, middle)
        return low

    @property
    def _rate(self) -> float:
        """pi_s, rounded up: losses grow with it, and near 1 the digits of 1 - pi_s decide."""
        return min(1.0, math.nextafter(float(self.pi_s), 2.0))

    @property
    def noise(self) -> Laplace:
        """The noise that each aggregator adds to each category."""
        return Laplace.calibrate(PrivacyProfile.pure(self.inside_epsilon, Relation.ADD_REMOVE), sensitivity=1.0)

    @property
    def published(self) -> PrivacyProfile:
        """The guarantee for what is published, to a respondent whose answer is replaced."""
        inside, rate = self.noise.profile(Relation.ADD_REMOVE).epsilon(0.0), self._rate
        return PrivacyProfile.pure(amplified(inside, rate) if self.k == 2 else replaced(inside, rate), Relation.REPLACE_ONE)

    @property
    def claimed_epsilon(self) -> float:
        return self.published.epsilon(0.0)

    @property
    def refuted_epsilon(self) -> float | None:
        return None

    @property
    def sums_guarantee(self) -> str:
        return (
            f"To each respondent, against all who see the published difference and all aggregators but one: epsilon "
            f"{ceiling_text(self.claimed_epsilon)} for one answer replaced by another; nothing if all of them join."
        )

    @property
    def leakage_note(self) -> str:
        kept = ceiling_text(self.claimed_epsilon)
        return f"Published is the difference of the rounds with noise, epsilon {kept}; nobody sees the counts themselves."

    def adds(self, reports: Reports) -> Marks:
        return self.counts(reports, 1)[:, 1:] - self.counts(reports, 0)[:, 1:]

    @property
    def published_shape(self) -> tuple[int, int]:
        return 1, self.k - 1

    def publish(self, totals: Sequence[Words]) -> list[list[int]]:
        # The difference of the rounds for categories from 1 on, with fresh noise.
        difference = totals[1][1:] - totals[0][1:]
        noise = self.noise.randomize([0] * len(difference))
        return [[(int(value) + extra) % MODULUS for value, extra in zip(difference, noise, strict=True)]]

    def possible(self, sums: Sequence[Array], respondents: int, aggregators: int) -> bool:
        # Laplace noise beyond forty of its scales has a chance below 1e-17, for each aggregator.
        reach = aggregators * (40.0 * self.noise.scale + 1.0)
        return bool(np.all((sums[0] >= -reach) & (sums[0] <= respondents + reach)))

    def marks_of_sums(self, sums: Sequence[Array]) -> Array:
        # Category 0 is what is left, so the noise of all others is in it; its mark is theirs with the sign turned.
        return np.concatenate([-sums[0].sum(axis=0, keepdims=True), sums[0]])

    def noise_of_share(self, category: int, respondents: int, aggregators: int) -> tuple[float, float]:
        each = self.noise.variance
        draws = aggregators * (self.k - 1 if category == 0 else 1)
        scaled = each / (float(self.pi_s) * respondents) ** 2
        return draws * scaled, draws * scaled**2 * (3.0 + 1.0 / max(each, 1e-12))

    def sum_variance(self, aggregators: int | None = None) -> float:
        """The variance of the noise in the published difference of one category."""
        return (aggregators or self.aggregators) * self.noise.variance

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"epsilon": self.at_epsilon, "aggregators": self.aggregators}


def guarded(chances: list[Probability], pi_s: Probability, epsilon: float, aggregators: int = 2) -> GuardedDifference:
    """Sampling Privacy with noise on the difference, for two or more aggregators.

    >>> guarded([0.2, 0.2, 0.2], 0.4, epsilon=1.0).published.epsilon(0.0) <= 1.0
    True
    """
    dice = tuple(fraction(f"pi_{v}", each) for v, each in enumerate(chances))
    return GuardedDifference(dice, fraction("pi_s", pi_s), epsilon, aggregators)
