"""Design columns have the same keywords, meaning and refusals wherever a table is described by its design."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import tomli_w

import dpsurvey as ds
from dpsurvey import local
from dpsurvey.classical import Sample
from dpsurvey.design.columns import ColumnKeys, DesignColumns, named_columns
from dpsurvey.errors import BadData, BadValue, NotFound
from dpsurvey.survey.survey_file import SurveyFile

pytestmark = pytest.mark.quick

ASKED = local.Question.ask("smokes", ["no", "yes"], local.warner(0.9))
TOML = """\
[survey]
name = "columns"
ledger = "columns.ledger"
weight_range = [10, 40]
[frame]
table = "file.parquet"
size = 6000
categories = {{ region = ["north", "south"] }}
[design]
kind = "collected"
{columns}
[budget]
epsilon = 1e5
"""


def a_file():
    """120 records of two strata, in 12 clusters of each; every row stands for 20 or 30 others."""
    region = np.repeat(["north", "south"], 60)
    return pd.DataFrame(
        {
            "region": region,
            "psu": [f"{place}-{number % 12}" for number, place in enumerate(region)],
            "ssu": [str(number) for number in range(120)],
            "w": np.where(region == "north", 20.0, 30.0),
            "p": np.where(region == "north", 0.05, 1 / 30),
            "N": np.where(region == "north", 40, 50),
            "M": 10,
            "share": 0.3,
            "income": np.linspace(0.0, 100.0, 120),
            "question": ASKED.fingerprint,
            "report": np.tile(["no", "yes"], 60),
        }
    )


def of_a_collected_file(rows, folder, **columns):
    rows.to_parquet(folder / "file.parquet")
    survey = ds.Survey.collected(
        folder / "file.parquet",
        **columns,
        size=6000,
        categories={"region": ["north", "south"]},
        weight_range=(10, 40) if "weights" in columns else None,
        weights_are="design" if "weights" in columns else None,
        budget=ds.Budget(1e5),
        ledger=folder / "columns.ledger",
    )
    return survey.plan(ds.mean("income", bounds=(0, 100))).release().estimates[0]["estimate"]


def of_a_survey_file(rows, folder, **columns):
    rows.to_parquet(folder / "file.parquet")
    kind = {"weights_are": "design"} if "weights" in columns else {}
    written = tomli_w.dumps({key: list(value) if isinstance(value, tuple) else value for key, value in (columns | kind).items()})
    (folder / "survey.toml").write_text(TOML.format(columns=written))
    survey = SurveyFile.read(folder / "survey.toml").survey()
    return survey.plan(ds.mean("income", bounds=(0, 100))).release().estimates[0]["estimate"]


def of_a_sample(rows, folder, **columns):
    return Sample({name: rows[name].to_numpy() for name in rows}, **columns).mean("income").estimate


def of_local_reports(rows, folder, **columns):
    return local.estimate(ASKED, rows, **columns).rows[1]["estimate"]


PLACES = {
    "Survey.collected": of_a_collected_file,
    "the survey file": of_a_survey_file,
    "classical.Sample": of_a_sample,
    "local.estimate": of_local_reports,
}
WRONG = {
    "a misspelt key": ({"wieghts": "w"}, BadValue, "unknown key 'wieghts'"),
    "an empty name": ({"strata": "", "weights": "w"}, BadValue, "strata is the name of a column"),
    "a truth value": ({"psu": True, "weights": "w"}, BadValue, "psu is the name of a column"),
    "a second stage without a first": ({"ssu": "ssu", "weights": "w"}, BadValue, "ssu needs psu"),
    "weights and probabilities": ({"weights": "w", "probs": "p"}, BadValue, "both weights and probs"),
    "population sizes of a stage that is not there": ({"psu": "psu", "fpc": ("N", "M")}, BadValue, "fpc and stages do not match"),
    "population sizes of no stage": ({"weights": "w", "fpc": ()}, BadValue, "fpc and stages do not match"),
    "a fraction for all": ({"weights": "w", "fpc": 0.3}, BadValue, None),
    "a column that is not there": ({"weights": "v"}, NotFound, "there is no column 'v'"),
    "a column of fractions": (
        {"strata": "region", "psu": "psu", "weights": "w", "fpc": "share"},
        BadData,
        "a population is smaller than the sample drawn from it",
    ),
    "population sizes that differ inside a stratum": (
        {"psu": "psu", "weights": "w", "fpc": "N"},
        BadData,
        "the population size varies within a stratum",
    ),
}
BROKEN = {
    "a missing weight": ("w", None, "the column 'w' has missing values"),
    "a weight of zero": ("w", 0.0, "the column 'w' has values that are not positive numbers"),
    "a missing stratum": ("region", None, "the column 'region' has missing values"),
    "a missing cluster": ("psu", None, "the column 'psu' has missing values"),
    "a negative population size": ("N", -40.0, "the column 'N' has values that are not positive numbers"),
}
FOUND = {"strata": "region", "psu": "psu", "weights": "w", "fpc": "N"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", WRONG)
def test_wrong_columns_are_refused_in_the_same_words_everywhere(tmp_path, place, case):
    columns, kind, words = WRONG[case]
    if case == "a fraction for all":
        # Only a table in memory takes one number for all rows, so only there is it a fraction.
        words = "not sampling fractions"
    with pytest.raises(kind) as caught:
        PLACES[place](a_file(), tmp_path, **columns)
    assert words in caught.value.what


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", BROKEN)
def test_broken_cells_are_refused_in_the_same_words_everywhere(tmp_path, place, case):
    column, value, words = BROKEN[case]
    rows = a_file()
    rows[column] = rows[column].astype(object if isinstance(rows[column].iloc[0], str) else float)
    rows.loc[3, column] = value
    with pytest.raises(BadData) as caught:
        PLACES[place](rows, tmp_path, **FOUND)
    assert caught.value.what == words


@pytest.mark.parametrize("columns", [{"weights": "w"}, {"strata": "region", "weights": "w"}, FOUND], ids=", ".join)
def test_one_set_of_columns_gives_one_mean_from_file_and_sample(tmp_path, columns):
    rows = a_file()
    found = {}
    for place in ("Survey.collected", "the survey file", "classical.Sample"):
        (tmp_path / place).mkdir()
        found[place] = PLACES[place](rows, tmp_path / place, **columns)
    # The noise of a mean at this epsilon is below a thousandth of the range.
    assert found["Survey.collected"] == pytest.approx(found["classical.Sample"], abs=0.1)
    assert found["the survey file"] == pytest.approx(found["classical.Sample"], abs=0.1)


def test_two_stages_of_population_sizes_are_taken_where_their_variance_is_estimated(tmp_path):
    columns = {"strata": "region", "psu": "psu", "ssu": "ssu", "fpc": ("N", "M")}
    rows = a_file()
    assert of_a_sample(rows, tmp_path, **columns) > 0.0
    assert of_local_reports(rows, tmp_path, **columns) == pytest.approx(0.5, abs=0.2)
    for place in ("Survey.collected", "the survey file"):
        with pytest.raises(BadValue, match="first stage alone"):
            PLACES[place](rows, tmp_path, weights="w", **columns)


def test_probabilities_are_refused_where_a_column_of_weights_is_needed(tmp_path):
    rows = a_file()
    weighted = of_a_sample(rows, tmp_path, weights="w")
    assert of_a_sample(rows, tmp_path, probs="p") == pytest.approx(weighted)
    for place in ("Survey.collected", "the survey file"):
        with pytest.raises(BadValue, match=r"takes weights(.|\n)*weights="):
            PLACES[place](rows, tmp_path, probs="p")


@pytest.mark.parametrize("place", ["Survey.collected", "local.estimate"])
def test_arrays_are_for_tables_in_memory(tmp_path, place):
    rows = a_file()
    assert of_a_sample(rows, tmp_path, weights=rows["w"].to_numpy()) == of_a_sample(rows, tmp_path, weights="w")
    with pytest.raises(BadValue, match="weights is the name of a column"):
        PLACES[place](rows, tmp_path, weights=rows["w"].to_numpy())


def test_every_column_is_a_keyword_and_every_keyword_a_column():
    assert list(ColumnKeys.__annotations__) == [each.name for each in dataclasses.fields(DesignColumns)]


def test_the_value_is_what_was_written_and_survives_the_survey_file():
    written = {"strata": "region", "psu": "psu", "ssu": "ssu", "fpc": ["N", "M"]}
    assert named_columns(written) == DesignColumns(strata="region", psu="psu", ssu="ssu", fpc=("N", "M"))
    design = ds.Survey.collected(
        "no.parquet",
        **FOUND,
        categories={"region": ["north", "south"]},
        budget=ds.Budget(1.0),
        ledger="no.ledger",
        weight_range=(10, 40),
        weights_are="design",
    ).terms.design
    assert design.columns == DesignColumns(**FOUND)  # type: ignore[attr-defined]
    assert design.to_dict() == {"kind": "collected", "weights_are": "design"} | FOUND
