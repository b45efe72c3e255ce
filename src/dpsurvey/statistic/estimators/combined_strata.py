"""The mean of the whole from the sums of its strata: with noise in each, or with one noisy mean and a bought variance."""

from __future__ import annotations

import numpy as np

from ...mechanism.base import Mechanism
from ...mechanism.bought_variance import FINE, MeanAndVariance
from ...privacy.profile import PrivacyProfile
from ..base import Numbers
from ..encodings import Moments
from ..facts import Facts
from ..noisy import Asked, NoisySums
from ..notes import SKEWED, fixed_notes
from ..query import Query
from ..sizes import sizes_of
from .interval import Array, skewness
from .strata_means import BOUGHT, bought_mean, separate_mean

NOISY_VARIANCE = (
    "the bought variance is itself noisy, so the interval may cover less than it says: a larger share, or the pooled estimator"
)
Ranges = tuple[Array, Array]


def buy_variance(
    query: Query, charge: PrivacyProfile, facts: Facts, additive: type[Mechanism], bounds: Ranges, share: float = BOUGHT
) -> MeanAndVariance:
    """The mechanism of one noisy mean and the variance within strata."""
    sizes, spans = sizes_of(facts, ()), bounds[1] - bounds[0]
    return MeanAndVariance.calibrate(
        charge,
        additive,
        share,
        [int(take) for take in sizes.takes],
        (sizes.per_unit * spans).tolist(),
        ((sizes.shares * spans) ** 2 * (1.0 - sizes.rates) / sizes.takes).tolist(),
        query.steps,
        # Yes and no have no second moment of their own.
        query.encoding.scale if isinstance(query.encoding, Moments) else 1.0,
    )


def whole_of_strata(noisy: NoisySums, bounds: Ranges) -> Numbers:
    """The mean of the whole; strata may have ranges of their own."""
    low, high = bounds
    query, mechanism, sums, kurtosis = noisy.query, noisy.mechanism, noisy.sums, noisy.kurtosis
    assert isinstance(query.encoding, Moments)
    sizes, spans = sizes_of(noisy.facts, ()), high - low
    whole, offset = float(sizes.shares @ spans), float(sizes.shares @ low)
    if isinstance(mechanism, MeanAndVariance):
        unit = float(np.max(sizes.per_unit * spans)) / (max(mechanism.steps) * query.steps)
        second = mechanism.variance_unit / FINE
        noise = (mechanism.of_mean.variance * unit**2, mechanism.of_variance.variance * second**2)
        parts = bought_mean(sums[..., 0, 0] * unit, sums[..., 0, 1] * second, noise, sizes, whole, kurtosis)
        method = "one noisy mean, variance within strata bought"
    else:
        units = 1.0 / (sizes.takes * query.steps)
        seconds = units / query.encoding.scale
        own = (mechanism.variance * units**2, mechanism.variance * seconds**2)
        parts = separate_mean(sums[..., 0] * units, sums[..., 1] * seconds, own, sizes, spans, kurtosis)
        method = "noise in every stratum"
    m, sampling, noise_se, ci_low, ci_high = (each[..., None] for each in parts)
    notes = fixed_notes(m / whole, sampling, noise_se)
    return Numbers(offset + np.clip(m, 0.0, whole), sampling, noise_se, offset + ci_low, offset + ci_high, notes, method)


def measured_advice(typical: tuple[float, float] | None, asked: Asked) -> tuple[str, ...]:
    """What a plan says of a mean or total: too few units for a declared skewness, a bought variance that is mostly noise."""
    found, facts, mechanism = [], asked.facts, asked.mechanism
    if typical is not None:
        mean, square = typical
        skew = float(skewness(np.sqrt(max(square - mean**2, 0.0)), np.asarray(min(mean, 1.0 - mean))))
        if facts.expected_units < 25.0 * skew**2:
            found.append(SKEWED)
    if isinstance(mechanism, MeanAndVariance):
        sizes = sizes_of(facts, ())
        spread = 0.25 if typical is None else typical[1] - typical[0] ** 2
        within = float(np.sum(mechanism.factors)) * spread
        if within < 5.0 * np.sqrt(mechanism.of_variance.variance) * mechanism.variance_unit / FINE or sizes.n < 100.0:
            found.append(NOISY_VARIANCE)
    return tuple(found)
