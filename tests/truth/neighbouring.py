"""Small data sets side by side in one table, summed by the engine's own code, and how far neighbours among them differ.

Data sets are told apart by a column `world`. The table also has the columns that a draw adds to each unit (stratum, cluster,
probability and weight), so that any weight can stand beside any answer. Everything is exact: whole lattice steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import dpsurvey as ds
from dpsurvey.design.base import Design
from dpsurvey.engine.source import PI, PSU, STRATUM, WEIGHT, send
from dpsurvey.engine.sums import sum_rows
from dpsurvey.mechanism.base import Norm
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Query
from dpsurvey.statistic.condition import Condition
from dpsurvey.statistic.facts import Facts

Sums = npt.NDArray[np.int64]
NORMS: tuple[Norm, ...] = ("L1", "L2")
RELATIONS: tuple[Relation, ...] = (Relation.ADD_REMOVE, Relation.REPLACE_ONE)
REGIONS, SEXES = ("north", "south"), ("female", "male")
FRAME = ds.Frame(
    "frame",
    unit="id",
    size=100,
    categories={"region": {"north": 60, "south": 40}, "sex": SEXES, "answer": ("yes", "no")},
    public=["rate", "size", "psu"],
)


@dataclass(frozen=True)
class Record:
    """What one unit brings: design columns, answers, and what a draw knows of it."""

    region: str = "north"
    sex: str = "female"
    y: float | None = 0.5
    x: float = 0.5
    v: float = 0.5
    answer: str | None = "yes"
    weight: float = 1.0
    pi: float = 0.0
    psu: str = "p0"


World = Sequence[Record]
Kinship = Callable[[Record, Record], bool]


def anything(one: Record, two: Record) -> bool:
    """A replaced record may be another unit altogether."""
    return True


def same_stratum(one: Record, two: Record) -> bool:
    """A replaced record stays in its public stratum."""
    return one.region == two.region


def same_place(one: Record, two: Record) -> bool:
    """Answers are replaced; stratum, cluster and weight are those of the unit."""
    return (one.region, one.psu, one.weight, one.pi) == (two.region, two.psu, two.weight, two.pi)


@cache
def _connected() -> Any:
    """A table of the connection that all data sets are sent to; opening one is slow."""
    connection = ibis.duckdb.connect()
    connection.raw_sql("create temp table nothing as select 0 as number")
    return connection.table("nothing")


def in_duckdb(rows: pa.Table) -> Any:
    """A table where the engine sums it."""
    return send(rows, _connected())


class Worlds:
    """Data sets in one table."""

    def __init__(self, worlds: Sequence[World]) -> None:
        self.count = len(worlds)
        rows = [(f"w{index}", record) for index, world in enumerate(worlds) for record in world]
        kinds = {"y": pa.float64(), "x": pa.float64(), "v": pa.float64(), "weight": pa.float64(), "pi": pa.float64()}
        columns: dict[str, Any] = {"world": pa.array([label for label, _ in rows], pa.string())}
        for each in fields(Record):
            kind = kinds.get(each.name, pa.string())
            columns[each.name] = pa.array([getattr(record, each.name) for _, record in rows], kind)
        columns |= {STRATUM: columns["region"], PSU: columns["psu"], PI: columns["pi"], WEIGHT: columns["weight"]}
        self.table = in_duckdb(pa.table(columns))
        self._known: dict[Query, Sums] = {}

    def sums(self, query: Query) -> Sums:
        """The sums of each data set by itself: (worlds, cells * components)."""
        if query not in self._known:
            labels = tuple(f"w{index}" for index in range(self.count))
            apart = replace(query, by=("world", *query.by), categories=(labels, *query.categories))
            self._known[query] = sum_rows(self.table, apart).values.reshape(self.count, -1)
        return self._known[query]

    def only(self, world: int, query: Query) -> Sums:
        """The sums of one data set, in the shape that a mechanism gets: (cells, components)."""
        condition = Condition("world", (f"w{world}",))
        return sum_rows(self.table, replace(query, where=(*query.where, condition))).values


class Around:
    """Some data sets, and each of them with each of some records added: all their neighbours through these records."""

    def __init__(self, records: Sequence[Record], bases: Sequence[World]) -> None:
        self.records, self.bases = records, bases
        self._worlds = Worlds([*bases, *([*base, record] for base in bases for record in records)])

    def moves(self, query: Query, norm: Norm, kinship: Kinship = anything) -> tuple[float, float]:
        """The furthest that a record added, and a record replaced by one of its kin, moves the sums."""
        sums, count = self._worlds.sums(query), len(self.bases)
        without, with_one = sums[:count], sums[count:].reshape(count, len(self.records), -1)
        added = max(distances(base[None], more, norm).max() for base, more in zip(without, with_one, strict=True))
        kin = np.array([[kinship(one, two) for two in self.records] for one in self.records])
        replaced = max(distances(each, each, norm)[kin].max() for each in with_one)
        return float(added), float(replaced)


def distances(first: Sums, second: Sums, norm: Norm) -> npt.NDArray[np.float64]:
    """All distances between rows; differences of integers below 2^53 are exact in floating point."""
    apart = np.abs(first[:, None, :] - second[None, :, :]).astype(np.float64)
    return np.asarray(apart.sum(axis=-1) if norm == "L1" else np.sqrt((apart**2).sum(axis=-1)))


def facts_of(design: Design, relation: Relation, norm: Norm, **more: Any) -> Facts:
    """The public facts of a design on the small frame."""
    return Facts(FRAME, design.resolve(FRAME), relation, norm, **more)


def a_survey(design: Design, setting: ds.Setting, folder: Path, epsilon: float = 1.0, delta: float = 0.0) -> ds.Survey:
    """A survey of the small frame, with a range of weights where units have their own."""
    budget, ledger = ds.Budget(epsilon, delta), folder / "books.ledger"
    own = (1.0, 40.0) if not design.resolve(FRAME).parts() else None
    return ds.Survey(FRAME, design, setting, budget=budget, ledger=ledger, weight_range=own)
