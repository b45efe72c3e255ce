"""Statistics of a measured column, clipped to public bounds: mean and total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..errors import BadValue
from ..mechanism.base import Mechanism
from .base import Facts, Numbers, Statistic, check_bounds, check_by
from .fixed_size import mean_interval
from .interval import Array
from .notes import fixed_notes, numbers_of
from .query import FINE, Query
from .random_size import NoisySums, solve
from .sizes import sizes_of


@dataclass(frozen=True)
class Measured(Statistic):
    """A statistic of a numeric column. `expect` is a public (mean, sd), used only to predict errors."""

    bounds: tuple[float, float] = (0.0, 1.0)
    expect: tuple[float, float] | None = None

    def query(self, facts: Facts) -> Query:
        if facts.sizes_are_public(self.by):
            return self._query(facts, "moments", FINE, weighted=not self.by, bounds=self.bounds)
        weighted = self._share_of_whole(facts) or facts.design.strata_column not in self.by
        return self._query(facts, "triple", FINE, weighted=weighted, bounds=self.bounds)

    def _share_of_whole(self, facts: Facts) -> bool:
        """Whether R is spread over all units, because the size of a group is not public."""
        return False

    def typical(self) -> tuple[float, float]:
        low, high = self.bounds
        if self.expect is None:
            return 0.5, 0.5
        mean = (self.expect[0] - low) / (high - low)
        return mean, min(mean, mean**2 + (self.expect[1] / (high - low)) ** 2)

    @property
    def prediction_rests_on(self) -> str:
        return "the worst case within the bounds" if self.expect is None else "the declared mean and sd"

    def _means(self, noisy: Array, query: Query, mechanism: Mechanism, facts: Facts) -> Numbers:
        """Means by group, whatever the design."""
        low, high = self.bounds
        laplace = mechanism.kind == "laplace"
        if query.encoding == "moments":
            columns = []
            for index, group in enumerate(query.groups):
                sizes = sizes_of(facts, group)
                unit = float(sizes.per_unit.max()) / query.steps
                second = unit / query.second_moment_scale
                noise = (mechanism.variance * unit**2, mechanism.variance * second**2)
                columns.append(mean_interval(noisy[..., index, 0] * unit, noisy[..., index, 1] * second, noise, sizes, laplace))
            m, sampling, noise_se, ci_low, ci_high = (np.stack(each, axis=-1) for each in zip(*columns, strict=True))
            span = high - low
            return Numbers(
                low + span * np.clip(m, 0.0, 1.0),
                span * sampling,
                span * noise_se,
                low + span * ci_low,
                low + span * ci_high,
                fixed_notes(m, sampling, noise_se),
            )
        sums = NoisySums(
            noisy / query.steps, np.array([high, (low + high) / 2.0, low]), mechanism.variance / query.steps**2, laplace
        )
        answer = solve(sums, low, high, facts.thinning(query.by, query.groups))
        return numbers_of(answer, low, high)

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind, "of": self.of, "bounds": list(self.bounds)}
        return fields | ({"by": list(self.by)} if self.by else {}) | ({"expect": list(self.expect)} if self.expect else {})

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        return cls._make(**fields)

    @classmethod
    def _make(cls, of: str, bounds: Any = None, by: Any = None, expect: Any = None) -> Self:
        if not isinstance(of, str) or not of:
            raise BadValue("name the column that is measured", given=repr(of))
        low, high = check_bounds(bounds, of)
        if expect is not None:
            try:
                mean, sd = (float(each) for each in expect)
            except (TypeError, ValueError):
                raise BadValue("expect= is a public (mean, sd)", given=repr(expect)) from None
            if not (low <= mean <= high and 0.0 <= sd <= (high - low) / 2.0):
                raise BadValue("expect= is a public (mean, sd) within the bounds", given=repr(tuple(expect)))
            expect = (mean, sd)
        return cls(of=of, by=check_by(by), bounds=(low, high), expect=expect)
