"""Where rows live: the only code that touches microdata. Two verbs, draw and sums; it knows no privacy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ibis
from ibis.expr.types import Table

from ..design.base import Design
from ..errors import BadData, SurveyError
from ..statistic.query import Query
from .check import Expectations, check_columns, check_rows
from .draw import draw_rows
from .source import ROW, keep_temporarily, open_table
from .sums import SecretSums, sum_rows


@contextmanager
def silent(doing: str) -> Iterator[None]:
    """An engine's own errors may quote values, so only the kind of error gets out."""
    failed = ""
    try:
        yield
    except SurveyError:
        raise
    except Exception as error:
        failed = type(error).__name__
    if failed == "InterruptException":
        raise KeyboardInterrupt
    if failed:
        raise BadData(
            f"the engine failed while {doing}",
            because=failed,
            hint="look at the table with a tool that may show rows; this message must not",
        )


class Engine:
    """A table opened where it is, its draws and their sums.

    Holds the drawn rows of one sample as a temporary table of the backend; never as Python objects.
    """

    def __init__(self, source: Any) -> None:
        with silent("opening the table"):
            self._table = open_table(source)
        self._sample: Table | None = None

    @property
    def name(self) -> str:
        """The backend that does the work."""
        backend = self._table.get_backend()
        return f"{backend.name} {backend.version}"

    @property
    def columns(self) -> list[str]:
        """The names of the columns, from the schema."""
        return [name for name in self._table.columns if name != ROW]

    def check_columns(self, expected: Expectations) -> None:
        """Whether the used columns exist, from the schema alone."""
        check_columns(self._table, expected)

    def check_rows(self, expected: Expectations) -> None:
        """Whether every row keeps what was declared."""
        with silent("checking rows"):
            check_rows(self._table, expected)

    def draw(self, design: Design, expected: Expectations) -> None:
        """Draw the sample, once; later calls only fetch further columns of the same units."""
        with silent("drawing"):
            if self._sample is None:
                sizes = {str(part.label): part.size for part in design.parts() if part.size is not None}
                self._sample = keep_temporarily(draw_rows(self._table, design.recipe(), expected.columns, sizes))
            elif not set(expected.columns) <= set(self._sample.columns):
                self._sample = self._rows_of(self._sample.select(expected.unit), expected)

    def load(self, path: str, expected: Expectations) -> None:
        """Take a sealed sample: join its units to the values of the frame."""
        with silent("loading the sealed sample"):
            units = self._file(path).select(expected.unit)
            self._sample = self._rows_of(units, expected)
            if self._sample.count().to_pyarrow().as_py() != units.count().to_pyarrow().as_py():
                raise BadData(
                    "the sealed sample has units that are not on the frame", hint="use the frame that the sample was drawn from"
                )

    def _rows_of(self, units: Table, expected: Expectations) -> Table:
        return keep_temporarily(self._table.select(*expected.columns).join(units, expected.unit).select(*expected.columns))

    def load_responses(self, path: str, answers: Any, expected: Expectations) -> None:
        """Take the answers that came back for a sealed sample and check them; columns they lack come from the frame."""
        unit = expected.unit
        with silent("loading the responses"):
            came_back = self._file(answers)
            if came_back.anti_join(self._file(path), unit).count().to_pyarrow().as_py():
                raise BadData(
                    "the responses hold units that were not drawn", hint="keep only answers from units of the sealed sample"
                )
            given = [name for name in came_back.columns if name in expected.columns and name not in (unit, expected.strata)]
            rest = [name for name in expected.columns if name not in given and name != unit]
            joined = came_back.select(unit, *given).join(self._table.select(unit, *rest), unit).select(*expected.columns)
            self._sample = keep_temporarily(joined)
            check_columns(self._sample, expected)
            check_rows(self._sample, expected, whole_frame=False)

    def check_responses(self, answers: Any, expected: Expectations) -> None:
        """Whether every used column is in the answers or on the frame, from the schemas alone."""
        with silent("opening the responses"):
            here = self._file(answers)
        check_columns(here, Expectations(unit=expected.unit))
        check_columns(
            self._table,
            Expectations(unit=expected.unit, present=tuple(name for name in expected.columns if name not in here.columns)),
        )

    def sums(self, query: Query) -> SecretSums:
        """The exact sums of a query over the sample."""
        assert self._sample is not None
        with silent("summing"):
            return sum_rows(self._sample, query)

    def write_sample(self, path: str, unit: str, design: Design) -> None:
        """The units to interview with their weights, as a Parquet file that only its owner may read; whole or not at all."""
        assert self._sample is not None
        sample, strata = self._sample, design.strata_column
        weights = {part.label: part.weight for part in design.parts()}
        if strata is None:
            chosen = sample.select(unit).mutate(weight=ibis.literal(weights[None], "float64"))
        else:
            weight = sample[strata].cast("string").cases(*((label, value) for label, value in weights.items()), else_=None)
            chosen = sample.select(unit, strata, weight.cast("float64").name("weight"))
        temporary = f"{path}.part"
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
            with silent("writing the sample"):
                chosen.order_by(unit).to_parquet(temporary)
            os.chmod(temporary, 0o600)
            os.replace(temporary, path)
        finally:
            if os.path.exists(temporary):
                os.remove(temporary)

    def _file(self, source: Any) -> Table:
        """Another table, opened on the backend of the frame so that the two can be joined."""
        table = open_table(source).drop(ROW)
        backend = self._table.get_backend()
        return table if table.get_backend() is backend else ibis.memtable(table.to_pyarrow())


__all__ = ["Engine", "Expectations", "SecretSums"]
