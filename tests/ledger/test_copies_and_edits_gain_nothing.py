"""Whoever copies, restores, cuts or edits a ledger, or kills its processes, gets no more than it allows."""

import fcntl
import json
import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.errors import LedgerBroken
from dpsurvey.ledger.entry import canonical, digest

SIZE = 200
FRAME = ds.Setting("frame", neighbours="replace-one")


@pytest.fixture
def books(tmp_path):
    return tmp_path / "books.ledger"


def a_survey(books, *, epsilon=1.0, delta=0.0, setting=FRAME, name="lfs", anchor=None):
    register = books.parent / "register.parquet"
    if not register.exists():
        table = pa.table({"id": pa.array(range(SIZE), pa.int64()), "income": np.linspace(0, 100, SIZE)})
        pa.parquet.write_table(table, register)
    frame = ds.Frame(register, unit="id", size=SIZE)
    return ds.Survey(frame, ds.srs(rate=0.1), setting, budget=ds.Budget(epsilon, delta), ledger=books, name=name, anchor=anchor)


def opened(books, **terms):
    survey = a_survey(books, **terms)
    with ds.Ledger(books) as ledger:
        ledger.open_survey(survey.terms)
    return survey.terms


def pure(epsilon):
    return ds.PrivacyProfile.pure(epsilon, "replace-one")


def spend(books, epsilon=0.1, name="lfs", sample=None):
    with ds.Ledger(books) as ledger:
        return ledger.book(name, pure(epsilon), "something", sample)


def income(number):
    return ds.mean("income", bounds=(0, 100 + number))


def refused_and_unspent(books, act=spend, match="rolled back, or replaced"):
    before = ds.verify_ledger(books)
    with pytest.raises(LedgerBroken, match=match) as caught:
        act(books)
    after = ds.verify_ledger(books)
    assert (after.count, after.head) == (before.count, before.head), "nothing was written"
    return caught.value


@pytest.fixture
def anchored(books, tmp_path):
    opened(books)
    with ds.Ledger(books) as ledger:
        ledger.anchor(tmp_path / "anchor")
    spend(books)
    return books


# Copy


def test_of_two_copies_with_an_anchor_the_second_to_go_on_is_refused(anchored, tmp_path):
    copy = shutil.copy(anchored, tmp_path / "copy.ledger")
    spend(anchored)
    refused_and_unspent(copy)
    spend(anchored)


def test_two_copies_that_spend_at_the_same_moment_are_told_apart_by_the_anchor(anchored, tmp_path):
    with ds.Ledger(anchored) as ledger:
        (sample,) = [each["id"] for each in ledger.samples()]
    copy, admitted = tmp_path / "copy.ledger", []
    shutil.copy(anchored, copy)
    begin = ds.verify_ledger(anchored).count

    def go(books, sample):
        try:
            spend(books, sample=sample)
            admitted.append(books.name)
        except ds.SurveyError:
            pass

    # One adds a charge, the other a sample and a charge; both have looked at the anchor before either can write to it.
    threads = [threading.Thread(target=go, args=each) for each in ((anchored, sample), (copy, None))]
    with open(tmp_path / "anchor", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        while min(ds.verify_ledger(each).count for each in (anchored, copy)) == begin and time.monotonic() < deadline:
            time.sleep(0.005)
    for thread in threads:
        thread.join(60)
    assert len(admitted) == 1, f"one of two copies goes on, not {admitted}"


def test_without_an_anchor_two_copies_are_told_apart_by_a_release_of_the_other(books, tmp_path):
    a_survey(books).plan(income(0), share=0.1).release().save(tmp_path / "both.json")
    copy = tmp_path / "copy.ledger"
    shutil.copy(books, copy)
    a_survey(books).plan(income(1), share=0.1).release().save(tmp_path / "one.json")
    a_survey(copy).plan(income(2), share=0.1).release().save(tmp_path / "two.json")
    for place, own, other in ((books, "one.json", "two.json"), (copy, "two.json", "one.json")):
        assert ds.verify_ledger(place, against=[tmp_path / "both.json", tmp_path / own]).ok
        found = ds.verify_ledger(place, against=[tmp_path / other])
        assert not found.ok
        assert "rolled back or replaced" in found.against[0]["what"]


# Restore


@pytest.mark.parametrize("on_record", [True, False])
def test_a_rolled_back_ledger_refuses_to_spend(books, tmp_path, on_record):
    anchor, old = tmp_path / "anchor", tmp_path / "old.ledger"
    given = None if on_record else anchor
    a_survey(books, anchor=given).plan(income(0), share=0.1).release()
    if on_record:
        with ds.Ledger(books) as ledger:
            ledger.anchor(anchor)
    shutil.copy(books, old)
    a_survey(books, anchor=given).plan(income(1), share=0.9).release()
    shutil.copy(old, books)
    error = refused_and_unspent(books, lambda books: a_survey(books, anchor=given).plan(income(2), share=0.9).release())
    assert "nothing was spent" in error.because
    assert "verify --against" in error.hint


def test_a_copy_from_before_the_anchor_was_put_on_record_is_refused_where_the_anchor_is_named(books, tmp_path):
    opened(books)
    shutil.copy(books, tmp_path / "old.ledger")
    with ds.Ledger(books) as ledger:
        ledger.anchor(tmp_path / "anchor")
    spend(books)
    shutil.copy(tmp_path / "old.ledger", books)
    survey = a_survey(books, anchor=tmp_path / "anchor")
    refused_and_unspent(books, lambda _: survey.plan(income(0), share=0.1).release())


def test_a_ledger_that_is_rolled_back_while_it_is_open_is_refused(books, tmp_path):
    opened(books)
    shutil.copy(books, tmp_path / "old.ledger")
    with ds.Ledger(books) as ledger:
        ledger.book("lfs", pure(0.1), "something")
        with closing(sqlite3.connect(books, isolation_level=None)) as connection:
            connection.execute("drop trigger no_DELETE")
            connection.execute("delete from entries where seq > 2")
        with pytest.raises(LedgerBroken, match="rolled back while it was open"):
            ledger.book("lfs", pure(0.1), "something")


# Truncate


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_ledger_that_was_cut_refuses_to_spend(anchored, gone):
    spend(anchored)
    with closing(sqlite3.connect(anchored, isolation_level=None)) as connection:
        connection.execute("drop trigger no_DELETE")
        connection.execute("delete from entries where seq > (select max(seq) from entries) - ?", (gone,))
    assert not ds.verify_ledger(anchored).damages, "the chain alone does not show it"
    assert not ds.verify_ledger(anchored).ok, "its anchor does"
    refused_and_unspent(anchored)


# Edit


def a_smaller_charge(fields):
    if fields["kind"] == "reserved":
        fields["body"]["charges"][0]["profile"]["curve"]["epsilon"] = 1e-6


def a_larger_budget(fields):
    if fields["kind"] == "opened":
        fields["body"]["terms"]["budget"]["epsilon"] = 100.0


def a_larger_budget_of_the_agency(fields):
    if fields["kind"] == "budget":
        fields["body"]["epsilon"] = 100.0


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("edit", [a_smaller_charge, a_larger_budget, a_larger_budget_of_the_agency])
def test_an_edited_entry_stops_all_spending(anchored, edit, recompute):
    with ds.Ledger(anchored) as ledger:
        ledger.set_budget(FRAME, ds.Budget(0.5))
    previous, edited = "0" * 64, 0
    with closing(sqlite3.connect(anchored, isolation_level=None)) as connection:
        connection.execute("drop trigger no_UPDATE")
        for seq, text in connection.execute("select seq, text from entries order by seq").fetchall():
            fields = json.loads(text)
            edit(fields)
            edited += canonical(fields) != text
            changed = canonical(fields | ({"previous": previous} if recompute else {}))
            previous = digest(changed)
            row = (changed, previous if recompute else digest(text), seq)
            connection.execute("update entries set text = ?, hash = ? where seq = ?", row)
    assert edited == 1
    assert (not ds.verify_ledger(anchored).damages) == recompute
    refused_and_unspent(anchored, match="rolled back, or replaced" if recompute else "the ledger was changed")


# The anchor itself


@pytest.mark.parametrize("harm", [os.remove, lambda path: os.truncate(path, 0)], ids=["removed", "emptied"])
def test_without_its_anchor_a_ledger_refuses_and_says_what_to_do(anchored, tmp_path, harm):
    harm(tmp_path / "anchor")
    error = refused_and_unspent(anchored, match="the anchor of this ledger is gone")
    assert "dpsurvey ledger anchor" in error.hint
    assert "--instead-of" in error.hint
    with ds.Ledger(anchored) as ledger:
        ledger.anchor(tmp_path / "new-anchor", instead_of=tmp_path / "anchor")
    shutil.copy(anchored, tmp_path / "old.ledger")
    spend(anchored)
    assert ds.verify_ledger(anchored, against=[tmp_path / "new-anchor"]).ok
    shutil.copy(tmp_path / "old.ledger", anchored)
    refused_and_unspent(anchored)


def test_a_rolled_back_ledger_does_not_get_rid_of_an_anchor_that_remembers_more(anchored, tmp_path):
    shutil.copy(anchored, tmp_path / "old.ledger")
    spend(anchored)
    shutil.copy(tmp_path / "old.ledger", anchored)

    def replace(books):
        with ds.Ledger(books) as ledger:
            ledger.anchor(tmp_path / "new-anchor", instead_of=tmp_path / "anchor")

    refused_and_unspent(anchored, replace)


def test_a_ledger_that_was_deleted_and_begun_anew_does_not_spend_where_the_anchor_is_named(books, tmp_path):
    anchor = tmp_path / "anchor"
    a_survey(books, anchor=anchor).plan(income(0)).release().save(tmp_path / "release.json")
    old = ds.verify_ledger(books)
    for path in tmp_path.glob("books.ledger*"):
        path.unlink()
    with pytest.raises(LedgerBroken, match="knows another ledger, and not this one"):
        a_survey(books, anchor=anchor).plan(income(0)).release()
    new = ds.verify_ledger(books, against=[tmp_path / "release.json", anchor])
    assert new.id != old.id
    assert [each["what"] for each in new.against] == ["it has never seen this ledger"] * 2
    with ds.Ledger(books) as ledger:
        assert ledger.surveys() == []


def test_a_ledger_that_was_deleted_and_begun_anew_without_naming_the_anchor_is_told_by_what_saw_the_old_one(books, tmp_path):
    # Nothing is left that could refuse: the place of the anchor was on record in the ledger that is gone.
    a_survey(books).plan(income(0)).release().save(tmp_path / "release.json")
    with ds.Ledger(books) as ledger:
        ledger.anchor(tmp_path / "anchor")
    for path in tmp_path.glob("books.ledger*"):
        path.unlink()
    a_survey(books).plan(income(0)).release()
    found = ds.verify_ledger(books, against=[tmp_path / "release.json", tmp_path / "anchor"])
    assert [each["what"] for each in found.against] == ["it has never seen this ledger"] * 2


# Kill

KILLED = """
import os, signal, sys
import dpsurvey as ds

ledger = ds.Ledger(sys.argv[1], must_exist=True)
ledger.book("lfs", ds.PrivacyProfile.pure(1.5, "replace-one"), "something")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_before_it_commits_leaves_its_charge_spent(books):
    terms = opened(books)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(books)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    with ds.Ledger(books) as ledger:
        assert [charge["state"] for charge in ledger.charges("lfs")] == ["reserved"]
        assert ledger.spending(terms).spent == pytest.approx(math.log1p(0.1 * math.expm1(1.5)), rel=1e-9)
