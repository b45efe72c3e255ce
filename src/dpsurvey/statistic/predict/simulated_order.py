"""Errors to expect of quantiles that are chosen or follow the data: simulated samples, the law of the noise in closed form.

Samples are simulated from published quantiles, or from values spread evenly over the bounds. Given a sample, the choice of the
exponential mechanism and the noise of a smooth sensitivity have known laws, so no noise is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...mechanism.laplace import Laplace
from ...mechanism.many_sensitivities import smooth_sensitivities
from ...mechanism.propose_test_release import ProposeTestRelease
from ...mechanism.ranked import NoisyOrderStatistic, RankChoices
from ...mechanism.smooth import SmoothLaplace
from ..encodings import LeafCounts
from ..estimators.interval import Array
from ..facts import Facts
from ..query import Query
from .published_quantiles import leaf_shares, value_at

if TYPE_CHECKING:
    from ..quantile import Quantile

DRAWS, SEED = 2_000, 20_001
# Values that simulated samples may hold at once.
AT_ONCE = 8_000_000
Errors = tuple[Array, Array]


def chosen_errors(statistic: Quantile, query: Query, facts: Facts, mechanism: RankChoices) -> Errors:
    """(se_sampling, se_noise) of the leaf that the exponential mechanism picks for the estimate, for every group.

    `se_noise` is the root mean square of what the choice adds, its bias included.
    """
    random = np.random.default_rng(SEED)
    assert isinstance(query.encoding, LeafCounts)
    grid = np.asarray(query.encoding.edges)
    middle = 0.5 * (grid[:-1] + grid[1:])
    shares = leaf_shares(statistic.expect, query.encoding.edges)
    steps = dict(query.lattice)
    truth = float(np.interp(statistic.q, np.concatenate([[0.0], np.cumsum(shares)]), grid))
    sampling, noise = [], []
    for group, targets, run in zip(query.groups, mechanism.targets, mechanism.runs, strict=True):
        counts = np.zeros((DRAWS, len(middle)), dtype=np.int64)
        for part in facts.parts:
            if group and part.label != group[0]:
                continue
            one = steps[None] if None in steps else steps[part.label]
            counts += one * _drawn(random, shares, part.take or 0, part.size, part.replaced)
        up_to = np.cumsum(counts, axis=1)
        target = targets.runs[1]
        assert target is not None
        scores = np.asarray(mechanism.scores(up_to - counts, up_to, target, targets), dtype=np.float64)
        law = np.exp((scores - scores.max(axis=1, keepdims=True)) / run.scale)
        law /= law.sum(axis=1, keepdims=True)
        means = law @ middle
        sampling.append(float(np.std(means)))
        # A choice leans to the wide side of a gap, or to the middle of the bounds: its bias counts with its noise.
        bias = float(np.mean(means)) - truth
        noise.append(math.sqrt(max(0.0, float(np.mean(law @ middle**2 - means**2))) + bias**2))
    return np.array(sampling), np.array(noise)


def _drawn(
    random: np.random.Generator, shares: Array, take: int, size: int | None, replaced: bool
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Leaf counts of many samples from a population with these shares."""
    shares = shares / shares.sum()
    if size is None or replaced:
        return np.asarray(random.multinomial(take, shares, size=DRAWS))
    ends = np.round(np.cumsum(shares) * size).astype(np.int64)
    ends[-1] = size
    return np.asarray(random.multivariate_hypergeometric(np.diff(ends, prepend=0), take, size=DRAWS, method="marginals"))


def order_errors(statistic: Quantile, facts: Facts, mechanism: NoisyOrderStatistic) -> Errors:
    """(se_sampling, se_noise) of one noisy order statistic; not a number where the proposal of a test decides."""
    place, how = mechanism.places[0], mechanism.how
    low, high = statistic.bounds
    part = facts.parts[0]
    random = np.random.default_rng(SEED)
    draws = max(50, min(DRAWS, AT_ONCE // place.size))
    left = 1.0 if part.replaced or not part.size else math.sqrt(max(0.0, 1.0 - place.size / part.size))
    values, scales = [], []
    for start in range(0, draws, max(1, AT_ONCE // place.size)):
        count = min(max(1, AT_ONCE // place.size), draws - start)
        ranks = np.sort(random.random((count, place.size)), axis=1)
        # Without replacement the quantile moves less, by the correction for a finite population; the gaps stay.
        centre = ranks[:, place.lower - 1, None]
        shifted = np.clip(ranks + (left - 1.0) * (centre - statistic.q), 0.0, 1.0)
        ordered = value_at(statistic.expect, shifted, low, high)
        values.append(ordered[:, place.lower - 1 : place.upper].mean(axis=1))
        if isinstance(how, SmoothLaplace):
            found = smooth_sensitivities(ordered, place, how.beta, low, high)
            # The floor is in half steps of the lattice between the bounds.
            least = how.floor * (high - low) / (2.0 * mechanism.span)
            scales.append(np.maximum(found, least) / how.alpha)
    sampling = float(np.std(np.concatenate(values)))
    step = (high - low) / (2.0 * mechanism.span)
    if isinstance(how, SmoothLaplace):
        noise = math.sqrt(2.0 * float(np.mean(np.concatenate(scales) ** 2)))
    elif isinstance(how, Laplace):
        noise = math.sqrt(how.variance) * step
    else:
        assert isinstance(how, ProposeTestRelease)
        # Where the test passes; how often it does depends on the data.
        noise = math.sqrt(2.0) * how.bound / how.release_epsilon * step
    return np.array([sampling]), np.array([noise])
