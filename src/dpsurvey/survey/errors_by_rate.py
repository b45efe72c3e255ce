"""The error of published estimates at other sampling rates, at the same guarantee: post-processing of a release, at no cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import SurveyError
from ..statistic import Statistic
from ..statistic.predict.population import units_drawn
from .estimates import statistics_of
from .plan import Plan
from .release import Release

Row = dict[str, Any]
POINTS = 41
# The two parts of a standard error, by their columns.
PARTS = {"se_sampling": "sampling error", "se_noise": "privacy noise"}


@dataclass(frozen=True)
class ErrorCurve:
    """The rows of one estimate that have an error, in the order of their rates or epsilons."""

    statistic: str
    label: str
    by: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """What the estimate is of, in words."""
        return f"{self.statistic} of {self.label}" if self.label else self.statistic

    @property
    def least(self) -> Row:
        """The row with the least error."""
        return min(self.rows, key=lambda row: float(row["se"]))

    @property
    def planned_rate(self) -> float | None:
        """The rate of the plan or survey itself, where it is among the rows."""
        return next((float(row["rate"]) for row in self.rows if row.get("planned")), None)

    @property
    def whole_frame(self) -> float | None:
        """The error on the whole frame, where it is among the rows."""
        return next((float(row["se"]) for row in self.rows if row.get("rate") == 1.0), None)

    @property
    def split(self) -> list[Row]:
        """The error split by source, so that the two parts stacked are the standard error: each has the share of its variance.

        >>> curve = ErrorCurve("mean", "y", {}, ({"rate": 0.1, "se_sampling": 3.0, "se_noise": 4.0, "se": 5.0},))
        >>> [(each["part"], each["share"]) for each in curve.split]
        [('sampling error', 1.8), ('privacy noise', 3.2)]
        """
        return [
            {key: value for key, value in row.items() if key != "by"} | {"part": name, "share": row[part] ** 2 / row["se"]}
            for row in self.rows
            for part, name in PARTS.items()
        ]


def planned_rate(plan: Plan) -> float:
    """The share of the frame that a plan is expected to draw."""
    return units_drawn(plan.facts) / plan.facts.size


def numbers_by_rate(release: Release) -> list[int]:
    """The places of the estimates that a picture is about: of each kind of statistic, the one with the most even errors."""
    rows, places = release.estimates, dict[str, list[int]]()
    for place, statistic in enumerate(statistics_of(release.plan())):
        if statistic.shown_by_rate and rows[place]["se_sampling"]:
            places.setdefault(statistic.kind, []).append(place)

    def evenness(place: int) -> float:
        return float(min(rows[place][part] for part in PARTS) / rows[place]["se"])

    return [max(own, key=evenness) for own in places.values()]


def release_curves(release: Release, points: int = POINTS) -> list[ErrorCurve]:
    """The errors of those estimates by sampling rate, from a tenth of this survey's rate up; none where there is no other rate.

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
    drawn = [(rows[place], curve) for place, curve in zip(places, found, strict=True) if len(curve) > 2]
    return [ErrorCurve(row["statistic"], row["label"], row["by"], tuple(curve)) for row, curve in drawn]


def _predicted(plan: Plan, numbers: Sequence[tuple[Statistic, int]]) -> list[tuple[float, float]]:
    """Sampling error and noise to expect of some estimates of a plan, as their estimators report them at the expected sums."""
    items = {statistic: item for item in plan.items for statistic in item.statistics}
    found = []
    for statistic, index in numbers:
        asked = plan.asked_by(items[statistic], statistic, intervals=False)
        expected = statistic.expected(asked)[0]
        errors, variances = statistic.estimate(expected), statistic.sampling_variances(expected)
        sampling = errors.se_sampling[index] if variances is None else math.sqrt(max(0.0, variances[index]))
        found.append((float(sampling), float(errors.se_noise[index])))
    return found
