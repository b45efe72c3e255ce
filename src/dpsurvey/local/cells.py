"""Numbers and places as categories: cells whose edges are fixed in advance and never depend on anybody's answer."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from ..errors import BadValue

# The mean radius of the earth, in kilometres: a degree of latitude is 111.195 km.
KM_PER_DEGREE = 2.0 * math.pi * 6371.0088 / 360.0
ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class Ranges:
    """Ranges of numbers, lower edge included: of one width from `low` to `high`, or between any `edges`.

    Values outside are refused, or fall into the first and last range with ends="open".

    >>> ages = Ranges(0, 100, 25)
    >>> ages.labels, ages.label(25), ages.label(24.9)
    (('0 to 25', '25 to 50', '50 to 75', '75 to 100'), '25 to 50', '0 to 25')
    >>> Ranges(edges=(0, 1000, 2500, 10000), ends="open").labels
    ('below 1000', '1000 to 2500', '2500 and more')
    """

    low: float = 0.0
    high: float = 0.0
    width: float = 0.0
    ends: str = "closed"
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.ends not in ("closed", "open"):
            raise BadValue("ends are closed or open", given=f"ends={self.ends!r}")
        given = self.edges or (self.low, self.high, self.width)
        if not all(isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each) for each in given):
            raise BadValue("ranges need numbers: low, high and width, or edges")
        if not self.edges:
            object.__setattr__(self, "edges", self._equal())
        elif self.low or self.high or self.width:
            raise BadValue("ranges have low, high and width, or edges", hint="keep one of the two")
        if len(self.edges) < 2 or any(low >= high for low, high in pairwise(self.edges)):
            raise BadValue("edges are two or more numbers, each larger than the one before", given=f"{len(self.edges)} edges")

    def _equal(self) -> tuple[float, ...]:
        """Edges of one width, by decimal arithmetic: three times 0.1 is 0.3."""
        if not (self.low < self.high and self.width > 0):
            raise BadValue(
                "ranges need low < high and a positive width", given=f"low={self.low}, high={self.high}, width={self.width}"
            )
        low, high, width = (Decimal(str(each)) for each in (self.low, self.high, self.width))
        if (high - low) / width > 10_000:
            raise BadValue("there are more than 10,000 ranges", hint="a larger width")
        count = math.ceil((high - low) / width)
        return (*(float(low + cell * width) for cell in range(count)), float(high))

    @property
    def count(self) -> int:
        """How many ranges there are; the last one may be shorter."""
        return len(self.edges) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The ranges in order."""
        names = [f"{low:g} to {high:g}" for low, high in pairwise(self.edges)]
        if self.ends == "open" and len(names) > 1:
            names[0], names[-1] = f"below {self.edges[1]:g}", f"{self.edges[-2]:g} and more"
        return tuple(names)

    def label(self, value: Any) -> str:
        """The range of a value; the last edge itself belongs to the last range."""
        number = _number(value)
        if self.ends == "closed" and not self.edges[0] <= number <= self.edges[-1]:
            raise BadValue("a value lies outside the ranges", hint='widen them, or ends = "open" (--ends open)')
        return self.labels[min(max(bisect_right(self.edges, number) - 1, 0), self.count - 1)]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        if self.width:
            return {"low": self.low, "high": self.high, "width": self.width, "ends": self.ends}
        return {"edges": list(self.edges), "ends": self.ends}


@dataclass(frozen=True)
class Grid:
    """A grid of the whole earth with cells of at most a stated size: "2 km", or "0.01 deg" of latitude and longitude.

    Rows of equal height are counted from the south pole, cells of a row from the meridian 180 west; in kilometres each row
    has as many cells as its longer edge needs. With a box (south, west, north, east) the categories are the cells that
    touch it, and "elsewhere"; without one the domain is open, and any cell of the earth can be reported.

    >>> paris = Grid("20 km", box=(48.7, 2.1, 49.0, 2.6))
    >>> paris.label(48.8584, 2.2945), paris.label(51.5, -0.12), len(paris.labels)
    ('20 km:772:667', 'elsewhere', 7)
    """

    size: str
    box: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        amount, unit = self.parsed
        if not 0.0 < amount <= (90.0 if unit == "deg" else 10_000.0) or self.rows > 2**24:
            raise BadValue(
                "the size of a cell is out of range", given=f"size={self.size!r}", hint='from "2 m" up: "0.5 km", "0.01 deg"'
            )
        if self.box is not None:
            south, west, north, east = self.box
            if not (-90 <= south < north <= 90 and -180 <= west < east <= 180):
                raise BadValue("the box is (south, west, north, east), in degrees", given=f"box={self.box}")
            if sum(1 for _ in self._cells(100_001)) > 100_000:
                raise BadValue("the box holds more than 100,000 cells", hint="larger cells, or no box and mechanism kind hashing")

    @property
    def parsed(self) -> tuple[float, str]:
        """The size of a cell as a number and km or deg."""
        found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(km|m|deg)\s*", self.size) if isinstance(self.size, str) else None
        try:
            amount = float(found.group(1)) if found else math.nan
        except ValueError:
            amount = math.nan
        if found is None or not math.isfinite(amount):
            raise BadValue("the size of a cell is a number with km, m or deg", given=f"size={self.size!r}", hint='size = "2 km"')
        return (amount / 1000.0, "km") if found.group(2) == "m" else (amount, found.group(2))

    @property
    def name(self) -> str:
        """The size as it stands in the labels."""
        amount, unit = self.parsed
        return f"{amount:g} {unit}"

    @property
    def rows(self) -> int:
        """Rows of cells from pole to pole."""
        amount, unit = self.parsed
        return math.ceil(180.0 / (amount if unit == "deg" else amount / KM_PER_DEGREE) - 1e-9)

    def columns(self, row: int) -> int:
        """Cells of a row, around the earth."""
        amount, unit = self.parsed
        if unit == "deg":
            return math.ceil(360.0 / amount - 1e-9)
        height = 180.0 / self.rows
        edges = (-90.0 + row * height, -90.0 + (row + 1) * height)
        widest = 1.0 if edges[0] <= 0.0 <= edges[1] else max(math.cos(math.radians(edge)) for edge in edges)
        return max(1, math.ceil(360.0 * KM_PER_DEGREE * widest / amount - 1e-9))

    def cell(self, latitude: float, longitude: float) -> tuple[int, int]:
        """Row and column of a place."""
        if not (-90.0 <= latitude <= 90.0 and -180.0 <= longitude <= 180.0):
            raise BadValue("a place lies outside latitude -90 to 90, longitude -180 to 180")
        row = min(math.floor((latitude + 90.0) * self.rows / 180.0), self.rows - 1)
        columns = self.columns(row)
        return row, math.floor((longitude + 180.0) * columns / 360.0) % columns

    def bounds(self, row: int, column: int) -> tuple[float, float, float, float]:
        """South, west, north and east edge of a cell.

        >>> Grid("10 deg").bounds(9, 18)
        (0.0, 0.0, 10.0, 10.0)
        """
        height, width = 180.0 / self.rows, 360.0 / self.columns(row)
        return -90.0 + row * height, -180.0 + column * width, -90.0 + (row + 1) * height, -180.0 + (column + 1) * width

    def _cells(self, most: int) -> Iterator[tuple[int, int]]:
        assert self.box is not None
        south, west, north, _ = self.box
        found = 0
        for row in range(self.cell(south, west)[0], self.cell(north, west)[0] + 1):
            columns = self.columns(row)
            for column in range(self._first(columns), self._last(columns) + 1):
                yield row, column
                if (found := found + 1) >= most:
                    return

    @property
    def labels(self) -> tuple[str, ...]:
        """The cells of the box and "elsewhere"; none for the whole earth."""
        if self.box is None:
            return ()
        return (*(f"{self.name}:{row}:{column}" for row, column in self._cells(100_000)), ELSEWHERE)

    def has(self, label: str) -> bool:
        """Whether a label is that of a cell.

        >>> Grid("2 km").has(Grid("2 km").label(48.8, 2.3)), Grid("2 km").has("Paris")
        (True, False)
        """
        return self.place(label) is not None

    def place(self, label: str) -> tuple[int, int] | None:
        """The row and column of the cell with a label; None for any other label.

        >>> grid = Grid("10 deg")
        >>> grid.place(grid.label(5.0, 5.0)), grid.place("elsewhere")
        ((9, 18), None)
        """
        found = re.fullmatch(re.escape(self.name) + r":([0-9]+):([0-9]+)", label)
        if found is None or int(found[1]) >= self.rows or int(found[2]) >= self.columns(int(found[1])):
            return None
        return int(found[1]), int(found[2])

    def label(self, latitude: Any, longitude: Any) -> str:
        """The cell of a place."""
        row, column = self.cell(_number(latitude), _number(longitude))
        if self.box is not None:
            columns = self.columns(row)
            rows = self.cell(self.box[0], self.box[1])[0], self.cell(self.box[2], self.box[1])[0]
            if not rows[0] <= row <= rows[1] or not self._first(columns) <= column <= self._last(columns):
                return ELSEWHERE
        return f"{self.name}:{row}:{column}"

    def _first(self, columns: int) -> int:
        """The westmost column of the box, in a row of so many."""
        assert self.box is not None
        return math.floor((self.box[1] + 180.0) * columns / 360.0)

    def _last(self, columns: int) -> int:
        """The eastmost one."""
        assert self.box is not None
        return min(math.floor((self.box[3] + 180.0) * columns / 360.0), columns - 1)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {"size": self.size} | ({"box": list(self.box)} if self.box else {})


def _number(value: Any) -> float:
    """A finite number from a cell of a table; the message must not show it."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadValue("a value that should be a number is not one", hint="answers of a question with cells are numbers")
    return number
