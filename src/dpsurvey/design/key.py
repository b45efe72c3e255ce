"""Keys of permanent random numbers: one secret from which every unit of every coordinated survey has its number.

The number of a unit is a keyed hash of its label, so the same key gives the same numbers on every engine, and nobody
without the key can tell them from chance. Whoever holds the key can draw the sample again: the key is the secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import os
import secrets
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..errors import BadData, BadValue, NotFound
from ..text.writing import is_open_to_others, write_file

HEADER = "dpsurvey-key-1 "
# Bytes of a key file, at most.
LONGEST = 1000
# Characters of the derived prefix: 22 of base64 are 132 bits, and leave room for a label in one block of SHA-256.
PREFIX = 22
# Bits of a unit's number: 15 hexadecimal digits, which every engine can hold in a signed integer.
BITS = 60


@dataclass(frozen=True)
class Key:
    """A secret of 256 bits. Its repr shows its commitment, never itself.

    >>> Key(bytes(32))
    Key(commitment='ee76c008')
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) != 32:
            raise BadValue("a key has 32 bytes", hint="make one with Key.new(), or dpsurvey key new FILE")

    def __repr__(self) -> str:
        return f"Key(commitment={self.commitment[:8]!r})"

    @classmethod
    def new(cls) -> Key:
        """A fresh key from the operating system."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Key:
        """The key in a file that only its owner can read."""
        file = Path(path)
        if not file.is_file():
            raise NotFound(f"there is no key file {os.fspath(path)!r}", hint="dpsurvey key new FILE makes one")
        if is_open_to_others(file):
            raise BadData(
                "others can read the key file",
                because="whoever has the key knows who is drawn",
                given=os.fspath(path),
                hint="make a new key with dpsurvey key new; this one may be known (chmod 600 keeps the next one)",
            )
        # A file that is far too long is not even opened: it may be a ledger in use, whose locks would be lost.
        text = file.read_text(encoding="utf-8", errors="replace").strip() if file.stat().st_size < LONGEST else ""
        digits = text.removeprefix(HEADER.strip()).strip()
        if not text.startswith(HEADER.strip()) or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
            raise BadValue("this is not a key file", given=os.fspath(path), hint="dpsurvey key new FILE makes one")
        return cls(bytes.fromhex(digits))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the key to a new file that only its owner can read; an existing file is never overwritten."""
        write_file(path, HEADER + self.secret.hex() + "\n", private=True)

    def __reduce__(self) -> Any:
        raise BadValue("a key is not pickled", because="it would be written where others can read it", hint="use Key.write")

    @property
    def commitment(self) -> str:
        """A hash that tells two keys apart and says nothing else about them."""
        return hashlib.sha256(b"dpsurvey key commitment 1|" + self.secret).hexdigest()

    def derived(self, purpose: str) -> bytes:
        """A key for one purpose; those of different purposes are unrelated."""
        return hmac.new(self.secret, purpose.encode(), "sha256").digest()

    def prefix(self, purpose: str) -> str:
        """What stands before a label when it is hashed, for one purpose."""
        return base64.urlsafe_b64encode(self.derived(purpose)).decode()[:PREFIX]

    def number(self, *label: str, purpose: str = "unit") -> int:
        """The permanent random number of a unit, in 0 .. 2^60 - 1.

        The first 60 bits of SHA-256 over a secret prefix and the label. All of a label but its last part carry
        their length, so that no two labels are written alike.

        >>> 0 <= Key(bytes(32)).number("17") < 2**60
        True
        """
        text = "".join(f"{len(part)}:{part}" for part in label[:-1]) + label[-1]
        return int(hashlib.sha256((self.prefix(purpose) + text).encode()).hexdigest()[: BITS // 4], 16)


def panel_start(rate: float, *, wave: int, overlap: float) -> float:
    """Where the numbers of a wave start, so that two waves in a row share a stated part of their samples.

    Wave w draws the units whose number lies in [start, start + rate), around the clock. Two waves in a row have
    shifted by rate (1 - overlap), so a drawn unit is drawn again with probability `overlap`, and leaves for good after
    1/(1 - overlap) waves.

    >>> [round(panel_start(0.1, wave=wave, overlap=0.75), 3) for wave in (0, 1, 2)]
    [0.0, 0.025, 0.05]
    """
    if not 0.0 < rate <= 1.0 or not 0.0 <= overlap <= 1.0 or wave < 0 or isinstance(wave, bool):
        raise BadValue("rate in (0, 1], overlap in [0, 1], wave from 0", given=f"rate={rate}, overlap={overlap}, wave={wave}")
    if rate * (2.0 - overlap) > 1.0 and overlap < 1.0:
        raise BadValue("two waves would meet on the other side of the clock", hint="a smaller rate or a larger overlap")
    length, positions = Fraction(rate), [Fraction(0)]
    for number in range(1, wave + 1):
        ideal = Fraction(number * rate * (1.0 - overlap))
        whole, start = divmod(ideal, 1)
        # A window that should begin where an earlier one ends must not begin before it, not even by the last bit.
        ends = [end - whole for end in (each + length for each in positions) if 0 < end - ideal < Fraction(1, 10**9)]
        near = float(max([start, *ends]))
        near = near if not ends or Fraction(near) >= max(ends) else math.nextafter(near, math.inf)
        positions = [each for each in positions if each + length >= ideal] + [whole + Fraction(near)]
    return float(positions[-1] % 1)
