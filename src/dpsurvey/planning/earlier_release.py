"""A plan whose predictions rest on an earlier Release: noisy, published estimates, so they cost nothing more."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import BadValue, SurveyError
from ..statistic import Statistic
from ..statistic.counted import Counted
from ..statistic.derived import Derived
from ..statistic.encodings import Pair, Triple
from ..statistic.measured import Measured
from ..statistic.missing import units_in
from ..statistic.predict.declared_figures import mixed_moments
from ..statistic.predict.population import units_drawn
from ..statistic.quantile import Quantile
from ..survey.deviations import release_source, stratum_deviations
from ..survey.plan import Plan
from ..survey.release import Release

Row = dict[str, Any]
# Noisy proportions are kept this far from 0 and 1, where they would say that nothing varies.
LEAST = 1e-3


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
    source = release_source(release)
    found = tuple(_filled(statistic, release, source, plan) for statistic in plan.statistics)
    return replace(plan, statistics=found)


def _filled(statistic: Statistic, release: Release, source: str, plan: Plan) -> Statistic:
    if isinstance(statistic, Derived):
        return replace(statistic, base=_filled(statistic.base, release, source, plan))
    if isinstance(statistic, Measured) and statistic.expect is None:
        return _measured(statistic, release, source, plan)
    if isinstance(statistic, Counted) and statistic.of and statistic.expect is None:
        return _counted(statistic, release, source, plan)
    if isinstance(statistic, Quantile) and not statistic.expect:
        return _quantiles(statistic, release, source)
    return statistic


def _measured(statistic: Measured, release: Release, source: str, plan: Plan) -> Measured:
    low, high = statistic.bounds
    strata = plan.terms.design.strata_column
    if strata is not None and not statistic.where:
        try:
            deviations = stratum_deviations(release, str(statistic.of), strata)
        except SurveyError:
            deviations = {}
        means = _by_label(release, "mean", statistic, strata)
        if deviations and set(means) == set(deviations) == set(plan.terms.frame.labels(strata)):
            pairs = {label: _within(means[label]["estimate"], deviations[label], low, high) for label in deviations}
            sizes = plan.terms.frame.category_sizes.get(strata, {})
            whole = mixed_moments([(float(sizes.get(label, 1)), *pair) for label, pair in pairs.items()])
            return replace(statistic, expect=whole, expect_by=tuple(pairs.items()), source=source)
    row = _whole(release, "mean", statistic)
    if row is None or row["se_sampling"] is None:
        return statistic
    facts = release.plan().facts
    n, size = _answers(release, statistic), facts.frame.size
    left = max(1.0 - n / size, 1e-9) if size and not facts.respondents_only else 1.0
    pair = _within(row["estimate"], row["se_sampling"] * math.sqrt(n / left), low, high)
    return replace(statistic, expect=pair, source=source)


def _answers(release: Release, statistic: Measured) -> float:
    """How many records a published mean was made of: those drawn, or where not all answered the noisy number in its own sums."""
    plan = release.plan()
    for place, item in enumerate(plan.items):
        asked = [
            each for each in item.statistics if (each.kind, each.of) == ("mean", statistic.of) and not each.by and not each.where
        ]
        if asked and (plan.respondents_only or item.query.absent) and isinstance(item.query.encoding, Triple | Pair):
            sums = release.document["noisy_sums"][place]["sums"]
            units = units_in(plan.asked(item).answered(np.asarray(sums, dtype=np.float64)))
            return max(1.0, float(units[0].sum()) / item.query.steps) if units is not None else units_drawn(plan.facts)
    return units_drawn(plan.facts)


def _counted(statistic: Counted, release: Release, source: str, plan: Plan) -> Counted:
    for column in (*statistic.by, plan.terms.design.strata_column):
        shares = {label: _share(row["estimate"]) for label, row in _by_label(release, "proportion", statistic, column).items()}
        if column and shares and set(shares) == set(plan.terms.frame.labels(column)):
            sizes = plan.terms.frame.category_sizes.get(column, dict.fromkeys(shares, 1))
            whole = math.fsum(sizes[label] * share for label, share in shares.items()) / math.fsum(sizes.values())
            return replace(statistic, expect=whole, expect_by=tuple(shares.items()), source=source)
    row = _whole(release, "proportion", statistic)
    return statistic if row is None else replace(statistic, expect=_share(row["estimate"]), source=source)


def _quantiles(statistic: Quantile, release: Release, source: str) -> Quantile:
    low, high = statistic.bounds
    rows = _published(release, "quantile", statistic)
    points = {float(asked.q): min(max(float(row["estimate"]), low), high) for asked, row in rows if not asked.by}  # type: ignore[attr-defined]
    if not points:
        return statistic
    # Noise may put published quantiles out of order; the largest so far stands for those after it.
    reached, ordered = low, []
    for share in sorted(points):
        reached = max(reached, points[share])
        ordered.append((share, reached))
    return replace(statistic, expect=tuple(ordered), source=source)


def _published(release: Release, kind: str, statistic: Statistic) -> list[tuple[Statistic, Row]]:
    """The published estimates of this kind, of the same column and value, that no condition narrows."""
    plan = release.plan()
    asked = [each for item in plan.items for each in item.statistics for _ in each.published(item.query)]
    return [
        (each, row)
        for each, row in zip(asked, release.estimates, strict=True)
        if (each.kind, each.of) == (kind, statistic.of)
        and getattr(each, "value", None) == getattr(statistic, "value", None)
        and not each.where
        and row["estimate"] is not None
    ]


def _whole(release: Release, kind: str, statistic: Statistic) -> Row | None:
    return next((row for _, row in _published(release, kind, statistic) if not row["by"]), None)


def _by_label(release: Release, kind: str, statistic: Statistic, column: str | None) -> dict[str, Row]:
    return {row["by"][column]: row for _, row in _published(release, kind, statistic) if tuple(row["by"]) == (column,)}


def _within(mean: float, sd: float, low: float, high: float) -> tuple[float, float]:
    """A noisy mean and deviation, moved to where values within the bounds can have them."""
    kept = min(max(float(mean), low), high)
    return kept, min(float(sd), math.sqrt((kept - low) * (high - kept)))


def _share(p: float) -> float:
    return min(max(float(p), LEAST), 1.0 - LEAST)
