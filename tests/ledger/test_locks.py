"""A file system whose locks do nothing, or that gives none, is found out before a ledger on it is written.

What the system answers to a request for a lock is changed by a small library that is loaded before all others, so that
Python and SQLite both get that answer, in processes of their own.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

import dpsurvey as ds
from dpsurvey.ledger.locks import lock_trouble

ADD = ds.Setting("frame", neighbours="add-remove")
LIBRARY = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int answer(int file, int command, void *what) {
    int plain = command == F_SETLK || command == F_SETLKW;
    int of_handle = command == F_OFD_SETLK || command == F_OFD_SETLKW;
    const char *locks = getenv("LOCKS");
    if (locks && (plain || of_handle) && ((struct flock *)what)->l_type != F_UNLCK) {
        if (!strcmp(locks, "given to all")) return 0;
        if (!strcmp(locks, "of processes given to all") && plain) return 0;
        if (!strcmp(locks, "none") || (!strcmp(locks, "not of handles") && of_handle)) {
            errno = of_handle ? EINVAL : ENOLCK;
            return -1;
        }
    }
    return syscall(SYS_fcntl, file, command, what);
}

int fcntl(int file, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *what = va_arg(rest, void *);
    va_end(rest);
    return answer(file, command, what);
}

int fcntl64(int file, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *what = va_arg(rest, void *);
    va_end(rest);
    return answer(file, command, what);
}
"""
# For each way in which a system may answer: what happens to a ledger that is there, to one that is made, and to one that was
# opened while locks were as they are.
BOOK = """
import json, os, sys
import dpsurvey as ds
import dpsurvey.ledger.file
from dpsurvey.errors import SurveyError
dpsurvey.ledger.file.PATIENCE = 1

def booked(ledger):
    ledger.book("lfs", ds.PrivacyProfile.pure(0.001, "add-remove"), "a table")
    return {"booked": True}

def told(act):
    try:
        return act()
    except SurveyError as error:
        return error.to_dict() | {"exit": error.exit_code}

place, ways = sys.argv[1], json.loads(sys.argv[2])
found = {}
for number, (locks, later) in enumerate(ways):
    os.environ["LOCKS"] = locks
    def there():
        with ds.Ledger(place, must_exist=True) as ledger:
            os.environ["LOCKS"] = later
            return booked(ledger)
    at_one = told(there)
    os.environ["LOCKS"] = later
    made = told(lambda: ds.Ledger(os.path.join(os.path.dirname(place), f"new {number}.ledger")).close())
    found[locks + later] = {"there": at_one, "made": made}
print(json.dumps(found))
"""
BROKEN = {
    "given to all": "a lock that one process holds is given to another as well",
    "of processes given to all": "a lock that one process holds is given to another as well",
    "none": "it gives none (ENOLCK)",
}
WORKING = ("as they are", "not of handles")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not sys.platform.startswith("linux") or shutil.which("gcc") is None:
        pytest.skip("needs gcc on Linux, to change what the system answers")
    folder = tmp_path_factory.mktemp("library")
    (folder / "locks.c").write_text(LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "locks.so", folder / "locks.c"], check=True)
    return str(folder / "locks.so")


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "books.ledger"
    frame = ds.Frame("register.parquet", unit="id", size=200)
    with ds.Ledger(place) as ledger:
        ledger.open_survey(ds.Survey(frame, ds.poisson(0.1), ADD, budget=ds.Budget(2.0), ledger=place, name="lfs").terms)
    return place


def booked(library, place, *ways):
    """What another process is told where locks are as given, and where they change after a ledger was opened."""
    command = [sys.executable, "-c", BOOK, str(place), json.dumps(ways)]
    done = subprocess.run(command, env=os.environ | {"LD_PRELOAD": library}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def charges(place):
    assert ds.verify_ledger(place).ok
    with ds.Ledger(place, must_exist=True) as ledger:
        return len(ledger.charges("lfs"))


def test_a_ledger_is_neither_opened_nor_made_where_locks_do_not_keep_processes_apart(library, place):
    found = booked(library, place, *((locks, locks) for locks in BROKEN))
    for locks, because in BROKEN.items():
        for told in found[locks * 2].values():
            assert (told["error"], told["exit"]) == ("LedgerUnavailable", 1)
            assert told["what"] == "the locks of this file system do not work"
            assert told["because"].startswith(because)
            assert "PostgreSQL" in told["hint"]
            assert told["given"] == str(place.parent)
    assert os.listdir(place.parent) == [place.name]
    assert charges(place) == 0


def test_working_locks_are_found_to_work_with_and_without_those_of_handles(library, place):
    found = booked(library, place, *((locks, locks) for locks in WORKING))
    assert [found[locks * 2] for locks in WORKING] == [{"there": {"booked": True}, "made": None}] * 2
    assert charges(place) == 2
    assert sorted(os.listdir(place.parent)) == ["books.ledger", "new 0.ledger", "new 1.ledger"]


def test_a_ledger_that_another_process_writes_is_busy_and_its_locks_work(library, place):
    with ds.Ledger(place) as ledger, ledger._journal.store.writing():
        told = booked(library, place, ("as they are", "as they are"))["as they are" * 2]["there"]
    assert (told["what"], told["hint"]) == ("the ledger is busy", "another process is writing; try again")


@pytest.mark.slow  # SQLite itself tries for ten seconds
def test_a_file_system_that_gives_no_locks_any_more_is_not_a_ledger_that_is_busy(library, place):
    told = booked(library, place, ("as they are", "none"))["as they arenone"]["there"]
    assert told["what"] == "the locks of this file system do not work"
    assert charges(place) == 0


def test_trying_the_locks_of_a_folder_leaves_nothing_behind(tmp_path):
    assert lock_trouble(str(tmp_path)) is None
    assert os.listdir(tmp_path) == []
    with pytest.raises(OSError, match="No such file"):
        lock_trouble(str(tmp_path / "none"))
