"""Keys on record: old ledgers are upgraded and lose nothing, commitments are kept, and a key itself is written nowhere."""

import base64
import json
import pickle
import sqlite3
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design.key import HEADER
from dpsurvey.errors import LedgerDisagrees
from dpsurvey.ledger import Ledger
from dpsurvey.ledger.migrations import TO_VERSION_2
from dpsurvey.ledger.schema import VERSION

SIZE = 400
ADD = ds.Setting("frame", neighbours="add-remove")
KEY = ds.Key(bytes(range(100, 132)))


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(3)
    columns = {"person": [f"p{number}" for number in range(SIZE)], "income": rng.uniform(0, 100, SIZE)}
    pq.write_table(pa.table(columns), tmp_path / "register.parquet")
    return tmp_path


def survey(folder, name="survey", design=None, ledger="books.ledger", epsilon=1.0):
    frame = ds.Frame(folder / "register.parquet", unit="person", size=SIZE)
    return ds.Survey(frame, design or ds.poisson(0.2), ADD, budget=ds.Budget(epsilon), ledger=folder / ledger, name=name)


# Ledgers of version 1

VERSION_1 = """
CREATE TABLE about (key VARCHAR NOT NULL PRIMARY KEY, value VARCHAR NOT NULL);
CREATE TABLE surveys (name VARCHAR NOT NULL PRIMARY KEY, terms VARCHAR NOT NULL, epsilon FLOAT NOT NULL, delta FLOAT NOT NULL,
    opened_at VARCHAR NOT NULL);
CREATE TABLE samples (id VARCHAR NOT NULL PRIMARY KEY, survey VARCHAR NOT NULL REFERENCES surveys (name), state VARCHAR NOT NULL,
    path VARCHAR, key VARCHAR, commitment VARCHAR, drawn_at VARCHAR NOT NULL);
CREATE TABLE charges (id INTEGER NOT NULL PRIMARY KEY, release VARCHAR NOT NULL,
    survey VARCHAR NOT NULL REFERENCES surveys (name), sample VARCHAR NOT NULL REFERENCES samples (id),
    state VARCHAR NOT NULL, profile VARCHAR NOT NULL, asked VARCHAR NOT NULL,
    fingerprint VARCHAR NOT NULL, software VARCHAR NOT NULL, reserved_at VARCHAR NOT NULL, committed_at VARCHAR,
    release_hash VARCHAR);
CREATE TABLE checks (fingerprint VARCHAR NOT NULL PRIMARY KEY, checked_at VARCHAR NOT NULL);
INSERT INTO about VALUES ('version', '1');
"""
KINDS = ("opened", "sample", "reserved", "committed", "checked")


def an_old_ledger(folder, version=1):
    """A ledger of version 1 with all that its code wrote: released, reserved, sealed and drawn samples.

    The tables are filled from what the entries of a ledger of today say.
    """
    made = survey(folder, ledger="new.ledger")
    made.draw(folder / "sealed.parquet")
    made.plan(ds.mean("income", bounds=(0, 100)), share=0.25).release()
    survey(folder, "other", ledger="new.ledger").plan(ds.total("income", bounds=(0, 100)), share=0.5).release()
    with Ledger(folder / "new.ledger") as books:
        entries, sealed = books.entries(), books.sealed_sample("survey")
    old = sqlite3.connect(folder / "books.ledger")
    old.executescript(VERSION_1)
    bodies = {kind: [(entry["at"], entry["body"]) for entry in entries if entry["kind"] == kind] for kind in KINDS}
    for at, body in bodies["opened"]:
        terms = body["terms"]
        row = (terms["name"], json.dumps(terms, sort_keys=True), terms["budget"]["epsilon"], terms["budget"]["delta"], at)
        old.execute("insert into surveys values (?, ?, ?, ?, ?)", row)
    for at, body in bodies["sample"]:
        file = (sealed.path, sealed.key) if body["sample"] == sealed.id else (None, None)
        row = (body["sample"], body["survey"], body["state"], *file, body.get("commitment"), at)
        old.execute("insert into samples values (?, ?, ?, ?, ?, ?, ?)", row)
    published = {body["release"]: (at, body["release_hash"]) for at, body in bodies["committed"]}
    for at, body in bodies["reserved"]:
        for charge in body["charges"]:
            texts = (json.dumps(charge["profile"]), json.dumps(charge["asked"]), body["fingerprint"], "0.1.0", at)
            row = (body["release"], body["survey"], body["sample"], "committed", *texts, *published[body["release"]])
            names = (
                "release, survey, sample, state, profile, asked, fingerprint, software, reserved_at, committed_at, release_hash"
            )
            old.execute(f"insert into charges ({names}) values ({', '.join('?' * len(row))})", row)
    for at, body in bodies["checked"]:
        old.execute("insert into checks values (?, ?)", (body["fingerprint"], at))
    if version == 2:
        for statement in TO_VERSION_2:
            old.execute(statement)
        old.execute("update samples set key_commitment = 'abc', start = 0.25 where state = 'sealed'")
        old.execute("update about set value = '2'")
    old.commit()
    old.close()
    return folder / "books.ledger"


def version_of(path):
    connection = sqlite3.connect(path)
    found = connection.execute("select value from about where key = 'version'").fetchone()[0]
    connection.close()
    return found


def content_of(path):
    connection = sqlite3.connect(path)
    lines = list(connection.iterdump())
    connection.close()
    return lines


def what_happened(path):
    """Kind, time and body of every entry, of an upgraded ledger and of one that was made today."""
    with Ledger(path) as books:
        plain = [(entry["kind"], entry["at"], entry["body"]) for entry in books.entries() if entry["kind"] in KINDS]
    for _, _, body in plain:
        # An old ledger knows the software of a charge, a new one that of an entry.
        body.pop("software", None)
    return sorted(plain, key=lambda each: (each[1], each[0]))


@pytest.mark.parametrize("version", [1, 2])
def test_a_ledger_of_an_earlier_version_is_upgraded_without_losing_anything(folder, version):
    path = an_old_ledger(folder, version)
    before = {name: Ledger(folder / "new.ledger").spending(survey(folder, name).terms).spent for name in ("survey", "other")}
    assert min(before.values()) > 0.0
    books = Ledger(path)
    assert version_of(path) == str(VERSION) == "3"
    assert {name: books.spending(survey(folder, name).terms).spent for name in before} == before
    assert sorted(books.surveys()) == ["other", "survey"]
    key = ("abc", 0.25) if version == 2 else (None, None)
    assert {(each["key_commitment"], each["start"]) for each in books.samples("survey")} == {key}
    assert {charge["software"] for charge in books.charges("survey")} == {"0.1.0"}
    assert {entry["by"] for entry in books.entries() if entry["kind"] in KINDS} == {"(not recorded)"}
    assert books.entries()[-1]["body"] == {"from": version, "to": 3}
    books.close()
    assert ds.verify_ledger(path).ok
    if version == 1:
        assert what_happened(path) == what_happened(folder / "new.ledger")
    # Opened again it stays as it is.
    chain = content_of(path)
    Ledger(path).close()
    assert content_of(path) == chain


def test_an_upgraded_ledger_goes_on_as_if_it_were_new(folder):
    an_old_ledger(folder)
    made = survey(folder)
    with pytest.raises(LedgerDisagrees, match="sealed already"):
        made.draw(folder / "again.parquet")
    with pytest.raises(ds.SurveyError, match="already released"):
        made.plan(ds.mean("income", bounds=(0, 100)), share=0.25).release()
    sealed = made.draw(folder / "keyed.parquet", new=True, key=KEY, start=0.5)
    assert Ledger(folder / "books.ledger").samples("survey")[-1]["key_commitment"] == KEY.commitment
    assert Ledger(folder / "books.ledger").sealed_sample("survey") == sealed
    release = made.plan(ds.mean("income", bounds=(0, 100)), share=0.125).release()
    assert release.to_dict()["sample"]["id"] == sealed.id


def test_an_upgrade_that_fails_half_way_changes_nothing(folder):
    path = an_old_ledger(folder)
    connection = sqlite3.connect(path)
    # A charge that cannot be read stops the upgrade after tables were altered and read.
    good = connection.execute("select profile from charges where id = 1").fetchone()[0]
    connection.execute("update charges set profile = 'nothing' where id = 1")
    connection.commit()
    connection.close()
    before = content_of(path)
    with pytest.raises(ds.SurveyError, match="earlier version"):
        Ledger(path)
    assert content_of(path) == before
    connection = sqlite3.connect(path)
    connection.execute("update charges set profile = ? where id = 1", (good,))
    connection.commit()
    connection.close()
    Ledger(path).close()
    assert version_of(path) == "3"


@pytest.mark.parametrize("version", ["4", "99", "two", ""])
def test_a_ledger_of_another_version_is_refused_and_left_as_it_is(folder, version):
    survey(folder).draw(folder / "sample.parquet")
    connection = sqlite3.connect(folder / "books.ledger")
    connection.execute("update about set value = ? where key = 'version'", (version,))
    connection.commit()
    connection.close()
    with pytest.raises(LedgerDisagrees, match="written by another version") as raised:
        Ledger(folder / "books.ledger")
    assert f"this is {VERSION}" in raised.value.given
    assert version_of(folder / "books.ledger") == version
    with pytest.raises(LedgerDisagrees):
        survey(folder).draw(folder / "other.parquet", new=True)
    assert not (folder / "other.parquet").exists()


# What is on record


def test_commitment_and_start_are_on_record_and_the_sample_can_be_drawn_again(folder):
    sealed = survey(folder).draw(folder / "a.parquet", key=KEY, start=0.25)
    assert (sealed.key_commitment, sealed.start) == (KEY.commitment, 0.25)
    (row,) = Ledger(folder / "books.ledger").samples()
    assert (row["id"], row["survey"], row["state"]) == (sealed.id, "survey", "sealed")
    assert (row["key_commitment"], row["start"]) == (KEY.commitment, 0.25)
    again = survey(folder, ledger="other.ledger").draw(folder / "b.parquet", key=KEY, start=row["start"])
    assert again.id != sealed.id
    assert pq.read_table(folder / "a.parquet").equals(pq.read_table(folder / "b.parquet"))


def test_a_draw_without_a_key_has_no_commitment(folder):
    survey(folder).draw(folder / "a.parquet")
    (row,) = Ledger(folder / "books.ledger").samples()
    assert (row["key_commitment"], row["start"]) == (None, None)


def test_surveys_that_share_a_key_are_found_together(folder):
    other = ds.Key.new()
    for name, key in (("w1", KEY), ("w2", KEY), ("alone", other), ("secret", None), ("w3", KEY)):
        survey(folder, name).draw(folder / f"{name}.parquet", key=key, start=0.1 if name == "w2" else 0.0)
    survey(folder, "secret").draw(folder / "more.parquet", new=True)
    books = Ledger(folder / "books.ledger")
    shared = books.sharing_a_key()
    assert list(shared) == [KEY.commitment]
    assert [each["survey"] for each in shared[KEY.commitment]] == ["w1", "w2", "w3"]
    assert [each["start"] for each in shared[KEY.commitment]] == [0.0, 0.1, 0.0]
    assert len(books.samples()) == 6
    assert [each["survey"] for each in books.samples("alone")] == ["alone"]


def test_a_key_that_drew_an_earlier_sample_is_remembered_behind_later_ones(folder):
    made = survey(folder)
    made.draw(folder / "a.parquet", key=KEY)
    made.draw(folder / "b.parquet", new=True)
    made.draw(folder / "c.parquet", new=True, key=ds.Key.new())
    with pytest.raises(LedgerDisagrees, match="this key has drawn"):
        made.draw(folder / "d.parquet", new=True, key=KEY, start=0.9)
    assert len(Ledger(folder / "books.ledger").samples()) == 3


# The key itself


def forms_of(secret):
    """A secret as it might be written: raw, in hexadecimal, in base64 of any alignment, as a list of numbers."""
    yield "raw", secret
    yield "hex", secret.hex().encode()
    yield "HEX", secret.hex().upper().encode()
    for shift in range(3):
        # Two characters at either end depend on the neighbours.
        for name, alphabet in (("base64", base64.b64encode), ("urlsafe", base64.urlsafe_b64encode)):
            yield name, alphabet(bytes(shift) + secret)[4:-4]
    yield "list", str(list(secret))[1:-1].encode()
    yield "repr", repr(secret)[2:-1].encode()
    yield "number", str(int.from_bytes(secret, "big")).encode()


def found_in(content, secret=KEY.secret):
    return [name for name, form in forms_of(secret) if form in content]


def test_the_search_finds_a_key_in_every_form():
    secret = KEY.secret
    assert found_in(b"x" + secret + b"y") == ["raw"]
    assert found_in(json.dumps({"key": secret.hex()}).encode()) == ["hex"]
    assert "base64" in found_in(base64.b64encode(b"a" + secret + b"tail"))
    assert found_in(str(list(secret)).encode()) == ["list"]


@pytest.mark.parametrize("design", [ds.poisson(0.2), ds.srs(n=50), ds.systematic(n=20)], ids=lambda design: design.kind)
def test_a_key_is_in_no_file_that_is_written(folder, design):
    setting = ds.Setting("frame", neighbours="replace-one")
    frame = ds.Frame(folder / "register.parquet", unit="person", size=SIZE)
    made = ds.Survey(frame, design, setting, budget=ds.Budget(1.0), ledger=folder / "books.ledger")
    sealed = made.draw(folder / "sample.parquet", key=KEY)
    if design.kind != "systematic":
        made.plan(ds.mean("income", bounds=(0, 100))).release().save(folder / "release.json")
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert {"books.ledger", "sample.parquet", "sample.manifest.json"} <= {path.name for path in written}
    derived = [KEY.derived("unit"), KEY.prefix("unit").encode()]
    for path in written:
        content = path.read_bytes()
        assert found_in(content) == [], path.name
        assert not any(each in content for each in derived), path.name
    assert KEY.commitment.encode() in (folder / "sample.manifest.json").read_bytes()
    assert found_in(repr(sealed).encode() + str(sealed).encode()) == []


def test_a_key_shows_its_commitment_and_never_itself():
    shown = [repr(KEY), str(KEY), f"{KEY}", f"{KEY!r:>80}", repr([KEY]), repr({"key": KEY}), f"{KEY!s}"]
    for text in shown:
        assert found_in(text.encode()) == []
    assert repr(KEY) == f"Key(commitment='{KEY.commitment[:8]}')"


def test_a_key_does_not_leave_the_process_by_pickle():
    """Pickles end up in caches, logs of workers and temporary files: a key is handed on by its file alone."""
    with pytest.raises((TypeError, ds.SurveyError)) as refused:
        pickle.dumps(KEY)
    assert found_in(str(refused.value).encode()) == []


@pytest.mark.parametrize("spoil", [lambda text: text[:-3], lambda text: text + "ff", lambda text: text.replace("1 ", "9 ")])
def test_no_error_about_a_key_file_shows_what_is_in_it(tmp_path, spoil):
    file = tmp_path / "panel.key"
    KEY.write(file)
    file.write_text(spoil(file.read_text().strip()))
    with pytest.raises(ds.SurveyError) as raised:
        ds.Key.read(file)
    told = "".join(traceback.format_exception(raised.value)) + str(raised.value.to_dict())
    assert KEY.secret.hex()[:12] not in told


def test_a_failing_draw_with_a_key_does_not_show_it(folder, monkeypatch):
    from dpsurvey.engine import Engine

    def fails(*given, **named):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(Engine, "write_sample", fails)
    with pytest.raises(RuntimeError) as raised:
        survey(folder).draw(folder / "sample.parquet", key=KEY)
    shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    assert found_in("".join(shown.format()).encode()) == []


def test_an_engine_that_fails_on_the_keyed_query_does_not_show_its_prefix(folder, monkeypatch):
    """The query holds what is derived from the key; an error of the engine may quote the query."""
    from dpsurvey.engine.dialect import DuckDB

    def wrong(engine, text, bits):
        return (text + "x").cast("int64")

    monkeypatch.setattr(DuckDB, "first_bits", wrong)
    with pytest.raises(ds.SurveyError) as raised:
        survey(folder).draw(folder / "sample.parquet", key=KEY)
    error, told = raised.value, ""
    while error is not None:
        told += "".join(traceback.format_exception(error)) + repr(error.args)
        error = error.__cause__ or error.__context__
    assert KEY.prefix("unit") not in told
    assert found_in(told.encode()) == []


def test_a_key_is_read_back_as_it_was_written(tmp_path):
    for number in range(20):
        key = ds.Key.new()
        key.write(tmp_path / f"{number}.key")
        assert ds.Key.read(tmp_path / f"{number}.key") == key
    assert (tmp_path / "0.key").read_text().startswith(HEADER)


def test_commitments_tell_keys_apart_and_purposes_give_unrelated_keys():
    keys = [ds.Key(bytes([number]) * 32) for number in range(50)]
    assert len({key.commitment for key in keys}) == 50
    assert len({KEY.derived(purpose) for purpose in ("unit", "start", "rounding", "generator sampford")}) == 4
    assert KEY.commitment not in {KEY.derived("unit").hex(), KEY.secret.hex()}
