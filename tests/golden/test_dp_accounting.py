"""dp-accounting as a second opinion on curves, amplification, composition and the conversion from zCDP.

dp-accounting discretises the privacy loss. Its pessimistic curves lie above the truth and its optimistic ones below it,
so ours must lie at or above the optimistic ones, and close to the pessimistic ones.
"""

import math

import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import rdp_privacy_accountant as rdp

from dpsurvey import PrivacyProfile, Setting, poisson
from dpsurvey.mechanism import Gaussian as GaussianNoise
from dpsurvey.mechanism import Laplace as LaplaceNoise

EPSILONS = (0.0, 0.05, 0.25, 0.5, 1.0, 2.0)
INTERVAL = 1e-4
ADD_REMOVE = Setting("frame", neighbours="add-remove")


def distributions(build, *parameters, **choices):
    """Their pessimistic and optimistic privacy loss distributions of one mechanism."""
    return tuple(
        build(
            *parameters,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=INTERVAL,
            use_connect_dots=pessimistic,
            **choices,
        )
        for pessimistic in (True, False)
    )


def assert_agrees(profile, above, below, close):
    for epsilon in EPSILONS:
        ours = profile.delta(epsilon)
        assert ours >= below.get_delta_for_epsilon(epsilon) - 1e-15
        assert ours == pytest.approx(above.get_delta_for_epsilon(epsilon), rel=close, abs=1e-15)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_the_gaussian_curve_agrees(mu):
    assert_agrees(PrivacyProfile.gaussian(mu, "both"), *distributions(pld.from_gaussian_mechanism, 1.0 / mu), close=1e-8)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 3.0])
def test_the_laplace_curve_agrees(ratio):
    assert_agrees(PrivacyProfile.laplace(ratio, "both"), *distributions(pld.from_laplace_mechanism, 1.0 / ratio), close=1e-8)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (3.0, 0.0), (0.5, 1e-6), (1.0, 0.01)])
def test_the_curve_of_pure_and_epsilon_delta_guarantees_agrees(epsilon, delta):
    theirs = pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, delta), value_discretization_interval=INTERVAL
    )
    ours = PrivacyProfile.approximate(epsilon, delta, "both")
    for at in EPSILONS:
        assert ours.delta(at) >= theirs.get_delta_for_epsilon(at) - 1e-15
        assert ours.delta(at) == pytest.approx(theirs.get_delta_for_epsilon(at), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_amplification_by_poisson_sampling_agrees_on_the_whole_curve(kind, rate):
    build = {"gaussian": pld.from_gaussian_mechanism, "laplace": pld.from_laplace_mechanism}[kind]
    in_sample = getattr(PrivacyProfile, kind)(0.8, "add-remove")
    ours = poisson(rate).amplify(in_sample, ADD_REMOVE).profile
    assert_agrees(ours, *distributions(build, 1.0 / 0.8, sampling_prob=rate), close=1e-6)


COMPOSITIONS = {
    "laplace and gaussian": [("laplace", 0.5), ("gaussian", 0.7)],
    "two laplace": [("laplace", 0.5), ("laplace", 1.0)],
    "three of three kinds": [("pure", 0.3), ("laplace", 0.4), ("gaussian", 0.5)],
}


def their_distributions(kind, amount):
    if kind == "pure":
        # A pure guarantee has one worst mechanism, randomised response that lies with probability 1/(1 + e^epsilon).
        lie = 2.0 / (1.0 + math.exp(amount))
        return tuple(
            pld.from_randomized_response(lie, 2, pessimistic_estimate=side, value_discretization_interval=INTERVAL)
            for side in (True, False)
        )
    build = {"gaussian": pld.from_gaussian_mechanism, "laplace": pld.from_laplace_mechanism}[kind]
    return distributions(build, 1.0 / amount)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_mixed_compositions_agree(name):
    parts = COMPOSITIONS[name]
    profiles = [getattr(PrivacyProfile, kind)(amount, "both") for kind, amount in parts]
    ours = profiles[0].compose(*profiles[1:])
    assert ours.curve.kind == "composed"
    composed = list(their_distributions(*parts[0]))
    for kind, amount in parts[1:]:
        composed = [total.compose(part) for total, part in zip(composed, their_distributions(kind, amount), strict=True)]
    assert_agrees(ours, *composed, close=1e-3)
    # The two sides are close to each other, so lying between them says something.
    for epsilon in EPSILONS:
        assert composed[1].get_delta_for_epsilon(epsilon) == pytest.approx(
            composed[0].get_delta_for_epsilon(epsilon), rel=2e-2, abs=1e-5
        )


@pytest.mark.parametrize("mus", [(0.5, 0.5), (0.3, 0.4, 1.2)])
def test_composing_gaussians_by_privacy_loss_distribution_gives_the_closed_form_from_above(mus):
    profiles = [PrivacyProfile.gaussian(mu, "both") for mu in mus]
    exact = profiles[0].compose(*profiles[1:])
    ours = profiles[0].compose(*profiles[1:], by="pld")
    assert (exact.curve.kind, ours.curve.kind) == ("gaussian", "composed")
    assert exact.curve.mu == pytest.approx(math.hypot(*mus), rel=1e-14)  # type: ignore[attr-defined]
    for epsilon in EPSILONS:
        # 1e-8: the closed form is itself rounded up, by 1e-9.
        assert ours.delta(epsilon) >= exact.delta(epsilon) * (1 - 1e-8)
        assert ours.delta(epsilon) == pytest.approx(exact.delta(epsilon), rel=1e-4)
    for delta in (1e-9, 1e-6, 1e-3):
        assert exact.epsilon(delta) * (1 - 1e-8) <= ours.epsilon(delta) <= exact.epsilon(delta) + 1e-3


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 10), (0.5, 4), (1.0, 2)])
def test_composing_pure_guarantees_by_privacy_loss_distribution_gives_the_optimal_composition_from_above(epsilon, times):
    """k-fold randomised response: loss (2i - k) epsilon with probability C(k, i) e^(i epsilon) / (1 + e^epsilon)^k."""
    one = PrivacyProfile.pure(epsilon, "both")
    ours = one.compose(*[one] * (times - 1), by="pld")
    whole = (1.0 + math.exp(epsilon)) ** times

    def exact(at):
        terms = (
            math.comb(times, i) * max(0.0, math.exp(i * epsilon) - math.exp(at + (times - i) * epsilon)) for i in range(times + 1)
        )
        return math.fsum(terms) / whole

    for at in EPSILONS:
        assert ours.delta(at) >= exact(at) - 1e-12
        assert ours.delta(at) == pytest.approx(exact(at), rel=1e-3, abs=1e-4)
    # The sum of epsilons is the same guarantee at delta 0, and a weaker one elsewhere.
    added = one.compose(*[one] * (times - 1))
    assert added.epsilon(0.0) == pytest.approx(times * epsilon, rel=1e-12)
    assert added.delta(0.5) >= ours.delta(0.5)


ORDERS = [1.0 + step / 100.0 for step in range(1, 1000)] + [11.0 + step / 2.0 for step in range(1000)]


@pytest.mark.parametrize("rho", [0.005, 0.05, 0.5, 2.0])
def test_the_conversion_from_zcdp_agrees_and_covers_the_gaussian(rho):
    ours, gaussian = PrivacyProfile.zcdp(rho, "both"), PrivacyProfile.gaussian(math.sqrt(2.0 * rho), "both")
    losses = [order * rho for order in ORDERS]
    for delta in (1e-9, 1e-6, 1e-3):
        theirs, _ = rdp.compute_epsilon(ORDERS, losses, delta)
        # They search a list of orders, we search all of them.
        assert ours.epsilon(delta) <= theirs * (1 + 1e-9)
        assert ours.epsilon(delta) == pytest.approx(theirs, rel=0.01)
        assert ours.epsilon(delta) >= gaussian.epsilon(delta)
    for epsilon in (1.5 * rho + 0.1, 2.0 * rho + 0.5, 3.0 * rho + 1.5):
        theirs, _ = rdp.compute_delta(ORDERS, losses, epsilon)
        assert ours.delta(epsilon) >= gaussian.delta(epsilon)
        assert gaussian.delta(epsilon) <= theirs
        assert ours.delta(epsilon) == pytest.approx(theirs, rel=0.05)


@pytest.mark.parametrize(("scale", "sensitivity"), [(0.7, 1), (3.0, 1), (2.0, 5), (40.0, 10)])
def test_the_guarantee_of_discrete_laplace_noise_covers_its_exact_curve(scale, sensitivity):
    ours = LaplaceNoise(scale, float(sensitivity)).profile("both")
    above, below = distributions(pld.from_discrete_laplace_mechanism, 1.0 / scale, sensitivity)
    for epsilon in EPSILONS:
        assert ours.delta(epsilon) >= below.get_delta_for_epsilon(epsilon) - 1e-15
        assert ours.delta(epsilon) >= above.get_delta_for_epsilon(epsilon) * (1 - 1e-9) - 1e-12
    # At one lattice step of sensitivity discrete Laplace noise is the worst case of its epsilon.
    if sensitivity == 1:
        assert ours.delta(0.0) == pytest.approx(above.get_delta_for_epsilon(0.0), rel=1e-6)


@pytest.mark.parametrize(("scale", "sensitivity"), [(0.8, 1), (3.0, 1), (2.5, 5), (20.0, 10)])
def test_the_guarantee_of_discrete_gaussian_noise_covers_its_exact_curve(scale, sensitivity):
    ours = GaussianNoise(scale, float(sensitivity)).profile("both")
    above, below = distributions(pld.from_discrete_gaussian_mechanism, scale, sensitivity)
    for epsilon in EPSILONS:
        assert ours.delta(epsilon) >= below.get_delta_for_epsilon(epsilon)
        assert ours.delta(epsilon) >= above.get_delta_for_epsilon(epsilon) * (1 - 1e-3)
