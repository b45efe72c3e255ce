"""What a sampling rate does to the noise of means and totals: closed forms to all digits, and no rate at which the mean gains."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue
from dpsurvey.planning.rate_facts import (
    gain_bound,
    inflation_bound,
    never_gains,
    noise_inflation,
    noise_ratio,
    rate_for_gain,
    unit_loss_of_total,
)
from dpsurvey.privacy.rounding import unamplified

mp = mpmath.mp.clone()
mp.dps = 60
SIZE = 10_001


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 0.5, 3.0, 20.0, 200.0])
def test_the_share_and_the_rate_undo_each_other(epsilon):
    for share in (0.05, 0.3, 0.6, 0.9):
        assert gain_bound(epsilon, rate_for_gain(epsilon, share)) == pytest.approx(share, rel=1e-9)


def test_for_small_epsilon_the_share_is_one_minus_the_squared_rate():
    for rate in (0.001, 0.1, 0.5, 0.9):
        assert gain_bound(1e-13, rate) == pytest.approx(1.0 - rate**2, rel=1e-9)
        assert gain_bound(0.01, rate) != pytest.approx(1.0 - rate**2, rel=1e-5)
    assert gain_bound(2.0, 1.0) == 0.0


def test_the_share_and_the_noise_ratio_have_all_their_digits():
    for epsilon in np.geomspace(1e-16, 50.0, 30).tolist():
        for rate in (1e-9, 1e-6, 1e-3, 0.1, 0.5, 0.9, 1.0 - 1e-9):
            e, f = mp.mpf(epsilon), mp.mpf(rate)
            spent = mp.log1p(mp.expm1(e) / f)
            assert gain_bound(epsilon, rate) == pytest.approx(float(1 - (e / spent) ** 2), rel=2e-15)
            assert noise_ratio(epsilon, rate) == pytest.approx(float((f * spent / e) ** 2), rel=2e-15)


def test_the_no_gain_rule_is_where_the_variances_are_equal():
    """With the same sensitivity on both sides the rule is exact; just below it the sample is better."""
    for epsilon, rate, delta in itertools.product((0.1, 1.0, 3.0), (0.01, 0.3, 0.9), (1e-3, 1.0)):
        spent = unamplified(epsilon, rate)
        edge = 2.0 * delta**2 * (1.0 / epsilon**2 - 1.0 / spent**2)
        assert never_gains(edge * 1.0001, delta, epsilon, rate)
        assert not never_gains(edge * 0.9999, delta, epsilon, rate)
        assert edge * 0.9999 + 2.0 * (delta / spent) ** 2 < 2.0 * (delta / epsilon) ** 2


def test_the_no_gain_rule_is_false_where_the_sensitivity_falls_with_n():
    """Its condition is needed: a sensitivity that is ten times smaller on the sample gains where the rule says never."""
    epsilon, rate, delta = 1.0, 0.5, 1.0
    variance = 2.0 * delta**2 * (1.0 / epsilon**2 - 1.0 / unamplified(epsilon, rate) ** 2) * 1.01
    assert never_gains(variance, delta, epsilon, rate)
    assert variance + 2.0 * (0.1 * delta / unamplified(epsilon, rate)) ** 2 < 2.0 * (delta / epsilon) ** 2


# The Laplace mean


def test_the_noise_ratio_is_below_one_everywhere():
    for epsilon in np.geomspace(1e-16, 50.0, 60).tolist():
        for rate in [*np.geomspace(1e-9, 0.99, 25).tolist(), 1.0 - 1e-9, math.nextafter(1.0, 0.0)]:
            e, f = mp.mpf(epsilon), mp.mpf(rate)
            assert f * mp.log1p(mp.expm1(e) / f) < e
            assert noise_ratio(epsilon, rate) < 1.0
            assert noise_inflation(epsilon, rate) >= 1.0
    assert noise_ratio(0.3, 1.0) == 1.0


def test_noise_grows_by_at_most_c_over_log_one_plus_c_and_by_as_much():
    for c in (0.01, 1.0, 2.0, 10.0, 1000.0):
        for rate in (1e-9, 1e-3, 0.1, 0.5, 1.0):
            assert noise_inflation(c * rate, rate) <= inflation_bound(c) * (1.0 + 1e-15)
            assert noise_inflation(0.3 * c * rate, rate) < inflation_bound(c)
        assert noise_inflation(c * 1e-9, 1e-9) == pytest.approx(inflation_bound(c), rel=1e-5)
    assert inflation_bound(2.0) < 2.0


def mean_prediction(n, epsilon, size=SIZE, expect=(0.2, 0.1)):
    frame = ds.Frame("frame.parquet", unit="id", size=size)
    setting = ds.Setting("frame", neighbours="replace-one")
    survey = ds.Survey(frame, ds.srs(n=n), setting, budget=ds.Budget(epsilon), ledger="never-written.ledger")
    return survey.plan(ds.mean("y", bounds=(0.0, 1.0), expect=expect)).predictions[0]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("n", [1001, 5001, SIZE])
def test_a_plan_predicts_the_variance_of_a_mean(n, epsilon):
    """Noise to what the lattice of whole steps adds (4e-6); sampling to n/(n - 1) and N/(N - 1), which the plan may count in."""
    row = mean_prediction(n, epsilon)
    noise = 2.0 / (n * math.log1p(math.expm1(epsilon) * SIZE / n)) ** 2
    sampling = (1.0 - n / SIZE) * 0.1**2 * SIZE / (SIZE - 1) / n
    assert row["se_noise"] ** 2 == pytest.approx(noise, rel=1e-5)
    assert math.hypot(row["se_sampling"], row["se_noise"]) ** 2 == pytest.approx(sampling + noise, rel=1.5e-3)


def test_the_mean_of_a_sample_is_never_predicted_better_than_that_of_the_whole_frame():
    """On a frame so large that even epsilon 0.0001 leaves noise well inside the range, where clipping does nothing."""
    size = 1_000_001
    for epsilon in (1e-4, 1e-3, 0.01, 0.1, 1.0, 5.0, 20.0):
        whole = mean_prediction(size, epsilon, size)
        for n in (101, 10_001, 300_001, 900_001, size - 1):
            row = mean_prediction(n, epsilon, size)
            assert row["se"] > whole["se"]
            # One unit less than all needs the same noise to the last digits of its scale.
            assert row["se_noise"] >= whole["se_noise"] * (1.0 - 1e-12)


def test_the_sensitivity_of_the_mean_grows_by_9_99_and_99_02():
    """In steps of noise at the same epsilon on both sides; the text rounds to 10 and 100."""
    noise = {n: mean_prediction(n, 1.0)["se_noise"] * unamplified(1.0, n / SIZE) for n in (SIZE, 1001, 101)}
    assert noise[1001] / noise[SIZE] == pytest.approx(9.991, abs=5e-4)
    assert noise[101] / noise[SIZE] == pytest.approx(99.02, abs=5e-3)


def test_weights_cancel_the_first_order_of_amplification():
    """A weighted total: no unit loses less than in a total of the whole frame, and all lose as much only when all are drawn."""
    for probability in (1e-6, 0.01, 0.1, 0.5, 0.99):
        for ratio in (1e-9, 1e-3, 0.5, 3.0, 100.0):
            exact = mp.log1p(mp.mpf(probability) * mp.expm1(mp.mpf(ratio) / mp.mpf(probability)))
            loss = unit_loss_of_total(probability, ratio)
            assert exact <= loss <= exact * (1 + mp.mpf("1e-14"))
            assert loss > ratio
    assert unit_loss_of_total(1.0, 0.7) == 0.7
    assert unit_loss_of_total(0.1, 1e-9) == pytest.approx(1e-9, rel=1e-7)


@pytest.mark.parametrize(
    "ask",
    [gain_bound, noise_ratio, noise_inflation, lambda epsilon, rate: never_gains(1.0, 1.0, epsilon, rate)],
    ids=["gain_bound", "noise_ratio", "noise_inflation", "never_gains"],
)
def test_rates_and_epsilons_that_mean_nothing_are_refused(ask):
    for rate in (0.0, -0.1, 1.0000001, math.nan, math.inf):
        with pytest.raises(BadValue, match="rate"):
            ask(1.0, rate)
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(BadValue, match="epsilon"):
            ask(epsilon, 0.5)


def test_other_figures_that_mean_nothing_are_refused_and_extremes_stay_numbers():
    bad = [
        lambda: rate_for_gain(1.0, 1.0),
        lambda: rate_for_gain(1.0, math.nan),
        lambda: rate_for_gain(1e4, 0.999),
        lambda: never_gains(-1.0, 1.0, 1.0, 0.5),
        lambda: never_gains(1.0, math.nan, 1.0, 0.5),
        lambda: inflation_bound(0.0),
        lambda: inflation_bound(math.inf),
        lambda: unit_loss_of_total(0.0, 1.0),
        lambda: unit_loss_of_total(0.5, math.nan),
        lambda: unit_loss_of_total(1e-300, 1e300),
        lambda: noise_inflation(1.0, 5e-324),
    ]
    for ask in bad:
        with pytest.raises(BadValue):
            ask()
    assert (noise_ratio(1e308, 0.5), noise_inflation(1e308, 0.5)) == (0.25, 2.0)
    assert noise_ratio(5e-324, 5e-324) == pytest.approx(math.log(2.0) ** 2)
    assert gain_bound(1e308, 1e-300) < 1e-300
