"""The same design with a larger or a smaller sample: units scale, all of them is the end, and it is read back as it was."""

import math

import pytest

import dpsurvey as ds
from dpsurvey.design import design_from_dict
from dpsurvey.design.parts import Part, common_factor, largest_factor
from dpsurvey.errors import BadValue
from dpsurvey.statistic.predict.population import units_drawn

pytestmark = pytest.mark.quick

REGIONS = {"north": 1200, "south": 600, "island": 200}
SIZE = sum(REGIONS.values())
FRAME = ds.Frame(
    "not there.parquet", unit="id", size=SIZE, categories={"region": REGIONS}, public=["psu", "employees", "rate", "street"]
)
CLUSTERS = ds.cluster("psu", ds.srs(n=100), clusters=200, cap=10)
# Designs whose weights are known from the declarations alone.
EQUAL = {
    "srs of n": ds.srs(n=400),
    "srs of a rate": ds.srs(rate=0.2),
    "Poisson": ds.poisson(0.2),
    "proportional, randomised rounding": ds.proportional(0.2),
    "proportional, nearest rounding": ds.proportional(0.2, rounding="nearest"),
    "systematic of n": ds.systematic(n=400),
    "systematic of a rate": ds.systematic(rate=0.2),
    "systematic, as listed": ds.systematic(n=400, order="as listed"),
    "systematic of a rate, sorted": ds.systematic(rate=0.2, order=["street"]),
    "clusters": ds.cluster("psu", ds.srs(n=40), clusters=200, cap=10),
    "Poisson clusters": ds.cluster("psu", ds.poisson(0.2), clusters=200, cap=10),
    "stages, Poisson inside": ds.stages(CLUSTERS, ds.poisson(0.4)),
    "strata, srs of one rate": ds.stratified("region", within=ds.srs(rate=0.2)),
    "strata, Poisson of one rate": ds.stratified("region", within=ds.poisson(0.2)),
    "strata, srs": ds.stratified("region", within={"north": ds.srs(n=180), "south": ds.srs(n=180), "island": ds.srs(n=100)}),
    "strata, Poisson": ds.stratified(
        "region", within={"north": ds.poisson(0.1), "south": ds.poisson(0.3), "island": ds.poisson(0.5)}
    ),
    "mixed strata": ds.stratified(
        "region", within={"north": ds.srs(n=180), "south": ds.poisson(0.3), "island": ds.systematic(n=50)}
    ),
    "strata, clusters inside": ds.stratified("region", within=ds.cluster("psu", ds.srs(n=10), clusters=60, cap=20)),
    "strata, systematic inside": ds.stratified("region", within=ds.systematic(rate=0.2)),
    "strata, proportional inside": ds.stratified("region", within=ds.proportional(0.2)),
}
# Designs whose units have weights of their own, within a declared range.
OWN_WEIGHTS = {
    "Poisson by a column": ds.poisson_by("rate", at_most=0.4),
    "PPS": ds.pps("employees", n=400, at_most=0.5),
    "PPS, Poisson": ds.pps("employees", n=400, method="poisson", at_most=0.5),
    "PPS without a bound": ds.pps("employees", n=400),
    "clusters of unknown number": ds.cluster("psu", ds.srs(n=40)),
    "PPS clusters": ds.cluster("psu", ds.pps("employees", n=40), clusters=200),
    "stages, srs inside": ds.stages(CLUSTERS, ds.srs(n=4)),
    "strata, PPS inside": ds.stratified("region", within=ds.pps("employees", n=50, at_most=0.5)),
}
# Draws with replacement have no end.
ENDLESS = {
    "with replacement": ds.with_replacement(400),
    "strata, with replacement inside": ds.stratified("region", within=ds.with_replacement(50)),
}
ALL = EQUAL | OWN_WEIGHTS | ENDLESS


def a_plan(name, **more):
    weights = (2.0, 12.0) if name in OWN_WEIGHTS else None
    survey = ds.Survey(FRAME, ALL[name], budget=ds.Budget(1.0), ledger="no.ledger", weight_range=weights)
    return survey.plan(ds.mean("income", bounds=(0, 100), expect=(40, 20)), **more)


def sampling_error(plan):
    return plan.predictions[0]["se_sampling"]


@pytest.mark.parametrize("name", ALL)
def test_a_sample_half_or_twice_as_large_has_half_or_twice_the_units_and_its_design_reads_back(name):
    plan = a_plan(name)
    now = units_drawn(plan.facts)
    for factor in (0.5, 1.0, 2.0):
        there = plan.resized(factor)
        assert units_drawn(there.facts) == pytest.approx(factor * now, rel=1e-9)
        read = design_from_dict(there.terms.design.to_dict()).resolve(FRAME)
        assert read.to_dict() == there.terms.design.to_dict()
    assert plan.resized(1.0).terms.design.to_dict()["kind"] == plan.terms.design.to_dict()["kind"]
    assert sampling_error(plan.resized(0.5)) > 1.3 * sampling_error(plan) > 1.5 * sampling_error(plan.resized(2.0))


@pytest.mark.parametrize("name", EQUAL)
def test_no_design_draws_more_than_the_frame_and_its_largest_factor_draws_all_of_it(name):
    plan = a_plan(name)
    most = plan.terms.design.most
    assert most * units_drawn(plan.facts) == pytest.approx(SIZE, rel=1e-9)
    for factor in (most, 100.0 * most):
        everyone = plan.resized(factor)
        assert units_drawn(everyone.facts) == pytest.approx(SIZE, rel=1e-9)
        assert sampling_error(everyone) == pytest.approx(0.0, abs=1e-6)
    nearly = plan.resized(0.8 * most)
    assert units_drawn(nearly.facts) == pytest.approx(0.8 * SIZE, rel=2e-3), "rates that end at 1 leave room for the others"


@pytest.mark.parametrize("name", OWN_WEIGHTS)
def test_weights_of_units_shrink_with_a_larger_sample_and_end_at_one(name):
    plan = a_plan(name)
    assert plan.resized(0.5).terms.weight_range == (4.0, 24.0)
    assert plan.resized(4.0).terms.weight_range == (1.0, 3.0)
    assert plan.resized(1000.0).terms.weight_range == (1.0, 1.0)
    assert units_drawn(plan.resized(1000.0).facts) <= SIZE


@pytest.mark.parametrize("name", ENDLESS)
def test_draws_with_replacement_have_no_end_and_keep_their_sampling_error(name):
    plan = a_plan(name)
    assert plan.terms.design.most == math.inf
    now = units_drawn(plan.facts)
    for factor in (10.0, 100.0):
        assert units_drawn(plan.resized(factor).facts) == pytest.approx(factor * now, rel=1e-9)
    assert sampling_error(plan.resized(100.0)) == pytest.approx(0.1 * sampling_error(plan), rel=1e-3)


def test_at_least_one_unit_is_drawn_however_small_the_factor():
    for name in ("srs of n", "systematic of n", "with replacement", "clusters"):
        assert units_drawn(a_plan(name).resized(1e-9).facts) >= 1.0


def test_strata_grow_by_one_factor_until_one_is_full():
    # 100, 100 and 50 of 1200, 600 and 200: at 3.8 times as many the island has all of its 200, and the others more than 3.8.
    within = {"north": ds.srs(n=100), "south": ds.srs(n=100), "island": ds.srs(n=50)}
    design = ds.stratified("region", within=within).resolve(FRAME)
    takes = {part.label: part.take for part in design.resized(3.0).resolve(FRAME).parts()}
    assert takes == {"north": 300, "south": 300, "island": 150}
    takes = {part.label: part.take for part in design.resized(5.0).resolve(FRAME).parts()}
    assert takes == {"north": 525, "south": 525, "island": 200}


def test_the_common_factor_counts_only_what_can_be_drawn():
    parts = (Part("a", 0.1, size=100), Part("b", 0.5, size=100))
    for factor in (0.25, 1.0, 1.9, 2.5, 3.2):
        common = common_factor(parts, factor)
        assert sum(100 * min(1.0, common * part.probability) for part in parts) == pytest.approx(factor * 60, rel=1e-12)
    assert largest_factor(parts) == pytest.approx(200 / 60)
    replaced = (Part("a", 0.1, size=100, replaced=True), Part("b", 0.5, size=100))
    common = common_factor(replaced, 20.0)
    assert 100 * 0.1 * common + 100 == pytest.approx(20.0 * 60, rel=1e-12), (
        "the part with replacement takes what the other cannot"
    )


def test_a_collected_file_has_no_other_size():
    budget, ledger = ds.Budget(1.0), "no.ledger"
    survey = ds.Survey.collected(
        "no.parquet", weights="w", weights_are="design", weight_range=(10, 80), n=500, budget=budget, ledger=ledger
    )
    with pytest.raises(BadValue, match="no sampling rate"):
        survey.plan(ds.mean("income", bounds=(0, 100))).resized(2.0)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf, "2", None])
def test_a_factor_that_is_no_positive_number_is_refused(factor):
    with pytest.raises(BadValue, match="positive factor"):
        a_plan("srs of n").resized(factor)


def test_a_plan_of_another_size_or_epsilon_releases_nothing():
    plan = a_plan("srs of n")
    for there in (plan.resized(2.0), plan.at_epsilon(2.0)):
        with pytest.raises(BadValue, match="belongs to no survey"):
            there.release()
    assert plan.at_epsilon(2.0).terms.budget == ds.Budget(2.0)
    assert plan.with_shares([0.5])._release is not None
