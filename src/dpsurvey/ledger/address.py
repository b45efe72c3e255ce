"""Addresses of ledgers: a path, or postgresql://user@host/base#schema. A password is used and never shown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from ..errors import BadValue, NotFound

SCHEMA = "dpsurvey"
SERVERS = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class Address:
    """Where a ledger is kept.

    >>> str(Address.of("postgresql://ann:pw@db/books#lfs")), str(Address.of("lfs.ledger"))
    ('postgresql://ann:***@db/books#lfs', 'lfs.ledger')
    """

    path: str = ""
    server: URL | None = field(default=None, repr=False)
    schema: str = ""

    @classmethod
    def of(cls, written: str | os.PathLike[str]) -> Address:
        """The address that somebody wrote."""
        plain = os.fspath(written)
        if "\0" in plain:
            raise BadValue("this is not a path or a PostgreSQL address", hint="postgresql://user@host/base#schema")
        if not plain.startswith(SERVERS):
            if "://" in plain:
                # Not shown: it may hold a password.
                raise BadValue("this is not a path or a PostgreSQL address", hint="postgresql://user@host/base#schema")
            return cls(plain)
        base, _, schema = plain.partition("#")
        if schema and not (schema.isascii() and schema.isidentifier() and schema == schema.lower() and len(schema) <= 40):
            # What follows a # may be the rest of a password.
            raise BadValue("a schema is a name of small letters, digits and _", hint="in a password, # is written as %23")
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise NotFound("a ledger on PostgreSQL needs psycopg", hint="pip install 'dpsurvey[postgres]'") from None
        try:
            url = make_url(base).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError):
            # The address itself may hold a password.
            raise BadValue("this is not a PostgreSQL address", hint="postgresql://user@host/base#schema") from None
        return cls("", url, schema or SCHEMA)

    @property
    def is_server(self) -> bool:
        """Whether it is a server, not a file."""
        return self.server is not None

    @property
    def url(self) -> URL:
        """The address of the server, with its password."""
        assert self.server is not None
        return self.server

    @property
    def holds_password(self) -> bool:
        """Whether a password is written in it, in either of the places where it can be."""
        return self.server is not None and (self.server.password is not None or bool(self._secrets))

    @property
    def _secrets(self) -> list[str]:
        return [name for name in self.server.query if "password" in name.lower()] if self.server is not None else []

    def __str__(self) -> str:
        if self.server is None:
            return self.path
        shown = self.server.set(drivername="postgresql").update_query_dict(dict.fromkeys(self._secrets, "***"))
        return shown.render_as_string(hide_password=True) + f"#{self.schema}"
