"""Figures 6, 7 and 10 to 12: how the smooth sensitivity and the noise change from the population to its samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..data import bounds_of, population
from ..item import Result, Rows, Run, Value
from .simulated import EPSILONS, FAR, SIZES, Array, Simulation, compared, middle, panel_rows, simulate

FULL, QUICK = 1000, 400
STREAM = {"lognormal": 1, "bimodal": 2}


def _simulated(name: str, run: Run, quick: int = QUICK) -> Simulation:
    return simulate(name, run, run.draws(FULL, quick), STREAM[name])


def _n(n: int) -> str:
    return f"n = {n:,}"


def ratios_of_sensitivities(run: Run) -> Result:
    """Figure 6: smooth sensitivities of lognormal samples over that of their population, and the medians in the text."""
    found = _simulated("lognormal", run)
    rows = _ratio_rows(found)
    medians = {(epsilon, n): middle(found.ratios(epsilon, n)) for epsilon in EPSILONS for n in SIZES}
    by_size = all(medians[epsilon, SIZES[0]].value < medians[epsilon, SIZES[1]].value for epsilon in EPSILONS)  # type: ignore[operator]
    by_epsilon = all(
        medians[small, n].value < medians[large, n].value  # type: ignore[operator]
        for n in SIZES
        for small, large in itertools.pairwise(EPSILONS)
    )
    few, many = EPSILONS[0], EPSILONS[-1]
    values: dict[str, Any] = {f"ε {epsilon:g}, n {n}": medians[epsilon, n] for epsilon in (few, many) for n in SIZES}
    values["rises"] = "yes" if by_size and by_epsilon else "no"
    return Result(rows, values, "The medians belong to this population: see Section 4.3 for others of the same law.")


def ratios_with_a_gap(run: Run) -> Result:
    """Figure 10: the same for two groups with a gap beside the median: most samples are less sensitive."""
    found = _simulated("bimodal", run)
    values: dict[str, Any] = {}
    for epsilon in EPSILONS:
        shares = [float((found.ratios(epsilon, n) < 1.0).mean()) for n in SIZES]
        errors = [FAR * np.sqrt(share * (1.0 - share) / len(found.medians[n])) for share, n in zip(shares, SIZES, strict=True)]
        most = all(share - error > 0.5 for share, error in zip(shares, errors, strict=True))
        values[f"ε {epsilon:g}"] = "most" if most else "not most"
    smaller = {(epsilon, n): float((found.ratios(epsilon, n) < 1.0).mean()) for epsilon in EPSILONS for n in SIZES}
    note = (
        f"From {min(smaller.values()):.1%} to {max(smaller.values()):.1%} of the samples are less sensitive than the population. "
        f"Most: more than half for both sizes, beyond {FAR:g} standard errors."
    )
    return Result(_ratio_rows(found), values, note)


def _ratio_rows(found: Simulation) -> Rows:
    return [
        row
        for epsilon in EPSILONS
        for row in panel_rows(f"ε = {epsilon:g}", {_n(n): found.ratios(epsilon, n) for n in SIZES}, "ratio")
    ]


def lognormal_noise(run: Run) -> Result:
    """Figure 7: the noise on the lognormal population's median and on those of its samples."""
    return _amounts_of_noise("lognormal", run)


def bimodal_noise(run: Run) -> Result:
    """Figure 12: the same for two groups."""
    return _amounts_of_noise("bimodal", run)


def _amounts_of_noise(name: str, run: Run) -> Result:
    """Noise as it falls, and which variance is the smaller one: from the scales, so that no noise blurs it."""
    # Two of the sample sizes need nearly the same noise: to tell them apart takes all draws.
    found = _simulated(name, run, FULL)
    rows: Rows = []
    values: dict[str, Any] = {}
    ratios = []
    for place, epsilon in enumerate(EPSILONS):
        groups: dict[str, Array] = {}
        for n in (found.size, *SIZES):
            scales = found.noise[epsilon, n].scales
            rng, draws = run.rng(STREAM[name], 10 + place, n), run.draws(FULL, QUICK)
            groups["population" if n == found.size else _n(n)] = rng.laplace(0.0, 1.0, draws) * np.resize(scales, draws)
        rows += panel_rows(f"ε = {epsilon:g}", groups, "noise")
        for n in SIZES:
            ratio = found.variance(epsilon, n)
            ratios.append(f"{float(ratio.value):.3g} ± {ratio.error:.1g} (ε = {epsilon:g}, {_n(n)})")
            values[f"ε {epsilon:g}, n {n}"] = compared(ratio)
    if name == "lognormal":
        first, second = (found.variance(EPSILONS[0], n) for n in SIZES)
        between = Value(float(second.value) / float(first.value), np.hypot(second.error, first.error) / float(first.value))
        values["further"] = compared(between)
    note = (
        f"Variance of the noise over that on the population, ± one standard error: {', '.join(ratios)}. Less and more are said "
        f"beyond {FAR:g} standard errors."
    )
    if name == "lognormal":
        part = float(found.variance(EPSILONS[1], SIZES[0]).value)
        note += (
            f" What is called a small reduction, at ε = {EPSILONS[1]:g} and {_n(SIZES[0])}, leaves {part:.3f} of the variance."
        )
    return Result(rows, values, note)


def sample_medians(run: Run) -> Result:
    """Figure 11: medians of samples from two groups, without noise: on both sides of the gap, few near the true median."""
    found = _simulated("bimodal", run)
    values, truth = population("bimodal"), float(found.medians[found.size][0])
    beyond = float(values[values > truth].min())
    figures: dict[str, Any] = {"median": truth}
    for n in SIZES:
        own = found.medians[n]
        above = float((own >= beyond).mean())
        sure = FAR * np.sqrt(0.25 / len(own))
        figures[f"sides, n {n}"] = "bimodal" if sure < above < 1.0 - sure else "one group"
        # As many as lie within a fiftieth of the range of the true median, among those that lie in a fiftieth elsewhere.
        near = float((np.abs(own - truth) < 0.01).mean())
        width = (bounds_of("bimodal")[1] - bounds_of("bimodal")[0]) / 50.0
        highest = max(float(((own >= at) & (own < at + width)).mean()) for at in np.arange(0.0, 1.0, width))
        figures[f"density, n {n}"] = "low" if near < 0.25 * highest else "high"
    groups = {"population": found.medians[found.size], **{_n(n): found.medians[n] for n in SIZES}}
    rows = panel_rows("medians", {name: own for name, own in groups.items() if name != "population"}, "median")
    rows.append({"panel": "truth", "group": "population", "median": truth})
    note = (
        f"The gap reaches from the median, {truth:.4f}, to {beyond:.4f}. Bimodal: medians on both sides of it, beyond {FAR:g} "
        "standard errors. The density around the true median is called low if fewer than a quarter lie there of those in the "
        "fiftieth of the range that has most."
    )
    return Result(rows, figures, note)


def draw_violins(
    title: str, subtitle: str, column: str, y_title: str, clip: Callable[[Rows], tuple[float, float]] | None, rows: Rows
) -> Any:
    """Panels of violins, one for each epsilon."""
    from ..pictures import beside, panels_of, violins

    def panel(own: Rows, name: str) -> Any:
        level = (1.0, "") if column == "ratio" else (0.0, "")
        return violins(
            own, "group", column, y_title=y_title, level=level, title=name, clip=clip(own) if clip else None, size=(230, 260)
        )

    return beside(panels_of(rows, "panel", panel), title, subtitle)


def most_of(column: str, rows: Rows) -> tuple[float, float]:
    """The middle 98 per cent of a panel, so that a few far values do not flatten the rest."""
    low, high = np.quantile([row[column] for row in rows], [0.01, 0.99]).tolist()
    return float(low), float(high)


def draw_sample_medians(rows: Rows) -> Any:
    """Two violins and the true median."""
    from ..pictures import titled, violins

    truth = next(row["median"] for row in rows if row["panel"] == "truth")
    own = [row for row in rows if row["panel"] == "medians"]
    chart = violins(own, "group", "median", y_title="sample median", level=(truth, ""), size=(420, 300))
    return titled(
        chart, "Medians of samples from two groups", "dashed: the median of the population, where few sample medians lie"
    )


draw_ratios = partial(
    draw_violins,
    "Smooth sensitivity of the sample over that of the population",
    "lognormal; samples are more sensitive, the more so the smaller they are and the larger ε (scales differ)",
    "ratio",
    "ratio of smooth sensitivities",
    None,
)
draw_ratios_with_a_gap = partial(
    draw_violins,
    "Smooth sensitivity of the sample over that of the population",
    "two groups with a gap beside the median: below the dashed line the sample is less sensitive",
    "ratio",
    "ratio of smooth sensitivities",
    None,
)
draw_noise = partial(
    draw_violins,
    "Noise added to the median",
    "lognormal; a sample has less at ε = 0.1, more at ε = 1 (scales differ; the middle 98 per cent)",
    "noise",
    "noise",
    partial(most_of, "noise"),
)
draw_noise_with_a_gap = partial(
    draw_violins,
    "Noise added to the median",
    "two groups with a gap beside the median: less noise on samples throughout (scales differ; the middle 98 per cent)",
    "noise",
    "noise",
    partial(most_of, "noise"),
)
