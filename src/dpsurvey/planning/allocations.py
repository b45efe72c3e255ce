"""The error of every statistic of a plan under each allocation of the same sample over its strata. Reads no rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..design import Allocation, allocate, compare_allocations, srs, stratified
from ..design.frame import label_text
from ..errors import BadValue, NoGuarantee, NotFound, SurveyError, did_you_mean
from ..mechanism import Laplace
from ..privacy.relation import Relation
from ..statistic.measured import Measured
from ..statistic.predict.population import units_drawn
from ..survey.plan import Plan
from ..survey.predictions import WHOLE_PLAN

Row = dict[str, Any]


def plan_figures(plan: Plan, of: str, *, minimum: int = 1, release: str = "strata") -> dict[str, Any]:
    """What an allocation for one column needs, from what the plan declares: sizes, ranges, deviations, costs, epsilon.

    Deviations are those of `expect=` by stratum, and need the `source=` of the statistic: they decide about sample sizes. Without
    them the worst case stands in. The epsilon is what the statistic's own share of the budget guarantees.
    """
    setting = plan.terms.setting
    if setting.protect != "frame" or setting.neighbours != Relation.REPLACE_ONE or plan.noise_class is not Laplace:
        raise NoGuarantee(
            "the private allocation is for a guarantee to the frame, one record replaced within its stratum, by Laplace noise",
            because="only then is a stratum amplified by its own rate",
            hint='Setting("frame", neighbours="replace-one") and noise="laplace"; or allocate() with figures of your own',
        )
    column, frame = plan.terms.design.strata_column, plan.terms.frame
    if column is None or column not in frame.category_sizes:
        raise BadValue(
            "an allocation needs a stratified design and the public sizes of its strata", hint="stratified(by, within=)"
        )
    named = [each for each in plan.statistics if isinstance(each, Measured)]
    found = [each for each in named if each.of == of]
    if not found:
        hint = did_you_mean(of, [str(each.of) for each in named]) if named else "a mean or total of the plan"
        raise NotFound(f"no mean or total of {of!r} in this plan", hint=hint)
    statistic = found[0]
    sizes = frame.category_sizes[column]
    own = {label: high - low for label, low, high in statistic.own}
    width = statistic.bounds[1] - statistic.bounds[0]
    ranges: Any = own if set(own) == set(sizes) else width
    deviations = None
    if statistic.expect is not None:
        span = statistic.limits[1] - statistic.limits[0]
        moments = {label: statistic.typical_in(plan.facts, {column: label}) for label in sizes}
        deviations = {label: span * max(0.0, square - mean**2) ** 0.5 for label, (mean, square) in moments.items()}
    # What its own share of the budget makes of the guarantee: the other statistics have the rest.
    item = next(each for each in plan.items if statistic in each.statistics)
    epsilon = plan.terms.amplify(item.charge).epsilon(plan.terms.budget.delta)
    asked: dict[str, Any] = {"sizes": sizes, "epsilon": epsilon, "ranges": ranges, "release": release}
    asked |= {"minimum": minimum, "deviations": deviations}
    asked["source"] = statistic.source
    fieldwork = plan.fieldwork
    if fieldwork is not None and fieldwork.budget is not None and fieldwork.cost:
        cost = fieldwork.cost
        by_label = {label_text(label): float(each) for label, each in cost.items()} if isinstance(cost, Mapping) else {}
        costs = by_label or dict.fromkeys(sizes, float(cost))  # type: ignore[arg-type]
        return asked | {"costs": costs, "budget": fieldwork.budget - fieldwork.fixed_cost}
    return asked | {"n": round(units_drawn(plan.facts))}


def allocations(plan: Plan, of: str, *, minimum: int = 1, release: str = "strata") -> list[Row]:
    """One row for each allocation and estimate of the plan, with the error of simple random samples inside the strata.

    "private" has the least error of the mean of `of` if every stratum is charged by its own rate, "minimax" the same for the
    worst values within the bounds; beside them proportional and Neyman, and the design as planned. Means by stratum have one
    charge in a plan, which the largest rate decides: these rows say what each allocation gives in this plan. With a field
    budget, as many units as it pays for.

    >>> from dpsurvey import Budget, Frame, Setting, Survey, mean
    >>> frame = Frame("register.parquet", unit="id", size=1000, categories={"region": {"a": 900, "b": 100}})
    >>> survey = Survey(frame, stratified("region", within=srs(rate=0.05)), Setting("frame", neighbours="replace-one"),
    ...                 budget=Budget(0.5), ledger="a.ledger")
    >>> asked = mean("y", bounds=(0, 10), by="region", expect={"a": (3, 1), "b": (5, 4)}, source="Yearbook 2024")
    >>> rows = allocations(survey.plan(asked), "y")
    >>> [(row["allocation"], row["take"]) for row in rows if row["by"] == {"region": "b"}]
    [('as planned', 5), ('private', 13), ('minimax', 6), ('proportional', 5), ('neyman', 15)]
    """
    asked = plan_figures(plan, of, minimum=minimum, release=release)
    column = str(plan.terms.design.strata_column)
    rows = _errors(plan, "as planned", None, column)
    for row in compare_allocations(**asked):
        rows += _errors(plan, row["rule"], row["takes"], column)
    return rows


def _errors(plan: Plan, rule: str, takes: Mapping[str, int] | None, column: str) -> list[Row]:
    base: Row = {"allocation": rule, "n": sum(takes.values()) if takes else round(units_drawn(plan.facts)), "refused": None}
    try:
        here = plan
        if takes is not None:
            design = stratified(column, within={label: srs(n=take) for label, take in takes.items()})
            terms = replace(plan.terms, design=design.resolve(plan.terms.frame), weight_range=None)
            here = replace(plan, terms=terms, _release=None)
        found = here.predictions
    except SurveyError as error:
        return [base | WHOLE_PLAN | {"take": None, "refused": error.what}]
    own = {part.label: part.take for part in here.facts.parts}
    return [
        base
        | {key: row[key] for key in ("statistic", "of", "label", "by", "se_sampling", "se_noise", "se", "moe")}
        | {"take": own.get(row["by"].get(column))}
        for row in found
    ]


def private_allocation(plan: Plan, of: str, *, minimum: int = 1, release: str = "strata") -> Allocation:
    """The allocation that is optimal for one column of a plan, ready for `stratified(by, within=)`.

    >>> from dpsurvey import Budget, Frame, Setting, Survey, mean
    >>> frame = Frame("register.parquet", unit="id", size=1000, categories={"region": {"a": 900, "b": 100}})
    >>> survey = Survey(frame, stratified("region", within=srs(rate=0.05)), Setting("frame", neighbours="replace-one"),
    ...                 budget=Budget(0.5), ledger="a.ledger")
    >>> private_allocation(survey.plan(mean("y", bounds=(0, 10))), "y").takes
    {'a': 44, 'b': 6}
    """
    asked = plan_figures(plan, of, minimum=minimum, release=release)
    return allocate("private", **{name: value for name, value in asked.items() if value is not None})
