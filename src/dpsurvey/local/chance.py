"""Chances of a respondent: exact whole-number odds, drawn from the operating system, or all of them one after another.

A client asks for one of several outcomes with whole-number weights, never for a floating-point number: what it does has
exactly the probabilities that its privacy was computed from. The same code runs against `EveryChance`, which goes through
all outcomes, so that what a mechanism leaks is read off the code that respondents run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from ..errors import BadValue

T = TypeVar("T", bound=Hashable)
Whole = npt.NDArray[np.int64]
# Weights add up to at most this: a browser's numbers are exact up to 2^53.
LARGEST_TOTAL = 2**48
# Words of randomness that are asked for at once.
CHUNK = 1 << 20


@runtime_checkable
class Chance(Protocol):
    """Where a client's random choices come from: the operating system, a simulation, or all outcomes one after another.

    >>> isinstance(SimulatedChance(np.random.Generator(np.random.PCG64(1))), Chance)
    True
    """

    def pick(self, weights: Sequence[int], count: int) -> Whole:
        """`count` independent places in a list of weights, each with probability weight/sum."""

    def below(self, bound: int, count: int) -> Whole:
        """`count` independent whole numbers, each of 0, ..., bound - 1 with equal probability."""


class SecretChance:
    """Choices from the operating system's cryptographic generator, without rounding.

    >>> secret = SecretChance()
    >>> secret.pick([0, 5, 0], 3).tolist()
    [1, 1, 1]
    >>> bool((secret.below(10, 1000) < 10).all())
    True
    """

    def pick(self, weights: Sequence[int], count: int) -> Whole:
        bounds = np.array(list(accumulate(check_weights(weights))), dtype=np.int64)
        return np.asarray(np.searchsorted(bounds, self.below(int(bounds[-1]), count), side="right"), dtype=np.int64)

    def below(self, bound: int, count: int) -> Whole:
        if not 0 < bound < 2**62:
            raise BadValue("a bound lies outside what whole numbers hold", given=f"bound={bound}")
        # Words past the last whole multiple of the bound are drawn again, so that every remainder is equally likely.
        last = 2**64 // bound * bound - 1
        found = np.empty(count, dtype=np.int64)
        done = 0
        while done < count:
            words = np.frombuffer(os.urandom(8 * min(CHUNK, count - done + 2)), dtype=np.uint64)
            kept = words[words <= last][: count - done] % np.uint64(bound)
            found[done : done + len(kept)] = kept.astype(np.int64)
            done += len(kept)
        return found


class SimulatedChance:
    """Choices from a generator that is given, for simulations: whoever knows its seed knows every answer. Never for respondents.

    >>> chance = SimulatedChance(np.random.Generator(np.random.PCG64(1)))
    >>> chance.pick([0, 5, 0], 3).tolist(), bool((chance.below(10, 1000) < 10).all())
    ([1, 1, 1], True)
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def pick(self, weights: Sequence[int], count: int) -> Whole:
        bounds = np.array(list(accumulate(check_weights(weights))), dtype=np.int64)
        return np.asarray(np.searchsorted(bounds, self.below(int(bounds[-1]), count), side="right"), dtype=np.int64)

    def below(self, bound: int, count: int) -> Whole:
        return self._rng.integers(0, bound, count)


class EveryChance:
    """One path through all choices: follows a given beginning, then takes the first outcome, and notes what else there was."""

    def __init__(self, beginning: Sequence[int] = ()) -> None:
        self._beginning = beginning
        self.path: list[int] = []
        self.others: list[tuple[int, ...]] = []
        self.probability = Fraction(1)

    def pick(self, weights: Sequence[int], count: int) -> Whole:
        total = sum(check_weights(weights))
        return np.array([self._one(weights, total) for _ in range(count)], dtype=np.int64)

    def below(self, bound: int, count: int) -> Whole:
        return self.pick([1] * bound, count)

    def _one(self, weights: Sequence[int], total: int) -> int:
        possible = tuple(place for place, weight in enumerate(weights) if weight)
        place = self._beginning[len(self.path)] if len(self.path) < len(self._beginning) else possible[0]
        self.path.append(place)
        self.others.append(tuple(other for other in possible if other > place))
        self.probability *= Fraction(weights[place], total)
        return place


def every_outcome(run: Callable[[Chance], T]) -> dict[T, Fraction]:
    """The exact law of what a piece of code returns: it is run once for every sequence of choices that it can meet.

    >>> law = every_outcome(lambda chance: int(chance.pick([1, 2], 2).sum()))
    >>> {outcome: str(probability) for outcome, probability in law.items()}
    {0: '1/9', 1: '4/9', 2: '4/9'}
    """
    law: dict[T, Fraction] = {}
    waiting: list[list[int]] = [[]]
    while waiting:
        chance = EveryChance(beginning := waiting.pop())
        outcome = run(chance)
        law[outcome] = law.get(outcome, Fraction(0)) + chance.probability
        for place in range(len(beginning), len(chance.path)):
            waiting += [[*chance.path[:place], other] for other in chance.others[place]]
    return law


def check_weights(weights: Sequence[int]) -> Sequence[int]:
    """Refuse weights that are not odds.

    >>> check_weights([1, 2])
    [1, 2]
    """
    if any(weight < 0 for weight in weights) or not 0 < sum(weights) <= LARGEST_TOTAL:
        raise BadValue("weights are whole numbers that add up to something between 1 and 2^48")
    return weights
