"""Numbers that no design has are refused where they are given, with the name of the argument."""

import math

import pytest

import dpsurvey as ds
from dpsurvey.design import design_from_dict
from dpsurvey.design.amplify import amplify, amplify_profile, invert
from dpsurvey.errors import BadValue
from dpsurvey.privacy.profile import PrivacyProfile
from tests.contracts.test_contracts import EXAMPLES

pytestmark = pytest.mark.quick

NAN, INF = math.nan, math.inf
POISSON = ds.poisson(0.5)
# Whole numbers of at least 1: (what builds it, the word that the message must hold).
COUNTS = {
    "srs n": (lambda x: ds.srs(n=x, size=10), r"\bn\b"),
    "srs size": (lambda x: ds.srs(n=1, size=x), "size must"),
    "with replacement n": (lambda x: ds.with_replacement(x, size=10), "n must"),
    "with replacement size": (lambda x: ds.with_replacement(1, size=x), "size must"),
    "proportional size": (lambda x: ds.proportional(0.5, rounding="random", size=x), "size must"),
    "random size": (lambda x: ds.random_size(x, binomial=0.5), "size must"),
    "cluster sizes": (lambda x: ds.cluster("cluster", ds.srs(n=1), sizes=(2, x)), "size"),
    "cluster sizes, all the same": (lambda x: ds.cluster("cluster", ds.srs(n=1), sizes=(x, x)), "size"),
    "cluster n": (lambda x: ds.cluster("cluster", ds.srs(n=x), sizes=(2, 3)), r"\bn\b"),
    "cluster unit": (lambda x: ds.cluster("cluster", ds.srs(n=1), sizes=(2, 3), unit_in=x), "unit"),
    "cap": (lambda x: ds.cluster("cluster", ds.srs(n=2), clusters=5, cap=x), "cap"),
    "cap clusters": (lambda x: ds.cluster("cluster", ds.srs(n=1), clusters=x, cap=5), "clusters"),
    "cap n": (lambda x: ds.cluster("cluster", ds.srs(n=x), clusters=5, cap=5), r"\bn\b"),
    "two-stage sizes": (lambda x: ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(2, x)), ds.poisson(0.5)), "size"),
    "two-stage n": (lambda x: ds.stages(ds.cluster("cluster", ds.srs(n=x), sizes=(2, 3)), ds.poisson(0.5)), r"\bn\b"),
    "two-stage n of units": (lambda x: ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(2, 3)), ds.srs(n=x)), r"\bn\b"),
    "two-stage unit": (lambda x: ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(2, 3), unit_in=x), ds.poisson(0.5)), "unit"),
    "pps cluster sizes": (lambda x: ds.cluster("cluster", ds.pps("size", n=1), sizes=(2, x)), "size"),
    "pps cluster n": (lambda x: ds.cluster("cluster", ds.pps("size", n=x), sizes=(2, 3), unit_in=None), r"\bn\b"),
    "pps cluster unit": (lambda x: ds.cluster("cluster", ds.pps("size", n=1), sizes=(2, 3), unit_in=x), "unit"),
    "systematic step": (lambda x: ds.systematic(step=x, size=10, order="random"), "step"),
    "systematic n": (lambda x: ds.systematic(n=x, size=10, order="random"), r"\bn\b"),
    "systematic size": (lambda x: ds.systematic(n=1, size=x, order="random"), "size must"),
    "group units": (lambda x: ds.group(POISSON, x), "units"),
    "confidential total": (ds.confidential_allocation, "total"),
}
# What may be left out is None, which stands for every population, or the worst unit.
OPTIONAL = {"srs size", "with replacement size", "proportional size", "systematic size"}
OPTIONAL |= {"cluster unit", "two-stage unit", "pps cluster unit", "cap", "cap clusters"}
RATES = {
    "poisson": (ds.poisson, "rate"),
    "poisson by": (lambda x: ds.poisson_by("rate", probabilities=(0.5, x)), "probabilities"),
    "poisson by, at most": (lambda x: ds.poisson_by("rate", at_most=x), "at_most"),
    "pps": (lambda x: ds.pps("size", probabilities=(x, 0.5), measure="public", method="poisson"), "probabilities"),
    "proportional": (lambda x: ds.proportional(x, rounding="random"), "rate"),
    "binomial size": (lambda x: ds.random_size(5, binomial=x), "binomial"),
    "two-stage": (lambda x: ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(2, 3)), ds.poisson(x)), "rate"),
    "respondents": (lambda x: ds.respondents(x, "add-remove"), "at_most"),
    "response": (lambda x: ds.responding(POISSON, at_most=x), "response"),
    "coverage": (lambda x: ds.covered(POISSON, at_most=x), "coverage"),
    "stages": (
        lambda x: ds.stages(ds.cluster("psu", ds.srs(n=1)), ds.cluster("ssu", ds.srs(n=1)), ds.poisson(0.1), at_most=x),
        "at_most",
    ),
    "covering": (lambda x: ds.pps("size", n=1, method="sampford", at_most=x), "at_most"),
}
# What may be left out: every probability of the last stage is then possible, or of every unit.
BOUNDS = {"stages", "covering"}


NOT_COUNTS = [0, -1, 1.5, 2.0, NAN, INF, -INF, True, False, "3", None]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in COUNTS for value in NOT_COUNTS if value is not None or name not in OPTIONAL]
)
def test_a_size_that_is_not_a_positive_whole_number_is_refused_by_name(name, value):
    build, word = COUNTS[name]
    with pytest.raises(BadValue, match=word):
        build(value)


NOT_RATES = [0.0, 0, -0.1, 1.0000001, 2, NAN, INF, -INF, True, False, "0.5", None]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, id=f"{name}-{value!r}")
        for name in RATES
        for value in NOT_RATES
        if value is not None or name not in BOUNDS
    ],
)
def test_a_rate_outside_its_range_is_refused_by_name(name, value):
    build, word = RATES[name]
    with pytest.raises(BadValue, match=word):
        build(value)


TOO_MANY = {
    "srs": (lambda: ds.srs(n=11, size=10), "more units than there are"),
    "clusters": (lambda: ds.cluster("cluster", ds.srs(n=3), sizes=(2, 3)), "take"),
    "capped clusters": (lambda: ds.cluster("cluster", ds.srs(n=3), clusters=2, cap=5), "take"),
    "two-stage clusters": (lambda: ds.stages(ds.cluster("cluster", ds.srs(n=3), sizes=(2, 3)), ds.poisson(0.5)), "take"),
    "two-stage units": (lambda: ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=(2, 3)), ds.srs(n=3)), "unit-take"),
    "pps clusters": (lambda: ds.cluster("cluster", ds.pps("size", n=3), sizes=(2, 3), unit_in=None), "take"),
    "unit of a cluster": (lambda: ds.cluster("cluster", ds.srs(n=1), sizes=(2, 3), unit_in=3), "unit"),
    "sample size": (lambda: ds.random_size(4, table={5: 1.0}), "size"),
    "allocation": (lambda: ds.size_rule(((3, 4, 1.0), (4, 4, 1.0))), "sample"),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_more_than_there_is_cannot_be_drawn(name):
    build, word = TOO_MANY[name]
    with pytest.raises(BadValue, match=word):
        build()


NONSENSE = {
    "no cluster": (lambda: ds.cluster("cluster", ds.srs(n=1), sizes=()), "sizes"),
    "no cluster in two stages": (lambda: ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=()), ds.poisson(0.5)), "sizes"),
    "no cluster in proportion to size": (lambda: ds.cluster("cluster", ds.pps("size", n=1), sizes=()), "sizes"),
    "no unit": (lambda: ds.poisson_by("rate", probabilities=()), "probabilities"),
    "a number for probabilities": (lambda: ds.poisson_by("rate", probabilities=0.1), "tuple"),
    "no unit with a size": (lambda: ds.pps("size", probabilities=(), measure="public", method="sampford"), "probabilities"),
    "rounding": (lambda: ds.proportional(0.5, rounding="up"), "rounding"),  # type: ignore[call-overload]
    "order": (lambda: ds.systematic(step=3, size=12, order=3), "order"),
    "method": (lambda: ds.pps("size", probabilities=(0.5, 0.5), measure="public", method="brewer"), "method"),
    "measure": (lambda: ds.pps("size", probabilities=(0.5, 0.5), measure="secret", method="sampford"), "measure"),
    "no law": (lambda: ds.random_size(5), "law"),
    "law of no size": (lambda: ds.random_size(4, table={0: 1.0}), "empty"),
    "law that sums to less": (lambda: ds.random_size(4, table={1: 0.5, 2: 0.4}), "sum to 1"),
    "law with a negative part": (lambda: ds.random_size(4, table={1: 1.5, 2: -0.5}), "probability"),
    "law with NaN": (lambda: ds.random_size(4, table={1: NAN, 2: 0.5}), "probability"),
    "gaussian without spread": (lambda: ds.random_size(5, gaussian=(2.0, 0.0)), "standard deviation"),
    "gaussian with NaN": (lambda: ds.random_size(5, gaussian=(NAN, 1.0)), "finite mean"),
    "allocation of one size": (lambda: ds.size_rule(((3, 1, 1.0),)), "differ by one"),
    "allocation that sums to less": (lambda: ds.size_rule(((3, 1, 0.9), (4, 1, 1.0))), "sum to 1"),
    "allocation with NaN": (lambda: ds.size_rule(((3, 1, NAN), (4, 1, 1.0))), "probability"),
    "group": (lambda: ds.group(POISSON, 2, drawn="apart"), "draw"),
    "group together": (lambda: ds.group(ds.srs(n=1, size=5), 2, drawn="together"), "together"),
    "coverage twice": (lambda: ds.covered(ds.covered(POISSON, at_most=0.5), at_most=0.5), "once"),
    "stage": (lambda: ds.stages(ds.poisson(0.1), ds.poisson(0.5)), "stage"),
    "kind": (lambda: design_from_dict({"kind": "convenience"}), "kind"),
    "no kind": (lambda: design_from_dict({}), "kind"),
    "unknown key": (lambda: design_from_dict({"kind": "srs", "n": 1, "population": 5}), "population"),
    "missing key": (lambda: design_from_dict({"kind": "poisson"}), "rate"),
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
        ds.pps("size", probabilities=probabilities, measure="public", method=method)
    assert ds.pps("size", probabilities=probabilities, measure="public", method="poisson").total == pytest.approx(  # type: ignore[attr-defined]
        math.fsum(probabilities)
    )


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
        invert(ds.srs(n=1, size=100), 1.0, delta=0.02, base="replace-one", neighbours="replace-one")


@pytest.mark.parametrize("value", [-1, NAN, INF, True, "3"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, id=f"{kind}-{name}")
        for kind, example in EXAMPLES.items()
        for name, figure in example.to_dict().items()
        if type(figure) in (int, float)
    ],
)
def test_every_design_refuses_figures_in_its_example_that_are_none(kind, name, value):
    with pytest.raises(BadValue):
        design_from_dict(EXAMPLES[kind].to_dict() | {name: value})


@pytest.mark.parametrize("answer", [amplify, invert])
@pytest.mark.parametrize("given", ["poisson", None, 0.1, ds.poisson], ids=["word", "nothing", "rate", "function"])
def test_what_is_no_design_is_named_with_what_to_give_instead(answer, given):
    with pytest.raises(BadValue, match="amplify takes a design") as refused:
        answer(given, 1.0, base="add-remove", neighbours="add-remove")
    assert "poisson(0.1)" in refused.value.hint


def test_a_whole_curve_is_of_a_design():
    with pytest.raises(BadValue, match="amplify takes a design"):
        amplify_profile("poisson", PrivacyProfile.pure(1.0, "add-remove"), neighbours="add-remove")
