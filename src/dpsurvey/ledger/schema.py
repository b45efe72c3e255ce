"""The tables of a ledger: entries are added, and never changed or removed. One schema for every store."""

from __future__ import annotations

from sqlalchemy import Column, Integer, MetaData, String, Table, Text

VERSION = 3
metadata = MetaData()

# The form of the tables; what a ledger says is in its entries alone.
about = Table("about", metadata, Column("key", String, primary_key=True), Column("value", String, nullable=False))

entries = Table(
    "entries",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("hash", String, nullable=False, unique=True),
)

# What was published, word for word, so that it can be written again: durable at the moment at which it counts as published.
# Its hash is in the chain. Ledgers of 0.8 have no such table until they are written to.
documents = Table("documents", metadata, Column("release", String, primary_key=True), Column("text", Text, nullable=False))

# The one line of the table below that is not a sample: the key of marks of files that passed their check.
CHECKS = "checks"

# Where the file of a sealed sample is, and the key of its hash: not for everyone who may read the books. The chain holds
# the hash of the key.
files = Table(
    "files",
    metadata,
    Column("sample", String, primary_key=True),
    Column("path", String, nullable=False),
    Column("key", String, nullable=False),
)
