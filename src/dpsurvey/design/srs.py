"""Simple random sampling without replacement: every set of n units is equally likely."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from ..errors import BadValue
from ..loss.bound import SAMPLE_ONLY, Bound, Losses, Refused
from ..loss.transport import replacing
from ..loss.worst_case.contest import Contest
from ..privacy.curve import Curve
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Neighbours, Relation, Restriction
from ..privacy.rounding import log_mixture
from ..privacy.setting import Setting
from .base import Design, amount_in_words
from .checks import check_count
from .compared import AtRate, Candidate, Compared, SameSize
from .frame import Frame
from .parts import Part
from .recipe import Share, Simple, Step
from .registry import register

SIZE_KNOWN = "the population size is public"
SIZE_AT_LEAST = "the larger of the two neighbouring populations has at least the stated number of units"
SOURCE = "Balle, Barthe and Gaboardi 2018, Theorem 9; docs/designs/srs.md"


@dataclass(frozen=True)
class SimpleRandom(Design):
    """n of `size` units, all sets equally likely. f = n/size, e_R = the mechanism's replace-one loss.

    epsilon' = log(1 + f (e^e_R - 1)), exact, under either relation; under add-remove `size` is that of the larger
    population. In a survey that is the real one only where a record is replaced; where one is more or less, the sample
    amplifies if the frame declares a size that no possible frame is below (`size_at_least`).

    >>> from dpsurvey.loss.bound import Losses
    >>> round(srs(n=2, size=5).bound(Losses.of(0.5, "replace-one"), "replace-one").upper, 10)
    0.2307056927
    """

    kind: ClassVar[str] = "srs"
    of_frame: ClassVar[tuple[str, ...]] = ("size", "at_least")
    same_size = True
    n: int | None = None
    rate: float | None = None
    size: int | None = None
    # What no possible frame has fewer units than.
    at_least: int | None = None

    def __post_init__(self) -> None:
        n, rate, size = self.n, self.rate, self.size
        if (n is None) == (rate is None):
            raise BadValue("give either n or rate", given=f"n={n}, rate={rate}")
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
            raise BadValue("n is a positive whole number", given=f"n={n!r}")
        if rate is not None and not (isinstance(rate, int | float) and 0.0 < rate <= 1.0):
            raise BadValue("a rate must be in (0, 1]", given=f"rate={rate}")
        if size is not None:
            check_count("size", size)
            if self.take_of(size) > size:
                raise BadValue("cannot draw more units than there are", given=f"n={self.take_of(size)}, size={size}")

    def resolve(self, frame: Frame) -> SimpleRandom:
        return replace(self.sized(frame.size), at_least=frame.least_size)

    def sized(self, size: int | None) -> SimpleRandom:
        size = self.size if size is None else size
        if size is None:
            raise BadValue("simple random sampling needs the public size of the frame", hint="declare Frame(..., size=N)")
        return replace(self, size=size)

    def take_of(self, size: int) -> int:
        """The number of units drawn from `size`."""
        return self.n if self.n is not None else max(1, math.floor((self.rate or 0.0) * size + 0.5))

    @property
    def take(self) -> int:
        """The number of units drawn."""
        if self.size is None and self.n is None:
            raise BadValue("a share of the units needs their number", hint="srs(rate=, size=), or Frame(..., size=N)")
        return self.take_of(self.size or 0)

    def parts(self) -> tuple[Part, ...]:
        if self.size is None:
            raise BadValue("the design is not bound to a frame", hint="use design.resolve(frame)")
        return (Part(None, self.take / self.size, self.take, self.size),)

    @property
    def public_units(self) -> int | None:
        return self.n

    def in_words(self, unit: str = "unit") -> str:
        return f"simple random sampling of {amount_in_words(self.n, self.rate, unit)}"

    def recipe(self) -> Step:
        if self.n is None and self.size is None:
            assert self.rate is not None
            return Share(self.rate, "nearest")
        return Simple(self.take, self.size)

    def resized(self, factor: float) -> SimpleRandom:
        return replace(self, n=resized_count(self.n, factor, self.size), rate=resized_rate(self.rate, factor))

    @property
    def largest_probability(self) -> float:
        return self.parts()[0].probability

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if self.size is None:
            return undeclared()
        if neighbours == Relation.ADD_REMOVE and self.take == self.size:
            return Refused(
                "a population with one unit less could not be drawn from, which would show",
                "n below the population size, or a Poisson design",
                SOURCE,
            )
        holds = known_size(neighbours)
        if self.take == self.size:
            return Bound.unchanged(losses.replace_one, SOURCE, holds_when=holds)
        return Bound.equal(log_mixture((self.largest_probability, losses.replace_one)), SOURCE, holds_when=holds)

    def figures(self) -> dict[str, Any]:
        # The loss itself rests on n and the size; what no frame is below decides which size that is.
        return {name: value for name, value in super().figures().items() if name != "at_least"}

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        rate = self.largest_probability
        return rate * replacing(base, losses)(1.0 + (alpha - 1.0) / rate)

    def sampled(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        # A record more or less moves the sample as a replaced one does.
        return PrivacyProfile(profile.to_replace_one().amplify(self.largest_probability).curve, neighbours)

    def contest(self, neighbours: Neighbours) -> Contest | None:
        assert self.size is not None
        others, n, f = self.size - 1, self.take, self.largest_probability
        # Kinds of records: the other units, all alike; the target; what replaces it.
        with_target = {(n, 0, 0): 1.0 - f, (n - 1, 1, 0): f}
        if neighbours == Relation.ADD_REMOVE:
            return Contest((others, 1, 0), with_target, (others, 0, 0), {(n, 0, 0): 1.0}) if n <= others else None
        return Contest((others, 1, 0), with_target, (others, 0, 1), {(n, 0, 0): 1.0 - f, (n - 1, 0, 1): f})

    def refuses(self, setting: Setting) -> Refused | None:
        return refuse_sizes(setting, self.parts())

    def base_relation(self, setting: Setting) -> Relation:
        return base_of_fixed(setting)

    def relation_name(self, setting: Setting) -> Restriction:
        return Restriction.NONE

    def inside(self, setting: Setting) -> Design | Refused:
        outside = super().inside(setting)
        if isinstance(outside, Refused) or (setting.protect == "frame" and setting.neighbours == Relation.REPLACE_ONE):
            return outside
        if setting.protect == "frame" and self.at_least is not None and self.take <= self.at_least:
            # Of two possible frames, the larger has a unit more than the smaller, which has at least so many.
            return SimpleRandom(self.take, size=self.at_least + 1)
        return size_moves()

    def conditions(self, setting: Setting) -> tuple[str, ...]:
        if setting.neighbours == Relation.REPLACE_ONE:
            return ("the frame size N is public and equals the real one",)
        return (f"no possible frame has fewer than {self.at_least:,} units, the protected record left out",)


def undeclared() -> Refused:
    """The refusal for a number of units from a list whose size nobody declared."""
    return Refused(
        "the size of the list is not declared, so the rate is not public",
        "the public size: srs(n=, size=), Frame(..., size=N), categories={...: {label: size}} for strata",
        "docs/designs/srs.md",
    )


def size_moves() -> Refused:
    """The refusal for a fixed number of units from a frame whose size the protected record changes."""
    return Refused(
        "the size of the frame changes with the protected record, so the rate n/N is not a public constant",
        "a public size that no possible frame is below, Frame(..., size_at_least=); "
        'protect="frame" with neighbours="replace-one"; or a Poisson design with a declared rate',
        "rule of declared normalisers, docs/concepts/settings.md",
    )


def known_size(neighbours: Neighbours) -> tuple[str, ...]:
    """What a bound for a fixed number of units rests on."""
    return (SAMPLE_ONLY, SIZE_KNOWN if neighbours == Relation.REPLACE_ONE else SIZE_AT_LEAST)


def refuse_sizes(setting: Setting, parts: tuple[Part, ...]) -> Refused | None:
    """A sample of fixed size has no neighbour with one unit more; the respondents of one do."""
    sizes_move = setting.level < 2 and (setting.protect == "population" or setting.neighbours == Relation.ADD_REMOVE)
    if sizes_move and any(part.take == part.size for part in parts):
        return Refused(
            "a frame with one unit less could not be drawn from, which would show",
            "draw fewer units than there are in every stratum, or use a Poisson design",
            "rule of fixed sizes, docs/concepts/settings.md",
        )
    if setting.protect == "sample" and setting.neighbours == Relation.ADD_REMOVE:
        return Refused(
            "two samples of a fixed-size design never differ by one unit more or less",
            'neighbours="replace-one", or a Poisson design, whose size is random',
            "rule of fixed sizes, docs/concepts/settings.md",
        )
    return None


def base_of_fixed(setting: Setting) -> Relation:
    """Samples of one size differ by replacement; only the respondents may also be one more or less."""
    return setting.neighbours if setting.protect == "respondents" else Relation.REPLACE_ONE


def _compared(share: AtRate) -> Iterator[Compared]:
    n, size = share.counts
    notes: dict[Relation, str] = {
        Relation.REPLACE_ONE: "mechanism of replace-one type",
        Relation.ADD_REMOVE: "a replaced value costs two steps",
    }
    for base, note in notes.items():
        yield Compared("simple random", SimpleRandom(n, size=size), base, Relation.REPLACE_ONE, note, SimpleRandom(share.n))


def _candidates(asked: SameSize) -> Iterator[Candidate]:
    yield Candidate("simple random", SimpleRandom(asked.n))


def _of_figures(
    n: Annotated[int, "Units drawn."],
    population: Annotated[int, "Units in all; under add-remove, in the larger of the two populations."],
) -> SimpleRandom:
    """Simple random sampling without replacement.

    Example: `dpsurvey amplify srs --n 1000 --population 50000 --epsilon 1 --base replace-one --neighbours replace-one`
    """
    check_count("population", population)
    check_count("n", n, at_most=population)
    return SimpleRandom(n, None, population)


@register("srs", compared=_compared, candidates=_candidates, commands={"srs": _of_figures})
def srs(n: int | None = None, *, rate: float | None = None, size: int | None = None) -> SimpleRandom:
    """A simple random sample without replacement, of n units or of the nearest whole number to rate * size.

    `size` is the public size of the list; in a survey it comes from the frame.

    >>> srs(n=100)
    SimpleRandom(n=100, rate=None, size=None, at_least=None)
    """
    return SimpleRandom(n, rate, size)


def resized_count(n: int | None, factor: float, size: int | None) -> int | None:
    """A number of units times a factor: at least 1, at most all of them.

    >>> resized_count(10, 2.5, 100), resized_count(10, 50.0, 100), resized_count(None, 2.0, 100)
    (25, 100, None)
    """
    return None if n is None else max(1, min(round(n * factor), size if size is not None else round(n * factor) + 1))


def resized_rate(rate: float | None, factor: float) -> float | None:
    """A rate times a factor, at most 1."""
    return None if rate is None else min(1.0, rate * factor)
