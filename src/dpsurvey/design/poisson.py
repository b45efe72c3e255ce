"""Poisson (Bernoulli) sampling: each unit is drawn by itself, with a public rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue
from ..loss.curves import SampledCurve
from ..loss.refused import Refused
from ..privacy.curve import Approximate
from ..privacy.profile import PrivacyProfile, Relation
from ..privacy.setting import Setting
from .base import PUBLIC_FIGURES, SECRET_DRAW, Amplified, Design, Part, Values, outside_sampling, refuse_amplified
from .frame import Frame
from .recipe import Each, Step
from .selection.independent import Independent

ADD_REMOVE = "Poisson sampling, add-remove: delta'(e) = p delta(log(1+(e^e-1)/p)) (Steinke 2025; Balle, Barthe, Gaboardi 2018)"
REPLACE_PURE = "Poisson sampling, replace-one from add-remove: log((1-p+p e^epsilon)/(1-p+p e^-epsilon)) (docs/amplification.md)"
REPLACE_BOTH = "Poisson sampling, replace-one from both: log(1+p(e^epsilon-1)) (docs/amplification.md)"
REPLACE_CURVE = "Poisson sampling, replace-one from add-remove on the whole curve: the best matching (docs/designs/poisson.md)"
INDEPENDENT = "each unit is drawn independently of the others, with a rate that depends on its own public stratum alone"


@dataclass(frozen=True)
class Poisson(Design):
    """Each unit independently with probability `rate`; the sample size is random and stays secret.

    Holds when: the rate is a public constant; mechanisms on the sample are private under add-remove.

    >>> answer = poisson(0.02).amplify(PrivacyProfile.pure(4.4647, "add-remove"), Setting("frame", neighbours="add-remove"))
    >>> round(answer.profile.epsilon(0.0), 3)
    1.0
    """

    kind: ClassVar[str] = "poisson"
    fixed_size: ClassVar[bool] = False  # type: ignore[misc]
    rate: float
    size: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.rate, bool) or not isinstance(self.rate, int | float) or not 0.0 < self.rate <= 1.0:
            raise BadValue("a rate must be in (0, 1]", given=f"rate={self.rate!r}")

    def resolve(self, frame: Frame) -> Poisson:
        return Poisson(self.rate, frame.size)

    def parts(self) -> tuple[Part, ...]:
        return (Part(None, self.rate, None, self.size),)

    def recipe(self) -> Step:
        return Each(self.rate)

    def variance(self, values: Mapping[str | None, Values]) -> float:
        return poisson_variance(self.parts()[0], values[None])

    def refuses(self, setting: Setting) -> Refused | None:
        return None

    def base_relation(self, setting: Setting) -> Relation:
        return base_of_independent(setting)

    def amplify(self, profile: PrivacyProfile, setting: Setting) -> Amplified | Refused:
        return amplify_independent(profile, setting, self.rate)

    def selection(self) -> Independent:
        return Independent((self.rate,))

    def resized(self, factor: float) -> Poisson:
        return Poisson(min(1.0, self.rate * factor), self.size)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rate": self.rate}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Poisson:
        return poisson(**fields)


def poisson_variance(part: Part, values: Values) -> float:
    """(1 - p)/p^2 times the sum of squares, for one part."""
    return float((1.0 - part.probability) / part.probability**2 * np.sum(values**2))


def base_of_independent(setting: Setting) -> Relation:
    """Upstream of sampling the random size must be protected too, so the sample needs add-remove."""
    return "add-remove" if setting.level < 2 else setting.neighbours


def amplify_independent(profile: PrivacyProfile, setting: Setting, rate: float) -> Amplified | Refused:
    """Amplification by the largest rate of any unit, under either relation."""
    refuse_amplified(profile)
    if "sampling" not in setting.stages_inside:
        return outside_sampling(setting)
    if profile.relation == "replace-one":
        return Refused(
            "the mechanism protects values but not the size of the sample, which Poisson sampling makes random",
            "a mechanism that is private under add-remove",
            "replace-only bases do not amplify, docs/amplification.md",
        )
    notes = (SECRET_DRAW, PUBLIC_FIGURES, INDEPENDENT)
    if setting.neighbours == "add-remove":
        return Amplified(PrivacyProfile(profile.amplify(rate).curve, "add-remove"), rate, ADD_REMOVE, notes)
    if profile.relation == "both":
        return Amplified(PrivacyProfile(profile.amplify(rate).curve, "replace-one"), rate, REPLACE_BOTH, notes)
    if rate == 1.0:
        return Amplified(profile.to_replace_one(), rate, REPLACE_CURVE, notes)
    pure = isinstance(profile.curve, Approximate) and profile.curve.at_delta == 0.0
    curve = SampledCurve(profile.curve, profile.relation, "replace-one", Independent((rate,)))
    return Amplified(PrivacyProfile(curve, "replace-one"), rate, REPLACE_PURE if pure else REPLACE_CURVE, notes)


def poisson(rate: float) -> Poisson:
    """Draw each unit independently with probability `rate`.

    >>> poisson(rate=0.02)
    Poisson(rate=0.02, size=None)
    """
    return Poisson(rate)
