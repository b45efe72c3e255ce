"""Transfer: export a ledger, move it to another file or server, or take another ledger in. Nothing is lost or counted twice."""

from __future__ import annotations

import json
import os
from typing import Any

from sqlalchemy import URL, insert

from ..errors import LedgerBroken, LedgerDisagrees
from ..text.reading import json_of
from ..text.writing import check_place, write_file
from .books import Books
from .entry import Row, damages
from .journal import Journal
from .migrations import make_tables
from .schema import CHECKS, VERSION, about
from .store import Store
from .verify import FORMAT


def export(journal: Journal, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Write the whole chain to a text file that can be verified anywhere; it holds no keys and no paths of samples."""
    check_place(path)
    with journal.store.reading() as connection:
        journal.catch_up(connection)
        rows = journal.store.rows_after(connection)
    stamp = journal.stamp()
    header = {"format": FORMAT, "ledger": stamp["id"], "count": stamp["count"], "head": stamp["head"]}
    lines = [json.dumps(header), *(f"{row.seq} {row.hash} {row.text}" for row in rows)]
    write_file(path, "\n".join(lines) + "\n")
    return stamp


def carry(journal: Journal, address: str | os.PathLike[str]) -> dict[str, Any]:
    """Move a ledger to a new place. The old one is closed first, so there is never a moment with two that can spend."""
    new = Store(address)
    try:
        to = _place(new)
        if journal.refresh().carried_to not in (None, to):
            raise LedgerDisagrees("this ledger was carried to another place already", given=f"to {journal.books.carried_to}")
        # Asked before this ledger is closed, which is for good.
        _refuse_another(new, journal)
        if journal.books.carried_to is None:
            with journal.writing() as pen:
                pen.write("carried", {"to": to})
        with journal.store.reading() as connection:
            rows, files = journal.store.rows_after(connection), journal.store.all_files(connection)
            documents = journal.store.documents(connection)
        _copy(new, rows, files, documents)
    finally:
        new.close()
    arrived = Journal(address, must_exist=True)
    try:
        if arrived.books.carried_to not in (None, to):
            raise LedgerDisagrees(
                "this ledger arrived, and was carried on from there",
                given=f"to {arrived.books.carried_to}",
                hint="use the ledger there",
            )
        if arrived.books.carried_to is not None:
            with arrived.writing(although_carried=True) as pen:
                pen.write("arrived", {"from": _place(journal.store)})
        return arrived.stamp()
    finally:
        arrived.store.close()


def _place(store: Store) -> str:
    """A place as it is kept on record, whoever goes there: a whole path, or server, database and schema."""
    address = store.address
    if not address.is_server:
        return os.path.abspath(address.path)
    plain = URL.create("postgresql", host=address.url.host, port=address.url.port, database=address.url.database)
    return f"{plain.render_as_string()}#{address.schema}"


def _refuse_another(new: Store, journal: Journal) -> None:
    """Refuse a place that holds anything but the beginning of this ledger."""
    to = str(new.address)
    with new.reading() as connection:
        version = new.version(connection)
        have = new.rows_after(connection) if version == str(VERSION) else []
    if version not in (None, str(VERSION)):
        raise LedgerDisagrees("there is a ledger of another version at that place", given=f"{to}, version {version}")
    with journal.store.reading() as connection:
        rows = journal.store.rows_after(connection)
    if have and have[0] != rows[0]:
        raise LedgerDisagrees("there is another ledger at that place", given=to, hint="dpsurvey ledger merge takes it in")
    ahead = len(have) > len(rows) and journal.books.carried_to is None
    if ahead or have[: len(rows)] != rows[: len(have)]:
        raise _another_past(to)


def _another_past(to: str) -> LedgerDisagrees:
    return LedgerDisagrees(
        "the ledger at that place has another past", given=to, because="it spent what is not on record here", hint="a new place"
    )


def _copy(new: Store, rows: list[Row], files: list[tuple[str, str, str]], documents: dict[str, str]) -> None:
    """Every row, word for word; a copy that was interrupted is made whole."""
    wrong = damages(rows)
    if wrong:
        raise LedgerBroken("the ledger was changed", given=str(wrong[0]), hint="what is damaged is not carried")
    with new.writing() as connection:
        if new.version(connection) is None:
            new.make_schema(connection)
            make_tables(connection, new)
            connection.execute(insert(about).values(key="version", value=str(VERSION)))
        have = new.rows_after(connection)
        if have[: len(rows)] != rows[: len(have)]:
            raise _another_past(str(new.address))
        if len(have) < len(rows):
            new.add(connection, rows[len(have) :])
            known = {sample for sample, _, _ in new.all_files(connection)}
            for sample, path, key in files:
                if sample not in known:
                    # A relative path would point elsewhere from the new place.
                    new.add_file(connection, sample, os.path.abspath(path) if path else "", key)
            new.add_documents(connection, documents)


def merge(journal: Journal, other: str | os.PathLike[str], prefix: str = "") -> dict[str, Any]:
    """Take another ledger in: its surveys, samples, charges and budgets count here from now on, and it is closed."""
    source = Journal(other, must_exist=True)
    try:
        books, to = source.books, _place(journal.store)
        _refuse_merge(journal.refresh(), books, prefix, to)
        # Whether this ledger can be written is asked before the other one is closed.
        with journal.writing():
            pass
        if books.carried_to is None:
            with source.writing() as pen:
                pen.write("carried", {"to": to})
        with source.store.reading() as connection:
            rows, files = source.store.rows_after(connection), source.store.all_files(connection)
            documents = source.store.documents(connection)
        with journal.writing() as pen:
            # Asked again under the lock, now that neither of the two changes any more.
            _refuse_merge(journal.books, source.books, prefix, to)
            for row in rows:
                body = {"entry": json_of(row.text), "prefix": prefix}
                pen.write("brought", body)
            pen.write("merged", {"ledger": books.id, "count": source.books.count, "head": source.books.head})
            for sample, path, key in files:
                # Each ledger makes marks of checked files with a key of its own.
                if sample != CHECKS:
                    journal.store.add_file(pen.connection, sample, os.path.abspath(path), key)
            journal.store.add_documents(pen.connection, documents)
        return journal.stamp()
    finally:
        source.store.close()


def _refuse_merge(here: Books, books: Books, prefix: str, to: str) -> None:
    """Refuse to take in what is here already, or what cannot be told apart from what is here."""
    if books.id == here.id or here.id in books.merged:
        raise LedgerDisagrees("a ledger is not merged with itself, or with a copy of itself")
    twice = [name for name in (books.id, *books.merged) if name in here.merged]
    if twice:
        raise LedgerDisagrees(
            "this ledger was merged already",
            given=f"as entry {here.merged[twice[0]]}",
            because="what it spent would be counted twice",
        )
    if books.carried_to not in (None, to):
        raise LedgerDisagrees("the other ledger was carried elsewhere", given=f"to {books.carried_to}")
    panels = {panel.name for panel in here.panels.values()}
    both = [name for name in books.surveys if prefix + name in here.surveys]
    both += [panel.name for panel in books.panels.values() if prefix + panel.name in panels]
    if both:
        raise LedgerDisagrees(
            "both ledgers have a survey or a panel of the same name",
            given=", ".join(both[:5]),
            hint="--prefix names the surveys that come in, for example --prefix 'south '",
        )
    if not set(books.samples).isdisjoint(here.samples) or not set(books.releases).isdisjoint(here.releases):
        raise LedgerDisagrees("both ledgers have the same sample", because="one of them grew out of a copy of the other")
    _refuse_shared_panel(here, books)


def _refuse_shared_panel(here: Books, other: Books) -> None:
    """The waves of a panel are on record in one ledger, from the start; its loss was computed for these waves alone."""
    for one, two in ((here, other), (other, here)):
        elsewhere = {each.key_commitment for each in two.samples.values()} | set(two.panels)
        shared = [panel.name for key, panel in one.panels.items() if key in elsewhere]
        if shared:
            raise LedgerDisagrees(
                "the key of a panel was used in both ledgers",
                given=f"the panel {shared[0]!r}",
                because="what the panel loses was computed from the waves of one ledger",
                hint="keep the two ledgers apart, and add up what both say",
            )
