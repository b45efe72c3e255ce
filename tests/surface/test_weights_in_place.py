"""Files of weighted records as somebody asks about them: fixed groups, weights by category, cuts, totals per unit of size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadData, BadValue
from dpsurvey.planning import best_cut
from dpsurvey.statistic.in_place import InPlace
from dpsurvey.survey.survey_file import SurveyFile, write_survey_file

pytestmark = pytest.mark.quick

random = np.random.default_rng(20)
SEX = np.repeat(["f", "m"], [600, 900])
WEIGHT = np.where(SEX == "f", random.uniform(1.0, 5.0, 1500), random.uniform(1.0, 50.0, 1500))
Y = np.clip(random.gamma(2.0, 15.0, 1500), 0.0, 100.0)
ROWS = pa.table({"w": WEIGHT, "y": Y, "sex": SEX.tolist(), "job": np.where(Y > 40.0, "yes", "no").tolist()})
SIZES = {label: round(float(WEIGHT[label == SEX].sum())) for label in ("f", "m")}


def survey(folder: Path, name: str = "books", rows: Any = ROWS, **options: Any) -> ds.Survey:
    given: dict[str, Any] = {
        "weights": "w",
        "weights_are": "design",
        "weight_range": (1, 50),
        "size": sum(SIZES.values()),
        "fixed": ["sex"],
    }
    given |= {"categories": {"sex": SIZES, "job": ("yes", "no")}, "budget": ds.Budget(20.0)}
    return ds.Survey.collected(rows, ledger=folder / f"{name}.ledger", **given | options)


def truth(values: np.ndarray[Any, Any], label: str) -> float:
    inside = label == SEX
    return float(np.average(values[inside], weights=WEIGHT[inside]))


def test_numbers_of_fixed_groups_are_those_of_the_file_but_for_noise_of_the_stated_size(tmp_path: Path) -> None:
    mean, share = ds.mean("y", (0, 100), by="sex"), ds.proportion("job", "yes", by="sex")
    release = survey(tmp_path).plan(mean, share, ds.count("job", "yes", by="sex"), ds.total("y", (0, 100), by="sex")).release()
    yes = (Y > 40.0).astype(float)
    for row in release.estimates:
        label, counted = row["by"]["sex"], row["statistic"] in ("proportion", "count")
        scale = SIZES[label] if row["statistic"] in ("count", "total") else 1.0
        # Laplace noise exceeds 14 of its standard deviations with a probability of 3e-9.
        assert abs(row["estimate"] - scale * truth(yes if counted else Y, label)) < 14.0 * row["se_noise"]
        assert row["se_noise"] < row["se_sampling"]
    # Counts and shares, totals and means, read the same sums.
    assert len(release.document["noisy_sums"]) == 2
    assert release.recompute() == release.estimates


def test_standard_errors_of_a_large_epsilon_are_the_linearised_ones(tmp_path: Path) -> None:
    plan = survey(tmp_path, budget=ds.Budget(20_000.0)).plan(ds.mean("y", (0, 100)), ds.proportion("job", "yes", by="sex"))
    found = [row["se_sampling"] for row in plan.release().estimates]
    yes = (Y > 40.0).astype(float)
    for values, inside, error in zip((Y, yes, yes), (SEX != "", SEX == "f", SEX == "m"), found, strict=True):
        w, v = WEIGHT[inside], values[inside]
        residual = w * (v - np.average(v, weights=w)) / w.sum()
        assert error == pytest.approx(np.sqrt((residual**2).sum()), rel=2e-3)


def test_each_category_has_the_noise_of_its_own_largest_weight(tmp_path: Path) -> None:
    by_category = {"f": (1, 5), "m": (1, 50)}
    # Of two columns, so that neither reads the sums of the other.
    statistics = ds.mean("y", (0, 100), by="sex"), ds.mean("w", (0, 50))
    noise = []
    for place, weights in enumerate(((1, 50), by_category)):
        plan = survey(tmp_path, f"books{place}", weight_range=weights).plan(*statistics)
        noise.append([row["se_noise"] for row in plan.predictions])
        sampling = [row["se_sampling"] for row in plan.predictions]
        release = plan.release()
        assert release.recompute() == release.estimates
        noise[-1] += [row["se_noise"] for row in release.estimates]
        assert sampling == pytest.approx([row["se_sampling"] for row in survey(tmp_path, "other").plan(*statistics).predictions])
    one, own = noise
    # Women, ten times less by prediction and as released; men and the whole as before.
    assert own[0] == pytest.approx(one[0] / 10.0, rel=0.15)
    assert own[3] == pytest.approx(one[3] / 10.0, rel=0.3)
    assert own[1:3] == pytest.approx(one[1:3])


def test_a_unit_loses_by_the_largest_weight_of_its_category(tmp_path: Path) -> None:
    plan = survey(tmp_path, weight_range={"f": (1, 5), "m": (1, 50)}, budget=ds.Budget(1.0)).plan(
        ds.mean("y", (0, 100), by="sex")
    )
    lowest, highest = (row["epsilon"] for row in plan.unit_losses)
    # A fifth of the largest weight of women, u(2 - u) of the charge: squares of weights use the room that a weight leaves.
    assert lowest == pytest.approx(0.2 * 1.8, rel=1e-4)
    assert highest == pytest.approx(1.0)


def test_weights_outside_the_range_of_their_category_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="outside the declared range"):
        survey(tmp_path, weight_range={"f": (1, 4), "m": (1, 50)}).plan(ds.mean("y", (0, 100))).release()
    for wrong in ({"f": (1, 5)}, {"yes": (1, 5), "no": (1, 50)}, {}):
        with pytest.raises(BadValue):
            survey(tmp_path, weight_range=wrong)


def test_a_survey_file_holds_fixed_columns_and_weights_by_category(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(ROWS, tmp_path / "file.parquet")
    asked = ds.mean("y", (0, 100), trim=30.0, trimmed=0.2), ds.mean("y", (0, 100), by="sex")
    here = survey(tmp_path, rows=str(tmp_path / "file.parquet"), weight_range={"f": (1, 5), "m": (1, 50)})
    plan = here.plan(*asked)
    write_survey_file(tmp_path / "survey.toml", here, plan)
    text = (tmp_path / "survey.toml").read_text()
    assert "fixed = [" in text
    read = SurveyFile.read(tmp_path / "survey.toml")
    assert read.survey().terms == here.terms
    assert read.plan(read.survey()) == plan


@pytest.fixture(scope="module")
def long_tail() -> pa.Table:
    weights = np.concatenate([np.linspace(1.0, 5.0, 994), [50.0] * 6])
    values = np.clip(np.random.default_rng(3).gamma(2.0, 15.0, 1000), 0.0, 100.0)
    return pa.table({"w": weights, "y": values})


def test_a_cut_with_a_declared_share_is_compared_with_the_file_and_shortens_intervals(
    tmp_path: Path, long_tail: pa.Table
) -> None:
    trim, trimmed = best_cut(long_tail["w"].to_pylist(), 0.3, 0.3, 0.15)
    assert trim is not None
    assert trimmed is not None
    given: dict[str, Any] = {"rows": long_tail, "categories": None, "fixed": (), "size": 3280, "budget": ds.Budget(0.3)}
    plain, cut = ds.mean("y", (0, 100)), ds.mean("y", (0, 100), trim=trim, trimmed=trimmed)
    ends = []
    for place, statistic in enumerate((plain, cut)):
        release = survey(tmp_path, f"books{place}", **given).plan(statistic).release()
        (row,) = release.estimates
        ends.append(row["ci_high"] - row["ci_low"])
        assert release.recompute() == release.estimates
    assert ends[1] < 0.8 * ends[0]
    with pytest.raises(BadData, match="more of the weights lies above"):
        survey(tmp_path, "wrong", **given).plan(ds.mean("y", (0, 100), trim=trim, trimmed=trimmed / 2.0)).release()


def test_where_weights_are_no_constants_or_numbers_are_of_a_part_a_cut_has_no_declared_share(tmp_path: Path) -> None:
    free = ds.Setting("sample", "frame", neighbours="add-remove")
    with pytest.raises(BadValue, match="compared with it"):
        survey(tmp_path, setting=free, fixed=()).plan(ds.mean("y", (0, 100), trim=10, trimmed=0.1))
    with pytest.raises(BadValue, match="numbers of the whole"):
        survey(tmp_path).plan(ds.mean("y", (0, 100), by="sex", trim=10, trimmed=0.1))
    with pytest.raises(BadValue, match="trim= cuts off"):
        ds.mean("y", (0, 100), trimmed=0.1)
    for wrong in ([], [1.0, -2.0], [1.0, float("nan")]):
        with pytest.raises(BadValue):
            best_cut(wrong, 1.0)
    assert best_cut([1.0] * 100, 1.0) == (None, None)


def test_about_three_over_epsilon_records_are_cut_and_fewer_where_sampling_dominates() -> None:
    weights = np.sort(np.random.default_rng(5).pareto(2.2, 2000) + 1.0)[::-1]
    heavy = []
    for epsilon in (0.1, 0.3, 1.0, 30.0):
        trim = best_cut(weights, epsilon).trim
        heavy.append(0 if trim is None else int((weights > trim).sum()))
    assert heavy == sorted(heavy, reverse=True)
    assert 20 <= heavy[0] <= 60
    assert heavy[-1] == 0


SIZE = np.minimum(np.round(np.exp(np.random.default_rng(9).normal(2.5, 0.7, 3000))) + 1.0, 60.0)
TURNOVER = SIZE * np.clip(np.random.default_rng(10).gamma(6.0, 12.0, 3000), 0.0, 300.0)
FIRMS = pa.table({"id": np.arange(3000), "size": SIZE, "turnover": TURNOVER})


@pytest.mark.parametrize("method", ["sampford", "poisson"])
def test_a_total_per_unit_of_size_has_the_noise_of_the_ratio(method: str, tmp_path: Path) -> None:
    frame, mean_size = ds.Frame(FIRMS, "id", 3000, public=["size"]), float(SIZE.sum()) / 200.0
    design, setting = ds.pps("size", n=200, method=method), ds.Setting("sample", "frame", neighbours="replace-one")
    per = ds.total("turnover", (0, 300), per="size", weighted_size=(mean_size, mean_size))
    plain = ds.total("turnover", (0, 300 * 60), estimator="horvitz-thompson")
    rows = []
    for name, statistic in (("per", per), ("plain", plain)):
        made = ds.Survey(
            frame,
            design,
            setting,
            budget=ds.Budget(1.0),
            ledger=tmp_path / f"{name}.ledger",
            weight_range=(mean_size / 60.0, mean_size / 2.0),
        )
        release = made.plan(statistic).release()
        rows.append(release.estimates[0])
        assert release.recompute() == release.estimates
    own, other = rows
    assert other["se_noise"] > 25.0 * own["se_noise"]
    # Fourteen standard errors of noise and sampling together.
    assert abs(own["estimate"] - TURNOVER.sum()) < 14.0 * own["se"]
    assert own["ci_low"] < own["estimate"] < own["ci_high"]


def test_values_per_unit_of_size_are_for_totals_of_units_weighted_one_by_one(tmp_path: Path) -> None:
    for wrong in (
        {"per": "size"},
        {"weighted_size": (1, 2)},
        {"per": "size", "weighted_size": (2, 1)},
        {"per": "size", "weighted_size": "x"},
    ):
        with pytest.raises(BadValue):
            ds.total("y", (0, 1), **wrong)
    per: Any = {"per": "w", "weighted_size": (1, 50)}
    with pytest.raises(BadValue, match="for the whole frame"):
        survey(tmp_path).plan(ds.total("y", (0, 1), by="sex", **per))
    with pytest.raises(BadValue, match="start at 0"):
        survey(tmp_path).plan(ds.total("y", (1, 2), **per))
    assert isinstance(survey(tmp_path).plan(ds.total("y", (0, 1))).items[0].query.encoding, InPlace)
