"""What every design answers, and the answers: a Part of the frame, Amplified or Refused."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..errors import BadValue
from ..loss.hypothesis_tests import RedFlag
from ..loss.refused import Refused
from ..privacy.account import Budget, largest_in_sample
from ..privacy.profile import PrivacyProfile, Relation
from ..privacy.setting import Setting
from .frame import Frame
from .recipe import Step
from .selection.base import Selection

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """A stratum, or the whole frame (label None), with its public selection figures.

    >>> Part(None, 0.02).weight
    50.0
    """

    label: str | None
    probability: float
    take: int | None = None
    size: int | None = None
    # Drawn with replacement: no finite population correction.
    replaced: bool = False

    @property
    def weight(self) -> float:
        """The design weight, one over the inclusion probability."""
        return 1.0 / self.probability


@dataclass(frozen=True)
class Clustering:
    """Clusters as a design draws them: how many in each stratum where that is fixed, of how many where that is declared.

    `whole` says that all units of a drawn cluster are taken.
    """

    drawn: int | None = None
    listed: int | None = None
    strata: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Amplified:
    """A profile for the protected data, the rate it rests on, its theorem, and what it holds under."""

    profile: PrivacyProfile
    rate: float
    theorem: str
    holds_when: tuple[str, ...]


SECRET_DRAW = "nobody outside the office learns who was drawn, or who was not (a cryptographic generator makes the draw)"
PUBLIC_FIGURES = "rates, sizes, strata, categories and bounds are public figures, not read from the rows"


class Design(ABC):
    """The random rule of selection: an immutable value that knows no data.

    The numbers of a frame that the rule needs are filled in by `resolve`, from what the frame declares.
    """

    kind: ClassVar[str]
    fixed_size: bool

    @abstractmethod
    def resolve(self, frame: Frame) -> Self:
        """The design with the declared sizes of a frame filled in."""

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The strata, or the whole frame, with inclusion probabilities and weights; empty where each unit has its own."""

    def clustering(self) -> Clustering | None:
        """How clusters are drawn; None where units are drawn one by one."""
        return None

    # How often one unit may be in the sample.
    copies: int = 1
    # How many records one record can change at once: more than one where answers were copied from donors.
    reach: float = 1.0

    def weights_move(self, setting: Setting) -> bool:
        """Whether one changed record may change the weights of all others under this setting."""
        return False

    def keeps_rows(self, setting: Setting) -> bool:
        """Whether all neighbours have tables of one length, so that a comparison with declared sizes tells none from another."""
        return setting.weights_fixed or (setting.protect == "frame" and setting.neighbours == "replace-one")

    def keeps_columns(self, setting: Setting) -> bool:
        """Whether all neighbours also agree in the columns that the design draws by: strata, clusters, sizes and order."""
        return setting.weights_fixed or (self.keeps_rows(setting) and bool(self.relation_name(setting)))

    def compares(self, setting: Setting) -> frozenset[str]:
        """What is compared with the rows under this setting and could come out otherwise under another one.

        "rows" stands for numbers of rows, "columns" for strata and clusters.
        """
        columns = self.keeps_columns(setting) and (self.strata_column is not None or self.clustering() is not None)
        return frozenset(name for name, found in (("rows", self.keeps_rows(setting)), ("columns", columns)) if found)

    @property
    def strata_column(self) -> str | None:
        """The public column that the strata are made of, if there are any."""
        return None

    @abstractmethod
    def recipe(self) -> Step:
        """The draw, engine-neutral."""

    @abstractmethod
    def variance(self, values: Mapping[str | None, Values]) -> float:
        """The classical variance estimate of the weighted total, from the values of each part, without privacy."""

    @abstractmethod
    def refuses(self, setting: Setting) -> Refused | None:
        """Why no neighbours under this setting exist for this design, or None."""

    @abstractmethod
    def base_relation(self, setting: Setting) -> Relation:
        """The relation under which mechanisms on the sample must be private, so that the setting is kept."""

    @abstractmethod
    def amplify(self, profile: PrivacyProfile, setting: Setting) -> Amplified | Refused:
        """The profile for the protected data, from the composed in-sample profile; or a refusal."""

    def protected(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        """The profile for the protected data: amplified, or the in-sample one where amplification is refused.

        Unamplified, a mechanism on the sample keeps its epsilon under every setting that the design does not refuse:
        a changed record changes the drawn sample by at most one step of `base_relation` (docs/amplification.md).
        """
        answer = self.amplify(profile, setting)
        return answer.profile if isinstance(answer, Amplified) else PrivacyProfile(profile.curve, setting.neighbours)

    def known(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        """The profile of someone known to be in the sample, under the relation of the setting."""
        kept = profile if setting.neighbours == "add-remove" else profile.to_replace_one()
        return PrivacyProfile(kept.curve.steps(self.copies) if self.copies > 1 else kept.curve, setting.neighbours)

    def invert(self, budget: Budget, setting: Setting) -> PrivacyProfile:
        """The inverse of amplification: the most that may be spent on one sample so that the budget is kept."""
        return largest_in_sample(budget, self.base_relation(setting), lambda profile: self.protected(profile, setting))

    @abstractmethod
    def selection(self) -> Selection:
        """The public numbers of the design: what `amplify`, the worst case and the red flags are computed from."""

    def red_flags(self, epsilon: float = 1.0) -> tuple[RedFlag, ...]:
        """The three ways in which a sample fails to hide anybody, with their numbers for this design."""
        return self.selection().red_flags(epsilon)

    def relation_name(self, setting: Setting) -> str:
        """The name of the relation where it is weaker than its plain words."""
        return ""

    @property
    def largest_probability(self) -> float:
        """The largest inclusion probability of any unit."""
        return max(part.probability for part in self.parts())

    def resized(self, factor: float) -> Design:
        """The same design with `factor` times as many units, or all of them where that is fewer; for planning."""
        raise BadValue(
            f"a design of kind {self.kind!r} has no sampling rate that could be another",
            hint="describe the frame and a design that draws from it",
        )

    @property
    def most(self) -> float:
        """How many times larger the sample could be at most."""
        return 1.0 / self.largest_probability

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; `design_from_dict` reads it back."""


def refuse_amplified(profile: PrivacyProfile) -> None:
    """One sample amplifies once; a second time would be a claim about a sample that was never drawn."""
    if profile.is_amplified:
        raise BadValue("this profile was amplified already", because="one sample amplifies once, after everything was composed")


def outside_sampling(setting: Setting) -> Refused:
    """The refusal for settings whose protected data lies downstream of sampling."""
    return Refused(
        f"the {setting.protect} data is protected, so sampling is not inside the mechanism",
        'protect="frame" guarantees less to those who are known to be sampled, and amplifies',
        "Bailie and Drechsler, Table 4.2",
    )


def common_factor(parts: Sequence[Part], factor: float) -> float:
    """By what all rates are multiplied, none above 1, so that all parts together have `factor` times as many units.

    >>> parts = (Part("a", 0.1, size=100), Part("b", 0.5, size=100))
    >>> round(common_factor(parts, 2.0), 4), common_factor(parts, 9.0)
    (2.0, 10.0)
    >>> round(common_factor(parts, 2.5), 4)
    5.0
    """
    if any(part.size is None for part in parts) or all(part.replaced for part in parts):
        return factor
    now = sum((part.size or 0) * part.probability for part in parts)
    low, high = 0.0, max(factor, 1.0) * now / min((part.size or 0) * part.probability for part in parts)
    if factor >= largest_factor(parts) * (1.0 - 1e-12):
        return 1.0 / min(part.probability for part in parts)
    while low < (middle := 0.5 * (low + high)) < high:
        # Drawn with replacement, a part has no end.
        rates = [middle * part.probability if part.replaced else min(1.0, middle * part.probability) for part in parts]
        reached = sum((part.size or 0) * rate for part, rate in zip(parts, rates, strict=True))
        low, high = (middle, high) if reached < factor * now else (low, middle)
    return high


def largest_factor(parts: Sequence[Part]) -> float:
    """How many times larger the sample could be: all units over those drawn; where sizes are unknown, until one part is full."""
    if any(part.replaced for part in parts):
        return math.inf
    if any(part.size is None for part in parts) or not parts:
        return 1.0 / max((part.probability for part in parts), default=1.0)
    return sum(part.size or 0 for part in parts) / sum((part.size or 0) * part.probability for part in parts)
