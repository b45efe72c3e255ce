"""Optimised local hashing: the answer is hashed to one of g buckets, and the bucket goes through randomised response.

A client draws a and b below a prime P and reports (a, b, y): h(x) = floor(g ((a x + b) mod P)/P), and y is h(answer) after
generalised randomised response over g buckets. For x != x' the pair (a x + b, a x' + b) mod P takes every value of two numbers
below P equally often. So, with n_c the number of residues in bucket c, two answers collide with probability exactly
s = sum of (n_c/P)^2, and a report marks

    its own answer          with probability p = e^epsilon/(e^epsilon + g - 1),
    any other category      with probability q = s p + (1 - s)(1 - p)/(g - 1):

the estimator is unbiased for every list of categories, not on average over some idealised hash. The numbers a and b are drawn
without looking at the answer, so the loss is that of the bucket, epsilon. Domains too large to list work the same way: a label
becomes a number below 2^61 - 1 (SHA-256), and only the labels asked about are ever hashed. Wang, Blocki, Li and Jha 2017,
USENIX Security (with other hash functions); Carter and Wegman 1979, J. Comput. Syst. Sci. 18 (the family).
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import BadData, BadValue
from .base import Array, Bytes, Marks, OneReport, Reports
from .chance import Chance, Whole
from .probabilities import check_categories, check_epsilon, loss, weights_for
from .randomised_response import GeneralisedResponse

# Mersenne primes: lists of categories need the small one, labels of any kind the large one.
LISTED, OPEN = 2**31 - 1, 2**61 - 1
MOST_BUCKETS = 2**16 - 1
CHUNK = 1 << 15
Words = npt.NDArray[Any]


def best_buckets(k: int, epsilon: float) -> int:
    """The number of buckets with the least total squared error; k = 0 stands for a domain without end.

    >>> best_buckets(100, 1.0), best_buckets(0, math.log(4.0))
    (4, 5)
    """
    # Below this the floats of p and q agree, and two buckets are the best in any case.
    growth = math.exp(min(max(epsilon, 1e-6), 12.0))

    def error(g: Array) -> Array:
        p, q = growth / (growth + g - 1.0), 1.0 / g
        own = p * (1.0 - p) / (k - 1.0) if k else 0.0
        return np.asarray((q * (1.0 - q) + own) / (p - q) ** 2)

    # Few categories want few buckets, so all numbers up to the best one of an endless domain are tried.
    return int(np.argmin(error(np.arange(2.0, min(MOST_BUCKETS, math.floor(growth) + 3) + 1.0)))) + 2


def label_number(label: str) -> int:
    """The number of a label in an open domain: SHA-256, reduced to below 2^61 - 1. Letters are composed and ends trimmed first.

    >>> label_number("48.8584N 2.2945E") < 2**61 - 1, label_number(" caf\u00e9") == label_number("cafe\u0301")
    (True, True)
    """
    written = unicodedata.normalize("NFC", label.strip(" \t\r\n"))
    return int.from_bytes(hashlib.sha256(written.encode()).digest()[:16], "big") % OPEN


@dataclass(frozen=True)
class LocalHashing(OneReport):
    """Optimised local hashing over k listed categories; k = 0 for a domain that is not listed (see `label_number`).

    >>> olh = LocalHashing(100, 1.0)
    >>> olh.buckets, [round(float(chance), 4) for chance in olh.hit(0)], round(olh.epsilon, 9)
    (4, [0.4754, 0.25], 1.0)
    """

    kind: ClassVar[str] = "hashing"
    title: ClassVar[str] = "optimised local hashing"
    alike: ClassVar[bool] = True
    k: int
    at_epsilon: float
    buckets: int = 0
    prime: int = 0
    # Odds of the right bucket, and of each other one.
    weights: tuple[int, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_epsilon(self.at_epsilon)
        if self.k:
            check_categories(self.k)
        buckets = self.buckets or best_buckets(self.k, self.at_epsilon)
        prime = self.prime or (LISTED if self.k else OPEN)
        if not isinstance(buckets, int) or not isinstance(prime, int) or not 2 <= buckets <= min(MOST_BUCKETS, prime):
            raise BadValue(f"hashing needs 2 to {MOST_BUCKETS} buckets", given=f"buckets={buckets}")
        if prime not in (LISTED, OPEN) and (prime > LISTED or any(prime % d == 0 for d in range(2, math.isqrt(prime) + 1))):
            raise BadValue("the hash family needs a prime", given=f"prime={prime}", hint="leave it out")
        if self.k > prime or (not self.k and prime != OPEN):
            raise BadValue("there are more categories than the hash family tells apart", given=f"k={self.k}, prime={prime}")
        object.__setattr__(self, "buckets", buckets)
        object.__setattr__(self, "prime", prime)
        object.__setattr__(self, "weights", weights_for(self.at_epsilon, buckets - 1))

    @cached_property
    def starts(self) -> list[int]:
        """The least residue of each bucket, and the prime."""
        return [-(-bucket * self.prime // self.buckets) for bucket in range(self.buckets + 1)]

    def hit(self, category: int) -> tuple[Fraction, Fraction]:
        return self._hit

    @cached_property
    def _hit(self) -> tuple[Fraction, Fraction]:
        right, wrong = self.weights
        p = Fraction(right, right + (self.buckets - 1) * wrong)
        sizes = [high - low for low, high in zip(self.starts, self.starts[1:], strict=False)]
        collide = Fraction(sum(size * size for size in sizes), self.prime**2)
        return p, collide * p + (1 - collide) * (1 - p) / (self.buckets - 1)

    @property
    def epsilon(self) -> float:
        return loss([(Fraction(self.weights[0]), Fraction(self.weights[1]))])

    def _randomize(self, answers: Whole, chance: Chance) -> Reports:
        a, b = chance.below(self.prime, len(answers)), chance.below(self.prime, len(answers))
        residues = hash_residues(a, b, answers, self.prime)
        bucket = np.searchsorted(np.array(self.starts[1:], dtype=np.int64), residues, side="right")
        noisy = GeneralisedResponse(self.buckets, self.at_epsilon).randomize(bucket.astype(np.int64), chance)
        return np.column_stack([a, b, noisy])

    def marks(self, reports: Reports, category: int) -> Marks:
        residues = hash_residues(reports[:, 0], reports[:, 1], np.int64(category), self.prime)
        low, width = self._windows(reports, np.uint64)
        return (residues.astype(np.uint64) - low < width).astype(np.int8)

    def mark_sums(self, reports: Reports, weights: Array | None = None) -> Array:
        # From one category to the next the residue grows by a: an addition, and P less where it is passed. Unsigned
        # numbers wrap around, so the smaller of r and r - P is r mod P, and r - low < width tests both ends at once.
        kind = np.uint32 if self.prime <= LISTED else np.uint64
        sums = np.zeros(self.k)
        prime = kind(self.prime)
        for start in range(0, len(reports), CHUNK):
            here = reports[start : start + CHUNK]
            step, residue = here[:, 0].astype(kind), here[:, 1].astype(kind)
            low, width = self._windows(here, kind)
            own = None if weights is None else weights[start : start + CHUNK]
            less, inside = np.empty_like(residue), np.empty(len(here), dtype=np.bool_)
            for category in range(self.k):
                np.subtract(residue, low, out=less)
                np.less(less, width, out=inside)
                sums[category] += np.count_nonzero(inside) if own is None else own[inside].sum()
                np.add(residue, step, out=residue)
                np.subtract(residue, prime, out=less)
                np.minimum(residue, less, out=residue)
        return sums

    def _windows(self, reports: Reports, kind: Any) -> tuple[Words, Words]:
        """The least residue and the width of each report's bucket."""
        starts = np.array(self.starts, dtype=np.int64)
        bucket = reports[:, 2]
        return starts[bucket].astype(kind), (starts[bucket + 1] - starts[bucket]).astype(kind)

    @property
    def _digits(self) -> int:
        """Bytes of a and of b."""
        return 4 if self.prime <= LISTED else 8

    @property
    def word_bytes(self) -> int:  # type: ignore[override]
        return 2 * self._digits + 2

    def pack(self, reports: Reports) -> Bytes:
        d = self._digits
        parts = [reports[:, 0].astype(f">u{d}"), reports[:, 1].astype(f">u{d}"), reports[:, 2].astype(">u2")]
        return np.column_stack([np.ascontiguousarray(part).view(np.uint8).reshape(len(reports), -1) for part in parts])

    def unpack(self, words: Bytes) -> Reports:
        d = self._digits
        edges = ((0, d), (d, 2 * d), (2 * d, 2 * d + 2))
        columns = [
            np.ascontiguousarray(words[:, low:high]).view(f">u{high - low}").reshape(len(words)).astype(np.uint64)
            for low, high in edges
        ]
        for column, bound in zip(columns, (self.prime, self.prime, self.buckets), strict=True):
            if np.any(column >= np.uint64(bound)):
                raise BadData(
                    "a report holds a number that no client of this question draws", hint="it may belong to another one"
                )
        return np.column_stack([column.astype(np.int64) for column in columns])

    def check_answers(self, answers: Whole) -> None:
        if self.k:
            super().check_answers(answers)
        elif len(answers) and not (int(answers.min()) >= 0 and int(answers.max()) < self.prime):
            raise BadValue("an answer of an open domain is a number below 2^61 - 1", hint="label_number makes it")

    @property
    def paths(self) -> float:
        return float(self.prime) ** 2 * 2.0 * self.buckets

    def small(self) -> LocalHashing:
        """The same mechanism with the smallest hash family that tells its categories apart: one that can be enumerated.

        An open domain has no small family.

        >>> hashing(4, 1.0).small().prime
        5
        """
        if not self.k:
            return self
        least = max(self.k, self.buckets)
        prime = next(p for p in range(least, 2 * least + 2) if all(p % d for d in range(2, math.isqrt(p) + 1)))
        return LocalHashing(self.k, self.at_epsilon, self.buckets, prime)

    def client(self) -> dict[str, Any]:
        right, wrong = self.weights
        return {
            "how": "hashing",
            "prime": self.prime,
            "buckets": self.buckets,
            "digits": self._digits,
            "truth": right,
            "other": wrong,
        }

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "k": self.k, "epsilon": self.at_epsilon, "buckets": self.buckets, "prime": self.prime}


def hash_residues(a: Words, b: Words, x: Any, prime: int) -> Whole:
    """(a x + b) mod P for P below 2^31, or P = 2^61 - 1, where products need two words.

    >>> a, x, b = 2**60 + 12345, 2**59 + 678, 2**58 + 9
    >>> int(hash_residues(np.array([a]), np.array([b]), np.array([x]), OPEN)[0]) == (a * x + b) % OPEN
    True
    """
    if prime != OPEN:
        return np.asarray((a * x + b) % prime, dtype=np.int64)
    a, b, x = (np.asarray(each).astype(np.uint64) for each in (a, b, x))
    half, low, mersenne = np.uint64(32), np.uint64(2**32 - 1), np.uint64(OPEN)
    a1, a0, x1, x0 = a >> half, a & low, x >> half, x & low
    # 2^61 is 1, so 2^64 is 8, and m 2^32 is (m >> 29) + (m mod 2^29) 2^32. The sum of all parts stays below 2^64.
    middle, product = a1 * x0 + a0 * x1, a0 * x0
    total = (a1 * x1 << np.uint64(3)) + (middle >> np.uint64(29)) + ((middle & np.uint64(2**29 - 1)) << half)
    total = total + (product & mersenne) + (product >> np.uint64(61)) + b
    total = (total & mersenne) + (total >> np.uint64(61))
    return np.asarray(np.where(total >= mersenne, total - mersenne, total), dtype=np.int64)


def hashing(k: int, epsilon: float, buckets: int = 0) -> LocalHashing:
    """Optimised local hashing of k listed categories, or of an open domain (k = 0); the best number of buckets if none is given.

    >>> hashing(0, 1.0).prime == 2**61 - 1
    True
    """
    return LocalHashing(k, epsilon, buckets)
