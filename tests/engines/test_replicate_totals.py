"""Sums with replicate weights are the same whole numbers on every engine: those of an oracle in plain Python."""

from __future__ import annotations

import gc
import math
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design.collected import CollectedFile
from dpsurvey.engine import Engine, Expectations
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Statistic
from dpsurvey.statistic.exact_totals import ReplicateTotals
from dpsurvey.statistic.facts import Facts
from tests.engines import servers

# Ibis and Spark use options of pandas that are on their way out, and Spark leaves sockets open; nothing of ours does.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'future.infer_string' option"),
    pytest.mark.filterwarnings("ignore:The copy keyword is deprecated"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

COUNT, SIZE, SEXES = 4, 60, ("female", "male")
NAMES = [f"rep{place}" for place in range(COUNT)]
FRAME = ds.Frame("anywhere", unit=None, size=1000, categories={"sex": SEXES, "job": ("a", "b")})
SCALES = [1.0, 0.5, 2.0, 1.0]


def a_file() -> pa.Table:
    """Weights and values on dyadic grids, so that every sum is exact; replicate weights of 0, halves and doubles."""
    rng = np.random.default_rng(23)
    weight = rng.choice([1.0, 2.0, 4.0, 8.0], SIZE)
    columns = {
        "sex": rng.choice(SEXES, SIZE).tolist(),
        "job": [None if each < 0.2 else "a" if each < 0.6 else "b" for each in rng.random(SIZE)],
        "income": rng.integers(-100, 300, SIZE) / 1.0,
        "w": weight,
    }
    return pa.table(columns | {name: weight * rng.choice([0.0, 0.5, 1.0, 2.0], SIZE) for name in NAMES})


FILE = a_file()
# The reach of 4 is less than what most rows with the largest weight have.
REACHES = (None, 4.0)
ASKED: dict[str, Statistic] = {
    "mean by an answer": ds.mean("income", bounds=(0, 256), by="sex"),
    "proportion of some": ds.proportion("sex", "male", where={"income": (0, 200)}),
    "of those who answered": ds.proportion("job", "a", by="sex", missing="drop"),
    "median": ds.median("income", bounds=(0, 256), leaves=16),
}


def design_of(reach: float | None) -> CollectedFile:
    return ds.design.collected(
        weights="w",
        weights_are="design",
        replicates=NAMES,
        replicate_method="JKn",
        replicate_scales=SCALES,
        replicate_df=9.0,
        replicate_reach=reach,
    ).resolve(FRAME)


def query_of(statistic: Statistic, reach: float | None) -> Any:
    facts = Facts(FRAME, design_of(reach), Relation.REPLACE_ONE, "L1", weight_range=(1.0, 8.0), epsilon=1.0)
    return statistic.query(facts)


def oracle(reach: float | None, steps: int) -> tuple[np.ndarray, float]:
    """Women and men, their records in steps with every set of weights; and how far the replicates of a row lie apart."""
    found, farthest = np.zeros((1 + COUNT, 2), dtype=np.int64), 0.0
    for row in FILE.to_pylist():
        apart = math.sqrt(sum(c * (row[name] - row["w"]) ** 2 for c, name in zip(SCALES, NAMES, strict=True)))
        part = min(1.0, reach / apart) if reach is not None and apart > 0.0 else 1.0
        place = SEXES.index(row["sex"])
        own = [row["w"], *(row["w"] + part * (row[name] - row["w"]) for name in NAMES)]
        found[:, place] += [math.floor(Fraction(each) / 8 * steps + Fraction(1, 2)) for each in own]
        farthest = max(farthest, apart)
    return found, farthest if reach is None else reach


def as_sqlite(folder: Any) -> Any:
    with sqlite3.connect(folder / "file.sqlite") as connection:
        kinds = ", ".join(f"{name} {'text' if name in ('sex', 'job') else 'real'}" for name in FILE.column_names)
        connection.execute(f"create table file ({kinds})")
        marks = ", ".join("?" * FILE.num_columns)
        connection.executemany(f"insert into file values ({marks})", [tuple(row.values()) for row in FILE.to_pylist()])
    connection.close()
    return ibis.sqlite.connect(folder / "file.sqlite").table("file")


@pytest.fixture(params=["parquet", "csv", "arrow", "sqlite", "postgres", "spark"])
def source(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[tuple[Any, str]]:
    """Where the file is, and the engine that reads it."""
    if request.param == "csv":
        pacsv.write_csv(FILE, tmp_path / "file.csv")
        yield str(tmp_path / "file.csv"), "duckdb"
    elif request.param == "arrow":
        yield FILE, "duckdb"
    elif request.param == "sqlite":
        yield as_sqlite(tmp_path), "duckdb"
    elif request.param == "postgres":
        yield servers.put(request.getfixturevalue("postgres"), "replicated", FILE), "duckdb"
    else:
        pq.write_table(FILE, tmp_path / "file.parquet")
        if request.param == "spark":
            request.getfixturevalue("spark")
        yield str(tmp_path / "file.parquet"), "spark" if request.param == "spark" else "duckdb"
        # Sockets of Spark's own are collected here, where their warning is expected.
        gc.collect()


def totals(source: tuple[Any, str], reach: float | None, *asked: Statistic) -> list[ReplicateTotals]:
    engine = Engine(*source)
    expected = Expectations(unit="", categories={"sex": SEXES}, weight_range=(1.0, 8.0), own_weights=True)
    recipe = design_of(reach).recipe()
    engine.check_rows(expected, recipe)
    engine.draw(recipe, expected)
    found = [engine.totals(query_of(each, reach)) for each in asked]
    assert all(isinstance(each, ReplicateTotals) for each in found)
    return found  # type: ignore[return-value]


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, float | None], ReplicateTotals]:
    """The totals of the file in memory."""
    found = {reach: totals((FILE, "duckdb"), reach, *ASKED.values()) for reach in REACHES}
    return {(name, reach): own for reach in REACHES for name, own in zip(ASKED, found[reach], strict=True)}


def test_every_engine_sums_the_same_whole_numbers(
    source: tuple[Any, str], known: dict[tuple[str, float | None], ReplicateTotals]
) -> None:
    # Spark takes seconds for each: one of every kind of sums, and one with a reach.
    asked = {None: list(ASKED), 4.0: list(ASKED)} if source[1] != "spark" else {None: ["median"], 4.0: ["mean by an answer"]}
    for reach, names in asked.items():
        for name, own in zip(names, totals(source, reach, *(ASKED[name] for name in names)), strict=True):
            assert np.array_equal(own.sums, known[name, reach].sums)
            assert own.reach == known[name, reach].reach
            assert own.freedom == 9.0


@pytest.mark.parametrize("reach", REACHES)
def test_records_of_every_replicate_are_those_of_an_oracle(
    reach: float | None, known: dict[tuple[str, float | None], ReplicateTotals]
) -> None:
    own = known["mean by an answer", reach]
    steps = query_of(ASKED["mean by an answer"], reach).steps
    records, farthest = oracle(reach, steps)
    # Both components of a cell together are the steps of its records.
    assert np.abs(own.sums.sum(axis=-1) - records).max() <= (0 if reach is None else 1)
    assert own.reach / steps * 8.0 == pytest.approx(farthest, rel=1e-5)
    leaves = known["median", reach].sums
    assert np.array_equal(leaves[:, 0, -16:].sum(axis=-1), own.sums.sum(axis=(-1, -2)))


def test_printing_or_copying_totals_shows_nothing(known: dict[tuple[str, float | None], ReplicateTotals]) -> None:
    import pickle

    assert repr(known["median", None]) == "ReplicateTotals(not shown)"
    with pytest.raises(ds.errors.BadValue, match="not pickled or copied"):
        pickle.dumps(known["median", None])
