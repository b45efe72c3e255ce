"""Coverage: those who are on the frame, of all in the population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import BadValue
from ..loss.bound import Bound, Losses, Refused, no_likelier
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import amplified, below, log_mixture, up
from ..privacy.setting import Setting
from .base import Design
from .checks import check_rate
from .cluster_base import ClusterSample
from .collected import refuse_collected
from .groups import Group
from .poisson import IndependentDraws, crossing
from .registry import register
from .stages import Stages
from .wrapped import Wrapped

COVERAGE = "docs/designs/stages.md, coverage before sampling"
EVERYBODY = "everybody is on the frame"
KEEPS_ITS_PLACE = "a cluster of which nobody is on the frame keeps its place in the draw"


@dataclass(frozen=True)
class Covered(Wrapped):
    """A population of which each unit is on the frame independently, with probability at most `at_most`.

    >>> from dpsurvey.loss.bound import Losses
    >>> from dpsurvey.design import poisson
    >>> round(covered(poisson(0.4), at_most=0.5).bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    0.2953945291
    """

    kind: ClassVar[str] = "covered"
    design: Design
    at_most: float

    def __post_init__(self) -> None:
        check_rate("coverage-at-most", self.at_most)
        refuse_collected(self.design)
        if self.design.any_inside(lambda each: isinstance(each, Covered)):
            raise BadValue("coverage comes once, before everything else")

    def in_words(self, unit: str = "unit") -> str:
        return f"{self.design.in_words(unit)}, from a frame that holds each {unit} with a probability of at most {self.at_most}"

    @property
    def largest_probability(self) -> float:
        return self.design.largest_probability * self.at_most

    @property
    def listed_probability(self) -> float:
        return self.design.listed_probability * self.at_most

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        everybody = self.at_most == 1.0 and self.design.rests_on_size
        if not (self.design.for_any_frame or everybody):
            return too_small_frames() if self.design.rests_on_size else random_frame()
        inner = self.design.bound(losses, Relation.ADD_REMOVE)
        if isinstance(inner, Refused):
            # The number of units on the frame is random now, whatever the neighbours of the population are.
            return inner
        holds = (
            *inner.holds_when,
            no_likelier(self.at_most, "is on the frame"),
            "the size of the frame is not published, nor used as a constant",
            *((KEEPS_ITS_PLACE,) if self.design.any_inside(lambda each: isinstance(each, ClusterSample | Stages)) else ()),
            *((EVERYBODY,) if everybody else ()),
        )
        source, c = f"{inner.source}; {COVERAGE}", self.at_most
        alone = isinstance(self.design, IndependentDraws)
        lower = below(
            log_mixture((self.design.least_probability(Relation.ADD_REMOVE) * c, min(losses.add_remove, losses.replace_one)))
        )
        if neighbours == Relation.ADD_REMOVE:
            value = amplified(inner.upper, c)
            lower = below(amplified(inner.lower, c)) if alone else lower
            return Bound(value, min(lower, value), alone and inner.exact, source, inner.scope, holds, common=inner.common)
        if self.design.any_inside(lambda each: isinstance(each, Group)):
            # Units of one entity are missing one by one: it goes, and another one comes.
            value = up(2.0 * amplified(inner.upper, c))
            return Bound(value, min(lower, value), False, source, inner.scope, holds, common=inner.common)
        other = self.design.bound(losses, Relation.REPLACE_ONE)
        both = other.upper if isinstance(other, Bound) else 2.0 * inner.upper
        value = up(crossing(c, c, Losses(inner.upper, min(both, 2.0 * inner.upper), Relation.ADD_REMOVE)))
        return Bound(value, min(lower, value), False, source, inner.scope, holds, common=inner.common)

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        return self.design.loss_in_sample(losses, neighbours)

    def around(self, design: Design) -> Covered:
        return Covered(design, self.at_most)

    def inside(self, setting: Setting) -> Design | Refused:
        found = self.design.inside(setting)
        if isinstance(found, Refused) or "coverage" not in setting.stages_inside:
            return found
        whole = self.around(found)
        # Where coverage earns nothing, the rest may.
        refused = isinstance(whole.bound(Losses.of(1.0, self.base_relation(setting)), setting.neighbours), Refused)
        return found if refused else whole

    def on_sample(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        return self.design.on_sample(profile, setting)


def random_frame() -> Refused:
    """The refusal for a design whose loss was computed for one size of the frame."""
    return Refused(
        "the loss was computed for one size of the frame, which coverage makes random",
        "Poisson sampling, proportional allocation for every size, or clusters with a cap",
        COVERAGE,
    )


def too_small_frames() -> Refused:
    """The refusal for a fixed number of units from a frame on which anybody may be missing."""
    return Refused(
        "a fixed number of units needs a frame with at least so many, and where each unit is missing by itself with some "
        "probability every smaller frame occurs too, even the empty one",
        "Poisson sampling, proportional allocation for every size, or clusters with a cap; or protect the frame, and leave "
        "coverage out",
        COVERAGE,
    )


@register("covered", page="stages", commands={})
def covered(design: Design, *, at_most: float) -> Covered:
    """A design on a frame that may miss units: each is on it independently, with a probability of at most `at_most`.

    >>> from dpsurvey.design import poisson
    >>> covered(poisson(0.1), at_most=0.9).largest_probability
    0.09000000000000001
    """
    return Covered(design, at_most)
