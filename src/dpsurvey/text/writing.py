"""Every file that is written is written here: whole or not at all, by one rule about what may be replaced.

A file is made beside its place under a name of its own, flushed to the disk, and then given its name in one step. What has
that name already is refused, and links are never followed: a sealed sample, a release, a ledger and a key cannot be lost to
a mistyped name. Only what carries the mark of the same command (a page, a picture) may be replaced by it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ..errors import AlreadyThere, BadValue, NotFound, NotWritten

# What other packages may use.
__all__ = ["carries", "make_folder", "write_file"]

Content = str | bytes | Callable[[BinaryIO], object]
May = Callable[[Path], bool]
# How much of a file is searched for a mark, at its beginning and at its end.
NEAR = 4096
# What a mode gives to group and others.
OTHERS = 0o077
NOTHING_LOST = "choose another name; nothing was overwritten"
# What the system says of a disk, in words.
WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than allowed",
}


def write_file(
    path: str | os.PathLike[str],
    content: Content,
    *,
    private: bool = False,
    replaces: May | None = None,
    hint: str = NOTHING_LOST,
) -> Path:
    """Write a new file, whole or not at all; `private` closes it to others.

    `replaces` says of a file that is there whether it is of this command's own making; without it nothing is replaced.
    A function as content gets an open file to write to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "note.txt"
    ...     write_file(target, "first").read_text()
    ...     try:
    ...         write_file(target, "second")
    ...     except AlreadyThere as refused:
    ...         refused.hint
    'first'
    'choose another name; nothing was overwritten'
    """
    target = check_place(path, replaces=replaces, hint=hint)
    with explained(target), _beside(target, private) as temporary:
        with temporary.open("r+b") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
        flush(temporary)
        if replaces is None:
            give_name(temporary, target, hint=hint)
        else:
            # Asked again: what came there while this was written is not this command's either.
            check_place(target, replaces=replaces, hint=hint)
            os.replace(temporary, target)
        flush(target.parent)
    return target


def check_place(path: str | os.PathLike[str], *, replaces: May | None = None, hint: str = NOTHING_LOST) -> Path:
    """Refuse a place that cannot be written, or holds something else, before any work is done for it."""
    target = Path(path)
    if not target.name or "\0" in os.fspath(target):
        raise BadValue("a file needs a name", given=os.fspath(path))
    folder = target.parent
    if not folder.is_dir():
        raise NotFound(f"there is no folder {os.fspath(folder)!r}")
    if os.path.lexists(target):
        because = ""
        if target.is_symlink():
            because = "it is a link, and files are not written through links"
        elif replaces is not None:
            because = "" if target.is_file() and replaces(target) else "it was not made by this command"
        if because or replaces is None:
            raise AlreadyThere(f"{os.fspath(path)!r} exists already", because=because, hint=hint)
    if not os.access(folder, os.W_OK):
        raise BadValue(f"cannot write to {os.fspath(folder)!r}", because="the folder is closed to you")
    return target


def carries(mark: str) -> May:
    """Whether a file carries a mark near its beginning or its end.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     carries("made by us")(write_file(Path(folder) / "page.html", "<p>made by us</p>"))
    True
    """

    def is_marked(path: Path) -> bool:
        try:
            if is_in_use(path):
                return False
            with path.open("rb") as file:
                start = file.read(NEAR)
                file.seek(max(0, file.seek(0, os.SEEK_END) - NEAR))
                return mark.encode() in start or mark.encode() in file.read(NEAR)
        except OSError:
            return False

    return is_marked


def holds(content: str | bytes) -> May:
    """Whether a file holds exactly this already, so that writing it again changes nothing."""
    wanted = content.encode() if isinstance(content, str) else content

    def is_same(path: Path) -> bool:
        try:
            return not is_in_use(path) and path.stat().st_size == len(wanted) and path.read_bytes() == wanted
        except OSError:
            return False

    return is_same


def is_in_use(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a database that is open: it is not even looked into, as closing it would take its locks away."""
    return any(os.path.exists(f"{os.fspath(path)}{ending}") for ending in ("-wal", "-shm"))


def is_open_to_others(path: str | os.PathLike[str]) -> bool:
    """Whether somebody else than its owner may read, write or run a file, by its mode."""
    return os.name == "posix" and bool(stat.S_IMODE(os.stat(path).st_mode) & OTHERS)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """A folder that is there and can be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     make_folder(f"{place}/results/2026").is_dir()
    True
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadValue(f"cannot write to {os.fspath(path)!r}", because=_why(error)) from None
    if not os.access(folder, os.W_OK):
        raise BadValue(f"cannot write to {os.fspath(path)!r}", because="the folder is closed to you")
    return folder


@contextmanager
def claimed_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder that nobody else who asks in this way writes to meanwhile; gone in the end if it was new and is empty.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place, claimed_folder(f"{place}/out") as mine:
    ...     try:
    ...         with claimed_folder(mine):
    ...             pass
    ...     except BadValue as refused:
    ...         refused.because
    'another process is writing to it'
    """
    folder = Path(path)
    made = not folder.exists()
    make_folder(folder)
    mark = folder / ".dpsurvey-claim"
    taken = BadValue(f"cannot write to {os.fspath(path)!r}", because="another process is writing to it", hint="another folder")
    try:
        handle = os.open(mark, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise BadValue(f"cannot write to {os.fspath(path)!r}", because=_why(error)) from None
    try:
        try:
            # The system takes the lock away when a process ends, however it ends.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise taken from None
        except OSError as error:
            raise BadValue(f"cannot write to {os.fspath(path)!r}", because=_why(error), hint="a folder on a local disk") from None
        # Whoever was here before may have removed the mark, and then this lock is one on nothing.
        if not mark.exists() or os.stat(mark).st_ino != os.fstat(handle).st_ino:
            raise taken
        try:
            yield folder
        finally:
            with suppress(OSError):
                mark.unlink()
            if made:
                with suppress(OSError):
                    folder.rmdir()
    finally:
        os.close(handle)


def claim(path: str | os.PathLike[str]) -> bool:
    """Make an empty file that only its owner can read; whether this call made it. A link is not followed."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


@contextmanager
def private_folder(beside: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder that only its owner can enter, inside another one; gone in the end, with what is still in it."""
    folder = tempfile.mkdtemp(prefix=".dpsurvey-", dir=beside)
    try:
        yield Path(folder)
    finally:
        # What was to be kept has its place by now: a folder that cannot be removed is no reason to fail.
        shutil.rmtree(folder, ignore_errors=True)


def give_name(file: str | os.PathLike[str], target: str | os.PathLike[str], *, hint: str = NOTHING_LOST) -> None:
    """Give a file its name, unless another has it by now: two writers to one place must not destroy each other."""
    taken = AlreadyThere(f"{os.fspath(target)!r} exists already", hint=hint)
    try:
        os.link(file, target)
    except FileExistsError:
        raise taken from None
    except OSError:
        # A file system without links; what lies there is looked for once more.
        if os.path.lexists(target):
            raise taken from None
        os.replace(file, target)


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explained(target: str | os.PathLike[str]) -> Iterator[None]:
    """What the system said of a file that could not be written, in words."""
    try:
        yield
    except OSError as error:
        raise NotWritten(
            "a file could not be written", because=_why(error), given=os.fspath(target), hint="nothing half-written was left"
        ) from None


@contextmanager
def _beside(target: Path, private: bool) -> Iterator[Path]:
    """An empty file in the folder of another, under a name that nobody can foresee; gone in the end."""
    temporary = target.with_name(f".dpsurvey-{secrets.token_hex(8)}.part")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
    try:
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink()


def _why(error: OSError) -> str:
    return WORDS.get(error.errno or 0, error.strerror or type(error).__name__)
