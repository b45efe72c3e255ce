"""The ledger writes a charge before rows are read, keeps it whatever happens, adds up truly, and can refuse."""

import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.errors import AlreadyReleased, BadData, BudgetExceeded, LedgerDisagrees, NotFound, UsageError
from dpsurvey.text.layout import ceiling_text, floor_text

SIZE = 1000
INCOME = ds.mean("income", bounds=(0, 100))
FEMALE = ds.proportion("sex", "female")
# log(1 + 0.1 (e^3 - 1)): in-sample epsilon 1 and 2 on one 10 % simple random sample.
ONE_AND_TWO = math.log1p(0.1 * math.expm1(3.0))


@pytest.fixture
def register(tmp_path):
    rng = np.random.default_rng(11)
    table = pa.table(
        {"id": pa.array(range(SIZE), pa.int64()), "sex": ["female", "male"] * (SIZE // 2), "income": rng.uniform(0, 100, SIZE)}
    )
    pa.parquet.write_table(table, tmp_path / "register.parquet")
    return tmp_path / "register.parquet"


@pytest.fixture
def books(tmp_path):
    return tmp_path / "books.ledger"


def a_survey(
    register, books, *, epsilon=ONE_AND_TWO + 1e-12, delta=0.0, rate=0.1, neighbours="replace-one", progress=None, name="lfs"
):
    frame = ds.Frame(register, unit="id", size=SIZE, categories={"sex": ["female", "male"]})
    setting = ds.Setting("frame", neighbours=neighbours)
    return ds.Survey(
        frame, ds.srs(rate=rate), setting, budget=ds.Budget(epsilon, delta), ledger=books, name=name, progress=progress
    )


def states(books, name="lfs"):
    return [entry["state"] for entry in ds.Ledger(books, must_exist=True).charges(name)]


def spent(survey):
    return ds.Ledger(survey.ledger_path, must_exist=True).spending(survey.terms).spent


def interrupt_at(step):
    def progress(what, done, total):
        if (what, done) == step:
            raise KeyboardInterrupt

    return progress


def test_the_charge_is_on_record_before_the_sample_is_taken_and_committed_after(register, books):
    seen = {}

    def progress(what, done, total):
        if os.path.exists(books):
            seen.setdefault((what, done), (states(books), spent(survey) if states(books) else 0.0))

    survey = a_survey(register, books, progress=progress)
    survey.plan(INCOME, share=0.5).release()
    assert seen["checking rows", 1] == ([], 0.0)
    assert seen["taking the sample", 0][0] == ["reserved"]
    assert seen["taking the sample", 0][1] == spent(survey) > 0.0
    assert seen["summing and adding noise", 1][0] == ["reserved"]
    assert states(books) == ["committed"]


def test_a_committed_charge_names_the_release_by_its_hash(register, books):
    release = a_survey(register, books).plan(INCOME, FEMALE).release()
    committed = [entry for entry in ds.Ledger(books).entries() if entry["kind"] == "committed"]
    assert [entry["body"]["release_hash"] for entry in committed] == [release.hash]
    assert states(books) == ["committed", "committed"]


@pytest.mark.parametrize("step", [("taking the sample", 0), ("taking the sample", 1), ("summing and adding noise", 0)])
def test_an_interrupted_release_stays_spent_and_the_ledger_opens_again(register, books, step):
    survey = a_survey(register, books, progress=interrupt_at(step))
    with pytest.raises(KeyboardInterrupt):
        survey.plan(INCOME, share=0.5).release()
    assert states(books) == ["reserved"]
    again = a_survey(register, books)
    assert spent(again) == pytest.approx(math.log1p(0.1 * math.expm1(1.5)), rel=1e-9)
    with pytest.raises(AlreadyReleased, match="interrupted") as caught:
        again.plan(INCOME, share=0.5).release()
    assert caught.value.exit_code == 1
    with pytest.raises(BudgetExceeded):
        again.plan(FEMALE, share=1.0).release()
    assert states(books) == ["reserved"]


def test_an_interruption_before_the_reservation_spends_nothing(register, books):
    with pytest.raises(KeyboardInterrupt):
        a_survey(register, books, progress=interrupt_at(("checking rows", 0))).plan(INCOME).release()
    assert states(books) == []
    assert len(a_survey(register, books).plan(INCOME).release().estimates) == 1


def without_its_column(register):
    table = pa.parquet.read_table(register)
    pa.parquet.write_table(table.drop_columns("income"), register)


def with_words_for_numbers(register):
    table = pa.parquet.read_table(register)
    pa.parquet.write_table(table.set_column(2, "income", pa.array(["much"] * SIZE)), register)


@pytest.mark.parametrize("spoil", [os.remove, without_its_column, with_words_for_numbers])
def test_a_failure_of_the_engine_after_the_reservation_stays_spent(register, books, spoil):
    def progress(what, done, total):
        if (what, done) == ("taking the sample", 0):
            spoil(register)

    survey = a_survey(register, books, progress=progress)
    with pytest.raises(BadData, match="the engine failed"):
        survey.plan(INCOME, share=0.25).release()
    assert states(books) == ["reserved"]
    assert spent(survey) == pytest.approx(math.log1p(0.1 * math.expm1(0.75)), rel=1e-9)


def test_a_release_continues_in_the_same_survey_after_an_interruption_and_is_charged_on_top(register, books):
    interrupt = [True]

    def progress(what, done, total):
        if what == "taking the sample" and interrupt.pop() if interrupt else False:
            raise KeyboardInterrupt

    survey = a_survey(register, books, progress=progress)
    with pytest.raises(KeyboardInterrupt):
        survey.plan(INCOME, share=0.5).release()
    survey.plan(FEMALE, share=0.5).release()
    assert states(books) == ["reserved", "committed"]
    assert spent(survey) == pytest.approx(ONE_AND_TWO, rel=1e-9)


KILLED = """
import os, signal, sys
import dpsurvey as ds

def progress(what, done, total):
    if (what, done) == ("summing and adding noise", 0):
        os.kill(os.getpid(), signal.SIGKILL)

frame = ds.Frame(sys.argv[1], unit="id", size=1000, categories={"sex": ["female", "male"]})
survey = ds.Survey(frame, ds.srs(rate=0.1), ds.Setting("frame", neighbours="replace-one"),
                   budget=ds.Budget(float(sys.argv[3])), ledger=sys.argv[2], name="lfs", progress=progress)
survey.plan(ds.mean("income", bounds=(0, 100)), share=0.5).release()
"""


def run(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_process_killed_after_the_reservation_leaves_a_ledger_that_counts_the_charge(register, books):
    survey = a_survey(register, books)
    process = run(KILLED, register, books, survey.terms.budget.epsilon)
    output = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, output
    assert states(books) == ["reserved"]
    assert spent(survey) == pytest.approx(math.log1p(0.1 * math.expm1(1.5)), rel=1e-9)
    with pytest.raises(AlreadyReleased):
        survey.plan(INCOME, share=0.5).release()
    survey.plan(FEMALE, share=0.25).release()
    assert states(books) == ["reserved", "committed"]


def test_two_releases_on_one_sample_compose_first_and_are_amplified_once(register, books):
    survey = a_survey(register, books)
    assert survey.terms.in_sample_budget.epsilon(0.0) == pytest.approx(3.0, rel=1e-9)
    first = survey.plan(INCOME, share=1 / 3).release()
    assert first.to_dict()["ledger"]["spent"] == pytest.approx(math.log1p(0.1 * math.expm1(1.0)), abs=1e-9)
    second = survey.plan(FEMALE, share=2 / 3).release()
    assert round(second.to_dict()["ledger"]["spent"], 10) == 1.0676559447
    assert round(second.to_dict()["guarantee"]["epsilon"], 10) == 1.0676559447
    assert round(second.to_dict()["guarantee"]["in_sample"]["epsilon"], 9) == 3.0
    each_amplified_apart = sum(math.log1p(0.1 * math.expm1(epsilon)) for epsilon in (1.0, 2.0))
    assert round(each_amplified_apart, 4) == 0.6526 < spent(survey)
    assert first.to_dict()["sample"]["id"] == second.to_dict()["sample"]["id"]


def test_a_second_sample_in_a_new_process_adds_its_own_amplified_loss(register, books):
    first = a_survey(register, books).plan(INCOME, share=0.5).release()
    second = a_survey(register, books).plan(FEMALE, share=0.5).release()
    assert first.to_dict()["sample"]["id"] != second.to_dict()["sample"]["id"]
    one = math.log1p(0.1 * math.expm1(1.5))
    assert spent(a_survey(register, books)) == pytest.approx(2 * one, rel=1e-9)
    assert [entry["epsilon"] for entry in second.to_dict()["ledger"]["samples"]] == pytest.approx([one, one], rel=1e-9)
    assert 2 * one < ONE_AND_TWO, "two samples lose less than one sample that is asked twice"


def test_a_budget_with_delta_covers_one_sample_and_refuses_a_second(register, books):
    def survey():
        return a_survey(register, books, epsilon=1.0, delta=1e-6)

    first = survey()
    first.plan(INCOME, share=0.5).release()
    with pytest.raises(BudgetExceeded, match="covers one sample"):
        survey().plan(FEMALE, share=0.25).release()
    first.plan(FEMALE, share=0.5).release()
    assert states(books) == ["committed", "committed"]
    assert spent(first) <= 1.0


@pytest.mark.parametrize("sealed_first", [True, False], ids=["sealed", "drawn in secret"])
def test_a_draw_that_would_strand_what_a_budget_with_delta_has_left_is_refused(register, books, tmp_path, sealed_first):
    """Its second sample could never be charged, and would stand before the first, which then could not be either."""
    survey = a_survey(register, books, epsilon=1.0, delta=1e-6)
    if sealed_first:
        survey.draw(tmp_path / "first.parquet")
    survey.plan(INCOME, share=0.5).release()
    with pytest.raises(LedgerDisagrees, match="covers one sample") as caught:
        survey.draw(tmp_path / "second.parquet", new=True)
    assert "survey with a name and a budget of its own" in caught.value.hint
    assert not (tmp_path / "second.parquet").exists()
    assert len(ds.Ledger(books).samples("lfs")) == 1
    survey.plan(FEMALE, share=0.5).release()
    assert states(books) == ["committed", "committed"]


def test_a_sample_that_was_charged_while_another_was_drawn_is_not_stranded(register, books, tmp_path):
    """Asked again under the lock: the draw had begun before anything was charged."""
    first = a_survey(register, books, epsilon=1.0, delta=1e-6)
    first.draw(tmp_path / "first.parquet")

    def release_meanwhile(what, done, total):
        if (what, done) == ("writing and sealing", 0):
            first.plan(INCOME, share=0.5).release()

    with pytest.raises(LedgerDisagrees, match="covers one sample"):
        a_survey(register, books, epsilon=1.0, delta=1e-6, progress=release_meanwhile).draw(tmp_path / "second.parquet", new=True)
    assert not (tmp_path / "second.parquet").exists()
    first.plan(FEMALE, share=0.5).release()


def test_an_uncharged_sample_under_a_delta_can_be_replaced(register, books, tmp_path):
    survey = a_survey(register, books, epsilon=1.0, delta=1e-6)
    survey.draw(tmp_path / "first.parquet")
    survey.draw(tmp_path / "second.parquet", new=True)
    survey.plan(INCOME, share=1.0).release()
    assert spent(survey) <= 1.0


def test_a_spent_budget_refuses_and_says_how_much_is_short(register, books):
    survey = a_survey(register, books)
    survey.plan(INCOME, share=2 / 3).release()
    before = spent(survey)
    with pytest.raises(BudgetExceeded) as caught:
        survey.plan(FEMALE, share=0.5).release()
    error = caught.value
    requested = math.log1p(0.1 * math.expm1(3.5)) - before
    assert error.exit_code == 1
    assert (error.requested, error.left) == pytest.approx((requested, ONE_AND_TWO - before), rel=1e-6)
    short = ceiling_text(error.requested - error.left, 6)
    assert f"Requested {ceiling_text(error.requested, 6)} / Left {floor_text(error.left, 6)} / Short by {short}" in str(error)
    assert (states(books), spent(survey)) == (["committed"], before)
    survey.plan(FEMALE, share=1 / 3).release()


def test_shares_that_add_up_to_one_fit_and_not_a_hair_more(register, books):
    survey = a_survey(register, books)
    for number in range(10):
        survey.plan(ds.mean("income", bounds=(0, 100 + number)), share=0.1).release()
    assert ONE_AND_TWO - 1e-9 < spent(survey) <= survey.terms.budget.epsilon
    with pytest.raises(BudgetExceeded):
        survey.plan(INCOME, share=1e-6).release()


def test_the_same_plan_is_released_once(register, books):
    survey = a_survey(register, books)
    survey.plan(INCOME, share=0.25).release()
    for other in (survey, a_survey(register, books)):
        with pytest.raises(AlreadyReleased, match="published") as caught:
            other.plan(INCOME, share=0.25).release()
        assert caught.value.exit_code == 1
    assert states(books) == ["committed"]
    survey.plan(INCOME, share=0.125).release()


RACER = """
import os, sys, time
import dpsurvey as ds

register, books, start, mine = sys.argv[1:5]
frame = ds.Frame(register, unit="id", size=1000, categories={"sex": ["female", "male"]})
survey = ds.Survey(frame, ds.srs(rate=0.1), ds.Setting("frame", neighbours="replace-one"),
                   budget=ds.Budget(float(sys.argv[5])), ledger=books, name="lfs")
ledger = ds.Ledger(books)
sample = ledger.sealed_sample("lfs")
plans = [survey.plan(ds.proportion("job", f"{mine}-{number}"), share=0.05) for number in range(15)]
print("ready", flush=True)
while not os.path.exists(start):
    time.sleep(0.001)
won = 0
for plan in plans:
    try:
        ledger.reserve(plan.request, sample)
        won += 1
    except ds.SurveyError as error:
        assert type(error).__name__ == "BudgetExceeded", error
print(won)
"""


def test_two_processes_that_reserve_at_once_never_overspend(register, books, tmp_path):
    survey = a_survey(register, books)
    survey.draw(tmp_path / "sample.parquet")
    racers = [run(RACER, register, books, tmp_path / "start", mine, survey.terms.budget.epsilon) for mine in ("a", "b")]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n", racer.communicate(timeout=60)
    (tmp_path / "start").touch()
    outputs = [racer.communicate(timeout=60) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], outputs
    won = [int(output) for output, _ in outputs]
    assert sum(won) == 20, "30 requests of one twentieth each: 20 fit"
    assert min(won) > 0, "both took part"
    assert len(states(books)) == 20
    assert spent(survey) <= survey.terms.budget.epsilon


CHANGES = {
    "budget": {"epsilon": 2.0},
    "design": {"rate": 0.2},
    "setting": {"neighbours": "add-remove"},
}


@pytest.mark.parametrize("changed", CHANGES)
def test_other_terms_under_the_same_name_are_refused(register, books, changed):
    survey = a_survey(register, books)
    survey.plan(INCOME, share=0.25).release()
    before = spent(survey)
    other = a_survey(register, books, **CHANGES[changed])
    with pytest.raises(LedgerDisagrees, match=changed) as caught:
        other.plan(FEMALE, share=0.25).release()
    assert caught.value.exit_code == 1
    assert (states(books), spent(survey)) == (["committed"], before)


def test_terms_come_back_from_the_ledger_as_they_went_in(register, books):
    survey = a_survey(register, books)
    survey.plan(INCOME, share=0.25).release()
    ledger = ds.Ledger(books, must_exist=True)
    assert ledger.surveys() == ["lfs"]
    assert ledger.terms("lfs").to_dict() == survey.terms.to_dict()
    assert ledger.spending(ledger.terms("lfs")).spent == spent(survey)
    with pytest.raises(NotFound, match="no survey"):
        ledger.terms("other")


def test_two_surveys_in_one_ledger_have_budgets_of_their_own(register, books):
    a_survey(register, books, name="first").plan(INCOME).release()
    second = a_survey(register, books, name="second")
    second.plan(INCOME).release()
    assert ds.Ledger(books).surveys() == ["first", "second"]
    assert spent(second) == pytest.approx(ONE_AND_TWO, rel=1e-9)


def test_a_survey_does_not_release_the_plan_of_another(register, books):
    # The plan of a rich survey would take its small noise to the sample of a poor one.
    poor, rich = (a_survey(register, books, epsilon=epsilon, name=name) for epsilon, name in ((0.1, "poor"), (50.0, "rich")))
    for survey in (poor, rich):
        survey.plan(FEMALE, share=0.25).release()
    before = spent(poor), spent(rich)
    with pytest.raises(ds.SurveyError):
        poor.release(rich.plan(INCOME, share=0.25))
    assert (spent(poor), spent(rich)) == before


def a_text_file(path):
    path.write_text("these are not books, only words " * 100)
    return path.read_bytes


def another_database(path):
    def content():
        connection = sqlite3.connect(path)
        lines = list(connection.iterdump())
        connection.close()
        return lines

    connection = sqlite3.connect(path)
    connection.execute("create table people (name text)")
    connection.execute("insert into people values ('somebody')")
    connection.commit()
    connection.close()
    return content


@pytest.mark.parametrize("make", [a_text_file, another_database])
def test_a_file_that_is_not_a_ledger_is_refused_and_left_as_it_is(register, books, make):
    content = make(books)
    before = content()
    survey = a_survey(register, books)
    with pytest.raises(ds.SurveyError, match="ledger") as caught:
        survey.plan(INCOME).release()
    assert caught.value.exit_code in (1, 2)
    assert content() == before


def test_a_ledger_in_a_folder_that_is_not_there_is_refused(register, tmp_path):
    for place in (tmp_path / "nowhere" / "books.ledger", register / "books.ledger", tmp_path):
        with pytest.raises(UsageError, match="the ledger cannot be") as caught:
            a_survey(register, place).plan(INCOME).release()
        assert caught.value.exit_code == 2
        assert str(place) in str(caught.value)
    with pytest.raises(NotFound, match="there is no ledger"):
        ds.Ledger(tmp_path / "nowhere.ledger", must_exist=True)


@pytest.fixture
def nobody():
    """For root, who may write anywhere, the identity of nobody in particular."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("closed")
    for place in (folder, *(each for each in folder.parents if each.name.startswith(("pytest-", "popen-")))):
        place.chmod(0o755)
    ds.Ledger(folder / "old.ledger").close()
    (folder / "old.ledger").chmod(0o444)
    folder.chmod(0o555)
    try:
        request.getfixturevalue("nobody")
        with pytest.raises(UsageError, match="the ledger cannot be made") as caught:
            ds.Ledger(folder / "new.ledger")
        assert "folder" in caught.value.hint
        with ds.Ledger(folder / "old.ledger") as ledger, pytest.raises(UsageError, match="cannot be written") as caught:
            ledger.set_budget(ds.Setting("frame", neighbours="add-remove"), ds.Budget(1.0))
        assert "folder" in caught.value.hint
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_ledger_of_a_later_version_is_refused_and_left_as_it_is(register, books):
    survey = a_survey(register, books)
    survey.plan(INCOME, share=0.25).release()
    with sqlite3.connect(books) as connection:
        connection.execute("update about set value = '99' where key = 'version'")
        connection.execute("drop table files")
    connection.close()
    with pytest.raises(LedgerDisagrees, match="version 99") as caught:
        survey.plan(FEMALE, share=0.25).release()
    assert caught.value.exit_code == 1
    with sqlite3.connect(books) as connection:
        assert connection.execute('select count(*) from entries where text like \'%"kind":"reserved"%\'').fetchone() == (1,)
        tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    connection.close()
    assert "files" not in tables, "a ledger that is not understood is not changed"


@pytest.mark.parametrize("place", ["", ":memory:"])
def test_a_ledger_that_would_forget_is_refused(register, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="ledger"):
        a_survey(register, place).plan(INCOME).release()


@pytest.mark.parametrize("name", ["what?.ledger", "100%20.ledger", "a#b.ledger", "with space & co.ledger"])
def test_a_ledger_is_the_file_that_was_named(tmp_path, name):
    ds.Ledger(tmp_path / name).close()
    assert (tmp_path / name).read_bytes().startswith(b"SQLite format 3")
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in tmp_path.iterdir()} == {name}


def test_a_ledger_waits_for_another_that_is_writing(register, books):
    survey = a_survey(register, books)
    survey.plan(INCOME, share=0.25).release()
    writer = sqlite3.connect(books, isolation_level=None, check_same_thread=False)
    writer.execute("begin immediate")
    started = time.monotonic()
    timer = threading.Timer(0.5, lambda: writer.execute("commit"))
    timer.start()
    survey.plan(FEMALE, share=0.25).release()
    timer.join()
    writer.close()
    assert time.monotonic() - started >= 0.4
    assert states(books) == ["committed", "committed"]
