"""Surveys whose frames live in PostgreSQL, or are read by Spark: checked, drawn, sealed and released where the rows are."""

import gc
import os
import subprocess
import sys
import traceback
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design.key import Key
from dpsurvey.errors import BadData, BadValue, NotFound
from tests.engines import servers

# Ibis and Spark use options of pandas that are on their way out, and Spark leaves sockets open; nothing of ours does.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'future.infer_string' option"),
    pytest.mark.filterwarnings("ignore:The copy keyword is deprecated"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

REGIONS = {"north": 2400, "south": 1200, "island": 400}
SIZE = sum(REGIONS.values())
TAKES = {"north": 400, "south": 300, "island": 200}
DESIGNS = {
    "srs": ds.srs(n=900),
    "stratified": ds.stratified("region", within={label: ds.srs(n=take) for label, take in TAKES.items()}),
}
KEY = Key(bytes(range(32)))
STATISTICS = (
    ds.mean("income", bounds=(0, 100)),
    ds.mean("income", bounds=(0, 100), by="region"),
    ds.proportion("employed", True),
)


def people():
    rng = np.random.default_rng(11)
    region = np.repeat(list(REGIONS), list(REGIONS.values()))
    level = np.repeat([40.0, 50.0, 60.0], list(REGIONS.values()))
    order = rng.permutation(SIZE)
    return pa.table(
        {
            "id": rng.permutation(SIZE) + 1,
            "region": region[order].tolist(),
            "income": (level + rng.uniform(-30, 30, SIZE))[order],
            "employed": rng.random(SIZE) < 0.6,
        }
    )


PEOPLE = people()


def truth():
    """The numbers of STATISTICS, from the whole register, in their order."""
    region, income = PEOPLE["region"].to_numpy(), PEOPLE["income"].to_numpy()
    by_region = [income[region == label].mean() for label in REGIONS]
    return [income.mean(), *by_region, PEOPLE["employed"].to_numpy().mean()]


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(PEOPLE, path)
    return str(path)


@pytest.fixture(scope="module")
def on_postgres(postgres):
    return servers.put(postgres, "people", PEOPLE)


@pytest.fixture(params=["postgres", "spark"])
def place(request, parquet):
    """Where the register is, and the engine that reads it."""
    if request.param == "spark":
        request.getfixturevalue("spark")
        yield parquet, "spark"
        # Sockets of Spark's own are collected here, where their warning is expected.
        gc.collect()
    else:
        yield request.getfixturevalue("on_postgres"), "duckdb"


def a_frame(table):
    return ds.Frame(table, unit="id", size=SIZE, categories={"region": REGIONS, "employed": [True, False]}, public=["id"])


def a_survey(table, folder, design, engine="duckdb", epsilon=20.0):
    budget = ds.Budget(epsilon)
    return ds.Survey(a_frame(table), design, budget=budget, ledger=folder / "books.ledger", engine=engine)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_survey_on_a_server_is_checked_drawn_sealed_and_released(place, name, tmp_path):
    """Each of five numbers lies within 6 standard errors of the truth: false alarms 5 * 2 P(normal > 6) = 1e-8, and
    standard errors are themselves within a few percent at 200 units or more."""
    table, engine = place
    survey = a_survey(table, tmp_path, DESIGNS[name], engine)
    plan = survey.plan(*STATISTICS)
    survey.check(plan)
    sealed = survey.draw(tmp_path / "sample.parquet", plan)
    sample = pq.read_table(tmp_path / "sample.parquet").to_pylist()
    home = dict(zip(PEOPLE["id"].to_pylist(), PEOPLE["region"].to_pylist(), strict=True))
    assert len({line["unit"] for line in sample}) == 900
    assert sum(line["weight"] for line in sample) == pytest.approx(SIZE, rel=1e-9)
    if name == "stratified":
        assert Counter(line["stratum"] for line in sample) == TAKES
        assert all(line["stratum"] == home[line["unit"]] for line in sample)
        assert all(line["pi"] == pytest.approx(TAKES[line["stratum"]] / REGIONS[line["stratum"]]) for line in sample)
    release = plan.release()
    about = release.to_dict()["sample"]
    assert (about["id"], about["sealed"]) == (sealed.id, True)
    assert about["engine"].startswith("pyspark" if engine == "spark" else "postgres")
    rows = release.estimates
    assert len(rows) == 5
    for row, value in zip(rows, truth(), strict=True):
        assert abs(row["estimate"] - value) <= 6.0 * row["se"]
        # Not absurdly wide: the noise of epsilon 20 and 900 of 4000 units leave a few percent.
        assert row["se"] <= 0.05 * value


def test_a_release_without_a_sealed_sample_draws_in_secret(place, tmp_path):
    """Within 6 standard errors: false alarms 2e-9."""
    table, engine = place
    release = a_survey(table, tmp_path, DESIGNS["srs"], engine).plan(STATISTICS[0]).release()
    (row,) = release.estimates
    assert abs(row["estimate"] - truth()[0]) <= 6.0 * row["se"]
    assert row["se"] <= 0.05 * truth()[0]


def test_answers_come_back_for_a_sample_of_a_server(place, tmp_path):
    table, engine = place
    survey = a_survey(table, tmp_path, DESIGNS["stratified"], engine)
    survey.draw(tmp_path / "sample.parquet")
    units = pq.read_table(tmp_path / "sample.parquet")["unit"]
    # Hours are asked of those who were drawn; the frame knows nothing of them.
    answers = pa.table({"id": units, "hours": pa.array(np.full(len(units), 30.0))})
    release = survey.plan(ds.mean("hours", bounds=(0, 60), by="region"), responses=answers, share=0.5).release()
    assert len(release.estimates) == 3
    for row in release.estimates:
        assert abs(row["estimate"] - 30.0) <= 6.0 * row["se"] + 1e-6
    stranger = pa.table({"id": [-1], "hours": [30.0]})
    with pytest.raises(BadData, match="were not drawn"):
        survey.plan(ds.mean("hours", bounds=(0, 60)), responses=stranger, share=0.5).release()


def test_one_key_draws_one_sample_from_a_file_and_from_a_server(place, parquet, tmp_path):
    units = []
    for number, (table, engine) in enumerate([(parquet, "duckdb"), place]):
        folder = tmp_path / str(number)
        folder.mkdir()
        a_survey(table, folder, DESIGNS["stratified"], engine).draw(folder / "sample.parquet", key=KEY, start=0.37)
        units.append(pq.read_table(folder / "sample.parquet").to_pylist())
    assert units[0] == units[1]
    assert len(units[0]) == 900


def test_rows_that_break_a_declared_fact_are_refused_before_anything_is_spent(place, tmp_path):
    table, engine = place
    wrong = ds.Frame(table, unit="id", size=SIZE, categories={"region": {"north": 2399, "south": 1201, "island": 400}})
    survey = ds.Survey(wrong, DESIGNS["stratified"], budget=ds.Budget(1.0), ledger=tmp_path / "books.ledger", engine=engine)
    with pytest.raises(BadData, match="are not those of the frame"):
        survey.plan(STATISTICS[0]).release()
    ledger = ds.Ledger(tmp_path / "books.ledger")
    assert ledger.spending(survey.terms).spent == 0.0
    ledger.close()


@pytest.mark.parametrize("design", [ds.systematic(n=40, order="as listed"), ds.pps("id", n=40, order="as listed")])
def test_the_rows_of_a_server_have_no_order_of_their_own(place, design, tmp_path):
    table, engine = place
    survey = a_survey(table, tmp_path, design, engine)
    with pytest.raises(BadValue, match="have no order of their own") as caught:
        survey.draw(tmp_path / "sample.parquet")
    assert "name the columns to sort by" in str(caught.value)
    assert not (tmp_path / "sample.parquet").exists()


PASSWORD = "canary-7391"


def whole_message(caught):
    """What a user may see of an error: its text and its traceback, with all errors chained to it."""
    return str(caught.value) + "".join(traceback.format_exception(caught.type, caught.value, caught.tb))


@pytest.mark.parametrize("address", [f"survey:{PASSWORD}@127.0.0.1:1/postgres", f"survey@127.0.0.1:1/a?password={PASSWORD}"])
def test_an_address_with_a_password_is_refused_at_once_and_the_password_is_not_repeated(address, tmp_path):
    with pytest.raises(BadValue, match="holds a password") as caught:
        a_survey(f"postgresql://{address}#people", tmp_path, DESIGNS["srs"])
    assert "PGPASSWORD" in str(caught.value)
    assert PASSWORD not in whole_message(caught) + repr(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_table_is_named_with_its_nearest(on_postgres, tmp_path):
    with pytest.raises(NotFound, match="the server has no table 'peple'") as caught:
        a_survey(on_postgres.replace("#people", "#peple"), tmp_path, DESIGNS["srs"]).check()
    assert "did you mean 'people'?" in str(caught.value)


def test_an_address_without_a_table_asks_for_one(postgres, tmp_path):
    with pytest.raises(BadValue, match="say which table") as caught:
        a_survey(postgres, tmp_path, DESIGNS["srs"]).check()
    assert "#schema.table" in str(caught.value)


def test_a_table_of_another_schema_is_found(on_postgres, postgres, tmp_path):
    import psycopg

    with psycopg.connect(postgres) as server:
        server.execute("create schema census")
        server.execute("create table census.register as select * from people")
    a_survey(f"{postgres}#census.register", tmp_path, DESIGNS["srs"]).check()
    with pytest.raises(NotFound, match=r"no table 'census\.people'"):
        a_survey(f"{postgres}#census.people", tmp_path, DESIGNS["srs"]).check()


@pytest.mark.parametrize("fault", ["dead server", "no such database", "no such user"])
def test_a_server_that_does_not_let_us_in_gives_a_clear_error_and_no_words_of_the_driver(postgres, fault, tmp_path):
    address = {
        "dead server": f"postgresql://survey@127.0.0.1:{servers.free_port()}/postgres",
        "no such database": postgres.replace("/postgres", "/canary_database").replace(
            "postgresql:/canary_database", "postgresql:/"
        ),
        "no such user": postgres.replace("survey@", "canary_user@"),
    }[fault]
    with pytest.raises(NotFound, match="the PostgreSQL server did not answer") as caught:
        a_survey(f"{address}#people", tmp_path, DESIGNS["srs"]).check()
    message = whole_message(caught)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "psycopg" not in message
    assert "FATAL" not in message
    assert "connection to server" not in message


def test_a_column_that_the_server_does_not_have_is_named(place, tmp_path):
    table, engine = place
    survey = a_survey(table, tmp_path, DESIGNS["srs"], engine)
    with pytest.raises(NotFound, match="there is no column 'incme'") as caught:
        survey.plan(ds.mean("incme", bounds=(0, 100))).release()
    assert "did you mean 'income'?" in str(caught.value)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("nowhere.parquet", "there is no file 'nowhere.parquet'"),
        ("people.csv", "Spark reads the frame from Parquet"),
        (PEOPLE, "Spark reads files, not tables in memory"),
    ],
)
def test_spark_says_what_it_cannot_read(table, words, tmp_path):
    with pytest.raises((NotFound, BadValue), match=words):
        a_survey(table, tmp_path, DESIGNS["srs"], "spark").check()


def test_an_unknown_engine_is_named(parquet, tmp_path):
    with pytest.raises(BadValue, match="unknown engine 'sprak'") as caught:
        a_survey(parquet, tmp_path, DESIGNS["srs"], "sprak")
    assert "did you mean 'spark'?" in str(caught.value)


def test_without_java_spark_says_so(parquet, tmp_path):
    code = f"""
import dpsurvey as ds
from dpsurvey.errors import NotFound
frame = ds.Frame({parquet!r}, unit="id", size={SIZE})
survey = ds.Survey(frame, ds.srs(n=900), budget=ds.Budget(1.0), ledger="books.ledger", engine="spark")
try:
    survey.check()
except NotFound as error:
    print(error)
"""
    bare = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_REMOTE")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=bare | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Spark needs Java 17 or newer" in done.stdout
    assert "JAVA_HOME" in done.stdout
    assert "Traceback" not in done.stderr
