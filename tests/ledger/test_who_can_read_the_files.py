"""A ledger is closed to others, a sample they can read is refused, a ledger that can only be read is shown."""

import contextlib
import copy
import json
import os
import pickle
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dpsurvey as ds
from dpsurvey.cli.app import app
from dpsurvey.engine import Engine, SecretSums
from dpsurvey.errors import BadData, BadValue, LedgerUnavailable, UsageError

ADD = ds.Setting("frame", neighbours="add-remove")
SMALL = ds.PrivacyProfile.pure(0.001, "add-remove")
NOBODY = 65534
needs_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs two users")


def a_ledger(place):
    frame = ds.Frame("register.parquet", unit="id", size=200)
    with ds.Ledger(place) as ledger:
        ledger.open_survey(ds.Survey(frame, ds.poisson(0.1), ADD, budget=ds.Budget(2.0), ledger=place, name="lfs").terms)
        ledger.book("lfs", SMALL, "a table")
    return place


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@contextlib.contextmanager
def as_nobody():
    """For root, who may write anywhere, the identity of nobody in particular."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def home(tmp_path_factory):
    """A folder that everybody can reach."""
    home = tmp_path_factory.mktemp("home")
    for each in (home, *(each for each in home.parents if each.name.startswith(("pytest-", "popen-")))):
        each.chmod(0o755)
    yield home
    home.chmod(0o755)


# A ledger that others can read


@pytest.mark.parametrize("was", [0o644, 0o660, 0o666, 0o604, 0o640])
def test_a_ledger_that_others_could_read_is_closed_to_them_when_it_is_opened(tmp_path, was):
    place = a_ledger(tmp_path / "books.ledger")
    place.chmod(was)
    with ds.Ledger(place) as ledger:
        ledger.book("lfs", SMALL, "another table")
        assert {mode(path) for path in tmp_path.iterdir()} == {0o600}
        assert len(list(tmp_path.iterdir())) == 3
    assert mode(place) == 0o600
    assert ds.verify_ledger(place).ok


def test_the_log_of_a_ledger_that_is_open_elsewhere_is_closed_too(tmp_path):
    place = a_ledger(tmp_path / "books.ledger")
    with ds.Ledger(place):
        for path in tmp_path.iterdir():
            path.chmod(0o644)
        ds.Ledger(place).close()
        assert {mode(path) for path in tmp_path.iterdir()} == {0o600}


@needs_root
def test_a_ledger_of_somebody_else_that_others_can_read_is_refused(home):
    place = a_ledger(home / "books.ledger")
    place.chmod(0o666)
    home.chmod(0o777)
    with as_nobody(), pytest.raises(LedgerUnavailable, match="others can read the ledger") as caught:
        ds.Ledger(place)
    assert "PostgreSQL" in caught.value.hint
    assert mode(place) == 0o666


def test_a_ledger_with_two_names_is_refused_as_each_would_have_a_log_of_its_own(tmp_path):
    place = a_ledger(tmp_path / "books.ledger")
    os.link(place, tmp_path / "second.ledger")
    for name in ("books.ledger", "second.ledger"):
        with pytest.raises(LedgerUnavailable, match="more than one name"):
            ds.Ledger(tmp_path / name)
    (tmp_path / "second.ledger").unlink()
    with ds.Ledger(place) as ledger:
        assert len(ledger.charges("lfs")) == 1


# A ledger that can only be read

SHOWN = {
    "tree": ("lfs", "0.0001"),
    "show": ("opened", "reserved"),
    "verify": ("whole",),
}


@pytest.mark.parametrize("verb", SHOWN)
@pytest.mark.parametrize(("file", "folder"), [(0o400, 0o777), (0o444, 0o777), (0o444, 0o555), (0o400, 0o555), (0o600, 0o555)])
def test_a_ledger_that_can_only_be_read_is_shown(home, verb, file, folder):
    place = a_ledger(home / "books.ledger")
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    before = place.read_bytes()
    place.chmod(file)
    home.chmod(folder)
    with as_nobody():
        done = CliRunner().invoke(app, ["ledger", verb, str(place)])
        assert done.exception is None, done.exception
        with pytest.raises(UsageError, match="the ledger cannot be written"), ds.Ledger(place) as ledger:
            ledger.book("lfs", SMALL, "another table")
    assert all(word in done.stdout for word in SHOWN[verb]), done.stdout
    assert place.read_bytes() == before
    assert mode(place) == file


def test_what_was_written_to_a_log_is_shown_of_a_ledger_that_can_only_be_read(home):
    place = a_ledger(home / "books.ledger")
    with ds.Ledger(place) as ledger:
        ledger.book("lfs", SMALL, "in the log")
        if os.geteuid() == 0:
            for path in home.iterdir():
                os.chown(path, NOBODY, NOBODY)
        place.chmod(0o400)
        with as_nobody():
            done = CliRunner().invoke(app, ["ledger", "tree", str(place), "--json"])
    assert len(json.loads(done.stdout)["surveys"][0]["samples"]) == 2


# A sample that others can read


def drawn(folder):
    random = np.random.default_rng(1)
    register = pa.table({"id": np.arange(500), "income": random.gamma(2.0, 10.0, 500)})
    pq.write_table(register, folder / "register.parquet")
    frame = ds.Frame(str(folder / "register.parquet"), unit="id", size=500)
    survey = ds.Survey(frame, ds.poisson(0.2), ADD, budget=ds.Budget(1.0), ledger=folder / "books.ledger")
    survey.draw(folder / "sample.parquet")
    return survey


@pytest.mark.parametrize("was", [0o644, 0o640, 0o604, 0o620])
def test_a_sealed_sample_that_others_can_read_is_refused_and_nothing_is_spent(tmp_path, was):
    survey = drawn(tmp_path)
    (tmp_path / "sample.parquet").chmod(was)
    with pytest.raises(BadData, match="others can read the file of the sealed sample") as caught:
        survey.plan(ds.mean("income", bounds=(0, 100))).release()
    assert "draw a new one" in caught.value.hint
    with ds.Ledger(tmp_path / "books.ledger") as ledger:
        assert ledger.charges("survey") == []
    (tmp_path / "sample.parquet").chmod(0o600)
    assert len(survey.plan(ds.mean("income", bounds=(0, 100))).release().estimates) == 1


# What an engine holds


def test_exact_sums_and_engines_are_not_pickled_copied_or_taken_apart(tmp_path):
    drawn(tmp_path)
    sums = SecretSums(np.array([[1234567]]))
    for secret in (sums, Engine(str(tmp_path / "register.parquet")), Engine(pa.table({"id": [1, 2], "income": [1234567, 2]}))):
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(BadValue, match="not pickled or copied"):
                leak(secret)
    with pytest.raises(TypeError):
        vars(sums)
