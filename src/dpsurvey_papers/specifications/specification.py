"""Specification: a privacy specification over a domain that can be written down, checked pair by pair.

The five components of Bailie and Drechsler (Definition 2.5): a domain of data sets, a multiverse of universes, an input
premetric, the multiplicative distance of output laws, and a budget for each universe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsurvey.errors import BadValue

Data = Hashable
Law = Mapping[Any, float]
Distance = Callable[[Any, Any], float] | Mapping[tuple[Any, Any], float]
Matrix = npt.NDArray[np.float64]
# A checker looks at every pair of data sets.
MOST = 1000
TINY = 1e-9


def multiplicative_distance(one: Law, other: Law) -> float:
    """The largest |log ratio| of the probabilities of an event under two laws; infinite if one can do what the other cannot.

    The largest ratio is that of a single output.

    >>> round(multiplicative_distance({"yes": 0.75, "no": 0.25}, {"yes": 0.25, "no": 0.75}), 4)
    1.0986
    >>> multiplicative_distance({"yes": 1.0}, {"yes": 0.5, "no": 0.5})
    inf
    """
    worst = 0.0
    for output in {*one, *other}:
        p, q = one.get(output, 0.0), other.get(output, 0.0)
        if (p > 0.0) != (q > 0.0):
            return math.inf
        worst = max(worst, abs(math.log(p) - math.log(q))) if p > 0.0 else worst
    return worst


@dataclass(frozen=True)
class Checked:
    """Whether a specification is satisfied, and the pair of data sets that is closest to breaking it or breaks it most."""

    satisfied: bool
    pair: tuple[Data, Data] | None
    loss: float
    allowed: float

    def __bool__(self) -> bool:
        return self.satisfied


class Specification:
    """Which pairs of data sets a mechanism must make hard to tell apart, and how hard.

    `domain`, `universes` (sets of data sets of the domain), `distance` and `budgets` are four of the five components; the
    fifth, how far two output laws are apart, is `multiplicative_distance`, that of pure privacy. `distance` is a function or a
    table of steps between two data sets (a pair that no table names has no path; one order stands for both), `budgets` is one
    number or one for each universe. A mechanism satisfies it if in every universe the output laws of two data sets differ by at
    most budget times distance, to nine digits.
    0 times infinity is infinity: data sets without a path are never compared. A universe that is named twice keeps its
    smaller budget.

    >>> line = Specification("abc", ["ab", "bc"], lambda d, e: abs(ord(d) - ord(e)), 1.0)
    >>> line.limit("a", "b"), line.limit("a", "c"), line.is_complete
    (1.0, inf, True)
    >>> bool(line.satisfied_by({"a": {1: 0.5, 0: 0.5}, "b": {1: 0.4, 0: 0.6}, "c": {1: 0.3, 0: 0.7}}))
    True
    """

    def __init__(
        self,
        domain: Iterable[Data],
        universes: Iterable[Iterable[Data]],
        distance: Distance,
        budgets: float | Sequence[float],
    ) -> None:
        self.domain = tuple(dict.fromkeys(_hashable(domain)))
        if not 1 <= len(self.domain) <= MOST:
            raise BadValue(f"a domain holds 1 to {MOST} data sets", given=f"{len(self.domain)}")
        self._place = {data: place for place, data in enumerate(self.domain)}
        named = [frozenset(_hashable(universe)) for universe in universes]
        each = list(budgets) if isinstance(budgets, Sequence) else [budgets] * len(named)
        if len(each) != len(named):
            raise BadValue("every universe has one budget", given=f"{len(named)} universes, {len(each)} budgets")
        self.budgets: dict[frozenset[Data], float] = {}
        for universe, budget in zip(named, each, strict=True):
            if not universe or not universe <= self._place.keys():
                raise BadValue("a universe is a set of data sets of the domain, at least one")
            if not (isinstance(budget, int | float) and 0.0 <= budget < math.inf):
                raise BadValue("a budget is a finite number that is not negative", given=f"{budget!r}")
            self.budgets[universe] = min(float(budget), self.budgets.get(universe, math.inf))
        if isinstance(distance, Mapping):
            self._check_table(distance)
        self.steps = np.array([[_steps(distance, one, other) for other in self.domain] for one in self.domain])

    def _check_table(self, table: Mapping[tuple[Any, Any], float]) -> None:
        """A misspelt pair would leave data sets uncompared, and every mechanism would pass."""
        for pair, steps in table.items():
            if not (isinstance(pair, tuple) and len(pair) == 2 and all(data in self._place for data in pair)):
                raise BadValue("a table of distances names pairs of data sets of the domain")
            if table.get((pair[1], pair[0]), steps) != steps:
                raise BadValue("a table of distances has one figure for both orders of a pair", hint="a function can have two")

    @property
    def universes(self) -> tuple[frozenset[Data], ...]:
        """The multiverse."""
        return tuple(self.budgets)

    def __repr__(self) -> str:
        return f"Specification({len(self.domain)} data sets, {len(self.budgets)} universes)"

    def place(self, data: Data) -> int:
        """The position of a data set in the domain."""
        if data not in self._place:
            raise BadValue("this data set is not in the domain")
        return self._place[data]

    def places(self, universe: Iterable[Data]) -> list[int]:
        """The positions of the data sets of a universe."""
        return sorted(self.place(data) for data in universe)

    def distance(self, one: Data, other: Data) -> float:
        """The number of steps between two data sets, infinite if there is no path."""
        return float(self.steps[self.place(one), self.place(other)])

    @cached_property
    def limits(self) -> Matrix:
        """How far the laws of each pair may differ: the least budget times distance over the universes that hold both."""
        found = np.full_like(self.steps, math.inf)
        for universe, budget in self.budgets.items():
            at = np.ix_(self.places(universe), self.places(universe))
            # 0 * inf = inf, so a budget of 0 says nothing about data sets without a path.
            found[at] = np.minimum(
                found[at], budget * np.where(np.isfinite(self.steps[at]), self.steps[at], 0.0) + _far(self.steps[at])
            )
        return found

    def limit(self, one: Data, other: Data) -> float:
        """How far the laws of two data sets may differ, infinite if nothing compares them."""
        return float(self.limits[self.place(one), self.place(other)])

    @cached_property
    def implied_limits(self) -> Matrix:
        """The limits with all that follows from them: over steps from one data set to the next, in either order.

        They are exact: `sharpest(d)` satisfies the specification and differs between d and any other by just as much.
        """
        found = np.minimum(self.limits, self.limits.T)
        np.fill_diagonal(found, 0.0)
        for middle in range(len(self.domain)):
            found = np.minimum(found, found[:, [middle]] + found[[middle], :])
        return found

    def sharpest(self, data: Data) -> dict[Data, dict[str, float]]:
        """The mechanism that says yes with probability e^-limit / 2: no other tells `data` from the rest any better.

        >>> line = Specification("ab", ["ab"], {("a", "b"): 1}, 1.0)
        >>> round(multiplicative_distance(*line.sharpest("a").values()), 12), bool(line.satisfied_by(line.sharpest("a")))
        (1.0, True)
        """
        # Below one half the answer no moves less than the answer yes.
        yes = 0.5 * np.exp(-self.implied_limits[self.place(data)])
        return {each: {"yes": float(p), "no": 1.0 - float(p)} for each, p in zip(self.domain, yes, strict=True)}

    def satisfied_by(self, mechanism: Mapping[Any, Law]) -> Checked:
        """Whether a mechanism, the law of its output for each data set of the domain, satisfies the specification.

        The pair is None where no two data sets are compared: then every mechanism satisfies it.

        >>> pair = Specification("ab", ["ab"], {("a", "b"): 1}, 1.0)
        >>> pair.satisfied_by({"a": {0: 1.0}, "b": {0: 0.5, 1: 0.5}})
        Checked(satisfied=False, pair=('a', 'b'), loss=inf, allowed=1.0)
        """
        if not isinstance(mechanism, Mapping):
            raise BadValue("a mechanism is a table: the law of the output for each data set", given=type(mechanism).__name__)
        for data in self.domain:
            if data not in mechanism:
                raise BadValue("a mechanism answers for every data set of the domain")
            law = mechanism[data]
            if not isinstance(law, Mapping) or not law:
                raise BadValue("the law of an output is a table: the probability of each output", given=type(law).__name__)
            if not (min(law.values()) >= 0.0 and abs(math.fsum(law.values()) - 1.0) <= TINY):
                raise BadValue("the law of an output has probabilities, none negative, that add up to 1")
        return self.compared(lambda one, other: multiplicative_distance(mechanism[one], mechanism[other]))

    def compared(self, loss: Callable[[Data, Data], float]) -> Checked:
        """The check with a given loss between the output laws of two data sets."""
        worst, excess = Checked(True, None, 0.0, math.inf), -math.inf
        for one, other in zip(*np.nonzero(np.isfinite(self.limits)), strict=True):
            if one == other:
                continue
            pair = self.domain[one], self.domain[other]
            found, allowed = loss(*pair), float(self.limits[one, other])
            if found - allowed > excess:
                excess = found - allowed
                worst = Checked(found <= allowed + TINY * max(1.0, allowed), pair, found, allowed)
        return worst

    def allows_no_more_than(self, other: Specification) -> bool:
        """Whether every mechanism that satisfies this one satisfies the other: decided for all mechanisms at once.

        >>> whole = Specification("abc", ["abc"], lambda d, e: abs(ord(d) - ord(e)), 1.0)
        >>> parts = whole.on(["ab", "bc"])
        >>> whole.allows_no_more_than(parts), parts.allows_no_more_than(whole)
        (True, True)
        """
        if set(self.domain) != set(other.domain):
            raise BadValue("two specifications are compared on one domain")
        order = self.places(other.domain) if other.domain == self.domain else [self.place(data) for data in other.domain]
        mine = self.implied_limits[np.ix_(order, order)]
        return bool(np.all((mine <= other.limits + TINY) | np.isinf(other.limits)))

    def is_coarsening_of(self, universes: Iterable[Iterable[Data]]) -> bool:
        """Whether each of these universes lies inside one of this multiverse (Definition 2.6)."""
        return all(any(set(universe) <= own for own in self.budgets) for universe in universes)

    def on(self, universes: Iterable[Iterable[Data]]) -> Specification:
        """What follows for a finer multiverse: each universe has the least budget of those it lies in (Lemma 2.7)."""
        finer = [frozenset(universe) for universe in universes]
        if not self.is_coarsening_of(finer):
            raise BadValue("a universe lies in none of the multiverse, so nothing follows for it")
        budgets = [min(budget for own, budget in self.budgets.items() if each <= own) for each in finer]
        return Specification(self.domain, finer, self.distance, budgets)

    @property
    def is_complete(self) -> bool:
        """Whether any two data sets of a universe have a finite distance (Definition 2.8)."""
        return all(bool(np.isfinite(self.steps[np.ix_(at, at)]).all()) for at in map(self.places, self.budgets))

    @property
    def distance_is_a_metric(self) -> bool:
        """Whether the distance is symmetric, 0 only between equal data sets, and no detour is shorter."""
        apart = self.steps + np.diag(np.full(len(self.domain), math.inf))
        detour = np.min(self.steps[:, :, None] + self.steps[None, :, :], axis=1)
        return bool(np.array_equal(self.steps, self.steps.T) and (apart > 0.0).all() and (self.steps <= detour + TINY).all())

    def connected(self, data: Data) -> frozenset[Data]:
        """The data sets at a finite distance, whatever the universes (Definition 2.10)."""
        return self._those(np.isfinite(self.steps[self.place(data)]))

    def completion(self) -> Specification:
        """Every universe cut into the parts that are connected, with the least budgets (Definition 2.10, Lemma 2.11).

        >>> apart = Specification("abc", ["abc"], {("a", "b"): 1}, 2.0)
        >>> apart.is_complete, [sorted(each) for each in apart.completion().universes]
        (False, [['a', 'b'], ['c']])
        """
        return self.on(dict.fromkeys(own & self.connected(data) for own in self.budgets for data in sorted(own, key=self.place)))

    def component(self, data: Data) -> frozenset[Data]:
        """The data sets that share a universe with this one and are at a finite distance (as printed in Definition 4.2)."""
        return self._those(np.isfinite(self.limits[self.place(data)])) | {data}

    def reached_from(self, data: Data) -> frozenset[Data]:
        """The data sets that a chain of comparable ones leads to."""
        return self._those(np.isfinite(self.implied_limits[self.place(data)]))

    def _those(self, chosen: npt.NDArray[np.bool_]) -> frozenset[Data]:
        return frozenset(data for data, is_in in zip(self.domain, chosen, strict=True) if is_in)


def _hashable(given: Iterable[Any]) -> list[Data]:
    found = list(given)
    try:
        frozenset(found)
    except TypeError:
        raise BadValue("data sets are compared by value", hint="write them as tuples, frozensets, numbers or words") from None
    return found


def _far(steps: Matrix) -> Matrix:
    return np.where(np.isfinite(steps), 0.0, math.inf)


def _steps(distance: Distance, one: Data, other: Data) -> float:
    if isinstance(distance, Mapping):
        found = 0.0 if one == other else distance.get((one, other), distance.get((other, one), math.inf))
    else:
        found = distance(one, other)
    if not isinstance(found, int | float) or not found >= 0.0 or (one == other and found != 0.0):
        raise BadValue("a distance is not negative, and 0 from a data set to itself", given=f"{found!r}")
    return float(found)
