"""A mean, total or proportion with public weights, which one noisy table made for all that is asked later."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue, NoGuarantee
from ..mechanism.base import Norm
from .adjust.answer import adjusted
from .base import Estimates, Statistic
from .derived import Derived
from .encodings import SECOND_MOMENT_SCALE, Encoding, Moves, Row
from .estimators.interval import Array, truncated
from .facts import Facts
from .mean import Mean
from .noisy_sums import NoisySums
from .predict.population import ExpectedPopulation
from .proportion import Proportion
from .public_weights import PublicWeights
from .query import FINE, CellFactors, Query
from .registry import register, statistic_from_dict
from .total import Total

# The share of a record that its squared weight times its value takes, for variances at every mean; and that its squared weight
# takes where design weights differ, so that the table does not tell their squares.
SQUARES, LEVEL = 0.15, 0.05
CUT = "factors of the public weights were cut, so that the margins are not quite met: what that biases is in no interval"
EXAMPLE = (
    '{ kind = "weighted", of = { kind = "mean", of = "income", bounds = [0, 250_000] }, '
    'weights = { cells = ["sex"], rows = [["female", 1.1, 4_000_000], ["male", 0.9, 5_000_000]], noise = 9, size = 9_000_000 }}'
)


@dataclass(frozen=True)
class CentredMoments(Encoding):
    """u(y-c), u^2(1-pi)y(1-y) in the room that the first leaves, and parts of u^2(1-pi)y and u^2(1-pi).

    A record may take any u and y: nothing but 0 <= u, y <= 1 is used of them.
    """

    name: ClassVar[str] = "centred moments"
    # Two roundings of the first sum, and one of each other, for each of two records.
    rounded: ClassVar[float] = 6.0
    stays_in_one_cell: ClassVar[bool] = True
    rounds_counts: ClassVar[bool] = True
    centre: float = 0.5
    scale: float = 1.0
    # Whether squared weights are summed too.
    level: bool = True

    @classmethod
    def under(cls, norm: Norm, centre: float, *, level: bool) -> CentredMoments:
        """The moments with the largest scale that a norm leaves free."""
        return cls(centre, SECOND_MOMENT_SCALE[norm], level)

    @property
    def width(self) -> int:
        return 3 + self.level

    @property
    def moves(self) -> Moves:
        # Records that come or go have u = 0 on one side, which is among what a replaced one may have.
        level = LEVEL if self.level else 0.0
        first, second = 1.0 + SQUARES + level, math.sqrt(1.0 + SQUARES**2 + level**2)
        return Moves(first, second, first, second)

    def record(self, row: Row) -> list[Any]:
        y, thinned = row.y, row.thinned
        sums = [
            row.answer - row.to_steps(row.steps * self.centre),
            row.to_steps(thinned * (self.scale * (y * (1.0 - y)))),
            row.to_steps(thinned * (SQUARES * y)),
        ]
        return [*sums, row.to_steps(thinned * LEVEL)] if self.level else sums


@dataclass(frozen=True)
class Weighted(Derived):
    """A mean, total or proportion of the whole with public weights. See `weighted`."""

    kind: ClassVar[str] = "weighted"
    weights: PublicWeights = None  # type: ignore[assignment]
    explains: float = 1.0

    @property
    def adjusts(self) -> bool:  # type: ignore[override]
        return True

    @property
    def centre(self) -> float:
        """The public value on [0, 1] that answers are measured from: near the mean, the error of the table matters least."""
        return min(max(round(self.base.typical()[0], 6), 0.0), 1.0)

    def query(self, facts: Facts) -> Query:
        if facts.clustering is not None:
            raise no_clusters()
        for column, labels in zip(self.weights.columns, zip(*self.weights.labels, strict=True), strict=True):
            if set(labels) != set(facts.frame.labels(column)):
                raise BadValue(
                    f"public weights need a factor for every declared category of {column!r}, and no other",
                    hint="make them from a table of this survey",
                )
        encoding = CentredMoments.under(facts.norm, self.centre, level=facts.weights[0] < facts.weights[1])
        value = self.base.value if isinstance(self.base, Proportion) else None
        bounds = self.base.bounds if isinstance(self.base, Mean | Total) else None
        query = replace(self, of=self.base.of, by=())._query(facts, encoding, FINE, weighted=True, value=value, bounds=bounds)
        cells = zip(self.weights.labels, self.weights.factors, strict=True)
        factors = CellFactors(self.weights.columns, tuple((labels, each / self.weights.largest) for labels, each in cells))
        return replace(query, factors=factors, fill=self.base.missing)

    @property
    def label(self) -> str:
        return f"{self.base.kind} of {self.base.label}, weighted by {', '.join(self.weights.columns)}"

    @property
    def name(self) -> str:
        return self.label

    def title(self, label: str) -> str:
        return label

    def _moments_of_weights(self, facts: Facts) -> tuple[float, float]:
        """Sums of u and of u^2 over the records, from the noisy table; of squares no less than there are."""
        counts = np.maximum(np.array(self.weights.counts), 0.0) / facts.largest_weight
        shares = np.array(self.weights.factors) / self.weights.largest
        return float((counts * shares).sum()), float((counts * shares**2).sum())

    def profile(self, mean: float, square: float, query: Query, facts: Facts) -> Array:
        """What a record adds on average, as the table found the records, over those that are expected."""
        assert isinstance(query.encoding, CentredMoments)
        first, second = self._moments_of_weights(facts)
        records = max(facts.expected_size / facts.largest_weight, 1e-9)
        sums = [first * (mean - self.centre), query.encoding.scale * second * (mean - square), SQUARES * second * mean]
        sums += [LEVEL * second] if query.encoding.level else []
        return np.array(sums) / records

    def unit_profiles(self, query: Query, facts: Facts) -> list[Array]:
        return [self.profile(0.0, 0.0, query, facts), self.profile(1.0, 1.0, query, facts)]

    def sampling_variances(self, expected: NoisySums) -> Array | None:
        # The units were counted already: the error at the sums to expect is known better than by declared numbers.
        return None

    def population(self, query: Query, facts: Facts) -> ExpectedPopulation:
        return self.base.population(query, facts)

    def estimate(self, noisy: NoisySums) -> Estimates:
        facts, query, weights = noisy.facts, noisy.query, self.weights
        assert isinstance(query.encoding, CentredMoments)
        # Of yes and no the second moment is nought, and its noise is left aside.
        told = 0.0 if isinstance(self.base, Proportion) else 1.0 / query.encoding.scale
        records = noisy.records[..., 0, :]
        first, second = self._moments_of_weights(facts)
        # What a record of the largest weight adds to the mean.
        unit = facts.largest_weight * weights.largest / weights.size
        mean = self.centre + unit * records[..., 0]
        at = np.clip(mean, 0.0, 1.0)
        level, unsure = np.full(at.shape, second), 0.0
        if query.encoding.level:
            level, unsure = records[..., 3] / LEVEL, 1.0 / LEVEL
        spread = (1.0 - 2.0 * at) * records[..., 2] / SQUARES + at**2 * level - told * records[..., 1]
        doubt = np.sqrt(noisy.variance * (((1.0 - 2.0 * at) / SQUARES) ** 2 + told**2 + (at**2 * unsure) ** 2))
        squares = truncated(spread, doubt, cap=second * np.maximum(at, 1.0 - at) ** 2)
        sampling = unit**2 * squares
        # A noisy count that is off by one unit moves the mean by a factor times how far its cell is from the centre.
        variance_of_y = np.minimum(squares / max(second, 1e-300), at * (1.0 - at))
        apart = self.explains * variance_of_y + (at - self.centre) ** 2
        counted = weights.noise * sum(each**2 for each in weights.factors) / weights.size**2 * apart
        added = np.asarray(unit**2 * noisy.variance)
        units = np.broadcast_to(np.asarray(first**2 / max(second, 1e-300)), mean.shape)
        df = np.maximum(units - 1.0, 1.0)
        fourth, notes = np.asarray(noisy.kurtosis * added**2), [CUT] if weights.cut else []
        found = adjusted(mean, sampling, added + counted, fourth, units, df, notes)
        low, high = self.base.bounds if isinstance(self.base, Mean | Total) else (0.0, 1.0)
        factor = weights.size if isinstance(self.base, Total) else 1.0
        parts = (found.estimate, found.se_sampling, found.se_noise, found.low, found.high)
        estimate, se_sampling, se_noise, first_end, last_end = (
            factor * (low * moved + (high - low) * each[..., None]) for each, moved in zip(parts, (1, 0, 0, 1, 1), strict=True)
        )
        said = (found.notes,) if noisy.one_survey else ()
        whole = found.whole_range[..., None]
        return Estimates(estimate, se_sampling, se_noise, first_end, last_end, said, "public weights", whole_range=whole)

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind, "of": self.base.to_dict(), "weights": self.weights.to_dict()}
        return fields | ({"explains": self.explains} if self.explains != 1.0 else {})


def no_clusters() -> NoGuarantee:
    """The refusal of public weights in cluster samples, before their table is paid for."""
    return NoGuarantee(
        "public weights are not offered for cluster samples",
        because="the variance would need what every cluster adds at each weight",
        hint="final weights of the file, with their narrower guarantee; or publish the plain estimates",
    )


def _read(fields: dict[str, Any]) -> Statistic:
    made = PublicWeights.from_dict(fields["weights"])
    return weighted(statistic_from_dict(fields["of"]), made, explains=fields.get("explains", 1.0))


@register(EXAMPLE, of_another=True, read=_read)
def weighted(of: Statistic, weights: PublicWeights, *, explains: float = 1.0) -> Weighted:
    """A mean, total or proportion of the whole, with public weights that one noisy table made.

    `weights` are made by `Release.weights` from a table that `Survey.weights` released. With them a record moves the weighted sum
    by the largest weight at most, whether its answer changes or its cell: answers and cells are protected alike, and the
    table is paid for once. `explains` is a public share of the variance that the cells explain, for the error that the
    noise of the table brings; without it nothing is supposed.

    >>> from .mean import mean
    >>> rows = [["female", 1.1, 4e6], ["male", 0.9, 5e6]]
    >>> made = PublicWeights.from_dict({"cells": ["sex"], "rows": rows, "noise": 100.0, "size": 8.9e6})
    >>> weighted(mean("income", bounds=(0, 250_000)), made).name
    'mean of income, weighted by sex'
    """
    if not isinstance(of, Mean | Total | Proportion) or not isinstance(weights, PublicWeights):
        raise BadValue(
            "a mean, a total or a proportion takes public weights, and no other statistic",
            given=f"a {type(of).__name__}, a {type(weights).__name__}",
            hint='weighted(mean("income", bounds=(0, 250_000)), release.weights({"sex": {...}}))',
        )
    if of.by or of.where or of.drops:
        raise BadValue("what has public weights is an estimate for the whole", hint="leave out by=, where= and missing='drop'")
    if isinstance(of, Mean | Total) and (of.own or of.estimator != "ratio" or any((of.trim, of.shrink))):
        raise BadValue("what has public weights has one pair of bounds, and neither trim=, shrink= nor another estimator")
    if isinstance(explains, bool) or not isinstance(explains, int | float) or not 0.0 <= explains <= 1.0:
        raise BadValue("explains= is a share of variance", given=repr(explains), hint="a number from 0 to 1")
    return Weighted(of=of.of, by=(), base=of, weights=weights, explains=float(explains), missing=of.missing)
