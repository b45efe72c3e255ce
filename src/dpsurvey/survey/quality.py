"""The quality flag of a published estimate, and the rule behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..statistic.estimators.interval import Z

PUBLISH, WITH_CAUTION, UNRELIABLE = "publish", "with caution", "unreliable"
# Coefficients of variation up to which an estimate is published, and published with caution: usual in statistical offices.
PUBLISHED, CAUTIOUS = 1.0 / 6.0, 1.0 / 3.0
RULE = (
    f"quality: {PUBLISH} up to a cv of 1/6 (the interval's, if larger), {WITH_CAUTION} up to 1/3, else {UNRELIABLE}; "
    "so is an interval of the whole range"
)
# What releases of version 0.8.0 and before called it, under "mark".
MARKS = {"good": PUBLISH, "fair": WITH_CAUTION, "poor": UNRELIABLE}


def quality(cv: float | None) -> str:
    """The quality flag by the coefficient of variation, sampling and noise together.

    >>> quality(0.05), quality(0.2), quality(0.9), quality(None)
    ('publish', 'with caution', 'unreliable', 'unreliable')
    """
    return UNRELIABLE if cv is None or cv > CAUTIOUS else WITH_CAUTION if cv > PUBLISHED else PUBLISH


def cv_of_interval(cv: float | None, estimate: float | None, low: float | None, high: float | None) -> float | None:
    """The coefficient of variation that the whole interval stands for, where that is the larger: it holds bounds on a bias.

    >>> round(cv_of_interval(0.05, 100.0, 80.0, 120.0), 3)
    0.102
    """
    if cv is None or not estimate or low is None or high is None:
        return cv
    return max(cv, (high - low) / (2.0 * Z * abs(estimate)))


def with_quality(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a release; one that was saved with a mark has the quality flag in its place.

    >>> with_quality({"estimate": 3.0, "mark": "fair"})
    {'estimate': 3.0, 'quality': 'with caution'}
    """
    return {
        "quality" if key == "mark" else key: MARKS.get(value, value) if key == "mark" else value for key, value in row.items()
    }
