"""Arguments that every statistic reads alike: grouping columns, public bounds, the category that is counted."""

from __future__ import annotations

import numpy as np

from ..errors import BadValue
from ..frame import label_text


def check_by(by: str | tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    """`by` as a tuple of distinct column names."""
    names = (by,) if isinstance(by, str) or not isinstance(by, tuple | list | None) else tuple(by or ())
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise BadValue("by= takes one column name or several distinct ones", given=repr(by))
    return names


def check_bounds(bounds: tuple[float, float] | list[float] | None, of: str) -> tuple[float, float]:
    """Public bounds as an ordered pair of finite numbers."""
    if bounds is None:
        raise BadValue(
            f"the bounds of {of!r} are missing",
            because="a value without public bounds can move a sum by any amount",
            hint="give bounds=(lowest, highest), from public knowledge, not from the data",
        )
    try:
        if any(isinstance(end, str | bool) for end in bounds):
            raise TypeError
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        raise BadValue(f"the bounds of {of!r} must be two numbers", given=repr(bounds)) from None
    if not (np.isfinite(high - low) and low < high):
        raise BadValue(
            f"the bounds of {of!r} must be finite and in order",
            given=f"bounds=({low:g}, {high:g})",
            hint="bounds=(lowest, highest)",
        )
    return low, high


def check_value(value: object, of: str) -> str:
    """The category that is counted, as text."""
    if value is None:
        raise BadValue(f"say which value of {of!r} is counted", hint=f'for example ("{of}", "yes")')
    return label_text(value)
