"""Encodings that depend on the design: ratios, trees, products, ranges by category, conditions, missing answers, donors.

Every record of a universe is added to and exchanged in small data sets, and the engine sums them. Where sizes are public a
replaced record stays in its stratum; elsewhere it may be any other record.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.design.base import Design
from dpsurvey.mechanism.base import Norm
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Query, Statistic
from dpsurvey.statistic.encodings import GOLDEN, RatioMoments
from dpsurvey.statistic.query import FINE
from tests.truth import neighbouring as held

pytestmark = pytest.mark.quick

Record, NORMS, REGIONS, SEXES = held.Record, held.NORMS, held.REGIONS, held.SEXES
ADD: Relation = Relation.ADD_REMOVE
REPLACE: Relation = Relation.REPLACE_ONE

DESIGNS: dict[str, Design] = {
    "poisson": ds.poisson(0.1),
    "unequal rates": ds.stratified("region", within={"north": ds.poisson(0.07), "south": ds.poisson(0.5)}),
    "srs": ds.srs(10),
    "unequal takes": ds.stratified("region", within={"north": ds.srs(7), "south": ds.srs(13)}),
}
RATIO: dict[str, Any] = {"of": "y", "to": "x", "bounds": (0, 1), "to_bounds": (0, 1)}
ON: dict[str, Any] = {"x": ((0, 1), 0.5), "v": ((0, 1), 0.5)}
OWN = {"north": (0.0, 1.0), "south": (-2.0, 3.0)}
BY_SEX = {"female": (0.0, 0.5), "male": (0.25, 1.0)}


@dataclass(frozen=True)
class Case:
    """A statistic of a design, its encoding, and the part of the sensitivity that some neighbour reaches, by norm."""

    encoding: str
    statistic: Statistic
    design: str
    relation: Relation
    in_place: bool
    reached: tuple[float, float] = (1.0, 1.0)
    lattices: int = 1


CASES = [
    # (y, x) and their second moments, for both relations, in place and moving between groups.
    Case("ratio", ds.ratio(**RATIO), "poisson", ADD, False),
    Case("ratio", ds.ratio(**RATIO, by="sex"), "unequal rates", ADD, False, lattices=2),
    Case("ratio", ds.ratio(**RATIO), "srs", REPLACE, True),
    Case("ratio", ds.ratio(**RATIO), "unequal takes", REPLACE, True, lattices=2),
    Case("ratio", ds.ratio(**RATIO, by="region"), "unequal takes", REPLACE, True, lattices=2),
    Case("ratio", ds.ratio(**RATIO, by="sex"), "srs", REPLACE, False),
    Case("ratio", ds.ratio(**RATIO, where={"sex": "male"}), "srs", REPLACE, False, reached=(0.5, 0.7)),
    Case("tree", ds.quantile("y", 0.5, (0, 1), leaves=16, method="tree"), "srs", REPLACE, True),
    Case("tree", ds.quantile("y", 0.5, (0, 1), leaves=16, by="sex"), "unequal rates", ADD, False, lattices=2),
    Case("tree", ds.quantile("y", 0.9, (0, 1), leaves=16, spacing="log", first=0.01, method="tree"), "srs", REPLACE, True),
    Case("tree", ds.quantile("y", 0.5, (0, 1), leaves=16, where={"answer": "yes"}), "srs", REPLACE, False),
    Case("products", ds.greg(ds.mean("y", (0, 1)), {"x": ON["x"]}), "poisson", ADD, True),
    Case("products", ds.greg(ds.mean("y", (0, 1)), ON), "unequal rates", ADD, False, lattices=2),
    Case("products", ds.greg(ds.mean("y", (0, 1)), {"x": ON["x"]}), "srs", REPLACE, True),
    Case("products", ds.greg(ds.total("y", (0, 1)), ON), "unequal takes", REPLACE, True, lattices=2),
    Case("triple", ds.imputed(ds.mean("y", (0, 1)), "sex"), "poisson", ADD, False),
    Case("triple", ds.imputed(ds.mean("y", (0, 1)), ("region", "sex")), "unequal takes", REPLACE, False, lattices=2),
    Case("triple", ds.calibrated(ds.mean("y", (0, 1)), {"sex": {"female": 50, "male": 50}}), "srs", REPLACE, False),
    Case("pair", ds.calibrated(ds.proportion("answer", "yes"), {"sex": {"female": 50, "male": 50}}), "srs", REPLACE, False),
    # Second moments that are free where a record comes or goes, too.
    Case("weighted moments", ds.total("y", (0, 1), estimator="horvitz-thompson"), "poisson", ADD, False),
    Case("weighted moments", ds.total("y", (-2, 3), estimator="horvitz-thompson"), "unequal rates", ADD, False, lattices=2),
    # Ranges by category: strata, a grouping column, another declared column.
    Case("moments", ds.mean("y", OWN), "unequal takes", REPLACE, True, lattices=2),
    Case("moments", ds.total("y", OWN, by="region"), "unequal takes", REPLACE, True),
    Case("moments", ds.mean("y", BY_SEX), "srs", REPLACE, True),
    Case("triple", ds.mean("y", BY_SEX, by="sex"), "srs", REPLACE, False),
    # The larger weight has the narrower range here, well inside the common one.
    Case("free spread", ds.mean("y", OWN), "unequal rates", ADD, False, reached=(1.0, 0.6), lattices=2),
    Case("triple", ds.total("y", OWN, by="region"), "unequal rates", ADD, False),
    Case("moments", ds.mean("y", OWN, estimator="by-stratum"), "unequal takes", REPLACE, True),
    # Conditions, on a label or a range of an answer.
    Case("triple", ds.mean("y", (0, 1), where={"answer": "yes"}), "srs", REPLACE, False),
    Case("free spread", ds.mean("y", (0, 1), where={"x": (0.0, 0.4)}), "unequal takes", REPLACE, False, lattices=2),
    Case("pair", ds.proportion("answer", "yes", where={"y": (0.5, 1.0)}), "srs", REPLACE, False),
    Case("pair", ds.proportion("answer", "yes", where={"sex": "male"}), "poisson", ADD, False),
    # A missing answer has a public value.
    Case("moments", ds.mean("y", (0, 1), missing=0.25), "srs", REPLACE, True),
    Case("triple", ds.mean("y", (0, 1), by="sex", missing=1.0), "poisson", ADD, False),
    Case("yes", ds.proportion("answer", "yes", missing="yes"), "srs", REPLACE, True),
    Case("tree", ds.median("y", (0, 1), leaves=16, method="tree", missing=0.25), "srs", REPLACE, True),
    # Who did not answer is left out, and counted by a sum of its own.
    Case("triple", ds.mean("y", (0, 1), missing="drop"), "poisson", ADD, False),
    Case("triple", ds.mean("y", (0, 1), missing="drop"), "srs", REPLACE, False),
    Case("triple", ds.mean("y", OWN, by="region", missing="drop"), "unequal takes", REPLACE, False),
    Case(
        "free spread", ds.mean("y", (0, 1), where={"x": (0.0, 0.4)}, missing="drop"), "unequal takes", REPLACE, False, lattices=2
    ),
    Case("pair", ds.proportion("answer", "yes", by="sex", missing="drop"), "srs", REPLACE, False),
    Case("ratio", ds.ratio(**RATIO, missing="drop"), "srs", REPLACE, False, reached=(0.5, 0.7)),
    Case("ratio", ds.ratio(**RATIO, by="sex", missing="drop"), "unequal rates", ADD, False, lattices=2),
    Case("tree", ds.median("y", (0, 1), leaves=16, method="tree", missing="drop"), "srs", REPLACE, False),
    Case("products", ds.greg(ds.mean("y", (0, 1), missing="drop"), ON), "srs", REPLACE, False, reached=(0.5, 0.7)),
    Case("products", ds.greg(ds.mean("y", (0, 1), missing="drop"), {"x": ON["x"]}), "poisson", ADD, False),
    Case(
        "triple",
        ds.calibrated(ds.mean("y", (0, 1), missing="drop"), {"sex": {"female": 50, "male": 50}}),
        "srs",
        REPLACE,
        False,
    ),
    # To a total or a count a missing answer adds 0 or no.
    Case("moments", ds.total("y", (0, 1), missing="drop"), "srs", REPLACE, True),
    Case("triple", ds.total("y", (-2, 3), by="sex", missing="drop"), "poisson", ADD, False),
    Case("yes", ds.count("answer", "yes", missing="drop"), "unequal takes", REPLACE, True),
    Case("yes", ds.count(where={"y": (0.5, 1.0)}, missing="drop"), "srs", REPLACE, True),
    Case("pair", ds.count(where={"y": (0.5, 1.0)}, missing="drop"), "poisson", ADD, False),
    Case("pair", ds.count(by="answer", missing="drop"), "srs", REPLACE, False),
    Case("pair", ds.table("sex", "answer", missing="drop"), "unequal rates", ADD, False, lattices=2),
]


@cache
def around(with_missing: bool) -> Any:
    """Corners and inner points of three answers in every group, values far outside, and missing answers."""
    inner = (1 / 3, 0.5, 1 / GOLDEN, 1 - 1 / GOLDEN)
    points = [*itertools.product((0.0, 1.0), repeat=3), *((y, x, 0.5) for y in inner for x in inner)]
    # Where products differ most in L1 from those of a corner: all answers alike, for one regressor and for two.
    points += [(1.0 - (q + 3) / (2 * (q + 1)),) * 3 for q in (2, 3)]
    points += [(-5.0, 7.0, 0.5), (7.0, -5.0, 0.5), (3.0, 0.2, 0.5), (-2.0, 0.2, 0.5), (0.25, 0.0, 0.0), (1.7e308, 0.0, 0.0)]
    records = [Record(region=region, sex=sex, y=y, x=x, v=v) for region in REGIONS for sex in SEXES for y, x, v in points]
    records += [Record(region=region, sex=sex, y=y, answer="no") for region in REGIONS for sex in SEXES for y in (0.0, 1.0)]
    if with_missing:
        records += [Record(region=region, sex=sex, y=None, answer=None) for region in REGIONS for sex in SEXES]
    return held.Around(records, [[], [Record(), Record(region="south", sex="male", y=1.0, answer="no")]])


def query_of(case: Case, norm: Norm) -> Query:
    query = case.statistic.query(held.facts_of(DESIGNS[case.design], case.relation, norm))
    assert (query.encoding.name, query.group_is_fixed, len(query.lattice)) == (case.encoding, case.in_place, case.lattices)
    return query


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.statistic.name}, {case.design}")
def test_no_neighbour_moves_the_sums_further_than_stated_and_some_move_as_far(case: Case, norm: Norm) -> None:
    query = query_of(case, norm)
    kinship = held.same_stratum if case.in_place else held.anything
    added, replaced = around(query.fill is not None or bool(query.dropped)).moves(query, norm, kinship)
    moved, stated = (added if case.relation == ADD else replaced), query.sensitivity(case.relation, norm)
    assert moved <= stated
    # What is left is for rounding, a few steps of a million.
    assert moved >= case.reached[NORMS.index(norm)] * stated * (1.0 - 2e-5)


@pytest.mark.parametrize("scale", [1.0 / 3.0, 0.34])
def test_the_second_moments_of_a_ratio_in_place_are_free_up_to_one_third_in_l1(scale: float) -> None:
    query = query_of(CASES[2], "L1")
    assert isinstance(query.encoding, RatioMoments)
    query = replace(query, encoding=replace(query.encoding, scale=scale))
    grid = [Record(y=1.0 - part, x=part) for part in (*np.linspace(0.0, 1.0, 11), 0.99, 0.995)]
    _, replaced = held.Around(grid, [[]]).moves(query, "L1")
    assert (replaced <= query.sensitivity(REPLACE, "L1")) == (scale <= 1.0 / 3.0)


def test_free_second_moments_of_a_ratio_cost_where_a_record_moves_between_groups_as_if_it_stayed() -> None:
    query = query_of(CASES[5], "L1")
    _, replaced = around(False).moves(query, "L1")
    assert replaced > replace(query, group_is_fixed=True).sensitivity(REPLACE, "L1")


def test_strata_measured_on_ranges_of_their_own_count_by_weight_times_range() -> None:
    """north: 60/7 per unit times 1; south: 40/13 per unit times 5. The lattice of the first is as much coarser."""
    query = query_of(Case("moments", ds.mean("y", OWN), "unequal takes", REPLACE, True, lattices=2), "L1")
    steps = dict(query.lattice)
    assert steps["north"] / steps["south"] == pytest.approx((60 / 7) / (40 / 13 * 5), rel=1e-6)
    low, high = (held.Around([Record(region=region, y=y) for y in OWN[region]], [[]]) for region in REGIONS)
    assert low.moves(query, "L1")[1] == steps["north"]
    assert high.moves(query, "L1")[1] == steps["south"] == query.steps


def completed(donors: list[tuple[str, float]], uses: int) -> list[Any]:
    """Two donors and their takers, `uses` of each sex: a taker copies its donor if they are of one sex, else a public value.

    Who may take from whom is public, so the rule is stable: one donor decides about itself and at most 2 x uses others.
    """
    public = {"female": 0.0, "male": 1.0}
    records = [Record(sex=sex, y=y, region=region) for (sex, y), region in zip(donors, REGIONS, strict=True)]
    for (sex, y), region in zip(donors, REGIONS, strict=True):
        records += [Record(region=region, sex=own, y=y if own == sex else public[own]) for own in SEXES for _ in range(uses)]
    return records


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize(
    ("statistic", "more", "reached"),
    [
        (ds.mean("y", (0, 1)), {"n": 10}, True),
        (ds.mean("y", (0, 1)), {}, True),
        (ds.mean("y", (0, 1)), {"weights": "weight", "weights_are": "design"}, True),
        (ds.mean("y", (0, 1), by="region"), {}, True),
        (ds.quantile("y", 0.5, (0, 1), leaves=4), {}, True),
        (ds.greg(ds.mean("y", (0, 1)), {"x": ON["x"]}), {"n": 10}, False),
    ],
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_a_donor_moves_itself_and_the_records_it_gave_and_gives_to(
    statistic: Statistic, more: dict[str, Any], reached: bool, uses: int, norm: Norm
) -> None:
    design = collected(imputed="donors", donor_uses=uses, **more)
    facts = held.facts_of(design, REPLACE, norm, weight_range=(1.0, 1.0) if "weights" in more else None, reach=design.reach)
    query = statistic.query(facts)
    assert query.reach == 1.0 + 2.0 * uses
    own = list(itertools.product(SEXES, (0.0, 0.4, 1.0)))
    pairs = list(itertools.product(own, repeat=2))
    sums = held.Worlds([completed(list(pair), uses) for pair in pairs]).sums(query)
    apart = np.array([[sum(a != b for a, b in zip(one, two, strict=True)) for two in pairs] for one in pairs])
    moved, stated = held.distances(sums, sums, norm)[apart == 1].max(), query.sensitivity(REPLACE, norm)
    assert moved <= stated
    assert moved > replace(query, reach=2.0 * uses).sensitivity(REPLACE, norm) or not reached
    assert moved >= stated * (1.0 - 1e-5) or not reached


def test_a_coarse_lattice_pays_for_its_rounding_in_every_encoding() -> None:
    """With a few steps to a record rounding is as large as the values; the slack must cover it."""
    records = [Record(y=y, x=x) for y in np.linspace(0.0, 1.0, 21) for x in (0.0, 0.2, 0.5, 0.75, 1.0)]
    pairs, found = held.Around(records, [[]]), []
    for index, norm, steps in itertools.product((0, 2, 11, 13, 19), NORMS, (1, 2, 3, 5, 64, 1000, FINE)):
        query = replace(query_of(CASES[index], norm), lattice=((None, steps),))
        added, replaced = pairs.moves(query, norm)
        moved = added if CASES[index].relation == ADD else replaced
        assert moved <= query.sensitivity(CASES[index].relation, norm), (query.encoding, norm, steps)
        fine = replace(query, lattice=((None, 2**40),))
        found.append(moved - fine.sensitivity(CASES[index].relation, norm) / 2**40 * steps)
    # The slack is not idle: without it some lattice would break the bound.
    assert max(found) > 0.25
