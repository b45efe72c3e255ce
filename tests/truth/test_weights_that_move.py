"""Where a record can move the weights of others, weighted sums are refused or pay for it; what is named instead works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.design.base import Design
from dpsurvey.design.pps_methods.probabilities import inclusion_probabilities
from dpsurvey.engine import Engine
from dpsurvey.errors import NoGuarantee
from dpsurvey.statistic import Statistic
from dpsurvey.survey.expectations import expectations
from dpsurvey.survey.plan import Plan
from tests.truth import neighbouring as held

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]
HERE = Path(__file__).parent
Record = held.Record
Figures = npt.NDArray[np.int64]
MEAN = ds.mean("y", (0, 1))
RESPONDENTS = ds.Setting("respondents", neighbours="add-remove")
GIVEN_FRAME = {
    "sample": ds.Setting("sample", "frame", neighbours="add-remove"),
    "respondents": ds.Setting("respondents", "frame", neighbours="add-remove"),
}


def a_file(table: Any, folder: Path, name: str = "file", **more: Any) -> ds.Survey:
    return ds.Survey.collected(table, budget=ds.Budget(1.0), ledger=folder / "books.ledger", name=name, **more)


def sums_of(survey: ds.Survey, plan: Plan, rows: pd.DataFrame) -> Figures:
    """The exact sums of the first charge of a plan on a file, checked by nobody."""
    engine = Engine(rows)
    engine.draw(survey.terms.design.recipe(), expectations(survey.terms, plan))
    return engine.sums(plan.items[0].query).values


PPS = ds.pps("size", n=10, method="sampford")
DESIGNS: dict[str, Design] = {
    "pps": PPS,
    "pps one by one": ds.pps("size", n=10, method="poisson"),
    "clusters by size": ds.cluster("psu", ds.pps("size", n=10, method="sampford")),
    "stages": ds.stages(ds.cluster("psu", ds.srs(n=10)), ds.srs(n=2)),
    "strata of pps": ds.stratified("region", within=ds.pps("size", n=5, method="sampford")),
    "strata of stages": ds.stratified("region", within=ds.stages(ds.cluster("psu", ds.srs(n=5)), ds.srs(n=2))),
}
NOT_FIXED = {
    "sample": ds.Setting("sample", neighbours="replace-one"),
    "sample of a population": ds.Setting("sample", "population", neighbours="replace-one"),
    "respondents": RESPONDENTS,
    "respondents, replaced": ds.Setting("respondents", neighbours="replace-one"),
}
ASKED: tuple[Statistic, ...] = (
    MEAN,
    ds.total("y", (0, 1)),
    ds.proportion("answer", "yes", by="sex"),
    ds.count("answer", "yes"),
    ds.table("sex"),
    ds.ratio("y", "x", bounds=(0, 1), to_bounds=(0, 1)),
    ds.quantile("y", 0.5, (0, 1), method="tree", leaves=16),
)


@pytest.mark.parametrize("phase", NOT_FIXED)
@pytest.mark.parametrize("design", DESIGNS)
def test_weights_that_move_with_the_frame_are_refused(design: str, phase: str, tmp_path: Path) -> None:
    survey = held.a_survey(DESIGNS[design], NOT_FIXED[phase], tmp_path)
    for asked in ASKED:
        with pytest.raises(NoGuarantee, match="weights are not constants") as caught:
            survey.plan(asked)
        assert 'given="frame"' in str(caught.value)


@pytest.mark.parametrize("phase", ["sample", "respondents"])
@pytest.mark.parametrize("design", DESIGNS)
def test_what_the_refusal_names_instead_is_planned(design: str, phase: Any, tmp_path: Path) -> None:
    survey = held.a_survey(DESIGNS[design], ds.Setting(phase, "frame", neighbours="replace-one"), tmp_path)
    assert len(survey.plan(*ASKED).items) > 3


@pytest.mark.parametrize("phase", NOT_FIXED)
def test_rates_in_a_units_own_record_move_with_nobody_else(phase: str, tmp_path: Path) -> None:
    plan = held.a_survey(ds.poisson_by("rate", at_most=0.5), NOT_FIXED[phase], tmp_path).plan(*ASKED)
    assert not plan.facts.weights_move
    assert len(plan.items) > 3


def test_weights_of_two_frames_would_have_broken_the_guarantee(tmp_path: Path) -> None:
    """Why they are refused: ten respondents with the weights of two frames are more than one record apart (1.6 times)."""
    query = held.a_survey(PPS, GIVEN_FRAME["respondents"], tmp_path).plan(MEAN).items[0].query
    sizes = [1.0 + number % 3 for number in range(100)]
    worlds = []
    for frame in (sizes, sizes + [20.0] * 5):
        weights = 1.0 / np.array(inclusion_probabilities(frame, 10))[:10]
        assert weights.max() <= 40.0
        worlds.append([Record(y=1.0, weight=float(weight)) for weight in weights])
    one, two = held.Worlds(worlds).sums(query)
    assert np.abs(one - two).sum() > 1.5 * query.sensitivity("add-remove", "L1")


def test_a_total_that_pays_for_moving_weights_is_not_refused(tmp_path: Path) -> None:
    """The other thing to do: with a public n the sum may move with every weight, and is charged for it."""
    rows = pd.DataFrame({"w": np.full(10, 1.0), "y": 1.0})
    survey = a_file(
        rows, tmp_path, weights="w", weights_are="design", weight_range=(1, 10), n=10, size=50, setting=NOT_FIXED["sample"]
    )
    plan = survey.plan(ds.total("y", (0, 1), estimator="horvitz-thompson"))
    moved = np.abs(sums_of(survey, plan, rows.assign(w=10.0)) - sums_of(survey, plan, rows)).sum()
    single = rows.assign(w=[10.0] + [1.0] * 9)
    assert 5 * np.abs(sums_of(survey, plan, single) - sums_of(survey, plan, rows)).sum() < moved
    assert moved <= plan.items[0].mechanism.sensitivity
