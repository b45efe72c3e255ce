"""Spark behind Spark Connect, and clusters that do not answer or have nobody to work: real servers, on the loopback."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.engines import servers

SIZE = 600

# Draws by one key on an engine, and what a release from one of them says; printed as JSON.
DRAW = """
import json, sys, warnings
warnings.simplefilter("ignore")
import pandas as pd
import dpsurvey as ds

engine, key = sys.argv[1], ds.Key(bytes(range(32)))
regions = {"north": 300, "south": 200, "island": 100}
strata = ds.stratified("region", within=ds.srs(n=20))
designs = {
    "srs": ds.srs(n=60),
    "strata": strata,
    "poisson by size": ds.pps("size", n=60, method="poisson"),
    "pareto": ds.pps("size", n=60, method="pareto"),
    "pareto in strata": ds.stratified("region", within=ds.pps("size", n=20, method="pareto")),
    "sampford": ds.pps("size", n=20, method="sampford"),
    "clusters": ds.cluster("psu", ds.srs(n=6), clusters=30),
}
found = {}
for name, design in designs.items():
    frame = ds.Frame("people.parquet", "id", 600, {"region": regions}, public=["psu", "size"])
    weights = None if design.resolve(frame).parts() else (1.0, 100.0)
    ledger, budget = f"{engine} {name}.ledger", ds.Budget(1.0)
    survey = ds.Survey(frame, design, budget=budget, ledger=ledger, engine=engine, weight_range=weights)
    survey.draw(f"{engine} {name}.parquet", key=key)
    found[name] = sorted(pd.read_parquet(f"{engine} {name}.parquet")["unit"])
    if name == "pareto":
        found["engine"] = survey.plan(ds.mean("income", bounds=(0, 100))).release().document["sample"]["engine"]
print(json.dumps(found))
"""

OPEN = """
import dpsurvey as ds
from dpsurvey.errors import SurveyError

frame = ds.Frame("people.parquet", "id", 600)
try:
    ds.Survey(frame, ds.srs(n=60), budget=ds.Budget(1.0), ledger="books.ledger", engine="spark").check()
except SurveyError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def folder(tmp_path):
    rng, place = np.random.default_rng(2), np.arange(SIZE)
    rows = {
        "id": [f"u{number:03d}" for number in rng.permutation(SIZE)],
        "region": np.repeat(["north", "south", "island"], [300, 200, 100]),
        "psu": [f"c{number // 20:02d}" for number in place],
        "size": 1.0 + rng.integers(0, 4, SIZE),
        "income": rng.uniform(0, 100, SIZE),
    }
    pd.DataFrame(rows).to_parquet(tmp_path / "people.parquet")
    return tmp_path


def run(code, folder, *arguments, **environment):
    own = {name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "SPARK_MASTER")}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=own | {"SPARK_LOCAL_IP": "127.0.0.1"} | environment,
        capture_output=True,
        text=True,
        timeout=500,
    )


def test_the_extra_has_what_spark_connect_needs():
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(each.startswith("pyspark[connect]") for each in extras["spark"])
    assert any(each.startswith("pyspark[connect]") for each in extras["test"])


def test_without_the_packages_of_spark_connect_the_missing_one_is_named(folder):
    if servers.no_spark() == "pyspark is not installed":
        pytest.skip("pyspark is not installed")
    done = run(f"import sys; sys.modules['grpc'] = None\n{OPEN}", folder, SPARK_REMOTE="sc://127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("UsageError this needs the spark extra")
    assert "Spark Connect needs packages of its own: grpcio" in done.stdout
    assert "pip install 'dpsurvey[spark]'" in done.stdout


@pytest.mark.slow
def test_every_kind_of_draw_behind_spark_connect_is_the_one_of_duckdb(folder):
    if missing := servers.no_connect():
        pytest.skip(missing)
    here = run(DRAW, folder, "duckdb")
    with servers.connect_server(folder) as address:
        there = run(DRAW, folder, "spark", SPARK_REMOTE=address)
    assert (here.returncode, there.returncode) == (0, 0), here.stderr + there.stderr
    own, other = json.loads(here.stdout), json.loads(there.stdout)
    assert own.pop("engine").startswith("duckdb")
    assert other.pop("engine").startswith("pyspark")
    assert {name: len(units) for name, units in own.items() if "poisson" not in name and name != "clusters"} == {
        "srs": 60,
        "strata": 60,
        "pareto": 60,
        "pareto in strata": 60,
        "sampford": 20,
    }
    assert other == own


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["connect", "master"])
def test_a_server_that_does_not_answer_is_said_and_given_up_in_time(folder, kind):
    if missing := servers.no_connect() if kind == "connect" else servers.no_spark():
        pytest.skip(missing)
    port = servers.free_port()
    connect, master = {"SPARK_REMOTE": f"sc://127.0.0.1:{port}/;token=s3cret"}, {"SPARK_MASTER": f"spark://127.0.0.1:{port}"}
    place = connect if kind == "connect" else master
    done = run(OPEN, folder, DPSURVEY_SPARK_WAIT="15", **place)
    assert done.returncode == 0, done.stderr
    assert f"waiting for the Spark server at {'sc' if kind == 'connect' else 'spark'}://127.0.0.1:{port}" in done.stderr
    assert done.stdout.startswith("NotFound waited 15 seconds for the Spark server at")
    assert "check the address" in done.stdout
    assert "s3cret" not in done.stdout


@pytest.mark.slow
def test_a_cluster_without_workers_is_said_and_given_up_in_time(folder):
    if missing := servers.no_spark():
        pytest.skip(missing)
    with servers.master_without_workers(folder) as address:
        done = run(OPEN, folder, SPARK_MASTER=address, DPSURVEY_SPARK_WAIT="45")
    assert done.returncode == 0, done.stderr
    assert f"waiting for workers of the Spark cluster at {address}" in done.stderr
    assert done.stdout.startswith(f"NotFound waited 45 seconds for workers of the Spark cluster at {address}")
    assert "DPSURVEY_SPARK_WAIT" in done.stdout
    assert not (folder / "books.ledger").exists()
