"""A file that was checked is checked again once it changed, whatever its times say; one that did not change is not."""

import os
import re

import duckdb
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadData

SIZE, MEAN = 200, ds.mean("income", bounds=(0, 100))
# Wider than what is read to be recognised, so that only what the file system knows of it tells.
WIDE = "x" * 90_000


def rows(kind):
    padding = WIDE if kind == "large" else "x"
    return [f"u{place:03d},{'north' if place < 120 else 'south'},{10 + place % 80},{padding}\n" for place in range(SIZE)]


@pytest.fixture(params=["small", "large"])
def register(request, tmp_path):
    path = tmp_path / "register.csv"
    path.write_text("id,region,income,note\n" + "".join(rows(request.param)))
    assert (path.stat().st_size > 2**24) == (request.param == "large")
    return path


def a_survey(path, name, seen=None, budget=1.0):
    frame = ds.Frame(path, "id", SIZE, {"region": {"north": 120, "south": 80}})

    def progress(what, done, total):
        if seen is not None and done == 0:
            seen.append(what)

    within = ds.stratified("region", within=ds.srs(n=20))
    return ds.Survey(frame, within, budget=ds.Budget(budget), ledger=path.parent / "books.ledger", name=name, progress=progress)


def checked(path, name, statistic=MEAN):
    seen = []
    survey = a_survey(path, name, seen)
    survey.plan(statistic).release()
    return "checking rows" in seen


def change_in_place(path, old, new):
    """Other bytes of the same length in the same file, with its times as they were."""
    before = path.stat()
    with open(path, "r+b") as file:
        place = file.read(4096).index(old)
        file.seek(place)
        file.write(new)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    same = ("st_ino", "st_size", "st_mtime_ns")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]


def test_a_change_whose_time_was_set_back_is_noticed(register):
    assert checked(register, "first")
    assert not checked(register, "second"), "it is checked once"
    change_in_place(register, b"north", b"atlan")
    with pytest.raises(BadData, match="category that was not declared"):
        a_survey(register, "third").plan(MEAN).release()
    assert "third" not in ds.Ledger(register.parent / "books.ledger").surveys()


def test_a_sample_is_not_asked_again_of_rows_that_changed_with_their_time_set_back(register):
    survey = a_survey(register, "first")
    survey.plan(MEAN, share=0.5).release()
    change_in_place(register, b"north,10", b"north,99")
    with pytest.raises(BadData, match="the table changed while it was used"):
        survey.plan(ds.total("income", bounds=(0, 100)), share=0.5).release()


def test_a_sealed_sample_is_joined_to_the_rows_that_were_checked_and_to_no_later_ones(register):
    """Joined before anything is spent: what changes while the release is made is in no sum."""
    a_survey(register, "first", budget=1e4).draw(register.parent / "sample.parquet")
    (before,) = a_survey(register, "first", budget=1e4).plan(MEAN, share=0.5).release().estimates

    def change(what, done, total):
        if (what, done) == ("taking the sample", 0):
            changed = register.read_bytes().replace(b"north,1", b"north,9")
            with open(register, "r+b") as file:
                file.write(changed)

    again = a_survey(register, "first", budget=1e4)
    again.progress = change
    (row,) = again.plan(MEAN, share=0.4).release().estimates
    # The changed rows would move the mean of all by more than 5.
    assert abs(row["estimate"] - before["estimate"]) < 1.0
    assert b"north,10" not in register.read_bytes()


def test_a_file_that_was_copied_with_its_time_is_another_file(register):
    assert checked(register, "first")
    before = register.stat()
    other = register.with_suffix(".other")
    other.write_bytes(re.sub(rb"u000,north", rb"u000,atlan", register.read_bytes(), count=1))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, register)
    with pytest.raises(BadData, match="category that was not declared"):
        checked(register, "second")


def test_rows_in_the_log_beside_a_duckdb_file_are_seen(tmp_path):
    """A database that another process left open has its newest rows in a log, while the file itself is as it was."""
    path = tmp_path / "register.duckdb"
    with duckdb.connect(path) as made:
        made.execute("pragma disable_checkpoint_on_shutdown")
        made.execute(f"create table people as select 'u' || i as id, i % 80 as income, 'north' as region from range({SIZE}) t(i)")
        made.execute("checkpoint")
    frame = ds.Frame(path, "id", SIZE, {"region": {"north": SIZE}})

    def release(name):
        ds.Survey(frame, ds.srs(n=40), budget=ds.Budget(1.0), ledger=tmp_path / "books.ledger", name=name).plan(MEAN).release()

    release("first")
    before = path.read_bytes()
    with duckdb.connect(path) as made:
        made.execute("pragma disable_checkpoint_on_shutdown")
        made.execute("update people set income = null where id = 'u7'")
    assert path.read_bytes() == before
    assert path.with_name("register.duckdb.wal").exists()
    with pytest.raises(BadData, match="missing values"):
        release("second")
