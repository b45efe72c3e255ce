"""Tables of answers, reports and shares: CSV or Parquet, read whole or not at all."""

from __future__ import annotations

import csv
import os
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ..design.columns import no_column
from ..errors import BadData, BadValue, NotFound
from ..text.writing import write_file

KINDS = (".csv", ".parquet")


def kind_of(path: str | os.PathLike[str]) -> str:
    """The ending of a file that can be read or written.

    >>> kind_of("reports.csv")
    '.csv'
    """
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in KINDS:
        raise BadValue(f"cannot read or write a {ending or 'nameless'} file", given=os.fspath(path), hint="CSV or Parquet")
    return ending


def read_table(source: Any) -> Any:
    """An Arrow table from a CSV or Parquet file, or from a table in memory; every column of a CSV file is text.

    A file that was cut off is refused: a Parquet file lacks its footer, a CSV file the end of its last line.
    """
    if isinstance(source, pa.Table):
        return source
    if not isinstance(source, str | os.PathLike):
        return _in_memory(source)
    name = os.fspath(source)
    ending = kind_of(name)
    if not os.path.exists(name):
        raise NotFound(f"there is no file {name!r}")
    failed = ""
    try:
        # The fingerprint is the same in every row: as a dictionary it takes no room.
        return pq.read_table(name, read_dictionary=["question"]) if ending == ".parquet" else _read_csv(name)
    except (pa.ArrowInvalid, pa.ArrowException, OSError, UnicodeDecodeError) as error:
        failed = type(error).__name__
    raise BadData(
        f"{os.path.basename(name)!r} cannot be read", because=f"it was cut off, or is not a {ending[1:]} file ({failed})"
    )


def _read_csv(name: str) -> Any:
    size = os.path.getsize(name)
    if size == 0:
        raise BadData(f"{os.path.basename(name)!r} is empty", hint="a CSV file starts with a line of column names")
    with open(name, "rb") as file:
        header = file.readline().decode("utf-8-sig").rstrip("\r\n")
        file.seek(size - 1)
        if file.read(1) != b"\n":
            raise BadData(
                f"{os.path.basename(name)!r} was cut off",
                because="its last line has no end",
                hint="copy the file again; if it is whole, add a line break at its end",
            )
    delimiter = max(",;\t|", key=header.count)
    names = next(csv.reader([header], delimiter=delimiter))
    if len(set(names)) != len(names):
        raise BadData(f"{os.path.basename(name)!r} names a column twice")
    table = pa_csv.read_csv(
        name,
        parse_options=pa_csv.ParseOptions(delimiter=delimiter),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )
    with open(name, "rb") as file:
        lines = sum(1 for line in file if line.strip())
    if lines != table.num_rows + 1:
        # A quote that is not closed swallows the lines behind it, up to the next one.
        raise BadData(
            f"{os.path.basename(name)!r} has a line break inside a cell", hint="a quote may be open: one line is one row"
        )
    return table


def _in_memory(source: Any) -> Any:
    module = type(source).__module__.split(".")[0]
    if module not in ("pandas", "polars") and not isinstance(source, dict):
        given = f"a {type(source).__name__}"
        raise BadValue("cannot read rows from this object", given=given, hint="a path, or a table in memory")
    try:
        if module == "pandas":
            return pa.Table.from_pandas(source, preserve_index=False)
        return (
            source.to_arrow() if module == "polars" else pa.table({name: pa.array(list(each)) for name, each in source.items()})
        )
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    # Arrow's own message would quote the value.
    raise BadData("a column holds values of several kinds, or columns differ in length")


def write_table(table: Any, path: str | os.PathLike[str]) -> None:
    """Write a table to a new CSV or Parquet file; nothing is overwritten, and nothing half-written is left behind."""
    name = os.fspath(path)
    ending = kind_of(name)
    write = pq.write_table if ending == ".parquet" else pa_csv.write_csv
    write_file(name, lambda file: write(table, file))


def column(table: Any, name: str, role: str) -> Any:
    """A column of a table as one Arrow array."""
    if name not in table.column_names:
        raise no_column(name, role, table.column_names, "its first line names the columns; look at the file")
    found = table.column(name).combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def text_column(table: Any, name: str, role: str) -> Any:
    """A column as text."""
    found = column(table, name, role)
    try:
        return found if pa.types.is_string(found.type) else pc.cast(found, pa.string())
    except pa.ArrowException:
        pass
    # Arrow's own message would quote the value.
    raise BadData(f"the column for {role} holds something that is not text", given=f"{role}={name!r}")
