"""Numbers or places of a table as cells, in place of the exact values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..errors import BadValue
from .cells import Grid, Ranges
from .tables import column, read_table


def discretise(table: Any, cells: Ranges | Grid, columns: str | tuple[str, str], *, name: str = "cell") -> Any:
    """The table with the column `name` of cells in place of the exact values: one column of numbers, or latitudes and longitudes.

    Cells never depend on the data. They are coarse, not private: randomise them before they leave the respondent.

    >>> people = {"id": [1, 2, 3], "age": [17, 42, 64]}
    >>> discretise(people, Ranges(0, 100, 50), "age").to_pydict()
    {'id': [1, 2, 3], 'cell': ['0 to 50', '0 to 50', '50 to 100']}
    """
    rows = read_table(table)
    if isinstance(cells, Grid):
        if isinstance(columns, str):
            raise BadValue("cells of a grid need two columns, latitudes and longitudes", given=f"columns={columns!r}")
        exact = [(columns[0], "latitude"), (columns[1], "longitude")]
    else:
        if not isinstance(columns, str):
            raise BadValue("ranges need one column of numbers", given=f"columns={columns!r}")
        exact = [(columns, "value")]
    labels = [cells.label(*each) for each in zip(*(column(rows, *each).to_pylist() for each in exact), strict=True)]
    gone = [each for each, _ in exact]
    if name in rows.column_names and name not in gone:
        raise BadValue(f"the table has a column {name!r} already", hint="--name another")
    return rows.drop_columns(gone).append_column(name, pa.array(labels, pa.string()))
