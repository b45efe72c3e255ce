"""Quantiles of groups from noisy trees, whatever the design: public sizes, random sizes, unequal weights, clusters."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ...mechanism.cluster_norm import Directions
from ..base import Estimates
from ..encodings import TreeCounts
from ..facts import Facts
from ..noisy_sums import NoisySums
from ..notes import Note
from .clusters import carried_freedom, freedom_with_noise, least_reach
from .fixed_size import sizes_of
from .interval import Array, Z, student, truncated
from .norm_interval import half_width, variance_alone
from .quantile_interval import QuantileAnswer, crossing, monotone, quantile_from_tree, says_little
from .random_groups import within_own_strata
from .tree import Tree, prefix_noise, total_noise
from .woodruff import fixed_size_variance, random_size_variance, sampled_weight


def tree_numbers(noisy: NoisySums, encoding: TreeCounts, q: float) -> Estimates:
    """The q-quantile of every group."""
    query, facts, v, kurtosis = noisy.query, noisy.facts, noisy.variance, noisy.kurtosis
    tree, grid, nodes = encoding.tree, np.asarray(encoding.edges), noisy.records
    answers = []
    bought = noisy.standard_errors(len(query.groups)) if query.clusters is not None else None
    for index, group in enumerate(query.groups):
        if bought is not None:
            errors = bought[0][..., index], bought[1][..., index], noisy.freedom(len(query.groups))[..., index]
            answers.append(_from_bought_error(nodes[..., index, : tree.nodes], tree, q, grid, v, kurtosis, facts, *errors))
        elif query.random_groups is not None:
            random_groups, drawn = within_own_strata(noisy)
            shares = drawn[index] if drawn.ndim == 2 else drawn
            answers.append(_from_random_groups(random_groups[..., index, :, :, :], tree, q, grid, v, shares))
        elif query.group_is_fixed and facts.sizes_are_public(query.by):
            sizes = sizes_of(facts, group)
            variance = fixed_size_variance(q, sizes) if np.all(sizes.rates > 0.0) else sizes.n * q * (1.0 - q)
            root = sampled_weight(sizes) if np.all(sizes.rates > 0.0) else sizes.n
            answers.append(quantile_from_tree(nodes[..., index, :], tree, q, grid, v, root, variance, kurtosis))
        else:
            thinning = float(facts.thinning(query.by, query.groups)[index])
            sd = math.sqrt(total_noise(tree) * v)

            def variance_of(total: Array, sd: float = sd, thinning: float = thinning) -> Array:
                return random_size_variance(q, total, sd, thinning)

            answers.append(quantile_from_tree(nodes[..., index, :], tree, q, grid, v, None, variance_of, kurtosis))
    estimate, sampling, noise, low, high = (
        np.stack([getattr(each, name) for each in answers], axis=-1)
        for name in ("estimate", "se_sampling", "se_noise", "low", "high")
    )
    notes = tuple(_notes(each, facts, q, len(query.groups)) for each in answers) if estimate.ndim == 1 else ()
    whole = np.stack([each.whole_range for each in answers], axis=-1)
    return Estimates(estimate, sampling, noise, low, high, notes, "noisy tree, test inversion", whole_range=whole)


def tree_directions(noisy: NoisySums, encoding: TreeCounts, q: float) -> Directions:
    """What a record adds to the number of units below the noisy quantile, less q of all: by group, in the leaves alone."""
    query, tree = noisy.query, encoding.tree
    below = tree.prefix_sums(tree.consistent(noisy.records[:, : tree.nodes]))
    groups = len(query.groups)
    per_record = np.zeros((groups, groups, query.components))
    leaves = tree.level(tree.levels)
    for group in range(groups):
        at = _nearest_edge(below[group], tree, q)
        per_record[group, group, leaves] = np.where(np.arange(tree.leaves) < at, 1.0, 0.0) - q
    members = np.eye(groups, dtype=np.bool_)
    return Directions(per_record, members, np.ones(groups, dtype=np.bool_))


def _nearest_edge(below: Array, tree: Tree, q: float) -> npt.NDArray[np.intp]:
    leaf, part = crossing(monotone(below), q * below[..., -1])
    return np.asarray(np.clip(leaf + (part >= 0.5), 1, tree.leaves - 1))


def _from_bought_error(
    nodes: Array,
    tree: Tree,
    q: float,
    grid: Array,
    v: float,
    kurtosis: float,
    facts: Facts,
    error: Array,
    doubt: Array,
    freedom: Array,
) -> QuantileAnswer:
    """From one tree of all clusters, and the noisy standard error of the number of units below the quantile."""
    below = tree.prefix_sums(tree.consistent(nodes))
    at = _nearest_edge(below, tree, q)
    noise = prefix_noise(tree, q, root_known=False).variance[at] * v
    units = truncated(below[..., -1], math.sqrt(total_noise(tree) * v))
    alone = variance_alone(facts.typical_weight / facts.largest_weight, units, q)
    own = np.sqrt(np.maximum(np.maximum(error, 0.0) ** 2, alone))
    # The noise of the tree is counted once, by the quantile itself.
    limit = half_width(own, doubt, noise, np.zeros_like(noise), freedom)
    sampling = np.maximum(limit**2 / Z**2 - noise, 0.0)
    return quantile_from_tree(nodes, tree, q, grid, v, None, sampling, kurtosis)


def _from_random_groups(random_groups: Array, tree: Tree, q: float, grid: Array, v: float, shares: Array) -> QuantileAnswer:
    """From trees of strata and random groups: the spread between random groups at the quantile stands for sampling and noise
    together."""
    strata, count = random_groups.shape[-3], random_groups.shape[-2]
    below = tree.prefix_sums(tree.consistent(random_groups))
    whole = below.sum(axis=(-2, -3))
    at = _nearest_edge(whole, tree, q)
    there = np.take_along_axis(below, at[..., None, None, None], axis=-1)[..., 0]
    residual = there - q * below[..., -1]
    centred = residual - residual.mean(axis=-1, keepdims=True)
    between = ((1.0 - shares) * count / (count - 1.0) * (centred**2).sum(axis=-1)).sum(axis=-1)
    noise = prefix_noise(tree, q, root_known=False).variance * v * strata * count
    # The noise differs a little from edge to edge; the largest stands for all.
    variance = between + (noise.max() - noise[at]) + float(np.mean(shares)) * noise[at]
    share = np.clip(noise[at] / np.maximum(variance, 1e-300), 0.0, 1.0)
    effective = carried_freedom(below[..., -1], total_noise(tree) * v)
    freedom = freedom_with_noise(effective, strata * (count - 1), share)
    least = least_reach(variance, noise[at], effective, strata * count, kurtosis=0.0)
    inflated = np.maximum(variance * student(freedom) ** 2, least**2) / Z**2
    answer = quantile_from_tree(random_groups.sum(axis=(-2, -3)), tree, q, grid, 0.0, None, inflated, 0.0)
    error = answer.se_sampling
    return QuantileAnswer(
        answer.estimate,
        np.asarray(error * np.sqrt(1.0 - share)),
        np.asarray(error * np.sqrt(share)),
        answer.low,
        answer.high,
        answer.low_at_bound,
        answer.high_at_bound,
    )


def _notes(answer: QuantileAnswer, facts: Facts, q: float, groups: int) -> tuple[str, ...]:
    rules = (
        (Note.NOT_PUBLISHABLE, bool(answer.whole_range)),
        (Note.AT_A_BOUND, bool(answer.low_at_bound ^ answer.high_at_bound)),
        (Note.UNINFORMATIVE, says_little(facts.expected_units / groups, q, facts.epsilon)),
        (Note.NO_ESTIMATE, bool(np.isnan(answer.estimate))),
    )
    return tuple(text for text, flag in rules if flag)
