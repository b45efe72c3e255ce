"""The mean square error of a noisy median, exactly, given the sample: what simulations of sampling rates average."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import BadValue
from ..mechanism.many_sensitivities import smooth_sensitivities
from ..mechanism.order_statistic import Array, Place
from ..mechanism.smooth import calibrated, printed
from ..privacy.rounding import unamplified
from ..text.layout import ceiling_text

METHODS = ("smooth", "smooth-as-printed", "exponential")
# Samples that are in memory at once hold about this many values.
AT_ONCE = 2_500_000
# Squares of mean square errors beyond this leave the range of floats.
LARGEST = 1e140


class Errors(NamedTuple):
    """Of each sample: the squared error of its median, what noise adds on average, and S where noise has one."""

    sampling: Array
    noise: Array
    sensitivities: Array | None


@dataclass(frozen=True)
class NoisyMedian:
    """One method at one guarantee: (epsilon, delta), one record replaced, size and bounds public."""

    method: str
    epsilon: float
    delta: float
    low: float
    high: float

    def spends(self, n: int, size: int) -> tuple[float, float | None]:
        """What a sample of n may spend; the exponential mechanism has no delta."""
        return unamplified(self.epsilon, n / size), None if self.method == "exponential" else self.delta * size / n

    def errors(self, samples: Array, size: int, truth: float) -> Errors | str:
        """The errors of sorted samples of one size, or why there are none.

        >>> found = NoisyMedian("exponential", 1.0, 0.1, 0.0, 10.0).errors(np.array([[5.0]]), 1, 5.0)
        >>> found.sampling.tolist(), found.noise.round(6).tolist()
        ([0.0], [8.333333])
        """
        n = samples.shape[1]
        epsilon, delta = self.spends(n, size)
        if delta is not None and not delta < 1.0:
            return f"a sample of {n} would have to keep a delta of {ceiling_text(delta)}, which is not a probability"
        sensitivities = None
        with np.errstate(over="ignore"):
            sampling = (median_of(samples) - truth) ** 2
            if delta is None:
                noise = chosen_errors(samples, epsilon, self.low, self.high, truth) - sampling
            else:
                try:
                    alpha, beta = calibrated(epsilon, delta) if self.method == "smooth" else printed(epsilon, delta)[:2]
                except BadValue as error:
                    loss = f"epsilon {ceiling_text(epsilon)} and delta {ceiling_text(delta)}"
                    return f"{error.what}, on a sample of {n} with {loss}"
                sensitivities = smooth_sensitivities(samples, Place.median(n), beta, self.low, self.high)
                # The variance of Laplace noise of scale S/alpha.
                noise = 2.0 * (sensitivities / alpha) ** 2
            if not np.all(sampling + noise < LARGEST):
                return "the error is larger than can be averaged"
        return Errors(sampling, noise, sensitivities)


def chosen_errors(samples: Array, epsilon: float, low: float, high: float, truth: float) -> Array:
    """The mean square error of the exponential mechanism's median, exactly, given each sorted sample.

    A gap between neighbouring values with j of n below is chosen with chance proportional to e^(-epsilon |j - n/2|/2) times
    its length, and a point in it evenly: the sum over gaps of P_j E (U_j - truth)^2. One record replaced moves a score by 1.

    >>> chosen_errors(np.array([[2.0, 2.0, 2.0], [4.0, 5.0, 6.0]]), 2.0, 0.0, 10.0, 2.0).round(6).tolist()
    [17.333333, 15.287237]
    """
    ends = np.pad(samples, ((0, 0), (1, 1)))
    ends[:, 0], ends[:, -1] = low, high
    ends -= truth
    lengths = np.diff(ends, axis=1)
    squares = (ends[:, :-1] ** 2 + ends[:, :-1] * ends[:, 1:] + ends[:, 1:] ** 2) / 3.0
    n = samples.shape[1]
    scores = -0.5 * epsilon * (np.abs(np.arange(n + 1) - 0.5 * n) - 0.5 * (n % 2))
    chances = np.exp(scores) * lengths
    total = chances.sum(axis=1)
    for row in np.nonzero(total < 1e-290)[0]:
        # Ties around the median leave only gaps whose weights are below the range of floats: measured from the largest.
        some = np.nonzero(lengths[row] > 0.0)[0]
        chances[row, some] = np.exp(scores[some] - scores[some].max()) * lengths[row, some]
        total[row] = chances[row, some].sum()
    return np.asarray(np.einsum("ij,ij->i", chances, squares) / total)


def median_of(samples: Array) -> Array:
    """The median of every sorted row.

    >>> median_of(np.array([[1.0, 2.0, 4.0, 9.0]])).tolist()
    [3.0]
    """
    place = Place.median(samples.shape[1])
    # Halved before they are added: the sum of two large values may be out of range.
    return np.asarray(0.5 * samples[:, place.lower - 1] + 0.5 * samples[:, place.upper - 1])


def simulated_errors(values: Array, n: int, asked: list[NoisyMedian], draws: int, seed: int) -> list[Errors | str]:
    """The errors of all methods on the same simple random samples of n, drawn a part at a time.

    >>> found = simulated_errors(np.arange(11.0), 3, [NoisyMedian("smooth", 1.0, 0.04, 0.0, 10.0)], draws=20, seed=1)
    >>> len(found[0].noise)
    20
    """
    truth = float(median_of(values[None, :])[0])
    found: list[list[Errors | str]] = [[] for _ in asked]
    for samples in _samples(values, n, draws, seed):
        for each, parts in zip(asked, found, strict=True):
            parts.append(each.errors(samples, len(values), truth))
    return [_joined(parts) for parts in found]


def _joined(parts: list[Errors | str]) -> Errors | str:
    """The parts one after the other; a refusal of one part is a refusal of all."""
    done = [part for part in parts if not isinstance(part, str)]
    if len(done) < len(parts):
        return next(part for part in parts if isinstance(part, str))
    scales = [part.sensitivities for part in done if part.sensitivities is not None]
    return Errors(
        np.concatenate([part.sampling for part in done]),
        np.concatenate([part.noise for part in done]),
        np.concatenate(scales) if scales else None,
    )


def _samples(values: Array, n: int, draws: int, seed: int) -> Iterator[Array]:
    """Simple random samples of n without replacement, sorted, as rows. The same seed and size give the same samples."""
    rng = np.random.default_rng([seed, n])
    step = max(1, AT_ONCE // len(values))
    for start in range(0, draws, step):
        numbers = rng.random((min(step, draws - start), len(values)))
        # By rank, not by a threshold: two equal random numbers must not make a sample larger.
        drawn = np.zeros(numbers.shape, dtype=bool)
        np.put_along_axis(drawn, np.argpartition(numbers, n - 1, axis=1)[:, :n], True, axis=1)
        yield np.broadcast_to(values, drawn.shape)[drawn].reshape(len(drawn), n)
