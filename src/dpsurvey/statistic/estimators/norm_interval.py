"""Estimates from clusters whose standard errors were bought as norms: the noise is on the whole, not on every random group.

With s the noisy standard error, of noise tau, and v1 the noise of the number, the half width is

    [1 + (z^2 - 3)/24 K (v1/(W + c tau^2))^2] sqrt(t^2 (s^2 + c tau^2) + z^2 v1),  W = s^2 + v1,  c = max(0, (z^2 + 1) s^2/W - 1)

with K the excess kurtosis of the noise. c makes up for what a noisy standard error costs in coverage, to second order; t has the
degrees of freedom of the design (Satterthwaite). Proof: docs/proofs/estimation.md.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..base import Estimates
from ..linear_numbers import LinearNumbers
from ..noisy_sums import NoisySums
from ..notes import FEW_FREEDOM, Note, estimates_of
from .interval import Array, Z, accepted_hull, student, truncated
from .random_size import Answer

Flags = npt.NDArray[np.bool_]
# Cases of which a share has the variance of units drawn alone at least; of twice as many it no longer has to.
FEW_CASES = 30.0


def half_width(standard_error: Array, doubt: Array, noise: Array, kurtosis: Array, freedom: Array) -> Array:
    """How far an interval reaches on either side: a noisy standard error with its own noise, and the noise of the number.

    >>> float(half_width(np.array(1.0), np.array(0.0), np.array(0.0), np.array(0.0), np.array(1e9)).round(3))
    1.96
    """
    own = np.maximum(standard_error, 0.0)
    whole = np.maximum(own**2 + noise, 1e-300)
    more = np.maximum((Z**2 + 1.0) * own**2 / whole - 1.0, 0.0) * doubt**2
    bracket = 1.0 + (Z**2 - 3.0) / 24.0 * kurtosis * (noise / (whole + more)) ** 2
    return np.asarray(bracket * np.sqrt(student(freedom) ** 2 * (own**2 + more) + Z**2 * noise))


def variance_alone(unit: float, units: Array, value: Array | float) -> Array:
    """The variance that a share of few cases has at least: of units drawn alone, less and less of it from 30 to 60 cases.

    Few or no cases in few clusters say little about their spread; many say all, also where it is small.

    >>> [float(variance_alone(1.0, np.array(1000.0), share).round(1)) for share in (0.01, 0.045, 0.5)]
    [9.9, 21.5, 0.0]
    """
    cases = units * np.minimum(value, 1.0 - np.asarray(value)) / max(unit, 1e-300)
    fading = np.clip(2.0 - cases / FEW_CASES, 0.0, 1.0)
    return np.asarray(np.maximum(fading * unit * units * value * (1.0 - np.asarray(value)), 0.0))


class NormTest:
    """A - R B of every number, with its errors as functions of R."""

    def __init__(self, noisy: NoisySums, numbers: LinearNumbers) -> None:
        self.noisy, self.numbers = noisy, numbers
        self.top, self.bottom = numbers.numerator(noisy), numbers.denominator(noisy)
        whole = np.where(np.abs(self.bottom) > 1e-9, self.bottom, np.nan)
        self.estimate = self.top / whole
        middle = 0.5 * (np.clip(numbers.low, -1e300, 1e300) + np.clip(numbers.high, -1e300, 1e300))
        self.point = np.clip(np.where(np.isnan(self.estimate), middle, self.estimate), numbers.low, numbers.high)
        self.size = np.maximum(np.abs(self.bottom), 1e-9)
        top, bottom = (each.reshape(len(each), -1) for each in (numbers.top, numbers.bottom))
        # Of every number the sums of a^i b^j over its coefficients, for powers of a - R b.
        self._squares = [np.einsum("nk,nk->n", top**i, bottom ** (2 - i)) for i in (2, 1, 0)]
        self._fourths = [np.einsum("nk,nk->n", top**i, bottom ** (4 - i)) for i in (4, 3, 2, 1, 0)]
        self.count_sd = np.sqrt(noisy.variance * self._squares[2])
        scale = np.abs(numbers.span)
        self.freedom = noisy.freedom(len(numbers.top))
        # On the scale of A, as all that follows.
        safe = np.where(scale > 0.0, scale, 1.0)
        self.error, self.doubt = (each / safe * self.size for each in noisy.standard_errors(len(numbers.top)))

    def noise(self, value: Array) -> Array:
        """Noise variance of A - R B."""
        own, shared, units = self._squares
        return np.asarray(np.maximum(self.noisy.variance * (own - 2.0 * value * shared + value**2 * units), 0.0))

    def kurtosis(self, value: Array) -> Array:
        """The excess kurtosis of that noise."""
        if not self.noisy.kurtosis:
            return np.zeros_like(value)
        signs = (1.0, -4.0, 6.0, -4.0, 1.0)
        terms = [sign * value**power * each for power, (sign, each) in enumerate(zip(signs, self._fourths, strict=True))]
        fourth = np.asarray(np.sum(terms, axis=0), dtype=np.float64)
        own, shared, units = self._squares
        square = np.maximum(own - 2.0 * value * shared + value**2 * units, 1e-100)
        found: Array = self.noisy.kurtosis * np.clip(fourth / square**2, 0.0, 1.0)
        return found

    def squared_error(self, value: Array) -> Array:
        """The sampling variance: as clusters show it, and of few cases of yes or no never less than that of units drawn alone."""
        own = np.maximum(self.error, 0.0) ** 2
        if not self.numbers.unit:
            return own
        units = truncated(self.bottom, self.count_sd) if np.any(self.count_sd > 0.0) else self.bottom
        return np.asarray(np.maximum(own, variance_alone(self.numbers.unit, units, value)))

    def reach(self, value: Array) -> Array:
        """How far A - R B may lie from 0."""
        error = np.sqrt(self.squared_error(value))
        return half_width(error, self.doubt, self.noise(value), self.kurtosis(value), self.freedom)

    def ends(self) -> tuple[Array, Array]:
        """The 95 % interval of R."""
        numbers = self.numbers
        if not np.all(np.isfinite(numbers.low) & np.isfinite(numbers.high)):
            reach = self.reach(self.point) / self.size
            return self.estimate - reach, self.estimate + reach
        # Noise may carry A so far out that not even the end of the range is accepted: then that end is the estimate.
        nearest = self.point * self.bottom
        top = np.where(np.abs(self.top - nearest) > self.reach(self.point), nearest, self.top)

        def accepts(value: Array) -> Flags:
            return np.asarray(np.abs(top - value * self.bottom) <= self.reach(value))

        return accepted_hull(accepts, self.point, numbers.low, numbers.high, self.noisy.intervals)


def norm_numbers(noisy: NoisySums, numbers: LinearNumbers) -> Estimates:
    """Estimates, both errors and intervals of linear numbers."""
    test = NormTest(noisy, numbers)
    low, high = test.ends()
    noise, sampling = test.noise(test.point), test.squared_error(test.point)
    unresolved = test.error < 1.5 * test.doubt
    answer = Answer(
        estimate=test.estimate,
        se_sampling=np.sqrt(sampling) / test.size,
        se_noise=np.sqrt(noise) / test.size,
        low=low,
        high=high,
        count=np.where(numbers.divides, test.bottom, np.inf),
        count_sd=np.broadcast_to(test.count_sd, test.bottom.shape),
        df=np.broadcast_to(test.freedom, test.bottom.shape),
        unresolved=np.where(unresolved, np.inf, 0.0),
    )
    outside = numbers.keeps_outside
    found = estimates_of(answer, numbers.low, numbers.high, keep_outside=outside, method=_method(noisy), clustered=True)
    moved = found.scaled(numbers.span)
    return Estimates(
        numbers.offset + moved.estimate,
        moved.se_sampling,
        moved.se_noise,
        numbers.offset + moved.low,
        numbers.offset + moved.high,
        found.notes,
        found.method,
        found.df,
        whole_range=found.whole_range,
    )


def _method(noisy: NoisySums) -> str:
    assert noisy.query.clusters is not None
    return f"{noisy.query.clusters.carried_by}, noisy standard error"


def norm_difference(noisy: NoisySums, numbers: LinearNumbers, one: list[int], two: list[int]) -> Estimates:
    """The numbers at the places `one` minus those at the places `two`, with standard errors of the differences."""
    first, second = NormTest(noisy.without_lengths, numbers.of(one)), NormTest(noisy.without_lengths, numbers.of(two))
    sides = (first, second)
    points = [each.numbers.offset + each.numbers.span * each.point for each in sides]
    per_unit = [(each.numbers.span / each.size) ** 2 for each in sides]
    # Groups have no record in common, so their noise is independent.
    noise = np.asarray(sum(part * each.noise(each.point) for part, each in zip(per_unit, sides, strict=True)))
    share = [part * each.noise(each.point) / np.maximum(noise, 1e-300) for part, each in zip(per_unit, sides, strict=True)]
    kurtosis = np.asarray(sum(part**2 * each.kurtosis(each.point) for part, each in zip(share, sides, strict=True)))
    alone = np.asarray(sum(part * each.squared_error(each.point) for part, each in zip(per_unit, sides, strict=True)))
    error, doubt = noisy.standard_errors(len(one))
    own = np.sqrt(np.maximum(np.maximum(error, 0.0) ** 2, alone))
    freedom = np.broadcast_to(noisy.freedom(len(one)), own.shape)
    reach = half_width(own, doubt, noise, kurtosis, freedom)
    estimate = points[0] - points[1]
    (least, most), (lowest, highest) = (_ends_of(each.numbers) for each in sides)
    low, high = np.maximum(estimate - reach, least - highest), np.minimum(estimate + reach, most - lowest)
    whole = np.asarray((low <= least - highest) & (high >= most - lowest))
    return Estimates(
        np.where(np.isnan(first.estimate) | np.isnan(second.estimate), np.nan, estimate),
        own,
        np.sqrt(noise),
        low,
        high,
        _difference_notes(noisy, error < 1.5 * doubt, np.sqrt(noise) > 3.0 * own, whole, freedom),
        _method(noisy),
        freedom,
        whole_range=whole,
    )


def _ends_of(numbers: LinearNumbers) -> tuple[Array, Array]:
    high = np.where(numbers.open, np.inf, numbers.high)
    return numbers.offset + numbers.span * numbers.low, numbers.offset + numbers.span * high


def _difference_notes(
    noisy: NoisySums, unresolved: Flags, noise_only: Flags, whole: Flags, freedom: Array
) -> tuple[tuple[str, ...], ...]:
    if not noisy.one_survey:
        return ()
    rules = (
        (Note.NOISE_ONLY, noise_only),
        (Note.NOT_PUBLISHABLE, whole),
        (Note.FEW_CLUSTERS, freedom < FEW_FREEDOM),
        (Note.UNRESOLVED, unresolved),
    )
    return tuple(tuple(text for text, flag in rules if flag[place]) for place in range(len(whole)))
