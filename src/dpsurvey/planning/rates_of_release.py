"""The error of published estimates at other sampling rates, at the same guarantee: post-processing of a release, at no cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import SurveyError
from ..statistic import Statistic
from ..survey.estimates import statistics_of
from ..survey.plan import Plan
from ..survey.release import Release
from .by_rate import planned_rate
from .error_curves import PARTS, ErrorCurve

Row = dict[str, Any]
POINTS = 41


def numbers_by_rate(release: Release) -> list[int]:
    """The places of the numbers that a picture is about: of each kind of statistic, the one with the most even errors."""
    rows, places = release.estimates, dict[str, list[int]]()
    for place, statistic in enumerate(statistics_of(release.plan())):
        if statistic.shown_by_rate and rows[place]["se_sampling"]:
            places.setdefault(statistic.kind, []).append(place)

    def evenness(place: int) -> float:
        return float(min(rows[place][part] for part in PARTS) / rows[place]["se"])

    return [max(own, key=evenness) for own in places.values()]


def release_curves(release: Release, points: int = POINTS) -> list[ErrorCurve]:
    """The errors of those numbers by sampling rate, from a tenth of this survey's rate up; none where there is no other rate.

    The spread comes from the published estimates: both errors change with the rate as the plan predicts it for a sample of that
    size by the same design, and at the rate of this survey they are the published ones.
    """
    plan, rows, places = release.plan(), release.estimates, numbers_by_rate(release)
    if not places or plan.facts.frame.size is None:
        return []
    statistics = statistics_of(plan)
    numbers = [(statistics[place], place - statistics.index(statistics[place])) for place in places]
    own, planned = planned_rate(plan), _predicted(plan, numbers)
    most = min(1.0, own * plan.terms.design.most)
    found: list[list[Row]] = [[] for _ in places]
    even = (most * (own / 10.0 / most) ** (1.0 - step / (points - 1)) for step in range(points))
    for rate in sorted({own, *even}):
        try:
            here = _predicted(plan.resized(rate / own), numbers)
        except SurveyError:
            continue
        for curve, place, errors, usual in zip(found, places, here, planned, strict=True):
            if min(usual) > 0.0:
                sampling, noise = (rows[place][part] * now / then for part, now, then in zip(PARTS, errors, usual, strict=True))
                row = {"rate": rate, "planned": rate == own, "se_sampling": sampling, "se_noise": noise}
                curve.append(row | {"se": math.hypot(sampling, noise)})
    named = [(rows[place], own) for place, own in zip(places, found, strict=True) if len(own) > 2]
    return [ErrorCurve(row["statistic"], row["label"], row["by"], tuple(own)) for row, own in named]


def _predicted(plan: Plan, numbers: Sequence[tuple[Statistic, int]]) -> list[tuple[float, float]]:
    """Sampling error and noise to expect of some numbers of a plan, as their estimators report them at the expected sums."""
    items = {statistic: item for item in plan.items for statistic in item.statistics}
    found = []
    for statistic, index in numbers:
        asked = plan.asked(items[statistic], intervals=False).with_query(statistic.asked_of(items[statistic].query))
        expected = statistic.expected(asked)[0]
        errors, variances = statistic.estimate(expected), statistic.sampling_variances(expected)
        sampling = errors.se_sampling[index] if variances is None else math.sqrt(max(0.0, variances[index]))
        found.append((float(sampling), float(errors.se_noise[index])))
    return found
