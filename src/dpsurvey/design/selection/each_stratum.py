"""Independent draws in several strata: the stratum with the largest loss decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...errors import BadValue
from ...loss.refused import Refused
from ...privacy.curve import Curve
from .base import Bound, Losses, Neighbours, Selection

STAYS = "a record stays in its public stratum"


@dataclass(frozen=True)
class EachStratum(Selection):
    """A draw of its own in each stratum, independent of the others; a record stays in its public stratum.

    Given the samples of the other strata, the mechanism on the rest is as private as the whole, so a record loses
    what its own stratum's draw gives: the largest over strata bounds everybody.

    >>> from dpsurvey.design.selection import Independent
    >>> both = EachStratum((Independent((0.1,)), Independent((0.5,))))
    >>> round(both.bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 4)
    0.6201
    """

    kind: ClassVar[str] = "each-stratum"
    page: ClassVar[str] = "stratified"
    strata: tuple[Selection, ...]

    def __post_init__(self) -> None:
        if not self.strata or not all(isinstance(each, Selection) for each in self.strata):
            raise BadValue("strata must name the selection of at least one stratum")

    @property
    def inclusion(self) -> float:
        return max(each.inclusion for each in self.strata)

    @property
    def detection_steps(self) -> float:
        return max(each.detection_steps for each in self.strata)

    @property
    def depends_on_data(self) -> float:
        return max(each.depends_on_data for each in self.strata)

    def known(self, losses: Losses, neighbours: Neighbours) -> float:
        return max(each.known(losses, neighbours) for each in self.strata)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        answers = [each.bound(losses, neighbours) for each in self.strata]
        for answer in answers:
            if isinstance(answer, Refused):
                return answer
        bounds = [answer for answer in answers if isinstance(answer, Bound)]
        worst = max(bounds, key=lambda bound: bound.upper)
        every = all(bound.scope == "every population" for bound in bounds)
        holds = tuple(dict.fromkeys([STAYS, *(note for bound in bounds for note in bound.holds_when)]))
        lower = max(bound.lower for bound in bounds)
        scope = "every population" if every else "this population"
        exact = worst.exact and lower >= worst.lower
        return Bound(worst.upper, lower, exact, worst.source, scope, holds, worst.certified_by)  # type: ignore[arg-type]

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        return max(each.sharper(base, losses, neighbours, alpha) for each in self.strata)
