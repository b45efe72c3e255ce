"""Do the intervals cover? Every estimator on a fixed grid of designs, statistics, populations, sizes and epsilons.

    python benchmarks/coverage.py [--surveys 20000] [--workers 2] [--quick] [--json] [--markdown FILE] [--resume FILE]

Every survey is drawn, summed as the engine would, given discrete noise at the scale of its plan, and estimated by the
package's own code; private and classical intervals of the same samples face the truth of the clipped population. Samples
are drawn once for all statistics, populations and epsilons. The noise comes from numpy with a fixed seed: this is a
simulation, not a release, and what it prints says nothing about anybody.

A number is ok when its coverage is not significantly below 95 % (the upper end of its 99.9 % Clopper-Pearson interval
reaches 95 %), or when the classical interval fails too and the private one is not significantly (99.9 %, paired) more than
one point below it; conservative when significantly above 97.5 %; else it fails. Widths are medians over 2,000 surveys, averaged.
The epsilon is that of someone in the sample, and each number has all of it.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from coverage_designs import DESIGNS
from coverage_grid import EPSILONS, SIZES, Scenario, asked
from coverage_study import AIM, CHUNK, Chunk, Tally, row_of
from dpsurvey.text.layout import text_table

Job = tuple[str, int, int, int]


def jobs_of(surveys: int, sizes: Sequence[int]) -> list[Job]:
    """(design, n, first survey, surveys): a first chunk of every design and size, then a second one, ..."""
    starts = range(0, surveys, CHUNK)
    return [(design, n, start, min(CHUNK, surveys - start)) for start in starts for n in reversed(sizes) for design in DESIGNS]


def run_job(job: Job, noted: int) -> dict[str, dict[str, Any]]:
    """The tallies of one job by the names of their scenarios."""
    design, n, start, surveys = job
    chunk = Chunk(design, n, surveys, start // CHUNK, noted=noted if start == 0 else 0)
    return {scenario.name: asdict(tally) for scenario, tally in chunk.tallies()}


def simulate(jobs: list[Job], workers: int, noted: int, resume: Path | None, progress: Progress) -> dict[str, Tally]:
    """All jobs; the same numbers whatever the number of workers. What `resume` holds is not run again."""
    done: dict[str, dict[str, dict[str, Any]]] = {}
    if resume is not None and resume.exists():
        done = {line["job"]: line["tallies"] for line in map(json.loads, resume.read_text().splitlines())}
    left = [job for job in jobs if repr(job) not in done]
    task = progress.add_task("simulating surveys", total=sum(job[3] for job in jobs))
    progress.advance(task, sum(job[3] for job in jobs if repr(job) in done))
    # One thread of linear algebra per worker; the workers are the parallelism.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Memory is kept between surveys; to give it back and ask again costs as much as the sums.
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**32))
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**33))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run_job, job, noted): job for job in left}
        for each in as_completed(running):
            job = running[each]
            done[repr(job)] = each.result()
            progress.advance(task, job[3])
            if resume is not None:
                with resume.open("a") as file:
                    file.write(json.dumps({"job": repr(job), "tallies": done[repr(job)]}) + "\n")
    total: dict[str, Tally] = {}
    for job in jobs:
        for name, fields in done[repr(job)].items():
            total.setdefault(name, Tally())
            total[name] += Tally(**fields)
    return total


def rows_of(total: dict[str, Tally], sizes: Sequence[int], noted: int) -> list[dict[str, Any]]:
    """The table, in the order of the grid."""
    scenarios = [
        Scenario(design, n, epsilon, number)
        for design in DESIGNS
        for number in asked(design)
        for n in sizes
        for epsilon in EPSILONS
    ]
    return [row_of(scenario, total[scenario.name], noted) for scenario in scenarios if scenario.name in total]


def print_json(rows: list[dict[str, Any]]) -> None:
    """One object per line: the coverage of each number, and its width."""
    for row in rows:
        private, classical, ratio = row["private"], row["classical"], row["width ratio"]
        for name, value, reference, quotient, aim, ok in (
            ("coverage", private, classical, private / classical if classical else None, AIM, row["verdict"] != "fails"),
            ("width", ratio if math.isfinite(ratio) else None, 1.0, ratio if math.isfinite(ratio) else None, None, True),
        ):
            fields = {"value": value, "reference": reference, "ratio": quotient, "aim": aim, "ok": ok}
            print(json.dumps({"name": f"{name}/{row['name']}"} | fields))


def print_table(rows: list[dict[str, Any]]) -> None:
    """For people."""
    columns = ["design", "statistic", "population", "n", "epsilon", "private", "classical", "width ratio", "verdict", "warns"]
    shown = [
        {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
        | {"verdict": row["verdict"].upper() if row["verdict"] == "fails" else row["verdict"], "warns": warnings_of(row)}
        for row in rows
    ]
    print(text_table(shown, columns))
    print("\n" + summary(rows))


def warnings_of(row: dict[str, Any]) -> str:
    """Who warns: the plan, and the notes beside most releases."""
    return ", ".join([*(["plan"] if row["plan warns"] else []), *row["notes"]])


def summary(rows: list[dict[str, Any]]) -> str:
    """How many numbers have which verdict."""
    counts = {kind: sum(row["verdict"] == kind for row in rows) for kind in ("ok", "conservative", "fails")}
    surveys = max(row["surveys"] for row in rows)
    words = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"{len(rows)} kinds of estimates, of {surveys:,} surveys each: {words}."


def markdown(rows: list[dict[str, Any]]) -> str:
    """The whole table: one part for each design, one line for each number and size, one column for each epsilon."""
    lines = [summary(rows), *_failures([row for row in rows if row["verdict"] == "fails"])]
    for design in dict.fromkeys(row["design"] for row in rows):
        heads = " | ".join(f"ε {epsilon:g}" for epsilon in EPSILONS)
        head = f"| population | statistic | n | classical | {heads} |"
        lines += ["", f"### {design}", "", head, "|---|---|---|---|---|---|---|"]
        mine = [row for row in rows if row["design"] == design]
        for key in dict.fromkeys((row["population"], row["statistic"], row["n"]) for row in mine):
            cells = [row for row in mine if (row["population"], row["statistic"], row["n"]) == key]
            words = " | ".join(_cell(row) for row in cells)
            lines.append(f"| {key[0]} | {key[1]} | {key[2]:,} | {cells[0]['classical']:.3f} | {words} |")
    return "\n".join(lines) + "\n"


def _failures(rows: list[dict[str, Any]]) -> list[str]:
    """What fails, in a table of its own, with what a user is told."""
    if not rows:
        return []
    lines = [
        "",
        "| fails | n | ε | private, 99.9 % interval | classical | plan warns | release warns |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        private = f"{row['private']:.4f}, {row['low']:.4f} to {row['high']:.4f}"
        told = f"{'yes' if row['plan warns'] else 'no'} | {', '.join(row['notes']) or 'no'}"
        name = f"{row['design']}: {row['population']}, {row['statistic']}"
        lines.append(f"| {name} | {row['n']:,} | {row['epsilon']:g} | {private} | {row['classical']:.4f} | {told} |")
    return lines


def _cell(row: dict[str, Any]) -> str:
    width = f"{row['width ratio']:.2f}" if math.isfinite(row["width ratio"]) else "∞"
    mark = {"ok": "", "conservative": " c", "fails": " **fails**"}[row["verdict"]]
    return f"{row['private']:.3f} ({width}){mark}" + (" w" if warnings_of(row) else "")


def write_between(path: Path, text: str) -> None:
    """Put the table between its marks in a page, and leave the rest of the page as it is."""
    start, end = "<!-- table -->", "<!-- end of table -->"
    page = path.read_text(encoding="utf-8") if path.exists() else f"{start}\n{end}\n"
    before, rest = page.split(start)
    path.write_text(f"{before}{start}\n{text}{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surveys", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="100 surveys of n = 100 and 1,000, under a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--markdown", type=Path, help="write the table into this page")
    parser.add_argument("--resume", type=Path, help="keep finished parts in this file, and go on from it")
    arguments = parser.parse_args()
    surveys, sizes, noted = (100, SIZES[:2], 1) if arguments.quick else (arguments.surveys, SIZES, 5)
    with Progress(console=Console(stderr=True)) as progress:
        total = simulate(jobs_of(surveys, sizes), arguments.workers, noted, arguments.resume, progress)
    rows = rows_of(total, sizes, noted)
    if arguments.markdown:
        write_between(arguments.markdown, markdown(rows))
    if arguments.json:
        print_json(rows)
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
