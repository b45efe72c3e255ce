"""The exact worst loss for designs that treat all other units alike: a chain of sample sizes.

A_j is the probability of an event on a sample of j other units. A mechanism may let A change by a factor e^epsilon
per record, so log A is a walk with slopes in [-epsilon, epsilon], and the probability B_j of a sample that holds the
target lies within one step of its neighbours on the chain. The largest ratio is a linear-fractional programme whose
vertices have slopes -1, 0 or +1. For a given ratio the best slopes follow from a backward recursion in O(n); the ratio
is raised until no slopes beat it (Dinkelbach). Derivation: docs/designs/random-size.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..privacy.rounding import below

Array = npt.NDArray[np.float64]
ROUNDS = 60
# Beyond this range of log probabilities the recursion keeps a running exponent.
PLAIN = 300.0
# Up to this one a loss has full relative accuracy.
SMALL = 30.0
# Above, the rounding of exponents is an error of the loss: so much for each unit of the largest of them.
LOST = 8e-16
SLOPES = (1, 0, -1)


@dataclass(frozen=True)
class Target:
    """Samples of each size that hold the target: log probability in each law, and how far the event is pushed.

    `offset` is the potential relative to the chain, in steps: +1 where the first law has the samples, -1 where the
    second has; `joined` says which neighbours on the chain bind: the one below, or the least or the largest of both.
    """

    log_first: Array
    log_second: Array
    offset: int


@dataclass(frozen=True)
class Chain:
    """The laws of two neighbouring populations on samples of `start`, `start`+1, ... units.

    `first` and `second` are log probabilities of samples without the target. `joined` is "below" for add-remove
    mechanisms, where a sample with the target is one step from the same sample without it; "least" or "largest"
    for mechanisms of type both, where it is one step from either neighbour.
    """

    start: int
    first: Array
    second: Array
    targets: tuple[Target, ...]
    joined: Literal["below", "least", "largest"]
    # First minus second law, where it is known better than their rounded values tell.
    gap: Array


@dataclass(frozen=True)
class Worst:
    """The largest log ratio of the first law to the second: attained by these slopes, and not exceeded by any."""

    loss: float
    upper: float
    slopes: npt.NDArray[np.int64]
    # The largest exponent that the loss was computed from.
    spread: float = 0.0

    @property
    def lower(self) -> float:
        """A loss that is attained, whatever was rounded."""
        return surely_attained(self.loss, self.spread)

    @property
    def settled(self) -> bool:
        """Whether the recursion ended on its own, so that both sides agree."""
        return math.isfinite(self.upper)


def worst_of(chain: Chain, epsilon: float) -> Worst:
    """The exact worst loss of the first law against the second, over all epsilon-private mechanisms."""
    count = len(chain.first)
    # Any slopes are a mechanism; the best of the simplest ones is a start.
    starts = [np.full(count, slope, dtype=np.int64) for slope in SLOPES]
    losses = [_loss(chain, slopes, epsilon) for slopes in starts]
    loss, slopes = max(zip(losses, starts, strict=True), key=lambda pair: pair[0])
    spread = epsilon * (count + 2)
    lost = 0.0 if spread <= PLAIN else LOST * (spread + count + 10)
    for _ in range(ROUNDS):
        # Slopes that beat a slightly larger ratio would be an improvement that rounding cannot explain.
        goal = loss * (1.0 + 2e-12) + lost + 1e-300
        beaten, better = (_recursion if spread <= PLAIN else _scaled_recursion)(chain, epsilon, goal)
        if not beaten:
            return Worst(loss, goal * (1.0 + 4e-16 * count), slopes, spread)
        gain = _loss(chain, better, epsilon)
        if gain <= loss:
            return Worst(loss, math.inf, slopes, spread)
        loss, slopes = gain, better
    return Worst(loss, math.inf, slopes, spread)


def surely_attained(loss: float, spread: float) -> float:
    """A loss that was computed from exponents up to `spread`, less what rounding may have added to it.

    >>> surely_attained(1.0, 10.0) < 1.0, surely_attained(1e-16, 100.0)
    (True, 0.0)
    """
    return max(0.0, below(loss) - (LOST * (spread + 10.0) if spread > SMALL else 0.0))


def _joined(chain: Chain, walk: Array) -> Array:
    """The potential that binds a sample with the target, at each size."""
    below = np.concatenate(([walk[0]], walk[:-1]))
    return below if chain.joined == "below" else np.minimum(below, walk) if chain.joined == "least" else np.maximum(below, walk)


def _loss(chain: Chain, slopes: npt.NDArray[np.int64], epsilon: float) -> float:
    walk = epsilon * np.cumsum(np.concatenate(([0], slopes[1:])))
    bind = _joined(chain, walk)
    potentials = [walk, *(bind + target.offset * epsilon for target in chain.targets)]
    firsts = [chain.first, *(target.log_first for target in chain.targets)]
    seconds = [chain.second, *(target.log_second for target in chain.targets)]
    gaps = [chain.gap, *(np.exp(target.log_first) - np.exp(target.log_second) for target in chain.targets)]
    return log_ratio(np.concatenate(firsts), np.concatenate(seconds), np.concatenate(potentials), np.concatenate(gaps))


def log_ratio(log_first: Array, log_second: Array, potential: Array, gap: Array | None = None) -> float:
    """log of sum p e^potential over sum q e^potential, with full relative accuracy for small losses too; gap = p - q."""
    if float(np.max(np.abs(potential))) > SMALL:
        tops = [float(np.max(logs + potential)) for logs in (log_first, log_second)]
        sums = [float(np.sum(np.exp(logs + potential - top))) for logs, top in zip((log_first, log_second), tops, strict=True)]
        return (tops[0] - tops[1]) + (math.log(sums[0]) - math.log(sums[1]))
    q = np.exp(log_second)
    gap = np.exp(log_first) - q if gap is None else gap
    # The two laws have the same mass, so that part of the difference cancels before it is computed.
    excess = math.fsum((gap * np.expm1(potential)).tolist())
    return math.log1p(excess / math.fsum((q * np.exp(potential)).tolist()))


def _bound_step(joined: str, slope: int) -> int:
    """How far a sample with the target follows a slope into its size."""
    return {"below": 0, "least": min(0, slope), "largest": max(0, slope)}[joined]


def _recursion(chain: Chain, epsilon: float, goal: float) -> tuple[bool, npt.NDArray[np.int64]]:
    """Whether some slopes beat the ratio e^goal, and the best ones; probabilities as plain numbers.

    V_j, the value of size j and all beyond per unit of A_j, is split into D_j, the difference of the two laws' masses
    there, and R_j, which is of the order of epsilon: so nothing is lost at small epsilon.
    """
    excess = math.expm1(goal)
    q = np.exp(chain.second)
    pairs = [(np.exp(target.log_first), np.exp(target.log_second), target.offset) for target in chain.targets]
    held = sum((a - b for a, b, _ in pairs), np.zeros(len(q)))
    tail = np.cumsum((chain.gap + np.concatenate((held[1:], [0.0])))[::-1])[::-1].tolist()
    gains = []
    for slope in SLOPES:
        gain = np.zeros(len(q))
        for a, b, offset in pairs:
            step = (offset + _bound_step(chain.joined, slope)) * epsilon
            gain += (a - b) * math.expm1(step) - excess * b * math.exp(step)
        gains.append(gain.tolist())
    rise, fall, grow, shrink = math.expm1(epsilon), math.expm1(-epsilon), math.exp(epsilon), math.exp(-epsilon)
    cost = (excess * q).tolist()
    slopes, rest = np.zeros(len(q), dtype=np.int64), -cost[-1]
    for j in range(len(q) - 1, 0, -1):
        mass = tail[j]
        up, flat, down = gains[0][j] + mass * rise + grow * rest, gains[1][j] + rest, gains[2][j] + mass * fall + shrink * rest
        best = up
        slopes[j] = 1
        if flat > best:
            best, slopes[j] = flat, 0
        if down > best:
            best, slopes[j] = down, -1
        rest = best - cost[j - 1]
    return rest > 0.0, slopes


def _scaled_recursion(chain: Chain, epsilon: float, goal: float) -> tuple[bool, npt.NDArray[np.int64]]:
    """The same with V_j as a number times a running power of e, for ranges that no plain number spans."""
    here_plus, here_minus = chain.first, chain.second + goal
    sizes = np.maximum(here_plus, here_minus)
    scale = np.where(np.isfinite(sizes), sizes, 0.0)
    here = (np.exp(here_plus - scale) - np.exp(here_minus - scale)).tolist()
    top = np.full(len(sizes), -np.inf)
    for target in chain.targets:
        top = np.maximum(top, np.maximum(target.log_first, target.log_second + goal) + (abs(target.offset) + 1) * epsilon)
    held_scale = np.where(np.isfinite(top), top, 0.0)
    gains: list[list[float]] = []
    for slope in SLOPES:
        gain = np.zeros(len(sizes))
        for target in chain.targets:
            step = (target.offset + _bound_step(chain.joined, slope)) * epsilon
            gain += np.exp(target.log_first + step - held_scale) - np.exp(target.log_second + goal + step - held_scale)
        gains.append(gain.tolist())
    levels, held_levels = scale.tolist(), held_scale.tolist()
    slopes = np.zeros(len(sizes), dtype=np.int64)
    value, level = here[-1], levels[-1]
    for j in range(len(sizes) - 1, 0, -1):
        # All three candidates in units of e^level, large enough for each of them.
        unit = max(level + epsilon, held_levels[j])
        factor, old = math.exp(max(-745.0, held_levels[j] - unit)), level - unit
        best, slopes[j] = -math.inf, 0
        for pull, slope in zip(gains, SLOPES, strict=True):
            found = pull[j] * factor + value * math.exp(max(-745.0, old + slope * epsilon))
            if found > best:
                best, slopes[j] = found, slope
        level = max(unit, levels[j - 1])
        value = best * math.exp(max(-745.0, unit - level)) + here[j - 1] * math.exp(max(-745.0, levels[j - 1] - level))
        if value and not 1e-100 < abs(value) < 1e100:
            shift = math.log(abs(value))
            value, level = math.copysign(1.0, value), level + shift
    return value > 0.0, slopes
