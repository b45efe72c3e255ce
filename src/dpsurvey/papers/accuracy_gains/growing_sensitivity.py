"""Section 4.3: how sensitivities grow from the population to a sample, here and for other populations of the same law."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import bounds_of, population
from ..item import Found, Rows, Run
from .as_printed import printed
from .laplace_mean import mean_plan
from .rates import SIZE, spent
from .simulated import SIZES, middle, noise_of, samples

EPSILONS = (0.1, 1.0)


def growth(run: Run) -> Found:
    """Ratios of smooth sensitivities for further lognormal populations; what a sample spends; the mean's sensitivity."""
    rows: Rows = []
    draws, others = run.draws(1000, 60), run.draws(20, 6)
    for number in range(others + 1):
        values = population("lognormal") if number == 0 else np.sort(run.rng(1, number).lognormal(5.0, 0.5, SIZE))
        values = np.clip(values, *bounds_of("lognormal"))
        whole = {epsilon: float(noise_of(values[None, :], epsilon, SIZE, bounds_of("lognormal"))[0][0]) for epsilon in EPSILONS}
        for n in SIZES:
            drawn = samples(values, n, draws, run.rng(2, number, n))
            for epsilon in EPSILONS:
                found = middle(noise_of(drawn, epsilon, SIZE, bounds_of("lognormal")).sensitivities / whole[epsilon])
                rows.append(
                    {
                        "setting": f"ε = {epsilon:g}, n = {n:,}",
                        "epsilon": epsilon,
                        "n": n,
                        "population": "the paper's population" if number == 0 else "others of the same law",
                        "ratio": found.value,
                        "error": found.error,
                    }
                )
        run.progress("000-section-4-3", number + 1, others + 1)
    for epsilon in EPSILONS:
        for n in SIZES:
            shown = {"setting": f"ε = {epsilon:g}, n = {n:,}", "epsilon": epsilon, "n": n, "population": "as printed"}
            rows.append(shown | {"ratio": float(printed("000-figure-6", f"ε {epsilon:g}, n {n}"))})
    inside = {epsilon: spent(epsilon, SIZES[1]) for epsilon in EPSILONS}
    noise = {n: mean_plan(n, 1.0).predictions[0]["se_noise"] * (spent(1.0, n) if n < SIZE else 1.0) for n in (SIZE, *SIZES)}
    values_found: dict[str, Any] = {
        "spent at 0.1": inside[EPSILONS[0]],
        "spent at 1": inside[EPSILONS[1]],
        "factor": inside[EPSILONS[1]] / inside[EPSILONS[0]],
        "mean 1001": noise[SIZES[0]] / noise[SIZE],
        "mean 101": noise[SIZES[1]] / noise[SIZE],
    }
    elsewhere = [row for row in rows if row["population"] == "others of the same law"]
    ranges = []
    for setting in dict.fromkeys(row["setting"] for row in elsewhere):
        own = [float(row["ratio"]) for row in elsewhere if row["setting"] == setting]
        ranges.append(f"{min(own):.3g} to {max(own):.3g} ({setting})")
    note = f"Medians of the ratios in {others} other populations: {'; '.join(ranges)}. They are no property of the distribution."
    return Found(rows, values_found, note)


def draw_growth(rows: Rows) -> Any:
    """A dot for each population."""
    from ..pictures import dots, logarithmic, titled

    chart = dots(
        sorted(rows, key=lambda row: ("others of the same law", "as printed", "the paper's population").index(row["population"])),
        "setting",
        "ratio",
        "population",
        x_title="median ratio of smooth sensitivities, sample over population",
        x_scale=logarithmic(1.0, 40.0),
    ).properties(height=180)
    return titled(
        chart,
        "How the smooth sensitivity grows, for the paper's population and for others",
        "lognormal(5, 0.5), 10,001 values each",
    )
