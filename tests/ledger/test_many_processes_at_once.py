"""Sixteen processes reserve at once: not one charge too many, and none lost, in a file and on a server."""

import contextlib
import os
import signal
import subprocess
import sys
import uuid

import pytest

import dpsurvey as ds
from dpsurvey.ledger import SealedSample

ADD = ds.Setting("frame", neighbours="add-remove")
PROCESSES = 16

# One process reads the modules and becomes sixteen; each opens the ledger for itself, and they start at the same moment.
CROWD = """
import os, sys, traceback
import dpsurvey as ds
from dpsurvey.errors import BudgetExceeded

def reserve(ledger, sample, charge, requests):
    profile = ds.PrivacyProfile.pure(float(charge), "add-remove")
    won, refused = [], 0
    for _ in range(int(requests)):
        try:
            won.append(ledger.book("lfs", profile, "a table", sample))
        except BudgetExceeded:
            refused += 1
    return refused, *won

def member(number, folder, place, *asked):
    if asked:
        with ds.Ledger(place) as ledger:
            os.read(gate, 1)
            said = reserve(ledger, *asked)
    else:
        os.read(gate, 1)
        with ds.Ledger(place) as ledger:
            said = ledger.stamp["id"], len(ledger.entries())
    with open(os.path.join(folder, f"member {number}"), "w") as file:
        print(*said, file=file)

processes, *rest = sys.argv[1:]
gate, shut = os.pipe()
started = []
for number in range(int(processes)):
    started.append(os.fork())
    if started[-1] == 0:
        os.close(shut)
        try:
            member(number, *rest)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
os.close(shut)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) != 0 for each in started))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "books.ledger")
    return f"{request.getfixturevalue('postgres')}#crowd_{uuid.uuid4().hex[:12]}"


def a_survey():
    frame = ds.Frame("register.parquet", unit="id", size=200)
    return ds.Survey(frame, ds.poisson(0.1), ADD, budget=ds.Budget(1.0), ledger="none", name="lfs")


def crowd(folder, place, *asked):
    """What each of sixteen processes says: which ledger it found, or what it reserved."""
    command = [sys.executable, "-c", CROWD, str(PROCESSES), str(folder), place, *map(str, asked)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            _, error = process.communicate(timeout=1800)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, error
    return [(folder / f"member {number}").read_text().split() for number in range(PROCESSES)]


def reserve_at_once(place, folder, requests, fit):
    """Each process reserves one part in `fit` of what the sample may be charged, again and again."""
    terms = a_survey().terms
    whole = terms.in_sample_budget.epsilon(0.0)
    # Rounded down by more than all sums are rounded, so that exactly `fit` of them fit.
    charge = whole / fit * (1.0 - 1e-9)
    assert terms.amplify(ds.PrivacyProfile.pure(charge * (fit + 1), "add-remove")).epsilon(0.0) > terms.budget.epsilon
    with ds.Ledger(place) as ledger:
        ledger.open_survey(terms)
        ledger.seal("lfs", SealedSample("s", "sample.parquet", "key", "commitment"), new=False)
    said = crowd(folder, place, "s", charge, requests)
    won = [release for refused, *releases in said for release in releases]
    assert [int(refused) + len(releases) for refused, *releases in said] == [requests] * PROCESSES
    assert len(set(won)) == len(won) == min(fit, PROCESSES * requests)
    with ds.Ledger(place, must_exist=True) as ledger:
        assert {charge["release"] for charge in ledger.charges("lfs")} == set(won)
        assert len(ledger.charges("lfs")) == len(won)
        assert ledger.spending(terms).spent <= terms.budget.epsilon
        assert ledger.stamp["count"] == 3 + len(won)
    assert ds.verify_ledger(place).ok
    return said


def test_sixteen_processes_reserve_what_fits_and_nothing_is_lost(place, tmp_path):
    said = reserve_at_once(place, tmp_path, requests=20, fit=100)
    assert sum(int(each[0]) for each in said) == PROCESSES * 20 - 100


@pytest.mark.slow
@pytest.mark.parametrize("fit", [10_000, 40_000], ids=["scarce", "plenty"])
def test_sixteen_processes_reserve_two_thousand_times_each(place, tmp_path, fit):
    said = reserve_at_once(place, tmp_path, requests=2000, fit=fit)
    assert sum(int(each[0]) for each in said) == max(0, PROCESSES * 2000 - fit)


@pytest.mark.slow_cases("postgresql")
def test_sixteen_processes_that_make_one_ledger_make_one(place, tmp_path):
    said = crowd(tmp_path, place)
    assert said == [said[0]] * PROCESSES
    assert said[0][1] == "1"
    assert ds.verify_ledger(place).id == said[0][0]
