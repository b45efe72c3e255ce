"""What travels together from a plan to an estimate: the query, the mechanism that answers it, the public facts, and the sums."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..mechanism.base import Answering
from .estimators.interval import Array
from .facts import Facts
from .query import Query


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

    def with_sums(self, sums: Array) -> NoisySums:
        """The same with other sums."""
        return replace(self, sums=sums)

    def read_as(self, query: Query) -> NoisySums:
        """The sums as another query reads them: of those who answered alone, the sum of those who did not is left out."""
        sums = self.sums[..., :-1] if self.query.absent and not query.absent else self.sums
        return NoisySums(self.asked.with_query(query), sums)
