"""The error of each estimate along rates or epsilons, split by source: what a picture of it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
# The two parts of a standard error, by their columns.
PARTS = {"se_sampling": "sampling error", "se_noise": "privacy noise"}


@dataclass(frozen=True)
class ErrorCurve:
    """The rows of one estimate that have an error, in the order of their rates or epsilons."""

    statistic: str
    label: str
    by: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def named(self) -> Row:
        """What the estimate is of, as its row has it."""
        return {"statistic": self.statistic, "label": self.label}

    @property
    def least(self) -> Row:
        """The row with the least error."""
        return min(self.rows, key=lambda row: float(row["se"]))

    @property
    def whole_frame(self) -> float | None:
        """The error on the whole frame, where it is among the rows."""
        return next((float(row["se"]) for row in self.rows if row.get("rate") == 1.0), None)

    @property
    def split(self) -> list[Row]:
        """The error split by source, so that the two parts stacked are the standard error: each has the share of its variance.

        >>> curve = ErrorCurve("mean", "y", {}, ({"rate": 0.1, "se_sampling": 3.0, "se_noise": 4.0, "se": 5.0},))
        >>> [(each["part"], each["share"]) for each in curve.split]
        [('sampling error', 1.8), ('privacy noise', 3.2)]
        """
        return [
            {key: value for key, value in row.items() if key != "by"} | {"part": name, "share": row[part] ** 2 / row["se"]}
            for row in self.rows
            for part, name in PARTS.items()
        ]


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
