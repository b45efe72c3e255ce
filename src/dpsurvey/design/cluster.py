"""Cluster sampling: clusters of a public column are drawn by any design, and all their units are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..errors import BadValue
from ..loss.refused import Refused
from ..privacy.profile import Relation
from ..privacy.setting import Setting
from .base import Clustering, Design, Part
from .recipe import Clusters, Step, Strata, fixed_counts
from .selected import SelectedDesign, check_name
from .selection.base import Selection, check_count
from .selection.cluster import CappedClusters
from .srs import SimpleRandom


@dataclass(frozen=True)
class ClusterSample(SelectedDesign):
    """All units of the drawn clusters. With `clusters` in all and never more than `cap` units in one, both public, and
    clusters drawn by simple random sampling, the loss is proved for every population; else sampling earns nothing.

    >>> round(cluster("household", SimpleRandom(n=10), clusters=100, cap=5).largest_probability, 3)
    0.1
    """

    kind: ClassVar[str] = "cluster"
    # Clusters differ in size, so the size of the sample is random.
    fixed_size: ClassVar[bool] = False  # type: ignore[misc]
    sample_relation: ClassVar[Relation] = "add-remove"
    cluster: str
    how: Design
    clusters: int | None = None
    cap: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.how, Design) or any(isinstance(step, Clusters | Strata) for step in self.how.recipe().below()):
            raise BadValue(
                "clusters are drawn by srs, poisson, systematic, pps or with_replacement",
                hint='strata go around it: stratified("region", within=cluster(...)); further stages: stages(cluster(...), ...)',
            )
        check_name("by", self.cluster)
        for name in ("clusters", "cap"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

    @property
    def copies(self) -> int:  # type: ignore[override]
        return self.how.copies

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

    def base_relation(self, setting: Setting) -> Relation:
        # Where sampling earns nothing, the clusters that were drawn are given, and answers are replaced in place.
        amplified = isinstance(self.amplifier(), Selection)
        return super().base_relation(setting) if amplified or setting.neighbours == "add-remove" else "replace-one"

    def amplifier(self) -> Selection | Refused:
        if isinstance(self.how, SimpleRandom) and self.clusters is not None and self.cap is not None:
            return CappedClusters(self.cap, self.clusters, self.how.take_of(self.clusters))
        return Refused(
            "which clusters were drawn shows in the sample unless they are small, and no public cap on their size is declared",
            "clusters= and cap=, the public number of clusters and the most units one can have, with srs of clusters",
            "docs/designs/cluster.md",
        )

    def resized(self, factor: float) -> ClusterSample:
        how = self.how.sized(self.clusters) if isinstance(self.how, SimpleRandom) and self.clusters is not None else self.how
        return replace(self, how=how.resized(factor))

    @property
    def most(self) -> float:
        if isinstance(self.how, SimpleRandom) and self.how.n is not None:
            return self.clusters / self.how.n if self.clusters is not None else 1.0
        return self.how.most

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ClusterSample:
        from . import design_from_dict

        rest = dict(fields)
        return cluster(rest.pop("cluster"), design_from_dict(rest.pop("how")), **rest)


def cluster(by: str, how: Design, *, clusters: int | None = None, cap: int | None = None) -> ClusterSample:
    """Draw clusters of a public column by a design, and take all their units.

    `clusters` is the public number of them on the frame, and `cap` a public bound on the units in one.

    >>> cluster("household", SimpleRandom(n=10)).recipe()
    Clusters(cluster='household', how=Simple(take=10, size=None), inside=None)
    """
    return ClusterSample(by, how, clusters, cap)


def declared_clusters(design: Design) -> tuple[tuple[str | None, str, int | None, int | None], ...]:
    """What a design declares about clusters: stratum (None for the whole frame), column, number of them, cap."""
    from .mixed_strata import MixedStrata

    if isinstance(design, ClusterSample):
        declared = design.clusters is not None or design.cap is not None
        return ((None, design.cluster, design.clusters, design.cap),) if declared else ()
    if isinstance(design, MixedStrata):
        inside = {label: declared_clusters(design.inside(label)) for label in design.labels}
        return tuple((label, *facts[1:]) for label, found in inside.items() for facts in found)
    return ()
