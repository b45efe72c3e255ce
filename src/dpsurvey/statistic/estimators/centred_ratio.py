"""A ratio from residuals around a noisy centre: its test, and when two steps are expected to do better than one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...mechanism.base import Norm
from ...mechanism.centred_ratio import FIRST_STEP, PARTS, CentredRatio, Change, residuals_at
from ..noisy_sums import NoisySums
from .interval import Array, accepted_hull, critical, skew_allowance, student, truncated
from .random_size import Answer

# More than this is not taken off for the noise of a variance: what is truncated at 0 is cautious already.
NOISY_FREEDOM = 30.0
# The denominator over its noise in the first step, from which a centre is worth its part of the charge; and where nothing
# declares how large the denominator is, and it is supposed to reach half of its bound.
RESOLVED, SUPPOSED_RESOLVED = 10.0, 50.0


@dataclass(frozen=True)
class _Groups:
    """What the second step says of each group, in units of records: figures of shape (..., groups)."""

    centre: Array
    residual: Array
    residual_noise: Array
    squares: Array
    squares_noise: Array

    @classmethod
    def of(cls, noisy: NoisySums) -> _Groups:
        """The answers of the second step as sums of e = y - r x and of e^2, with the noise variance of both."""
        mechanism, steps = noisy.mechanism, noisy.query.steps
        assert isinstance(mechanism, CentredRatio)
        parts = noisy.sums[..., 2].astype(np.int64)
        found, place = np.unique(parts, return_inverse=True)
        made = [mechanism.residuals(int(each)) for each in found]
        variance = np.array([mechanism.of_residuals(int(each)).variance for each in found])[place].reshape(parts.shape)
        a, c = (np.array([getattr(each, name) for each in made])[place].reshape(parts.shape) for name in ("a", "c"))
        r = parts / PARTS
        unit = (1.0 + r) / steps
        residual = noisy.sums[..., 3] * unit
        squares = a * residual - noisy.sums[..., 4] * unit / c
        noise = variance * unit**2
        return cls(r, residual, noise, squares, noise * (a**2 + 1.0 / c**2))


def solve_centred(noisy: NoisySums, most: float) -> Answer:
    """R with T(R) = sum of e - (R - r) X = 0, where e = y - r x are the residuals from the centre r and X the noisy sum of x."""
    query, facts, v = noisy.query, noisy.facts, noisy.variance
    top, bottom = noisy.sums[..., 0] / query.steps, noisy.sums[..., 1] / query.steps
    own, thinning, count_sd = _Groups.of(noisy), facts.thinning(query.by, query.groups), np.sqrt(v)
    shift = np.divide(own.residual, bottom, out=np.full_like(bottom, np.nan), where=np.abs(bottom) > 1e-9)
    estimate = own.centre + shift
    point = np.clip(np.nan_to_num(estimate, nan=0.0), 0.0, most)
    cap = (1.0 + own.centre**2) * np.maximum(np.maximum(top, bottom), count_sd)
    doubt = np.sqrt(own.squares_noise)
    squares = truncated(own.squares, doubt, cap)
    # The squares are known less well than from that many units: their noise counts as fewer degrees of freedom.
    freedom = np.maximum(truncated(bottom, count_sd) - 1.0, 1.0)
    noisy_squares = doubt / np.maximum(squares, 1e-300)
    freedom = np.minimum(freedom, np.maximum(1.0 / (1.0 / freedom + 0.5 * noisy_squares**2), NOISY_FREEDOM))
    sampling, t = thinning * squares, student(freedom)

    def noise(r: Array) -> Array:
        return np.asarray(own.residual_noise + (r - own.centre) ** 2 * v)

    def accepts(r: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        whole = np.maximum(sampling + noise(r), 1e-300)
        fourth = own.residual_noise**2 + (r - own.centre) ** 4 * v**2
        kurtosis = noisy.kurtosis * fourth / whole**2 if noisy.kurtosis else np.zeros_like(whole)
        return np.asarray(np.abs(own.residual - (r - own.centre) * bottom) <= critical(t, kurtosis) * np.sqrt(whole))

    low, high = accepted_hull(accepts, point, 0.0, most, noisy.intervals)
    size = np.maximum(np.abs(bottom), count_sd)
    # Half of the allowance that a mean with the spread of the residuals would have: part of its skewness is shared with x.
    units = facts.expected_units / len(query.groups)
    mean = np.clip((own.residual + own.centre * bottom) / units, 0.0, 1.0)
    share = sampling / np.maximum(sampling + noise(point), 1e-300)
    spread = np.sqrt(np.clip(squares / units, 0.0, 0.25))
    extra = 0.5 * skew_allowance(spread, np.minimum(mean, 1.0 - mean), np.asarray(units), share)
    high = np.where(high < most, high + extra * np.sqrt(sampling + noise(point)) / size, high)
    return Answer(
        estimate,
        np.sqrt(sampling) / size,
        np.sqrt(noise(point)) / size,
        low,
        high,
        bottom,
        np.broadcast_to(count_sd, bottom.shape),
        freedom,
    )


@dataclass(frozen=True)
class TwoWays:
    """What is declared of a ratio whose groups could be asked in one step or in two.

    `moments` are the means of y and x on [0, 1], their deviations and correlation; `free` is the weight of the second moments in
    one step, `noise` the variance of noise on one sum that a record moves by 1, if all is spent on it.
    """

    moments: tuple[float, float, float, float, float]
    declared: bool
    free: float
    norm: Norm
    change: Change
    noise: float

    def two_pay(self, units: Array, thinning: Array) -> bool:
        """Whether two steps are predicted to have the smaller variance, and a centre that the noise does not carry away."""
        y, sd, x, to_sd, correlation = self.moments
        r = y / x
        power = 2.0 if self.norm == "L1" else 1.0
        both = (2.0 if self.norm == "L1" else np.sqrt(2.0)) * self._moved
        one = np.sqrt(self.noise)
        if np.any(units * x < (RESOLVED if self.declared else SUPPOSED_RESOLVED) * both * one / FIRST_STEP ** (power / 2.0)):
            return False
        each = y**2 + sd**2 - 2.0 * r * (x * y + correlation * sd * to_sd) + r**2 * (x**2 + to_sd**2)
        squares = thinning * units * max(each, 0.0)
        parts = (1.0 - r, r**2 - r, -(1.0 - r) / self.free, -(r**2 - r) / self.free, r / self.free)
        noise = both * one
        once = truncated(squares, noise * np.sqrt(sum(part**2 for part in parts))) + noise**2 * (1.0 + r**2)
        second = residuals_at(round(r * PARTS), self.norm, self.change)
        noise = (1.0 + r) * second.one * one / (1.0 - FIRST_STEP) ** (power / 2.0)
        twice = truncated(squares, noise * np.sqrt(second.a**2 + 1.0 / second.c**2)) + noise**2
        return bool(np.mean(np.log(twice / once)) < 0.0)

    @property
    def _moved(self) -> float:
        """How much further than alone a record moves sums in which another one takes its place elsewhere."""
        if self.change is not Change.MOVES:
            return 1.0
        return 2.0 if self.norm == "L1" else np.sqrt(2.0)
