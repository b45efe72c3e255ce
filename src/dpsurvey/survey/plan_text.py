"""A plan for people: the table of errors, what they rest on, what it costs and what it guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..privacy.measure import Measure
from ..text.layout import ceiling_text, group_text, number_text, text_table
from .predictions import predicted_from

if TYPE_CHECKING:
    from .plan import Plan

COLUMNS = ["statistic", "of", "group", "se_sampling", "se_noise", "se", "moe", "share"]


def plan_text(plan: Plan) -> str:
    """What `print(plan)` says."""
    rows = [{**row, "of": row["label"], "group": group_text(row["by"])} for row in plan.predictions]
    guarantee = plan.guarantee
    simulated = any(row["simulated"] for row in rows)
    lines = [
        f"Plan of {plan.terms.name!r}: {len(rows)} estimates, {len(plan.items)} charges, no rows read",
        "",
        text_table(rows, COLUMNS),
        "",
        "Sampling errors are predicted from " + "; ".join(predicted_from(plan)) + ".",
    ]
    lines += ["Errors of estimates that are not linear in their sums are simulated."] if simulated else []
    lines += [fieldwork_text(plan)] if plan.fieldwork is not None else []
    lines += [f"Estimator of {name}: {why}." for name, why in plan.choices]
    lines += [f"Note: {text}." for text in plan.advice]
    return "\n".join([*lines, *_losses(plan), *guarantee.steps[1:2], "By this plan alone: " + str(guarantee)])


def fieldwork_text(plan: Plan) -> str:
    """What the field is expected to bring and to cost."""
    assert plan.fieldwork is not None
    found = plan.fieldwork.expected(plan.facts)
    clusters = f" in {number_text(found['clusters'])} clusters" if found["clusters"] else ""
    text = f"Fieldwork: about {found['drawn']:,.0f} units drawn{clusters}, {found['answers']:,.0f} answers"
    if found["cost"]:
        text += f"; cost {number_text(found['cost'])}"
    if found["budget"] is not None:
        text += f" of {number_text(found['budget'])}"
    return text + ("." if found["affordable"] else ", which is more than the field budget.")


def _losses(plan: Plan) -> list[str]:
    losses = plan.unit_losses
    if not losses:
        return []
    unit = next(measure.value for measure in Measure if measure.value in losses[0])
    apart = "outside" in losses[0]
    rows = [
        f"{row['units']} (weight {row['weight']:.4g}): {ceiling_text(row[unit])}"
        + (f", outside {ceiling_text(row['outside'])}" if apart else "")
        for row in losses[:12]
    ]
    more = f"; and {len(losses) - 12} more" if len(losses) > 12 else ""
    outside = ", and epsilon outside" if apart else ""
    return [f"On the sample, {unit} by weight{outside} (the largest is in the guarantee): " + "; ".join(rows) + more + "."]
