"""Sampford's method: exact inclusion probabilities, any size, and a law that can be written down."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .base import PROVED, Array, Joint, Method, Sampler, Units
from .given_size import Roots, check_effort, draw_until


class Sampford(Method):
    """P(s) is proportional to prod_{i in s} pi_i / (1 - pi_i) times sum_{i in s} (1 - pi_i), for samples of size n.

    Sampford draws one unit with chance pi/n and n - 1 more with chances proportional to pi/(1 - pi), with replacement, and
    starts again unless all differ; that hardly ever happens when n is large. The same law, faster: since

        P(s) ~ sum_{k in s} pi_k (1 - pi_k) P(the others, drawn independently with probabilities pi, are s without k),

    draw k with chance proportional to pi_k (1 - pi_k), draw all others independently, and start again unless there are
    n units. About sqrt(2 pi sum(pi (1 - pi))) attempts are needed. All joint probabilities are positive and at most
    pi_i pi_j.

    Sampford 1967, Biometrika 54, 499-513.

    >>> Sampford().joint(np.array([0.5, 0.5, 0.5, 0.5])).matrix[0].round(12).tolist()
    [0.5, 0.166666666667, 0.166666666667, 0.166666666667]
    """

    name: ClassVar[str] = "sampford"
    covering: ClassVar[str] = f"{PROVED}: strongly Rayleigh (Brändén and Jonasson 2012), hence covering (Pemantle and Peres 2014)"

    def _sampler(self, pi: Array, n: int) -> Sampler:
        check_effort(pi, self.name)
        leader = np.cumsum(pi * (1.0 - pi))
        leader /= leader[-1]

        def sample(generator: np.random.Generator) -> Units:
            return draw_until(pi, n, generator, leader)

        return sample

    def _joint(self, pi: Array, n: int) -> Joint:
        roots, lead = Roots.of(pi, n), pi * (1.0 - pi)
        # The unit that leads is i, is j, or is one of the others; each case leaves independent draws of a known size.
        own = np.add.outer(1.0 - pi, 1.0 - pi) * roots.without_two(n - 2)
        matrix = np.outer(pi, pi) * (own + roots.led_without_two(n - 3, lead))
        matrix = np.maximum(matrix / float((lead * roots.without_one(n - 1)).sum()), 0.0)
        np.fill_diagonal(matrix, pi)
        return Joint(matrix, True, "sum of Sampford's law (1967) over all samples, by its generating function")
