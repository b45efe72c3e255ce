"""Conditional Poisson sampling: the law of greatest entropy among those with the stated inclusion probabilities."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...errors import BadValue
from .base import PROVED, Array, Joint, Method, Sampler, Units, log_odds, logistic, of_whole_sum
from .given_size import Roots, check_effort, draw_until

CLOSE, CLOSE_ENOUGH = 1e-12, 1e-9
MOST_STEPS = 400


class ConditionalPoisson(Method):
    """Independent draws with working probabilities p, given that n units come out; p is solved for, so that pi is exact.

    P(s) is proportional to prod_{i in s} p_i / (1 - p_i). With p = pi the inclusion probabilities would be off (a
    few percent in small samples); here the odds are found such that they are the stated ones, to a relative 1e-12.
    pi_ij = p_i p_j P(|S without i and j| = n - 2) / P(|S| = n), which needs no care where two odds are equal.

    Holds when the odds can be found: probabilities within 1e-12 of 0 and 1 together may be refused.

    Chen, Dempster and Liu 1994, Biometrika 81, 457-469; Tillé 2006, Sampling Algorithms, 5.2.

    >>> ConditionalPoisson().joint(np.array([0.5, 0.5, 0.5, 0.5])).matrix[0].round(12).tolist()
    [0.5, 0.166666666667, 0.166666666667, 0.166666666667]
    """

    name: ClassVar[str] = "conditional-poisson"
    covering: ClassVar[str] = f"{PROVED} (proved)"

    def _sampler(self, pi: Array, n: int) -> Sampler:
        check_effort(pi, self.name)
        p = working_probabilities(pi, n)

        def sample(generator: np.random.Generator) -> Units:
            return draw_until(p, n, generator)

        return sample

    def _joint(self, pi: Array, n: int) -> Joint:
        p = working_probabilities(pi, n)
        roots = Roots.of(p, n)
        matrix = np.outer(p, p) * np.maximum(roots.without_two(n - 2), 0.0) / roots.probability(n)
        np.fill_diagonal(matrix, pi)
        return Joint(matrix, True, "Poisson sampling given its size, by its generating function; Tillé 2006, 5.2")


def working_probabilities(pi: Array, n: int) -> Array:
    """The probabilities p, adding to n, of independent draws that give unit i with chance pi_i when n units come out.

    Each unit's odds are multiplied by what its inclusion odds lack: with all other odds held, that is the exact
    answer for one unit. All units move at once, which can overshoot in tiny samples (with two units it swings for
    ever), so the step is shortened to two thirds when the error does not halve.

    >>> working_probabilities(np.array([0.25, 0.25, 0.5]), 1).round(4).tolist()
    [0.2808, 0.2808, 0.4384]
    """
    target = log_odds(pi)
    p = best = of_whole_sum(pi, n)
    least, error, step, stuck = np.inf, np.inf, 1.0, 0
    for _ in range(MOST_STEPS):
        lack = target - inclusion_log_odds(p, n)
        before, error = error, float(np.abs(lack).max())
        stuck = 0 if error < 0.9 * least else stuck + 1
        if error < least:
            least, best = error, p
        if least <= CLOSE or (stuck >= 10 and least <= CLOSE_ENOUGH):
            return best
        if error > 0.5 * before:
            step = 2.0 / 3.0
        moved = logistic(log_odds(p) + step * lack)
        p = np.minimum(of_whole_sum(np.minimum(moved, 1.0 - 2.0**-53), n), 1.0 - 2.0**-53)
    raise BadValue(
        "no working probabilities were found for conditional-poisson sampling",
        because="some inclusion probabilities are too near 0 and others too near 1",
        hint='use the method "pivotal" or "systematic"',
    )


def inclusion_log_odds(p: Array, n: int) -> Array:
    """log(psi_i / (1 - psi_i)), psi_i the chance of unit i in independent draws given that n units come out.

    >>> inclusion_log_odds(np.array([0.5, 0.5]), 1).round(12).tolist()
    [0.0, 0.0]
    """
    roots = Roots.of(p, n)
    # With i there are n - 1 others, without it n. The floor stands in for rounding noise around a tiny probability.
    with_it, without_it = np.maximum(roots.without_one(n - 1), 1e-300), np.maximum(roots.without_one(n), 1e-300)
    return np.asarray(log_odds(p) + np.log(with_it) - np.log(without_it), dtype=np.float64)
