"""Files that were collected already: every form and column, and whatever is wrong with one is said before anything is spent."""

import re
import traceback

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import dpsurvey as ds
from dpsurvey.classical import Sample
from dpsurvey.errors import BadData, BadValue, BudgetExceeded, NoGuarantee, NotFound, Refusal

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]

SIZE, TAKEN = 6_000, {"north": 140, "south": 100}
CATEGORIES = {"region": list(TAKEN), "sex": ["female", "male"]}
SIZES = {"region": {"north": 3500, "south": 2500}, "sex": ["female", "male"]}
WEIGHTS, POPULATION = (10.0, 40.0), {"north": 30.0, "south": 20.0}
# What is wrong with a row: numbers and a word that occur nowhere else, nor do parts of them.
TOO_MUCH, TOO_LITTLE, WORD = 87654.321, -98765.25, "atlantis-7q"
# As numbers of their own: the same digits inside an address or a random name say nothing.
SECRETS = (r"(?<![\w.])87654(?!\d)", r"8\.765432", r"(?<![\w.])98765(?!\d)", r"9\.876525", "atlantis")
MEAN = ds.mean("income", bounds=(0, 100))
FRAME_FREE = ds.Setting("sample", neighbours="replace-one")


def people():
    """240 records: 24 clusters of 10, 14 in the north and 10 in the south, weights of each record's own."""
    rng = np.random.default_rng(12)
    size = sum(TAKEN.values())
    region = np.repeat(list(TAKEN), list(TAKEN.values()))
    return pd.DataFrame(
        {
            "person": [f"p{number}" for number in range(size)],
            "region": region,
            "psu": [f"c{number}" for number in np.arange(size) // 10],
            "sex": rng.choice(["female", "male"], size),
            "w": rng.integers(80, 320, size) / 8.0,
            "fpc": np.where(region == "north", POPULATION["north"], POPULATION["south"]),
            "income": rng.uniform(0, 100, size) + np.where(region == "north", 0.0, 10.0),
            "job": rng.choice(["farmer", "clerk"], size),
        }
    )


def in_memory(rows, folder):
    return rows


def as_arrow(rows, folder):
    return pa.Table.from_pandas(rows, preserve_index=False)


def as_polars(rows, folder):
    return pl.from_pandas(rows)


def as_ibis(rows, folder):
    return ibis.memtable(rows)


def as_parquet(rows, folder):
    rows.to_parquet(folder / "file.parquet")
    return folder / "file.parquet"


def as_csv(rows, folder):
    pacsv.write_csv(pa.Table.from_pandas(rows, preserve_index=False), folder / "file.csv")
    return folder / "file.csv"


FORMS = {"csv": as_csv, "parquet": as_parquet, "pandas": in_memory, "arrow": as_arrow, "polars": as_polars, "ibis": as_ibis}
COLUMNS = {
    "equal weights": {},
    "weights": {"weights": "w"},
    "weights and strata": {"weights": "w", "strata": "region"},
    "clusters": {"psu": "psu", "psus": 24},
    "clusters and weights": {"psu": "psu", "weights": "w"},
    "all columns": {"strata": "region", "psu": "psu", "weights": "w", "fpc": "fpc"},
    "a public size": {"n": 240},
    "public sizes by stratum": {"strata": "region", "n": TAKEN, "categories": SIZES},
}
ALL = COLUMNS["all columns"]


def a_survey(table, folder, epsilon=1.0, **more):
    weighted = {"weight_range": WEIGHTS, "weights_are": "design"} if "weights" in more else {}
    options = {"size": SIZE, "categories": CATEGORIES} | weighted | more
    return ds.Survey.collected(table, budget=ds.Budget(epsilon), ledger=folder / "books.ledger", name="lfs", **options)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_file_gives_the_classical_numbers_at_a_huge_epsilon(form, tmp_path):
    """Seven standard errors of the noise and a millionth of the range: at this epsilon less than a tenth of a percent of it."""
    rows = people()
    survey = a_survey(FORMS[form](rows, tmp_path), tmp_path, 1e5, unit="person", **ALL)
    release = survey.plan(MEAN, ds.count("sex", "female"), ds.mean("income", bounds=(0, 100), by="sex")).release()
    sample = Sample({name: rows[name].to_numpy() for name in rows}, weights="w", strata="region", psu="psu")
    y = rows["income"].clip(0, 100).to_numpy()
    wanted = [
        sample.mean(y).estimate,
        SIZE * sample.mean((rows["sex"] == "female") * 1.0).estimate,
        *(sample.mean(y, where=("sex", sex)).estimate for sex in ("female", "male")),
    ]
    for row, value in zip(release.estimates, wanted, strict=True):
        unit = SIZE if row["statistic"] == "count" else 100.0
        assert row["estimate"] == pytest.approx(value, abs=1e-3 * unit)
        assert row["se_noise"] < 1e-4 * unit


@pytest.mark.parametrize("columns", COLUMNS)
def test_every_choice_of_columns_gives_the_weighted_mean_and_a_true_kind_of_error(columns, tmp_path):
    rows, options = people(), COLUMNS[columns]
    release = a_survey(as_parquet(rows, tmp_path), tmp_path, 1e5, **options).plan(MEAN).release()
    weights = rows["w"].to_numpy() if "weights" in options else SIZE / len(rows)
    strata, psu = options.get("strata"), options.get("psu")  # type: ignore[attr-defined]
    sample = Sample({name: rows[name].to_numpy() for name in rows}, weights=weights, strata=strata, psu=psu)
    classical = sample.mean(rows["income"].clip(0, 100).to_numpy())
    (row,) = release.estimates
    assert row["estimate"] == pytest.approx(classical.estimate, abs=0.1)
    # Clusters of 24 are dealt into fewer groups, so the error is another estimate of the same thing.
    assert 0.4 <= row["se"] / classical.se <= 2.5
    assert release.recompute() == release.estimates


def test_the_sample_is_protected_and_the_frame_held_fixed_unless_said_otherwise(tmp_path):
    for columns in COLUMNS.values():
        setting = a_survey("not there.parquet", tmp_path, **columns).terms.setting
        assert setting == ds.Setting("sample", given="frame", neighbours="replace-one")
    assert a_survey("x.parquet", tmp_path).terms.rate == 1.0, "nothing amplifies"


def test_a_plan_of_a_file_reads_nothing(tmp_path):
    plan = a_survey(tmp_path / "not there.parquet", tmp_path, **ALL).plan(MEAN, ds.median("income", bounds=(0, 100)))
    assert all(row["se"] > 0.0 for row in plan.predictions)
    assert list(tmp_path.iterdir()) == []


def test_every_release_of_a_file_is_charged_to_one_sample_whoever_makes_it(tmp_path):
    path = as_parquet(people(), tmp_path)
    first = a_survey(path, tmp_path, **ALL).plan(MEAN, share=0.5).release()
    second = a_survey(path, tmp_path, **ALL).plan(ds.proportion("sex", "female"), share=0.5).release()
    assert first.document["sample"]["id"] == second.document["sample"]["id"]
    assert second.document["ledger"]["spent"] == pytest.approx(1.0, rel=1e-6)
    assert first.document["ledger"]["spent"] == pytest.approx(0.5, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        a_survey(path, tmp_path, **ALL).plan(ds.count("job", "clerk"), share=0.01).release()


def test_a_file_that_changes_while_it_is_summed_is_not_published_and_stays_spent(tmp_path):
    path = as_parquet(people(), tmp_path)

    def progress(what, done, total):
        if (what, done) == ("summing and adding noise", 0):
            as_parquet(people().assign(income=TOO_MUCH), tmp_path)

    survey = a_survey(path, tmp_path, progress=progress, **ALL)
    with pytest.raises(BadData, match="changed while it was used") as caught:
        survey.plan(MEAN).release()
    assert secrets_in(said_by(caught.value)) == []
    assert [entry["state"] for entry in ds.Ledger(tmp_path / "books.ledger").charges("lfs")] == ["reserved"]


def test_a_file_is_not_drawn_from(tmp_path):
    with pytest.raises(BadValue, match="not drawn from"):
        a_survey(as_parquet(people(), tmp_path), tmp_path, **ALL).draw(tmp_path / "sample.parquet")
    assert not (tmp_path / "sample.parquet").exists()


# What is wrong with a file


def shown(value):
    """What a debugger shows; an object whose making failed may have nothing to show."""
    try:
        return "" if isinstance(value, pd.DataFrame | pa.Table) else repr(value)
    except AttributeError:
        return f"a {type(value).__name__}"


def said_by(error):
    """Everything that an error can say, its causes, and the local variables of the package's frames behind it."""
    parts, seen = [], []
    while error is not None and error not in seen:
        seen.append(error)
        parts += ["".join(traceback.format_exception(error)), repr(error), repr(error.args)]
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_globals.get("__name__", "").split(".")[0] == "dpsurvey":
                parts += [f"{name} = {shown(value)}" for name, value in frame.f_locals.items()]
        error = error.__cause__ or error.__context__
    return "\n".join(parts)


def secrets_in(text):
    return [found.group() for secret in SECRETS if (found := re.search(secret, text))]


def nothing_spent(folder):
    ledger = folder / "books.ledger"
    return not ledger.exists() or list(ds.Ledger(ledger).charges("lfs")) == []


def changed(column, value, row=7):
    def change(rows):
        if isinstance(value, str):
            rows[column] = rows[column].astype(str)
        rows.loc[row, column] = value
        return rows

    return change


def lonely(rows):
    rows.loc[rows["region"] == "south", "psu"] = WORD
    return rows


def as_it_is(rows):
    return rows


BY_SEX, WEIGHTED = ds.mean("income", bounds=(0, 100), by="sex"), {"weights": "w"}
NO_CORRECTION = {"strata": "region", "psu": "psu", "weights": "w"}
# What is done to the rows, what is declared, what is asked, and what is said.
BAD_FILES = {
    "a stratum with one cluster": (lonely, NO_CORRECTION, MEAN, BadData, "fewer clusters than the variance needs"),
    "fewer clusters than declared": (as_it_is, {"psu": "psu", "psus": 25}, MEAN, BadData, "fewer clusters than the variance"),
    "a missing answer": (changed("income", None), ALL, MEAN, BadData, "'income' has missing values"),
    "a missing weight": (changed("w", None), ALL, MEAN, BadData, "'w' has missing values"),
    "a missing cluster": (changed("psu", None), ALL, MEAN, BadData, "'psu' has missing values"),
    "a missing stratum": (changed("region", None), ALL, MEAN, BadData, "'region' has missing values"),
    "a missing population size": (changed("fpc", None), ALL, MEAN, BadData, "'fpc' has missing values"),
    "a missing group": (changed("sex", None), ALL, BY_SEX, BadData, "'sex' has missing values"),
    "a missing value of a condition": (
        changed("job", None),
        ALL,
        ds.mean("income", bounds=(0, 100), where={"job": "clerk"}),
        BadData,
        "'job' has missing values",
    ),
    "an infinite answer": (changed("income", np.inf), ALL, MEAN, BadData, "not finite"),
    "a group that was not declared": (changed("sex", WORD), ALL, BY_SEX, BadData, "category that was not declared"),
    "a stratum that was not declared": (changed("region", WORD), ALL, MEAN, BadData, "category that was not declared"),
    "a declared stratum without rows": (
        as_it_is,
        ALL | {"categories": {"region": ["north", "south", "west"], "sex": ["female", "male"]}},
        MEAN,
        BadData,
        "declared stratum of 'region' is empty",
    ),
    "a weight of 0": (changed("w", 0.0), ALL, MEAN, BadData, "not positive"),
    "a negative weight": (changed("w", TOO_LITTLE), ALL, MEAN, BadData, "not positive"),
    "an infinite weight": (changed("w", np.inf), ALL, MEAN, BadData, "not positive"),
    "a weight above the range": (changed("w", TOO_MUCH), ALL, MEAN, BadData, "outside the declared range"),
    "a weight below the range": (changed("w", 9.875), ALL, MEAN, BadData, "outside the declared range"),
    "no range of weights": (
        as_it_is,
        ALL | {"weight_range": None},
        MEAN,
        BadValue,
        "range of the design weights is not declared",
    ),
    "a range in the wrong order": (as_it_is, ALL | {"weight_range": (40, 10)}, MEAN, BadValue, "lowest first"),
    "a range from 0": (as_it_is, ALL | {"weight_range": (0, 40)}, MEAN, BadValue, "weights are positive"),
    "a range that is one number": (as_it_is, ALL | {"weight_range": 40}, MEAN, BadValue, "two numbers"),
    "fewer clusters in the population than in the file": (changed("fpc", 5.0), ALL, MEAN, BadData, "smaller than the sample"),
    "a sampling fraction for a population": (lambda rows: rows.assign(fpc=0.4), ALL, MEAN, BadData, "smaller than the sample"),
    "a population of fewer units than there are": (
        as_it_is,
        {"strata": "region", "weights": "w", "fpc": "fpc"},
        MEAN,
        BadData,
        "smaller than the sample",
    ),
    "a population of nobody": (changed("fpc", 0.0), ALL, MEAN, BadData, "not positive"),
    "too large an n": (as_it_is, {"n": 241}, MEAN, BadData, "as many records as declared"),
    "too small an n": (as_it_is, {"n": 239}, MEAN, BadData, "as many records as declared"),
    "a wrong n beside weights": (as_it_is, WEIGHTED | {"n": 239}, MEAN, BadData, "as many records as declared"),
    "a wrong n in a stratum": (
        as_it_is,
        {"strata": "region", "n": {"north": 141, "south": 99}, "categories": SIZES},
        MEAN,
        BadData,
        "as many records as declared",
    ),
    "an n of strata that are not declared": (
        as_it_is,
        {"strata": "region", "n": {"north": 240}},
        MEAN,
        BadValue,
        "every declared",
    ),
    "a larger n than the population": (as_it_is, {"n": 240, "size": 100}, MEAN, BadValue, "more units than there are"),
    "no population size for a count": (as_it_is, WEIGHTED | {"size": None}, ds.count(by="sex"), BadValue, "public size"),
    "no population size for a total by groups": (
        as_it_is,
        WEIGHTED | {"size": None},
        ds.total("income", bounds=(0, 100), by="sex"),
        BadValue,
        "public size",
    ),
    "a column that is not there": (as_it_is, {"weights": "ww"}, MEAN, NotFound, "no column 'ww'"),
    "subclusters without clusters": (as_it_is, {"ssu": "psu"}, MEAN, BadValue, "ssu needs psu"),
    "an empty file": (lambda rows: rows[:0], ALL, MEAN, BadData, "empty"),
    "a person twice": (changed("person", "p9"), ALL | {"unit": "person"}, MEAN, BadData, "more than once"),
    "weights that were adjusted": (as_it_is, ALL | {"weights_are": "adjusted"}, MEAN, NoGuarantee, "no guarantee"),
    "weights of an unknown kind": (as_it_is, ALL | {"weights_are": "calibrated"}, MEAN, BadValue, "unknown kind of weights"),
    "donors without a cap": (as_it_is, ALL | {"imputed": "donors"}, MEAN, NoGuarantee, "no guarantee"),
    "answers filled in by a model": (as_it_is, ALL | {"imputed": "model"}, MEAN, NoGuarantee, "no guarantee"),
    "an unknown kind of imputation": (as_it_is, ALL | {"imputed": "hot deck"}, MEAN, BadValue, "unknown kind of imputation"),
    "a mean of weights that are not constants": (
        as_it_is,
        WEIGHTED | {"setting": FRAME_FREE},
        MEAN,
        NoGuarantee,
        "not constants",
    ),
    "a total of weights that are not constants": (
        as_it_is,
        WEIGHTED | {"setting": FRAME_FREE},
        ds.total("income", bounds=(0, 100), estimator="horvitz-thompson"),
        NoGuarantee,
        "not constants",
    ),
    "a frame that is protected": (
        as_it_is,
        ALL | {"setting": ds.Setting("frame", neighbours="replace-one")},
        MEAN,
        NoGuarantee,
        "no",
    ),
}
WAYS_OUT = {
    "weights that were adjusted": "after the noise",
    "donors without a cap": "donor_uses=",
    "a mean of weights that are not constants": "horvitz-thompson",
    "a total of weights that are not constants": "public n=",
    "no range of weights": "weight_range=",
    "a stratum with one cluster": "merge strata",
    "a sampling fraction for a population": "not sampling fractions",
    "a frame that is protected": "secret draw",
}
EVERY_FORM = ("a stratum with one cluster", "a missing weight", "a weight above the range", "a group that was not declared")


def refusal_of(case, form, folder):
    change, options, statistic, kind, words = BAD_FILES[case]
    table = FORMS[form](change(people()), folder)
    with pytest.raises(ds.SurveyError) as caught:
        a_survey(table, folder, **options).plan(statistic).release()
    error = caught.value
    assert isinstance(error, kind), repr(error)
    assert re.search(words, error.what), error.what
    return error


@pytest.mark.parametrize(
    ("case", "form"),
    [*((case, "parquet") for case in BAD_FILES), *((case, form) for case in EVERY_FORM for form in FORMS if form != "parquet")],
)
def test_what_is_wrong_with_a_file_is_said_without_a_value_and_nothing_is_spent(case, form, tmp_path):
    error = refusal_of(case, form, tmp_path)
    assert error.because or error.given or error.hint or "need" in error.what
    assert WAYS_OUT.get(case, "") in error.hint
    assert error.exit_code == (1 if isinstance(error, Refusal) else 2)
    said = said_by(error)
    assert secrets_in(said) == []
    if isinstance(error, BadData):
        # Neither the number of rows nor of clusters nor any label is said, nor any number at all.
        assert not re.search(r"\d", f"{error.what} {error.because} {error.given}".replace("n=", ""))
        assert not re.search(r"\bc\d|farmer|clerk", str(error))
    assert nothing_spent(tmp_path)


def test_the_search_for_secrets_looks_into_local_variables_and_causes():
    def dpsurvey_like():
        kept = [TOO_MUCH]
        raise BadData("quiet") from ValueError(WORD, kept)

    dpsurvey_like.__globals__["__name__"], own = "dpsurvey.somewhere", dpsurvey_like.__globals__["__name__"]
    try:
        with pytest.raises(BadData) as caught:
            dpsurvey_like()
        assert secrets_in(said_by(caught.value)) == ["87654", "atlantis"]
    finally:
        dpsurvey_like.__globals__["__name__"] = own


# What is not wrong: documented rules


NOBODY = {
    "a range that nobody is in": ds.mean("income", bounds=(0, 100), where={"income": (200, 300)}),
    "a label that nobody has": ds.mean("income", bounds=(0, 100), where={"job": "pilot"}),
}


@pytest.mark.parametrize("columns", ["weights", "all columns"])
@pytest.mark.parametrize("name", NOBODY)
def test_a_domain_without_rows_is_answered_by_noise_alone_and_charged(name, columns, tmp_path):
    """Whether anybody is in a domain is an answer, so it is no error; what holds for any noise is checked."""
    release = a_survey(as_parquet(people(), tmp_path), tmp_path, **COLUMNS[columns]).plan(NOBODY[name]).release()
    (row,) = release.estimates
    assert row["estimate"] is None or 0.0 <= row["estimate"] <= 100.0
    assert 0.0 <= row["ci_low"] <= row["ci_high"] <= 100.0
    assert len(ds.Ledger(tmp_path / "books.ledger").charges("lfs")) == 1, "an answer is charged"


def test_a_domain_without_rows_has_no_estimate_where_there_is_no_noise(tmp_path):
    """Whole steps, and at epsilon 1e5 another number than 0 is added with probability exp(-10_000)."""
    asked = ds.proportion("sex", "female", where={"job": "pilot"})
    (row,) = a_survey(as_parquet(people(), tmp_path), tmp_path, 1e5).plan(asked).release().estimates
    assert row["estimate"] is None
    assert row["quality"] == "unreliable"
    assert any(note.startswith("no estimate") for note in row["notes"])
    assert (row["ci_low"], row["ci_high"]) == (0.0, 1.0)


def test_a_declared_category_without_rows_is_published_like_any_other(tmp_path):
    categories = {"region": list(TAKEN), "sex": ["female", "male", "other"]}
    survey = a_survey(as_parquet(people(), tmp_path), tmp_path, 1e5, categories=categories)
    asked = (BY_SEX, ds.proportion("job", "clerk", by="sex"), ds.count(by="sex"), ds.table("region", "sex"))
    release = survey.plan(*asked).release()
    found = {row["statistic"]: row for row in release.estimates if row["by"] == {"sex": "other"}}
    assert set(found) == {"mean", "proportion", "count"}
    assert found["mean"]["estimate"] is None or 0.0 <= found["mean"]["estimate"] <= 100.0
    # The noise of whole steps is 0 at this epsilon.
    assert found["proportion"]["estimate"] is None
    assert found["count"]["estimate"] == 0.0
    assert {row["by"]["sex"] for row in release.estimates if row["statistic"] == "table"} == {"female", "male", "other", "all"}


@pytest.mark.parametrize(("bounds", "value"), [((500, 600), 500.0), ((-20, -10), -10.0)], ids=["below", "above"])
def test_bounds_that_clip_everything_give_the_bound_and_say_that_values_were_clipped(bounds, value, tmp_path):
    survey = a_survey(as_parquet(people(), tmp_path), tmp_path, 1e5, **WEIGHTED)
    release = survey.plan(ds.mean("income", bounds=bounds), ds.mean("income", bounds=(0, 100))).release()
    assert release.estimates[0]["estimate"] == pytest.approx(value, abs=0.01)
    assert any("clipping" in text for text in release.document["not_in_the_error"])


def test_donors_with_a_cap_cost_one_and_twice_the_cap(tmp_path):
    path = as_parquet(people(), tmp_path)
    plain = a_survey(path, tmp_path, **WEIGHTED).plan(MEAN)
    capped = a_survey(path, tmp_path, **WEIGHTED | {"imputed": "donors", "donor_uses": 2}).plan(MEAN)
    by_rule = a_survey(path, tmp_path, **WEIGHTED | {"imputed": "public rule"}).plan(MEAN)
    assert capped.items[0].mechanism.sensitivity == pytest.approx(5.0 * plain.items[0].mechanism.sensitivity)
    assert by_rule.items[0].mechanism.sensitivity == plain.items[0].mechanism.sensitivity


def test_the_frame_agnostic_total_is_allowed_with_a_public_n_and_pays_for_it(tmp_path):
    """With n records of weights 10 to 40 and values 0 to 100, one record may change all weights: (n-1)(40-10)100 + 40 * 100."""
    rows = people()
    asked = ds.total("income", bounds=(0, 100), estimator="horvitz-thompson")
    free = a_survey(as_parquet(rows, tmp_path), tmp_path, 1e5, weights="w", n=240, setting=FRAME_FREE)
    plan = free.plan(asked)
    fixed = a_survey(tmp_path / "file.parquet", tmp_path, 1e5, weights="w", n=240).plan(asked)
    in_units = plan.items[0].mechanism.sensitivity / plan.items[0].query.steps * 4000.0
    assert in_units == pytest.approx(239 * 30 * 100 + 40 * 100, rel=1e-3)
    assert fixed.items[0].mechanism.sensitivity < 0.01 * plan.items[0].mechanism.sensitivity
    (row,) = plan.release().estimates
    truth = float((rows["w"] * rows["income"].clip(0, 100)).sum())
    assert row["estimate"] == pytest.approx(truth, abs=20 * row["se_noise"])
    assert row["se_noise"] < 0.01 * truth


def test_a_weighted_total_needs_no_size(tmp_path):
    rows = people()
    survey = a_survey(as_parquet(rows, tmp_path), tmp_path, 1e5, weights="w", size=None)
    (row,) = survey.plan(ds.total("income", bounds=(0, 100))).release().estimates
    truth = float((rows["w"] * rows["income"].clip(0, 100)).sum())
    assert row["estimate"] == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("options", [{}, {"n": 240}, {"psu": "psu", "psus": 24}], ids=["no n", "n", "clusters"])
def test_a_total_of_records_without_weights_needs_a_size(options, tmp_path):
    survey = a_survey(as_parquet(people(), tmp_path), tmp_path, size=None, **options)
    with pytest.raises(BadValue, match="public size"):
        survey.plan(ds.total("income", bounds=(0, 100)))


def test_a_frame_agnostic_total_that_noise_carried_outside_says_so(tmp_path):
    """At epsilon 0.01 the noise is 500 times the range of the total; it lies in the range with probability below 0.002, so that
    all of 4 do with probability below 1e-11."""
    rows = people()
    notes = []
    for part in range(4):
        survey = a_survey(as_parquet(rows, tmp_path), tmp_path, 0.04, weights="w", n=240, setting=FRAME_FREE)
        asked = ds.total("income", bounds=(0, 100 + part), estimator="horvitz-thompson")
        (row,) = survey.plan(asked, share=0.25).release().estimates
        if not 0.0 <= row["estimate"] <= 240 * 40 * 100:
            notes += row["notes"]
    assert any(note.startswith("outside its range") for note in notes)
    assert not any(note.startswith("moved to the nearest bound") for note in notes)
