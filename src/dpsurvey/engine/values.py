"""How one value of one row is read: as a number or as a label. Each row by itself, the same in checks, draws and sums."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import BooleanValue, FloatingValue, NumericValue, StringValue, Table

from .dialect import dialect_of

TRUTH = {"true", "false"}
# How files write truth values as numbers.
WRITTEN = {"1": "true", "0": "false"}


def in_order(table: Table, column: str) -> Any:
    """A column to sort by, the same on every engine: PostgreSQL would sort text as a dictionary does, others by bytes."""
    value = table[column]
    return dialect_of(table).sortable(value) if value.type().is_string() else value


def as_number(table: Table, column: str) -> NumericValue:
    """A measured value as a double; text that is not a number becomes missing, which the checks refuse."""
    value = table[column]
    return value.try_cast(dt.float64) if value.type().is_string() else value.cast(dt.float64)


def not_finite(number: NumericValue) -> BooleanValue:
    """Whether a number is missing, NaN or infinite."""
    return dialect_of(number).not_finite(number)


def not_positive(number: NumericValue) -> BooleanValue:
    """Whether a number is missing, not finite, zero or negative."""
    return not_finite(number) | (number <= 0.0)


def double(value: float) -> FloatingValue:
    """A constant as a double. Written with a decimal point, engines may read it as an exact decimal number instead."""
    return ibis.literal(repr(float(value))).cast(dt.float64)


def as_label(table: Table, column: str, labels: Iterable[str | None]) -> StringValue:
    """A category as text; truth values are compared without regard to case, and 1 and 0 are true and false."""
    text = table[column].cast(dt.string)
    known = {label for label in labels if label is not None}
    if not known or not known <= TRUTH:
        return text
    return text.lower() if table[column].type().is_boolean() else text.lower().cases(*WRITTEN.items(), else_=text.lower())
