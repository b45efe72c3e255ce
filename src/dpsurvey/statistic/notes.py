"""Notes that stand beside a number: from noisy sums and public figures only."""

from __future__ import annotations

import numpy as np

from .base import Numbers
from .interval import Array
from .random_size import Answer

NOISE_ONLY = "noise only: the privacy noise is more than 3 times the sampling error"
SMALL_GROUP = "small group: the noisy number of units is less than 5 times its noise"
NOT_PUBLISHABLE = "not publishable: the interval is the whole range"
CLIPPED = "moved to the nearest bound: the noise had carried it outside"
NO_ESTIMATE = "no estimate: the noisy number of units is zero"
AT_A_BOUND = "at a bound: one end of the interval is a public bound and says nothing about the data"
UNINFORMATIVE = "uninformative: too few units for this epsilon to place a quantile"
POINT_ONLY = "a point estimate: its noise depends on the data, so its interval is the whole public range"
TEST_FAILED = "no estimate: the test of the proposed bound did not pass; it is charged all the same"
A_CHOICE = "a choice of bounds, not an estimate: values outside are clipped, and no interval contains that bias"
OUTSIDE = "outside its range: the noise carried it there; kept, so that totals add up without bias"


def fixed_notes(estimate: Array, sampling: Array, noise: Array) -> tuple[tuple[str, ...], ...]:
    """Notes for numbers with a public denominator; none when many surveys are simulated at once."""
    if estimate.ndim > 1:
        return ()
    rules = ((NOISE_ONLY, noise > 3.0 * sampling), (CLIPPED, (estimate < 0.0) | (estimate > 1.0)))
    return tuple(tuple(text for text, flag in rules if flag[index]) for index in range(len(estimate)))


def numbers_of(
    answer: Answer, low: Array | float, high: Array | float, *, keep_outside: bool = False, method: str = "test inversion"
) -> Numbers:
    """The numbers of an answer in [low, high] with their notes. Totals and counts keep what lies outside, and say so."""
    estimate = answer.estimate if keep_outside else np.clip(answer.estimate, low, high)
    notes = _notes(answer, low, high, keep_outside)
    return Numbers(estimate, answer.se_sampling, answer.se_noise, answer.low, answer.high, notes, method, answer.df)


def _notes(answer: Answer, low: Array | float, high: Array | float, keep_outside: bool) -> tuple[tuple[str, ...], ...]:
    """Notes for numbers with a noisy denominator; none when many surveys are simulated at once."""
    if answer.estimate.ndim > 1:
        return ()
    rules = (
        (NOISE_ONLY, answer.se_noise > 3.0 * answer.se_sampling),
        (SMALL_GROUP, answer.count < 5.0 * answer.count_sd),
        (NOT_PUBLISHABLE, (answer.low <= low) & (answer.high >= high)),
        (OUTSIDE if keep_outside else CLIPPED, (answer.estimate < low) | (answer.estimate > high)),
        (NO_ESTIMATE, np.isnan(answer.estimate)),
    )
    flags = [(text, np.atleast_1d(flag)) for text, flag in rules]
    return tuple(tuple(text for text, flag in flags if flag[index]) for index in range(answer.estimate.shape[-1]))
