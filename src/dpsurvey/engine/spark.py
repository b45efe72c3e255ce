"""Frames in files that Spark reads, here, on a cluster or behind Spark Connect; it is imported when it is asked for."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import ibis
from ibis.expr.types import Table

from ..errors import BadValue, NotFound, missing_extra

T = TypeVar("T")
SETTINGS = {
    "spark.app.name": "dpsurvey",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Doubles, text and whole numbers must mean the same as on the other engines, and overflow must not pass in silence.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
# Seconds after which it is said, and said again, that a cluster is waited for; and after which it is no longer, by default.
SAY, GIVE_UP = 10.0, 300.0
NO_ANSWER = "check the address, and that the server runs and lets this machine in"
NO_WORKERS = "start workers, or wait for those that others use; DPSURVEY_SPARK_WAIT is the number of seconds to wait"


def open_spark(source: Any) -> Table:
    """Files read by Spark: on the cluster that SPARK_REMOTE or SPARK_MASTER names, else on this machine's cores."""
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
    remote = os.environ.get("SPARK_REMOTE", "")
    if java_missing() and not remote:
        raise NotFound("Spark needs Java 17 or newer", hint="install a Java runtime, or set JAVA_HOME")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise missing_extra("spark") from None
    builder, master = SparkSession.builder, os.environ.get("SPARK_MASTER", "local[*]")
    if not remote:
        builder = builder.master(master)
    own = SparkSession.getActiveSession() is None
    if own:
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
    # The address of Spark Connect may hold a token behind it.
    place, fault = remote.partition(";")[0] or master, ""
    try:
        session = patiently(f"the Spark server at {place} to answer", builder.getOrCreate, lambda: None, NO_ANSWER)
    except ImportError as error:
        raise missing_extra("spark", f"Spark Connect needs packages of its own: {_package(error)}") from None
    except NotFound:
        raise
    except Exception as error:
        fault = type(error).__name__
    if fault:
        # The server's own words are long, and hold more than the address.
        raise NotFound("the Spark server did not answer", because=fault, given=place, hint=NO_ANSWER)
    if remote or not str(session.sparkContext.master).startswith("local"):
        try:
            _check_workers(session, place)
        except BaseException:
            if own:
                # Another attempt may name another cluster.
                session.stop()
            raise
    return ibis.pyspark.connect(session)


def _package(error: ImportError) -> str:
    """The package that Spark found missing, or what it says."""
    found: dict[str, str] = getattr(error, "getMessageParameters", dict)() or {}
    return str(found.get("package_name") or error.name or error)


def _check_workers(session: Any, place: str) -> None:
    """Refuse a cluster that takes no work: its queries would wait without a word and without end."""
    mark = f"dpsurvey-{uuid.uuid4().hex}"
    remote = _by_connect(session)

    def one_task() -> None:
        if remote:
            session.addTag(mark)
        else:
            session.sparkContext.setJobGroup(mark, "dpsurvey looks for workers", True)
        try:
            session.range(1).repartition(1).count()
        finally:
            if remote:
                session.removeTag(mark)

    def give_up() -> None:
        with contextlib.suppress(Exception):
            if remote:
                session.interruptTag(mark)
            else:
                session.sparkContext.cancelJobGroup(mark)

    patiently(f"workers of the Spark cluster at {place}", one_task, give_up, NO_WORKERS)


def patiently(what: str, work: Callable[[], T], give_up: Callable[[], None], hint: str) -> T:
    """The result of work that a server may never begin: says on stderr that it is waited for, and gives up in the end."""
    limit = _seconds()
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            failed.append(error)

    start, said = time.monotonic(), SAY
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            waited = time.monotonic() - start
            if waited >= limit:
                raise NotFound(f"waited {limit:g} seconds for {what}", because="nothing came", hint=hint)
            if waited >= said:
                print(f"waiting for {what} ({waited:.0f} s)", file=sys.stderr, flush=True)
                said *= 2.0
            thread.join(min(0.2, limit - waited))
    except BaseException:
        give_up()
        raise
    if failed:
        raise failed[0]
    return done[0]


def _seconds() -> float:
    text = os.environ.get("DPSURVEY_SPARK_WAIT", "")
    try:
        found = float(text) if text else GIVE_UP
    except ValueError:
        found = -1.0
    if not 0.0 < found < 1e9:
        raise BadValue("DPSURVEY_SPARK_WAIT is a number of seconds", given=text, hint="300 without it")
    return found


def is_remote(backend: Any) -> bool:
    """Whether a Spark backend speaks to its cluster by Spark Connect."""
    return _by_connect(backend._session)


def _by_connect(session: Any) -> bool:
    return ".connect." in type(session).__module__


def kept_remotely(table: Table) -> Table:
    """The rows of an expression, computed once and kept by a cluster behind Spark Connect for as long as they are used.

    A cache will not do there: the server knows a cached plan by its form, and does not find that of a union again.
    """
    backend, name = table.get_backend(), f"dpsurvey_{uuid.uuid4().hex}"
    backend._session.sql(backend.compile(table)).localCheckpoint().createTempView(name)
    kept = backend.table(name)
    weakref.finalize(kept.op(), _forgotten, backend._session, name).atexit = False
    return kept


def _forgotten(session: Any, name: str) -> None:
    # A session that has ended has forgotten it already.
    with contextlib.suppress(Exception):
        session.catalog.dropTempView(name)


def java_missing() -> bool:
    """Whether no Java runtime can be found."""
    home = os.environ.get("JAVA_HOME")
    return not (home and os.path.exists(os.path.join(home, "bin", "java"))) and shutil.which("java") is None
