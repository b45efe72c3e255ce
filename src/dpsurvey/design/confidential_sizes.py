"""Sample sizes that look at the data: a rule that turns the number of units into a sample size, or an allocation computed from
confidential values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ..errors import BadValue
from ..loss.bound import SAMPLE_ONLY, Bound, Figure, Losses, Refused, sizes_unprotected
from ..loss.hypothesis_tests import loss_from_advantage, size_advantage
from ..loss.size_law import LogLaw, exact_loss, size_contest, solve, table_law
from ..loss.worst_case.contest import Contest
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import below, log_mixture, up
from .base import Undrawn
from .checks import check_count
from .registry import register

SOURCE = "Bun et al. 2022, Lemma B.1, corrected; exact by the chain, docs/designs/allocation.md"
NEYMAN = "rule of data-dependent allocation, docs/designs/allocation.md"
Row = tuple[int, int, float]


@dataclass(frozen=True)
class SizeRule(Undrawn):
    """The law of the sample size for each population size, as rows (population, sample, probability).

    Every pair of consecutive population sizes is compared: one unit added to the smaller. The loss is the exact
    one for the rule in the table; for a rule that also looks at values the table describes two neighbours of it.

    >>> from dpsurvey.loss.bound import Losses
    >>> moves = size_rule(((5, 2, 1.0), (6, 3, 1.0)))
    >>> round(moves.bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 9)
    1.0
    """

    kind: ClassVar[str] = "size-rule"
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        for population, sample, probability in self.rows:
            check_count("population", population, at_least=0)
            check_count("sample", sample, at_least=0, at_most=population)
            if not 0.0 <= probability <= 1.0:
                raise BadValue("a probability must be in [0, 1]", given=f"{probability}")
        if not self._pairs:
            raise BadValue(
                "the table needs two population sizes that differ by one unit",
                given=f"sizes {sorted(self.laws)}",
                hint="rows are population, sample, probability; give the rule for N and for N + 1 units",
            )

    @cached_property
    def laws(self) -> dict[int, LogLaw]:
        """The law of the sample size, by population size."""
        tables: dict[int, dict[int, float]] = {}
        for population, sample, probability in self.rows:
            sizes = tables.setdefault(population, {})
            sizes[sample] = sizes.get(sample, 0.0) + probability
        return {population: table_law(population, sizes) for population, sizes in tables.items()}

    @property
    def _pairs(self) -> list[int]:
        return [size for size in sorted(self.laws) if size + 1 in self.laws]

    @property
    def largest_probability(self) -> float:
        sizes = {population: np.exp(law) @ np.arange(population + 1) for population, law in self.laws.items() if population}
        return float(max(mean / population for population, mean in sizes.items()))

    def least_probability(self, neighbours: Neighbours) -> float:
        return max(float(np.exp(self.laws[n + 1]) @ np.arange(n + 2)) / (n + 1) for n in self._pairs)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if neighbours == Relation.REPLACE_ONE:
            return Refused(
                "the table says how the allocation follows the number of units, not how it follows a changed value",
                'neighbours="add-remove"; for a rule that ignores values, the random-size design',
                SOURCE,
            )
        if not losses.sizes_protected:
            return sizes_unprotected("the allocation")
        worsts, lemma, advantages = [], [], []
        for size in self._pairs:
            first, second = self.laws[size + 1], self.laws[size]
            worsts += solve(first, second, size + 1, losses, Relation.ADD_REMOVE)
            lemma.append(self._lemma(size, losses))
            advantages.append(size_advantage(np.exp(first), np.exp(second), losses.add_remove) or 0.0)
        upper, lower, exact = exact_loss(worsts, lambda: max(lemma))
        details: dict[str, Any] = {"lemma_b1_upper": Figure(max(lemma), "by Lemma B.1, corrected")}
        if 1e-6 <= losses.add_remove <= 15.0:
            # Beyond these the solver's tolerance would decide.
            best = max(advantages)
            details["advantage"] = Figure(best, "the best advantage of a test that sees the sample's size alone")
            details["advantage_lower"] = min(lower, below(loss_from_advantage(min(best, 1.0 - 1e-16))))
        holds = (SAMPLE_ONLY, "the table is the allocation rule on these population sizes")
        mixed = losses.replace_one not in (losses.add_remove, 2.0 * losses.add_remove)
        return Bound(upper, lower, exact and not mixed, SOURCE, "this population", holds, details=details)

    def _lemma(self, size: int, losses: Losses) -> float:
        """Lemma B.1, tight form: the worst pair of sizes under the quantile coupling of the two laws."""
        laws = [[(m, p) for m, p in enumerate(np.exp(self.laws[n]).tolist()) if p > 0.0] for n in (size + 1, size)]
        worst, left = 0.0, [laws[0][0][1], laws[1][0][1]]
        at = [0, 0]
        while True:
            worst = max(worst, fixed_sizes(size, laws[1][at[1]][0], laws[0][at[0]][0], losses))
            moved = min(left)
            left = [each - moved for each in left]
            # The law with less mass left at its size goes on; at the end of one law the other has only rounding left.
            side = 0 if left[0] <= left[1] else 1
            if at[side] + 1 == len(laws[side]):
                return max([worst, *(self._rest(size, laws, at, losses))])
            at[side] += 1
            left[side] = laws[side][at[side]][1]

    def _rest(self, size: int, laws: list[list[tuple[int, float]]], at: list[int], losses: Losses) -> list[float]:
        """Pairs of the last size of one law with what is left of the other."""
        return [fixed_sizes(size, m, larger, losses) for larger, _ in laws[0][at[0] :] for m, _ in laws[1][at[1] :]]

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        # The size itself may move with the record, by as much as two neighbouring sizes of the table are apart.
        spread = [np.nonzero(np.isfinite(self.laws[n]))[0] for size in self._pairs for n in (size, size + 1)]
        pairs = zip(spread[::2], spread[1::2], strict=True)
        apart = max(max(int(one[-1] - two[0]), int(two[-1] - one[0])) for one, two in pairs)
        return apart * losses.add_remove + losses.replace_one

    def contest(self, neighbours: Neighbours) -> Contest | None:
        return self.contests(neighbours)[0]

    def contests(self, neighbours: Neighbours) -> list[Contest]:
        tables = {n: dict(enumerate(np.exp(law).tolist())) for n, law in self.laws.items()}
        made = [size_contest(tables[n + 1], tables[n], n + 1, Relation.ADD_REMOVE) for n in self._pairs]
        return [each for each in made if each is not None]


@dataclass(frozen=True)
class ConfidentialAllocation(Undrawn):
    """An allocation of `total` units computed from the confidential frame, as Neyman's is: amplification is refused.

    The sizes of the strata may all move with one record; two allocations of one total differ by at most 2 total.
    """

    kind: ClassVar[str] = "confidential-allocation"
    total: int

    def __post_init__(self) -> None:
        check_count("total", self.total)

    @property
    def largest_probability(self) -> float:
        return 1.0

    @property
    def depends_on_data(self) -> float:
        return math.inf

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        steps = 2 * self.total
        whole = up(steps * losses.add_remove + losses.replace_one)
        return Refused(
            "the allocation is computed from the confidential frame, so the sample sizes themselves reveal something about "
            "records",
            "release stratum standard deviations with noise, charge them, and allocate from the noisy figures with fixed sizes",
            NEYMAN,
            f"{steps} steps of add-remove and one replacement, {whole:.6g}" if math.isfinite(whole) else "",
        )


class RuleChance(NamedTuple):
    """The probability of a sample size for a number of units: a line of a table."""

    population: int
    sample: int
    probability: float


def _of_figures(
    table: Annotated[Sequence[RuleChance] | None, "CSV with the columns population, sample, probability."] = None,
    confidential_total: Annotated[int | None, "An allocation of so many units from confidential data (Neyman)."] = None,
) -> SizeRule | ConfidentialAllocation:
    """An allocation rule f(P): the law of the sample size for N and N + 1 units.

    Example: `dpsurvey amplify allocation --table rule.csv --epsilon 1 --base add-remove --neighbours add-remove`
    """
    if table is not None and confidential_total is None:
        return size_rule(table)
    if table is None and confidential_total is not None:
        check_count("confidential-total", confidential_total)
        return ConfidentialAllocation(confidential_total)
    raise BadValue("give either --table or --confidential-total")


@register("size-rule", page="allocation", commands={"allocation": _of_figures}, drawn=False)
def size_rule(rows: Sequence[Sequence[float]]) -> SizeRule:
    """A rule for the sample size: the probability of each size for each number of units, as (units, size, probability).

    >>> size_rule([(5, 2, 1.0), (6, 3, 1.0)]).largest_probability
    0.5
    """
    return SizeRule(tuple(tuple(row) for row in rows))  # type: ignore[misc]


@register("confidential-allocation", page="allocation", commands={}, drawn=False)
def confidential_allocation(total: int) -> ConfidentialAllocation:
    """An allocation of `total` units over strata that was computed from confidential values, as Neyman's is: refused.

    >>> confidential_allocation(100).largest_probability
    1.0
    """
    return ConfidentialAllocation(total)


def fixed_sizes(population: int, m: int, larger: int, losses: Losses) -> float:
    """m of N units against `larger` of N + 1: Lemma B.1 in its tight form, rounded up.

    >>> round(fixed_sizes(5, 3, 2, Losses.of(1.0, "add-remove")), 10), fixed_sizes(5, 2, 3, Losses.of(1.0, "add-remove"))
    (2.1409324776, 1.0)
    """
    steps = abs(larger - m) * losses.add_remove
    if larger > m:
        return steps
    return up(steps + log_mixture((larger / (population + 1), losses.replace_one)))
