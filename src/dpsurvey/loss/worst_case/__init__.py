"""The exact worst loss over all mechanisms of a type, as a linear programme, with the mechanism that attains it."""

from __future__ import annotations

from .contest import Contest
from .hockey_stick import WorstDelta, worst_delta
from .programme import WorstLoss, worst_loss
from .witness import Witness

__all__ = ["Contest", "Witness", "WorstDelta", "WorstLoss", "worst_delta", "worst_loss"]
