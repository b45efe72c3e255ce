"""Conditions: which records a statistic is about. The others stay in the design and add nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..design.frame import Frame, label_text
from ..errors import BadValue, did_you_mean

_HINT = 'where={"sex": "female"}, {"region": ["north", "south"]}, or {"age": (15, 74)}'


@dataclass(frozen=True)
class Condition:
    """A column that has one of some labels, or lies between two numbers, both included.

    >>> read_where({"sex": "female", "age": (15, 74)})[1]
    Condition(column='age', labels=(), low=15.0, high=74.0)
    """

    column: str
    labels: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf

    @property
    def words(self) -> str:
        """The condition in words."""
        if self.labels:
            return f"{self.column} = {' or '.join(self.labels)}"
        return f"{self.column} from {self.low:g} to {self.high:g}"

    def to_dict(self) -> Any:
        """JSON-ready: a label, a list of them, or from and to."""
        if self.labels:
            return self.labels[0] if len(self.labels) == 1 else list(self.labels)
        return {"from": self.low, "to": self.high}

    def check(self, frame: Frame) -> None:
        """Refuse a label that the frame does not declare."""
        declared = frame.categories.get(self.column)
        for label in self.labels:
            if declared is not None and label not in declared:
                raise BadValue(
                    f"{label!r} is not a declared category of {self.column!r}", hint=did_you_mean(label, declared, "declared")
                )


def read_where(where: Mapping[str, Any] | None) -> tuple[Condition, ...]:
    """Conditions from a mapping of columns to a label, a list of labels, or a pair of numbers.

    >>> read_where({"region": ["north", "south"]})[0].words
    'region = north or south'
    """
    if where is None:
        return ()
    if not isinstance(where, Mapping) or not all(isinstance(name, str) and name for name in where):
        raise BadValue("where= takes a mapping from columns to what they must be", given=repr(where), hint=_HINT)
    return tuple(_read(column, wanted) for column, wanted in where.items())


def _read(column: str, wanted: Any) -> Condition:
    if isinstance(wanted, Mapping):
        if set(wanted) != {"from", "to"}:
            raise BadValue(f"the range of {column!r} needs from and to", given=repr(dict(wanted)), hint=_HINT)
        wanted = (wanted["from"], wanted["to"])
    if isinstance(wanted, tuple):
        try:
            if any(isinstance(end, str | bool) for end in wanted):
                raise TypeError
            low, high = (float(end) for end in wanted)
        except (TypeError, ValueError):
            raise BadValue(f"the range of {column!r} is a pair of numbers", given=repr(wanted), hint=_HINT) from None
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise BadValue(f"the range of {column!r} must be finite and in order", given=repr(wanted))
        return Condition(column, (), low, high)
    labels = tuple(label_text(label) for label in (wanted if isinstance(wanted, list) else [wanted]))
    if not labels or len(set(labels)) < len(labels):
        raise BadValue(f"the labels of {column!r} in where= must be distinct and not empty", given=repr(wanted), hint=_HINT)
    return Condition(column, labels)
