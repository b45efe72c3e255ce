"""Stratum standard deviations from a Release: post-processing of published, noisy estimates, so they cost nothing more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..design import Design, SimpleRandom, Stratified
from ..design.poisson import IndependentDraws
from ..errors import BadValue, did_you_mean
from ..statistic import Statistic
from ..statistic.encodings import Moments
from ..statistic.mean import Mean
from ..statistic.missing import ENOUGH, units_in
from .plan import Item
from .release import Release


def release_source(release: Release) -> str:
    """The reference that an allocation stores: which release its figures come from.

    >>> import os, tempfile, pyarrow as pa, dpsurvey as ds
    >>> rows = pa.table({"id": range(400), "part": ["a", "b"] * 200, "y": [float(unit % 50) for unit in range(400)]})
    >>> frame = ds.Frame(rows, unit="id", size=400, categories={"part": {"a": 200, "b": 200}})
    >>> design = ds.stratified("part", within=ds.srs(n=50))
    >>> books = os.path.join(tempfile.mkdtemp(), "books.ledger")
    >>> survey = ds.Survey(frame, design, budget=ds.Budget(100.0), ledger=books, name="wave1")
    >>> release = survey.plan(ds.mean("y", bounds=(0, 50), by="part")).release()
    >>> release_source(release).endswith("of survey wave1")
    True
    """
    return f"release {release.hash[:12]} of survey {release.document['survey']['name']}"


def stratum_deviations(release: Release, of: str, by: str | None = None) -> dict[str, float]:
    """The standard deviation of a column in each stratum, from the release's mean of it by that column.

    A mean's sampling error was se = sqrt((1 - f_h) s_h^2/n_h), so s_h = se sqrt(n_h/(1 - f_h)). n_h is fixed by the
    design, or where it is random the noisy number of units in the release's own sums, which the error was made from.
    The deviations are of the clipped column and as noisy as the release. `by` is the column of the design's strata,
    unless another is named.

    Holds when: the release is published. Nothing but its document is read, so nothing is spent.

    >>> import os, tempfile, pyarrow as pa, dpsurvey as ds
    >>> rows = pa.table({"id": range(400), "part": ["a", "b"] * 200, "y": [float(unit % 50) for unit in range(400)]})
    >>> frame = ds.Frame(rows, unit="id", size=400, categories={"part": {"a": 200, "b": 200}})
    >>> design = ds.stratified("part", within=ds.srs(n=50))
    >>> books = os.path.join(tempfile.mkdtemp(), "books.ledger")
    >>> survey = ds.Survey(frame, design, budget=ds.Budget(100.0), ledger=books, name="wave1")
    >>> release = survey.plan(ds.mean("y", bounds=(0, 50), by="part")).release()
    >>> all(5.0 < deviation < 25.0 for deviation in stratum_deviations(release, "y").values())
    True
    """
    plan = release.plan()
    place, item, statistic = _the_mean(release, of, by)
    column = statistic.by[0]
    facts = plan.terms.facts(respondents_only=plan.respondents_only)
    sums = np.asarray(release.document["noisy_sums"][place]["sums"], dtype=np.float64)
    counted = units_in(plan.asked(item).answered(sums))
    units, terms = counted if counted is not None else (np.zeros(0), 0)
    thinning = facts.thinning(item.query.by, item.query.groups)
    parts = {part.label: part for part in facts.parts}
    rows = {row["by"][column]: row for row in release.estimates if _is_of(row, statistic)}
    found: dict[str, float] = {}
    for index, (label,) in enumerate(item.query.groups):
        if isinstance(item.query.encoding, Moments):
            # One stratum of fixed size; what the statistic does for n_h = 1 is not an estimate of a spread.
            n, size = float(parts[label].take or 0), parts[label].size or 0
            left = 1.0 - n / size
            enough = n > 1
        else:
            n, left = float(units[index]) / item.query.steps, float(thinning[index])
            enough = units[index] >= ENOUGH * math.sqrt(terms * item.mechanism.variance)
        if left <= 0.0:
            raise BadValue(
                f"stratum {label!r} of this release was taken in full, so its sampling error of 0 gives no deviation",
                hint="give its deviation from another publication, or take it in full again and allocate the others",
            )
        if not enough or rows[label]["se_sampling"] is None:
            raise BadValue(
                f"stratum {label!r} of this release has too few units to give a deviation",
                hint="a release with a larger epsilon or a larger sample",
            )
        found[label] = rows[label]["se_sampling"] * math.sqrt(n / left)
    return found


def _the_mean(release: Release, of: str, by: str | None) -> tuple[int, Item, Statistic]:
    """The one mean of the column by the stratum column, with its place among the charges."""
    plan = release.plan()
    column = by or plan.terms.design.strata_column
    means = [(place, item, each) for place, item in enumerate(plan.items) for each in item.statistics if isinstance(each, Mean)]
    ours = [found for found in means if found[2].of == of and len(found[2].by) == 1 and column in (None, found[2].by[0])]
    strata = f"by {column!r}" if column else "by one column"
    if not ours:
        names = [each.of or "" for _, _, each in means]
        if names and of not in names:
            raise BadValue(f"this release has no mean of {of!r}", hint=did_you_mean(of, names))
        raise BadValue(
            f"this release has no mean of {of!r} {strata}",
            given="; ".join(each.name for each in plan.statistics),
            hint=f'a release with ds.mean("{of}", bounds=..., by="{column or "the strata"}") gives stratum deviations',
        )
    if len(ours) > 1:
        given = "; ".join(each.name for _, _, each in ours)
        hint = "name the stratum column with by=; of means with different bounds, publish one"
        raise BadValue(f"this release has several means of {of!r} {strata}", given=given, hint=hint)
    place, item, statistic = ours[0]
    if not _self_weighting(plan.terms.design) or len(item.query.lattice) > 1:
        raise BadValue(
            f"the sampling error of {statistic.name} does not give a stratum deviation",
            because="units of one stratum were drawn with different weights, or in clusters",
            hint="a release from srs or poisson, over the whole frame or inside these strata",
        )
    return place, item, statistic


def _self_weighting(design: Design) -> bool:
    """Whether units are drawn alone and alike inside each stratum."""
    inside = design.insides().values() if isinstance(design, Stratified) else [design]
    return all(isinstance(each, SimpleRandom | IndependentDraws) and bool(each.parts()) for each in inside)


def _is_of(row: Mapping[str, Any], statistic: Statistic) -> bool:
    return row["statistic"] == statistic.kind and row["of"] == statistic.of and tuple(row["by"]) == statistic.by
