"""Standard errors bought as norms: intervals from clusters cover, never widen with epsilon, and end as the classical ones.

Files of benchmarks/coverage_cluster_files.py, answered with noise by numpy at the scales of the plan, with fixed seeds: 200
samples of each layout. A comparison alarms only when a coverage of 95 % would be that low with probability below 1e-7 (exact
binomial), and so would be that of the jackknife on the same samples less a point (paired); there are ten at most to a test:
1e-6 in all.

The half width itself is held to the model that it is derived in, on 200,000 draws, where intervals that forget the noise of the
standard error alarm, and so do those of 0.7 of the width; 200 samples alarm for half the width.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm
from scipy.stats import t as student

from dpsurvey.mechanism.cluster_norm import norm_share
from dpsurvey.statistic.estimators.norm_interval import half_width

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from coverage_cluster_files import critical, file_sampling
from coverage_clusters import Samples, ends_of, item_of, numbers_of, plan_of
from coverage_sums import Summation

SURVEYS, EPSILONS, HUGE = 200, (0.5, 2.0, 10.0, 1e5), 1e5
FALSE_ALARM = 1e-7
ALARM = int(binom.ppf(FALSE_ALARM, SURVEYS, 0.95)) - 1
LAYOUTS = (("12 x 2", "unequal weights"), ("24 clusters", "uneven clusters"))
NUMBERS = ("mean-skew", "ratio-cont", "contrast-p10")


@cache
def found(layout: str, weighting: str, name: str):
    """Of 200 samples (middle, half width, df) at each epsilon; the jackknife's estimates, errors and t; the truth."""
    here, random = file_sampling(layout, weighting), np.random.default_rng(11)
    samples = Samples(here, [here.draw(random) for _ in range(SURVEYS)])
    (number,) = (each for each in numbers_of(layout) if each.name == name)
    plans = {epsilon: plan_of(layout, weighting, number, epsilon) for epsilon in EPSILONS}
    summation = Summation(here, list(dict.fromkeys(item_of(plan).query for plan in plans.values())))
    # The noise of a survey is the same draw at every epsilon, scaled.
    ends = {epsilon: ends_of(plan, number, summation, samples.drawn, np.random.default_rng(3)) for epsilon, plan in plans.items()}
    own = {epsilon: (0.5 * (low + high), 0.5 * (high - low), freedom) for epsilon, (low, high, freedom) in ends.items()}
    estimate, error, truth = samples.classical(number)
    return own, (estimate, error, critical(samples.stratum)), truth


def alarms(covered: np.ndarray, classical: np.ndarray) -> bool:
    """Whether 95 % is out of the question, and so is a point less than without privacy."""
    if covered.sum() > ALARM:
        return False
    gain, differ = float(np.mean(covered * 1.0 - classical)), float(np.mean(covered != classical))
    doubt = -float(norm.ppf(FALSE_ALARM)) * math.sqrt(max(differ - gain**2, 0.0) / SURVEYS)
    return gain + doubt < -0.01


CASES = [(*layout, name) for layout in LAYOUTS for name in NUMBERS]


@pytest.mark.parametrize(("layout", "weighting", "name"), CASES)
def test_intervals_cover(layout, weighting, name):
    own, (estimate, error, t), truth = found(layout, weighting, name)
    usual = np.abs(estimate - truth) <= t * error
    assert not [epsilon for epsilon, (middle, half, _) in own.items() if alarms(np.abs(middle - truth) <= half, usual)]


@pytest.mark.parametrize(("layout", "weighting", "name"), CASES)
def test_no_interval_widens_as_epsilon_grows(layout, weighting, name):
    """On average over 200 samples; half a part in a hundred is left to chance."""
    halves = [float(np.mean(half)) for _, half, _ in found(layout, weighting, name)[0].values()]
    assert all(after <= 1.005 * before for before, after in pairwise(halves)), halves
    assert halves[0] > 1.5 * halves[-1], "the study would see noise"


@pytest.mark.parametrize(("layout", "weighting", "name"), CASES)
def test_with_little_noise_intervals_are_those_of_the_jackknife(layout, weighting, name):
    """With the degrees of freedom that strata of unequal size leave; without strata within 15 % of the textbook's."""
    own, (_, error, t), _ = found(layout, weighting, name)
    _, half, freedom = own[HUGE]
    assert np.mean(half) / np.mean(student.ppf(0.975, freedom) * error) == pytest.approx(1.0, abs=0.03)
    assert layout == "12 x 2" or np.mean(half) < 1.15 * np.mean(t * error)


@pytest.mark.parametrize(("layout", "weighting"), LAYOUTS)
def test_the_comparison_alarms_for_intervals_of_half_the_width_with_little_noise(layout, weighting):
    own, (estimate, error, t), truth = found(layout, weighting, "contrast-p10")
    middle, half, _ = own[HUGE]
    usual = np.abs(estimate - truth) <= t * error
    assert alarms(np.abs(middle - truth) <= 0.5 * half, usual)


DRAWS = 200_000
MODEL_ALARM = int(binom.ppf(1e-7, DRAWS, 0.95)) - 1


def drawn_from_the_model(freedom: int, noise: float) -> tuple[np.ndarray, np.ndarray, float, float]:
    """(estimate, noisy standard error) of normal clusters of variance 1, and the noises of both, by the share of a plan.

    `noise` is that of the estimate if it had all of the charge.
    """
    random = np.random.default_rng([freedom, round(100 * noise)])
    share = norm_share(1, float(freedom), "L1")
    one, two = noise / (1.0 - share), noise / share
    estimate = random.normal(size=DRAWS) + random.laplace(0.0, one / math.sqrt(2.0), DRAWS)
    error = np.sqrt(random.chisquare(freedom, DRAWS) / freedom) + random.laplace(0.0, two / math.sqrt(2.0), DRAWS)
    return estimate, error, one, two


def covered_in_the_model(freedom: int, noise: float, of_doubt: float = 1.0, of_width: float = 1.0) -> int:
    estimate, error, one, two = drawn_from_the_model(freedom, noise)
    constant = (np.full(DRAWS, each) for each in (of_doubt * two, one**2, 3.0, float(freedom)))
    return int(np.sum(np.abs(estimate) <= of_width * half_width(error, *constant)))


@pytest.mark.parametrize("freedom", [6, 15, 30, 60])
@pytest.mark.parametrize("noise", [0.03, 0.1, 0.3, 1.0, 3.0])
def test_the_half_width_covers_in_its_model(freedom, noise):
    assert covered_in_the_model(freedom, noise) > MODEL_ALARM


def test_a_half_width_that_forgets_the_noise_of_the_standard_error_alarms():
    assert covered_in_the_model(30, 0.3, of_doubt=0.0) <= MODEL_ALARM
    assert covered_in_the_model(60, 0.3, of_doubt=0.0) <= MODEL_ALARM
    assert covered_in_the_model(30, 0.3, of_width=0.7) <= MODEL_ALARM
