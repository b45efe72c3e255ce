"""The error to expect of every estimate of a plan, from public figures alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..statistic.estimators.interval import Z
from ..statistic.facts import SUPPOSED

if TYPE_CHECKING:
    from ..statistic import Facts, Statistic
    from .plan import Item, Plan

# The row of a whole plan, beside those of its estimates.
WHOLE_PLAN: dict[str, Any] = {"statistic": "plan", "of": "", "label": "", "by": {}}


def predicted_rows(plan: Plan) -> list[dict[str, Any]]:
    """One row per estimate, by the same code as the release; `moe` holds the bound on the bias of changed weights too."""
    return [row for item in plan.items for row in item_rows(plan, item)]


def item_rows(plan: Plan, item: Item) -> list[dict[str, Any]]:
    """The rows of one charge."""
    facts, rows = plan.facts, []
    for statistic in item.statistics:
        asked = plan.asked_by(item, statistic, intervals=False)
        expected, declared = statistic.expected(asked)
        numbers = statistic.estimate(expected)
        sampled, noised, simulated = statistic.predicted_errors(expected, numbers)
        reach = statistic.predicted_reach(expected, sampled)
        rests_on = "; ".join(_rests(statistic, facts, declared))
        for index, by in enumerate(statistic.published(item.query_of(statistic))):
            sampling, noise = _or_none(sampled[index]), _or_none(noised[index])
            se = math.hypot(sampling, noise) if sampling is not None and noise is not None else None
            moe = None if se is None else Z * se if reach is None else max(Z * se, _or_none(reach[index]) or 0.0)
            bias = 0.0 if numbers.bias is None else float(numbers.bias[index])
            rows.append(
                {
                    "statistic": statistic.kind,
                    "of": statistic.of,
                    "label": plan.label(statistic),
                    "name": plan.name(statistic),
                    "by": by,
                    "se": se,
                    "se_sampling": sampling,
                    "se_noise": noise,
                    "bias": bias,
                    "moe": None if moe is None else moe + bias,
                    "share": item.share,
                    "simulated": simulated,
                    "rests_on": rests_on,
                }
            )
    return rows


def predicted_from(plan: Plan) -> list[str]:
    """What the predictions of a plan rest on, in words, each once."""
    found: dict[str, None] = {}
    for item in plan.items:
        for statistic in item.statistics:
            asked = plan.asked_by(item, statistic, intervals=False)
            found |= dict.fromkeys(_rests(statistic, plan.facts, statistic.expected(asked)[1]))
    return list(found)


def _rests(statistic: Statistic, facts: Facts, declared: bool) -> list[str]:
    return [statistic.prediction_rests_on, *_supposed(statistic, facts, declared)]


def _supposed(statistic: Statistic, facts: Facts, declared: bool) -> list[str]:
    """What had to be supposed, in words."""
    found = [] if declared else ["groups of undeclared size as if columns were unrelated and categories equal"]
    if facts.units_supposed:
        found.append(f"{SUPPOSED:,.0f} units, as nothing declared says how many there are")
    if statistic.drops:
        found.append("every question answered by everybody who is asked")
    if statistic.covariance_unknown(facts):
        found.append("the errors of both groups added up, whatever clusters they share (deff= of the contrast says more)")
    if statistic.effect is not None:
        return [*found, f"a design effect of {statistic.effect:g}"]
    if facts.clustering is not None:
        what = "units as if they were unrelated" if facts.clustering.replicates else "clusters as if their units were unrelated"
        found.append(f"{what} (deff= says more)")
    elif not facts.parts:
        found.append("weights spread evenly between their extremes, on a logarithmic scale (deff= says more)")
    return found


def noise_errors(plan: Plan) -> list[float]:
    """The noise of every estimate as the estimator reports it at the expected sums: quick, to choose between kinds of noise."""
    found: list[float] = []
    for item in plan.items:
        for statistic in item.statistics:
            asked = plan.asked_by(item, statistic, intervals=False)
            found += statistic.estimate(statistic.expected(asked)[0]).se_noise.tolist()
    return found


def _or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
