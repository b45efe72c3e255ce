"""A plan whose predictions rest on an earlier Release: noisy, published estimates, so they cost nothing more."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..design.frame import Frame
from ..errors import BadValue, SurveyError
from ..statistic import Statistic
from ..statistic.encodings import Pair, Triple
from ..statistic.missing import units_in
from ..statistic.predict.population import units_drawn
from ..survey.deviations import release_source, stratum_deviations
from ..survey.estimates import statistics_of
from ..survey.plan import Plan
from ..survey.release import Release

Row = dict[str, Any]


def expecting(plan: Plan, release: Release) -> Plan:
    """The plan with the figures of a release in place of the worst case; what is declared already stays.

    Means and totals take the mean and the deviation of the same column, by stratum where the release has the mean by stratum;
    proportions and counts the proportion of the same value; quantiles the quantiles of the same column. The source is named in
    the plan. Nothing but the published document is read.

    >>> import os, tempfile, pyarrow as pa, dpsurvey as ds
    >>> rows = pa.table({"id": range(400), "y": [float(unit % 50) for unit in range(400)]})
    >>> survey = ds.Survey(ds.Frame(rows, unit="id", size=400), ds.srs(n=100), budget=ds.Budget(100.0), name="wave1",
    ...                    ledger=os.path.join(tempfile.mkdtemp(), "books.ledger"))
    >>> plan = survey.plan(ds.mean("y", bounds=(0, 50)))
    >>> row = expecting(plan, plan.release()).predictions[0]
    >>> row["rests_on"].startswith("the declared mean and sd, from release"), 0.9 < row["se_sampling"] < 1.6
    (True, True)
    """
    if not isinstance(release, Release):
        raise BadValue(
            "figures come from a Release", given=f"a {type(release).__name__}", hint='ds.Release.load("2025/release.json")'
        )
    earlier = EarlierRelease(release, plan.terms.frame, plan.terms.design.strata_column)
    return replace(plan, statistics=tuple(each.expecting(earlier) for each in plan.statistics))


@dataclass(frozen=True)
class EarlierRelease:
    """A release, and the frame and strata of the plan whose statistics ask it for published figures."""

    release: Release
    frame: Frame
    strata: str | None

    @property
    def source(self) -> str:
        """The release, in words."""
        return release_source(self.release)

    @cached_property
    def plan(self) -> Plan:
        """The plan of the release."""
        return self.release.plan()

    def estimates(self, statistic: Statistic) -> list[tuple[Statistic, Row]]:
        """The published estimates of the subject of a statistic, that no condition narrows."""
        return [
            (each, row)
            for each, row in zip(statistics_of(self.plan), self.release.estimates, strict=True)
            if each.shows_subject and each.subject == statistic.subject and not each.where and row["estimate"] is not None
        ]

    def moments(self, statistic: Statistic) -> tuple[float, float] | None:
        """The published mean of a column, and its deviation by the sampling error; None where they were not published."""
        row = next((row for _, row in self.estimates(statistic) if not row["by"]), None)
        if row is None or row["se_sampling"] is None:
            return None
        facts, n = self.plan.facts, self._answers(statistic)
        size = facts.frame.size
        left = max(1.0 - n / size, 1e-9) if size and not facts.respondents_only else 1.0
        return row["estimate"], row["se_sampling"] * math.sqrt(n / left)

    def moments_by_stratum(self, statistic: Statistic) -> dict[str, tuple[float, float]]:
        """The same for every stratum; empty where they were not published for each."""
        if self.strata is None:
            return {}
        try:
            deviations = stratum_deviations(self.release, str(statistic.of), self.strata)
        except SurveyError:
            return {}
        rows = [row for _, row in self.estimates(statistic) if tuple(row["by"]) == (self.strata,)]
        means = {row["by"][self.strata]: row["estimate"] for row in rows}
        if not set(means) == set(deviations) == set(self.frame.labels(self.strata)):
            return {}
        return {label: (means[label], deviation) for label, deviation in deviations.items()}

    def _answers(self, statistic: Statistic) -> float:
        """How many records a published mean was made of: those drawn, or where not all answered the noisy number in its own
        sums."""
        plan = self.plan
        for place, item in enumerate(plan.items):
            asked = [each for each in item.statistics if each.shows_subject and each.subject == statistic.subject]
            whole = any(not each.by and not each.where for each in asked)
            if whole and (plan.respondents_only or item.query.absent) and isinstance(item.query.encoding, Triple | Pair):
                sums = self.release.document["noisy_sums"][place]["sums"]
                units = units_in(plan.asked(item).answered(np.asarray(sums, dtype=np.float64)))
                return max(1.0, float(units[0].sum()) / item.query.steps) if units is not None else units_drawn(plan.facts)
        return units_drawn(plan.facts)
