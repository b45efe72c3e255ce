"""All items of the five papers: seconds of a quick and of a full run, with tables, pictures and verdicts.

    python benchmarks/papers.py [--quick] [--json]

Rows: `quick run` and `full run` are `dpsurvey papers run --all`, with and without `--quick`, in an empty folder; the reference
is the time of computing alone, without tables and pictures. `resumed run` asks for the same again when everything is there; its
reference is the run before. `--quick` leaves the full run out. Aims are seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial

from rich.console import Console
from rich.table import Table

import dpsurvey_papers as papers


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compute_all(quick: bool) -> None:
    """Every item, without writing anything."""
    for item in papers.items():
        item.compute(papers.Run(quick, item.seed))


def rows(with_full: bool) -> list[dict[str, object]]:
    """All measurements."""
    found: list[dict[str, object]] = []

    def add(name: str, value: float, reference: float, aim: float | None) -> None:
        ok = None if aim is None else value <= aim
        found.append({"name": name, "value": value, "reference": reference, "ratio": value / reference, "aim": aim, "ok": ok})

    for quick in (True, False) if with_full else (True,):
        alone = seconds(partial(compute_all, quick))
        with tempfile.TemporaryDirectory() as folder:
            first = seconds(partial(papers.run, papers.items(), folder, quick=quick))
            second = seconds(partial(papers.run, papers.items(), folder, quick=quick))
        add(f"{'quick' if quick else 'full'} run", first, alone, 60.0 if quick else 600.0)
        if quick:
            add("resumed run", second, first, 5.0)
    return found


def main() -> None:
    """Print the table, or one JSON object for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the quick run alone")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = rows(not given.quick)
    if given.json:
        for row in found:
            print(json.dumps(row))
        return
    table = Table("name", "seconds", "reference", "ratio", "aim", "ok")
    for row in found:
        table.add_row(*(f"{each:.3g}" if isinstance(each, float) else str(each) for each in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
