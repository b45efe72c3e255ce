"""Statistics of a yes/no question: proportion and count."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..design.frame import label_text
from ..errors import BadValue, did_you_mean
from ..mechanism.base import Answering, Mechanism
from ..mechanism.bought_variance import MeanAndVariance
from ..privacy.profile import PrivacyProfile
from .arguments import check_by, check_value
from .base import Earlier, Estimates, Group
from .bought_variance import VarianceMayBeBought
from .cluster_variance import AUTO as AUTO_VARIANCE
from .cluster_variance import check_variance
from .condition import read_where
from .encodings import FreePair, Pair, Yes
from .estimators.fixed_size import exact_interval, proportion_interval, sizes_of
from .estimators.in_place import estimates_in_place
from .estimators.interval import Array
from .estimators.names import AUTO, BY_STRATUM, OF_PROPORTIONS, PUBLISHED, RATIO, read_estimator
from .estimators.norm_interval import norm_numbers
from .estimators.random_groups import random_group_means, random_group_shares
from .estimators.random_size import GroupSums, solve, spread_of
from .estimators.strata_choice import (
    BETWEEN_OF_SHARES,
    FEW_OF_SHARES,
    STRATA_PUBLISHED,
    SUPPOSED,
    Choice,
    Strata,
    for_shares,
)
from .estimators.strata_means import PUBLISHED_SHARE, buy_variance, is_disproportionate, published_proportion, tilted_proportion
from .facts import Facts
from .in_place import InPlace
from .linear_numbers import by_group, shares_of_whole
from .missing import DROP, drop_is_a_category
from .noisy_sums import NoisySums
from .notes import estimates_of, fixed_notes
from .predict.declared_figures import SharesByLabel, check_deff, check_published, figures_in, mixed_moments, read_shares, rests_on
from .predict.population import kept_share
from .query import FINE, Query

# Below this many expected yes and no answers (noise counted) the normal score test gives way to the exact one.
SMALL_COUNTS = 30.0
# Noisy proportions that stand for what to expect are kept this far from 0 and 1.
LEAST = 1e-3


@dataclass(frozen=True)
class Counted(VarianceMayBeBought):
    """A statistic of the units with one value of a column. `expect` is a public proportion, used only to predict errors."""

    shown_by_rate: ClassVar[bool] = True
    value: str | None = None
    expect: float | None = None
    expect_by: SharesByLabel = ()
    estimator: str = RATIO

    def query(self, facts: Facts) -> Query:
        if self.drops and self.of and DROP in facts.frame.categories.get(self.of, ()):
            raise drop_is_a_category(self.of)
        return replace(self._counted(facts), fill=None if self.drops else self.missing)

    def _counted(self, facts: Facts) -> Query:
        if self.of is not None and self.of in facts.frame.categories and self.value not in facts.frame.labels(self.of):
            hint = did_you_mean(str(self.value), facts.frame.labels(self.of), "declared")
            raise BadValue(f"{self.value!r} is not a declared category of {self.of!r}", hint=hint)
        if facts.clustering is not None:
            between = self.variance_between(facts)
            assert between is not None
            return self._of_clusters(facts, between, 1, value=self.value)
        if facts.sizes_are_public(self.by) and not self.filters:
            if not self.by and len(facts.parts) > 1 and (self._published(facts) or self._from_strata(facts)):
                # From the strata: they are published anyway, or the worst case over them would be far too wide.
                return replace(self, by=(str(facts.design.strata_column),))._counted(facts)
            return self._query(facts, Yes(), 1, weighted=not self.by, value=self.value)
        if self.stays_in_place(facts):
            query = self._query(
                facts, InPlace.under(facts, self.typical()[0], counts=True), FINE, weighted=True, value=self.value
            )
            return self._in_its_group(query, facts)
        shared = self._share_of_whole(facts)
        weighted = shared or facts.design.strata_column not in self.by
        # Equal weights have nothing to gain from their squares, and yes and no of them are whole records.
        differ = weighted and not shared and facts.weights_differ and not facts.as_in_0_8
        return self._query(facts, FreePair.under(facts.norm) if differ else Pair(), 1, weighted=weighted, value=self.value)

    def _share_of_whole(self, facts: Facts) -> bool:
        """Whether the number is a share of all units, because the size of a group is not public."""
        return False

    def typical(self) -> tuple[float, float]:
        return (0.5, 0.5) if self.expect is None else (self.expect, self.expect)

    @property
    def spread_between(self) -> float:
        p = self.typical()[0]
        return p * (1.0 - p) if self.of or not self.by else 0.25

    def typical_in(self, facts: Facts, labels: Mapping[str, str]) -> tuple[float, float]:
        if self.expect is None:
            return self.typical()
        own = figures_in(self.expect, self.expect_by, facts.frame, (facts.design.strata_column, *self.by), labels)
        p = mixed_moments([(units, each, 0.0) for units, each in own])[0]
        # Records outside a condition count as no.
        p *= kept_share(self.where, facts.frame) if self.masks else 1.0
        return p, p

    @property
    def measure(self) -> Hashable:
        return "counted", self.of, self.value, self.missing, self.where

    def _from_strata(self, facts: Facts) -> bool:
        """Whether noisy strata serve the whole: they are published anyway, or expected to leave the narrower interval."""
        if self.measure in facts.by_stratum:
            return True
        sizes = sizes_of(facts, ())
        if facts.as_in_0_8 or float(sizes.takes.min()) < FEW_OF_SHARES:
            return is_disproportionate(sizes)
        return self._chosen(facts).name == BY_STRATUM

    def _chosen(self, facts: Facts) -> Choice:
        return for_shares(self._strata(facts), facts.noise_each, facts.noise_weighted, supposed=self.expect is None)

    def _strata(self, facts: Facts) -> Strata:
        """What is declared of each stratum, or supposed."""
        column, sizes = str(facts.design.strata_column), sizes_of(facts, ())
        if self.expect is None:
            return Strata.alike(sizes, SUPPOSED[0], SUPPOSED[0] * (1.0 - SUPPOSED[0]), BETWEEN_OF_SHARES)
        shares = np.array([self.typical_in(facts, {column: str(part.label)})[0] for part in facts.parts])
        if np.ptp(shares) > 0.0:
            return Strata(sizes, shares, shares * (1.0 - shares))
        p = float(shares[0])
        return Strata.alike(sizes, p, p * (1.0 - p), BETWEEN_OF_SHARES)

    def choice(self, facts: Facts) -> str:
        if facts.clustering is not None:
            return super().choice(facts)
        asked = not self.by and not self.filters and len(facts.parts) > 1 and not self._published(facts) and self.of is not None
        if facts.as_in_0_8 or not asked or not facts.sizes_are_public(()):
            return ""
        if self.measure in facts.by_stratum:
            return STRATA_PUBLISHED
        return "" if float(sizes_of(facts, ()).takes.min()) < FEW_OF_SHARES else self._chosen(facts).reason

    def _published(self, facts: Facts) -> bool:
        """Whether the published rule is asked for, of strata of fixed size."""
        fixed = facts.sizes_are_public(()) and not self.by and not self.conditional
        if self.estimator == PUBLISHED and not (fixed and len(facts.parts) > 1 and facts.clustering is None):
            raise BadValue("the published rule is for proportions of the whole, from strata of fixed size")
        if self.estimator == PUBLISHED and facts.reach > 1.0:
            raise BadValue("a variance is not bought of answers that were copied from donors")
        return self.estimator == PUBLISHED and any(part.probability < 1.0 for part in facts.parts)

    def answer_key(self, facts: Facts) -> object:
        return PUBLISHED if self._published(facts) else None

    def calibrate(self, query: Query, charge: PrivacyProfile, facts: Facts, additive: type[Mechanism], delta: float) -> Answering:
        if not self._published(facts):
            return super().calibrate(query, charge, facts, additive, delta)
        return buy_variance(query, charge, facts, additive, ends_of(query), PUBLISHED_SHARE)

    @property
    def category_or_order(self) -> str | None:
        return self.value

    @property
    def of_plain_sums(self) -> Self:
        return replace(self, estimator=RATIO)

    def published(self, query: Query) -> list[Group]:
        return super().published(query) if self.by else [{}]

    @property
    def subject(self) -> Hashable:
        return "proportion", self.of, self.value

    def expecting(self, earlier: Earlier) -> Self:
        if not self.of or self.expect is not None:
            return self
        rows = [row for _, row in earlier.estimates(self)]
        for column in (*self.by, earlier.strata):
            shares = {row["by"][column]: _noisy_share(row) for row in rows if tuple(row["by"]) == (column,)}
            if column and shares and set(shares) == set(earlier.frame.labels(column)):
                sizes = earlier.frame.category_sizes.get(column, dict.fromkeys(shares, 1))
                share = math.fsum(sizes[label] * each for label, each in shares.items()) / math.fsum(sizes.values())
                return replace(self, expect=share, expect_by=tuple(shares.items()), source=earlier.source)
        whole = next((_noisy_share(row) for row in rows if not row["by"]), None)
        return self if whole is None else replace(self, expect=whole, source=earlier.source)

    @property
    def prediction_rests_on(self) -> str:
        if self.expect is None:
            return "the worst case, one half"
        return rests_on("the declared proportion" + (" by category" if self.expect_by else ""), self.source)

    @property
    def label(self) -> str:
        return f"{self.of} = {self.value}" if self.of else ""

    def _proportions(self, noisy: NoisySums) -> Estimates:
        """Proportions by group, whatever the design."""
        query, facts, mechanism, sums = noisy.query, noisy.facts, noisy.mechanism, noisy.sums
        if query.clusters is not None:
            return norm_numbers(noisy, by_group(query, 0.0, 1.0, unit=unit_of(query, facts)))
        if query.random_groups is not None:
            return random_group_means(noisy, ends_of(query))
        if isinstance(mechanism, MeanAndVariance):
            found = published_proportion(*mechanism.read(sums, float(sizes_of(facts, ()).per_unit.max())))
            p, sampling, noise, low, high = (each[..., None] for each in found)
            notes = fixed_notes(p, sampling, noise)
            return Estimates(np.clip(p, 0.0, 1.0), sampling, noise, low, high, notes, "published 9:1 rule")
        if isinstance(query.encoding, Yes) and query.by and not self.by:
            sizes = sizes_of(facts, ())
            by_stratum = sums[..., 0] / (query.steps * sizes.takes)
            noise_by_stratum = mechanism.variance / (query.steps * sizes.takes) ** 2
            found = tilted_proportion(by_stratum, noise_by_stratum, sizes, noisy.kurtosis, noisy.intervals)
            p, sampling, noise, low, high = (each[..., None] for each in found)
            notes = fixed_notes(p, sampling, noise)
            return Estimates(np.clip(p, 0.0, 1.0), sampling, noise, low, high, notes, "tilted score from noisy strata")
        if isinstance(query.encoding, Yes):
            columns = [self._fixed(noisy, sums[..., index, 0], group) for index, group in enumerate(query.groups)]
            p, sampling, noise, low, high = (np.stack(each, axis=-1) for each in zip(*columns, strict=True))
            return Estimates(np.clip(p, 0.0, 1.0), sampling, noise, low, high, fixed_notes(p, sampling, noise), "score or exact")
        if isinstance(query.encoding, InPlace):
            return estimates_in_place(noisy, *ends_of(query))[0]
        spread, doubt = spread_of(noisy)
        own = GroupSums(
            noisy.records[..., :2],
            np.array([1.0, 0.0]),
            noisy.variance,
            noisy.kurtosis,
            spread=spread,
            spread_variance=doubt,
            intervals=noisy.intervals,
        )
        answer = solve(own, 0.0, 1.0, facts.thinning(query.by, query.groups))
        return estimates_of(answer, 0.0, 1.0)

    def _fixed(self, noisy: NoisySums, yes: Array, group: tuple[str, ...]) -> tuple[Array, ...]:
        query, mechanism, sizes = noisy.query, noisy.mechanism, sizes_of(noisy.facts, group)
        unit = float(sizes.per_unit.max()) / query.steps
        noise = mechanism.variance * unit**2
        answer = proportion_interval(yes * unit, noise, sizes, noisy.kurtosis, noisy.intervals)
        p = np.clip(yes * unit, 0.0, 1.0)
        small = sizes.n * p * (1.0 - p) + mechanism.variance < SMALL_COUNTS
        finite = float(sizes.rates[0]) > 0.0
        plain = len(sizes.takes) > 1 or query.steps > 1 or not finite
        if plain or not (isinstance(mechanism, Mechanism) and mechanism.exact_tails) or not noisy.intervals or not np.any(small):
            return answer
        estimate, sampling, noise_se, low, high = answer
        n, population = int(sizes.n), round(sizes.n / sizes.rates[0])
        ends = np.array(
            [
                exact_interval(int(count), n, population, mechanism.reaches) if few else (a, b)
                for count, few, a, b in zip(np.ravel(yes), np.ravel(small), np.ravel(low), np.ravel(high), strict=True)
            ]
        )
        return estimate, sampling, noise_se, ends[:, 0].reshape(low.shape), ends[:, 1].reshape(high.shape)

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind} | ({"of": self.of, "value": self.value} if self.of else {})
        fields |= self._where_dict()
        return (
            fields
            | ({"expect": dict(self.expect_by) or self.expect} if self.expect is not None else {})
            | ({"estimator": self.estimator} if self.estimator != RATIO else {})
        )

    @classmethod
    def _make(
        cls,
        of: str | None = None,
        value: object = None,
        by: Any = None,
        expect: Any = None,
        where: Any = None,
        missing: Any = None,
        estimator: str = RATIO,
        deff: Any = None,
        source: Any = "",
        recipe: str | None = None,
        variance: str = AUTO_VARIANCE,
    ) -> Self:
        if of is not None and not of:
            raise BadValue("name the column that is counted", given=repr(of))
        share, by_label = read_shares(expect)
        counted = check_value(value, of) if of else None
        of_strata = read_estimator(estimator, recipe, OF_PROPORTIONS)[1]
        if missing == DROP and counted == DROP:
            raise drop_is_a_category(of)
        fill = None if missing is None else label_text(missing)
        return cls(
            of=of,
            by=check_by(by),
            where=read_where(where),
            deff=check_deff(deff),
            source=check_published(source),
            value=counted,
            expect=share,
            expect_by=by_label,
            missing=fill,
            estimator=RATIO if of_strata == AUTO else of_strata,
            variance=check_variance(variance),
        )


def _noisy_share(row: Mapping[str, Any]) -> float:
    """A published proportion, or the nearest one of which noise has not made that nothing varies."""
    return min(max(float(row["estimate"]), LEAST), 1.0 - LEAST)


def unit_of(query: Query, facts: Facts) -> float:
    """The least variance that a unit of a cluster sample adds: by its weight, less what a finite population takes off."""
    fractions = query.clusters.fractions if query.clusters is not None else ()
    drawn = math.fsum(fractions) / len(fractions) if fractions else 0.0
    return (1.0 - drawn) * facts.typical_weight / facts.largest_weight


def ends_of(query: Query) -> tuple[Array, Array]:
    """The bounds of a share, for each group."""
    return np.zeros(len(query.groups)), np.ones(len(query.groups))


def share_of_whole(noisy: NoisySums, merged: int = 1) -> Estimates:
    """Numbers of units with yes, by group, as shares of all units times the frame size.

    `merged` noisy sums were added up for each of the sums given here.
    """
    query, facts, sums = noisy.query, noisy.facts, noisy.records
    if query.clusters is not None:
        return norm_numbers(noisy, shares_of_whole(query, 0.0, 1.0, facts.frame.size, facts.largest_weight))
    if isinstance(query.encoding, InPlace):
        return estimates_in_place(noisy, *ends_of(query), shared=True)[0].scaled(float(facts.size))
    if query.random_groups is not None:
        groups = sums.shape[-2] // query.random_groups.cells
        return random_group_shares(noisy, (np.zeros(groups), np.ones(groups)), merged)
    own = sums[..., :1]
    whole = facts.sampled_units
    answer = solve(
        GroupSums(
            own=own,
            levels=np.array([1.0]),
            noise_variance=merged * noisy.mechanism.variance / query.steps**2,
            kurtosis=noisy.kurtosis,
            rest=0.0 if whole is not None else sums.sum(axis=(-1, -2))[..., None] - own[..., 0],
            rest_components=0 if whole is not None else sums.shape[-1] * sums.shape[-2] - 1,
            whole=whole,
            intervals=noisy.intervals,
        ),
        0.0,
        1.0,
        facts.thinning((), ((),)),
    )
    return estimates_of(answer, 0.0, 1.0, keep_outside=True).scaled(float(facts.size))
