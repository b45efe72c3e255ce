"""The generator of draws: AES in counter mode, keyed by the operating system, and never seeded from outside."""

from __future__ import annotations

import math
import secrets

import numpy as np
import numpy.typing as npt
from randomgen import AESCounter

Rows = npt.NDArray[np.int64]
Uniforms = npt.NDArray[np.float64]
CHUNK = 1 << 22
# Above this share a number for every row is cheaper than a gap for every chosen one.
DENSE = 0.2


def secret_generator() -> np.random.Generator:
    """A fresh cryptographic generator; who was drawn can be guessed by nobody who lacks its 128-bit key."""
    return np.random.Generator(AESCounter(key=secrets.randbits(128)))


def small_numbers(generator: np.random.Generator, rows: int, limit: float) -> tuple[Rows, Uniforms]:
    """One uniform number in (0, 1] for each of `rows` rows; the rows whose number is at most a limit, and those numbers.

    Numbers are multiples of 2^-53, so a number is at most p with probability p rounded down: never more than p.
    With a small limit the others are never made: the gaps between small numbers are geometric, so the work is in
    proportion to what is found, not to the rows.
    """
    if limit >= DENSE:
        return _dense(generator, rows, limit)
    found = skips(generator, rows, limit)
    return found, (1.0 - generator.random(len(found))) * limit


def skips(generator: np.random.Generator, rows: int, rate: float) -> Rows:
    """The rows that each by itself is chosen with this rate, by jumping from one to the next.

    The rate is lowered by one part in 2^40, so that rounding inside the logarithms never lifts a unit above its rate.
    """
    lowered = rate * (1.0 - 2.0**-40)
    parts: list[Rows] = []
    last = -1
    while last < rows and lowered > 0.0:
        expected = (rows - last) * lowered
        size = int(expected + 6.0 * math.sqrt(expected) + 16.0)
        # A gap is at most the list itself: longer ones end the draw, and must not overflow when they are summed.
        gaps = np.minimum(generator.geometric(lowered, size), rows + 1)
        found = last + np.cumsum(gaps, dtype=np.int64)
        parts.append(found[found < rows])
        last = int(found[-1])
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _dense(generator: np.random.Generator, rows: int, limit: float) -> tuple[Rows, Uniforms]:
    places, numbers = [np.empty(0, np.int64)], [np.empty(0)]
    for start in range(0, rows, CHUNK):
        uniforms = 1.0 - generator.random(min(CHUNK, rows - start))
        kept = np.flatnonzero(uniforms <= limit)
        places.append(kept + start)
        numbers.append(uniforms[kept])
    return np.concatenate(places), np.concatenate(numbers)
