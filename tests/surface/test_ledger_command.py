"""`dpsurvey ledger` as people use it: every verb, its JSON, its refusals, and the mistakes people make."""

import json
import shutil
import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.errors import SurveyError
from dpsurvey.text.layout import ceiling_text, floor_text
from tests.command_line import invoke
from tests.command_line import printed as dpsurvey

SURVEY = """
[survey]
name = "lfs"
ledger = "books.ledger"
[frame]
table = "register.parquet"
unit = "id"
size = 5000
[design]
kind = "poisson"
rate = 0.1
[setting]
protect = "frame"
neighbours = "add-remove"
[budget]
epsilon = 1.0
[release]
share = 0.25
[[statistic]]
kind = "mean"
of = "income"
bounds = [0, 100]
"""
VERBS = ("tree", "show", "verify", "export", "what-if", "plot", "budget", "panel", "close", "anchor", "sign", "carry", "merge")


def told(*arguments):
    return json.loads(dpsurvey(*arguments, "--json"))


def write_survey(folder):
    random = np.random.default_rng(1)
    pq.write_table(pa.table({"id": np.arange(5000), "income": random.gamma(2.0, 10.0, 5000)}), folder / "register.parquet")
    (folder / "survey.toml").write_text(SURVEY)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_survey(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def first_release(tmp_path_factory):
    """A folder in which a sample was drawn and a release made, once: each test gets a copy."""
    made = tmp_path_factory.mktemp("released")
    with pytest.MonkeyPatch.context() as patch:
        write_survey(made)
        patch.chdir(made)
        dpsurvey("draw", "survey.toml", "-o", "sample.parquet")
        dpsurvey("release", "survey.toml", "--out", "q1")
    return made


@pytest.fixture
def released_here(folder):
    """The same, made in this folder: releases that follow look for the sample where it was drawn."""
    dpsurvey("draw", "survey.toml", "-o", "sample.parquet")
    dpsurvey("release", "survey.toml", "--out", "q1")
    return folder


@pytest.fixture
def released(first_release, tmp_path, monkeypatch):
    shutil.copytree(first_release, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verb", [*VERBS, "clock", "roles"])
def test_every_verb_has_help_with_an_example(verb):
    assert "Example" in dpsurvey("ledger", verb, "--help")


def test_the_tree_shows_spent_and_left_for_outsiders_and_for_the_sampled(released):
    text = dpsurvey("ledger", "survey.toml")
    assert text == dpsurvey("ledger", "tree", "books.ledger")
    (survey,) = told("ledger", "survey.toml")["surveys"]
    assert f"lfs: budget epsilon 1, spent {ceiling_text(survey['spent'], 6)}, left {floor_text(survey['left'], 6)}" in text
    assert f"someone known to be in it {ceiling_text(survey['samples'][0]['epsilon_in_sample'], 6)}" in text
    assert "mean of income" in text
    assert "mean of income" not in dpsurvey("ledger", "survey.toml", "--no-charges")


def test_what_if_says_what_a_release_then_costs(released_here):
    (released_here / "survey.toml").write_text(SURVEY.replace("share = 0.25", "share = 0.125"))
    before = told("ledger", "what-if", "survey.toml")
    entries = len(told("ledger", "show", "books.ledger", "--last", "0"))
    assert len(told("ledger", "show", "books.ledger", "--last", "0")) == entries, "asking writes nothing"
    dpsurvey("release", "survey.toml", "--out", "q2")
    (survey,) = told("ledger", "survey.toml")["surveys"]
    assert survey["spent"] == before["levels"][0]["after"]
    assert survey["left"] == before["levels"][0]["left_after"]
    refused = told("ledger", "what-if", "survey.toml", "--share", "0.9")
    assert not refused["fits"]
    assert "DOES NOT FIT" in dpsurvey("ledger", "what-if", "survey.toml", "--share", "0.9")


def test_what_if_before_the_first_release_makes_no_ledger(folder):
    quote = told("ledger", "what-if", "survey.toml")
    assert quote["fits"]
    assert quote["levels"][0]["left"] == 1.0
    assert not (folder / "books.ledger").exists()


def test_show_gives_entries_or_one_survey(released):
    entries = told("ledger", "show", "survey.toml", "--last", "0")
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry["kind"] for entry in entries] == ["made", "checked", "opened", "sample", "checked", "reserved", "committed"]
    assert all(entry["by"] and entry["software"] == ds.__version__ and entry["at"] for entry in entries)
    assert len(dpsurvey("ledger", "show", "survey.toml", "--last", "3").splitlines()) == 3
    assert told("ledger", "show", "survey.toml", "--survey", "lfs")["survey"] == "lfs"
    with pytest.raises(SurveyError, match="no survey 'lf'") as raised:
        dpsurvey("ledger", "show", "survey.toml", "--survey", "lf")
    assert raised.value.hint == "did you mean 'lfs'?"


def test_verify_compares_with_releases_exports_copies_anchors_and_signatures(released):
    dpsurvey("ledger", "anchor", "books.ledger", "books.anchor")
    dpsurvey("ledger", "sign", "books.ledger", "--key-file", "office.key", "--new-key")
    dpsurvey("ledger", "export", "books.ledger", "-o", "books.export")
    against = [part for name in ("q1/release.json", "books.export", "books.anchor") for part in ("--against", name)]
    found = told("ledger", "verify", "survey.toml", *against, "--public-key", "office.key.pub")
    assert found["ok"]
    assert [each["ok"] for each in (*found["against"], *found["signatures"])] == [True] * 4
    assert told("ledger", "verify", "books.export", "--public-key", "office.key.pub")["head"] == found["head"]
    with pytest.raises(SurveyError, match="exists already"):
        dpsurvey("ledger", "export", "books.ledger", "-o", "books.export")


def test_verify_names_the_damage_and_ends_with_a_refusal(released):
    dpsurvey("ledger", "export", "books.ledger", "-o", "books.export")
    lines = (released / "books.export").read_text().splitlines()
    (released / "cut.export").write_text("\n".join(lines[:-1]) + "\n")
    (released / "changed.export").write_text("\n".join([*lines[:3], lines[3].replace("lfs", "lfz"), *lines[4:]]) + "\n")
    for name, place in (("cut.export", 7), ("changed.export", 3)):
        done = invoke("ledger", "verify", name, "--json")
        assert done.exception.exit_code == 1
        assert [each["entry"] for each in json.loads(done.stdout)["damages"]] == [place]
        assert f"entry {place}" in str(done.exception)


def test_a_ledger_behind_its_anchor_says_so_wherever_it_is_looked_at(released):
    dpsurvey("ledger", "anchor", "books.ledger", "books.anchor")
    with sqlite3.connect("books.ledger") as open_file:
        open_file.execute("pragma wal_checkpoint(truncate)")
    open_file.close()
    shutil.copy("books.ledger", "old.ledger")
    dpsurvey("ledger", "budget", "books.ledger", "--epsilon", "2")
    assert "WARNING" not in dpsurvey("ledger", "books.ledger")
    for name in ("books.ledger-wal", "books.ledger-shm"):
        (released / name).unlink(missing_ok=True)
    shutil.copy("old.ledger", "books.ledger")
    assert "WARNING: this ledger was rolled back" in dpsurvey("ledger", "books.ledger")
    with pytest.raises(SurveyError, match="does not verify"):
        dpsurvey("ledger", "verify", "books.ledger")


def test_budgets_of_the_agency_refuse_at_their_level(released_here):
    dpsurvey("ledger", "budget", "books.ledger", "--epsilon", "0.2", "--per", "year")
    (released_here / "survey.toml").write_text(SURVEY.replace("share = 0.25", "share = 0.5"))
    with pytest.raises(SurveyError, match="the agency for a year") as raised:
        dpsurvey("release", "survey.toml", "--out", "q2")
    assert raised.value.exit_code == 1
    assert "Requested" in raised.value.given
    assert "Short by" in raised.value.given
    with pytest.raises(SurveyError, match="lowered, never raised"):
        dpsurvey("ledger", "budget", "books.ledger", "--epsilon", "0.3", "--per", "year")
    assert "budget of the agency for 20" in dpsurvey("ledger", "survey.toml")


def test_a_panel_is_put_on_record_before_its_first_draw(folder):
    dpsurvey("key", "new", "panel.key")
    wave = ("--name", "lfs", "--key-file", "panel.key", "--rate", "0.1", "--waves", "4", "--overlap", "0.5")
    with pytest.raises(SurveyError, match="no ledger"):
        dpsurvey("ledger", "panel", "books.ledger", *wave, "--epsilon", "1.5")
    made = told("ledger", "panel", "books.ledger", "--new", *wave, "--epsilon", "1.5")
    assert made["loss"] == 1.5
    assert [start for start, _ in made["windows"]] == [0.0, 0.05, 0.1, pytest.approx(0.15)]
    with pytest.raises(SurveyError, match="on record"):
        dpsurvey("ledger", "panel", "books.ledger", *wave, "--epsilon", "1.5")
    with pytest.raises(SurveyError, match="no such wave"):
        dpsurvey("draw", "survey.toml", "-o", "s.parquet", "--key-file", "panel.key", "--start", "0.3")
    assert not (folder / "s.parquet").exists()
    dpsurvey("draw", "survey.toml", "-o", "s.parquet", "--key-file", "panel.key", "--start", "0.05")
    dpsurvey("release", "survey.toml", "--out", "q1")
    (panel,) = told("ledger", "survey.toml")["panels"]
    assert 0.0 < panel["spent"] < 1.5
    assert [wave["survey"] for wave in panel["waves"]] == [None, "lfs", None, None]
    assert "wave 1 from 0.05: lfs, charged" in dpsurvey("ledger", "survey.toml")


def test_a_closed_survey_is_neither_drawn_nor_released(released_here):
    dpsurvey("ledger", "close", "survey.toml", "--survey", "lfs", "--why", "the last table is out")
    (released_here / "survey.toml").write_text(SURVEY.replace("share = 0.25", "share = 0.125"))
    for call in (("release", "survey.toml", "--out", "q2"), ("draw", "survey.toml", "-o", "new.parquet", "--new-sample")):
        with pytest.raises(SurveyError, match="closed") as raised:
            dpsurvey(*call)
        assert raised.value.because == "the last table is out"
    assert "closed: the last table is out" in dpsurvey("ledger", "survey.toml")


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_plot_is_a_picture_of_every_budget(released, ending):
    dpsurvey("ledger", "budget", "books.ledger", "--epsilon", "3")
    found = told("ledger", "plot", "survey.toml", "-o", f"budget.{ending}")
    assert [row["name"] for row in found["budgets"]] == ["agency, ever (frame, add-remove)", "lfs"]
    content = (released / f"budget.{ending}").read_bytes()
    assert content.startswith(b"\x89PNG" if ending == "png" else b"<svg")
    with pytest.raises(SurveyError, match="svg or"):
        dpsurvey("ledger", "plot", "survey.toml", "-o", "budget.pdf")


def test_a_ledger_is_carried_and_merged_from_the_command_line(released_here):
    before = told("ledger", "books.ledger")["surveys"][0]["spent"]
    shutil.copy("survey.toml", "other.toml")
    (released_here / "other.toml").write_text(SURVEY.replace("books.ledger", "other.ledger"))
    dpsurvey("release", "other.toml", "--out", "other")
    dpsurvey("ledger", "carry", "books.ledger", "new.ledger")
    with pytest.raises(SurveyError, match="carried"):
        dpsurvey("release", "survey.toml", "--out", "q2")
    with pytest.raises(SurveyError, match="same name"):
        dpsurvey("ledger", "merge", "new.ledger", "other.ledger")
    dpsurvey("ledger", "merge", "new.ledger", "other.ledger", "--prefix", "south ")
    view = told("ledger", "new.ledger")
    assert [survey["survey"] for survey in view["surveys"]] == ["lfs", "south lfs"]
    assert [survey["spent"] for survey in view["surveys"]] == [before, before]
    assert view["accounts"][0]["epsilon"] == pytest.approx(2 * before, rel=1e-12)
    assert told("ledger", "verify", "new.ledger")["ok"]


MISTAKES = {
    "a ledger that is not there": (("ledger", "nowhere.ledger"), "no ledger"),
    "a survey file that is not there": (("ledger", "nowhere.toml"), "no file"),
    "a table for a ledger": (("ledger", "register.parquet"), "cannot be opened"),
    "verify of a table": (("ledger", "verify", "register.parquet"), "cannot be opened"),
    "against nothing": (("ledger", "verify", "books.ledger", "--against", "nothing.json"), "no file"),
    "a negative budget": (("ledger", "budget", "books.ledger", "--epsilon", "-1"), "positive"),
    "a budget per month": (("ledger", "budget", "books.ledger", "--epsilon", "1", "--per", "month"), "unknown period"),
    "a setting that does not exist": (
        ("ledger", "budget", "books.ledger", "--epsilon", "1", "--protect", "fram"),
        "unknown phase",
    ),
    "closing what is not there": (("ledger", "close", "books.ledger", "--survey", "lsf"), "no survey"),
    "a table as a signing key": (("ledger", "sign", "books.ledger", "--key-file", "register.parquet"), "not an Ed25519"),
    "no signing key": (("ledger", "sign", "books.ledger", "--key-file", "none.key"), "no key file"),
    "a misspelt verb": (("ledger", "verfy", "books.ledger"), "no verb 'verfy'"),
    "a limit below what is spent": (("ledger", "budget", "books.ledger", "--epsilon", "0.01"), "spent already"),
    "a budget of a misspelt ledger": (("ledger", "budget", "boks.ledger", "--epsilon", "1"), "no ledger"),
    "what-if of a ledger": (("ledger", "what-if", "books.ledger"), "takes a survey.toml"),
    "a clock that is right": (("ledger", "clock", "books.ledger", "--why", "no reason"), "nothing to accept"),
    "a ledger merged with itself": (("ledger", "merge", "books.ledger", "books.ledger"), "itself"),
    "roles of a file": (("ledger", "roles", "books.ledger", "--give", "ann=spender"), "PostgreSQL"),
    "half an address": (("ledger", "postgresql://ann:secret@:port/x#s"), "PostgreSQL address"),
    "a server that is not up": (("ledger", "postgresql://ann:secret@127.0.0.1:1/x#s"), "cannot be reached"),
    "a reason is needed": (("ledger", "clock", "books.ledger", "--why", ""), "why"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_in_words_and_changes_nothing(released, mistake):
    call, words = MISTAKES[mistake]
    before = told("ledger", "show", "books.ledger", "--last", "0")
    with pytest.raises(SurveyError, match=words) as raised:
        dpsurvey(*call)
    assert "secret" not in str(raised.value)
    assert told("ledger", "show", "books.ledger", "--last", "0") == before
