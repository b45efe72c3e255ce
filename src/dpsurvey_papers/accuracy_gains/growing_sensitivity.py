"""Section 4.3: how sensitivities grow from the population to a sample, here and for other populations of the same law."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..data import bounds_of, population
from ..item import Result, Rows, Run, Value
from .as_printed import printed
from .laplace_mean import mean_plan
from .rates import SIZE, spent
from .simulated import FAR, SIZES, Array, middle, noise_of, samples

EPSILONS = (0.1, 1.0)
# Draws of noise for each sample, and how near a simulated variance must be pinned down to speak of it.
REPEATED, SHARP = 400, 0.1


class TotalVariance(NamedTuple):
    """The simulated variance of a noisy median over the sum of its two parts, and the share of sampling in that sum."""

    ratio: Value
    sampling: float


def total_variance(medians: Array, scales: Array, rng: np.random.Generator) -> TotalVariance:
    """Noisy medians of the same samples, many for each, against the mean variance of noise plus the variance of medians.

    >>> found = total_variance(np.array([0.0, 1.0] * 20), np.full(40, 0.5), Run(quick=True, seed=1).rng(1))
    >>> round(found.sampling, 3), abs(found.ratio.value - 1.0) < 4.9 * found.ratio.error
    (0.333, True)
    """
    away = (medians - medians.mean())[:, None]
    noisy = away + rng.laplace(0.0, 1.0, (len(medians), REPEATED)) * scales[:, None]
    noise, sampling = float((2.0 * scales**2).mean()), float((away**2).mean())
    # What is left of each square has mean 0 given its sample, if the parts add up.
    left = noisy**2 - away**2 - 2.0 * scales[:, None] ** 2
    error = float(left.std()) / math.sqrt(left.size)
    return TotalVariance(
        Value(float((noisy**2).mean()) / (noise + sampling), error / (noise + sampling)), sampling / (noise + sampling)
    )


def growth(run: Run) -> Result:
    """Ratios of smooth sensitivities for further lognormal populations; what a sample spends; the mean's sensitivity."""
    rows: Rows = []
    whole_and_parts: list[TotalVariance] = []
    draws, others = run.draws(1000, 60), run.draws(20, 6)
    for number in range(others + 1):
        values = population("lognormal") if number == 0 else np.sort(run.rng(1, number).lognormal(5.0, 0.5, SIZE))
        values = np.clip(values, *bounds_of("lognormal"))
        whole = {epsilon: float(noise_of(values[None, :], epsilon, SIZE, bounds_of("lognormal"))[0][0]) for epsilon in EPSILONS}
        for n in SIZES:
            drawn = samples(values, n, draws, run.rng(2, number, n))
            for epsilon in EPSILONS:
                noise = noise_of(drawn, epsilon, SIZE, bounds_of("lognormal"))
                found = middle(noise.sensitivities / whole[epsilon])
                if number == 0:
                    rng = run.rng(3, n, round(10 * epsilon))
                    whole_and_parts.append(total_variance(drawn[:, n // 2], noise.scales, rng))
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
    of_mean = {n: mean_plan(n, 1.0).predictions[0]["se_noise"] * (spent(1.0, n) if n < SIZE else 1.0) for n in (SIZE, *SIZES)}
    grows = [of_mean[n] / of_mean[SIZE] for n in SIZES]
    values_found: dict[str, Any] = {
        "spent at 0.1": inside[EPSILONS[0]],
        "spent at 1": inside[EPSILONS[1]],
        "factor": inside[EPSILONS[1]] / inside[EPSILONS[0]],
        "mean 1001": grows[0],
        "mean 101": grows[1],
        "total variance": add_up([each.ratio for each in whole_and_parts]),
    }
    elsewhere = [row for row in rows if row["population"] == "others of the same law"]
    ranges = []
    for setting in dict.fromkeys(row["setting"] for row in elsewhere):
        own = [float(row["ratio"]) for row in elsewhere if row["setting"] == setting]
        ranges.append(f"{min(own):.3g} to {max(own):.3g} ({setting})")
    shares = [each.sampling for each in whole_and_parts]
    farthest = max(whole_and_parts, key=lambda each: abs(float(each.ratio.value) - 1.0)).ratio
    note = (
        f"Medians of the ratios in {others} other populations: {'; '.join(ranges)}. They are no property of the distribution. "
        f"The mean's sensitivity grows by the factors {grows[0]:.3f} and {grows[1]:.2f}, N/n. The variance of noisy sample "
        f"medians is simulated in these four settings, where sampling has from {min(shares):.0%} to {max(shares):.0%} of it, "
        f"with {REPEATED} draws of noise for each sample; the one farthest from the sum of its parts is "
        f"{float(farthest.value):.3f} of it, with a standard error of {farthest.error:.3f}. It is called the sum within {FAR:g} "
        f"standard errors, which must be below {SHARP:.0%}."
    )
    return Result(rows, values_found, note)


def add_up(ratios: list[Value]) -> str:
    """Whether simulated variances are the sums of their parts, as sharply as is asked for."""
    if any(FAR * each.error > SHARP for each in ratios):
        return "not known"
    return "the sum of its parts" if all(abs(float(each.value) - 1.0) <= FAR * each.error for each in ratios) else "another sum"


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
