"""Sampling variances for quantiles against every way to be below the quantile, in tiny populations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from dpsurvey.errors import BadValue
from dpsurvey.statistic.estimators.fixed_size import FixedSizes
from dpsurvey.statistic.estimators.woodruff import fixed_size_variance, poisson_variance, random_size_variance, sampled_weight

pytestmark = pytest.mark.quick


def test_the_variance_of_one_stratum_is_hypergeometric():
    size, n, marked = 500, 60, 150
    sizes = FixedSizes(np.array([1.0]), np.array([float(n)]), np.array([n / size]))
    assert math.isclose(fixed_size_variance(marked / size, sizes), hypergeom(size, marked, n).var(), rel_tol=1e-12)
    assert math.isclose(sampled_weight(sizes), n)


@pytest.mark.parametrize("q", [0.2, 0.5, 0.8])
def test_no_way_to_be_below_beats_the_variance_of_strata(q):
    totals, takes = np.array([20, 30, 50]), np.array([10, 6, 5])
    sizes = FixedSizes(totals / 100, takes.astype(float), takes / totals)
    u = (totals / takes) / (totals / takes).max()
    worst = 0.0
    for below in itertools.product(*(range(each + 1) for each in totals)):
        if sum(below) == round(100 * q):
            laws = (hypergeometric_variance(*each) for each in zip(totals, below, takes, strict=True))
            worst = max(worst, sum(float(each) ** 2 * law for each, law in zip(u, laws, strict=True)))
    stated = fixed_size_variance(q, sizes)
    assert worst <= stated * (1 + 1e-9)
    assert stated <= worst * 1.02


def hypergeometric_variance(size: int, marked: int, n: int) -> float:
    share = marked / size
    return n * share * (1 - share) * (size - n) / (size - 1)


@pytest.mark.parametrize("q", [0.25, 0.5, 0.75])
def test_the_poisson_variance_is_the_largest_over_everyone_who_may_be_below(q):
    probabilities = np.array([0.05, 0.1, 0.1, 0.2, 0.5, 0.9, 1.0, 0.3])
    u, weight_variance = probabilities.min() / probabilities, probabilities * (1 - probabilities)
    worst = max(
        float(np.sum(weight_variance * u**2 * (np.isin(np.arange(8), below) - q) ** 2))
        for below in itertools.combinations(range(8), round(8 * q))
    )
    assert math.isclose(poisson_variance(q, np.ones(8), probabilities), worst, rel_tol=1e-12)


def test_the_variance_from_a_random_total_is_that_of_equal_chances_and_no_less_with_weights():
    sizes, probabilities = np.array([300.0, 700.0]), np.array([0.1, 0.4])
    equal = poisson_variance(0.5, sizes, np.array([0.1, 0.1]))
    assert math.isclose(float(random_size_variance(0.5, np.array(100.0), 0.0, 0.9)), equal, rel_tol=1e-12)
    # Every frame unit adds pi u = pi_min to the expected total.
    assert float(random_size_variance(0.5, np.array(100.0), 0.0, 0.9)) >= poisson_variance(0.5, sizes, probabilities)


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.1])
def test_chances_that_are_none_are_refused(probability):
    with pytest.raises(BadValue):
        poisson_variance(0.5, np.array([10.0]), np.array([probability]))
