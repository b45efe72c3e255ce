"""Which estimator a plan takes where several serve: by the interval to expect, with the reason in the plan; 0.8 as it was."""

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue
from dpsurvey.ledger.terms import Terms
from dpsurvey.mechanism.centred_ratio import CentredRatio
from dpsurvey.mechanism.laplace import Laplace
from dpsurvey.statistic import statistic_from_dict
from dpsurvey.survey.plan import Plan, plan_from

pytestmark = pytest.mark.quick

SIZES = {"E": 4421, "H": 755, "M": 1018}
SCHOOLS = ds.Frame("schools.parquet", unit="id", size=sum(SIZES.values()), categories={"kind": SIZES, "sex": ["f", "m"]})
DESIGN = ds.stratified("kind", within={"E": ds.srs(100), "H": ds.srs(50), "M": ds.srs(50)})
PUPILS = (0, 4000)
BY_KIND = {"E": (430, 180), "H": (1350, 750), "M": (900, 400)}
FIGURES = (600.0, 300.0, 2000.0, 800.0, 0.7)


def plan_of(*statistics, epsilon=5.0, delta=0.0, design=DESIGN, share=1.0, **more):
    design = design.resolve(SCHOOLS)
    setting = ds.Setting("sample", "frame", neighbours="replace-one")
    terms = Terms("schools", SCHOOLS, design, setting, ds.Budget(epsilon, delta))
    return Plan(terms, tuple(statistics), share, **more)


def chosen(*statistics, **more):
    return [why.split(":")[0] for _, why in plan_of(*statistics, **more).choices]


def test_the_stratification_is_used_unless_its_noise_dominates() -> None:
    total = ds.total("pupils", PUPILS)
    assert chosen(total, epsilon=5.0) == ["by-stratum"]
    assert chosen(total, epsilon=0.1) == ["pooled"]
    # Half of the budget, and ten numbers that share it, are less epsilon for this one.
    others = [ds.mean(f"y{place}", PUPILS) for place in range(30)]
    assert set(chosen(total, *others, epsilon=5.0)) == {"pooled"}
    assert chosen(total, epsilon=5.0, share=0.03) == ["pooled"]
    assert chosen(ds.proportion("open", "yes"), epsilon=5.0) == ["by-stratum"]
    assert chosen(ds.proportion("open", "yes"), epsilon=0.02) == ["pooled"]


def test_declared_figures_decide_and_are_named() -> None:
    declared = ds.mean("pupils", PUPILS, expect=BY_KIND)
    ((name, why),) = plan_of(declared, epsilon=3.0).choices
    assert (name, why.split(":")[0]) == ("mean of pupils", "by-stratum")
    assert "declared figures" in why
    assert "pooled" in why
    ((_, supposed),) = plan_of(ds.mean("pupils", PUPILS)).choices
    assert "figures that are supposed" in supposed
    # Values that strata say nothing about: what the noise of strata costs is no longer worth it.
    alike = ds.mean("pupils", PUPILS, expect=dict.fromkeys(SIZES, (1000, 300)), between=1e-9)
    assert chosen(alike, epsilon=1.0) == ["pooled"]


def test_the_reason_stands_in_the_plan() -> None:
    plan = plan_of(ds.total("pupils", PUPILS))
    assert "Estimator of total of pupils: by-stratum: intervals are expected to be" in str(plan)
    assert plan.to_dict()["choices"].keys() == {"total of pupils"}
    assert plan_of(ds.mean("pupils", PUPILS, estimator="pooled")).choices == ()
    assert plan_of(ds.mean("pupils", PUPILS), design=ds.srs(200)).choices == ()
    both = plan_of(ds.mean("pupils", PUPILS), ds.mean("pupils", PUPILS, by="kind"))
    assert len(both.items) == 1
    assert "published by the same plan" in both.choices[0][1]


@pytest.mark.parametrize("epsilon", [3.0, 10.0, 100.0])
def test_totals_of_schools_are_hardly_wider_than_without_privacy(epsilon: float) -> None:
    """Very different means of strata, bounds that fit: the interval beside that of the same sample without noise."""
    rng = np.random.default_rng(5)
    statistic, wide, close = ds.total("pupils", PUPILS), [], []
    plan = plan_of(statistic, epsilon=epsilon)
    item = plan.items[0]
    assert item.query.by == ("kind",)
    for _ in range(40):
        drawn = zip(BY_KIND.values(), (100, 50, 50), strict=True)
        rows = [np.clip(rng.normal(mean, sd, take), 0, 4000) / 4000 for (mean, sd), take in drawn]
        sums = np.array([[y.sum(), (y * (1 - y)).sum()] for y in rows]) * item.query.steps
        noisy = sums + rng.laplace(0.0, item.mechanism.scale, sums.shape)
        for found, each in ((wide, noisy), (close, sums)):
            numbers = plan.estimate(item, statistic, each)
            found.append(float((numbers.high - numbers.low)[0]))
    assert np.median(wide) / np.median(close) < {3.0: 1.5, 10.0: 1.1, 100.0: 1.01}[epsilon]


def test_a_first_ratio_is_looked_for_where_it_is_not_lost_in_its_noise() -> None:
    ratio = ds.ratio("food", "income", (0, 4000), (0, 4000), expect=FIGURES)
    assert chosen(ratio, epsilon=5.0, design=ds.srs(3000)) == ["centred"]
    assert chosen(ratio, epsilon=0.05, design=ds.srs(3000)) == ["five-sums"]
    assert chosen(ratio, epsilon=0.05, delta=1e-6, design=ds.srs(3000)) == ["five-sums"]
    bare = ds.ratio("food", "income", (0, 4000), (0, 4000))
    assert chosen(bare, epsilon=5.0, design=ds.srs(3000)) == ["centred"]
    assert chosen(bare, epsilon=0.3, design=ds.srs(3000)) == ["five-sums"]
    named = ds.ratio("food", "income", (0, 4000), (0, 4000), estimator="five-sums")
    assert plan_of(named, design=ds.srs(3000)).choices == ()
    with pytest.raises(BadValue, match="unknown estimator"):
        ds.ratio("food", "income", (0, 1), (0, 1), estimator="centered")


def test_the_names_of_estimators_are_written_and_read_back() -> None:
    for statistic in (
        ds.ratio("a", "b", (0, 1), (0, 1), estimator="centred"),
        ds.ratio("a", "b", (0, 1), (0, 1)),
        ds.mean("a", (0, 1), estimator="weighted-pooled"),
    ):
        assert statistic_from_dict(statistic.to_dict()) == statistic
    assert "estimator" not in ds.ratio("a", "b", (0, 1), (0, 1)).to_dict()


def test_plans_of_0_8_take_what_they_took() -> None:
    statistics = (ds.total("pupils", PUPILS), ds.ratio("food", "income", (0, 4000), (0, 4000), expect=FIGURES))
    now, then = (plan_of(*statistics, epsilon=50.0, as_in_0_8=old) for old in (False, True))
    assert [item.query.encoding.name for item in now.items] == ["moments", "centred"]
    assert now.items[0].query.by == ("kind",)
    assert [item.query.encoding.name for item in then.items] == ["moments", "ratio"]
    assert then.items[0].query.by == ()
    assert then.choices == ()


def test_a_plan_that_is_divided_anew_keeps_its_estimators_also_when_it_is_read_back() -> None:
    statistics = (ds.total("pupils", PUPILS), ds.mean("staff", (0, 300)))
    plan = plan_of(*statistics, epsilon=12.0)
    small = plan.with_shares([0.02, 0.03])
    assert [item.query for item in small.items] == [item.query for item in plan.items]
    again = plan_from(plan.terms, small.written(), statistics)
    assert [item.query for item in again.items] == [item.query for item in plan.items]
    # Planned with so little from the start, one noisy sum would have been chosen.
    assert plan_of(*statistics, epsilon=12.0, share=0.05).items[0].query.by == ()


def people(size: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    income = rng.beta(2, 4, size) * 4000
    food = np.clip(income * 0.3 * rng.gamma(6, 1 / 6, size), 0, 4000)
    return pd.DataFrame({"id": range(size), "income": income, "food": food, "sex": ["f", "m"] * (size // 2)})


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_ratios_in_two_steps_are_released_contrasted_saved_and_computed_again(delta: float, tmp_path) -> None:
    rows = people()
    rows.loc[7, "food"] = np.nan
    frame = ds.Frame(rows, "id", len(rows), {"sex": ["f", "m"]})
    survey = ds.Survey(frame, ds.srs(2000), budget=ds.Budget(400.0, delta), ledger=tmp_path / "books")
    food, income = rows["food"], rows["income"]
    figures = (food.mean(), food.std(), income.mean(), income.std(), food.corr(income))
    by_sex = ds.ratio("food", "income", (0, 4000), (0, 4000), by="sex", missing="drop", expect=figures)
    whole = ds.ratio("food", "income", (0, 4000), (0, 4000), missing="drop", expect=figures)
    # The contrast first: whoever reads the sums first says how they are answered.
    plan = survey.plan(ds.contrast(by_sex, "f", "m"), by_sex, whole)
    assert [item.query.encoding.name for item in plan.items] == ["centred", "centred"]
    assert all(isinstance(item.mechanism, CentredRatio) for item in plan.items)
    release = plan.release()
    release.save(tmp_path / "release.json")
    assert ds.Release.load(tmp_path / "release.json").recompute() == release.document["estimates"]
    difference, *sexes, everybody = release.estimates
    assert difference["estimate"] == pytest.approx(sexes[0]["estimate"] - sexes[1]["estimate"], rel=1e-9)
    assert everybody["method"] == "Fieller, residuals from a noisy centre"
    kept = rows.dropna()
    truth = kept["food"].sum() / kept["income"].sum()
    # Far more than five standard errors, with this epsilon.
    assert abs(everybody["estimate"] - truth) < 0.03
    predicted = {row["name"]: row["se"] for row in plan.predictions}
    assert predicted[whole.name] == pytest.approx(everybody["se"], rel=0.2)


def test_what_is_said_of_a_ratio_in_two_steps_is_what_five_sums_say_without_noise(tmp_path) -> None:
    rows = people()
    frame = ds.Frame(rows, "id", len(rows))
    found = {}
    for estimator in ("centred", "five-sums"):
        survey = ds.Survey(frame, ds.srs(4000), budget=ds.Budget(1e7), ledger=tmp_path / estimator)
        setting = {"where": {"income": (0, 4000)}}
        statistic = ds.ratio("food", "income", (0, 4000), (0, 4000), estimator=estimator, **setting)
        found[estimator] = survey.plan(statistic).release().estimates[0]
    for figure in ("estimate", "ci_low", "ci_high"):
        assert found["centred"][figure] == pytest.approx(found["five-sums"][figure], rel=1e-4)


def test_the_answer_without_noise_is_what_the_rehearsal_of_nobody_gives() -> None:
    plan = plan_of(ds.ratio("food", "income", (0, 4000), (0, 4000), estimator="centred"), design=ds.srs(3000))
    item = plan.items[0]
    assert isinstance(item.mechanism, CentredRatio)
    assert isinstance(item.mechanism.of_sums, Laplace)
    answer = item.mechanism.answer(item.query.of_nobody)
    assert [len(row) for row in answer] == [CentredRatio.width]
    assert np.all(np.isfinite(plan.estimate(item, plan.statistics[0], np.array(answer, dtype=float)).low))
