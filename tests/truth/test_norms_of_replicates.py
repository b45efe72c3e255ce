"""Standard errors of replicate weights, bought as norms: neighbours whose answers differ in their place never move them further
than is charged.

Small files with replicate weights are summed by the engine's own code; one record's answers are replaced, weights and replicate
weights are kept. Lengths are whole numbers, so nothing here is random and nothing has a tolerance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dpsurvey as ds
from dpsurvey.design.collected import CollectedFile
from dpsurvey.engine.replicate_totals import totals_by_replicate
from dpsurvey.engine.source import PI, PSU, STRATUM, WEIGHT
from dpsurvey.mechanism import MECHANISMS
from dpsurvey.mechanism.base import Norm
from dpsurvey.mechanism.cluster_norm import NORM_STEPS, SumsAndNorms, exact_norms
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Statistic
from dpsurvey.statistic.base import calibrate_norms
from dpsurvey.statistic.exact_totals import ReplicateTotals
from dpsurvey.statistic.facts import Facts
from dpsurvey.statistic.query import ByReplicate, Query
from tests.truth.neighbouring import NORMS, Record, in_duckdb

REGIONS, SEXES = ("north", "south"), ("female", "male")
FRAME = ds.Frame("file", unit=None, size=1000, categories={"region": REGIONS, "sex": SEXES, "answer": ("yes", "no")})
CHARGE = {"L1": PrivacyProfile.pure(1.0, Relation.REPLACE_ONE), "L2": PrivacyProfile.zcdp(0.5, Relation.REPLACE_ONE)}
NOISE = {"L1": MECHANISMS["laplace"], "L2": MECHANISMS["gaussian"]}
WEIGHTS = (1.0, 7.5, 40.0)
COUNT = 5
NAMES = [f"rep{place}" for place in range(COUNT)]
# What one record weighs, and its replicate weights.
Place = tuple[str, float, tuple[float, ...]]

MEAN = ds.mean("y", bounds=(0, 1), by="sex")
ASKED: dict[str, tuple[Statistic, ...]] = {
    "mean on another range": (ds.mean("y", bounds=(-0.5, 3.0)),),
    "mean by stratum": (ds.mean("y", bounds=(0, 1), by="region"),),
    "mean and difference": (MEAN, ds.contrast(MEAN, "female", "male")),
    "proportion of those who answered": (ds.proportion("answer", "yes", missing="drop"),),
    "proportion of some": (ds.proportion("answer", "yes", where={"sex": "female"}),),
    "total by an answer": (ds.total("y", bounds=(-1, 2), by="sex"),),
    "count": (ds.count("answer", "yes"),),
    "table": (ds.table("sex", "answer", missing="drop"),),
    "ratio by an answer": (ds.ratio("y", "x", bounds=(0, 1), to_bounds=(0, 1), by="sex"),),
    "weights pulled to the middle": (ds.mean("y", bounds=(0, 1), shrink=0.5),),
    "quantiles": (ds.median("y", bounds=(0, 1), leaves=16), ds.quantile("y", 0.9, bounds=(0, 1), leaves=16)),
}


def a_file_of(reach: float | None, freedom: float = 6.0) -> CollectedFile:
    return ds.design.collected(
        strata="region",
        weights="weight",
        weights_are="design",
        replicates=NAMES,
        replicate_method="bootstrap",
        replicate_scales=[1.0, 0.5, 2.0, 1.0, 0.0],
        replicate_df=freedom,
        replicate_reach=reach,
    ).resolve(FRAME)


def mechanism_of(asked: tuple[Statistic, ...], norm: Norm, reach: float | None = None) -> tuple[SumsAndNorms, Query]:
    known = Facts(FRAME, a_file_of(reach), Relation.REPLACE_ONE, norm, weight_range=(1.0, 40.0), epsilon=1.0)
    query = asked[0].query(known)
    assert isinstance(query.clusters, ByReplicate)
    return calibrate_norms(asked, [query] * len(asked), CHARGE[norm], known, NOISE[norm]), query


def answers(random: np.random.Generator) -> Record:
    """The answers of one record, at the bounds, beyond them and between."""
    values = (0.0, 1.0, -2.0, 5.0, float(random.random()))
    return Record(
        sex=str(random.choice(SEXES)),
        y=float(random.choice(values)),
        x=float(random.choice(values)),
        answer=[None, "yes", "no"][int(random.integers(3))],
    )


def places(random: np.random.Generator, count: int = 9) -> list[Place]:
    """Weights and replicate weights: some nought, some doubled, some as bootstrap samples and calibration make them."""
    found = []
    for index in range(count):
        weight = float(random.choice(WEIGHTS))
        factors = random.choice([0.0, 1.0, 2.0, float(random.gamma(2.0, 0.5)), 5.0], COUNT)
        found.append((REGIONS[index % 2], weight, tuple(float(weight * each) for each in factors)))
    return found


def totals(where: Sequence[Place], worlds: list[list[Record]], query: Query) -> list[ReplicateTotals]:
    """The engine's totals of several files of the same places, from one call."""
    rows = [
        (f"w{index}", place, record) for index, world in enumerate(worlds) for place, record in zip(where, world, strict=True)
    ]
    kinds = {"y": pa.float64(), "x": pa.float64()}
    columns: dict[str, pa.Array] = {"world": pa.array([label for label, _, _ in rows])}
    for name in ("sex", "y", "x", "answer"):
        columns[name] = pa.array([getattr(record, name) for _, _, record in rows], kinds.get(name, pa.string()))
    columns["region"] = columns[STRATUM] = columns[PSU] = pa.array([place[0] for _, place, _ in rows])
    columns[WEIGHT] = columns["weight"] = pa.array([place[1] for _, place, _ in rows])
    columns[PI] = pa.array([0.0] * len(rows))
    columns |= {name: pa.array([place[2][index] for _, place, _ in rows]) for index, name in enumerate(NAMES)}
    labels = tuple(f"w{index}" for index in range(len(worlds)))
    apart = replace(query, by=("world", *query.by), categories=(labels, *query.categories))
    found = totals_by_replicate(in_duckdb(pa.table(columns)), apart)
    sums = found.sums.reshape(1 + COUNT, len(worlds), len(query.groups), -1)
    return [ReplicateTotals(sums[:, index], found.scales, found.reach, found.freedom) for index in range(len(worlds))]


def distance(one: ReplicateTotals, other: ReplicateTotals, mechanism: SumsAndNorms, rows: np.ndarray) -> float:
    """How far the lengths of two neighbours lie apart, after the same noisy sums."""
    directions = mechanism.directions(rows)
    lengths = [
        np.array(exact_norms(each, directions, mechanism.reach, 1, mechanism.norm, mechanism.steps)[0], dtype=np.float64)
        for each in (one, other)
    ]
    apart = np.abs(lengths[0] - lengths[1])
    return float(apart.sum() if mechanism.norm == "L1" else math.sqrt((apart**2).sum()))


@pytest.mark.parametrize("name", ASKED)
def test_lengths_of_neighbours_differ_by_no_more_than_is_charged(name: str) -> None:
    random = np.random.default_rng(len(name))
    furthest = 0.0
    for reach in (None, 15.0):
        where = places(random)
        world = [answers(random) for _ in where]
        neighbours = [[*world[:index], answers(random), *world[index + 1 :]] for index in range(len(world)) for _ in range(5)]
        query = mechanism_of(ASKED[name], "L1", reach)[1]
        own, *others = totals(where, [world, *neighbours], query)
        # Any noisy sums may have been published in the first step: the same ones for both neighbours.
        rows = own.whole + random.normal(0.0, 0.2 * query.steps, own.whole.shape)
        for norm in NORMS:
            mechanism, _ = mechanism_of(ASKED[name], norm, reach)
            moved = max(distance(own, each, mechanism, rows) for each in others)
            assert moved <= mechanism.of_norms.sensitivity
            furthest = max(furthest, moved / NORM_STEPS)
    # Nothing is asserted of lengths that never move.
    assert furthest > 0.05


@pytest.mark.parametrize("name", ["mean on another range", "proportion of those who answered", "count", "table"])
def test_the_charge_is_reached(name: str) -> None:
    """All answers 0, and the record whose replicates lie furthest apart answers: its length is all that it may be."""
    where: list[Place] = [("north", 40.0, (0.0, 80.0, 40.0, 0.0, 40.0)), ("south", 7.5, (7.5, 0.0, 7.5, 15.0, 0.0))] * 2
    nothing = [Record(y=-5.0, answer="no", sex="male") for _ in where]
    changed = [replace(nothing[0], y=5.0, answer="yes", sex=sex) for sex in SEXES]
    for norm in NORMS:
        mechanism, query = mechanism_of(ASKED[name], norm)
        own, *others = totals(where, [nothing, *([each, *nothing[1:]] for each in changed)], query)
        rows = np.asarray(own.whole, dtype=np.float64)
        reached = max(distance(own, each, mechanism, rows) for each in others)
        assert NORM_STEPS * 0.49 < reached <= mechanism.of_norms.sensitivity


def test_a_reach_that_is_too_small_is_found_out() -> None:
    """The power of these tests: lengths that are scaled by less than the replicates of some record lie apart move too far."""
    where: list[Place] = [("north", 40.0, (0.0, 80.0, 0.0, 80.0, 0.0)), ("south", 7.5, (7.5, 0.0, 7.5, 15.0, 0.0))] * 2
    nothing = [Record(y=-5.0) for _ in where]
    mechanism, query = mechanism_of((ds.mean("y", bounds=(0, 1)),), "L1")
    found = totals(where, [nothing, [replace(nothing[0], y=5.0), *nothing[1:]]], query)
    own, other = (replace(each, reach=int(0.7 * each.reach)) for each in found)
    assert distance(own, other, mechanism, np.asarray(own.whole, dtype=np.float64)) > 1.2 * mechanism.of_norms.sensitivity


def test_the_reach_is_that_of_the_file_or_as_declared_whatever_was_answered() -> None:
    random = np.random.default_rng(7)
    where = places(random)
    worlds = [[answers(random) for _ in where] for _ in range(2)]
    scales = (1.0 / COUNT, 0.5 / COUNT, 2.0 / COUNT, 1.0 / COUNT, 0.0)
    apart = max(math.sqrt(sum(c * (r - w) ** 2 for c, r in zip(scales, own, strict=True))) for _, w, own in where)
    for asked, reach in itertools.product((MEAN, ds.proportion("answer", "yes", where={"sex": "female"})), (None, 15.0)):
        query = mechanism_of((asked,), "L1", reach)[1]
        found = {each.reach for each in totals(where, worlds, query)}
        assert len(found) == 1
        assert found.pop() / query.steps * 40.0 == pytest.approx(apart if reach is None else reach, rel=1e-5)
    assert apart > 20.0


def test_the_length_is_the_standard_error_of_replicates() -> None:
    """Against the formula in floating point, at exact sums: mean, domain and total."""
    random = np.random.default_rng(11)
    where = places(random, 40)
    world = [answers(random) for _ in where]
    scales = np.array([1.0, 0.5, 2.0, 1.0, 0.0]) / COUNT
    weights = np.array([place[1] for place in where])
    replicates = np.array([place[2] for place in where])
    y = np.clip([record.y or 0.0 for record in world], 0.0, 1.0)
    women = np.array([record.sex == "female" for record in world])
    for asked, inside in ((ds.mean("y", bounds=(0, 1)), np.ones_like(women)), (MEAN, women)):
        mechanism, query = mechanism_of((asked,), "L1")
        (own,) = totals(where, [world], query)
        directions = mechanism.directions(np.asarray(own.whole, dtype=np.float64))
        lengths, figures = exact_norms(own, directions, mechanism.reach, 1, "L1", mechanism.steps)
        mean = (weights * y * inside).sum() / (weights * inside).sum()
        residual = inside * (y - mean) / (weights * inside).sum()
        expected = math.sqrt(float((scales * ((replicates - weights[:, None]).T @ residual) ** 2).sum()))
        assert lengths[0] * figures[0][0] / NORM_STEPS == pytest.approx(expected, rel=2e-3)
        assert figures[0][1] == 6.0
