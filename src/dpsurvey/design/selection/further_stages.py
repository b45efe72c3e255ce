"""Three stages or more: the last one that selects units amplifies, given what the earlier ones drew."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import BadValue
from ...loss.refused import Refused
from ...privacy.rounding import log_mixture, up
from .base import PUBLIC, SAMPLE_ONLY, SECRET, Bound, Losses, Neighbours, Selection, check_count, check_rate
from .independent import Independent
from .stages import at_most

STAGES = "docs/designs/stages.md, further stages"


@dataclass(frozen=True)
class FurtherStages(Selection):
    """Three stages or more: given what the earlier stages drew, the last one that selects units amplifies by its rate.

    `first` and `last` name the way clusters and units are drawn; `unit_rate` bounds every unit's probability at the
    last stage, given the stages before. Holds when no earlier stage looks at the unit's data.

    >>> from dpsurvey.design.selection.base import Losses
    >>> FurtherStages(3, "srs", "poisson", 0.1).bound(Losses.of(1.0, "add-remove"), "add-remove").upper < 0.1586
    True
    """

    kind: ClassVar[str] = "further-stages"
    page: ClassVar[str] = "stages"
    stages: int
    first: Literal["srs", "poisson", "pps"]
    last: Literal["poisson", "srs", "systematic"]
    unit_rate: float

    def __post_init__(self) -> None:
        check_count("stages", self.stages, at_least=2)
        check_rate("unit-rate", self.unit_rate)
        if self.first not in ("srs", "poisson", "pps") or self.last not in ("poisson", "srs", "systematic"):
            raise BadValue("unknown way to draw a stage", given=f"first={self.first!r}, last={self.last!r}")

    @property
    def inclusion(self) -> float:
        return self.unit_rate

    @property
    def depends_on_data(self) -> float:
        return math.inf if self.first == "pps" else 1.0

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        reasons = [
            "clusters drawn in proportion to confidential sizes follow the data" if self.first == "pps" else "",
            "systematic units from a sorted list shift with every new one" if self.last == "systematic" else "",
            "a fixed number of units leaves no room for one more or less"
            if self.last == "srs" and neighbours == "add-remove"
            else "",
        ]
        if any(reasons):
            return Refused(
                "; ".join(filter(None, reasons)),
                "clusters by simple random sampling, units inside them by Poisson sampling with public rates",
                STAGES,
            )
        inside: Selection = Independent((self.unit_rate,))
        if self.last == "srs":
            value = up(log_mixture((self.unit_rate, losses.replace_one)))
            drawn = at_most(self.unit_rate, "is drawn at the last stage")
            rate = (SECRET, PUBLIC, SAMPLE_ONLY, drawn, "no earlier stage looks at the unit's data")
            return Bound(value, 0.0, False, STAGES, holds_when=rate)
        answer = inside.bound(losses, neighbours)
        if isinstance(answer, Refused):
            return answer
        holds = (*answer.holds_when, "no earlier stage looks at the unit's data")
        return Bound(answer.upper, 0.0, False, STAGES, holds_when=holds)
