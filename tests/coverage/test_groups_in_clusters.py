"""Groups that lie in some of the clusters have intervals that cover, and more epsilon never makes one wider.

Files are simulated: clusters with levels of their own, and noise by numpy at the scale of the plan, with fixed seeds. Limits of
coverage are such that 95 % or more would be missed with probability below 1e-6 (exact binomial).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

import dpsurvey as ds
from tests.coverage import clusters as files

SURVEYS, STRATA, EACH = 200, 32, 25
REGIONS = ["north", "south", "west", "east"]
EPSILONS = (0.3, 1.0, 3.0, 10.0, 100.0, 1e6)
TRUTH = 0.5
FALSE_ALARM = 1e-6
MEANS = ds.mean("y", bounds=(0, 1), by="region")
SHARES = ds.proportion("y", "yes", by="region")
COUNTS = ds.count("y", "yes", by="region")


def a_file(yes_or_no: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(region, cell, y) of surveys of 32 strata with two clusters each; a region is eight of the strata."""
    random = np.random.default_rng(32)
    levels = random.normal(0.0, 0.08, (SURVEYS, STRATA * 2)).repeat(EACH, axis=1)
    if yes_or_no:
        y = (random.random(levels.shape) < TRUTH + levels).astype(float)
    else:
        y = np.clip(TRUTH + levels + random.normal(0.0, 0.15, levels.shape), 0.0, 1.0)
    cell = np.broadcast_to(np.arange(STRATA * 2).repeat(EACH), y.shape)
    return cell // 16, cell, y


def widths(statistic, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends by survey and region, at one epsilon; the noise is the same draw at every epsilon, scaled."""
    group, cell, y = a_file(statistic is not MEANS)
    plan = files.plan_of_file((statistic,), epsilon, {"region": REGIONS}, STRATA)
    numbers = files.estimated(plan, statistic, files.exact_sums(plan.items[0], group, cell, y), np.random.default_rng(7))
    return numbers.low, numbers.high


@pytest.mark.parametrize("statistic", [MEANS, SHARES, COUNTS], ids=["means", "proportions", "counts"])
def test_no_interval_of_a_group_in_some_strata_widens_with_epsilon(statistic):
    """On average over 200 surveys and four regions; one part in a hundred is left to chance."""
    found = [np.mean(high - low) for low, high in (widths(statistic, epsilon) for epsilon in EPSILONS)]
    assert all(after <= 1.01 * before for before, after in pairwise(found)), found
    assert found[0] > 3.0 * found[-1], "the study would see noise"


def test_at_the_far_end_a_region_has_the_classical_interval_of_its_own_strata():
    """Student's t of eight strata with two clusters each, wider by the jackknife's 16/15 and no more."""
    y = a_file()[2]
    totals = y.reshape(SURVEYS, 4, 8, 2, EACH).sum(axis=-1)
    classical = 2.0 * student.ppf(0.975, 8) * np.sqrt(((totals[..., 0] - totals[..., 1]) ** 2).sum(axis=-1)) / (16 * EACH)
    low, high = widths(MEANS, 1e6)
    assert (high - low) / classical == pytest.approx(np.full((SURVEYS, 4), 16.0 / 15.0), rel=0.01)


@pytest.mark.parametrize("statistic", [MEANS, SHARES], ids=["means", "proportions"])
@pytest.mark.parametrize("epsilon", [1.0, 10.0, 1e6])
def test_intervals_of_regions_cover(statistic, epsilon):
    low, high = widths(statistic, epsilon)
    covered = int(((low <= TRUTH) & (high >= TRUTH)).sum())
    assert covered >= binom.ppf(FALSE_ALARM, SURVEYS * 4, 0.95)
    # Power: with z for Student's t of 8 the far end would cover 91 %, which this limit finds.
    assert binom.cdf(binom.ppf(FALSE_ALARM, SURVEYS * 4, 0.95), SURVEYS * 4, 0.905) > 0.5


def test_a_group_in_one_stratum_of_many_keeps_its_width_when_epsilon_grows():
    """Two clusters carry it: one degree of freedom, where Student's t is so steep that a twentieth is left to chance."""
    random = np.random.default_rng(8)
    cell = np.broadcast_to(np.arange(24).repeat(40), (SURVEYS, 24 * 40))
    y = np.clip(0.5 + random.normal(0.0, 0.1, (SURVEYS, 24)).repeat(40, axis=1) + random.normal(0.0, 0.1, cell.shape), 0.0, 1.0)
    group = (cell >= 2).astype(int)
    found = []
    for epsilon in EPSILONS:
        plan = files.plan_of_file((MEANS,), epsilon, {"region": ["one", "rest"]}, 12)
        numbers = files.estimated(plan, MEANS, files.exact_sums(plan.items[0], group, cell, y), np.random.default_rng(9))
        found.append(np.mean(numbers.high - numbers.low, axis=0))
    assert all(np.all(after <= 1.05 * before) for before, after in pairwise(found)), found


def test_sums_of_noise_alone_give_numbers_and_no_warnings(tmp_path):
    """The noise of a share that nears all units is nought, up to rounding, and must not fall below: 20 of these 300 failed."""
    frame = ds.Frame("register.parquet", unit="id", size=4, categories={"region": {"n": 4}}, public=["psu"])
    design = ds.cluster("psu", ds.srs(n=2), clusters=3, cap=2)
    survey = ds.Survey(
        frame, design, ds.Setting("frame", neighbours="replace-one"), budget=ds.Budget(1.0), ledger=tmp_path / "books.ledger"
    )
    plan = survey.plan(ds.count(by="region"))
    (item,) = plan.items
    rng = np.random.default_rng(0)
    for _ in range(300):
        noise = np.rint(rng.laplace(0.0, item.mechanism.scale, (item.query.cells, item.query.components)))
        numbers = plan.estimate(item, item.statistics[0], noise)
        assert np.all(np.isfinite([numbers.low, numbers.high]))
        assert np.all(numbers.low <= numbers.high)


@pytest.mark.parametrize("weights", [(10.0, 10.0), (2.0, 10.0)], ids=["weights alike", "weights that differ"])
def test_a_share_of_a_weighted_file_has_an_interval_where_no_cluster_has_a_case(weights):
    """Twelve clusters of 30 persons, half of them in each group, who say yes by chance: 1 in 500, 1 in 50, 3 in 10."""
    random, surveys, persons = np.random.default_rng(1), 300, 360
    statistic = ds.proportion("y", "yes", by="g")
    plan = files.plan_of_file((statistic,), 1e6, {"g": ["a", "b"]}, psus=12, weights=weights)
    cell = np.broadcast_to(np.arange(12).repeat(30), (surveys, persons)) % plan.items[0].query.random_groups.count
    group = np.broadcast_to(np.tile([0, 1], persons // 2), (surveys, persons))
    u = random.uniform(weights[0] / weights[1], 1.0, (surveys, persons))
    for share in (0.002, 0.02, 0.3):
        y = (random.random((surveys, persons)) < share).astype(float)
        numbers = files.estimated(plan, statistic, files.exact_sums(plan.items[0], group, cell, y, u=u), random)
        covered = int(np.sum((numbers.low <= share) & (share <= numbers.high)))
        # Of 600 intervals that cover 95 % or more, so few cover with a probability below 1e-6.
        assert covered >= binom.ppf(FALSE_ALARM, 2 * surveys, 0.95), share
        none = np.asarray(numbers.estimate) < 1e-5
        if share < 0.01:
            assert none.any(), "the study has groups without a case"
            # Three over the number of persons is the usual upper end; clusters that are few make it longer.
            assert np.all(numbers.high[none] > 3.0 / (persons / 2) * 0.5)
            assert np.all(numbers.high[none] < 0.1)
    spread = 2.0 * student.ppf(0.975, 11) * np.sqrt(0.3 * 0.7 / (persons / 2))
    assert np.mean(numbers.high - numbers.low) < 1.35 * spread, "and one that can be used"
