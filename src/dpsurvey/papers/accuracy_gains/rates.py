"""Sections 3 and 4: what a sample may spend at the same promise."""

from __future__ import annotations

from typing import Any

import numpy as np

import dpsurvey as ds
from dpsurvey.design.selection import WithoutReplacement

from ..item import Found, Rows, Run

SIZE = 10_001


def spent(epsilon: float, n: int, size: int = SIZE) -> float:
    """What a simple random sample may spend for a promise of epsilon to everybody, one record replaced."""
    return ds.invert(WithoutReplacement(n, size), epsilon, base="replace-one", neighbours="replace-one").spent_epsilon


def what_a_sample_may_spend(run: Run) -> Found:
    """Figure 3, and the example of Section 3: epsilon 1 at a rate of one per cent."""
    sizes = sorted({round(n) for n in np.geomspace(20, SIZE, 60 if run.quick else 200)})
    rows: Rows = [
        {"epsilon": f"{epsilon:g}", "rate": n / SIZE, "epsilon_n": spent(epsilon, n)}
        for epsilon in (0.1, 0.5, 1.0)
        for n in sizes
    ]
    return Found(rows, {"one per cent": spent(1.0, 1, 100)})


def draw_spent(rows: Rows) -> Any:
    """Three lines that fall to their own epsilon."""
    from ..pictures import lines, titled

    chart = lines(
        rows,
        "rate",
        "epsilon_n",
        "epsilon",
        x_title="sampling rate n/N",
        y_title="ε_n on the sample",
        by_title="promised ε",
        x_format="~%",
    )
    return titled(
        chart, "What a sample may spend at the same promise", "simple random sampling without replacement, one record replaced"
    )
