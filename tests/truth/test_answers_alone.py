"""Final weights: what is guaranteed where the answers alone are protected, on files so small that all of them are written down.

Three respondents with raked weights, every file that they can have made; and sums of many statistics over larger files, by the
engine, for all neighbours through some records.
"""

import itertools
import math

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.privacy.relation import Relation
from dpsurvey_papers.specifications import Specification, laplace_satisfies
from tests.truth import neighbouring as near

pytestmark = pytest.mark.quick

EPSILON = 1.5
# Margins that are published, and that the weights of every file are raked to; the columns are those of `neighbouring`.
MARGINS = {"sex": {"female": 60.0, "male": 40.0}, "region": {"north": 50.0, "south": 50.0}}
CELLS = tuple(itertools.product(near.REGIONS, near.SEXES))
ANSWERS, CLUSTERS = ("yes", "no"), ("p0", "p1", "p2")


def raked(cells):
    """The weights of records in these cells, raked to the margins; None where no weights meet them."""
    weights = np.ones(len(cells))
    for _ in range(400):
        for place, column in ((1, "sex"), (0, "region")):
            for label, total in MARGINS[column].items():
                inside = [cell[place] == label for cell in cells]
                if not any(inside):
                    return None
                weights[inside] *= total / weights[inside].sum()
    met = all(
        math.isclose(
            sum(weight for weight, cell in zip(weights, cells, strict=True) if cell[place] == label), total, rel_tol=1e-6
        )
        for place, column in ((1, "sex"), (0, "region"))
        for label, total in MARGINS[column].items()
    )
    return weights if met else None


# A file: for each of three respondents the cell and the answer. Weights follow from the cells of all three.
WEIGHTS = {cells: found for cells in itertools.product(CELLS, repeat=3) if (found := raked(cells)) is not None}
FILES = [
    tuple(zip(cells, answers, strict=True)) for cells in WEIGHTS for answers in itertools.product(ANSWERS, repeat=len(cells))
]
LARGEST = float(max(weights.max() for weights in WEIGHTS.values()))


def cells_of(file):
    return tuple(cell for cell, _ in file)


def rows_apart(one, other):
    """The number of rows in which two files differ."""
    return float(sum(a != b for a, b in zip(one, other, strict=True)))


def fibres(kept):
    """The files that agree in what is kept of them, one universe for each."""
    universes = {}
    for file in FILES:
        universes.setdefault(kept(file), []).append(file)
    return Specification(FILES, universes.values(), rows_apart, EPSILON)


@pytest.fixture(scope="module")
def worlds():
    return near.Worlds(
        [
            [
                near.Record(region=cell[0], sex=cell[1], answer=answer, weight=weight, psu=psu)
                for (cell, answer), weight, psu in zip(file, WEIGHTS[cells_of(file)], CLUSTERS, strict=True)
            ]
            for file in FILES
        ]
    )


def planned(statistic, **more):
    """What a survey with final weights asks for, and its noise; no row is read."""
    survey = ds.Survey.collected(
        "none.parquet",
        weights="weight",
        weights_are="final",
        calibrated_on=["sex", "region"],
        weight_range=(1e-3, LARGEST),
        size=100,
        categories={"region": near.REGIONS, "sex": near.SEXES, "answer": ANSWERS},
        budget=ds.Budget(EPSILON),
        ledger="none.ledger",
        **more,
    )
    return survey.plan(statistic, noise="laplace")


def laplace_of(plan, worlds):
    """The exact sums of every file, and the scale of the noise on each."""
    (item,) = plan.items
    sums = worlds.sums(item.query)
    values = {file: tuple(map(float, row)) for file, row in zip(FILES, sums, strict=True)}
    return values, dict.fromkeys(FILES, item.mechanism.scale)


ASKED = {
    "proportion": ds.proportion("answer", "yes"),
    "count": ds.count("answer", "yes"),
    "proportion by a column of calibration": ds.proportion("answer", "yes", by="sex"),
    "table with a column of calibration": ds.count(by=("sex", "answer")),
}


def test_the_files_are_all_that_three_respondents_with_raked_weights_can_make():
    assert len(FILES) == 8 * len(WEIGHTS) == 96
    assert {len({round(float(weight), 3) for weight in weights}) for weights in WEIGHTS.values()} == {3}


@pytest.mark.parametrize("columns", [{}, {"psu": "psu", "psus": 3}], ids=["units", "clusters"])
@pytest.mark.parametrize("name", ASKED)
def test_a_release_keeps_the_answers_to_its_epsilon(worlds, name, columns):
    """Files that agree in everything but answers are compared at epsilon, and some pair is close to it."""
    values, scales = laplace_of(planned(ASKED[name], **columns), worlds)
    kept = laplace_satisfies(fibres(cells_of), values, scales)
    assert kept
    assert 0.4 * EPSILON < kept.loss <= kept.allowed


@pytest.mark.parametrize("name", [name for name in ASKED if not name.startswith("table")])
def test_the_promise_fails_when_a_column_that_made_the_weights_is_named_among_the_answers(worlds, name):
    """Other weights for everybody: sums that count on fixed ones are charged for answers replaced in their place alone."""
    values, scales = laplace_of(planned(ASKED[name], psu="psu", psus=3), worlds)
    for named in (lambda file: tuple(cell[0] for cell in cells_of(file)), lambda file: ()):
        broken = laplace_satisfies(fibres(named), values, scales)
        assert not broken
        assert broken.loss > 1.2 * broken.allowed


def test_what_hides_whole_records_hides_answers_too_and_not_the_other_way_round(worlds):
    """With weights that nobody moves, the coarser universes imply the finer ones at the same epsilon."""
    values, scales = laplace_of(planned(ASKED["proportion"], psu="psu", psus=3), worlds)
    whole = {file: (float(sum(answer == "yes" for _, answer in file)),) for file in FILES}
    everything = fibres(lambda file: ())
    unweighted = dict.fromkeys(FILES, 1.0 / EPSILON)
    assert laplace_satisfies(everything, whole, unweighted)
    assert laplace_satisfies(fibres(cells_of), whole, unweighted)
    assert everything.allows_no_more_than(fibres(cells_of))
    assert not fibres(cells_of).allows_no_more_than(everything)
    assert not laplace_satisfies(everything, values, scales)


# Larger files: all neighbours through records that agree in whatever is held fixed.


def held_fixed(one, two):
    return (one.region, one.psu, one.weight, one.sex) == (two.region, two.psu, two.weight, two.sex)


def other_sex(one, two):
    return (one.region, one.psu, one.weight) == (two.region, two.psu, two.weight)


VALUES = (0.0, 0.25, 0.5, 1.0)
RECORDS = [
    near.Record(region="north", sex=sex, y=y, x=x, answer=answer, weight=weight, psu="p0")
    for sex, weight, y, x, answer in itertools.product(near.SEXES, (2.0, 10.0), VALUES, (0.0, 1.0), ANSWERS)
]
BASES = [
    [
        near.Record(region=region, sex=sex, y=0.5, x=0.5, answer="no", weight=4.0, psu=f"{region}-{place}")
        for region in near.REGIONS
        for sex in near.SEXES
        for place in range(3)
    ]
    + [near.Record(region="north", psu="p0", weight=2.0)],
]
UNITS = {"weights": "weight", "weight_range": (1.0, 10.0)}
IN_CLUSTERS = UNITS | {"strata": "region", "psu": "psu", "psus": 3}
MANY = {
    "mean": ds.mean("y", (0, 1)),
    "mean by sex": ds.mean("y", (0, 1), by="sex"),
    "mean by an answer": ds.mean("y", (0, 1), by="answer"),
    "mean of one sex": ds.mean("y", (0, 1), where={"sex": "female"}),
    "mean of an answer": ds.mean("y", (0, 1), where={"answer": "yes"}),
    "total": ds.total("y", (0, 1)),
    "proportion by sex and region": ds.proportion("answer", "yes", by=("sex", "region")),
    "count by sex and answer": ds.count(by=("sex", "answer")),
    "ratio": ds.ratio("y", "x", bounds=(0, 1), to_bounds=(0, 1)),
    "median": ds.median("y", bounds=(0, 1)),
}


@pytest.fixture(scope="module")
def around():
    return near.Around(RECORDS, BASES)


@pytest.mark.parametrize("columns", [UNITS, IN_CLUSTERS], ids=["units", "clusters"])
@pytest.mark.parametrize("name", MANY)
def test_no_neighbour_with_other_answers_moves_the_sums_further_than_is_charged(around, name, columns):
    survey = ds.Survey.collected(
        "none.parquet",
        weights_are="final",
        calibrated_on=["sex"],
        size=1000,
        categories={"region": near.REGIONS, "sex": near.SEXES, "answer": ANSWERS},
        budget=ds.Budget(3.0, 1e-6),
        ledger="none.ledger",
        **columns,
    )
    for noise, norm in (("laplace", "L1"), ("gaussian", "L2")):
        plan = survey.plan(MANY[name], noise=noise)
        assert plan.facts.relation == Relation.REPLACE_ONE
        for item in plan.items:
            charged = item.query.sensitivity(plan.facts.relation, norm)
            _, replaced = around.moves(item.query, norm, held_fixed)
            assert 0.0 < replaced <= charged * (1.0 + 1e-12)


def test_a_record_that_could_change_its_sex_would_be_caught(around):
    """Power: in clusters, groups of a column of calibration are charged as if their records stayed there, and they do."""
    survey = ds.Survey.collected(
        "none.parquet",
        weights_are="final",
        calibrated_on=["sex"],
        size=1000,
        categories={"region": near.REGIONS, "sex": near.SEXES},
        budget=ds.Budget(3.0),
        ledger="none.ledger",
        **IN_CLUSTERS,
    )
    plan = survey.plan(ds.mean("y", (0, 1), by="sex"))
    query = plan.items[0].query
    assert query.group_is_fixed
    charged = query.sensitivity(plan.facts.relation, "L1")
    assert around.moves(query, "L1", held_fixed)[1] <= charged
    assert around.moves(query, "L1", other_sex)[1] > 1.5 * charged
