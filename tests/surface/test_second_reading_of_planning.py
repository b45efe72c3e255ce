"""What a hostile second reading found about planning stays mended."""

import math

import pytest

import dpsurvey as ds
from dpsurvey import planning
from dpsurvey.errors import BadValue, NoGuarantee, Refusal

N, REGIONS = 10_000, {"k": 500, "l": 9_500}
FRAME = ds.Frame("not there.parquet", unit="id", size=N, categories={"g": REGIONS, "h": ["a", "b"]})
TO_FRAME = ds.Setting("frame", neighbours="replace-one")
BY_GROUP = {"k": (40.0, 9.0), "l": (60.0, 20.0)}


def a_survey(design=None, setting=TO_FRAME, epsilon=1.0):
    made = design or ds.stratified("g", within=ds.srs(rate=0.05))
    return ds.Survey(FRAME, made, setting, budget=ds.Budget(epsilon), ledger="not there.ledger")


def test_a_private_allocation_is_made_for_the_guarantee_of_its_theorem_alone():
    asked = ds.mean("y", bounds=(0, 100), by="g", expect=BY_GROUP, source="Yearbook 2025")
    others = [ds.Setting("sample", "frame", neighbours="replace-one"), ds.Setting("population", neighbours="replace-one")]
    for setting in (*others, ds.Setting("frame", neighbours="add-remove")):
        with pytest.raises(NoGuarantee, match="one record replaced within its stratum"):
            planning.private_allocation(a_survey(setting=setting).plan(asked), "y")
    plan = a_survey().plan(asked, ds.count(by="h"))
    made = planning.private_allocation(plan, "y")
    assert "replaced within its public stratum" in str(made)
    # What the table says may be spent on the sample is what the statistic's own share may lose on the frame, and no more.
    share = plan.terms.guaranteed(plan.items[0].charge.epsilon(0.0), "laplace")
    assert share < 0.6
    for row in made.rows():
        assert row["epsilon"] == pytest.approx(share, rel=1e-9)
        rate = row["take"] / row["size"]
        assert math.log1p(rate * math.expm1(row["epsilon_in_sample"])) <= share * (1.0 + 1e-9)


def test_deviations_without_a_source_set_no_sample_sizes():
    with pytest.raises(BadValue, match="source"):
        planning.private_allocation(a_survey().plan(ds.mean("y", bounds=(0, 100), by="g", expect=BY_GROUP)), "y")


@pytest.mark.parametrize("clusters", [28, 3, 1000])
def test_a_cap_is_computed_at_the_rate_that_it_shows(clusters):
    for row in planning.caps(1.0, 0.05, clusters=clusters):
        assert row["rate"] >= 0.05 - 1e-12
        if row["kind"] == "units of a cluster":
            # One unit of a cluster is a simple random sample of clusters: the exact loss at the rate shown is the guarantee.
            alone = math.log1p(row["rate"] * math.expm1(row["epsilon_in_sample"]))
            assert alone <= 1.0 + 1e-9
    for wrong in ({"units of a cluster": [1.9]}, {"foo": [0.5]}):
        with pytest.raises(BadValue):
            planning.caps(1.0, 0.05, largest=wrong)


def test_designs_that_cannot_be_are_not_compared():
    plan = a_survey(ds.srs(n=200)).plan(ds.mean("y", bounds=(0, 100), expect=(50, 20)))
    for wrong in (
        {"sizes": ("emp", 0.01)},
        {"sizes": ("emp", 1e-300)},
        {"clusters": ("psu", 500, 2)},
        {"clusters": ("psu", 20, 900)},
    ):
        with pytest.raises(BadValue):
            planning.compare_designs(plan, **wrong)


def test_weights_that_have_nothing_to_do_with_values_do_not_make_a_sample_better():
    plan = a_survey(ds.srs(n=200)).plan(ds.mean("y", bounds=(0, 100), expect=(50, 20)))
    rows = {row["design"]: row["se_sampling"] for row in planning.compare_designs(plan, sizes=("emp", 0.1)) if row["of"] == "y"}
    for method in ("sampford", "systematic", "poisson"):
        assert rows[f"PPS by emp, {method}"] > rows["simple random"]


def test_a_condition_on_declared_categories_is_predicted_as_its_group_is():
    survey = a_survey(ds.poisson(0.05), ds.Setting("frame", neighbours="add-remove"))
    by = survey.plan(ds.mean("y", bounds=(0, 100), by="g", expect=BY_GROUP)).predictions[0]
    where = survey.plan(ds.mean("y", bounds=(0, 100), where={"g": "k"}, expect=BY_GROUP["k"])).predictions[0]
    assert where["se_sampling"] == pytest.approx(by["se_sampling"], rel=0.02)
    # A total of a part: others count as 0, so its variance is that of the masked values, N p(1 - p) E z^2.
    total = survey.plan(ds.total("y", bounds=(0, 100), where={"g": "k"}, expect=(40.0, 9.0))).predictions[0]
    share, mean, square = 0.05, 0.05 * 40.0, 0.05 * (40.0**2 + 9.0**2)
    assert share == REGIONS["k"] / N
    assert total["se_sampling"] == pytest.approx(math.sqrt(0.95 / 0.05 * N * (square - mean**2)), rel=0.02)


def test_the_bias_of_a_choice_counts_and_no_gain_is_made_of_it():
    gap = {0.25: 0.05, 0.499: 0.1, 0.5: 0.1001, 0.502: 0.9, 0.75: 0.95}
    frame = ds.Frame("not there.parquet", unit="id", size=10_001)
    survey = ds.Survey(frame, ds.srs(n=1001), TO_FRAME, budget=ds.Budget(0.1), ledger="not there.ledger")
    rows = planning.rates(survey.plan(ds.median("y", bounds=(0, 1), method="exponential", expect=gap)), at=[0.5, 0.95, 1.0])
    assert planning.best_rate(rows)["gain"] is False
    # Its root mean square error, a little above 0.40, not its spread of 0.23.
    assert 0.35 < next(row["se"] for row in rows if row["rate"] == 1.0 and row["of"]) < 0.45
    assert all(row["no_gain"] is None for row in rows)


def test_the_hint_says_whom_an_epsilon_would_do_for():
    plan = a_survey(ds.poisson(0.05), ds.Setting("frame", neighbours="add-remove"), epsilon=0.01)
    both = plan.plan(ds.proportion("z", "yes", by="h", expect=0.3), ds.count(by="h"))
    with pytest.raises(Refusal) as caught:
        both.aim({"z": 0.06})
    assert "for these alone" in str(caught.value)
    alone = plan.plan(ds.proportion("z", "yes", by="h", expect=0.3))
    with pytest.raises(Refusal) as caught:
        alone.aim({"z": 0.06})
    assert "for these alone" not in str(caught.value)


def test_margins_that_noise_alone_would_meet_and_things_of_the_wrong_kind_are_refused():
    plan = a_survey().plan(ds.proportion("z", "yes", expect=0.3))
    with pytest.raises(BadValue, match="by noise alone"):
        plan.aim({"z": 1e9})
    for wrong in (lambda: planning.expecting(plan, "r.json"), lambda: planning.by_epsilon(plan, at=["a"])):
        with pytest.raises(BadValue):
            wrong()
    with pytest.raises(BadValue, match=r"ds\.Fieldwork"):
        a_survey().plan(ds.proportion("z", "yes"), fieldwork="x")
    for shares in ([0.5, 0.5], [1.5], [0.0]):
        with pytest.raises(BadValue):
            plan.with_shares(shares)


def test_advice_speaks_of_the_rates_that_were_asked_for():
    rows = planning.rates(a_survey(ds.srs(n=500)).plan(ds.mean("y", bounds=(0, 100), expect=(50, 20))), at=[0.01, 0.1])
    assert planning.best_rate(rows)["advice"].startswith("draw as many as you can: at rate 0.1")
