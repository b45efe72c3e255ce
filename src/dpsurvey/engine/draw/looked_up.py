"""Rows looked up by their number: in memory, in an Arrow file, in row groups of a Parquet file, in a DuckDB table.

A few rows are read without the others, and what decides among them is computed in numpy.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..source import PI, PSU, SSU, STRATUM, WEIGHT, only_table, quote
from ..values import TRUTH, WRITTEN
from .by_row_number import Alike, ByStratum, Chances, InProportion
from .drawn import DRAWN, lost_rows, too_short, unknown_stratum, wrong_rates, wrong_sizes
from .generator import Rows, Uniforms

# From a DuckDB table rows are looked up by number while they are fewer than this share; beyond it a scan is cheaper.
SPARSE = 1 / 2000
# Cluster labels are looked at so many at a time.
PIECE = 1 << 16


class Reader(Protocol):
    """A list of rows that can be read by number, in any number of columns."""

    num_rows: int

    def reads(self, count: float) -> bool:
        """Whether so many rows are better read by number than met in a pass over all of them."""

    def take(self, rows: Rows, columns: list[str]) -> pa.Table:
        """The rows with these numbers: in the order given if that is sorted, else in any one order of all columns."""

    def column(self, name: str) -> pa.ChunkedArray | None:
        """A whole column, where it lies in memory or in a mapped file."""


class ArrowRows:
    """A table in memory, or in an Arrow file that is mapped and not read."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.num_rows = table, table.num_rows

    def reads(self, count: float) -> bool:
        return True

    def take(self, rows: Rows, columns: list[str]) -> pa.Table:
        # Arrow joins the pieces of a column before it takes from them, which would copy all of it. Columns in pieces need
        # sorted rows, and then all columns must have them in that order.
        if any(self.table[name].num_chunks > 1 for name in columns):
            rows = np.sort(rows)
        return pa.table({name: _take(self.table[name], rows) for name in columns})

    def column(self, name: str) -> pa.ChunkedArray | None:
        return self.table[name]


def _take(column: pa.ChunkedArray, rows: Rows) -> pa.ChunkedArray:
    if column.num_chunks <= 1:
        return column.take(pa.array(rows))
    ends = np.cumsum([len(chunk) for chunk in column.chunks])
    found = []
    for which, places in _by_piece(rows, ends):
        chunk = column.chunk(which)
        found.append(chunk.take(pa.array(places - (ends[which] - len(chunk)))))
    return pa.chunked_array(found, type=column.type)


def _by_piece(rows: Rows, ends: npt.NDArray[np.int64]) -> list[tuple[int, Rows]]:
    """Sorted row numbers, apart by the piece that they lie in."""
    pieces = np.searchsorted(ends, rows, side="right")
    cuts = np.flatnonzero(np.diff(pieces)) + 1
    return [(int(np.searchsorted(ends, part[0], side="right")), part) for part in np.split(rows, cuts) if len(part)]


class ParquetRows:
    """A Parquet file: whole row groups are read, but only those with a wanted row, and one at a time."""

    def __init__(self, path: str) -> None:
        self._file = pq.ParquetFile(path)
        groups = [self._file.metadata.row_group(index).num_rows for index in range(self._file.num_row_groups)]
        self._ends = np.cumsum(groups, dtype=np.int64)
        self.num_rows = int(self._file.metadata.num_rows)

    def reads(self, count: float) -> bool:
        return 2 * count < len(self._ends)

    def take(self, rows: Rows, columns: list[str]) -> pa.Table:
        found = []
        for which, places in _by_piece(np.sort(rows), self._ends):
            group = self._file.read_row_group(which, columns=columns)
            found.append(group.select(columns).take(pa.array(places - (self._ends[which] - group.num_rows))))
        return pa.concat_tables(found) if found else self._file.schema_arrow.empty_table().select(columns)

    def column(self, name: str) -> pa.ChunkedArray | None:
        return None


class DuckRows:
    """A table of a DuckDB file whose row ids have no gaps, so that they number its rows."""

    def __init__(self, connection: Any, table: str, count: int) -> None:
        self._connection, self._table, self.num_rows = connection, table, count

    def reads(self, count: float) -> bool:
        return count < SPARSE * self.num_rows

    def take(self, rows: Rows, columns: list[str]) -> pa.Table:
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        listed = ", ".join(map(str, rows.tolist())) or "-1"
        # Without the order DuckDB hands rows on as its threads find them.
        query = f"select {names} from {self._table} where rowid in ({listed}) order by rowid"
        found = self._connection.sql(query).to_arrow_table()
        if found.num_rows != len(rows):
            raise lost_rows()
        return found

    def column(self, name: str) -> pa.ChunkedArray | None:
        return None


def reader_of(source: Any, in_memory: pa.Table | None) -> Reader | None:
    """Rows by number, where the source is a kind of file that allows it."""
    if in_memory is not None:
        return ArrowRows(in_memory)
    if not isinstance(source, str | os.PathLike):
        return None
    name, _, table = os.fspath(source).partition("#")
    ending = os.path.splitext(name)[1].lower()
    if not os.path.isfile(name):
        return None
    if ending in (".parquet", ".pq"):
        return ParquetRows(name)
    if ending in (".duckdb", ".db", ".ddb"):
        return _duckdb_rows(name, table)
    return None


def _duckdb_rows(name: str, table: str) -> Reader | None:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"attach {quote(name)} as frame (read_only)")
    found = f'frame."{only_table(connection, "frame", table)}"'
    count, last = connection.execute(f"select count(*), max(rowid) from {found}").fetchall()[0]
    # After a deletion row ids have gaps, and the rows behind them would never be drawn.
    return DuckRows(connection, found, count) if count and last == count - 1 else None


class LookedUp:
    """Rows that a reader finds by number: what is asked of them is computed in numpy, on the rows that are found."""

    def __init__(self, reader: Reader, columns: tuple[str, ...]) -> None:
        self.reader, self.columns, self.num_rows = reader, columns, reader.num_rows
        # Columns that were read as a whole.
        self.whole: dict[str, Uniforms] = {}

    def met(self, rows: Rows, numbers: Uniforms | None, chances: Chances) -> Found:
        """The rows with these row numbers, with their numbers where these are asked for."""
        return Found(self, rows, numbers, chances)

    def larger(self, bar: float, chances: InProportion, numbers: Callable[[int], Uniforms]) -> Found:
        """The rows with a size above the bar."""
        rows = np.flatnonzero(self.whole[chances.column] > bar)
        return Found(self, rows, numbers(len(rows)), chances)

    def on_a_line(self, chances: InProportion, start: float, *, some_certain: bool) -> Found:
        """A running sum, and a search for each point."""
        values = self.whole[chances.column]
        certain = np.flatnonzero(values * chances.take >= chances.total) if some_certain else None
        if certain is not None:
            values = values.copy()
            values[certain] = 0.0
        reached = np.cumsum(values, dtype=np.float64)
        points = (start + np.arange(int(chances.take))) * (float(reached[-1]) / chances.take)
        rows = np.minimum(np.searchsorted(reached, points, side="right"), np.searchsorted(reached, reached[-1])).astype(np.int64)
        rows = rows if certain is None else np.union1d(rows, certain)
        return Found(self, rows, None, chances)

    def has_rates(self, column: str, at_most: float) -> bool:
        """Rates are read from a column of fractions that lies in memory."""
        values = self.reader.column(column)
        if values is None or not pa.types.is_floating(values.type):
            return False
        extremes = pc.min_max(values).as_py()
        within = not len(values) or (extremes["min"] is not None and extremes["min"] > 0.0 and extremes["max"] <= at_most)
        # The extremes leave NaN out; a sum does not.
        if not within or values.null_count or not math.isfinite(pc.sum(values, min_count=0).as_py()):
            raise wrong_rates(column)
        return True

    def sizes(self, column: str) -> SizesInMemory | None:
        """Sizes are read from a column of numbers that lies in memory."""
        sizes = self.reader.column(column)
        if sizes is None or not (pa.types.is_integer(sizes.type) or pa.types.is_floating(sizes.type)):
            return None
        if not len(sizes):
            raise too_short()
        if sizes.null_count:
            raise wrong_sizes(column)
        # As doubles: whole numbers would wrap around in their sum.
        self.whole[column] = sizes.to_numpy().astype(np.float64, copy=False)
        extremes, total = pc.min_max(sizes).as_py(), float(self.whole[column].sum())
        if not math.isfinite(total) or not extremes["min"] > 0:
            raise wrong_sizes(column)
        return SizesInMemory(self.whole[column], total, float(extremes["max"]))

    def clusters(self, column: str) -> ClustersInMemory | None:
        """Clusters that are numbered nearly without gaps, in a column that lies in memory."""
        codes = self.reader.column(column)
        if codes is None or not pa.types.is_integer(codes.type) or codes.null_count:
            return None
        extremes = pc.min_max(codes).as_py()
        if extremes["min"] is None or extremes["max"] - extremes["min"] > 4 * len(codes):
            return None
        return ClustersInMemory(self, codes.to_numpy(), extremes["min"], extremes["max"])

    def labels(self, column: str, rows: Rows, declared: tuple[str, ...]) -> Rows:
        """The strata of some rows, as places in the list of declared ones."""
        values = self.reader.take(rows, [column])[column].combine_chunks()
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        truth = set(declared) <= TRUTH
        texts = [str(each).lower() if truth or isinstance(each, bool) else str(each) for each in encoded.dictionary.to_pylist()]
        texts = [WRITTEN.get(text, text) for text in texts] if truth else texts
        # A dictionary may hold labels that no row has, and "True" and "true" are one stratum.
        place = {label: number for number, label in enumerate(declared)}
        places = np.array([place.get(text, -1) for text in texts], dtype=np.int64)
        codes: Rows = places[np.asarray(encoded.indices.fill_null(0))]
        if encoded.null_count or (codes < 0).any():
            raise unknown_stratum(column)
        return codes


class Found:
    """Rows that may be drawn, by their numbers; of their columns only what decides is read before they are wanted."""

    def __init__(
        self,
        table: LookedUp,
        rows: Rows,
        numbers: Uniforms | None,
        chances: Chances,
        known: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        self._table, self._rows, self._numbers, self._chances = table, rows, numbers, chances
        self._known = dict(known or {})

    def below_chance(self, largest: float = math.inf) -> Found:
        assert self._numbers is not None
        kept = self._numbers <= self._probabilities()
        if largest < math.inf and isinstance(self._chances, InProportion):
            kept &= self._values(self._chances.column) <= largest
        return self._only(kept)

    def smallest(self, takes: Mapping[str, int]) -> Found:
        assert self._numbers is not None
        codes = self._strata()
        order = np.lexsort((self._numbers, codes))
        sorted_codes = codes[order]
        rank = np.arange(len(order)) - np.searchsorted(sorted_codes, np.arange(len(takes)))[sorted_codes]
        wanted = np.array([takes[label] for label in self._labels], dtype=np.int64)
        return self._only(np.sort(order[rank < wanted[sorted_codes]]))

    def with_others(self, others: Found) -> Found:
        return Found(self._table, np.sort(np.concatenate([self._rows, others._rows])), None, self._chances)

    def count(self) -> int:
        return len(self._rows)

    def drawn(self) -> pa.Table:
        """The drawn rows as Arrow columns."""
        found = self._table.reader.take(self._rows, list(self._table.columns))
        pi, nothing = self._probabilities(), pa.nulls(len(self._rows), pa.string())
        known: dict[str, pa.Array] = {STRATUM: nothing, PSU: nothing, SSU: nothing, PI: pa.array(pi), WEIGHT: pa.array(1.0 / pi)}
        if PSU in self._known:
            known[PSU] = pa.array(self._known[PSU])
        if isinstance(self._chances, ByStratum):
            known[STRATUM] = pa.array(self._labels, pa.string()).take(pa.array(self._strata()))
        for name in DRAWN:
            found = found.append_column(name, known[name])
        return found

    def _probabilities(self) -> Uniforms:
        chances = self._chances
        if isinstance(chances, Alike):
            return np.full(len(self._rows), chances.chance)
        if isinstance(chances, ByStratum):
            return np.array([chances.chances[label] for label in self._labels])[self._strata()]
        return np.minimum(1.0, self._values(chances.column) * chances.take / chances.total)

    @property
    def _labels(self) -> tuple[str, ...]:
        return tuple(self._chances.chances) if isinstance(self._chances, ByStratum) else ()

    def _strata(self) -> Rows:
        """The stratum of each row, as a place in the list of labels."""
        assert isinstance(self._chances, ByStratum)
        if STRATUM not in self._known:
            self._known[STRATUM] = self._table.labels(self._chances.column, self._rows, self._labels)
        return self._known[STRATUM]

    def _values(self, column: str) -> Uniforms:
        if column not in self._known:
            whole = self._table.whole.get(column)
            found = self._table.reader.take(self._rows, [column])[column] if whole is None else whole[self._rows]
            self._known[column] = np.asarray(found, dtype=np.float64)
        return self._known[column]

    def _only(self, kept: npt.NDArray[Any]) -> Found:
        """Those of the rows that are drawn: their numbers are not asked for again."""
        known = {name: values[kept] for name, values in self._known.items()}
        return Found(self._table, self._rows[kept], None, self._chances, known)


class SizesInMemory:
    """A column of sizes in memory."""

    def __init__(self, values: Uniforms, total: float, largest: float) -> None:
        self.count, self.total, self.largest = len(values), total, largest
        # Those that may become certain: the bar seldom falls below half of where it began, and then all are looked at again.
        self._values, self._some, self._floor = values, values, math.inf

    def certain(self, take: int, total: float) -> tuple[int, float, float]:
        bar = total / max(take, 1)
        if bar < self._floor:
            self._floor = 0.0 if self._floor < math.inf else bar / 2.0
            self._some = self._values[self._values >= self._floor]
        reached = self._some * float(take) >= total
        others = self._some[~reached]
        if not len(others):
            others = self._values[self._values < self._floor]
        return int(reached.sum()), float(self._some[reached].sum()), float(others.max(initial=0.0))


class ClustersInMemory:
    """Clusters by their whole-number labels, in order of these."""

    def __init__(self, table: LookedUp, codes: npt.NDArray[Any], low: int, high: int) -> None:
        self._table, self._codes = table, codes
        # In pieces that stay in the processor's cache.
        pieces = [codes[start : start + PIECE] for start in range(0, len(codes), PIECE)]
        # Codes of a narrow type would wrap around when the least of them is taken off.
        self._pieces = [piece.astype(np.int64) - low for piece in pieces] if low else pieces
        there = np.zeros(high - low + 1, dtype=bool)
        for place, piece in enumerate(self._pieces):
            there[piece] = True
            # Codes without gaps have often all been seen long before the end.
            if place % 16 == 15 and there.all():
                break
        self._there, self._listed = there, np.flatnonzero(there)
        self.size = len(self._listed)

    def units_of(self, places: Rows, chances: Alike) -> Found:
        """All units of the clusters at these places of the list."""
        chosen = np.zeros(len(self._there), dtype=bool)
        chosen[self._listed[places]] = True
        rows = np.concatenate([np.flatnonzero(chosen[piece]) + PIECE * place for place, piece in enumerate(self._pieces)])
        return Found(self._table, rows, None, chances, {PSU: self._codes[rows]})
