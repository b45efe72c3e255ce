"""The sums of neighbouring data sets, as DuckDB computes them, never differ by more than `Query.sensitivity`, and reach it.

Data sets are told apart by a column `world`, so one engine call sums hundreds of them, each by itself. Everything here
is exact: integers from the engine, no random noise, no tolerance but the one for a square root.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsurvey as ds
from dpsurvey.engine import Engine, Expectations
from dpsurvey.errors import BadValue
from dpsurvey.mechanism.base import Norm
from dpsurvey.privacy.profile import Relation
from dpsurvey.statistic import Query, Statistic
from dpsurvey.statistic.base import Facts
from dpsurvey.statistic.query import FINE, GOLDEN, SECOND_MOMENT_SCALE, Encoding

REGIONS, SEXES, ANSWERS = ("north", "south"), ("female", "male"), ("yes", "no")
FRAME = ds.Frame("frame", unit="id", size=100, categories={"region": {"north": 60, "south": 40}, "sex": SEXES})
DESIGNS = {
    "poisson": ds.poisson(0.1),
    "equal rates": ds.stratified("region", within=ds.poisson(0.1)),
    "unequal rates": ds.stratified("region", within={"north": ds.poisson(0.07), "south": ds.poisson(0.5)}),
    "srs": ds.srs(10),
    "unequal takes": ds.stratified("region", within={"north": ds.srs(7), "south": ds.srs(13)}),
}
BOUNDS = ((0.0, 1.0), (-3.0, 7.0), (0.0, 250_000.0), (1e-9, 2e-9), (-1e150, 3e150), (0.0, 5e-324))
NORMS: tuple[Norm, ...] = ("L1", "L2")


@dataclass(frozen=True)
class Record:
    """What one unit brings: its stratum, group, measured value and answer."""

    region: str
    sex: str
    y: float
    answer: str


@dataclass(frozen=True)
class Case:
    """A statistic of a design, and the encoding that it must lead to."""

    encoding: Encoding
    statistic: Statistic
    design: str
    lattices: int = 1

    def query(self, norm: Norm) -> Query:
        relation: Relation = "replace-one" if DESIGNS[self.design].fixed_size else "add-remove"
        query = self.statistic.query(Facts(FRAME, DESIGNS[self.design].resolve(FRAME), relation, norm))
        assert (query.encoding, len(query.lattice)) == (self.encoding, self.lattices)
        return query


def measured_cases(bounds: tuple[float, float]) -> list[Case]:
    return [
        Case("triple", ds.mean("y", bounds), "poisson"),
        Case("triple", ds.mean("y", bounds, by="sex"), "equal rates"),
        Case("triple", ds.mean("y", bounds, by="sex"), "unequal rates", lattices=2),
        Case("triple", ds.mean("y", bounds), "unequal rates", lattices=2),
        Case("triple", ds.mean("y", bounds, by=("region", "sex")), "unequal rates"),
        Case("triple", ds.total("y", bounds, by="sex"), "unequal takes", lattices=2),
        Case("triple", ds.mean("y", bounds, by="sex"), "srs"),
        Case("moments", ds.mean("y", bounds), "srs"),
        Case("moments", ds.total("y", bounds, by="region"), "unequal takes"),
        Case("moments", ds.mean("y", bounds), "unequal takes", lattices=2),
    ]


COUNTED = [
    Case("pair", ds.proportion("answer", "yes", by="sex"), "poisson"),
    Case("pair", ds.count("answer", "yes", by="sex"), "unequal rates", lattices=2),
    Case("pair", ds.proportion("answer", "yes"), "unequal rates", lattices=2),
    Case("pair", ds.proportion("answer", "yes", by=("region", "sex")), "unequal rates"),
    Case("pair", ds.proportion("answer", "yes", by="sex"), "unequal takes", lattices=2),
    Case("units", ds.count(by="sex"), "poisson"),
    Case("units", ds.count(by=("sex", "region")), "unequal rates", lattices=2),
    Case("units", ds.count(by="sex"), "unequal takes", lattices=2),
    Case("yes", ds.proportion("answer", "yes"), "srs"),
    Case("yes", ds.proportion("answer", "yes", by="region"), "unequal takes"),
    Case("yes", ds.count("answer", "yes"), "unequal takes", lattices=2),
]


def values_around(bounds: tuple[float, float]) -> list[float]:
    """At the bounds, beside them, far outside, tiny, negative zero, and where two free moments differ most."""
    low, high = bounds
    span = high - low
    inner = [low + span * part for part in (1e-12, 1 / 3, 0.5, 1 / GOLDEN, 1 - 1 / GOLDEN, 0.999999)]
    beside = [math.nextafter(end, to) for end in bounds for to in (-math.inf, math.inf)]
    return [low, high, *inner, *beside, -1.7e308, 1.7e308, 0.0, -0.0, 5e-324, -5e-324, 1e-300]


def sums_of(worlds: list[list[Record]], query: Query) -> np.ndarray:
    """The engine's sums of many data sets, (worlds, groups * components), from a census drawn by the engine itself."""
    rows = [(f"w{index}", record) for index, world in enumerate(worlds) for record in world]
    labels = tuple(f"w{index}" for index in range(len(worlds)))
    table = pa.table(
        {
            "id": pa.array(range(len(rows)), pa.int64()),
            "world": pa.array([world for world, _ in rows], pa.string()),
            "region": pa.array([record.region for _, record in rows], pa.string()),
            "sex": pa.array([record.sex for _, record in rows], pa.string()),
            "y": pa.array([record.y for _, record in rows], pa.float64()),
            "answer": pa.array([record.answer for _, record in rows], pa.string()),
        }
    )
    engine = Engine(table)
    categories = {"world": labels, "region": REGIONS, "sex": SEXES}
    engine.draw(ds.poisson(1.0), Expectations(unit="id", numeric=("y",), present=("answer",), categories=categories))
    apart = replace(query, by=("world", *query.by), categories=(labels, *query.categories))
    return engine.sums(apart).values.reshape(len(worlds), -1)


def distances(first: np.ndarray, second: np.ndarray, norm: Norm) -> np.ndarray:
    """All distances between rows; differences of integers below 2^53 are exact in floating point."""
    apart = np.abs(first[:, None, :] - second[None, :, :]).astype(np.float64)
    return apart.sum(axis=-1) if norm == "L1" else np.sqrt((apart**2).sum(axis=-1))


@lru_cache
def universe(bounds: tuple[float, float]) -> tuple[Record, ...]:
    values = values_around(bounds)
    measured = [Record(region, sex, y, "yes") for region in REGIONS for sex in SEXES for y in values]
    return (*measured, *(Record(region, sex, 0.5, answer) for region in REGIONS for sex in SEXES for answer in ANSWERS))


def check_all_neighbours(query: Query, norm: Norm, bounds: tuple[float, float]) -> None:
    """Every record added to, removed from and exchanged in three small data sets."""
    records = universe(bounds)
    bases: list[list[Record]] = [[], [records[0]], [records[1], records[-1], records[1]]]
    worlds = [*bases, *([*base, record] for base in bases for record in records)]
    sums = sums_of(worlds, query)
    without, rest = sums[: len(bases)], sums[len(bases) :].reshape(len(bases), len(records), -1)
    same_region = np.array([[one.region == two.region for two in records] for one in records])
    fixed_group = query.group_is_fixed
    added, replaced = [], []
    for base, with_one in zip(without, rest, strict=True):
        added.append(distances(base[None], with_one, norm).max())
        exchanges = distances(with_one, with_one, norm)
        # Where groups are fixed a neighbour stays in its public stratum; else it may change stratum, group and value at once.
        replaced.append(exchanges[same_region].max() if fixed_group else exchanges.max())
    assert max(replaced) <= query.sensitivity("replace-one", norm)
    if query.encoding != "moments":
        assert max(added) <= query.sensitivity("add-remove", norm)
        assert max(added) == query.steps
        # Attained: exactly in L1, to a part in 10^11 in L2, whose square root is rounded up.
        assert max(replaced) >= query.sensitivity("replace-one", norm) * (1.0 - 1e-11)
    else:
        # Two steps of the bound are for rounding; the rest is attained.
        assert max(replaced) >= query.sensitivity("replace-one", norm) - 3.0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("bounds", BOUNDS[:3], ids=str)
def test_no_neighbour_moves_sums_of_measured_values_further_than_stated(bounds: tuple[float, float], norm: Norm) -> None:
    for case in measured_cases(bounds):
        check_all_neighbours(case.query(norm), norm, bounds)


@pytest.mark.parametrize("norm", NORMS)
def test_no_neighbour_moves_counts_further_than_stated(norm: Norm) -> None:
    for case in COUNTED:
        check_all_neighbours(case.query(norm), norm, (0.0, 1.0))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("bounds", BOUNDS[3:], ids=str)
def test_extreme_bounds_move_sums_no_further_than_stated(bounds: tuple[float, float], norm: Norm) -> None:
    for case in (measured_cases(bounds)[2], measured_cases(bounds)[7], measured_cases(bounds)[9]):
        check_all_neighbours(case.query(norm), norm, bounds)


def coarse(encoding: Encoding, steps: int, norm: Norm) -> Query:
    """A lattice so coarse that rounding is as large as the values."""
    scale = SECOND_MOMENT_SCALE[norm] if encoding == "moments" else 1.0
    fixed = encoding in ("moments", "yes")
    return Query(encoding, "y", (0.0, 1.0), None, (), (), ((None, steps),), None, fixed, scale)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 50, 1000, FINE])
@pytest.mark.parametrize("encoding", ["triple", "moments"])
def test_rounding_to_a_coarse_lattice_is_paid_for(encoding: Encoding, steps: int, norm: Norm) -> None:
    values = np.concatenate([np.linspace(0.0, 1.0, 601), np.random.default_rng(11).random(200), [1 / GOLDEN, 1 - 1 / GOLDEN]])
    query = coarse(encoding, steps, norm)
    sums = sums_of([[Record("north", "female", float(y), "yes")] for y in values], query)
    assert distances(sums, sums, norm).max() <= query.sensitivity("replace-one", norm)
    if encoding == "triple":
        assert np.all(sums >= 0)
        assert np.all(sums.sum(axis=1) == steps)


def test_two_steps_for_rounding_are_needed_and_one_would_not_do() -> None:
    # The bound K + 2 of two rounded moments: with K + 1 some pair of values on some coarse lattice would exceed it in L1.
    excess = []
    for steps in range(1, 40):
        y = np.linspace(0.0, 1.0, 4001)
        sums = np.stack([np.floor(steps * y + 0.5), np.floor(steps * (y * (1.0 - y)) + 0.5)], axis=1)
        first, second = sums.min(axis=0), sums.max(axis=0)
        assert np.all(second - first <= steps)
        excess.append(distances(sums[::8], sums[::8], "L1").max() - steps)
    assert max(excess) >= 1.0
    assert max(excess) <= 2.0


RECORDS = st.builds(
    Record,
    st.sampled_from(REGIONS),
    st.sampled_from(SEXES),
    st.one_of(
        st.sampled_from(values_around((-3.0, 7.0))), st.floats(-3.0, 7.0), st.floats(allow_nan=False, allow_infinity=False)
    ),
    st.sampled_from(ANSWERS),
)
ALL = [*measured_cases((-3.0, 7.0)), *COUNTED]


@given(st.lists(st.tuples(st.lists(RECORDS, max_size=5), RECORDS, RECORDS), min_size=1, max_size=25))
@settings(max_examples=4, deadline=None, derandomize=True)
@pytest.mark.parametrize("encoding", ["triple", "pair", "units", "yes", "moments"])
def test_any_two_neighbours_that_hypothesis_finds_stay_within_the_sensitivity(
    encoding: Encoding, pairs: list[tuple[list[Record], Record, Record]]
) -> None:
    for index, case in enumerate(each for each in ALL if each.encoding == encoding):
        norm = NORMS[index % 2]
        query = case.query(norm)
        worlds: list[list[Record]] = []
        for rest, one, two in pairs:
            other = replace(two, region=one.region) if query.group_is_fixed else two
            # The order of rows must not matter either.
            worlds += [rest, [*rest, one], [other, *reversed(rest)]]
        sums = sums_of(worlds, query).reshape(len(pairs), 3, -1)
        for without, first, second in sums:
            assert distances(first[None], second[None], norm).max() <= query.sensitivity("replace-one", norm)
            if encoding != "moments":
                assert distances(without[None], first[None], norm).max() <= query.sensitivity("add-remove", norm)


def test_two_tables_that_differ_by_one_row_give_what_two_worlds_in_one_table_give() -> None:
    """The column `world` is a device of these tests; without it, engine by engine, the sums are the same."""
    records = [Record("north", "male", 6.9, "yes"), Record("south", "female", -1e9, "no"), Record("south", "male", 0.1, "yes")]
    for case in (measured_cases((-3.0, 7.0))[2], COUNTED[1]):
        query = case.query("L1")
        together = sums_of([records, records[:2]], query)
        for world, sums in zip([records, records[:2]], together, strict=True):
            table = pa.table(
                {
                    "id": list(range(len(world))),
                    **{name: [getattr(record, name) for record in world] for name in ("region", "sex", "y", "answer")},
                }
            )
            engine = Engine(table)
            categories = {"region": REGIONS, "sex": SEXES}
            engine.draw(ds.poisson(1.0), Expectations(unit="id", numeric=("y",), present=("answer",), categories=categories))
            assert engine.sums(query).values.ravel().tolist() == sums.tolist()


def test_moments_are_refused_where_their_sensitivity_was_not_derived() -> None:
    query = coarse("moments", FINE, "L1")
    with pytest.raises(BadValue, match="fixed groups"):
        query.sensitivity("add-remove", "L1")
    with pytest.raises(BadValue, match="fixed groups"):
        replace(query, group_is_fixed=False).sensitivity("replace-one", "L1")


def test_a_record_that_may_change_group_costs_twice_and_the_test_would_see_the_difference() -> None:
    """Power: half the stated sensitivity is exceeded by real neighbours, so the bounds above are not idle."""
    query = Case("triple", ds.mean("y", (0.0, 1.0), by="sex"), "srs").query("L1")
    sums = sums_of([[Record("north", "female", 0.3, "yes")], [Record("north", "male", 0.3, "yes")]], query)
    assert distances(sums[:1], sums[1:], "L1").max() == 2 * query.steps > query.sensitivity("add-remove", "L1")


def grid_distance(scale: float, norm: Norm) -> float:
    """The largest distance of (y, scale y(1-y)) between two values of a fine grid."""
    y = np.concatenate([np.linspace(0.0, 1.0, 3001), [1 / GOLDEN, 1 - 1 / GOLDEN]])
    first, second = np.abs(y[:, None] - y), np.abs((y * (1 - y))[:, None] - y * (1 - y)) * scale
    return float((first + second).max() if norm == "L1" else np.sqrt(first**2 + second**2).max())


def test_the_second_moment_is_free_in_l1() -> None:
    assert grid_distance(1.0, "L1") == pytest.approx(1.0, abs=1e-12)
    # And not at any larger weight.
    assert grid_distance(1.01, "L1") > 1.0 + 1e-5


def test_the_second_moment_is_free_in_l2_up_to_the_golden_ratio_to_the_five_halves() -> None:
    assert pytest.approx(3.3302, abs=1e-4) == GOLDEN**2.5
    assert grid_distance(GOLDEN**2.5, "L2") == pytest.approx(1.0, abs=1e-12)
    assert grid_distance(GOLDEN**2.5 * 1.001, "L2") > 1.0 + 1e-4
    assert SECOND_MOMENT_SCALE["L1"] == 1.0
    assert GOLDEN**2.5 * (1.0 - 1e-8) < SECOND_MOMENT_SCALE["L2"] < GOLDEN**2.5


def test_bounds_whose_span_is_not_a_number_are_refused() -> None:
    # With a span of infinity the engine would divide by it: whether a release fails would depend on the values of rows.
    with pytest.raises(BadValue):
        ds.mean("y", bounds=(-1.7e308, 1.7e308))
