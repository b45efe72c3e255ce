"""Intervals of cut and shrunk weights hold the truth by a bound on the bias; where no bound is known they are refused.

Epsilon is so large that a false alarm is below 1e-6.
"""

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue
from dpsurvey.statistic.estimators.trimmed import shrink_bound

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]
UNIT = (0, 1)
NO_BOUND = "no bound on the bias is known"


def a_file(table, folder, epsilon=1e5, delta=0.0, name="file", **more):
    return ds.Survey.collected(table, budget=ds.Budget(epsilon, delta), ledger=folder / f"{name}.ledger", name=name, **more)


def unequal():
    """4000 records in 40 clusters; a tenth of them have twenty times the weight, and other answers."""
    weights = np.where(np.arange(4000) % 10 == 0, 100.0, 5.0)
    rows = {"psu": [f"c{number}" for number in np.arange(4000) // 100], "w": weights, "g": np.resize(["u", "v"], 4000)}
    return pd.DataFrame(rows | {"y": np.where(weights > 50, 1.0, 0.1)})


def weighted(rows, folder, **more):
    options = {
        "weights": "w",
        "weights_are": "design",
        "weight_range": (5, 100),
        "size": int(rows["w"].sum()),
        "categories": {"g": ["u", "v"]},
    }
    return a_file(rows, folder, **options | more)


WHOLE_BY_G = {"g": {"u": 52_000, "v": 6_000}}
IN_CLUSTERS = {"psu": "psu", "psus": 40}


@pytest.mark.parametrize("cut", [{"trim": 10.0}, {"shrink": 0.5}], ids=["trim", "shrink"])
@pytest.mark.parametrize("columns", [{}, IN_CLUSTERS, {"n": 4000}], ids=["records", "clusters", "a public size"])
def test_changed_weights_without_a_bound_on_the_bias_are_refused(columns, cut, tmp_path):
    """Totals by groups were published with [11756, 13581] for 40,800, and Horvitz-Thompson totals with 25,099 for 10,052."""
    survey = weighted(unequal(), tmp_path, **columns)
    refused = [ds.total("y", UNIT, by="g", **cut)]
    if not columns.get("psu"):
        refused += [kind("y", UNIT, estimator="horvitz-thompson", **cut) for kind in (ds.mean, ds.total)]
    for asked in refused:
        with pytest.raises(BadValue, match=NO_BOUND):
            survey.plan(asked)
    # The same without a cut, and the mean with one, are planned.
    assert survey.plan(ds.total("y", UNIT, by="g"), ds.total("y", UNIT))
    if "trim" in cut and columns.get("psu"):
        with pytest.raises(BadValue, match=NO_BOUND):
            survey.plan(ds.mean("y", UNIT, **cut))
    else:
        assert survey.plan(ds.mean("y", UNIT, by="g", **cut))


def test_a_total_of_groups_with_declared_sizes_has_a_bound(tmp_path):
    survey = weighted(unequal(), tmp_path, categories=WHOLE_BY_G)
    assert survey.plan(ds.total("y", UNIT, by="g", trim=10.0), ds.total("y", UNIT, shrink=0.5))


def lopsided():
    """All large weights are in the second group, and most of its units are behind them."""
    parts = [("u", 5.0, 0.5, 39_000), ("v", 100.0, 1.0, 500), ("v", 5.0, 0.0, 500)]
    frames = [pd.DataFrame({"g": g, "w": w, "y": y}, index=range(count)) for g, w, y, count in parts]
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize("cut", [{"trim": 10.0}, {"shrink": 0.2}], ids=["trim", "shrink"])
def test_the_interval_of_a_group_holds_the_truth_if_the_group_has_all_large_weights(cut, tmp_path):
    """It was [.506, .827] for .952: the share that was cut was taken to be lost evenly from all groups."""
    rows = lopsided()
    release = weighted(rows, tmp_path, epsilon=50.0).plan(ds.mean("y", UNIT, by="g", **cut)).release()
    true = [float(np.average(own["y"], weights=own["w"])) for _, own in rows.groupby("g")]
    assert true[1] == pytest.approx(0.952, abs=1e-3)
    for row, value in zip(release.estimates, true, strict=True):
        assert row["ci_low"] <= value <= row["ci_high"]
    second = release.estimates[1]
    # The estimate itself is far off, by many of its standard errors: only the bound makes the interval hold.
    assert abs(second["estimate"] - true[1]) > 10 * np.hypot(second["se_sampling"], second["se_noise"])


@pytest.mark.parametrize("kept", [0.2, 0.9])
def test_shrunk_weights_in_clusters_widen_the_interval_by_their_bound(kept, tmp_path):
    """It was [.264, .265] for .721."""
    rows = unequal()
    release = weighted(rows, tmp_path, **IN_CLUSTERS).plan(ds.mean("y", UNIT, shrink=kept)).release()
    row, bound = release.estimates[0], shrink_bound(kept, 500**0.5, (5.0, 100.0))
    assert bound > 0.04
    assert row["ci_low"] <= max(0.0, row["estimate"] - bound)
    assert row["ci_high"] >= min(1.0, row["estimate"] + bound)
    assert row["ci_low"] <= np.average(rows["y"], weights=rows["w"]) <= row["ci_high"]
    assert row["ci_high"] - row["ci_low"] < 2 * bound + 0.05, "no wider than the bound and a small error"
