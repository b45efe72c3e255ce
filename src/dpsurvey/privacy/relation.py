"""Relation: which two data sets are neighbours, what a step between them costs, and the words for it."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Literal, overload

from ..errors import BadValue

# What users write, and what documents hold.
RelationName = Literal["add-remove", "replace-one", "both"]
NeighboursName = Literal["add-remove", "replace-one"]


class Relation(StrEnum):
    """A neighbour relation. A member equals its name and prints as it does; `read` takes either.

    >>> Relation.read("add-remove"), Relation.ADD_REMOVE == "add-remove", f"{Relation.BOTH}"
    ('add-remove', True, 'both')
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"
    BOTH = "both"

    @overload
    @classmethod
    def read(cls, name: str, *, allow_both: Literal[True] = True) -> Relation: ...
    @overload
    @classmethod
    def read(cls, name: str, *, allow_both: Literal[False]) -> Neighbours: ...
    @classmethod
    def read(cls, name: str, *, allow_both: bool = True) -> Relation:
        """The relation of a name; any other word is refused, and "both" where a guarantee needs one of the two.

        >>> Relation.read("replace-one", allow_both=False)
        'replace-one'
        """
        found = _NAMES.get(name) if isinstance(name, str) else None
        if found is None or (found is cls.BOTH and not allow_both):
            known = ", ".join(repr(each) for each in cls if allow_both or each is not cls.BOTH)
            raise BadValue(f"unknown neighbour relation {name!r}", hint=f"use one of {known}")
        return found

    @property
    def change(self) -> str:
        """What differs between two neighbours, in words."""
        return _CHANGES[self]

    @property
    def sizes_differ(self) -> bool:
        """Whether two neighbours may differ in size."""
        return self != Relation.REPLACE_ONE

    @property
    def steps_to_add(self) -> float:
        """The steps that add or remove one record; infinite where no number of them does.

        >>> [(each.steps_to_add, each.steps_to_replace) for each in Relation]
        [(1.0, 2.0), (inf, 1.0), (1.0, 1.0)]
        """
        return 1.0 if self.sizes_differ else math.inf

    @property
    def steps_to_replace(self) -> float:
        """The steps that replace one record: under add-remove it is removed, and another one added."""
        return 2.0 if self == Relation.ADD_REMOVE else 1.0

    def includes(self, other: Relation) -> bool:
        """Whether every neighbour under the other relation is one under this.

        >>> Relation.BOTH.includes(Relation.ADD_REMOVE), Relation.ADD_REMOVE.includes(Relation.BOTH)
        (True, False)
        """
        return self in (other, Relation.BOTH)

    def common(self, other: Relation) -> Relation | None:
        """The relation under which two guarantees hold together, if there is one.

        >>> Relation.BOTH.common(Relation.REPLACE_ONE), Relation.ADD_REMOVE.common(Relation.REPLACE_ONE)
        ('replace-one', None)
        """
        return other if self.includes(other) else self if other.includes(self) else None

    def pair(self, data: str) -> str:
        """Two neighbours, in words.

        >>> Relation.REPLACE_ONE.pair("frame")
        'two frame data sets of one size, one with one record replaced'
        """
        more = self == Relation.ADD_REMOVE
        return f"two {data} data sets{'' if more else ' of one size'}, one with {self.change}{' than the other' if more else ''}"

    @classmethod
    def choices(cls, *, allow_both: bool = True) -> str:
        """The relations with their words, for the help of the command line.

        >>> Relation.choices(allow_both=False)
        'add-remove (one record more or less) or replace-one (one record replaced)'
        """
        known = [f"{each} ({each.change})" for each in cls if allow_both or each != cls.BOTH]
        return f"{', '.join(known[:-1])} or {known[-1]}"

    def __repr__(self) -> str:
        return repr(self.value)


class Restriction(StrEnum):
    """What the neighbours of a guarantee keep beside its relation, so that there are fewer of them; a member is the words for it.

    Each leaves fewer neighbours than the one before it.

    >>> Restriction.NONE.covers(Restriction.IN_PLACE), Restriction.HELD.covers(Restriction.IN_PLACE)
    (True, False)
    """

    NONE = ""
    WITHIN_STRATUM = "replacement within a public stratum"
    # Answers that are replaced in their place are a replacement in every stratum.
    IN_PLACE = "a record's answers replaced, its design columns fixed"
    HELD = "a record's answers replaced; its design columns, and columns declared to be held fixed, stay and are not protected"

    def covers(self, other: Restriction) -> bool:
        """Whether neighbours under the other restriction are some of those under this one."""
        order = list(Restriction)
        return order.index(self) <= order.index(other)


_NAMES = {each.value: each for each in Relation}
# What the neighbours of a guarantee may be.
Neighbours = Literal[Relation.ADD_REMOVE, Relation.REPLACE_ONE]

_CHANGES = {
    Relation.ADD_REMOVE: "one record more or less",
    Relation.REPLACE_ONE: "one record replaced",
    Relation.BOTH: "either of the two",
}
