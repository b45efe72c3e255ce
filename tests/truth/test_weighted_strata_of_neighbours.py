"""A stratified mean with weighted squares: its three sums together move by no more than their noise was calibrated to.

One record is replaced inside its stratum, in every way over small data sets; sums are the engine's and nothing is random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue
from dpsurvey.mechanism import MECHANISMS
from dpsurvey.mechanism.base import Norm
from dpsurvey.mechanism.laplace import Laplace
from dpsurvey.mechanism.weighted_strata import THIRD, WeightedStrata
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.statistic import Statistic
from tests.truth import neighbouring as held

pytestmark = pytest.mark.quick

Record, REGIONS = held.Record, held.REGIONS
CHARGES = {"L1": PrivacyProfile.pure(1.0, "replace-one"), "L2": PrivacyProfile.zcdp(0.5, "replace-one")}
NOISE = {"L1": "laplace", "L2": "gaussian"}
OWN = {"north": (0.0, 1.0), "south": (-2.0, 3.0)}
STATISTICS: list[Statistic] = [
    ds.mean("y", (0, 1), estimator="weighted-pooled"),
    ds.total("y", OWN, estimator="weighted-pooled"),
]
GOLDEN = (1.0 + 5.0**0.5) / 2.0


def calibrated(statistic: Statistic, norm: Norm, takes: dict[str, int]) -> tuple[WeightedStrata, Any]:
    design = ds.stratified("region", within={region: ds.srs(take) for region, take in takes.items()})
    facts = held.facts_of(design, "replace-one", norm)
    query = statistic.query(facts)
    mechanism = statistic.calibrate(query, CHARGES[norm], facts, MECHANISMS[NOISE[norm]], 0.0)
    assert isinstance(mechanism, WeightedStrata)
    return mechanism, query


@pytest.mark.parametrize("norm", held.NORMS)
@pytest.mark.parametrize("takes", [{"north": 3, "south": 2}, {"north": 2, "south": 6}, {"north": 4, "south": 40}], ids=str)
@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda each: each.name)
def test_three_sums_move_no_further_together_than_their_noise_supposes(
    statistic: Statistic, takes: dict[str, int], norm: Norm
) -> None:
    mechanism, query = calibrated(statistic, norm, takes)
    largest = 0.0
    for place, region in enumerate(REGIONS):
        low, high = OWN[region] if statistic.kind == "total" else (0.0, 1.0)
        parts = (0.0, 1e-7, 1 / 3, 1 / GOLDEN, 1 - 1 / GOLDEN, 0.999, 1.0, 1.5)
        rest = [Record(region=each, y=0.3) for each in REGIONS]
        worlds = [[*rest, Record(region=region, y=low + (high - low) * part)] for part in parts]
        sums = held.Worlds(worlds).sums(query).reshape(len(worlds), len(REGIONS), -1)
        exact = np.array([mechanism.exact(rows.tolist()) for rows in sums], dtype=np.float64)
        assert np.array_equal(exact, np.rint(exact))
        gaps = np.abs(exact[:, None, :] - exact[None, :, :])
        apart = gaps.sum(axis=-1) if norm == "L1" else np.sqrt((gaps**2).sum(axis=-1))
        largest = max(largest, float(apart.max()))
        # Each stratum by itself moves them by no more than its part, and by nearly as much.
        own = mechanism.parts[place] * mechanism.sensitivity
        assert 0.99 * own <= apart.max() <= own * (1.0 + 1e-15)
    assert largest <= mechanism.sensitivity
    # Attained but for rounding; so without the third sum it would be too little.
    assert largest >= mechanism.sensitivity * (1.0 - 1e-4)


def test_weighted_squares_are_free_and_the_third_sum_costs_its_weight() -> None:
    mechanism, query = calibrated(STATISTICS[0], "L1", {"north": 4, "south": 40})
    # In the stratum that is taken whole nothing varies.
    assert mechanism.squares[1] == 0
    assert mechanism.sensitivity == pytest.approx(max(mechanism.steps) * query.steps * (1.0 + THIRD), rel=1e-5)


@pytest.mark.parametrize("norm", held.NORMS)
def test_the_variance_that_is_read_is_that_of_the_formula(norm: Norm) -> None:
    """Without noise: the sum of a^2 (1-f) (y - m)^2 over the sample, from the three sums."""
    takes = {"north": 3, "south": 2}
    mechanism, query = calibrated(STATISTICS[0], norm, takes)
    y = {"north": [0.1, 0.9, 0.25], "south": [0.5, 0.75]}
    sums = held.Worlds([[Record(region=region, y=each) for region in REGIONS for each in y[region]]]).sums(query).reshape(2, -1)
    exact = np.array([[mechanism.exact(sums.tolist())]])
    sizes = {"north": 60, "south": 40}
    unit = {region: sizes[region] / 100 / takes[region] for region in REGIONS}
    m, bent, linear, _ = mechanism.read(exact, max(unit.values()))
    factor = {
        region: unit[region] ** 2 * (1.0 - takes[region] / sizes[region]) * sizes[region] / (sizes[region] - 1)
        for region in REGIONS
    }
    mean = sum(unit[region] * sum(y[region]) for region in REGIONS)
    squares = sum(factor[region] * (each - mean) ** 2 for region in REGIONS for each in y[region])
    whole = sum(factor[region] * takes[region] for region in REGIONS)
    assert m[0] == pytest.approx(mean, rel=1e-5)
    assert (1.0 - 2.0 * mean) * linear[0] - bent[0] + mean**2 * whole == pytest.approx(squares, rel=1e-4)


def test_a_sample_too_large_for_the_lattice_is_refused() -> None:
    with pytest.raises(BadValue, match="too large"):
        WeightedStrata.calibrate(CHARGES["L1"], Laplace, (10**12, 10**12), (1.0, 1.0), (1.0, 1.0), 2**20, 1.0)
