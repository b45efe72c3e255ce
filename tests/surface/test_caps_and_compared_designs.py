"""Caps are computed at the rate that they show; designs that cannot be are not compared, and weights alone make none better."""

import math

import pytest

import dpsurvey as ds
from dpsurvey import planning
from dpsurvey.errors import BadValue
from tests.surface.planned import a_survey


@pytest.mark.parametrize("clusters", [28, 3, 1000])
def test_a_cap_is_computed_at_the_rate_that_it_shows(clusters):
    for row in planning.caps(1.0, 0.05, clusters=clusters):
        assert row["rate"] >= 0.05 - 1e-12
        if row["kind"] == "units of a cluster":
            # One unit of a cluster is a simple random sample of clusters: the exact loss at the rate shown is the guarantee.
            alone = math.log1p(row["rate"] * math.expm1(row["epsilon_in_sample"]))
            assert alone <= 1.0 + 1e-9
    for wrong in ({"units of a cluster": [1.9]}, {"foo": [0.5]}):
        with pytest.raises(BadValue):
            planning.caps(1.0, 0.05, largest=wrong)


def test_designs_that_cannot_be_are_not_compared():
    plan = a_survey(ds.srs(n=200)).plan(ds.mean("y", bounds=(0, 100), expect=(50, 20)))
    for wrong in (
        {"sizes": ("emp", 0.01)},
        {"sizes": ("emp", 1e-300)},
        {"clusters": ("psu", 500, 2)},
        {"clusters": ("psu", 20, 900)},
    ):
        with pytest.raises(BadValue):
            planning.compare_designs(plan, **wrong)


def test_weights_that_have_nothing_to_do_with_values_do_not_make_a_sample_better():
    plan = a_survey(ds.srs(n=200)).plan(ds.mean("y", bounds=(0, 100), expect=(50, 20)))
    rows = {row["design"]: row["se_sampling"] for row in planning.compare_designs(plan, sizes=("emp", 0.1)) if row["of"] == "y"}
    for method in ("sampford", "systematic", "poisson"):
        assert rows[f"PPS by emp, {method}"] > rows["simple random"]
