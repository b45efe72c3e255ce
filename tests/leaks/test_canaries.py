"""Canaries in the data appear in no message, traceback, log line, warning, repr, ledger, release or report."""

import logging
import os
import re
import sys
import traceback
import warnings
from contextlib import contextmanager

import duckdb
import ibis
import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.cli import app as cli
from dpsurvey.engine import Engine, Expectations
from dpsurvey.survey.survey_file import write_survey_file
from tests.places import as_csv, as_ibis, as_parquet, in_memory

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")

# A number, a unit, a category and a remark that occur nowhere but in the rows; and the part of each that a message
# would still show if it cut or rounded it.
NUMBER, UNIT, CATEGORY, REMARK = 987654.321, "canary-unit-7q", "atlantis-7q", "told-in-confidence-7q"
CANARIES = ("987654", "987,654", "9.87654", "9.8765e", "canary-unit", "atlantis", "told-in-confidence")
SIZE = 3000
ROWS_THAT_DUCKDB_SNIFFS = 20_480


def people(size=SIZE):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "person": [f"p{number}" for number in range(size)],
            "region": np.resize(["north", "south", "north"], size),
            "sex": rng.choice(["female", "male"], size),
            "income": rng.uniform(0, 100, size),
            "job": np.resize(["farmer", "clerk"], size),
            "remark": REMARK,
        }
    )
    # One person whose every value is a canary, the category in a column without declared categories.
    rows.loc[7, ["person", "income", "job"]] = [UNIT, NUMBER, CATEGORY]
    return rows


def broken(column, value):
    def change(rows):
        rows.loc[9, column] = value
        return rows

    return change


REGIONS = {"north": 2000, "south": 1000}
STATISTICS = (
    ds.mean("income", bounds=(0, 100), by="sex"),
    ds.total("income", bounds=(0, 100)),
    ds.proportion("job", "clerk", by="region"),
    ds.count(by="sex"),
)


def a_survey(folder, table, *, design=None, setting=None, size=SIZE, regions=REGIONS, epsilon=1.0, progress=None):
    frame = ds.Frame(table, unit="person", size=size, categories={"region": regions, "sex": ["female", "male"]})
    return ds.Survey(
        frame,
        design or ds.stratified("region", within=ds.srs(n=100)),
        setting,
        budget=ds.Budget(epsilon),
        ledger=folder / "books.ledger",
        progress=progress,
    )


def chain(error):
    """The error and every error behind it, whether or not a traceback would print them."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return seen


def said_by(error):
    """Everything that an error can say."""
    parts = ["".join(traceback.format_exception(error))]
    for each in chain(error):
        parts += [str(each), repr(each), repr(each.args), *getattr(each, "__notes__", ())]
        parts += [str(each.to_dict())] if isinstance(each, ds.SurveyError) else []
    return "\n".join(parts)


def canaries_in(text):
    return [canary for canary in CANARIES if canary in text]


@pytest.fixture
def listening(caplog, capfd):
    """Log lines of every library at DEBUG, warnings, and both streams, as one text."""

    @contextmanager
    def listen(heard):
        caplog.set_level(logging.DEBUG)
        for name in ("sqlalchemy", "ibis", "duckdb", "opendp"):
            caplog.set_level(logging.DEBUG, logger=name)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
        heard.append(caplog.text)
        heard.extend(record.getMessage() for record in caplog.records)
        heard.extend(str(warning.message) for warning in warned)
        heard.extend(capfd.readouterr())

    return listen


def files_in(folder, *, but=()):
    """Every byte of what was written, as text."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in but]
    return "\n".join(path.read_bytes().decode("latin-1") for path in paths)


def quiet_only_at_first_sight():
    try:
        raise ValueError("could not convert atlantis-7q")
    except ValueError:
        raise ds.SurveyError("quiet") from None


def test_the_search_finds_a_canary_in_every_place_it_looks(listening, tmp_path):
    heard = []
    with listening(heard):
        logging.getLogger("anything").debug("value 987654.321")
        warnings.warn("a category atlantis-7q", stacklevel=1)
        print("canary-unit-7q")
        os.write(2, b"told-in-confidence-7q")
    assert set(canaries_in("\n".join(heard))) == {"987654", "atlantis", "canary-unit", "told-in-confidence"}
    with pytest.raises(ds.SurveyError) as caught:
        quiet_only_at_first_sight()
    assert canaries_in(said_by(caught.value)) == ["atlantis"]
    (tmp_path / "ledger").write_bytes(b"\x00\xff canary-unit \x00")
    assert canaries_in(files_in(tmp_path)) == ["canary-unit"]


def twice(rows):
    rows.loc[9, "person"] = UNIT
    return rows


BAD_ROWS = {
    "a missing number": broken("income", None),
    "an infinite number": broken("income", np.inf),
    "a missing unit": broken("person", None),
    "an undeclared category": broken("sex", CATEGORY),
    "an undeclared stratum": broken("region", CATEGORY),
    "a unit twice": twice,
    "an empty stratum": lambda rows: rows.assign(region="north"),
    "sizes that are not declared": lambda rows: rows[5:],
}


DATA = ("frame.parquet", "frame.csv", "answers.csv", "answers.parquet", "sample.parquet")


EVERY_FACT_AND_EVERY_PLACE = [
    *((name, as_parquet) for name in BAD_ROWS),
    *((name, place) for name in ("an undeclared category", "a unit twice") for place in (in_memory, as_csv, as_ibis)),
]


@pytest.mark.parametrize(("name", "place"), EVERY_FACT_AND_EVERY_PLACE)
def test_rows_that_break_a_declared_fact_tell_nothing(tmp_path, listening, name, place):
    heard = []
    with listening(heard):
        survey = a_survey(tmp_path, place(BAD_ROWS[name](people()), tmp_path))
        plan = survey.plan(*STATISTICS)
        for act in (plan.release, lambda: survey.check(plan), lambda: survey.draw(tmp_path / "sample.parquet", plan)):
            with pytest.raises(ds.SurveyError) as caught:
                act()
            heard.append(said_by(caught.value))
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(files_in(tmp_path, but=DATA)) == []


def a_long_csv(folder, spoil):
    """A CSV file that is bad only after the rows that DuckDB looks at to guess the types."""
    size = ROWS_THAT_DUCKDB_SNIFFS + 5000
    lines = people(size).to_csv(index=False).splitlines()
    lines[ROWS_THAT_DUCKDB_SNIFFS + 2000] = spoil(lines[ROWS_THAT_DUCKDB_SNIFFS + 2000])
    path = folder / "frame.csv"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape") + b"\n")
    return path, size


def with_income(line, text):
    cells = line.split(",")
    return ",".join([*cells[:3], text, *cells[4:]])


BAD_LINES = {
    "a word for a number": lambda line: with_income(line, CATEGORY),
    "a cell too many": lambda line: f"{line},{CATEGORY}",
    "a cell alone": lambda line: str(NUMBER),
    "a quote that never ends": lambda line: with_income(line, f'"{CATEGORY}'),
    "bytes that are not text": lambda line: line.replace("told", "\udcff\udcfetold"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_csv_line_that_breaks_in_the_middle_of_a_scan_tells_nothing(tmp_path, listening, name):
    heard = []
    path, size = a_long_csv(tmp_path, BAD_LINES[name])
    with listening(heard):
        survey = a_survey(tmp_path, path, size=size, regions=["north", "south"], design=ds.poisson(0.1))
        plan = survey.plan(ds.mean("income", bounds=(0, 100)), ds.count("remark", "none"))
        for act in (plan.release, lambda: survey.check(plan), lambda: survey.draw(tmp_path / "sample.parquet", plan)):
            with pytest.raises(ds.SurveyError) as caught:
                act()
            heard.append(said_by(caught.value))
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(files_in(tmp_path, but=DATA)) == []


def test_a_csv_without_a_header_tells_nothing(tmp_path, listening):
    # DuckDB takes a first line of words for a header, so the names of columns are then the values of a person.
    people()[["person", "region", "sex", "job", "remark"]][7:].to_csv(tmp_path / "frame.csv", index=False, header=False)
    heard = []
    with listening(heard):
        survey = a_survey(tmp_path, tmp_path / "frame.csv")
        with pytest.raises(ds.SurveyError) as caught:
            survey.plan(ds.count(by="sex")).release()
        heard.append(said_by(caught.value))
    assert canaries_in("\n".join(heard)) == []


def test_a_column_of_mixed_objects_tells_nothing(tmp_path, listening):
    rows = people(30_000)
    rows["income"] = rows["income"].astype(object)
    rows.loc[25_000, "income"] = CATEGORY
    heard = []
    with listening(heard):
        survey = a_survey(tmp_path, rows, size=30_000, regions=["north", "south"], design=ds.poisson(0.1))
        with pytest.raises(ds.SurveyError) as caught:
            survey.plan(ds.mean("income", bounds=(0, 100))).release()
        heard.append(said_by(caught.value))
    assert canaries_in("\n".join(heard)) == []


def a_sealed_survey(folder):
    """A sealed sample of a frame whose units are numbers."""
    rows = people().assign(person=range(SIZE))
    rows.to_parquet(folder / "frame.parquet")
    a_survey(folder, folder / "frame.parquet").draw(folder / "sample.parquet")
    drawn = duckdb.sql(f"select unit as person from '{folder / 'sample.parquet'}'").df()
    return a_survey(folder, folder / "frame.parquet"), drawn.assign(hours=NUMBER, remark=REMARK)


BAD_ANSWERS = {
    "a unit that was not drawn": lambda rows: pd.concat([rows, rows[:1].assign(person=98765400)]),
    "a unit twice": lambda rows: pd.concat([rows, rows[:1]]),
    "a unit that is a word": lambda rows: pd.concat([rows.astype({"person": str}), rows[:1].assign(person=UNIT)]),
    "a missing answer": lambda rows: pd.concat([rows[1:], rows[:1].assign(hours=np.nan)]),
    "an answer in words": lambda rows: pd.concat([rows[1:].astype({"hours": object}), rows[:1].assign(hours=CATEGORY)]),
    "an undeclared category": lambda rows: rows.assign(sex=CATEGORY),
}


@pytest.mark.parametrize("form", ["csv", "parquet", "memory"])
@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_bad_responses_tell_nothing(tmp_path, listening, name, form):
    survey, rows = a_sealed_survey(tmp_path)
    bad = BAD_ANSWERS[name](rows)
    if form != "csv" and name == "an answer in words":
        bad = bad.astype({"hours": str})
    given = bad if form == "memory" else tmp_path / f"answers.{form}"
    if form != "memory":
        bad.to_csv(given, index=False) if form == "csv" else bad.to_parquet(given)
    heard = []
    with listening(heard):
        plan = survey.plan(ds.mean("hours", bounds=(0, 60), by="sex"), responses=given)
        with pytest.raises(ds.SurveyError) as caught:
            plan.release()
        heard += [said_by(caught.value), repr(plan), str(plan)]
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(files_in(tmp_path, but=DATA)) == []


def spoil_frame(folder):
    broken("sex", CATEGORY)(people()).to_parquet(folder / "frame.parquet")


def spoil_type(folder):
    people().assign(income=CATEGORY).to_parquet(folder / "frame.parquet")


@pytest.mark.parametrize("spoil", [spoil_frame, spoil_type])
def test_a_frame_that_turns_bad_after_the_reservation_tells_nothing(tmp_path, listening, spoil):
    people().to_parquet(tmp_path / "frame.parquet")

    def progress(what, done, total):
        if (what, done) == ("taking the sample", 0):
            spoil(tmp_path)

    heard = []
    with listening(heard):
        survey = a_survey(
            tmp_path, tmp_path / "frame.parquet", design=ds.poisson(1.0), regions=["north", "south"], progress=progress
        )
        with pytest.raises(ds.SurveyError) as caught:
            survey.plan(ds.mean("income", bounds=(0, 100), by="sex")).release()
        heard.append(said_by(caught.value))
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(files_in(tmp_path, but=DATA)) == []


def locals_of_the_package(error):
    """What a debugger, a crash reporter or a traceback with local variables would show of the package's own frames."""
    shown = []
    for each in chain(error):
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if frame.f_globals.get("__name__", "").split(".")[0] == "dpsurvey":
                shown += [f"{frame.f_code.co_name}: {name} = {value!r}" for name, value in frame.f_locals.items()]
    assert shown, "there are frames to look at"
    return "\n".join(shown)


def whole_numbers(text):
    """The whole numbers in a text that are not part of an address, an id or a fraction."""
    return set(re.findall(r"(?<![\w.])\d+(?![\w.]*\w)", text))


def test_local_variables_of_an_interrupted_release_hold_no_exact_sum(tmp_path):
    # Interrupted after the first sums were taken; a census, so the exact sums are known here. At epsilon 1e-7 the noise
    # is 0 with probability 1e-7, so a noisy sum does not look like the exact one by chance.
    rows = people()

    def progress(what, done, total):
        if (what, done) == ("summing and adding noise", 1):
            raise KeyboardInterrupt

    survey = a_survey(tmp_path, rows, design=ds.poisson(1.0), regions=["north", "south"], epsilon=1e-7, progress=progress)
    with pytest.raises(KeyboardInterrupt) as caught:
        survey.plan(ds.count(by="sex"), ds.count("job", "clerk")).release()
    exact = {str(count) for count in rows.groupby("sex").size()}
    assert whole_numbers(locals_of_the_package(caught.value)) & exact == set()


def test_local_variables_behind_a_refusal_hold_no_count_and_no_value(tmp_path):
    # 2001 people in the north where 2000 were declared: the refusal must not carry the true number.
    rows = people()
    rows.loc[1, "region"] = "north"
    survey = a_survey(tmp_path, rows)
    with pytest.raises(ds.SurveyError, match="sizes of 'region'") as caught:
        survey.plan(ds.mean("income", bounds=(0, 100), by="sex")).release()
    shown = locals_of_the_package(caught.value)
    assert canaries_in(shown) == []
    assert "2001" not in whole_numbers(shown)


def test_the_search_for_whole_numbers_finds_them():
    assert whole_numbers("[[2001, 17]] {'north': 5} <object at 0x7f1487> 1487.5 a1487 1e5") == {"2001", "17", "5"}


def test_local_variables_behind_an_undeclared_category_do_not_hold_it(tmp_path):
    # The check of rows would stop this earlier; sums are the second line.
    engine = Engine(broken("sex", CATEGORY)(people()))
    engine.draw(ds.poisson(1.0).recipe(), Expectations(unit="person", numeric=("income",), present=("sex", "region")))
    plan = a_survey(tmp_path, "nowhere.parquet").plan(ds.mean("income", bounds=(0, 100), by="sex"))
    with pytest.raises(ds.SurveyError, match="not declared") as caught:
        engine.sums(plan.items[0].query)
    assert canaries_in(said_by(caught.value)) == []
    assert canaries_in(locals_of_the_package(caught.value)) == []


def shown_by(each):
    return [repr(each), str(each), f"{each}", format(each)]


@pytest.mark.parametrize("place", [in_memory, as_parquet, as_csv, as_ibis])
def test_a_good_release_and_every_object_on_its_way_are_silent_about_rows(tmp_path, listening, place):
    heard = []
    with listening(heard):
        survey = a_survey(tmp_path, place(people(), tmp_path))
        plan = survey.plan(*STATISTICS)
        release = plan.release()
        engine = survey._engine
        sums = engine.sums(plan.items[0].query)
        objects = (survey, survey.terms, survey.terms.frame, survey.terms.design, plan, *plan.items, release, engine, sums)
        for each in (*objects, ds.Ledger(tmp_path / "books.ledger").spending(survey.terms)):
            heard += shown_by(each)
        heard += [release.explain(), str(plan.to_dict()), str(release.to_dict()), release.to_csv(), str(survey.terms.to_dict())]
        for name in ("release.json", "release.csv", *(["report.html"] if place is in_memory else [])):
            release.save(tmp_path / name)
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(files_in(tmp_path, but=DATA)) == []


def test_a_plan_with_responses_in_memory_shows_none_of_them(tmp_path):
    survey = a_survey(tmp_path, people())
    for given in (people(), ibis.memtable(people())):
        plan = survey.plan(ds.mean("income", bounds=(0, 100)), responses=given)
        assert canaries_in("\n".join([*shown_by(plan), str(plan.to_dict())])) == []


def test_a_frame_in_memory_shows_none_of_its_rows():
    for table in (people(), ibis.memtable(people())):
        frame = ds.Frame(table, unit="person", size=SIZE)
        assert canaries_in("\n".join([*shown_by(frame), str(frame.to_dict())])) == []


def test_a_sealed_sample_is_nowhere_but_in_its_file(tmp_path, listening):
    rows = people()
    rows["person"] = [f"canary-unit-{number}" for number in range(SIZE)]
    rows.to_parquet(tmp_path / "frame.parquet")
    heard = []
    with listening(heard):
        survey = a_survey(tmp_path, tmp_path / "frame.parquet")
        sealed = survey.draw(tmp_path / "sample.parquet")
        release = survey.plan(*STATISTICS).release()
        heard += [repr(sealed), str(release.to_dict())]
    assert canaries_in("\n".join(heard)) == []
    assert "canary-unit" in files_in(tmp_path, but=("frame.parquet",)), "the search would find them"
    assert canaries_in(files_in(tmp_path, but=("frame.parquet", "sample.parquet"))) == []


def on_the_command_line(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["dpsurvey", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["words", "json"])
def test_the_command_line_tells_nothing(tmp_path, listening, monkeypatch, more):
    path, size = a_long_csv(tmp_path, BAD_LINES["a word for a number"])
    survey = a_survey(tmp_path, path, size=size, regions=["north", "south"], design=ds.poisson(0.1))
    write_survey_file(tmp_path / "survey.toml", survey, survey.plan(ds.mean("income", bounds=(0, 100))))
    heard = []
    with listening(heard):
        toml = tmp_path / "survey.toml"
        assert on_the_command_line(monkeypatch, "check", toml, *more) == 1
        assert on_the_command_line(monkeypatch, "release", toml, "--out", tmp_path / "out", *more) == 1
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(files_in(tmp_path, but=DATA)) == []


def test_a_release_on_the_command_line_publishes_no_canary(tmp_path, listening, monkeypatch):
    people().to_parquet(tmp_path / "frame.parquet")
    survey = a_survey(tmp_path, tmp_path / "frame.parquet")
    write_survey_file(tmp_path / "survey.toml", survey, survey.plan(*STATISTICS))
    heard = []
    with listening(heard):
        assert not on_the_command_line(monkeypatch, "release", tmp_path / "survey.toml", "--out", tmp_path / "out", "--json")
        assert not on_the_command_line(monkeypatch, "ledger", tmp_path / "survey.toml", "--json")
    assert '"estimates"' in "\n".join(heard)
    assert canaries_in("\n".join(heard)) == []
    assert canaries_in(files_in(tmp_path, but=DATA)) == []
