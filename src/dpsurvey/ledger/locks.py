"""Locks of a folder, tried before a ledger is kept in it: where they do nothing, charges of two processes overwrite each other.

SQLite keeps processes apart by POSIX locks. Some file systems answer that a lock was given and give none, others give none at
all, which SQLite takes for a lock that another process holds. A process is never refused its own POSIX locks, so what is
tried is a lock of another kind through a second handle (Linux: an open file description), or the same lock in a
second process, which has the last word. They are tried on a file of their own: the ledger is opened by SQLite alone.
"""

from __future__ import annotations

import errno
import os
import secrets
import struct
import subprocess
import sys
from contextlib import suppress

from ..errors import LedgerUnavailable
from ..text.writing import claim

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows refuses a locked range to every other handle
    fcntl = None  # type: ignore[assignment]

# Another process asks for the same lock: exit code 0 where it is refused.
ASK = """
import errno, fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except OSError as error:
        sys.exit(0 if error.errno in (errno.EAGAIN, errno.EACCES) else 1)
sys.exit(1)
"""


def lock_trouble(folder: str) -> LedgerUnavailable | None:
    """What is wrong with the locks of a folder, if anything; an OSError where no file can be made in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(lock_trouble(folder))
    None
    """
    if fcntl is None:  # pragma: no cover
        return None
    file = os.path.join(folder, f".dpsurvey-{secrets.token_hex(8)}.lock")
    claim(file)
    try:
        why = _wrong(file)
    finally:
        with suppress(OSError):
            os.unlink(file)
    if not why:
        return None
    return LedgerUnavailable(
        "the locks of this file system do not work",
        because=f"{why}: two processes could write at once, and charges would be lost",
        given=os.path.abspath(folder),
        hint="keep the ledger on a disk of this computer, or on PostgreSQL: postgresql://user@host/base#schema",
    )


def _wrong(file: str) -> str:
    one, other = os.open(file, os.O_RDWR), os.open(file, os.O_RDWR)
    try:
        try:
            fcntl.lockf(one, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        except OSError as error:
            return f"it gives none ({errno.errorcode.get(error.errno or 0, 'unknown')})"
        if _is_refused(other) or _is_refused_elsewhere(file):
            return ""
        return "a lock that one process holds is given to another as well"
    finally:
        os.close(one)
        os.close(other)


def _is_refused(handle: int) -> bool:
    """Whether a second handle is refused the lock, where the system has locks that belong to a handle."""
    command = getattr(fcntl, "F_OFD_SETLK", None)
    if command is None:  # pragma: no cover - not on Linux
        return False
    try:
        fcntl.fcntl(handle, command, struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    except OSError as error:
        return error.errno in (errno.EAGAIN, errno.EACCES)
    return False


def _is_refused_elsewhere(file: str) -> bool:
    """Whether another process is refused the lock that this one holds."""
    if not sys.executable:  # pragma: no cover - a program with Python inside
        return False
    command = [sys.executable, "-I", "-S", "-c", ASK, file]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603 - our own words
