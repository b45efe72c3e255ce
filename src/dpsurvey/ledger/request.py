"""Request: what somebody wants to charge to one sample of a survey, before it is on record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..privacy.profile import PrivacyProfile
from .terms import Terms


@dataclass(frozen=True)
class Charge:
    """What one answer costs somebody in the sample, and what was asked, JSON-ready."""

    profile: PrivacyProfile
    asked: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    what: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The charge as the ledger writes it."""
        named = {"what": self.what} if self.what else {}
        return {"profile": self.profile.to_dict(), "asked": [dict(each) for each in self.asked]} | named


@dataclass(frozen=True)
class Request:
    """Charges that belong together: they are quoted, reserved and committed as one, and never twice.

    `fingerprint` tells the same request from another one.
    """

    terms: Terms
    charges: tuple[Charge, ...]
    fingerprint: str

    @property
    def profiles(self) -> list[PrivacyProfile]:
        """What each charge costs somebody in the sample."""
        return [charge.profile for charge in self.charges]
