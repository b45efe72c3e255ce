"""Migrations: ledgers of earlier versions become chains of entries; nothing on record is lost, and times stay as they were."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, text, update

from ..errors import LedgerBroken
from ..text.reading import json_of
from .books import Books
from .entry import digest
from .roles import guard_chain
from .schema import VERSION, about, metadata
from .store import Store

if TYPE_CHECKING:
    from .journal import Pen

NOT_RECORDED = "(not recorded)"

# Added in version 2.
TO_VERSION_2 = ("ALTER TABLE samples ADD COLUMN key_commitment VARCHAR", "ALTER TABLE samples ADD COLUMN start FLOAT")

# A file can be edited by whoever may write it; these stop accidents, and the chain shows the rest.
_REFUSED = "BEGIN SELECT RAISE(ABORT, 'entries are added, never changed'); END"
APPEND_ONLY = (
    f"CREATE TRIGGER no_update BEFORE UPDATE ON entries {_REFUSED}",
    f"CREATE TRIGGER no_delete BEFORE DELETE ON entries {_REFUSED}",
    # What replaces a row deletes it without asking the trigger above.
    f"CREATE TRIGGER no_replace BEFORE INSERT ON entries WHEN NEW.seq <= (SELECT max(seq) FROM entries) {_REFUSED}",
)


def make_tables(connection: Connection, store: Store) -> None:
    """The tables of a new ledger, in which entries cannot be changed by accident."""
    metadata.create_all(connection)
    if store.address.is_server:
        guard_chain(connection, store.address.schema)
        return
    for statement in APPEND_ONLY:
        connection.exec_driver_sql(statement)


class Event(NamedTuple):
    """Something an earlier ledger has on record, and when it happened; `after` is not before what it rests on."""

    at: str
    after: str
    order: int
    kind: str
    body: dict[str, Any]


def migrate(connection: Connection, found: int, pen: Pen, store: Store) -> None:
    """Write the tables of version 1 or 2 as entries, in the order in which things happened."""
    if found == 1:
        for statement in TO_VERSION_2:
            connection.exec_driver_sql(statement)
    try:
        events = [*_surveys(connection), *_samples(connection), *_charges(connection), *_checks(connection)]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LedgerBroken(
            "a ledger of an earlier version cannot be read", given=f"version {found}", hint="it was left as it is"
        ) from None
    files = connection.execute(text("SELECT id, path, key FROM samples WHERE path IS NOT NULL")).all()
    for table in ("charges", "checks", "samples", "surveys"):
        connection.exec_driver_sql(f"DROP TABLE {table}")
    make_tables(connection, store)
    events.sort(key=lambda event: (event.after, event.order))
    pen.write("made", {"ledger": uuid.uuid4().hex}, at=events[0].at if events else "")
    for event in events:
        pen.write(event.kind, event.body, at=event.at, by=NOT_RECORDED)
    for sample, path, key in files:
        store.add_file(connection, sample, path, key)
    pen.write("migrated", {"from": found, "to": VERSION})
    # Nothing is kept that could not be opened again.
    scratch = Books()
    for entry, row in pen.written:
        scratch.apply(entry, row.hash)
    connection.execute(update(about).where(about.c.key == "version").values(value=str(VERSION)))


def _rows(connection: Connection, query: str) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(text(query)).mappings()]


def _surveys(connection: Connection) -> list[Event]:
    rows = _rows(connection, "SELECT terms, opened_at FROM surveys")
    return [Event(row["opened_at"], row["opened_at"], 0, "opened", {"terms": json_of(row["terms"])}) for row in rows]


def _samples(connection: Connection) -> list[Event]:
    opened = {row["name"]: row["opened_at"] for row in _rows(connection, "SELECT name, opened_at FROM surveys")}
    found = []
    for row in _rows(connection, "SELECT * FROM samples"):
        body = {"sample": row["id"], "survey": row["survey"], "state": row["state"]}
        known = {name: row[name] for name in ("commitment", "key_commitment", "start") if row[name] is not None}
        if row["key"] is not None:
            known["key_hash"] = digest(row["key"])
        found.append(Event(row["drawn_at"], max(row["drawn_at"], opened[row["survey"]]), 1, "sample", body | known))
    return found


def _charges(connection: Connection) -> list[Event]:
    """One reservation for each release, and its commitment where it was published."""
    drawn = {event.body["sample"]: event.after for event in _samples(connection)}
    by_release: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(connection, "SELECT * FROM charges ORDER BY id"):
        by_release.setdefault(row["release"], []).append(row)
    found = []
    for release, rows in by_release.items():
        first = rows[0]
        charges = [{"profile": json_of(row["profile"]), "asked": json_of(row["asked"])} for row in rows]
        body = {"release": release, "charges": charges, "software": first["software"]}
        body |= {name: first[name] for name in ("survey", "sample", "fingerprint")}
        after = max(first["reserved_at"], drawn[first["sample"]])
        found.append(Event(first["reserved_at"], after, 2, "reserved", body))
        if first["state"] == "committed":
            at = first["committed_at"] or first["reserved_at"]
            committed = {"release": release, "release_hash": first["release_hash"]}
            found.append(Event(at, max(at, after), 3, "committed", committed))
    return found


def _checks(connection: Connection) -> list[Event]:
    rows = _rows(connection, "SELECT fingerprint, checked_at FROM checks")
    return [Event(row["checked_at"], row["checked_at"], 4, "checked", {"fingerprint": row["fingerprint"]}) for row in rows]
