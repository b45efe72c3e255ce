"""Households and other entities: a guarantee for up to K units together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import BadValue
from ...loss.refused import Refused
from ...loss.transport import several_sinks, several_sources
from ...privacy.curve import Curve
from ...privacy.rounding import amplified, below, log_mixture, up
from .base import Bound, Losses, Neighbours, Selection, check_count
from .independent import Independent
from .simple import binomial

SOURCE = "docs/designs/groups.md"


@dataclass(frozen=True)
class Group(Selection):
    """Up to `units` units of one entity, drawn by themselves ("separately") or all together ("together").

    Separately: units times the loss of one unit, exact for Poisson sampling. Together, where the entity is what is
    drawn: the sample's own loss for `units` records, amplified by the rate.

    >>> from dpsurvey.design.selection.base import Losses
    >>> round(Group(Independent((0.1,)), 3).bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    0.4756952362
    """

    kind: ClassVar[str] = "group"
    page: ClassVar[str] = "groups"
    sample: Selection
    units: int
    drawn: Literal["separately", "together"] = "separately"

    def __post_init__(self) -> None:
        check_count("units", self.units)
        if self.drawn not in ("separately", "together"):
            raise BadValue(f"unknown way to draw {self.drawn!r}", hint="separately or together")
        if self.drawn == "together" and not isinstance(self.sample, Independent):
            raise BadValue("entities drawn together are covered for Poisson sampling of entities", hint="use drawn='separately'")

    @property
    def inclusion(self) -> float:
        p = self.sample.inclusion
        return p if self.drawn == "together" else min(1.0, -math.expm1(self.units * math.log1p(-p)) if p < 1.0 else 1.0)

    @property
    def detection_steps(self) -> float:
        return self.units * self.sample.detection_steps

    def known(self, losses: Losses, neighbours: Neighbours) -> float:
        return self.units * self.sample.known(losses, neighbours)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        one = self.sample.bound(losses, neighbours)
        if isinstance(one, Refused):
            return one
        holds = (*one.holds_when, f"no entity has more than {self.units} units on the frame")
        if self.drawn == "together":
            return self._together(losses, neighbours, holds)
        if neighbours == "add-remove" and self.sample.fixed_size:
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
        exact = one.exact and isinstance(self.sample, Independent)
        lower = below(self.units * one.lower) if exact else one.lower
        return Bound(value, min(lower, value), exact, f"{one.source}; {SOURCE}", one.scope, holds)

    def _together(self, losses: Losses, neighbours: Neighbours, holds: tuple[str, ...]) -> Bound:
        step = losses.add_remove if neighbours == "add-remove" else losses.replace_one
        value = up(amplified(self.units * losses.add_remove, self.sample.inclusion))
        if neighbours == "replace-one":
            # All units of the entity at once: two moves of the whole entity, or `units` replacements when it is drawn.
            value = up(min(self.units * step, 2.0 * value))
        lower = below(log_mixture((self.sample.inclusion, self.units * min(losses.add_remove, losses.replace_one))))
        return Bound(value, min(lower, value), neighbours == "add-remove", SOURCE, holds_when=holds)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        if neighbours != "add-remove" or not isinstance(self.sample, Independent):
            return 1.0
        p = self.sample.inclusion
        if self.drawn == "together":
            return self.sample.sharper(base.steps(self.units), losses, neighbours, alpha)
        counts = [(weight, k) for k, weight in binomial(self.units, p) if k]
        forward = several_sources(counts, alpha - 1.0 + self.inclusion, base)
        return max(forward, several_sinks(counts, self.inclusion, alpha, base))
