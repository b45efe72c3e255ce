"""Losses of designs against 50-digit arithmetic, at every scale: exact forms, limits, what a rate does.

A loss that is proved may be larger than the exact one by rounding, never smaller.
"""

import itertools
import json
import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsurvey as ds
from dpsurvey.design.amplify import amplify, invert
from dpsurvey.errors import BadValue

pytestmark = pytest.mark.quick

law = settings(deadline=None, derandomize=True, max_examples=80)
mp = mpmath.mp.clone()
mp.dps = 50
ADD, REPLACE, BOTH = "add-remove", "replace-one", "both"
EPSILONS = (1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0, 50.0)
RATES = (1e-9, 1e-4, 0.1, 0.5, 0.999, 1.0)


def power(low, high):
    """Numbers spread evenly over orders of magnitude."""
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: min(high, 10.0**exponent))


def amp(loss, rate):
    return mp.log1p(rate * mp.expm1(loss))


def replaced(e, p):
    return amp(e, p) - mp.log(1 - p + p * mp.exp(-e))


def drawn(loss, swap, take, k, inside=1):
    """One of equal clusters of which `take` of k are drawn; exchanging it for another costs `swap`."""
    return mp.log1p(inside * mp.expm1(loss) / (1 + mp.exp(loss - swap) * (k - take) / take))


def by_rate(e, r, n, take, k):
    """Units of equal clusters of n, each with probability r inside the drawn ones."""
    more, less = 1 + r * mp.expm1(e), 1 + r * mp.expm1(-e)
    return mp.log1p(r * mp.expm1(e) / (1 + more**-n * less**n * mp.mpf(k - take) / take))


def proportional_to_size(e, sizes):
    """The unit in the first cluster; the larger of the two orders."""
    n, total = sizes[0], mp.mpf(sum(sizes))
    few, most = (mp.fsum(m * mp.exp(sign * (n + m) * e) for m in sizes[1:]) for sign in (-1, 1))
    plus = mp.log(total / (total + 1) * ((n + 1) * mp.exp(e) + few) / (n + few))
    return max(plus, *(mp.log((total + 1) / total * (n + s) / ((n + 1) * mp.exp(-e) + s)) for s in (few, most)))


# name: (design of a rate, base, neighbours, exact loss of epsilon and rate)
FORMS = {
    "srs": (lambda r: ds.srs(n=max(1, round(r * 10**9)), size=10**9), REPLACE, REPLACE, amp),
    "srs from add-remove": (
        lambda r: ds.srs(n=max(1, round(r * 10**9)), size=10**9),
        ADD,
        REPLACE,
        lambda e, r: amp(2 * e, r),
    ),
    "poisson": (lambda r: ds.poisson(r), ADD, ADD, amp),
    "poisson replaced": (lambda r: ds.poisson(r), ADD, REPLACE, replaced),
    "poisson replaced, both": (lambda r: ds.poisson(r), BOTH, REPLACE, amp),
    "random rounding": (
        lambda r: ds.proportional(r, rounding="random"),
        ADD,
        ADD,
        lambda e, r: mp.log1p(r * mp.expm1(e) + r * (1 - r) * mp.expm1(2 * e)),
    ),
    "random rounding, both": (lambda r: ds.proportional(r, rounding="random"), BOTH, ADD, lambda e, r: amp(e, r * (2 - r))),
    "random rounding replaced": (lambda r: ds.proportional(r, rounding="random"), ADD, REPLACE, lambda e, r: amp(2 * e, r)),
    "bernoulli": (lambda r: ds.proportional(r, rounding="none"), ADD, ADD, amp),
    "responding": (
        lambda r: ds.responding(ds.srs(n=1, size=4), at_most=r),
        ADD,
        REPLACE,
        lambda e, r: amp(replaced(e, r), mp.mpf(1) / 4),
    ),
    "covered": (lambda r: ds.covered(ds.poisson(0.25), at_most=r), ADD, ADD, lambda e, r: amp(e, r / 4)),
    "group": (lambda r: ds.group(ds.poisson(r), 5), ADD, ADD, lambda e, r: 5 * amp(e, r)),
    "group together": (lambda r: ds.group(ds.poisson(r), 5, drawn="together"), ADD, ADD, lambda e, r: amp(5 * e, r)),
    "two-stage by rate": (
        lambda r: ds.stages(ds.cluster("cluster", ds.srs(n=3), sizes=(7,) * 10), ds.poisson(r)),
        ADD,
        ADD,
        lambda e, r: by_rate(e, r, 7, 3, 10),
    ),
    "with replacement": (
        lambda r: ds.with_replacement(round(1 / r), size=1000),
        REPLACE,
        REPLACE,
        lambda e, r: round(1 / r) * amp(e, mp.mpf("0.001")),
    ),
    "equal clusters": (
        lambda r: ds.cluster("cluster", ds.srs(n=4), sizes=(9,) * 20),
        ADD,
        ADD,
        lambda e, r: drawn(e, 19 * e, 4, 20),
    ),
    "equal clusters replaced": (
        lambda r: ds.cluster("cluster", ds.srs(n=4), sizes=(9,) * 20),
        ADD,
        REPLACE,
        lambda e, r: drawn(2 * e, 18 * e, 4, 20),
    ),
    "equal clusters, both": (
        lambda r: ds.cluster("cluster", ds.srs(n=4), sizes=(9,) * 20),
        BOTH,
        ADD,
        lambda e, r: drawn(e, 10 * e, 4, 20),
    ),
    "cap": (lambda r: ds.cluster("cluster", ds.srs(n=4), clusters=20, cap=10), ADD, ADD, lambda e, r: drawn(e, 20 * e, 4, 20)),
    "cap replaced": (
        lambda r: ds.cluster("cluster", ds.srs(n=4), clusters=20, cap=10),
        ADD,
        REPLACE,
        lambda e, r: drawn(2 * e, 20 * e, 4, 20),
    ),
    "two-stage by take": (
        lambda r: ds.stages(ds.cluster("cluster", ds.srs(n=3), sizes=(8,) * 10), ds.srs(n=2)),
        ADD,
        REPLACE,
        lambda e, r: drawn(2 * e, 4 * e, 3, 10, mp.mpf(1) / 4),
    ),
    "pps cluster": (
        lambda r: ds.cluster("cluster", ds.pps("size", n=1), sizes=(18, 28, 26), unit_in=1),
        ADD,
        ADD,
        lambda e, r: proportional_to_size(e, (18, 28, 26)),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_an_exact_loss_is_right_to_thirteen_digits_and_never_below_from_1e_minus_12_to_50(name):
    build, base, neighbours, exact = FORMS[name]
    for epsilon, rate in itertools.product(EPSILONS, RATES):
        design = build(rate)
        answer = amplify(design, epsilon, base=base, neighbours=neighbours)
        r = mp.mpf(design.n) / design.size if design.kind == "srs" else mp.mpf(rate)  # type: ignore[attr-defined]
        truth = exact(mp.mpf(epsilon), r)
        assert answer.exact, (epsilon, rate)
        # 1e-40: the 50-digit logarithms themselves. What is said to be attained is rounded down once more in each stage.
        assert truth * (1 - mp.mpf("1e-40")) <= answer.epsilon <= truth * (1 + mp.mpf("1e-13")), (epsilon, rate)
        assert truth * (1 - mp.mpf("1e-10")) <= answer.lower <= truth * (1 + mp.mpf("1e-40")), (epsilon, rate)


# Small epsilon: the slope of the loss.
SLOPES = {
    "poisson": (ds.poisson(0.3), ADD, ADD, 0.3),
    "poisson replaced": (ds.poisson(0.3), ADD, REPLACE, 0.6),
    "srs": (ds.srs(n=3, size=10), REPLACE, REPLACE, 0.3),
    "with replacement": (ds.with_replacement(7, size=10), REPLACE, REPLACE, 0.7),
    "random rounding": (ds.proportional(0.3, rounding="random"), ADD, ADD, 0.3 * (3 - 0.6)),
    "random rounding, both": (ds.proportional(0.3, rounding="random"), BOTH, ADD, 0.3 * (2 - 0.3)),
    "nearest rounding": (ds.proportional(0.1, rounding="nearest"), ADD, ADD, 1.0),
    "cluster": (ds.cluster("cluster", ds.srs(n=1), sizes=(1, 5, 9)), ADD, ADD, 1 / 3),
    "cluster replaced": (ds.cluster("cluster", ds.srs(n=2), sizes=(1, 5, 9)), ADD, REPLACE, 4 / 3),
    "cap": (ds.cluster("cluster", ds.srs(n=3), clusters=20, cap=5), ADD, ADD, 0.15),
    "two-stage by rate": (ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(4, 6)), ds.poisson(0.2)), ADD, ADD, 0.1),
    "two-stage by take": (ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(4, 6)), ds.srs(n=2)), ADD, REPLACE, 0.5),
    "random size": (ds.random_size(4, table={1: 0.5, 2: 0.5}), ADD, REPLACE, 2 * 1.5 / 4),
    "pps": (ds.pps("size", probabilities=(0.3, 0.7), measure="public", method="sampford"), REPLACE, REPLACE, 0.7),
    "systematic in random order": (ds.systematic(step=5, size=20, order="random"), REPLACE, REPLACE, 0.2),
    "systematic in place": (ds.systematic(step=5, size=20, order="as listed"), ADD, REPLACE, 0.4),
    "responding": (ds.responding(ds.srs(n=3, size=10), at_most=0.5), ADD, REPLACE, 0.3),
    "covered": (ds.covered(ds.poisson(0.3), at_most=0.5), ADD, ADD, 0.15),
    "group": (ds.group(ds.poisson(0.3), 4), ADD, ADD, 1.2),
    "pps cluster replaced": (ds.cluster("cluster", ds.pps("size", n=1), sizes=(2, 6), unit_in=1), ADD, REPLACE, 2 * 0.25),
}


@pytest.mark.parametrize("name", SLOPES)
def test_for_a_small_epsilon_the_loss_is_the_inclusion_probability_times_the_steps(name):
    design, base, neighbours, slope = SLOPES[name]
    for epsilon in (1e-5, 1e-7, 1e-9):
        answer = amplify(design, epsilon, base=base, neighbours=neighbours)
        assert answer.epsilon / epsilon == pytest.approx(slope, rel=50 * epsilon + 1e-10)


# What a rate does

WHOLE = [
    (ds.srs(n=9, size=9), REPLACE, REPLACE),
    (ds.poisson(1.0), ADD, ADD),
    (ds.poisson_by("rate", probabilities=(0.1, 1.0), moves=False), REPLACE, REPLACE),
    (ds.proportional(1.0, rounding="random"), ADD, ADD),
    (ds.proportional(1.0, rounding="nearest"), ADD, ADD),
    (ds.proportional(1.0, rounding="none"), ADD, ADD),
    (ds.proportional(1.0, rounding="random", size=7), REPLACE, REPLACE),
    (ds.random_size(9, table={9: 1.0}), REPLACE, REPLACE),
    (ds.cluster("cluster", ds.srs(n=3), sizes=(1, 4, 2)), ADD, ADD),
    (ds.cluster("cluster", ds.srs(n=3), sizes=(1, 4, 2)), REPLACE, REPLACE),
    (ds.cluster("cluster", ds.srs(n=8), clusters=8, cap=5), ADD, ADD),
    (ds.stages(ds.cluster("cluster", ds.srs(n=2), sizes=(3, 2)), ds.poisson(1.0)), ADD, ADD),
    (ds.stages(ds.cluster("cluster", ds.srs(n=2), sizes=(3, 3)), ds.srs(n=3)), REPLACE, REPLACE),
    (ds.systematic(step=1, size=9, order="as listed"), ADD, ADD),
    (ds.systematic(step=1, size=9, order="random"), REPLACE, REPLACE),
    (ds.pps("size", probabilities=(1.0, 1.0), measure="public", method="sampford"), REPLACE, REPLACE),
    (ds.pps("size", probabilities=(1.0, 1.0), measure="public", method="systematic", order="as listed"), REPLACE, REPLACE),
    (ds.cluster("cluster", ds.pps("size", n=1), sizes=(6,), unit_in=1), ADD, ADD),
    (ds.responding(ds.poisson(1.0), at_most=1.0), ADD, ADD),
    (ds.covered(ds.poisson(1.0), at_most=1.0), ADD, ADD),
    (ds.group(ds.poisson(1.0), 1), ADD, ADD),
]


@pytest.mark.parametrize(("design", "base", "neighbours"), WHOLE, ids=repr)
@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1.0, 50.0])
def test_a_sample_of_everybody_changes_nothing(design, base, neighbours, epsilon):
    answer = amplify(design, epsilon, base=base, neighbours=neighbours)
    assert answer.epsilon == pytest.approx(epsilon, rel=1e-11)
    assert answer.epsilon >= epsilon


RISING = {
    "srs": lambda q: ds.srs(n=max(1, math.ceil(q * 1000)), size=1001),
    "with replacement": lambda q: ds.with_replacement(max(1, math.ceil(q * 1000)), size=50),
    "poisson": lambda q: ds.poisson(q),
    "bernoulli": lambda q: ds.proportional(q, rounding="none"),
    "clusters": lambda q: ds.cluster("cluster", ds.srs(n=max(1, math.ceil(5 * q))), sizes=(3, 1, 4, 1, 5), unit_in=1),
    "cap": lambda q: ds.cluster("cluster", ds.srs(n=max(1, math.ceil(40 * q))), clusters=40, cap=6),
    "two-stage by rate": lambda q: ds.stages(ds.cluster("cluster", ds.srs(n=2), sizes=(3, 1, 4)), ds.poisson(q)),
    "two-stage by clusters": lambda q: ds.stages(
        ds.cluster("cluster", ds.srs(n=max(1, math.ceil(3 * q))), sizes=(3, 1, 4)), ds.poisson(0.3)
    ),
    "two-stage by take": lambda q: ds.stages(
        ds.cluster("cluster", ds.srs(n=2), sizes=(9,) * 4), ds.srs(n=max(1, math.ceil(9 * q)))
    ),
    "responding": lambda q: ds.responding(ds.srs(n=3, size=10), at_most=q),
    "covered": lambda q: ds.covered(ds.cluster("cluster", ds.srs(n=1), sizes=(3, 1, 4), unit_in=1), at_most=q),
    "group": lambda q: ds.group(ds.poisson(q), 3),
    "binomial size": lambda q: ds.random_size(12, binomial=q),
}


@pytest.mark.parametrize("name", RISING)
def test_a_larger_rate_never_loses_less(name):
    @law
    @given(power(1e-9, 1.0), power(1e-9, 1.0), power(1e-6, 50.0), st.sampled_from([ADD, BOTH]), st.sampled_from([ADD, REPLACE]))
    def holds(one, other, epsilon, base, neighbours):
        few, many = (amplify(RISING[name](q), epsilon, base=base, neighbours=neighbours) for q in sorted((one, other)))
        if few.refused is None and many.refused is None:
            assert few.epsilon <= many.epsilon * (1 + 1e-12)

    holds()


def test_randomised_rounding_of_a_larger_rate_may_lose_less():
    most, all_of_them = (amplify(ds.proportional(r, rounding="random"), 1.0, base=ADD, neighbours=ADD) for r in (0.634, 1.0))
    assert most.epsilon == pytest.approx(1.273, abs=5e-4)
    assert all_of_them.epsilon == pytest.approx(1.0, rel=1e-12)
    assert most.lower > 1.27


# Corners: rates of 1 with a large epsilon, samples that are always empty, losses that are infinite inside.
CORNERS = [
    (ds.poisson(1.0), 40.0, BOTH, REPLACE),
    (ds.poisson_by("rate", probabilities=(1.0, 0.1), moves=True), 45.0, ADD, REPLACE),
    (ds.random_size(5, table={5: 1.0}), 40.0, ADD, REPLACE),
    (ds.random_size(1, binomial=0.1), 31.6, ADD, REPLACE),
    (ds.random_size(28, gaussian=(25.83, 0.54)), 41.6, BOTH, REPLACE),
    (ds.proportional(0.1, rounding="nearest", size=1), 1.0, ADD, ADD),
    (ds.size_rule(((1, 0, 1.0), (2, 0, 1.0))), 1.0, ADD, ADD),
    (ds.covered(ds.srs(n=1, size=2), at_most=1.0), 1.0, REPLACE, ADD),
    (ds.covered(ds.cluster("cluster", ds.srs(n=2), clusters=7, cap=5), at_most=1e-6), 30.0, BOTH, ADD),
    (ds.covered(ds.poisson_by("rate", probabilities=(1e-9, 0.37), moves=True), at_most=1.0), 22.0, ADD, REPLACE),
    (ds.group(ds.poisson(0.3), 2, drawn="together"), 1.0, REPLACE, REPLACE),
]


@pytest.mark.parametrize(("design", "epsilon", "base", "neighbours"), CORNERS, ids=repr)
def test_a_corner_has_a_finite_answer_that_is_inverted_and_written(design, epsilon, base, neighbours):
    answer = amplify(design, epsilon, base=base, neighbours=neighbours)
    assert 0.0 <= answer.lower <= answer.epsilon < math.inf
    if answer.epsilon == 0.0:
        with pytest.raises(BadValue, match="nobody"):
            invert(design, epsilon, base=base, neighbours=neighbours)
    else:
        assert invert(design, epsilon, base=base, neighbours=neighbours).epsilon <= epsilon
    assert json.loads(json.dumps(answer.to_dict(), allow_nan=False))["epsilon"] == answer.epsilon
