"""Clusters: what it costs to exchange a drawn cluster for another one, and the loss and the curve that follow."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from ..privacy.curve import Curve
from ..privacy.relation import Neighbours, Relation
from .bound import Losses
from .symmetric_polynomials import Interval
from .transport import one_source, profile_of
from .worst_case.contest import Contest

Array = npt.NDArray[np.float64]


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


def cluster_curve(
    base: Curve, losses: Losses, neighbours: Neighbours, alpha: float, fraction: float, own: int, others: Array
) -> float:
    """The transport bound: the drawn cluster's mass goes to the same cluster without the record, or to another cluster."""
    steps = 2 if neighbours == Relation.REPLACE_ONE and losses.base == Relation.ADD_REMOVE else 1
    near = profile_of(base if steps == 1 else base.steps(2))
    sizes, counts = np.unique(others, return_counts=True)
    own = own + (neighbours == Relation.ADD_REMOVE)
    if losses.base == Relation.BOTH:
        distances = np.maximum(own, sizes)
    elif losses.base == Relation.ADD_REMOVE:
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
    if neighbours == Relation.REPLACE_ONE:
        base[target] -= 1
    laws: list[dict[tuple[int, ...], float]] = [{}, {}]
    for drawn in itertools.combinations(range(clusters), take):
        units = tuple(base[j] if j in drawn else 0 for j in range(clusters))
        here = int(target in drawn)
        for law, tail in zip(laws, ((here, 0), (0, here if neighbours == Relation.REPLACE_ONE else 0)), strict=True):
            law[units + tail] = law.get(units + tail, 0.0) + 1.0 / math.comb(clusters, take)
    ends = ((1, 0), (0, 1)) if neighbours == Relation.REPLACE_ONE else ((1, 0), (0, 0))
    return Contest((*base, *ends[0]), laws[0], (*base, *ends[1]), laws[1])
