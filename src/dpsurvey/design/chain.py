"""The exact worst loss for designs that treat all other units alike: a chain of sample sizes.

A_j is the probability of an event on a sample of j other units. A mechanism may let A change by a factor e^epsilon
per record, so log A is a walk with slopes in [-epsilon, epsilon], and the probability B_j of a sample that holds the
target lies within one step of its neighbours on the chain. The largest ratio is a linear-fractional programme whose
vertices have slopes -1, 0 or +1; it is solved by policy iteration in O(n) per round. Derivation: docs/designs/random-size.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ROUNDS = 200


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


@dataclass(frozen=True)
class Worst:
    """The largest log ratio of the first law to the second, and the slopes of the event that attains it."""

    loss: float
    slopes: npt.NDArray[np.int64]
    settled: bool


def worst_of(chain: Chain, epsilon: float) -> Worst:
    """The exact worst loss of the first law against the second, over all epsilon-private mechanisms."""
    count = len(chain.first)
    # Every start is valid; a rising event is the worst one for most designs.
    best: Worst | None = None
    for first_slope in (1, -1):
        slopes, settled = np.full(count, first_slope, dtype=np.int64), False
        loss = _loss(chain, slopes, epsilon)
        for _ in range(ROUNDS):
            better = _improved(chain, slopes, epsilon, loss)
            if bool(np.array_equal(better, slopes)):
                settled = True
                break
            gain = _loss(chain, better, epsilon)
            if gain <= loss:
                settled = gain > loss - 1e-13 * max(1e-300, abs(loss))
                break
            slopes, loss = better, gain
        if best is None or loss > best.loss:
            best = Worst(loss, slopes, settled)
        if best.settled:
            break
    assert best is not None
    return best


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
    return log_ratio(np.concatenate(firsts), np.concatenate(seconds), np.concatenate(potentials))


def log_ratio(log_first: Array, log_second: Array, potential: Array) -> float:
    """log of sum p e^potential over sum q e^potential, with full relative accuracy for small losses too."""
    top = max(float(np.max(log_first + potential)), float(np.max(log_second + potential)))
    if float(np.max(np.abs(potential))) > 1.0:
        first = float(np.sum(np.exp(log_first + potential - top)))
        return math.log(first) - math.log(float(np.sum(np.exp(log_second + potential - top))))
    p, q = np.exp(log_first), np.exp(log_second)
    excess = math.fsum(((p - q) * np.expm1(potential)).tolist())
    # The two laws have the same mass, so that part of the difference cancels before it is computed.
    return math.log1p(excess / math.fsum((q * np.exp(potential)).tolist()))


def _improved(chain: Chain, slopes: npt.NDArray[np.int64], epsilon: float, loss: float) -> npt.NDArray[np.int64]:
    """The best slope into each size, given the value of all later ones under the present slopes."""
    walk = epsilon * np.cumsum(np.concatenate(([0], slopes[1:])))
    bind = _joined(chain, walk)
    plus, minus = _signed(chain.first, chain.second, 0.0, loss)
    terms = [(_plus(plus, walk), _plus(minus, walk))]
    pull_plus, pull_minus = np.full(len(walk), -np.inf), np.full(len(walk), -np.inf)
    for target in chain.targets:
        plus, minus = _signed(target.log_first, target.log_second, target.offset * epsilon, loss)
        terms.append((plus + bind, minus + bind))
        pull_plus, pull_minus = np.logaddexp(pull_plus, plus), np.logaddexp(pull_minus, minus)
    # Value of size j and all later ones, per unit of A_j; the pull of the samples that hold the target comes apart.
    here = [np.logaddexp.reduce([term[side] for term in terms[:1]]) for side in (0, 1)]
    tail = [np.logaddexp.reduce([term[side] for term in terms]) for side in (0, 1)]
    later = []
    for side in (0, 1):
        after = np.logaddexp.accumulate(np.concatenate((tail[side][1:], [-np.inf]))[::-1])[::-1]
        later.append(np.logaddexp(here[side], after) - walk)
    # Gain of each slope s into j: pull_j T(1, e^s) + e^s V_j, where T is what binds the samples with the target.
    candidates = (1, 0, -1)
    values = []
    for slope in candidates:
        step = slope * epsilon
        joint = {"below": 0.0, "least": min(0.0, step), "largest": max(0.0, step)}[chain.joined]
        values.append((np.logaddexp(pull_plus + joint, later[0] + step), np.logaddexp(pull_minus + joint, later[1] + step)))
    # The present slope stays unless another is better by more than rounding in the logarithms can explain.
    best = slopes.copy()
    high, low = (np.choose(1 - slopes, [value[side] for value in values]) for side in (0, 1))
    margin = 1e-15 * (10.0 + float(np.max(np.abs(walk))))
    for slope, (plus, minus) in zip(candidates, values, strict=True):
        # plus - minus > high - low, without leaving the logarithms.
        wins = np.logaddexp(plus, low) > np.logaddexp(high, minus) + margin
        best = np.where(wins, slope, best)
        high, low = np.where(wins, plus, high), np.where(wins, minus, low)
    return best


def _plus(weights: Array, walk: Array) -> Array:
    return weights + walk


def _signed(log_first: Array, log_second: Array, offset: float, loss: float) -> tuple[Array, Array]:
    """The positive and the negative part of (p - e^loss q) e^offset, as logarithms."""
    high, low = log_first + offset, log_second + offset + loss
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(np.isneginf(high) & np.isneginf(low), -np.inf, np.maximum(high, low))
        size = gap + np.log(-np.expm1(-np.abs(np.where(np.isneginf(gap), 0.0, high - low))))
        # Where both are equal there is nothing left; where one is absent the other is whole.
        size = np.where(np.isneginf(low), high, np.where(np.isneginf(high), low, size))
    return np.where(high > low, size, -np.inf), np.where(low > high, size, -np.inf)
