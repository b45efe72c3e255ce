"""The mean of a column over the frame, or over each public group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

from .base import Estimates
from .bounded import Bounds
from .estimators.clusters import Contributions
from .estimators.random_groups import means_by_random_group
from .facts import Facts
from .linear_numbers import LinearNumbers, by_group
from .measured import Measured, MeasuredOptions
from .noisy_sums import NoisySums
from .query import Query
from .registry import register


@dataclass(frozen=True)
class Mean(Measured):
    """The mean of the clipped column. See `mean`."""

    kind: ClassVar[str] = "mean"
    shows_subject: ClassVar[bool] = True

    def estimate(self, noisy: NoisySums) -> Estimates:
        return self._means(noisy)

    def linear_numbers(self, query: Query, facts: Facts) -> LinearNumbers:
        return by_group(query, *self._range(query))

    def contributions(self, noisy: NoisySums) -> Contributions | None:
        """What every random group of clusters adds, by group; None where there are no random groups."""
        return None if noisy.query.random_groups is None else means_by_random_group(noisy, self._range(noisy.query))


@register('{ kind = "mean", of = "income", bounds = [0, 250_000], by = ["region"] }')
def mean(
    of: str,
    bounds: Bounds | None = None,
    by: str | tuple[str, ...] | None = None,
    expect: tuple[float, float] | Mapping[Any, tuple[float, float]] | None = None,
    **options: Unpack[MeasuredOptions],
) -> Mean:
    """The mean of a column, clipped to public bounds, over the frame, by public groups, or of those that `where` names.

    `bounds` is a pair, or a mapping from the categories of one column to pairs. `expect=(mean, sd)`, from a published
    source, sharpens the plan's prediction and its choice of an estimator, and nothing else. `estimator="ratio"` (Hajek) divides
    by the estimated number of units; "horvitz-thompson" by the declared one. Strata of fixed size serve the whole by "pooled",
    "by-stratum" or "separate-variance", or with "ratio" by the one with the smallest predicted error; `between` is a public
    share of variance between strata, for that prediction. `trim` cuts larger weights to it; `shrink`
    keeps that part of each weight and pulls the rest to the middle; both put a bound on the bias into the interval. `trimmed` is
    the public share of all weight in a collected file that `trim` cuts off (`planning.best_cut` finds both): the bound is then
    exact.
    `missing` is the public value that stands for a missing answer; without it missing answers are refused (`imputed` fills
    them). `recipe` is the name of `estimator` for strata up to 0.8.0.

    >>> mean("income", bounds=(0, 250_000), by="region").name
    'mean of income by region'
    """
    return Mean._make(of, bounds, by, expect, **options)
