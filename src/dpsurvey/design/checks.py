"""Checks of the public figures that designs are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..errors import BadValue
from .frame import Frame
from .recipe import Step


def check_count(name: str, value: int, *, at_least: int = 1, at_most: float = math.inf) -> None:
    """Refuse what is not a whole number in its range."""
    if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= at_most:
        top = "" if math.isinf(at_most) else f" and at most {at_most:g}"
        raise BadValue(f"{name} must be a whole number of at least {at_least}{top}", given=f"{name}={value!r}")


def check_counts(name: str, values: Sequence[int]) -> None:
    """Refuse a list with anything but whole numbers of at least 1."""
    for value in values:
        # Checked one by one: 2 and 2.0 are equal, but only one of them is a number of units.
        if type(value) is not int or value < 1:
            check_count(name, value)


def check_clusters(name: str, sizes: Sequence[int], take: int, unit_in: int | None) -> None:
    """Refuse sizes that are not clusters, more draws than clusters, and a unit in none of them."""
    check_counts(name, sizes)
    check_count("take", take, at_most=len(sizes))
    if unit_in is not None:
        check_count("unit-in", unit_in, at_most=len(sizes))


def check_rate(name: str, value: float) -> None:
    """Refuse what is not a probability above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value <= 1.0:
        raise BadValue(f"{name} must be in (0, 1]", given=f"{name}={value!r}", hint="write 2 % as 0.02, with a decimal point")


def check_rates(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """A list of probabilities above 0 as a tuple; anything else is refused.

    >>> check_rates("probabilities", [0.1, 0.5])
    (0.1, 0.5)
    """
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise BadValue(f"{name} is a list or tuple of probabilities", given=f"{name}={values!r}")
    for each in values:
        check_rate(name, each)
    return tuple(values)


def check_name(what: str, column: str) -> None:
    """Refuse what is not the name of a column."""
    if not isinstance(column, str) or not column:
        raise BadValue(f"{what} is the name of a public column", given=f"{what}={column!r}")


def check_names(what: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The names of distinct columns as a tuple; anything else is refused.

    >>> check_names("calibrated_on", ["sex", "age"])
    ('sex', 'age')
    """
    names = tuple(columns) if isinstance(columns, list | tuple) else (None,)
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise BadValue(f"{what} is a list of distinct columns", given=f"{what}={columns!r}", hint=f'{what}=["sex", "age"]')
    return tuple(map(str, names))


def check_public(recipe: Step, frame: Frame) -> None:
    """Refuse a design column that the frame does not declare as public."""
    labelled = set(frame.categories) | set(frame.public)
    for role in ("cluster", "size", "rate", "order"):
        for column in recipe.columns(role):
            if column not in labelled:
                raise BadValue(
                    f"the design uses {column!r}, which the frame does not declare as public",
                    because="who is drawn would depend on confidential values, and no guarantee covers that",
                    hint=f'declare Frame(..., public=["{column}"]) if the column is published or known to all',
                )
