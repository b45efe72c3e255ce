"""survey.toml builds the same plan as Python, and says what is wrong in it."""

import inspect
from typing import get_type_hints

import pytest

import dpsurvey as ds
from dpsurvey.design.collected import FileKeys
from dpsurvey.errors import BadValue, NotFound
from dpsurvey.survey import survey_file
from dpsurvey.survey.starter import starter_file
from dpsurvey.survey.survey_file import SurveyFile, write_survey_file

CATEGORIES = {"region": {"n": 600, "s": 400}, "sex": ["f", "m"]}
DESIGNS = [
    ds.poisson(0.1),
    ds.srs(n=100),
    ds.srs(rate=0.2),
    ds.stratified("region", within=ds.poisson(0.02)),
    ds.stratified("region", within={"n": ds.srs(n=30), "s": ds.srs(n=40)}),
]
STATISTICS = (
    ds.mean("income", bounds=(0, 1000), by="region", expect=(300, 100)),
    ds.total("hours", bounds=(-5, 98), by=("region", "sex")),
    ds.proportion("status", "x", expect=0.1),
    ds.count(by="sex"),
    ds.count("status", "x", by="sex"),
)


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
@pytest.mark.parametrize("budget", [ds.Budget(1.0), ds.Budget(0.5, 1e-6)], ids=repr)
@pytest.mark.parametrize("setting", [None, ds.Setting("frame", given="population", neighbours="replace-one")], ids=repr)
def test_a_plan_survives_the_round_trip_through_the_file(tmp_path, design, budget, setting):
    frame = ds.Frame(str(tmp_path / "r.parquet"), unit="id", size=1000, categories=CATEGORIES)
    survey = ds.Survey(frame, design, setting, budget=budget, ledger=tmp_path / "x.ledger", name="round trip")
    plan = survey.plan(*STATISTICS, share=0.7, weights=(1, 2, 3, 4, 5))
    write_survey_file(tmp_path / "survey.toml", survey, plan)
    file = SurveyFile.read(tmp_path / "survey.toml")
    again = file.survey()
    assert again.terms == survey.terms
    assert again.terms.frame.table == survey.terms.frame.table
    assert again.ledger_path == survey.ledger_path
    assert file.plan(again) == plan
    assert file.plan(again).items == plan.items


FILES = [
    {},
    {"weights": "w", "weights_are": "design", "weight_range": (1, 40)},
    {
        "unit": "id",
        "strata": "region",
        "psu": "psu",
        "ssu": "ssu",
        "weights": "w",
        "weights_are": "design",
        "fpc": "fpc",
        "psus": 3,
        "weight_range": (1, 40),
    },
    {"size": 1000, "strata": "region", "n": {"n": 60, "s": 40}},
    {"size": 1000, "n": 100, "imputed": "donors", "donor_uses": 2},
]


@pytest.mark.parametrize("columns", FILES, ids=lambda columns: ", ".join(columns) or "nothing")
@pytest.mark.parametrize("noise", ["auto", "laplace", "gaussian"])
def test_a_collected_file_and_its_noise_survive_the_round_trip(tmp_path, columns, noise):
    survey = ds.Survey.collected(
        str(tmp_path / "f.csv"), categories=CATEGORIES, budget=ds.Budget(0.5, 1e-6), ledger=tmp_path / "x.ledger", **columns
    )
    plan = survey.plan(ds.mean("income", bounds=(0, 1000), by="sex"), ds.proportion("status", "x"), share=0.5, noise=noise)
    write_survey_file(tmp_path / "survey.toml", survey, plan)
    file = SurveyFile.read(tmp_path / "survey.toml")
    again = file.survey()
    assert again.terms == survey.terms
    assert file.plan(again) == plan
    assert file.plan(again).items == plan.items
    assert file.plan(again).noise_class.kind == plan.noise_class.kind
    assert noise in ("auto", plan.noise_class.kind)


FRAMES = {
    "size": 1000,
    "categories": CATEGORIES,
    "public": ["psu", "rate"],
    "population": "persons",
    "size_at_least": {"region": {"n": 590, "s": 390}},
}


@pytest.mark.parametrize("left_out", [None, "categories", "public", "population", "size_at_least"])
@pytest.mark.parametrize("size_at_least", [900, FRAMES["size_at_least"]], ids=["one number", "by category"])
def test_every_argument_of_a_frame_survives_the_round_trip(tmp_path, left_out, size_at_least):
    declared = {name: value for name, value in (FRAMES | {"size_at_least": size_at_least}).items() if name != left_out}
    if left_out == "categories" and size_at_least != 900:
        del declared["size_at_least"]
    frame, budget = ds.Frame(str(tmp_path / "r.parquet"), unit="id", **declared), ds.Budget(1.0)
    setting = ds.Setting("frame", neighbours="add-remove")
    survey = ds.Survey(frame, ds.srs(n=20), setting, budget=budget, ledger=tmp_path / "x.ledger")
    write_survey_file(tmp_path / "survey.toml", survey, survey.plan(ds.count("status", "x")))
    again = SurveyFile.read(tmp_path / "survey.toml").survey()
    assert again.terms == survey.terms
    assert again.terms.in_sample_budget == survey.terms.in_sample_budget


def arguments(function):
    return {name for name, each in inspect.signature(function).parameters.items() if each.kind != each.VAR_KEYWORD} - {"self"}


def test_every_argument_has_its_key_in_the_file():
    """What is passed each time, and what is a section of its own, has no key there."""
    sections, of_a_run = {"frame", "design", "setting", "budget"}, {"engine", "progress"}
    keys = {
        name: set(section.model_fields)
        for name, section in vars(survey_file).items()
        if inspect.isclass(section) and issubclass(section, survey_file._Section)
    }
    assert set(FRAMES) | {"table", "unit"} == keys["_Frame"] == arguments(ds.Frame)
    assert keys["_Setting"] == arguments(ds.Setting)
    assert keys["_Budget"] == arguments(ds.Budget)
    assert keys["_Survey"] == arguments(ds.Survey) - sections - of_a_run
    assert keys["_Release"] == arguments(ds.Survey.plan) - {"statistics", "responses", "fieldwork"}
    assert keys["_Fieldwork"] == arguments(ds.Fieldwork)
    assert sections < keys["_File"]
    of_design = set(ds.design.DESIGNS["collected"].known)
    # Sizes that are read from a file are written down with the survey: there they stand as figures.
    read_once = {"sizes_are_public"}
    assert arguments(ds.Survey.collected) <= keys["_Frame"] | keys["_Survey"] | of_design | sections | of_a_run | read_once
    assert of_design <= arguments(ds.Survey.collected) | set(get_type_hints(FileKeys))


def test_the_starter_file_names_every_key_of_a_frame(tmp_path):
    text = starter_file(tmp_path / "survey.toml", None)
    assert all(name in text for name in arguments(ds.Frame))


def test_the_starter_file_is_valid_as_it_stands(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(starter_file(path, None))
    plan = SurveyFile.read(path).plan(SurveyFile.read(path).survey())
    assert len(plan.predictions) == 6


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('protect = "frame"', 'protct = "frame"', ["setting.protct", "did you mean 'protect'"]),
        ("epsilon = 1.0 ", "epsilonn = 1.0 ", ["budget.epsilonn", "did you mean 'epsilon'"]),
        ("size = 1_000_000", "", ["public size of its frame", "size=N"]),
        ('unit = "person_id"', "", ["unit column"]),
        ("[survey]\nname", "[survey]\nweight_range = [1, 2, 3]\nname", ["weight_range", "two numbers"]),
        ("[survey]\nname", "[survey]\nweight_range = [9, 2]\nname", ["lowest first"]),
        ("share = 1.0", 'share = 1.0\nnoise = "cauchy"', ["release.noise"]),
        ("size = 1_000_000", 'size = "many"', ["frame.size"]),
        ("epsilon = 1.0 ", "epsilon = -1 ", ["positive"]),
        ("rate = 0.02", "rate = 1.5", ["(0, 1]"]),
        ("rate = 0.02", "rat = 0.02", ["poisson"]),
        ('kind = "stratified"', 'kind = "stratifeid"', ["did you mean 'stratified'"]),
        ('kind = "mean"', 'kind = "maen"', ["did you mean 'mean'"]),
        ("bounds = [0, 250_000] ", "bounds = [250_000, 0] ", ["in order"]),
        ("bounds = [0, 250_000] ", "", ["bounds", "missing"]),
        ('of = "income"', 'of = "income"\nboundz = 3', ["mean", "boundz"]),
        ("[survey]", "[survey", ["TOML"]),
        ("[budget]", "[budgets]", ["budgets"]),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, old, new, words):
    path = tmp_path / "survey.toml"
    text = starter_file(path, None)
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(BadValue) as caught:
        SurveyFile.read(path).plan(SurveyFile.read(path).survey())
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_missing_file_says_how_to_start():
    with pytest.raises(NotFound) as caught:
        SurveyFile.read("nowhere/survey.toml")
    assert "dpsurvey init" in str(caught.value)
