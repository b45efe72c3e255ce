"""Names by which the numbers of one plan can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
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
    found = []
    for statistic, label in zip(statistics, plain, strict=True):
        alike = [
            other.to_dict()
            for other, own in zip(statistics, plain, strict=True)
            if (other.kind, other.by, own) == (statistic.kind, statistic.by, label)
        ]
        keys = dict.fromkeys(key for fields in alike for key in fields)
        differ = [key for key in keys if any(fields.get(key) != alike[0].get(key) for fields in alike)]
        own_fields = statistic.to_dict()
        more = [f"{key} {_words(own_fields[key])}" for key in differ if own_fields.get(key) is not None]
        found.append(", ".join([label, *more]))
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
