"""Files with final weights: what has to be said of them, what they are refused for, and what is promised to whom."""

import json

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.classical import Sample
from dpsurvey.errors import BadData, BadValue, NoGuarantee, NotFound
from dpsurvey.ledger.terms import Terms
from dpsurvey.planning import compare_settings
from dpsurvey.privacy import all_settings
from dpsurvey.survey.survey_file import SurveyFile, write_survey_file

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]

SIZE = 9_000
MARGINS = {"sex": {"female": 5_000, "male": 4_000}, "age": {"young": 3_000, "old": 6_000}}
CATEGORIES = MARGINS | {"region": ["north", "south"], "job": ["yes", "no"]}
FINAL = {"weights": "w", "weights_are": "final", "calibrated_on": ["sex", "age"], "weight_range": (5, 30)}
ANSWERS = ds.Setting("answers", given="respondents", neighbours="replace-one")
INCOME, JOB = ds.mean("income", bounds=(0, 100)), ds.proportion("job", "yes")


@pytest.fixture(scope="module")
def people():
    """800 respondents in 40 clusters, with weights raked to published margins."""
    rng = np.random.default_rng(5)
    size = 800
    rows = pd.DataFrame(
        {
            "sex": rng.choice(["female", "male"], size),
            "age": rng.choice(["young", "old"], size),
            "region": np.repeat(["north", "south"], size // 2),
            "psu": [f"c{number}" for number in np.arange(size) // 20],
            "income": rng.uniform(0, 100, size),
            "job": rng.choice(["yes", "no"], size),
        }
    )
    weights = np.ones(size)
    for _ in range(100):
        for column, totals in MARGINS.items():
            for label, total in totals.items():
                inside = (rows[column] == label).to_numpy()
                weights[inside] *= total / weights[inside].sum()
    return rows.assign(w=weights)


def a_survey(rows, folder, epsilon=2.0, **more):
    options = {"size": SIZE, "categories": CATEGORIES, "budget": ds.Budget(epsilon), "name": "lfs"} | FINAL | more
    return ds.Survey.collected(rows, ledger=folder / "books.ledger", **options)


# What has to be said


@pytest.mark.parametrize("kind", ["design", "final", "adjusted"])
def test_a_file_with_weights_is_asked_what_they_are_and_told_the_choices(tmp_path, people, kind):
    with pytest.raises(BadValue, match="has to say what they are") as caught:
        a_survey(people, tmp_path, weights_are=None, calibrated_on=None)
    assert f'weights_are="{kind}"' in caught.value.hint


def test_final_weights_need_all_columns_that_they_were_made_from(tmp_path, people):
    with pytest.raises(BadValue, match="calibrated_on=, every column"):
        a_survey(people, tmp_path, calibrated_on=None)
    for wrong in ("sex", ["sex", "sex"], ["sex", 3], [""]):
        with pytest.raises(BadValue, match="calibrated_on is a list of distinct columns"):
            a_survey(people, tmp_path, calibrated_on=wrong)
    with pytest.raises(BadValue, match="about final weights"):
        a_survey(people, tmp_path, weights_are="design")
    with pytest.raises(BadValue, match="a column of the file"):
        a_survey(people, tmp_path, weights=None, weight_range=None)
    # Weights that were adjusted by strata and who responded alone were made from no further column.
    assert a_survey(people, tmp_path, calibrated_on=[]).terms.design.weighting_columns == ()


def test_the_answers_alone_are_the_default_and_every_other_setting_is_refused_with_the_reason(tmp_path, people):
    assert a_survey(people, tmp_path).terms.setting == ANSWERS
    for setting in [*all_settings("add-remove"), *all_settings("replace-one")]:
        if setting.answers_alone:
            continue
        with pytest.raises(NoGuarantee, match="no guarantee") as caught:
            a_survey(people, tmp_path, setting=setting)
        assert setting.level < 2 or "who responded" in caught.value.because
        assert setting.level < 2 or 'Setting("answers"' in caught.value.hint


def test_weights_that_looked_at_answers_are_refused_under_the_answers_too(tmp_path, people):
    with pytest.raises(NoGuarantee, match="one record moves every weight"):
        a_survey(people, tmp_path, weights_are="adjusted", calibrated_on=None, setting=ANSWERS)
    with pytest.raises(NoGuarantee, match="filled in from other records"):
        a_survey(people, tmp_path, imputed="model")


# What may be asked


ABOUT_WEIGHTING = {
    "its proportion": ds.proportion("sex", "female"),
    "its count": ds.count("sex", "female"),
    "counts of its groups": ds.count(by="sex"),
    "counts of its cells": ds.count(by=("sex", "age")),
    "its counts under a condition on another": ds.count(by="sex", where={"age": "old"}),
    "its proportion by an answer": ds.proportion("sex", "female", by="job"),
}


@pytest.mark.parametrize("name", ABOUT_WEIGHTING)
def test_a_column_that_made_the_weights_is_no_study_variable(tmp_path, people, name):
    with pytest.raises(NoGuarantee, match="'sex' was used to make the weights") as caught:
        a_survey(people, tmp_path).plan(ABOUT_WEIGHTING[name])
    assert "published margins" in caught.value.because
    assert "no epsilon applies" in caught.value.because


@pytest.mark.parametrize("asked", [ds.proportion("region", "north"), ds.mean("w", bounds=(0, 30)), ds.count(by="region")])
def test_a_design_column_is_no_study_variable_either(tmp_path, people, asked):
    with pytest.raises(NoGuarantee, match="is held fixed under this setting"):
        a_survey(people, tmp_path, strata="region").plan(asked)


def test_groups_and_conditions_of_both_kinds_are_asked_about_answers(tmp_path, people):
    """A group of held columns keeps its records; one of answers does not, and its column is named among them."""
    survey = a_survey(people, tmp_path, strata="region", psu="psu", psus=20)
    found = {}
    for by in ("sex", "region", "job", ("sex", "region"), ("sex", "job")):
        plan = survey.plan(ds.mean("income", bounds=(0, 100), by=by))
        found[by] = plan.items[0].query.group_is_fixed, "the answers income replaced" in str(plan.guarantee)
    held, free = (True, True), (False, False)
    assert found == {"sex": held, "region": held, ("sex", "region"): held, "job": free, ("sex", "job"): free}
    named = str(survey.plan(ds.mean("income", bounds=(0, 100), where={"job": "yes", "sex": "male"})).guarantee)
    assert "the answers income, job replaced" in named


def test_which_weights_add_up_to_declared_sizes_is_public(tmp_path, people):
    categories = CATEGORIES | {"job": {"yes": 5_000, "no": 4_000}}
    facts = a_survey(people, tmp_path, categories=categories).plan(INCOME).facts
    assert [facts.weights_add_up(by) for by in ((), ("sex",), ("age",))] == [True] * 3
    assert not any(facts.weights_add_up(by) for by in (("job",), ("region",), ("sex", "age")))
    assert not a_survey(people, tmp_path, size=None, categories={"sex": ["female", "male"]}).plan(INCOME).facts.weights_add_up()
    plain = {"weights_are": "design", "calibrated_on": None}
    assert not a_survey(people, tmp_path, **plain).plan(INCOME).facts.weights_add_up()


# What is promised


def sentence(answers, epsilon):
    held = "who responded, the design columns, the weighting columns sex, age and the weights held fixed and not protected"
    return f"Anyone who responded (the answers {answers} replaced; {held}): epsilon {epsilon}."


def test_the_guarantee_names_all_answers_that_were_released_so_far_and_what_is_not_protected(tmp_path, people):
    survey = a_survey(people, tmp_path)
    first = survey.plan(INCOME, share=0.25)
    assert str(first.guarantee) == sentence("income", "0.5")
    released = first.release()
    assert str(released.guarantee) == sentence("income", "0.5")
    # Another survey object of the same name, and a question about another column.
    second = a_survey(people, tmp_path).plan(JOB, share=0.5).release()
    assert str(second.guarantee) == sentence("income, job", "1.5")
    assert second.document["not_protected"][-1].startswith("who responded, and of each record the design columns, sex, age")
    assert any(
        "all weights follow from the design columns, who responded, sex, age" in each for each in second.guarantee.holds_when
    )
    saved = ds.Release.load(second.save(tmp_path / "release.json"))
    assert saved.recompute() == second.estimates
    assert str(saved.guarantee) == str(second.guarantee)
    assert sentence("income, job", "1.5") in second.save(tmp_path / "report.html").read_text()


def test_what_was_charged_without_a_word_of_what_was_asked_may_be_any_answer(tmp_path, people):
    survey = a_survey(people, tmp_path)
    survey.plan(INCOME, share=0.25).release()
    with ds.Ledger(tmp_path / "books.ledger") as books:
        books.book("lfs", ds.PrivacyProfile.pure(0.5, "replace-one"), "a table that another program made")
    released = survey.plan(JOB, share=0.25).release()
    assert str(released.guarantee).startswith("Anyone who responded (the answers replaced; who responded")
    assert released.guarantee.epsilon == pytest.approx(1.5)


def test_other_settings_say_why_they_do_not_serve_and_the_plan_says_what_is_left_out(tmp_path, people):
    plan = a_survey(people, tmp_path).plan(INCOME)
    rows = compare_settings(plan)
    assert len(rows) == 11
    assert [row["protect"] for row in rows if row["refused"] is None] == ["answers"]
    assert "weighting columns and weights" in rows[-1]["not_protected"]
    assert any("the answers alone are protected" in note for note in plan.advice)


def test_estimates_are_those_of_the_final_weights(tmp_path, people):
    asked = (INCOME, ds.mean("income", bounds=(0, 100), by="sex"), JOB, ds.total("income", bounds=(0, 100)))
    release = a_survey(people, tmp_path, 1e5).plan(*asked).release()
    sample = Sample({name: people[name].to_numpy() for name in people}, weights="w")
    wanted = {"mean": sample.mean("income"), "total": sample.total("income")}
    wanted |= {f"mean, {sex}": sample.mean("income", where=("sex", sex)) for sex in MARGINS["sex"]}
    wanted |= {"proportion": sample.mean((people["job"] == "yes") * 1.0)}
    found = {", ".join([row["statistic"], *row["by"].values()]): row["estimate"] for row in release.estimates}
    assert found == pytest.approx({name: each.estimate for name, each in wanted.items()}, rel=2e-3)


def test_answers_alone_may_be_protected_in_a_file_with_design_weights_too(tmp_path, people):
    """It guarantees less at the same cost, and says so."""
    plain = {"weights_are": "design", "calibrated_on": None}
    narrow = a_survey(people, tmp_path, setting=ANSWERS, **plain).plan(INCOME)
    usual = a_survey(people, tmp_path, **plain).plan(INCOME)
    assert narrow.predictions == usual.predictions
    assert "the weighting columns" not in str(narrow.guarantee)
    assert any('protect="sample"' in note for note in narrow.advice)


# What is wrong with a file, before anything is spent


def changed(people, **columns):
    rows = people.copy()
    for column, value in columns.items():
        rows.loc[17, column] = value
    return rows


WRONG = {
    "a weight below 0": ({"w": -87.125}, {}, BadData, "not positive numbers"),
    "a weight of 0": ({"w": 0.0}, {}, BadData, "not positive numbers"),
    "no weight": ({"w": None}, {}, BadData, "missing values"),
    "a weight beyond the range": ({"w": 87.125}, {}, BadData, "outside the declared range"),
    "a size that weights do not add up to": ({}, {"size": 18_000, "categories": {}}, BadData, "declared size of the population"),
    "weights relative to their mean": ({"rescale": True}, {"weight_range": (0.1, 9)}, BadData, "declared size of the population"),
    "a margin that was none": (
        {},
        {"categories": CATEGORIES | {"age": {"young": 4_500, "old": 4_500}}},
        BadData,
        "declared sizes of 'age'",
    ),
    "a size that is a little off": ({}, {"size": SIZE + 2, "categories": {}}, BadData, "do not add up"),
    "a misspelt column of calibration": ({}, {"calibrated_on": ["sex", "agee"]}, NotFound, "there is no column 'agee'"),
    "a missing value in a column of calibration that makes groups": (
        {"sex": None},
        {"categories": {"sex": ["female", "male"]}},
        BadData,
        "'sex' has missing values",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_the_weights_is_said_before_anything_is_spent_and_without_a_figure(tmp_path, people, case):
    columns, options, kind, words = WRONG[case]
    rows = people.copy() if "rescale" in columns else changed(people, **columns)
    if "rescale" in columns:
        rows["w"] /= rows["w"].mean()
    survey = a_survey(rows, tmp_path, **options)
    with pytest.raises(kind) as caught:
        survey.plan(ds.mean("income", bounds=(0, 100), by="sex") if "sex" in columns else INCOME).release()
    said = str(caught.value)
    assert words in said
    assert "87.125" not in said
    assert "9000" not in said.replace(",", "")
    path = tmp_path / "books.ledger"
    assert not path.exists() or not ds.Ledger(path).charges("lfs")


def test_a_column_of_calibration_that_nothing_asks_for_may_have_gaps(tmp_path, people):
    options = {"categories": {"sex": ["female", "male"]}}
    assert len(a_survey(changed(people, age=None), tmp_path, **options).plan(INCOME).release().estimates) == 1


def test_sums_of_rounded_weights_pass(tmp_path, people):
    rounded = people.assign(w=people["w"].round(3))
    assert abs(rounded["w"].sum() - SIZE) > 1e-6
    assert len(a_survey(rounded, tmp_path).plan(INCOME).release().estimates) == 1


# What is written down


def test_a_survey_with_final_weights_survives_its_file_and_the_ledger(tmp_path, people):
    people.to_parquet(tmp_path / "file.parquet")
    survey = a_survey(tmp_path / "file.parquet", tmp_path)
    plan = survey.plan(INCOME, JOB)
    write_survey_file(tmp_path / "survey.toml", survey, plan)
    read = SurveyFile.read(tmp_path / "survey.toml")
    again = read.survey()
    assert again.terms == survey.terms
    assert read.plan(again) == plan
    assert Terms.from_dict(json.loads(json.dumps(survey.terms.to_dict()))) == survey.terms
    plan.release()
    with ds.Ledger(tmp_path / "books.ledger") as books:
        books.check_survey(again.terms)


def test_weights_on_record_of_which_nothing_was_said_are_design_weights(tmp_path, people):
    """Documents of 0.8 left it unsaid; nobody can leave it unsaid now."""
    survey = a_survey(people, tmp_path, weights_are="design", calibrated_on=None)
    written = survey.terms.to_dict()
    assert written["design"].pop("weights_are") == "design"
    read = Terms.from_dict(json.loads(json.dumps(written)))
    assert read == survey.terms
    assert read.to_dict()["design"]["weights_are"] == "design"
