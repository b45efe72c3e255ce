"""Multi-stage sampling: clusters, then clusters or units inside each drawn one, each stage by any design."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..errors import BadValue
from ..loss.refused import Refused
from ..privacy.profile import Relation
from ..privacy.setting import Setting
from .base import Clustering, Design, Part
from .cluster import ClusterSample
from .poisson import Poisson
from .pps import ProportionalToSize
from .proportional import ProportionalShare
from .recipe import Clusters, Repeated, Step
from .selected import SelectedDesign
from .selection.base import Selection
from .selection.independent import Independent
from .selection.proportional import Proportional
from .systematic import SystematicSample
from .unequal import UnequalPoisson


@dataclass(frozen=True)
class Stages(SelectedDesign):
    """Clusters by the first stage; inside each drawn one, independently, the next stage; and so on.

    A unit's probability is the product over its stages. Given what the earlier stages drew, the last one amplifies by
    its own rate, if it draws units one by one with a bounded rate; no other multi-stage loss is proved.

    >>> stages(ClusterSample("psu", Poisson(0.1)), Poisson(0.2)).largest_probability
    0.2
    """

    kind: ClassVar[str] = "stages"
    fixed_size: ClassVar[bool] = False  # type: ignore[misc]
    sample_relation: ClassVar[Relation] = "add-remove"
    stages: tuple[Design, ...]

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
        if not isinstance(self.stages[-1], Design) or isinstance(self.stages[-1], Stages):
            raise BadValue("the last stage is a design of units, or of clusters that are taken whole")

    @property
    def copies(self) -> int:  # type: ignore[override]
        return math.prod(each.copies for each in self.stages)

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

    def base_relation(self, setting: Setting) -> Relation:
        amplified = isinstance(self.amplifier(), Selection)
        return super().base_relation(setting) if amplified or setting.neighbours == "add-remove" else "replace-one"

    @staticmethod
    def _rate_known(last: Design) -> bool:
        return isinstance(last, Poisson | UnequalPoisson | ProportionalShare)

    def amplifier(self) -> Selection | Refused:
        last = self.stages[-1]
        if self.copies == 1 and self._rate_known(last):
            if isinstance(last, Poisson):
                return Independent((last.rate,))
            if isinstance(last, UnequalPoisson):
                return Independent((last.at_most,))
            if isinstance(last, ProportionalShare):
                return Proportional(float(last.rate), "random")
        sized = any(isinstance(each, ClusterSample) and isinstance(each.how, ProportionalToSize) for each in self.stages)
        reasons = (
            "a cluster may be drawn several times" if self.copies > 1 else "",
            "clusters drawn in proportion to size are few and likely" if sized else "",
            "systematic units from a sorted list come in few fixed sets" if isinstance(last, SystematicSample) else "",
            "" if self._rate_known(last) else "no rate of the last stage is public for every cluster",
        )
        return Refused(
            "; ".join(filter(None, reasons)),
            "Poisson sampling with a public rate at the last stage; it amplifies by that rate",
            "docs/designs/stages.md, further stages",
        )

    def resized(self, factor: float) -> Stages:
        """More or fewer clusters, as many units in each; where all clusters are drawn, more units in each."""
        first = self.stages[0]
        here = min(factor, first.most)
        rest = factor / here
        last = self.stages[-1] if rest <= 1.0 + 1e-12 else self.stages[-1].resized(rest)
        return replace(self, stages=(first.resized(here), *self.stages[1:-1], last))

    @property
    def most(self) -> float:
        last = self.stages[-1]
        return self.stages[0].most * (last.most if self._rate_known(last) else 1.0)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Stages:
        from . import design_from_dict

        return cls(tuple(design_from_dict(each) for each in fields["stages"]))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "stages": [each.to_dict() for each in self.stages]}


def stages(*each: Design) -> Stages:
    """Draw by stages: cluster(...) for each but the last, any design of units for the last.

    >>> stages(ClusterSample("psu", Poisson(0.1)), Poisson(0.2)).recipe().columns("cluster")
    ('psu',)
    """
    return Stages(tuple(each))
