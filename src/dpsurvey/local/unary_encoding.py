"""Optimised unary encoding: one bit for each category, each sent with noise of its own.

The bit of the answer is 1 with probability 1/2, every other one with probability q <= 1/2. Two answers differ in two bits; the
likelihood ratio of a report is largest where one is set and the other is not: (1/2)(1-q)/(q (1/2)), so

    epsilon = log((1 - q)/q),     q = 1/(e^epsilon + 1).

Wang, Blocki, Li and Jha 2017, USENIX Security.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..errors import BadData
from .base import Array, Bytes, Marks, OneReport, Reports
from .chance import Chance, Whole
from .probabilities import check_categories, loss, weights_for

CHUNK = 1 << 15


class BitReport(OneReport):
    """Reports that are one bit for each category, the first category in the highest bit of the first byte."""

    @property
    def word_bytes(self) -> int:  # type: ignore[override]
        return int(self.k + 7) // 8

    def marks(self, reports: Reports, category: int) -> Marks:
        return ((reports[:, category >> 3] >> (7 - (category & 7))) & 1).astype(np.int8)

    def mark_sums(self, reports: Reports, weights: Array | None = None) -> Array:
        sums = np.zeros(self.k)
        for start in range(0, len(reports), CHUNK):
            bits = np.unpackbits(reports[start : start + CHUNK], axis=1, count=self.k)
            if weights is None:
                sums += bits.sum(axis=0, dtype=np.int64)
            else:
                sums += weights[start : start + CHUNK] @ bits.astype(np.float64)
        return sums

    def pack(self, reports: Reports) -> Bytes:
        return reports.astype(np.uint8, copy=False)

    def unpack(self, words: Bytes) -> Reports:
        spare = 8 * self.word_bytes - self.k
        if len(words) and np.any(words[:, -1] & ((1 << spare) - 1)):
            raise BadData("a report has bits beyond the last category", hint="it may belong to another question")
        return words


@dataclass(frozen=True)
class UnaryEncoding(BitReport):
    """Optimised unary encoding.

    >>> oue = UnaryEncoding(100, 1.0)
    >>> [round(float(chance), 6) for chance in oue.hit(0)]
    [0.5, 0.268941]
    """

    kind: ClassVar[str] = "unary"
    title: ClassVar[str] = "optimised unary encoding"
    alike: ClassVar[bool] = True
    k: int
    at_epsilon: float
    # Odds of a 0 and of a 1 for a category that is not the answer.
    weights: tuple[int, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_categories(self.k)
        object.__setattr__(self, "weights", weights_for(self.at_epsilon, 1))

    def hit(self, category: int) -> tuple[Fraction, Fraction]:
        zero, one = self.weights
        return Fraction(1, 2), Fraction(one, zero + one)

    @property
    def epsilon(self) -> float:
        return loss([(Fraction(self.weights[0]), Fraction(self.weights[1]))])

    def _randomize(self, answers: Whole, chance: Chance) -> Reports:
        parts = [np.empty((0, self.word_bytes), np.uint8)]
        for start in range(0, len(answers), CHUNK):
            here = answers[start : start + CHUNK]
            bits = chance.pick(self.weights, len(here) * self.k).reshape(len(here), self.k)
            bits[np.arange(len(here)), here] = chance.pick((1, 1), len(here))
            parts.append(np.packbits(bits.astype(np.uint8), axis=1))
        return np.concatenate(parts)

    @property
    def paths(self) -> float:
        return 2.0 ** min(self.k + 1, 1000)

    def client(self) -> dict[str, Any]:
        return {"how": "unary", "zero": self.weights[0], "one": self.weights[1]}

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "k": self.k, "epsilon": self.at_epsilon}


def unary(k: int, epsilon: float) -> UnaryEncoding:
    """Optimised unary encoding of k categories.

    >>> unary(10, 1.0).word_bytes
    2
    """
    return UnaryEncoding(k, epsilon)
