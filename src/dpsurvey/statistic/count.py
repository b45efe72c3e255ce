"""The number of units, with one value of a column or in each public group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue
from .base import Estimates, sizes_of_groups
from .cluster_variance import AUTO
from .counted import Counted, share_of_whole, unit_of
from .encodings import Pair, Units
from .estimators.norm_interval import norm_numbers
from .facts import Facts
from .linear_numbers import LinearNumbers, by_group, shares_of_whole
from .noisy_sums import Asked, NoisySums
from .query import Query
from .registry import register

REPEATS = "the sizes of these groups are declared: the count repeats them with noise, and is charged"


@dataclass(frozen=True)
class Count(Counted):
    """The number of units with a value, or in a group. See `count`."""

    kind: ClassVar[str] = "count"
    masks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.of is None and not (self.by or self.where):
            raise BadValue(
                "the number of all units is the declared frame size", hint='count("status", "unemployed"), or count(by="sex")'
            )

    def query(self, facts: Facts) -> Query:
        facts.ask_for_size()
        if self.of or not self.by:
            return super().query(facts)
        # Under a condition those outside it are counted too, as no: shares are of all units.
        encoding = Pair() if self.conditional else Units()
        between = self.variance_between(facts)
        return self._query(facts, encoding, 1, weighted=True, between=between)

    def typical(self) -> tuple[float, float]:
        return super().typical() if self.of or not self.by else (1.0, 1.0)

    def advice(self, asked: Asked) -> tuple[str, ...]:
        known = not self.of and not self.conditional and None not in sizes_of_groups(asked.facts.frame, asked.query)
        return (*super().advice(asked), *((REPEATS,) if known else ()))

    @property
    def compares_with_all(self) -> bool:
        return not self.of and bool(self.by)

    @property
    def answers(self) -> tuple[str, ...]:
        return (self.of,) if self.of else self.by

    @property
    def prediction_rests_on(self) -> str:
        return super().prediction_rests_on if self.of or not self.by else "the declared sizes of the groups"

    def _share_of_whole(self, facts: Facts) -> bool:
        if self.of is None and self.by:
            return True
        return None in sizes_of_groups(facts.frame, self._query(facts, Pair(), 1, weighted=False))

    def linear_numbers(self, query: Query, facts: Facts) -> LinearNumbers:
        if self._share_of_whole(facts):
            return shares_of_whole(query, 0.0, 1.0, facts.frame.size, facts.largest_weight)
        sizes = np.array([float(size or 0) for size in sizes_of_groups(facts.frame, query)])
        return by_group(query, 0.0, 1.0, unit=unit_of(query, facts)).scaled(sizes)

    def estimate(self, noisy: NoisySums) -> Estimates:
        query, facts = noisy.query, noisy.facts
        if self._share_of_whole(facts):
            return share_of_whole(noisy)
        if query.clusters is not None:
            return norm_numbers(noisy, self.linear_numbers(query, facts))
        sizes = np.array([float(size or 0) for size in sizes_of_groups(facts.frame, query)])
        return self._proportions(noisy).scaled(float(facts.size) if query.by and not self.by else sizes)


@register('{ kind = "count", of = "status", value = "unemployed" }')
def count(
    of: str | None = None,
    value: object = None,
    by: str | tuple[str, ...] | None = None,
    expect: float | Mapping[Any, float] | None = None,
    where: Mapping[str, Any] | None = None,
    missing: object = None,
    deff: float | None = None,
    source: str = "",
    variance: str = AUTO,
) -> Count:
    """The number of units whose column has a value, or of all units in each public group.

    >>> count("status", "unemployed").name, count(by="sex").name
    ('count of status = unemployed', 'count by sex')
    """
    return Count._make(of, value, by, expect, where, missing, deff=deff, source=source, variance=variance)
