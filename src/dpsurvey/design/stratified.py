"""Stratified sampling: the same kind of design inside each public stratum, drawn independently."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from ..errors import BadValue
from ..loss.refused import Refused
from ..privacy.profile import PrivacyProfile, Relation
from ..privacy.setting import Setting
from .base import Amplified, Design, Part, Values, common_factor, largest_factor
from .frame import Frame
from .poisson import Poisson, amplify_independent, base_of_independent, poisson_variance
from .recipe import Step, Strata
from .selection.allocation import ConfidentialAllocation
from .selection.base import Losses, Selection
from .selection.independent import Independent
from .selection.simple import WithoutReplacement
from .srs import SimpleRandom, amplify_fixed, base_of_fixed, refuse_sizes, srs_variance

Within = SimpleRandom | Poisson
WITHIN_PUBLIC_STRATUM = "replacement within a public stratum"


@dataclass(frozen=True)
class Stratified(Design):
    """An independent draw inside each stratum of a public column.

    Poisson inside: a unit of stratum h has log(1 + r_h(e^epsilon - 1)), so the whole has the largest rate.
    Fixed sizes inside: log(1 + (n_h/N_h)(e^epsilon - 1)) for a record replaced inside its public stratum; a
    record that changes stratum is not covered, and the guarantee says so by the name of the relation.

    >>> Stratified("region", Poisson(0.02)).largest_probability
    0.02
    """

    kind: ClassVar[str] = "stratified"
    by: str
    within: Within | Mapping[str, Within] = field(hash=False)
    sizes: Mapping[str, int] | None = field(default=None, hash=False)
    labels: tuple[str, ...] = ()
    allocation: Literal["public", "confidential"] = "public"

    def __post_init__(self) -> None:
        inside = list(self.within.values()) if isinstance(self.within, Mapping) else [self.within]
        if not inside or not all(isinstance(each, SimpleRandom | Poisson) for each in inside) or len(set(map(type, inside))) > 1:
            raise BadValue("these strata have srs in each of them, or poisson in each", hint="stratified() takes any design")
        if self.allocation not in ("public", "confidential"):
            raise BadValue(f"unknown allocation {self.allocation!r}", hint="public or confidential")

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return isinstance(self._any, SimpleRandom)

    @property
    def _any(self) -> Within:
        return next(iter(self.within.values())) if isinstance(self.within, Mapping) else self.within

    @property
    def strata_column(self) -> str | None:
        return self.by

    def resolve(self, frame: Frame) -> Stratified:
        labels = frame.labels(self.by)
        sizes = frame.category_sizes.get(self.by)
        if isinstance(self.within, Mapping) and set(self.within) != set(labels):
            raise BadValue(
                f"within= must name every declared category of {self.by!r}, and no other", given=", ".join(sorted(self.within))
            )
        if self.fixed_size and sizes is None:
            raise BadValue(
                f"fixed sizes inside strata need the public sizes of {self.by!r}", hint="declare categories={...: {label: size}}"
            )
        resolved = replace(self, sizes=sizes, labels=labels)
        resolved.parts()
        return resolved

    def _inside(self, label: str) -> Within:
        inside = self.within[label] if isinstance(self.within, Mapping) else self.within
        size = self.sizes.get(label) if self.sizes else None
        return inside.sized(size) if isinstance(inside, SimpleRandom) else Poisson(inside.rate, size)

    def parts(self) -> tuple[Part, ...]:
        labels = self.labels or (tuple(self.within) if isinstance(self.within, Mapping) else ())
        if not labels and isinstance(self.within, Poisson):
            return self.within.parts()
        if not labels:
            raise BadValue("the design is not bound to a frame", hint="use design.resolve(frame)")
        return tuple(replace(self._inside(label).parts()[0], label=label) for label in labels)

    def recipe(self) -> Step:
        labels = self.labels or (tuple(self.within) if isinstance(self.within, Mapping) else ())
        if not labels:
            assert not isinstance(self.within, Mapping)
            return Strata(self.by, self.within.recipe())
        return Strata(self.by, {label: self._inside(label).recipe() for label in labels})

    def variance(self, values: Mapping[str | None, Values]) -> float:
        estimate = srs_variance if self.fixed_size else poisson_variance
        return math.fsum(estimate(part, values[part.label]) for part in self.parts())

    def refuses(self, setting: Setting) -> Refused | None:
        if self.allocation == "confidential":
            # Under every setting: values of the frame decide the sizes, a release names the sizes, and no noise covers them.
            total = sum(part.take or 0 for part in self.parts())
            answer = ConfidentialAllocation(total).bound(Losses.of(1.0, "add-remove"), "replace-one")
            assert isinstance(answer, Refused)
            return answer
        return refuse_sizes(setting, self.parts()) if self.fixed_size else None

    def base_relation(self, setting: Setting) -> Relation:
        return base_of_fixed(setting) if self.fixed_size else base_of_independent(setting)

    def relation_name(self, setting: Setting) -> str:
        # The number of respondents in a stratum is not fixed, so at that level a record may change stratum.
        fixed = self.fixed_size and setting.protect != "respondents"
        return WITHIN_PUBLIC_STRATUM if fixed and setting.neighbours == "replace-one" else ""

    def amplify(self, profile: PrivacyProfile, setting: Setting) -> Amplified | Refused:
        rate = self.largest_probability
        if not self.fixed_size:
            return amplify_independent(profile, setting, rate)
        public = "the stratum sizes N_h are public and equal the real ones; a neighbour stays in its stratum"
        return amplify_fixed(profile, setting, rate, public)

    def selection(self) -> Selection:
        # Under fixed sizes the stratum with the largest share decides; a record stays in its stratum.
        if not self.fixed_size:
            return Independent(tuple(part.probability for part in self.parts()), moves=True)
        worst = max(self.parts(), key=lambda part: part.probability)
        return WithoutReplacement(worst.take or 0, worst.size or 0)

    def resized(self, factor: float) -> Stratified:
        labels = self.labels or (tuple(self.within) if isinstance(self.within, Mapping) else ())
        if not labels or (isinstance(self.within, Poisson) and not isinstance(self.within, Mapping)):
            assert not isinstance(self.within, Mapping)
            return replace(self, within=self.within.resized(factor))
        common = common_factor(self.parts(), factor)
        return replace(self, within={label: self._inside(label).resized(common) for label in labels})

    @property
    def most(self) -> float:
        return largest_factor(self.parts())

    def to_dict(self) -> dict[str, Any]:
        inside = {k: v.to_dict() for k, v in self.within.items()} if isinstance(self.within, Mapping) else self.within.to_dict()
        marked = {"allocation": self.allocation} if self.allocation != "public" else {}
        return {"kind": self.kind, "by": self.by, "within": inside} | marked
