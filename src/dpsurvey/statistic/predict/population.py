"""The population that declared figures describe: how many units of each stratum and group, how likely to be seen, with what mean.

Errors are predicted from it, and from nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...design.frame import Frame
from ...design.pps import ProportionalToSize
from ...design.recipe import Every, Share, Simple, Step, Strata
from ..condition import Condition
from ..estimators.interval import Array
from ..facts import Facts
from ..noisy_sums import Asked
from ..query import Query
from ..random_group_layout import cells_in_use, unlike_random_groups

# The share of units that a condition is supposed to leave, where nobody says how many it does.
SUPPOSED_SHARE = 0.5
Typical = Callable[[Mapping[str, str]], tuple[float, float]]


@dataclass(frozen=True)
class ExpectedPopulation:
    """Units by (stratum, group), the chance of each stratum's units to be in the sample and to answer, and their moments.

    Where every group lies in one stratum, `own` says in which, and the figures by (stratum, group) have one row: of each
    group in its own stratum. So they grow with the number of groups, and not with its square. `share` is what one sampled
    unit adds to its sums, over the most that any unit does. `take` is the fixed number drawn of a stratum, else not a
    number. `whole` is the number of units of a stratum, those outside all groups too. `settled` says that the number drawn
    of a stratum varies by no more than rounding.
    """

    units: Array
    whole: Array
    chance: Array
    response: Array
    share: Array
    take: Array
    replaced: bool
    settled: bool
    mean: Array
    square: Array
    declared: bool
    own: npt.NDArray[np.int64] | None = None

    def rows(self, figure: Array) -> Array:
        """A figure of each stratum, as it goes with figures by (stratum, group)."""
        return figure[:, None] if self.own is None else figure[self.own][None, :]

    @property
    def inside(self) -> Array:
        """The share of a stratum's units that are in a group."""
        whole = self.rows(self.whole)
        return np.divide(self.units, whole, out=np.zeros_like(self.units), where=np.broadcast_to(whole > 0.0, self.units.shape))

    def spread_out(self) -> ExpectedPopulation:
        """The same with a row for each stratum."""
        if self.own is None:
            return self
        places = self.own, np.arange(len(self.own))
        units, mean, square = (np.zeros((len(self.whole), len(self.own))) for _ in range(3))
        units[places], mean[places], square[places] = self.units[0], self.mean[0], self.square[0]
        return replace(self, units=units, mean=mean, square=square, own=None)

    @property
    def drawn(self) -> Array:
        """Units drawn of each stratum."""
        return np.where(np.isnan(self.take), self.whole * self.chance, self.take)

    @property
    def counts(self) -> Array:
        """Sampled units that answer, by group, each counted by its share."""
        return np.asarray((self.rows(self.chance * self.response * self.share) * self.units).sum(axis=0))

    def mixed(self, of: Array) -> Array:
        """A figure of strata and groups by group alone, as the sample mixes it."""
        weight = self.rows(self.chance * self.response * self.share) * self.units
        total = weight.sum(axis=0)
        even = np.where(total > 0.0, weight / np.where(total > 0.0, total, 1.0), 1.0 / len(weight))
        return np.asarray((even * of).sum(axis=0))


def expected_population(typical: Typical, query: Query, facts: Facts) -> ExpectedPopulation:
    """What is declared about the frame and the design, for one query."""
    labels, whole, chance, share, take, replaced = _strata(query, facts)
    filtered = bool(query.where) and not query.masks
    left = kept_share(query.where, facts.frame)
    response = np.array([facts.response_of(label) for label in labels])
    own = _own_strata(query, labels)
    shape = (len(labels) if own is None else 1, len(query.groups))
    units, mean, square = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    declared, size = True, float(whole.sum())
    listed = float(facts.frame.size or size)
    for g, group in enumerate(query.groups):
        known = None if filtered else facts.frame.known_size(query.by, group)
        declared = declared and (known is not None or not (query.by or filtered))
        part = known / listed if known is not None else _share(facts.frame, query.by, group) * (left if filtered else 1.0)
        place = dict(zip(query.by, group, strict=True))
        if own is not None:
            units[0, g] = min(whole[own[g]], size * part)
            mean[0, g], square[0, g] = typical(place)
            continue
        for h, label in enumerate(labels):
            units[h, g] = whole[h] * part
            mean[h, g], square[h, g] = typical(place if label is None else place | {str(query.strata_column): label})
    settled = facts.design.fixed_size or _rounded(facts.design.recipe())
    return ExpectedPopulation(units, whole, chance, response, share, take, replaced, settled, mean, square, declared, own)


def _own_strata(query: Query, labels: list[str | None]) -> npt.NDArray[np.int64] | None:
    """The place of the one stratum that each group lies in, where strata are among what groups are made of."""
    if query.strata_column not in query.by or None in labels:
        return None
    column, place = query.by.index(str(query.strata_column)), {label: h for h, label in enumerate(labels)}
    return np.array([place[group[column]] for group in query.groups])


def kept_share(where: tuple[Condition, ...], frame: Frame) -> float:
    """The share of units that conditions leave: by declared sizes where there are any, else one half for each.

    >>> from dpsurvey.statistic.condition import read_where
    >>> frame = Frame("f.parquet", unit="id", size=100, categories={"sex": {"f": 40, "m": 60}})
    >>> kept_share(read_where({"sex": "f", "age": (15, 74)}), frame)
    0.2
    """
    share = 1.0
    for condition in where:
        sizes = frame.category_sizes.get(condition.column)
        known = sizes is not None and bool(condition.labels)
        share *= (
            sum((sizes or {}).get(label, 0) for label in condition.labels) / sum((sizes or {}).values())
            if known
            else SUPPOSED_SHARE
        )
    return share


def units_drawn(facts: Facts) -> float:
    """How many units are expected to be drawn.

    >>> from dpsurvey.design import cluster, srs, stages
    >>> frame = Frame("f.parquet", unit="id", size=9000, public=["block"])
    >>> design = stages(cluster("block", srs(20)), srs(5)).resolve(frame)
    >>> units_drawn(Facts(frame, design, "replace-one", "L1", weight_range=(10.0, 1000.0)))
    100.0
    """
    return math.fsum(units for _, units in drawn_by_stratum(facts))


def drawn_by_stratum(facts: Facts) -> list[tuple[str | None, float]]:
    """How many units are expected to be drawn from each stratum; from all together where sizes are not declared."""
    if facts.parts and all(part.take is not None or part.size is not None for part in facts.parts):
        return [
            (part.label, float(part.take) if part.take is not None else (part.size or 0) * part.probability)
            for part in facts.parts
        ]
    found = facts.design.n if isinstance(facts.design, ProportionalToSize) else None
    if found is None and (facts.clustering is None or not facts.clustering.whole):
        found = _taken(facts.design.recipe().fixed_counts)
    # Else by the range of the weights, which is all that is known.
    return [(None, facts.expected_units if found is None else float(min(found, facts.frame.size or found)))]


def _taken(counts: Mapping[str, Any]) -> int | None:
    """The fixed number of units in the counts of a design: of all strata, of all clusters and what is drawn in each."""
    if "by stratum" in counts:
        found = [_taken(each) for each in counts["by stratum"].values()]
        return None if None in found else sum(each or 0 for each in found)
    own = counts.get("units", counts.get("clusters", counts.get("draws")))
    if own is None or ("clusters" in counts and "in each cluster" not in counts):
        return None
    inside = _taken(counts["in each cluster"]) if "in each cluster" in counts else 1
    return None if inside is None else int(own) * inside


def _rounded(recipe: Step) -> bool:
    """Whether as many units are drawn as a rate says, up to rounding by chance: a share of a list, or every k-th unit of it."""
    if isinstance(recipe, Strata):
        steps = recipe.inside.values() if isinstance(recipe.inside, Mapping) else (recipe.inside,)
        return all(_rounded(step) for step in steps)
    return isinstance(recipe, Simple | Share | Every)


def _strata(query: Query, facts: Facts) -> tuple[list[str | None], Array, Array, Array, Array, bool]:
    """Labels, sizes, chances, shares of a step and takes of the strata; one without a label where there are none."""
    frame, parts = facts.frame, facts.parts
    if not parts:
        # Weights are each unit's own; u pi is the same for all of them, and so is what a unit adds on average.
        largest = query.weights.largest if query.weights is not None else facts.largest_weight
        return [None], np.array([facts.expected_size]), np.array([1.0 / largest]), np.ones(1), np.full(1, math.nan), False
    thinned = facts.expected_units / frame.size if facts.records_unknown and frame.size else 1.0
    steps = dict(query.lattice)
    flat = len(query.lattice) == 1
    chance = np.array([part.probability for part in parts]) * thinned
    share = np.array([1.0 if flat else steps[part.label] / query.steps for part in parts])
    sizes = np.array([_size(part.size, frame, part.label, query, len(parts), facts) for part in parts])
    take = np.array([math.nan if part.take is None else float(part.take) for part in parts])
    return [part.label for part in parts], sizes, chance, share, take, any(part.replaced for part in parts)


def _size(known: int | None, frame: Frame, label: str | None, query: Query, parts: int, facts: Facts) -> float:
    if known is not None:
        return float(known)
    by_label = frame.category_sizes.get(query.strata_column or "", {})
    if label is not None and label in by_label:
        return float(by_label[label])
    return (frame.size or facts.expected_size) / parts


def _share(frame: Frame, by: tuple[str, ...], group: tuple[str, ...]) -> float:
    """The share of a group if its columns were unrelated: declared shares where there are any, equal parts elsewhere."""
    share = 1.0
    for column, label in zip(by, group, strict=True):
        sizes = frame.category_sizes.get(column)
        share *= sizes[label] / sum(sizes.values()) if sizes else 1.0 / len(frame.labels(column))
    return share


def expected_sums(population: ExpectedPopulation, asked: Asked, profile_at: Callable[[float, float], Array]) -> Array:
    """The sums of records with these means and mean squares on [0, 1]; `profile_at` says what a record with them adds.

    Groups of undeclared size count as equal parts of the frame, and so does what a condition leaves. Random groups share the
    units of their group equally, spread around their mean as independent units and the noise would spread them.
    """
    query, encoding, counts = asked.query, asked.query.encoding, population.counts
    means, squares = population.mixed(population.mean), population.mixed(population.square)
    profiles = {pair: profile_at(*pair) for pair in set(zip(means.tolist(), squares.tolist(), strict=True))}
    profile = np.stack([profiles[pair] for pair in zip(means.tolist(), squares.tolist(), strict=True)])
    mean, square = float(means.mean()), float(squares.mean())
    sums = counts[:, None] * np.asarray(query.finer)[:, None] * profile * query.steps
    if query.random_groups is None:
        return np.asarray(sums)
    cells = query.random_groups.cells
    used = cells_in_use(query)
    part = (used / used.sum(axis=1, keepdims=True)).ravel()
    each = np.repeat(sums, cells, axis=0) * part[:, None]
    # Up and down by one standard deviation of a random group's residual: what the variance between random groups is made of.
    sign = (unlike_random_groups(query) * used).ravel()
    share = np.repeat(counts / max(float(np.sum(counts)), 1e-300), cells)
    added = asked.mechanism.variance * np.asarray(encoding.noise_between(mean, share, len(query.groups)))
    between = encoding.spread_between(mean, square, share) * np.repeat(counts, cells) * part
    deviation = np.sqrt(between * query.steps**2 + added)
    return np.asarray(encoding.apart(each, sign * deviation))
