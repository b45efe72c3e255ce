"""Clusters dealt into random groups: no neighbour moves the sums of all random groups further than stated, by design and in
collected files.

Where answers are replaced in place, a neighbour has the same units in the same clusters with the same weights, and clusters
are dealt evenly. Elsewhere a record may bring a cluster that was not there, and the hash of a cluster alone decides.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.design.base import Design
from dpsurvey.engine import Engine, Expectations
from dpsurvey.engine.sums import sum_rows
from dpsurvey.mechanism.base import Norm
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Query, Statistic
from tests.truth import neighbouring as held

Record, NORMS, SEXES = held.Record, held.NORMS, held.SEXES
RANGE = (2.0, 10.0)
# Twelve clusters, six in each region, and the weights of their units.
CLUSTERS = [(f"p{index}", "north" if index < 6 else "south", 2.0 if index % 2 else 10.0) for index in range(12)]

DESIGNS: dict[str, tuple[Design, dict[str, Any]]] = {
    "file": (collected(psu="psu", psus=12), {}),
    "file with strata and weights": (
        collected(strata="region", psu="psu", psus=4, weights="weight", weights_are="design"),
        {"weight_range": RANGE},
    ),
    "drawn clusters": (ds.cluster("psu", ds.srs(12), clusters=24), {}),
    "drawn in strata, unequal rates": (
        ds.stratified(
            "region",
            within={
                "north": ds.cluster("psu", ds.srs(6), clusters=12),
                "south": ds.cluster("psu", ds.srs(6), clusters=60),
            },
        ),
        {},
    ),
    "drawn in proportion to size": (ds.cluster("psu", ds.pps("size", n=12, method="sampford")), {"weight_range": RANGE}),
}
# Each statistic with its encoding where answers are replaced in place, and where records come and go.
STATISTICS: list[tuple[Statistic, str, str]] = [
    (ds.mean("y", (0, 1)), "counted", "pair"),
    (ds.mean("y", (0, 1), by="sex"), "pair", "pair"),
    (ds.mean("y", (0, 1), where={"answer": "yes"}), "pair", "pair"),
    (ds.proportion("answer", "yes"), "counted", "pair"),
    (ds.proportion("answer", "yes", missing="no", where={"x": (0.5, 1.0)}), "pair", "pair"),
    (ds.count(by="sex"), "units", "units"),
    (ds.ratio("y", "x", (0, 1), (0, 1)), "both", "both"),
    (ds.quantile("y", 0.5, (0, 1), leaves=4), "tree", "tree"),
    (ds.mean("y", (0, 1), missing="drop"), "pair", "pair"),
    (ds.proportion("answer", "yes", by="sex", missing="drop"), "pair", "pair"),
    (ds.median("y", (0, 1), leaves=4, missing="drop"), "tree", "tree"),
]
HOW = pytest.mark.parametrize("design", DESIGNS)
ASKED = pytest.mark.parametrize("asked", STATISTICS, ids=lambda asked: asked[0].name)


def answers(psu: str, region: str, weight: float) -> list[Any]:
    place = {"psu": psu, "region": region, "weight": weight}
    return [
        Record(sex=sex, y=y, x=x, answer=answer, **place)
        for sex in SEXES
        for y, x, answer in [(0.0, 0.0, "yes"), (1.0, 1.0, "yes"), (1.0, 0.0, "no"), (0.0, 1.0, "no"), (0.37, 0.5, "yes")]
    ]


def left_out(psu: str, region: str, weight: float) -> list[Any]:
    return [Record(psu=psu, region=region, weight=weight, sex=sex, y=None, answer=None) for sex in SEXES]


@cache
def in_place(missing: bool) -> Any:
    """Every answer of one more unit in three of the clusters, beside data sets that have units in all twelve."""
    places = (CLUSTERS[0], CLUSTERS[1], CLUSTERS[11])
    records = [record for place in places for record in (*answers(*place), *(left_out(*place) if missing else ()))]
    every = [Record(psu=psu, region=region, weight=weight) for psu, region, weight in CLUSTERS]
    # In the second only the added unit of its cluster meets the condition, so the condition is about the answer alone.
    return held.Around(records, [every, [replace(record, answer="no", x=0.0) for record in every]])


@cache
def coming_and_going(missing: bool) -> Any:
    """Units of old and new clusters, beside no data and data with some clusters."""
    new = [("q0", "north", 10.0), ("q1", "south", 10.0), ("q2", "south", 2.0)]
    places = (CLUSTERS[0], CLUSTERS[11], *new)
    records = [record for place in places for record in (*answers(*place), *(left_out(*place) if missing else ()))]
    some = [Record(psu=psu, region=region, weight=weight) for psu, region, weight in CLUSTERS[::3]]
    return held.Around(records, [[], some])


def query_of(design: str, statistic: Statistic, relation: Relation, norm: Norm, **more: Any) -> Query:
    drawn, known = DESIGNS[design]
    in_groups = replace(statistic, variance="groups")
    query = in_groups.query(held.facts_of(drawn, relation, norm, **known, **more))
    assert query.random_groups is not None
    assert query.random_groups.count >= 2
    return query


@HOW
@ASKED
def test_answers_replaced_in_place_move_the_random_groups_no_further_than_stated(
    design: str, asked: tuple[Statistic, str, str]
) -> None:
    statistic, encoding, _ = asked
    for norm in NORMS:
        query = query_of(design, statistic, Relation.REPLACE_ONE, norm)
        assert query.random_groups is not None
        assert (query.encoding.name, query.random_groups.balanced) == (encoding, True)
        _, replaced = in_place(bool(query.dropped)).moves(query, norm, held.same_place)
        stated = query.sensitivity(Relation.REPLACE_ONE, norm)
        assert replaced <= stated
        assert replaced >= stated * (1.0 - 1e-5)


@HOW
@ASKED
def test_records_that_come_and_go_with_new_clusters_move_the_random_groups_no_further_than_stated(
    design: str, asked: tuple[Statistic, str, str]
) -> None:
    statistic, _, encoding = asked
    for norm in NORMS:
        query = query_of(design, statistic, Relation.ADD_REMOVE, norm)
        assert query.random_groups is not None
        assert (query.encoding.name, query.random_groups.balanced) == (encoding, False)
        added, _ = coming_and_going(bool(query.dropped)).moves(query, norm)
        assert (
            query.sensitivity(Relation.ADD_REMOVE, norm) * (1.0 - 1e-5) <= added <= query.sensitivity(Relation.ADD_REMOVE, norm)
        )


@HOW
@ASKED
def test_a_respondent_replaced_by_one_of_another_cluster_moves_the_random_groups_no_further_than_stated(
    design: str, asked: tuple[Statistic, str, str]
) -> None:
    for norm in NORMS:
        query = query_of(design, asked[0], Relation.REPLACE_ONE, norm, respondents_only=True)
        assert query.random_groups is not None
        assert not query.random_groups.balanced
        _, replaced = coming_and_going(bool(query.dropped)).moves(query, norm)
        assert (
            query.sensitivity(Relation.REPLACE_ONE, norm) * (1.0 - 1e-5)
            <= replaced
            <= query.sensitivity(Relation.REPLACE_ONE, norm)
        )


def alone(records: list[Any], query: Query) -> np.ndarray:
    """The sums of one data set in a table of its own."""
    return np.asarray(sum_rows(held.Worlds([records]).table, query).values)


def test_even_dealing_would_not_hide_a_record_that_brings_a_new_cluster() -> None:
    query = query_of("file", ds.mean("y", (0, 1)), Relation.ADD_REMOVE, "L1")
    assert query.random_groups is not None
    even = replace(query, random_groups=replace(query.random_groups, balanced=True))
    before = [Record(psu=psu, y=float(size % 2)) for size, (psu, _, _) in enumerate(CLUSTERS) for _ in range(size)]
    stated = query.sensitivity(Relation.ADD_REMOVE, "L1")
    moved = [
        [np.abs(alone(before, how) - alone([*before, Record(psu=f"q{new}", y=1.0)], how)).sum() for new in range(6)]
        for how in (query, even)
    ]
    assert max(moved[0]) <= stated
    assert max(moved[1]) > 5 * stated


@pytest.mark.parametrize("design", ["file", "file with strata and weights"])
def test_a_condition_on_an_answer_does_not_change_where_clusters_are_dealt(design: str) -> None:
    """One record leaves the condition, and with it the last one of its cluster: all other clusters stay where they are."""
    query = query_of(design, ds.mean("y", (0, 1), where={"answer": "yes"}), Relation.REPLACE_ONE, "L1")
    every = [
        Record(psu=psu, region=region, weight=weight, y=index % 4 / 3) for index, (psu, region, weight) in enumerate(CLUSTERS)
    ]
    stated, asked = query.sensitivity(Relation.REPLACE_ONE, "L1"), replace(query, where=())
    careless = []
    for index, record in list(enumerate(every))[::2]:
        without = [*every[:index], replace(record, answer="no"), *every[index + 1 :]]
        assert np.abs(alone(every, query) - alone(without, query)).sum() <= stated / 2.0
        # Power: with the rows left out first, clusters are dealt without the one that has no row left.
        left = [each for each in without if each.answer == "yes"]
        careless.append(np.abs(alone(every, asked) - alone(left, asked)).sum())
    assert max(careless) > stated


def test_two_drawn_samples_that_differ_in_one_answer_have_all_clusters_in_the_same_random_groups() -> None:
    """By the engine's own draw: one key draws the same clusters of two frames, and one unit answers differently."""
    design = ds.cluster("psu", ds.srs(12), clusters=24)
    psu, key = np.array([f"p{index}" for index in np.repeat(np.arange(24), 5)]), ds.Key(bytes(range(32)))
    expected = Expectations(unit="id", numeric=("y", "x"), present=("psu", "sex", "answer"))

    def drawn(changed: int | None) -> Engine:
        other = np.arange(120) == (-1 if changed is None else changed)
        answers = {"y": np.where(other, 1.0, 0.25), "x": np.where(other, 0.0, 0.75)}
        labels = {"answer": np.where(other, "no", "yes"), "sex": np.where(other, "female", "male")}
        engine = Engine(pa.table({"id": np.arange(120), "psu": psu} | answers | labels))
        engine.draw(design.recipe(), expected, key=key)
        return engine

    before, after = drawn(None), [drawn(changed) for changed in range(0, 60, 10)]
    for statistic, _, _ in STATISTICS:
        query = query_of("drawn clusters", statistic, Relation.REPLACE_ONE, "L1")
        sums = before.sums(query).values
        moved = [int(np.abs(engine.sums(query).values - sums).sum()) for engine in after]
        assert max(moved) <= query.sensitivity(Relation.REPLACE_ONE, "L1")
        # Half of the clusters are drawn, so some of the changed units are in the sample and some are not.
        assert max(moved) > 0
        assert min(moved) == 0
