"""Means, proportions, shares of the whole and ratios of cluster samples, from the noisy sums of their random groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base import Estimates
from ..encodings import AnswerAndRecord
from ..facts import Facts
from ..noisy_sums import NoisySums
from ..notes import estimates_of
from ..query import RandomGroups
from ..random_group_layout import by_stratum_and_random_group, own_strata
from .clusters import Contributions, RandomGroupSums, solve_random_group_totals, solve_random_groups
from .interval import Array

METHOD = "between clusters, jackknife"


def within_own_strata(noisy: NoisySums) -> tuple[Array, Array]:
    """Noisy sums of groups by stratum and random group, and the shares of clusters drawn; of a group in one stratum only that
    stratum.

    The sums of all other strata hold nothing but noise, which is then left out.
    """
    sums, own = by_stratum_and_random_group(noisy.sums, noisy.query), own_strata(noisy.query)
    drawn = fractions(noisy.facts, noisy.query.random_groups)
    if own is None:
        return sums, drawn
    place = own.reshape((1,) * (sums.ndim - 4) + (-1, 1, 1, 1))
    return np.take_along_axis(sums, place, axis=-3), drawn[own][:, None]


def random_group_numbers(contributions: Contributions) -> Estimates:
    """Estimates with their intervals from what every random group adds to them."""
    low, high = contributions.low, contributions.high
    numbers = estimates_of(solve_random_groups(contributions.sums, low, high), low, high, method=METHOD, clustered=True)
    offset, moved = contributions.offset, numbers.scaled(contributions.span)
    return replace(moved, estimate=offset + moved.estimate, low=offset + moved.low, high=offset + moved.high)


def random_group_means(noisy: NoisySums, bounds: tuple[Array, Array]) -> Estimates:
    """Means of a column, or proportions, by group."""
    return random_group_numbers(means_by_random_group(noisy, bounds))


def means_by_random_group(noisy: NoisySums, bounds: tuple[Array, Array]) -> Contributions:
    """What every random group adds to means of a column, or proportions, by group."""
    query, facts, v = noisy.query, noisy.facts, noisy.variance
    sums, drawn = within_own_strata(noisy)
    counted = isinstance(query.encoding, AnswerAndRecord)
    top = sums[..., 0]
    bottom = sums[..., 1] if counted else sums[..., 0] + sums[..., 1]
    noise = (v, 0.0, v) if counted else (v, v, 2.0 * v)
    unit = facts.typical_weight / facts.largest_weight if query.value is not None else 0.0
    random_groups = RandomGroupSums(top, bottom, noise, drawn, noisy.kurtosis, unit, intervals=noisy.intervals)
    low, high = bounds
    return Contributions(random_groups, 0.0, 1.0, low, high - low, own_strata(query))


def random_group_shares(noisy: NoisySums, bounds: tuple[Array, Array], merged: int = 1) -> Estimates:
    """Totals by group as shares of the whole: sum of y in the group over the number of all units, times the frame size.

    Without a declared size the weighted totals stand for themselves. `merged` noisy sums were added up for each given.
    """
    query, facts = noisy.query, noisy.facts
    sums = by_stratum_and_random_group(noisy.sums, query)
    v = merged * noisy.mechanism.variance / query.steps**2
    low, high = bounds
    counted = isinstance(query.encoding, AnswerAndRecord)
    # A triple of sums is not kept by random group: y and what is left of the record, y and the record, or the record alone.
    levels = np.stack([high - low if counted else high, low], axis=-1) if sums.shape[-1] == 2 else high[..., None]
    top = (sums * levels[..., None, None, :]).sum(axis=-1)
    own = v * (levels**2).sum(axis=-1)
    units = sums[..., 1] if counted else sums.sum(axis=-1)
    carrying = units, v * (1 if counted else sums.shape[-1])
    kurtosis = noisy.kurtosis
    if facts.frame.size is None:
        alone = RandomGroupSums(
            top, np.zeros_like(top), (own, 0.0, 0.0), fractions(facts, query.random_groups), kurtosis, units=carrying
        )
        answer = solve_random_group_totals(alone)
        return estimates_of(answer, -np.inf, np.inf, keep_outside=True, method=METHOD, clustered=True).scaled(
            facts.largest_weight
        )
    bottom = np.broadcast_to(units.sum(axis=-3, keepdims=True), top.shape)
    terms = (1 if counted else sums.shape[-1]) * sums.shape[-4]
    shared = v * (low if counted else levels.sum(axis=-1))
    strata = own_strata(query) if merged == 1 else None
    if strata is not None:
        # Outside its own stratum a group has no units, only noise, which is left out; noise is counted per cell, on average.
        places = np.arange(top.shape[-2])
        top = np.where((places == strata[:, None])[:, :, None], top, 0.0)
        own, shared = own / len(places), shared / len(places)
        carrying = np.where((places == strata[:, None])[:, :, None], units, 0.0), carrying[1] / len(places)
    noise = (own, shared, v * terms)
    ends = np.minimum(0.0, low), np.maximum(0.0, high)
    shares = RandomGroupSums(
        top, bottom, noise, fractions(facts, query.random_groups), kurtosis, units=carrying, intervals=noisy.intervals
    )
    answer = solve_random_groups(shares, *ends)
    return estimates_of(answer, *ends, keep_outside=True, method=METHOD, clustered=True).scaled(float(facts.size))


def fractions(facts: Facts, random_groups: RandomGroups | None) -> Array:
    """The share of clusters drawn, by stratum, where whole clusters are taken; else 0, which is never too narrow."""
    clustering = facts.clustering
    assert clustering is not None
    assert random_groups is not None
    if random_groups.merged:
        return np.zeros(len(random_groups.strata))
    strata = max(1, len(clustering.strata))
    if not clustering.whole or facts.respondents_only or len(facts.parts) != strata or any(part.replaced for part in facts.parts):
        return np.zeros(strata)
    return np.array([part.probability for part in facts.parts])
