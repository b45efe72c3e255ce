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
