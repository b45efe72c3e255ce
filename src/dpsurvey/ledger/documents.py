"""Documents: whether a release.json is word for word what was committed. Its hash covers every value of the document.

The hash in a ledger is the SHA-256 of the whole release.json as canonical JSON: every key, word and number of it, the
noisy sums and the versions of the software too, but not the spaces between them. A number that is written in another way, or a
key that stands twice, would have the same hash and another look, so both are refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..text.reading import json_of
from .books import Books

CHANGED = "its figures, or something else in it, are not what was committed"


class _Respelt(ValueError):
    """A document whose hash says nothing about how it looks."""


def read_document(text: str) -> tuple[Any, str]:
    """A JSON document, and why its hash does not vouch for its text; empty where it does.

    >>> read_document('{"estimate": 0.5}')
    ({'estimate': 0.5}, '')
    >>> read_document('{"estimate": 0.50}')[1]
    'a number is written as 0.50, which is not how a release writes it'
    """
    try:
        return json_of(text, pairs=_once_each, floats=_as_written(float), whole=_as_written(int)), ""
    except _Respelt as error:
        return json_of(text), str(error)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, _ in pairs if [each for each, _ in pairs].count(key) > 1)
        raise _Respelt(f"the key {twice!r} stands twice")
    return found


def _as_written(kind: type[float] | type[int]) -> Any:
    def read(written: str) -> float | int:
        number = kind(written)
        if json.dumps(number) != written:
            raise _Respelt(f"a number is written as {written[:40]}, which is not how a release writes it")
        return number

    return read


def document_hash(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a document.

    >>> document_hash({"a": 1, "b": 2}) == document_hash({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def committed_as(document: Mapping[str, Any], books: Books) -> int | None:
    """The entry that committed exactly this document."""
    wanted = document_hash(document)
    commits = (release.committed for release in books.releases.values() if release.committed is not None)
    return next((entry.seq for entry in commits if entry.body.get("release_hash") == wanted), None)
