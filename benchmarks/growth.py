"""What a plan and a ledger cost as they grow: memory by groups, and memory and time of the whole tree by samples.

    python benchmarks/growth.py            up to 10,000 groups and 10,000 samples
    python benchmarks/growth.py --quick    up to 800 groups and 2,000 samples, in under a minute
    python benchmarks/growth.py --json     one object per line

Rows: `plan/...` is the largest memory that a plan with its predictions and its text takes (MB), by groups or by strata;
`tree/memory` and `tree/seconds` are those of `dpsurvey ledger tree`, from the ledger on disk to the text. The reference is the
same for a quarter as many groups, and for a fourth or a tenth as many samples. The aim is a ratio: what grows in proportion
stays below one and a half times the number by which it was multiplied; seconds, which others on the machine disturb, below two
and a half times. Where numbers depend on all groups, or are simulated, the plan of a few groups may take more than that of many.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

import dpsurvey as ds
from dpsurvey.statistic import Statistic
from dpsurvey.view.ledger_text import tree_text

ALLOWED, ALLOWED_SECONDS = 1.5, 2.5
BOUNDS = (0, 100)
STATISTICS: dict[str, Callable[..., Statistic]] = {
    "mean": lambda by: ds.mean("income", bounds=BOUNDS, by=by),
    "total": lambda by: ds.total("income", bounds=BOUNDS, by=by),
    "count": lambda by: ds.count(by=by),
    "ratio": lambda by: ds.ratio("food", "income", bounds=BOUNDS, to_bounds=BOUNDS, by=by),
}
DESIGNS: dict[str, Callable[[int], ds.Design]] = {
    "srs": lambda groups: ds.srs(n=50 * groups),
    "poisson": lambda groups: ds.poisson(0.05),
    "clusters": lambda groups: ds.cluster("psu", ds.srs(n=50), clusters=500),
    "strata": lambda groups: ds.stratified("group", within=ds.srs(n=50)),
}


def a_plan(design: str, statistic: str, groups: int) -> None:
    """A plan by so many groups, with everything that it says."""
    sizes = {f"g{place}": 1000 for place in range(groups)}
    frame = ds.Frame("register.parquet", "id", 1000 * groups, {"group": sizes}, public=["psu"])
    survey = ds.Survey(frame, DESIGNS[design](groups), budget=ds.Budget(1.0), ledger="books.ledger")
    str(survey.plan(STATISTICS[statistic]("group")))


def peak(work: Callable[[], object]) -> float:
    """The largest memory that some work takes, in MB."""
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def a_ledger(folder: Path, samples: int) -> Path:
    """A ledger with so many samples of one survey, each charged its own small amount; written in one go."""
    path, name = folder / f"{samples}.ledger", "lfs"
    setting = ds.Setting("frame", neighbours="add-remove")
    frame = ds.Frame("register.parquet", unit="id", size=1_000_000)
    terms = ds.Survey(frame, ds.poisson(0.02), setting, budget=ds.Budget(1e6), ledger=path, name=name).terms
    asked = ds.mean("income", bounds=BOUNDS).to_dict()
    with ds.Ledger(path) as ledger:
        ledger.open_survey(terms)
        with ledger._journal.writing() as pen:
            for number in range(samples):
                profile = ds.PrivacyProfile.pure(0.1 + number * 1e-6, "add-remove")
                charge = {"profile": profile.to_dict(), "asked": [asked]}
                pen.write("sample", {"sample": f"s{number}", "survey": name, "state": "drawn"})
                body = {"release": f"r{number}", "survey": name, "sample": f"s{number}", "fingerprint": f"f{number}"}
                pen.write("reserved", body | {"charges": [charge]})
    return path


def show(path: Path) -> None:
    """What `dpsurvey ledger tree` does."""
    with ds.Ledger(path) as ledger:
        tree_text(ledger.tree())


def seconds(work: Callable[[], object]) -> float:
    """The shorter of two runs."""
    best = float("inf")
    for _ in range(2):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def row(name: str, value: float, reference: float, times: float, allowed: float = ALLOWED) -> dict[str, object]:
    """One line of the table."""
    ratio = value / reference
    aim = allowed * times
    return {"name": name, "value": value, "reference": reference, "ratio": ratio, "aim": aim, "ok": ratio <= aim}


def run(groups: int, strata: int, samples: tuple[int, int]) -> list[dict[str, object]]:
    """Measure and compare. A plan of each kind goes first, so that no figure holds the modules that it loads."""
    rows = []
    for design in DESIGNS:
        for statistic in STATISTICS:
            a_plan(design, statistic, 4)
    for design in DESIGNS:
        most = strata if design == "strata" else groups
        for statistic in STATISTICS:
            large, small = (peak(partial(a_plan, design, statistic, size)) for size in (most, most // 4))
            rows.append(row(f"plan/{design}, {statistic}, {most:,}", large, small, 4.0))
    with tempfile.TemporaryDirectory() as name:
        few, many = (a_ledger(Path(name), count) for count in samples)
        times = samples[1] / samples[0]
        rows.append(row(f"tree/memory, {samples[1]:,}", peak(lambda: show(many)), peak(lambda: show(few)), times))
        long, short = seconds(lambda: show(many)), seconds(lambda: show(few))
        rows.append(row(f"tree/seconds, {samples[1]:,}", long, short, times, ALLOWED_SECONDS))
    return rows


def main() -> None:
    """Print a table, or one JSON object per line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer groups and samples; takes less than a minute")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    rows = run(800, 80, (500, 2_000)) if options.quick else run(10_000, 400, (1_000, 10_000))
    if options.as_json:
        for each in rows:
            print(json.dumps(each))
        return
    table = Table(title="memory of plans (MB), memory (MB) and seconds of the tree")
    for column in ("name", "value", "reference", "ratio", "aim", "ok"):
        table.add_column(column, justify="left" if column == "name" else "right")
    for each in rows:
        figures = (f"{each[column]:.2f}" for column in ("value", "reference", "ratio", "aim"))
        table.add_row(str(each["name"]), *figures, "yes" if each["ok"] else "NO")
    Console().print(table)


if __name__ == "__main__":
    main()
