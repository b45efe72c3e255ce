"""A share of the list as a simple random sample, its size rounded by chance or to the nearest whole number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..errors import BadValue
from ..loss.refused import Refused
from ..privacy.profile import Relation
from .base import Part
from .poisson import Poisson
from .recipe import Share, Step
from .selected import SelectedDesign
from .selection.base import Selection, check_rate
from .selection.proportional import Proportional
from .srs import SimpleRandom, srs


@dataclass(frozen=True)
class ProportionalShare(SelectedDesign):
    """floor(rate N) units, or one more with a probability that makes every unit's chance exactly the rate.

    N is counted where the draw is made and need not be declared. Under add-remove the loss is the exact one of
    randomised rounding, log(1 + r(e^d - 1) + r(1-r)(e^R - 1)).

    >>> proportional(0.1).largest_probability
    0.1
    """

    kind: ClassVar[str] = "proportional"
    fixed_size: ClassVar[bool] = False  # type: ignore[misc]
    sample_relation: ClassVar[Relation] = "add-remove"
    sizes_may_change: ClassVar[bool] = True
    rate: float

    def __post_init__(self) -> None:
        check_rate("rate", self.rate)

    def recipe(self) -> Step:
        return Share(float(self.rate), "random")

    def parts(self) -> tuple[Part, ...]:
        return (Part(None, float(self.rate)),)

    def amplifier(self) -> Selection | Refused:
        return Proportional(float(self.rate), "random")

    def resized(self, factor: float) -> ProportionalShare:
        return ProportionalShare(min(1.0, self.rate * factor))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ProportionalShare | Poisson | SimpleRandom:
        return proportional(**fields)


def proportional(
    rate: float, *, rounding: Literal["random", "nearest", "none"] = "random"
) -> ProportionalShare | Poisson | SimpleRandom:
    """A share of the list: its size rounded by chance, or to the nearest whole number, or not at all (each unit by itself).

    >>> proportional(0.1), proportional(0.1, rounding="none")
    (ProportionalShare(rate=0.1), Poisson(rate=0.1, size=None))
    """
    if rounding == "random":
        return ProportionalShare(rate)
    if rounding == "none":
        return Poisson(rate)
    if rounding == "nearest":
        return srs(rate=rate)
    raise BadValue(f"unknown rounding {rounding!r}", hint="random, nearest or none")
