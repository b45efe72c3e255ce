"""PossibleData: every population, frame, sample and set of respondents of a tiny survey, and the ten settings over them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from dpsurvey import Setting
from dpsurvey.errors import BadValue, did_you_mean
from dpsurvey.privacy import PHASES, NeighboursName, Phase, Relation

from .specification import Data, Specification

Record = tuple[str, int]
DataSet = frozenset[Record]


def records_apart(neighbours: Relation | NeighboursName) -> Callable[[Data, Data], float]:
    """The number of steps of a relation between two data sets of labelled records; infinite where there is no path.

    >>> apart = records_apart("replace-one")
    >>> apart(frozenset({("a", 0)}), frozenset({("b", 1)})), apart(frozenset(), frozenset({("a", 0)}))
    (1.0, inf)
    """

    def steps(one: Data, other: Data) -> float:
        if not (isinstance(one, frozenset) and isinstance(other, frozenset)):
            raise BadValue("a data set is a frozenset of records")
        more, less = len(one - other), len(other - one)
        if neighbours == Relation.ADD_REMOVE:
            return float(more + less)
        return float(more) if more == less else math.inf

    return steps


@dataclass(frozen=True)
class PossibleData:
    """A survey so small that all its data sets can be written down: sets of records (unit, value).

    A population holds some of the units, a frame some of the population, a sample some of the frame, and any part of
    the sample responds. The sizes that are possible are given for the first three. With `values_are="free"` what is held
    fixed is a list of units, and values may be any; with "tied" it is a data set with its values (the literal reading of
    Definition 3.2), so that only who is drawn can differ.

    >>> tiny = PossibleData("abcd", (0, 1), population=(3,), frame=(2,), sample=(1,))
    >>> [len(tiny.data_sets(phase)) for phase in ("population", "frame", "sample", "respondents")]
    [32, 24, 8, 9]
    >>> tiny.specification(Setting("sample", "frame", neighbours="replace-one"), 1.0)
    Specification(8 data sets, 6 universes)
    """

    units: Sequence[str]
    values: Sequence[int]
    population: Sequence[int]
    frame: Sequence[int]
    sample: Sequence[int]
    values_are: Literal["free", "tied"] = "free"

    def __post_init__(self) -> None:
        if self.values_are not in ("free", "tied"):
            raise BadValue(
                f"unknown kind of values {self.values_are!r}", hint=did_you_mean(str(self.values_are), ("free", "tied"))
            )
        if not self.units or not self.values or not 1 <= len(self.units) * len(self.values) <= 12:
            raise BadValue("a tiny survey has few units and values", given=f"{len(self.units)} units, {len(self.values)} values")
        if not all((self.population, self.frame, self.sample)) or not 1 <= max(self.population) <= len(self.units):
            raise BadValue(
                "population, frame and sample each have at least one size", hint="population=(3,), frame=(2,), sample=(1,)"
            )

    @cached_property
    def _populations(self) -> list[DataSet]:
        return [
            frozenset(zip(units, values, strict=True))
            for size in self.population
            for units in itertools.combinations(self.units, size)
            for values in itertools.product(self.values, repeat=size)
        ]

    def _next(self, data: DataSet, phase: Phase) -> set[DataSet]:
        """What the stage after a phase can make of a data set."""
        allowed = {"population": self.frame, "frame": self.sample, "sample": range(len(data) + 1)}[phase]
        return {frozenset(part) for size in allowed for part in itertools.combinations(sorted(data), size)}

    def drawn_from(self, data: DataSet, given: Phase, protect: Phase) -> frozenset[DataSet]:
        """Every data set of a phase that can arise from one of an earlier phase."""
        found = {data}
        for phase in PHASES[PHASES.index(given) : PHASES.index(protect)]:
            found = set().union(*(self._next(each, phase) for each in found))
        return frozenset(found)

    def data_sets(self, phase: Phase) -> list[DataSet]:
        """Every possible data set of a phase."""
        found = {each for one in self._populations for each in self.drawn_from(one, "population", phase)}
        return sorted(found, key=lambda data: (len(data), sorted(data)))

    def universes(self, protect: Phase, given: Phase | None) -> list[frozenset[DataSet]]:
        """The multiverse of a setting: one universe for each data set, or list of units, that is held fixed."""
        everything = self.data_sets(protect)
        if given is None:
            return [frozenset(everything)]
        found: list[frozenset[DataSet]] = []
        for data in self.data_sets(given):
            reached = self.drawn_from(data, given, protect)
            if self.values_are == "free":
                who = {_units(each) for each in reached}
                reached = frozenset(each for each in everything if _units(each) in who)
            found.append(reached)
        return [each for each in dict.fromkeys(found) if each]

    def specification(self, setting: Setting, budget: float) -> Specification:
        """The specification of a setting, with one budget for all universes."""
        distance = records_apart(setting.neighbours)
        return Specification(self.data_sets(setting.protect), self.universes(setting.protect, setting.given), distance, budget)

    def invariances(self, specification: Specification, protect: Phase) -> tuple[Phase, ...]:
        """The phases that a specification holds fixed by Definition 3.3: its completion is finer than their universes.

        >>> tiny = PossibleData("abcd", (0, 1), population=(3,), frame=(2,), sample=(1,))
        >>> own = tiny.specification(Setting("sample", "population", neighbours="replace-one"), 1.0)
        >>> tiny.invariances(own, "sample")
        ('population',)
        """
        own = specification.completion().universes
        earlier = PHASES[: PHASES.index(protect)]
        return tuple(phase for phase in earlier if _finer(own, self.universes(protect, phase)))


def _units(data: DataSet) -> frozenset[str]:
    return frozenset(unit for unit, _ in data)


def _finer(own: Sequence[frozenset[Data]], others: Sequence[frozenset[DataSet]]) -> bool:
    return all(any(each <= other for other in others) for each in own)
