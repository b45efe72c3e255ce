"""Statistics whose variance within strata may be bought: the mechanism answers a mean and a variance in place of sums."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from ..mechanism.bought_variance import MeanAndVariance
from ..mechanism.weighted_strata import WeightedStrata
from .base import Statistic
from .estimators.interval import Array
from .noisy_sums import Asked, NoisySums


@dataclass(frozen=True)
class VarianceMayBeBought(Statistic):
    """Predicts what such a mechanism answers, and the sampling error of the estimate."""

    @property
    @abstractmethod
    def of_plain_sums(self) -> Self:
        """The same estimate from noisy sums: a bought variance changes the interval alone."""

    def expected(self, asked: Asked) -> tuple[NoisySums, bool]:
        found, declared = super().expected(asked)
        if isinstance(asked.mechanism, MeanAndVariance | WeightedStrata):
            return asked.answered(np.array([asked.mechanism.exact(found.sums.tolist())])), declared
        return found, declared

    def sampling_variances(self, expected: NoisySums) -> Array | None:
        mechanism, facts, plain = expected.mechanism, expected.facts, self.of_plain_sums
        if not isinstance(mechanism, MeanAndVariance | WeightedStrata):
            return super().sampling_variances(expected)
        asked = Asked(plain.query(facts), facts, mechanism.of_mean, expected.intervals)
        return plain.sampling_variances(plain.expected(asked)[0])
