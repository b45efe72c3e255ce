"""The two constructions of section 3 of Joy and Gerla, which lead up to Sampling Privacy.

The first (Eq. 1) hides everything and says nothing: whoever is sampled answers "yes". The second (Eqs. 2-5) is randomised
response for a sampled part of the respondents; the others stay silent, visibly, so being sampled adds nothing to privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpsurvey.errors import BadValue
from dpsurvey.local import Chance, DirectResponse, coin, fraction

from .parameters import YES

__all__ = ["ToyDeniability", "ToyNoise", "toy_deniability", "toy_noise"]

SILENT = 2
Whole = npt.NDArray[np.int64]
Probability = Fraction | float | int | str


class ToyResponse(DirectResponse):
    """Reports "no", "yes", or nothing; those who stay silent are counted among the respondents."""

    def _check(self, *names: str) -> None:
        if self.k != 2:
            raise BadValue("the toys answer a question of two categories", given=f"k={self.k}")
        for name in names:
            object.__setattr__(self, name, fraction(name, getattr(self, name)))

    @property
    def outputs(self) -> int:
        return 3


@dataclass(frozen=True)
class ToyNoise(ToyResponse):
    """Eq. 1: "yes" with probability pi_s whatever the answer, else silence. epsilon = 0, and no estimator exists.

    >>> toy_noise(0.4).epsilon
    0.0
    """

    kind: ClassVar[str] = "toy-noise"
    title: ClassVar[str] = "the toy with sampling and noise (Eq. 1)"
    pi_s: Fraction
    k: int = 2

    def __post_init__(self) -> None:
        self._check("pi_s")

    def law(self, answer: int) -> list[Fraction]:
        return [Fraction(0), self.pi_s, 1 - self.pi_s]

    def _randomize(self, answers: Whole, chance: Chance) -> Whole:
        sampled = chance.pick(coin(self.pi_s), len(answers))
        return np.where(sampled == 1, YES, SILENT)[:, None]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "pi_s": str(self.pi_s)}


@dataclass(frozen=True)
class ToyDeniability(ToyResponse):
    """Eqs. 2-5: with probability pi_s the respondent answers by two coins, else stays silent.

    The estimate of the number of "yes" is (count - pi_s (1-pi1) pi2 N)/(pi_s pi1); with a = pi1 + (1-pi1) pi2, b = (1-pi1) pi2,
    A = pi_s a and B = pi_s b its variance is [Y A(1-A) + (N-Y) B(1-B)]/(pi_s pi1)^2. N counts the silent ones too. The loss is
    that of the coins alone.

    >>> toy = toy_deniability(0.5, 0.8, 0.2)
    >>> of_yes, of_no = toy.spread(YES)
    >>> round(100 * of_yes + 900 * of_no, 9)
    262.5
    """

    kind: ClassVar[str] = "toy-deniability"
    title: ClassVar[str] = "the toy with sampling and plausible deniability (Eqs. 2-5)"
    pi_s: Fraction
    pi1: Fraction
    pi2: Fraction
    k: int = 2

    def __post_init__(self) -> None:
        self._check("pi_s", "pi1", "pi2")

    def law(self, answer: int) -> list[Fraction]:
        yes = self.pi_s * ((1 - self.pi1) * self.pi2 + (self.pi1 if answer == YES else 0))
        return [self.pi_s - yes, yes, 1 - self.pi_s]

    def _randomize(self, answers: Whole, chance: Chance) -> Whole:
        sampled, truthful, otherwise = (chance.pick(coin(each), len(answers)) for each in (self.pi_s, self.pi1, self.pi2))
        spoken = np.where(truthful == 1, answers, otherwise)
        return np.where(sampled == 1, spoken, SILENT)[:, None]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "pi_s": str(self.pi_s), "pi1": str(self.pi1), "pi2": str(self.pi2)}


def toy_noise(pi_s: Probability) -> ToyNoise:
    """The first toy of Joy and Gerla.

    >>> toy_noise(0.4).law(0) == toy_noise(0.4).law(1)
    True
    """
    return ToyNoise(fraction("pi_s", pi_s))


def toy_deniability(pi_s: Probability, pi1: Probability, pi2: Probability) -> ToyDeniability:
    """The second toy of Joy and Gerla.

    >>> from dpsurvey.local import two_coins
    >>> toy_deniability(0.5, 0.8, 0.2).epsilon == two_coins(0.8, 0.2).epsilon
    True
    """
    return ToyDeniability(fraction("pi_s", pi_s), fraction("pi1", pi1), fraction("pi2", pi2))
