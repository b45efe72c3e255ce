"""Sensitivities of order statistics and the distance of propose-test-release, against every data set on small grids.

A data set is a sorted tuple of grid values; its neighbours replace one value. Distances are counted by walking from neighbour
to neighbour, so nothing here uses the formulas that are tested.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsurvey.errors import BadData, BadValue
from dpsurvey.mechanism.order_statistic import (
    Place,
    global_sensitivity,
    local_sensitivities,
    padded_window,
    reach_for_floor,
    smooth_sensitivity,
    value_at,
    window_ranks,
    windowed_smooth_sensitivity,
)
from dpsurvey.mechanism.propose_test_release import distance_to_larger
from tests.truth.smooth_by_distance import smooth_sensitivity_by_distance

pytestmark = pytest.mark.quick

Data = tuple[float, ...]
# Uneven gaps, so that no two formulas agree by accident.
GRIDS = {1: (0, 1, 3, 4, 9), 2: (0, 1, 3, 4, 9), 3: (0, 1, 3, 4, 9), 4: (0, 2, 3, 7), 5: (0, 1, 5, 7)}
BETAS = (0.05, 0.4, 1.3)


def places(size: int) -> list[Place]:
    single = [Place.rank(rank, size) for rank in range(1, size + 1)]
    return single + [Place(rank, rank + 1, size) for rank in range(1, size)]


CASES = [pytest.param(place, id=f"{place.lower}-{place.upper} of {place.size}") for size in GRIDS for place in places(size)]


@cache
def world(size: int) -> tuple[Data, ...]:
    return tuple(itertools.combinations_with_replacement(GRIDS[size], size))


@cache
def neighbours(data: Data) -> frozenset[Data]:
    grid = GRIDS[len(data)]
    return frozenset(
        tuple(sorted((*data[:i], value, *data[i + 1 :]))) for i in range(len(data)) for value in grid if value != data[i]
    )


def statistic(data: Data, place: Place) -> float:
    return (data[place.lower - 1] + data[place.upper - 1]) / 2


@cache
def local(data: Data, place: Place) -> float:
    return max(abs(statistic(data, place) - statistic(other, place)) for other in neighbours(data))


@cache
def by_distance(data: Data, place: Place) -> tuple[float, ...]:
    """The largest local sensitivity within 0, 1, ..., n changed records."""
    seen, edge, found = {data}, {data}, [local(data, place)]
    for _ in range(len(data)):
        edge = {other for each in edge for other in neighbours(each)} - seen
        seen |= edge
        found.append(max([found[-1], *(local(each, place) for each in edge)]))
    assert seen == set(world(len(data)))
    return tuple(found)


def window_of(data: Data, place: Place, reach: int) -> np.ndarray:
    first, last = window_ranks(place, reach)
    return padded_window(data[first - 1 : last], place, reach, GRIDS[place.size][0], GRIDS[place.size][-1])


def pairs(size: int) -> Iterator[tuple[Data, Data]]:
    return ((data, other) for data in world(size) for other in neighbours(data))


@pytest.mark.parametrize("place", CASES)
def test_local_sensitivity_at_every_distance_is_that_of_all_data_sets_within_it(place: Place) -> None:
    for data in world(place.size):
        truth = by_distance(data, place)
        for reach in range(1, place.size + 2):
            window = window_of(data, place, reach)
            assert local_sensitivities(window, place).tolist() == list(truth[:reach])
            assert value_at(window, place) == statistic(data, place)


@pytest.mark.parametrize("place", CASES)
def test_global_sensitivity_is_the_largest_local_one(place: Place) -> None:
    grid = GRIDS[place.size]
    assert global_sensitivity(place, grid[0], grid[-1]) == max(local(data, place) for data in world(place.size))


@pytest.mark.parametrize("place", CASES)
@pytest.mark.parametrize("beta", BETAS)
def test_smooth_sensitivity_by_either_algorithm_is_the_maximum_over_all_data_sets_and_is_smooth(
    place: Place, beta: float
) -> None:
    grid = GRIDS[place.size]
    found = {data: smooth_sensitivity(data, place, beta, grid[0], grid[-1]) for data in world(place.size)}
    for data, smooth in found.items():
        truth = max(math.exp(-beta * k) * largest for k, largest in enumerate(by_distance(data, place)))
        assert smooth == pytest.approx(truth, rel=1e-12)
        assert smooth_sensitivity_by_distance(data, place, beta, grid[0], grid[-1]) == pytest.approx(truth, rel=1e-12)
        assert smooth >= local(data, place)
    assert all(found[data] <= math.exp(beta) * found[other] * (1 + 1e-12) for data, other in pairs(place.size))


@pytest.mark.parametrize("place", CASES)
@pytest.mark.parametrize("beta", BETAS)
def test_smooth_sensitivity_from_a_window_is_smooth_and_as_large_as_it_says(place: Place, beta: float) -> None:
    grid = GRIDS[place.size]
    span = grid[-1] - grid[0]
    for reach in range(1, place.size + 2):
        found = {data: windowed(data, place, reach, beta) for data in world(place.size)}
        rest = math.exp(-reach * beta) * span / place.parts
        for data, smooth in found.items():
            whole = max(math.exp(-beta * k) * largest for k, largest in enumerate(by_distance(data, place)))
            assert whole * (1 - 1e-12) <= smooth <= max(whole, rest) * (1 + 1e-12)
        assert all(found[data] <= math.exp(beta) * found[other] * (1 + 1e-12) for data, other in pairs(place.size))


def windowed(data: Data, place: Place, reach: int, beta: float) -> float:
    span = GRIDS[place.size][-1] - GRIDS[place.size][0]
    return float(windowed_smooth_sensitivity(window_of(data, place, reach), place, beta, span))


def test_neither_the_local_sensitivity_nor_a_window_with_a_rest_one_rank_too_far_is_smooth() -> None:
    place, beta, span, reach = Place.median(5), 0.05, 7, 1
    late = math.exp(-(reach + 1) * beta) * span
    assert any(local(data, place) > math.exp(beta) * local(other, place) for data, other in pairs(5))
    assert any(max(local(data, place), late) > math.exp(beta) * max(local(other, place), late) for data, other in pairs(5))


@pytest.mark.parametrize("place", CASES)
def test_the_distance_to_a_larger_sensitivity_is_the_number_of_records_to_change_and_moves_by_one(place: Place) -> None:
    for bound in (0, 0.5, 1, 2, 3, 4.5, 5, 7, 9):
        for reach in (1, 2, place.size + 1):
            found = {data: int(distance_to_larger(window_of(data, place, reach), place, bound)) for data in world(place.size)}
            for data, distance in found.items():
                exceeding = [k for k, largest in enumerate(by_distance(data, place)) if largest > bound]
                assert distance == min([reach, *exceeding])
            assert all(abs(found[data] - found[other]) <= 1 for data, other in pairs(place.size))


VALUES = st.lists(st.integers(0, 40) | st.floats(0.0, 40.0), min_size=1, max_size=60)


@given(VALUES, st.floats(1e-6, 3.0), st.data(), st.sampled_from([0.0, -1e9, 1e6]))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_the_two_algorithms_and_a_wide_window_agree(values: list[float], beta: float, data: st.DataObject, offset: float) -> None:
    ordered = np.sort(np.array(values)) + offset
    place = data.draw(st.sampled_from(places(len(values))))
    low, high = offset - data.draw(st.integers(0, 5)), offset + 40 + data.draw(st.integers(0, 5))
    slow = smooth_sensitivity_by_distance(ordered, place, beta, low, high)
    assert smooth_sensitivity(ordered, place, beta, low, high) == pytest.approx(slow, rel=1e-12)
    reach = len(values) + 1
    first, last = window_ranks(place, reach)
    window = padded_window(ordered[first - 1 : last], place, reach, low, high)
    assert windowed_smooth_sensitivity(window, place, beta, high - low) == pytest.approx(slow, rel=1e-12)


@pytest.mark.parametrize("beta", [1e-4, 1e-3, 0.02])
def test_the_two_algorithms_agree_on_two_thousand_skewed_values(beta: float) -> None:
    values = np.sort(np.exp(np.random.default_rng(5).normal(5.0, 0.5, 2001)).clip(0.0, 2000.0))
    for place in (Place.median(2001), Place.rank(1, 2001), Place.rank(1900, 2001), Place(7, 8, 2001)):
        slow = smooth_sensitivity_by_distance(values, place, beta, 0.0, 2000.0)
        assert smooth_sensitivity(values, place, beta, 0.0, 2000.0) == pytest.approx(slow, rel=1e-12)


def test_a_million_values_take_time_in_proportion_and_equal_gaps_have_the_closed_form() -> None:
    seconds = {}
    for size in (1001, 10_001, 100_001, 1_000_001):
        beta = 5.0 / size
        ordered = np.arange(1, size + 1)
        start = time.process_time()
        found = smooth_sensitivity(ordered, Place.median(size), beta, 0, size + 1)
        seconds[size] = time.process_time() - start
        # Equal gaps: the largest (k + 1) e^(-k beta) over whole k.
        steps = np.arange(1, size + 1)
        assert found == pytest.approx(float((steps * np.exp(-beta * (steps - 1))).max()), rel=1e-10)
    # Ten times the values in far less than the hundred times that quadratic work would take.
    assert seconds[1_000_001] < 40 * max(seconds[100_001], 0.02)


def test_values_that_are_all_equal_for_longer_than_floats_reach_leave_a_positive_bound() -> None:
    same = np.full(5001, 3.0)
    assert 0.0 < smooth_sensitivity(same, Place.median(5001), 0.5, 0.0, 10.0) < 1e-300


def test_many_groups_at_once_are_each_group_by_itself() -> None:
    place, generator = Place.median(8), np.random.default_rng(3)
    groups = np.sort(generator.integers(0, 30, (4, 3, 8)), axis=-1)
    first, last = window_ranks(place, 3)
    together = padded_window(groups[..., first - 1 : last], place, 3, 0, 30)
    smooth, distance = windowed_smooth_sensitivity(together, place, 0.3, 30), distance_to_larger(together, place, 4)
    assert smooth.shape == distance.shape == (4, 3)
    for i, j in np.ndindex(4, 3):
        alone = padded_window(groups[i, j, first - 1 : last], place, 3, 0, 30)
        assert smooth[i, j] == windowed_smooth_sensitivity(alone, place, 0.3, 30)
        assert distance[i, j] == distance_to_larger(alone, place, 4)


@given(st.floats(1e-4, 3.0), st.floats(1.0, 1e9), st.floats(1e-6, 1e3), st.sampled_from([Place.median(9), Place.median(10)]))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_the_reach_for_a_floor_is_the_least_that_hides_nothing_above_it(
    beta: float, span: float, floor: float, place: Place
) -> None:
    reach = reach_for_floor(place, beta, span, floor)
    assert math.exp(-reach * beta) * span / place.parts <= floor
    assert reach == 1 or math.exp(-(reach - 1) * beta) * span / place.parts > floor * (1 - 1e-9)


@pytest.mark.parametrize("values", [[3, 2, 1], [0, 1, 11], [-1, 1, 2], [1, 2], [1.0, math.nan, 3.0]])
def test_values_that_break_the_declared_order_bounds_or_size_are_refused_without_naming_them(values: list[float]) -> None:
    with pytest.raises(BadData) as refusal:
        smooth_sensitivity(values, Place.median(3), 0.5, 0, 10)
    assert not any(character.isdigit() for character in str(refusal.value))


@pytest.mark.parametrize("ranks", [(0, 0, 3), (4, 4, 3), (1, 3, 3), (3, 4, 3), (2, 1, 3)])
def test_a_place_that_no_data_have_is_refused(ranks: tuple[int, int, int]) -> None:
    with pytest.raises(BadValue, match="place"):
        Place(*ranks)


@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf, math.nan])
def test_a_beta_that_bounds_nothing_is_refused(beta: float) -> None:
    with pytest.raises(BadValue, match="beta"):
        smooth_sensitivity([1, 2, 3], Place.median(3), beta, 0, 10)
