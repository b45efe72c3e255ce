"""Designs and settings side by side: the same figures as surveys made by hand, guarantees kept, refusals in words."""

import json
import math

import pytest

import dpsurvey as ds
from dpsurvey import planning
from dpsurvey.errors import BadValue, SurveyError
from dpsurvey.planning.designs_by_rate import EFFECTS, compare
from dpsurvey.planning.settings import recommendations
from dpsurvey.privacy.setting import all_settings
from dpsurvey.view.design_plots import COLOURS

REGIONS = {"north": 6000, "south": 3000, "island": 1000}
SIZE = sum(REGIONS.values())
CATEGORIES = {"region": REGIONS, "sex": ["female", "male"]}
FRAME = ds.Frame("not there.parquet", unit="id", size=SIZE, categories=CATEGORIES)
OPEN = ds.Frame("not there.parquet", unit="id", size=SIZE, categories=CATEGORIES, public=["psu", "employees"])
REPLACE, ADD = ds.Setting("frame", neighbours="replace-one"), ds.Setting("frame", neighbours="add-remove")
ASKED = (ds.mean("income", bounds=(0, 100), expect=(50, 18)), ds.proportion("status", "idle", expect=0.1))
RATE = 0.05
BY_HAND = {
    "simple random": ds.srs(n=500),
    "Poisson": ds.poisson(RATE),
    "with replacement": ds.with_replacement(500),
    "proportional, randomised rounding": ds.proportional(RATE),
    "systematic, secret random order": ds.systematic(n=500),
    "systematic, as listed": ds.systematic(n=500, order="as listed"),
    "stratified by region, srs inside": ds.stratified("region", within=ds.srs(rate=RATE)),
    "stratified by region, Poisson inside": ds.stratified("region", within=ds.poisson(RATE)),
    "clusters of psu": ds.cluster("psu", ds.srs(n=50), clusters=1000, cap=10),
}


def a_survey(design=None, setting=REPLACE, frame=FRAME, **more):
    return ds.Survey(frame, design or ds.srs(n=500), setting, budget=ds.Budget(1.0), ledger="no.ledger", **more)


def a_plan(design=None, setting=REPLACE, **more):
    return a_survey(design, setting).plan(*ASKED, **more)


def whole(rows):
    return {row["design"]: row for row in rows if row["statistic"] == "plan"}


@pytest.fixture(scope="module", params=["replace-one", "add-remove"])
def designs(request):
    setting = ds.Setting("frame", neighbours=request.param)
    plan = a_plan(ds.poisson(RATE), setting)
    return setting, plan, planning.compare_designs(plan, clusters=("psu", 1000, 10), sizes=("employees", 0.4))


def test_every_design_keeps_the_budget_and_whoever_is_known_to_be_sampled_gets_no_less_than_the_guarantee(designs):
    _, _, rows = designs
    json.dumps(rows, allow_nan=False)
    kept = [row for row in rows if row["refused"] is None]
    assert kept
    for row in kept:
        assert 0.0 < row["epsilon"] <= 1.0
        assert row["epsilon_in_sample"] is None or row["epsilon_in_sample"] >= row["epsilon"] - 1e-9
        assert row["neighbours"] == designs[0].neighbours
    refused = [row for row in rows if row["refused"] is not None]
    assert all(len(row["refused"].split()) > 4 and row["se"] is None and row["epsilon"] is None for row in refused)
    fixed = [row["design"] for row in refused if row["design"] in BY_HAND]
    if designs[0].neighbours == "replace-one":
        assert fixed == []


def test_a_row_is_what_the_survey_made_by_hand_would_say(designs):
    setting, _, rows = designs
    compared = 0
    for name, design in BY_HAND.items():
        own = [row for row in rows if row["design"] == name]
        if own[0]["refused"]:
            with pytest.raises(SurveyError):
                a_survey(design, setting, OPEN).plan(*ASKED)
            continue
        plan = a_survey(design, setting, OPEN).plan(*ASKED)
        for row, planned in zip(own, plan.predictions, strict=False):
            assert (row["of"], row["se"]) == (planned["of"], pytest.approx(planned["se"], rel=1e-9))
        guarantee = plan.to_dict()["guarantee"]
        assert own[0]["epsilon"] == pytest.approx(guarantee["epsilon"], rel=1e-12)
        assert own[0]["epsilon_in_sample"] == pytest.approx(guarantee["in_sample"]["epsilon"], rel=1e-12)
        compared += 1
    assert compared >= 3


def test_the_plan_itself_has_ratio_one_and_the_whole_plan_is_the_root_mean_square(designs):
    _, plan, rows = designs
    own = [row for row in rows if row["design"] == "as planned"]
    assert [row["ratio"] for row in own] == pytest.approx([1.0, 1.0, 1.0])
    assert [row["se"] for row in own[:2]] == pytest.approx([row["se"] for row in plan.predictions])
    for name, row in whole(rows).items():
        ratios = [each["ratio"] for each in rows if each["design"] == name and each["statistic"] != "plan"]
        if ratios and None not in ratios:
            assert row["ratio"] == pytest.approx(math.sqrt(sum(ratio**2 for ratio in ratios) / len(ratios)), rel=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_plan_of_half_the_budget_is_compared_at_what_it_guarantees(delta):
    """By their whole budgets others would guarantee less than the plan, or more, and the errors would say nothing."""
    survey = ds.Survey(FRAME, ds.srs(n=500), REPLACE, budget=ds.Budget(2.0, delta), ledger="no.ledger")
    plan = survey.plan(*ASKED, share=0.5)
    guaranteed = plan.terms.guarantee(plan.charged).epsilon
    assert guaranteed < 1.9
    for rows in (planning.compare_designs(plan), planning.compare_settings(plan)):
        epsilons = [row["epsilon"] for row in rows if row["epsilon"] is not None]
        assert len(epsilons) > 4
        # Gaussian noise is calibrated to a grid: a delta leaves a part in ten thousand.
        assert epsilons == pytest.approx([guaranteed] * len(epsilons), rel=2e-4)
    planned = [row for row in planning.rates(plan) if row["planned"] and row["statistic"] != "plan"]
    assert [row["se"] for row in planned] == pytest.approx([row["se"] for row in plan.predictions], rel=2e-4)
    assert [row["epsilon"] for row in planned] == pytest.approx([guaranteed] * len(planned), rel=2e-4)
    at = planning.by_epsilon(plan, at=[guaranteed])
    assert [row["se"] for row in at] == pytest.approx([row["se"] for row in plan.predictions], rel=2e-4)


def test_under_add_remove_designs_of_a_fixed_list_are_refused_or_do_not_gain():
    rows = whole(planning.compare_designs(a_plan(ds.poisson(RATE), ADD), clusters=("psu", 1000, 10)))
    gains = {name for name, row in rows.items() if row["amplified"]}
    assert {"as planned", "Poisson", "stratified by region, Poisson inside"} <= gains
    assert rows["clusters of psu"]["refused"]
    assert "clusters of psu" not in gains


@pytest.mark.parametrize("least", [9_000, {"region": {"north": 5_000, "south": 2_000, "island": 900}}], ids=["whole", "strata"])
def test_a_lower_bound_on_the_size_of_the_frame_is_kept_in_the_comparison(least):
    design = ds.stratified("region", within=ds.srs(rate=RATE)) if isinstance(least, dict) else ds.srs(n=500)
    frame = ds.Frame("not there.parquet", unit="id", size=SIZE, categories=CATEGORIES, size_at_least=least)
    plan = a_survey(design, ADD, frame).plan(*ASKED)
    own = whole(planning.compare_designs(plan))["as planned"]
    assert own["amplified"]
    assert own["epsilon_in_sample"] == plan.to_dict()["guarantee"]["in_sample"]["epsilon"] > 2.0
    assert own["ratio"] == 1.0


def test_a_comparison_is_at_the_expected_size_of_strata_with_rates_of_their_own():
    within = {"north": ds.poisson(0.02), "south": ds.poisson(0.05), "island": ds.poisson(0.2)}
    rows = planning.compare_designs(a_plan(ds.stratified("region", within=within), ADD))
    assert {row["n"] for row in rows} == {470}


@pytest.mark.parametrize("clusters", [("psu", 0, 10), ("psu", 1000, 0), ("psu", -5, 10), ("psu", 2.5, 10)])
def test_clusters_that_cannot_be_are_refused(clusters):
    with pytest.raises(BadValue):
        planning.compare_designs(a_plan(), clusters=clusters)


@pytest.mark.parametrize("most", [0.0, -0.1, 1.1, math.nan])
def test_a_largest_probability_outside_0_1_is_refused(most):
    with pytest.raises(BadValue, match="at_most"):
        planning.compare_designs(a_plan(), sizes=("employees", most))


@pytest.mark.parametrize("setting", [REPLACE, ADD, ds.Setting("sample", given="frame", neighbours="add-remove")])
def test_every_setting_has_a_row_one_is_the_plans_own_and_one_is_recommended(setting):
    plan = a_plan(ds.poisson(RATE), setting)
    rows = planning.compare_settings(plan)
    json.dumps(rows, allow_nan=False)
    assert [(row["protect"], row["given"]) for row in rows] == [
        (each.protect, each.given) for each in all_settings(setting.neighbours)
    ]
    assert len(rows) == (11 if setting.neighbours == "replace-one" else 10)
    assert [(row["protect"], row["given"]) for row in rows if row["own"]] == [(setting.protect, setting.given)]
    assert [(row["protect"], row["given"]) for row in rows if row["recommended"]] == [("sample", "frame")]
    assert all((row["recommendation"] is None) == row["recommended"] for row in rows)
    for row in rows:
        assert row["refused"] is None
        assert row["epsilon"] <= 1.0
        assert row["epsilon_in_sample"] >= row["epsilon"] - 1e-9
        assert row["not_protected"]
        assert row["amplifies"].startswith("sampling" if row["protect"] in ("population", "frame") else "nothing")
    assert next(row["ratio"] for row in rows if row["own"]) == pytest.approx(1.0)


def test_a_row_of_settings_is_the_plan_under_that_setting():
    rows = planning.compare_settings(a_plan())
    for row in rows:
        setting = ds.Setting(row["protect"], row["given"], neighbours="replace-one")
        planned = a_plan(setting=setting).predictions
        assert row["se_noise"] == pytest.approx(planned[0]["se_noise"], rel=1e-9)
        ratio = math.sqrt(sum((one["se"] / two["se"]) ** 2 for one, two in zip(planned, a_plan().predictions, strict=True)) / 2)
        assert row["ratio"] == pytest.approx(ratio, rel=1e-9)


def test_a_sample_of_fixed_size_refuses_one_record_more_or_less_in_words():
    rows = planning.compare_settings(a_plan(setting=ADD))
    refused = {(row["protect"], row["given"]): row["refused"] for row in rows if row["refused"]}
    assert {protect for protect, _ in refused} == {"sample"}
    assert len(refused) == sum(row["protect"] == "sample" for row in rows)
    assert all(len(text.split()) > 6 for text in refused.values())
    assert all(row["se_noise"] is None and row["ratio"] is None for row in rows if row["refused"])


def test_a_plan_against_a_recommendation_says_so_and_one_with_it_does_not():
    assert len(recommendations()) == len(set(recommendations())) == 4

    def against(setting):
        return [text for text in a_plan(setting=setting).advice if "recommendation of Bailie and Drechsler" in text]

    for setting in all_settings("replace-one"):
        recommended = (setting.protect, setting.given) == ("sample", "frame")
        if setting.answers_alone:
            # Not one of theirs: a plan says in words of its own what is left without protection.
            assert [text for text in a_plan(setting=setting).advice if text.startswith("the answers alone are protected")]
            continue
        assert len(against(setting)) == (0 if recommended else 1)
    assert against(None) == []
    assert "weights are not constants" in against(REPLACE)[0]
    assert against(REPLACE)[0] in str(a_plan())


def test_a_smaller_cap_never_buys_less():
    for rate in (0.01, 0.05, 0.5):
        rows = planning.caps(1.0, rate)
        json.dumps(rows, allow_nan=False)
        for kind in ("units of a cluster", "probability of a unit"):
            own = sorted((row for row in rows if row["kind"] == kind), key=lambda row: row["cap"])
            assert len(own) >= 2
            for figure, least in (("noise", 0.0), ("epsilon_of_same_noise", 0.0)):
                values = [row[figure] for row in own]
                assert values == sorted(values)
                assert values[0] > least
            spent = [row["epsilon_in_sample"] for row in own]
            assert spent == sorted(spent, reverse=True)
            assert all(row["noise"] == pytest.approx(1.0 / row["epsilon_in_sample"]) for row in own)
    one = next(row for row in planning.caps(1.0, 0.05) if row["kind"] == "probability of a unit" and row["cap"] == 0.05)
    assert one["epsilon_in_sample"] == pytest.approx(math.log1p(math.expm1(1.0) / 0.05), rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "rate"), [(0.0, 0.1), (-1.0, 0.1), (math.nan, 0.1), (math.inf, 0.1), (1.0, 0.0), (1.0, 1.5), (1.0, math.nan)]
)
def test_caps_of_no_guarantee_or_no_rate_are_refused(epsilon, rate):
    with pytest.raises(BadValue):
        planning.caps(epsilon, rate)


@pytest.mark.parametrize(
    "largest",
    [
        {"units of a cluster": [0]},
        {"units of a cluster": [-3]},
        {"probability of a unit": [0.0]},
        {"probability of a unit": [2.0]},
    ],
)
def test_caps_that_cannot_be_are_refused(largest):
    with pytest.raises(BadValue):
        planning.caps(1.0, 0.1, largest=largest)


def test_designs_at_one_rate_say_who_is_known_and_what_error_to_expect():
    rows = compare(0.1, 1.0)
    json.dumps(rows, allow_nan=False)
    for row in rows:
        if row["epsilon"] is None:
            assert len(row["refused"].split()) > 4
        elif row["epsilon_in_sample"] is not None:
            # A shifted order and sizes that decide the draw are worse than no sampling, for those who are not in the sample too.
            worse = row["epsilon"] > 1.0
            assert worse or row["epsilon_in_sample"] >= row["epsilon"] - 1e-9
    assert all(row["epsilon_in_sample"] is not None for row in rows)
    with_error = {row["design"] for row in rows if row["se"] is not None}
    assert {"Poisson", "simple random", "with replacement", "Bernoulli inside strata", "randomised rounding"} <= with_error
    assert any("cluster" in name for name in with_error)
    assert any("two stages" in name for name in with_error)
    for row in rows:
        if row["se"] is not None:
            assert row["se"] == pytest.approx(math.hypot(row["se_sampling"], row["se_noise"]), rel=1e-12)
    poisson = next(row for row in rows if row["design"] == "Poisson")
    # A proportion of one half: sqrt((1 - p) p(1 - p)/n) of 10,000 from 100,000.
    assert poisson["se_sampling"] == pytest.approx(math.sqrt(0.9 * 0.25 / 10_000), rel=1e-2)
    small = {row["design"]: row["se_sampling"] for row in compare(0.1, 1.0, size=10_000)}
    assert small["Poisson"] == pytest.approx(math.sqrt(10) * poisson["se_sampling"], rel=1e-2)
    apart = {row["design"]: row["se_sampling"] for row in compare(0.1, 1.0, icc=0.0)}
    own = {row["design"]: row["se_sampling"] for row in rows}
    clusters = "clusters of up to 10"
    assert own[clusters] == pytest.approx(math.sqrt(1.45) * apart[clusters], rel=1e-2), "deff is 1 + 9 icc"


def test_designs_by_rate_are_the_rows_of_every_rate():
    rows = planning.designs_by_rate(1.0, rates=[0.01, 0.1])
    assert [{key: row[key] for key in row if key != "rate"} for row in rows if row["rate"] == 0.1] == compare(0.1, 1.0)


@pytest.mark.parametrize(
    ("rate", "epsilon", "more"),
    [
        (0.0, 1.0, {}),
        (1.5, 1.0, {}),
        (math.nan, 1.0, {}),
        (0.1, 0.0, {}),
        (0.1, math.nan, {}),
        (0.1, 1.0, {"icc": 1.5}),
        (0.1, 1.0, {"icc": math.nan}),
        (0.1, 1.0, {"size": 0}),
        (0.1, 1.0, {"size": -5}),
    ],
)
def test_designs_at_no_rate_or_no_epsilon_are_refused(rate, epsilon, more):
    with pytest.raises(BadValue):
        compare(rate, epsilon, **more)


def test_every_effect_of_sampling_on_a_loss_has_a_colour_in_the_picture():
    assert tuple(COLOURS) == EFFECTS
