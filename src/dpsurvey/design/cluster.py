"""Cluster sampling: clusters of a public column are drawn by any design, and all their units are taken."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from ..errors import BadValue
from ..loss.bound import SAMPLE_ONLY, Bound, Losses, Refused, sizes_unprotected
from ..loss.exchanged_clusters import Array, cluster_contest, cluster_curve, effective_rate, swap_costs
from ..loss.symmetric_polynomials import Interval, log_rho
from ..loss.worst_case.contest import Contest
from ..privacy.curve import Curve
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import amplified, below, log_mixture, up
from .base import Design
from .checks import check_count
from .cluster_base import ClusterSample, WrittenClusters
from .compared import CLUSTER, MOST, AtRate, Candidate, Compared, SameSize
from .pps import ProportionalToSize, pps
from .pps_cluster import ClustersBySize
from .registry import register
from .srs import SimpleRandom

EXACT = "docs/designs/cluster.md, Theorem (exact loss); Bun et al. 2022, Theorems 5.1 and 5.2, enclose it"
LABELS = "cluster labels are public, and a record stays in its cluster"
LISTED_ALIKE = "the list of clusters is the same for both neighbours: one that is left empty keeps its place in the draw"


@dataclass(frozen=True)
class ListedClusters(WrittenClusters):
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
        return Bound(
            upper,
            lower,
            exact,
            EXACT,
            scope,
            (LABELS, *listed_alike(neighbours), SAMPLE_ONLY, *public, *more),
        )

    def _around(self) -> tuple[int, Array]:
        others = np.delete(np.asarray(self.sizes, dtype=float), self.target)
        return self.sizes[self.target], others

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
            return Bound(losses.replace_one, lower, False, EXACT, holds_when=(LABELS, SAMPLE_ONLY))
        take, many, cap = self.take, self._many, self._most
        loss = losses.add_remove if neighbours == Relation.ADD_REMOVE else losses.replace_one
        rest = math.log((many - take) / take) if take < many else -math.inf
        log = rest - losses.swap(cap, cap)
        high, low = effective_rate(loss, 1.0, Interval(log - 1e-14 * abs(log) if rest > -math.inf else log, log))
        most = f"no cluster has more than {cap} units in any possible population"
        holds = (LABELS, *listed_alike(neighbours), SAMPLE_ONLY, most)
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
        int, "Clusters drawn; several, from one random start in a random order, are solved if few and small, else refused."
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
            return ClustersBySize(by, how, len(listed) if clusters is None else clusters, cap, at_least, listed, unit_in)
        if not isinstance(how, SimpleRandom):
            raise BadValue("with sizes= clusters are drawn by srs, or by pps of these sizes")
        return ListedClusters(by, how, len(listed) if clusters is None else clusters, cap, at_least, listed, unit_in)
    if unit_in is not None:
        raise BadValue("unit_in= names one of the clusters in sizes=")
    if isinstance(how, SimpleRandom) and clusters is not None and cap is not None:
        return CappedClusters(by, how, clusters, cap, at_least)
    return ClusterSample(by, how, clusters, cap, at_least)
