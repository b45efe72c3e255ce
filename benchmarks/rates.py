"""Figures 8 and 13 of Hu, Drechsler and Kim: seconds to simulate noisy medians for all rates and epsilons.

    python benchmarks/rates.py [--draws 1000] [--quick] [--json]

Populations of 10,001, six epsilons, rates 0.01, 0.1 ... 0.9 and 1, two methods (smooth with a calibrated beta, exponential).
Rows: `figure/NAME` is the time of `median_rates`, with draws, errors and ratios; the reference is the function for one sample,
`smooth_sensitivity`, in a loop over a few samples of each setting, scaled to all of them, and does the smooth half of the work
only. `sensitivities/NAME` is the time of `smooth_sensitivities` alone on the same samples, against the same reference.
`memory` is the peak of this process in MB. Aims are seconds and MB, not ratios.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dpsurvey.mechanism.many_sensitivities import smooth_sensitivities
from dpsurvey.mechanism.order_statistic import Place, smooth_sensitivity
from dpsurvey.mechanism.smooth import calibrated
from dpsurvey.planning.medians import EPSILONS, RATES, median_rates, sample_size
from dpsurvey.privacy.rounding import unamplified
from dpsurvey_papers import population

FIGURES = {"lognormal": (0.0, 2000.0), "bimodal": (0.0, 1.0)}
FEW = 8


def seconds(work: Callable[..., object], *given: object) -> float:
    """The time of one call."""
    start = time.perf_counter()
    work(*given)
    return time.perf_counter() - start


def sensitivity_times(values: np.ndarray, bounds: tuple[float, float], draws: int) -> tuple[float, float]:
    """Seconds for the smooth sensitivities of all settings: of all samples at once, and one by one (scaled from a few)."""
    rng, together, apart = np.random.default_rng(1), 0.0, 0.0
    for rate in RATES[:-1]:
        n = sample_size(rate, len(values))
        chosen = np.argpartition(rng.random((draws, len(values))), n - 1, axis=1)[:, :n]
        samples = np.sort(values[chosen], axis=1)
        for epsilon in EPSILONS:
            _, beta = calibrated(unamplified(epsilon, n / len(values)), 0.5 / n)
            asked = Place.median(n), beta, *bounds
            together += seconds(smooth_sensitivities, samples, *asked)
            few = samples[:FEW]
            apart += seconds(lambda few=few, asked=asked: [smooth_sensitivity(one, *asked) for one in few]) * draws / len(few)
    return together, apart


def rows(draws: int) -> list[dict[str, object]]:
    """All measurements."""
    found: list[dict[str, object]] = []

    def add(name: str, value: float, reference: float, aim: float | None) -> None:
        ok = None if aim is None else value <= aim
        found.append({"name": name, "value": value, "reference": reference, "ratio": value / reference, "aim": aim, "ok": ok})

    for name, bounds in FIGURES.items():
        values = population(name)
        whole = seconds(lambda values=values, bounds=bounds: median_rates(values, bounds=bounds, draws=draws))
        together, apart = sensitivity_times(values, bounds, draws)
        add(f"figure/{name}", whole, apart, 60.0)
        add(f"sensitivities/{name}", together, apart, None)
    status = Path("/proc/self/status")
    if status.exists():
        peak = int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) / 1024.0
        # What one copy of the largest samples needs.
        add("memory", peak, draws * 9001 * 8 / 2**20, 2000.0)
    return found


def main() -> None:
    """Print the table, or one JSON object for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="100 draws")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = rows(100 if given.quick else given.draws)
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
