"""Propositions of the paper in the form that is true: what a test that works says about the loss, and what noise would cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from dpsurvey.errors import BadValue


def allocation_error_floor(alpha: float, epsilon: float, noise: Literal["geometric", "laplace"] = "geometric") -> float:
    """Proposition 4.2, corrected: a randomised allocation misses its target by at least alpha minus the variance of the

    noise that would make it private: 2 e^-e/(1 - e^-e)^2 for geometric noise, for whole sizes, or 2/e^2 for Laplace noise.

    >>> round(10.0 - allocation_error_floor(10.0, 0.5), 10), 10.0 - allocation_error_floor(10.0, 0.5, "laplace")
    (7.8353961781, 8.0)
    """
    if noise not in ("geometric", "laplace"):
        raise BadValue(f"unknown noise {noise!r}", hint="geometric or laplace")
    return alpha - (2.0 / epsilon**2 if noise == "laplace" else 2.0 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2)


def allocation_steps(one: Sequence[int], other: Sequence[int]) -> float:
    """The steps between two allocations before and after a change, which their sizes alone reveal (Section 7.2).

    >>> allocation_steps([10, 20], [9, 23])
    4.0
    """
    return float(sum(abs(a - b) for a, b in zip(one, other, strict=True)))


def cluster_test(fraction: float, detects: float, loss_inside: float) -> float:
    """Theorem 5.3, corrected: log(1 + (e^e'' - 1) f/(f + e^-(e' - e'')(1 - f))).

    `detects` is the log ratio with which an event tells samples with the cluster from those without; `loss_inside`
    the event's log ratio between the two populations given that the cluster was drawn.

    >>> round(cluster_test(0.5, 1.0, 1.0), 10)
    0.620114507
    """
    rest = math.exp(-(detects - loss_inside)) * (1.0 - fraction)
    return math.log1p(math.expm1(loss_inside) * fraction / (fraction + rest))


def inclusion_test(inside_ratio: float, first: float, second: float, outside_ratio: float) -> float:
    """Proposition 6.1: log( p/p' * a/a' / (1 + (q'/p')(1-a')/a') ), a lower bound on the loss of any design.

    `inside_ratio` = p/p', `first` and `second` the inclusion probabilities a and a', `outside_ratio` = q'/p'.

    >>> round(inclusion_test(math.e, 1.0, 1.0, 1.0), 10)
    1.0
    """
    return math.log(inside_ratio * first / second / (1.0 + outside_ratio * (1.0 - second) / second))
