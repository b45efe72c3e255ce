"""The ratio of elementary symmetric polynomials behind cluster samples: its certified interval holds the truth."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from dpsurvey.loss.symmetric_polynomials import log_rho

pytestmark = pytest.mark.quick


def in_many_digits(logs, take):
    """log(e_l/e_(l-1)) by the plain recursion in 80 digits."""
    with localcontext(prec=80):
        values = [Decimal(1)] + [Decimal(0)] * take
        for each in logs.tolist():
            odds = Decimal(each).exp()
            for j in range(take, 0, -1):
                values[j] += odds * values[j - 1]
        return (values[take] / values[take - 1]).ln()


@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 1.0, 12.0])
def test_the_interval_holds_the_truth_and_is_narrow(epsilon):
    rng = np.random.default_rng([20261115, int(1000 * epsilon)])
    for _ in range(25):
        clusters = int(rng.integers(2, 200))
        take = int(rng.integers(1, clusters))
        logs = -epsilon * rng.integers(0, 300, clusters).astype(float)
        found, truth = log_rho(logs, take), in_many_digits(logs, take)
        assert Decimal(found.low) <= truth <= Decimal(found.high)
        assert found.high - found.low < 1e-9 * max(1.0, abs(float(truth)))


def test_equal_clusters_have_the_closed_form_and_too_few_have_none():
    found = log_rho(np.full(9, -2.5), 4)
    assert found.low <= -2.5 + math.log(6 / 4) <= found.high
    assert log_rho(np.full(3, -1.0), 4).high == -math.inf


def test_a_hundred_thousand_unequal_clusters_are_certified_to_nine_digits():
    logs = -0.2 * np.random.default_rng(7).integers(1, 400, 100_000).astype(float)
    for take in (1, 1_000, 50_000, 99_999):
        found = log_rho(logs, take)
        assert 0.0 < found.high - found.low < 1e-8
