"""A quantile inside a value that many units have comes out at that value, with an interval that covers.

Samples are drawn as counts per leaf and noise is added by numpy with a fixed seed: this is a simulation, not a release.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpsurvey as ds
from dpsurvey.mechanism import Laplace
from dpsurvey.statistic.estimators.quantile_interval import edges
from dpsurvey.statistic.facts import Facts
from dpsurvey.statistic.noisy_sums import Asked

SURVEYS, SIZE = 2000, 50_000
# Coverage of at least 95 % falls below this many with probability below 1e-6.
ALARM = int(binom.ppf(1e-6, SURVEYS, 0.95)) - 1
RANDOM = np.random.default_rng(11)
ZEROS = np.arange(SIZE) < 0.22 * SIZE
INCOME = np.where(ZEROS, 0.0, RANDOM.lognormal(10.0, 0.8, SIZE)).clip(0, 120_000)
HOURS = np.where(np.arange(SIZE) < 0.4 * SIZE, 40.0, RANDOM.uniform(1, 70, SIZE))
FRAME = ds.Frame("f.parquet", "id", SIZE)
FACTS = {n: Facts(FRAME, ds.srs(n=n).resolve(FRAME), "replace-one", "L1") for n in (500, 2000)}


def leaves_of(values, grid):
    first, behind = np.searchsorted(grid, values, side="left"), np.searchsorted(grid, values, side="right")
    return np.where(behind - first == 2, first, np.minimum(behind - 1, len(grid) - 2))


def simulated(values, statistic, n, epsilon, grid=None):
    """Numbers of many surveys of one population, and its quantile."""
    facts, random = FACTS[n], np.random.default_rng([n, int(100 * statistic.q)])
    query = statistic.query(facts)
    query = query if grid is None else replace(query, encoding=replace(query.encoding, edges=tuple(grid)))
    counts = np.bincount(leaves_of(values, np.array(query.encoding.edges)), minlength=statistic.leaves)
    drawn = random.multivariate_hypergeometric(counts, n, size=SURVEYS, method="marginals").astype(float)
    nodes = query.encoding.tree.add_up(drawn)
    mechanism = Laplace(scale=query.sensitivity("replace-one", "L1") / epsilon, sensitivity=1.0)
    noisy = nodes + random.laplace(0.0, mechanism.scale, nodes.shape)
    return statistic.estimate(Asked(query, facts, mechanism).answered(noisy[:, None, :])), np.sort(values)[
        math.ceil(statistic.q * SIZE) - 1
    ]


def covered(numbers, truth):
    return int(np.sum((numbers.low[:, 0] <= truth) & (truth <= numbers.high[:, 0])))


ASKED = {
    "deep inside the zeros": (INCOME, ds.quantile("income", 0.1, (0, 120_000), method="tree")),
    "near the end of the zeros": (INCOME, ds.quantile("income", 0.2, (0, 120_000), method="tree")),
    "just behind the zeros": (INCOME, ds.quantile("income", 0.23, (0, 120_000), method="tree")),
    "equal ratios": (INCOME, ds.quantile("income", 0.2, (0, 120_000), method="tree", spacing="log", first=500)),
    "a declared atom": (HOURS, ds.median("hours", (0, 98), method="tree", atoms=(40,))),
    "an atom between two edges": (HOURS, ds.median("hours", (0, 95), method="tree", leaves=64, atoms=(40,))),
    "values that were moved to the upper bound": (INCOME, ds.quantile("income", 0.9, (0, 40_000), method="tree")),
}


@pytest.mark.parametrize(("n", "epsilon"), [(500, 5.0), (2000, 0.5), (2000, 5.0)])
@pytest.mark.parametrize("asked", ASKED)
def test_intervals_around_atoms_cover(asked, n, epsilon):
    values, statistic = ASKED[asked]
    numbers, truth = simulated(values.clip(*statistic.bounds), statistic, n, epsilon)
    assert covered(numbers, truth) > ALARM


@pytest.mark.parametrize(
    "asked", ["deep inside the zeros", "near the end of the zeros", "a declared atom", "an atom between two edges"]
)
def test_a_quantile_inside_an_atom_is_the_atom(asked):
    values, statistic = ASKED[asked]
    numbers, truth = simulated(values, statistic, 2000, 5.0)
    assert truth in (0.0, 40.0)
    # P20 is 2 deviations inside the atom: nineteen surveys of twenty find it, which is 40 deviations above one half.
    assert np.mean(numbers.estimate[:, 0] == truth) > 0.9
    assert np.mean(np.abs(numbers.estimate[:, 0] - truth)) < 0.02 * statistic.bounds[1]


def test_on_leaves_with_a_width_it_would_lie_somewhere_in_the_first_one():
    values, statistic = ASKED["near the end of the zeros"]
    old = edges(0, 120_000, 256)
    numbers, _ = simulated(values, statistic, 2000, 5.0, grid=old)
    assert np.mean(numbers.estimate[:, 0]) > 300


def test_an_interval_that_is_the_atom_alone_is_no_warning_and_is_marked_good(tmp_path):
    number = np.arange(4000)
    rows = {"id": number, "income": np.where(number % 4 == 0, 0.0, 50.0 + number % 900)}
    survey = ds.Survey(
        ds.Frame(pd.DataFrame(rows), "id", 4000), ds.srs(n=2000), budget=ds.Budget(50.0), ledger=tmp_path / "l.ledger"
    )
    row = survey.plan(ds.quantile("income", 0.1, (0, 1000))).release().estimates[0]
    assert (row["estimate"], row["ci_low"], row["ci_high"], row["notes"], row["quality"]) == (0.0, 0.0, 0.0, [], "publish")


def test_published_quantiles_that_are_equal_put_an_atom_into_the_prediction():
    frame = ds.Frame("f.parquet", "id", SIZE)
    survey = ds.Survey(frame, ds.srs(n=2000), budget=ds.Budget(5.0), ledger="nowhere.ledger")
    expect = {0.22: 0, 0.5: 20_000, 0.9: 60_000}
    inside, behind = survey.plan(
        ds.quantile("income", 0.15, (0, 120_000), expect=expect), ds.quantile("income", 0.5, (0, 120_000), expect=expect)
    ).predictions
    assert inside["se"] < 0.1 * behind["se"]


@pytest.mark.parametrize("atoms", [(-1,), (130_000,), ("40",), (True,), "forty"])
def test_atoms_are_values_within_the_bounds(atoms):
    with pytest.raises(ds.errors.BadValue, match="atoms"):
        ds.quantile("income", 0.5, (0, 120_000), atoms=atoms)


def test_more_atoms_than_the_leaves_leave_room_for_are_refused():
    with pytest.raises(ds.errors.BadValue, match="leaf of its own"):
        ds.quantile("income", 0.5, (0, 100), leaves=16, atoms=tuple(range(1, 9)))
