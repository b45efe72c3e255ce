"""Verifying: is the chain whole, and is it the one that releases, anchors, exports and signatures saw?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import BadValue, LedgerBroken, NotFound, SurveyError
from ..text.reading import json_of
from .address import SERVERS, Address
from .anchor import anchor_address, anchor_at
from .books import Books
from .documents import CHANGED, committed_as, read_document
from .entry import START, Damage, Entry, Row, damages
from .file import is_database, read_beside
from .schema import VERSION
from .signature import is_signed, read_public_key
from .store import Store

FORMAT = "dpsurvey ledger export 1"


@dataclass
class Verified:
    """What a verification found; `ok` is true where nothing is wrong."""

    place: str
    id: str = ""
    count: int = 0
    head: str = START
    damages: list[Damage] = field(default_factory=list)
    against: list[dict[str, Any]] = field(default_factory=list)
    signatures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damages and all(each["ok"] for each in (*self.against, *self.signatures))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        found = {"ok": self.ok, "ledger": self.id, "count": self.count, "head": self.head}
        lists = {"damages": [each.to_dict() for each in self.damages], "against": self.against, "signatures": self.signatures}
        return found | lists

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.count} entries, {'whole' if not self.damages else 'damaged'}", f"head {self.head}"]
        lines += [f"  {each}" for each in self.damages]
        for each in (*self.against, *self.signatures):
            lines.append(f"{'agrees with' if each['ok'] else 'DISAGREES with'} {each['with']}: {each['what']}")
        return "\n".join(lines)


def verify_ledger(
    place: str | os.PathLike[str],
    against: Sequence[str | os.PathLike[str]] = (),
    public_key: str | os.PathLike[str] | None = None,
) -> Verified:
    """Go through a ledger, or an export of one, entry by entry; changes nothing.

    `against` are releases (release.json), anchors, exports or other ledgers: each must have seen a part of this chain.

    >>> import tempfile, os
    >>> from dpsurvey import Ledger
    >>> path = os.path.join(tempfile.mkdtemp(), "books.ledger")
    >>> Ledger(path).close()
    >>> verify_ledger(path).ok
    True
    """
    found = Verified(str(Address.of(place)))
    rows, missing = _rows_of(place)
    found.damages = [*damages(rows), *missing]
    found.count = len(rows)
    found.head = rows[-1].hash if rows else START
    books = _fold(rows, found)
    found.id = books.id
    by_seq = {row.seq: row.hash for row in rows}
    found.against = [_compared(other, found, by_seq, books) for other in against]
    named = {anchor_address(other) for other in against if not os.path.isdir(other)}
    found.against += [_on_record(place, found, by_seq, books) for place in books.anchors if place not in named]
    trusted = read_public_key(public_key) if public_key is not None else None
    found.signatures = _signatures(rows, found.id, by_seq, trusted) if trusted or books.signed else []
    if trusted and not found.signatures:
        found.signatures = [{"ok": False, "with": "the public key", "what": "nothing was signed with it"}]
    return found


def _fold(rows: Sequence[Row], found: Verified) -> Books:
    """The books as far as the chain is whole; an entry that cannot be understood is damage too."""
    books = Books()
    first = min((each.seq for each in found.damages if each.seq), default=None)
    for row in rows:
        if first is not None and row.seq >= first:
            break
        try:
            books.apply(Entry.read(row.text), row.hash)
        except LedgerBroken as error:
            found.damages.append(Damage(row.seq, error.what))
            break
        except (ValueError, TypeError):
            found.damages.append(Damage(row.seq, "it is not an entry"))
            break
    for survey in books.surveys.values():
        try:
            assert survey.terms
        except LedgerBroken as error:
            found.damages.append(Damage(survey.seq, error.what))
    if not rows or (not books.id and not found.damages):
        found.damages.append(Damage(1, "missing: the first entry was removed"))
    return books


def _rows_of(place: str | os.PathLike[str]) -> tuple[list[Row], list[Damage]]:
    plain = os.fspath(place)
    if not plain.startswith(SERVERS):
        if not os.path.exists(plain):
            raise NotFound(f"there is no ledger {plain!r}")
        if not is_database(plain) and _begins(plain).startswith(b"{"):
            return read_export(plain)
    store = Store(place, must_exist=True, read_only=True)
    try:
        with store.reading() as connection:
            version = store.version(connection)
            if version != str(VERSION):
                raise BadValue(
                    "this ledger is of another version", given=f"version {version}", hint="dpsurvey ledger opens and upgrades it"
                )
            return store.rows_after(connection), []
    finally:
        store.close()


def _begins(plain: str) -> bytes:
    """How a file begins that is not a database."""
    if not os.path.isfile(plain):
        return b""
    with open(plain, "rb") as file:
        return file.read(1000)


def read_export(path: str | os.PathLike[str]) -> tuple[list[Row], list[Damage]]:
    """The rows of an export, and where its first line, which says how many there are and how they end, does not fit them."""
    try:
        *lines, end = read_beside(path).decode("utf-8", "replace").split("\n")
        header = json_of(lines[0])
        if header["format"] != FORMAT:
            raise KeyError
        ledger, count, head = str(header["ledger"]), int(header["count"]), str(header["head"])
        rows = []
        for line in lines[1:]:
            seq, hash, text = line.split(" ", 2)
            rows.append(Row(int(seq), text, hash))
    except (ValueError, KeyError, IndexError, TypeError, OverflowError):
        raise BadValue(
            "this is not a whole export of a ledger", given=os.fspath(path), hint="dpsurvey ledger export writes one"
        ) from None
    last = rows[-1] if rows else Row(0, "", START)
    if last.seq < count:
        gone = str(count) if last.seq == count - 1 else f"{last.seq + 1} to {count}"
        return rows, [Damage(last.seq + 1, f"missing: {gone} was removed")]
    if (last.seq, last.hash) != (count, head) or (rows and f'"ledger":"{ledger}"' not in rows[0].text) or end:
        return rows, [Damage(0, "the first or the last line of the export was changed")]
    return rows, []


def _on_record(place: str, found: Verified, by_seq: dict[int, str], books: Books) -> dict[str, Any]:
    """What an anchor that the ledger itself names has seen of it."""
    try:
        return _compared(place, found, by_seq, books)
    except SurveyError as error:
        return {"with": f"the anchor on record {Address.of(place)}", "ok": False, "what": error.what}


def _compared(other: str | os.PathLike[str], found: Verified, by_seq: dict[int, str], books: Books) -> dict[str, Any]:
    plain = os.fspath(other)
    seen, kind, changed = _seen_by(plain, found.id, books)
    name = f"{kind} {Address.of(plain)}"
    if seen is None:
        return {"with": name, "ok": False, "what": "it has never seen this ledger"}
    count, head = seen
    if count > found.count:
        gone = f"it was carried to {books.carried_to}, and went on there" if books.carried_to else "cut or rolled back"
        what = f"it has seen entry {count}, and the ledger ends at {found.count}: {gone}"
    elif by_seq.get(count) != head:
        what = f"entry {count} is another one: the ledger was rolled back or replaced"
    elif changed:
        what = changed
    else:
        return {"with": name, "ok": True, "what": f"up to entry {count}"}
    return {"with": name, "ok": False, "what": what}


def _seen_by(plain: str, ledger: str, books: Books) -> tuple[tuple[int, str] | None, str, str]:
    """How far something else has seen this ledger, what it is, and what is wrong with it."""
    if not plain.startswith(SERVERS):
        if not os.path.exists(plain):
            raise NotFound(f"there is no file {plain!r}")
        if is_database(plain):
            return _end_of(_rows_of(plain)[0], ledger), "the ledger", ""
        if f'"{FORMAT}"'.encode() in _begins(plain).split(b"\n", 1)[0]:
            return _end_of(read_export(plain)[0], ledger), "the export", ""
        try:
            document, respelt = read_document(read_beside(plain).decode("utf-8"))
            stamp = document["ledger"]
            if isinstance(stamp, dict) and isinstance(stamp["count"], int):
                seen = (stamp["count"], stamp["head"]) if stamp["id"] == ledger else None
                return seen, "the release", respelt or ("" if committed_as(document, books) else CHANGED)
        except (ValueError, KeyError, TypeError):
            pass
    anchor = anchor_at(anchor_address(plain))
    last = anchor.last(ledger)
    if last is None and not anchor.knows_any():
        raise BadValue("this is neither a release, an anchor, an export nor a ledger", given=str(Address.of(plain)))
    return ((last.count, last.head) if last else None), "the anchor", ""


def _end_of(rows: Sequence[Row], ledger: str) -> tuple[int, str] | None:
    """The last entry of another copy of the same ledger."""
    try:
        same = Entry.read(rows[0].text).body["ledger"] == ledger
    except (IndexError, ValueError, KeyError, TypeError):
        return None
    return (rows[-1].seq, rows[-1].hash) if same else None


def _signatures(rows: Sequence[Row], ledger: str, by_seq: dict[int, str], trusted: str | None) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        if '"kind":"signed"' not in row.text:
            continue
        try:
            entry = Entry.read(row.text)
            body = {name: entry.body[name] for name in ("key", "count", "head", "signature")}
        except (ValueError, KeyError, TypeError):
            # Damage, and reported as such.
            continue
        if entry.kind != "signed" or trusted not in (None, body["key"]):
            continue
        stamp = {"id": ledger, "count": body["count"], "head": body["head"]}
        ok = by_seq.get(body["count"]) == body["head"] and is_signed(stamp, body["signature"], body["key"])
        what = f"entries up to {body['count']}" if ok else f"the signature in entry {row.seq} does not fit"
        found.append({"ok": ok, "with": f"the signature of {body['key'][:16]}", "what": what})
    return found
