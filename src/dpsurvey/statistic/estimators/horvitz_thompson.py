"""Horvitz-Thompson estimates: totals of expanded values w y, not divided by an estimated size."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...errors import BadValue
from ...privacy.relation import Relation
from ..base import Estimates, weights_are_not_constants
from ..encodings import Moments, Sum, WeightedMoments
from ..facts import Facts
from ..noisy_sums import NoisySums
from ..notes import Note, fixed_notes
from ..query import FINE, FINEST, Query, UnitWeights
from ..weighted_total import weighted_total_sensitivity
from .fixed_size import FixedSizes, mean_interval
from .interval import Array, Z, critical, student, truncated
from .names import RATIO
from .random_size import takes_off


def is_expanded(estimator: str, by: tuple[str, ...], filters: bool, facts: Facts, *, divides: bool = False) -> bool:
    """Whether values are expanded by their weights before they are summed; `divides` where the declared size is needed."""
    if estimator == RATIO or facts.sizes_are_public(()):
        return False
    if divides and facts.frame.size is None:
        facts.size  # noqa: B018
    if by or filters or facts.clustering is not None or facts.respondents_only:
        raise BadValue(
            "the Horvitz-Thompson estimator is for the whole frame, from units drawn one by one",
            hint='estimator="ratio" serves groups, conditions, missing answers, clusters and respondents',
        )
    return True


def expanded_query(query: Query, facts: Facts) -> Query:
    """The query of expanded values: for a fixed size, w y on the range of all (weight, value) pairs.

    The range is that of pairs, not the largest weight times the range of y: with weights 2 to 10 and y in [1, 3] a record
    can move the sum from 2 to 30. Without a fixed size each value counts by its weight, and adding one moves the sum by w y.
    """
    assert query.bounds is not None
    taken = public_units(facts)
    if taken is None:
        if facts.weights_move:
            raise weights_are_not_constants()
        return query if facts.as_in_0_8 else _with_squares(query, facts)
    weights = (query.per.low, query.per.high) if query.per else facts.weights
    pairs = [weight * end for weight in weights for end in query.bounds]
    expanded = replace(
        query, expanded=(min(pairs), max(pairs)), weights=None, lattice=((None, query.steps),), group_is_fixed=True
    )
    if not facts.weights_move:
        return expanded
    if query.per is not None:
        raise weights_are_not_constants()
    # Every weight may change with one record, so no second moment is bounded, and the sum alone is asked; every record
    # may round to another step.
    whole = weighted_total_sensitivity(facts.weights, query.bounds, frame="free", n=taken)
    reach = facts.reach * whole / (max(pairs) - min(pairs)) + taken / query.steps
    return replace(expanded, encoding=Sum(), reach=reach)


def _with_squares(query: Query, facts: Facts) -> Query:
    """The query with the squares of weights in its second moment, and what chances take off where that is free too."""
    assert isinstance(query.encoding, Moments)
    scale = query.encoding.scale
    stays = facts.relation == Relation.ADD_REMOVE or facts.charged_in_place(())
    # A record that may be replaced by one of another weight moves these sums further, if chances are among them.
    taken = takes_off(query, facts) if stays and query.per is None else 0.0
    if query.per is not None:
        if query.bounds is not None and query.bounds[0] != 0.0:
            raise BadValue(
                "values per unit of size start at 0 where the number of sampled units is not public",
                because="what they are above would have to be multiplied by the sizes of all units",
                hint="bounds=(0, highest)",
            )
        weights = UnitWeights(query.per.high, min(FINEST, FINE * math.ceil(query.per.high / query.per.low)))
        query = replace(query, weights=weights)
    return replace(query, encoding=WeightedMoments(scale, taken))


def public_units(facts: Facts) -> int | None:
    """The public number of sampled units, where the design or a declaration fixes it."""
    fixed = facts.design.fixed_size or (facts.collected and facts.relation == Relation.REPLACE_ONE)
    return facts.design.public_units if fixed and not facts.respondents_only else None


def expanded_totals(noisy: NoisySums) -> Estimates:
    """The total n times the mean expanded value; its variance is that of n independent draws."""
    query, variance, sums = noisy.query, noisy.mechanism.variance, noisy.sums
    assert query.expanded is not None
    least, most = query.expanded
    taken = float(public_units(noisy.facts) or 0)
    sizes = FixedSizes(np.array([1.0]), np.array([taken]), np.array([0.0]))
    scale = query.encoding.scale if isinstance(query.encoding, Moments) else 1.0
    unit, second = 1.0 / (taken * query.steps), 1.0 / (taken * query.steps * scale)
    noise = (variance * unit**2, variance * second**2)
    # Without a second moment the largest variance that the mean allows stands for it.
    moment = sums[..., 0, 1] * second if isinstance(query.encoding, Moments) else np.zeros_like(sums[..., 0, 0])
    parts = mean_interval(sums[..., 0, 0] * unit, moment, noise, sizes, noisy.kurtosis)
    m, sampling, noise_se, low, high = (each[..., None] for each in parts)
    span = taken * (most - least)
    base = taken * least
    return Estimates(
        base + span * m,
        span * sampling,
        span * noise_se,
        base + span * low,
        base + span * high,
        fixed_notes(m, sampling, noise_se, keep_outside=True),
        "Horvitz-Thompson, variance of draws with replacement",
    )


def independent_totals(noisy: NoisySums) -> Estimates:
    """The total of values of units drawn independently: sum of w y, variance sum of w^2 (1-pi) y^2.

    The lower bound of y times the declared size is public and stays outside the sum.
    """
    query, facts, mechanism = noisy.query, noisy.facts, noisy.mechanism
    assert query.bounds is not None
    assert isinstance(query.encoding, Moments)
    low, high = query.bounds
    largest, span = query.per.high if query.per else facts.largest_weight, high - low
    unit, second = 1.0 / query.steps, 1.0 / (query.steps * query.encoding.scale)
    total, other = noisy.sums[..., 0, 0] * unit, noisy.sums[..., 0, 1] * second
    variance = mechanism.variance * unit**2
    # Up to 0.8 the sum of u y^2, which u^2 <= u makes never too small; and y^2 <= y caps both.
    weighted = query.encoding if isinstance(query.encoding, WeightedMoments) else None
    kept = 1.0 if weighted is None else 1.0 - weighted.taken
    squares = truncated(
        kept * total - other,
        np.sqrt(kept**2 * variance + mechanism.variance * second**2),
        np.maximum(total, 0.0) + np.sqrt(variance),
    )
    sampling = (1.0 if weighted is not None else facts.thinning((), ((),))[0]) * squares
    whole = sampling + variance
    share = variance / np.maximum(whole, 1e-300)
    kurtosis = noisy.kurtosis * share**2 if noisy.kurtosis else np.zeros_like(whole)
    half = critical(student(max(facts.expected_units - 1.0, 1.0)), kurtosis) * np.sqrt(whole)
    # Sums of values that are not negative are skewed upwards: at most by 1.5 S2/S1, and at most as counts are.
    skew = np.minimum(1.0, 1.5 * squares / np.maximum(total, 1e-9)) / np.sqrt(np.maximum(squares, 1.0))
    extra = (2.0 * Z**2 + 1.0) / 6.0 * skew * (sampling / np.maximum(whole, 1e-300)) ** 1.5 * np.sqrt(whole)
    base, factor = low * facts.size if low else 0.0, largest * span
    parts = (total, np.sqrt(sampling), np.full_like(total, np.sqrt(variance)), total - half, total + half + extra)
    t, sampling_se, noise_se, ends_low, ends_high = (each[..., None] for each in parts)
    return Estimates(
        base + factor * t,
        factor * sampling_se,
        factor * noise_se,
        base + factor * ends_low,
        base + factor * ends_high,
        _few_notes(t, sampling_se, noise_se),
        "Horvitz-Thompson",
    )


def _few_notes(total: Array, sampling: Array, noise: Array) -> tuple[tuple[str, ...], ...]:
    """The usual notes, and one where the sum is worth fewer than 25 records at the upper bound: few values decide it."""
    notes = fixed_notes(np.full_like(total, 0.5), sampling, noise)
    return tuple((*own, Note.SKEWED) if total[index] < 25.0 else own for index, own in enumerate(notes))
