"""Simple random sampling without replacement: every set of n units is equally likely."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..errors import BadValue
from ..loss.refused import Refused
from ..privacy.profile import PrivacyProfile, Relation
from ..privacy.setting import Setting
from .base import PUBLIC_FIGURES, SECRET_DRAW, Amplified, Design, Part, Values, outside_sampling, refuse_amplified
from .frame import Frame
from .recipe import Share, Simple, Step
from .selection.simple import WithoutReplacement

THEOREM = "simple random sampling, replace-one: delta'(e) = f delta(log(1+(e^e-1)/f)), f = n/N (Balle, Barthe, Gaboardi 2018)"


@dataclass(frozen=True)
class SimpleRandom(Design):
    """n units of N, without replacement.

    Holds when: mechanisms on the sample are private under replace-one on n records; N is public.
    Amplification: epsilon' = log(1 + (n/N)(e^epsilon - 1)), exact.

    >>> design = srs(n=100).resolve(Frame("f.parquet", unit="id", size=1000))
    >>> setting = Setting("frame", neighbours="replace-one")
    >>> round(design.amplify(PrivacyProfile.pure(1.0, "replace-one"), setting).profile.epsilon(0.0), 4)
    0.1586
    """

    kind: ClassVar[str] = "srs"
    fixed_size: ClassVar[bool] = True  # type: ignore[misc]
    n: int | None = None
    rate: float | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        n, rate = self.n, self.rate
        if (n is None) == (rate is None):
            raise BadValue("give either n or rate", given=f"n={n}, rate={rate}")
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
            raise BadValue("n is a positive whole number", given=f"n={n!r}")
        if rate is not None and not (isinstance(rate, int | float) and 0.0 < rate <= 1.0):
            raise BadValue("a rate must be in (0, 1]", given=f"rate={rate}")

    def resolve(self, frame: Frame) -> SimpleRandom:
        return self.sized(frame.size)

    def sized(self, size: int | None) -> SimpleRandom:
        """The design on a frame, or a stratum, of a declared size."""
        if size is None:
            raise BadValue("simple random sampling needs the public size of the frame", hint="declare Frame(..., size=N)")
        if self.take_of(size) > size:
            raise BadValue("cannot draw more units than there are", given=f"n={self.take_of(size)}, size={size}")
        return replace(self, size=size)

    def take_of(self, size: int) -> int:
        """The number of units drawn from `size`."""
        return self.n if self.n is not None else max(1, math.floor((self.rate or 0.0) * size + 0.5))

    def parts(self) -> tuple[Part, ...]:
        if self.size is None:
            raise BadValue("the design is not bound to a frame", hint="use design.resolve(frame)")
        take = self.take_of(self.size)
        return (Part(None, take / self.size, take, self.size),)

    def recipe(self) -> Step:
        if self.n is None and self.size is None:
            assert self.rate is not None
            return Share(self.rate, "nearest")
        return Simple(self.take_of(self.size or 0), self.size)

    def variance(self, values: Mapping[str | None, Values]) -> float:
        part = self.parts()[0]
        return srs_variance(part, values[None])

    def refuses(self, setting: Setting) -> Refused | None:
        return refuse_sizes(setting, self.parts())

    def base_relation(self, setting: Setting) -> Relation:
        return base_of_fixed(setting)

    def amplify(self, profile: PrivacyProfile, setting: Setting) -> Amplified | Refused:
        return amplify_fixed(profile, setting, self.largest_probability, "the frame size N is public and equals the real one")

    def selection(self) -> WithoutReplacement:
        part = self.parts()[0]
        return WithoutReplacement(part.take or 0, part.size or 0)

    def resized(self, factor: float) -> SimpleRandom:
        return replace(self, n=resized_count(self.n, factor, self.size), rate=resized_rate(self.rate, factor))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind} | ({"n": self.n} if self.n is not None else {"rate": self.rate})

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SimpleRandom:
        return srs(**fields)


def srs_variance(part: Part, values: Values) -> float:
    """N^2 (1 - n/N) s^2 / n, for one part."""
    n = len(values)
    if n < 2 or part.size is None:
        return 0.0
    return float(part.size**2 * (1.0 - n / part.size) * values.var(ddof=1) / n)


def refuse_sizes(setting: Setting, parts: tuple[Part, ...]) -> Refused | None:
    """A sample of fixed size has no neighbour with one unit more; the respondents of one do."""
    sizes_move = setting.level < 2 and (setting.protect == "population" or setting.neighbours == "add-remove")
    if sizes_move and any(part.take == part.size for part in parts):
        return Refused(
            "a frame with one unit less could not be drawn from, which would show",
            "draw fewer units than there are in every stratum, or use a Poisson design",
            "rule of fixed sizes, docs/settings.md",
        )
    if setting.protect == "sample" and setting.neighbours == "add-remove":
        return Refused(
            "two samples of a fixed-size design never differ by one unit more or less",
            'neighbours="replace-one", or a Poisson design, whose size is random',
            "rule of fixed sizes, docs/settings.md",
        )
    return None


def base_of_fixed(setting: Setting) -> Relation:
    """Samples of one size differ by replacement; only the respondents may also be one more or less."""
    return setting.neighbours if setting.protect == "respondents" else "replace-one"


def amplify_fixed(profile: PrivacyProfile, setting: Setting, rate: float, size_is_public: str) -> Amplified | Refused:
    """Amplification by n/N under replace-one on the frame; refusals elsewhere."""
    refuse_amplified(profile)
    if "sampling" not in setting.stages_inside:
        return outside_sampling(setting)
    if setting.protect == "population" or setting.neighbours == "add-remove":
        return Refused(
            "the size of the frame changes with the protected record, so the rate n/N is not a public constant",
            'protect="frame" with neighbours="replace-one", or a Poisson design with a declared rate',
            "rule of declared normalisers, docs/settings.md",
        )
    notes: tuple[str, ...] = (SECRET_DRAW, PUBLIC_FIGURES, size_is_public)
    if profile.relation == "add-remove":
        notes += ("the in-sample profile was converted from add-remove to replace-one (two steps)",)
    return Amplified(profile.to_replace_one().amplify(rate), rate, THEOREM, notes)


def srs(n: int | None = None, *, rate: float | None = None) -> SimpleRandom:
    """A simple random sample without replacement, of n units or of the nearest whole number to rate * size.

    >>> srs(n=100)
    SimpleRandom(n=100, rate=None, size=None)
    """
    return SimpleRandom(n, rate)


def resized_count(n: int | None, factor: float, size: int | None) -> int | None:
    """A number of units times a factor: at least 1, at most all of them.

    >>> resized_count(10, 2.5, 100), resized_count(10, 50.0, 100), resized_count(None, 2.0, 100)
    (25, 100, None)
    """
    return None if n is None else max(1, min(round(n * factor), size if size is not None else round(n * factor) + 1))


def resized_rate(rate: float | None, factor: float) -> float | None:
    """A rate times a factor, at most 1."""
    return None if rate is None else min(1.0, rate * factor)
