"""Where rows live: the only code that touches microdata. Two verbs, draw and sums; it knows no privacy."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Any

import ibis
from ibis.expr.types import Table

from ..design.base import Design
from ..errors import BadData, NotFound, did_you_mean
from ..statistic.query import Query
from .check import Expectations, check_columns, check_rows
from .draw import draw_rows
from .source import ROW, keep_temporarily, open_table, quietly
from .sums import SecretSums, sum_rows
from .values import as_label


class Engine:
    """A table opened where it is, its draws and their sums.

    Holds the drawn rows of one sample as a temporary table of the backend; never as Python objects.
    """

    def __init__(self, source: Any) -> None:
        # What the backend spills to disk goes to a folder that only its owner can enter, and goes away with this object.
        self._scratch = tempfile.mkdtemp(prefix="dpsurvey-")
        weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._table = quietly("opening the table", lambda: open_table(source, self._scratch))
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
        quietly("checking rows", lambda: check_rows(self._table, expected))

    def draw(self, design: Design, expected: Expectations) -> None:
        """Draw the sample, once; later calls only fetch further columns of the same units."""
        sizes = {str(part.label): part.size for part in design.parts() if part.size is not None}
        if self._sample is None:
            self._sample = quietly(
                "drawing", lambda: keep_temporarily(draw_rows(self._table, design.recipe(), expected.columns, sizes))
            )
        elif not set(expected.columns) <= set(self._sample.columns):
            units = self._sample.select(expected.unit)
            self._sample = quietly("fetching columns", lambda: self._rows_of(units, expected))

    def load(self, path: str, expected: Expectations) -> None:
        """Take a sealed sample: join its units to the values of the frame."""

        def work() -> Table:
            units = self._file(path, expected.unit).select(expected.unit)
            sample = self._rows_of(units, expected)
            if _count(sample) != _count(units):
                hint = "use the frame that the sample was drawn from"
                raise BadData("the sealed sample has units that are not on the frame", hint=hint)
            return sample

        self._sample = quietly("loading the sealed sample", work)

    def _rows_of(self, units: Table, expected: Expectations) -> Table:
        return keep_temporarily(self._table.select(*expected.columns).join(units, expected.unit).select(*expected.columns))

    def load_responses(self, path: str, answers: Any, expected: Expectations) -> None:
        """Take the answers that came back for a sealed sample and check them; groups and strata come from the frame."""
        unit = expected.unit

        def work() -> Table:
            came_back = self._file(answers, unit)
            if _count(came_back.anti_join(self._file(path, unit), unit)):
                hint = "keep only answers from units of the sealed sample"
                raise BadData("the responses hold units that were not drawn", hint=hint)
            given = [name for name in came_back.columns if name in expected.columns and name not in (unit, expected.strata)]
            rest = [name for name in expected.columns if name not in given and name != unit]
            joined = came_back.select(unit, *given).join(self._table.select(unit, *rest), unit).select(*expected.columns)
            sample = keep_temporarily(joined)
            check_columns(sample, expected)
            check_rows(sample, expected, whole_frame=False)
            return sample

        self._sample = quietly("loading the responses", work)

    def check_responses(self, answers: Any, expected: Expectations) -> None:
        """Whether every used column is in the answers or on the frame, from the schemas alone."""
        here = quietly("opening the responses", lambda: open_table(answers, self._scratch))
        check_columns(here, Expectations(unit=expected.unit))
        for column in (*expected.numeric, *expected.present):
            if column not in here.columns:
                close = did_you_mean(column, here.columns)
                hint = (
                    close
                    if close.startswith("did you mean")
                    else "what is asked must be answered; only groups and strata come from the frame"
                )
                raise NotFound(f"the answers have no column {column!r}", hint=hint)
        missing = tuple(name for name in expected.columns if name not in here.columns)
        check_columns(self._table, Expectations(unit=expected.unit, used=missing))

    def sums(self, query: Query) -> SecretSums:
        """The exact sums of a query over the sample."""
        sample = self._sample
        assert sample is not None
        return quietly("summing", lambda: sum_rows(sample, query))

    def write_sample(self, path: str, unit: str, design: Design) -> None:
        """The units to interview with their weights, as a Parquet file that only its owner may read; whole or not at all."""
        assert self._sample is not None
        sample, strata = self._sample, design.strata_column
        weights = {part.label: part.weight for part in design.parts()}
        if strata is None:
            chosen = sample.select(unit).mutate(weight=ibis.literal(weights[None], "float64"))
        else:
            cases = ((label, ibis.literal(value, "float64")) for label, value in weights.items())
            weight = as_label(sample, strata, weights).cases(*cases, else_=ibis.null("float64"))
            chosen = sample.select(unit, strata, weight.name("weight"))
        # A folder of its own, closed to others, so that the list is never readable while it is written.
        with tempfile.TemporaryDirectory(prefix=".dpsurvey-", dir=os.path.dirname(path)) as private:
            temporary = os.path.join(private, "sample.parquet")
            quietly("writing the sample", lambda: chosen.order_by(unit).to_parquet(temporary))
            os.chmod(temporary, 0o600)
            os.replace(temporary, path)

    def _file(self, source: Any, unit: str) -> Table:
        """Another table, on the backend of the frame so that the two can be joined, its units typed as the frame's."""
        table = open_table(source, self._scratch, beside=self._table).drop(ROW)
        if table.get_backend() is not self._table.get_backend():
            # Another engine than DuckDB cannot read the file by itself; the drawn units, and no others, are sent to it.
            table = ibis.memtable(table.to_pyarrow())
        own, other = self._table.schema()[unit], table.schema()[unit]
        return table if own == other else table.mutate(table[unit].try_cast(own).name(unit))


def _count(table: Table) -> int:
    return int(table.count().to_pyarrow().as_py())


__all__ = ["Engine", "Expectations", "SecretSums"]
