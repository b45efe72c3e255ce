"""What comes out of a release: tables for pandas, polars and Arrow, files, marks, notes, consistent tables and private bounds."""

import csv
import html
import io
import itertools
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, NotFound
from dpsurvey.survey.consistent import nearest_table, on_simplex
from dpsurvey.survey.estimates import COLUMNS
from dpsurvey.survey.quality import RULE, quality

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


FLAT = ["statistic", "of", "region", "sex", "bound", *COLUMNS, "df", "method", "quality", "share", "notes"]
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
        assert (found["statistic"], found["of"], found["quality"]) == (row["statistic"], row["label"], row["quality"])
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
    assert labels["contrast"] == "mean of income, sex female minus male"
    assert labels["proportion"] == "region = north where sex = female"
    assert labels["table"] == "region by sex"
    assert {row["label"] for row in release.estimates if row["statistic"] == "quantile"} == {"income at 0.5", "income at 0.9"}


def test_quality_flags_follow_the_coefficient_of_variation_of_sampling_and_noise_together(release):
    for row in release.estimates:
        if row["se"] is None or not row["estimate"]:
            assert row["quality"] == "unreliable"
        else:
            assert row["se"] == pytest.approx(math.hypot(row["se_sampling"], row["se_noise"]))
            assert row["cv"] == pytest.approx(row["se"] / abs(row["estimate"]))
            # An interval that is wider than its standard error says can only make the flag worse.
            flags = ("publish", "with caution", "unreliable")
            assert flags.index(row["quality"]) >= flags.index(quality(row["cv"]))
    assert [quality(cv) for cv in (0.0, 1 / 6, 0.1667, 1 / 3, 0.3334, math.inf)] == [
        *("publish", "publish", "with caution", "with caution", "unreliable", "unreliable"),
    ]


def test_the_rule_of_the_quality_flag_is_printed_once_where_flags_are_shown(release, tmp_path):
    page = html.unescape(release.save(tmp_path / "report.html").read_text())
    for shown in (str(release), page):
        assert shown.lower().count(RULE.lower()) == 1
    assert all(row["quality"] in RULE for row in release.estimates)


def test_every_number_says_how_its_interval_was_made_and_notes_are_printed_once(release):
    assert all(row["method"] for row in release.estimates)
    notes = {note for row in release.estimates for note in row["notes"]}
    assert any(note.startswith("a point estimate") for note in notes)
    assert any(note.startswith("a choice of bounds") for note in notes)
    text = str(release)
    assert all(text.count(note) == 1 for note in notes)
    assert [f"[{number}]" in text for number in range(1, len(notes) + 2)] == [True] * len(notes) + [False]


def test_noise_that_swamps_a_number_is_noted_and_the_number_flagged_unreliable(tmp_path):
    """At epsilon 1e-4 the noise of a proportion of 500 has standard deviation 28 times its range."""
    release = a_survey(tmp_path, epsilon=1e-4).plan(ds.proportion("sex", "female")).release()
    (row,) = release.estimates
    assert any(note.startswith("noise only") for note in row["notes"])
    assert row["quality"] == "unreliable"


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
    # The linear ones add up as well, whatever their sign, but for sizes that are declared.
    estimates = {cell(row, "region", "sex"): row["estimate"] for row in linear}
    for sex in SEXES:
        assert estimates["all", sex] == pytest.approx(sum(estimates[region, sex] for region in REGIONS), abs=1e-6)


def test_where_nothing_is_negative_and_all_adds_up_consistent_cells_are_the_estimates(tmp_path):
    release = a_survey(tmp_path, epsilon=1e4).plan(TABLE).release()
    # Noise is a thousandth of a unit: what moves cells is that a sample of 500 is not of the declared regions.
    rows = [row for row in release.consistent() if row["by"]["region"] == "all"]
    assert all(row["consistent"] == pytest.approx(row["estimate"], rel=0.05) for row in rows)


def test_negative_cells_are_lifted_and_the_rest_lowered_by_the_same_amount():
    cells = np.array([[60.0, -10.0], [30.0, 20.0]])
    assert nearest_table(cells, 98.0, {}) == pytest.approx(np.array([[56.0, 0.0], [26.0, 16.0]]))


def test_declared_margins_are_met_by_the_nearest_table():
    """x is the nearest of all tables with these margins: moving it along any of them, and staying above 0, comes no nearer."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        cells, margins = rng.normal(10, 15, (3, 4)), {0: np.array([20.0, 60.0, 40.0]), 1: np.array([30.0, 10.0, 50.0, 30.0])}
        x = nearest_table(cells, 120.0, margins)
        assert x.min() >= 0.0
        assert x.sum(axis=1) == pytest.approx(margins[0], abs=1e-6)
        assert x.sum(axis=0) == pytest.approx(margins[1], abs=1e-6)
        for (i, j), (k, m) in itertools.product(itertools.permutations(range(3), 2), itertools.permutations(range(4), 2)):
            step = np.zeros_like(x)
            step[i, k] = step[j, m] = 1.0
            step[i, m] = step[j, k] = -1.0
            room = min(1e-3, x[i, m], x[j, k])
            assert ((cells - x - room * step) ** 2).sum() >= ((cells - x) ** 2).sum() - 1e-6


def in_a_file(folder, statistic, column="sex", label="female"):
    """A release of a table from people whose columns and categories have any name."""
    rows = people().rename(columns={"sex": column}).replace({column: {"female": label}})
    frame = ds.Frame(rows, "id", SIZE, {"region": list(REGIONS), column: (label, "male")})
    survey = ds.Survey(frame, ds.srs(n=500), budget=ds.Budget(1.0), ledger=folder / "books.ledger")
    return survey.plan(*statistic).release()


@pytest.mark.parametrize("name", ["sex where born", "where", "a where b = c", "all", "sex, of those who answered"])
def test_a_table_is_known_by_what_was_asked_and_not_by_the_names_in_it(name, tmp_path):
    """A column with " where " in its name was taken for a condition, and its cells did not add up to the frame."""
    rows = in_a_file(tmp_path, [ds.table("region", name)], column=name).consistent()
    cells = [row["consistent"] for row in rows if "all" not in row["by"].values()]
    assert len(cells) == 6
    assert sum(cells) == pytest.approx(SIZE, abs=1e-6)


def test_a_table_of_a_domain_keeps_its_own_total_and_two_tables_do_not_mix(tmp_path):
    asked = [ds.table("region", where={"income": (0, 50)}), ds.table("region"), ds.table("region", where={"income": (50, 100)})]
    release = in_a_file(tmp_path, asked)
    rows = release.consistent()
    assert [row["estimate"] for row in rows] == [row["estimate"] for row in release.estimates]
    for start, whole in ((0, None), (3, SIZE), (6, None)):
        own = rows[start : start + 3]
        total = whole or max(0.0, sum(row["estimate"] for row in own))
        assert sum(row["consistent"] for row in own) == pytest.approx(total, abs=1e-6)


def test_a_category_that_is_written_like_a_margin_is_refused(tmp_path):
    with pytest.raises(BadValue, match="margins of a table"):
        in_a_file(tmp_path, [ds.table("region", "sex")], label="all")


@pytest.mark.parametrize("epsilon", [0.02, 1.0])
@pytest.mark.parametrize("design", [ds.srs(n=500), ds.stratified("region", within=ds.srs(n=100)), ds.poisson(0.3)])
def test_margins_of_declared_sizes_are_those_and_consistent_tables_meet_them(design, epsilon, tmp_path):
    release = a_survey(tmp_path, epsilon, design=design).plan(TABLE, ds.table("region", where={"sex": "male"})).release()
    rows = {cell(row, "region", "sex"): row for row in release.estimates[:11]}
    nearest = {cell(row, "region", "sex"): row["consistent"] for row in release.consistent()[:11]}
    for region, size in REGIONS.items():
        told = rows[region, "all"]
        assert [told[name] for name in ("estimate", "se_sampling", "se_noise", "ci_low", "ci_high")] == [
            size,
            0.0,
            0.0,
            size,
            size,
        ]
        assert any("declared, not estimated" in note for note in told["notes"])
        assert nearest[region, "all"] == pytest.approx(size, abs=1e-6)
    assert min(nearest.values()) >= 0.0
    # Nothing is declared of the sexes, nor of the regions of one of them.
    assert all(rows["all", sex]["se_noise"] > 0.0 for sex in SEXES)
    assert all(row["se_noise"] > 0.0 for row in release.estimates[11:])
    assert release.recompute() == release.estimates


def test_a_plan_says_that_a_count_of_declared_groups_only_repeats_them(tmp_path):
    survey = a_survey(tmp_path)
    said = [any("declared" in text for text in survey.plan(ds.count(by=column)).advice) for column in ("region", "sex")]
    assert said == [True, False]


def test_a_plan_predicts_no_error_of_a_declared_margin(tmp_path):
    rows = a_survey(tmp_path).plan(TABLE).predictions
    errors = {cell(row, "region", "sex"): row["se"] for row in rows}
    assert [errors[region, "all"] for region in REGIONS] == [0.0, 0.0, 0.0]
    assert min(error for group, error in errors.items() if group[1] != "all") > 1.0


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
