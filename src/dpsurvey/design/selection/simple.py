"""Simple random sampling, without and with replacement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from ...loss.refused import Refused
from ...loss.transport import profile_of, several_sinks, several_sources
from ...loss.worst_case.contest import Contest
from ...privacy.curve import Curve
from ...privacy.rounding import log_mixture, times
from .base import PUBLIC, SAMPLE_ONLY, SECRET, Bound, Losses, Neighbours, Selection, check_count

SIZE_KNOWN = "the population size is public"
SIZE_AT_LEAST = "the larger of the two neighbouring populations has at least the stated number of units"
WITHOUT = "Balle, Barthe and Gaboardi 2018, Theorem 9; docs/designs/srs.md"
WITH = "docs/designs/with-replacement.md, redirected draws"


def _holds(neighbours: Neighbours) -> tuple[str, ...]:
    size = SIZE_KNOWN if neighbours == "replace-one" else SIZE_AT_LEAST
    return (SECRET, PUBLIC, SAMPLE_ONLY, size)


@dataclass(frozen=True)
class WithoutReplacement(Selection):
    """n of `population` units, all sets equally likely. f = n/population, e_R = the mechanism's replace-one loss.

    epsilon' = log(1 + f (e^e_R - 1)), exact, under either relation; under add-remove `population` is the larger one.

    >>> from dpsurvey.design.selection.base import Losses
    >>> round(WithoutReplacement(2, 5).bound(Losses.of(0.5, "replace-one"), "replace-one").upper, 10)
    0.2307056927
    """

    kind: ClassVar[str] = "srs"
    fixed_size: ClassVar[bool] = True
    n: int
    population: int

    def __post_init__(self) -> None:
        check_count("population", self.population)
        check_count("n", self.n, at_most=self.population)

    @property
    def inclusion(self) -> float:
        return self.n / self.population

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if neighbours == "add-remove" and self.n == self.population:
            return Refused(
                "a population with one unit less could not be drawn from, which would show",
                "n below the population size, or a Poisson design",
                WITHOUT,
            )
        if self.inclusion == 1.0:
            return Bound.unchanged(losses.replace_one, WITHOUT, holds_when=_holds(neighbours))
        value = log_mixture((self.inclusion, losses.replace_one))
        return Bound.equal(value, WITHOUT, holds_when=_holds(neighbours))

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        replaced = profile_of(base.steps(2) if losses.base == "add-remove" else base)
        return self.inclusion * replaced(1.0 + (alpha - 1.0) / self.inclusion)

    def contest(self, neighbours: Neighbours) -> Contest | None:
        others, f = self.population - 1, self.inclusion
        # Kinds of records: the other units, all alike; the target; what replaces it.
        with_target = {(self.n, 0, 0): 1.0 - f, (self.n - 1, 1, 0): f}
        if neighbours == "add-remove":
            return Contest((others, 1, 0), with_target, (others, 0, 0), {(self.n, 0, 0): 1.0}) if self.n <= others else None
        return Contest((others, 1, 0), with_target, (others, 0, 1), {(self.n, 0, 0): 1.0 - f, (self.n - 1, 0, 1): f})


@dataclass(frozen=True)
class WithReplacement(Selection):
    """n independent draws from `population` units; a unit may be drawn several times.

    epsilon' = n log(1 + (e^e_R - 1)/population), exact. It can exceed epsilon: one unit may be drawn n times.
    """

    kind: ClassVar[str] = "with-replacement"
    fixed_size: ClassVar[bool] = True
    n: int
    population: int

    def __post_init__(self) -> None:
        check_count("population", self.population)
        check_count("n", self.n)

    @property
    def inclusion(self) -> float:
        return -math.expm1(self.n * math.log1p(-1.0 / self.population)) if self.population > 1 else 1.0

    def known(self, losses: Losses, neighbours: Neighbours) -> float:
        # Who is known to be drawn may have been drawn every time.
        return times(self.n, losses.replace_one)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if neighbours == "add-remove" and self.population == 1:
            return Refused("an empty population could not be drawn from", "a population of two or more", WITH)
        value = self.n * log_mixture((1.0 / self.population, losses.replace_one))
        details = {"gamma_form_needs_delta": log_mixture((self.inclusion, losses.replace_one))}
        return Bound.equal(value, WITH, holds_when=_holds(neighbours), details=details)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        step = 2 if losses.base == "add-remove" else 1
        counts = [(weight, step * k) for k, weight in binomial(self.n, 1.0 / self.population) if k]
        forward = several_sources(counts, alpha - 1.0 + self.inclusion, base, rising=neighbours == "replace-one")
        # Under replace-one the two orders are the same but for the names of the two values.
        return forward if neighbours == "replace-one" else max(forward, several_sinks(counts, self.inclusion, alpha, base))

    def contest(self, neighbours: Neighbours) -> Contest | None:
        others, law = self.population - 1, dict(binomial(self.n, 1.0 / self.population))
        with_target = {(self.n - k, k, 0): weight for k, weight in law.items()}
        if neighbours == "add-remove":
            return Contest((others, 1, 0), with_target, (others, 0, 0), {(self.n, 0, 0): 1.0}, copies=True)
        return Contest((others, 1, 0), with_target, (others, 0, 1), {(self.n - k, 0, k): w for k, w in law.items()}, copies=True)


def binomial(n: int, p: float) -> list[tuple[int, float]]:
    """The binomial law as (count, probability); counts beyond all but 1e-30 of the mass are left out.

    >>> [(k, round(weight, 12)) for k, weight in binomial(2, 0.5)]
    [(0, 0.25), (1, 0.5), (2, 0.25)]
    """
    if p == 1.0:
        return [(n, 1.0)]
    # Bernstein: fifteen standard deviations and sixty more leave less than e^-80.
    mean = n * p
    width = 15.0 * math.sqrt(mean) + 60.0
    first, last = max(0, math.floor(mean - width)), min(n, math.ceil(mean + width))
    counts = np.arange(first, last + 1)
    logs = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1) + counts * math.log(p) + (n - counts) * math.log1p(-p)
    weights = np.exp(logs)
    return list(zip(counts.tolist(), (weights / weights.sum()).tolist(), strict=True))
