"""Sections 2.2 and 2.4: the delta that noise for a smooth sensitivity keeps, and how much noise each sensitivity needs."""

from __future__ import annotations

import math
from typing import Any

import dpsurvey as ds
from dpsurvey.mechanism import Place, global_sensitivity, smooth_calibrated, smooth_delta, smooth_printed, smooth_sensitivity

from ..data import bounds_of, population
from ..item import Result, Rows, Run
from .laplace_mean import mean_plan
from .rates import sampled

DELTAS = (1e-6, 5e-5, 1e-4, 5e-3, 1e-2)


def smooth_recipe(run: Run) -> Result:
    """The exact delta of the recipe beta = epsilon/(2 log(2/delta)), scale 2S/epsilon, and up to which epsilon it is kept."""
    own = 1.0 / (2 * len(population("beta")))
    rows: Rows = []
    for delta in DELTAS:
        for epsilon in (0.25 * step for step in range(1, 65)):
            beta = epsilon / (2.0 * math.log(2.0 / delta))
            real = smooth_delta(epsilon, epsilon / 2.0, beta)
            rows.append({"delta": f"{delta:.5g}", "epsilon": epsilon, "real": real, "ratio": real / delta})
    last = sampled(5.0, 101, own)
    limits = {delta: largest_kept(delta) for delta in DELTAS}
    finite = [limit for delta, limit in limits.items() if not _kept(2.0 * limit, delta)]
    apart = max(limits.values()) - min(limits.values()) > 0.1
    upto = "up to a limit that depends on δ" if apart else "up to one limit"
    values: dict[str, Any] = {
        "epsilons": "every ε" if not finite else upto if len(finite) == len(limits) else "not for every δ",
        **{f"delta {delta:g}": limit for delta, limit in limits.items()},
        "largest of the paper": "kept" if _kept(last.spent_epsilon, last.spent_delta) else "not kept",
    }
    high, usual = 15.0, DELTAS[1]
    (beta, best), (small, small_best) = (
        (smooth_printed(epsilon, usual)[1], smooth_calibrated(epsilon, usual)[1]) for epsilon in (1.0, 0.1)
    )
    broken = smooth_delta(high, high / 2.0, high / (2.0 * math.log(2.0 / usual)))
    note = (
        f"No limit is stated. At ε = {high:g} and δ = {usual:g} the recipe keeps δ = {broken:.2g} and no less. Below its "
        f"limit it is cautious: at ε = 1 it keeps δ = {smooth_printed(1.0, usual)[2]:.3g}. The largest β with the δ asked for is "
        f"{best:.5f} in place of {beta:.5f} at ε = 1, and {small_best:.6f} in place of {small:.6f} at ε = 0.1. In dense data, "
        f"where the smooth sensitivity is in proportion to 1/β, noise falls by the factors {best / beta:.2f} and "
        f"{small_best / small:.2f}. The largest guarantee of the paper, ε = 5 at a rate of 1 %, spends {last.spent_epsilon:.2f} "
        f"with δ = {last.spent_delta:.3g} and keeps {smooth_printed(last.spent_epsilon, last.spent_delta)[2]:.3g}."
    )
    return Result(rows, values, note)


def _kept(epsilon: float, delta: float) -> bool:
    try:
        smooth_printed(epsilon, delta)
    except ds.SurveyError:
        return False
    return True


def largest_kept(delta: float) -> float:
    """The largest epsilon at which the printed recipe keeps delta, by bisection.

    >>> 12.0 < largest_kept(1e-4) < 13.0
    True
    """
    low, high = 1.0, 100.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _kept(middle, delta) else (low, middle)
    return low


def draw_smooth_recipe(rows: Rows) -> Any:
    """What is kept over what was asked for, by epsilon."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        [row for row in rows if row["ratio"] > 1e-6],
        "epsilon",
        "ratio",
        "delta",
        x_title="ε",
        y_title="true δ over the δ asked for",
        by_title="δ asked for",
        y_scale=logarithmic(),
        rules=[(1.0, "")],
    )
    return titled(
        chart,
        "What the recipe for smooth sensitivity keeps",
        "kept below the dashed line: cautious at the usual ε, broken beyond about 12",
    )


def illustrated(run: Run) -> Result:
    """Section 2.4: delta and the two global sensitivities of 10,001 values in [0, 1], and the noise that follows from them."""
    values, (low, high) = population("beta"), bounds_of("beta")
    size, delta = len(values), 1.0 / (2 * len(values))
    place = Place.median(size)
    rows: Rows = []
    for epsilon in (0.1, 0.5, 1.0):
        plan = mean_plan(size, epsilon)
        alpha, beta, _ = smooth_printed(epsilon, delta)
        best = smooth_calibrated(epsilon, delta)[1]
        for what, scale in (
            ("mean, global sensitivity", plan.predictions[0]["se_noise"] / math.sqrt(2.0)),
            ("median, global sensitivity", global_sensitivity(place, low, high) / epsilon),
            ("median, smooth sensitivity", smooth_sensitivity(values, place, beta, low, high) / alpha),
            ("median, smooth sensitivity, β calibrated", smooth_sensitivity(values, place, best, low, high) / alpha),
        ):
            rows.append({"what": what, "epsilon": f"ε = {epsilon:g}", "sd": math.sqrt(2.0) * scale})
    of_mean = mean_plan(size, 1.0).predictions[0]["se_noise"] / math.sqrt(2.0)
    figures: dict[str, Any] = {
        "delta": delta,
        "mean": f"1/{1.0 / of_mean:,.0f}",
        "median": global_sensitivity(place, low, high),
    }
    return Result(rows, figures, "The sensitivity of the mean is read from the noise of a plan for it.")


def draw_illustrated(rows: Rows) -> Any:
    """Standard deviations of the noise, on a log scale."""
    from ..pictures import dots, logarithmic, titled

    chart = dots(rows, "what", "sd", "epsilon", x_title="standard deviation of the noise", x_scale=logarithmic())
    return titled(chart, "Noise on 10,001 values in [0, 1]", "the global sensitivity of the median is the whole range")
