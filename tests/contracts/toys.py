"""A design, a statistic with an encoding of its own, and a mechanism, as somebody outside the package would write them.

Running this file puts them on the lists; whoever does takes them off again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpsurvey.design.checks import check_count
from dpsurvey.design.compared import Candidate, Compared
from dpsurvey.design.parts import Part
from dpsurvey.design.poisson import IndependentDraws
from dpsurvey.design.recipe import Each
from dpsurvey.design.registry import register as register_design
from dpsurvey.mechanism import Laplace
from dpsurvey.mechanism import register as register_mechanism
from dpsurvey.privacy.budget import amount
from dpsurvey.statistic import Statistic
from dpsurvey.statistic import register as register_statistic
from dpsurvey.statistic.encodings import NOT_NEGATIVE, Encoding
from dpsurvey.statistic.estimators.random_size import GroupSums, solve
from dpsurvey.statistic.notes import estimates_of

FINE = 2**20


@dataclass(frozen=True)
class CoinFlips(IndependentDraws):
    """Each unit that shows heads in all of its flips."""

    kind: ClassVar[str] = "coin-flips"
    of_frame: ClassVar[tuple[str, ...]] = ("size",)
    flips: int
    size: int | None = None

    @property
    def rates(self):
        return (0.5**self.flips,)

    def sized(self, size):
        return CoinFlips(self.flips, size or self.size)

    def parts(self):
        return (Part(None, self.rates[0], None, self.size),)

    def recipe(self):
        return Each(self.rates[0])

    def in_words(self, unit="unit"):
        return f"each {unit} that shows heads in {self.flips} flips"


def _compared(share):
    flips = CoinFlips(round(-math.log2(share.rate)))
    yield Compared("coin flips", flips, "add-remove", "add-remove", "each unit by itself", flips)


def _candidates(asked):
    yield Candidate("coin flips", CoinFlips(round(-math.log2(asked.rate))))


@register_design("coin-flips", compared=_compared, candidates=_candidates)
def coin_flips(flips: int) -> CoinFlips:
    """Draw each unit that shows heads in all of so many flips of a coin."""
    check_count("flips", flips)
    return CoinFlips(flips)


@dataclass(frozen=True)
class Squares(Encoding):
    """The square of a value, and what is left of the record."""

    name: ClassVar[str] = "squares"
    width: ClassVar[int] = 2
    moves: ClassVar = NOT_NEGATIVE
    rounded: ClassVar[float] = 2.0
    counting: ClassVar[tuple[int, ...]] = (0, 1)

    def record(self, row):
        square = row.least(row.to_steps(row.steps * (row.y * row.y)), row.steps)
        return [square, row.steps - square]

    def profile(self, mean, square, facts):
        return np.asarray([square, 1.0 - square])


@dataclass(frozen=True)
class MeanSquare(Statistic):
    """The mean of the squares of a column from 0 to a public bound."""

    kind: ClassVar[str] = "mean square"
    most: float = 1.0

    def query(self, facts):
        return self._query(facts, Squares(), FINE, weighted=True, bounds=(0.0, self.most))

    def typical(self):
        return 0.5, 1.0 / 3.0

    @property
    def prediction_rests_on(self):
        return "values spread evenly"

    def estimate(self, noisy):
        levels, facts, query = np.array([1.0, 0.0]), noisy.facts, noisy.query
        sums = GroupSums(noisy.records, levels, noisy.variance, noisy.kurtosis, intervals=noisy.intervals)
        answer = solve(sums, 0.0, 1.0, facts.thinning(query.by, query.groups))
        return estimates_of(answer, 0.0, 1.0).scaled(self.most**2)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "of": self.of, "most": self.most} | self._where_dict()


@register_statistic('{ kind = "mean square", of = "income", most = 100 }')
def mean_square(of: str, most: float, by: tuple[str, ...] = ()) -> MeanSquare:
    """The mean of the squares of a column from 0 to a public bound."""
    return MeanSquare(of=of, by=(by,) if isinstance(by, str) else tuple(by), most=float(most))


@register_mechanism
@dataclass(frozen=True)
class Cautious(Laplace):
    """Laplace noise at twice the scale that the charge asks for."""

    kind: ClassVar[str] = "cautious"

    @classmethod
    def calibrate(cls, charge, sensitivity):
        return cls(2.0 * sensitivity / amount(charge), sensitivity)
