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
from dpsurvey.mechanism.cluster_norm import NORM_STEPS, Directions, Reach, SumsAndNorms, exact_norms
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Statistic
from dpsurvey.statistic.base import calibrate_norms
from dpsurvey.statistic.exact_totals import ClusterTotals
from dpsurvey.statistic.facts import Facts
from dpsurvey.statistic.query import ByCluster, Query
from tests.truth.neighbouring import NORMS, Record, Worlds

REGIONS, SEXES = ("north", "south", "west"), ("female", "male")
FRAME = ds.Frame("file", unit=None, size=1000, categories={"region": REGIONS, "sex": SEXES, "answer": ("yes", "no")})
FILE = ds.design.collected(strata="region", psu="psu", weights="weight", weights_are="design", psus=3).resolve(FRAME)
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
    return calibrate_norms(asked, [query] * len(asked), CHARGE[norm], known, NOISE[norm]), query


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


def totals(worlds: list[list[Record]], query: Query) -> list[ClusterTotals]:
    """The engine's totals of several files that hold the same fixed, from one call."""
    labels = tuple(f"w{index}" for index in range(len(worlds)))
    apart = replace(query, by=("world", *query.by), categories=(labels, *query.categories))
    found = totals_by_cluster(Worlds(worlds).table, apart)
    clusters, groups = len(found.stratum), len(query.groups)
    sums = found.sums.reshape(clusters, len(worlds), groups, -1)
    # Weights are the same in all of them.
    units = found.units.reshape(clusters, len(worlds), -1) if query.stays else found.units[:, None, :] // len(worlds)
    return [
        ClusterTotals(sums[:, place], units[:, place if query.stays else 0], found.stratum, found.fractions, found.per_record)
        for place in range(len(worlds))
    ]


def lengths_of(found: ClusterTotals, mechanism: SumsAndNorms, directions: Directions) -> np.ndarray:
    lengths, _ = exact_norms(found, directions, mechanism.reach, mechanism.groups, mechanism.norm, mechanism.steps)
    return np.array(lengths, dtype=np.float64)


def distance(one: np.ndarray, other: np.ndarray, norm: Norm) -> float:
    apart = np.abs(one - other)
    return float(apart.sum() if norm == "L1" else math.sqrt((apart**2).sum()))


@pytest.mark.parametrize("name", ASKED)
def test_lengths_of_neighbours_differ_by_no_more_than_is_charged(name):
    random = np.random.default_rng(len(name))
    furthest = 0.0
    for _ in range(3):
        world = a_file(random)
        neighbours = []
        for place in random.permutation(len(world))[:5].tolist():
            kept = world[place]
            for _ in range(4):
                changed = replace(answers(random), region=kept.region, psu=kept.psu, weight=kept.weight)
                neighbours.append([*world[:place], changed, *world[place + 1 :]])
        query = mechanism_of(ASKED[name], "L1", 1)[1]
        own, *others = totals([world, *neighbours], query)
        # Any noisy sums may have been published in the first step: the same ones for both neighbours.
        rows = own.sums.sum(axis=0) + random.normal(0.0, 0.2 * query.steps, own.sums.shape[1:])
        for norm, parts in itertools.product(NORMS, (1, 2)):
            mechanism, _ = mechanism_of(ASKED[name], norm, parts)
            directions = mechanism.directions(rows)
            before = lengths_of(own, mechanism, directions)
            moved = max(distance(before, lengths_of(each, mechanism, directions), norm) for each in others)
            assert moved <= mechanism.of_norms.sensitivity
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
    changed = [[replace(nothing[0], y=y, answer="yes", sex=sex), *nothing[1:]] for sex in SEXES for y in (5.0, 0.5)]
    own, *others = totals([nothing, *changed], query)
    directions = mechanism.directions(np.asarray(own.sums.sum(axis=0), dtype=np.float64))
    base = lengths_of(own, mechanism, directions)
    reached = max(distance(base, lengths_of(each, mechanism, directions), norm) for each in others)
    assert NORM_STEPS * 0.49 < reached <= mechanism.of_norms.sensitivity


def test_a_length_without_its_scale_would_move_further_than_is_charged():
    """The power of these tests: directions that say too little of what a record adds are found out."""
    mechanism, query = mechanism_of(ASKED["mean"], "L1", 1)
    understated = replace(mechanism, reach=Reach(0.5 * mechanism.reach.extremes, mechanism.reach.stays, may_be_nothing=False))
    nothing = [
        Record(region=region, psu=f"{region}{cluster}", weight=40.0, y=0.0)
        for region, cluster in itertools.product(REGIONS, range(3))
    ]
    own, other = totals([nothing, [replace(nothing[0], y=1.0), *nothing[1:]]], query)
    directions = mechanism.directions(np.asarray(own.sums.sum(axis=0), dtype=np.float64))
    moved = distance(lengths_of(own, understated, directions), lengths_of(other, understated, directions), "L1")
    assert moved > 1.5 * mechanism.of_norms.sensitivity


def test_what_is_held_fixed_does_not_move_with_answers():
    """Factor and degrees of freedom are of strata, clusters and weights alone."""
    random = np.random.default_rng(5)
    mechanism, query = mechanism_of(ASKED["mean by stratum"], "L1", 2)
    world = a_file(random)
    other = [replace(answers(random), region=each.region, psu=each.psu, weight=each.weight) for each in world]
    found = totals([world, other], query)
    directions = mechanism.directions(np.asarray(found[0].sums.sum(axis=0), dtype=np.float64))
    figures = [exact_norms(each, directions, mechanism.reach, mechanism.groups, "L1", mechanism.steps)[1] for each in found]
    assert figures[0] == figures[1]
    assert ByCluster(REGIONS, parts=2) == query.clusters
