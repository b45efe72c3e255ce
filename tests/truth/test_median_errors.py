"""Errors of noisy medians by sampling rate: those of every sample of a small population, and of choices computed by hand."""

import itertools
import math

import numpy as np
import pytest

from dpsurvey.errors import BadValue
from dpsurvey.mechanism.exponential import rank_scores
from dpsurvey.mechanism.order_statistic import Place
from dpsurvey.mechanism.smooth import calibrated
from dpsurvey.planning.median_errors import chosen_errors
from dpsurvey.planning.medians import best_rates, median_rates
from tests.truth.smooth_by_distance import smooth_sensitivity_by_distance

FAR = 4.9  # A right figure is off by more Monte-Carlo standard errors with probability below 1e-6.


def test_errors_are_those_of_every_sample_of_a_small_population():
    """All 462 samples of 5 of 11, each with its own smooth sensitivity and its own exponential choice, by hand."""
    values, bounds = np.array([0.0, 1, 1, 2, 3, 5, 8, 13, 13, 21, 30]), (0.0, 40.0)
    samples = [np.array(sample) for sample in itertools.combinations(values, 5)]
    rows = median_rates(values, bounds=bounds, epsilons=[1.0], rates=[0.4], methods=["smooth", "exponential"], draws=4000)
    spent = math.log1p(math.expm1(1.0) * 11 / 5)
    alpha, beta = calibrated(spent, 1 / 10)
    noise = [2.0 * (smooth_sensitivity_by_distance(each, Place.median(5), beta, *bounds) / alpha) ** 2 for each in samples]
    smooth = np.mean([(each[2] - 5.0) ** 2 for each in samples]) + np.mean(noise)
    chosen = np.mean([choice_by_hand(each, spent, *bounds, 5.0) for each in samples])
    for row, exact in zip(rows, (smooth, chosen), strict=True):
        assert row["n"] == 5
        assert abs(row["mse"] - exact) < FAR * row["mse_error"]
        assert FAR * row["mse_error"] < 0.15 * exact
        assert row["mse"] == pytest.approx(row["mse_sampling"] + row["mse_noise"])


def choice_by_hand(sample, epsilon, low, high, truth, steps=2000):
    """The mean square error of a fine grid of candidates with the package's own scores."""
    grid = low + (np.arange(steps) + 0.5) * (high - low) / steps
    below = np.searchsorted(sample, grid)
    weights = np.exp(0.5 * epsilon * rank_scores(below, np.searchsorted(sample, grid, side="right"), (len(sample) + 1) // 2))
    return float(weights @ (grid - truth) ** 2 / weights.sum())


def test_the_choice_is_the_limit_of_the_packages_own_scores_on_a_grid():
    rng = np.random.default_rng(8)
    for n, epsilon in itertools.product((1, 5, 21), (0.05, 1.0, 4.0)):
        sample = np.sort(rng.random(n))
        exact = chosen_errors(sample[None, :], epsilon, 0.0, 1.0, 0.4)[0]
        assert choice_by_hand(sample, epsilon, 0.0, 1.0, 0.4, 200_000) == pytest.approx(exact, rel=1e-3)


def test_ties_that_leave_only_far_gaps_are_chosen_from_without_underflow():
    """All values equal, a large epsilon: every gap with a length is far in ranks, and the two are evenly likely by length."""
    found = chosen_errors(np.full((1, 5001), 1.0), 3.0, 0.0, 4.0, 1.0)[0]
    assert found == pytest.approx((0.25 * 1.0 + 0.75 * 9.0) / 3.0)


def test_rates_that_no_noise_can_serve_are_refused_in_words_and_bad_figures_by_name():
    values = np.arange(1.0, 102.0)
    rows = median_rates(values, bounds=(0.0, 200.0), delta=0.2, epsilons=[1.0], rates=[0.01, 1.0], methods=["smooth"], draws=10)
    assert "not a probability" in rows[0]["refused"]
    assert rows[0]["mse"] is None
    assert rows[1]["refused"] is None
    rows = median_rates(values, bounds=(0, 200), epsilons=[15.0], rates=[0.1, 1.0], methods=["smooth-as-printed"], draws=10)
    assert all("printed recipe does not keep this delta" in row["refused"] for row in rows)
    assert best_rates(rows)[0]["rate"] is None
    assert "printed recipe" in best_rates(rows)[0]["advice"]
    rows = median_rates(values, bounds=(-1e200, 1e200), epsilons=[1.0], rates=[0.1], draws=10)
    assert all("larger than can be averaged" in row["refused"] for row in rows)
    good = {"population": values, "bounds": (0.0, 200.0), "draws": 10}
    for bad, word in [
        ({"population": []}, "population"),
        ({"population": [1.0, math.nan]}, "population"),
        ({"population": ["a"]}, "population"),
        ({"bounds": (1.0, 0.0)}, "bounds"),
        ({"bounds": 3.0}, "bounds"),
        ({"epsilons": [0.0]}, "epsilons"),
        ({"rates": [1.5]}, "rates"),
        ({"rates": []}, "rates"),
        ({"delta": math.nan}, "delta"),
        ({"methods": ["smoth"]}, "unknown method"),
        ({"methods": []}, "method"),
        ({"draws": 1}, "draws"),
        ({"seed": -1}, "seed"),
    ]:
        with pytest.raises(BadValue, match=word):
            median_rates(**(good | bad))
