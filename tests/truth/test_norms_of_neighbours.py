"""Standard errors bought as norms: neighbours whose answers differ in their place never move them further than is charged.

Small files of clusters are summed by the engine's own code; one record's answers are replaced, everything else is kept. Lengths
are whole numbers, so nothing here is random and nothing has a tolerance.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.engine.cluster_totals import totals_by_cluster
from dpsurvey.mechanism import MECHANISMS
from dpsurvey.mechanism.base import Norm
from dpsurvey.mechanism.cluster_norm import NORM_STEPS, ClusterTotals, Directions, Reach, SumsAndNorms, exact_norms
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Statistic
from dpsurvey.statistic.base import calibrate_norms
from dpsurvey.statistic.facts import Facts
from dpsurvey.statistic.query import ByCluster, Query
from tests.truth.neighbouring import NORMS, Record, Worlds

REGIONS, SEXES = ("north", "south", "west"), ("female", "male")
FRAME = ds.Frame("file", unit=None, size=1000, categories={"region": REGIONS, "sex": SEXES, "answer": ("yes", "no")})
FILE = ds.design.collected(strata="region", psu="psu", weights="weight", psus=3).resolve(FRAME)
CHARGE = {"L1": PrivacyProfile.pure(1.0, Relation.REPLACE_ONE), "L2": PrivacyProfile.zcdp(0.5, Relation.REPLACE_ONE)}
NOISE = {"L1": MECHANISMS["laplace"], "L2": MECHANISMS["gaussian"]}
WEIGHTS = (1.0, 7.5, 40.0)

MEAN = ds.mean("y", bounds=(0, 1), by="sex")
ASKED: dict[str, tuple[Statistic, ...]] = {
    "mean": (ds.mean("y", bounds=(0, 1)),),
    "mean on another range": (ds.mean("y", bounds=(-0.5, 3.0)),),
    "mean by stratum": (ds.mean("y", bounds=(0, 1), by="region"),),
    "mean by an answer": (MEAN,),
    "mean and difference": (MEAN, ds.contrast(MEAN, "female", "male")),
    "proportion": (ds.proportion("answer", "yes"),),
    "proportion of those who answered": (ds.proportion("answer", "yes", missing="drop"),),
    "proportion of some": (ds.proportion("answer", "yes", where={"sex": "female"}),),
    "total": (ds.total("y", bounds=(-1, 2)),),
    "total by an answer": (ds.total("y", bounds=(-1, 2), by="sex"),),
    "count": (ds.count("answer", "yes", by="sex"),),
    "groups": (ds.count(by="sex"),),
    "table": (ds.table("sex", "answer", missing="drop"),),
    "ratio": (ds.ratio("y", "x", bounds=(0, 1), to_bounds=(0, 1)),),
    "ratio by an answer": (ds.ratio("y", "x", bounds=(0, 1), to_bounds=(0, 1), by="sex"),),
    "quantiles": (ds.median("y", bounds=(0, 1), leaves=16), ds.quantile("y", 0.9, bounds=(0, 1), leaves=16)),
    "median by an answer": (ds.median("y", bounds=(0, 1), leaves=16, by="sex"),),
}


def facts(norm: Norm, size: int | None = 1000) -> Facts:
    frame = FRAME if size is not None else ds.Frame("file", unit=None, categories=dict(FRAME.categories))
    return Facts(frame, FILE, Relation.REPLACE_ONE, norm, weight_range=(1.0, 40.0), epsilon=1.0)


def mechanism_of(asked: tuple[Statistic, ...], norm: Norm, parts: int) -> tuple[SumsAndNorms, Query]:
    known = facts(norm)
    query = replace(asked[0], variance="norm").query(known) if asked[0].variance == "auto" else asked[0].query(known)
    assert query.clusters is not None
    query = replace(query, clusters=replace(query.clusters, parts=parts))
    return calibrate_norms(asked, query, CHARGE[norm], known, NOISE[norm]), query


def a_file(random: np.random.Generator) -> list[Record]:
    """Up to three records in each of two to four clusters of each stratum."""
    return [
        replace(answers(random), region=region, psu=f"{region}{cluster}", weight=float(random.choice(WEIGHTS)))
        for region in REGIONS
        for cluster in range(int(random.integers(2, 5)))
        for _ in range(int(random.integers(1, 4)))
    ]


def answers(random: np.random.Generator) -> Record:
    """The answers of one record, at the bounds, beyond them and between."""
    values = (0.0, 1.0, -2.0, 5.0, float(random.random()))
    return Record(
        sex=str(random.choice(SEXES)),
        y=float(random.choice(values)),
        x=float(random.choice(values)),
        answer=[None, "yes", "no"][int(random.integers(3))],
    )


def totals(world: list[Record], query: Query) -> ClusterTotals:
    return totals_by_cluster(Worlds([world]).table, query)


def lengths_of(world: list[Record], mechanism: SumsAndNorms, query: Query, directions: Directions) -> np.ndarray:
    found = exact_norms(totals(world, query), directions, mechanism.reach, mechanism.groups, mechanism.norm, mechanism.steps)
    return np.array(found[0], dtype=np.float64)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", ASKED)
def test_lengths_of_neighbours_differ_by_no_more_than_is_charged(name, parts, norm):
    random = np.random.default_rng(len(name) + parts)
    mechanism, query = mechanism_of(ASKED[name], norm, parts)
    allowed = mechanism.of_norms.sensitivity
    furthest = 0.0
    for _ in range(6):
        world = a_file(random)
        own = totals(world, query)
        # Any noisy sums may have been published in the first step: the same ones for both neighbours.
        rows = own.sums.sum(axis=0) + random.normal(0.0, 0.2 * query.steps, own.sums.shape[1:])
        directions = mechanism.directions(rows)
        before = lengths_of(world, mechanism, query, directions)
        for place in random.permutation(len(world))[:4]:
            kept = world[place]
            for _ in range(3):
                changed = replace(answers(random), region=kept.region, psu=kept.psu, weight=kept.weight)
                after = lengths_of([*world[:place], changed, *world[place + 1 :]], mechanism, query, directions)
                apart = np.abs(before - after)
                moved = float(apart.sum() if norm == "L1" else math.sqrt((apart**2).sum()))
                assert moved <= allowed
                furthest = max(furthest, moved / NORM_STEPS)
    # Nothing is asserted of lengths that never move.
    assert furthest > 0.05


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["mean", "proportion", "mean by stratum", "total", "count", "table"])
def test_the_charge_is_reached(name, norm):
    """All answers 0, and one record with the largest weight answers: its length is all that it may be."""
    mechanism, query = mechanism_of(ASKED[name], norm, 1)
    nothing = [
        Record(region=region, psu=f"{region}{cluster}", weight=40.0, y=-5.0, answer="no", sex="male")
        for region, cluster in itertools.product(REGIONS, range(3))
    ]
    rows = np.asarray(totals(nothing, query).sums.sum(axis=0), dtype=np.float64)
    directions = mechanism.directions(rows)
    base = lengths_of(nothing, mechanism, query, directions)
    reached = 0.0
    for sex, y in itertools.product(SEXES, (5.0, 0.5)):
        one = replace(nothing[0], y=y, answer="yes", sex=sex)
        apart = np.abs(lengths_of([one, *nothing[1:]], mechanism, query, directions) - base)
        reached = max(reached, float(apart.sum() if norm == "L1" else math.sqrt((apart**2).sum())))
    assert NORM_STEPS * 0.49 < reached <= mechanism.of_norms.sensitivity


def test_a_length_without_its_scale_would_move_further_than_is_charged():
    """The power of these tests: directions that say too little of what a record adds are found out."""
    mechanism, query = mechanism_of(ASKED["mean"], "L1", 1)
    understated = replace(mechanism, reach=Reach(0.5 * mechanism.reach.extremes, mechanism.reach.stays, may_be_nothing=False))
    nothing = [
        Record(region=region, psu=f"{region}{cluster}", weight=40.0, y=0.0)
        for region, cluster in itertools.product(REGIONS, range(3))
    ]
    directions = mechanism.directions(np.asarray(totals(nothing, query).sums.sum(axis=0), dtype=np.float64))
    base, moved = (
        lengths_of(world, understated, query, directions) for world in (nothing, [replace(nothing[0], y=1.0), *nothing[1:]])
    )
    assert float(np.abs(moved - base).sum()) > 1.5 * mechanism.of_norms.sensitivity


def test_what_is_held_fixed_does_not_move_with_answers():
    """Factor and degrees of freedom are of strata, clusters and weights alone."""
    random = np.random.default_rng(5)
    mechanism, query = mechanism_of(ASKED["mean by stratum"], "L1", 2)
    world = a_file(random)
    other = [replace(answers(random), region=each.region, psu=each.psu, weight=each.weight) for each in world]
    directions = mechanism.directions(np.asarray(totals(world, query).sums.sum(axis=0), dtype=np.float64))
    figures = [
        exact_norms(totals(each, query), directions, mechanism.reach, mechanism.groups, "L1", mechanism.steps)[1]
        for each in (world, other)
    ]
    assert figures[0] == figures[1]
    assert ByCluster(REGIONS, parts=2) == query.clusters
