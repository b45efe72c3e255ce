"""The journal: a store, and the books that its entries add up to. Reads what others wrote, and adds at the end."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

from sqlalchemy import Connection, insert

from ..errors import LedgerBroken, LedgerDisagrees, LedgerUnavailable, SurveyError
from .anchor import Anchor, anchor_at
from .books import Books
from .entry import Entry, Row, read_chain
from .migrations import make_tables, migrate
from .schema import VERSION, about
from .store import Store

SOFTWARE = version("dpsurvey")
# Clocks of several machines differ a little; a day in the past is another matter.
CLOCKS_DIFFER = timedelta(minutes=5)
LATER = "dpsurvey ledger verify says where; keep the file as it is, and go on from a copy that verifies"


class Pen:
    """Adds entries inside one transaction; they count once it is durable."""

    def __init__(self, store: Store, connection: Connection, books: Books, now: datetime) -> None:
        self.connection, self._store, self._books = connection, store, books
        self._now, self._who = now, store.who(connection)
        self.written: list[tuple[Entry, Row]] = []

    @property
    def at(self) -> str:
        """The time of what is written; the books never go back in time."""
        return max(self._now.isoformat(timespec="microseconds"), self._books.at)

    def write(self, kind: str, body: Mapping[str, Any], at: str = "", by: str = "") -> None:
        """Add an entry."""
        count, head = (
            (self.written[-1][0].seq, self.written[-1][1].hash) if self.written else (self._books.count, self._books.head)
        )
        entry = Entry(count + 1, head, at or self.at, by or self._who, kind, SOFTWARE, dict(body))
        row = entry.row()
        self._store.add(self.connection, [row])
        self.written.append((entry, row))


def refuse_carried(books: Books) -> None:
    """Refuse to spend from a ledger that goes on at another place."""
    if books.carried_to:
        raise LedgerDisagrees(
            "this ledger was carried to another place, or merged into another ledger",
            given=f"to {books.carried_to}",
            because="what is spent in two places would not add up",
            hint="use the ledger there; dpsurvey ledger lists its surveys, which a merge may have named anew",
        )


class Journal:
    """Everything that was written, as it is now."""

    def __init__(self, address: str | os.PathLike[str], *, must_exist: bool = False, anchor: str | None = None) -> None:
        self.store = Store(address, must_exist=must_exist)
        self.books = Books()
        self._anchor = anchor
        # One writer or reader at a time among the threads of a process; the store sees to processes.
        self._turn = threading.RLock()
        with self.store.reading() as connection:
            found = self.store.version(connection)
            if found == str(VERSION):
                self.catch_up(connection)
        if found != str(VERSION):
            self._begin()

    def _begin(self) -> None:
        """Make the tables of a new ledger, or bring those of an earlier version up to this one: whole, or not at all."""
        with self.store.writing() as connection:
            found = self.store.version(connection)
            if found is None:
                self.store.make_schema(connection)
                make_tables(connection, self.store)
                connection.execute(insert(about).values(key="version", value=str(VERSION)))
                self._write_now(connection, "made", {"ledger": uuid.uuid4().hex})
            elif found.isdigit() and int(found) < VERSION:
                migrate(connection, int(found), Pen(self.store, connection, self.books, datetime.now(UTC)), self.store)
            elif found != str(VERSION):
                raise LedgerDisagrees(
                    "the ledger was written by another version",
                    given=f"version {found}, this is {VERSION}",
                    hint="use the version of dpsurvey that wrote it, or a later one; it was left as it is",
                )
        with self.store.reading() as connection:
            self.catch_up(connection)

    def _write_now(self, connection: Connection, kind: str, body: Mapping[str, Any]) -> None:
        Pen(self.store, connection, self.books, datetime.now(UTC)).write(kind, body)

    def refresh(self) -> Books:
        """The books with everything that others wrote meanwhile."""
        with self._turn, self.store.reading() as connection:
            self.catch_up(connection)
        return self.books

    def catch_up(self, connection: Connection) -> None:
        """Take what was written since into account; an entry that does not continue the chain stops everything."""
        books = self.books
        if books.count and self.store.hash_at(connection, books.count) != books.head:
            raise LedgerBroken(
                "the ledger was changed or rolled back while it was open",
                given=f"entry {books.count} is not what it was",
                hint=LATER,
            )
        rows = self.store.rows_after(connection, books.count)
        entries, wrong = read_chain(rows, after=books.count, previous=books.head)
        if wrong:
            raise LedgerBroken("the ledger was changed", given=str(wrong[0]), because="its chain of hashes is broken", hint=LATER)
        for entry, row in zip(entries, rows, strict=True):
            books.apply(entry, row.hash)
        if not books.id:
            raise LedgerBroken("the ledger has lost its first entry", hint=LATER)

    @contextmanager
    def writing(
        self,
        *,
        although_carried: bool = False,
        although_late: bool = False,
        without_anchor: str | None = None,
        also: str | None = None,
    ) -> Iterator[Pen]:
        """The only writer; whatever is written here is durable, and anchored, when the block is left, or was never written."""
        with self._turn:
            with self.store.writing() as connection:
                self.catch_up(connection)
                if not although_carried:
                    refuse_carried(self.books)
                for anchor in [*self.anchors(), *([anchor_at(also)] if also else [])]:
                    self._compare(connection, anchor, joins=anchor.where == also, lost=anchor.where == without_anchor)
                pen = Pen(self.store, connection, self.books, self.now(although_late=although_late))
                yield pen
            for entry, row in pen.written:
                self.books.apply(entry, row.hash)
            if pen.written:
                for anchor in self.anchors():
                    anchor.advance(self.stamp(), self.books.at, self.hash_at)

    def now(self, *, although_late: bool = False) -> datetime:
        """The time; a clock that is behind the last entry is refused."""
        now = datetime.now(UTC)
        if self.is_late() and not although_late:
            raise LedgerUnavailable(
                "the clock of this computer went backwards",
                given=f"it is {now:%Y-%m-%d %H:%M}, and the last entry is of {self.books.at[:16].replace('T', ' ')}",
                because="budgets of a year, and the order of entries, rest on it; nothing was spent",
                hint="set the clock; if the last entry has the wrong time: dpsurvey ledger clock",
            )
        return now

    def is_late(self) -> bool:
        """Whether the clock is behind the last entry, by more than clocks differ."""
        return bool(self.books.at) and datetime.now(UTC) < datetime.fromisoformat(self.books.at) - CLOCKS_DIFFER

    @property
    def year(self) -> str:
        """The year that a charge would be counted in."""
        return max(self.now().isoformat(), self.books.at)[:4]

    def anchors(self) -> list[Anchor]:
        """Where the head of the chain is also kept."""
        places = dict.fromkeys([*self.books.anchors, *([self._anchor] if self._anchor else [])])
        return [anchor_at(place) for place in places]

    def _compare(self, connection: Connection, anchor: Anchor, *, joins: bool, lost: bool) -> None:
        """A ledger that an anchor is ahead of, or does not know, was rolled back or replaced."""
        last = anchor.last(self.books.id)
        if last is None:
            if lost:
                return
            if anchor.where in self.books.anchors:
                raise LedgerBroken(
                    "the anchor of this ledger is gone",
                    given=anchor.shown,
                    because="it was emptied or removed; nothing was spent",
                    hint="put it back; or, if it is lost for good: dpsurvey ledger anchor LEDGER PLACE --instead-of OLD",
                )
            if not joins and anchor.knows_any():
                raise LedgerBroken(
                    "the anchor knows another ledger, and not this one",
                    given=anchor.shown,
                    because="a ledger that was deleted and begun anew would look like this; nothing was spent",
                    hint="restore the ledger; or, if this is a different ledger that may share the place: dpsurvey ledger anchor",
                )
            return
        if last.count > self.books.count or self.store.hash_at(connection, last.count) != last.head:
            raise LedgerBroken(
                "this ledger was rolled back, or replaced by another",
                given=f"the anchor has seen entry {last.count}, the ledger ends at {self.books.count}",
                because="what was spent since would be forgotten; nothing was spent now",
                hint="restore the latest ledger; dpsurvey ledger verify --against the anchor compares the two",
            )

    def warning(self) -> str:
        """Why nothing can be spent from this ledger, where its anchors say so; empty otherwise."""
        try:
            with self._turn, self.store.reading() as connection:
                for anchor in self.anchors():
                    self._compare(connection, anchor, joins=False, lost=False)
        except SurveyError as error:
            return f"{error.what} ({error.given})"
        return ""

    def hash_at(self, count: int) -> str | None:
        """The hash of one entry, as it is in the store now."""
        with self.store.reading() as connection:
            return self.store.hash_at(connection, count)

    def stamp(self) -> dict[str, Any]:
        """Which ledger this is, how many entries it has, and the hash of the last one."""
        return {"id": self.books.id, "count": self.books.count, "head": self.books.head}
