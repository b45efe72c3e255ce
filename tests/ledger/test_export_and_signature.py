"""A ledger can be verified elsewhere: its export shows every change to it, and a signature says who vouched for the chain."""

import json
import shutil
import sqlite3
import stat
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import x25519

import dpsurvey as ds
from dpsurvey.errors import BadValue, NotFound
from dpsurvey.ledger import new_signing_key
from dpsurvey.ledger.entry import canonical, digest

SIZE = 200


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    table = pa.table({"id": pa.array(range(SIZE), pa.int64()), "income": np.linspace(0, 100, SIZE)})
    pa.parquet.write_table(table, folder / "register.parquet")
    frame, setting = ds.Frame(folder / "register.parquet", unit="id", size=SIZE), ds.Setting("frame", neighbours="add-remove")
    books = folder / "books.ledger"
    survey = ds.Survey(frame, ds.poisson(0.2), setting, budget=ds.Budget(5.0), ledger=books, name="lfs")
    survey.draw(folder / "sealed-sample.parquet")
    survey.plan(ds.mean("income", bounds=(0, 100)), share=0.1).release()
    with ds.Ledger(books) as ledger:
        stamp = ledger.export(folder / "export.txt")
    return SimpleNamespace(books=books, export=folder / "export.txt", stamp=stamp, folder=folder)


@pytest.fixture
def books(made, tmp_path):
    return shutil.copy(made.books, tmp_path / "books.ledger")


@pytest.fixture
def export(made, tmp_path):
    return shutil.copy(made.export, tmp_path / "export.txt")


@pytest.fixture
def key(tmp_path):
    new_signing_key(tmp_path / "head.key")
    return tmp_path / "head.key"


def fails(place, **how):
    """Whether a verification finds something wrong, or says that it cannot read the place at all."""
    try:
        return not ds.verify_ledger(place, **how).ok
    except ds.SurveyError:
        return True


def signed(books, key, times=1):
    with ds.Ledger(books) as ledger:
        for _ in range(times):
            body = ledger.sign(key)
    return body


def edited(books, edit, *, recompute):
    """Somebody edits entries in the table; with `recompute` every hash is made anew, so that the chain fits."""
    previous = "0" * 64
    with closing(sqlite3.connect(books, isolation_level=None)) as connection:
        connection.execute("drop trigger no_UPDATE")
        for seq, text in connection.execute("select seq, text from entries order by seq").fetchall():
            fields = json.loads(text)
            edit(fields)
            changed = canonical(fields | ({"previous": previous} if recompute else {}))
            connection.execute("update entries set text = ? where seq = ?", (changed, seq))
            if recompute:
                previous = digest(changed)
                connection.execute("update entries set hash = ? where seq = ?", (previous, seq))


def test_an_export_verifies_elsewhere_as_the_ledger_does(made, export):
    ours, theirs = ds.verify_ledger(made.books), ds.verify_ledger(export)
    assert ours.ok
    assert theirs.ok
    assert (theirs.id, theirs.count, theirs.head) == (ours.id, ours.count, ours.head)
    assert {"id": theirs.id, "count": theirs.count, "head": theirs.head} == made.stamp
    assert ds.verify_ledger(export, against=[made.books]).ok


def test_a_flipped_byte_of_an_export_is_found(export):
    with open(export, "rb") as file:
        content = file.read()
    missed = []
    header = content.index(b"\n") + 70
    # Every byte of the first line and of one number and hash, and every third of the rest: of every entry some hundred.
    for place in (*range(header), *range(header, len(content), 3)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        with open(export, "wb") as file:
            file.write(changed)
        where = f"line {content[:place].count(10)}, after {content[max(0, place - 12) : place]!r}"
        try:
            if not fails(export):
                missed.append(where)
        except Exception as error:
            missed.append(f"{where}: {type(error).__name__}")
    assert missed == []


def test_an_export_that_was_cut_anywhere_is_found(export):
    with open(export, "rb") as file:
        content = file.read()
    # The last byte ends the last line, and holds nothing.
    for end in range(0, len(content) - 1, 7):
        with open(export, "wb") as file:
            file.write(content[:end])
        assert fails(export), end


def test_a_line_removed_from_an_export_is_named(made, export):
    lines = made.export.read_text().splitlines()
    for gone in range(1, len(lines)):
        with open(export, "w") as file:
            file.write("\n".join(lines[:gone] + lines[gone + 1 :]) + "\n")
        found = ds.verify_ledger(export)
        assert str(found.damages[0]) == f"entry {gone}: missing: {gone} was removed"


def test_an_export_holds_no_key_and_no_path_of_a_sealed_sample(made):
    with closing(sqlite3.connect(made.books)) as connection:
        found = connection.execute("select path, key from files").fetchall()
    text = made.export.read_text()
    # The file of the sealed sample, and the key of the marks of checked files, which have no path.
    ((path, key),) = [each for each in found if each[0]]
    assert "sealed-sample" in path
    assert len(found) == 2
    assert all(len(secret) == 64 and secret not in text for _, secret in found)
    assert "sealed-sample" not in text
    assert digest(key) in text, "only the hash of the key"


def test_an_export_never_overwrites_a_file(made, tmp_path):
    (tmp_path / "there.txt").write_text("something else")
    with ds.Ledger(made.books) as ledger, pytest.raises(BadValue, match="exists already"):
        ledger.export(tmp_path / "there.txt")
    assert (tmp_path / "there.txt").read_text() == "something else"
    assert [path.name for path in tmp_path.iterdir()] == ["there.txt"]


def test_a_signature_verifies_with_the_public_key_and_with_no_other(books, key, tmp_path):
    body = signed(books, key)
    found = ds.verify_ledger(books, public_key=f"{key}.pub")
    assert (found.ok, found.signatures[0]["what"]) == (True, f"entries up to {body['count']}")
    other = ds.verify_ledger(books, public_key=new_signing_key(tmp_path / "other.key"))
    assert (other.ok, other.signatures[0]["what"]) == (False, "nothing was signed with it")


def test_a_ledger_that_nobody_signed_does_not_verify_with_a_key(books, key):
    found = ds.verify_ledger(books, public_key=f"{key}.pub")
    assert (found.ok, found.damages, found.signatures[0]["what"]) == (False, [], "nothing was signed with it")


def test_a_signature_is_part_of_an_export(books, key, tmp_path):
    signed(books, key)
    with ds.Ledger(books) as ledger:
        ledger.export(tmp_path / "signed.txt")
    assert ds.verify_ledger(tmp_path / "signed.txt", public_key=f"{key}.pub").ok


def another_signature(fields):
    if fields["kind"] == "signed":
        old = fields["body"]["signature"]
        fields["body"]["signature"] = ("1" if old[0] == "0" else "0") + old[1:]


def another_entry(fields):
    if fields["kind"] == "reserved":
        fields["body"]["charges"][0]["profile"]["curve"]["epsilon"] /= 10


@pytest.mark.parametrize("edit", [another_signature, another_entry])
def test_a_signature_does_not_fit_a_chain_that_was_made_anew(books, key, edit):
    body = signed(books, key)
    edited(books, edit, recompute=True)
    found = ds.verify_ledger(books, public_key=f"{key}.pub")
    assert (found.ok, found.damages) == (False, [])
    assert found.signatures[0]["what"] == f"the signature in entry {body['count'] + 1} does not fit"
    assert not ds.verify_ledger(books).ok, "a signature that does not fit is told without its public key as well"


def test_a_tampered_signature_is_damage_of_the_chain(books, key):
    body = signed(books, key)
    edited(books, another_signature, recompute=False)
    found = ds.verify_ledger(books, public_key=f"{key}.pub")
    assert [str(each) for each in found.damages] == [f"entry {body['count'] + 1}: its text was changed"]
    assert not found.signatures[0]["ok"]


def test_a_flip_anywhere_in_a_signed_entry_is_found_and_never_a_crash(books, key):
    last = signed(books, key, times=2)["count"] + 1
    crashed = []
    with closing(sqlite3.connect(books, isolation_level=None)) as connection:
        connection.execute("drop trigger no_UPDATE")
        ((text,),) = connection.execute("select text from entries where seq = ?", (last,)).fetchall()
        for place in range(len(text)):
            raw = bytearray(text.encode())
            raw[place] ^= 1 << (place % 8)
            connection.execute("update entries set text = cast(? as text) where seq = ?", (bytes(raw), last))
            try:
                found = ds.verify_ledger(books, public_key=f"{key}.pub" if place % 2 else None)
            except Exception as error:
                crashed.append((place, type(error).__name__))
            else:
                assert found.damages[0].seq == last
    assert crashed == []


def test_a_private_key_is_for_its_owner_alone_and_never_overwritten(key):
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    with pytest.raises(BadValue, match="never overwritten"):
        new_signing_key(key)
    assert key.read_bytes() == before
    key.unlink()
    with pytest.raises(BadValue, match="never overwritten"):
        new_signing_key(key)
    assert not key.exists(), "a public key that is in use is not orphaned"


def test_a_key_of_another_kind_is_refused_and_nothing_is_written(made, books, key, tmp_path):
    other = x25519.X25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    private = other.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = other.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "other.key").write_bytes(private)
    (tmp_path / "other.pub").write_bytes(public)
    (tmp_path / "words").write_text("not a key at all")
    for wrong in (tmp_path / "other.key", tmp_path / "words", f"{key}.pub"):
        with ds.Ledger(books) as ledger, pytest.raises(BadValue, match="not an Ed25519 private key"):
            ledger.sign(wrong)
    for wrong in (tmp_path / "other.pub", tmp_path / "words", key):
        with pytest.raises(BadValue, match="not an Ed25519 public key"):
            ds.verify_ledger(books, public_key=wrong)
    with ds.Ledger(books) as ledger, pytest.raises(NotFound, match="no key file"):
        ledger.sign(tmp_path / "nowhere.key")
    assert ds.verify_ledger(books).head == made.stamp["head"]
