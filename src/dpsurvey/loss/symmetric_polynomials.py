"""rho_l = e_l(y)/e_(l-1)(y) for elementary symmetric polynomials e_l, with a certified interval for its logarithm.

With independent Bernoulli variables of odds y_j e^tau and S their sum, rho_l = e^-tau Pr(S = l)/Pr(S = l-1) for every
tau. Choosing tau so that E S = l - 1/2 puts both probabilities next to the mode, where nothing underflows. The law of
S is built from blocks by direct convolution: all terms are positive, so relative errors only add up, and the mass that
is cut off the tails is accounted for. Proof and error bound: docs/designs/cluster.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
BLOCK = 64
CUT = 1e-22
UNIT = 2.0**-53


@dataclass(frozen=True)
class Interval:
    """A number known to lie between `low` and `high`."""

    low: float
    high: float


def log_rho(logs: Array, take: int) -> Interval:
    """log(e_l(y)/e_(l-1)(y)) from the logarithms of y, l = take; -inf where l exceeds the number of variables.

    >>> both = log_rho(np.log([0.5, 0.25, 0.125]), 2)
    >>> round(both.low, 12) == round(math.log((0.125 + 0.0625 + 0.03125) / 0.875), 12) and both.high - both.low < 1e-12
    True
    """
    finite = logs[np.isfinite(logs)]
    count = len(finite)
    if take > count:
        return Interval(-math.inf, -math.inf)
    spread = 4.0 * UNIT * (1.0 + float(np.abs(finite).max()))
    if float(finite.max()) == float(finite.min()):
        exact = float(finite[0]) + math.log((count - take + 1) / take)
        return Interval(exact - spread - 1e-15, exact + spread + 1e-15)
    tau = _tilt(finite, take)
    law, start, relative, lost = _law_of_sum(finite + tau)
    upper, lower = float(law[take - start]), float(law[take - 1 - start])
    middle = math.log(upper) - math.log(lower) - tau
    slack = 4.0 * relative + spread + 8.0 * UNIT * (abs(tau) + 4.0)
    return Interval(middle - slack - lost / lower, middle + slack + lost / upper)


def _tilt(logs: Array, take: int) -> float:
    """tau with E S = take - 1/2, by bisection; it needs no accuracy."""
    low, high = -float(logs.max()) - 60.0, -float(logs.min()) + 60.0
    for _ in range(70):
        middle = 0.5 * (low + high)
        expected = float(np.sum(1.0 / (1.0 + np.exp(-np.clip(middle + logs, -700.0, 700.0)))))
        low, high = (middle, high) if expected < take - 0.5 else (low, middle)
    return 0.5 * (low + high)


def _law_of_sum(odds: Array) -> tuple[Array, int, float, float]:
    """The law of the sum, where it starts, its relative error, and the mass that was cut off its tails."""
    small = np.exp(-np.abs(odds))
    # The smaller and the larger of p and 1 - p, each without a subtraction.
    less, more = small / (1.0 + small), 1.0 / (1.0 + small)
    p, q = np.where(odds > 0.0, more, less), np.where(odds > 0.0, less, more)
    blocks = -(-len(p) // BLOCK)
    padded_p, padded_q = np.zeros(blocks * BLOCK), np.ones(blocks * BLOCK)
    padded_p[: len(p)], padded_q[: len(q)] = p, q
    table = np.zeros((blocks, BLOCK + 1))
    table[:, 0] = 1.0
    for step in range(BLOCK):
        here = slice(step, None, BLOCK)
        table[:, 1:] = table[:, 1:] * padded_q[here, None] + table[:, :-1] * padded_p[here, None]
        table[:, 0] *= padded_q[here]
    nodes, lost, relative = [(row, 0) for row in table], 0.0, 3.0 * BLOCK * UNIT
    nodes, cut = _trimmed(nodes)
    lost += cut
    while len(nodes) > 1:
        joined = [(np.convolve(one[0], other[0]), one[1] + other[1]) for one, other in zip(nodes[::2], nodes[1::2], strict=False)]
        # Values of two nodes are multiplied, so their relative errors add.
        relative = 2.0 * relative + (max(len(law) for law, _ in joined) + 2) * UNIT
        if len(nodes) % 2:
            joined.append(nodes[-1])
        nodes, cut = _trimmed(joined)
        lost += cut
    return nodes[0][0], nodes[0][1], relative, lost * (1.0 + relative)


def _trimmed(nodes: list[tuple[Array, int]]) -> tuple[list[tuple[Array, int]], float]:
    """Each law without its negligible tails, and the total mass that was cut."""
    kept, lost = [], 0.0
    for law, start in nodes:
        first = int(np.searchsorted(np.cumsum(law), CUT))
        last = len(law) - int(np.searchsorted(np.cumsum(law[::-1]), CUT))
        lost += float(law[:first].sum() + law[last:].sum())
        kept.append((law[first:last], start + first))
    return kept, lost
