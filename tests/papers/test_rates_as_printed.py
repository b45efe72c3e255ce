"""What Hu, Drechsler and Kim print about sampling rates: right figures, and one that is a formula without its digits."""

import math

import mpmath
import numpy as np
import pytest

from dpsurvey.planning.rate_facts import noise_ratio, rate_for_gain
from dpsurvey.privacy.rounding import unamplified

mp = mpmath.mp.clone()
mp.dps = 60
SIZE = 10_001


def test_what_a_sample_may_spend_is_printed_right():
    """5.15, 2.43 and 5.14: sections 3 and 4.3."""
    assert unamplified(1.0, 0.01) == pytest.approx(5.152297938, abs=5e-10)
    assert unamplified(0.1, 101 / SIZE) == pytest.approx(2.434840977, abs=5e-10)
    assert unamplified(1.0, 101 / SIZE) == pytest.approx(5.142504877, abs=5e-10)


def test_the_rates_of_figure_4_are_printed_right():
    assert round(100 * rate_for_gain(3.0, 0.6), 2) == 16.77
    assert round(100 * rate_for_gain(0.1, 0.6), 1) == 61.4
    assert rate_for_gain(3.0, 0.6) == pytest.approx(0.1676731574, abs=5e-11)
    assert rate_for_gain(0.1, 0.6) == pytest.approx(0.6139590019, abs=5e-11)


def naive_ratio(epsilon, rate):
    """Equation 8 as it is written, in double precision."""
    return (rate * math.log(1.0 + (math.exp(epsilon) - 1.0) / rate) / epsilon) ** 2


@pytest.mark.parametrize(("rate", "spent"), [(1e-4, 1.48e-6), (0.01, 1.5e-7), (0.1, 4.9e-8), (0.5, 2.9e-8)])
def test_figure_5_is_where_the_formula_as_written_runs_out_of_digits(rate, spent):
    """The largest epsilon_n at which double precision gives 1 or more: the U-shape of the right panel, 1.66e-6 at 0.0001."""
    grid = np.geomspace(4.0 * spent * rate, 0.25 * spent * rate, 30_000).tolist()
    first = next(epsilon for epsilon in grid if naive_ratio(epsilon, rate) >= 1.0)
    assert math.log1p(math.expm1(first) / rate) == pytest.approx(spent, rel=0.03)
    assert noise_ratio(first, rate) < 1.0
    exact = (mp.mpf(rate) * mp.log1p(mp.expm1(mp.mpf(first)) / mp.mpf(rate)) / mp.mpf(first)) ** 2
    assert exact < 1
    assert noise_ratio(first, rate) == pytest.approx(float(exact), rel=2e-15)
