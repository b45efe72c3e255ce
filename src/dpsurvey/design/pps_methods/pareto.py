"""Pareto sampling: every unit gets a random rank, and the n lowest ranks are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ...errors import BadValue
from .base import Array, Joint, Method, Sampler, Units, log_odds, logistic, of_whole_sum
from .conditional_poisson import ConditionalPoisson
from .given_size import Roots

# One exact table of 1,500 units takes some seconds.
EXACT_UNITS = 1_500
INCLUSION_UNITS = 20_000
# What one step may still add; less than this is rounding noise of the sums over roots of unity.
NEGLIGIBLE = 1e-14
# Against the exact table: off by at most 1.3 % of itself for 5 of 20 units, 0.04 % for 20 of 100, 0.0014 % for 80 of 800.
APPROXIMATION = (
    "approximation: joint probabilities of conditional Poisson sampling with the same pi; "
    "Bondesson, Traat and Lundqvist 2006, Scandinavian Journal of Statistics 33, 699-720"
)


class Pareto(Method):
    """The n units with the smallest [u / (1 - u)] / [pi / (1 - pi)], u uniform for each unit.

    One pass and permanent random numbers make it handy. Its inclusion probabilities are not exactly pi:
    `pareto_inclusion` says what they are, and they are the diagonal of `joint` where that is exact.

    Rosén 1997, Journal of Statistical Planning and Inference 62, 159-191.

    >>> Pareto().draw(np.array([0.5, 0.5]), np.random.Generator(np.random.PCG64(1))).size
    1
    """

    name: ClassVar[str] = "pareto"
    can_be_shifted: ClassVar[bool] = True
    exact_probabilities: ClassVar[bool] = False

    def _sampler(self, pi: Array, n: int) -> Sampler:
        # The logarithm of the rank orders the units in the same way and cannot overflow.
        odds = log_odds(pi)

        def sample(generator: np.random.Generator) -> Units:
            # u lies in [0, 1): only 0 needs care, and it is the lowest rank there is.
            u = generator.random(pi.size)
            rank = np.log(np.maximum(u, 5e-324)) - np.log1p(-u) - odds
            return np.sort(np.argpartition(rank, n - 1)[:n]).astype(np.int64)

        return sample

    def _joint(self, pi: Array, n: int) -> Joint:
        if pi.size > EXACT_UNITS:
            return Joint(ConditionalPoisson()._joint(pi, n).matrix, False, APPROXIMATION)

        def at(p: Array) -> Array:
            pairs = Roots.of(p, n).led_without_two(n - 2, p * (1.0 - p))
            return np.asarray(np.outer(p, p) * pairs, dtype=np.float64)

        matrix = np.maximum(_over_thresholds(pi, n, at), 0.0)
        np.fill_diagonal(matrix, _inclusion(pi, n))
        return Joint(matrix, True, "integral over the rank of the first unit left out, Aires 1999")


def pareto_inclusion(pi: Array) -> Array:
    """The exact inclusion probabilities of Pareto sampling with the target probabilities pi.

    With rank threshold e^x unit i is below it with probability p_i(x) = logistic(log odds of pi_i + x), alone. If unit k
    has the rank just above the sample, the others are independent draws that gave n units, so

        P(i is drawn) = integral dx sum_{k != i} p_k (1 - p_k) p_i P(|S_x without i and k| = n - 1).

    The trapezoidal rule over the whole line converges faster than any power for it.

    Aires 1999, Methodology and Computing in Applied Probability 1, 457-469.

    >>> pareto_inclusion(np.array([0.25, 0.75, 0.5, 0.5])).round(4).tolist()
    [0.2381, 0.7619, 0.5, 0.5]
    """
    method = Pareto()
    pi = method._checked(pi)
    if pi.size > INCLUSION_UNITS:
        raise BadValue(
            "exact inclusion probabilities of Pareto sampling take too long on this frame",
            because=f"they are an integral over all units, and the limit is {INCLUSION_UNITS:,} units",
            hint="in large samples they are the stated ones to a few parts in a million",
        )
    open_, rest, n = method._split(pi)
    result = pi.copy()
    if rest.size:
        result[open_] = _inclusion(rest, n)
    return result


def _inclusion(pi: Array, n: int) -> Array:
    def at(p: Array) -> Array:
        return np.asarray(p * Roots.of(p, n).led_without_one(n - 1, p * (1.0 - p)), dtype=np.float64)

    return _over_thresholds(pi, n, at)


def _over_thresholds(pi: Array, n: int, at: Callable[[Array], Array]) -> Array:
    """The integral of `at(p(x))` over x, by equal steps outward from the middle until nothing more is added."""
    odds = log_odds(of_whole_sum(pi, n))
    # Around the middle the integrand is a bell of width V^(-1/2); its nearest singularities are pi away from the real line.
    step = min(0.4, 0.6 / math.sqrt(float((pi * (1.0 - pi)).sum())))
    total = at(logistic(odds))
    for side in (-step, step):
        for count in range(1, 4_000):
            added = at(logistic(odds + side * count))
            total += added
            if np.abs(added).max() <= NEGLIGIBLE * np.abs(total).max():
                break
    return total * step
