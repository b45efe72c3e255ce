"""The designs of the coverage study: as the package knows them, and as numpy draws them many times over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

import dpsurvey as ds
from coverage_frame import STRATA, Array, Codes, Population, hashed_order, make_population
from dpsurvey.design import Design
from dpsurvey.ledger.terms import Terms
from dpsurvey.privacy import Budget, Setting

TAKE = 5
FIXED = Setting("sample", "frame", neighbours="replace-one")
RANDOM = Setting("sample", "frame", neighbours="add-remove")
# A unit may be drawn often, or its neighbours change with it: only the frame is protected.
DRAW_INSIDE = Setting("frame", neighbours="replace-one")


@dataclass(frozen=True)
class Drawn:
    """One sample: units in blocks (strata, clusters in the order of their random groups, or one block), and where blocks
    start."""

    units: Codes
    starts: Codes


@dataclass(frozen=True)
class Sampling:
    """A design on the frame: its public side, its draw, and what the classical variance needs.

    `fractions` are the shares drawn of each stratum, or of the clusters; `chance` and `weight` belong to the units.
    """

    name: str
    population: Population
    design: Design
    setting: Setting
    draw: Callable[[np.random.Generator], Drawn]
    kind: str
    weight: Array
    chance: Array
    fractions: Array
    weight_range: tuple[float, float] | None = None
    cluster_sizes: Array = field(default_factory=lambda: np.empty(0))

    def terms(self, epsilon: float) -> Terms:
        """The terms of a survey with this budget for its one statistic."""
        frame = self.population.frame
        return Terms("study", frame, self.design.resolve(frame), self.setting, Budget(epsilon), self.weight_range)


DESIGNS = ("srs", "stratified, proportional", "stratified, equal takes", "bernoulli", "poisson", "cluster", "two-stage")
# Drawn by the study of predictions alone.
FURTHER = ("with replacement", "systematic", "proportional rounding", "strata, bernoulli")


@cache
def sampling(name: str, n: int, copies: int = 40) -> Sampling:
    """A design of the study with about n units."""
    population = make_population(copies)
    if name in FURTHER:
        return _strata_of_bernoulli(population, n) if name.startswith("strata") else _alike(name, population, n)
    if name == "srs":
        return _simple(population, n)
    if name.startswith("stratified"):
        return _stratified(name, population, n)
    if name in ("bernoulli", "poisson"):
        return _independent(name, population, n)
    return _clusters(population, n) if name == "cluster" else _two_stages(population, n)


def _simple(population: Population, n: int) -> Sampling:
    size, whole = population.size, np.zeros(1, dtype=np.int64)

    def draw(random: np.random.Generator) -> Drawn:
        return Drawn(random.choice(size, n, replace=False, shuffle=False), whole)

    rate = np.full(size, n / size)
    return Sampling("srs", population, ds.srs(n), FIXED, draw, "strata", 1.0 / rate, rate, np.array([n / size]))


def _stratified(name: str, population: Population, n: int) -> Sampling:
    sizes = np.bincount(population.stratum)
    exact = n * sizes / sizes.sum() if name.endswith("proportional") else np.full(len(sizes), n / len(sizes))
    takes = np.floor(exact).astype(np.int64)
    # The largest remainders are rounded up, so that the takes add up to n.
    takes[np.argsort(takes - exact)[: n - takes.sum()]] += 1
    offsets, starts = np.cumsum(sizes) - sizes, np.cumsum(takes) - takes

    def draw(random: np.random.Generator) -> Drawn:
        parts = [
            offset + random.choice(int(size), int(take), replace=False, shuffle=False)
            for offset, size, take in zip(offsets, sizes, takes, strict=True)
        ]
        return Drawn(np.concatenate(parts), starts)

    fractions = takes / sizes
    rate = fractions[population.stratum]
    within: dict[object, Design] = {label: ds.srs(int(take)) for label, take in zip(STRATA, takes, strict=True)}
    design = ds.stratified("stratum", within=within)
    return Sampling(name, population, design, FIXED, draw, "strata", 1.0 / rate, rate, fractions)


def _independent(name: str, population: Population, n: int) -> Sampling:
    whole = np.zeros(1, dtype=np.int64)
    if name == "bernoulli":
        chance = np.full(population.size, n / population.size)
    else:
        # In proportion to size, the extremes cut: weights differ by a factor of 6.
        size = np.clip(population.size_measure, 10.0, 60.0)
        chance = n * size / size.sum()
    most, count = float(chance.max()), population.size

    def draw(random: np.random.Generator) -> Drawn:
        # Bernoulli at the largest chance, then each one kept by its own.
        kept = random.choice(count, random.binomial(count, most), replace=False, shuffle=False)
        return Drawn(kept if name == "bernoulli" else kept[random.random(len(kept)) * most < chance[kept]], whole)

    design = ds.poisson(n / count) if name == "bernoulli" else ds.poisson_by("chance", at_most=most)
    extremes = None if name == "bernoulli" else (1.0 / most, 1.0 / float(chance.min()))
    return Sampling(name, population, design, RANDOM, draw, "independent", 1.0 / chance, chance, np.zeros(1), extremes)


def _blocks(labels: Codes) -> tuple[Codes, Codes, Codes]:
    """Clusters in the order of their random groups: the first unit and the size of each; and that order."""
    sizes = np.bincount(labels)
    order = hashed_order(len(sizes))
    return (np.cumsum(sizes) - sizes)[order], sizes[order], order


def _clusters(population: Population, n: int) -> Sampling:
    first, sizes, _ = _blocks(population.segment)
    clusters = len(sizes)
    drawn = round(n * clusters / population.size)

    def draw(random: np.random.Generator) -> Drawn:
        chosen = np.sort(random.choice(clusters, drawn, replace=False, shuffle=False))
        taken = sizes[chosen]
        starts = np.cumsum(taken) - taken
        return Drawn(np.arange(taken.sum()) + np.repeat(first[chosen] - starts, taken), starts)

    rate = np.full(population.size, drawn / clusters)
    design = ds.cluster("segment", ds.srs(drawn), clusters=clusters)
    fractions = np.array([drawn / clusters])
    return Sampling("cluster", population, design, FIXED, draw, "clusters", 1.0 / rate, rate, fractions)


def _two_stages(population: Population, n: int) -> Sampling:
    first, sizes, order = _blocks(population.cluster)
    clusters, drawn = len(sizes), n // TAKE
    starts = np.arange(drawn) * TAKE

    def draw(random: np.random.Generator) -> Drawn:
        chosen = np.sort(random.choice(clusters, drawn, replace=False, shuffle=False))
        # A few places of each cluster, without replacement: shift later draws past the earlier ones.
        places = np.empty((drawn, TAKE), dtype=np.int64)
        for step in range(TAKE):
            place = random.integers(0, sizes[chosen] - step)
            for earlier in np.sort(places[:, :step], axis=1).T:
                place += place >= earlier
            places[:, step] = place
        return Drawn((first[chosen][:, None] + places).ravel(), starts)

    by_label = np.empty(clusters)
    by_label[order] = sizes
    rate = drawn / clusters * TAKE / by_label[population.cluster]
    design = ds.stages(ds.cluster("cluster", ds.srs(drawn), clusters=clusters), ds.srs(TAKE))
    weights = 1.0 / rate
    extremes = float(weights.min()), float(weights.max())
    fractions = np.array([drawn / clusters])
    sizes_of_units = by_label[population.cluster]
    return Sampling(
        "two-stage", population, design, FIXED, draw, "two stages", weights, rate, fractions, extremes, sizes_of_units
    )


def _alike(name: str, population: Population, n: int) -> Sampling:
    """Equal chances by other draws: with replacement, every k-th of a secret random order, or a share rounded by chance."""
    size, whole = population.size, np.zeros(1, dtype=np.int64)

    def repeated(random: np.random.Generator) -> Drawn:
        return Drawn(random.integers(0, size, n), whole)

    def ordered(random: np.random.Generator) -> Drawn:
        # Places of a random order are a simple random sample, whichever places they are.
        return Drawn(random.choice(size, n, replace=False, shuffle=False), whole)

    def rounded(random: np.random.Generator) -> Drawn:
        return Drawn(random.choice(size, n + int(random.random() < 0.5), replace=False, shuffle=False), whole)

    share = (n + 0.5) / size
    designs: dict[str, tuple[Design, Setting, Callable[[np.random.Generator], Drawn], float]] = {
        "with replacement": (ds.with_replacement(n), DRAW_INSIDE, repeated, n / size),
        "systematic": (ds.systematic(n, order="random"), FIXED, ordered, n / size),
        "proportional rounding": (ds.proportional(share), DRAW_INSIDE, rounded, share),
    }
    design, setting, draw, rate = designs[name]
    chance = np.full(size, rate)
    return Sampling(name, population, design, setting, draw, "strata", 1.0 / chance, chance, np.array([rate]))


def _strata_of_bernoulli(population: Population, n: int) -> Sampling:
    """Each unit by itself, at one rate in each stratum; rates differ by a factor of 4."""
    sizes = np.bincount(population.stratum)
    wanted = np.linspace(1.0, 4.0, len(sizes))
    rates = n * wanted / (wanted * sizes).sum()
    offsets = np.cumsum(sizes) - sizes

    def draw(random: np.random.Generator) -> Drawn:
        counts = random.binomial(sizes, rates)
        parts = [
            offset + random.choice(int(size), int(count), replace=False, shuffle=False)
            for offset, size, count in zip(offsets, sizes, counts, strict=True)
        ]
        return Drawn(np.concatenate(parts), np.cumsum(counts) - counts)

    chance = rates[population.stratum]
    within: dict[object, Design] = {label: ds.poisson(float(rate)) for label, rate in zip(STRATA, rates, strict=True)}
    design = ds.stratified("stratum", within=within)
    return Sampling("strata, bernoulli", population, design, RANDOM, draw, "independent", 1.0 / chance, chance, np.zeros(1))


def design_effect(here: Sampling, z: Array, units: float) -> float:
    """The variance of the weighted total of z over that of a simple random sample of as many units, by the textbook.

    `units` is how many the plan expects: from rates that are each unit's own it knows their range alone.
    """
    size, n = len(z), units
    simple = size**2 * (1.0 - n / size) * float(np.var(z, ddof=1)) / n
    if here.kind == "independent":
        return float(((1.0 / here.chance - 1.0) * z**2).sum()) / simple
    if here.kind == "strata":
        strata = here.population.stratum if len(here.fractions) > 1 else np.zeros(size, dtype=np.int64)
        sizes, sums, squares = np.bincount(strata), np.bincount(strata, z), np.bincount(strata, z**2)
        rates = here.fractions
        return float((sizes * (1.0 - rates) / rates * (squares - sums**2 / sizes) / (sizes - 1.0)).sum()) / simple
    label = here.population.segment if here.kind == "clusters" else here.population.cluster
    sizes, sums, squares = np.bincount(label), np.bincount(label, z), np.bincount(label, z**2)
    count, drawn = len(sizes), float(here.fractions[0]) * len(sizes)
    between = count**2 * (1.0 - drawn / count) * float(np.var(sums, ddof=1)) / drawn
    if here.kind == "clusters":
        return between / simple
    spread = (squares - sums**2 / sizes) / (sizes - 1.0)
    taken = float(here.chance.sum()) / drawn
    return (between + count / drawn * float((sizes**2 * (1.0 - taken / sizes) * spread / taken).sum())) / simple
