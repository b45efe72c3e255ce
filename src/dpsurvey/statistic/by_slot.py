"""Means, proportions, shares of the whole and ratios of cluster samples, from the noisy sums of their slots."""

from __future__ import annotations

import numpy as np

from ..mechanism.base import Answering
from .base import Numbers
from .clustered import SlotSums, solve_slot_totals, solve_slots
from .facts import Facts
from .interval import Array
from .notes import numbers_of
from .query import Query

METHOD = "between clusters, jackknife"


def by_stratum_and_slot(noisy: Array, query: Query) -> Array:
    """Noisy sums as (..., groups, strata, slots, components), in units of records."""
    assert query.slots is not None
    strata = max(1, len(query.slots.strata))
    shape = (*noisy.shape[:-2], noisy.shape[-2] // query.slots.cells, strata, query.slots.count, noisy.shape[-1])
    return noisy.reshape(shape) / query.steps


def slot_means(noisy: Array, query: Query, mechanism: Answering, facts: Facts, bounds: tuple[Array, Array]) -> Numbers:
    """Means of a column, or proportions, by group."""
    sums = by_stratum_and_slot(noisy, query)
    v = mechanism.variance / query.steps**2
    counted = query.encoding == "counted"
    top = sums[..., 0]
    bottom = sums[..., 1] if counted else sums[..., 0] + sums[..., 1]
    noise = (v, 0.0, v) if counted else (v, v, 2.0 * v)
    binary = query.value is not None and len({part.weight for part in facts.parts}) == 1
    answer = solve_slots(SlotSums(top, bottom, noise, fractions(facts), mechanism.kind == "laplace", binary), 0.0, 1.0)
    numbers = numbers_of(answer, 0.0, 1.0, method=METHOD)
    low, high = bounds
    span = high - low
    moved = numbers.scaled(span)
    return Numbers(
        low + moved.estimate,
        moved.se_sampling,
        moved.se_noise,
        low + moved.low,
        low + moved.high,
        numbers.notes,
        numbers.method,
        numbers.df,
    )


def slot_shares(
    noisy: Array, query: Query, mechanism: Answering, facts: Facts, bounds: tuple[Array, Array], merged: int = 1
) -> Numbers:
    """Totals by group as shares of the whole: sum of y in the group over the number of all units, times the frame size.

    Without a declared size the weighted totals stand for themselves. `merged` noisy sums were added up for each given.
    """
    sums = by_stratum_and_slot(noisy, query)
    v = merged * mechanism.variance / query.steps**2
    low, high = bounds
    counted = query.encoding == "counted"
    # A triple of sums is not kept by slot: y and what is left of the record, y and the record, or the record alone.
    levels = np.stack([high - low if counted else high, low], axis=-1) if sums.shape[-1] == 2 else high[..., None]
    top = (sums * levels[..., None, None, :]).sum(axis=-1)
    own = v * (levels**2).sum(axis=-1)
    units = sums[..., 1] if counted else sums.sum(axis=-1)
    laplace = mechanism.kind == "laplace"
    if facts.frame.size is None:
        alone = SlotSums(top, np.zeros_like(top), (own, 0.0, 0.0), fractions(facts), laplace)
        answer = solve_slot_totals(alone)
        return numbers_of(answer, -np.inf, np.inf, keep_outside=True, method=METHOD).scaled(facts.largest_weight)
    bottom = np.broadcast_to(units.sum(axis=-3, keepdims=True), top.shape)
    terms = (1 if counted else sums.shape[-1]) * sums.shape[-4]
    noise = (own, v * (low if counted else levels.sum(axis=-1)), v * terms)
    ends = np.minimum(0.0, low), np.maximum(0.0, high)
    answer = solve_slots(SlotSums(top, bottom, noise, fractions(facts), laplace), *ends)
    return numbers_of(answer, *ends, keep_outside=True, method=METHOD).scaled(float(facts.size))


def fractions(facts: Facts) -> Array:
    """The share of clusters drawn, by stratum, where whole clusters are taken; else 0, which is never too narrow."""
    clustering = facts.clustering
    assert clustering is not None
    strata = max(1, len(clustering.strata))
    if not clustering.whole or facts.respondents_only or len(facts.parts) != strata or any(part.replaced for part in facts.parts):
        return np.zeros(strata)
    return np.array([part.probability for part in facts.parts])
