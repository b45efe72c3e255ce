"""Means, totals and proportions calibrated to public margins, or completed by cell means, after the noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..design.frame import LARGEST_SIZE, label_text
from ..errors import BadValue, NoGuarantee
from .adjust import Adjusted, Margin, NoisyCells, pays, post_stratify, rake
from .base import Estimates, Statistic
from .derived import Derived
from .encodings import Pair, Triple
from .estimators.interval import Array
from .facts import Facts
from .mean import Mean
from .missing import DROP, WEIGHTED
from .noisy_sums import Asked, NoisySums
from .proportion import Proportion
from .query import FINE, Query
from .registry import register, statistic_from_dict
from .total import Total

# Columns of one margin, and the population count of every combination of their categories.
Counts = tuple[tuple[str, ...], tuple[tuple[tuple[str, ...], float], ...]]
IN_TOML = "to = { sex = { female = 4_400_000, male = 4_500_000 } }"
ROWS_IN_TOML = (
    'for a margin of several columns to = [{ columns = ["region", "sex"], counts = [["north", "female", 2_100_000], ...] }]'
)
FORM = f'to={{"sex": {{"female": 4_400_000, "male": 4_500_000}}}}; in survey.toml {IN_TOML}'
NO_GAIN = "post-stratification is not expected to make this estimate more precise: the noise of its cells is the larger part"
NOT_KNOWN = "calibration guards against nonresponse; whether it also gains precision needs explains=, a public share of variance"


@dataclass(frozen=True)
class Calibrated(Derived):
    """A mean, total or proportion from noisy cells, calibrated to public counts or completed. See `calibrated`, `imputed`."""

    kind: ClassVar[str] = "calibrated"
    margins: tuple[Counts, ...] = ()
    ordered: tuple[str, ...] = ()
    fills: bool = False
    explains: float | None = None

    @property
    def drops(self) -> tuple[str, ...]:
        return (str(self.of),) if self.fills or self.missing == DROP else ()

    @property
    def adjusts(self) -> bool:  # type: ignore[override]
        return not self.fills

    @property
    def of_those_who_answered(self) -> str:
        return WEIGHTED

    def asked_of(self, query: Query) -> Query:
        return query if self.fills else super().asked_of(query)

    def query(self, facts: Facts) -> Query:
        if facts.clustering is not None:
            plain = "publish the plain estimates, or the cells with table() and mean(by=)"
            filled = "mean(..., missing=0): a public value that stands for missing answers"
            raise NoGuarantee(
                f"{'imputation' if self.fills else 'calibration'} after the noise is not offered for cluster samples",
                because="its variance would need the cells of every cluster",
                hint=filled if self.fills else plain,
            )
        for columns, counts in self.margins:
            expected = set(itertools.product(*(facts.frame.labels(column) for column in columns)))
            if {labels for labels, _ in counts} != expected:
                raise BadValue(
                    f"the margin of {', '.join(columns)} must have a count for every declared category, and no other",
                    hint="declare Frame(..., categories=...) as the margins are published",
                )
        whole = self._size(facts) if isinstance(self.base, Total) and self.margins else 0.0
        if whole and facts.frame.size and not 0.5 < whole / facts.frame.size < 2.0:
            raise BadValue(
                "the counts of the margins are not those of such a population",
                because="a total is the sum of the counts times a mean",
                given=f"sum {whole:g}, frame size {facts.frame.size:,}",
                hint="give counts of units, not shares; or declare the size of the frame",
            )
        if isinstance(self.base, Proportion):
            query = self._query(facts, Pair(), 1, weighted=True, value=self.base.value)
        else:
            assert isinstance(self.base, Mean | Total)
            query = self._query(facts, Triple(), FINE, weighted=True, bounds=self.base.bounds)
        return replace(query, group_is_fixed=False)

    @property
    def label(self) -> str:
        how = "missing answers filled from cells of" if self.fills else "calibrated to"
        return f"{self.base.kind} of {self.base.label}, {how} {', '.join(self.by)}"

    @property
    def name(self) -> str:
        return self.label

    def title(self, label: str) -> str:
        return label

    def advice(self, asked: Asked) -> tuple[str, ...]:
        if self.fills or len(self.margins) > 1:
            return ()
        if self.explains is None:
            return (NOT_KNOWN,)
        mean, square = self.typical()
        shares = np.array([count for _, count in self.margins[0][1]])
        found = pays(
            shares / shares.sum(),
            round(asked.facts.expected_units),
            asked.variance,
            spread=square - mean**2,
            explained=self.explains,
            norm=asked.facts.norm,
        )
        return () if found.pays else (NO_GAIN,)

    def estimate(self, noisy: NoisySums) -> Estimates:
        query, facts, sums = noisy.query, noisy.facts, noisy.records
        absent = sums[..., -1]
        if isinstance(query.encoding, Pair):
            # Yes and no are the outer components of the triple; the noise of the middle one is counted and not there.
            sums = np.stack([sums[..., 0], np.zeros_like(sums[..., 0]), sums[..., 1]], axis=-1)
        cells = NoisyCells(sums[..., :3], noisy.variance, noisy.kurtosis)
        thinning = float(facts.thinning((), ((),))[0])
        answer = self._adjusted(cells, absent, query, thinning)
        low, high = self.base.bounds if isinstance(self.base, Mean | Total) else (0.0, 1.0)
        factor = self._size(facts) if isinstance(self.base, Total) else 1.0
        parts = (answer.estimate, answer.se_sampling, answer.se_noise, answer.low, answer.high)
        estimate, sampling, noise, first, last = (
            factor * (low * shifted + (high - low) * each[..., None])
            for each, shifted in zip(parts, (1, 0, 0, 1, 1), strict=True)
        )
        notes = (answer.notes,) if noisy.one_survey else ()
        whole = answer.whole_range[..., None]
        return Estimates(estimate, sampling, noise, first, last, notes, "calibrated noisy cells", whole_range=whole)

    def _adjusted(self, cells: NoisyCells, absent: Array, query: Query, thinning: float) -> Adjusted:
        names = [", ".join(group) for group in query.groups]
        ordered = bool(self.ordered)
        if self.fills:
            # Every missing answer is the mean of its cell: classes with shares from all units, and a filled one counts as none.
            return post_stratify(cells, unanswered=absent, thinning=thinning, names=names, ordered=ordered)
        if len(self.margins) == 1:
            counts = dict(self.margins[0][1])
            shares = np.array([counts[group] for group in query.groups])
            return post_stratify(cells, shares / shares.sum(), thinning=thinning, names=names, ordered=ordered)
        layout = tuple(len(labels) for labels in query.categories)
        margins = []
        for columns, found in self.margins:
            axes = tuple(self.by.index(column) for column in columns)
            known = dict(found)
            shares = np.array([known[labels] for labels in itertools.product(*(query.categories[axis] for axis in axes))])
            margins.append(Margin(axes, shares / shares.sum(), all(column in self.ordered for column in columns)))
        return rake(cells, layout, margins, thinning=thinning)

    def _size(self, facts: Facts) -> float:
        return math.fsum(count for _, count in self.margins[0][1]) if self.margins else float(facts.size)

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind, "of": self.base.to_dict()}
        if self.fills:
            fields["cells"] = list(self.by)
        else:
            fields["to"] = [
                {"columns": list(columns), "counts": [[*labels, count] for labels, count in counts]}
                for columns, counts in self.margins
            ]
        fields |= {"ordered": list(self.ordered)} if self.ordered else {}
        return fields | ({"explains": self.explains} if self.explains is not None else {})


def _read(fields: dict[str, Any]) -> Statistic:
    of, to = statistic_from_dict(fields["of"]), _written(fields["to"])
    return calibrated(of, to, ordered=fields.get("ordered", ()), explains=fields.get("explains"))


@register(
    '{ kind = "calibrated", of = { kind = "mean", of = "income", bounds = [0, 250_000] }, '
    "to = { sex = { female = 4_400_000, male = 4_500_000 } } }",
    of_another=True,
    read=_read,
)
def calibrated(
    of: Statistic, to: Mapping[Any, Mapping[Any, float]], *, ordered: Sequence[str] = (), explains: float | None = None
) -> Calibrated:
    """A mean, total or proportion calibrated to public population counts, after the noise and at no further cost.

    `to` maps a column, or a tuple of columns, to the count of each category. One entry post-stratifies, several rake. This
    adjusts for nonresponse that the columns explain, and for people the frame misses: the result is for the population of the
    counts. Categories with few noisy units are merged, and the notes say which; those of `ordered` columns with a neighbour.
    `explains` is a public share of the variance that the cells explain; the plan then says whether precision is gained.

    >>> from .mean import mean
    >>> calibrated(mean("income", bounds=(0, 250_000)), {"sex": {"female": 4_400_000, "male": 4_500_000}}).name
    'mean of income, calibrated to sex'
    """
    margins = read_margins(to)
    base = _plain(of, "calibrated")
    columns = columns_of(margins)
    if explains is not None and not (isinstance(explains, int | float) and 0.0 <= explains < 1.0):
        raise BadValue("explains= is a share of variance", given=repr(explains), hint="a number from 0 up and below 1")
    return Calibrated(
        of=base.of,
        by=columns,
        base=base,
        margins=margins,
        ordered=_names(ordered, "ordered"),
        explains=explains,
        missing=base.missing,
    )


@register(
    '{ kind = "imputed", of = { kind = "mean", of = "income", bounds = [0, 250_000] }, cells = ["region", "sex"] }',
    section="calibrated",
    of_another=True,
    # As to_dict writes it.
    also=lambda kind, fields: kind == "calibrated" and "cells" in fields and "to" not in fields,
)
def imputed(of: Statistic, cells: str | Sequence[str], *, ordered: Sequence[str] = ()) -> Calibrated:
    """A mean or total whose missing answers are filled with the noisy mean of their cell, at no further cost.

    >>> from .mean import mean
    >>> imputed(mean("income", bounds=(0, 250_000)), cells=["region", "sex"]).name
    'mean of income, missing answers filled from cells of region, sex'
    """
    base = _plain(of, "imputed")
    columns = _names(cells, "cells")
    if not columns:
        raise BadValue("missing answers are filled from cells of public columns", hint='cells=["region", "sex"]')
    return Calibrated(of=base.of, by=columns, base=base, ordered=_names(ordered, "ordered"), fills=True)


def read_margins(to: Mapping[Any, Mapping[Any, float]]) -> tuple[Counts, ...]:
    """Published counts by column, or tuple of columns, checked: of one population, each a positive number.

    >>> read_margins({"sex": {"female": 10, "male": 12}})
    ((('sex',), ((('female',), 10.0), (('male',), 12.0))),)
    """
    if not isinstance(to, Mapping) or not to:
        raise BadValue("to= maps columns to public counts", hint=FORM)
    margins = tuple(_margin(columns, counts) for columns, counts in to.items())
    sums = [math.fsum(count for _, count in counts) for _, counts in margins]
    if max(sums) > 1.01 * min(sums):
        raise BadValue(
            "the margins do not count the same population",
            given="sums " + ", ".join(f"{each:g}" for each in sums),
            hint="published margins of one population, counts in all of them",
        )
    return margins


def columns_of(margins: tuple[Counts, ...]) -> tuple[str, ...]:
    """The columns of margins, each once, in their order."""
    return tuple(dict.fromkeys(column for names, _ in margins for column in names))


def _plain(of: Statistic, how: str) -> Statistic:
    if not isinstance(of, Mean | Total | Proportion) or (how == "imputed" and isinstance(of, Proportion)):
        kinds = "a mean, a total or a proportion" if how == "calibrated" else "a mean or a total"
        raise BadValue(
            f"{kinds} can be {how}, and no other statistic",
            given=f"{of.name!r}" if isinstance(of, Statistic) else f"a {type(of).__name__}",
            hint=f'{how}(mean("income", bounds=(0, 250_000)), ...); other statistics can be asked as they are',
        )
    if of.by or of.where:
        raise BadValue(f"what is {how} is an estimate for the whole", hint="leave out by= and where=")
    if isinstance(of, Mean | Total) and (of.own or of.estimator != "ratio" or any((of.trim, of.shrink))):
        raise BadValue(
            f"what is {how} has one pair of bounds, and neither trim=, shrink= nor another estimator", hint="leave them out"
        )
    if of.missing is not None and (how == "imputed" or isinstance(of, Total) or of.missing != DROP):
        raise BadValue(
            f"no such rule for missing answers fits what is {how}",
            given=f"missing={of.missing!r}",
            hint="imputed() fills them by itself" if how == "imputed" else "missing='drop', for a mean or a proportion",
        )
    return of


def _names(columns: Any, option: str) -> tuple[str, ...]:
    names = (columns,) if isinstance(columns, str) else tuple(columns) if isinstance(columns, tuple | list) else (columns,)
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise BadValue(f"{option}= takes the names of distinct columns", hint=f'{option}=["region", "sex"]')
    return names


def _margin(columns: Any, counts: Any) -> Counts:
    names = _names(columns, "to")
    if not isinstance(counts, Mapping) or not counts or not names:
        raise BadValue(f"the margin of {', '.join(names)} maps every category to its public count", hint=FORM)
    read = []
    for labels, count in counts.items():
        own = tuple(label_text(label) for label in (labels if isinstance(labels, tuple) else (labels,)))
        number = isinstance(count, int | float) and not isinstance(count, bool)
        if len(own) != len(names) or not number or not 1.0 / LARGEST_SIZE <= count <= LARGEST_SIZE:
            raise BadValue(f"a count of the margin {', '.join(names)} is not a positive number of named categories", hint=FORM)
        read.append((own, float(count)))
    return names, tuple(read)


def _written(to: Any) -> dict[Any, Any]:
    """Margins as TOML has them: by column; or, where a margin has several columns, rows of labels and a count."""
    if isinstance(to, Mapping):
        return dict(to)
    margins: dict[Any, Any] = {}
    for each in to if isinstance(to, list) else [to]:
        if not isinstance(each, Mapping) or set(each) != {"columns", "counts"} or not isinstance(each["counts"], list):
            raise BadValue("the key 'to' of 'calibrated' has another form", hint=f"{IN_TOML}; {ROWS_IN_TOML}")
        columns, rows = _names(each["columns"], "columns"), each["counts"]
        if not all(isinstance(row, list) and len(row) == len(columns) + 1 for row in rows):
            raise BadValue(f"a row of the margin {', '.join(columns)} is not its categories and their count", hint=ROWS_IN_TOML)
        counts = {tuple(label_text(label) for label in row[:-1]): row[-1] for row in rows}
        if len(counts) < len(rows) or columns in margins:
            raise BadValue(f"the margin of {', '.join(columns)} is written twice, or one of its rows is")
        margins[columns] = counts
    return margins
