"""What is wrong with a file, a disk, a name or a number is said in words, and with no value of any row."""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.engine import Engine, Expectations
from dpsurvey.errors import BadData, BadValue, NotFound, SurveyError

SIZE, SECRET = 400, "Atlantisé"
MEAN = ds.mean("income", bounds=(0, 100))
ILE, NFD = "Île", unicodedata.normalize("NFD", "Île")


def people():
    return pd.DataFrame(
        {
            "person": [f"p{number}" for number in range(SIZE)],
            "region": [ILE, "Sud"] * (SIZE // 2),
            "income": np.arange(float(SIZE)) % 100,
        }
    )


def a_survey(table, folder, name="survey", categories=(ILE, "Sud"), column="region"):
    frame = ds.Frame(table, unit="person", size=SIZE, categories={column: list(categories)})
    setting = ds.Setting("frame", neighbours="replace-one")
    return ds.Survey(frame, ds.srs(n=50), setting, budget=ds.Budget(1.0), ledger=folder / f"{name}.ledger", name=name)


def check_with(survey, by):
    survey.check(survey.plan(ds.mean("income", bounds=(0, 100), by=by)))


def said(error):
    """A refusal as a person reads it, all of whose words are ours."""
    text = str(error.value)
    assert "codec" not in text
    assert SECRET not in text
    return text


# Answers that came back


@pytest.mark.parametrize("column", ["unit", "person"])
@pytest.mark.parametrize("form", ["csv", "in memory", "the sample file, filled in"])
def test_answers_name_their_units_as_the_frame_does_or_as_the_sample_does(tmp_path, column, form):
    survey = a_survey(people(), tmp_path)
    survey.draw(tmp_path / "sample.parquet")
    drawn = pd.read_parquet(tmp_path / "sample.parquet").assign(income=40.0)
    answers = (drawn if form.startswith("the sample") else drawn[["unit", "income"]]).rename(columns={"unit": column})
    if form == "csv":
        answers.to_csv(tmp_path / "answers.csv", index=False)
    (row,) = survey.plan(MEAN, responses=tmp_path / "answers.csv" if form == "csv" else answers).release().estimates
    assert abs(row["estimate"] - 40.0) < 12.0 * row["se_noise"]


def test_answers_without_a_column_of_units_are_named_with_both_ways(tmp_path):
    survey = a_survey(people(), tmp_path)
    survey.draw(tmp_path / "sample.parquet")
    pd.DataFrame({"id": ["p1"], "income": [3.0]}).to_csv(tmp_path / "came back.csv", index=False)
    with pytest.raises(NotFound, match=r"the file of answers 'came back\.csv' has no column 'person' for its units") as refused:
        survey.plan(MEAN, responses=tmp_path / "came back.csv").release()
    assert "'unit'" in refused.value.hint
    pd.DataFrame({"unit": ["p1"], "incom": [3.0]}).to_csv(tmp_path / "came back.csv", index=False)
    with pytest.raises(NotFound, match=r"the file of answers 'came back\.csv' has no column 'income'"):
        survey.plan(MEAN, responses=tmp_path / "came back.csv").release()


# Files that cannot be read


@pytest.mark.parametrize("where", ["header", "first row", "last row"])
def test_a_file_in_latin_1_is_called_that(tmp_path, where):
    rows = pd.concat([people()] * 200, ignore_index=True).assign(region="Sud")
    if where == "header":
        rows = rows.rename(columns={"region": "région"})
    else:
        rows.loc[0 if where == "first row" else len(rows) - 1, "region"] = SECRET
    (tmp_path / "people.csv").write_bytes(rows.to_csv(index=False).encode("latin-1"))
    column = "région" if where == "header" else "region"
    with pytest.raises(BadData) as refused:
        check_with(a_survey(tmp_path / "people.csv", tmp_path, column=column), by=column)
    assert "not UTF-8" in said(refused)
    assert "Latin-1" in said(refused)
    assert "iconv" in refused.value.hint


def test_a_damaged_file_and_a_folder_are_called_that(tmp_path):
    (tmp_path / "junk.parquet").write_bytes(SECRET.encode() * 100)
    with pytest.raises(BadData, match="failed while opening the table") as refused:
        a_survey(tmp_path / "junk.parquet", tmp_path).check()
    assert "damaged, or of another kind than its name says" in said(refused)
    (tmp_path / "many.parquet").mkdir()
    with pytest.raises(BadValue, match="is a folder"):
        a_survey(tmp_path / "many.parquet", tmp_path).check()


SOMEBODY_ELSE = """
import json, os, sys
import pandas as pd
import dpsurvey as ds
from dpsurvey.errors import SurveyError

os.chdir(sys.argv[1])
def ask(table, ledger):
    frame = ds.Frame(table, unit="person", size=400, categories={"region": ["a", "b"]})
    survey = ds.Survey(frame, ds.srs(n=50), ds.Setting("frame", neighbours="replace-one"), budget=ds.Budget(1.0), ledger=ledger)
    try:
        survey.check()
        return None
    except SurveyError as error:
        return error.to_dict()

# Everything is loaded and works, before the process becomes somebody else.
assert ask("people.csv", "closed.ledger") is None
for name in ("closed.csv", "closed.ledger"):
    os.chmod(name, 0o600 if os.geteuid() == 0 else 0)
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
print(json.dumps([ask("closed.csv", "other.ledger"), ask("people.csv", "closed.ledger")]))
"""


@pytest.fixture
def open_folder():
    """A folder that every user may enter and write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_table_and_a_ledger_that_this_user_may_not_read_are_called_that(open_folder):
    for name in ("people.csv", "closed.csv"):
        people().assign(region=["a", "b"] * (SIZE // 2)).to_csv(open_folder / name, index=False)
    ran = subprocess.run([sys.executable, "-c", SOMEBODY_ELSE, str(open_folder)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    table, ledger = json.loads(ran.stdout)
    assert table["because"] == "this user may not read or write the file"
    assert (ledger["what"], ledger["because"]) == ("the ledger cannot be opened", "this user may not read the file")
    assert "written" not in ledger["hint"]


@pytest.fixture
def no_room():
    """No file of this process may be longer than 100 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("rows", ["in memory", "in a file"])
def test_a_disk_without_room_is_called_that_and_no_look_at_the_table_is_recommended(tmp_path, request, rows):
    people().to_parquet(tmp_path / "people.parquet")
    engine = Engine(people() if rows == "in memory" else str(tmp_path / "people.parquet"))
    design = ds.srs(n=50).resolve(ds.Frame(None, unit="person", size=SIZE))
    engine.draw(design.recipe(), Expectations(unit="person"))
    request.getfixturevalue("no_room")
    with pytest.raises(BadData, match="failed while writing the sample") as refused:
        engine.write_sample(str(tmp_path / "sample.parquet"), "person", design.recipe())
    assert refused.value.because == "the file is larger than allowed"
    assert "look at the table" not in said(refused)


# Names and numbers


@pytest.mark.parametrize(
    "ask",
    [
        lambda folder: a_survey(people(), folder).plan(ds.proportion("region", NFD)),
        lambda folder: a_survey(people(), folder).plan(ds.mean("income", bounds=(0, 100), where={"region": NFD})),
        lambda folder: (
            a_survey(people().rename(columns={"income": unicodedata.normalize("NFD", "âge")}), folder)
            .plan(ds.mean("âge", bounds=(0, 100)))
            .release()
        ),
        lambda folder: a_survey(people(), folder, categories=(NFD, "Sud")).plan(ds.count("region", ILE)),
    ],
)
def test_an_accent_that_is_stored_in_another_way_is_called_that(tmp_path, ask):
    with pytest.raises(SurveyError) as refused:
        ask(tmp_path)
    assert refused.value.hint.startswith("did you mean")
    assert "NFC or NFD" in refused.value.hint


@pytest.mark.parametrize(
    "ask",
    [
        lambda folder: a_survey(people(), folder).plan(ds.proportion("region", "sud")),
        lambda folder: a_survey(people(), folder).plan(ds.mean("Income", bounds=(0, 100))).release(),
        lambda folder: a_survey(people(), folder).plan(ds.count(by="REGION")),
    ],
)
def test_capitals_that_differ_are_called_that(tmp_path, ask):
    with pytest.raises(SurveyError) as refused:
        ask(tmp_path)
    assert refused.value.hint.endswith("? capitals count")


def test_a_hint_about_categories_of_rows_rests_on_what_is_declared_alone(tmp_path):
    """Whether rows hold an accent in the other form, other capitals or another word: the message is the same."""
    messages = set()
    for number, other in enumerate((NFD, ILE.lower(), SECRET)):
        (tmp_path / str(number)).mkdir()
        rows = people().assign(region=[other, "Sud"] * (SIZE // 2))
        with pytest.raises(BadData, match="a category that was not declared") as refused:
            check_with(a_survey(rows, tmp_path / str(number)), by="region")
        messages.add(said(refused))
    assert len(messages) == 1
    assert "NFC" in messages.pop()
    with pytest.raises(BadData) as refused:
        check_with(a_survey(people(), tmp_path, categories=("Nord", "Sud")), by="region")
    assert "NFC" not in said(refused)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epsilon": "1"}, "epsilon='1'"),
        ({"epsilon": 1.0, "delta": "1e-6"}, "delta='1e-6'"),
        ({"epsilon": True}, "epsilon=True"),
        ({"epsilon": None}, "epsilon=None"),
        ({"epsilon": 1.0, "delta": None}, "delta=None"),
    ],
)
def test_a_budget_in_quotes_is_no_number_and_looks_like_none(given, words):
    with pytest.raises(BadValue, match="must be a number") as refused:
        ds.Budget(**given)
    assert refused.value.given == words
    assert ("without quotes" in refused.value.hint) == ("'" in words)


# What a ledger says of a sample


@pytest.mark.parametrize(("kind", "amplified"), [("collected", False), ("sample protected", False), ("frame protected", True)])
def test_the_ledger_calls_amplified_only_what_is(tmp_path, kind, amplified):
    if kind == "collected":
        survey = ds.Survey.collected(people(), n=SIZE, size=SIZE * 3, budget=ds.Budget(1.0), ledger=tmp_path / "a.ledger")
    else:
        setting = ds.Setting(kind.split()[0], "frame" if kind.startswith("sample") else None, neighbours="replace-one")
        frame = ds.Frame(people(), unit="person", size=SIZE)
        survey = ds.Survey(frame, ds.srs(n=50), setting, budget=ds.Budget(1.0), ledger=tmp_path / "a.ledger")
    survey.plan(MEAN).release()
    with ds.Ledger(tmp_path / "a.ledger") as ledger:
        (line,) = [line for account in ledger.accounts() for line in account.lines]
    assert ("then amplified once" in line.how) == amplified
    assert ("nothing amplifies" in line.how) != amplified
