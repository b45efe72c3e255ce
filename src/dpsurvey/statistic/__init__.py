"""What is asked: means, totals, proportions, counts, ratios, quantiles, tables, and what is made of them. Pure.

A statistic is listed here once; the contract tests run over the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import BadValue, did_you_mean
from ..text.fields import check_keys, keys_of
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
from .sensitivity import stratified_total_sensitivity, weighted_total_sensitivity
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


# Every constructor is a kind that can be written, with what makes it and how it looks in survey.toml.
WRITTEN: dict[str, tuple[Callable[..., Statistic], str]] = {
    "mean": (mean, '{ kind = "mean", of = "income", bounds = [0, 250_000], by = ["region"] }'),
    "median": (median, '{ kind = "median", of = "income", bounds = [0, 250_000] }'),
    "total": (total, '{ kind = "total", of = "income", bounds = [0, 250_000] }'),
    "proportion": (proportion, '{ kind = "proportion", of = "status", value = "unemployed" }'),
    "count": (count, '{ kind = "count", of = "status", value = "unemployed" }'),
    "ratio": (ratio, '{ kind = "ratio", of = "food", to = "income", bounds = [0, 50_000], to_bounds = [0, 250_000] }'),
    "quantile": (quantile, '{ kind = "quantile", of = "income", q = 0.9, bounds = [0, 250_000] }'),
    "contrast": (
        contrast,
        '{ kind = "contrast", of = { kind = "mean", of = "income", bounds = [0, 250_000], by = ["sex"] }, '
        'first = "female", second = "male" }',
    ),
    "table": (table, '{ kind = "table", by = ["region", "sex"] }'),
    "calibrated": (
        calibrated,
        '{ kind = "calibrated", of = { kind = "mean", of = "income", bounds = [0, 250_000] }, '
        "to = { sex = { female = 4_400_000, male = 4_500_000 } } }",
    ),
    "imputed": (
        imputed,
        '{ kind = "imputed", of = { kind = "mean", of = "income", bounds = [0, 250_000] }, cells = ["region", "sex"] }',
    ),
    "greg": (
        greg,
        '{ kind = "greg", of = { kind = "mean", of = "income", bounds = [0, 250_000] }, '
        "on = { age = { bounds = [0, 120], mean = 41.3 } } }",
    ),
    "clipping bounds": (clipping_bounds, '{ kind = "clipping bounds", of = "income", within = [0, 1e8], covering = 0.99 }'),
}
# Constructors that are no kind of their own once they are made.
MADE_OTHERWISE: dict[str, type[Statistic]] = {"median": Quantile, "imputed": Calibrated}
OF_ANOTHER = ("contrast", "calibrated", "imputed", "greg")


def statistic_from_dict(fields: Mapping[str, Any]) -> Statistic:
    """The statistic that `to_dict` wrote, or that somebody wrote in survey.toml under the name of its constructor.

    >>> statistic_from_dict({"kind": "mean", "of": "age", "bounds": [0, 120]}).name
    'mean of age'
    >>> statistic_from_dict({"kind": "median", "of": "age", "bounds": [0, 120]}).name
    'quantile of age at 0.5'
    """
    if not isinstance(fields, Mapping) or "kind" not in fields:
        raise BadValue("a statistic is written with its kind", hint=WRITTEN["mean"][1])
    rest = {key: value for key, value in fields.items() if key != "kind"}
    kind = str(fields["kind"]).replace("_", " ")
    if kind == "calibrated" and "cells" in rest and "to" not in rest:
        # As to_dict writes what `imputed` made.
        kind = "imputed"
    if kind not in WRITTEN:
        raise BadValue(f"unknown kind of statistic {kind!r}", hint=did_you_mean(kind, WRITTEN))
    example = WRITTEN[kind][1]
    check_keys(f"the statistic {kind!r}", rest, *_keys(kind), example)
    if kind in OF_ANOTHER and not isinstance(rest["of"], Mapping):
        raise BadValue(f"the key 'of' of {kind!r} is a whole statistic, with its kind", hint=example)
    if kind not in OF_ANOTHER and "of" in rest and not isinstance(rest["of"], str | None):
        raise BadValue(f"the key 'of' of {kind!r} is the name of a column", hint=example)
    if kind == "median":
        rest["q"] = 0.5
    if kind == "table" and isinstance(rest["by"], str):
        rest["by"] = [rest["by"]]
    made_by = (STATISTICS | MADE_OTHERWISE)[kind]
    try:
        made = made_by.from_dict(rest)
        # A plan compares statistics; a list where a word or a number belongs would fail there.
        hash(made)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Python's own words about a value of the wrong shape help nobody who wrote a TOML file.
        raise BadValue(f"the statistic {kind!r} is not written as it should be", hint="for example " + example) from error
    return made


def _keys(kind: str) -> tuple[list[str], list[str]]:
    if kind == "median":
        required, known = keys_of(quantile)
        return [key for key in required if key != "q"], [key for key in known if key != "q"]
    return keys_of(WRITTEN[kind][0])


__all__ = [
    "STATISTICS",
    "WRITTEN",
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
    "stratified_total_sensitivity",
    "table",
    "total",
    "weighted_total_sensitivity",
]
