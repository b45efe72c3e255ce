"""What is asked: mean, total, proportion, count. Pure.

A statistic is listed here once; the contract tests run over the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import BadValue, did_you_mean
from .base import Numbers, Statistic
from .calibration import Calibrated, calibrated, imputed
from .clipping import ClippingBounds, clipping_bounds
from .columns_asked import columns_asked
from .contrast import Contrast, contrast
from .count import Count, count
from .facts import Facts
from .mean import Mean, mean
from .proportion import Proportion, proportion
from .quantile import Quantile, median, quantile
from .query import Query
from .ratio import Ratio, ratio
from .regression_estimate import RegressionEstimate, greg
from .table import Table, table
from .total import Total, total

STATISTICS: dict[str, type[Statistic]] = {
    statistic.kind: statistic
    for statistic in (
        Mean,
        Total,
        Proportion,
        Count,
        Ratio,
        Quantile,
        Contrast,
        Table,
        Calibrated,
        RegressionEstimate,
        ClippingBounds,
    )
}


def statistic_from_dict(fields: Mapping[str, Any]) -> Statistic:
    """The statistic that `to_dict` wrote.

    >>> statistic_from_dict({"kind": "mean", "of": "age", "bounds": [0, 120]}).name
    'mean of age'
    """
    kind = str(fields.get("kind", ""))
    if kind not in STATISTICS:
        raise BadValue(f"unknown kind of statistic {kind!r}", hint=did_you_mean(kind, STATISTICS))
    try:
        return STATISTICS[kind].from_dict({key: value for key, value in fields.items() if key != "kind"})
    except TypeError as error:
        raise BadValue(f"the statistic {kind!r} has a missing or unknown key", hint=str(error).split(")")[-1].strip()) from None


__all__ = [
    "STATISTICS",
    "Calibrated",
    "ClippingBounds",
    "Contrast",
    "Count",
    "Facts",
    "Mean",
    "Numbers",
    "Proportion",
    "Quantile",
    "Query",
    "Ratio",
    "RegressionEstimate",
    "Statistic",
    "Table",
    "Total",
    "calibrated",
    "clipping_bounds",
    "columns_asked",
    "contrast",
    "count",
    "greg",
    "imputed",
    "mean",
    "median",
    "proportion",
    "quantile",
    "ratio",
    "statistic_from_dict",
    "table",
    "total",
]
