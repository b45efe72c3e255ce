"""Samples on record: their files, and the keys they were drawn with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import LedgerDisagrees
from .books import SampleBook, SurveyBook
from .entry import digest


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

    def body(self, survey: str) -> dict[str, Any]:
        """What the chain says of it: not where its file is, and of the key of the file only its hash."""
        known = {"commitment": self.commitment, "key_commitment": self.key_commitment, "start": self.start}
        if self.key is not None:
            known["key_hash"] = digest(self.key)
        found = {name: value for name, value in known.items() if value is not None}
        return {"sample": self.id, "survey": survey, "state": "sealed" if self.path else "drawn"} | found


def with_file(sample: SampleBook, file: tuple[str, str] | None, folder: str | None) -> SealedSample:
    """A sealed sample with the path and the key of its file, which must be those that were sealed.

    `folder` is where the ledger lies: a sample that was moved together with its ledger is found there.
    """
    if file is None or digest(file[1]) != sample.key_hash:
        raise LedgerDisagrees(
            "the ledger no longer knows the file of this sample",
            because="its path or the key of its hash was changed or removed",
            hint="draw a new sample: new=True (--new-sample); what was spent stays spent",
        )
    path, key = file
    return SealedSample(sample.id, _moved(path, folder), key, sample.commitment, sample.key_commitment, sample.start)


def _moved(path: str, folder: str | None) -> str:
    """Where a file is that was somewhere else when it was sealed; whoever reads it compares its hash."""
    if folder is None or os.path.exists(path):
        return path
    parts = os.path.abspath(path).strip(os.sep).split(os.sep)
    tried = (os.path.join(folder, *parts[-length:]) for length in range(1, len(parts) + 1))
    return next((each for each in tried if os.path.exists(each)), path)


def refuse_second_draw(survey: SurveyBook | None, key_commitment: str | None, *, new: bool) -> None:
    """Refuse to draw a sealed survey again, unless a new sample is asked for that is independent of the others.

    A budget with a delta covers one sample. Once one is charged, another could never be, and as the newest it would stand
    before the first, whose budget could no longer be spent either.
    """
    drawn = list(survey.samples.values()) if survey else []
    if survey is not None and any(each.running() for each in drawn) and survey.terms.budget.delta > 0.0:
        raise LedgerDisagrees(
            "a budget with delta covers one sample, and one of this survey is charged already",
            because="nothing could be released from a second one",
            hint="release from the first; for other units open a survey with a name and a budget of its own",
        )
    if any(each.state == "sealed" for each in drawn) and not new:
        raise LedgerDisagrees(
            "a sample of this survey is sealed already",
            hint="release from it, or draw an independent one with new=True (--new-sample)",
        )
    if key_commitment is not None and any(each.key_commitment == key_commitment for each in drawn):
        raise LedgerDisagrees(
            "this key has drawn a sample of this survey already",
            because="samples that share a key depend on each other, and a survey adds up its samples as independent ones",
            hint="a new key; or, for the waves of a panel, a survey with a name of its own for each wave",
        )


def in_words(sample: SampleBook) -> dict[str, Any]:
    """A sample on record, JSON-ready."""
    names = ("id", "survey", "state", "drawn_at", "key_commitment", "start")
    return {name: getattr(sample, name) for name in names}


def by_shared_key(found: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The samples of each key that has drawn more than one."""
    by_key: dict[str, list[dict[str, Any]]] = {}
    for sample in found:
        if sample["key_commitment"]:
            by_key.setdefault(sample["key_commitment"], []).append(sample)
    return {key: several for key, several in by_key.items() if len(several) > 1}
