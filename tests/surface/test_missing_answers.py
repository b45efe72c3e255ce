"""Missing answers: who did not answer is left out of every statistic, and the share that answered is named and never exact.

Units are taken in full and epsilon is so large that noise does not move a number: a false alarm is below 1e-6.
"""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import dpsurvey as ds
from dpsurvey.errors import BadData, BadValue
from dpsurvey.mechanism import Laplace
from dpsurvey.statistic import statistic_from_dict
from dpsurvey.statistic.facts import Facts
from dpsurvey.statistic.noisy_sums import Asked

SIZE, RICH = 400, 1e6
CATEGORIES = {"sex": ["f", "m"], "job": ["a", "b"]}


def register():
    """Every fifth income and every tenth job is missing; some have neither."""
    number = np.arange(SIZE)
    income = [None if each % 5 == 0 else float(each % 40) for each in number]
    job = [None if each % 10 == 3 else "ab"[int(each % 3 == 0)] for each in number]
    sex = ["fm"[int(each % 7 < 3)] for each in number]
    return pa.table(
        {"id": number, "sex": sex, "job": pa.array(job), "income": income, "rent": number % 9 * 1.0, "psu": number // 8}
    )


ROWS = register().to_pylist()


def survey_of(folder, design=None, epsilon=RICH, **more):
    frame = ds.Frame(register(), "id", SIZE, CATEGORIES, public=["psu"])
    return ds.Survey(frame, design or ds.srs(n=SIZE), budget=ds.Budget(epsilon), ledger=folder / "books.ledger", **more)


def figures(release):
    return [row["estimate"] for row in release.estimates]


ANSWERED = [row for row in ROWS if row["income"] is not None]
WORKING = [row for row in ROWS if row["job"] is not None]
BOTH = [row for row in ANSWERED if row["job"] is not None]
RENT = float(np.mean([row["rent"] for row in ROWS]))
INCOME = np.array([row["income"] for row in ANSWERED])


def mean_of(rows):
    return np.mean([row["income"] for row in rows])


ASKED = {
    "mean": (ds.mean("income", (0, 50), missing="drop"), [INCOME.mean()]),
    "mean by group": (
        ds.mean("income", (0, 50), by="sex", missing="drop"),
        [mean_of([row for row in ANSWERED if row["sex"] == sex]) for sex in "fm"],
    ),
    "mean under a condition on another answer": (
        ds.mean("income", (0, 50), where={"job": "a"}, missing="drop"),
        [mean_of([row for row in BOTH if row["job"] == "a"])],
    ),
    "total": (ds.total("income", (0, 50), missing="drop"), [INCOME.sum()]),
    "total, bounds above 0": (ds.total("income", (5, 50), missing="drop"), [np.maximum(INCOME, 5).sum()]),
    "total by group": (
        ds.total("income", (0, 50), by="sex", missing="drop"),
        [sum(row["income"] for row in ANSWERED if row["sex"] == sex) for sex in "fm"],
    ),
    "proportion": (ds.proportion("job", "a", missing="drop"), [np.mean([row["job"] == "a" for row in WORKING])]),
    "count": (ds.count("job", "a", missing="drop"), [sum(row["job"] == "a" for row in WORKING)]),
    "count within bounds": (ds.count(where={"income": (0, 10)}, missing="drop"), [np.sum(INCOME <= 10)]),
    "count by group": (ds.count(by="job", missing="drop"), [sum(row["job"] == job for row in ROWS) for job in "ab"]),
    "ratio": (
        ds.ratio("income", "rent", (0, 50), (0, 10), missing="drop"),
        [INCOME.sum() / sum(row["rent"] for row in ANSWERED)],
    ),
    "contrast": (
        ds.contrast(ds.mean("income", (0, 50), by="sex", missing="drop"), "f", "m"),
        [mean_of([row for row in ANSWERED if row["sex"] == "f"]) - mean_of([row for row in ANSWERED if row["sex"] == "m"])],
    ),
    "table": (
        ds.table("sex", "job", missing="drop"),
        [
            sum((sex in ("all", row["sex"])) and (job in ("all", row["job"])) for row in WORKING)
            for sexes, jobs in (("fm", "ab"), ("fm", ["all"]), (["all"], "ab"))
            for sex in sexes
            for job in jobs
        ],
    ),
    "calibrated": (
        ds.calibrated(ds.mean("income", (0, 50), missing="drop"), {"sex": {"f": 100, "m": 300}}),
        [sum(share * mean_of([row for row in ANSWERED if row["sex"] == sex]) for sex, share in (("f", 0.25), ("m", 0.75)))],
    ),
}


UNITS, CLUSTERS = ds.srs(n=SIZE), ds.cluster("psu", ds.srs(SIZE // 8))
# Calibration is not offered for cluster samples.
BOTH_WAYS = [*((UNITS, asked) for asked in ASKED), *((CLUSTERS, asked) for asked in ASKED if asked != "calibrated")]


@pytest.mark.parametrize(("design", "asked"), BOTH_WAYS, ids=lambda each: each if isinstance(each, str) else each.kind)
def test_it_is_the_number_of_those_who_answered(design, asked, tmp_path):
    statistic, expected = ASKED[asked]
    weights = {"weight_range": (1.0, 1.0)} if design.kind == "cluster" else {}
    release = survey_of(tmp_path, design, **weights).plan(statistic).release()
    assert figures(release) == pytest.approx(expected, rel=1e-3)
    assert release.recompute() == release.estimates
    assert all(
        "those who answered" in row["label"] and any("item nonresponse" in note for note in row["notes"])
        for row in release.estimates
    )


def test_quantiles_are_of_those_who_answered_or_take_a_public_value(tmp_path):
    left_out = ds.median("income", (0, 64), missing="drop", method="tree")
    filled = ds.median("income", (0, 64), missing=60.0, method="tree")
    found = figures(survey_of(tmp_path).plan(left_out, filled).release())
    assert found[0] == pytest.approx(np.quantile(INCOME, 0.5), abs=1.0)
    assert found[1] == pytest.approx(np.quantile([*INCOME, *[60.0] * (SIZE - len(INCOME))], 0.5), abs=1.0)
    assert found[1] > found[0] + 3


def test_the_regression_is_of_those_who_answered(tmp_path):
    asked = ds.greg(ds.mean("income", (0, 50), missing="drop"), {"rent": ((0, 10), RENT)})
    x, y = np.array([row["rent"] for row in ANSWERED]), INCOME
    slope = np.polyfit(x, y, 1)[0]
    expected = y.mean() + slope * (RENT - x.mean())
    assert figures(survey_of(tmp_path).plan(asked).release()) == pytest.approx([expected], rel=1e-3)


@pytest.mark.parametrize("design", [ds.srs(n=SIZE), ds.poisson(0.999)], ids=["fixed", "random"])
def test_the_item_response_is_named_from_noisy_sums_and_costs_nothing(design, tmp_path):
    asked = [
        ds.mean("income", (0, 50), by="sex", missing="drop"),
        ds.proportion("job", "a", missing="drop"),
        ds.table("job", missing="drop"),
    ]
    plain = [ds.mean("rent", (0, 50), by="sex", where={"rent": (0, 9)})]
    survey = survey_of(tmp_path, design)
    rows = survey.plan(*asked).release().estimates
    shares = [np.mean([row["income"] is not None for row in ROWS if row["sex"] == sex]) for sex in "fm"]
    working = len(WORKING) / SIZE
    assert [row["item_response"] for row in rows] == pytest.approx([*shares, working, working, working], abs=0.02)
    items = [survey.plan(each).items[0] for each in (asked[0], *plain)]
    assert items[0].mechanism.scale == items[1].mechanism.scale


def test_a_rate_that_noise_hides_is_not_given_and_a_noisy_one_is_not_exact(tmp_path):
    exact = np.mean([row["income"] is not None for row in ROWS])
    asked = ds.mean("income", (0, 50), missing="drop")
    hidden = survey_of(tmp_path, epsilon=0.004).plan(asked).release().estimates[0]
    # The noisy number of records has a deviation of 1,000 and more: 400 stand above 5 of them with a chance below 1e-6.
    assert hidden["item_response"] is None
    assert any("lost in the noise" in note for note in hidden["notes"])
    (tmp_path / "more").mkdir()
    noisy = survey_of(tmp_path / "more", epsilon=1.0).plan(asked).release()
    # Three sums with noise of two million steps: all of them as without noise has a chance below 1e-12.
    assert noisy.estimates[0]["item_response"] != exact
    assert noisy.estimates[0]["item_response"] == pytest.approx(exact, abs=0.3)
    assert "item_response" in noisy.to_csv().splitlines()[0]
    assert "item_response" in str(noisy)


def test_what_totals_and_ratios_do_not_tell_of_the_response_they_say(tmp_path):
    asked = [ds.total("income", (0, 50), missing="drop"), ds.ratio("income", "rent", (0, 50), (0, 10), missing="drop")]
    for row in survey_of(tmp_path).plan(*asked).release().estimates:
        assert row["item_response"] is None
        assert any("not among these sums" in note for note in row["notes"])


def test_missing_answers_are_refused_without_a_rule_and_the_hint_can_be_followed(tmp_path):
    for statistic in (
        ds.mean("income", (0, 50)),
        ds.median("income", (0, 64), method="tree"),
        ds.ratio("income", "rent", (0, 50), (0, 10)),
        ds.count(where={"income": (0, 10)}),
        ds.table("job"),
    ):
        with pytest.raises(BadData, match="missing values") as caught:
            survey_of(tmp_path).plan(statistic).release()
        if "missing=" in str(caught.value):
            rule = statistic_from_dict(statistic.to_dict() | {"missing": "drop"})
            survey_of(tmp_path, name=statistic.kind).plan(rule).release()


@pytest.mark.parametrize(
    "statistic",
    [ds.proportion("job", "a", by="job", missing="a"), ds.mean("rent", {0: (0, 1), 1: (0, 2)}, by="rent", missing=0)],
    ids=["counted", "measured"],
)
def test_a_value_that_stands_for_an_answer_names_no_group_and_nothing_is_spent_on_finding_out(statistic, tmp_path):
    rows = register()
    rent = pa.array([None, *[row % 2 for row in range(1, SIZE)]], pa.int64())
    rows = rows.set_column(rows.column_names.index("rent"), "rent", rent)
    frame = ds.Frame(rows, "id", SIZE, {"job": ["a", "b"], "rent": [0, 1]})
    survey = ds.Survey(frame, ds.poisson(0.999), budget=ds.Budget(1.0), ledger=tmp_path / "books.ledger")
    with pytest.raises(BadData, match=f"'{statistic.of}' has missing values"):
        survey.plan(statistic).release()
    with ds.Ledger(tmp_path / "books.ledger") as ledger:
        assert ledger.spending(survey.terms).spent == 0.0


@pytest.mark.parametrize("method", ["tree", "exponential", "laplace", "smooth", "propose-test-release"])
def test_every_median_takes_the_value_that_stands_for_a_missing_answer(method, tmp_path):
    proposal = {"proposal": 1.0} if method == "propose-test-release" else {}
    median = ds.median("income", (0, 64), missing=60.0, method=method, **proposal)
    survey = ds.Survey(
        ds.Frame(register(), "id", SIZE), ds.srs(n=200), budget=ds.Budget(50.0, 1e-6), ledger=tmp_path / "books.ledger"
    )
    assert len(survey.plan(median, noise="laplace").release().estimates) == 1


def test_a_column_that_units_are_drawn_by_is_complete_whatever_is_asked(tmp_path):
    frame = ds.Frame(register(), "id", SIZE, {"job": {"a": 240, "b": 160}})
    survey = ds.Survey(frame, ds.stratified("job", within=ds.srs(n=20)), budget=ds.Budget(1.0), ledger=tmp_path / "books.ledger")
    with pytest.raises(BadData, match="'job' has missing values"):
        survey.plan(ds.table("job", missing="drop")).release()


REFUSED = {
    "a word": lambda: ds.mean("income", (0, 50), missing="left out"),
    "a value of a ratio": lambda: ds.ratio("income", "rent", (0, 50), (0, 10), missing=0),
    "a value of a table": lambda: ds.table("job", missing="a"),
    "a calibrated total": lambda: ds.calibrated(ds.total("income", (0, 50), missing="drop"), {"sex": {"f": 1, "m": 1}}),
    "a filled mean": lambda: ds.imputed(ds.mean("income", (0, 50), missing="drop"), cells="sex"),
    "a category of that name": lambda: ds.proportion("job", "drop", missing="drop"),
    "outside the bounds": lambda: ds.median("income", (0, 50), missing=60),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rules_that_no_statistic_could_follow_are_refused(case):
    with pytest.raises(BadValue, match="missing"):
        REFUSED[case]()


def test_a_declared_category_named_drop_is_not_mistaken_for_the_rule(tmp_path):
    frame = ds.Frame(register(), "id", SIZE, {"job": ["a", "b", "drop"]})
    survey = ds.Survey(frame, ds.srs(n=20), budget=ds.Budget(1.0), ledger=tmp_path / "books.ledger")
    with pytest.raises(BadValue, match="also a category"):
        survey.plan(ds.proportion("job", "a", missing="drop"))


def test_counting_needs_a_column_a_group_or_a_condition(tmp_path):
    with pytest.raises(BadValue, match="declared frame size"):
        ds.count()
    assert ds.count(where={"rent": (0, 4)}).name == "count where rent from 0 to 4"
    release = survey_of(tmp_path).plan(ds.count(where={"rent": (0, 4)}), ds.count(where={"sex": "f", "rent": (0, 4)})).release()
    expected = [sum(row["rent"] <= 4 for row in ROWS), sum(row["rent"] <= 4 and row["sex"] == "f" for row in ROWS)]
    assert figures(release) == pytest.approx(expected, rel=1e-3)
    assert [row["label"] for row in release.estimates] == ["where rent from 0 to 4", "where sex = f and rent from 0 to 4"]


def test_every_kind_is_written_and_read_with_the_rule():
    for statistic, _ in ASKED.values():
        assert statistic_from_dict(statistic.to_dict()) == statistic


def test_plans_say_that_they_suppose_an_answer_from_everybody(tmp_path):
    with_rule, without = (
        survey_of(tmp_path)
        .plan(ds.mean("income", (0, 50), missing="drop"), ds.mean("rent", (0, 50), where={"sex": "f"}))
        .predictions
    )
    assert "answered by everybody" in with_rule["rests_on"]
    assert "answered by everybody" not in without["rests_on"]


SURVEYS, TAKE = 4000, 600
# Coverage of at least 95 % falls below this many with probability below 1e-6; one of 91 % is found with 1 - 1e-6.
ALARM = int(binom.ppf(1e-6, SURVEYS, 0.95)) - 1


def test_intervals_of_means_of_those_who_answered_cover(tmp_path):
    assert binom.sf(ALARM, SURVEYS, 0.91) < 1e-6
    random = np.random.default_rng(5)
    frame = ds.Frame("f.parquet", unit="id", size=100_000)
    facts = Facts(frame, ds.srs(n=TAKE).resolve(frame), "replace-one", "L1")
    statistic = ds.mean("y", (0, 1), missing="drop")
    query = statistic.query(facts)
    mechanism = Laplace(scale=2.0 * query.steps, sensitivity=2.0 * query.steps)
    # Those who answer have lower values: the number is about them.
    y = random.beta(1.0, 3.0, (SURVEYS, TAKE))
    answered = random.random((SURVEYS, TAKE)) < 0.9 - 0.6 * y
    truth = (0.9 * 0.25 - 0.6 * (0.25**2 + 3.0 / 80.0)) / (0.9 - 0.6 * 0.25)
    triple = np.stack([y**2, 2 * y * (1 - y), (1 - y) ** 2], axis=-1) * answered[..., None]
    sums = np.concatenate([triple.sum(axis=1), (~answered).sum(axis=1)[:, None]], axis=-1)[:, None, :] * query.steps
    noisy = sums + random.laplace(0.0, mechanism.scale, sums.shape)
    found = Asked(query, facts, mechanism).answered(noisy)
    numbers = statistic.estimate(found.read_as(statistic.asked_of(query)))
    covered = np.sum((numbers.low[:, 0] <= truth) & (truth <= numbers.high[:, 0]))
    assert covered > ALARM
    rates = statistic.item_response(found)
    assert np.mean(rates) == pytest.approx(0.75, abs=0.005)
