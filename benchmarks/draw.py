"""Draws of 1 % from ten million rows against plain numpy and against svy, in one run.

    python benchmarks/draw.py [--rows 10000000] [--quick] [--json] [--hundred-million] [--spark]

Each draw runs in a process of its own, after a small one that warms it up; CPU seconds of the draw alone, and the peak
memory of the process with the frame in it. Rows: `draw/srs/numpy` compares with plain numpy on the same columns in
memory, `draw/srs/svy` with svy 0.35 (which has no Bernoulli or Poisson draw), `draw/srs/numpy-parquet` with numpy that
reads the columns it needs from the file, `draw/srs/memory` is the peak memory in MB; and so on for `stratified` (50
strata), `bernoulli`, `poisson` (chances by size), `pps-systematic` and `cluster`. `draw/keyed/...` hash every unit, and
are compared with a plain DuckDB scan that hashes every unit. `draw/.../spark` are wall seconds of keyed draws by Spark on two
cores, over DuckDB's for the same units.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table

TASKS = ("srs", "stratified", "bernoulli", "poisson", "pps-systematic", "cluster")
RATE, STRATA, CLUSTER = 0.01, 50, 100
COLUMNS = {
    "srs": [],
    "stratified": ["stratum"],
    "bernoulli": [],
    "poisson": ["size"],
    "pps-systematic": ["size"],
    "cluster": ["cluster"],
}


def make_frame(path: str, rows: int) -> None:
    """A frame whose sizes vary 20-fold, so that no unit is certain."""
    duckdb.execute(
        f"""copy (select range as id, (hash(range) % {STRATA})::bigint as stratum, 1 + (hash(range + 7) % 1900) / 100.0 as size,
            (hash(range + 11) % {rows // CLUSTER})::bigint as cluster, hash(range + 13) / 1e18 as answer
            from range({rows})) to '{path}' (row_group_size 122880)"""
    )


def recipe_of(task: str, rows: int, counts: list[int]) -> Any:
    """Our recipe of a task."""
    from dpsurvey.design.recipe import Clusters, Each, Simple, Sized, Strata

    take = int(RATE * rows)
    inside = {str(label): Simple(max(1, round(RATE * count)), count) for label, count in enumerate(counts)}
    return {
        "srs": Simple(take, rows),
        "stratified": Strata("stratum", inside),
        "bernoulli": Each(RATE),
        "poisson": Sized("size", take, "poisson"),
        "pps-systematic": Sized("size", take, "systematic", "as listed"),
        "cluster": Clusters("cluster", Simple(take // CLUSTER)),
    }[task]


def ours(task: str, source: Any, rows: int, counts: list[int], key: bool = False) -> int:
    """The draw by the package."""
    from dpsurvey import Key
    from dpsurvey.engine import Engine, Expectations

    engine = Engine(source)
    engine.draw(recipe_of(task, rows, counts), Expectations(unit="id"), Key(bytes(32)) if key else None)
    drawn: Any = engine._drawn
    return drawn.num_rows if hasattr(drawn, "num_rows") else int(drawn.count().to_pyarrow().as_py())


def numpy_draw(task: str, columns: dict[str, Any], rows: int, counts: list[int]) -> int:
    """The same draw in plain numpy, with its own fast generator: ids and weights of the drawn units."""
    rng, take = np.random.default_rng(), int(RATE * rows)
    ids = columns["id"]
    if task == "srs":
        chosen = rng.choice(rows, take, replace=False, shuffle=False)
        weights = np.full(take, rows / take)
    elif task == "bernoulli":
        chosen = np.flatnonzero(rng.random(rows) < RATE)
        weights = np.full(len(chosen), 1 / RATE)
    elif task == "stratified":
        numbers = rng.random(rows)
        small = np.flatnonzero(numbers < 1.3 * RATE)
        strata = columns["stratum"][small]
        order = np.lexsort((numbers[small], strata))
        first = np.searchsorted(strata[order], np.arange(STRATA))
        rank = np.arange(len(small)) - first[strata[order]]
        takes = np.maximum(1, np.round(RATE * np.array(counts))).astype(int)
        chosen = small[order[rank < takes[strata[order]]]]
        weights = (np.array(counts) / takes)[columns["stratum"][chosen]]
    elif task == "poisson":
        chances = columns["size"] * (take / columns["size"].sum())
        chosen = np.flatnonzero(rng.random(rows) < chances)
        weights = 1 / chances[chosen]
    elif task == "pps-systematic":
        reached = np.cumsum(columns["size"])
        chosen = np.searchsorted(reached, (rng.random() + np.arange(take)) * (reached[-1] / take), side="right")
        weights = reached[-1] / take / columns["size"][chosen]
    else:
        clusters = rows // CLUSTER
        drawn = np.zeros(clusters, dtype=bool)
        drawn[rng.choice(clusters, take // CLUSTER, replace=False)] = True
        chosen = np.flatnonzero(drawn[columns["cluster"]])
        weights = np.full(len(chosen), clusters / (take // CLUSTER))
    return len(ids[chosen]) if len(weights) else 0


def svy_draw(task: str, data: Any, rows: int, counts: list[int]) -> int:
    """The same draw by svy."""
    import svy

    take = int(RATE * rows)
    if task == "srs":
        return len(svy.Sample(data).sampling.srs(take).data)
    if task == "stratified":
        takes = {label: max(1, round(RATE * count)) for label, count in enumerate(counts)}
        return len(svy.Sample(data, svy.Design(stratum="stratum")).sampling.srs(takes).data)
    if task == "pps-systematic":
        return len(svy.Sample(data, svy.Design(mos="size")).sampling.pps_sys(take).data)
    return len(svy.Sample(data, svy.Design(psu="cluster")).sampling.srs(take // CLUSTER).data)


def sha_scan(path: str) -> int:
    """A plain pass of DuckDB that hashes every unit."""
    return int(duckdb.execute(f"select count(*) from '{path}' where sha256('0123456789abcdef' || id) < '028f'").fetchall()[0][0])


def work(who: str, task: str, path: str, small: str, counts: dict[str, list[int]], rows: dict[str, int]) -> Callable[[str], int]:
    """What is measured, as a function of the file; what has to lie in memory is read before."""
    held: dict[str, Any] = {}
    for name, file in (("small", small), ("large", path)):
        needed = ["id", *COLUMNS[task]] if task in COLUMNS else ["id"]
        if who in ("ours", "numpy"):
            held[name] = pq.read_table(file, columns=needed).combine_chunks()
        if who == "numpy":
            held[name] = {column: held[name][column].to_numpy() for column in needed}
        if who == "svy":
            import polars

            held[name] = polars.read_parquet(file, columns=needed)

    def run(name: str) -> int:
        file, count, size = (small if name == "small" else path), counts[name], rows[name]
        if who == "ours":
            return ours(task, held[name], size, count)
        if who == "ours-parquet":
            return ours(task, file, size, count)
        if who == "keyed":
            return ours(task, file, size, count, key=True)
        if who == "sha":
            return sha_scan(file)
        if who == "svy":
            return svy_draw(task, held[name], size, count)
        if who == "numpy-parquet":
            table = pq.read_table(file, columns=["id", *COLUMNS[task]])
            return numpy_draw(task, {column: table[column].to_numpy() for column in table.column_names}, size, count)
        return numpy_draw(task, held[name], size, count)

    return run


def child(who: str, task: str, path: str, small: str, times: int) -> None:
    """Measure one draw and print it."""
    frames = {"small": small, "large": path}
    rows = {name: pq.ParquetFile(file).metadata.num_rows for name, file in frames.items()}
    query = "select stratum, count(*) from '{}' group by 1 order by 1"
    counts = {name: [count for _, count in duckdb.execute(query.format(file)).fetchall()] for name, file in frames.items()}
    run = work(who, task, path, small, counts, rows)
    run("small")
    best, drawn, wall = float("inf"), 0, float("inf")
    for _ in range(times):
        before, clock = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        drawn = run("large")
        after = resource.getrusage(resource.RUSAGE_SELF)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        wall = min(wall, time.perf_counter() - clock)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": best, "wall": wall, "peak": peak, "drawn": drawn}))


def measure(who: str, task: str, path: str, small: str, times: int) -> dict[str, float]:
    """One draw in a process of its own."""
    arguments = [sys.executable, __file__, "--child", who, task, path, small, str(times)]
    found = subprocess.run(arguments, capture_output=True, text=True, env=os.environ | {"POLARS_SKIP_CPU_CHECK": "1"})
    if found.returncode:
        raise RuntimeError(found.stderr[-2000:])
    return dict(json.loads(found.stdout.splitlines()[-1]))


def row(name: str, value: float, reference: float | None, aim: float, *, digits: int = 4) -> dict[str, Any]:
    """One line of the result; without a reference the value itself is held against the aim."""
    ratio = value / reference if reference else None
    held = ratio if ratio is not None else value
    return {
        "name": name,
        "value": round(value, digits),
        "reference": round(reference, digits) if reference else None,
        "ratio": round(ratio, 3) if ratio is not None else None,
        "aim": aim,
        "ok": held <= aim,
    }


def run(rows: int, times: int, folder: Path, hundred_million: bool) -> list[dict[str, Any]]:
    """Measure and compare."""
    path, small = str(folder / "frame.parquet"), str(folder / "small.parquet")
    make_frame(path, rows)
    make_frame(small, 100_000)
    found = []
    for task in track(TASKS, description="drawing", console=Console(stderr=True)):
        # Milliseconds: the first runs still fetch memory from the system, for us and for numpy alike.
        mine, plain = measure("ours", task, path, small, 3 * times), measure("numpy", task, path, small, 3 * times)
        found.append(row(f"draw/{task}/numpy", mine["cpu"], plain["cpu"], 2.0))
        if task not in ("bernoulli", "poisson"):
            found.append(row(f"draw/{task}/svy", mine["cpu"], measure("svy", task, path, small, max(1, times // 2))["cpu"], 0.2))
        file, read = measure("ours-parquet", task, path, small, times), measure("numpy-parquet", task, path, small, times)
        found.append(row(f"draw/{task}/numpy-parquet", file["cpu"], read["cpu"], 2.0))
        found.append(row(f"draw/{task}/memory", max(mine["peak"], file["peak"]), None, 900.0, digits=0))
        found.append(row(f"draw/{task}/memory-numpy", mine["peak"], plain["peak"], 2.0, digits=0))
    scan = measure("sha", "srs", path, small, times)
    for task in TASKS:
        if task not in ("pps-systematic", "cluster"):
            found.append(row(f"draw/keyed/{task}", measure("keyed", task, path, small, times)["cpu"], scan["cpu"], 3.0))
    if hundred_million:
        large = str(folder / "large.parquet")
        make_frame(large, 100_000_000)
        for task in TASKS:
            found.append(
                row(
                    f"draw/{task}/100-million-memory",
                    measure("ours-parquet", task, large, small, 1)["peak"],
                    None,
                    4000.0,
                    digits=0,
                )
            )
    return found


def spark_rows(rows: int, folder: Path) -> list[dict[str, Any]]:
    """Keyed draws by Spark on two cores of this machine, against DuckDB's of the same units."""
    program = """
import json, os, resource, sys, time
os.environ["SPARK_MASTER"] = "local[2]"
sys.path.insert(0, sys.argv[1])
from dpsurvey import Key
from dpsurvey.engine import Engine, Expectations
import draw
task, path, rows, engine = sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
opened = Engine(path, engine)
start = time.perf_counter()
opened.draw(draw.recipe_of(task, rows, [rows // draw.STRATA] * draw.STRATA), Expectations(unit="id"), Key(bytes(32)))
drawn = opened._sample.aggregate([opened._sample["id"].sum().name("sum"), opened._sample.count().name("count")]).to_pyarrow()
print(json.dumps({"seconds": time.perf_counter() - start, "drawn": str(drawn.to_pylist())}))
"""
    path, found = str(folder / "frame.parquet"), []
    for task in ("srs", "bernoulli", "cluster"):
        runs = {}
        for engine in ("spark", "duckdb"):
            arguments = [sys.executable, "-c", program, str(Path(__file__).parent), task, path, str(rows), engine]
            done = subprocess.run(arguments, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr[-2000:])
            runs[engine] = json.loads(done.stdout.splitlines()[-1])
        if runs["spark"]["drawn"] != runs["duckdb"]["drawn"]:
            raise RuntimeError("Spark and DuckDB drew other units")
        found.append(row(f"draw/{task}/spark", runs["spark"]["seconds"], runs["duckdb"]["seconds"], 60.0))
    return found


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="one million rows, under a minute")
    parser.add_argument("--json", action="store_true", help="one object per line")
    parser.add_argument("--hundred-million", action="store_true", help="also the memory of draws from 100 million rows")
    parser.add_argument("--spark", action="store_true", help="also keyed draws by Spark with local[2], wall seconds")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        who, task, path, small, times = given.child
        child(who, task, path, small, int(times))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = 1_000_000 if given.quick else given.rows
        found = run(rows, 2 if given.quick else 3, Path(folder), given.hundred_million)
        found += spark_rows(rows, Path(folder)) if given.spark else []
    if given.json:
        for each in found:
            print(json.dumps(each))
        return
    table = Table("name", "value", "reference", "ratio", "aim", "ok")
    for each in found:
        table.add_row(*(str(each[name]) for name in ("name", "value", "reference", "ratio", "aim", "ok")))
    Console().print(table)


if __name__ == "__main__":
    main()
