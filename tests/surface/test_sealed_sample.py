"""The sealed sample and its manifest: whole or not there, for their owner alone, and nothing in them that tells who was drawn."""

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
import dpsurvey.survey.sealing
from dpsurvey.engine import Engine
from dpsurvey.errors import BadValue, LedgerDisagrees, NotWritten
from dpsurvey.ledger import Ledger
from dpsurvey.survey import sample_file
from dpsurvey.survey.sample_file import file_hash

SIZE, REGIONS = 60, {"north": 36, "south": 24}
REPLACE = ds.Setting("frame", neighbours="replace-one")


def register(size=SIZE):
    place = np.arange(size)
    return pa.table(
        {
            "person": [f"u{number:07d}" for number in place],
            "region": np.where(place < 0.6 * size, "north", "south"),
            "psu": place // 6,
            "employees": 1 + place % 7,
            "rate": np.where(place % 2, 0.2, 0.5),
        }
    )


@pytest.fixture
def folder(tmp_path):
    pq.write_table(register(), tmp_path / "register.parquet")
    return tmp_path


def survey(folder, design, *, setting=REPLACE, name="survey", progress=None, table="register.parquet"):
    frame = ds.Frame(
        folder / table, unit="person", size=SIZE, categories={"region": REGIONS}, public=["psu", "employees", "rate"]
    )
    ledger = folder / "books.ledger"
    return ds.Survey(frame, design, setting, budget=ds.Budget(1.0), ledger=ledger, name=name, progress=progress)


def manifest_in(folder, name="sample"):
    return json.loads((folder / f"{name}.manifest.json").read_text())


def on_record(folder):
    return Ledger(folder / "books.ledger").samples() if (folder / "books.ledger").exists() else []


def nothing_left(folder):
    """No sample, no manifest, no row, and nothing half-written under another name."""
    left = {path.name for path in folder.iterdir() if not path.name.startswith(("books.ledger", "register", "survey.toml"))}
    assert left == set()
    assert on_record(folder) == []


# The manifest

SRS, POISSON = ds.srs(n=12), ds.poisson(0.3)
CLUSTERS = ds.cluster("psu", ds.srs(n=4))
COUNTS = {
    "srs": (SRS, {"units": 12}),
    "srs by rate": (ds.srs(rate=0.25), {"units": 15}),
    "with replacement": (ds.with_replacement(n=9), {"draws": 9}),
    "poisson": (POISSON, {}),
    "poisson by": (ds.poisson_by("rate", at_most=0.5), {}),
    "proportional": (ds.proportional(0.13), {}),
    "systematic": (ds.systematic(n=12), {"units": 12}),
    "systematic by rate": (ds.systematic(rate=0.13), {}),
    "pps": (ds.pps("employees", n=6, method="pivotal"), {"units": 6}),
    "pps poisson": (ds.pps("employees", n=6, method="poisson"), {}),
    "cluster": (CLUSTERS, {"clusters": 4}),
    "cluster by poisson": (ds.cluster("psu", POISSON), {}),
    "cluster with replacement": (ds.cluster("psu", ds.with_replacement(n=3)), {"draws": 3}),
    "stages": (ds.stages(CLUSTERS, ds.srs(n=2)), {"clusters": 4, "in each cluster": {"units": 2}}),
    "stages, poisson last": (ds.stages(CLUSTERS, POISSON), {"clusters": 4}),
    "strata": (ds.stratified("region", within=ds.srs(n=6)), {"by stratum": {"north": {"units": 6}, "south": {"units": 6}}}),
    "strata of poisson": (ds.stratified("region", within=POISSON), {"by stratum": {"north": {}, "south": {}}}),
    "mixed strata": (
        ds.stratified("region", within={"north": SRS, "south": POISSON}),
        {"by stratum": {"north": {"units": 12}, "south": {}}},
    ),
    "strata of clusters": (
        ds.stratified("region", within=ds.cluster("psu", ds.srs(n=2))),
        {"by stratum": {"north": {"clusters": 2}, "south": {"clusters": 2}}},
    ),
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_manifest_holds_counts_only_where_the_design_fixes_them(folder, name):
    design, counts = COUNTS[name]
    made = survey(folder, design)
    sealed = made.draw(folder / "sample.parquet")
    manifest = manifest_in(folder)
    assert set(manifest) == {"sample", "survey", "design", "counts", "engine", "software", "key_commitment", "start", "hash"}
    assert manifest["counts"] == counts
    assert (manifest["sample"], manifest["survey"]) == (sealed.id, "survey")
    assert manifest["design"] == made.terms.design.to_dict()
    assert manifest["engine"].startswith("duckdb ")
    assert manifest["software"].startswith("dpsurvey ")
    assert (manifest["key_commitment"], manifest["start"]) == (None, None)
    text = (folder / "sample.manifest.json").read_text()
    assert not any(unit in text for unit in register()["person"].to_pylist())


def test_manifests_of_two_draws_differ_in_nothing_but_id_and_hash(folder):
    """Two samples of random size: whatever depends on the rows would show."""
    made = survey(folder, ds.stratified("region", within={"north": ds.proportional(0.31), "south": POISSON}))
    made.draw(folder / "a.parquet")
    made.draw(folder / "b.parquet", new=True)
    one, two = manifest_in(folder, "a"), manifest_in(folder, "b")
    assert {name for name in one if one[name] != two[name]} == {"sample", "hash"}


def test_the_hash_is_keyed_and_changes_with_the_file(folder):
    made = survey(folder, SRS)
    made.draw(folder / "sample.parquet")
    sealed = Ledger(folder / "books.ledger").sealed_sample("survey")
    manifest = manifest_in(folder)
    assert manifest["hash"] == sealed.commitment == file_hash(str(folder / "sample.parquet"), sealed.key)
    assert sealed.key not in (folder / "sample.manifest.json").read_text()
    # Without the key of the ledger a guess of the file cannot be confirmed.
    assert manifest["hash"] != file_hash(str(folder / "sample.parquet"), "00" * 32)
    content = bytearray((folder / "sample.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "sample.parquet").write_bytes(content)
    assert file_hash(str(folder / "sample.parquet"), sealed.key) != manifest["hash"]
    with pytest.raises(LedgerDisagrees, match="not the one that was sealed"):
        made.plan(ds.count(by="region")).release()


def test_two_draws_by_one_key_have_the_same_units_and_unlike_hashes(folder):
    key = ds.Key.new()
    for name in ("one", "two"):
        survey(folder, SRS, name=name).draw(folder / f"{name}.parquet", key=key)
    assert (folder / "one.parquet").read_bytes() == (folder / "two.parquet").read_bytes()
    one, two = manifest_in(folder, "one"), manifest_in(folder, "two")
    assert one["hash"] != two["hash"]
    assert one["key_commitment"] == two["key_commitment"] == key.commitment
    assert one["start"] == 0.0


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_sample_manifest_and_ledger_are_readable_by_their_owner_alone(folder, mask):
    before = os.umask(mask)
    try:
        survey(folder, POISSON).draw(folder / "sample.parquet")
    finally:
        os.umask(before)
    for name in ("sample.parquet", "sample.manifest.json", "books.ledger"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    assert {path.name for path in folder.iterdir()} >= {"sample.parquet", "sample.manifest.json"}
    assert not [path for path in folder.iterdir() if path.name.startswith(".dpsurvey")]


def test_rows_are_sorted_so_that_their_order_does_not_tell_of_the_draw(folder):
    survey(folder, ds.stratified("region", within=ds.srs(n=6))).draw(folder / "sample.parquet")
    rows = pq.read_table(folder / "sample.parquet").to_pylist()
    assert rows == sorted(rows, key=lambda row: (row["stratum"], row["unit"]))


# Nothing is overwritten, nothing is drawn twice


@pytest.mark.parametrize("taken", ["sample.parquet", "sample.manifest.json"])
def test_an_existing_file_is_never_overwritten(folder, taken):
    (folder / taken).write_text("mine")
    with pytest.raises(BadValue, match="exists already"):
        survey(folder, SRS).draw(folder / "sample.parquet")
    assert (folder / taken).read_text() == "mine"
    assert on_record(folder) == []


@pytest.mark.parametrize("taken", ["sample.parquet", "sample.manifest.json"])
def test_a_file_that_appears_while_the_draw_is_made_is_not_overwritten(folder, taken):
    def progress(what, done, total):
        if (what, done) == ("drawing in secret", 100):
            (folder / taken).write_text("mine")

    with pytest.raises(ds.SurveyError):
        survey(folder, SRS, progress=progress).draw(folder / "sample.parquet")
    assert (folder / taken).read_text() == "mine"
    assert on_record(folder) == []


def test_a_link_to_another_place_is_not_followed(folder):
    (folder / "elsewhere.txt").write_text("mine")
    (folder / "sample.parquet").symlink_to(folder / "elsewhere.txt")
    with pytest.raises(BadValue, match="exists already"):
        survey(folder, SRS).draw(folder / "sample.parquet")
    assert (folder / "elsewhere.txt").read_text() == "mine"


def test_a_second_draw_is_refused_and_a_new_sample_has_to_be_asked_for(folder):
    made = survey(folder, SRS)
    first = made.draw(folder / "a.parquet")
    with pytest.raises(LedgerDisagrees, match="sealed already") as refused:
        made.draw(folder / "b.parquet")
    assert "new=True" in refused.value.hint
    assert not (folder / "b.parquet").exists()
    second = made.draw(folder / "b.parquet", new=True)
    assert first.id != second.id
    assert [each["id"] for each in on_record(folder)] == [first.id, second.id]
    assert Ledger(folder / "books.ledger").sealed_sample("survey").id == second.id


def test_a_new_sample_needs_a_new_key(folder):
    made, keys = survey(folder, SRS), [ds.Key.new(), ds.Key.new()]
    made.draw(folder / "a.parquet", key=keys[0])
    for start in (0.0, 0.5):
        with pytest.raises(LedgerDisagrees, match="this key has drawn"):
            made.draw(folder / "b.parquet", new=True, key=keys[0], start=start)
    made.draw(folder / "b.parquet", new=True, key=keys[1])
    made.draw(folder / "c.parquet", new=True)
    for key in keys:
        with pytest.raises(LedgerDisagrees, match="this key has drawn"):
            made.draw(folder / "d.parquet", new=True, key=key)
    assert len(on_record(folder)) == 3
    assert not (folder / "d.parquet").exists()


# Interrupted draws


def at_points():
    """Where a draw may stop: the name of an object, its attribute, and whether the real call is made first."""
    yield "before the draw", Engine, "draw", False
    yield "after the draw", Engine, "draw", True
    yield "before the write", Engine, "write_sample", False
    yield "after the write", Engine, "write_sample", True
    yield "before the hash", sample_file, "file_hash", False
    yield "before the files are flushed", sample_file, "flush", False
    yield "before the seal", Ledger, "seal", False


POINTS = {name: rest for name, *rest in at_points()}


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")], ids=["Ctrl-C", "full disk"]
)
@pytest.mark.parametrize("point", POINTS)
def test_a_draw_that_fails_anywhere_leaves_nothing_and_the_next_one_works(folder, monkeypatch, point, error):
    owner, attribute, after = POINTS[point]
    real = getattr(owner, attribute)

    def fails(*given, **named):
        if after:
            real(*given, **named)
        raise error

    monkeypatch.setattr(owner, attribute, fails)
    with pytest.raises((KeyboardInterrupt, OSError, ds.SurveyError)) as raised:
        survey(folder, SRS).draw(folder / "sample.parquet")
    if isinstance(raised.value, ds.SurveyError):
        assert "u00" not in str(raised.value)
    nothing_left(folder)
    monkeypatch.undo()
    survey(folder, SRS).draw(folder / "sample.parquet")
    assert len(on_record(folder)) == 1


def test_a_failure_between_the_two_files_leaves_neither(folder, monkeypatch):
    real, moved = os.replace, []

    def second_fails(source, place):
        if moved:
            raise OSError(errno.EIO, "Input/output error")
        moved.append(place)
        real(source, place)

    monkeypatch.setattr(sample_file.os, "replace", second_fails)  # type: ignore[attr-defined]
    monkeypatch.setattr(sample_file.os, "link", second_fails)  # type: ignore[attr-defined]
    with pytest.raises(NotWritten, match="could not be written") as raised:
        survey(folder, SRS).draw(folder / "sample.parquet")
    assert raised.value.because == "Input/output error"
    monkeypatch.undo()
    nothing_left(folder)


TOML = """
[survey]
name = "survey"
ledger = "books.ledger"
[frame]
table = "register.parquet"
unit = "person"
size = {size}
[design]
kind = "srs"
n = {n}
[budget]
epsilon = 1
"""
KILLED_AT = """
import os, signal, sys
from dpsurvey.cli import app as cli
from dpsurvey.engine import Engine
from dpsurvey.ledger import Ledger
from dpsurvey.survey import sample_file
owner, attribute = {owner}, {attribute!r}
real = getattr(owner, attribute)
def fails(*given, **named):
    if {after}:
        real(*given, **named)
    os.kill(os.getpid(), signal.{signal})
    return real(*given, **named)
setattr(owner, attribute, fails)
sys.argv = ["dpsurvey", "draw", "survey.toml", "-o", "sample.parquet"]
cli.main()
"""


def write_toml(folder, size=SIZE, n=12):
    (folder / "survey.toml").write_text(TOML.format(size=size, n=n))


def command_line(folder, *more, output="sample.parquet", **how):
    command = [sys.executable, "-m", "dpsurvey.cli.app", "draw", "survey.toml", "-o", output, *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, **how)


SLOW_POINTS = [pytest.param(point, marks=pytest.mark.slow) for point in ("after the draw", "before the files are flushed")]


@pytest.mark.slow_cases("after the write")
@pytest.mark.parametrize("point", ["after the write", *SLOW_POINTS])
def test_a_killed_process_leaves_no_sample_and_the_next_draw_works(folder, point):
    write_toml(folder)
    owner, attribute, after = POINTS[point]
    script = KILLED_AT.format(owner=owner.__name__.split(".")[-1], attribute=attribute, after=after, signal="SIGKILL")
    killed = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert not (folder / "sample.parquet").exists()
    assert not (folder / "sample.manifest.json").exists()
    assert on_record(folder) == []
    # What a killed process was writing lies in a folder that nobody else can enter.
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in folder.glob(".dpsurvey-*"))
    survey_again = command_line(folder)
    assert survey_again.returncode == 0, survey_again.stderr
    assert len(on_record(folder)) == 1


@pytest.mark.slow
def test_a_process_killed_before_the_seal_has_no_sample_on_record(folder):
    """Files and ledger are two places: the file may be there, but it is nobody's sample and nobody else can read it."""
    write_toml(folder)
    script = KILLED_AT.format(owner="Ledger", attribute="seal", after=False, signal="SIGKILL")
    killed = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert on_record(folder) == []
    for path in folder.glob("sample*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert command_line(folder, output="other.parquet").returncode == 0
    assert len(on_record(folder)) == 1


def test_ctrl_c_leaves_nothing_and_exits_130(folder):
    write_toml(folder)
    script = KILLED_AT.format(owner="Engine", attribute="write_sample", after=True, signal="SIGINT")
    stopped = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=120)
    assert stopped.returncode in (130, -signal.SIGINT), stopped.stderr
    assert stopped.stdout == ""
    nothing_left(folder)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "SIGINT"])
def test_a_process_stopped_at_any_moment_has_sealed_its_sample_or_left_none(folder, sent):
    size = 400_000
    pq.write_table(register(size).select(["person"]), folder / "register.parquet")
    write_toml(folder, size, 100_000)
    rng = np.random.default_rng(20261115)
    for _ in range(8):
        for path in (*folder.glob("sample*"), *folder.glob("books*")):
            path.unlink()
        command = [sys.executable, "-m", "dpsurvey.cli.app", "draw", "survey.toml", "-o", "sample.parquet"]
        run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(float(rng.uniform(0.6, 3.5)))
        run.send_signal(sent)
        run.wait(timeout=60)
        there = (folder / "sample.parquet").exists(), (folder / "sample.manifest.json").exists(), len(on_record(folder)) == 1
        assert there in ((True,) * 3, (False,) * 3), there
        if sent == signal.SIGINT:
            assert not list(folder.glob(".dpsurvey-*"))
        if not there[0]:
            done = command_line(folder)
            assert done.returncode == 0, done.stderr


# A full disk


def few_bytes():
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))


def test_a_file_that_cannot_grow_leaves_nothing(folder):
    size = 100_000
    pq.write_table(register(size).select(["person"]), folder / "register.parquet")
    write_toml(folder, size, 90_000)
    full = command_line(folder, preexec_fn=few_bytes)
    assert full.returncode == 1, full.stderr
    assert full.stdout == ""
    assert "writ" in full.stderr
    assert "u00" not in full.stderr
    nothing_left(folder)
    done = command_line(folder)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_on_it(folder, small_disk):
    size = 100_000
    pq.write_table(register(size).select(["person"]), folder / "register.parquet")
    write_toml(folder, size, 90_000)
    full = command_line(folder, output="disk/sample.parquet")
    assert full.returncode == 1, full.stderr
    assert "the disk is full" in full.stderr
    assert "u00" not in full.stderr
    assert list(small_disk.iterdir()) == []
    assert on_record(folder) == []
    assert command_line(folder).returncode == 0


@pytest.mark.slow
def test_a_disk_without_room_for_the_manifest_leaves_nothing_on_it(folder, small_disk):
    """The sample fits and then nothing more does."""
    write_toml(folder)
    (small_disk / "filler").write_bytes(bytes(248_000))
    room = os.statvfs(small_disk)
    assert room.f_bavail * room.f_bsize < 20_000
    full = command_line(folder, output="disk/sample.parquet")
    assert (full.returncode == 0) == (small_disk / "sample.parquet").exists()
    assert (full.returncode == 0) == (len(on_record(folder)) == 1)
    if full.returncode:
        assert [path.name for path in small_disk.iterdir()] == ["filler"]


# Two at once

AT_ONCE = """
import os, sys, time
import dpsurvey.survey.sealing
from dpsurvey.cli import app as cli
output, me = sys.argv[1:]
real = dpsurvey.survey.sealing.write_sample_file
def together(*given):
    open("ready-" + me, "w").close()
    deadline = time.monotonic() + 60
    while not (os.path.exists("ready-one") and os.path.exists("ready-two")) and time.monotonic() < deadline:
        time.sleep(0.001)
    return real(*given)
dpsurvey.survey.sealing.write_sample_file = together
sys.argv = ["dpsurvey", "draw", "survey.toml", "-o", output]
cli.main()
"""


def at_once(folder, *outputs):
    runs = [
        subprocess.Popen([sys.executable, "-c", AT_ONCE, output, me], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for output, me in zip(outputs, ("one", "two"), strict=True)
    ]
    for run in runs:
        run.communicate(timeout=120)
    return [run.returncode for run in runs]


def test_of_two_processes_that_draw_at_once_exactly_one_seals(folder):
    write_toml(folder)
    codes = at_once(folder, "a.parquet", "b.parquet")
    assert sorted(codes) == [0, 1]
    assert len(on_record(folder)) == 1
    winner, loser = ("a", "b") if codes[0] == 0 else ("b", "a")
    assert {path.name for path in folder.glob("?.*")} == {f"{winner}.parquet", f"{winner}.manifest.json"}
    assert not list(folder.glob(f"{loser}.*"))
    assert Ledger(folder / "books.ledger").sealed_sample("survey").path == str(folder / f"{winner}.parquet")


@pytest.mark.slow
def test_two_processes_that_draw_to_one_place_leave_the_sealed_sample_there(folder):
    write_toml(folder)
    codes = at_once(folder, "sample.parquet", "sample.parquet")
    assert 0 in codes
    assert codes.count(0) == len(on_record(folder)) == 1
    sealed = Ledger(folder / "books.ledger").sealed_sample("survey")
    assert (folder / "sample.parquet").exists()
    assert file_hash(str(folder / "sample.parquet"), sealed.key) == sealed.commitment
    assert manifest_in(folder)["hash"] == sealed.commitment


def test_a_loser_does_not_take_away_the_sample_of_the_winner(folder, monkeypatch):
    """The same race in one process: while one draw is about to seal, another one seals at the same place."""
    first, second = survey(folder, SRS), survey(folder, SRS)
    real = dpsurvey.survey.sealing.write_sample_file  # type: ignore[attr-defined]

    def later(*given):
        monkeypatch.undo()
        first.draw(folder / "sample.parquet")
        return real(*given)

    monkeypatch.setattr(dpsurvey.survey.sealing, "write_sample_file", later)
    with pytest.raises(ds.SurveyError):
        second.draw(folder / "sample.parquet")
    sealed = Ledger(folder / "books.ledger").sealed_sample("survey")
    assert Path(sealed.path).exists()
    assert file_hash(sealed.path, sealed.key) == sealed.commitment
