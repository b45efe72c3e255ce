"""The published estimates as rows, from noisy sums and public figures alone; and those rows in the forms people use."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..statistic import Statistic
from ..statistic.missing import DROP, drop_rates, rate_notes
from ..statistic.notes import Note
from ..text.layout import cell_text
from .plan import Plan
from .quality import UNRELIABLE, cv_of_interval, quality

COLUMNS = ("estimate", "se", "se_sampling", "se_noise", "cv", "ci_low", "ci_high")

Row = dict[str, Any]


def estimate_rows(plan: Plan, noisy: Sequence[Sequence[Sequence[int]]]) -> list[Row]:
    """Every published estimate, from noisy sums and public figures alone."""
    rows = []
    for item, sums in zip(plan.items, noisy, strict=True):
        for statistic in item.statistics:
            numbers = plan.estimate(item, statistic, sums)
            published = statistic.published(item.query_of(statistic))
            # Of those who answered: which part of the records they are.
            tells = bool(statistic.drops) and statistic.tells_response
            rates = drop_rates(numbers.response, len(published)) if tells else []
            lost = rate_notes(numbers.response, len(published)) if tells else []
            about = [statistic.of_those_who_answered] if statistic.missing == DROP else []
            whole = np.zeros(len(published), dtype=np.bool_) if numbers.whole_range is None else numbers.whole_range
            about += [Note.NOT_ADJUSTED] if plan.respondents_only and not statistic.adjusts else []
            for index, group in enumerate(published):
                found = (numbers.estimate, numbers.se_sampling, numbers.se_noise, numbers.low, numbers.high)
                estimate, sampling, noise, low, high = (_finite(each[index]) for each in found)
                se = math.hypot(sampling, noise) if sampling is not None and noise is not None else None
                # What has no error has none beside it either, also where it is 0.
                cv = 0.0 if se == 0.0 and low == high else se / abs(estimate) if se is not None and estimate else None
                own = numbers.notes[index] if numbers.notes else ()
                rating = UNRELIABLE if whole[index] else quality(cv_of_interval(cv, estimate, low, high))
                notes = [*own, *about, *(lost[index] if lost else ())]
                rows.append(
                    {
                        "statistic": statistic.kind,
                        "of": statistic.of,
                        "value": statistic.category_or_order,
                        "label": plan.label(statistic),
                        "by": group,
                        "estimate": estimate,
                        "se": se,
                        "se_sampling": sampling,
                        "se_noise": noise,
                        "cv": cv,
                        "ci_low": low,
                        "ci_high": high,
                        "df": None if numbers.df is None else _finite(np.broadcast_to(numbers.df, numbers.estimate.shape)[index]),
                        "method": numbers.method,
                        "quality": rating,
                        "share": item.share,
                        "notes": notes,
                    }
                    | ({"item_response": rates[index]} if rates else {})
                )
    return rows


def statistics_of(plan: Plan) -> list[Statistic]:
    """The statistic of each published estimate, in their order."""
    return [each for item in plan.items for each in item.statistics for _ in each.published(item.query_of(each))]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def shown_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The figures of rows: those of every estimate, and the item response where some are of those who answered."""
    return (*COLUMNS, "item_response") if any("item_response" in row for row in rows) else COLUMNS


def interval_parts(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows that have an interval, with the part of it that sampling alone would need.

    The inner part is the interval shrunk by the share of the standard error that sampling makes up.

    >>> row = {"estimate": 10.0, "se": 5.0, "se_sampling": 3.0, "ci_low": 0.0, "ci_high": 20.0}
    >>> [(each["sampling_low"], each["sampling_high"]) for each in interval_parts([row, row | {"ci_low": None}])]
    [(4.0, 16.0)]
    """
    found = []
    for row in rows:
        if row["ci_low"] is None or row["ci_high"] is None or row["estimate"] is None or not row["se"]:
            continue
        part, estimate = row["se_sampling"] / row["se"], row["estimate"]
        low, high = estimate - part * (estimate - row["ci_low"]), estimate + part * (row["ci_high"] - estimate)
        found.append({**row, "sampling_low": low, "sampling_high": high})
    return found


def flat_rows(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows with one column for each grouping column, and notes as one text; the same columns in every row."""
    grouping = list(dict.fromkeys(column for row in rows for column in row["by"]))
    return [
        {"statistic": row["statistic"], "of": row.get("label") or row["of"]}
        | {column: row["by"].get(column) for column in grouping}
        | {column: row.get(column) for column in shown_columns(rows)}
        | {"df": row.get("df"), "method": row.get("method"), "quality": row.get("quality")}
        | {"share": row["share"], "notes": "; ".join(row["notes"])}
        for row in rows
    ]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line per estimate; no label is a formula."""
    flat = flat_rows(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([cell_text(name) for name in flat[0]] if flat else ["statistic"])
    writer.writerows([_cell(value) for value in row.values()] for row in flat)
    return text.getvalue()


def _cell(value: Any) -> Any:
    return "" if value is None else cell_text(value) if isinstance(value, str) else value


def to_arrow(rows: Sequence[Mapping[str, Any]]) -> Any:
    """An Arrow table; numbers are doubles even where all of them are missing."""
    import pyarrow as pa

    flat = flat_rows(rows)
    numbers = {*COLUMNS, "item_response", "df", "share"}
    names = list(flat[0]) if flat else []
    return pa.table(
        {name: pa.array([row[name] for row in flat], pa.float64() if name in numbers else pa.string()) for name in names}
    )
