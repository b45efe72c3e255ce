"""What a survey guarantees: to whom, when it holds, and where no guarantee is made.

Every design is tried under all settings and both neighbour relations: each combination gives a guarantee within
its budget or is refused, and sampling amplifies only where it lies between the protected data and the release.
"""

import json
import math

import pytest

import dpsurvey as ds
from dpsurvey.design import Amplified, Refused
from dpsurvey.errors import NoGuarantee
from dpsurvey.ledger.terms import Terms
from dpsurvey.privacy import all_settings
from dpsurvey.privacy.budget import take_share
from dpsurvey.privacy.running import Running
from dpsurvey.text.layout import ceiling_text

pytestmark = pytest.mark.quick

FRAME = ds.Frame("register.parquet", unit="id", size=1000, categories={"region": {"north": 400, "south": 600}})
DESIGNS = {
    "srs by n": ds.srs(n=100),
    "srs by rate": ds.srs(rate=0.25),
    "srs of everyone": ds.srs(n=1000),
    "poisson": ds.poisson(rate=0.1),
    "poisson of everyone": ds.poisson(rate=1.0),
    "stratified srs": ds.stratified("region", within={"north": ds.srs(n=40), "south": ds.srs(n=120)}),
    "stratified poisson": ds.stratified("region", within=ds.poisson(rate=0.02)),
    "stratified poisson by stratum": ds.stratified("region", within={"north": ds.poisson(0.1), "south": ds.poisson(0.5)}),
}
LARGEST = {
    "srs by n": 0.1,
    "srs by rate": 0.25,
    "srs of everyone": 1.0,
    "poisson": 0.1,
    "poisson of everyone": 1.0,
    "stratified srs": 0.2,
    "stratified poisson": 0.02,
    "stratified poisson by stratum": 0.5,
}
BUDGETS = {"pure": ds.Budget(1.0), "with delta": ds.Budget(1.0, 1e-6)}
SETTINGS = [*all_settings("add-remove"), *all_settings("replace-one")]
FIXED = {name for name in DESIGNS if "srs" in name}


def terms(name, setting, budget):
    return Terms("survey", FRAME, DESIGNS[name].resolve(FRAME), setting, budget)


def words(setting):
    return f"{setting.protect}-given-{setting.given}-{setting.neighbours}"


def spent(survey, shares=(1.0,)):
    return survey.guarantee(Running().plus(*(take_share(survey.in_sample_budget, share) for share in shares)))


def no_guarantee(name, setting):
    """Samples of one size never differ by one unit; a frame that is drawn whole cannot lose one unnoticed."""
    if name not in FIXED:
        return False
    sizes_move = setting.protect == "population" or (setting.protect == "frame" and setting.neighbours == "add-remove")
    return (setting.protect == "sample" and setting.neighbours == "add-remove") or (name == "srs of everyone" and sizes_move)


# Every combination


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("setting", SETTINGS, ids=words)
@pytest.mark.parametrize("name", DESIGNS)
def test_every_combination_is_within_its_budget_or_refused_and_amplifies_only_inside(name, setting, budget):
    if no_guarantee(name, setting):
        with pytest.raises(NoGuarantee, match="no guarantee"):
            terms(name, setting, budget)
        return
    survey = terms(name, setting, budget)
    guarantee = spent(survey, (0.5, 0.25))
    assert guarantee.epsilon <= budget.epsilon
    assert guarantee.whole.relation == guarantee.on_sample.relation == setting.neighbours
    # 1e-14: where everyone is drawn both figures are the same, each rounded up by itself.
    assert guarantee.in_sample[0] >= guarantee.epsilon * (1 - 1e-14)
    # The whole budget can be spent, to a millionth.
    assert budget.epsilon * (1 - 1e-6) <= spent(survey).epsilon <= budget.epsilon
    sampling_is_inside = setting.protect in ("population", "frame")
    size_is_public = setting.protect == "frame" and setting.neighbours == "replace-one"
    if sampling_is_inside and (name not in FIXED or size_is_public):
        assert isinstance(survey.amplification, Amplified)
        assert survey.rate == guarantee.rate == pytest.approx(LARGEST[name], rel=1e-15)
        assert "amplified once" in guarantee.steps[1]
        assert any("learns who was drawn" in condition for condition in guarantee.holds_when)
        if LARGEST[name] < 1.0:
            assert guarantee.in_sample[0] > guarantee.epsilon * 1.3
    else:
        assert isinstance(survey.amplification, Refused)
        assert survey.rate == guarantee.rate == 1.0
        assert "no amplification" in guarantee.steps[1]
        assert guarantee.in_sample[0] == guarantee.epsilon
        assert survey.in_sample_budget.epsilon(budget.delta) <= budget.epsilon


@pytest.mark.parametrize("setting", SETTINGS, ids=words)
@pytest.mark.parametrize("name", DESIGNS)
def test_charges_are_calibrated_under_a_relation_that_keeps_the_setting(name, setting):
    if no_guarantee(name, setting):
        assert terms_refusal(name, setting).reason
        return
    relation = terms(name, setting, BUDGETS["pure"]).relation
    if setting.protect in ("population", "frame"):
        # A sample of fixed size moves by replacement; one of random size by one unit more or less.
        assert relation == ("replace-one" if name in FIXED else "add-remove")
    else:
        assert relation == setting.neighbours


def terms_refusal(name, setting):
    refused = DESIGNS[name].resolve(FRAME).refuses(setting)
    assert isinstance(refused, Refused)
    return refused


@pytest.mark.parametrize("count", [2, 3, 6, 7, 11, 13, 15])
@pytest.mark.parametrize("budget", [ds.Budget(1.0), ds.Budget(1.0, 1e-6), ds.Budget(0.25, 1e-6)], ids=str)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_equal_shares_of_the_budget_together_keep_it(neighbours, budget, count):
    survey = terms("poisson", ds.Setting("frame", neighbours=neighbours), budget)
    together = spent(survey, (1.0 / count,) * count)
    assert together.epsilon <= budget.epsilon
    if budget.delta:
        assert together.whole.delta(budget.epsilon) <= budget.delta


def test_a_fixed_size_sample_has_no_neighbour_with_one_unit_more():
    for name in FIXED:
        for given in (None, "population", "frame"):
            with pytest.raises(NoGuarantee) as caught:
                terms(name, ds.Setting("sample", given, neighbours="add-remove"), ds.Budget(1.0))
            assert "fixed-size" in caught.value.because
            assert "replace-one" in caught.value.hint
            assert "Poisson" in caught.value.hint


# Refusals are values


@pytest.mark.parametrize(
    ("name", "setting", "profile", "reason"),
    [
        ("poisson", ds.Setting("sample", neighbours="add-remove"), "add-remove", "sampling is not inside"),
        ("srs by n", ds.Setting("sample", neighbours="replace-one"), "replace-one", "sampling is not inside"),
        ("stratified srs", ds.Setting("respondents", neighbours="replace-one"), "replace-one", "sampling is not inside"),
        ("srs by n", ds.Setting("frame", neighbours="add-remove"), "replace-one", "not a public constant"),
        ("stratified srs", ds.Setting("population", neighbours="replace-one"), "replace-one", "not a public constant"),
        ("poisson", ds.Setting("frame", neighbours="add-remove"), "replace-one", "does not hide the sample's size"),
        ("stratified poisson", ds.Setting("frame", neighbours="add-remove"), "replace-one", "does not hide the sample's size"),
    ],
)
def test_a_refused_amplification_is_a_value_with_a_reason_a_source_and_what_to_do_instead(name, setting, profile, reason):
    answer = DESIGNS[name].resolve(FRAME).amplify(ds.PrivacyProfile.pure(1.0, profile), setting)
    assert isinstance(answer, Refused)
    assert reason in answer.reason
    assert answer.instead
    assert answer.source
    assert str(answer) == f"no amplification: {answer.reason} ({answer.source}); instead: {answer.instead}"


def test_a_refused_amplification_stands_in_the_steps_of_the_guarantee():
    survey = terms("srs by n", ds.Setting("frame", neighbours="add-remove"), ds.Budget(1.0))
    guarantee = spent(survey)
    assert guarantee.steps[1] == str(survey.amplification)
    assert not any("learns who was drawn" in condition for condition in guarantee.holds_when)


# The three attackers


def test_the_sentence_for_the_frame_names_all_three_attackers():
    survey = terms("poisson", ds.Setting("frame", neighbours="add-remove"), ds.Budget(1.0))
    assert str(spent(survey)) == (
        "Anyone on the frame: epsilon 1. Someone known to be in the sample: epsilon 2.901. If the sample list leaks: 2.901."
    )


@pytest.mark.parametrize(("protect", "subject"), [("sample", "Anyone in the sample"), ("respondents", "Anyone who responded")])
def test_the_sentence_downstream_of_sampling_has_one_figure(protect, subject):
    survey = terms("poisson", ds.Setting(protect, neighbours="add-remove"), ds.Budget(1.0))
    assert str(spent(survey)) == f"{subject}: epsilon 1."


def test_the_sentence_for_the_population_says_so():
    survey = terms("poisson", ds.Setting("population", neighbours="add-remove"), ds.Budget(0.5))
    assert str(spent(survey)).startswith(
        "Anyone in the population: epsilon 0.5. Someone known to be in the sample: epsilon 2.014."
    )


def test_a_leaked_sample_list_costs_the_epsilon_of_the_sample_at_rate_times_delta():
    survey = terms("poisson", ds.Setting("frame", neighbours="add-remove"), ds.Budget(1.0, 1e-6))
    guarantee = spent(survey)
    in_sample = survey.in_sample_budget.epsilon(1e-6)
    assert guarantee.in_sample == (in_sample, 1e-6)
    assert guarantee.sample_leaks == (in_sample, pytest.approx(1e-7, rel=1e-12))
    assert str(guarantee) == (
        f"Anyone on the frame: epsilon 1 (delta 1e-06). Someone known to be in the sample: epsilon {ceiling_text(in_sample)} "
        f"(delta 1e-06). If the sample list leaks: {ceiling_text(in_sample)} (delta 1e-07)."
    )


def test_without_amplification_a_leaked_sample_list_costs_what_was_guaranteed():
    survey = terms("srs by n", ds.Setting("frame", neighbours="add-remove"), ds.Budget(1.0, 1e-6))
    guarantee = spent(survey)
    assert guarantee.sample_leaks == guarantee.in_sample == (guarantee.epsilon, 1e-6)


def test_someone_known_to_be_in_a_poisson_sample_loses_two_steps_when_replaced():
    """Mechanisms on a sample of random size are private under add-remove; replacing a record there is two steps."""
    survey = terms("poisson", ds.Setting("frame", neighbours="replace-one"), ds.Budget(1.0))
    guarantee = spent(survey)
    assert survey.relation == "add-remove"
    assert guarantee.in_sample[0] == 2 * survey.in_sample_budget.epsilon(0.0)
    inside = survey.in_sample_budget.epsilon(0.0)
    assert math.log1p(0.1 * math.expm1(inside)) - math.log1p(0.1 * math.expm1(-inside)) == pytest.approx(1.0, rel=1e-12)


def test_when_everyone_is_drawn_the_attackers_are_alike():
    for name, neighbours in (("poisson of everyone", "add-remove"), ("srs of everyone", "replace-one")):
        guarantee = spent(terms(name, ds.Setting("frame", neighbours=neighbours), ds.Budget(1.0)))
        assert guarantee.in_sample[0] == guarantee.sample_leaks[0] == guarantee.epsilon


def test_charges_compose_first_and_are_amplified_once():
    survey = terms("srs by n", ds.Setting("frame", neighbours="replace-one"), ds.Budget(5.0))
    charges = [ds.PrivacyProfile.pure(epsilon, "replace-one") for epsilon in (1.0, 2.0)]
    guarantee = survey.guarantee(Running().plus(*charges))
    assert guarantee.epsilon == pytest.approx(math.log1p(0.1 * math.expm1(3.0)), rel=1e-12)
    assert guarantee.in_sample[0] == pytest.approx(3.0, rel=1e-15)
    assert guarantee.steps[0].startswith("2 charges on one sample")
    assert guarantee.steps[1].startswith("amplified once, by rate 0.1")


# The name of the relation


def test_replacement_within_a_public_stratum_is_named_where_a_record_may_not_change_stratum():
    named = "replacement within a public stratum"
    for setting in all_settings("replace-one"):
        if setting.protect in ("population", "frame", "sample"):
            guarantee = spent(terms("stratified srs", setting, ds.Budget(1.0)))
            assert guarantee.relation_name == named
            assert f"({named})" in guarantee.specification
            assert guarantee.to_dict()["relation_name"] == named
    survey = terms("stratified srs", ds.Setting("frame", neighbours="replace-one"), ds.Budget(1.0))
    assert any("stays in its stratum" in condition for condition in spent(survey).holds_when)


@pytest.mark.parametrize("name", [name for name in DESIGNS if name != "stratified srs"])
def test_other_designs_need_no_name_for_their_relation(name):
    for setting in SETTINGS:
        assert DESIGNS[name].resolve(FRAME).relation_name(setting) == ""


# The specification and the record


def components(guarantee):
    """The five components of a specification by name."""
    lines = guarantee.specification.splitlines()
    return {line[:17].strip(): line[17:] for line in lines}


@pytest.mark.parametrize("setting", SETTINGS, ids=words)
def test_the_specification_prints_five_components(setting):
    guarantee = spent(terms("poisson", setting, ds.Budget(1.0, 1e-6)))
    parts = components(guarantee)
    assert list(parts) == ["domain", "multiverse", "input premetric", "output premetric", "budget"]
    whose = "files of respondents" if setting.answers_alone else f"{setting.protect} data sets"
    assert f"all possible {whose}" in parts["domain"]
    assert setting.neighbour in parts["input premetric"]
    if setting.answers_alone:
        assert parts["multiverse"] == "all files that agree in everything but the named answers, one universe for each"
    elif setting.given:
        assert parts["multiverse"].endswith(f"one universe for each {setting.given}")
    else:
        assert parts["multiverse"].startswith("one universe: every")
    assert "after 1e-06 is taken off" in parts["output premetric"]
    assert parts["budget"] == f"epsilon {ceiling_text(guarantee.epsilon, 7)} at delta 1e-06, the same for every universe"


def test_every_setting_has_a_specification_of_its_own_under_each_relation():
    for neighbours, count in (("add-remove", 10), ("replace-one", 11)):
        texts = {spent(terms("poisson", setting, ds.Budget(1.0))).specification for setting in all_settings(neighbours)}
        assert len(texts) == count


def test_a_pure_specification_mentions_no_delta():
    guarantee = spent(terms("poisson", ds.Setting("frame", neighbours="add-remove"), ds.Budget(1.0)))
    assert "delta" not in guarantee.specification
    assert "delta" not in str(guarantee)


@pytest.mark.parametrize(
    ("protect", "values"),
    [
        ("population", "frame variables and the answers the unit would give"),
        ("frame", "frame variables and the answers the unit would give"),
        ("sample", "its values"),
        ("respondents", "its values"),
    ],
)
def test_the_record_text_says_whose_record_and_that_households_are_not_covered(protect, values):
    guarantee = spent(terms("poisson", ds.Setting(protect, neighbours="add-remove"), ds.Budget(1.0)))
    assert guarantee.record == f"one record of the {protect}: {values}; not a household or other entity with several records"


def test_where_the_answers_alone_are_protected_the_sentence_names_them_and_all_that_is_held_fixed():
    answers = ds.Setting("answers", given="respondents", neighbours="replace-one")
    survey = terms("poisson", answers, ds.Budget(1.0))
    guarantee = survey.guarantee(Running().plus(survey.in_sample_budget), answers=("income", "job"))
    assert str(guarantee) == (
        "Anyone who responded (the answers income, job replaced; who responded, the design columns and the weights held fixed "
        "and not protected): epsilon 1."
    )
    assert guarantee.record.startswith("the named answers of one record of the respondents")


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_guarantee_is_written_in_full(budget):
    setting = ds.Setting("frame", "population", neighbours="replace-one")
    guarantee = spent(terms("stratified srs", setting, budget))
    fields = json.loads(json.dumps(guarantee.to_dict()))
    assert fields["sentence"] == str(guarantee)
    assert (fields["epsilon"], fields["delta"]) == (guarantee.epsilon, budget.delta)
    assert (fields["protect"], fields["given"], fields["neighbours"]) == ("frame", "population", "replace-one")
    assert tuple(fields["in_sample"].values()) == guarantee.in_sample
    assert tuple(fields["sample_leaks"].values()) == guarantee.sample_leaks
    assert fields["specification"] == guarantee.specification
    assert fields["record"] == guarantee.record
    assert tuple(fields["holds_when"]) == guarantee.holds_when
    assert ds.PrivacyProfile.from_dict(fields["profile"]) == guarantee.whole
    assert ds.PrivacyProfile.from_dict(fields["in_sample_profile"]) == guarantee.on_sample


@pytest.mark.parametrize("setting", SETTINGS, ids=words)
def test_a_guarantee_always_says_what_it_rests_on(setting):
    conditions = spent(terms("poisson", setting, ds.Budget(1.0))).holds_when
    for expected in ("depend", "clipped to the declared bounds", "OpenDP"):
        assert any(expected in condition for condition in conditions)


@pytest.mark.parametrize("name", DESIGNS)
def test_terms_survive_being_written(name):
    survey = terms(name, ds.Setting("frame", neighbours="replace-one"), ds.Budget(1.0, 1e-6))
    read = Terms.from_dict(json.loads(json.dumps(survey.to_dict())))
    assert (read.frame, read.setting, read.budget) == (survey.frame, survey.setting, survey.budget)
    assert read.in_sample_budget == survey.in_sample_budget
    assert spent(read) == spent(survey)
