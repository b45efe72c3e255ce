"""Samples of a population: their medians, smooth sensitivities and scales of noise, as Section 4.3 simulates them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpsurvey.mechanism import Place, smooth_printed, smooth_sensitivities

from ..data import bounds_of, population
from ..item import Rows, Run, Value
from .rates import sampled

Array = npt.NDArray[np.float64]
# A ratio differs from 1 if it is this many Monte-Carlo standard errors away: by chance once in a million.
FAR = 4.9
EPSILONS = (0.1, 0.5, 1.0)
SIZES = (1001, 101)
# Samples that are in memory at once.
TOGETHER = 200
# Rows that are kept of each simulated distribution, evenly among its order statistics.
KEPT = 300


def samples(values: Array, n: int, draws: int, rng: np.random.Generator) -> Array:
    """Simple random samples of n without replacement, sorted, as rows.

    >>> rows = samples(np.arange(9.0), 4, 50, Run(quick=True, seed=1).rng(1))
    >>> rows.shape, bool((np.diff(rows, axis=1) > 0).all())
    ((50, 4), True)
    """
    parts = []
    for start in range(0, draws, TOGETHER):
        keys = rng.random((min(TOGETHER, draws - start), len(values)))
        parts.append(np.sort(values[np.argpartition(keys, n - 1, axis=1)[:, :n]], axis=1))
    return np.concatenate(parts)


class Noise(NamedTuple):
    """Of each sample at one guarantee: its smooth sensitivity, and the scale of the Laplace noise on its median."""

    sensitivities: Array
    scales: Array


def noise_of(ordered: Array, epsilon: float, size: int, bounds: tuple[float, float]) -> Noise:
    """The noise of sorted samples by the recipe as printed, at what a sample of that size may spend."""
    n, delta = ordered.shape[1], 1.0 / (2 * size)
    if n < size:
        inside = sampled(epsilon, n, delta, size)
        alpha, beta, _ = smooth_printed(inside.spent_epsilon, inside.spent_delta)
    else:
        alpha, beta, _ = smooth_printed(epsilon, delta)
    found = smooth_sensitivities(ordered, Place.median(n), beta, *bounds)
    return Noise(found, found / alpha)


@dataclass(frozen=True)
class Simulation:
    """Everything that Figures 6, 7 and 10 to 12 are drawn from: `noise[epsilon, n]`, n = N without chance."""

    size: int
    medians: dict[int, Array]
    noise: dict[tuple[float, int], Noise]

    def ratios(self, epsilon: float, n: int) -> Array:
        """Smooth sensitivities of the samples over that of the population."""
        return np.asarray(self.noise[epsilon, n].sensitivities / self.noise[epsilon, self.size].sensitivities[0])

    def variance(self, epsilon: float, n: int) -> Value:
        """The variance of the noise over that on the population, with its Monte-Carlo error; without drawing any noise."""
        whole = float(self.noise[epsilon, self.size].scales[0])
        squares = (self.noise[epsilon, n].scales / whole) ** 2
        return Value(float(squares.mean()), float(squares.std(ddof=1)) / math.sqrt(len(squares)) if len(squares) > 1 else 0.0)


def simulate(name: str, run: Run, draws: int, stream: int) -> Simulation:
    """Samples of both sizes, the same for every epsilon."""
    values, bounds = population(name), bounds_of(name)
    size = len(values)
    medians: dict[int, Array] = {}
    noise: dict[tuple[float, int], Noise] = {}
    for place, n in enumerate((size, *SIZES)):
        ordered = values[None, :] if n == size else samples(values, n, draws, run.rng(stream, place))
        medians[n] = ordered[:, Place.median(n).lower - 1]
        noise |= {(epsilon, n): noise_of(ordered, epsilon, size, bounds) for epsilon in EPSILONS}
    return Simulation(size, medians, noise)


def middle(values: Array) -> Value:
    """The median of simulated figures, with its standard error from the order statistics around it.

    >>> middle(np.arange(101.0)).value
    50.0
    """
    ordered, count = np.sort(values), len(values)
    # The rank of another simulation's median varies by half the root of their number.
    away = max(1, round(math.sqrt(count) / 2.0))
    low, high = ordered[max(0, count // 2 - away)], ordered[min(count - 1, count // 2 + away)]
    return Value(float(np.median(ordered)), float(high - low) / 2.0)


def compared(found: Value) -> str:
    """Whether a ratio is surely below or above 1, beyond its Monte-Carlo error.

    >>> compared(Value(0.5, 0.01)), compared(Value(1.01, 0.01))
    ('less', 'about the same')
    """
    value, error = float(found.value), FAR * found.error
    return "less" if value + error < 1.0 else "more" if value - error > 1.0 else "about the same"


def thinned(values: Array, kept: int = KEPT) -> list[float]:
    """Evenly spaced order statistics of a simulated distribution: its shape, its middle and its ends in fewer rows."""
    ordered = np.sort(values)
    if len(ordered) <= kept:
        return [float(value) for value in ordered]
    return [float(value) for value in ordered[np.linspace(0, len(ordered) - 1, kept).round().astype(int)]]


def panel_rows(panel: str, groups: dict[str, Array], column: str) -> Rows:
    """Rows of one panel of violins."""
    return [{"panel": panel, "group": group, column: value} for group, values in groups.items() for value in thinned(values)]
