"""Notes that stand beside an estimate: from noisy sums and public figures only."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from .base import Estimates
from .estimators.interval import Array, skewness
from .estimators.random_size import Answer

# Degrees of freedom below which that is said.
FEW_FREEDOM = 11.0


class Note(StrEnum):
    """What may be said of an estimate. A member equals its text and prints as it does."""

    NOISE_ONLY = "noise only: the privacy noise is more than 3 times the sampling error"
    SMALL_GROUP = "small group: the noisy number of units is less than 5 times its noise"
    NOT_PUBLISHABLE = "not publishable: the interval is the whole range"
    CLIPPED = "moved to the nearest bound: the noise had carried it outside"
    NO_ESTIMATE = "no estimate: the noisy number of units is zero"
    AT_A_BOUND = "at a bound: one end of the interval is a public bound and says nothing about the data"
    UNINFORMATIVE = "uninformative: too few units for this epsilon to place a quantile"
    POINT_ONLY = "a point estimate: its noise depends on the data, so its interval is the whole public range"
    TEST_FAILED = "no estimate: the test of the proposed bound did not pass; it is charged all the same"
    UNRESOLVED = (
        "variance not resolved: the noise of the variance is more than 1.5 times the variance, so the interval is cautious"
    )
    SKEWED = "skewed: fewer units than the skewness asks for; the interval may miss on one side"
    FEW_CLUSTERS = "few clusters: fewer than 12 clusters, or random groups of clusters, carry the variance, so it is uncertain"
    A_CHOICE = "a choice of bounds, not an estimate: values outside are clipped, and no interval contains that bias"
    DECLARED = "declared, not estimated; cells are estimates and need not add up to it (release.consistent() makes them)"
    NOT_ADJUSTED = "nonresponse is not adjusted for: those who did not answer are taken to be like those who did"
    OUTSIDE = "outside its range: the noise carried it there; kept, so that totals add up without bias"


def fixed_notes(
    estimate: Array,
    sampling: Array,
    noise: Array,
    unresolved: Array | None = None,
    n: Array | None = None,
    *,
    keep_outside: bool = False,
) -> tuple[tuple[str, ...], ...]:
    """Notes for numbers on [0, 1] with a public denominator; none when many surveys are simulated at once.

    `unresolved` is the noise of the variance over the variance, `n` the number of units, where those are known.
    """
    if estimate.ndim > 1:
        return ()
    rules = [
        (Note.NOISE_ONLY, noise > 3.0 * sampling),
        (Note.OUTSIDE if keep_outside else Note.CLIPPED, (estimate < 0.0) | (estimate > 1.0)),
    ]
    if unresolved is not None and n is not None:
        inside = np.clip(estimate, 0.0, 1.0)
        skew = skewness(sampling * np.sqrt(n), np.minimum(inside, 1.0 - inside))
        rules += [(Note.UNRESOLVED, unresolved > 1.5), (Note.SKEWED, (unresolved <= 1.5) & (n < 25.0 * skew**2))]
    return tuple(tuple(text for text, flag in rules if flag[index]) for index in range(len(estimate)))


def estimates_of(
    answer: Answer,
    low: Array | float,
    high: Array | float,
    *,
    keep_outside: bool = False,
    method: str = "test inversion",
    clustered: bool = False,
) -> Estimates:
    """The numbers of an answer in [low, high] with their notes. Totals and counts keep what lies outside, and say so.

    `clustered` says that clusters, or random groups of them, carry the variance.
    """
    estimate = answer.estimate if keep_outside else np.clip(answer.estimate, low, high)
    whole = np.asarray((answer.low <= low) & (answer.high >= high))
    notes = _notes(answer, low, high, whole, keep_outside, clustered)
    errors = (answer.se_sampling, answer.se_noise, answer.low, answer.high)
    return Estimates(estimate, *errors, notes, method, answer.df, whole_range=whole)


def _notes(
    answer: Answer,
    low: Array | float,
    high: Array | float,
    whole: NDArray[np.bool_],
    keep_outside: bool,
    clustered: bool,
) -> tuple[tuple[str, ...], ...]:
    """Notes for numbers with a noisy denominator; none when many surveys are simulated at once."""
    if answer.estimate.ndim > 1:
        return ()
    rules = (
        (Note.NOISE_ONLY, answer.se_noise > 3.0 * answer.se_sampling),
        (Note.SMALL_GROUP, answer.count < 5.0 * answer.count_sd),
        (Note.NOT_PUBLISHABLE, whole),
        (Note.OUTSIDE if keep_outside else Note.CLIPPED, (answer.estimate < low) | (answer.estimate > high)),
        (Note.NO_ESTIMATE, np.isnan(answer.estimate)),
        *(((Note.FEW_CLUSTERS, np.asarray(answer.df) < FEW_FREEDOM),) if clustered else ()),
        *(((Note.UNRESOLVED, answer.unresolved > 1.5),) if answer.unresolved is not None else ()),
        *(((Note.SKEWED, answer.skewed),) if answer.skewed is not None else ()),
    )
    flags = [(text, np.atleast_1d(flag)) for text, flag in rules]
    return tuple(tuple(text for text, flag in flags if flag[index]) for index in range(answer.estimate.shape[-1]))
