"""Wanted errors of medians, which are simulated: the least share, and samples that do what the whole frame does not."""

import pytest

import dpsurvey as ds

SAFE = 1.0 + 1e-9


def a_survey(n, size, budget):
    frame = ds.Frame("not there.parquet", unit="id", size=size)
    return ds.Survey(frame, ds.srs(n=n), ds.Setting("frame", neighbours="replace-one"), budget=budget, ledger="no.ledger")


def margin(plan, column):
    return max(row["moe"] for row in plan.predictions if row["of"] == column)


def shares(plan):
    return [item.share for item in plan.items]


@pytest.mark.slow
def test_a_simulated_median_is_aimed_at_too():
    quantiles = {0.1: 20.0, 0.25: 35.0, 0.5: 50.0, 0.75: 65.0, 0.9: 80.0}
    plan = a_survey(400, 2000, ds.Budget(1.0)).plan(
        ds.median("income", bounds=(0, 100), expect=quantiles), ds.count("sex", "female")
    )
    assert plan.predictions[0]["simulated"]
    target = 1.1 * margin(plan, "income")
    aimed = plan.aim("income", moe=target)
    assert margin(aimed, "income") <= SAFE * target
    assert shares(aimed)[0] < 0.5 < shares(aimed)[1]
    less = [0.98 * shares(aimed)[0], shares(aimed)[1]]
    assert margin(aimed.with_shares(less), "income") > 0.998 * target


@pytest.mark.slow
def test_a_median_that_only_a_part_of_the_frame_gives_is_found():
    # Smooth sensitivity of few values close together: more units, less amplification, more noise.
    quantiles = {0.01: 40.0, 0.1: 80.0, 0.25: 105.0, 0.5: 148.0, 0.75: 208.0, 0.9: 280.0, 0.99: 475.0}
    asked = ds.median("income", bounds=(0, 2000), expect=quantiles, method="smooth")
    plan = a_survey(500, 10_000, ds.Budget(0.05, 1e-6)).plan(asked)
    target = 1.1 * margin(plan, "income")
    assert margin(plan.resized(20.0), "income") > 2.0 * target
    fewest = plan.least_size("income", moe=target)
    assert 200 < fewest <= 600
    assert margin(plan.resized(fewest / 500), "income") <= SAFE * target
