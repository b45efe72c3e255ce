"""The auditor refutes the epsilon that the paper prints, catches tampered odds, and accuses nobody who is honest.

An audit at confidence 1 - 1e-7 accuses an honest mechanism with probability 1e-7 at most; fewer than ten of them are audited
here at that confidence, so a correct package fails for less than 1e-6 of all seeds. All runs are seeded.
"""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, binomtest

import dpsurvey.local as local
from dpsurvey.errors import BadValue
from dpsurvey.local.audit import audit
from dpsurvey.local.randomised_response import GeneralisedResponse
from dpsurvey.local.sampling_privacy import RoundTwo
from dpsurvey.local.subset_selection import SubsetSelection
from dpsurvey.local.unary_encoding import UnaryEncoding
from dpsurvey_papers.sampling_privacy.toys import toy_deniability

SURE = 1.0 - 1e-7


class SeededChance:
    """A client's chances from a seeded generator, for simulations only."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def pick(self, weights, count):
        bounds = np.cumsum(np.array(weights, dtype=np.int64))
        return np.searchsorted(bounds, self._rng.integers(0, bounds[-1], count), side="right")

    def below(self, bound, count):
        return self._rng.integers(0, bound, count)


# The printed epsilon is up to 2.3 here; with the last die hardly anybody is sampled.
@pytest.mark.parametrize(("pi0", "pi1", "pi_s"), [(0.275, 0.275, 0.45), (0.5, 0.05, 0.45), (0.3, 0.45, 0.25), (0.45, 0.45, 0.1)])
def test_ten_thousand_releases_at_no_yes_against_one_refute_the_printed_epsilon(pi0, pi1, pi_s):
    mechanism = local.sampling_privacy([pi0, pi1], pi_s)
    found = audit(mechanism, others=(99, 0), runs=10_000, confidence=SURE, chance=SeededChance(1))
    assert found.claimed == mechanism.printed_epsilon
    assert found.broken
    assert found.epsilon > found.claimed
    # With no yes at all nobody moves: the event was never seen, and pi_s of the time with one.
    assert found.seen[1] == 0
    assert found.seen[0] == pytest.approx(10_000 * pi_s, abs=6 * math.sqrt(10_000 * pi_s * (1 - pi_s)))
    # The bound is the one of these counts: Clopper-Pearson, half of the error on each side.
    low = binomtest(found.seen[0], 10_000).proportion_ci(1 - 1e-7, "exact").low
    high = binomtest(0, 10_000).proportion_ci(1 - 1e-7, "exact").high
    assert found.epsilon == pytest.approx(math.log(low / high), rel=1e-9)


def test_more_respondents_who_say_no_do_not_help():
    mechanism = local.sampling_privacy([0.275, 0.275], 0.45)
    for no in (0, 9, 499):
        found = audit(mechanism, others=(no, 0), runs=2_000, confidence=SURE, chance=SeededChance(2))
        assert found.epsilon > 3.0 > mechanism.printed_epsilon


HONEST = {
    "warner": local.warner(0.75),
    "two coins": local.two_coins(0.8, 0.9),
    "toy": toy_deniability(0.5, 0.8, 0.2),
    "generalised": local.generalised(3, 1.0),
    "unary": local.unary(3, 1.0),
    "hashing": local.hashing(3, 1.0),
    "subset": local.subset(4, 1.0, 2),
    "round two": local.round_two([0.275, 0.275], 0.45),
}


@pytest.mark.parametrize("mechanism", HONEST.values(), ids=HONEST.keys())
def test_honest_mechanisms_are_not_accused(mechanism):
    alone = (0,) * mechanism.k
    found = audit(mechanism, others=alone, runs=20_000, confidence=SURE, chance=SeededChance(3))
    assert found.claimed == mechanism.epsilon
    assert not found.broken
    # The audit is not empty: a mark alone shows this much, and the bound comes within a quarter of it.
    p, q = (float(each) for each in mechanism.hit(1))
    shown = max(math.log(p / q), math.log((1 - q) / (1 - p)))
    assert 0.75 * shown < found.epsilon <= shown + 1e-9


def test_what_is_left_for_the_first_category_of_a_guarded_question_holds_the_noise_of_all_others():
    """Eight draws of noise hide more than one: with one alone an audit showed 1.5 of either; it is never near 1 with eight."""
    mechanism = local.guarded([Fraction(1, 90)] * 9, Fraction(9, 10), 3.0)
    first, second = (
        audit(mechanism, others=(0,) * 9, answers=answers, runs=6_000, confidence=SURE).epsilon for answers in ((0, 1), (1, 0))
    )
    assert first < 1.0 < second < mechanism.claimed_epsilon


# The claim stays at 1; the client runs the odds of 1.3, and for the die the odds of another one.
class TamperedResponse(GeneralisedResponse):
    epsilon = property(lambda self: self.at_epsilon)


class TamperedBits(UnaryEncoding):
    epsilon = property(lambda self: self.at_epsilon)


class TamperedSets(SubsetSelection):
    epsilon = property(lambda self: self.at_epsilon)


class TamperedDie(RoundTwo):
    epsilon = property(lambda self: local.round_two([0.275, 0.275], 0.45).epsilon)


def with_odds_of(mechanism, other):
    """The mechanism with the weights of another one in its client."""
    object.__setattr__(mechanism, "weights", other.weights)
    return mechanism


TAMPERED = {
    "generalised": with_odds_of(TamperedResponse(2, 1.0), local.generalised(2, 1.3)),
    "generalised of five": with_odds_of(TamperedResponse(5, 1.0), local.generalised(5, 1.3)),
    "unary, the bit of another category": with_odds_of(TamperedBits(3, 1.0), local.unary(3, 3.5)),
    "subset": with_odds_of(TamperedSets(3, 1.0, 1), local.subset(3, 1.3, 1)),
    "die": TamperedDie((0.2, 0.2), 0.6),
}


@pytest.mark.parametrize("mechanism", TAMPERED.values(), ids=TAMPERED.keys())
def test_tampered_weights_are_caught(mechanism):
    found = audit(mechanism, others=(0,) * mechanism.k, runs=60_000, confidence=SURE, chance=SeededChance(4))
    assert found.broken
    assert found.epsilon > found.claimed


def test_the_bound_fails_no_more_often_than_its_confidence_says():
    # Four hundred small audits at 90 %: more than 71 false alarms would be seen once in a million times at a rate of 10 %.
    mechanism, runs = local.warner(0.75), 400
    assert binom.sf(71, runs, 0.1) < 1e-6
    chance = SeededChance(5)
    alarms = sum(audit(mechanism, others=(0, 0), runs=200, confidence=0.9, chance=chance).broken for _ in range(runs))
    assert alarms <= 71
    # Without the interval, frequencies as they are would alarm about every second time.
    rng = np.random.default_rng(6)
    ratios = np.log(rng.binomial(200, 0.75, runs) / np.maximum(rng.binomial(200, 0.25, runs), 1))
    assert np.count_nonzero(ratios > mechanism.epsilon) > 71


def test_what_an_audit_says_is_what_it_found():
    found = audit(local.sampling_privacy([0.275, 0.275], 0.45), others=(9, 0), runs=1_000, chance=SeededChance(7))
    told = json.loads(json.dumps(found.to_dict()))
    assert told["broken"] is True
    assert told["epsilon_at_least"] == found.epsilon > told["claimed"]
    assert told["releases"] == 1_000
    assert "the claim is refuted" in str(found)
    honest = audit(local.warner(0.75), others=(0, 0), runs=1_000, confidence=SURE, chance=SeededChance(8))
    assert "the claim stands" in str(honest)
    # Whoever guarantees nothing cannot be refuted.
    nothing = audit(local.warner(1), others=(0, 0), runs=1_000, chance=SeededChance(9))
    assert nothing.to_dict()["claimed"] is None
    assert not nothing.broken


@pytest.mark.parametrize(
    "wrong",
    [{"others": (1,)}, {"others": (1, -1)}, {"others": (1, 1), "runs": 99}, {"others": (1, 1), "confidence": 1.0}],
    ids=str,
)
def test_audits_that_cannot_be_made_are_refused(wrong):
    with pytest.raises(BadValue, match=r"others|audit"):
        audit(local.warner(0.75), **wrong)
