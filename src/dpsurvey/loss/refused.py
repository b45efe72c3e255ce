"""Refused: why a design does not amplify, and the way out. A value, not an exception."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refused:
    """Why a design does not amplify here, by which source, and what to do instead.

    `bound` is a loss that is proved all the same where there is one, in steps of the mechanism's epsilon in words.
    """

    reason: str
    instead: str
    source: str
    bound: str = ""

    def __str__(self) -> str:
        return f"no amplification: {self.reason} ({self.source}); instead: {self.instead}"
