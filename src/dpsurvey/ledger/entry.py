"""Entries: one line of the books each, in canonical JSON, each holding the hash of the one before it. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..text.reading import json_of

# What the first entry holds in place of the hash of an entry before it.
START = "0" * 64
FIELDS = ("at", "body", "by", "kind", "previous", "seq", "software")


def canonical(value: Any) -> str:
    """The one way to write a value: keys sorted, no spaces, ASCII, no NaN; numbers as Python writes them.

    >>> canonical({"b": 1.5, "a": ["é"]})
    '{"a":["\\\\u00e9"],"b":1.5}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Row:
    """An entry as a store keeps it: its number, its text, and the hash of its text."""

    seq: int
    text: str
    hash: str


@dataclass(frozen=True)
class Entry:
    """Something that happened: what kind of thing, when, by whom, with which software; `body` holds the rest."""

    seq: int
    previous: str
    at: str
    by: str
    kind: str
    software: str
    body: dict[str, Any]

    def row(self) -> Row:
        """The entry as it is stored."""
        text = canonical({name: getattr(self, name) for name in FIELDS})
        return Row(self.seq, text, digest(text))

    @classmethod
    def read(cls, text: str) -> Entry:
        """The entry that a text holds; a text of any other form is refused."""
        fields = json_of(text)
        if not isinstance(fields, dict) or tuple(sorted(fields)) != FIELDS:
            raise ValueError("not an entry")
        if datetime.fromisoformat(fields["at"]).tzinfo is None or type(fields["seq"]) is not int:
            raise ValueError("not an entry")
        return cls(**fields)


@dataclass(frozen=True)
class Damage:
    """What is wrong with an entry, and where."""

    seq: int
    what: str

    def __str__(self) -> str:
        return f"entry {self.seq}: {self.what}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {"entry": self.seq, "what": self.what}


def damages(rows: Sequence[Row], *, after: int = 0, previous: str = START) -> list[Damage]:
    """Everything that is wrong with a chain of rows: changed, re-ordered, repeated or removed entries, and where.

    >>> one = Entry(1, START, "2026-01-01T12:00:00+00:00", "ann", "made", "0", {}).row()
    >>> two = Entry(2, one.hash, "2026-01-01T12:00:00+00:00", "ann", "closed", "0", {}).row()
    >>> [str(each) for each in damages([one, Row(2, two.text.replace("ann", "bob"), two.hash)])]
    ['entry 2: its text was changed']
    >>> damages([one, two])
    []
    """
    return read_chain(rows, after=after, previous=previous)[1]


def read_chain(rows: Sequence[Row], *, after: int = 0, previous: str = START) -> tuple[list[Entry], list[Damage]]:
    """The entries of a chain, as far as they can be read, and everything that is wrong with it."""
    entries: list[Entry] = []
    found: list[Damage] = []
    first_at: dict[str, int] = {}
    expected = after
    for row in rows:
        expected += 1
        if row.seq > expected:
            gone = str(expected) if row.seq == expected + 1 else f"{expected} to {row.seq - 1}"
            found.append(Damage(expected, f"missing: {gone} was removed"))
            expected = row.seq
        read = _read(row, previous, first_at)
        if isinstance(read, Entry):
            entries.append(read)
        else:
            found.append(Damage(row.seq, read))
        first_at.setdefault(row.hash, row.seq)
        # The next link is compared with what this row should be, so one change is one finding.
        previous = row.hash
    return entries, found


def _read(row: Row, previous: str, first_at: dict[str, int]) -> Entry | str:
    """The entry of a row, or what is wrong with it."""
    if row.hash in first_at:
        return f"a copy of entry {first_at[row.hash]}"
    try:
        entry = Entry.read(row.text)
        canonical_text = entry.row().text
    except (ValueError, TypeError):
        return "its text was changed: it is not an entry"
    if digest(row.text) != row.hash:
        return "its text was changed" if entry.seq == row.seq else "its text and its place were changed"
    if entry.seq != row.seq:
        return f"out of order: it was written as entry {entry.seq}"
    if canonical_text != row.text:
        return "its text was changed: it is not in canonical form"
    if entry.previous != previous:
        return "it does not follow the entry before it: one of the two was replaced, or one between them removed"
    return entry
