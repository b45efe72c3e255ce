"""Response: those who answer, of all who were drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..loss.bound import Bound, Figure, Losses, Refused, no_likelier
from ..loss.transport import one_source, profile_of
from ..privacy.curve import Curve
from ..privacy.derived import greatest
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import below, log_mixture, replaced, up
from ..privacy.setting import Setting
from .base import Design, Undrawn, outside_sampling, thinned
from .checks import check_rate
from .collected import refuse_collected
from .poisson import Poisson, independent_bound
from .registry import register
from .srs import SimpleRandom
from .wrapped import Wrapped

RESPONSE = "docs/designs/stages.md, response after sampling"
COPIES = Refused(
    "a unit that is drawn several times responds for all its copies at once, and no bound is proved for that",
    "sampling without replacement, or the with-replacement figure without the response rate",
    RESPONSE,
)


def respond(losses: Losses, p: float) -> Losses:
    """The losses on the whole sample of a mechanism that sees each sampled unit with probability at most p."""
    if not losses.sizes_protected:
        return losses
    added = up(log_mixture((p, losses.add_remove)))
    if losses.base == Relation.BOTH and losses.replace_one == losses.add_remove:
        return Losses(added, added, Relation.BOTH)
    return Losses(added, replaced(losses.add_remove, p), Relation.ADD_REMOVE)


@dataclass(frozen=True)
class Responding(Wrapped):
    """A sample of which each unit responds independently, with probability at most `at_most`, whatever its answers.

    The mechanism on the respondents is, on the whole sample, one with smaller losses. After a cluster sample the
    respondents are a two-stage sample, which is exact.

    >>> from dpsurvey.loss.bound import Losses
    >>> from dpsurvey.design import srs
    >>> chain = responding(srs(n=2, size=4), at_most=0.5)
    >>> round(chain.bound(Losses.of(1.0, "add-remove"), "replace-one").upper, 10)
    0.620114507
    """

    kind: ClassVar[str] = "responding"
    design: Design
    at_most: float

    def __post_init__(self) -> None:
        check_rate("response-at-most", self.at_most)
        refuse_collected(self.design)

    def in_words(self, unit: str = "unit") -> str:
        return f"{self.design.in_words(unit)}; each of those drawn responds with a probability of at most {self.at_most}"

    @property
    def largest_probability(self) -> float:
        return self.design.largest_probability * self.at_most

    @property
    def listed_probability(self) -> float:
        return self.design.listed_probability

    @property
    def responses_only(self) -> bool:
        return True

    @property
    def public_units(self) -> int | None:
        """None: so many are drawn, and nobody knows how many of them answer."""
        return None

    @property
    def _copies(self) -> bool:
        return self.copies > 1 or self.design.draws_copies

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if not losses.sizes_protected:
            return Refused(
                "who responds makes the number of records random, which a replace-one mechanism does not hide",
                "a mechanism that is private under add-remove",
                RESPONSE,
            )
        if self._copies:
            return COPIES
        same = thinned(self.design, self.at_most)
        answer = (
            same.bound(losses, neighbours) if same is not None else self.design.bound(respond(losses, self.at_most), neighbours)
        )
        if isinstance(answer, Refused):
            return answer
        exact = answer.exact and (same is not None or isinstance(self.design, SimpleRandom))
        seen = self.design.least_probability(neighbours) * self.at_most
        lower = answer.lower if exact else min(answer.lower, below(log_mixture((seen, losses.add_remove))))
        holds = (*answer.holds_when, no_likelier(self.at_most, "responds"))
        own = losses.replace_one if neighbours == Relation.REPLACE_ONE else losses.add_remove
        details = {**answer.details, "known_to_have_responded": Figure(own, "someone known to have responded")}
        source = f"{answer.source}; {RESPONSE}"
        return Bound(answer.upper, lower, exact, source, answer.scope, holds, answer.certified_by, details, answer.common)

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        # Someone known to be sampled may still not have responded; copies of one unit respond at once.
        if self._copies:
            return self.design.loss_in_sample(losses, neighbours)
        return self.design.loss_in_sample(respond(losses, self.at_most), neighbours)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        same = thinned(self.design, self.at_most)
        if same is not None:
            return same.sharper(base, losses, neighbours, alpha)
        if not isinstance(self.design, SimpleRandom) or losses.base != Relation.ADD_REMOVE:
            return 1.0
        p, f = self.at_most, self.design.largest_probability
        threshold = 1.0 + (alpha - 1.0) / f
        one, two = profile_of(base), profile_of(base.steps(2))
        return f * one_source(p, (threshold * p, two), ((threshold - 1.0) * (1.0 - p), one))

    # In a survey only those who responded are read, and how many they are is hidden too.

    def around(self, design: Design) -> Responding:
        return Responding(design, self.at_most)

    def base_relation(self, setting: Setting) -> Relation:
        return Relation.ADD_REMOVE if "response" in setting.stages_inside else setting.neighbours

    def inside(self, setting: Setting) -> Design | Refused:
        if "response" not in setting.stages_inside:
            return outside_sampling(setting)
        if self._copies:
            return COPIES
        drawn = self.design.inside(setting) if "sampling" in setting.stages_inside else None
        if isinstance(drawn, Design) and not isinstance(
            drawn.bound(Losses.of(1.0, Relation.ADD_REMOVE), setting.neighbours), Refused
        ):
            return Responding(drawn, self.at_most)
        # The draw is given, or earns nothing: what it moves then responds, by the design's own step.
        return Respondents(self.at_most, self._moved(setting))

    def _moved(self, setting: Setting) -> Neighbours:
        """What a changed record does to the sample: a fixed number of units stays one."""
        replaced = setting.level < 2 and self.design.base_relation(setting) == Relation.REPLACE_ONE
        return Relation.REPLACE_ONE if replaced else setting.neighbours

    def on_sample(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        moved = self._moved(setting)
        kept = profile if moved == Relation.ADD_REMOVE else profile.to_replace_one()
        steps = self.copies * (2 if moved == Relation.ADD_REMOVE and self.sizes_may_change else 1)
        return PrivacyProfile(kept.curve.steps(steps) if steps > 1 else kept.curve, setting.neighbours)

    def conditions(self, setting: Setting) -> tuple[str, ...]:
        # A draw that earns nothing rests on nothing.
        drawn = isinstance(self.inside(setting), Responding)
        return self.design.conditions(setting) if drawn else Design.conditions(self, setting)

    def sampled(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        same = thinned(self.design, self.at_most)
        strata = {str(label): each for label, each in self.design.insides().items() if label is not None}
        if same is not None:
            return same.sampled(profile, neighbours)
        if profile.parts and strata:
            # Units respond by themselves, so given the other strata the rule is that of one stratum.
            parts = dict(profile.parts)
            pairs = dict.fromkeys((each, parts.get(label, 1.0)) for label, each in strata.items())
            curves = (self.around(each).sampled(profile.of_part(part), neighbours).curve for each, part in pairs)
            return PrivacyProfile(greatest(curves), neighbours)
        return super().sampled(profile, neighbours)

    def by_stratum(self, setting: Setting) -> Mapping[str, Design]:
        # Where the draw earns nothing, or is given, everybody responds alike.
        if not isinstance(self.inside(setting), Responding):
            return {}
        return {label: self.around(each) for label, each in self.design.by_stratum(setting).items()}

    def of_strata(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        return self.design.of_strata(profile, setting)


@dataclass(frozen=True)
class Respondents(Undrawn):
    """Those who respond from a sample that is given, each by itself; `moved` is what a neighbour changes in the sample."""

    kind: ClassVar[str] = "respondents"
    at_most: float
    moved: Neighbours

    def __post_init__(self) -> None:
        check_rate("at_most", self.at_most)

    @property
    def for_any_frame(self) -> bool:  # type: ignore[override]
        # Samples of a fixed number need frames that are long enough.
        return self.moved == Relation.ADD_REMOVE

    @property
    def largest_probability(self) -> float:
        return self.at_most

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        answer = independent_bound((self.at_most,), losses, self.moved)
        if isinstance(answer, Refused):
            return answer
        holds = (*answer.holds_when, no_likelier(self.at_most, "responds"))
        return Bound(answer.upper, 0.0, False, f"{answer.source}; {RESPONSE}", holds_when=holds, common=answer.common)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        return Poisson(self.at_most).sharper(base, losses, self.moved, alpha)

    def sampled(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        return PrivacyProfile(Poisson(self.at_most).sampled(profile, self.moved).curve, neighbours)


@register("respondents", page="stages", commands={}, drawn=False)
def respondents(at_most: float, moved: Neighbours) -> Respondents:
    """Those who respond from a given sample, each with a probability of at most `at_most`.

    >>> respondents(0.6, "add-remove").largest_probability
    0.6
    """
    return Respondents(at_most, moved)


@register("responding", page="stages", commands={})
def responding(design: Design, *, at_most: float) -> Responding:
    """A design whose units respond independently, each with a probability of at most `at_most`, whatever its answers.

    An average response rate is not such a bound. In a survey only the answers that came back are read: plan(responses=...).

    >>> from dpsurvey.design import poisson
    >>> responding(poisson(0.1), at_most=0.6).largest_probability
    0.06
    """
    return Responding(design, at_most)
