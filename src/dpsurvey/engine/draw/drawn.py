"""What both routes say of each drawn unit, and what both refuse."""

from __future__ import annotations

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import NumericValue, Table

from ...design.recipe import EachBy, Sized, Step, Strata
from ...errors import BadData
from ..source import PI, PSU, SSU, STRATUM, WEIGHT, any_row
from ..values import as_label, as_number, not_positive

# What a draw knows of each unit beside the columns of the frame.
DRAWN = (STRATUM, PSU, SSU, PI, WEIGHT)
# The units with the smallest numbers win a simple random sample. So many times the sample, and so many units more, are
# almost surely enough to look at.
TIMES, MORE = 1.3, 20.0


def as_drawn(rows: Table, columns: tuple[str, ...]) -> Table:
    """The wanted columns of drawn rows, and what the draw knows of each: what it does not know is missing."""
    missing = {name: ibis.null(dt.string) for name in DRAWN if name not in rows.columns}
    return (rows.mutate(**missing) if missing else rows).select(*columns, *DRAWN)


def too_short() -> BadData:
    """The refusal for a list that is shorter than what is taken from it."""
    return BadData("a list has fewer units than the design draws from it", hint="check the declared sizes, or draw fewer")


def lost_rows() -> BadData:
    """The refusal for a draw that has another size than the design gives it: estimates divide by n."""
    return BadData("the draw did not reach its size", hint="the rows of the frame changed while they were read")


def unknown_stratum(column: str) -> BadData:
    """The refusal for a stratum that the design says nothing of."""
    return BadData(f"a stratum of {column!r} is missing from the allocation", hint="give every stratum a design")


def wrong_rates(column: str) -> BadData:
    """The refusal for rates that are missing, not finite, zero, negative or above the declared bound."""
    return BadData(
        f"the rates in {column!r} are not all above 0 and at most the declared bound", hint="declare the true at_most="
    )


def check_rates(rows: Table, column: str, at_most: NumericValue) -> None:
    """Refuse rates that are not all above 0 and at most the bound."""
    rate = as_number(rows, column)
    if any_row(rows, not_positive(rate) | (rate > at_most)):
        raise wrong_rates(column)


def above_bound(column: str) -> BadData:
    """The refusal for a chance in proportion to size that is above the declared bound."""
    return BadData(
        f"a unit's probability by {column!r} is above the declared at_most",
        because="this guarantee rests on it",
        hint="declare the true at_most=, or draw fewer",
    )


def check_largest(table: Table, recipe: Step) -> None:
    """Refuse rates, and chances in proportion to size, above their declared bounds: of the frame, or in its strata."""
    inside = recipe.inside if isinstance(recipe, Strata) else recipe
    steps: dict[str | None, Step] = {None: inside} if isinstance(inside, Step) else {label: inside[label] for label in inside}
    bounded = {
        label: step
        for label, step in steps.items()
        if isinstance(step, EachBy) or (isinstance(step, Sized) and step.at_most < 1.0)
    }
    for column in dict.fromkeys(_bounded_by(step) for step in bounded.values()):
        label = as_label(table, recipe.strata, steps) if isinstance(recipe, Strata) else ibis.literal("")
        rows = table.select(label.name("label"), as_number(table, column).name("value"))
        found = rows.group_by("label").aggregate(rows["value"].max().name("largest"), rows["value"].sum().name("all"))
        for each in found.to_pyarrow().to_pylist():
            step = bounded.get(each["label"], bounded.get(None))
            if step is None or _bounded_by(step) != column:
                continue
            if isinstance(step, EachBy) and each["largest"] > step.at_most:
                raise wrong_rates(column)
            # What is left for rounding is compared by the draw, in whole ticks.
            if isinstance(step, Sized) and step.take * each["largest"] > step.at_most * each["all"] * (1.0 + 1e-9):
                raise above_bound(column)


def _bounded_by(step: EachBy | Sized) -> str:
    return step.rate if isinstance(step, EachBy) else step.size


def wrong_sizes(column: str) -> BadData:
    """The refusal for sizes that are missing, not finite, zero or negative."""
    return BadData(
        f"the sizes in {column!r} are not all positive numbers",
        because="a unit without a size has no chance to be drawn",
        hint="give every unit a positive size, or leave it off the frame",
    )
