"""What units with different weights lose: the largest loss is the guarantee, the others lose less."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..privacy.profile import PrivacyProfile
from ..statistic import Query
from ..statistic.facts import Facts


def unit_losses(facts: Facts, charges: Iterable[tuple[Query, PrivacyProfile]]) -> list[dict[str, Any]]:
    """The in-sample loss of units by their public weight: by stratum, or at the declared extremes; empty for equal weights.

    A unit that moves sums by w/w_max of their sensitivity loses that part of an epsilon, and the square of it of a rho. Where
    weights are each unit's own, only the declared extremes are shown: how they are distributed is in the file.
    """
    if facts.parts and len({part.weight for part in facts.parts}) == 1:
        return []
    weights: list[tuple[str | None, float]] = [(part.label, part.weight) for part in facts.parts]
    if not weights:
        low, high = facts.weights
        weights = [("lowest declared weight", low), ("highest declared weight", high)]
    asked = list(charges)
    rho = any(charge.curve.kind == "zcdp" for _, charge in asked)
    rows = []
    for label, weight in weights:
        loss = 0.0
        for query, charge in asked:
            fields = charge.curve.to_dict()
            loss += fields["rho"] * _part(query, label, weight) ** 2 if rho else fields["epsilon"] * _part(query, label, weight)
        rows.append({"units": label, "weight": weight, "rho" if rho else "epsilon": loss})
    return rows


def _part(query: Query, label: str | None, weight: float) -> float:
    """How much of the sensitivity a unit of this weight reaches."""
    if query.weights is not None:
        return min(1.0, query.weights.share(weight))
    return dict(query.lattice).get(label, query.steps) / query.steps
