"""Do the demo's intervals cover? Its survey is simulated many times over; private and classical intervals face the truth.

    python benchmarks/coverage.py [--surveys 10000] [--quick] [--json]

Every survey draws a new Poisson sample of the demo's register, adds up what the engine says each record adds, adds noise
at the scales of the demo's plan, and estimates by the package's own code. The noise comes from numpy with a fixed seed:
this is a simulation, not a release, and what it prints says nothing about anybody.

A number is ok when its coverage is not significantly below 95 % (the upper end of its 99.9 % Clopper-Pearson interval
reaches 95 %) and not significantly (99.9 %, paired) more than one point below that of the classical interval (Hajek,
linearised, Student's t) on the same samples. Nobody below 15 has an income: there the classical interval has no width,
and there is nothing to compare with.

With --json, `coverage/...` has the private and the classical coverage, `width/...` the mean widths.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress
from scipy.special import ndtri, stdtrit
from scipy.stats import beta

from dpsurvey.demo import demo_statistics, demo_survey, make_register
from dpsurvey.engine.sums import _components
from dpsurvey.layout import text_table
from dpsurvey.plan import Item, Plan
from dpsurvey.statistic import Query, Statistic

AIM = 0.95
CONFIDENCE = 0.999
BATCH = 200
SEED = 20260303

Array = npt.NDArray[np.float64]


def plan_of(folder: Path) -> Plan:
    """The demo's plan; reads no rows."""
    return demo_survey(folder / "register.parquet", folder / "demo.ledger").plan(*demo_statistics())


def measured(statistic: Statistic) -> tuple[str | None, Any, Any]:
    """What a statistic measures on a record, whatever its groups."""
    return statistic.of, getattr(statistic, "bounds", None), getattr(statistic, "value", None)


def encoded(query: Query) -> tuple[Any, ...]:
    """What a record adds to the sums of a query, whatever its groups."""
    return query.encoding, query.column, query.bounds, query.value, query.lattice, query.second_moment_scale


class Register:
    """The register as numbers, one row per person, sorted by cell (every combination of strata and groups).

    Columns: one per component of each encoding, then for each measured variable its value and its square, then 1.
    """

    def __init__(self, plan: Plan) -> None:
        terms = plan.terms
        self.plan = plan
        strata = terms.design.strata_column
        by = [*([strata] if strata else []), *(column for item in plan.items for column in item.query.by)]
        self.axes = list(dict.fromkeys(by))
        self.labels = [terms.frame.labels(column) for column in self.axes]
        self.cells = math.prod(len(labels) for labels in self.labels)
        self.codes = np.array(np.unravel_index(np.arange(self.cells), [len(labels) for labels in self.labels]))
        rates = {part.label: part.probability for part in terms.design.parts()}
        self.rates = np.array([rates[self.labels[0][code]] if strata else rates[None] for code in self.codes[0]])
        self.places: dict[Any, slice] = {}
        width = 0
        for item in plan.items:
            if encoded(item.query) not in self.places:
                self.places[encoded(item.query)] = slice(width, width + item.query.components)
                width += item.query.components
        for item in plan.items:
            for statistic in item.statistics:
                if measured(statistic) not in self.places:
                    self.places[measured(statistic)] = slice(width, width + 2)
                    width += 2
        self.ones = width
        self.width = width + 1

    def write(self, folder: Path) -> None:
        """Read the register once through the engine's own expressions, and keep it as an array file."""
        table = ibis.duckdb.connect().read_parquet(folder / "register.parquet")
        unit = self.plan.terms.frame.unit
        wanted: dict[str, Any] = {}
        for item in self.plan.items:
            for index, part in enumerate(_components(table, item.query)):
                wanted[f"c{self.places[encoded(item.query)].start + index}"] = part
            for statistic in item.statistics:
                of, bounds, value = measured(statistic)
                y = ibis.literal(1.0)
                if of is not None:
                    y = table[of].cast("float64").clip(*bounds) if bounds else (table[of].cast("string") == value).cast("float64")
                start = self.places[measured(statistic)].start
                wanted |= {f"c{start}": y, f"c{start + 1}": y * y}
        keys = [table[column].cast("string").name(f"k{axis}") for axis, column in enumerate(self.axes)]
        rows = table.select(table[unit], *keys, *(part.name(name) for name, part in wanted.items())).order_by(unit).to_pyarrow()
        cell = np.zeros(len(rows), dtype=np.int64)
        for axis, labels in enumerate(self.labels):
            column = np.asarray(rows[f"k{axis}"].to_pylist())
            code = np.zeros(len(rows), dtype=np.int64)
            for index, label in enumerate(labels):
                code[column == label] = index
            cell = cell * len(labels) + code
        order = np.argsort(cell, kind="stable")
        values = np.ones((len(rows), self.width))
        for name in wanted:
            values[:, int(name[1:])] = rows[name].to_numpy()[order]
        np.save(folder / "values.npy", values)
        np.save(folder / "starts.npy", np.searchsorted(cell[order], np.arange(self.cells + 1)))

    def groups(self, query: Query) -> Array:
        """Which cells make up each group of a query: (cells, groups), zeros and ones."""
        inside = np.ones((self.cells, len(query.groups)))
        for column, at in ((column, self.axes.index(column)) for column in query.by):
            wanted = [self.labels[at].index(group[query.by.index(column)]) for group in query.groups]
            inside *= self.codes[at][:, None] == np.array(wanted)[None, :]
        return inside


@dataclass
class Tally:
    """Covered surveys and summed widths of every number, private and classical; surveys that only one of the two covers."""

    covered: Array
    classical_covered: Array
    differ: Array
    width: Array
    classical_width: Array

    def __iadd__(self, other: Tally) -> Tally:
        self.covered += other.covered
        self.classical_covered += other.classical_covered
        self.differ += other.differ
        self.width += other.width
        self.classical_width += other.classical_width
        return self


class Simulation:
    """What a worker holds: the plan, the register's numbers, and the truth."""

    def __init__(self, folder: Path) -> None:
        self.plan = plan_of(folder)
        self.register = Register(self.plan)
        self.values: Array = np.load(folder / "values.npy", mmap_mode="r")
        self.starts = np.load(folder / "starts.npy")
        # Cells with the same inclusion probability that follow each other are drawn in one go.
        breaks = np.flatnonzero(np.diff(self.register.rates)) + 1
        self.blocks = [
            (int(self.starts[cells[0]]), int(self.starts[cells[-1] + 1]), float(self.register.rates[cells[0]]))
            for cells in np.split(np.arange(self.register.cells), breaks)
        ]
        self.truth = self._cell_sums(np.arange(len(self.values)))

    def _cell_sums(self, drawn: npt.NDArray[np.int64]) -> Array:
        ends = np.searchsorted(drawn, self.starts)
        # A row of zeros at the end, and for cells without rows, which reduceat would fill with a neighbour.
        rows = np.concatenate([self.values[drawn], np.zeros((1, self.register.width))])
        sums = np.add.reduceat(rows, ends[:-1], axis=0)
        sums[ends[:-1] == ends[1:]] = 0.0
        return np.asarray(sums)

    def _draw(self, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """A Poisson sample, by the geometric gaps between the units that are drawn."""
        drawn = []
        for start, end, rate in self.blocks:
            position = start - 1
            while position < end:
                expected = (end - start) * rate
                gaps = random.geometric(rate, int(expected + 6.0 * math.sqrt(expected) + 10.0))
                places = position + np.cumsum(gaps)
                drawn.append(places[places < end])
                position = int(places[-1])
        return np.concatenate(drawn)

    def run(self, surveys: int, seed: np.random.SeedSequence) -> Tally:
        """A batch of surveys."""
        random = np.random.default_rng(seed)
        sums = np.stack([self._cell_sums(self._draw(random)) for _ in range(surveys)])
        parts = [
            self._one(item, statistic, noisy, sums) for item, noisy in self._noisy(sums, random) for statistic in item.statistics
        ]
        return Tally(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _noisy(self, sums: Array, random: np.random.Generator) -> Iterator[tuple[Item, Array]]:
        for item in self.plan.items:
            exact = np.einsum(
                "scq,cg->sgq", sums[..., self.register.places[encoded(item.query)]], self.register.groups(item.query)
            )
            stop = -math.expm1(-1.0 / item.mechanism.scale)
            assert item.mechanism.kind == "laplace"
            yield item, exact + random.geometric(stop, exact.shape) - random.geometric(stop, exact.shape)

    def _one(self, item: Item, statistic: Statistic, noisy: Array, sums: Array) -> tuple[Array, ...]:
        numbers = self.plan.estimate(item, statistic, noisy)
        truth, scale, shared = self._true_values(item.query, statistic)
        estimate, half = self._classical(item.query, statistic, sums, shared)
        private = (numbers.low <= truth) & (truth <= numbers.high)
        classical = np.abs(estimate * scale - truth) <= half * scale
        return (
            np.sum(private, axis=0),
            np.sum(classical, axis=0),
            np.sum(private != classical, axis=0),
            np.sum(numbers.high - numbers.low, axis=0),
            np.sum(2.0 * half * scale, axis=0),
        )

    def _true_values(self, query: Query, statistic: Statistic) -> tuple[Array, Array, bool]:
        """The truth of each number, what its rate or share is multiplied by, and whether it is a share of the whole."""
        inside = self.register.groups(query)
        total = self.truth[:, self.register.places[measured(statistic)].start] @ inside
        count = self.truth[:, self.register.ones] @ inside
        if statistic.kind in ("mean", "proportion"):
            return total / count, np.ones_like(total), False
        frame = self.plan.terms.frame
        sizes = [frame.known_size(query.by, group) for group in query.groups]
        if statistic.of is None or None in sizes:
            return total, np.full_like(total, float(frame.size or 0)), True
        return total, np.array([float(size or 0) for size in sizes]), False

    def _classical(self, query: Query, statistic: Statistic, sums: Array, shared: bool) -> tuple[Array, Array]:
        """Hajek's estimate and the half width of its linearised t interval, without privacy."""
        rates, inside = self.register.rates, self.register.groups(query)
        start, ones = self.register.places[measured(statistic)].start, self.register.ones
        everyone = np.ones_like(inside) if shared else inside

        def weighted(column: int, weights: Array, where: Array) -> Array:
            return np.asarray((sums[..., column] * weights) @ where)

        weight, squared = 1.0 / rates, (1.0 - rates) / rates**2
        size = weighted(ones, weight, everyone)
        estimate = weighted(start, weight, inside) / size
        squares = (
            weighted(start + 1, squared, inside)
            - 2.0 * estimate * weighted(start, squared, inside)
            + estimate**2 * weighted(ones, squared, everyone)
        )
        df = weighted(ones, np.ones_like(rates), everyone) - 1.0
        return estimate, stdtrit(df, 0.975) * np.sqrt(np.maximum(squares, 0.0)) / size


_simulation: Simulation | None = None


def start_worker(folder: str) -> None:
    """Load once per process."""
    global _simulation
    _simulation = Simulation(Path(folder))


def run_batch(surveys: int, seed: np.random.SeedSequence) -> Tally:
    """One batch in a worker."""
    assert _simulation is not None
    return _simulation.run(surveys, seed)


def simulate(folder: Path, surveys: int, workers: int, progress: Progress) -> Tally:
    """All surveys, in batches; the same numbers whatever the number of workers."""
    batches = [min(BATCH, surveys - start) for start in range(0, surveys, BATCH)]
    seeds = np.random.SeedSequence(SEED).spawn(len(batches))
    # One thread of linear algebra per worker; the workers are the parallelism.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    task = progress.add_task("simulating surveys", total=surveys)
    found: dict[int, Tally] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, start_worker, (str(folder),)) as pool:
        jobs = {pool.submit(run_batch, *job): index for index, job in enumerate(zip(batches, seeds, strict=True))}
        for job in as_completed(jobs):
            found[jobs[job]] = job.result()
            progress.advance(task, batches[jobs[job]])
    total = found[0]
    for index in range(1, len(batches)):
        total += found[index]
    return total


def report(plan: Plan, tally: Tally, surveys: int) -> list[dict[str, Any]]:
    """One row per number, with its verdict."""
    names = [
        (statistic.name, ", ".join(group) or "all")
        for item in plan.items
        for statistic in item.statistics
        for group in item.query.groups
    ]
    tail = (1.0 - CONFIDENCE) / 2.0
    rows = []
    for index, (name, group) in enumerate(names):
        hits, misses = tally.covered[index], surveys - tally.covered[index]
        high = float(beta.ppf(1.0 - tail, hits + 1.0, misses)) if misses else 1.0
        private, classical = float(hits / surveys), float(tally.classical_covered[index] / surveys)
        gain = private - classical
        doubt = float(ndtri(1.0 - tail)) * math.sqrt(max(tally.differ[index] / surveys - gain**2, 0.0) / surveys)
        widths = float(tally.width[index] / surveys), float(tally.classical_width[index] / surveys)
        rows.append(
            {
                "statistic": name,
                "group": group,
                "private": private,
                "low": float(beta.ppf(tail, hits, misses + 1.0)) if hits else 0.0,
                "high": high,
                "classical": classical,
                "width": widths[0],
                "classical width": widths[1],
                "width ratio": widths[0] / widths[1] if widths[1] else None,
                "ok": high >= AIM and (gain + doubt >= -0.01 or widths[1] == 0.0),
            }
        )
    return rows


def print_json(rows: list[dict[str, Any]]) -> None:
    """One object per line: the coverage of each number, and its width."""
    for row in rows:
        name, private, classical = f"{row['statistic']}: {row['group']}", row["private"], row["classical"]
        for title, value, reference, ratio, aim, ok in (
            (f"coverage/{name}", private, classical, private / classical if classical else None, AIM, row["ok"]),
            (f"width/{name}", row["width"], row["classical width"], row["width ratio"], None, True),
        ):
            print(json.dumps({"name": title, "value": value, "reference": reference, "ratio": ratio, "aim": aim, "ok": ok}))


def print_table(rows: list[dict[str, Any]], surveys: int) -> None:
    """For people."""
    columns = ["statistic", "group", "private", "low", "high", "classical", "width ratio", "ok"]
    shown = [
        {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
        | {"ok": "yes" if row["ok"] else "NO"}
        for row in rows
    ]
    private = [row["private"] for row in rows]
    print(f"Coverage of 95 % intervals in {surveys:,} simulated surveys of the demo, private (99.9 % interval) and classical\n")
    print(text_table(shown, columns))
    print(
        f"\n{len(rows)} numbers: private coverage {min(private):.4f} to {max(private):.4f}, mean {np.mean(private):.4f}; "
        f"classical mean {np.mean([row['classical'] for row in rows]):.4f}; {sum(not row['ok'] for row in rows)} not ok"
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surveys", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="1,000 surveys, under a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    arguments = parser.parse_args()
    surveys = 1_000 if arguments.quick else arguments.surveys
    with tempfile.TemporaryDirectory() as name, Progress(console=Console(stderr=True)) as progress:
        folder = Path(name)
        making = progress.add_task("making the register", total=2)
        make_register(folder / "register.parquet")
        progress.advance(making)
        plan = plan_of(folder)
        Register(plan).write(folder)
        progress.advance(making)
        tally = simulate(folder, surveys, arguments.workers, progress)
    rows = report(plan, tally, surveys)
    if arguments.json:
        print_json(rows)
    else:
        print_table(rows, surveys)


if __name__ == "__main__":
    main()
