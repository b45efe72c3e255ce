"""Households and other entities: a guarantee for up to K units together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..errors import BadValue
from ..loss.bound import Bound, Losses, Refused
from ..loss.size_law import binomial
from ..loss.transport import several_sinks, several_sources
from ..privacy.curve import Curve
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import amplified, below, log_mixture, up
from ..privacy.setting import Setting
from .base import Design
from .checks import check_count
from .collected import refuse_collected
from .poisson import IndependentDraws
from .registry import register
from .wrapped import Wrapped

SOURCE = "docs/designs/groups.md"


@dataclass(frozen=True)
class Group(Wrapped):
    """Up to `units` units of one entity, drawn by themselves ("separately") or all together ("together").

    Separately: units times the loss of one unit, exact for Poisson sampling. Together, where the entity is what is
    drawn: the sample's own loss for `units` records, amplified by the rate.

    >>> from dpsurvey.loss.bound import Losses
    >>> from .poisson import poisson
    >>> round(group(poisson(0.1), 3).bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    0.4756952362
    """

    kind: ClassVar[str] = "group"
    design: Design
    units: int
    drawn: Literal["separately", "together"] = "separately"

    def __post_init__(self) -> None:
        check_count("units", self.units)
        refuse_collected(self.design)
        if self.drawn not in ("separately", "together"):
            raise BadValue(f"unknown way to draw {self.drawn!r}", hint="separately or together")
        if self.drawn == "together" and not isinstance(self.design, IndependentDraws):
            raise BadValue("entities drawn together are covered for Poisson sampling of entities", hint="use drawn='separately'")

    def in_words(self, unit: str = "unit") -> str:
        return f"{self.design.in_words(unit)}, up to {self.units:,} {unit}s of one entity together"

    def around(self, design: Design) -> Group:
        return Group(design, self.units, self.drawn)

    def refuses(self, setting: Setting) -> Refused | None:
        return Refused(
            "a survey's guarantee is for one record of the frame, and its statistics do not bound what several add",
            "amplify(group(...), ...) says what an entity loses; draw entities, with what they have in all as one record",
            SOURCE,
        )

    @property
    def largest_probability(self) -> float:
        return self._of_any(self.design.largest_probability)

    @property
    def listed_probability(self) -> float:
        return self._of_any(self.design.listed_probability)

    def _of_any(self, p: float) -> float:
        """The probability that any unit of the entity is there, from that of one."""
        return p if self.drawn == "together" else min(1.0, -math.expm1(self.units * math.log1p(-p)) if p < 1.0 else 1.0)

    @property
    def detection_steps(self) -> float:
        return self.units * self.design.detection_steps

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        return self.units * self.design.loss_in_sample(losses, neighbours)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        one = self.design.bound(losses, neighbours)
        if isinstance(one, Refused):
            return one
        holds = (*one.holds_when, f"no entity has more than {self.units} units on the frame")
        if self.drawn == "together":
            return self._together(losses, neighbours, holds)
        if neighbours == Relation.ADD_REMOVE and self.design.rests_on_size:
            return Refused(
                "a fixed number of units is drawn, so each unit of the group that leaves raises the rate for the others",
                'neighbours="replace-one", or Poisson sampling',
                SOURCE,
            )
        if one.scope != "every population":
            return Refused(
                "the loss of one unit holds for this population only, and a group takes several steps away from it",
                "a public cap on the cluster sizes",
                SOURCE,
            )
        value = up(self.units * one.upper)
        exact = one.exact and isinstance(self.design, IndependentDraws)
        lower = below(self.units * one.lower) if exact else one.lower
        return Bound(value, min(lower, value), exact, f"{one.source}; {SOURCE}", one.scope, holds, common=one.common)

    def _together(self, losses: Losses, neighbours: Neighbours, holds: tuple[str, ...]) -> Bound:
        step = losses.add_remove if neighbours == Relation.ADD_REMOVE else losses.replace_one
        value = up(amplified(self.units * losses.add_remove, self.design.largest_probability))
        if neighbours == Relation.REPLACE_ONE:
            # All units of the entity at once: two moves of the whole entity, or `units` replacements when it is drawn.
            value = up(min(self.units * step, 2.0 * value))
        lower = below(log_mixture((self.design.largest_probability, self.units * min(losses.add_remove, losses.replace_one))))
        return Bound(value, min(lower, value), neighbours == Relation.ADD_REMOVE, SOURCE, holds_when=holds)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        if neighbours != Relation.ADD_REMOVE or not isinstance(self.design, IndependentDraws):
            return 1.0
        p = self.design.largest_probability
        if self.drawn == "together":
            return self.design.sharper(base.steps(self.units), losses, neighbours, alpha)
        counts = [(weight, k) for k, weight in binomial(self.units, p) if k]
        forward = several_sources(counts, alpha - 1.0 + self.largest_probability, base)
        return max(forward, several_sinks(counts, self.largest_probability, alpha, base))


@register("group", page="groups", commands={}, drawn=False)
def group(design: Design, units: int, *, drawn: Literal["separately", "together"] = "separately") -> Group:
    """A guarantee for up to `units` units of one entity, such as the members of a household, drawn separately or together.

    >>> from dpsurvey.design import poisson
    >>> round(group(poisson(0.1), 3).largest_probability, 3)
    0.271
    """
    return Group(design, units, drawn)
