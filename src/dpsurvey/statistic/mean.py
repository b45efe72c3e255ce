"""The mean of a column over the frame, or over each public group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..mechanism.base import Mechanism
from .base import Facts, Numbers
from .interval import Array
from .measured import Measured
from .query import Query


@dataclass(frozen=True)
class Mean(Measured):
    """The mean of the clipped column. See `mean`."""

    kind: ClassVar[str] = "mean"

    def estimate(self, noisy: Array, query: Query, mechanism: Mechanism, facts: Facts) -> Numbers:
        return self._means(noisy, query, mechanism, facts)


def mean(
    of: str,
    bounds: tuple[float, float] | None = None,
    by: str | tuple[str, ...] | None = None,
    expect: tuple[float, float] | None = None,
) -> Mean:
    """The mean of a column, clipped to public bounds, over the frame or by public groups.

    `expect=(mean, sd)`, from a published source, sharpens the plan's prediction and nothing else.

    >>> mean("income", bounds=(0, 250_000), by="region").name
    'mean of income by region'
    """
    return Mean._make(of, bounds, by, expect)
