"""Selection: the public numbers of a design that decide its privacy loss, and what it answers.

A Design draws from a frame; its Selection is what is left when the rows are forgotten: sizes, rates, probabilities.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...errors import BadValue
from ...loss.hypothesis_tests import RedFlag, red_flags
from ...loss.refused import Refused
from ...privacy.curve import Curve
from ...privacy.profile import Relation, check_relation
from ...privacy.rounding import below, up

if TYPE_CHECKING:
    from ...loss.worst_case.contest import Contest

Neighbours = Literal["add-remove", "replace-one"]
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

    @classmethod
    def of(cls, epsilon: float, base: Relation) -> Losses:
        """The losses of an epsilon-private mechanism of a type."""
        check_relation(base)
        if isinstance(epsilon, bool) or not (isinstance(epsilon, int | float) and 0.0 < epsilon < 1e9):
            raise BadValue("epsilon must be a number above 0 and below 1e9", given=f"epsilon={epsilon}")
        one = float(epsilon)
        pairs = {"add-remove": (one, 2.0 * one), "replace-one": (math.inf, one), "both": (one, one)}
        return cls(pairs[base][0], pairs[base][1], base)

    def swap(self, out: int, into: int) -> float:
        """The cost of exchanging `out` records for `into` others."""
        same = min(out, into) * self.replace_one
        return same if out == into else same + abs(out - into) * self.add_remove

    @property
    def sizes_protected(self) -> bool:
        """Whether a record more or less is hidden at all."""
        return math.isfinite(self.add_remove)


@dataclass(frozen=True)
class Bound:
    """The pure loss of a design: proved bounds on both sides, and what they hold under."""

    upper: float
    lower: float
    exact: bool
    source: str
    scope: Scope = "every population"
    holds_when: tuple[str, ...] = ()
    certified_by: Literal["proof", "linear programme"] = "proof"
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def equal(cls, value: float, source: str, **more: Any) -> Bound:
        """A loss that is known exactly, up to rounding, which goes outwards."""
        return cls(up(value), below(value), True, source, **more)

    @classmethod
    def unchanged(cls, value: float, source: str, **more: Any) -> Bound:
        """The mechanism's own loss, as it was given: nothing was computed, so nothing is rounded."""
        return cls(value, value, True, source, **more)


class Selection(ABC):
    """What a design does to a privacy loss; an immutable value of public numbers."""

    kind: ClassVar[str]
    # The page of docs/designs that has its theorem, where it is not named like the kind.
    page: ClassVar[str] = ""
    kinds: ClassVar[dict[str, type[Selection]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            Selection.kinds[cls.kind] = cls

    @abstractmethod
    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        """The loss of sampling followed by any mechanism with these losses on the sample; or a refusal."""

    @property
    @abstractmethod
    def inclusion(self) -> float:
        """The largest inclusion probability of any unit."""

    def least_inclusion(self, neighbours: Neighbours) -> float:
        """An inclusion probability of the target that occurs: a lower bound may rest on it."""
        return self.inclusion

    def known(self, losses: Losses, neighbours: Neighbours) -> float:
        """The loss for someone who is known to be in the sample: what one such record moves."""
        fixed = neighbours == "replace-one" or self.fixed_size
        return losses.replace_one if fixed else losses.add_remove

    # Whether the number of drawn units cannot differ between neighbours.
    fixed_size: ClassVar[bool] = False

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        """A bound on the hockey-stick divergence at alpha = e^epsilon' that may beat the general one."""
        return 1.0

    @property
    def detection_steps(self) -> float:
        """Records by which a sample with the unit differs from one without it: 1 where units are drawn one by one."""
        return 1.0

    @property
    def depends_on_data(self) -> float:
        """The largest factor by which a unit's inclusion probability may differ between neighbours; 1 for none."""
        return 1.0

    def red_flags(self, epsilon: float = 1.0) -> tuple[RedFlag, ...]:
        """Three ways in which a sample fails to hide anybody, with their numbers: inclusion that is likely, that
        depends on data, that can be detected by an epsilon-private mechanism."""
        return red_flags(self.inclusion, self.depends_on_data, self.detection_steps, epsilon)

    def contest(self, neighbours: Neighbours) -> Contest | None:
        """Two neighbouring populations with the laws of their samples, where they are few enough to write down."""
        return None

    def contests(self, neighbours: Neighbours) -> list[Contest]:
        """Every pair of populations that may be the worst one."""
        one = self.contest(neighbours)
        return [] if one is None else [one]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; `selection_from` reads it back."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.kind} | {name: _plain(value) for name, value in values.items()}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Selection:
        """The selection that `to_dict` wrote, `kind` left out."""
        try:
            return cls(**{name: _back(value) for name, value in given.items()})
        except TypeError as error:
            raise BadValue(f"the selection {cls.kind!r} has a missing or unknown key", hint=str(error)) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Selection):
        return value.to_dict()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _back(value: Any) -> Any:
    if isinstance(value, Mapping) and "kind" in value:
        return selection_from(value)
    return tuple(_back(each) for each in value) if isinstance(value, list) else value


def selection_from(given: Mapping[str, Any]) -> Selection:
    """The selection, of any kind, that `to_dict` wrote."""
    kind = str(given.get("kind"))
    if kind not in Selection.kinds:
        raise BadValue(f"unknown kind of selection {kind!r}")
    return Selection.kinds[kind].from_dict({name: value for name, value in given.items() if name != "kind"})


def check_count(name: str, value: int, *, at_least: int = 1, at_most: float = math.inf) -> None:
    """Refuse what is not a whole number in its range."""
    if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= at_most:
        top = "" if math.isinf(at_most) else f" and at most {at_most:g}"
        raise BadValue(f"{name} must be a whole number of at least {at_least}{top}", given=f"{name}={value!r}")


def check_counts(name: str, values: Sequence[int]) -> None:
    """Refuse a list with anything but whole numbers of at least 1."""
    for value in values:
        # Checked one by one: 2 and 2.0 are equal, but only one of them is a number of units.
        if type(value) is not int or value < 1:
            check_count(name, value)


def check_clusters(name: str, sizes: Sequence[int], take: int, unit_in: int | None) -> None:
    """Refuse sizes that are no clusters, more draws than clusters, and a unit in none of them."""
    if not sizes:
        raise BadValue("sizes must name at least one cluster")
    check_counts(name, sizes)
    check_count("take", take, at_most=len(sizes))
    if unit_in is not None:
        check_count("unit-in", unit_in, at_most=len(sizes))


def check_rate(name: str, value: float) -> None:
    """Refuse what is not a probability above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value <= 1.0:
        raise BadValue(f"{name} must be in (0, 1]", given=f"{name}={value!r}", hint="write 2 % as 0.02, with a decimal point")


def sizes_unprotected(design: str) -> Refused:
    """The refusal for a replace-only mechanism where the size of the sample differs between neighbours."""
    return Refused(
        f"a mechanism that is private under replace-one alone does not hide the sample's size, which {design} changes",
        'a mechanism that is private under add-remove, or neighbours="replace-one" with fixed sizes',
        "docs/designs/README.md, types of mechanisms",
    )
