"""What is asked: means, totals, proportions, counts, ratios, quantiles, tables, and what is made of them. Pure.

A statistic is put on the list (`registry`) where it is defined; survey files, docs and contract tests read the list.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from .base import Estimates, Statistic
from .calibration import Calibrated, calibrated, imputed
from .clipping import ClippingBounds, clipping_bounds
from .contrast import Contrast, contrast
from .count import Count, count
from .facts import Facts
from .mean import Mean, mean
from .proportion import Proportion, proportion
from .public_weights import PublicWeights
from .quantile import Quantile, median, quantile
from .query import Query, columns_asked
from .ratio import Ratio, ratio
from .registry import STATISTICS, StatisticKind, register, statistic_from_dict
from .regression_estimate import RegressionEstimate, greg
from .table import Table, table
from .total import Total, total
from .weighted import Weighted, weighted
from .weighted_total import weighted_total_sensitivity

# Whatever is in this room puts itself on the list.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "STATISTICS",
    "Calibrated",
    "ClippingBounds",
    "Contrast",
    "Count",
    "Estimates",
    "Facts",
    "Mean",
    "Proportion",
    "PublicWeights",
    "Quantile",
    "Query",
    "Ratio",
    "RegressionEstimate",
    "Statistic",
    "StatisticKind",
    "Table",
    "Total",
    "Weighted",
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
    "register",
    "statistic_from_dict",
    "table",
    "total",
    "weighted",
    "weighted_total_sensitivity",
]
