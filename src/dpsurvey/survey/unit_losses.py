"""What units with different weights lose: the largest loss is the guarantee, the others lose less."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..privacy.measure import counted
from ..privacy.profile import PrivacyProfile
from ..privacy.rounding import up
from ..statistic import Query
from ..statistic.encodings import LeafCounts, TreeCounts
from ..statistic.facts import Facts


def unit_losses(facts: Facts, charges: Iterable[tuple[Query, PrivacyProfile]]) -> list[dict[str, Any]]:
    """The in-sample loss of units by their public weight: by stratum, or at the declared extremes; empty for equal weights.

    A unit that moves sums by w/w_max of their sensitivity loses that part of an epsilon, and the square of it of a rho; where
    squares of weights are summed too, it moves them by more than that part. Where
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
            loss = measure.of_part(float(amount), _part(facts, query, label, weight))
            losses[measure.value] = losses.get(measure.value, 0.0) + loss
        rows.append({"units": label, "weight": weight} | {name: up(loss) for name, loss in losses.items()})
    return rows


def _part(facts: Facts, query: Query, label: str | None, weight: float) -> float:
    """How much of the sensitivity a unit of this weight reaches, with the whole steps that rounding may add."""
    weights, most = query.weights, query.steps
    # Of groups with largest weights of their own, the one in which this weight counts most.
    finer = max(query.finer)
    steps = dict(query.lattice).get(label, most) if weights is None else math.ceil(min(1.0, finer * weights.share(weight)) * most)
    if steps >= most:
        return 1.0
    if isinstance(query.encoding, LeafCounts) and not isinstance(query.encoding, TreeCounts):
        # A choice by scores, which are whole weights.
        return steps / most
    steps = math.ceil(query.encoding.part(steps / most, facts.norm) * most)
    of_unit = replace(query, weights=None, lattice=((None, steps),))
    return of_unit.sensitivity(facts.relation, facts.norm) / query.sensitivity(facts.relation, facts.norm)
