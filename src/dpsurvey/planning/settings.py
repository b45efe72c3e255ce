"""The settings side by side for one plan: what amplifies, what is fixed, what it costs, who is not protected."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..design import Amplified
from ..errors import SurveyError
from ..privacy.rounding import finite
from ..privacy.setting import Setting, all_settings
from ..survey.advice import RECOMMENDATIONS, recommendation_against
from ..survey.plan import Item, Plan

Row = dict[str, Any]
NOT_COVERED = {
    "population": "nobody in the population is left out, but coverage and response amplify only with proved bounds",
    "frame": "people who are not on the frame; somebody known to be sampled has the epsilon of the sample",
    "sample": "that somebody was sampled or was not; people outside the sample",
    "respondents": "that somebody was sampled and answered; people who did not answer",
    "answers": "that somebody was sampled and answered; people who did not answer",
}
FIXED = {
    None: "",
    "population": "what the population itself reveals",
    "frame": "what the frame itself reveals: its columns, its strata, who is on it",
    "sample": "who was sampled, and what the frame reveals",
    "respondents": "design columns, weighting columns and weights of those who responded",
}


def compare_settings(plan: Plan) -> list[Row]:
    """One row for each setting under the plan's neighbour relation, at the plan's guarantee and design.

    There are ten, and eleven under replace-one. Settings that the design refuses under that relation say why. `ratio` is the
    root mean square of predicted errors over those of the plan's own setting; `sensitivity` is what one record can move the
    first sums, in records of the largest weight.

    >>> from dpsurvey import Budget, Frame, Survey, mean, poisson
    >>> frame = Frame("register.parquet", unit="id", size=10_000)
    >>> survey = Survey(frame, poisson(0.1), budget=Budget(1.0), ledger="a.ledger")
    >>> rows = compare_settings(survey.plan(mean("age", bounds=(0, 100), expect=(40, 20))))
    >>> [(row["protect"], row["given"], row["amplifies"]) for row in rows if row["recommended"]]
    [('sample', 'frame', 'nothing')]
    >>> len(rows), [round(row["ratio"], 3) for row in rows if row["protect"] == "frame"]
    (10, [0.987, 0.987])
    """
    plan = plan.with_whole_budget
    own = plan.terms.setting
    reference = plan.predictions
    return [_row(plan, setting, own, reference) for setting in all_settings(own.neighbours)]


def _row(plan: Plan, setting: Setting, own: Setting, reference: list[Row]) -> Row:
    base: Row = {
        "protect": setting.protect,
        "given": setting.given,
        "neighbours": setting.neighbours.value,
        "own": setting == own,
        "weights_fixed": setting.weights_fixed,
        "recommended": recommendation_against(setting) is None,
        "recommendation": recommendation_against(setting),
        "not_protected": "; ".join(each for each in (NOT_COVERED[setting.protect], FIXED[setting.given]) if each),
    }
    try:
        here = plan if setting == own else replace(plan, terms=replace(plan.terms, setting=setting), _release=None)
        found, guarantee = here.predictions, here.guarantee
    except SurveyError as error:
        empty = dict.fromkeys(("epsilon", "epsilon_in_sample", "sensitivity", "se_noise", "ratio"))
        return base | empty | {"amplifies": "", "refused": error.because or error.what}
    answer = here.terms.amplification
    what = f"sampling, by rate {answer.rate:.4g}" if isinstance(answer, Amplified) else "nothing"
    item = here.items[0]
    guaranteed = guarantee.to_dict()
    return base | {
        "amplifies": what,
        "epsilon": finite(guaranteed["epsilon"]),
        "epsilon_in_sample": finite(guaranteed["in_sample"]["epsilon"]),
        "sensitivity": _sensitivity(item, here),
        "se_noise": found[0]["se_noise"],
        "ratio": _ratio(found, reference),
        "refused": None,
    }


def _sensitivity(item: Item, plan: Plan) -> float | None:
    try:
        return item.query.sensitivity(plan.facts.relation, plan.facts.norm) / item.query.steps
    except SurveyError:
        return None


def _ratio(found: list[Row], reference: list[Row]) -> float | None:
    pairs: list[tuple[float, float]] = [(one["se"], two["se"]) for one, two in zip(found, reference, strict=True)]
    if any(one is None or not two for one, two in pairs):
        return None
    return math.sqrt(math.fsum((one / two) ** 2 for one, two in pairs) / len(pairs))


def recommendations() -> list[str]:
    """The four recommendations of Bailie and Drechsler (section 6), in words."""
    return [RECOMMENDATIONS[phase] for phase in ("population", "frame", "sample", "respondents")]
