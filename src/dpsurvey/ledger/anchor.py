"""Anchors: a second place that remembers how far a ledger had come, so that going back is found. Forward only."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, insert, select

from ..errors import BadValue, LedgerBroken, LedgerUnavailable
from ..text.reading import json_of
from .address import SERVERS, Address
from .file import is_database
from .store import Store

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock; a torn line is found when it is read
    fcntl = None  # type: ignore[assignment]

# Anchors of servers lie in a table of their own, in a schema that the ledger need not share.
_table = Table(
    "anchors",
    MetaData(),
    Column("ledger", String, primary_key=True),
    Column("count", BigInteger, primary_key=True, autoincrement=False),
    Column("head", String, nullable=False),
    Column("at", String, nullable=False),
)
# The last lines of the file; a line is far shorter.
TAIL = 65_536
# How a line of an anchor begins; what begins otherwise is a file of something else.
FIRST = b'{"ledger"'


HashAt = Callable[[int], str | None]


@dataclass(frozen=True)
class Seen:
    """How far a ledger had come: the number of its entries, and the hash of the last."""

    count: int
    head: str


class Anchor(Protocol):
    """A place that remembers heads."""

    @property
    def where(self) -> str:
        """The place, as it is kept on record."""

    @property
    def shown(self) -> str:
        """The place, without a password."""

    def last(self, ledger: str) -> Seen | None:
        """The furthest that was seen of a ledger; of any, where none is named."""

    def knows_any(self) -> bool:
        """Whether it remembers anything of any ledger."""

    def advance(self, stamp: Mapping[str, Any], at: str, hash_at: HashAt) -> None:
        """Remember a head that is further than all before it; `hash_at` looks up entries of the ledger itself."""


def anchor_at(where: str) -> Anchor:
    """The anchor at an address: a file of JSON lines, or a table on a PostgreSQL server."""
    return ServerAnchor(where) if where.startswith(SERVERS) else FileAnchor(where)


def anchor_address(written: str | os.PathLike[str]) -> str:
    """An address as it is kept on record: a whole path, or a server without a password."""
    plain = os.fspath(written)
    if not plain or "\0" in plain:
        raise BadValue("an anchor is a file or a PostgreSQL address")
    if not plain.startswith(SERVERS):
        return os.path.abspath(plain)
    if Address.of(plain).holds_password:
        raise BadValue("the address of an anchor is kept on record, and holds a password", hint="~/.pgpass, or PGPASSWORD")
    return plain


@dataclass(frozen=True)
class FileAnchor:
    """A file to which one line is added for each step of the chain; it may serve several ledgers."""

    where: str

    @property
    def shown(self) -> str:
        return self.where

    def knows_any(self) -> bool:
        return self.last("") is not None

    def last(self, ledger: str) -> Seen | None:
        self._refuse_a_ledger()
        try:
            with open(self.where, "rb") as file:
                return self._last(file, ledger)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerUnavailable(
                "the anchor of the ledger cannot be read", given=self.where, because=type(error).__name__
            ) from None

    def _refuse_a_ledger(self) -> None:
        if is_database(self.where):
            raise BadValue("an anchor is a file of its own, and not a database", given=self.where)

    def _last(self, file: BinaryIO, ledger: str) -> Seen | None:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - TAIL))
        found = self._furthest(file.read(), ledger)
        if found is None and end > TAIL:
            file.seek(0)
            found = self._furthest(file.read(), ledger)
        return found

    def _furthest(self, content: bytes, ledger: str) -> Seen | None:
        found: Seen | None = None
        for line in content.split(b"\n"):
            # A line that was cut by a crash says nothing; the lines before it do.
            with suppress(ValueError, KeyError, TypeError, OverflowError):
                fields = json_of(line.decode())
                if ledger in ("", fields["ledger"]) and (found is None or fields["count"] > found.count):
                    found = Seen(int(fields["count"]), str(fields["head"]))
        return found

    def advance(self, stamp: Mapping[str, Any], at: str, hash_at: HashAt) -> None:
        self._refuse_a_ledger()
        try:
            handle = os.open(self.where, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
            with os.fdopen(handle, "rb") as file:
                if fcntl is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                begins = os.pread(handle, 64, 0).strip()
                if begins and not begins.startswith(FIRST):
                    raise BadValue("this file is not an anchor", given=self.where, hint="name a new file; nothing was written")
                # Through the same handle: closing another one would let go of the lock on some file systems.
                seen = self._last(file, stamp["id"])
                _refuse_another(seen, hash_at, self.where)
                if seen is None or seen.count < stamp["count"]:
                    line = {"ledger": stamp["id"], "count": stamp["count"], "head": stamp["head"], "at": at}
                    # A new line first: what a crash left unfinished must not swallow this one.
                    whole = b"\n" + json.dumps(line).encode()
                    # A disk that is nearly full takes a part of a line, and says nothing.
                    if os.write(handle, whole) < len(whole):
                        raise OSError(errno.ENOSPC, "the disk is full")
                    os.fsync(handle)
        except OSError as error:
            raise LedgerUnavailable(
                "the anchor of the ledger cannot be written",
                given=self.where,
                because=f"{type(error).__name__}; what was reserved stays spent, and nothing more is released until it can",
            ) from None


@dataclass(frozen=True)
class ServerAnchor:
    """A table on a PostgreSQL server, one row for each step of the chain."""

    where: str

    @property
    def shown(self) -> str:
        return str(Address.of(self.where))

    def knows_any(self) -> bool:
        return self.last("") is not None

    def last(self, ledger: str) -> Seen | None:
        store = Store(self.where)
        try:
            with store.reading() as connection:
                return self._last(connection, ledger) if _table.name in store.tables(connection) else None
        finally:
            store.close()

    def _last(self, connection: Connection, ledger: str) -> Seen | None:
        rows = select(_table.c.count, _table.c.head)
        rows = rows.where(_table.c.ledger == ledger) if ledger else rows
        row = connection.execute(rows.order_by(_table.c.count.desc()).limit(1)).first()
        return Seen(row[0], row[1]) if row else None

    def advance(self, stamp: Mapping[str, Any], at: str, hash_at: HashAt) -> None:
        store = Store(self.where)
        try:
            with store.writing() as connection:
                if _table.name not in store.tables(connection):
                    store.make_schema(connection)
                    _table.create(connection)
                seen = self._last(connection, stamp["id"])
                _refuse_another(seen, hash_at, self.shown)
                if seen is None or seen.count < stamp["count"]:
                    values = {"ledger": stamp["id"], "count": stamp["count"], "head": stamp["head"], "at": at}
                    connection.execute(insert(_table).values(**values))
        finally:
            store.close()


def _refuse_another(seen: Seen | None, hash_at: HashAt, where: str) -> None:
    """What the anchor has seen must be on the chain of whoever goes on, or two copies would both spend."""
    if seen is not None and hash_at(seen.count) != seen.head:
        raise LedgerBroken(
            "two ledgers of one origin went different ways",
            given=f"entry {seen.count} is another one in the anchor {where}",
            because="what one of them spent is not in the other; a charge just written here stays, and nothing is released",
        )
