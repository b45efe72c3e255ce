"""Simple random sampling with replacement: n independent draws; a unit may be drawn several times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..errors import BadValue
from ..loss.refused import Refused
from .base import Part
from .frame import Frame
from .recipe import Repeated, Step
from .selected import SelectedDesign
from .selection.base import Selection, check_count
from .selection.simple import WithReplacement


@dataclass(frozen=True)
class SimpleWithReplacement(SelectedDesign):
    """n draws from N units, each unit equally likely at each draw. The weight of one draw is N/n.

    A unit that was drawn k times is in the sample k times, so someone known to be in it may lose n times epsilon.

    >>> design = with_replacement(n=10).resolve(Frame("f.parquet", unit="id", size=1000))
    >>> design.copies, round(design.largest_probability, 6)
    (10, 0.009955)
    """

    kind: ClassVar[str] = "with-replacement"
    n: int
    size: int | None = field(default=None, init=True)

    def __post_init__(self) -> None:
        check_count("n", self.n)

    @property
    def copies(self) -> int:  # type: ignore[override]
        return self.n

    def resolve(self, frame: Frame) -> SimpleWithReplacement:
        return self.sized(frame.size)

    def sized(self, size: int | None) -> SimpleWithReplacement:
        """The design on a frame, or a stratum, of a declared size."""
        return replace(self, size=size)

    def recipe(self) -> Step:
        return Repeated(self.n)

    def parts(self) -> tuple[Part, ...]:
        # The weight of one draw; a unit that was drawn twice counts twice.
        return (Part(None, self.n / self.size, self.n, self.size, replaced=True),) if self.size is not None else ()

    def amplifier(self) -> Selection | Refused:
        if self.size is None:
            raise BadValue("sampling with replacement needs the public size of the frame", hint="declare Frame(..., size=N)")
        return WithReplacement(self.n, self.size)

    def resized(self, factor: float) -> SimpleWithReplacement:
        return replace(self, n=max(1, round(self.n * factor)))

    @property
    def most(self) -> float:
        return math.inf

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "n": self.n}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SimpleWithReplacement:
        return with_replacement(**fields)


def with_replacement(n: int) -> SimpleWithReplacement:
    """n independent draws, each unit equally likely at each.

    >>> with_replacement(n=10)
    SimpleWithReplacement(n=10, size=None)
    """
    return SimpleWithReplacement(n)
