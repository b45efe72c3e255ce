"""Canaries in units, strata, sizes, clusters and orders appear in no message, repr, log line, manifest or receipt of a draw."""

import logging
import os
import sys
import traceback
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.cli import app as cli
from dpsurvey.engine import Engine
from dpsurvey.survey.survey import Survey
from tests.places import as_csv, as_ibis, as_parquet, in_memory

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")

# Values that occur nowhere but in the rows, and the part of each that a message would show if it cut or rounded it.
UNIT, STRATUM, CLUSTER, SECOND, ORDER = "canary-unit-7q", "atlantis-7q", "el-dorado-7q", "shangri-la-7q", "avalon-7q"
NUMBER, RATE = 987654.321, 0.31415926
CANARIES = ("canary-unit", "atlantis", "el-dorado", "shangri-la", "avalon", "987654", "987,654", "9.87654", "9.8765e", "0.314159")
# Counts that no declaration names: drawn samples of random size, rows of a cluster.
SIZE, REGIONS, PUBLIC = 60, {"north": 36, "south": 24}, ("psu", "ssu", "employees", "rate", "street")
SETTING = ds.Setting("frame", neighbours="replace-one")


def people():
    place = np.arange(SIZE)
    return pd.DataFrame(
        {
            "person": [f"{UNIT}-{number}" for number in place],
            "region": np.repeat(list(REGIONS), list(REGIONS.values())),
            "psu": [f"{CLUSTER}-{number}" for number in place // 6],
            "ssu": [f"{SECOND}-{number}" for number in place // 2],
            "employees": NUMBER + place // 6,
            "rate": RATE,
            "street": [f"{ORDER}-{number}" for number in place[::-1]],
        }
    )


def changed(column, value):
    def change(rows):
        rows[column] = rows[column].astype(object) if isinstance(value, str) else rows[column]
        rows.loc[7, column] = value
        return rows

    return change


def same(rows):
    return rows


def twice(rows):
    rows.loc[9, "person"] = rows.loc[3, "person"]
    return rows


PPS, RATED, CLUSTERS = ds.pps("employees", n=6), ds.poisson_by("rate", at_most=0.5), ds.cluster("psu", ds.srs(n=4))
STRATA = ds.stratified("region", within={"north": ds.systematic(n=9, order="street"), "south": CLUSTERS})
STAGES = ds.stages(CLUSTERS, ds.cluster("ssu", ds.srs(n=2)), ds.srs(n=1))
FAILING = {
    "a unit twice": (ds.srs(n=6), twice),
    "a unit twice in clusters": (STAGES, twice),
    "a stratum that was not declared": (STRATA, changed("region", STRATUM)),
    "a stratum that is missing": (STRATA, changed("region", None)),
    "a size of zero": (PPS, changed("employees", 0.0)),
    "a size below zero": (ds.pps("employees", n=6, method="sampford"), changed("employees", -NUMBER)),
    "a size that is missing": (ds.pps("employees", n=6, method="poisson"), changed("employees", None)),
    "sizes that are words": (PPS, lambda rows: rows.assign(employees=STRATUM)),
    "sizes that differ in a cluster": (ds.cluster("psu", PPS), changed("employees", NUMBER)),
    "an infinite size": (ds.pps("employees", n=6, method="pivotal"), changed("employees", np.inf)),
    "sizes whose sum is infinite": (ds.pps("employees", n=6, method="pivotal"), lambda rows: rows.assign(employees=1.5e308)),
    "a probability above the bound": (ds.pps("employees", n=6, method="sampford", at_most=0.01), same),
    "a probability above the bound, poisson": (ds.pps("employees", n=6, method="poisson", at_most=0.01), same),
    "a rate above the bound": (ds.poisson_by("rate", at_most=0.2), same),
    "a rate of zero": (RATED, changed("rate", 0.0)),
    "rates that are words": (RATED, lambda rows: rows.assign(rate=STRATUM)),
    "a cluster that is missing": (CLUSTERS, changed("psu", None)),
    "too few clusters": (ds.cluster("psu", ds.srs(n=11)), same),
    "too few units in a cluster": (ds.stages(CLUSTERS, ds.srs(n=7)), same),
    "too few clusters in a cluster": (ds.stages(CLUSTERS, ds.cluster("ssu", ds.srs(n=4))), same),
    "clusters that are too large": (ds.cluster("psu", ds.srs(n=4), clusters=10, cap=5), same),
    "too many clusters": (ds.cluster("psu", ds.srs(n=4), clusters=9, cap=6), same),
    "too few in a stratum": (ds.stratified("region", within=ds.pps("employees", n=30, method="pivotal")), same),
    "an order that is missing": (ds.systematic(n=6, order="street"), changed("street", None)),
    "a frame of another size": (ds.systematic(n=6), lambda rows: rows[5:]),
}


def a_survey(folder, table, design, **more):
    frame = ds.Frame(table, unit="person", size=SIZE, categories={"region": REGIONS}, public=PUBLIC)
    return ds.Survey(frame, design, SETTING, budget=ds.Budget(1.0), ledger=folder / "books.ledger", **more)


def said_by(error):
    """Everything that an error, and every error behind it, can say."""
    parts, seen = [], []
    while error is not None and error not in seen:
        seen.append(error)
        parts += ["".join(traceback.format_exception(error)), str(error), repr(error), repr(error.args)]
        parts += [*getattr(error, "__notes__", ()), str(error.to_dict()) if isinstance(error, ds.SurveyError) else ""]
        error = error.__cause__ or error.__context__
    return "\n".join(parts)


def canaries_in(text):
    return [canary for canary in CANARIES if canary in text]


@pytest.fixture
def listening(caplog, capfd):
    """Log lines of every library at DEBUG, warnings, and both streams, as one text."""

    @contextmanager
    def listen(heard):
        caplog.set_level(logging.DEBUG)
        for name in ("sqlalchemy", "ibis", "duckdb"):
            caplog.set_level(logging.DEBUG, logger=name)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
        heard.append(caplog.text)
        heard.extend(record.getMessage() for record in caplog.records)
        heard.extend(str(warning.message) for warning in warned)
        heard.extend(capfd.readouterr())

    return listen


def written_in(folder):
    """Every byte of what was written, but the frame and the sample itself."""
    data = ("frame.parquet", "frame.csv", "sample.parquet")
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in data]
    return "\n".join([*(path.read_bytes().decode("latin-1") for path in files), *map(str, files)])


def test_the_search_finds_a_canary_in_every_place_it_looks(listening, tmp_path):
    heard = []
    with listening(heard):
        logging.getLogger("anything").debug("size 987654.321")
        warnings.warn("a stratum atlantis-7q", stacklevel=1)
        print("canary-unit-7q")
        os.write(2, b"el-dorado-7q")
    assert set(canaries_in("\n".join(heard))) == {"987654", "atlantis", "canary-unit", "el-dorado"}
    (tmp_path / "books.ledger").write_bytes(b"\x00\xff avalon \x00")
    assert canaries_in(written_in(tmp_path)) == ["avalon"]
    assert canaries_in(str(people().to_dict())) == [
        c for c in CANARIES if c in ("canary-unit", "el-dorado", "shangri-la", "avalon", "987654", "0.314159")
    ]


PLACES = (as_parquet, in_memory, as_csv, as_ibis)
SEVERAL = ("a unit twice", "a rate above the bound", "sizes that are words", "too few clusters", "a probability above the bound")
EVERY = [*((name, as_parquet) for name in FAILING), *((name, place) for name in SEVERAL for place in PLACES[1:])]


@pytest.mark.parametrize(("name", "place"), EVERY, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_a_draw_that_fails_tells_nothing(tmp_path, listening, name, place):
    design, change = FAILING[name]
    heard = []
    with listening(heard):
        survey = a_survey(tmp_path, place(change(people()), tmp_path), design, progress=lambda *told: heard.append(repr(told)))
        for how in ({}, {"key": ds.Key(bytes(32)), "start": 0.5}):
            with pytest.raises(ds.SurveyError) as caught:
                survey.draw(tmp_path / "sample.parquet", **how)
            heard.append(said_by(caught.value))
        heard += [
            repr(survey),
            repr(survey.terms),
            repr(survey._open()),
            repr(survey.terms.design),
            repr(survey.terms.frame.public),
        ]
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(written_in(tmp_path)) == []
    assert not (tmp_path / "sample.parquet").exists()


DRAWN = {
    "srs": ds.srs(n=6),
    "with replacement": ds.with_replacement(n=4),
    "poisson by": RATED,
    "proportional": ds.proportional(0.13),
    "systematic": ds.systematic(n=6, order="street"),
    "pps": ds.pps("employees", n=6),
    "pps sampford": ds.pps("employees", n=6, method="sampford", at_most=0.5),
    "cluster": CLUSTERS,
    "stages": STAGES,
    "strata": ds.stratified(
        "region", within={"north": ds.systematic(n=9, order="street"), "south": ds.cluster("psu", ds.srs(n=2))}
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_draw_that_succeeds_tells_nothing_outside_its_sample(tmp_path, listening, name):
    heard = []
    with listening(heard):
        table = as_parquet(people(), tmp_path)
        survey = a_survey(tmp_path, table, DRAWN[name], progress=lambda *told: heard.append(repr(told)))
        sealed = survey.draw(tmp_path / "sample.parquet", key=ds.Key(bytes(range(32))))
        heard += [repr(sealed), str(sealed), repr(survey), str(ds.Ledger(tmp_path / "books.ledger").samples())]
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(written_in(tmp_path)) == []
    assert b"canary-unit" in (tmp_path / "sample.parquet").read_bytes()


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("name", ["drawn", "a rate above the bound", "a unit twice"])
def test_receipts_and_errors_of_the_command_line_tell_nothing(tmp_path, monkeypatch, capfd, name, flags):
    as_parquet(FAILING[name][1](people()) if name in FAILING else people(), tmp_path)
    bound = 0.2 if name == "a rate above the bound" else 0.5
    (tmp_path / "survey.toml").write_text(
        '[survey]\nname = "s"\nledger = "books.ledger"\n[frame]\ntable = "frame.parquet"\nunit = "person"\nsize = 60\n'
        f'public = ["rate"]\n[design]\nkind = "poisson-by"\nrate = "rate"\nat_most = {bound}\n[budget]\nepsilon = 1\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["dpsurvey", "draw", "survey.toml", "-o", "sample.parquet", *flags])
    with pytest.raises(SystemExit) as left:
        cli.main()
    said = capfd.readouterr()
    assert (left.value.code or 0) == (0 if name == "drawn" else 1), said.err
    assert canaries_in(said.out + said.err) == []
    assert canaries_in(written_in(tmp_path)) == []


def test_an_error_in_the_middle_of_a_draw_tells_nothing(tmp_path, listening, monkeypatch):
    """Whatever an engine says while it draws, with the value in its message, is not passed on."""
    import dpsurvey.engine

    def sings(*given, **named):
        raise ValueError(f"Conversion Error: could not convert string '{UNIT}' in row 987654")

    heard = []
    with listening(heard):
        for step in ("draw_sample", "write_parquet"):
            with monkeypatch.context() as patched:
                patched.setattr(dpsurvey.engine, step, sings)
                survey = a_survey(tmp_path, as_parquet(people(), tmp_path), STAGES)
                with pytest.raises(ds.SurveyError) as caught:
                    survey.draw(tmp_path / "sample.parquet")
                heard.append(said_by(caught.value))
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(written_in(tmp_path)) == []


def test_the_objects_of_a_draw_do_not_show_rows(tmp_path):
    survey = a_survey(tmp_path, people(), CLUSTERS)
    assert isinstance(survey, Survey)
    survey.draw(tmp_path / "sample.parquet")
    engine = Engine(people())
    shown = [repr(survey.__dict__["terms"]), repr(engine), str(engine), repr(survey.terms.frame), str(survey.terms.frame)]
    assert canaries_in("\n".join(shown)) == []
