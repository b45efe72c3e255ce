"""Names by which the estimates of one plan can be told apart."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from .base import Statistic
from .missing import DROP


def labels_of(statistics: Sequence[Statistic]) -> list[str]:
    """What each statistic measures, with its conditions; where two would read alike, with what they differ in.

    >>> from .mean import mean
    >>> labels_of([mean("income", (0, 100)), mean("income", (0, 50)), mean("age", (0, 99), where={"sex": "female"})])
    ['income, bounds 0 to 100', 'income, bounds 0 to 50', 'age where sex = female']
    """
    plain = [_label(statistic) for statistic in statistics]
    keys = [(statistic.kind, statistic.by, label) for statistic, label in zip(statistics, plain, strict=True)]
    return _with_what_differs(statistics, plain, keys)


def names_of(statistics: Sequence[Statistic]) -> list[str]:
    """The whole name of each statistic; where two would read alike, with what they differ in.

    >>> from .mean import mean
    >>> names_of([mean("income", (0, 100), by="sex"), mean("income", (0, 50), by="sex"), mean("income", (0, 50))])
    ['mean of income by sex, bounds 0 to 100', 'mean of income by sex, bounds 0 to 50', 'mean of income']
    """
    plain = [statistic.name for statistic in statistics]
    return _with_what_differs(statistics, plain, plain)


def _with_what_differs(statistics: Sequence[Statistic], plain: Sequence[str], keys: Sequence[Hashable]) -> list[str]:
    """The plain words, and beside those with the same key the fields in which they differ."""
    found = []
    for statistic, words, key in zip(statistics, plain, keys, strict=True):
        alike = [other.to_dict() for other, own in zip(statistics, keys, strict=True) if own == key]
        fields = dict.fromkeys(name for each in alike for name in each)
        differ = [name for name in fields if any(each.get(name) != alike[0].get(name) for each in alike)]
        own_fields = statistic.to_dict()
        more = [f"{name} {_words(own_fields[name])}" for name in differ if own_fields.get(name) is not None]
        found.append(", ".join([words, *more]))
    return found


def _label(statistic: Statistic) -> str:
    where = " and ".join(each.words for each in statistic.where)
    asked = (statistic.label + (f" where {where}" if where else "")).strip()
    return ", of ".join(each for each in (asked, "those who answered" if statistic.missing == DROP else "") if each)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "by " + ", ".join(str(key) for key in value)
    if isinstance(value, list | tuple):
        return " to ".join(_words(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
