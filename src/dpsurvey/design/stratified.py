"""Stratified sampling: the same kind of design inside each public stratum, drawn independently."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..errors import BadValue
from ..frame import Frame, label_text
from ..privacy.profile import PrivacyProfile, Relation
from ..privacy.setting import Setting
from .answer import Refused
from .base import Amplified, Design, Part, Values
from .poisson import Poisson, amplify_independent, base_of_independent, poisson_variance
from .selection.base import Selection
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

    >>> stratified("region", within=Poisson(0.02)).largest_probability
    0.02
    """

    kind: ClassVar[str] = "stratified"
    by: str
    within: Within | Mapping[str, Within] = field(hash=False)
    sizes: Mapping[str, int] | None = field(default=None, hash=False)
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        inside = list(self.within.values()) if isinstance(self.within, Mapping) else [self.within]
        if not inside or not all(isinstance(each, SimpleRandom | Poisson) for each in inside):
            raise BadValue("within= takes srs(...) or poisson(...), or a mapping from stratum to one of them")
        if len({type(each) for each in inside}) > 1:
            hint = "use srs in every stratum, or poisson in every stratum"
            raise BadValue("all strata must use the same kind of design", hint=hint)

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

    def variance(self, values: Mapping[str | None, Values]) -> float:
        estimate = srs_variance if self.fixed_size else poisson_variance
        return math.fsum(estimate(part, values[part.label]) for part in self.parts())

    def refuses(self, setting: Setting) -> Refused | None:
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

    def to_dict(self) -> dict[str, Any]:
        inside = {k: v.to_dict() for k, v in self.within.items()} if isinstance(self.within, Mapping) else self.within.to_dict()
        return {"kind": self.kind, "by": self.by, "within": inside}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Stratified:
        rest = dict(fields)
        within = rest.pop("within")
        # One design has a kind; a mapping from stratum to design may have a stratum called "kind".
        one = isinstance(within.get("kind"), str)
        return stratified(within=_one(within) if one else {label: _one(each) for label, each in within.items()}, **rest)


def _one(fields: Mapping[str, Any]) -> Within:
    rest = {key: value for key, value in fields.items() if key != "kind"}
    for inside in (SimpleRandom, Poisson):
        if fields.get("kind") == inside.kind:
            return inside.from_dict(rest)
    raise BadValue("within= takes srs or poisson", given=f"kind={fields.get('kind')!r}")


def stratified(by: str, *, within: Within | Mapping[object, Within]) -> Stratified:
    """Draw inside each category of a public column, by one design or by a mapping from category to design.

    >>> stratified("region", within={"north": Poisson(0.1), "south": Poisson(0.5)}).largest_probability
    0.5
    """
    return Stratified(by, {label_text(label): each for label, each in within.items()} if isinstance(within, Mapping) else within)
