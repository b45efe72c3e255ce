"""A ledger file on disk: made for its owner alone, and opened by SQLite and by nothing else.

Whoever closes a file takes away every POSIX lock that the same process has on it, through whichever handle. One `open(ledger)`
in a process that spends would let another process throw away the log that the next charge is written to. So SQLite is
asked what a file is; and a log that was thrown away all the same is noticed before anything is written to it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from contextlib import closing, suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DisconnectionError

from ..errors import BadValue, LedgerUnavailable, UsageError
from ..text.writing import OTHERS, claim, is_open_to_others
from .locks import lock_trouble

# How long one process waits for another that is writing, in seconds.
PATIENCE = 120
# Bytes of a database, at least: one page.
SMALLEST = 512
# A file that is being made must not be opened by another thread before it is closed again.
_making = threading.Lock()


def is_database(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a database, or may be one that cannot be read; asked of SQLite, which never drops a lock.

    >>> is_database(__file__)
    False
    """
    if not os.path.isfile(path) or os.path.getsize(path) < SMALLEST:
        return False
    try:
        with closing(sqlite3.connect(_uri(os.fspath(path), "mode=ro"), uri=True, timeout=0)) as connection:
            connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.DatabaseError as error:
        return getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_NOTADB
    return True


def read_beside(path: str | os.PathLike[str]) -> bytes:
    """The content of a file that somebody named, and that must not be a database: one that is may be a ledger in use."""
    if is_database(path):
        raise BadValue("this file is a database", given=os.fspath(path), hint="a ledger is opened by dpsurvey ledger alone")
    with open(path, "rb") as file:
        return file.read()


def may_write(path: str) -> bool:
    """Whether a ledger can be written: not on a disk, in a folder or with a mode that is for reading alone."""
    return not os.path.isfile(path) or (_is_open(path) and _is_open(folder_of(path)))


def _is_open(place: str) -> bool:
    return os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def folder_of(path: str) -> str:
    """The folder that a ledger file lies in, with its log: that of the file itself, where the path is a link."""
    return os.path.dirname(os.path.realpath(path))


def engine_to_write(path: str, *, may_make: bool) -> Engine:
    """Connections to a ledger file that is there, or is made if it may be."""
    with _making:
        # Only a file of our own is given a write-ahead log; it keeps it.
        new = may_make and (not os.path.exists(path) or (os.path.isfile(path) and os.path.getsize(path) == 0))
        try:
            # Tried at each opening, in a thirtieth of a thousandth of a second: a disk can be mounted anew.
            if (trouble := lock_trouble(folder_of(path))) is not None:
                raise trouble
            if not os.path.exists(path):
                # Where another process was quicker, the file is left to SQLite.
                claim(path)
        except OSError:
            hint = "its folder must exist and be writable"
            raise UsageError(f"the ledger cannot be {'made' if new else 'written'}", given=path, hint=hint) from None
        if os.path.isfile(path):
            _check_names(path)
            _close_to_others(path)
    engine = create_engine(URL.create("sqlite", database=path), connect_args={"timeout": PATIENCE})
    pragmas = ("journal_mode=WAL", "synchronous=FULL") if new else ("synchronous=FULL",)
    event.listen(engine, "connect", partial(_connected, path, pragmas))
    event.listen(engine, "checkout", partial(_checked_out, path))
    return engine


def engine_to_read(path: str) -> Engine:
    """Connections to a ledger file that change nothing; each is made anew, to see what others wrote."""
    return create_engine("sqlite://", creator=partial(_connect_to_read, path), poolclass=NullPool)


def log_of(path: str) -> tuple[int, int] | None:
    """Which file the write-ahead log is now."""
    try:
        found = os.stat(os.path.realpath(path) + "-wal")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def log_was_lost(path: str) -> LedgerUnavailable:
    """What is said after a charge was written to a log that another process had thrown away."""
    return LedgerUnavailable(
        "the locks of the ledger were taken away while it was written",
        given=path,
        because="this process opened and closed the file beside the ledger; whether the last charge stayed, the ledger shows",
        hint="try again; copies and hashes of a ledger are made by other programs, or from dpsurvey ledger export",
    )


def _check_names(path: str) -> None:
    """A file has a log for each of its names, and a charge in the log of one name is not seen through another."""
    if os.stat(path).st_nlink > 1:
        raise LedgerUnavailable(
            "the ledger has more than one name",
            because="each name of a file would have a log of its own, and charges would be lost",
            given=path,
            hint="remove the other hard links; a copy of a ledger is made with dpsurvey ledger export, or cp",
        )


def _close_to_others(path: str) -> None:
    """A ledger is for its owner alone: it holds the keys of sealed samples. A file of another owner is refused."""
    place = os.path.realpath(path)
    for file in (place, place + "-wal", place + "-shm"):
        with suppress(FileNotFoundError, PermissionError):
            if is_open_to_others(file):
                os.chmod(file, stat.S_IMODE(os.stat(file).st_mode) & ~OTHERS)
    if is_open_to_others(place):
        raise LedgerUnavailable(
            "others can read the ledger",
            because="it holds the keys of sealed samples, and this file cannot be closed to them by you",
            given=path,
            hint="its owner closes it with chmod 600; a team shares a ledger on PostgreSQL",
        )


def _connected(path: str, pragmas: tuple[str, ...], connection: Any, record: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(f"PRAGMA {pragma}")
    # From the first look on the log is held, and stays the same file until this connection is closed.
    cursor.execute("PRAGMA schema_version").fetchone()
    mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
    cursor.close()
    record.info["log"] = log_of(path) if mode == "wal" else None


def _checked_out(path: str, connection: Any, record: Any, _proxy: Any) -> None:
    """A connection whose log was thrown away is not used again: what it wrote would be seen by nobody."""
    if record.info["log"] is not None and record.info["log"] != log_of(path):
        raise DisconnectionError


def _uri(path: str, mode: str) -> str:
    return f"file:{quote(os.path.abspath(path))}?{mode}"


def _connect_to_read(path: str) -> sqlite3.Connection:
    """A connection that changes nothing, not even beside the file where the folder is read-only."""
    log = os.path.realpath(path) + "-wal"
    alone = not _is_open(folder_of(path)) and not (os.path.exists(log) and os.path.getsize(log))
    mode = "mode=ro&immutable=1" if alone else "mode=ro"
    return sqlite3.connect(_uri(path, mode), uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
