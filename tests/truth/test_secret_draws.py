"""Secret draws, which jump to the rows that win, follow their laws in memory and in files; their generator has no seed.

Frequencies are tested as in `test_draw_frequencies.py`: units and pairs at 5.7 standard errors, whole samples by a
chi-square at 3e-7; false alarms below 1e-6 for each test. Generators are seeded here only, through an argument that no
public function has. A file drawn from with the generator of a table in memory gives the same units, so that what is
shown for columns in memory, where thousands of draws are cheap, holds for files.
"""

import inspect
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom, chi2, kstest, norm

import dpsurvey as ds
from dpsurvey.design.recipe import Clusters, Each, EachBy, Simple, Sized, Strata
from dpsurvey.engine import Engine
from dpsurvey.engine.draw import by_row_number, generator
from dpsurvey.engine.draw.by_row_number import draw_by_row_number, rows_looked_at
from dpsurvey.engine.draw.generator import DENSE, secret_generator, skips, small_numbers
from dpsurvey.engine.draw.looked_up import ArrowRows, LookedUp, reader_of
from dpsurvey.engine.draw.one_pass import OnePass
from dpsurvey.engine.source import open_table
from dpsurvey.errors import BadData
from tests.truth import test_draw_frequencies as laws

SURE = 1e-7


def rng(seed):
    return np.random.Generator(np.random.PCG64(seed))


def in_memory(table, recipe, source, columns=("unit",)):
    return draw_by_row_number(LookedUp(ArrowRows(table), columns), recipe, source)


def in_a_file(path, recipe, source, columns=("unit",)):
    return draw_by_row_number(OnePass(open_table(str(path), str(path.parent)), columns), recipe, source).to_pyarrow()


def tallied(counts):
    samples, times = np.unique(counts, axis=0, return_counts=True)
    return laws.Drawn(samples, times, None, counts.shape[1])


def assert_follows(counts, law, unit, pair):
    """The law is accepted, and would be rejected if a unit were off by `unit`, or a pair by `pair`."""
    drawn = tallied(counts)
    assert laws.worst_z(drawn, law) < laws.Z
    assert laws.chi_square(drawn, law) > laws.CHI_LEVEL
    found = laws.smallest_found(law, len(counts))
    assert found[0] < unit
    assert found[1] < pair
    return drawn


# The rows that each by itself is chosen.

RATES = [1e-3, 0.05, math.nextafter(DENSE, 0.0), DENSE, 0.5]


@pytest.mark.parametrize("rate", RATES)
def test_chosen_rows_are_independent_trials_with_one_rate(rate):
    rows = 2_000_000
    found, numbers = small_numbers(rng(1), rows, rate)
    assert found.dtype == np.int64
    assert (np.diff(found) > 0).all()
    assert found[0] >= 0
    assert found[-1] < rows
    # Each of the five has false-alarm rate 1e-7: how many, neighbours both, gaps, where, and the numbers themselves.
    assert 2 * min(binom.cdf(len(found), rows, rate), binom.sf(len(found) - 1, rows, rate)) > SURE
    both, variance = (np.diff(found) == 1).sum(), (rows - 1) * rate**2 * (1 + 2 * rate - 3 * rate**2)
    if rate > 0.01:
        assert abs(both - (rows - 1) * rate**2) < norm.isf(SURE / 2) * math.sqrt(variance)
    gaps = np.diff(found)
    edges = np.unique(np.ceil(np.log1p(-np.linspace(0, 1, 13)[:-1]) / math.log1p(-rate)).astype(int))
    law = np.diff([*(1 - (1 - rate) ** edges), 1.0])
    seen = np.histogram(gaps - 1, [*edges, np.inf])[0]
    assert chi2.sf(((seen - len(gaps) * law) ** 2 / (len(gaps) * law)).sum(), len(law) - 1) > SURE
    blocks = np.bincount(found * 20 // rows, minlength=20)
    assert chi2.sf(((blocks - blocks.mean()) ** 2 / (blocks.mean() * (1 - rate))).sum(), 19) > SURE
    assert numbers.max() <= rate
    assert numbers.min() > 0.0
    assert kstest(numbers[:100_000] / rate, "uniform").pvalue > SURE


@pytest.mark.parametrize("wrong", [0.97, 1.03])
def test_a_rate_that_is_three_percent_off_is_rejected(wrong):
    rows, rate = 4_000_000, 0.05
    found = skips(rng(2), rows, rate * wrong)
    assert 2 * min(binom.cdf(len(found), rows, rate), binom.sf(len(found) - 1, rows, rate)) < SURE


def test_every_third_row_chosen_in_pairs_is_rejected():
    # The right number of rows, always two together: neighbours and gaps tell.
    rows, rate = 400_000, 0.05
    first = skips(rng(3), rows // 2, rate) * 2
    found = np.sort(np.concatenate([first, first + 1]))
    both, expected = (np.diff(found) == 1).sum(), (rows - 1) * rate**2
    assert abs(both - expected) > norm.isf(SURE / 2) * math.sqrt(expected * (1 + 2 * rate))


def test_tiny_rates_jump_over_lists_that_nobody_could_walk_through():
    # 20 expected of 2e10 rows: false alarms 2 * 1e-7.
    rows, rate = 20_000_000_000, 1e-9
    sizes = [len(skips(rng(seed), rows, rate)) for seed in range(50)]
    assert 2 * min(binom.cdf(sum(sizes), 50 * rows, rate), binom.sf(sum(sizes) - 1, 50 * rows, rate)) > SURE
    found = np.concatenate([skips(rng(seed), rows, rate) for seed in range(50)])
    assert found.min() >= 0
    assert found.max() < rows
    assert kstest(found / rows, "uniform").pvalue > SURE
    for tiny in (1e-300, 5e-324):
        assert not len(skips(rng(1), 2**40, tiny))


def test_lists_without_rows_rates_of_one_and_of_none():
    for rate in (0.0, 1e-9, 0.1, DENSE, 1.0):
        found, numbers = small_numbers(rng(1), 0, rate)
        assert (len(found), len(numbers)) == (0, 0)
        assert found.dtype == np.int64
    found, numbers = small_numbers(rng(1), 1_000, 1.0)
    assert found.tolist() == list(range(1_000))
    assert ((numbers > 0.0) & (numbers <= 1.0)).all()
    assert len(small_numbers(rng(1), 1_000, 0.0)[0]) == 0
    assert skips(rng(1), 1_000, 1.0).tolist() == list(range(1_000))


def test_pieces_of_a_dense_list_fit_together(monkeypatch):
    whole = [small_numbers(rng(seed), 1_000, 0.6) for seed in range(20)]
    monkeypatch.setattr(generator, "CHUNK", 7)
    for seed, (rows, numbers) in enumerate(whole):
        again, same = small_numbers(rng(seed), 1_000, 0.6)
        assert again.tolist() == rows.tolist()
        assert same.tolist() == numbers.tolist()


def test_no_rate_is_lifted_by_rounding():
    # Jumping uses a rate that is lower by one part in 2^40: less than any test can see, never more than stated.
    for rate in (1e-9, 1e-3, math.nextafter(DENSE, 0.0)):
        lowered = rate * (1.0 - 2.0**-40)
        assert rate * (1 - 1e-12) < lowered < rate


# Recipes on columns in memory. A row of a large frame is a replicate's unit where rows are independent.


def small_frame(replicates, **columns):
    return laws.replicated(columns, replicates)


@pytest.mark.parametrize("rate", [0.12, 0.6])
def test_each_by_itself_on_either_side_of_the_bar_between_jumping_and_counting(rate):
    replicates = 150_000 if rate < DENSE else 60_000
    drawn = in_memory(small_frame(replicates, x=range(5)), Each(rate), rng(11))
    counts = np.bincount(drawn["unit"].to_numpy(), minlength=5 * replicates).reshape(-1, 5)
    assert_follows(counts, laws.each_alone([rate] * 5), 0.06, 0.16)
    assert set(drawn["__pi"].to_pylist()) == {rate}
    assert set(drawn["__weight"].to_pylist()) == {1 / rate}


@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_each_by_its_own_rate(scale):
    rates = scale * np.array([0.5, 0.55, 0.6, 0.65, 0.7])
    replicates = 60_000 if scale == 1.0 else 150_000
    table = small_frame(replicates, rate=rates)
    drawn = in_memory(table, EachBy("rate", 0.7 * scale), rng(12), ("unit", "rate"))
    counts = np.bincount(drawn["unit"].to_numpy(), minlength=5 * replicates).reshape(-1, 5)
    assert_follows(counts, laws.each_alone(rates), 0.07, 0.19)
    assert np.array_equal(drawn["__pi"].to_numpy(), drawn["rate"].to_numpy())
    assert np.array_equal(drawn["__weight"].to_numpy(), 1 / drawn["rate"].to_numpy())


def test_sizes_one_by_one_with_a_few_large_units_among_small_ones():
    sizes, replicates = np.array([1.0, 2.0, 3.0, 40.0, 4.0]), 100_000
    pi = 0.9 * sizes / 40.0
    drawn = in_memory(
        small_frame(replicates, x=sizes), Sized("x", round(pi.sum() * replicates), "poisson"), rng(13), ("unit", "x")
    )
    counts = np.bincount(drawn["unit"].to_numpy(), minlength=5 * replicates).reshape(-1, 5)
    assert_follows(counts, laws.each_alone(pi), 0.18, 1.2)
    assert_follows(counts[:, 3:], laws.each_alone(pi[3:]), 0.09, 0.09)
    assert np.allclose(drawn["__pi"].to_numpy(), 0.9 * drawn["x"].to_numpy() / 40, rtol=1e-9)
    assert np.allclose(drawn["__weight"].to_numpy() * drawn["__pi"].to_numpy(), 1.0, rtol=1e-12)


def many_draws(table, recipe, times, seed, units):
    source, counts = rng(seed), np.zeros((times, units), dtype=np.int64)
    for row in counts:
        row[in_memory(table, recipe, source)["unit"].to_numpy()] += 1
    return counts


SIX = pa.table({"unit": np.arange(6), "psu": [7, 7, 9, 9, 9, 12], "x": [4, 5, 6, 5, 7, 3], "region": list("abbaab")})
SIX_PI = np.array([4, 5, 6, 5, 7, 3]) / 10
RECIPES = {
    "simple": (Simple(3), laws.subsets(6, 3), [0.5] * 6),
    "systematic as listed": (Sized("x", 3, "systematic", "as listed"), laws.on_a_line(SIX_PI, range(6)), SIX_PI),
    "poisson": (Sized("x", 3, "poisson"), laws.each_alone(SIX_PI), SIX_PI),
    "clusters": (
        Clusters("psu", Simple(2)),
        laws.staged([(0, 1), (2, 3, 4), (5,)], laws.subsets(3, 2), [laws.all_of(2), laws.all_of(3), laws.all_of(1)]),
        [2 / 3] * 6,
    ),
    "strata of each": (
        Strata("region", {"a": Each(0.7), "b": Each(0.4)}),
        laws.each_alone([0.7, 0.4, 0.4, 0.7, 0.7, 0.4]),
        [0.7, 0.4, 0.4, 0.7, 0.7, 0.4],
    ),
    "strata of simple": (
        Strata("region", {"a": Simple(2, 3), "b": Simple(1, 3)}),
        laws.staged([(0, 3, 4), (1, 2, 5)], laws.all_of(2), [laws.subsets(3, 2), laws.subsets(3, 1)]),
        [2 / 3, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 1 / 3],
    ),
}


@pytest.mark.parametrize(
    ("times", "unit", "pair"), [(2_000, 0.33, 0.49), pytest.param(100_000, 0.048, 0.071, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", RECIPES)
def test_units_and_pairs_are_drawn_as_often_as_the_law_says(name, times, unit, pair):
    recipe, law, _ = RECIPES[name]
    if name in ("strata of simple", "systematic as listed"):
        # Their rarest pairs have probability 1/9 and 0.1.
        pair *= 2
    # 21 statistics: false alarms 21 * 2 * P(normal > 5.7) + 3e-7 = 5.5e-7.
    assert_follows(many_draws(SIX, recipe, times, 21, 6), law, unit, pair)


@pytest.mark.parametrize("name", RECIPES)
def test_probabilities_and_weights_are_those_of_the_design_in_memory_and_in_files(tmp_path, name):
    recipe, _, pi = RECIPES[name]
    pq.write_table(SIX, tmp_path / "six.parquet")
    for seed in range(5):
        for drawn in (in_memory(SIX, recipe, rng(seed)), in_a_file(tmp_path / "six.parquet", recipe, rng(seed))):
            units = drawn["unit"].to_numpy()
            assert np.allclose(drawn["__pi"].to_numpy(), np.asarray(pi)[units], rtol=1e-12, atol=0.0)
            assert np.allclose(drawn["__weight"].to_numpy(), 1 / np.asarray(pi)[units], rtol=1e-12, atol=0.0)
            if name.startswith("strata"):
                assert drawn["__stratum"].to_pylist() == [SIX["region"][unit].as_py() for unit in units]
            if name == "clusters":
                assert [str(psu) for psu in drawn["__psu"].to_pylist()] == [str(SIX["psu"][unit]) for unit in units]


@pytest.mark.parametrize(
    "wrong",
    [Simple(2), Sized("x", 3, "systematic", "as listed"), Strata("region", {"a": Simple(1, 3), "b": Simple(2, 3)})],
    ids=["one less", "by size", "other takes"],
)
def test_wrong_recipes_are_rejected(wrong):
    assert not laws.accepted(tallied(many_draws(SIX, wrong, 2_000, 22, 6)), laws.subsets(6, 3))


def test_strata_that_have_too_few_small_numbers_are_tried_again_without_favour(monkeypatch):
    # A limit so low that most tries fail: still every set of two is equally likely.
    tries = []

    def low(inside):
        tries.append(1)
        return 0.3

    monkeypatch.setattr(by_row_number, "candidate_limit", low)
    recipe, law, _ = RECIPES["strata of simple"]
    source = rng(23)
    counts = np.zeros((3_000, 6), dtype=np.int64)
    for row in counts:
        row[in_memory(SIX, recipe, source)["unit"].to_numpy()] += 1
    assert tries
    assert_follows(counts, law, 0.27, 0.58)


def test_large_strata_are_found_by_jumping():
    # Two strata of 3,000 and 1,000 rows that lie mixed; 20 blocks of each are equally likely (chi-square, false alarms 2e-7).
    labels = np.array(["a", "a", "a", "b"] * 1_000)
    table = pa.table({"unit": np.arange(4_000), "region": labels})
    recipe = Strata("region", {"a": Simple(6, 3_000), "b": Simple(2, 1_000)})
    assert by_row_number.candidate_limit(dict(recipe.inside)) < DENSE
    found = np.concatenate([in_memory(table, recipe, rng(seed))["unit"].to_numpy() for seed in range(800)])
    for label, take in (("a", 6), ("b", 2)):
        own = found[labels[found] == label]
        assert len(own) == 800 * take
        blocks = np.bincount(own // 200, minlength=20)
        assert chi2.sf(((blocks - blocks.mean()) ** 2 / blocks.mean()).sum(), 19) > SURE


# Files.


def large(rows=40_000):
    source = rng(31)
    return pa.table(
        {
            "unit": source.permutation(rows),
            "rate": source.uniform(0.001, 0.01, rows),
            "x": source.integers(1, 50, rows),
            "psu": np.arange(rows) // 40,
            "region": source.choice(["north", "south"], rows),
            "skewed": 1.0 + source.pareto(1.2, rows),
        }
    )


SIZES = {label: int(n) for label, n in zip(*np.unique(large()["region"].to_pylist(), return_counts=True), strict=True)}
ON_FILES = {
    "each": Each(0.0003),
    "each, many": Each(0.3),
    "simple": Simple(12),
    "each by": EachBy("rate", 0.01),
    "strata of each": Strata("region", {"north": Each(0.0001), "south": Each(0.0004)}),
    "strata of simple": Strata("region", {label: Simple(3, size) for label, size in SIZES.items()}),
    "sizes one by one": Sized("x", 400, "poisson"),
    "sizes as listed": Sized("x", 400, "systematic", "as listed"),
    "certain sizes, one by one": Sized("skewed", 400, "poisson"),
    "certain sizes, as listed": Sized("skewed", 400, "systematic", "as listed"),
}
WHOLE_COLUMN = ("each by", *(name for name in ON_FILES if "sizes" in name))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(large(), folder / "one.parquet")
    pq.write_table(large(), folder / "pieces.parquet", row_group_size=500)
    import duckdb

    with duckdb.connect(str(folder / "frame.duckdb")) as connection:
        rows = large()
        connection.register("rows", rows)
        connection.execute("create table frame as select * from rows")
    return folder


def by_unit(drawn):
    return sorted(drawn.to_pylist(), key=lambda row: row["unit"])


@pytest.mark.parametrize("name", ON_FILES)
@pytest.mark.parametrize("file", ["one.parquet", "frame.duckdb"])
def test_a_file_and_columns_in_memory_draw_the_same_units_from_one_generator(files, file, name):
    for seed in range(2):
        wanted = in_memory(large(), ON_FILES[name], rng(seed), ("unit", "region"))
        found = in_a_file(files / file, ON_FILES[name], rng(seed), ("unit", "region"))
        assert found.num_rows == wanted.num_rows
        for one, other in zip(by_unit(found), by_unit(wanted), strict=True):
            assert one == pytest.approx(other, rel=1e-12)
        assert any(row["__pi"] == 1.0 for row in wanted.to_pylist()) == name.startswith("certain")


@pytest.mark.parametrize("name", [name for name in ON_FILES if name not in (*WHOLE_COLUMN, "each, many")])
@pytest.mark.parametrize("file", ["pieces.parquet", "frame.duckdb"])
def test_rows_read_by_number_are_those_of_the_columns_in_memory(files, file, name):
    reader = reader_of(str(files / file), None)
    read = 0
    for seed in range(5):
        if reader.reads(rows_looked_at(ON_FILES[name], reader.num_rows)):
            read += 1
            found = draw_by_row_number(LookedUp(reader, ("unit", "region")), ON_FILES[name], rng(seed))
            wanted = in_memory(large(), ON_FILES[name], rng(seed), ("unit", "region"))
            assert sorted(found.to_pylist(), key=str) == sorted(wanted.to_pylist(), key=str)
    assert read == 5 or name == "strata of simple" or file == "frame.duckdb"


@pytest.mark.parametrize("name", ["sizes one by one", "sizes as listed", "clusters"])
def test_blocks_of_a_file_are_drawn_at_their_rates(files, name):
    recipes = {
        "sizes one by one": Sized("x", 4_000, "poisson"),
        "sizes as listed": Sized("x", 4_000, "systematic", "as listed"),
        "clusters": Clusters("psu", Simple(500)),
    }
    # Ten draws; for each of 20 blocks the number drawn has this mean and at most this variance: 20 * 2 * P(normal > 6) = 4e-8.
    sizes = large()["x"].to_numpy()
    pi = np.full(40_000, 0.5) if name == "clusters" else 4_000 * sizes / sizes.sum()
    most = {"sizes one by one": (pi * (1 - pi)), "sizes as listed": pi * (1 - pi), "clusters": 40 * pi * (1 - pi)}[name]
    place = np.empty(40_000, dtype=np.int64)
    place[large()["unit"].to_numpy()] = np.arange(40_000)
    total, source = np.zeros(20), rng(41)
    for _ in range(10):
        drawn = in_a_file(files / "one.parquet", recipes[name], source)
        rows = place[drawn["unit"].to_numpy()]
        assert len(set(rows.tolist())) == len(rows)
        assert np.allclose(drawn["__pi"].to_numpy(), pi[rows], rtol=1e-9)
        assert np.allclose(drawn["__weight"].to_numpy(), 1 / pi[rows], rtol=1e-9)
        if name == "sizes as listed":
            assert len(rows) == 4_000
        if name == "clusters":
            assert len(rows) == 20_000
            assert len(set((rows // 40).tolist())) == 500
        total += np.bincount(rows // 2_000, minlength=20)
    expected, variance = 10 * pi.reshape(20, -1).sum(axis=1), 10 * most.reshape(20, -1).sum(axis=1)
    assert (np.abs(total - expected) < 6 * np.sqrt(variance)).all()
    # Found: a block that is drawn 15 % too often or too seldom; 30 % where whole clusters are drawn.
    assert (6 * np.sqrt(variance) / expected).max() < (0.3 if name == "clusters" else 0.15)


# What cannot be drawn, and who may choose the generator.


@pytest.mark.parametrize("name", ["simple", "clusters", "strata of simple"])
def test_more_than_there_is_cannot_be_drawn(name):
    recipes = {
        "simple": Simple(7),
        "clusters": Clusters("psu", Simple(4)),
        "strata of simple": Strata("region", {"a": Simple(4, 3), "b": Simple(1, 3)}),
    }
    with pytest.raises(BadData, match="fewer units"):
        in_memory(SIX, recipes[name], rng(1))


def test_a_stratum_that_is_missing_from_the_allocation_is_refused_without_its_name():
    for recipe in (Strata("region", {"a": Simple(2, 3)}), Strata("region", {"a": Each(0.99)})):
        # Rows of the missing stratum are among the candidates of this generator.
        with pytest.raises(BadData, match="missing from the allocation") as caught:
            in_memory(SIX, recipe, rng(1))
        assert "'b'" not in str(caught.value)


def test_cluster_numbers_of_any_width_are_kept_apart():
    # 201 clusters of two units, numbered in one byte from -100 to 100.
    codes = np.repeat(np.arange(-100, 101), 2)
    for kind in (np.int8, np.int16, np.int64):
        table = pa.table({"unit": np.arange(402), "psu": codes.astype(kind)})
        drawn = in_memory(table, Clusters("psu", Simple(50)), rng(1), ("unit", "psu"))
        assert len(set(drawn["psu"].to_pylist())) == 50
        assert drawn.num_rows == 100
        assert np.allclose(drawn["__pi"].to_numpy(), 50 / 201)


@pytest.mark.parametrize("method", ["poisson", "systematic"])
def test_a_draw_by_size_of_every_unit_is_a_census(method):
    recipe = Sized("x", 6, method, "as listed" if method == "systematic" else "random")
    drawn = in_memory(SIX.set_column(2, "x", pa.array([1.0] * 6)), recipe, rng(1))
    assert drawn is None or drawn["unit"].to_pylist() == list(range(6))


def test_no_public_function_takes_a_seed_and_the_generator_takes_none():
    for each in (ds.Survey, ds.Survey.draw, ds.Survey.release, ds.Survey.plan, Engine, Engine.draw, secret_generator):
        names = set(inspect.signature(each).parameters)
        assert not names & {"seed", "generator", "rng", "random_state", "state"}
    assert not inspect.signature(secret_generator).parameters


def test_two_generators_differ_whatever_numpy_was_seeded_with():
    drawn = []
    for _ in range(4):
        np.random.seed(1)
        drawn.append(tuple(secret_generator().integers(0, 2**63, 4).tolist()))
    assert len(set(drawn)) == 4


@pytest.mark.parametrize("place", ["memory", "parquet"])
def test_two_secret_draws_differ(tmp_path, place):
    # 200 units, each with probability 0.5: two draws agree with probability 2^-200.
    table = pa.table({"unit": np.arange(200)})
    pq.write_table(table, tmp_path / "frame.parquet")
    source = table if place == "memory" else str(tmp_path / "frame.parquet")
    setting = ds.Setting("sample", given="frame", neighbours="add-remove")
    drawn = []
    for number in range(2):
        survey = ds.Survey(
            ds.Frame(source, unit="unit", size=200),
            ds.poisson(0.5),
            setting,
            budget=ds.Budget(1.0),
            ledger=tmp_path / f"{number}.ledger",
        )
        survey.draw(tmp_path / f"{number}.parquet")
        drawn.append(set(pq.read_table(tmp_path / f"{number}.parquet")["unit"].to_pylist()))
    assert drawn[0] != drawn[1]
    assert all(50 < len(each) < 150 for each in drawn)
