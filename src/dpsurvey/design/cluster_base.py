"""Clusters of a public column that are drawn by any design: what all cluster samples have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from ..errors import BadValue
from ..loss.bound import Bound, Losses, Refused
from ..privacy.relation import Neighbours, Relation
from ..privacy.setting import Setting
from .base import Design
from .checks import check_clusters, check_count, check_name
from .parts import Clustering, DeclaredClusters, Part
from .recipe import Clusters, Step, Strata, Taken
from .srs import SimpleRandom

LISTED = Refused(
    "the sizes of clusters are written down and not compared with the frame",
    "clusters= and cap=, the public number of clusters and the most units one can have",
    "docs/designs/cluster.md",
)


@dataclass(frozen=True)
class ClusterSample(Design):
    """All units of the drawn clusters. Which clusters were drawn shows in the sample unless they are small, so without a
    public cap on their sizes sampling earns nothing.

    >>> from dpsurvey.design import cluster, srs
    >>> cluster("household", srs(n=10), clusters=100).largest_probability
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
        return Clusters(self.cluster, self._how.recipe())

    @property
    def _drawn(self) -> Design:
        """The design of the clusters, on their declared number."""
        return self.how if self.clusters is None else self.how.sized(self.clusters)

    @property
    def _how(self) -> Design:
        """How clusters are drawn: for simple random samples one rule of rounding for what is guaranteed and what is drawn."""
        return self._drawn if isinstance(self.how, SimpleRandom) else self.how

    def parts(self) -> tuple[Part, ...]:
        if isinstance(self.how, SimpleRandom) and self.clusters is None:
            return ()
        # A unit has the chance of its cluster; how many units that makes is not known.
        return tuple(Part(each.label, each.probability, None, None, each.replaced) for each in self._drawn.parts())

    def clustering(self) -> Clustering:
        taken = self.recipe().fixed_counts
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

    def resized(self, factor: float) -> ClusterSample:
        return replace(self, how=self._how.resized(factor))

    @property
    def most(self) -> float:
        if isinstance(self.how, SimpleRandom) and self.how.n is not None:
            return self.clusters / self.how.n if self.clusters is not None else 1.0
        return self.how.most


@dataclass(frozen=True)
class WrittenClusters(ClusterSample):
    """Clusters whose sizes are written down, without the added unit; `unit_in` is the target's, counted from 1, or None."""

    sizes: tuple[int, ...] = ()
    unit_in: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_clusters("sizes", self.sizes, self.take, self.unit_in)

    @property
    @abstractmethod
    def take(self) -> int:
        """How many clusters are drawn."""

    def inside(self, setting: Setting) -> Design | Refused:
        found = super().inside(setting)
        return found if isinstance(found, Refused) else LISTED
