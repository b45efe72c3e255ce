"""Arguments that every statistic reads alike: grouping columns, the category that is counted."""

from __future__ import annotations

from ..design.frame import label_text
from ..errors import BadValue


def check_by(by: str | tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    """`by` as a tuple of distinct column names."""
    names = (by,) if isinstance(by, str) or not isinstance(by, tuple | list | None) else tuple(by or ())
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise BadValue("by= takes one column name or several distinct ones", given=repr(by))
    return names


def check_value(value: object, of: str) -> str:
    """The category that is counted, as text."""
    if value is None:
        raise BadValue(f"say which value of {of!r} is counted", hint=f'for example ("{of}", "yes")')
    return label_text(value)
