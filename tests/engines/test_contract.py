"""One contract on every source of rows: exact sums, honest draws, rows that stay where they are."""

import math
import re
import sqlite3
import tracemalloc
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy import stats

import dpsurvey as ds
from dpsurvey.design.recipe import Simple, Strata
from dpsurvey.engine import Engine, Expectations, SecretSums
from dpsurvey.engine.dialect import READ_FILES
from dpsurvey.engine.draw.by_row_number import draw_by_row_number
from dpsurvey.engine.draw.one_pass import OnePass
from dpsurvey.statistic.facts import Facts
from dpsurvey.text.engines import ENGINES

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")

REGIONS = {"north": 700, "south": 400, "island": 100}
SEXES = ("female", "male")
SIZE = sum(REGIONS.values())
BOUNDS = (-256.0, 768.0)
FOUR = [11, 23, 35, 47]

SOURCES = (
    "parquet",
    "parquet by glob",
    "csv",
    "duckdb file with one table",
    "duckdb file with several tables",
    "duckdb file after deletions",
    "pandas",
    "polars",
    "arrow",
    "ibis on duckdb",
    "ibis on sqlite",
)


def a_register():
    """Values on a dyadic grid, some outside the bounds, so that Fractions give the lattice sums without rounding."""
    rng = np.random.default_rng(20260101)
    region = np.repeat(list(REGIONS), list(REGIONS.values()))
    order = rng.permutation(SIZE)
    return pa.table(
        {
            "id": pa.array(rng.permutation(10 * SIZE)[:SIZE] + 7, pa.int64()),
            "region": pa.array(region[order].tolist()),
            "sex": pa.array(rng.choice(SEXES, SIZE).tolist()),
            "income": pa.array(rng.integers(-8 * 400, 8 * 900, SIZE) / 8.0, pa.float64()),
            "hours": pa.array(rng.integers(0, 99, SIZE), pa.int64()),
        }
    )


def a_sqlite_table(path, table):
    kinds = {pa.int64(): "integer", pa.float64(): "real", pa.string(): "text", pa.large_string(): "text"}
    columns = ", ".join(f"{field.name} {kinds[field.type]} not null" for field in table.schema)
    with sqlite3.connect(path) as connection:
        connection.execute(f"create table register ({columns})")
        marks = ", ".join("?" * table.num_columns)
        connection.executemany(f"insert into register values ({marks})", [tuple(row.values()) for row in table.to_pylist()])
    connection.close()
    return ibis.sqlite.connect(path).table("register")


def a_duckdb_file(path, table, *, others=(), first_more=()):
    """A DuckDB file of the table; `first_more` are rows that were inserted before it and deleted afterwards."""
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute("create table register as select * from given where false")
        if first_more:
            connection.register("gone", first_more[0])
            connection.execute("insert into register select * from gone")
        connection.execute("insert into register select * from given")
        if first_more:
            connection.execute("delete from register where id in (select id from gone)")
        for other in others:
            connection.execute(f"create table {other} as select 1 as nothing")
    return str(path)


def as_source(kind, table, folder):
    """The table as one kind of source."""
    if kind == "parquet":
        pa.parquet.write_table(table, folder / "register.parquet")
        return str(folder / "register.parquet")
    if kind == "parquet by glob":
        third = table.num_rows // 3
        for number, part in enumerate((table[:third], table[third : third + 1], table[third + 1 :])):
            pa.parquet.write_table(part, folder / f"part-{number}.parquet")
        return str(folder / "part-*.parquet")
    if kind == "csv":
        pa.csv.write_csv(table, folder / "register.csv")
        return str(folder / "register.csv")
    if kind == "duckdb file with one table":
        return a_duckdb_file(folder / "one.duckdb", table)
    if kind == "duckdb file with several tables":
        return a_duckdb_file(folder / "several.duckdb", table, others=("other", "another")) + "#register"
    if kind == "duckdb file after deletions":
        gone = table.set_column(0, "id", pa.array(range(-table.num_rows, 0), pa.int64()))
        return a_duckdb_file(folder / "deleted.duckdb", table, first_more=(gone,))
    if kind == "ibis on duckdb":
        return ibis.duckdb.connect(a_duckdb_file(folder / "ibis.duckdb", table)).table("register")
    if kind == "ibis on sqlite":
        return a_sqlite_table(folder / "register.sqlite", table)
    return {"pandas": table.to_pandas, "polars": lambda: pl.from_arrow(table), "arrow": lambda: table}[kind]()


def test_every_engine_that_can_be_named_reads_files():
    assert set(READ_FILES) == set(ENGINES)


@pytest.fixture(scope="module")
def register():
    return a_register()


@pytest.fixture(scope="module", params=SOURCES)
def source(request, register, tmp_path_factory):
    return as_source(request.param, register, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module", params=["parquet", "csv", "duckdb file after deletions", "pandas", "ibis on sqlite"])
def four_units(request, tmp_path_factory):
    return as_source(request.param, pa.table({"id": pa.array(FOUR, pa.int64())}), tmp_path_factory.mktemp("four"))


FRAME = ds.Frame("anywhere.parquet", unit="id", size=SIZE, categories={"region": REGIONS, "sex": SEXES})
UNEQUAL = ds.stratified("region", within={"north": ds.poisson(0.1), "south": ds.poisson(0.25), "island": ds.poisson(0.8)})
FIXED = ds.stratified("region", within={"north": ds.srs(n=30), "south": ds.srs(n=40), "island": ds.srs(n=50)})
EVERYTHING = Expectations(
    unit="id",
    numeric=("income", "hours"),
    categories={"region": tuple(REGIONS), "sex": SEXES},
    strata="region",
    size=SIZE,
    sizes={"region": REGIONS},
)


def facts_of(design, relation):
    return Facts(FRAME, design.resolve(FRAME), relation, "L1")


def sums_by_hand(table, query):
    """The lattice sums, row by row, in exact rational arithmetic."""
    sums = {group: [0] * query.components for group in query.groups}
    steps = dict(query.lattice)
    half = Fraction(1, 2)
    for row in table.to_pylist():
        k = steps[None] if None in steps else steps[row["region"]]
        kind = query.encoding.name
        if kind == "units":
            parts = [k]
        elif kind in ("pair", "yes", "free pair"):
            yes = k if str(row[query.column]) == query.value else 0
            parts = [yes, k - yes][: query.components]
            if kind == "free pair":
                rest = Fraction(query.encoding.scale) * (1 - Fraction(k, query.steps))
                parts += [math.floor(each * rest + half) for each in parts]
        else:
            low, high = (Fraction(end) for end in query.bounds)
            y = (min(max(Fraction(row[query.column]), low), high) - low) / (high - low)
            top = math.floor(k * y * y + half)
            bottom = min(math.floor(k * (1 - y) * (1 - y) + half), k - top)
            moments = [math.floor(k * y + half), math.floor(k * y * (1 - y) + half)]
            parts = moments if kind == "moments" else [top, k - top - bottom, bottom]
        group = sums[tuple(row[column] for column in query.by)]
        for index, part in enumerate(parts):
            group[index] += part
    return [sums[group] for group in query.groups]


QUERIES = {
    "triple": ds.mean("income", bounds=BOUNDS).query(facts_of(ds.poisson(0.5), "add-remove")),
    "triple of whole numbers by two columns": ds.mean("hours", bounds=(0, 64), by=("region", "sex")).query(
        facts_of(ds.poisson(0.5), "add-remove")
    ),
    "triple, weighted": ds.total("income", bounds=BOUNDS, by="sex").query(facts_of(UNEQUAL, "add-remove")),
    "pair": ds.proportion("sex", "female", by="region").query(facts_of(ds.poisson(0.5), "add-remove")),
    "pair, weighted": ds.count("sex", "female").query(facts_of(UNEQUAL, "add-remove")),
    "units": ds.count(by=("sex", "region")).query(facts_of(ds.poisson(0.5), "add-remove")),
    "units, weighted": ds.count(by="sex").query(facts_of(UNEQUAL, "add-remove")),
    "yes": ds.proportion("hours", 40).query(facts_of(ds.srs(n=9), "replace-one")),
    "moments": ds.mean("income", bounds=BOUNDS).query(facts_of(ds.srs(n=9), "replace-one")),
    "moments by stratum": ds.mean("income", bounds=BOUNDS, by="region").query(facts_of(FIXED, "replace-one")),
    "moments, weighted": ds.total("income", bounds=BOUNDS, estimator="pooled").query(facts_of(FIXED, "replace-one")),
}


@pytest.fixture(scope="module")
def sums_on_paper(register):
    return {name: sums_by_hand(register, query) for name, query in QUERIES.items()}


def test_the_queries_cover_every_encoding_and_a_weighted_lattice():
    assert {query.encoding.name for query in QUERIES.values()} == {"triple", "pair", "free pair", "units", "yes", "moments"}
    assert sum(len(query.lattice) > 1 for query in QUERIES.values()) >= 4


def test_sums_over_a_census_are_exact(source, sums_on_paper):
    engine = Engine(source)
    engine.check_columns(EVERYTHING)
    engine.check_rows(EVERYTHING)
    engine.draw(ds.poisson(1.0).resolve(FRAME).recipe(), EVERYTHING)
    for name, query in QUERIES.items():
        assert engine.sums(query).values.tolist() == sums_on_paper[name], name


def drawn(source, design, expected=EVERYTHING):
    """The units that a real draw took, as (unit, stratum)."""
    engine = Engine(source)
    engine.draw(design.resolve(FRAME).recipe(), expected)
    rows = engine._sample.to_pyarrow()
    # A CSV file holds text only.
    return [(int(unit), region) for unit, region in zip(rows["id"].to_pylist(), rows["region"].to_pylist(), strict=True)]


def rejects_rates(taken, register, rates, false_alarm):
    """Whether the numbers of drawn units in 6 blocks of each stratum (in the order of the file) contradict the rates.

    Each number is binomial: exact two-sided tests, with the false alarms divided among them.
    """
    strata = np.array(register["region"].to_pylist())
    units = np.array(register["id"].to_pylist())
    blocks = [(rates[label], block) for label in rates for block in np.array_split(units[strata == label], 6)]
    tests = [stats.binomtest(sum(int(unit) in taken for unit in block), len(block), rate) for rate, block in blocks]
    return min(test.pvalue for test in tests) < false_alarm / len(tests)


ALIKE = dict.fromkeys(REGIONS, 0.6)
APART = {"north": 0.1, "south": 0.25, "island": 0.8}


def test_poisson_includes_every_part_of_the_frame_at_its_rate(source, register):
    # False alarm 1e-7 per source. Power: the next test.
    rows = drawn(source, ds.poisson(0.6))
    assert len(set(rows)) == len(rows)
    assert not rejects_rates({unit for unit, _ in rows}, register, ALIKE, 1e-7)


def test_stratified_poisson_includes_every_stratum_at_its_own_rate(source, register):
    # False alarm 1e-7 per source. Power: the next test.
    rows = drawn(source, UNEQUAL)
    assert len(set(rows)) == len(rows)
    assert not rejects_rates({unit for unit, _ in rows}, register, APART, 1e-7)


def test_the_test_of_blocks_rejects_a_block_that_is_never_drawn_and_rates_that_changed_places(register):
    # Seed fixed. A block of 66 units at rate 0.6 is left out by chance with probability 1e-26.
    rng = np.random.default_rng(8)
    units = register["id"].to_pylist()
    taken = {unit for unit in units if rng.random() < 0.6}
    assert not rejects_rates(taken, register, ALIKE, 1e-7)
    assert rejects_rates(taken - set(units[:200]), register, ALIKE, 1e-7)
    assert rejects_rates(taken, register, APART, 1e-7)


def test_two_draws_are_not_the_same(source):
    # By chance two Poisson draws at rate one half agree with probability 2^-1200.
    assert set(drawn(source, ds.poisson(0.5))) != set(drawn(source, ds.poisson(0.5)))


@pytest.mark.parametrize("n", [77, SIZE])
def test_srs_draws_exactly_n_distinct_units(source, n):
    rows = drawn(source, ds.srs(n=n))
    assert (len(rows), len(set(rows))) == (n, n)


def test_stratified_srs_draws_exactly_n_h_distinct_units_in_each_stratum(source):
    rows = drawn(source, FIXED)
    assert len(set(rows)) == len(rows)
    assert Counter(stratum for _, stratum in rows) == {"north": 30, "south": 40, "island": 50}


def test_the_rate_of_a_poisson_draw_is_told_from_one_that_is_30_percent_larger(tmp_path):
    # False alarm 1e-6 for each of two strata. 20,000 units at rate 0.05: standard error 31, and 1.3 times the rate is
    # 300 units away.
    table = pa.table({"id": pa.array(range(40_000), pa.int64()), "part": ["even", "odd"] * 20_000})
    pa.parquet.write_table(table, tmp_path / "units.parquet")
    frame = ds.Frame("anywhere", unit="id", size=40_000, categories={"part": ["even", "odd"]})
    stated = {"even": 0.05, "odd": 0.2}

    def rejected(factor):
        within = {label: ds.poisson(factor * rate) for label, rate in stated.items()}
        engine = Engine(tmp_path / "units.parquet")
        engine.draw(ds.stratified("part", within=within).resolve(frame).recipe(), Expectations(unit="id", present=("part",)))
        found = Counter(engine._sample["part"].to_pyarrow().to_pylist())
        return [bool(stats.binomtest(found[label], 20_000, rate).pvalue < 1e-6) for label, rate in stated.items()]

    assert rejected(1.0) == [False, False]
    assert rejected(1.3) == [True, True]
    assert rejected(1 / 1.3) == [True, True]


def not_uniform(found, possible, false_alarm):
    """Whether a chi-square test rejects that all possible samples are equally likely."""
    assert set(found) <= set(possible)
    counts = [found[each] for each in possible]
    return stats.chisquare(counts).pvalue < false_alarm


def repeated(table, recipe, columns, times, seed):
    rng = np.random.default_rng(seed)
    for _ in range(times):
        rows = draw_by_row_number(OnePass(table, columns), recipe, rng).to_pyarrow()
        yield frozenset(int(unit) for unit in rows["id"].to_pylist())


PAIRS = [frozenset(pair) for pair in combinations(FOUR, 2)]
TWO_OF_FOUR = Simple(2)


def test_srs_is_uniform_over_all_subsets_wherever_rows_live(four_units):
    # False alarm 1e-6, seed fixed. 48 draws of 6 subsets: a systematic draw, which reaches 2 of them, has a
    # chi-square of 96 or more where 36.7 rejects.
    table = Engine(four_units)._table
    found = Counter(repeated(table, TWO_OF_FOUR, ("id",), 48, seed=1))
    assert not not_uniform(found, PAIRS, 1e-6)


def test_the_test_of_uniform_subsets_rejects_a_systematic_draw():
    starts = np.random.default_rng(2).integers(0, 2, 48)
    assert not_uniform(Counter(frozenset((FOUR[start], FOUR[start + 2])) for start in starts), PAIRS, 1e-6)


@pytest.mark.slow
def test_srs_is_uniform_over_all_subsets_even_to_a_sharper_test(tmp_path):
    # False alarm 1e-6, seed fixed. 170 draws: a sampler that takes one unit with three times the odds is rejected.
    pa.parquet.write_table(pa.table({"id": pa.array(FOUR, pa.int64())}), tmp_path / "four.parquet")
    table = Engine(tmp_path / "four.parquet")._table
    assert not not_uniform(Counter(repeated(table, TWO_OF_FOUR, ("id",), 170, seed=3)), PAIRS, 1e-6)
    rng = np.random.default_rng(4)
    odds = np.array([3.0, 1.0, 1.0, 1.0]) / 6.0
    biased = Counter(frozenset(rng.choice(FOUR, 2, replace=False, p=odds).tolist()) for _ in range(170))
    assert not_uniform(biased, PAIRS, 1e-6)


STRATA = {"a": [1, 2, 3], "b": [4, 5]}
IN_STRATA = [frozenset((*two, one)) for two, one in product(combinations(STRATA["a"], 2), STRATA["b"])]


@pytest.mark.slow_cases("after tries with too few candidates")
@pytest.mark.parametrize(
    ("sizes", "draws"),
    [({"a": 3, "b": 2}, 80), ({"a": 45, "b": 45}, 60)],
    ids=["at once", "after tries with too few candidates"],
)
def test_stratified_srs_is_uniform_over_all_allowed_samples(tmp_path, sizes, draws):
    # False alarm 1e-6, seed fixed. A sampler that draws the strata together instead of independently (unit 4 only
    # with units 1 and 2) is rejected. With sizes declared 15 times too large, 6 of 10 first tries find too few.
    rows = [(unit, label) for label, units in STRATA.items() for unit in units]
    table = pa.table({"id": pa.array([unit for unit, _ in rows], pa.int64()), "part": [label for _, label in rows]})
    pa.parquet.write_table(table, tmp_path / "strata.parquet")
    recipe = Strata("part", {"a": Simple(2, sizes["a"]), "b": Simple(1, sizes["b"])})
    opened = Engine(tmp_path / "strata.parquet")._table
    assert not not_uniform(Counter(repeated(opened, recipe, ("id", "part"), draws, seed=5)), IN_STRATA, 1e-6)
    rng = np.random.default_rng(6)
    pairs = [frozenset(rng.choice(STRATA["a"], 2, replace=False).tolist()) for _ in range(draws)]
    assert not_uniform(Counter(pair | {4 if pair == {1, 2} else 5} for pair in pairs), IN_STRATA, 1e-6)


MILLIONS = 2_000_000


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "register.parquet"
    more = ", ".join(f"hash(range + {number}) / 1e9 as other{number}" for number in range(1, 6))
    duckdb.execute(
        f"""copy (select range as id, ['north', 'south'][1 + range % 2] as region, hash(range) % 100000 / 8.0 as income, {more}
            from range({MILLIONS})) to '{path}' (compression uncompressed)"""
    )
    return path


@pytest.fixture
def crossed(monkeypatch):
    """How many rows every result has that an engine hands to Python."""
    rows = []
    fetch = ibis.backends.duckdb.Backend.to_pyarrow_batches
    whole = ibis.backends.duckdb.Backend.to_pyarrow

    def watched_whole(self, expression, **options):
        answer = whole(self, expression, **options)
        rows.append(len(answer) if isinstance(answer, pa.Table | pa.Array | pa.ChunkedArray) else 1)
        return answer

    def watched_batches(self, expression, **options):
        rows.append(math.inf)
        return fetch(self, expression, **options)

    monkeypatch.setattr(ibis.backends.duckdb.Backend, "to_pyarrow", watched_whole)
    monkeypatch.setattr(ibis.backends.duckdb.Backend, "to_pyarrow_batches", watched_batches)
    monkeypatch.setattr(ibis.backends.duckdb.Backend, "execute", watched_batches)
    return rows


LARGE = Expectations(unit="id", numeric=("income",), categories={"region": ("north", "south")}, strata="region")


def test_drawing_and_summing_two_million_rows_hands_python_a_few_rows_only(large_file, crossed):
    frame = ds.Frame(str(large_file), unit="id", size=MILLIONS, categories={"region": ["north", "south"]})
    design = ds.stratified("region", within=ds.poisson(0.02)).resolve(frame)
    query = ds.mean("income", bounds=(0, 12_500), by="region").query(Facts(frame, design, "add-remove", "L1"))
    tracemalloc.start()
    try:
        engine = Engine(large_file)
        engine.check_columns(LARGE)
        engine.check_rows(LARGE)
        engine.draw(design.recipe(), LARGE)
        sums = engine.sums(query)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(crossed) <= 20, "one row per check, per count and per group"
    # One secret number per row passes through numpy (16 MB); the rows themselves are more than 100 MB.
    assert peak < 40e6 < 100e6 < large_file.stat().st_size
    assert 0.9 < sums.values.sum() / (0.02 * MILLIONS * 2**20) < 1.1


def test_the_watch_on_what_crosses_sees_rows_that_do(large_file, crossed):
    Engine(large_file)._table.limit(1000).to_pyarrow()
    assert sum(crossed) == 1000


def test_a_sealed_sample_and_its_responses_are_joined_without_passing_through_python(large_file, crossed, tmp_path):
    units, answers = tmp_path / "sample.parquet", tmp_path / "answers.parquet"
    duckdb.execute(f"copy (select id from '{large_file}' where id % 50 = 0) to '{units}'")
    duckdb.execute(f"copy (select id, income + 1 as income from '{large_file}' where id % 100 = 0) to '{answers}'")
    engine = Engine(large_file)
    engine.load(str(units), LARGE)
    assert engine._sample.count().to_pyarrow().as_py() == MILLIONS // 50
    engine.load_responses(str(units), str(answers), LARGE)
    assert engine._sample.count().to_pyarrow().as_py() == MILLIONS // 100
    assert sum(crossed) <= 20


def test_engines_and_sums_print_nothing_of_the_rows(source, register):
    engine = Engine(source)
    engine.draw(ds.poisson(1.0).recipe(), EVERYTHING)
    sums = engine.sums(QUERIES["units"])
    assert repr(sums) == str(sums) == f"{sums}" == "SecretSums(not shown)"
    assert isinstance(sums, SecretSums)
    shown = re.sub("0x[0-9a-f]+", "", repr(engine) + str(engine))
    assert not any(text in shown for text in (*REGIONS, *SEXES, *map(str, sums.values.ravel().tolist())))


def test_an_engine_names_its_backend(source):
    assert Engine(source).name.split()[0] in ("duckdb", "sqlite")


def test_a_table_in_memory_that_is_no_table_is_refused():
    with pytest.raises(ds.SurveyError, match="cannot read rows") as caught:
        Engine([{"id": 1}])
    assert caught.value.exit_code == 2


def test_polars_lazy_frames_are_opened_too(register):
    engine = Engine(pl.from_arrow(register).lazy())
    engine.draw(ds.poisson(1.0).recipe(), EVERYTHING)
    assert engine.sums(QUERIES["pair"]).values.tolist() == sums_by_hand(register, QUERIES["pair"])


def test_categories_that_pandas_keeps_as_categories_or_truth_values_are_summed(register):
    table = register.to_pandas().assign(sex=lambda rows: rows["sex"].astype("category"), old=lambda rows: rows["hours"] > 50)
    engine = Engine(table)
    engine.draw(ds.poisson(1.0).recipe(), Expectations(unit="id", categories={"sex": SEXES}, present=("old",)))
    frame = ds.Frame("anywhere", unit="id", size=SIZE, categories={"sex": SEXES})
    query = ds.proportion("old", True, by="sex").query(Facts(frame, ds.poisson(1.0), "add-remove", "L1"))
    by_hand = [
        [int(((table["sex"] == sex) & table["old"]).sum()), int(((table["sex"] == sex) & ~table["old"]).sum())] for sex in SEXES
    ]
    assert engine.sums(query).values.tolist() == by_hand
    assert isinstance(table, pd.DataFrame)
