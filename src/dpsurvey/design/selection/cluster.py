"""Cluster sampling: whole clusters are drawn, all their units are taken."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...loss.refused import Refused
from ...loss.symmetric_polynomials import Interval, log_rho
from ...loss.transport import one_source, profile_of
from ...loss.worst_case.contest import Contest
from ...privacy.curve import Curve
from ...privacy.rounding import amplified, below, log_mixture, up
from .base import (
    PUBLIC,
    SAMPLE_ONLY,
    SECRET,
    Bound,
    Losses,
    Neighbours,
    Selection,
    check_clusters,
    check_count,
    sizes_unprotected,
)

Array = npt.NDArray[np.float64]
EXACT = "docs/designs/cluster.md, Theorem (exact loss); Bun et al. 2022, Theorems 5.1 and 5.2, enclose it"
# Clusters of equal size need no list, but a stage after them does.
MOST_CLUSTERS = 10_000_000
LABELS = "cluster labels are public, and a record stays in its cluster"


def effective_rate(loss: float, fraction: float, rho: Interval) -> tuple[float, float]:
    """The largest and the least rate fraction/(1 + e^loss rho), from an interval for log rho."""
    low, high = loss + rho.low, loss + rho.high
    rates = [fraction / (1.0 + math.exp(min(700.0, each))) for each in (low, high)]
    return min(1.0, rates[0] * (1.0 + 1e-15)), rates[1] * (1.0 - 1e-15)


def swap_costs(losses: Losses, own: int, others: Array) -> Array:
    """The cost of exchanging a cluster of `own` units for each of the others; infinite where no step does it."""
    same = np.minimum(own, others) * losses.replace_one
    gap = np.abs(others - own)
    with np.errstate(invalid="ignore"):
        return np.asarray(same + np.where(gap > 0, gap * losses.add_remove, 0.0))


@dataclass(frozen=True)
class Clusters(Selection):
    """`take` of the clusters with these sizes, by simple random sampling, all their units.

    With A = e^loss of one step inside the target's cluster of n_i units (n_i + 1 with the added unit), and
    y_j = e^-(cost of exchanging that cluster for cluster j): epsilon' = log(1 + (A-1)/(1 + A rho)), rho the ratio
    of elementary symmetric polynomials e_l(y)/e_(l-1)(y). Exact for mechanisms of type add-remove and both.
    Sizes are those without the added unit. `unit_in` is the target's cluster, counted from 1; else the worst one.

    >>> from dpsurvey.design.selection.base import Losses
    >>> round(Clusters((2, 1, 3), 1, 1).bound(Losses.of(0.5, "add-remove"), "add-remove").upper, 10)
    0.4034781197
    """

    kind: ClassVar[str] = "cluster"
    sizes: tuple[int, ...]
    take: int
    unit_in: int | None = None

    def __post_init__(self) -> None:
        check_clusters("sizes", self.sizes, self.take, self.unit_in)

    @property
    def fraction(self) -> float:
        """The share of clusters that are drawn."""
        return self.take / len(self.sizes)

    @property
    def inclusion(self) -> float:
        return self.fraction

    @property
    def detection_steps(self) -> float:
        return float(max(self.sizes) + sorted(self.sizes)[-2]) if len(self.sizes) > 1 else float(self.sizes[0])

    @property
    def target(self) -> int:
        """The index of the target's cluster: the given one, or the largest, where the loss is largest."""
        return self.unit_in - 1 if self.unit_in is not None else int(np.argmax(self.sizes))

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if neighbours == "add-remove" and not losses.sizes_protected:
            return sizes_unprotected("a record more or less")
        if losses.base == "add-remove" and losses.sizes_protected:
            # After nonresponse a replacement may cost less than two steps; which cluster is then the worst is not proved.
            losses = Losses(losses.add_remove, 2.0 * losses.add_remove, losses.base)
        if not losses.sizes_protected and self.unit_in is None and len(set(self.sizes)) > 1:
            # A cluster without another of its size can be told by the size of the sample, so the largest need not be the worst.
            answers = [replace(self, unit_in=self.sizes.index(size) + 1).bound(losses, neighbours) for size in set(self.sizes)]
            return max((each for each in answers if isinstance(each, Bound)), key=lambda each: each.upper)
        own, others = self._around()
        loss = losses.add_remove if neighbours == "add-remove" else losses.replace_one
        costs = swap_costs(losses, own + (neighbours == "add-remove"), others)
        rho = log_rho(-costs, self.take) if len(others) else Interval(-math.inf, -math.inf)
        high, low = effective_rate(loss, 1.0, rho)
        # Only where the others' sizes are equal can a replace-only mechanism not use the size of the sample.
        same = bool(np.all(others == own))
        typed = losses.base == "both" or losses.replace_one == 2.0 * losses.add_remove or (same and neighbours == "replace-one")
        upper, lower = up(amplified(loss, high)), below(amplified(loss, low))
        exact = typed and upper - lower <= 1e-7 * upper
        if not typed:
            lower = below(log_mixture((self.fraction, min(loss, losses.replace_one))))
        scope: Any = "every population" if neighbours == "replace-one" else "this population"
        public = ("the sizes of all clusters are public and the same for both neighbours",) if scope != "this population" else ()
        more = ("a guarantee for every population needs a public cap on the cluster sizes",) if neighbours == "add-remove" else ()
        details = self._printed(losses) if losses.base == "add-remove" and neighbours == "add-remove" else {}
        return Bound(upper, lower, exact, EXACT, scope, (SECRET, PUBLIC, LABELS, SAMPLE_ONLY, *public, *more), details=details)

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


def cluster_curve(
    base: Curve, losses: Losses, neighbours: Neighbours, alpha: float, fraction: float, own: int, others: Array
) -> float:
    """The transport bound: the drawn cluster's mass goes to the same cluster without the record, or to another cluster."""
    steps = 2 if neighbours == "replace-one" and losses.base == "add-remove" else 1
    near = profile_of(base if steps == 1 else base.steps(2))
    sizes, counts = np.unique(others, return_counts=True)
    own = own + (neighbours == "add-remove")
    if losses.base == "both":
        distances = np.maximum(own, sizes)
    elif losses.base == "add-remove":
        distances = own + sizes
    elif bool(np.all(sizes == own)):
        distances = sizes
    else:
        return fraction * near(alpha)
    if len(sizes) > 40:
        # Few groups, each at its largest distance: the curve of more steps is the larger one.
        groups = np.array_split(np.arange(len(sizes)), 40)
        distances = np.array([distances[group].max() for group in groups])
        counts = np.array([counts[group].sum() for group in groups])
    parts = [(float(n) / float(counts.sum()), profile_of(base.steps(int(d)))) for d, n in zip(distances, counts, strict=True)]
    sinks = (alpha * fraction, near), ((alpha - 1.0) * (1.0 - fraction), lambda y: math.fsum(w * h(y) for w, h in parts))
    return min(fraction * near(alpha), one_source(fraction, *sinks))


def cluster_contest(sizes: tuple[int, ...], take: int, target: int, neighbours: Neighbours) -> Contest | None:
    """Each cluster a kind of its own; the target's record, and what replaces it, two more."""
    clusters = len(sizes)
    if clusters > 12 or math.comb(clusters, take) > 70:
        return None
    base = list(sizes)
    if neighbours == "replace-one":
        base[target] -= 1
    laws: list[dict[tuple[int, ...], float]] = [{}, {}]
    for drawn in itertools.combinations(range(clusters), take):
        units = tuple(base[j] if j in drawn else 0 for j in range(clusters))
        here = int(target in drawn)
        for law, tail in zip(laws, ((here, 0), (0, here if neighbours == "replace-one" else 0)), strict=True):
            law[units + tail] = law.get(units + tail, 0.0) + 1.0 / math.comb(clusters, take)
    ends = ((1, 0), (0, 1)) if neighbours == "replace-one" else ((1, 0), (0, 0))
    return Contest((*base, *ends[0]), laws[0], (*base, *ends[1]), laws[1])


@dataclass(frozen=True)
class CappedClusters(Selection):
    """`take` of `clusters` clusters whose sizes are not public but never exceed a public `cap`.

    The loss rises with every size, so the cap in place of all of them holds for every population; exact, since
    full clusters are possible.

    >>> from dpsurvey.design.selection.base import Losses
    >>> round(CappedClusters(5, 100, 10).bound(Losses.of(0.1, "add-remove"), "add-remove").upper, 10)
    0.0223220936
    """

    kind: ClassVar[str] = "capped-cluster"
    page: ClassVar[str] = "cluster"
    cap: int
    clusters: int
    take: int

    def __post_init__(self) -> None:
        check_count("cap", self.cap)
        check_count("clusters", self.clusters)
        check_count("take", self.take, at_most=self.clusters)

    @property
    def inclusion(self) -> float:
        return self.take / self.clusters

    @property
    def detection_steps(self) -> float:
        return 2.0 * self.cap

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if not losses.sizes_protected:
            if neighbours == "add-remove":
                return sizes_unprotected("a record more or less")
            # The mechanism may show the sample's size, and with it the clusters: its own loss is left.
            lower = below(log_mixture((self.inclusion, losses.replace_one)))
            return Bound(losses.replace_one, lower, False, EXACT, holds_when=(SECRET, PUBLIC, LABELS, SAMPLE_ONLY))
        loss = losses.add_remove if neighbours == "add-remove" else losses.replace_one
        rest = math.log((self.clusters - self.take) / self.take) if self.take < self.clusters else -math.inf
        log = rest - losses.swap(self.cap, self.cap)
        high, low = effective_rate(loss, 1.0, Interval(log - 1e-14 * abs(log) if rest > -math.inf else log, log))
        holds = (SECRET, PUBLIC, LABELS, SAMPLE_ONLY, f"no cluster has more than {self.cap} units in any possible population")
        typed = losses.base == "both" or losses.replace_one == 2.0 * losses.add_remove
        upper = up(amplified(loss, high))
        lower = below(amplified(loss, low)) if typed else below(log_mixture((self.inclusion, losses.add_remove)))
        return Bound(upper, lower, typed, EXACT, holds_when=holds)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        own = self.cap - (neighbours == "add-remove")
        others = np.full(1, float(self.cap))
        return 1.0 if self.take == self.clusters else cluster_curve(base, losses, neighbours, alpha, self.inclusion, own, others)

    def contest(self, neighbours: Neighbours) -> Contest | None:
        full = [self.cap] * self.clusters
        full[0] -= neighbours == "add-remove"
        return cluster_contest(tuple(full), self.take, 0, neighbours) if self.clusters <= 8 else None
