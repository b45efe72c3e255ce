"""Simulated surveys of the study of predictions: a public frame with groups, samples of a design, exact and noisy sums."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

import dpsurvey as ds
from coverage_designs import DESIGNS, FURTHER, sampling
from coverage_frame import STRATA, Array, Codes, Population, make_population
from coverage_sums import answered, bought_exact, contributions, leaves_of, steps_of
from dpsurvey.mechanism.bought_variance import MeanAndVariance
from dpsurvey.statistic import Query
from dpsurvey.statistic.encodings import TreeCounts
from dpsurvey.survey.plan import Item, Plan

SEED = 20260404
RESPONSE = dict(zip(STRATA, (0.9, 0.8, 0.7, 0.6, 0.5, 0.85), strict=True))
GROUPS = {"a": 0.5, "b": 0.3, "c": 0.2}
# Doubles that noisy sums may take at once.
AT_ONCE = 2_000_000


@cache
def groups(copies: int) -> Codes:
    """A public column that has nothing to do with strata or answers."""
    random = np.random.default_rng(SEED)
    return random.choice(len(GROUPS), make_population(copies).size, p=list(GROUPS.values()))


def codes_of(column: str, population: Population, copies: int) -> Codes:
    """The place of each unit's category in the declared list."""
    if column == "group":
        return groups(copies)
    return population.stratum if column == "stratum" else population.columns[column].astype(np.int64)


@cache
def frame(copies: int) -> ds.Frame:
    """What is public: the sizes of strata, of groups, and of the answer b."""
    people = make_population(copies)
    labels = {"stratum": tuple(STRATA), "group": tuple(GROUPS), "b": ("0", "1")}
    sizes = {
        column: dict(zip(own, np.bincount(codes_of(column, people, copies)).tolist(), strict=True))
        for column, own in labels.items()
    }
    return ds.Frame("population", unit="id", size=people.size, categories=sizes, public=("cluster", "segment", "chance"))


class Simulated:
    """Samples of one design, many at once: units, the survey and the block (stratum, or random group of clusters) of each."""

    def __init__(self, design: str, n: int, runs: int, copies: int = 40, response: bool = False) -> None:
        self.here, self.runs, self.copies = sampling(design, n, copies), runs, copies
        random = self.random = np.random.default_rng([SEED, (*DESIGNS, *FURTHER).index(design), n, int(response)])
        # Without strata in the design everybody answers alike: else those who answer are another population.
        stratified = self.here.design.strata_column is not None
        self.rates: dict[str, float] | float = RESPONSE if stratified else 0.7
        units, surveys, blocks = [], [], []
        for run in range(runs):
            drawn = self.here.draw(random)
            units.append(drawn.units)
            surveys.append(np.full(len(drawn.units), run))
            blocks.append(np.repeat(np.arange(len(drawn.starts)), np.diff(np.append(drawn.starts, len(drawn.units)))))
        self.units, self.survey, self.block = (np.concatenate(each) for each in (units, surveys, blocks))
        if response:
            by_stratum = np.array(list(RESPONSE.values())) if stratified else np.full(len(STRATA), self.rates)
            kept = random.random(len(self.units)) < by_stratum[self.here.population.stratum[self.units]]
            self.units, self.survey, self.block = (each[kept] for each in (self.units, self.survey, self.block))

    def cells(self, query: Query) -> Codes:
        """The row of the sums that each sampled unit is in, surveys one after the other."""
        cell = np.zeros(len(self.units), dtype=np.int64)
        for column, labels in zip(query.by, query.categories, strict=True):
            cell = cell * len(labels) + codes_of(column, self.here.population, self.copies)[self.units]
        if query.random_groups is not None:
            cell = cell * query.random_groups.count + self.block % query.random_groups.count
        return self.survey * query.cells + cell

    def sums(self, query: Query) -> Array:
        """Exact sums of all surveys: (surveys, cells, components)."""
        rows = self.runs * query.cells
        if isinstance(query.encoding, TreeCounts):
            tree = query.encoding.tree
            at = self.cells(query) * tree.leaves + leaves_of(query, self.here)[self.units]
            found = np.bincount(at, steps_of(query, self.here)[self.units], rows * tree.leaves).astype(np.float64)
            return tree.add_up(found.reshape(self.runs, query.cells, tree.leaves))
        added = contributions(query, self.here)
        cells = self.cells(query)
        parts = [np.bincount(cells, part[self.units], rows).astype(np.float64) for part in np.ascontiguousarray(added.T)]
        return np.stack(parts, axis=-1).reshape(self.runs, query.cells, len(parts))

    def estimates(self, plan: Plan) -> Array:
        """What the package would publish in each survey."""
        item = plan.items[0]
        exact = self.sums(item.query)
        parts = np.array_split(exact, math.ceil(exact.size / AT_ONCE))
        asked, statistic = plan.asked(item, intervals=False), item.statistics[0]
        drawn = [asked.answered(noisy(part, item, self.random)) for part in parts]
        return np.concatenate([statistic.estimate(each.read_as(statistic.asked_of(item.query))).estimate for each in drawn])


def noisy(exact: Array, item: Item, random: np.random.Generator) -> Array:
    """What would be published instead of the exact sums."""
    mechanism = item.mechanism
    if mechanism.kind != "gaussian":
        return answered(exact, item, random)
    if isinstance(mechanism, MeanAndVariance):
        parts = zip(bought_exact(exact, mechanism), (mechanism.of_mean, mechanism.of_variance), strict=True)
        return np.stack([np.floor(each) + gaussian(random, law.variance, each.shape) for each, law in parts], axis=-1)[:, None, :]
    return exact + gaussian(random, mechanism.variance, exact.shape)


def gaussian(random: np.random.Generator, variance: float, shape: tuple[int, ...]) -> Array:
    """The discrete Gaussian law: exactly where it is narrow, rounded where a step is nothing beside it."""
    scale = math.sqrt(variance)
    if scale > 100.0:
        return np.rint(random.normal(0.0, scale, shape))
    steps = np.arange(-math.ceil(12.0 * scale), math.ceil(12.0 * scale) + 1)
    law = np.exp(-0.5 * (steps / scale) ** 2)
    return np.asarray(random.choice(steps, shape, p=law / law.sum()))
