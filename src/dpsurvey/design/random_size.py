"""A sample size drawn from a public law that does not look at the data, then simple random sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..errors import BadValue
from ..loss.bound import SAMPLE_ONLY, Bound, Figure, Losses, Refused, sizes_unprotected
from ..loss.size_law import LogLaw, binomial_law, exact_loss, gaussian_law, size_contest, solve, table_law, tilted_mean
from ..loss.transport import one_source, profile_of, replacing
from ..loss.worst_case.contest import Contest
from ..privacy.curve import Curve
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import below, log_mixture, up
from .base import Undrawn
from .checks import check_count, check_rate
from .poisson import independent_bound
from .registry import register
from .srs import SIZE_AT_LEAST, SIZE_KNOWN

SOURCE = "Bun, Drechsler, Gaboardi, McMillan and Sarathy 2022, Theorem 3.1, corrected; docs/designs/random-size.md"
# Different sizes up to which the chain is solved; beyond, bounds that are this close need no more digits.
MOST_SIZES = 20_000


@dataclass(frozen=True)
class RandomSize(Undrawn):
    """m units with probability t(m), whatever the data, then any m of `size` units.

    The exact loss is the O(n) chain; with t~(m) proportional to e^(epsilon m) t(m) it is at most
    log(1 + E_t~[m]/n (e^e_R - 1)).

    >>> from dpsurvey.loss.bound import Losses
    >>> uniform = RandomSize(4, "table", ((0, .2), (1, .2), (2, .2), (3, .2), (4, .2)))
    >>> round(uniform.bound(Losses.of(1.0, "add-remove"), "replace-one").upper, 9)
    1.37118122
    """

    kind: ClassVar[str] = "random-size"
    # The law of the size is the same for both neighbours, so a sample with the record lost another one for it.
    same_size = True
    size: int
    law: Literal["binomial", "gaussian", "table"]
    numbers: tuple[Any, ...]

    def __post_init__(self) -> None:
        check_count("size", self.size, at_most=10_000_000)
        if self.law not in ("binomial", "gaussian", "table"):
            raise BadValue(f"unknown law of sizes {self.law!r}", hint="binomial, gaussian or table")
        if self.law == "binomial":
            check_rate("binomial", *self.numbers)
        object.__setattr__(self, "numbers", tuple(tuple(n) if isinstance(n, list) else n for n in self.numbers))
        if not np.isfinite(self.logs[1:]).any():
            raise BadValue("the sample would always be empty")

    @classmethod
    def table(cls, size: int, probabilities: Mapping[int, float]) -> RandomSize:
        """A law given by the probability of each size."""
        return cls(size, "table", tuple(sorted(probabilities.items())))

    def figures(self) -> dict[str, Any]:
        law = (
            self.numbers[0] if self.law == "binomial" else [list(each) if self.law == "table" else each for each in self.numbers]
        )
        return {"kind": self.kind, "size": self.size, self.law: law}

    def to_dict(self) -> dict[str, Any]:
        return self.figures()

    @cached_property
    def logs(self) -> LogLaw:
        """log t(m), m = 0, ..., population."""
        if self.law == "binomial":
            return binomial_law(self.size, float(self.numbers[0]))
        if self.law == "gaussian":
            return gaussian_law(self.size, *self.numbers)
        return table_law(self.size, dict(self.numbers))

    @cached_property
    def largest_probability(self) -> float:
        return float(np.exp(self.logs) @ np.arange(self.size + 1)) / self.size

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        largest = int(np.nonzero(np.isfinite(self.logs))[0][-1])
        if neighbours == Relation.ADD_REMOVE and largest == self.size:
            return Refused(
                "the law may ask for every unit, and a population with one unit less could not give it",
                "a law whose largest size is below the population, or Poisson sampling",
                SOURCE,
            )
        size = SIZE_KNOWN if neighbours == Relation.REPLACE_ONE else SIZE_AT_LEAST
        holds = (SAMPLE_ONLY, "the law of the sample size is public and does not look at the data", size)
        if not losses.sizes_protected:
            if neighbours == Relation.ADD_REMOVE:
                return sizes_unprotected("the design")
            # The size may be shown in full, so the worst size decides.
            return Bound.equal(log_mixture((largest / self.size, losses.replace_one)), SOURCE, holds_when=holds)
        tilt = tilted_mean(self.logs, losses.add_remove) / self.size
        corrected = up(log_mixture((min(1.0, tilt), losses.replace_one)))
        details = {
            "tilted_mean": tilt * self.size,
            "upper_closed_form": Figure(corrected, "closed form, which is looser"),
            "lower_closed_form": below(-log_mixture((min(1.0, tilt), -losses.add_remove))),
        }
        if self.law == "binomial" and neighbours == Relation.REPLACE_ONE:
            answer = independent_bound((float(self.numbers[0]),), losses, neighbours)
            assert isinstance(answer, Bound)
            return Bound(answer.upper, answer.lower, answer.exact, SOURCE, holds_when=holds, details=details)
        typed = losses.base == Relation.BOTH or losses.replace_one == 2.0 * losses.add_remove
        if typed and np.count_nonzero(np.isfinite(self.logs)) <= MOST_SIZES:
            worsts = solve(self.logs, self.logs, self.size, losses, neighbours)
            upper, lower, exact = exact_loss(worsts, lambda: corrected)
            return Bound(min(upper, corrected), min(lower, below(corrected)), exact, SOURCE, holds_when=holds, details=details)
        lower = log_mixture((self.largest_probability, losses.add_remove))
        if typed and neighbours == Relation.REPLACE_ONE:
            # A noisy sum in which the target counts for or against attains this.
            lower = max(lower, -log_mixture((min(1.0, tilt), -losses.replace_one)))
        return Bound(corrected, min(below(lower), corrected), False, SOURCE, holds_when=holds, details=details)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        if neighbours == Relation.ADD_REMOVE:
            return 1.0
        replaced = replacing(base, losses)
        sizes = self._likely
        # Given the size, which is the same for both populations, it is a simple random sample.
        by_size = math.fsum(t * f * replaced(1.0 + (alpha - 1.0) / f) for t, f in sizes if f > 0.0) + self._unlikely
        if losses.base != Relation.ADD_REMOVE:
            return min(1.0, up(by_size))
        theta = self.largest_probability
        far = [(mass, profile_of(base.steps(distance))) for distance, mass in self._coupled()]
        mean = one_source(
            theta,
            (alpha * theta, replaced),
            ((alpha - 1.0) * (1.0 - theta), lambda y: min(1.0, math.fsum(mass * h(y) for mass, h in far) + self._unlikely)),
        )
        return min(1.0, up(min(by_size, mean)))

    @cached_property
    def _likely(self) -> list[tuple[float, float]]:
        """Up to 400 groups of sizes as (probability, largest m/n of the group): the bound rises with m."""
        law = np.exp(self.logs)
        order = np.nonzero(law > 1e-19)[0]
        groups = np.array_split(order, min(len(order), 400))
        return [(float(law[group].sum()), float(group[-1]) / self.size) for group in groups]

    @property
    def _unlikely(self) -> float:
        return 1e-19 * (self.size + 1)

    def _coupled(self) -> list[tuple[int, float]]:
        """The law of 1 + |K1 - 1 - K0| under the quantile coupling of t(m) m and t(m)(n - m)."""
        law, sizes = np.exp(self.logs), np.arange(self.size + 1)
        with_target, without = law * sizes, law * (self.size - sizes)
        ups = [np.cumsum(part / part.sum()) for part in (with_target, without)] if without.sum() > 0.0 else []
        if not ups:
            return [(1, 1.0)]
        cuts = np.unique(np.concatenate(ups))
        middle = np.concatenate(([cuts[0] / 2.0], (cuts[1:] + cuts[:-1]) / 2.0))
        high, low = (np.minimum(np.searchsorted(up_to, middle), self.size) for up_to in ups)
        masses: dict[int, float] = {}
        for distance, mass in zip((1 + np.abs(high - 1 - low)).tolist(), np.diff(cuts, prepend=0.0).tolist(), strict=True):
            masses[distance] = masses.get(distance, 0.0) + mass
        return [*sorted(masses.items())[:64], (max(masses), math.fsum(v for _, v in sorted(masses.items())[64:]))]

    def contest(self, neighbours: Neighbours) -> Contest | None:
        if self.size > 2000:
            return None
        law = dict(enumerate(np.exp(self.logs).tolist()))
        return size_contest(law, law, self.size, neighbours)


class SizeChance(NamedTuple):
    """A size of the sample and its probability: a line of a table."""

    sample: int
    probability: float


def _of_figures(
    population: Annotated[int, "Units in all."],
    binomial: Annotated[float | None, "Binomial law of the size, with this probability."] = None,
    gaussian: Annotated[tuple[float, float] | None, "Normal law on the whole numbers: MEAN SD."] = None,
    table: Annotated[Sequence[SizeChance] | None, "CSV with the columns sample, probability."] = None,
) -> RandomSize:
    """A random sample size that does not look at the data, then simple random sampling.

    Example: `dpsurvey amplify random-size --population 100 --gaussian 50 5 --epsilon 1 --base both --neighbours replace-one`
    """
    if sum(each is not None for each in (binomial, gaussian, table)) != 1:
        raise BadValue("give one of --binomial, --gaussian, --table")
    check_count("population", population)
    law: dict[int, float] = {}
    for size, chance in table or ():
        law[size] = law.get(size, 0.0) + chance
    return random_size(population, binomial=binomial, gaussian=gaussian, table=None if table is None else law)


@register("random-size", commands={"random-size": _of_figures}, drawn=False)
def random_size(
    size: int,
    *,
    binomial: float | None = None,
    gaussian: tuple[float, float] | None = None,
    table: Mapping[int, float] | Sequence[tuple[int, float]] | None = None,
) -> RandomSize:
    """A simple random sample of `size` units whose own size is drawn from a public law: binomial, normal (mean and standard
    deviation, on the whole numbers), or a table of probabilities.

    >>> round(random_size(100, binomial=0.5).largest_probability, 9)
    0.5
    """
    if sum(each is not None for each in (binomial, gaussian, table)) != 1:
        raise BadValue("give one law of sizes: binomial, gaussian or table")
    if binomial is not None:
        return RandomSize(size, "binomial", (binomial,))
    return RandomSize(size, "gaussian", tuple(gaussian)) if gaussian is not None else RandomSize.table(size, dict(table or {}))
