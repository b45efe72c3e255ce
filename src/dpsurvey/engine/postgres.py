"""Frames that live in PostgreSQL, whose driver is imported when it is asked for."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import unquote, urlsplit

import ibis
from ibis.expr.types import Table

from ..errors import BadValue, NotFound, close_name, missing_extra


def open_postgres(address: str) -> Table:
    """A table of a PostgreSQL server: postgresql://user@host/database#table, or #schema.table."""
    place, _, name = address.partition("#")
    if not name:
        raise BadValue("say which table of the server is meant", hint="add #table or #schema.table to the address")
    if not hasattr(ibis, "postgres"):
        raise missing_extra("postgres")
    schema, _, table = name.rpartition(".")
    failed = ""
    try:
        server = ibis.postgres.connect(**_parts(place))
        found = server.list_tables(database=schema or None)
    except ImportError:
        raise missing_extra("postgres") from None
    except Exception as error:
        failed = type(error).__name__
    if failed:
        # The server's own words may hold the address and more; only their kind gets out.
        raise NotFound("the PostgreSQL server did not answer", because=failed, given=place)
    if table not in found:
        server.disconnect()
        raise NotFound(f"the server has no table {name!r}", hint=close_name(table, found))
    return server.table(table, database=schema or None)


def _parts(place: str) -> dict[str, Any]:
    parts = urlsplit(place)
    named = {
        "user": unquote(parts.username) if parts.username else None,
        "host": parts.hostname,
        "port": parts.port,
        "database": parts.path.lstrip("/") or None,
    }
    return {name: value for name, value in named.items() if value is not None} | {"password": os.environ.get("PGPASSWORD")}
