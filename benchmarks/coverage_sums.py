"""What the engine would sum, by numpy for many samples at once; tests/coverage/test_reduced_study.py holds it to the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverage_designs import Drawn, Sampling
from coverage_frame import STRATA, Array, Codes
from dpsurvey.mechanism.bought_variance import FINE, MeanAndVariance
from dpsurvey.statistic import Query
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


def _triple(y: Array, steps: Array) -> list[Array]:
    top = np.minimum(to_steps(steps * (y * y)), steps)
    bottom = np.minimum(to_steps(steps * ((1.0 - y) * (1.0 - y))), steps - top)
    return [top, steps - top - bottom, bottom]


def contributions(query: Query, sampling: Sampling) -> Array:
    """What each unit of the frame would add to the sums of a query: (units, components)."""
    columns, steps, scale = sampling.population.columns, steps_of(query, sampling), query.second_moment_scale
    assert query.column is not None
    if query.value is not None:
        yes = columns[query.column] * steps
        found = {"yes": [yes], "pair": [yes, steps - yes], "counted": [yes, steps]}[query.encoding]
        return np.stack(found, axis=1)
    assert query.bounds is not None
    y = _scaled(columns[query.column], query.bounds)
    if query.encoding == "moments":
        parts = [to_steps(steps * y), to_steps(steps * (scale * (y * (1.0 - y))))]
    elif query.encoding in ("pair", "counted"):
        own = np.minimum(to_steps(steps * y), steps)
        parts = [own, steps - own if query.encoding == "pair" else steps]
    elif query.encoding in ("both", "ratio"):
        assert query.second is not None
        assert query.second_bounds is not None
        x = _scaled(columns[query.second], query.second_bounds)
        parts = [to_steps(steps * y), to_steps(steps * x)]
        if query.encoding == "ratio":
            squares = (y * (1.0 - y), x * (1.0 - x), (y - x) * (y - x))
            parts += [to_steps(steps * (scale * square)) for square in squares]
    elif query.encoding == "triple":
        parts = _triple(y, steps)
    else:
        assert query.encoding == "spread", query.encoding
        share = steps / float(query.steps)
        thinned = to_steps(np.maximum(share * share * (1.0 - sampling.chance) * (scale * query.steps), 0.0))
        parts = [*_triple(y, steps), *_triple(y, thinned)]
    return np.stack(parts, axis=1)


def leaves_of(query: Query, sampling: Sampling) -> Codes:
    """The leaf of each unit of the frame; the binnings of the study are even, and both bounds are leaves of their own."""
    assert query.column is not None
    low, high, between = query.edges[0], query.edges[-1], len(query.edges) - 3
    value = np.clip(sampling.population.columns[query.column], low, high)
    leaf = np.minimum(np.floor((value - low) / ((high - low) / between)).astype(np.int64), between - 1)
    return leaf + (value > low) + (value >= high)


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
        flat = [query for query in self.queries if query.encoding != "tree"]
        parts = [contributions(query, self.sampling) for query in flat]
        ends = np.cumsum([part.shape[1] for part in parts])
        self.places = {query: slice(end - part.shape[1], end) for query, part, end in zip(flat, parts, ends, strict=True)}
        self.records = np.ascontiguousarray(np.concatenate(parts, axis=1))
        trees = [query for query in self.queries if query.encoding == "tree"]
        self.leaves = {query: leaves_of(query, self.sampling) for query in trees}
        self.steps = {query: steps_of(query, self.sampling) for query in trees}

    def of(self, drawn: Drawn) -> dict[Query, Array]:
        """The sums of one sample, but those of trees."""
        blocks = np.add.reduceat(self.records[drawn.units], drawn.starts, axis=0)
        return {query: in_cells(blocks[:, place], query) for query, place in self.places.items()}

    def tree(self, query: Query, drawn: Drawn) -> Array:
        """The nodes of a tree of one sample: (cells, nodes), coarsest level first."""
        count, leaves = (query.random_groups.count if query.random_groups else 1), len(query.edges) - 1
        cell = np.zeros(len(drawn.units), dtype=np.int64)
        if query.random_groups:
            sizes = np.diff(np.append(drawn.starts, len(drawn.units)))
            cell = np.repeat(np.arange(len(sizes)) % count, sizes)
        at = cell * leaves + self.leaves[query][drawn.units]
        found = np.bincount(at, weights=self.steps[query][drawn.units], minlength=count * leaves).reshape(count, leaves)
        return np.concatenate([found.reshape(count, -1, query.branching).sum(axis=2), found], axis=1)


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
    return exact + discrete_laplace(random, mechanism.scale, exact.shape)


def bought_exact(exact: Array, mechanism: MeanAndVariance) -> tuple[Array, Array]:
    """`MeanAndVariance.exact` for many samples at once."""
    takes, factors = np.array(mechanism.takes, dtype=np.float64), np.array(mechanism.factors)
    mean = (exact[..., 0] * np.array(mechanism.steps, dtype=np.float64)).sum(axis=-1)
    total = exact[..., 0] / mechanism.lattice
    squares = total - exact[..., 1] / (mechanism.lattice * mechanism.second_moment_scale)
    spread = np.maximum(0.0, (squares - total**2 / takes) / np.maximum(takes - 1.0, 1.0))
    within = (factors * np.where(takes > 1.0, spread, 0.25)).sum(axis=-1)
    return mean, within / mechanism.variance_unit * FINE
