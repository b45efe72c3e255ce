"""Numbers that no design has are refused where they are given, with the name of the argument."""

import math

import pytest
from dpsurvey.design.selection import (
    AllocationTable,
    CappedClusters,
    Clusters,
    ConfidentialAllocation,
    Covered,
    Covering,
    FurtherStages,
    Group,
    Independent,
    PpsCluster,
    Proportional,
    RandomSize,
    Responding,
    Selection,
    Systematic,
    TwoStage,
    UnequalProbabilities,
    WithoutReplacement,
    WithReplacement,
    selection_from,
)

import dpsurvey as ds
from dpsurvey.design.amplify import amplify, amplify_profile, invert
from dpsurvey.design.base import Design
from dpsurvey.errors import BadValue
from dpsurvey.privacy.profile import PrivacyProfile

NAN, INF = math.nan, math.inf
POISSON = Independent((0.5,))
# Whole numbers of at least 1: (what builds it, the word that the message must hold).
COUNTS = {
    "srs n": (lambda x: WithoutReplacement(x, 10), "n must"),
    "srs population": (lambda x: WithoutReplacement(1, x), "population"),
    "with replacement n": (lambda x: WithReplacement(x, 10), "n must"),
    "with replacement population": (lambda x: WithReplacement(1, x), "population"),
    "stratified population": (lambda x: Proportional(0.5, "random", x), "population"),
    "random size population": (lambda x: RandomSize(x, "binomial", (0.5,)), "population"),
    "cluster sizes": (lambda x: Clusters((2, x), 1), "size"),
    "cluster sizes, all the same": (lambda x: Clusters((x, x), 1), "size"),
    "cluster take": (lambda x: Clusters((2, 3), x), "take"),
    "cluster unit": (lambda x: Clusters((2, 3), 1, x), "unit"),
    "cap": (lambda x: CappedClusters(x, 5, 2), "cap"),
    "cap clusters": (lambda x: CappedClusters(5, x, 1), "clusters"),
    "cap take": (lambda x: CappedClusters(5, 5, x), "take"),
    "two-stage sizes": (lambda x: TwoStage((2, x), 1, unit_rate=0.5), "size"),
    "two-stage take": (lambda x: TwoStage((2, 3), x, unit_rate=0.5), "take"),
    "two-stage unit take": (lambda x: TwoStage((2, 3), 1, unit_take=x), "unit-take"),
    "two-stage unit": (lambda x: TwoStage((2, 3), 1, unit_rate=0.5, unit_in=x), "unit"),
    "pps cluster sizes": (lambda x: PpsCluster((2, x)), "size"),
    "pps cluster take": (lambda x: PpsCluster((2, 3), None, x), "take"),
    "pps cluster unit": (lambda x: PpsCluster((2, 3), x), "unit"),
    "systematic step": (lambda x: Systematic(x, 5, "random"), "step"),
    "systematic n": (lambda x: Systematic(5, x, "random"), "n must"),
    "group units": (lambda x: Group(POISSON, x), "units"),
    "confidential total": (ConfidentialAllocation, "total"),
    "stages": (lambda x: FurtherStages(x, "srs", "poisson", 0.5), "stages"),
}
# What may be left out is None, which stands for every population, or the worst unit.
OPTIONAL = {"stratified population", "cluster unit", "two-stage unit", "pps cluster unit", "two-stage unit take"}
RATES = {
    "poisson": (lambda x: Independent((0.5, x)), "probabilities"),
    "pps": (lambda x: UnequalProbabilities((x, 0.5), "public", "poisson"), "probabilities"),
    "stratified": (lambda x: Proportional(x, "random"), "rate"),
    "binomial size": (lambda x: RandomSize(5, "binomial", (x,)), "binomial"),
    "two-stage": (lambda x: TwoStage((2, 3), 1, unit_rate=x), "unit-rate"),
    "response": (lambda x: Responding(POISSON, x), "response"),
    "coverage": (lambda x: Covered(POISSON, x), "coverage"),
    "stages": (lambda x: FurtherStages(3, "srs", "poisson", x), "unit-rate"),
    "covering": (lambda x: Covering(x, "sampford"), "rate"),
}


NOT_COUNTS = [0, -1, 1.5, 2.0, NAN, INF, -INF, True, False, "3", None]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in COUNTS for value in NOT_COUNTS if value is not None or name not in OPTIONAL]
)
def test_a_size_that_is_not_a_positive_whole_number_is_refused_by_name(name, value):
    build, word = COUNTS[name]
    with pytest.raises(BadValue, match=word):
        build(value)


@pytest.mark.parametrize("value", [0.0, 0, -0.1, 1.0000001, 2, NAN, INF, -INF, True, False, "0.5", None], ids=repr)
@pytest.mark.parametrize("name", [name for name in RATES if name != "two-stage"])
def test_a_rate_outside_its_range_is_refused_by_name(name, value):
    build, word = RATES[name]
    with pytest.raises(BadValue, match=word):
        build(value)


@pytest.mark.parametrize("value", [0.0, 0, -0.1, 1.0000001, NAN, INF, True, False, "0.5"], ids=repr)
def test_a_rate_inside_clusters_outside_its_range_is_refused_by_name(value):
    build, word = RATES["two-stage"]
    with pytest.raises(BadValue, match=word):
        build(value)


TOO_MANY = {
    "srs": (lambda: WithoutReplacement(11, 10), "n must"),
    "clusters": (lambda: Clusters((2, 3), 3), "take"),
    "capped clusters": (lambda: CappedClusters(5, 2, 3), "take"),
    "two-stage clusters": (lambda: TwoStage((2, 3), 3, unit_rate=0.5), "take"),
    "two-stage units": (lambda: TwoStage((2, 3), 1, unit_take=3), "unit-take"),
    "pps clusters": (lambda: PpsCluster((2, 3), None, 3), "take"),
    "unit of a cluster": (lambda: Clusters((2, 3), 1, 3), "unit"),
    "sample size": (lambda: RandomSize.table(4, {5: 1.0}), "size"),
    "allocation": (lambda: AllocationTable(((3, 4, 1.0), (4, 4, 1.0))), "sample"),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_more_than_there_is_cannot_be_drawn(name):
    build, word = TOO_MANY[name]
    with pytest.raises(BadValue, match=word):
        build()


NONSENSE = {
    "no cluster": (lambda: Clusters((), 1), "sizes"),
    "no cluster in two stages": (lambda: TwoStage((), 1, unit_rate=0.5), "sizes"),
    "no cluster in proportion to size": (lambda: PpsCluster(()), "sizes"),
    "no unit": (lambda: Independent(()), "probabilities"),
    "a number for probabilities": (lambda: Independent(0.1), "tuple"),
    "no unit with a size": (lambda: UnequalProbabilities((), "public", "sampford"), "probabilities"),
    "rate and take": (lambda: TwoStage((2, 3), 1, unit_rate=0.5, unit_take=1), "unit-rate or unit-take"),
    "neither rate nor take": (lambda: TwoStage((2, 3), 1), "unit-rate or unit-take"),
    "rounding": (lambda: Proportional(0.5, "up"), "rounding"),
    "order": (lambda: Systematic(3, 4, "sorted"), "order"),
    "method": (lambda: UnequalProbabilities((0.5, 0.5), "public", "brewer"), "method"),
    "measure": (lambda: UnequalProbabilities((0.5, 0.5), "secret", "sampford"), "measure"),
    "law": (lambda: RandomSize(5, "poisson", (2,)), "law"),
    "law of no size": (lambda: RandomSize.table(4, {0: 1.0}), "empty"),
    "law that sums to less": (lambda: RandomSize.table(4, {1: 0.5, 2: 0.4}), "sum to 1"),
    "law with a negative part": (lambda: RandomSize.table(4, {1: 1.5, 2: -0.5}), "probability"),
    "law with NaN": (lambda: RandomSize.table(4, {1: NAN, 2: 0.5}), "probability"),
    "gaussian without spread": (lambda: RandomSize(5, "gaussian", (2.0, 0.0)), "standard deviation"),
    "gaussian with NaN": (lambda: RandomSize(5, "gaussian", (NAN, 1.0)), "finite mean"),
    "allocation of one size": (lambda: AllocationTable(((3, 1, 1.0),)), "differ by one"),
    "allocation that sums to less": (lambda: AllocationTable(((3, 1, 0.9), (4, 1, 1.0))), "sum to 1"),
    "allocation with NaN": (lambda: AllocationTable(((3, 1, NAN), (4, 1, 1.0))), "probability"),
    "group": (lambda: Group(POISSON, 2, "apart"), "draw"),
    "group together": (lambda: Group(WithoutReplacement(1, 5), 2, "together"), "together"),
    "coverage twice": (lambda: Covered(Covered(POISSON, 0.5), 0.5), "once"),
    "stage": (lambda: FurtherStages(3, "srs", "cluster", 0.5), "stage"),
    "kind": (lambda: selection_from({"kind": "convenience"}), "kind"),
    "no kind": (lambda: selection_from({}), "kind"),
    "unknown key": (lambda: selection_from({"kind": "srs", "n": 1, "size": 5}), "size"),
    "missing key": (lambda: selection_from({"kind": "srs", "n": 1}), "population"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_is_no_design_is_refused_in_words_about_it(name):
    build, word = NONSENSE[name]
    with pytest.raises(BadValue, match=word):
        build()


@pytest.mark.parametrize("method", ["conditional-poisson", "sampford", "pivotal", "pareto", "systematic"])
@pytest.mark.parametrize("probabilities", [(0.5, 0.4), (0.3,), (0.9, 0.9, 0.9)])
def test_probabilities_of_a_fixed_size_must_sum_to_a_whole_number(method, probabilities):
    with pytest.raises(BadValue, match="whole number"):
        UnequalProbabilities(probabilities, "public", method)
    assert UnequalProbabilities(probabilities, "public", "poisson").total == pytest.approx(math.fsum(probabilities))


ASK = {"amplify": amplify, "invert": invert}


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("epsilon", [0.0, -1.0, NAN, INF, -INF, 1e9, True, "1", None], ids=repr)
def test_an_epsilon_that_is_not_positive_and_finite_is_refused(ask, epsilon):
    with pytest.raises(BadValue, match="epsilon"):
        ASK[ask](POISSON, epsilon, base="add-remove", neighbours="add-remove")


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, NAN, INF, True, "0", None], ids=repr)
def test_a_delta_outside_its_range_is_refused(ask, delta):
    with pytest.raises(BadValue, match="delta"):
        ASK[ask](POISSON, 1.0, delta=delta, base="add-remove", neighbours="add-remove")


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("word", ["", "deletion", "add_remove", "Both", None], ids=repr)
def test_a_word_that_is_no_relation_is_refused(ask, word):
    with pytest.raises(BadValue, match="relation"):
        ASK[ask](POISSON, 1.0, base=word, neighbours="add-remove")
    with pytest.raises(BadValue, match="relation"):
        ASK[ask](POISSON, 1.0, base="both", neighbours=word)


@pytest.mark.parametrize("ask", ASK)
def test_a_guarantee_is_made_under_one_relation(ask):
    with pytest.raises(BadValue, match="relation"):
        ASK[ask](POISSON, 1.0, base="both", neighbours="both")


def test_a_target_delta_beyond_the_rate_is_refused_where_any_mechanism_would_do():
    with pytest.raises(BadValue, match="delta"):
        invert(WithoutReplacement(1, 100), 1.0, delta=0.02, base="replace-one", neighbours="replace-one")


def test_every_kind_of_selection_refuses_something_above():
    built = {type(build(2)) for build, _ in COUNTS.values()} | {type(build(0.5)) for build, _ in RATES.values()}
    missing = {kind for kind, each in Selection.kinds.items() if each not in built}
    # A collected file has no numbers; an allocation is refused by its table, strata by what they are made of.
    assert missing == {"collected", "allocation", "each-stratum"}


@pytest.mark.parametrize("answer", [amplify, invert])
@pytest.mark.parametrize("given", [ds.poisson(0.1), ds.stratified("region", within=ds.srs(n=3)), "poisson", None], ids=repr)
def test_what_is_no_selection_is_named_with_what_to_give_instead(answer, given):
    with pytest.raises(BadValue, match="amplify takes a selection") as refused:
        answer(given, 1.0, base="add-remove", neighbours="add-remove")
    assert "Independent((0.1,))" in refused.value.hint
    assert ("a Survey" in refused.value.hint) == isinstance(given, Design)


def test_a_whole_curve_is_of_a_selection():
    with pytest.raises(BadValue, match="not a design that draws"):
        amplify_profile(ds.poisson(0.1), PrivacyProfile.pure(1.0, "add-remove"), neighbours="add-remove")
