"""Frames that live elsewhere: in PostgreSQL, or in files that a Spark cluster reads. Each is imported when it is asked for."""

from __future__ import annotations

import os
import shutil
from typing import Any
from urllib.parse import unquote, urlsplit

import ibis
from ibis.expr.types import Table

from ..errors import BadValue, NotFound, UsageError, did_you_mean

SPARK_SETTINGS = {
    "spark.app.name": "dpsurvey",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Doubles, text and whole numbers must mean the same as on the other engines, and overflow must not pass in silence.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


def open_postgres(address: str) -> Table:
    """A table of a PostgreSQL server: postgresql://user@host/database#table, or #schema.table."""
    place, _, name = address.partition("#")
    if not name:
        raise BadValue("say which table of the server is meant", hint="add #table or #schema.table to the address")
    if not hasattr(ibis, "postgres"):
        raise _missing("postgres")
    schema, _, table = name.rpartition(".")
    failed = ""
    try:
        server = ibis.postgres.connect(**_parts(place))
        found = server.list_tables(database=schema or None)
    except ImportError:
        raise _missing("postgres") from None
    except Exception as error:
        failed = type(error).__name__
    if failed:
        # The server's own words may hold the address and more; only their kind gets out.
        raise NotFound("the PostgreSQL server did not answer", because=failed, given=place)
    if table not in found:
        server.disconnect()
        close = did_you_mean(table, found)
        raise NotFound(f"the server has no table {name!r}", hint=close if close.startswith("did you mean") else "")
    return server.table(table, database=schema or None)


def _parts(place: str) -> dict[str, Any]:
    parts = urlsplit(place)
    named = {
        "user": unquote(parts.username) if parts.username else None,
        "host": parts.hostname,
        "port": parts.port,
        "database": parts.path.lstrip("/") or None,
    }
    return {name: value for name, value in named.items() if value is not None} | {"password": os.environ.get("PGPASSWORD")}


def open_spark(source: Any) -> Table:
    """Files read by Spark: on the cluster that SPARK_REMOTE or spark.master names, else on this machine's cores."""
    if not isinstance(source, str | os.PathLike):
        raise BadValue("Spark reads files, not tables in memory", given=f"a {type(source).__name__}", hint='engine="duckdb"')
    name = os.fspath(source)
    ending = os.path.splitext(name)[1].lower()
    if ending not in (".parquet", ".pq", ""):
        raise BadValue(
            f"Spark reads the frame from Parquet, not from a {ending} file", given=name, hint="write it as Parquet first"
        )
    if "://" not in name and not os.path.exists(name.split("*")[0]):
        raise NotFound(f"there is no file {name!r}")
    return spark_backend().read_parquet(os.path.abspath(name) if "://" not in name else name)


def spark_backend() -> Any:
    """The Spark session of this process as an Ibis backend; one is started where there is none."""
    if java_missing() and not os.environ.get("SPARK_REMOTE"):
        raise NotFound("Spark needs Java 17 or newer", hint="install a Java runtime, or set JAVA_HOME")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise _missing("spark") from None
    builder = SparkSession.builder
    if not os.environ.get("SPARK_REMOTE"):
        builder = builder.master(os.environ.get("SPARK_MASTER", "local[*]"))
    if SparkSession.getActiveSession() is None:
        for key, value in SPARK_SETTINGS.items():
            builder = builder.config(key, value)
    return ibis.pyspark.connect(builder.getOrCreate())


def java_missing() -> bool:
    """Whether no Java runtime can be found."""
    home = os.environ.get("JAVA_HOME")
    return not (home and os.path.exists(os.path.join(home, "bin", "java"))) and shutil.which("java") is None


def _missing(extra: str) -> UsageError:
    return UsageError(f"this needs the {extra} extra", hint=f"pip install 'dpsurvey[{extra}]'")
