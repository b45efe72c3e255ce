"""Poisson (Bernoulli) sampling: each unit by itself, with its own public probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...errors import BadValue
from ...loss.refused import Refused
from ...loss.transport import one_source, profile_of
from ...loss.worst_case.contest import Contest
from ...privacy.curve import Curve
from ...privacy.rounding import below, log_mixture, replaced
from .base import PUBLIC, SAMPLE_ONLY, SECRET, Bound, Losses, Neighbours, Selection, check_rate, sizes_unprotected

SOURCE = "Steinke 2025, Theorem 1; docs/designs/poisson.md"
ALONE = "units are drawn independently, each with a public probability that depends on nobody's confidential data"


@dataclass(frozen=True)
class Independent(Selection):
    """Each unit independently, with probabilities that are public; the loss of a unit is that of its own probability.

    add-remove: log(1 + p(e^e - 1)); replace-one from add-remove: log((1-p+p e^e)/(1-p+p e^-e)), from both:
    log(1 + p(e^e - 1)); replace-one from replace-one: e, since the random size is not hidden. All exact.

    >>> from dpsurvey.design.selection.base import Losses
    >>> round(Independent((0.1, 0.5)).bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    0.620114507
    """

    kind: ClassVar[str] = "poisson"
    probabilities: tuple[float, ...]
    # Whether a record may be replaced by one with another probability: strata or size classes that are not held fixed.
    moves: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.probabilities, tuple):
            raise BadValue("probabilities are a tuple", given=repr(self.probabilities), hint="Independent((0.1,)), one for all")
        if not self.probabilities:
            raise BadValue("probabilities must name at least one unit or class of units")
        for each in self.probabilities:
            check_rate("probabilities", each)

    @property
    def inclusion(self) -> float:
        return max(self.probabilities)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if not losses.sizes_protected and neighbours == "add-remove":
            return sizes_unprotected("a record more or less")
        if not losses.sizes_protected and self.moves and len(set(self.probabilities)) > 1:
            return sizes_unprotected("a record that moves to a class with another rate")
        units = sorted(set(self.probabilities))
        values = {p: self.unit(p, losses, neighbours) for p in units}
        details: dict[str, Any] = {"per_unit": [values[p] for p in self.probabilities]} if len(units) > 1 else {}
        upper = max(values.values())
        if self.moves and neighbours == "replace-one" and len(units) > 1 and losses.sizes_protected:
            upper = max([upper, *(crossing(p, q, losses) for p in units for q in units if p != q)])
            details["crossing_classes"] = upper
        if neighbours == "add-remove":
            top = self.inclusion
            details |= {"removal_direction": removal(top, losses.add_remove)}
        # After nonresponse the two losses of the mechanism are no longer those of one type; then the bound is not tight.
        exact = losses.replace_one in (losses.add_remove, 2.0 * losses.add_remove) or not losses.sizes_protected
        exact = exact or neighbours == "add-remove"
        lower = below(upper) if exact else below(log_mixture((self.inclusion, losses.add_remove)))
        return Bound(upper, lower, exact, SOURCE, holds_when=(SECRET, PUBLIC, ALONE, SAMPLE_ONLY), details=details)

    @staticmethod
    def unit(p: float, losses: Losses, neighbours: Neighbours) -> float:
        """The loss of one unit with probability p."""
        if neighbours == "add-remove":
            return Bound.equal(log_mixture((p, losses.add_remove)), SOURCE).upper
        if not losses.sizes_protected:
            return losses.replace_one
        return crossing(p, p, losses)

    def known(self, losses: Losses, neighbours: Neighbours) -> float:
        return losses.replace_one if neighbours == "replace-one" else losses.add_remove

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        if not losses.sizes_protected:
            # Given the size of the sample it is a simple random sample only if all probabilities are equal.
            return self.inclusion * profile_of(base)(alpha)
        p, one = self.inclusion, profile_of(base)
        if neighbours == "add-remove" or losses.base == "both":
            return p * one(1.0 + (alpha - 1.0) / p)
        return one_source(p, (alpha * p, profile_of(base.steps(2))), ((alpha - 1.0) * (1.0 - p), one))

    def contest(self, neighbours: Neighbours) -> Contest | None:
        p = self.inclusion
        # One other unit is enough: given the others' samples the target is drawn by itself.
        alone, joined = {(0, 0, 0): 1.0 - p, (0, 1, 0): p}, {(0, 0, 0): 1.0 - p, (0, 0, 1): p}
        if neighbours == "add-remove":
            return Contest((0, 1, 0), alone, (0, 0, 0), {(0, 0, 0): 1.0})
        return Contest((0, 1, 0), alone, (0, 0, 1), joined)


def removal(p: float, epsilon: float) -> float:
    """The smaller direction, population without the record against with it: -log(1 - p(1 - e^-epsilon)).

    >>> round(removal(0.5, 2.0), 10)
    0.5662191695
    """
    return -log_mixture((p, -epsilon)) if p < 1.0 else epsilon


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
