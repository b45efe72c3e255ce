"""What reports add up to: shares of categories with both errors apart, and their intervals."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..classical.estimate import critical
from ..errors import BadValue
from ..text.layout import cell_text, text_table
from ..text.writing import write_file
from .base import LocalMechanism
from .question import NO_ANSWER, Question

COLUMNS = ("category", "estimate", "se", "se_sampling", "se_noise", "cv", "ci_low", "ci_high")
PLACES = ("south", "west", "north", "east")


@dataclass(frozen=True)
class Share:
    """One estimated share: the sampling error and the randomisation error are variances here."""

    estimate: float
    sampling: float
    noise: float
    low: float
    high: float
    # For pooling: the parts of the variance at any share, a step of the estimate, the fourth cumulant of added noise.
    parts: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    step: float = 0.0
    fourth: float = 0.0


@dataclass(frozen=True)
class LocalEstimates:
    """Estimated shares of a question's categories. `estimate` is unbiased, so it may lie below 0 or above 1; intervals do not."""

    question: Question
    n: int
    rows: tuple[dict[str, Any], ...]
    design: str
    notes: tuple[str, ...]
    guarantee: str
    level: float = 0.95

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "question": self.question.to_dict() | {"fingerprint": self.question.fingerprint},
            "respondents": self.n,
            "design": self.design,
            "level": self.level,
            "guarantee": self.guarantee,
            "notes": list(self.notes),
            "estimates": [dict(row) for row in self.rows],
        }

    @property
    def group_columns(self) -> list[str]:
        """The columns that name groups, where shares are by group."""
        own = (*COLUMNS, *PLACES, "total", "total_low", "total_high", "consistent")
        return [name for name in self.rows[0] if name not in own]

    def __str__(self) -> str:
        columns = [
            *self.group_columns,
            *COLUMNS,
            *(name for name in ("total", "total_low", "total_high", "consistent") if name in self.rows[0]),
        ]
        lines = [
            f"{self.question.name}: {self.n:,} respondents, {self.design}",
            "",
            text_table(self.rows, columns),
            "",
            self.guarantee,
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def consistent(self) -> list[dict[str, Any]]:
        """The rows with one more figure, `consistent`: the nearest shares that are not negative and add up to one.

        They are biased where estimates lie near 0 or 1; errors and intervals belong to `estimate`.
        """
        from ..survey.consistent import on_simplex

        if not self.question.categories:
            raise BadValue("shares of an open domain do not add up to one")
        k = len(self.question.categories)
        found: list[dict[str, Any]] = []
        for start in range(0, len(self.rows), k):
            part = self.rows[start : start + k]
            nearest = on_simplex(np.array([row["estimate"] for row in part]), 1.0)
            found += [dict(row) | {"consistent": value} for row, value in zip(part, nearest.tolist(), strict=True)]
        return found

    def interval_parts(self) -> list[dict[str, Any]]:
        """The rows with the part of each interval that sampling alone would need."""
        rows = []
        for row in self.rows:
            part = row["se_sampling"] / row["se"] if row["se"] else 0.0
            middle = min(1.0, max(0.0, row["estimate"]))
            low, high = middle - part * (middle - row["ci_low"]), middle + part * (row["ci_high"] - middle)
            rows.append(dict(row) | {"sampling_low": low, "sampling_high": high})
        return rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimates: .json whole, .csv or .parquet the table."""
        from .tables import write_table

        name = os.fspath(path)
        if name.endswith(".json"):
            write_file(name, json.dumps(self.to_dict(), indent=1) + "\n")
            return
        import pyarrow as pa

        plain = [{key: cell_text(each) if isinstance(each, str) else each for key, each in row.items()} for row in self.rows]
        write_table(pa.Table.from_pylist(plain if name.endswith(".csv") else list(self.rows)), name)


def simple_share(
    mechanism: LocalMechanism,
    category: int,
    marks: float,
    n: int,
    population: int | None,
    level: float,
    extra: tuple[float, float] = (0.0, 0.0),
) -> Share:
    """The share of a category from the sum of its marks in a simple random sample.

    One respondent's value has, at a share t, the variance V(t) = g t(1-t) + own t + other (1-t), g = (N-n)/(N-1). `extra` is the
    variance, and the fourth cumulant, of noise that was added to the sum afterwards.

    >>> from dpsurvey.local.randomised_response import GeneralisedResponse
    >>> one = simple_share(GeneralisedResponse(2, 1.0), 1, 450.0, 1000, None, 0.95)
    >>> round(one.estimate, 4), round(one.low, 4), round(one.high, 4)
    (0.3918, 0.3245, 0.4599)
    """
    scale, shift = mechanism.line(category)
    own, other = mechanism.spread(category)
    estimate = float(scale) * marks / n + float(shift)
    finite = 1.0 if population is None else (population - n) / max(population - 1.0, 1.0)
    inside = min(1.0, max(0.0, estimate))
    sampling = finite * inside * (1.0 - inside) / max(n - 1.0, 1.0)
    noise = (own * inside + other * (1.0 - inside)) / n + extra[0]
    z = critical_value(level, sampling + noise, extra[1])
    ends = score_interval(estimate, (finite / n, own / n, other / n, extra[0]), z, float(abs(scale)) / (2.0 * n))
    return Share(estimate, sampling, noise, *ends, (finite / n, own / n, other / n, extra[0]), float(abs(scale)) / n, extra[1])


def critical_value(level: float, variance: float, fourth: float) -> float:
    """The normal critical value, widened for the tails of Laplace noise as its share of the variance asks; never made smaller.

    >>> round(critical_value(0.95, 1.0, 0.0), 4), round(critical_value(0.95, 1.0, 3.0), 4)
    (1.96, 2.1661)
    """
    z = critical(math.inf, level)
    if fourth <= 0.0:
        return z
    # Pure Laplace noise leaves -log(1 - level)/sqrt(2) standard deviations with this chance: no mixture needs much more.
    most = max(z, -math.log1p(-level) / math.sqrt(2.0) + 0.1)
    return min(most, z + max(0.0, (z**3 - 3.0 * z) / 24.0 * fourth / variance**2))


def score_interval(
    estimate: float, variance: tuple[float, float, float, float], z: float, half_step: float
) -> tuple[float, float]:
    """All t with (|estimate - t| - half_step)^2 <= z^2 (g t(1-t) + own t + other (1-t) + extra), inside 0 to 1.

    The variance is that at t, not at the estimate, and half a step of the estimate's lattice is added: counts move in steps.

    >>> [round(end, 4) for end in score_interval(0.0, (0.01, 0.0, 0.0, 0.0), 1.96, 0.005)]
    [0.0, 0.0461]
    """
    g, own, other, extra = variance
    squared = z**2
    ends = []
    for side in (-1.0, 1.0):
        at = estimate + side * half_step
        # t^2 (1 + z^2 g) - 2 t (at + z^2 (g + own - other)/2) + at^2 - z^2 (other + extra) <= 0
        middle, below = at + 0.5 * squared * (g + own - other), 1.0 + squared * g
        root = math.sqrt(max(0.0, middle**2 - below * (at**2 - squared * (other + extra))))
        # Whatever lies within half a step of the estimate is inside, also where the variance at it is 0.
        ends.append(side * max(side * (middle + side * root) / below, side * at))
    return clipped(ends[0], ends[1])


def clipped(low: float, high: float) -> tuple[float, float]:
    """An interval of a share inside 0 to 1; one that lies outside becomes half as wide as it was, at the nearer end.

    >>> clipped(-0.2, 0.1), [round(end, 6) for end in clipped(-0.3, -0.1)]
    ((0.0, 0.1), [0.0, 0.1])
    """
    half = 0.5 * (high - low)
    if high <= 0.0:
        return 0.0, min(1.0, half)
    if low >= 1.0:
        return max(0.0, 1.0 - half), 1.0
    return max(0.0, low), min(1.0, high)


def row_of(category: str, share: Share, total: float | None = None) -> dict[str, Any]:
    """One row of the table; `total` is the size of the population, for the number of people."""
    se = math.sqrt(share.sampling + share.noise)
    row: dict[str, Any] = {
        "category": category,
        "estimate": share.estimate,
        "se": se,
        "se_sampling": math.sqrt(share.sampling),
        "se_noise": math.sqrt(share.noise),
        "cv": se / share.estimate if share.estimate > 0.0 else None,
        "ci_low": share.low,
        "ci_high": share.high,
    }
    if total is not None:
        row |= {"total": total * share.estimate, "total_low": total * share.low, "total_high": total * share.high}
    return row


def nonresponse_note(question: Question) -> str:
    """Whether somebody who does not answer is seen."""
    if NO_ANSWER in question.categories:
        return f"{NO_ANSWER} is randomised like an answer: shares are of all who reported, and nobody sees who answered"
    return "who sent a report is visible, and not hidden by epsilon; no_answer = true in the question hides who answered"
