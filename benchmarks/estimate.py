"""Private and classical estimates against plain DuckDB, polars and numpy, as ratios, in one run.

    python benchmarks/estimate.py [--quick] [--json] [--only private classical median smooth]

CPU seconds from Parquet files, opening them included: the least of several runs that take turns with their references.
`wall` is the same by the clock, which also sees two cores at work, the disk of the ledger and a busy machine.
`estimate/rows/...`, `estimate/psus/...`: mean and total with standard errors for one charge from 1 million weighted rows,
without clusters and with 20,000: sums, noise and estimates against the same figures, not private; the aim is for DuckDB,
on which the sums are made. `release/...`: all of a release, opening the file and keeping the books included, which do not grow
with the rows. `part/...`: its parts, the first release from a file, and the check of all rows that it makes.
`estimate/classical/...`: the mean by dpsurvey.classical.Sample, from the file and (`numpy`) from columns in memory.
`estimate/median/...`: medians of 10 million rows against a plain sort of the column; `exact` is DuckDB's, and numpy's own.
`estimate/smooth/...`: the smooth sensitivity of sorted values over the sort itself: from all values (`whole`), from the
window that a release takes, and with beta = 1/n, where no line may be left out. `growth/...`: the exponents of these
seconds in n from 10,000 on (1 is proportional), and in the reach of the window.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table

import dpsurvey as ds
from dpsurvey.classical import Sample
from dpsurvey.engine import Engine
from dpsurvey.mechanism import order_statistic as order
from dpsurvey.mechanism.smooth import SmoothLaplace
from dpsurvey.statistic.estimators.order_quantiles import FLOOR, STEPS
from dpsurvey.survey.release import Release
from dpsurvey.survey.survey import Survey

AIM, GROWTH = 2.0, 1.15
ROWS, PSUS, MEDIAN_ROWS, POPULATION = 1_000_000, 20_000, 10_000_000, 45_000_000
RANGE, TOP, FRESH = (10.0, 80.0), 1_000_000.0, count()
PARTS: dict[str, tuple[type, str]] = {"open": (Survey, "_open"), "check": (Engine, "check_rows"), "sums": (Engine, "sums")}
PARTS |= {"noise": (Survey, "_noisy_sums"), "estimate": (Release, "make")}
COLUMNS = ("name", "value", "reference", "ratio", "aim", "ok")
Row = dict[str, Any]


def make_sample(path: Path) -> str:
    """A file of drawn people with weights, answers and 20,000 clusters that differ a little."""
    duckdb.execute(
        f"""copy (select range as id, (hash(range + 2) % {PSUS})::bigint as psu, 10 + (hash(range + 3) % 7000) / 100.0 as w,
            (hash(range + 5) % 9000) / 100.0 + (hash((hash(range + 2) % {PSUS}) + 7) % 1000) / 100.0 as y
            from range({ROWS})) to '{path}' (row_group_size 122880)"""
    )
    return str(path)


def make_incomes(path: Path) -> str:
    """A simple random sample of incomes with a long tail."""
    normal = "sqrt(-2 * ln((hash(range + 5) % 1000000 + 1) / 1000001.0)) * cos(pi() * (hash(range + 9) % 1000000) / 5e5)"
    rows = f"select range as id, exp(10 + 0.8 * {normal}) as y from range({MEDIAN_ROWS})"
    duckdb.execute(f"copy ({rows}) to '{path}' (row_group_size 122880)")
    return str(path)


def taylor(sums: Sequence[Any]) -> tuple[float, float, float, float]:
    """Mean, total and their Taylor standard errors, from sums over clusters of 1, a, b, a^2, ab, b^2; a = sum w y, b = sum w."""
    m, a, b, aa, ab, bb = (float(each) for each in sums)
    mean, factor = a / b, m / (m - 1.0)
    of_mean = factor * (aa - 2.0 * mean * ab + mean**2 * bb) / b**2
    return mean, a, math.sqrt(of_mean), math.sqrt(factor * (aa - a * a / m))


def by_duckdb(path: str, psu: str | None) -> tuple[float, ...]:
    """The figures by one plain query."""
    units = f"sum(w * y) as a, sum(w) as b from '{path}' group by {psu}" if psu else f"w * y as a, w as b from '{path}'"
    sums = "count(*), sum(a), sum(b), sum(a * a), sum(a * b), sum(b * b)"
    with duckdb.connect() as connection:
        return taylor(connection.execute(f"select {sums} from (select {units})").fetchall()[0])


def by_polars(path: str, psu: str | None) -> tuple[float, ...]:
    """The figures by one lazy polars query."""
    import polars as pl

    rows, a, b = pl.scan_parquet(path), pl.col("w") * pl.col("y"), pl.col("w")
    units = rows.group_by(psu).agg(a=a.sum(), b=b.sum()) if psu else rows.select(a=a, b=b)
    a, b = pl.col("a"), pl.col("b")
    sums = units.select(pl.len(), a.sum(), b.sum(), aa=(a * a).sum(), ab=(a * b).sum(), bb=(b * b).sum())
    return taylor(sums.collect().row(0))


def by_numpy(columns: dict[str, Any]) -> tuple[float, ...]:
    """The figures of clusters whose labels are 0, 1, ..."""
    psu, w = columns["psu"], columns["w"]
    a, b = np.bincount(psu, weights=w * columns["y"]), np.bincount(psu, weights=w)
    return taylor((len(a), *(each.sum() for each in (a, b, a * a, a * b, b * b))))


def read(path: str, *names: str) -> dict[str, Any]:
    """Columns of a Parquet file as arrays."""
    table = pq.read_table(path, columns=list(names))
    return {name: table[name].to_numpy() for name in names}


def best(works: Mapping[str, Callable[[], object]], times: int) -> dict[str, float]:
    """The least CPU seconds of each and, under "wall ...", by the clock; in turns, so that a busy moment falls on all alike."""
    least: dict[str, float] = {}
    for _ in range(times):
        for name, work in works.items():
            start, clock = time.process_time(), time.perf_counter()
            work()
            took = {name: time.process_time() - start, f"wall {name}": time.perf_counter() - clock}
            least |= {key: min(least.get(key, math.inf), seconds) for key, seconds in took.items()}
    return least


@contextmanager
def clocked() -> Iterator[dict[str, float]]:
    """CPU seconds spent in each part of a release, complete after the block."""
    spent = dict.fromkeys(PARTS, 0.0)

    def timed(part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            start = time.process_time()
            found = work(*given, **named)
            spent[part] += time.process_time() - start
            return found

        return run

    with ExitStack() as stack:
        for part, (owner, name) in PARTS.items():
            once = timed(part, getattr(owner, name))
            whole_class = isinstance(vars(owner)[name], classmethod)
            stack.enter_context(patch.object(owner, name, staticmethod(once) if whole_class else once))
        yield spent
    # The exact sums are made inside the call that adds the noise.
    spent["noise"] -= spent["sums"]


def row(name: str, value: float, reference: float | None, aim: float | None = None) -> Row:
    """One line of the result; without a reference the value itself is held against the aim."""
    ratio = value / reference if reference else None
    rounded = [None if each is None else float(f"{each:.4g}") for each in (value, reference, ratio)]
    held = aim is None or (value if ratio is None else ratio) <= aim
    return dict(zip(COLUMNS, (f"estimate/{name}", *rounded, aim, held), strict=True))


def collected(path: str, ledger: Path, **design: Any) -> Survey:
    """A new survey of the file in the same ledger: the check of its rows is remembered, everything else is done anew."""
    return Survey.collected(path, "id", size=POPULATION, ledger=ledger, name=f"run {next(FRESH)}", **design)


def private(folder: Path, times: int) -> list[Row]:
    """Mean and total of a collected file, without and with clusters."""
    path, found = make_sample(folder / "sample.parquet"), []
    asked = ds.mean("y", bounds=(0, 100)), ds.total("y", bounds=(0, 100))

    def release(psu: str | None, ledger: str) -> Release:
        design = {"weights": "w", "weight_range": RANGE} | ({"psu": psu, "psus": PSUS} if psu else {})
        plan = collected(path, folder / f"{ledger}.ledger", budget=ds.Budget(1.0), **design).plan(*asked)
        if len(plan.items) != 1:
            raise RuntimeError("mean and total are not paid for by one charge")
        return plan.release()

    for name, psu in (("rows", None), ("psus", "psu")):
        exact, number = by_duckdb(path, psu), release(psu, name).estimates[0]
        if not np.allclose(exact, by_polars(path, psu), rtol=1e-9) or abs(number["estimate"] - exact[0]) > 10.0 * number["se"]:
            raise RuntimeError("the references do not agree, or the private mean is not near them")
        plain = {"duckdb": partial(by_duckdb, path, psu), "polars": partial(by_polars, path, psu)}
        seconds = best({"ours": partial(release, psu, name), **plain}, 5 * times)
        parts: dict[str, float] = {}
        for ledger in [name] * times + [f"first {next(FRESH)}" for _ in range(times)]:
            start = time.process_time()
            with clocked() as shares:
                release(psu, ledger)
            took, check = time.process_time() - start, shares.pop("check")
            shares = {"first": took, "check": check} if check else shares | {"books": took - sum(shares.values())}
            parts |= {part: min(parts.get(part, math.inf), share) for part, share in shares.items()}
        work = sum(parts[part] for part in ("sums", "noise", "estimate"))
        found += [row(f"{name}/{other}", work, seconds[other], AIM if other == "duckdb" else None) for other in plain]
        found += [row(f"{name}/release/{other}", seconds["ours"], seconds[other]) for other in plain]
        found += [row(f"{name}/wall/{other}", seconds["wall ours"], seconds[f"wall {other}"]) for other in plain]
        found += [row(f"{name}/part/{part}", share, seconds["duckdb"]) for part, share in parts.items()]
    return found


def classical(folder: Path, times: int) -> list[Row]:
    """The weighted mean with its Taylor standard error, 20,000 clusters."""
    held = read(path := make_sample(folder / "sample.parquet"), "psu", "w", "y")

    def ours(columns: dict[str, Any]) -> tuple[float, float]:
        found = Sample(columns, psu="psu", weights="w").mean("y")
        return found.estimate, found.se

    if not np.allclose(ours(held), by_numpy(held)[::2], rtol=1e-9):
        raise RuntimeError("the classical mean does not agree with numpy")
    fetch = partial(read, path, "psu", "w", "y")
    works: dict[str, Any] = {"held": partial(ours, held), "numpy": partial(by_numpy, held)}
    works |= {"file": lambda: ours(fetch()), "numpy-parquet": lambda: by_numpy(fetch())}
    works |= {"duckdb": partial(by_duckdb, path, "psu"), "polars": partial(by_polars, path, "psu")}
    seconds = best(works, 5 * times)
    others, found = list(works)[3:], [row("classical/numpy", seconds["held"], seconds["numpy"])]
    aims = {"duckdb": AIM, "polars": AIM}
    found += [row(f"classical/{other}", seconds["file"], seconds[other], aims.get(other)) for other in others]
    return found + [row(f"classical/wall/{other}", seconds["wall file"], seconds[f"wall {other}"]) for other in others]


def median(folder: Path, times: int) -> list[Row]:
    """Medians of ten million rows by three mechanisms."""
    path, methods, middle = make_incomes(folder / "incomes.parquet"), ("tree", "exponential", "smooth"), MEDIAN_ROWS // 2

    def release(method: str) -> float:
        survey = collected(path, folder / "median.ledger", n=MEDIAN_ROWS, budget=ds.Budget(1.0, 1e-8))
        made = survey.plan(ds.median("y", bounds=(0, TOP), method=method), noise="laplace").release()
        return float(made.estimates[0]["estimate"])

    works: dict[str, Callable[[], float]] = {
        "sort": lambda: float(np.sort(read(path, "y")["y"])[middle]),
        "partition": lambda: float(np.partition(read(path, "y")["y"], middle)[middle]),
        "duckdb": lambda: float(duckdb.sql(f"select median(y) from '{path}'").fetchall()[0][0]),
    } | {method: partial(release, method) for method in methods}
    with clocked() as spent:
        numbers = [work() for work in works.values()]
    # One leaf of the grid is TOP/256 wide.
    if not np.allclose(numbers, numbers[0], rtol=0.0, atol=TOP / 256):
        raise RuntimeError("a private median is not near the exact one")
    seconds = best(works, times)
    found = [row(f"median/{method}", seconds[method], seconds["sort"], AIM) for method in methods]
    found += [row(f"median/wall/{method}", seconds[f"wall {method}"], seconds["wall sort"]) for method in methods]
    found += [row(f"median/exact/{other}", seconds[other], seconds["sort"]) for other in ("duckdb", "partition")]
    return [*found, row("median/check", spent["check"], seconds["sort"])]


def windowed(ordered: Any, place: order.Place, beta: float, span: float, reach: int) -> float:
    """The smooth bound that a release takes from a window around the median."""
    first, last = order.window_ranks(place, reach)
    window = order.padded_window(ordered[first - 1 : last], place, reach, 0.0, span)
    return float(order.windowed_smooth_sensitivity(window, place, beta, span))


def smooth(folder: Path, times: int) -> list[Row]:
    """The smooth sensitivity of a median at n = 1e3 .. 1e7, whole and from a window; nothing is read or written."""
    span, rng, found = 2.0 * STEPS, np.random.default_rng(1), []
    beta = SmoothLaplace.calibrate(1.0, 1e-8, span=2 * STEPS, floor=2 * FLOOR).beta
    sizes, reaches = [10**power for power in range(3, 8)], [1_000, 4_000, 16_000]
    seconds: dict[str, list[float]] = {"whole": [], "window": [], "all-lines": []}
    for n in sizes:
        values = np.clip(np.round(np.exp(10.0 + 0.8 * rng.standard_normal(n)) / TOP * span), 0.0, span)
        ordered, place = np.sort(values), order.Place.median(n)
        reach = min(n, order.reach_for_floor(place, 1.0 / 60.0, span, 2.0 * FLOOR))
        whole = partial(order.smooth_sensitivity, ordered, place, beta, 0.0, span)
        window = partial(windowed, ordered, place, beta, span)
        unseen = math.exp(-beta * reach) * span / place.parts
        if not math.isclose(window(reach), max(whole(), unseen), rel_tol=1e-9):
            raise RuntimeError("the window and the whole do not agree")
        works: dict[str, Any] = {"whole": whole, "window": partial(window, reach), "sort": partial(np.sort, values)}
        took = best(works, max(times, min(50, 10**6 // n)))
        took |= best({"all-lines": partial(order.smooth_sensitivity, ordered, place, 1.0 / n, 0.0, span)}, min(times, 3))
        for name, each in seconds.items():
            each.append(took[name])
            found.append(row(f"smooth/{name}/1e{round(math.log10(n))}", took[name], took["sort"]))
    by_reach = [best({"window": partial(window, reach)}, times)["window"] for reach in reaches]
    # Below 10,000 values fixed costs hide the growth.
    grown = {name: (sizes[1:], each[1:]) for name, each in seconds.items()} | {"reach": (reaches, by_reach)}
    for name, (size, took_by_size) in grown.items():
        exponent = float(np.polyfit(np.log(size), np.log(took_by_size), 1)[0])
        found.append(row(f"smooth/growth/{name}", exponent, None, None if name == "reach" else GROWTH))
    return found


def main() -> None:
    """Run and print."""
    groups = {"private": private, "classical": classical, "median": median, "smooth": smooth}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, under a minute")
    parser.add_argument("--json", action="store_true", help="one object per line")
    parser.add_argument("--only", nargs="+", choices=groups, default=list(groups), help="some of the groups")
    given, found = parser.parse_args(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in track(given.only, description="estimating", console=Console(stderr=True)):
            found += groups[name](Path(folder), 2 if given.quick else 7)
    if given.json:
        print("\n".join(map(json.dumps, found)))
        return
    table = Table(*COLUMNS)
    for each in found:
        table.add_row(*("-" if cell is None else str(cell) for cell in each.values()))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
