"""Opening a table wherever rows live: files and tables in memory through DuckDB, Ibis tables where they are."""

from __future__ import annotations

import glob
import os
import uuid
from typing import Any

import ibis
from ibis.expr.types import Table

from ..errors import BadValue, NotFound, did_you_mean

ROW = "__row"


def open_table(source: Any) -> Table:
    """An Ibis table with one more column, the row number; no row passes through Python.

    Takes a path (Parquet, CSV, or a DuckDB file, with #table where it holds several), a pandas, polars or Arrow
    table, or any Ibis table, which stays on its own backend.
    """
    if isinstance(source, Table):
        return source.mutate(ibis.row_number().name(ROW))
    connection = ibis.duckdb.connect()
    if isinstance(source, str | os.PathLike):
        connection.raw_sql(f"create temp view frame_rows as {_select_file(connection, os.fspath(source))}")
        return connection.table("frame_rows")
    connection.con.register("frame_in_memory", _arrow_or_pandas(source))
    connection.raw_sql(f"create temp view frame_rows as select *, row_number() over () - 1 as {ROW} from frame_in_memory")
    return connection.table("frame_rows")


def keep_temporarily(table: Table) -> Table:
    """The rows of an expression as a temporary table of its backend, gone with the connection."""
    return table.get_backend().create_table(f"dpsurvey_{uuid.uuid4().hex}", table, temp=True)


def _select_file(connection: Any, path: str) -> str:
    name, _, table = path.partition("#")
    if not glob.glob(name):
        folder = os.path.dirname(name) or "."
        near = os.listdir(folder) if os.path.isdir(folder) else []
        raise NotFound(f"there is no file {name!r}", hint=did_you_mean(os.path.basename(name), near) if near else "")
    quoted = "'" + name.replace("'", "''") + "'"
    extension = os.path.splitext(name)[1].lower()
    if extension in (".parquet", ".pq"):
        if len(glob.glob(name)) == 1:
            return (
                f"select * exclude (file_row_number), file_row_number as {ROW} from read_parquet({quoted}, file_row_number=true)"
            )
        return f"select *, row_number() over () - 1 as {ROW} from read_parquet({quoted})"
    if extension in (".csv", ".tsv", ".gz"):
        return f"select *, row_number() over () - 1 as {ROW} from read_csv({quoted})"
    if extension in (".duckdb", ".db", ".ddb"):
        connection.raw_sql(f"attach {quoted} as frame_file (read_only)")
        return f'select *, rowid as {ROW} from frame_file."{_only_table(connection, table)}"'
    raise BadValue(f"cannot read a {extension or 'nameless'} file", given=name, hint="Parquet, CSV or a DuckDB file")


def _only_table(connection: Any, wanted: str) -> str:
    found = [
        row[0]
        for row in connection.con.execute("select table_name from duckdb_tables() where database_name = 'frame_file'").fetchall()
    ]
    if wanted and wanted not in found:
        raise NotFound(f"the DuckDB file has no table {wanted!r}", hint=did_you_mean(wanted, found))
    if not wanted and len(found) != 1:
        raise BadValue("say which table of the DuckDB file is meant", hint="add #table to the path; it holds " + ", ".join(found))
    return (wanted or str(found[0])).replace('"', '""')


def _arrow_or_pandas(source: Any) -> Any:
    module = type(source).__module__.split(".")[0]
    if module == "polars":
        return (source.collect() if hasattr(source, "collect") else source).to_arrow()
    if module in ("pandas", "pyarrow"):
        return source
    raise BadValue(
        "cannot read rows from this object",
        given=f"a {type(source).__name__}",
        hint="a path, or a pandas, polars, Arrow or Ibis table",
    )
