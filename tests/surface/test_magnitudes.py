"""Bounds, weights and sizes that a computer cannot reckon with are refused before anything is spent; the largest others work."""

import math

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue

SIZE = 200
FIGURES = ("estimate", "se", "se_sampling", "se_noise", "ci_low", "ci_high")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(4)
    rows = pd.DataFrame(
        {
            "id": [f"u{number}" for number in range(SIZE)],
            "region": ["north"] * 120 + ["south"] * 80,
            "psu": [f"c{number // 10}" for number in range(SIZE)],
            "rate": rng.uniform(0.1, 0.5, SIZE),
            "income": rng.uniform(0, 100, SIZE),
            "food": rng.uniform(0, 5, SIZE),
        }
    )
    rows.to_parquet(tmp_path / "register.parquet")
    return tmp_path


def a_survey(folder, design=None, *, size=SIZE, regions=None, **terms):
    regions = {"north": 120, "south": 80} if regions is None else regions
    frame = ds.Frame(folder / "register.parquet", "id", size, {"region": regions}, public=["psu", "rate"])
    return ds.Survey(frame, design or ds.srs(n=60), budget=ds.Budget(1.0), ledger=folder / "books.ledger", **terms)


def asked(bounds):
    above = (0.0, bounds[1])
    return {
        "mean": lambda: ds.mean("income", bounds=bounds),
        "mean by group": lambda: ds.mean("income", bounds=bounds, by="region"),
        "mean by own bounds": lambda: ds.mean("income", bounds={"north": bounds, "south": (0, 1)}),
        "total": lambda: ds.total("income", bounds=bounds),
        "total by group": lambda: ds.total("income", bounds=bounds, by="region"),
        "total of some": lambda: ds.total("income", bounds=bounds, where={"region": "north"}),
        "numerator": lambda: ds.ratio("income", "food", bounds=above, to_bounds=(0, 5)),
        "denominator": lambda: ds.ratio("food", "income", bounds=(0, 5), to_bounds=above),
        "quantile": lambda: ds.quantile("income", 0.5, bounds=bounds),
        "clipping bounds": lambda: ds.clipping_bounds("income", within=bounds),
        "regression": lambda: ds.greg(ds.mean("income", bounds=(0, 100)), on={"food": (bounds, bounds[1])}),
    }


OUT_OF_REACH = {
    "of the largest doubles": (0, 8e307),
    "with a width that is infinite": (-1e308, 1e308),
    "with a square that is infinite": (0, 1e155),
    "with a fourth power that is infinite": (0, 1e120),
    "of many digits": (0, 10**400),
    "of the smallest doubles": (0, 5e-324),
    "with a square that is zero": (0, 1e-300),
    "with no number in between": (1e16, 1e16 + 2),
}


@pytest.mark.parametrize("bounds", OUT_OF_REACH.values(), ids=OUT_OF_REACH)
def test_bounds_out_of_reach_are_refused_by_every_statistic(bounds):
    for name, make in asked((bounds[0], bounds[1])).items():
        if name in ("numerator", "denominator") and bounds[0] > 0:
            continue
        with pytest.raises(BadValue, match=r"bounds of '(income|food).*too (large|close)|must be finite") as caught:
            make()
        assert caught.value.hint, name


DESIGNS = {
    "srs": lambda: ds.srs(n=60),
    "poisson": lambda: ds.poisson(0.3),
    "strata": lambda: ds.stratified("region", within=ds.srs(n=20)),
    "clusters": lambda: ds.cluster("psu", ds.srs(n=10), clusters=20),
}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("bounds", [(-1e30, 1e30), (0, 1e-30)], ids=["largest", "closest"])
def test_bounds_within_reach_give_finite_numbers(folder, design, bounds):
    """Warnings are errors here, so that nothing overflowed on the way either."""
    made = [make() for name, make in asked(bounds).items() if not (design == "clusters" and name == "regression")]
    survey = a_survey(folder, DESIGNS[design]())
    released = survey.plan(*made).release()
    numbers = [row for row in released.estimates if row["statistic"] != "clipping bounds"]
    assert len(numbers) >= len(made) - 1
    missing = [(row["statistic"], figure) for row in numbers for figure in FIGURES if not math.isfinite(row[figure] or 0.0)]
    assert not missing
    assert all(row[figure] is not None for row in numbers for figure in FIGURES if row["statistic"] in ("mean", "total"))


BY_RATE = ds.poisson_by("rate", at_most=0.5)
OUT_OF_REACH_TERMS = {
    "a rate of nearly 0": lambda folder: a_survey(folder, ds.poisson(1e-300)),
    "the least rate of all": lambda folder: a_survey(
        folder, ds.stratified("region", within={"north": ds.poisson(5e-324), "south": ds.poisson(1.0)})
    ),
    "weights of the largest doubles": lambda folder: a_survey(
        folder, ds.poisson_by("rate", at_most=0.5), weight_range=(2.0, 1e308)
    ),
    "weights of the smallest doubles": lambda folder: a_survey(
        folder, ds.poisson_by("rate", at_most=0.5), weight_range=(5e-324, 10.0)
    ),
    "a frame of too many units": lambda folder: a_survey(folder, ds.poisson(0.3), size=10**400, regions=["north", "south"]),
    "a stratum of too many units": lambda folder: a_survey(folder, size=None, regions={"north": 10**400, "south": 80}),
    "sums of more than 64 bits": lambda folder: a_survey(folder, ds.srs(n=10**13), size=10**14, regions=["north", "south"]),
}


@pytest.mark.parametrize("make", OUT_OF_REACH_TERMS.values(), ids=OUT_OF_REACH_TERMS)
def test_weights_and_sizes_out_of_reach_spend_nothing(folder, make):
    with pytest.raises(BadValue):
        make(folder).plan(ds.mean("income", bounds=(0, 100))).release()
    assert not (folder / "books.ledger").exists()


def test_margins_out_of_reach_are_refused():
    for count in (5e-324, 8e307, 10**400):
        with pytest.raises(BadValue, match="not a positive number"):
            ds.calibrated(ds.mean("income", bounds=(0, 100)), {"region": {"north": count, "south": count}})
