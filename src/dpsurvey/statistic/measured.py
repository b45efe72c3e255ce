"""Statistics of a measured column, clipped to public bounds: mean and total."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypedDict

import numpy as np

from ..errors import BadValue
from ..mechanism.base import Answering, Mechanism
from ..privacy.profile import PrivacyProfile
from .arguments import check_by
from .base import Earlier, Estimates, Group
from .bought_variance import VarianceMayBeBought
from .bounded import ByLabel, bounds_to_dict, check_options, own_bounds, read_bounds, read_size
from .cluster_variance import AUTO as AUTO_VARIANCE
from .cluster_variance import check_variance
from .condition import read_where
from .encodings import Encoding, FreeSpread, Moments, Spread, Triple
from .estimators.fixed_size import mean_interval, sizes_of, variance_doubt
from .estimators.horvitz_thompson import expanded_query, expanded_totals, independent_totals, is_expanded
from .estimators.in_place import estimates_in_place
from .estimators.interval import Array
from .estimators.names import (
    AUTO,
    BY_STRATUM,
    EXPANDED,
    POOLED,
    RATIO,
    SEPARATE_VARIANCE,
    WEIGHTED,
    estimator_fields,
    read_estimator,
)
from .estimators.norm_interval import norm_numbers
from .estimators.random_groups import random_group_means
from .estimators.random_size import GroupSums, solve, spread_of
from .estimators.strata_choice import BETWEEN, STRATA_PUBLISHED, SUPPOSED, Choice, Strata, for_means, with_ranges
from .estimators.strata_means import buy_variance, measured_advice, narrowest, weigh_strata, whole_of_strata
from .estimators.trimmed import check_cuts, cut_weights, with_bias_bound, with_shrink_bound
from .facts import Facts
from .in_place import InPlace
from .linear_numbers import by_group
from .missing import check_fill
from .noisy_sums import Asked, NoisySums
from .notes import estimates_of, fixed_notes
from .predict.declared_figures import (
    MeanAndDeviation,
    MomentsByLabel,
    check_deff,
    check_published,
    figures_in,
    mixed_moments,
    read_moments,
    rests_on,
)
from .predict.population import kept_share
from .query import FINE, PerSize, Query

# How much of the budget's reach the spread of unequally weighted sums takes: 1.25 times the noise on the sums themselves.
SPREAD = 0.25
# Answered by a mechanism that gets exact sums of the strata, and publishes one row for the whole.
ANSWERED_BY_STRATA = (SEPARATE_VARIANCE, WEIGHTED)


class MeasuredOptions(TypedDict, total=False):
    """The keyword arguments of `mean` and `total`, which say what they mean."""

    variance: str

    where: Mapping[str, Any] | None
    estimator: str
    trim: float | None
    missing: float | str | None
    between: float
    shrink: float | None
    trimmed: float | None
    deff: float | None
    source: str
    recipe: str | None


@dataclass(frozen=True)
class Measured(VarianceMayBeBought):
    """A statistic of a numeric column. `expect` is a public (mean, sd), used only to predict errors and to choose estimators."""

    shown_by_rate: ClassVar[bool] = True
    bounds: tuple[float, float] = (0.0, 1.0)
    own: ByLabel = ()
    expect: MeanAndDeviation | None = None
    expect_by: MomentsByLabel = ()
    estimator: str = RATIO
    trim: float | None = None
    shrink: float | None = None
    of_strata: str = AUTO
    between: float = 0.0
    per: PerSize | None = None
    trimmed: float | None = None

    def query(self, facts: Facts) -> Query:
        expanded = is_expanded(self.estimator, self.by, self.filters, facts, divides=self._needs_size(facts))
        if self.per is not None and (not expanded or facts.parts or self.own):
            raise BadValue(
                "values per unit of size are for totals of the whole, of units that are weighted one by one",
                hint="leave out per=; strata of one weight each have bounds of their own: bounds={label: (lowest, highest)}",
            )
        if self.trim is not None or self.shrink is not None:
            shared, declared = self._share_of_whole(facts), self.trimmed is not None
            # A share of all weight says nothing of one group, or of those that a condition leaves.
            check_cuts(self.trim, facts, expanded=expanded, shared=shared, declared=declared)
            if declared and (self.by or self.filters):
                raise BadValue("trimmed= is a share of all weight, so it serves numbers of the whole", hint="leave out trimmed=")
        if facts.clustering is not None:
            between = self.variance_between(facts)
            assert between is not None
            query = self._of_clusters(facts, between, FINE, bounds=self.limits)
        elif expanded:
            plain = self._query(facts, Moments.under(facts.norm), FINE, weighted=True, bounds=self.limits)
            query = expanded_query(replace(plain, per=self.per), facts)
        elif self._of_strata(facts) in (BY_STRATUM, *ANSWERED_BY_STRATA):
            return replace(self, by=(str(facts.design.strata_column),), of_strata=POOLED).query(facts)
        elif facts.sizes_are_public(self.by) and not self.filters:
            query = self._query(facts, Moments.under(facts.norm), FINE, weighted=not self.by, bounds=self.limits)
        elif self.stays_in_place(facts):
            encoding = InPlace.under(facts, self._centre, cut=self.trim is not None or self.shrink is not None)
            query = self._query(facts, encoding, FINE, weighted=True, bounds=self.limits)
            query = self._in_its_group(query, facts)
        else:
            query = self._in_any_place(facts)
        if query.weights is not None:
            query = replace(query, weights=cut_weights(query.weights, facts, self.trim, self.shrink, self.trimmed))
        clip = self.bounds if self.limits != self.bounds else None
        return self._with_own_bounds(replace(query, fill=None if self.drops else self.missing, clip=clip), facts)

    def _in_any_place(self, facts: Facts) -> Query:
        """The sums where a record may come, go or change its group, so that the number of units is among them."""
        shared = self._share_of_whole(facts)
        weighted = shared or facts.design.strata_column not in self.by
        encoding: Encoding = Triple()
        if facts.as_in_0_8:
            wide = not facts.parts and facts.largest_weight > 2.0 * facts.weights[0]
            encoding = Spread(SPREAD) if wide and facts.epsilon > 1.0 else encoding
        elif weighted and not shared and facts.weights_differ:
            encoding = FreeSpread.under(facts.norm)
        return self._query(facts, encoding, FINE, weighted=weighted, bounds=self.limits)

    @property
    def _centre(self) -> float:
        """What values are measured from on [0, 1]: where they are expected, and where most of them count as 0, that."""
        low, high = self.limits
        return -low / (high - low) if self.masks and self.conditional else self.typical()[0]

    def _of_strata(self, facts: Facts) -> str:
        """How strata of fixed size serve the whole; empty where there are none."""
        if self.by or self.filters or len(facts.parts) < 2 or not facts.sizes_are_public(()):
            return ""
        if self.of_strata in ANSWERED_BY_STRATA and facts.reach > 1.0:
            raise BadValue(
                "a variance is not bought of answers that were copied from donors", hint='estimator="pooled" or "by-stratum"'
            )
        if self.of_strata in ANSWERED_BY_STRATA and not self._varies_alone(facts):
            return POOLED
        if self.of_strata != AUTO:
            return self.of_strata
        if self.measure in facts.by_stratum:
            return BY_STRATUM
        return self._as_chosen_in_0_8(facts) if facts.as_in_0_8 else self._chosen(facts).name

    @staticmethod
    def _varies_alone(facts: Facts) -> bool:
        """Whether each record moves a variance alone, and there is one: a census has none."""
        return facts.reach == 1.0 and any(part.probability < 1.0 for part in facts.parts)

    def _as_chosen_in_0_8(self, facts: Facts) -> str:
        mean, square = self.typical()
        if not self.expect:
            return POOLED
        chosen = narrowest(sizes_of(facts, ()), facts, square - mean**2, self.between)
        return chosen if chosen != SEPARATE_VARIANCE or self._varies_alone(facts) else POOLED

    def _chosen(self, facts: Facts) -> Choice:
        """The estimator with the smallest half width to expect."""
        alone = self._varies_alone(facts)
        noise = facts.noise_each, facts.noise_weighted
        return for_means(self._strata(facts), *noise, alone=alone, supposed=self.expect is None)

    def _strata(self, facts: Facts) -> Strata:
        """What is declared of each stratum, or supposed, on the range of its values."""
        column, sizes = str(facts.design.strata_column), sizes_of(facts, ())
        own = own_bounds(self.own, self.by, facts, filtered=self.filters, masked=self.masks and self.conditional)
        ranges = np.ones(len(sizes.shares))
        if own is not None and own.scaled:
            ranges = np.array([high - low for _, low, high in own.by_label]) / (self.limits[1] - self.limits[0])
        sizes = with_ranges(sizes, ranges)
        if self.expect is None:
            return Strata.alike(sizes, SUPPOSED[0], SUPPOSED[1] ** 2, self.between or BETWEEN)
        pairs = np.array([self.typical_in(facts, {column: str(part.label)}) for part in facts.parts])
        means, spreads = pairs[:, 0], np.maximum(pairs[:, 1] - pairs[:, 0] ** 2, 0.0)
        if np.ptp(means) > 0.0:
            return Strata(sizes, np.clip(means / ranges, 0.0, 1.0), np.minimum(spreads / ranges**2, 0.25))
        spread = min(float(spreads[0]) / float(np.mean(ranges)) ** 2, 0.25)
        return Strata.alike(sizes, float(means[0]), spread, self.between or BETWEEN)

    def choice(self, facts: Facts) -> str:
        if facts.clustering is not None:
            return super().choice(facts)
        strata = self.of_strata == AUTO and bool(self._of_strata(facts)) and not facts.as_in_0_8
        if not strata or is_expanded(self.estimator, self.by, self.filters, facts, divides=self._needs_size(facts)):
            return ""
        return STRATA_PUBLISHED if self.measure in facts.by_stratum else self._chosen(facts).reason

    def calibrate(self, query: Query, charge: PrivacyProfile, facts: Facts, additive: type[Mechanism], delta: float) -> Answering:
        how = self._of_strata(facts)
        if how == WEIGHTED:
            return weigh_strata(query, charge, facts, additive, self._range(query))
        if how != SEPARATE_VARIANCE:
            return super().calibrate(query, charge, facts, additive, delta)
        return buy_variance(query, charge, facts, additive, self._range(query))

    @property
    def of_plain_sums(self) -> Self:
        return replace(self, of_strata=POOLED)

    @property
    def measure(self) -> Hashable:
        return "measured", self.of, self.limits, self.bounds, self.own, self.missing, self.where

    def advice(self, asked: Asked) -> tuple[str, ...]:
        return measured_advice(self.typical() if self.expect else None, asked)

    def answer_key(self, facts: Facts) -> object:
        how = self._of_strata(facts)
        return how if how in ANSWERED_BY_STRATA else None

    def published(self, query: Query) -> list[Group]:
        return super().published(query) if self.by else [{}]

    def _with_own_bounds(self, query: Query, facts: Facts) -> Query:
        own = own_bounds(self.own, self.by, facts, filtered=self.filters, masked=self.masks and self.conditional)
        if own is None:
            return query
        if own.scaled and not self.by:
            # A stratum with a narrow range moves the whole less: its lattice is as much coarser.
            spans = tuple(high - low for _, low, high in own.by_label)
            query = replace(query, lattice=facts.lattice(FINE, weighted=True, factors=spans))
        return replace(query, own_bounds=own)

    def _needs_size(self, facts: Facts) -> bool:
        """Whether a Horvitz-Thompson estimate needs the declared size: to divide by it, or for a lower bound that is not 0."""
        return True

    def _share_of_whole(self, facts: Facts) -> bool:
        """Whether R is spread over all units, because the size of a group is not public."""
        return False

    @property
    def limits(self) -> tuple[float, float]:
        """The range of the value that is summed: the bounds, and 0 where records outside a condition count as that."""
        if not (self.masks and self.conditional):
            return self.bounds
        return min(0.0, self.bounds[0]), max(0.0, self.bounds[1])

    def typical(self) -> tuple[float, float]:
        return (0.5, 0.5) if self.expect is None else self._on_unit(self.expect)

    def typical_in(self, facts: Facts, labels: Mapping[str, str]) -> tuple[float, float]:
        if self.expect is None:
            return self.typical()
        own = figures_in(self.expect, self.expect_by, facts.frame, (facts.design.strata_column, *self.by), labels)
        kept = kept_share(self.where, facts.frame) if self.masks else 1.0  # Others count as 0.
        return self._on_unit(mixed_moments([(1.0 - kept, 0.0, 0.0), *((kept * units, *each) for units, each in own)]))

    def _on_unit(self, pair: MeanAndDeviation) -> tuple[float, float]:
        low, high = self.limits
        mean = (pair[0] - low) / (high - low)
        return mean, min(mean, mean**2 + (pair[1] / (high - low)) ** 2)

    @property
    def subject(self) -> Hashable:
        return "mean", self.of

    def expecting(self, earlier: Earlier) -> Self:
        if self.expect is not None:
            return self
        found = {} if self.where else earlier.moments_by_stratum(self)
        if found:
            pairs = {label: self._possible(pair) for label, pair in found.items()}
            sizes = earlier.frame.category_sizes.get(str(earlier.strata), {})
            whole = mixed_moments([(float(sizes.get(label, 1)), *pair) for label, pair in pairs.items()])
            return replace(self, expect=whole, expect_by=tuple(pairs.items()), source=earlier.source)
        pair = earlier.moments(self)
        return self if pair is None else replace(self, expect=self._possible(pair), source=earlier.source)

    def _possible(self, noisy: MeanAndDeviation) -> MeanAndDeviation:
        """A noisy mean and deviation, moved to where values within the bounds can have them."""
        low, high = self.bounds
        mean = min(max(float(noisy[0]), low), high)
        return mean, min(float(noisy[1]), math.sqrt((mean - low) * (high - mean)))

    @property
    def prediction_rests_on(self) -> str:
        figure = "the declared mean and sd" + (" by category" if self.expect_by else "")
        return "the worst case within the bounds" if self.expect is None else rests_on(figure, self.source)

    def _means(self, noisy: NoisySums) -> Estimates:
        """Means by group, whatever the design."""
        query, facts, encoding = noisy.query, noisy.facts, noisy.query.encoding
        if query.clusters is not None:
            low, high = self._range(query)
            return with_shrink_bound(norm_numbers(noisy, by_group(query, low, high)), query, facts, low, high)
        if query.random_groups is not None:
            low, high = self._range(query)
            return with_shrink_bound(random_group_means(noisy, (low, high)), query, facts, low, high)
        if query.expanded is not None:
            return expanded_totals(noisy).scaled(1.0 / facts.size)
        if isinstance(encoding, Moments) and not facts.sizes_are_public(()):
            return independent_totals(noisy).scaled(1.0 / facts.size)
        if isinstance(encoding, Moments) and query.by and not self.by:
            return whole_of_strata(noisy, self._range(query))
        if isinstance(encoding, Moments):
            return self._fixed(noisy, encoding)
        low, high = self._range(query)
        if isinstance(encoding, InPlace):
            found, answer = estimates_in_place(noisy, low, high)
            return with_bias_bound(found, answer, query, facts, low, high)
        spread, doubt = spread_of(noisy)
        sums = GroupSums(
            noisy.sums[..., :3] / query.steps,
            np.stack([high, (low + high) / 2.0, low], axis=-1),
            noisy.variance,
            noisy.kurtosis,
            spread=spread,
            spread_variance=doubt,
            intervals=noisy.intervals,
        )
        answer = solve(sums, low, high, facts.thinning(query.by, query.groups))
        return with_bias_bound(estimates_of(answer, low, high), answer, query, facts, low, high)

    def _range(self, query: Query) -> tuple[Array, Array]:
        """The bounds of each group."""
        own = query.own_bounds
        if own is None or not own.scaled or not query.by:
            return np.full(len(query.groups), self.limits[0]), np.full(len(query.groups), self.limits[1])
        pairs = {label: (low, high) for label, low, high in own.by_label}
        place = query.by.index(own.column)
        low, high = (np.array([pairs[group[place]][end] for group in query.groups]) for end in (0, 1))
        return low, high

    def _fixed(self, noisy: NoisySums, encoding: Moments) -> Estimates:
        """Means from fixed public sizes; strata with ranges of their own count by share times range."""
        query, facts, variance = noisy.query, noisy.facts, noisy.mechanism.variance
        lows, highs = self._range(query)
        own = query.own_bounds if query.own_bounds is not None and query.own_bounds.scaled and not query.by else None
        columns, offsets, spans, doubts, taken = [], [], [], [], []
        for index, group in enumerate(query.groups):
            sizes = sizes_of(facts, group)
            offset, span = lows[index], highs[index] - lows[index]
            if own is not None:
                ranges = np.array([high - low for _, low, high in own.by_label])
                offset = float(sizes.shares @ np.array([low for _, low, _ in own.by_label]))
                span = float(sizes.shares @ ranges)
                sizes = replace(sizes, shares=sizes.shares * ranges / span)
            unit = float(sizes.per_unit.max()) / query.steps
            second = unit / encoding.scale
            noise = (variance * unit**2, variance * second**2)
            total, other = noisy.sums[..., index, 0] * unit, noisy.sums[..., index, 1] * second
            columns.append(mean_interval(total, other, noise, sizes, noisy.kurtosis))
            doubts.append(variance_doubt(total, other, noise))
            taken.append(sizes.n)
            offsets.append(offset)
            spans.append(span)
        m, sampling, noise_se, ci_low, ci_high = (np.stack(each, axis=-1) for each in zip(*columns, strict=True))
        low, span = np.array(offsets), np.array(spans)
        return Estimates(
            low + span * np.clip(m, 0.0, 1.0),
            span * sampling,
            span * noise_se,
            low + span * ci_low,
            low + span * ci_high,
            fixed_notes(m, sampling, noise_se, np.stack(doubts, axis=-1), np.array(taken)),
            "free second moment",
        )

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind, "of": self.of, "bounds": bounds_to_dict(self.bounds, self.own)}
        expect = {label: list(pair) for label, pair in self.expect_by} or (list(self.expect) if self.expect else None)
        fields |= self._where_dict() | ({"expect": expect} if expect else {})
        fields |= estimator_fields(self.estimator, self.of_strata)
        fields |= {"between": self.between} if self.between else {}
        if self.per is not None:
            fields |= {"per": self.per.column, "weighted_size": [self.per.low, self.per.high]}
        return fields | {name: value for name in ("trim", "shrink", "trimmed") if (value := getattr(self, name)) is not None}

    @classmethod
    def _make(
        cls,
        of: str,
        bounds: Any,
        by: Any,
        expect: Any,
        *,
        where: Any = None,
        estimator: str = RATIO,
        trim: Any = None,
        missing: Any = None,
        between: float = 0.0,
        shrink: Any = None,
        deff: Any = None,
        source: Any = "",
        recipe: str | None = None,
        variance: str = AUTO_VARIANCE,
        per: Any = None,
        weighted_size: Any = None,
        trimmed: Any = None,
    ) -> Self:
        if not isinstance(of, str) or not of:
            raise BadValue("name the column that is measured", given=repr(of))
        (low, high), own = read_bounds(bounds, of)
        whole, by_label = read_moments(expect, low, high)
        check_options(between, shrink, trim, trimmed)
        counted, of_strata = read_estimator(estimator, recipe)
        size = read_size(per, weighted_size)
        counted = counted if size is None else EXPANDED
        return cls(
            of=of,
            by=check_by(by),
            where=read_where(where),
            bounds=(low, high),
            own=own,
            expect=whole,
            expect_by=by_label,
            deff=check_deff(deff),
            source=check_published(source),
            estimator=counted,
            trim=None if trim is None else float(trim),
            shrink=None if shrink is None else float(shrink),
            missing=check_fill(missing, low, high),
            of_strata=of_strata,
            between=float(between),
            variance=check_variance(variance),
            per=size,
            trimmed=None if trimmed is None else float(trimmed),
        )
