"""Rows of any table by their number: the chosen numbers are sent to its engine, and meet the table in one pass there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
from ibis.expr.types import FloatingValue, NumericValue, Table

from ..source import NUMBER, PI, PSU, RANK, ROW, STRATUM, WEIGHT, count_of, figures_of, keep_temporarily, send
from ..values import as_label, as_number, double
from .by_row_number import Alike, ByStratum, Chances, InProportion
from .drawn import as_drawn, check_rates, too_short, wrong_sizes
from .generator import Rows, Uniforms


class OnePass:
    """A table on any engine. No row passes through Python."""

    def __init__(self, table: Table, columns: tuple[str, ...]) -> None:
        self.table, self.columns = table, columns

    @cached_property
    def num_rows(self) -> int:
        """How many rows the table has."""
        return count_of(self.table)

    def met(self, rows: Rows, numbers: Uniforms | None, chances: Chances) -> Met:
        """The rows with these row numbers, with their numbers where these are asked for."""
        return Met(_meet(self.table.select(*self._used(chances), ROW), rows, numbers), self.columns, chances)

    def larger(self, bar: float, chances: InProportion, numbers: Callable[[int], Uniforms]) -> Met:
        """The rows with a size above the bar."""
        used = self._used(chances)
        rows = self.table.select(*used)
        large = rows.filter(as_number(rows, chances.column) > double(bar))
        listed = keep_temporarily(large.mutate(ibis.row_number().name(ROW)))
        count = count_of(listed)
        return Met(_meet(listed, np.arange(count), numbers(count)), self.columns, chances)

    def on_a_line(self, chances: InProportion, start: float, *, some_certain: bool) -> Met:
        """A running sum without a sort: DuckDB hands rows on in the order of the file."""
        used = self._used(chances)
        rows, sure = self.table.select(*used), double(chances.total / chances.take)

        def own(rows: Table) -> NumericValue:
            size = as_number(rows, chances.column)
            return (size >= sure).ifelse(double(0.0), size) if some_certain else size

        reached = rows.mutate(own(rows).sum().over(ibis.window(preceding=None, following=0)).name(NUMBER))
        scale, first = double(chances.take / chances.total), double(start)
        hit = ((reached[NUMBER] - own(reached)) * scale - first).ceil() < (reached[NUMBER] * scale - first).ceil()
        kept = reached.filter(hit | (as_number(reached, chances.column) >= sure) if some_certain else hit)
        return Met(kept, self.columns, chances)

    def has_rates(self, column: str, at_most: float) -> bool:
        """Rates are read from any column."""
        check_rates(self.table, column, double(at_most))
        return True

    def sizes(self, column: str) -> SizesOfTable:
        """Sizes are read from any column."""
        return SizesOfTable(self.table, column)

    def clusters(self, column: str) -> ClustersOfTable:
        """The list of clusters, of any kind of label."""
        return ClustersOfTable(self, column)

    def _used(self, chances: Chances) -> tuple[str, ...]:
        own = () if isinstance(chances, Alike) else (chances.column,)
        return tuple(dict.fromkeys((*self.columns, *own)))


class Met:
    """Rows of a table that may be drawn, as an expression of its engine until they are counted or wanted."""

    def __init__(self, rows: Table, columns: tuple[str, ...], chances: Chances) -> None:
        if isinstance(chances, ByStratum) and STRATUM not in rows.columns:
            rows = rows.mutate(as_label(rows, chances.column, chances.chances).name(STRATUM))
        self._rows, self._columns, self._chances = rows, columns, chances

    def below_chance(self, largest: float = math.inf) -> Met:
        kept = self._rows.filter(self._rows[NUMBER] <= self._chance(self._rows))
        if largest < math.inf and isinstance(self._chances, InProportion):
            kept = kept.filter(as_number(kept, self._chances.column) <= double(largest))
        return Met(kept, self._columns, self._chances)

    def smallest(self, takes: Mapping[str, int]) -> Met:
        ranked = self._rows.mutate(ibis.row_number().over(group_by=STRATUM, order_by=self._rows[NUMBER]).name(RANK))
        kept = ranked.filter(ranked[RANK] < _by_label(ranked, takes)).drop(RANK)
        return Met(kept, self._columns, self._chances)

    def with_others(self, others: Met) -> Met:
        return Met(ibis.union(self._rows, others._rows.select(*self._rows.columns)), self._columns, self._chances)

    def count(self) -> int:
        return count_of(self._drawn)

    def drawn(self) -> Table:
        return self._drawn

    @cached_property
    def _drawn(self) -> Table:
        chance = self._chance(self._rows)
        chance = ibis.least(chance, double(1.0)) if isinstance(self._chances, InProportion) else chance
        carried = self._rows.mutate(chance.name(PI), (double(1.0) / chance).name(WEIGHT))
        return keep_temporarily(as_drawn(carried, self._columns))

    def _chance(self, rows: Table) -> FloatingValue:
        chances = self._chances
        if isinstance(chances, Alike):
            return double(chances.chance)
        if isinstance(chances, ByStratum):
            return _by_label(rows, chances.chances)
        return as_number(rows, chances.column) * double(chances.take) / double(chances.total)


class SizesOfTable:
    """A column of sizes: its figures are those of the engine."""

    def __init__(self, table: Table, column: str) -> None:
        self._table, self._size = table, as_number(table, column)
        size = self._size
        sums = [size.sum().name("sum"), size.max().name("max"), size.min().name("min"), size.count().name("present")]
        facts = figures_of(table, [*sums, table.count().name("rows")])
        if not facts["rows"]:
            raise too_short()
        if facts["present"] < facts["rows"] or not facts["min"] > 0.0 or not math.isfinite(facts["sum"]):
            raise wrong_sizes(column)
        self.count, self.total, self.largest = int(facts["rows"]), float(facts["sum"]), float(facts["max"])

    def certain(self, take: int, total: float) -> tuple[int, float, float]:
        bar = self._size * double(take) >= double(total)
        rest = (~bar).ifelse(self._size, ibis.null(dt.float64)).max()
        sums = [bar.sum().name("count"), bar.ifelse(self._size, double(0.0)).sum().name("sum"), rest.name("max")]
        found = figures_of(self._table, sums)
        return int(found["count"]), float(found["sum"]), float(found["max"] or 0.0)


class ClustersOfTable:
    """The clusters of a table, in whatever order its engine lists them."""

    def __init__(self, rows: OnePass, column: str) -> None:
        self._rows, self._column = rows, column
        # Kept, so that each cluster has the same place whenever it is asked for.
        self._numbered = keep_temporarily(rows.table.select(column).distinct().mutate(ibis.row_number().name(ROW)))
        self.size = count_of(self._numbered)

    def units_of(self, places: Rows, chances: Alike) -> Met:
        """All units of the clusters at these places of the list."""
        column, wanted = self._column, dict.fromkeys((*self._rows.columns, self._column))
        drawn = keep_temporarily(_meet(self._numbered, places, None))
        kept = self._rows.table.select(*wanted).join(drawn, column)
        return Met(kept.mutate(kept[column].name(PSU)), self._rows.columns, chances)


def _meet(table: Table, rows: Rows, numbers: Uniforms | None) -> Table:
    """The rows of a table that have these row numbers, with a number of each where there are some."""
    sent = {ROW: rows} if numbers is None else {ROW: rows, NUMBER: numbers}
    return table.join(send(pa.table(sent), table), ROW).drop(ROW)


def _by_label(rows: Table, amounts: Mapping[str, float]) -> FloatingValue:
    cases = ((label, double(amount)) for label, amount in amounts.items())
    return rows[STRATUM].cases(*cases, else_=double(0.0))
