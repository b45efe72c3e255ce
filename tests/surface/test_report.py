"""The report opens offline and shows what it must; each plot is a table first."""

import itertools
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import dpsurvey as ds
from dpsurvey.survey.errors_by_rate import numbers_by_rate, planned_rate, release_curves
from dpsurvey.view.plots import forest_rows
from dpsurvey.view.report import report_html

PURE = ds.Budget(1.0)


def make_release(tmp_path, design, setting, budget=PURE):
    random = np.random.default_rng(5)
    table = {"id": np.arange(20000), "region": np.repeat(["<b>&n", "s"], [12000, 8000]), "income": random.gamma(2.0, 10.0, 20000)}
    table |= {"idle": random.random(20000) < 0.2}
    table |= {"block": np.arange(20000) // 50}
    categories = {"region": {"<b>&n": 12000, "s": 8000}}
    frame = ds.Frame(pa.table(table), unit="id", size=20000, categories=categories, public=["block"])
    survey = ds.Survey(frame, design, setting, budget=budget, ledger=tmp_path / "x.ledger")
    return survey.plan(ds.mean("income", (0, 100), by="region"), ds.proportion("idle", True), ds.count(by="region")).release()


@pytest.fixture
def release(tmp_path):
    return make_release(tmp_path, ds.stratified("region", within=ds.poisson(0.1)), ds.Setting("frame", neighbours="add-remove"))


def test_the_page_is_self_contained(release):
    page = report_html(release)
    assert re.findall(r"<script|<link|<img|@import|url\(", page) == []
    # Namespaces of SVG are names, not places that are fetched.
    assert set(re.findall(r"https?://[^\"' <)]+", page)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_the_page_says_what_was_guaranteed_assumed_and_left_out(release):
    page = report_html(release)
    assert str(release.guarantee) in page
    for heading in (
        "Estimates",
        "Two sources of error",
        "Error by sampling rate",
        "before and after amplification",
        "What is assumed",
    ):
        assert heading in page
    for heading in ("What is not protected", "What is not in the error", "The ledger after this release", "Specification"):
        assert heading in page
    assert page.count("<svg") == 3
    for note in release.document["guarantee"]["holds_when"]:
        assert note.replace("'", "&#39;") in page
    assert release.hash in page


@pytest.mark.parametrize("names", ["import dpsurvey as ds", "from dpsurvey.survey import release as ds"], ids=["package", "room"])
def test_a_report_is_saved_whatever_was_imported_before(release, tmp_path, names):
    release.save(tmp_path / "release.json")
    code = f"{names}; ds.Release.load('release.json').save('report.html')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "report.html").read_text() == report_html(release)


def test_a_file_that_no_format_is_known_for_is_refused_by_the_list_of_formats(release, tmp_path):
    with pytest.raises(ds.SurveyError, match=re.escape("saved as .csv, .html, .json or .parquet")):
        release.save(tmp_path / "release.xlsx")


def test_names_from_the_survey_are_escaped(release):
    page = report_html(release)
    assert "<b>&n" not in page
    assert "&lt;b&gt;&amp;n" in page


def test_without_amplification_the_curve_is_left_out_and_the_page_still_stands(tmp_path):
    page = report_html(make_release(tmp_path, ds.srs(n=2000), None))
    assert "before and after amplification" not in page
    assert "Anyone in the sample: epsilon 1." in page


def test_gaussian_releases_have_a_report_with_delta(tmp_path):
    setting = ds.Setting("frame", neighbours="add-remove")
    page = report_html(make_release(tmp_path, ds.poisson(0.1), setting, ds.Budget(1.0, 1e-6)))
    assert "(delta 1e-06)" in page
    assert "δ 1e-07" in page


def test_the_forest_plot_nests_the_sampling_part_inside_the_interval(release):
    rows = forest_rows(release)
    assert len(rows) == 5
    for row, published in zip(rows, release.estimates, strict=True):
        assert row["ci_low"] <= row["sampling_low"] <= row["estimate"] <= row["sampling_high"] <= row["ci_high"]
        part = (row["sampling_high"] - row["sampling_low"]) / (row["ci_high"] - row["ci_low"])
        assert part == pytest.approx(published["se_sampling"] / published["se"])


def test_the_rate_curve_passes_through_the_published_errors_and_falls_for_the_mean(release):
    places, curves = numbers_by_rate(release), release_curves(release, points=201)
    assert [release.estimates[place]["statistic"] for place in places] == ["mean", "proportion", "count"]
    assert [curve.label for curve in curves] == [release.estimates[each]["label"] for each in places]
    rows, published = curves[0].rows, release.estimates[places[0]]
    own = next(row for row in rows if row["planned"])
    assert own["rate"] == pytest.approx(0.1)
    assert [own[part] for part in ("se_sampling", "se_noise", "se")] == pytest.approx(
        [published[part] for part in ("se_sampling", "se_noise", "se")]
    )
    # The Laplace mean never gains from sampling: the total error falls all the way to the census.
    totals = [row["se"] for row in rows]
    assert all(later < earlier for earlier, later in itertools.pairwise(totals))
    assert rows[-1]["se_sampling"] == pytest.approx(0.0, abs=1e-9)


UNALIKE = {"<b>&n": ds.srs(n=600), "s": ds.srs(n=1000)}


@pytest.mark.parametrize(
    ("design", "neighbours"),
    [
        (ds.srs(n=2000), "replace-one"),
        (ds.poisson(0.1), "add-remove"),
        (ds.systematic(n=2000), "replace-one"),
        (ds.stratified("region", within=ds.srs(rate=0.1)), "replace-one"),
        (ds.stratified("region", within=UNALIKE), "replace-one"),
        (ds.stratified("region", within={"<b>&n": ds.poisson(0.02), "s": ds.poisson(0.3)}), "add-remove"),
        (ds.cluster("block", ds.srs(n=50), clusters=400, cap=50), "replace-one"),
    ],
    ids=["srs", "poisson", "systematic", "strata alike", "strata apart", "poisson strata apart", "clusters"],
)
def test_the_rate_curve_is_that_of_the_plan_at_every_rate_whatever_the_design(tmp_path, design, neighbours):
    release = make_release(tmp_path, design, ds.Setting("frame", neighbours=neighbours))
    plan = release.plan()
    own, curves, rows = planned_rate(plan), release_curves(release, points=4), list(enumerate(plan.predictions))
    assert curves
    for curve in curves:
        place = next(place for place, row in rows if (row["statistic"], row["by"]) == (curve.statistic, curve.by))
        assert curve.planned_rate == own
        assert curve.rows[-1]["rate"] == pytest.approx(min(1.0, own * plan.terms.design.most))
        for row in curve.rows:
            published, planned = release.estimates[place], plan.predictions[place]
            here = plan.resized(row["rate"] / own).predictions[place]
            # Where the noise on numbers of units is large, a plan simulates; a picture is drawn without that.
            if not here["simulated"]:
                for part in ("se_sampling", "se_noise"):
                    assert row[part] / published[part] == pytest.approx(here[part] / planned[part], rel=1e-9), row["rate"]
            if curve.statistic == "mean" and plan.facts.sizes_are_public(("region",)):
                # The noise of such a mean does not depend on what was drawn.
                assert row["se_noise"] == pytest.approx(here["se_noise"], rel=1e-9)


def test_the_amplified_curve_lies_below_the_other_everywhere(release):
    rows = release.guarantee.curves()
    inside = [row for row in rows if "known" in row["who"]]
    outside = [row for row in rows if "known" not in row["who"]]
    assert len(inside) == len(outside) == 81
    assert all(low["delta"] <= high["delta"] for low, high in zip(outside, inside, strict=True))
    assert outside[0]["delta"] == pytest.approx(0.1 * inside[0]["delta"], rel=1e-6)


def test_the_page_says_where_in_the_ledger_the_release_is_on_record(release):
    ledger = release.document["ledger"]
    page = report_html(release)
    assert f"entry {ledger['count']} of the ledger {ledger['id'][:12]}" in page
    assert ledger["head"][:16] in page
