"""The error of every estimate by epsilon, the sample held as it is. Reads no rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..errors import BadValue
from ..survey.plan import Plan
from .medians import Progress

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)


def by_epsilon(plan: Plan, at: Iterable[float] = EPSILONS, *, progress: Progress | None = None) -> list[dict[str, Any]]:
    """One row for each epsilon and estimate: what a guarantee costs in error if this plan spends all of it. The delta is kept.

    >>> from dpsurvey import Budget, Frame, Setting, Survey, mean, srs
    >>> frame = Frame("register.parquet", unit="id", size=10_000)
    >>> survey = Survey(frame, srs(n=100), Setting("frame", neighbours="replace-one"), budget=Budget(1.0), ledger="a.ledger")
    >>> rows = by_epsilon(survey.plan(mean("age", bounds=(0, 100), expect=(40, 20))), at=[0.1, 1.0])
    >>> [(row["epsilon"], round(row["epsilon_in_sample"], 2), round(row["se_noise"], 2)) for row in rows]
    [(0.1, 2.44, 0.58), (1.0, 5.15, 0.27)]
    """
    wanted = list(at)
    if not wanted:
        raise BadValue("name at least one epsilon")
    rows = []
    for done, epsilon in enumerate(wanted):
        if progress:
            progress("predicting by epsilon", done, len(wanted))
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float):
            raise BadValue("an epsilon is a number", given=repr(epsilon))
        here = replace(plan.at_epsilon(float(epsilon)), share=1.0)
        spent = here.charged.composed.epsilon(here.terms.budget.delta)
        kept = ("statistic", "of", "label", "by", "se_sampling", "se_noise", "se", "moe", "simulated")
        rows += [
            {"epsilon": float(epsilon), "epsilon_in_sample": spent} | {key: row[key] for key in kept} for row in here.predictions
        ]
    if progress:
        progress("predicting by epsilon", len(wanted), len(wanted))
    return rows
