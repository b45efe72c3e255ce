"""Public bounds of a measured column: one pair for all, or one for each category of a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..design.frame import label_text
from ..errors import BadValue
from .facts import Facts
from .number_limits import LARGEST_WEIGHT, check_bounds
from .query import OwnBounds, PerSize

Bounds = tuple[float, float] | Mapping[Any, tuple[float, float]]
ByLabel = tuple[tuple[str, float, float], ...]


def read_bounds(bounds: Any, of: str) -> tuple[tuple[float, float], ByLabel]:
    """The range of all values, and the bounds of each category where they differ.

    >>> read_bounds({"north": (0, 10), "south": (5, 20)}, "income")
    ((0.0, 20.0), (('north', 0.0, 10.0), ('south', 5.0, 20.0)))
    """
    if not isinstance(bounds, Mapping):
        return check_bounds(bounds, of), ()
    if not bounds:
        raise BadValue(f"the bounds of {of!r} by category are empty", hint='bounds={"north": (0, 90_000), "south": (0, 250_000)}')
    own = tuple((label_text(label), *check_bounds(pair, f"{of} in {label}")) for label, pair in bounds.items())
    return (min(low for _, low, _ in own), max(high for _, _, high in own)), own


def bounds_to_dict(bounds: tuple[float, float], own: ByLabel) -> Any:
    """JSON-ready form."""
    return {label: [low, high] for label, low, high in own} if own else list(bounds)


def own_bounds(
    own: ByLabel, by: tuple[str, ...], facts: Facts, *, filtered: bool = False, masked: bool = False
) -> OwnBounds | None:
    """The bounds on the column whose categories they name: the strata, a grouping column, or another declared one."""
    if not own:
        return None
    labels = {label for label, _, _ in own}
    strata = facts.design.strata_column
    first = [column for column in (strata, *by) if column]
    fitting = [column for column in (*first, *facts.frame.categories) if labels == set(facts.frame.categories.get(column, ()))]
    if not fitting:
        raise BadValue(
            "bounds by category must name every declared category of one column, and no other",
            given=", ".join(sorted(labels)),
            hint="the strata, a column of by=, or another declared one",
        )
    column = fitting[0]
    by_label = tuple((label, low, high) for wanted in facts.frame.labels(column) for label, low, high in own if label == wanted)
    # On ranges of their own where each number, or each public stratum, has only one of them.
    of_strata = column == strata and not by and not filtered and facts.sizes_are_public(())
    # A record that counts as 0 is on no range of its own.
    scaled = not masked and (column in by or of_strata)
    return OwnBounds(column, by_label, scaled)


def read_size(per: Any, weighted_size: Any) -> PerSize | None:
    """The column of sizes that values are measured by, with the public range of weight times size.

    >>> read_size("employees", (40, 40))
    PerSize(column='employees', low=40.0, high=40.0)
    """
    if per is None and weighted_size is None:
        return None
    hint = 'bounds=(0, 300), per="employees", weighted_size=(40, 55): turnover per employee, and weight times employees'
    if not isinstance(per, str) or not per or weighted_size is None:
        raise BadValue("per= names a column of sizes, and weighted_size= the public range of weight times size", hint=hint)
    try:
        if any(isinstance(end, str | bool) for end in weighted_size):
            raise TypeError
        low, high = (float(end) for end in weighted_size)
    except (TypeError, ValueError):
        raise BadValue("weighted_size= takes two numbers", given=repr(weighted_size), hint=hint) from None
    if not 0.0 < low <= high <= LARGEST_WEIGHT:
        raise BadValue("weighted_size= holds two positive numbers, the lowest first", given=repr(weighted_size), hint=hint)
    return PerSize(per, low, high)


def check_options(between: Any, shrink: Any, trim: Any, trimmed: Any = None) -> None:
    """Refuse options of a mean or total that no public rule could mean."""
    if not 0.0 <= between < 1.0:
        raise BadValue("between= is the public share of variance between strata", given=repr(between))
    if shrink is not None and not (isinstance(shrink, int | float) and 0.0 < shrink < 1.0 and trim is None):
        raise BadValue("shrink= is the part of a weight that is kept, in (0, 1), and goes without trim=", given=repr(shrink))
    if trim is not None and not (isinstance(trim, int | float) and trim > 0.0):
        raise BadValue("trim= is the weight above which weights are cut", given=repr(trim))
    if trimmed is not None and not (isinstance(trimmed, int | float) and 0.0 <= trimmed < 1.0 and trim is not None):
        raise BadValue(
            "trimmed= is the public share of all weight that trim= cuts off", given=repr(trimmed), hint="trim=300, trimmed=0.02"
        )
