"""Designs side by side for one plan: the guarantee and the errors of each at the same expected sample size. Reads no rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..design import DESIGNS, Amplified, Design
from ..design.checks import check_count, check_rate
from ..design.compared import Candidate, SameSize
from ..design.frame import Frame
from ..errors import BadValue, NoGuarantee, SurveyError
from ..privacy.rounding import finite
from ..privacy.setting import Setting
from ..statistic.predict.population import units_drawn
from ..survey.fieldwork import Fieldwork
from ..survey.plan import Plan
from ..survey.predictions import WHOLE_PLAN

Row = dict[str, Any]


def compare_designs(
    plan: Plan, *, clusters: tuple[str, int, int] | None = None, sizes: tuple[str, float] | None = None
) -> list[Row]:
    """One row for each design and estimate, and one for the whole plan, at the plan's guarantee and expected sample size.

    The guarantee is for the frame, under the plan's neighbour relation; `epsilon_in_sample` is for somebody in the sample.
    `clusters=(column, number, cap)` adds designs of clusters, `sizes=(column, at_most)` designs in proportion to size; both
    columns are public. What cannot be drawn or guaranteed says why in `refused`. `ratio` is the error over that of the plan.

    >>> from dpsurvey import Budget, Frame, Survey, mean, srs
    >>> frame = Frame("register.parquet", unit="id", size=10_000)
    >>> survey = Survey(frame, srs(n=500), Setting("frame", neighbours="replace-one"), budget=Budget(1.0), ledger="a.ledger")
    >>> rows = compare_designs(survey.plan(mean("age", bounds=(0, 100), expect=(40, 20))))
    >>> whole = {row["design"]: row for row in rows if row["statistic"] == "plan"}
    >>> round(whole["simple random"]["epsilon_in_sample"], 2)
    3.57
    """
    if plan.facts.records_unknown:
        raise BadValue(
            "the number of records is not declared, so there is no sample size to compare at", hint="n=, the public number"
        )
    plan = plan.with_whole_budget
    setting = Setting("frame", neighbours=plan.terms.setting.neighbours)
    reference = plan.predictions
    # The plan as it is keeps its own setting and response: it is what the others are compared with.
    own = Candidate("as planned", plan.terms.design, plan.terms.weight_range)
    rows = _rows(plan, own, plan.terms.setting, plan.fieldwork, reference)
    # Designs with other strata, or none, get the same response on average.
    fieldwork = None if plan.fieldwork is None else plan.fieldwork.averaged(plan.facts)
    for each in _candidates(plan, clusters, sizes):
        rows += _rows(plan, each, setting, fieldwork, reference)
    return rows


def _candidates(plan: Plan, clusters: tuple[str, int, int] | None, sizes: tuple[str, float] | None) -> Iterator[Candidate]:
    """What every kind of design on the list would draw in place of the design of a plan."""
    size = plan.facts.size
    n = max(1, round(units_drawn(plan.facts)))
    asked = SameSize(plan.terms.frame, n, n / size, clusters, sizes)
    _check(asked, size)
    for kind in DESIGNS.values():
        if kind.candidates is not None:
            yield from kind.candidates(asked)


def _check(asked: SameSize, size: int) -> None:
    """Refuse clusters and sizes that no design could draw as many units from."""
    if asked.clusters is not None:
        _, number, cap = asked.clusters
        for what, figure in (("number", number), ("cap", cap)):
            check_count(f"the {what} of clusters", figure)
        if number * cap < size:
            raise BadValue(
                "so many clusters of so few units do not hold the frame", given=f"{number:,} of up to {cap}, {size:,} units"
            )
        if round(asked.rate * number) < 2:
            raise BadValue(
                "fewer than 2 clusters would be drawn at this sample size", given=f"{number:,} clusters, rate {asked.rate:.3g}"
            )
    if asked.sizes is not None:
        _, most = asked.sizes
        check_rate("at_most", most)
        if most < asked.rate:
            given = f"at_most={most:g}, rate {asked.rate:.3g}"
            raise BadValue("no probability is above at_most, so their mean cannot be", given=given)


def _rows(plan: Plan, each: Candidate, setting: Setting, fieldwork: Fieldwork | None, reference: list[Row]) -> list[Row]:
    base: Row = {
        "design": each.name,
        "protect": setting.protect,
        "neighbours": setting.neighbours.value,
        "n": round(units_drawn(plan.facts)),
        "refused": None,
    }
    empty = dict.fromkeys(("epsilon", "epsilon_in_sample", "amplified", "se_sampling", "se_noise", "se", "ratio"))
    frame = plan.terms.frame
    public = _declaring(frame, each.design)
    try:
        design = each.design.resolve(public)
        terms = replace(plan.terms, frame=public, design=design, setting=setting, weight_range=each.weight_range)
        here = replace(plan, terms=terms, fieldwork=fieldwork, _release=None)
        found, guarantee = here.predictions, here.guarantee.to_dict()
    except SurveyError as error:
        return [base | empty | WHOLE_PLAN | {"refused": _reason(error)}]
    answer = terms.amplification
    base |= {
        "epsilon": finite(guarantee["epsilon"]),
        "epsilon_in_sample": finite(guarantee["in_sample"]["epsilon"]),
        "amplified": isinstance(answer, Amplified),
        "note": answer.theorem if isinstance(answer, Amplified) else f"no gain: {answer.reason}",
    }
    rows = [
        base
        | {key: row[key] for key in ("statistic", "of", "label", "by", "se_sampling", "se_noise", "se")}
        | {"ratio": row["se"] / own["se"] if row["se"] is not None and own["se"] else None}
        for row, own in zip(found, reference, strict=True)
    ]
    ratios = [row["ratio"] for row in rows]
    whole = None if None in ratios else (sum(ratio**2 for ratio in ratios) / len(ratios)) ** 0.5
    return [
        *rows,
        base | empty | {key: base[key] for key in ("epsilon", "epsilon_in_sample", "amplified")} | WHOLE_PLAN | {"ratio": whole},
    ]


def _declaring(frame: Frame, design: Design) -> Frame:
    """The frame with the columns of a design that is only tried out declared as public."""
    recipe = design.recipe()
    columns = [column for role in ("cluster", "size", "rate", "order") for column in recipe.columns(role)]
    declared = {column: frame.category_sizes.get(column, labels) for column, labels in frame.categories.items()}
    public, least = tuple(dict.fromkeys((*frame.public, *columns))), frame.least_sizes or frame.least_size
    return Frame(frame.table, frame.unit or None, frame.size, declared, public, frame.population, least)


def _reason(error: SurveyError) -> str:
    return error.because if error.because and isinstance(error, NoGuarantee) else error.what
