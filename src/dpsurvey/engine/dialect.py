"""What engines do in ways of their own: one class for each; every other engine is what Ibis says of it."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import BooleanValue, IntegerValue, NumericValue, StringValue, Table

from .spark import is_remote, kept_remotely, open_spark

# The largest double; NaN and infinity are not between it and its negative.
LARGEST = 1.7976931348623157e308

# What each function takes and gives: Spark's change of base; PostgreSQL's text as bytes, digest, bytes as text, one byte;
# DuckDB's test of a double.
SIGNATURES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "conv": ((dt.string, dt.int64, dt.int64), dt.string),
    "convert_to": ((dt.string, dt.string), dt.binary),
    "sha256": ((dt.binary,), dt.binary),
    "encode": ((dt.binary, dt.string), dt.string),
    "get_byte": ((dt.binary, dt.int64), dt.int32),
    "isfinite": ((dt.float64,), dt.boolean),
}


@cache
def own_function(name: str) -> Any:
    """A function of the engine that Ibis has no name for, by its name there: only that is written into the query."""

    def stands_for(*arguments: Any) -> Any:
        raise NotImplementedError

    takes, gives = SIGNATURES[name]
    stands_for.__name__ = name
    # Ibis counts the arguments of the function itself; `signature` gives their types only.
    places = [inspect.Parameter(f"_{place}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for place in range(len(takes))]
    stands_for.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    return ibis.udf.scalar.builtin(stands_for, name=name, signature=(takes, gives))


class Dialect:
    """An engine of which nothing more is known."""

    # It runs in this process: it keeps the order of files, writes files, and its tables can be joined on one connection.
    in_process: ClassVar[bool] = False
    # Rows are numbered at little cost.
    numbers_rows: ClassVar[bool] = True
    # What opened a connection to it has to close it.
    disconnects: ClassVar[bool] = False

    def open_file(self, source: Any) -> Table | None:
        """The table in a file, where DuckDB is not to read it."""
        return None

    def first_bits(self, text: StringValue, bits: int) -> IntegerValue | None:
        """The first bits, a multiple of four, of the SHA-256 of a text, as a whole number; None without SHA-256."""
        return None

    def sortable(self, text: StringValue) -> StringValue:
        """Text in an order by its bytes."""
        return text

    def not_finite(self, number: NumericValue) -> BooleanValue:
        """Whether a number is missing, NaN or infinite."""
        return number.isnull() | ~number.between(-LARGEST, LARGEST)

    def keep(self, table: Table) -> Table:
        """The rows of an expression as a temporary table, gone with the connection."""
        return table.get_backend().create_table(f"dpsurvey_{uuid.uuid4().hex}", table, temp=True)

    def send(self, rows: Any, backend: Any) -> Table:
        """A small Arrow table on the engine."""
        return ibis.memtable(rows)

    def progress(self, backend: Any) -> Callable[[], float | None] | None:
        """What says how much of the running query is done, where the engine says so."""
        return None


class DuckDB(Dialect):
    """Files and tables in memory."""

    in_process = True

    def first_bits(self, text: StringValue, bits: int) -> IntegerValue:
        return ("0x" + text.hexdigest("sha256").substr(0, bits // 4)).cast(dt.int64)

    def not_finite(self, number: NumericValue) -> BooleanValue:
        # A file's statistics leave NaN out, and DuckDB, which trusts them, answers comparisons and even isnan without looking;
        # its isfinite looks.
        return number.isnull() | ~own_function("isfinite")(number)

    def send(self, rows: Any, backend: Any) -> Table:
        name = f"dpsurvey_{uuid.uuid4().hex}"
        backend.con.register(f"{name}_sent", rows)
        backend.raw_sql(f"create temp table {name} as select * from {name}_sent")
        backend.con.unregister(f"{name}_sent")
        return backend.table(name)

    def progress(self, backend: Any) -> Callable[[], float | None]:
        backend.raw_sql("set enable_progress_bar = true")
        backend.raw_sql("set enable_progress_bar_print = false")

        def percent() -> float | None:
            found = backend.con.query_progress()
            return None if found < 0 else min(1.0, found / 100.0)

        return percent


class Spark(Dialect):
    """Files that one machine cannot read."""

    # Rows on a cluster have no numbers of their own.
    numbers_rows = False

    def open_file(self, source: Any) -> Table:
        return open_spark(source)

    def first_bits(self, text: StringValue, bits: int) -> IntegerValue:
        return own_function("conv")(text.hexdigest("sha256").substr(0, bits // 4), 16, 10).cast(dt.int64)

    def not_finite(self, number: NumericValue) -> BooleanValue:
        return super().not_finite(number) | number.isnan()

    def keep(self, table: Table) -> Table:
        # Spark has no temporary tables; a cached one is computed once and kept by the cluster.
        if is_remote(table.get_backend()):
            return kept_remotely(table)
        kept = table.cache()
        kept.count().to_pyarrow()
        return kept

    def send(self, rows: Any, backend: Any) -> Table:
        # Ibis does not register its tables in memory when a result of Spark is kept.
        name = f"dpsurvey_{uuid.uuid4().hex}"
        backend._session.createDataFrame(rows).createTempView(name)
        return backend.table(name)

    def progress(self, backend: Any) -> Callable[[], float | None] | None:
        context = getattr(backend._session, "sparkContext", None)
        return None if context is None else lambda: _tasks_done(context.statusTracker())


class Postgres(Dialect):
    """Tables on a server."""

    disconnects = True

    def first_bits(self, text: StringValue, bits: int) -> IntegerValue:
        digest = own_function("sha256")(own_function("convert_to")(text, "UTF8"))
        parts = [own_function("get_byte")(digest, index).cast(dt.int64) for index in range(8)]
        number = parts[7] // (1 << (64 - bits))
        for index in range(7):
            number = number + parts[index] * (1 << (bits - 8 * (index + 1)))
        return number

    def sortable(self, text: StringValue) -> StringValue:
        # The server would sort text as a dictionary does.
        return own_function("encode")(own_function("convert_to")(text, "UTF8"), "hex")

    def not_finite(self, number: NumericValue) -> BooleanValue:
        return super().not_finite(number) | number.isnan()


# What reads files, by the names of dpsurvey.text.engines; and every engine with a class of its own, by its name in Ibis.
READ_FILES = {"duckdb": DuckDB(), "spark": Spark()}
DIALECTS = {"duckdb": READ_FILES["duckdb"], "pyspark": READ_FILES["spark"], "postgres": Postgres()}


def dialect_of(rows: Any) -> Dialect:
    """The dialect of the engine that a table or a column is on."""
    return DIALECTS.get(rows.get_backend().name, Dialect())


def _tasks_done(tracker: Any) -> float | None:
    """The share of the tasks of the running stages that are done."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    total = sum(stage.numTasks for stage in stages if stage)
    return sum(stage.numCompletedTasks for stage in stages if stage) / total if total else None
