"""What a plan predicts: by textbook formulas, digit for digit, and beside the spread of simulated releases.

The simulated comparisons are those of benchmarks/plan.py on a frame of 12,000 units, 16,000 surveys of each design, with fixed
seeds. One alarms when the predicted error differs from the realised one by more than 5 % and 5.3 standard errors of the
realised one: a prediction that is within 5 % does so with probability below 1.2e-7, and the seven comparisons together below
1e-6. The realised error is known to about 0.6 %, so that a prediction that is about 10 % off alarms, which is shown.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import dpsurvey as ds
from dpsurvey.ledger.terms import Terms
from dpsurvey.privacy import Budget, Setting
from dpsurvey.statistic import Statistic
from dpsurvey.survey.fieldwork import Fieldwork
from dpsurvey.survey.plan import Plan

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from coverage_designs import sampling
from coverage_frame import BOUNDS, make_population
from plan import studied
from plan_samples import frame as study_frame

N, TAKES, SIZES = 20_000, {"a": 2_500, "b": 1_500}, {"a": 12_000, "b": 8_000}
FRAME = ds.Frame(
    "f.parquet",
    unit="id",
    size=N,
    categories={"region": SIZES, "sex": {"f": 11_000, "m": 9_000}, "colour": ["red", "blue"]},
    public=("block", "chance"),
)
FIXED = Setting("sample", "frame", neighbours="replace-one")
RANDOM = Setting("sample", "frame", neighbours="add-remove")
DRAWN = Setting("frame", neighbours="replace-one")
BOUND = (10.0, 110.0)
MEAN, SD = 50.0, 20.0
STRATA = {"a": (40.0, 15.0), "b": (65.0, 12.0)}


def planned(design: Any, *asked: Statistic, setting: Setting = FIXED, response: Any = 1.0, epsilon: float = 5.0) -> Plan:
    weights = (20.0, 200.0) if design.kind in ("stages", "poisson-by") else None
    terms = Terms("test", FRAME, design.resolve(FRAME), setting, Budget(epsilon), weights)
    return Plan(terms, asked, fieldwork=Fieldwork(response=response))


def first(design: Any, asked: Statistic, **how: Any) -> dict[str, Any]:
    return planned(design, asked, **how).predictions[0]


def strata() -> Any:
    return ds.stratified("region", within={label: ds.srs(take) for label, take in TAKES.items()})


def mean(**how: Any) -> Statistic:
    return ds.mean("y", BOUND, **({"expect": (MEAN, SD)} | how))


@pytest.mark.parametrize("epsilon", [0.3, 5.0])
def test_the_noise_of_an_additive_number_is_that_of_its_mechanism_times_a_public_factor(epsilon: float) -> None:
    n, span = 4_000, BOUND[1] - BOUND[0]
    for asked, factor in ((mean(), span), (ds.total("y", BOUND), N * span), (ds.proportion("z", 1), 1.0)):
        plan = planned(ds.srs(n), asked, epsilon=epsilon)
        item = plan.items[0]
        sd = math.sqrt(item.mechanism.variance)
        assert plan.predictions[0]["se_noise"] == pytest.approx(factor * sd / (n * item.query.steps), rel=1e-9)
        assert not plan.predictions[0]["simulated"]


def test_the_sampling_error_of_equal_chances_is_the_formula_of_the_textbook() -> None:
    n = 4_000
    f, finite = n / N, N / (N - 1.0)
    square = (MEAN - BOUND[0]) ** 2 + SD**2
    srs = SD * math.sqrt((1.0 - f) / n * finite)
    expanded = ds.total("y", BOUND, expect=(MEAN, SD), estimator="horvitz-thompson")
    share = (n + 0.5) / N
    rounded = (N / (n + 0.5)) ** 2 * ((n + 0.5) * (1.0 - share) * finite * SD**2 + 0.25 * (MEAN - BOUND[0]) ** 2)
    p = 0.3
    for found, exact in (
        (first(ds.srs(n), mean()), srs),
        (first(ds.systematic(n, order="random"), mean()), srs),
        (first(ds.srs(n), ds.total("y", BOUND, expect=(MEAN, SD))), N * srs),
        (first(ds.srs(n), ds.proportion("z", 1, expect=p)), math.sqrt((1.0 - f) / n * finite * p * (1.0 - p))),
        (first(ds.with_replacement(n), mean(), setting=DRAWN), SD / math.sqrt(n)),
        (first(ds.poisson(f), mean(), setting=RANDOM), SD * math.sqrt((1.0 - f) / n)),
        (first(ds.poisson(f), expanded, setting=RANDOM), math.sqrt(N * (1.0 - f) / f * square)),
        (first(ds.proportional(share), expanded, setting=DRAWN), math.sqrt(rounded)),
    ):
        assert found["se_sampling"] == pytest.approx(exact, rel=1e-6)


def test_the_sampling_error_of_strata_is_the_formula_of_the_textbook() -> None:
    def within(label: str, sd: float) -> float:
        size, take = SIZES[label], TAKES[label]
        return (1.0 - take / size) / take * size / (size - 1.0) * sd**2

    exact = math.sqrt(math.fsum((SIZES[label] / N) ** 2 * within(label, sd) for label, (_, sd) in STRATA.items()))
    for estimator in ("pooled", "by-stratum", "separate-variance"):
        assert first(strata(), mean(expect=STRATA, estimator=estimator))["se_sampling"] == pytest.approx(exact, rel=1e-6)
    rows = planned(strata(), mean(expect=STRATA, by="region")).predictions
    for row, (label, (_, sd)) in zip(rows, STRATA.items(), strict=True):
        assert row["by"] == {"region": label}
        assert row["se_sampling"] == pytest.approx(math.sqrt(within(label, sd)), rel=1e-6)


def test_groups_within_a_simple_random_sample_have_the_error_of_a_domain() -> None:
    n = 4_000
    f, finite = n / N, N / (N - 1.0)
    for place, p in enumerate((0.55, 0.45)):
        row = planned(ds.srs(n), mean(by="sex")).predictions[place]
        assert row["se_sampling"] == pytest.approx(SD * math.sqrt((1.0 - f) * finite / (n * p)), rel=1e-6)
        row = planned(ds.srs(n), ds.count(by="sex")).predictions[place]
        assert row["se_sampling"] == pytest.approx(N * math.sqrt((1.0 - f) * finite * p * (1.0 - p) / n), rel=1e-6)


def test_units_that_do_not_answer_thin_each_stratum_by_its_own_rate() -> None:
    rates = {"a": 0.5, "b": 0.8}
    weight = {label: SIZES[label] / TAKES[label] for label in SIZES}
    answers = {label: TAKES[label] * rates[label] * weight[label] for label in SIZES}
    whole = math.fsum(answers.values())
    centre = math.fsum(answers[label] * STRATA[label][0] for label in SIZES) / whole
    variance = 0.0
    for label, (own, sd) in STRATA.items():
        n, r, f = TAKES[label], rates[label], TAKES[label] / SIZES[label]
        square = sd**2 + (own - centre) ** 2
        # n r(1 - f r) E z^2 - n(1 - f) r^2 (E z)^2
        drawn = n * r * (1.0 - f * r) * square - n * (1.0 - f) * r**2 * (own - centre) ** 2
        variance += (weight[label] / whole) ** 2 * SIZES[label] / (SIZES[label] - 1.0) * drawn
    found = first(strata(), mean(expect=STRATA), response=rates)
    assert found["se_sampling"] == pytest.approx(math.sqrt(variance), rel=1e-6)
    assert first(strata(), mean(expect=STRATA))["se_sampling"] < 0.9 * found["se_sampling"]


@pytest.mark.parametrize("deff", [0.6, 1.0, 3.0])
def test_a_design_effect_multiplies_the_variance_of_a_simple_random_sample_of_as_many_units(deff: float) -> None:
    for design, n, setting in (
        (ds.srs(4_000), 4_000, FIXED),
        (strata(), 4_000, FIXED),
        (ds.cluster("block", ds.srs(200), clusters=1_000), 4_000, FIXED),
        (ds.stages(ds.cluster("block", ds.srs(800), clusters=1_000), ds.srs(5)), 4_000, FIXED),
    ):
        found = first(design, mean(deff=deff), setting=setting, epsilon=200.0)["se_sampling"]
        assert found == pytest.approx(SD * math.sqrt(deff * (1.0 - n / N) / n * N / (N - 1.0)), rel=1e-6)


def test_every_prediction_names_the_figure_that_it_rests_on() -> None:
    def said(asked: Statistic) -> str:
        return str(first(ds.srs(4_000), asked)["rests_on"])

    assert said(ds.mean("y", BOUND)) == "the worst case within the bounds"
    assert said(ds.proportion("z", 1)) == "the worst case, one half"
    assert said(mean()) == "the declared mean and sd"
    assert said(mean(expect=STRATA, source="the 2021 survey")) == "the declared mean and sd by category, from the 2021 survey"
    assert said(ds.count(by="sex")) == "the declared sizes of the groups"
    assert said(mean(by="colour")).endswith("groups of undeclared size as if columns were unrelated and categories equal")


def test_a_ratio_to_little_more_than_noise_has_no_predicted_error_and_a_mean_always_has() -> None:
    ratio = ds.ratio("y", "x", (0, 100), (0, 100), expect=(2.0, 1.0, 2.0, 1.0, 0.5))
    assert first(ds.srs(50), ratio, epsilon=0.1)["se"] is None
    assert first(ds.srs(4_000), ratio)["se"] > 0.0
    # Within bounds no error is larger than their distance, however little a group says.
    rows = planned(ds.srs(50), mean(by="sex"), epsilon=0.1).predictions
    assert all(0.0 < row["se"] < BOUND[1] - BOUND[0] for row in rows)


COPIES, UNITS, RUNS, ALARM = 2, 200, 16_000, 5.3


@lru_cache
def compared(design: str, *wanted: str) -> dict[str, dict[str, Any]]:
    """Rows of the study by the name of the number."""
    rows = studied(design, UNITS, (1.0,), RUNS, copies=COPIES, wanted=wanted)
    return {row["name"].split("/")[1]: row for row in rows}


def alarms(predicted: float, row: dict[str, Any]) -> bool:
    return abs(predicted / row["reference"] - 1.0) > 0.05 + ALARM * row["doubt"]


CELLS = {
    "srs": ("mean of y", "proportion of b in group c", "median of y"),
    "stratified, equal takes": ("mean of y, separate-variance", "count of group a"),
    "cluster": ("mean of y", "proportion of b in group a"),
}


@pytest.mark.parametrize("design", CELLS)
def test_predicted_errors_are_within_five_per_cent_of_realised_ones(design: str) -> None:
    rows = compared(design, *CELLS[design])
    assert set(rows) == set(CELLS[design])
    for name, row in rows.items():
        assert not row["regime"], name
        assert row["doubt"] < 0.012
        assert not alarms(row["value"], row), (name, row["ratio"])


def test_the_comparison_alarms_for_a_declared_deviation_that_is_too_large() -> None:
    row = compared("srs", *CELLS["srs"])["mean of y"]
    here, value = sampling("srs", UNITS, COPIES), make_population(COPIES).clipped["y"]
    terms = Terms("study", study_frame(COPIES), here.design.resolve(study_frame(COPIES)), here.setting, Budget(1.0))
    told = {factor: (float(value.mean()), factor * float(value.std())) for factor in (1.0, 1.15)}
    found = {factor: Plan(terms, (ds.mean("y", BOUNDS["y"], expect=pair),)).predictions[0]["se"] for factor, pair in told.items()}
    assert found[1.0] == pytest.approx(row["value"], rel=1e-9)
    assert 1.08 < found[1.15] / found[1.0] < 1.12
    assert alarms(found[1.15], row)
    assert not alarms(found[1.0], row)
