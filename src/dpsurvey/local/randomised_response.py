"""Reports that are themselves one of the categories: two coins, Warner's device, generalised randomised response.

All of them, and round two of Sampling Privacy seen alone, have the law "the truth with probability t, else category v with
probability o_v": p_v = t + o_v, q_v = o_v. A report v has probability o_v, or t + o_v if v is the answer, so

    epsilon = max over v of log(1 + t/o_v).

Warner 1965, JASA 60; Kairouz, Bonawitz and Ramage 2016 (generalised randomised response).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue
from .base import Array, Marks, OneReport, Reports
from .chance import Chance, Whole
from .probabilities import Probability, check_categories, coin, die, fraction, loss, weights_for

YES = 1


class DirectResponse(OneReport):
    """Reports that are categories; `law(answer)` gives the probability of each output.

    The loss, the estimator and its variance follow from the law. The client must draw by just these probabilities.

    >>> warner(0.75).law(0), warner(0.75).hit(1)
    ([Fraction(3, 4), Fraction(1, 4)], (Fraction(3, 4), Fraction(1, 4)))
    """

    # Whether a form says of a report that is not the answer that it is the other one.
    opposite: ClassVar[bool] = False

    @abstractmethod
    def law(self, answer: int) -> list[Fraction]:
        """The probability of every output for one answer."""

    @property
    def marks_of_report(self) -> int | None:  # type: ignore[override]
        return 1 if self.outputs == self.k else None

    def hit(self, category: int) -> tuple[Fraction, Fraction]:
        return self.law(category)[category], self.law(1 if category == 0 else 0)[category]

    def marks(self, reports: Reports, category: int) -> Marks:
        return np.asarray(reports[:, 0] == category, dtype=np.int8)

    def mark_sums(self, reports: Reports, weights: Array | None = None) -> Array:
        return np.bincount(reports[:, 0], weights=weights, minlength=self.outputs)[: self.k].astype(np.float64)

    @property
    def epsilon(self) -> float:
        laws = [self.law(answer) for answer in range(self.k)]
        return loss(pair for one in laws for other in laws for pair in zip(one, other, strict=True))

    def client(self) -> dict[str, Any]:
        # One die for each answer.
        return {"how": "direct", "dice": [die(self.law(answer)) for answer in range(self.k)]}


@dataclass(frozen=True)
class TwoCoins(DirectResponse):
    """Randomised response with two coins: heads of the first, tell the truth; else "yes" (category 1) on heads of the second.

    P(yes | yes) = pi1 + (1 - pi1) pi2, P(yes | no) = (1 - pi1) pi2. The loss is the larger one of both reports': Eq. 30 of
    Joy and Gerla has the "yes" only, which is too small for pi2 > 1/2.

    >>> round(two_coins(0.85, 0.3).epsilon, 6), round(two_coins(0.8, 0.9).epsilon, 3)
    (2.990161, 3.714)
    """

    kind: ClassVar[str] = "two-coins"
    title: ClassVar[str] = "randomised response with two coins"
    pi1: Fraction
    pi2: Fraction
    k: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "pi1", fraction("pi1", self.pi1))
        object.__setattr__(self, "pi2", fraction("pi2", self.pi2))
        if self.k != 2:
            raise BadValue("two coins answer a question of two categories", given=f"k={self.k}", hint='kind = "generalised"')

    def law(self, answer: int) -> list[Fraction]:
        yes = (1 - self.pi1) * self.pi2 + (self.pi1 if answer == YES else 0)
        return [1 - yes, yes]

    def _randomize(self, answers: Whole, chance: Chance) -> Reports:
        truthful = chance.pick(coin(self.pi1), len(answers))
        otherwise = chance.pick(coin(self.pi2), len(answers))
        return np.where(truthful == 1, answers, otherwise)[:, None]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "pi1": str(self.pi1), "pi2": str(self.pi2)}


@dataclass(frozen=True)
class Warner(DirectResponse):
    """Warner's device: the truth with probability p, its opposite else. epsilon = |log(p/(1-p))|.

    >>> round(warner(0.75).epsilon, 6)
    1.098612
    """

    kind: ClassVar[str] = "warner"
    title: ClassVar[str] = "Warner's randomised response"
    opposite: ClassVar[bool] = True
    p: Fraction
    k: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", fraction("p", self.p))
        if self.k != 2:
            raise BadValue(
                "Warner's device answers a question of two categories", given=f"k={self.k}", hint='kind = "generalised"'
            )

    def law(self, answer: int) -> list[Fraction]:
        return [self.p, 1 - self.p] if answer == 0 else [1 - self.p, self.p]

    def _randomize(self, answers: Whole, chance: Chance) -> Reports:
        truthful = chance.pick(coin(self.p), len(answers))
        return np.where(truthful == 1, answers, 1 - answers)[:, None]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "p": str(self.p)}


@dataclass(frozen=True)
class GeneralisedResponse(DirectResponse):
    """Generalised randomised response: the truth with probability e^epsilon/(e^epsilon + k - 1), else any other category.

    >>> three = GeneralisedResponse(3, 1.0)
    >>> [round(float(p), 6) for p in three.law(0)]
    [0.576117, 0.211942, 0.211942]
    >>> 0.0 <= 1.0 - three.epsilon < 1e-12
    True
    """

    kind: ClassVar[str] = "generalised"
    title: ClassVar[str] = "generalised randomised response"
    alike: ClassVar[bool] = True
    k: int
    at_epsilon: float
    # Odds of the answer itself, and of each other category.
    weights: tuple[int, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_categories(self.k)
        object.__setattr__(self, "weights", weights_for(self.at_epsilon, self.k - 1))

    def law(self, answer: int) -> list[Fraction]:
        truth, other = self.weights
        total = truth + (self.k - 1) * other
        return [Fraction(truth if output == answer else other, total) for output in range(self.k)]

    def hit(self, category: int) -> tuple[Fraction, Fraction]:
        truth, other = self.weights
        total = truth + (self.k - 1) * other
        return Fraction(truth, total), Fraction(other, total)

    @property
    def epsilon(self) -> float:
        return loss([(Fraction(self.weights[0]), Fraction(self.weights[1]))])

    def _randomize(self, answers: Whole, chance: Chance) -> Reports:
        truth, other = self.weights
        # One throw: below `truth` the answer, above it one of the k - 1 others, in order and without the answer.
        keeps = chance.pick([(self.k - 1) * other, truth], len(answers))
        others = chance.below(self.k - 1, len(answers))
        return np.where(keeps == 1, answers, others + (others >= answers))[:, None]

    def client(self) -> dict[str, Any]:
        return {"how": "generalised", "truth": self.weights[0], "other": self.weights[1]}

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "k": self.k, "epsilon": self.at_epsilon}


def two_coins(pi1: Probability, pi2: Probability) -> TwoCoins:
    """Randomised response with two coins; probabilities are taken as they are written.

    >>> two_coins(0.8, 0.2)
    TwoCoins(pi1=Fraction(4, 5), pi2=Fraction(1, 5), k=2)
    """
    return TwoCoins(fraction("pi1", pi1), fraction("pi2", pi2))


def warner(p: Probability) -> Warner:
    """Warner's device: the truth with probability p.

    >>> warner("3/4").p
    Fraction(3, 4)
    """
    return Warner(fraction("p", p))


def generalised(k: int, epsilon: float) -> GeneralisedResponse:
    """Generalised randomised response over k categories.

    >>> 0.0 <= 1.0 - generalised(5, 1.0).epsilon < 1e-12
    True
    """
    return GeneralisedResponse(k, epsilon)
