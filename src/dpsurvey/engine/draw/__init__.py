"""The draw of a sample: one dispatch, and below it two routes, by row number and by keyed number.

A secret draw, without a key, goes by row number where its design has such a law: the rows that may win are chosen by their
numbers alone, and only those are looked at. Every other design, and every draw with a key, goes by keyed number: each unit
has one, a hash of its label, which is computed where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from ibis.expr.types import Table

from ...design.key import Key
from ...design.recipe import Each, Step
from ..dialect import dialect_of
from ..source import PI, WEIGHT
from ..values import double
from ..watch import watching
from .by_keyed_number import draw_by_keyed_number
from .by_row_number import draw_by_row_number, rows_looked_at
from .drawn import DRAWN, as_drawn, check_largest
from .generator import secret_generator
from .keyed_list import KeyedNumbers
from .looked_up import LookedUp, Reader, reader_of
from .one_pass import OnePass


def draw_sample(
    reader: Reader | None,
    table: Callable[[], Table],
    recipe: Step,
    unit: str,
    columns: tuple[str, ...],
    *,
    key: Key | None = None,
    start: float = 0.0,
    report: Callable[[float], None] | None = None,
) -> pa.Table | Table:
    """The drawn rows with stratum, clusters, probability and weight: Arrow columns, or a table of the rows' own engine.

    `reader` finds rows by number, where they lie so that it can; `table` opens them on their engine, if it comes to that.
    """
    generator = secret_generator()
    if key is None and reader is not None and reader.reads(rows_looked_at(recipe, reader.num_rows)):
        looked_up = draw_by_row_number(LookedUp(reader, columns), recipe, generator)
        if looked_up is not None:
            return looked_up
    opened = table()
    with watching(opened, report):
        if key is None and isinstance(recipe, Each) and recipe.probability >= 1.0:
            # A census is the table itself, and need not be copied.
            return as_drawn(opened.mutate(double(1.0).name(PI), double(1.0).name(WEIGHT)), columns)
        if key is None and dialect_of(opened).numbers_rows:
            met = draw_by_row_number(OnePass(opened, columns), recipe, generator)
            if met is not None:
                return met
        return draw_by_keyed_number(opened, recipe, unit, columns, KeyedNumbers(key, start))


__all__ = ["DRAWN", "check_largest", "draw_sample", "reader_of"]
