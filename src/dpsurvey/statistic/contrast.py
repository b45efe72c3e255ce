"""The difference of two domains: from sums that are released for them anyway, so it costs nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import BadValue, did_you_mean
from ..mechanism.base import Answering
from .base import Group, Numbers, Statistic
from .derived import Derived
from .facts import Facts
from .interval import Array
from .mean import Mean
from .proportion import Proportion
from .query import Query
from .ratio import Ratio


@dataclass(frozen=True)
class Contrast(Derived):
    """One category of a grouping column less another, for a mean, proportion or ratio. See `contrast`."""

    kind: ClassVar[str] = "contrast"
    tells_response: ClassVar[bool] = False
    first: str = ""
    second: str = ""
    along: str = ""

    def query(self, facts: Facts) -> Query:
        declared = facts.frame.labels(self.along)
        for label in (self.first, self.second):
            if label not in declared:
                raise BadValue(f"{label!r} is not a declared category of {self.along!r}", hint=did_you_mean(label, declared))
        return self.base.query(facts)

    @property
    def answers(self) -> tuple[str, ...]:
        return self.base.answers

    def published(self, query: Query) -> list[Group]:
        kept = [group for group in self.base.published(query) if group[self.along] == self.first]
        return [{column: label for column, label in group.items() if column != self.along} for group in kept]

    def expected(self, query: Query, facts: Facts, mechanism: Answering) -> tuple[Array, bool]:
        return self.base.expected(query, facts, mechanism)

    @property
    def label(self) -> str:
        return f"{self.base.kind} of {self.base.label}, {self.along} {self.first} less {self.second}"

    @property
    def name(self) -> str:
        rest = [column for column in self.base.by if column != self.along]
        return f"contrast of {self.label}" + (f" by {', '.join(rest)}" if rest else "")

    def estimate(self, noisy: Array, query: Query, mechanism: Answering, facts: Facts) -> Numbers:
        """The difference, with the interval that the two intervals make: their distances to the estimates, in squares.

        Disjoint domains have no sampling covariance to first order, and their noise is independent.
        """
        numbers = self.base.estimate(noisy, query, mechanism, facts)
        groups = self.base.published(query)
        one = [index for index, group in enumerate(groups) if group[self.along] == self.first]
        two = [index for index, group in enumerate(groups) if group[self.along] == self.second]
        m1, m2 = numbers.estimate[..., one], numbers.estimate[..., two]
        below = np.hypot(m1 - numbers.low[..., one], numbers.high[..., two] - m2)
        above = np.hypot(numbers.high[..., one] - m1, m2 - numbers.low[..., two])
        notes = numbers.notes
        return Numbers(
            m1 - m2,
            np.hypot(numbers.se_sampling[..., one], numbers.se_sampling[..., two]),
            np.hypot(numbers.se_noise[..., one], numbers.se_noise[..., two]),
            m1 - m2 - below,
            m1 - m2 + above,
            tuple(tuple(dict.fromkeys((*notes[i], *notes[j]))) for i, j in zip(one, two, strict=True)) if notes else (),
            "from the limits of both",
        )

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "of": self.base.to_dict(), "first": self.first, "second": self.second, "along": self.along}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        from . import statistic_from_dict

        made = contrast(statistic_from_dict(fields["of"]), fields["first"], fields["second"], fields.get("along"))
        assert isinstance(made, cls)
        return made


def contrast(of: Statistic, first: object, second: object, along: str | None = None) -> Contrast:
    """The difference of a mean, proportion or ratio between two categories of one of its grouping columns.

    Asked beside the statistic itself, it reads the same noisy sums and costs nothing.

    >>> from .mean import mean
    >>> contrast(mean("income", bounds=(0, 250_000), by="sex"), "female", "male").name
    'contrast of mean of income, sex female less male'
    """
    if not isinstance(of, Mean | Proportion | Ratio):
        raise BadValue(
            "a contrast is of a mean, a proportion or a ratio",
            given=f"{of.name!r}" if isinstance(of, Statistic) else f"a {type(of).__name__}",
            hint='contrast(mean("income", bounds=..., by="sex"), "female", "male"); other statistics are published by groups',
        )
    if not of.by:
        raise BadValue(
            "a contrast needs a statistic by groups", hint='contrast(mean("income", bounds=..., by="sex"), "female", "male")'
        )
    column = of.by[-1] if along is None else along
    if column not in of.by:
        raise BadValue(f"{column!r} is not a grouping column of this statistic", hint=did_you_mean(str(column), of.by))
    labels = [str(label).lower() if isinstance(label, bool) else str(label) for label in (first, second)]
    if labels[0] == labels[1]:
        raise BadValue("a contrast needs two different categories", given=labels[0])
    return Contrast(
        of=of.of, by=of.by, where=of.where, missing=of.missing, base=of, first=labels[0], second=labels[1], along=column
    )
