"""Everything that a release shows, for neighbours: under every setting, relation and design that can be released.

Tiny frames go through the real engine and a real ledger. Two neighbours have the same document, the same entries in the
ledger and the same refusals, but for the noise; and the exact law of the released vector, over all samples that the design
can draw, loses no more than the figure that the document prints.
"""

import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import dpsurvey as ds
from dpsurvey.design.recipe import Repeated
from dpsurvey.engine import Engine
from dpsurvey.errors import BadData, NoPromise, SurveyError
from dpsurvey.expectations import expectations

re = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("released.py"))))
laws, SETTINGS, ADD, REPLACE = re.laws, re.SETTINGS, re.ADD, re.REPLACE
LONELY = laws.Case(
    ds.stratified("region", within={"n": ds.poisson(0.3), "s": ds.poisson(0.6)}),
    (laws.unit("a"), laws.unit("b", "s")),
    moves=True,
)
CASES = laws.CASES | {"strata of poisson, one unit in each": LONELY}
# Some of it each time, all of it with the slow tests.
QUICK = ("srs", "poisson", "strata of poisson, one unit in each")
SOME = [label for label in SETTINGS if label.startswith(("frame given None", "sample given frame", "respondents given None"))]


def both(quick, every):
    """Each of the quick ones briefly, and each of all of them thoroughly."""
    brief = [pytest.param(name, False, id=f"{name}, briefly") for name in quick]
    return brief + [pytest.param(name, True, id=name, marks=pytest.mark.slow) for name in every]


def asked_of(case):
    # Where units have weights of their own, and where clusters are few, not everything can be asked.
    return "total" if case.resolved.parts() else "mean"


def released(name, setting, units, folder, kind=None):
    """What comes of a release, or None where none is planned."""
    case = CASES[name]
    survey = re.a_survey(case, units, setting, folder)
    plan = survey.plan(*re.statistics(kind or asked_of(case)))
    return re.outcome(lambda: survey.release(plan), folder)


@pytest.mark.parametrize(("name", "thorough"), both(QUICK, CASES))
def test_neighbours_have_the_same_document_ledger_and_refusals_but_for_the_noise(name, thorough, tmp_path):
    case, made = CASES[name], 0
    for label in SETTINGS if thorough else SOME:
        setting = SETTINGS[label]
        try:
            own = released(name, setting, case.units, tmp_path / f"{made} own")
        except NoPromise:
            continue
        assert isinstance(own[0], dict), f"{name}, {label}: {own[0]}"
        others = re.neighbours_of(case, setting)
        chosen = others if thorough else {what: others[what] for what in list(others)[-2:]}
        for what, units in chosen.items():
            if too_few(case, units) and any("at least as many units" in note for note in own[0]["guarantee"]["holds_when"]):
                continue
            assert released(name, setting, units, tmp_path / f"{made} {what}") == own, f"{name}, {label}, {what}"
        made += 1
    assert made == PLANNED.get(name, made) if thorough else made >= 5


def too_few(case, units):
    """Whether a fixed number is drawn of fewer units: what the condition about possible frames leaves out."""
    counted = {label: sum(each["region"] == label for each in units) for label in case.frame.categories["region"]}
    return len(units) < len(case.units) or any(
        counted[label] < size for label, size in case.frame.category_sizes["region"].items()
    )


# How many of the twenty settings are released; the others are refused before anything is planned.
PLANNED = {
    "srs": 17,
    "poisson": 20,
    "poisson by": 20,
    "strata of poisson, one unit in each": 20,
    "strata of srs": 17,
    "cluster with a cap": 10,
}


@pytest.mark.parametrize(("kind", "thorough"), both(["groups", "ratio"], ["groups", "where", "ratio", "quantile"]))
def test_other_statistics_do_not_tell_neighbours_apart_either(kind, thorough, tmp_path):
    name, setting = "strata of poisson, one unit in each", ds.Setting("frame", neighbours=ADD)
    case = CASES[name]
    own = released(name, setting, case.units, tmp_path / "own", kind)
    assert isinstance(own[0], dict)
    others = list(re.neighbours_of(case, setting).items())
    for what, units in others if thorough else others[-2:]:
        assert released(name, setting, units, tmp_path / what, kind) == own, f"{name}, {what}"


# Collected files

ROWS = pd.DataFrame(
    {
        "stratum": ["a"] * 4 + ["b"] * 4,
        "psu": ["1", "1", "2", "2", "3", "3", "4", "4"],
        "w": [2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0],
        "fpc": [9] * 8,
        "income": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0],
    }
)
BY_STRATUM = {"a": 4, "b": 4}
FILES = {
    "plain": {},
    "n": {"n": 8, "size": 80},
    "n by stratum": {"n": BY_STRATUM, "strata": "stratum", "size": 80, "categories": {"stratum": {"a": 40, "b": 40}}},
    "weights": {"weights": "w", "weight_range": (1, 9)},
    "weights and n": {"weights": "w", "weight_range": (1, 9), "n": 8},
    "clusters": {"weights": "w", "weight_range": (1, 9), "psu": "psu", "psus": 4},
    "clusters and n": {"weights": "w", "weight_range": (1, 9), "psu": "psu", "psus": 4, "n": 8},
    "clusters in strata": {
        "weights": "w",
        "weight_range": (1, 9),
        "psu": "psu",
        "strata": "stratum",
        "psus": 2,
        "categories": {"stratum": ["a", "b"]},
    },
    "strata and fpc": {
        "weights": "w",
        "weight_range": (1, 9),
        "strata": "stratum",
        "fpc": "fpc",
        "categories": {"stratum": ["a", "b"]},
    },
}
# A stratum and a cluster of one record: with it they are there, without it they are not.
LONE = pd.DataFrame({"stratum": ["b"], "psu": ["9"], "w": [2.0], "fpc": [9], "income": [1.0]})


def of_a_file(rows, terms, setting, folder):
    folder.mkdir()
    rows.to_parquet(folder / "file.parquet")
    survey = ds.Survey.collected("file.parquet", setting=setting, budget=ds.Budget(1.0), ledger="books.ledger", **terms)
    plan = survey.plan(ds.mean("income", bounds=(0, 10)))
    return re.outcome(lambda: survey.release(plan), folder)


def neighbouring_files(setting, in_place):
    if setting.neighbours == ADD:
        yield from (ROWS.drop(index=[place]) for place in (0, 7))
        yield pd.concat([ROWS, LONE], ignore_index=True)
        yield pd.concat([ROWS.iloc[:4], LONE], ignore_index=True)
        yield ROWS.iloc[:4]
        yield ROWS.iloc[:0]
    else:
        yield ROWS.assign(income=[10.0, *ROWS["income"][1:]])
        if not in_place:
            yield pd.concat([ROWS.iloc[1:], LONE], ignore_index=True)


@pytest.mark.parametrize(("name", "thorough"), both(["plain", "clusters in strata"], FILES))
def test_neighbouring_files_have_the_same_document_ledger_and_refusals(name, thorough, tmp_path):
    made = []
    for label in SETTINGS if thorough else [label for label in SOME if label.startswith("sample")]:
        setting = SETTINGS[label]
        try:
            own = of_a_file(ROWS, FILES[name], setting, tmp_path / f"{label} own")
        except NoPromise:
            continue
        assert isinstance(own[0], dict), f"{name}, {label}: {own[0]}"
        in_place = bool(own[0]["guarantee"]["relation_name"])
        for number, rows in enumerate(neighbouring_files(setting, in_place)):
            assert of_a_file(rows, FILES[name], setting, tmp_path / f"{label} {number}") == own, f"{name}, {label}, {number}"
        made.append(setting.neighbours)
    # At the sample and among respondents, seven settings under each relation; n= takes away what could change it.
    expected = {"n by stratum": (0, 3), **dict.fromkeys(("n", "weights and n", "clusters and n"), (0, 7))}.get(name, (7, 7))
    assert (made.count(ADD), made.count(REPLACE)) == (expected if thorough else (1, 1))


def test_numbers_of_records_are_refused_where_a_neighbour_has_others():
    for given in ({"n": 8, "size": 80}, {"n": 8, "weights": "w", "weight_range": (1, 9)}, {"n": 8, "psu": "psu"}):
        for protect in ("sample", "respondents"):
            with pytest.raises(NoPromise, match="one record more or less changes it"):
                ds.Survey.collected(
                    ROWS, setting=ds.Setting(protect, neighbours=ADD), budget=ds.Budget(1.0), ledger="books.ledger", **given
                )


# Responses

RESPONDED = ("poisson", "srs", "strata of poisson, one unit in each", "with replacement")


@pytest.mark.parametrize(("name", "thorough"), both(["with replacement"], RESPONDED))
def test_who_answered_decides_neither_about_a_release_nor_about_its_words(name, thorough, tmp_path):
    case, key = CASES[name], ds.Key(bytes(range(32)))
    for label in SETTINGS if thorough else SOME:
        setting = SETTINGS[label]
        counts_fixed = setting.protect == "respondents" and setting.neighbours == REPLACE
        found = []
        for number in range(3):
            folder = tmp_path / f"{label} {number}"
            try:
                survey = re.a_survey(case, case.units, setting, folder)
            except NoPromise:
                break
            found.append(responded(survey, folder, number, key))
        # Everybody, all but one, nobody.
        if found:
            assert found[0] == found[1], label
            empty = "BadData: the table is empty"
            assert str(found[2][0]).startswith(empty) if counts_fixed else found[2] == found[0], label


def responded(survey, folder, number, key):
    def make():
        sealed = survey.draw("sample.parquet", key=key)
        units = sorted(set(pd.read_parquet(sealed.path)["unit"]))
        answered = (units, units[1:], [])[number]
        pd.DataFrame(
            {"id": pd.Series(answered, dtype="string"), "income": pd.Series([5.0] * len(answered), dtype="float64")}
        ).to_parquet("answers.parquet")
        return survey.release(survey.plan(ds.mean("income", bounds=(0, 10)), responses="answers.parquet"))

    return re.outcome(make, folder)


def test_an_empty_table_of_answers_is_refused_where_every_neighbour_has_as_many(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    survey = re.a_survey(CASES["srs"], CASES["srs"].units, ds.Setting("respondents", neighbours=REPLACE), tmp_path)
    survey.draw("sample.parquet")
    with pytest.raises(BadData, match="the table is empty"):
        survey.release(survey.plan(ds.mean("income", bounds=(0, 10)), responses=pd.DataFrame({"id": ["a"], "income": [1.0]})[:0]))


# The exact loss of the released vector


def chances(law):
    found = {}
    for sample, p in law.items():
        for name in sample:
            found[name] = found.get(name, 0.0) + p
    return found


class Vectors:
    """The exact sums of every sample of a frame, by the engine, in units of the scale of their noise."""

    def __init__(self, survey, plan, units, folder):
        self.folder, self.plan, self.engine = folder, plan, Engine(re.table_of(units))
        self.expected = expectations(survey.terms, plan)
        self.named = {each["id"]: each for each in units}
        self.strata, self.clusters = survey.terms.design.strata_column, survey.terms.design.recipe().columns("cluster")

    def of(self, sample, weights):
        rows = [
            {
                "unit": name,
                "stratum": self.named[name][self.strata] if self.strata else None,
                "psu": self.named[name][self.clusters[0]] if self.clusters else None,
                "pi": 1.0 / weights[name],
                "weight": weights[name],
            }
            for name in sample
        ]
        types = {"unit": "string", "stratum": "string", "psu": "string", "pi": "float64", "weight": "float64"}
        path = self.folder / "sample.parquet"
        pd.DataFrame(rows, columns=list(types)).astype(types).to_parquet(path)
        self.engine.load(str(path), self.expected)
        sums = [(self.engine.sums(item.query).values, item.mechanism.scale) for item in self.plan.items]
        return np.concatenate([values.ravel() / scale for values, scale in sums])


def law_of_vectors(survey, plan, units, law, folder):
    """The samples' vectors and the logarithms of their chances; weights are one over the expected number of copies."""
    vectors, expected = Vectors(survey, plan, units, folder), chances(law)
    weights = {name: 1.0 / p for name, p in expected.items()}
    found = {}
    for sample, p in law.items():
        vector = tuple(vectors.of(sample, weights))
        found[vector] = found.get(vector, 0.0) + p
    return np.array(list(found)), np.log(list(found.values()))


def loss(one, two):
    """The largest log ratio of two mixtures of Laplace noise around vectors, over points where it is large."""
    points = np.array(re.corners([*map(tuple, one[0]), *map(tuple, two[0])]))
    densities = [
        logsumexp(chance[None, :] - np.abs(points[:, None, :] - vectors[None, :, :]).sum(axis=2), axis=1)
        for vectors, chance in (one, two)
    ]
    return float(np.abs(densities[0] - densities[1]).max())


def released_figure(survey, plan, folder, monkeypatch):
    with monkeypatch.context() as here:
        here.chdir(folder)
        return survey.release(plan).guarantee.epsilon


# Pareto's law has no closed form.
ENUMERATED = [name for name in CASES if "pareto" not in name]


@pytest.mark.parametrize(("name", "thorough"), both(["srs"], ENUMERATED))
def test_the_exact_loss_of_the_released_vector_is_at_most_the_printed_figure(name, thorough, tmp_path, monkeypatch):
    case, reached = CASES[name], {}
    recipe = case.resolved.recipe()
    for neighbours in (REPLACE, ADD):
        setting = ds.Setting("frame", neighbours=neighbours)
        folder = tmp_path / neighbours
        try:
            survey = re.a_survey(case, case.units, setting, folder)
            plan = survey.plan(*re.statistics(asked_of(case)))
        except NoPromise:
            continue
        told = released_figure(survey, plan, folder, monkeypatch)
        own = law_of_vectors(survey, plan, case.units, laws.law_of(recipe, case.units), folder)
        for what, units in re.neighbours_of(case, setting).items():
            if what.startswith("nobody") or (too_few(case, units) and case.resolved.fixed_size):
                continue
            other = law_of_vectors(survey, plan, units, laws.law_of(recipe, units), folder)
            exact = loss(own, other)
            assert exact <= told * (1.0 + 1e-9), f"{name}, {neighbours}, {what}: {exact} > {told}"
            reached[neighbours] = max(reached.get(neighbours, 0.0), exact / told)
    assert REPLACE in reached
    if name in ("srs", "poisson", "strata of srs"):
        assert reached[REPLACE] > 0.5, "the enumeration would see a loss above the figure"


GIVEN = ("srs", "poisson", "poisson by", "cluster with a cap", "with replacement")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "srs" else pytest.mark.slow) for name in GIVEN])
def test_the_loss_of_somebody_in_a_given_sample_is_at_most_the_printed_figure(name, tmp_path, monkeypatch):
    case, seen = CASES[name], 0.0
    setting = ds.Setting("sample", given="frame", neighbours=REPLACE)
    survey = re.a_survey(case, case.units, setting, tmp_path)
    plan = survey.plan(*re.statistics(asked_of(case)))
    told = released_figure(survey, plan, tmp_path, monkeypatch)
    law = laws.law_of(case.resolved.recipe(), case.units)
    weights = {unit: 1.0 / p for unit, p in chances(law).items()}
    for what, units in re.neighbours_of(case, setting).items():
        one, two = (Vectors(survey, plan, rows, tmp_path) for rows in (case.units, units))
        for sample in law:
            exact = float(np.abs(one.of(sample, weights) - two.of(sample, weights)).sum())
            assert exact <= told * (1.0 + 1e-9), f"{name}, {what}: {exact} > {told}"
            seen = max(seen, exact / told)
    assert seen > 0.3


def test_a_figure_that_is_too_small_would_be_seen(tmp_path, monkeypatch):
    """The exact loss of a simple random sample's total comes near its figure; half of that figure would fail."""
    case, setting = CASES["srs"], ds.Setting("frame", neighbours=REPLACE)
    survey = re.a_survey(case, case.units, setting, tmp_path)
    plan = survey.plan(ds.total("income", bounds=(0, 10)))
    told = released_figure(survey, plan, tmp_path, monkeypatch)
    law = laws.law_of(case.resolved.recipe(), case.units)
    own = law_of_vectors(survey, plan, case.units, law, tmp_path)
    units = re.neighbours_of(case, setting)["answers of a"]
    exact = loss(own, law_of_vectors(survey, plan, units, law, tmp_path))
    assert 0.9 * told < exact <= told * (1.0 + 1e-9)
    assert math.isfinite(exact)


def test_weights_of_repeated_draws_are_those_that_the_engine_gives(tmp_path):
    case = CASES["with replacement"]
    engine = Engine(re.table_of(case.units))
    recipe = case.resolved.recipe()
    assert isinstance(recipe, Repeated)
    survey = re.a_survey(case, case.units, ds.Setting("frame", neighbours=REPLACE), tmp_path)
    engine.draw(recipe, expectations(survey.terms, None))
    engine.write_sample(str(tmp_path / "drawn.parquet"), "id", recipe)
    expected = chances(laws.law_of(recipe, case.units))
    rows = pd.read_parquet(tmp_path / "drawn.parquet")
    assert all(weight == pytest.approx(1.0 / expected[unit]) for unit, weight in zip(rows["unit"], rows["weight"], strict=True))


def test_a_table_that_cannot_be_opened_is_refused_alike(tmp_path):
    with pytest.raises(SurveyError):
        ds.Survey.collected(tmp_path / "none.parquet", budget=ds.Budget(1.0), ledger=tmp_path / "b.ledger").check()
