"""Guarantees of local collection: what amplifies and what does not, against enumeration, with the conditions that go with it."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dpsurvey as ds
import dpsurvey.local as local
from dpsurvey.errors import BadValue
from dpsurvey.local.base import LocalMechanism
from dpsurvey.local.chance import every_outcome
from dpsurvey.local.guarantee import ALIKE, ALL_REPORT, HONEST, SECRET, UNNAMED
from dpsurvey.privacy.shuffled import Shuffled

pytestmark = pytest.mark.quick

DIE = {"chances": ["0.2", "0.15", "0.2"], "pi_s": "0.45"}
# Every kind, at as many categories as it takes; others refuse.
KEYS = {
    "two-coins": {"pi1": "0.8", "pi2": "0.9"},
    "warner": {"p": "0.3"},
    "generalised": {"epsilon": 1.3},
    "unary": {"epsilon": 1.3},
    "hashing": {"epsilon": 1.3, "prime": 7},
    "subset": {"epsilon": 0.4},
    "round-two": DIE,
    "sampling-privacy": DIE,
    "guarded": DIE | {"epsilon": 1.0},
    "toy-noise": {"pi_s": "0.4"},
    "toy-deniability": {"pi_s": "0.99", "pi1": "0.5", "pi2": "0.5"},
}


def test_the_kinds_above_are_all_there_are():
    assert set(KEYS) == set(LocalMechanism.kinds)


def law_of(mechanism, answer):
    return every_outcome(lambda chance: tuple(mechanism.randomize(np.array([answer]), chance)[0].tolist()))


@pytest.mark.parametrize("kind", KEYS)
def test_no_kind_accepts_a_number_of_categories_for_which_its_epsilon_is_wrong(kind):
    accepted = 0
    for k in range(2, 6):
        keys = KEYS[kind] | ({} if "chances" in KEYS[kind] else {"k": k})
        try:
            mechanism = local.mechanism_from({"kind": kind} | keys)
        except BadValue:
            continue
        accepted += 1
        laws = [law_of(mechanism, answer) for answer in range(mechanism.k)]
        for one, other in itertools.permutations(laws, 2):
            if set(one) - set(other):
                assert mechanism.epsilon == math.inf
            else:
                assert max(math.log(chance / other[seen]) for seen, chance in one.items()) <= mechanism.epsilon + 1e-15
    assert accepted


@pytest.mark.parametrize("local_epsilon", [1e-6, 0.5, 5.0, 15.0, 25.0, 36.4, 300.0])
@pytest.mark.parametrize("reports", [1, 2, 10, 40])
def test_the_shuffled_curve_is_never_below_its_theorem_in_fifty_digits(local_epsilon, reports):
    curve = Shuffled(reports, local_epsilon)
    with mpmath.workdps(60):
        shrunk = mpmath.exp(-mpmath.mpf(local_epsilon))
        a, b = 1 / (1 + shrunk), shrunk / (1 + shrunk)
        for part in (0.0, 0.3, 0.9, 0.99, 0.9999999):
            epsilon = part * local_epsilon
            growth, exact = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0)
            for clones in range(reports):
                weight = mpmath.binomial(reports - 1, clones) * shrunk**clones * (1 - shrunk) ** (reports - 1 - clones)
                seen = [
                    mpmath.binomial(clones, x) / mpmath.mpf(2) ** clones if 0 <= x <= clones else 0 for x in range(-1, clones + 2)
                ]
                for x in range(clones + 2):
                    first, second = a * seen[x] + b * seen[x + 1], b * seen[x] + a * seen[x + 1]
                    exact += weight * max(0, first - growth * second)
            found = curve.delta(epsilon)
            plain = (1 - mpmath.exp(mpmath.mpf(epsilon) - mpmath.mpf(local_epsilon))) * a
            assert found >= min(exact, plain) * (1 - mpmath.mpf(10) ** -13)
            assert found <= exact * (1 + mpmath.mpf(10) ** -9) + mpmath.mpf(10) ** -10


@pytest.mark.parametrize("pi_s", ["1/3", "0.999999", "999999999999/1000000000000", "233855319621020/233855319621021"])
@pytest.mark.parametrize("epsilon", [0.1, 5.0, 30.0, 80.0])
def test_a_guarded_difference_keeps_its_epsilon_however_near_to_one_the_sampled_share_is(pi_s, epsilon):
    rest = 1 - Fraction(pi_s)
    made = local.guarded([rest, 0, 0], Fraction(pi_s), epsilon)
    with mpmath.workdps(80):
        p, inside = mpmath.mpf(Fraction(pi_s).numerator) / Fraction(pi_s).denominator, 1 / mpmath.mpf(made.noise.scale)
        exact = mpmath.log((1 - p + p * mpmath.exp(inside)) / (1 - p + p * mpmath.exp(-inside)))
        assert exact <= made.published.epsilon(0.0) <= epsilon
        # Nothing is given away either, but where a float cannot hold 1 - pi_s.
        assert exact >= epsilon * (1 - 1e-3)


def exact_loss(mechanism, population, drawn, responds):
    """The loss of one answer replaced, with the multiset of reports seen: every sample, every report, every answer."""
    worst = 0.0
    laws = [every_outcome(lambda chance, a=a: int(mechanism.randomize(np.array([a]), chance)[0, 0])) for a in (0, 1)]
    for others in itertools.product((0, 1), repeat=population - 1):
        seen = []
        for own in (0, 1):
            law = {}
            answers = (own, *others)
            samples = list(itertools.combinations(range(population), drawn))
            for sample in samples:
                for reports in itertools.product((0, 1), repeat=len([unit for unit in sample if responds(unit)])):
                    who = [unit for unit in sample if responds(unit)]
                    chance = math.prod(float(laws[answers[unit]][report]) for unit, report in zip(who, reports, strict=True))
                    key = tuple(sorted(reports))
                    law[key] = law.get(key, 0.0) + chance / len(samples)
            seen.append(law)
        for one, other in (seen, seen[::-1]):
            worst = max(worst, *(math.log(chance / other[key]) for key, chance in one.items()))
    return worst


def test_secret_participation_amplifies_when_everybody_drawn_reports_and_not_otherwise():
    mechanism = local.generalised(2, 1.0)
    told = local.guarantee(mechanism, design=ds.srs(n=2, size=5)).statements[-1]
    assert told.epsilon == pytest.approx(math.log1p(0.4 * math.expm1(1.0)), abs=1e-9)
    assert exact_loss(mechanism, 5, 2, lambda unit: True) <= told.epsilon
    assert exact_loss(mechanism, 5, 2, lambda unit: unit < 2) > told.epsilon
    assert {SECRET, ALL_REPORT, UNNAMED, ALIKE} <= set(told.holds_when)


def test_guarantees_carry_the_conditions_of_their_theorems():
    made = local.guarantee(local.generalised(3, 2.0), reports=50, delta=1e-6, design=ds.srs(n=50, size=900))
    report, shuffled, drawn = made.statements
    assert (report.epsilon, report.delta) == (pytest.approx(2.0), 0.0)
    assert {UNNAMED, ALIKE, HONEST} <= set(shuffled.holds_when)
    assert set(shuffled.holds_when) < set(drawn.holds_when)
    assert report.epsilon > shuffled.epsilon > drawn.epsilon
    # The number of reports is seen: a Poisson sample hides nobody, a nonresponse model and one population's loss guarantee
    # nothing.
    poisson = local.guarantee(local.generalised(3, 2.0), design=ds.poisson(0.1)).statements[-1]
    assert poisson.epsilon == pytest.approx(2.0)
    refused = local.guarantee(local.generalised(3, 2.0), design=ds.responding(ds.srs(n=5, size=50), at_most=0.5))
    assert refused.statements[-1].refused is not None
    assert "no guarantee" in str(refused)
    clusters = local.guarantee(local.generalised(3, 2.0), design=ds.cluster("cluster", ds.srs(n=1), sizes=(2, 3, 4))).statements[
        -1
    ]
    assert clusters.refused is not None or clusters.epsilon == pytest.approx(2.0)


def test_guarantees_that_contradict_themselves_are_refused():
    mechanism = local.generalised(3, 2.0)
    with pytest.raises(BadValue, match="more reports than respondents drawn"):
        local.guarantee(mechanism, reports=50, delta=1e-6, design=ds.srs(n=2, size=10))
    with pytest.raises(BadValue, match="need a delta"):
        local.guarantee(mechanism, reports=50)
    with pytest.raises(BadValue, match="whole as it is"):
        local.guarantee(local.guarded([0.3, 0.3], 0.4, 1.0), reports=50, delta=1e-6)
    with pytest.raises(BadValue, match="delta"):
        local.guarantee(mechanism, reports=50, delta=1.5)
