"""What delta smooth noise and propose-test-release really have: golden numbers, integrals, sums, and whole mechanisms.

Everything is exact summation or quadrature of the laws; nothing is random, so nothing can fail by chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad

from dpsurvey.errors import BadData, BadValue
from dpsurvey.mechanism.order_statistic import (
    Place,
    padded_window,
    smooth_sensitivity,
    value_at,
    window_ranks,
    windowed_smooth_sensitivity,
)
from dpsurvey.mechanism.propose_test_release import ProposeTestRelease, chance_to_pass, distance_to_larger
from dpsurvey.mechanism.smooth import ROUNDING, SmoothLaplace, calibrated, lattice_factor, printed, smooth_delta

pytestmark = pytest.mark.quick

LARGEST_EPSILON = {1e-6: 13.663, 5e-5: 12.893, 1e-4: 12.735, 5e-3: 11.667, 1e-2: 11.436}
Law = np.ndarray


@pytest.mark.parametrize(("delta", "epsilon"), LARGEST_EPSILON.items())
def test_the_printed_recipe_keeps_its_delta_up_to_a_known_epsilon_and_no_further(delta: float, epsilon: float) -> None:
    assert printed(epsilon - 0.001, delta)[2] <= delta
    with pytest.raises(BadValue, match="printed recipe"):
        printed(epsilon + 0.001, delta)


def test_the_printed_recipe_fails_at_epsilon_15() -> None:
    beta = 15.0 / (2.0 * math.log(2.0 / 5e-5))
    assert smooth_delta(15.0, 7.5, beta) == pytest.approx(8.74e-5, rel=1e-3)
    with pytest.raises(BadValue, match="printed recipe"):
        printed(15.0, 5e-5)
    # Even the integral of one pair that the recipe allows is above the delta that it claims.
    assert continuous_delta(15.0, shift=7.5, narrow=1.0, wide=math.exp(beta)) > 5e-5


def test_the_real_delta_of_the_printed_recipe() -> None:
    assert printed(1.0, 5e-5)[2] == pytest.approx(2.78e-7, rel=1e-3)
    assert smooth_delta(9.61, 4.805, 9.61 / (2 * math.log(2 / 0.005))) == pytest.approx(0.00289, rel=1e-3)


@pytest.mark.parametrize(("epsilon", "ours", "theirs"), [(1.0, 0.08367, 0.04718), (0.1, 0.012876, 0.004718)])
def test_the_calibrated_beta_is_larger_than_the_printed_one(epsilon: float, ours: float, theirs: float) -> None:
    alpha, beta = calibrated(epsilon, 5e-5)
    assert alpha == epsilon / 2.0
    assert beta == pytest.approx(ours, rel=1e-4)
    assert printed(epsilon, 5e-5)[:2] == pytest.approx((alpha, theirs), rel=2e-4)
    assert smooth_delta(epsilon, alpha, beta) <= 5e-5 < smooth_delta(epsilon, alpha, beta * (1 + 1e-9))


def test_for_a_large_delta_the_loss_of_narrow_against_wide_noise_stops_beta() -> None:
    alpha, beta = calibrated(1.0, 0.9)
    assert smooth_delta(1.0, alpha, beta) < 0.9
    assert beta + alpha * math.exp(-beta) == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(BadValue, match="at most epsilon"):
        smooth_delta(1.0, alpha, beta + 1e-6)


def continuous_delta(epsilon: float, shift: float, narrow: float, wide: float) -> float:
    """The integral of (wide Laplace around `shift` - e^epsilon narrow Laplace around 0)_+ beyond where it begins."""
    slope = 1.0 / narrow - 1.0 / wide
    total = 0.0
    for towards in (1.0, -1.0):
        start = (epsilon + math.log(wide / narrow) - towards * shift / wide) / slope

        def excess(x: float, towards: float = towards) -> float:
            over = math.exp(-(x - towards * shift) / wide) / wide - math.exp(epsilon - x / narrow) / narrow
            return 0.5 * over

        total += quad(excess, start, start + 60.0 * wide, epsabs=0.0, epsrel=1e-10, limit=400)[0]
    return total


@pytest.mark.parametrize(("epsilon", "alpha", "beta"), [(1.0, 0.5, 0.2), (3.0, 1.5, 0.4), (0.5, 0.2, 0.1), (9.0, 4.5, 0.8)])
def test_the_closed_form_is_the_integral_at_its_worst_pair_and_above_all_others(
    epsilon: float, alpha: float, beta: float
) -> None:
    claimed = smooth_delta(epsilon, alpha, beta)
    assert continuous_delta(epsilon, alpha, 1.0, math.exp(beta)) == pytest.approx(claimed, rel=1e-7)
    for shift, log_ratio in itertools.product(np.linspace(0.0, alpha, 6), np.linspace(0.1 * beta, beta, 6)):
        assert continuous_delta(epsilon, shift, 1.0, math.exp(log_ratio)) <= claimed * (1 + 1e-7)


def law(centre: int, scale: float, points: np.ndarray) -> Law:
    """P(centre + noise = point) when P(noise = k) is proportional to e^(-|k|/scale)."""
    return np.asarray(math.tanh(0.5 / scale) * np.exp(-np.abs(points - centre) / scale))


def excess(first: Law, second: Law, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def grid_excess(epsilon: float, alpha: float, beta: float, scales: list[float]) -> list[float]:
    """The sums of (P - e^epsilon Q)_+ in both orders over all whole shifts and several scales that alpha and beta allow."""
    found = []
    for narrow, log_ratio in itertools.product(scales, np.linspace(0.0, beta, 5)):
        wide = narrow * math.exp(log_ratio)
        points = np.arange(-math.ceil(80 * wide), math.ceil(80 * wide) + 1)
        shifts = range(math.floor(alpha * narrow) + 1)
        for shift in sorted({*itertools.islice(shifts, 4), shifts[-1], shifts[len(shifts) // 2]}):
            one, other = law(0, narrow, points), law(shift, wide, points)
            # Narrow against wide must cost nothing beyond epsilon.
            assert excess(one, other, epsilon) <= 1e-15
            found.append(excess(other, one, epsilon))
    return found


DISCRETE = [(1.0, 0.5, 0.2), (2.0, 1.0, 0.5), (0.5, 0.25, 0.1), (6.0, 3.0, 0.9), (1.0, 0.5, 0.6)]


@pytest.mark.parametrize(("epsilon", "alpha", "beta"), DISCRETE)
@pytest.mark.parametrize("least_steps", [1, 2, 7, 60])
def test_the_delta_of_noise_in_whole_steps_is_below_its_bound(
    epsilon: float, alpha: float, beta: float, least_steps: int
) -> None:
    least = least_steps / alpha
    bound = smooth_delta(epsilon, alpha, beta) * lattice_factor(least)
    found = grid_excess(epsilon, alpha, beta, [least * growth for growth in (1.0, 1.17, 1.9, 3.0)])
    assert max(found) <= bound * (1 + 1e-9)


def test_the_bound_for_whole_steps_is_nearly_reached_and_needs_its_factor() -> None:
    # The worst shift and scales on a fine lattice: nearly the whole bound.
    epsilon, alpha, beta = 2.0, 1.0, 0.5
    fine = max(grid_excess(epsilon, alpha, beta, [40.0]))
    assert fine > 0.99 * smooth_delta(epsilon, alpha, beta) * lattice_factor(40.0)
    # On a coarse one some pair is above the continuous formula: without the factor the claim would be false.
    ratios = []
    for narrow in np.linspace(0.34, 3.0, 60):
        shift = math.floor(3.0 * narrow)
        points = np.arange(-300, 301)
        found = excess(law(shift, narrow * math.exp(0.9), points), law(0, narrow, points), 6.0)
        ratios.append(found / smooth_delta(6.0, shift / narrow, 0.9))
        assert found <= smooth_delta(6.0, shift / narrow, 0.9) * lattice_factor(narrow) * (1 + 1e-9)
    assert max(ratios) > 1.01


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 5e-5, 1e-2])
@pytest.mark.parametrize("floor", [1, 50])
def test_a_calibrated_mechanism_claims_no_more_than_was_asked_and_wastes_little(epsilon: float, delta: float, floor: int) -> None:
    mechanism = SmoothLaplace.calibrate(epsilon, delta, span=10**6, floor=floor)
    assert mechanism.delta <= delta
    assert mechanism.profile("replace-one").delta(epsilon) == mechanism.delta
    stops = mechanism.beta + mechanism.alpha * math.exp(-mechanism.beta) > epsilon * (1 - 1e-6)
    assert stops or mechanism.delta > 0.999 * delta


def test_the_printed_mechanism_is_refused_where_whole_steps_carry_it_over_its_delta() -> None:
    assert SmoothLaplace.as_printed(1.0, 5e-5, span=1000).delta < 5e-5
    assert SmoothLaplace.as_printed(12.89, 5e-5, span=10**6, floor=10_000).delta <= 5e-5
    with pytest.raises(BadValue, match="whole steps"):
        SmoothLaplace.as_printed(12.89, 5e-5, span=10**6, floor=1)


def neighbouring(size: int, top: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    world = list(itertools.combinations_with_replacement(range(top + 1), size))
    pairs = set()
    for data in world:
        for position, value in itertools.product(range(size), range(top + 1)):
            pairs.add((data, tuple(sorted((*data[:position], value, *data[position + 1 :])))))
    return sorted(pair for pair in pairs if pair[0] != pair[1])


def worst(laws: Callable[[tuple[int, ...]], Law], size: int, top: int, epsilon: float) -> float:
    """The exact delta of a whole mechanism at epsilon: all neighbouring data sets, in both orders."""
    pairs = neighbouring(size, top)
    table = {data: laws(data) for data in {data for pair in pairs for data in pair}}
    return max(excess(table[one], table[other], epsilon) for one, other in pairs)


def window_of(data: tuple[int, ...], place: Place, top: int, reach: int) -> np.ndarray:
    first, last = window_ranks(place, reach)
    return padded_window(data[first - 1 : last], place, reach, 0, top)


def smooth_law(mechanism: SmoothLaplace, place: Place, top: int, reach: int | None, points: np.ndarray) -> Callable[..., Law]:
    """The law of the released statistic, from all of the data or from a window of them."""

    def of(data: tuple[int, ...]) -> Law:
        window = window_of(data, place, top, reach or 1)
        smooth = smooth_sensitivity(data, place, mechanism.beta, 0, top)
        if reach is not None:
            smooth = float(windowed_smooth_sensitivity(window, place, mechanism.beta, top))
        # An average of two values is counted in half steps: everything is doubled.
        scale = max(place.parts * smooth, mechanism.floor) / mechanism.alpha
        return law(round(place.parts * float(value_at(window, place))), scale, points)

    return of


WHOLE = [(1.0, 0.02, 3, 8), (2.0, 0.05, 4, 6), (1.0, 0.2, 5, 4), (3.0, 0.01, 2, 12)]


@pytest.mark.parametrize(("epsilon", "delta", "size", "top"), WHOLE)
@pytest.mark.parametrize("reach", [None, 1, 2, 3])
def test_the_whole_smooth_median_keeps_its_delta_on_all_neighbouring_data(
    epsilon: float, delta: float, size: int, top: int, reach: int | None
) -> None:
    place = Place.median(size)
    mechanism = SmoothLaplace.calibrate(epsilon, delta, span=top * place.parts)
    points = np.arange(-3000, 3001)
    exact = worst(smooth_law(mechanism, place, top, reach, points), size, top, epsilon)
    assert 0.0 < exact <= mechanism.delta <= delta


def test_the_whole_test_of_the_smooth_median_sees_noise_that_follows_the_data_too_closely() -> None:
    place, points = Place.median(3), np.arange(-600, 601)
    honest = SmoothLaplace.calibrate(1.0, 0.02, span=12)
    hasty = SmoothLaplace(epsilon=1.0, alpha=0.5, beta=1.1 * honest.beta, span=12)
    assert 0.9 * 0.02 < worst(smooth_law(honest, place, 12, None, points), 3, 12, 1.0) <= 0.02
    assert worst(smooth_law(hasty, place, 12, None, points), 3, 12, 1.0) > 0.02

    def local(data: tuple[int, ...]) -> Law:
        gap = max(data[1] - data[0], data[2] - data[1], 1)
        return law(data[1], gap / 0.5, points)

    assert worst(local, 3, 12, 1.0) > 0.02


def released_law(mechanism: ProposeTestRelease, place: Place, top: int, reach: int, points: np.ndarray) -> Callable[..., Law]:
    """The law of a test and its release; the first outcome is a failed test."""

    def of(data: tuple[int, ...]) -> Law:
        window = window_of(data, place, top, reach)
        # In half steps for an average of two values.
        distance = int(distance_to_larger(place.parts * window, place, mechanism.bound))
        passes = chance_to_pass(distance, mechanism.threshold, 1.0 / mechanism.test_epsilon)
        value = round(place.parts * float(value_at(window, place)))
        return np.array([1.0 - passes, *passes * law(value, mechanism.bound / mechanism.release_epsilon, points)])

    return of


@pytest.mark.parametrize(
    ("epsilon", "delta", "size", "top", "bound"), [(4.0, 0.05, 3, 12, 1), (3.0, 0.02, 4, 8, 2), (6.0, 0.01, 5, 5, 1)]
)
@pytest.mark.parametrize("reach", [1, 2, 6])
def test_the_whole_propose_test_release_keeps_its_delta_on_all_neighbouring_data(
    epsilon: float, delta: float, size: int, top: int, bound: int, reach: int
) -> None:
    place = Place.median(size)
    mechanism = ProposeTestRelease.calibrate(epsilon, delta, bound=bound)
    exact = worst(released_law(mechanism, place, top, reach, np.arange(-400, 401)), size, top, mechanism.epsilon)
    assert exact <= mechanism.delta * (1 + 1e-12)
    assert mechanism.delta <= delta
    assert mechanism.epsilon <= epsilon


def test_the_whole_test_of_propose_test_release_sees_a_threshold_one_too_low_and_a_distance_that_jumps() -> None:
    place, points = Place.median(3), np.arange(-400, 401)
    mechanism = ProposeTestRelease.calibrate(6.0, 0.005, bound=1)
    exact = worst(released_law(mechanism, place, 12, 4, points), 3, 12, mechanism.epsilon)
    assert 0.9 * mechanism.delta < exact <= mechanism.delta
    lower = ProposeTestRelease(1, mechanism.test_epsilon, mechanism.release_epsilon, mechanism.threshold - 1)
    assert worst(released_law(lower, place, 12, 4, points), 3, 12, mechanism.epsilon) > 0.005

    def jumps(data: tuple[int, ...]) -> Law:
        # Distance 0 or far, as if the test only asked whether the bound holds here.
        safe = max(data[1] - data[0], data[2] - data[1]) <= 1
        passes = chance_to_pass(9 if safe else 0, mechanism.threshold, 1.0 / mechanism.test_epsilon)
        return np.array([1.0 - passes, *passes * law(data[1], 1.0 / mechanism.release_epsilon, points)])

    assert worst(jumps, 3, 12, mechanism.epsilon) > 0.005


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-4, 0.3])
def test_the_threshold_is_the_least_that_keeps_delta_by_summing_the_noise(epsilon: float, delta: float) -> None:
    mechanism = ProposeTestRelease.calibrate(epsilon, delta, bound=3)
    scale = 1.0 / mechanism.test_epsilon
    points = np.arange(-math.ceil(80 * scale), math.ceil(80 * scale) + 1)
    noise = law(0, scale, points)
    assert noise[points > mechanism.threshold].sum() == pytest.approx(mechanism.delta, rel=1e-9)
    assert mechanism.delta <= delta
    assert mechanism.threshold == 0 or noise[points > mechanism.threshold - 1].sum() > delta * (1 - 1e-9)
    far = 2 * mechanism.threshold + 1
    for distance in (1, mechanism.threshold, far):
        passes = noise[points + distance > mechanism.threshold].sum()
        assert chance_to_pass(distance, mechanism.threshold, scale) == pytest.approx(passes, rel=1e-9)
    assert chance_to_pass(far, mechanism.threshold, scale) >= 1.0 - mechanism.delta * (1 + 1e-9)


def test_releases_are_whole_steps_around_the_value_and_a_failed_test_says_nothing() -> None:
    smooth = SmoothLaplace.calibrate(1.0, 1e-6, span=10**6)
    # |noise| > 60 scales has probability e^-60, however often this is run.
    assert all(abs(smooth.randomize(500, 3.0) - 500) <= 60 * 6.1 for _ in range(50))
    assert len({smooth.randomize(500, 1e4) for _ in range(50)}) > 10
    test = ProposeTestRelease.calibrate(1.0, 1e-9, bound=5)
    # The wrong outcome has probability below 1e-9 for each of the 2 x 50 calls.
    assert all(test.randomize(500, 0) is None for _ in range(50))
    released = [test.randomize(500, 3 * test.threshold) for _ in range(50)]
    assert all(value is not None and abs(value - 500) <= 60 * 10.1 for value in released)


def test_the_scale_follows_the_sensitivity_and_never_falls_below_the_floor() -> None:
    # The mean of 400 |noise| values: its standard error is 5 % of the scale, and 40 % is 8 of them (below 1e-9 by Chernoff).
    mechanism = SmoothLaplace.calibrate(1.0, 1e-6, span=10**6, floor=40)
    for sensitivity, effective in ((0.0, 40.0), (1000.0, 1000.0)):
        noise = np.array([mechanism.randomize(0, sensitivity) for _ in range(400)])
        assert abs(np.abs(noise).mean() / (effective / 0.5) - 1.0) < 0.4


def test_no_text_of_a_mechanism_holds_what_depends_on_the_data() -> None:
    mechanism = SmoothLaplace.calibrate(1.0, 1e-6, span=10**6)
    before = repr(mechanism)
    mechanism.randomize(123_456, 98_765.0)
    assert repr(mechanism) == before
    for sensitivity in (98_765_432.1, -1.0, math.nan):
        with pytest.raises(BadData) as refusal:
            mechanism.randomize(123_456, sensitivity)
        assert not any(character.isdigit() for character in str(refusal.value))
    with pytest.raises(BadValue) as wrong:
        mechanism.randomize(123_456.5, 1.0)
    assert not any(character.isdigit() for character in str(wrong.value))


def test_rounding_is_paid_for_and_rational_arithmetic_agrees_that_shifts_stay_within_alpha_scales() -> None:
    mechanism = SmoothLaplace.calibrate(0.7, 1e-5, span=10**6)
    assert mechanism.beta + ROUNDING <= calibrated(0.7, 1e-5)[1]
    from dpsurvey.privacy.rounding import up

    for sensitivity in (1.0, 3.0, 7.0, 999_983.0):
        assert Fraction(up(sensitivity / mechanism.alpha)) * Fraction(mechanism.alpha) >= Fraction(sensitivity)


@pytest.mark.parametrize("relation", ["add-remove", "both"])
def test_only_replacing_a_record_is_guaranteed(relation: str) -> None:
    for mechanism in (SmoothLaplace.calibrate(1.0, 1e-6, span=100), ProposeTestRelease.calibrate(1.0, 1e-6, bound=1)):
        with pytest.raises(BadValue, match="replac"):
            mechanism.profile(relation)
        assert mechanism.profile("replace-one").epsilon(1e-6) <= 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: SmoothLaplace.calibrate(1.0, 1e-6, span=0),
        lambda: SmoothLaplace.calibrate(1.0, 1e-6, span=100, floor=0),
        lambda: SmoothLaplace.calibrate(1.0, 1e-6, span=2**53),
        lambda: SmoothLaplace.calibrate(1e-9, 1e-6, span=2**50),
        lambda: SmoothLaplace.calibrate(0.0, 1e-6, span=100),
        lambda: SmoothLaplace.calibrate(1.0, 0.0, span=100),
        lambda: SmoothLaplace.calibrate(1.0, 1.0, span=100),
        lambda: SmoothLaplace(1.0, 0.5, 0.9, 100),
        lambda: ProposeTestRelease.calibrate(1.0, 1e-6, bound=0),
        lambda: ProposeTestRelease.calibrate(1.0, 0.0, bound=1),
        lambda: ProposeTestRelease.calibrate(1.0, 1e-6, bound=1, test_share=1.0),
    ],
)
def test_what_would_guarantee_nothing_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(BadValue):
        make()
