"""Do the intervals of survey files cover? Populations and designs as offices have them, on which no rule was chosen.

    python benchmarks/coverage_files.py [--surveys 2000] [--epsilons 0.25 1 4] [--only clusters final] [--quick] [--json]

Every survey is drawn by coverage_files_drawn.py and released by the package, with engine, books and noise; its interval and
the classical one of the same sample face the truth. That takes a tenth of a second each; `--resume FILE` keeps what is done.

A number is ok when its coverage is not significantly (99.9 %) below 94 %, or not more than one point below that of the
classical interval (paired, 99.9 %). Widths are medians, over those of the classical intervals. Notes are those of most releases.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from scipy.special import ndtri
from scipy.stats import beta

import dpsurvey as ds
from coverage_files_drawn import POPULATIONS, Sample, Scenario
from dpsurvey.errors import SurveyError
from dpsurvey.text.layout import text_table
from files_known import KEYWORDS

AIM, POINT, CONFIDENCE, CHUNK = 0.94, 0.01, 0.999, 50
Job = tuple[str, float, int, int]
# The ends of an interval, and the notes beside it.
Interval = tuple[float, float, list[str]]
Route = Callable[[Scenario, Sample, float, Path], Interval]


@dataclass
class Tally:
    """Surveys whose intervals cover, private and classical, those of which only one does, widths, notes, refusals."""

    surveys: int = 0
    covered: int = 0
    classical: int = 0
    only_private: int = 0
    only_classical: int = 0
    widths: list[float] = field(default_factory=list)
    classical_widths: list[float] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def __iadd__(self, other: Tally) -> Tally:
        for name in ("surveys", "covered", "classical", "only_private", "only_classical", "widths", "classical_widths"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.notes = dict(Counter(self.notes) + Counter(other.notes))
        self.refused = dict(Counter(self.refused) + Counter(other.refused))
        return self

    def note(self, truth: float, private: Interval, classical: tuple[float, float]) -> None:
        """One more survey."""
        low, high, notes = private
        mine, theirs = low <= truth <= high, classical[0] <= truth <= classical[1]
        self.surveys += 1
        self.covered += mine
        self.classical += theirs
        self.only_private += mine and not theirs
        self.only_classical += theirs and not mine
        self.widths.append(high - low)
        self.classical_widths.append(classical[1] - classical[0])
        self.notes = dict(Counter(self.notes) + Counter(set(notes)))


@cache
def scenario(name: str) -> Scenario:
    """A population by its name, made once in a process."""
    return POPULATIONS[name]()


def released(known: Scenario, sample: Sample, epsilon: float, ledger: Path) -> Interval:
    """One release of the sample, as an office would make it."""
    given = dict(known.declared) | {"weights_are": "design"}
    if known.more and "calibrated_on" in KEYWORDS:
        given |= {key: value for key, value in known.more.items() if key in KEYWORDS}
        if "replicates" in given:
            given = {key: value for key, value in given.items() if key not in ("strata", "psu", "psus", "categories")}
    table = pa.table(dict(sample.columns))
    survey = ds.Survey.collected(table, budget=ds.Budget(epsilon), ledger=ledger, **given)
    row = survey.plan(known.statistic).release().estimates[0]
    low, high = row["ci_low"], row["ci_high"]
    return -math.inf if low is None else low, math.inf if high is None else high, list(row["notes"])


def run_job(job: Job, route: Route = released) -> Tally:
    """Some surveys of one population at one epsilon."""
    name, epsilon, start, surveys = job
    known, tally = scenario(name), Tally()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(start, start + surveys):
            # The same samples at every epsilon.
            sample = known.draw(np.random.default_rng((20261119, list(POPULATIONS).index(name), number)))
            try:
                found = route(known, sample, epsilon, Path(folder) / f"{number}.ledger")
            except SurveyError as refused:
                tally.refused[refused.what] = tally.refused.get(refused.what, 0) + 1
                continue
            tally.note(known.truth, found, sample.classical)
    return tally


def simulate(jobs: list[Job], workers: int, resume: Path | None, progress: Progress) -> dict[tuple[str, float], Tally]:
    """All jobs; what `resume` holds is not run again."""
    done: dict[str, Tally] = {}
    if resume is not None and resume.exists():
        lines = [json.loads(line) for line in resume.read_text(encoding="utf-8").splitlines()]
        done = {line["job"]: Tally(**line["tally"]) for line in lines}
    left = [job for job in jobs if repr(job) not in done]
    task = progress.add_task("surveys", total=sum(job[3] for job in left))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run_job, job): job for job in left}
        for each in as_completed(running):
            job = running[each]
            done[repr(job)] = each.result()
            progress.advance(task, job[3])
            if resume is not None:
                with resume.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"job": repr(job), "tally": asdict(done[repr(job)])}) + "\n")
    total: dict[tuple[str, float], Tally] = {}
    for job in jobs:
        total.setdefault(job[:2], Tally())
        total[job[:2]] += done[repr(job)]
    return total


def covers(tally: Tally) -> bool:
    """Not significantly below the aim, or not more than a point below the classical interval of the same samples."""
    if not tally.surveys:
        return True
    n = tally.surveys
    upper = 1.0 if tally.covered == n else float(beta.ppf(1.0 - (1.0 - CONFIDENCE) / 2.0, tally.covered + 1, n - tally.covered))
    lost = (tally.only_classical - tally.only_private) / n
    spread = math.sqrt(max(tally.only_classical + tally.only_private, 1)) / n
    return upper >= AIM or lost - float(ndtri(CONFIDENCE)) * spread <= POINT


def row_of(name: str, epsilon: float, tally: Tally) -> dict[str, Any]:
    """One line for people."""
    n = max(tally.surveys, 1)
    ratio = median(tally.widths) / median(tally.classical_widths) if tally.surveys else math.nan
    often = [note for note, times in tally.notes.items() if 2 * times > tally.surveys]
    return {
        "population": name,
        "epsilon": epsilon,
        "surveys": tally.surveys,
        "private": round(tally.covered / n, 4),
        "classical": round(tally.classical / n, 4),
        "width ratio": round(ratio, 3),
        "verdict": "refused" if not tally.surveys else "ok" if covers(tally) else "FAILS",
        "notes": "; ".join([*often, *(f"refused {times}: {what}" for what, times in tally.refused.items())]),
    }


def print_json(rows: list[dict[str, Any]]) -> None:
    """One object per line: the coverage of each number, and its width."""
    for row in rows:
        name, ratio = f"{row['population']}/epsilon {row['epsilon']:g}", row["width ratio"]
        quotient = row["private"] / row["classical"] if row["classical"] else None
        covered = {"value": row["private"], "reference": row["classical"], "ratio": quotient, "aim": AIM}
        print(json.dumps({"name": f"coverage/{name}"} | covered | {"ok": row["verdict"] != "FAILS"}))
        wide = ratio if math.isfinite(ratio) else None
        print(json.dumps({"name": f"width/{name}", "value": wide, "reference": 1.0, "ratio": wide, "aim": None, "ok": True}))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surveys", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.25, 1.0, 4.0])
    parser.add_argument("--only", nargs="+", default=[""], help="populations whose name holds one of these words")
    parser.add_argument("--quick", action="store_true", help="three surveys of every fourth population, under a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--resume", type=Path, help="a file that keeps what is done")
    given = parser.parse_args()
    names = [name for name in POPULATIONS if any(word in name for word in given.only)][:: 4 if given.quick else 1]
    surveys = 3 if given.quick else given.surveys
    epsilons = given.epsilons[:1] if given.quick else given.epsilons
    starts = range(0, surveys, CHUNK)
    jobs = [(name, epsilon, start, min(CHUNK, surveys - start)) for start in starts for name in names for epsilon in epsilons]
    with Progress(console=Console(stderr=True)) as progress:
        total = simulate(jobs, given.workers, given.resume, progress)
    rows = [
        row_of(name, epsilon, tally) for (name, epsilon), tally in sorted(total.items(), key=lambda each: names.index(each[0][0]))
    ]
    if given.json:
        print_json(rows)
        return
    print(text_table(rows, list(rows[0])))


if __name__ == "__main__":
    main()
