"""A statistic that is made from another one, and predicted as that one is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from .base import Earlier, Group, Statistic
from .estimators.interval import Array
from .facts import Facts
from .missing import item_response
from .noisy_sums import NoisySums
from .predict.population import ExpectedPopulation
from .query import Query


@dataclass(frozen=True)
class Derived(Statistic):
    """A statistic made from another one, with errors predicted from what that one expects; one number unless it says more."""

    base: Statistic = None  # type: ignore[assignment]

    def published(self, query: Query) -> list[Group]:
        return [{}]

    def item_response(self, noisy: NoisySums) -> Array | None:
        return item_response(noisy, overall=True) if self.drops else None

    def typical(self) -> tuple[float, float]:
        return self.base.typical()

    def typical_in(self, facts: Facts, labels: Mapping[str, str]) -> tuple[float, float]:
        return self.base.typical_in(facts, labels)

    def profile(self, mean: float, square: float, query: Query, facts: Facts) -> Array:
        return self.base.profile(mean, square, query, facts)

    def unit_profiles(self, query: Query, facts: Facts) -> list[Array]:
        return self.base.unit_profiles(query, facts)

    def unit_moments(self, population: ExpectedPopulation) -> tuple[Array, Array]:
        return self.base.unit_moments(population)

    @property
    def effect(self) -> float | None:
        return self.base.effect

    def expecting(self, earlier: Earlier) -> Self:
        return replace(self, base=self.base.expecting(earlier))

    @property
    def prediction_rests_on(self) -> str:
        return self.base.prediction_rests_on
