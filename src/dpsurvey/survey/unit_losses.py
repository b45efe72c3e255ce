"""What units with different weights lose: by which part of its sensitivity each moves what is asked, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..mechanism import Mechanism
from ..mechanism.base import Answering
from ..mechanism.bought_variance import MeanAndVariance
from ..mechanism.centred_ratio import CentredRatio
from ..mechanism.ranked import RankChoices, ShareChoices
from ..mechanism.weighted_strata import WeightedStrata
from ..privacy.measure import Measure, counted
from ..privacy.profile import PrivacyProfile
from ..privacy.rounding import above
from ..statistic import Query
from ..statistic.facts import Facts


def unit_losses(facts: Facts, charges: Iterable[tuple[Query, Answering, PrivacyProfile]]) -> list[dict[str, Any]]:
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
    asked = [
        (query, mechanism, parts_by_stratum(facts, query, mechanism), *counted(charge)) for query, mechanism, charge in charges
    ]
    rows = []
    for label, weight in weights:
        losses: dict[str, Fraction] = {}
        for query, mechanism, parts, measure, amount in asked:
            part = parts.get(str(label), 1.0) if facts.parts else _part_of_weight(facts, query, mechanism, weight)
            losses[measure.value] = losses.get(measure.value, Fraction(0)) + measure.of_part(amount, part)
        rows.append(
            {"units": label, "weight": weight} | {name: Measure(name).level(above(loss)) for name, loss in losses.items()}
        )
    return rows


def parts_by_stratum(facts: Facts, query: Query, mechanism: Answering) -> Mapping[str, float]:
    """By which part of the sensitivity the records of each stratum move what is asked; strata that move all of it are left out.

    Sums that are not weighted by stratum are moved alike by all records; of the lengths that are bought of clusters nothing less
    is claimed.
    """
    labels = [part.label for part in facts.parts if part.label is not None]
    if isinstance(mechanism, MeanAndVariance | WeightedStrata):
        own = mechanism.parts
        found = dict(zip(labels, own, strict=True)) if len(labels) == len(own) else {}
    elif query.weights is not None or query.clusters is not None or not labels:
        found = {}
    else:
        steps = dict(query.lattice)
        found = {label: _part(facts, query, mechanism, steps.get(label, query.steps)) for label in labels}
    return {label: part for label, part in found.items() if part < 1.0}


def _part_of_weight(facts: Facts, query: Query, mechanism: Answering, weight: float) -> float:
    """The same for a unit of its own weight; of groups with largest weights of their own, in the one in which it counts most."""
    share = 1.0 if query.weights is None else min(1.0, max(query.finer) * query.weights.share(weight))
    return _part(facts, query, mechanism, math.ceil(share * query.steps))


def _part(facts: Facts, query: Query, mechanism: Answering, steps: int) -> float:
    """How much of the sensitivity a unit of so many steps reaches, with the whole steps that rounding may add."""
    if steps >= query.steps:
        return 1.0
    if isinstance(mechanism, CentredRatio):
        return mechanism.part(steps)
    if isinstance(mechanism, RankChoices | ShareChoices):
        # A choice by scores, which are whole weights.
        return above(Fraction(steps, query.steps))
    if not (isinstance(mechanism, Mechanism) and mechanism.loss_is_linear):
        return 1.0
    # Where squares of weights are summed too, a unit of a small weight uses more than its part.
    moved = math.ceil(query.encoding.part(steps / query.steps, facts.norm) * query.steps)
    of_unit = replace(query, weights=None, lattice=((None, moved),))
    return min(1.0, above(Fraction(of_unit.sensitivity(facts.relation, facts.norm)) / Fraction(mechanism.sensitivity)))
