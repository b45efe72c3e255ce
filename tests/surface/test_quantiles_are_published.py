"""Extreme quantiles, clipping bounds and medians are published once they were paid for, and as strict JSON.

Epsilon is so large, or the classes so far apart, that a false alarm is below 1e-6.
"""

import json

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")


def a_file(table, folder, epsilon=1e5, delta=0.0, name="file", **more):
    return ds.Survey.collected(table, budget=ds.Budget(epsilon, delta), ledger=folder / f"{name}.ledger", name=name, **more)


def entries(folder, name="file"):
    """The states of what is on record."""
    path = folder / f"{name}.ledger"
    return [each["state"] for each in ds.Ledger(path).charges(name)] if path.exists() else []


def even(count=20_000):
    return pd.DataFrame({"y": np.random.default_rng(1).uniform(0, 100, count), "h": np.repeat(["a", "b"], count // 2)})


def test_clipping_bounds_of_two_coverings_are_two_charges_and_differ(tmp_path):
    """They were one charge, and the second had the answer of the first. At epsilon 5 each a choice is some ranks off at most."""
    narrow, wide = (ds.clipping_bounds("y", (-1, 1000), covering=share) for share in (0.5, 0.99))
    plan = a_file(even(), tmp_path, epsilon=10.0, n=20_000, size=20_000).plan(narrow, wide)
    assert [item.share for item in plan.items] == [0.5, 0.5]
    found = [row["estimate"] for row in plan.release().estimates]
    assert found[:2] == pytest.approx([25.0, 75.0], abs=6.0)
    assert found[2] < 5.0
    assert found[3] > 95.0


def test_a_covering_of_nearly_everything_is_published(tmp_path):
    """The choice failed after the budget was spent: .99975 was rounded to 1."""
    survey = a_file(even(), tmp_path, epsilon=10.0, n=20_000, size=20_000)
    low, high = survey.plan(ds.clipping_bounds("y", (-1, 1000), covering=0.9995)).release().bounds("y")
    assert -1.0 <= low < 5.0
    assert 95.0 < high <= 1000.0
    assert entries(tmp_path) == ["committed"]


@pytest.mark.parametrize("q", [0.0001, 0.9999])
def test_an_extreme_quantile_of_unequal_strata_is_published(q, tmp_path):
    sizes = {"h": {"a": 20_000, "b": 40_000}}
    options = {"strata": "h", "n": {"a": 10_000, "b": 10_000}, "size": 60_000, "categories": sizes}
    survey = a_file(even(), tmp_path, epsilon=10.0, **options)
    row = survey.plan(ds.quantile("y", q, (0, 100), method="exponential")).release().estimates[0]
    assert row["estimate"] == pytest.approx(100.0 * q, abs=2.0)
    assert 0.0 <= row["ci_low"] <= row["ci_high"] <= 100.0
    assert entries(tmp_path) == ["committed"]


def no_constant(name):
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("more", [{"method": "smooth"}, {"method": "propose-test-release", "proposal": 5.0}, {"method": "tree"}])
def test_a_release_with_a_median_is_strict_json(more, tmp_path):
    """The scale of noise that follows the data was written as NaN, which no other reader takes."""
    survey = a_file(even(2000), tmp_path, epsilon=1.0, delta=1e-6, n=2000, size=20_000)
    release = survey.plan(ds.quantile("y", 0.5, (0, 100), **more)).release()
    text = release.save(tmp_path / "release.json").read_text()
    assert json.loads(text, parse_constant=no_constant) == release.to_dict()
    assert json.loads(json.dumps(release.to_dict(), allow_nan=False)) == release.to_dict()
    assert ds.Release.load(tmp_path / "release.json").recompute() == release.estimates
    with pytest.raises(AssertionError, match="NaN"):
        json.loads("[NaN]", parse_constant=no_constant)
