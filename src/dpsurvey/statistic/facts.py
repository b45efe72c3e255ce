"""Facts: the public facts of a survey that statistics are planned and estimated from. No rows."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..design.base import Design
from ..design.frame import Frame
from ..design.parts import Clustering, Part
from ..errors import BadValue
from ..mechanism.base import Norm
from ..privacy.relation import Relation
from .estimators.interval import Array, student
from .query import FINE, FINEST, RandomGroups, UnitWeights

# Fewer degrees of freedom than this make intervals wide and their coverage poor.
# As many records are supposed where their number is not declared; for predictions alone.
SUPPOSED = 1000.0
ENOUGH_FREEDOM = 15
# Numbers of merged strata that are tried.
MERGED = (8, 12, 16, 24, 32, 48)
FEWEST_MERGED = 8
# The variance of Gaussian noise on a sum that a record moves by 1, at an epsilon of 1 and a delta of about a millionth.
GAUSSIAN = 25.0


class WeightRange(NamedTuple):
    """The public extremes of the weights in one category."""

    label: str
    low: float
    high: float


@dataclass(frozen=True)
class Facts:
    """What is public: the frame's declarations, the design, the relation on the sample, and the norm of the noise.

    `respondents_only` says that answers come from a file of those who responded, so that no size is public.
    `weight_range` is declared where units have weights of their own. `epsilon` is about what one sample may be charged;
    estimators are chosen by it, nothing else.
    """

    frame: Frame
    design: Design
    relation: Relation
    norm: Norm
    respondents_only: bool = False
    weight_range: tuple[float, float] | None = None
    epsilon: float = 1.0
    # Whether a changed record may change the weights of all others.
    weights_move: bool = False
    # How many records one record can move at once: more than itself where answers were copied from donors.
    reach: float = 1.0
    # What the plan asks by stratum anyway: those noisy strata serve the whole at no further cost.
    by_stratum: frozenset[Hashable] = frozenset()
    # Expected shares of those who answer, one for all (label None) or by stratum; for predictions alone.
    response: tuple[tuple[str | None, float], ...] = ()
    # How many numbers share `epsilon`, about: what one of them may be charged decides between estimators.
    shared_by: float = 1.0
    # Whether neighbours of the sample differ in the answers of one record, and in nothing that it was drawn or weighted by: not
    # where sampling is inside the mechanism, which puts one record in another's place.
    weights_stay: bool = False
    # Columns of groups that are declared as held fixed: they are not protected.
    held: tuple[str, ...] = ()
    # A column that no record leaves, whose categories have ranges of weights of their own.
    weights_column: str | None = None
    weight_ranges: tuple[WeightRange, ...] = ()
    # How many times smaller the noise variance of sums is that are weighted by stratum, where each is amplified by its own rate.
    weighted_gain: float = 1.0
    # Whether sums and estimators are those of 0.8, so that its releases are computed again as they were.
    as_in_0_8: bool = False

    @property
    def noise_each(self) -> float:
        """About the noise variance of one sum that a record moves by 1, of what one statistic may be charged; for choices."""
        each = self.epsilon / self.shared_by
        return (2.0 if self.norm == "L1" else GAUSSIAN) / each**2

    @property
    def noise_weighted(self) -> float:
        """The same of a sum that records move by their weights, over what the largest weight moves it."""
        return self.noise_each / self.weighted_gain

    @property
    def size(self) -> int:
        """The declared size of the frame."""
        if self.frame.size is None:
            raise BadValue(
                "this estimate needs the public size of the frame",
                because="normalisers are declared, never read from rows",
                hint="declare size=N",
            )
        return self.frame.size

    def ask_for_size(self) -> None:
        """Refuse, before anything is spent, a number that neither a declared size nor weights can scale."""
        unweighted = self.collected and bool(self.parts) and self.parts[0].take is None
        if self.frame.size is None and (self.clustering is None or unweighted):
            self.size  # noqa: B018

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The strata, or the whole frame, where all units of one have the same weight; else empty."""
        return self.design.parts()

    @cached_property
    def clustering(self) -> Clustering | None:
        """How clusters are drawn, if they are."""
        return self.design.clustering()

    @cached_property
    def weights(self) -> tuple[float, float]:
        """The smallest and the largest design weight: from the design, or declared; never from a file."""
        if self.parts:
            values = [part.weight for part in self.parts]
            return min(values), max(values)
        if self.weight_range is None:
            raise BadValue(
                "the range of the design weights is not declared",
                because="what one record can move depends on the largest weight, which must not be read from the file",
                hint="weight_range=(lowest, highest), from the design or from published documentation",
            )
        return self.weight_range

    @property
    def weights_differ(self) -> bool:
        """Whether units may have different weights."""
        low, high = self.weights
        return high > low * (1.0 + 1e-12)

    @property
    def largest_weight(self) -> float:
        """The largest design weight."""
        return self.weights[1]

    def sizes_are_public(self, by: tuple[str, ...]) -> bool:
        """Whether the number of sampled units in every group is fixed by design and a record stays in its group."""
        strata = self.design.strata_column
        fixed = self.design.fixed_size and bool(self.parts) and all(part.take is not None for part in self.parts)
        return fixed and not self.respondents_only and self.clustering is None and (not by or by == (strata,))

    def stays_in_place(self, by: tuple[str, ...]) -> bool:
        """Whether a neighbour has the same units in every group and cluster, with other answers for one of them.

        A record keeps its stratum, and its groups by columns that are declared as held fixed.
        """
        kept = self.relation == Relation.REPLACE_ONE and not self.respondents_only
        return kept and set(by) <= {self.design.strata_column, *self.held}

    def charged_in_place(self, by: tuple[str, ...]) -> bool:
        """Whether sums of units that are weighted one by one, in such groups, are charged for answers alone."""
        kept = self.weights_stay and self.clustering is None and not self.as_in_0_8
        return kept and self.stays_in_place(by)

    def weights_add_up(self, by: tuple[str, ...] = ()) -> bool:
        """Whether the weights of the file add up to the declared size, in every group: checked of final weights, by margin."""
        if not self.design.weights_are_final or self.respondents_only:
            return False
        if not by:
            return self.frame.size is not None
        return len(by) == 1 and by[0] in self.design.weighting_columns and by[0] in self.frame.category_sizes

    @property
    def sampled_units(self) -> float | None:
        """The public number of sampled units, each counted by its weight over the largest; None where it is secret."""
        if not self.sizes_are_public(()):
            return None
        return sum((part.take or 0) * part.weight for part in self.parts) / self.largest_weight

    @property
    def records_unknown(self) -> bool:
        """Whether nothing says how many records a file holds: neither weights nor a declared number."""
        return len(self.parts) == 1 and self.parts[0].take is None and self.parts[0].size is None and self.parts[0].replaced

    @property
    def collected(self) -> bool:
        """Whether the sample is a file that was collected already."""
        return self.design.already_drawn

    @property
    def declared_records(self) -> int | None:
        """The declared number of records of a collected file."""
        return sum(self.design.takes().values()) or None if self.collected else None

    @property
    def units_supposed(self) -> bool:
        """Whether nothing that is declared says how many units a sample has."""
        if self.parts and all(part.take is not None for part in self.parts):
            return False
        return self.declared_records is None and (self.records_unknown or self.frame.size is None)

    @property
    def expected_units(self) -> float:
        """About how many units a sample has, from declared figures; for choices and predictions."""
        if self.parts and all(part.take is not None for part in self.parts):
            return float(sum(part.take or 0 for part in self.parts))
        if self.units_supposed:
            return SUPPOSED
        return float(self.declared_records or self.size / self.typical_weight)

    @property
    def typical_weight(self) -> float:
        """About the mean weight of a sampled unit: by declared numbers where there are any, else the middle of the range."""
        low, high = self.weights
        n = self.declared_records
        # Numbers whose quotient no weight can have: the weights of the file are relative ones.
        if n and self.frame.size is not None and low <= self.frame.size / n <= high:
            return self.frame.size / n
        return math.sqrt(low * high)

    @property
    def expected_size(self) -> float:
        """About what the weights of a sample add up to; for predictions alone."""
        if self.frame.size is not None and self.declared_records is None:
            return float(self.frame.size)
        return self.expected_units * self.typical_weight

    def response_of(self, stratum: str | None) -> float:
        """The expected share of a stratum's units that answer; without a stratum, on average."""
        known = dict(self.response)
        if not known:
            return 1.0
        if stratum in known:
            return known[stratum]
        if None in known:
            return known[None]
        sizes = self.frame.category_sizes.get(self.design.strata_column or "", {})
        weights = [float(sizes.get(str(label), 1)) for label in known]
        return math.fsum(w * r for w, r in zip(weights, known.values(), strict=True)) / math.fsum(weights)

    def unit_weights(self, steps: int) -> UnitWeights | None:
        """Weights that are each unit's own, where strata do not have one each."""
        if self.parts:
            return None
        low, high = self.weights
        return UnitWeights(high, min(FINEST, max(steps, FINE) * math.ceil(high / low)))

    def weights_by(self, weights: UnitWeights, by: tuple[str, ...]) -> UnitWeights:
        """The same weights, over the largest of each category where every group lies in one that no record leaves."""
        changed = weights.kept < 1.0 or weights.largest < self.largest_weight
        if self.weights_column not in by or changed or not self.charged_in_place(by):
            return weights
        return replace(
            weights, column=self.weights_column, by_label=tuple((each.label, each.high) for each in self.weight_ranges)
        )

    def lattice(self, steps: int, *, weighted: bool, factors: tuple[float, ...] = ()) -> tuple[tuple[str | None, int], ...]:
        """Lattice steps per unit of y: the same for all, or in proportion to the design weight by stratum.

        `factors` multiply the weights of the strata, where their values are measured on ranges of their own.
        """
        if not self.parts:
            return ((None, self.unit_weights(steps).steps),)  # type: ignore[union-attr]
        shares = {
            part.label: part.weight * factor for part, factor in zip(self.parts, factors or (1.0,) * len(self.parts), strict=True)
        }
        most = max(shares.values())
        shares = {label: share / most for label, share in shares.items()}
        if not weighted or min(shares.values()) > 1.0 - 1e-12:
            return ((None, steps),)
        # Finer where weights differ much, so that rounding the smallest of them stays a matter of millionths.
        fine = min(FINEST, FINE * math.ceil(1.0 / min(shares.values())))
        return tuple((label, max(1, round(fine * share))) for label, share in shares.items())

    def thinning(self, by: tuple[str, ...], groups: tuple[tuple[str, ...], ...]) -> Array:
        """1 minus the inclusion probability, by group where it is known, else 1 minus the smallest."""
        rates = {part.label: 0.0 if part.replaced else part.probability for part in self.parts}
        if self.respondents_only or not rates:
            # Nonresponse thins the sample further, by rates nobody knows: 1 is never too small.
            return np.ones(len(groups))
        least = min(rates.values())
        strata = self.design.strata_column
        where = by.index(strata) if strata in by else None
        thinning = 1.0 - np.asarray([least if where is None else rates.get(group[where], least) for group in groups])
        # In a stratum of N_h units a fixed-size draw sees N_h/(N_h-1) times the mean square.
        sizes = [part.size for part in self.parts if part.size and part.size > 1] if self.design.fixed_size else []
        return np.asarray(thinning * (min(sizes) / (min(sizes) - 1.0) if sizes else 1.0))

    @property
    def _units_dealt(self) -> float:
        """About how many units are dealt, by what was declared when this was first settled.

        Not `expected_units`, which knows more: what a release was dealt into is computed anew when it is read, years later.
        """
        if self.parts and all(part.take is not None for part in self.parts):
            return float(sum(part.take or 0 for part in self.parts))
        low, high = self.weights
        return SUPPOSED if self.records_unknown else (self.frame.size or 1000.0 * high) / math.sqrt(low * high)

    def random_groups(self, spread: float, by: tuple[str, ...] = ()) -> RandomGroups | None:
        """Into how many groups clusters are dealt: all apart, or fewer where the noise on each would be the larger part.

        The number is the one with the smallest t^2 (sampling variance + noise of all groups), by the declared spread of y.
        """
        clustering = self.clustering
        if clustering is None:
            return None
        strata, balanced = clustering.strata, self.stays_in_place(())
        drawn = clustering.drawn if clustering.drawn is not None else 10
        if strata:
            # A group that lies in one stratum has that stratum's random groups alone.
            shared = 1 if self.design.strata_column in by else len(strata)
            least = max(2, 1 + math.ceil(ENOUGH_FREEDOM / shared))
            count = max(2, min(drawn, least))
            return (
                RandomGroups(count, strata, balanced)
                if shared == 1
                else self._merged(RandomGroups(count, strata, balanced), spread)
            )
        noise = 2.0 / self.epsilon**2
        sampling = self._units_dealt * spread
        candidates = sorted({drawn, *(count for count in (10, 15, 20, 30, 60, 120, 250, 500, 1000) if count < drawn)})
        if not balanced:
            # Hashed one by one, some groups get several clusters and some none; keep them well filled.
            candidates = [count for count in candidates if 2 * count <= drawn] or [max(2, drawn // 2)]
        best = min(candidates, key=lambda count: float(student(count - 1.0)) ** 2 * (sampling + count * noise))
        return RandomGroups(max(2, best), (), balanced)

    def _merged(self, every: RandomGroups, spread: float) -> RandomGroups:
        """Random groups of merged strata, where so many strata each have noise of their own that fewer are narrower."""
        strata = len(every.strata)
        if self.as_in_0_8 or strata <= FEWEST_MERGED:
            return every
        noise = 1.25 * every.count * self.noise_each
        sampling = self.expected_units * (self.typical_weight / self.largest_weight) ** 2 * spread
        numbers = [*(each for each in MERGED if each < strata), strata]
        best = min(numbers, key=lambda each: float(student(each * (every.count - 1.0))) ** 2 * (sampling + each * noise))
        if best == strata:
            return every
        # There and back by declared size, so that merged strata are about equally large.
        sizes = self.frame.category_sizes.get(self.design.strata_column or "", {})
        order = sorted(every.strata, key=lambda label: -sizes.get(label, 0))
        turns = ((label, *divmod(place, best)) for place, label in enumerate(order))
        merged = tuple((label, place if turn % 2 == 0 else best - 1 - place) for label, turn, place in turns)
        return RandomGroups(every.count, tuple(f"merged {number + 1}" for number in range(best)), every.balanced, merged)
