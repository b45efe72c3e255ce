"""The generator of draws: AES in counter mode, keyed by the operating system, and never seeded from outside."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from randomgen import AESCounter

CHUNK = 1 << 22


def secret_generator() -> np.random.Generator:
    """A fresh cryptographic generator; who was drawn can be guessed by nobody who lacks its 128-bit key."""
    return np.random.Generator(AESCounter(key=secrets.randbits(128)))


def small_uniforms(
    generator: np.random.Generator, rows: int, below: float
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """One uniform number for each of `rows` rows; yields row numbers and numbers of those below a limit, by chunks."""
    for start in range(0, rows, CHUNK):
        numbers = generator.random(min(CHUNK, rows - start))
        kept = np.flatnonzero(numbers < below)
        yield kept + start, numbers[kept]
