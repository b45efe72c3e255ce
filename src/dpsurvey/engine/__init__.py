"""Where rows live: the only code that touches microdata. Two verbs, draw and sums; it knows nothing about privacy."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from ibis.expr.types import Table

from ..design.key import Key
from ..design.recipe import Step, Taken
from ..errors import BadData, BadValue, NotFound, close_name
from ..statistic.exact_totals import ClusterTotals, ReplicateTotals
from ..statistic.query import ByReplicate, Query
from .check import Expectations, check_chances, check_columns, check_distinct, check_rows, name_of, with_units
from .cluster_totals import totals_by_cluster
from .collected import check_collected, public_sizes, take_all
from .dialect import READ_FILES, dialect_of
from .draw import DRAWN, check_largest, draw_sample, reader_of
from .replicate_totals import totals_by_replicate
from .source import (
    PI,
    PSU,
    ROW,
    SSU,
    STRATUM,
    WEIGHT,
    check_names,
    columns_in_memory,
    count_of,
    keep_temporarily,
    open_table,
    quietly,
    send,
)
from .stamp import stamp_of
from .sums import SecretSums, sum_rows
from .values import as_label, as_number

T = TypeVar("T")
# What a sample file says of each unit, and what a draw calls it.
SAMPLE_COLUMNS = {"stratum": STRATUM, "psu": PSU, "ssu": SSU, "pi": PI, "weight": WEIGHT}


class Engine:
    """A table opened where it is, its draws and their sums.

    Holds the drawn rows of one sample as a temporary table of the backend, or as Arrow columns until a sum is asked.
    """

    def __init__(self, source: Any, engine: str = "duckdb") -> None:
        # What the backend spills to disk goes to a folder that only its owner can enter, and goes away with this object.
        self._scratch = tempfile.mkdtemp(prefix="dpsurvey-")
        weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._engine, self._named = engine, source
        # Taken before the file is opened: a change in between makes the engine stale, never the other way round.
        self.stamp = stamp_of(source)
        in_memory = columns_in_memory(source)
        self._source = source if in_memory is None else in_memory
        self._reader = None
        if READ_FILES[engine].in_process:
            self._reader = quietly("opening the table", lambda: reader_of(source, in_memory), opens=True)
        self._drawn: Table | pa.Table | None = None
        if in_memory is None:
            self._table  # noqa: B018
        else:
            # Columns in memory can be drawn from without a backend, which is opened when something else is asked.
            check_names(in_memory.column_names)

    def __reduce__(self) -> Any:
        raise BadValue("an engine is not pickled or copied", because="it holds the rows of a secret sample")

    @cached_property
    def _table(self) -> Table:
        table = quietly("opening the table", lambda: open_table(self._source, self._scratch, engine=self._engine), opens=True)
        if dialect_of(table).disconnects and not isinstance(self._source, Table):
            weakref.finalize(self, table.get_backend().disconnect)
        return table

    @property
    def _sample(self) -> Table | None:
        """The drawn rows on the backend."""
        if isinstance(self._drawn, pa.Table):
            self._drawn = send(self._drawn, self._table)
        return self._drawn

    @_sample.setter
    def _sample(self, drawn: Table) -> None:
        self._drawn = drawn

    @property
    def has_drawn(self) -> bool:
        """Whether a sample was drawn."""
        return self._drawn is not None

    def is_stale(self) -> bool:
        """Whether the file is no longer the one that was opened."""
        return self.stamp != stamp_of(self._named)

    def check_unchanged(self) -> None:
        """Refuse to go on with a file that is no longer the one that was opened and checked."""
        if self.is_stale():
            raise BadData("the table changed while it was used", hint="make the survey again, on a file that nobody writes to")

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

    def check_rows(self, expected: Expectations, recipe: Step | None = None) -> None:
        """Whether every row keeps what was declared."""
        quietly("checking rows", lambda: check_rows(self._table, expected))
        if isinstance(recipe, Taken):
            quietly("checking rows", lambda: check_collected(self._table, recipe, expected))
        elif recipe is not None:
            quietly("checking rows", lambda: check_largest(self._table, recipe))
        if recipe is not None and not isinstance(recipe, Taken) and expected.own_weights and expected.weight_range is not None:
            weights, columns = expected.weight_range, expected.compare_columns
            quietly("checking rows", lambda: check_chances(self._table, recipe, weights, compare_columns=columns))

    def draw(
        self,
        recipe: Step,
        expected: Expectations,
        key: Key | None = None,
        start: float = 0.0,
        report: Callable[[float], None] | None = None,
    ) -> None:
        """Draw the sample, once; later calls only fetch further columns of the same units.

        With a key the units are those whose permanent random numbers, counted from `start`, come first. `report` is told
        how far the engine is.
        """
        if isinstance(recipe, Taken):
            self._drawn = take_all(self._table, recipe, expected)
        elif self._drawn is None:
            self._check_order(recipe)
            given = (self._reader, lambda: self._table, recipe, expected.unit, expected.columns)
            self._drawn = quietly("drawing", lambda: draw_sample(*given, key=key, start=start, report=report))
        elif self._sample is not None and not set(expected.columns) <= set(self._sample.columns):
            units = self._sample.select(expected.unit, *(name for name in self._sample.columns if name in DRAWN))
            self._sample = quietly("fetching columns", lambda: self._rows_of(units, expected))

    def _check_order(self, recipe: Step) -> None:
        """Refuse to draw in the order of a list that has none: only a file or a table in memory has an order of its own."""
        if self._reader is not None or not recipe.as_listed:
            return
        if isinstance(self._source, Table) or not dialect_of(self._table).in_process:
            hint = "name the columns to sort by"
            raise BadValue("the rows of this table have no order of their own", given='order="as listed"', hint=hint)

    def load(self, path: str, expected: Expectations) -> None:
        """Take a sealed sample: join its units to the values of the frame."""

        def work() -> Table:
            units = self._sealed(path, expected.unit)
            sample = self._rows_of(units, expected)
            if count_of(sample) != count_of(units):
                hint = "use the frame that the sample was drawn from"
                raise BadData("the sealed sample has units that are not on the frame", hint=hint)
            return sample

        self._sample = quietly("loading the sealed sample", work)

    def _rows_of(self, units: Table, expected: Expectations) -> Table:
        known = [name for name in units.columns if name in DRAWN]
        joined = self._table.select(*expected.columns).join(units, expected.unit)
        return keep_temporarily(joined.select(*expected.columns, *known))

    def load_responses(self, path: str, answers: Any, expected: Expectations) -> None:
        """Take the answers that came back for a sealed sample and check them; groups and strata come from the frame."""
        unit = expected.unit

        def work() -> Table:
            came_back = self._file(answers, unit, expected=expected)
            # In the answers themselves: a unit that was drawn twice answers once, and counts twice in the sample.
            check_distinct(came_back, unit)
            drawn = self._sealed(path, unit)
            if count_of(came_back.anti_join(drawn, unit)):
                hint = "keep only answers from units of the sealed sample"
                raise BadData("the responses hold units that were not drawn", hint=hint)
            given = [name for name in came_back.columns if name in expected.columns and name not in (unit, expected.strata)]
            rest = [name for name in expected.columns if name not in given and name != unit]
            joined = came_back.select(unit, *given).join(self._table.select(unit, *rest), unit).join(drawn, unit)
            sample = keep_temporarily(joined.select(*expected.columns, *(name for name in drawn.columns if name in DRAWN)))
            check_columns(sample, expected)
            check_rows(sample, expected, whole_frame=False)
            return sample

        self._sample = quietly("loading the responses", work)

    def check_responses(self, answers: Any, expected: Expectations) -> None:
        """Whether every used column is in the answers or on the frame, from the schemas alone."""
        opened = quietly("opening the responses", lambda: open_table(answers, self._scratch), opens=True)
        called = name_of(answers)
        here = with_units(opened, expected, called)
        for column in (*expected.numeric, *expected.present):
            if column not in here.columns:
                otherwise = "what is asked must be answered; only groups and strata come from the frame"
                raise NotFound(f"{called} has no column {column!r}", hint=close_name(column, here.columns, otherwise))
        missing = tuple(name for name in expected.columns if name not in here.columns)
        check_columns(self._table, Expectations(unit=expected.unit, used=missing))

    def deviations(self, by: str, of: str, labels: tuple[str, ...]) -> dict[str, float]:
        """The standard deviation of a column in each stratum of the frame: confidential figures."""

        def work() -> dict[str, float]:
            rows = self._table.select(as_label(self._table, by, labels).name("label"), as_number(self._table, of).name("value"))
            found = rows.group_by("label").aggregate(rows["value"].std(how="sample").name("deviation")).to_pyarrow()
            return {row["label"]: float(row["deviation"] or 0.0) for row in found.to_pylist()}

        return quietly("reading deviations", work)

    def public_sizes(self, recipe: Taken, expected: Expectations) -> dict[str, tuple[int, int]]:
        """The records of each stratum of a collected file, and the units that its column of population sizes says it has."""
        check_columns(self._table, expected)
        return quietly("reading public sizes", lambda: public_sizes(self._table, recipe, expected))

    def answered(self, query: Query, answer: Callable[[Any], T]) -> T:
        """What a mechanism answers to the exact sums of a query. No frame that holds them is left in a traceback."""
        if query.clusters is not None:
            return quietly("summing and adding noise", lambda: answer(self.totals(query)))
        return quietly("summing and adding noise", lambda: answer(self.sums(query).values.tolist()))

    def sums(self, query: Query) -> SecretSums:
        """The exact sums of a query over the sample."""
        sample = self._sample
        assert sample is not None
        return quietly("summing", lambda: sum_rows(sample, query))

    def totals(self, query: Query) -> ClusterTotals | ReplicateTotals:
        """The exact sums of a query by cluster, or with each set of replicate weights, and what is held fixed of them."""
        sample = self._sample
        assert sample is not None
        if isinstance(query.clusters, ByReplicate):
            return quietly("summing", lambda: totals_by_replicate(sample, query))
        return quietly("summing", lambda: totals_by_cluster(sample, query))

    def write_sample(self, path: str, unit: str, recipe: Step) -> None:
        """The units to interview with their probabilities and weights, as a Parquet file; whole or not at all."""
        sample = self._drawn
        assert sample is not None
        stages = len(recipe.columns("cluster"))
        known = {column: name for column, name in SAMPLE_COLUMNS.items() if column != "ssu" or stages > 1}
        quietly("writing the sample", lambda: write_parquet(sample, {"unit": unit} | known, path))

    def _sealed(self, path: str, unit: str) -> Table:
        """The units of a sealed sample, under the name that the frame has for them, and what the draw knows of each."""
        found = open_table(path, self._scratch)
        # Files of earlier versions name the unit as the frame does, and hold nothing else that is needed.
        if "unit" not in found.columns or "pi" not in found.columns:
            return self._file(path, unit, {unit: unit})
        kept = {column: name for column, name in SAMPLE_COLUMNS.items() if column in found.columns}
        return self._file(path, unit, {"unit": unit} | kept)

    def _file(self, source: Any, unit: str, kept: dict[str, str] | None = None, expected: Expectations | None = None) -> Table:
        """Another table, on the backend of the frame so that the two can be joined, its units typed as the frame's."""
        table = open_table(source, self._scratch, beside=self._table).drop(ROW)
        table = table if expected is None else with_units(table, expected, name_of(source))
        if kept is not None:
            table = table.select(*(table[column].name(name) for column, name in kept.items()))
        if table.get_backend() is not self._table.get_backend():
            # Another engine than DuckDB cannot read the file by itself; the drawn units, and no others, are sent to it.
            table = send(table.to_pyarrow(), self._table)
        own, other = self._table.schema()[unit], table.schema()[unit]
        return table if own == other else table.mutate(table[unit].try_cast(own).name(unit))


def write_parquet(drawn: Table | pa.Table, names: dict[str, str], path: str) -> None:
    """Drawn rows as one Parquet file, in an order that says nothing about the draw.

    What DuckDB does not hold crosses to this process first: it is the sample, no more.
    """
    order = ("stratum", "psu", "unit")
    if not isinstance(drawn, pa.Table):
        rows = drawn.select(*(drawn[name].name(column) for column, name in names.items()))
        if dialect_of(rows).in_process:
            rows.order_by(order).to_parquet(path)
            return
        drawn, names = rows.to_pyarrow(), {column: column for column in names}
    table = pa.table({column: drawn[name] for column, name in names.items()})
    pq.write_table(table.sort_by([(column, "ascending") for column in order]), path)


__all__ = ["Engine", "Expectations", "SecretSums"]
