"""Cluster sampling: clusters of a public column are drawn by any design, and all their units are taken."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from ..errors import BadValue
from ..loss.bound import PUBLIC, SAMPLE_ONLY, SECRET, Bound, Losses, Refused, sizes_unprotected
from ..loss.exchanged_clusters import Array, cluster_contest, cluster_curve, effective_rate, swap_costs
from ..loss.symmetric_polynomials import Interval, log_rho
from ..loss.worst_case.contest import Contest
from ..loss.worst_case.programme import MOST_SPREAD, worst_loss
from ..privacy.curve import Curve
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import amplified, below, log_mixture, up
from ..privacy.setting import Setting
from .base import ANY_RELATION, Design
from .checks import check_clusters, check_count, check_name
from .compared import CLUSTER, MOST, AtRate, Candidate, Compared, SameSize
from .parts import Clustering, DeclaredClusters, Part
from .pps import ProportionalToSize, pps, systematic_samples
from .pps_methods import inclusion_probabilities
from .recipe import Clusters, Step, Strata, Taken, fixed_counts
from .registry import register
from .srs import SimpleRandom

EXACT = "docs/designs/cluster.md, Theorem (exact loss); Bun et al. 2022, Theorems 5.1 and 5.2, enclose it"
LABELS = "cluster labels are public, and a record stays in its cluster"
LISTED_ALIKE = "the list of clusters is the same for both neighbours: one that is left empty keeps its place in the draw"
BY_SIZE = "docs/designs/pps-cluster.md, Theorem (one drawn cluster)"
LINEAR = "the linear programme over all mechanisms, solved and certified for these sizes; docs/designs/pps-cluster.md"
LISTED = Refused(
    "the sizes of clusters are written down and not compared with the frame",
    "clusters= and cap=, the public number of clusters and the most units one can have",
    "docs/designs/cluster.md",
)
# Clusters up to which the linear programme is solved, where several are drawn by size.
SMALL = 6


@dataclass(frozen=True)
class ClusterSample(Design):
    """All units of the drawn clusters. Which clusters were drawn shows in the sample unless they are small, so without a
    public cap on their sizes sampling earns nothing.

    >>> cluster("household", SimpleRandom(n=10), clusters=100).largest_probability
    1.0
    """

    kind: ClassVar[str] = "cluster"
    # Clusters differ in size, so the size of the sample is random.
    fixed_size = False
    sample_relation = Relation.ADD_REMOVE
    cluster: str
    how: Design
    clusters: int | None = None
    cap: int | None = None
    at_least: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.how, Design) or any(
            isinstance(step, Clusters | Strata | Taken) for step in self.how.recipe().below()
        ):
            raise BadValue(
                "clusters are drawn by srs, poisson, systematic, pps or with_replacement",
                hint='strata go around it: stratified("region", within=cluster(...)); further stages: stages(cluster(...), ...)',
            )
        check_name("by", self.cluster)
        for name in ("clusters", "cap", "at_least"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

    @property
    def copies(self) -> int:  # type: ignore[override]
        return self.how.copies

    def in_words(self, unit: str = "unit") -> str:
        return f"clusters of {self.cluster}, drawn by {self.how.in_words('cluster')}"

    def recipe(self) -> Step:
        # One rule of rounding for what is guaranteed and what is drawn.
        how = self.how.sized(self.clusters) if isinstance(self.how, SimpleRandom) and self.clusters is not None else self.how
        return Clusters(self.cluster, how.recipe())

    @property
    def _drawn(self) -> Design:
        """The design of the clusters, on their declared number."""
        sized = getattr(self.how, "sized", None)
        return sized(self.clusters) if sized is not None and self.clusters is not None else self.how

    def parts(self) -> tuple[Part, ...]:
        if isinstance(self.how, SimpleRandom) and self.clusters is None:
            return ()
        # A unit has the chance of its cluster; how many units that makes is not known.
        return tuple(Part(each.label, each.probability, None, None, each.replaced) for each in self._drawn.parts())

    def clustering(self) -> Clustering:
        taken = fixed_counts(self.recipe())
        return Clustering(taken.get("clusters", taken.get("draws")), self.clusters)

    @property
    def declared_clusters(self) -> tuple[DeclaredClusters, ...]:
        declared = DeclaredClusters(None, (self.cluster,), self.clusters, self.cap, self.at_least)
        return (declared,) if any(each is not None for each in declared[2:]) else ()

    @property
    def largest_probability(self) -> float:
        return 1.0

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        return Refused(
            "which clusters were drawn shows in the sample unless they are small, and no public cap on their size is declared",
            "clusters= and cap=, the public number of clusters and the most units one can have, with srs of clusters",
            "docs/designs/cluster.md",
        )

    def base_relation(self, setting: Setting) -> Relation:
        # Where sampling earns nothing, the clusters that were drawn are given, and answers are replaced in place.
        amplified = not isinstance(self.bound(ANY_RELATION, Relation.REPLACE_ONE), Refused)
        return super().base_relation(setting) if amplified or setting.neighbours == Relation.ADD_REMOVE else Relation.REPLACE_ONE

    def resized(self, factor: float) -> ClusterSample:
        how = self.how.sized(self.clusters) if isinstance(self.how, SimpleRandom) and self.clusters is not None else self.how
        return replace(self, how=how.resized(factor))

    @property
    def most(self) -> float:
        if isinstance(self.how, SimpleRandom) and self.how.n is not None:
            return self.clusters / self.how.n if self.clusters is not None else 1.0
        return self.how.most


@dataclass(frozen=True)
class ListedClusters(ClusterSample):
    """Clusters whose sizes are public, drawn by simple random sampling, all their units.

    With A = e^loss of one step inside the target's cluster of n_i units (n_i + 1 with the added unit), and
    y_j = e^-(cost of exchanging that cluster for cluster j): epsilon' = log(1 + (A-1)/(1 + A rho)), rho the ratio
    of elementary symmetric polynomials e_l(y)/e_(l-1)(y). Exact for mechanisms of type add-remove and both.
    Sizes are those without the added unit. `unit_in` is the target's cluster, counted from 1; else the worst one.

    >>> design = cluster("school", SimpleRandom(n=1), sizes=(2, 1, 3), unit_in=1)
    >>> round(design.bound(Losses.of(0.5, "add-remove"), "add-remove").upper, 10)
    0.4034781197
    """

    for_any_frame = True
    sizes: tuple[int, ...] = ()
    unit_in: int | None = None

    def inside(self, setting: Setting) -> Design | Refused:
        found = super().inside(setting)
        return found if isinstance(found, Refused) else LISTED

    def __post_init__(self) -> None:
        super().__post_init__()
        check_clusters("sizes", self.sizes, self.take, self.unit_in)

    @property
    def take(self) -> int:
        """How many clusters are drawn."""
        assert isinstance(self.how, SimpleRandom)
        return self.how.take_of(len(self.sizes))

    @property
    def fraction(self) -> float:
        """The share of clusters that are drawn."""
        return self.take / len(self.sizes)

    @property
    def largest_probability(self) -> float:
        return self.fraction

    @property
    def detection_steps(self) -> float:
        return float(max(self.sizes) + sorted(self.sizes)[-2]) if len(self.sizes) > 1 else float(self.sizes[0])

    @property
    def target(self) -> int:
        """The index of the target's cluster: the given one, or the largest, where the loss is largest."""
        return self.unit_in - 1 if self.unit_in is not None else int(np.argmax(self.sizes))

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if neighbours == Relation.ADD_REMOVE and not losses.sizes_protected:
            return sizes_unprotected("a record more or less")
        if losses.base == Relation.ADD_REMOVE and losses.sizes_protected:
            # After nonresponse a replacement may cost less than two steps; which cluster is then the worst is not proved.
            losses = Losses(losses.add_remove, 2.0 * losses.add_remove, losses.base)
        if not losses.sizes_protected and self.unit_in is None and len(set(self.sizes)) > 1:
            # A cluster without another of its size can be told by the size of the sample, so the largest need not be the worst.
            answers = [replace(self, unit_in=self.sizes.index(size) + 1).bound(losses, neighbours) for size in set(self.sizes)]
            return max((each for each in answers if isinstance(each, Bound)), key=lambda each: each.upper)
        own, others = self._around()
        loss = losses.add_remove if neighbours == Relation.ADD_REMOVE else losses.replace_one
        costs = swap_costs(losses, own + (neighbours == Relation.ADD_REMOVE), others)
        rho = log_rho(-costs, self.take) if len(others) else Interval(-math.inf, -math.inf)
        high, low = effective_rate(loss, 1.0, rho)
        # Only where the others' sizes are equal can a replace-only mechanism not use the size of the sample.
        same = bool(np.all(others == own))
        typed = (
            losses.base == Relation.BOTH
            or losses.replace_one == 2.0 * losses.add_remove
            or (same and neighbours == Relation.REPLACE_ONE)
        )
        upper, lower = up(amplified(loss, high)), below(amplified(loss, low))
        exact = typed and upper - lower <= 1e-7 * upper
        if not typed:
            lower = below(log_mixture((self.fraction, min(loss, losses.replace_one))))
        scope: Any = "every population" if neighbours == Relation.REPLACE_ONE else "this population"
        public = ("the sizes of all clusters are public and the same for both neighbours",) if scope != "this population" else ()
        more = (
            ("a guarantee for every population needs a public cap on the cluster sizes",)
            if neighbours == Relation.ADD_REMOVE
            else ()
        )
        details = self._printed(losses) if losses.base == Relation.ADD_REMOVE and neighbours == Relation.ADD_REMOVE else {}
        return Bound(
            upper,
            lower,
            exact,
            EXACT,
            scope,
            (SECRET, PUBLIC, LABELS, *listed_alike(neighbours), SAMPLE_ONLY, *public, *more),
            details=details,
        )

    def _around(self) -> tuple[int, Array]:
        others = np.delete(np.asarray(self.sizes, dtype=float), self.target)
        return self.sizes[self.target], others

    def _printed(self, losses: Losses) -> dict[str, float]:
        """Theorems 5.1 (below) and 5.2 (above): the smallest and the largest other cluster in place of all."""
        own, others = self._around()
        f, e = self.fraction, losses.add_remove
        if not len(others) or f == 1.0:
            return {"theorem_5_1_lower": e, "theorem_5_2_upper": e}
        bounds = [
            amplified(e, f / (f + (1.0 - f) * math.exp(-min(700.0, e * (own + float(size))))))
            for size in (others.min(), others.max())
        ]
        return {"theorem_5_1_lower": below(bounds[0]), "theorem_5_2_upper": bounds[1]}

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        own, others = self._around()
        if not len(others) or self.take == len(self.sizes):
            return 1.0
        return cluster_curve(base, losses, neighbours, alpha, self.fraction, own, others)

    def contest(self, neighbours: Neighbours) -> Contest | None:
        return cluster_contest(self.sizes, self.take, self.target, neighbours)


@dataclass(frozen=True)
class CappedClusters(ClusterSample):
    """Clusters drawn by simple random sampling; their sizes are not public but never exceed a public `cap`.

    The loss rises with every size, so the cap in place of all of them holds for every population; exact, since
    full clusters are possible.

    >>> design = cluster("household", SimpleRandom(n=10), clusters=100, cap=5)
    >>> round(design.bound(Losses.of(0.1, "add-remove"), "add-remove").upper, 10)
    0.0223220936
    """

    for_any_frame = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("take", self.take, at_most=self._many)

    @property
    def take(self) -> int:
        """How many clusters are drawn."""
        assert isinstance(self.how, SimpleRandom)
        return self.how.take_of(self._many)

    @property
    def _many(self) -> int:
        assert self.clusters is not None
        return self.clusters

    @property
    def _most(self) -> int:
        assert self.cap is not None
        return self.cap

    @property
    def largest_probability(self) -> float:
        return self.take / self._many

    @property
    def detection_steps(self) -> float:
        return 2.0 * self._most

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if not losses.sizes_protected:
            if neighbours == Relation.ADD_REMOVE:
                return sizes_unprotected("a record more or less")
            # The mechanism may show the sample's size, and with it the clusters: its own loss is left.
            lower = below(log_mixture((self.largest_probability, losses.replace_one)))
            return Bound(losses.replace_one, lower, False, EXACT, holds_when=(SECRET, PUBLIC, LABELS, SAMPLE_ONLY))
        loss = losses.add_remove if neighbours == Relation.ADD_REMOVE else losses.replace_one
        rest = math.log((self._many - self.take) / self.take) if self.take < self._many else -math.inf
        log = rest - losses.swap(self._most, self._most)
        high, low = effective_rate(loss, 1.0, Interval(log - 1e-14 * abs(log) if rest > -math.inf else log, log))
        most = f"no cluster has more than {self._most} units in any possible population"
        holds = (SECRET, PUBLIC, LABELS, *listed_alike(neighbours), SAMPLE_ONLY, most)
        typed = losses.base == Relation.BOTH or losses.replace_one == 2.0 * losses.add_remove
        upper = up(amplified(loss, high))
        lower = below(amplified(loss, low)) if typed else below(log_mixture((self.largest_probability, losses.add_remove)))
        return Bound(upper, lower, typed, EXACT, holds_when=holds)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        own = self._most - (neighbours == Relation.ADD_REMOVE)
        others = np.full(1, float(self._most))
        return (
            1.0
            if self.take == self._many
            else cluster_curve(base, losses, neighbours, alpha, self.largest_probability, own, others)
        )

    def contest(self, neighbours: Neighbours) -> Contest | None:
        full = [self._most] * self._many
        full[0] -= neighbours == Relation.ADD_REMOVE
        return cluster_contest(tuple(full), self.take, 0, neighbours) if self._many <= 8 else None


@dataclass(frozen=True)
class ClustersBySize(ClusterSample):
    """One of the clusters, with probability size/N, all its units; `sizes` without the added unit, and confidential.

    A unit added to a cluster of n units, N in all, s = sum over the others of n_j e^-(n+n_j)e:
    epsilon' = log( (N/(N+1)) ((n+1)e^e + s)/(n + s) ), or its reverse if that is larger. It tends to
    e + log((1+1/n)/(1+1/N)), more than e: sampling makes it worse.

    >>> from dpsurvey.design import pps
    >>> design = cluster("school", pps("pupils", n=1), sizes=(1, 1), unit_in=1)
    >>> round(design.bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    1.1853427995
    """

    sizes: tuple[int, ...] = ()
    unit_in: int | None = None

    def inside(self, setting: Setting) -> Design | Refused:
        found = super().inside(setting)
        return found if isinstance(found, Refused) else LISTED

    def __post_init__(self) -> None:
        super().__post_init__()
        check_clusters("sizes", self.sizes, self.take, self.unit_in)

    @property
    def take(self) -> int:
        """How many clusters are drawn."""
        assert isinstance(self.how, ProportionalToSize)
        return self.how.n

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
        assert isinstance(self.how, ProportionalToSize)
        if self.how.method == "poisson":
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
        holds = (SECRET, SAMPLE_ONLY, "cluster labels are public; the sizes are confidential and decide the draw")
        return Bound(up(value), min(lower, value), exact, BY_SIZE, "this population", holds)

    def _several(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        """Clusters taken systematically by size, in their order or in a random one: the linear programme, if small."""
        assert isinstance(self.how, ProportionalToSize)
        typed = losses.sizes_protected and losses.replace_one in (losses.add_remove, 2.0 * losses.add_remove)
        spread = losses.add_remove * (2 * sum(sorted(self.sizes)[-self.take :]) + 1)
        written = self.how.method == "systematic" and self.how.order in ("random", "as listed")
        small = len(self.sizes) <= SMALL and written and typed and spread <= MOST_SPREAD
        targets = self._targets()
        worst = [worst_loss(self._contest(i, neighbours), losses.add_remove, losses.base) for i in targets] if small else []
        if not all(math.isfinite(each.upper) for each in worst) or not small:
            return Refused(
                "no bound is proved for several clusters drawn with probability proportional to size",
                f"clusters by simple random sampling with a public cap on their sizes; up to {SMALL} of them, drawn "
                "systematically, are solved",
                "docs/designs/pps-cluster.md",
            )
        upper, lower = max(each.upper for each in worst), max(each.lower for each in worst)
        order = "in a secret random order" if self.how.order == "random" else "in their public order"
        holds = (SECRET, SAMPLE_ONLY, f"clusters are drawn systematically, by their sizes, {order}")
        scope: Any = "this population" if neighbours == Relation.ADD_REMOVE else "every population"
        return Bound(upper, lower, upper - lower <= 1e-6 * lower, LINEAR, scope, holds, "linear programme")

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
        holds = (SECRET, PUBLIC, SAMPLE_ONLY, "the cluster sizes are public and the same for both neighbours")
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
        assert isinstance(self.how, ProportionalToSize)
        if self.unit_in is not None:
            return [self.unit_in - 1]
        if self.take > 1 and self.how.order != "random":
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
        assert isinstance(self.how, ProportionalToSize)
        if self.take == 1:
            return {frozenset((j,)): size / sum(sizes) for j, size in enumerate(sizes)}
        chances, every = inclusion_probabilities(sizes, self.take).tolist(), range(len(sizes))
        orders = list(itertools.permutations(every)) if self.how.order == "random" else [tuple(every)]
        law: dict[frozenset[int], float] = {}
        for order in orders:
            for places, chance in systematic_samples(tuple(chances[j] for j in order)).items():
                drawn = frozenset(order[place] for place in places)
                law[drawn] = law.get(drawn, 0.0) + chance / len(orders)
        return law


def listed_alike(neighbours: Neighbours) -> tuple[str, ...]:
    """The condition on the list of clusters where a record more or less might change it."""
    return (LISTED_ALIKE,) if neighbours == Relation.ADD_REMOVE else ()


def _compared(share: AtRate) -> Iterator[Compared]:
    taken, of = share.fraction
    name, note = f"clusters of up to {CLUSTER}", "all units of a cluster"
    own = cluster("cluster", SimpleRandom(taken), clusters=of, cap=CLUSTER)
    drawn = cluster("cluster", SimpleRandom(max(2, share.n // CLUSTER)), clusters=share.clusters, cap=CLUSTER)
    yield Compared(name, own, Relation.ADD_REMOVE, Relation.ADD_REMOVE, note, drawn, 1.0)
    if of <= MOST:
        known = cluster("cluster", SimpleRandom(taken), sizes=(CLUSTER,) * of)
        yield Compared("clusters, known sizes", known, Relation.ADD_REMOVE, Relation.ADD_REMOVE, "this population only")
    if taken == 1 and of <= MOST:
        by_size = cluster("cluster", ProportionalToSize("size", 1), sizes=(CLUSTER,) * of)
        yield Compared(
            "one PPS cluster", by_size, Relation.ADD_REMOVE, Relation.ADD_REMOVE, "sizes decide the draw: worse than no sampling"
        )


def _candidates(asked: SameSize) -> Iterator[Candidate]:
    if asked.clusters is not None:
        column, number, cap = asked.clusters
        drawn = min(number, round(asked.rate * number))
        yield Candidate(f"clusters of {column}", cluster(column, SimpleRandom(drawn), clusters=number, cap=cap))


Sizes = Annotated[Sequence[int], "Cluster sizes without the added unit, by commas, or a file of them."]
UnitIn = Annotated[int | None, "The protected unit's cluster, counted from 1; else the worst."]


def _of_figures(
    take: Annotated[int, "The number of clusters drawn."],
    sizes: Sizes | None = None,
    unit_in: UnitIn = None,
    cap: Annotated[int | None, "Instead of sizes: a public cap on every cluster's size."] = None,
    clusters: Annotated[int | None, "With --cap: the number of clusters."] = None,
) -> ClusterSample:
    """Cluster sampling: all units of the drawn clusters.

    Example: `dpsurvey amplify cluster --cap 5 --clusters 100 --take 10 --epsilon 0.1 --base add-remove --neighbours add-remove`
    """
    check_count("take", take)
    if sizes is not None and cap is None and clusters is None:
        return cluster("cluster", SimpleRandom(take), sizes=sizes, unit_in=unit_in)
    if sizes is None and cap is not None and clusters is not None and unit_in is None:
        return cluster("cluster", SimpleRandom(take), clusters=clusters, cap=cap)
    raise BadValue("give either --sizes, or --cap with --clusters")


def _by_size_of_figures(
    sizes: Sizes,
    unit_in: UnitIn = None,
    take: Annotated[
        int, "Clusters drawn; several, by one random start in a random order, are solved for a few small ones and refused else."
    ] = 1,
) -> ClusterSample:
    """One cluster with probability proportional to its size: sampling makes the loss larger.

    Example: `dpsurvey amplify pps-cluster --sizes 5,5,5 --epsilon 0.2 --base add-remove --neighbours add-remove`
    """
    return cluster("cluster", pps("size", n=take), sizes=sizes, unit_in=unit_in)


@register(
    "cluster",
    renamed={"by": "cluster"},
    compared=_compared,
    candidates=_candidates,
    commands={"cluster": _of_figures, "pps-cluster": _by_size_of_figures},
)
def cluster(
    by: str,
    how: Design,
    *,
    clusters: int | None = None,
    cap: int | None = None,
    at_least: int | None = None,
    sizes: Sequence[int] | None = None,
    unit_in: int | None = None,
) -> ClusterSample:
    """Draw clusters of a public column by a design, and take all their units.

    `clusters` is the public number of them on the frame, `cap` a public bound on the units in one, `at_least` the fewest
    that one has; `sizes` are all of them, where they are written down, and `unit_in` the cluster that is asked about.

    >>> cluster("household", SimpleRandom(n=10)).recipe()
    Clusters(cluster='household', how=Simple(take=10, size=None), inside=None)
    """
    if sizes is not None:
        listed = tuple(sizes)
        if not listed:
            raise BadValue("sizes must name at least one cluster")
        if isinstance(how, ProportionalToSize):
            return ClustersBySize(by, how, clusters or len(listed), cap, at_least, listed, unit_in)
        if not isinstance(how, SimpleRandom):
            raise BadValue("with sizes= clusters are drawn by srs, or by pps of these sizes")
        return ListedClusters(by, how, clusters or len(listed), cap, at_least, listed, unit_in)
    if unit_in is not None:
        raise BadValue("unit_in= names one of the clusters in sizes=")
    if isinstance(how, SimpleRandom) and clusters is not None and cap is not None:
        return CappedClusters(by, how, clusters, cap, at_least)
    return ClusterSample(by, how, clusters, cap, at_least)
