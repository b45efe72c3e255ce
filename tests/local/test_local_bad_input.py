"""Whatever is wrong with a mechanism, a question, answers or reports gets a clear error, no estimate, and no value in its words.

Answers and reports in these tests hold a canary. Labels that a question declares may be named; nothing else that a respondent
said may, not in the message and not in the errors behind it.
"""

import json
import math
import traceback

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import dpsurvey.local as local
from dpsurvey.errors import BadData, BadValue, NotFound, Refusal, SurveyError
from dpsurvey.local.local_hashing import LocalHashing
from dpsurvey.privacy.shuffled import Shuffled
from dpsurvey_papers.sampling_privacy.toys import toy_deniability, toy_noise

CANARY = "canary-7f3a91"
NAN = float("nan")
TWO = local.Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75})
BITS = local.Question.ask("colour", ["r", "g", "b"], {"kind": "unary", "epsilon": 1.0})
SETS = local.Question.ask("colour", ["r", "g", "b"], {"kind": "subset", "epsilon": 1.0, "size": 1})
HASHES = local.Question.ask("colour", ["r", "g", "b"], {"kind": "hashing", "epsilon": 1.0})
ROUNDS = local.Question.ask("smokes", ["no", "yes"], {"kind": "sampling-privacy", "chances": [0.275, 0.275], "pi_s": 0.45})
OPEN = local.Question.ask("where", (), {"kind": "hashing", "epsilon": 1.0})


def refused(call, kind=SurveyError, says=None, hint=True):
    """The error of a call, which must be ours, be clear, and tell nothing."""
    with pytest.raises(SurveyError, match=says) as caught:
        call()
    error = caught.value
    assert isinstance(error, kind), type(error)
    assert bool(error.hint) or not hint
    told = "".join(traceback.format_exception_only(error)) + str(error) + json.dumps(error.to_dict())
    for behind in (error.__cause__, None if error.__suppress_context__ else error.__context__):
        told += "" if behind is None else str(behind)
    assert CANARY not in told
    return error


def table_of(question, reports, **columns):
    return {"question": [question.fingerprint] * len(reports), "report": list(reports), **columns}


GOOD = table_of(TWO, ["yes", "no", "yes", "no", "yes", "yes"], respondent=["a", "b", "c", "d", "e", "f"])


def with_column(name, values):
    return GOOD | {name: values}


# Mechanisms. ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.2, -0.1, 2, NAN, math.inf, "lots", "1/0", "3/2", None, True, [0.5], 1e-20])
def test_a_probability_that_is_none_is_refused_by_its_name(value):
    for make, name in (
        (lambda: local.warner(value), "p="),
        (lambda: local.two_coins(value, 0.5), "pi1="),
        (lambda: local.two_coins(0.5, value), "pi2="),
        (lambda: toy_noise(value), "pi_s="),
        (lambda: toy_deniability(0.5, 0.5, value), "pi2="),
        (lambda: local.sampling_privacy([0.5, value], 0.5), "pi_1="),
        (lambda: local.round_two([0.5, 0.5], value), "pi_s="),
    ):
        error = refused(make, BadValue, "probability", hint=False)
        assert error.given.startswith(name)


@pytest.mark.parametrize(("chances", "pi_s"), [([0.3, 0.5], 0.45), ([0.2, 0.2], 0.45), ([0.1, 0.1], 0.1), ([1, 1], 1)])
def test_a_die_whose_faces_do_not_add_up_to_one_is_refused(chances, pi_s):
    for make in (local.sampling_privacy, local.round_two):
        refused(lambda make=make: make(chances, pi_s), BadValue, "do not add up to one", hint=False)
    refused(lambda: local.guarded(chances, pi_s, epsilon=1.0), BadValue, "do not add up to one", hint=False)


def test_a_die_is_exact_where_decimals_of_binary_numbers_would_not_be():
    # 0.1 + 0.2 is not 0.3 in binary numbers; as they were written these faces are exactly a die.
    assert local.sampling_privacy([0.1, 0.2, 0.3], 0.4).k == 3


def test_dice_that_sample_nobody_or_have_one_face_are_refused():
    refused(lambda: local.sampling_privacy([0.5, 0.5], 0), BadValue, "nobody is sampled", hint=False)
    refused(lambda: local.sampling_privacy([0.5], 0.5), BadValue, "at least two outputs", hint=False)
    refused(lambda: local.guarded([0.3, 0.3], 0.4, epsilon=1.0, aggregators=1), BadValue, "two or more aggregators", hint=False)


@pytest.mark.parametrize("epsilon", [0, -1.0, NAN, math.inf, "1", None, True, 1e-300])
@pytest.mark.parametrize("kind", ["generalised", "unary", "hashing", "subset"])
def test_an_epsilon_that_is_none_is_refused(kind, epsilon):
    refused(lambda: getattr(local, kind)(3, epsilon), BadValue, "epsilon", hint=False)


@pytest.mark.parametrize("k", [1, 0, -3, 2.5, True, "3"])
@pytest.mark.parametrize("kind", ["generalised", "unary", "subset"])
def test_a_number_of_categories_that_asks_nothing_is_refused(kind, k):
    refused(lambda: getattr(local, kind)(k, 1.0), BadValue, "categories", hint=False)


def test_sizes_buckets_and_primes_that_do_not_fit_are_refused():
    for size in (-1, 5, 7):
        refused(lambda size=size: local.subset(5, 1.0, size), BadValue, "smaller than the list", hint=False)
    for buckets in (1, 2**16, -4):
        refused(lambda buckets=buckets: local.hashing(5, 1.0, buckets), BadValue, "buckets", hint=False)
    for prime in (4, 9, 2**31, 2**61 - 3):
        refused(lambda prime=prime: LocalHashing(3, 1.0, 2, prime), BadValue, "needs a prime")
    refused(lambda: LocalHashing(8, 1.0, 2, 7), BadValue, "more categories than", hint=False)
    # Labels of an open domain are numbers up to 2^61: a smaller prime would run over.
    refused(lambda: LocalHashing(0, 1.0, prime=2**31 - 1), BadValue, "hash family", hint=False)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "warnr", "p": 0.75}, "unknown kind"),
        ({"kind": ["warner"], "p": 0.75}, "unknown kind"),
        ({"p": 0.75}, "unknown kind"),
        ({"kind": "warner", "q": 0.75}, "unknown key 'q'"),
        ({"kind": "generalised", "k": 3}, "'epsilon' is missing"),
        ({"kind": "subset", "k": 4, "epsilon": 1.0, "size": "2"}, "set is smaller"),
        ({"kind": "round-two", "chances": 0.5, "pi_s": 0.5}, "round-two"),
        ({"kind": "two-coins", "pi1": 0.5, "pi2": 0.5, "k": 3}, "two categories"),
    ],
)
def test_a_mechanism_that_is_written_down_wrongly_says_what_is_wrong(fields, says):
    refused(lambda: local.mechanism_from(fields), BadValue, says, hint=False)


def test_no_guarantee_rounds_epsilon_down():
    # 2.990161 is not 2.99.
    told = local.two_coins(0.85, 0.3).reports_guarantee
    number = float(told.split("epsilon ")[1].split(" ")[0])
    assert local.two_coins(0.85, 0.3).epsilon <= number < 2.9912


@pytest.mark.parametrize("local_epsilon", [50.0, 800.0])
def test_shuffling_hardly_private_reports_gives_a_number(local_epsilon):
    curve = Shuffled(10, local_epsilon)
    assert 0.0 < curve.epsilon(1e-6) <= local_epsilon
    assert 0.0 < curve.delta(local_epsilon / 2) <= 1.0


# Questions. -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("categories", "says"),
    [
        (["no", "no"], "different"),
        (["no", " "], "non-empty"),
        (["no", 3], "texts"),
        (["no", "(no answer)"], "names of our own"),
        (["no", "(silent)"], "names of our own"),
        (["no", "yes", "maybe"], "two categories|another number"),
    ],
)
def test_categories_that_are_no_list_of_texts_are_refused(categories, says):
    refused(lambda: local.Question.ask("q", categories, local.warner(0.75)), BadValue, says, hint=False)


def test_questions_without_a_name_a_list_or_a_fitting_mechanism_are_refused():
    refused(lambda: local.Question.ask("", ["no", "yes"], local.warner(0.75)), BadValue, "name")
    refused(lambda: local.Question.ask("q", (), local.warner(0.75)), BadValue, "not listed")
    refused(lambda: local.Question.ask("q", (), {"kind": "hashing", "epsilon": 1}, no_answer=True), BadValue, "open domain")
    refused(
        lambda: local.Question.ask("q", ["a", "b"], {"kind": "unary", "epsilon": 1, "k": 3}),
        BadValue,
        "another number",
        hint=False,
    )
    refused(lambda: local.Question.from_dict({"name": "q", "mechanism": 3}), BadValue, "table of keys")
    refused(lambda: local.Question.from_dict({"name": "q", "mechanizm": {}}), BadValue, "unknown key 'mechanizm'")
    refused(
        lambda: local.Question.from_dict({"name": "q", "categories": "no", "mechanism": {"kind": "warner", "p": 0.7}}),
        BadValue,
        "list of texts",
    )


def test_question_files_that_are_missing_or_torn_are_refused(tmp_path):
    refused(lambda: local.Question.read(tmp_path / "none.toml"), NotFound, "no file")
    for name, content in (("q.toml", 'name = "q'), ("q.json", '{"name": '), ("q.toml", "name = \xff")):
        (tmp_path / name).write_bytes(content.encode("latin-1"))
        refused(lambda name=name: local.Question.read(tmp_path / name), BadValue, "not a question file", hint=False)


# Answers. ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [CANARY, "", None, 3, 1.5, "YES", ["no"]])
def test_an_answer_that_is_no_category_is_refused_and_not_repeated(answer):
    refused(lambda: TWO.randomize(answer), BadValue, "none of the categories" if answer else "an answer is missing", hint=True)


def test_one_bad_answer_in_a_table_gives_no_reports_at_all():
    for answers, says in ((["yes", CANARY], "none of the categories"), (["yes", None], "an answer is missing")):
        refused(lambda answers=answers: local.randomize_table(TWO, {"a": answers}, answer="a"), BadValue, says)
    # The known labels of the question are public, and named.
    error = refused(lambda: local.randomize_table(TWO, {"a": [CANARY]}, answer="a"), BadValue)
    assert "'no', 'yes'" in error.hint


@pytest.mark.parametrize("answers", [[1, CANARY], [CANARY, 2.5], [[CANARY], [1]], [{"x": CANARY}, 1]])
def test_answers_of_several_kinds_are_refused_without_a_value(answers):
    refused(lambda: local.randomize_table(TWO, {"a": answers}, answer="a"), SurveyError, hint=False)
    frame = pandas.DataFrame({"a": pandas.Series(answers, dtype=object)})
    refused(lambda: local.randomize_table(TWO, frame, answer="a"), SurveyError, hint=False)


def test_numbers_and_places_that_lie_nowhere_are_refused_without_a_value():
    ages = local.Question.ask("age", local.Ranges(0, 100, 25), {"kind": "generalised", "epsilon": 1})
    for answer in (CANARY, None, NAN, math.inf, -1, 101, 10**400):
        refused(lambda answer=answer: ages.randomize(answer), BadValue, "number|outside|missing")
    error = refused(lambda: local.randomize_table(ages, {"a": ["12", "761234.5"]}, answer="a"), BadValue)
    assert "761234" not in str(error)
    place = local.Question.ask("where", local.Grid("20 km", box=(48.7, 2.1, 49.0, 2.6)), {"kind": "generalised", "epsilon": 1})
    for answer in ((91.0, 0.0), (0.0, 181.0), (NAN, 0.0), (CANARY, 2.0), CANARY, 12.5, (1.0,), None):
        refused(lambda answer=answer: place.randomize(answer), BadValue, hint=False)


def test_a_missing_place_is_a_missing_answer_where_that_is_a_category():
    place = local.Question.ask(
        "where", local.Grid("20 km", box=(48.7, 2.1, 49.0, 2.6)), {"kind": "generalised", "epsilon": 1}, no_answer=True
    )
    table = local.randomize_table(place, {"la": [48.8, None], "lo": [2.3, None]}, answer=("la", "lo"))
    assert table.num_rows == 2
    refused(lambda: local.randomize_table(place, {"la": [48.8], "lo": [None]}, answer=("la", "lo")), BadValue, hint=False)


def test_tables_of_answers_without_what_is_needed_are_refused():
    answers = {"a": ["yes", "no"], "round": [1, 2]}
    refused(lambda: local.randomize_table(TWO, answers, answer="b"), NotFound, "answer='b'")
    refused(lambda: local.randomize_table(TWO, answers, answer="a", keep=["w"]), NotFound, "keep='w'")
    refused(lambda: local.randomize_table(TWO, answers, answer="a", respondent="w"), NotFound, "respondent='w'")
    refused(lambda: local.randomize_table(TWO, answers, answer="a", keep=["round"]), BadValue, "cannot be called")
    refused(lambda: local.randomize_table(TWO, answers, answer=("a", "round")), BadValue, "one column")
    refused(lambda: local.randomize_table(ROUNDS, answers, answer="a"), BadValue, "told apart by respondent")
    refused(lambda: local.randomize_table(TWO, [["yes"]], answer="a"), BadValue, "cannot read rows")


# Reports. ---------------------------------------------------------------------------------------------------------------


def test_the_good_table_that_all_others_are_made_from_is_taken():
    assert local.estimate(TWO, GOOD).n == 6
    for frame in (pandas.DataFrame(GOOD), pandas.DataFrame(GOOD).astype("category"), polars.DataFrame(GOOD), pa.table(GOOD)):
        assert local.estimate(TWO, frame).rows == local.estimate(TWO, GOOD).rows


@pytest.mark.parametrize(
    "other",
    [
        local.Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.74}),
        local.Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75}, text="Do you smoke?"),
        local.Question.ask("smokes", ["yes", "no"], {"kind": "warner", "p": 0.75}),
        local.Question.ask("drinks", ["no", "yes"], {"kind": "warner", "p": 0.75}),
    ],
    ids=["mechanism", "wording", "order", "name"],
)
def test_one_report_of_another_question_refuses_all(other):
    assert other.fingerprint != TWO.fingerprint
    for prints in ([TWO.fingerprint] * 5 + [other.fingerprint], [TWO.fingerprint] * 5 + [None], [CANARY] * 6):
        refused(lambda prints=prints: local.estimate(TWO, with_column("question", prints)), BadData, "another question")
    # Nor can a collection of one question be estimated as another.
    refused(lambda: local.estimate(other, local.collect(TWO, GOOD)), BadValue, "another question", hint=False)


def test_a_report_that_is_no_category_is_refused_and_not_repeated():
    for report in (CANARY, "YES", "y", " yes"):
        refused(lambda report=report: local.estimate(TWO, table_of(TWO, ["yes", report])), BadData, "none of the categories")
    for report in (None,):
        refused(lambda report=report: local.estimate(TWO, table_of(TWO, ["yes", report])), BadData, "empty")


@pytest.mark.parametrize("question", [BITS, SETS, HASHES], ids=lambda question: question.mechanism.kind)
def test_words_of_the_wrong_length_or_with_other_characters_are_refused(question):
    good = question.randomize("g")
    width = 2 * question.mechanism.word_bytes
    assert len(good) == width
    for wrong in (good[:-1], good + "0", "", CANARY):
        refused(lambda wrong=wrong: local.estimate(question, table_of(question, [good, wrong])), BadData, "length|empty")
    for wrong in ("g" * width, "A" * width, " " * width, "é" * (width // 2)):
        refused(lambda wrong=wrong: local.estimate(question, table_of(question, [good, wrong])), BadData, "digits")


@pytest.mark.parametrize(
    ("question", "words"),
    [(BITS, ["ff", "01", "10"]), (SETS, ["c0", "00", "10"]), (HASHES, ["ff" * 10, "7fffffff" + "00" * 6, "00" * 8 + "ffff"])],
    ids=["unary", "subset", "hashing"],
)
def test_words_that_no_client_sends_are_refused(question, words):
    for word in words:
        refused(lambda word=word: local.estimate(question, table_of(question, [word])), BadData)


def test_a_respondent_answers_once():
    copied = with_column("respondent", ["a", "b", "c", "d", "e", "a"])
    refused(lambda: local.estimate(TWO, copied), BadData, "more than one report")
    refused(lambda: local.estimate(TWO, with_column("respondent", [CANARY] * 6)), BadData, "more than one report")
    refused(lambda: local.estimate(TWO, with_column("respondent", ["a", "b", "c", "d", "e", None])), BadData, "whose it is")


def rounds(*rows):
    """A table of two rounds from (respondent, round, report)."""
    who, turn, report = zip(*rows, strict=True)
    return table_of(ROUNDS, report, respondent=list(who), round=list(turn))


FIRST = [("a", 1, "no"), ("b", 1, "yes"), ("c", 1, "no")]
SECOND = [("b", 2, "yes"), ("c", 2, "no"), ("a", 2, "yes")]


def test_a_respondent_answers_once_in_a_round():
    refused(lambda: local.estimate(ROUNDS, rounds(*FIRST, *SECOND, ("a", 2, "no"))), BadData, "more than one report in a round")
    refused(lambda: local.estimate(ROUNDS, rounds(*FIRST, *SECOND, (CANARY, 1, "no"), (CANARY, 1, "no"))), BadData, "in a round")
    refused(lambda: local.estimate(ROUNDS, rounds(*FIRST, ("a", 3, "no"))), BadData, "no round")
    refused(lambda: local.estimate(ROUNDS, table_of(ROUNDS, ["no", "yes"], round=[1, 2])), BadData, "respondent", hint=False)
    refused(lambda: local.estimate(ROUNDS, table_of(ROUNDS, ["no", "yes"], respondent=["a", "a"])), NotFound, "round")


def test_respondents_of_one_round_only_are_left_out_of_both_and_the_notes_say_so():
    whole = local.estimate(ROUNDS, rounds(*FIRST, *SECOND))
    assert whole.n == 3
    assert not any("left out" in note for note in whole.notes)
    # d reports in round one only, e in round two only: nothing of theirs counts, wherever their rows stand.
    torn = rounds(("e", 2, "yes"), *FIRST, ("d", 1, "yes"), *SECOND)
    found = local.estimate(ROUNDS, torn)
    assert found.n == 3
    assert found.rows == whole.rows
    assert "2 respondents of one round only are left out of both" in found.notes
    assert local.collect(ROUNDS, torn).dropped == 2
    assert local.estimate(ROUNDS, torn, expect=5).n == 3
    refused(lambda: local.estimate(ROUNDS, torn, expect=3), BadData, "expected", hint=False)
    refused(lambda: local.estimate(ROUNDS, rounds(*FIRST)), BadData, "no reports", hint=False)


def test_as_many_respondents_as_expected_or_none_at_all():
    assert local.estimate(TWO, GOOD, expect=6).n == 6
    for expect in (5, 7, 0):
        refused(lambda expect=expect: local.estimate(TWO, GOOD, expect=expect), BadData, "expected", hint=False)
        refused(lambda expect=expect: local.estimate(TWO, local.collect(TWO, GOOD), expect=expect), BadData, hint=False)


@pytest.mark.parametrize("missing", ["question", "report"])
def test_a_table_without_its_columns_is_refused(missing):
    torn = {name: column for name, column in GOOD.items() if name != missing}
    refused(lambda: local.estimate(TWO, torn), BadData, "not a table of reports")


def test_a_table_whose_columns_differ_in_length_is_refused():
    refused(lambda: local.estimate(TWO, {"question": [TWO.fingerprint], "report": [CANARY, "no"]}), SurveyError, hint=False)


# Files. -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "reports.csv"
    pyarrow.csv.write_csv(pa.table(GOOD), path)
    return path


def test_a_file_that_was_cut_off_is_refused_wherever_it_was_cut(csv, tmp_path):
    whole = csv.read_bytes()
    assert local.estimate(TWO, csv).n == 6
    cut = tmp_path / "cut.csv"
    lines = {place + 1 for place, byte in enumerate(whole) if byte == ord("\n")}
    for length in range(1, len(whole)):
        cut.write_bytes(whole[:length])
        if length in lines:
            # Whole lines are a shorter file, which only the number of respondents tells apart.
            refused(lambda: local.estimate(TWO, cut, expect=6), BadData, hint=False)
        else:
            refused(lambda: local.estimate(TWO, cut, expect=6), BadData, "cut off")


def test_a_short_row_in_the_middle_is_refused_without_a_value(csv):
    lines = csv.read_text().splitlines()
    for torn in (lines[2].rsplit(",", 1)[0], lines[2][:7], f"{CANARY},x", f"{lines[2]},{CANARY}"):
        csv.write_text("\n".join([*lines[:2], torn, *lines[3:]]) + "\n")
        # An opened quotation mark swallows what follows, and makes another fingerprint of it.
        refused(lambda: local.estimate(TWO, csv), BadData, "cannot be read|another question|line break", hint=False)


def test_a_torn_parquet_file_is_refused(tmp_path):
    path = tmp_path / "reports.parquet"
    pyarrow.parquet.write_table(pa.table(GOOD), path)
    whole = path.read_bytes()
    assert local.estimate(TWO, path).n == 6
    for length in (0, 3, 4, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(lambda: local.estimate(TWO, path), BadData, "cannot be read", hint=False)


def test_files_that_are_empty_missing_or_of_another_kind_are_refused(tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_bytes(b"")
    refused(lambda: local.estimate(TWO, empty), BadData, "empty")
    empty.write_bytes(b"\n")
    refused(lambda: local.estimate(TWO, empty), BadData, "cannot be read", hint=False)
    empty.write_bytes(b"question,respondent,report\n")
    refused(lambda: local.estimate(TWO, empty), BadData, "no reports", hint=False)
    empty.write_bytes(b"question,report,report\nx,y,z\n")
    refused(lambda: local.estimate(TWO, empty), BadData, "twice", hint=False)
    empty.write_bytes(b"question,report\n\xff\xfe,\xff\n")
    refused(lambda: local.estimate(TWO, empty), BadData, hint=False)
    refused(lambda: local.estimate(TWO, tmp_path / "none.csv"), NotFound, "no file", hint=False)
    refused(lambda: local.estimate(TWO, tmp_path / "reports.xlsx"), BadValue, "cannot read or write")
    refused(lambda: local.estimate(TWO, 3), BadValue, "cannot read rows")


def test_a_saved_estimate_overwrites_nothing(tmp_path):
    found = local.estimate(TWO, GOOD)
    for name in ("e.json", "e.csv", "e.parquet"):
        found.save(tmp_path / name)
        held = (tmp_path / name).read_bytes()
        refused(lambda name=name: found.save(tmp_path / name), BadValue, "exists already")
        assert (tmp_path / name).read_bytes() == held
    refused(lambda: found.save(tmp_path / "no" / "e.csv"), NotFound, "no folder", hint=False)
    assert {path.name for path in tmp_path.iterdir()} == {"e.json", "e.csv", "e.parquet"}


# What is asked of the estimate. -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[1.0, 2.0, NAN, 1.0, 1.0, 1.0], [1, 2, None, 1, 1, 1], ["1", CANARY, "1", "1", "1", "1"]])
@pytest.mark.parametrize("role", ["weights", "probs", "fpc"])
def test_a_weight_that_is_no_number_is_refused(role, weights):
    refused(lambda: local.estimate(TWO, with_column("w", weights), **{role: "w"}), BadData, role, hint=False)


@pytest.mark.parametrize(
    "weights", [[1.0, 2.0, 0.0, 1.0, 1.0, 1.0], [1.0, 2.0, -1.0, 1.0, 1.0, 1.0], [1.0, math.inf, 1.0, 1.0, 1.0, 1.0]]
)
def test_weights_that_are_not_positive_and_finite_are_refused(weights):
    refused(lambda: local.estimate(TWO, with_column("w", weights), weights="w"), BadData, "weights", hint=False)


def test_a_probability_above_one_or_a_population_below_the_sample_is_refused():
    refused(lambda: local.estimate(TWO, with_column("p", [0.5] * 5 + [1.5]), probs="p"), BadData, "above 1", hint=False)
    refused(lambda: local.estimate(TWO, with_column("N", [5] * 6), fpc="N"), BadData, "smaller than the sample")
    refused(lambda: local.estimate(TWO, with_column("N", [7, 7, 7, 8, 8, 8]), fpc="N"), BadData, "varies")


@pytest.mark.parametrize("population", [5, 0, -1, True, NAN, "many", 6.5])
def test_a_population_smaller_than_those_who_answered_is_refused(population):
    refused(lambda: local.estimate(TWO, GOOD, population=population), BadValue, "population", hint=False)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.5, NAN, "x", None])
def test_a_level_out_of_range_is_refused(level):
    refused(lambda: local.estimate(TWO, GOOD, level=level), BadValue, "level")


def test_population_and_a_design_contradict_each_other():
    refused(lambda: local.estimate(TWO, with_column("w", [1.0] * 6), weights="w", population=9), BadValue, "simple random sample")
    refused(lambda: local.estimate(TWO, GOOD, strata="nowhere"), NotFound, "strata='nowhere'")


def test_candidates_go_with_an_open_domain_and_are_needed_there():
    table = local.randomize_table(OPEN, {"a": ["x", "y", CANARY]}, answer="a")
    assert len(local.estimate(OPEN, table, candidates=["x", "z"]).rows) == 2
    for candidates in (None, [], ["x", "x"]):
        refused(lambda candidates=candidates: local.estimate(OPEN, table, candidates=candidates), BadValue, "list of candidates")
    refused(lambda: local.estimate(TWO, GOOD, candidates=["yes"]), BadValue, "open domain")


def test_a_guarded_question_is_not_estimated_here():
    guarded = local.Question.ask("smokes", ["no", "yes"], local.guarded([0.275, 0.275], 0.45, epsilon=1.0))
    table = local.randomize_table(guarded, {"a": ["yes", "no"], "who": ["a", "b"]}, answer="a", respondent="who")
    refused(lambda: local.estimate(guarded, table), Refusal, "come from its aggregators")


def test_reports_that_say_nothing_are_not_estimated():
    silent = local.Question.ask("smokes", ["no", "yes"], toy_noise(0.4))
    refused(lambda: local.estimate(silent, table_of(silent, ["yes", "(silent)"])), Refusal, "cannot be estimated")


@pytest.mark.parametrize("lonely", ["adjust", "certainty"])
def test_a_design_without_degrees_of_freedom_gives_no_interval(lonely):
    strata = with_column("h", list("abcdef"))
    refused(lambda: local.estimate(TWO, strata, strata="h", lonely=lonely), BadData)
    refused(lambda: local.estimate(TWO, strata, strata="h"), BadData, "one sampled unit")
    one = table_of(TWO, ["yes"], p=[0.5])
    refused(lambda: local.estimate(TWO, one, probs="p", sampling="poisson"), BadData)


def test_nonresponse_classes_need_totals_that_fit():
    classes = with_column("c", ["n", "n", "n", "s", "s", "s"])

    def ask(totals, **more):
        return local.estimate(TWO, classes, classes="c", class_totals=totals, **more)

    assert ask({"n": 4.0, "s": 5.0}).n == 6
    refused(lambda: ask(None), BadValue, "weights of everybody drawn")
    refused(lambda: ask({"n": 4.0}), BadData, "not those with known weights")
    refused(lambda: ask({"n": 4.0, "s": 5.0, "w": 1.0}), BadData, "not those with known weights")
    for total in (2.0, -1.0):
        refused(lambda total=total: ask({"n": total, "s": 5.0}), BadData, "more weight answered")
    for total in (NAN, "4"):
        refused(lambda total=total: ask({"n": total, "s": 5.0}), BadValue, "are numbers", hint=False)
    refused(lambda: local.estimate(TWO, GOOD, calibrate={"region": {"n": 3.0}}), NotFound, "no column")
    refused(lambda: local.estimate(TWO, classes, calibrate={"c": {"n": 3.0}}), SurveyError, hint=False)


def test_no_report_or_respondent_appears_in_what_an_estimate_says():
    table = with_column("respondent", [f"{CANARY}-{number}" for number in range(6)])
    found = local.estimate(TWO, table)
    told = str(found) + json.dumps(found.to_dict())
    assert CANARY not in told
    assert np.isfinite([row["estimate"] for row in found.rows]).all()


def test_an_open_quote_does_not_swallow_reports(tmp_path):
    rows = [f"{TWO.fingerprint},no,b"] * 50
    for first in (f'{TWO.fingerprint},yes,"x', f'{TWO.fingerprint},yes,"x\ny"'):
        path = tmp_path / "r.csv"
        path.write_text("\n".join(["question,report,note", first, *rows]) + "\n")
        refused(lambda path=path: local.estimate(TWO, path), BadData, "line break")


def test_options_of_a_design_that_are_misspelt_are_refused_even_where_they_are_not_used():
    refused(lambda: local.estimate(TWO, GOOD, sampling="poison"), BadValue, "unknown way of sampling")
    refused(lambda: local.estimate(TWO, GOOD, sampling="poisson"), BadValue, "needs a column")
    refused(lambda: local.estimate(TWO, GOOD, lonely="foo"), BadValue, "unknown rule")


def test_one_report_estimates_nothing():
    refused(lambda: local.estimate(TWO, table_of(TWO, ["yes"])), BadData, "one report")
    grouped = with_column("g", ["a"] * 5 + ["b"])
    refused(lambda: local.estimate(TWO, grouped, by="g"), BadData, "one report")


def test_answers_are_never_carried_along_and_respondents_are_told_apart_before_anything_is_spent():
    answers = {"a": ["yes", "no"], "id": [1, 1], "w": [1.0, 2.0]}
    refused(lambda: local.randomize_table(TWO, answers, answer="a", keep=["a"]), BadValue, "cannot be carried along", hint=False)
    refused(lambda: local.randomize_table(TWO, answers, answer="a", respondent="id"), BadData, "does not tell them apart")
    refused(lambda: local.randomize_table(TWO, {"a": []}, answer="a"), BadData, "no answers", hint=False)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        {"name": " ", "categories": ["no", "yes"], "mechanism": {"kind": "warner", "p": 0.75}},
        {"name": "q", "categories": ["no", "yes"], "no_answer": "no", "mechanism": {"kind": "warner", "p": 0.75}},
        {"name": "q", "categories": ["no", "no "], "mechanism": {"kind": "warner", "p": 0.75}},
        {"name": "q", "categories": ["caf\u00e9", "cafe\u0301"], "mechanism": {"kind": "warner", "p": 0.75}},
        {"name": "q", "categories": ["no", "y\nes"], "mechanism": {"kind": "warner", "p": 0.75}},
        {"name": "q", "ranges": 5, "mechanism": {"kind": "best", "epsilon": 1}},
        {"name": "q", "ranges": {"edges": [0, 5, 3]}, "mechanism": {"kind": "best", "epsilon": 1}},
        {"name": "q", "ranges": {"edges": [0, 5], "low": 1}, "mechanism": {"kind": "best", "epsilon": 1}},
        {"name": "q", "ranges": {"low": 0, "high": 1, "width": 1e-9}, "mechanism": {"kind": "best", "epsilon": 1}},
        {"name": "q", "grid": 5, "mechanism": {"kind": "best", "epsilon": 1}},
        {"name": "q", "categories": ["no", "yes"], "mechanism": {"kind": "guarded", "chances": ["0.3", "0.3"], "pi_s": "0.4"}},
        {"name": "q", "categories": ["no", "yes"], "mechanism": {"kind": "warner", "p": "1e-3000000"}},
        {"name": "q", "categories": ["no", "yes"], "mechanism": {"kind": "generalised", "epsilon": 10**400}},
        {"name": "q", "categories": ["no", "yes"], "mechanism": {"kind": "hashing", "epsilon": 1, "buckets": 2.5}},
        {"name": "q", "categories": ["a", "b", "c"], "mechanism": {"kind": "toy-noise", "pi_s": "0.4", "k": 3}},
    ],
)
def test_question_files_with_odd_values_are_refused(fields):
    refused(lambda: local.Question.from_dict(fields), BadValue, hint=False)


def test_one_and_one_point_nought_are_one_question():
    one, other = (
        local.Question.from_dict(
            {"name": "q", "categories": ["a", "b"], "mechanism": {"kind": "generalised", "epsilon": epsilon}}
        )
        for epsilon in (1, 1.0)
    )
    assert one.fingerprint == other.fingerprint
