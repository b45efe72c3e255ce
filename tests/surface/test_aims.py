"""Wanted errors first: the least shares, the least epsilon and the fewest units that meet them, or a refusal in words."""

import json
import math
import re

import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, NotFound, Refusal
from dpsurvey.survey.shares import share_used

REGIONS = {"north": 1200, "south": 600, "island": 200}
SIZE = sum(REGIONS.values())
FRAME = ds.Frame("not there.parquet", unit="id", size=SIZE, categories={"region": REGIONS, "sex": ["female", "male"]})
REPLACE, ADD = ds.Setting("frame", neighbours="replace-one"), ds.Setting("frame", neighbours="add-remove")
INCOME = ds.mean("income", bounds=(0, 100), expect=(50, 18), source="Yearbook")
STATUS = ds.proportion("status", "idle", expect=0.1)
HOURS = ds.mean("hours", bounds=(0, 60), expect=(35, 10))
BY = ds.mean("hours", bounds=(0, 60), by="region", expect=(35, 10))
SEX = ds.count("sex", "female")
BY_REGION = ds.stratified("region", within={label: ds.srs(n=n) for label, n in (("north", 200), ("south", 120), ("island", 80))})
# Design, setting, budget, kind of noise.
CASES = {
    "srs, sample protected": (ds.srs(n=400), None, ds.Budget(1.0), "auto"),
    "srs": (ds.srs(n=400), REPLACE, ds.Budget(1.0), "auto"),
    "srs, Gaussian": (ds.srs(n=400), REPLACE, ds.Budget(1.0, 1e-6), "gaussian"),
    "Poisson": (ds.poisson(0.2), ADD, ds.Budget(1.0), "auto"),
    "Poisson, Gaussian": (ds.poisson(0.2), ADD, ds.Budget(1.0, 1e-6), "gaussian"),
    "strata": (BY_REGION, REPLACE, ds.Budget(1.0), "auto"),
}
SOME = ("srs", "Poisson, Gaussian", "strata")
# Amounts are found to half a thousandth, so a hundredth less is always too little.
SAFE = 1.0 + 1e-9


def a_survey(design=None, setting=None, budget=None, frame=FRAME, **more):
    return ds.Survey(frame, design or ds.srs(n=400), setting, budget=budget or ds.Budget(1.0), ledger="no.ledger", **more)


def a_plan(case="srs", *statistics, share=1.0, weights=(), **more):
    design, setting, budget, noise = CASES[case]
    statistics = statistics or (INCOME, STATUS, SEX)
    return a_survey(design, setting, budget).plan(*statistics, share=share, weights=weights, noise=noise, **more)


def margin(plan, column):
    return max(row["moe"] for row in plan.predictions if row["of"] == column)


def wider(plan, factor, *columns):
    return {column: factor * margin(plan, column) for column in columns}


def shares(plan):
    return [item.share for item in plan.items]


@pytest.mark.parametrize("case", CASES)
def test_every_target_is_met_by_the_least_share_and_the_others_divide_the_rest(case):
    plan = a_plan(case, INCOME, HOURS, SEX, STATUS, weights=(1, 1, 3, 1))
    targets = wider(plan, 1.5, "income", "hours")
    aimed = plan.aim(targets)
    for place, (column, moe) in enumerate(targets.items()):
        assert 0.995 * moe < margin(aimed, column) <= SAFE * moe
        less = shares(aimed)
        less[place] *= 0.99
        assert margin(aimed.with_shares(less), column) > moe, "a hundredth less does not do"
    assert share_used(aimed, shares(aimed)) == pytest.approx(1.0, rel=1e-9)
    assert shares(aimed)[2] == pytest.approx(3.0 * shares(aimed)[3], rel=1e-9), "the rest goes by weights"
    spent = aimed.terms.guarantee(aimed.charged).to_dict()["epsilon"]
    assert 0.99 < spent <= 1.0
    json.dumps(aimed.to_dict(), allow_nan=False)


@pytest.mark.parametrize("case", ["srs", "srs, Gaussian", "strata"])
def test_where_everything_has_a_target_no_more_is_spent_than_needed(case):
    plan = a_plan(case, INCOME, HOURS)
    targets = wider(plan, 1.5, "income", "hours")
    aimed = plan.aim(targets)
    assert aimed.share == pytest.approx(share_used(aimed, shares(aimed)), rel=1e-9)
    assert aimed.share < 0.95
    assert aimed.terms.guarantee(aimed.charged).to_dict()["epsilon"] < 0.97
    assert all(margin(aimed, column) <= SAFE * moe for column, moe in targets.items())
    assert aimed.aim(targets).share == pytest.approx(aimed.share, rel=2e-3), "aiming again changes nothing"


def test_the_plan_itself_meets_what_it_expects():
    plan = a_plan("srs, sample protected", INCOME)
    assert plan.aim("income", moe=SAFE * margin(plan, "income")).share == pytest.approx(1.0, rel=2e-3)


def test_a_plan_of_half_the_budget_stays_within_it():
    plan = a_plan("srs", share=0.5)
    aimed = plan.aim(wider(plan, 1.2, "income"))
    assert math.fsum(shares(aimed)) == pytest.approx(0.5, rel=1e-12)
    with pytest.raises(Refusal, match=r"there is 0\.5"):
        plan.aim("income", moe=1.001 * margin(a_plan("srs", INCOME), "income"))


def test_a_contrast_and_its_base_share_one_charge_and_both_targets_are_met():
    between = ds.contrast(BY, "north", "south")
    plan = a_plan("strata", BY, between, SEX)
    assert len(plan.items) == 2
    hours, difference = (max(row["moe"] for row in plan.predictions if row["name"] == each.name) for each in (BY, between))
    for targets in (
        {BY.name: 1.5 * hours, between.name: 3 * difference},
        {BY.name: 3 * hours, between.name: 1.5 * difference},
    ):
        aimed = plan.aim(targets)
        found = {name: max(row["moe"] for row in aimed.predictions if row["name"] == name) for name in targets}
        over = [found[name] / moe for name, moe in targets.items()]
        assert 0.995 < max(over) <= SAFE
        assert len(aimed.items) == 2


def test_a_column_that_two_statistics_measure_meets_its_target_in_both():
    plan = a_plan("srs", INCOME, ds.mean("income", bounds=(0, 100), by="sex", expect=(50, 18)), SEX)
    aimed = plan.aim("income", moe=1.3 * margin(plan, "income"))
    assert margin(aimed, "income") <= SAFE * 1.3 * margin(plan, "income")
    assert shares(aimed)[0] < shares(aimed)[1], "the whole needs less than its halves"


def epsilon_of(hint):
    return float(re.search(r"epsilon ([0-9.e+-]+) would do", hint).group(1))


@pytest.mark.parametrize("case", SOME)
def test_targets_that_do_not_fit_together_are_named_with_an_epsilon_that_does(case):
    plan = a_plan(case)
    targets = wider(plan, 0.75, "income", "status")
    alone = {column: margin(a_plan(case, statistic), column) for column, statistic in (("income", INCOME), ("status", STATUS))}
    if any(moe < alone[column] for column, moe in targets.items()):
        targets = {column: 1.02 * moe for column, moe in alone.items()}
    with pytest.raises(Refusal, match="cannot be met together") as caught:
        plan.aim(targets)
    assert all(f"'{column}'" in str(caught.value) for column in targets)
    design, setting, budget, noise = CASES[case]
    enough = ds.Budget(epsilon_of(caught.value.hint), budget.delta)
    # Of as many statistics: how many share a budget decides between estimators of strata.
    aimed = a_survey(design, setting, enough).plan(INCOME, STATUS, SEX, noise=noise).aim(targets)
    assert all(margin(aimed, column) <= SAFE * moe for column, moe in targets.items())


@pytest.mark.parametrize("case", SOME)
def test_a_target_that_does_not_fit_alone_is_named_alone_with_an_epsilon_that_does(case):
    plan = a_plan(case)
    best = margin(a_plan(case, INCOME), "income")
    sampling = 1.96 * plan.predictions[0]["se_sampling"]
    target = 0.5 * (best + sampling)
    with pytest.raises(Refusal, match=r"'income' cannot be estimated within") as caught:
        plan.aim({"income": target, "status": 5 * margin(plan, "status")})
    assert "'status' cannot" not in str(caught.value)
    assert "Yearbook" in str(caught.value)
    design, setting, budget, noise = CASES[case]
    enough = ds.Budget(epsilon_of(caught.value.hint), budget.delta)
    aimed = a_survey(design, setting, enough).plan(INCOME, STATUS, SEX, noise=noise).aim("income", moe=target)
    assert margin(aimed, "income") <= target


def test_a_target_below_the_sampling_error_names_the_sample_and_no_epsilon():
    plan = a_plan("srs")
    target = 0.9 * 1.96 * plan.predictions[0]["se_sampling"]
    with pytest.raises(Refusal, match="without any noise") as caught:
        plan.aim("income", moe=target)
    assert "1.11 times that" in str(caught.value)
    assert re.match(r"4\d\d units at epsilon 1 would do", caught.value.hint)
    with pytest.raises(Refusal, match="at any epsilon"):
        plan.least_epsilon("income", moe=target)


@pytest.mark.parametrize("case", SOME)
def test_the_least_epsilon_does_and_two_percent_less_does_not(case):
    plan = a_plan(case)
    targets = wider(plan, 1.3, "income", "status")
    least = plan.least_epsilon(targets)
    assert 0.0 < least < 1.0
    design, setting, budget, noise = CASES[case]

    def at(epsilon):
        return a_survey(design, setting, ds.Budget(epsilon, budget.delta)).plan(INCOME, STATUS, noise=noise)

    aimed = at(least).aim(targets)
    assert all(margin(aimed, column) <= SAFE * moe for column, moe in targets.items())
    assert aimed.share > 0.98
    with pytest.raises(Refusal):
        at(0.98 * least).aim(targets)


ODD = {
    "clusters": (ds.cluster("psu", ds.srs(n=60), clusters=200, cap=10), None, None),
    "with replacement": (ds.with_replacement(400), REPLACE, None),
    "systematic": (ds.systematic(n=400, order="as listed"), REPLACE, None),
    "PPS": (ds.pps("employees", n=400, at_most=0.5), None, (2.0, 12.0)),
    "strata of unequal rates": (
        ds.stratified("region", within={"north": ds.poisson(0.1), "south": ds.poisson(0.3), "island": ds.poisson(0.5)}),
        ADD,
        None,
    ),
}


@pytest.mark.parametrize("case", [pytest.param(each, marks=[pytest.mark.slow] * (each == "PPS")) for each in ODD])
def test_other_designs_aim_and_have_a_least_epsilon_too(case):
    design, setting, weights = ODD[case]
    frame = ds.Frame("not there.parquet", unit="id", size=SIZE, categories={"region": REGIONS}, public=["psu", "employees"])
    asked = (ds.total("wages", bounds=(0, 100), expect=(40, 20)), STATUS)

    def at(epsilon):
        return a_survey(design, setting, ds.Budget(epsilon), frame, weight_range=weights).plan(*asked)

    targets = wider(at(1.0), 1.15, "wages", "status")
    aimed = at(1.0).aim(targets)
    assert all(0.995 * moe < margin(aimed, column) <= SAFE * moe for column, moe in targets.items())
    least = at(1.0).least_epsilon(targets)
    assert at(least).aim(targets).share > 0.98
    with pytest.raises(Refusal):
        at(0.98 * least).aim(targets)


@pytest.mark.parametrize("case", SOME)
def test_the_fewest_units_do_and_two_percent_fewer_do_not(case):
    plan = a_plan(case, INCOME, STATUS)
    targets = wider(plan, 1.3, "income", "status")
    fewest = plan.least_size(targets)
    assert isinstance(fewest, int)
    assert 50 < fewest < 400
    there = plan.resized(fewest / 400)
    assert all(margin(there.aim(targets), column) <= SAFE * moe for column, moe in targets.items())
    with pytest.raises(Refusal):
        plan.resized(0.98 * (fewest - 1) / 400).aim(targets)


def test_the_fewest_units_are_never_more_than_the_frame_and_the_refusal_says_so():
    plan = a_plan("srs", INCOME)
    census = plan.resized(SIZE / 400)
    assert plan.least_size("income", moe=SAFE * margin(census, "income")) == SIZE
    with pytest.raises(Refusal, match="by any sample of this design") as caught:
        plan.least_size("income", moe=0.5 * margin(census, "income"))
    assert "2,000 units" in str(caught.value)
    enough = float(re.search(r"2,000 units with epsilon ([0-9.]+) would do", caught.value.hint).group(1))
    assert census.at_epsilon(enough).aim("income", moe=0.5 * margin(census, "income"))


@pytest.mark.parametrize("case", [*SOME, "srs, sample protected"])
@pytest.mark.parametrize("factor", [0.9, 0.5, 0.1])
@pytest.mark.parametrize("ask", ["aim", "least_epsilon", "least_size"])
def test_every_hint_of_a_refusal_would_do(case, factor, ask):
    """Margins below the sampling error, below that of most samples, and below that of nearly the whole frame."""
    plan = a_plan(case, INCOME)
    target = factor * 1.96 * plan.predictions[0]["se_sampling"]
    try:
        getattr(plan, ask)("income", moe=target)
    except Refusal as refused:
        hint = refused.hint
    else:
        assert ask == "least_size", "another sample may do what this one cannot"
        return
    assert "least_" not in hint, "a hint does not send back to what was refused"
    epsilon, units = (re.search(pattern, hint) for pattern in (r"epsilon ([0-9.e+-]+) would do", r"([0-9,]+) units"))
    assert epsilon or units
    there = plan if not units else plan.resized(int(units.group(1).replace(",", "")) / 400)
    there = there if not epsilon else there.at_epsilon(float(epsilon.group(1)))
    assert margin(there.aim("income", moe=target), "income") <= SAFE * target


def test_a_file_that_was_collected_has_no_other_sample_to_recommend():
    survey = ds.Survey.collected("no.parquet", n=400, size=SIZE, budget=ds.Budget(1.0), ledger="no.ledger")
    plan = survey.plan(ds.mean("income", bounds=(0, 100), expect=(50, 18)))
    with pytest.raises(Refusal) as caught:
        plan.least_epsilon("income", moe=0.5)
    assert "units" not in caught.value.hint
    assert "expect=" in caught.value.hint


def test_statistics_of_one_column_have_names_of_their_own_in_a_refusal():
    by_sex = ds.mean("income", bounds=(0, 100), by="sex")
    plan = a_plan("srs", INCOME, ds.mean("income", bounds=(0, 50)), by_sex)
    with pytest.raises(Refusal) as caught:
        plan.aim("income", moe=0.5)
    names = re.findall(r"'([^']*)' cannot be estimated", str(caught.value))
    assert len(set(names)) == 3
    assert by_sex.name in names
    assert names == [row["name"] for row in plan.predictions if row["by"].get("sex") != "male"]
    for name in names:
        assert plan.aim({name: 20.0}), "what a message calls a statistic can be aimed at"
    assert len({text.split(": ")[0] for text in plan.advice if text.startswith("mean of income, bounds")}) <= 2


def test_the_fewest_units_of_draws_with_replacement_and_of_a_sorted_systematic_sample_are_found():
    for design in (ds.with_replacement(400), ds.systematic(rate=0.2, order=["street"])):
        frame = ds.Frame("not there.parquet", unit="id", size=SIZE, public=["street"])
        plan = a_survey(design, ds.Setting("frame", neighbours="replace-one"), ds.Budget(8.0), frame=frame).plan(INCOME)
        assert 300 < plan.least_size("income", moe=1.1 * margin(plan, "income")) < 400
        assert 400 < plan.least_size("income", moe=0.9 * margin(plan, "income")) < 600


@pytest.mark.parametrize("moe", [0, 0.0, -1.0, math.nan, math.inf, True, "400", None])
@pytest.mark.parametrize("ask", ["aim", "least_epsilon", "least_size"])
def test_a_margin_that_is_no_positive_number_is_refused(ask, moe):
    with pytest.raises(BadValue):
        getattr(a_plan("srs"), ask)({"income": moe})


def test_targets_come_as_a_column_and_a_margin_or_as_a_mapping():
    plan = a_plan("srs")
    moe = 1.5 * margin(plan, "income")
    assert plan.aim("income", moe=moe) == plan.aim({"income": moe}) == plan.aim({INCOME.name: moe})
    for wrong in (("income",), ({"income": moe}, moe), ({},)):
        with pytest.raises(BadValue):
            plan.aim(*wrong)


@pytest.mark.parametrize("ask", ["aim", "least_epsilon", "least_size"])
def test_an_unknown_name_is_not_found_and_a_near_one_is_offered(ask):
    with pytest.raises(NotFound, match="did you mean 'income'"):
        getattr(a_plan("srs"), ask)({"status": 0.5, "incme": 1.0})


@pytest.mark.parametrize("given", [[0.5, -0.1, 0.1], [math.nan, 0.1, 0.1], [0.0, 0.5, 0.5]])
def test_shares_that_divide_nothing_are_refused(given):
    with pytest.raises(BadValue):
        a_plan("srs").with_shares(given)


def test_a_target_by_region_needs_what_its_smallest_region_needs():
    plan = a_plan("strata", BY, SEX)
    target = 1.2 * margin(plan, "hours")
    aimed = plan.aim("hours", moe=target)
    by_region = {row["by"]["region"]: row["moe"] for row in aimed.predictions if row["of"] == "hours"}
    assert 0.995 * target < by_region["island"] <= SAFE * target
    assert max(by_region["north"], by_region["south"]) < by_region["island"]
