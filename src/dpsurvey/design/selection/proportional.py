"""Proportional allocation in a stratum: a share of its units, with the rounding that makes it a whole number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from ...errors import BadValue
from ...privacy.curve import Curve, Gaussian
from ...privacy.rounding import down, log_mixture, up
from ..answer import Refused
from ..split import one_source, profile_of, several_sources
from ..worst_case.contest import Contest
from .base import PUBLIC, SAMPLE_ONLY, SECRET, Bound, Losses, Neighbours, Selection, check_count, check_rate, sizes_unprotected
from .independent import Independent
from .random_size import size_contest
from .size_law import LogLaw, exact_loss, solve, table_law

Rounding = Literal["random", "nearest", "bernoulli"]
RANDOM = "docs/designs/stratified.md, Theorem (randomised rounding); Bun et al. 2022, Theorem 4.3, is a looser form"
NEAREST = "docs/designs/stratified.md, nearest rounding; Bun et al. 2022, Section 4.3"
INSIDE = "the record stays in its stratum; one that changes stratum loses at most twice the add-remove figure"


@dataclass(frozen=True)
class Proportional(Selection):
    """A rate r of each stratum: r N rounded at random to a neighbouring whole number, or to the nearest one, then
    simple random sampling; or each unit by itself ("bernoulli"). Without a population the loss holds for every N.

    Randomised rounding, add-remove: log(1 + r(e^d - 1) + r(1-r)(e^R - 1)), the exact supremum over N, with d and R
    the mechanism's losses for a record more or less and for a replaced one.

    >>> from dpsurvey.design.selection.base import Losses
    >>> [round(Proportional(0.1, "random").bound(Losses.of(1.0, base), "add-remove").upper, 4) for base in ("add-remove", "both")]
    [0.5578, 0.2825]
    """

    kind: ClassVar[str] = "stratified"
    rate: float
    rounding: Rounding
    population: int | None = None

    def __post_init__(self) -> None:
        check_rate("rate", self.rate)
        if self.rounding not in ("random", "nearest", "bernoulli"):
            raise BadValue(f"unknown rounding {self.rounding!r}", hint="random, nearest or bernoulli")
        if self.population is not None:
            check_count("population", self.population)

    @property
    def inclusion(self) -> float:
        return min(1.0, self.rate) if self.rounding != "nearest" else 1.0 if self.population is None else self._largest_share

    @property
    def _largest_share(self) -> float:
        size = self.population or 1
        return max(self.take(size) / size, self.take(size + 1) / (size + 1))

    @property
    def exact_rate(self) -> Fraction:
        """The rate as the decimal number that was written."""
        return Fraction(repr(float(self.rate)))

    def take(self, size: int) -> int:
        """The nearest whole number to rate * size, halves up."""
        return math.floor(self.exact_rate * size + Fraction(1, 2))

    def sizes(self, size: int) -> LogLaw:
        """The law of the sample size from a stratum of `size` units."""
        if self.rounding == "nearest":
            return table_law(size, {self.take(size): 1.0})
        whole = math.floor(self.exact_rate * size)
        part = float(self.exact_rate * size - whole)
        return table_law(size, {whole: 1.0 - part} | ({whole + 1: part} if part else {}))

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if self.rounding == "bernoulli":
            return Independent((self.rate,)).bound(losses, neighbours)
        if not losses.sizes_protected and neighbours == "add-remove":
            return sizes_unprotected("the allocation")
        if neighbours == "replace-one":
            return self._replaced(losses)
        if self.population is not None:
            return self._this_size(losses)
        return self._random(losses) if self.rounding == "random" else self._nearest(losses)

    def _holds(self, *more: str) -> tuple[str, ...]:
        return (SECRET, PUBLIC, SAMPLE_ONLY, "the rate is a public constant, the same for both neighbours", *more)

    def _random(self, losses: Losses) -> Bound:
        r, d, moved = self.rate, losses.add_remove, losses.replace_one
        value = log_mixture((r, d), (r * (1.0 - r), moved))
        details: dict[str, Any] = {"unit_that_changes_stratum": 2.0 * value}
        if losses.base == "add-remove":
            details["printed_theorem"] = printed(d, r)
        if moved in (d, 2.0 * d):
            return Bound.equal(value, RANDOM, holds_when=self._holds(), details=details)
        lower = down(log_mixture((r, d)))
        return Bound(up(value), lower, False, RANDOM, holds_when=self._holds(), details=details)

    def _nearest(self, losses: Losses) -> Bound:
        # Where the allocation moves the loss is one step; where it stays, m of N+1 units are drawn. For each m the
        # fraction m/(N+1) is largest at the least N that is allocated m, and these fall from m = 1 or 2 on towards r.
        moves = losses.add_remove
        stays = log_mixture((self.largest_kept_share, losses.replace_one))
        details = {"allocation_moves": moves, "allocation_stays": stays}
        return Bound.equal(max(moves, stays), NEAREST, holds_when=self._holds(), details=details)

    @property
    def largest_kept_share(self) -> float:
        """The largest m/(N+1) over all N that keep their allocation m when a unit is added."""
        rate, best = self.exact_rate, Fraction(0)
        if rate == 1:
            return 0.0
        for m in range(1, 2000):
            size = math.ceil((m - Fraction(1, 2)) / rate)
            if self.take(size) == m and self.take(size + 1) == m:
                best = max(best, Fraction(m, size + 1))
            # No later m does better than m r/(m - 1/2 + r), which runs from there towards r.
            if best >= max(rate, Fraction(m + 1) * rate / (m + Fraction(1, 2) + rate)):
                break
        return max(float(best), self.rate)

    def _replaced(self, losses: Losses) -> Bound:
        size = self.population
        if not losses.sizes_protected or self.rounding == "nearest":
            # The number drawn may be known, so the largest share decides; a stratum of one unit may be drawn whole.
            shares = (
                [self.take(size) / size if self.rounding == "nearest" else math.ceil(self.exact_rate * size) / size]
                if size
                else [1.0]
            )
            value = log_mixture((max(shares), losses.replace_one)) if max(shares) else 0.0
            source = NEAREST if self.rounding == "nearest" else RANDOM
            return Bound.equal(value, source, holds_when=self._holds(INSIDE), scope=self._scope)
        value = up(log_mixture((self.rate, losses.replace_one)))
        if size is None:
            return Bound(value, down(value), True, RANDOM, holds_when=self._holds(INSIDE))
        if losses.replace_one not in (losses.add_remove, 2.0 * losses.add_remove):
            return Bound(value, down(log_mixture((self.rate, losses.add_remove))), False, RANDOM, holds_when=self._holds(INSIDE))
        law = self.sizes(size)
        upper, lower, exact = exact_loss(solve(law, law, size, losses, "replace-one"), lambda: value)
        return Bound(min(upper, value), min(lower, value), exact, RANDOM, self._scope, self._holds(INSIDE))

    @property
    def _scope(self) -> Any:
        return "every population" if self.population is None else "this population"

    def _this_size(self, losses: Losses) -> Bound:
        assert self.population is not None
        size = self.population
        holds = self._holds(f"the stratum has {size} units without the added one")
        general = self._random(losses) if self.rounding == "random" else self._nearest(losses)
        if losses.replace_one not in (losses.add_remove, 2.0 * losses.add_remove):
            return Bound(general.upper, general.lower, False, general.source, "this population", holds)
        worsts = solve(self.sizes(size + 1), self.sizes(size), size + 1, losses, "add-remove")
        upper, lower, exact = exact_loss(worsts, lambda: general.upper)
        return Bound(upper, lower, exact, general.source, "this population", holds, "proof", {"every_population": general.upper})

    def known(self, losses: Losses, neighbours: Neighbours) -> float:
        # With the record the sample may keep its size, so that another one left for it.
        return losses.replace_one if self.rounding != "bernoulli" else Independent((self.rate,)).known(losses, neighbours)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        if self.rounding == "bernoulli":
            return Independent((self.rate,)).sharper(base, losses, neighbours, alpha)
        if self.rounding == "nearest" or neighbours == "replace-one" or self.population is not None:
            return 1.0
        r, s, one = self.rate, 1.0 - self.rate, profile_of(base)
        if losses.base == "both":
            theta = r * (2.0 - r)
            return theta * one(1.0 + (alpha - 1.0) / theta)
        two = profile_of(base.steps(2))
        forward = several_sources([(r, 1), (r * s, 2)], alpha - s * s, base)
        moved = one_source(r, (alpha * r, one), ((alpha - 1.0) * s, two))
        if isinstance(base, Gaussian):
            return max(forward, moved, _gaussian_backward(base.mu, r, alpha))
        return max(forward, moved, one_source(1.0 - alpha * s * s, (alpha * r, one), (alpha * r * s, two)))

    def contest(self, neighbours: Neighbours) -> Contest | None:
        if self.rounding == "bernoulli":
            return Independent((self.rate,)).contest(neighbours)
        if self.population is None:
            return None
        if neighbours == "replace-one":
            law = np.exp(self.sizes(self.population))
            return size_contest(law, law, self.population, neighbours)
        first, second = np.exp(self.sizes(self.population + 1)), np.exp(self.sizes(self.population))
        return size_contest(first, second, self.population + 1, neighbours)


def _gaussian_backward(mu: float, r: float, alpha: float) -> float:
    """H_alpha(N(0,1) || s^2 N(0,1) + r N(mu,1) + rs N(2mu,1)), rounded up: one threshold event is the worst."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    s = 1.0 - r

    def density_ratio(x: float) -> float:
        return s * s + r * math.exp(mu * x - mu * mu / 2.0) + r * s * math.exp(2.0 * mu * x - 2.0 * mu * mu)

    if alpha * s * s >= 1.0:
        return 0.0
    point = brentq(lambda x: alpha * density_ratio(x) - 1.0, -60.0 / min(mu, 1.0) - 60.0, 60.0, xtol=1e-13)
    # Below the point the first density is the larger one.
    mixture = s * s * ndtr(point) + r * ndtr(point - mu) + r * s * ndtr(point - 2.0 * mu)
    return max(0.0, up(float(ndtr(point) - alpha * mixture)) + 1e-15)


def printed(epsilon: float, rate: float) -> float:
    """Theorem 4.3 as printed: log(1 + 2r(e^2e - 1)) + log(1 + r(e^2e - 1)); valid, two to three times too large.

    >>> round(printed(1.0, 0.1), 4)
    1.3172
    """
    spread = math.expm1(2.0 * epsilon)
    return up(math.log1p(2.0 * rate * spread) + math.log1p(rate * spread))
