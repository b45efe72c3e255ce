"""Classical estimates and standard errors are those of R's survey package, and with the noise off the package returns to them."""

from __future__ import annotations

import csv
import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.design import Design
from dpsurvey.engine import Engine, Expectations
from dpsurvey.mechanism import Laplace
from dpsurvey.statistic import Estimates, Statistic
from dpsurvey.statistic.facts import Facts
from dpsurvey.statistic.noisy_sums import Asked

pytestmark = pytest.mark.quick

HERE = Path(__file__).parent
CASES = {case["id"]: case for case in json.loads((HERE / "r_survey.json").read_text())["cases"]}
STRATA = {"1": 600, "2": 800, "3": 900, "4": 1000, "5": 1200, "6": 1500}
FRAME = ds.Frame("synthetic", unit="unit", size=6000, categories={"stratum": STRATA, "dom": ("a", "b", "c")})
BOUNDS = {"y": (0.0, 400.0), "x": (0.0, 200.0)}
RATE = 0.05
# Discrete Laplace noise of this scale is zero but for one time in e^100: no noise, with the intervals' code in place.
NO_NOISE = 0.01


@lru_cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    with (HERE / f"synth_{name}.csv").open() as file:
        return tuple(csv.DictReader(file))


def values(name: str, column: str, stratum: str | None = None) -> np.ndarray:
    return np.array([float(row[column]) for row in rows(name) if stratum in (None, row["stratum"])])


def design_of(name: str) -> Design:
    if name == "srs":
        return ds.srs(300).resolve(FRAME)
    if name == "bernoulli":
        return ds.poisson(RATE).resolve(FRAME)
    takes = {label: len(values("strat", "y", label)) for label in STRATA}
    return ds.stratified("stratum", within={label: ds.srs(take) for label, take in takes.items()}).resolve(FRAME)


def result(name: str, what: str) -> dict[str, float]:
    found: dict[str, float] = CASES[f"synth_{name}_{what}"]["result"]
    return found


def test_the_samples_are_those_the_numbers_were_made_from() -> None:
    assert [len(rows(name)) for name in ("srs", "strat", "bernoulli")] == [300, 300, 312]
    assert {row["fpc"] for row in rows("srs")} == {"6000"}
    assert {(row["stratum"], int(row["fpc"])) for row in rows("strat")} == set(STRATA.items())
    assert {float(row["p"]) for row in rows("bernoulli")} == {RATE}


@pytest.mark.parametrize(
    ("name", "what", "column", "scale"),
    [
        *((name, f"total_{column}", column, 1) for name in ("srs", "strat", "bernoulli") for column in ("y", "x")),
        ("strat", "prop_b_mean", "b", 6000),
    ],
)
def test_weights_of_the_design_give_rs_totals(name: str, what: str, column: str, scale: int) -> None:
    parts = design_of(name).parts()
    weighted = sum(part.weight * values(name, column, part.label).sum() for part in parts)
    assert weighted / scale == pytest.approx(result(name, what)["estimate"], rel=1e-9)


def without_noise(name: str, statistic: Statistic) -> Estimates:
    """What the package publishes from the file's own sums, through DuckDB, when the mechanism adds nothing."""
    design = design_of(name)
    facts = Facts(FRAME, design, "replace-one" if design.fixed_size else "add-remove", "L1")
    query = statistic.query(facts)
    engine = Engine(str(HERE / f"synth_{name}.csv"))
    engine.draw(ds.poisson(1.0).recipe(), Expectations(unit="unit", numeric=("y", "x"), present=("b", "dom", "stratum")))
    sums = engine.sums(query).values.astype(np.float64)
    return statistic.estimate(Asked(query, facts, Laplace(NO_NOISE, 1.0)).answered(sums))


def mean_of(column: str, **by: Any) -> Statistic:
    return ds.mean(column, BOUNDS[column], **by)


@pytest.mark.parametrize("column", ["y", "x"])
@pytest.mark.parametrize("name", ["srs", "bernoulli"])
def test_without_noise_a_mean_and_its_sampling_error_are_rs(name: str, column: str) -> None:
    expected, numbers = result(name, f"mean_{column}"), without_noise(name, mean_of(column))
    # A lattice step is a millionth of the bounds, and so is the error of a mean of rounded values.
    assert numbers.estimate[0] == pytest.approx(expected["estimate"], abs=1e-6 * BOUNDS[column][1])
    # Two sums carry the variance of a simple random sample; the three of a random size are rounded once more.
    assert numbers.se_sampling[0] == pytest.approx(expected["se"], rel=1e-5 if name == "srs" else 1e-4)
    assert numbers.se_noise[0] < 1e-12


@pytest.mark.parametrize("column", ["y", "x"])
def test_without_noise_the_interval_of_a_simple_random_sample_is_rs_but_for_the_skew_allowance(column: str) -> None:
    expected, numbers = result("srs", f"mean_{column}"), without_noise("srs", mean_of(column))
    assert numbers.low[0] == pytest.approx(expected["ci_t_low"], rel=1e-6)
    # The end away from the nearer bound is moved out, by less than a tenth of the interval.
    assert 0.0 < numbers.high[0] - expected["ci_t_high"] < 0.1 * (expected["ci_t_high"] - expected["ci_t_low"])


@pytest.mark.parametrize("column", ["y", "x"])
def test_without_noise_a_total_is_the_frame_size_times_rs_mean(column: str) -> None:
    expected = result("srs", f"total_{column}")
    numbers = without_noise("srs", ds.total(column, BOUNDS[column]))
    assert numbers.estimate[0] == pytest.approx(expected["estimate"], abs=6000 * 1e-6 * BOUNDS[column][1])
    assert numbers.se_sampling[0] == pytest.approx(expected["se"], rel=1e-5)


@pytest.mark.parametrize("column", ["y", "x"])
def test_without_noise_a_stratified_total_is_rs_and_its_error_is_not_below_rs(column: str) -> None:
    expected, numbers = result("strat", f"total_{column}"), without_noise("strat", ds.total(column, BOUNDS[column]))
    assert numbers.estimate[0] == pytest.approx(expected["estimate"], abs=6000 * 2e-6 * BOUNDS[column][1])
    assert expected["se"] <= numbers.se_sampling[0] <= 1.5 * expected["se"]


def test_without_noise_a_bernoulli_proportion_and_its_sampling_error_are_rs() -> None:
    expected, numbers = result("bernoulli", "mean_b"), without_noise("bernoulli", ds.proportion("b", 1))
    assert numbers.estimate[0] == pytest.approx(expected["estimate"], rel=1e-9)
    assert numbers.se_sampling[0] == pytest.approx(expected["se"], rel=1e-9)


def test_without_noise_a_proportion_is_rs() -> None:
    expected, numbers = result("srs", "prop_b_mean"), without_noise("srs", ds.proportion("b", 1))
    assert numbers.estimate[0] == pytest.approx(expected["estimate"], rel=1e-9)
    # R estimates the population's N p(1-p)/(N-1) by n p(1-p)/(n-1); as a function of p it is known.
    assert numbers.se_sampling[0] == pytest.approx(expected["se"] * math.sqrt(299 / 300 * 6000 / 5999), rel=1e-9)


def test_without_noise_a_stratified_proportion_is_rs_and_its_error_is_the_largest_that_strata_could_have() -> None:
    expected, numbers = result("strat", "prop_b_mean"), without_noise("strat", ds.proportion("b", 1))
    assert numbers.estimate[0] == pytest.approx(expected["estimate"], rel=1e-5)
    variance = 0.0
    for part in design_of("strat").parts():
        b = values("strat", "b", part.label)
        variance += (STRATA[str(part.label)] / 6000) ** 2 * (1.0 - part.probability) * b.var() / len(b)
    # R's own figure has n_h - 1 where a function of p has n_h; the strata's real proportions give less than the worst case.
    assert math.sqrt(variance) < expected["se"] < 1.02 * math.sqrt(variance)
    assert math.sqrt(variance) <= numbers.se_sampling[0] <= 1.1 * math.sqrt(variance)


@pytest.mark.parametrize("name", ["srs", "strat"])
def test_without_noise_domain_means_are_rs(name: str) -> None:
    numbers = without_noise(name, mean_of("y", by="dom"))
    for index, domain in enumerate(("a", "b", "c")):
        expected = result(name, f"domain_mean_y_dom_{domain}")
        assert numbers.estimate[index] == pytest.approx(expected["estimate"], abs=2e-6 * BOUNDS["y"][1])
        if name == "srs":
            # Linearised, with N/(N - 1) where R has n/(n - 1).
            assert numbers.se_sampling[index] == pytest.approx(expected["se"] * math.sqrt(299 / 300 * 6000 / 5999), rel=1e-4)
        else:
            # The largest weight stands for all, and the gain of stratification is not claimed: never below R's.
            assert expected["se"] <= numbers.se_sampling[index] <= 1.5 * expected["se"]


def test_without_noise_a_stratified_mean_is_rs_and_its_error_is_not_below_rs() -> None:
    for column in ("y", "x"):
        expected, numbers = result("strat", f"mean_{column}"), without_noise("strat", mean_of(column))
        assert numbers.estimate[0] == pytest.approx(expected["estimate"], abs=2e-6 * BOUNDS[column][1])
        assert expected["se"] <= numbers.se_sampling[0] <= 1.5 * expected["se"]


def test_without_noise_means_of_strata_are_the_classical_ones() -> None:
    numbers = without_noise("strat", mean_of("y", by="stratum"))
    for index, (label, size) in enumerate(STRATA.items()):
        y = values("strat", "y", label)
        assert numbers.estimate[index] == pytest.approx(y.mean(), abs=1e-6 * BOUNDS["y"][1])
        se = math.sqrt((1.0 - len(y) / size) * y.var(ddof=1) / len(y))
        assert numbers.se_sampling[index] == pytest.approx(se, rel=1e-5)
