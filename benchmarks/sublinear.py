"""Sampling in time proportional to the sample, and asking one sample many times.

    python benchmarks/sublinear.py [--quick] [--json] [--plot docs/images/sublinear.svg]

`sublinear/arrow`, `/duckdb`, `/parquet`: seconds of a Poisson draw of 200 units from a frame 100 times as large, over the
seconds from the small frame; a pass over all rows would cost 100 times as much, and the aim is half of that.
`queries/K/...`: K proportions from one sample of 1 %, against the same K proportions from the whole frame, under one
guarantee (epsilon 1 for anyone on the frame): seconds of the release, and the predicted standard error of one of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.progress import track
from rich.table import Table

import dpsurvey as ds
from dpsurvey.design.recipe import Each
from dpsurvey.engine import Engine, Expectations

UNITS = 200
AIMS = {"arrow": 50.0, "duckdb": 50.0, "parquet": 50.0}
ANSWERS, QUESTIONS = 200, 5


def make_frames(folder: Path, rows: int) -> dict[str, str]:
    """One frame as an Arrow file, a DuckDB file and a Parquet file."""
    paths = {kind: str(folder / f"frame{rows}.{kind}") for kind in AIMS}
    query = f"select range as id, (hash(range) % 1000) / 8.0 as answer from range({rows})"
    duckdb.execute(f"copy ({query}) to '{paths['parquet']}' (row_group_size 122880)")
    with duckdb.connect(paths["duckdb"]) as connection:
        connection.execute(f"create table frame as {query}")
    batches = duckdb.sql(query).to_arrow_reader(1_000_000)
    with pa.OSFile(paths["arrow"], "wb") as file, pa.ipc.new_file(file, batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return paths


def draw_seconds(path: str, rows: int, times: int) -> float:
    """The least seconds of a draw of a fixed expected number of units, opening the file included."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        Engine(path).draw(Each(UNITS / rows), Expectations(unit="id"))
        best = min(best, time.perf_counter() - start)
    return best


def curve(folder: Path, sizes: list[int], times: int) -> list[dict[str, Any]]:
    """Seconds by kind of file and size of the frame."""
    found = []
    for rows in track(sizes, description="frames", console=Console(stderr=True)):
        for kind, path in make_frames(folder, rows).items():
            draw_seconds(path, rows, 1)
            found.append({"kind": kind, "rows": rows, "seconds": draw_seconds(path, rows, times)})
    return found


def ask(folder: Path, path: str, rows: int, asked: int, rate: float) -> tuple[float, float, float]:
    """Ask `asked` proportions of a sample at a rate: seconds, standard error, epsilon on the sample."""
    questions = {f"q{question}": [f"a{answer}" for answer in range(ANSWERS)] for question in range(QUESTIONS)}
    frame = ds.Frame(path, unit="id", size=rows, categories=questions)
    setting = ds.Setting("frame", neighbours="add-remove")
    name = f"{asked} at {rate}"
    survey = ds.Survey(frame, ds.poisson(rate), setting, budget=ds.Budget(1.0), ledger=folder / "books.ledger", name=name)
    pairs = [(question, answer) for answer in range(ANSWERS) for question in range(QUESTIONS)]
    plan = survey.plan(*(ds.proportion(f"q{question}", f"a{answer}") for question, answer in pairs[:asked]))
    survey.check(plan)
    start = time.perf_counter()
    release = plan.release()
    seconds = time.perf_counter() - start
    return seconds, float(release.estimates[0]["se"]), float(survey.terms.in_sample_budget.epsilon(0.0))


def queries(folder: Path, rows: int, counts: list[int]) -> list[dict[str, Any]]:
    """Sample once and ask many times, against asking the whole frame."""
    path = str(folder / "answers.parquet")
    columns = ", ".join(f"'a' || (hash(range * {2 * q + 1} + {q}) % {ANSWERS}) as q{q}" for q in range(QUESTIONS))
    duckdb.execute(f"copy (select range as id, {columns} from range({rows})) to '{path}'")
    ask(folder, path, rows, 3, 0.5)
    found = []
    for asked in track(counts, description="queries", console=Console(stderr=True)):
        sample, whole = ask(folder, path, rows, asked, 0.01), ask(folder, path, rows, asked, 1.0)
        found.append({"asked": asked, "sample": sample, "whole": whole})
    return found


def lines(times: list[dict[str, Any]], asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The measurements as rows with a reference and an aim."""

    def row(name: str, value: float, reference: float, aim: float) -> dict[str, Any]:
        ratio = value / reference
        return {"name": name, "value": value, "reference": reference, "ratio": ratio, "aim": aim, "ok": ratio <= aim}

    smallest, largest = min(each["rows"] for each in times), max(each["rows"] for each in times)
    at = {(each["kind"], each["rows"]): each["seconds"] for each in times}
    found = [row(f"sublinear/{kind}", at[kind, largest], at[kind, smallest], aim) for kind, aim in AIMS.items()]
    for each in asked:
        found.append(
            row(f"queries/{each['asked']}/seconds", each["sample"][0], each["whole"][0], 1.0 if each["asked"] > 10 else 3.0)
        )
        # The error of a sample is the price of its speed; it is shown, and no aim can guarantee it to be small.
        found.append(row(f"queries/{each['asked']}/error", each["sample"][1], each["whole"][1], float("inf")))
        found.append(row(f"queries/{each['asked']}/epsilon on the sample", each["sample"][2], each["whole"][2], float("inf")))
    return [{**each, "aim": None if each["aim"] == float("inf") else each["aim"]} for each in found]


def picture(times: list[dict[str, Any]], path: str) -> None:
    """Seconds against the size of the frame, both on logarithmic scales."""
    import altair

    chart = (
        altair.Chart(altair.Data(values=times))
        .mark_line(point=True)
        .encode(
            x=altair.X("rows:Q", scale=altair.Scale(type="log"), title="rows of the frame"),
            y=altair.Y("seconds:Q", scale=altair.Scale(type="log"), title=f"seconds for about {UNITS} units"),
            color=altair.Color("kind:N", title="file"),
        )
        .properties(width=480, height=280, title="A draw that reads only what it draws")
    )
    chart.save(path)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="frames up to 10 million rows, under a minute")
    parser.add_argument("--json", action="store_true", help="one object per line")
    parser.add_argument("--plot", help="write the curve as a picture")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sizes = [100_000, 1_000_000, 10_000_000] if given.quick else [1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000]
        times = curve(Path(folder), sizes, 5)
        asked = queries(
            Path(folder), 1_000_000 if given.quick else 10_000_000, [1, 10, 100] if given.quick else [1, 10, 100, 1000]
        )
    if given.plot:
        picture(times, given.plot)
    found = lines(times, asked)
    if given.json:
        for each in found:
            print(json.dumps(each))
        return
    table = Table("name", "value", "reference", "ratio", "aim", "ok")
    for each in found:
        figures = [each[name] for name in ("value", "reference", "ratio", "aim")]
        table.add_row(each["name"], *("-" if figure is None else f"{figure:.4g}" for figure in figures), str(each["ok"]))
    Console().print(table)


if __name__ == "__main__":
    main()
