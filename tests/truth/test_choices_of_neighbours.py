"""Answers that are chosen by scores, or made from order statistics: what neighbours can change in them, summed by the engine.

Histograms and windows come from the engine for every small data set; scores, smooth sensitivities and distances are then
compared between all pairs that differ in one record. Nothing here is random.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.design.base import Design
from dpsurvey.mechanism.exponential import weighted_rank_scores
from dpsurvey.mechanism.laplace import Laplace
from dpsurvey.mechanism.order_statistic import padded_window, value_at, windowed_smooth_sensitivity
from dpsurvey.mechanism.propose_test_release import ProposeTestRelease, distance_to_larger
from dpsurvey.mechanism.ranked import NoisyOrderStatistic, RankChoices, ShareChoices, Targets
from dpsurvey.mechanism.smooth import SmoothLaplace
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import Query
from dpsurvey.statistic.encodings import Window
from dpsurvey.statistic.estimators.order_quantiles import STEPS
from dpsurvey.statistic.estimators.rank_shift import shifted_ranks
from tests.truth import neighbouring as held

pytestmark = pytest.mark.quick

Record, REGIONS = held.Record, held.REGIONS
CHARGE = PrivacyProfile.pure(1.0, Relation.REPLACE_ONE)
Data = tuple[float, ...]


def worlds_of(data: Sequence[Data], records: Callable[[Data], list[Any]]) -> Any:
    return held.Worlds([records(values) for values in data])


def one_apart(data: Sequence[Data]) -> list[tuple[int, int]]:
    """The pairs of data sets that differ in one record, whatever the order of the others."""
    found = []
    for (i, one), (j, two) in itertools.combinations(enumerate(data), 2):
        left = list(two)
        for value in one:
            if value in left:
                left.remove(value)
        if len(left) == 1:
            found.append((i, j))
    return found


def furthest(scores: Sequence[np.ndarray], pairs: Sequence[tuple[int, int]]) -> int:
    return max(int(np.abs(scores[i] - scores[j]).max()) for i, j in pairs)


def cumulated(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    up_to = np.cumsum(row)
    return up_to - row, up_to


def test_scores_of_every_rank_move_by_one_record_and_some_do() -> None:
    facts = held.facts_of(ds.srs(4), Relation.REPLACE_ONE, "L1")
    query = ds.quantile("y", 0.5, (0, 1), leaves=4, method="exponential").query(facts)
    data = list(itertools.combinations_with_replacement((-1.0, 0.1, 0.25, 0.6, 1.0), 4))
    rows = worlds_of(data, lambda values: [Record(y=y) for y in values]).sums(query)
    assert rows.sum(axis=1).tolist() == [4] * len(data)
    choices = RankChoices.calibrate(CHARGE, (Targets((1, 2, 3, 4)),))
    assert choices.sensitivity == 1
    pairs = one_apart(data)
    for rank in (1, 2, 3, 4):
        scores = [np.array(choices.scores(*cumulated(row), rank, choices.targets[0])) for row in rows]
        assert furthest(scores, pairs) == 1
    # Power: two records may move a score by two.
    far = [(i, j) for i, j in itertools.combinations(range(len(data)), 2)]
    assert furthest([np.array(choices.scores(*cumulated(row), 2, choices.targets[0])) for row in rows], far) > 1


def test_scores_of_weighted_ranks_in_strata_move_by_the_largest_weight_and_some_do() -> None:
    design = ds.stratified("region", within={"north": ds.srs(2), "south": ds.srs(2)})
    facts = held.facts_of(design, Relation.REPLACE_ONE, "L1")
    statistic = ds.quantile("y", 0.3, (0, 1), leaves=4, method="exponential")
    query = statistic.query(facts)
    choices = statistic.calibrate(query, CHARGE, facts, Laplace, 0.0)
    assert isinstance(choices, RankChoices)
    assert len(query.lattice) == 2
    values = list(itertools.product((0.1, 0.3, 0.6, 0.9), repeat=4))
    rows = worlds_of(values, lambda four: [Record(region=REGIONS[place // 2], y=y) for place, y in enumerate(four)]).sums(query)
    # A replaced record stays in its stratum, so data sets are compared place by place.
    pairs = [
        (i, j)
        for (i, one), (j, two) in itertools.combinations(enumerate(values), 2)
        if sum(a != b for a, b in zip(one, two, strict=True)) == 1
    ]
    targets = Targets((-query.steps, 0, query.steps), choices.targets[0].total)
    for shift in (-query.steps, 0, query.steps):
        scores = [np.array(choices.scores(*cumulated(row), shift, targets)) for row in rows]
        assert furthest(scores, pairs) == choices.sensitivity
    assert choices.sensitivity == 10 * query.steps


@pytest.mark.parametrize("q", [0.5, 0.95])
@pytest.mark.parametrize("charge", [PrivacyProfile.pure(1.0, "replace-one"), PrivacyProfile.zcdp(0.1, "replace-one")])
def test_only_runs_that_are_made_are_paid_for_and_their_ranks_are_those_of_what_they_have(
    q: float, charge: PrivacyProfile
) -> None:
    seen = set()
    for n in (2, 5, 10, 20, 25, 30, 40, 60, 100, 400):
        facts = replace(held.facts_of(ds.srs(2), Relation.REPLACE_ONE, "L1"), design=ds.srs(n, size=1000))
        statistic = ds.quantile("y", q, (0, 1), leaves=64, method="exponential")
        query = statistic.query(facts)
        made = statistic.calibrate(query, charge, facts, Laplace, 0.0)
        assert isinstance(made, RankChoices)
        (run,), (targets,) = made.runs, made.targets
        whole = charge.curve.to_dict()
        spent = run.epsilon**2 / 8.0 if "rho" in whole else run.epsilon
        # All of the charge is spent on the runs that are made, and no more.
        total = targets.made * spent
        assert 0.999999 * whole.get("rho", whole.get("epsilon")) < total <= whole.get("rho", whole.get("epsilon")) * (1 + 1e-12)
        low, point, high = targets.runs
        assert point == max(1, math.ceil(q * n - 1e-12))
        own = shifted_ranks(n, 1000, q, run.epsilon * (1.0 + 1e-9), 64)
        # An end that is run stands at the rank that its own part of the charge allows.
        assert low in (None, own[0])
        assert high in (None, own[1])
        seen.add(targets.made)
        before = statistic.calibrate(query, charge, replace(facts, as_in_0_8=True), Laplace, 0.0)
        assert isinstance(before, RankChoices)
        assert before.runs[0].epsilon <= run.epsilon * (1.0 + 1e-12)
        assert before.targets[0].made <= targets.made
    assert len(seen) > 1


def test_choices_by_stratum_change_in_one_stratum_only() -> None:
    design = ds.stratified("region", within={"north": ds.srs(2), "south": ds.srs(2)})
    facts = held.facts_of(design, Relation.REPLACE_ONE, "L1")
    query = ds.quantile("y", 0.5, (0, 1), by="region", leaves=4, method="exponential").query(facts)
    assert query.group_is_fixed
    both = [[Record(region=region, y=y) for region in REGIONS for y in (0.1, own)] for own in (0.2, 0.9)]
    mixed = [*both[0][:2], *both[1][2:]]
    before, after = (rows.reshape(2, -1) for rows in held.Worlds([both[0], mixed]).sums(query))
    assert np.array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE_ONE])
@pytest.mark.parametrize(
    ("design", "weights"),
    [
        (ds.poisson(0.1), (1.0,)),
        (collected(weights="weight", weights_are="design"), (2.0, 5.0, 10.0)),
        (ds.stratified("region", within={"north": ds.poisson(0.07), "south": ds.poisson(0.5)}), (1.0,)),
    ],
    ids=["poisson", "file with weights", "unequal rates"],
)
def test_scores_of_shares_of_a_secret_total_move_no_further_than_stated(
    design: Design, weights: tuple[float, ...], relation: Relation
) -> None:
    facts = held.facts_of(design, relation, "L1", weight_range=(2.0, 10.0))
    statistic = ds.clipping_bounds("y", within=(-1.0, 1.0), covering=0.6)
    query = statistic.query(facts)
    choices = statistic.calibrate(query, PrivacyProfile.pure(1.0, relation), facts, Laplace, 0.0)
    assert isinstance(choices, ShareChoices)
    records = [Record(region=region, y=y, weight=w) for region in REGIONS for y in (-1.0, 0.1, 1.0) for w in weights]
    rest = [[], [Record(y=0.1, weight=weights[-1])], [Record(region="south", y=y, weight=weights[0]) for y in (-1.0, 0.1, 0.1)]]
    rows = held.Worlds([*rest, *([*base, record] for base in rest for record in records)]).sums(query)
    joined = [[3 + len(records) * base + index for index in range(len(records))] for base in range(3)]
    if relation == Relation.ADD_REMOVE:
        pairs = [(base, index) for base in range(3) for index in joined[base]]
    else:
        pairs = [pair for base in range(3) for pair in itertools.combinations(joined[base], 2)]
    for run, share in zip(choices.runs, choices.shares, strict=True):
        scores = [weighted_rank_scores(*cumulated(row), int(row.sum()), share) for row in rows]
        assert furthest(scores, pairs) == run.sensitivity
    assert choices.shares == (Fraction(1, 5), Fraction(4, 5))


def window_query(n: int, method: str, q: float = 0.5) -> tuple[Query, NoisyOrderStatistic, Any]:
    facts = held.facts_of(ds.srs(n), Relation.REPLACE_ONE, "L1")
    statistic = ds.quantile("y", q, (0, 8), method=method, proposal=3.0 if method == "propose-test-release" else None)
    query = statistic.query(facts)
    charge = PrivacyProfile.approximate(1.0, 1e-3, Relation.REPLACE_ONE)
    mechanism = statistic.calibrate(query, charge, facts, Laplace, 1e-3)
    assert isinstance(mechanism, NoisyOrderStatistic)
    return query, mechanism, mechanism.places[0]


@pytest.mark.parametrize(("n", "q"), [(5, 0.5), (6, 0.5), (7, 0.9)])
def test_windows_hold_the_order_statistics_of_clipped_and_rounded_values(n: int, q: float) -> None:
    random = np.random.default_rng(n)
    query, mechanism, place = window_query(n, "smooth", q)
    assert isinstance(query.encoding, Window)
    ranks = query.encoding.ranks
    data = [random.choice([-3.0, 0.0, 0.1, 1e-9, 2.5, 7.999, 8.0, 11.0, *random.uniform(0, 8, 3)], n) for _ in range(6)]
    worlds = held.Worlds([[Record(y=float(y)) for y in values] for values in data])
    for index, values in enumerate(data):
        ordered = np.sort(np.floor(np.clip(values, 0.0, 8.0) / 8.0 * STEPS + 0.5)).astype(np.int64)
        wanted = ordered[ranks[0] - 1 : ranks[1]]
        window = worlds.only(index, query)[0]
        assert window.tolist() == wanted.tolist()
        # The place that the mechanism reads is the order statistic itself, in half steps.
        padded = padded_window((2 * window).tolist(), place, mechanism.reach, 0.0, 2.0 * STEPS)
        assert float(value_at(padded, place)) == ordered[place.lower - 1] + ordered[place.upper - 1]


@pytest.mark.parametrize("n", [3, 4])
def test_smooth_noise_and_the_distance_of_the_test_change_by_what_is_stated_between_neighbours(n: int) -> None:
    """Every data set of n values on a small uneven grid, each window read by the engine."""
    data = list(itertools.combinations_with_replacement((0.0, 1.0, 3.5, 8.0), n))
    pairs, worlds = one_apart(data), worlds_of(data, lambda values: [Record(y=y) for y in values])
    query, smooth, place = window_query(n, "smooth")
    tested = window_query(n, "propose-test-release")[1]
    assert isinstance(smooth.how, SmoothLaplace)
    assert isinstance(tested.how, ProposeTestRelease)
    span = 2.0 * STEPS
    windows = [
        padded_window((2 * worlds.only(index, query)[0]).tolist(), place, smooth.reach, 0.0, span) for index in range(len(data))
    ]
    values = [float(value_at(window, place)) for window in windows]
    noise = [max(float(windowed_smooth_sensitivity(w, place, smooth.how.beta, span)), smooth.how.floor) for w in windows]
    distance = [int(distance_to_larger(window, place, tested.how.bound)) for window in windows]
    apart = [abs(values[i] - values[j]) for i, j in pairs]
    ratios = [abs(math.log(noise[i] / noise[j])) for i, j in pairs]
    assert all(gap <= min(noise[i], noise[j]) for gap, (i, j) in zip(apart, pairs, strict=True))
    assert 0.99 * smooth.how.beta <= max(ratios) <= smooth.how.beta * (1.0 + 1e-9)
    assert {abs(distance[i] - distance[j]) for i, j in pairs} == {0, 1}
    # Where the test may pass, no neighbour is further than the proposal; elsewhere some are.
    safe = [gap <= tested.how.bound for gap, (i, j) in zip(apart, pairs, strict=True) if min(distance[i], distance[j]) >= 1]
    assert len(safe) > 0
    assert all(safe)
    assert max(apart) > tested.how.bound
    assert max(apart) <= smooth.sensitivity == span / place.parts
