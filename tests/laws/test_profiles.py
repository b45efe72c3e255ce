"""The algebra of privacy profiles: what holds for every curve, whatever its numbers.

Curves are compared with their formulas in 50-digit arithmetic. A figure that bounds privacy may be larger than the
exact one by rounding, never smaller, so those comparisons have no tolerance on the private side.
"""

import json
import math
import subprocess
import sys
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dpsurvey as ds
from dpsurvey import Budget, PrivacyProfile, Setting, poisson
from dpsurvey.errors import BadValue
from dpsurvey.loss.curves import SampledCurve
from dpsurvey.privacy.budget import amount, largest_in_sample, take_share
from dpsurvey.privacy.curve import Approximate, Gaussian, ZeroConcentrated
from dpsurvey.privacy.derived import Greatest, Least, ReplacedCurve
from dpsurvey.privacy.measure import Measure, counted
from dpsurvey.privacy.panel import PanelCurve
from dpsurvey.privacy.rounding import above, amplified, unamplified
from dpsurvey.privacy.running import Running
from dpsurvey.privacy.shuffled import Shuffled

pytestmark = pytest.mark.quick

law = settings(deadline=None, derandomize=True, max_examples=60)
mp = mpmath.mp.clone()
mp.dps = 50

RELATIONS = ("add-remove", "replace-one", "both")
NAN = math.nan


def power(low, high):
    """Numbers spread evenly over orders of magnitude."""
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: 10.0**exponent)


relations = st.sampled_from(RELATIONS)
rates = power(1e-9, 1.0)
deltas = power(1e-12, 0.5)
pures = st.builds(PrivacyProfile.pure, power(1e-3, 20), relations)
approximates = st.builds(PrivacyProfile.approximate, power(1e-3, 20), power(1e-12, 0.1), relations)
laplaces = st.builds(PrivacyProfile.laplace, power(1e-3, 20), relations)
gaussians = st.builds(PrivacyProfile.gaussian, power(1e-2, 8), relations)
zcdps = st.builds(PrivacyProfile.zcdp, power(1e-4, 30), relations)
in_sample = st.one_of(pures, approximates, laplaces, gaussians, zcdps)
amplified_ones = st.builds(lambda profile, rate: profile.amplify(rate), in_sample, power(1e-3, 0.99))
converted = st.builds(
    lambda profile: PrivacyProfile(profile.curve, "add-remove").to_replace_one(), st.one_of(in_sample, amplified_ones)
)
profiles = st.one_of(in_sample, amplified_ones, converted)


# What a curve is


@law
@given(profiles, power(1e-4, 30), power(1e-4, 30))
@example(PrivacyProfile.gaussian(10.0, "add-remove").amplify(0.01).to_replace_one(), 1.0, 3.0)
@example(PrivacyProfile.approximate(1.0, 1e-6, "add-remove").amplify(0.1).to_replace_one(), 0.5, 3.5)
def test_delta_never_increases_with_epsilon(profile, smaller, more):
    near, far = profile.delta(smaller), profile.delta(smaller + more)
    # 1e-9: each point is rounded up by its own amount.
    assert far <= near * (1 + 1e-9)
    assert 0.0 <= far <= near * (1 + 1e-9) <= 1 + 1e-9


@law
@given(profiles, deltas)
def test_the_epsilon_of_a_delta_keeps_that_delta(profile, delta):
    epsilon = profile.epsilon(delta)
    if math.isinf(epsilon):
        # There is no epsilon only where the curve stays above delta however far one goes.
        assert min(profile.delta(far) for far in (0.0, 1.0, 10.0, 100.0, 1000.0)) > delta * (1 - 1e-9)
    else:
        assert profile.delta(epsilon) <= delta * (1 + 1e-9)


@law
@given(profiles, power(1e-3, 20))
def test_the_epsilon_of_the_delta_of_an_epsilon_is_no_larger(profile, epsilon):
    delta = profile.delta(epsilon)
    if 1e-200 < delta < 1.0:
        assert profile.epsilon(delta) <= epsilon * (1 + 1e-6) + 1e-9


@law
@given(profiles, deltas, deltas)
def test_a_larger_delta_never_needs_a_larger_epsilon(profile, one, other):
    assert profile.epsilon(max(one, other)) <= profile.epsilon(min(one, other)) * (1 + 1e-9)


@pytest.mark.parametrize(
    "base",
    [
        PrivacyProfile.pure(1.0, "add-remove"),
        PrivacyProfile.approximate(1.0, 1e-9, "add-remove"),
        PrivacyProfile.laplace(1.0, "add-remove"),
        PrivacyProfile.gaussian(0.5, "add-remove"),
        PrivacyProfile.zcdp(0.125, "add-remove"),
    ],
    ids=["pure", "approximate", "laplace", "gaussian", "zcdp"],
)
def test_every_curve_has_a_finite_epsilon_at_an_ordinary_delta_in_all_its_forms(base):
    replaced = poisson(0.1).amplify(base, Setting("frame", neighbours="replace-one")).profile
    for profile in (base, base.amplify(0.1), base.to_replace_one(), base.to_replace_one().amplify(0.1), replaced):
        assert 0.0 <= profile.epsilon(1e-6) < 8.0
        assert profile.delta(profile.epsilon(1e-6)) <= 1e-6 * (1 + 1e-9)


@pytest.mark.parametrize(
    "profile",
    [
        PrivacyProfile.pure(1.0, "both"),
        PrivacyProfile.laplace(1.0, "both"),
        PrivacyProfile.gaussian(1.0, "both"),
        PrivacyProfile.zcdp(1.0, "both"),
    ],
    ids=["pure", "laplace", "gaussian", "zcdp"],
)
@pytest.mark.parametrize("epsilon", [1e3, 1e4, 1e6, math.inf])
def test_far_out_every_curve_is_next_to_nothing(profile, epsilon):
    assert 0.0 <= profile.delta(epsilon) < 1e-250
    assert 0.0 <= profile.amplify(0.1).delta(epsilon) < 1e-250


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.1, 0.3])
def test_the_amplified_pair_of_an_epsilon_delta_guarantee_can_be_asked_for_by_its_delta(rate):
    guarantee = PrivacyProfile.approximate(1.0, 1e-6, "both").amplify(rate)
    # A quarter and a half of delta are exact; the others may be rounded down, below what is proved.
    delta = rate * 1e-6 * (1.0 if rate in (0.25, 0.5) else 1.0 + 1e-12)
    assert guarantee.epsilon(delta) == pytest.approx(math.log1p(rate * math.expm1(1.0)), rel=1e-9)


# Formulas in 50 digits


def exact_pure(epsilon, at):
    return max(mp.mpf(0), (mp.exp(mp.mpf(at)) - mp.exp(mp.mpf(epsilon))) / (1 + mp.exp(mp.mpf(at))))


def exact_laplace(epsilon, ratio):
    return max(mp.mpf(0), -mp.expm1((mp.mpf(epsilon) - mp.mpf(ratio)) / 2))


def exact_gaussian(epsilon, mu):
    epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)

    def below(x):
        return mp.erfc(-x / mp.sqrt(2)) / 2

    return below(mu / 2 - epsilon / mu) - mp.exp(epsilon) * below(-mu / 2 - epsilon / mu)


def exact_zcdp(epsilon, rho):
    """The infimum over alpha, by golden section on the logarithm of alpha - 1."""
    epsilon, rho = mp.mpf(epsilon), mp.mpf(rho)

    def log_delta(t):
        excess = mp.exp(t)
        return excess * ((1 + excess) * rho - epsilon) + (1 + excess) * (t - mp.log1p(excess)) - t

    low, high, part = mp.mpf(-40), mp.mpf(60), (mp.sqrt(5) - 1) / 2
    left, right = high - part * (high - low), low + part * (high - low)
    at_left, at_right = log_delta(left), log_delta(right)
    for _ in range(130):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - part * (high - low)
            at_left = log_delta(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + part * (high - low)
            at_right = log_delta(right)
    return mp.exp(min(mp.mpf(0), log_delta((low + high) / 2)))


def check_above(profile, exact, epsilon, close):
    ours, truth = profile.delta(epsilon), exact(epsilon)
    if truth > mp.mpf(10) ** -280:
        assert ours >= truth, f"{mp.nstr((truth - ours) / truth, 3)} below the formula"
    assert ours <= min(1, truth * (1 + close) + mp.mpf(10) ** -280)


@law
@given(power(1e-12, 50), st.floats(0.0, 1.2), power(1e-9, 1.0))
def test_the_pure_curve_and_its_amplification_lie_on_their_formulas_and_never_below(at, part, rate):
    profile = PrivacyProfile.pure(at, "both")
    check_above(profile, lambda epsilon: exact_pure(epsilon, at), part * at, 1e-12)
    inside = amplified(at, rate)
    check_above(
        profile.amplify(rate),
        lambda epsilon: mp.mpf(rate) * exact_pure(mp.log1p(mp.expm1(mp.mpf(epsilon)) / mp.mpf(rate)), at),
        part * inside * 0.8,
        1e-8,
    )


@law
@given(power(1e-12, 50), st.floats(0.0, 1.2))
@example(0.0004245014819640877, 0.385)
@example(1.0, 0.7)
def test_the_laplace_curve_lies_on_its_formula_and_never_below(ratio, part):
    check_above(PrivacyProfile.laplace(ratio, "both"), lambda epsilon: exact_laplace(epsilon, ratio), part * ratio, 1e-12)


@law
@given(power(1e-6, 30), st.floats(0.0, 34.0))
@example(1.7035246047212885e-06, 28.4765)
@example(0.001175284649338247, 26.9257)
def test_the_gaussian_curve_lies_on_its_formula_and_never_below(mu, steps):
    check_above(PrivacyProfile.gaussian(mu, "both"), lambda epsilon: exact_gaussian(epsilon, mu), steps * mu, 1e-2)


@settings(law, max_examples=30)
@given(power(1e-8, 100), st.floats(0.0, 20.0))
@example(1.088444970885905e-06, 10.5752)
@example(2.239023058077905e-12, 18.7691)
def test_the_zcdp_curve_lies_on_its_infimum_and_never_below(rho, steps):
    check_above(PrivacyProfile.zcdp(rho, "both"), lambda epsilon: exact_zcdp(epsilon, rho), steps * math.sqrt(rho), 1e-4)


@law
@given(power(1e-2, 8), st.floats(0.0, 10.0), power(1e-6, 0.99))
def test_the_amplified_gaussian_curve_lies_on_its_formula_and_never_below(mu, epsilon, rate):
    check_above(
        PrivacyProfile.gaussian(mu, "both").amplify(rate),
        lambda at: mp.mpf(rate) * exact_gaussian(mp.log1p(mp.expm1(mp.mpf(at)) / mp.mpf(rate)), mu),
        epsilon,
        1e-6,
    )


# Where 1e-3 of the largest delta is left, epsilon is small beside the parameter it is computed from.
nearly_all = st.one_of(st.floats(1e-6, 0.999), power(1e-14, 0.1).map(lambda gap: 1.0 - gap))


@law
@given(power(1e-3, 20), nearly_all)
@example(0.0012186016931661971, 1.0 - 1.5e-10)
@example(0.18924150080757873, 1.0 - 9.2e-13)
def test_the_epsilon_of_a_pure_curve_is_on_the_private_side_of_the_formula(at, part):
    delta = part * float(exact_pure(0.0, at))
    assert exact_pure(PrivacyProfile.pure(at, "both").epsilon(delta), at) <= delta


@law
@given(power(1e-3, 20), nearly_all)
@example(0.03295548306351653, 1.0 - 5.7e-7)
@example(0.06837998780266055, 1.0 - 6e-14)
def test_the_epsilon_of_a_laplace_curve_is_on_the_private_side_of_the_formula(ratio, part):
    delta = part * float(exact_laplace(0.0, ratio))
    assert exact_laplace(PrivacyProfile.laplace(ratio, "both").epsilon(delta), ratio) <= delta


@law
@given(power(1e-2, 10), nearly_all)
def test_the_epsilon_of_a_gaussian_curve_is_on_the_private_side_of_the_formula(mu, part):
    delta = part * float(exact_gaussian(0.0, mu))
    assert exact_gaussian(PrivacyProfile.gaussian(mu, "both").epsilon(delta), mu) <= delta


@settings(law, max_examples=300)
@given(power(1e-12, 50), power(1e-9, 1.0))
@example(1e-12, 1e-9)
@example(50.0, 1e-9)
@example(1e-12, 1.0)
@example(50.0, 1.0)
def test_amplification_is_right_from_1e_12_to_50_and_never_below(epsilon, rate):
    exact = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(epsilon)))
    ours = PrivacyProfile.pure(epsilon, "both").amplify(rate).epsilon(0.0)
    assert math.isfinite(ours)
    assert exact <= ours <= exact * (1 + mp.mpf(10) ** -14)


@settings(law, max_examples=300)
@given(power(1e-12, 50), power(1e-9, 1.0))
@example(1e-12, 1e-9)
@example(50.0, 1e-9)
def test_the_inverse_is_right_from_1e_12_to_50_and_never_above(epsilon, rate):
    exact = mp.log1p(mp.expm1(mp.mpf(epsilon)) / mp.mpf(rate))
    ours = unamplified(epsilon, rate)
    assert exact * (1 - mp.mpf(10) ** -13) <= ours <= exact
    assert amplified(ours, rate) <= epsilon
    assert amplified(ours, rate) == pytest.approx(epsilon, rel=1e-12)


@settings(law, max_examples=20)
@given(power(1e-6, 20), power(1e-6, 1.0))
def test_the_largest_spending_keeps_a_pure_budget_and_leaves_nothing(epsilon, rate):
    most = largest_in_sample(Budget(epsilon), "add-remove", lambda profile: profile.amplify(rate))
    exact = mp.log1p(mp.expm1(mp.mpf(epsilon)) / mp.mpf(rate))
    assert exact * (1 - mp.mpf(10) ** -12) <= most.epsilon(0.0) <= exact
    assert most.amplify(rate).epsilon(0.0) <= epsilon


@settings(law, max_examples=8)
@given(power(1e-2, 5), power(1e-9, 1e-3), power(1e-3, 1.0))
def test_the_largest_spending_keeps_an_epsilon_delta_budget_and_leaves_nothing(epsilon, delta, rate):
    most = largest_in_sample(Budget(epsilon, delta), "add-remove", lambda profile: profile.amplify(rate))
    assert most.amplify(rate).delta(epsilon) <= delta
    more = PrivacyProfile.zcdp(most.curve.rho * (1 + 1e-6), "add-remove")  # type: ignore[attr-defined]
    assert more.amplify(rate).delta(epsilon) > delta


# Amplification


@law
@given(profiles, power(1e-3, 20), deltas)
def test_rate_one_is_the_identity(profile, epsilon, delta):
    assert profile.amplify(1.0) == profile
    assert profile.amplify(1.0).delta(epsilon) == profile.delta(epsilon)
    assert profile.amplify(1.0).epsilon(delta) == profile.epsilon(delta)


@law
@given(in_sample, rates, rates, power(1e-3, 20))
def test_a_smaller_rate_never_loses_more(profile, one, other, epsilon):
    small, large = profile.amplify(min(one, other)), profile.amplify(max(one, other))
    assert small.delta(epsilon) <= large.delta(epsilon) * (1 + 1e-9) + 1e-300
    assert large.delta(epsilon) <= profile.delta(epsilon) * (1 + 1e-9) + 1e-300


@law
@given(st.sampled_from(["pure", "laplace", "gaussian", "zcdp"]), power(1e-2, 5), st.floats(1.0, 3.0), rates, power(1e-3, 20))
def test_a_larger_loss_in_the_sample_is_a_larger_loss_outside(kind, amount, factor, rate, epsilon):
    build = getattr(PrivacyProfile, kind)
    less, more = build(amount, "both").amplify(rate), build(amount * factor, "both").amplify(rate)
    assert less.delta(epsilon) <= more.delta(epsilon) * (1 + 1e-9) + 1e-300
    assert less.epsilon(1e-7) <= more.epsilon(1e-7) * (1 + 1e-9)


@law
@given(power(1e-6, 20), st.lists(power(1e-6, 20), min_size=1, max_size=5), power(1e-6, 0.999))
def test_composing_then_amplifying_is_never_below_amplifying_then_adding(first, others, rate):
    spent = [PrivacyProfile.pure(epsilon, "replace-one") for epsilon in (first, *others)]
    together = spent[0].compose(*spent[1:]).amplify(rate).epsilon(0.0)
    added = math.fsum(each.amplify(rate).epsilon(0.0) for each in spent)
    # 1e-13: both sides are rounded up, the second once for each term.
    assert together >= added * (1 - 1e-13)
    assert together <= math.fsum((first, *others))


@law
@given(power(1e-3, 10), power(1e-3, 0.9), power(1e-3, 0.9))
def test_two_independent_thinnings_are_one_with_the_product_of_the_rates(epsilon, first, second):
    chained = PrivacyProfile.pure(epsilon, "add-remove").amplify(first).amplify(second)
    at_once = PrivacyProfile.pure(epsilon, "add-remove").amplify(first * second)
    assert chained.epsilon(0.0) == pytest.approx(at_once.epsilon(0.0), rel=1e-12)


# Composition

SAME_KIND = {
    "pure": PrivacyProfile.pure,
    "gaussian": PrivacyProfile.gaussian,
    "zcdp": PrivacyProfile.zcdp,
}


@law
@given(st.sampled_from(sorted(SAME_KIND)), st.tuples(*[power(1e-3, 3)] * 3), st.permutations(range(3)), deltas)
def test_composition_commutes_and_associates(kind, amounts, order, delta):
    a, b, c = (SAME_KIND[kind](amount, "add-remove") for amount in amounts)
    together = a.compose(b, c)
    shuffled = [(a, b, c)[index] for index in order]
    for other in (a.compose(b).compose(c), a.compose(b.compose(c)), shuffled[0].compose(*shuffled[1:])):
        assert other.relation == "add-remove"
        assert other.epsilon(delta) == pytest.approx(together.epsilon(delta), rel=1e-9)
        assert other.delta(1.0) == pytest.approx(together.delta(1.0), rel=1e-6, abs=1e-250)


@pytest.mark.parametrize(("kind", "parameter"), [("pure", "at_epsilon"), ("gaussian", "mu"), ("zcdp", "rho")])
def test_composition_adds_epsilon_rho_and_squares_of_mu_and_is_never_below(kind, parameter):
    @law
    @given(power(1e-3, 3), power(1e-3, 3))
    def holds(one, other):
        together = getattr(SAME_KIND[kind](one, "both").compose(SAME_KIND[kind](other, "both")).curve, parameter)
        exact = mp.sqrt(mp.mpf(one) ** 2 + mp.mpf(other) ** 2) if kind == "gaussian" else mp.mpf(one) + mp.mpf(other)
        assert exact <= together <= exact * (1 + mp.mpf(10) ** -14)

    holds()


@law
@given(in_sample)
def test_the_profile_of_the_amount_of_a_charge_loses_no_less_than_the_charge(charge):
    measure, exact = counted(charge)
    again = measure.profile(above(exact), charge.relation)
    own_delta = getattr(charge.curve, "at_delta", 0.0)
    assert counted(again)[0] is measure
    assert exact <= counted(again)[1] <= exact * (1 + Fraction(1, 10**14))
    # Each figure is rounded up by itself, so the larger of two losses may be printed lower in its last digits.
    assert all(again.delta(epsilon) + own_delta >= charge.delta(epsilon) * (1 - 1e-12) for epsilon in (0.0, 0.1, 1.0, 10.0))


@law
@given(st.sampled_from([Measure.RHO, Measure.MU]), st.lists(power(1e-3, 8), min_size=1, max_size=10))
def test_levels_together_are_no_less_than_charges_of_them(measure, levels):
    total = Running().plus(*(measure.profile(above(measure.exact(level)), ds.privacy.Relation.BOTH) for level in levels))
    together = counted(PrivacyProfile(measure.of_levels(levels), "both"))[1]
    assert sum(measure.exact(level) for level in levels) <= together
    assert float(together) == pytest.approx(float(total.amount), rel=1e-13)


def test_measures_are_read_by_the_names_on_record_and_no_others():
    assert [Measure.read(name) for name in ("epsilon", "rho", "mu")] == list(Measure)
    assert json.dumps(list(Measure)) == '["epsilon", "rho", "mu"]'
    for name in ("pure", "zcdp", "", "Rho"):
        with pytest.raises(BadValue, match="epsilon, rho or mu"):
            Measure.read(name)
    assert [Budget(1.0).measure, Budget(1.0, 1e-6).measure] == [Measure.EPSILON, Measure.RHO]


@law
@given(st.sampled_from(["pure", "zcdp"]), power(1e-6, 30), st.integers(1, 60))
@example("zcdp", 0.0123, 7)
def test_equal_shares_never_add_up_to_more_than_the_whole(kind, total, count):
    whole = SAME_KIND[kind](total, "both")
    together = amount(Running().plus(*[take_share(whole, 1.0 / count)] * count).composed)
    assert together <= total
    assert together == pytest.approx(total, rel=2e-12)


@law
@given(st.sampled_from(["pure", "zcdp"]), power(1e-6, 30), st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20))
def test_shares_in_proportion_to_wishes_never_add_up_to_more_than_the_whole(kind, total, wishes):
    whole = SAME_KIND[kind](total, "both")
    shares = [wish / math.fsum(wishes) for wish in wishes]
    together = amount(Running().plus(*(take_share(whole, share) for share in shares)).composed)
    assert together <= total
    assert together == pytest.approx(total, rel=2e-12)


@law
@given(zcdps, st.one_of(pures, gaussians), deltas)
def test_anything_with_zcdp_composes_to_the_sum_of_rho(base, other, delta):
    base, other = PrivacyProfile(base.curve, "both"), PrivacyProfile(other.curve, "both")
    together = base.compose(other)
    rho = other.curve.mu**2 / 2 if other.curve.kind == "gaussian" else other.curve.at_epsilon**2 / 2
    assert together.curve.rho == pytest.approx(base.curve.rho + rho, rel=1e-12)
    assert together.epsilon(delta) >= base.epsilon(delta)


@law
@given(approximates, approximates, deltas)
def test_epsilon_delta_guarantees_add_both_figures(one, other, delta):
    one, other = PrivacyProfile(one.curve, "both"), PrivacyProfile(other.curve, "both")
    together = one.compose(other)
    epsilon, total = one.curve.at_epsilon + other.curve.at_epsilon, one.curve.at_delta + other.curve.at_delta
    assert together.delta(epsilon * (1 + 1e-12)) == pytest.approx(total, rel=1e-12)
    assert together.epsilon(delta) >= max(one.epsilon(delta), other.epsilon(delta)) * (1 - 1e-12)


def test_guarantees_whose_deltas_add_up_to_one_guarantee_nothing():
    half = PrivacyProfile.approximate(0.1, 0.6, "both")
    assert half.compose(half).epsilon(0.99) == math.inf
    assert half.compose(half).delta(50.0) >= 0.9999999


@law
@given(in_sample, power(1e-6, 0.99), in_sample)
def test_an_amplified_profile_is_never_composed(profile, rate, other):
    other = PrivacyProfile(other.curve, profile.relation)
    thinned = profile.amplify(rate)
    for attempt in (lambda: thinned.compose(other), lambda: other.compose(thinned), lambda: thinned.compose(thinned)):
        with pytest.raises(BadValue, match="cannot be composed"):
            attempt()
    with pytest.raises(BadValue, match="cannot be composed"):
        PrivacyProfile(thinned.curve, "add-remove").to_replace_one().compose(PrivacyProfile(other.curve, "replace-one"))


@law
@given(in_sample, in_sample)
def test_profiles_of_different_relations_do_not_compose(one, other):
    left, right = PrivacyProfile(one.curve, "add-remove"), PrivacyProfile(other.curve, "replace-one")
    either = PrivacyProfile.pure(0.1, "both")
    for attempt in (lambda: left.compose(right), lambda: right.compose(left), lambda: either.compose(left, right)):
        with pytest.raises(BadValue, match="different neighbour relations"):
            attempt()


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_profile_for_both_relations_composes_into_the_narrower_one(relation):
    one, either = PrivacyProfile.pure(1.0, relation), PrivacyProfile.pure(1.0, "both")
    assert one.compose(either).relation == either.compose(one).relation == relation


# Conversion


@law
@given(power(1e-6, 50))
def test_replacing_doubles_a_pure_add_remove_loss(epsilon):
    replaced = PrivacyProfile.pure(epsilon, "add-remove").to_replace_one()
    assert (replaced.epsilon(0.0), replaced.relation) == (2 * epsilon, "replace-one")


@law
@given(power(1e-3, 3), power(1e-9, 1e-3), power(1e-3, 5))
def test_replacing_is_two_steps_for_every_kind_of_curve(amount, delta, epsilon):
    for build, two_steps in (
        (PrivacyProfile.laplace, PrivacyProfile.laplace(2 * amount, "replace-one")),
        (PrivacyProfile.gaussian, PrivacyProfile.gaussian(2 * amount, "replace-one")),
        (PrivacyProfile.zcdp, PrivacyProfile.zcdp(4 * amount, "replace-one")),
    ):
        assert build(amount, "add-remove").to_replace_one() == two_steps
    pair = PrivacyProfile.approximate(amount, delta, "add-remove").to_replace_one()
    assert pair.delta(2 * amount) == pytest.approx(delta * (1 + math.exp(amount)), rel=1e-12)
    # An amplified curve has no closed form: P <= e^(e/2) Q + d and Q <= e^(e/2) R + d give (1 + e^(e/2)) d.
    thinned = PrivacyProfile.gaussian(amount, "add-remove").amplify(0.5)
    assert thinned.to_replace_one().delta(epsilon) <= (1 + math.exp(epsilon / 2)) * thinned.delta(epsilon / 2) * (1 + 1e-9)


@law
@given(st.one_of(in_sample, amplified_ones), power(1e-3, 20), deltas)
def test_replacing_never_loses_less_than_adding_or_removing(profile, epsilon, delta):
    before = PrivacyProfile(profile.curve, "add-remove")
    after = before.to_replace_one()
    assert after.relation == "replace-one"
    assert after.delta(epsilon) >= before.delta(epsilon) * (1 - 1e-9)
    assert after.epsilon(delta) >= before.epsilon(delta) * (1 - 1e-9)


@law
@given(profiles)
def test_a_profile_that_covers_replacement_is_converted_at_no_cost(profile):
    for relation in ("replace-one", "both"):
        kept = PrivacyProfile(profile.curve, relation).to_replace_one()
        assert kept == PrivacyProfile(profile.curve, "replace-one")


# Writing and refusing

ONE_OF_EACH_KIND = {
    "pure": PrivacyProfile.pure(0.7, "add-remove"),
    "approximate": PrivacyProfile.approximate(0.7, 1e-7, "replace-one"),
    "laplace": PrivacyProfile.laplace(0.7, "both"),
    "gaussian": PrivacyProfile.gaussian(0.7, "both"),
    "zcdp": PrivacyProfile.zcdp(0.7, "add-remove"),
    "amplified": PrivacyProfile.gaussian(0.7, "replace-one").amplify(0.3),
    "many-steps": PrivacyProfile.zcdp(0.7, "add-remove").amplify(0.3).to_replace_one(),
    "sampled": PrivacyProfile(
        SampledCurve(Gaussian(0.4), "add-remove", "add-remove", ds.proportional(0.2, rounding="random")), "add-remove"
    ),
    "panel": PrivacyProfile(PanelCurve(((0.3, Gaussian(0.4)), (0.1, ZeroConcentrated(0.2)))), "add-remove"),
    "shuffled": PrivacyProfile(Shuffled(500, 1.2), "replace-one"),
    "replaced": PrivacyProfile(ReplacedCurve(0.7, 0.3), "replace-one"),
    "least": PrivacyProfile(Least((Gaussian(0.7), ZeroConcentrated(0.2))), "both"),
    "greatest": PrivacyProfile(Greatest((Gaussian(0.7), ZeroConcentrated(0.2))), "both"),
    "with parts of strata": PrivacyProfile(Approximate(0.7), "add-remove", {"small": 0.02, "large": 1.0}),
    "composed": PrivacyProfile.laplace(0.7, "both").compose(PrivacyProfile.gaussian(0.7, "both")),
    "composed of composed": PrivacyProfile.laplace(0.7, "both")
    .compose(PrivacyProfile.gaussian(0.7, "both"))
    .compose(PrivacyProfile.pure(0.1, "both")),
}


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_a_profile_survives_being_written_as_json(name):
    profile = ONE_OF_EACH_KIND[name]
    read = PrivacyProfile.from_dict(json.loads(json.dumps(profile.to_dict())))
    assert read == profile
    assert [read.delta(epsilon) for epsilon in (0.0, 0.3, 1.0)] == [profile.delta(epsilon) for epsilon in (0.0, 0.3, 1.0)]


@pytest.mark.parametrize(
    "how", ["from dpsurvey.privacy import PrivacyProfile", "from dpsurvey.privacy.profile import PrivacyProfile"]
)
def test_an_amplified_profile_is_read_back_however_the_class_was_imported(how):
    amplified = ds.design.amplify_profile(poisson(0.1), PrivacyProfile.pure(1.0, "replace-one"), neighbours="replace-one")
    written = json.dumps(amplified.to_dict())
    program = f"import json, sys; {how}; print(PrivacyProfile.from_dict(json.loads(sys.argv[1])).epsilon(0.0))"
    read = subprocess.run([sys.executable, "-c", program, written], capture_output=True, text=True, check=True)
    assert float(read.stdout) == amplified.epsilon(0.0)


@law
@given(profiles)
def test_writing_and_reading_is_the_identity(profile):
    assert PrivacyProfile.from_dict(json.loads(json.dumps(profile.to_dict()))) == profile


def test_the_kinds_written_above_are_all_there_are():
    from dpsurvey.privacy.curve import Curve

    def kinds(parent):
        return {kind for child in parent.__subclasses__() for kind in (child.kind, *kinds(child))}

    assert kinds(Curve) == {profile.curve.kind for profile in ONE_OF_EACH_KIND.values()}


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 1.5, NAN, math.inf])
@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_a_delta_outside_its_range_is_refused(name, delta):
    with pytest.raises(BadValue, match="delta"):
        ONE_OF_EACH_KIND[name].epsilon(delta)


@pytest.mark.parametrize("epsilon", [-1e-9, -1.0, NAN, -math.inf])
@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_an_epsilon_below_zero_is_refused(name, epsilon):
    with pytest.raises(BadValue, match="epsilon"):
        ONE_OF_EACH_KIND[name].delta(epsilon)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0000001, 2.0, NAN, math.inf])
@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_a_rate_outside_its_range_is_refused(name, rate):
    with pytest.raises(BadValue, match="rate"):
        ONE_OF_EACH_KIND[name].amplify(rate)


@pytest.mark.parametrize("amount", [0.0, -1.0, NAN, math.inf])
@pytest.mark.parametrize("kind", ["laplace", "gaussian", "zcdp"])
def test_an_amount_that_is_not_positive_and_finite_is_refused(kind, amount):
    with pytest.raises(BadValue):
        getattr(PrivacyProfile, kind)(amount, "both")


@pytest.mark.parametrize(("epsilon", "delta"), [(-1.0, 0.0), (NAN, 0.0), (1.0, -1e-9), (1.0, 1.0), (1.0, NAN), (1.0, 2.0)])
def test_an_epsilon_delta_pair_outside_its_range_is_refused(epsilon, delta):
    with pytest.raises(BadValue):
        PrivacyProfile.approximate(epsilon, delta, "both")


@pytest.mark.parametrize("share", [0.0, -0.1, 1.0000001, NAN])
def test_a_share_outside_its_range_is_refused(share):
    with pytest.raises(BadValue, match="share"):
        take_share(PrivacyProfile.pure(1.0, "both"), share)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (-1.0, 0.0), (NAN, 0.0), (math.inf, 0.0), (1.0, 1.0), (1.0, NAN)])
def test_a_budget_outside_its_range_is_refused(epsilon, delta):
    with pytest.raises(BadValue):
        Budget(epsilon, delta)


@pytest.mark.parametrize("relation", ["", "deletion", "Both", "add_remove"])
def test_an_unknown_relation_is_refused(relation):
    with pytest.raises(BadValue, match="relation"):
        PrivacyProfile.pure(1.0, relation)


def test_an_unknown_way_to_compose_is_refused():
    with pytest.raises(BadValue):
        PrivacyProfile.pure(1.0, "both").compose(PrivacyProfile.pure(1.0, "both"), by="rdp")


PURE = {"kind": "approximate", "epsilon": 1.0, "delta": 0.0}


@pytest.mark.parametrize(
    "curve",
    [
        {"kind": "unheard of"},
        {"kind": "approximate", "epsilon": -1.0, "delta": 0.0},
        {"kind": "laplace", "ratio": NAN},
        {"kind": "gaussian", "mu": -1.0},
        {"kind": "zcdp", "rho": -1.0},
        {"kind": "amplified", "rate": 0.0, "base": PURE},
        {"kind": "amplified", "rate": -0.1, "base": PURE},
        {"kind": "amplified", "rate": NAN, "base": PURE},
    ],
    ids=lambda curve: "-".join(str(value) for value in curve.values() if not isinstance(value, dict)),
)
def test_what_no_constructor_makes_is_not_read_back_either(curve):
    with pytest.raises(BadValue):
        PrivacyProfile.from_dict({"relation": "both", "curve": curve})
