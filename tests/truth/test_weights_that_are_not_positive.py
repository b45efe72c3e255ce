"""Weights that are not positive are refused, whatever was checked before, and would move no sum further than stated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.engine import Engine
from dpsurvey.errors import BadData
from dpsurvey.survey.expectations import expectations
from dpsurvey.survey.plan import Plan

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]
Figures = npt.NDArray[np.int64]
MEAN = ds.mean("y", (0, 1))


def a_file(table: Any, folder: Path, name: str = "file", **more: Any) -> ds.Survey:
    return ds.Survey.collected(table, budget=ds.Budget(1.0), ledger=folder / "books.ledger", name=name, **more)


def sums_of(survey: ds.Survey, plan: Plan, rows: pd.DataFrame) -> Figures:
    """The exact sums of the first charge of a plan on a file, checked by nobody."""
    engine = Engine(rows)
    engine.draw(survey.terms.design.recipe(), expectations(survey.terms, plan))
    return engine.sums(plan.items[0].query).values


def weighted(folder: Path) -> Path:
    """40 records in 12 clusters, one of them with a huge negative weight."""
    weights = np.full(40, 10.0)
    weights[0] = -1e9
    rows = pd.DataFrame({"psu": [str(number % 12) for number in range(40)], "w": weights, "y": 1.0})
    rows.to_parquet(folder / "file.parquet")
    return folder / "file.parquet"


def test_a_check_of_one_recipe_does_not_stand_for_another_on_the_same_columns(tmp_path: Path) -> None:
    """The second survey was released without a look at its weights; the first reads the same columns of the same file."""
    path, columns = weighted(tmp_path), {"psu": "psu", "weight_range": (5, 20), "size": 400, "psus": 10}
    a_file(path, tmp_path, "first", ssu="w", **columns).plan(MEAN).release()
    with pytest.raises(BadData, match="values that are not positive numbers"):
        a_file(path, tmp_path, "second", weights="w", weights_are="design", **columns).plan(MEAN).release()
    assert list(ds.Ledger(tmp_path / "books.ledger").charges("second")) == []


@pytest.mark.parametrize("shrink", [None, 0.5])
@pytest.mark.parametrize("weight", [-1.0, -1e9, -1e300])
def test_a_negative_weight_adds_no_negative_steps(weight: float, shrink: float | None, tmp_path: Path) -> None:
    """Second line, behind the check: such a record moved sums by its weight over the largest, without end."""
    good = pd.DataFrame({"w": [5.0, 20.0], "y": [1.0, 0.5]})
    bad = pd.concat([good, pd.DataFrame({"w": [weight], "y": [1.0]})], ignore_index=True)
    setting = ds.Setting("sample", "frame", neighbours="add-remove")
    survey = a_file(good, tmp_path, weights="w", weights_are="design", weight_range=(5, 20), size=400, setting=setting)
    plan = survey.plan(ds.mean("y", (0, 1), shrink=shrink))
    moved = sums_of(survey, plan, bad) - sums_of(survey, plan, good)
    assert np.all(moved >= 0)
    assert np.abs(moved).sum() <= plan.items[0].mechanism.sensitivity
    # A record with a weight does count.
    assert np.abs(sums_of(survey, plan, good.assign(w=20.0)) - sums_of(survey, plan, good)).sum() > 0
