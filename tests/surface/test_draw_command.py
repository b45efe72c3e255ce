"""`dpsurvey draw` and `dpsurvey key`: every design from a survey.toml, the receipt, the weights, exit codes, keys."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dpsurvey import Key, panel_start
from dpsurvey.cli.app import app
from dpsurvey.ledger import Ledger
from tests.command_line import printed, run_main

SIZE, REGIONS = 60, {"north": 36, "south": 24}
SURVEY = """
[survey]
name = "lfs"
ledger = "lfs.ledger"
[frame]
table = "register.parquet"
unit = "person"
size = 60
public = ["psu", "ssu", "employees", "rate", "street"]
[frame.categories]
region = {{ north = 36, south = 24 }}
[setting]
protect = "frame"
neighbours = "replace-one"
[budget]
epsilon = 1
[design]
{design}
"""


def register():
    rng = np.random.default_rng(5)
    place = np.arange(SIZE)
    return pa.table(
        {
            # Units are named unlike clusters, and in another order than the rows.
            "person": [f"u{number:02d}" for number in rng.permutation(SIZE)],
            "region": np.repeat(list(REGIONS), list(REGIONS.values())),
            "psu": place // 6,
            "ssu": [f"s{number}" for number in place // 2],
            "employees": 1 + place // 6,
            "rate": np.where(place % 2, 0.2, 0.5),
            "street": rng.permutation(SIZE),
            "income": rng.uniform(0, 100, SIZE),
        }
    )


@pytest.fixture
def folder(tmp_path):
    pq.write_table(register(), tmp_path / "register.parquet")
    return tmp_path


@pytest.fixture
def run(folder, monkeypatch):
    """The command line in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(folder)
    return run_main


def write(folder, design, name="survey.toml", ledger="lfs.ledger"):
    text = SURVEY.format(design=design).replace("lfs.ledger", ledger)
    (folder / name).write_text(text)
    return name


SRS, POISSON = 'kind = "srs"\nn = 12', 'kind = "poisson"\nrate = 0.3'
CLUSTER = 'kind = "cluster"\ncluster = "psu"\nhow = { kind = "srs", n = 4 }'
ONE = '{ kind = "srs", n = 1 }'
# Each design as it is written, the number of rows where the design fixes it, and the probability where it is one for all.
DESIGNS = {
    "srs": (SRS, 12, 0.2),
    "srs by rate": ('kind = "srs"\nrate = 0.25', 15, 0.25),
    "with replacement": ('kind = "with-replacement"\nn = 9', 9, 1 - (1 - 1 / 60) ** 9),
    "poisson": (POISSON, None, 0.3),
    "poisson by": ('kind = "poisson-by"\nrate = "rate"\nat_most = 0.5', None, None),
    "proportional": ('kind = "proportional"\nrate = 0.1', 6, 0.1),
    "systematic": ('kind = "systematic"\nn = 12', 12, 0.2),
    "systematic by rate": ('kind = "systematic"\nrate = 0.1\norder = "random"', 6, 0.1),
    "systematic as listed": ('kind = "systematic"\nn = 7\norder = "as listed"', 7, 7 / 60),
    "systematic sorted": ('kind = "systematic"\nn = 10\norder = ["region", "street"]', 10, 1 / 6),
    **{
        f"pps {method}": (f'kind = "pps"\nsize = "employees"\nn = 6\nmethod = "{method}"\nat_most = 0.5', count, None)
        for method, count in (
            ("poisson", None),
            ("systematic", 6),
            ("sampford", 6),
            ("conditional-poisson", 6),
            ("pivotal", 6),
            ("pareto", 6),
        )
    },
    "pps as listed": ('kind = "pps"\nsize = "employees"\nn = 6\norder = "as listed"', 6, None),
    "cluster": (CLUSTER, 24, 0.4),
    "cluster with a cap": (CLUSTER + "\nclusters = 10\ncap = 6", 24, 0.4),
    "cluster by size": (
        'kind = "cluster"\ncluster = "psu"\nhow = { kind = "pps", size = "employees", n = 3, method = "pivotal" }',
        18,
        None,
    ),
    "cluster with replacement": (
        'kind = "cluster"\ncluster = "psu"\nhow = { kind = "with-replacement", n = 3 }',
        18,
        1 - (1 - 1 / 10) ** 3,
    ),
    "stages": (
        f'kind = "stages"\nstages = [{{ kind = "cluster", cluster = "psu", how = {{ kind = "srs", n = 5 }} }}, {ONE}]',
        5,
        5 / 10 / 6,
    ),
    "stages with poisson": (
        'kind = "stages"\nstages = [{ kind = "cluster", cluster = "psu", how = { kind = "srs", n = 5 } }, '
        '{ kind = "poisson", rate = 0.5 }]',
        None,
        0.25,
    ),
    "three stages": (
        'kind = "stages"\nstages = [{ kind = "cluster", cluster = "psu", how = { kind = "srs", n = 5 } }, '
        '{ kind = "cluster", cluster = "ssu", how = { kind = "srs", n = 2 } }, { kind = "srs", n = 1 }]',
        10,
        0.5 * 2 / 3 * 0.5,
    ),
    "stratified": ('kind = "stratified"\nby = "region"\nwithin = { kind = "srs", n = 6 }', 12, None),
    "stratified poisson": ('kind = "stratified"\nby = "region"\nwithin = { kind = "poisson", rate = 0.3 }', None, 0.3),
    "mixed strata": (
        'kind = "stratified"\nby = "region"\n[design.within]\nnorth = { kind = "systematic", n = 9, order = "street" }\n'
        'south = { kind = "pps", size = "employees", n = 4, method = "sampford" }',
        13,
        None,
    ),
    "strata of stages": (
        'kind = "stratified"\nby = "region"\n[design.within]\nkind = "stages"\n'
        'stages = [{ kind = "cluster", cluster = "psu", how = { kind = "srs", n = 2 } }, { kind = "poisson", rate = 0.5 }]',
        None,
        None,
    ),
}
WITH_CLUSTERS = {name for name in DESIGNS if "cluster" in name or "stages" in name}


def receipt_of(out):
    assert out.count("\n") == 1, out
    found = re.fullmatch(r"sample ([0-9a-f]{12}) sealed in (\S+)( by key [0-9a-f]{8})?\n", out)
    assert found, out
    return found


@pytest.mark.parametrize("name", DESIGNS)
def test_every_design_is_drawn_from_a_survey_file_with_its_weights(run, folder, name):
    design, count, chance = DESIGNS[name]
    code, out, err = run("draw", write(folder, design), "-o", "sample.parquet")
    assert code == 0, err
    sealed = receipt_of(out)
    sample = pq.read_table(folder / "sample.parquet")
    ssu = ["ssu"] if name == "three stages" else []
    assert sample.column_names == ["unit", "stratum", "psu", *ssu, "pi", "weight"]
    rows = sample.to_pylist()
    frame = {row["person"]: row for row in register().to_pylist()}
    assert {row["unit"] for row in rows} <= set(frame)
    assert count is None or len(rows) == count
    repeated = "replacement" in name
    assert repeated or len({row["unit"] for row in rows}) == len(rows)
    for row in rows:
        own = frame[row["unit"]]
        assert 0.0 < row["pi"] <= 1.0
        if not repeated:
            assert row["weight"] == pytest.approx(1.0 / row["pi"], rel=1e-12)
        if chance is not None:
            assert row["pi"] == pytest.approx(chance, rel=1e-9)
        assert row["stratum"] == (own["region"] if "strat" in name else None)
        assert str(row["psu"]) == str(own["psu"] if name in WITH_CLUSTERS else None)
        assert not ssu or row["ssu"] == own["ssu"]
    if name == "poisson by":
        assert all(row["pi"] == frame[row["unit"]]["rate"] for row in rows)
    if name.startswith("pps"):
        total = sum(row["employees"] for row in frame.values())
        assert all(row["pi"] == pytest.approx(6 * frame[row["unit"]]["employees"] / total, rel=1e-9) for row in rows)
    if name == "stratified":
        assert Counter(row["stratum"] for row in rows) == {"north": 6, "south": 6}
        assert all(row["weight"] == pytest.approx(REGIONS[row["stratum"]] / 6) for row in rows)
    if name == "with replacement":
        assert all(row["weight"] == pytest.approx(60 / 9) for row in rows)
    if name == "cluster with replacement":
        assert all(row["weight"] == pytest.approx(10 / 3) for row in rows)
    on_record = Ledger(folder / "lfs.ledger").samples("lfs")
    assert [each["id"][:12] for each in on_record] == [sealed[1]]
    assert [each["state"] for each in on_record] == ["sealed"]


FEW = ("srs", "with replacement", "poisson by", "systematic", "pps sampford", "cluster", "three stages", "mixed strata")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in DESIGNS])
def test_every_design_is_drawn_with_a_key_and_again_in_another_ledger(run, folder, name):
    key = Key(bytes(range(32)))
    key.write(folder / "panel.key")
    drawn = []
    for ledger in ("one.ledger", "two.ledger"):
        file = write(folder, DESIGNS[name][0], ledger=ledger)
        code, out, err = run("draw", file, "-o", f"{ledger}.parquet", "--key-file", "panel.key")
        assert code == 0, err
        assert receipt_of(out)[3] == f" by key {key.commitment[:8]}"
        assert key.secret.hex() not in out + err
        drawn.append(pq.read_table(folder / f"{ledger}.parquet"))
    assert drawn[0].equals(drawn[1])


def test_sums_of_weights_are_the_size_of_the_frame_on_average(run, folder):
    """Fixed rates: the weights of a simple, systematic or clustered sample of equal clusters add up exactly."""
    for number, name in enumerate(("srs", "with replacement", "systematic", "cluster", "stages", "three stages", "stratified")):
        file = write(folder, DESIGNS[name][0], ledger=f"{number}.ledger")
        assert run("draw", file, "-o", f"{number}.parquet")[0] == 0
        assert sum(pq.read_table(folder / f"{number}.parquet")["weight"].to_pylist()) == pytest.approx(SIZE)


def test_json_is_one_object_with_what_the_ledger_and_the_manifest_know(run, folder):
    Key(bytes(32)).write(folder / "panel.key")
    code, out, err = run("draw", write(folder, POISSON), "-o", "s.parquet", "--json", "--key-file", "panel.key", "--start", 0.25)
    assert code == 0, err
    receipt = json.loads(out)
    assert set(receipt) == {"sample", "file", "ledger", "manifest", "key_commitment", "start"}
    assert (receipt["file"], receipt["manifest"], receipt["start"]) == ("s.parquet", "s.manifest.json", 0.25)
    manifest = json.loads((folder / "s.manifest.json").read_text())
    assert receipt["sample"] == manifest["sample"] == Ledger(folder / "lfs.ledger").samples()[0]["id"]
    assert receipt["key_commitment"] == manifest["key_commitment"] == Key(bytes(32)).commitment
    # How many were drawn is random here, and stays secret.
    assert not re.search(r"units|rows|count", out)


def test_stdout_is_the_receipt_and_talk_and_progress_go_to_stderr(folder):
    """As a process, with stdout and stderr apart."""
    write(folder, SRS)
    command = [sys.executable, "-m", "dpsurvey.cli.app", "draw", "survey.toml", "-o", "sample.parquet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    receipt_of(done.stdout)
    assert "keep this file secret" in done.stderr
    assert "u0" not in done.stdout + done.stderr
    again = subprocess.run([*command[:-1], "other.parquet"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert (again.returncode, again.stdout) == (1, "")
    assert "--new-sample" in again.stderr


def test_progress_is_on_stderr_even_where_it_is_a_terminal(folder):
    write(folder, SRS)
    script = "import pty, sys; sys.exit(pty.spawn([sys.executable, *sys.argv[1:]]) >> 8)"
    command = [
        sys.executable,
        "-c",
        script,
        "-c",
        "import sys; from dpsurvey.cli import app as cli; f = open('out.txt', 'w'); sys.stdout = f; ",
    ]
    command[-1] += "sys.argv = ['dpsurvey', 'draw', 'survey.toml', '-o', 'sample.parquet']; cli.main()"
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    receipt_of((folder / "out.txt").read_text())
    assert "drawing in secret" in shown.stdout
    assert "sealed in" not in shown.stdout


def test_exit_codes(run, folder):
    file = write(folder, SRS)
    assert run("draw", file)[0] == 2
    assert run("draw", "nowhere.toml", "-o", "s.parquet")[0] == 2
    assert run("draw", file, "-o", "s.csv")[0] == 2
    assert run("draw", file, "-o", "no/such/folder/s.parquet")[0] == 2
    assert run("draw", file, "-o", "s.parquet", "--engine", "sparc")[0] == 2
    assert run("draw", file, "-o", "s.parquet", "--start", "0.5")[0] == 2
    assert run("draw", file, "-o", "s.parquet", "--start", "soon")[0] == 2
    assert run("draw", file, "-o", "s.parquet", "--key-file", "no.key")[0] == 2
    assert not (folder / "s.parquet").exists()
    assert not (folder / "lfs.ledger").exists() or Ledger(folder / "lfs.ledger").samples() == []
    assert run("draw", file, "-o", "s.parquet")[0] == 0
    assert run("draw", file, "-o", "s.parquet")[0] == 2
    assert run("draw", file, "-o", "t.parquet")[0] == 1
    assert run("draw", file, "-o", "t.parquet", "--new-sample")[0] == 0
    assert len(Ledger(folder / "lfs.ledger").samples()) == 2


def test_an_unknown_engine_is_named_with_the_known_ones(run, folder):
    code, out, err = run("draw", write(folder, SRS), "-o", "s.parquet", "--engine", "sparc")
    assert (code, out) == (2, "")
    assert "unknown engine 'sparc'" in err
    assert "did you mean 'spark'" in err


def test_errors_with_json_are_one_object_on_stderr(run, folder):
    code, out, err = run("draw", write(folder, SRS.replace("12", "61")), "-o", "s.parquet", "--json")
    assert (code, out) == (2, "")
    told = json.loads(err.splitlines()[-1])
    assert told["what"] == "cannot draw more units than there are"
    assert told["given"] == "n=61, size=60"


@pytest.mark.parametrize("command", [["draw"], ["key", "new"], ["key", "show"], ["key", "start"]], ids=" ".join)
def test_help_has_an_example(command):
    assert re.search(rf"Example:.*dpsurvey {' '.join(command)} ", printed(*command, "--help"))


def test_help_of_draw_names_every_option():
    shown = CliRunner().invoke(app, ["draw", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).stdout
    for option in ("--output", "-o", "--key-file", "--start", "--engine", "--new-sample", "--json"):
        assert option in shown


def test_a_survey_file_without_a_setting_can_draw_every_kind_of_design(run, folder):
    """The default setting is one that the design allows."""
    for number, name in enumerate(("srs", "poisson", "proportional", "cluster", "stages with poisson", "mixed strata")):
        file = write(folder, DESIGNS[name][0], ledger=f"{number}.ledger")
        text = (folder / file).read_text().replace('[setting]\nprotect = "frame"\nneighbours = "replace-one"\n', "")
        (folder / file).write_text(text)
        code, _, err = run("draw", file, "-o", f"{number}.parquet")
        assert code == 0, f"{name}: {err}"


# Keys


def test_a_new_key_is_readable_by_its_owner_alone_and_never_printed(run, folder):
    before = os.umask(0)
    try:
        code, out, err = run("key", "new", "panel.key")
    finally:
        os.umask(before)
    assert code == 0
    assert stat.S_IMODE((folder / "panel.key").stat().st_mode) == 0o600
    key = Key.read(folder / "panel.key")
    assert out == f"key {key.commitment[:8]} in panel.key\n"
    assert key.secret.hex() not in out + err
    assert run("key", "show", "panel.key")[1] == key.commitment + "\n"
    assert json.loads(run("key", "show", "panel.key", "--json")[1]) == {"commitment": key.commitment}


def test_a_key_is_never_overwritten(run, folder):
    assert run("key", "new", "panel.key")[0] == 0
    text = (folder / "panel.key").read_text()
    code, out, err = run("key", "new", "panel.key")
    assert (code, out) == (2, "")
    assert "exists already" in err
    assert (folder / "panel.key").read_text() == text
    (folder / "link.key").symlink_to(folder / "elsewhere.key")
    assert run("key", "new", "link.key")[0] == 2
    assert not (folder / "elsewhere.key").exists()


def test_two_keys_are_different_and_json_has_the_whole_commitment(run, folder):
    made = [json.loads(run("key", "new", f"{name}.key", "--json")[1]) for name in "ab"]
    assert made[0]["commitment"] != made[1]["commitment"]
    assert {len(each["commitment"]) for each in made} == {64}
    assert all(Key.read(folder / f"{name}.key").secret.hex() not in json.dumps(made) for name in "ab")


def test_starts_of_waves_are_those_of_panel_start(run):
    for wave in range(4):
        code, out, _ = run("key", "start", "--rate", 0.1, "--wave", wave, "--overlap", 0.75)
        assert code == 0
        assert float(out) == panel_start(0.1, wave=wave, overlap=0.75)
    assert json.loads(run("key", "start", "--rate", 0.1, "--wave", 2, "--overlap", 0.5, "--json")[1])["start"] == pytest.approx(
        0.1
    )
    for wrong in (["--rate", 0, "--wave", 1, "--overlap", 0.5], ["--rate", 0.1, "--wave", -1, "--overlap", 0.5]):
        assert run("key", "start", *wrong)[0] == 2
    for wrong in (["--rate", 0.9, "--wave", 1, "--overlap", 0.5], ["--rate", 0.1, "--wave", 1, "--overlap", 1.5]):
        assert run("key", "start", *wrong)[0] == 2
    assert run("key", "start", "--rate", "nan", "--wave", 1, "--overlap", 0.5)[0] == 2


def test_a_wave_at_the_start_of_the_next_overlaps_as_stated(run, folder):
    """Poisson waves of one key: wave 1 keeps the units of wave 0 whose numbers lie in both windows, and no others."""
    Key(bytes(range(32))).write(folder / "panel.key")
    waves = []
    for wave in (0, 1):
        start = panel_start(0.3, wave=wave, overlap=0.5)
        file = write(folder, POISSON, ledger=f"wave{wave}.ledger")
        arguments = ("--key-file", "panel.key", "--start", start)
        assert run("draw", file, "-o", f"wave{wave}.parquet", *arguments)[0] == 0
        waves.append(set(pq.read_table(folder / f"wave{wave}.parquet")["unit"].to_pylist()))
    key = Key(bytes(range(32)))
    numbers = {name: key.number(name) / 2**60 for name in register()["person"].to_pylist()}
    assert waves[0] == {name for name, number in numbers.items() if number < 0.3}
    assert waves[1] == {name for name, number in numbers.items() if 0.15 <= number < 0.45}


@pytest.mark.slow
def test_spark_draws_the_units_that_duckdb_draws(folder):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    Key(bytes(range(32))).write(folder / "panel.key")
    drawn = []
    for engine in ("duckdb", "spark"):
        file = write(folder, SRS, ledger=f"{engine}.ledger")
        arguments = ["draw", file, "-o", f"{engine}.parquet", "--key-file", "panel.key", "--engine", engine]
        command = [sys.executable, "-m", "dpsurvey.cli.app", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        receipt_of(done.stdout)
        assert engine in json.loads((folder / f"{engine}.manifest.json").read_text())["engine"]
        drawn.append(pq.read_table(folder / f"{engine}.parquet")["unit"].to_pylist())
    assert drawn[0] == drawn[1]
