"""The sealed sample on disk: a Parquet file of drawn units and a manifest beside it. Both whole, or neither.

The file holds unit, stratum, psu, pi, weight (and ssu after two stages of clusters), is readable by its owner alone,
and is the secret that the guarantee rests on. The manifest holds nothing that depends on who was drawn: counts only
where the design fixes them, and a hash that cannot be checked against a guess without the ledger.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Callable
from typing import Any

from ..errors import BadData, BadValue, LedgerDisagrees, NotFound, NotWritten
from ..text.writing import check_place, explained, flush, give_name, is_open_to_others, private_folder, write_file

NEVER = "choose another name; a sample is never overwritten"


def sample_target(path: str | os.PathLike[str]) -> str:
    """Where a sample is to be written, as a full path; refuses what cannot be, before anything is drawn."""
    target = os.path.abspath(os.fspath(path))
    if not target.endswith(".parquet"):
        raise BadValue("a sample is written as .parquet", given=os.fspath(path))
    for place in (target, manifest_path(target)):
        check_place(place, hint=NEVER)
    return target


def manifest_path(target: str) -> str:
    """The manifest of a sample file.

    >>> manifest_path("/surveys/sample.parquet")
    '/surveys/sample.manifest.json'
    """
    return target.removesuffix(".parquet") + ".manifest.json"


def write_sample_file(
    target: str, write: Callable[[str], None], key: str, manifest: dict[str, Any], seal: Callable[[str], None]
) -> None:
    """Write the sample by `write`, its manifest beside it, and put both on record by `seal`; undo all if one fails."""
    moved: list[str] = []
    # A folder of its own, closed to others, so that the list is never readable while it is written.
    try:
        folder = os.path.dirname(target)
        with explained(target), private_folder(folder) as private:
            sample = private / "sample.parquet"
            write(os.fspath(sample))
            commitment = file_hash(os.fspath(sample), key)
            os.chmod(sample, 0o600)
            flush(sample)
            notes = json.dumps(manifest | {"hash": commitment}, indent=1) + "\n"
            notes_file = write_file(private / "manifest.json", notes, private=True)
            for file, place in ((sample, target), (notes_file, manifest_path(target))):
                give_name(file, place, hint=NEVER)
                moved.append(place)
            flush(folder)
            seal(commitment)
            # On record now: whatever happens from here on, the files stay.
            moved.clear()
    except BaseException as error:
        for place in moved:
            os.unlink(place)
        if isinstance(error, NotWritten):
            raise NotWritten("the sample could not be written", because=error.because, hint="nothing was left behind") from None
        raise


def check_sample_file(path: str, key: str, commitment: str | None) -> None:
    """Refuse a sample that others can read, or that is not the one that was sealed, before anything is spent."""
    if not os.path.exists(path):
        raise NotFound("the file of the sealed sample is gone", given=path, hint="put it back; the ledger knows its hash")
    if is_open_to_others(path):
        raise BadData(
            "others can read the file of the sealed sample",
            because="the guarantee rests on nobody knowing who was drawn",
            given=path,
            hint="chmod 600 if nobody has read it; if somebody may have, draw a new one: new=True (--new-sample)",
        )
    if file_hash(path, key) != commitment:
        raise LedgerDisagrees("the file of the sealed sample is not the one that was sealed", given=path)


def file_hash(path: str, key: str) -> str:
    """A keyed hash: without the key nobody can confirm a guess of who was drawn by hashing a guessed file."""
    digest = hmac.new(bytes.fromhex(key), digestmod="sha256")
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
