"""Survey, plan, draw, release: the whole way for every design and setting, and what comes out at its end."""

import csv
import io
import json
import math
import os
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, LedgerDisagrees, NoGuarantee, NotFound, Refusal
from dpsurvey.privacy.setting import all_settings

REGIONS = {"north": 1200, "south": 600, "island": 200}
SIZE = sum(REGIONS.values())
SEXES = ("female", "male")
DESIGNS = {
    "srs of n": ds.srs(n=400),
    "srs of a rate": ds.srs(rate=0.25),
    "poisson": ds.poisson(0.2),
    "stratified poisson, one rate": ds.stratified("region", within=ds.poisson(0.2)),
    "stratified poisson": ds.stratified(
        "region", within={"north": ds.poisson(0.15), "south": ds.poisson(0.3), "island": ds.poisson(0.5)}
    ),
    "stratified srs": ds.stratified("region", within={"north": ds.srs(n=180), "south": ds.srs(n=180), "island": ds.srs(n=100)}),
}
SETTINGS = [setting for neighbours in ("add-remove", "replace-one") for setting in all_settings(neighbours)]
COLUMNS = {"statistic", "of", "by", "estimate", "se", "se_sampling", "se_noise", "cv", "ci_low", "ci_high", "share"}


def people():
    rng = np.random.default_rng(5)
    region = np.repeat(list(REGIONS), list(REGIONS.values()))
    level = {"north": 40.0, "south": 55.0, "island": 70.0}
    return pd.DataFrame(
        {
            "id": [f"p{number:05d}" for number in rng.permutation(SIZE)],
            "region": region,
            "sex": rng.choice(SEXES, SIZE),
            "income": np.array([level[each] for each in region]) + rng.normal(0, 15, SIZE),
            "employed": rng.random(SIZE) < 0.6,
        }
    ).sample(frac=1.0, random_state=6, ignore_index=True)


@pytest.fixture(scope="module")
def rows():
    return people()


@pytest.fixture
def register(rows, tmp_path):
    path = tmp_path / "register.parquet"
    rows.to_parquet(path)
    return path


def a_frame(table, *, sizes=True):
    return ds.Frame(
        table,
        unit="id",
        size=SIZE,
        categories={"region": REGIONS if sizes else list(REGIONS), "sex": SEXES, "employed": [True, False]},
    )


def a_survey(table, folder, design=None, setting=None, *, epsilon=1.0, delta=0.0, **more):
    design = design or ds.srs(n=400)
    budget = ds.Budget(epsilon, delta)
    return ds.Survey(a_frame(table), design, setting, budget=budget, ledger=folder / "books.ledger", **more)


INCOME = ds.mean("income", bounds=(0, 100))
STATISTICS = (
    INCOME,
    ds.mean("income", bounds=(0, 100), by="region"),
    ds.total("income", bounds=(0, 100), by="sex"),
    ds.proportion("employed", True, by=("region", "sex")),
    ds.count("sex", "female", by="region"),
    ds.count(by="sex"),
)


FEW = (ds.total("income", bounds=(0, 100), by="region"), ds.proportion("employed", True), ds.count(by="sex"))


def truth(rows):
    """Every number of STATISTICS, computed from the whole register."""
    clipped = rows.assign(income=rows["income"].clip(0, 100))
    numbers = {("mean", "income", ()): clipped["income"].mean()}
    numbers |= {("mean", "income", (label,)): value for label, value in clipped.groupby("region")["income"].mean().items()}
    numbers |= {("total", "income", (label,)): value for label, value in clipped.groupby("sex")["income"].sum().items()}
    numbers |= {
        ("proportion", "employed", key): value for key, value in rows.groupby(["region", "sex"])["employed"].mean().items()
    }
    female = rows[rows["sex"] == "female"]
    numbers |= {("count", "sex", (label,)): value for label, value in female.groupby("region").size().items()}
    return numbers | {("count", None, (label,)): value for label, value in rows.groupby("sex").size().items()}


def key_of(row):
    return row["statistic"], row["of"], tuple(row["by"].values())


@pytest.mark.slow_cases("stratified srs-1e-06")
@pytest.mark.parametrize(("name", "delta"), [*((name, 0.0) for name in DESIGNS), ("srs of n", 1e-6), ("stratified srs", 1e-6)])
def test_every_design_plans_under_every_setting_that_it_allows_and_refuses_the_others(tmp_path, name, delta):
    refusals = []
    for setting in SETTINGS:
        try:
            survey = a_survey("not there.parquet", tmp_path, DESIGNS[name], setting, delta=delta)
        except NoGuarantee as error:
            refusals.append((setting, error.hint))
            continue
        for noise in ("laplace", "gaussian") if delta else ("laplace",):
            plan = survey.plan(*FEW, noise=noise)
            if setting.given is None and setting.protect != "population":
                # Simulated, so it takes its time: the frame, the sample and the respondents, under both relations.
                assert len(plan.predictions) == 6
                assert all(row["se_noise"] > 0.0 and math.isfinite(row["se"]) for row in plan.predictions)
            assert {item.mechanism.kind for item in plan.items} == {noise}
            assert plan.to_dict()["guarantee"]["epsilon"] <= 1.0 + 1e-9
    fixed_size = "srs" in name
    sizes_never_differ = [each for each in SETTINGS if each.protect == "sample" and each.neighbours == "add-remove"]
    assert [setting for setting, _ in refusals] == (sizes_never_differ if fixed_size else [])
    assert all("replace-one" in hint for _, hint in refusals)


RELEASED = [
    (ds.Setting("frame", neighbours="add-remove"), 0.0),
    (ds.Setting("frame", neighbours="replace-one"), 1e-6),
    (None, 0.0),
    (ds.Setting("respondents", given="sample", neighbours="replace-one"), 1e-6),
]


@pytest.mark.parametrize(
    ("name", "setting", "delta"),
    [
        *((name, setting, delta) for name in ("srs of n", "stratified srs") for setting, delta in RELEASED),
        ("poisson", ds.Setting("frame", neighbours="add-remove"), 0.0),
        ("poisson", ds.Setting("population", neighbours="add-remove"), 1e-6),
        ("poisson", None, 0.0),
        ("stratified poisson", ds.Setting("frame", neighbours="add-remove"), 0.0),
        ("stratified poisson", ds.Setting("frame", neighbours="add-remove"), 1e-6),
        ("stratified poisson", ds.Setting("frame", neighbours="replace-one"), 0.0),
    ],
)
def test_every_design_releases_numbers_near_the_truth(rows, tmp_path, name, setting, delta):
    # 16 standard errors: beyond it lie 2e-10 of Laplace noise and less of anything else; 14 releases of 17 numbers, so
    # the false alarm of all together is below 1e-7. A total without its weights would be off by more than 25.
    survey = a_survey(rows, tmp_path, DESIGNS[name], setting, epsilon=40.0, delta=delta)
    release = survey.plan(*STATISTICS, share=0.9).release()
    right = truth(rows)
    assert {key_of(row) for row in release.estimates} == set(right)
    for row in release.estimates:
        assert abs(row["estimate"] - right[key_of(row)]) <= 16 * row["se"] + 1e-9, row
        assert row["se"] < 0.5 * abs(right[key_of(row)]), "the bound of 16 standard errors says something"
        assert row["ci_low"] <= row["estimate"] <= row["ci_high"]
        assert row["se"] == pytest.approx(math.hypot(row["se_sampling"], row["se_noise"]))
        assert row["cv"] == pytest.approx(row["se"] / abs(row["estimate"]))
    assert release.to_dict()["guarantee"]["epsilon"] <= 40.0


def test_the_setting_that_nobody_asked_for_protects_the_sample_and_does_not_amplify(tmp_path):
    survey = a_survey("not there.parquet", tmp_path)
    assert survey.terms.setting == ds.Setting("sample", given="frame", neighbours="replace-one")
    assert a_survey("not there.parquet", tmp_path, ds.poisson(0.1)).terms.setting.neighbours == "add-remove"
    guarantee = survey.plan(INCOME).to_dict()["guarantee"]
    assert guarantee["epsilon"] == guarantee["in_sample"]["epsilon"] == pytest.approx(1.0)
    assert guarantee["sentence"] == "Anyone in the sample: epsilon 1."


def test_the_printed_guarantee_of_a_two_percent_poisson_sample(tmp_path):
    survey = a_survey("not there.parquet", tmp_path, ds.poisson(0.02), ds.Setting("frame", neighbours="add-remove"))
    assert (
        str(survey.plan(INCOME))
        .splitlines()[-1]
        .endswith(
            "Anyone on the frame: epsilon 1. Someone known to be in the sample: epsilon 4.465. If the sample list leaks: 4.465."
        )
    )


def test_planning_reads_no_rows_and_writes_nothing(tmp_path):
    survey = a_survey("not there.parquet", tmp_path, ds.poisson(0.02), ds.Setting("frame", neighbours="add-remove"))
    plan = survey.plan(INCOME, ds.proportion("employed", True, by=("region", "sex"))).aim("income", moe=60)
    assert "no rows read" in str(plan)
    assert json.loads(json.dumps(plan.to_dict()))["predictions"]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def release(rows, tmp_path):
    return a_survey(rows, tmp_path, setting=ds.Setting("frame", neighbours="replace-one")).plan(*STATISTICS, share=0.5).release()


def test_the_document_has_the_guaranteed_keys(release):
    document = release.to_dict()
    assert {"schema_version", "survey", "sample", "guarantee", "estimates", "ledger", "software"} <= set(document)
    assert {"id", "design", "engine"} <= set(document["sample"])
    guaranteed = {"epsilon", "delta", "neighbours", "protect", "given", "in_sample", "holds_when"}
    assert guaranteed <= set(document["guarantee"])
    assert set(document["guarantee"]["in_sample"]) == {"epsilon", "delta"}
    assert document["guarantee"]["holds_when"]
    assert all(set(row) >= COLUMNS for row in document["estimates"])
    assert {"spent", "left"} <= set(document["ledger"])
    assert document["ledger"]["spent"] + document["ledger"]["left"] == pytest.approx(1.0)
    assert {"python", "dpsurvey", "opendp", "numpy"} <= set(document["software"])
    assert sum({key_of(row): row["share"] for row in document["estimates"]}.values()) > 0.5
    charges = {json.dumps(each["statistics"]): each for each in document["noisy_sums"]}
    assert len(charges) == len(release.plan().items)


def test_the_saved_document_is_the_one_in_memory(release, tmp_path):
    path = release.save(tmp_path / "release.json")
    assert json.loads(path.read_text()) == release.to_dict()
    loaded = ds.Release.load(path)
    assert loaded.to_dict() == release.to_dict()
    assert (loaded.hash, loaded.estimates, str(loaded)) == (release.hash, release.estimates, str(release))
    assert [file.name for file in tmp_path.glob("*.part")] == []


def test_the_saved_table_has_a_line_for_every_number(release, tmp_path):
    lines = list(csv.DictReader(io.StringIO(release.save(tmp_path / "release.csv").read_text())))
    assert len(lines) == len(release.estimates) == 17
    for line, row in zip(lines, release.estimates, strict=True):
        assert (float(line["estimate"]) if line["estimate"] else None) == row["estimate"]
        assert {column: line[column] for column in row["by"]} == row["by"]


def test_a_release_is_saved_in_known_forms_only(release, tmp_path):
    with pytest.raises(BadValue, match=r"\.csv, \.html, \.json or \.parquet"):
        release.save(tmp_path / "release.xlsx")
    (tmp_path / "other.json").write_text('{"schema_version": 99}')
    (tmp_path / "broken.json").write_text("{")
    for name in ("other.json", "broken.json"):
        with pytest.raises(BadValue, match="not a release"):
            ds.Release.load(tmp_path / name)
    with pytest.raises(NotFound):
        ds.Release.load(tmp_path / "absent.json")


def test_changing_what_a_release_hands_out_does_not_change_it(release):
    before = release.hash
    release.estimates[0]["estimate"] = 0.0
    release.to_dict()["guarantee"]["epsilon"] = 0.0
    assert release.hash == before
    assert release.estimates[0]["estimate"] != 0.0


def test_a_release_prints_and_explains_its_guarantee(release):
    assert str(release.guarantee) in str(release)
    assert release.guarantee.epsilon <= 1.0
    assert len(release.guarantee.specification.splitlines()) == 5
    assert all(text in release.explain() for text in ("Steps", "Holds when", "Whose record", "multiverse", "budget"))
    assert repr(release) == "Release('survey', 17 estimates)"


@pytest.mark.parametrize("name", ["poisson", "stratified poisson", "stratified srs"])
def test_numbers_are_recomputed_after_the_sample_and_the_frame_were_deleted(register, tmp_path, name):
    survey = a_survey(register, tmp_path, DESIGNS[name], ds.Setting("frame", neighbours="replace-one"))
    survey.draw(tmp_path / "sample.parquet")
    saved = survey.plan(*STATISTICS).release().save(tmp_path / "release.json")
    for path in (register, tmp_path / "sample.parquet", tmp_path / "books.ledger"):
        os.remove(path)
    release = ds.Release.load(saved)
    assert release.recompute() == release.estimates


@pytest.mark.parametrize("name", DESIGNS)
def test_a_draw_writes_the_units_with_weights_for_its_owner_alone(rows, register, tmp_path, name):
    survey = a_survey(register, tmp_path, DESIGNS[name])
    sealed = survey.draw(tmp_path / "sample.parquet")
    path = tmp_path / "sample.parquet"
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.glob("*.part")] == []
    drawn = duckdb.sql(f"select * from '{path}'").df()
    strata = survey.terms.design.strata_column
    assert list(drawn.columns) == ["unit", "stratum", "psu", "pi", "weight"]
    assert drawn["unit"].is_unique
    assert set(drawn["unit"]) <= set(rows["id"])
    groups = drawn.groupby("stratum")["unit"] if strata else [("all", drawn["unit"])]
    assert all(units.is_monotonic_increasing for _, units in groups), "the order of the file says nothing about the draw"
    assert drawn["psu"].isna().all()
    assert drawn["pi"].to_numpy() * drawn["weight"].to_numpy() == pytest.approx(1.0, rel=1e-12)
    # The weights of a Poisson draw add up to N give or take sqrt(N (1-p)/p) = 107 at most; 8 of them: false alarm 1e-15.
    tolerance = 1e-6 if survey.terms.design.fixed_size else 8 * 107
    assert drawn["weight"].sum() == pytest.approx(SIZE, abs=tolerance)
    if strata:
        region = rows.set_index("id")["region"]
        assert (drawn["stratum"] == drawn["unit"].map(region)).all()
        expected = {part.label: part.weight for part in survey.terms.design.parts()}
        assert drawn["weight"].tolist() == pytest.approx([expected[label] for label in drawn["stratum"]], rel=1e-14)
    else:
        assert drawn["stratum"].isna().all()
    assert sealed.path == str(path)
    assert ds.Ledger(tmp_path / "books.ledger").spending(survey.terms).spent == 0.0


def readable_by_others(folder):
    """The files that somebody else on this machine could read."""
    found = []
    for place, _, names in os.walk(folder):
        inside = [path for path in (place, *map(str, Path(place).parents)) if path.startswith(str(folder))]
        if all(os.stat(path).st_mode & 0o011 for path in inside):
            found += [name for name in names if os.stat(os.path.join(place, name)).st_mode & 0o044]
    return found


def test_the_secret_sample_is_readable_by_nobody_else_while_it_is_written(rows, tmp_path, monkeypatch):
    # Whatever the engine does on the way, it is seen when the file gets its mode or its name.
    out = tmp_path / "out"
    out.mkdir(mode=0o755)
    seen = []
    for name in ("chmod", "replace"):
        act = getattr(os, name)

        def watched(*given, act=act, **more):
            seen.append(readable_by_others(out))
            return act(*given, **more)

        monkeypatch.setattr(os, name, watched)
    before = os.umask(0o022)
    try:
        a_survey(rows, tmp_path).draw(out / "sample.parquet")
    finally:
        os.umask(before)
    assert seen
    assert [names for names in seen if names] == []
    assert readable_by_others(out) == []
    (out / "open.txt").write_text("the search finds a file that is open")
    assert readable_by_others(out) == ["open.txt"]


def units_of(path):
    return set(duckdb.sql(f"select unit from '{path}'").df()["unit"])


def test_a_second_draw_is_refused_unless_it_is_asked_for(register, tmp_path):
    survey = a_survey(register, tmp_path)
    first = survey.draw(tmp_path / "first.parquet")
    for again in (survey, a_survey(register, tmp_path)):
        with pytest.raises(LedgerDisagrees, match="sealed already"):
            again.draw(tmp_path / "second.parquet")
    assert not (tmp_path / "second.parquet").exists()
    second = a_survey(register, tmp_path).draw(tmp_path / "second.parquet", new=True)
    assert first.id != second.id
    assert ds.Ledger(tmp_path / "books.ledger").sealed_sample("survey") == second


def overlap_is_that_of_independent_draws(first, second):
    """Two draws of 400 from 2000 share 80 units give or take 7; 150 or more: probability below 1e-20."""
    return len(units_of(first) & units_of(second)) < 150


def test_a_new_sample_is_a_new_draw(register, tmp_path):
    # The ledger adds the amplified losses of two samples, which is true of independent ones only.
    survey = a_survey(register, tmp_path)
    survey.draw(tmp_path / "first.parquet")
    survey.draw(tmp_path / "second.parquet", new=True)
    assert overlap_is_that_of_independent_draws(tmp_path / "first.parquet", tmp_path / "second.parquet")


def test_a_sample_drawn_after_a_release_from_it_is_a_new_draw(register, tmp_path):
    survey = a_survey(register, tmp_path)
    survey.draw(tmp_path / "first.parquet")
    survey.plan(INCOME, share=0.25).release()
    survey.draw(tmp_path / "second.parquet", new=True)
    assert overlap_is_that_of_independent_draws(tmp_path / "first.parquet", tmp_path / "second.parquet")


def test_a_sample_that_was_released_from_without_sealing_is_never_sealed_as_another(register, tmp_path):
    # At a rate of 1/5 two independent draws agree nowhere near; the same units under two ids would be amplified twice.
    survey = a_survey(register, tmp_path, setting=ds.Setting("frame", neighbours="replace-one"))
    secret = survey.plan(INCOME, share=0.25).release().to_dict()["sample"]["id"]
    before = set(survey._engine._sample.select("id").to_pyarrow()["id"].to_pylist())
    sealed = survey.draw(tmp_path / "sample.parquet")
    assert sealed.id == secret or len(before & units_of(tmp_path / "sample.parquet")) < 150


def test_a_sealed_sample_serves_every_later_release(register, tmp_path):
    sealed = a_survey(register, tmp_path).draw(tmp_path / "sample.parquet")
    releases = [a_survey(register, tmp_path).plan(INCOME, share=share).release() for share in (0.25, 0.5)]
    assert [release.to_dict()["sample"]["id"] for release in releases] == [sealed.id, sealed.id]
    assert all(release.to_dict()["sample"]["sealed"] for release in releases)
    assert releases[1].to_dict()["ledger"]["spent"] == pytest.approx(0.75)


def test_the_numbers_of_a_sealed_sample_are_those_of_its_units(rows, register, tmp_path):
    # Epsilon 200: the noise of the mean has standard deviation 0.0018, and 0.02 is 11 of them (2e-7); the mean of
    # another sample of 400 differs by 0.9.
    survey = a_survey(register, tmp_path, epsilon=200.0)
    survey.draw(tmp_path / "sample.parquet")
    estimate = a_survey(register, tmp_path, epsilon=200.0).plan(INCOME).release().estimates[0]["estimate"]
    drawn = rows[rows["id"].isin(units_of(tmp_path / "sample.parquet"))]
    assert estimate == pytest.approx(drawn["income"].clip(0, 100).mean(), abs=0.02)


def test_a_sample_file_that_was_changed_or_lost_is_refused(register, tmp_path):
    survey = a_survey(register, tmp_path)
    survey.draw(tmp_path / "sample.parquet")
    original = (tmp_path / "sample.parquet").read_bytes()
    duckdb.execute(f"copy (select * from '{tmp_path / 'sample.parquet'}' limit 100) to '{tmp_path / 'less.parquet'}'")
    os.replace(tmp_path / "less.parquet", tmp_path / "sample.parquet")
    (tmp_path / "sample.parquet").chmod(0o600)
    with pytest.raises(LedgerDisagrees, match="not the one that was sealed"):
        survey.plan(INCOME).release()
    os.remove(tmp_path / "sample.parquet")
    with pytest.raises(NotFound, match="is gone"):
        survey.plan(INCOME).release()
    assert ds.Ledger(tmp_path / "books.ledger").spending(survey.terms).spent == 0.0
    (tmp_path / "sample.parquet").write_bytes(original)
    (tmp_path / "sample.parquet").chmod(0o600)
    assert survey.plan(INCOME).release().estimates


def answers_of(path, rows, rng):
    """Seven of ten drawn units answer, by chance; their hours are known to nobody else, their income is what they say."""
    drawn = sorted(units_of(path))
    back = [unit for unit in drawn if rng.random() < 0.7]
    told = rows.set_index("id").loc[back]
    hours = rng.integers(0, 60, len(back))
    return pd.DataFrame(
        {
            "id": back,
            "hours": hours,
            "income": told["income"].to_numpy() * 0.9,
            "employed": told["employed"].to_numpy(),
            "remark": "thank you",
        }
    )


@pytest.mark.parametrize("form", ["csv", "parquet", "pandas"])
@pytest.mark.parametrize("name", ["srs of n", "stratified poisson"])
def test_responses_come_back_for_a_sealed_sample(rows, register, tmp_path, name, form):
    # 12 standard errors: false alarm below 1e-6 (see above). Income told is 0.9 of that on the frame.
    survey = a_survey(register, tmp_path, DESIGNS[name], epsilon=40.0)
    survey.draw(tmp_path / "sample.parquet")
    answers = answers_of(tmp_path / "sample.parquet", rows, np.random.default_rng(9))
    given = answers if form == "pandas" else tmp_path / f"answers.{form}"
    if form == "csv":
        answers.to_csv(given, index=False)
    elif form == "parquet":
        answers.to_parquet(given)
    plan = a_survey(register, tmp_path, DESIGNS[name], epsilon=40.0).plan(
        INCOME, ds.mean("hours", bounds=(0, 60), by="region"), ds.proportion("employed", True), responses=given
    )
    release = plan.release()
    right = {
        ("mean", "income", ()): (0.9 * rows["income"]).clip(0, 100).mean(),
        **{("mean", "hours", (label,)): 29.5 for label in REGIONS},
        ("proportion", "employed", ()): rows["employed"].mean(),
    }
    assert {key_of(row) for row in release.estimates} == set(right)
    for row in release.estimates:
        assert abs(row["estimate"] - right[key_of(row)]) <= 12 * row["se"], row
        assert row["se"] < 0.3 * row["estimate"]
    assert release.recompute() == release.estimates
    told = next(row for row in release.estimates if row["of"] == "income")
    assert told["estimate"] < rows["income"].mean() - 2.0, "answers are used, not the values of the frame"


def test_what_is_asked_must_be_answered_and_is_never_taken_from_the_frame(rows, register, tmp_path):
    survey = a_survey(register, tmp_path)
    survey.draw(tmp_path / "sample.parquet")
    answers = answers_of(tmp_path / "sample.parquet", rows, np.random.default_rng(9)).rename(columns={"income": "incom"})
    with pytest.raises(NotFound, match="the table of answers has no column 'income'") as caught:
        survey.plan(INCOME, ds.mean("hours", bounds=(0, 60)), responses=answers).release()
    assert "did you mean 'incom'?" in str(caught.value)
    assert ds.Ledger(survey.ledger_path).spending(survey.terms).spent == 0.0


def test_the_size_of_a_responding_sample_is_not_public_so_its_noise_pays_for_it(tmp_path):
    survey = a_survey("not there.parquet", tmp_path)
    without, with_answers = survey.plan(INCOME), survey.plan(INCOME, responses="answers.csv")
    assert [item.query.encoding.name for item in (*without.items, *with_answers.items)] == ["moments", "triple"]
    assert with_answers.items[0].mechanism.scale > 1.9 * without.items[0].mechanism.scale


def test_statistics_that_read_the_same_sums_share_one_charge(tmp_path):
    for design in (DESIGNS["srs of n"], DESIGNS["poisson"], DESIGNS["stratified poisson"], DESIGNS["stratified srs"]):
        survey = a_survey("not there.parquet", tmp_path, design)
        plan = survey.plan(ds.mean("income", bounds=(0, 100), by="region"), ds.total("income", bounds=(0, 100), by="region"))
        assert len(plan.items) == 1
        assert {row["share"] for row in plan.predictions} == {1.0}
        other = survey.plan(ds.mean("income", bounds=(0, 100), by="region"), ds.total("income", bounds=(0, 99), by="region"))
        assert len(other.items) == 2


def test_statistics_that_share_a_charge_are_estimated_from_the_same_noisy_sums(rows, tmp_path):
    survey = a_survey(rows, tmp_path, DESIGNS["stratified srs"])
    mean, total = ds.mean("income", bounds=(0, 100), by="region"), ds.total("income", bounds=(0, 100), by="region")
    release = survey.plan(mean, total).release()
    numbers = {key_of(row): row["estimate"] for row in release.estimates}
    for label, size in REGIONS.items():
        assert numbers["total", "income", (label,)] == pytest.approx(size * numbers["mean", "income", (label,)])
    assert release.to_dict()["ledger"]["spent"] == pytest.approx(1.0)


def test_weights_divide_the_share(tmp_path):
    survey = a_survey("not there.parquet", tmp_path)
    plan = survey.plan(INCOME, ds.count(by="sex"), share=0.8, weights=(3, 1))
    assert [item.share for item in plan.items] == pytest.approx([0.6, 0.2])
    assert [item.charge.epsilon(0.0) for item in plan.items] == pytest.approx([0.6, 0.2])
    equal = survey.plan(INCOME, ds.count(by="sex"), share=0.8)
    assert [item.share for item in equal.items] == pytest.approx([0.4, 0.4])
    assert plan.items[0].mechanism.scale < equal.items[0].mechanism.scale


@pytest.mark.parametrize("share", [0.0, -0.5, 1.0000001, math.nan, math.inf])
def test_a_share_outside_0_1_is_refused(tmp_path, share):
    with pytest.raises(BadValue, match=r"\(0, 1\]"):
        a_survey("not there.parquet", tmp_path).plan(INCOME, share=share)


@pytest.mark.parametrize("weights", [(1,), (1, 2, 3), (1, 0), (1, -1), (1, math.nan), (1, math.inf)])
def test_weights_that_divide_nothing_are_refused(tmp_path, weights):
    with pytest.raises(BadValue, match="weights="):
        a_survey("not there.parquet", tmp_path).plan(INCOME, ds.count(by="sex"), weights=weights)


def test_a_plan_needs_statistics_and_each_once(tmp_path):
    survey = a_survey("not there.parquet", tmp_path)
    with pytest.raises(BadValue, match="at least one"):
        survey.plan()
    with pytest.raises(BadValue, match="twice"):
        survey.plan(INCOME, INCOME)


def worst(plan, of):
    return max(row["moe"] for row in plan.predictions if row["label"] == of)


def test_aiming_spends_just_enough_on_a_column_and_leaves_the_rest_to_the_others(tmp_path):
    survey = a_survey("not there.parquet", tmp_path, epsilon=0.3)
    other = ds.proportion("employed", True)
    expected = ds.mean("income", bounds=(0, 100), expect=(50, 18))
    plan = survey.plan(expected, other)
    alone = worst(survey.plan(expected), "income")
    for target in (1.02 * alone, 0.5 * (alone + worst(plan, "income")), 2.0 * worst(plan, "income")):
        aimed = plan.aim("income", moe=target)
        assert 0.99 * target < worst(aimed, "income") <= target
        assert sum(item.share for item in aimed.items) == pytest.approx(1.0)
    generous = plan.aim("income", moe=2.0 * worst(plan, "income"))
    assert worst(generous, "employed = True".replace("True", "true")) < worst(plan, "employed = true")
    with pytest.raises(Refusal, match="cannot be estimated") as caught:
        plan.aim("income", moe=0.9 * alone)
    assert "of what one sample may be charged they need 'income' 1." in str(caught.value)
    assert "would do" in caught.value.hint


def test_an_aimed_plan_is_released_like_any_other(rows, tmp_path):
    survey = a_survey(rows, tmp_path)
    plan = survey.plan(INCOME, ds.proportion("employed", True), share=0.5)
    aimed = plan.aim("income", moe=1.2 * worst(plan, "income"))
    release = aimed.release()
    assert release.plan().weights == aimed.weights
    assert release.to_dict()["ledger"]["spent"] == pytest.approx(0.5)


def test_aiming_at_what_is_not_in_the_plan_is_refused(tmp_path):
    plan = a_survey("not there.parquet", tmp_path).plan(INCOME)
    with pytest.raises(NotFound, match="did you mean 'income'"):
        plan.aim("incme", moe=1.0)
    for moe in (0.0, -1.0, math.nan):
        with pytest.raises(BadValue, match="positive"):
            plan.aim("income", moe=moe)


def test_a_plan_of_the_whole_share_always_fits_the_budget(tmp_path):
    # Shares are rounded down and the loss of their sum is rounded up; a plan of 3 numbers must not fail on the last bit.
    too_much = []
    for name in ("srs of n", "poisson", "stratified poisson"):
        setting_of_frame = ds.Setting("frame", neighbours="replace-one" if name == "srs of n" else "add-remove")
        for setting in (setting_of_frame, ds.Setting("sample", neighbours="replace-one")):
            for epsilon, delta in ((1.0, 0.0), (3.0, 1e-6)):
                survey = a_survey("not there.parquet", tmp_path, DESIGNS[name], setting, epsilon=epsilon, delta=delta)
                for number in range(1, 9):
                    plan = survey.plan(*(ds.proportion("job", f"word {each}") for each in range(number)))
                    with ds.Ledger(tmp_path / "what-if.ledger") as ledger:
                        fits = ledger.quote(plan.request).fits
                    if not fits:
                        too_much.append((name, setting.protect, epsilon, delta, number))
    assert too_much == []


def test_checking_a_frame_spends_nothing(register, tmp_path):
    survey = a_survey(register, tmp_path)
    survey.check(survey.plan(*STATISTICS))
    assert ds.Ledger(tmp_path / "books.ledger").spending(survey.terms).spent == 0.0


def test_progress_names_every_long_step(register, tmp_path):
    steps = []
    survey = a_survey(register, tmp_path, progress=lambda what, done, total: steps.append((what, done, total)))
    survey.draw(tmp_path / "sample.parquet")
    survey.plan(INCOME, ds.count(by="sex")).release()
    assert list(dict.fromkeys(what for what, _, _ in steps)) == [
        "checking rows",
        "drawing in secret",
        "writing and sealing",
        "taking the sample",
        "summing and adding noise",
    ]
    for what in {what for what, _, _ in steps}:
        done = [(done, total) for step, done, total in steps if step == what]
        assert (done[0][0], done[-1][0]) == (0, done[-1][1])
        counted = [step for step, _ in done] in (list(range(done[-1][1] + 1)), [0, 1, 0, 1])
        assert counted or what == "drawing in secret"


def test_later_columns_are_fetched_for_the_same_units(rows, tmp_path):
    survey = a_survey(rows, tmp_path)

    def units():
        return sorted(survey._engine._sample.select("id").to_pyarrow()["id"].to_pylist())

    survey.plan(INCOME, share=0.5).release()
    first = units()
    survey.plan(ds.proportion("employed", True), share=0.25).release()
    assert "employed" in survey._engine._sample.columns
    assert units() == first
    survey.plan(INCOME, share=0.25).release()
    assert units() == first


def test_a_relative_path_and_a_path_object_name_the_same_frame(register, tmp_path, monkeypatch):
    assert a_frame(register).to_dict() == a_frame(str(register)).to_dict()
    monkeypatch.chdir(tmp_path)
    survey = a_survey("register.parquet", tmp_path)
    assert survey.plan(INCOME).release().to_dict()["survey"]["frame"]["table"] == "register.parquet"
