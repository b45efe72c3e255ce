"""Frame: the list units are drawn from, its unit column, and what is public about it. Holds no rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import BadValue, NotFound, did_you_mean

# No list has more units, and the fourth power of it is far from where doubles end.
LARGEST_SIZE = 10**15
Categories = Mapping[str, Sequence[Any] | Mapping[Any, int]]


def label_text(label: object) -> str:
    """A category as text, the way every engine writes it.

    >>> label_text(True), label_text(3), label_text("north")
    ('true', '3', 'north')
    """
    if hasattr(label, "item"):
        label = label.item()
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, str | int):
        return str(label)
    raise BadValue("a category is a word, a whole number or a truth value", given=f"a {type(label).__name__}")


def table_name(source: str) -> str:
    """What a table is called, without the place where it lies: its place is nobody's business but the office's.

    >>> table_name("/srv/lfs/register.parquet"), table_name("postgresql://ann@db/base#lfs.people"), table_name("s3a://bucket/register/")
    ('register.parquet', 'lfs.people', 'register')
    """
    if "://" in source:
        address = urlsplit(source)
        return address.fragment or address.path.rstrip("/").rpartition("/")[2] or address.scheme
    return source.replace("\\", "/").rstrip("/").rpartition("/")[2] or source


@dataclass(frozen=True)
class Frame:
    """The list units are drawn from: a table, its unit column, what is public about it.

    `size` is the public number of units. `categories` declares the public categories of a column, as a list or,
    where the number of frame units in each is public too, as a mapping to those numbers. `public` names further
    columns that a design may use: clusters, measures of size, orders, rates. `population` names whom the units belong to, for
    the budgets of an agency: persons and firms have budgets of their own. Nothing here is read from rows, and nothing that
    is not published elsewhere may be declared. `size_at_least` is a public lower bound on the size of every possible
    frame, with or without any one unit, or such bounds by category of a column; it is never compared with the rows.

    >>> Frame("register.parquet", unit="person_id", size=100, categories={"sex": ["female", "male"]})
    Frame('register.parquet', unit='person_id', size=100, categories of: sex)
    """

    table: Any = field(compare=False)
    unit: str
    size: int | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    category_sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    public: tuple[str, ...] = ()
    population: str = ""
    least_size: int | None = None
    least_sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def __init__(
        self,
        table: Any,
        unit: str | None,
        size: int | None = None,
        categories: Categories | None = None,
        public: Sequence[str] = (),
        population: str = "",
        size_at_least: int | Mapping[str, Mapping[Any, int]] | None = None,
    ) -> None:
        if not isinstance(population, str) or not population.isprintable():
            raise BadValue("population= is one line of text", given=f"a {type(population).__name__}", hint='population="persons"')
        if size is not None and (isinstance(size, bool) or not isinstance(size, Integral) or size < 1):
            raise BadValue("the frame size is a positive whole number", given=f"size={size!r}")
        if size is not None and size > LARGEST_SIZE:
            raise BadValue("the frame size is too large", given=f"more than {LARGEST_SIZE:g}", hint="the public number of units")
        # A collected file needs no column of units: nothing is drawn from it, and nothing is joined to it.
        if unit is not None and (not unit or not isinstance(unit, str)):
            raise BadValue("a frame needs the name of its unit column", hint='for example unit="person_id"')
        if isinstance(table, str) and "://" in table:
            address = urlsplit(table)
            if address.password or "password" in address.query:
                raise BadValue(
                    "the address of the frame holds a password",
                    because="the address is shown in messages and kept in survey files",
                    hint="leave it out; PostgreSQL's own ~/.pgpass file or the PGPASSWORD variable hold it",
                )
        labels: dict[str, tuple[str, ...]] = {}
        sizes: dict[str, dict[str, int]] = {}
        for column, declared in (categories or {}).items():
            labels[column] = tuple(label_text(label) for label in declared)
            if not labels[column] or len(set(labels[column])) < len(labels[column]):
                raise BadValue(f"the categories of {column!r} must be distinct and not empty")
            if isinstance(declared, Mapping):
                _check_sizes(column, declared, size)
                sizes[column] = {label_text(label): int(count) for label, count in declared.items()}
        object.__setattr__(self, "table", str(table) if isinstance(table, Path) else table)
        object.__setattr__(self, "unit", unit or "")
        object.__setattr__(self, "size", None if size is None else int(size))
        object.__setattr__(self, "categories", labels)
        object.__setattr__(self, "category_sizes", sizes)
        object.__setattr__(self, "public", _names(public))
        object.__setattr__(self, "population", population.strip())
        least, by_label = _least(size_at_least, self.size, labels, sizes)
        object.__setattr__(self, "least_size", least)
        object.__setattr__(self, "least_sizes", by_label)

    @property
    def source(self) -> str:
        """Where the table is: its path, or the kind of table in memory."""
        return self.table if isinstance(self.table, str) else f"<{type(self.table).__name__} in memory>"

    @property
    def name(self) -> str:
        """What the table is called: all that a ledger or a release says of where it is."""
        return table_name(self.table) if isinstance(self.table, str) else self.source

    def __repr__(self) -> str:
        public = f", categories of: {', '.join(self.categories)}" if self.categories else ""
        return f"Frame({self.source!r}, unit={self.unit!r}, size={self.size}{public})"

    def labels(self, column: str) -> tuple[str, ...]:
        """The declared categories of a column."""
        if not isinstance(column, str):
            raise BadValue("a column is named by a text", given=f"a {type(column).__name__}")
        if column not in self.categories:
            raise NotFound(
                f"the categories of {column!r} are not declared",
                because="groups are published, so their list must be public and cannot be read from rows",
                hint=did_you_mean(column, self.categories) or f'declare Frame(..., categories={{"{column}": [...]}})',
            )
        return self.categories[column]

    def known_size(self, by: tuple[str, ...], group: tuple[str, ...]) -> int | None:
        """The public number of units in a group, where it was declared."""
        if not by:
            return self.size
        return self.category_sizes.get(by[0], {}).get(group[0]) if len(by) == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """What is declared, JSON-ready."""
        declared = {
            column: dict(self.category_sizes[column]) if column in self.category_sizes else list(labels)
            for column, labels in self.categories.items()
        }
        more: dict[str, Any] = {"public": list(self.public)} if self.public else {}
        more |= {"population": self.population} if self.population else {}
        least = self.least_sizes or self.least_size
        more |= {"size_at_least": least} if least else {}
        return {"table": self.name, "unit": self.unit or None, "size": self.size, "categories": declared} | more


def _names(public: Sequence[str]) -> tuple[str, ...]:
    names = (public,) if isinstance(public, str) else tuple(public)
    if not all(isinstance(name, str) and name for name in names):
        raise BadValue("public= takes the names of columns", hint='for example public=["psu", "employees"]')
    return names


def _check_sizes(column: str, sizes: Mapping[Any, int], size: int | None) -> None:
    whole = all(isinstance(count, Integral) and not isinstance(count, bool) for count in sizes.values())
    if not whole or not all(1 <= count <= LARGEST_SIZE for count in sizes.values()):
        raise BadValue(f"the sizes of the categories of {column!r} are positive whole numbers")
    if size is not None and math.fsum(sizes.values()) != size:
        raise BadValue(
            f"the sizes of the categories of {column!r} do not add up to the frame size",
            given=f"{sum(sizes.values())} and {size}",
        )


def _least(
    given: int | Mapping[str, Mapping[Any, int]] | None,
    size: int | None,
    labels: Mapping[str, tuple[str, ...]],
    sizes: Mapping[str, Mapping[str, int]],
) -> tuple[int | None, dict[str, dict[str, int]]]:
    """The least number of units in any possible frame, in all and by category; refused where it cannot be one."""
    if not isinstance(given, Mapping):
        if given is not None and (isinstance(given, bool) or not isinstance(given, Integral) or given < 1):
            raise BadValue("size_at_least= is a positive whole number, or such numbers by category of a column")
        _not_above("the frame", given, size)
        return None if given is None else int(given), {}
    found: dict[str, dict[str, int]] = {}
    for column, least in given.items():
        if not isinstance(least, Mapping):
            raise BadValue(
                "size_at_least= by category names a column and a number for each of its categories",
                hint='size_at_least={"region": {"north": 300, "south": 200}}',
            )
        _check_sizes(column, least, None)
        found[column] = {label_text(label): int(count) for label, count in least.items()}
        if column not in labels or set(found[column]) != set(labels[column]):
            raise BadValue(f"size_at_least= must name every declared category of {column!r}, and no other")
        for label, count in found[column].items():
            _not_above(f"{column} {label!r}", count, sizes.get(column, {}).get(label))
    return max((sum(least.values()) for least in found.values()), default=None), found


def _not_above(whose: str, least: int | None, size: int | None) -> None:
    if least is not None and size is not None and least >= size:
        raise BadValue(
            f"size_at_least= of {whose} is not below its declared size",
            because="no possible frame is below it, and one without any one of the units is possible",
            given=f"{least} and {size}",
        )
