"""A release.json in which any figure was changed is found by the ledger that committed it, also by a ledger of 0.8.0."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dpsurvey as ds
from dpsurvey.cli.app import app
from dpsurvey.ledger.documents import read_document

pytestmark = pytest.mark.quick

OLD = Path(__file__).parent / "written_by_0_8_0"
# A string, or a number outside of strings.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """The ledger that 0.8.0 wrote."""
    place = tmp_path_factory.mktemp("old") / "books.ledger"
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript((OLD / "books.sql").read_text())
    return place


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A ledger and a release of this version, from the same survey file."""
    folder = tmp_path_factory.mktemp("new")
    for name in ("survey.toml", "register.csv"):
        (folder / name).write_text((OLD / name).read_text())
    done = CliRunner().invoke(app, ["release", str(folder / "survey.toml"), "--out", str(folder / "q1")])
    assert done.exit_code == 0, done.output
    return folder / "books.ledger", (folder / "q1" / "release.json").read_text()


def numbers(text):
    """Where the numbers of a JSON document are."""
    return [found.span() for found in TOKEN.finditer(text) if not found.group().startswith('"')]


def another_digit(digit):
    return str((int(digit) + 1) % 10)


def found_wrong(place, text, folder):
    file = folder / "release.json"
    file.write_text(text)
    (told,) = ds.verify_ledger(place, against=[file]).against
    return None if told["ok"] else told["what"]


def test_releases_as_they_were_written_agree(books, made, tmp_path):
    place, text = made
    assert found_wrong(place, text, tmp_path) is None
    assert found_wrong(place, json.dumps(json.loads(text)), tmp_path) is None, "spaces do not matter"
    assert found_wrong(books, (OLD / "release.json").read_text(), tmp_path) is None


@pytest.mark.parametrize("age", ["new", "old"])
def test_every_number_of_a_release_is_covered(age, books, made, tmp_path):
    place, text = made if age == "new" else (books, (OLD / "release.json").read_text())
    places = numbers(text)
    assert len(places) > 50
    for start, end in places:
        last = next(at for at in reversed(range(start, end)) if text[at].isdigit())
        assert found_wrong(place, text[:last] + another_digit(text[last]) + text[last + 1 :], tmp_path), text[start:end]


@pytest.mark.slow
def test_every_digit_of_a_release_is_covered(made, tmp_path):
    place, text = made
    digits = [at for start, end in numbers(text) for at in range(start, end) if text[at].isdigit()]
    assert len(digits) > 400
    for at in digits:
        changed = text[:at] + another_digit(text[at]) + text[at + 1 :]
        try:
            json.loads(changed)
        except ValueError:
            continue
        assert found_wrong(place, changed, tmp_path), text[at - 10 : at + 10]


def test_numbers_that_only_look_different_and_keys_that_stand_twice_are_found(made, tmp_path):
    place, text = made
    estimate = json.dumps(json.loads(text)["estimates"][0]["estimate"])
    for respelt in (f"{estimate}0", f"{estimate}e0", f"{estimate}0000000000000000001"):
        assert "is written as" in found_wrong(
            place, text.replace(f'"estimate": {estimate}', f'"estimate": {respelt}', 1), tmp_path
        )
    twice = text.replace('"estimate":', '"estimate": 1.5, "estimate":', 1)
    assert json.loads(twice) == json.loads(text)
    assert found_wrong(place, twice, tmp_path) == "the key 'estimate' stands twice"


def test_words_rows_and_whole_parts_are_covered_too(made, tmp_path):
    place, text = made
    for change in (
        lambda document: document["estimates"].reverse(),
        lambda document: document["estimates"].pop(),
        lambda document: document["guarantee"].pop("holds_when"),
        lambda document: document.update(more=1),
        lambda document: document["not_protected"].clear(),
        lambda document: document["software"].update(dpsurvey="9"),
    ):
        document = json.loads(text)
        change(document)
        assert "not what was committed" in found_wrong(place, json.dumps(document), tmp_path)


def test_the_command_says_that_a_figure_was_changed_and_exits_with_1(made, tmp_path):
    place, text = made
    document = json.loads(text)
    document["guarantee"]["epsilon"] = 0.01
    (tmp_path / "release.json").write_text(json.dumps(document))
    done = CliRunner().invoke(app, ["ledger", "verify", str(place), "--against", str(tmp_path / "release.json")])
    assert done.exception.exit_code == 1
    assert "not what was committed" in done.exception.given


def test_documents_are_read_as_they_are_written():
    for value in (0, -1, 0.1, 1e300, 5e-324, -0.0, 1e22, True, None, "1.50", [1, {"a": 2.5}]):
        assert read_document(json.dumps(value)) == (value, "")
