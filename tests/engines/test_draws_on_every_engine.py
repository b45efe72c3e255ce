"""With one key every engine draws the same sample: DuckDB, Spark and PostgreSQL against an oracle in plain Python.

Units, strata and clusters are compared exactly, probabilities and weights to a relative 1e-12.
"""

import gc
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import dpsurvey as ds
from dpsurvey.design.key import Key
from dpsurvey.design.recipe import Simple, Strata
from dpsurvey.engine import Engine, Expectations
from tests.engines import oracle, servers

HERE = Path(__file__).parent

# Ibis and Spark use options of pandas that are on their way out, and Spark leaves sockets open; nothing of ours does.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'future.infer_string' option"),
    pytest.mark.filterwarnings("ignore:The copy keyword is deprecated"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

KEY, OTHER = Key(bytes(range(32))), Key(bytes(range(1, 33)))
# Labels that differ in case, length in bytes and alphabet.
REGIONS = {"North": 200, "south": 160, "Ísland": 120}
SIZE = sum(REGIONS.values())
WORDS = ("Ähtäri", "aarhus", "Zürich", "日本", "naïve", "🦆", "Oslo", "oslo")


def a_register():
    """Clusters 0 .. 11 in every region and 0 .. 3 in every cluster: their labels mean nothing without what is around."""
    rng = np.random.default_rng(20260301)
    rows = []
    for region, units in REGIONS.items():
        for place in range(units):
            rows.append({"region": region, "psu": place % 12, "ssu": place // 12 % 4})
    order = rng.permutation(SIZE)
    ids, addresses = rng.permutation(10 * SIZE)[:SIZE], rng.permutation(SIZE)
    staff = rng.integers(1, 100, SIZE)
    staff[[3, 77, 300]] = [90_000, 40_000, 900]
    for number, row in enumerate(rows):
        row |= {
            "id": int(ids[number]) + 5,
            "name": f"{WORDS[number % 8]} {number // 8}",
            "town": WORDS[int(rng.integers(0, 8))],
            "address": int(addresses[number]),
            "mos": row["psu"] % 7 + 1.5,
            "ssu_size": row["ssu"] + 1,
            "employees": int(rng.integers(1, 100)),
            "staff": int(staff[number]),
            "turnover": float(rng.lognormal(3.0, 0.8)),
            "rate": float(rng.uniform(0.01, 0.1)),
        }
    return [rows[place] for place in order]


ROWS = a_register()
TABLE = pa.Table.from_pylist(ROWS)
PUBLIC = [name for name in TABLE.column_names if name not in ("id", "region")]
STREET = ("town", "address")
TWO_OF_EACH = ds.stages(ds.cluster("psu", ds.srs(n=3)), ds.srs(n=2))

DESIGNS = {
    "srs": ds.srs(n=50),
    "with replacement": ds.with_replacement(n=60),
    "poisson": ds.poisson(0.1),
    "poisson by a column": ds.poisson_by("rate", at_most=0.1),
    "a share, rounded by chance": ds.proportional(0.0333),
    "systematic in random order": ds.systematic(n=77),
    "a share, systematic by a column": ds.systematic(rate=0.0333, order="address"),
    "systematic by a column, fractional step": ds.systematic(n=77, order="address"),
    "systematic by words": ds.systematic(n=77, order=STREET),
    **{
        f"pps {method}": ds.pps("employees", n=40, method=method)
        for method in ("poisson", "systematic", "sampford", "conditional-poisson", "pivotal", "pareto")
    },
    **{
        f"pps {method} with certain units": ds.pps("staff", n=40, method=method)
        for method in ("poisson", "systematic", "sampford", "pareto")
    },
    "pps of fractions": ds.pps("turnover", n=40, method="pivotal"),
    "pps systematic by words": ds.pps("turnover", n=40, order=STREET),
    "clusters": ds.cluster("psu", ds.srs(n=5)),
    "clusters by pps": ds.cluster("psu", ds.pps("mos", n=5, method="sampford")),
    "clusters one by one": ds.cluster("psu", ds.poisson(0.4)),
    "clusters, systematic by a column": ds.cluster("psu", ds.systematic(n=5, order="address")),
    "clusters, systematic by words": ds.cluster("psu", ds.systematic(n=5, order="name")),
    "two stages": ds.stages(ds.cluster("psu", ds.pps("mos", n=5)), ds.systematic(n=4, order="address")),
    "two stages with replacement": ds.stages(ds.cluster("psu", ds.with_replacement(n=9)), ds.srs(n=4)),
    "two stages with replacement, a share": ds.stages(ds.cluster("psu", ds.with_replacement(n=9)), ds.srs(rate=0.1)),
    "with replacement inside clusters": ds.stages(ds.cluster("psu", ds.srs(n=3)), ds.with_replacement(n=6)),
    "three stages": ds.stages(ds.cluster("psu", ds.srs(n=4)), ds.cluster("ssu", ds.pps("ssu_size", n=2)), ds.srs(n=2)),
    "three stages with replacement": ds.stages(
        ds.cluster("psu", ds.with_replacement(n=5)), ds.cluster("ssu", ds.srs(n=2)), ds.poisson(0.3)
    ),
    "strata": ds.stratified("region", within={"North": ds.srs(n=10), "south": ds.srs(n=20), "Ísland": ds.srs(n=5)}),
    "strata, one rate": ds.stratified("region", within=ds.poisson(0.1)),
    "strata, one design": ds.stratified("region", within=ds.pps("employees", n=10, method="sampford")),
    "strata, shares": ds.stratified("region", within=ds.proportional(0.0333)),
    "strata of clusters with the same labels": ds.stratified("region", within=TWO_OF_EACH),
    "strata, another design in each": ds.stratified(
        "region", within={"North": TWO_OF_EACH, "south": ds.poisson(0.1), "Ísland": ds.with_replacement(n=7)}
    ),
    "strata, three stages": ds.stratified(
        "region", within=ds.stages(ds.cluster("psu", ds.srs(n=4)), ds.cluster("ssu", ds.systematic(n=2)), ds.srs(n=1))
    ),
    "one cluster of each stratum, then households of a sorted list": ds.stratified(
        "region", within=ds.stages(ds.cluster("psu", ds.pps("mos", n=1)), ds.systematic(n=4, order=STREET))
    ),
}
CASES = (
    {name: (name, "id", 0.0) for name in DESIGNS}
    | {f"{name}, units of text": (name, "name", 0.0) for name in ("srs", "with replacement", "pps pivotal", "strata")}
    | {f"{name}, from 0.37": (name, "id", 0.37) for name in ("srs", "poisson", "clusters", "pps poisson", "pps pareto")}
)


# Every kind of step once; the rest among the slow tests.
EVERY_STEP = {
    "srs, from 0.37",
    "with replacement, units of text",
    "poisson by a column",
    "a share, systematic by a column",
    "systematic by words",
    "pps poisson",
    "pps systematic with certain units",
    "pps pareto",
    "clusters by pps",
    "two stages with replacement, a share",
    "strata",
    "strata, one rate",
    "strata, shares",
    "one cluster of each stratum, then households of a sorted list",
}
# Spark takes seconds for what the others do in tenths: ranks, running sums, lists, clusters and strata once.
ON_SPARK = EVERY_STEP - {
    "poisson by a column",
    "systematic by words",
    "pps poisson",
    "pps pareto",
    "strata, one rate",
    "strata, shares",
    "two stages with replacement, a share",
    "a share, systematic by a column",
    "with replacement, units of text",
}
AMONG = {"arrow": EVERY_STEP, "postgres": EVERY_STEP, "spark": ON_SPARK}
ENGINES = ("parquet", "arrow", "postgres", "spark")


def slow_if(condition):
    return [pytest.mark.slow] if condition else []


@cache
def recipe_of(name, unit="id"):
    frame = ds.Frame("register.parquet", unit=unit, size=SIZE, categories={"region": REGIONS}, public=PUBLIC)
    return DESIGNS[name].resolve(frame).recipe()


@cache
def expected(case):
    name, unit, start = CASES[case]
    return in_order(oracle.draw(ROWS, recipe_of(name, unit), unit, KEY, start))


def in_order(lines):
    return sorted(lines, key=lambda line: tuple(map(str, line[:4])))


def drawn(source, recipe, folder, unit="id", key=KEY, start=0.0, engine="duckdb"):
    """The lines of the file that an engine writes after a draw."""
    rows = Engine(source, engine)
    rows.draw(recipe, Expectations(unit=unit), key, start)
    rows.write_sample(str(folder / "sample.parquet"), unit, recipe)
    lines = pq.read_table(folder / "sample.parquet").to_pylist()
    return in_order(oracle.Drawn(**{"ssu": None} | line | as_text(line, "psu", "ssu")) for line in lines)


def as_text(line, *names):
    """Labels of clusters as text; a file may hold them as the frame does."""
    return {name: str(line[name]) for name in names if line.get(name) is not None}


def assert_same(found, wanted):
    assert [line[:4] for line in found] == [line[:4] for line in wanted]
    assert [line[4:] for line in found] == [pytest.approx(line[4:], rel=1e-12, abs=0.0) for line in wanted]


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("register") / "register.parquet"
    pq.write_table(TABLE, path, row_group_size=100)
    return str(path)


@pytest.fixture(scope="module")
def on_postgres(postgres):
    return servers.put(postgres, "register", TABLE)


@pytest.fixture
def place(request, parquet):
    """Where the register is, and the engine that reads it."""
    if request.param == "spark":
        request.getfixturevalue("spark")
        yield parquet, "spark"
        # Sockets of Spark's own are collected here, where their warning is expected.
        gc.collect()
    elif request.param == "postgres":
        yield request.getfixturevalue("on_postgres"), "duckdb"
    else:
        yield (TABLE if request.param == "arrow" else parquet), "duckdb"


@pytest.mark.slow_cases(
    "spark: pps systematic with certain units",
    "spark: clusters by pps",
    "spark: one cluster of each stratum, then households of a sorted list",
)
@pytest.mark.parametrize(
    ("place", "case"),
    [
        pytest.param(engine, case, marks=slow_if(engine in AMONG and case not in AMONG[engine]), id=f"{engine}: {case}")
        for engine in ENGINES
        for case in CASES
    ],
    indirect=["place"],
)
def test_every_engine_draws_what_the_oracle_draws(place, case, tmp_path):
    name, unit, start = CASES[case]
    source, engine = place
    assert_same(drawn(source, recipe_of(name, unit), tmp_path, unit, KEY, start, engine), expected(case))


def test_every_kind_of_step_is_among_the_quick_tests_of_spark():
    def steps(cases):
        return {(type(step), getattr(step, "rounding", None)) for case in cases for step in recipe_of(CASES[case][0]).below()}

    assert steps(EVERY_STEP) == steps(CASES)


LISTED = {
    "systematic": ds.systematic(n=77, order="as listed"),
    "pps": ds.pps("employees", n=40, order="as listed"),
    "pps with certain units": ds.pps("staff", n=40, order="as listed"),
    "clusters": ds.cluster("psu", ds.systematic(n=5, order="as listed")),
    "inside clusters": ds.stages(ds.cluster("psu", ds.srs(n=5)), ds.systematic(n=3, order="as listed")),
}


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("place", ["parquet", "arrow"], indirect=True)
def test_the_order_of_a_file_is_that_of_its_rows(place, name, tmp_path):
    recipe = LISTED[name].recipe()
    assert_same(drawn(place[0], recipe, tmp_path), in_order(oracle.draw(ROWS, recipe, "id", KEY)))


def test_the_number_of_a_unit_is_that_of_the_key():
    for label in (("17",), ("Ísland", "日本"), ("1", "23"), ("12", "3")):
        assert oracle.Oracle(KEY).number(label) == KEY.number(*label)
        assert oracle.Oracle(KEY).number(label, "start") == KEY.number(*label, purpose="start of unit")
    assert KEY.number("1", "23") != KEY.number("12", "3")


ANY_ORDER = ("srs", "with replacement", "systematic by words", "pps systematic", "pps pivotal", "clusters by pps", "strata")


@pytest.fixture(scope="module")
def backwards(tmp_path_factory, postgres):
    path = tmp_path_factory.mktemp("backwards") / "register.parquet"
    table = TABLE.take(list(range(SIZE))[::-1])
    pq.write_table(table, path)
    return str(path), servers.put(postgres, "backwards", table)


@pytest.mark.parametrize("name", ANY_ORDER)
def test_the_order_of_the_rows_does_not_matter(backwards, parquet, name, tmp_path):
    found = [drawn(source, recipe_of(name), tmp_path) for source in (parquet, *backwards)]
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


@pytest.mark.parametrize("name", ANY_ORDER)
def test_another_key_draws_other_units(parquet, name, tmp_path):
    found = drawn(parquet, recipe_of(name), tmp_path, key=OTHER)
    assert_same(found, in_order(oracle.draw(ROWS, recipe_of(name), "id", OTHER)))
    assert Counter(line.unit for line in found) != Counter(line.unit for line in expected(name))


def test_clusters_with_one_label_in_several_strata_are_several_clusters(parquet, tmp_path):
    found = drawn(parquet, recipe_of("strata of clusters with the same labels"), tmp_path)
    units = Counter((row["region"], str(row["psu"])) for row in ROWS)
    labels = [{line.psu for line in found if line.stratum == region} for region in REGIONS]
    assert [len(each) for each in labels] == [3, 3, 3]
    # Strata are drawn apart: the same three labels in all of them would be one draw used three times.
    assert len(set(map(frozenset, labels))) == 3
    for line in found:
        assert line.pi == pytest.approx(3 / 12 * 2 / units[line.stratum, line.psu], rel=1e-12)


def units_from(source, rate, start, folder, engine="duckdb"):
    recipe = ds.poisson(rate).recipe()
    return {line.unit for line in drawn(source, recipe, folder, start=start, engine=engine)}


@pytest.mark.parametrize("place", ["parquet", "postgres", pytest.param("spark", marks=pytest.mark.slow)], indirect=True)
def test_samples_that_start_one_rate_apart_share_no_unit_and_ten_of_them_share_out_the_frame(place, tmp_path):
    source, engine = place
    tenths = [units_from(source, 0.1, start / 10, tmp_path, engine) for start in range(10)]
    assert all(tenths)
    assert sum(map(len, tenths)) == len(set().union(*tenths)) == SIZE
    # Around the clock: from 0.95 the numbers go on at 0.
    across = units_from(source, 0.1, 0.95, tmp_path, engine)
    assert across <= tenths[9] | tenths[0]
    assert across & tenths[9]
    assert across & tenths[0]


@pytest.mark.parametrize("start", [0.0, 0.37, 0.95])
def test_samples_with_one_key_and_start_share_as_much_as_they_can(parquet, start, tmp_path):
    assert units_from(parquet, 0.1, start, tmp_path) == units_from(parquet, 0.1, start, tmp_path)
    assert units_from(parquet, 0.1, start, tmp_path) < units_from(parquet, 0.2, start, tmp_path)
    few, many = ({line.unit for line in drawn(parquet, ds.srs(n=n).recipe(), tmp_path, start=start)} for n in (20, 60))
    assert few < many
    assert (len(few), len(many)) == (20, 60)


FALSE_ALARM = 1e-6
PANEL, RATE, OVERLAP = 100_000, 0.1, 0.75


def agrees(shared, of, overlap):
    """Whether `shared` of the `of` units of one wave may be drawn again with this probability, each by itself."""
    return stats.binomtest(shared, of, overlap).pvalue >= FALSE_ALARM


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    """The units of a wave that starts anywhere, on a frame of 100,000."""
    folder = tmp_path_factory.mktemp("panel")
    pq.write_table(pa.table({"id": np.arange(PANEL)}), folder / "panel.parquet")

    @cache
    def wave(start):
        rows = Engine(str(folder / "panel.parquet"))
        rows.draw(ds.poisson(RATE).recipe(), Expectations(unit="id"), KEY, start)
        rows.write_sample(str(folder / "sample.parquet"), "id", ds.poisson(RATE).recipe())
        return frozenset(pq.read_table(folder / "sample.parquet")["unit"].to_pylist())

    return wave


def test_waves_of_a_panel_share_the_stated_part(panel):
    """False alarms: 1e-6 for each of two tests. With 10,000 units a wave a part 10 % off is 17 standard errors away."""
    first, second, third, fifth = (panel(ds.panel_start(RATE, wave=wave, overlap=OVERLAP)) for wave in (0, 1, 2, 4))
    assert agrees(len(first & second), len(first), OVERLAP)
    assert agrees(len(first & third), len(first), 2 * OVERLAP - 1)
    assert not first & fifth


@pytest.mark.parametrize("off", [0.9, 1.1])
def test_a_panel_that_shares_ten_percent_more_or_less_is_rejected(panel, off):
    first, second = panel(0.0), panel(ds.panel_start(RATE, wave=1, overlap=off * OVERLAP))
    assert agrees(len(first & second), len(first), off * OVERLAP)
    assert not agrees(len(first & second), len(first), OVERLAP)


REPLICATES = 60_000
PAIRS = list(combinations(range(4), 2))


def is_uniform(counts):
    """Chi-square over the six pairs of four units, at a false-alarm rate of 1e-6."""
    return stats.chisquare(counts).pvalue >= FALSE_ALARM


def test_every_pair_of_four_units_is_equally_likely(tmp_path):
    """60,000 draws of two from four at once, each in a stratum of its own. False alarms: 1e-6, once."""
    units = np.arange(4 * REPLICATES)
    rows = Engine(pa.table({"id": units, "replicate": units // 4}))
    recipe = Strata("replicate", Simple(2))
    rows.draw(recipe, Expectations(unit="id"), KEY)
    rows.write_sample(str(tmp_path / "sample.parquet"), "id", recipe)
    found = np.sort(pq.read_table(tmp_path / "sample.parquet")["unit"].to_numpy())
    assert found.size == 2 * REPLICATES
    pairs = Counter(map(tuple, (found.reshape(-1, 2) % 4).tolist()))
    assert set(pairs) == set(PAIRS)
    assert is_uniform([pairs[pair] for pair in PAIRS])


def test_numbers_of_five_bits_with_ties_broken_by_label_are_rejected():
    """The trap of short numbers: units that come first win every tie, one pair in 32."""
    pairs = Counter()
    for replicate in range(REPLICATES):
        short = [KEY.number(str(4 * replicate + unit)) >> 55 for unit in range(4)]
        pairs[tuple(sorted(sorted(range(4), key=lambda unit: (short[unit], unit))[:2]))] += 1
    assert not is_uniform([pairs[pair] for pair in PAIRS])


@pytest.mark.parametrize("off", [0.9, 1.1])
def test_one_pair_ten_percent_off_is_rejected(off):
    """Noncentrality 120 on 5 degrees of freedom against a bar of 36: missed less than once in a million."""
    chances = np.array([off / 6] + [(1 - off / 6) / 5] * 5)
    assert stats.ncx2.cdf(stats.chi2.isf(FALSE_ALARM, 5), 5, REPLICATES * np.sum((chances - 1 / 6) ** 2) * 6) < 1e-6
    assert not is_uniform(np.random.default_rng(7).multinomial(REPLICATES, chances))
