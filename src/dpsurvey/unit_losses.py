"""What units with different weights lose: the largest loss is the guarantee, the others lose less."""

from __future__ import annotations

from typing import Any

from .plan import Plan
from .privacy.account import amount


def unit_losses(plan: Plan) -> list[dict[str, Any]]:
    """The in-sample loss of units by their public weight: by stratum, or at the declared extremes; empty for equal weights.

    A unit that moves sums by w/w_max of their sensitivity loses that part of an epsilon, and the square of it of a rho. Where
    weights are each unit's own, only the declared extremes are shown: how they are distributed is in the file.
    """
    facts, kind = plan.facts, "rho" if plan.kind_of_noise == "gaussian" else "epsilon"
    if facts.parts:
        if len({part.weight for part in facts.parts}) == 1:
            return []
        weights = [(part.label, part.weight) for part in facts.parts]
    else:
        low, high = facts.weights
        weights = [("lowest declared weight", low), ("highest declared weight", high)]
    rows = []
    for label, weight in weights:
        loss = 0.0
        for item in plan.items:
            steps = dict(item.query.lattice)
            share = weight / facts.largest_weight if item.query.weights else steps.get(label, item.query.steps) / item.query.steps
            paid = amount(item.charge) if item.charge.curve.kind == "zcdp" else item.charge.curve.to_dict()["epsilon"]
            loss += paid * (share**2 if kind == "rho" else share)
        rows.append({"units": label, "weight": weight, kind: loss})
    return rows
