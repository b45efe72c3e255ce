"""Those who know more than an outsider, stages inside stages, and tests: figures that a review once found wrong."""

import math

import pytest
from mpmath import mp, mpf

from dpsurvey.design.loss import amplify
from dpsurvey.design.selection import (
    AllocationTable,
    CappedClusters,
    Clusters,
    Covered,
    Group,
    Independent,
    Losses,
    PpsCluster,
    Proportional,
    Responding,
    WithoutReplacement,
    WithReplacement,
)
from dpsurvey.design.worst_case import Contest, worst_delta
from dpsurvey.errors import BadValue

ADD, REPLACE = "add-remove", "replace-one"


@pytest.mark.parametrize("base", [ADD, "both"])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_response_of_units_that_may_be_drawn_twice_is_refused(base, neighbours):
    answer = amplify(Responding(WithReplacement(3, 3), 0.3), 2.0, base=base, neighbours=neighbours)
    assert answer.epsilon is None
    assert "copies" in answer.refused.reason


@pytest.mark.parametrize(
    "wrap", [lambda each: Covered(each, 0.9), lambda each: Responding(each, 0.9), lambda each: Group(each, 2)]
)
def test_copies_of_a_unit_are_seen_at_any_depth(wrap):
    answer = amplify(Responding(wrap(WithReplacement(3, 3)), 0.3), 2.0, base="both", neighbours=REPLACE)
    assert answer.epsilon is None


def test_a_fixed_number_of_draws_from_a_random_frame_claims_no_lower_bound_and_says_what_it_needs():
    answer = amplify(Covered(WithoutReplacement(5, 50), 0.5), 1.0, base=ADD, neighbours=ADD)
    assert answer.lower == 0.0
    assert any("at least the stated number" in each and "frame" in each for each in answer.holds_when)
    assert amplify(Covered(Independent((0.1,)), 0.5), 1.0, base=ADD, neighbours=ADD).lower > 0.0


def test_stages_at_which_everybody_responds_leave_the_loss_of_a_replaced_record_at_two_steps():
    twice = Responding(Responding(Clusters((1,), 1), 1.0), 1.0)
    assert twice.bound(Losses.of(1.0, ADD), REPLACE).upper == pytest.approx(2.0, rel=1e-12)
    # Two stages of response at .95 after one of two clusters of one unit: a Poisson stage at .9025.
    nested = Responding(Responding(CappedClusters(1, 2, 1), 0.95), 0.95).bound(Losses.of(1.0, ADD), REPLACE)
    once = Responding(CappedClusters(1, 2, 1), 0.95**2).bound(Losses.of(1.0, ADD), REPLACE)
    assert nested.upper >= once.upper - 1e-12
    assert once.exact


def test_the_delta_of_someone_known_to_be_sampled_is_that_of_two_steps():
    answer = amplify(WithoutReplacement(1, 2), 1.0, delta=1e-3, base=ADD, neighbours=REPLACE)
    insider = answer.attackers()["knows someone is in the sample"]
    certain = Contest((1, 0), {(1, 0): 1.0}, (0, 1), {(0, 1): 1.0})
    worst = worst_delta(certain, 2.0, 1.0, 1e-3, ADD).delta
    assert insider == {"epsilon": 2.0, "delta": pytest.approx(1e-3 * (1 + math.e), rel=1e-12)}
    assert insider["delta"] == pytest.approx(worst, rel=1e-6)
    assert insider["delta"] >= answer.delta


def test_the_delta_of_a_whole_group_grows_by_steps():
    answer = amplify(Group(Independent((0.1,)), 3), 1.0, delta=1e-3, base=ADD, neighbours=ADD)
    assert answer.attackers()["sample list leaks"]["epsilon"] == 3.0
    assert answer.known_delta == pytest.approx(1e-3 * (1 + math.e + math.e**2), rel=1e-12)


def test_no_posterior_is_claimed_where_there_is_a_delta():
    answer = amplify(WithoutReplacement(1, 2), 1.0, delta=0.2, base=ADD, neighbours=REPLACE)
    with pytest.raises(BadValue, match="delta 0"):
        answer.attackers(prior=0.5)


@pytest.mark.parametrize(
    ("rate", "size", "epsilon"), [(1e-12, 10**12, 1e-3), (1e-9, 10**9, 1e-3), (1e-5, 10**5, 1e-3), (1e-10, 10**10, 1.0)]
)
def test_rare_units_of_huge_strata_lose_what_the_worst_mechanism_attains(rate, size, epsilon):
    # One unit is drawn for certain from `size`: with the unit added, u = (1 - r) m/(N + 1) is the weight of its exchange.
    mp.dps = 40
    share, a = mpf(repr(rate)), mp.e ** mpf(epsilon)
    attained = mp.log(1 + share * (a - 1) + (1 - share) / (size + 1) * (a**2 - 1))
    answer = amplify(Proportional(rate, "random", size), epsilon, base=ADD, neighbours=ADD)
    assert attained <= answer.epsilon <= attained * (1 + mpf("1e-11"))
    assert attained * (1 - mpf("1e-11")) <= answer.lower <= attained


def test_the_best_test_is_that_of_the_worst_pair_of_populations():
    table = AllocationTable(((5, 2, 1.0), (6, 2, 1.0), (7, 4, 1.0)))
    found = amplify(table, 1.0, base=ADD, neighbours=ADD).best_test()
    # From 6 units to 7 the size moves by two steps; from 5 to 6 it stays, which shows far less.
    assert found.delta == pytest.approx(1 - math.exp(-1), abs=1e-4)
    found.check()
    largest = amplify(PpsCluster((1, 5)), 1.0, base=ADD, neighbours=REPLACE).best_test()
    assert largest.delta == pytest.approx(0.5268, abs=1e-4)


@pytest.mark.parametrize("rows", [((5, 3, 1.0), (6, 2, 1.0)), ((5, 2, 1.0), (6, 3, 1.0))])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-3, 1.0, 14.0, 25.0, 50.0])
def test_what_a_test_proves_never_exceeds_the_proved_loss(rows, epsilon):
    answer = amplify(AllocationTable(rows), epsilon, base=ADD, neighbours=ADD)
    assert answer.details.get("advantage_lower", 0.0) <= answer.lower <= answer.epsilon
    assert 0.0 <= answer.details.get("advantage", 0.0) <= 1.0
