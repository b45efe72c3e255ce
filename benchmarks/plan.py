"""Predicted against realised error: what a plan says before anything is drawn, and the spread of the numbers it would publish.

    python benchmarks/plan.py            every design, 5,000 surveys of each
    python benchmarks/plan.py --quick    a part of the grid in under a minute
    python benchmarks/plan.py --json     one object per line

The plan is told the true means and deviations (by stratum where there are strata), the true group sizes, and the true design
effect where weights are unequal or clusters are drawn. The aim is a predicted standard error within 5 % of the realised one.
The realised one is the standard deviation of the package's own estimates from simulated samples and simulated noise; it has an
error of its own, which is printed. A row fails when it is outside 5 % by more than three such errors. Numbers that are often cut
at a public bound, and ratios that the plan does not dare to predict, are printed and not judged.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import dpsurvey as ds
from coverage_designs import DESIGNS, FURTHER, Sampling, design_effect
from coverage_frame import BOUNDS, STRATA, Array
from dpsurvey.ledger.terms import Terms
from dpsurvey.privacy import Budget
from dpsurvey.statistic import Statistic
from dpsurvey.survey.fieldwork import Fieldwork
from dpsurvey.survey.plan import Plan
from plan_samples import GROUPS, Simulated, codes_of, frame

AIM, RUNS = 0.05, 5_000
# A number is often cut where the plan's error is more than this part of the way to the nearest bound.
OFTEN_CUT = 0.4
EPSILONS = (0.3, 1.0, 5.0)
DELTA = 1e-6


@dataclass(frozen=True)
class Number:
    """A number of the study: its statistic, for a `deff`, its true value, the bounds it is cut at, its linear values.

    `linear` are what units add to the number to first order, up to a constant factor: design effects are made of them.
    """

    name: str
    ask: Callable[..., Statistic]
    place: int
    truth: float
    bounds: tuple[float, float]
    linear: Array


def moments(values: Array) -> tuple[float, float]:
    """Mean and deviation, as they would be declared."""
    return float(values.mean()), float(values.std())


def numbers(here: Sampling, copies: int) -> Iterator[Number]:
    """What is asked of a design, with true figures."""
    people, size = here.population, here.population.size
    free = -math.inf, math.inf

    def told(values: Array, figure: Callable[[Array], Any]) -> Any:
        if here.design.strata_column is None:
            return figure(values)
        return {label: figure(values[people.stratum == place]) for place, label in enumerate(STRATA)}

    for of, to in (("income", "spent"), ("y", "x")):
        value, bounds, other = people.clipped[of], BOUNDS[of], people.clipped[to]
        mean, about = float(value.mean()), told(value, moments)
        for estimator in ("ratio", "by-stratum", "separate-variance") if here.name.startswith("stratified") else ("ratio",):
            ask: Callable[..., Statistic] = partial(ds.mean, of, bounds, expect=about, estimator=estimator)
            yield Number(f"mean of {of}" + f", {estimator}" * (estimator != "ratio"), ask, 0, mean, bounds, value - mean)
        whole = size * bounds[0], size * bounds[1]
        total = partial(ds.total, of, bounds, expect=about)
        yield Number(f"total of {of}", total, 0, size * mean, whole, value - mean)
        if not here.design.fixed_size and here.kind in ("independent", "strata"):
            expanded = partial(total, estimator="horvitz-thompson")
            yield Number(f"total of {of}, Horvitz-Thompson", expanded, 0, size * mean, free, value - bounds[0])
        centre = float(np.quantile(value, 0.5))
        points = {share / 100.0: float(np.quantile(value, share / 100.0)) for share in range(1, 100)}
        below = (value <= centre).astype(np.float64) - 0.5
        yield Number(f"median of {of}", partial(ds.median, of, bounds, expect=points), 0, centre, bounds, below)
        five = (*moments(value), *moments(other), float(np.corrcoef(value, other)[0, 1]))
        r, ratio = mean / five[2], partial(ds.ratio, of, to, bounds, BOUNDS[to], expect=five)
        yield Number(f"ratio of {of} to {to}", ratio, 0, r, (0.0, math.inf), value - r * other)
    for of in ("high", "b"):
        yes = people.clipped[of]
        p, share = float(yes.mean()), told(yes, lambda values: float(values.mean()))
        yield Number(f"proportion of {of}", partial(ds.proportion, of, 1, expect=share), 0, p, (0.0, 1.0), yes - p)
    # `value` is y here, and `yes` is b.
    for place in (0, 2):
        inside = codes_of("group", people, copies) == place
        label, m, p, count = list(GROUPS)[place], float(value[inside].mean()), float(yes[inside].mean()), float(inside.sum())
        mean_by = partial(ds.mean, "y", bounds, by="group", expect=about)
        yield Number(f"mean of y in group {label}", mean_by, place, m, bounds, (value - m) * inside)
        ask = partial(ds.proportion, "b", 1, by="group", expect=share)
        yield Number(f"proportion of b in group {label}", ask, place, p, (0.0, 1.0), (yes - p) * inside)
        ask, whole = partial(ds.total, "y", bounds, by="group", expect=about), (bounds[0] * count, bounds[1] * count)
        yield Number(f"total of y in group {label}", ask, place, m * count, whole, (value - m) * inside)
        yield Number(f"count of group {label}", partial(ds.count, by="group"), place, count, free, inside - count / size)
    one, two = (codes_of("group", people, copies) == place for place in (0, 1))
    gap = (value - value[one].mean()) * one / one.mean() - (value - value[two].mean()) * two / two.mean()

    def contrast(deff: float | None = None) -> Statistic:
        return ds.contrast(mean_by(), "a", "b", deff=deff)

    def cell(deff: float | None = None) -> Statistic:
        return ds.table("group", "b")

    if here.kind not in ("clusters", "two stages") and here.weight_range is None:
        # A table takes no design effect; its second cell is group a with b.
        both = one & (yes > 0.0)
        yield Number("cell of a table", cell, 1, float(both.sum()), free, both - both.mean())
    apart = float(value[one].mean() - value[two].mean())
    yield Number("contrast of y, group a less b", contrast, 0, apart, (-bounds[1], bounds[1]), gap)


def needs_effect(here: Sampling, number: Number) -> bool:
    """Whether only a design effect tells the plan how the design differs from a simple random sample."""
    bent = number.name.startswith(("ratio", "median"))
    own = here.kind in ("clusters", "two stages") or here.weight_range is not None
    return own or (here.design.strata_column is not None and bent)


def studied(
    design: str,
    n: int,
    epsilons: Sequence[float] = EPSILONS,
    runs: int = RUNS,
    *,
    copies: int = 40,
    response: bool = False,
    delta: float = 0.0,
    wanted: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """The rows of one design; `wanted` names numbers, all of them if empty."""
    simulated = Simulated(design, n, runs, copies, response)
    here, field = simulated.here, Fieldwork(simulated.rates if response else 1.0)
    resolved = here.design.resolve(frame(copies))
    for epsilon in epsilons:
        terms = Terms("study", frame(copies), resolved, here.setting, Budget(epsilon, delta), here.weight_range)
        # Where rates are each unit's own, the plan knows their range alone, and expects another number of units.
        expected = Plan(terms, (ds.count("b", 1),)).facts.expected_units
        units = expected if here.kind == "independent" and here.weight_range else float(here.chance.sum())
        realised: dict[Statistic, Array] = {}
        for number in numbers(here, copies):
            effect = needs_effect(here, number)
            # Those who answer are no simple thinning of an estimator that only knows the whole sample.
            if (wanted and number.name not in wanted) or (response and (effect or "Horv" in number.name or "nz" in number.name)):
                continue
            deff = design_effect(here, number.linear, units) if effect else None
            plain = number.ask()
            if plain not in realised:
                realised[plain] = simulated.estimates(Plan(terms, (plain,), fieldwork=field))
            row = Plan(terms, (number.ask(deff=deff),), fieldwork=field).predictions[number.place]
            noise = f", delta={delta:g}" if delta else ""
            name = f"{design}{', nonresponse' * response}/{number.name}/n={n}/epsilon={epsilon:g}{noise}"
            yield judged(name, number, row, realised[plain][:, number.place], deff)


def judged(name: str, number: Number, row: dict[str, Any], estimates: Array, deff: float | None) -> dict[str, Any]:
    """One line: the predicted error beside the realised one, and whether they are near enough."""
    found = estimates[np.isfinite(estimates)]
    sd = float(found.std(ddof=1))
    kurtosis = float(np.mean((found - found.mean()) ** 4)) / sd**4
    doubt = math.sqrt(max(kurtosis - 1.0, 0.0) / (4.0 * len(found)))
    se = row["se"]
    ratio = None if se is None else se / sd
    apart = 0.0 if ratio is None else abs(ratio - 1.0)
    near = min(number.truth - number.bounds[0], number.bounds[1] - number.truth)
    regime = ""
    if ratio is None:
        regime = "not predicted"
    elif se > OFTEN_CUT * near:
        regime = "cut at a bound"
    verdict = "ok" if apart <= AIM else "doubtful" if apart <= AIM + 3.0 * doubt else "fails"
    return {
        "name": name,
        "value": se,
        "reference": sd,
        "ratio": ratio,
        "doubt": doubt,
        "deff": deff,
        "noise": None if se is None else row["se_noise"] / se,
        "aim": "within 5 %",
        "regime": regime,
        "verdict": "not judged" if regime else verdict,
        # Nothing is claimed of numbers that are not judged.
        "ok": None if regime else verdict != "fails",
    }


def grid(quick: bool, runs: int) -> Iterator[dict[str, Any]]:
    """The study, or a part of it."""
    if quick:
        for design in ("srs", "stratified, equal takes", "bernoulli", "two-stage"):
            yield from studied(design, 1_000, (1.0,), min(runs, 2_000))
        return
    for design in (*DESIGNS, *FURTHER):
        yield from studied(design, 1_000, EPSILONS, runs)
    for design in DESIGNS:
        yield from studied(design, 200, (1.0, 5.0), runs)
    for design in ("srs", "stratified, proportional", "stratified, equal takes", "strata, bernoulli"):
        yield from studied(design, 1_000, (1.0, 5.0), runs, response=True)
    for design in ("srs", "stratified, equal takes", "cluster"):
        yield from studied(design, 1_000, (1.0,), runs, delta=DELTA)


def main() -> int:
    """Print the table; 1 if a row fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object per line")
    parser.add_argument("--quick", action="store_true", help="a part of the grid, in under a minute")
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated surveys of each design")
    asked = parser.parse_args()
    failed = 0
    for row in grid(asked.quick, asked.runs):
        failed += row["ok"] is False
        if asked.json:
            print(json.dumps(row), flush=True)
            continue
        ratio = "    -" if row["ratio"] is None else f"{row['ratio']:5.3f}"
        verdict = row["regime"] or row["verdict"]
        print(f"{row['name']:<80} {row['reference']:>10.4g} ratio {ratio} +-{row['doubt']:.3f}  {verdict}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
