"""Every design's bound against the exact worst case over all mechanisms, on thousands of small random designs.

The samples of both populations are written out unit by unit (`enumerated*.py`) and the worst case is a linear programme
of its own: nothing of the package is used but the claims under test.
"""

import math

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.design import Refused
from dpsurvey.loss.bound import Losses
from tests.truth import enumerated_stages as stages

plain, en, ADD, REPLACE = stages.plain, stages.en, stages.ADD, stages.REPLACE

SEED = 20260731
# Random designs of each kind; each is tried for three types of mechanism and both relations.
CASES = {
    plain.simple: 90,
    plain.draws: 60,
    plain.independent: 45,
    plain.random_size: 90,
    plain.proportional: 90,
    plain.allocation: 90,
    plain.whole_clusters: 90,
    plain.capped_clusters: 60,
    plain.two_stage: 90,
    plain.capped_two_stage: 60,
    plain.by_size: 45,
    plain.cluster_by_size: 60,
    plain.every_kth: 30,
    stages.responding: 90,
    stages.coverage: 90,
    stages.group: 60,
}
# Accuracy of the solver's optimum.
SLACK, EXACT = 1e-7, 1e-6


def checked(case, epsilon):
    """All claims about one design that are not refused, each with the exact worst loss of its pairs of populations."""
    for base in en.BASES:
        for neighbours, pairs in case.pairs.items():
            bound = case.design.bound(Losses.of(epsilon, base), neighbours)
            if not isinstance(bound, Refused):
                yield base, neighbours, bound, max(en.worst_loss(*pair, epsilon, base) for pair in pairs)  # type: ignore[call-arg]


def fitting(rng, case):
    """An epsilon at which the largest factor of the linear programme, e^(epsilon d), is within the solver's reach."""
    return min(float(rng.choice([0.05, 0.3, 0.7, 1.0, 1.6, 2.5])), 5.0 / max(1, stages.largest(case)))


@pytest.mark.slow_cases("coverage-1", "independent-1", "by_size-1", "responding-1", "two_stage-1")
@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_no_bound_is_below_the_worst_case_and_exact_ones_equal_it(kind, times):
    rng, claims = np.random.default_rng([SEED, len(kind.__name__), CASES[kind], times]), 0
    for _ in range(CASES[kind] * times):
        case = kind(rng)
        epsilon = fitting(rng, case)
        for base, neighbours, bound, worst in checked(case, epsilon):
            claims += 1
            where = f"{case.design} epsilon {epsilon} base {base} neighbours {neighbours}"
            told = f"{where}: {bound.lower} to {bound.upper}, is {worst}"
            assert bound.upper >= worst - SLACK, told
            assert bound.lower <= bound.upper, told
            if neighbours not in case.supremum:
                assert bound.lower <= worst + SLACK, told
                assert not bound.exact or abs(bound.upper - worst) <= EXACT, told
    # A kind that refused everything would prove nothing.
    assert claims >= CASES[kind], f"only {claims} claims"


def test_a_loss_for_one_size_of_the_frame_is_no_loss_where_coverage_makes_that_size_random():
    rng = np.random.default_rng(SEED)
    for _ in range(20):
        case = stages.pps_on_a_thinned_frame(rng)
        for neighbours in case.pairs:
            assert isinstance(case.design.bound(Losses.of(0.7, "add-remove"), neighbours), Refused)


def test_a_bound_for_every_population_is_the_limit_of_those_for_one():
    for rate, base in ((0.3, "add-remove"), (0.3, "both"), (0.75, "add-remove"), (0.05, "both")):
        losses = Losses.of(0.8, base)
        every = ds.proportional(rate, rounding="random").bound(losses, ADD)
        single = [ds.proportional(rate, rounding="random", size=size).bound(losses, ADD).upper for size in (20, 200, 2000, 20000)]
        assert single == sorted(single)
        assert every.upper >= single[-1] - 1e-12
        assert every.upper - single[-1] < 1e-3 * every.upper


def thin(rate):
    return stages.Rates(rate, {})


def test_replacing_a_unit_by_one_of_another_rate_shows_in_a_size_that_is_not_protected():
    # The whole population is drawn with probability .5 * .1 before and .1 * .1 after.
    first, second = en.poisson({"a": 0.1, "x": 0.5}), en.poisson({"a": 0.1, "y": 0.1})
    worst = en.worst_loss(first, second, 1.0, REPLACE)
    assert worst == pytest.approx(1.0 + math.log(5.0), abs=1e-6)
    bound = ds.poisson_by("rate", probabilities=(0.5, 0.1), moves=True).bound(Losses.of(1.0, REPLACE), REPLACE)
    assert isinstance(bound, Refused) or bound.upper >= worst - SLACK


def test_the_worst_cluster_of_a_replace_only_mechanism_is_the_one_without_an_equal():
    losses = Losses.of(1.0, REPLACE)
    each = [
        ds.cluster("cluster", ds.srs(n=1), sizes=(1, 2, 2), unit_in=unit_in).bound(losses, REPLACE).upper for unit_in in (1, 2, 3)
    ]
    assert max(each) == pytest.approx(1.0)
    assert ds.cluster("cluster", ds.srs(n=1), sizes=(1, 2, 2)).bound(losses, REPLACE).upper >= max(each) - 1e-12


@pytest.mark.parametrize(("rounding", "rate", "size"), [("random", 0.5, 3), ("nearest", 0.5, 3), ("nearest", 0.3, 3)])
def test_a_loss_for_one_size_of_stratum_is_not_claimed_for_a_frame_of_random_size(rounding, rate, size):
    def design(units):
        exact = plain.Fraction(repr(rate))
        return en.rounded(units, exact) if rounding == "random" else en.srs(units, int(exact * len(units) + 0.5))

    everyone = dict.fromkeys(range(size), 0.5)
    worst = en.worst_loss(stages.on_frame(everyone | {"x": 0.5}, design), stages.on_frame(everyone, design), 1.0, "both")
    bound = ds.covered(ds.proportional(rate, rounding=rounding, size=size), at_most=0.5).bound(Losses.of(1.0, "both"), ADD)
    assert isinstance(bound, Refused) or bound.upper >= worst - SLACK


def test_bounds_stay_numbers_where_sizes_are_not_protected():
    designs = [
        ds.covered(ds.srs(n=2, size=5), at_most=0.5),
        ds.covered(ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(3, 3)), ds.srs(n=2)), at_most=0.5),
    ]
    designs += [ds.group(ds.poisson(0.3), 2, drawn="together"), ds.group(ds.srs(n=2, size=5), 2)]
    for design in designs:
        for neighbours in (ADD, REPLACE):
            bound = design.bound(Losses.of(1.0, REPLACE), neighbours)
            if not isinstance(bound, Refused):
                assert 0.0 <= bound.lower <= bound.upper < math.inf, f"{design} {neighbours}: {bound}"


def test_a_lower_bound_uses_the_inclusion_probability_of_the_population_it_speaks_of():
    first, second = en.thinned(en.srs(["a", "x"], 1), thin(0.1)), en.thinned(en.srs(["a"], 1), thin(0.1))
    worst = en.worst_loss(first, second, 1.0, ADD)
    for inside in (
        ds.proportional(0.6, rounding="nearest", size=1),
        ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(1,)), ds.srs(n=1)),
        ds.size_rule(((1, 1, 1.0), (2, 1, 1.0))),
    ):
        bound = ds.responding(inside, at_most=0.1).bound(Losses.of(1.0, ADD), ADD)
        assert bound.lower <= worst + SLACK, inside
        assert bound.upper >= worst - SLACK, inside


@pytest.mark.parametrize("rate", [0.33336, 0.3, 0.49, 0.2501, 0.142860, 0.4999, 0.07])
def test_no_stratum_keeps_a_larger_share_than_nearest_rounding_says(rate):
    design, exact = ds.proportional(rate, rounding="nearest"), plain.Fraction(repr(rate))
    takes = [int(exact * size + plain.Fraction(1, 2)) for size in range(12_002)]
    shares = [takes[n] / (n + 1) for n in range(1, 12_001) if takes[n] == takes[n + 1]]
    assert design.largest_kept_share >= max(shares)
    assert design.largest_kept_share <= max(*shares, rate) * (1 + 1e-12)


def test_losses_rise_with_epsilon_and_stay_finite_from_the_smallest_to_the_largest():
    designs = [plain.simple, plain.draws, plain.independent, plain.random_size, plain.proportional, plain.allocation]
    designs += [plain.whole_clusters, plain.capped_clusters, plain.two_stage, plain.by_size, plain.cluster_by_size]
    designs += [plain.every_kth, stages.responding, stages.coverage]
    for kind in designs:
        rng = np.random.default_rng(SEED)
        for _ in range(6):
            design = kind(rng).design
            for base in en.BASES:
                for neighbours in (ADD, REPLACE):
                    bounds = [design.bound(Losses.of(e, base), neighbours) for e in (1e-12, 1e-6, 0.1, 3.0, 20.0, 50.0)]
                    uppers = [bound.upper for bound in bounds if not isinstance(bound, Refused)]
                    assert uppers == sorted(uppers), f"{design} {base} {neighbours}: {uppers}"
                    assert all(map(math.isfinite, uppers)), design


@pytest.mark.parametrize("epsilon", [0.5, 50.0, 400.0])
def test_one_cluster_of_two_units_loses_nearly_all_of_a_large_epsilon(epsilon):
    # Two clusters of one unit: the drawn one is the target's with probability a half.
    bound = ds.cluster("cluster", ds.pps("size", n=1), sizes=(1, 1), unit_in=1).bound(Losses.of(epsilon, ADD), REPLACE)
    exact = 2.0 * epsilon + math.log(0.5 + 0.5 * math.exp(-2.0 * epsilon))
    assert bound.upper == pytest.approx(exact, rel=1e-12)


def test_systematic_samples_with_a_unit_inserted_lose_what_the_printed_counterexample_loses():
    # N = 8, every 4th, epsilon 2: a formula that fits small cases gives 4.9545.
    bound = ds.systematic(step=4, size=4 * 2, order="as listed").bound(Losses.of(2.0, ADD), ADD)
    assert bound.lower == pytest.approx(5.2961, abs=5e-5)
    assert bound.upper >= bound.lower
