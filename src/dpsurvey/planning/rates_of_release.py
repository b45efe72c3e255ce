"""The error of published estimates at other sampling rates, at the same guarantee: post-processing of a release, at no cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..design import Design, Poisson, SimpleRandom, Stratified
from ..errors import SurveyError
from ..ledger.terms import Terms
from ..mechanism import Mechanism
from ..survey.plan import Plan
from ..survey.release import Release
from .error_curves import ErrorCurve

Row = dict[str, Any]
# Only sums of units that are drawn one by one follow the rate as is supposed here.
SUMS = ("mean", "total", "proportion", "count")


def numbers_by_rate(release: Release) -> list[int]:
    """The places of the numbers that a picture is about: of each kind of statistic, the one with the most even errors."""
    rows = release.estimates
    if not isinstance(release.plan().terms.design, SimpleRandom | Poisson | Stratified):
        return []

    def evenness(place: int) -> float:
        row = rows[place]
        return min(row["se_noise"] or 0.0, row["se_sampling"] or 0.0) / (row["se"] or math.inf)

    kinds = dict.fromkeys(row["statistic"] for row in rows if row["statistic"] in SUMS)
    return [max((place for place, row in enumerate(rows) if row["statistic"] == kind), key=evenness) for kind in kinds]


def rates_of_release(release: Release, place: int = 0, points: int = 41) -> list[Row]:
    """The errors of one published estimate by sampling rate.

    The spread comes from the published estimates. Sampling error scales as sqrt((1-f)/f) from the published one; the noise is
    calibrated again at each rate by the design's own rule.
    """
    plan, row = release.plan(), release.estimates[place]
    own = plan.terms.design.largest_probability
    if row["se_sampling"] is None:
        return []
    rows: list[Row] = []
    for step in range(points):
        rate = (own / 10.0) ** (1.0 - step / (points - 1))
        noise = _noise_at(plan, row, own, min(rate, 1.0))
        if noise is None:
            continue
        sampling = row["se_sampling"] * math.sqrt(max(0.0, (1.0 - rate) / rate) * own / max(1.0 - own, 1e-12))
        rows.append({"rate": rate, "se_sampling": sampling, "se_noise": noise, "se": math.hypot(sampling, noise)})
    return rows


def release_curves(release: Release) -> list[ErrorCurve]:
    """The curves of those numbers; none for a number whose noise cannot be calibrated at other rates."""
    found = []
    for place in numbers_by_rate(release):
        row, rows = release.estimates[place], rates_of_release(release, place)
        if len(rows) > 2:
            found.append(ErrorCurve(row["statistic"], row["label"], row["by"], tuple(rows)))
    return found


def _noise_at(plan: Plan, row: Row, own: float, rate: float) -> float | None:
    """The published noise error at another rate: the scale follows the in-sample budget, the denominator the rate."""
    try:
        terms = replace(plan.terms, design=_with_rate(plan.terms, rate))
        ratio = _noise_scale(terms, plan.noise_class) / _noise_scale(plan.terms, plan.noise_class)
    except SurveyError:
        return None
    return float(row["se_noise"]) * ratio * own / rate


def _noise_scale(terms: Terms, noise: type[Mechanism]) -> float:
    """Noise per unit of sensitivity when the whole in-sample budget is spent on one sum."""
    return noise.calibrate(terms.in_sample(noise.measure), 1.0).scale


def _with_rate(terms: Terms, rate: float) -> Design:
    design = terms.design
    inside = design.within if isinstance(design, Stratified) and not isinstance(design.within, dict) else design
    other: SimpleRandom | Poisson = SimpleRandom(rate=rate) if isinstance(inside, SimpleRandom) else Poisson(rate)
    return (Stratified(design.by, other) if isinstance(design, Stratified) else other).resolve(terms.frame)
