"""How the label of a cluster is written changes nothing: -0.0 and 0.0 are one cluster, whose records stay in one random group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.engine import Engine
from dpsurvey.statistic import Statistic
from dpsurvey.survey.expectations import expectations
from dpsurvey.survey.plan import Plan

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]
Figures = npt.NDArray[np.int64]
MEAN = ds.mean("y", (0, 1))
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


def clusters(label: float | str) -> pd.DataFrame:
    """A hundred records in the first cluster, one in each of 29 others, and perhaps one more, in a cluster of this label."""
    labels = [0.0] * 100 + [float(number) for number in range(1, 30)]
    added = [label] if isinstance(label, float) else []
    return pd.DataFrame({"psu": added + labels, "y": [1.0] * (100 + len(added)) + [0.0] * 29})


@pytest.mark.parametrize("phase", GIVEN_FRAME)
@pytest.mark.parametrize("asked", [MEAN, ds.quantile("y", 0.5, (0, 1), method="tree", leaves=4)], ids=["sums", "tree"])
def test_a_record_in_the_cluster_minus_zero_moves_what_one_record_may(asked: Statistic, phase: str, tmp_path: Path) -> None:
    """Sums moved by 201 times their sensitivity: the new label decided the random group of all records of the cluster."""
    survey = a_file(clusters("none"), tmp_path, psu="psu", psus=20, size=1000, setting=GIVEN_FRAME[phase])
    plan = survey.plan(asked)
    without, one, minus = (sums_of(survey, plan, clusters(label)) for label in ("none", 0.0, -0.0))
    sensitivity = plan.items[0].mechanism.sensitivity
    assert 0 < np.abs(one - without).sum() <= sensitivity
    assert 0 < np.abs(minus - without).sum() <= sensitivity


def test_all_records_of_a_cluster_in_another_random_group_would_be_seen(tmp_path: Path) -> None:
    """The comparison above has the power to see what happened before: a whole cluster under another label is far too much."""
    survey = a_file(clusters("none"), tmp_path, psu="psu", psus=20, size=1000, setting=GIVEN_FRAME["sample"])
    plan = survey.plan(MEAN)
    sums = sums_of(survey, plan, clusters("none"))
    moved = [
        np.abs(sums_of(survey, plan, clusters("none").replace({"psu": {0.0: label}})) - sums).sum() for label in (-1.0, -2.0)
    ]
    assert max(moved) > 100 * plan.items[0].mechanism.sensitivity
