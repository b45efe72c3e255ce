"""What the engine would sum, by numpy for many samples at once; tests/coverage/test_reduced_study.py holds it to the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverage_designs import Drawn, Sampling
from coverage_frame import STRATA, Array, Codes
from dpsurvey.mechanism.bought_variance import FINE, MeanAndVariance
from dpsurvey.mechanism.centred_ratio import CentredRatio, centres
from dpsurvey.mechanism.weighted_strata import WeightedStrata
from dpsurvey.statistic import Query
from dpsurvey.statistic.encodings import TreeCounts
from dpsurvey.statistic.exact_totals import ClusterTotals
from dpsurvey.statistic.query import ByCluster
from dpsurvey.survey.plan import Item


def to_steps(value: Array) -> Array:
    """To the nearest lattice step, halves up."""
    return np.asarray(np.floor(value + 0.5))


def steps_of(query: Query, sampling: Sampling) -> Array:
    """The lattice steps of each unit of the frame."""
    population = sampling.population
    if query.weights:
        return to_steps(np.minimum(sampling.weight / query.weights.largest, 1.0) * query.weights.steps)
    if len(query.lattice) == 1:
        return np.full(population.size, float(query.steps))
    by_label = dict(query.lattice)
    return np.array([float(by_label[label]) for label in STRATA])[population.stratum]


def _scaled(values: Array, bounds: tuple[float, float]) -> Array:
    low, high = bounds
    return np.asarray((np.clip(values, low, high) - low) / (high - low))


@dataclass
class FrameRow:
    """All units of the frame at once, as encodings read a row."""

    query: Query
    sampling: Sampling

    @property
    def steps(self) -> Array:
        """The lattice steps of whole records."""
        return steps_of(self.query, self.sampling)

    @property
    def y(self) -> Array:
        """The measured values on [0, 1]."""
        assert self.query.column is not None
        assert self.query.bounds is not None
        return _scaled(self.sampling.population.columns[self.query.column], self.query.bounds)

    @property
    def answer(self) -> Array:
        """The steps of units with yes, or of their values."""
        if self.query.value is None:
            return np.minimum(to_steps(self.steps * self.y), self.steps)
        return np.asarray(self.sampling.population.columns[str(self.query.column)] * self.steps)

    @property
    def others(self) -> list[Array]:
        """The further columns on [0, 1]."""
        columns = self.sampling.population.columns
        return [_scaled(columns[name], (low, high)) for name, low, high in self.query.encoding.others]

    @property
    def share(self) -> Array:
        """u, the steps over the most that any unit counts."""
        return np.asarray(self.steps / float(self.query.steps))

    @property
    def thinned(self) -> Array:
        """The steps times u (1 - pi)."""
        share = self.share
        return np.maximum(share * share * (1.0 - self.sampling.chance) * self.query.steps, 0.0)

    def to_steps(self, value: Array) -> Array:
        """Values rounded to the nearest whole step."""
        return to_steps(value)

    def least(self, one: Array, other: Array) -> Array:
        """The smaller of two."""
        return np.minimum(one, other)


def contributions(query: Query, sampling: Sampling) -> Array:
    """What each unit of the frame would add to the sums of a query: (units, components)."""
    return np.stack(query.encoding.record(FrameRow(query, sampling)), axis=1)


def leaves_of(query: Query, sampling: Sampling) -> Codes:
    """The leaf of each unit of the frame; the binnings of the study are even, and both bounds are leaves of their own."""
    assert query.column is not None
    assert isinstance(query.encoding, TreeCounts)
    edges = query.encoding.edges
    low, high, between = edges[0], edges[-1], len(edges) - 3
    value = np.clip(sampling.population.columns[query.column], low, high)
    leaf = np.minimum(np.floor((value - low) / ((high - low) / between)).astype(np.int64), between - 1)
    return leaf + (value > low) + (value >= high)


def groups_of(query: Query, sampling: Sampling) -> Codes:
    """The group of each unit of the frame, by categories that are numbered; -1 outside the conditions."""
    found = np.zeros(sampling.population.size, dtype=np.int64)
    for column, labels in zip(query.by, query.categories, strict=True):
        own = sampling.population.stratum if column == query.strata_column else sampling.population.columns[column]
        found = found * len(labels) + own.astype(np.int64)
    for condition in () if query.masks else query.where:
        inside = np.isin(sampling.population.columns[condition.column], [float(label) for label in condition.labels])
        found = np.where(inside, found, -1)
    return found


def in_cells(blocks: Array, query: Query) -> Array:
    """Sums of blocks (strata, or clusters in the order of the random groups) as sums of the cells of a query."""
    if query.by:
        return blocks
    if query.random_groups is None:
        return np.asarray(blocks.sum(axis=0, keepdims=True))
    count = query.random_groups.count
    if len(blocks) % count:
        blocks = np.concatenate([blocks, np.zeros((-len(blocks) % count, blocks.shape[1]))])
    return np.asarray(blocks.reshape(-1, count, blocks.shape[1]).sum(axis=0))


@dataclass
class Summation:
    """Sums of several queries over samples of one design. Trees are summed apart: they have many cells."""

    sampling: Sampling
    queries: list[Query]

    def __post_init__(self) -> None:
        flat = [query for query in self.queries if not isinstance(query.encoding, TreeCounts)]
        parts = [contributions(query, self.sampling) for query in flat]
        ends = np.cumsum([part.shape[1] for part in parts])
        self.places = {query: slice(end - part.shape[1], end) for query, part, end in zip(flat, parts, ends, strict=True)}
        size = self.sampling.population.size
        self.records = np.ascontiguousarray(np.concatenate(parts, axis=1)) if parts else np.empty((size, 0))
        trees = [query for query in self.queries if isinstance(query.encoding, TreeCounts)]
        self.leaves = {query: leaves_of(query, self.sampling) for query in trees}
        self.steps = {query: steps_of(query, self.sampling) for query in trees}
        self.cells: dict[Query, Codes] = {}

    def of(self, drawn: Drawn) -> dict[Query, Array]:
        """The sums of one sample, but those of trees."""
        blocks = np.add.reduceat(self.records[drawn.units], drawn.starts, axis=0)
        return {query: in_cells(blocks[:, place], query) for query, place in self.places.items()}

    def clusters(self, query: Query, drawn: Drawn) -> ClusterTotals:
        """The sums of every cluster of one sample, for queries that ask for them."""
        assert isinstance(query.clusters, ByCluster)
        if query not in self.cells:
            self.cells[query] = groups_of(query, self.sampling)
            self.steps.setdefault(query, steps_of(query, self.sampling))
        units, blocks, groups = drawn.units, len(drawn.starts), len(query.groups)
        sizes = np.diff(np.append(drawn.starts, len(units)))
        block, group = np.repeat(np.arange(blocks), sizes), self.cells[query][units]
        inside = group >= 0
        at, steps = (block * groups + group)[inside], self.steps[query][units]
        if isinstance(query.encoding, TreeCounts):
            leaves = query.encoding.leaves
            place = at * leaves + self.leaves[query][units][inside]
            found = np.bincount(place, weights=steps[inside], minlength=blocks * groups * leaves)
            sums = query.encoding.tree.add_up(found.reshape(blocks, groups, leaves))
        else:
            records = self.records[units, self.places[query]][inside]
            found = np.stack([np.bincount(at, weights=each, minlength=blocks * groups) for each in records.T], axis=-1)
            sums = found.reshape(blocks, groups, -1)
        kept = groups if query.stays else 1
        whole = np.bincount(at if query.stays else block, weights=steps, minlength=blocks * kept).reshape(blocks, kept)
        strata = len(query.clusters.strata)
        stratum = self.sampling.population.stratum[units[drawn.starts]] if strata else np.zeros(blocks, dtype=np.int64)
        fractions = np.array(query.clusters.fractions or (0.0,) * max(1, strata), dtype=np.float64)
        per_record = float((steps**2).sum() / steps.sum())
        return ClusterTotals(np.rint(sums).astype(np.int64), np.rint(whole).astype(np.int64), stratum, fractions, per_record)

    def tree(self, query: Query, drawn: Drawn) -> Array:
        """The nodes of a tree of one sample: (cells, nodes), coarsest level first."""
        assert isinstance(query.encoding, TreeCounts)
        count, leaves = (query.random_groups.count if query.random_groups else 1), query.encoding.leaves
        cell = np.zeros(len(drawn.units), dtype=np.int64)
        if query.random_groups:
            sizes = np.diff(np.append(drawn.starts, len(drawn.units)))
            cell = np.repeat(np.arange(len(sizes)) % count, sizes)
        at = cell * leaves + self.leaves[query][drawn.units]
        found = np.bincount(at, weights=self.steps[query][drawn.units], minlength=count * leaves).astype(np.float64)
        return query.encoding.tree.add_up(found.reshape(count, leaves))


def discrete_laplace(random: np.random.Generator, scale: float, shape: tuple[int, ...]) -> Array:
    """The law of the release's noise: the difference of two geometric numbers, each a rounded-down exponential one."""
    first, second = (np.floor(random.standard_exponential(shape) * scale) for _ in range(2))
    return np.asarray(first - second)


def answered(exact: Array, item: Item, random: np.random.Generator) -> Array:
    """What would be published instead of the exact sums (surveys, cells, components)."""
    mechanism = item.mechanism
    if isinstance(mechanism, MeanAndVariance):
        mean, within = bought_exact(exact, mechanism)
        return np.stack(
            [
                np.floor(mean) + discrete_laplace(random, mechanism.of_mean.scale, mean.shape),
                np.floor(within) + discrete_laplace(random, mechanism.of_variance.scale, within.shape),
            ],
            axis=-1,
        )[:, None, :]
    assert mechanism.kind == "laplace", mechanism.kind
    if isinstance(mechanism, WeightedStrata):
        weighted: Array = np.stack(mechanism.exact(np.moveaxis(exact, 0, -1)), axis=-1)  # type: ignore[arg-type]
        return np.asarray(weighted + discrete_laplace(random, mechanism.scale, weighted.shape))[:, None, :]
    if isinstance(mechanism, CentredRatio):
        return in_two_steps(exact, mechanism, random)
    return exact + discrete_laplace(random, mechanism.scale, exact.shape)


def in_two_steps(exact: Array, mechanism: CentredRatio, random: np.random.Generator) -> Array:
    """What `CentredRatio.answer` says of many samples at once."""
    both = exact[..., :2] + discrete_laplace(random, mechanism.scale, (*exact.shape[:-1], 2))
    parts = centres(both[..., 0], both[..., 1])
    found = np.empty((*exact.shape[:-1], mechanism.width))
    found[..., :2], found[..., 2] = both, parts
    for place in np.ndindex(*parts.shape):
        noise = discrete_laplace(random, mechanism.of_residuals(int(parts[place])).scale, (2,))
        found[place][3:] = mechanism.residuals(int(parts[place])).sums([int(each) for each in exact[place]]) + noise
    return found


def bought_exact(exact: Array, mechanism: MeanAndVariance) -> tuple[Array, Array]:
    """`MeanAndVariance.exact` for many samples at once."""
    takes, factors = np.array(mechanism.takes, dtype=np.float64), np.array(mechanism.factors)
    mean = (exact[..., 0] * np.array(mechanism.steps, dtype=np.float64)).sum(axis=-1)
    total = exact[..., 0] / mechanism.lattice
    squares = total - exact[..., 1] / (mechanism.lattice * mechanism.second_moment_scale)
    spread = np.maximum(0.0, (squares - total**2 / takes) / np.maximum(takes - 1.0, 1.0))
    within = (factors * np.where(takes > 1.0, spread, 0.25)).sum(axis=-1)
    return mean, within / mechanism.variance_unit * FINE
