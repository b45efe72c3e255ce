"""Bounds on what sampling does to a privacy loss: what goes in, a bound or a refusal comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from ..errors import BadValue
from ..privacy.relation import Relation, RelationName
from ..privacy.rounding import below, up

Scope = Literal["every population", "this population"]
SECRET = "nobody outside the office learns who was drawn, or who was not"
PUBLIC = "the numbers of the design are public constants, and none of them depends on the protected record"
SAMPLE_ONLY = "the mechanism sees the sample alone: no weight, size or total is computed from confidential rows"


@dataclass(frozen=True)
class Losses:
    """What one step on the sample costs a mechanism: a record added or removed, a record replaced.

    "add-remove" replaces in two steps; "replace-one" protects no sizes; "both" does either in one step.

    >>> Losses.of(1.0, "add-remove")
    Losses(add_remove=1.0, replace_one=2.0, base='add-remove')
    """

    add_remove: float
    replace_one: float
    base: Relation
    # By which part of them the records of a stratum lose less, where they do.
    parts: tuple[tuple[str, float], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, epsilon: float, base: Relation | RelationName, parts: Mapping[str, float] | None = None) -> Losses:
        """The losses of an epsilon-private mechanism of a type; `parts` are those of strata whose records lose less.

        >>> round(Losses.of(4.0, "add-remove", {"large": 0.02}).of_part(0.02).add_remove, 9)
        0.08
        """
        relation = Relation.read(base)
        if isinstance(epsilon, bool) or not (isinstance(epsilon, int | float) and 0.0 < epsilon < 1e9):
            raise BadValue("epsilon must be a number above 0 and below 1e9", given=f"epsilon={epsilon}")
        one, found = float(epsilon), sorted((parts or {}).items())
        if any(isinstance(part, bool) or not (isinstance(part, int | float) and 0.0 < part <= 1.0) for _, part in found):
            raise BadValue("the part of a stratum is a number above 0 and at most 1", hint='parts={"large": 0.02}')
        less = tuple((label, float(part)) for label, part in found if part < 1.0)
        return cls(one * relation.steps_to_add, one * relation.steps_to_replace, relation, less)

    @property
    def whole(self) -> Losses:
        """The same for the records of all strata."""
        return Losses(self.add_remove, self.replace_one, self.base)

    def of_part(self, part: float) -> Losses:
        """The losses of records that lose this part of them."""
        added, replaced = ((each if part >= 1.0 else up(each * part)) for each in (self.add_remove, self.replace_one))
        return Losses(added, replaced, self.base)

    def swap(self, out: int, into: int) -> float:
        """The cost of exchanging `out` records for `into` others."""
        same = min(out, into) * self.replace_one
        return same if out == into else same + abs(out - into) * self.add_remove

    @property
    def sizes_protected(self) -> bool:
        """Whether a record more or less is hidden at all."""
        return math.isfinite(self.add_remove)


class Figure(float):
    """A further figure of an answer with its words: printed rounded up, or down where it bounds a loss from below.

    >>> Figure(0.5, "a record that changes stratum").says, Figure(0.5) + 0.5
    ('a record that changes stratum', 1.0)
    """

    says: str
    from_below: bool

    def __new__(cls, value: float, says: str = "", *, from_below: bool = False) -> Self:
        made = super().__new__(cls, value)
        made.says, made.from_below = says, from_below
        return made


@dataclass(frozen=True)
class Bound:
    """The pure loss of a design: proved bounds on both sides, and what they hold under.

    `common` is what nearly every bound rests on, and a survey says in words of its own; `holds_when` what this one rests on
    besides. `details` are further figures by name; one that is a `Figure` is printed with its words.
    """

    upper: float
    lower: float
    exact: bool
    source: str
    scope: Scope = "every population"
    holds_when: tuple[str, ...] = ()
    certified_by: Literal["proof", "linear programme"] = "proof"
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    common: tuple[str, ...] = (SECRET, PUBLIC)

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that it rests on."""
        return (*self.common, *self.holds_when)

    @classmethod
    def equal(cls, value: float, source: str, **more: Any) -> Bound:
        """A loss that is known exactly, up to rounding, which goes outwards."""
        return cls(up(value), below(value), True, source, **more)

    @classmethod
    def unchanged(cls, value: float, source: str, **more: Any) -> Bound:
        """The mechanism's own loss, as it was given: nothing was computed, so nothing is rounded."""
        return cls(value, value, True, source, **more)


@dataclass(frozen=True)
class Refused:
    """Why a design does not amplify here, by which source, and what to do instead. A value, not an exception.

    `bound` is a loss that is proved all the same where there is one, in steps of the mechanism's epsilon in words.
    """

    reason: str
    instead: str
    source: str
    bound: str = ""

    def __str__(self) -> str:
        return f"no amplification: {self.reason} ({self.source}); instead: {self.instead}"


def sizes_unprotected(design: str) -> Refused:
    """The refusal for a replace-only mechanism where the size of the sample differs between neighbours."""
    return Refused(
        f"a mechanism that is private under replace-one alone does not hide the sample's size, which {design} changes",
        'a mechanism that is private under add-remove, or neighbours="replace-one" with fixed sizes',
        "docs/designs/README.md, types of mechanisms",
    )


def no_likelier(rate: float, does: str) -> str:
    """The condition under which a rate of response, coverage or a last stage counts."""
    return f"no unit {does} with a probability above {rate:g}, whatever its answers, and units do so independently; no average"
