"""Traps that bit other packages (truth/README.md 1, 2 and 5), and rows that no design can be drawn from.

Each trap is drawn as it is found in the wild and rejected by the test that accepts the engine's own draw. That test is the
one of `test_draw_frequencies.py`: units and pairs at 5.7 standard errors, samples by a chi-square, false alarms below 1e-6.
"""

import math
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design.key import Key
from dpsurvey.design.recipe import Clusters, Every, Simple, Sized, Strata
from dpsurvey.engine.draw.by_keyed_number import draw_by_keyed_number
from dpsurvey.engine.draw.by_row_number import draw_by_row_number
from dpsurvey.engine.draw.keyed_list import KeyedNumbers
from dpsurvey.engine.draw.one_pass import OnePass
from dpsurvey.engine.source import open_table
from dpsurvey.errors import BadData, BadValue
from tests.truth import test_draw_frequencies as laws

KEY = Key(bytes(range(32)))
FIELD = ds.Setting("sample", given="frame", neighbours="replace-one")
MANY = 60_000


def rng(seed):
    return np.random.Generator(np.random.PCG64(seed))


def tallied(counts):
    samples, times = np.unique(counts, axis=0, return_counts=True)
    return laws.Drawn(samples, times, None, counts.shape[1])


def drawn_by(recipe, columns, folder, **more):
    table = pa.table({"unit": np.arange(len(next(iter(columns.values()))))} | columns)
    return draw_by_keyed_number(open_table(table, str(folder)), recipe, "unit", ("unit", *more), KeyedNumbers(KEY)).to_pyarrow()


def survey_draw(folder, source, design, key=None, size=None, **declared):
    """A sample file, as a user gets it."""
    count = size or (source.num_rows if isinstance(source, pa.Table) else pq.read_metadata(source).num_rows)
    frame = ds.Frame(source, unit="unit", size=count, public=["psu", "ssu", "x", "place"], **declared)
    survey = ds.Survey(frame, design, FIELD, budget=ds.Budget(1.0), ledger=folder / f"{uuid.uuid4().hex}.ledger")
    survey.draw(folder / "sample.parquet", key=key)
    return pq.read_table(folder / "sample.parquet")


# 1. Draws in proportion to size that are not.


def one_after_another(weights_after, n, times, source):
    """Draw unit after unit, with chances in proportion to `weights_after(drawn so far)`; all replicates at once."""
    drawn = np.zeros((times, len(laws.PI)), dtype=bool)
    for _ in range(n):
        cumulated = np.cumsum(np.where(drawn, 0.0, weights_after(drawn)), axis=1)
        pick = (source.random((times, 1)) * cumulated[:, -1:] >= cumulated).sum(axis=1)
        drawn[np.arange(times), pick] = True
    return drawn.astype(int)


def units_are_right(drawn, pi):
    """The first-order test alone: five units, 5 * 2 * P(normal > 5.7) = 6e-8."""
    seen = drawn.times @ drawn.samples / drawn.replicates
    return bool((np.abs(seen - pi) < laws.Z * np.sqrt(pi * (1 - pi) / drawn.replicates)).all())


def brewer(drawn):
    pi = np.array(laws.PI)
    left, more = 3 - (drawn * pi).sum(axis=1, keepdims=True), 3 - drawn.sum(axis=1, keepdims=True)
    return pi * (left - pi) / (left - more * pi)


def test_the_engines_own_draws_in_proportion_to_size_are_accepted(tmp_path):
    assert units_are_right(laws.draw(tmp_path, Sized("x", 3, "systematic"), {"x": laws.SIZES}, MANY), np.array(laws.PI))


def test_trap_numpy_choice_with_p_is_not_proportional_to_size():
    # What numpy.random.choice(p=, replace=False) does, and shown to do so; probabilities off by up to 6 %.
    pi = np.array(laws.PI)
    copied = one_after_another(lambda drawn: pi, 3, 10_000, rng(1))
    source = rng(2)
    real = np.zeros((10_000, 5), dtype=int)
    for row in real:
        row[source.choice(5, 3, replace=False, p=pi / 3)] = 1
    assert np.abs(copied.mean(axis=0) - real.mean(axis=0)).max() < 5.7 * math.sqrt(0.5 / 10_000)
    assert not units_are_right(tallied(real), pi)
    assert not units_are_right(tallied(one_after_another(lambda drawn: pi, 3, MANY, rng(3))), pi)


def test_trap_brewer_without_renormalising_after_each_draw():
    pi = np.array(laws.PI)
    assert units_are_right(tallied(one_after_another(brewer, 3, MANY, rng(4))), pi)
    assert not units_are_right(tallied(one_after_another(lambda drawn: brewer(np.zeros_like(drawn)), 3, MANY, rng(5))), pi)


def test_trap_sampford_with_the_wrong_normalisation():
    # The first unit in proportion to size, the others to p/(1 - p) with p = x/sum(x) where 1 - n p is meant.
    pi = np.array(laws.PI)

    def chosen(odds, source):
        kept, wanted = [], MANY
        while wanted > 0:
            first = source.choice(5, MANY, p=pi / 3)[:, None]
            rest = source.choice(5, (MANY, 2), p=odds / odds.sum())
            draws = np.concatenate([first, rest], axis=1)
            draws = draws[[len(set(each)) == 3 for each in draws.tolist()]]
            kept.append(draws)
            wanted -= len(draws)
        counts = np.zeros((MANY, 5), dtype=int)
        counts[np.arange(MANY)[:, None], np.concatenate(kept)[:MANY]] = 1
        return tallied(counts)

    assert laws.accepted(chosen(pi / (1 - pi), rng(6)), laws.by_size("sampford", laws.PI))
    assert not units_are_right(chosen(pi / 3 / (1 - pi / 3), rng(7)), pi)


# 2. Systematic draws with an integer step, and in a fixed order.


def integer_step(units, n, source, times):
    """Every k-th unit with k = N // n or the nearest, from a start in 0 .. k-1."""
    step = max(1, round(units / n))
    counts = np.zeros((times, units), dtype=int)
    for row, start in zip(counts, source.integers(0, step, times), strict=True):
        row[start::step][: len(row)] = 1
    return counts


def test_trap_systematic_with_an_integer_step_has_the_wrong_size_and_leaves_units_out():
    # 11 of 17 with step 2: eight or nine units. 5 of 8 with step 1 (N // n) and the first five kept: three are never drawn.
    assert set(integer_step(17, 11, rng(1), 1_000).sum(axis=1)) == {8, 9}
    kept = np.zeros((1_000, 8), dtype=int)
    kept[:, :5] = 1
    law = laws.on_a_line([5 / 8] * 8, range(8))
    assert not laws.accepted(tallied(kept), law)
    assert not laws.accepted(tallied(integer_step(17, 11, rng(1), 1_000)), laws.on_a_line([11 / 17] * 17, range(17)))


@pytest.mark.parametrize("order", ["random", ("place",)])
def test_systematic_draws_have_the_stated_size_for_every_size_of_list(tmp_path, order):
    # All lists of 1 to 30 units at once, as strata; every take from 1 to the whole list.
    labels = np.repeat(np.arange(1, 31), np.arange(1, 31))
    columns = {"list": labels, "place": np.concatenate([rng(size).permutation(size) for size in range(1, 31)])}
    for take in (1, 2, 3, 7, 11, 19, 30):
        kept = labels >= take
        recipe = Strata("list", Every(take, False, order))
        found = drawn_by(recipe, {name: values[kept] for name, values in columns.items()}, tmp_path)
        assert len(set(found["unit"].to_pylist())) == found.num_rows
        sizes = np.bincount(labels[kept][found["unit"].to_numpy()], minlength=31)
        assert (sizes[take:] == take).all()
        pi = take / labels[kept][found["unit"].to_numpy()]
        assert np.allclose(found["__pi"].to_numpy(), pi, rtol=1e-12)


def test_every_unit_of_a_systematic_draw_has_its_chance(tmp_path):
    # 8 of 5 and 11 of 17 with a fractional step: no unit is left out (chance 1e-9 or less that one is missing by accident).
    for units, take in ((8, 5), (17, 11)):
        drawn = laws.draw(tmp_path, Every(take, False, ("place",)), {"place": np.arange(units)}, 2_000)
        assert set(drawn.samples.sum(axis=1)) == {take}
        seen = drawn.times @ drawn.samples / 2_000
        assert np.abs(seen - take / units).max() < 5.7 * math.sqrt(0.25 / 2_000)
        assert laws.chi_square(drawn, laws.on_a_line([take / units] * units, range(units))) > laws.CHI_LEVEL


def test_trap_fixed_order_pps_systematic_has_pairs_that_are_never_drawn_and_says_so(tmp_path):
    sizes = [2.0, 3.0, 1.0, 4.0, 2.0, 5.0, 3.0]
    design = ds.pps("x", n=2, method="systematic", order="place")
    joint = design.joint(sizes)
    never = [(i, j) for i in range(7) for j in range(i) if joint.matrix[i, j] == 0.0]
    assert len(never) > 7
    assert joint.exact
    assert "start" in joint.source
    drawn = laws.draw(tmp_path, design.recipe(), {"x": sizes, "place": range(7)}, 20_000)
    together = (drawn.samples * drawn.times[:, None]).T @ drawn.samples
    assert all(together[i, j] == 0 for i, j in never)
    assert (np.diag(together) > 0).all()
    # Randomised or balanced methods draw every pair.
    for method in ("sampford", "conditional-poisson", "pareto"):
        assert (ds.pps("x", n=2, method=method).joint(sizes).matrix > 0.0).all()


def test_the_pairs_of_a_systematic_draw_in_random_order_are_those_of_all_orders_or_said_not_to_be():
    design = ds.pps("x", n=3, method="systematic", order="random")
    joint = design.joint(laws.SIZES)
    mean = laws.moments(laws.in_any_order(laws.PI))[0]
    first, second = np.triu_indices(5, 1)
    assert not joint.exact or np.allclose(joint.matrix[first, second], mean[5:], rtol=1e-9)


# 5. Labels of clusters that repeat across strata.


def test_trap_clusters_with_one_label_in_two_strata_are_two_clusters(tmp_path):
    # Stratum a: clusters 1 and 2 of 2 and 6 units; stratum b: clusters 1 and 2 of 6 and 2 units.
    region = np.repeat(["a", "b"], 8)
    psu = np.array([1] * 2 + [2] * 6 + [1] * 6 + [2] * 2)
    table = pa.table({"unit": np.arange(16), "region": region, "psu": psu})
    design = ds.stratified("region", within=ds.stages(ds.cluster("psu", ds.srs(n=1)), ds.srs(n=2)))
    survey_draw(tmp_path, table, design, categories={"region": {"a": 8, "b": 8}})
    opened, seen = open_table(table, str(tmp_path)), set()
    draws = [
        draw_by_keyed_number(opened, design.recipe(), "unit", ("unit",), KeyedNumbers(Key(bytes([number]) * 32))).to_pyarrow()
        for number in range(12)
    ]
    sample = pq.read_table(tmp_path / "sample.parquet").rename_columns({"pi": "__pi", "weight": "__weight"})
    for drawn in (*draws, sample.rename_columns({"stratum": "__stratum", "psu": "__psu"})):
        rows = drawn.to_pylist()
        chosen = {label: {row["__psu"] for row in rows if row["__stratum"] == label} for label in "ab"}
        assert all(len(each) == 1 for each in chosen.values())
        seen.add((*chosen["a"], *chosen["b"]))
        for row in rows:
            inside = int(((region == row["__stratum"]) & (psu == psu[row["unit"]])).sum())
            # By label alone both clusters would have 8 units.
            assert row["__pi"] == pytest.approx(0.5 * 2 / inside, rel=1e-12)
            assert row["__weight"] == pytest.approx(inside, rel=1e-12)
    # Independent strata: all four pairs of clusters come up (but for 4 * 0.75^12 = 0.13; these keys are fixed).
    assert len(seen) == 4


def test_second_stage_labels_that_repeat_in_every_cluster_are_kept_apart(tmp_path):
    columns = {"psu": np.repeat([1, 2, 3], 6), "ssu": np.tile(np.repeat([1, 2], 3), 3)}
    recipe = Clusters("psu", Simple(2), Clusters("ssu", Simple(1), Simple(2)))
    table = pa.table({"unit": np.arange(18)} | columns)
    for number in range(2):
        drawn = draw_by_keyed_number(
            open_table(table, str(tmp_path)), recipe, "unit", ("unit",), KeyedNumbers(Key(bytes([number]) * 32))
        ).to_pyarrow()
        assert drawn.num_rows == 4
        assert len(set(zip(drawn["__psu"].to_pylist(), drawn["__ssu"].to_pylist(), strict=True))) == 2
        assert np.allclose(drawn["__pi"].to_numpy(), 2 / 3 * 1 / 2 * 2 / 3)


# Rows that cannot be drawn from. 31.25 and 77 stand in the data, and in no message.

BAD_SIZES = {"zero": 0.0, "negative": -77.0, "missing": None, "not a number": math.nan, "infinite": math.inf}
METHODS = ("poisson", "as listed", "pivotal")


def frame_with(value, kind=None):
    x = [31.25 + number for number in range(30)]
    x[7] = value
    return pa.table({"unit": np.arange(30), "x": pa.array(x, pa.float64()) if kind is None else pa.array([str(v) for v in x])})


def by_size(method):
    return ds.pps("x", n=3, order="as listed") if method == "as listed" else ds.pps("x", n=3, method=method)


@pytest.mark.parametrize("place", ["memory", "parquet"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", BAD_SIZES)
def test_sizes_that_no_unit_has_are_refused_without_saying_one(tmp_path, bad, method, place):
    table = frame_with(BAD_SIZES[bad])
    pq.write_table(table, tmp_path / "frame.parquet")
    with pytest.raises(BadData, match=r"sizes in 'x'|'x' has (missing values|values that are not positive)") as caught:
        survey_draw(tmp_path, table if place == "memory" else str(tmp_path / "frame.parquet"), by_size(method))
    assert not any(part in str(caught.value) for part in ("31", "77", "nan", "inf"))
    assert caught.value.__cause__ is None
    assert not (tmp_path / "sample.parquet").exists()


@pytest.mark.parametrize("method", METHODS)
def test_sizes_that_are_words_are_refused_without_saying_one(tmp_path, method):
    with pytest.raises(BadData, match=r"sizes in 'x'|'x' has values that are not positive") as caught:
        survey_draw(tmp_path, frame_with("seventy-seven", "text"), by_size(method))
    assert not any(part in str(caught.value) for part in ("31", "seven"))


@pytest.mark.parametrize("key", [None, KEY], ids=["secret", "with a key"])
@pytest.mark.parametrize("where", [1, 29], ids=["next to each other", "far apart"])
@pytest.mark.parametrize("place", ["memory", "parquet"])
def test_units_that_appear_twice_are_refused(tmp_path, place, where, key):
    units = np.arange(30)
    units[where] = 0
    table = pa.table({"unit": units, "x": np.ones(30)})
    pq.write_table(table, tmp_path / "frame.parquet")
    source = table if place == "memory" else str(tmp_path / "frame.parquet")
    for design in (ds.srs(n=3), ds.pps("x", n=3, method="pivotal")):
        with pytest.raises(BadData, match="more than once"):
            survey_draw(tmp_path, source, design, key=key)
    assert not (tmp_path / "sample.parquet").exists()


REGIONS = pa.table({"unit": np.arange(30), "region": ["north"] * 20 + ["island"] * 10, "x": np.ones(30)})


def test_a_stratum_that_is_missing_from_the_allocation_is_refused(tmp_path):
    with pytest.raises(BadValue, match="every declared category"):
        survey_draw(
            tmp_path, REGIONS, ds.stratified("region", within={"north": ds.srs(n=3)}), categories={"region": ["north", "island"]}
        )
    # Rows with a stratum that nobody declared: their label is a value of the data and is not shown.
    for design in (ds.srs(n=3), ds.poisson(0.5), ds.pps("x", n=2), ds.stages(ds.cluster("x", ds.srs(n=1)), ds.srs(n=2))):
        with pytest.raises(BadData, match="category that was not declared") as caught:
            survey_draw(
                tmp_path, REGIONS, ds.stratified("region", within={"north": design}), categories={"region": {"north": 30}}
            )
        assert "island" not in str(caught.value)
    assert not (tmp_path / "sample.parquet").exists()
    table = open_table(REGIONS, str(tmp_path))
    with pytest.raises(BadData, match="missing from the allocation") as caught:
        draw_by_keyed_number(table, Strata("region", {"north": Simple(3)}), "unit", ("unit",), KeyedNumbers(KEY))
    assert "island" not in str(caught.value)


def test_more_units_than_a_stratum_has_cannot_be_drawn(tmp_path):
    sizes = {"region": {"north": 20, "island": 10}}
    for take in (11, 300):
        with pytest.raises(BadValue, match="more units than there are"):
            survey_draw(
                tmp_path,
                REGIONS,
                ds.stratified("region", within={"north": ds.srs(n=3), "island": ds.srs(n=take)}),
                categories=sizes,
            )
    # Where the declared sizes are wrong, or there are none, the rows tell.
    for design in (ds.systematic(n=11), ds.pps("x", n=11), ds.pps("x", n=11, method="pivotal")):
        with pytest.raises(BadData, match=r"fewer units|not those of the frame"):
            survey_draw(tmp_path, REGIONS, ds.stratified("region", within=design), categories={"region": ["north", "island"]})
    with pytest.raises(BadData, match=r"not those of the frame|fewer units"):
        survey_draw(
            tmp_path,
            REGIONS,
            ds.stratified("region", within={"north": ds.srs(n=3), "island": ds.srs(n=11)}),
            categories={"region": {"north": 15, "island": 15}},
        )
    assert not (tmp_path / "sample.parquet").exists()


def test_a_stratum_drawn_in_full_is_a_census_of_it(tmp_path):
    design = ds.stratified("region", within={"north": ds.srs(n=1), "island": ds.srs(n=10)})
    rows = survey_draw(tmp_path, REGIONS, design, categories={"region": {"north": 20, "island": 10}}).to_pylist()
    assert {row["unit"] for row in rows if row["stratum"] == "island"} == set(range(20, 30))
    assert {(row["stratum"], row["weight"]) for row in rows} == {("island", 1.0), ("north", 20.0)}


# Draws that the designs offer and the engine has to make.


@pytest.mark.parametrize("key", [None, KEY], ids=["secret", "with a key"])
def test_a_systematic_draw_follows_the_order_of_a_file(tmp_path, key):
    table = pa.table({"unit": rng(1).permutation(30), "x": np.ones(30)})
    places = {unit: place for place, unit in enumerate(table["unit"].to_pylist())}
    sample = survey_draw(tmp_path, table, ds.systematic(n=10, order="as listed"), key=key)
    assert len({places[unit] // 3 for unit in sample["unit"].to_pylist()}) == 10


@pytest.mark.parametrize("takes", [(4, 2), (4, 1), (1, 4)])
def test_two_stages_with_replacement_are_refused_before_the_draw(takes):
    with pytest.raises(BadValue, match="with replacement"):
        ds.stages(ds.cluster("psu", ds.with_replacement(n=takes[0])), ds.with_replacement(n=takes[1]))


@pytest.mark.parametrize("place", ["memory", "parquet"])
def test_units_with_rates_of_their_own_are_drawn_wherever_the_rows_are(tmp_path, place):
    table = pa.table({"unit": np.arange(30), "x": np.full(30, 0.999)})
    pq.write_table(table, tmp_path / "frame.parquet")
    source = table if place == "memory" else str(tmp_path / "frame.parquet")
    # Fewer than 20 of 30 with probability below 1e-20.
    assert survey_draw(tmp_path, source, ds.poisson_by("x", at_most=0.999)).num_rows > 20


@pytest.mark.parametrize("place", ["memory", "parquet"])
def test_a_rate_that_is_not_a_number_is_refused(tmp_path, place):
    rates = np.full(30, 0.5)
    rates[7] = math.nan
    table = pa.table({"unit": np.arange(30), "x": rates})
    pq.write_table(table, tmp_path / "frame.parquet")
    source = table if place == "memory" else str(tmp_path / "frame.parquet")
    with pytest.raises(BadData, match=r"rates in 'x'|'x' has values that are not positive"):
        survey_draw(tmp_path, source, ds.poisson_by("x", at_most=0.5))


def test_secret_and_keyed_draws_give_the_same_columns(tmp_path):
    table = pa.table({"unit": np.arange(30), "psu": np.arange(30) // 5, "region": ["a", "b", "c"] * 10})
    opened = open_table(table, str(tmp_path))
    for recipe in (Simple(3), Strata("region", dict.fromkeys("abc", Simple(2, 10)))):
        secret = draw_by_row_number(OnePass(opened, ("unit",)), recipe, rng(1)).to_pyarrow()
        keyed = draw_by_keyed_number(opened, recipe, "unit", ("unit",), KeyedNumbers(KEY)).to_pyarrow()
        assert secret.schema == keyed.schema
        assert sorted(secret["__weight"].to_pylist()) == pytest.approx(sorted(keyed["__weight"].to_pylist()))
