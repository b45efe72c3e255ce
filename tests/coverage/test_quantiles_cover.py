"""Intervals for quantiles hold the true value at least 95 times in 100, over simulated surveys.

Samples are drawn as counts per leaf (hypergeometric or binomial) and noise is added by numpy with a fixed seed: this is a
simulation, not a release. A comparison alarms when a coverage of 95 % would be that low with probability below 1e-6
(exact binomial). That it does fail for wrong intervals is shown beside each.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binom

from dpsurvey.mechanism import exponential
from dpsurvey.statistic.estimators.fixed_size import FixedSizes
from dpsurvey.statistic.estimators.quantile_interval import QuantileAnswer, edges, quantile_from_tree
from dpsurvey.statistic.estimators.rank_shift import shifted_ranks, shifted_weights
from dpsurvey.statistic.estimators.tree import Tree, total_noise
from dpsurvey.statistic.estimators.woodruff import fixed_size_variance, poisson_variance, random_size_variance, sampled_weight

SURVEYS = 2_000
ALARM = float(binom.ppf(1e-6, SURVEYS, 0.95)) / SURVEYS
TREE = Tree(16, 2)
# What a replaced record moves all nodes by: it leaves one path and enters another.
MOVED = 2.0 * TREE.levels
LEAVES = TREE.leaves
EDGES = edges(0, LEAVES, LEAVES)
STRATA = np.array([40_000, 12_000, 8_000])
TAKES = np.array([400, 300, 300])
SIZE = int(STRATA.sum())


@lru_cache
def population(name: str) -> np.ndarray:
    """How many units of each stratum are in each leaf: (strata, leaves)."""
    random = np.random.default_rng(20260303)
    shift = np.array([0.0, 0.1, 0.3])
    counts = []
    for size, by in zip(STRATA, shift, strict=True):
        if name == "skewed":
            x = random.lognormal(3.0 + by, 0.7, size)
        elif name == "even":
            x = LEAVES * (random.random(size) * 0.7 + by)
        else:
            # Half of everyone at each end and nobody between: the distribution is flat where the median is.
            x = np.where(np.arange(size) < size // 2 - 1, 0.0, LEAVES - 1.0)
        counts.append(np.bincount(np.clip(x, 0, LEAVES - 1).astype(int), minlength=LEAVES))
    return np.array(counts)


def truth(counts: np.ndarray, q: float) -> int:
    """The leaf that holds the quantile of the population."""
    return int(np.searchsorted(np.cumsum(counts), math.ceil(q * counts.sum() - 1e-9)))


def leaves_of(counts: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    return random.multivariate_hypergeometric(counts, n, size=SURVEYS, method="marginals").astype(np.float64)


def noisy(leaf_sums: np.ndarray, scale: float, random: np.random.Generator, laplace: bool = True) -> tuple[np.ndarray, float]:
    """The nodes with noise, and its variance."""
    nodes = TREE.add_up(leaf_sums)
    if not laplace:
        return nodes + random.normal(0.0, scale, nodes.shape), scale**2
    ratio = math.exp(-1.0 / scale)
    noise = random.geometric(1.0 - ratio, nodes.shape) - random.geometric(1.0 - ratio, nodes.shape)
    return nodes + noise, 2.0 * ratio / (1.0 - ratio) ** 2


def covered(answer: QuantileAnswer, leaf: int) -> float:
    return float(np.mean((answer.low <= leaf) & (leaf + 1 <= answer.high)))


CASES = [("skewed", 0.5), ("skewed", 0.9), ("even", 0.5), ("flat", 0.5)]


@pytest.mark.parametrize(("n", "epsilon"), [(300, 5.0), (1000, 0.3), (3000, 1.0)])
@pytest.mark.parametrize(("name", "q"), CASES)
def test_trees_of_simple_random_samples_cover(name, q, n, epsilon):
    random, counts = np.random.default_rng([n, int(10 * q)]), population(name).sum(axis=0)
    sizes = FixedSizes(np.array([1.0]), np.array([float(n)]), np.array([n / SIZE]))
    nodes, variance = noisy(leaves_of(counts, n, random), MOVED / epsilon, random)
    sampling = fixed_size_variance(q, sizes)
    answer = quantile_from_tree(nodes, TREE, q, EDGES, variance, float(n), sampling, 3.0)
    assert covered(answer, truth(counts, q)) >= ALARM
    if name == "even" and epsilon < 1.0:
        careless = quantile_from_tree(nodes, TREE, q, EDGES, 0.0, float(n), sampling, 3.0)
        assert covered(careless, truth(counts, q)) < ALARM


def test_an_interval_that_forgets_the_sampling_does_not_cover():
    random, counts, n = np.random.default_rng(5), population("even").sum(axis=0), 3000
    nodes, variance = noisy(leaves_of(counts, n, random), 0.4, random)
    careless = quantile_from_tree(nodes, TREE, 0.5, EDGES, variance, float(n), 0.0, 3.0)
    assert covered(careless, truth(counts, 0.5)) < ALARM


def test_intervals_of_large_samples_are_a_few_leaves_wide():
    random, counts, n = np.random.default_rng(6), population("even").sum(axis=0), 3000
    nodes, variance = noisy(leaves_of(counts, n, random), 4.0, random)
    answer = quantile_from_tree(nodes, TREE, 0.5, EDGES, variance, float(n), n / 4, 3.0)
    # 2 z sqrt(n/4 + 7.5 v)/n of the range that 256 leaves cover with 0.7 of them filled, and two leaves of rounding.
    assert np.mean(answer.high - answer.low) < 2 * 1.96 * math.sqrt(n / 4 + 7.5 * variance) / n * 0.8 * LEAVES + 2.0


def stratified(name: str, random: np.random.Generator) -> tuple[np.ndarray, FixedSizes]:
    """Sums of u = w/w_max in each leaf."""
    sizes = FixedSizes(STRATA / SIZE, TAKES.astype(np.float64), TAKES / STRATA)
    weights = sizes.rates.min() / sizes.rates
    return sum(
        (u * leaves_of(counts, int(n), random) for u, n, counts in zip(weights, TAKES, population(name), strict=True)),
        np.zeros((SURVEYS, LEAVES)),
    ), sizes


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("scale", [1.0, 12.0])
@pytest.mark.parametrize(("name", "q"), CASES)
def test_trees_of_weighted_stratified_samples_cover(name, q, scale, laplace):
    random = np.random.default_rng([int(scale), int(10 * q)])
    sums, sizes = stratified(name, random)
    nodes, variance = noisy(sums, scale, random, laplace)
    arguments = (sampled_weight(sizes), fixed_size_variance(q, sizes), 3.0 * laplace)
    leaf = truth(population(name).sum(axis=0), q)
    assert covered(quantile_from_tree(nodes, TREE, q, EDGES, variance, *arguments), leaf) >= ALARM
    if name == "even" and scale > 1.0:
        assert covered(quantile_from_tree(nodes, TREE, q, EDGES, 0.0, *arguments), leaf) < ALARM


@pytest.mark.parametrize("size_is_declared", [True, False])
@pytest.mark.parametrize(("name", "q"), CASES)
def test_trees_of_poisson_samples_cover(name, q, size_is_declared):
    random, probabilities = np.random.default_rng(int(10 * q)), np.array([0.01, 0.02, 0.04])
    weights = probabilities.min() / probabilities
    sums = sum(
        (
            u * random.binomial(counts, p, (SURVEYS, LEAVES))
            for u, p, counts in zip(weights, probabilities, population(name), strict=True)
        ),
        np.zeros((SURVEYS, LEAVES)),
    )
    nodes, variance = noisy(sums, TREE.levels / 0.5, random)

    def from_total(total):
        return random_size_variance(q, total, math.sqrt(variance * total_noise(TREE)), 1.0 - probabilities.min())

    sampling = poisson_variance(q, STRATA, probabilities) if size_is_declared else from_total
    answer = quantile_from_tree(nodes, TREE, q, EDGES, variance, None, sampling, 3.0)
    leaf = truth(population(name).sum(axis=0), q)
    assert covered(answer, leaf) >= ALARM
    careless = quantile_from_tree(nodes, TREE, q, EDGES, 0.0, None, sampling, 3.0)
    assert name != "even" or covered(careless, leaf) < ALARM


def pick(scores: np.ndarray, rate: float, random: np.random.Generator) -> np.ndarray:
    """The exponential mechanism, many runs at once."""
    return np.argmax(rate * scores + random.gumbel(size=scores.shape), axis=-1)


def rank_scores(counts, rank):
    """The mechanism's own scores, from counts in the leaves."""
    whole = np.asarray(counts, dtype=np.int64)
    up_to = np.cumsum(whole, axis=-1)
    return exponential.rank_scores(up_to - whole, up_to, rank)


def weight_scores(weights, target):
    """The same for weights that are no whole numbers: how far a leaf is from the one in which their sum reaches the target."""
    up_to = np.cumsum(weights, axis=-1)
    return 0.0 - np.maximum(0.0, np.maximum(up_to - weights - target, target - up_to))


def both_ends(scores, ends, rate, random):
    low = pick(scores(ends[0]), rate, random) if ends[0] is not None else np.zeros(SURVEYS)
    high = pick(scores(ends[1]), rate, random) if ends[1] is not None else np.full(SURVEYS, LEAVES - 1)
    return low, high


@pytest.mark.parametrize(("n", "epsilon"), [(60, 5.0), (300, 1.0), (1000, 1.0)])
@pytest.mark.parametrize(("name", "q"), CASES)
def test_shifted_ranks_cover(name, q, n, epsilon):
    random, counts = np.random.default_rng([n, int(10 * q), 1]), population(name).sum(axis=0)
    sample, leaf, run = leaves_of(counts, n, random), truth(counts, q), epsilon / 2
    low, high = both_ends(lambda rank: rank_scores(sample, rank), shifted_ranks(n, SIZE, q, run, LEAVES), run / 2, random)
    assert np.mean((low <= leaf) & (leaf <= high)) >= ALARM
    if name == "flat":
        # Ranks that allow for sampling and not for the mechanism, where all values between two heaps are nearly as good.
        spread = 1.96 * math.sqrt(n * q * (1 - q))
        plain = (max(1, math.floor(n * q - spread)), min(n, math.ceil(n * q + spread)))
        low, high = both_ends(lambda rank: rank_scores(sample, rank), plain, run / 2, random)
        assert np.mean((low <= leaf) & (leaf <= high)) < ALARM


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(("name", "q"), CASES)
def test_shifted_weights_cover(name, q, epsilon):
    random = np.random.default_rng([int(10 * q), 2])
    sums, sizes = stratified(name, random)
    leaf, run, total = truth(population(name).sum(axis=0), q), epsilon / 2, sampled_weight(sizes)
    ends = shifted_weights(total, q, fixed_size_variance(q, sizes), run, 1.0, LEAVES)
    low, high = both_ends(lambda target: weight_scores(sums, target), ends, run / 2, random)
    assert np.mean((low <= leaf) & (leaf <= high)) >= ALARM
    if name == "flat":
        plain = 1.96 * math.sqrt(fixed_size_variance(q, sizes))
        low, high = both_ends(lambda target: weight_scores(sums, target), (q * total - plain, q * total + plain), run / 2, random)
        assert np.mean((low <= leaf) & (leaf <= high)) < ALARM


def test_a_shift_that_leaves_the_sample_and_is_capped_would_not_cover():
    # D is larger than q times the total: capped at it, the lower end sits at the smallest value's weight and is often too high.
    random, n, q, run = np.random.default_rng(9), 300, 0.02, 0.25
    counts = np.full(LEAVES, 200)
    sample, leaf = leaves_of(counts, n, random), truth(counts, q)
    ends = shifted_weights(float(n), q, n * q * (1 - q), run, 1.0, LEAVES)
    assert ends[0] is None
    high = pick(weight_scores(sample, ends[1]), run / 2, random)
    assert np.mean(leaf <= high) >= ALARM
    assert np.mean(pick(weight_scores(sample, 0.0), run / 2, random) <= leaf) < ALARM
