"""Figures 1, 2 and 9: the simulated populations, and noise on the mean and the median of the first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import dpsurvey as ds
from dpsurvey.mechanism import Laplace, Place, global_sensitivity, smooth_printed, smooth_sensitivity

from ..data import bounds_of, population
from ..item import Result, Rows, Run, Value
from .laplace_mean import mean_plan
from .simulated import EPSILONS, FAR, Array, panel_rows

DRAWS = 1000


def density(values: Array, bins: int = 80) -> Rows:
    """A smoothed histogram of values as rows."""
    counts, edges = np.histogram(values, bins=bins, density=True)
    kernel = np.exp(-0.5 * (np.arange(-4, 5) / 1.3) ** 2)
    smooth = np.convolve(counts, kernel / kernel.sum(), mode="same")
    return [
        {"panel": "population", "value": float(0.5 * (low + high)), "density": float(height)}
        for low, high, height in zip(edges[:-1], edges[1:], smooth, strict=True)
    ]


def noisy_means(run: Run) -> Result:
    """Figure 1: the Beta(2, 10) population, and 1,000 noisy means of it for three epsilons."""
    values = population("beta")
    truth = float(values.mean())
    groups: dict[str, Array] = {}
    spreads = []
    for place, epsilon in enumerate(EPSILONS):
        scale = mean_plan(len(values), epsilon).predictions[0]["se_noise"] / math.sqrt(2.0)
        spreads.append(scale * math.sqrt(2.0))
        groups[f"ε = {epsilon:g}"] = truth + run.rng(place).laplace(0.0, scale, DRAWS)
    rows = density(values) + panel_rows("means", groups, "mean")
    rows.append({"panel": "truth", "mean": truth})
    drawn = [float(own.std()) for own in groups.values()]
    values_found: dict[str, Any] = {
        "concentrated": "yes" if drawn == sorted(drawn, reverse=True) else "no",
        # Three standard deviations at the smallest epsilon, against the mean itself.
        "utility": "high" if 3.0 * spreads[0] < 0.05 * truth else "low",
    }
    note = (
        f"Standard deviations of the noise: {', '.join(f'{each:.2g}' for each in spreads)}; the mean is {truth:.4f}. Utility is "
        "called high if three standard deviations at the smallest ε are below 5 % of the mean."
    )
    return Result(rows, values_found, note)


def draw_noisy_means(rows: Rows) -> Any:
    """The population at the left, violins of noisy means at the right."""
    from ..pictures import beside, named, shape, violins

    truth = next(row["mean"] for row in rows if row["panel"] == "truth")
    own = [row for row in rows if row["panel"] == "population"]
    left = named(shape(own, "value", "density", x_title="value", y_title="density"), "population")
    right = violins(
        [row for row in rows if row["panel"] == "means"],
        "group",
        "mean",
        y_title="noisy mean",
        level=(truth, ""),
        title="noisy means",
    )
    return beside([left, right], "10,001 values of Beta(2, 10) and their noisy mean", "dashed: the mean without noise")


def noisy_medians(run: Run) -> Result:
    """Figure 2: 1,000 noisy medians for the global and for the smooth sensitivity."""
    values, (low, high) = population("beta"), bounds_of("beta")
    place, delta = Place.median(len(values)), 1.0 / (2 * len(values))
    truth, rows = float(values[place.lower - 1]), []
    within: dict[float, float] = {}
    spreads: dict[str, list[float]] = {"global sensitivity": [], "smooth sensitivity": []}
    for kind, name in enumerate(spreads):
        groups: dict[str, Array] = {}
        for number, epsilon in enumerate(EPSILONS):
            if kind == 0:
                # In steps of a millionth of the range, as noise on a lattice is made.
                steps = Laplace.calibrate(
                    ds.PrivacyProfile.pure(epsilon, "replace-one"), 1e6 * global_sensitivity(place, low, high)
                )
                scale = steps.scale / 1e6
            else:
                alpha, beta, _ = smooth_printed(epsilon, delta)
                scale = smooth_sensitivity(values, place, beta, low, high) / alpha
                within[epsilon] = 1.0 - 0.5 * math.exp((low - truth) / scale) - 0.5 * math.exp((truth - high) / scale)
            spreads[name].append(math.sqrt(2.0) * scale)
            groups[f"ε = {epsilon:g}"] = truth + run.rng(kind, number).laplace(0.0, scale, DRAWS)
            if kind == 0 and number == 0:
                shortest, usual, longest = (largest_of(DRAWS, scale, chance) for chance in (5e-7, 0.5, 1.0 - 5e-7))
        rows += panel_rows(name, groups, "median")
    rows.append({"panel": "truth", "median": truth})
    better = all(smooth < wide for wide, smooth in zip(*spreads.values(), strict=True))
    figures: dict[str, Any] = {
        "delta": delta,
        "caption": delta,
        "lowest": interval(truth - longest, truth - shortest),
        "highest": interval(truth + shortest, truth + longest),
        "within": "almost all" if within[EPSILONS[0]] > 0.95 else f"{within[EPSILONS[0]]:.0%}",
        "reduction": "smaller" if better else "not smaller",
    }
    shares = ", ".join(f"{share:.4f} at ε = {epsilon:g}" for epsilon, share in within.items())
    note = (
        f"Chance of a noisy median inside [0, 1] with smooth sensitivity: {shares}; above 0.95 it is called almost all. The "
        f"lowest and the highest of {DRAWS:,} noisy medians at ε = 0.1 with global sensitivity are {truth - usual:.1f} and "
        f"{truth + usual:.1f} in the middle, and outside of {truth - longest:.0f} to {truth - shortest:.0f} and of "
        f"{truth + shortest:.0f} to {truth + longest:.0f} once in a million each: exact quantiles of an extreme of Laplace "
        "noise. What is called computed for them is the middle of these intervals."
    )
    return Result(rows, figures, note)


def largest_of(draws: int, scale: float, chance: float) -> float:
    """The quantile of the largest of independent Laplace draws.

    >>> found = largest_of(1000, 10.0, 0.5)
    >>> round((1.0 - 0.5 * math.exp(-found / 10.0)) ** 1000, 12)
    0.5
    """
    # One draw stays below with the chance to the power 1/draws, which is above one half here.
    return -scale * math.log(-2.0 * math.expm1(math.log(chance) / draws))


def interval(low: float, high: float) -> Value:
    """An interval that a simulated figure leaves once in a million, as a value in its middle with its error."""
    return Value(0.5 * (low + high), 0.5 * (high - low) / FAR)


def draw_noisy_medians(rows: Rows) -> Any:
    """Two panels of violins with scales of their own."""
    from ..pictures import beside, panels_of, violins

    truth = next(row["median"] for row in rows if row["panel"] == "truth")

    def panel(own: Rows, name: str) -> Any:
        return violins(own, "group", "median", y_title="noisy median", level=(truth, ""), title=name)

    return beside(
        panels_of([row for row in rows if row["panel"] != "truth"], "panel", panel),
        "Noisy medians of 10,001 values in [0, 1]",
        "dashed: the median without noise; the scales of the panels differ by a factor of about a hundred",
    )


def two_groups(run: Run) -> Result:
    """Figure 9 and Appendix B: the bimodal population and its median, the largest value of the first group."""
    values = population("bimodal")
    place = Place.median(len(values))
    median = float(values[place.lower - 1])
    widest = int(np.argmax(np.diff(values)))
    rows = density(values, 120)
    rows.append({"panel": "median", "value": median, "density": 0.0})
    figures: dict[str, Any] = {
        "median": median,
        "first": float(widest + 1),
        "second": float(len(values) - widest - 1),
        "largest of the first": "yes" if place.lower - 1 == widest else "no",
    }
    return Result(rows, figures, f"The gap beside the median is {values[widest + 1] - values[widest]:.3f} wide.")


def draw_two_groups(rows: Rows) -> Any:
    """The density with the median as a dot."""
    from ..pictures import shape, titled

    median = next(row["value"] for row in rows if row["panel"] == "median")
    chart = shape(
        [row for row in rows if row["panel"] == "population"],
        "value",
        "density",
        x_title="value",
        y_title="density",
        dot=(median, f"median {median:.2f}"),
        size=(460, 260),
    )
    return titled(chart, "Two groups with a gap beside the median", "10,001 values, scaled to [0, 1] as in Appendix B")
