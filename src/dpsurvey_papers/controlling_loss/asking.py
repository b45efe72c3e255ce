"""What the items of this paper ask of the package: the loss of a design, the exact worst case, and laws of small samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import dpsurvey as ds
from dpsurvey.design import Design
from dpsurvey.loss.worst_case import Contest, worst_loss
from dpsurvey.privacy import NeighboursName, RelationName

Law = dict[frozenset[str], float]
# Figures that differ by less are the same: the linear programme is certified to about this.
CLOSE = 1e-6
# A loss of this share of epsilon leaves next to nothing of what sampling could give.
NEARLY = 0.95


def loss(design: Design, epsilon: float, base: RelationName, neighbours: NeighboursName) -> float:
    """The loss that the package states for a design; infinite where it refuses."""
    found = ds.amplify(design, epsilon, base=base, neighbours=neighbours).epsilon
    return math.inf if found is None else found


def worst(design: Design, epsilon: float, base: RelationName, neighbours: NeighboursName) -> float:
    """The largest loss over all mechanisms of the type, by linear programme on the design's own small populations."""
    found = ds.amplify(design, epsilon, base=base, neighbours=neighbours).worst_case()
    return math.nan if found is None else found.lower


def contest_of(first: Mapping[frozenset[str], float], second: Mapping[frozenset[str], float]) -> Contest:
    """Two laws of samples of labelled units, set against each other."""
    return Contest.of_units(dict(first.items()), dict(second.items()))


def exact(
    first: Mapping[frozenset[str], float], second: Mapping[frozenset[str], float], epsilon: float, base: RelationName
) -> float:
    """The largest loss over all mechanisms of the type, in the worse order, between two laws of samples of labelled units."""
    return worst_loss(contest_of(first, second), epsilon, base).lower


def simple(units: Sequence[str], n: int) -> Law:
    """Any n of the units."""
    return {frozenset(sample): 1.0 / math.comb(len(units), n) for sample in itertools.combinations(units, n)}


def mixed(parts: Iterable[tuple[float, Mapping[frozenset[str], float]]]) -> Law:
    """One of several laws, with a probability each."""
    law: Law = {}
    for weight, samples in parts:
        for sample, chance in samples.items():
            law[sample] = law.get(sample, 0.0) + weight * chance
    return {sample: chance for sample, chance in law.items() if chance > 0.0}


def sized(units: Sequence[str], sizes: Mapping[int, float]) -> Law:
    """A sample size from a law that does not look at the data, then any that many units."""
    return mixed((chance, simple(units, size)) for size, chance in sizes.items())


def one_by_one(rates: Mapping[str, float]) -> Law:
    """Each unit by itself."""
    law: Law = {frozenset(): 1.0}
    for unit, rate in rates.items():
        law = mixed(((1.0 - rate, law), (rate, {sample | {unit}: chance for sample, chance in law.items()})))
    return law


def tally(good: Iterable[bool]) -> str:
    """In how many cases something held: "all", or so many of so many."""
    held = list(good)
    return "all" if held and all(held) else f"{sum(held)} of {len(held)}"


def at_most(one: float, other: float) -> bool:
    """Whether a figure is no larger than another, up to the accuracy of the linear programme."""
    return one <= other + CLOSE * max(1.0, other) or (math.isinf(one) and math.isinf(other))


def same(one: float, other: float) -> bool:
    """Whether two figures are the same, up to the accuracy of the linear programme."""
    return at_most(one, other) and at_most(other, one)


def against(found: float, epsilon: float) -> str:
    """A loss in words: what sampling did to the mechanism's own epsilon."""
    if found > epsilon * (1.0 + CLOSE):
        return "degradation"
    return "no amplification" if found > NEARLY * epsilon else "amplification"


def dots_between(low: float, high: float, number: int) -> Iterator[float]:
    """Numbers in equal ratios."""
    yield from (low * (high / low) ** (each / (number - 1)) for each in range(number))
