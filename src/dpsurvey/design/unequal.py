"""Poisson sampling with unequal probabilities: each unit by itself, with its own public rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..loss.refused import Refused
from ..privacy.profile import PrivacyProfile, Relation
from ..privacy.setting import Setting
from .base import Amplified
from .poisson import amplify_independent, base_of_independent
from .recipe import EachBy, Step
from .selected import SelectedDesign, check_name
from .selection.base import Selection, check_rate
from .selection.independent import Independent


@dataclass(frozen=True)
class UnequalPoisson(SelectedDesign):
    """Each unit independently, with the probability in a public column, which nowhere exceeds `at_most`.

    The loss is that of Poisson sampling at the rate `at_most`; a unit with a smaller rate loses less.

    >>> poisson_by("rate", at_most=0.1).largest_probability
    0.1
    """

    kind: ClassVar[str] = "poisson-by"
    fixed_size: ClassVar[bool] = False  # type: ignore[misc]
    rate: str
    at_most: float

    def __post_init__(self) -> None:
        check_name("rate", self.rate)
        check_rate("at_most", self.at_most)

    def recipe(self) -> Step:
        return EachBy(self.rate, self.at_most)

    def amplifier(self) -> Selection | Refused:
        return Independent((self.at_most,))

    # The rate of a unit is its own, so one unit more or less leaves all others as they are.
    def refuses(self, setting: Setting) -> Refused | None:
        return None

    def base_relation(self, setting: Setting) -> Relation:
        return base_of_independent(setting)

    def weights_move(self, setting: Setting) -> bool:
        # The rate of a unit is in its own record, and no other record changes it.
        return False

    def relation_name(self, setting: Setting) -> str:
        return ""

    def amplify(self, profile: PrivacyProfile, setting: Setting) -> Amplified | Refused:
        return amplify_independent(profile, setting, self.at_most)

    def resized(self, factor: float) -> UnequalPoisson:
        return UnequalPoisson(self.rate, min(1.0, self.at_most * factor))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> UnequalPoisson:
        return poisson_by(**fields)


def poisson_by(rate: str, *, at_most: float) -> UnequalPoisson:
    """Draw each unit independently, with the probability in a public column that is nowhere above `at_most`.

    >>> poisson_by("rate", at_most=0.1)
    UnequalPoisson(rate='rate', at_most=0.1)
    """
    return UnequalPoisson(rate, at_most)
