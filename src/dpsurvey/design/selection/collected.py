"""A file that was collected already."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...loss.refused import Refused
from ...text.layout import ceiling_text
from .base import Bound, Losses, Neighbours, Selection


@dataclass(frozen=True)
class Collected(Selection):
    """A file that was collected already: how it was drawn is in the past, and nothing amplifies."""

    kind: ClassVar[str] = "collected"

    @property
    def inclusion(self) -> float:
        return 1.0

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        return Refused(
            "the file is the data that is protected: who is in it was decided, and perhaps seen, before",
            "spend the budget on the file as it is; to amplify, describe and draw the sample with a secret draw",
            "docs/designs/collected.md",
            f"the mechanism's own loss, {ceiling_text(own, 6)}" if math.isfinite(own := self.known(losses, neighbours)) else "",
        )
