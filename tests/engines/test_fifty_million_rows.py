"""Fifty million rows: what a draw holds in memory, and what crosses from the engine to Python."""

import json
import subprocess
import sys

import duckdb
import pytest

MILLIONS = 50_000_000
# Runs in a process of its own, whose peak memory is its own; everything an engine hands to Python is counted.
PROGRAM = """
import json, sys
import ibis.backends.duckdb
import dpsurvey as ds

crossed = []
whole = ibis.backends.duckdb.Backend.to_pyarrow

def watched(self, *given, **more):
    found = whole(self, *given, **more)
    crossed.append(getattr(found, "num_rows", 1))
    return found

def never(self, *given, **more):
    raise AssertionError("rows went through another door")

ibis.backends.duckdb.Backend.to_pyarrow = watched
ibis.backends.duckdb.Backend.to_pyarrow_batches = never
ibis.backends.duckdb.Backend.execute = never
path, folder, design, keyed = sys.argv[1:]
regions = {label: 12_500_000 for label in ("a", "b", "c", "d")}
frame = ds.Frame(path, unit="id", size=50_000_000, categories={"region": regions}, public=["household"])
designs = {
    "stratified": ds.stratified("region", within=ds.srs(n=10_000)),
    "cluster": ds.cluster("household", ds.srs(n=800)),
}
setting = ds.Setting("frame", neighbours="replace-one")
survey = ds.Survey(frame, designs[design], setting, budget=ds.Budget(1.0), ledger=folder + "/books.ledger")
survey.draw(folder + "/sample.parquet", key=ds.Key(bytes(range(32))) if keyed == "keyed" else None)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"peak": peak / 1024, "crossed": sum(crossed)}))
"""


@pytest.fixture(scope="module")
def fifty_million(tmp_path_factory):
    path = tmp_path_factory.mktemp("fifty") / "register.parquet"
    duckdb.execute(
        f"""copy (select range as id, ['a', 'b', 'c', 'd'][1 + range % 4] as region, range // 50 as household
            from range({MILLIONS})) to '{path}'"""
    )
    yield path
    path.unlink()


@pytest.mark.slow_cases("stratified-secret", "stratified-keyed")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from Linux's /proc")
@pytest.mark.parametrize(
    ("design", "keyed"),
    [
        ("stratified", "secret"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("stratified", "keyed"), ("cluster", "secret"))),
    ],
)
def test_a_draw_from_fifty_million_rows_fits_in_300_megabytes_and_hands_python_no_row(fifty_million, tmp_path, design, keyed):
    arguments = [sys.executable, "-c", PROGRAM, str(fifty_million), str(tmp_path), design, keyed]
    found = subprocess.run(arguments, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout.splitlines()[-1])
    assert result["peak"] < 300.0
    # The sample goes from the engine to its file; Python sees counts and answers to checks, a handful of rows.
    assert result["crossed"] < 40
    drawn = duckdb.execute(f"select count(*), count(distinct unit), sum(weight) from '{tmp_path / 'sample.parquet'}'").fetchall()[
        0
    ]
    assert drawn == (40_000, 40_000, pytest.approx(MILLIONS))
