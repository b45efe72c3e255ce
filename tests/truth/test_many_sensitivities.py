"""Smooth sensitivities of many rows at once against every pair of ranks, and against the functions for one row."""

import math

import numpy as np
import pytest

from dpsurvey.errors import BadData, BadValue
from dpsurvey.mechanism.many_sensitivities import KNOTS, smooth_sensitivities
from dpsurvey.mechanism.order_statistic import Place, smooth_sensitivity
from tests.truth.smooth_by_distance import smooth_sensitivity_by_distance

pytestmark = pytest.mark.quick

SHAPES = ("even", "ties", "skewed", "gap", "equal", "far from 0")


def rows_of(shape, rng, draws, n):
    """Sorted rows, and bounds that hold them."""
    low, high = 0.0, float(rng.choice([1.0, 10.0, 1e6]))
    values = rng.random((draws, n)) * high
    if shape == "ties":
        values = np.round(values / high * 4.0) / 4.0 * high
    elif shape == "skewed":
        values = np.minimum(np.exp(3.0 * rng.standard_normal((draws, n))), high)
    elif shape == "gap":
        values = np.where(rng.random((draws, n)) < 0.5, 0.01 * values, high - 0.01 * values)
    elif shape == "equal":
        values[:] = high / 2.0
    elif shape == "far from 0":
        low, high = 1e9 - 5.0, 1e9 + 5.0
        values = low + rng.integers(0, 11, (draws, n))
    return np.sort(values, axis=1), low, high


def by_every_pair(row, place, beta, low, high):
    """max over k of e^(-k beta) A_k as docs/proofs/medians.md defines A_k, and where the best pair is."""
    n, w = place.size, place.parts

    def y(rank):
        return low if rank < 1 else high if rank > n else row[rank - 1]

    found = [
        (math.exp(-k * beta) * (y(i + k + w) - y(i)) / w, place.lower - 1 - i, i + k + w - place.upper)
        for k in range(n + 2)
        for i in range(place.lower - 1 - k, place.lower + 1)
    ]
    return max(found)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13, 24])
def test_rows_have_the_largest_of_every_pair_of_ranks(shape, n):
    rng = np.random.default_rng([n, SHAPES.index(shape)])
    for place in {Place.median(n), Place.rank(1, n), Place.rank(n, n), Place.rank((n + 2) // 3, n)}:
        for beta in (1e-12, 1e-4, 0.03, 0.2, 1.0, 30.0):
            rows, low, high = rows_of(shape, rng, 3, n)
            truth = [by_every_pair(row, place, beta, low, high)[0] for row in rows]
            np.testing.assert_allclose(smooth_sensitivities(rows, place, beta, low, high), truth, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_agree_with_the_functions_for_one_row_at_any_beta(shape):
    rng = np.random.default_rng(SHAPES.index(shape))
    for n in (40, 101, 300, 601):
        for beta in 10.0 ** rng.uniform(-9.0, 2.0, 6):
            rows, low, high = rows_of(shape, rng, 3, n)
            place = Place.median(n) if rng.random() < 0.5 else Place.rank(int(rng.integers(1, n + 1)), n)
            found = smooth_sensitivities(rows, place, beta, low, high)
            for one in (smooth_sensitivity, smooth_sensitivity_by_distance):
                np.testing.assert_allclose(found, [one(row, place, beta, low, high) for row in rows], rtol=1e-12)


def test_the_cases_hold_pairs_that_only_the_search_between_knots_can_find():
    """The best pair has both ranks inside, and not at a rank that is looked at first, in a third of these rows and more."""
    rng, n, beta = np.random.default_rng(5), 301, 0.03
    place = Place.median(n)
    knots = set(np.linspace(0, place.lower - 1, KNOTS).round().astype(int).tolist())
    rows = np.sort(rng.random((30, n)), axis=1)
    pairs = [by_every_pair(row, place, beta, 0.0, 1.0) for row in rows]
    assert sum(p not in knots and 0 < p < place.lower - 1 and 0 < q < place.lower - 1 for _, p, q in pairs) > 10
    np.testing.assert_allclose(smooth_sensitivities(rows, place, beta, 0.0, 1.0), [best for best, _, _ in pairs], rtol=1e-12)


def test_rows_where_every_pair_is_about_as_good_are_exact_too():
    """Values that spread out as e^(beta rank): nothing can be left out, and everything is compared."""
    n, beta = 601, 0.01
    steps = np.expm1(beta * np.arange(1, n // 2 + 1))
    rows = np.array([np.concatenate([-steps[::-1], [0.0], steps]), np.concatenate([-2.0 * steps[::-1], [0.0], steps])])
    place, bound = Place.median(n), 1e3
    truth = [smooth_sensitivity_by_distance(row, place, beta, -bound, bound) for row in rows]
    np.testing.assert_allclose(smooth_sensitivities(rows, place, beta, -bound, bound), truth, rtol=1e-12)


def test_many_rows_are_the_same_together_and_one_by_one():
    rows = np.sort(np.random.default_rng(2).exponential(1.0, (700, 999)), axis=1).clip(0.0, 5.0)
    together = smooth_sensitivities(rows, Place.median(999), 0.01, 0.0, 5.0)
    apart = np.concatenate(
        [smooth_sensitivities(rows[index : index + 1], Place.median(999), 0.01, 0.0, 5.0) for index in range(700)]
    )
    np.testing.assert_allclose(together, apart, rtol=1e-14)
    assert len(smooth_sensitivities(np.empty((0, 3)), Place.median(3), 0.1, 0.0, 1.0)) == 0


def test_wrong_rows_bounds_and_betas_are_refused_in_words():
    place, rows = Place.median(3), [[1.0, 2.0, 3.0]]
    for bad in ([[3.0, 2.0, 1.0]], [[1.0, 2.0, 11.0]], [[1.0, math.nan, 3.0]]):
        with pytest.raises(BadData, match="sorted and within"):
            smooth_sensitivities(bad, place, 0.1, 0.0, 10.0)
    for bad in ([1.0, 2.0, 3.0], [[1.0, 2.0]]):
        with pytest.raises(BadValue, match="rows of as many"):
            smooth_sensitivities(bad, place, 0.1, 0.0, 10.0)
    for beta in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(BadValue, match="beta"):
            smooth_sensitivities(rows, place, beta, 0.0, 10.0)
    for low, high in ((10.0, 0.0), (0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(BadValue, match="bounds"):
            smooth_sensitivities(rows, place, 0.1, low, high)
