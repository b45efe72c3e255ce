"""Numbers that are one noisy sum over another: what they are made of, and what one record adds to their errors.

A number is `offset + span * R` with R = A/B, A and B linear in the noisy sums (B may be a public constant). Near the estimate a
record moves R by (a - R b)/B, a and b what it adds to A and B; the length of what clusters add in that direction is the standard
error of the number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..mechanism.cluster_norm import Directions
from .encodings import AnswerAndRecord, Both, Pair
from .estimators.interval import Array
from .noisy_sums import NoisySums
from .query import Query


@dataclass(frozen=True)
class LinearNumbers:
    """Coefficients of the noisy sums, in records: (numbers, cells, components) for A and for B, to which `constant` is added.

    `members` says of which groups each number is, (numbers, groups). R lies in [low, high]; `open` says that an R of `high` is as
    good as one without an end. Of yes and no `unit` is what a unit counts on average, over the most that any does, else 0.
    """

    top: Array
    bottom: Array
    constant: Array
    low: Array
    high: Array
    offset: Array
    span: Array
    members: npt.NDArray[np.bool_]
    unit: float = 0.0
    open: bool = False
    keeps_outside: bool = False

    @property
    def divides(self) -> npt.NDArray[np.bool_]:
        """Whether a number is divided by noisy units."""
        return np.asarray(np.any(self.bottom != 0.0, axis=(1, 2)))

    def numerator(self, noisy: NoisySums) -> Array:
        """A of every number, in records."""
        return np.asarray(np.einsum("ncj,...cj->...n", self.top, noisy.records))

    def denominator(self, noisy: NoisySums) -> Array:
        """B of every number, in records."""
        return np.asarray(np.einsum("ncj,...cj->...n", self.bottom, noisy.records) + self.constant)

    def per_record(self, noisy: NoisySums) -> Array:
        """What a record adds to the error of every number, at the noisy estimate: (numbers, cells, components)."""
        bottom = self.denominator(noisy)
        # Noise may leave nothing, or less, of a denominator: then nothing can be said, and nothing is divided by it.
        sound = bottom > 1e-9
        safe = np.where(sound, bottom, 1.0)
        value = np.clip(np.where(sound, self.numerator(noisy) / safe, 0.0), self.low, self.high)
        found = (self.top - value[:, None, None] * self.bottom) * (np.asarray(self.span) * sound / safe)[:, None, None]
        return np.asarray(found)

    def directions(self, noisy: NoisySums) -> Directions:
        """The same as a mechanism asks for it."""
        return Directions(self.per_record(noisy), self.members, self.divides)

    def scaled(self, factor: Array | float) -> LinearNumbers:
        """The numbers times public constants."""
        return replace(self, offset=self.offset * factor, span=self.span * factor)

    def of(self, places: list[int]) -> LinearNumbers:
        """Some of the numbers."""
        arrays = ("top", "bottom", "constant", "low", "high", "offset", "span", "members")
        return replace(self, **{name: getattr(self, name)[places] for name in arrays})


def answers_and_records(query: Query) -> tuple[Array, Array]:
    """Coefficients of the components of one cell: of the answer, and of whole records."""
    if isinstance(query.encoding, AnswerAndRecord):
        return np.array([1.0, 0.0]), np.array([0.0, 1.0 / query.encoding.record_scale])
    if isinstance(query.encoding, Pair):
        return np.array([1.0, 0.0]), np.array([1.0, 1.0])
    if isinstance(query.encoding, Both):
        return np.array([1.0, 0.0]), np.array([0.0, 1.0])
    return np.array([1.0]), np.array([1.0])


def _padded(query: Query, parts: Array) -> Array:
    """With a component of 0 for those who are left out."""
    return np.concatenate([parts, np.zeros(query.components - len(parts))])


def by_group(query: Query, low: Array | float, high: Array | float, *, unit: float = 0.0, open: bool = False) -> LinearNumbers:
    """Means, proportions and ratios of every group, on [low, high]."""
    groups = len(query.groups)
    answer, record = (_padded(query, each) for each in answers_and_records(query))
    eye = np.eye(groups)[:, :, None]
    lows, highs = (np.broadcast_to(np.asarray(each, dtype=np.float64), (groups,)) for each in (low, high))
    most = highs if open else np.ones(groups)
    return LinearNumbers(
        eye * answer,
        eye * record,
        np.zeros(groups),
        np.zeros(groups),
        most,
        np.zeros(groups) if open else lows,
        np.ones(groups) if open else highs - lows,
        np.eye(groups, dtype=np.bool_),
        unit,
        open,
    )


def shares_of_whole(
    query: Query,
    low: Array | float,
    high: Array | float,
    size: float | None,
    largest_weight: float,
    *,
    merged: Array | None = None,
) -> LinearNumbers:
    """Totals by group, as shares of all units times the size of the frame; without a size weighted sums stand for themselves.

    `merged` (numbers by groups) adds groups up, as for the margins of a table.
    """
    groups = len(query.groups)
    answer, record = (_padded(query, each) for each in answers_and_records(query))
    lows, highs = (np.broadcast_to(np.asarray(each, dtype=np.float64), (groups,)) for each in (low, high))
    value = lows[:, None] * record + (highs - lows)[:, None] * answer
    members = np.eye(groups) if merged is None else np.asarray(merged, dtype=np.float64)
    top = members[:, :, None] * value[None]
    numbers = len(members)
    least = np.minimum(0.0, members @ lows) if merged is None else np.zeros(numbers)
    most = np.maximum(0.0, members @ highs) if merged is None else np.ones(numbers)
    if size is None:
        endless = np.full(numbers, np.inf)
        nothing = np.zeros_like(top)
        weight = np.full(numbers, largest_weight)
        return LinearNumbers(
            top, nothing, np.ones(numbers), -endless, endless, np.zeros(numbers), weight, members > 0.0, keeps_outside=True
        )
    bottom = np.broadcast_to(record, top.shape).copy()
    span = np.full(numbers, size)
    return LinearNumbers(top, bottom, np.zeros(numbers), least, most, np.zeros(numbers), span, members > 0.0, keeps_outside=True)
