"""The predicted error under a condition is that of the same people as a group."""

import math

import pytest

import dpsurvey as ds
from tests.surface.planned import BY_GROUP, REGIONS, N, a_survey


def test_a_condition_on_declared_categories_is_predicted_as_its_group_is():
    survey = a_survey(ds.poisson(0.05), ds.Setting("frame", neighbours="add-remove"))
    by = survey.plan(ds.mean("y", bounds=(0, 100), by="g", expect=BY_GROUP)).predictions[0]
    where = survey.plan(ds.mean("y", bounds=(0, 100), where={"g": "k"}, expect=BY_GROUP["k"])).predictions[0]
    assert where["se_sampling"] == pytest.approx(by["se_sampling"], rel=0.02)
    # A total of a part: others count as 0, so its variance is that of the masked values, N p(1 - p) E z^2.
    total = survey.plan(ds.total("y", bounds=(0, 100), where={"g": "k"}, expect=(40.0, 9.0))).predictions[0]
    share, mean, square = 0.05, 0.05 * 40.0, 0.05 * (40.0**2 + 9.0**2)
    assert share == REGIONS["k"] / N
    assert total["se_sampling"] == pytest.approx(math.sqrt(0.95 / 0.05 * N * (square - mean**2)), rel=0.02)


@pytest.mark.parametrize("epsilon", [0.1, 100.0], ids=["much noise", "little noise"])
@pytest.mark.parametrize("design", [ds.srs(n=500), ds.poisson(0.05)], ids=["srs", "poisson"])
def test_groups_and_tables_of_those_who_meet_a_condition_are_predicted_as_if_all_did(design, epsilon):
    survey = a_survey(design, None, epsilon)
    for asked in ({"where": {"y": (0, 50)}}, {"missing": "drop"}):
        found, whole = (survey.plan(ds.table("g", "h", **more)).predictions for more in (asked, {}))
        cells = [place for place, row in enumerate(whole) if "all" not in row["by"].values()]
        assert cells
        for place in cells:
            # What is simulated is known to a few percent.
            assert found[place]["se_sampling"] == pytest.approx(whole[place]["se_sampling"], rel=0.1)
    by, where = (survey.plan(ds.count(by="h", **more)).predictions[0] for more in ({}, {"where": {"y": (0, 50)}}))
    assert where["se_sampling"] == pytest.approx(by["se_sampling"], rel=0.1)
