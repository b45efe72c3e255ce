"""Laws of a random sample size, and the chains that two neighbouring populations make of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from ..errors import BadValue
from ..privacy.relation import Neighbours, Relation
from .bound import Losses
from .chain import Chain, Target, Worst, worst_of
from .worst_case.contest import Contest

Array = npt.NDArray[np.float64]
# A law of sizes: log probabilities of 0, 1, ..., n units.
LogLaw = Array


def checked(log_law: LogLaw) -> LogLaw:
    """The law scaled to sum to 1; refused where it does not to a millionth."""
    total = float(np.logaddexp.reduce(log_law))
    if not abs(total) < 1e-6:
        raise BadValue(
            "the probabilities of the sample sizes must sum to 1 (the table, for each population)",
            given=f"sum {math.exp(total):.9g}",
        )
    return log_law - total


def binomial_law(population: int, p: float) -> LogLaw:
    """Independent inclusion with one probability."""
    sizes = np.arange(population + 1)
    if p >= 1.0:
        return np.where(sizes == population, 0.0, -np.inf)
    from scipy.special import gammaln

    choose = gammaln(population + 1) - gammaln(sizes + 1) - gammaln(population - sizes + 1)
    return np.asarray(choose + sizes * math.log(p) + (population - sizes) * math.log1p(-p))


def gaussian_law(population: int, mean: float, sd: float) -> LogLaw:
    """A normal density on the whole numbers 0 to population, scaled to sum to 1."""
    if not (math.isfinite(mean) and sd > 0.0 and math.isfinite(sd)):
        raise BadValue("a Gaussian law of sizes needs a finite mean and a standard deviation above 0", given=f"{mean}, {sd}")
    with np.errstate(over="ignore"):
        log_law = -0.5 * ((np.arange(population + 1) - mean) / sd) ** 2
    if not np.isfinite(log_law).any():
        raise BadValue(
            "the Gaussian law of sizes has too small a standard deviation for a mean between whole numbers", given=f"{mean}, {sd}"
        )
    return np.asarray(log_law - np.logaddexp.reduce(log_law))


def table_law(population: int, table: Mapping[int, float]) -> LogLaw:
    """Probabilities by sample size, from a table."""
    law = np.zeros(population + 1)
    for size, probability in table.items():
        if not (isinstance(size, int) and 0 <= size <= population):
            raise BadValue("a sample size must be a whole number from 0 to the population size", given=f"size {size}")
        if not 0.0 <= probability <= 1.0:
            raise BadValue("a probability must be in [0, 1]", given=f"{probability}")
        law[size] += probability
    with np.errstate(divide="ignore"):
        return checked(np.log(law))


def window_law(start: int, length: int, table: Mapping[int, float]) -> LogLaw:
    """Probabilities of the sizes start, start + 1, ... from a table that has no others."""
    law = np.zeros(length)
    for size, probability in table.items():
        law[size - start] += probability
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(law))


def tilted_mean(log_law: LogLaw, epsilon: float) -> float:
    """The mean size under weights e^(epsilon m) t(m).

    >>> round(tilted_mean(table_law(4, {m: 0.2 for m in range(5)}), 1.0), 10)
    3.4519415677
    """
    sizes = np.arange(len(log_law))
    logs = log_law + epsilon * sizes
    weights = np.exp(logs - logs.max())
    return float(weights @ sizes / weights.sum())


def _window(*laws: LogLaw) -> slice:
    """The sizes that matter, with one more below, since a sample with the target is bound to a smaller one."""
    some = np.nonzero(np.any([np.isfinite(law) for law in laws], axis=0))[0]
    return slice(max(0, int(some[0]) - 1), int(some[-1]) + 1)


def _padded(law: LogLaw, length: int) -> LogLaw:
    return np.concatenate((law, np.full(length - len(law), -np.inf)))


def _padded_zero(values: Array, length: int) -> Array:
    return np.concatenate((values, np.zeros(length - len(values))))


def chains(
    first: LogLaw,
    second: LogLaw,
    population: int,
    losses: Losses,
    neighbours: Neighbours,
    start: int = 0,
    moved: Array | None = None,
) -> list[Chain]:
    """The chains of both orders, for laws of the sizes from `start` on. `first` is the law with the target, from
    `population` units; under replace-one it serves both populations and `second` is not read. `moved` is first minus
    second by size, where it is known better than the logarithms tell."""
    length = max(len(first), len(second))
    first, second = _padded(first, length), _padded(second, length)
    where = _window(first) if neighbours == Relation.REPLACE_ONE else _window(first, second)
    sizes = np.arange(start, start + length)[where]
    with np.errstate(divide="ignore"):
        inside = first[where] + np.log(sizes / population)
        outside = first[where] + np.log(np.maximum(0.0, (population - sizes) / population))
    nothing = np.full(len(sizes), -np.inf)
    below = losses.base == Relation.ADD_REMOVE
    if neighbours == Relation.REPLACE_ONE:
        # One order is enough: exchanging the two values of the target gives the other.
        pushed = Target(inside, nothing, 1), Target(nothing, inside, -1 if below else 0)
        return [Chain(int(sizes[0]), outside, outside, pushed, "below" if below else "least", np.zeros(len(sizes)))]
    other = second[where]
    # t(1 - m/n) - t' = (t - t') - t m/n, without the rounding of a share that may be tiny.
    gap = (np.exp(first) - np.exp(second) if moved is None else _padded_zero(moved, length))[where] - np.exp(inside)
    forward = Chain(int(sizes[0]), outside, other, (Target(inside, nothing, 1),), "below" if below else "least", gap)
    backward = Chain(int(sizes[0]), other, outside, (Target(nothing, inside, -1),), "below" if below else "largest", -gap)
    return [forward, backward]


def exact_loss(worsts: list[Worst], otherwise: Callable[[], float]) -> tuple[float, float, bool]:
    """(upper, lower, exact) from the solved chains; `otherwise` is a proved bound for the case that one did not settle."""
    loss, attained = max(worst.loss for worst in worsts), max(worst.lower for worst in worsts)
    if loss == 0.0 and max(worst.upper for worst in worsts) < 1e-299:
        # Both populations give the same samples: nobody is ever drawn.
        return 0.0, 0.0, True
    if all(worst.settled for worst in worsts):
        return max(worst.upper for worst in worsts), attained, True
    return max(loss, otherwise()), attained, False


def solve(
    first: LogLaw,
    second: LogLaw,
    population: int,
    losses: Losses,
    neighbours: Neighbours,
    start: int = 0,
    moved: Array | None = None,
) -> list[Worst]:
    """The exact worst losses in both orders."""
    made = chains(first, second, population, losses, neighbours, start, moved)
    return [worst_of(chain, losses.add_remove) for chain in made]


def size_contest(
    first: Mapping[int, float], second: Mapping[int, float], population: int, neighbours: Neighbours
) -> Contest | None:
    """The contest of two laws of sizes, all other units alike; `first` has the target among its `population` units."""
    drawn: dict[tuple[int, ...], float] = {}
    replaced: dict[tuple[int, ...], float] = {}
    for size, t in first.items():
        share = size / population
        for counts, weight in (((size, 0, 0), t * (1.0 - share)), ((size - 1, 1, 0), t * share)):
            if weight > 0.0:
                drawn[counts] = weight
                replaced[(counts[0], 0, counts[1])] = weight
    others = population - 1
    if neighbours == Relation.REPLACE_ONE:
        return Contest((others, 1, 0), drawn, (others, 0, 1), replaced)
    return Contest((others, 1, 0), drawn, (others, 0, 0), {(size, 0, 0): t for size, t in second.items() if t > 0.0})


def binomial(n: int, p: float) -> list[tuple[int, float]]:
    """The binomial law as (count, probability); counts beyond all but 1e-30 of the mass are left out.

    >>> [(k, round(weight, 12)) for k, weight in binomial(2, 0.5)]
    [(0, 0.25), (1, 0.5), (2, 0.25)]
    """
    if p == 1.0:
        return [(n, 1.0)]
    # Bernstein: fifteen standard deviations and sixty more leave less than e^-80.
    mean = n * p
    width = 15.0 * math.sqrt(mean) + 60.0
    first, last = max(0, math.floor(mean - width)), min(n, math.ceil(mean + width))
    counts = np.arange(first, last + 1)
    from scipy.special import gammaln

    logs = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1) + counts * math.log(p) + (n - counts) * math.log1p(-p)
    weights = np.exp(logs)
    return list(zip(counts.tolist(), (weights / weights.sum()).tolist(), strict=True))
