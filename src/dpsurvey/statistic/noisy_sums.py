"""What travels together from a plan to an estimate: the query, the mechanism that answers it, the public facts, and the sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..mechanism.base import Answering
from ..mechanism.cluster_norm import NORM_STEPS, SumsAndNorms
from .estimators.interval import Array
from .facts import Facts
from .query import Query


@dataclass(frozen=True)
class NoisyLengths:
    """What a mechanism says of the errors of numbers (last axis): noisy lengths, factors and degrees of freedom of the design."""

    lengths: Array
    factors: Array
    freedom: Array

    def of(self, places: slice) -> NoisyLengths:
        """Those of some of the numbers."""
        return NoisyLengths(self.lengths[..., places], self.factors[..., places], self.freedom[..., places])


@dataclass(frozen=True)
class Asked:
    """A query with the mechanism that answers it, under the public facts.

    `intervals` is False for predictions: estimates and standard errors alone, and the whole range for the intervals, which take
    most of the time.
    """

    query: Query
    facts: Facts
    mechanism: Answering
    intervals: bool = True

    def answered(self, sums: Array) -> NoisySums:
        """The same with sums: noisy ones, or those to expect."""
        return NoisySums(self, sums)

    def read(self, rows: Sequence[Sequence[float]] | Array) -> NoisySums:
        """The same with the answer of the mechanism, as a release keeps it: sums, and what was bought of standard errors.

        Of sums alone, as arrays, also those of many surveys at once.
        """
        if isinstance(rows, np.ndarray) or not isinstance(self.mechanism, SumsAndNorms):
            return NoisySums(self, np.asarray(rows, dtype=np.float64))
        cells = self.query.cells
        found = np.asarray([list(row) for row in rows[cells:]], dtype=np.float64).reshape(-1, 3)
        bought = NoisyLengths(found[:, 0], found[:, 1], found[:, 2])
        return NoisySums(self, np.asarray(rows[:cells], dtype=np.float64), bought)

    def with_query(self, query: Query) -> Asked:
        """The same about another query."""
        return replace(self, query=query)

    @property
    def variance(self) -> float:
        """The noise variance of one sum, in units of records."""
        return self.mechanism.variance / self.query.steps**2

    @property
    def kurtosis(self) -> float:
        """The excess kurtosis of the noise."""
        return self.mechanism.kurtosis


@dataclass(frozen=True)
class NoisySums:
    """Sums of shape (..., cells, components) in lattice steps, with what was asked; leading axes are many surveys at once."""

    asked: Asked
    sums: Array
    # Where standard errors were bought; None where sums are those to expect.
    lengths: NoisyLengths | None = None

    @property
    def query(self) -> Query:
        """What was summed."""
        return self.asked.query

    @property
    def facts(self) -> Facts:
        """The public facts."""
        return self.asked.facts

    @property
    def mechanism(self) -> Answering:
        """What answered."""
        return self.asked.mechanism

    @property
    def records(self) -> Array:
        """The sums in units of records."""
        return self.sums / self.query.steps

    @property
    def variance(self) -> float:
        """The noise variance of one sum, in units of records."""
        return self.asked.variance

    @property
    def kurtosis(self) -> float:
        """The excess kurtosis of the noise."""
        return self.asked.kurtosis

    @property
    def intervals(self) -> bool:
        """Whether the ends of intervals are looked for."""
        return self.asked.intervals

    @property
    def one_survey(self) -> bool:
        """Whether these are the sums of one survey, whose numbers have notes."""
        return self.sums.ndim == 2

    def standard_errors(self, numbers: int) -> tuple[Array, Array]:
        """The noisy standard error of every number, and the deviation of its noise; nought where none was bought."""
        if self.lengths is None or not isinstance(self.mechanism, SumsAndNorms):
            return np.zeros(numbers), np.zeros(numbers)
        unit = self.lengths.factors / NORM_STEPS
        return self.lengths.lengths * unit, np.sqrt(self.mechanism.of_norms.variance) * unit

    def freedom(self, numbers: int) -> Array:
        """The degrees of freedom of every standard error."""
        return np.full(numbers, np.inf) if self.lengths is None else self.lengths.freedom

    @property
    def without_lengths(self) -> NoisySums:
        """The same as if no standard error had been bought."""
        return replace(self, lengths=None)

    def of_numbers(self, places: slice) -> NoisySums:
        """The same with what was bought for some numbers alone."""
        return self if self.lengths is None else replace(self, lengths=self.lengths.of(places))

    def with_sums(self, sums: Array) -> NoisySums:
        """The same with other sums."""
        return replace(self, sums=sums)

    def read_as(self, query: Query) -> NoisySums:
        """The sums as another query reads them: of those who answered alone, the sum of those who did not is left out."""
        sums = self.sums[..., :-1] if self.query.absent and not query.absent else self.sums
        return NoisySums(self.asked.with_query(query), sums, self.lengths)
