"""No record changes how another is read, numbered or drawn: otherwise no sensitivity would hold."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.engine import Engine, Expectations
from dpsurvey.errors import BadData, BadValue
from dpsurvey.statistic import Query
from dpsurvey.statistic.encodings import Triple, Yes

N = 400


def census(source, query, numeric=(), present=()):
    engine = Engine(source)
    expected = Expectations(unit="id", numeric=numeric, present=present)
    engine.check_rows(expected)
    engine.draw(ds.poisson(1.0).recipe(), expected)
    return engine.sums(query).values.ravel().tolist()


def yes(column, value):
    return Query(Yes(), column, None, value, (), (), ((None, 1),), None, False)


@pytest.mark.parametrize("written", ["True", "true", "TRUE"])
def test_one_odd_answer_does_not_change_how_a_csv_file_is_read(tmp_path, written):
    rows = [f"{index},{written if index % 2 else 'False'}" for index in range(N)]
    (tmp_path / "all.csv").write_text("id,employed\n" + "\n".join(rows) + "\n")
    (tmp_path / "odd.csv").write_text("id,employed\n" + "\n".join([*rows[:-1], f"{N - 1},Unknown"]) + "\n")
    query = yes("employed", "true")
    before, after = (census(tmp_path / name, query, present=("employed",)) for name in ("all.csv", "odd.csv"))
    assert (before, after) == ([N // 2], [N // 2 - 1])


def test_one_row_with_other_separators_does_not_change_the_others(tmp_path):
    rows = [f"{index},{index % 7}" for index in range(N)]
    (tmp_path / "all.csv").write_text("id,code\n" + "\n".join(rows) + "\n")
    (tmp_path / "odd.csv").write_text("id,code\n" + "\n".join([*rows[:-1], f'{N - 1},"a;b;c;d;e;f;g"']) + "\n")
    query = yes("code", "3")
    before, after = (census(tmp_path / name, query, present=("code",)) for name in ("all.csv", "odd.csv"))
    assert abs(before[0] - after[0]) <= 1
    assert before[0] > 50


def test_text_among_the_numbers_of_a_csv_file_is_refused_and_not_guessed_at(tmp_path):
    (tmp_path / "f.csv").write_text("id,income\n" + "\n".join(f"{index},{index}.5" for index in range(N)) + "\nlast,many\n")
    query = Query(Triple(), "income", (0.0, 500.0), None, (), (), ((None, 1024),), None, False)
    with pytest.raises(BadData, match="'income' has values that are not finite numbers"):
        census(tmp_path / "f.csv", query, numeric=("income",))


def test_a_pandas_column_of_mixed_objects_is_refused():
    frame = pd.DataFrame({"id": range(3), "employed": pd.Series([True, False, "unknown"], dtype=object)})
    with pytest.raises(BadData, match="mixed kinds"):
        Engine(frame)


@pytest.mark.parametrize("name", ["__row", "__ROW", "__number", "__rank"])
def test_a_column_that_would_steer_the_draw_is_refused(name):
    with pytest.raises(BadValue, match="needs for itself"):
        Engine(pa.table({"id": [1, 2], name: [0, 0]}))


def test_strata_that_nothing_can_be_drawn_from_are_refused_however_they_are_built():
    from dpsurvey.design import Poisson, SimpleRandom, Stratified

    for inside in ({}, {"a": "srs"}, {"a": Stratified("h", Poisson(0.1))}):
        with pytest.raises(BadValue, match=r"within=|strata inside strata"):
            Stratified("g", inside)
    for wrong in (lambda: Poisson(1.5), lambda: SimpleRandom(n=0), lambda: SimpleRandom()):
        with pytest.raises(BadValue):
            wrong()


def test_a_rate_is_rounded_down_to_the_grid_of_uniform_numbers():
    from dpsurvey.engine.draw.generator import small_numbers

    class Chosen:
        """A generator of given uniform numbers."""

        def __init__(self, places):
            self.places = places

        def random(self, size):
            return np.array(self.places[:size]) * 2.0**-53

    for rate in [*np.random.default_rng(3).uniform(0.2, 1.0, 1000), 0.25, 1.0]:
        last = math.floor(rate * 2**53)
        # One minus k/2^53 is at most the rate for exactly the last `floor(rate 2^53)` values of k.
        places = [2**53 - last, max(0, 2**53 - last - 1)]
        found, numbers = small_numbers(Chosen(places), 2, float(rate))
        assert list(found) == ([0] if last < 2**53 else [0, 1])
        assert (numbers <= rate).all()


@pytest.mark.parametrize("role", ["numeric", "positive"])
def test_nan_is_found_in_a_file_whose_statistics_leave_it_out(tmp_path, role):
    # Arrow writes the extremes of a column without its NaN, and DuckDB believes them.
    rows = pa.table({"id": list(range(10)), "x": [0.2] * 9 + [float("nan")]})
    pa.parquet.write_table(rows, tmp_path / "frame.parquet")
    assert pa.parquet.ParquetFile(tmp_path / "frame.parquet").metadata.row_group(0).column(1).statistics.max == 0.2
    with pytest.raises(BadData, match="'x'"):
        Engine(tmp_path / "frame.parquet").check_rows(Expectations(unit="id", **{role: ("x",)}))
    whole = rows.slice(0, 9)
    pa.parquet.write_table(whole, tmp_path / "whole.parquet")
    Engine(tmp_path / "whole.parquet").check_rows(Expectations(unit="id", **{role: ("x",)}))
