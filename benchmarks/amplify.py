"""How long `amplify` takes, in process, as a ratio to the time the user may be made to wait.

    python benchmarks/amplify.py [--quick] [--json]

Value: the median seconds of one call; reference: the aim for its kind (5 ms for closed forms, 0.2 s for the exact
programmes at any population size, 1 s for 100,000 clusters of unequal sizes), or the linear programme in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import dpsurvey as ds
from dpsurvey import PrivacyProfile, amplify, invert
from dpsurvey.design import Design, Loss
from dpsurvey.loss.curves import SampledCurve
from dpsurvey.loss.worst_case import worst_loss
from dpsurvey.privacy.relation import Relation

CLOSED, PROGRAMME, LARGE = 0.005, 0.2, 1.0
Case = tuple[str, Design, str, str, float]


def cases(clusters: int) -> Iterator[Case]:
    """Every design, with its kind's aim."""
    sizes = tuple(np.random.default_rng(20261115).integers(1, 400, clusters).tolist())
    yield "srs", ds.srs(n=1000, size=50_000), "replace-one", "replace-one", CLOSED
    yield "with-replacement", ds.with_replacement(1000, size=50_000), "replace-one", "replace-one", CLOSED
    yield "poisson", ds.poisson(0.02), "add-remove", "add-remove", CLOSED
    yield "poisson, replaced", ds.poisson(0.02), "add-remove", "replace-one", CLOSED
    yield "randomised rounding", ds.proportional(0.1, rounding="random"), "add-remove", "add-remove", CLOSED
    yield "nearest rounding", ds.proportional(0.1, rounding="nearest"), "add-remove", "add-remove", CLOSED
    yield "cluster, cap", ds.cluster("cluster", ds.srs(n=50), clusters=1000, cap=20), "add-remove", "add-remove", CLOSED
    yield (
        "two-stage, rate",
        ds.stages(ds.cluster("cluster", ds.srs(n=50), sizes=(20,) * 1000), ds.poisson(0.2)),
        "add-remove",
        "add-remove",
        CLOSED,
    )
    yield (
        "two-stage, take",
        ds.stages(ds.cluster("cluster", ds.srs(n=50), sizes=(20,) * 1000), ds.srs(n=4)),
        "add-remove",
        "replace-one",
        CLOSED,
    )
    yield (
        "pps, sampford",
        ds.pps("size", probabilities=(0.1,) * 100, measure="public", method="sampford"),
        "replace-one",
        "replace-one",
        CLOSED,
    )
    yield "pps cluster", ds.cluster("cluster", ds.pps("size", n=1), sizes=(20,) * 100), "add-remove", "add-remove", CLOSED
    yield "systematic, random order", ds.systematic(step=10, size=1000, order="random"), "replace-one", "replace-one", CLOSED
    yield (
        "systematic, inserted unit",
        ds.systematic(step=10, size=10000, order="as listed"),
        "add-remove",
        "add-remove",
        PROGRAMME,
    )
    yield (
        "systematic, inserted unit, exact",
        ds.systematic(step=4, size=20, order="as listed"),
        "add-remove",
        "add-remove",
        PROGRAMME,
    )
    yield (
        "pps systematic, exact",
        ds.pps("size", probabilities=(0.5,) * 8, measure="public", method="systematic", order="as listed"),
        "replace-one",
        "replace-one",
        PROGRAMME,
    )
    for population in (1_000, 15_000, 1_000_000):
        name = f"{population:,} units"
        yield f"rounding, {name}", ds.proportional(0.1, rounding="random", size=population), "add-remove", "add-remove", PROGRAMME
        law = (population / 2, population / 100)
        yield f"random size, {name}", ds.random_size(population, gaussian=law), "add-remove", "replace-one", PROGRAMME
    table = tuple((size, size // 10 + k, 0.5) for size in (1000, 1001) for k in (0, 1))
    yield "allocation table", ds.size_rule(table), "add-remove", "add-remove", PROGRAMME
    yield (
        f"{clusters:,} unequal clusters",
        ds.cluster("cluster", ds.srs(n=clusters // 10), sizes=sizes),
        "add-remove",
        "add-remove",
        LARGE,
    )


def from_scratch(design: Design, base: Any, neighbours: Any) -> Loss:
    """One answer for a design that has nothing computed yet."""
    return amplify(replace(design), 0.5, base=base, neighbours=neighbours)  # type: ignore[type-var]


def seconds(work: Callable[[], object], times: int) -> float:
    """The median wall time, after one call that warms up imports."""
    work()
    measured = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        measured.append(time.perf_counter() - start)
    return statistics.median(measured)


def run(clusters: int, times: int) -> Iterator[dict[str, object]]:
    """Measure every case."""

    def row(name: str, value: float, aim: float) -> dict[str, object]:
        return {"name": name, "value": value, "reference": aim, "ratio": value / aim, "aim": 1.0, "ok": value <= aim}

    for name, selection, base, neighbours, aim in cases(clusters):
        few = 3 if aim == LARGE else times
        call = partial(from_scratch, selection, base, neighbours)
        yield row(f"amplify/{name}", seconds(call, few), aim)
    law = ds.random_size(60, gaussian=(30.0, 8.0))
    plain = seconds(lambda: worst_loss(law.contests(Relation.REPLACE_ONE)[0], 0.5, "add-remove"), 3)
    exact = seconds(partial(from_scratch, law, "add-remove", "replace-one"), times)
    yield row("chain against the linear programme, 60 units", exact, plain)
    srs = ds.srs(n=1000, size=50_000)
    yield row("invert/srs", seconds(lambda: invert(srs, 1.0, base="replace-one", neighbours="replace-one"), times), CLOSED)
    curve = PrivacyProfile.gaussian(0.5, "add-remove").curve
    whole = SampledCurve(curve, Relation.ADD_REMOVE, Relation.ADD_REMOVE, ds.proportional(0.1, rounding="random"))
    yield row("curve/randomised rounding, Gaussian, delta(epsilon)", seconds(lambda: whole.delta(0.3), times), CLOSED)
    yield row("curve/randomised rounding, Gaussian, epsilon(delta)", seconds(lambda: whole.epsilon(1e-6), times), PROGRAMME)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="10,000 clusters and fewer repetitions")
    options = parser.parse_args()
    rows = list(run(10_000 if options.quick else 100_000, 5 if options.quick else 21))
    if options.json:
        for row in rows:
            print(json.dumps(row))
        return
    table = Table("name", "milliseconds", "aim, ms", "ratio", "ok")
    for row in rows:
        value, aim, ratio = float(str(row["value"])), float(str(row["reference"])), float(str(row["ratio"]))
        table.add_row(str(row["name"]), f"{1000 * value:.2f}", f"{1000 * aim:g}", f"{ratio:.2f}", "yes" if row["ok"] else "NO")
    Console().print(table)


if __name__ == "__main__":
    main()
