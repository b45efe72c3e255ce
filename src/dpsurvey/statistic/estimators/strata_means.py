"""Estimators of the mean of a stratified sample of fixed size: pooled, by stratum, or with a separate variance.

Proportions of samples that are far from proportional come from noisy strata, moved together on the logit scale to the value
that is tested.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...mechanism.base import Mechanism
from ...mechanism.bought_variance import FINE, MeanAndVariance
from ...mechanism.weighted_strata import WeightedStrata
from ...privacy.profile import PrivacyProfile
from ..base import Estimates
from ..encodings import Moments
from ..facts import Facts
from ..noisy_sums import Asked, NoisySums
from ..notes import Note, fixed_notes
from ..query import Query
from .fixed_size import FixedSizes, sizes_of
from .interval import Array, Z, accepted_hull, critical, skew_allowance, skewness, student, truncated
from .names import BY_STRATUM, POOLED, SEPARATE_VARIANCE

NOISY_VARIANCE = (
    "the bought variance is itself noisy, so the interval may cover less than it says: a larger share, or the pooled estimator"
)
Ranges = tuple[Array, Array]
BOUGHT = 0.2
PUBLISHED_SHARE = 0.1
# The allocation is disproportionate where what a unit adds to the variance differs by more than this between strata.
DISPROPORTIONATE = 2.0


def narrowest(sizes: FixedSizes, facts: Facts, spread: float, between: float) -> str:
    """The estimator with the smallest predicted variance, from public figures: spread of y, share between strata, epsilon."""
    one = 2.0 / facts.epsilon**2
    per_unit, left = sizes.per_unit, 1.0 - sizes.rates
    pooled = float(np.max(per_unit * left)) * spread + one * float(per_unit.max()) ** 2
    within = float(np.sum(sizes.shares * per_unit * left)) * spread * (1.0 - between)
    separate = within + one * float(np.sum(per_unit**2))
    bought = within + one * (float(per_unit.max()) / (1.0 - BOUGHT)) ** 2
    # Bought only where its own noise is small beside what it measures.
    doubt = np.sqrt(one) / BOUGHT * float(np.max(per_unit**2 * left))
    found = {POOLED: pooled, BY_STRATUM: separate} | ({SEPARATE_VARIANCE: bought} if doubt < 0.5 * within else {})
    return min(found, key=lambda name: found[name])


def separate_mean(
    means: Array, seconds: Array, noise: tuple[Array, Array], sizes: FixedSizes, ranges: Array, noise_kurtosis: float
) -> tuple[Array, ...]:
    """(estimate, se_sampling, se_noise, low, high) of sum W_h r_h m_h, from noisy stratum means m_h and second moments.

    `means` and `seconds` have strata on the last axis, on [0, 1]; `noise` their noise variances by stratum; `ranges` r_h.
    The variance is truncated once, on the sum over strata. A stratum with one unit adds the most it can have.
    """
    v, v_second = noise
    n, shares = sizes.takes, sizes.shares * ranges
    scale = shares**2 * (1.0 - sizes.rates) / n
    lonely = n < 2.0
    correction = n / np.maximum(n - 1.0, 1.0)
    inside = np.clip(means, 0.0, 1.0)
    raw = np.where(lonely, 0.25, correction * (means * (1.0 - means) + v - seconds))
    doubt = np.where(lonely, 0.0, correction**2 * ((1.0 - 2.0 * inside) ** 2 * v + v_second + 2.0 * v**2))
    cap = float(np.sum(scale * 0.25 * correction))
    sampling = truncated((scale * raw).sum(axis=-1), np.sqrt((scale**2 * doubt).sum(axis=-1)), cap)
    parts = shares**2 * v
    noise_all = np.broadcast_to(parts.sum(axis=-1), sampling.shape)
    variance = sampling + noise_all
    fourth = (parts**2).sum(axis=-1)
    kurtosis = noise_kurtosis * fourth / np.maximum(variance, 1e-300) ** 2 if noise_kurtosis else np.zeros_like(variance)
    estimate = (shares * means).sum(axis=-1)
    half = critical(student(max(sizes.n - len(n), 1.0)), kurtosis) * np.sqrt(variance)
    return _with_skew(estimate, sampling, noise_all, half, float(shares.sum()), sizes.n)


def bought_mean(
    total: Array, variance: Array, noise: tuple[float, float], sizes: FixedSizes, span: float, noise_kurtosis: float
) -> tuple[Array, ...]:
    """(estimate, se_sampling, se_noise, low, high) from a noisy mean and its noisy variance within strata."""
    sampling = truncated(
        variance, np.sqrt(noise[1]), float(np.sum((sizes.shares * span) ** 2 * (1.0 - sizes.rates) / sizes.takes * 0.5))
    )
    noise_all = np.full_like(total, noise[0])
    whole = sampling + noise_all
    share = noise_all / np.maximum(whole, 1e-300)
    kurtosis = noise_kurtosis * share**2 if noise_kurtosis else np.zeros_like(whole)
    # The variance is known but for its own noise, which costs coverage by the square of that: (z^3 + z)/8 times it to first
    # order, and no more where the truncation is cautious already.
    doubt = noise[1] / np.maximum(whole, 1e-300) ** 2
    t = student(max(sizes.n - len(sizes.takes), 1.0)) + (Z**3 + Z) / 8.0 * np.minimum(doubt, 0.1)
    half = critical(t, kurtosis) * np.sqrt(whole)
    return _with_skew(total, sampling, noise_all, half, span, sizes.n)


def weighted_mean(
    parts: tuple[Array, Array, Array, tuple[float, float, float]], sizes: FixedSizes, span: float, noise_kurtosis: float
) -> tuple[Array, ...]:
    """(estimate, se_sampling, se_noise, low, high) of a mean on [0, span] from its noisy sum and the sums of its squares.

    sum g (y - m)^2 = (1 - 2m) sum g y - sum g y(1-y) + m^2 sum g, with g what a square adds to the variance.
    """
    total, bent, linear, (v, v_bent, v_linear) = parts
    squares = float(sizes.takes @ squares_in(sizes))
    n, strata = sizes.n, len(sizes.takes)
    # The squares are those of y on the range of its own stratum, around the mean on the same scale.
    m = np.clip(total / span, 0.0, 1.0)
    v_m = v / span**2
    raw = (1.0 - 2.0 * m) * linear - bent + (m**2 - v_m) * squares
    turned = 2.0 * (m * squares - linear)
    doubt = np.sqrt((1.0 - 2.0 * m) ** 2 * v_linear + v_bent + turned**2 * v_m + 2.0 * (v_m * squares) ** 2)
    sampling = n / max(n - 1.0, 1.0) * truncated(raw, doubt, np.maximum(m, 1.0 - m) ** 2 * squares)
    noise_all = np.full_like(total, v)
    whole = np.maximum(sampling + noise_all, 1e-300)
    kurtosis = noise_kurtosis * (noise_all / whole) ** 2 if noise_kurtosis else np.zeros_like(whole)
    half = critical(student(max(n - strata, 1.0)), kurtosis) * np.sqrt(whole)
    return _with_skew(total, sampling, noise_all, half, span, n)


def squares_in(sizes: FixedSizes) -> Array:
    """What the square of one sampled unit of each stratum adds to the variance of a mean: a_h^2 (1-f_h)."""
    return np.asarray(sizes.per_unit**2 * (1.0 - sizes.rates) * sizes.spread_factor)


def _with_skew(estimate: Array, sampling: Array, noise: Array, half: Array, span: float, n: float) -> tuple[Array, ...]:
    middle = np.clip(estimate / span, 0.0, 1.0)
    whole = np.maximum(sampling + noise, 1e-300)
    extra = np.sqrt(whole) * skew_allowance(
        np.sqrt(sampling * n) / span, np.minimum(middle, 1.0 - middle), np.asarray(n), sampling / whole
    )
    low = np.clip(estimate - half - np.where(middle > 0.5, extra, 0.0), 0.0, span)
    high = np.clip(estimate + half + np.where(middle <= 0.5, extra, 0.0), 0.0, span)
    return estimate, np.sqrt(sampling), np.sqrt(noise), low, high


def is_disproportionate(sizes: FixedSizes) -> bool:
    """Whether the worst case over strata would be far too wide for a proportion of the whole."""
    weights = sizes.per_unit * (1.0 - sizes.rates)
    active = weights[weights > 0.0]
    return len(active) > 1 and float(active.max() / active.min()) > DISPROPORTIONATE


def tilted_proportion(
    noisy: Array, noise: Array, sizes: FixedSizes, noise_kurtosis: float, intervals: bool = True
) -> tuple[Array, ...]:
    """(estimate, se_sampling, se_noise, low, high) of a proportion from noisy stratum proportions (last axis).

    They are shrunk to their mean as far as sampling and noise make them differ, and for a tested P all strata are moved by one
    step on the logit scale until they average to P: V(P) = sum a_h q_h(1-q_h) + noise. A stratum without a case may have some
    all the same: each starts half a case away from its ends, (n p + 1/2)/(n + 1), or no step would ever move it.
    """
    shares, takes = sizes.shares, sizes.takes
    # What strata vary by is estimated from them: q(1-q) is too small by 1 - 1/n_h, and t stands for z.
    weights = shares**2 * (1.0 - sizes.rates) / np.maximum(takes - 1.0, 1.0) * sizes.spread_factor
    t = student(max(sizes.n - len(takes), 1.0))
    estimate = (shares * noisy).sum(axis=-1)
    point = np.clip(estimate, 0.0, 1.0)
    p = np.clip(point, 1e-4, 1.0 - 1e-4)[..., None]
    within = noise + p * (1.0 - p) / takes
    between = np.maximum(((noisy - p) ** 2 - within).mean(axis=-1, keepdims=True), 0.0)
    pull = between / (between + within)
    strata = (takes * np.clip(p + pull * (noisy - p), 0.0, 1.0) + 0.5) / (takes + 1.0)
    logits = np.log(strata / (1.0 - strata))
    noise_all = float((shares**2 * noise).sum())
    fourth = float((shares**4 * noise**2).sum())

    def sampling(value: Array) -> Array:
        moved = _tilt(logits, shares, value)
        return np.asarray((weights * moved * (1.0 - moved)).sum(axis=-1))

    def accepts(value: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        whole = np.maximum(sampling(value) + noise_all, 1e-300)
        kurtosis = noise_kurtosis * fourth / whole**2 if noise_kurtosis else np.zeros_like(whole)
        return np.asarray(np.abs(estimate - value) <= critical(t, kurtosis) * np.sqrt(whole))

    low, high = accepted_hull(accepts, point, 0.0, 1.0, intervals)
    middle = np.clip(point, 0.5 * low, 0.5 * (1.0 + high))
    return estimate, np.sqrt(sampling(middle)), np.full_like(estimate, np.sqrt(noise_all)), low, high


def _tilt(logits: Array, shares: Array, value: Array) -> Array:
    """The strata moved by one step on the logit scale so that they average to a value."""
    low, high = np.full(value.shape, -40.0), np.full(value.shape, 40.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        # Logits beyond 35 are 0 or 1 in floating point; cutting them keeps exp in range.
        moved = 1.0 / (1.0 + np.exp(-np.clip(logits + middle[..., None], -35.0, 35.0)))
        under = (shares * moved).sum(axis=-1) < value
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logits + (0.5 * (low + high))[..., None], -35.0, 35.0))))


def published_proportion(total: Array, variance: Array, noise: tuple[float, float]) -> tuple[Array, ...]:
    """(estimate, se_sampling, se_noise, low, high) by the published rule (Lin and others 2023): Wald, the variance floored."""
    sampling = np.maximum(variance, 0.0)
    half = Z * np.sqrt(sampling + noise[0])
    low, high = np.clip(total - half, 0.0, 1.0), np.clip(total + half, 0.0, 1.0)
    return total, np.sqrt(sampling), np.full_like(total, np.sqrt(noise[0])), low, high


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


def weigh_strata(query: Query, charge: PrivacyProfile, facts: Facts, additive: type[Mechanism], bounds: Ranges) -> WeightedStrata:
    """The mechanism of one noisy mean and of its squares, weighted as its variance weighs them."""
    assert isinstance(query.encoding, Moments)
    sizes = with_own_ranges(sizes_of(facts, ()), bounds)
    takes, scale = [int(take) for take in sizes.takes], query.encoding.scale
    return WeightedStrata.calibrate(
        charge, additive, takes, sizes.per_unit.tolist(), squares_in(sizes).tolist(), query.steps, scale
    )


def with_own_ranges(sizes: FixedSizes, bounds: Ranges) -> FixedSizes:
    """Strata that count by share times range; no stratum counts otherwise where all have one range."""
    return replace(sizes, shares=sizes.shares * (bounds[1] - bounds[0]))


def whole_of_strata(noisy: NoisySums, bounds: Ranges) -> Estimates:
    """The mean of the whole; strata may have ranges of their own."""
    low, high = bounds
    query, mechanism, sums, kurtosis = noisy.query, noisy.mechanism, noisy.sums, noisy.kurtosis
    assert isinstance(query.encoding, Moments)
    sizes, spans = sizes_of(noisy.facts, ()), high - low
    whole, offset = float(sizes.shares @ spans), float(sizes.shares @ low)
    if isinstance(mechanism, MeanAndVariance):
        parts = bought_mean(*mechanism.read(sums, float(np.max(sizes.per_unit * spans))), sizes, whole, kurtosis)
        method = "one noisy mean, variance within strata bought"
    elif isinstance(mechanism, WeightedStrata):
        ranged = with_own_ranges(sizes, bounds)
        parts = weighted_mean(mechanism.read(sums, float(np.max(ranged.per_unit))), ranged, whole, kurtosis)
        method = "one noisy mean, squares weighted by stratum"
    else:
        units = 1.0 / (sizes.takes * query.steps)
        seconds = units / query.encoding.scale
        own = (mechanism.variance * units**2, mechanism.variance * seconds**2)
        parts = separate_mean(sums[..., 0] * units, sums[..., 1] * seconds, own, sizes, spans, kurtosis)
        method = "noise in every stratum"
    m, sampling, noise_se, ci_low, ci_high = (each[..., None] for each in parts)
    notes = fixed_notes(m / whole, sampling, noise_se)
    return Estimates(offset + np.clip(m, 0.0, whole), sampling, noise_se, offset + ci_low, offset + ci_high, notes, method)


def measured_advice(typical: tuple[float, float] | None, asked: Asked) -> tuple[str, ...]:
    """What a plan says of a mean or total: too few units for a declared skewness, a bought variance that is mostly noise."""
    found: list[str] = []
    facts, mechanism = asked.facts, asked.mechanism
    if typical is not None:
        mean, square = typical
        skew = float(skewness(np.sqrt(max(square - mean**2, 0.0)), np.asarray(min(mean, 1.0 - mean))))
        if facts.expected_units < 25.0 * skew**2:
            found.append(Note.SKEWED)
    if isinstance(mechanism, MeanAndVariance):
        sizes = sizes_of(facts, ())
        spread = 0.25 if typical is None else typical[1] - typical[0] ** 2
        within = float(np.sum(mechanism.factors)) * spread
        if within < 5.0 * np.sqrt(mechanism.of_variance.variance) * mechanism.variance_unit / FINE or sizes.n < 100.0:
            found.append(NOISY_VARIANCE)
    return tuple(found)
