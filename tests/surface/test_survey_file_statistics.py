"""Every statistic can be written in survey.toml, as the docs and `dpsurvey init` show it; wrong shapes get an example."""

import json
import re
import tomllib

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.design import DESIGNS
from dpsurvey.errors import BadValue, NoGuarantee
from dpsurvey.statistic import STATISTICS, statistic_from_dict
from dpsurvey.survey.survey_file import SurveyFile
from tests.command_line import invoke as run

CONSTRUCTORS = {each.name for each in STATISTICS.values()}
HEAD = """
[survey]
name = "living"
ledger = "living.ledger"
[frame]
table = "living.csv"
size = 4000
[frame.categories]
region = ["north", "south"]
sex = ["female", "male"]
[design]
kind = "collected"
[budget]
epsilon = 40
"""
MEAN = ds.mean("income", bounds=(0, 250_000))
OF = '{ kind = "mean", of = "income", bounds = [0, 250_000] }'
BY_SEX = '{ kind = "mean", of = "income", bounds = [0, 250_000], by = ["sex"] }'
SEXES = {"female": 2100, "male": 1900}
CELLS = {("north", "female"): 1200, ("north", "male"): 1000, ("south", "female"): 900, ("south", "male"): 900}
ROWS = json.dumps([[*labels, count] for labels, count in CELLS.items()])
# What is written, and what Python would call.
SAME = {
    "contrast, the last column": (
        f'kind = "contrast"\nof = {BY_SEX}\nfirst = "female"\nsecond = "male"',
        ds.contrast(ds.mean("income", bounds=(0, 250_000), by="sex"), "female", "male"),
    ),
    "contrast, one of two columns": (
        'kind = "contrast"\nof = { kind = "proportion", of = "status", value = "x", by = ["sex", "region"] }\n'
        'first = "female"\nsecond = "male"\nalong = "sex"',
        ds.contrast(ds.proportion("status", "x", by=("sex", "region")), "female", "male", along="sex"),
    ),
    "median": (
        'kind = "median"\nof = "income"\nbounds = [0, 100]\nleaves = 64',
        ds.median("income", bounds=(0, 100), leaves=64),
    ),
    "one margin": (
        f'kind = "calibrated"\nof = {OF}\nto = {{ sex = {{ female = 2100, male = 1900 }} }}\nexplains = 0.2',
        ds.calibrated(MEAN, {"sex": SEXES}, explains=0.2),
    ),
    "two margins": (
        f'kind = "calibrated"\nof = {OF}\nto.sex = {{ female = 2100, male = 1900 }}\n'
        "to.region = { north = 2200, south = 1800 }",
        ds.calibrated(MEAN, {"sex": SEXES, "region": {"north": 2200, "south": 1800}}),
    ),
    "a margin of two columns": (
        f'kind = "calibrated"\nof = {OF}\nto = [{{ columns = ["region", "sex"], counts = {ROWS} }}]',
        ds.calibrated(MEAN, {("region", "sex"): CELLS}),
    ),
    "imputed": (f'kind = "imputed"\nof = {OF}\ncells = ["sex"]', ds.imputed(MEAN, cells=["sex"])),
    "imputed, one column": (f'kind = "imputed"\nof = {OF}\ncells = "sex"', ds.imputed(MEAN, cells="sex")),
    "greg": (
        f'kind = "greg"\nof = {OF}\non = {{ age = {{ bounds = [0, 100], mean = 41 }} }}',
        ds.greg(MEAN, on={"age": ((0, 100), 41)}),
    ),
    "clipping bounds": ('kind = "clipping_bounds"\nof = "wealth"\nwithin = [0, 1e8]', ds.clipping_bounds("wealth", (0, 1e8))),
    "table": ('kind = "table"\nby = ["region", "sex"]', ds.table("region", "sex")),
    "table of one column": ('kind = "table"\nby = "sex"', ds.table("sex")),
    "a condition": (
        'kind = "mean"\nof = "income"\nbounds = [0, 9]\nby = "sex"\nwhere = { age = { from = 15, to = 74 } }',
        ds.mean("income", bounds=(0, 9), by="sex", where={"age": (15, 74)}),
    ),
}


def plan_of(folder, text):
    path = folder / "survey.toml"
    path.write_text(text)
    file = SurveyFile.read(path)
    return file.plan(file.survey())


@pytest.mark.parametrize("case", SAME)
def test_what_is_written_is_what_python_would_call(tmp_path, case):
    written, called = SAME[case]
    plan = plan_of(tmp_path, HEAD + "[[statistic]]\n" + written)
    assert plan.statistics == (called,)
    # What a release and the ledger keep reads back as the same statistic, whatever it was called in the file.
    assert statistic_from_dict(json.loads(json.dumps(called.to_dict()))) == called


def test_every_constructor_is_a_kind_and_its_example_can_be_planned(tmp_path):
    for kind, each in STATISTICS.items():
        assert getattr(ds, kind.replace(" ", "_")) is each.make
        plan = plan_of(tmp_path, f"statistic = [{each.example}]\n{HEAD}")
        assert len(plan.statistics) == 1, kind


def test_the_file_on_the_page_about_statistics_has_every_kind_and_can_be_planned(request, tmp_path):
    page = (request.config.rootpath / "docs" / "guides" / "statistics.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S)
    plan = plan_of(tmp_path, text)
    written = tomllib.loads(text)["statistic"]
    assert {each["kind"] for each in written} == CONSTRUCTORS
    assert len(plan.statistics) == len(written)
    # The contrast reads the sums of its mean, and both quantiles one tree.
    assert len(plan.items) <= len(written) - 2


WRONG_FILES = {
    "of is missing": ('kind = "contrast"\nfirst = "female"\nsecond = "male"', ["'of'", "'contrast'", "missing", "kind ="]),
    "first is missing": (f'kind = "contrast"\nof = {BY_SEX}\nsecond = "male"', ["'first'", "'contrast'", "missing"]),
    "to is missing": (f'kind = "calibrated"\nof = {OF}', ["'to'", "'calibrated'", "missing", "to = { sex ="]),
    "cells is missing": (f'kind = "imputed"\nof = {OF}', ["'cells'", "'imputed'", "missing", "cells = ["]),
    "on is missing": (f'kind = "greg"\nof = {OF}', ["'on'", "'greg'", "missing", "on = { age ="]),
    "by is missing": ('kind = "table"', ["'by'", "'table'", "missing"]),
    "value is missing": ('kind = "proportion"\nof = "status"', ["'value'", "'proportion'", "missing"]),
    "kind is missing": ('of = "income"', ["kind", 'kind = "mean"']),
    "q is for quantile": ('kind = "median"\nof = "x"\nq = 0.9\nbounds = [0, 1]', ["unknown key 'q'", "'median'"]),
    "bonds": ('kind = "mean"\nof = "income"\nbonds = [0, 1]', ["unknown key 'bonds'", "did you mean 'bounds'"]),
    "medain": ('kind = "medain"\nof = "income"', ["did you mean 'median'"]),
    "imputd": (f'kind = "imputd"\nof = {OF}', ["did you mean 'imputed'"]),
    "of a column": ('kind = "calibrated"\nof = "income"\nto = {}', ["'of'", "whole statistic", "of = { kind ="]),
    "inner bounds": (
        'kind = "greg"\nof = { kind = "mean", of = "income", bouns = [0, 1] }\non = {}',
        ["unknown key 'bouns'", "did you mean 'bounds'"],
    ),
    "to a list of words": (f'kind = "calibrated"\nof = {OF}\nto = ["sex"]', ["'to'", "to = { sex = {", "columns ="]),
    "to a word": (f'kind = "calibrated"\nof = {OF}\nto = "sex"', ["'to'", "to = { sex = {"]),
    "to without counts": (f'kind = "calibrated"\nof = {OF}\nto = {{ sex = ["female"] }}', ["sex", "to = { sex = {"]),
    "a short row": (
        f'kind = "calibrated"\nof = {OF}\nto = [{{ columns = ["region", "sex"], counts = [["north", 3]] }}]',
        ["a row of the margin region, sex", "counts = [["],
    ),
    "a row twice": (
        f'kind = "calibrated"\nof = {OF}\nto = [{{ columns = ["sex"], counts = [["female", 3], ["female", 4]] }}]',
        ["twice"],
    ),
    "on a number": (f'kind = "greg"\nof = {OF}\non = {{ age = 41 }}', ["'age'", "on = { age = { bounds = [0, 120]"]),
    "on without a mean": (f'kind = "greg"\nof = {OF}\non = {{ age = {{ bounds = [0, 9] }} }}', ["'age'", "mean = 41.3"]),
    "cells a number": (f'kind = "imputed"\nof = {OF}\ncells = 3', ["cells", 'cells=["region", "sex"]']),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_mistake_in_a_statistic_is_named_with_the_right_form(tmp_path, case):
    written, words = WRONG_FILES[case]
    with pytest.raises(BadValue) as caught:
        plan_of(tmp_path, HEAD + "[[statistic]]\n" + written)
    assert all(word in str(caught.value) for word in words), str(caught.value)


NUMBERS = [3, -1.5, True, 10**400, float("inf")]
SHAPES = [*NUMBERS, "x", "", [], [1], [[1]], ["x", "y"], {}, {"a": 1}, {"a": {"b": 1}}, {"kind": "mean"}]


@pytest.mark.parametrize("kind", STATISTICS)
def test_no_value_of_a_wrong_shape_gets_past_the_reading_with_a_traceback(tmp_path, kind):
    survey = SurveyFile.read(_written(tmp_path, HEAD)).survey()
    right = tomllib.loads("statistic = " + STATISTICS[kind].example)["statistic"]
    refused = []
    for key in STATISTICS[kind].known:
        for shape in SHAPES:
            try:
                survey.plan(statistic_from_dict(right | {key: shape}))
            except ds.SurveyError as error:
                refused.append(str(error))
    assert len(refused) > 10
    assert not [each for each in refused if "must be integers" in each or "unpack" in each]


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ('kind = "collected"\nweight = "w"', ["unknown key 'weight'", "'collected'", "did you mean 'weights'"]),
        ('kind = "poisson"\nrte = 0.1', ["unknown key 'rte'", "'poisson'", "did you mean 'rate'"]),
        ('kind = "poisson"', ["'rate'", "missing", "'poisson'"]),
        ('kind = "stratified"\nby = "region"\nwithin = { kind = "srs", m = 3 }', ["unknown key 'm'", "'srs'"]),
        ('kind = "stratified"\nby = "region"\nwithin.north = { kind = "srs", m = 3 }', ["unknown key 'm'", "'srs'"]),
        ('kind = "cluster"\ncluster = "psu"\nhow = { kind = "pps", siz = "x", n = 3 }', ["'siz'", "did you mean 'size'"]),
        ('kind = "stages"\nstages = [{ kind = "systematic", ordr = "x" }]', ["'ordr'", "did you mean 'order'"]),
    ],
)
def test_a_mistake_in_the_design_is_named(tmp_path, design, words):
    with pytest.raises(BadValue) as caught:
        plan_of(tmp_path, HEAD.replace('kind = "collected"', design))
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("kind", DESIGNS)
def test_every_design_knows_its_own_keys(tmp_path, kind):
    with pytest.raises(BadValue, match="unknown key 'colour' in the design"):
        plan_of(tmp_path, HEAD.replace('kind = "collected"', f'kind = "{kind}"\ncolour = "red"'))


TOTAL, MEDIAN = ds.total("income", bounds=(0, 9), by="sex"), ds.median("income", bounds=(0, 9))
TO = {"sex": SEXES}
CAN_BE_CALIBRATED = ["a mean, a total or a proportion", "calibrated(mean("]
WRONG_CALLS = {
    "regressed on a number": (lambda: ds.greg(MEAN, on={"age": 41}), ['on={"age": ((0, 120), 41.3)}']),
    "regressed count": (lambda: ds.greg(ds.count(by="sex"), on={"age": ((0, 120), 41)}), ["mean or a total", "greg(mean("]),
    "contrast of a total": (lambda: ds.contrast(TOTAL, "female", "male"), ["mean, a proportion or a ratio", "contrast(mean("]),
    "contrast of a median": (lambda: ds.contrast(MEDIAN, "female", "male"), ["mean, a proportion or a ratio", "contrast(mean("]),
    "contrast of a word": (lambda: ds.contrast("income", "female", "male"), ["a str", "contrast(mean("]),
    "calibrated median": (lambda: ds.calibrated(MEDIAN, TO), CAN_BE_CALIBRATED),
    "calibrated count": (
        lambda: ds.calibrated(ds.count("status", "x"), TO),
        CAN_BE_CALIBRATED,
    ),
    "calibrated word": (lambda: ds.calibrated("income", TO), ["a str", "calibrated(mean("]),
    "calibrated groups": (lambda: ds.calibrated(ds.total("x", (0, 1), by="sex"), TO), ["leave out by="]),
    "calibrated to a list": (lambda: ds.calibrated(MEAN, {"sex": [1, 2]}), ['to={"sex": {"female"']),
    "calibrated to a number": (lambda: ds.calibrated(MEAN, {5: {"a": 1}}), ["names of distinct columns"]),
    "imputed proportion": (lambda: ds.imputed(ds.proportion("status", "x"), ["sex"]), ["a mean or a total", "imputed(mean("]),
    "imputed median": (lambda: ds.imputed(MEDIAN, ["sex"]), ["a mean or a total", "imputed(mean("]),
    "imputed without cells": (lambda: ds.imputed(MEAN, []), ['cells=["region", "sex"]']),
    "several quantiles": (lambda: ds.quantile("income", [0.1, 0.5], (0, 9)), ["one quantile() for each", "one charge"]),
    "a percentage": (lambda: ds.quantile("income", 90, (0, 9)), ["0.9, not 90"]),
    "no order": (lambda: ds.quantile("income", 0, (0, 9)), ["0.5 is the median"]),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_a_wrong_call_in_python_says_what_would_be_right(case):
    call, words = WRONG_CALLS[case]
    with pytest.raises(BadValue) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_calibrated_median_is_not_told_to_leave_out_what_it_does_not_have():
    with pytest.raises(BadValue) as caught:
        ds.calibrated(MEDIAN, TO)
    assert "by=" not in caught.value.hint


@pytest.mark.parametrize(
    ("statistic", "word"),
    [
        (ds.imputed(MEAN, ["sex"]), "imputation"),
        (ds.calibrated(MEAN, TO), "calibration"),
        (ds.greg(MEAN, {"age": ((0, 120), 41)}), "regression"),
    ],
    ids=["imputed", "calibrated", "greg"],
)
def test_what_clusters_do_not_have_is_named_by_its_own_name_with_a_way_out(tmp_path, statistic, word):
    survey = SurveyFile.read(_written(tmp_path, HEAD.replace('"collected"', '"collected"\npsu = "psu"\npsus = 20'))).survey()
    with pytest.raises(NoGuarantee, match=f"{word}.*not offered for cluster samples") as caught:
        survey.plan(statistic)
    assert caught.value.hint
    assert word == "calibration" or "calibration" not in str(caught.value)


def _written(folder, text):
    (folder / "survey.toml").write_text(text)
    return folder / "survey.toml"


def answers():
    rng = np.random.default_rng(4)
    n = 4000
    return pd.DataFrame(
        {
            "number": [f"p{place}" for place in range(n)],
            "region": rng.choice(["north", "south"], n),
            "sex": rng.choice(["female", "male"], n),
            "status": rng.choice(["unemployed", "other"], n),
            "income": rng.uniform(0, 90_000, n).round(),
            "food": rng.uniform(0, 20_000, n).round(),
            "rent": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 40_000, n).round()),
            "age": rng.integers(16, 90, n),
            "wealth": rng.uniform(0, 1e6, n).round(),
            "weight": rng.integers(1, 400, n),
        }
    )


def uncommented(text):
    return re.sub(r"^#(?! )", "", text, flags=re.M)


def test_the_file_for_collected_data_is_valid_as_it_stands_and_with_every_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answers().to_csv("answers.csv", index=False)
    assert run("init", "living.toml", "--collected", "--table", "answers.csv").exit_code == 0
    text = (tmp_path / "living.toml").read_text()
    assert "columns: number, region, sex, status, income" in text
    assert json.loads(run("plan", "living.toml", "--json").stdout)["predictions"]
    (tmp_path / "all.toml").write_text(uncommented(text))
    written = tomllib.loads(uncommented(text))
    assert {each["kind"] for each in written["statistic"]} == CONSTRUCTORS
    assert written["frame"]["unit"] == "number"
    planned = run("plan", "all.toml", "--json")
    assert planned.exit_code == 0, planned.output
    released = run("release", "all.toml", "--out", "all")
    assert released.exit_code == 0, (released.output, released.exception)
    assert len(pd.read_csv(tmp_path / "all" / "release.csv")) == len(json.loads(planned.stdout)["predictions"])


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.tsv", "people.parquet", "people.feather"])
@pytest.mark.parametrize("collected", [False, True], ids=["frame", "collected"])
def test_init_lists_the_columns_of_every_kind_of_file_and_no_value(tmp_path, monkeypatch, name, collected):
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({"person id": ["canary-1", "canary-2"], 'odd "name"': ["canary-3", "canary-4"], "sex": ["canary-5"] * 2})
    if name.endswith(("parquet", "feather")):
        (rows.to_parquet if name.endswith("parquet") else rows.to_feather)(name)
    else:
        rows.to_csv(name, index=False, sep="\t" if name.endswith("tsv") else ",")
    made = run("init", "new.toml", "--table", name, *(["--collected"] if collected else []))
    assert made.exit_code == 0, made.output
    text = (tmp_path / "new.toml").read_text()
    assert 'columns: person id, odd "name", sex' in text
    assert tomllib.loads(uncommented(text))["frame"]["unit"] == "person id"
    assert "canary" not in text + made.output


@pytest.mark.parametrize("first", ["p1,34,female", "north,2024-01-31,x", "north,north,x", "north,,x", "north,1e5,x"])
def test_a_first_line_that_is_a_row_is_not_copied(tmp_path, monkeypatch, first):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(f"{first}\n{first}\n")
    made = run("init", "new.toml", "--table", "rows.csv")
    text = (tmp_path / "new.toml").read_text() if made.exit_code == 0 else ""
    assert "columns:" not in text
    assert not any(len(word) > 3 and word in made.output for word in first.split(","))
    if made.exit_code == 0:
        assert "does not look like column names" in text
        assert tomllib.loads(text)["frame"]["unit"] == "person_id"


def test_the_ledger_says_what_was_asked_in_words_and_that_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answers().to_csv("living.csv", index=False)
    asked = [SAME["one margin"], SAME["contrast, the last column"], SAME["greg"], SAME["table"]]
    (tmp_path / "survey.toml").write_text(HEAD + "".join(f"[[statistic]]\n{written}\n" for written, _ in asked))
    done = run("release", "survey.toml", "--out", "out")
    assert done.exit_code == 0, (done.output, done.exception)
    shown = run("ledger", "survey.toml").stdout
    for _, statistic in asked:
        assert statistic.name in shown
    assert "{" not in shown
    assert re.search(r"left 0$", shown, re.M), shown
    # The number itself stays in the JSON.
    assert abs(json.loads(run("ledger", "survey.toml", "--json").stdout)["surveys"][0]["left"]) < 1e-9
