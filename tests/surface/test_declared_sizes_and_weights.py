"""What a survey declares about sizes and weights is part of it, agrees with the file, and is there before anything is spent."""

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadData, BadValue, LedgerDisagrees

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]
UNIT = (0, 1)


def a_file(table, folder, epsilon=1e5, delta=0.0, name="file", **more):
    return ds.Survey.collected(table, budget=ds.Budget(epsilon, delta), ledger=folder / f"{name}.ledger", name=name, **more)


def entries(folder, name="file"):
    """The states of what is on record."""
    path = folder / f"{name}.ledger"
    return [each["state"] for each in ds.Ledger(path).charges(name)] if path.exists() else []


def even(count=20_000):
    return pd.DataFrame({"y": np.random.default_rng(1).uniform(0, 100, count), "h": np.repeat(["a", "b"], count // 2)})


@pytest.mark.parametrize("first", [True, False], ids=["left out later", "left out at first"])
def test_a_survey_without_its_range_of_weights_is_another_survey_by_name(first, tmp_path):
    """A KeyError came where it was left out later; where it was left out at first, the difference was not named."""
    rows = even(100).assign(w=2.0)
    declared = [{"weights": "w", "weights_are": "design", "weight_range": (1, 3)}, {}]
    before, after = declared if first else declared[::-1]
    a_file(rows, tmp_path, epsilon=1.0, **before).plan(ds.mean("y", (0, 100)), share=0.1).release()
    with pytest.raises(LedgerDisagrees, match="weight_range") as caught:
        a_file(rows, tmp_path, epsilon=1.0, **after).plan(ds.mean("y", (0, 100)), share=0.2).release()
    assert "design" in str(caught.value)
    assert entries(tmp_path) == ["committed"]


def test_a_declared_number_of_records_beside_weights_is_compared_with_the_file(tmp_path):
    """A total was published from 1000 records where 10 were declared and the noise was made for 10."""
    rows = pd.DataFrame({"w": np.full(1000, 2.0), "psu": np.arange(1000) // 5, "y": 1.0})
    for name, columns in (("records", {}), ("clusters", {"psu": "psu"})):
        survey = a_file(
            rows, tmp_path, name=name, weights="w", weights_are="design", weight_range=(1, 10), n=10, size=5000, **columns
        )
        with pytest.raises(BadData, match="as many records as declared"):
            survey.plan(ds.mean("y", UNIT)).release()
        assert entries(tmp_path, name) == []
    right = a_file(rows, tmp_path, name="right", weights="w", weights_are="design", weight_range=(1, 10), n=1000, size=2000)
    assert right.plan(ds.total("y", (0, 2))).release().estimates[0]["estimate"] == pytest.approx(2000.0, rel=1e-3)


def people():
    """400 records in 50 clusters, 30 of them in the first stratum."""
    random = np.random.default_rng(3)
    number = np.arange(400)
    columns = {"h": np.where(number < 240, "a", "b"), "psu": [f"c{each}" for each in number // 8], "w": random.uniform(1, 3, 400)}
    answers = {"sex": random.choice(["f", "m"], 400), "job": random.choice(["x", "z"], 400), "y": random.uniform(2, 60, 400)}
    return pd.DataFrame(columns | answers | {"each": np.full(400, 10.0)})


LABELS = {"h": ["a", "b"], "sex": ["f", "m"], "job": ["x", "z"]}
WEIGHTS = {"weights": "w", "weights_are": "design", "weight_range": (1, 3)}


@pytest.mark.parametrize("columns", [{}, WEIGHTS, WEIGHTS | {"n": 400}, {"n": 400}], ids=lambda each: ", ".join(each) or "none")
@pytest.mark.parametrize(
    "asked",
    [
        ds.total("y", (0, 60), by="sex"),
        ds.count("sex", "f"),
        ds.count(by="sex"),
        ds.table("sex"),
        ds.table("h", "sex"),
    ],
    ids=lambda each: each.name,
)
def test_a_number_of_people_without_a_declared_size_is_refused_before_anything_is_spent(asked, columns, tmp_path):
    """The refusal came from the estimate, after the budget was gone."""
    survey = a_file(people(), tmp_path, categories=LABELS, **columns)
    with pytest.raises(BadValue, match="public size of the frame"):
        survey.plan(asked)
    assert entries(tmp_path) == []
