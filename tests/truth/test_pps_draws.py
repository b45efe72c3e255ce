"""Draws with unequal probabilities follow the stated law: every sample of a small frame written out, and many drawn.

The laws below are written from the definitions, apart from the package: all samples, all orders, or an integral.

The statistical test compares how often each unit and each pair was drawn with its probability, 21 numbers, and
rejects when one is more than Z standard errors away. False alarms: 21 * 2 * P(normal > 5.7) = 2.6e-7; at 200,000 draws
and probabilities of 0.05 or more the skewness of the binomial raises this by at most a third. Below 1e-6 in all.
"""

import itertools
import math
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import dpsurvey as ds
from dpsurvey.design.pps_methods import METHODS, inclusion_probabilities, pareto_inclusion
from dpsurvey.design.pps_methods.base import of_whole_sum
from dpsurvey.design.pps_methods.conditional_poisson import ConditionalPoisson, inclusion_log_odds, working_probabilities
from dpsurvey.design.pps_methods.given_size import check_effort
from dpsurvey.design.pps_methods.pivotal import Pivotal, _average_over_orders
from dpsurvey.design.pps_methods.systematic import TURN, arcs
from dpsurvey.errors import BadValue
from dpsurvey.loss.bound import Bound, Losses, Refused

DRAWS, Z = 200_000, 5.7
PI = np.array([0.3, 0.45, 0.75, 0.35, 0.6, 0.55])
FRAMES = [
    PI,
    np.array([0.5, 0.5, 0.5, 0.5]),
    np.array([0.25, 0.75, 0.25, 0.3, 0.45]),
    np.array([0.02, 0.97, 0.5, 0.51, 0.999, 0.001]),
    np.array([0.1, 0.2, 0.3, 0.4]),
    np.array([0.9, 0.8, 0.7, 0.6]),
]


def rng(seed):
    return np.random.Generator(np.random.PCG64(seed))


def samples(units, n=None):
    sizes = range(units + 1) if n is None else [n]
    return [chosen for size in sizes for chosen in itertools.combinations(range(units), size)]


def scaled(weights):
    total = math.fsum(weights.values())
    return {chosen: weight / total for chosen, weight in weights.items()}


def poisson_law(pi, n):
    return {s: math.prod(p if i in s else 1 - p for i, p in enumerate(pi)) for s in samples(len(pi))}


def systematic_law(pi, n):
    ends = np.cumsum(pi)
    cuts = sorted({0.0, 1.0, *(float(end % 1.0) for end in ends)})
    law = {}
    for low, high in itertools.pairwise(cuts):
        points = (low + high) / 2 + np.arange(n)
        chosen = tuple(int(i) for i in np.searchsorted(ends, points, side="right"))
        if high - low > 1e-12:
            law[chosen] = law.get(chosen, 0.0) + high - low
    return law


def sampford_law(pi, n):
    """Sampford's definition: one unit with chance pi/n, then n - 1 with chances proportional to pi/(1 - pi), all different."""
    odds = pi / (1 - pi)
    law = {}
    for s in samples(len(pi), n):
        rest = math.prod(odds[list(s)])
        law[s] = sum(pi[first] * rest / odds[first] for first in s)
    return scaled(law)


def conditional_poisson_law(pi, n):
    odds = working_probabilities(pi, n)
    odds = odds / (1 - odds)
    return scaled({s: math.prod(odds[list(s)]) for s in samples(len(pi), n)})


def pivotal_law(pi, n):
    """Every order, and in every order every outcome of every meeting."""
    law = {}
    for order in itertools.permutations(range(len(pi))):
        states = {(order[0], ()): 1.0}
        total = pi[order[0]]
        for new in order[1:]:
            a, b = total - math.floor(total + 1e-9), pi[new]
            following = {}
            for (survivor, drawn), chance in states.items():
                if a + b < 1 - 1e-9:
                    outcomes = [(survivor, drawn, a / (a + b)), (new, drawn, b / (a + b))]
                else:
                    wins = (1 - b) / (2 - a - b)
                    outcomes = [(new, (*drawn, survivor), wins), (survivor, (*drawn, new), 1 - wins)]
                for kept, list_, share in outcomes:
                    following[kept, list_] = following.get((kept, list_), 0.0) + chance * share
            states, total = following, total + b
        for (_, drawn), chance in states.items():
            key = tuple(sorted(drawn))
            law[key] = law.get(key, 0.0) + chance / math.factorial(len(pi))
    return law


def pareto_law(pi, n):
    """The sample is below, and all others above, the rank of the first unit left out."""
    odds = pi / (1 - pi)

    def density(u, s):
        t = u / (1 - u)
        below = odds * t / (1 + odds * t)
        slope = odds / (1 + odds * t) ** 2 / (1 - u) ** 2
        out = [i for i in range(len(pi)) if i not in s]
        return math.prod(below[list(s)]) * sum(slope[k] * math.prod(1 - below[i] for i in out if i != k) for k in out)

    return {s: quad(density, 0, 1, args=(s,), epsabs=1e-13, epsrel=1e-12, limit=400)[0] for s in samples(len(pi), n)}


LAWS = {
    "poisson": poisson_law,
    "systematic": systematic_law,
    "sampford": sampford_law,
    "conditional-poisson": conditional_poisson_law,
    "pivotal": pivotal_law,
    "pareto": pareto_law,
}


def joint_of(law, units):
    matrix = np.zeros((units, units))
    for chosen, chance in law.items():
        matrix[np.ix_(chosen, chosen)] += chance
    return matrix


def worst_z(drawn, joint):
    """The largest distance between observed and stated frequencies of units and pairs, in standard errors."""
    seen = drawn.astype(float)
    seen = seen.T @ seen / len(drawn)
    impossible = joint <= 1e-12
    if (seen[impossible] > 0).any():
        return math.inf
    return float((np.abs(seen - joint)[~impossible] / np.sqrt((joint * (1 - joint) / len(drawn))[~impossible])).max())


@cache
def many(name):
    return METHODS[name].draws(PI, DRAWS, rng(20_260_101))


def rows(chosen):
    result = np.zeros((len(chosen), len(PI)), dtype=bool)
    result[np.arange(len(chosen))[:, None], chosen] = True
    return result


def test_there_is_a_law_for_every_method():
    assert list(METHODS) == list(LAWS)
    assert all(name == method.name for name, method in METHODS.items())


@pytest.mark.parametrize("pi", FRAMES, ids=lambda pi: f"N={len(pi)}")
@pytest.mark.parametrize("name", LAWS)
def test_joint_probabilities_are_the_sum_over_all_samples(name, pi):
    n = round(pi.sum())
    law, joint = LAWS[name](pi, n), METHODS[name].joint(pi)
    assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-10)
    assert joint.exact
    # Quadrature on one side for Pareto; elsewhere rounding, next to probabilities as small as 1e-6.
    assert np.abs(joint.matrix - joint_of(law, len(pi))).max() < 1e-11
    assert np.abs(joint.matrix - joint.matrix.T).max() < 1e-15
    if name != "pareto":
        assert np.diag(joint.matrix) == pytest.approx(pi, rel=1e-12)
    if METHODS[name].fixed_size:
        assert joint.matrix.sum(axis=1) == pytest.approx(n * np.diag(joint.matrix), abs=1e-11)


@pytest.mark.parametrize("pi", FRAMES, ids=lambda pi: f"N={len(pi)}")
def test_the_fast_form_of_sampford_is_sampfords_definition(pi):
    n = round(pi.sum())
    product = {s: math.prod((pi / (1 - pi))[list(s)]) * sum((1 - pi)[list(s)]) for s in samples(len(pi), n)}
    # What the package draws: a leader k with chance ~ pi_k (1 - pi_k), the others alone, given n units in all.
    led = {
        s: sum(pi[k] * (1 - pi[k]) * math.prod(pi[i] if i in s else 1 - pi[i] for i in range(len(pi)) if i != k) for k in s)
        for s in samples(len(pi), n)
    }
    truth = sampford_law(pi, n)
    assert scaled(product) == pytest.approx(truth, rel=1e-11)
    assert scaled(led) == pytest.approx(truth, rel=1e-11)


def test_power_an_error_of_three_percent_in_any_unit_is_found():
    shift = 0.03 * PI / np.sqrt(PI * (1 - PI) / DRAWS)
    assert norm.sf(Z - shift).min() > 0.998
    false_alarm = 21 * 2 * norm.sf(Z)
    assert false_alarm < 3e-7


@pytest.mark.slow_cases("sampford", "conditional-poisson")
@pytest.mark.parametrize("name", LAWS)
def test_units_and_pairs_are_drawn_as_often_as_stated_and_three_percent_off_is_rejected(name):
    method = METHODS[name]
    drawn = many(name)
    truth = joint_of(LAWS[name](PI, 3), len(PI))
    assert worst_z(drawn, truth) < Z
    if method.fixed_size:
        assert set(drawn.sum(axis=1)) == {3}
    # The rarest unit drawn 3 % more often at the cost of the most frequent one: a tilt of 1.2 % there.
    wrong = PI + np.array([0.009, 0, -0.009, 0, 0, 0])
    assert worst_z(method.draws(wrong, DRAWS, rng(20_260_102)), truth) > Z


@pytest.mark.slow_cases("sampford")
@pytest.mark.parametrize("name", ["sampford", "conditional-poisson", "pivotal"])
def test_pairs_that_are_off_are_rejected_though_every_unit_is_right(name):
    truth = joint_of(LAWS[name](PI, 3), len(PI))
    mixed = 0.95 * truth + 0.05 * METHODS["systematic"].joint(PI).matrix
    off = np.abs(mixed / truth - 1)
    assert np.diag(off).max() < 1e-12
    assert 0.03 < off.max() < 0.2
    source = rng(20_260_103)
    assert worst_z(np.where(source.random((DRAWS, 1)) < 0.05, many("systematic"), many(name)), truth) > Z


def test_pareto_is_rejected_against_the_stated_probabilities_and_accepted_against_its_own():
    drawn = many("pareto")
    assert worst_z(drawn, METHODS["pareto"].joint(PI).matrix) < Z
    stated = METHODS["conditional-poisson"].joint(PI).matrix
    assert worst_z(drawn, stated) > Z


# Traps that bit other packages. Each is drawn as it is found in the wild and must be rejected.


def in_order(weights_after, source, n=3):
    """Draw one unit after another, with chances proportional to `weights_after(drawn so far)`, for all rows at once."""
    drawn = np.zeros((DRAWS, len(PI)), dtype=bool)
    for _ in range(n):
        cumulated = np.cumsum(np.where(drawn, 0.0, weights_after(drawn)), axis=1)
        pick = (source.random((DRAWS, 1)) * cumulated[:, -1:] >= cumulated).sum(axis=1)
        drawn[np.arange(DRAWS), pick] = True
    return drawn


def brewer(drawn):
    left = 3 - (drawn * PI).sum(axis=1, keepdims=True)
    more = 3 - drawn.sum(axis=1, keepdims=True)
    return PI * (left - PI) / (left - more * PI)


def test_trap_brewer_without_renormalising():
    right, wrong = in_order(brewer, rng(1)), in_order(lambda drawn: brewer(np.zeros_like(drawn)), rng(2))
    # Brewer's joint probabilities are his own: only the units are compared.
    z = [(np.abs(drawn.mean(axis=0) - PI) / np.sqrt(PI * (1 - PI) / DRAWS)).max() for drawn in (right, wrong)]
    assert z[0] < Z < z[1]


def test_trap_sampford_with_wrong_normalisation():
    def attempt(first, others, source):
        picks = np.column_stack([source.choice(6, DRAWS * 6, p=w / w.sum()) for w in (first, others, others)])
        ordered = np.sort(picks, axis=1)
        different = ordered[(np.diff(ordered, axis=1) > 0).all(axis=1)]
        return rows(different[:DRAWS])

    odds, truth = PI / (1 - PI), METHODS["sampford"].joint(PI).matrix
    right = attempt(PI, odds, rng(3))
    assert len(right) == DRAWS
    assert worst_z(right, truth) < Z
    assert worst_z(attempt(PI, PI, rng(4)), truth) > Z
    assert worst_z(attempt(odds, odds, rng(5)), truth) > Z


def test_trap_choice_without_replacement_is_not_proportional_to_size():
    wrong = in_order(lambda drawn: np.broadcast_to(PI, drawn.shape), rng(6))
    source = rng(7)
    numpys = rows(np.array([source.choice(6, 3, replace=False, p=PI / 3) for _ in range(20_000)]))
    # numpy's own draws follow the law of one unit after another, and that law is far from the stated one.
    assert np.abs(numpys.mean(axis=0) - wrong.mean(axis=0)).max() < 0.02
    error = np.abs(numpys.mean(axis=0) / PI - 1)
    assert error.max() > 0.05
    assert (np.abs(numpys.mean(axis=0) - PI) / np.sqrt(PI * (1 - PI) / len(numpys))).max() > Z


def test_trap_systematic_with_an_integer_step():
    units, n = 10, 4
    step = units // n
    whole = [list(range(start, units, step)) for start in range(step)]
    assert {len(s) for s in whole} == {5}
    cut = {unit for s in whole for unit in s[:n]}
    assert set(range(units)) - cut == {8, 9}
    pi = np.full(units, n / units)
    drawn = METHODS["systematic"].draws(pi, 20_000, rng(8))
    assert set(drawn.sum(axis=1)) == {n}
    # 10 units at Z standard errors: false alarms below 10 * 1.2e-8.
    assert (np.abs(drawn.mean(axis=0) - 0.4) < Z * math.sqrt(0.24 / 20_000)).all()


def test_trap_systematic_in_fixed_order_has_pairs_that_are_never_drawn():
    joint = METHODS["systematic"].joint(PI).matrix
    never = (joint == 0.0).sum() // 2
    assert never >= 3
    for name in set(LAWS) - {"systematic"}:
        assert METHODS[name].joint(PI).matrix.min() > 0.0


def test_trap_the_usual_recursion_for_conditional_poisson_loses_every_digit():
    pi = inclusion_probabilities(1.0 + 4 * rng(22).random(300), 150)
    p = working_probabilities(pi, 150)
    odds, psi = p / (1 - p), np.zeros(300)
    for size in range(1, 151):
        share = odds * (1 - psi)
        psi = size * share / share.sum()
    assert np.abs(psi - pi).max() > 0.1
    assert 1 / (1 + np.exp(-inclusion_log_odds(p, 150))) == pytest.approx(pi, rel=1e-11)


# What must hold for every frame, not only on average.


@pytest.mark.parametrize("name", LAWS)
def test_certain_units_are_always_drawn_and_the_rest_keeps_its_law(name):
    pi = inclusion_probabilities([1, 2, 3, 5, 8, 13, 21, 200, 300], 4)
    drawn = METHODS[name].draws(pi, 2_000, rng(9))
    assert drawn[:, 7:].all()
    assert not drawn[:, :7].all(axis=0).any()
    joint = METHODS[name].joint(pi).matrix
    assert (joint[7, :7] == np.diag(joint)[:7]).all()
    assert joint[7, 8] == 1.0
    assert joint[:7, :7] == pytest.approx(METHODS[name].joint(pi[:7]).matrix, rel=1e-12)
    assert METHODS[name].draw(np.ones(3), rng(1)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", LAWS)
def test_a_draw_is_sorted_without_repetition_and_repeats_with_its_seed(name):
    pi = inclusion_probabilities(np.exp(rng(10).normal(size=500)), 60)
    first, again = (METHODS[name].draw(pi, rng(11)) for _ in range(2))
    assert first.dtype == np.int64
    assert first.tolist() == again.tolist() == sorted(set(first.tolist()))
    if METHODS[name].fixed_size:
        assert len(first) == 60


def test_systematic_never_loses_or_doubles_a_unit_at_any_start():
    near_one = np.nextafter(1.0, 0.0)
    frames = [
        inclusion_probabilities(np.exp(2 * rng(12).normal(size=100_000)), 30_000),
        np.full(30, 0.1),
        of_whole_sum(np.array([near_one, 1e-16, near_one, 0.5, 0.5, 1e-300]), 3),
    ]
    for frame in frames:
        pi = frame[frame < 1.0]
        begin, length = arcs(pi)
        n = round(pi.sum())
        starts = [0, 1, 2**64 - 1, *(int(b) for b in begin[:50]), *(int(b) - 1 for b in begin[1:50])]
        for start in starts:
            assert (np.uint64(start % 2**64) - begin < length).sum() == n
        assert np.abs(length / TURN - pi).max() < 1e-9


def test_equal_probabilities_give_simple_random_sampling():
    pi = np.full(10, 0.4)
    for name in ("sampford", "conditional-poisson", "pivotal", "pareto"):
        joint = METHODS[name].joint(pi).matrix
        assert joint[~np.eye(10, dtype=bool)] == pytest.approx(4 * 3 / 90, rel=1e-11)


@pytest.mark.parametrize(("units", "n"), [(40, 7), (300, 150), (3_000, 1_000)])
def test_working_odds_give_the_stated_probabilities(units, n):
    pi = inclusion_probabilities(np.exp(rng(units).normal(size=units)), n)
    pi = pi[pi < 1.0]
    n = round(pi.sum())
    p = working_probabilities(pi, n)
    assert p.sum() == pytest.approx(n, rel=1e-14)
    psi = 1 / (1 + np.exp(-inclusion_log_odds(p, n)))
    assert psi == pytest.approx(pi, rel=2e-12)
    if units == 40:
        # Apart from the package: probabilities of sizes by adding one unit after another, all terms positive.
        def sizes(chances):
            law = np.array([1.0])
            for chance in chances:
                law = np.append(law * (1 - chance), 0.0) + np.append(0.0, law * chance)
            return law

        all_ = sizes(p)[n]
        assert psi == pytest.approx([p[i] * sizes(np.delete(p, i))[n - 1] / all_ for i in range(len(p))], rel=1e-12)


def test_pareto_misses_the_stated_probabilities_by_little_and_less_as_samples_grow():
    misses = []
    for units, n in ((20, 5), (100, 25), (400, 100)):
        pi = inclusion_probabilities(1.0 + rng(units).random(units) * 4, n)
        own = pareto_inclusion(pi)
        assert own.sum() == pytest.approx(n, rel=1e-12)
        misses.append(float(np.abs(own / pi - 1).max()))
    assert 1e-2 > misses[0] > 10 * misses[1] > 50 * misses[2] > 0.0


def syg(joint, pi, y):
    """The variance of the Horvitz-Thompson total, after Sen, Yates and Grundy."""
    ratio = y / pi
    return float(0.5 * ((np.outer(pi, pi) - joint) * np.subtract.outer(ratio, ratio) ** 2).sum())


def test_approximations_say_so_and_are_near():
    pi = inclusion_probabilities(1.0 + 6 * rng(13).random(12), 4)
    rough, exact = METHODS["pivotal"].joint(pi), _average_over_orders(pi, 4)
    assert not rough.exact
    assert "Brewer and Donadio" in rough.source
    pairs = ~np.eye(12, dtype=bool)
    assert np.abs(rough.matrix / exact - 1)[pairs].max() < 0.05
    for y in (np.ones(12), rng(14).normal(size=12), pi * (1 + 0.3 * rng(15).normal(size=12))):
        assert syg(rough.matrix, pi, y) == pytest.approx(syg(exact, pi, y), rel=0.03)
        assert syg(rough.matrix, pi, y) != pytest.approx(syg(METHODS["systematic"].joint(pi).matrix, pi, y), rel=0.03)
    large = inclusion_probabilities(1.0 + 6 * rng(16).random(1_600), 100)
    assert not METHODS["pareto"].joint(large).exact
    some = inclusion_probabilities(1.0 + 6 * rng(17).random(200), 40)
    stand_in, own = ConditionalPoisson().joint(some).matrix, METHODS["pareto"].joint(some).matrix
    assert np.abs(stand_in / own - 1).max() < 3e-4


@pytest.mark.slow
def test_the_variance_of_pivotal_samples_is_that_of_greatest_entropy_to_two_percent():
    pi = inclusion_probabilities(np.exp(0.5 * rng(18).normal(size=100)), 25)
    joint, drawn = METHODS["pivotal"].joint(pi).matrix, METHODS["pivotal"].draws(pi, 300_000, rng(19))
    for y in (np.ones(100), rng(20).normal(size=100), pi * (1 + 0.3 * rng(21).normal(size=100))):
        # The empirical variance has relative error sqrt(2 / 300,000) = 0.0026 (the totals are near normal); 5.4 of them, with
        # three tests a false-alarm rate of 2e-7, are 0.014. The test tells the table from the one of systematic draws.
        observed = (drawn @ (y / pi)).var()
        assert abs(observed / syg(joint, pi, y) - 1) < 0.02 + 0.014
        assert abs(observed / syg(METHODS["systematic"].joint(pi).matrix, pi, y) - 1) > 0.02 + 0.014


# What is refused, and what a refusal does not say.


@pytest.mark.parametrize(
    ("sizes", "n", "fact"),
    [
        ([31.25, 0.0, 2.0], 1, "zero or negative"),
        ([31.25, -77.125, 2.0], 1, "zero or negative"),
        ([31.25, math.nan, 2.0], 1, "missing or infinite"),
        ([31.25, math.inf, 2.0], 1, "missing or infinite"),
        ([], 1, "no sizes"),
        ([[31.25, 2.0]], 1, "one number per unit"),
        (["31.25", "many"], 1, "not a number"),
        ([31.25, 77.125], 3, "larger than the frame"),
        ([31.25, 77.125], 0, "whole number"),
        ([31.25, 77.125], 1.5, "whole number"),
        ([31.25, 77.125], math.nan, "whole number"),
        ([31.25, 77.125], True, "whole number"),
        ([31.25e300, 77.125e-300], 1, "differ too much"),
        ([31.25e20, 77.125e-20], 1, "differ too much"),
    ],
)
def test_sizes_that_no_design_has_are_refused_without_saying_one(sizes, n, fact):
    with pytest.raises(BadValue, match=fact) as caught:
        inclusion_probabilities(sizes, n)
    assert not any(part in str(caught.value) for part in ("31", "77", "many"))
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("pi", "fact"),
    [
        ([0.5, 0.0, 0.5], "outside"),
        ([0.5, 1.25, 0.25], "outside"),
        ([0.5, math.nan, 0.5], "outside"),
        ([0.5, math.inf], "outside"),
        ([], "one number per unit"),
        ([[0.5, 0.5]], "one number per unit"),
        ([0.5, 0.25], "whole number"),
        ([0.5, 0.5 + 2e-6], "whole number"),
        ([1.0, 1e-7], "no unit to draw"),
    ],
)
def test_probabilities_that_no_method_has_are_refused(pi, fact):
    for name in ("systematic", "sampford", "conditional-poisson", "pivotal", "pareto"):
        for ask in (lambda m: m.draw(np.array(pi), rng(1)), lambda m: m.joint(np.array(pi))):
            with pytest.raises(BadValue, match=fact):
                ask(METHODS[name])


def test_a_sum_that_is_whole_up_to_rounding_is_used_rounded():
    pi = PI + 1e-7 / 6
    for name in ("systematic", "sampford", "conditional-poisson", "pivotal", "pareto"):
        assert METHODS[name].draw(pi, rng(1)).size == 3
        assert METHODS[name].joint(pi).matrix == pytest.approx(METHODS[name].joint(PI).matrix, abs=1e-6)


def test_drawing_every_unit_leaves_nothing_to_chance_however_the_sizes_round():
    for units in range(2, 40):
        sizes = [1.0] + [0.1] * (units - 1)
        assert (inclusion_probabilities(sizes, units) == 1.0).all()
    nearly = np.full(3, 1.0 - 1e-9)
    for name in ("systematic", "sampford", "conditional-poisson", "pivotal", "pareto"):
        assert METHODS[name].draw(nearly, rng(1)).tolist() == [0, 1, 2]
        assert (METHODS[name].joint(nearly).matrix == 1.0).all()


@pytest.mark.parametrize("seed", range(20))
def test_certain_units_are_those_of_the_repeated_rule(seed):
    sizes = np.exp(2.5 * rng(seed).normal(size=30))
    for n in (1, 5, 15, 29):
        certain = np.zeros(30, dtype=bool)
        while True:
            pi = np.where(certain, 1.0, (n - certain.sum()) * sizes / sizes[~certain].sum())
            if (pi[~certain] < 1.0).all():
                break
            certain |= pi >= 1.0
        assert inclusion_probabilities(sizes, n) == pytest.approx(pi, rel=1e-12)
        assert inclusion_probabilities(sizes, n).sum() == pytest.approx(n, rel=1e-13)


def test_frames_that_would_take_minutes_are_refused_with_what_to_do_instead():
    with pytest.raises(BadValue, match="pivotal"):
        check_effort(np.full(3_000_000, 0.5), "sampford")
    # Odds so far apart that rounding hides them; the other methods draw from this frame.
    apart = np.array([2.8e-10, 2.2e-8, 1.0 - 2.2e-8 - 2.8e-10])
    with pytest.raises(BadValue, match="pivotal"):
        METHODS["conditional-poisson"].draw(apart, rng(1))
    assert all(METHODS[name].draw(apart, rng(1)).size == 1 for name in ("systematic", "sampford", "pivotal", "pareto"))
    with pytest.raises(BadValue, match="too large"):
        METHODS["systematic"].joint(np.full(6_000, 0.5))


class Again(Pivotal):
    """A method that nobody knows yet: it says of itself what is proved, and here that is nothing."""

    name = "again"
    covering = ""


class Proved(Again):
    covering = "a page of docs"


class OneStart(Proved):
    one_start = True


def test_a_new_method_is_drawn_by_and_amplifies_only_where_it_says_what_is_proved(monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "again", Again())
    design = ds.pps("x", probabilities=[0.5, 0.5, 0.5, 0.5], method="again")
    refused = design.bound(Losses.of(1.0, "replace-one"), "replace-one")
    assert isinstance(refused, Refused)
    assert refused.reason == "the covering of Again sampling is not proved here"
    assert not design.recipe().can_be_shifted
    assert design.recipe().fixed_counts == {"units": 2}
    table = pa.table({"id": [f"u{each}" for each in range(40)], "x": [1.0 + each % 3 for each in range(40)]})
    frame = ds.Frame(table, unit="id", size=40, public=["x"])
    setting = ds.Setting("sample", given="frame", neighbours="replace-one")
    drawn = ds.pps("x", n=7, method="again")
    survey = ds.Survey(frame, drawn, setting, budget=ds.Budget(1.0), ledger=tmp_path / "s.ledger", weight_range=(1, 20))
    survey.draw(tmp_path / "sample.parquet")
    assert pq.read_table(tmp_path / "sample.parquet").num_rows == 7
    monkeypatch.setitem(METHODS, "again", Proved())
    bound = design.bound(Losses.of(1.0, "replace-one"), "replace-one")
    assert isinstance(bound, Bound)
    assert bound.source == "a page of docs"
    monkeypatch.setitem(METHODS, "again", OneStart())
    assert "one random start" in design.bound(Losses.of(1.0, "replace-one"), "replace-one").source
