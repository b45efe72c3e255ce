"""Weights that one noisy table makes are constants for what is asked later: no record moves a sum further than is charged.

Whichever answer, cell and design weight it takes; and what is estimated is the calibrated estimate, with an error that is true.
"""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.classical import Sample
from dpsurvey.errors import BadValue, NoGuarantee, NotFound
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic import PublicWeights, statistic_from_dict
from dpsurvey.statistic.public_weights import weights_to_margins
from tests.truth import neighbouring as near

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]

MADE = PublicWeights(
    ("sex", "region"),
    (("female", "north"), ("female", "south"), ("male", "north"), ("male", "south")),
    (1.5, 3.0, 0.75, 1.0),
    (400.0, 200.0, 300.0, 100.0),
    50.0,
    1600.0,
)
ASKED = {
    "mean": ds.weighted(ds.mean("y", (0, 1)), MADE),
    "mean, measured from 0.1": ds.weighted(ds.mean("y", (0, 1), expect=(0.1, 0.1)), MADE),
    "mean, measured from 1": ds.weighted(ds.mean("y", (0, 1), expect=(1.0, 0.0)), MADE),
    "total": ds.weighted(ds.total("y", (-3, 5)), MADE),
    "proportion": ds.weighted(ds.proportion("answer", "yes", expect=0.3), MADE),
}
SETTINGS = {
    "add-remove": ds.Setting("sample", given="frame", neighbours="add-remove"),
    "replace-one": ds.Setting("sample", given="frame", neighbours="replace-one"),
}
# Any answer with any weight in any cell.
RECORDS = [
    near.Record(region=region, sex=sex, y=y, answer="yes" if y > 0.4 else "no", weight=weight)
    for region, sex, y, weight in itertools.product(
        near.REGIONS, near.SEXES, (-3.0, 0.0, 0.3, 0.5, 0.7, 1.0, 5.0), (1.0, 3.7, 8.0, 10.0)
    )
]
BASES = [[], [near.Record(y=0.2), near.Record(sex="male", region="south", weight=7.0)]]


def planned(statistic, neighbours, noise, equal=False):
    columns = {} if equal else {"weights": "weight", "weights_are": "design", "weight_range": (1.0, 10.0)}
    survey = ds.Survey.collected(
        "none.parquet",
        setting=SETTINGS[neighbours],
        size=1600,
        categories={"region": near.REGIONS, "sex": near.SEXES, "answer": ("yes", "no")},
        budget=ds.Budget(3.0, 1e-6),
        ledger="none.ledger",
        **columns,
    )
    return survey.plan(statistic, noise=noise)


@pytest.fixture(scope="module")
def around():
    return near.Around(RECORDS, BASES)


@pytest.mark.parametrize(("noise", "norm"), [("laplace", "L1"), ("gaussian", "L2")])
@pytest.mark.parametrize("neighbours", SETTINGS)
@pytest.mark.parametrize("name", ASKED)
def test_no_record_moves_a_sum_further_than_is_charged_whatever_of_it_is_replaced(around, name, neighbours, noise, norm):
    plan = planned(ASKED[name], neighbours, noise)
    (item,) = plan.items
    charged = item.query.sensitivity(Relation(neighbours), norm)
    added, replaced = around.moves(item.query, norm)
    moved = added if neighbours == "add-remove" else replaced
    assert moved <= charged
    # A replaced answer of the largest weight alone moves all but the part that squared weights take.
    assert neighbours == "add-remove" or moved > 0.95 * charged
    assert charged / item.query.steps == pytest.approx(1.2 if norm == "L1" else math.sqrt(1.0 + 0.15**2 + 0.05**2), rel=1e-4)


def people(seed=3, size=3000):
    """Respondents with design weights of three kinds; women, and the north, responded more often."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["female", "male"], size, p=[0.65, 0.35])
    region = rng.choice(["north", "south"], size, p=[0.7, 0.3])
    y = np.clip(0.3 + 0.25 * (sex == "female") - 0.1 * (region == "north") + rng.normal(0, 0.2, size), 0, 1)
    job = np.where(rng.random(size) < y, "yes", "no")
    return pd.DataFrame({"sex": sex, "region": region, "y": y, "job": job, "w": rng.choice([2.0, 3.0, 4.0], size)})


MARGINS = {"sex": {"female": 8_000, "male": 8_000}, "region": {"north": 9_000, "south": 7_000}}


def a_survey(rows, folder, epsilon, **more):
    options = {"weights": "w", "weights_are": "design", "weight_range": (2, 4), "size": 16_000} | more
    categories = {"sex": ["female", "male"], "region": ["north", "south"], "job": ["yes", "no"]}
    return ds.Survey.collected(
        rows, categories=categories, budget=ds.Budget(epsilon), ledger=folder / "books.ledger", name="lfs", **options
    )


def test_one_table_is_charged_once_and_its_weights_give_the_calibrated_estimates(tmp_path):
    rows = people()
    survey = a_survey(rows, tmp_path, 4e4)
    table = survey.weights(MARGINS, share=0.25)
    weights = table.weights(MARGINS)
    assert not weights.cut
    for column, totals in MARGINS.items():
        for label, total in totals.items():
            inside = [labels[weights.columns.index(column)] == label for labels in weights.labels]
            met = sum(f * n for f, n, own in zip(weights.factors, weights.counts, inside, strict=True) if own)
            assert met == pytest.approx(total, rel=1e-6)
    bounds = {"mean": ds.mean("y", (0, 1)), "total": ds.total("y", (0, 1)), "share": ds.proportion("job", "yes")}
    asked = {name: ds.weighted(each, weights) for name, each in bounds.items()}
    release = survey.plan(*asked.values(), share=0.75).release()
    factor = dict(zip(weights.labels, weights.factors, strict=True))
    final = rows["w"] * [factor[tuple(row[list(weights.columns)])] for _, row in rows.iterrows()]
    wanted = [(final * rows["y"]).sum() / 16_000, (final * rows["y"]).sum(), (final * (rows["job"] == "yes")).sum() / 16_000]
    found = {row["label"].split(" ")[0]: row for row in release.estimates}
    assert [found[name]["estimate"] for name in ("mean", "total", "proportion")] == pytest.approx(wanted, rel=1e-3)
    # Errors are those of draws with replacement with these weights, which calibration does not narrow.
    residual = (final * (rows["y"] - wanted[0])) ** 2
    assert found["mean"]["se_sampling"] == pytest.approx(math.sqrt(residual.sum()) / 16_000, rel=0.01)
    raked = Sample({name: rows[name].to_numpy() for name in rows}, weights="w").raked(MARGINS).mean("y")
    assert found["mean"]["estimate"] == pytest.approx(raked.estimate, abs=0.2 * raked.se)
    assert raked.se < found["mean"]["se_sampling"] < 1.5 * raked.se
    assert release.recompute() == release.document["estimates"]
    assert len(ds.Ledger(tmp_path / "books.ledger").charges("lfs")) == 3
    for statistic in asked.values():
        assert statistic_from_dict(statistic.to_dict()) == statistic


def test_intervals_cover_with_the_noise_of_the_table_and_of_the_sums_in_them():
    """300 surveys of 48 cells at epsilon 1, once for the table: below 88 % by chance with probability 1e-6; intervals of a third
    of the sampling error alone do not."""
    rng, size, surveys = np.random.default_rng(8), 900, 300
    cells = list(itertools.product("abcdef", "xy", "klmn"))
    share = rng.gamma(6.0, 1.0, len(cells))
    share /= share.sum()
    mean = np.clip(0.35 + 0.1 * rng.standard_normal(len(cells)), 0.05, 0.95)
    response = np.linspace(0.9, 0.4, len(cells))
    truth, population = float(share @ mean), 90_000.0
    margins = [
        ((column,), [((label,), population * share[[cell[place] == label for cell in cells]].sum()) for label in labels])
        for place, (column, labels) in enumerate({"p": "abcdef", "q": "xy", "r": "klmn"}.items())
    ]
    survey = ds.Survey.collected(
        "none.parquet",
        size=int(population),
        n=None,
        categories={"p": list("abcdef"), "q": ["x", "y"], "r": list("klmn")},
        budget=ds.Budget(1.0),
        ledger="none.ledger",
    )
    table = survey.plan(ds.count(by=("p", "q", "r")), noise="laplace").items[0]
    covered, narrow = [], []
    for _ in range(surveys):
        cell = rng.choice(len(cells), size, p=share)
        cell = cell[rng.random(size) < response[cell]]
        yes = rng.random(len(cell)) < mean[cell]
        counts = np.bincount(cell, minlength=len(cells)) + np.rint(rng.laplace(0, table.mechanism.scale, len(cells)))
        made = weights_to_margins(
            ("p", "q", "r"), [list("abcdef"), ["x", "y"], list("klmn")], counts, table.mechanism.variance, margins
        )
        asked = ds.weighted(ds.proportion("job", "yes"), made)
        plan = survey.plan(asked, noise="laplace")
        (item,) = plan.items
        u = np.array(made.factors)[cell] / made.largest
        sums = [(u * (yes - 0.5)).sum(), 0.0, 0.15 * (u * u * yes).sum()]
        noisy = np.rint(np.array(sums) * item.query.steps + rng.laplace(0, item.mechanism.scale, 3))
        found = asked.estimate(plan.asked(item).answered(noisy[None, :]))
        low, high = float(found.low[0]), float(found.high[0])
        covered.append(low <= truth <= high)
        narrow.append(abs(float(found.estimate[0]) - truth) <= 0.35 * float(found.se_sampling[0]) * 1.96)
    assert np.mean(covered) > 0.88
    assert np.mean(narrow) < 0.75


def test_margins_that_a_table_cannot_carry_are_refused(tmp_path):
    survey = a_survey(people(), tmp_path, 50.0)
    table = survey.weights(MARGINS, share=0.5)
    with pytest.raises(NotFound, match="no table of units by age"):
        table.weights({"age": {"young": 8_000, "old": 8_000}})
    with pytest.raises(BadValue, match="do not count the same population"):
        table.weights({"sex": {"female": 1, "male": 1}, "region": {"north": 9_000, "south": 7_000}})
    with pytest.raises(BadValue, match="below 5 times its noise"):
        weights_to_margins(["g"], [["a", "b"]], np.array([900.0, 4.0]), 1.0, [(("g",), [(("a",), 50.0), (("b",), 50.0)])])
    with pytest.raises(BadValue, match="contradict"):
        weights_to_margins(
            ["g", "h"],
            [["a", "b"], ["c", "d"]],
            np.array([50.0, 0.0, 0.0, 50.0]),
            0.0,
            [(("g",), [(("a",), 50.0), (("b",), 50.0)]), (("h",), [(("c",), 90.0), (("d",), 10.0)])],
        )


def test_factors_far_from_the_mean_one_are_cut_and_the_note_says_so():
    made = weights_to_margins(["g"], [["a", "b"]], np.array([900.0, 10.0]), 0.0, [(("g",), [(("a",), 455.0), (("b",), 455.0)])])
    assert made.cut
    assert made.largest == pytest.approx(3.0 * 910 / 910)
    assert MADE.cut
    asked = ASKED["mean"]
    plan = planned(asked, "replace-one", "laplace")
    found = asked.estimate(plan.asked(plan.items[0]).answered(np.zeros((1, 4))))
    assert any("factors of the public weights were cut" in note for note in found.notes[0])


def test_public_weights_are_refused_where_they_would_be_wrong(tmp_path):
    final = {"weights_are": "final", "calibrated_on": ["sex"]}
    rows = people()
    with pytest.raises(NoGuarantee, match="'sex' was used to make the weights"):
        a_survey(rows, tmp_path, 1.0, **final).weights({"sex": MARGINS["sex"]})
    clustered = a_survey(rows, tmp_path, 1.0, psu="region", psus=20)
    sexes = PublicWeights(("sex",), (("female",), ("male",)), (1.0, 2.0), (5.0, 5.0), 1.0, 15.0)
    with pytest.raises(NoGuarantee, match="cluster samples"):
        clustered.weights({"sex": MARGINS["sex"]})
    with pytest.raises(NoGuarantee, match="cluster samples"):
        clustered.plan(ds.weighted(ds.mean("y", (0, 1)), sexes))
    other = PublicWeights(("sex",), (("female",), ("other",)), (1.0, 2.0), (5.0, 5.0), 1.0, 15.0)
    with pytest.raises(BadValue, match="a factor for every declared category"):
        a_survey(rows, tmp_path, 1.0).plan(ds.weighted(ds.mean("y", (0, 1)), other))
    moving = ds.Setting("sample", neighbours="replace-one")
    with pytest.raises(NoGuarantee, match="not constants"):
        a_survey(rows, tmp_path, 1.0, setting=moving).plan(ds.weighted(ds.mean("y", (0, 1)), sexes))
    for wrong in (ds.median("y", (0, 1)), ds.mean("y", (0, 1), by="sex"), ds.mean("y", (0, 1), trim=3)):
        with pytest.raises(BadValue):
            ds.weighted(wrong, sexes)
