"""Simple random sampling with replacement: n independent draws; a unit may be drawn several times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from ..errors import BadValue
from ..loss.bound import Bound, Losses, Refused
from ..loss.size_law import binomial
from ..loss.transport import several_sinks, several_sources
from ..loss.worst_case.contest import Contest
from ..privacy.curve import Curve
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import log_mixture, times
from .base import Design
from .checks import check_count
from .compared import AtRate, Candidate, Compared, SameSize
from .parts import Part
from .recipe import Repeated, Step
from .registry import register
from .srs import known_size

SOURCE = "docs/designs/with-replacement.md, redirected draws"


@dataclass(frozen=True)
class SimpleWithReplacement(Design):
    """n independent draws from `size` units, each unit equally likely at each; a unit may be drawn several times.

    epsilon' = n log(1 + (e^e_R - 1)/size), exact. It can exceed epsilon: one unit may be drawn n times.

    >>> design = with_replacement(n=10, size=1000)
    >>> design.copies, round(design.largest_probability, 6)
    (10, 0.009955)
    """

    kind: ClassVar[str] = "with-replacement"
    of_frame: ClassVar[tuple[str, ...]] = ("size",)
    same_size = True
    draws_copies = True
    n: int
    size: int | None = None

    def __post_init__(self) -> None:
        check_count("n", self.n)
        if self.size is not None:
            check_count("size", self.size)

    @property
    def copies(self) -> int:  # type: ignore[override]
        return self.n

    def sized(self, size: int | None) -> SimpleWithReplacement:
        return replace(self, size=self.size if size is None else size)

    @property
    def public_units(self) -> int:
        return self.n

    def in_words(self, unit: str = "unit") -> str:
        return f"{self.n} draws with replacement"

    def recipe(self) -> Step:
        return Repeated(self.n)

    def parts(self) -> tuple[Part, ...]:
        # The weight of one draw; a unit that was drawn twice counts twice.
        return (Part(None, self.n / self.size, self.n, self.size, replaced=True),) if self.size is not None else ()

    def resized(self, factor: float) -> SimpleWithReplacement:
        return replace(self, n=max(1, round(self.n * factor)))

    @property
    def most(self) -> float:
        return math.inf

    @property
    def _size(self) -> int:
        if self.size is None:
            raise BadValue("sampling with replacement needs the public size of the frame", hint="declare Frame(..., size=N)")
        return self.size

    @property
    def largest_probability(self) -> float:
        return -math.expm1(self.n * math.log1p(-1.0 / self._size)) if self._size > 1 else 1.0

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        # Who is known to be drawn may have been drawn every time.
        return times(self.n, losses.replace_one)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if neighbours == Relation.ADD_REMOVE and self._size == 1:
            return Refused("an empty population could not be drawn from", "a population of two or more", SOURCE)
        value = self.n * log_mixture((1.0 / self._size, losses.replace_one))
        details = {"gamma_form_needs_delta": log_mixture((self.largest_probability, losses.replace_one))}
        return Bound.equal(value, SOURCE, holds_when=known_size(neighbours), details=details)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        step, drawn = 2 if losses.base == Relation.ADD_REMOVE else 1, self.largest_probability
        counts = [(weight, step * k) for k, weight in binomial(self.n, 1.0 / self._size) if k]
        forward = several_sources(counts, alpha - 1.0 + drawn, base, rising=neighbours == Relation.REPLACE_ONE)
        # Under replace-one the two orders are the same but for the names of the two values.
        return forward if neighbours == Relation.REPLACE_ONE else max(forward, several_sinks(counts, drawn, alpha, base))

    def contest(self, neighbours: Neighbours) -> Contest | None:
        others, law = self._size - 1, dict(binomial(self.n, 1.0 / self._size))
        with_target = {(self.n - k, k, 0): weight for k, weight in law.items()}
        if neighbours == Relation.ADD_REMOVE:
            return Contest((others, 1, 0), with_target, (others, 0, 0), {(self.n, 0, 0): 1.0}, copies=True)
        return Contest((others, 1, 0), with_target, (others, 0, 1), {(self.n - k, 0, k): w for k, w in law.items()}, copies=True)


def _compared(share: AtRate) -> Iterator[Compared]:
    n, size = share.counts
    own, note = SimpleWithReplacement(n, size), "a unit may be drawn twice"
    yield Compared("with replacement", own, Relation.REPLACE_ONE, Relation.REPLACE_ONE, note, SimpleWithReplacement(share.n))


def _candidates(asked: SameSize) -> Iterator[Candidate]:
    yield Candidate("with replacement", SimpleWithReplacement(asked.n))


def _of_figures(n: Annotated[int, "Draws."], population: Annotated[int, "Units in all."]) -> SimpleWithReplacement:
    """Simple random sampling with replacement; the loss can exceed epsilon.

    Example: `dpsurvey amplify with-replacement --n 100 --population 1000 --epsilon 1 --base replace-one --neighbours replace-one`
    """
    check_count("population", population)
    return SimpleWithReplacement(n, population)


@register("with-replacement", compared=_compared, candidates=_candidates, commands={"with-replacement": _of_figures})
def with_replacement(n: int, *, size: int | None = None) -> SimpleWithReplacement:
    """n independent draws, each unit equally likely at each; `size` is public, and in a survey that of the frame.

    >>> with_replacement(n=10)
    SimpleWithReplacement(n=10, size=None)
    """
    return SimpleWithReplacement(n, size)
