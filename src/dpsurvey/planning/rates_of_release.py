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
POINTS = 41


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


def rates_of_release(release: Release, place: int = 0, points: int = POINTS) -> list[Row]:
    """The errors of one published estimate by sampling rate.

    The spread comes from the published estimates. Sampling error scales as sqrt((1-f)/f) from the published one; the noise is
    calibrated again at each rate by the design's own rule.
    """
    plan = release.plan()
    return _errors(release.estimates[place], plan.terms.design.largest_probability, _noise_by_rate(plan, points))


def release_curves(release: Release) -> list[ErrorCurve]:
    """The curves of those numbers; none for a number whose noise cannot be calibrated at other rates."""
    plan, places = release.plan(), numbers_by_rate(release)
    own, noise = plan.terms.design.largest_probability, _noise_by_rate(plan, POINTS) if places else []
    curves = [
        ErrorCurve(row["statistic"], row["label"], row["by"], tuple(_errors(row, own, noise)))
        for row in (release.estimates[place] for place in places)
    ]
    return [curve for curve in curves if len(curve.rows) > 2]


def _errors(row: Row, own: float, noise: list[tuple[float, float]]) -> list[Row]:
    """The errors of a published estimate, at each rate for which the scale of the noise is given."""
    if row["se_sampling"] is None:
        return []
    rows: list[Row] = []
    for rate, scale in noise:
        # Noise on a sum weighs less the more units are drawn.
        se_noise = float(row["se_noise"]) * scale * own / rate
        sampling = row["se_sampling"] * math.sqrt(max(0.0, (1.0 - rate) / rate) * own / max(1.0 - own, 1e-12))
        rows.append({"rate": rate, "se_sampling": sampling, "se_noise": se_noise, "se": math.hypot(sampling, se_noise)})
    return rows


def _noise_by_rate(plan: Plan, points: int) -> list[tuple[float, float]]:
    """Rates up to 1 with the scale of the noise at each, in that of the plan, where the noise can be calibrated.

    It follows from the in-sample budget, so it is the same for every number of a plan.
    """
    own, found = plan.terms.design.largest_probability, []
    planned: float | None = None
    for step in range(points):
        rate = min((own / 10.0) ** (1.0 - step / (points - 1)), 1.0)
        try:
            terms = replace(plan.terms, design=_with_rate(plan.terms, rate))
            planned = _noise_scale(plan.terms, plan.noise_class) if planned is None else planned
            scale = _noise_scale(terms, plan.noise_class) / planned
        except SurveyError:
            continue
        found.append((rate, scale))
    return found


def _noise_scale(terms: Terms, noise: type[Mechanism]) -> float:
    """Noise per unit of sensitivity when the whole in-sample budget is spent on one sum."""
    return noise.calibrate(terms.in_sample(noise.measure), 1.0).scale


def _with_rate(terms: Terms, rate: float) -> Design:
    design = terms.design
    inside = design.within if isinstance(design, Stratified) and not isinstance(design.within, dict) else design
    other: SimpleRandom | Poisson = SimpleRandom(rate=rate) if isinstance(inside, SimpleRandom) else Poisson(rate)
    return (Stratified(design.by, other) if isinstance(design, Stratified) else other).resolve(terms.frame)
