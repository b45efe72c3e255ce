"""What counts as published can be written again, whatever went wrong when it was saved; what can fail fails before it is paid."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design import DESIGNS, Poisson, register
from dpsurvey.errors import AlreadyReleased, BadValue, LedgerBroken, NotFound
from tests.command_line import printed

CLI = [sys.executable, "-m", "dpsurvey.cli.app"]
ADD = ds.Setting("frame", neighbours="add-remove")
FILES = ["release.csv", "release.json", "report.html"]
SURVEY = """
[survey]
name = "lfs"
ledger = "books.ledger"
[frame]
table = "register.parquet"
unit = "id"
size = 400
[frame.categories]
"area" = ["Île", "Pré"]
[design]
kind = "poisson"
rate = 0.5
[setting]
protect = "frame"
neighbours = "add-remove"
[budget]
epsilon = 4.0
[[statistic]]
kind = "mean"
of = "income"
bounds = [0, 100]
by = "area"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    chance = np.random.default_rng(5)
    areas = [("Île", "Pré")[each] for each in chance.integers(0, 2, 400)]
    pq.write_table(
        pa.table({"id": range(400), "income": chance.uniform(0, 100, 400), "area": areas}), tmp_path / "register.parquet"
    )
    (tmp_path / "survey.toml").write_text(SURVEY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def survey(design=None, name="lfs"):
    frame = ds.Frame("register.parquet", unit="id", size=400, categories={"area": ["Île", "Pré"]})
    return ds.Survey(frame, design or ds.poisson(0.5), ADD, budget=ds.Budget(4.0), ledger="books.ledger", name=name)


def command(*words, **about):
    """The command line in a process of its own: what it starts and ends with is looked at."""
    return subprocess.run([*CLI, *words], capture_output=True, text=True, timeout=300, **about)


def states():
    with ds.Ledger("books.ledger") as ledger:
        return [charge["state"] for charge in ledger.charges("lfs")]


def test_a_release_that_was_never_saved_is_given_again_word_for_word_and_for_nothing(folder):
    plan = survey().plan(ds.mean("income", bounds=(0, 100)))
    with pytest.raises(NotFound):
        survey().released(plan)
    before = plan.release()
    with ds.Ledger("books.ledger") as ledger:
        spent, count = ledger.spending(plan.terms).spent, ledger.stamp["count"]
    os.remove("register.parquet")
    after = survey().released(survey().plan(ds.mean("income", bounds=(0, 100))))
    assert after.to_dict() == before.to_dict()
    with ds.Ledger("books.ledger") as ledger:
        assert (ledger.spending(plan.terms).spent, ledger.stamp["count"]) == (spent, count)


def test_a_second_release_of_a_plan_is_refused_with_the_way_to_have_it_again(folder):
    plan = survey().plan(ds.mean("income", bounds=(0, 100)))
    plan.release()
    with pytest.raises(AlreadyReleased, match="already released") as raised:
        plan.release()
    assert "--again" in raised.value.hint


def test_the_command_writes_a_release_again_from_the_ledger(folder):
    first = printed("release", "survey.toml", "--out", "one", "--json")
    shutil.rmtree("one")
    again = printed("release", "survey.toml", "--again", "--out", "two", "--json")
    assert json.loads(again) == json.loads(first)
    assert sorted(os.listdir("two")) == FILES
    assert states() == ["committed"]
    assert "agrees with the release" in printed("ledger", "verify", "survey.toml", "--against", "two/release.json")


def test_a_plan_that_was_interrupted_before_it_was_published_is_not_given_again(folder):
    made = survey()
    plan = made.plan(ds.mean("income", bounds=(0, 100)))
    with ds.Ledger("books.ledger") as ledger:
        ledger.open_survey(made.terms)
        ledger.reserve(plan.request, None)
    with pytest.raises(AlreadyReleased) as raised:
        made.released(plan)
    assert "interrupted" in raised.value.because


def test_what_the_ledger_keeps_is_compared_with_what_was_committed(folder):
    import sqlite3

    plan = survey().plan(ds.mean("income", bounds=(0, 100)))
    release = plan.release()
    connection = sqlite3.connect("books.ledger")
    with connection:
        text = json.dumps(release.to_dict() | {"not_in_the_error": []})
        assert connection.execute("update documents set text = ?", (text,)).rowcount == 1
    connection.close()
    with pytest.raises(LedgerBroken, match="not what was committed"):
        survey().released(plan)


def test_what_was_published_moves_with_the_ledger(folder):
    plan = survey().plan(ds.mean("income", bounds=(0, 100)))
    before = plan.release()
    with ds.Ledger("books.ledger") as ledger:
        ledger.carry("moved.ledger")
    with ds.Ledger("moved.ledger") as moved, ds.Ledger("all.ledger") as everything:
        assert ds.Release(moved.released(plan.request)).hash == before.hash
        everything.merge("moved.ledger")
        assert ds.Release(everything.released(plan.request)).hash == before.hash


def test_of_three_releases_to_one_folder_one_is_made_and_nothing_else_is_spent(folder):
    shares = ("0.1", "0.2", "0.3")
    for share in shares:
        (folder / f"{share}.toml").write_text(SURVEY + f"\n[release]\nshare = {share}\n", encoding="utf-8")
    made = [
        subprocess.Popen(
            [*CLI, "release", f"{share}.toml", "--out", "q1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for share in shares
    ]
    talk = [each.communicate(timeout=300)[1] for each in made]
    assert sorted(each.returncode for each in made) == [0, 2, 2], talk
    assert states() == ["committed"]
    assert sorted(os.listdir("q1")) == FILES
    assert "agrees with the release" in printed("ledger", "verify", "0.1.toml", "--against", "q1/release.json")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_a_release_that_cannot_be_printed_is_saved_and_says_so(folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*CLI, "release", "survey.toml", "--out", "q1"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3, done.stderr
    assert "released, but" in done.stderr
    assert sorted(os.listdir("q1")) == FILES


def test_a_reader_who_stops_reading_and_a_terminal_without_accents_are_no_failures(folder):
    closed = subprocess.run(["sh", "-c", f"{' '.join(CLI)} release survey.toml --out q1 >&-"], stderr=subprocess.PIPE, text=True)
    assert closed.returncode == 0, closed.stderr
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    narrow = command("release", "survey.toml", "--again", "--out", "q2", env=ascii_only)
    assert narrow.returncode == 0, narrow.stderr
    assert r"\xcele" in narrow.stdout
    pipe = subprocess.Popen(
        [*CLI, "release", "survey.toml", "--again", "--out", "q3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    pipe.stdout.close()
    talk = pipe.stderr.read().decode()
    pipe.stderr.close()
    assert pipe.wait(300) == 0, talk
    assert "Traceback" not in talk
    assert states() == ["committed"]


def test_a_disk_that_fills_up_costs_the_files_and_not_the_release(folder):
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this system does not let a test have a small disk of its own")
    (folder / "small").mkdir()
    script = f"mount -t tmpfs -o size=16k tmpfs small && {' '.join(CLI)} release survey.toml --out small"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 3, done.stderr
    assert "the disk is full" in done.stderr
    assert "--again" in done.stderr
    assert states() == ["committed"]
    printed("release", "survey.toml", "--again", "--out", "q2")
    assert sorted(os.listdir("q2")) == FILES


def test_a_report_of_thousands_of_groups_is_drawn(folder):
    names = [f"g{number}" for number in range(1600)]
    chance = np.random.default_rng(6)
    table = pa.table({"id": range(400), "group": [names[each] for each in chance.integers(0, 1600, 400)]})
    pq.write_table(table, "many.parquet")
    frame = ds.Frame("many.parquet", unit="id", size=400, categories={"group": names})
    release = (
        ds.Survey(frame, ds.poisson(0.5), ADD, budget=ds.Budget(4.0), ledger="m.ledger").plan(ds.count(by="group")).release()
    )
    page = release.save("many.html").read_text()
    assert "the first 120 of 1,600" in page
    assert "g1599" in page


class Toy(Poisson):
    """A design from outside the package: Poisson sampling under another name."""

    kind = "toy"

    def in_words(self, unit="unit"):
        return f"a toy that draws each {unit} with probability {self.rate:g}"

    def resolve(self, frame):
        return Toy(self.rate, frame.size)

    def to_dict(self):
        return super().to_dict() | {"kind": self.kind}


class Broken(Toy):
    """A design whose words no document can hold."""

    kind = "broken"

    def to_dict(self):
        return super().to_dict() | {"rate": {self.rate}}


def registered(monkeypatch, kind):
    def make(rate: float):
        return kind(rate)

    # Taken off the list again when the test is over.
    monkeypatch.setitem(DESIGNS, kind.kind, DESIGNS["poisson"])
    register(kind.kind)(make)


def test_a_design_from_outside_is_released_and_reported(folder, monkeypatch):
    registered(monkeypatch, Toy)
    release = survey(Toy(0.5)).plan(ds.mean("income", bounds=(0, 100), by="area")).release()
    assert "a toy that draws each unit with probability 0.5" in release.save("toy.html").read_text()
    assert release.recompute() == release.estimates
    assert survey(Toy(0.5)).released(release.plan()).hash == release.hash


def test_what_cannot_be_documented_fails_before_anything_is_spent(folder, monkeypatch):
    registered(monkeypatch, Broken)
    with pytest.raises(BadValue, match="cannot be written down"):
        survey(Broken(0.5)).plan(ds.mean("income", bounds=(0, 100))).release()
    with ds.Ledger("books.ledger") as ledger:
        assert not any(entry["kind"] in ("reserved", "sample") for entry in ledger.entries())


def test_what_a_release_will_be_made_into_is_tried_before_anything_is_spent(folder):
    made = survey()
    plan = made.plan(ds.mean("income", bounds=(0, 100), by="area"))
    seen = []

    def refuse(rehearsed):
        seen.append(rehearsed)
        raise BadValue("no paper left")

    with pytest.raises(BadValue, match="no paper left"):
        made.release(plan, refuse)
    assert len(seen[0].estimates) == 2
    with ds.Ledger("books.ledger") as ledger:
        assert not any(entry["kind"] in ("reserved", "sample") for entry in ledger.entries())
    assert made.release(plan).hash != seen[0].hash
