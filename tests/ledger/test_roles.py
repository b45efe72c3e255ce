"""On PostgreSQL the database itself decides who may open a survey, who may spend, and who may only read."""

import uuid
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, LedgerBroken, LedgerDisagrees, LedgerUnavailable, NotFound
from dpsurvey.ledger import SealedSample, panel
from dpsurvey.ledger.entry import Entry, Row, digest
from dpsurvey.ledger.roles import give_role, members, set_up_roles
from dpsurvey.ledger.store import Store

SIZE = 200
ADD = ds.Setting("frame", neighbours="add-remove")
INCOME = ds.mean("income", bounds=(0, 100))
ROLES = {"ann": "spender", "bob": "reader", "eve": "opener", "tom": None}
EVERYBODY = sorted(ROLES)
MAY_WRITE = {
    "ann": {"sample", "reserved", "committed", "checked", "signed"},
    "bob": set(),
    "eve": {"opened", "closed", "budget", "panel", "sample", "checked", "anchored", "signed"},
    "tom": set(),
}
KINDS = {*MAY_WRITE["ann"], *MAY_WRITE["eve"], "made", "carried", "arrived", "brought", "merged", "migrated", "clock"}
REFUSED = pytest.raises(LedgerUnavailable, match="your role does not allow this")


def terms(name="lfs"):
    frame = ds.Frame("register.parquet", unit="id", size=SIZE)
    return ds.Survey(frame, ds.poisson(0.1), ADD, budget=ds.Budget(1.0), ledger="none", name=name).terms


def pure(epsilon):
    return ds.PrivacyProfile.pure(epsilon, "add-remove")


def roles_of(place):
    return closing(Store(place))


def an_office(postgres):
    """A ledger with an open survey, and four logins: ann spends, bob reads, eve opens, and tom has no role."""
    schema = f"roles_{uuid.uuid4().hex[:8]}"
    owner, logins = f"{postgres}#{schema}", {name: f"{name}_{schema}" for name in ROLES}
    with psycopg.connect(postgres) as server:
        for login in logins.values():
            server.execute(f"create role {login} login")
    with ds.Ledger(owner) as ledger:
        ledger.open_survey(terms())
    with roles_of(owner) as store:
        roles = set_up_roles(store)
        assert [role.rpartition("_")[0] for role in roles] == [f"{schema}_{role}" for role in ("reader", "spender", "opener")]
        for name, role in ROLES.items():
            if role:
                give_role(store, logins[name], role)
    places = {name: postgres.replace("survey@", f"{login}@") + f"#{schema}" for name, login in logins.items()}
    return SimpleNamespace(owner=owner, schema=schema, logins=logins, opener=roles[2], **places)


@pytest.fixture
def office(postgres):
    return an_office(postgres)


def connected(place, path=""):
    address, _, schema = place.partition("#")
    return psycopg.connect(address, options=f"-c search_path={path or schema}")


def next_row(place, by, kind="checked", body=None):
    """What would continue the chain."""
    with ds.Ledger(place) as ledger:
        stamp = ledger.stamp
    return Entry(
        stamp["count"] + 1, stamp["head"], "2026-01-01T00:00:00+00:00", by, kind, "0", body or {"fingerprint": "x"}
    ).row()


INSERT = "insert into {}entries values (%s, %s, %s)"


def may_insert(place, row, path="", schema=""):
    """Whether the database takes a row from a login; it is taken back at once."""
    with connected(place, path) as server:
        try:
            server.execute(INSERT.format(schema), (row.seq, row.text, row.hash))
        except psycopg.errors.InsufficientPrivilege:
            return False
        finally:
            server.rollback()
        return True


def kinds_and_writers(place):
    with ds.Ledger(place) as ledger:
        return [(entry["kind"], entry["by"]) for entry in ledger.entries()]


def test_a_reader_reads_the_whole_books_and_verifies_them(office):
    with ds.Ledger(office.ann) as spender:
        spender.book("lfs", pure(0.5), "a table")
    with ds.Ledger(office.bob, must_exist=True) as ledger, ds.Ledger(office.owner) as owner:
        assert ledger.tree() == owner.tree()
        assert ledger.entries() == owner.entries()
        assert ledger.spending(ledger.terms("lfs")).spent > 0.0
    assert ds.verify_ledger(office.bob).ok


def test_a_reader_writes_nothing_and_does_not_see_where_samples_are(office):
    with ds.Ledger(office.ann) as spender:
        spender.seal("lfs", SealedSample("a", "sample.parquet", "key", "commitment"), new=False)
    before = kinds_and_writers(office.owner)
    with ds.Ledger(office.bob) as ledger:
        for refused in (
            lambda: ledger.book("lfs", pure(0.5), "a table"),
            lambda: ledger.note_check("x"),
            lambda: ledger.open_survey(terms("other")),
            lambda: ledger.sealed_sample("lfs"),
            lambda: ledger.set_budget(ADD, ds.Budget(1.0)),
        ):
            with REFUSED as caught:
                refused()
            assert "dpsurvey ledger roles" in caught.value.hint
            assert caught.value.exit_code == 1
    with connected(office.bob) as server, pytest.raises(psycopg.errors.InsufficientPrivilege):
        server.execute("select * from files")
    assert kinds_and_writers(office.owner) == before


def test_a_spender_spends_on_an_open_survey_and_settles_nothing(office, tmp_path):
    with ds.Ledger(office.ann) as ledger:
        sealed = SealedSample("a", "sample.parquet", "key", "commitment")
        ledger.seal("lfs", sealed, new=False)
        assert ledger.sealed_sample("lfs") == sealed
        ledger.commit(ledger.book("lfs", pure(0.5), "a table", "a"), "hash")
        for refused in (
            lambda: ledger.open_survey(terms("other")),
            lambda: ledger.set_budget(ADD, ds.Budget(1.0)),
            lambda: ledger.close_survey("lfs"),
            lambda: ledger.open_panel(panel("p", "ab", ADD, rate=0.1, waves=2, epsilon=1.0)),
            lambda: ledger.anchor(tmp_path / "anchor"),
        ):
            with REFUSED:
                refused()
    login = office.logins["ann"]
    assert kinds_and_writers(office.owner)[2:] == [("sample", login), ("reserved", login), ("committed", login)]


def test_an_opener_settles_everything_and_spends_nothing(office, tmp_path):
    with ds.Ledger(office.eve) as ledger:
        ledger.open_survey(terms("other"))
        ledger.set_budget(ADD, ds.Budget(3.0))
        ledger.open_panel(panel("p", "ab", ADD, rate=0.1, waves=2, epsilon=1.0))
        ledger.close_survey("other", "not needed")
        for refused in (
            lambda: ledger.book("lfs", pure(0.5), "a table"),
            lambda: ledger.carry(tmp_path / "mine.ledger"),
        ):
            with REFUSED:
                refused()
    login = office.logins["eve"]
    assert kinds_and_writers(office.owner)[2:] == [(kind, login) for kind in ("opened", "budget", "panel", "closed")]
    with ds.Ledger(office.ann) as spender:
        with pytest.raises(LedgerDisagrees, match="is closed"):
            spender.book("other", pure(0.5), "a table")
        spender.book("lfs", pure(0.5), "a table")


def test_a_login_without_a_role_does_not_even_read(office):
    for ask in (ds.Ledger, ds.verify_ledger, lambda place: ds.Ledger(place, must_exist=True)):
        with REFUSED:
            ask(office.tom)
    for table in ("about", "entries", "files"):
        with connected(office.tom) as server, pytest.raises(psycopg.errors.InsufficientPrivilege):
            server.execute(f"select * from {office.schema}.{table}")


@pytest.mark.parametrize("who", EVERYBODY)
def test_the_database_knows_what_each_role_may_write(office, who):
    rows = {kind: next_row(office.owner, office.logins[who], kind) for kind in KINDS}
    taken = {kind for kind, row in rows.items() if may_insert(office.__dict__[who], row, schema=f"{office.schema}.")}
    assert taken == MAY_WRITE[who]


@pytest.mark.parametrize("who", ["ann", "eve"])
def test_nobody_writes_in_the_name_of_somebody_else(office, who):
    place, own = office.__dict__[who], office.logins[who]
    assert may_insert(place, next_row(office.owner, own))
    for other in {"survey", "", "(not recorded)", own.upper(), *office.logins.values()} - {own}:
        assert not may_insert(place, next_row(office.owner, other)), other
    twice = next_row(office.owner, "survey").text.replace('"by":', f'"by":"{own}","by":')
    with pytest.raises(psycopg.errors.RaiseException, match="entries are added"):
        may_insert(place, Row(3, twice, digest(twice)))


HELP_YOURSELF = (
    "grant {opener} to {login}",
    "create role {login}_two superuser",
    "alter role {login} superuser",
    "set role survey",
    "set session authorization survey",
    "drop policy spender_adds on entries",
    "create policy mine on entries for insert to {login} with check (true)",
    "alter table entries disable row level security",
    "alter table entries disable trigger all",
    "drop trigger continues on entries",
    "drop function continues_the_chain cascade",
    "create function sha256(bytea) returns bytea language sql as 'select $1'",
    "update about set value = '4'",
    "update files set key = 'x'",
    "update entries set text = 'x'",
    "delete from entries",
    "truncate entries",
    "drop schema {schema} cascade",
)


@pytest.mark.parametrize("who", EVERYBODY)
def test_nobody_helps_themselves_to_more(office, who):
    place, login = office.__dict__[who], office.logins[who]
    for statement in HELP_YOURSELF:
        with connected(place) as server:
            with pytest.raises(psycopg.Error) as caught:
                server.execute(statement.format(schema=office.schema, login=login, opener=office.opener))
            if who != "tom":
                assert isinstance(caught.value, psycopg.errors.InsufficientPrivilege), statement
            server.rollback()
    with roles_of(place) as store:
        with REFUSED:
            give_role(store, login, "opener")
        with REFUSED:
            set_up_roles(store)
    with roles_of(office.owner) as store:
        assert members(store) == {role: [office.logins[name] for name in ROLES if ROLES[name] == role] for role in members(store)}


def test_functions_of_a_login_do_not_stand_in_for_those_of_the_chain(office):
    login = office.logins["ann"]
    with connected(office.owner) as server:
        server.execute(f"create schema mine_{login} authorization {login}")
    with connected(office.ann) as server:
        server.execute(f"create function mine_{login}.sha256(bytea) returns bytea language sql as 'select ''\\x00''::bytea'")
    row = next_row(office.owner, login)
    with pytest.raises(psycopg.errors.RaiseException, match="end of the chain"):
        may_insert(office.ann, Row(row.seq, row.text, "00"), path=f"mine_{login},pg_catalog", schema=f"{office.schema}.")


def test_a_role_that_was_taken_away_is_gone(office):
    login = office.logins["ann"]
    with ds.Ledger(office.ann) as ledger, roles_of(office.owner) as store:
        ledger.book("lfs", pure(0.25), "a table")
        give_role(store, login, "spender", take=True)
        with REFUSED:
            ledger.book("lfs", pure(0.25), "another table")
        assert members(store)["spender"] == []
        give_role(store, login, "spender")
        ledger.book("lfs", pure(0.25), "another table")
    assert len(kinds_and_writers(office.owner)) == 6


def test_somebody_with_two_roles_may_do_what_either_may(office):
    with roles_of(office.owner) as store:
        give_role(store, office.logins["ann"], "opener")
    with ds.Ledger(office.ann) as ledger:
        ledger.open_survey(terms("other"))
        ledger.book("other", pure(0.5), "a table")
    ann = office.logins["ann"]
    assert kinds_and_writers(office.owner)[-3:] == [("opened", ann), ("sample", ann), ("reserved", ann)]


def test_an_unknown_login_or_role_is_refused_with_a_hint(office, tmp_path):
    with roles_of(office.owner) as store:
        with pytest.raises(NotFound, match="no login 'zoe'") as caught:
            give_role(store, "zoe", "reader")
        assert "CREATE ROLE" in caught.value.hint
        with pytest.raises(BadValue, match="unknown role 'spenter'") as caught:
            give_role(store, office.logins["ann"], "spenter")
        assert "did you mean 'spender'" in caught.value.hint
    ds.Ledger(tmp_path / "books.ledger").close()
    with roles_of(tmp_path / "books.ledger") as file, pytest.raises(BadValue, match="roles are for ledgers on PostgreSQL"):
        set_up_roles(file)


def test_a_role_is_given_once_the_roles_were_made(postgres):
    place = f"{postgres}#roles_{uuid.uuid4().hex[:8]}"
    ds.Ledger(place).close()
    with roles_of(place) as store:
        with pytest.raises(NotFound, match="has no roles yet"):
            give_role(store, "survey", "reader")
        set_up_roles(store)
        set_up_roles(store)
        give_role(store, "survey", "reader")
        assert members(store) == {"reader": ["survey"], "spender": [], "opener": []}


def test_a_login_may_have_any_name(office, postgres):
    login = f'o\'neil "100%" {office.schema}'
    quoted = '"' + login.replace('"', '""') + '"'
    with psycopg.connect(postgres) as server:
        server.execute(f"create role {quoted} login")
    with roles_of(office.owner) as store:
        give_role(store, login, "reader")
        assert login in members(store)["reader"]
        give_role(store, login, "reader", take=True)
        assert login not in members(store)["reader"]


def test_roles_of_two_ledgers_on_one_server_have_nothing_to_do_with_each_other(office, postgres):
    other = an_office(postgres)
    with ds.Ledger(office.ann) as ledger:
        ledger.book("lfs", pure(0.5), "a table")
    with REFUSED:
        ds.Ledger(office.ann.replace(office.schema, other.schema).replace(f"ann_{other.schema}", office.logins["ann"]))
    with roles_of(office.owner) as store:
        give_role(store, office.logins["ann"], "spender", take=True)
    with ds.Ledger(other.ann) as ledger:
        ledger.book("lfs", pure(0.5), "a table")


def test_a_team_makes_a_survey_together_and_the_books_say_who_did_what(office, tmp_path):
    income = np.random.default_rng(5).uniform(0, 100, SIZE)
    pa.parquet.write_table(pa.table({"id": range(SIZE), "income": income}), tmp_path / "register.parquet")

    def survey(place):
        frame = ds.Frame(tmp_path / "register.parquet", unit="id", size=SIZE)
        return ds.Survey(frame, ds.poisson(0.1), ADD, budget=ds.Budget(1.0), ledger=place, name="team")

    with REFUSED:
        survey(office.ann).draw(tmp_path / "sample.parquet")
    with ds.Ledger(office.eve) as opener:
        opener.open_survey(survey(office.eve).terms)
    survey(office.ann).draw(tmp_path / "sample.parquet")
    with REFUSED:
        survey(office.eve).plan(INCOME, share=0.5).release()
    survey(office.ann).plan(INCOME, share=0.5).release().save(tmp_path / "release.json")
    assert ds.verify_ledger(office.bob, against=[tmp_path / "release.json"]).ok
    writers = dict(kinds_and_writers(office.bob))
    assert (writers["opened"], writers["made"]) == (office.logins["eve"], "survey")
    assert {writers[kind] for kind in ("sample", "reserved", "committed")} == {office.logins["ann"]}
    with ds.Ledger(office.bob) as reader:
        assert [charge["by"] for charge in reader.charges("team")] == [office.logins["ann"]]


def test_a_role_in_one_database_is_none_in_another_with_the_same_schema(office, postgres):
    base = f"base_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"create database {base}")
    elsewhere = postgres.removesuffix("postgres") + base
    with ds.Ledger(f"{elsewhere}#{office.schema}") as ledger:
        ledger.open_survey(terms())
    with roles_of(f"{elsewhere}#{office.schema}") as store:
        set_up_roles(store)
        assert members(store) == {"reader": [], "spender": [], "opener": []}
    with REFUSED:
        ds.Ledger(elsewhere.replace("survey@", f"{office.logins['ann']}@") + f"#{office.schema}")


@pytest.mark.parametrize("kind", ["sample", "reserved"])
def test_what_is_on_record_is_not_written_over_by_whoever_may_write(office, kind):
    with ds.Ledger(office.ann) as ledger:
        ledger.book("lfs", pure(0.5), "a table")
        last = next(entry["body"] for entry in reversed(ledger.entries()) if entry["kind"] == kind)
        spent = ledger.spending(terms()).spent
    assert spent > 0.0
    row = next_row(office.owner, office.logins["ann"], kind, last)
    with connected(office.ann) as server:
        server.execute(INSERT.format(""), (row.seq, row.text, row.hash))
    with pytest.raises(LedgerBroken, match=f"entry {row.seq}"):
        ds.Ledger(office.owner)
    assert [each.seq for each in ds.verify_ledger(office.owner).damages] == [row.seq]
