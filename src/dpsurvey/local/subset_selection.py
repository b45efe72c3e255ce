"""Subset selection: the report is a set of w categories, which holds the answer more often than it would by chance.

The answer is in the set with odds w e^epsilon : k - w; the rest of the set is drawn at random from the other categories. A set
with the answer has probability p/C(k-1, w-1), one without it (1-p)/C(k-1, w): their ratio is e^epsilon. A category that is not
the answer is marked with q = p (w-1)/(k-1) + (1-p) w/(k-1). The size w is the one with the least squared error; near
k/(e^epsilon + 1) no mechanism of one report does better. Ye and Barg 2018, IEEE Trans. Inf. Theory 64; Wang and others 2016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import BadData, BadValue
from .base import Bytes, Reports
from .chance import LARGEST_TOTAL, Chance, Whole
from .probabilities import check_categories, check_epsilon, log_of
from .unary_encoding import CHUNK, BitReport


def best_size(k: int, epsilon: float) -> int:
    """The size of the set with the least total squared error over all categories.

    >>> best_size(100, 1.0), best_size(4, 5.0)
    (27, 1)
    """
    near = k / (math.exp(min(epsilon, 40.0)) + 1.0)
    sizes = {min(max(1, size), k - 1) for size in range(math.floor(near) - 1, math.floor(near) + 3)}

    def error(size: int) -> float:
        p = size / (size + (k - size) * math.exp(-max(epsilon, 1e-6)))
        q = (p * (size - 1) + (1 - p) * size) / (k - 1)
        return (q * (1 - q) * (k - 1) + p * (1 - p)) / (p - q) ** 2

    return min(sorted(sizes), key=error)


@dataclass(frozen=True)
class SubsetSelection(BitReport):
    """Subset selection with sets of `size` categories, the best size if none is given.

    >>> chosen = SubsetSelection(100, 1.0)
    >>> chosen.size, [round(float(chance), 4) for chance in chosen.hit(0)], round(chosen.epsilon, 9)
    (27, [0.5013, 0.2677], 1.0)
    """

    kind: ClassVar[str] = "subset"
    title: ClassVar[str] = "subset selection"
    alike: ClassVar[bool] = True
    k: int
    at_epsilon: float
    size: int = 0
    # Odds of a set without the answer, and of one with it.
    weights: tuple[int, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_categories(self.k)
        check_epsilon(self.at_epsilon)
        size = self.size or best_size(self.k, self.at_epsilon)
        if not isinstance(size, int) or not 1 <= size < self.k:
            raise BadValue("a set is smaller than the list of categories", given=f"size={size}, k={self.k}")
        object.__setattr__(self, "size", size)
        growth = math.exp(min(self.at_epsilon, 40.0))
        unit = max(1, int(LARGEST_TOTAL / (size * growth + self.k - size + 1.0)))
        inside = min(int(size * growth * unit) + 2, LARGEST_TOTAL - (self.k - size) * unit)
        while inside > size * unit and log_of(Fraction(inside, size * unit)) > self.at_epsilon:
            inside -= 1
        if inside <= size * unit:
            raise BadValue("epsilon is too small to tell answers apart", given=f"epsilon={self.at_epsilon}")
        object.__setattr__(self, "weights", ((self.k - size) * unit, inside))

    def hit(self, category: int) -> tuple[Fraction, Fraction]:
        p = Fraction(self.weights[1], sum(self.weights))
        return p, (p * (self.size - 1) + (1 - p) * self.size) / (self.k - 1)

    @property
    def marks_of_report(self) -> int:  # type: ignore[override]
        return self.size

    @property
    def epsilon(self) -> float:
        outside, inside = self.weights
        return log_of(Fraction(inside * (self.k - self.size), outside * self.size))

    def _randomize(self, answers: Whole, chance: Chance) -> Reports:
        parts = [np.empty((0, self.word_bytes), np.uint8)]
        for start in range(0, len(answers), CHUNK):
            here = answers[start : start + CHUNK]
            holds = chance.pick(self.weights, len(here)) == 1
            bits = np.zeros((len(here), self.k), dtype=np.uint8)
            for inside in (False, True):
                rows = np.flatnonzero(holds == inside)
                others = random_subsets(self.k - 1, self.size - int(inside), len(rows), chance)
                # The other categories in order: those before the answer keep their place, the rest move up by one.
                places = np.arange(self.k - 1)[None, :]
                moved = places + (places >= here[rows, None])
                bits[rows[:, None], moved] = others
            bits[np.flatnonzero(holds), here[holds]] = 1
            parts.append(np.packbits(bits, axis=1))
        return np.concatenate(parts)

    def unpack(self, words: Bytes) -> Reports:
        words = super().unpack(words)
        for start in range(0, len(words), CHUNK):
            bits = np.bitwise_count(words[start : start + CHUNK]).sum(axis=1)
            if np.any(bits != self.size):
                raise BadData("a report is not a set of the right size", hint="it may belong to another question")
        return words

    @property
    def paths(self) -> float:
        # Floyd's method takes as many different ways as there are ordered draws.
        return 2.0 * math.prod(float(self.k - place) for place in range(min(self.size, 100)))

    def client(self) -> dict[str, Any]:
        return {"how": "subset", "size": self.size, "outside": self.weights[0], "inside": self.weights[1]}

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "k": self.k, "epsilon": self.at_epsilon, "size": self.size}


def random_subsets(n: int, size: int, rows: int, chance: Chance) -> npt.NDArray[np.uint8]:
    """`rows` random subsets of a given size of n things, all equally likely, as rows of 0 and 1 (Floyd's method).

    >>> from dpsurvey.local.chance import SecretChance
    >>> random_subsets(5, 2, 3, SecretChance()).sum(axis=1).tolist()
    [2, 2, 2]
    """
    bits = np.zeros((rows, n), dtype=np.uint8)
    every = np.arange(rows)
    for last in range(n - size, n):
        tried = chance.below(last + 1, rows)
        taken = bits[every, tried] == 1
        bits[every, np.where(taken, last, tried)] = 1
    return bits


def subset(k: int, epsilon: float, size: int = 0) -> SubsetSelection:
    """Subset selection from k categories, with sets of the best size if none is given.

    >>> subset(10, 1.0).size
    3
    """
    return SubsetSelection(k, epsilon, size)
