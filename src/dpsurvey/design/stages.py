"""Multi-stage sampling: clusters, then clusters or units inside each drawn one, each stage by any design."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from ..errors import BadValue
from ..loss.bound import SAMPLE_ONLY, Bound, Losses, Refused, no_likelier, sizes_unprotected
from ..loss.exchanged_clusters import Array, effective_rate, swap_costs
from ..loss.size_law import binomial
from ..loss.symmetric_polynomials import Interval, log_rho
from ..loss.transport import Profile, one_source, profile_of, replacing
from ..privacy.curve import Curve
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import amplified, below, log_mixture, times, up
from ..privacy.setting import Setting
from .base import Design, thinned
from .checks import check_count, check_rate
from .cluster import LABELS, CappedClusters, ListedClusters, cluster, listed_alike
from .cluster_base import ClusterSample
from .collected import refuse_collected
from .compared import CLUSTER, AtRate, Candidate, Compared, SameSize
from .frame import LARGEST_SIZE
from .parts import Clustering, DeclaredClusters, Part
from .poisson import IndependentDraws, Poisson
from .pps import ProportionalToSize
from .proportional import ProportionalShare
from .recipe import Clusters, Repeated, Step, Strata
from .registry import design_in, register
from .srs import SimpleRandom
from .systematic import SystematicSample

SOURCE = "docs/designs/stages.md, further stages"
UNSEEN = "no earlier stage looks at the unit's data"
BY_RATE = "docs/designs/two-stage.md, Theorem (each unit by itself)"
BY_TAKE = "docs/designs/two-stage.md, Theorem (a fixed number of units)"
INDEPENDENT = "units inside a drawn cluster are drawn independently of everything else"
# Up to so many units the smallest cluster that keeps a bound is sought one by one.
LARGE = 1_000_000
# Clusters of equal size need no list, but a stage after them does.
MOST_CLUSTERS = 10_000_000


@dataclass(frozen=True)
class Stages(Design):
    """Clusters by the first stage; inside each drawn one, independently, the next stage; and so on.

    A unit's probability is the product over its stages. Given what the earlier stages drew, the last one amplifies by
    its own rate, if that is public for every unit; two stages amplify by both, if the clusters are drawn by simple random
    sampling and their sizes have a public cap (see `TwoStage`).

    >>> stages(ClusterSample("psu", Poisson(0.1)), Poisson(0.2)).largest_probability
    0.2
    """

    kind: ClassVar[str] = "stages"
    fixed_size = False
    # Also where so many units are taken of each cluster: a cluster in another's place brings units that were in no place before.
    sample_relation = Relation.ADD_REMOVE
    stages: tuple[Design, ...]
    # A public bound on every unit's probability at the last stage, given the stages before.
    at_most: float | None = None

    def __post_init__(self) -> None:
        if len(self.stages) < 2 or not all(isinstance(each, ClusterSample) for each in self.stages[:-1]):
            raise BadValue(
                "stages takes cluster(...) for every stage but the last, and any design for the last",
                hint='for example stages(cluster("psu", srs(n=20)), srs(n=5))',
            )
        columns = [step.cluster for step in self.recipe().below() if isinstance(step, Clusters)]
        if len(set(columns)) < len(columns):
            raise BadValue("each stage has a column of clusters of its own", given=", ".join(columns))
        if sum(isinstance(step, Repeated) for step in self.recipe().below()) > 1:
            raise BadValue(
                "only one stage can be drawn with replacement", hint="draw the clusters with replacement, units without"
            )
        if self.at_most is not None:
            check_rate("at_most", self.at_most)
        if not isinstance(self.stages[-1], Design) or isinstance(self.stages[-1], Stages):
            raise BadValue("the last stage is a design of units, or of clusters that are taken whole")
        refuse_collected(self.stages[-1])
        if any(isinstance(step, Strata) for step in self.recipe().below()):
            raise BadValue("strata inside clusters are not drawn", hint='stratified("region", within=stages(...)) draws in each')

    @property
    def copies(self) -> int:  # type: ignore[override]
        return math.prod(each.copies for each in self.stages)

    def in_words(self, unit: str = "unit") -> str:
        return "; inside each drawn cluster ".join(each.in_words(unit) for each in self.stages)

    def recipe(self) -> Step:
        step = self.stages[-1].recipe()
        for stage in reversed(self.stages[:-1]):
            assert isinstance(stage, ClusterSample)
            step = Clusters(stage.cluster, stage.how.recipe(), step)
        return step

    def parts(self) -> tuple[Part, ...]:
        # A last stage that takes a fixed number from each cluster gives every cluster its own weight.
        inside = [each.parts() for each in self.stages] if isinstance(self.stages[-1], Poisson | ProportionalShare) else [()]
        if any(len(each) != 1 for each in inside):
            return ()
        rate = math.prod(each[0].probability for each in inside)
        return (Part(None, rate, None, None, any(each[0].replaced for each in inside)),)

    def clustering(self) -> Clustering:
        first = self.stages[0].clustering()
        assert first is not None
        return replace(first, whole=False)

    def insides(self) -> dict[str | None, Design]:
        return {None: self.stages[0]}

    @property
    def declared_clusters(self) -> tuple[DeclaredClusters, ...]:
        if not self._fixed_take:
            return super().declared_clusters
        columns = tuple(each.cluster for each in self.stages[:-1] if isinstance(each, ClusterSample))
        return (*super().declared_clusters, DeclaredClusters(None, columns, None, None, self._fewest))

    @property
    def _fixed_take(self) -> bool:
        """Whether the loss rests on what `at_most` says of a fixed number of units from each cluster of the last stage."""
        return self.copies == 1 and self.at_most is not None and isinstance(self.stages[-1], SimpleRandom)

    @property
    def _fewest(self) -> int:
        """The fewest units of a cluster from which on no unit's probability is above `at_most`."""
        last, most = self.stages[-1], self.at_most or 1.0
        assert isinstance(last, SimpleRandom)
        if last.n is not None:
            return math.ceil(Fraction(last.n) / Fraction(repr(float(most))))
        # A rate is rounded to a whole number of units, at least one.
        over = Fraction(repr(float(most))) - Fraction(repr(float(last.rate or 1.0)))
        size = math.ceil(max(1 / over, Fraction(1.0 / most))) if over > 0 else LARGEST_SIZE
        while 1 < size < LARGE and last.take_of(size - 1) <= Fraction(repr(float(most))) * (size - 1):
            size -= 1
        return size

    @property
    def _last(self) -> Design | None:
        """The last stage where units are drawn one by one with a public rate."""
        last = self.stages[-1]
        if self.copies == 1 and isinstance(last, IndependentDraws):
            return last
        if self.copies == 1 and isinstance(last, ProportionalShare) and last.rounding == "random":
            # Clusters differ in size: what holds for one size of a list is no bound for the others.
            return replace(last, size=None)
        return None

    @property
    def largest_probability(self) -> float:
        last = self._last
        return last.largest_probability if last is not None else self.at_most if self.at_most is not None else 1.0

    @property
    def depends_on_data(self) -> float:
        return max(each.how.depends_on_data for each in self.stages[:-1] if isinstance(each, ClusterSample))

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        """Given what the earlier stages drew, the last one that selects units amplifies by its rate."""
        if self._reasons(neighbours):
            return Refused(
                "; ".join(self._reasons(neighbours)),
                "Poisson sampling with a public rate at the last stage; it amplifies by that rate",
                SOURCE,
            )
        last = self._last
        if last is None:
            value = up(log_mixture((self.largest_probability, losses.replace_one)))
            drawn = no_likelier(self.largest_probability, "is drawn at the last stage")
            return Bound(value, 0.0, False, SOURCE, holds_when=(SAMPLE_ONLY, drawn, UNSEEN))
        answer = last.bound(losses, neighbours)
        if isinstance(answer, Refused):
            return answer
        source, holds = f"{answer.source}; {SOURCE}", (*answer.holds_when, *listed_alike(neighbours), UNSEEN)
        return Bound(answer.upper, 0.0, False, source, answer.scope, holds, common=answer.common)

    def _reasons(self, neighbours: Neighbours) -> list[str]:
        last = self.stages[-1]
        sized = [each.how for each in self.stages if isinstance(each, ClusterSample) and isinstance(each.how, ProportionalToSize)]
        fixed = self._fixed_take
        unknown = self._last is None and not fixed
        confidential = any(each.measure == "confidential" for each in sized)
        reasons = (
            "a cluster may be drawn several times" if self.copies > 1 else "",
            "clusters drawn in proportion to confidential sizes follow the data" if confidential else "",
            "clusters drawn in proportion to size are few and likely" if sized and unknown and not confidential else "",
            "systematic units from a sorted list come in few fixed sets" if isinstance(last, SystematicSample) else "",
            "no rate of the last stage is public for every cluster" if unknown else "",
            "a fixed number of units leaves no room for one more or less" if fixed and neighbours == Relation.ADD_REMOVE else "",
        )
        return [reason for reason in reasons if reason]

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        # Given the clusters, it is what the last stage makes of one record, in as many copies as its cluster has: each drawn by
        # itself, or all at once where it is a person who responds.
        last, copies = self.stages[-1], self.copies // self.stages[-1].copies
        together = Losses(times(copies, losses.add_remove), times(copies, losses.replace_one), losses.base)
        return max(times(copies, last.loss_in_sample(losses, neighbours)), last.loss_in_sample(together, neighbours))

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        last = self._last
        return last.sharper(base, losses, neighbours, alpha) if last is not None else 1.0

    def sampled(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        last = self._last
        return last.sampled(profile, neighbours) if last is not None else super().sampled(profile, neighbours)

    def resized(self, factor: float) -> Stages:
        """More or fewer clusters, as many units in each; where all clusters are drawn, more units in each."""
        first = self.stages[0]
        here = min(factor, first.most)
        rest = factor / here
        last = self.stages[-1] if rest <= 1.0 + 1e-12 else self.stages[-1].resized(rest)
        bounded = None if self.at_most is None else min(1.0, self.at_most * max(1.0, rest))
        return stages(first.resized(here), *self.stages[1:-1], last, at_most=bounded)

    @property
    def most(self) -> float:
        return self.stages[0].most * (self.stages[-1].most if self._last is not None else 1.0)


@dataclass(frozen=True)
class TwoStage(Stages):
    """`take` of the clusters, then inside each drawn one every unit with probability `unit_rate`, or `unit_take` units.

    Sizes are those without the added unit. `capped`: the sizes are public caps, never exceeded in any population.
    By rate, add-remove: log(1 + r(e^d - 1)/(1 + (1 + r(e^d - 1))^-n_i rho(y))), y_j = (1 - r + r e^-d)^n_j.
    By take, f = m/n_i (m/(n_i+1) under add-remove): log(1 + f(e^R - 1)/(1 + e^R rho(y))), y_j = e^-(swap of m units).

    >>> from .cluster import cluster
    >>> design = stages(cluster("village", SimpleRandom(n=2), sizes=(10,) * 20), Poisson(0.1))
    >>> round(design.bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    0.0840586362
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("take", self.take, at_most=len(self.sizes))
        if self.unit_take is not None:
            check_count("unit-take", self.unit_take, at_most=min(self.sizes))

    @property
    def _clusters(self) -> ClusterSample:
        first = self.stages[0]
        assert isinstance(first, ClusterSample)
        return first

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The units in each cluster: as listed, or the public cap, or the fewest, for all of them."""
        first = self._clusters
        if isinstance(first, ListedClusters):
            return first.sizes
        size = first.cap if self.unit_take is None else first.at_least
        return (size or 0,) * (first.clusters or 0)

    @property
    def take(self) -> int:
        """How many clusters are drawn."""
        how = self._clusters.how
        assert isinstance(how, SimpleRandom)
        return how.take_of(len(self.sizes))

    @property
    def unit_rate(self) -> float | None:
        """The probability of each unit of a drawn cluster."""
        last = self.stages[-1]
        return last.rate if isinstance(last, Poisson) else None

    @property
    def unit_take(self) -> int | None:
        """Or the number of units that are drawn from each."""
        last = self.stages[-1]
        return last.n if isinstance(last, SimpleRandom) else None

    @property
    def unit_in(self) -> int | None:
        """The cluster that is asked about, counted from 1; None for the worst."""
        return getattr(self._clusters, "unit_in", None)

    @property
    def for_any_frame(self) -> bool:  # type: ignore[override]
        return self.unit_take is None

    @property
    def _fixed_take(self) -> bool:
        # The loss rests on the fewest units of a cluster, which is declared with the clusters.
        return False

    @property
    def capped(self) -> bool:
        """Whether the sizes are public caps, never exceeded in any population."""
        return not isinstance(self._clusters, ListedClusters) and self.unit_take is None

    def inside(self, setting: Setting) -> Design | Refused:
        found = super().inside(setting)
        if isinstance(found, Design) and isinstance(self._clusters, ListedClusters):
            # Sizes that are written down are not compared with the frame; the last stage does without them.
            return Stages(self.stages, self.at_most)
        return found

    @property
    def fraction(self) -> float:
        """The share of clusters that are drawn."""
        return self.take / len(self.sizes)

    @property
    def target(self) -> int:
        """The index of the target's cluster: the given one, or the worst: the largest by rate, the smallest by take."""
        if self.unit_in is not None:
            return self.unit_in - 1
        return int(np.argmax(self.sizes) if self.unit_rate is not None else np.argmin(self.sizes))

    @property
    def largest_probability(self) -> float:
        inside = self.unit_rate if self.unit_rate is not None else (self.unit_take or 0) / self.sizes[self.target]
        return self.fraction * inside

    def least_probability(self, neighbours: Neighbours) -> float:
        if self.unit_take is None or neighbours == Relation.REPLACE_ONE:
            return self.largest_probability
        return self.fraction * self.unit_take / (self.sizes[self.target] + 1)

    @property
    def detection_steps(self) -> float:
        return 2.0 * (self.unit_take if self.unit_take is not None else (self.unit_rate or 0.0) * max(self.sizes))

    @property
    def same_size(self) -> bool:  # type: ignore[override]
        return self.unit_take is not None

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if not losses.sizes_protected and (neighbours == Relation.ADD_REMOVE and self.unit_take is None):
            return sizes_unprotected("a record more or less")
        scope: Any = (
            "this population"
            if neighbours == Relation.ADD_REMOVE and self.unit_rate is not None and not self.capped
            else "every population"
        )
        holds = (LABELS, *listed_alike(neighbours), SAMPLE_ONLY, *self._sizes_note(neighbours))
        return (
            self._by_take(losses, neighbours, scope, holds)
            if self.unit_take is not None
            else self._by_rate(losses, neighbours, scope, holds)
        )

    def _sizes_note(self, neighbours: Neighbours) -> tuple[str, ...]:
        if self.capped:
            return ("no cluster exceeds its stated size in any possible population",)
        if neighbours == Relation.REPLACE_ONE and self.unit_take is None:
            return ("the sizes of all clusters are public and the same for both neighbours",)
        if self.unit_take is not None:
            return ("the number of units taken inside a cluster does not follow its size; no cluster is smaller than stated",)
        return ("a guarantee for every population needs a public cap on the cluster sizes",)

    def _rho(self, logs: Array) -> Interval:
        return log_rho(logs, self.take) if len(logs) else Interval(-math.inf, -math.inf)

    def _by_rate(self, losses: Losses, neighbours: Neighbours, scope: Any, holds: tuple[str, ...]) -> Bound:
        assert self.unit_rate is not None
        r, holds = self.unit_rate, (*holds, INDEPENDENT)
        lower_any = below(log_mixture((self.largest_probability, min(losses.add_remove, losses.replace_one))))
        if not losses.sizes_protected:
            return Bound(losses.replace_one, lower_any, False, BY_RATE, scope, holds)
        d = losses.add_remove
        more, less = log_mixture((r, d)), log_mixture((r, -d)) if r < 1.0 else -d
        own = self.sizes[self.target] - (self.capped and neighbours == Relation.ADD_REMOVE)
        rho = self._rho(np.delete(np.asarray(self.sizes, dtype=float), self.target) * less)
        if neighbours == Relation.ADD_REMOVE:
            empty = own * more
            high, low = effective_rate(0.0, 1.0, Interval(rho.low - empty * (1 + 1e-15), rho.high - empty * (1 - 1e-15)))
            # log(1 + w (e^more - 1)) with w = 1/(1 + e^-empty rho).
            upper, lower = up(amplified(more, high)), below(amplified(more, low))
            exact = losses.base == Relation.ADD_REMOVE
            return Bound(upper, lower if exact else min(upper, lower_any), exact, BY_RATE, scope, holds)
        # (u + w)/(v + w) with u = 1 + r(e^d - 1), v = 1 + r(e^-d - 1), w = u^-(n-1) rho: log(1 + (u/v - 1)/(1 + w/v)).
        empty = (own - 1) * more
        inside = Interval(rho.low - empty * (1 + 1e-15), rho.high - empty * (1 - 1e-15))
        high, low = effective_rate(-less, 1.0, inside)
        upper, lower = up(amplified(more - less, high)), below(amplified(more - less, low))
        if losses.base == Relation.ADD_REMOVE:
            # After nonresponse a replacement may cost a little less than two steps; the bound for two stays valid.
            exact = losses.replace_one >= 2.0 * d
            return Bound(upper, lower if exact else min(upper, lower_any), exact, BY_RATE, scope, holds)
        # Type both: the whole cluster is exchanged instead, and a replaced record costs log(1 + r(e^e - 1)).
        other = effective_rate(more, 1.0, Interval(rho.low - own * more * (1 + 1e-15), rho.high))[0]
        return Bound(min(upper, up(amplified(more, other))), lower_any, False, BY_RATE, scope, holds)

    def _by_take(self, losses: Losses, neighbours: Neighbours, scope: Any, holds: tuple[str, ...]) -> Bound:
        assert self.unit_take is not None
        size = self.sizes[self.target] + (neighbours == Relation.ADD_REMOVE)
        share, takes = self.unit_take / size, np.full(len(self.sizes) - 1, float(self.unit_take))
        rho = self._rho(-swap_costs(losses, self.unit_take, takes))
        high, low = effective_rate(losses.replace_one, share, rho)
        typed = losses.base != Relation.ADD_REMOVE or losses.replace_one == 2.0 * losses.add_remove
        upper = up(amplified(losses.replace_one, high))
        seen = self.least_probability(neighbours)
        lower = below(amplified(losses.replace_one, low)) if typed else below(log_mixture((seen, losses.add_remove)))
        return Bound(upper, min(lower, upper), typed, BY_TAKE, scope, holds)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        # Given the clusters the last stage amplifies by itself, so both bounds hold.
        return min(self._both_stages(base, losses, neighbours, alpha), super().sharper(base, losses, neighbours, alpha))

    def sampled(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        return Design.sampled(self, profile, neighbours)

    def _both_stages(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        if not losses.sizes_protected or self.take == len(self.sizes):
            return 1.0
        if self.unit_take is not None:
            return self._take_curve(base, losses, neighbours, alpha)
        return self._rate_curve(base, alpha) if neighbours == Relation.ADD_REMOVE else 1.0

    def _take_curve(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        assert self.unit_take is not None
        q, m = self.fraction, self.unit_take
        replaced = replacing(base, losses)
        exchanged = profile_of(base.steps(2 * m if losses.base == Relation.ADD_REMOVE else m))
        rest = ((alpha - 1.0) * (1.0 - q), exchanged)
        f = m / (self.sizes[self.target] + (neighbours == Relation.ADD_REMOVE))
        forward = one_source(q * f, ((alpha - 1.0 + f) * q, replaced), rest)
        if neighbours == Relation.REPLACE_ONE:
            return forward
        return max(forward, one_source(q * (f - (alpha - 1.0) * (1.0 - f)), (alpha * q * f, replaced), rest))

    def _rate_curve(self, base: Curve, alpha: float) -> float:
        assert self.unit_rate is not None
        q, r, one = self.fraction, self.unit_rate, profile_of(base)
        own, largest = self.sizes[self.target] - self.capped, max(self.sizes)
        near, far = self._exchanged(base, own, largest, 1), self._exchanged(base, own, largest, 0)
        forward = one_source(q * r, ((alpha - 1.0 + r) * q, one), ((alpha - 1.0) * (1.0 - q), near))
        back = one_source(q * (r - (alpha - 1.0) * (1.0 - r)), (alpha * q * r, one), ((alpha - 1.0) * (1.0 - q), far))
        return max(forward, back)

    def _exchanged(self, base: Curve, own: int, other: int, extra: int) -> Profile:
        """The mean curve over the random number of units that an exchange of clusters moves."""
        counts = [(k + extra, weight) for k, weight in binomial(own + other, self.unit_rate or 0.0) if weight > 1e-18]
        curves = [(weight, profile_of(base.steps(k))) for k, weight in counts if k]
        none = math.fsum(weight for k, weight in counts if not k)
        # Equal data sets differ by (1 - y)_+, which is nothing at thresholds above 1.
        return lambda y: min(1.0, none * max(0.0, 1.0 - y) + math.fsum(weight * h(y) for weight, h in curves) + 1e-16)


@thinned.register(ListedClusters)
@thinned.register(CappedClusters)
def _(design: ClusterSample, p: float) -> Stages | None:
    return stages(design, Poisson(p)) if (design.clusters or 0) <= MOST_CLUSTERS or isinstance(design, ListedClusters) else None


@thinned.register
def _(design: TwoStage, p: float) -> Stages | None:
    return stages(design.stages[0], Poisson(design.unit_rate * p)) if design.unit_rate is not None else None


def _compared(share: AtRate) -> Iterator[Compared]:
    root, rate = share.rate**0.5, share.rate
    first = max(1, min(100, round(100 * root)))
    own = stages(cluster("cluster", SimpleRandom(first), clusters=100, cap=CLUSTER), Poisson(min(1.0, 100 * rate / first)))
    how = SimpleRandom(max(2, round(root * share.clusters)))
    drawn = stages(cluster("cluster", how, clusters=share.clusters, cap=CLUSTER), Poisson(root))
    note = f"rate {root:.3g} at each stage, clusters of up to {CLUSTER}"
    yield Compared("two stages, Poisson inside", own, Relation.ADD_REMOVE, Relation.ADD_REMOVE, note, drawn, root)


def _candidates(asked: SameSize) -> Iterator[Candidate]:
    if asked.clusters is not None:
        column, number, cap = asked.clusters
        root = asked.rate**0.5
        first = cluster(column, SimpleRandom(max(2, round(root * number))), clusters=number, cap=cap)
        inside = Poisson(min(1.0, asked.rate / root))
        yield Candidate(f"two stages, {column} and Poisson inside", stages(first, inside))


def _read(fields: Mapping[str, Any]) -> Stages:
    return stages(*(design_in(each) for each in fields["stages"]), at_most=fields.get("at_most"))


def _of_figures(
    clusters: Annotated[int, "Clusters in all."],
    take: Annotated[int, "The number of clusters drawn."],
    cluster_size: Annotated[
        int | None, "Units in each cluster, without the added one; with --unit-take the least that any cluster may have."
    ] = None,
    unit_rate: Annotated[float | None, "Each unit of a drawn cluster with this probability."] = None,
    unit_take: Annotated[int | None, "Or so many units of each drawn cluster."] = None,
    cap: Annotated[int | None, "Instead of --cluster-size: a public cap on every cluster's size."] = None,
) -> Stages:
    """Two-stage sampling: clusters, then units inside them.

    Example: `dpsurvey amplify two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 0.1 --epsilon 1
    --base add-remove --neighbours add-remove`
    """
    if (cluster_size is None) == (cap is None):
        raise BadValue("give either --cluster-size or --cap")
    check_count("clusters", clusters, at_most=MOST_CLUSTERS)
    if cap is not None:
        check_count("cap", cap)
    if (unit_rate is None) == (unit_take is None):
        raise BadValue("give either unit-rate or unit-take", given=f"unit-rate={unit_rate}, unit-take={unit_take}")
    if cap is not None and unit_take is not None:
        raise BadValue(
            "a cap does not help where a fixed number of units is taken: in a smaller cluster each has a larger share",
            hint="give the smallest public cluster size as cluster-size, or use unit-rate",
        )
    check_count("take", take, at_most=clusters)
    if cluster_size is not None:
        check_count("cluster-size", cluster_size)
    if unit_rate is not None:
        check_rate("unit-rate", unit_rate)
    sizes = None if cluster_size is None else (cluster_size,) * clusters
    first = cluster("cluster", SimpleRandom(take), clusters=clusters, cap=cap, sizes=sizes)
    return stages(first, Poisson(unit_rate) if unit_rate is not None else SimpleRandom(unit_take))


@register(
    "stages",
    compared=_compared,
    candidates=_candidates,
    read=_read,
    commands={"two-stage": _of_figures},
)
def stages(*stages: Design, at_most: float | None = None) -> Stages:
    """Draw by stages: cluster(...) for each but the last, any design of units for the last.

    `at_most` is a public bound on every unit's probability at the last stage, given the clusters that were drawn.

    >>> from dpsurvey.design import cluster
    >>> stages(cluster("psu", Poisson(0.1)), Poisson(0.2)).recipe().columns("cluster")
    ('psu',)
    """
    each = tuple(stages)
    return TwoStage(each, at_most) if _amplifies_twice(each) else Stages(each, at_most)


def _amplifies_twice(stages: tuple[Design, ...]) -> bool:
    """Whether clusters are drawn by simple random sampling, with sizes that are public as far as the last stage needs them."""
    if len(stages) != 2:
        return False
    first, last = stages
    if not isinstance(first, ClusterSample) or not isinstance(first.how, SimpleRandom):
        return False
    by_take = isinstance(last, SimpleRandom) and last.n is not None
    if isinstance(first, ListedClusters):
        return by_take or isinstance(last, Poisson)
    if by_take and first.at_least is not None and isinstance(last, SimpleRandom) and (last.n or 0) > first.at_least:
        return False
    declared = first.at_least if by_take else first.cap if isinstance(last, Poisson) else None
    return declared is not None and first.clusters is not None and first.clusters <= MOST_CLUSTERS
