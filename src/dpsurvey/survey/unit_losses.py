"""What units with different weights lose: the largest loss is the guarantee, the others lose less."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..privacy.measure import counted
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
    amounts = [(query, *counted(charge)) for query, charge in charges]
    rows = []
    for label, weight in weights:
        losses: dict[str, float] = {}
        for query, measure, amount in amounts:
            loss = measure.of_part(float(amount), _part(query, label, weight))
            losses[measure.value] = losses.get(measure.value, 0.0) + loss
        rows.append({"units": label, "weight": weight, **losses})
    return rows


def _part(query: Query, label: str | None, weight: float) -> float:
    """How much of the sensitivity a unit of this weight reaches."""
    if query.weights is not None:
        return min(1.0, query.weights.share(weight))
    return dict(query.lattice).get(label, query.steps) / query.steps
