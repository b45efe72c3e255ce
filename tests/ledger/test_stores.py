"""A ledger keeps the same guarantees in a SQLite file and on a PostgreSQL server."""

import json
import math
import sqlite3
import uuid

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.errors import AlreadyReleased, BudgetExceeded, LedgerBroken, LedgerDisagrees, NotFound
from dpsurvey.ledger import SealedSample, panel
from dpsurvey.ledger.store import Store

SIZE = 200
ADD = ds.Setting("frame", neighbours="add-remove")
INCOME = ds.mean("income", bounds=(0, 100))
TOTAL = ds.total("income", bounds=(0, 100))


def schema():
    return f"stores_{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "books.ledger")
    return f"{request.getfixturevalue('postgres')}#{schema()}"


@pytest.fixture
def register(tmp_path):
    income = np.random.default_rng(5).uniform(0, 100, SIZE)
    pa.parquet.write_table(pa.table({"id": range(SIZE), "income": income}), tmp_path / "register.parquet")
    return tmp_path / "register.parquet"


def a_survey(place, register="register.parquet", *, name="lfs", epsilon=1.0, delta=0.0, **more):
    frame = ds.Frame(register, unit="id", size=SIZE)
    return ds.Survey(frame, ds.poisson(0.1), ADD, budget=ds.Budget(epsilon, delta), ledger=place, name=name, **more)


def pure(epsilon):
    return ds.PrivacyProfile.pure(epsilon, "add-remove")


def kinds(ledger):
    return [entry["kind"] for entry in ledger.entries()]


def raw(place, *statements):
    """What somebody does to the tables of a ledger who goes around it."""
    address, _, name = place.partition("#")
    connection = psycopg.connect(address, options=f"-c search_path={name}") if name else sqlite3.connect(address)
    try:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    finally:
        connection.close()


def roll_back(place, count):
    """The ledger as it was after so many entries."""
    on, off = ("enable", "disable") if "#" in place else ("", "")
    stop = f"alter table entries {off} trigger never_changes" if off else "drop trigger no_DELETE"
    start = [f"alter table entries {on} trigger never_changes"] if on else []
    raw(place, stop, f"delete from entries where seq > {count}", *start)


def test_opening_makes_a_ledger_and_opening_again_finds_it(place):
    with ds.Ledger(place) as first, ds.Ledger(place, must_exist=True) as second:
        assert first.stamp == second.stamp
        assert kinds(first) == ["made"]
        assert (first.surveys(), first.samples(), first.panels()) == ([], [], [])
    assert ds.verify_ledger(place).ok


def test_what_is_not_there_is_not_made_by_asking_for_it(place):
    for ask in (ds.verify_ledger, lambda place: ds.Ledger(place, must_exist=True)):
        for _ in range(2):
            with pytest.raises(NotFound, match="there is no ledger"):
                ask(place)


def test_a_survey_opens_once_and_keeps_its_terms(place):
    with ds.Ledger(place) as ledger:
        terms = a_survey(place).terms
        ledger.open_survey(terms)
        ledger.open_survey(terms)
        with pytest.raises(LedgerDisagrees, match="other terms") as caught:
            ledger.open_survey(a_survey(place, epsilon=2.0).terms)
        assert "budget" in caught.value.given
        assert (ledger.surveys(), kinds(ledger)) == (["lfs"], ["made", "opened"])
        assert ledger.terms("lfs").to_dict() == terms.to_dict()


def test_charges_are_reserved_then_committed_and_add_up(place):
    survey = a_survey(place)
    with ds.Ledger(place) as ledger:
        ledger.open_survey(survey.terms)
        plan = survey.plan(INCOME, share=0.5)
        release, sample = ledger.reserve(plan.request, None)
        assert [charge["state"] for charge in ledger.charges("lfs")] == ["reserved"]
        half = ledger.spending(survey.terms).spent
        with pytest.raises(AlreadyReleased, match="already released"):
            ledger.reserve(plan.request, sample)
        ledger.commit(release, "hash")
        with pytest.raises(LedgerDisagrees, match="no such reservation"):
            ledger.commit(release, "hash")
        ledger.book("lfs", pure(0.25), "a table made elsewhere", sample.id)
    with ds.Ledger(place) as again:
        assert [charge["state"] for charge in again.charges("lfs")] == ["committed", "reserved"]
        whole = survey.terms.in_sample_budget.epsilon(0.0)
        assert half == pytest.approx(math.log1p(0.1 * math.expm1(whole / 2)), rel=1e-9)
        together = math.log1p(0.1 * math.expm1(whole / 2 + 0.25))
        assert again.spending(survey.terms).spent == pytest.approx(together, rel=1e-9)


def test_a_whole_survey_is_drawn_released_and_stamped(place, register, tmp_path):
    survey = a_survey(place, register)
    sealed = survey.draw(tmp_path / "sample.parquet")
    with ds.Ledger(place) as ledger:
        assert ledger.sealed_sample("lfs") == sealed
        assert (sealed.path, len(sealed.key)) == (str(tmp_path / "sample.parquet"), 64)
        assert sealed.key not in json.dumps(ledger.entries())
    assert survey.what_if(survey.plan(INCOME, share=0.5)).fits
    first = survey.plan(INCOME, share=0.5).release()
    first.save(tmp_path / "release.json")
    a_survey(place, register).plan(TOTAL, share=0.5).release()
    with pytest.raises(BudgetExceeded, match="Short by"):
        survey.plan(INCOME, share=0.25).release()
    with pytest.raises(LedgerDisagrees, match="sealed already"):
        survey.draw(tmp_path / "again.parquet")
    with ds.Ledger(place) as ledger:
        spent = ["reserved", "committed"]
        assert kinds(ledger) == ["made", "checked", "opened", "sample", "checked", *spent, *spent], "what was checked stays so"
        ledger.note_check("a file")
        marks = [entry["body"]["fingerprint"] for entry in ledger.entries() if entry["kind"] == "checked"]
        assert len(marks) == 3
        assert [ledger.was_checked(name) for name in ("a file", "another", *marks)] == [True, *[False] * 4], "marks are keyed"
        stamp = first.to_dict()["ledger"]
        assert (stamp["id"], stamp["count"]) == (ledger.stamp["id"], 6)
        ledger.export(tmp_path / "export.txt")
    found = ds.verify_ledger(place, against=[tmp_path / "release.json", tmp_path / "export.txt"])
    assert found.ok, str(found)
    assert len(found.against) == 2
    assert ds.verify_ledger(tmp_path / "export.txt", against=[tmp_path / "release.json"]).ok
    assert sealed.key not in (tmp_path / "export.txt").read_text()
    assert sealed.path not in (tmp_path / "export.txt").read_text()


def test_a_check_is_noted_once(place):
    with ds.Ledger(place) as ledger:
        for _ in range(2):
            ledger.note_check("frame 1")
        assert ledger.was_checked("frame 1")
        assert kinds(ledger) == ["made", "checked"]


def test_budgets_of_the_agency_are_kept_and_only_lowered(place):
    surveys = [a_survey(place, name=name) for name in ("north", "south")]
    with ds.Ledger(place) as ledger:
        for survey in surveys:
            ledger.open_survey(survey.terms)
        ledger.set_budget(ADD, ds.Budget(1.5))
        ledger.set_budget(ADD, ds.Budget(1.25), per="year")
        with pytest.raises(LedgerDisagrees, match="never raised"):
            ledger.set_budget(ADD, ds.Budget(2.0))
        ledger.reserve(surveys[0].plan(INCOME).request, None)
        quote = ledger.quote(surveys[1].plan(INCOME).request)
        assert [level.whose.partition(" (")[0] for level in quote.levels] == ["", "the agency", "the agency for a year"]
        assert [level.fits for level in quote.levels] == [True, False, False]
        with pytest.raises(BudgetExceeded, match="of the agency"):
            ledger.reserve(surveys[1].plan(INCOME).request, None)
        assert [account.epsilon for account in ledger.accounts()] == pytest.approx([1.0], rel=1e-9)
        ledger.set_budget(ADD, ds.Budget(1.0))
    with ds.Ledger(place) as again:
        limits = {each["per"]: each["epsilon"] for each in again.tree()["accounts"][0]["budgets"]}
        assert limits == {"ever": 1.0, "year": 1.25}


def test_a_panel_is_settled_before_its_first_wave_and_refuses_what_it_did_not_foresee(place, register, tmp_path):
    key = ds.Key(bytes(range(32)))
    made = panel("rotation", key, ADD, rate=0.1, waves=2, epsilon=1.2)
    with ds.Ledger(place) as ledger:
        ledger.open_panel(made)
        with pytest.raises(LedgerDisagrees, match="on record"):
            ledger.open_panel(made)
    waves = [a_survey(place, register, name=f"wave {number}") for number in (1, 2)]
    with pytest.raises(LedgerDisagrees, match="no such wave"):
        waves[0].draw(tmp_path / "no.parquet", key=key, start=0.5)
    for wave, window in zip(waves, made.windows, strict=True):
        wave.draw(tmp_path / f"{wave.terms.name}.parquet", key=key, start=window.start)
    waves[0].plan(INCOME).release()
    with pytest.raises(BudgetExceeded, match="the panel 'rotation'"):
        waves[1].plan(INCOME).release()
    with ds.Ledger(place) as again:
        assert again.panels() == [made]
        assert len(again.sharing_a_key()[key.commitment]) == 2


def test_a_closed_survey_spends_no_more(place):
    survey = a_survey(place)
    with ds.Ledger(place) as ledger:
        ledger.open_survey(survey.terms)
        ledger.close_survey("lfs", "the final release is out")
    with ds.Ledger(place) as again:
        with pytest.raises(LedgerDisagrees, match="is closed") as caught:
            again.reserve(survey.plan(INCOME).request, None)
        assert caught.value.because == "the final release is out"
        assert kinds(again) == ["made", "opened", "closed"]


def test_two_ledgers_open_on_one_store_see_each_other(place):
    survey = a_survey(place)
    with ds.Ledger(place) as one, ds.Ledger(place) as two:
        one.open_survey(survey.terms)
        release, sample = two.reserve(survey.plan(INCOME, share=0.75).request, None)
        with pytest.raises(BudgetExceeded):
            one.reserve(survey.plan(TOTAL, share=0.5).request, sample)
        one.commit(release, "hash")
        assert two.charges("lfs")[0]["state"] == "committed"
        assert one.stamp == two.stamp


def test_a_reader_sees_one_moment_while_others_write(place):
    with ds.Ledger(place) as ledger:
        store = Store(place)
        with store.reading() as connection:
            before = store.rows_after(connection)
            ledger.note_check("meanwhile")
            assert store.rows_after(connection) == before
        with store.reading() as connection:
            assert store.end(connection) == len(before) + 1
        store.close()


def test_a_sealed_sample_whose_key_was_changed_is_not_used(place):
    survey = a_survey(place)
    sample = SealedSample("a", "sample.parquet", "key", "commitment")
    with ds.Ledger(place) as ledger:
        ledger.open_survey(survey.terms)
        ledger.seal("lfs", sample, new=False)
        assert ledger.sealed_sample("lfs") == sample
        raw(place, "update files set key = 'other'")
        with pytest.raises(LedgerDisagrees, match="no longer knows the file"):
            ledger.sealed_sample("lfs")


@pytest.mark.parametrize("kind", ["file", "server"])
def test_a_ledger_that_its_anchor_is_ahead_of_refuses_to_spend(place, kind, tmp_path, request):
    anchor = str(tmp_path / "anchor") if kind == "file" else f"{request.getfixturevalue('postgres')}#{schema()}"
    with ds.Ledger(place) as ledger:
        assert ledger.anchor(anchor) == anchor
        ledger.open_survey(a_survey(place).terms)
        ledger.book("lfs", pure(0.5), "a table")
        assert ds.verify_ledger(place, against=[anchor]).ok
        count = ledger.stamp["count"]
    roll_back(place, count - 1)
    assert not ds.verify_ledger(place).damages, "what is left is whole: only the anchor knows"
    assert not ds.verify_ledger(place).ok
    found = ds.verify_ledger(place, against=[anchor])
    assert not found.ok
    assert "rolled back" in found.against[0]["what"]
    with ds.Ledger(place) as ledger:
        with pytest.raises(LedgerBroken, match="rolled back") as caught:
            ledger.book("lfs", pure(0.5), "another table")
        assert caught.value.exit_code == 1
        assert ledger.stamp["count"] == count - 1


def test_a_ledger_that_is_rolled_back_while_it_is_open_stops(place):
    with ds.Ledger(place) as ledger:
        ledger.note_check("a")
        roll_back(place, 1)
        with pytest.raises(LedgerBroken, match="rolled back while it was open"):
            ledger.note_check("b")


CHAINLESS = (
    "insert into entries select seq + 2, text, 'x' || hash from entries",
    "insert into entries select seq + 1, text, 'x' || hash from entries",
    "insert into entries values (2, '{\"seq\": 2}', 'x')",
    "insert into entries values (2, 'words', 'x')",
)


@pytest.mark.parametrize("statement", ["update entries set text = text", "delete from entries", "truncate entries", *CHAINLESS])
def test_the_server_refuses_what_does_not_continue_the_chain_even_from_the_owner(postgres, statement):
    place = f"{postgres}#{schema()}"
    ds.Ledger(place).close()
    with pytest.raises(psycopg.Error):
        raw(place, statement)
    assert ds.verify_ledger(place).count == 1


def test_a_file_refuses_changes_by_accident(tmp_path):
    place = str(tmp_path / "books.ledger")
    ds.Ledger(place).close()
    for statement in ("update entries set text = text", "delete from entries"):
        with pytest.raises(sqlite3.IntegrityError, match="added, never changed"):
            raw(place, statement)
