"""Figures 8 and 13, Table 1: the error of noisy medians by sampling rate, and where a sample gains."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import dpsurvey as ds

from ..data import bounds_of, population
from ..item import Result, Rows, Run
from .as_printed import printed
from .laplace_mean import CLEAR, root_of_ratio
from .rates import no_gain_rule
from .simulated import FAR

PRINTED = "smooth-as-printed"
METHODS = (PRINTED, "smooth", "exponential")
# The rates that decide, for a quick run; a full one takes those of the figures.
FEW = {"lognormal": (0.01, 0.1, 0.2, 0.5, 1.0), "bimodal": (0.01, 0.1, 0.5, 1.0)}
FULL, QUICK = 1000, 200
# The gain that Table 1 leaves out is small: it and the error beside it are simulated in full in a quick run too.
CLOSE = {"lognormal": (PRINTED, 0.5, (0.2, 0.5))}


def simulated_rates(name: str, run: Run, item: str, methods: tuple[str, ...] = METHODS) -> Rows:
    """Mean square errors by rate at the paper's epsilons and rates: 1,000 draws, or fewer and the rates that decide."""
    values = population(name)
    common: dict[str, Any] = {"bounds": bounds_of(name), "seed": run.seed}
    few: dict[str, Any] = {"rates": FEW[name]} if run.quick else {}
    rows = ds.planning.median_rates(
        values,
        methods=methods,
        draws=run.draws(FULL, QUICK),
        progress=lambda _, done, total: run.progress(item, done, total),
        **common,
        **few,
    )
    if not run.quick or name not in CLOSE:
        return rows
    method, epsilon, rates = CLOSE[name]
    better = ds.planning.median_rates(values, methods=[method], epsilons=[epsilon], rates=rates, draws=FULL, **common)
    in_full = {(row["method"], row["epsilon"], row["rate"]): row for row in better}
    return [in_full.get((row["method"], row["epsilon"], row["rate"]), row) for row in rows]


def sure(row: dict[str, Any]) -> bool:
    """Whether a sample has a smaller error than the population, beyond the Monte-Carlo error of the simulation."""
    return row["rate"] < 1.0 and row["ratio"] is not None and row["ratio"] + FAR * row["ratio_error"] < 1.0


def gains(rows: Rows, method: str) -> str:
    """For which epsilons some rate gains, in words."""
    every = sorted({row["epsilon"] for row in rows})
    found = sorted({row["epsilon"] for row in rows if row["method"] == method and sure(row)})
    if not found:
        return "no gains"
    whole = found == every[: len(found)]
    return f"gains for ε ≤ {found[-1]:g}" if whole else "gains for ε = " + ", ".join(f"{each:g}" for each in found)


def best_near_a_tenth(rows: Rows) -> str:
    """The epsilons whose error is surely least at a rate of 10 %, among 1 %, 10 % and 20 %: below it accuracy falls again."""
    at = {(row["epsilon"], row["rate"]): row for row in rows if row["method"] == PRINTED}
    found = []
    for epsilon in sorted({epsilon for epsilon, _ in at}):
        least, *others = (at[epsilon, rate] for rate in (0.1, 0.01, 0.2))
        known = all(row["mse"] is not None for row in (least, *others))
        if known and all(row["mse"] - least["mse"] > FAR * math.hypot(row["mse_error"], least["mse_error"]) for row in others):
            found.append(f"{epsilon:g}")
    return "ε = " + ", ".join(found) if found else "none"


def falls_below(rows: Rows, epsilon: float) -> str:
    """The rate below which accuracy falls: where the error is least, as far as the simulation can tell."""
    own = [row for row in rows if (row["method"], row["epsilon"]) == (PRINTED, epsilon) and row["mse"] is not None]
    least = min(own, key=lambda row: float(row["mse"]))
    # The whole population has no Monte-Carlo error.
    near = [
        row["rate"]
        for row in own
        if row["mse"] - least["mse"] <= FAR * math.hypot(row["mse_error"] or 0.0, least["mse_error"] or 0.0)
    ]
    return "about half" if 0.3 < min(near) <= max(near) < 0.8 else f"{least['rate']:.0%}".replace("%", " %")


def lognormal_by_rate(run: Run) -> Result:
    """Figure 8, with the calibrated beta and the exponential mechanism beside the recipe as printed."""
    rows = simulated_rates("lognormal", run, "000-figure-8")
    tenth = best_near_a_tenth(rows)
    values: dict[str, Any] = {"gains": gains(rows, PRINTED), "falls below": falls_below(rows, 0.5), "least at a tenth": tenth}
    note = (
        f"{_least(rows)} A rate counts as that of the least error unless its own is larger by {FAR:g} standard errors: about "
        f"half are rates from 40 % to 70 %. That accuracy falls again below a rate of 10 % is so at {tenth}."
    )
    return Result(rows, values, f"{note} {_others(rows)}")


def bimodal_by_rate(run: Run) -> Result:
    """Figure 13, with the calibrated beta and the exponential mechanism beside the recipe as printed."""
    rows = simulated_rates("bimodal", run, "000-figure-13")
    return Result(rows, {"gains": gains(rows, PRINTED)}, _others(rows))


def _least(rows: Rows) -> str:
    own = [row for row in rows if row["method"] == PRINTED and row["epsilon"] == 0.5 and row["rate"] < 1.0 and row["ratio"]]
    best = min(own, key=lambda row: float(row["ratio"]))
    return (
        f"At ε = 0.5 the mean square error at a rate of {best['rate']:.0%} is {best['ratio']:.3f} ± {best['ratio_error']:.3f} "
        "(one standard error) of that of the population."
    )


def _others(rows: Rows) -> str:
    whole = {row["epsilon"]: math.sqrt(row["mse_full"]) for row in rows if row["method"] == "exponential"}
    smooth = {
        epsilon: min(
            math.sqrt(row["mse"])
            for row in rows
            if row["method"] != "exponential" and row["epsilon"] == epsilon and row["mse"] is not None
        )
        for epsilon in whole
    }
    beaten = "less" if all(whole[epsilon] < smooth[epsilon] for epsilon in whole) else "not always less"
    return (
        f"With β calibrated to δ: {gains(rows, 'smooth')}; exponential mechanism: {gains(rows, 'exponential')}. On the whole "
        f"population the exponential mechanism has {beaten} error than smooth noise at any of these rates: at ε = 0.1 a root "
        f"mean square error of {whole[0.1]:.3g} against {smooth[0.1]:.3g}."
    )


def draw_by_rate(title: str, rows: Rows) -> Any:
    """A panel for each method, a line for each epsilon."""
    from dpsurvey.view.median_plots import median_plot

    return median_plot(rows, title)


draw_lognormal = partial(draw_by_rate, "Noisy medians of the lognormal population by sampling rate")
draw_bimodal = partial(draw_by_rate, "Noisy medians of the two groups by sampling rate")


def table_one(run: Run) -> Result:
    """Table 1: every conclusion, from simulated errors with their Monte-Carlo error."""
    rows: Rows = []
    values: dict[str, Any] = {"any": no_gain_rule(run).values["any statistic"]}
    means = {
        epsilon: max(root_of_ratio(epsilon, rate) for rate in (1e-4, 1e-3, 0.1, 0.5, 0.9, 0.999))
        for epsilon in (0.01, 0.1, 0.5, 1.0, 3.0, 5.0)
    }
    worse = {epsilon: ratio < 1.0 - CLEAR for epsilon, ratio in means.items()}
    values["mean"] = "no gains" if all(worse.values()) else "gains"
    for epsilon in means:
        kind = "no gain" if worse[epsilon] else "gain"
        rows.append(
            {
                "row": "mean, any distribution",
                "epsilon": f"ε = {epsilon:g}",
                "kind": kind,
                "ratio": None,
                "word": "> 1" if worse[epsilon] else "< 1",
            }
        )
    for name, title in (("lognormal", "median, lognormal(5, 0.5)"), ("bimodal", "median, two groups")):
        found = simulated_rates(name, run, "000-table-1", (PRINTED,))
        values[name] = gains(found, PRINTED)
        limit = printed_limit(name)
        for epsilon in means:
            own = [row for row in found if row["epsilon"] == epsilon and row["rate"] < 1.0 and row["ratio"] is not None]
            best = min(own, key=lambda row: float(row["ratio"]))
            gain = any(sure(row) for row in own)
            kind = "no gain" if not gain else "gain" if epsilon <= limit else "gain that the table leaves out"
            rows.append(
                {
                    "row": title,
                    "epsilon": f"ε = {epsilon:g}",
                    "kind": kind,
                    "rate": best["rate"],
                    "ratio": best["ratio"],
                    "ratio_error": best["ratio_error"],
                    "word": f"{_short(best['ratio'])} at {best['rate']:.0%}",
                }
            )
    note = (
        f"A gain counts if the ratio of mean square errors is below 1 by more than {FAR:g} standard errors of the simulation. "
        "The mean is decided by what the package lets a sample spend, at rates from 0.01 % to 99.9 %: the noise alone "
        f"of its sample has more variance, at the least by the factor {1.0 / max(means.values()) ** 2:.7g}."
    )
    return Result(rows, values, note)


def _short(ratio: float) -> str:
    """Two digits, without exponents."""
    return f"{ratio:,.0f}" if ratio >= 10.0 else f"{ratio:.{max(1, 1 - math.floor(math.log10(ratio)))}f}"


def printed_limit(name: str) -> float:
    """The largest epsilon for which Table 1 prints gains."""
    return float(printed("000-table-1", name).rpartition(" ")[2])


def draw_table_one(rows: Rows) -> Any:
    """The table as coloured cells: the least ratio of mean square errors and the rate that has it."""
    from ..pictures import cells, titled

    shades = {"gain": "#9ec6c9", "gain that the table leaves out": "#e07a3f", "no gain": "#e6e4df"}
    chart = cells(rows, "epsilon", "row", "word", "kind", shades, width=96, height=40)
    return titled(
        chart,
        "Table 1: where a sample has a smaller error than the population",
        "the least mean square error over that of the population and its rate; smooth sensitivity with β as printed",
    )


def unprinted_bound(run: Run) -> Result:
    """Section 4.3 does not state the upper bound of the lognormal values: what it does to the errors at small epsilon."""
    values = population("lognormal")
    largest = float(values[-1])
    rows: Rows = []
    always = True
    for high in (largest, 2000.0, 5000.0, 10_000.0):
        found = ds.planning.median_rates(
            values,
            bounds=(0.0, high),
            epsilons=(0.01, 0.1),
            rates=FEW["lognormal"],
            methods=(PRINTED, "exponential"),
            draws=run.draws(FULL, 100),
            seed=run.seed,
        )
        always &= all(any(sure(row) for row in found if row["epsilon"] == e and row["method"] == PRINTED) for e in (0.01, 0.1))
        label = f"[0, {high:,.0f}], the largest value" if high == largest else f"[0, {high:,.0f}]"
        rows += [
            {key: row[key] for key in ("method", "epsilon", "rate", "log_mse", "ratio")} | {"bounds": label} for row in found
        ]
    small = [row for row in rows if (row["epsilon"], row["rate"], row["method"]) == (0.01, 0.01, PRINTED)]
    spread = ", ".join(f"{row['log_mse']:.1f} with {row['bounds']}" for row in small)
    return Result(rows, {"gains": "gains" if always else "no gains"}, f"log MSE at ε = 0.01 and a rate of 1 %: {spread}.")


def draw_unprinted_bound(rows: Rows) -> Any:
    """Log errors by rate, a line for each upper bound, a panel for each epsilon and mechanism."""
    from ..pictures import beside, lines, named

    panels = []
    for method, name in ((PRINTED, "smooth, β as printed"), ("exponential", "exponential mechanism")):
        for epsilon in (0.01, 0.1):
            own = [row for row in rows if (row["method"], row["epsilon"]) == (method, epsilon)]
            chart = lines(
                own,
                "rate",
                "log_mse",
                "bounds",
                x_title="sampling rate",
                y_title="log MSE",
                x_format="~%",
                points=True,
                size=(250, 200),
            )
            panels.append(named(chart, f"{name}, ε = {epsilon:g}"))
    return beside(
        panels,
        "What the unstated upper bound of the lognormal values does",
        "at ε = 0.01 smooth noise follows the bound, at ε = 0.1 the lines coincide; that samples gain does not depend on it",
        columns=2,
    )
