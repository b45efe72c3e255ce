"""The sealed sample on disk: a Parquet file of drawn units and a manifest beside it. Both whole, or neither.

The file holds unit, stratum, psu, pi, weight (and ssu after two stages of clusters), is readable by its owner alone,
and is the secret that the promise rests on. The manifest holds nothing that depends on who was drawn: counts only
where the design fixes them, and a hash that cannot be checked against a guess without the ledger.
"""

from __future__ import annotations

import hmac
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import BadData, BadValue, NotFound


def sample_target(path: str | os.PathLike[str]) -> str:
    """Where a sample is to be written, as a full path; refuses what cannot be, before anything is drawn."""
    target = os.path.abspath(os.fspath(path))
    if not target.endswith(".parquet"):
        raise BadValue("a sample is written as .parquet", given=os.fspath(path))
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise NotFound(f"there is no folder {folder!r}")
    for taken in (target, manifest_path(target)):
        if os.path.exists(taken):
            raise BadValue(f"{taken!r} exists already", hint="choose another name; a sample is never overwritten")
    if not os.access(folder, os.W_OK):
        raise BadValue(f"cannot write to {folder!r}")
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
        with tempfile.TemporaryDirectory(prefix=".dpsurvey-", dir=folder, ignore_cleanup_errors=True) as private:
            sample, notes = os.path.join(private, "sample.parquet"), os.path.join(private, "manifest.json")
            write(sample)
            commitment = file_hash(sample, key)
            Path(notes).write_text(json.dumps(manifest | {"hash": commitment}, indent=1) + "\n", encoding="utf-8")
            for file in (sample, notes):
                os.chmod(file, 0o600)
                _flush(file)
            for file, place in ((sample, target), (notes, manifest_path(target))):
                _move(file, place)
                moved.append(place)
            _flush(folder)
            seal(commitment)
            # On record now: whatever happens from here on, the files stay.
            moved.clear()
    except BaseException as error:
        for place in moved:
            os.unlink(place)
        if isinstance(error, OSError):
            raise BadData(
                "the sample could not be written", because=error.strerror or type(error).__name__, hint="nothing was left behind"
            ) from None
        raise


def _move(file: str, place: str) -> None:
    """Give a file its name, unless another has it by now: two draws to one place must not destroy each other."""
    try:
        os.link(file, place)
    except FileExistsError:
        raise BadValue(f"{place!r} exists already", hint="choose another name; a sample is never overwritten") from None
    except OSError:
        # A file system without links; what lies there is looked for once more.
        if os.path.exists(place):
            raise BadValue(f"{place!r} exists already", hint="choose another name; a sample is never overwritten") from None
        os.replace(file, place)


def file_hash(path: str, key: str) -> str:
    """A keyed hash: without the key nobody can confirm a guess of who was drawn by hashing a guessed file."""
    digest = hmac.new(bytes.fromhex(key), digestmod="sha256")
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _flush(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
