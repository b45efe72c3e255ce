"""What comes out of a release: tables for pandas, polars and Arrow, files, marks, notes, consistent tables and private bounds."""

import csv
import io
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.consistent import consistent_tables, on_simplex
from dpsurvey.errors import NotFound
from dpsurvey.estimates import COLUMNS, reliability

REGIONS, SEXES = {"north": 1200, "south": 600, "island": 200}, ("female", "male")
SIZE = sum(REGIONS.values())
MEAN = ds.mean("income", bounds=(0, 100), by="region")
TABLE = ds.table("region", "sex")
MEDIAN = ds.median("income", bounds=(0, 100), method="smooth")
BOUNDS = ds.clipping_bounds("income", within=(0, 1e6))


def people():
    rng = np.random.default_rng(31)
    return pd.DataFrame(
        {
            "id": range(SIZE),
            "region": np.repeat(list(REGIONS), list(REGIONS.values())),
            "sex": rng.choice(SEXES, SIZE, p=[0.4, 0.6]),
            "income": rng.normal(50, 15, SIZE),
            "answered": np.where(rng.random(SIZE) < 0.1, np.nan, 1.0),
        }
    )


def a_survey(folder, epsilon=5.0, delta=0.0, design=None, name="lfs"):
    frame = ds.Frame(people(), "id", SIZE, {"region": REGIONS, "sex": SEXES})
    return ds.Survey(
        frame, design or ds.srs(n=500), budget=ds.Budget(epsilon, delta), ledger=folder / f"{name}.ledger", name=name
    )


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Numbers of every shape: groups of two columns, of one and of none; numbers without errors; a contrast; bounds."""
    survey = a_survey(tmp_path_factory.mktemp("release"), delta=1e-6)
    contrast = ds.contrast(ds.mean("income", bounds=(0, 100), by="sex"), "female", "male")
    women = ds.proportion("region", "north", where={"sex": "female"})
    return survey.plan(MEAN, TABLE, MEDIAN, BOUNDS, contrast, women, ds.quantile("income", 0.9, bounds=(0, 100))).release()


FLAT = ["statistic", "of", "region", "sex", "bound", *COLUMNS, "df", "method", "mark", "share", "notes"]
NUMBERS = {*COLUMNS, "df", "share"}


def as_text(value):
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def test_every_table_has_the_same_columns_and_a_row_for_every_number(release):
    arrow = release.to_arrow()
    assert set(arrow.column_names) == set(FLAT)
    assert arrow.column_names == list(release.to_pandas().columns)
    assert arrow.num_rows == len(release.to_pandas()) == len(release.estimates) == 3 + 11 + 1 + 2 + 1 + 1 + 1
    for row, found in zip(release.estimates, arrow.to_pylist(), strict=True):
        assert {column: found[column] for column in COLUMNS} == {column: row[column] for column in COLUMNS}
        assert {column: found[column] for column in ("region", "sex", "bound") if found[column] is not None} == row["by"]
        assert (found["statistic"], found["of"], found["mark"]) == (row["statistic"], row["label"], row["mark"])
        assert found["notes"] == "; ".join(row["notes"])


def test_numbers_are_doubles_and_words_are_text_even_where_all_are_missing(release, tmp_path):
    only_medians = a_survey(tmp_path, delta=1e-6, name="medians").plan(MEDIAN).release()
    assert only_medians.estimates[0]["se"] is None
    for each in (release, only_medians):
        for field in each.to_arrow().schema:
            assert field.type == (pa.float64() if field.name in NUMBERS else pa.string()), field.name
    assert only_medians.to_pandas()["se"].dtype == np.float64


def test_polars_gets_the_same_table(release):
    pytest.importorskip("polars")
    table = release.to_polars()
    assert table.to_arrow().to_pylist() == release.to_arrow().to_pylist()


def test_parquet_and_csv_hold_the_same_table(release, tmp_path):
    path = release.save(tmp_path / "release.parquet")
    assert pq.read_table(path).to_pylist() == release.to_arrow().to_pylist()
    lines = list(csv.DictReader(io.StringIO(release.save(tmp_path / "release.csv").read_text())))
    for line, row in zip(lines, release.to_arrow().to_pylist(), strict=True):
        assert line == {name: as_text(value) for name, value in row.items()}
    assert {each.name for each in tmp_path.iterdir()} == {"release.parquet", "release.csv"}, "no part of a file stays behind"


def test_a_release_loaded_from_json_gives_the_same_tables(release, tmp_path):
    again = ds.Release.load(release.save(tmp_path / "release.json"))
    assert again.to_arrow().to_pylist() == release.to_arrow().to_pylist()
    assert again.consistent() == release.consistent()
    assert again.bounds("income") == release.bounds("income")
    assert str(again) == str(release)


def test_labels_say_what_a_number_is_of(release):
    labels = {row["statistic"]: row["label"] for row in release.estimates}
    assert labels["contrast"] == "mean of income, sex female less male"
    assert labels["proportion"] == "region = north where sex = female"
    assert labels["table"] == "region by sex"
    assert {row["label"] for row in release.estimates if row["statistic"] == "quantile"} == {"income at 0.5", "income at 0.9"}


def test_marks_follow_the_coefficient_of_variation_of_sampling_and_noise_together(release):
    for row in release.estimates:
        if row["se"] is None or not row["estimate"]:
            assert row["mark"] == "poor"
        else:
            assert row["se"] == pytest.approx(math.hypot(row["se_sampling"], row["se_noise"]))
            assert row["cv"] == pytest.approx(row["se"] / abs(row["estimate"]))
            # An interval that is wider than its standard error says can only make the mark worse.
            marks = ("good", "fair", "poor")
            assert marks.index(row["mark"]) >= marks.index(reliability(row["cv"]))
    assert [reliability(cv) for cv in (0.0, 1 / 6, 0.1667, 1 / 3, 0.3334, math.inf)] == [
        *("good", "good", "fair", "fair", "poor", "poor"),
    ]


def test_every_number_says_how_its_interval_was_made_and_notes_are_printed_once(release):
    assert all(row["method"] for row in release.estimates)
    notes = {note for row in release.estimates for note in row["notes"]}
    assert any(note.startswith("a point estimate") for note in notes)
    assert any(note.startswith("a choice of bounds") for note in notes)
    text = str(release)
    assert all(text.count(note) == 1 for note in notes)
    assert [f"[{number}]" in text for number in range(1, len(notes) + 2)] == [True] * len(notes) + [False]


def test_noise_that_swamps_a_number_is_noted_and_the_number_marked_poor(tmp_path):
    """At epsilon 1e-4 the noise of a proportion of 500 has standard deviation 28 times its range."""
    release = a_survey(tmp_path, epsilon=1e-4).plan(ds.proportion("sex", "female")).release()
    (row,) = release.estimates
    assert any(note.startswith("noise only") for note in row["notes"])
    assert row["mark"] == "poor"


# Consistent tables


def cell(row, *columns):
    return tuple(row["by"][column] for column in columns)


@pytest.mark.parametrize("epsilon", [0.02, 0.5, 50.0])
def test_consistent_cells_are_not_negative_and_margins_add_up_while_linear_estimates_are_kept(tmp_path, epsilon):
    release = a_survey(tmp_path, epsilon=epsilon).plan(TABLE, MEAN).release()
    rows = release.consistent()
    linear = [row for row in release.estimates if row["statistic"] == "table"]
    assert [{**row, "consistent": None} for row in rows] == [{**row, "consistent": None} for row in linear]
    figures = {cell(row, "region", "sex"): row["consistent"] for row in rows}
    assert len(figures) == 11
    assert min(figures.values()) >= 0.0
    for region in REGIONS:
        assert figures[region, "all"] == pytest.approx(sum(figures[region, sex] for sex in SEXES), abs=1e-9)
    for sex in SEXES:
        assert figures["all", sex] == pytest.approx(sum(figures[region, sex] for region in REGIONS), abs=1e-9)
    assert sum(figures["all", sex] for sex in SEXES) == pytest.approx(SIZE, abs=1e-6)
    # The linear ones add up as well, margin by margin, whatever their sign.
    estimates = {cell(row, "region", "sex"): row["estimate"] for row in linear}
    for region in REGIONS:
        assert estimates[region, "all"] == pytest.approx(sum(estimates[region, sex] for sex in SEXES), abs=1e-6)


def test_where_nothing_is_negative_and_all_adds_up_consistent_cells_are_the_estimates(tmp_path):
    release = a_survey(tmp_path, epsilon=1e4).plan(TABLE).release()
    assert all(row["consistent"] == pytest.approx(row["estimate"], abs=0.5) for row in release.consistent())


def a_cell(estimate, label="region by sex", **by):
    return {"statistic": "table", "label": label, "by": by, "estimate": estimate}


def test_negative_cells_are_lifted_and_the_rest_lowered_by_the_same_amount():
    cells = {("north", "female"): 60.0, ("north", "male"): -10.0, ("south", "female"): 30.0, ("south", "male"): 20.0}
    rows = [a_cell(value, region=region, sex=sex) for (region, sex), value in cells.items()]
    rows.append(a_cell(50.0, region="north", sex="all"))
    found = {cell(row, "region", "sex"): row["consistent"] for row in consistent_tables(rows, 98)}
    assert found == pytest.approx(
        {
            ("north", "female"): 56.0,
            ("north", "male"): 0.0,
            ("south", "female"): 26.0,
            ("south", "male"): 16.0,
            ("north", "all"): 56.0,
        }
    )


def test_a_table_of_a_domain_keeps_its_own_total_and_two_tables_do_not_mix():
    domain = [a_cell(30.0, "sex where old = yes", sex="female"), a_cell(-4.0, "sex where old = yes", sex="male")]
    whole = [a_cell(80.0, "sex", sex="female"), a_cell(30.0, "sex", sex="male")]
    figures = [row["consistent"] for row in consistent_tables([*domain, *whole], 100)]
    assert figures == pytest.approx([26.0, 0.0, 75.0, 25.0])


def test_the_simplex_is_met_at_its_nearest_point():
    """x is the nearest point if and only if (cells - x)(corner - x) <= 0 for every corner."""
    rng = np.random.default_rng(5)
    for size in (1, 2, 5, 40):
        for _ in range(20):
            cells, total = rng.normal(0, 10, size), rng.uniform(0.1, 50)
            x = on_simplex(cells, total)
            assert x.min() >= 0.0
            assert x.sum() == pytest.approx(total)
            assert np.all((total * np.eye(size) - x) @ (cells - x) <= 1e-8)
            # Power: cutting negatives and scaling is another point, where it moves anything.
            cut = np.maximum(cells, 0.0)
            if size == 40 and cut.sum() > 0:
                other = cut * total / cut.sum()
                assert ((cells - x) ** 2).sum() < ((cells - other) ** 2).sum()


def test_a_release_without_tables_has_none_that_are_consistent(tmp_path):
    assert a_survey(tmp_path).plan(MEAN).release().consistent() == []


# Private bounds


def test_released_bounds_serve_a_later_plan_on_the_same_sample(tmp_path):
    survey = a_survey(tmp_path, epsilon=20.0)
    first = survey.plan(BOUNDS, share=0.5).release()
    low, high = first.bounds("income")
    # 99 % of a normal column of mean 50 and deviation 15 lies below 85. A leaf beyond all 500 values is off by 5 of them, and
    # each of 160 such leaves is chosen with probability below exp(-10 * 5/2): 2e-9 in all.
    assert low == 0.0
    assert 70.0 <= high <= 130.0
    second = survey.plan(ds.mean("income", bounds=first.bounds("income")), share=0.5).release()
    assert second.estimates[0]["estimate"] == pytest.approx(50.0, abs=10.0)
    assert second.document["sample"]["id"] == first.document["sample"]["id"]


def test_bounds_that_were_not_released_are_asked_for_by_name(release):
    with pytest.raises(NotFound, match="no clipping bounds of 'age'") as caught:
        release.bounds("age")
    assert "clipping_bounds" in caught.value.hint
