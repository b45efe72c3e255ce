"""What every statistic answers, the public facts it may use, and the numbers it gives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..design.base import Design, Part
from ..errors import BadValue
from ..frame import Frame, label_text
from ..mechanism.base import Mechanism, Norm
from ..privacy.profile import Relation
from .interval import Array
from .query import FINE, FINEST, SECOND_MOMENT_SCALE, Encoding, Query


@dataclass(frozen=True)
class Facts:
    """The public facts of a survey that statistics are planned and estimated from. No rows.

    `relation` is the neighbour relation on the sample, `norm` the sensitivity that the mechanism needs.
    `respondents_only` says that answers come from a file of those who responded, so that no size is public.
    """

    frame: Frame
    design: Design
    relation: Relation
    norm: Norm
    respondents_only: bool = False

    @property
    def size(self) -> int:
        """The declared size of the frame."""
        if self.frame.size is None:
            raise BadValue(
                "a survey needs the public size of its frame",
                because="normalisers are declared, never read from rows",
                hint="declare Frame(..., size=N)",
            )
        return self.frame.size

    @property
    def parts(self) -> tuple[Part, ...]:
        """The strata, or the whole frame."""
        return self.design.parts()

    @property
    def largest_weight(self) -> float:
        """The largest design weight."""
        return max(part.weight for part in self.parts)

    def sizes_are_public(self, by: tuple[str, ...]) -> bool:
        """Whether the number of sampled units in every group is fixed by design and a record stays in its group."""
        strata = self.design.strata_column
        return self.design.fixed_size and not self.respondents_only and (not by or by == (strata,))

    @property
    def sampled_units(self) -> float | None:
        """The public number of sampled units, each counted by its weight over the largest; None where it is secret."""
        if not self.design.fixed_size or self.respondents_only:
            return None
        return sum((part.take or 0) * part.weight for part in self.parts) / self.largest_weight

    def lattice(self, steps: int, *, weighted: bool) -> tuple[tuple[str | None, int], ...]:
        """Lattice steps per unit of y: the same for all, or in proportion to the design weight by stratum."""
        weights = {part.label: part.weight / self.largest_weight for part in self.parts}
        if not weighted or min(weights.values()) > 1.0 - 1e-12:
            return ((None, steps),)
        # Finer where weights differ much, so that rounding the smallest of them stays a matter of millionths.
        fine = min(FINEST, FINE * math.ceil(1.0 / min(weights.values())))
        return tuple((label, max(1, round(fine * weight))) for label, weight in weights.items())

    def thinning(self, by: tuple[str, ...], groups: tuple[tuple[str, ...], ...]) -> Array:
        """1 minus the inclusion probability, by group where it is known, else 1 minus the smallest."""
        rates = {part.label: part.probability for part in self.parts}
        least = min(rates.values())
        strata = self.design.strata_column
        where = by.index(strata) if strata in by else None
        chosen = [least if where is None else rates.get(group[where], least) for group in groups]
        # Nonresponse thins the sample further, by rates nobody knows: 1 is never too small.
        thinning = np.ones(len(groups)) if self.respondents_only else 1.0 - np.asarray(chosen)
        # In a stratum of N_h units a fixed-size draw sees N_h/(N_h-1) times the mean square.
        sizes = [part.size for part in self.parts if part.size and part.size > 1] if self.design.fixed_size else []
        return thinning * (min(sizes) / (min(sizes) - 1.0) if sizes else 1.0)


@dataclass(frozen=True)
class Numbers:
    """Estimates of one statistic for all its groups (last axis), with errors and notes."""

    estimate: Array
    se_sampling: Array
    se_noise: Array
    low: Array
    high: Array
    notes: tuple[tuple[str, ...], ...] = ()

    def scaled(self, factor: Array | float) -> Numbers:
        """The numbers times public constants, one for all or one per group."""
        return Numbers(
            self.estimate * factor,
            self.se_sampling * factor,
            self.se_noise * factor,
            self.low * factor,
            self.high * factor,
            self.notes,
        )


@dataclass(frozen=True)
class Statistic(ABC):
    """What is asked. An immutable value; it executes nothing."""

    kind: ClassVar[str]
    of: str | None
    by: tuple[str, ...] = ()

    @abstractmethod
    def query(self, facts: Facts) -> Query:
        """The sums this statistic needs under the facts."""

    @abstractmethod
    def estimate(self, noisy: Array, query: Query, mechanism: Mechanism, facts: Facts) -> Numbers:
        """Numbers from noisy sums of shape (..., groups, components); post-processing only."""

    @abstractmethod
    def typical(self) -> tuple[float, float]:
        """Mean and mean square of y on [0, 1] that errors are predicted with: declared, or the worst case."""

    @property
    @abstractmethod
    def prediction_rests_on(self) -> str:
        """Where `typical` comes from, in words."""

    @property
    def name(self) -> str:
        """The statistic in words."""
        what = f"{self.kind} of {self.label}" if self.label else self.kind
        return what + (f" by {', '.join(self.by)}" if self.by else "")

    @property
    def label(self) -> str:
        """What is measured, in words."""
        return self.of or ""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; `statistic_from_dict` reads it back."""

    @classmethod
    @abstractmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The statistic that `to_dict` wrote, `kind` left out."""

    def _query(
        self,
        facts: Facts,
        encoding: Encoding,
        steps: int,
        *,
        weighted: bool,
        bounds: tuple[float, float] | None = None,
        value: str | None = None,
    ) -> Query:
        return Query(
            encoding=encoding,
            column=self.of,
            bounds=bounds,
            value=value,
            by=self.by,
            categories=tuple(facts.frame.labels(column) for column in self.by),
            lattice=facts.lattice(steps, weighted=weighted),
            strata_column=facts.design.strata_column,
            group_is_fixed=facts.sizes_are_public(self.by),
            second_moment_scale=SECOND_MOMENT_SCALE[facts.norm] if encoding == "moments" else 1.0,
        )


def expected_sums(statistic: Statistic, query: Query, facts: Facts) -> tuple[Array, bool]:
    """The sums to expect, from declared figures alone; and whether all group sizes were declared.

    Groups of undeclared size count as equal parts of the frame.
    """
    mean, square = statistic.typical()
    profile = {
        "triple": [square, 2.0 * (mean - square), 1.0 - 2.0 * mean + square],
        "pair": [mean, 1.0 - mean],
        "yes": [mean],
        "units": [1.0],
        "moments": [mean, query.second_moment_scale * (mean - square)],
    }[query.encoding]
    flat = len(query.lattice) == 1
    strata = {part.label: part for part in facts.parts}
    counts, declared = [], True
    for group in query.groups:
        size = facts.frame.known_size(query.by, group)
        declared = declared and size is not None
        units = size if size is not None else facts.size * _expected_share(facts.frame, query.by, group)
        where = query.by.index(query.strata_column) if query.strata_column in query.by else None
        own = strata.get(group[where]) if where is not None else None
        rate = own.probability if own is not None and flat else 1.0 / facts.largest_weight
        counts.append(units * rate)
    return np.asarray(counts)[:, None] * np.asarray(profile)[None, :] * query.steps, declared


def _expected_share(frame: Frame, by: tuple[str, ...], group: tuple[str, ...]) -> float:
    """The share of a group if its columns were unrelated: declared shares where there are any, equal parts elsewhere."""
    share = 1.0
    for column, label in zip(by, group, strict=True):
        sizes = frame.category_sizes.get(column)
        share *= sizes[label] / sum(sizes.values()) if sizes else 1.0 / len(frame.labels(column))
    return share


def check_by(by: str | tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    """`by` as a tuple of distinct column names."""
    names = (by,) if isinstance(by, str) or not isinstance(by, tuple | list | None) else tuple(by or ())
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise BadValue("by= takes one column name or several distinct ones", given=repr(by))
    return names


def check_bounds(bounds: tuple[float, float] | list[float] | None, of: str) -> tuple[float, float]:
    """Public bounds as an ordered pair of finite numbers."""
    if bounds is None:
        raise BadValue(
            f"the bounds of {of!r} are missing",
            because="a value without public bounds can move a sum by any amount",
            hint="give bounds=(lowest, highest), from public knowledge, not from the data",
        )
    try:
        if any(isinstance(end, str | bool) for end in bounds):
            raise TypeError
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        raise BadValue(f"the bounds of {of!r} must be two numbers", given=repr(bounds)) from None
    if not (np.isfinite(high - low) and low < high):
        raise BadValue(
            f"the bounds of {of!r} must be finite and in order",
            given=f"bounds=({low:g}, {high:g})",
            hint="bounds=(lowest, highest)",
        )
    return low, high


def check_value(value: object, of: str) -> str:
    """The category that is counted, as text."""
    if value is None:
        raise BadValue(f"say which value of {of!r} is counted", hint=f'for example ("{of}", "yes")')
    return label_text(value)
