"""Columns of any table: read by name, turned into numbers, codes and row masks.

A table is anything that gives a column by name: a dict of arrays, a pandas or Polars frame, an Arrow table.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..design.columns import DesignColumns, missing_values, no_column, not_positive
from ..errors import BadData, BadValue

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


class Table(Protocol):
    """Gives a column by its name."""

    def __getitem__(self, name: str, /) -> Any: ...


def names_of(table: Table) -> list[str] | None:
    """The column names, where the table tells them.

    >>> names_of({"y": [1.0, 2.0]})
    ['y']
    """
    for attribute in ("column_names", "columns", "keys"):
        # Asked of the type, since a frame also shows its columns as attributes.
        if hasattr(type(table), attribute):
            found = getattr(table, attribute)
            return [str(name) for name in (found() if callable(found) else found)]
    return None


def values(table: Table, column: Any, role: str) -> npt.NDArray[Any]:
    """A column by name, or the array itself, as a flat array.

    >>> values({"y": [1, 2]}, "y", "y").tolist()
    [1, 2]
    """
    if isinstance(column, str):
        known = names_of(table)
        if known is not None and column not in known:
            raise no_column(column, role, known, "name a column of the data, or give an array")
        column = table[column]
    found = np.ma.filled(column.astype(float), math.nan) if isinstance(column, np.ma.MaskedArray) else np.asarray(column)
    if found.ndim != 1:
        raise BadValue(f"{role} is not one column", hint="name a column or give a flat array")
    return found


def empty_cells(found: npt.NDArray[Any]) -> Mask:
    """Where a column holds nothing: None, NaN, or a frame's own mark for it.

    >>> empty_cells(np.array(["a", None], dtype=object)).tolist()
    [False, True]
    """
    if found.dtype.kind == "f":
        return np.asarray(np.isnan(found))
    if found.dtype.kind in "mM":
        return np.asarray(np.isnat(found))
    if found.dtype.kind != "O":
        return np.zeros(found.shape, dtype=np.bool_)
    # A frame's mark for nothing compares to neither itself nor anything else; its type name is what tells it.
    return np.array([v is None or type(v).__name__ in ("NAType", "NaTType") or v != v for v in found], dtype=np.bool_)


def numbers(table: Table, column: Any, role: str) -> Array:
    """A column as numbers, with NaN where it holds nothing.

    >>> numbers({"y": [True, False]}, "y", "y").tolist()
    [1.0, 0.0]
    """
    found = values(table, column, role)
    empty = empty_cells(found)
    try:
        if found.dtype.kind == "O":
            result = np.full(found.shape, math.nan)
            result[~empty] = found[~empty].astype(np.float64)
        else:
            result = found.astype(np.float64)
    except (TypeError, ValueError):
        raise BadData(
            f"{role} holds values that are not numbers", hint="estimate a proportion of a value, or recode it"
        ) from None
    if np.isinf(result).any():
        raise BadData(f"{role} holds values that are not finite")
    return result


def codes(found: npt.NDArray[Any]) -> Codes:
    """Labels as whole numbers 0, 1, ...; none of them is missing.

    >>> codes(np.array(["b", "a", "b"])).tolist()
    [1, 0, 1]
    """
    if found.dtype.kind in "iu" and found.size:
        low, high = int(found.min()), int(found.max())
        if high - low <= 4 * found.size:
            # A table of the labels in use is many times faster than sorting them.
            used = np.zeros(high - low + 1, dtype=np.intp)
            used[found - low] = 1
            return np.asarray((np.cumsum(used) - 1)[found - low])
    return np.asarray(np.unique(found, return_inverse=True)[1].reshape(-1), dtype=np.intp)


def paired(outer: Codes, inner: Codes) -> Codes:
    """Codes of the pairs (outer, inner): labels inside labels.

    >>> paired(np.array([0, 0, 1]), np.array([5, 6, 5])).tolist()
    [0, 1, 2]
    """
    if int(inner.max(initial=0)) + 1 == inner.size and int(np.bincount(inner).max(initial=0)) == 1:
        return inner  # every row is a label of its own already
    return codes(outer * (int(inner.max(initial=0)) + 1) + inner)


def rows_where(table: Table, where: Any, rows: int) -> Mask:
    """The rows of a domain: a boolean array, or (column, value). A row without a value is outside.

    >>> rows_where({"region": ["n", "s", "n"]}, ("region", "n"), 3).tolist()
    [True, False, True]
    """
    if isinstance(where, tuple) and len(where) == 2 and isinstance(where[0], str):
        found = values(table, where[0], "where")
        mask = equal_to(found, where[1])
    else:
        mask = np.asarray(where)
    if mask.dtype != np.bool_ or mask.shape != (rows,):
        raise BadValue("where is neither a boolean for each row nor (column, value)", hint='where=("region", "north")')
    return np.asarray(mask)


def equal_to(found: npt.NDArray[Any], value: Any) -> Mask:
    """Where a column equals a value; a missing cell equals nothing.

    >>> equal_to(np.array(["a", None], dtype=object), "a").tolist()
    [True, False]
    """
    empty = empty_cells(found)
    result = np.zeros(found.shape, dtype=np.bool_)
    result[~empty] = np.broadcast_to(found[~empty] == value, result[~empty].shape)
    return result


def row_count(table: Table, columns: DesignColumns[Any]) -> int:
    """How many rows the table has: the length of a column that the design names, else of its first column.

    >>> row_count({"y": [1.0, 2.0]}, DesignColumns(fpc=10))
    2
    """
    for role, column in columns.given().items():
        if isinstance(column, str):
            return len(values(table, column, role))
    known = names_of(table)
    if known:
        return len(values(table, known[0], "data"))
    raise BadValue("the number of rows is unknown", hint="name at least one column of the design")


def labels_of(table: Table, column: Any, role: str, rows: int) -> Codes | None:
    """A design column of labels as whole numbers; None where none is given.

    >>> labels_of({"region": ["n", "s", "n"]}, "region", "strata", 3).tolist()
    [0, 1, 0]
    """
    if column is None:
        return None
    found = values(table, column, role)
    if found.shape != (rows,):
        raise BadValue(f"{role} does not have one value for each row")
    if empty_cells(found).any():
        raise missing_values(role, column)
    return codes(found)


def positive_numbers(table: Table, column: Any, role: str, rows: int) -> Array:
    """A design column of positive numbers, or one number for every row.

    >>> positive_numbers({}, 5, "weights", 3).tolist()
    [5.0, 5.0, 5.0]
    """
    if isinstance(column, int | float):
        return np.full(rows, float(column))
    found = values(table, column, role)
    if found.shape != (rows,):
        raise BadValue(f"{role} does not have one value for each row")
    if empty_cells(found).any():
        raise missing_values(role, column)
    positive = None
    with contextlib.suppress(TypeError, ValueError):
        positive = found.astype(np.float64)
    if positive is None or not np.isfinite(positive).all() or np.any(positive <= 0.0):
        raise not_positive(role, column)
    return positive
