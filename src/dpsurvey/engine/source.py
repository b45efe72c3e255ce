"""Opening a table wherever rows live: files and tables in memory through DuckDB, Ibis tables where they are.

No type, delimiter or row number is inferred from data rows: an inferred type lets one record change how all others
are read, which no sensitivity covers.
"""

from __future__ import annotations

import csv
import errno
import glob
import gzip
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import ibis
from ibis.expr.types import BooleanValue, Scalar, Table

from ..errors import BadData, BadValue, NotFound, SurveyError, did_you_mean
from .dialect import READ_FILES, dialect_of
from .postgres import open_postgres

T = TypeVar("T")
ROW, NUMBER, RANK = "__row", "__number", "__rank"
# What the draw finds out about each drawn unit, and what it needs on the way.
STRATUM, PSU, SSU, PI, WEIGHT = "__stratum", "__psu", "__ssu", "__pi", "__weight"
# The number of clusters, or units, that the stratum of a collected row has, where a column says so.
POPULATION = "__population"
SIZE, TAKE, TOTAL, COPY, TICKS, LIMIT = "__size", "__take", "__total", "__copy", "__ticks", "__limit"
# After draws with replacement: how many, the chance of one of them, and the probability of the stages before.
DRAWS, ONE_DRAW, BEFORE = "__draws", "__one_draw", "__before"
CARRIED = (PI, WEIGHT, DRAWS, ONE_DRAW, BEFORE)
# What sums need of each row on the way.
STAGED = (
    "__steps",
    "__apart",
    "__y",
    "__x",
    "__yes",
    "__absent",
    "__random_group",
    "__leaf",
    "__value",
    "__cell",
    "__rows",
    "__units",
)
DATA_FILES = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".ipc", ".feather", ".duckdb", ".db", ".ddb")
RESERVED = (ROW, NUMBER, RANK, STRATUM, PSU, SSU, *CARRIED, POPULATION, SIZE, TAKE, TOTAL, COPY, TICKS, LIMIT, *STAGED)


def quietly(doing: str, work: Callable[[], T], *, opens: bool = False) -> T:
    """The result of some work on rows. An engine's own errors may quote values, so only their kind gets out.

    `opens` says that it opens a file, which may be damaged.
    """
    known: SurveyError | None = None
    failed, reason = "", None
    try:
        return work()
    except SurveyError as error:
        known = error
    except KeyboardInterrupt:
        # Raised anew below: the frames that it interrupted may hold exact figures.
        failed = "InterruptException"
    except Exception as error:
        stopped = isinstance(error, RuntimeError) and str(error) == "Query interrupted"
        failed = "InterruptException" if stopped else type(error).__name__
        reason = _reason(error, opens)
    if known is not None:
        # Without the frames in which rows were handled: their variables may hold counts and categories.
        raise known.with_traceback(None)
    # Outside the handler, so that the engine's error is not chained to this one.
    if failed == "InterruptException":
        raise KeyboardInterrupt
    because, hint = reason or (failed, "look at the table with a tool that may show rows; this message must not")
    raise BadData(f"the engine failed while {doing}", because=because, hint=hint)


# What the system, or an engine about a file as a whole, says of a failure: by its number, by its first words, in our words.
REASONS = (
    ((errno.ENOSPC, errno.EDQUOT), "No space left on device", "the disk is full", "free some space, also where TMPDIR is"),
    ((errno.EFBIG,), "File too large", "the file is larger than allowed", "another folder, or a larger limit of file sizes"),
    (
        (errno.EACCES, errno.EPERM),
        "Permission denied",
        "this user may not read or write the file",
        "its permissions, and those of its folder",
    ),
)
NOT_UTF8 = "its text is not UTF-8: it was perhaps written as Latin-1 or Windows-1252"
DAMAGED = "the file is damaged, or of another kind than its name says", "look at it with another tool, or write it again"
SAVE_AS_UTF8 = "save it as UTF-8, for example iconv -f WINDOWS-1252 -t UTF-8"


def _reason(error: Exception, opens: bool) -> tuple[str, str] | None:
    """Why, and what to do, where that is about the file or the disk as a whole and says nothing of a row."""
    if isinstance(error, UnicodeDecodeError):
        return NOT_UTF8, SAVE_AS_UTF8
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        return "there is not enough memory, or no room on the disk where TMPDIR is", "more of it, or fewer groups at once"
    # Errors about values quote them; of the others only the words of the list are looked for.
    if not (isinstance(error, OSError) or type(error).__name__ in ("IOException", "PermissionException", "ArrowInvalid")):
        return (NOT_UTF8, SAVE_AS_UTF8) if "This file is not utf-8 encoded" in str(error) else None
    text, number = str(error), getattr(error, "errno", None)
    for numbers, said, because, hint in REASONS:
        if number in numbers or said in text:
            return because, hint
    return DAMAGED if opens else None


def columns_in_memory(source: Any) -> Any:
    """The Arrow table of a source that lies in memory or in a mapped Arrow file; None for any other source."""
    if isinstance(source, Table):
        return None
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if os.path.splitext(name)[1].lower() not in (".arrow", ".ipc", ".feather") or not os.path.isfile(name):
            return None
        import pyarrow as pa

        return quietly("opening the Arrow file", lambda: pa.ipc.open_file(pa.memory_map(name)).read_all(), opens=True)
    return _typed(source)


def open_table(source: Any, scratch: str, beside: Table | None = None, engine: str = "duckdb") -> Table:
    """An Ibis table with one more column, the row number; no row passes through Python.

    Takes a path (Parquet, CSV, Arrow, or a DuckDB file, with #table where it holds several), an address
    postgresql://user@host/database#table, a pandas, polars or Arrow table, or any Ibis table, which stays on its own
    backend. `scratch` is where DuckDB may spill. `beside` is a table that this one will be joined to: on DuckDB both
    are opened on one connection. `engine` is the one that reads files.
    """
    if isinstance(source, Table):
        return _numbered(source)
    if isinstance(source, str) and source.startswith(("postgresql://", "postgres://")):
        return _numbered(open_postgres(source))
    opened = READ_FILES[engine].open_file(source)
    if opened is not None:
        return _numbered(opened)
    shared = beside is not None and dialect_of(beside).in_process
    connection = beside.get_backend() if beside is not None and shared else ibis.duckdb.connect(temp_directory=scratch)
    name = f"rows_{uuid.uuid4().hex}"
    found = columns_in_memory(source)
    if found is None:
        rows = _select_file(connection, os.fspath(source))
    else:
        connection.con.register(f"{name}_in_memory", found)
        rows = f"select *, row_number() over () - 1 as {ROW} from {name}_in_memory"
    connection.raw_sql(f"create temp view {name} as {rows}")
    table = connection.table(name)
    check_names(table.columns[:-1])
    return table


def _numbered(table: Table) -> Table:
    check_names(table.columns)
    return table.mutate(ibis.row_number().name(ROW))


def keep_temporarily(table: Table) -> Table:
    """The rows of an expression as a temporary table of its backend, gone with the connection."""
    return dialect_of(table).keep(table)


def count_of(table: Table) -> int:
    """How many rows a table has."""
    return int(table.count().to_pyarrow().as_py())


def any_row(table: Table, test: BooleanValue) -> bool:
    """Whether any row of a table passes a test; one that cannot be told does not."""
    return bool(figures_of(table, [test.any().fill_null(False).name("found")])["found"])


def figures_of(table: Table, figures: Sequence[Scalar]) -> dict[str, Any]:
    """Figures of a table, by their names."""
    found: dict[str, Any] = table.aggregate(list(figures)).to_pyarrow().to_pylist()[0]
    return found


def send(rows: Any, beside: Table) -> Table:
    """A small Arrow table on the engine of another table, so that the two can be joined."""
    return dialect_of(beside).send(rows, beside.get_backend())


def check_names(columns: Any) -> None:
    """Refuse columns that bear a name of the draw's own."""
    taken = [name for name in columns if name.lower().split(":")[0].rstrip("_1") in RESERVED]
    if taken:
        raise BadValue("a column has a name that the draw needs for itself", given=", ".join(taken), hint="rename it")


def _select_file(connection: Any, path: str) -> str:
    name, _, table = path.partition("#")
    if not glob.glob(name):
        folder = os.path.dirname(name) or "."
        found = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        near = [each for each in found if each.lower().removesuffix(".gz").endswith(DATA_FILES)]
        raise NotFound(f"there is no file {name!r}", hint=did_you_mean(os.path.basename(name), near) if near else "")
    if os.path.isdir(name):
        raise BadValue(f"{name!r} is a folder", hint="name a file; of many files a pattern, such as folder/*.parquet")
    quoted = quote(name)
    extension = os.path.splitext(name.removesuffix(".gz"))[1].lower()
    if extension in (".parquet", ".pq"):
        if len(glob.glob(name)) == 1:
            return (
                f"select * exclude (file_row_number), file_row_number as {ROW} from read_parquet({quoted}, file_row_number=true)"
            )
        return f"select *, row_number() over () - 1 as {ROW} from read_parquet({quoted})"
    if extension in (".csv", ".tsv", ".txt"):
        return f"select *, row_number() over () - 1 as {ROW} from {_read_csv(name)}"
    if extension in (".duckdb", ".db", ".ddb"):
        database = f"file_{uuid.uuid4().hex}"
        connection.raw_sql(f"attach {quoted} as {database} (read_only)")
        # Not rowid: after a deletion it has gaps, and the rows behind them would never be drawn.
        return f'select *, row_number() over () - 1 as {ROW} from {database}."{only_table(connection.con, database, table)}"'
    raise BadValue(f"cannot read a {extension or 'nameless'} file", given=name, hint="Parquet, CSV, Arrow or a DuckDB file")


def _read_csv(name: str) -> str:
    """A CSV scan in which every column is text, with the delimiter and the names of the header line."""
    first = sorted(glob.glob(name))[0]
    with gzip.open(first, "rt", encoding="utf-8-sig") if first.endswith(".gz") else open(first, encoding="utf-8-sig") as file:
        header = file.readline().rstrip("\r\n")
    if not header:
        raise BadData("the file is empty", hint="a CSV file starts with a line of column names")
    delimiter = max(",;\t|", key=header.count)
    names = next(csv.reader([header], delimiter=delimiter))
    columns = ", ".join(f"{quote(each)}: 'VARCHAR'" for each in names)
    options = f"auto_detect=false, header=true, delim={quote(delimiter)}, quote='\"', escape='\"', columns={{{columns}}}"
    return f"read_csv({quote(name)}, {options})"


def quote(text: str) -> str:
    """A text constant of SQL."""
    return "'" + text.replace("'", "''") + "'"


def only_table(connection: Any, database: str, wanted: str) -> str:
    """The wanted table of an attached DuckDB file, or the only one."""
    query = f"select table_name from duckdb_tables() where database_name = '{database}'"
    found = [row[0] for row in connection.execute(query).fetchall()]
    if wanted and wanted not in found:
        raise NotFound(f"the DuckDB file has no table {wanted!r}", hint=did_you_mean(wanted, found))
    if not wanted and len(found) != 1:
        raise BadValue("say which table of the DuckDB file is meant", hint="add #table to the path; it holds " + ", ".join(found))
    return (wanted or str(found[0])).replace('"', '""')


def _typed(source: Any) -> Any:
    """A table in memory whose columns have declared types; a pandas column of any objects is text or nothing."""
    module = type(source).__module__.split(".")[0]
    if module == "polars":
        return (source.collect() if hasattr(source, "collect") else source).to_arrow()
    if module == "pyarrow":
        return source
    if module != "pandas":
        given = f"a {type(source).__name__}"
        raise BadValue("cannot read rows from this object", given=given, hint="a path, or a pandas, polars, Arrow or Ibis table")
    import pyarrow as pa

    def typed() -> pa.Table:
        kinds = {name: pa.string() if source[name].dtype == object else None for name in source.columns}
        return pa.table({str(name): pa.array(source[name], kind, from_pandas=True) for name, kind in kinds.items()})

    return quietly("reading a pandas column of mixed kinds", typed)
