"""The settings: exactly these pairs, each of which changes a number (Bailie and Drechsler, Tables 3.1, 4.1 and 4.2).

Beside their ten stands one that is ours, under replace-one alone: the answers of those who responded.
"""

import itertools
import math

import pytest

from dpsurvey import Setting
from dpsurvey.errors import BadValue
from dpsurvey.privacy import all_settings

pytestmark = pytest.mark.quick

PHASES = ("population", "frame", "sample", "respondents")
RELATIONS = ("add-remove", "replace-one")

# (protect, given): stages that may amplify (Table 4.2), whether design weights are constants (Table 4.1).
TABLES = {
    ("population", None): (("coverage", "sampling", "response"), False),
    ("frame", None): (("sampling", "response"), False),
    ("frame", "population"): (("sampling", "response"), False),
    ("sample", None): (("response",), False),
    ("sample", "population"): (("response",), False),
    ("sample", "frame"): (("response",), True),
    ("respondents", None): ((), False),
    ("respondents", "population"): ((), False),
    ("respondents", "frame"): ((), True),
    ("respondents", "sample"): ((), True),
}
ANSWERS = ("answers", "respondents")
RATES = {"coverage": 0.9, "sampling": 0.1, "response": 0.6}


def numbers(setting):
    """What a setting changes: the rate that may amplify, what is held fixed, and the weights."""
    return (setting.rate(**RATES), setting.invariant, setting.weights_fixed)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_there_are_exactly_ten_pairs_and_under_replace_one_the_answers_too(neighbours):
    found = [(setting.protect, setting.given) for setting in all_settings(neighbours)]
    more = [ANSWERS] if neighbours == "replace-one" else []
    assert sorted(found, key=str) == sorted([*TABLES, *more], key=str)
    assert len(set(found)) == len(found) == 10 + len(more)
    assert {setting.neighbours for setting in all_settings(neighbours)} == {neighbours}


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("protect", "given"), list(itertools.product(PHASES, (None, *PHASES))))
def test_a_pair_is_accepted_exactly_when_what_is_held_fixed_comes_first(protect, given, neighbours):
    if (protect, given) in TABLES:
        setting = Setting(protect, given, neighbours=neighbours)
        assert (setting.protect, setting.given, setting.neighbours) == (protect, given, neighbours)
    else:
        with pytest.raises(BadValue, match="before what is protected"):
            Setting(protect, given, neighbours=neighbours)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_each_of_them_changes_a_number(neighbours):
    for one, other in itertools.combinations(all_settings(neighbours), 2):
        assert numbers(one) != numbers(other), f"{one} and {other}"


@pytest.mark.parametrize("given", [None, *PHASES, "answers"])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_answers_are_protected_with_the_respondents_held_fixed_under_replace_one_and_not_otherwise(neighbours, given):
    if (given, neighbours) == ("respondents", "replace-one"):
        setting = Setting("answers", given, neighbours=neighbours)
        assert setting.answers_alone
        assert setting.weights_fixed
        assert setting.stages_inside == ()
        assert setting.invariant == PHASES
    else:
        with pytest.raises(BadValue, match="held fixed"):
            Setting("answers", given, neighbours=neighbours)


def test_no_other_setting_is_about_the_answers_alone():
    for neighbours in RELATIONS:
        assert [each.protect for each in all_settings(neighbours) if each.answers_alone] == ["answers"] * (
            neighbours == "replace-one"
        )


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_answers_are_held_fixed_by_no_setting(phase, neighbours):
    with pytest.raises(BadValue, match="before what is protected"):
        Setting(phase, "answers", neighbours=neighbours)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("pair", TABLES, ids=str)
def test_the_stages_that_may_amplify_are_those_of_table_4_2(pair, neighbours):
    setting = Setting(*pair, neighbours=neighbours)
    inside, _ = TABLES[pair]
    assert setting.stages_inside == inside
    assert setting.rate(**RATES) == pytest.approx(math.prod(RATES[stage] for stage in inside), rel=1e-15)
    for stage in RATES:
        moved = setting.rate(**{**RATES, stage: RATES[stage] / 2}) != setting.rate(**RATES)
        assert moved == (stage in inside)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("pair", TABLES, ids=str)
def test_design_weights_are_constants_exactly_where_table_4_1_says_so(pair, neighbours):
    assert Setting(*pair, neighbours=neighbours).weights_fixed == TABLES[pair][1]


@pytest.mark.parametrize("pair", TABLES, ids=str)
def test_what_is_held_fixed_does_not_move_and_what_comes_before_it_neither(pair):
    setting = Setting(*pair, neighbours="add-remove")
    fixed = PHASES[: PHASES.index(setting.given) + 1] if setting.given else ()
    assert setting.invariant == fixed


def test_a_setting_never_implies_its_neighbours():
    with pytest.raises(TypeError, match="neighbours"):
        Setting("frame")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Setting("frame", None, "add-remove")


@pytest.mark.parametrize("neighbours", ["both", "", "replace", None])
def test_only_the_two_relations_are_neighbours_of_a_setting(neighbours):
    with pytest.raises(BadValue, match="relation"):
        Setting("frame", neighbours=neighbours)


@pytest.mark.parametrize(("protect", "given"), [("samples", None), ("", None), (None, None), ("frame", "people"), ("frame", "")])
def test_an_unknown_phase_is_refused(protect, given):
    with pytest.raises(BadValue, match="unknown phase"):
        Setting(protect, given, neighbours="add-remove")


def test_a_misspelt_phase_is_refused_with_the_phase_that_was_meant():
    with pytest.raises(BadValue) as caught:
        Setting("fram", neighbours="add-remove")
    assert "frame" in caught.value.hint


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_settings_are_values(neighbours):
    for setting in all_settings(neighbours):
        assert Setting(**setting.to_dict()) == setting
        assert hash(Setting(**setting.to_dict())) == hash(setting)
        with pytest.raises(AttributeError):
            setting.protect = "frame"


def test_the_words_of_a_setting_name_what_is_fixed_and_what_changes():
    setting = Setting("sample", "frame", neighbours="replace-one")
    assert setting.who == "Anyone in the sample"
    assert "of one size" in setting.neighbour
    assert "both from one and the same frame" in setting.neighbour
    assert "one record more or less" in Setting("frame", neighbours="add-remove").neighbour
    assert "same" not in Setting("frame", neighbours="add-remove").neighbour
    answers = Setting(*ANSWERS, neighbours="replace-one")
    assert answers.who == "Anyone who responded"
    assert "two files of the same respondents" in answers.neighbour
