"""A file that was collected already: every row is in the sample, with its stratum, cluster and weight as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Unpack

from ..errors import BadValue, did_you_mean
from ..loss.bound import Bound, Losses, Refused
from ..privacy.relation import Neighbours, Relation, Restriction
from ..privacy.setting import Setting
from ..text.layout import ceiling_text
from .base import Design
from .checks import check_count, check_names
from .columns import NO_COLUMNS, ColumnKeys, DesignColumns, named_columns
from .compared import AtRate, Compared
from .frame import Frame
from .parts import Clustering, Part
from .recipe import Step, Taken
from .registry import register
from .replicates import ReplicateKeys, Replicates, replicates_of, without_replicates

# Two clusters in each stratum, or ten in all, are the least that a variance between clusters is taken from.
FEWEST = {True: 2, False: 10}
BY_STRATUM = "by stratum"
# What the weights of a file may be, and what that means.
WEIGHTS = {
    "design": "one over the probability of the draw",
    BY_STRATUM: "the same in each stratum, as public sizes make them",
    "final": "made of design weights, who responded and the columns that calibrated_on= names",
    "adjusted": "made otherwise, such as by looking at answers",
}
FINAL = (
    "final weights were computed from who responded and from the columns they were calibrated on, so whoever gives way to "
    "somebody else, or changes such a column, moves every weight",
    'Setting("answers", given="respondents", neighbours="replace-one"), the default for final weights; or release with the '
    "design weights, and calibrate after the noise",
    "docs/designs/collected.md",
)
IN_THE_PAST = (
    "the file is the data that is protected: who is in it was decided, and perhaps seen, before",
    "spend the budget on the file as it is; to amplify, describe and draw the sample with a secret draw",
    "docs/designs/collected.md",
)


class FileKeys(ColumnKeys[str], ReplicateKeys, total=False):
    """The keyword arguments that name columns of a collected file."""


@dataclass(frozen=True)
class CollectedFile(Design):
    """A collected file, by the columns that say how it was drawn; the draw is in the past and amplifies nothing.

    `n` is the public number of records, in all or by stratum; with the sizes of the frame it makes the weights, if no
    column does, or if the column only repeats them (`weights_are="by stratum"`). `psus` is the public number of clusters, the
    smallest of any stratum. `weights_are` says what the weights are, and `calibrated_on` names all columns that final ones were
    made from. `fixed` names columns of groups that are held fixed like those of the design: no record leaves its group, and
    which group it is in is not protected.

    >>> collected(strata="region", weights="w", weights_are="design").recipe()
    Taken(stratum='region', psu=None, ssu=None, weight='w', population=None)
    """

    kind: ClassVar[str] = "collected"
    already_drawn = True
    columns: DesignColumns[str] = NO_COLUMNS
    n: int | Mapping[str, int] | None = field(default=None, hash=False)
    psus: int | None = None
    weights_are: str | None = None
    imputed: str | None = None
    donor_uses: int | None = None
    fixed: tuple[str, ...] = ()
    calibrated_on: tuple[str, ...] | None = None
    replicates: Replicates | None = None
    labels: tuple[str, ...] = field(default=(), compare=False)
    sizes: Mapping[str, int] | None = field(default=None, compare=False)
    size: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.columns.probs is not None:
            raise BadValue(
                "a collected file takes weights, and no inclusion probabilities",
                given=f"probs={self.columns.probs!r}",
                hint="give the file a column of one over the probability, and name it in weights=",
            )
        if len(self.columns.populations) > 1:
            raise BadValue(
                "a collected file takes the population sizes of its first stage alone",
                given=f"fpc={self.columns.fpc!r}",
                hint="fpc is one column: the number of clusters, or of units, that the stratum has",
            )
        self._check_weights()
        if self.imputed not in (None, "public rule", "donors", "model"):
            raise BadValue(f"unknown kind of imputation {self.imputed!r}", hint="public rule, donors or model")
        if self.donor_uses is not None:
            check_count("donor_uses", self.donor_uses)
        if self.psus is not None:
            check_count("psus", self.psus)
            if self.psus < 2:
                raise BadValue("a variance between clusters needs at least 2 of them", given="psus=1", hint="merge strata first")
        if self.replicates is not None and self.columns.weights is None:
            raise BadValue(
                "replicate weights need weights, the column of the weights that they vary",
                because="a variance is how far estimates with replicate weights lie from the estimate",
                hint="weights= beside replicates=",
            )
        if self.columns.psu is None and self.psus is not None:
            raise BadValue("psus needs psu, the column of clusters", given=f"psus={self.psus}")
        if not all(isinstance(each, str) and each for each in self.fixed):
            raise BadValue("fixed= names columns, in a list", given=repr(self.fixed), hint='fixed=["sex"]')
        object.__setattr__(self, "fixed", tuple(dict.fromkeys(self.fixed)))
        for taken in self.n.values() if isinstance(self.n, Mapping) else [self.n]:
            if taken is not None:
                check_count("n", taken)

    def _check_weights(self) -> None:
        """Whether the file says what its weights are, and of final ones what they were made from."""
        if self.weights_are is not None and self.weights_are not in WEIGHTS:
            raise BadValue(f"unknown kind of weights {self.weights_are!r}", hint=did_you_mean(str(self.weights_are), WEIGHTS))
        if self.columns.weights is not None and self.weights_are is None:
            raise BadValue(
                "a file with weights has to say what they are",
                because="what one record can move depends on what its weight was made from",
                hint="; ".join(f'weights_are="{kind}": {what}' for kind, what in WEIGHTS.items()),
            )
        if self.weights_are != "final":
            if self.calibrated_on is not None:
                raise BadValue("calibrated_on= is about final weights", hint='weights_are="final"')
            return
        if self.columns.weights is None:
            raise BadValue("final weights are a column of the file", hint="name it in weights=")
        if self.calibrated_on is None:
            raise BadValue(
                "final weights need calibrated_on=, every column that they were made from beside those of the design",
                because="such a column is not protected, and no answer that is released may be one of them",
                hint='calibrated_on=["sex", "age"]; [] where weights were made from the design and from who responded alone',
            )

    def resolve(self, frame: Frame) -> CollectedFile:
        strata = self.columns.strata
        labels = frame.labels(strata) if strata else ()
        sizes = frame.category_sizes.get(strata) if strata else None
        if isinstance(self.n, Mapping) and set(self.n) != set(labels):
            raise BadValue("n by stratum must name every declared stratum, and no other", given=", ".join(map(str, self.n)))
        by_stratum = isinstance(self.n, Mapping) and sizes is not None
        if strata is not None and self.columns.weights is None and not by_stratum:
            raise BadValue(
                "the records of a stratified file need weights",
                because="without them each would count alike, whatever its stratum was sampled at",
                hint="weights=; or n= by stratum beside the sizes of the strata; if all weights are equal, leave out strata=",
            )
        if self.weights_are == BY_STRATUM and (strata is None or not by_stratum or self.columns.psu is not None):
            raise BadValue(
                "weights by stratum follow from public sizes: N_h over n_h",
                hint="strata=, n= by stratum, the sizes of the strata in categories=, and no psu=",
            )
        for column in self.fixed:
            frame.labels(column)
        resolved = replace(self, labels=labels, sizes=sizes, size=frame.size)
        if self.replicates is not None:
            self.replicates.check_strata(len(labels))
        for part in resolved.parts():
            if part.take is not None and part.size is not None and part.take > part.size:
                raise BadValue("the file cannot hold more units than there are", given=f"n={part.take}, size={part.size}")
        return resolved

    @property
    def _own_weights(self) -> bool:
        """Whether records have weights of their own, from a column."""
        return self.columns.weights is not None and self.weights_are != BY_STRATUM

    @property
    def repeated(self) -> Mapping[str, Mapping[str, float]]:
        # A column of sizes beside clusters counts clusters; beside records alone it counts units.
        sizes = self._takes if self.columns.fpc is not None and self.columns.psu is None else {}
        weights = self._takes if self.columns.weights is not None and not self._own_weights else {}
        return {
            "sizes": {label or "": float(size) for label, (_, size) in sizes.items()},
            "weights": {label or "": size / take for label, (take, size) in weights.items()},
        }

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return not self._own_weights and self.columns.psu is None and bool(self._takes)

    @property
    def _takes(self) -> dict[str | None, tuple[int, int]]:
        """Units taken and units there are, by stratum, where all of that is declared."""
        if isinstance(self.n, Mapping) and self.sizes is not None:
            return {label: (int(self.n[label]), int(self.sizes[label])) for label in self.labels}
        if isinstance(self.n, int) and self.columns.strata is None and self.size is not None:
            return {None: (self.n, self.size)}
        return {}

    @property
    def public_units(self) -> int | None:
        return self.takes().get(None)

    def takes(self) -> Mapping[str | None, int]:
        if isinstance(self.n, Mapping):
            return {str(label): int(taken) for label, taken in self.n.items()}
        return {} if self.n is None else {None: self.n}

    @property
    def fewest_clusters(self) -> int:  # type: ignore[override]
        return self.psus or 2

    @property
    def states_populations(self) -> bool:  # type: ignore[override]
        return self.columns.fpc is not None

    def parts(self) -> tuple[Part, ...]:
        if self._own_weights:
            return ()
        if self._takes:
            return tuple(Part(label, take / size, take, size) for label, (take, size) in self._takes.items())
        # Equal weights of unknown size: means need no more, and no correction for a finite population is made.
        return (Part(None, 1.0, None, None, replaced=True),)

    def with_columns(self, of_file: Callable[[], Sequence[str]]) -> CollectedFile:
        if self.replicates is None or not isinstance(self.replicates.columns, str):
            return self
        return replace(self, replicates=self.replicates.resolved(of_file(), self.columns.weights))

    def clustering(self) -> Clustering | None:
        if self.columns.psu is None:
            return None if self.replicates is None else Clustering(None, None, self.labels, False, self.replicates)
        return Clustering(self.psus or FEWEST[bool(self.labels)], None, self.labels, False, self.replicates)

    @property
    def strata_column(self) -> str | None:
        return self.columns.strata

    @property
    def weights_are_final(self) -> bool:  # type: ignore[override]
        return self.weights_are == "final"

    @property
    def weighting_columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.calibrated_on or ()

    def in_words(self, unit: str = "unit") -> str:
        return "a file that was collected already"

    def recipe(self) -> Step:
        return Taken(self.columns, self.replicates)

    @property
    def largest_probability(self) -> float:
        return 1.0

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        own = self.loss_in_sample(losses, neighbours)
        return Refused(*IN_THE_PAST, f"the mechanism's own loss, {ceiling_text(own, 6)}" if math.isfinite(own) else "")

    def inside(self, setting: Setting) -> Design | Refused:
        return Refused(*IN_THE_PAST)

    @property
    def held(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.fixed

    def relation_name(self, setting: Setting) -> Restriction:
        name = super().relation_name(setting)
        return Restriction.HELD if name is Restriction.IN_PLACE and self.fixed else name

    def refuses(self, setting: Setting) -> Refused | None:
        if setting.level < 2:
            return Refused(*IN_THE_PAST)
        if self.weights_are_final and not setting.answers_alone:
            return Refused(*FINAL)
        if self.columns.weights is not None and self.weights_are == "adjusted":
            return Refused(
                "these weights were computed from the answers of all, so one record moves every weight",
                "release with the design weights; post-stratify, rake or adjust for nonresponse after the noise, at no cost",
                "docs/guides/weighting.md",
            )
        if self.imputed == "model" or (self.imputed == "donors" and self.donor_uses is None):
            return Refused(
                "missing answers were filled in from other records, and nothing bounds how many answers one person moves",
                "leave them missing and fill with noisy cell means; or donor_uses=, a cap kept by a stable rule (costs 1 + 2k)",
                "docs/guides/weighting.md",
            )
        if self.fixed and not (setting.answers_alone or super().relation_name(setting)):
            return Refused(
                "columns can be held fixed only where the answers of a record are replaced and its design columns stay",
                'protect="sample" with neighbours="replace-one"; or leave out fixed=, and records may change group',
                "docs/designs/collected.md",
            )
        if self.n is not None and not self.keeps_rows(setting):
            return Refused(
                "n= is published and compared with the file, and one record more or less changes it",
                'neighbours="replace-one", under which n stays; or leave out n=, and count() estimates it with noise',
                "rule of fixed sizes, docs/concepts/settings.md",
            )
        if isinstance(self.n, Mapping) and not self.keeps_columns(setting):
            return Refused(
                "n= by stratum is published and compared with the file, and a respondent may give way to one of another stratum",
                'protect="sample", under which a record keeps its stratum; or weights= instead of n=',
                "rule of fixed sizes, docs/concepts/settings.md",
            )
        return None

    def keeps_rows(self, setting: Setting) -> bool:
        # The table is the sample itself, or its respondents: a fixed frame does not fix it.
        return setting.neighbours == Relation.REPLACE_ONE

    def keeps_columns(self, setting: Setting) -> bool:
        return setting.answers_alone or (self.keeps_rows(setting) and bool(self.relation_name(setting)))

    @property
    def reach(self) -> float:  # type: ignore[override]
        # A replaced record changes itself, the records it gave its answers to, and those it gives them to now.
        return 1.0 + 2.0 * self.donor_uses if self.imputed == "donors" and self.donor_uses is not None else 1.0

    def weights_move(self, setting: Setting) -> bool:
        return self._own_weights and not setting.weights_fixed

    def base_relation(self, setting: Setting) -> Relation:
        return setting.neighbours

    def to_dict(self) -> dict[str, Any]:
        given: dict[str, Any] = {"kind": self.kind} | self.columns.given()
        given |= {"psus": self.psus} if self.psus is not None else {}
        given |= self.replicates.given() if self.replicates is not None else {}
        if self.n is not None:
            given["n"] = dict(self.n) if isinstance(self.n, Mapping) else self.n
        given |= {"fixed": list(self.fixed)} if self.fixed else {}
        given |= {"weights_are": self.weights_are} if self.weights_are is not None else {}
        given |= {"calibrated_on": list(self.calibrated_on)} if self.calibrated_on is not None else {}
        return given | {name: value for name in ("imputed", "donor_uses") if (value := getattr(self, name)) is not None}

    def figures(self) -> dict[str, Any]:
        return self.to_dict()


def refuse_collected(design: Design) -> None:
    """Refuse a collected file as a part of another design, at whatever depth: nothing is drawn from it or added to it."""
    if design.any_inside(lambda each: each.already_drawn):
        raise BadValue(
            "a collected file stands alone",
            because="who is in it, and who answered, was decided and perhaps seen before, so nothing around it can amplify",
            hint="Survey.collected(...), or the design that drew the file, described with a secret draw",
        )


def _names(fixed: Any) -> tuple[str, ...]:
    """The columns that are held fixed, as they are written: in a list."""
    if isinstance(fixed, str) or not isinstance(fixed, Sequence):
        raise BadValue("fixed= names columns, in a list", given=repr(fixed), hint='fixed=["sex"]')
    return tuple(fixed)


def _compared(share: AtRate) -> Iterator[Compared]:
    yield Compared("collected file", CollectedFile(), Relation.ADD_REMOVE, Relation.ADD_REMOVE, "never amplifies")


def _of_figures() -> CollectedFile:
    """A file that was collected already: it never amplifies.

    Example: `dpsurvey amplify collected --epsilon 1 --base add-remove --neighbours add-remove`
    """
    return CollectedFile()


@register("collected", compared=_compared, commands={"collected": _of_figures})
def collected(
    *,
    n: int | Mapping[str, int] | None = None,
    psus: int | None = None,
    weights_are: str | None = None,
    calibrated_on: Sequence[str] | None = None,
    imputed: str | None = None,
    donor_uses: int | None = None,
    fixed: Sequence[str] = (),
    **columns: Unpack[FileKeys],
) -> CollectedFile:
    """How a file was drawn that was collected already: its columns of strata, clusters, weights and population sizes.

    `fixed` names columns of groups that are held fixed and not protected. The other columns are given by the keywords of
    `DesignColumns`: strata, psu, ssu, weights, fpc. A file with weights says what they are: "by stratum",
    "design", "final" (with `calibrated_on`, all columns that they were made from beside those of the design) or "adjusted".
    Columns of replicate weights are given by
    `replicates`, their names or a regular expression for them, with `replicate_method` ("JK1", "JKn", "BRR", "Fay" with its
    `fay_rho`, "bootstrap" or "SDR"). `replicate_scale` and `replicate_scales`, one for each, stand in place of the method's
    own factors, `replicate_df` are published degrees of freedom, and rows whose replicates lie further apart than
    `replicate_reach` are scaled down to it.

    >>> collected(psu="cluster", weights="w", weights_are="design", psus=24).clustering().drawn
    24
    >>> collected(weights="w", weights_are="final", calibrated_on=["sex", "age"]).weighting_columns
    ('sex', 'age')
    """
    made_of = None if calibrated_on is None else check_names("calibrated_on", calibrated_on)
    return CollectedFile(
        named_columns(without_replicates(columns)),
        n,
        psus,
        weights_are,
        imputed,
        donor_uses,
        _names(fixed),
        made_of,
        replicates_of(columns),
    )
