"""Seconds of work by sampling rate, measured on made-up rows: what a smaller sample saves where rows are there already."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..design.frame import Frame
from ..design.recipe import Each
from ..statistic import Query
from ..statistic.encodings import Window
from ..survey.expectations import expectations
from ..survey.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

    from ..engine import Expectations

# Made-up rows that the time is measured with, at which rate, and how often.
MEASURED = ((20_000, 0.01), (200_000, 0.01), (200_000, 1.0))
TIMES = 3


def seconds_of_work(plan: Plan, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `rates`, with the seconds that drawing and summing would take on this machine.

    a + b N + c n, from three measurements on made-up rows of the declared shape, drawn one by one. Sums by cluster, or with
    weights of each unit's own, are left out of the measurement.

    >>> from dpsurvey import Budget, Frame, Survey, mean, planning, srs
    >>> survey = Survey(Frame("register.parquet", unit="id", size=10_000), srs(n=100), budget=Budget(1.0), ledger="a.ledger")
    >>> plan = survey.plan(mean("age", bounds=(0, 100)))
    >>> [row["seconds"] > 0.0 for row in seconds_of_work(plan, planning.rates(plan, at=[1.0]))]
    [True, True]
    """
    queries = [item.query for item in plan.items if _is_summed(item.query)]
    # Only what is read matters here: sizes and takes are those of the real frame.
    expected = replace(expectations(plan.terms, plan), size=None, sizes={}, takes={}, clusters=(), used=(), positive=())
    few, many, all_of_them = (_measured(plan, size, rate, queries, expected) for size, rate in MEASURED)
    (small, rate), (large, _), _ = MEASURED
    by_unit = max(0.0, all_of_them - many) / (large * (1.0 - rate))
    by_row = max(0.0, many - few) / (large - small) - by_unit * rate
    start = max(0.0, few - by_row * small - by_unit * small * rate)
    size = plan.facts.size
    return [row | {"seconds": start + max(0.0, by_row) * size + by_unit * size * row["rate"]} for row in rows]


def _measured(plan: Plan, size: int, rate: float, queries: list[Query], expected: Expectations) -> float:
    table = _made_up(plan, queries, size)
    return min(_seconds(table, rate, queries, expected) for _ in range(TIMES))


def _is_summed(query: Query) -> bool:
    """Whether its sums need no more than the columns of the frame: no clusters, no weights of units, no order."""
    return query.random_groups is None and query.weights is None and not isinstance(query.encoding, Window)


def _seconds(table: pa.Table, rate: float, queries: list[Query], expected: Expectations) -> float:
    from ..engine import Engine

    engine = Engine(table)
    start = time.perf_counter()
    engine.draw(Each(rate), expected)
    for query in queries:
        engine.answered(query, lambda sums: len(sums))
    return time.perf_counter() - start


def _made_up(plan: Plan, queries: list[Query], size: int) -> pa.Table:
    """Rows with every column that the queries read: values within bounds, categories as declared, nothing from the frame."""
    import pyarrow as pa

    frame, random = plan.terms.frame, np.random.default_rng(1)
    columns: dict[str, Any] = {frame.unit: np.arange(size)}
    if plan.terms.design.strata_column:
        columns[plan.terms.design.strata_column] = _labels(frame, plan.terms.design.strata_column, size, random)
    for query in queries:
        for name in query.columns:
            if name not in columns:
                columns[name] = _labels(frame, name, size, random) if name in frame.categories else random.random(size)
        if query.value is not None and query.column not in frame.categories and query.column is not None:
            columns[query.column] = np.where(random.random(size) < 0.5, query.value, "another")
    return pa.table(columns)


def _labels(frame: Frame, column: str, size: int, random: np.random.Generator) -> Any:
    labels = np.asarray(frame.labels(column))
    return labels[random.integers(0, len(labels), size)]
