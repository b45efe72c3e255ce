"""Errors to expect where the estimate is no straight line in its sums: of a quantile, of a ratio with a noisy denominator.

Samples and noise are simulated from declared figures and pushed through the estimator of a release. Nothing is released, so
the generator is an ordinary one with a fixed seed: the same plan always says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..mechanism.base import Answering
from .facts import Facts
from .interval import Array
from .population import ExpectedPopulation
from .query import Query
from .sampling_error import design_covariance
from .tree import Tree

if TYPE_CHECKING:
    from .base import Statistic

Draw = Callable[[np.random.Generator, int], Array]
# Encodings whose estimates are no straight line in the sums.
BENT = ("tree", "ratio", "both")
DRAWS = 4_000
SEED = 20_000
# Doubles that simulated sums may take at once, and numbers that are simulated at all.
AT_ONCE, MOST = 2_000_000, 60
# Variance over the square of half the distance between the 16th and the 84th percentile: 1 for the normal law, 1.6 for Laplace's.
WILD = 4.0


def simulated_errors(
    statistic: Statistic, query: Query, facts: Facts, mechanism: Answering, population: ExpectedPopulation, sums: Array
) -> tuple[Array, Array] | None:
    """(se_sampling, se_noise) of every number by simulation; None where that would take too long."""
    if query.slots is not None or len(query.groups) > MOST or mechanism.kind not in ("laplace", "gaussian"):
        return None
    random = np.random.default_rng(SEED)
    draw = (
        _trees(statistic, query, facts, population) if query.encoding == "tree" else _units(statistic, query, facts, population)
    )
    step = max(1, AT_ONCE // sums.size)
    sampled, noisy = [], []
    for start in range(0, DRAWS, step):
        exact = sums[None] + draw(random, min(step, DRAWS - start))
        sd = np.sqrt(mechanism.variance)
        laplace = mechanism.kind == "laplace"
        noise = random.laplace(0.0, sd / np.sqrt(2.0), exact.shape) if laplace else random.normal(0.0, sd, exact.shape)
        sampled.append(statistic.estimate(exact, query, mechanism, facts).estimate)
        noisy.append(statistic.estimate(exact + noise, query, mechanism, facts).estimate)
    own, whole = (_spread(np.concatenate(each)) for each in (sampled, noisy))
    return np.sqrt(own), np.sqrt(np.maximum(whole - own, 0.0))


def _spread(estimates: Array) -> Array:
    """Variances; not a number where a few runs make up most of it, as of a ratio whose denominator may be nothing but noise."""
    finite = np.where(np.isfinite(estimates), estimates, np.nan)
    variance = np.nanvar(finite, axis=0)
    low, high = np.nanquantile(finite, (0.1587, 0.8413), axis=0)
    return np.where(variance > WILD * ((high - low) / 2.0) ** 2 + 1e-300, np.nan, variance)


def _units(statistic: Statistic, query: Query, facts: Facts, population: ExpectedPopulation) -> Draw:
    """Numbers of units and sums of their variables, normal, with the covariance of the design in each group."""
    profiles = np.stack(statistic.unit_profiles(query, facts)) * query.steps
    means, covariances = statistic.unit_moments(population)
    inside = (population.units / np.maximum(population.whole[:, None], 1e-300))[..., None]
    ones = np.ones((*population.units.shape, 1))
    vector = np.concatenate([ones, means], axis=-1)
    first = inside * vector
    square = vector[..., :, None] * vector[..., None, :]
    square[..., 1:, 1:] += covariances
    second = inside[..., None] * square
    product = first[..., :, None] * first[..., None, :]
    covariance = design_covariance(first, second, product, statistic.effect, population, facts)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    effects = np.concatenate([profiles[:1], profiles[1:] - profiles[:1]])

    def draw(random: np.random.Generator, count: int) -> Array:
        normal = random.standard_normal((count, *root.shape[:2]))
        return np.asarray(np.einsum("gvw,rgw,vc->rgc", root, normal, effects))

    return draw


def _trees(statistic: Statistic, query: Query, facts: Facts, population: ExpectedPopulation) -> Draw:
    """Leaf counts of a sample, multinomial and drawn towards their mean by the finite population; nodes above add up."""
    tree = Tree(query.branching, query.levels)
    profile = statistic.profile(0.5, 1.0 / 3.0, query, facts)[-tree.leaves :]
    shares = profile / profile.sum()
    counts = population.counts
    ones = np.ones(population.units.shape)
    inside = population.units / np.maximum(population.whole[:, None], 1e-300)
    spread = design_covariance(0.0 * ones, inside * ones, 0.0 * ones, statistic.effect, population, facts)
    # What the design makes of the variance of as many independent units.
    factor = np.sqrt(spread / np.maximum(counts, 1e-300))

    def draw(random: np.random.Generator, count: int) -> Array:
        drawn = np.stack([random.multinomial(round(max(each, 1.0)), shares, size=count) for each in counts], axis=1)
        apart = (drawn - np.round(np.maximum(counts, 1.0))[:, None] * shares) * factor[:, None]
        return np.asarray(tree.add_up(apart) * query.steps)

    return draw
