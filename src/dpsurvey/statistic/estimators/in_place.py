"""Means, totals, proportions and counts of units that are weighted one by one, where the answers of a record alone may change.

On the scale of x = y - c, with a public centre c, an estimate r solves T(r) = sum u x - r sum u = 0. Its interval is the set of r
that the test |T(r)| <= k sqrt(V(r)) accepts, V(r) = sum u^2 (1-pi) (x-r)^2 + noise(r): squares of weights are among the sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..base import Estimates
from ..in_place import InPlace
from ..noisy_sums import NoisySums
from ..notes import estimates_of
from .interval import Array, accepted_hull, critical, skew_allowance, skewness, student, truncated
from .random_size import Answer


@dataclass(frozen=True)
class Numbers:
    """Noisy sums of one number each in units of records, on the scale of x = y - c, with the noise of those made of several.

    `values` is the sum of u x, `squared` that of u^2 (1-pi) x, `products` that of u^2 (1-pi)(y(1-y) - c(1-c)); `count` and
    `squares` are those of u and u^2 (1-pi) over all units that an estimate is divided by, for which `merged` noisy sums each
    are added up; `cubes` are those of u^3.
    """

    values: Array
    count: Array
    squared: Array
    products: Array
    squares: Array
    cubes: Array
    centre: Array | float
    merged: int
    variance: float
    kurtosis: float
    # Noise variances of the three sums of squares, over that of one sum.
    of_squared: float
    of_products: float
    of_squares: float
    # How often the group's own sum of u is in `values`, and that of u^2 in `squared` and in `products`.
    in_values: Array | float = 0.0
    in_products: Array | float = 0.0


def numbers_in_place(noisy: NoisySums) -> Numbers:
    """The sums of each group by itself."""
    encoding, sums = noisy.query.encoding, noisy.records
    assert isinstance(encoding, InPlace)
    kept, scale = 1.0 - encoding.least(noisy.facts), encoding.scale
    values, count, rest = sums[..., 0], sums[..., 1], list(np.moveaxis(sums[..., 2:], -1, 0))
    if encoding.alike:
        # One weight for all: squares of weights are weights.
        squared, squares, cubes, of_squared, of_squares = kept * values, kept * count, count, kept**2, kept**2
    else:
        cubes, squares = rest.pop(), rest.pop()
        squared, of_squared, of_squares = kept * values - rest.pop(0) / scale, kept**2 + scale**-2, 1.0
    # y(1-y) is 0 for yes and no.
    product = -encoding.centre * (1.0 - encoding.centre) if encoding.counts else 0.0
    products, of_products = (product * squares, 0.0) if encoding.counts else (rest.pop() / scale, scale**-2)
    return Numbers(
        values, count, squared, products, squares, cubes, encoding.centre, 1, noisy.variance, noisy.kurtosis,
        of_squared, of_products, of_squares, 0.0, product,
    )  # fmt: skip


def of_whole(own: Numbers, zero: Array) -> Numbers:
    """The same measured from another point, and divided by all units: those outside a group count as `zero`."""
    moved = own.centre - zero
    product = own.centre * (1.0 - own.centre) - zero * (1.0 - zero)
    whole = [np.broadcast_to(each.sum(axis=-1, keepdims=True), each.shape) for each in (own.count, own.squares, own.cubes)]
    return replace(
        own,
        values=own.values + moved * own.count,
        count=whole[0],
        squared=own.squared + moved * own.squares,
        products=own.products + product * own.squares,
        squares=whole[1],
        cubes=whole[2],
        centre=zero,
        merged=own.count.shape[-1],
        in_values=moved,
        in_products=own.in_products + product,
    )


def estimates_in_place(noisy: NoisySums, low: Array, high: Array, *, shared: bool = False) -> tuple[Estimates, Answer]:
    """The numbers of groups with values in [low, high], with what their intervals were made of.

    Those that are `shared` are totals over the number of all units: who is outside a group counts as 0.
    """
    sums, span = numbers_in_place(noisy), high - low
    if shared:
        sums = of_whole(sums, -low / span)
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        offset = np.zeros_like(low)
    else:
        offset = low + span * sums.centre
    found = solve_in_place(sums, (low - offset) / span, (high - offset) / span, intervals=noisy.intervals)
    answer = replace(
        found,
        estimate=offset + span * found.estimate,
        se_sampling=span * found.se_sampling,
        se_noise=span * found.se_noise,
        low=np.maximum(offset + span * found.low, low),
        high=np.minimum(offset + span * found.high, high),
    )
    return estimates_of(answer, low, high, keep_outside=shared, method="test inversion, free squared weights"), answer


class _Test:
    """T(r), its sampling variance and its noise variance, as functions of r."""

    def __init__(self, sums: Numbers, low: Array, high: Array) -> None:
        self.sums, self.low, self.high = sums, low, high
        sd = np.sqrt(sums.merged * sums.variance)
        self.count = truncated(sums.count, sd)
        # u^2 <= u
        self.squares = truncated(sums.squares, np.sqrt(sums.of_squares * sums.merged * sums.variance), self.count)
        self.freedom = self.count**2 / np.maximum(self.squares, 1e-300) - 1.0
        self.t = student(self.freedom)
        cubes = truncated(sums.cubes, sd, self.squares)
        # As many units of one weight have sums with as large a third moment.
        self.alike = np.clip(self.squares**3 / np.maximum(cubes, 1e-100) ** 2, self.squares, self.count)

    def noise(self, value: Array) -> Array:
        """Noise variance of T."""
        sums = self.sums
        return np.asarray(sums.variance * (1.0 + (value - sums.in_values) ** 2 + (sums.merged - 1) * value**2))

    def doubt(self, value: Array) -> Array:
        """Noise variance of the sampling variance."""
        sums = self.sums
        slope = 1.0 - 2.0 * sums.centre - 2.0 * value
        own = slope**2 * sums.of_squared + sums.of_products
        counted = (slope * sums.in_values - sums.in_products + value**2) ** 2 + (sums.merged - 1) * value**4
        return np.asarray(sums.variance * (own + sums.of_squares * counted))

    def sampling(self, value: Array) -> Array:
        """Sampling variance of T: at most what values at both ends, with this mean, could have."""
        sums = self.sums
        raw = (1.0 - 2.0 * sums.centre - 2.0 * value) * sums.squared - sums.products + value**2 * sums.squares
        most = self.count * np.maximum((value - self.low) * (self.high - value), 0.0)
        return truncated(raw, np.sqrt(self.doubt(value)), most)

    def accepts(self, value: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Whether the test accepts r = value."""
        total = np.maximum(self.sampling(value) + self.noise(value), 1e-300)
        parts = 1.0 + (value - self.sums.in_values) ** 4 + (self.sums.merged - 1) * value**4
        fourth = parts * (self.sums.variance / total) ** 2
        limit = critical(self.t, self.sums.kurtosis * fourth)
        return np.asarray(np.abs(self.sums.values - value * self.sums.count) <= limit * np.sqrt(total))


def solve_in_place(sums: Numbers, low: Array, high: Array, *, intervals: bool = True) -> Answer:
    """The estimate, both standard errors and the 95 % interval of r in [low, high], all on the scale of x."""
    test = _Test(sums, low, high)
    known = np.abs(sums.count) > 1e-9
    estimate = np.divide(sums.values, sums.count, out=np.full_like(sums.values, np.nan), where=known)
    point = np.clip(np.where(np.isnan(estimate), 0.5 * (low + high), estimate), low, high)
    ends = accepted_hull(test.accepts, point, low, high, intervals)
    sampling, noise = test.sampling(point), test.noise(point)
    half = np.sqrt(sampling + noise) / test.count
    spread, near = (
        np.sqrt(sampling / np.maximum(test.squares, 1e-300)) / (high - low),
        np.minimum(point - low, high - point) / (high - low),
    )
    extra = half * skew_allowance(spread, near, test.alike, sampling / np.maximum(sampling + noise, 1e-300))
    lower = point - low <= high - point
    unresolved = np.sqrt(test.doubt(point)) / np.maximum(sampling, 1e-300)
    return Answer(
        estimate=estimate,
        se_sampling=np.sqrt(sampling) / test.count,
        se_noise=np.sqrt(noise) / test.count,
        low=np.maximum(ends[0] - np.where(lower, 0.0, extra), low),
        high=np.minimum(ends[1] + np.where(lower, extra, 0.0), high),
        count=sums.count,
        count_sd=np.broadcast_to(np.sqrt(sums.merged * sums.variance), sums.count.shape),
        df=test.freedom,
        unresolved=unresolved,
        skewed=(unresolved <= 1.5) & (test.alike < 25.0 * skewness(spread, near) ** 2),
    )
