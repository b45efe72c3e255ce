"""The whole curve of a sampled mechanism, how far a belief moves, and the step that every amplification rests on."""

import json
import math

import mpmath
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import dpsurvey as ds
from dpsurvey import PrivacyProfile, Setting, poisson
from dpsurvey.design.amplify import amplify, invert
from dpsurvey.errors import BadValue
from dpsurvey.loss.curves import SampledCurve
from dpsurvey.privacy.curve import Approximate, Gaussian, Laplace, ZeroConcentrated
from dpsurvey.privacy.posterior import posterior_bounds
from dpsurvey_papers.controlling_loss.joint import advanced_joint_convexity

pytestmark = pytest.mark.quick

law = settings(deadline=None, derandomize=True, max_examples=8)
# A search inside a search: few examples, and no time spent on making a failing one smaller.
seldom = settings(deadline=None, derandomize=True, max_examples=3, phases=[Phase.explicit, Phase.generate])
often = settings(deadline=None, derandomize=True, max_examples=200)
mp = mpmath.mp.clone()
mp.dps = 50
ADD, REPLACE, BOTH = "add-remove", "replace-one", "both"


def power(low, high):
    """Numbers spread evenly over orders of magnitude."""
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: min(high, 10.0**exponent))


DESIGNS = {
    "srs": (ds.srs(n=2, size=10), REPLACE, REPLACE),
    "srs from add-remove": (ds.srs(n=2, size=10), ADD, REPLACE),
    "with replacement": (ds.with_replacement(3, size=10), REPLACE, REPLACE),
    "poisson": (ds.poisson(0.2), ADD, ADD),
    "poisson replaced": (ds.poisson(0.2), ADD, REPLACE),
    "poisson replace-only": (ds.poisson(0.2), REPLACE, REPLACE),
    "random rounding": (ds.proportional(0.2, rounding="random"), ADD, ADD),
    "nearest rounding": (ds.proportional(0.2, rounding="nearest"), BOTH, ADD),
    "random size": (ds.random_size(5, table={1: 0.5, 2: 0.5}), ADD, REPLACE),
    "clusters": (ds.cluster("cluster", ds.srs(n=1), sizes=(1, 2, 3)), ADD, ADD),
    "capped": (ds.cluster("cluster", ds.srs(n=2), clusters=10, cap=2), BOTH, REPLACE),
    "two-stage by rate": (ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(2, 3)), ds.poisson(0.4)), ADD, ADD),
    "two-stage by take": (ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(2, 3)), ds.srs(n=1)), ADD, REPLACE),
    "systematic": (ds.systematic(step=5, size=5 * 3, order="as listed"), ADD, REPLACE),
    "pps": (ds.pps("size", probabilities=(0.2, 0.8), measure="public", method="sampford"), REPLACE, REPLACE),
    "responding": (ds.responding(ds.srs(n=2, size=10), at_most=0.5), ADD, REPLACE),
    "covered": (ds.covered(ds.cluster("cluster", ds.srs(n=1), sizes=(1, 2, 3)), at_most=0.5), ADD, ADD),
    "group": (ds.group(ds.poisson(0.2), 3), ADD, ADD),
}
bases = st.one_of(
    st.builds(Approximate, power(1e-3, 5.0)),
    st.builds(Approximate, power(1e-3, 5.0), power(1e-9, 1e-2)),
    st.builds(Laplace, power(1e-2, 5.0)),
    st.builds(Gaussian, power(0.05, 3.0)),
    st.builds(ZeroConcentrated, power(1e-3, 3.0)),
)
every_design = pytest.mark.parametrize("name", DESIGNS)


def sampled(name, base):
    design, relation, neighbours = DESIGNS[name]
    return PrivacyProfile(SampledCurve(base, relation, neighbours, design), neighbours)


@every_design
def test_delta_never_increases_with_epsilon(name):
    @law
    @given(bases, power(1e-3, 8.0), power(1e-3, 8.0))
    @example(Gaussian(1.0), 0.5, 0.1)
    def holds(base, smaller, more):
        profile = sampled(name, base)
        near, far = profile.delta(smaller), profile.delta(smaller + more)
        # A matching of samples that is searched for is found to about a millionth.
        assert 0.0 <= far <= near * (1 + 1e-6) <= 1 + 1e-6

    holds()


@every_design
def test_epsilon_of_delta_and_delta_of_epsilon_agree(name):
    @seldom
    @given(bases, power(1e-9, 0.3), power(1e-2, 8.0))
    @example(Approximate(1.0), 0.1, 1.0)
    @example(Approximate(4.2, 0.01), 0.1, 1.0)
    @example(Gaussian(1.0), 1e-6, 1.0)
    def holds(base, delta, epsilon):
        profile = sampled(name, base)
        found = profile.epsilon(delta)
        if math.isfinite(found):
            assert profile.delta(found) <= delta * (1 + 1e-9)
            if found > 1e-6:
                # No smaller epsilon would do, up to the search.
                assert profile.delta(found * (1 - 1e-3)) >= delta * (1 - 1e-6)
        there = profile.delta(epsilon)
        if 1e-200 < there < 1.0:
            assert profile.epsilon(there) <= epsilon * (1 + 1e-6) + 1e-9

    holds()


@every_design
def test_a_pure_mechanism_stays_pure_and_loses_what_amplify_says(name):
    design, relation, neighbours = DESIGNS[name]
    for epsilon in (1e-6, 0.1, 1.0, 5.0):
        answer = amplify(design, epsilon, base=relation, neighbours=neighbours)
        assert answer.profile.epsilon(0.0) == answer.epsilon == sampled(name, Approximate(epsilon)).epsilon(0.0)
        assert answer.profile.delta(answer.epsilon) == 0.0


@every_design
def test_a_delta_on_the_sample_is_lifted_by_the_odds_and_no_guarantee_is_beaten_by_its_own_curve(name):
    design, relation, neighbours = DESIGNS[name]
    for epsilon, delta in ((0.5, 1e-6), (2.0, 1e-3)):
        answer = amplify(design, epsilon, delta=delta, base=relation, neighbours=neighbours)
        lifted = delta * math.expm1(answer.epsilon) / math.expm1(epsilon)
        assert answer.delta <= lifted * (1 + 1e-12)
        assert answer.profile.delta(answer.epsilon) == pytest.approx(answer.delta, rel=1e-12)
        assert answer.lower is None
        back = invert(design, answer.epsilon, delta=answer.delta, base=relation, neighbours=neighbours)
        assert back.epsilon <= answer.epsilon
        assert back.delta <= answer.delta * (1 + 1e-9)


@pytest.mark.parametrize(("name", "rate"), [("srs", 0.2), ("poisson", 0.2), ("pps", 0.8)])
def test_the_curve_is_the_exact_one_where_one_rate_decides(name, rate):

    @law
    @given(bases, power(1e-3, 5.0))
    def holds(base, epsilon):
        exact = PrivacyProfile(base, ADD).amplify(rate).delta(epsilon)
        assert sampled(name, base).delta(epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-300)

    holds()


@every_design
def test_a_sampled_profile_survives_json_and_can_be_neither_composed_nor_sampled_again(name):
    for base in (Approximate(0.7), Approximate(0.7, 1e-6), Gaussian(0.5), ZeroConcentrated(0.1)):
        profile = sampled(name, base)
        read = PrivacyProfile.from_dict(json.loads(json.dumps(profile.to_dict())))
        assert read == profile
        assert read.delta(0.4) == profile.delta(0.4)
        assert profile.is_amplified
        other = PrivacyProfile(base, profile.relation)
        for attempt in (lambda p=profile, o=other: p.compose(o), lambda p=profile, o=other: o.compose(p)):
            with pytest.raises(BadValue, match="cannot be composed"):
                attempt()
        with pytest.raises(BadValue, match="amplifie"):
            poisson(0.5).amplify(profile, Setting("frame", neighbours=profile.relation))


# How far a belief moves


@often
@given(power(1e-9, 0.999999), power(1e-12, 700.0))
@example(0.5, 1e-300)
def test_a_belief_moves_within_its_sharp_bounds_and_those_of_its_negation_match(prior, epsilon):
    low, high = posterior_bounds(prior, epsilon)
    assert 0.0 <= low <= 1.0 <= high
    assert prior * high <= 1.0 + 1e-15
    pi, e = mp.mpf(prior), mp.mpf(epsilon)
    assert low == pytest.approx(float(1 / (pi + (1 - pi) * mp.exp(e))), rel=1e-13)
    assert high == pytest.approx(float(1 / (pi + (1 - pi) * mp.exp(-e))), rel=1e-13)
    if 1e-3 < prior < 0.999:
        against = posterior_bounds(1 - prior, epsilon)
        assert prior * high + (1 - prior) * against[0] == pytest.approx(1.0, rel=1e-12)


@often
@given(power(1e-6, 0.99), power(1e-9, 50.0), power(1e-9, 50.0))
def test_a_larger_loss_never_moves_a_belief_less(prior, one, more):
    near, far = posterior_bounds(prior, one), posterior_bounds(prior, one + more)
    assert far[0] <= near[0] * (1 + 1e-14)
    assert far[1] >= near[1] * (1 - 1e-14)


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, 1.1, math.nan, math.inf])
def test_a_prior_that_is_no_open_probability_is_refused(prior):
    with pytest.raises(BadValue, match="prior"):
        posterior_bounds(prior, 1.0)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_a_loss_that_is_none_moves_no_belief(epsilon):
    with pytest.raises(BadValue, match="epsilon"):
        posterior_bounds(0.5, epsilon)


# Advanced joint convexity


def apart(one, other):
    """The least epsilon under which two laws with full support are indistinguishable."""
    return max(abs(math.log(a / b)) for a, b in zip(one, other, strict=True))


laws = st.lists(power(1e-6, 1.0), min_size=4, max_size=4).map(lambda w: [each / math.fsum(w) for each in w])


@often
@given(laws, laws, laws, laws, st.floats(0.0, 1.0))
def test_no_mixture_of_laws_that_meet_the_hypotheses_loses_more_than_the_lemma_says(x0, y0, x1, y1, q):
    epsilon = apart(x0, y0)
    extra = max(0.0, *(apart(a, b) - epsilon for a, b in ((x1, y1), (x1, y0), (x0, y1))))
    mixed = [[(1 - q) * a + q * b for a, b in zip(*pair, strict=True)] for pair in ((x0, x1), (y0, y1))]
    assert apart(*mixed) <= advanced_joint_convexity(q, epsilon, extra) * (1 + 1e-12) + 1e-12


@often
@given(st.one_of(power(1e-12, 1.0), st.just(0.0)), power(1e-12, 50.0))
def test_the_lemma_is_attained_by_laws_that_differ_in_the_sampled_part_alone(q, extra):
    """Y0 = Y1 = X0, and X1 puts e^extra times as much on one outcome of small probability."""
    truth = mp.log1p(mp.mpf(q) * mp.expm1(mp.mpf(extra)))
    assert truth <= advanced_joint_convexity(q, 0.0, extra) <= truth * (1 + mp.mpf("1e-13"))
    assert advanced_joint_convexity(q, 0.25, extra) >= mp.mpf("0.25") + truth


@pytest.mark.parametrize(
    ("q", "epsilon", "extra"),
    [(-0.1, 1.0, 1.0), (1.1, 1.0, 1.0), (math.nan, 1.0, 1.0), (0.5, -1.0, 1.0), (0.5, 1.0, -1.0), (0.5, math.nan, 1.0)],
)
def test_numbers_outside_the_lemma_are_refused(q, epsilon, extra):
    with pytest.raises(BadValue):
        advanced_joint_convexity(q, epsilon, extra)
