"""Public sizes that a collected file repeats: read once, where everybody agrees that they are published.

Numbers of records by stratum and population sizes are figures of design columns. Where neighbours have the same design columns,
all of them have these figures, which then tell none from another; elsewhere one record may change them, and nothing is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..design.collected import CollectedFile
from ..design.columns import DesignColumns
from ..design.frame import Categories, Frame
from ..design.recipe import Taken
from ..errors import BadValue, NoGuarantee
from ..privacy.setting import Setting


@dataclass(frozen=True)
class DeclaredSizes:
    """The sizes of sample and population, as they stand in the terms of a survey."""

    n: int | Mapping[str, int]
    size: int
    categories: Categories | None


def declared_sizes(
    table: Any,
    columns: DesignColumns[str],
    n: int | Mapping[str, int] | None,
    size: int | None,
    categories: Categories | None,
    setting: Setting | None,
    engine: str,
) -> DeclaredSizes:
    """The sizes by stratum that a file has; what is declared beside them has to agree when its rows are checked."""
    # The engine takes long to load, so only those who read rows pay for it.
    from ..engine import Engine, Expectations

    if columns.fpc is None or columns.psu is not None:
        raise BadValue(
            "sizes_are_public is about the population sizes of strata, in units",
            hint="fpc=, the column of sizes, and no psu=: beside clusters it counts clusters",
        )
    frame = Frame(table, None, size, categories)
    labels = frame.labels(columns.strata) if columns.strata else ()
    asked: int | dict[str, int] = dict.fromkeys(labels, 1) if labels else 1
    where = setting or Setting("sample", given="frame", neighbours="replace-one")
    # Numbers of records are refused whatever weights the file has.
    if refused := CollectedFile(replace(columns, weights=None), asked).refuses(where):
        raise NoGuarantee("sizes are not read from this file", because=refused.reason, hint=refused.instead)
    used = tuple(each for each in (columns.strata, *columns.populations) if each)
    expected = Expectations(unit="", categories={columns.strata: labels} if columns.strata else {}, used=used)
    found = Engine(frame.table, engine).public_sizes(Taken(columns), expected)
    population = sum(units for _, units in found.values())
    if columns.strata is None:
        return DeclaredSizes(found[""][0] if n is None else n, population if size is None else size, categories)
    by_stratum = {label: found[label] for label in labels}
    sizes = {label: units for label, (_, units) in by_stratum.items()}
    own = dict(categories or {}) | {columns.strata: frame.category_sizes.get(columns.strata, sizes)}
    return DeclaredSizes(
        {label: taken for label, (taken, _) in by_stratum.items()} if n is None else n,
        population if size is None else size,
        own,
    )
