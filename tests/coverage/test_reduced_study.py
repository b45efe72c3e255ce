"""The coverage study of benchmarks/coverage.py, held to the engine and to dpsurvey.classical, and run on a small sub-grid.

A frame of 12,000 units; 2,000 surveys of each scenario with a fixed seed. A comparison alarms only when a coverage of 95 %
would be that low with probability below 1e-6 (exact binomial): 2,000 surveys alarm below 92.3 %. For conservative and
cautious intervals the true coverage is higher, and the false-alarm rate smaller still. That the comparison does alarm for
intervals without the noise, and for a variance without its square root of two, is shown at the end.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from dpsurvey.classical import Sample
from dpsurvey.engine import Engine, Expectations
from dpsurvey.engine.source import PI, PSU, SSU, STRATUM, WEIGHT
from dpsurvey.mechanism.bought_variance import MeanAndVariance

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from coverage_classical import RATIOS, Classical
from coverage_designs import DESIGNS, TAKE, Drawn, sampling
from coverage_frame import CATEGORIES, STRATA, make_population
from coverage_study import EPSILONS, Asked, Chunk, Tally, asked, clopper_pearson, plan_of, verdict
from coverage_sums import Summation, answered, bought_exact, discrete_laplace

COPIES, SURVEYS = 2, 2_000
ALARM = int(binom.ppf(1e-6, SURVEYS, 0.95)) - 1


@lru_cache
def table(design: str, n: int) -> pa.Table:
    """The frame as rows, with the chances of a design."""
    people = make_population(COPIES)
    columns = {name: values.astype(np.int64) if name in CATEGORIES else values for name, values in people.columns.items()}
    return pa.table(
        {
            "id": np.arange(people.size),
            "stratum": np.array(list(STRATA))[people.stratum],
            "cluster": people.cluster,
            "segment": people.segment,
            "chance": sampling(design, n, COPIES).chance,
            **columns,
        }
    )


@lru_cache
def engine(design: str, n: int) -> Engine:
    """A sample that the engine drew by its own generator."""
    found = Engine(table(design, n))
    names = ("income", "spent", "high", "rare", "y", "x", "b")
    numeric = ("income", "spent", "rare", "y", "x")
    here = sampling(design, n, COPIES)
    resolved = here.design.resolve(here.population.frame)
    found.draw(resolved.recipe(), Expectations(unit="id", numeric=numeric, present=names, used=("stratum", "cluster", "segment")))
    return found


def blocks_of(design: str, n: int) -> Drawn:
    """The same sample in the order of the study: by stratum, or by cluster in the order of the slots."""
    rows = engine(design, n)._sample
    assert rows is not None
    units = np.sort(rows.select("id").to_pyarrow()["id"].to_numpy())
    people = make_population(COPIES)
    if design.startswith("stratified"):
        return Drawn(units, np.searchsorted(people.stratum[units], np.arange(len(STRATA))))
    if design in ("cluster", "two-stage"):
        from coverage_frame import hashed_order

        labels = people.segment if design == "cluster" else people.cluster
        place = np.empty(int(labels.max()) + 1, dtype=np.int64)
        place[hashed_order(len(place))] = np.arange(len(place))
        units = units[np.lexsort((units, place[labels[units]]))]
        return Drawn(units, np.flatnonzero(np.diff(labels[units], prepend=-1)))
    return Drawn(units, np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize("design", DESIGNS)
def test_sums_by_numpy_are_those_of_the_engine_for_every_query_of_the_study(design: str) -> None:
    n = 300
    drawn = blocks_of(design, n)
    queries = {plan_of(design, n, epsilon, each.statistic, COPIES).items[0].query: None for epsilon in EPSILONS for each in asked(design)}
    summation = Summation(sampling(design, n, COPIES), list(queries))
    ours = summation.of(drawn) | {query: summation.tree(query, drawn) for query in summation.leaves}
    assert len(ours) == len(queries)
    for query, sums in ours.items():
        theirs = engine(design, n).sums(query).values
        assert theirs.shape == sums.shape
        assert np.array_equal(theirs, sums), query.encoding
        assert np.abs(theirs).max() > 0


def classical_sample(design: str, n: int, drawn: Drawn) -> Sample:
    """The sample as dpsurvey.classical sees it, without privacy."""
    here, people, units = sampling(design, n, COPIES), make_population(COPIES), drawn.units
    data = {name: values[units] for name, values in people.clipped.items()}
    data |= {"stratum": people.stratum[units], "unit": units, "p": here.chance[units], "w": here.weight[units]}
    if here.kind == "independent":
        return Sample(data, probs="p", sampling="poisson")
    if design == "srs":
        return Sample(data, fpc=float(people.size))
    if here.kind == "strata":
        data["N"] = np.bincount(people.stratum)[people.stratum[units]].astype(np.float64)
        return Sample(data, strata="stratum", fpc="N")
    labels = people.segment if design == "cluster" else people.cluster
    data["cluster"], data["K"] = labels[units], np.full(len(units), float(labels.max() + 1))
    if design == "cluster":
        return Sample(data, psu="cluster", weights="w", fpc="K")
    data["M"] = here.cluster_sizes[units]
    return Sample(data, psu="cluster", ssu="unit", weights="w", fpc=("K", "M"))


@pytest.mark.parametrize("design", DESIGNS)
def test_classical_intervals_by_numpy_are_those_of_the_package(design: str) -> None:
    random = np.random.default_rng(5)
    here = sampling(design, 400, COPIES)
    for _ in range(3):
        drawn = here.draw(random)
        ours, sample = Classical(here).intervals(drawn), classical_sample(design, 400, drawn)
        theirs = {("ratio", *pair): sample.ratio(*pair) for pair in RATIOS}
        theirs |= {("mean", name): sample.mean(name) for name in ("income", "rare", "y")}
        theirs |= {("expanded", name): sample.total(name) for name in ("income", "rare", "y")}
        theirs |= {("proportion", name): sample.proportion(name, 1, method="beta") for name in ("high", "rare", "b")}
        theirs |= {("median", name): sample.quantile(name, 0.5) for name in ("income", "y")}
        for key, found in theirs.items():
            assert ours[key] == pytest.approx((found.ci_low, found.ci_high), rel=1e-9, abs=1e-12), key
        size = here.population.size
        assert ours["total", "y"] == pytest.approx(tuple(size * end for end in ours["mean", "y"]))
