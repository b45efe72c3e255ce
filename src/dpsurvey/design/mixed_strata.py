"""Strata with any design inside: clusters, stages, PPS, systematic, or a different kind in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..errors import BadValue, NoGuarantee
from ..loss.refused import Refused
from ..privacy.profile import Relation
from ..privacy.setting import Setting
from .base import Clustering, Design, Part, common_factor, largest_factor
from .frame import Frame
from .poisson import Poisson
from .recipe import Step, Strata
from .selected import SelectedDesign, check_public
from .selection.base import Selection
from .selection.each_stratum import EachStratum
from .selection.independent import Independent
from .srs import SimpleRandom


@dataclass(frozen=True)
class MixedStrata(SelectedDesign):
    """An independent draw inside each stratum of a public column, by any design, the same in all or one for each.

    >>> design = MixedStrata("region", {"north": Poisson(0.1), "south": SimpleRandom(n=5)})
    >>> sorted(design.recipe().inside)
    ['north', 'south']
    """

    kind: ClassVar[str] = "stratified"
    by: str
    within: Design | Mapping[str, Design] = field(hash=False)
    labels: tuple[str, ...] = ()
    sizes: Mapping[str, int] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        inside = self.designs
        if not inside or not all(isinstance(each, Design) for each in inside):
            raise BadValue("within= takes a design, or a mapping from stratum to design")
        if any(isinstance(step, Strata) for each in inside for step in each.recipe().below()):
            raise BadValue("strata inside strata are not drawn", hint="make one column of the crossed categories")

    @property
    def designs(self) -> tuple[Design, ...]:
        """The designs inside, one for each stratum that is known."""
        if isinstance(self.within, Mapping):
            return tuple(self.within.values())
        return tuple(self.inside(label) for label in self.labels) or (self.within,)

    def inside(self, label: str) -> Design:
        """The design inside one stratum, with its declared size filled in."""
        inside = self.within[label] if isinstance(self.within, Mapping) else self.within
        size = self.sizes.get(label) if self.sizes else None
        sized = getattr(inside, "sized", None)
        return sized(size) if sized is not None and size is not None else inside

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return all(each.fixed_size for each in self.designs)

    @property
    def sample_relation(self) -> Relation:  # type: ignore[override]
        random = any(not each.fixed_size or getattr(each, "sample_relation", "") == "add-remove" for each in self.designs)
        return "add-remove" if random else "replace-one"

    @property
    def sizes_may_change(self) -> bool:  # type: ignore[override]
        return all(isinstance(each, Poisson) or getattr(each, "sizes_may_change", False) for each in self.designs)

    @property
    def copies(self) -> int:  # type: ignore[override]
        return max(each.copies for each in self.designs)

    def resolve(self, frame: Frame) -> MixedStrata:
        labels = frame.labels(self.by)
        if isinstance(self.within, Mapping) and set(self.within) != set(labels):
            raise BadValue(
                f"within= must name every declared category of {self.by!r}, and no other", given=", ".join(sorted(self.within))
            )
        resolved = replace(self, labels=labels, sizes=frame.category_sizes.get(self.by))
        if isinstance(self.within, Mapping):
            resolved = replace(resolved, within={label: resolved.inside(label) for label in labels})
        check_public(resolved.recipe(), frame)
        return resolved

    def recipe(self) -> Step:
        labels = tuple(self.within) if isinstance(self.within, Mapping) else self.labels
        if labels:
            return Strata(self.by, {label: self.inside(label).recipe() for label in labels})
        assert not isinstance(self.within, Mapping)
        return Strata(self.by, self.within.recipe())

    def parts(self) -> tuple[Part, ...]:
        inside = {label: self.inside(label).parts() for label in self.labels}
        if any(len(each) != 1 for each in inside.values()):
            return ()
        sizes = self.sizes or {}
        return tuple(replace(each[0], label=label, size=sizes.get(label)) for label, each in inside.items())

    def clustering(self) -> Clustering | None:
        found = [self.inside(label).clustering() for label in self.labels]
        if not any(found):
            return None
        if not all(found):
            raise NoGuarantee(
                "clusters in some strata and units in others cannot be estimated together",
                because="the variance of one needs the clusters of the other",
                hint="draw every stratum in clusters, if need be with every unit as a cluster of its own",
            )
        each = [one for one in found if one is not None]
        drawn = [one.drawn for one in each if one.drawn is not None]
        listed = [one.listed for one in each if one.listed is not None]
        return Clustering(
            min(drawn) if len(drawn) == len(each) else None,
            min(listed) if len(listed) == len(each) else None,
            self.labels,
            all(one.whole for one in each),
        )

    def base_relation(self, setting: Setting) -> Relation:
        clustered = any(self.inside(label).clustering() is not None for label in self.labels)
        amplified = isinstance(self.amplifier(), Selection) or not clustered
        return super().base_relation(setting) if amplified or setting.neighbours == "add-remove" else "replace-one"

    def amplifier(self) -> Selection | Refused:
        answers = [_amplifier(self.inside(label)) for label in self.labels] or [_amplifier(each) for each in self.designs]
        for answer in answers:
            if isinstance(answer, Refused):
                return answer
        return EachStratum(tuple(dict.fromkeys(answer for answer in answers if isinstance(answer, Selection))))

    def resized(self, factor: float) -> MixedStrata:
        if isinstance(self.within, Mapping) or self.labels:
            labels = self.labels or tuple(self.within)  # type: ignore[arg-type]
            common = common_factor(self.parts(), factor)
            return replace(self, within={label: self.inside(label).resized(common) for label in labels})
        return replace(self, within=self.within.resized(factor))

    @property
    def most(self) -> float:
        return largest_factor(self.parts()) if self.parts() else min(each.most for each in self.designs)

    def to_dict(self) -> dict[str, Any]:
        inside = {k: v.to_dict() for k, v in self.within.items()} if isinstance(self.within, Mapping) else self.within.to_dict()
        return {"kind": self.kind, "by": self.by, "within": inside}


def _amplifier(design: Design) -> Selection | Refused:
    if isinstance(design, SelectedDesign):
        return design.amplifier()
    if isinstance(design, Poisson):
        return Independent((design.rate,))
    if isinstance(design, SimpleRandom) and design.size is not None:
        return design.selection()
    return Refused(
        "the size of a stratum is not declared, so its rate is not public",
        "declare categories={...: {label: size}}",
        "rule of declared normalisers, docs/settings.md",
    )
