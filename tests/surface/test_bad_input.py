"""Bad input gets a clear error of the right class, spends nothing, and hears nothing of the data."""

import math
import os
import re

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.design import design_from_dict
from dpsurvey.errors import AlreadyReleased, BadData, BadValue, BudgetExceeded, NoGuarantee, NotFound, Refusal, UsageError
from dpsurvey.statistic import statistic_from_dict

REGIONS = {"north": 120, "south": 53}
SIZE = 173
INCOME = ds.mean("income", bounds=(0, 100))
BY_SEX = ds.mean("income", bounds=(0, 100), by="sex")
EMPLOYED = ds.proportion("employed", "yes")
STRATIFIED = ds.stratified("region", within=ds.srs(n=20))


def people():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "person": [f"unit-{number}" for number in rng.permutation(SIZE)],
            "region": np.repeat(list(REGIONS), list(REGIONS.values())),
            "sex": rng.choice(["female", "male"], SIZE),
            "income": rng.uniform(0, 100, SIZE).round(3),
            "employed": rng.choice(["yes", "no"], SIZE),
        }
    )


@pytest.fixture
def folder(tmp_path):
    people().to_parquet(tmp_path / "register.parquet")
    return tmp_path


def a_frame(table, *, size=SIZE, regions=REGIONS, unit="person"):
    return ds.Frame(table, unit=unit, size=size, categories={"region": regions, "sex": ["female", "male"]})


def a_survey(folder, table=None, design=STRATIFIED, setting=None, *, epsilon=1.0, name="survey", **frame):
    table = folder / "register.parquet" if table is None else table
    budget = ds.Budget(epsilon)
    return ds.Survey(a_frame(table, **frame), design, setting, budget=budget, ledger=folder / "books.ledger", name=name)


def spent(folder, survey):
    if not (folder / "books.ledger").exists():
        return 0.0
    return ds.Ledger(folder / "books.ledger").spending(survey.terms).spent


def check_family(error):
    """Wrong usage exits with 2, a refusal with 1."""
    assert isinstance(error, UsageError | Refusal)
    assert error.exit_code == (2 if isinstance(error, UsageError) else 1)
    assert error.to_dict()["error"] == type(error).__name__
    assert error.what


# What only the rows know: no message may hold any of it.
SECRETS = ("atlantis", "unit-", "-7.25", "female", "male", "yes", "north", "south")


def check_silence(error, *, but="\0"):
    """After rows were read: no value, category, count or row number, so not one digit."""
    text = (str(error) + repr(error) + str(error.args)).replace(but, "")
    assert not [secret for secret in SECRETS if secret in text]
    assert not re.search(r"\d", text), text


def changed(column, value, *, row=17):
    def change(rows):
        rows = rows.astype({column: object}) if not isinstance(value, float) else rows
        rows.loc[row, column] = value
        return rows

    return change


def first_twice(rows):
    rows.loc[17, "person"] = rows.loc[3, "person"]
    return rows


BAD_ROWS = {
    "a missing number": (changed("income", None), "'income' has missing values"),
    "a number that is not one": (changed("income", math.nan), "'income' has (missing values|values that are not finite)"),
    "infinity": (changed("income", math.inf), "'income' has values that are not finite"),
    "minus infinity": (changed("income", -math.inf), "'income' has values that are not finite"),
    "a missing unit": (changed("person", None), "'person' has missing values"),
    "a missing stratum": (changed("region", None), "'region' has missing values"),
    "a missing group": (changed("sex", None), "'sex' has missing values"),
    "a missing answer": (changed("employed", None), "'employed' has missing values"),
    "an undeclared stratum": (changed("region", "atlantis"), "'region' has a category that was not declared"),
    "an undeclared group": (changed("sex", "atlantis"), "'sex' has a category that was not declared"),
    "no rows": (lambda rows: rows[:0], "is empty"),
    "an empty stratum": (lambda rows: rows.assign(region="north"), "stratum of 'region' is empty"),
    "a unit twice": (first_twice, "units appear more than once"),
    "a unit moved to another stratum": (changed("region", "south", row=0), "sizes of 'region' are not those of the frame"),
    "one row less": (lambda rows: rows[1:], "are not those of the frame"),
    "one row more": (
        lambda rows: pd.concat([rows, rows[:1].assign(person="unit-new")], ignore_index=True),
        "are not those of the frame",
    ),
}


@pytest.mark.parametrize("way", ["parquet", "memory"])
@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_break_a_declared_fact_are_refused_before_anything_is_spent(folder, name, way):
    change, message = BAD_ROWS[name]
    bad = change(people())
    if way == "parquet":
        types = {"person": "varchar", "region": "varchar", "sex": "varchar", "income": "double", "employed": "varchar"}
        casts = ", ".join(f"{column}::{kind} as {column}" for column, kind in types.items())
        duckdb.sql(f"copy (select {casts} from bad) to '{folder / 'bad.parquet'}'")
    elif name in ("no rows", "a missing number"):
        bad = bad.astype({"income": float})
    survey = a_survey(folder, folder / "bad.parquet" if way == "parquet" else bad)
    plan = survey.plan(INCOME, BY_SEX, EMPLOYED)
    for act in (plan.release, lambda: survey.check(plan), lambda: survey.draw(folder / "sample.parquet", plan)):
        with pytest.raises(BadData, match=message) as caught:
            act()
        check_family(caught.value)
        check_silence(caught.value)
        assert caught.value.hint
    assert spent(folder, survey) == 0.0
    assert ds.Ledger(folder / "books.ledger").sealed_sample("survey") is None
    assert not (folder / "sample.parquet").exists()


def test_nan_in_a_parquet_file_is_found(folder):
    duckdb.sql(
        f"""copy (select * replace (case when person = 'unit-9' then 'nan'::double else income end as income)
            from '{folder / "register.parquet"}') to '{folder / "nan.parquet"}'"""
    )
    survey = a_survey(folder, folder / "nan.parquet")
    with pytest.raises(BadData, match="'income' has values that are not finite") as caught:
        survey.plan(INCOME).release()
    check_silence(caught.value)
    assert spent(folder, survey) == 0.0


def test_a_bad_column_that_is_not_used_is_nobodys_business(folder):
    survey = a_survey(folder, people().assign(employed=None))
    assert survey.plan(INCOME).release().estimates


def test_the_size_of_the_frame_is_compared_where_the_guarantee_rests_on_it(folder):
    settings = {
        ds.Setting("frame", neighbours="replace-one"): True,
        ds.Setting("sample", given="frame", neighbours="replace-one"): True,
        ds.Setting("frame", neighbours="add-remove"): False,
    }
    for number, (setting, compared) in enumerate(settings.items()):
        survey = a_survey(folder, people()[1:], ds.srs(n=20), setting, name=f"survey {number}", regions=list(REGIONS))
        if compared:
            with pytest.raises(BadData, match="declared size is not that of the frame") as caught:
                survey.plan(INCOME).release()
            check_silence(caught.value)
            assert spent(folder, survey) == 0.0
        else:
            assert survey.plan(INCOME).release().estimates


def test_a_frame_with_fewer_rows_than_are_drawn_is_refused_before_anything_is_spent(folder):
    for number, design in enumerate((ds.srs(n=100), ds.stratified("region", within=ds.srs(n=50)))):
        setting = ds.Setting("frame", neighbours="add-remove")
        survey = a_survey(folder, people()[90:], design, setting, name=f"survey {number}")
        with pytest.raises(BadData, match="fewer units than the design draws") as caught:
            survey.plan(INCOME).release()
        check_silence(caught.value)
        assert spent(folder, survey) == 0.0


def test_an_empty_stratum_is_found_although_the_file_passed_another_survey(folder):
    # A file that passed its check is not read again; what one survey did not ask of it, another may.
    people().assign(region="north").to_parquet(folder / "northern.parquet")
    setting = ds.Setting("sample", given="frame", neighbours="add-remove")
    plain = a_survey(folder, folder / "northern.parquet", ds.poisson(0.5), setting, name="plain")
    plain.plan(ds.mean("income", bounds=(0, 100), by="region"), share=0.5).release()
    design = ds.stratified("region", within=ds.poisson(0.5))
    survey = a_survey(folder, folder / "northern.parquet", design, setting, name="stratified")
    with pytest.raises(BadData, match="stratum of 'region' is empty"):
        survey.plan(ds.mean("income", bounds=(0, 100), by="region"), share=0.5).release()
    assert spent(folder, survey) == 0.0


def test_a_file_that_changed_after_its_check_is_checked_again(folder):
    survey = a_survey(folder)
    survey.plan(INCOME, share=0.25).release()
    before = spent(folder, survey)
    changed("region", "atlantis")(people()).to_parquet(folder / "register.parquet")
    again = a_survey(folder)
    with pytest.raises(BadData, match="not declared"):
        again.plan(BY_SEX, share=0.25).release()
    assert spent(folder, survey) == before


@pytest.fixture
def sealed(folder):
    a_survey(folder, epsilon=50.0).draw(folder / "sample.parquet")
    return folder


def answers(folder):
    drawn = duckdb.sql(f"select unit as person from '{folder / 'sample.parquet'}' order by unit").df()["person"].tolist()
    return pd.DataFrame({"person": drawn, "hours": [float(number % 40) for number in range(len(drawn))], "job": "none"})


def not_drawn(rows, folder):
    stranger = next(unit for unit in people()["person"] if unit not in set(rows["person"]))
    rows.loc[0, "person"] = stranger
    return rows


def nobody_at_all(rows, folder):
    rows.loc[0, "person"] = "unit-nobody"
    return rows


def twice(rows, folder):
    return pd.concat([rows, rows[:1]], ignore_index=True)


def without(column, value):
    def change(rows, folder):
        rows.loc[2, column] = value
        return rows

    return change


BAD_ANSWERS = {
    "a unit that was not drawn": (not_drawn, BadData, "units that were not drawn"),
    "a unit that does not exist": (nobody_at_all, BadData, "units that were not drawn"),
    "an answer twice": (twice, BadData, "units appear more than once"),
    "a missing answer": (without("hours", None), BadData, "'hours' has (missing values|values that are not finite)"),
    "an infinite answer": (without("hours", math.inf), BadData, "'hours' has values that are not finite"),
    "a missing unit": (without("person", None), BadData, "(units that were not drawn|missing values)"),
    "no unit column": (lambda rows, folder: rows.rename(columns={"person": "persona"}), NotFound, "no column 'person'"),
    "no such question": (lambda rows, folder: rows.rename(columns={"hours": "minutes"}), NotFound, "no column 'hours'"),
    "words for numbers": (lambda rows, folder: rows.assign(hours="atlantis"), BadData, "'hours' has values that are not finite"),
}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *((name, "csv") for name in BAD_ANSWERS),
        *((name, "parquet") for name in ("a unit that was not drawn", "a missing answer")),
    ],
)
def test_bad_responses_are_refused_before_anything_is_spent(sealed, name, form):
    change, kind, message = BAD_ANSWERS[name]
    bad = change(answers(sealed), sealed)
    path = sealed / f"answers.{form}"
    if form == "csv":
        bad.to_csv(path, index=False)
    else:
        bad.to_parquet(path)
    survey = a_survey(sealed, epsilon=50.0)
    plan = survey.plan(ds.mean("hours", bounds=(0, 60), by="sex"), responses=path)
    with pytest.raises(kind, match=message) as caught:
        plan.release()
    check_family(caught.value)
    if kind is BadData:
        check_silence(caught.value)
    assert "atlantis" not in str(caught.value)
    assert spent(sealed, survey) == 0.0
    answers(sealed).to_parquet(sealed / "good.parquet")
    good = survey.plan(ds.mean("hours", bounds=(0, 60), by="sex"), responses=sealed / "good.parquet")
    assert good.release().estimates, "what was refused has lost nothing"


def test_an_undeclared_category_among_the_answers_is_refused(sealed):
    rows = answers(sealed).assign(sex="female")
    rows.loc[1, "sex"] = "atlantis"
    survey = a_survey(sealed, epsilon=50.0)
    with pytest.raises(BadData, match="'sex' has a category that was not declared") as caught:
        survey.plan(ds.mean("hours", bounds=(0, 60), by="sex"), responses=rows).release()
    check_silence(caught.value)
    assert spent(sealed, survey) == 0.0


def test_responses_without_a_sealed_sample_are_refused(folder):
    survey = a_survey(folder)
    rows = people()[["person"]].assign(hours=1.0)
    with pytest.raises(NotFound, match="responses need a sealed sample"):
        survey.plan(ds.mean("hours", bounds=(0, 60)), responses=rows).release()
    assert spent(folder, survey) == 0.0


def test_a_missing_file_of_responses_is_named(sealed):
    survey = a_survey(sealed, epsilon=50.0)
    with pytest.raises(NotFound, match="there is no file") as caught:
        survey.plan(ds.mean("hours", bounds=(0, 60)), responses=sealed / "sampel.parquet").release()
    assert "did you mean 'sample.parquet'?" in str(caught.value)
    assert spent(sealed, survey) == 0.0


MISSING = {
    "the file": (lambda folder: a_survey(folder, folder / "registre.parquet"), INCOME, "did you mean 'register.parquet'?"),
    "the folder": (lambda folder: a_survey(folder, folder / "nowhere" / "register.parquet"), INCOME, "there is no file"),
    "the unit column": (lambda folder: a_survey(folder, unit="persn"), INCOME, "did you mean 'person'?"),
    "the measured column": (a_survey, ds.mean("incme", bounds=(0, 100)), "did you mean 'income'?"),
    "the counted column": (a_survey, ds.proportion("employd", "yes"), "did you mean 'employed'?"),
    "a column unlike any other": (a_survey, ds.proportion("zzz", "yes"), "there is no column 'zzz'"),
}


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_named_with_what_was_perhaps_meant(folder, name):
    make, statistic, hint = MISSING[name]
    survey = make(folder)
    plan = survey.plan(statistic)
    for act in (plan.release, lambda: survey.check(plan), lambda: survey.draw(folder / "sample.parquet", plan)):
        with pytest.raises(NotFound) as caught:
            act()
        check_family(caught.value)
        assert hint in str(caught.value)
        assert "__row" not in str(caught.value)
    assert spent(folder, survey) == 0.0


def test_the_categories_of_a_grouping_column_must_be_declared(folder):
    with pytest.raises(NotFound, match="categories of 'employed' are not declared"):
        a_survey(folder).plan(ds.mean("income", bounds=(0, 100), by="employed"))
    with pytest.raises(NotFound, match="did you mean 'region'"):
        a_survey(folder, design=ds.stratified("regoin", within=ds.poisson(0.1)))


def test_a_column_of_words_has_no_mean_and_a_measured_one_no_categories(folder):
    survey = a_survey(folder)
    for statistic, message in (
        (ds.mean("employed", bounds=(0, 1)), "'employed' (is not numeric|has values that are not finite numbers)"),
        (ds.total("sex", bounds=(0, 1)), "'sex' (is not numeric|has values that are not finite numbers)"),
        (ds.proportion("income", 3), "'income' does not hold categories"),
    ):
        with pytest.raises(ds.SurveyError, match=message) as caught:
            survey.plan(statistic).release()
        check_family(caught.value)
        check_silence(caught.value, but="64")
    assert spent(folder, survey) == 0.0


def test_a_column_of_lists_has_no_mean(folder):
    survey = a_survey(folder, people().assign(income=[[1.0]] * SIZE))
    with pytest.raises(ds.SurveyError) as caught:
        survey.plan(INCOME).release()
    check_family(caught.value)
    assert spent(folder, survey) == 0.0


def test_a_file_of_an_unknown_kind_is_refused(folder):
    (folder / "register.xlsx").write_text("no")
    with pytest.raises(BadValue, match=r"cannot read a \.xlsx file"):
        a_survey(folder, folder / "register.xlsx").plan(INCOME).release()


def test_the_table_of_a_duckdb_file_must_be_clear(folder):
    path = folder / "several.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table people as select 1 as person; create table areas as select 1 as area")
    with pytest.raises(BadValue, match="say which table") as caught:
        a_survey(folder, path).plan(INCOME).release()
    assert "#table" in str(caught.value)
    with pytest.raises(NotFound, match="did you mean 'people'"):
        a_survey(folder, f"{path}#poeple").plan(INCOME).release()


def test_a_file_that_is_not_what_its_name_says_is_refused_without_its_content(folder):
    for name in ("register.parquet", "register.duckdb", "register.csv"):
        (folder / name).write_bytes(b"atlantis\x00\xff" * 1000)
        survey = a_survey(folder, folder / name, name=name)
        with pytest.raises(ds.SurveyError) as caught:
            survey.plan(INCOME).release()
        check_family(caught.value)
        assert spent(folder, survey) == 0.0


@pytest.mark.parametrize("make", [ds.mean, ds.total])
@pytest.mark.parametrize(
    "bounds", [(100, 0), (5, 5), (0, math.inf), (-math.inf, 0), (math.nan, 1), (0,), (0, 1, 2), "ab", ("low", "high"), 7]
)
def test_bounds_that_are_no_pair_of_finite_numbers_in_order_are_refused(make, bounds):
    with pytest.raises(BadValue, match="bounds of 'income'") as caught:
        make("income", bounds=bounds)
    check_family(caught.value)


@pytest.mark.parametrize("make", [ds.mean, ds.total])
def test_missing_bounds_are_asked_for_from_public_knowledge(make):
    with pytest.raises(BadValue, match="bounds of 'income' are missing") as caught:
        make("income")
    assert "not from the data" in caught.value.hint


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0000001, 5, math.nan, math.inf])
@pytest.mark.parametrize("make", [ds.poisson, lambda rate: ds.srs(rate=rate)], ids=["poisson", "srs"])
def test_a_rate_outside_0_1_is_refused(make, rate):
    with pytest.raises(BadValue, match=r"rate must be in \(0, 1\]") as caught:
        make(rate)
    check_family(caught.value)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 1.5, math.nan, math.inf])
def test_a_delta_outside_0_1_is_refused(delta):
    with pytest.raises(BadValue, match=r"delta must be in \[0, 1\)") as caught:
        ds.Budget(1.0, delta)
    check_family(caught.value)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_an_epsilon_that_is_not_positive_and_finite_is_refused(epsilon):
    with pytest.raises(BadValue, match="positive, finite epsilon"):
        ds.Budget(epsilon)


def test_a_budget_too_small_to_spend_is_refused_when_planning(folder):
    survey = a_survey(folder, epsilon=1e-30)
    with pytest.raises(BadValue, match="too small") as caught:
        survey.plan(INCOME)
    check_family(caught.value)


@pytest.mark.parametrize("epsilon", [1e-15, 1e-9, 2000.0, 1e6])
def test_a_budget_of_any_size_is_either_refused_unspent_or_released(folder, epsilon):
    survey = a_survey(folder, design=ds.srs(n=60), epsilon=epsilon)
    try:
        release = survey.plan(INCOME, EMPLOYED, BY_SEX).release()
    except ds.SurveyError:
        assert spent(folder, survey) == 0.0
    else:
        assert all(row["estimate"] is not None for row in release.estimates)


def test_a_budget_too_small_for_one_more_release_is_refused(folder):
    survey = a_survey(folder)
    survey.plan(INCOME, share=0.75).release()
    before = spent(folder, survey)
    with pytest.raises(BudgetExceeded, match="does not cover") as caught:
        survey.plan(EMPLOYED, share=0.5).release()
    check_family(caught.value)
    assert re.search(r"Requested 0\.5 / Left 0\.25 / Short by 0\.25", str(caught.value))
    assert spent(folder, survey) == before


def test_the_same_release_twice_is_refused(folder):
    survey = a_survey(folder)
    survey.plan(INCOME, share=0.25).release()
    before = spent(folder, survey)
    with pytest.raises(AlreadyReleased) as caught:
        survey.plan(INCOME, share=0.25).release()
    check_family(caught.value)
    assert spent(folder, survey) == before


def usage(make, message):
    return pytest.param(make, message, id=message)


FRAME = a_frame("register.parquet")
WRONG_CALLS = [
    usage(lambda: ds.Frame("f", unit="id", size=0), "positive whole number"),
    usage(lambda: ds.Frame("f", unit="id", size=2.5), "positive whole number"),
    usage(lambda: ds.Frame("f", unit="", size=3), "name of its unit column"),
    usage(lambda: ds.Frame("f", unit="id", size=3, categories={"sex": []}), "distinct and not empty"),
    usage(lambda: ds.Frame("f", unit="id", size=3, categories={"sex": ["a", "a"]}), "distinct and not empty"),
    usage(lambda: ds.Frame("f", unit="id", size=3, categories={"sex": {"a": 1, "b": 1}}), "do not add up to the frame size"),
    usage(lambda: ds.Frame("f", unit="id", size=3, categories={"sex": {"a": 0, "b": 3}}), "positive whole numbers"),
    usage(lambda: ds.Frame("f", unit="id", size=3, categories={"sex": [1.5]}), "a word, a whole number or a truth value"),
    usage(
        lambda: ds.Survey(ds.Frame("f", unit="id"), ds.poisson(0.1), budget=ds.Budget(1), ledger="l"),
        "public size of its frame",
    ),
    usage(lambda: ds.srs(), "either n or rate"),
    usage(lambda: ds.srs(n=3, rate=0.1), "either n or rate"),
    usage(lambda: ds.srs(n=0), "n is a positive whole number"),
    usage(lambda: ds.srs(n=2.0), "n is a positive whole number"),
    usage(lambda: ds.srs(n=174).resolve(FRAME), "more units than there are"),
    usage(lambda: ds.stratified("region", within=ds.srs(n=54)).resolve(FRAME), "more units than there are"),
    usage(lambda: ds.stratified("sex", within=ds.srs(n=5)).resolve(FRAME), "need the public sizes of 'sex'"),
    usage(lambda: ds.stratified("region", within={}), "within= takes"),
    usage(lambda: ds.stratified("region", within="srs"), "within= takes"),
    usage(lambda: ds.stratified("region", within=ds.stratified("sex", within=ds.poisson(0.1))), "strata inside strata"),
    usage(lambda: ds.stages(ds.cluster("psu", ds.srs(n=1)), ds.cluster("psu", ds.srs(n=1))), "a column of clusters of its own"),
    usage(lambda: ds.stratified("region", within={"north": ds.srs(n=1)}).resolve(FRAME), "every declared category"),
    usage(lambda: design_from_dict({"kind": "systematik"}), "unknown kind of design"),
    usage(lambda: design_from_dict({"rate": 0.1}), "a design has a kind"),
    usage(lambda: design_from_dict({"kind": "poisson", "rat": 0.1}), "unknown key 'rat'"),
    usage(lambda: design_from_dict({"kind": "poisson"}), "key 'rate' is missing"),
    usage(lambda: design_from_dict({"kind": "stratified", "by": "sex"}), "key 'within' is missing"),
    usage(lambda: statistic_from_dict({"kind": "mode", "of": "income"}), "unknown kind of statistic"),
    usage(lambda: statistic_from_dict({"kind": "mean", "off": "income"}), "unknown key 'off'"),
    usage(lambda: ds.Setting("frames", neighbours="add-remove"), "unknown phase"),
    usage(lambda: ds.Setting("frame", given="sample", neighbours="add-remove"), "must come before"),
    usage(lambda: ds.Setting("frame", given="frame", neighbours="add-remove"), "must come before"),
    usage(lambda: ds.Setting("frame", neighbours="swap"), "neighbour"),
    usage(lambda: ds.count(), "declared frame size"),
    usage(lambda: ds.count("sex"), "which value of 'sex'"),
    usage(lambda: ds.proportion("sex", None), "which value of 'sex'"),
    usage(lambda: ds.proportion("sex", 1.5), "a word, a whole number or a truth value"),
    usage(lambda: ds.proportion("sex", "a", expect=1.5), "expect="),
    usage(lambda: ds.mean("income", bounds=(0, 1), expect=(2, 0.1)), "expect="),
    usage(lambda: ds.mean("income", bounds=(0, 1), expect=0.5), "expect="),
    usage(lambda: ds.mean("", bounds=(0, 1)), "name the column"),
    usage(lambda: ds.mean("income", bounds=(0, 1), by=("sex", "sex")), "by= takes"),
    usage(lambda: ds.mean("income", bounds=(0, 1), by=5), "by= takes"),
    usage(lambda: ds.Budget("1"), "epsilon"),
    usage(lambda: ds.srs(rate="a tenth"), r"rate must be in \(0, 1\]"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS)
def test_a_wrong_call_says_what_is_wrong(call, message):
    with pytest.raises(UsageError, match=message) as caught:
        call()
    check_family(caught.value)


def test_a_known_name_is_offered_for_an_unknown_kind():
    with pytest.raises(BadValue, match="did you mean 'stratified'"):
        design_from_dict({"kind": "stratifed"})
    with pytest.raises(BadValue, match="did you mean 'frame'"):
        ds.Setting("frme", neighbours="add-remove")


def test_a_guarantee_that_cannot_be_made_is_a_refusal(folder):
    with pytest.raises(NoGuarantee, match="no guarantee can be made") as caught:
        a_survey(folder, setting=ds.Setting("sample", given="frame", neighbours="add-remove"))
    check_family(caught.value)
    assert "replace-one" in caught.value.hint


def test_a_draw_goes_to_a_parquet_file_in_a_folder_that_is_there(folder):
    survey = a_survey(folder)
    with pytest.raises(BadValue, match=r"\.parquet"):
        survey.draw(folder / "sample.csv")
    with pytest.raises(NotFound, match="no folder"):
        survey.draw(folder / "nowhere" / "sample.parquet")
    assert not os.path.exists(folder / "books.ledger") or ds.Ledger(folder / "books.ledger").sealed_sample("survey") is None


def test_every_error_speaks_as_text_and_as_data():
    error = BadValue("the rate is out of range", because="it is", given="rate=2", hint="use 1")
    assert str(error).splitlines() == ["the rate is out of range", "  because: it is", "  given: rate=2", "  hint: use 1"]
    assert error.to_dict() == {
        "error": "BadValue",
        "what": "the rate is out of range",
        "because": "it is",
        "given": "rate=2",
        "hint": "use 1",
    }
    assert {kind.exit_code for kind in (UsageError, BadValue, NotFound)} == {2}
    assert {kind.exit_code for kind in (Refusal, BadData, BudgetExceeded, AlreadyReleased, NoGuarantee)} == {1}


def test_a_value_that_was_not_declared_is_refused_before_anything_is_planned(tmp_path):
    frame = ds.Frame("f.parquet", unit="id", size=100, categories={"emp": [True, False], "sex": ["F", "M"]})
    survey = ds.Survey(frame, ds.poisson(0.5), budget=ds.Budget(1.0), ledger=tmp_path / "b.ledger")
    for column, value in (("emp", "yes"), ("emp", 1), ("sex", "female")):
        with pytest.raises(BadValue, match="is not a declared category") as caught:
            survey.plan(ds.proportion(column, value))
        assert "declared:" in caught.value.hint
    assert survey.plan(ds.proportion("emp", np.True_), ds.count("sex", "F")).items


@pytest.mark.parametrize("bounds", [("0", "100"), (False, True), "ab", 5])
def test_bounds_that_are_not_numbers_are_refused(bounds):
    with pytest.raises(BadValue, match="must be two numbers"):
        ds.mean("income", bounds=bounds)


def test_arguments_of_the_wrong_kind_are_named(tmp_path):
    frame, ledger = ds.Frame("f.parquet", unit="id", size=100), tmp_path / "b.ledger"
    for call in (
        lambda: ds.Survey(frame, ds.poisson(0.5), budget=1.0, ledger=ledger),
        lambda: ds.Survey(frame, "srs", budget=ds.Budget(1.0), ledger=ledger),
        lambda: ds.Survey(frame, ds.poisson(0.5), "frame", budget=ds.Budget(1.0), ledger=ledger),
    ):
        with pytest.raises(BadValue, match="wrong kind"):
            call()
    assert ds.Frame("f.parquet", unit="id", size=np.int64(5)).size == 5


def test_a_measured_column_may_have_declared_categories_too(tmp_path):
    import pyarrow as pa

    table = pa.table({"id": range(200), "score": [0.5, 1.5] * 100})
    frame = ds.Frame(table, unit="id", size=200, categories={"score": ["low", "high"]})
    survey = ds.Survey(frame, ds.poisson(0.5), budget=ds.Budget(1.0), ledger=tmp_path / "b.ledger")
    assert survey.plan(ds.mean("score", (0, 2))).release().estimates[0]["se"] > 0.0
