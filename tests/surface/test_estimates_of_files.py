"""With next to no noise the estimates of a file are those that are computed by hand: under conditions, in strata, in clusters.

Epsilon is so large that a false alarm is below 1e-6.
"""

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")


def a_file(table, folder, epsilon=1e5, delta=0.0, name="file", **more):
    return ds.Survey.collected(table, budget=ds.Budget(epsilon, delta), ledger=folder / f"{name}.ledger", name=name, **more)


def people():
    """400 records in 50 clusters, 30 of them in the first stratum."""
    random = np.random.default_rng(3)
    number = np.arange(400)
    columns = {"h": np.where(number < 240, "a", "b"), "psu": [f"c{each}" for each in number // 8], "w": random.uniform(1, 3, 400)}
    answers = {"sex": random.choice(["f", "m"], 400), "job": random.choice(["x", "z"], 400), "y": random.uniform(2, 60, 400)}
    return pd.DataFrame(columns | answers | {"each": np.full(400, 10.0)})


LABELS = {"h": ["a", "b"], "sex": ["f", "m"], "job": ["x", "z"]}
SIZES = LABELS | {"h": {"a": 2400, "b": 1600}}
WEIGHTS = {"weights": "w", "weights_are": "design", "weight_range": (1, 3)}
STRATA = {"strata": "h", "n": {"a": 240, "b": 160}, "size": 4000, "categories": SIZES}


def published(survey, asked):
    return [row["estimate"] for row in survey.plan(asked).release().estimates]


@pytest.mark.parametrize("kind", [ds.mean, ds.total])
@pytest.mark.parametrize("where", [None, {"sex": "f"}, {"sex": "f", "job": ["x"]}], ids=["all", "one condition", "two"])
def test_bounds_by_stratum_give_the_right_estimate_under_a_condition(kind, where, tmp_path):
    """A mean of 26 was published as 51: strata were summed on ranges of their own and read on the whole one."""
    rows = people()
    rows["y"] = np.where(rows["h"] == "a", rows["y"] / 30.0, rows["y"])
    kept = rows if where is None else rows[(rows["sex"] == "f") & ((rows["job"] == "x") | (len(where) == 1))]
    found = published(a_file(rows, tmp_path, **STRATA), kind("y", {"a": (0, 2), "b": (0, 60)}, where=where))
    assert found == pytest.approx([kept["y"].mean() if kind is ds.mean else 10 * kept["y"].sum()], rel=2e-3)


@pytest.mark.parametrize("estimator", ["separate-variance", "pooled", "by-stratum"])
def test_a_census_of_every_stratum_has_a_mean_by_every_estimator(estimator, tmp_path):
    """There is no variance to buy: a division by zero came, at the plan."""
    rows = people()
    options = {"strata": "h", "n": {"a": 240, "b": 160}, "size": 400, "categories": {"h": {"a": 240, "b": 160}}}
    plan = a_file(rows, tmp_path, **options).plan(ds.mean("y", (0, 60), estimator=estimator))
    assert plan.predictions[0]["se_sampling"] == pytest.approx(0.0, abs=1e-6)
    row = plan.release().estimates[0]
    # At this epsilon the noise has a standard error of 3e-6.
    assert row["estimate"] == pytest.approx(rows["y"].mean(), abs=1e-2)
    assert 0.0 < row["ci_high"] - row["ci_low"] < 1e-2


def test_a_variance_is_not_bought_of_copied_answers(tmp_path):
    """Five records moved together, and the noise on the mean was made for one."""
    survey = a_file(people(), tmp_path, imputed="donors", donor_uses=2, **STRATA)
    with pytest.raises(BadValue, match="copied from donors"):
        survey.plan(ds.mean("y", (0, 60), estimator="separate-variance"))
    chosen = survey.plan(ds.mean("y", (0, 60), expect=(30, 15), between=0.9))
    assert chosen.items[0].query.reach == 5.0
    assert "bought" not in chosen.release().estimates[0]["method"]
    assert (
        "bought"
        in a_file(people(), tmp_path, name="own", **STRATA)
        .plan(ds.mean("y", (0, 60), estimator="separate-variance"))
        .release()
        .estimates[0]["method"]
    )


FILES = {
    "records": {},
    "weights": WEIGHTS,
    "clusters": {"psu": "psu"},
    "clusters in strata": {"psu": "psu", "strata": "h", "weights": "each", "weights_are": "design", "weight_range": (10, 10)},
    "clusters with weights": {"psu": "psu", "strata": "h"} | WEIGHTS,
}


@pytest.mark.parametrize("columns", FILES)
def test_totals_and_counts_under_a_condition_are_those_of_whom_it_names(columns, tmp_path):
    """Of 4000 people half are meant: their total is not 4000 times their mean."""
    rows, options = people(), FILES[columns]
    weight = (rows[options["weights"]] if "weights" in options else 1.0) * pd.Series(1.0, rows.index)
    weight = 4000 * weight / weight.sum()
    named = weight * (rows["sex"] == "f")
    survey = a_file(rows, tmp_path, size=4000, categories=LABELS, **options)
    asked = {
        ds.total("y", (0, 60), where={"sex": "f"}): [(named * rows["y"]).sum()],
        ds.count("job", "x", where={"sex": "f"}): [named[rows["job"] == "x"].sum()],
        ds.count(by="job", where={"sex": "f"}): [named[rows["job"] == job].sum() for job in "xz"],
    }
    release = survey.plan(*asked).release()
    assert [row["estimate"] for row in release.estimates] == pytest.approx(
        [one for each in asked.values() for one in each], rel=0.01
    )


@pytest.mark.parametrize("bounds", [(0, 60), (1, 60), (-60, 60)], ids=str)
@pytest.mark.parametrize("size", [None, 4000], ids=["no size", "a size"])
def test_totals_of_clusters_in_strata_are_those_of_the_file(size, bounds, tmp_path):
    """The number of records beside the sum of values is not the sum of what they lack of the upper bound."""
    rows = people()
    rows["each"] = 10.0 if size else rows["w"]
    by_stratum = [(own["each"] * own["y"]).sum() for _, own in rows.groupby("h")]
    weights = {"weights": "each", "weights_are": "design", "weight_range": (10, 10)} if size else WEIGHTS
    survey = a_file(rows, tmp_path, psu="psu", strata="h", size=size, categories=LABELS, **weights)
    release = survey.plan(ds.total("y", bounds), ds.total("y", bounds, by="h"), ds.count("sex", "f", by="h")).release()
    women = [own["each"][own["sex"] == "f"].sum() for _, own in rows.groupby("h")]
    assert [row["estimate"] for row in release.estimates] == pytest.approx([sum(by_stratum), *by_stratum, *women], rel=0.01)


def test_a_rare_share_of_draws_with_replacement_is_published(tmp_path):
    """There is no finite population of draws: the exact interval divided by it, after the charge was reserved."""
    rows = pd.DataFrame({"id": range(2000), "b": np.where(np.arange(2000) % 100 == 0, "yes", "no")})
    setting = ds.Setting("frame", neighbours="replace-one")
    frame = ds.Frame(rows, unit="id", size=2000)
    survey = ds.Survey(frame, ds.with_replacement(n=300), setting, budget=ds.Budget(5.0), ledger=tmp_path / "books", name="file")
    row = survey.plan(ds.proportion("b", "yes")).release().estimates[0]
    # 3 of 300 are expected; 40 have a chance far below 1e-20.
    assert 0.0 <= row["ci_low"] < row["ci_high"] < 40 / 300


@pytest.mark.parametrize(
    ("by_stratum", "charges"),
    [(ds.mean("y", (0, 60), by="h"), 1), (ds.total("y", (0, 60), by="h"), 1), (ds.mean("y", (0, 30), by="h"), 2)],
    ids=["the same mean", "its total", "other bounds"],
)
def test_strata_serve_the_whole_only_where_they_measure_the_same(by_stratum, charges, tmp_path):
    """With other bounds the whole paid for noise in every stratum, and had nothing for it."""
    options = {"strata": "h", "n": {"a": 240, "b": 160}, "size": 4000, "categories": {"h": {"a": 2400, "b": 1600}}}
    plan = a_file(people(), tmp_path, **options).plan(ds.mean("y", (0, 60)), by_stratum)
    assert len(plan.items) == charges
    assert ("published by the same plan" in dict(plan.choices)[plan.name(plan.statistics[0])]) == (charges == 1)
    assert plan.release().estimates[0]["method"] == "noise in every stratum"
