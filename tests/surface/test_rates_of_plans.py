"""Errors by sampling rate and by epsilon, and allocations of one plan: laws that hold, figures that are numbers, bad input."""

import json
import math

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey import planning
from dpsurvey.errors import BadValue, NotFound
from dpsurvey_papers import population

REGIONS = {"north": 6000, "south": 3000, "island": 1000}
SIZE = sum(REGIONS.values())
FRAME = ds.Frame("not there.parquet", unit="id", size=SIZE, categories={"region": REGIONS}, public=["psu", "employees"])
REPLACE, ADD = ds.Setting("frame", neighbours="replace-one"), ds.Setting("frame", neighbours="add-remove")
INCOME = ds.mean("income", bounds=(0, 100), expect=(50, 18))
STATUS = ds.proportion("status", "idle", expect=0.1)
DESIGNS = {
    "srs": (ds.srs(n=500), REPLACE),
    "Poisson": (ds.poisson(0.05), ADD),
    "strata": (ds.stratified("region", within=ds.srs(rate=0.05)), REPLACE),
    "strata of unequal rates": (
        ds.stratified("region", within={"north": ds.poisson(0.02), "south": ds.poisson(0.05), "island": ds.poisson(0.2)}),
        ADD,
    ),
    "clusters": (ds.cluster("psu", ds.srs(n=50), clusters=1000, cap=10), REPLACE),
    "with replacement": (ds.with_replacement(500), REPLACE),
    "systematic": (ds.systematic(n=500, order="as listed"), REPLACE),
    "PPS": (ds.pps("employees", n=500, at_most=0.4), REPLACE),
    "sample protected": (ds.srs(n=500), None),
}
FIGURES = (
    "se",
    "se_sampling",
    "se_noise",
    "moe",
    "ratio",
    "noise_inflation",
    "epsilon_in_sample",
    "epsilon",
    "rate",
    "n",
    "cost",
)


def a_plan(design, *statistics, epsilon=1.0, delta=0.0, **more):
    drawn, setting = DESIGNS[design]
    weights = (5.0, 60.0) if design == "PPS" else None
    survey = ds.Survey(FRAME, drawn, setting, budget=ds.Budget(epsilon, delta), ledger="no.ledger", weight_range=weights)
    return survey.plan(*(statistics or (INCOME, STATUS)), **more)


def of(rows, name):
    return [row for row in rows if row["label"] == name]


def whole(rows):
    return [row for row in rows if row["statistic"] == "plan"]


@pytest.mark.parametrize("design", DESIGNS)
def test_every_figure_is_a_number_or_nothing_and_refusals_have_words(design):
    rows = planning.rates(a_plan(design), at=[0.001, 0.05, 0.5, 0.9, 1.0])
    json.dumps(rows, allow_nan=False)
    assert {row["rate"] for row in rows} == {0.001, 0.05, 0.5, 0.9, 1.0}
    for row in rows:
        assert all(row.get(name) is None or math.isfinite(row[name]) for name in FIGURES)
        assert row["refused"] is None or len(row["refused"].split()) > 3
        if row["refused"] is None and row["statistic"] != "plan":
            assert row["se"] == pytest.approx(math.hypot(row["se_sampling"], row["se_noise"]))
            assert row["n"] == pytest.approx(row["rate"] * SIZE, rel=0.02, abs=10), "the row is of the rate that it names"
    assert [row["ratio"] for row in whole(rows)][-1] == pytest.approx(1.0)
    assert all(row["se_sampling"] == pytest.approx(0.0, abs=1e-9) for row in rows if row["rate"] == 1.0 and row["of"])


def test_the_row_of_the_planned_rate_is_the_plan_even_where_strata_have_rates_of_their_own():
    plan = a_plan("strata of unequal rates")
    rate = (0.02 * 6000 + 0.05 * 3000 + 0.2 * 1000) / SIZE
    for row, planned in zip(planning.rates(plan, at=[rate]), plan.predictions, strict=False):
        assert row["n"] == 470
        assert (row["se_sampling"], row["se_noise"]) == pytest.approx((planned["se_sampling"], planned["se_noise"]), rel=1e-9)


@pytest.mark.parametrize("design", ["srs", "strata of unequal rates", "with replacement", "PPS"])
def test_the_usual_rates_hold_the_planned_one_once(design):
    plan = a_plan(design, INCOME)
    rows = planning.rates(plan)
    (planned,) = [row for row in whole(rows) if row["planned"]]
    assert planned["n"] in (470, 500)
    (own,) = [row for row in of(rows, "income") if row["planned"]]
    assert own["se"] == pytest.approx(plan.predictions[0]["se"], rel=1e-6)
    found = [row["rate"] for row in whole(rows)]
    assert found == sorted(found)
    assert len(found) == len(set(found)) == len(planning.by_rate.RATES) + (design == "strata of unequal rates")
    assert planning.best_rate(rows, "income")["ratio"] == planning.best_rate(rows)["ratio"]


def test_a_design_that_cannot_draw_so_many_says_so():
    # No probability is above 1: with the largest at 0.4 the sample can be two and a half times as large.
    rows = whole(planning.rates(a_plan("PPS"), at=[0.05, 0.9]))
    assert [row["refused"] for row in rows] == [None, "this design cannot draw so many units"]


@pytest.mark.parametrize("design", ["srs", "Poisson", "strata", "sample protected"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.0])
def test_a_laplace_mean_never_gains_from_a_smaller_sample(design, epsilon):
    rows = planning.rates(a_plan(design, INCOME, epsilon=epsilon), at=[0.01, 0.1, 0.3, 0.7, 0.99, 1.0])
    assert all(row["ratio"] >= 1.0 - 1e-12 for row in rows)
    ratios = [row["ratio"] for row in whole(rows)]
    assert ratios == sorted(ratios, reverse=True), "fewer units are never better"
    best = planning.best_rate(rows)
    assert (best["gain"], best["rate"]) == (False, 1.0)
    assert best["advice"].startswith("do not draw")


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 6.0])
def test_the_noise_of_a_mean_grows_by_the_closed_form_and_within_its_bound(epsilon):
    for row in of(planning.rates(a_plan("srs", INCOME, epsilon=epsilon), at=[0.01, 0.1, 0.5, 0.9]), "income"):
        expected = planning.noise_inflation(epsilon, row["rate"])
        assert row["noise_inflation"] == pytest.approx(expected, rel=1e-3)
        assert row["noise_inflation"] <= planning.inflation_bound(epsilon / row["rate"]) * (1.0 + 1e-3)
        assert row["epsilon_in_sample"] == pytest.approx(math.log1p(math.expm1(epsilon) / row["rate"]), rel=1e-9)


def test_where_nothing_amplifies_the_noise_grows_as_the_sample_shrinks():
    rows = of(planning.rates(a_plan("sample protected", INCOME), at=[0.1, 0.5, 1.0]), "income")
    assert [row["noise_inflation"] for row in rows] == pytest.approx([10.0, 2.0, 1.0], rel=1e-3)
    assert {round(row["epsilon_in_sample"], 9) for row in rows} == {1.0}
    assert all(row["no_gain"] is None for row in rows), "the rule is about amplified noise"


@pytest.mark.parametrize("design", ["srs", "Poisson", "strata"])
def test_the_no_gain_rule_never_speaks_of_a_gain(design):
    spoken = []
    for epsilon in (0.001, 0.1, 1.0):
        rows = planning.rates(a_plan(design, epsilon=epsilon), at=[0.01, 0.2, 0.6, 0.95, 1.0])
        spoken += [row["no_gain"] for row in rows]
        assert all(row["ratio"] >= 1.0 - 1e-9 for row in rows if row["no_gain"])
        assert all(row["no_gain"] is None for row in rows if row["rate"] == 1.0)
    assert {True, False, None} == set(spoken), "it is silent, undecided and decided here"


def test_importance_weighs_the_squares_of_the_ratios():
    at = [0.05, 0.5]
    plain = planning.rates(a_plan("srs"), at=at)
    weighed = planning.rates(a_plan("srs"), at=at, importance={"income": 3, "status": 1})
    alone = planning.rates(a_plan("srs"), at=at, importance={"income": 2})
    for place in range(len(at)):
        income, status = of(plain, "income")[place]["ratio"], of(plain, "status = idle")[place]["ratio"]
        assert income != pytest.approx(status, rel=1e-3)
        assert whole(plain)[place]["ratio"] == pytest.approx(math.sqrt((income**2 + status**2) / 2), rel=1e-12)
        assert whole(weighed)[place]["ratio"] == pytest.approx(math.sqrt((3 * income**2 + status**2) / 4), rel=1e-12)
        assert whole(alone)[place]["ratio"] == pytest.approx(income, rel=1e-12)
    assert [row for row in weighed if row["statistic"] != "plan"] == [row for row in plain if row["statistic"] != "plan"]


def test_the_importance_of_a_statistic_is_divided_among_its_groups():
    by = ds.mean("income", bounds=(0, 100), by="region", expect=(50, 18))
    rows = planning.rates(a_plan("strata", by, STATUS), at=[0.1])
    regions, status = [row["ratio"] for row in of(rows, "income")], of(rows, "status = idle")[0]["ratio"]
    expected = math.sqrt((math.fsum(ratio**2 for ratio in regions) / 3 + status**2) / 2)
    assert whole(rows)[0]["ratio"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rate", [0, 0.0, -0.1, 1.0001, math.nan, math.inf, True, "0.1", None])
def test_a_rate_outside_0_1_is_refused(rate):
    with pytest.raises(BadValue, match=r"\(0, 1\]"):
        planning.rates(a_plan("srs"), at=[rate])


def test_bad_importance_and_empty_tables_are_refused():
    plan = a_plan("srs")
    for importance in ({"income": -1}, {"income": math.nan}, {"income": math.inf}, {"income": True}, {"income": 0}):
        with pytest.raises(BadValue):
            planning.rates(plan, at=[0.1], importance=importance)
    with pytest.raises(NotFound, match="did you mean 'income'"):
        planning.rates(plan, at=[0.1], importance={"incme": 1})
    for table in (planning.rates, planning.by_epsilon):
        with pytest.raises(BadValue, match="at least one"):
            table(plan, at=[])
    with pytest.raises(NotFound, match="no error by rate"):
        planning.best_rate(planning.rates(plan, at=[0.1]), "wages")
    budget, ledger = ds.Budget(1.0), "no.ledger"
    file = ds.Survey.collected("no.parquet", n=500, size=SIZE, budget=budget, ledger=ledger)
    with pytest.raises(BadValue, match="no sampling rate"):
        planning.rates(file.plan(INCOME), at=[0.1, 1.0])


def test_the_best_rate_is_among_those_that_the_field_budget_pays_for():
    plan = a_plan("srs", INCOME, fieldwork=ds.Fieldwork(cost=10, fixed_cost=1000, budget=21_000))
    rows = planning.rates(plan, at=[0.05, 0.1, 0.2, 0.21, 1.0])
    assert [(row["cost"], row["affordable"]) for row in whole(rows)] == [
        (6000, True),
        (11_000, True),
        (21_000, True),
        (22_000, False),
        (101_000, False),
    ]
    best = planning.best_rate(rows)
    assert best["rate"] == 0.2
    assert "as many as the field budget pays for" in best["advice"]
    poor = planning.rates(a_plan("srs", INCOME, fieldwork=ds.Fieldwork(cost=10, budget=100)), at=[0.05, 1.0])
    assert planning.best_rate(poor)["rate"] is None
    assert "pays for none" in planning.best_rate(poor)["advice"]


def published(name):
    """Quantiles of a saved population, as a yearbook would print them."""
    values = population(name)
    shares = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
    return {share: float(value) for share, value in zip(shares, np.quantile(values, shares), strict=True)}, values


@pytest.mark.parametrize(("method", "gains"), [("smooth", True), ("exponential", False)])
def test_a_smooth_median_gains_from_a_sample_at_small_epsilon_and_an_exponential_one_does_not(method, gains):
    quantiles, values = published("lognormal")
    asked = ds.median("income", bounds=(0, float(np.ceil(values.max()))), expect=quantiles, method=method)
    plan = a_plan("srs", asked, epsilon=0.1, delta=1e-6)
    rows = planning.rates(plan, at=[0.5, 1.0])
    assert all(row["simulated"] for row in rows if row["of"])
    best = planning.best_rate(rows)
    assert best["gain"] is gains
    assert best["advice"].startswith("draw 0.5 of the frame" if gains else "do not draw")


def test_by_epsilon_noise_falls_and_the_sampling_error_stays():
    for design in ("srs", "Poisson", "clusters", "PPS"):
        rows = planning.by_epsilon(a_plan(design), at=[0.1, 0.5, 1.0, 4.0])
        json.dumps(rows, allow_nan=False)
        for name in ("income", "status = idle"):
            own = of(rows, name)
            noise = [row["se_noise"] for row in own]
            assert noise == sorted(noise, reverse=True)
            assert noise[0] > 1.5 * noise[-1]
            exact = [row["se_sampling"] for row in own if not row["simulated"]]
            assert exact == pytest.approx([exact[0]] * len(exact), rel=1e-12)
            # 16,000 simulated surveys tell a standard error to 0.6 % (the seed is fixed): 3 % is 5 of that.
            assert [row["se_sampling"] for row in own] == pytest.approx([exact[0]] * len(own), rel=0.03)
        assert [row["epsilon_in_sample"] for row in own] == sorted(row["epsilon_in_sample"] for row in own)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_an_epsilon_that_is_no_positive_number_is_refused(epsilon):
    with pytest.raises(BadValue):
        planning.by_epsilon(a_plan("srs"), at=[epsilon])


def test_the_errors_of_allocations_are_those_of_their_samples_by_hand():
    figures = {"north": (30, 5), "south": (50, 20), "island": (60, 35)}
    asked = ds.mean("income", bounds=(0, 100), by="region", expect=figures, source="Yearbook")
    for epsilon in (0.05, 2.0):
        plan = a_plan("strata", asked, epsilon=epsilon)
        rows = planning.allocations(plan, "income")
        json.dumps(rows, allow_nan=False)
        assert {row["n"] for row in rows} == {500}
        tables = {}
        for row in rows:
            tables.setdefault(row["allocation"], {})[row["by"]["region"]] = row
        assert set(tables) == {"as planned", "private", "minimax", "proportional", "neyman"}
        for name, table in tables.items():
            # One charge covers all strata, so the largest rate decides what may be spent on each of them.
            rate = max(row["take"] / REGIONS[label] for label, row in table.items())
            spent = math.log1p(math.expm1(epsilon) / rate)
            for label, row in table.items():
                n, size = row["take"], REGIONS[label]
                by_hand = figures[label][1] * math.sqrt((1 - n / size) / n * size / (size - 1))
                assert row["se_sampling"] == pytest.approx(by_hand, rel=1e-6), name
                assert row["se_noise"] == pytest.approx(math.sqrt(2.0) * 100 / (n * spent), rel=2e-3), name
        takes = {label: row["take"] for label, row in tables["private"].items()}
        assert planning.private_allocation(plan, "income").takes == takes
        assert tables["as planned"]["north"]["se"] == tables["proportional"]["north"]["se"]


def test_where_noise_is_small_the_private_allocation_has_the_least_variance_beside_neyman_and_proportional():
    figures = {"north": (30, 5), "south": (50, 20), "island": (60, 35)}
    asked = ds.mean("income", bounds=(0, 100), by="region", expect=figures, source="Yearbook")
    variance = {}
    for row in planning.allocations(a_plan("strata", asked, epsilon=2.0), "income"):
        variance.setdefault(row["allocation"], 0.0)
        variance[row["allocation"]] += (REGIONS[row["by"]["region"]] / SIZE) ** 2 * row["se"] ** 2
    assert min(variance, key=variance.get) == "private"
    assert variance["private"] < 0.99 * variance["neyman"] < 0.8 * variance["proportional"]


def test_allocations_need_strata_and_a_mean_of_the_column():
    with pytest.raises(BadValue, match="stratified"):
        planning.allocations(a_plan("srs"), "income")
    with pytest.raises(NotFound, match="did you mean 'income'"):
        planning.allocations(a_plan("strata"), "incme")
