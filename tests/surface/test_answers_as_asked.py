"""What a newcomer asked and got wrong, or got a wrong answer to: each test names what happened before.

Where noise is drawn, epsilon is so large that a false alarm is below 1e-6.
"""

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadData, BadValue, BudgetExceeded, NotFound
from dpsurvey.statistic.estimators.interval import Z

pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")

RICH = 1e5
REGIONS = {"north": 30, "south": 24, "east": 20, "west": 16}


def people(count=400):
    number = np.arange(count)
    columns = {
        "id": number,
        "w": np.full(count, 10.0),
        "flag": number % 4 == 0,
        "digit": (number % 4 == 0).astype(int),
        "sex": np.where(number % 2 == 0, "f", "m"),
        "y": (number % 50) * 1.0,
    }
    return pd.DataFrame(columns)


def clustered(seed=3):
    """A file of four strata of 16 to 30 clusters, all weights 10; clusters differ, regions too."""
    rng = np.random.default_rng(seed)
    rows = [
        (region, f"{region}{cluster}", ("f", "m")[unit % 2], 40.0 + 5 * place + shift + 0.5 * (unit % 7), 10.0)
        for place, (region, clusters) in enumerate(REGIONS.items())
        for cluster in range(clusters)
        for shift in [rng.normal(0.0, 3.0)]
        for unit in range(12)
    ]
    return pd.DataFrame(rows, columns=["region", "psu", "sex", "y", "w"]).assign(id=np.arange(len(rows)))


def survey_of(rows, folder, name="books", epsilon=RICH, **more):
    options = {
        "unit": "id",
        "weights": "w",
        "weights_are": "design",
        "weight_range": (10, 10),
        "size": 10 * len(rows) if hasattr(rows, "columns") else 4000,
    }
    options |= {"categories": {"sex": ["f", "m"]}} | more
    return ds.Survey.collected(rows, budget=ds.Budget(epsilon), ledger=folder / f"{name}.ledger", name=name, **options)


def in_clusters(folder, **more):
    options = {"strata": "region", "psu": "psu", "psus": 16, "categories": {"region": list(REGIONS), "sex": ["f", "m"]}}
    return survey_of(clustered(), folder, **options | more)


def spent(folder, name="books"):
    path = folder / f"{name}.ledger"
    return list(ds.Ledger(path).charges(name)) if path.exists() else []


# What stands in a cell


MEANS = {
    "a mean": ds.mean("y", (0, 50)),
    "a mean with a rule": ds.mean("y", (0, 50), missing=0),
    "a filled mean": ds.imputed(ds.mean("y", (0, 50)), cells=["sex"]),
}


@pytest.mark.parametrize("asked", MEANS)
@pytest.mark.parametrize("word", ["NA", "1,234.5", "12;5", "unknown"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_text_in_a_column_of_numbers_is_not_a_missing_answer(asked, word, form, tmp_path):
    """It was filled in as if it were, or failed after the charge was reserved."""
    rows = people().assign(y=lambda found: found["y"].astype(str))
    rows.loc[3, "y"] = word
    path = tmp_path / f"rows.{form}"
    rows.to_csv(path, index=False) if form == "csv" else rows.to_parquet(path)
    with pytest.raises(BadData, match="not finite numbers") as caught:
        survey_of(path, tmp_path).plan(MEANS[asked]).release()
    assert "only an empty cell is missing" in caught.value.hint
    assert word not in str(caught.value)
    assert spent(tmp_path) == []


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_empty_cell_is_missing_and_takes_the_public_value(form, tmp_path):
    rows = people()
    rows.loc[rows["y"] >= 25, "y"] = np.nan
    path = tmp_path / f"rows.{form}"
    rows.to_csv(path, index=False) if form == "csv" else rows.to_parquet(path)
    row = survey_of(path, tmp_path).plan(ds.mean("y", (0, 50), missing=50)).release().estimates[0]
    assert row["estimate"] == pytest.approx((sum(range(25)) + 25 * 50) / 50, abs=0.05)


@pytest.mark.parametrize("column", ["flag", "digit"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_true_finds_truth_values_however_they_are_written(column, form, tmp_path):
    """Of 1 and 0, true found nobody, and it was paid for."""
    path = tmp_path / f"rows.{form}"
    people().to_csv(path, index=False) if form == "csv" else people().to_parquet(path)
    asked = ds.proportion(column, True), ds.mean("y", (0, 50), where={column: True})
    share, mean = survey_of(path, tmp_path).plan(*asked).release().estimates
    assert share["estimate"] == pytest.approx(0.25, abs=0.01)
    assert mean["estimate"] == pytest.approx(people().query("flag")["y"].mean(), abs=0.1)


@pytest.mark.parametrize(("column", "value"), [("flag", 1), ("flag", "yes"), ("digit", "yes"), ("digit", "1.0")])
@pytest.mark.parametrize("kind", ["value", "condition"])
def test_what_no_value_of_a_type_can_be_is_not_looked_for(column, value, kind, tmp_path):
    asked = ds.proportion(column, value) if kind == "value" else ds.mean("y", (0, 50), where={column: value})
    people().to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(BadValue, match="can be what is asked for"):
        survey_of(tmp_path / "rows.parquet", tmp_path).plan(asked).release()
    assert spent(tmp_path) == []


def test_whole_numbers_with_gaps_are_no_categories_and_what_to_do_instead_is_named(tmp_path):
    rows = people().assign(digit=lambda found: found["digit"].astype(float))
    with pytest.raises(NotFound, match="does not hold categories") as caught:
        survey_of(rows, tmp_path).plan(ds.proportion("digit", 1)).release()
    assert "whole numbers" in caught.value.hint


# Clusters


def test_a_stratum_may_be_called_anything(tmp_path):
    """Strata were read back out of the text that clusters are hashed by."""
    rows = clustered().replace({"region": {"north": "a\x1fb"}})
    labels = ["a\x1fb", *list(REGIONS)[1:]]
    options = {"strata": "region", "psu": "psu", "psus": 16, "categories": {"region": labels, "sex": ["f", "m"]}}
    found = survey_of(rows, tmp_path, **options).plan(ds.mean("y", (0, 100), by="region")).release().estimates
    assert found[0]["estimate"] == pytest.approx(rows[rows["region"] == labels[0]]["y"].mean(), rel=0.01)


ASKED_BY_REGION = {
    "mean": ds.mean("y", (0, 100), by="region"),
    "proportion": ds.proportion("sex", "f", by="region"),
    "ratio": ds.ratio("y", "w", (0, 100), (0, 20), by="region"),
}


@pytest.mark.parametrize("asked", ASKED_BY_REGION)
def test_a_group_inside_one_stratum_has_the_freedom_of_its_own_clusters(asked, tmp_path):
    """All strata were taken off, although the group lies in one: one degree of freedom, and the whole range."""
    rows = in_clusters(tmp_path).plan(ASKED_BY_REGION[asked]).release().estimates
    assert [row["by"]["region"] for row in rows] == list(REGIONS)
    # As many as the stratum has clusters, but one.
    clusters = clustered().groupby("region")["psu"].nunique()
    assert [row["df"] for row in rows] == pytest.approx([clusters[label] - 1.0 for label in REGIONS], abs=0.1)


def test_estimates_by_stratum_are_those_of_the_clusters_of_that_stratum(tmp_path):
    asked = ds.mean("y", (0, 100), by="region"), ds.total("y", (0, 100), by="region"), ds.median("y", (0, 100), by="region")
    found = in_clusters(tmp_path).plan(*asked).release().estimates
    file = clustered()
    for row in found:
        own = file[file["region"] == row["by"]["region"]]
        truth = {"mean": own["y"].mean(), "total": 10 * own["y"].sum(), "quantile": own["y"].median()}[row["statistic"]]
        assert row["estimate"] == pytest.approx(truth, rel=0.02)
        assert row["ci_low"] < truth < row["ci_high"]
        # The spread of the means of clusters, which differ by 3.
        if row["statistic"] == "mean":
            clusters = own.groupby("psu")["y"].mean()
            assert row["se_sampling"] == pytest.approx(clusters.std() / np.sqrt(len(clusters)), rel=0.4)


@pytest.mark.parametrize("asked", [ds.mean("y", (0, 100)), ds.proportion("sex", "f"), ds.mean("y", (0, 100), by="region")])
def test_random_groups_that_agree_do_not_make_an_interval_narrower_than_the_noise(asked, tmp_path):
    """Clusters are all alike, so the spread between random groups is chance: an interval was down to 1.4 standard errors of the
    noise."""
    alike = clustered().assign(y=50.0)
    shortest = []
    for number in range(12):
        options = {"strata": "region", "psu": "psu", "psus": 16, "categories": {"region": list(REGIONS), "sex": ["f", "m"]}}
        survey = survey_of(alike, tmp_path, f"b{number}", epsilon=20.0, **options)
        shortest += [(row["ci_high"] - row["ci_low"]) / (2 * row["se_noise"]) for row in survey.plan(asked).release().estimates]
    # Fieller's interval is a few per cent off the symmetric one where the denominator has noise too.
    assert min(shortest) > 0.95 * Z


def test_margins_of_a_table_are_predicted_as_they_come_out(tmp_path):
    """Deviations of cells were taken to cancel in a margin, or to add up: 0, or three times too much."""
    plan = in_clusters(tmp_path).plan(ds.table("region", "sex"))
    units = len(clustered())
    for row, said in zip(plan.release().estimates, plan.predictions, strict=True):
        # Groups of undeclared size count as equal parts, into which units fall by chance, each with weight 10.
        part = (1.0 if row["by"]["sex"] == "all" else 0.5) * (1.0 if row["by"]["region"] == "all" else 0.25)
        assert said["se_sampling"] == pytest.approx(10.0 * np.sqrt(units * part * (1.0 - part)), rel=0.3)
        assert said["se_noise"] == pytest.approx(row["se_noise"], rel=0.5)
    assert not [text for text in plan.advice if "noise is expected" in text]


def test_few_random_groups_in_a_stratum_are_warned_of(tmp_path):
    plan = in_clusters(tmp_path, psus=5).plan(ds.mean("y", (0, 100), by="region"))
    assert any("fewer than 12 clusters" in text for text in plan.advice)
    assert not any("fewer than 12 clusters" in text for text in in_clusters(tmp_path).plan(ds.mean("y", (0, 100))).advice)


# What is known of the file


def test_a_stratified_file_without_weights_is_not_taken_for_a_simple_one(tmp_path):
    """Every record counted alike, and the interval missed the mean of the strata."""
    for options in ({}, {"n": 400}, {"n": {"f": 200, "m": 200}}):
        with pytest.raises(BadValue, match="need weights"):
            survey_of(people(), tmp_path, strata="sex", weights=None, weight_range=None, **options)
    sizes = {"categories": {"sex": {"f": 1000, "m": 3000}}, "n": {"f": 200, "m": 200}, "size": 4000}
    survey = survey_of(people(), tmp_path, strata="sex", weights=None, weight_range=None, **sizes)
    by_sex = people().groupby("sex")["y"].mean()
    row = survey.plan(ds.mean("y", (0, 50))).release().estimates[0]
    assert row["estimate"] == pytest.approx(0.25 * by_sex["f"] + 0.75 * by_sex["m"], abs=0.05)


def test_an_undeclared_number_of_records_is_not_taken_to_be_the_population(tmp_path):
    plan = survey_of(people(), tmp_path, weights=None, weight_range=None, size=2_000_000).plan(ds.mean("y", (0, 50)))
    assert any("nothing declared says how many units there are" in text for text in plan.advice)
    # The spread at worst is half of the range: 25 over the root of the 1,000 records that are supposed.
    assert plan.predictions[0]["se_sampling"] == pytest.approx(25 / np.sqrt(1000), rel=0.05)
    declared = survey_of(people(), tmp_path, weights=None, weight_range=None, size=2_000_000, n=400)
    assert not declared.plan(ds.mean("y", (0, 50))).advice


# Changed weights


def unequal(count=4000):
    number = np.arange(count)
    return people(count).assign(w=np.where(number % 10 == 0, 100.0, 5.0))


@pytest.mark.parametrize("cut", [{"trim": 60.0}, {"shrink": 0.5}], ids=["trim", "shrink"])
def test_a_plan_counts_the_bias_of_changed_weights(cut, tmp_path):
    """Cutting weights always looked better: the plan knew the noise that it saves and not the bias that it brings."""
    rows = unequal()
    options = {"weight_range": (5, 100), "size": int(rows["w"].sum())}
    plan = survey_of(rows, tmp_path, **options).plan(ds.mean("y", (0, 50), **cut))
    said, row = plan.predictions[0], plan.release().estimates[0]
    assert said["moe"] > Z * said["se"]
    assert said["moe"] == pytest.approx(Z * said["se"] + said["bias"])
    assert any("bias of changed weights" in text for text in plan.advice)
    assert row["quality"] == "unreliable"
    assert row["cv"] < 1 / 6


def test_an_interval_that_is_the_whole_range_says_so_whatever_made_it_wide(tmp_path):
    rows = unequal()
    options = {"weight_range": (5, 100), "size": int(rows["w"].sum())}
    row = survey_of(rows, tmp_path, **options).plan(ds.mean("y", (0, 50), trim=5.0)).release().estimates[0]
    assert (row["ci_low"], row["ci_high"]) == (0, 50)
    assert any("not publishable" in note for note in row["notes"])
    assert row["quality"] == "unreliable"


# Plans


def test_numbers_that_read_alike_are_told_apart(tmp_path):
    asked = (
        ds.mean("y", (0, 50)),
        ds.mean("y", (0, 25)),
        ds.mean("y", (0, 50), missing=0),
        ds.mean("y", (0, 50), where={"sex": "f"}),
        ds.total("y", (0, 50)),
    )
    plan = survey_of(people(), tmp_path).plan(*asked)
    estimates = plan.release().estimates
    labels = [row["label"] for row in estimates]
    told = ["y, bounds 0 to 50", "y", "y, bounds 0 to 25", "y, bounds 0 to 50, missing 0", "y where sex = f"]
    assert labels == [row["label"] for row in plan.predictions] == told
    for row, predicted in zip(estimates, plan.predictions, strict=True):
        assert (row["statistic"], row["of"], row["by"]) == tuple(predicted[key] for key in ("statistic", "of", "by"))
    assert "y where sex = f" in str(plan)


@pytest.mark.parametrize("asked", [[ds.mean("y", (0, 50))], "mean of y", None, ds.mean])
def test_what_is_no_statistic_is_not_planned(asked, tmp_path):
    with pytest.raises(BadValue, match="made of statistics") as caught:
        survey_of(people(), tmp_path).plan(asked)
    assert "plan(*statistics)" in caught.value.hint


@pytest.mark.parametrize(("first", "second"), [(0.6, 0.5), (0.9999, 0.5)])
def test_a_refusal_names_a_share_that_fits(first, second, tmp_path):
    survey = survey_of(people(), tmp_path, epsilon=1.0)
    survey.plan(ds.mean("y", (0, 50)), share=first).release()
    with pytest.raises(BudgetExceeded) as caught:
        survey.plan(ds.count(by="sex"), share=second).release()
    named = float(caught.value.hint.split("share=")[1].split(" ")[0])
    assert named == pytest.approx(1.0 - first, abs=1e-4)
    survey.plan(ds.count(by="sex"), share=named).release()
    assert survey.plan(ds.count(by="sex")).share == 1.0


# Margins


SEXES = {"sex": {"f": 2000, "m": 2000}}


def test_margins_of_different_populations_are_refused():
    """The first of them made the total."""
    for other in (
        {"flag": {"true": 1, "false": 3}},
        {"flag": {"true": 0.25, "false": 0.75}},
        {"flag": {"true": 1200, "false": 3000}},
    ):
        with pytest.raises(BadValue, match="do not count the same population"):
            ds.calibrated(ds.total("y", (0, 50)), SEXES | other)
    assert ds.calibrated(ds.total("y", (0, 50)), SEXES | {"flag": {"true": 1001, "false": 3001}}).name


@pytest.mark.parametrize("counts", [{"f": 0.5, "m": 0.5}, {"f": 50, "m": 50}, {"f": 2e6, "m": 2e6}])
def test_a_total_needs_counts_of_its_population(counts, tmp_path):
    """Shares made a total of a few units."""
    with pytest.raises(BadValue, match="not those of such a population"):
        survey_of(people(), tmp_path).plan(ds.calibrated(ds.total("y", (0, 50)), {"sex": counts}))
    # A mean needs shares alone, and a population that the frame does not cover in full has more.
    means = (
        ds.calibrated(ds.mean("y", (0, 50)), {"sex": counts}),
        ds.calibrated(ds.total("y", (0, 50)), {"sex": {"f": 2500, "m": 2500}}),
    )
    mean, total = survey_of(people(), tmp_path).plan(*means).release().estimates
    assert mean["estimate"] == pytest.approx(people()["y"].mean(), abs=0.1)
    assert total["estimate"] == pytest.approx(5000 * people()["y"].mean(), rel=0.01)
