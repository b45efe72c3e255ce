"""Rows that are read by their number are the rows that were chosen, whole, in one order, of the file that was checked."""

import os
import sqlite3

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design.recipe import Each, EachBy, Simple, Sized, Strata
from dpsurvey.engine import Engine, Expectations
from dpsurvey.engine.draw.by_keyed_number import draw_by_keyed_number
from dpsurvey.engine.draw.keyed_list import KeyedNumbers
from dpsurvey.errors import BadData

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]
UNITS = Expectations(unit="id", used=("twin",))


def in_pieces(values, size):
    return pa.chunked_array([pa.array(values[start : start + size]) for start in range(0, len(values), size)])


def test_columns_that_are_cut_in_different_ways_stay_together():
    numbers = np.arange(1000)
    table = pa.table({"id": in_pieces(numbers, 130), "twin": pa.chunked_array([pa.array(numbers)])})
    for recipe in (Simple(50, 1000), Each(0.05), Sized("twin2", 50, "poisson")):
        engine = Engine(table.append_column("twin2", in_pieces(numbers + 1, 77)))
        engine.draw(recipe, UNITS)
        drawn = engine._sample.to_pyarrow()
        assert drawn.num_rows > 10
        assert drawn["id"].to_pylist() == drawn["twin"].to_pylist()


def test_the_arrow_file_is_mapped_and_its_pieces_are_put_together_rightly(tmp_path):
    table = pa.table({"id": in_pieces(np.arange(3000), 250), "twin": in_pieces(np.arange(3000), 250)})
    with pa.OSFile(str(tmp_path / "frame.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=250)
    engine = Engine(tmp_path / "frame.arrow")
    engine.draw(Simple(100, 3000), UNITS)
    drawn = engine._sample.to_pyarrow()
    assert len(set(drawn["id"].to_pylist())) == 100
    assert drawn["id"].to_pylist() == drawn["twin"].to_pylist()


BY_PART = {
    "fixed": Strata("part", {"even": Simple(40, 10**6), "odd": Simple(30, 10**6)}),
    "each": Strata("part", {"even": Each(4e-5), "odd": Each(3e-5)}),
}


@pytest.mark.parametrize("recipe", BY_PART.values(), ids=BY_PART)
def test_rows_of_a_duckdb_file_keep_their_own_stratum(tmp_path, recipe):
    part = "case when range % 2 = 0 then 'even' else 'odd' end as part"
    with duckdb.connect(str(tmp_path / "frame.duckdb")) as connection:
        connection.execute(f"create table frame as select range as id, {part} from range(2000000)")
    engine = Engine(tmp_path / "frame.duckdb")
    engine.draw(recipe, Expectations(unit="id"))
    drawn = engine._sample.to_pyarrow()
    assert drawn.num_rows > 20
    assert [["even", "odd"][unit % 2] for unit in drawn["id"].to_pylist()] == drawn["__stratum"].to_pylist()


def a_survey(path, ledger, size=1000):
    frame = ds.Frame(str(path), unit="id", size=size)
    return ds.Survey(frame, ds.srs(n=20), ds.Setting("frame", neighbours="replace-one"), budget=ds.Budget(9.0), ledger=ledger)


def write(path, rows):
    table = pa.table({"id": np.arange(rows), "y": np.full(rows, 0.5)})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path) + ".new", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        os.replace(str(path) + ".new", path)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_file_that_is_replaced_is_checked_and_drawn_anew(tmp_path, ending):
    path = tmp_path / f"frame.{ending}"
    write(path, 100)
    survey = a_survey(path, tmp_path / "books.ledger")
    with pytest.raises(BadData, match="declared size"):
        survey.check()
    write(path, 1000)
    survey.check()
    survey.draw(tmp_path / "sample.parquet")
    # Twenty of the first hundred of a thousand: probability below 1e-20.
    assert max(pq.read_table(tmp_path / "sample.parquet")["unit"].to_pylist()) >= 100


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_sample_on_record_is_never_that_of_another_file(tmp_path, ending):
    path = tmp_path / f"frame.{ending}"
    write(path, 1000)
    survey = a_survey(path, tmp_path / "books.ledger")
    survey.plan(ds.mean("y", bounds=(0, 1)), share=0.1).release()
    write(path, 100)
    with pytest.raises(BadData, match="changed while it was used"):
        survey.plan(ds.mean("y", bounds=(0, 1)), share=0.2).release()
    with pytest.raises(BadData, match="declared size"):
        a_survey(path, tmp_path / "books.ledger").plan(ds.mean("y", bounds=(0, 1)), share=0.3).release()


def test_strata_on_an_engine_without_sha256_have_numbers_of_their_own(tmp_path):
    with sqlite3.connect(tmp_path / "frame.db") as connection:
        connection.execute("create table frame (id integer, part text, rate real)")
        rows = [(unit, "ab"[unit // 200], 0.5) for unit in range(400)]
        connection.executemany("insert into frame values (?, ?, ?)", rows)
    connection.close()
    table = ibis.sqlite.connect(tmp_path / "frame.db").table("frame")
    recipe = Strata("part", {"a": Each(0.5), "b": EachBy("rate", 0.5)})
    units = set(draw_by_keyed_number(table, recipe, "id", ("id",), KeyedNumbers(None)).to_pyarrow()["id"].to_pylist())
    # The same numbers in both strata would draw the same places; by chance that has probability 2^-200.
    assert {unit for unit in units if unit < 200} != {unit - 200 for unit in units if unit >= 200}


def test_a_sealed_sample_stays_when_the_scratch_folder_cannot_be_removed(tmp_path, monkeypatch):
    def stubborn(*given, **more):
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(os, "rmdir", stubborn)
    write(tmp_path / "frame.parquet", 1000)
    survey = a_survey(tmp_path / "frame.parquet", tmp_path / "books.ledger")
    survey.draw(tmp_path / "sample.parquet")
    assert [each["state"] for each in ds.Ledger(tmp_path / "books.ledger").samples()] == ["sealed"]
    assert pq.read_table(tmp_path / "sample.parquet").num_rows == 20


def test_whole_sizes_beyond_a_64_bit_sum_keep_their_chances():
    table = pa.table({"id": np.arange(1000), "x": np.full(1000, 4 * 10**16)})
    engine = Engine(table)
    engine.draw(Sized("x", 50, "poisson"), Expectations(unit="id"))
    drawn = engine._sample.to_pyarrow()
    assert drawn["__pi"].to_pylist() == pytest.approx([0.05] * drawn.num_rows)
    # 50 expected, standard deviation 6.9: eight of them, false alarm 1e-15.
    assert abs(drawn.num_rows - 50) < 56


def test_a_label_that_no_row_has_does_not_stop_a_draw():
    part = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50), pa.array(["a", "b", "unused"]))
    engine = Engine(pa.table({"id": np.arange(100), "part": part}))
    engine.draw(Strata("part", {"a": Simple(5, 50), "b": Simple(7, 50)}), Expectations(unit="id"))
    assert sorted(engine._sample.to_pyarrow()["__stratum"].to_pylist()) == ["a"] * 5 + ["b"] * 7


def test_weights_are_made_of_declared_sizes_with_and_without_a_key():
    table = pa.table({"id": np.arange(300), "part": ["a"] * 100 + ["b"] * 200})
    found = []
    for key in (None, ds.Key(bytes(32))):
        engine = Engine(table)
        engine.draw(Strata("part", {"a": Simple(20, 500), "b": Simple(20, 500)}), Expectations(unit="id"), key)
        drawn = engine._sample.to_pyarrow()
        found.append(set(zip(drawn["__stratum"].to_pylist(), drawn["__pi"].to_pylist(), strict=True)))
    assert found == [{("a", 0.04), ("b", 0.04)}] * 2
