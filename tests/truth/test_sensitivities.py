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
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Query, Statistic
from dpsurvey.statistic.encodings import GOLDEN, SECOND_MOMENT_SCALE, Encoding, FreePair, FreeSpread, Moments, Triple, Window
from dpsurvey.statistic.facts import Facts
from dpsurvey.statistic.query import FINE

REGIONS, SEXES, ANSWERS = ("north", "south"), ("female", "male"), ("yes", "no")
FRAME = ds.Frame("frame", unit="id", size=100, categories={"region": {"north": 60, "south": 40}, "sex": SEXES})
DESIGNS = {
    "poisson": ds.poisson(0.1),
    "equal rates": ds.stratified("region", within=ds.poisson(0.1)),
    "unequal rates": ds.stratified("region", within={"north": ds.poisson(0.07), "south": ds.poisson(0.5)}),
    "srs": ds.srs(10),
    "unequal takes": ds.stratified("region", within={"north": ds.srs(7), "south": ds.srs(13)}),
    "nearly equal takes": ds.stratified("region", within={"north": ds.srs(12), "south": ds.srs(6)}),
}
BOUNDS = ((0.0, 1.0), (-3.0, 7.0), (0.0, 250_000.0), (1e-9, 2e-9), (-3e29, 9e29), (0.0, 1e-29))
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

    encoding: str
    statistic: Statistic
    design: str
    lattices: int = 1

    def query(self, norm: Norm) -> Query:
        relation: Relation = Relation.REPLACE_ONE if DESIGNS[self.design].fixed_size else Relation.ADD_REMOVE
        query = self.statistic.query(Facts(FRAME, DESIGNS[self.design].resolve(FRAME), relation, norm))
        assert (query.encoding.name, len(query.lattice)) == (self.encoding, self.lattices)
        return query


def measured_cases(bounds: tuple[float, float]) -> list[Case]:
    return [
        Case("triple", ds.mean("y", bounds), "poisson"),
        Case("triple", ds.mean("y", bounds, by="sex"), "equal rates"),
        Case("free spread", ds.mean("y", bounds, by="sex"), "unequal rates", lattices=2),
        Case("free spread", ds.mean("y", bounds), "unequal rates", lattices=2),
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
    Case("free pair", ds.proportion("answer", "yes"), "unequal rates", lattices=2),
    Case("pair", ds.proportion("answer", "yes", by=("region", "sex")), "unequal rates"),
    Case("free pair", ds.proportion("answer", "yes", by="sex"), "unequal takes", lattices=2),
    Case("units", ds.count(by="sex"), "poisson"),
    Case("units", ds.count(by=("sex", "region")), "unequal rates", lattices=2),
    Case("units", ds.count(by="sex"), "unequal takes", lattices=2),
    Case("yes", ds.proportion("answer", "yes"), "srs"),
    Case("yes", ds.proportion("answer", "yes", by="region"), "unequal takes"),
    Case("yes", ds.count("answer", "yes"), "nearly equal takes", lattices=2),
    # Far from equal, the whole is put together from its strata.
    Case("yes", ds.count("answer", "yes"), "unequal takes"),
]


def values_around(bounds: tuple[float, float]) -> list[float]:
    """At the bounds, beside them, far outside, tiny, negative zero, and where two free moments differ most."""
    low, high = bounds
    span = high - low
    inner = [low + span * part for part in (1e-12, 1 / 3, 0.5, 1 / GOLDEN, 1 - 1 / GOLDEN, 0.999999)]
    beside = [math.nextafter(end, to) for end in bounds for to in (-math.inf, math.inf)]
    return [low, high, *inner, *beside, -1.7e308, 1.7e308, 0.0, -0.0, 5e-324, -5e-324, 1e-300]


def census(worlds: list[list[Record]]) -> Engine:
    """An engine that holds many data sets in one table and has drawn all of their rows, by its own draw."""
    rows = [(f"w{index}", record) for index, world in enumerate(worlds) for record in world]
    columns: dict[str, tuple[list[object], pa.DataType]] = {
        "id": (list(range(len(rows))), pa.int64()),
        "world": ([world for world, _ in rows], pa.string()),
        "region": ([record.region for _, record in rows], pa.string()),
        "sex": ([record.sex for _, record in rows], pa.string()),
        "y": ([record.y for _, record in rows], pa.float64()),
        "answer": ([record.answer for _, record in rows], pa.string()),
    }
    engine = Engine(pa.table({name: pa.array(values, kind) for name, (values, kind) in columns.items()}))
    engine.draw(ds.poisson(1.0).recipe(), Expectations(unit="id", numeric=("y",), present=("world", "region", "sex", "answer")))
    return engine


def sums_of(worlds: int, engine: Engine, query: Query) -> np.ndarray:
    """The engine's sums of each data set by itself: (worlds, groups * components)."""
    labels = tuple(f"w{index}" for index in range(worlds))
    apart = replace(query, by=("world", *query.by), categories=(labels, *query.categories))
    return engine.sums(apart).values.reshape(worlds, -1)


def distances(first: np.ndarray, second: np.ndarray, norm: Norm) -> np.ndarray:
    """All distances between rows; differences of integers below 2^53 are exact in floating point."""
    apart = np.abs(first[:, None, :] - second[None, :, :]).astype(np.float64)
    return np.asarray(apart.sum(axis=-1) if norm == "L1" else np.sqrt((apart**2).sum(axis=-1)))


@lru_cache
def universe(bounds: tuple[float, float]) -> tuple[Record, ...]:
    values = values_around(bounds)
    measured = [Record(region, sex, y, "yes") for region in REGIONS for sex in SEXES for y in values]
    return (*measured, *(Record(region, sex, 0.5, answer) for region in REGIONS for sex in SEXES for answer in ANSWERS))


def check_all_neighbours(cases: list[Case], norm: Norm, bounds: tuple[float, float]) -> None:
    """Every record added to, removed from and exchanged in three small data sets."""
    records = universe(bounds)
    bases: list[list[Record]] = [[], [records[0]], [records[1], records[-1], records[1]]]
    worlds = [*bases, *([*base, record] for base in bases for record in records)]
    engine = census(worlds)
    same_region = np.array([[one.region == two.region for two in records] for one in records])
    for case in cases:
        query = case.query(norm)
        sums = sums_of(len(worlds), engine, query)
        without, with_one = sums[: len(bases)], sums[len(bases) :].reshape(len(bases), len(records), -1)
        added = max(distances(base[None], more, norm).max() for base, more in zip(without, with_one, strict=True))
        # Where groups are fixed a neighbour stays in its public stratum; else stratum, group and value may change at once.
        allowed = same_region if query.group_is_fixed else np.ones_like(same_region)
        replaced = max(distances(each, each, norm)[allowed].max() for each in with_one)
        stated = query.sensitivity(Relation.REPLACE_ONE, norm)
        assert replaced <= stated, case
        assert added <= query.sensitivity(Relation.ADD_REMOVE, norm), case
        if isinstance(query.encoding, Moments):
            # Two steps of the bound are for rounding; the rest is attained.
            assert replaced >= stated - 3.0, case
        elif isinstance(query.encoding, FreeSpread | FreePair):
            # One step is, for a record that comes or goes, and two for another in its place.
            assert added >= query.steps, case
            assert replaced >= stated * (1.0 - 1e-11) - 2.0, case
        else:
            # Attained: exactly in L1, to a part in 10^11 in L2, whose square root is rounded up.
            assert added == query.steps, case
            assert replaced >= stated * (1.0 - 1e-11), case


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_no_neighbour_moves_sums_of_measured_values_further_than_stated(bounds: tuple[float, float], norm: Norm) -> None:
    check_all_neighbours(measured_cases(bounds), norm, bounds)


@pytest.mark.parametrize("norm", NORMS)
def test_no_neighbour_moves_counts_further_than_stated(norm: Norm) -> None:
    check_all_neighbours(COUNTED, norm, (0.0, 1.0))


def coarse(encoding: Encoding, steps: int) -> Query:
    """A lattice so coarse that rounding is as large as the values."""
    return Query(encoding, "y", (0.0, 1.0), None, (), (), ((None, steps),), None, isinstance(encoding, Moments))


def test_rounding_to_a_coarse_lattice_is_paid_for() -> None:
    values = np.concatenate([np.linspace(0.0, 1.0, 1001), np.random.default_rng(11).random(100), [1 / GOLDEN, 1 - 1 / GOLDEN]])
    engine = census([[Record("north", "female", float(y), "yes")] for y in values])
    excess = []
    for steps in (1, 2, 3, 7, 64, 106, 1000, FINE):
        triples = sums_of(len(values), engine, coarse(Triple(), steps))
        assert np.all(triples >= 0)
        assert np.all(triples.sum(axis=1) == steps)
        for norm in NORMS:
            triple, moments = coarse(Triple(), steps), coarse(Moments.under(norm), steps)
            assert distances(triples, triples, norm).max() <= triple.sensitivity(Relation.REPLACE_ONE, norm)
            sums = sums_of(len(values), engine, moments)
            largest = distances(sums, sums, norm).max()
            assert largest <= moments.sensitivity(Relation.REPLACE_ONE, norm)
            excess.append(largest - steps)
    # The two steps that `moments` pays for rounding are not idle: without them some lattice would break the bound.
    assert 0.5 < max(excess) <= 2.0


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


@given(st.lists(st.tuples(st.lists(RECORDS, max_size=5), RECORDS, RECORDS), min_size=5, max_size=30))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_any_two_neighbours_that_hypothesis_finds_stay_within_the_sensitivity(
    pairs: list[tuple[list[Record], Record, Record]],
) -> None:
    worlds: list[list[Record]] = []
    for rest, one, two in pairs:
        # The order of rows must not matter either, and where groups are fixed the new record stays in its stratum.
        worlds += [rest, [*rest, one], [two, *reversed(rest)], [replace(two, region=one.region), *reversed(rest)]]
    engine = census(worlds)
    for index, case in enumerate(ALL):
        norm = NORMS[(index + len(pairs)) % 2]
        query = case.query(norm)
        for without, one, anywhere, inside in sums_of(len(worlds), engine, query).reshape(len(pairs), 4, -1):
            other = inside if query.group_is_fixed else anywhere
            assert distances(one[None], other[None], norm).max() <= query.sensitivity(Relation.REPLACE_ONE, norm)
            assert distances(without[None], one[None], norm).max() <= query.sensitivity(Relation.ADD_REMOVE, norm)


def test_two_tables_that_differ_by_one_row_give_what_two_worlds_in_one_table_give() -> None:
    """The column `world` is a device of these tests; without it, engine by engine, the sums are the same."""
    records = [Record("north", "male", 6.9, "yes"), Record("south", "female", -1e9, "no"), Record("south", "male", 0.1, "yes")]
    worlds = [records, records[:2], []]
    together = census(worlds)
    for world, engine in [(index, census([world])) for index, world in enumerate(worlds)]:
        for case in ALL:
            query = case.query("L1")
            assert engine.sums(query).values.ravel().tolist() == sums_of(len(worlds), together, query)[world].tolist()


def test_figures_that_are_not_summed_have_no_sensitivity_of_sums() -> None:
    query = coarse(Window((1, 3)), FINE)
    with pytest.raises(BadValue, match="not summed"):
        query.sensitivity(Relation.REPLACE_ONE, "L1")


def test_a_record_that_may_change_group_costs_twice_and_the_test_would_see_the_difference() -> None:
    """Power: half the stated sensitivity is exceeded by real neighbours, so the bounds above are not idle."""
    query = Case("triple", ds.mean("y", (0.0, 1.0), by="sex"), "srs").query("L1")
    worlds = [[Record("north", "female", 0.3, "yes")], [Record("north", "male", 0.3, "yes")]]
    sums = sums_of(2, census(worlds), query)
    assert distances(sums[:1], sums[1:], "L1").max() == 2 * query.steps > query.sensitivity(Relation.ADD_REMOVE, "L1")


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
