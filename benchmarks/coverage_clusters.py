"""Do intervals from clusters cover, where standard errors are bought as norms? And what do they cost beside the jackknife?

    python benchmarks/coverage_clusters.py [--surveys 2000] [--layout "30 x 2"] [--weighting "unequal weights"] [--number ...]

Samples of the files of coverage_cluster_files.py, summed by cluster as the engine would, answered at the scales of their plan
with noise by numpy, and estimated by the package; beside it the delete-one-cluster jackknife with Student's t on the same
samples (for medians Woodruff's interval). The noise of one survey is the same draw at every epsilon, scaled. Widths are means
over surveys.

Flags: LOW below 94 % and more than a point below the interval without privacy, WIDENS where an interval is wider on average at
a larger epsilon, FAR where it is more than 15 % wider at an epsilon of 1e5.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

import dpsurvey as ds
from coverage_cluster_files import BOUNDS, LAYOUTS, WEIGHTING, critical, file_sampling, jackknife
from coverage_designs import Drawn, Sampling
from coverage_frame import Array
from coverage_norms import noisy_of_clusters
from coverage_sums import Summation
from dpsurvey.mechanism.cluster_norm import SumsAndNorms
from dpsurvey.statistic import Statistic
from dpsurvey.survey.plan import Item, Plan

EPSILONS = (0.2, 0.5, 1.0, 2.0, 10.0, 1e5)
LEAST, SHORT, FAR = 0.94, 0.01, 1.15
# As fine as the intervals without privacy are wide, and finer.
LEAVES = 1024


@dataclass(frozen=True)
class Number:
    """A statistic, and which of its numbers is looked at; `of` over `over` in `inside`, or the difference of both sexes."""

    name: str
    statistic: Statistic
    of: str
    over: str = ""
    inside: str = "all"
    place: int = 0
    beside: Statistic | None = None


def _mean(of: str, **options: object) -> Statistic:
    return ds.mean(of, BOUNDS[of], variance="norm", **options)  # type: ignore[arg-type]


def _share(of: str, **options: object) -> Statistic:
    return ds.proportion(of, 1, variance="norm", **options)  # type: ignore[arg-type]


@cache
def numbers_of(layout: str) -> tuple[Number, ...]:
    """The numbers asked of a layout."""
    found = [
        *(Number(f"mean-{of}", _mean(of), of) for of in ("cont", "skew", "u", "zero")),
        *(Number(f"share-{of}", _share(of), of) for of in ("p40", "p10", "p2")),
        Number("total-skew", ds.total("skew", BOUNDS["skew"], variance="norm"), "skew"),
        Number("count-p10", ds.count("p10", 1, variance="norm"), "p10"),
        Number("ratio-cont", ds.ratio("cont", "base", BOUNDS["cont"], BOUNDS["base"], variance="norm"), "cont", "base"),
        Number("ratio-zero", ds.ratio("zero", "base", BOUNDS["zero"], BOUNDS["base"], variance="norm"), "zero", "base"),
        Number("free-mean-skew", _mean("skew", by="sex"), "skew", inside="1", place=1),
        Number("free-share-p10", _share("p10", by="sex"), "p10", inside="1", place=1),
        Number("where-mean-cont", _mean("cont", where={"sex": "1"}), "cont", inside="1"),
        *(
            Number(f"contrast-{base.of}", ds.contrast(base, "1", "0"), str(base.of), inside="difference", beside=base)
            for base in (_mean("cont", by="sex"), _share("p10", by="sex"))
        ),
        *(
            Number(f"median-{of}", ds.median(of, BOUNDS[of], method="tree", leaves=LEAVES, variance="norm"), of, inside="median")
            for of in ("cont", "skew")
        ),
    ]
    if layout == "4 x 10":
        found += [
            *(Number(f"fixed-mean-{of}", _mean(of, by="stratum"), of, inside="stratum") for of in ("cont", "skew")),
            Number("fixed-share-p10", _share("p10", by="stratum"), "p10", inside="stratum"),
        ]
    return tuple(found)


@cache
def plan_of(layout: str, weighting: str, number: Number, epsilon: float) -> Plan:
    """The plan of one number, which has the whole budget."""
    asked = (number.statistic,) if number.beside is None else (number.beside, number.statistic)
    return Plan(file_sampling(layout, weighting).terms(epsilon), asked)


def item_of(plan: Plan) -> Item:
    """The one charge of a plan."""
    (item,) = plan.items
    assert isinstance(item.mechanism, SumsAndNorms)
    return item


@dataclass(frozen=True)
class Samples:
    """Simulated samples of one layout, and classical intervals of them."""

    sampling: Sampling
    drawn: list[Drawn]

    def summed(self, values: Array) -> Array:
        """Weighted sums of a column of the frame: (surveys, clusters)."""
        weighted = values * self.sampling.weight
        return np.stack([np.add.reduceat(weighted[each.units], each.starts) for each in self.drawn])

    def classical(self, number: Number) -> tuple[Array, Array, float]:
        """(estimate, standard error) of every sample, and the truth; for medians both are of the share below it."""
        people = self.sampling.population
        sex, ones = people.columns["sex"], np.ones(people.size)
        if number.inside == "median":
            return self._medians(number.of)
        inside = {"1": sex, "stratum": (people.stratum == 0).astype(np.float64)}.get(number.inside, ones)
        sides = [sex, 1.0 - sex] if number.inside == "difference" else [inside]
        values, over = people.clipped[number.of], people.clipped[number.over] if number.over else ones
        tops, bottoms = (np.stack([self.summed(side * each) for side in sides], axis=-1) for each in (values, over))
        # The difference is one number: the variance of the jackknife is of what is left of it.
        signs = np.array([1.0, -1.0][: len(sides)])
        truth = float(sum(s * (side * values).sum() / (side * over).sum() for s, side in zip(signs, sides, strict=True)))
        factor = float(people.size) if number.name.startswith(("total", "count")) else 1.0
        whole, error = jackknife(tops, bottoms, self.stratum, signs)
        return factor * whole, factor * error, factor * truth

    @property
    def stratum(self) -> np.ndarray:
        """The stratum of every cluster."""
        return self.sampling.population.stratum[self.drawn[0].units[self.drawn[0].starts]]

    def _medians(self, of: str) -> tuple[Array, Array, float]:
        values, weight = self.sampling.population.clipped[of], self.sampling.weight
        truth = float(np.median(values))
        t, lows, highs = critical(self.stratum), [], []
        for each in self.drawn:
            order = np.argsort(values[each.units])
            ordered, heavy = values[each.units][order], weight[each.units][order]
            share = np.cumsum(heavy) / heavy.sum()
            middle = ordered[min(int(np.searchsorted(share, 0.5)), len(ordered) - 1)]
            below = (values[each.units] <= middle) * 1.0
            tops = np.add.reduceat(below * weight[each.units], each.starts)[None]
            bottoms = np.add.reduceat(weight[each.units], each.starts)[None]
            error = jackknife(tops[..., None], bottoms[..., None], self.stratum, np.ones(1))[1][0]
            ends = np.searchsorted(share, np.clip([0.5 - t * error, 0.5 + t * error], 0.0, 1.0))
            low, high = ordered[np.minimum(ends, len(ordered) - 1)]
            lows.append(low)
            highs.append(high)
        low, high = np.array(lows), np.array(highs)
        return 0.5 * (low + high), 0.5 * (high - low) / t, truth


@dataclass(frozen=True)
class Row:
    """Coverage, that of the classical interval, the errors of the first and of their difference, the mean width over the
    classical one, and the mean degrees of freedom.
    """

    layout: str
    weighting: str
    number: str
    epsilon: float
    covered: float
    classical: float
    doubt: float
    apart: float
    width: float
    freedom: float

    def flags(self, earlier: Row | None) -> str:
        """What should be looked into."""
        found = []
        if self.covered < LEAST and self.covered < self.classical - SHORT:
            found.append("LOW")
        if earlier is not None and self.width > 1.005 * earlier.width:
            found.append("WIDENS")
        if self.epsilon >= 1e5 and self.width > FAR:
            found.append("FAR")
        return " ".join(found)


def rows_of(layout: str, weighting: str, surveys: int, wanted: str = "", seed: int = 1) -> Iterator[Row]:
    """All numbers of one layout at all epsilons, on the same samples."""
    here = file_sampling(layout, weighting)
    numbers = [each for each in numbers_of(layout) if wanted in each.name]
    random = np.random.default_rng([seed, *map(ord, layout + weighting)])
    samples = Samples(here, [here.draw(random) for _ in range(surveys)])
    queries = dict.fromkeys(item_of(plan_of(layout, weighting, each, epsilon)).query for each in numbers for epsilon in EPSILONS)
    summation = Summation(here, list(queries))
    for place, number in enumerate(numbers):
        # A group that is a stratum has the clusters of that stratum alone.
        t = critical(samples.stratum[samples.stratum == 0] if number.inside == "stratum" else samples.stratum)
        middle, error, truth = samples.classical(number)
        usual = np.abs(middle - truth) <= t * error
        for epsilon in EPSILONS:
            plan = plan_of(layout, weighting, number, epsilon)
            low, high, freedom = ends_of(plan, number, summation, samples.drawn, np.random.default_rng([seed, place]))
            covered = (low <= truth) & (truth <= high)
            yield Row(
                layout,
                weighting,
                number.name,
                epsilon,
                float(covered.mean()),
                float(usual.mean()),
                float(covered.std() / math.sqrt(surveys)),
                float((covered * 1.0 - usual).std() / math.sqrt(surveys)),
                float(np.mean(high - low) / np.mean(2.0 * t * error)),
                float(np.mean(freedom)),
            )


def ends_of(
    plan: Plan, number: Number, summation: Summation, drawn: list[Drawn], random: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Both ends, and the degrees of freedom, of all surveys."""
    item, found = item_of(plan), []
    step = max(1, 2_000_000 // (item.query.cells * item.query.components * len(drawn[0].starts)))
    for start in range(0, len(drawn), step):
        totals = [summation.clusters(item.query, each) for each in drawn[start : start + step]]
        noisy = noisy_of_clusters(plan, item, totals, random)
        numbers = plan.estimate(item, number.statistic, noisy)
        freedom = noisy.of_numbers(item.numbers_of(number.statistic)).freedom(number.place + 1)
        found.append([each[:, number.place] for each in (numbers.low, numbers.high, freedom)])
    low, high, freedom = (np.concatenate(each) for each in zip(*found, strict=True))
    return low, high, freedom


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surveys", type=int, default=2_000)
    parser.add_argument("--layout", choices=LAYOUTS, help="one layout of strata and clusters")
    parser.add_argument("--weighting", choices=WEIGHTING, help="one way of drawing records")
    parser.add_argument("--number", default="", help="numbers whose name holds this")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print("layout       weighting        number            epsilon  covers  (+-)   classical  (+-)   width    df  flags")
    for layout in [arguments.layout] if arguments.layout else LAYOUTS:
        for weighting in [arguments.weighting] if arguments.weighting else WEIGHTING:
            earlier: Row | None = None
            for row in rows_of(layout, weighting, arguments.surveys, arguments.number, arguments.seed):
                before = earlier if earlier is not None and earlier.number == row.number else None
                print(
                    f"{row.layout:12} {row.weighting:16} {row.number:17} {row.epsilon:7g}  {row.covered:.4f} {row.doubt:.4f} "
                    f"{row.classical:.4f} {row.apart:.4f} {row.width:8.3f} {row.freedom:5.1f}  {row.flags(before)}",
                    flush=True,
                )
                earlier = row


if __name__ == "__main__":
    main()
