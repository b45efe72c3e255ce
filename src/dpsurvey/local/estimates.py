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
from ..layout import ceiling_text, text_table
from .base import LocalMechanism
from .question import NO_ANSWER, Question

COLUMNS = ("category", "estimate", "se", "se_sampling", "se_noise", "cv", "ci_low", "ci_high")


@dataclass(frozen=True)
class Share:
    """One estimated share: the sampling error and the randomisation error are variances here."""

    estimate: float
    sampling: float
    noise: float
    low: float
    high: float


@dataclass(frozen=True)
class LocalEstimates:
    """Estimated shares of a question's categories. `estimate` is unbiased, so it may lie below 0 or above 1; intervals do not."""

    question: Question
    n: int
    rows: tuple[dict[str, Any], ...]
    design: str
    notes: tuple[str, ...]
    promise: str
    level: float = 0.95

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "question": self.question.to_dict() | {"fingerprint": self.question.fingerprint},
            "respondents": self.n,
            "design": self.design,
            "level": self.level,
            "promise": self.promise,
            "notes": list(self.notes),
            "estimates": [dict(row) for row in self.rows],
        }

    def __str__(self) -> str:
        columns = [*COLUMNS, *(name for name in ("total", "total_low", "total_high") if name in self.rows[0])]
        lines = [
            f"{self.question.name}: {self.n:,} respondents, {self.design}",
            "",
            text_table(self.rows, columns),
            "",
            self.promise,
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def consistent(self) -> list[dict[str, Any]]:
        """The rows with one more figure, `consistent`: the nearest shares that are not negative and add up to one.

        They are biased where estimates lie near 0 or 1; errors and intervals belong to `estimate`.
        """
        from ..consistent import on_simplex

        if not self.question.categories:
            raise BadValue("shares of an open domain do not add up to one")
        nearest = on_simplex(np.array([row["estimate"] for row in self.rows]), 1.0)
        return [dict(row) | {"consistent": value} for row, value in zip(self.rows, nearest.tolist(), strict=True)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimates: .json whole, .csv or .parquet the table."""
        from .tables import write_table

        name = os.fspath(path)
        if name.endswith(".json"):
            if os.path.exists(name):
                raise BadValue(f"{name!r} exists already", hint="choose another name; nothing was overwritten")
            with open(name, "w", encoding="utf-8") as file:
                file.write(json.dumps(self.to_dict(), indent=1) + "\n")
            return
        import pyarrow as pa

        write_table(pa.Table.from_pylist(list(self.rows)), name)


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

    With one respondent's variance of a share t, V(t) = g t(1-t) + own t + other (1-t), g = (N-n)/(N-1), the interval holds all
    t with (estimate - t)^2 <= z^2 V(t)/n: a score interval, from the variance at t and not at the estimate. `extra` is the
    variance, and the fourth cumulant, of noise that was added to the sum afterwards; it widens z as Laplace noise does.

    >>> from dpsurvey.local.response import GeneralisedResponse
    >>> one = simple_share(GeneralisedResponse(2, 1.0), 1, 450.0, 1000, None, 0.95)
    >>> round(one.estimate, 4), round(one.low, 4), round(one.high, 4)
    (0.3918, 0.3256, 0.4588)
    """
    scale, shift = mechanism.line(category)
    own, other = mechanism.spread(category)
    estimate = float(scale) * marks / n + float(shift)
    finite = 1.0 if population is None else (population - n) / max(population - 1.0, 1.0)
    inside = min(1.0, max(0.0, estimate))
    sampling = finite * inside * (1.0 - inside) / max(n - 1.0, 1.0)
    noise = (own * inside + other * (1.0 - inside)) / n + extra[0]
    z = critical(math.inf, level)
    if extra[0]:
        z += (z**3 - 3.0 * z) / 24.0 * extra[1] / (sampling + noise) ** 2
    z = z**2 / n
    # t^2 (1 + z g) - t (2 e + z (g + own - other)) + e^2 - z (other + n extra) <= 0
    middle = estimate + 0.5 * z * (finite + own - other)
    below = 1.0 + z * finite
    root = math.sqrt(max(0.0, middle**2 - below * (estimate**2 - z * (other + n * extra[0]))))
    return Share(estimate, sampling, noise, *clipped((middle - root) / below, (middle + root) / below))


def clipped(low: float, high: float) -> tuple[float, float]:
    """An interval of a share inside 0 to 1: no share lies outside, so nothing is lost.

    >>> clipped(-0.2, 0.1), clipped(-0.3, -0.1)
    ((0.0, 0.1), (0.0, 0.0))
    """
    return min(1.0, max(0.0, low)), min(1.0, max(0.0, high))


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


def promise_text(mechanism: LocalMechanism) -> str:
    """What the mechanism promises to a respondent, in a sentence.

    >>> from dpsurvey.local.response import warner
    >>> promise_text(warner(0.75))
    'To each respondent, against all who see the report: epsilon 1.099 for one answer replaced by another.'
    """
    from .sampling_privacy import SamplingPrivacy

    if isinstance(mechanism, SamplingPrivacy):
        return (
            "No promise: Sampling Privacy is not differentially private. "
            f"Its printed epsilon {mechanism.printed_epsilon:.4g} is that of round two alone; with both rounds, or both counts, "
            f"delta is {float(mechanism.pi_s):g} at every epsilon."
        )
    told = "To each respondent, against all who see the report"
    return f"{told}: epsilon {ceiling_text(mechanism.epsilon)} for one answer replaced by another."


def nonresponse_note(question: Question) -> str:
    """Whether somebody who does not answer is seen."""
    if NO_ANSWER in question.categories:
        return f"{NO_ANSWER} is randomised like an answer: shares are of all who reported, and nobody sees who answered"
    return "who sent a report is visible, and not hidden by epsilon; no_answer = true in the question hides who answered"
