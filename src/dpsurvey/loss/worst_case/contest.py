"""Contest: two neighbouring populations and the laws of the samples that a design draws from each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from ...privacy.relation import Relation

Counts = tuple[int, ...]
LIMIT = 4000


@dataclass(frozen=True)
class Contest:
    """Two populations as numbers of records of each kind, and the law of the sample from each.

    Records of one kind are equal, so a population of any size may have few different samples. A design on labelled
    units is a contest in which every unit is a kind of its own.

    >>> half = {(0, 0): 0.5, (0, 1): 0.5}
    >>> Contest((0, 1), half, (0, 0), {(0, 0): 1.0}).samples
    [(0, 0), (0, 1)]
    """

    first_population: Counts
    first: Mapping[Any, float]
    second_population: Counts
    second: Mapping[Any, float]
    copies: bool = False

    def __post_init__(self) -> None:
        for name, law in (("first", self.first), ("second", self.second)):
            if abs(math.fsum(law.values()) - 1.0) > 1e-9 or min(law.values()) < -1e-15:
                raise BadValue(f"the {name} law of a contest must sum to 1")

    @classmethod
    def of_units(cls, first: Mapping[Iterable[str], float], second: Mapping[Iterable[str], float]) -> Contest:
        """A contest from the laws of samples of labelled units: full enumeration of a small population.

        >>> Contest.of_units({("a",): 0.5, ("x",): 0.5}, {("a",): 1.0}).samples
        [(0, 1), (1, 0)]
        """
        laws = [{frozenset(sample): p for sample, p in law.items()} for law in (first, second)]
        units = sorted({unit for law in laws for sample in law for unit in sample})
        counts = [{tuple(int(unit in sample) for unit in units): p for sample, p in law.items()} for law in laws]
        largest = [tuple(max(sample[k] for sample in law) for k in range(len(units))) for law in counts]
        return cls(largest[0], counts[0], largest[1], counts[1])

    @cached_property
    def samples(self) -> list[Counts]:
        """Every sample that either population can give."""
        return sorted({sample for law in (self.first, self.second) for sample, p in law.items() if p > 0.0})

    def law(self, which: Mapping[Counts, float]) -> npt.NDArray[np.float64]:
        """A law as a vector over `samples`."""
        return np.array([max(0.0, which.get(sample, 0.0)) for sample in self.samples])

    def swapped(self) -> Contest:
        """The same contest in the other order."""
        return Contest(self.second_population, self.second, self.first_population, self.first, self.copies)

    @cached_property
    def _most(self) -> list[int]:
        if self.copies:
            return [max(sample[k] for sample in self.samples) for k in range(len(self.first_population))]
        return [max(pair) for pair in zip(self.first_population, self.second_population, strict=True)]

    @property
    def is_small(self) -> bool:
        """Whether every data set can be written down."""
        return math.prod(top + 1 for top in self._most) <= LIMIT

    def data_sets(self) -> Iterator[Counts]:
        """Every data set that can be made of the records of both populations, or those near a sample if there are many."""
        most = self._most
        if self.is_small:
            yield from itertools.product(*(range(top + 1) for top in most))
            return
        seen = set(self.samples)
        for sample in self.samples:
            seen.update(
                near for near in neighbours_of(sample, Relation.BOTH) if all(0 <= n <= t for n, t in zip(near, most, strict=True))
            )
        yield from sorted(seen)


def steps(base: Relation, one: Counts, other: Counts) -> float:
    """The number of steps of a relation between two data sets; infinite where there is no path.

    >>> steps("add-remove", (2, 1), (3, 0)), steps("both", (2, 1), (3, 0)), steps("replace-one", (2, 1), (2, 0))
    (2, 1, inf)
    """
    more = sum(max(0, a - b) for a, b in zip(one, other, strict=True))
    less = sum(max(0, b - a) for a, b in zip(one, other, strict=True))
    if base == Relation.ADD_REMOVE:
        return more + less
    if base == Relation.REPLACE_ONE and more != less:
        return math.inf
    return max(more, less)


def neighbours_of(data: Counts, base: Relation) -> Iterator[Counts]:
    """The data sets at one step of a relation."""
    kinds = range(len(data))
    if base != Relation.REPLACE_ONE:
        for k, sign in itertools.product(kinds, (1, -1)):
            yield tuple(count + sign * (j == k) for j, count in enumerate(data))
    if base != Relation.ADD_REMOVE:
        for out, into in itertools.permutations(kinds, 2):
            yield tuple(count - (j == out) + (j == into) for j, count in enumerate(data))
