"""A design inside coverage or response is estimated from as what it is: by the number it draws; a collected file stands alone."""

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.design import Design, collected
from dpsurvey.errors import BadValue
from dpsurvey.statistic.estimators.horvitz_thompson import public_units

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]
N, DRAWN = 600, 60
IN_PLACE = ds.Setting("frame", neighbours="replace-one")
AT_MOST = 0.5


def register() -> pd.DataFrame:
    staff = 1.0 + np.arange(N) % 7
    return pd.DataFrame({"id": [f"u{i}" for i in range(N)], "staff": staff, "turnover": 10.0 * staff + np.arange(N) % 3})


def survey_of(design: Design, folder) -> ds.Survey:
    return ds.Survey(
        ds.Frame(register(), unit="id", size=N, public=["staff"]),
        design,
        IN_PLACE,
        budget=ds.Budget(1e6),
        ledger=folder / f"{design.kind}.ledger",
        weight_range=(N / DRAWN * 4 / 7, N / DRAWN * 4),
    )


TOTAL = ds.total("turnover", bounds=(0, 100), estimator="horvitz-thompson")
BY_SIZE = ds.pps("staff", n=DRAWN, method="sampford", at_most=AT_MOST)


def test_a_covered_draw_of_n_units_is_estimated_from_as_the_draw_itself(tmp_path):
    """Whoever is missing from the frame, n of those on it are drawn, so that n is as public as without coverage."""
    plain, covered = survey_of(BY_SIZE, tmp_path), survey_of(ds.covered(BY_SIZE, at_most=0.9), tmp_path)
    plans = [survey.plan(TOTAL) for survey in (plain, covered)]
    assert plans[0].items[0].query == plans[1].items[0].query
    assert plans[1].items[0].query.expanded is not None
    facts = [survey.terms.facts(respondents_only=False) for survey in (plain, covered)]
    assert [public_units(each) for each in facts] == [DRAWN, DRAWN]
    staff = register()["staff"].sum()
    for survey, plan in zip((plain, covered), plans, strict=True):
        (row,) = survey.release(plan).estimates
        assert row["method"] == "Horvitz-Thompson, variance of draws with replacement"
        # Of every unit the turnover is 10 to 12 times the staff, so that this holds of every sample of n units.
        assert 9.99 * staff < row["estimate"] < 12.01 * staff


def test_how_many_of_those_drawn_respond_is_not_public(tmp_path):
    responding = ds.responding(BY_SIZE, at_most=0.6)
    assert responding.public_units is None
    assert ds.covered(responding, at_most=0.9).public_units is None
    assert ds.covered(BY_SIZE, at_most=0.9).public_units == DRAWN
    with pytest.raises(BadValue, match="Horvitz-Thompson"):
        survey_of(responding, tmp_path).plan(TOTAL)


def test_weights_are_shrunk_towards_the_same_middle_inside_coverage(tmp_path):
    designs = [ds.pps("staff", n=DRAWN, method="poisson", at_most=AT_MOST)]
    designs += [ds.covered(designs[0], at_most=0.9)]
    asked = ds.mean("turnover", bounds=(0, 100), shrink=0.5)
    middles = [survey_of(each, tmp_path).plan(asked).items[0].query.weights.middle for each in designs]
    assert middles == [N / DRAWN, N / DRAWN]


@pytest.mark.parametrize(
    "around",
    [
        lambda file: ds.covered(file, at_most=0.9),
        lambda file: ds.responding(file, at_most=0.9),
        lambda file: ds.group(file, 2),
        lambda file: ds.stratified("region", within=file),
        lambda file: ds.covered(ds.stratified("region", within={"north": ds.poisson(0.1), "south": file}), at_most=0.9),
    ],
    ids=["coverage", "response", "group", "strata", "one stratum"],
)
def test_a_collected_file_stands_alone(around):
    with pytest.raises(BadValue, match="stands alone"):
        around(collected(n=80, weights="w", weights_are="design"))
