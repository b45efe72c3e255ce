"""Errors to expect where an estimate is not linear in its sums: quantiles, and whatever is divided by a noisy sum.

Samples and noise are simulated from declared figures and pushed through the estimator of a release. Nothing is released, so
the generator is an ordinary one with a fixed seed: the same plan always says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...mechanism.added_noise import AddedNoise
from ...mechanism.base import Mechanism
from ...mechanism.cluster_norm import SumsAndNorms
from ..encodings import TreeCounts
from ..estimators.interval import Array
from ..facts import Facts
from ..noisy_sums import NoisySums
from ..query import Query
from .population import ExpectedPopulation
from .sampling_error import FEWEST, by_group, design_covariance, in_cells, with_few_random_groups

if TYPE_CHECKING:
    from ..base import Statistic

Draw = Callable[[np.random.Generator, int], Array]
# Noise over the number it is added to, above which dividing by it is not linear.
MUCH = 0.05
# Surveys that are simulated, at most and at least, and their numbers in all: of large trees and of many groups fewer.
DRAWS, LEAST, NUMBERS = 16_000, 1_000, 80_000
SEED = 20_000
# Doubles that simulated sums may take at once, and in all; groups that are simulated at all; doubles of their covariances.
AT_ONCE, IN_ALL, MOST, MOST_COVARIANCE = 500_000, 1_100_000, 60, 4_000_000
# A fourth moment over the squared variance (3 for the normal law, 6 for Laplace's) above which a few runs decide the variance.
WILD = 15.0


def simulated_errors(statistic: Statistic, expected: NoisySums, population: ExpectedPopulation) -> tuple[Array, Array] | None:
    """(se_sampling, se_noise) of every number by simulation; None where that would take too long, or nothing bends."""
    query, facts, encoding = expected.query, expected.facts, expected.query.encoding
    mechanism = expected.mechanism.of_sums if isinstance(expected.mechanism, SumsAndNorms) else expected.mechanism
    if len(query.groups) > MOST or not isinstance(mechanism, Mechanism | AddedNoise):
        return None
    if encoding.bends != "always" and not _noisy(expected, population):
        return None
    random = np.random.default_rng(SEED)
    if isinstance(encoding, TreeCounts):
        draw: Draw | None = _trees(statistic, encoding, query, facts, population)
    else:
        draw = _units(statistic, query, facts, population)
    if draw is None:
        return None
    few, base = with_few_random_groups(query), by_group(expected.sums, query)
    asked = expected.asked.with_query(few)
    random_groups = 1.0 if query.random_groups is None else query.random_groups.count / FEWEST
    step = max(1, AT_ONCE // (few.cells * few.components))
    runs = int(np.clip(min(IN_ALL // (few.cells * few.components), NUMBERS // len(query.groups)), LEAST, DRAWS))
    sampled, noisy = [], []
    # Intervals are thrown away: random groups that agree, as here, would divide by nothing.
    with np.errstate(all="ignore"):
        for start in range(0, runs, step):
            cells = in_cells(base[None] + draw(random, min(step, runs - start)), few)
            sampled.append(statistic.estimate(asked.answered(cells)).estimate)
            cells = cells + mechanism.simulated(random, cells.shape, random_groups)
            noisy.append(statistic.estimate(asked.answered(cells)).estimate)
    # Means, shares and quantiles stay within their bounds, so that their variance exists whatever the noise does.
    endless = statistic.masks or encoding.endless
    own, whole = (_spread(np.concatenate(each), endless) for each in (sampled, noisy))
    return np.sqrt(own), np.sqrt(np.maximum(whole - own, 0.0))


def _noisy(expected: NoisySums, population: ExpectedPopulation) -> bool:
    """Whether the noise of some group's number of units is much beside that number."""
    query = expected.query
    cells = query.random_groups.cells if query.random_groups is not None else 1
    sd = np.sqrt(cells * query.components * expected.mechanism.variance) / query.steps
    return bool(np.any(sd > MUCH * population.counts))


def _spread(estimates: Array, endless: bool) -> Array:
    """Variances; not a number where a few runs make up most of one that has no end, as of a ratio to little more than noise."""
    finite = np.where(np.isfinite(estimates), estimates, np.nan)
    apart = (finite - _mean(finite)) ** 2
    variance, fourth = _mean(apart), _mean(apart**2)
    return np.where(endless & (fourth > WILD * variance**2), np.nan, variance)


def _mean(runs: Array) -> Array:
    """The mean of the runs that gave a number; not a number where none did."""
    count = (~np.isnan(runs)).sum(axis=0)
    return np.where(count > 0, np.nansum(runs, axis=0) / np.maximum(count, 1), np.nan)


def _units(statistic: Statistic, query: Query, facts: Facts, population: ExpectedPopulation) -> Draw | None:
    """Numbers of units of all groups and sums of their variables, normal, with the covariance of the design."""
    profiles = np.stack(statistic.unit_profiles(query, facts)) * query.steps
    population = population.spread_out()
    means, covariances = statistic.unit_moments(population)
    strata, groups = population.units.shape
    kinds = means.shape[-1] + 1
    if strata * (groups * kinds) ** 2 > MOST_COVARIANCE:
        return None
    inside = population.inside[..., None]
    vector = np.concatenate([np.ones((strata, groups, 1)), means], axis=-1)
    square = vector[..., :, None] * vector[..., None, :]
    square[..., 1:, 1:] += covariances
    # A unit is in one group, so products of different groups vanish.
    second = np.zeros((strata, groups, kinds, groups, kinds))
    second[:, np.arange(groups), :, np.arange(groups), :] = (inside[..., None] * square).swapaxes(0, 1)
    first = (inside * vector).reshape(strata, groups * kinds)
    second = second.reshape(strata, groups * kinds, groups * kinds)
    product = first[..., :, None] * first[..., None, :]
    covariance = design_covariance(first, second, product, statistic.effect, population, facts)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    effects = np.concatenate([profiles[:1], profiles[1:] - profiles[:1]])

    def draw(random: np.random.Generator, count: int) -> Array:
        moved = (random.standard_normal((count, groups * kinds)) @ root.T).reshape(count, groups, kinds)
        return np.asarray((moved @ effects) * np.asarray(query.finer)[:, None])

    return draw


def _trees(statistic: Statistic, encoding: TreeCounts, query: Query, facts: Facts, population: ExpectedPopulation) -> Draw:
    """Leaf counts of a sample, multinomial and drawn towards their mean by the finite population; nodes above add up."""
    tree = encoding.tree
    profile = statistic.profile(0.5, 1.0 / 3.0, query, facts)[-tree.leaves :]
    shares = profile / profile.sum()
    counts = population.counts
    none = np.zeros(population.units.shape)
    spread = design_covariance(none, population.inside, none, statistic.effect, population, facts, alone=True)
    # What the design makes of the variance of as many independent units.
    factor = np.sqrt(spread / np.maximum(counts, 1e-300))

    def draw(random: np.random.Generator, count: int) -> Array:
        drawn = np.stack([random.multinomial(round(max(each, 1.0)), shares, size=count) for each in counts], axis=1)
        apart = (drawn - np.round(np.maximum(counts, 1.0))[:, None] * shares) * factor[:, None]
        return np.asarray(tree.add_up(apart) * query.steps)

    return draw
