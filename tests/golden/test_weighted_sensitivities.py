"""Sensitivities of weighted totals and the variance of a Poisson mean: figures from two papers, and every small case.

28, 30, 200, 69 and 10 follow Bailie and Drechsler, sections 4.3 to 4.5.2; with a fixed frame the largest difference is over
all pairs of unit and value, which may be more than the largest weight times the range. The variance is that of a
Horvitz-Thompson mean with Laplace noise at the epsilon that amplification allows. No figure was made by this package.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue
from dpsurvey.mechanism.laplace import Laplace
from dpsurvey.statistic.facts import Facts
from dpsurvey.statistic.weighted_total import weighted_total_sensitivity
from dpsurvey_papers.whose_data.weights import stratified_total_sensitivity

pytestmark = pytest.mark.quick

Range = tuple[float, float]
WEIGHTS = (2.0, 5.0, 10.0)
STRATA: dict[str, tuple[float, Range]] = {"a": (4.0, (0.0, 1.0)), "b": (20.0, (10.0, 12.0)), "c": (2.0, (0.0, 100.0))}
BOUNDS: tuple[Range, ...] = ((1.0, 3.0), (-1.0, 2.0), (0.0, 1.0), (-4.0, -1.0), (-3.0, 0.0), (1.0, 1.0))


def test_the_figures_of_weighted_totals() -> None:
    assert weighted_total_sensitivity(WEIGHTS, (1.0, 3.0)) == 28.0
    assert weighted_total_sensitivity(WEIGHTS, (-1.0, 2.0)) == 30.0
    assert stratified_total_sensitivity(STRATA) == 200.0
    assert weighted_total_sensitivity((1.0, 6.0), (-1.0, 3.0), frame="free", n=4) == 69.0
    assert weighted_total_sensitivity(WEIGHTS, (1.0, 1.0), neighbours="add-remove") == 10.0


def grid(bounds: Range) -> np.ndarray:
    return np.unique(np.linspace(*bounds, 5))


@pytest.mark.parametrize("bounds", BOUNDS)
def test_with_a_fixed_frame_no_unit_and_value_moves_the_total_further_and_some_move_as_far(bounds: Range) -> None:
    """A record is any unit of the frame with any value; the rest of the sample is the same in both."""
    rest = [sum(w * x for w, x in zip(WEIGHTS, each, strict=True)) for each in itertools.product(grid(bounds), repeat=3)]
    expanded = np.multiply.outer(np.array(WEIGHTS), grid(bounds)).ravel()
    added = max(abs((total + one) - total) for total in rest for one in expanded)
    replaced = max(abs((total + one) - (total + two)) for total in rest for one in expanded for two in expanded)
    assert added == pytest.approx(weighted_total_sensitivity(WEIGHTS, bounds, neighbours="add-remove"), rel=1e-12)
    assert replaced == pytest.approx(weighted_total_sensitivity(WEIGHTS, bounds), rel=1e-12)


def test_the_largest_weight_times_the_range_is_too_little() -> None:
    assert weighted_total_sensitivity(WEIGHTS, (1.0, 3.0)) > max(WEIGHTS) * (3.0 - 1.0)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize(("weights", "bounds"), [((1.0, 6.0), (-1.0, 3.0)), ((2.0, 3.0), (1.0, 2.0)), ((1.0, 4.0), (-2.0, -1.0))])
def test_with_a_free_frame_no_sample_moves_the_total_further_and_some_move_as_far(weights: Range, bounds: Range, n: int) -> None:
    """All pairs of samples of n values that differ in one of them, each with any weights at all."""
    values = np.array(list(itertools.product((bounds[0], sum(bounds) / 2.0, bounds[1]), repeat=n)))
    chosen = np.array(list(itertools.product((weights[0], sum(weights) / 2.0, weights[1]), repeat=n)))
    totals = values @ chosen.T
    apart = (values[:, None, :] != values[None, :, :]).sum(axis=-1) <= 1
    gaps = totals.max(axis=1)[:, None] - totals.min(axis=1)[None, :]
    stated = weighted_total_sensitivity(weights, bounds, frame="free", n=n)
    assert gaps[apart].max() == pytest.approx(stated, rel=1e-12)
    # Power: with one more value allowed to differ the bound is broken.
    wider = (values[:, None, :] != values[None, :, :]).sum(axis=-1) <= 2
    assert n == 1 or gaps[wider].max() > stated


def test_inside_its_stratum_no_record_moves_a_stratified_total_further_and_some_move_as_far() -> None:
    moves = {
        stratum: max(abs(weight * one - weight * two) for one in grid(bounds) for two in grid(bounds))
        for stratum, (weight, bounds) in STRATA.items()
    }
    assert moves == {"a": 4.0, "b": 40.0, "c": 200.0}
    assert max(moves.values()) == stratified_total_sensitivity(STRATA)
    # A record that could change its stratum would move the total further: 20 times 12 less 2 times 0.
    assert max(w * high for w, (_, high) in STRATA.values()) - 0.0 > stratified_total_sensitivity(STRATA)


def test_with_a_free_frame_a_record_more_or_less_has_no_bound() -> None:
    with pytest.raises(BadValue, match="one public size"):
        weighted_total_sensitivity((1.0, 6.0), (-1.0, 3.0), neighbours="add-remove", frame="free", n=4)


VARIANCE = 0.016978181986288275
SIZE, ONES, RATE = 100, 40, 0.2


def test_the_variance_of_a_poisson_mean_is_that_of_its_draw_plus_noise_at_the_inverted_epsilon() -> None:
    design, setting = ds.poisson(RATE), ds.Setting("frame", neighbours="add-remove")
    epsilon = design.invert(ds.Budget(1.0), setting).epsilon(0.0)
    assert epsilon == pytest.approx(math.log1p(math.expm1(1.0) / RATE), rel=1e-9)
    # The draw: every number of ones that may be drawn, with its chance.
    drawn = np.arange(ONES + 1)
    chances = np.array([math.comb(ONES, k) * RATE**k * (1.0 - RATE) ** (ONES - k) for k in drawn])
    means = drawn / (RATE * SIZE)
    draw = float(chances @ means**2 - (chances @ means) ** 2)
    noise = weighted_total_sensitivity((1.0 / RATE,), (0.0, 1.0), neighbours="add-remove") / SIZE
    assert draw + 2.0 * (noise / epsilon) ** 2 == pytest.approx(VARIANCE, rel=1e-9)


def test_the_plan_of_a_poisson_mean_expects_that_variance() -> None:
    frame, setting = ds.Frame("frame.parquet", unit="id", size=SIZE), ds.Setting("frame", neighbours="add-remove")
    statistic = ds.mean("y", (0, 1), expect=(ONES / SIZE, math.sqrt(0.24)), estimator="horvitz-thompson")
    survey = ds.Survey(frame, ds.poisson(RATE), setting, budget=ds.Budget(1.0), ledger="poisson.ledger")
    row = survey.plan(statistic).predictions[0]
    # Rounding to the lattice and noise in whole steps take a few parts in a million.
    assert row["se"] ** 2 == pytest.approx(VARIANCE, rel=1e-5)
    # The sums that this rests on: one record moves them by one, in steps.
    facts = Facts(frame, ds.poisson(RATE).resolve(frame), "add-remove", Laplace.norm)
    query = statistic.query(facts)
    assert query.sensitivity("add-remove", "L1") == query.steps + 2
