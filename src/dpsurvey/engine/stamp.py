"""What tells a file as it is now from a later one of the same name: a file that was checked is not checked again."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Files up to this size are read: that takes no longer than a few milliseconds, and nothing can be changed without its being seen.
READ = 2**24


def stamp_of(source: Any) -> tuple[Any, ...] | None:
    """The files behind a name: the content of small ones; of others inode, size, and when they were written and changed.

    A time of writing can be set back, and copies and archives do so; the time of the change behind it cannot, short of the
    clock. None for sources that are not files of this machine.
    """
    if not isinstance(source, str | os.PathLike) or "://" in os.fspath(source):
        return None
    names = sorted(glob.glob(os.fspath(source).partition("#")[0]))
    return tuple(_stamp(os.path.abspath(name)) for found in names for name in _files(found)) or None


def _files(name: str) -> Iterator[str]:
    """A file with the log that DuckDB may have left beside it; of a folder everything in it."""
    if os.path.isdir(name):
        for folder, folders, files in os.walk(name):
            folders.sort()
            yield from (os.path.join(folder, file) for file in sorted(files))
        return
    yield name
    if os.path.exists(f"{name}.wal"):
        yield f"{name}.wal"


def _stamp(name: str) -> tuple[Any, ...]:
    found = os.stat(name)
    if found.st_size <= READ and stat.S_ISREG(found.st_mode) and os.access(name, os.R_OK):
        return name, found.st_size, hashlib.sha256(Path(name).read_bytes()).hexdigest()
    return name, found.st_size, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
