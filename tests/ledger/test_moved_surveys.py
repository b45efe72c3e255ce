"""A survey is what it declared, wherever its files lie; no place is published; and what-if says what a release then does."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.errors import SurveyError
from dpsurvey.survey.demo import demo_statistics, demo_survey, make_register
from dpsurvey.survey.survey_file import write_survey_file
from tests.command_line import printed as dpsurvey

OLD = Path(__file__).parent / "written_by_0_8_0"


@pytest.fixture
def office(tmp_path):
    """A folder with a survey file and its register."""
    folder = tmp_path / "a secret office"
    folder.mkdir()
    for name in ("survey.toml", "register.csv"):
        shutil.copy(OLD / name, folder)
    return folder


@pytest.fixture
def old_office(office):
    """The same, with the ledger that 0.8.0 wrote in another folder, which is on record with its whole path."""
    with closing(sqlite3.connect(office / "books.ledger")) as connection:
        connection.executescript((OLD / "books.sql").read_text())
    return office


def with_share(folder, share):
    file = folder / "survey.toml"
    file.write_text(file.read_text().replace("share = 0.25", f"share = {share}"))
    return file


def what_if(file):
    return json.loads(dpsurvey("ledger", "what-if", file, "--json"))


def test_a_survey_that_is_moved_with_its_ledger_and_its_sample_goes_on(office, tmp_path):
    (office / "samples").mkdir()
    dpsurvey("draw", office / "survey.toml", "-o", office / "samples" / "sample.parquet")
    dpsurvey("release", office / "survey.toml", "--out", office / "q1")
    moved = tmp_path / "elsewhere" / "lfs"
    moved.parent.mkdir()
    shutil.move(office, moved)
    file = with_share(moved, 0.3)
    assert what_if(file)["fits"]
    dpsurvey("check", file)
    dpsurvey("release", file, "--out", moved / "q2")
    with ds.Ledger(moved / "books.ledger") as ledger:
        assert len({charge["sample"] for charge in ledger.charges("lfs")}) == 1
        assert ledger.sealed_sample("lfs").path == str(moved / "samples" / "sample.parquet")
    found = ds.verify_ledger(moved / "books.ledger", against=[moved / name / "release.json" for name in ("q1", "q2")])
    assert found.ok, str(found)


def test_a_ledger_of_0_8_0_goes_on_where_it_is_now(old_office):
    assert "already released" in what_if(old_office / "survey.toml")["refused"]
    file = with_share(old_office, 0.3)
    assert what_if(file)["fits"]
    dpsurvey("release", file, "--out", old_office / "q2")
    against = [OLD / "release.json", old_office / "q2" / "release.json"]
    found = ds.verify_ledger(old_office / "books.ledger", against=against)
    assert found.ok, str(found)


def test_another_table_is_another_survey(old_office):
    shutil.move(old_office / "register.csv", old_office / "firms.csv")
    file = with_share(old_office, 0.3)
    file.write_text(file.read_text().replace("register.csv", "firms.csv"))
    assert "changed: frame" in what_if(file)["refused"]
    with pytest.raises(SurveyError, match="other terms"):
        dpsurvey("release", file, "--out", old_office / "q2")


def test_nothing_that_is_published_says_where_the_office_keeps_its_files(office):
    dpsurvey("draw", office / "survey.toml", "-o", office / "sample.parquet")
    dpsurvey("release", office / "survey.toml", "--out", office / "q1")
    dpsurvey("ledger", "export", office / "survey.toml", "-o", office / "books.export")
    published = [*(office / "q1").iterdir(), office / "books.export", office / "sample.manifest.json"]
    assert len(published) >= 5
    for file in published:
        assert "secret office" not in file.read_text(), file.name
    document = json.loads((office / "q1" / "release.json").read_text())
    assert document["survey"]["frame"]["table"] == "register.csv"


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("C:\\lfs\\register.parquet", "register.parquet"),
        ("lfs/years/*.parquet", "*.parquet"),
        ("/srv/lfs/register/", "register"),
        ("postgresql://ann@db.office/base#lfs.people", "lfs.people"),
        ("s3a://bucket/lfs/register", "register"),
    ],
)
def test_of_a_table_its_name_is_on_record_and_not_its_place(table, name):
    assert ds.Frame(table, unit="id", size=5).to_dict()["table"] == name


def test_the_survey_file_of_the_demo_is_known_to_its_own_ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = Path("demo-out")
    here.mkdir()
    survey = demo_survey(make_register(here / "register.parquet", 2000), here / "demo.ledger", 2000)
    plan = survey.plan(*demo_statistics())
    write_survey_file(here / "survey.toml", survey, plan)
    plan.release()
    file = here / "survey.toml"
    dpsurvey("check", file)
    assert "already released" in what_if(file)["refused"]
    with pytest.raises(SurveyError, match="already released"):
        dpsurvey("release", file, "--out", tmp_path / "again")


def other_terms(folder):
    file = folder / "survey.toml"
    file.write_text(file.read_text().replace("epsilon = 1.0", "epsilon = 2.0"))


def closed(folder):
    dpsurvey("ledger", "close", folder / "survey.toml", "--survey", "lfs")


def released(folder):
    file = folder / "survey.toml"
    file.write_text(file.read_text().replace("share = 0.3", "share = 0.25"))


def too_much(folder):
    file = folder / "survey.toml"
    file.write_text(file.read_text().replace("share = 0.3", "share = 1.0"))


@pytest.mark.parametrize("change", [None, other_terms, closed, released, too_much])
def test_what_if_says_what_the_release_then_does(old_office, change):
    file = with_share(old_office, 0.3)
    if change:
        change(old_office)
    told, text = what_if(file), dpsurvey("ledger", "what-if", file)
    assert told["fits"] == (change is None)
    if change is None:
        dpsurvey("release", file, "--out", old_office / "q2")
        return
    with pytest.raises(SurveyError) as caught:
        dpsurvey("release", file, "--out", old_office / "q2")
    assert (told["refused"] is None) == (change is too_much)
    assert ("DOES NOT FIT" in text) == (change is too_much)
    assert change is too_much or (caught.value.what in told["refused"] and f"REFUSED: {caught.value.what}" in text)


def test_what_if_knows_that_releases_of_a_collected_file_are_about_the_same_rows(tmp_path):
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(OLD / "register.csv"), tmp_path / "collected.parquet")
    budget = ds.Budget(1.0, 1e-6)
    survey = ds.Survey.collected(tmp_path / "collected.parquet", n=200, size=2000, budget=budget, ledger=tmp_path / "books")
    income = ds.mean("income", bounds=(0, 100))
    survey.plan(income, share=0.5, noise="gaussian").release()
    again = ds.Survey.collected(tmp_path / "collected.parquet", n=200, size=2000, budget=budget, ledger=tmp_path / "books")
    plan = again.plan(income, share=0.25, noise="gaussian")
    quoted = again.what_if(plan)
    assert quoted.fits, quoted.to_dict()
    plan.release()
    with ds.Ledger(tmp_path / "books") as ledger:
        assert ledger.spending(again.terms).spent == quoted.survey.spent
