"""The response rate of a release: from noisy sums that were charged anyway, and never from the answers themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..statistic.facts import Facts
from ..statistic.missing import ENOUGH, units_in
from .plan import Item, Plan

NO_SUM = "no noisy sum of this release counts all who answered; a mean or proportion without conditions does, and gives the rate"
HIDDEN = "the noise is too large to give the rate"
NOISY = "noisy, by design weights, and spent for by the estimates it comes from; its sampling error is not in the noise"


def response_rate(plan: Plan, noisy: Sequence[Sequence[Sequence[int]]]) -> dict[str, Any]:
    """The share of drawn units that answered, with its noise and what it comes from; no rate where no noisy sum tells it.

    The number of answers is a figure of rows. It is estimated by the sums of the plan that know it best, each record by its
    weight, over the declared size of the frame; which sums these are depends on public figures alone.
    """
    size, found = float(plan.facts.size), []
    for item, sums in zip(plan.items, noisy, strict=True):
        weights = weights_of(item, plan.facts)
        counted = units_in(plan.asked(item).read(sums), everybody=True) if weights is not None else None
        if counted is None or weights is None:
            continue
        units, terms = counted
        each = np.repeat(weights, item.query.cells // len(item.query.groups)) / (item.query.steps * size)
        noise = math.sqrt(terms * item.mechanism.variance * float(np.sum(each**2)))
        found.append((noise, float(units @ each), item.statistics[0].name))
    if not found:
        return {"rate": None, "se_noise": None, "from": None, "note": NO_SUM}
    noise, rate, name = min(found, key=lambda each: each[0])
    clear = rate >= ENOUGH * noise
    return {"rate": min(rate, 1.0) if clear else None, "se_noise": noise, "from": name, "note": NOISY if clear else HIDDEN}


def weights_of(item: Item, facts: Facts) -> Any:
    """How many units of the frame a whole record of each group stands for; None where that is not one public number."""
    query = item.query
    if query.where and not query.masks:
        return None
    if query.weights is not None:
        plain = query.weights.kept == 1.0 and query.weights.largest >= facts.largest_weight
        return np.full(len(query.groups), query.weights.largest) if plain else None
    weights = {part.label: part.weight for part in facts.parts}
    if len(query.lattice) > 1 or len(set(weights.values())) == 1:
        return np.full(len(query.groups), facts.largest_weight)
    if query.strata_column not in query.by:
        return None
    place = query.by.index(query.strata_column)
    return np.array([weights[group[place]] for group in query.groups])


def response_text(found: dict[str, Any]) -> str:
    """The response rate in one line.

    >>> response_text({"rate": 0.7134, "se_noise": 0.021, "from": "mean of income", "note": "noisy"})
    'Response rate: 71.3 % (se of the noise 2.1 points), from the noisy sums of mean of income'
    """
    if found["rate"] is None:
        return f"Response rate: not given; {found['note']}"
    rate, noise = 100.0 * found["rate"], 100.0 * found["se_noise"]
    return f"Response rate: {rate:.1f} % (se of the noise {noise:.2g} points), from the noisy sums of {found['from']}"
