"""Allocations keep their totals and bounds, are optimal within them, and refuse what is no figure."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpsurvey.design import srs, stratified
from dpsurvey.design.allocation.allocate import Allocation, allocate
from dpsurvey.design.allocation.takes import stratified_se
from dpsurvey.design.frame import Frame
from dpsurvey.errors import BadValue, NoGuarantee

FEW = settings(max_examples=150, deadline=None)
SOURCE = {"source": "Yearbook 2024, table 3"}
FIGURE = st.floats(0.01, 1000.0)


@st.composite
def strata(draw, largest=400, most=6, zeros=True):
    """Sizes, deviations of which not all are zero, and costs."""
    count = draw(st.integers(1, most))
    names = [f"s{number}" for number in range(count)]
    sd = st.one_of(st.just(0.0), FIGURE) if zeros else FIGURE
    deviations = draw(st.lists(sd, min_size=count, max_size=count).filter(any))
    sizes = draw(st.lists(st.integers(1, largest), min_size=count, max_size=count))
    costs = draw(st.lists(st.floats(0.1, 50.0).map(lambda cost: round(cost, 2)), min_size=count, max_size=count))
    return tuple(dict(zip(names, figures, strict=True)) for figures in (sizes, deviations, costs))


def array(figures):
    return np.array(list(figures.values()), dtype=float)


def variance(sizes, deviations, takes):
    """sum N^2 S^2/n, by a loop; strata without spread add nothing."""
    terms = [(sizes[each] * deviations[each]) ** 2 / takes[each] for each in sizes if deviations[each] > 0.0]
    return math.fsum(terms)


def least(sizes, minimum):
    return sum(min(minimum, size) for size in sizes.values())


def fixed_n(rule, sizes, deviations, n, minimum, power=0.5):
    more = {"power": power} if rule == "power" else {}
    return allocate(rule, sizes=sizes, n=n, deviations=deviations, minimum=minimum, **more, **SOURCE)


@pytest.mark.parametrize("rule", ["proportional", "equal", "power", "neyman"])
@FEW
@given(strata(), st.data(), st.integers(0, 4), st.floats(0.0, 3.0))
def test_takes_sum_to_n_between_minimum_and_size_and_stay_within_one_of_the_shares(rule, figures, data, minimum, power):
    sizes, deviations, _ = figures
    n = data.draw(st.integers(max(1, least(sizes, minimum)), sum(sizes.values())))
    made = fixed_n(rule, sizes, deviations, n, minimum, power)
    assert made.total == n
    assert math.fsum(made.exact.values()) == pytest.approx(n, rel=1e-9)
    for name, size in sizes.items():
        assert min(minimum, size) <= made.takes[name] <= size
        assert min(minimum, size) <= made.exact[name] <= size
        assert abs(made.takes[name] - made.exact[name]) < 1.0 + 1e-6
        assert made.rates[name] == made.takes[name] / size


@FEW
@given(strata(), st.data(), st.integers(1, 3))
def test_shares_are_one_level_times_the_rule_wherever_no_bound_holds(figures, data, minimum):
    sizes, deviations, _ = figures
    n = data.draw(st.integers(max(1, least(sizes, minimum)), sum(sizes.values())))
    for rule, of in (("proportional", lambda name: 1.0), ("equal", lambda name: 1.0 / sizes[name]), ("neyman", deviations.get)):
        exact = fixed_n(rule, sizes, deviations, n, minimum).exact
        size_of = {name: sizes[name] * of(name) for name in sizes if of(name) > 0.0}
        levels = {name: exact[name] / size for name, size in size_of.items()}
        free = [levels[name] for name in levels if min(minimum, sizes[name]) + 1e-9 < exact[name] < sizes[name] - 1e-9]
        assert max(free, default=1.0) == pytest.approx(min(free, default=1.0), rel=1e-6)
        full = [levels[name] for name in levels if exact[name] == sizes[name] > minimum]
        # A full stratum is below the level of the free ones, one at the minimum above it.
        assert not free or all(each <= max(free) * (1 + 1e-6) for each in full)
        lowest = [levels[name] for name in levels if exact[name] == minimum < sizes[name]]
        assert not free or all(each >= min(free) * (1 - 1e-6) for each in lowest)


@FEW
@given(strata(), st.data(), st.integers(1, 3))
def test_no_small_change_between_two_strata_improves_neyman(figures, data, minimum):
    # Variance and bounds are convex, so what no pair of strata can improve nothing can.
    sizes, deviations, _ = figures
    n = data.draw(st.integers(least(sizes, minimum), sum(sizes.values())))
    exact = fixed_n("neyman", sizes, deviations, n, minimum).exact
    best = variance(sizes, deviations, exact)
    for up, down in itertools.permutations(sizes, 2):
        room = min(sizes[up] - exact[up], exact[down] - min(minimum, sizes[down]))
        for step in (1e-3, 0.1, 1.0):
            moved = exact | {up: exact[up] + step * room, down: exact[down] - step * room}
            assert min(moved.values()) <= 0.0 or variance(sizes, deviations, moved) >= best * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(strata(largest=7, most=3), st.data(), st.integers(1, 2))
def test_no_whole_allocation_beats_the_capped_neyman_shares_and_rounding_costs_little(figures, data, minimum):
    sizes, deviations, _ = figures
    n = data.draw(st.integers(least(sizes, minimum), sum(sizes.values())))
    made = fixed_n("neyman", sizes, deviations, n, minimum)
    ranges = [range(min(minimum, size), size + 1) for size in sizes.values()]
    every = [dict(zip(sizes, takes, strict=True)) for takes in itertools.product(*ranges) if sum(takes) == n]
    assert every
    best = min(variance(sizes, deviations, takes) for takes in every)
    assert variance(sizes, deviations, made.exact) <= best * (1 + 1e-9)
    assert made.takes in every


def precision(sizes, deviations, se, minimum, **costs):
    return allocate("precision", sizes=sizes, deviations=deviations, se=se, minimum=minimum, **costs, **SOURCE)


@settings(max_examples=60, deadline=None)
@given(strata(largest=7, most=3), st.floats(0.05, 1.5), st.integers(1, 2))
def test_a_precision_is_met_by_the_fewest_units_of_all_allocations(figures, part, minimum):
    sizes, deviations, _ = figures
    wanted = part * stratified_se(array(sizes), array(deviations), np.ones(len(sizes))) + 1e-9
    made = precision(sizes, deviations, wanted, minimum)
    assert made.se_mean <= wanted
    ranges = [range(min(minimum, size), size + 1) for size in sizes.values()]
    fewer = [takes for takes in itertools.product(*ranges) if sum(takes) == made.total - 1]
    assert all(stratified_se(array(sizes), array(deviations), np.array(takes)) > wanted for takes in fewer)


@FEW
@given(strata(largest=100_000), st.floats(0.001, 0.9), st.integers(1, 4))
def test_a_precision_is_met_and_one_unit_less_of_the_same_rule_misses_it(figures, part, minimum):
    sizes, deviations, _ = figures
    wanted = part * stratified_se(array(sizes), array(deviations), np.ones(len(sizes)))
    assume(wanted > 0.0)
    made = precision(sizes, deviations, wanted, minimum)
    assert made.se_mean <= wanted
    if made.total > least(sizes, minimum):
        assert (
            allocate("neyman", sizes=sizes, n=made.total - 1, deviations=deviations, minimum=minimum, **SOURCE).se_mean > wanted
        )
        for name, take in made.takes.items():
            if take > min(minimum, sizes[name]) and deviations[name] > 0.0:
                fewer = array(made.takes | {name: take - 1})
                assert stratified_se(array(sizes), array(deviations), fewer) > wanted
    # Before rounding the precision is met exactly, unless the minimum does more.
    exact = stratified_se(array(sizes), array(deviations), array(made.exact))
    at_minimum = all(made.exact[name] == min(minimum, size) for name, size in sizes.items())
    assert exact <= wanted if at_minimum else exact == pytest.approx(wanted, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(strata(largest=6, most=3), st.floats(0.05, 1.2))
def test_a_precision_at_unequal_costs_is_met_within_one_unit_of_the_least_cost(figures, part):
    sizes, deviations, costs = figures
    wanted = part * stratified_se(array(sizes), array(deviations), np.ones(len(sizes))) + 1e-9
    made = precision(sizes, deviations, wanted, 1, costs=costs)
    assert made.se_mean <= wanted
    every = [np.array(takes) for takes in itertools.product(*(range(1, size + 1) for size in sizes.values()))]
    cheapest = min(array(costs) @ takes for takes in every if stratified_se(array(sizes), array(deviations), takes) <= wanted)
    assert made.cost <= cheapest + max(costs.values())
    assert array(costs) @ array(made.exact) <= cheapest * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(strata(largest=6, most=3), st.floats(0.0, 1.3), st.integers(1, 2))
def test_a_budget_is_never_exceeded_and_its_shares_beat_every_whole_allocation(figures, part, minimum):
    sizes, deviations, costs = figures
    lowest = sum(costs[name] * min(minimum, size) for name, size in sizes.items()) + 1e-6
    budget = round(lowest + part * (array(costs) @ array(sizes)), 2) + 0.01
    made = allocate("cost", sizes=sizes, deviations=deviations, costs=costs, budget=budget, minimum=minimum, **SOURCE)
    assert made.cost <= budget
    assert array(costs) @ array(made.exact) <= budget * (1 + 1e-9)
    every = itertools.product(*(range(min(minimum, size), size + 1) for size in sizes.values()))
    named = (dict(zip(sizes, takes, strict=True)) for takes in every)
    within = [takes for takes in named if array(costs) @ array(takes) <= budget]
    assert variance(sizes, deviations, made.exact) <= min(variance(sizes, deviations, takes) for takes in within) * (1 + 1e-9)
    # No further unit of a stratum that varies would fit.
    spare = [costs[s] for s in sizes if deviations[s] > 0.0 and made.takes[s] < sizes[s]]
    assert all(made.cost + cost > budget - 1e-9 for cost in spare)


def test_a_budget_is_counted_in_the_figures_that_were_written():
    # In binary 3 * 0.1 is above 0.3.
    made = allocate("cost", sizes={"a": 9}, deviations={"a": 1}, costs={"a": 0.1}, budget=0.3, **SOURCE)
    assert (made.total, made.cost) == (3, 0.3)


@FEW
@given(strata(), st.data())
def test_an_allocation_is_read_back_from_json(figures, data):
    sizes, deviations, costs = figures
    n = data.draw(st.integers(len(sizes), sum(sizes.values())))
    made = allocate("neyman", sizes=sizes, n=n, deviations=deviations, costs=costs, **SOURCE)
    assert Allocation.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert made.rows()[0].keys() == {"stratum", "size", "take", "rate", "weight", "deviation", "cost"}
    assert sum(row["weight"] * row["take"] for row in made.rows()) == pytest.approx(sum(sizes.values()))


REGIONS = {"north": 1200, "south": 600, "island": 200}
SPREADS = {"north": 10.0, "south": 30.0, "island": 5.0}


def test_units_that_vary_strata_cannot_hold_go_to_the_others_by_size():
    sizes, deviations = {"a": 10, "b": 60, "c": 20}, {"a": 1, "b": 0, "c": 0}
    assert allocate("neyman", sizes=sizes, n=50, deviations=deviations, **SOURCE).takes == {"a": 10, "b": 30, "c": 10}


def test_equal_remainders_go_to_the_first_listed():
    assert allocate("equal", sizes={"x": 50, "y": 50, "z": 50}, n=11).takes == {"x": 4, "y": 4, "z": 3}


def test_a_precision_between_equal_strata_takes_no_unit_too_many():
    alike = {"x": 50, "y": 50, "z": 50}
    wanted = stratified_se(array(alike), np.ones(3), np.array([5, 5, 4])) * (1 + 1e-9)
    assert precision(alike, dict.fromkeys(alike, 1.0), wanted, 1).takes == {"x": 5, "y": 5, "z": 4}


def test_a_budget_buys_nothing_where_nothing_varies():
    figures = {"sizes": {"a": 10, "b": 60}, "deviations": {"a": 1, "b": 0}, "costs": {"a": 1, "b": 1}}
    made = allocate("cost", budget=50, minimum=2, **figures, **SOURCE)
    assert made.takes == made.exact == {"a": 10, "b": 2}


def test_powers_run_from_equal_to_proportional_and_follow_the_measure():
    def shares(power, **more):
        return allocate("power", sizes=REGIONS, n=60, power=power, **more).exact

    assert shares(0) == pytest.approx(allocate("equal", sizes=REGIONS, n=60).exact)
    assert shares(1) == pytest.approx(allocate("proportional", sizes=REGIONS, n=60).exact)
    measure = {"north": 1.0, "south": 4.0, "island": 25.0}
    assert shares(0.5, measure=measure, **SOURCE) == pytest.approx({"north": 7.5, "south": 15.0, "island": 37.5})


def test_the_design_of_an_allocation_draws_its_takes():
    made = allocate("neyman", sizes=REGIONS, n=100, deviations=SPREADS, **SOURCE)
    assert made.within() == {name: srs(n=take) for name, take in made.takes.items()}
    frame = Frame("register.parquet", unit="id", size=2000, categories={"region": REGIONS})
    parts = stratified("region", within=made.within()).resolve(frame).parts()
    assert {part.label: part.take for part in parts} == made.takes
    assert {part.label: part.probability for part in parts} == made.rates


def test_an_allocation_from_the_confidential_frame_says_so_and_gives_no_design():
    made = allocate("neyman", sizes=REGIONS, n=100, deviations=SPREADS, public=False)
    assert str(made).endswith("computed from the confidential frame: not public; no survey can release with it")
    assert made.source == "the confidential frame"
    with pytest.raises(NoGuarantee, match="not public") as caught:
        made.within()
    assert "noisy" in caught.value.hint
    assert not Allocation.from_dict(made.to_dict()).public


def test_a_public_allocation_names_its_source():
    text = str(allocate("neyman", sizes=REGIONS, n=100, deviations=SPREADS, **SOURCE))
    assert "figures from: Yearbook 2024, table 3" in text
    assert "se of the mean" in text
    assert "confidential" not in text


def test_a_stratum_without_units_has_no_standard_error_no_weight_and_no_design():
    made = allocate("neyman", sizes={"a": 10, "b": 10}, n=5, deviations={"a": 1, "b": 0}, minimum=0, **SOURCE)
    assert made.takes == {"a": 5, "b": 0}
    assert made.se_mean is None
    assert made.rows()[1]["weight"] is None
    with pytest.raises(BadValue, match="'b'"):
        made.within()


GOOD = {"sizes": REGIONS, "n": 100, "deviations": SPREADS, **SOURCE}
COSTS = {"north": 1, "south": 2, "island": 9}
PRECISE = {"sizes": REGIONS, "deviations": SPREADS, **SOURCE}
BAD = [
    ("neymann", GOOD, "did you mean 'neyman'"),
    ("neyman", GOOD | {"n": 2001}, "n is above the number of units"),
    ("neyman", GOOD | {"n": 5, "minimum": 2}, "n is below the minimum"),
    ("neyman", GOOD | {"n": 0}, "n must be a whole number"),
    ("neyman", GOOD | {"n": 10.0}, "n must be a whole number"),
    ("neyman", GOOD | {"n": None}, "needs n"),
    ("neyman", GOOD | {"minimum": -1}, "minimum must be a whole number"),
    ("neyman", GOOD | {"deviations": None}, "needs deviations"),
    ("neyman", GOOD | {"deviations": {"north": 1, "south": 1}}, "lack the stratum 'island'"),
    ("neyman", GOOD | {"deviations": SPREADS | {"nort": 1}}, "did you mean 'north'"),
    ("neyman", GOOD | {"deviations": SPREADS | {"north": -1}}, "deviations of stratum 'north' must be a finite number"),
    ("neyman", GOOD | {"deviations": SPREADS | {"north": math.nan}}, "must be a finite number"),
    ("neyman", GOOD | {"deviations": SPREADS | {"north": math.inf}}, "must be a finite number"),
    ("neyman", GOOD | {"deviations": SPREADS | {"north": "ten"}}, "must be a finite number"),
    ("neyman", GOOD | {"deviations": [1, 2, 3]}, "maps each stratum"),
    ("neyman", GOOD | {"deviations": dict.fromkeys(REGIONS, 0)}, "all deviations are zero"),
    ("neyman", GOOD | {"source": " "}, "published: deviations"),
    ("neyman", GOOD | {"public": "yes"}, "public= is True or False"),
    ("neyman", GOOD | {"budget": 5}, "does not use budget"),
    (
        "neyman",
        GOOD | {"costs": {"north": 1, "south": 0, "island": 1}},
        "'south' must be a finite number above 0",
    ),
    ("proportional", {"sizes": {}, "n": 5}, "sizes= maps each stratum"),
    ("proportional", {"sizes": {"a": 0}, "n": 5}, "size of stratum 'a'"),
    ("proportional", {"sizes": {"a": 2.5}, "n": 2}, "size of stratum 'a'"),
    ("proportional", {"sizes": {1: 5, "1": 5}, "n": 2}, "given twice"),
    ("power", {"sizes": REGIONS, "n": 9}, "needs power"),
    ("power", {"sizes": REGIONS, "n": 9, "power": -0.5}, "power must be a finite number"),
    ("power", {"sizes": REGIONS, "n": 9, "power": 1, "measure": COSTS}, "published: measure"),
    ("power", {"sizes": REGIONS, "n": 9, "power": 1, "measure": dict.fromkeys(REGIONS, 0), **SOURCE}, "measure is zero"),
    ("cost", PRECISE | {"costs": COSTS}, "needs budget"),
    ("cost", PRECISE | {"budget": 100}, "needs costs"),
    ("cost", PRECISE | {"costs": COSTS, "budget": 11.9}, "does not cover the minimum"),
    ("cost", PRECISE | {"costs": COSTS, "budget": math.nan}, "budget must be a finite number"),
    ("cost", PRECISE | {"costs": COSTS, "budget": 50, "minimum": 0}, "draws from every stratum"),
    ("precision", PRECISE, "needs either cv"),
    ("precision", PRECISE | {"cv": 0.1, "se": 1, "mean": 3}, "needs either cv"),
    ("precision", PRECISE | {"cv": 0.1}, "a cv needs the mean"),
    ("precision", PRECISE | {"cv": 0.1, "mean": 0}, "mean must be a finite number above 0"),
    ("precision", PRECISE | {"cv": math.inf, "mean": 1}, "cv must be a finite number"),
    ("precision", PRECISE | {"se": 0}, "se must be a finite number above 0"),
    ("precision", PRECISE | {"se": 1, "mean": 3}, "mean is for cv"),
    ("precision", PRECISE | {"se": 1, "n": 9}, "does not use n"),
]


@pytest.mark.parametrize(("rule", "given", "says"), BAD, ids=[says for _, _, says in BAD])
def test_what_is_no_figure_is_refused_by_name(rule, given, says):
    with pytest.raises(BadValue) as caught:
        allocate(rule, **given)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [{"rule": "best"}, {"takes": {"a": 11}}, {"takes": {"a": 2.0}}, {"takes": {"b": 1}}, {"exact": None}, {"more": 1}]
)
def test_a_document_that_is_no_allocation_is_refused(wrong):
    good = allocate("equal", sizes={"a": 10}, n=3).to_dict()
    assert Allocation.from_dict(good).takes == {"a": 3}
    with pytest.raises(BadValue):
        Allocation.from_dict(good | wrong)
