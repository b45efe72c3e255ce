"""The private allocation of 200,000 units over 10,000 strata: seconds, for noise on each stratum mean and on one mean.

    python benchmarks/allocation.py [--strata 10000] [--quick] [--json]

Rows: `allocate/strata` and `allocate/total` are one call of `allocate("private", ...)`, checks and dictionaries included, at
three guarantees. The reference is the plain greedy of the textbook in the same run: a heap, one unit at a time to where it saves
most. `same/strata` is the relative difference between the two variances; its reference is 1. Aims: seconds, and 1e-9 for it.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dpsurvey.design import Allocation, allocate

EPSILONS = (0.05, 0.5, 2.0)


def best(work: Callable[[], Allocation], times: int = 3) -> tuple[float, Allocation]:
    """The least time of a few runs, and what came out."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        made = work()
        found.append(time.perf_counter() - start)
    return min(found), made


def figures(strata: int) -> dict[str, Any]:
    """Sizes that differ by a factor of some hundred, and spreads from a tenth to all of what the range allows."""
    random = np.random.default_rng(7)
    names = [f"stratum {number:05d}" for number in range(strata)]
    sizes = random.lognormal(6.0, 1.0, strata).astype(int) + 20
    spreads = random.uniform(5.0, 49.0, strata)
    return {
        "sizes": dict(zip(names, sizes.tolist(), strict=True)),
        "deviations": dict(zip(names, spreads.tolist(), strict=True)),
    }


def one_by_one(sizes: list[int], deviations: list[float], epsilon: float, n: int) -> float:
    """The plain greedy; the standard error of what it finds."""
    total, chance = sum(sizes), math.expm1(epsilon)

    def cost(h: int, take: int) -> float:
        reach = take * math.log1p(chance * sizes[h] / take)
        return (sizes[h] / total) ** 2 * (deviations[h] ** 2 * (1 / take - 1 / sizes[h]) + 2e4 / reach**2)

    takes = [1] * len(sizes)
    costs = [cost(h, 1) for h in range(len(sizes))]
    heap = [(cost(h, 2) - costs[h], h) for h in range(len(sizes))]
    heapq.heapify(heap)
    for _ in range(n - len(sizes)):
        saved, h = heapq.heappop(heap)
        takes[h] += 1
        costs[h] += saved
        if takes[h] < sizes[h]:
            heapq.heappush(heap, (cost(h, takes[h] + 1) - costs[h], h))
    return math.sqrt(math.fsum(cost(h, take) for h, take in enumerate(takes)))


def rows(strata: int) -> list[dict[str, object]]:
    """All measurements."""
    found: list[dict[str, object]] = []
    given, n = figures(strata), 20 * strata

    def add(name: str, value: float, reference: float, aim: float) -> None:
        ok = value <= aim
        found.append({"name": name, "value": value, "reference": reference, "ratio": value / reference, "aim": aim, "ok": ok})

    for epsilon in EPSILONS:
        start = time.perf_counter()
        slow = one_by_one(list(given["sizes"].values()), list(given["deviations"].values()), epsilon, n)
        plain = time.perf_counter() - start
        for release in ("strata", "total"):

            def work(release: str = release, epsilon: float = epsilon) -> Allocation:
                return allocate("private", **given, n=n, epsilon=epsilon, ranges=100.0, release=release, source="made up")

            seconds, made = best(work)
            add(f"allocate/{release}/epsilon {epsilon:g}", seconds, plain, 1.0)
            if release == "strata":
                add(f"same/strata/epsilon {epsilon:g}", abs((made.se or 0.0) ** 2 / slow**2 - 1.0), 1.0, 1e-9)
    return found


def main() -> None:
    """Print the table, or one JSON object for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="1,000 strata")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = rows(1_000 if given.quick else given.strata)
    if given.json:
        for row in found:
            print(json.dumps(row))
        return
    table = Table("name", "value", "reference", "ratio", "aim", "ok")
    for row in found:
        numbers = (f"{row[key]:.3g}" for key in ("value", "reference", "ratio", "aim"))
        table.add_row(str(row["name"]), *numbers, "yes" if row["ok"] else "NO")
    Console().print(table)


if __name__ == "__main__":
    main()
