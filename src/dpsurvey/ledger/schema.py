"""The tables of a ledger. Rows are added, and a reservation becomes a commitment; nothing is ever removed."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Integer, MetaData, String, Table

VERSION = 2
metadata = MetaData()

about = Table("about", metadata, Column("key", String, primary_key=True), Column("value", String, nullable=False))

surveys = Table(
    "surveys",
    metadata,
    Column("name", String, primary_key=True),
    Column("terms", String, nullable=False),
    Column("epsilon", Float, nullable=False),
    Column("delta", Float, nullable=False),
    Column("opened_at", String, nullable=False),
)

samples = Table(
    "samples",
    metadata,
    Column("id", String, primary_key=True),
    Column("survey", String, ForeignKey("surveys.name"), nullable=False),
    Column("state", String, nullable=False),
    Column("path", String),
    Column("key", String),
    Column("commitment", String),
    Column("drawn_at", String, nullable=False),
    # A draw by permanent random numbers: which key, by its commitment, and where its numbers started.
    Column("key_commitment", String),
    Column("start", Float),
)

# What a ledger of an earlier version lacks, by the version that brought it.
UPGRADES = {2: ("ALTER TABLE samples ADD COLUMN key_commitment VARCHAR", "ALTER TABLE samples ADD COLUMN start FLOAT")}

charges = Table(
    "charges",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("release", String, nullable=False),
    Column("survey", String, ForeignKey("surveys.name"), nullable=False),
    Column("sample", String, ForeignKey("samples.id"), nullable=False),
    Column("state", String, nullable=False),
    Column("profile", String, nullable=False),
    Column("asked", String, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("software", String, nullable=False),
    Column("reserved_at", String, nullable=False),
    Column("committed_at", String),
    Column("release_hash", String),
)

checks = Table("checks", metadata, Column("fingerprint", String, primary_key=True), Column("checked_at", String, nullable=False))
