"""Fixed-size methods whose samples can be matched by one exchange, known by a bound on everybody's probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...errors import BadValue
from ...loss.refused import Refused
from ...privacy.rounding import log_mixture, up
from .base import PUBLIC, SAMPLE_ONLY, SECRET, Bound, Losses, Neighbours, Selection, check_rate
from .pps import EXACT_PROBABILITIES, SIZES_PUBLIC, SOURCES, UnequalProbabilities


@dataclass(frozen=True)
class Covering(Selection):
    """Units drawn by a covering method, none with a probability above `rate`: log(1 + rate(e^R - 1)) for every unit.

    The list of probabilities need not be written down; a unit with a smaller one loses less.

    >>> from dpsurvey.design.selection.base import Losses
    >>> round(Covering(0.3, "pivotal").bound(Losses.of(1.0, "replace-one"), "replace-one").upper, 10)
    0.4157352218
    """

    kind: ClassVar[str] = "covering"
    page: ClassVar[str] = "pps"
    fixed_size: ClassVar[bool] = True
    rate: float
    method: str

    def __post_init__(self) -> None:
        check_rate("rate", self.rate)
        if self.method not in SOURCES:
            raise BadValue(f"{self.method!r} is not proved to be covering", hint=", ".join(SOURCES))

    @property
    def inclusion(self) -> float:
        return self.rate

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if neighbours == "add-remove":
            # The same refusal as for a written list, whatever the probabilities.
            return UnequalProbabilities((0.5, 0.5), "public", self.method).bound(losses, neighbours)  # type: ignore[arg-type]
        upper = up(log_mixture((self.rate, losses.replace_one)))
        holds = (SECRET, PUBLIC, SAMPLE_ONLY, SIZES_PUBLIC, EXACT_PROBABILITIES)
        return Bound(upper, 0.0, False, SOURCES[self.method], holds_when=holds)
