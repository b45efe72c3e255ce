"""What sampling earns in a survey is what `amplify` proves of its design, no more and no less; and it is what is printed.

Frames of a few units: all samples of neighbouring frames are written out, with who responds and who is on the frame at all,
and the loss over all mechanisms of the base relation is a linear programme. Where a figure is said to be exact a smaller one
would be found out. What is released of such frames goes through the engine.
"""

import itertools
import json
import math
from pathlib import Path

import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.design import Amplified
from dpsurvey.design.recipe import EachBy
from dpsurvey.errors import BadData, BadValue, NoGuarantee
from dpsurvey.ledger.terms import Terms
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.text.layout import ceiling_text
from dpsurvey.view import report_page
from tests.truth import drawn_laws as laws
from tests.truth import enumerated as en
from tests.truth import released

FOUR, FIVE, PAIRS, unit = laws.FOUR, laws.FIVE, laws.PAIRS, laws.unit
ADD, REPLACE = "add-remove", "replace-one"
POPULATION = {each: ds.Setting("population", neighbours=each) for each in (ADD, REPLACE)}
FRAME = {each: ds.Setting("frame", neighbours=each) for each in (ADD, REPLACE)}
SAMPLE = {each: ds.Setting("sample", given="frame", neighbours=each) for each in (ADD, REPLACE)}
EPSILONS = (0.3, 1.0, 2.5)
SLACK = 1e-6


def frame_of(units, *, sizes=True, at_least=None):
    counted = {label: sum(each["region"] == label for each in units) for label in sorted({each["region"] for each in units})}
    return ds.Frame(
        "register.parquet",
        unit="id",
        size=len(units),
        categories={"region": counted if sizes else list(counted), "works": ["yes", "no"]},
        public=released.PUBLIC,
        size_at_least=at_least,
    )


def terms_of(design, units, setting, **declared):
    frame = frame_of(units, **declared)
    return Terms("survey", frame, design.resolve(frame), setting, ds.Budget(100.0))


def printed(terms, epsilon):
    return terms.design.protected(PrivacyProfile.pure(epsilon, terms.relation), terms.setting).epsilon(0.0)


# Neighbours, with everything that happens between the protected data and the mechanism


def sampled(design):
    """The law of the sample from some units."""
    recipe = design.recipe()
    return lambda units: {frozenset(sample): p for sample, p in laws.law_of(recipe, units).items()}


def responded(law, p):
    return en.thinned(law, dict.fromkeys("abcdexy", p))


def on_frame(units, p):
    """Every frame that coverage may leave, with its chance."""
    for kept in itertools.product((True, False), repeat=len(units)):
        yield math.prod(p if k else 1.0 - p for k in kept), tuple(u for u, k in zip(units, kept, strict=True) if k)


def changed(units, neighbours):
    """Pairs of populations: each unit without it, or in other hands; and one more like it."""
    for each in units:
        rest = tuple(u for u in units if u is not each)
        with_target = (*rest, {**each, "id": "x"})
        if neighbours == REPLACE:
            yield with_target, (*rest, {**each, "id": "y"})
        else:
            yield with_target, rest
            yield (*units, {**each, "id": "x"}), units


def worst(draw, units, neighbours, base, epsilon, allowed=lambda units: True):
    pairs = [pair for pair in changed(units, neighbours) if allowed(pair[0]) and allowed(pair[1])]
    assert pairs
    return max(en.worst_loss(draw(one), draw(two), epsilon, base) for one, two in pairs)


# A lower bound on the size of the frame


BY_REGION = {"region": {"n": 1, "s": 2}}
LOWER_BOUNDS = {
    "srs, one of five": (ds.srs(n=1), FIVE, 4),
    "srs, two of five": (ds.srs(n=2), FIVE, 3),
    "srs by rate": (ds.srs(rate=0.4), FIVE, 4),
    "all but one": (ds.srs(n=3), FOUR, 3),
    "strata": (ds.stratified("region", within=ds.srs(n=1)), FIVE, BY_REGION),
    "strata of their own": (ds.stratified("region", within={"n": ds.srs(n=1), "s": ds.srs(n=2)}), FIVE, BY_REGION),
    "by categories, without strata": (ds.srs(n=2), FIVE, BY_REGION),
}


def possible(units, at_least):
    """Whether a frame has as many units as no possible frame is below."""
    if isinstance(at_least, int):
        return len(units) >= at_least
    return all(sum(each["region"] == label for each in units) >= count for label, count in at_least["region"].items())


def smallest_units(units, at_least):
    """The smallest possible frame, where the loss is largest."""
    if isinstance(at_least, int):
        return units[:at_least]
    return tuple(u for label, n in at_least["region"].items() for u in [u for u in units if u["region"] == label][:n])


@pytest.mark.parametrize("name", LOWER_BOUNDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_public_lower_bound_on_the_size_of_the_frame_earns_the_exact_loss_of_the_smallest_frame(name, epsilon):
    design, units, at_least = LOWER_BOUNDS[name]
    terms = terms_of(design, units, FRAME[ADD], at_least=at_least)
    assert isinstance(terms.amplification, Amplified)
    assert terms.relation == REPLACE, "samples of one size differ by a replacement"
    told = printed(terms, epsilon)
    draw = sampled(terms.design)
    for frame in (units, smallest_units(units, at_least)):
        exact = worst(draw, frame, ADD, REPLACE, epsilon, lambda each: possible(each, at_least))
        assert told >= exact - SLACK
    # No smaller figure would do: the smallest of the possible frames loses as much.
    assert exact >= 0.999 * told or name == "by categories, without strata"
    assert any("no possible frame has fewer" in note for note in terms.amplification.holds_when)


def test_what_a_lower_bound_earns_is_what_amplify_says_of_the_smaller_frame():
    terms = terms_of(ds.srs(n=2), FIVE, FRAME[ADD], at_least=3)
    assert printed(terms, 1.0) == ds.amplify(ds.srs(n=2, size=4), 1.0, base=REPLACE, neighbours=ADD).epsilon
    without = terms_of(ds.srs(n=2), FIVE, FRAME[ADD])
    assert printed(without, 1.0) == 1.0


def test_at_two_per_cent_a_lower_bound_on_the_size_allows_noise_that_is_four_and_a_half_times_smaller():
    def planned(design, **bound):
        frame = ds.Frame("f.parquet", unit="id", size=50_000, categories={"region": {"n": 25_000, "s": 25_000}}, **bound)
        survey = ds.Survey(frame, design, FRAME[ADD], budget=ds.Budget(1.0), ledger="books.ledger")
        return survey.plan(ds.mean("income", bounds=(0, 10)), noise="laplace")

    plain, strata = ds.srs(n=1000), ds.stratified("region", within=ds.srs(n=500))
    for design, bound in ((plain, 49_999), (strata, {"region": {"n": 24_999, "s": 24_999}})):
        with_bound, without = planned(design, size_at_least=bound), planned(design)
        ratio = without.items[0].mechanism.scale / with_bound.items[0].mechanism.scale
        assert ratio == pytest.approx(math.log1p(50 * math.expm1(1.0)), rel=1e-3)
        assert 4.4 < ratio < 4.5
        for plan in (with_bound, without):
            assert plan.to_dict()["guarantee"]["epsilon"] == pytest.approx(1.0)
        # A lower bound that is far too low still holds, and earns less.
        low = planned(plain, size_at_least=5_000)
        assert 1.5 < without.items[0].mechanism.scale / low.items[0].mechanism.scale < ratio


@pytest.mark.parametrize("at_least", [5, 6, {"region": {"n": 2, "s": 2}}, {"region": {"n": 1, "s": 3}}])
def test_a_lower_bound_that_the_declared_frame_breaks_with_one_unit_less_is_refused(at_least):
    """With a bound of 4 for 2 of 4 units the figure would be log(1 + 2/5 (e - 1)), and 2 of 3 units lose more."""
    with pytest.raises(BadValue, match="not below its declared size"):
        frame_of(FIVE, at_least=at_least)


@pytest.mark.parametrize("design", [ds.srs(n=4), ds.stratified("region", within=ds.srs(n=2))])
def test_no_fixed_number_is_earned_by_a_frame_that_may_be_shorter(design):
    bounds = {"region": {"n": 1, "s": 1}}
    terms = terms_of(design, (*FIVE, unit("f", "n")), FRAME[ADD], at_least=bounds if design.strata_column else 3)
    assert not isinstance(terms.amplification, Amplified)
    assert printed(terms, 1.0) == 1.0


# Responses


RESPONSES = {
    "srs": (ds.srs(n=2), FOUR),
    "poisson": (ds.poisson(0.3), FOUR),
    "poisson by": (ds.poisson_by("rate", at_most=0.5), FOUR),
    "proportional": (ds.proportional(0.5), FOUR[:3]),
    "strata of srs": (ds.stratified("region", within=ds.srs(n=1)), FOUR),
    "strata of poisson by": (ds.stratified("region", within=ds.poisson_by("rate", at_most=0.5)), FOUR),
    "mixed strata": (ds.stratified("region", within={"n": ds.poisson(0.3), "s": ds.srs(n=1)}), FOUR),
    "sampford": (ds.pps("mos", n=2, method="sampford", at_most=0.75), FOUR),
    "clusters with a cap": (ds.cluster("psu", ds.srs(n=1), clusters=2, cap=2), PAIRS),
    "two stages": (ds.stages(ds.cluster("psu", ds.srs(n=1), clusters=2, cap=2), ds.poisson(0.5)), PAIRS),
    "clusters without a cap": (ds.cluster("psu", ds.srs(n=1)), PAIRS),
}
EXACT = ("srs", "poisson", "clusters with a cap", "two stages", "strata of srs")


@pytest.mark.parametrize("p", [0.5, 0.9])
@pytest.mark.parametrize("name", RESPONSES)
def test_a_bound_on_response_earns_no_more_than_the_loss_of_those_who_come_back(name, p):
    design, units = RESPONSES[name]
    made = 0
    for setting in (*FRAME.values(), *SAMPLE.values()):
        try:
            terms = terms_of(ds.responding(design, at_most=p), units, setting)
        except NoGuarantee:
            continue
        made += 1
        assert terms.relation == ADD, "how many respond is random, and hidden too"
        plain = sampled(terms.design)

        def back(each, plain=plain):
            return responded(plain(each), p)

        for epsilon in EPSILONS:
            told = printed(terms, epsilon)
            if setting.protect == "frame":
                exact = worst(back, units, setting.neighbours, ADD, epsilon, long_enough(design))
            else:
                pairs = {(one, two) for sample in plain(units) for one, two in in_hand(sample, setting.neighbours)}
                exact = max(en.worst_loss(responded({a: 1.0}, p), responded({b: 1.0}, p), epsilon, ADD) for a, b in pairs)
            assert told >= exact - SLACK, f"{setting}, epsilon {epsilon}"
            assert setting.neighbours == ADD or name not in EXACT or exact >= 0.999 * told, f"{setting}, epsilon {epsilon}"
    assert made >= 2


def in_hand(sample, neighbours):
    for name in sample:
        rest = sample - {name}
        yield (rest | {"x"}, rest | {"y"}) if neighbours == REPLACE else (rest | {"x"}, rest)


def by_region(units):
    return all(any(each["region"] == label for each in units) for label in ("n", "s"))


def long_enough(design):
    """Frames from which the design can draw, of as many clusters as are declared."""
    recipe, columns = design.resolve(frame_of(FIVE)).recipe() if not design.clustering() else design.recipe(), ("psu",)
    count = len({each["psu"] for each in PAIRS})

    def allowed(units):
        if design.clustering():
            return len({tuple(each[name] for name in columns) for each in units}) == count
        return released.long_enough(recipe, units) and by_region(units)

    return allowed


def test_a_survey_of_those_who_respond_reads_a_file_of_responses_and_nothing_else(tmp_path, monkeypatch):
    """Rows of the frame are there for everybody, and nothing is hidden by nonresponse."""
    monkeypatch.chdir(tmp_path)
    released.table_of(FOUR).to_parquet("register.parquet")
    for design in (
        ds.responding(ds.srs(n=2), at_most=0.5),
        ds.covered(ds.responding(ds.poisson(0.5), at_most=0.5), at_most=0.9),
        ds.stratified("region", within=ds.responding(ds.poisson(0.5), at_most=0.5)),
    ):
        survey = ds.Survey(frame_of(FOUR), design, FRAME[REPLACE], budget=ds.Budget(1.0), ledger="books.ledger")
        plan = survey.plan(ds.mean("income", bounds=(0, 10)))
        assert plan.respondents_only
        assert not plan.facts.sizes_are_public(())
        for release in (plan.release, lambda: survey.release(plan)):  # noqa: B023
            with pytest.raises(BadValue, match="values come from a file of responses"):
                release()
    assert not Path("books.ledger").exists()


@pytest.mark.parametrize(
    "around",
    [
        lambda each: ds.responding(each, at_most=0.9),
        lambda each: ds.covered(each, at_most=0.9),
        lambda each: ds.group(each, 2),
        lambda each: ds.stratified("region", within=each),
        lambda each: ds.stratified("region", within={"n": each, "s": ds.poisson(0.5)}),
        lambda each: ds.cluster("psu", each),
        lambda each: ds.stages(ds.cluster("psu", ds.srs(n=1)), each),
    ],
)
@pytest.mark.parametrize("filled", [{}, {"imputed": "donors", "donor_uses": 2}], ids=["as it is", "from donors"])
def test_a_collected_file_is_no_part_of_another_design(around, filled):
    """As the sample of those who respond it was drawn, sealed and released, at log((1 - p + p e)/(1 - p + p/e)): five records
    that one changes, with a response of .9 each, lose more than one that moves the sums as far as five."""
    one, five = ((math.log(0.1 + 0.9 * math.exp(a)) - math.log(0.1 + 0.9 * math.exp(-a))) for a in (3.0, 0.6))
    assert 5 * five > 1.1 * one
    with pytest.raises(BadValue):
        around(ds.design.collected(**filled))


def test_strata_are_not_drawn_inside_clusters():
    """The draw failed on them, after the plan had printed a guarantee; sizes computed from the frame were not refused there."""
    with pytest.raises(BadValue, match="strata inside clusters are not drawn"):
        ds.stages(ds.cluster("psu", ds.srs(n=1)), ds.stratified("region", within=ds.srs(n=1)))


def test_copies_of_one_unit_respond_at_once_and_all_are_counted():
    terms = terms_of(ds.responding(ds.with_replacement(3), at_most=0.5), FOUR, FRAME[REPLACE])
    told = terms.guarantee(ds.privacy.running.Running().plus(PrivacyProfile.pure(0.5, terms.relation)))
    assert told.epsilon == told.in_sample[0] == pytest.approx(3 * 2 * 0.5)


# Coverage


@pytest.mark.parametrize("c", [0.5, 0.8])
@pytest.mark.parametrize("name", ["poisson", "poisson by", "strata of poisson by", "poisson that responds"])
def test_a_bound_on_coverage_earns_no_more_than_the_loss_of_those_on_the_frame(name, c):
    design = ds.poisson(0.3) if name == "poisson that responds" else RESPONSES[name][0]
    inner = ds.responding(design, at_most=0.5) if name == "poisson that responds" else design
    for neighbours, setting in POPULATION.items():
        terms = terms_of(ds.covered(inner, at_most=c), FOUR, setting)
        draw = sampled(design.resolve(frame_of(FOUR)))

        def whole(units, draw=draw):
            law = en.mixture(*((p, draw(kept)) for p, kept in on_frame(units, c)))
            return responded(law, 0.5) if name == "poisson that responds" else law

        for epsilon in EPSILONS:
            told, exact = printed(terms, epsilon), worst(whole, FOUR[1:], neighbours, ADD, epsilon)
            assert told >= exact - SLACK
            assert exact >= 0.999 * told, "independent draws lose exactly this"
        assert any("is on the frame with a probability above" in note for note in terms.amplification.holds_when)
        # Where the frame is protected, who is on it is given.
        assert printed(terms_of(ds.covered(inner, at_most=c), FOUR, FRAME[neighbours]), 1.0) > printed(terms, 1.0)


@pytest.mark.parametrize(
    "design",
    [
        ds.stratified("region", within={"n": ds.srs(n=1), "s": ds.poisson(0.3)}),
        ds.responding(ds.stratified("region", within={"n": ds.srs(n=1), "s": ds.poisson(0.3)}), at_most=0.9),
        ds.stratified("region", within={"n": ds.with_replacement(1), "s": ds.poisson(0.3)}),
    ],
    ids=repr,
)
def test_a_fixed_number_in_one_stratum_earns_nothing_by_coverage(design):
    """Frames that are too small occur, whatever the other strata draw: with one of two units the loss is above the figure."""
    resolved = design.resolve(frame_of(FOUR))
    refused = ds.amplify(ds.covered(resolved, at_most=0.5), 1.0, base=ADD, neighbours=ADD)
    assert refused.epsilon is None
    assert "every smaller frame occurs too" in refused.refused.reason
    group = ds.amplify(ds.group(resolved, 2), 1.0, base=ADD, neighbours=ADD)
    assert group.epsilon is None, "each unit of the group that leaves raises the rate for the others"


def test_two_units_that_leave_a_stratum_lose_more_than_twice_what_one_does_at_the_larger_size():
    def draw(units):
        return en.srs(units, 1)

    both = en.worst_loss(draw("abxy"), draw("ab"), 1.0, ADD)
    one = en.worst_loss(draw("abxy"), draw("aby"), 1.0, ADD)
    assert both > 1.02 * 2 * one or both > 1.3 * one
    assert ds.amplify(ds.group(ds.systematic(n=1, size=4), 2), 1.0, base=ADD, neighbours=ADD).epsilon is None


@pytest.mark.parametrize(
    "wrap",
    [
        lambda each: each,
        lambda each: ds.responding(each, at_most=0.9),
        lambda each: ds.group(each, 2),
        lambda each: ds.stratified("region", within={"n": each, "s": ds.poisson(0.2)}),
    ],
)
def test_coverage_is_counted_once_at_whatever_depth(wrap):
    with pytest.raises(BadValue, match="coverage comes once"):
        ds.covered(wrap(ds.covered(ds.poisson(0.1), at_most=0.5)), at_most=0.5)


# Stages, and rates inside strata


STAGES = {
    "by rate": (ds.stages(ds.cluster("psu", ds.srs(n=1), clusters=2, cap=2), ds.poisson(0.4)), PAIRS),
    "by number": (ds.stages(ds.cluster("psu", ds.srs(n=1), clusters=2, at_least=2), ds.srs(n=1)), PAIRS),
    "by rate in strata": (
        ds.stratified("region", within=ds.stages(ds.cluster("psu", ds.srs(n=1), clusters=2, cap=1), ds.poisson(0.4))),
        FOUR,
    ),
    "by a rate inside a bound": (ds.stages(ds.cluster("psu", ds.pps("mos", n=1)), ds.srs(n=1), at_most=0.5), PAIRS),
}


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_both_stages_are_earned_where_the_first_is_a_simple_random_sample_of_bounded_clusters(name, epsilon):
    design, units = STAGES[name]
    terms = terms_of(design, units, FRAME[REPLACE])
    told = printed(terms, epsilon)
    exact = worst(sampled(terms.design), units, REPLACE, terms.relation, epsilon)
    assert told >= exact - SLACK
    if name != "by a rate inside a bound":
        assert exact >= 0.999 * told
        last = ds.stages(ds.cluster("psu", ds.srs(n=1)), ds.poisson(0.4))
        assert told < printed(terms_of(last, units, FRAME[REPLACE]), epsilon) or name == "by number"


def test_rates_of_units_inside_strata_are_earned_with_records_that_move_between_strata():
    inside = {"n": ds.poisson_by("rate", at_most=0.3), "s": ds.poisson_by("rate", at_most=0.5)}
    for neighbours in (ADD, REPLACE):
        terms = terms_of(ds.stratified("region", within=inside), FOUR, FRAME[neighbours])
        draw = sampled(terms.design)
        assert terms.design.relation_name(terms.setting) == ""
        for epsilon in EPSILONS:
            told = printed(terms, epsilon)
            assert told >= worst(draw, FOUR, neighbours, ADD, epsilon) - SLACK
            assert told == ds.amplify(terms.design, epsilon, base=ADD, neighbours=neighbours).epsilon
            # From one stratum into the other, with another rate.
            rest = FOUR[:2]
            crossing = en.worst_loss(draw((*rest, {**FOUR[2], "id": "x"})), draw((*rest, {**FOUR[1], "id": "y"})), epsilon, ADD)
            assert neighbours == ADD or told >= crossing - SLACK


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_share_of_each_drawn_cluster_loses_what_it_loses_at_every_size_of_cluster(size, epsilon):
    """With a size of 1 one of two units was said to lose 1.0 at epsilon 1, and loses 1.43; clusters have sizes of their own."""
    design = ds.stages(ds.cluster("psu", ds.srs(n=2)), ds.proportional(0.5, size=size))
    terms = terms_of(design, PAIRS, FRAME[REPLACE])
    draw = sampled(terms.design)
    assert printed(terms, epsilon) >= worst(draw, PAIRS, REPLACE, ADD, epsilon) - SLACK
    for base, neighbours in ((ADD, ADD), (ADD, REPLACE), ("both", ADD), ("both", REPLACE), (REPLACE, REPLACE)):
        told = ds.amplify(design, epsilon, base=base, neighbours=neighbours)
        for units in (PAIRS, PAIRS[:3], PAIRS[1:]):
            assert told.epsilon >= worst(draw, units, neighbours, base, epsilon, both_clusters) - SLACK


def both_clusters(units):
    return len({each["psu"] for each in units}) == 2


# What is written down and not compared with the frame earns nothing, at whatever depth


LONE = (unit("a", "n", "p"), unit("b", "n", "p"), unit("c", "n", "q"), unit("d", "s", "p"), unit("e", "s", "q"))
WRITTEN_DOWN = {
    "sizes of clusters": ds.cluster("psu", ds.srs(n=1), sizes=(1,) * 20),
    "sizes of clusters drawn by size": ds.cluster("psu", ds.pps("mos", n=1), sizes=(1,) * 20),
    "probabilities": ds.pps("mos", probabilities=(0.05,) * 20, method="sampford"),
    "a rounded rate of small strata": ds.proportional(0.1, rounding="nearest"),
}


@pytest.mark.parametrize("name", WRITTEN_DOWN)
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_what_is_not_compared_with_the_frame_earns_nothing_inside_strata(name, neighbours):
    """The figure of the list would be a tenth of what the frame at hand loses."""
    design = ds.stratified("region", within=WRITTEN_DOWN[name])
    try:
        terms = terms_of(design, LONE, FRAME[neighbours], sizes="rate" not in name)
    except NoGuarantee:
        assert neighbours == ADD
        return
    told = printed(terms, 1.0)
    assert told >= worst(sampled(terms.design), LONE, neighbours, terms.relation, 1.0, by_region) - SLACK
    assert not isinstance(terms.design.amplify(PrivacyProfile.pure(1.0, terms.relation), terms.setting), Amplified)


@pytest.mark.parametrize(
    "inside",
    [
        ds.srs(n=1, size=50),
        ds.systematic(n=1, size=50),
        ds.with_replacement(1, size=50),
        ds.responding(ds.srs(n=1, size=50), at_most=0.5),
    ],
    ids=repr,
)
def test_sizes_of_strata_are_declared_with_the_frame_and_compared_with_it(inside):
    with pytest.raises(BadValue, match="need the public sizes"):
        ds.stratified("region", within=inside).resolve(frame_of(FOUR, sizes=False))
    # Where they are, they count, and not those of the design.
    assert all(each.size == 2 for each in ds.stratified("region", within=inside).resolve(frame_of(FOUR)).parts())


def refused_rows(design, units, folder, monkeypatch):
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    released.table_of(units).to_parquet("register.parquet")
    survey = ds.Survey(
        frame_of(units), design, FRAME[REPLACE], budget=ds.Budget(1.0), ledger="books.ledger", weight_range=(1, 100)
    )
    plan = survey.plan(ds.mean("income", bounds=(0, 10)))
    try:
        return str(survey.release(plan).guarantee)
    except BadData as error:
        return error.what


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: ds.stratified("region", within=each)], ids=["whole", "strata"])
@pytest.mark.parametrize(("inside", "kept"), [(ds.srs(n=1), 0.25), (ds.srs(rate=0.3), 0.4)], ids=repr)
def test_a_bound_on_the_last_stage_is_compared_with_the_clusters(inside, kept, wrap, tmp_path, monkeypatch):
    units = tuple({**each, "id": f"{each['id']}{copy}"} for each in PAIRS for copy in range(2))

    def stages(at_most):
        return wrap(ds.stages(ds.cluster("psu", ds.srs(n=2)), inside, at_most=at_most))

    # Clusters of four: one of them is drawn with probability 1/4; at a rate of 0.3 two of five would be, in a larger one.
    assert "Anyone on the frame" in refused_rows(stages(kept), units, tmp_path / "kept", monkeypatch)
    assert "are not as many" in refused_rows(stages(kept - 0.01), units, tmp_path / "broken", monkeypatch)


def test_clusters_of_a_later_stage_are_compared_one_by_one(tmp_path, monkeypatch):
    # Block "1" lies in p and in q, with one unit in each, so that a drawn unit is drawn for certain.
    three = ds.stages(ds.cluster("psu", ds.srs(n=1)), ds.cluster("block", ds.srs(n=1)), ds.srs(n=1), at_most=0.5)
    split = tuple({**each, "block": "12"[number % 2]} for number, each in enumerate(PAIRS))
    assert "are not as many" in refused_rows(three, split, tmp_path, monkeypatch)


def test_a_rate_above_those_that_are_declared_is_refused(tmp_path, monkeypatch):
    some = ds.poisson_by("rate", at_most=0.9, probabilities=(0.1, 0.2))
    assert some.recipe() == EachBy("rate", 0.2)
    assert "rates in 'rate'" in refused_rows(some, FOUR, tmp_path, monkeypatch)


# Amplify alone


def test_a_normaliser_that_is_summed_from_the_frame_earns_nothing_where_a_record_more_changes_it():
    design = ds.pps("mos", n=2, method="poisson", at_most=0.75)
    draw = sampled(design)
    exact = worst(draw, FOUR, ADD, ADD, 1.0, lambda units: len(units) <= 4)
    assert exact > 1.5
    assert math.log1p(0.75 * math.expm1(1.0)) < 0.83
    answer = ds.amplify(design, 1.0, base=ADD, neighbours=ADD)
    assert answer.epsilon is None
    assert "another total" in answer.refused.reason
    assert ds.amplify(design, 1.0, base=ADD, neighbours=REPLACE).epsilon == pytest.approx(
        math.log((0.25 + 0.75 * math.e) / (0.25 + 0.75 / math.e)), rel=1e-9
    )


def test_someone_known_to_be_in_a_share_of_a_drawn_cluster_loses_two_steps_where_another_takes_the_place():
    design = ds.stages(ds.cluster("psu", ds.srs(n=2)), ds.proportional(0.4))
    assert ds.amplify(design, 1.0, base=ADD, neighbours=ADD).epsilon_in_sample == 2.0


@pytest.mark.parametrize(
    "design",
    [
        ds.cluster("psu", ds.with_replacement(n=2), clusters=2, cap=2),
        ds.stages(ds.cluster("psu", ds.with_replacement(n=2)), ds.poisson(0.4)),
        ds.stages(ds.cluster("psu", ds.srs(n=1)), ds.with_replacement(n=2)),
    ],
    ids=repr,
)
def test_someone_known_to_be_drawn_loses_a_step_for_every_copy_where_the_rest_is_refused_too(design):
    law = laws.law_of(design.recipe(), PAIRS)
    for base in (ADD, REPLACE):
        answer = ds.amplify(design, 1.0, base=base, neighbours=REPLACE)
        assert answer.epsilon is None
        one, two = ({sample: p for sample, p in laws.renamed(law, "a", name).items() if name in sample} for name in ("x", "y"))
        known = [{sample: p / sum(each.values()) for sample, p in each.items()} for each in (one, two)]
        exact = en.worst_loss(laws.as_sets(known[0]), laws.as_sets(known[1]), 1.0, base)
        assert exact > (1.0 if base == REPLACE else 2.0) * 1.1, "one step for each record would be too few"
        assert answer.epsilon_in_sample >= exact - SLACK


@pytest.mark.parametrize(
    ("design", "base"),
    [
        (ds.pps("mos", n=2, method="sampford", at_most=0.75), ADD),
        (ds.pps("mos", n=2, method="poisson", at_most=0.75), ADD),
        (ds.proportional(0.3), REPLACE),
        (ds.stratified("region", within=ds.systematic(rate=0.5)), REPLACE),
    ],
    ids=repr,
)
def test_no_figure_is_given_for_someone_in_a_sample_whose_others_may_all_change(design, base):
    assert ds.amplify(design, 1.0, base=base, neighbours=ADD).epsilon_in_sample is None


@pytest.mark.parametrize("design", [ds.systematic(rate=0.3, order="as listed"), ds.systematic(n=2, order="as listed")], ids=repr)
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_a_fixed_order_of_unknown_length_is_refused_in_words(design, neighbours):
    answer = ds.amplify(design, 1.0, base=ADD, neighbours=neighbours)
    assert answer.epsilon is None
    assert answer.epsilon_in_sample == (2.0 if neighbours == REPLACE else None)


# Through the engine: what is printed, everywhere


RELEASED = {
    "srs with a lower bound": (ds.srs(n=2), FIVE, FRAME[ADD], 3),
    "strata with lower bounds": (
        ds.stratified("region", within=ds.srs(n=1)),
        FIVE,
        FRAME[ADD],
        {"region": {"n": 1, "s": 2}},
    ),
    "responses": (ds.responding(ds.srs(n=2), at_most=0.5), FOUR, FRAME[REPLACE], None),
    "coverage": (ds.covered(ds.poisson(0.5), at_most=0.5), FOUR, POPULATION[ADD], None),
    "two stages": (*STAGES["by rate"], FRAME[REPLACE], None),
    "rates in strata": (ds.stratified("region", within=ds.poisson_by("rate", at_most=0.5)), FOUR, FRAME[ADD], None),
}


@pytest.mark.parametrize("name", RELEASED)
def test_plan_release_report_and_ledger_print_the_figure_that_is_earned(name, tmp_path, monkeypatch):
    design, units, setting, at_least = RELEASED[name]
    monkeypatch.chdir(tmp_path)
    released.table_of(units).to_parquet("register.parquet")
    frame = frame_of(units, at_least=at_least)
    ranged = None if design.resolve(frame).parts() else (1.0, 40.0)
    survey = ds.Survey(frame, design, setting, budget=ds.Budget(1.0), ledger="books.ledger", weight_range=ranged)
    responses = None
    if design.responses_only:
        sealed = survey.draw("sample.parquet")
        responses = pd.DataFrame({"id": pd.read_parquet(sealed.path)["unit"], "income": 5.0})
    plan = survey.plan(ds.mean("income", bounds=(0, 10)), noise="laplace", responses=responses)
    release = survey.release(plan)
    # All of the budget is spent, and what was charged on the sample is more, by as much as the design is proved to earn.
    assert isinstance(survey.terms.amplification, Amplified)
    charged = plan.items[0].charge.epsilon(0.0)
    assert charged > 1.02
    assert survey.terms.amplify(plan.charged.composed).epsilon(0.0) == pytest.approx(1.0, rel=1e-9)
    document = release.to_dict()["guarantee"]
    assert document["epsilon"] == pytest.approx(1.0, rel=1e-9)
    assert document["epsilon"] <= 1.0
    assert document == json.loads(json.dumps(plan.to_dict()["guarantee"])) | {
        "steps": document["steps"],
        "holds_when": document["holds_when"],
    }
    assert document["rate"] == survey.terms.amplification.rate == pytest.approx(RATES[name])
    assert document["in_sample"]["epsilon"] >= charged
    notes = set(survey.terms.amplification.holds_when)
    assert notes <= set(document["holds_when"])
    page = report_page(release).decode()
    sentence = document["sentence"]
    assert sentence in str(release)
    assert f"epsilon {ceiling_text(document['epsilon'])}" in sentence
    for text in (str(plan), page):
        assert ceiling_text(document["epsilon"]) in text
        assert ceiling_text(document["in_sample"]["epsilon"]) in text
    for note in notes:
        assert note.replace("'", "&#39;").replace('"', "&#34;") in page
    with ds.Ledger("books.ledger") as ledger:
        spending = ledger.spending(survey.terms)
        kept = ledger.released(plan.request)
    assert kept == release.to_dict()
    assert (spending.spent, spending.left) == (pytest.approx(1.0, rel=1e-9), pytest.approx(0.0, abs=1e-9))
    assert list(spending.in_sample.values()) == [pytest.approx(document["in_sample"]["epsilon"])]
    # Written down and read again, all of it is computed anew.
    again = Terms.from_dict(json.loads(json.dumps(survey.terms.to_dict())))
    assert again == survey.terms
    assert again.amplify(plan.items[0].charge).epsilon(0.0) == survey.terms.amplify(plan.items[0].charge).epsilon(0.0)
    loaded = ds.Release.load(release.save("release.json"))
    assert loaded.guarantee.epsilon == release.guarantee.epsilon
    assert loaded.recompute() == release.estimates


RATES = {
    "srs with a lower bound": 2 / 4,
    "strata with lower bounds": 1 / 2,
    "responses": 0.5 * 2 / 4,
    "coverage": 0.25,
    "two stages": 0.5 * 0.4,
    "rates in strata": 0.5,
}
