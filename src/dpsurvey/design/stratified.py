"""Strata of a public column: an independent draw inside each, by one design or by a design for each of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from ..errors import BadValue, NoGuarantee
from ..loss.bound import Bound, Losses, Refused
from ..privacy.curve import Approximate, Curve
from ..privacy.derived import Least, greatest
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Neighbours, Relation, Restriction
from ..privacy.rounding import below, replaced
from ..privacy.setting import Setting
from .allocation.allocation import Allocation
from .base import ANY_RELATION, Design, thinned
from .checks import check_public
from .collected import refuse_collected
from .compared import AtRate, Candidate, Compared, SameSize
from .confidential_sizes import ConfidentialAllocation
from .frame import Frame, label_text
from .parts import Clustering, Part, common_factor, largest_factor
from .poisson import IndependentDraws, Poisson, independent_bound, moved_between
from .recipe import Step, Strata
from .registry import design_from_dict, register
from .srs import SimpleRandom, base_of_fixed, refuse_sizes, srs
from .wrapped import Wrapped

STAYS = "a record stays in its public stratum"


@dataclass(frozen=True)
class Stratified(Design):
    """A draw of its own in each stratum of a public column, independent of the others.

    Given the samples of the other strata, the mechanism on the rest is as private as the whole, so a record loses what its
    own stratum's draw gives: the largest over strata bounds everybody who stays in a public stratum. Where every unit is
    drawn by itself, a record that changes stratum is covered too; else the guarantee says by the name of its relation that
    records stay.

    >>> stratified("region", within={"north": Poisson(0.1), "south": Poisson(0.5)}).largest_probability
    0.5
    """

    kind: ClassVar[str] = "stratified"
    of_frame: ClassVar[tuple[str, ...]] = ("labels", "sizes", "least")
    unwritten: ClassVar[Mapping[str, Any]] = {"allocation": "public"}
    by: str
    within: Design | Mapping[str, Design] = field(hash=False)
    labels: tuple[str, ...] = ()
    sizes: Mapping[str, int] | None = field(default=None, hash=False)
    # What no possible frame has fewer units of a stratum than.
    least: Mapping[str, int] | None = field(default=None, hash=False)
    allocation: Literal["public", "confidential"] = "public"

    def __post_init__(self) -> None:
        inside = list(self.within.values()) if isinstance(self.within, Mapping) else [self.within]
        if not inside or not all(isinstance(each, Design) for each in inside):
            raise BadValue("within= takes a design, or a mapping from stratum to design")
        for each in inside:
            refuse_collected(each)
        if any(isinstance(step, Strata) for each in inside for step in each.recipe().below()):
            raise BadValue("strata inside strata are not drawn", hint="make one column of the crossed categories")
        if self.allocation not in ("public", "confidential"):
            raise BadValue(f"unknown allocation {self.allocation!r}", hint="public or confidential")
        if self.allocation != "public" and not self._simple:
            raise BadValue("an allocation computed from the frame is drawn by srs inside strata")

    # How it draws

    def inside_of(self, label: str) -> Design:
        """The design inside one stratum, with its declared sizes filled in."""
        inside = self.within[label] if isinstance(self.within, Mapping) else self.within
        size = self.sizes.get(label) if self.sizes else None
        found = inside if size is None else inside.sized(size)
        if isinstance(found, SimpleRandom) and self.least is not None:
            return replace(found, at_least=self.least.get(label))
        return found

    @property
    def known_labels(self) -> tuple[str, ...]:
        """The strata, as far as they are known."""
        return self.labels or (tuple(self.within) if isinstance(self.within, Mapping) else ())

    def insides(self) -> dict[str | None, Design]:
        if not self.known_labels:
            assert not isinstance(self.within, Mapping)
            return {None: self.within}
        return {label: self.inside_of(label) for label in self.known_labels}

    # A search for the noise asks for a loss many times, and there may be many strata: what follows is found once.

    @cached_property
    def designs(self) -> tuple[Design, ...]:
        """The designs inside, one for each stratum that is known."""
        return tuple(self.insides().values())

    @cached_property
    def _simple(self) -> bool:
        """Whether every stratum has a simple random sample of fixed size."""
        return all(isinstance(each, SimpleRandom) for each in self.designs)

    @cached_property
    def _independent(self) -> bool:
        """Whether every unit is drawn by itself."""
        return all(isinstance(each, IndependentDraws) for each in self.designs)

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return all(each.fixed_size for each in self.designs)

    @property
    def same_size(self) -> bool:  # type: ignore[override]
        return self._simple

    @property
    def copies(self) -> int:  # type: ignore[override]
        return max(each.copies for each in self.designs)

    @property
    def strata_column(self) -> str | None:
        return self.by

    def resolve(self, frame: Frame) -> Stratified:
        labels, sizes = frame.labels(self.by), frame.category_sizes.get(self.by)
        if isinstance(self.within, Mapping) and set(self.within) != set(labels):
            raise BadValue(
                f"within= must name every declared category of {self.by!r}, and no other", given=", ".join(sorted(self.within))
            )
        inside = self.within.values() if isinstance(self.within, Mapping) else [self.within]
        if sizes is None and any(_needs_size(each) for each in inside):
            raise BadValue(
                f"fixed sizes inside strata need the public sizes of {self.by!r}",
                because="those of the frame are compared with it where a guarantee rests on them",
                hint="declare categories={...: {label: size}}",
            )
        resolved = replace(self, labels=labels, sizes=sizes, least=frame.least_sizes.get(self.by))
        check_public(resolved.recipe(), frame)
        resolved.parts()
        return resolved

    def parts(self) -> tuple[Part, ...]:
        inside = {label: each.parts() for label, each in self.insides().items()}
        if any(len(each) != 1 for each in inside.values()):
            return ()
        sizes = self.sizes or {}
        return tuple(
            replace(each[0], label=label, size=sizes.get(label, each[0].size) if label is not None else each[0].size)
            for label, each in inside.items()
        )

    def clustering(self) -> Clustering | None:
        found = [each.clustering() for each in self.designs]
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

    def in_words(self, unit: str = "unit") -> str:
        inside = (
            self.within.in_words(unit)
            if isinstance(self.within, Design)
            else "; ".join(f"{label}: {each.in_words(unit)}" for label, each in self.within.items())
        )
        return f"stratified by {self.by}, inside each stratum {inside}"

    def recipe(self) -> Step:
        if not self.known_labels:
            assert not isinstance(self.within, Mapping)
            return Strata(self.by, self.within.recipe())
        return Strata(self.by, {label: self.inside_of(label).recipe() for label in self.known_labels})

    def resized(self, factor: float) -> Stratified:
        alike = not isinstance(self.within, Mapping)
        if alike and (not self.known_labels or isinstance(self.within, Poisson)):
            assert not isinstance(self.within, Mapping)
            return replace(self, within=self.within.resized(factor))
        common = common_factor(self.parts(), factor)
        return replace(self, within={label: self.inside_of(label).resized(common) for label in self.known_labels})

    @property
    def most(self) -> float:
        return largest_factor(self.parts()) if self.parts() else min(each.most for each in self.designs)

    # What it does to a loss

    @property
    def largest_probability(self) -> float:
        return max(each.largest_probability for each in self.designs)

    @property
    def listed_probability(self) -> float:
        return max(each.listed_probability for each in self.designs)

    def least_probability(self, neighbours: Neighbours) -> float:
        return max(each.least_probability(neighbours) for each in self.designs)

    @property
    def for_any_frame(self) -> bool:  # type: ignore[override]
        return all(each.for_any_frame for each in self.designs)

    @property
    def rests_on_size(self) -> bool:
        return any(each.rests_on_size for each in self.designs)

    @property
    def detection_steps(self) -> float:
        return max(each.detection_steps for each in self.designs)

    @property
    def depends_on_data(self) -> float:
        return max(each.depends_on_data for each in self.designs)

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        if losses.parts and self.known_labels and losses.base == Relation.ADD_REMOVE:
            losses = losses.of_part(max(dict(losses.parts).get(label, 1.0) for label in self.known_labels))
        return max(each.loss_in_sample(losses, neighbours) for each in self.designs)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if self.allocation == "confidential":
            return ConfidentialAllocation(sum(part.take or 0 for part in self.parts())).bound(losses, neighbours)
        apart = losses.parts and self.known_labels
        if self._independent and not (apart and neighbours == Relation.ADD_REMOVE):
            rates = [rate for each in self.designs for rate in _rates(each)]
            answer = independent_bound(rates, losses.whole, neighbours, moves=True)
            return self._moved(answer, losses) if apart and isinstance(answer, Bound) else answer
        parts = dict(losses.parts)
        inside = dict.fromkeys((each, parts.get(str(label), 1.0)) for label, each in self.insides().items())
        answers = [each.bound(losses.of_part(part), neighbours) for each, part in inside]
        for answer in answers:
            if isinstance(answer, Refused):
                return answer
        bounds = [answer for answer in answers if isinstance(answer, Bound)]
        worst = max(bounds, key=lambda bound: bound.upper)
        every = all(bound.scope == "every population" for bound in bounds)
        stays = () if self._independent else (STAYS,)
        holds = tuple(dict.fromkeys([*stays, *(note for bound in bounds for note in bound.holds_when)]))
        common = tuple(dict.fromkeys(note for bound in bounds for note in bound.common))
        lower = max(bound.lower for bound in bounds)
        exact = worst.exact and lower >= worst.lower
        scope: Literal["every population", "this population"] = "every population" if every else "this population"
        return Bound(worst.upper, lower, exact, worst.source, scope, holds, worst.certified_by, worst.details, common)

    def _moved(self, whole: Bound, losses: Losses) -> Bound:
        """The bound for a record of independent draws that may leave its stratum, where records of strata lose less than all."""
        if losses.base != Relation.ADD_REMOVE:
            return whole
        parts = dict(losses.parts)
        drawn = ((rate, label) for label, each in self.insides().items() for rate in _rates(each))
        pairs = [(rate, losses.of_part(parts.get(str(label), 1.0)).add_remove) for rate, label in drawn]
        stays = max(below(replaced(epsilon, rate)) for rate, epsilon in pairs)
        return replace(whole, upper=min(whole.upper, moved_between(pairs)), lower=stays, exact=False, details={})

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        return max(each.sharper(base, losses, neighbours, alpha) for each in dict.fromkeys(self.designs))

    def sampled(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        if profile.parts and self.known_labels:
            return self._sampled_apart(profile, neighbours)
        worst = max(self.designs, key=lambda each: each.largest_probability)
        # Of draws of one kind that has a closed form the one with the largest rate decides.
        closed = self._simple or self._independent
        return worst.sampled(profile, neighbours) if closed else super().sampled(profile, neighbours)

    def _sampled_apart(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        """The same where the records of each stratum have a profile of their own.

        Proof: docs/proofs/amplification.md, each stratum's own loss.
        """
        parts = dict(profile.parts)

        def of_strata(relation: Neighbours) -> Curve:
            pairs = dict.fromkeys((each, parts.get(str(label), 1.0)) for label, each in self.insides().items())
            return greatest(each.sampled(profile.of_part(part), relation).curve for each, part in pairs)

        if not self._independent or neighbours == Relation.ADD_REMOVE:
            return PrivacyProfile(of_strata(neighbours), neighbours)
        # A record may leave a stratum for another one, of another weight and rate: it is removed from the one and added to the
        # other, and neither loses more than the greatest of all strata.
        known = [self.sampled(profile.whole, neighbours).curve]
        if profile.relation.includes(Relation.ADD_REMOVE):
            known.append(of_strata(Relation.ADD_REMOVE).steps(2))
        pure = profile.curve.epsilon(0.0)
        bound = self.bound(Losses.of(pure, profile.relation, parts), neighbours) if 0.0 < pure < math.inf else None
        if isinstance(bound, Bound):
            known.append(Approximate(bound.upper))
        return PrivacyProfile(Least(tuple(known)), neighbours)

    # In a survey

    def by_stratum(self, setting: Setting) -> Mapping[str, Design]:
        stays = setting.neighbours == Relation.ADD_REMOVE or bool(self.relation_name(setting))
        if not stays or not self.known_labels or self.allocation == "confidential":
            return {}
        return {label: self.inside_of(label) for label in self.known_labels}

    def of_strata(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        # Units that are drawn by themselves are covered where they change stratum too.
        return profile if self._independent else super().of_strata(profile, setting)

    def on_sample(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        # A record more or less is in one stratum, whatever it does outside; replaced in one step, it may leave its stratum.
        if profile.parts and self.known_labels and (profile.relation == Relation.ADD_REMOVE or self.by_stratum(setting)):
            parts = dict(profile.parts)
            profile = profile.of_part(max(parts.get(label, 1.0) for label in self.known_labels))
        return super().on_sample(profile, setting)

    def refuses(self, setting: Setting) -> Refused | None:
        if self.allocation == "confidential":
            # Under every setting: values of the frame decide the sizes, a release names the sizes, and no noise covers them.
            answer = self.bound(ANY_RELATION, Relation.REPLACE_ONE)
            assert isinstance(answer, Refused)
            return answer
        if self._simple:
            return refuse_sizes(setting, self.parts())
        return None if self._independent else super().refuses(setting)

    @property
    def sizes_may_change(self) -> bool:  # type: ignore[override]
        return not self._independent and all(isinstance(each, IndependentDraws) or each.sizes_may_change for each in self.designs)

    @property
    def sample_relation(self) -> Relation:  # type: ignore[override]
        random = any(not each.fixed_size or each.sample_relation == Relation.ADD_REMOVE for each in self.designs)
        return Relation.ADD_REMOVE if random else Relation.REPLACE_ONE

    def base_relation(self, setting: Setting) -> Relation:
        return base_of_fixed(setting) if self._simple else super().base_relation(setting)

    def relation_name(self, setting: Setting) -> Restriction:
        # The number of respondents in a stratum is not fixed, so at that level a record may change stratum.
        name = Restriction.NONE if self._independent else super().relation_name(setting)
        return Restriction.WITHIN_STRATUM if self._simple and name else name

    def weights_move(self, setting: Setting) -> bool:
        return not self._independent and super().weights_move(setting)

    def inside(self, setting: Setting) -> Design | Refused:
        outside = super().inside(setting)
        if isinstance(outside, Refused):
            return outside
        # Each stratum answers for its own draw.
        within: dict[str, Design] = {}
        for label, each in self.insides().items():
            found = each.inside(setting)
            if isinstance(found, Refused):
                return found
            if label is None:
                return replace(self, within=found)
            within[label] = found
        return Stratified(self.by, within, self.labels, allocation=self.allocation)

    def conditions(self, setting: Setting) -> tuple[str, ...]:
        if not self._simple:
            return super().conditions(setting) if not self._independent else ()
        if setting.neighbours == Relation.REPLACE_ONE:
            return ("the stratum sizes N_h are public and equal the real ones; a neighbour stays in its stratum",)
        least = ", ".join(f"{label} {count:,}" for label, count in (self.least or {}).items())
        return (f"no possible frame has fewer units in a stratum than stated, the protected record left out ({least})",)

    def figures(self) -> dict[str, Any]:
        whole = next(iter(self.insides().items()))
        inside = whole[1].figures() if whole[0] is None else {label: each.figures() for label, each in self.insides().items()}
        marked = {"allocation": self.allocation} if self.allocation != "public" else {}
        return {"kind": self.kind, "by": self.by, "within": inside} | marked


@thinned.register
def _(design: Stratified, p: float) -> Stratified | None:
    within = {label: thinned(each, p) for label, each in design.insides().items() if label is not None}
    found = {label: each for label, each in within.items() if each is not None}
    return Stratified(design.by, found, design.labels) if found and len(found) == len(within) else None


def _rates(design: Design) -> tuple[float, ...]:
    """The rates of a design that draws each unit by itself."""
    return design.rates if isinstance(design, IndependentDraws) else ()


def _needs_size(design: Design) -> bool:
    """Whether a fixed number of units is drawn by a size of its own, or by none that is known."""
    if isinstance(design, SimpleRandom):
        return True
    own = "size" in design.of_frame and getattr(design, "size", None) is not None
    return own or (isinstance(design, Wrapped) and _needs_size(design.design))


def _read(fields: Mapping[str, Any]) -> Stratified:
    """The strata that `to_dict` wrote, `kind` left out."""
    rest = dict(fields)
    within = rest.pop("within")
    # One design has a kind; a mapping from stratum to design may have a stratum called "kind".
    one = isinstance(within.get("kind"), str)
    inside = design_from_dict(within) if one else {label: design_from_dict(each) for label, each in within.items()}
    return stratified(within=inside, **rest)


def _compared(share: AtRate) -> Iterator[Compared]:
    own = Stratified("stratum", Poisson(share.rate))
    yield Compared(
        "Bernoulli inside strata", own, Relation.ADD_REMOVE, Relation.ADD_REMOVE, "as Poisson, stratum by stratum", own
    )


def _candidates(asked: SameSize) -> Iterator[Candidate]:
    for column, labels in asked.frame.category_sizes.items():
        if asked.n >= 2 * len(labels):
            yield Candidate(f"stratified by {column}, srs inside", Stratified(column, srs(rate=asked.rate)))
            yield Candidate(f"stratified by {column}, Poisson inside", Stratified(column, Poisson(asked.rate)))


@register("stratified", read=_read, compared=_compared, candidates=_candidates, commands={})
def stratified(
    by: str,
    *,
    within: Design | Mapping[object, Design] | Allocation,
    allocation: Literal["public", "confidential"] = "public",
) -> Stratified:
    """Draw inside each category of a public column: by one design, a mapping from category to design, or an allocation.

    `allocation="confidential"` marks sizes that were computed from the confidential frame; it is set by an `Allocation`
    that was. Such sizes reveal something about records, so no guarantee is made with them.

    >>> stratified("region", within={"north": Poisson(0.1), "south": srs(n=5)}).recipe().columns("strata")
    ('region',)
    """
    inside: Design | dict[str, Design]
    if isinstance(within, Allocation):
        allocation = "public" if within.public and allocation == "public" else "confidential"
        inside = {label: srs(n=take) for label, take in within.takes.items()}
    elif isinstance(within, Mapping):
        inside = {label_text(label): each for label, each in within.items()}
    else:
        inside = within
    return Stratified(by, inside, allocation=allocation)
