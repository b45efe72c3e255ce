"""Predicted errors of collected files with very unequal weights are those of a release, and what a plan recommends exists."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.classical import Sample
from dpsurvey.errors import BadValue

YRBS = Path(__file__).parents[1] / "golden" / "yrbs2015_helmet.csv"
RANGE = (0.04, 11.0)


@pytest.fixture(scope="module")
def answers():
    """Students who answered whether they wear helmets: 8,757 records in 54 clusters, weights from 0.045 to 10.7, mean 1.11."""
    rows = pd.read_csv(YRBS).dropna(subset=["qn8"])
    return rows.assign(qn8=rows["qn8"].astype(int).astype(str), stratum=rows["stratum"].astype(str))


def a_survey(rows, folder, epsilon=1.0, **more):
    return ds.Survey.collected(
        rows,
        weights="weight",
        weights_are="design",
        weight_range=RANGE,
        budget=ds.Budget(epsilon),
        ledger=folder / f"{epsilon}.ledger",
        **more,
    )


def clusters(rows):
    return {"strata": "stratum", "psu": "psu", "categories": {"stratum": sorted(rows["stratum"].unique())}}


@pytest.mark.parametrize("declared", ["size", "n", "both", "n and the size of all students"])
@pytest.mark.parametrize("clustered", [True, False])
def test_predicted_noise_is_that_of_a_release(answers, tmp_path, declared, clustered):
    n, size = len(answers), round(answers["weight"].sum())
    public = {"size": {"size": size}, "n": {"n": n}, "both": {"n": n, "size": size}}
    given = public.get(declared, {"n": n, "size": 16_000_000})
    survey = a_survey(answers, tmp_path, **given, **(clusters(answers) if clustered else {}))
    plan = survey.plan(ds.proportion("qn8", "2", expect=0.186))
    (predicted,), (released,) = plan.predictions, plan.release().estimates
    # Without the sum of the weights their mean is taken to be in the middle of the range, here 0.66 for 1.11.
    factor = 1.1 if declared in ("size", "both") else 2.0
    assert released["se_noise"] / factor <= predicted["se_noise"] <= factor * released["se_noise"]


def test_predicted_noise_is_what_the_noise_does_to_the_estimate(answers, tmp_path):
    """2,000 times the noise of the plan on the sums of the file: their deviation is known to 2 %, a sixth of what is allowed."""
    declared = {"n": len(answers), "size": round(answers["weight"].sum())} | clusters(answers)
    asked = ds.proportion("qn8", "2", expect=0.186)
    plan = a_survey(answers, tmp_path, **declared).plan(asked)
    exact = a_survey(answers, tmp_path, 1e6, **declared).plan(asked).release().document["noisy_sums"][0]["sums"]
    (item,), random = plan.items, np.random.default_rng(5)
    noise = random.laplace(0.0, np.sqrt(item.mechanism.variance / 2.0), (2_000, *np.shape(exact)))
    estimates = plan.estimate(item, asked, np.array(exact, dtype=float) + noise).estimate
    assert np.std(estimates) == pytest.approx(plan.predictions[0]["se_noise"], rel=0.12)


def test_predicted_sampling_error_is_the_classical_one_whatever_weights_add_up_to(answers, tmp_path):
    sample = Sample({name: answers[name].to_numpy() for name in answers}, weights="weight")
    classical = sample.mean((answers["qn8"] == "2").to_numpy() * 1.0).se
    for number, size in enumerate((round(answers["weight"].sum()), 16_000_000)):
        (tmp_path / str(number)).mkdir()
        survey = a_survey(answers, tmp_path / str(number), n=len(answers), size=size)
        (row,) = survey.plan(ds.proportion("qn8", "2", expect=0.186)).predictions
        assert classical / 1.5 <= row["se_sampling"] <= 1.5 * classical
        # With a published design effect: that of a simple random sample of 8,757 students.
        (row,) = survey.plan(ds.proportion("qn8", "2", expect=0.186, deff=2.25)).predictions
        assert row["se_sampling"] == pytest.approx(1.5 * np.sqrt(0.186 * 0.814 / len(answers)), rel=1e-3)


def test_a_plan_says_when_nothing_declares_how_many_units_there_are(answers, tmp_path):
    asked = ds.proportion("qn8", "2")
    plan = a_survey(answers, tmp_path).plan(asked)
    assert "1,000 units" in plan.predictions[0]["rests_on"]
    assert any("size=" in text and "n=" in text for text in plan.advice)
    for declared in ({"n": 8757}, {"size": 9757}):
        known = a_survey(answers, tmp_path, **declared).plan(asked)
        assert "1,000" not in "; ".join([known.predictions[0]["rests_on"], *known.advice])


@pytest.mark.parametrize(
    ("statistic", "clustered", "size", "recommended"),
    [
        (ds.mean("age", bounds=(10, 20)), False, 9757, ["trim", "shrink"]),
        (ds.mean("age", bounds=(10, 20)), False, None, ["shrink"]),
        (ds.mean("age", bounds=(10, 20)), True, 9757, ["shrink"]),
        (ds.proportion("qn8", "2"), False, 9757, []),
        (ds.mean("age", bounds=(10, 20), estimator="horvitz-thompson"), False, 9757, []),
    ],
)
def test_what_a_plan_recommends_for_large_weights_can_be_asked(answers, tmp_path, statistic, clustered, size, recommended):
    survey = a_survey(answers, tmp_path, 0.02, size=size, **(clusters(answers) if clustered else {}))
    (advice,) = [text for text in survey.plan(statistic).advice if "largest weight" in text]
    assert [option for option in ("trim", "shrink") if f"{option}=" in advice] == recommended
    assert ("public rule" in advice) == (not recommended)
    for option, value in (("trim", 2.0), ("shrink", 0.5)):
        if option in recommended:
            asked = ds.mean("age", bounds=(10, 20), **{option: value})
            assert not [text for text in survey.plan(asked).advice if "largest weight" in text]


def test_trimming_without_a_public_size_is_refused_by_the_plan(answers, tmp_path):
    with pytest.raises(BadValue, match="trim= needs the public size"):
        a_survey(answers, tmp_path, n=8757).plan(ds.mean("age", bounds=(10, 20), trim=2.0))
    assert not (tmp_path / "1.0.ledger").exists()
