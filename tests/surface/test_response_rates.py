"""The response rate of a release comes from noisy sums that were charged anyway; what is not adjusted for nonresponse says so."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.statistic.notes import Note
from dpsurvey.view.report import report_html

SIZE, STRATA = 6000, {"north": 4000, "south": 2000}
DESIGNS = {
    "srs": ds.srs(n=1500),
    "poisson": ds.poisson(0.25),
    "strata of unequal rates": ds.stratified("region", within={"north": ds.srs(n=400), "south": ds.srs(n=1000)}),
    "clusters": ds.cluster("psu", ds.srs(n=150)),
}
MEAN = ds.mean("income", bounds=(0, 100))
BY_REGION = ds.mean("income", bounds=(0, 100), by="region")


def register():
    number = np.arange(SIZE)
    region = np.where(number < 4000, "north", "south")
    return pd.DataFrame({"id": number, "region": region, "psu": number // 10, "sex": number % 2, "income": number % 97 * 1.0})


def released(folder, design, *asked, epsilon=50.0, answering=0.6, blank=0.0, setting=None, seed=4):
    """A release from the answers of a sealed sample, and the share of the drawn units' weight that answered."""
    rows, random = register(), np.random.default_rng(seed)
    frame = ds.Frame(rows, "id", SIZE, {"region": STRATA, "sex": ["0", "1"]}, public=["psu"])
    weights = {"weight_range": (1.0, 40.0)} if design.kind == "cluster" else {}
    survey = ds.Survey(frame, design, setting, budget=ds.Budget(epsilon), ledger=folder / "books.ledger", **weights)
    drawn = pd.read_parquet(survey.draw(folder / "sample.parquet").path)
    came_back = random.random(len(drawn)) < answering
    answers = rows[rows["id"].isin(drawn["unit"][came_back])][["id", "income", "sex"]].reset_index(drop=True)
    if blank:
        answers["income"] = answers["income"].astype(object).where(random.random(len(answers)) >= blank, None)
        answers["income"] = answers["income"].astype("Float64")
    plan = survey.plan(*asked, responses=answers)
    return plan.release(), plan, float(drawn["weight"][came_back].sum()) / SIZE


ASKED = [MEAN, BY_REGION, ds.proportion("sex", "1"), ds.median("income", (0, 100)), replace(MEAN, missing="drop")]


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("asked", ASKED, ids=lambda each: each.name)
def test_the_rate_is_that_of_the_weights_that_came_back(design, asked, tmp_path):
    release, _, truth = released(tmp_path, DESIGNS[design], asked, blank=0.3 if asked.missing else 0.0)
    found = release.document["response"]
    # Laplace noise of the sums: 16 deviations have a chance below 1e-8.
    assert abs(found["rate"] - truth) <= 16 * found["se_noise"]
    assert 0.0 < found["se_noise"] < 0.05
    assert found["from"] == asked.name


def test_the_rate_is_never_the_exact_one(tmp_path):
    release, _, truth = released(tmp_path, DESIGNS["srs"], MEAN)
    # Its noise has thousands of lattice steps in each of three sums: none at all has a chance below 1e-10.
    assert release.document["response"]["rate"] != truth


def test_the_rate_is_of_the_sums_that_know_it_best_and_spends_nothing_of_its_own(tmp_path):
    release, plan, _ = released(tmp_path, DESIGNS["srs"], MEAN, ds.table("region", "sex"))
    assert release.document["response"]["from"] == "table of region by sex"
    assert release.guarantee.epsilon <= 50.0
    assert len(release.document["noisy_sums"]) == len(plan.items) == 2


def test_where_no_noisy_sum_counts_all_who_answered_that_is_said_and_no_number_shown(tmp_path):
    asked = [ds.mean("income", (0, 100), where={"sex": "1"}), ds.ratio("income", "sex", (0, 100), (0, 1))]
    release, _, _ = released(tmp_path, DESIGNS["srs"], *asked)
    assert release.document["response"]["rate"] is None
    assert "no noisy sum" in release.document["response"]["note"]
    assert "Response rate: not given" in str(release)


def test_a_rate_that_noise_hides_is_not_given(tmp_path):
    release, _, _ = released(tmp_path, DESIGNS["srs"], MEAN, epsilon=0.0005)
    # Noise of 9,800 in the number of 900 answers: above five times that with a chance of 1e-4, and then far above what can be.
    found = release.document["response"]
    assert found["rate"] is None or found["rate"] == 1.0
    assert found["se_noise"] > 1.0


def test_what_is_not_adjusted_for_nonresponse_says_so_and_what_is_does_not(tmp_path):
    counts = {"sex": {"0": 3000, "1": 3000}}
    asked = [MEAN, ds.calibrated(MEAN, counts), ds.total("income", (0, 100)), ds.greg(MEAN, {"sex": ((0, 1), 0.5)})]
    release, _, _ = released(tmp_path, DESIGNS["srs"], *asked)
    said = {row["statistic"]: Note.NOT_ADJUSTED in row["notes"] for row in release.estimates}
    assert said == {"mean": True, "calibrated": False, "total": True, "greg": False}
    assert release.recompute() == release.estimates


def test_it_is_shown_in_words_and_on_the_report_and_only_where_answers_came_back(tmp_path):
    release, _, _ = released(tmp_path, DESIGNS["poisson"], MEAN)
    line = next(line for line in str(release).splitlines() if line.startswith("Response rate: "))
    assert line.rstrip(".") in report_html(release)
    (tmp_path / "all").mkdir()
    frame = ds.Frame(register(), "id", SIZE)
    survey = ds.Survey(frame, ds.srs(n=100), budget=ds.Budget(1.0), ledger=tmp_path / "all" / "books.ledger")
    everybody = survey.plan(MEAN).release()
    assert "response" not in everybody.document
    assert "Response rate" not in str(everybody)
    assert not any("nonresponse" in note for note in everybody.estimates[0]["notes"])
