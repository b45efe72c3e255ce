"""The coverage study of benchmarks/coverage.py, held to the engine and to dpsurvey.classical, and run on a small sub-grid.

A frame of 12,000 units and 1,000 surveys of each scenario, with fixed seeds. A comparison alarms only when a coverage of
95 % would be that low with probability below 5e-8 (exact binomial: 1,000 surveys alarm at 90.8 % and below), and so would be
one of a point less than that of the classical interval on the same samples (paired): skewed samples of 300 fail without privacy
too. A test makes 20 comparisons at most: 1e-6 in all. That the comparison alarms for intervals without the noise, or of half the
variance, is shown at the end.
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
from scipy.stats import binom, norm

from dpsurvey.classical import Sample
from dpsurvey.engine import Engine, Expectations
from dpsurvey.mechanism import Laplace
from dpsurvey.mechanism.base import Answering, Mechanism
from dpsurvey.mechanism.bought_variance import MeanAndVariance
from dpsurvey.mechanism.cluster_norm import SumsAndNorms
from dpsurvey.statistic.exact_totals import ClusterTotals

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from coverage_classical import RATIOS, Classical
from coverage_designs import DESIGNS, TAKE, Drawn, sampling
from coverage_frame import CATEGORIES, STRATA, hashed_order, make_population
from coverage_grid import EPSILONS, Asked, asked, plan_of
from coverage_study import Chunk, Tally, clopper_pearson, verdict
from coverage_sums import Summation, bought_exact, discrete_laplace

COPIES, SURVEYS, N = 2, 1_000, 300
# Of one comparison; a test makes 20 at most.
FALSE_ALARM = 1e-6 / 20
ALARM = int(binom.ppf(FALSE_ALARM, SURVEYS, 0.95)) - 1


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
    """The same sample in the order of the study: by stratum, or by cluster in the order of the random groups."""
    rows = engine(design, n)._sample
    assert rows is not None
    units = np.sort(rows.select("id").to_pyarrow()["id"].to_numpy())
    people = make_population(COPIES)
    if design.startswith("stratified"):
        return Drawn(units, np.searchsorted(people.stratum[units], np.arange(len(STRATA))))
    if design in ("cluster", "two-stage"):
        labels = people.segment if design == "cluster" else people.cluster
        place = np.empty(int(labels.max()) + 1, dtype=np.int64)
        place[hashed_order(len(place))] = np.arange(len(place))
        units = units[np.lexsort((units, place[labels[units]]))]
        return Drawn(units, np.flatnonzero(np.diff(labels[units], prepend=-1)))
    return Drawn(units, np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize("design", DESIGNS)
def test_sums_by_numpy_are_those_of_the_engine_for_every_query_of_the_study(design: str) -> None:
    drawn = blocks_of(design, N)
    plans = [plan_of(design, N, epsilon, each.statistic, COPIES) for epsilon in EPSILONS for each in asked(design)]
    queries = dict.fromkeys(plan.items[0].query for plan in plans)
    summation = Summation(sampling(design, N, COPIES), list(queries))
    ours = summation.of(drawn) | {query: summation.tree(query, drawn) for query in summation.leaves}
    assert len(ours) == len(queries)
    for query in [each for each in queries if each.clusters is not None]:
        exact, by_block = engine(design, N).totals(query), summation.clusters(query, drawn)
        assert isinstance(exact, ClusterTotals)
        # Clusters stand in another order there.
        found = [sorted(zip(each.sums.tolist(), each.units.tolist(), strict=True)) for each in (exact, by_block)]
        assert found[0] == found[1], query.encoding.name
        assert exact.stratum.tolist() == by_block.stratum.tolist()
        assert exact.fractions.tolist() == by_block.fractions.tolist()
    for query, sums in ours.items():
        theirs = engine(design, N).sums(query).values
        assert theirs.shape == sums.shape
        assert np.array_equal(theirs, sums), query.encoding.name
    # A sample may hold nobody with the rarest answer; of most queries it holds somebody.
    assert sum(bool(np.any(sums)) for sums in ours.values()) > len(ours) // 2


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


@pytest.mark.parametrize("design", DESIGNS)
def test_samples_have_the_sizes_and_the_chances_of_their_design(design: str) -> None:
    here, random = sampling(design, N, COPIES), np.random.default_rng(6)
    people, surveys = here.population, 4_000
    seen, sizes = np.zeros(people.size), []
    for _ in range(surveys):
        drawn = here.draw(random)
        assert len(np.unique(drawn.units)) == len(drawn.units)
        seen[drawn.units] += 1.0
        sizes.append(len(drawn.units))
    assert np.mean(sizes) == pytest.approx(N, rel=0.03)
    # Strata, thirds of the measure of size and the ends of the list are drawn as often as their chances say.
    groups = [people.stratum == each for each in range(len(STRATA))]
    groups += [people.size_measure < 15.0, people.size_measure > 40.0, np.arange(people.size) < 600]
    spread = 12.0 if design in ("cluster", "two-stage") else 1.0
    for inside in groups:
        expected = surveys * float(here.chance[inside].sum())
        # 5.5 standard deviations: a false alarm with probability below 4e-8 for each of the nine groups, 1e-6 for all.
        assert abs(seen[inside].sum() - expected) < 5.5 * math.sqrt(spread * expected)
        assert abs(seen[inside].sum() - 1.1 * expected) > 5.5 * math.sqrt(spread * expected)
    if design == "two-stage":
        assert set(np.diff(drawn.starts)) == {TAKE}


def test_the_noise_has_the_law_of_the_mechanism() -> None:
    random = np.random.default_rng(8)
    for scale in (0.4, 3.0, 1e6):
        noise, law = discrete_laplace(random, scale, (400_000,)), Laplace(scale, 1.0)
        assert np.array_equal(noise, np.rint(noise))
        # Four standard errors of a variance with the kurtosis of this noise, and the mean: false alarms below 1e-6 together.
        fourth = float(np.mean((noise**2 - law.variance) ** 2))
        assert abs(np.mean(noise**2) - law.variance) < 5.2 * math.sqrt(fourth / len(noise))
        assert abs(noise.mean()) < 5.2 * math.sqrt(law.variance / len(noise))
        assert abs(np.mean(noise**2) - 1.03 * law.variance) > 5.2 * math.sqrt(fourth / len(noise))


def test_bought_variances_by_numpy_are_those_of_the_mechanism() -> None:
    design = "stratified, equal takes"
    number = next(each for each in asked(design) if each.name == "mean, separate-variance")
    plan = plan_of(design, N, 1.0, number.statistic, COPIES)
    mechanism, query = plan.items[0].mechanism, plan.items[0].query
    assert isinstance(mechanism, MeanAndVariance)
    summation = Summation(sampling(design, N, COPIES), [query])
    rows = summation.of(sampling(design, N, COPIES).draw(np.random.default_rng(9)))[query]
    ours, theirs = bought_exact(rows[None], mechanism), mechanism.exact(rows.astype(int).tolist())
    assert [float(each[0]) for each in ours] == pytest.approx(list(theirs), rel=1e-12)


@lru_cache
def chunk(design: str) -> Chunk:
    return Chunk(design, N, SURVEYS, 1, copies=COPIES)


@lru_cache
def tallies(design: str, epsilon: float) -> dict[tuple[str, str], Tally]:
    return {(each.asked.population, each.asked.name): tally for each, tally in chunk(design).tallies((epsilon,))}


def alarms(tally: Tally) -> bool:
    """Whether a coverage of 95 % is out of the question, and so is one of a point below that of the classical interval."""
    if tally.covered > ALARM:
        return False
    gain = (tally.covered - tally.classical) / tally.surveys
    doubt = -float(norm.ppf(FALSE_ALARM)) * math.sqrt(max(tally.differ / tally.surveys - gain**2, 0.0) / tally.surveys)
    return gain + doubt < -0.01


# Every number of the design, 20 at most: a false alarm with probability below 1e-6 in each test.
@pytest.mark.slow_cases("two-stage-5.0", "cluster-5.0", "stratified, proportional-5.0")
@pytest.mark.parametrize(
    ("design", "epsilon"),
    [
        *((design, 5.0) for design in DESIGNS),
        *(pytest.param(design, 1.0, marks=pytest.mark.slow) for design in DESIGNS if design != "srs"),
    ],
)
def test_private_intervals_cover_what_they_say_or_what_the_classical_ones_do(design: str, epsilon: float) -> None:
    found = tallies(design, epsilon)
    assert len(found) == len(asked(design))
    assert all(tally.surveys == SURVEYS for tally in found.values())
    low = {name: (tally.covered, tally.classical) for name, tally in found.items() if alarms(tally)}
    assert not low


@pytest.mark.slow_cases("cluster")
@pytest.mark.parametrize("design", ["srs", "bernoulli", "cluster"])
def test_with_little_privacy_budget_intervals_still_cover(design: str) -> None:
    assert not any(alarms(tally) for tally in tallies(design, 0.1).values())


@pytest.mark.parametrize("design", DESIGNS)
def test_totals_that_read_the_sums_of_the_mean_are_the_frame_size_times_it(design: str) -> None:
    here, compared = chunk(design), 0
    for epsilon in EPSILONS:
        for mean, total in zip(
            *([each for each in asked(design) if each.name == name] for name in ("mean", "total")), strict=True
        ):
            plans = [plan_of(design, N, epsilon, each.statistic, COPIES) for each in (mean, total)]
            (one,), (two,) = (plan.items for plan in plans)
            if one.query != two.query:
                continue
            # Lengths are scaled by what one record moves their number, so those of a total and of its mean are the same.
            noisy = [
                here.answers(plan, item, slice(0, 20), np.random.default_rng(3))
                for plan, item in zip(plans, (one, two), strict=True)
            ]
            own, whole = (
                plan.estimate(item, plan.statistics[0], sums) for plan, item, sums in zip(plans, (one, two), noisy, strict=True)
            )
            # What makes a standard error of a length is rounded up to four digits.
            far = 2e-3 * (own.high - own.low).max() if one.query.clusters is not None else 0.0
            size = here.summation.sampling.population.size
            for name in ("estimate", "low", "high"):
                assert getattr(whole, name) == pytest.approx(size * getattr(own, name), rel=1e-9, abs=size * far)
            compared += 1
    assert compared


def by_name(design: str, population: str, name: str) -> Asked:
    return next(each for each in asked(design) if (each.population, each.name) == (population, name))


def without_noise(mechanism: Answering) -> Answering:
    """The mechanism with a hundredth of its noise."""
    if isinstance(mechanism, SumsAndNorms):
        return replace(mechanism, of_sums=Laplace(0.01 * mechanism.scale, 1.0), of_norms=Laplace(1.0, 1.0))
    assert isinstance(mechanism, Mechanism)
    return Laplace(0.01 * mechanism.scale, 1.0)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("name", ["mean", "proportion", "ratio"])
def test_the_comparison_alarms_for_intervals_that_forget_the_noise(design: str, name: str) -> None:
    here, number = chunk(design), by_name(design, "synthetic", name)
    plan = plan_of(design, N, 0.1, number.statistic, COPIES)
    item = plan.items[0]
    # The width of intervals from exact sums that count no noise, around the noisy estimates.
    quiet = replace(item, mechanism=without_noise(item.mechanism))
    every = slice(0, SURVEYS)
    exact = plan.estimate(quiet, number.statistic, here.answers(plan, quiet, every, np.random.default_rng(4)))
    noisy = plan.estimate(item, number.statistic, here.answers(plan, item, every, np.random.default_rng(4)))
    half = 0.5 * (exact.high - exact.low)
    low, high = noisy.estimate - half, noisy.estimate + half
    truth = make_population(COPIES).truth(*number.truth)
    covered = (low[:, 0] <= truth) & (truth <= high[:, 0])
    ends = np.array([each[number.classical] for each in here.intervals])
    classical = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert alarms(Tally(SURVEYS, int(covered.sum()), int(classical.sum()), int((covered != classical).sum())))


@pytest.mark.parametrize("name", ["mean", "proportion", "ratio"])
def test_the_comparison_alarms_for_intervals_of_half_the_variance(name: str) -> None:
    here, number = chunk("srs"), by_name("srs", "synthetic", name)
    low, high, _ = here.private(number.statistic, 5.0)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    truth = make_population(COPIES).truth(*number.truth)
    covered = np.abs(middle - truth) <= math.sqrt(0.5) * half
    ends = np.array([each[number.classical] for each in here.intervals])
    classical = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert alarms(Tally(SURVEYS, int(covered.sum()), int(classical.sum()), int((covered != classical).sum())))


def test_verdicts_follow_the_rule_of_the_study() -> None:
    many = 20_000
    assert clopper_pearson(19_000, many)[0] < 0.95 < clopper_pearson(19_000, many)[1]
    assert verdict(Tally(many, 19_000, 19_000, 200)) == "ok"
    assert verdict(Tally(many, 18_950, 19_000, 200)) == "ok"
    assert verdict(Tally(many, 18_800, 19_000, 400)) == "fails"
    assert verdict(Tally(many, 18_000, 18_100, 300)) == "ok"
    assert verdict(Tally(many, 17_700, 18_100, 500)) == "fails"
    assert verdict(Tally(many, 19_700, 19_000, 800)) == "conservative"
