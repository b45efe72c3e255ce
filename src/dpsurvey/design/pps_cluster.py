"""Clusters drawn in proportion to their own confidential sizes: sampling makes the loss larger."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..loss.bound import SAMPLE_ONLY, SECRET, Bound, Losses, Refused, sizes_unprotected
from ..loss.worst_case.contest import Contest
from ..loss.worst_case.programme import MOST_SPREAD, worst_loss
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import amplified, below, log_mixture, up
from .cluster_base import WrittenClusters
from .pps import ProportionalToSize, systematic_samples
from .pps_methods import inclusion_probabilities

BY_SIZE = "docs/designs/pps-cluster.md, Theorem (one drawn cluster)"
LINEAR = "the linear programme over all mechanisms, solved and certified for these sizes; docs/designs/pps-cluster.md"
# Clusters up to which the linear programme is solved, where several are drawn by size.
SMALL = 6


@dataclass(frozen=True)
class ClustersBySize(WrittenClusters):
    """One of the clusters, with probability size/N, all its units; `sizes` without the added unit, and confidential.

    A unit added to a cluster of n units, N in all, s = sum over the others of n_j e^-(n+n_j)e:
    epsilon' = log( (N/(N+1)) ((n+1)e^e + s)/(n + s) ), or its reverse if that is larger. It tends to
    e + log((1+1/n)/(1+1/N)), more than e: sampling makes it worse.

    >>> from dpsurvey.design import cluster, pps
    >>> design = cluster("school", pps("pupils", n=1), sizes=(1, 1), unit_in=1)
    >>> round(design.bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    1.1853427995
    """

    @property
    def take(self) -> int:
        """How many clusters are drawn."""
        return self._sized.n

    @property
    def _sized(self) -> ProportionalToSize:
        assert isinstance(self.how, ProportionalToSize)
        return self.how

    @property
    def largest_probability(self) -> float:
        if self.take == 1:
            return (max(self.sizes) + 1) / (sum(self.sizes) + 1)
        largest = int(np.argmax(self.sizes))
        grown = [size + (j == largest) for j, size in enumerate(self.sizes)]
        return float(inclusion_probabilities(grown, self.take)[largest])

    def least_probability(self, neighbours: Neighbours) -> float:
        return min(self.sizes) / (sum(self.sizes) + 1)

    @property
    def depends_on_data(self) -> float:
        total = sum(self.sizes)
        return max((size + 1) / (total + 1) * total / size for size in self.sizes)

    @property
    def detection_steps(self) -> float:
        return float(sum(sorted(self.sizes)[-2:]) + 1)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if not self._sized.fixed_size:
            return Refused(
                "clusters that are drawn one by one by size are none, one or several, and no bound is proved for that",
                "one cluster by size, or clusters by simple random sampling with a public cap on their sizes",
                "docs/designs/pps-cluster.md",
            )
        if self.take > 1:
            return self._several(losses, neighbours)
        if neighbours == Relation.REPLACE_ONE:
            return self._replaced(losses)
        if not losses.sizes_protected:
            return sizes_unprotected("a record more or less")
        targets = [self.unit_in - 1] if self.unit_in is not None else [self.sizes.index(size) for size in set(self.sizes)]
        if losses.base == Relation.BOTH or losses.replace_one < 2.0 * losses.add_remove:
            value, exact = max(self._loss(i, losses) for i in targets), False
            lower = max(self._count_lower(i, losses.add_remove) for i in targets)
        else:
            value, exact = max(self._loss(i, losses) for i in targets), True
            lower = below(value)
        holds = (SAMPLE_ONLY, "cluster labels are public; the sizes are confidential and decide the draw")
        return Bound(up(value), min(lower, value), exact, BY_SIZE, "this population", holds, common=(SECRET,))

    def _several(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        """Clusters taken systematically by size, in their order or in a random one: the linear programme, if small."""
        typed = losses.sizes_protected and losses.replace_one in (losses.add_remove, 2.0 * losses.add_remove)
        spread = losses.add_remove * (2 * sum(sorted(self.sizes)[-self.take :]) + 1)
        written = self._sized.drawn_by.one_start and self._sized.order in ("random", "as listed")
        small = len(self.sizes) <= SMALL and written and typed and spread <= MOST_SPREAD
        targets = self._targets() if small else []
        worst = [worst_loss(self._contest(i, neighbours), losses.add_remove, losses.base) for i in targets]
        if not all(math.isfinite(each.upper) for each in worst) or not small:
            return Refused(
                "no bound is proved for several clusters drawn with probability proportional to size",
                f"clusters by simple random sampling with a public cap on their sizes; up to {SMALL} of them, drawn "
                "systematically, are solved",
                "docs/designs/pps-cluster.md",
            )
        upper, lower = max(each.upper for each in worst), max(each.lower for each in worst)
        order = "in a secret random order" if self._sized.order == "random" else "in their public order"
        holds = (SAMPLE_ONLY, f"clusters are drawn systematically, by their sizes, {order}")
        scope: Any = "this population" if neighbours == Relation.ADD_REMOVE else "every population"
        return Bound(upper, lower, upper - lower <= 1e-6 * lower, LINEAR, scope, holds, "linear programme", common=(SECRET,))

    def _loss(self, i: int, losses: Losses) -> float:
        """The larger of the two orders; both ratios are Moebius in the weight of the other clusters."""
        e, n, total = losses.add_remove, self.sizes[i], sum(self.sizes)
        others = np.delete(np.asarray(self.sizes, dtype=float), i)
        if not len(others):
            return e
        costs = np.array([losses.swap(n, int(size)) for size in others])
        few = float(np.sum(others * np.exp(-np.minimum(costs, 700.0))))
        # log( (N/(N+1)) ((n+1)e^e + s)/(n + s) ) as log1p of the excess, in which the terms of order 1 cancel by hand:
        # N((n+1)e^e + s) - (N+1)(n + s) = N(n+1)(e^e - 1) + (N - n - s), and N - n - s = sum n_j (1 - e^-cost).
        apart = float(np.sum(others * -np.expm1(-np.minimum(costs, 700.0))))
        plus = self._excess(total * (n + 1), e, apart, (total + 1) * (n + few))
        # (N+1)(n + S) - N((n+1)e^-e + S) = N(n+1)(1 - e^-e) + n + S - N, with S = s or sum n_j e^cost.
        minus = math.log1p((total * (n + 1) * -math.expm1(-e) - apart) / (total * ((n + 1) * math.exp(-e) + few)))
        logs = np.log(others) + costs
        most = float(np.logaddexp.reduce(logs))
        if most > 600.0:
            return max(plus, minus, math.log1p(1.0 / total))
        grown = float(np.sum(others * np.expm1(costs)))
        high = math.exp(most)
        other = math.log1p((total * (n + 1) * -math.expm1(-e) + grown) / (total * ((n + 1) * math.exp(-e) + high)))
        return max(plus, minus, other)

    @staticmethod
    def _excess(times: int, e: float, apart: float, below_line: float) -> float:
        """log(1 + (times (e^e - 1) + apart)/below_line), without overflow."""
        if e > 300.0:
            return e + math.log(times / below_line)
        return math.log1p((times * math.expm1(e) + apart) / below_line)

    def _count_lower(self, i: int, e: float) -> float:
        """What a noisy question for the target's own record attains: 1 in the cluster, e^e with the record."""
        n, total = self.sizes[i], sum(self.sizes)
        share = (n + 1) / (total + 1)
        return below(log_mixture((share, e)))

    def _replaced(self, losses: Losses) -> Bound:
        """Sizes stay, so the clusters have public probabilities: as one drawn cluster, with weights."""
        best_upper, best_lower = 0.0, 0.0
        total, size_of = sum(self.sizes), self.sizes
        targets = [self.unit_in - 1] if self.unit_in is not None else [size_of.index(size) for size in set(size_of)]
        for i in targets:
            others = [(size, losses.swap(size_of[i], size)) for j, size in enumerate(size_of) if j != i]
            logs = [math.log(size / size_of[i]) - cost for size, cost in others] or [-math.inf]
            log_rho = float(np.logaddexp.reduce(logs))
            weight = 1.0 / (1.0 + math.exp(min(700.0, losses.replace_one + log_rho)))
            best_upper = max(best_upper, up(amplified(losses.replace_one, min(1.0, weight * (1.0 + 1e-14)))))
            best_lower = max(best_lower, below(log_mixture((size_of[i] / total, losses.replace_one))))
        exact = losses.base == Relation.ADD_REMOVE and losses.replace_one == 2.0 * losses.add_remove
        holds = (SAMPLE_ONLY, "the cluster sizes are public and the same for both neighbours")
        lower = below(best_upper) if exact else min(best_lower, best_upper)
        return Bound(best_upper, lower, exact, BY_SIZE, "every population", holds)

    def contest(self, neighbours: Neighbours) -> Contest | None:
        if len(self.sizes) > (60 if self.take == 1 else SMALL):
            return None
        return self._contest(self.unit_in - 1 if self.unit_in is not None else int(np.argmin(self.sizes)), neighbours)

    def contests(self, neighbours: Neighbours) -> list[Contest]:
        if len(self.sizes) > (60 if self.take == 1 else SMALL):
            return []
        return [self._contest(i, neighbours) for i in self._targets()[:SMALL]]

    def _targets(self) -> list[int]:
        """The clusters that may be the worst one: in a public order places differ, else sizes alone."""
        if self.unit_in is not None:
            return [self.unit_in - 1]
        if self.take > 1 and self._sized.order != "random":
            return list(range(len(self.sizes)))
        return [self.sizes.index(size) for size in sorted(set(self.sizes))]

    def _contest(self, i: int, neighbours: Neighbours) -> Contest:
        count, base = len(self.sizes), list(self.sizes)
        added = neighbours == Relation.ADD_REMOVE
        base[i] -= not added
        laws: list[dict[tuple[int, ...], float]] = [{}, {}]
        for law, extra, tail in zip(laws, (1, 0 if added else 1), ((1, 0), (0, 0 if added else 1)), strict=True):
            sizes = [size + extra * (j == i) for j, size in enumerate(base)]
            for drawn, chance in self._law(sizes).items():
                units = tuple(base[k] if k in drawn else 0 for k in range(count)) + (tail if i in drawn else (0, 0))
                law[units] = law.get(units, 0.0) + chance
        ends = ((1, 0), (0, 0)) if added else ((1, 0), (0, 1))
        return Contest((*base, *ends[0]), laws[0], (*base, *ends[1]), laws[1])

    def _law(self, sizes: list[int]) -> dict[frozenset[int], float]:
        """The law of the set of drawn clusters: one, or several by one random start, in their order or in a random one."""
        if self.take == 1:
            return {frozenset((j,)): size / sum(sizes) for j, size in enumerate(sizes)}
        chances, every = inclusion_probabilities(sizes, self.take).tolist(), range(len(sizes))
        orders = list(itertools.permutations(every)) if self._sized.order == "random" else [tuple(every)]
        law: dict[frozenset[int], float] = {}
        for order in orders:
            for places, chance in systematic_samples(tuple(chances[j] for j in order)).items():
                drawn = frozenset(order[place] for place in places)
                law[drawn] = law.get(drawn, 0.0) + chance / len(orders)
        return law
