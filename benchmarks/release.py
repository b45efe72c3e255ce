"""A release of the demo against plain DuckDB doing the same sums, as a ratio, in one run.

    python benchmarks/release.py [--people 10000000] [--quick] [--json]

Rows: `release/frame-sums` compares with the same sums over all rows of the frame, without a sample, noise or books;
`release/sample-sums` with the same sums over a throw-away sample that DuckDB's own random() picks;
`release/first` is the first release from a file, which also checks every row and looks for duplicate units.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from dpsurvey.statistic import Query
from dpsurvey.survey.demo import demo_statistics, demo_survey, make_register
from dpsurvey.survey.plan import Plan

AIM = 1.5


def plain_sql(query: Query, table: str) -> str:
    """The sums of a query as plain SQL over a table."""
    keys = ", ".join(query.by)
    if query.bounds is None:
        yes = f"sum(({query.column} = {query.value})::int), count(*)" if query.column else "count(*)"
        parts = yes
    else:
        low, high = query.bounds
        y = f"((greatest(least({query.column}, {high}), {low}) - {low}) / {high - low})"
        parts = f"sum({y} * {y}), sum(2 * {y} * (1 - {y})), sum((1 - {y}) * (1 - {y}))"
    return f"select {keys + ', ' if keys else ''}{parts} from {table}" + (f" group by {keys}" if keys else "")


def best(work: Callable[[], object], times: int) -> float:
    """The least wall time of several runs."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def run(people: int, times: int) -> list[dict[str, object]]:
    """Measure and compare."""
    with tempfile.TemporaryDirectory() as folder:
        small = make_register(Path(folder) / "small.parquet", 20_000)
        demo_survey(small, Path(folder) / "small.ledger", 20_000).plan(*demo_statistics()).release()  # loads every module
        register = make_register(Path(folder) / "register.parquet", people)
        ledger = Path(folder) / "first.ledger"
        start = time.perf_counter()
        demo_survey(register, ledger, people).plan(*demo_statistics()).release()
        first = time.perf_counter() - start
        fresh = iter(range(1_000))

        def release() -> None:
            # A new survey in the same ledger: the file is known to be checked, everything else is done anew.
            survey = demo_survey(register, ledger, people, name=f"run {next(fresh)}")
            survey.plan(*demo_statistics()).release()

        plan: Plan = demo_survey(register, ledger, people).plan(*demo_statistics())
        queries = [item.query for item in plan.items]
        columns = ", ".join(dict.fromkeys(column for query in queries for column in query.columns))

        def over_frame() -> None:
            with duckdb.connect() as connection:
                for query in queries:
                    connection.execute(plain_sql(query, f"'{register}'")).fetchall()

        def over_sample() -> None:
            with duckdb.connect() as connection:
                connection.execute(f"create temp table drawn as select {columns} from '{register}' where random() < 0.02")
                for query in queries:
                    connection.execute(plain_sql(query, "drawn")).fetchall()

        ours, frame_sums, sample_sums = best(release, times), best(over_frame, times), best(over_sample, times)
    figures = (
        ("release/frame-sums", ours, frame_sums, AIM),
        ("release/sample-sums", ours, sample_sums, None),
        ("release/first", first, frame_sums, None),
    )
    return [
        {
            "name": name,
            "value": value,
            "reference": reference,
            "ratio": value / reference,
            "aim": aim,
            "ok": aim is None or value / reference <= aim,
        }
        for name, value, reference, aim in figures
    ]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="one million rows, under a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    arguments = parser.parse_args()
    rows = run(1_000_000 if arguments.quick else arguments.people, 3 if arguments.quick else 5)
    if arguments.json:
        for row in rows:
            print(json.dumps(row))
        return
    table = Table("name", "seconds", "reference", "ratio", "aim", "ok")
    for row in rows:
        cells = (
            f"{row[key]:.3f}" if isinstance(row[key], float) and key != "aim" else str(row[key] or "-")
            for key in ("name", "value", "reference", "ratio", "aim", "ok")
        )
        table.add_row(*cells)
    Console().print(table)


if __name__ == "__main__":
    main()
