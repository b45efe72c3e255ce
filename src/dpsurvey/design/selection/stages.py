"""Stages around a sample: units missing from the frame before it, units that do not respond after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...errors import BadValue
from ...loss.refused import Refused
from ...loss.transport import one_source, profile_of
from ...privacy.curve import Curve
from ...privacy.rounding import amplified, below, log_mixture, replaced, up
from .base import Bound, Losses, Neighbours, Selection, check_rate
from .cluster import MOST_CLUSTERS, CappedClusters, Clusters
from .independent import Independent, crossing
from .proportional import Proportional
from .simple import WithoutReplacement, WithReplacement
from .two_stage import TwoStage

RESPONSE = "docs/designs/stages.md, response after sampling"
COVERAGE = "docs/designs/stages.md, coverage before sampling"
EVERYBODY = "everybody is on the frame"
KEEPS_ITS_PLACE = "a cluster of which nobody is on the frame keeps its place in the draw"


def respond(losses: Losses, p: float) -> Losses:
    """The losses on the whole sample of a mechanism that sees each sampled unit with probability at most p."""
    if not losses.sizes_protected:
        return losses
    added = up(log_mixture((p, losses.add_remove)))
    if losses.base == "both" and losses.replace_one == losses.add_remove:
        return Losses(added, added, "both")
    return Losses(added, replaced(losses.add_remove, p), "add-remove")


def at_most(rate: float, does: str) -> str:
    """The condition under which a rate of response or coverage counts."""
    return f"no unit {does} with a probability above {rate:g}, whatever its answers, and units do so independently; no average"


class Stage(Selection):
    """A random step before or after a sample; what the sample cannot hide, the step does not hide either."""

    sample: Selection

    @property
    def detection_steps(self) -> float:
        return self.sample.detection_steps

    @property
    def depends_on_data(self) -> float:
        return self.sample.depends_on_data

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return self.sample.fixed_size


@dataclass(frozen=True)
class Responding(Stage):
    """A sample of which each unit responds independently, with probability at most `response`.

    The mechanism on the respondents is, on the whole sample, one with smaller losses. After a cluster sample the
    respondents are a two-stage sample, which is exact.

    >>> from dpsurvey.design.selection.base import Losses
    >>> chain = Responding(WithoutReplacement(2, 4), 0.5)
    >>> round(chain.bound(Losses.of(1.0, "add-remove"), "replace-one").upper, 10)
    0.620114507
    """

    kind: ClassVar[str] = "responding"
    page: ClassVar[str] = "stages"
    sample: Selection
    response: float

    def __post_init__(self) -> None:
        check_rate("response-at-most", self.response)

    @property
    def inclusion(self) -> float:
        return self.sample.inclusion * self.response

    def _two_stage(self) -> Selection | None:
        inside = self.sample
        if isinstance(inside, Clusters):
            return TwoStage(inside.sizes, inside.take, self.response, unit_in=inside.unit_in)
        if isinstance(inside, CappedClusters) and inside.clusters <= MOST_CLUSTERS:
            return TwoStage((inside.cap,) * inside.clusters, inside.take, self.response, capped=True)
        if isinstance(inside, TwoStage) and inside.unit_rate is not None:
            return TwoStage(
                inside.sizes, inside.take, inside.unit_rate * self.response, unit_in=inside.unit_in, capped=inside.capped
            )
        return (
            Independent(tuple(p * self.response for p in inside.probabilities), inside.moves)
            if isinstance(inside, Independent)
            else None
        )

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if not losses.sizes_protected:
            return Refused(
                "who responds makes the number of records random, which a replace-one mechanism does not hide",
                "a mechanism that is private under add-remove",
                RESPONSE,
            )
        if draws_copies(self.sample):
            return Refused(
                "a unit that is drawn several times responds for all its copies at once, and no bound is proved for that",
                "sampling without replacement, or the with-replacement figure without the response rate",
                RESPONSE,
            )
        same = self._two_stage()
        answer = (
            same.bound(losses, neighbours) if same is not None else self.sample.bound(respond(losses, self.response), neighbours)
        )
        if isinstance(answer, Refused):
            return answer
        exact = answer.exact and (same is not None or isinstance(self.sample, WithoutReplacement))
        seen = self.sample.least_inclusion(neighbours) * self.response
        lower = answer.lower if exact else min(answer.lower, below(log_mixture((seen, losses.add_remove))))
        holds = (*answer.holds_when, at_most(self.response, "responds"))
        own = losses.replace_one if neighbours == "replace-one" else losses.add_remove
        details = {**answer.details, "known_to_have_responded": own}
        source = f"{answer.source}; {RESPONSE}"
        return Bound(answer.upper, lower, exact, source, answer.scope, holds, answer.certified_by, details)

    def known(self, losses: Losses, neighbours: Neighbours) -> float:
        # Someone known to be sampled may still not have responded.
        return self.sample.known(respond(losses, self.response), neighbours)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        same = self._two_stage()
        if same is not None:
            return same.sharper(base, losses, neighbours, alpha)
        if not isinstance(self.sample, WithoutReplacement) or losses.base != "add-remove":
            return 1.0
        p, f = self.response, self.sample.inclusion
        threshold = 1.0 + (alpha - 1.0) / f
        one, two = profile_of(base), profile_of(base.steps(2))
        return f * one_source(p, (threshold * p, two), ((threshold - 1.0) * (1.0 - p), one))


@dataclass(frozen=True)
class Covered(Stage):
    """A population of which each unit is on the frame independently, with probability at most `coverage`.

    >>> from dpsurvey.design.selection.base import Losses
    >>> round(Covered(Independent((0.4,)), 0.5).bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    0.2953945291
    """

    kind: ClassVar[str] = "covered"
    page: ClassVar[str] = "stages"
    sample: Selection
    coverage: float

    def __post_init__(self) -> None:
        check_rate("coverage-at-most", self.coverage)
        if isinstance(self.sample, Covered):
            raise BadValue("coverage comes once, before everything else")

    @property
    def inclusion(self) -> float:
        return self.sample.inclusion * self.coverage

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if self.fixed_size and self.coverage < 1.0:
            return too_small_frames()
        inner = self.sample.bound(losses, "add-remove") if for_any_frame(self.sample) else random_frame()
        if isinstance(inner, Refused):
            # The number of units on the frame is random now, whatever the neighbours of the population are.
            return inner
        holds = (
            *inner.holds_when,
            at_most(self.coverage, "is on the frame"),
            "the size of the frame is not published, nor used as a constant",
            *((KEEPS_ITS_PLACE,) if draws_clusters(self.sample) else ()),
            *((EVERYBODY,) if self.fixed_size else ()),
        )
        source, c = f"{inner.source}; {COVERAGE}", self.coverage
        alone = isinstance(self.sample, Independent)
        lower = below(log_mixture((self.sample.least_inclusion("add-remove") * c, min(losses.add_remove, losses.replace_one))))
        if neighbours == "add-remove":
            value = amplified(inner.upper, c)
            lower = below(amplified(inner.lower, c)) if alone else lower
            return Bound(value, min(lower, value), alone and inner.exact, source, inner.scope, holds)
        other = self.sample.bound(losses, "replace-one")
        both = other.upper if isinstance(other, Bound) else 2.0 * inner.upper
        value = up(crossing(c, c, Losses(inner.upper, min(both, 2.0 * inner.upper), "add-remove")))
        return Bound(value, min(lower, value), False, source, inner.scope, holds)

    def known(self, losses: Losses, neighbours: Neighbours) -> float:
        return self.sample.known(losses, neighbours)


def draws_copies(sample: Selection) -> bool:
    """Whether a unit may be in the sample several times, at whatever depth the draw lies."""
    inside = getattr(sample, "sample", None)
    return isinstance(sample, WithReplacement) or (isinstance(inside, Selection) and draws_copies(inside))


def draws_clusters(sample: Selection) -> bool:
    """Whether clusters are drawn, at whatever depth."""
    inside = getattr(sample, "sample", None)
    whole = isinstance(sample, Clusters | CappedClusters | TwoStage)
    return whole or (isinstance(inside, Selection) and draws_clusters(inside))


def for_any_frame(sample: Selection) -> bool:
    """Whether a design's loss holds for every frame that coverage may leave: no size of it was used, or only as a limit."""
    if isinstance(sample, Responding):
        return for_any_frame(sample.sample)
    if isinstance(sample, Proportional):
        return sample.population is None
    return isinstance(sample, Independent | Clusters | CappedClusters | TwoStage | WithoutReplacement | WithReplacement)


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


def average_rate() -> Refused:
    """The refusal for a response or coverage rate that is an average."""
    return Refused(
        "an average rate says nothing about those who respond for certain",
        "an upper bound that holds for every unit, whatever its answers",
        "rule of declared upper bounds, docs/designs/stages.md",
    )
