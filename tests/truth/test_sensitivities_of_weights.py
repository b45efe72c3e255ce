"""Units with weights of their own: no neighbour moves the sums further than stated, under either relation and norm.

Weights come from columns of a collected file or from a draw with unequal probabilities. Sums are the engine's, exact.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.design.base import Design
from dpsurvey.engine import Engine, Expectations
from dpsurvey.mechanism.base import Norm
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Query, Statistic
from dpsurvey.statistic.encodings import GOLDEN, Triple
from tests.truth import neighbouring as held

pytestmark = pytest.mark.quick

Record, NORMS, RELATIONS, SEXES = held.Record, held.NORMS, held.RELATIONS, held.SEXES
RANGE = (2.0, 10.0)
FILE = collected(weights="weight", weights_are="design")
UNEQUAL = ds.poisson_by("rate", at_most=0.5)
VALUES = (0.0, 1 / 3, 0.5, 1 / GOLDEN, 1 - 1 / GOLDEN, 1.0, -4.0, 9.0)


@dataclass(frozen=True)
class Case:
    """A statistic of units with weights, its encoding, and the part of the sensitivity that a replaced record reaches."""

    encoding: str
    statistic: Statistic
    design: Design = FILE
    reached: tuple[float, float] = (1.0, 1.0)
    epsilon: float = 1.0
    # As version 0.8 asked it.
    before: bool = False


GREG = ds.greg(ds.mean("y", (0, 1)), {"x": ((0, 1), 0.5), "v": ((0, 1), 0.5)})
CASES = [
    Case("spread", ds.mean("y", (0, 1), by="sex"), epsilon=2.0, before=True),
    Case("spread", ds.mean("y", (0, 1)), epsilon=2.0, before=True),
    Case("spread", ds.mean("y", (0, 1), trim=5.0), epsilon=2.0, before=True),
    Case("spread", ds.mean("y", (0, 1), shrink=0.5), epsilon=2.0, before=True),
    Case("spread", ds.mean("y", (0, 1), where={"answer": "yes"}), UNEQUAL, epsilon=2.0, before=True),
    Case("triple", ds.mean("y", (0, 1), by="sex"), before=True),
    Case("free spread", ds.mean("y", (0, 1), by="sex")),
    Case("free spread", ds.mean("y", (0, 1), by="sex", trim=5.0)),
    Case("free spread", ds.mean("y", (0, 1), shrink=0.25), UNEQUAL),
    Case("free spread", ds.mean("y", (0, 1), where={"answer": "yes"}), UNEQUAL),
    Case("free spread", ds.mean("y", (0, 1), missing=0.25)),
    Case("free pair", ds.proportion("answer", "yes", by="sex"), UNEQUAL),
    Case("free pair", ds.proportion("answer", "yes", missing="no")),
    Case("pair", ds.proportion("answer", "yes", missing="no"), before=True),
    Case("pair", ds.count("answer", "yes", by="sex"), UNEQUAL),
    Case("units", ds.count(by="sex")),
    Case("ratio", ds.ratio("y", "x", (0, 1), (0, 1), by="sex")),
    # In one cell two records cannot be told apart fully, so replacing costs less than removing one and adding another.
    Case("ratio", ds.ratio("y", "x", (0, 1), (0, 1)), reached=(0.5, 0.7)),
    Case("triple", ds.imputed(ds.mean("y", (0, 1)), "sex")),
    Case("products", GREG, reached=(0.45, 0.84)),
    Case("spread", ds.mean("y", (0, 1), missing="drop"), epsilon=2.0, before=True, reached=(0.9, 0.9)),
    Case("free spread", ds.mean("y", (0, 1), by="sex", trim=5.0, missing="drop")),
    Case("ratio", ds.ratio("y", "x", (0, 1), (0, 1), missing="drop"), reached=(0.5, 0.7)),
    Case("products", ds.greg(ds.mean("y", (0, 1), missing="drop"), {"x": ((0, 1), 0.5)}), reached=(0.45, 0.7)),
    Case("tree", ds.median("y", (0, 1), leaves=16, missing="drop")),
    Case("free spread", ds.total("y", (1, 2), missing="drop"), reached=(0.5, 0.7)),
    Case("triple", ds.total("y", (1, 2), by="sex"), reached=(1.0, 1.0)),
    Case("pair", ds.table("sex", "answer", missing="drop")),
    Case("moments", ds.total("y", (0, 1), estimator="horvitz-thompson"), UNEQUAL, reached=(0.49, 0.7), before=True),
    Case("weighted moments", ds.total("y", (0, 1), estimator="horvitz-thompson"), UNEQUAL, reached=(0.49, 0.7)),
    Case("tree", ds.quantile("y", 0.5, (0, 1), by="sex", leaves=16)),
    Case("tree", ds.quantile("y", 0.5, (1e-3, 1), spacing="log", leaves=16), UNEQUAL),
]


@cache
def around(with_missing: bool) -> Any:
    """Records of all weights, one beyond the largest, beside all values; and data sets that they join."""
    points = [(y, x, v) for y in VALUES for x in (0.0, 0.5, 1.0) for v in ((0.0, 1.0) if y in (0.0, 1.0) else (0.5,))]
    records = [
        Record(sex=sex, y=y, x=x, v=v, weight=weight, pi=pi)
        for sex in SEXES
        for weight, pi in ((2.0, 0.5), (3.3, 0.3), (10.0, 0.0), (12.0, 0.0))
        for y, x, v in points
    ]
    records += [Record(sex=sex, answer=answer, weight=10.0) for sex in SEXES for answer in ("no", None)]
    records += [Record(sex=sex, y=None, weight=10.0) for sex in SEXES] if with_missing else []
    return held.Around(records, [[], [Record(weight=3.0, pi=0.2), Record(sex="male", y=1.0, weight=10.0)]])


def query_of(case: Case, relation: Relation, norm: Norm) -> Query:
    facts = held.facts_of(case.design, relation, norm, weight_range=RANGE, epsilon=case.epsilon, as_in_0_8=case.before)
    query = case.statistic.query(facts)
    assert query.encoding.name == case.encoding
    assert query.weights is not None
    return query


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.encoding} {case.statistic.name}")
def test_no_neighbour_moves_weighted_sums_further_than_stated_and_some_move_as_far(
    case: Case, relation: Relation, norm: Norm
) -> None:
    query = query_of(case, relation, norm)
    accepts_missing = query.fill is not None or bool(query.dropped)
    added, replaced = around(accepts_missing).moves(query, norm)
    moved = added if relation == Relation.ADD_REMOVE else replaced
    stated = query.sensitivity(relation, norm)
    part = 1.0 if relation == Relation.ADD_REMOVE else case.reached[NORMS.index(norm)]
    assert moved <= stated
    # The rest is what rounding might add, a few steps of a million.
    assert moved >= part * stated * (1.0 - 1e-5)


def test_the_sensitivity_of_sums_alone_would_be_too_small_for_their_spread() -> None:
    spread = query_of(CASES[0], Relation.ADD_REMOVE, "L1")
    added, _ = around(False).moves(spread, "L1")
    assert added == 1.25 * spread.steps > replace(spread, encoding=Triple()).sensitivity(Relation.ADD_REMOVE, "L1")


def test_a_weight_that_were_not_cut_at_the_largest_would_break_the_bound() -> None:
    query = query_of(Case("units", ds.count(by="sex")), Relation.ADD_REMOVE, "L1")
    assert query.weights is not None
    uncut = replace(query, weights=replace(query.weights, largest=12.0, steps=query.steps * 12 // 10))
    added, _ = around(False).moves(uncut, "L1")
    assert added > query.sensitivity(Relation.ADD_REMOVE, "L1")


PAIRS = [((1.0, 3.0), 28.0), ((-1.0, 2.0), 30.0), ((0.0, 1.0), 10.0), ((-3.0, -1.0), 28.0)]


def expanded(bounds: tuple[float, float], norm: Norm, design: Design) -> Query:
    facts = held.facts_of(design, Relation.REPLACE_ONE, norm, weight_range=RANGE)
    query = ds.total("y", bounds, estimator="horvitz-thompson").query(facts)
    assert (query.encoding.name, query.group_is_fixed) == ("moments", True)
    return query


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("bounds", "span"), PAIRS)
@pytest.mark.parametrize(
    "design", [ds.pps("size", n=4, method="sampford"), collected(weights="weight", weights_are="design", n=4)], ids=str
)
def test_expanded_values_of_any_weight_and_value_stay_on_the_range_of_pairs(
    design: Design, bounds: tuple[float, float], span: float, norm: Norm
) -> None:
    query = expanded(bounds, norm, design)
    assert query.expanded is not None
    assert query.expanded[1] - query.expanded[0] == span
    low, high = bounds
    parts = [*np.linspace(0.0, 1.0, 9), 1 / GOLDEN, -2.0, 3.0]
    records = [Record(y=low + (high - low) * part, weight=weight) for part in parts for weight in (2.0, 5.0, 6.18034, 10.0, 11.0)]
    _, replaced = held.Around(records, [[], [Record(weight=5.0)]]).moves(query, norm)
    stated = query.sensitivity(Relation.REPLACE_ONE, norm)
    assert stated - 3.0 <= replaced <= stated
    # The range of values times the largest weight is not enough: a record moves the total further than that.
    in_units = replaced / query.steps * span
    assert in_units >= span * (1.0 - 1e-6)
    assert (in_units > 10.0 * (high - low) * (1.0 + 1e-6)) == (low > 0.0 or high < 0.0)


def moving(bounds: tuple[float, float], weights: tuple[float, float], n: int, norm: Norm) -> Query:
    facts = held.facts_of(
        collected(weights="weight", weights_are="design", n=n),
        Relation.REPLACE_ONE,
        norm,
        weight_range=weights,
        weights_move=True,
        reach=1.0,
    )
    query = ds.total("y", bounds, estimator="horvitz-thompson").query(facts)
    assert query.encoding.name == "sum"
    return query


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("bounds", "weights"), [((-1.0, 3.0), (1.0, 6.0)), ((1.0, 2.0), (2.0, 3.0)), ((0.0, 1.0), (2.0, 4.0))])
def test_where_one_record_changes_every_weight_the_sum_moves_by_the_frame_agnostic_bound(
    bounds: tuple[float, float], weights: tuple[float, float], norm: Norm
) -> None:
    """All samples of three records: neighbours have one other value and any weights at all."""
    query = moving(bounds, weights, 3, norm)
    values = list(itertools.product((bounds[0], sum(bounds) / 2.0, bounds[1]), repeat=3))
    chosen = list(itertools.product(weights, repeat=3))
    worlds = [[Record(y=y, weight=w) for y, w in zip(ys, ws, strict=True)] for ys in values for ws in chosen]
    sums = held.Worlds(worlds).sums(query)[:, 0].reshape(len(values), len(chosen))
    apart = np.array([[sum(a != b for a, b in zip(one, two, strict=True)) for two in values] for one in values])
    furthest = np.maximum(sums.max(axis=1)[:, None] - sums.min(axis=1)[None, :], 0)[apart <= 1].max()
    stated = query.sensitivity(Relation.REPLACE_ONE, norm)
    assert stated * (1.0 - 1e-5) <= furthest <= stated
    # Power: what a fixed frame asks for would be too little.
    assert furthest > replace(query, reach=1.0).sensitivity(Relation.REPLACE_ONE, norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("weights", [(7.0, 10.0), (99.0, 100.0)])
def test_rounding_of_every_record_is_paid_for_where_every_weight_may_change(weights: tuple[float, float], norm: Norm) -> None:
    n = 50
    query = moving((0.0, 1.0), weights, n, norm)
    few, many = ([Record(y=1.0, weight=weight)] * (n - 1) for weight in weights)
    sums = held.Worlds([[*few, Record(y=0.0, weight=weights[0])], [*many, Record(y=1.0, weight=weights[1])]]).sums(query)[:, 0]
    assert abs(int(sums[1]) - int(sums[0])) <= query.sensitivity(Relation.REPLACE_ONE, norm)


def test_a_drawn_sample_has_the_weights_and_probabilities_that_the_sensitivity_supposes(tmp_path: Path) -> None:
    rows = pa.table({"id": np.arange(120), "rate": np.repeat([0.5, 0.2, 0.1], 40), "y": np.ones(120)})
    engine, path = Engine(rows), tmp_path / "sample.parquet"
    engine.draw(UNEQUAL.recipe(), Expectations(unit="id", numeric=("y",), positive=("rate",)), key=ds.Key(bytes(range(32))))
    engine.write_sample(str(path), "id", UNEQUAL.recipe())
    drawn = pq.read_table(path).to_pydict()
    assert len(drawn["unit"]) > 10
    query = query_of(Case("spread", ds.mean("y", (0, 1)), UNEQUAL, epsilon=2.0, before=True), Relation.ADD_REMOVE, "L1")
    steps = [int(weight / 10.0 * query.steps + 0.5) for weight in drawn["weight"]]
    spread = [
        int((own / query.steps) ** 2 * (1.0 - pi) * 0.25 * query.steps + 0.5) for own, pi in zip(steps, drawn["pi"], strict=True)
    ]
    assert engine.sums(query).values.tolist() == [[sum(steps), 0, 0, sum(spread), 0, 0]]
    assert max(own + more for own, more in zip(steps, spread, strict=True)) <= query.sensitivity(Relation.ADD_REMOVE, "L1")
