"""The generalised regression estimate of a mean or total, from noisy products of regressors and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue, NoGuarantee
from .adjust import greg as greg_answer
from .base import Estimates, Statistic
from .derived import Derived
from .encodings import Products
from .facts import Facts
from .mean import Mean
from .missing import DROP, WEIGHTED
from .noisy_sums import NoisySums
from .number_limits import check_bounds
from .query import FINE, Query
from .registry import register
from .total import Total

Regressor = tuple[str, float, float, float]
FORM = 'on={"age": ((0, 120), 41.3)}; in survey.toml on = { age = { bounds = [0, 120], mean = 41.3 } }'


@dataclass(frozen=True)
class RegressionEstimate(Derived):
    """A mean or total regressed on columns with public means. See `greg`."""

    kind: ClassVar[str] = "greg"
    adjusts: ClassVar[bool] = True
    on: tuple[Regressor, ...] = ()

    def query(self, facts: Facts) -> Query:
        if facts.clustering is not None:
            raise NoGuarantee(
                "the regression estimate is not offered for cluster samples",
                because="its variance needs the clusters",
                hint="publish the plain mean or total",
            )
        assert isinstance(self.base, Mean | Total)
        regressors = tuple((name, low, high) for name, low, high, _ in self.on)
        query = self._query(facts, Products(regressors), FINE, weighted=True, bounds=self.base.bounds)
        # With equal weights a replaced record leaves the count as it is, whether or not the count is public.
        kept = query.weights is None and len(query.lattice) == 1 and not facts.respondents_only and not self.filters
        return replace(query, group_is_fixed=query.group_is_fixed or kept)

    @property
    def of_those_who_answered(self) -> str:
        return WEIGHTED

    @property
    def answers(self) -> tuple[str, ...]:
        return (str(self.of), *(name for name, *_ in self.on))

    @property
    def prediction_rests_on(self) -> str:
        return super().prediction_rests_on + ", and regressors that explain nothing"

    @property
    def label(self) -> str:
        return f"{self.base.kind} of {self.base.label}, regressed on {', '.join(name for name, *_ in self.on)}"

    @property
    def name(self) -> str:
        return self.label

    def title(self, label: str) -> str:
        return label

    def estimate(self, noisy: NoisySums) -> Estimates:
        facts, p = noisy.facts, len(self.on) + 2
        upper = noisy.records[..., 0, :]
        products = np.zeros((*upper.shape[:-1], p, p))
        rows, columns = np.triu_indices(p)
        products[..., rows, columns] = upper
        products[..., columns, rows] = upper
        means = np.array([(mean - low) / (high - low) for _, low, high, mean in self.on])
        answer = greg_answer(
            products,
            noisy.variance,
            means,
            size=None if self.filters else facts.sampled_units,
            noise_kurtosis=noisy.kurtosis,
            thinning=float(facts.thinning((), ((),))[0]),
        )
        assert isinstance(self.base, Mean | Total)
        low, high = self.base.bounds
        factor = float(facts.size) if isinstance(self.base, Total) else 1.0
        span = factor * (high - low)
        notes = (answer.notes,) if noisy.one_survey else ()
        return Estimates(
            factor * low + span * answer.estimate[..., None],
            span * answer.se_sampling[..., None],
            span * answer.se_noise[..., None],
            factor * low + span * answer.low[..., None],
            factor * low + span * answer.high[..., None],
            notes,
            "regression on noisy products",
            whole_range=answer.whole_range[..., None],
        )

    def to_dict(self) -> dict[str, Any]:
        on = {name: {"bounds": [low, high], "mean": mean} for name, low, high, mean in self.on}
        return {"kind": self.kind, "of": self.base.to_dict(), "on": on}


@register(
    '{ kind = "greg", of = { kind = "mean", of = "income", bounds = [0, 250_000] }, '
    "on = { age = { bounds = [0, 120], mean = 41.3 } } }",
    of_another=True,
)
def greg(of: Statistic, on: Mapping[str, Any]) -> RegressionEstimate:
    """The mean or total of a column, corrected by a regression on columns whose population means are public.

    `on` maps each regressor to its public bounds and its public mean, as a pair or as {"bounds": ..., "mean": ...}. The slopes
    come from noisy sums of products, so the correction is free; it pays where the regressors explain much and the sample is
    large.

    >>> from .mean import mean
    >>> greg(mean("income", bounds=(0, 250_000)), on={"age": ((0, 120), 41.3)}).name
    'mean of income, regressed on age'
    """
    if not isinstance(of, Mean | Total):
        raise BadValue(
            "a regression estimate is of a mean or a total",
            given=f"{of.name!r}" if isinstance(of, Statistic) else f"a {type(of).__name__}",
            hint='greg(mean("income", bounds=(0, 250_000)), ...); other statistics can be asked as they are',
        )
    if of.by or of.where or of.own:
        raise BadValue("a mean or total of the whole is regressed", hint="leave out by=, where= and bounds by category")
    if of.estimator != "ratio" or any((of.trim, of.shrink)):
        raise BadValue("a regression estimate has neither trim=, shrink= nor another estimator", hint="leave them out")
    if of.missing is not None and (isinstance(of, Total) or of.missing != DROP):
        raise BadValue(
            "no such rule for missing answers fits a regression estimate",
            given=f"missing={of.missing!r}",
            hint="missing='drop', for a mean: of those who answered it and all regressors",
        )
    if not isinstance(on, Mapping) or not on or of.of in on:
        raise BadValue("on= maps other columns to their public bounds and mean", hint=FORM)
    regressors = tuple(_regressor(name, given) for name, given in on.items())
    return RegressionEstimate(of=of.of, base=of, on=regressors, missing=of.missing)


def _regressor(name: Any, given: Any) -> Regressor:
    if isinstance(given, Mapping) and set(given) == {"bounds", "mean"}:
        given = (given["bounds"], given["mean"])
    if not isinstance(name, str) or not name or not isinstance(given, tuple | list) or len(given) != 2:
        raise BadValue(f"the regressor {name!r} needs its public bounds and its public mean", hint=FORM)
    bounds, mean = given
    low, high = check_bounds(bounds, name)
    if isinstance(mean, bool) or not isinstance(mean, int | float) or not low <= mean <= high:
        raise BadValue(f"the public mean of {name!r} is a number within its bounds", given=repr(mean), hint=FORM)
    return name, low, high, float(mean)
