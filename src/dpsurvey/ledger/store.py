"""Stores: where entries are kept. A SQLite file for one machine, PostgreSQL for a team; the same tables in both."""

from __future__ import annotations

import getpass
import os
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, LargeBinary, cast, create_engine, event, func, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from ..errors import LedgerBroken, LedgerUnavailable, NotFound, Refusal, UsageError
from .address import Address
from .entry import Row
from .file import engine_to_read, engine_to_write, folder_of, log_of, log_was_lost, may_write
from .locks import lock_trouble
from .schema import CHECKS, about, documents, entries, files

HEXADECIMAL = re.compile("[0-9a-f]{64}")
# The code of PostgreSQL for an insufficient privilege.
NOT_ALLOWED = "42501"
LATER = "keep it as it is; go on from a copy that dpsurvey ledger verify finds whole"
STAYS = "what had reached the ledger stays spent; dpsurvey ledger shows it"


class Store:
    """Rows that are added and read, one writer at a time, on SQLite or PostgreSQL."""

    def __init__(self, address: str | os.PathLike[str], *, must_exist: bool = False, read_only: bool = False) -> None:
        self.address, self._must_exist, self._read_only = Address.of(address), must_exist, read_only
        self._engine = self._server() if self.address.is_server else self._file()
        # A ledger that could not be opened has nobody who closes it.
        weakref.finalize(self, self._engine.dispose)

    def _server(self) -> Engine:
        # Tables are named with their schema: one that a role does not see would look as if it were not there.
        named = {"schema_translate_map": {None: self.address.schema}}
        engine = create_engine(self.address.url, pool_pre_ping=True, pool_size=1, execution_options=named)
        event.listen(engine, "connect", partial(_choose_schema, self.address.schema))
        return engine

    def _file(self) -> Engine:
        if not self.address.path or self.address.path == ":memory:":
            raise UsageError(
                "a ledger is a file or a PostgreSQL address",
                given=repr(self.address.path),
                because="what was spent must outlive the process",
            )
        if self._must_exist and not os.path.exists(self.address.path):
            raise self._none_there()
        path = self.address.path
        # A ledger that cannot be written can still be shown.
        for_reading = self._read_only or not may_write(path)
        engine = engine_to_read(path) if for_reading else engine_to_write(path, may_make=not self._must_exist)
        event.listen(engine, "begin", _begin)
        return engine

    def _none_there(self) -> NotFound:
        return NotFound(f"there is no ledger {str(self.address)!r}")

    def close(self) -> None:
        """Let go of the file or the connection."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view; others go on writing."""
        # A file is read as it is at the first look; a server has to be asked for that.
        options = {"isolation_level": "REPEATABLE READ"} if self.address.is_server else {}
        with self._told("read"), self._engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The only writer, from before anything is read until all is durable; an exception undoes everything."""
        with self._told("written"), self._engine.connect().execution_options(writing=True) as connection, connection.begin():
            if self.address.is_server:
                # The lock is taken before the totals are read, so two processes cannot both see the same money.
                name = f"dpsurvey ledger {self.address.schema}"
                connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
            log = connection.info.get("log")
            yield connection
        # Durable now, unless it went to a log that is not the ledger's any more.
        if log is not None and log != log_of(self.address.path):
            raise log_was_lost(self.address.path)

    @contextmanager
    def _told(self, verb: str) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise LedgerUnavailable("another program wrote to the ledger at the same moment", hint="try again") from None
        except (DBAPIError, SQLAlchemyError) as error:
            raise self._explained(error, verb) from None
        except UnicodeDecodeError:
            # A damaged file, of which SQLite itself had something to say that is not text.
            raise self._damaged() from None

    def _explained(self, error: SQLAlchemyError, verb: str) -> UsageError | Refusal:
        """What a failing store means for whoever called; never what the store itself said, which may hold a password."""
        orig, given = getattr(error, "orig", error), str(self.address)
        said, state = str(orig).lower(), getattr(orig, "sqlstate", None)
        stays = STAYS if verb == "written" else ""
        if "readonly" in said or "read-only" in said:
            return UsageError(
                "the ledger cannot be written", because="it is read-only", given=given, hint="file and folder must be writable"
            )
        if state == NOT_ALLOWED:
            return self._not_allowed()
        if "malformed" in said or "corrupt" in said:
            return self._damaged()
        if "full" in said or "i/o error" in said or "too large" in said:
            return LedgerUnavailable("the disk of the ledger is full or failed", given=given, because=stays)
        if "locked" in said or "locking" in said or "timeout" in said:
            # SQLite takes a file system that gives no locks any more for another process that holds them.
            busy = LedgerUnavailable("the ledger is busy", given=given, hint="another process is writing; try again")
            return self._no_locks() or busy
        if self.address.is_server and getattr(error, "connection_invalidated", False):
            return LedgerUnavailable("the connection to the ledger was lost", given=given, because=stays, hint="try again")
        if self.address.is_server and ("connect" in said or "terminat" in said or "closed" in said):
            return LedgerUnavailable(
                "the ledger cannot be reached", given=given, because=stays, hint="is the server up, and the address right?"
            )
        if "entries are added" in said:
            return LedgerUnavailable("the database refused an entry that does not continue the chain", given=given)
        if not self.address.is_server and os.path.exists(self.address.path) and not os.access(self.address.path, os.R_OK):
            because, hint = "this user may not read the file", "ask whoever keeps the ledger, or see its permissions"
            return UsageError("the ledger cannot be opened", because=because, given=given, hint=hint)
        hint = "a PostgreSQL address, or a ledger file in a folder that can be written"
        if "not a database" in said:
            hint = "this file is not a ledger; an export is read by dpsurvey ledger verify. " + hint
        return UsageError(f"the ledger cannot be {'opened' if verb == 'read' else verb}", given=given, hint=hint)

    def _damaged(self) -> LedgerBroken:
        return LedgerBroken("the file of the ledger is damaged", given=str(self.address), hint=LATER)

    def _no_locks(self) -> LedgerUnavailable | None:
        with suppress(OSError):
            return None if self.address.is_server else lock_trouble(folder_of(self.address.path))
        return None

    def _not_allowed(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            "your role does not allow this",
            because="the database decides who may open a survey, who may spend, and who may only read",
            given=str(self.address),
            hint="ask the owner of the ledger: dpsurvey ledger roles",
        )

    def tables(self, connection: Connection) -> set[str]:
        """The names of the tables that are there."""
        return set(inspect(connection).get_table_names())

    def make_schema(self, connection: Connection) -> None:
        """The schema of a server's ledger, if it is not there yet."""
        if self.address.is_server:
            connection.execute(text(f'create schema if not exists "{self.address.schema}"'))

    def version(self, connection: Connection) -> str | None:
        """The version of the tables, None where there are none; tables of something else are left as they are."""
        found = self.tables(connection)
        if not found and self._hidden(connection):
            raise self._not_allowed()
        if not found and self._must_exist:
            raise self._none_there()
        if not found:
            return None
        if about.name not in found:
            raise UsageError(
                "this file is a database of something else",
                given=str(self.address),
                hint="name another file for the ledger, or another schema: postgresql://host/base#schema",
            )
        return connection.execute(select(about.c.value).where(about.c.key == "version")).scalar()

    def _hidden(self, connection: Connection) -> bool:
        """Whether there is a schema that this role does not see into."""
        sees = text("select has_schema_privilege(oid, 'usage') from pg_namespace where nspname = :schema")
        return self.address.is_server and connection.execute(sees, {"schema": self.address.schema}).scalar() is False

    def who(self, connection: Connection) -> str:
        """The name that the database, or the operating system, knows the writer by."""
        if self.address.is_server:
            return str(connection.execute(text("select session_user")).scalar())
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"

    def rows_after(self, connection: Connection, seq: int = 0) -> list[Row]:
        """Every row behind a number, in order."""
        # Text that is not even UTF-8 any more must be found as damage, not as a failure to read.
        as_bytes = self.address.is_server is False
        columns = [cast(column, LargeBinary) if as_bytes else column for column in (entries.c.text, entries.c.hash)]
        found = connection.execute(select(entries.c.seq, *columns).where(entries.c.seq > seq).order_by(entries.c.seq))
        if as_bytes:
            return [Row(number, _decoded(line), _decoded(hash)) for number, line, hash in found]
        return [Row(*row) for row in found]

    def hash_at(self, connection: Connection, seq: int) -> str | None:
        """The hash of one row."""
        return connection.execute(select(entries.c.hash).where(entries.c.seq == seq)).scalar()

    def end(self, connection: Connection) -> int:
        """The number of the last row."""
        return connection.execute(select(func.max(entries.c.seq))).scalar() or 0

    def add(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Add rows at the end."""
        if rows:
            connection.execute(insert(entries), [{"seq": row.seq, "text": row.text, "hash": row.hash} for row in rows])

    def add_file(self, connection: Connection, sample: str, path: str, key: str) -> None:
        """Remember where the file of a sealed sample is, and the key of its hash."""
        connection.execute(insert(files).values(sample=sample, path=path, key=key))

    def file_of(self, connection: Connection, sample: str) -> tuple[str, str] | None:
        """Path and key of the file of a sealed sample."""
        row = connection.execute(select(files.c.path, files.c.key).where(files.c.sample == sample)).first()
        return (row.path, row.key) if row else None

    def check_key(self, connection: Connection) -> str | None:
        """The key that marks of checked files are made with; kept where keys of samples are, and not in the chain."""
        key = connection.execute(select(files.c.key).where(files.c.sample == CHECKS)).scalar()
        if key is not None and not HEXADECIMAL.fullmatch(str(key)):
            raise self._damaged()
        return key

    def keep_documents(self, connection: Connection) -> None:
        """Make sure that what is published can be kept here, before anything is spent for it."""
        if documents.name not in self.tables(connection):
            documents.create(connection)
        if self.address.is_server:
            table = f'"{self.address.schema}".{documents.name}'
            allowed = text("select has_table_privilege(:table, 'insert') and has_table_privilege(:table, 'select')")
            if not connection.execute(allowed, {"table": table}).scalar():
                raise self._not_allowed()

    def add_documents(self, connection: Connection, found: Mapping[str, str]) -> None:
        """Keep what was published by releases, unless it is kept already."""
        if found:
            self.keep_documents(connection)
            new = set(found) - set(self.documents(connection))
            if new:
                connection.execute(insert(documents), [{"release": name, "text": found[name]} for name in sorted(new)])

    def documents(self, connection: Connection, release: str | None = None) -> dict[str, str]:
        """What was published, by release; of one release, or of all."""
        if documents.name not in self.tables(connection):
            return {}
        asked = select(documents.c.release, documents.c.text)
        asked = asked if release is None else asked.where(documents.c.release == release)
        return {row.release: row.text for row in connection.execute(asked)}

    def all_files(self, connection: Connection) -> list[tuple[str, str, str]]:
        """Sample, path and key of every sealed sample."""
        return [tuple(row) for row in connection.execute(select(files.c.sample, files.c.path, files.c.key))]


def _decoded(raw: Any) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)


def _choose_schema(schema: str, connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f'set search_path to "{schema}"')
    connection.commit()


def _begin(connection: Connection) -> None:
    # The lock is taken before the totals are read, so two processes cannot both see the same money.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writing") else "BEGIN")
