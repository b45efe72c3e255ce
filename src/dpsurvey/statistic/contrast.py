"""The difference of two domains: from sums that are released for them anyway, so it costs nothing more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue, did_you_mean
from ..mechanism.base import Answering, Mechanism
from ..mechanism.cluster_norm import Directions
from ..privacy.profile import PrivacyProfile
from .base import Estimates, Group, Statistic
from .cluster_variance import ClusterVariance
from .derived import Derived
from .estimators.interval import Array
from .estimators.norm_interval import norm_difference
from .estimators.random_group_contrast import Difference, difference, joined
from .facts import Facts
from .mean import Mean
from .noisy_sums import Asked, NoisySums
from .notes import FEW_FREEDOM, Note
from .predict.declared_figures import check_deff
from .proportion import Proportion
from .query import Query
from .ratio import Ratio, from_five_sums
from .registry import register

METHOD = "from the limits of both, covariance between clusters"


@dataclass(frozen=True)
class Contrast(Derived):
    """One category of a grouping column minus another, for a mean, proportion or ratio. See `contrast`."""

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

    def variance_between(self, facts: Facts) -> ClusterVariance | None:
        return self.base.variance_between(facts)

    def calibrate(self, query: Query, charge: PrivacyProfile, facts: Facts, additive: type[Mechanism], delta: float) -> Answering:
        return self.base.calibrate(query, charge, facts, additive, delta)

    def answer_key(self, facts: Facts) -> object:
        return self.base.answer_key(facts)

    def asked_of(self, query: Query) -> Query:
        return self.base.asked_of(query)

    @property
    def answers(self) -> tuple[str, ...]:
        return self.base.answers

    def published(self, query: Query) -> list[Group]:
        kept = [group for group in self.base.published(query) if group[self.along] == self.first]
        return [{column: label for column, label in group.items() if column != self.along} for group in kept]

    def expected(self, asked: Asked) -> tuple[NoisySums, bool]:
        return self.base.expected(asked)

    @property
    def effect(self) -> float | None:
        return self.base.effect if self.deff is None else self.deff

    def covariance_unknown(self, facts: Facts) -> bool:
        """Whether design effects are declared for the two estimates alone, where they may have clusters in common."""
        apart = self.along == facts.design.strata_column
        return facts.clustering is not None and self.deff is None and self.base.effect is not None and not apart

    def sampling_variances(self, expected: NoisySums) -> Array | None:
        if not isinstance(self.base, Ratio):
            return super().sampling_variances(expected)
        plain = replace(self, base=self.base.of_plain_sums)
        return super(Contrast, plain).sampling_variances(from_five_sums(self.base, expected))

    def predicted_errors(self, expected: NoisySums, numbers: Estimates) -> tuple[Array, Array, bool]:
        if not self.covariance_unknown(expected.facts):
            return super().predicted_errors(expected, numbers)
        # Whatever their covariance, the error of a difference is at most the sum of both errors.
        sampling, noise, simulated = self.base.predicted_errors(expected, self.base.estimate(expected))
        one, two = self._places(expected.query)
        return sampling[one] + sampling[two], joined(noise[one], noise[two]), simulated

    def _places(self, query: Query) -> tuple[list[int], list[int]]:
        """Where the numbers of both categories stand among those of the statistic, in the same order."""
        groups = [group[self.along] for group in self.base.published(query)]
        one, two = ([place for place, label in enumerate(groups) if label == own] for own in (self.first, self.second))
        return one, two

    @property
    def label(self) -> str:
        return f"{self.base.kind} of {self.base.label}, {self.along} {self.first} minus {self.second}"

    @property
    def name(self) -> str:
        rest = [column for column in self.base.by if column != self.along]
        return f"contrast of {self.label}" + (f" by {', '.join(rest)}" if rest else "")

    def directions(self, noisy: NoisySums) -> Directions:
        own = self.base.directions(noisy)
        one, two = self._places(noisy.query)
        # Leaving out a cluster moves both numbers; by the units of both, where they differ.
        return Directions(
            own.per_record[one] - own.per_record[two], own.members[one] | own.members[two], own.levers[one] | own.levers[two]
        )

    def _of_norms(self, noisy: NoisySums) -> Estimates:
        """The difference with a standard error that was bought for it, covariance and all."""
        numbers = self.base.linear_numbers(noisy.query, noisy.facts)
        assert numbers is not None
        one, two = self._places(noisy.query)
        return norm_difference(noisy, numbers, one, two)

    def estimate(self, noisy: NoisySums) -> Estimates:
        """The difference; its interval joins the limits of both estimates, with what is known of their covariance."""
        assert isinstance(self.base, Mean | Proportion | Ratio)
        if noisy.query.clusters is not None:
            return self._of_norms(noisy)
        numbers = self.base.estimate(noisy)
        one, two = self._places(noisy.query)
        estimate = numbers.estimate[..., one] - numbers.estimate[..., two]
        # A rule that moves both numbers may move them apart, so the bounds of their biases add up.
        bias = None if numbers.bias is None else numbers.bias[..., one] + numbers.bias[..., two]
        random_groups = self.base.contributions(noisy)
        if random_groups is None:
            found, method = _independent(numbers, one, two), "from the limits of both"
        else:
            found, method = difference(random_groups, one, two, 0.0 if bias is None else bias), METHOD
        least, most = numbers.low[..., one] - numbers.high[..., two], numbers.high[..., one] - numbers.low[..., two]
        unknown, whole = np.isnan(estimate), numbers.whole_range
        return Estimates(
            estimate,
            found.se_sampling,
            found.se_noise,
            np.where(unknown, least, estimate - found.below),
            np.where(unknown, most, estimate + found.above),
            _notes(numbers.notes, found, one, two),
            method,
            found.df,
            bias=bias,
            whole_range=None if whole is None else whole[..., one] | whole[..., two],
        )

    def to_dict(self) -> dict[str, Any]:
        fields = {"kind": self.kind, "of": self.base.to_dict(), "first": self.first, "second": self.second, "along": self.along}
        return fields | ({"deff": self.deff} if self.deff is not None else {})


@register(
    '{ kind = "contrast", of = { kind = "mean", of = "income", bounds = [0, 250_000], by = ["sex"] }, '
    'first = "female", second = "male" }',
    of_another=True,
)
def contrast(of: Statistic, first: object, second: object, along: str | None = None, deff: float | None = None) -> Contrast:
    """The difference of a mean, proportion or ratio between two categories of one of its grouping columns.

    Asked beside the statistic itself, it reads the same noisy sums and costs nothing. `deff` is a public design effect of the
    difference, for predictions alone; in clusters it does not follow from those of the two groups.

    >>> from .mean import mean
    >>> contrast(mean("income", bounds=(0, 250_000), by="sex"), "female", "male").name
    'contrast of mean of income, sex female minus male'
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
        of=of.of,
        by=of.by,
        where=of.where,
        missing=of.missing,
        deff=check_deff(deff),
        base=of,
        first=labels[0],
        second=labels[1],
        along=column,
    )


def _independent(numbers: Estimates, one: list[int], two: list[int]) -> Difference:
    """Both estimates without covariance: there is none, or their variances hold more than it adds (docs/proofs/estimation.md)."""
    below, above = numbers.estimate - numbers.low, numbers.high - numbers.estimate
    # The bounds of biases do not add in squares: they are taken off first, as far as they are there.
    bias = np.zeros_like(below) if numbers.bias is None else numbers.bias
    bias_below, bias_above = np.minimum(bias, below), np.minimum(bias, above)
    below, above = below - bias_below, above - bias_above
    return Difference(
        joined(numbers.se_sampling[..., one], numbers.se_sampling[..., two]),
        joined(numbers.se_noise[..., one], numbers.se_noise[..., two]),
        joined(below[..., one], above[..., two]) + bias_below[..., one] + bias_above[..., two],
        joined(above[..., one], below[..., two]) + bias_above[..., one] + bias_below[..., two],
    )


def _notes(notes: tuple[tuple[str, ...], ...], found: Difference, one: list[int], two: list[int]) -> tuple[tuple[str, ...], ...]:
    """What is noted of either number; of noise and few clusters what is true of the difference."""
    if not notes:
        return ()
    few = np.zeros(len(one), dtype=np.bool_) if found.df is None else np.asarray(found.df) < FEW_FREEDOM
    own = ((Note.NOISE_ONLY, found.se_noise > 3.0 * found.se_sampling), (Note.FEW_CLUSTERS, few))
    replaced = [text for text, _ in own]
    return tuple(
        (
            *(text for text in dict.fromkeys((*notes[i], *notes[j])) if text not in replaced),
            *(text for text, flags in own if flags[place]),
        )
        for place, (i, j) in enumerate(zip(one, two, strict=True))
    )
