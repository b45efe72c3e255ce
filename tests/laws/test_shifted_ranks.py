"""Shifted ranks: ranks against their definition, and the guarantee itself over every sample of tiny
populations with the exponential mechanism's own chances."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import hypergeom, norm

from dpsurvey.errors import BadValue
from dpsurvey.mechanism import exponential
from dpsurvey.statistic.estimators.rank_shift import interval_of_ends, shifted_ranks, shifted_weights


def rank_scores(counts, rank):
    """The mechanism's own scores, from counts at the values of a grid."""
    up_to = np.cumsum(counts)
    return exponential.rank_scores(up_to - counts, up_to, rank)


@settings(max_examples=60)
@given(st.integers(2, 400), st.integers(0, 3000), st.floats(0.02, 0.98), st.floats(0.05, 10.0), st.integers(2, 2000))
def test_shifted_ranks_are_the_last_that_keep_the_miss_below_a_fortieth(n, more, q, epsilon, candidates):
    size = n + more
    rank = max(1, math.ceil(q * size - 1e-9))
    m = np.arange(n + 1)

    def miss(marked, gap):
        law = hypergeom(size, marked, n).pmf(m)
        return float(law @ np.minimum(1.0, (candidates - 1) * np.exp(-0.5 * epsilon * np.maximum(gap, -50.0))))

    low, high = shifted_ranks(n, size, q, epsilon, candidates)
    assert miss(rank, m - (low or 0) + 1) <= 0.025 * (1 + 1e-9) or low is None
    assert low == n or miss(rank, m - (low or 0)) > 0.025 * (1 - 1e-9)
    assert high is None or miss(rank - 1, high - m) <= 0.025 * (1 + 1e-9)
    assert high == 1 or miss(rank - 1, (high or n + 1) - 1 - m) > 0.025 * (1 - 1e-9)


def picked(scores: np.ndarray, epsilon: float) -> np.ndarray:
    chances = np.exp(0.5 * epsilon * scores)
    return chances / chances.sum()


def exact_misses(
    population: np.ndarray, n: int, q: float, epsilon: float, ranks: tuple[int, int], grid: int
) -> tuple[float, float]:
    """P(lower end above the quantile), P(upper end below it): every sample, and the mechanism's own chances."""
    theta = np.sort(population)[math.ceil(q * len(population)) - 1]
    values, below, above = np.arange(grid), [], []
    for chosen in itertools.combinations(range(len(population)), n):
        counts = np.bincount(population[list(chosen)], minlength=grid)
        above.append(picked(rank_scores(counts, ranks[0]), epsilon)[values > theta].sum())
        below.append(picked(rank_scores(counts, ranks[1]), epsilon)[values < theta].sum())
    return float(np.mean(above)), float(np.mean(below))


@pytest.mark.parametrize("q", [0.4, 0.5, 0.6])
@pytest.mark.parametrize(
    "population",
    [[0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 5, 5], [2] * 12, [0] * 6 + [5] * 6, [0] * 5 + [5] * 7, list(range(6)) * 2],
    ids=str,
)
def test_ends_at_shifted_ranks_miss_at_most_once_in_forty_over_every_sample(population, q):
    n, epsilon, grid = 7, 6.0, 6
    low, high = shifted_ranks(n, 12, q, epsilon, grid)
    assert low is not None
    assert high is not None
    assert max(exact_misses(np.array(population), n, q, epsilon, (low, high), grid)) <= 0.025


def test_ends_at_the_middle_rank_would_miss_more_often():
    assert min(exact_misses(np.array([0] * 3 + [1, 2] + [4] * 3), 5, 0.5, 6.0, (3, 3), 5)) > 0.1


@settings(max_examples=40, deadline=None)
@given(st.floats(0.0, 60.0), st.floats(0.02, 5.0), st.floats(0.3, 3.0), st.integers(2, 1000))
def test_the_weighted_shift_solves_its_equation_by_quadrature(spread, epsilon, sensitivity, candidates):
    low, high = shifted_weights(1e6, 0.5, spread**2, epsilon, sensitivity, candidates)
    assert low is not None
    assert high is not None
    shift = high - 5e5
    assert math.isclose(5e5 - low, shift, rel_tol=1e-6)
    rate = epsilon / (2 * sensitivity)

    def integrand(z):
        return min(1.0, math.exp(min(0.0, math.log(candidates - 1) - rate * (shift + spread * z)))) * norm.pdf(z)

    kink = (math.log(candidates - 1) / rate - shift) / spread if spread > 1e-6 else 0.0
    points = sorted({-12.0, min(max(kink, -12.0), 12.0), 12.0})
    mean = sum(quad(integrand, start, end, limit=200)[0] for start, end in itertools.pairwise(points))
    assert math.isclose(mean, 0.025, rel_tol=1e-4)


def test_an_end_whose_shift_leaves_the_sample_is_the_public_bound():
    low, high = shifted_weights(1000.0, 0.05, 900.0, 1.0, 1.0, 256)
    assert low is None
    assert high is not None
    assert interval_of_ends(low, 7.0, (-1.0, 50.0), step=2.0) == (-1.0, 8.0, True, False)
    assert interval_of_ends(9.0, 3.0, (-1.0, 50.0)) == (3.0, 9.0, False, False)
    assert shifted_ranks(30, 10_000, 0.5, 0.1, 256) == (None, None)


def test_ranks_of_whole_products_are_not_rounded_up():
    # 0.1 * 30 is a hair above 3 in floating point; the rank is 3, as for 0.0999.
    assert shifted_ranks(30, 30, 0.1, 50.0, 4) == shifted_ranks(30, 30, 0.0999, 50.0, 4)


@pytest.mark.parametrize(
    "bad", [(10, 5, 0.5, 1.0, 9), (0, 5, 0.5, 1.0, 9), (3, 5, 1.0, 1.0, 9), (3, 5, 0.5, 0.0, 9), (3, 5, 0.5, 1.0, 1)]
)
def test_ranks_that_cannot_be_are_refused(bad):
    with pytest.raises(BadValue):
        shifted_ranks(*bad)
