"""Designs whose privacy rests on a Selection: the rules that are the same for all of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from ..errors import BadValue, NoGuarantee
from ..loss.refused import Refused
from ..privacy.profile import PrivacyProfile, Relation
from ..privacy.setting import Setting
from .amplify import amplify_profile
from .base import PUBLIC_FIGURES, SECRET_DRAW, Amplified, Design, Part, Values, outside_sampling, refuse_amplified
from .frame import Frame
from .recipe import Step
from .selection.base import Bound, Losses, Selection

IN_PLACE = "a record's answers replaced, its design columns fixed"
COLUMNS_FIXED = "strata, clusters, sizes and order are public columns, the same in both neighbours"


class SelectedDesign(Design):
    """A design that is described by a recipe and by the Selection that its privacy loss is computed from.

    Who is drawn depends on public columns alone, so replacing the answers of one record moves at most one record of
    the sample: a mechanism on the sample keeps its epsilon, and the Selection says whether sampling improves on it.
    Where the lists themselves change (a record more or less), a fixed-size design may change altogether: refused.
    """

    fixed_size: ClassVar[bool] = True  # type: ignore[misc]
    # What mechanisms on the sample must hide: where sizes inside the draw are random, a record more or less too.
    sample_relation: ClassVar[Relation] = "replace-one"
    # Whether one record more on the frame leaves a sample that the Selection accounts for.
    sizes_may_change: ClassVar[bool] = False

    @abstractmethod
    def recipe(self) -> Step:
        """The draw, engine-neutral."""

    @abstractmethod
    def amplifier(self) -> Selection | Refused:
        """The selection whose loss holds for every unit of the frame, or why there is none."""

    def selection(self) -> Selection:
        answer = self.amplifier()
        if isinstance(answer, Refused):
            raise NoGuarantee("no loss is proved for this design", because=answer.reason, hint=answer.instead)
        return answer

    @property
    def largest_probability(self) -> float:
        answer = self.amplifier()
        return 1.0 if isinstance(answer, Refused) else answer.inclusion

    def parts(self) -> tuple[Part, ...]:
        return ()

    def variance(self, values: Mapping[str | None, Values]) -> float:
        raise BadValue(
            "the classical variance of this design needs more than the values of its strata",
            hint="dpsurvey.classical.Sample takes weights, clusters and joint probabilities",
        )

    @property
    def strata_column(self) -> str | None:
        return next(iter(self.recipe().columns("strata")), None)

    def resolve(self, frame: Frame) -> SelectedDesign:
        check_public(self.recipe(), frame)
        return self

    def refuses(self, setting: Setting) -> Refused | None:
        if setting.protect == "respondents" or (setting.neighbours == "replace-one" and setting.protect != "population"):
            return None
        if self.sizes_may_change and setting.protect == "frame":
            return None
        return Refused(
            "with a record more or less the lists that this design draws from change, and others are drawn in its place",
            'neighbours="replace-one" with the design columns held fixed, or a Poisson design',
            "rule of fixed sizes, docs/settings.md",
        )

    def base_relation(self, setting: Setting) -> Relation:
        return self.sample_relation if setting.level < 2 else setting.neighbours

    def weights_move(self, setting: Setting) -> bool:
        # Weights of each unit's own come from totals of the frame: constants only where it is held fixed, or where the
        # relation on the frame itself keeps the design columns.
        return not self.parts() and setting.level >= 2 and not setting.weights_fixed

    def relation_name(self, setting: Setting) -> str:
        return IN_PLACE if setting.protect != "respondents" and setting.neighbours == "replace-one" else ""

    def known(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        if setting.neighbours == "add-remove" and self.sizes_may_change:
            # The sample may keep its size, and another unit takes the place of the one that is gone.
            return PrivacyProfile(profile.curve.steps(2 * self.copies), setting.neighbours)
        return super().known(profile, setting)

    def protected(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        answer = self.amplify(profile, setting)
        if isinstance(answer, Amplified):
            return answer.profile
        # Without amplification a replaced record costs two steps of add-remove, for each time it may have been drawn.
        kept = profile.to_replace_one() if setting.neighbours == "replace-one" else profile
        return PrivacyProfile(kept.curve.steps(self.copies) if self.copies > 1 else kept.curve, setting.neighbours)

    def amplify(self, profile: PrivacyProfile, setting: Setting) -> Amplified | Refused:
        refuse_amplified(profile)
        if "sampling" not in setting.stages_inside:
            return outside_sampling(setting)
        selection = self.amplifier()
        if isinstance(selection, Refused):
            return selection
        bound = selection.bound(Losses.of(1.0, profile.relation), setting.neighbours)
        if isinstance(bound, Bound) and bound.scope != "every population":
            return Refused(
                "the loss is known for this population alone, and a survey's guarantee must hold for every one",
                "a design whose loss is proved for every population: srs, poisson, Sampford or pivotal with a public size",
                bound.source,
            )
        answer = bound if isinstance(bound, Refused) else amplify_profile(selection, profile, neighbours=setting.neighbours)
        if isinstance(answer, Refused):
            return answer
        assert isinstance(bound, Bound)
        notes = (SECRET_DRAW, PUBLIC_FIGURES, COLUMNS_FIXED, *bound.holds_when)
        return Amplified(answer, selection.inclusion, bound.source, tuple(dict.fromkeys(notes)))

    def to_dict(self) -> dict[str, Any]:
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.init}  # type: ignore[arg-type]
        return {"kind": self.kind} | {name: _plain(value) for name, value in given.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Design):
        return value.to_dict()
    return list(value) if isinstance(value, tuple) else value


def check_name(what: str, column: str) -> None:
    """Refuse what is not the name of a column."""
    if not isinstance(column, str) or not column:
        raise BadValue(f"{what} is the name of a public column", given=f"{what}={column!r}")


def check_public(recipe: Step, frame: Frame) -> None:
    """Refuse a design column that the frame does not declare as public."""
    labelled = set(frame.categories) | set(frame.public)
    for role in ("cluster", "size", "rate", "order"):
        for column in recipe.columns(role):
            if column not in labelled:
                raise BadValue(
                    f"the design uses {column!r}, which the frame does not declare as public",
                    because="who is drawn would depend on confidential values, and no guarantee covers that",
                    hint=f'declare Frame(..., public=["{column}"]) if the column is published or known to all',
                )
