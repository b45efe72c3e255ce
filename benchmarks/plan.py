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
from functools import cache, partial
from typing import Any

import numpy as np

import dpsurvey as ds
from coverage_designs import DESIGNS, FURTHER, Sampling, sampling
from coverage_frame import BOUNDS, STRATA, Array, Codes, Population, make_population
from coverage_sums import answered, bought_exact, contributions, leaves_of, steps_of
from dpsurvey.fieldwork import Fieldwork
from dpsurvey.mechanism.bought_variance import MeanAndVariance
from dpsurvey.plan import Item, Plan
from dpsurvey.privacy import Budget
from dpsurvey.statistic import Query, Statistic
from dpsurvey.statistic.interval import without_intervals
from dpsurvey.statistic.tree import Tree
from dpsurvey.terms import Terms

AIM, RUNS, SEED = 0.05, 5_000, 20260404
# A number is often cut where the plan's error is more than this part of the way to the nearest bound.
OFTEN_CUT = 0.4
EPSILONS = (0.3, 1.0, 5.0)
DELTA = 1e-6
RESPONSE = dict(zip(STRATA, (0.9, 0.8, 0.7, 0.6, 0.5, 0.85), strict=True))
GROUPS = {"a": 0.5, "b": 0.3, "c": 0.2}
# Doubles that noisy sums may take at once.
AT_ONCE = 2_000_000


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


@cache
def groups(copies: int) -> Codes:
    """A public column that has nothing to do with strata or answers."""
    random = np.random.default_rng(SEED)
    return random.choice(len(GROUPS), make_population(copies).size, p=list(GROUPS.values()))


def codes_of(column: str, population: Population, copies: int) -> Codes:
    """The place of each unit's category in the declared list."""
    if column == "group":
        return groups(copies)
    return population.stratum if column == "stratum" else population.columns[column].astype(np.int64)


@cache
def frame(copies: int) -> ds.Frame:
    """What is public: the sizes of strata, of groups, and of the answer b."""
    people = make_population(copies)
    labels = {"stratum": tuple(STRATA), "group": tuple(GROUPS), "b": ("0", "1")}
    sizes = {
        column: dict(zip(own, np.bincount(codes_of(column, people, copies)).tolist(), strict=True))
        for column, own in labels.items()
    }
    return ds.Frame("population", unit="id", size=people.size, categories=sizes, public=("cluster", "segment", "chance"))


class Simulated:
    """Samples of one design, many at once: units, the survey and the block (stratum, or slot of clusters) of each."""

    def __init__(self, design: str, n: int, runs: int, copies: int = 40, response: bool = False) -> None:
        self.here, self.runs, self.copies = sampling(design, n, copies), runs, copies
        random = self.random = np.random.default_rng([SEED, (*DESIGNS, *FURTHER).index(design), n, int(response)])
        # Without strata in the design everybody answers alike: else those who answer are another population.
        stratified = self.here.design.strata_column is not None
        self.rates: dict[str, float] | float = RESPONSE if stratified else 0.7
        units, surveys, blocks = [], [], []
        for run in range(runs):
            drawn = self.here.draw(random)
            units.append(drawn.units)
            surveys.append(np.full(len(drawn.units), run))
            blocks.append(np.repeat(np.arange(len(drawn.starts)), np.diff(np.append(drawn.starts, len(drawn.units)))))
        self.units, self.survey, self.block = (np.concatenate(each) for each in (units, surveys, blocks))
        if response:
            by_stratum = np.array(list(RESPONSE.values())) if stratified else np.full(len(STRATA), self.rates)
            kept = random.random(len(self.units)) < by_stratum[self.here.population.stratum[self.units]]
            self.units, self.survey, self.block = (each[kept] for each in (self.units, self.survey, self.block))

    def cells(self, query: Query) -> Codes:
        """The row of the sums that each sampled unit is in, surveys one after the other."""
        cell = np.zeros(len(self.units), dtype=np.int64)
        for column, labels in zip(query.by, query.categories, strict=True):
            cell = cell * len(labels) + codes_of(column, self.here.population, self.copies)[self.units]
        if query.slots is not None:
            cell = cell * query.slots.count + self.block % query.slots.count
        return self.survey * query.cells + cell

    def sums(self, query: Query) -> Array:
        """Exact sums of all surveys: (surveys, cells, components)."""
        rows = self.runs * query.cells
        if query.encoding == "tree":
            tree = Tree(query.branching, query.levels)
            at = self.cells(query) * tree.leaves + leaves_of(query, self.here)[self.units]
            found = np.bincount(at, steps_of(query, self.here)[self.units], rows * tree.leaves)
            return tree.add_up(found.reshape(self.runs, query.cells, tree.leaves))
        added = steps_of(query, self.here)[:, None] if query.encoding == "units" else contributions(query, self.here)
        cells = self.cells(query)
        parts = [np.bincount(cells, part[self.units], rows) for part in np.ascontiguousarray(added.T)]
        return np.stack(parts, axis=-1).reshape(self.runs, query.cells, len(parts))

    def estimates(self, plan: Plan) -> Array:
        """What the package would publish in each survey."""
        item = plan.items[0]
        exact = self.sums(item.query)
        parts = np.array_split(exact, math.ceil(exact.size / AT_ONCE))
        with without_intervals():
            numbers = [plan.estimate(item, item.statistics[0], noisy(part, item, self.random)) for part in parts]
        return np.concatenate([each.estimate for each in numbers])


def noisy(exact: Array, item: Item, random: np.random.Generator) -> Array:
    """What would be published instead of the exact sums."""
    mechanism = item.mechanism
    if mechanism.kind != "gaussian":
        return answered(exact, item, random)
    if isinstance(mechanism, MeanAndVariance):
        parts = zip(bought_exact(exact, mechanism), (mechanism.of_mean, mechanism.of_variance), strict=True)
        return np.stack([np.floor(each) + gaussian(random, law.variance, each.shape) for each, law in parts], axis=-1)[:, None, :]
    return exact + gaussian(random, mechanism.variance, exact.shape)


def gaussian(random: np.random.Generator, variance: float, shape: tuple[int, ...]) -> Array:
    """The discrete Gaussian law: exactly where it is narrow, rounded where a step is nothing beside it."""
    scale = math.sqrt(variance)
    if scale > 100.0:
        return np.rint(random.normal(0.0, scale, shape))
    steps = np.arange(-math.ceil(12.0 * scale), math.ceil(12.0 * scale) + 1)
    law = np.exp(-0.5 * (steps / scale) ** 2)
    return np.asarray(random.choice(steps, shape, p=law / law.sum()))


def design_effect(here: Sampling, z: Array, units: float) -> float:
    """The variance of the weighted total of z over that of a simple random sample of as many units, by the textbook.

    `units` is how many the plan expects: from rates that are each unit's own it knows their range alone.
    """
    size, n = len(z), units
    simple = size**2 * (1.0 - n / size) * float(np.var(z, ddof=1)) / n
    if here.kind == "independent":
        return float(((1.0 / here.chance - 1.0) * z**2).sum()) / simple
    if here.kind == "strata":
        strata = here.population.stratum if len(here.fractions) > 1 else np.zeros(size, dtype=np.int64)
        sizes, sums, squares = np.bincount(strata), np.bincount(strata, z), np.bincount(strata, z**2)
        rates = here.fractions
        return float((sizes * (1.0 - rates) / rates * (squares - sums**2 / sizes) / (sizes - 1.0)).sum()) / simple
    label = here.population.segment if here.kind == "clusters" else here.population.cluster
    sizes, sums, squares = np.bincount(label), np.bincount(label, z), np.bincount(label, z**2)
    count, drawn = len(sizes), float(here.fractions[0]) * len(sizes)
    between = count**2 * (1.0 - drawn / count) * float(np.var(sums, ddof=1)) / drawn
    if here.kind == "clusters":
        return between / simple
    spread = (squares - sums**2 / sizes) / (sizes - 1.0)
    taken = float(here.chance.sum()) / drawn
    return (between + count / drawn * float((sizes**2 * (1.0 - taken / sizes) * spread / taken).sum())) / simple


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
        for recipe in ("auto", "strnz", "popnz") if here.name.startswith("stratified") else ("auto",):
            ask = partial(ds.mean, of, bounds, expect=about, recipe=recipe)
            yield Number(f"mean of {of}" + f", {recipe}" * (recipe != "auto"), ask, 0, mean, bounds, value - mean)
        whole = size * bounds[0], size * bounds[1]
        total = partial(ds.total, of, bounds, expect=about)
        yield Number(f"total of {of}", total, 0, size * mean, whole, value - mean)
        if not here.design.fixed_size and here.kind in ("independent", "strata"):
            expanded = partial(total, estimator="horvitz-thompson")
            yield Number(f"total of {of}, Horvitz-Thompson", expanded, 0, size * mean, free, value - bounds[0])
        centre = float(np.quantile(value, 0.5))
        points = {share / 100.0: float(np.quantile(value, share / 100.0)) for share in range(1, 100)}
        yield Number(f"median of {of}", partial(ds.median, of, bounds, expect=points), 0, centre, bounds, (value <= centre) - 0.5)
        five = (*moments(value), *moments(other), float(np.corrcoef(value, other)[0, 1]))
        r, ask = mean / five[2], partial(ds.ratio, of, to, bounds, BOUNDS[to], expect=five)
        yield Number(f"ratio of {of} to {to}", ask, 0, r, (0.0, math.inf), value - r * other)
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
        return ds.contrast(mean_by(deff=deff), "a", "b")

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
        "ok": bool(regime) or verdict != "fails",
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
        failed += not row["ok"]
        if asked.json:
            print(json.dumps(row), flush=True)
            continue
        ratio = "    -" if row["ratio"] is None else f"{row['ratio']:5.3f}"
        verdict = row["regime"] or row["verdict"]
        print(f"{row['name']:<80} {row['reference']:>10.4g} ratio {ratio} +-{row['doubt']:.3f}  {verdict}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
