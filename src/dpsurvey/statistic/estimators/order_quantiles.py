"""Quantiles by choice on a grid, and the medians of paper 000: what is asked, how it is hidden, what is published."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ...errors import BadValue
from ...mechanism.base import Answering
from ...mechanism.laplace import Laplace
from ...mechanism.order_statistic import Place, global_sensitivity, reach_for_floor
from ...mechanism.propose_test_release import ProposeTestRelease
from ...mechanism.ranked import NO_RUN, NoisyOrderStatistic, RankChoices, Targets, one_rank_or_two
from ...mechanism.smooth import SmoothLaplace
from ...privacy.budget import amount
from ...privacy.measure import counted
from ...privacy.profile import PrivacyProfile
from ..base import Estimates
from ..encodings import LeafCounts, Window
from ..facts import Facts
from ..noisy_sums import NoisySums
from ..notes import Note
from ..query import Query
from .fixed_size import FixedSizes, sizes_of
from .interval import Array, Z
from .rank_shift import interval_of_ends, shifted_ranks, shifted_weights
from .woodruff import fixed_size_variance, sampled_weight

if TYPE_CHECKING:
    from ..quantile import Quantile

METHODS = ("auto", "tree", "exponential", "laplace", "smooth", "smooth-as-printed", "propose-test-release")
# Methods with noise that depends on the data, so that a part of the guarantee is a delta.
NEED_DELTA = ("smooth", "smooth-as-printed", "propose-test-release")
# A lattice of 2^20 steps between the bounds, and noise never calibrated to less than 2^4 of them.
STEPS, FLOOR = 2**20, 2**4
# No window is wider than this, whatever the floor: what it cannot see is then paid for as larger noise.
WIDEST = 20_000
ENDLESS = 10**12


def calibrate_choice(
    statistic: Quantile, query: Query, encoding: LeafCounts, charge: PrivacyProfile, facts: Facts
) -> RankChoices:
    """The exponential mechanism for the estimate and for both ends, an equal part of the charge each, the ends at shifted ranks.

    An end that no rank would do for is the public bound; the other runs divide what it would have cost. Which ends those are
    follows from public figures alone.
    """
    find = _targets_at if facts.as_in_0_8 else _fewest_targets
    targets = tuple(find(query, encoding.leaves, statistic.q, charge, sizes_of(facts, group)) for group in query.groups)
    share = Fraction(statistic.q).limit_denominator(10**6) if len(query.lattice) > 1 else None
    return RankChoices.calibrate(charge, targets, share, query.steps, all_places=facts.as_in_0_8)


def _fewest_targets(query: Query, leaves: int, q: float, charge: PrivacyProfile, sizes: FixedSizes) -> Targets:
    """The targets of one row where the charge is divided among as many runs as are made."""
    three = _targets_at(query, leaves, q, charge, sizes)
    if three.made == 3:
        return three
    low, point, high = _targets_at(query, leaves, q, charge, sizes, runs=2).runs
    if low is not None and high is not None:
        # Half of the charge would find both ends, a third of it does not: the one that a third finds, or that of the larger side.
        keep_low = three.runs[0] is not None or (three.runs[2] is None and q >= 0.5)
        low, high = (low, None) if keep_low else (None, high)
    return Targets((low, point, high), three.total)


def _targets_at(query: Query, leaves: int, q: float, charge: PrivacyProfile, sizes: FixedSizes, runs: int = 3) -> Targets:
    """The estimate and both ends of one row, each with one of so many equal parts of the charge."""
    part = amount(charge) / runs
    epsilon_run = math.sqrt(8.0 * part) if counted(charge)[0].needs_delta else part
    if len(query.lattice) == 1:
        # With replacement the counts are binomial: those of a population without end.
        finite = bool(np.all(sizes.rates > 0.0))
        n, size = int(sizes.n), round(float((sizes.takes / sizes.rates).sum())) if finite else ENDLESS
        low, high = shifted_ranks(n, size, q, epsilon_run, leaves)
        return Targets((low, max(1, math.ceil(q * n - 1e-12)), high))
    total = sampled_weight(sizes)
    ends = shifted_weights(total, q, fixed_size_variance(q, sizes), epsilon_run, 1.0, leaves)
    first, last = (None if at is None else round((at - q * total) * query.steps) for at in ends)
    whole = sum(int(take) * steps for take, (_, steps) in zip(sizes.takes, query.lattice, strict=True))
    return Targets((first, 0, last), whole)


def chosen_numbers(noisy: NoisySums, encoding: LeafCounts) -> Estimates:
    """The estimate in the middle of its leaf; the interval from the outer edges of the leaves of its ends."""
    grid, chosen = np.asarray(encoding.edges), noisy.sums
    bounds = (float(grid[0]), float(grid[-1]))
    rows, whole = [], []
    for low, middle, high in chosen.astype(int).reshape(-1, 3):
        first, last, _, _ = interval_of_ends(
            None if low == NO_RUN else float(grid[low]), None if high == NO_RUN else float(grid[high + 1]), bounds
        )
        point = 0.5 * (grid[middle] + grid[middle + 1])
        rows.append((point, min(first, grid[middle]), max(last, grid[middle + 1])))
        whole.append(first <= bounds[0] and last >= bounds[1])
    estimate, first_ends, last_ends = (np.array(each) for each in zip(*rows, strict=True))
    shape = (*chosen.shape[:-2], len(noisy.query.groups))
    error = (last_ends - first_ends) / (2.0 * Z)
    return Estimates(
        estimate.reshape(shape),
        error.reshape(shape),
        np.zeros(shape),
        first_ends.reshape(shape),
        last_ends.reshape(shape),
        tuple((Note.NOT_PUBLISHABLE,) if each else () for each in whole) if len(shape) == 1 else (),
        "exponential mechanism at shifted ranks",
        whole_range=np.array(whole).reshape(shape),
    )


def expected_answer(statistic: Quantile, query: Query, mechanism: Answering) -> Array:
    """What the mechanism would answer if values were spread evenly over their bounds."""
    if not isinstance(mechanism, RankChoices):
        return np.array([[1.0, statistic.q * 2.0 * STEPS]])
    assert isinstance(query.encoding, LeafCounts)
    leaves = query.encoding.leaves
    rows = []
    for targets in mechanism.targets:
        # Ranks are counted from the point estimate's own; weighted targets are shifts from the share.
        size = targets.total or (targets.runs[1] or 1) / statistic.q
        base = statistic.q if mechanism.share is not None else 0.0
        at = [NO_RUN if run is None else int(np.clip((base + run / size) * leaves, 0, leaves - 1)) for run in targets.runs]
        rows.append(at)
    return np.asarray(rows, dtype=np.float64)


def order_query(statistic: Quantile, facts: Facts) -> Query:
    """The order statistics around the quantile that its noise depends on."""
    if statistic.by:
        raise BadValue("these medians are for the whole sample", hint='method="tree" serves groups')
    taken = facts.parts[0].take
    if len(facts.parts) > 1 or taken is None:
        raise BadValue("these medians are for simple random samples", hint='method="tree" serves strata and weights')
    place = one_rank_or_two(statistic.q, taken)
    # As if all of the budget were spent on it; a smaller share has a smaller beta and sees less of what it might.
    reach = (
        1
        if statistic.method == "laplace"
        else min(WIDEST, taken, reach_for_floor(place, facts.epsilon / 60.0, 2.0 * STEPS, 2.0 * FLOOR))
    )
    ranks = (max(1, place.lower - reach), min(taken, place.upper + reach))
    return statistic._query(facts, Window(ranks, reach), STEPS, weighted=False, bounds=statistic.bounds)


def calibrate_order(
    statistic: Quantile, window: Window, charge: PrivacyProfile, facts: Facts, delta: float
) -> NoisyOrderStatistic:
    """The noise of one of the medians of paper 000."""
    taken = facts.parts[0].take
    assert taken is not None
    place = one_rank_or_two(statistic.q, taken)
    if charge.curve.kind != "approximate":
        raise BadValue("these medians are charged in epsilon and delta", hint='plan(..., noise="laplace")')
    epsilon, span = amount_of(charge), 2 * STEPS
    if statistic.method == "laplace":
        how: Laplace | SmoothLaplace | ProposeTestRelease = Laplace.calibrate(
            charge, global_sensitivity(place, 0.0, float(span)) + 1.0
        )
    elif not delta > 0.0:
        raise BadValue(f"the method {statistic.method!r} needs a delta", hint="Budget(epsilon, delta)")
    elif statistic.method == "smooth":
        how = SmoothLaplace.calibrate(epsilon, delta, span=span, floor=FLOOR)
    elif statistic.method == "smooth-as-printed":
        how = SmoothLaplace.as_printed(epsilon, delta, span=span, floor=FLOOR)
    else:
        low, high = statistic.bounds
        bound = max(1, math.ceil((statistic.proposal or 0.0) / (high - low) * span))
        how = ProposeTestRelease.calibrate(epsilon, delta, bound=bound)
    return NoisyOrderStatistic((place,), window.reach, STEPS, how)


def amount_of(charge: PrivacyProfile) -> float:
    """The epsilon of an (epsilon, delta) charge."""
    return float(charge.curve.at_epsilon)  # type: ignore[attr-defined]


def order_numbers(noisy: NoisySums, bounds: tuple[float, float]) -> Estimates:
    """The noisy value within the bounds. Its error depends on the data, so the interval is the whole public range."""
    low, high = bounds
    released, value = noisy.sums[..., 0, 0] > 0.5, noisy.sums[..., 0, 1] / (2.0 * STEPS)
    estimate = np.where(released, low + (high - low) * np.clip(value, 0.0, 1.0), np.nan)[..., None]
    unknown = np.full_like(estimate, np.nan)
    note = (Note.POINT_ONLY,) if np.ndim(released) or bool(released) else (Note.POINT_ONLY, Note.TEST_FAILED)
    ends = np.full_like(estimate, low), np.full_like(estimate, high)
    return Estimates(estimate, unknown, unknown, *ends, (note,) if estimate.ndim == 1 else (), "point estimate, whole range")


__all__ = ["METHODS", "Place", "calibrate_choice", "calibrate_order", "chosen_numbers", "order_numbers", "order_query"]
