"""Terms: what one survey guaranteed before anything was asked: frame, design, setting, budget. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..design import Amplified, Design, Refused, design_from_dict
from ..design.frame import Frame, label_text
from ..design.written_by_0_8 import with_kind_of_weights
from ..errors import BadValue, NoGuarantee
from ..mechanism import Mechanism, mechanism_for
from ..privacy.budget import Budget, amount
from ..privacy.guarantee import Guarantee, answers_replaced
from ..privacy.measure import Measure
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation, Restriction
from ..privacy.running import Running
from ..privacy.setting import Setting
from ..statistic.base import Statistic
from ..statistic.facts import Facts, WeightRange
from ..statistic.named_answers import answers_in
from ..text.layout import ceiling_text
from .strata_limits import StrataLimits

RECORD_ALONE = "a unit's row, its place on the frame and whether it answers depend on that unit alone"
ANSWERS_ARE_OWN = "a record's answers depend on that record alone: none was filled in from another one"
WEIGHTS_ARE_MADE_OF = "no answer that is named was looked at to make a weight: all weights follow from"
BOUNDED = "values are clipped to the declared bounds; what lies outside them is moved, for everyone alike"
CHECKS_STAY_INSIDE = "nobody outside the office learns whether a check of the rows failed, or how long anything took"
LARGE_ENOUGH = (
    "in every possible frame each list that a fixed number is drawn from (the frame, a stratum, the clusters, a drawn cluster) "
    "is at least that long; a shorter one may be refused"
)
# Behind what was declared: "the declared size of the frame: not compared ...".
NOT_COMPARED = (
    "not compared with the table, because under this setting one record could have decided the answer; "
    "totals and intervals may rest on it"
)
KEY_SECRET = "the key of the draw is secret and was made at random; other surveys that share it are not counted here"
OPENDP = "the noise comes from OpenDP's samplers and is drawn once"


@dataclass(frozen=True)
class Terms:
    """The name, frame, design, setting and budget of a survey; the design is resolved on the frame."""

    name: str
    frame: Frame
    design: Design
    setting: Setting
    budget: Budget
    # The public extremes of the design weights, where units have weights of their own.
    weight_range: tuple[float, float] | None = None
    # The same by category of a column whose groups no record leaves.
    weight_ranges: tuple[WeightRange, ...] = ()
    # Read from a ledger or a release: what an earlier version allowed stays readable.
    on_record: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        given: Any = self.weight_range
        if isinstance(given, Mapping):
            by_label = tuple(WeightRange(label_text(label), *check_weights(pair)) for label, pair in given.items())
            object.__setattr__(self, "weight_ranges", by_label)
            given = (min(each.low for each in by_label), max(each.high for each in by_label)) if by_label else ()
        if given is not None:
            object.__setattr__(self, "weight_range", check_weights(given))
        if self.weight_ranges:
            self.weights_column  # noqa: B018
        if not self.on_record and (refused := self.design.refuses(self.setting)):
            raise NoGuarantee(
                "no guarantee can be made for this design under this setting", because=refused.reason, hint=refused.instead
            )

    @property
    def sizes_compared(self) -> dict[str, Mapping[str, int]]:
        """The declared sizes of categories that are compared with the table: of strata, where every neighbour has the same."""
        design, column = self.design, self.design.strata_column
        fixed = design.keeps_rows(self.setting) and design.keeps_columns(self.setting)
        sizes = self.frame.category_sizes.get(column) if column else None
        return {column: sizes} if fixed and column and sizes and not design.already_drawn else {}

    @property
    def weights_column(self) -> str | None:
        """The column whose categories have ranges of weights of their own: the strata, or one that is held fixed."""
        labels = {each.label for each in self.weight_ranges}
        kept = [column for column in (self.design.strata_column, *self.held) if column]
        fitting = [column for column in kept if labels == set(self.frame.categories.get(column, ()))]
        if labels and not (fitting and self.design.already_drawn and self.design.answers_alone(self.setting)):
            raise BadValue(
                "weight_range= by category must name every category of a column that no record leaves",
                given=", ".join(sorted(labels)),
                hint="the strata of a collected file or a column of fixed=; with the sample protected, records replaced in place",
            )
        return fitting[0] if labels else None

    @property
    def held(self) -> tuple[str, ...]:
        """The columns of groups that are declared as held fixed, and not protected."""
        kept = self.setting.answers_alone or self.design.relation_name(self.setting) is Restriction.HELD
        return self.design.held if kept else ()

    @property
    def not_compared(self) -> tuple[str, ...]:
        """What was declared and not compared with the table, because one record could have decided the answer."""
        design, frame = self.design, self.frame
        same_columns = design.keeps_columns(self.setting)
        found = []
        if frame.size is not None and not design.keeps_rows(self.setting):
            found.append("size of the frame")
        # The sizes of a population cannot be compared with a file of some of its units at all.
        if not (same_columns and design.already_drawn):
            found += [f"sizes of {column!r}" for column in frame.category_sizes if column not in self.sizes_compared]
        if not same_columns and design.clustering() is not None:
            found.append("numbers of clusters")
        if not same_columns and design.states_populations:
            found.append("population sizes by stratum")
        return (f"declared {' and '.join(found)}: {NOT_COMPARED}",) if found else ()

    @property
    def relation(self) -> Relation:
        """The relation under which mechanisms on the sample are calibrated."""
        return Relation.read(self.design.base_relation(self.setting))

    @property
    def mechanism(self) -> type[Mechanism]:
        """The noise that the budget pays for by default."""
        return mechanism_for(self.budget)

    def facts(self, *, respondents_only: bool, noise: type[Mechanism] | None = None) -> Facts:
        """The public facts for statistics, under one kind of noise."""
        secret_size = respondents_only or self.design.responses_only or self.setting.protect == "respondents"
        norm, measure = (noise or self.mechanism).norm, (noise or self.mechanism).measure
        return Facts(
            self.frame,
            self.design,
            self.relation,
            norm,
            secret_size,
            self.weight_range,
            max(1e-6, self.in_sample_budget.epsilon(self.budget.delta)),
            self.design.weights_move(self.setting),
            self.design.reach,
            weights_stay=self.design.answers_alone(self.setting),
            held=tuple(sorted({*self.held, *self.held_fixed})),
            weights_column=self.weights_column,
            weight_ranges=self.weight_ranges,
            weighted_gain=self._weighted_gain(measure),
        )

    def _weighted_gain(self, measure: Measure) -> float:
        """How many times smaller the noise variance of sums weighted by stratum is than of sums that all records move alike."""
        weights = {str(part.label): part.weight for part in self.design.parts()}
        if not weights or not self.strata.amounts(measure):
            return 1.0
        parts = {label: weight / max(weights.values()) for label, weight in weights.items()}
        gain = amount(self.most(measure, parts)) / amount(self.in_sample(measure))
        return max(1.0, gain if measure.needs_delta else gain**2)

    def amplify(self, profile: PrivacyProfile) -> PrivacyProfile:
        """The profile for the protected data; a refused amplification leaves the in-sample profile as it is."""
        if not profile.relation.includes(self.relation):
            raise BadValue(
                "this profile is under another relation than the survey needs",
                given=f"{profile.relation!r}, not {self.relation!r}",
            )
        return self.design.protected(profile, self.setting)

    @cached_property
    def amplification(self) -> Amplified | Refused:
        """How the whole in-sample budget is amplified, or why not."""
        return self.design.amplify(self.in_sample_budget, self.setting)

    @cached_property
    def in_sample_budget(self) -> PrivacyProfile:
        """The most that may be charged to one sample, if nothing else is ever asked."""
        return self.design.invert(self.budget, self.setting)

    @cached_property
    def pure_in_sample_budget(self) -> PrivacyProfile:
        """The most that may be charged to one sample in pure epsilon, with or without a delta in the budget."""
        return self.design.invert(Budget(self.budget.epsilon), self.setting)

    @cached_property
    def gaussian_in_sample_budget(self) -> PrivacyProfile:
        """The most that may be charged to one sample in mu of Gaussian privacy; it needs a delta."""
        return self.design.invert(self.budget, self.setting, Measure.MU)

    def in_sample(self, measure: Measure) -> PrivacyProfile:
        """The most that may be charged to one sample in an accounting measure, by sums that all records move alike."""
        if measure is Measure.MU:
            return self.gaussian_in_sample_budget
        return self.in_sample_budget if measure.needs_delta else self.pure_in_sample_budget

    @cached_property
    def strata(self) -> StrataLimits:
        """What the records of each stratum may lose on the sample: all the same, unless each is amplified by its own rate."""
        return StrataLimits.of(self.design, self.setting, self.budget, self.relation)

    def most(self, measure: Measure, parts: Mapping[str, float]) -> PrivacyProfile:
        """The most that may be charged to one sample by sums that records move by these parts, by stratum."""
        return self.strata.most(measure, parts, self.in_sample(measure))

    def most_of_all(self, measure: Measure) -> PrivacyProfile:
        """Everything that may be charged to one sample, whatever is asked: every stratum up to what its records may lose."""
        return self.strata.most_of_all(measure, self.in_sample(measure))

    def used(self, charged: Running) -> float:
        """The share of what may be charged to one sample that was: the largest of any stratum."""
        assert charged.measure is not None
        return self.strata.used(charged, self.in_sample(charged.measure))

    @cached_property
    def delta_in_sample(self) -> float:
        """The delta that mechanisms on one sample may add up to, beside the whole pure epsilon, so that the budget is kept.

        Both are fixed limits, settled before the first charge: only such limits are a proved filter.
        """
        pure, delta = self.most_of_all(Measure.EPSILON), self.budget.delta
        for tried in (delta * (1.0 - 1e-9), *(delta / 2.0**halving for halving in range(1, 60))):
            if tried > 0.0:
                profile = PrivacyProfile(Measure.EPSILON.curve(amount(pure), tried), self.relation, pure.parts)
                if self.amplify(profile).delta(self.budget.epsilon) <= delta:
                    return tried
        return 0.0

    def resized(self, factor: float) -> Terms:
        """The terms of the same design with `factor` times as many units; weights are as much smaller."""
        if not (isinstance(factor, int | float) and 0.0 < factor < math.inf):
            raise BadValue("a sample is resized by a positive factor", given=f"factor={factor!r}")
        weights = self.weight_range
        smaller = None if weights is None else (max(1.0, weights[0] / factor), max(1.0, weights[1] / factor))
        return replace(self, design=self.design.resized(factor).resolve(self.frame), weight_range=smaller, weight_ranges=())

    @property
    def rate(self) -> float:
        """The largest inclusion probability where sampling amplifies, else 1."""
        return self.amplification.rate if isinstance(self.amplification, Amplified) else 1.0

    def on_sample(self, composed: PrivacyProfile) -> PrivacyProfile:
        """The profile of someone known to be in the sample, under the relation of the setting."""
        return self.design.on_sample(composed, self.setting)

    def guarantee(
        self,
        charged: Running,
        elsewhere: float = 0.0,
        in_worst_sample: float = 0.0,
        more: tuple[str, ...] = (),
        answers: tuple[str, ...] = (),
    ) -> Guarantee:
        """What is guaranteed after these charges on one sample: composed first, amplified once, last.

        `elsewhere` is the amplified loss of other, independent samples of the same survey; it adds to every figure.
        `in_worst_sample` is the loss of someone known to be in whichever sample is worst. `more` are further conditions.
        `answers` are the columns that were read as answers, where these alone are protected; the sentence names them.
        """
        composed = charged.composed
        answer = self.design.amplify(composed, self.setting)
        unit = "epsilon and delta" if charged.delta else (charged.measure or Measure.EPSILON).unit
        steps = [f"{charged.count} charges on one sample compose to one in-sample profile ({unit} adds up, {composed.relation})"]
        notes: tuple[str, ...] = ()
        steps.append(str(answer))
        if isinstance(answer, Amplified):
            notes = answer.holds_when
        if self.design.recipe().fixed_counts and not self.design.keeps_rows(self.setting):
            notes += (LARGE_ENOUGH,)
        if elsewhere:
            steps.append(
                f"other independent samples of this survey add their own amplified losses, {ceiling_text(elsewhere, 6)} in all"
            )
        if self.budget.delta:
            steps.append(
                "the whole budget is kept however the releases are chosen; a running figure, if shares were fixed beforehand"
            )
        return Guarantee(
            whole=self.amplify(composed),
            on_sample=self.on_sample(composed),
            elsewhere=elsewhere,
            epsilon_in_worst_sample=in_worst_sample if elsewhere else 0.0,
            setting=self.setting,
            delta=self.budget.delta,
            rate=self.rate,
            holds_when=(*notes, *more, *self._own_record, BOUNDED, OPENDP, CHECKS_STAY_INSIDE),
            steps=tuple(steps),
            relation_name=self._relation_in_words(answers),
            held=self.held,
        )

    @property
    def _own_record(self) -> tuple[str, ...]:
        """What has to be true of a record, and of its weight."""
        if not self.setting.answers_alone:
            return (RECORD_ALONE,)
        made_of = ", ".join(("the design columns", "who responded", *self.design.weighting_columns))
        own = (ANSWERS_ARE_OWN,) if self.design.reach == 1.0 else ()
        return (*own, *((f"{WEIGHTS_ARE_MADE_OF} {made_of}",) if self.design.weights_are_final else ()))

    def _relation_in_words(self, answers: tuple[str, ...]) -> str:
        if self.setting.answers_alone:
            return answers_replaced(answers, self.design.weighting_columns, self.held)
        return self.design.relation_name(self.setting)

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What the setting leaves without protection, beside what no setting protects."""
        if not self.setting.answers_alone:
            return ()
        columns = "".join(f", {name}" for name in (*self.design.weighting_columns, *self.held))
        return (f"who responded, and of each record the design columns{columns} and the weight: the answers alone are protected",)

    @property
    def held_fixed(self) -> frozenset[str]:
        """The columns that every neighbour has alike, record by record, where the answers alone are protected."""
        if not self.setting.answers_alone:
            return frozenset()
        unit = (self.frame.unit,) if self.frame.unit else ()
        return frozenset((*unit, *self.design.columns_read, *self.design.weighting_columns, *self.held))

    def answers_asked(self, statistics: Iterable[Statistic]) -> tuple[str, ...]:
        """The columns that statistics read as answers, in their order, where the answers alone are protected."""
        if not self.setting.answers_alone:
            return ()
        facts = self.facts(respondents_only=False)
        return answers_in((statistic.query(facts) for statistic in statistics), self.held_fixed)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "name": self.name,
            "frame": self.frame.to_dict(),
            "design": self.design.to_dict(),
            "setting": self.setting.to_dict(),
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
        } | ({"weight_range": self._written_weights} if self.weight_range else {})

    @property
    def _written_weights(self) -> Any:
        return {each.label: [each.low, each.high] for each in self.weight_ranges} or list(self.weight_range or ())

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Terms:
        """The terms that `to_dict` wrote; the frame's table is its path."""
        frame = Frame(**fields["frame"])
        setting = dict(fields["setting"])
        return cls(
            fields["name"],
            frame,
            design_from_dict(with_kind_of_weights(fields["design"])).resolve(frame),
            Setting(**setting),
            Budget(**fields["budget"]),
            read_weights(fields.get("weight_range")),
            on_record=True,
        )


def read_weights(written: Any) -> Any:
    """A range of weights as it was written down: two numbers, or two for each category."""
    return tuple(written) if isinstance(written, list | tuple) else written


def check_weights(weights: Any) -> tuple[float, float]:
    """The declared range of design weights as an ordered pair of positive numbers."""
    try:
        if any(isinstance(end, str | bool) for end in weights):
            raise TypeError
        low, high = (float(end) for end in weights)
    except (TypeError, ValueError):
        raise BadValue("weight_range= takes two numbers", given=repr(weights), hint="weight_range=(lowest, highest)") from None
    if not (0.0 < low <= high and math.isfinite(high)):
        raise BadValue("weights are positive, the lowest first", given=f"weight_range=({low:g}, {high:g})")
    return low, high
