"""Secret draws by row number: rows are chosen by their numbers alone, and only those that may win are looked at.

Every design that can be drawn so is stated here once. It speaks of rows by their numbers, and of what is asked of those that
may win; where the rows are, one of two classes does it: `LookedUp` finds rows by number, `OnePass` meets them in one pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
from ibis.expr.types import Table

from ...design.recipe import Clusters, Each, EachBy, Simple, Sized, Step, Strata
from .drawn import MORE, TIMES, lost_rows, too_short
from .generator import Rows, Uniforms, small_numbers

# Units with more than so many times the mean size have a number each; the rest are found by jumping.
LARGE = 4.0


@dataclass(frozen=True)
class Alike:
    """One chance for all."""

    chance: float


@dataclass(frozen=True)
class ByStratum:
    """A chance for each stratum."""

    column: str
    chances: Mapping[str, float]


@dataclass(frozen=True)
class InProportion:
    """Chances in proportion to a column: `take` times its value over a total, and at most 1."""

    column: str
    take: float = 1.0
    total: float = 1.0


Chances = Alike | ByStratum | InProportion


class Candidates(Protocol):
    """Rows that may be drawn, each with its number and its chance."""

    def count(self) -> int:
        """How many they are."""

    def below_chance(self, largest: float = math.inf) -> Self:
        """Those whose number is at most their chance, and whose size is at most the largest that is looked for."""

    def smallest(self, takes: Mapping[str, int]) -> Self:
        """Those with the smallest numbers, so many in each stratum."""

    def with_others(self, others: Self) -> Self:
        """These and others, of which none is among them."""

    def drawn(self) -> pa.Table | Table:
        """The drawn rows, with what the draw knows of each."""


class ClusterList(Protocol):
    """The clusters of a frame, in some order."""

    size: int

    def units_of(self, places: Rows, chances: Alike) -> Candidates:
        """All units of the clusters at these places of the list."""


class Sizes(Protocol):
    """A column of sizes, all positive: how many, their sum and the largest."""

    count: int
    total: float
    largest: float

    def certain(self, take: int, total: float) -> tuple[int, float, float]:
        """Units whose size times `take` reaches the total: how many, their sum, and the largest size of the others."""


class NumberedRows(Protocol):
    """The rows of a frame, each of which has a number. None, or False, where another kind of table has to be asked."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""

    def met(self, rows: Rows, numbers: Uniforms | None, chances: Chances) -> Candidates:
        """The rows with these row numbers, each with a number of its own where it is not drawn in any case."""

    def larger(self, bar: float, chances: InProportion, numbers: Callable[[int], Uniforms]) -> Candidates:
        """The rows with a size above the bar; `numbers` makes a number for each of so many."""

    def on_a_line(self, chances: InProportion, start: float, *, some_certain: bool) -> Candidates:
        """Rows in their order, cumulated by size, that points one step apart hit; and those that are certain."""

    def has_rates(self, column: str, at_most: float) -> bool:
        """Whether rates are found in a column; refuses those that are not above 0 and at most the bound."""

    def sizes(self, column: str) -> Sizes | None:
        """Sizes; refuses those that are not positive numbers."""

    def clusters(self, column: str) -> ClusterList | None:
        """The list of clusters."""


def draw_by_row_number(rows: NumberedRows, recipe: Step, generator: np.random.Generator) -> pa.Table | Table | None:
    """The drawn rows with stratum, clusters, probability and weight; None where the draw has to go by keyed number."""
    choose = STEPS.get(type(recipe))
    found = None if choose is None else choose(rows, recipe, generator)
    return None if found is None else found.drawn()


def rows_looked_at(recipe: Step, size: int) -> float:
    """About how many rows of a frame are looked at."""
    if isinstance(recipe, Simple):
        return recipe.take
    if isinstance(recipe, Each):
        return recipe.probability * size
    if isinstance(recipe, Strata):
        if rates := _rates(recipe):
            return max(rates.values()) * size
        if fixed := _fixed(recipe):
            return candidate_limit(fixed) * size
    return size


def _rates(step: Strata) -> dict[str, float]:
    """The rate of each stratum, where units of all strata are drawn one by one."""
    inside = step.inside if isinstance(step.inside, Mapping) else {}
    rates = {label: each.probability for label, each in inside.items() if isinstance(each, Each)}
    return rates if len(rates) == len(inside) else {}


def _fixed(step: Strata) -> dict[str, Simple]:
    """The draw of each stratum, where all are simple random samples from strata of declared sizes."""
    inside = step.inside if isinstance(step.inside, Mapping) else {}
    fixed = {label: each for label, each in inside.items() if isinstance(each, Simple) and each.size}
    return fixed if len(fixed) == len(inside) else {}


def _each(rows: NumberedRows, step: Each, generator: np.random.Generator) -> Candidates:
    places, _ = small_numbers(generator, rows.num_rows, step.probability)
    return rows.met(places, None, Alike(step.probability))


def _each_by(rows: NumberedRows, step: EachBy, generator: np.random.Generator) -> Candidates | None:
    if not rows.has_rates(step.rate, step.at_most):
        return None
    return rows.met(*small_numbers(generator, rows.num_rows, step.at_most), InProportion(step.rate)).below_chance()


def _strata(rows: NumberedRows, step: Strata, generator: np.random.Generator) -> Candidates | None:
    if rates := _rates(step):
        numbers = small_numbers(generator, rows.num_rows, max(rates.values()))
        return rows.met(*numbers, ByStratum(step.strata, rates)).below_chance()
    fixed = _fixed(step)
    return _simple_in_strata(rows, step.strata, fixed, generator) if fixed else None


def _places(generator: np.random.Generator, size: int, take: int) -> Rows:
    """A simple random sample of places in a list; in no order."""
    if take > size:
        raise too_short()
    return np.asarray(generator.choice(size, take, replace=False, shuffle=False), dtype=np.int64)


def _simple(rows: NumberedRows, step: Simple, generator: np.random.Generator) -> Candidates:
    places = _places(generator, rows.num_rows, step.take)
    found = rows.met(places, None, Alike(step.take / (step.size or rows.num_rows)))
    if found.count() != step.take:
        raise lost_rows()
    return found


def _clusters(rows: NumberedRows, step: Clusters, generator: np.random.Generator) -> Candidates | None:
    listed = rows.clusters(step.cluster) if isinstance(step.how, Simple) and step.inside is None else None
    if listed is None or not isinstance(step.how, Simple):
        return None
    take = step.how.take
    return listed.units_of(_places(generator, listed.size, take), Alike(take / listed.size))


def candidate_limit(inside: Mapping[str, Simple]) -> float:
    """A limit below which every stratum almost surely has enough numbers."""
    return min(1.0, max((TIMES * step.take + MORE) / (step.size or 1) for step in inside.values()))


def _simple_in_strata(rows: NumberedRows, column: str, inside: dict[str, Simple], generator: np.random.Generator) -> Candidates:
    """Only small numbers can win. Trying again when a stratum has too few of them treats its units alike, so every set of
    n_h units stays equally likely.
    """
    takes = {label: step.take for label, step in inside.items()}
    chances = ByStratum(column, {label: step.take / (step.size or 1) for label, step in inside.items()})
    limit = candidate_limit(inside)
    while True:
        kept = rows.met(*small_numbers(generator, rows.num_rows, limit), chances).smallest(takes)
        if kept.count() == sum(takes.values()):
            return kept
        if limit >= 1.0:
            raise too_short()
        limit = min(1.0, 4.0 * limit)


def _sized(rows: NumberedRows, step: Sized, generator: np.random.Generator) -> Candidates | None:
    """Chances in proportion to size, one by one or in the order of the list; what would exceed 1 is taken for certain."""
    by = step.drawn_by
    if by.fixed_size and not (by.one_start and step.as_listed):
        return None
    sizes = rows.sizes(step.size)
    if sizes is None:
        return None
    if step.take > sizes.count:
        raise too_short()
    left, total, largest = _without_certain(sizes, step.take)
    some_certain = left < step.take
    if left == 0 or left * largest > step.at_most * total or (some_certain and step.at_most < 1.0):
        # All are taken, or the bound seems broken: keyed numbers, with sizes in whole ticks, decide and say so.
        return None
    chances = InProportion(step.size, left, total)
    if by.one_start:
        found = rows.on_a_line(chances, float(generator.random()), some_certain=some_certain)
        # Rounding at the seams of a running sum may lose or double a unit; such a draw is made again, in whole ticks.
        return found if found.count() == step.take else None
    bar = min(LARGE * sizes.total / sizes.count, largest)
    numbers = small_numbers(generator, sizes.count, min(1.0, left * bar / total))
    small = rows.met(*numbers, chances).below_chance(bar)
    if sizes.largest <= bar:
        return small
    return small.with_others(rows.larger(bar, chances, lambda count: 1.0 - generator.random(count)).below_chance())


def _without_certain(sizes: Sizes, take: int) -> tuple[int, float, float]:
    """What is left to take, of how much, and the largest size left, once units that would exceed 1 are out: repeated."""
    left, total, largest, before = take, sizes.total, sizes.largest, 0
    while left * largest >= total:
        count, theirs, others = sizes.certain(left, total)
        if count == before:
            break
        # The bar falls as large units leave, so units once certain stay certain.
        before, left, total, largest = count, take - count, sizes.total - theirs, others
    return left, total, largest


STEPS: dict[type[Step], Callable[..., Candidates | None]] = {
    Each: _each,
    EachBy: _each_by,
    Simple: _simple,
    Sized: _sized,
    Clusters: _clusters,
    Strata: _strata,
}
