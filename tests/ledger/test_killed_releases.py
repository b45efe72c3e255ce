"""A release that is killed at any moment leaves a ledger that opens, is whole, and counts everything that was published."""

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds

SIZE = 200
SHARE = 1 / 1000
BUDGET = 20.0
TRIALS = 4

# A process that has imported everything and opened nothing; for every line it forks a child that makes one release. The
# first child says which modules a release needs.
SERVER = """
import importlib, os, sys, time
import dpsurvey as ds

def release(register, books, number, out):
    begin, times = time.monotonic(), {}
    def progress(what, done, total):
        times.setdefault(what, time.monotonic() - begin)
    frame = ds.Frame(register, unit="id", size=%(size)d)
    setting = ds.Setting("frame", neighbours="add-remove")
    survey = ds.Survey(frame, ds.poisson(0.2), setting, budget=ds.Budget(%(budget)r), ledger=books, name="lfs", progress=progress)
    survey.plan(ds.mean("income", bounds=(0, 100 + int(number))), share=%(share)r).release().save(out)
    return times["taking the sample"], time.monotonic() - begin

def child(*arguments):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            reserved, end = release(*arguments)
            os.write(writer, f"{reserved} {end}\\n{' '.join(sys.modules)}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    return pid, reader

while line := sys.stdin.readline():
    pid, reader = child(*line.rstrip("\\n").split("\\t"))
    print(pid, flush=True)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    # Until its killer is done with it the child keeps its number, so that nobody else can get it.
    sys.stdin.readline()
    status = os.waitpid(pid, 0)[1]
    times, _, modules = said.partition("\\n")
    for name in modules.split():
        if name not in sys.modules:
            try:
                importlib.import_module(name)
            except Exception:
                pass
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, times, flush=True)
"""


@pytest.fixture(scope="module")
def server():
    script = SERVER % {"size": SIZE, "budget": BUDGET, "share": SHARE}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as process:  # type: ignore[call-overload]
        yield process
        process.stdin.close()
        assert process.wait(60) == 0


def run(server, register, books, number, out, kill_after=None):
    """One release in a process of its own: the signal that ended it, and when it had reserved and was done."""
    print(register, books, number, out, sep="\t", file=server.stdin, flush=True)
    pid = int(server.stdout.readline())
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    print("over", file=server.stdin, flush=True)
    ended, *times = server.stdout.readline().split()
    return int(ended), [float(each) for each in times]


def moments(kills, reserved, done, chance):
    """When to kill: a third each before the reservation, between it and the end, and around the end; evenly, with chance.

    Around the end is from the last fifth of the time on: the commitment, the file of the release, and a little longer.
    """
    late, part = done - 0.2 * (done - reserved), -(-kills // 3)
    stretches = [(0.0, reserved), (reserved, late), (late, 1.3 * done)]
    found = [low + (high - low) * (step + chance.random()) / part for low, high in stretches for step in range(part)]
    chance.shuffle(found)
    return found


def a_survey(register, books):
    frame, setting = ds.Frame(register, unit="id", size=SIZE), ds.Setting("frame", neighbours="add-remove")
    return ds.Survey(frame, ds.poisson(0.2), setting, budget=ds.Budget(BUDGET), ledger=books, name="lfs")


def least_spent(survey, reservations, *, sealed):
    """What that many releases of one share lose: on one sample composed and amplified once, on samples of their own added."""
    charge = survey.plan(ds.mean("income", bounds=(0, 1)), share=SHARE).items[0].charge
    if not reservations:
        return 0.0
    if not sealed:
        return reservations * survey.terms.amplify(charge).epsilon(0.0)
    whole = ds.PrivacyProfile.pure(reservations * charge.epsilon(0.0), charge.relation)
    return survey.terms.amplify(whole).epsilon(0.0)


def check(survey, *, sealed):
    """The ledger opens, is whole, agrees with its anchor and counts what is published; how many releases are in each state."""
    with ds.Ledger(survey.ledger_path) as ledger:
        entries = ledger.entries()
        spent = ledger.spending(survey.terms).spent
        states = Counter(charge["state"] for charge in ledger.charges("lfs"))
    folder = Path(survey.ledger_path).parent
    published = sorted(folder.glob("release-*.json"))
    assert ds.verify_ledger(survey.ledger_path, against=[*published, *folder.glob("anchor")]).ok
    reserved = {entry["body"]["release"] for entry in entries if entry["kind"] == "reserved"}
    committed = {entry["body"]["release_hash"] for entry in entries if entry["kind"] == "committed"}
    assert {ds.Release.load(path).hash for path in published} <= committed
    assert len(published) <= states["committed"] <= len(reserved) == states.total()
    assert spent >= least_spent(survey, len(reserved), sealed=sealed) * (1.0 - 1e-9)
    return states


@pytest.fixture
def register(tmp_path):
    table = pa.table({"id": pa.array(range(SIZE), pa.int64()), "income": np.linspace(0, 100, SIZE)})
    pa.parquet.write_table(table, tmp_path / "register.parquet")
    return tmp_path / "register.parquet"


def measured(server, register, books):
    """When a release has reserved, and when it is done; the first one is slower, as it imports what is missing."""
    trials = [run(server, register, books, number, books.parent / f"release-{number}.json") for number in range(TRIALS)]
    assert [ended for ended, _ in trials] == [0] * TRIALS
    return [statistics.median(times) for times in zip(*(times for _, times in trials[1:]), strict=True)]


def kill_and_count(server, register, kills, *, sealed):
    """Kill releases on one ledger, check it after each, and count what each had come to."""
    books, chance, where = register.parent / "books.ledger", random.Random(kills), Counter()
    survey = a_survey(register, books)
    if sealed:
        survey.draw(register.parent / "sample.parquet")
        with ds.Ledger(books) as ledger:
            ledger.anchor(register.parent / "anchor")
    reserved, done = measured(server, register, books)
    before = check(survey, sealed=sealed)
    assert before == {"committed": TRIALS}
    planned, number, never_saved = moments(kills, reserved, done, chance), TRIALS, 0
    # A machine that is busy now and was not before moves all moments; then some more are tried.
    while planned or (len(where) < 3 and number < 3 * kills + 50):
        moment = planned.pop() if planned else chance.uniform(0.0, 2.0 * done)
        ended, _ = run(server, register, books, number, books.parent / f"release-{number}.json", kill_after=moment)
        assert ended in (0, signal.SIGKILL)
        after = check(survey, sealed=sealed)
        assert set(after - before) <= {"reserved", "committed"}
        assert (after - before).total() <= 1
        assert not before - after, "nothing on record went back"
        if after["committed"] > before["committed"]:
            # Saved or not, it can be written again, word for word.
            again = survey.released(survey.plan(ds.mean("income", bounds=(0, 100 + number)), share=SHARE))
            saved = books.parent / f"release-{number}.json"
            assert not saved.exists() or ds.Release.load(saved).hash == again.hash
            never_saved += not saved.exists()
        come_to = "after the commitment" if after["committed"] > before["committed"] else "between"
        where[come_to if after != before else "before"] += 1
        before, number = after, number + 1
    print(f"{number - TRIALS} releases killed: {dict(where)}, {never_saved} committed and not saved")
    return where


KILLS = [6, pytest.param(170, marks=pytest.mark.slow)]


@pytest.mark.slow_cases("6-sealed and anchored")
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed and anchored", "unsealed"])
@pytest.mark.parametrize("kills", KILLS)
def test_a_release_killed_at_any_moment_is_counted_once_it_was_reserved(server, register, kills, sealed):
    where = kill_and_count(server, register, kills, sealed=sealed)
    assert where.total() >= kills
    assert set(where) == {"before", "between", "after the commitment"}, where


@pytest.mark.parametrize("kills", KILLS)
def test_a_ledger_whose_making_was_killed_opens_and_takes_the_next_release(server, register, kills, tmp_path):
    chance, left_behind, number = random.Random(kills), 0, 0
    reserved, _ = measured(server, register, tmp_path / "measured.ledger")
    while number < kills or (left_behind < 2 and number < kills + 50):
        number += 1
        (folder := tmp_path / str(number)).mkdir()
        books = folder / "books.ledger"
        run(server, register, books, 0, folder / "release-0.json", kill_after=reserved * chance.uniform(0.3, 1.2))
        left_behind += books.exists()
        survey = a_survey(register, books)
        before = check(survey, sealed=False)
        survey.plan(ds.mean("income", bounds=(0, 200)), share=SHARE).release().save(folder / "release-1.json")
        assert check(survey, sealed=False) - before == {"committed": 1}
    assert left_behind >= 2, "some kills come after the file was made"
