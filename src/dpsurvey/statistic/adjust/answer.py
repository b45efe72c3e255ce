"""The answer of an adjustment: an estimate with both of its errors and a 95 % interval, on the scale [0, 1] of y."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..estimators.interval import Array, critical, skew_allowance, student

NOISE_ONLY = "noise only: the privacy noise is more than 3 times the sampling error"
OUTSIDE = "outside its range: the noise carried the estimate there; kept, so that totals add up without bias"
NO_ESTIMATE = "no estimate: the noisy number of units is not above its noise"
WHOLE_RANGE = "not publishable: the interval is the whole range"

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Adjusted:
    """A mean of y in [0, 1]; a total is that many times the size of the population.

    `notes` is empty when many surveys are simulated at once (leading axes).
    """

    estimate: Array
    se_sampling: Array
    se_noise: Array
    low: Array
    high: Array
    notes: tuple[str, ...] = ()

    @property
    def whole_range(self) -> Flags:
        """Where the interval is the whole range."""
        return np.asarray((self.low <= 0.0) & (self.high >= 1.0))


def adjusted(
    estimate: Array,
    sampling: Array,
    noise: Array,
    fourth: Array,
    units: Array,
    df: Array,
    notes: list[str],
    silent: Flags | bool = False,
    empty: Flags | bool = False,
) -> Adjusted:
    """The answer from a sampling variance, a noise variance and the fourth cumulant of the noise (0 for Gaussian).

    The critical value is Student's t plus (z^3 - 3z)/24 times the excess kurtosis fourth/V^2; the end away from
    the nearer bound has the skew allowance of bounded data. Where `silent`, the interval is the whole range; where
    `empty`, there is no estimate either.
    """
    variance = np.maximum(sampling + noise, 1e-300)
    se = np.sqrt(variance)
    half = critical(student(df), fourth / np.maximum(variance**2, 1e-300)) * se
    middle = np.clip(estimate, 0.0, 1.0)
    near = np.minimum(middle, 1.0 - middle)
    extra = se * skew_allowance(np.sqrt(sampling * np.maximum(units, 1.0)), near, units, sampling / variance)
    low = np.clip(estimate - half - np.where(middle > 0.5, extra, 0.0), 0.0, 1.0)
    high = np.clip(estimate + half + np.where(middle <= 0.5, extra, 0.0), 0.0, 1.0)
    estimate, sampling, noise = (np.where(empty, np.nan, each) for each in (estimate, sampling, noise))
    low, high = np.where(silent, 0.0, low), np.where(silent, 1.0, high)
    answer = Adjusted(estimate, np.asarray(np.sqrt(sampling)), np.asarray(np.sqrt(noise)), low, high)
    if np.ndim(estimate):
        return answer
    rules = (
        (NOISE_ONLY, bool(noise > 9.0 * sampling)),
        (NO_ESTIMATE, bool(empty)),
        (OUTSIDE, bool(estimate < 0.0 or estimate > 1.0)),
        (WHOLE_RANGE, bool(answer.whole_range)),
    )
    return replace(answer, notes=(*notes, *(text for text, holds in rules if holds)))
