"""How the variance between clusters is paid for, chosen by the half width to expect, from public figures alone.

norm    noise on the sums of all clusters, and each standard error bought as one noisy length: where clusters, strata and weights
        are the same in every neighbour
groups  noise in every random group of clusters, whose spread then holds sampling error and noise; strata are merged where that is
        narrower
deff    a published design effect as a constant: everything goes to the sums

A file with replicate weights has its standard errors bought as norms of them, and no random groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..design.parts import Clustering
from ..design.recipe import Taken
from ..errors import BadValue, NoGuarantee, did_you_mean
from ..mechanism.cluster_norm import Directions, Totals, norm_share
from .estimators.interval import Z, student
from .exact_totals import ClusterTotals, ReplicateTotals
from .facts import Facts
from .query import ByCluster, ByReplicate, Query, RandomGroups

AUTO, NORM, GROUPS = "auto", "norm", "groups"
METHODS = (AUTO, NORM, GROUPS)
# A design effect to choose by where none is declared: that of the clusters of a common household survey.
USUAL_EFFECT = 2.0
# Below this noise over sampling error one length does for all strata, and supposes nothing of them.
LITTLE_NOISE = 0.1
# Degrees of freedom of each length, where there are several; and the fewest of all.
PER_LENGTH, FEWEST = 5, 4.0
# Coefficients of numbers in sums: beyond, the whole numbers of a norm take too long.
MOST_COEFFICIENTS = 400_000


@dataclass(frozen=True)
class ClusterVariance:
    """What was chosen, the half width to expect of each way on a common scale, and why one is not there."""

    method: str
    widths: tuple[tuple[str, float], ...]
    clusters: ByCluster | ByReplicate | None = None
    random_groups: RandomGroups | None = None
    because: str = ""

    @property
    def words(self) -> str:
        """The choice with its reason."""
        if isinstance(self.clusters, ByReplicate):
            return f"variance={self.method!r} (standard errors of {len(self.clusters.columns)} replicate weights bought as norms)"
        best = dict(self.widths)[self.method]
        others = [f"{name} {width / best:.2f}" for name, width in self.widths if name != self.method]
        compared = f"half widths to expect, over its own: {', '.join(others)}" if others else self.because
        what = {NORM: "standard errors bought as norms", GROUPS: "random groups of clusters"}[self.method]
        return f"variance={self.method!r} ({what}; {compared})"


@dataclass(frozen=True)
class Wish:
    """What is known of a statistic when its variance is chosen.

    `spread` is the variance of what one record adds on [0, 1], `stays` whether it adds to one cell in every neighbour, `numbers`
    how many numbers are made of how many coefficients each.
    """

    method: str
    by: tuple[str, ...]
    spread: float
    stays: bool
    groups: int
    numbers: int
    coefficients: int
    effect: float | None = None
    # Totals and counts, of groups of unknown size, which compare a group with all units.
    shares: bool = False

    @property
    def alone(self) -> tuple[str, ...]:
        """The columns whose groups have clusters of their own."""
        return () if self.shares else self.by


def check_variance(method: str) -> str:
    """The name of a way to pay for the variance between clusters; any other word is refused."""
    if method not in METHODS:
        raise BadValue(f"unknown variance {method!r}", hint=did_you_mean(str(method), METHODS))
    return method


def choose_variance(facts: Facts, wish: Wish) -> ClusterVariance | None:
    """How the variance between clusters is paid for; None where there are no clusters."""
    if facts.clustering is None:
        return None
    refused = _no_norm(facts, wish)
    if facts.clustering.replicates is not None:
        return _of_replicates(facts, wish, refused)
    if wish.method == NORM and refused:
        raise NoGuarantee("standard errors cannot be bought as norms here", because=refused, hint='variance="groups"')
    found = list(_ways(facts, wish, refused))
    chosen = min(found, key=lambda each: each[1]) if wish.method == AUTO else found[0]
    widths = tuple((name, width) for name, width, _, _ in found)
    return ClusterVariance(chosen[0], widths, chosen[2], chosen[3], refused)


def _of_replicates(facts: Facts, wish: Wish, refused: str) -> ClusterVariance:
    """Of replicate weights standard errors are bought, or there are none: random groups of them are noisier by far."""
    if refused:
        raise NoGuarantee(
            "no standard error can be bought of these replicate weights",
            because=refused,
            hint='the setting without one: protect="sample", given="frame", neighbours="replace-one"; or leave out replicates=',
        )
    if wish.method == GROUPS:
        raise NoGuarantee(
            "the variance of a file with replicate weights is not taken between random groups",
            because="replicate weights know the strata and the calibration of the weights, which random groups do not",
            hint="leave out variance=, or leave out replicates= and name psu=",
        )
    return ClusterVariance(NORM, ((NORM, _norm_width(facts, wish, 1)),), _by_replicate(facts, wish))


def _by_replicate(facts: Facts, wish: Wish) -> ByReplicate:
    clustering = facts.clustering
    assert clustering is not None
    assert clustering.replicates is not None
    declared = clustering.replicates
    reach = None if declared.reach is None else declared.reach / facts.largest_weight
    freedom = clustering.replicate_freedom(in_one_stratum=_own_stratum(facts, wish))
    return ByReplicate(declared.names, declared.factors, freedom, reach)


def _ways(facts: Facts, wish: Wish, refused: str) -> Iterator[tuple[str, float, ByCluster | None, RandomGroups | None]]:
    if not refused and wish.method in (AUTO, NORM):
        parts = _parts(facts, wish)
        yield NORM, _norm_width(facts, wish, parts), _by_cluster(facts, parts), None
    if wish.method in (AUTO, GROUPS):
        random_groups = facts.random_groups(wish.spread, wish.alone)
        assert random_groups is not None
        yield GROUPS, _groups_width(facts, wish, random_groups), None, random_groups


def _no_norm(facts: Facts, wish: Wish) -> str:
    """Why no standard error is bought; empty where it can be."""
    if facts.as_in_0_8:
        return "releases of 0.8 had random groups alone"
    if facts.weights_move or not facts.stays_in_place(()):
        return "a neighbour may have other clusters, strata or weights, so the variance is not the same function of the answers"
    if freedom(facts) < FEWEST:
        return f"fewer than {FEWEST:g} degrees of freedom are left"
    if wish.numbers * wish.coefficients > MOST_COEFFICIENTS:
        return "there are too many groups"
    return ""


def freedom(facts: Facts) -> float:
    """The degrees of freedom to expect, by the declared numbers of clusters."""
    clustering = facts.clustering
    assert clustering is not None
    if clustering.replicates is not None:
        return clustering.replicate_freedom(in_one_stratum=False)
    drawn = clustering.drawn if clustering.drawn is not None else 10
    return float(max(1, len(clustering.strata)) * (drawn - 1))


def totals_to_expect(query: Query, clustering: Clustering, directions: Directions) -> Totals:
    """Totals of nobody, in which all that is held fixed is even: clusters of strata, units of clusters, replicates of weights."""
    cells, groups = directions.per_record.shape[1:], directions.members.shape[1]
    if isinstance(query.clusters, ByReplicate):
        by = query.clusters
        sums = np.zeros((1 + len(by.columns), *cells), dtype=np.int64)
        # Replicates of most methods lie as far apart as the weight is large.
        return ReplicateTotals(sums, by.scales, math.ceil((by.reach or 1.0) * query.steps), by.freedom)
    drawn = clustering.drawn if clustering.drawn is not None else 10
    stratum = np.repeat(np.arange(max(1, len(clustering.strata))), drawn)
    units = np.ones((len(stratum), groups), dtype=np.int64)
    return ClusterTotals(np.zeros((len(stratum), *cells), dtype=np.int64), units, stratum, np.zeros(len(stratum)))


def _by_cluster(facts: Facts, parts: int) -> ByCluster:
    clustering = facts.clustering
    assert clustering is not None
    known = clustering.whole and not facts.respondents_only and len(facts.parts) == max(1, len(clustering.strata))
    fractions = tuple(0.0 if part.replaced else part.probability for part in facts.parts) if known else ()
    recipe = facts.design.recipe()
    # A file with units of a second stage has only some of each cluster's.
    of_column = isinstance(recipe, Taken) and recipe.named.fpc is not None and recipe.named.ssu is None
    return ByCluster(clustering.strata, fractions, of_column, parts)


def _parts(facts: Facts, wish: Wish) -> int:
    """Into how many parts strata are dealt: one where noise is little, else so that each has some degrees of freedom.

    Several parts suppose that variances go by what is held fixed of a number: of groups that a record may leave nothing is.
    """
    sampling, noise = _variances(facts, wish)
    if noise <= LITTLE_NOISE**2 * sampling or not (wish.stays or not wish.by):
        return 1
    clustering = facts.clustering
    assert clustering is not None
    alone = facts.design.strata_column in wish.alone
    most = len(clustering.strata) if len(clustering.strata) > 1 else math.inf
    return int(1 if alone else max(1, min(most, freedom(facts) // PER_LENGTH)))


def _variances(facts: Facts, wish: Wish, moved: float | None = None) -> tuple[float, float]:
    """The sampling variance of a group's sum, and the noise of one sum with all of the charge, in squared records."""
    share = facts.typical_weight / facts.largest_weight
    units = facts.expected_units / wish.groups
    sampling = (wish.effect or USUAL_EFFECT) * units * share**2 * max(wish.spread, 1e-9)
    moves = moved if moved is not None else 1.0 if wish.stays else 2.0 if facts.norm == "L1" else math.sqrt(2.0)
    return sampling, (moves * facts.reach) ** 2 * facts.noise_each


def _norm_width(facts: Facts, wish: Wish, parts: int) -> float:
    sampling, noise = _variances(facts, wish)
    shared = freedom(facts) / (len(facts.clustering.strata) if _own_stratum(facts, wish) else 1)  # type: ignore[union-attr]
    t = float(student(shared))
    share = norm_share(parts, shared, facts.norm)
    spent = (1.0 - share) ** 2 if facts.norm == "L1" else 1.0 - share
    bought = share**2 if facts.norm == "L1" else share
    return math.sqrt(t**2 * sampling + Z**2 * noise / spent + t**2 * Z**2 * noise / (bought * parts))


def _own_stratum(facts: Facts, wish: Wish) -> bool:
    return facts.design.strata_column is not None and facts.design.strata_column in wish.alone


def _groups_width(facts: Facts, wish: Wish, random_groups: RandomGroups) -> float:
    sampling, noise = _variances(facts, wish)
    strata = 1 if _own_stratum(facts, wish) else max(1, len(random_groups.strata))
    t = float(student(float(strata * (random_groups.count - 1))))
    # Answers and records, or answers and what is left of records, each with noise in every random group.
    return t * math.sqrt(sampling + 1.25 * strata * random_groups.count * noise)
