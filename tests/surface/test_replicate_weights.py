"""Files with replicate weights: how their columns are named, what is wrong with one is said before anything is spent, and what a
release of one says."""

from __future__ import annotations

import json
import math
import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.design.replicates import METHODS, Replicates
from dpsurvey.errors import BadData, BadValue, NoGuarantee, NotFound
from dpsurvey.survey.survey_file import SurveyFile, write_survey_file

COUNT = 6
NAMES = [f"wgt{place}" for place in range(1, COUNT + 1)]
MEAN = ds.mean("income", bounds=(0, 100))
# What is wrong with a row: a number that occurs nowhere else.
SECRET = 87654.321


def people() -> pd.DataFrame:
    """120 records in six groups of two strata, each left out by one replicate."""
    rng = np.random.default_rng(3)
    group = np.arange(120) % COUNT
    rows = pd.DataFrame(
        {
            "region": np.where(group < 3, "north", "south"),
            "psu": [f"c{each}" for each in group],
            "wgt": rng.integers(10, 40, 120).astype(float),
            "sex": rng.choice(["female", "male"], 120),
            "income": rng.uniform(0, 100, 120),
        }
    )
    for place, name in enumerate(NAMES):
        rows[name] = np.where(group == place, 0.0, rows["wgt"] * COUNT / (COUNT - 1))
    return rows


def survey_of(rows: Any, folder: Path, **changes: Any) -> ds.Survey:
    given: dict[str, Any] = {
        "weights": "wgt",
        "weights_are": "design",
        "weight_range": (10, 40),
        "replicates": "wgt[0-9]+",
        "replicate_method": "JK1",
        "size": 3000,
        "categories": {"region": ["north", "south"], "sex": ["female", "male"]},
        "budget": ds.Budget(4.0),
        "ledger": folder / "books.ledger",
    }
    return ds.Survey.collected(rows, **{key: value for key, value in (given | changes).items() if value is not None})


def test_columns_are_found_by_pattern_in_their_natural_order(tmp_path: Path) -> None:
    rows = people().rename(columns={"wgt1": "wgt10", "wgt2": "wgt9"})[::-1]
    rows = rows[sorted(rows.columns)]
    design = survey_of(rows, tmp_path).terms.design.to_dict()
    assert design["replicates"] == ["wgt3", "wgt4", "wgt5", "wgt6", "wgt9", "wgt10"]
    assert "replicate_scales" not in design


@pytest.mark.parametrize(
    ("method", "more", "expected"),
    [
        ("JK1", {}, 5 / 6),
        ("BRR", {}, 1 / 6),
        ("Fay", {"rho": 0.5}, 4 / 6),
        ("bootstrap", {}, 1 / 6),
        ("SDR", {}, 4 / 6),
        ("JKn", {"scale": 0.5}, 0.5),
        ("JK1", {"scale": 0.1}, 0.1),
    ],
)
def test_every_method_has_its_factor(method: str, more: dict[str, float], expected: float) -> None:
    found = Replicates(tuple(NAMES), method, **more).factors
    assert found == pytest.approx([expected] * COUNT)
    assert method in METHODS


def test_degrees_of_freedom_are_those_of_the_method_and_no_more_than_the_design_has(tmp_path: Path) -> None:
    expected = {"JK1": 5.0, "BRR": 6.0, "bootstrap": 5.0, "SDR": 6.0}
    for method, freedom in expected.items():
        assert Replicates(tuple(NAMES), method).freedom(None) == freedom
        assert Replicates(tuple(NAMES), method).freedom(4.0) == 4.0
    # A half of all replicates may be the last of their stratum.
    assert Replicates(tuple(NAMES), "JKn", scales=(2 / 3,) * COUNT).freedom(None) == 3.0
    assert Replicates(tuple(NAMES), "JKn", scales=(2 / 3,) * COUNT).freedom(4.0) == 4.0
    assert Replicates(tuple(NAMES), "JK1", df=40.0).freedom(4.0) == 40.0
    survey = survey_of(people(), tmp_path, strata="region", psu="psu", psus=3)
    release = survey.plan(MEAN, ds.mean("income", bounds=(0, 100), by="region"), share=0.5).release()
    assert [row["df"] for row in release.estimates] == [4.0, 2.0, 2.0]


WRONG_WORDS = [
    ({"replicates": "rep[0-9]+"}, NotFound, "no column is named like the replicate weights"),
    ({"replicates": "wgt[0-9]*"}, BadValue, "matches the column of the weights too"),
    ({"replicates": "wgt[0-9"}, BadValue, "not a regular expression"),
    ({"replicates": ["wgt1"]}, BadValue, "at least 2 replicate weights"),
    ({"replicates": ["wgt1", "wgt1"]}, BadValue, "named twice"),
    ({"replicates": 7}, BadValue, "names of columns"),
    ({"replicates": None}, BadValue, "replicate_method needs replicates="),
    ({"replicate_method": None}, BadValue, "needs replicate_method="),
    ({"replicate_method": "jackknife"}, BadValue, "unknown method"),
    ({"replicate_method": "Fay"}, BadValue, "need fay_rho="),
    ({"fay_rho": 0.5}, BadValue, "replicate_method='Fay' alone"),
    ({"replicate_method": "Fay", "fay_rho": 1.0}, BadValue, "in \\[0, 1\\)"),
    ({"replicate_method": "JKn"}, BadValue, "JKn needs replicate_scales="),
    ({"replicate_method": "JKn", "replicate_scales": [0.5] * 5}, BadValue, "one number for each replicate"),
    ({"replicate_method": "JKn", "replicate_scales": [0.0] * 6}, BadValue, "not all 0"),
    ({"replicate_scale": -1.0}, BadValue, "replicate_scale is not a positive number"),
    ({"replicate_scale": "1"}, BadValue, "takes a number"),
    ({"replicate_df": 0.0}, BadValue, "replicate_df is not a positive number"),
    ({"replicate_reach": math.inf}, BadValue, "replicate_reach is not a positive number"),
    ({"weights": None, "weight_range": None}, BadValue, "replicate weights need weights"),
    (
        {"strata": "sex", "replicates": NAMES[:2], "replicate_method": "BRR", "categories": {"sex": list("abc")}},
        BadValue,
        "strata",
    ),
]


@pytest.mark.parametrize(("changes", "kind", "words"), WRONG_WORDS, ids=[words for _, _, words in WRONG_WORDS])
def test_what_is_declared_wrongly_is_refused_with_the_reason(
    changes: dict[str, Any], kind: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=words):
        survey_of(people(), tmp_path, **changes)


def broken(name: str, value: Any) -> pd.DataFrame:
    rows = people()
    rows[name] = rows[name].astype(object if isinstance(value, str) else float)
    rows.loc[5, name] = value
    return rows.astype({name: str}) if isinstance(value, str) else rows


WRONG_ROWS = {
    "missing": (broken("wgt3", math.nan), "'wgt3' has missing values"),
    "negative": (broken("wgt3", -SECRET), "'wgt3' have values that are not numbers from 0"),
    "text": (broken("wgt3", f"{SECRET} or so"), "'wgt3' have values that are not numbers from 0"),
    "infinite": (broken("wgt3", math.inf), "'wgt3' have values that are not numbers from 0"),
    "large": (broken("wgt3", SECRET), "'wgt3' are more than 1000 times the weights"),
    "dates": (people().assign(wgt2=pd.Timestamp("2024-02-03")), "'wgt2' are not numeric"),
    "all alike": (people().assign(**dict.fromkeys(NAMES, people()["wgt"])), "all equal to the weights"),
}


@pytest.mark.parametrize("wrong", WRONG_ROWS)
def test_rows_that_are_not_as_they_must_be_are_refused_before_anything_is_spent(wrong: str, tmp_path: Path) -> None:
    rows, words = WRONG_ROWS[wrong]
    survey = survey_of(rows, tmp_path)
    plan = survey.plan(MEAN)
    with pytest.raises(BadData, match=re.escape(words)) as refused:
        plan.release()
    assert "87654" not in "".join(traceback.format_exception(refused.value))
    # Nothing was spent: the same ledger has room for the whole budget.
    assert survey_of(people(), tmp_path).plan(MEAN).release().estimates


def test_answers_are_replaced_in_their_place_or_nothing_is_released(tmp_path: Path) -> None:
    for setting in (ds.Setting("sample", neighbours="replace-one"), ds.Setting("sample", given="frame", neighbours="add-remove")):
        with pytest.raises(NoGuarantee, match="standard error"):
            survey_of(people(), tmp_path, setting=setting).plan(MEAN)
    with pytest.raises(NoGuarantee, match="not taken between random groups"):
        survey_of(people(), tmp_path).plan(ds.mean("income", bounds=(0, 100), variance="groups"))
    with pytest.raises(NoGuarantee, match="fewer than 4 degrees of freedom"):
        survey_of(people(), tmp_path, replicate_df=3.0).plan(MEAN)


def test_a_release_says_what_carries_its_variance_and_is_computed_again_as_it_was(tmp_path: Path) -> None:
    by_sex = ds.mean("income", bounds=(0, 100), by="sex")
    asked = (
        *(MEAN, by_sex, ds.contrast(by_sex, "female", "male"), ds.total("income", bounds=(0, 100)), ds.count(by="sex")),
        *(ds.proportion("sex", "male"), ds.table("sex", "region"), ds.median("income", bounds=(0, 100), leaves=64)),
    )
    survey = survey_of(people(), tmp_path, budget=ds.Budget(1e4))
    plan = survey.plan(*asked)
    assert "standard errors of 6 replicate weights bought as norms" in str(plan)
    release = plan.release()
    assert release.recompute() == release.estimates
    methods = {row["method"] for row in release.estimates if row["statistic"] != "quantile"}
    assert methods == {"replicate weights, noisy standard error"}
    assert json.loads(json.dumps(release.document)) == release.document


def test_a_missing_answer_leaves_a_record_out_of_every_replicate(tmp_path: Path) -> None:
    rows = people()
    rows.loc[::4, "income"] = math.nan
    survey = survey_of(rows, tmp_path, budget=ds.Budget(1e5))
    release = survey.plan(ds.mean("income", bounds=(0, 100), missing="drop")).release()
    held = rows.dropna()
    mean = np.average(held["income"], weights=held["wgt"])
    left = [np.average(held["income"], weights=held[name]) for name in NAMES]
    expected = math.sqrt(5 / 6 * sum((each - mean) ** 2 for each in left))
    (row,) = release.estimates
    assert row["estimate"] == pytest.approx(mean, rel=1e-3)
    assert row["se_sampling"] == pytest.approx(expected, rel=0.03)


def test_a_survey_file_says_the_same(tmp_path: Path) -> None:
    people().to_parquet(tmp_path / "people.parquet")
    survey = survey_of(tmp_path / "people.parquet", tmp_path, replicate_df=20.0, replicate_reach=50.0)
    plan = survey.plan(MEAN)
    write_survey_file(tmp_path / "survey.toml", survey, plan)
    read = SurveyFile.read(tmp_path / "survey.toml")
    assert read.survey().terms == survey.terms
    text = (tmp_path / "survey.toml").read_text()
    by_pattern = re.sub(r"replicates = \[.*?\]", 'replicates = "wgt[0-9]+"', text, flags=re.DOTALL)
    assert by_pattern != text
    (tmp_path / "survey.toml").write_text(by_pattern)
    again = SurveyFile.read(tmp_path / "survey.toml")
    assert again.survey().terms == survey.terms
    assert again.plan(again.survey()) == plan


def test_no_row_moves_further_than_a_declared_reach(tmp_path: Path) -> None:
    """With a reach far below what the rows have, the standard error is as much smaller, and the estimate is the same."""
    releases = []
    for name, reach in (("whole", None), ("cut", 0.2)):
        (tmp_path / name).mkdir()
        survey = survey_of(people(), tmp_path / name, budget=ds.Budget(1e5), replicate_reach=reach)
        releases.append(survey.plan(MEAN).release())
    whole, cut = releases
    assert cut.estimates[0]["se_sampling"] < 0.1 * whole.estimates[0]["se_sampling"]
    assert cut.estimates[0]["estimate"] == pytest.approx(whole.estimates[0]["estimate"], rel=1e-4)


def test_calibrated_replicates_know_the_calibration(tmp_path: Path) -> None:
    """Income differs by sex alone, nearly, and weights and replicates meet the numbers of women and men."""
    rng = np.random.default_rng(8)
    sex = rng.choice(["female", "male"], 600, p=[0.4, 0.6])
    income = np.where(sex == "female", 80.0, 20.0) + rng.uniform(-5, 5, 600)

    def calibrated(weights: np.ndarray) -> np.ndarray:
        return np.where(sex == "female", weights / weights[sex == "female"].sum(), weights / weights[sex == "male"].sum()) * 500.0

    base, group = rng.uniform(1.0, 3.0, 600), np.arange(600) % COUNT
    rows = pd.DataFrame({"sex": sex, "income": income, "wgt": calibrated(base)})
    for place, name in enumerate(NAMES):
        rows[name] = calibrated(np.where(group == place, 0.0, base))
    made_of = {"weights_are": "final", "calibrated_on": ["sex"], "categories": {"sex": {"female": 500, "male": 500}}}
    survey = survey_of(rows, tmp_path, weight_range=(0.1, 5.0), size=1000, budget=ds.Budget(2e3), **made_of)
    (row,) = survey.plan(MEAN).release().estimates
    left = [np.average(income, weights=rows[name]) for name in NAMES]
    expected = math.sqrt(5 / 6 * sum((each - np.average(income, weights=rows["wgt"])) ** 2 for each in left))
    assert row["se_sampling"] == pytest.approx(expected, rel=0.05)
    assert row["se_sampling"] < 0.3 * float(income.std()) / math.sqrt(600)
    assert survey.terms.setting.protect == "answers"
