"""Verdicts: to the printed digits, to a Monte-Carlo interval, and "wrong" only where the right value was found."""

import math

import pytest

from dpsurvey.errors import BadValue
from dpsurvey_papers import Item, Result, Value
from dpsurvey_papers.verdict import agrees, digits, judge

pytestmark = pytest.mark.quick

ITEM = Item("x-1", "Table 1", "", compute=lambda run: Result([], {}), draw=lambda rows: None)


def word(computed, **entry):
    return judge(ITEM, Result([], {"a": computed}), {"values": {"a": {"says": "it", **entry}}}).word


@pytest.mark.parametrize(
    ("printed", "value", "half"),
    [
        ("5.15", 5.15, 0.005),
        ("61.4 %", 0.614, 0.0005),
        ("4.9995e-5", 4.9995e-5, 5e-10),
        ("10,001", 10_001, 0.5),
        ("inf", math.inf, 0.0),
    ],
)
def test_printed_digits_are_a_number_and_half_a_unit(printed, value, half):
    assert digits(printed) == (pytest.approx(value, rel=1e-12), pytest.approx(half, rel=1e-9))


def test_a_figure_is_reproduced_to_the_printed_digits_and_no_further():
    assert word(5.1549, printed="5.15") == "reproduced"
    assert word(5.1551, printed="5.15") == "differs"
    assert word(math.inf, printed="inf") == "reproduced"
    assert word(5.15, printed="inf") == "differs"


def test_words_must_be_the_same():
    assert word("no gains", printed="no gains") == "reproduced"
    assert word("gains", printed="no gains") == "differs"


def test_a_simulated_figure_has_an_interval_of_its_own_and_the_papers_error():
    assert word(Value(3.6, 0.05), printed="3.72") == "reproduced within Monte-Carlo error"
    assert word(Value(3.6, 0.01), printed="3.72") == "differs"
    assert word(Value(3.6, 0.01), printed="3.72", error=0.03) == "reproduced within Monte-Carlo error"
    found = judge(ITEM, Result([], {"a": Value(3.6, 0.05)}), {"values": {"a": {"says": "it", "printed": "3.72"}}}).figures[0]
    assert (found.low, found.high) == (pytest.approx(3.355), pytest.approx(3.845))


def test_wrong_is_said_only_where_the_right_value_was_found():
    entry = {"printed": "0.01", "right": "0.0170", "because": "it is linear"}
    assert word(0.01703686, **entry) == "printed value is wrong"
    assert word(0.0180, **entry) == "differs"
    # What agrees with the print cannot be called wrong, whatever an erratum says.
    assert word(0.0101, **entry | {"right": "0.0101"}) == "differs"
    assert word("no solution", printed="0.01 or so", because="no right value is given") == "differs"


def test_imprecise_is_said_as_wrong_is_and_weighs_less():
    entry = {"printed": "any statistic", "right": "only if", "imprecise": "it needs a condition"}
    assert word("only if", **entry) == "imprecise as printed"
    assert word("any statistic", **entry) == "differs"
    assert word("nothing", **entry) == "differs"
    both = {"a": {"says": "one", **entry}, "b": {"says": "two", "printed": "2", "right": "3", "because": "it is three"}}
    found = judge(ITEM, Result([], {"a": "only if", "b": 3.0}), {"values": both})
    assert found.line == "printed value is wrong, because it is three. Imprecise: it needs a condition"


def test_what_the_paper_does_not_print_is_checked_and_not_counted_as_reproduced():
    assert word("tight", ours=True, right="tight") == "checked"
    assert word("loose", ours=True, right="tight") == "differs"
    entries = {"a": {"says": "one", "printed": "1"}, "b": {"says": "two", "ours": True, "right": "tight"}}
    assert judge(ITEM, Result([], {"a": 1.0, "b": "tight"}), {"values": entries}).line == "reproduced: 1 statement as printed"
    found = judge(ITEM, Result([], {"a": 1.0, "b": "loose"}), {"values": entries})
    assert found.line == "differs: two is loose, not tight"


def test_an_item_has_the_word_of_its_most_telling_figure():
    entries = {
        "a": {"says": "one", "printed": "1.0"},
        "b": {"says": "two", "printed": "2", "right": "3", "because": "it is three"},
    }
    found = judge(ITEM, Result([], {"a": 1.0, "b": 3.0}), {"values": entries})
    assert found.line == "printed value is wrong, because it is three. Reproduced: 1 statement as printed"
    found = judge(ITEM, Result([], {"a": 1.0, "b": 3.0}), {"values": entries, "not_reproducible": "the data are gone"})
    assert found.line.endswith("Not reproducible: the data are gone. Reproduced: 1 statement as printed")
    found = judge(ITEM, Result([], {"a": 1.0}), {"values": {"a": entries["a"]}, "not_reproducible": "the data are gone"})
    assert found.word == "not reproducible"
    assert found.expected


def test_figures_and_printed_values_must_name_the_same_things():
    with pytest.raises(BadValue, match="do not name the same"):
        judge(ITEM, Result([], {"a": 1.0}), {"values": {}})
    with pytest.raises(BadValue, match="do not name the same"):
        judge(ITEM, Result([], {}), {"values": {"a": {"says": "", "printed": "1"}}})
    with pytest.raises(BadValue, match="printed number"):
        agrees(1.0, "no gains")
