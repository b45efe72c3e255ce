"""The error of each estimate along rates or epsilons, from the rows of planning: what a picture of it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..survey.errors_by_rate import ErrorCurve

Row = dict[str, Any]


def error_curves(rows: Sequence[Row]) -> list[ErrorCurve]:
    """One curve for each estimate whose error is known somewhere, from the rows of `rates` or `by_epsilon`.

    >>> row = {"statistic": "mean", "label": "y", "by": {}, "se_sampling": 3.0, "se_noise": 4.0, "se": 5.0}
    >>> refused = {"statistic": "plan", "label": "", "by": {}, "se": None}
    >>> [(curve.label, len(curve.rows)) for curve in error_curves([row | {"rate": 0.1}, refused, row | {"rate": 0.2}])]
    [('y', 2)]
    """
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["statistic"] != "plan" and row.get("se") is not None:
            key = (str(row["statistic"]), str(row["label"]), tuple(row["by"].items()))
            found.setdefault(key, []).extend([row] if row["se"] else [])
    return [ErrorCurve(kind, label, dict(by), tuple(own)) for (kind, label, by), own in found.items()]
