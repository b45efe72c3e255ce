"""The chain shows every change to a ledger: which entry was changed, moved, repeated or removed, and where."""

import json
import random
import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.errors import LedgerBroken
from dpsurvey.ledger.entry import Row, canonical, damages, digest

SIZE = 200


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A ledger with a sealed sample, three releases, a charge from elsewhere, an anchor; and everything that saw it."""
    folder = tmp_path_factory.mktemp("made")
    table = pa.table({"id": pa.array(range(SIZE), pa.int64()), "income": np.linspace(0, 100, SIZE)})
    pa.parquet.write_table(table, folder / "register.parquet")
    books, anchor, sample = folder / "books.ledger", folder / "anchor", folder / "sealed-sample.parquet"
    frame, setting = ds.Frame(folder / "register.parquet", unit="id", size=SIZE), ds.Setting("frame", neighbours="add-remove")
    survey = ds.Survey(frame, ds.poisson(0.2), setting, budget=ds.Budget(5.0), ledger=books, name="lfs")
    survey.draw(sample)
    with ds.Ledger(books) as ledger:
        ledger.anchor(anchor)
    releases = []
    for number in range(3):
        release = survey.plan(ds.mean("income", bounds=(0, 100 + number)), share=0.1).release()
        releases.append(release.save(folder / f"release-{number}.json"))
    with ds.Ledger(books) as ledger:
        ledger.book("lfs", ds.PrivacyProfile.pure(0.5, "add-remove"), "a synthetic file")
        ledger.export(folder / "export.txt")
    shutil.copy(books, folder / "copy.ledger")
    seen = {"release": releases[-1], "anchor": anchor, "export": folder / "export.txt", "ledger": folder / "copy.ledger"}
    return SimpleNamespace(
        books=books, rows=rows_of(books), releases=releases, seen=seen, sample=sample, register=folder / "register.parquet"
    )


@pytest.fixture
def books(made, tmp_path):
    return shutil.copy(made.books, tmp_path / "books.ledger")


def rows_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return [Row(*row) for row in connection.execute("select seq, text, hash from entries order by seq")]


def without_triggers(path):
    connection = sqlite3.connect(path, isolation_level=None)
    for name in ("no_UPDATE", "no_DELETE"):
        connection.execute(f"drop trigger {name}")
    return connection


def rewrite(path, rows):
    """What somebody who may write the file can do: put any rows in place of those that are there."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("drop table entries")
        connection.execute("create table entries (seq integer primary key, text text not null, hash varchar not null)")
        connection.executemany("insert into entries values (?, ?, ?)", [(row.seq, row.text, row.hash) for row in rows])
    return path


def numbered(rows):
    return [Row(number, row.text, row.hash) for number, row in enumerate(rows, 1)]


def recomputed(rows, edit):
    """The chain with some entries edited, and every hash made anew."""
    found, previous = [], "0" * 64
    for row in rows:
        fields = json.loads(row.text)
        edit(fields)
        text = canonical(fields | {"previous": previous})
        found.append(Row(row.seq, text, digest(text)))
        previous = found[-1].hash
    return found


def cheaper(fields):
    if fields["kind"] == "reserved":
        for charge in fields["body"]["charges"]:
            charge["profile"]["curve"]["epsilon"] /= 10


def flipped(text, position, bit):
    raw = bytearray(text.encode())
    raw[position] ^= 1 << bit
    return bytes(raw)


def told(verified):
    return [str(damage) for damage in verified.damages]


def fails(place, **how):
    """Whether a verification finds something wrong, or says that it cannot read the place at all."""
    try:
        return not ds.verify_ledger(place, **how).ok
    except ds.SurveyError:
        return True


def test_the_ledger_of_these_tests_is_whole_and_agrees_with_all_that_saw_it(made):
    found = ds.verify_ledger(made.books, against=[*made.releases, *made.seen.values()])
    assert found.ok
    assert (found.count, found.head) == (len(made.rows), made.rows[-1].hash)
    assert len(found.against) == 7


def test_a_flip_in_any_byte_of_any_entry_is_found_at_that_entry(made):
    before, missed, tried = "0" * 64, [], 0
    for row, following in zip(made.rows, [*made.rows[1:], None], strict=True):
        rest = [following] if following else []
        for column in ("text", "hash"):
            whole = getattr(row, column)
            for position in range(len(whole.encode())):
                for bit in range(8):
                    changed = flipped(whole, position, bit).decode("utf-8", "replace")
                    text, hash = (changed, row.hash) if column == "text" else (row.text, changed)
                    found = damages([Row(row.seq, text, hash), *rest], after=row.seq - 1, previous=before)
                    tried += 1
                    if not found or found[0].seq != row.seq:
                        missed.append((row.seq, column, position, bit))
        before = row.hash
    assert tried == 8 * sum(len(row.text) + 64 for row in made.rows)
    assert missed == []


def test_a_flip_in_the_table_is_found_at_its_entry_even_where_it_is_no_text_any_more(made, books):
    chance = random.Random(5)
    with closing(without_triggers(books)) as connection:
        for number in range(300):
            row, column = chance.choice(made.rows), ("hash" if number % 5 == 0 else "text")
            whole = getattr(row, column)
            bit = 7 if number % 3 == 0 else chance.randrange(7)
            changed = flipped(whole, chance.randrange(len(whole)), bit)
            connection.execute(f"update entries set {column} = cast(? as text) where seq = ?", (changed, row.seq))
            found = ds.verify_ledger(books)
            assert not found.ok
            assert found.damages[0].seq == row.seq, changed
            assert "its text was changed" in found.damages[0].what
            if number % 10 == 0:
                with pytest.raises(LedgerBroken, match="the ledger was changed"):
                    ds.Ledger(books)
            connection.execute(f"update entries set {column} = ? where seq = ?", (whole, row.seq))
    assert ds.verify_ledger(books).ok


def test_a_flip_in_the_bytes_of_the_file_is_found(made, books):
    with closing(sqlite3.connect(books, isolation_level=None)) as connection:
        connection.execute("vacuum")
        connection.execute("pragma wal_checkpoint(truncate)")
    with open(books, "rb") as file:
        content = file.read()
    chance, places = random.Random(6), []
    for row in made.rows:
        assert content.count(row.text.encode()) == 1, "only here, and not in a page that was left behind"
        start = content.index(row.text.encode())
        places += [(row.seq, start + at) for at in chance.sample(range(len(row.text)), 300 // len(made.rows))]
    for seq, place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << chance.randrange(8)
        with open(books, "wb") as file:
            file.write(changed)
        found = ds.verify_ledger(books)
        assert not found.ok, (seq, place)
        assert found.damages[0].seq == seq


def text_replaced(rows):
    rows[5] = Row(6, rows[5].text.replace('"by":"', '"by":"x'), rows[5].hash)


def texts_swapped(rows):
    rows[4], rows[6] = Row(5, rows[6].text, rows[4].hash), Row(7, rows[4].text, rows[6].hash)


def rows_swapped(rows):
    rows[4], rows[6] = rows[6], rows[4]
    rows[:] = numbered(rows)


def copied_to_the_end(rows):
    rows.append(Row(len(rows) + 1, rows[3].text, rows[3].hash))


def copied_to_the_middle(rows):
    rows.insert(4, rows[3])
    rows[:] = numbered(rows)


def removed_from_the_middle(rows):
    del rows[4]


def removed_and_renumbered(rows):
    del rows[4]
    rows[:] = numbered(rows)


def first_removed(rows):
    del rows[0]


def hash_made_to_fit(rows):
    text_replaced(rows)
    rows[5] = Row(6, rows[5].text, digest(rows[5].text))


FOUND = {
    text_replaced: (6, ["entry 6: its text was changed"]),
    texts_swapped: (5, ["entry 5: its text and its place were changed", "entry 7: its text and its place were changed"]),
    rows_swapped: (5, ["entry 5: out of order: it was written as entry 7", "entry 7: out of order: it was written as entry 5"]),
    copied_to_the_end: (None, ["a copy of entry 4"]),
    copied_to_the_middle: (5, ["entry 5: a copy of entry 4", "entry 6: out of order: it was written as entry 5"]),
    removed_from_the_middle: (5, ["entry 5: missing: 5 was removed"]),
    removed_and_renumbered: (5, ["entry 5: out of order: it was written as entry 6"]),
    first_removed: (1, ["entry 1: missing: 1 was removed"]),
    hash_made_to_fit: (7, ["entry 7: it does not follow the entry before it: one of the two was replaced"]),
}


@pytest.mark.parametrize("change", FOUND, ids=lambda change: change.__name__.replace("_", " "))
def test_a_change_of_entries_is_found_and_named_and_nothing_is_spent_on_it(made, books, change):
    rows = list(made.rows)
    change(rows)
    found = ds.verify_ledger(rewrite(books, rows))
    place, words = FOUND[change]
    assert found.damages[0].seq == (place or len(made.rows) + 1)
    for said in words:
        assert any(said in line for line in told(found)), told(found)
    with pytest.raises(LedgerBroken):
        ds.Ledger(books)


def test_a_ledger_without_entries_is_not_whole(books):
    assert told(ds.verify_ledger(rewrite(books, []))) == ["entry 1: missing: the first entry was removed"]
    with pytest.raises(LedgerBroken, match="first entry"):
        ds.Ledger(books)


@pytest.mark.parametrize("witness", ["release", "anchor", "export", "ledger"])
def test_a_cut_at_the_end_is_found_by_whoever_saw_more(made, books, witness):
    last = ds.Release.load(made.seen["release"]).to_dict()["ledger"]["count"] if witness == "release" else len(made.rows)
    rewrite(books, made.rows[: last - 1])
    assert not ds.verify_ledger(books).damages, "a chain alone cannot know what came after it"
    found = ds.verify_ledger(books, against=[made.seen[witness]])
    assert not found.ok
    assert found.against[0]["with"].startswith(f"the {witness} ")
    assert f"it has seen entry {last}, and the ledger ends at {last - 1}: cut or rolled back" in str(found)


@pytest.mark.parametrize("witness", ["release", "anchor", "export", "ledger"])
def test_a_chain_that_was_made_anew_is_found_by_whoever_saw_the_old_one(made, books, witness):
    rewrite(books, recomputed(made.rows, cheaper))
    assert not ds.verify_ledger(books).damages, "its hashes fit each other"
    found = ds.verify_ledger(books, against=[made.seen[witness]])
    assert not found.ok
    assert "is another one: the ledger was rolled back or replaced" in str(found)


def test_a_chain_made_anew_with_what_is_no_number_is_found_and_not_a_crash(made, books):
    rows = list(made.rows)
    text = rows[-1].text.replace('"epsilon":0.5', '"epsilon":NaN')
    rows[-1] = Row(rows[-1].seq, text, digest(text))
    assert text != made.rows[-1].text
    assert fails(rewrite(books, rows))
    with pytest.raises(ds.SurveyError):
        ds.Ledger(books)


def test_a_ledger_disagrees_with_what_saw_another_ledger(made, tmp_path):
    ds.Ledger(tmp_path / "other.ledger").close()
    found = ds.verify_ledger(tmp_path / "other.ledger", against=list(made.seen.values()))
    assert [(each["ok"], each["what"]) for each in found.against] == [(False, "it has never seen this ledger")] * 4


def test_a_release_holds_where_the_chain_stood(made):
    for path in made.releases:
        stamp = json.loads(path.read_text())["ledger"]
        row = made.rows[stamp["count"] - 1]
        assert json.loads(row.text)["kind"] == "reserved"
        assert (stamp["id"], stamp["head"]) == (json.loads(made.rows[0].text)["body"]["ledger"], row.hash)
        found = ds.verify_ledger(made.books, against=[path])
        assert (found.ok, found.against[0]["what"]) == (True, f"up to entry {stamp['count']}")


ACCIDENTS = [
    "update entries set text = '' where seq = 3",
    "update entries set hash = upper(hash)",
    "delete from entries where seq = 3",
    "delete from entries",
    "insert or replace into entries values (3, '', '')",
]


@pytest.mark.parametrize("statement", ACCIDENTS)
def test_the_database_refuses_to_change_an_entry_by_accident(made, books, statement):
    with closing(sqlite3.connect(books)) as connection, pytest.raises(sqlite3.IntegrityError, match="never changed"):
        connection.execute(statement)
    assert rows_of(books) == made.rows
