"""Variance of an expanded total under sampling in stages: strata, clusters, clusters within clusters.

With z the weighted value of a row and t_u the sum of z over a unit u of a stage,

    V = sum over stages, strata of  m (1 - n/N) n/(n-1) sum_u (t_u - mean t)^2

where n units of the N in the stratum were drawn. At the second stage a stratum is a first-stage unit, and m is the
fraction of first-stage units that were drawn. Without population sizes the first stage counts as drawn with replacement,
and then it holds all the variance. Särndal, Swensson and Wretman 1992, Model Assisted Survey Sampling, 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..design.columns import no_such_stages, population_too_small, population_varies
from ..errors import BadData, BadValue
from .columns import Array, Codes, Mask, paired

LONELY = ("refuse", "certainty", "adjust", "average")


@dataclass(frozen=True)
class Stage:
    """One stage: the unit of each row, the stratum of each unit, and per stratum n, N (inf: with replacement) and m."""

    unit: Codes
    stratum: Codes
    drawn: Array
    population: Array
    multiplier: Array

    @property
    def lonely(self) -> Mask:
        """Strata from which one unit of several was drawn: they say nothing about their variance."""
        return np.asarray((self.drawn == 1.0) & (self.population > 1.0))

    def variance(self, expanded: Array, rule: str) -> float:
        """This stage's part of the variance of the sum of `expanded`."""
        strata = len(self.drawn)
        totals = np.bincount(self.unit, weights=expanded, minlength=len(self.stratum))
        means = np.bincount(self.stratum, weights=totals, minlength=strata) / self.drawn
        lonely = self.lonely
        if rule == "adjust" and lonely.any():
            means = np.where(lonely, totals.mean(), means)
        squares = np.bincount(self.stratum, weights=(totals - means[self.stratum]) ** 2, minlength=strata)
        correction = self.drawn / np.maximum(self.drawn - 1.0, 1.0)
        parts = self.multiplier * (1.0 - self.drawn / self.population) * correction * squares
        if rule == "average" and lonely.any():
            if lonely.all():
                raise BadData("every stratum has one unit only", because="there is no other stratum to average over")
            return float(parts[~lonely].sum() * strata / (strata - lonely.sum()))
        return float(parts.sum())

    def own_squares(self, rule: str) -> Array:
        """What the square of each row's own weighted value counts in `variance`, if rows vary independently."""
        lonely, units = self.lonely, len(self.stratum)
        factor = self.multiplier * (1.0 - self.drawn / self.population)
        # n/(n-1) times (1 - 1/n)^2 + (n-1)/n^2, which is 1; a lonely unit is compared with nothing, or with all units.
        counted = np.where(lonely, 0.0, factor)
        shared = 0.0
        if rule == "adjust" and lonely.any():
            counted = np.where(lonely, factor * (1.0 - 2.0 / units), counted)
            shared = float(factor[lonely].sum()) / units**2
        elif rule == "average" and lonely.any():
            counted = counted * len(lonely) / (len(lonely) - lonely.sum())
        return np.asarray((counted[self.stratum] + shared)[self.unit])


@dataclass(frozen=True)
class StagedDesign:
    """Sampling in one or more stages, with a rule for strata that hold one drawn unit.

    "refuse" does not build such a design, "certainty" counts the stratum's part as 0, "adjust" centres its unit at the mean
    of all units of the stage, "average" gives it the mean part of the other strata.
    """

    stages: tuple[Stage, ...]
    lonely: str = "refuse"

    def variance(self, expanded: Array) -> float:
        """The estimated variance of the sum of weighted values."""
        return sum(stage.variance(expanded, self.lonely) for stage in self.stages)

    def own_squares(self) -> Array:
        """What the square of each row's own weighted value counts in `variance`: 1 - n/N in a simple random sample.

        >>> staged_design(np.zeros(4, int), [np.arange(4)], [np.full(4, 8.0)], nest=True, lonely="refuse").own_squares().tolist()
        [0.5, 0.5, 0.5, 0.5]
        """
        return np.asarray(sum(stage.own_squares(self.lonely) for stage in self.stages))

    def df(self, rows: Mask | None = None) -> float:
        """First-stage units minus strata, counted among the rows of a domain."""
        return degrees_of_freedom(self.stages[0].unit, self.stages[0].stratum, rows)


def degrees_of_freedom(unit: Codes, stratum: Codes, rows: Mask | None = None) -> float:
    """The number of units minus the number of their strata, among the given rows.

    >>> degrees_of_freedom(np.array([0, 0, 1, 2]), np.array([0, 0, 0]))
    2.0
    """
    if rows is None:
        return float(len(stratum) - (int(stratum.max()) + 1))
    seen = np.bincount(unit[rows], minlength=len(stratum)) > 0
    return float(seen.sum() - np.count_nonzero(np.bincount(stratum[seen])))


def staged_design(
    strata: Codes, units: Sequence[Codes], populations: Sequence[Array] | None, *, nest: bool, lonely: str
) -> StagedDesign:
    """The design of rows with a stratum, a unit for each stage and the population of units each was drawn from.

    >>> one = staged_design(np.zeros(4, int), [np.arange(4)], [np.full(4, 8.0)], nest=True, lonely="refuse")
    >>> round(one.variance(np.array([2.0, 4.0, 6.0, 8.0])), 9)
    13.333333333
    """
    if lonely not in LONELY:
        raise BadValue("the rule for lonely units is unknown", given=f"lonely={lonely!r}", hint="use one of " + ", ".join(LONELY))
    if populations is not None and len(populations) != len(units):
        raise no_such_stages()
    stages: list[Stage] = []
    above = strata
    multiplier = np.ones(len(strata))
    for number, labels in enumerate(units):
        unit = paired(above, labels)
        if number == 0 and not nest and unit.max() != labels.max():
            raise BadData("a psu label occurs in several strata", hint="use nest=True if labels are reused across strata")
        stage = _stage(above, unit, None if populations is None else populations[number], multiplier)
        stages.append(stage)
        if populations is None:
            break
        fraction = stage.drawn / stage.population
        multiplier, above = multiplier * fraction[above], unit
    if lonely == "refuse" and any(stage.lonely.any() for stage in stages):
        raise BadData(
            "a stratum has one sampled unit, so its variance cannot be estimated",
            hint='merge it with a similar stratum, or choose lonely="adjust", "average" or "certainty"',
        )
    return StagedDesign(tuple(stages), lonely)


def _stage(above: Codes, unit: Codes, population: Array | None, multiplier: Array) -> Stage:
    """One stage from the row codes of strata and units."""
    strata, count = int(above.max()) + 1, int(unit.max()) + 1
    stratum = np.zeros(count, dtype=np.intp)
    stratum[unit] = above
    drawn = np.bincount(stratum, minlength=strata).astype(np.float64)
    sizes, factor = np.full(strata, np.inf), np.ones(strata)
    factor[above] = multiplier
    if population is not None:
        sizes[above] = population
        if np.isnan(population).any() or np.any(sizes[above] != population):
            raise population_varies()
        if np.any(sizes < drawn):
            raise population_too_small()
    return Stage(unit, stratum, drawn, sizes, factor)


def weights_from(design: StagedDesign) -> Array:
    """The weights that population sizes imply: the product over stages of N/n.

    >>> two = staged_design(np.zeros(2, int), [np.arange(2)], [np.full(2, 10.0)], nest=True, lonely="refuse")
    >>> weights_from(two).tolist()
    [5.0, 5.0]
    """
    weights = np.ones(len(design.stages[0].unit))
    for stage in design.stages:
        weights = weights * (stage.population / stage.drawn)[stage.stratum[stage.unit]]
    return np.asarray(weights)
