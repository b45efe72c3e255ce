"""Rows by their number: frames from which a few rows can be read without reading the others."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import BadData
from .source import only_table, quote

Rows = npt.NDArray[np.int64]
# From a DuckDB table rows are looked up by number while they are fewer than this share; beyond it a scan is cheaper.
SPARSE = 1 / 2000


class Access(Protocol):
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
            raise BadData("the draw did not reach its size", hint="the rows of the frame changed while they were read")
        return found

    def column(self, name: str) -> pa.ChunkedArray | None:
        return None


def row_access(source: Any, in_memory: pa.Table | None) -> Access | None:
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


def _duckdb_rows(name: str, table: str) -> Access | None:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"attach {quote(name)} as frame (read_only)")
    found = f'frame."{only_table(connection, "frame", table)}"'
    count, last = connection.execute(f"select count(*), max(rowid) from {found}").fetchall()[0]
    # After a deletion row ids have gaps, and the rows behind them would never be drawn.
    return DuckRows(connection, found, count) if count and last == count - 1 else None
