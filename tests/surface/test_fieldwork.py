"""What the field brings and costs, and figures of an earlier release: in predictions alone, with nothing spent."""

import json
import math

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey import planning
from dpsurvey.errors import BadValue

REGIONS = {"north": 1200, "south": 600, "island": 200}
SIZE = sum(REGIONS.values())
INCOME = ds.mean("income", bounds=(0, 100), expect=(50, 18))
BY_REGION = ds.stratified("region", within={"north": ds.srs(n=120), "south": ds.srs(n=80), "island": ds.srs(n=40)})


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(7)
    region = np.repeat(list(REGIONS), list(REGIONS.values()))
    level = np.repeat([40.0, 55.0, 70.0], list(REGIONS.values()))
    columns = {"id": np.arange(SIZE), "region": region, "income": level + random.normal(0, 10, SIZE)}
    return pd.DataFrame(columns | {"status": random.choice(["idle", "busy"], SIZE, p=[0.3, 0.7])})


def a_survey(table="not there.parquet", folder=None, design=None, epsilon=1.0, name="survey", public=()):
    frame = ds.Frame(table, unit="id", size=SIZE, categories={"region": REGIONS, "status": ["idle", "busy"]}, public=public)
    ledger = folder / "books.ledger" if folder else "no.ledger"
    return ds.Survey(frame, design or ds.srs(n=400), budget=ds.Budget(epsilon), ledger=ledger, name=name)


@pytest.mark.parametrize(
    "response", [0, 0.0, -0.5, 1.01, math.nan, math.inf, True, "0.5", None, {"north": 0.0}, {"north": math.nan}]
)
def test_a_response_rate_outside_0_1_is_refused(response):
    with pytest.raises(BadValue, match=r"\(0, 1\]"):
        ds.Fieldwork(response=response)


@pytest.mark.parametrize(
    "given",
    [{"cost": -1}, {"cost": math.nan}, {"cost": {"north": -1}}, {"cluster_cost": -1}, {"fixed_cost": math.inf}, {"cost": "10"}],
)
def test_costs_that_are_no_amounts_are_refused(given):
    with pytest.raises(BadValue, match="not negative"):
        ds.Fieldwork(**given)


@pytest.mark.parametrize("what", ["response", "cost"])
def test_figures_by_stratum_of_no_stratum_are_refused(what):
    with pytest.raises(BadValue, match="names no stratum"):
        ds.Fieldwork(**{what: {}})


@pytest.mark.parametrize("budget", [0, -1, math.nan, math.inf, "100", True])
def test_a_field_budget_that_is_no_positive_amount_is_refused(budget):
    with pytest.raises(BadValue, match="positive amount"):
        ds.Fieldwork(budget=budget)


@pytest.mark.parametrize("what", ["response", "cost"])
@pytest.mark.parametrize("labels", [("north", "south"), ("north", "south", "island", "moon")])
def test_figures_by_stratum_name_every_stratum_and_no_other(what, labels):
    given = ds.Fieldwork(**{what: dict.fromkeys(labels, 0.5)})
    with pytest.raises(BadValue, match="every stratum") as caught:
        a_survey(design=BY_REGION).plan(INCOME, fieldwork=given)
    assert "island, north, south" in caught.value.hint
    with pytest.raises(BadValue, match="every stratum") as caught:
        a_survey().plan(INCOME, fieldwork=given)
    assert "give one number" in caught.value.hint


def test_costs_of_strata_add_up():
    cost = {"north": 10, "south": 20, "island": 100}
    given = ds.Fieldwork(response={"north": 0.5, "south": 0.75, "island": 1.0}, cost=cost, fixed_cost=500, budget=7300)
    plan = a_survey(design=BY_REGION).plan(INCOME, fieldwork=given)
    found = given.expected(plan.facts)
    assert (found["drawn"], found["answers"]) == (240.0, 60 + 60 + 40)
    assert found["cost"] == 500 + 120 * 10 + 80 * 20 + 40 * 100
    assert found["affordable"]
    assert "Fieldwork: about 240 units drawn, 160 answers; cost 7,300 of 7,300." in str(plan)
    poor = a_survey(design=BY_REGION).plan(INCOME, fieldwork=ds.Fieldwork(cost=cost, budget=6000))
    assert "more than the field budget" in str(poor)
    assert not poor.to_dict()["fieldwork"]["expected"]["affordable"]
    json.dumps(plan.to_dict(), allow_nan=False)


def test_costs_of_strata_of_random_size_are_those_of_their_rates():
    within = {"north": ds.poisson(0.1), "south": ds.poisson(0.2), "island": ds.poisson(0.5)}
    given = ds.Fieldwork(cost={"north": 1, "south": 10, "island": 100})
    plan = a_survey(design=ds.stratified("region", within=within)).plan(INCOME, fieldwork=given)
    found = given.expected(plan.facts)
    assert found["drawn"] == pytest.approx(120 + 120 + 100)
    assert found["cost"] == pytest.approx(120 + 1200 + 10_000)


def test_costs_of_clusters_add_up():
    design = ds.cluster("psu", ds.srs(n=40), clusters=200, cap=12)
    given = ds.Fieldwork(response=0.5, cost=3, cluster_cost=70, fixed_cost=11)
    plan = a_survey(design=design, public=["psu"]).plan(INCOME, fieldwork=given)
    found = given.expected(plan.facts)
    # 40 of 200 clusters are a fifth of 2,000 units.
    assert (found["clusters"], found["drawn"], found["answers"]) == (40, pytest.approx(400), pytest.approx(200))
    assert found["cost"] == pytest.approx(11 + 40 * 70 + 400 * 3)
    assert "in 40 clusters" in str(plan)


@pytest.mark.parametrize("response", [0.9, 0.5, 0.25])
def test_nonresponse_raises_the_sampling_error_as_fewer_answers_do(response):
    full = a_survey().plan(INCOME)
    thin = a_survey().plan(INCOME, fieldwork=ds.Fieldwork(response=response))
    # By hand: 400 of 2,000 drawn, 400 r of them answer.
    by_hand = 18 * math.sqrt((1 - 0.2 * response) / (400 * response))
    assert thin.predictions[0]["se_sampling"] == pytest.approx(by_hand, rel=0.01)
    assert thin.predictions[0]["se_sampling"] > 0.99 * full.predictions[0]["se_sampling"] / math.sqrt(response)
    assert thin.predictions[0]["se_noise"] > full.predictions[0]["se_noise"] / response, "the number of answers is secret"
    assert thin.to_dict()["guarantee"]["epsilon"] == full.to_dict()["guarantee"]["epsilon"], "expected response amplifies nothing"


def test_response_by_stratum_is_that_of_each_stratum():
    hours = ds.mean("hours", bounds=(0, 60), by="region", expect=(35, 10))
    one = a_survey(design=BY_REGION, epsilon=8.0).plan(hours, fieldwork=ds.Fieldwork(response=0.5))
    own = a_survey(design=BY_REGION, epsilon=8.0).plan(
        hours, fieldwork=ds.Fieldwork(response={"north": 0.5, "south": 0.5, "island": 1.0})
    )
    for same, other in zip(one.predictions, own.predictions, strict=True):
        ratio = other["se_sampling"] / same["se_sampling"]
        # The island: 40 answers from 200 in place of 20.
        expected = math.sqrt((1 - 0.2) / 40 / ((1 - 0.1) / 20)) if other["by"]["region"] == "island" else 1.0
        assert ratio == pytest.approx(expected, rel=0.05)


def test_for_a_design_without_the_strata_figures_are_those_of_the_average_unit():
    within = ds.stratified("region", within=ds.cluster("psu", ds.srs(n=10), clusters=60, cap=20))
    given = ds.Fieldwork(
        response={"north": 0.5, "south": 0.6, "island": 1.0}, cost={"north": 10, "south": 20, "island": 100}, budget=50_000
    )
    plan = a_survey(design=within, public=["psu"]).plan(INCOME, fieldwork=given)
    average = given.averaged(plan.facts)
    assert average.response == pytest.approx((1200 * 0.5 + 600 * 0.6 + 200 * 1.0) / 2000)
    assert average.cost == pytest.approx((1200 * 10 + 600 * 20 + 200 * 100) / 2000)
    rows = planning.rates(plan, at=[1.0])
    assert rows[0]["cost"] == pytest.approx(1200 * 10 + 600 * 20 + 200 * 100)
    assert rows[0]["answers"] == pytest.approx(1200 * 0.5 + 600 * 0.6 + 200)


def test_full_response_changes_nothing():
    full, said = a_survey().plan(INCOME), a_survey().plan(INCOME, fieldwork=ds.Fieldwork(cost=10))
    assert said.predictions == full.predictions
    assert not said.respondents_only


def test_a_plan_with_nonresponse_needs_a_file_of_responses_and_its_release_is_computed_again(rows, tmp_path):
    path = tmp_path / "register.parquet"
    rows.to_parquet(path)
    fieldwork, asked = ds.Fieldwork(response=0.7), ds.mean("income", bounds=(0, 100), expect=(47.5, 14.2))
    survey = a_survey(path, tmp_path, epsilon=20.0)
    with pytest.raises(BadValue, match="not everybody is expected to answer") as caught:
        survey.plan(asked, fieldwork=fieldwork).release()
    assert "responses=" in caught.value.hint
    assert not (tmp_path / "books.ledger").exists() or ds.Ledger(tmp_path / "books.ledger").spending(survey.terms).spent == 0.0
    survey.draw(tmp_path / "sample.parquet")
    drawn = duckdb.sql(f"select unit from '{tmp_path / 'sample.parquet'}'").df()["unit"].sort_values()
    back = rows[rows["id"].isin(drawn.sample(frac=0.7, random_state=1))][["id", "income"]]
    expected = survey.plan(asked, fieldwork=fieldwork)
    release = survey.plan(asked, fieldwork=fieldwork, responses=back).release()
    row = release.estimates[0]
    # 16 standard errors: false alarm below 1e-9. The mean of the bounds is more than that away.
    truth = float(rows["income"].clip(0, 100).mean())
    assert abs(row["estimate"] - truth) < 16 * row["se"]
    # A deviation of 280 answers is known to 5 %: 35 % is 7 of that.
    assert row["se"] == pytest.approx(expected.predictions[0]["se"], rel=0.35), "the plan said about this error"
    saved = ds.Release.load(release.save(tmp_path / "release.json"))
    assert saved.recompute() == release.estimates
    # The deviation that it tells is that of those who answered, not of as many as were drawn: 0.84 of that would be outside.
    told = planning.expecting(survey.plan(ds.mean("income", bounds=(0, 100))), saved).statistics[0].expect[1]  # type: ignore[attr-defined]
    spread = float(back["income"].clip(0, 100).std())
    assert 0.9 * spread < told < 1.1 * spread


@pytest.fixture(scope="module")
def wave(rows, tmp_path_factory):
    """A release with means by stratum, a proportion, a proportion by stratum and quantiles."""
    folder = tmp_path_factory.mktemp("wave")
    survey = a_survey(rows, folder, design=BY_REGION, epsilon=2000.0, name="wave1")
    quantiles = [ds.quantile("income", q, bounds=(0, 100)) for q in (0.25, 0.5, 0.75)]
    statistics = (ds.mean("income", bounds=(0, 100), by="region"), ds.proportion("status", "idle", by="region"), *quantiles)
    return survey, survey.plan(*statistics).release(), folder


def test_a_plan_takes_the_figures_of_a_release_by_stratum_names_it_and_spends_nothing(rows, wave):
    survey, release, folder = wave
    before = ds.Ledger(folder / "books.ledger").spending(survey.terms).spent
    plain = a_survey(design=BY_REGION).plan(
        ds.mean("income", bounds=(0, 100)), ds.proportion("status", "idle"), ds.median("income", bounds=(0, 100))
    )
    expected = planning.expecting(plain, release)
    income, status, median = expected.statistics
    assert all(f"release {release.hash[:12]} of survey wave1" in row["rests_on"] for row in expected.predictions)
    spreads = rows.groupby("region")["income"].agg(["mean", "std"])
    for label, (mean, sd) in dict(income.expect_by).items():  # type: ignore[attr-defined]
        # Epsilon 2,000 leaves next to no noise. Of 40 to 120 units a deviation is known to 11 % at worst; 60 % is 5 of that
        # (false alarm below 1e-6), and the worst case within the bounds would be 50.
        assert sd == pytest.approx(spreads.loc[label, "std"], rel=0.6)
        assert mean == pytest.approx(spreads.loc[label, "mean"], abs=10), "6 standard errors of 40 units"
    shares = dict(status.expect_by)  # type: ignore[attr-defined]
    assert status.expect == pytest.approx(sum(REGIONS[label] * share for label, share in shares.items()) / SIZE, rel=1e-12)  # type: ignore[attr-defined]
    assert [share for share, _ in median.expect] == [0.25, 0.5, 0.75]  # type: ignore[attr-defined]
    worst, better = plain.predictions[0]["se_sampling"], expected.predictions[0]["se_sampling"]
    assert better < 0.5 * worst, "strata of known means vary less than the worst case"
    assert ds.Ledger(folder / "books.ledger").spending(survey.terms).spent == before
    json.dumps(expected.to_dict(), allow_nan=False)


def test_what_is_declared_and_what_the_release_has_not_stay_as_they_were(wave):
    _, release, _ = wave
    plan = a_survey(design=BY_REGION).plan(
        INCOME, ds.mean("hours", bounds=(0, 60)), ds.proportion("status", "busy", expect=0.5), ds.count("sector", "public")
    )
    assert planning.expecting(plan, release) == plan
    contrast = a_survey(design=BY_REGION).plan(ds.contrast(ds.mean("income", bounds=(0, 100), by="region"), "north", "south"))
    assert planning.expecting(contrast, release).statistics[0].base.expect is not None  # type: ignore[attr-defined]


def changed(release, change):
    """The document with other published estimates; nothing else is looked at."""
    document = release.to_dict()
    for row in document["estimates"]:
        change(row)
    return ds.Release(document)


def test_noisy_quantiles_out_of_order_are_put_in_order(wave):
    _, release, _ = wave

    def swap(row):
        if row["statistic"] == "quantile":
            row["estimate"] = 100.0 - row["estimate"] + 20.0

    plan = a_survey().plan(ds.median("income", bounds=(0, 100)))
    points = [value for _, value in planning.expecting(plan, changed(release, swap)).statistics[0].expect]  # type: ignore[attr-defined]
    assert points == sorted(points)
    assert all(0.0 <= value <= 100.0 for value in points)


def test_noisy_figures_outside_what_can_be_are_moved_to_what_can(wave):
    _, release, _ = wave

    def wild(row):
        row["estimate"] = {"mean": 140.0, "proportion": -0.2}.get(row["statistic"], row["estimate"])

    plan = a_survey(design=BY_REGION).plan(ds.mean("income", bounds=(0, 100)), ds.proportion("status", "idle"))
    found = planning.expecting(plan, changed(release, wild))
    assert {mean for mean, _ in dict(found.statistics[0].expect_by).values()} == {100.0}  # type: ignore[attr-defined]
    assert 0.0 < found.statistics[1].expect < 0.01  # type: ignore[attr-defined]
    assert all(math.isfinite(row["se"]) for row in found.predictions)
