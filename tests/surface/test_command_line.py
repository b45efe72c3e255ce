"""The command line, run as people run it: real processes, real files."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command_line import printed, run_main

SURVEY = """
[survey]
name = "lfs"
ledger = "lfs.ledger"
[frame]
table = "register.parquet"
unit = "id"
size = 20000
[frame.categories]
region = { north = 12000, south = 8000 }
[design]
kind = "stratified"
by = "region"
within = { kind = "poisson", rate = 0.1 }
[setting]
protect = "frame"
neighbours = "add-remove"
[budget]
epsilon = 1
[[statistic]]
kind = "mean"
of = "income"
bounds = [0, 100]
by = ["region"]
[[statistic]]
kind = "proportion"
of = "status"
value = "idle"
"""
COMMANDS = ("init", "check", "plan", "draw", "release", "ledger", "report", "demo")


def dpsurvey(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "dpsurvey.cli.app", *arguments], cwd=folder, capture_output=True, text=True, timeout=120
    )


def at_once(folder, *arguments):
    """The same through the same entry point in this process, for what start-up does not matter to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code, out, err = run_main(*arguments)
    return SimpleNamespace(returncode=code, stdout=out, stderr=err)


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(1)
    columns = {
        "id": np.arange(20000),
        "region": np.repeat(["north", "south"], [12000, 8000]),
        "income": random.gamma(2.0, 10.0, 20000),
        "status": random.choice(["idle", "busy"], 20000, p=[0.2, 0.8]),
    }
    pq.write_table(pa.table(columns), tmp_path / "register.parquet")
    (tmp_path / "survey.toml").write_text(SURVEY)
    return tmp_path


@pytest.mark.parametrize("word", COMMANDS)
def test_every_command_has_help_with_an_example(word):
    shown = printed(word, "--help")
    assert "Example" in shown
    assert f"dpsurvey {word}" in shown


def test_from_check_to_report_with_data_on_stdout_and_talk_on_stderr(folder):
    checked = dpsurvey(folder, "check", "survey.toml", "--json")
    assert (checked.returncode, json.loads(checked.stdout)["ok"]) == (0, True)
    planned = at_once(folder, "plan", "survey.toml", "--json")
    assert len(json.loads(planned.stdout)["predictions"]) == 3
    assert planned.stderr == ""
    released = at_once(folder, "release", "survey.toml", "--out", "q1", "--json")
    assert released.returncode == 0, released.stderr
    release = json.loads(released.stdout)
    assert release == json.loads((folder / "q1" / "release.json").read_text())
    assert "saved in q1" in released.stderr
    assert release["guarantee"]["sentence"].startswith("Anyone on the frame: epsilon 1.")
    books = json.loads(at_once(folder, "ledger", "survey.toml", "--json").stdout)["surveys"]
    assert books[0]["spent"] == pytest.approx(1.0)
    assert {charge["state"] for charge in books[0]["charges"]} == {"committed"}
    again = at_once(folder, "report", "q1/release.json", "-o", "again.html")
    assert (again.returncode, again.stdout.strip()) == (0, "again.html")
    assert (folder / "again.html").read_text() == (folder / "q1" / "report.html").read_text()


def test_the_field_lies_between_draw_and_release(folder):
    drawn = dpsurvey(folder, "draw", "survey.toml", "-o", "sample.parquet", "--json")
    assert drawn.returncode == 0, drawn.stderr
    sample = pq.read_table(folder / "sample.parquet").to_pandas()
    assert set(sample.columns) == {"unit", "stratum", "psu", "pi", "weight"}
    assert os.stat(folder / "sample.parquet").st_mode & 0o077 == 0
    register = pq.read_table(folder / "register.parquet").to_pandas().set_index("id")
    came_back = sample[["unit"]].rename(columns={"unit": "id"}).iloc[::2].join(register[["income", "status"]], on="id")
    pq.write_table(pa.Table.from_pandas(came_back, preserve_index=False), folder / "answers.parquet")
    done = at_once(folder, "release", "survey.toml", "--responses", "answers.parquet", "--json")
    assert done.returncode == 0, done.stderr
    release = json.loads(done.stdout)
    assert release["sample"]["id"] == json.loads(drawn.stdout)["sample"]
    for row in release["estimates"]:
        truth = 20.0 if row["statistic"] == "mean" else 0.2
        # 16 standard errors: false alarm below 1e-9, for Laplace noise and for sampling.
        assert abs(row["estimate"] - truth) < 16 * row["se"]
    refused = at_once(folder, "draw", "survey.toml", "-o", "other.parquet")
    assert refused.returncode == 1
    assert "--new-sample" in refused.stderr
    assert not (folder / "other.parquet").exists()


def test_refusals_exit_1_and_wrong_usage_exits_2(folder):
    assert at_once(folder, "release", "survey.toml", "--out", "one").returncode == 0
    twice = at_once(folder, "release", "survey.toml", "--out", "two")
    assert (twice.returncode, twice.stdout) == (1, "")
    assert "already released" in twice.stderr
    (folder / "survey.toml").write_text(SURVEY + '\n[[statistic]]\nkind = "count"\nby = ["region"]\n')
    spent = at_once(folder, "release", "survey.toml", "--out", "three", "--json")
    assert spent.returncode == 1
    assert "Short by" in json.loads(spent.stderr.splitlines()[-1])["given"]
    assert at_once(folder, "release", "survey.toml", "--out", "one").returncode == 2
    assert at_once(folder, "release", "nowhere.toml").returncode == 2
    assert at_once(folder, "plan").returncode == 2
    assert dpsurvey(folder, "fly").returncode == 2
    (folder / "survey.toml").write_text(SURVEY.replace("[survey]", '[survey]\ncolour = "red"'))
    unknown = at_once(folder, "check", "survey.toml")
    assert unknown.returncode == 2
    assert "survey.colour" in unknown.stderr


def test_init_writes_a_file_that_names_the_columns_and_overwrites_nothing(folder):
    made = at_once(folder, "init", "new.toml", "--table", "register.parquet")
    assert (made.returncode, made.stdout.strip()) == (0, "new.toml")
    assert "columns: id, region, income, status" in (folder / "new.toml").read_text()
    assert at_once(folder, "init", "new.toml").returncode == 2


def test_plan_aims_at_a_margin_of_error(folder):
    plain = json.loads(at_once(folder, "plan", "survey.toml", "--json").stdout)
    aimed = json.loads(at_once(folder, "plan", "survey.toml", "--aim", "income=4", "--json").stdout)
    assert max(row["moe"] for row in aimed["predictions"] if row["of"] == "income") <= 4.0
    assert aimed["weights"] != plain["weights"]
    assert at_once(folder, "plan", "survey.toml", "--aim", "income=0.0001").returncode == 1
    assert at_once(folder, "plan", "survey.toml", "--aim", "income").returncode == 2


def test_ctrl_c_after_the_reservation_keeps_the_charge_and_the_ledger_opens_again(folder):
    """The process is interrupted when the ledger first shows a reservation; slow rows leave time for it."""
    rows = 3_000_000
    wide = {"id": np.arange(rows), "region": np.repeat(["north", "south"], [rows // 2, rows // 2])}
    wide |= {"income": np.random.default_rng(2).random(rows), "status": np.full(rows, "idle")}
    pq.write_table(pa.table(wide), folder / "register.parquet")
    text = SURVEY.replace("size = 20000", f"size = {rows}").replace(
        "north = 12000, south = 8000", f"north = {rows // 2}, south = {rows // 2}"
    )
    (folder / "survey.toml").write_text(text)
    run = subprocess.Popen(
        [sys.executable, "-m", "dpsurvey.cli.app", "release", "survey.toml", "--out", "q1"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    states = []
    while time.monotonic() < deadline and run.poll() is None:
        if (folder / "lfs.ledger").exists():
            states = _states(folder / "lfs.ledger")
            if states:
                run.send_signal(signal.SIGINT)
                break
        time.sleep(0.002)
    _, talk = run.communicate(timeout=60)
    books = json.loads(dpsurvey(folder, "ledger", "survey.toml", "--json").stdout)["surveys"]
    assert books[0]["spent"] == pytest.approx(1.0)
    if run.returncode == 130:
        assert "stays spent" in talk
        assert {charge["state"] for charge in books[0]["charges"]} == {"reserved"}
        assert not (folder / "q1" / "release.json").exists()
    else:
        # The release was faster than the signal: then it is complete, which is the other allowed end.
        assert {charge["state"] for charge in books[0]["charges"]} == {"committed"}
    after = dpsurvey(folder, "release", "survey.toml", "--out", "q2")
    assert after.returncode == 1
    assert "already released" in after.stderr


def _states(path):
    import sqlite3

    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5) as connection:
            return list(connection.execute('select seq from entries where text like \'%"kind":"reserved"%\''))
    except sqlite3.OperationalError:
        return []


def test_the_demo_shows_sixty_estimates_beside_the_truth(tmp_path):
    shown = dpsurvey(tmp_path, "demo", "--out", "here", "--json")
    assert shown.returncode == 0, shown.stderr
    result = json.loads(shown.stdout)
    rows = result["beside_truth"]
    assert len(rows) == 60
    assert {"release.json", "release.csv", "report.html", "survey.toml", "register.parquet"} <= set(os.listdir(tmp_path / "here"))
    # False alarm below 1e-6: 60 intervals that cover 95 % each miss more than 14 times with probability 2e-7 if they
    # were independent; those of one statistic share a sample but no noise, so 20 leaves room for their dependence.
    missed = sum(not row["ci_low"] <= row["truth"] <= row["ci_high"] for row in rows)
    assert missed <= 20
    assert result["release"]["guarantee"]["epsilon"] == pytest.approx(1.0, abs=1e-9)
    assert result["release"]["guarantee"]["in_sample"]["epsilon"] == pytest.approx(math.log1p(math.expm1(1.0) / 0.02), rel=1e-9)
    plan = dpsurvey(tmp_path / "here", "plan", "survey.toml", "--json")
    assert len(json.loads(plan.stdout)["predictions"]) == 60
