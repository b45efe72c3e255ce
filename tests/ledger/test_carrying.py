"""A ledger that is moved, or taken in by another, loses nothing, counts nothing twice, and is never in two places at once."""

import json
import math
import os
import shutil
import uuid

import pytest

import dpsurvey as ds
from dpsurvey.errors import BudgetExceeded, LedgerBroken, LedgerDisagrees, NotFound
from dpsurvey.ledger import SealedSample, panel
from dpsurvey.ledger.journal import Journal

pytestmark = pytest.mark.quick

ADD = ds.Setting("frame", neighbours="add-remove")
RATE = 0.1


def terms(name, epsilon=1.0):
    frame = ds.Frame("register.parquet", unit="id", size=200)
    return ds.Survey(frame, ds.poisson(RATE), ADD, budget=ds.Budget(epsilon), ledger="none", name=name).terms


def pure(epsilon):
    return ds.PrivacyProfile.pure(epsilon, "add-remove")


def amplified(epsilon):
    return math.log1p(RATE * math.expm1(epsilon))


def a_ledger(place, *charges, name="lfs", key=None, start=None):
    """A ledger with one survey, one sealed sample, and what was charged to it."""
    with ds.Ledger(place) as ledger:
        ledger.open_survey(terms(name))
        sample = SealedSample(uuid.uuid4().hex, f"/samples/{name}.parquet", "key of the file", "commitment", key, start)
        ledger.seal(name, sample, new=False)
        for charge in charges:
            ledger.commit(ledger.book(name, pure(charge), "a table", sample.id), "hash")
    return str(place)


def entries(place):
    with ds.Ledger(place, must_exist=True) as ledger:
        return ledger.entries()


def spent(place, name="lfs"):
    with ds.Ledger(place, must_exist=True) as ledger:
        return ledger.spending(ledger.terms(name)).spent


def account(place, period="ever"):
    with ds.Ledger(place, must_exist=True) as ledger:
        (only,) = ledger.accounts(period)
        return only.epsilon


@pytest.fixture
def server(postgres):
    return lambda: f"{postgres}#carry_{uuid.uuid4().hex[:12]}"


def test_a_ledger_goes_to_a_server_and_back_word_for_word(tmp_path, server):
    first, second, third = a_ledger(tmp_path / "first", 0.5, 0.25), server(), str(tmp_path / "third")
    anchor = tmp_path / "anchor"
    with ds.Ledger(first) as ledger:
        ledger.anchor(anchor)
        ledger.note_check("frame")
        before, sealed, figures = ledger.entries(), ledger.sealed_sample("lfs"), ledger.tree()["surveys"]
        ledger.carry(second)
    with ds.Ledger(second) as ledger:
        ledger.book("lfs", pure(0.125), "made on the server", sealed.id)
        ledger.carry(third)
    chain = entries(third)
    assert chain[: len(before)] == before
    assert [entry["kind"] for entry in chain[len(before) :]] == ["carried", "arrived", "reserved", "carried", "arrived"]
    assert entries(second) == chain[:-1]
    assert entries(first) == chain[: len(before) + 1]
    with ds.Ledger(third) as ledger:
        assert ledger.sealed_sample("lfs") == sealed
        assert ledger.was_checked("frame")
        assert [charge["release"] for charge in ledger.charges("lfs")[:2]] == [
            charge["release"] for charge in figures[0]["charges"]
        ]
    assert spent(third) == pytest.approx(amplified(0.875), rel=1e-9)
    assert ds.verify_ledger(third, against=[anchor, first, third]).ok
    for old in (first, second):
        with ds.Ledger(old) as ledger, pytest.raises(LedgerDisagrees, match="carried to another place") as caught:
            ledger.book("lfs", pure(0.1), "a table")
        assert caught.value.exit_code == 1


def test_a_carry_that_was_interrupted_is_run_again_and_goes_nowhere_else(tmp_path, server):
    source, target = a_ledger(tmp_path / "source", 0.5), server()
    journal = Journal(source)
    with journal.writing() as pen:
        pen.write("carried", {"to": target.replace("survey@", "")})
    journal.store.close()
    with ds.Ledger(source) as ledger:
        with pytest.raises(LedgerDisagrees, match="carried to another place already"):
            ledger.carry(tmp_path / "elsewhere")
        first, second = ledger.carry(target), ledger.carry(target)
    assert first == second, "a carry that is complete stays as it is"
    assert [entry["kind"] for entry in entries(target)][-2:] == ["carried", "arrived"]
    assert spent(target) == pytest.approx(amplified(0.5), rel=1e-9)


def test_a_ledger_that_went_on_from_a_place_is_not_woken_up_there(tmp_path):
    first, second, third = a_ledger(tmp_path / "first", 0.5), tmp_path / "second", tmp_path / "third"
    for here, there in ((first, second), (second, third)):
        with ds.Ledger(here) as ledger:
            ledger.carry(there)
    with ds.Ledger(first) as ledger, pytest.raises(LedgerDisagrees, match="carried on from there"):
        ledger.carry(second)
    with ds.Ledger(second) as ledger, pytest.raises(LedgerDisagrees, match="carried to another place"):
        ledger.book("lfs", pure(0.1), "a table")
    with ds.Ledger(third) as ledger:
        ledger.book("lfs", pure(0.1), "a table")


def test_a_ledger_comes_home(tmp_path, server):
    home, away = a_ledger(tmp_path / "home", 0.5), server()
    with ds.Ledger(home) as ledger:
        ledger.carry(away)
    with ds.Ledger(away) as ledger:
        ledger.carry(home)
    with ds.Ledger(home) as ledger:
        ledger.book("lfs", pure(0.1), "a table")
    assert ds.verify_ledger(home, against=[home]).ok


def diverged(tmp_path, source):
    shutil.copy(source, tmp_path / "copy")
    with ds.Ledger(tmp_path / "copy") as ledger:
        ledger.book("lfs", pure(0.1), "a table")
    with ds.Ledger(source) as ledger:
        ledger.book("lfs", pure(0.2), "another table")
    return tmp_path / "copy"


def ahead(tmp_path, source):
    shutil.copy(source, tmp_path / "copy")
    with ds.Ledger(tmp_path / "copy") as ledger:
        ledger.book("lfs", pure(0.1), "a table")
    return tmp_path / "copy"


@pytest.mark.parametrize("make", [lambda tmp_path, _: a_ledger(tmp_path / "other", 0.1), diverged, ahead])
def test_a_ledger_is_not_carried_onto_another_and_stays_open(tmp_path, make):
    source = a_ledger(tmp_path / "source", 0.5)
    target = make(tmp_path, source)
    before = entries(source), entries(target)
    with ds.Ledger(source) as ledger:
        with pytest.raises(LedgerDisagrees, match="at that place"):
            ledger.carry(target)
        assert (entries(source), entries(target)) == before
        ledger.book("lfs", pure(0.1), "it goes on")


def test_after_a_merge_both_ledgers_count_in_one(tmp_path, server):
    north, south = a_ledger(server(), 0.5, name="north"), a_ledger(tmp_path / "south", 0.25, 0.5, name="south")
    with ds.Ledger(north) as ledger:
        ledger.set_budget(ADD, ds.Budget(0.4))
        brought = ledger.merge(south)
        assert ledger.surveys() == ["north", "south"]
        assert ledger.sealed_sample("south").path == "/samples/south.parquet"
        assert (spent(north, "north"), spent(north, "south")) == pytest.approx((amplified(0.5), amplified(0.75)), rel=1e-9)
        assert account(north) == pytest.approx(amplified(0.5) + amplified(0.75), rel=1e-9)
        with pytest.raises(BudgetExceeded, match="of the agency"):
            ledger.book("south", pure(1.5), "a table")
        assert brought == ledger.stamp
    assert ds.verify_ledger(north).ok
    with ds.Ledger(south) as ledger, pytest.raises(LedgerDisagrees, match="carried to another place"):
        ledger.book("south", pure(0.1), "a table")


def test_the_stricter_of_two_budgets_holds_after_a_merge(tmp_path):
    north, south = (a_ledger(tmp_path / name, 0.5, name=name) for name in ("north", "south"))
    for place, limit in ((north, 4.0), (south, 3.0)):
        with ds.Ledger(place) as ledger:
            ledger.set_budget(ADD, ds.Budget(limit))
    with ds.Ledger(north) as ledger:
        ledger.merge(south)
        assert ledger.tree()["accounts"][0]["budgets"][0]["epsilon"] == 3.0


def test_charges_keep_their_year_in_a_merge(tmp_path):
    north, south = a_ledger(tmp_path / "north", name="north"), a_ledger(tmp_path / "south", 0.25, name="south")
    journal = Journal(south)
    with journal.writing() as pen:
        (sample,) = journal.books.samples
        charges = [{"profile": pure(0.5).to_dict(), "asked": []}]
        body = {"release": "r", "survey": "south", "sample": sample, "fingerprint": "f", "charges": charges}
        pen.write("reserved", body, at="2024-05-01T00:00:00.000000+00:00")
        pen.write("clock", {"why": "back to today"})
    journal.store.close()
    with ds.Ledger(north) as ledger:
        ledger.merge(south)
    assert account(north, "2024") == pytest.approx(amplified(0.5), rel=1e-9)
    assert account(north) == pytest.approx(amplified(0.75), rel=1e-9)


def test_samples_of_one_key_in_two_ledgers_are_counted_jointly(tmp_path):
    north, south = (a_ledger(tmp_path / name, 1.0, name=name, key="k" * 64, start=0.0) for name in ("north", "south"))
    with ds.Ledger(north) as ledger:
        ledger.merge(south)
        assert len(ledger.sharing_a_key()["k" * 64]) == 2
    # Everybody in one sample is in the other: 2 inside, amplified once, is more than 1 amplified twice.
    assert account(north) == pytest.approx(amplified(2.0), rel=1e-9)
    assert account(north) > 2 * amplified(1.0)


def test_a_ledger_is_merged_once(tmp_path):
    north, south = (a_ledger(tmp_path / name, 0.5, name=name) for name in ("north", "south"))
    shutil.copy(south, tmp_path / "copy")
    with ds.Ledger(north) as ledger:
        ledger.merge(south)
        before = ledger.stamp
        for again in (south, tmp_path / "copy"):
            with pytest.raises(LedgerDisagrees, match="merged already"):
                ledger.merge(again, prefix="again ")
        assert ledger.stamp == before


def test_a_ledger_is_not_merged_with_itself_or_its_copy(tmp_path):
    north = a_ledger(tmp_path / "north", 0.5)
    shutil.copy(north, tmp_path / "copy")
    with ds.Ledger(north) as ledger:
        before = ledger.stamp
        for same in (north, tmp_path / "copy"):
            with pytest.raises(LedgerDisagrees, match="not merged with itself"):
                ledger.merge(same, prefix="again ")
        assert ledger.stamp == before
        with pytest.raises(NotFound, match="there is no ledger"):
            ledger.merge(tmp_path / "nowhere")


def test_a_merge_that_was_interrupted_is_run_again(tmp_path):
    north, south = (a_ledger(tmp_path / name, 0.5, name=name) for name in ("north", "south"))
    journal = Journal(south)
    with journal.writing() as pen:
        pen.write("carried", {"to": os.path.abspath(north)})
    journal.store.close()
    third = a_ledger(tmp_path / "third", name="third")
    with ds.Ledger(third) as ledger, pytest.raises(LedgerDisagrees, match="carried elsewhere"):
        ledger.merge(south)
    with ds.Ledger(north) as ledger:
        ledger.merge(south)
    assert account(north) == pytest.approx(2 * amplified(0.5), rel=1e-9)


def test_surveys_of_one_name_come_in_under_a_prefix(tmp_path):
    north, south = (a_ledger(tmp_path / place, epsilon) for place, epsilon in (("north", 0.5), ("south", 0.25)))
    with ds.Ledger(north) as ledger:
        with pytest.raises(LedgerDisagrees, match="of the same name") as caught:
            ledger.merge(south)
        assert (caught.value.given, "prefix" in caught.value.hint) == ("lfs", True)
        ledger.merge(south, prefix="south ")
        assert ledger.surveys() == ["lfs", "south lfs"]
        with pytest.raises(BudgetExceeded):
            ledger.book("south lfs", pure(9.0), "a table")
        ledger.book("south lfs", pure(0.125), "a table")
    assert spent(north, "south lfs") == pytest.approx(amplified(0.25) + amplified(0.125), rel=1e-9)


def test_a_merge_of_a_merge_keeps_every_survey_apart(tmp_path):
    agency, north, south = (a_ledger(tmp_path / place, epsilon) for place, epsilon in (("a", 0.5), ("n", 0.25), ("s", 0.125)))
    with ds.Ledger(agency) as ledger:
        ledger.open_survey(terms("south lfs"))
        ledger.book("south lfs", pure(1.0), "a table")
    with ds.Ledger(north) as ledger:
        ledger.merge(south, prefix="south ")
    with ds.Ledger(agency) as ledger:
        ledger.merge(north, prefix="north ")
        assert ledger.surveys() == ["lfs", "south lfs", "north lfs", "north south lfs"]
    assert spent(agency, "south lfs") == pytest.approx(amplified(1.0), rel=1e-9)
    assert account(agency) == pytest.approx(sum(map(amplified, (0.5, 1.0, 0.25, 0.125))), rel=1e-9)


def test_a_ledger_that_cannot_take_another_in_leaves_it_open(tmp_path):
    north, south = (a_ledger(tmp_path / name, 0.5, name=name) for name in ("north", "south"))
    with ds.Ledger(north) as ledger:
        ledger.anchor(tmp_path / "anchor")
        (tmp_path / "anchor").unlink()
        with pytest.raises(LedgerBroken, match="anchor of this ledger is gone"):
            ledger.merge(south)
    with ds.Ledger(south) as ledger:
        ledger.book("south", pure(0.1), "it goes on")


def test_the_key_of_a_panel_that_was_used_in_both_ledgers_is_refused(tmp_path):
    key = "ab" * 32
    rotation = panel("rotation", key, ADD, rate=RATE, waves=2, epsilon=1.0)
    with ds.Ledger(tmp_path / "north") as ledger:
        ledger.open_panel(rotation)
    with ds.Ledger(tmp_path / "twin") as ledger:
        ledger.open_panel(panel("other", key, ADD, rate=RATE, waves=2, epsilon=1.0))
    a_ledger(tmp_path / "south", 0.5, key=key, start=0.0)
    for one, two in (("north", "south"), ("south", "north"), ("north", "twin")):
        with ds.Ledger(tmp_path / one) as ledger, pytest.raises(LedgerDisagrees, match="key of a panel was used in both"):
            ledger.merge(tmp_path / two)
    assert [json.dumps(entries(tmp_path / name)).count('"carried"') for name in ("north", "south", "twin")] == [0, 0, 0]


def test_panels_of_one_name_are_told_apart_by_a_prefix(tmp_path):
    for place, key in (("north", "ab" * 32), ("south", "cd" * 32)):
        with ds.Ledger(tmp_path / place) as ledger:
            ledger.open_panel(panel("rotation", key, ADD, rate=RATE, waves=2, epsilon=1.0))
    with ds.Ledger(tmp_path / "north") as ledger:
        with pytest.raises(LedgerDisagrees, match="of the same name"):
            ledger.merge(tmp_path / "south")
        ledger.merge(tmp_path / "south", prefix="south ")
        assert [each.name for each in ledger.panels()] == ["rotation", "south rotation"]
