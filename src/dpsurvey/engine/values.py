"""How one value of one row is read: as a number or as a label. Each row by itself, the same in checks, draws and sums."""

from __future__ import annotations

from collections.abc import Iterable

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import FloatingValue, NumericValue, StringValue, Table

TRUTH = {"true", "false"}


def as_number(table: Table, column: str) -> NumericValue:
    """A measured value as a double; text that is no number becomes missing, which the checks refuse."""
    value = table[column]
    return value.try_cast(dt.float64) if value.type().is_string() else value.cast(dt.float64)


def double(value: float) -> FloatingValue:
    """A constant as a double. Written with a decimal point, engines may read it as an exact decimal number instead."""
    return ibis.literal(repr(float(value))).cast(dt.float64)


def as_label(table: Table, column: str, labels: Iterable[str | None]) -> StringValue:
    """A category as text; truth values are compared without regard to case, as files write them in many ways."""
    text = table[column].cast(dt.string)
    return text.lower() if {label for label in labels if label is not None} <= TRUTH else text
