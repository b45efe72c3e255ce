"""Read-only places, full disks, lost connections, other versions and wrong clocks: a clear error, and the books stay true."""

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, LedgerDisagrees, LedgerUnavailable, UsageError
from dpsurvey.ledger.journal import Journal
from dpsurvey.ledger.schema import VERSION
from tests.engines import servers

ADD = ds.Setting("frame", neighbours="add-remove")
SMALL = ds.PrivacyProfile.pure(0.0001, "add-remove")


def terms():
    frame = ds.Frame("register.parquet", unit="id", size=200)
    return ds.Survey(frame, ds.poisson(0.1), ADD, budget=ds.Budget(1.0), ledger="none", name="lfs").terms


def a_ledger(place):
    with ds.Ledger(place) as ledger:
        ledger.open_survey(terms())
        ledger.book("lfs", SMALL, "a table")
    return str(place)


def on_record(place):
    """The number of reservations on record, in a chain that is whole."""
    assert ds.verify_ledger(place).ok
    with ds.Ledger(place, must_exist=True) as ledger:
        return len(ledger.charges("lfs"))


def spends_again(place):
    before = on_record(place)
    with ds.Ledger(place) as ledger:
        ledger.book("lfs", SMALL, "a table")
    return on_record(place) == before + 1


@pytest.fixture
def schema():
    return f"weather_{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path, schema):
    if request.param == "sqlite":
        return a_ledger(tmp_path / "books.ledger")
    return a_ledger(f"{request.getfixturevalue('postgres')}#{schema}")


# Places that cannot be written


@contextlib.contextmanager
def as_nobody():
    """For root, who may write anywhere, the identity of nobody in particular."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o666, 0o555), (0o444, 0o555)])
def test_a_ledger_that_cannot_be_written_says_so_and_stays_as_it_is(tmp_path_factory, file, folder):
    home = tmp_path_factory.mktemp("closed")
    for above in (home.parent, home.parent.parent):
        above.chmod(0o755)
    place = home / "books.ledger"
    a_ledger(place)
    before = place.read_bytes()
    place.chmod(file)
    home.chmod(folder)
    try:
        with as_nobody(), pytest.raises(UsageError, match="the ledger cannot be") as caught, ds.Ledger(place) as ledger:
            ledger.book("lfs", SMALL, "a table")
        assert caught.value.exit_code == 2
        assert str(place) in caught.value.given
        assert "writ" in caught.value.hint
    finally:
        home.chmod(0o755)
        place.chmod(0o600)
    assert place.read_bytes() == before
    assert spends_again(place)


# Full disks

FULL = """
import json, resource, sys
import dpsurvey as ds
from dpsurvey.errors import SurveyError

place, limit, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
charge = ds.PrivacyProfile.pure(0.0001, "add-remove")
ledger, done = ds.Ledger(place), 0
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    if what:
        ledger.export(what)
    while not what:
        ledger.book("lfs", charge, "a table " + "x" * 500)
        done += 1
except SurveyError as error:
    again = ""
    try:
        ledger.book("lfs", charge, "a table " + "x" * 50_000)
    except SurveyError as second:
        again = str(second)
    print(json.dumps({"done": done, "again": again, "text": str(error)} | error.to_dict()))
"""


def with_little_room(place, limit, what=""):
    """What happens on a disk that takes no file longer than the limit."""
    command = [sys.executable, "-c", FULL, str(place), str(limit), str(what)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_full_disk_stops_the_ledger_and_loses_nothing_that_was_reserved(tmp_path):
    place = a_ledger(tmp_path / "books.ledger")
    before, told = on_record(place), with_little_room(place, 300_000)
    assert (told["error"], told["what"]) == ("LedgerUnavailable", "the disk of the ledger is full or failed")
    assert "stays spent" in told["because"]
    assert "full or failed" in told["again"]
    assert told["done"] > 5
    assert on_record(place) == before + told["done"]
    assert spends_again(place)


def test_a_full_disk_of_the_anchor_stops_the_ledger_until_there_is_room(tmp_path):
    place, anchor = a_ledger(tmp_path / "books.ledger"), tmp_path / "anchor"
    anchor.write_bytes(b" " * 1_000_000)
    with ds.Ledger(place) as ledger:
        ledger.anchor(anchor)
    before, told = on_record(place), with_little_room(place, anchor.stat().st_size + 100)
    assert (told["error"], told["what"]) == ("LedgerUnavailable", "the anchor of the ledger cannot be written")
    assert "what was reserved stays spent" in told["because"]
    assert "anchor of the ledger cannot be written" in told["again"]
    assert told["done"] == 0
    assert on_record(place) == before + 2, "both stay spent"
    assert spends_again(place)
    found = ds.verify_ledger(place, against=[anchor])
    assert found.ok, str(found)


def test_a_full_disk_stops_an_export_and_leaves_no_half_of_one(tmp_path):
    place, target = a_ledger(tmp_path / "books.ledger"), tmp_path / "export.txt"
    told = with_little_room(place, 1000, target)
    assert (told["error"], told["what"]) == ("NotWritten", "a file could not be written")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("export")]
    assert spends_again(place)


# Lost connections


def end_connections(postgres, name):
    with psycopg.connect(postgres) as server:
        query = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = %s"
        return server.execute(query, (name,)).fetchone()[0]


def test_a_connection_that_was_lost_between_two_calls_is_made_again(postgres, schema):
    place = a_ledger(f"{postgres}?application_name={schema}#{schema}")
    with ds.Ledger(place) as ledger:
        assert end_connections(postgres, schema) == 1
        ledger.book("lfs", SMALL, "a table")
        assert end_connections(postgres, schema) == 1
        assert len(ledger.charges("lfs")) == 2
    assert on_record(place) == 2


@pytest.mark.parametrize("then", ["written", "committed"])
def test_a_connection_that_is_lost_while_writing_spends_nothing_and_says_so(postgres, schema, then):
    place = a_ledger(f"{postgres}?application_name={schema}#{schema}")
    journal = Journal(place)

    def interrupted():
        with journal.writing() as pen:
            pen.write("checked", {"fingerprint": "a"})
            assert end_connections(postgres, schema) == 1
            if then == "written":
                pen.write("checked", {"fingerprint": "b"})

    with pytest.raises(LedgerUnavailable, match="the connection to the ledger was lost") as caught:
        interrupted()
    assert (caught.value.exit_code, caught.value.hint) == (1, "try again")
    before = journal.stamp()["count"]
    with journal.writing() as pen:
        pen.write("checked", {"fingerprint": "c"})
    journal.store.close()
    with ds.Ledger(place) as ledger:
        assert ledger.stamp["count"] == before + 1
        assert [entry["body"]["fingerprint"] for entry in ledger.entries() if entry["kind"] == "checked"] == ["c"]
    assert spends_again(place)


def test_a_server_that_was_stopped_is_named_and_not_waited_for(postgres):
    with contextlib.ExitStack() as running:
        place = a_ledger(running.enter_context(servers.postgres_server()) + "#stopped")
        ledger = ds.Ledger(place)
    for call in (lambda: ledger.book("lfs", SMALL, "a table"), lambda: ds.Ledger(place), lambda: ds.verify_ledger(place)):
        with pytest.raises(LedgerUnavailable, match="the ledger cannot be reached") as caught:
            call()
        assert "is the server up" in caught.value.hint
    ledger.close()


def test_a_ledger_whose_anchor_cannot_be_reached_spends_nothing(tmp_path):
    place = a_ledger(tmp_path / "books.ledger")
    before = on_record(place)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        anchor = f"postgresql://survey@127.0.0.1:{taken.getsockname()[1]}/postgres#anchors"
        with ds.Ledger(place, anchor=anchor) as ledger, pytest.raises(LedgerUnavailable, match="cannot be reached") as caught:
            ledger.book("lfs", SMALL, "a table")
    assert caught.value.given == anchor
    assert on_record(place) == before


# Versions


@pytest.mark.parametrize("version", ["99", "two", ""])
def test_a_ledger_of_another_version_is_left_as_it_is(place, version):
    address, _, name = place.partition("#")
    connect = (lambda: psycopg.connect(address, options=f"-c search_path={name}")) if name else (lambda: sqlite3.connect(address))
    with contextlib.closing(connect()) as connection:
        connection.execute(f"update about set value = '{version}'")
        connection.commit()
    with pytest.raises(LedgerDisagrees, match="written by another version") as caught:
        ds.Ledger(place)
    assert f"version {version}, this is {VERSION}" in caught.value.given
    with pytest.raises(BadValue, match="another version"):
        ds.verify_ledger(place)
    with contextlib.closing(connect()) as connection:
        assert connection.execute("select value from about").fetchall() == [(version,)]
        assert connection.execute("select count(*) from entries").fetchone() == (4,)


# Clocks


def written_at(place, moment):
    """A ledger whose last entry was written by a computer with another clock."""
    journal = Journal(place)
    with journal.writing() as pen:
        pen.write("checked", {"fingerprint": "x"}, at=moment.isoformat(timespec="microseconds"))
    journal.store.close()


def times(place):
    with ds.Ledger(place) as ledger:
        return [entry["at"] for entry in ledger.entries()]


def test_a_clock_that_went_backwards_is_refused_until_somebody_says_why(place):
    written_at(place, datetime.now(UTC) + timedelta(days=400))
    before = on_record(place)
    with ds.Ledger(place) as ledger:
        with pytest.raises(LedgerUnavailable, match="clock of this computer went backwards") as caught:
            ledger.book("lfs", SMALL, "a table")
        assert "nothing was spent" in caught.value.because
        assert "dpsurvey ledger clock" in caught.value.hint
        assert on_record(place) == before
        with pytest.raises(BadValue, match="say why"):
            ledger.accept_clock("")
        ledger.accept_clock("the server was set to next year")
        ledger.book("lfs", SMALL, "a table")
        clock, *rest = ledger.entries()[-3:]
    assert (clock["kind"], clock["body"]) == ("clock", {"why": "the server was set to next year"})
    assert sorted(entry["at"] for entry in rest) == [entry["at"] for entry in rest]
    assert rest[-1]["at"] < (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    assert on_record(place) == before + 1


def test_clocks_that_differ_by_a_minute_are_accepted_and_entries_never_go_back(place):
    late = datetime.now(UTC) + timedelta(minutes=1)
    written_at(place, late)
    with ds.Ledger(place) as ledger:
        for _ in range(3):
            ledger.book("lfs", SMALL, "a table")
    found = times(place)
    assert found == sorted(found)
    assert found[-1] == late.isoformat(timespec="microseconds")
