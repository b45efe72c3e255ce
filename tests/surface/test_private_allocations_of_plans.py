"""A private allocation of a plan is made for the guarantee of its theorem alone, from deviations that have a source."""

import math

import pytest

import dpsurvey as ds
from dpsurvey import planning
from dpsurvey.errors import BadValue, NoGuarantee
from tests.surface.planned import BY_GROUP, a_survey


def test_a_private_allocation_is_made_for_the_guarantee_of_its_theorem_alone():
    asked = ds.mean("y", bounds=(0, 100), by="g", expect=BY_GROUP, source="Yearbook 2025")
    others = [ds.Setting("sample", "frame", neighbours="replace-one"), ds.Setting("population", neighbours="replace-one")]
    for setting in (*others, ds.Setting("frame", neighbours="add-remove")):
        with pytest.raises(NoGuarantee, match="one record replaced within its stratum"):
            planning.private_allocation(a_survey(setting=setting).plan(asked), "y")
    plan = a_survey().plan(asked, ds.count(by="h"))
    made = planning.private_allocation(plan, "y")
    assert "replaced within its public stratum" in str(made)
    # What the table says may be spent on the sample is what the statistic's own share may lose on the frame, and no more.
    share = plan.terms.amplify(plan.items[0].charge).epsilon(0.0)
    assert share < 0.6
    for row in made.rows():
        assert row["epsilon"] == pytest.approx(share, rel=1e-9)
        rate = row["take"] / row["size"]
        assert math.log1p(rate * math.expm1(row["epsilon_in_sample"])) <= share * (1.0 + 1e-9)


def test_deviations_without_a_source_set_no_sample_sizes():
    with pytest.raises(BadValue, match="source"):
        planning.private_allocation(a_survey().plan(ds.mean("y", bounds=(0, 100), by="g", expect=BY_GROUP)), "y")
