"""Allocations are those of R PracTools' strAlloc: shares before rounding and the standard error of the mean."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpsurvey.design.allocation.allocate import allocate
from dpsurvey.design.allocation.takes import stratified_se

pytestmark = pytest.mark.quick

GOLDEN = json.loads((Path(__file__).parent / "allocations.json").read_text(encoding="utf-8"))
STRATA = tuple("abcdef")
SIZES, DEVIATIONS, COSTS = (dict(zip(STRATA, GOLDEN[name], strict=True)) for name in ("Nh", "Sh", "ch"))
PUBLISHED = {"sizes": SIZES, "deviations": DEVIATIONS, "source": "PracTools, example of strAlloc"}
# The mean of the reference: its standard error is 5 % of it.
MEAN = 583209.05 / 0.05

ASK = {
    "proportional_n100": lambda: allocate("proportional", n=100, **PUBLISHED),
    "neyman_n100": lambda: allocate("neyman", n=100, **PUBLISHED),
    "cost_100000": lambda: allocate("cost", budget=100_000, costs=COSTS, **PUBLISHED),
    "cv05_mincost": lambda: allocate("precision", cv=0.05, mean=MEAN, costs=COSTS, **PUBLISHED),
}


def array(figures):
    return np.array(list(figures.values()), dtype=float)


def test_every_reference_is_asked_for():
    assert {name for name, each in GOLDEN.items() if isinstance(each, dict)} == set(ASK)


@pytest.mark.parametrize("name", ASK)
def test_shares_before_rounding_are_those_of_the_reference(name):
    assert list(ASK[name]().exact.values()) == pytest.approx(GOLDEN[name]["nh"], rel=1e-9)


@pytest.mark.parametrize("name", [name for name in ASK if "se_mean" in GOLDEN[name]])
def test_the_standard_error_of_the_mean_is_that_of_the_reference(name):
    found = stratified_se(array(SIZES), array(DEVIATIONS), array(ASK[name]().exact))
    assert found == pytest.approx(GOLDEN[name]["se_mean"], rel=1e-9)


@pytest.mark.parametrize("name", [name for name in ASK if "se_mean" in GOLDEN[name]])
def test_whole_numbers_cost_little_precision_beside_the_reference(name):
    # Rounding six strata of some 100 units: less than 1 % of the standard error; the cv rule rounds towards precision.
    assert ASK[name]().se_mean == pytest.approx(GOLDEN[name]["se_mean"], rel=0.01)
    assert name != "cv05_mincost" or ASK[name]().se_mean <= GOLDEN[name]["se_mean"]


def test_the_cost_of_the_reference_is_kept_and_nearly_used():
    assert 100_000 - min(GOLDEN["ch"]) < ASK["cost_100000"]().cost <= 100_000
