"""The chain of a ledger as a whole, apart from what it says: stamps, anchors, signatures, copies and moves."""

from __future__ import annotations

import os
from typing import Any, Self

from ..errors import BadValue
from ..text.reading import json_of
from . import transfer
from .anchor import anchor_address, anchor_at
from .books import Books
from .journal import Journal
from .signature import signed


class WholeChain:
    """A chain of entries at one place."""

    def __init__(
        self, address: str | os.PathLike[str], *, must_exist: bool = False, anchor: str | os.PathLike[str] | None = None
    ) -> None:
        place = anchor_address(anchor) if anchor is not None else None
        self._journal = Journal(address, must_exist=must_exist, anchor=place)

    @property
    def address(self) -> str:
        """Where the ledger is, without a password."""
        return str(self._journal.store.address)

    def __repr__(self) -> str:
        return f"Ledger({self.address!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file or the server."""
        self._journal.store.close()

    @property
    def _books(self) -> Books:
        return self._journal.refresh()

    @property
    def stamp(self) -> dict[str, Any]:
        """Which ledger this is, how many entries it has, and the hash of the last: what a release and an anchor keep."""
        self._journal.refresh()
        return self._journal.stamp()

    def anchor(self, place: str | os.PathLike[str], *, instead_of: str | os.PathLike[str] | None = None) -> str:
        """Keep the head of the chain in a second place from now on; a ledger that the place is ahead of refuses to spend."""
        where = anchor_address(place)
        old = anchor_address(instead_of) if instead_of is not None else None
        if old is not None and old not in self._books.anchors:
            raise BadValue("the ledger has no such anchor", given=str(instead_of))
        if where == os.path.abspath(self._journal.store.address.path or "."):
            raise BadValue("a ledger is not its own anchor", given=where)
        # What a place knows already must be this ledger's own past, and that it can be written is seen before it is on record.
        with self._journal.writing(without_anchor=old, also=where):
            anchor_at(where).advance(self._journal.stamp(), self._journal.books.at, self._journal.hash_at)
        with self._journal.writing(without_anchor=old, also=where) as pen:
            pen.write("anchored", {"where": where} | ({"instead_of": old} if old else {}))
        return anchor_at(where).shown

    def accept_clock(self, why: str) -> None:
        """Go on although the clock is behind the last entry, because that entry had the wrong time."""
        if not why:
            raise BadValue("say why the last entry has the wrong time", hint="--why")
        with self._journal.writing(although_late=True) as pen:
            if not self._journal.is_late():
                raise BadValue("the clock is not behind the last entry: there is nothing to accept")
            pen.write("clock", {"why": why}, at=self._journal.now(although_late=True).isoformat(timespec="microseconds"))

    def sign(self, key_file: str | os.PathLike[str]) -> dict[str, Any]:
        """Sign the head of the chain with an Ed25519 key file; `verify_ledger(..., public_key=)` checks it."""
        with self._journal.writing() as pen:
            body = signed(self._journal.stamp(), key_file)
            pen.write("signed", body)
        return body

    def export(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Write the whole chain to a text file that can be verified anywhere; it holds no keys and no paths of samples."""
        return transfer.export(self._journal, path)

    def carry(self, address: str | os.PathLike[str]) -> dict[str, Any]:
        """Move the ledger to a new file or server; this one is closed first, so there are never two that can spend."""
        return transfer.carry(self._journal, address)

    def merge(self, other: str | os.PathLike[str], prefix: str = "") -> dict[str, Any]:
        """Take another ledger in, once: its surveys, samples and charges count here from now on, and it is closed."""
        return transfer.merge(self._journal, other, prefix)

    def entries(self) -> list[dict[str, Any]]:
        """The whole chain, oldest entry first: what happened, when, by whom, with which software."""
        self._journal.refresh()
        with self._journal.store.reading() as connection:
            return [json_of(row.text) for row in self._journal.store.rows_after(connection)]
