"""The total of a column over the frame, or over each public group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..mechanism.base import Mechanism
from .base import Facts, Numbers
from .interval import Array
from .measured import Measured
from .notes import numbers_of
from .query import Query
from .random_size import NoisySums, solve


@dataclass(frozen=True)
class Total(Measured):
    """The total of the clipped column: group size times mean, or frame size times the share of the whole. See `total`."""

    kind: ClassVar[str] = "total"

    def _share_of_whole(self, facts: Facts) -> bool:
        groups = self._query_groups(facts)
        return any(facts.frame.known_size(self.by, group) is None for group in groups)

    def _query_groups(self, facts: Facts) -> tuple[tuple[str, ...], ...]:
        return self._query(facts, "triple", 1, weighted=False, bounds=self.bounds).groups

    def estimate(self, noisy: Array, query: Query, mechanism: Mechanism, facts: Facts) -> Numbers:
        if not self._share_of_whole(facts):
            sizes = np.array([float(facts.frame.known_size(self.by, group) or 0) for group in query.groups])
            return self._means(noisy, query, mechanism, facts).scaled(sizes)
        low, high = self.bounds
        own = noisy / query.steps
        whole = facts.sampled_units
        sums = NoisySums(
            own=own,
            levels=np.array([high, (low + high) / 2.0, low]),
            noise_variance=mechanism.variance / query.steps**2,
            laplace=mechanism.kind == "laplace",
            rest=0.0 if whole is not None else own.sum(axis=(-1, -2))[..., None] - own.sum(axis=-1),
            rest_components=0 if whole is not None else 3 * (len(query.groups) - 1),
            whole=whole,
        )
        ends = min(0.0, low), max(0.0, high)
        answer = solve(sums, *ends, thinning=facts.thinning((), ((),)))
        return numbers_of(answer, *ends, keep_outside=True).scaled(float(facts.size))


def total(
    of: str,
    bounds: tuple[float, float] | None = None,
    by: str | tuple[str, ...] | None = None,
    expect: tuple[float, float] | None = None,
) -> Total:
    """The total of a column, clipped to public bounds, over the frame or by public groups.

    >>> total("hours", bounds=(0, 98)).name
    'total of hours'
    """
    return Total._make(of, bounds, by, expect)
