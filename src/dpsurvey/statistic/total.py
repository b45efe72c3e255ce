"""The total of a column over the frame, or over each public group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack

import numpy as np

from .base import Estimates, sizes_of_groups
from .bounded import Bounds
from .encodings import Moments, Triple
from .estimators.horvitz_thompson import expanded_totals, independent_totals, public_units
from .estimators.in_place import estimates_in_place
from .estimators.norm_interval import norm_numbers
from .estimators.random_groups import random_group_shares
from .estimators.random_size import GroupSums, solve
from .estimators.trimmed import with_shrink_bound
from .facts import Facts
from .in_place import InPlace
from .linear_numbers import LinearNumbers, by_group, shares_of_whole
from .measured import Measured, MeasuredOptions
from .noisy_sums import NoisySums
from .notes import estimates_of
from .query import Query
from .registry import register


class TotalOptions(MeasuredOptions, total=False):
    """The keyword arguments of `total`, which say what they mean."""

    per: str | None
    weighted_size: tuple[float, float] | None


@dataclass(frozen=True)
class Total(Measured):
    """The total of the clipped column: group size times mean, or frame size times the share of the whole. See `total`."""

    kind: ClassVar[str] = "total"
    masks: ClassVar[bool] = True

    def query(self, facts: Facts) -> Query:
        if facts.frame.size is not None:
            return super().query(facts)
        if facts.clustering is not None or facts.parts or self.by:
            # Groups have no share of an unknown size, and records without weights stand for nobody knows how many.
            facts.ask_for_size()
            return super().query(facts)
        return super().query(facts) if self.estimator != "ratio" else replace(self, estimator="horvitz-thompson").query(facts)

    def _needs_size(self, facts: Facts) -> bool:
        return self.limits[0] != 0.0 and public_units(facts) is None

    def _share_of_whole(self, facts: Facts) -> bool:
        return None in sizes_of_groups(facts.frame, self._query(facts, Triple(), 1, weighted=False, bounds=self.limits))

    def linear_numbers(self, query: Query, facts: Facts) -> LinearNumbers:
        low, high = self._range(query)
        if self._share_of_whole(facts):
            return shares_of_whole(query, low, high, facts.frame.size, facts.largest_weight)
        sizes = np.array([float(size or 0) for size in sizes_of_groups(facts.frame, query)])
        return by_group(query, low, high).scaled(sizes)

    def estimate(self, noisy: NoisySums) -> Estimates:
        query, facts = noisy.query, noisy.facts
        if query.expanded is not None:
            return expanded_totals(noisy)
        if isinstance(query.encoding, Moments) and not facts.sizes_are_public(()):
            return independent_totals(noisy)
        if query.clusters is not None:
            return self._of_norms(noisy)
        if not self._share_of_whole(facts):
            sizes = np.array([float(size or 0) for size in sizes_of_groups(facts.frame, query)])
            return self._means(noisy).scaled(float(facts.size) if query.by and not self.by else sizes)
        low, high = self._range(query)
        if isinstance(query.encoding, InPlace):
            return estimates_in_place(noisy, low, high, shared=True)[0].scaled(float(facts.size))
        if query.random_groups is not None:
            return random_group_shares(noisy, (low, high))
        own = noisy.sums[..., :3] / query.steps
        whole = facts.sampled_units
        sums = GroupSums(
            own=own,
            levels=np.stack([high, (low + high) / 2.0, low], axis=-1),
            noise_variance=noisy.variance,
            kurtosis=noisy.kurtosis,
            rest=0.0 if whole is not None else own.sum(axis=(-1, -2))[..., None] - own.sum(axis=-1),
            rest_components=0 if whole is not None else 3 * (len(query.groups) - 1),
            whole=whole,
            intervals=noisy.intervals,
        )
        ends = np.minimum(0.0, low), np.maximum(0.0, high)
        answer = solve(sums, *ends, thinning=facts.thinning((), ((),)))
        return estimates_of(answer, *ends, keep_outside=True).scaled(float(facts.size))

    def _of_norms(self, noisy: NoisySums) -> Estimates:
        """Totals with the standard errors that were bought for them, which are of totals and not of means."""
        query, facts = noisy.query, noisy.facts
        numbers = self.linear_numbers(query, facts)
        found = norm_numbers(noisy, numbers)
        if self._share_of_whole(facts):
            return found
        return with_shrink_bound(found, query, facts, numbers.offset, numbers.offset + numbers.span)


@register('{ kind = "total", of = "income", bounds = [0, 250_000] }')
def total(
    of: str,
    bounds: Bounds | None = None,
    by: str | tuple[str, ...] | None = None,
    expect: tuple[float, float] | Mapping[Any, tuple[float, float]] | None = None,
    **options: Unpack[TotalOptions],
) -> Total:
    """The total of a column, clipped to public bounds, over the frame, by public groups, or of those that `where` names.

    `estimator="ratio"` multiplies a mean by a declared size; "horvitz-thompson" adds up weighted values, which is better for
    amounts in proportion to the size that units were drawn by, and needs no size. With `per`, the column of that size, `bounds`
    are those of a value per unit of size, and `weighted_size` is the public range of weight times size: one number, where all
    chances are in proportion to size. The other options are those of `mean`.

    >>> total("hours", bounds=(0, 98)).name
    'total of hours'
    """
    return Total._make(of, bounds, by, expect, **options)
