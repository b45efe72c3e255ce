"""Independent draws, given how many units they gave: the arithmetic that three methods share.

Let S be a sample in which unit i is drawn with probability p_i, alone, and write f_i(z) = 1 - p_i + p_i z. The number of
units outside a set A has the generating function prod_{i not in A} f_i(z), and

    P(|S without A| = m) = (1/M) sum_{z^M = 1} z^-m prod_i f_i(z) / prod_{i in A} f_i(z)

exactly, once M exceeds the number of units: nothing is approximated. Fewer roots of unity add the probability of the sizes
m ± M, m ± 2M, ...; M is chosen so that Bernstein's bound on it is below e^-45. The product over all units is smaller than
exp(-V (1 - cos t)) at z = e^it, V = sum p(1-p), so only twenty or thirty roots matter in a large frame and the cost is O(N).

The usual recursion psi_i(m) = m w_i (1 - psi_i(m-1)) / sum_j w_j (1 - psi_j(m-1)) takes O(N n), and multiplies its
rounding error by psi/(1 - psi) at every step: drawing 150 of 300 units it no longer has a digit. Here a factor
that was multiplied in is divided out again as the same rounded number, so the relative error stays near that of one sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from .base import Array, Units

Complex = npt.NDArray[np.complex128]
# Rows times roots held at once: 64 MB of complex numbers.
BLOCK = 1 << 22
# Uniform numbers per attempt and expected number of attempts: about ten seconds.
MOST_UNIFORMS = 2e9


@dataclass(frozen=True)
class Roots:
    """The roots of unity that matter for the number of units drawn, and the generating function at them.

    >>> roots = Roots.of(np.array([0.5, 0.5]), 1)
    >>> round(roots.probability(1), 12)
    0.5
    """

    p: Array
    z: Complex
    weight: Array
    product: Complex

    @classmethod
    def of(cls, p: Array, n: int) -> Roots:
        """Roots for sizes within two units of n."""
        variance, away = float((p * (1.0 - p)).sum()), abs(float(p.sum()) - n)
        enough = 15.0 + math.sqrt(225.0 + 90.0 * variance) + away + 6.0
        # Odd, so that z = -1 never meets a factor 1 - p + p z that is zero.
        count = int(min(p.size + 1, math.ceil(enough))) | 1
        angle = 2.0 * math.pi * np.arange(count // 2 + 1) / count
        angle = angle[variance * (1.0 - np.cos(angle)) < 80.0]
        z = np.exp(1j * angle)
        # The roots below the real axis are the conjugates of those above it.
        weight = np.where(angle == 0.0, 1.0, 2.0) / count
        product = np.ones(z.size, dtype=np.complex128)
        for rows in blocks(p.size, z.size):
            product *= np.prod(_factors(p[rows], z), axis=0)
        return cls(p, z, weight, product)

    def term(self, m: int) -> Complex:
        """What each root adds to the probability of the size m, before units are left out."""
        return np.asarray(self.weight * self.product * self.z ** (-m), dtype=np.complex128)

    def inverse_factors(self, rows: slice) -> Complex:
        """1 / f_i(z) for some units i, one in a row."""
        return np.asarray(1.0 / _factors(self.p[rows], self.z), dtype=np.complex128)

    def probability(self, m: int) -> float:
        """P(|S| = m)."""
        return float(self.term(m).sum().real)

    def without_one(self, m: int) -> Array:
        """P(|S without i| = m) for every unit i."""
        parts = [(self.inverse_factors(rows) @ self.term(m)).real for rows in blocks(self.p.size, self.z.size)]
        return np.concatenate(parts)

    def without_two(self, m: int) -> Array:
        """P(|S without i and j| = m) for every pair; the diagonal means nothing."""
        left = self.inverse_factors(slice(None))
        return np.asarray(((left * self.term(m)) @ left.T).real, dtype=np.float64)

    def led_without_one(self, m: int, lead: Array) -> Array:
        """sum over k != i of lead_k P(|S without i and k| = m), for every unit i."""
        parts, total = [], self._led(lead)
        for rows in blocks(self.p.size, self.z.size):
            left = self.inverse_factors(rows)
            parts.append(((left * (total - lead[rows, None] * left)) @ self.term(m)).real)
        return np.concatenate(parts)

    def led_without_two(self, m: int, lead: Array) -> Array:
        """sum over k != i, j of lead_k P(|S without i, j and k| = m), for every pair; the diagonal means nothing."""
        left = self.inverse_factors(slice(None))
        everyone = ((left * (self.term(m) * self._led(lead))) @ left.T).real
        # A unit that is left out does not lead: take its own part of the sum off again, for i and for j.
        own = ((lead[:, None] * left * left * self.term(m)) @ left.T).real
        return np.asarray(everyone - own - own.T, dtype=np.float64)

    def _led(self, lead: Array) -> Complex:
        total = np.zeros(self.z.size, dtype=np.complex128)
        for rows in blocks(self.p.size, self.z.size):
            total += lead[rows] @ self.inverse_factors(rows)
        return total


def blocks(units: int, roots: int) -> list[slice]:
    """Slices of the units that keep one table of factors small.

    >>> blocks(3, 5)
    [slice(0, 3, None)]
    """
    rows = max(1, BLOCK // roots)
    return [slice(start, min(start + rows, units)) for start in range(0, units, rows)]


def _factors(p: Array, z: Complex) -> Complex:
    return np.asarray((1.0 - p)[:, None] + p[:, None] * z, dtype=np.complex128)


def draw_until(p: Array, n: int, generator: np.random.Generator, leader: Array | None = None) -> Units:
    """Independent draws with probabilities p, repeated until n units come out; sorted.

    With a `leader`, every attempt first puts one unit into the sample, unit k with a chance given by the cumulated
    law `leader`, and draws only the others.

    >>> draw_until(np.array([0.5, 0.5]), 1, np.random.Generator(np.random.PCG64(1))).size
    1
    """
    # P(|S| = n) is about (2 pi V)^(-1/2): a block of twice its inverse holds a success more often than not.
    attempts = 1.0 + math.sqrt(2.0 * math.pi * float((p * (1.0 - p)).sum()))
    rows = max(1, min(math.ceil(2.0 * attempts), BLOCK // p.size))
    while True:
        drawn = generator.random((rows, p.size)) < p
        if leader is not None:
            first = np.searchsorted(leader, generator.random(rows), side="right")
            drawn[np.arange(rows), first] = True
        fits = np.flatnonzero(drawn.sum(axis=1) == n)
        if fits.size:
            return np.flatnonzero(drawn[fits[0]]).astype(np.int64)


def check_effort(p: Array, name: str) -> None:
    """Refuse frames on which repeating a draw until its size fits would take minutes.

    >>> check_effort(np.full(1000, 0.5), "sampford")
    """
    if p.size * (1.0 + math.sqrt(2.0 * math.pi * float((p * (1.0 - p)).sum()))) > MOST_UNIFORMS:
        raise BadValue(
            f"the frame is too large for {name} sampling",
            because="the draw is repeated until it has the wanted size",
            hint='use the method "pivotal" or "systematic"',
        )
