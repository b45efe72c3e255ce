"""Do the intervals of collected files cover whose records have weights of their own, and how wide are they?

    python benchmarks/coverage_weights.py [--surveys 20000] [--json]

Files of records with wide weights, without clusters: means, proportions, totals and shares of groups that are held fixed. Each
file is drawn with replacement from a population of 200,000 units, with chances in proportion to one over the weight; summed as
the engine would, given discrete noise at the scale of its plan, and estimated by the package's own code. Beside it stand the
classical interval of the same files, and the one of version 0.8. Nothing was chosen by the populations marked "not tuned to".
The noise comes from numpy with a fixed seed: this is a simulation, not a release.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import stdtrit

import dpsurvey as ds
from coverage_frame import Array
from coverage_frame import Codes as Places
from coverage_study import Tally, verdict
from coverage_sums import answered, to_steps
from dpsurvey.ledger.terms import Terms
from dpsurvey.planning.weight_cuts import best_cut
from dpsurvey.privacy import Budget, Setting
from dpsurvey.statistic import Query, Statistic
from dpsurvey.statistic.measured import Measured
from dpsurvey.survey.plan import Plan
from dpsurvey.text.layout import text_table

SIZE, SEED, AT_ONCE = 200_000, 20260919, 250
SETTING = Setting("sample", "frame", neighbours="replace-one")
EPSILONS = (0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True, eq=False)
class People:
    """A population: a weight, a measured value in [0, 1], a yes or no, and a group of every unit."""

    name: str
    weight: Array
    y: Array
    yes: Array
    group: Array
    n: int
    tuned: bool = False

    @property
    def weight_range(self) -> tuple[float, float]:
        """The public extremes."""
        return float(self.weight.min()), float(self.weight.max())


def _people(
    name: str, n: int, weights: Callable[[np.random.Generator], Array], *, tuned: bool = False, rare: float = 0.3
) -> People:
    random = np.random.default_rng([SEED, len(name), n])
    weight = np.asarray(weights(random))
    rank = np.argsort(np.argsort(weight)) / SIZE
    # Values and shares that rise with the weight: what trimming, and variances without squared weights, would get wrong.
    y = np.clip(random.gamma(2.0, 0.10 + 0.10 * rank), 0.0, 1.0)
    yes = (random.random(SIZE) < rare * (0.5 + rank)).astype(np.float64)
    return People(name, weight, y, yes, (random.random(SIZE) < 0.4).astype(np.float64), n, tuned)


@cache
def populations() -> tuple[People, ...]:
    """Weights with short and long tails."""

    def spread(ratio: float) -> Callable[[np.random.Generator], Array]:
        return lambda random: np.exp(random.uniform(0.0, np.log(ratio), SIZE))

    def cut(values: Array, most: float) -> Array:
        return np.asarray(np.clip(values / np.median(values), 0.1, most))

    return (
        _people("log-uniform 1:50", 2_000, spread(50.0), tuned=True),
        _people("lognormal .8", 2_000, lambda random: cut(random.lognormal(0.0, 0.8, SIZE), 20.0), tuned=True),
        _people("log-uniform 1:8", 600, spread(8.0)),
        _people("gamma .7", 3_000, lambda random: cut(random.gamma(0.7, 1.0, SIZE) + 0.05, 12.0)),
        _people(
            "5 % at 30 times", 1_500, lambda random: np.where(random.random(SIZE) < 0.05, 30.0, random.uniform(1.0, 3.0, SIZE))
        ),
        _people("Weibull .6, rare", 4_000, lambda random: cut(random.weibull(0.6, SIZE) + 0.02, 25.0), rare=0.03),
    )


@cache
def cut_at(people: People, epsilon: float) -> float | None:
    """Where the weights of all files of this population are cut: where that pays for one of them."""
    one = people.weight[files_of(people, 1, np.random.default_rng([SEED, 77]))[0]]
    return best_cut(one, epsilon, 0.3, 0.2).trim


def cut_mean(people: People, epsilon: float, before: bool) -> Statistic:
    """The mean of weights that are cut where that is predicted to pay; what is cut off is another share in every file."""
    trim = cut_at(people, epsilon)
    return ds.mean("y", (0, 1)) if trim is None or before else ds.mean("y", (0, 1), trim=trim, trimmed=0.0)


def with_cut(statistic: Statistic, weights: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
    """The intervals of files whose cut weights have a declared share each: the exact one, up to a tenth of a per cent."""
    if not isinstance(statistic, Measured) or statistic.trim is None:
        return ends
    share = np.ceil(1000.0 * np.maximum(weights - statistic.trim, 0.0).sum(axis=1) / weights.sum(axis=1)) / 1000.0
    return ends[0] - share * ends[0], ends[1] + share * (1.0 - ends[1])


def asked() -> dict[str, Statistic]:
    """The statistics, by their name in the table."""
    return {
        "mean": ds.mean("y", (0, 1)),
        "mean of cut weights": ds.mean("y", (0, 1)),
        "proportion": ds.proportion("yes", "1"),
        "mean of a fixed group": ds.mean("y", (0, 1), by="group"),
        "count of a fixed group": ds.count("yes", "1", by="group"),
    }


@cache
def plan_of(people: People, epsilon: float, name: str, before: bool) -> Plan:
    """The plan of one statistic, which has the whole budget."""
    frame = ds.Frame("file", None, SIZE, {"yes": ("0", "1"), "group": ("0", "1")})
    fixed = () if before else ("group",)
    design = ds.design.collected(weights="w", weights_are="design", fixed=fixed).resolve(frame)
    terms = Terms("study", frame, design, SETTING, Budget(epsilon), people.weight_range)
    statistic = cut_mean(people, epsilon, before) if "cut" in name else asked()[name]
    return replace(Plan(terms, (statistic,)), as_in_0_8=before)


@dataclass
class Rows:
    """The units of a population as encodings read a row."""

    query: Query
    people: People

    @property
    def steps(self) -> Array:
        """The lattice steps of whole records."""
        weights = self.query.weights
        assert weights is not None
        return to_steps(np.minimum(self.people.weight / weights.largest, 1.0) * weights.steps)

    @property
    def share(self) -> Array:
        """u."""
        return np.asarray(self.steps / float(self.query.steps))

    @property
    def y(self) -> Array:
        """The measured values."""
        return self.people.y

    @property
    def answer(self) -> Array:
        """The steps of units with yes."""
        return np.asarray(self.people.yes * self.steps)

    @property
    def others(self) -> list[Array]:
        """No further columns."""
        return []

    @property
    def thinned(self) -> Array:
        """The steps times u: nothing is taken off for how likely a record of a file was drawn."""
        return np.asarray(self.share * self.steps)

    def to_steps(self, value: Array) -> Array:
        """To the nearest step."""
        return to_steps(value)

    def least(self, one: Array, other: Array) -> Array:
        """The smaller of two."""
        return np.minimum(one, other)


def sums_of(query: Query, people: People, drawn: Places) -> Array:
    """The sums of files (surveys, records): (surveys, cells, components)."""
    parts = np.stack(query.encoding.record(Rows(query, people)), axis=1)
    if not query.by:
        return np.asarray(parts[drawn].sum(axis=1)[:, None, :])
    inside = people.group[drawn][..., None]
    return np.stack([(parts[drawn] * (1.0 - inside)).sum(axis=1), (parts[drawn] * inside).sum(axis=1)], axis=1)


def classical(name: str, people: People, drawn: Places) -> tuple[Array, Array, float]:
    """Both ends of the linearised intervals of files, and the truth; of group 1 where there are groups."""
    w = people.weight[drawn]
    inside = people.group if "group" in name else np.ones(SIZE)
    counts = name.startswith("count")
    over = (people.yes if name.startswith(("proportion", "count")) else people.y) * inside
    below = np.ones(SIZE) if counts else inside
    truth = float((over.sum() / below.sum()) * (SIZE if counts else 1.0))
    top, bottom = (w * over[drawn]).sum(axis=1), (w * below[drawn]).sum(axis=1)
    m = top / bottom
    e = w * (over[drawn] - m[:, None] * below[drawn]) / bottom[:, None]
    n = drawn.shape[1]
    half = float(stdtrit(n - 1.0, 0.975)) * np.sqrt(n / (n - 1.0) * (e**2).sum(axis=1))
    factor = float(SIZE) if counts else 1.0
    return factor * (m - half), factor * (m + half), truth


def files_of(people: People, many: int, random: np.random.Generator) -> Places:
    """Files of records, drawn with replacement with chances in proportion to one over the weight: (files, records)."""
    chance = np.cumsum(1.0 / people.weight)
    return np.asarray(np.searchsorted(chance, random.random((many, people.n)) * chance[-1]))


def ends_of(plan: Plan, people: People, drawn: Places, random: np.random.Generator) -> tuple[Array, Array]:
    """Both ends of the private intervals of files."""
    item = plan.items[0]
    noisy = answered(sums_of(item.query, people, drawn), item, random)
    numbers = plan.estimate(item, plan.statistics[0], noisy)
    return with_cut(plan.statistics[0], people.weight[drawn], (numbers.low[:, -1], numbers.high[:, -1]))


def study(surveys: int) -> list[dict[str, object]]:
    """A row for each population, statistic and epsilon."""
    rows: list[dict[str, object]] = []
    for place, people in enumerate(populations()):
        random = np.random.default_rng([SEED, place])
        found: dict[tuple[str, float], list[Tally]] = {}
        for start in range(0, surveys, AT_ONCE):
            many = min(AT_ONCE, surveys - start)
            drawn = files_of(people, many, random)
            for name in asked():
                low, high, truth = classical(name, people, drawn)
                plain = (low <= truth) & (truth <= high)
                for epsilon in EPSILONS:
                    for before in (False, True):
                        ends = ends_of(plan_of(people, epsilon, name, before), people, drawn, random)
                        inside = (ends[0] <= truth) & (truth <= ends[1])
                        tally = Tally(
                            many, int(inside.sum()), int(plain.sum()), int((inside != plain).sum()),
                            float(np.median(ends[1] - ends[0])) * many, float(np.median(high - low)) * many,
                        )  # fmt: skip
                        pair = found.setdefault((name, epsilon), [Tally(), Tally()])
                        pair[before] += tally
        for (name, epsilon), (now, old) in found.items():
            rows.append(
                {
                    "weights": people.name,
                    "tuned to": people.tuned,
                    "statistic": name,
                    "epsilon": epsilon,
                    "private": now.covered / now.surveys,
                    "classical": now.classical / now.surveys,
                    "width ratio": now.width / now.classical_width,
                    "in 0.8": old.covered / old.surveys,
                    "width ratio in 0.8": old.width / old.classical_width,
                    "0.8 over now": old.width / now.width,
                    "verdict": verdict(now),
                }
            )
    return rows


def main() -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--surveys", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    rows = study((given := parser.parse_args()).surveys)
    table = [{key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()} for row in rows]
    print(json.dumps(rows) if given.json else text_table(table, list(table[0])))


if __name__ == "__main__":
    main()
