"""The sampling error to expect of every estimate: what one sampled unit does to the estimate, over the units of each stratum.

The estimate is moved by a small number of units of each kind, through the code that a release runs; the design and the
declared figures say how much the number of such units varies. To first order this is the variance of the estimate,
with the gain of strata that the standard error of a release leaves out where it cannot be had for free.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..estimators.interval import Array
from ..facts import Facts
from ..noisy_sums import NoisySums
from ..query import Query
from ..random_group_layout import cells_in_use
from .population import ExpectedPopulation, units_drawn

if TYPE_CHECKING:
    from ..base import Statistic

# Numbers that are estimated at once, over all the ways in which sums are moved; beyond, a release's own error stands in.
MOST = 400_000
# Doubles of the moved sums that are estimated at once.
AT_ONCE = 100_000
# Random groups that a variance between them needs.
FEWEST = 2


def sampling_variances(statistic: Statistic, expected: NoisySums, population: ExpectedPopulation) -> Array | None:
    """The sampling variance of every published number; None where there are too many numbers, or units, to tell."""
    query, facts, counts = expected.query, expected.facts, population.counts
    if not np.all(counts > 0.0) or (query.weights is not None and query.weights.largest < facts.largest_weight):
        return None
    profiles = statistic.unit_profiles(query, facts)
    few = with_few_random_groups(query)
    moves = np.stack([_moved(profile, few) for profile in profiles])
    steps = statistic.step * np.sqrt(np.maximum(counts, 1.0))
    # Random groups that agree divide by nothing, in intervals that are thrown away.
    with np.errstate(all="ignore"):
        here = expected.asked.with_query(few).answered(in_cells(by_group(expected.sums, query), few))
        slopes = _slopes(statistic, here, moves, steps)
    if slopes is None:
        return None
    alone = slopes.ndim == 2
    first, second = (_moments_alone if alone else _moments)(statistic, slopes, population)
    return design_covariance(first, second, first**2, statistic.effect, population, facts, alone=alone)


def with_few_random_groups(query: Query) -> Query:
    """The query with two random groups to a stratum: an estimate is made of the sum over random groups, however many they are."""
    return query if query.random_groups is None else replace(query, random_groups=replace(query.random_groups, count=FEWEST))


def by_group(sums: Array, query: Query) -> Array:
    """Sums of cells added up over the random groups and strata of each group: (groups, components)."""
    return np.asarray(sums.reshape(len(query.groups), -1, query.components).sum(axis=1))


def in_cells(sums: Array, query: Query) -> Array:
    """Sums of groups (..., groups, components) in equal parts in the cells that can hold them: (..., cells, components)."""
    if query.random_groups is None:
        return sums
    used = cells_in_use(query)
    part = used / used.sum(axis=1, keepdims=True)
    spread = sums[..., None, :] * part[:, :, None]
    return np.asarray(spread.reshape(*sums.shape[:-2], query.cells, query.components))


def _moved(profile: Array, query: Query) -> Array:
    """One unit of each group, in the cells of its group: (groups, cells of a group, components) in steps."""
    one = np.broadcast_to(profile * query.steps, (len(query.groups), query.components)) * np.asarray(query.finer)[:, None]
    return in_cells(one, query).reshape(len(query.groups), -1, query.components)


def _slopes(statistic: Statistic, here: NoisySums, moves: Array, steps: Array) -> Array | None:
    """By how much one unit of a group moves each number: (numbers, groups, kinds of units).

    Where a number depends on its own group alone, all groups are moved at once: (groups, kinds of units).
    """
    query = here.query
    groups, kinds = len(query.groups), len(moves)
    published = len(statistic.published(query))

    def estimates(changes: Array) -> Array:
        # changes: (batch, groups, cells of a group, components)
        added = changes.reshape(len(changes), -1, query.components)
        return statistic.estimate(here.with_sums(here.sums[None] + added)).estimate

    def slope(changes: Array, by: Array) -> Array:
        return np.asarray((estimates(changes) - estimates(-changes)) / (2.0 * by))

    scaled = moves * steps[None, :, None, None]
    if groups == 1:
        return slope(scaled, steps[0]).T[:, None, :]
    if published == groups:
        alone = np.zeros_like(scaled)
        alone[:, 0] = scaled[:, 0]
        found = np.abs(estimates(alone) - estimates(np.zeros_like(alone)))
        if np.all(found[:, 1:] <= 1e-9 * np.maximum(found[:, :1], 1e-300)):
            return slope(scaled, steps[None, :]).T
    if groups * kinds * published > MOST:
        return None
    batch = max(1, AT_ONCE // scaled[0].size)
    places = [(kind, group) for kind in range(kinds) for group in range(groups)]
    found = np.zeros((kinds * groups, published))
    for start in range(0, len(places), batch):
        kind, group = np.array(places[start : start + batch]).T
        each = np.zeros((len(kind), *scaled.shape[1:]))
        each[np.arange(len(kind)), group] = scaled[kind, group]
        found[start : start + batch] = slope(each, steps[group][:, None])
    return np.asarray(found.reshape(kinds, groups, published).transpose(2, 1, 0))


def _moments_alone(statistic: Statistic, slopes: Array, population: ExpectedPopulation) -> tuple[Array, Array]:
    """Mean and mean square of what one sampled unit does to the number of its own group, by (stratum, group)."""
    means, covariances = statistic.unit_moments(population)
    base, rises = slopes[:, 0], slopes[:, 1:] - slopes[:, :1]
    centre = base + np.einsum("gv,hgv->hg", rises, means)
    spread = np.einsum("gv,hgvw,gw->hg", rises, covariances, rises)
    return population.inside * centre, population.inside * (centre**2 + spread)


def _moments(statistic: Statistic, slopes: Array, population: ExpectedPopulation) -> tuple[Array, Array]:
    """Mean and mean square, over the units of each stratum, of what one sampled unit does: (strata, numbers) each."""
    means, covariances = statistic.unit_moments(population)
    base, rises = slopes[..., 0], slopes[..., 1:] - slopes[..., :1]
    inside, strata = population.inside, len(population.whole)
    first, second = np.zeros((strata, len(slopes))), np.zeros((strata, len(slopes)))
    for row, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        centre = base + np.einsum("kgv,gv->kg", rises, mean)
        square = centre**2 + np.einsum("kgv,gvw,kgw->kg", rises, covariance, rises)
        if population.own is None:
            first[row], second[row] = centre @ inside[row], square @ inside[row]
        else:
            np.add.at(first, population.own, (centre * inside[row]).T)
            np.add.at(second, population.own, (square * inside[row]).T)
    return first, second


def design_covariance(
    first: Array,
    second: Array,
    product: Array,
    effect: float | None,
    population: ExpectedPopulation,
    facts: Facts,
    *,
    alone: bool = False,
) -> Array:
    """The (co)variance of sums over the sample, added up over strata (first axis); `alone` where each is of one group.

    `first` and `second` are the means over a stratum's units of z and of products of z, `product` the products of the means.
    With a declared design effect: that of a simple random sample of as many answers, times the effect.
    """

    def by_stratum(figure: Array, like: Array = second) -> Array:
        return population.rows(figure) if alone else figure.reshape(-1, *(1,) * (like.ndim - 1))

    if effect is not None:
        part = population.whole / float(population.whole.sum())
        mean, square = (np.asarray((by_stratum(part, each) * each).sum(axis=0)) for each in (first, second))
        return effect * _as_simple(mean, square, population, facts)
    size, chance, r = (by_stratum(each) for each in (population.whole, population.chance, population.response))
    if not facts.parts:
        low, high = facts.weights
        # Weights between the declared extremes, as if spread evenly on a logarithmic scale.
        even = (high - low) / math.log(high / low) if high > low * (1.0 + 1e-9) else low
        typical = max(even, facts.typical_weight)
        # A file that was collected already is estimated without a correction for a finite population.
        finite = 0.0 if facts.collected else r**2
        return np.asarray((size * (r * typical - finite) / high**2 * second).sum(axis=0))
    share = by_stratum(population.share)
    second, product = second * share**2, product * share**2
    n = by_stratum(population.drawn)
    if population.replaced:
        return np.asarray((n * (r * second - r**2 * product)).sum(axis=0))
    if not population.settled:
        return np.asarray((size * chance * r * (1.0 - chance * r) * second).sum(axis=0))
    # A fixed number is drawn, and each of them answers by itself: Var = n r(1 - f r) E z^2 - n(1 - f) r^2 (E z)^2.
    spread = n * (r * (1.0 - chance * r) * second - (1.0 - chance) * r**2 * product)
    # A number that is rounded by chance varies by itself.
    rounded = (n - np.floor(n)) * (np.ceil(n) - n) * r**2 * product
    return np.asarray((spread * np.where(size > 1.0, size / np.maximum(size - 1.0, 1.0), 1.0) + rounded).sum(axis=0))


def _as_simple(mean: Array, square: Array, population: ExpectedPopulation, facts: Facts) -> Array:
    """The covariance under a simple random sample of as many answers: what a design effect multiplies."""
    size = float(population.whole.sum())
    part = population.whole / size
    product = mean**2 if square.ndim == mean.ndim else mean[..., :, None] * mean[..., None, :]
    if facts.parts:
        answers = float(population.drawn @ population.response)
    else:
        answers = units_drawn(facts) * float(part @ population.response)
    answers = max(1e-9, answers if facts.collected else min(size, answers))
    share = size / answers / facts.largest_weight
    finite = 1.0 if facts.collected else (1.0 - answers / size) * size / max(size - 1.0, 1.0)
    return np.asarray(answers * finite * share**2 * (square - product))
