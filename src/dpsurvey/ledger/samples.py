"""The samples on record: their files, and the keys they were drawn with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from ..errors import LedgerDisagrees
from .schema import samples


@dataclass(frozen=True)
class SealedSample:
    """A sample on record: its id, the file of drawn units where it was sealed, and the key it was drawn with, if any.

    `key` belongs to the hash of the file; `key_commitment` stands for the key of the permanent random numbers.
    """

    id: str
    path: str | None = None
    key: str | None = field(default=None, repr=False)
    commitment: str | None = field(default=None, repr=False)
    key_commitment: str | None = None
    start: float | None = None


def refuse_second_draw(connection: Connection, survey: str, key_commitment: str | None, *, new: bool) -> None:
    """Refuse to draw a sealed survey again, unless a new sample is asked for that is independent of the others."""
    query = select(samples.c.key_commitment).where(samples.c.survey == survey, samples.c.state == "sealed")
    sealed = list(connection.execute(query).scalars())
    if sealed and not new:
        raise LedgerDisagrees(
            "a sample of this survey is sealed already",
            hint="release from it, or draw an independent one with new=True (--new-sample)",
        )
    if key_commitment is not None and key_commitment in sealed:
        raise LedgerDisagrees(
            "this key has drawn a sample of this survey already",
            because="samples that share a key depend on each other, and a survey adds up its samples as independent ones",
            hint="a new key; or, for the waves of a panel, a survey with a name of its own for each wave",
        )


def add_sample(connection: Connection, survey: str, sample: SealedSample) -> None:
    """Write a sample on record."""
    state = "sealed" if sample.path else "drawn"
    fields: dict[str, Any] = {"path": sample.path, "key": sample.key, "commitment": sample.commitment}
    fields |= {"key_commitment": sample.key_commitment, "start": sample.start}
    connection.execute(insert(samples).values(id=sample.id, survey=survey, state=state, drawn_at=now(), **fields))


def by_shared_key(found: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The samples of each key that has drawn more than one."""
    by_key: dict[str, list[dict[str, Any]]] = {}
    for sample in found:
        if sample["key_commitment"]:
            by_key.setdefault(sample["key_commitment"], []).append(sample)
    return {key: several for key, several in by_key.items() if len(several) > 1}


def now() -> str:
    """The time, as it is written on record."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
