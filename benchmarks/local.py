"""One million reports of a question with 100 categories: seconds and memory of the estimate, for every mechanism.

    python benchmarks/local.py [--reports 1000000] [--quick] [--json]

Rows: `estimate/KIND` is the time from an Arrow table of reports, as text, to estimates with intervals; the reference looks at
every byte of the same text once. `weighted/KIND` is the same with a weight for each report, through the variance of the design.
`file/KIND` starts from a Parquet file; the reference only reads it. `memory/KIND` is the peak of a process of its own that does
this, in MB; the reference is a process that imports the package and does nothing. `client/KIND` is one respondent's report from
`Question.randomize`, in microseconds; the reference asks the operating system for 16 random bytes. Mechanisms of two rounds
have half as many respondents. Aims are seconds and MB, not ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import dpsurvey.local as local

CATEGORIES = [f"category {number:03d}" for number in range(100)]
CHANCES = ["0.0055"] * 100
MECHANISMS: dict[str, dict[str, Any]] = {
    "generalised": {"kind": "generalised", "epsilon": 1.0},
    "unary": {"kind": "unary", "epsilon": 1.0},
    "hashing": {"kind": "hashing", "epsilon": 1.0},
    "subset": {"kind": "subset", "epsilon": 1.0},
    "round-two": {"kind": "round-two", "chances": CHANCES, "pi_s": "0.45"},
    "sampling-privacy": {"kind": "sampling-privacy", "chances": CHANCES, "pi_s": "0.45"},
}


def best(work: Callable[[], object], times: int = 3) -> float:
    """The least time of a few runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def randomize_often(question: local.Question, times: int) -> None:
    """The reports of one answer, one after the other."""
    for _ in range(times):
        question.randomize("category 007")


def asked(kind: str) -> local.Question:
    """A question with 100 categories."""
    return local.Question.ask("benchmark", CATEGORIES, MECHANISMS[kind])


def a_table(kind: str, reports: int) -> pa.Table:
    """Reports of answers that crowd at the first categories."""
    question = asked(kind)
    reports //= question.mechanism.rounds
    codes = (np.random.default_rng(7).exponential(15.0, reports).astype(np.int64)) % 100
    answers = pa.table(
        {"answer": pa.array(np.array(CATEGORIES, dtype=object)[codes]), "id": np.arange(reports), "w": np.full(reports, 2.5)}
    )
    respondent = "id" if question.mechanism.rounds > 1 else None
    return local.randomize_table(question, answers, answer="answer", respondent=respondent, keep=["w"])


def look_at_every_byte(table: pa.Table) -> int:
    """The least that any reader of the text has to do."""
    return sum(int(np.frombuffer(chunk.buffers()[2], np.uint8).sum(dtype=np.int64)) for chunk in table.column("report").chunks)


def peak(kind: str, path: Path | str) -> float:
    """The peak of a fresh process that estimates from a file, in MB; of one that does nothing without a path."""
    done = subprocess.run([sys.executable, __file__, "--measure", kind, str(path)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(kind: str, path: str) -> None:
    """In a process of its own: its peak, in MB."""
    if path:
        local.estimate(asked(kind), path)
    # The peak of this program alone; getrusage would remember that of the process it was started from.
    status = Path("/proc/self/status").read_text()
    print(int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024.0)


def rows(reports: int) -> list[dict[str, object]]:
    """All measurements."""
    found: list[dict[str, object]] = []
    seconds, megabytes, empty = reports / 1e6, 500.0, peak("unary", "")
    asking = 1e6 * best(lambda: [os.urandom(16) for _ in range(1000)]) / 1000

    def add(name: str, value: float, reference: float, aim: float | None) -> None:
        ok = None if aim is None else value <= aim
        found.append({"name": name, "value": value, "reference": reference, "ratio": value / reference, "aim": aim, "ok": ok})

    with tempfile.TemporaryDirectory() as folder:
        for kind in MECHANISMS:
            table, question = a_table(kind, reports), asked(kind)
            table = table.combine_chunks()
            least = best(partial(look_at_every_byte, table))
            two = question.mechanism.rounds > 1
            add(f"estimate/{kind}", best(partial(local.estimate, question, table)), least, seconds)
            if not two:
                add(f"weighted/{kind}", best(partial(local.estimate, question, table, weights="w"), 1), least, None)
            path = Path(folder) / f"{kind}.parquet"
            pq.write_table(table, path)
            reading = best(partial(pq.read_table, path))
            add(f"file/{kind}", best(partial(local.estimate, question, str(path))), reading, seconds)
            add(f"memory/{kind}", peak(kind, path), empty, megabytes)
            add(
                f"client/{kind}",
                1e6 * best(partial(randomize_often, question, 200)) / 200,
                asking,
                None,
            )
    return found


def main() -> None:
    """Print the table, or one JSON object for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="100,000 reports")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(*given.measure)
        return
    found = rows(100_000 if given.quick else given.reports)
    if given.json:
        for row in found:
            print(json.dumps(row))
        return
    table = Table("name", "value", "reference", "ratio", "aim", "ok")
    for row in found:
        aim = "-" if row["aim"] is None else f"{row['aim']:g}"
        ok = "-" if row["ok"] is None else "yes" if row["ok"] else "NO"
        table.add_row(str(row["name"]), *(f"{row[key]:.3g}" for key in ("value", "reference", "ratio")), aim, ok)
    Console().print(table)


if __name__ == "__main__":
    main()
