"""Poisson (Bernoulli) sampling: each unit is drawn by itself, with a public rate; and the loss of all independent draws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..loss.bound import SAMPLE_ONLY, Bound, Figure, Losses, Refused, sizes_unprotected
from ..loss.transport import one_source, profile_of
from ..loss.worst_case.contest import Contest
from ..privacy.curve import Curve
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Neighbours, Relation, Restriction
from ..privacy.rounding import below, log_mixture, replaced, up
from ..privacy.setting import Setting
from .base import Design
from .checks import check_rate
from .compared import AtRate, Candidate, Compared, SameSize
from .parts import Part
from .recipe import Each, Step
from .registry import register

SOURCE = "Steinke 2025, Theorem 1; docs/designs/poisson.md"
ALONE = "units are drawn independently, each with a public probability that depends on nobody's confidential data"


class IndependentDraws(Design):
    """Each unit by itself, with a public probability; the loss of a unit is that of its own probability.

    add-remove: log(1 + p(e^e - 1)); replace-one from add-remove: log((1-p+p e^e)/(1-p+p e^-e)), from both:
    log(1 + p(e^e - 1)); replace-one from replace-one: e, since the random size is not hidden. All exact.
    """

    fixed_size = False
    sample_relation = Relation.ADD_REMOVE
    for_any_frame = True
    # Whether a record may be replaced by one with another probability: strata or classes that are not held fixed.
    moves: bool = False

    @property
    @abstractmethod
    def rates(self) -> tuple[float, ...]:
        """The public probabilities that units may have."""

    @property
    def largest_probability(self) -> float:
        return max(self.rates)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        return independent_bound(self.rates, losses, neighbours, moves=self.moves)

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        return losses.replace_one if neighbours == Relation.REPLACE_ONE else losses.add_remove

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        p, one = self.largest_probability, profile_of(base)
        if not losses.sizes_protected:
            # Given the size of the sample it is a simple random sample only if all probabilities are equal.
            return p * one(alpha)
        if neighbours == Relation.ADD_REMOVE or losses.base == Relation.BOTH:
            return p * one(1.0 + (alpha - 1.0) / p)
        return one_source(p, (alpha * p, profile_of(base.steps(2))), ((alpha - 1.0) * (1.0 - p), one))

    def sampled(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        # A record that moves to another class loses no more than one that stays in that of the largest rate.
        if profile.relation == Relation.BOTH or (profile.relation == Relation.ADD_REMOVE and neighbours == Relation.ADD_REMOVE):
            return PrivacyProfile(profile.amplify(self.largest_probability).curve, neighbours)
        if profile.relation == Relation.ADD_REMOVE and self.largest_probability == 1.0:
            return profile.to_replace_one()
        return super().sampled(profile, neighbours)

    def contest(self, neighbours: Neighbours) -> Contest | None:
        p = self.largest_probability
        # One other unit is enough: given the others' samples the target is drawn by itself.
        alone, joined = {(0, 0, 0): 1.0 - p, (0, 1, 0): p}, {(0, 0, 0): 1.0 - p, (0, 0, 1): p}
        if neighbours == Relation.ADD_REMOVE:
            return Contest((0, 1, 0), alone, (0, 0, 0), {(0, 0, 0): 1.0})
        return Contest((0, 1, 0), alone, (0, 0, 1), joined)

    # The rate of a unit is its own, so one unit more or less leaves all others as they are.

    def refuses(self, setting: Setting) -> Refused | None:
        return None

    def relation_name(self, setting: Setting) -> Restriction:
        return Restriction.NONE

    def weights_move(self, setting: Setting) -> bool:
        return False

    def conditions(self, setting: Setting) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Poisson(IndependentDraws):
    """Each unit independently with probability `rate`; the sample size is random and stays secret.

    >>> from dpsurvey.privacy import PrivacyProfile, Setting
    >>> answer = poisson(0.02).amplify(PrivacyProfile.pure(4.4647, "add-remove"), Setting("frame", neighbours="add-remove"))
    >>> round(answer.profile.epsilon(0.0), 3)
    1.0
    """

    kind: ClassVar[str] = "poisson"
    of_frame: ClassVar[tuple[str, ...]] = ("size",)
    rate: float
    size: int | None = None

    def __post_init__(self) -> None:
        check_rate("rate", self.rate)

    @property
    def rates(self) -> tuple[float, ...]:
        return (self.rate,)

    def sized(self, size: int | None) -> Poisson:
        return Poisson(self.rate, self.size if size is None else size)

    def parts(self) -> tuple[Part, ...]:
        return (Part(None, self.rate, None, self.size),)

    def in_words(self, unit: str = "unit") -> str:
        return f"Poisson sampling, each {unit} with probability {self.rate}"

    def recipe(self) -> Step:
        return Each(self.rate)

    def resized(self, factor: float) -> Poisson:
        return Poisson(min(1.0, self.rate * factor), self.size)

    def figures(self) -> dict[str, Any]:
        return {"kind": self.kind, "rate": self.rate}


def _compared(share: AtRate) -> Iterator[Compared]:
    own = Poisson(share.rate)
    yield Compared("Poisson", own, Relation.ADD_REMOVE, Relation.ADD_REMOVE, "each unit by itself", own)


def _candidates(asked: SameSize) -> Iterator[Candidate]:
    yield Candidate("Poisson", Poisson(asked.rate))


@register("poisson", compared=_compared, candidates=_candidates, commands={})
def poisson(rate: float) -> Poisson:
    """Draw each unit independently with probability `rate`.

    >>> poisson(rate=0.02)
    Poisson(rate=0.02, size=None)
    """
    return Poisson(rate)


def independent_bound(rates: Sequence[float], losses: Losses, neighbours: Neighbours, *, moves: bool = False) -> Bound | Refused:
    """The loss where each unit is drawn by itself, with one of these probabilities; `moves`: a record may change its own.

    >>> round(independent_bound((0.1, 0.5), Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    0.620114507
    """
    if not losses.sizes_protected and neighbours == Relation.ADD_REMOVE:
        return sizes_unprotected("a record more or less")
    if not losses.sizes_protected and moves and len(set(rates)) > 1:
        return sizes_unprotected("a record that moves to a class with another rate")
    units, top = sorted(set(rates)), max(rates)
    values = {p: _of_unit(p, losses, neighbours) for p in units}
    details: dict[str, Any] = {"per_unit": [values[p] for p in rates]} if len(units) > 1 else {}
    upper = max(values.values())
    if moves and neighbours == Relation.REPLACE_ONE and len(units) > 1 and losses.sizes_protected:
        upper = max([upper, *(crossing(p, q, losses) for p in units for q in units if p != q)])
        details["crossing_classes"] = Figure(upper, "a record that moves to a class with another rate")
    if neighbours == Relation.ADD_REMOVE:
        other = removal(top, losses.add_remove)
        details["removal_direction"] = Figure(other, "in the other order, the population without the record first")
    # After nonresponse the two losses of the mechanism are no longer those of one type; then the bound is not tight.
    exact = losses.replace_one in (losses.add_remove, 2.0 * losses.add_remove) or not losses.sizes_protected
    exact = exact or neighbours == Relation.ADD_REMOVE
    lower = below(upper) if exact else below(log_mixture((top, losses.add_remove)))
    return Bound(upper, lower, exact, SOURCE, holds_when=(ALONE, SAMPLE_ONLY), details=details)


def _of_unit(p: float, losses: Losses, neighbours: Neighbours) -> float:
    """The loss of one unit with probability p."""
    if neighbours == Relation.ADD_REMOVE:
        return Bound.equal(log_mixture((p, losses.add_remove)), SOURCE).upper
    return crossing(p, p, losses) if losses.sizes_protected else losses.replace_one


def removal(p: float, epsilon: float) -> float:
    """The smaller direction, population without the record against with it: -log(1 - p(1 - e^-epsilon)).

    >>> round(removal(0.5, 2.0), 10)
    0.5662191695
    """
    return -log_mixture((p, -epsilon)) if p < 1.0 else epsilon


def moved_between(strata: Iterable[tuple[float, float]]) -> float:
    """A record that leaves a stratum for another one, of all (rate, epsilon) of a record more or less in each; rounded up.

    Given the others, the laws are (1-p)Q + pX and (1-q)Q + qY with X <= e^d Q and Y >= e^-f Q, d and f those of the two strata.

    >>> round(moved_between([(0.1, 1.0), (0.5, 1.0)]), 4), round(moved_between([(1.0, 0.02), (0.02, 4.0)]), 4)
    (1.0, 0.7485)
    """
    pairs = list(dict.fromkeys(strata))
    return up(max(up(log_mixture(pair)) for pair in pairs) + max(up(removal(p, loss)) for p, loss in pairs))


def crossing(p: float, q: float, losses: Losses) -> float:
    """A record with probability p replaced by one with probability q, rounded up.

    Given the others, the laws are (1-p)Q + pX and (1-q)Q + qY with X <= e^d Q, Y >= e^-d Q and X <= e^r Y. The ratio
    rises in X and falls in Y, and along X = e^r Y it is monotone, so it is largest at one of the two ends of that line.
    A Y above Q may as well be absent, so the bound also holds if the probabilities depend on the own value and p, q are
    their largest values.

    >>> round(crossing(0.5, 0.1, Losses.of(1.0, "add-remove")), 4)
    0.6854
    """
    d, r = losses.add_remove, min(losses.replace_one, 2.0 * losses.add_remove)
    if r == 2.0 * d and p == q:
        return replaced(d, p)
    ends = ((d, min(0.0, d - r)), (max(0.0, r - d), -d))
    return Bound.equal(max(log_mixture((p, x)) - log_mixture((q, y)) for x, y in ends), SOURCE).upper
