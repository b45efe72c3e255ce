"""The proportion of units with one value of a column, over the frame or over each public group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import BadValue
from .base import Estimates
from .cluster_variance import AUTO
from .counted import Counted, ends_of, unit_of
from .estimators.clusters import Contributions
from .estimators.names import RATIO
from .estimators.random_groups import means_by_random_group
from .facts import Facts
from .linear_numbers import LinearNumbers, by_group
from .noisy_sums import NoisySums
from .query import Query
from .registry import register


@dataclass(frozen=True)
class Proportion(Counted):
    """The proportion of units with a value. See `proportion`."""

    kind: ClassVar[str] = "proportion"
    shows_subject: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.of is None:
            raise BadValue("name the column of the proportion", hint='proportion("status", "unemployed")')

    def estimate(self, noisy: NoisySums) -> Estimates:
        return self._proportions(noisy)

    def linear_numbers(self, query: Query, facts: Facts) -> LinearNumbers:
        return by_group(query, 0.0, 1.0, unit=unit_of(query, facts))

    def contributions(self, noisy: NoisySums) -> Contributions | None:
        """What every random group of clusters adds, by group; None where there are no random groups."""
        return None if noisy.query.random_groups is None else means_by_random_group(noisy, ends_of(noisy.query))


@register('{ kind = "proportion", of = "status", value = "unemployed" }')
def proportion(
    of: str,
    value: object,
    by: str | tuple[str, ...] | None = None,
    expect: float | Mapping[Any, float] | None = None,
    where: Mapping[str, Any] | None = None,
    missing: object = None,
    estimator: str = RATIO,
    deff: float | None = None,
    source: str = "",
    recipe: str | None = None,
    variance: str = AUTO,
) -> Proportion:
    """The proportion of units whose column has a value, over the frame, by public groups, or of those that `where` names.

    `estimator="separate-variance-9:1"` is a published rule for strata, for comparison; `recipe` is the name of this
    argument up to 0.8.0. The other options are those of `mean`.

    >>> proportion("status", "unemployed", by=("region", "sex")).name
    'proportion of status = unemployed by region, sex'
    """
    return Proportion._make(of, value, by, expect, where, missing, estimator, deff, source, recipe, variance)
