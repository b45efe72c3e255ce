"""What wraps a draw: a design that draws as another one does, and adds something that is not drawn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from ..loss.bound import Losses, Refused
from ..privacy.relation import Neighbours, Relation, Restriction
from ..privacy.setting import Setting
from .base import Design
from .frame import Frame
from .parts import Clustering, Part
from .recipe import Step


class Wrapped(Design):
    """A design with something before or after the draw; what the draw cannot hide, this does not hide either."""

    design: Design

    @abstractmethod
    def around(self, design: Design) -> Design:
        """The same around another design."""

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return self.design.fixed_size

    @property
    def same_size(self) -> bool:  # type: ignore[override]
        return self.design.same_size

    @property
    def sample_relation(self) -> Relation:  # type: ignore[override]
        return self.design.sample_relation

    @property
    def sizes_may_change(self) -> bool:  # type: ignore[override]
        return self.design.sizes_may_change

    @property
    def copies(self) -> int:  # type: ignore[override]
        return self.design.copies

    @property
    def reach(self) -> float:  # type: ignore[override]
        return self.design.reach

    @property
    def fewest_clusters(self) -> int:  # type: ignore[override]
        return self.design.fewest_clusters

    @property
    def public_units(self) -> int | None:
        return self.design.public_units

    def takes(self) -> Mapping[str | None, int]:
        return self.design.takes()

    def recipe(self) -> Step:
        return self.design.recipe()

    def resolve(self, frame: Frame) -> Design:
        return self.around(self.design.resolve(frame))

    def sized(self, size: int | None) -> Design:
        return self.around(self.design.sized(size))

    def parts(self) -> tuple[Part, ...]:
        return self.design.parts()

    def clustering(self) -> Clustering | None:
        return self.design.clustering()

    def insides(self) -> dict[str | None, Design]:
        return {None: self.design}

    @property
    def strata_column(self) -> str | None:
        return self.design.strata_column

    def resized(self, factor: float) -> Design:
        return self.around(self.design.resized(factor))

    @property
    def most(self) -> float:
        return self.design.most

    @property
    def for_any_frame(self) -> bool:  # type: ignore[override]
        return self.design.for_any_frame

    @property
    def rests_on_size(self) -> bool:
        return self.design.rests_on_size

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        return self.design.loss_in_sample(losses, neighbours)

    @property
    def detection_steps(self) -> float:
        return self.design.detection_steps

    @property
    def depends_on_data(self) -> float:
        return self.design.depends_on_data

    def refuses(self, setting: Setting) -> Refused | None:
        return self.design.refuses(setting)

    def base_relation(self, setting: Setting) -> Relation:
        return self.design.base_relation(setting)

    def relation_name(self, setting: Setting) -> Restriction:
        return self.design.relation_name(setting)

    def weights_move(self, setting: Setting) -> bool:
        return self.design.weights_move(setting)

    def keeps_rows(self, setting: Setting) -> bool:
        return self.design.keeps_rows(setting)

    def keeps_columns(self, setting: Setting) -> bool:
        return self.design.keeps_columns(setting)

    def conditions(self, setting: Setting) -> tuple[str, ...]:
        return self.design.conditions(setting)
