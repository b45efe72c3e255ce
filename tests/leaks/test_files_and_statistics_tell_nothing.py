"""Collected files and every statistic are silent: no value, weight, cluster, stratum or count is said, shown or written."""

import re
from dataclasses import replace

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.statistic import STATISTICS
from tests import places
from tests.contracts.contracts import example_of
from tests.leaks import test_canaries as canaries

NUMBER, UNIT, CATEGORY, SIZE = canaries.NUMBER, canaries.UNIT, canaries.CATEGORY, canaries.SIZE
canaries_in, files_in, said_by = canaries.canaries_in, canaries.files_in, canaries.said_by
listening = canaries.listening

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")

BOUNDS, CATEGORIES = (0, 100), {"region": ["north", "south"], "sex": ["female", "male"]}
COUNTS = {"sex": {"female": 1400, "male": 1600}}
MEAN = ds.mean("income", bounds=BOUNDS)
EVERY_KIND = (
    MEAN,
    ds.mean("income", bounds=BOUNDS, by="sex"),
    ds.mean("income", bounds={"north": (0, 90), "south": (0, 100)}),
    ds.mean("asked", bounds=BOUNDS, missing=50, where={"sex": "female", "income": (0, 60)}),
    ds.total("income", bounds=BOUNDS),
    ds.proportion("job", "clerk", by="sex", where={"region": ["north"]}),
    ds.count("job", "clerk"),
    ds.table("region", "sex"),
    ds.ratio("spent", "income", bounds=BOUNDS, to_bounds=BOUNDS),
    ds.quantile("income", 0.3, bounds=BOUNDS, method="tree"),
    ds.median("income", bounds=BOUNDS, by="sex"),
    ds.contrast(ds.mean("income", bounds=BOUNDS, by="sex"), "female", "male"),
    ds.calibrated(MEAN, COUNTS),
    ds.imputed(ds.mean("asked", bounds=BOUNDS), cells="sex"),
    ds.greg(MEAN, {"spent": ((0, 100), 50)}),
    ds.clipping_bounds("income", within=(0, 1e4)),
)
# Kinds that are not asked above are asked as their example has it, of the column that holds the canary.
EVERY_KIND += tuple(
    replace(example, of="income")
    for example in map(example_of, STATISTICS)
    if example.kind not in {asked.kind for asked in EVERY_KIND}
)
OF_RANKS = tuple(ds.quantile("income", 0.4, bounds=BOUNDS, method=method) for method in ("exponential", "laplace"))
WITH_A_DELTA = (
    ds.median("income", bounds=BOUNDS, method="smooth"),
    ds.median("income", bounds=BOUNDS, method="propose-test-release", proposal=5),
)
NOT_OF_CLUSTERS = ("calibrated", "greg")


def people():
    """One person whose every value is a canary: income, spending, job, cluster and weight, all as they may be."""
    rows = canaries.people()
    rng = np.random.default_rng(2)
    rows["spent"] = rng.uniform(0, 100, SIZE)
    rows["asked"] = np.where(rng.random(SIZE) < 0.1, np.nan, rows["income"])
    # 40 clusters, the odd ones in the south.
    south = (rows["region"] == "south").to_numpy()
    rows["psu"] = [f"c{2 * (number % 20) + int(there)}" for number, there in enumerate(south)]
    rows["w"] = rng.uniform(1, 30, SIZE)
    rows.loc[7, ["spent", "w"]] = [NUMBER, NUMBER]
    rows.loc[rows["psu"] == rows.loc[7, "psu"], "psu"] = UNIT
    return rows


FILES = {
    "weights": {"weights": "w", "weights_are": "design", "weight_range": (1, 1e6)},
    "clusters": {"weights": "w", "weights_are": "design", "weight_range": (1, 1e6), "strata": "region", "psu": "psu", "psus": 8},
    "a public size": {"n": SIZE},
    # What they add up to is declared, and asked.
    "final weights": {
        "weights": "w",
        "weights_are": "final",
        "calibrated_on": ["sex"],
        "weight_range": (1, 1e6),
        "size": round(people()["w"].sum()),
    },
}


def a_file(folder, table, columns="clusters", epsilon=1.0, delta=0.0, **more):
    options = {"categories": CATEGORIES, "size": 10 * SIZE, "unit": "person"} | FILES[columns] | more
    return ds.Survey.collected(table, budget=ds.Budget(epsilon, delta), ledger=folder / "books.ledger", **options)


def statistics_for(columns):
    if columns == "clusters":
        return tuple(each for each in EVERY_KIND if each.kind not in NOT_OF_CLUSTERS)
    return (*EVERY_KIND, *(OF_RANKS if columns == "a public size" else ()))


def everything_shown(survey, plan, release):
    """What every object on the way of a release shows, says or gives away."""
    engine = survey._engine
    queries = [item.query for item in plan.items]
    objects = (survey, survey.terms, survey.terms.frame, survey.terms.design, plan, *plan.items, *queries, release, engine)
    shown = [text for each in (*objects, engine.sums(queries[0])) for text in canaries.shown_by(each)]
    shown += [release.explain(), str(plan.to_dict()), str(release.to_dict()), release.to_csv(), str(release.to_arrow())]
    return [*shown, release.to_pandas().to_string(), str(release.consistent()), str(plan.advice), str(plan.unit_losses)]


def told_beside_noise(text):
    """The canaries in a text that is full of noisy digits: the number counts only with a digit of its fraction.

    Of the ten thousand numbers of a release one begins like that with probability below 1e-7 each, if it is that large at all.
    """
    words = [canary for canary in canaries_in(text) if not canary[0].isdigit()]
    return words + re.findall(r"(?<![\d.])987,?654\.3|9\.87654321", text)


def test_the_number_is_found_beside_noise():
    found = told_beside_noise(f"1.5 [12, {NUMBER}] {NUMBER:,} {NUMBER:e} 19876543.2 {UNIT}")
    assert found == ["canary-unit", "987654.3", "987,654.3"]
    assert told_beside_noise(f"{NUMBER / 1e5!r}") == ["9.87654321"]


@pytest.mark.slow_cases("weights in memory")
@pytest.mark.parametrize(
    ("columns", "place"),
    [
        ("weights", places.in_memory),
        ("clusters", places.as_parquet),
        ("a public size", places.as_csv),
        ("final weights", places.as_parquet),
    ],
    ids=["weights in memory", "clusters in Parquet", "a public size in CSV", "final weights in Parquet"],
)
def test_a_release_of_a_collected_file_is_silent_about_its_rows(tmp_path, listening, columns, place):
    heard = []
    with listening(heard):
        survey = a_file(tmp_path, place(people(), tmp_path), columns)
        plan = survey.plan(*statistics_for(columns))
        survey.check(plan)
        release = plan.release()
        heard += everything_shown(survey, plan, release)
        heard.append(repr(ds.Ledger(tmp_path / "books.ledger").charges("survey")))
        for name in ("release.json", "release.csv", "release.parquet"):
            release.save(tmp_path / name)
    assert len(release.estimates) > 20
    assert told_beside_noise("\n".join(heard)) == []
    assert told_beside_noise(files_in(tmp_path, but=canaries.DATA)) == []


@pytest.mark.parametrize("asked", WITH_A_DELTA, ids=lambda each: each.method)
def test_medians_with_noise_of_their_own_are_silent(tmp_path, listening, asked):
    heard = []
    with listening(heard):
        survey = a_file(tmp_path, people(), "a public size", epsilon=5.0, delta=1e-6)
        plan = survey.plan(asked, share=0.5)
        heard += everything_shown(survey, plan, plan.release())
    assert told_beside_noise("\n".join(heard)) == []


def changed(column, value):
    def change(rows):
        rows[column] = rows[column].astype(object) if isinstance(value, str) else rows[column]
        rows.loc[9, column] = value
        return rows

    return change


def one_cluster_in_the_south(rows):
    rows.loc[rows["region"] == "south", "psu"] = UNIT
    return rows


# What is done to the rows, and what the file is declared to be; the person of canaries is there each time.
BAD_FILES = {
    "a stratum with one cluster": (one_cluster_in_the_south, {}),
    "a weight outside the range": (lambda rows: rows, {"weight_range": (1, 30)}),
    "a weight of 0": (changed("w", 0.0), {}),
    "a missing weight": (changed("w", None), {}),
    "a missing cluster": (changed("psu", None), {}),
    "an undeclared stratum": (changed("region", CATEGORY), {}),
    "an undeclared group": (changed("sex", CATEGORY), {}),
    "a missing answer": (changed("income", None), {}),
    "a population that is too small": (lambda rows: rows.assign(fpc=7), {"fpc": "fpc"}),
    "another number of records": (lambda rows: rows[:-1], {"n": SIZE}),
    "a person twice": (changed("person", UNIT), {}),
}
PLACES = {"parquet": places.as_parquet, "csv": places.as_csv, "memory": places.in_memory, "ibis": places.as_ibis}
EVERY_PLACE = ("a weight outside the range", "an undeclared stratum", "a stratum with one cluster")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *((name, "parquet") for name in BAD_FILES),
        *((name, place) for name in EVERY_PLACE for place in PLACES if place != "parquet"),
    ],
)
def test_bad_files_tell_nothing(tmp_path, listening, name, place):
    change, options = BAD_FILES[name]
    heard = []
    with listening(heard):
        survey = a_file(tmp_path, PLACES[place](change(people()), tmp_path), **options)
        plan = survey.plan(ds.mean("income", bounds=BOUNDS, by="sex"), ds.table("sex"))
        for act in (plan.release, lambda: survey.check(plan)):
            with pytest.raises(ds.SurveyError) as caught:
                act()
            heard += [said_by(caught.value), canaries.locals_of_the_package(caught.value)]
            assert f"{SIZE - 1}" not in canaries.whole_numbers(str(caught.value))
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(files_in(tmp_path, but=canaries.DATA)) == []


def test_bad_files_are_told_from_good_ones():
    assert canaries_in(people().to_csv()) != [], "the search would find them"
    assert people()["psu"].eq(UNIT).sum() > 10


def interrupt(what, done, total):
    if (what, done) == ("summing and adding noise", 1):
        raise KeyboardInterrupt


@pytest.mark.parametrize("first", [ds.table("sex"), ds.quantile("number", 0.5, bounds=(0, 64), method="tree", leaves=4)])
def test_local_variables_of_an_interrupted_release_hold_no_exact_count(tmp_path, first):
    # At epsilon 1e-7 a noisy count does not look like an exact one by chance; 2999 numbers, 1999 and 1000 of them alike.
    rows = people()[:-1].assign(sex=["female"] * 1999 + ["male"] * 1000, number=[1.0] * 1999 + [60.0] * 1000)
    survey = a_file(tmp_path, rows, "a public size", epsilon=1e-7, n=SIZE - 1, progress=interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        survey.plan(first, MEAN).release()
    assert canaries.whole_numbers(canaries.locals_of_the_package(caught.value)) & {"1999", "1000"} == set()
