"""Design: how units are chosen at random, and what that does to a privacy loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import singledispatch
from typing import Any, ClassVar

from ..errors import BadValue, NoGuarantee
from ..loss.bound import Bound, Losses, Refused
from ..loss.curves import SampledCurve
from ..loss.hypothesis_tests import RedFlag, red_flags
from ..loss.worst_case.contest import Contest
from ..privacy.budget import Budget, largest_in_sample
from ..privacy.curve import Curve
from ..privacy.measure import Measure
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Neighbours, Relation, Restriction
from ..privacy.rounding import times
from ..privacy.setting import Setting
from .checks import check_public
from .frame import Frame
from .parts import Clustering, DeclaredClusters, Part
from .recipe import Step

SECRET_DRAW = "nobody outside the office learns who was drawn, or who was not (a cryptographic generator makes the draw)"
PUBLIC_FIGURES = "rates, sizes, strata, categories and bounds are public figures, not read from the rows"
COLUMNS_FIXED = "strata, clusters, sizes and order are public columns, the same in both neighbours"
OWN_STRATUM = (
    "the design weight of a stratum is a public constant, and a record moves weighted sums by its own weight: units of each "
    "stratum are drawn at its own rate, and lose by their own weight (docs/proofs/amplification.md, each stratum's own loss)"
)
ANY_RELATION = Losses.of(1.0, Relation.REPLACE_ONE)


@dataclass(frozen=True)
class Amplified:
    """A profile for the protected data, the rate it rests on, its theorem, and what it holds under."""

    profile: PrivacyProfile
    rate: float
    theorem: str
    holds_when: tuple[str, ...]
    # Whether the records of each stratum were amplified by the rate of their own.
    apart: bool = False

    def __str__(self) -> str:
        by = f"each stratum by its own rate, at most {self.rate:g}" if self.apart else f"by rate {self.rate:g}"
        return f"amplified once, {by}: {self.theorem}"


class Design(ABC):
    """The random rule of selection: an immutable value of public figures that knows no data.

    Three groups of questions. How it draws: `recipe`, `parts`, `clustering`, `resized`. What it does to the loss of any
    mechanism on the sample: `bound`, and what goes with it. What that means in a survey, under a setting: `refuses`,
    `base_relation`, `amplify`, `protected`, `on_sample`.

    What is not known of a frame is filled in by `resolve`. Who is drawn depends on public columns alone, so replacing the
    answers of one record moves at most one record of the sample: a mechanism on the sample keeps its epsilon, and `bound`
    says whether sampling improves on it. Where the lists themselves change (a record more or less), a design of fixed size
    may change altogether: refused, unless the design says otherwise.
    """

    kind: ClassVar[str]
    # Whether the number of drawn units is fixed by the design, so that estimates may rest on it.
    fixed_size: bool = True
    # Whether the number of drawn units cannot differ between neighbours.
    same_size: bool = False
    # What mechanisms on the sample must hide: where sizes inside the draw are random, a record more or less too.
    sample_relation: Relation = Relation.REPLACE_ONE
    # Whether one record more on the frame leaves a sample that `bound` accounts for.
    sizes_may_change: bool = False
    # Whether the loss holds for every frame that coverage may leave: no size of it was used, or only as a limit.
    for_any_frame: bool = False
    # How often one unit may be in the sample.
    copies: int = 1
    # Whether a unit is drawn anew each time, and so may be drawn several times.
    draws_copies: bool = False
    # How many records one record can change at once: more than one where answers were copied from donors.
    reach: float = 1.0
    # Whether the table is the sample itself, and nothing is drawn from it.
    already_drawn: bool = False
    # Whether the table has a column of population sizes.
    states_populations: bool = False
    # Columns beside those of the design that neighbours agree in, by declaration: groups that no record leaves.
    held: tuple[str, ...] = ()
    # Whether weights are what weighting made of design weights: constants only where the answers alone are protected.
    weights_are_final: bool = False
    # Columns that the weights were made from beside those of the design.
    weighting_columns: tuple[str, ...] = ()
    # The fewest clusters that any stratum of the sample has.
    fewest_clusters: int = 2

    @property
    def repeated(self) -> Mapping[str, Mapping[str, float]]:
        """What design columns of the table repeat of public figures, by stratum (one without a name where there are none):
        "sizes" of the population, and "weights"."""
        return {}

    # How it draws

    @abstractmethod
    def recipe(self) -> Step:
        """The draw, engine-neutral."""

    def resolve(self, frame: Frame) -> Design:
        """The design with the declared sizes of a frame filled in."""
        check_public(self.recipe(), frame)
        return self.sized(frame.size)

    def sized(self, size: int | None) -> Design:
        """The design on a frame, or a stratum, of a declared size."""
        return self

    def parts(self) -> tuple[Part, ...]:
        """The strata, or the whole frame, with inclusion probabilities and weights; empty where each unit has its own."""
        return ()

    def with_columns(self, of_file: Callable[[], Sequence[str]]) -> Design:
        """The design with the columns of a file in the place of patterns for their names; it asks for them only where needed."""
        return self

    def clustering(self) -> Clustering | None:
        """How clusters are drawn; None where units are drawn one by one."""
        return None

    @property
    def public_units(self) -> int | None:
        """The number of units that the design names for the whole frame: in every sample if `fixed_size`, else on average."""
        return None

    def takes(self) -> Mapping[str | None, int]:
        """How many units a sample has, by stratum (None for the whole), where the rows can be compared with that."""
        return self.recipe().fixed_takes

    @property
    def declared_clusters(self) -> tuple[DeclaredClusters, ...]:
        """What is declared about clusters and can be compared with the frame, by stratum."""
        return tuple(
            (each if label is None else each._replace(stratum=label))
            for label, inside in self.insides().items()
            for each in inside.declared_clusters
        )

    def insides(self) -> dict[str | None, Design]:
        """The designs that this one is made of, by stratum; None for what is inside the whole frame."""
        return {}

    def any_inside(self, test: Callable[[Design], bool]) -> bool:
        """Whether something is true of this design, or of one that it is made of, at whatever depth."""
        return test(self) or any(each.any_inside(test) for each in self.insides().values())

    @property
    def strata_column(self) -> str | None:
        """The public column that the strata are made of, if there are any."""
        return next(iter(self.recipe().columns("strata")), None)

    def resized(self, factor: float) -> Design:
        """The same design with `factor` times as many units, or all of them where that is fewer; for planning."""
        raise BadValue(
            f"a design of kind {self.kind!r} has no sampling rate that could be another",
            hint="describe the frame and a design that draws from it",
        )

    @property
    def most(self) -> float:
        """How many times larger the sample could be at most."""
        return 1.0 / self.largest_probability

    @property
    def responses_only(self) -> bool:
        """Whether the sample is what came back of a draw, so that answers are read from a file of responses alone."""
        return any(each.responses_only for each in self.insides().values())

    # What it does to a loss

    @abstractmethod
    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        """The loss of sampling followed by any mechanism with these losses on the sample; or a refusal."""

    @property
    @abstractmethod
    def largest_probability(self) -> float:
        """The largest inclusion probability of any unit; 1 where no public figure bounds it."""

    @property
    def listed_probability(self) -> float:
        """The largest probability of any unit to be on the list of the sample, whether it responds or not."""
        return self.largest_probability

    @property
    def rests_on_size(self) -> bool:
        """Whether the loss rests on how many units there are to draw from, which a record more or less changes."""
        return self.same_size

    def least_probability(self, neighbours: Neighbours) -> float:
        """An inclusion probability of the target that occurs: a lower bound may rest on it."""
        return self.largest_probability

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        """The loss of someone who is known to be in the sample: what one such record moves."""
        fixed = neighbours == Relation.REPLACE_ONE or self.same_size
        # Who is known to be drawn may have been drawn every time.
        return times(self.copies, losses.replace_one if fixed else losses.add_remove)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        """A bound on the hockey-stick divergence at alpha = e^epsilon' that may beat the general one."""
        return 1.0

    def sampled(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        """The whole curve of a sampled mechanism; a design whose curve has a closed form gives that."""
        return PrivacyProfile(SampledCurve(profile.curve, profile.relation, neighbours, self), neighbours)

    @property
    def detection_steps(self) -> float:
        """Records by which a sample with the unit differs from one without it: 1 where units are drawn one by one."""
        return 1.0

    @property
    def depends_on_data(self) -> float:
        """The largest factor by which a unit's inclusion probability may differ between neighbours; 1 for none."""
        return 1.0

    def red_flags(self, epsilon: float = 1.0) -> tuple[RedFlag, ...]:
        """Three ways in which a sample fails to hide anybody, with their numbers: inclusion that is likely, that
        depends on data, that can be detected by an epsilon-private mechanism."""
        return red_flags(self.largest_probability, self.depends_on_data, self.detection_steps, epsilon)

    def contest(self, neighbours: Neighbours) -> Contest | None:
        """Two neighbouring populations with the laws of their samples, where they are few enough to write down."""
        return None

    def contests(self, neighbours: Neighbours) -> list[Contest]:
        """Every pair of populations that may be the worst one."""
        one = self.contest(neighbours)
        return [] if one is None else [one]

    # In a survey, under a setting

    def refuses(self, setting: Setting) -> Refused | None:
        """Why no neighbours under this setting exist for this design, or None."""
        if setting.protect == "respondents" or (setting.neighbours == Relation.REPLACE_ONE and setting.protect != "population"):
            return None
        if self.sizes_may_change and setting.protect == "frame":
            return None
        return Refused(
            "with a record more or less the lists that this design draws from change, and others are drawn in its place",
            'neighbours="replace-one" with the design columns held fixed, or a Poisson design',
            "rule of fixed sizes, docs/concepts/settings.md",
        )

    def base_relation(self, setting: Setting) -> Relation:
        """The relation under which mechanisms on the sample must be private, so that the setting is kept."""
        in_clusters = setting.neighbours == Relation.REPLACE_ONE and self.clustering() is not None
        if in_clusters and isinstance(self.bound(ANY_RELATION, Relation.REPLACE_ONE), Refused):
            # Where sampling earns nothing, the clusters that were drawn are given, and answers are replaced in place.
            return Relation.REPLACE_ONE
        return self.sample_relation if setting.level < 2 else setting.neighbours

    def relation_name(self, setting: Setting) -> Restriction:
        """The name of the relation where it is weaker than its plain words."""
        free = setting.protect == "respondents" or setting.neighbours != Relation.REPLACE_ONE
        # Where the answers alone are protected, that is what the setting itself says.
        return Restriction.NONE if free or setting.answers_alone else Restriction.IN_PLACE

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns that the design itself reads: strata, clusters, sizes, order and weights."""
        recipe = self.recipe()
        return tuple(
            dict.fromkeys((*recipe.used, *(name for role in ("strata", "size", "rate") for name in recipe.columns(role))))
        )

    def answers_alone(self, setting: Setting) -> bool:
        """Whether mechanisms may count on neighbours of the sample that differ in the answers of one record, and in nothing
        that it was drawn, weighted or grouped by.

        Not where sampling is inside the mechanism: what that earns rests on one record in the place of another.
        """
        kept = setting.answers_alone or (setting.level == 2 and Restriction.IN_PLACE.covers(self.relation_name(setting)))
        by_parts = any(part.take is not None for part in self.parts())
        return kept and not (by_parts or self.weights_move(setting) or self.responses_only or self.clustering() is not None)

    def weights_move(self, setting: Setting) -> bool:
        """Whether one changed record may change the weights of all others under this setting."""
        # Weights of each unit's own come from totals of the frame: constants only where it is held fixed, or where the
        # relation on the frame itself keeps the design columns.
        return not self.parts() and setting.level >= 2 and not setting.weights_fixed

    def keeps_rows(self, setting: Setting) -> bool:
        """Whether all neighbours have tables of one length, so that a comparison with declared sizes tells none from another."""
        return setting.weights_fixed or (setting.protect == "frame" and setting.neighbours == Relation.REPLACE_ONE)

    def keeps_columns(self, setting: Setting) -> bool:
        """Whether all neighbours also agree in the columns that the design draws by: strata, clusters, sizes and order."""
        return setting.weights_fixed or (self.keeps_rows(setting) and bool(self.relation_name(setting)))

    def compares(self, setting: Setting) -> frozenset[str]:
        """What is compared with the rows under this setting and could come out otherwise under another one.

        "rows" stands for numbers of rows, "columns" for strata and clusters.
        """
        columns = self.keeps_columns(setting) and (self.strata_column is not None or self.clustering() is not None)
        return frozenset(name for name, found in (("rows", self.keeps_rows(setting)), ("columns", columns)) if found)

    def inside(self, setting: Setting) -> Design | Refused:
        """What lies between the protected data and the mechanism, as a design whose bound holds for the setting; or why
        nothing amplifies."""
        return outside_sampling(setting) if "sampling" not in setting.stages_inside else self

    def by_stratum(self, setting: Setting) -> Mapping[str, Design]:
        """The design of each stratum, where neighbours differ in a record that is and stays in one stratum; else empty.

        Such a record loses what its own stratum's design makes of what the records of that stratum lose on the sample.
        """
        return {}

    def of_strata(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        """The profile with what it says of strata, where that may be used: where records are known to stay in theirs."""
        return profile if self.by_stratum(setting) else profile.whole

    def conditions(self, setting: Setting) -> tuple[str, ...]:
        """What a bound rests on in a survey, beside its own conditions."""
        return (COLUMNS_FIXED,) if self.relation_name(setting) else ()

    def amplify(self, profile: PrivacyProfile, setting: Setting) -> Amplified | Refused:
        """The profile for the protected data, from the composed in-sample profile; or a refusal."""
        if profile.is_amplified:
            # One sample amplifies once; a second time would be a claim about a sample that was never drawn.
            raise BadValue(
                "this profile was amplified already", because="one sample amplifies once, after everything was composed"
            )
        inside = self.inside(setting)
        if isinstance(inside, Refused):
            return inside
        bound = inside.bound(Losses.of(1.0, profile.relation), setting.neighbours)
        if isinstance(bound, Refused):
            return bound
        if bound.scope != "every population":
            return Refused(
                "the loss is known for this population alone, and a survey's guarantee must hold for every one",
                "a design whose loss is proved for every population: srs, poisson, Sampford or pivotal with a public size",
                bound.source,
            )
        notes = tuple(dict.fromkeys((SECRET_DRAW, PUBLIC_FIGURES, *self.conditions(setting), *bound.holds_when)))
        kept = self.of_strata(profile, setting)
        if kept.parts:
            notes = (*notes, OWN_STRATUM)
        amplified = inside.sampled(kept, setting.neighbours)
        return Amplified(amplified, inside.largest_probability, bound.source, notes, bool(kept.parts))

    def protected(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        """The profile for the protected data: amplified, or that of someone in the sample where amplification is refused."""
        answer = self.amplify(profile, setting)
        return answer.profile if isinstance(answer, Amplified) else self.on_sample(profile, setting)

    def on_sample(self, profile: PrivacyProfile, setting: Setting) -> PrivacyProfile:
        """The profile of someone known to be in the sample, under the relation of the setting.

        Unamplified, a mechanism on the sample keeps its epsilon under every setting that the design does not refuse:
        a changed record changes the drawn sample by at most one step of `base_relation` (docs/proofs/amplification.md), which
        costs two steps of add-remove where it is a replacement, for each time the record may have been drawn.
        """
        if setting.neighbours == Relation.ADD_REMOVE and self.sizes_may_change:
            # The sample may keep its size, and another unit takes the place of the one that is gone.
            return PrivacyProfile(profile.curve.steps(2 * self.copies), setting.neighbours)
        kept = profile if setting.neighbours == Relation.ADD_REMOVE else profile.to_replace_one()
        return PrivacyProfile(kept.curve.steps(self.copies) if self.copies > 1 else kept.curve, setting.neighbours)

    def invert(self, budget: Budget, setting: Setting, measure: Measure | None = None) -> PrivacyProfile:
        """The inverse of amplification: the most that may be spent on one sample so that the budget is kept."""
        return largest_in_sample(budget, self.base_relation(setting), lambda profile: self.protected(profile, setting), measure)

    # In writing

    def in_words(self, unit: str = "unit") -> str:
        """The design as people say it, in reports; `unit` is what it draws. Without words of its own, its kind and figures."""
        plain = {name: value for name, value in self.to_dict().items() if not isinstance(value, dict | list)}
        figures = ", ".join(f"{name} {value}" for name, value in plain.items() if name != "kind")
        return f"{self.kind} ({figures})" if figures else self.kind

    # Fields that `resolve` fills in from the frame; a survey writes them with its frame.
    of_frame: ClassVar[tuple[str, ...]] = ()
    # What fields have where nothing is written of them.
    unwritten: ClassVar[Mapping[str, Any]] = {}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form of what was asked for; `design_from_dict` reads it back."""
        return {name: value for name, value in self._written("to_dict").items() if name not in self.of_frame}

    def figures(self) -> dict[str, Any]:
        """JSON-ready form with the public figures of the frame too: all that a loss is computed from."""
        return self._written("figures")

    def _written(self, inner: str) -> dict[str, Any]:
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.init}  # type: ignore[arg-type]
        said = {name: value for name, value in given.items() if value is not None and value != self.unwritten.get(name)}
        return {"kind": self.kind} | {name: _plain(value, inner) for name, value in said.items()}


def _plain(value: Any, inner: str) -> Any:
    if isinstance(value, Design):
        return getattr(value, inner)()
    if isinstance(value, Mapping):
        return {key: _plain(each, inner) for key, each in value.items()}
    return [_plain(each, inner) for each in value] if isinstance(value, tuple) else value


@singledispatch
def thinned(design: Design, p: float) -> Design | None:
    """The design that draws those of a sample that are kept, each by itself with probability p, where it is another one.

    Registered beside the design that it gives; None for all others.
    """
    return None


def amount_in_words(n: int | None, rate: float | None, unit: str) -> str:
    """How many are drawn, for people.

    >>> amount_in_words(4000, None, "unit"), amount_in_words(None, 0.1, "cluster")
    ('4,000 units', '0.1 of the clusters')
    """
    return f"{n:,} {unit}s" if n is not None else f"{rate} of the {unit}s"


def outside_sampling(setting: Setting) -> Refused:
    """The refusal for settings whose protected data lies downstream of sampling."""
    return Refused(
        f"the {setting.protect} data is protected, so sampling is not inside the mechanism",
        'protect="frame" guarantees less to those who are known to be sampled, and amplifies',
        "Bailie and Drechsler, Table 4.2",
    )


class Undrawn(Design):
    """A rule with public figures and a loss, for `amplify`, that no survey draws by."""

    fixed_size = False

    def recipe(self) -> Step:
        raise NoGuarantee(
            f"nothing is drawn by {self.kind!r}",
            because="it says what a rule of sample sizes does to a loss, and not which units to take",
            hint="amplify(...) shows the loss; a survey draws by a design with public sizes or rates",
        )

    def refuses(self, setting: Setting) -> Refused | None:
        return Refused(
            "this rule does not say which units are taken", "a design with public sizes or rates", "docs/designs/README.md"
        )
