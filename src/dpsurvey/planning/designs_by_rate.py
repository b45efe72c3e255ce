"""All designs at one sampling rate, or several: the loss of each, the error to expect, and a word on why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..design import DESIGNS, Frame, amplify
from ..design.checks import check_rate
from ..design.compared import CLUSTER, AtRate, Compared
from ..errors import BadValue, SurveyError
from ..ledger.terms import Terms
from ..privacy.budget import Budget
from ..privacy.relation import Relation
from ..privacy.setting import Setting
from ..statistic import proportion
from ..survey.plan import Plan
from ..survey.predictions import item_rows

Row = dict[str, Any]
# The frame and the clusters that errors are predicted for, unless others are asked for.
SIZE, ICC = 100_000, 0.05
# What sampling does to the loss of a mechanism.
EFFECTS = ("smaller", "no gain", "worse")
ERRORS = ("se_sampling", "se_noise", "se")


def compare(rate: float, epsilon: float, *, size: int = SIZE, icc: float = ICC) -> list[Row]:
    """One row for each design at the same sampling rate, the mechanism on the sample losing `epsilon`.

    `kind` of a row is that of the design; `effect` says what sampling does to the loss.
    `epsilon` is the loss for the frame, `epsilon_in_sample` that of somebody known to be sampled. `se` is the standard error to
    expect of a proportion of one half, from a frame of `size` units, by the code that plans and releases: clusters have ten
    units with an intraclass correlation of `icc`; None where the package draws no such design, or says nothing about its error.

    >>> row = next(row for row in compare(0.1, 1.0) if row["design"] == "Poisson")
    >>> round(row["epsilon"], 4), row["epsilon_in_sample"], round(row["se_sampling"], 5)
    (0.1586, 1.0, 0.00474)
    """
    check_rate("rate", rate)
    if not 0.0 <= icc <= 1.0:
        raise BadValue("an intraclass correlation is between 0 and 1", given=f"icc={icc}")
    share = AtRate(rate, size)
    rows: list[Row] = []
    for kind in DESIGNS.values():
        for each in kind.compared(share) if kind.compared is not None else ():
            answer = amplify(each.design, epsilon, base=each.base, neighbours=each.neighbours)
            rows.append(
                {
                    "kind": kind.kind,
                    "design": each.name,
                    "base": str(each.base),
                    "neighbours": str(each.neighbours),
                    "epsilon": answer.epsilon,
                    "effect": None if answer.epsilon is None else _effect(answer.epsilon, epsilon),
                    "lower": answer.lower,
                    "exact": answer.exact,
                    "refused": answer.refused.reason if answer.refused else None,
                    "epsilon_in_sample": answer.epsilon_in_sample,
                    "note": each.note,
                }
                | _expected(each, share, epsilon, icc)
            )
    return sorted(rows, key=lambda row: (row["epsilon"] is None, row["epsilon"] or 0.0))


def designs_by_rate(epsilon: float, rates: Iterable[float] = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)) -> list[Row]:
    """The loss for the frame of every design at several rates, the mechanism on the sample losing epsilon.

    >>> rows = designs_by_rate(1.0, rates=[0.01, 0.1])
    >>> [(row["rate"], round(row["epsilon"], 4)) for row in rows if row["design"] == "Poisson"]
    [(0.01, 0.017), (0.1, 0.1586)]
    """
    return [row | {"rate": rate} for rate in rates for row in compare(rate, epsilon)]


def _effect(loss: float, epsilon: float) -> str:
    """What sampling does to a loss of epsilon; a last digit is no difference, and a gain of less than a hundredth is none."""
    smaller, same, worse = EFFECTS
    return worse if loss > epsilon * (1.0 + 1e-9) else smaller if loss < 0.99 * epsilon else same


def _expected(each: Compared, share: AtRate, epsilon: float, icc: float) -> Row:
    """The error of a proportion of one half, predicted as a plan does; nothing where no such plan can be made."""
    nothing: Row = dict.fromkeys(ERRORS)
    if each.drawn is None:
        return nothing
    strata = {str(label): share.size // 10 for label in range(10)}
    frame = Frame("", "unit", sum(strata.values()), {"stratum": strata}, public=["cluster", "size"])
    deff = None if each.inside is None else 1.0 + (each.inside * CLUSTER - 1.0) * icc
    asked = proportion("answer", "yes", expect=0.5, deff=deff)
    # Where the relation is refused, what the mechanism itself does is the same under the other one.
    for relation in dict.fromkeys((each.neighbours, Relation.REPLACE_ONE)):
        try:
            terms = Terms("compared", frame, each.drawn.resolve(frame), Setting("frame", neighbours=relation), Budget(1.0))
            plan = Plan(terms, (asked,))
            # The mechanism loses this much on the sample, whatever that makes of the guarantee.
            row = item_rows(plan, plan.item_at(0, epsilon))[0]
        except SurveyError:
            continue
        return {key: row[key] for key in ERRORS}
    return nothing
