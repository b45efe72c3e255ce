"""A share of the list as a simple random sample, its size rounded by chance or to the nearest whole number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, overload

import numpy as np

from ..errors import BadValue
from ..loss.bound import SAMPLE_ONLY, Bound, Figure, Losses, Refused, sizes_unprotected
from ..loss.chain import Worst
from ..loss.size_law import exact_loss, size_contest, solve, window_law
from ..loss.transport import one_source, profile_of, several_sources
from ..loss.worst_case.contest import Contest
from ..privacy.curve import Curve, Gaussian
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import below, log_mixture, up
from ..privacy.setting import Setting
from .base import Design
from .checks import check_count, check_rate
from .compared import AtRate, Candidate, Compared, SameSize
from .frame import Frame
from .parts import Part
from .poisson import Poisson
from .recipe import Share, Step
from .registry import register
from .srs import srs, undeclared

Rounding = Literal["random", "nearest"]
RANDOM = "docs/designs/stratified.md, Theorem (randomised rounding); Bun et al. 2022, Theorem 4.3, is a looser form"
NEAREST = "docs/designs/stratified.md, nearest rounding; Bun et al. 2022, Section 4.3"
NOBODY = "from a list of fewer than 1/(2 rate) units nobody is drawn; a survey's draw takes one, and then nothing is amplified"
INSIDE = "the record stays in its stratum; one that changes stratum loses at most twice the add-remove figure"


@dataclass(frozen=True)
class ProportionalShare(Design):
    """A rate r of the list or of each stratum: r N rounded by chance to a neighbouring whole number, so that every unit's
    probability is exactly r, or to the nearest one; then simple random sampling.

    N is counted where the draw is made and need not be declared: without `size` the loss holds for every N. Randomised
    rounding, add-remove: log(1 + r(e^d - 1) + r(1-r)(e^R - 1)), the exact supremum over N, with d and R the mechanism's
    losses for a record more or less and for a replaced one.

    >>> [round(proportional(0.1).bound(Losses.of(1.0, base), "add-remove").upper, 4) for base in ("add-remove", "both")]
    [0.5578, 0.2825]
    """

    kind: ClassVar[str] = "proportional"
    unwritten: ClassVar[Mapping[str, Any]] = {"rounding": "random"}
    fixed_size = False
    sample_relation = Relation.ADD_REMOVE
    sizes_may_change = True
    rate: float
    rounding: Rounding = "random"
    size: int | None = None

    def __post_init__(self) -> None:
        check_rate("rate", self.rate)
        if self.rounding not in ("random", "nearest"):
            raise BadValue(f"unknown rounding {self.rounding!r}", hint="random, nearest or none")
        if self.size is not None:
            check_count("size", self.size)

    def resolve(self, frame: Frame) -> Design:
        return srs(rate=self.rate).resolve(frame) if self.rounding == "nearest" else self

    def sized(self, size: int | None) -> Design:
        # Rounded to the nearest whole number of a declared size it is a simple random sample.
        return srs(rate=self.rate).sized(size) if self.rounding == "nearest" else self

    def in_words(self, unit: str = "unit") -> str:
        return f"a simple random share of {self.rate}"

    def recipe(self) -> Step:
        return Share(float(self.rate), self.rounding)

    def parts(self) -> tuple[Part, ...]:
        return (Part(None, float(self.rate)),)

    def resized(self, factor: float) -> ProportionalShare:
        return ProportionalShare(min(1.0, self.rate * factor), self.rounding, self.size)

    @property
    def for_any_frame(self) -> bool:  # type: ignore[override]
        return self.size is None

    def inside(self, setting: Setting) -> Design | Refused:
        # The draw takes one unit from a short list, whatever the rate; a list of declared size is a simple random sample.
        return super().inside(setting) if self.rounding == "random" else undeclared()

    @property
    def largest_probability(self) -> float:
        if self.rounding == "random":
            return float(self.rate)
        size = self.size
        return self.largest_share if size is None else max(self.take(size) / size, self.take(size + 1) / (size + 1))

    def least_probability(self, neighbours: Neighbours) -> float:
        if self.rounding == "random":
            return float(self.rate)
        if self.size is None:
            return 0.0
        size = self.size + (neighbours == Relation.ADD_REMOVE)
        return self.take(size) / size

    @property
    def exact_rate(self) -> Fraction:
        """The rate as the decimal number that was written."""
        return Fraction(repr(float(self.rate)))

    def take(self, size: int) -> int:
        """The nearest whole number to rate * size, halves up."""
        return math.floor(self.exact_rate * size + Fraction(1, 2))

    def sizes(self, size: int) -> dict[int, float]:
        """The law of the sample size from a stratum of `size` units."""
        return {m: float(chance) for m, chance in self._exact_sizes(size).items()}

    def _exact_sizes(self, size: int) -> dict[int, Fraction]:
        if self.rounding == "nearest":
            return {self.take(size): Fraction(1)}
        whole = math.floor(self.exact_rate * size)
        part = self.exact_rate * size - whole
        return {whole: 1 - part} | ({whole + 1: part} if part else {})

    def _solve(self, first: int, second: int, losses: Losses, neighbours: Neighbours) -> list[Worst]:
        """The chain of the two laws, on the few sizes that occur."""
        tables = self._exact_sizes(first), self._exact_sizes(second)
        start = max(0, min(*tables[0], *tables[1]) - 1)
        length = max(*tables[0], *tables[1]) - start + 1
        laws = [window_law(start, length, {m: float(p) for m, p in table.items()}) for table in tables]
        moved = np.array(
            [float(tables[0].get(m, Fraction(0)) - tables[1].get(m, Fraction(0))) for m in range(start, start + length)]
        )
        return solve(laws[0], laws[1], first, losses, neighbours, start, moved)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if not losses.sizes_protected and neighbours == Relation.ADD_REMOVE:
            return sizes_unprotected("the allocation")
        if neighbours == Relation.REPLACE_ONE:
            return self._replaced(losses)
        if self.size is not None:
            return self._this_size(losses)
        return self._random(losses) if self.rounding == "random" else self._nearest(losses)

    def _holds(self, *more: str) -> tuple[str, ...]:
        small = (NOBODY,) if self.rounding == "nearest" else ()
        return (SAMPLE_ONLY, "the rate is a public constant, the same for both neighbours", *small, *more)

    def _random(self, losses: Losses) -> Bound:
        r, d, moved = self.rate, losses.add_remove, losses.replace_one
        value = log_mixture((r, d), (r * (1.0 - r), moved))
        details = {"unit_that_changes_stratum": Figure(2.0 * value, "a record that changes stratum")}
        if moved in (d, 2.0 * d):
            return Bound.equal(value, RANDOM, holds_when=self._holds(), details=details)
        lower = below(log_mixture((r, d)))
        return Bound(up(value), lower, False, RANDOM, holds_when=self._holds(), details=details)

    def _nearest(self, losses: Losses) -> Bound:
        # Where the allocation moves the loss is one step; where it stays, m of N+1 units are drawn. For each m the
        # fraction m/(N+1) is largest at the least N that is allocated m, and these fall from m = 1 or 2 on towards r.
        moves = losses.add_remove
        stays = log_mixture((self.largest_kept_share, losses.replace_one))
        details = {
            "allocation_moves": Figure(moves, "where the allocation moves with the record"),
            "allocation_stays": Figure(stays, "where the allocation stays"),
        }
        if moves >= up(stays):
            return Bound.unchanged(moves, NEAREST, holds_when=self._holds(), details=details)
        return Bound.equal(stays, NEAREST, holds_when=self._holds(), details=details)

    @cached_property
    def largest_kept_share(self) -> float:
        """The largest m/(N+1) over all N that keep their allocation m when a unit is added, rounded up where not attained.

        The least N with allocation m is ceil((m - 1/2)/r), so m/(N+1) is at most m r/(m - 1/2 + r), which runs towards r.
        """
        above, below = self.exact_rate.numerator, self.exact_rate.denominator
        if above == below:
            return 0.0
        best = 0.0
        for most in (2_000, 1_000_000 if below < 10**12 else 2_000):
            m = np.arange(1, most + 1, dtype=np.int64 if below < 10**12 else object)
            size = ((2 * m - 1) * below + 2 * above - 1) // (2 * above)
            kept = (2 * above * (size + 1) + below) // (2 * below) == m
            best = float(np.max(np.where(kept, m / (size + 1), 0.0).astype(float)))
            rest = max(self.rate, (most + 1) * self.rate / (most + 0.5 + self.rate))
            if best >= rest:
                return best
        return max(best, rest)

    @property
    def largest_share(self) -> float:
        """The largest take(N)/N over all N: that of the smallest stratum that is drawn from at all, or a limit of such."""
        rate, best = self.exact_rate, Fraction(0)
        for m in range(1, 2000):
            size = max(m, math.ceil((m - Fraction(1, 2)) / rate))
            best = max(best, Fraction(self.take(size), size))
            if best >= min(Fraction(1), (m + 1) * rate / (m + Fraction(1, 2))):
                return float(best)
        return float(max(best, (m + 1) * rate / (m + Fraction(1, 2))))

    def _replaced(self, losses: Losses) -> Bound:
        size = self.size
        if not losses.sizes_protected or self.rounding == "nearest":
            # The number drawn may be known, so the largest share decides; a stratum of one unit may be drawn whole.
            if size is None:
                share = self.largest_share if self.rounding == "nearest" else 1.0
            else:
                share = (self.take(size) if self.rounding == "nearest" else math.ceil(self.exact_rate * size)) / size
            value = log_mixture((share, losses.replace_one))
            source = NEAREST if self.rounding == "nearest" else RANDOM
            return Bound.equal(value, source, holds_when=self._holds(INSIDE), scope=self._scope)
        value = up(log_mixture((self.rate, losses.replace_one)))
        if size is None:
            return Bound(value, below(value), True, RANDOM, holds_when=self._holds(INSIDE))
        if losses.replace_one not in (losses.add_remove, 2.0 * losses.add_remove):
            return Bound(value, below(log_mixture((self.rate, losses.add_remove))), False, RANDOM, holds_when=self._holds(INSIDE))
        upper, lower, exact = exact_loss(self._solve(size, size, losses, Relation.REPLACE_ONE), lambda: value)
        return Bound(min(upper, value), min(lower, value), exact, RANDOM, self._scope, self._holds(INSIDE))

    @property
    def _scope(self) -> Any:
        return "every population" if self.size is None else "this population"

    def _this_size(self, losses: Losses) -> Bound:
        assert self.size is not None
        size = self.size
        holds = self._holds(f"the stratum has {size} units without the added one")
        general = self._random(losses) if self.rounding == "random" else self._nearest(losses)
        if self.largest_probability == 0.0:
            return Bound(0.0, 0.0, True, general.source, "this population", holds)
        if losses.replace_one not in (losses.add_remove, 2.0 * losses.add_remove):
            lower = below(log_mixture((self.least_probability(Relation.ADD_REMOVE), losses.add_remove)))
            return Bound(general.upper, min(lower, general.upper), False, general.source, "this population", holds)
        worsts = self._solve(size + 1, size, losses, Relation.ADD_REMOVE)
        details = {"every_population": Figure(general.upper, "for every size of the stratum")}
        upper, lower, exact = exact_loss(worsts, lambda: general.upper)
        return Bound(upper, lower, exact, general.source, "this population", holds, "proof", details)

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        # With the record the sample may keep its size, so that another one left for it; or it may not.
        return losses.replace_one if neighbours == Relation.REPLACE_ONE or losses.sizes_protected else math.inf

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        if self.rounding == "nearest" or neighbours == Relation.REPLACE_ONE or self.size is not None:
            return 1.0
        r, s, one = self.rate, 1.0 - self.rate, profile_of(base)
        if losses.base == Relation.BOTH:
            theta = r * (2.0 - r)
            return theta * one(1.0 + (alpha - 1.0) / theta)
        two = profile_of(base.steps(2))
        forward = several_sources([(r, 1), (r * s, 2)], alpha - s * s, base)
        moved = one_source(r, (alpha * r, one), ((alpha - 1.0) * s, two))
        if isinstance(base, Gaussian):
            return max(forward, moved, _gaussian_backward(base.mu, r, alpha))
        return max(forward, moved, one_source(1.0 - alpha * s * s, (alpha * r, one), (alpha * r * s, two)))

    def contest(self, neighbours: Neighbours) -> Contest | None:
        if self.size is None:
            return None
        if neighbours == Relation.REPLACE_ONE:
            return size_contest(self.sizes(self.size), {}, self.size, neighbours)
        return size_contest(self.sizes(self.size + 1), self.sizes(self.size), self.size + 1, neighbours)


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


def _compared(share: AtRate) -> Iterator[Compared]:
    notes: dict[Relation, str] = {Relation.BOTH: "mechanism of type both", Relation.ADD_REMOVE: "tight: the exact worst case"}
    for base, note in notes.items():
        own = ProportionalShare(share.rate)
        yield Compared("randomised rounding", own, base, Relation.ADD_REMOVE, note, own)
    nearest = ProportionalShare(share.rate, "nearest")
    yield Compared(
        "nearest rounding", nearest, Relation.ADD_REMOVE, Relation.ADD_REMOVE, "the allocation itself moves with a record"
    )


def _candidates(asked: SameSize) -> Iterator[Candidate]:
    yield Candidate("proportional, randomised rounding", ProportionalShare(asked.rate))


def _of_figures(
    rate: Annotated[float, "The share of each stratum."],
    rounding: Annotated[
        str, "How rate * N becomes whole: random or nearest; bernoulli: no rounding, Poisson sampling inside strata."
    ],
    population: Annotated[int | None, "Units of the stratum without the added one; else every size."] = None,
) -> ProportionalShare | Poisson:
    """Proportional allocation inside strata.

    Example: `dpsurvey amplify stratified --rate 0.1 --rounding random --epsilon 1 --base both --neighbours add-remove`
    """
    if rounding not in ("random", "nearest", "bernoulli"):
        raise BadValue(f"unknown rounding {rounding!r}", hint="random, nearest or bernoulli")
    if population is not None:
        check_count("population", population)
    if rounding == "bernoulli":
        return Poisson(rate)
    return ProportionalShare(rate, "nearest" if rounding == "nearest" else "random", population)


@overload
def proportional(rate: float, *, rounding: Rounding = "random", size: int | None = None) -> ProportionalShare: ...


@overload
def proportional(rate: float, *, rounding: Literal["none"], size: int | None = None) -> Poisson: ...


@register("proportional", page="stratified", compared=_compared, candidates=_candidates, commands={"stratified": _of_figures})
def proportional(
    rate: float, *, rounding: Literal["random", "nearest", "none"] = "random", size: int | None = None
) -> ProportionalShare | Poisson:
    """A share of the list: its size rounded by chance, or to the nearest whole number, or not at all (each unit by itself).

    >>> proportional(0.1).recipe(), proportional(0.1, rounding="none")
    (Share(share=0.1, rounding='random'), Poisson(rate=0.1, size=None))
    """
    return Poisson(rate) if rounding == "none" else ProportionalShare(rate, rounding, size)
