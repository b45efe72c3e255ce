"""Two processes take turns with one ledger file: whatever one of them does with the file meanwhile, no charge is lost.

Closing any handle of a file takes away all POSIX locks that a process has on it. A process that has a ledger open, and
reads the file beside SQLite, would let the other one throw away the log into which its next charges go.
"""

import contextlib
import os
import subprocess
import sys
import threading

import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, SurveyError
from dpsurvey.ledger.file import is_database
from dpsurvey.ledger.roles import members
from dpsurvey.ledger.store import Store

ADD = ds.Setting("frame", neighbours="add-remove")
SMALL = ds.PrivacyProfile.pure(0.001, "add-remove")
TURNS = 4

# Opens, charges and closes again, whenever it is asked to: as whoever closes last, it throws the log away.
OTHER = """
import sys
import dpsurvey as ds
for place in sys.stdin:
    with ds.Ledger(place.strip(), must_exist=True) as ledger:
        booked = ledger.book("lfs", ds.PrivacyProfile.pure(0.001, "add-remove"), "by the other process")
    print(booked, flush=True)
"""


@pytest.fixture(scope="module")
def other():
    """Another process that books one charge, and says which."""
    with subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def book(place):
            process.stdin.write(f"{place}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield book
        process.stdin.close()


def a_survey(place):
    frame = ds.Frame("register.parquet", unit="id", size=200)
    return ds.Survey(frame, ds.poisson(0.1), ADD, budget=ds.Budget(2.0), ledger=place, name="lfs")


def quietly(act):
    """What is refused leaves the file alone too."""
    with contextlib.suppress(SurveyError):
        act()


def raw_reader(place, ledger, folder):
    with open(place, "rb") as file:
        file.read()


def linked(place, folder):
    link = folder / "link"
    if not link.exists():
        link.symlink_to(place)
    return link


def another(folder):
    """Another ledger, new each time."""
    place = folder / f"another {len(list(folder.iterdir()))}.ledger"
    ds.Ledger(place).close()
    return place


TOUCHES = {
    "nothing": lambda place, ledger, folder: None,
    "verify": lambda place, ledger, folder: ds.verify_ledger(place),
    "verify through a link": lambda place, ledger, folder: ds.verify_ledger(linked(place, folder)),
    "verify against itself": lambda place, ledger, folder: ds.verify_ledger(another(folder), against=[place]),
    "verify with it as the key": lambda place, ledger, folder: quietly(lambda: ds.verify_ledger(place, public_key=place)),
    "show": lambda place, ledger, folder: (ledger.entries(), ledger.tree(), ledger.charges("lfs")),
    "open again": lambda place, ledger, folder: ds.Ledger(place).close(),
    "export": lambda place, ledger, folder: ledger.export(folder / f"export {len(list(folder.iterdir()))}"),
    "export over it": lambda place, ledger, folder: quietly(lambda: ledger.export(place)),
    "carry onto it": lambda place, ledger, folder: quietly(lambda: ds.Ledger(another(folder)).carry(place)),
    "merge into it": lambda place, ledger, folder: ledger.merge(another(folder)),
    "merge it with itself": lambda place, ledger, folder: quietly(lambda: ledger.merge(place)),
    "anchor": lambda place, ledger, folder: ledger.anchor(folder / "anchor"),
    "anchor in itself": lambda place, ledger, folder: quietly(lambda: ledger.anchor(place)),
    "anchor in a link to itself": lambda place, ledger, folder: quietly(lambda: ledger.anchor(linked(place, folder))),
    "another anchored in it": lambda place, ledger, folder: quietly(lambda: ds.Ledger(another(folder)).anchor(place)),
    "sign with it": lambda place, ledger, folder: quietly(lambda: ledger.sign(place)),
    "a key read from it": lambda place, ledger, folder: quietly(lambda: ds.Key.read(place)),
    "roles": lambda place, ledger, folder: quietly(lambda: ask_for_roles(place)),
    "what-if": lambda place, ledger, folder: a_survey(place).what_if(a_survey(place).plan(ds.count("x", "yes"))),
    "a program that reads the file": raw_reader,
}
FOREIGN = ("a program that reads the file",)


def ask_for_roles(place):
    store = Store(place)
    try:
        members(store)
    finally:
        store.close()


@pytest.mark.parametrize("touch", TOUCHES)
def test_no_charge_is_lost_whatever_a_process_does_with_its_open_ledger(touch, tmp_path, other):
    place, folder = tmp_path / "books.ledger", tmp_path / "beside"
    folder.mkdir()
    with ds.Ledger(place) as ledger:
        ledger.open_survey(a_survey(place).terms)
        accepted = [ledger.book("lfs", SMALL, "first")]
        for _ in range(TURNS):
            TOUCHES[touch](place, ledger, folder)
            log = os.stat(f"{place}-wal").st_ino
            accepted.append(other(place))
            # What reads the file beside the ledger loses the locks, and is survived; nothing of ours does it.
            assert touch in FOREIGN or os.stat(f"{place}-wal").st_ino == log
            accepted.append(ledger.book("lfs", SMALL, "by this process"))
            accepted.append(ledger.book("lfs", SMALL, "by this process again"))
    with ds.Ledger(place, must_exist=True) as again:
        assert [charge["release"] for charge in again.charges("lfs")] == accepted
    found = ds.verify_ledger(place)
    assert not found.damages, str(found)


def test_threads_that_make_one_ledger_at_once_keep_its_locks(tmp_path, other):
    place, survey = tmp_path / "books.ledger", a_survey("none")
    opened, gate = [], threading.Barrier(6)

    def make():
        gate.wait()
        opened.append(ds.Ledger(place))

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened[0].open_survey(survey.terms)
    accepted = []
    for ledger in opened:
        accepted += [other(place), ledger.book("lfs", SMALL, "by a thread")]
    for ledger in opened:
        ledger.close()
    with ds.Ledger(place) as again:
        assert [charge["release"] for charge in again.charges("lfs")] == accepted


@pytest.mark.parametrize("content", [b"", b"{", b"text\n" * 500, b"\0" * 5000, b"SQLite format 3\0" + b"\0" * 5000])
def test_what_a_file_is_is_asked_of_sqlite(tmp_path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    assert not is_database(file) or content.startswith(b"SQLite")
    assert os.listdir(tmp_path) == ["file"]


def test_a_ledger_is_no_anchor_of_another(tmp_path):
    with ds.Ledger(tmp_path / "one.ledger") as one, ds.Ledger(tmp_path / "two.ledger") as two:
        with pytest.raises(BadValue, match="a file of its own"):
            one.anchor(tmp_path / "two.ledger")
        assert two.stamp["count"] == 1
