"""Every unit decides alone: Poisson sampling."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .base import Array, Joint, Method, Sampler, Units


class Poisson(Method):
    """Unit i is drawn with probability pi_i, independently of all others; the sample size is random.

    pi_ij = pi_i pi_j. The size has mean sum(pi) and variance sum(pi (1 - pi)), and the sample may be empty.

    Hájek 1964, Annals of Mathematical Statistics 35, 1491-1523.

    >>> Poisson().draw(np.array([1.0, 1.0]), np.random.Generator(np.random.PCG64(1))).tolist()
    [0, 1]
    """

    name: ClassVar[str] = "poisson"
    fixed_size: ClassVar[bool] = False
    can_be_shifted: ClassVar[bool] = True

    def _sampler(self, pi: Array, n: int) -> Sampler:
        def sample(generator: np.random.Generator) -> Units:
            return np.flatnonzero(generator.random(pi.size) < pi).astype(np.int64)

        return sample

    def _joint(self, pi: Array, n: int) -> Joint:
        matrix = np.outer(pi, pi)
        np.fill_diagonal(matrix, pi)
        return Joint(matrix, True, "pi_i pi_j: the units are drawn independently")
