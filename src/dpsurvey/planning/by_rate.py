"""The error of every estimate by sampling rate: sampling and noise apart, amplified by the design's own rule. Reads no rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..design import poisson, srs
from ..errors import BadValue, NotFound, SurveyError, did_you_mean
from ..mechanism import Laplace
from ..privacy.relation import Relation
from ..statistic.predict.population import units_drawn
from ..survey.errors_by_rate import planned_rate
from ..survey.least_amounts import names_of
from ..survey.plan import Plan
from ..survey.predictions import WHOLE_PLAN
from .medians import Progress
from .rate_facts import gain_bound

Row = dict[str, Any]
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# Errors that differ by less than this part are called equal; simulated ones are known to about 2 %.
EQUAL, EQUAL_SIMULATED = 1e-6, 0.05


def rates(
    plan: Plan,
    at: Iterable[float] | None = None,
    *,
    importance: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """One row for each rate and estimate, and one for the whole plan, at the epsilon that the plan guarantees.

    Without `at` the rates are those of a list from 0.001 to 1 and the planned one, whose rows have `planned`.
    `ratio` is the error over that of the whole frame, `noise_inflation` the noise over that of the whole frame; below 1 a
    sample is the better choice. For the whole plan the ratio is the root of the mean of squared ratios, by `importance`: a
    mapping from columns to weights, equal without it. `no_gain` says that the no-gain rule already excludes a gain: the
    sampling variance is at least 2 Delta^2 (1/epsilon^2 - 1/epsilon_n^2) (Hu, Drechsler and Kim, 4.1; holds for Laplace
    noise where the sensitivity does not fall with the sample size, as of every estimate here).

    >>> from dpsurvey import Budget, Frame, Setting, Survey, mean
    >>> frame = Frame("register.parquet", unit="id", size=10_000)
    >>> survey = Survey(frame, srs(n=100), Setting("frame", neighbours="replace-one"), budget=Budget(1.0), ledger="a.ledger")
    >>> rows = rates(survey.plan(mean("age", bounds=(0, 100), expect=(40, 20))), at=[0.01, 1.0])
    >>> [(row["rate"], round(row["se_sampling"], 3), round(row["se_noise"], 3)) for row in rows if row["of"] == "age"]
    [(0.01, 1.99, 0.274), (1.0, 0.0, 0.014)]
    """
    plan = plan.with_whole_budget
    size = plan.facts.frame.size
    if size is None:
        raise BadValue("rates need the public size of the frame", hint="declare Frame(..., size=N)")
    # A file that was collected has no other rate, and says so.
    plan.terms.design.resized(1.0)
    now = units_drawn(plan.facts) / size
    wanted = sorted({_checked(rate) for rate in (_usual(now) if at is None else at)})
    if not wanted:
        raise BadValue("name at least one sampling rate")
    weights = _importance(plan, importance)
    whole = full_frame(plan)
    full = whole.predictions
    rows: list[Row] = []
    for done, rate in enumerate(wanted):
        if progress:
            progress("predicting by rate", done, len(wanted))
        rows += _at_rate(plan, rate, now, size, whole if rate == 1.0 else None, full, weights)
    if progress:
        progress("predicting by rate", len(wanted), len(wanted))
    return rows


def smooth_rates(lowest: float = 0.001, points: int = 41) -> list[float]:
    """Rates for a curve, even on a logarithmic scale, the whole frame last.

    >>> [round(rate, 3) for rate in smooth_rates(0.01, 3)]
    [0.01, 0.1, 1.0]
    """
    return [math.exp(math.log(lowest) * (1.0 - step / (points - 1))) for step in range(points - 1)] + [1.0]


def curve_by_rate(plan: Plan, progress: Progress | None = None) -> list[Row]:
    """The rows of `rates` at so many rates that they make a curve, from well below the planned rate up."""
    return rates(plan, smooth_rates(min(0.001, planned_rate(plan) / 3.0)), progress=progress)


def _usual(now: float) -> list[float]:
    """The rates of a table: those of the list, and the planned one in the place of its equal."""
    # With replacement more can be drawn than there are.
    return [rate for rate in RATES if not _alike(rate, now)] + ([now] if now <= 1.0 else [])


def _alike(rate: float, now: float) -> bool:
    return math.isclose(rate, now, rel_tol=1e-9)


def full_frame(plan: Plan) -> Plan:
    """The plan on every unit of the frame, by its own design where it can draw them all. Nonresponse leaves a sampling error.

    >>> from dpsurvey import Budget, Frame, Setting, Survey, mean
    >>> frame = Frame("register.parquet", unit="id", size=10_000)
    >>> survey = Survey(frame, srs(n=100), Setting("frame", neighbours="replace-one"), budget=Budget(1.0), ledger="a.ledger")
    >>> full_frame(survey.plan(mean("age", bounds=(0, 100)))).predictions[0]["se_sampling"]
    0.0
    """
    size = plan.facts.size
    now = units_drawn(plan.facts) / size
    everyone_once = not plan.facts.clustering and not any(part.replaced for part in plan.facts.parts)
    if plan.terms.design.most * now >= 1.0 - 1e-9 and everyone_once:
        return plan.resized(1.0 / now)
    everyone = srs(n=size) if plan.terms.setting.neighbours == Relation.REPLACE_ONE else poisson(1.0)
    terms = replace(plan.terms, design=everyone.resolve(plan.terms.frame), weight_range=None)
    fieldwork = None if plan.fieldwork is None else plan.fieldwork.averaged(plan.facts)
    return replace(plan, terms=terms, fieldwork=fieldwork, _release=None)


def _at_rate(
    plan: Plan, rate: float, now: float, size: int, whole: Plan | None, full: list[Row], weights: list[float]
) -> list[Row]:
    base: Row = {"rate": rate, "planned": _alike(rate, now), "n": round(rate * size)}
    base |= {"epsilon": plan.terms.budget.epsilon, "refused": None}
    try:
        here = whole if whole is not None else plan.resized(rate / now)
        if whole is None and rate > now * plan.terms.design.most * (1.0 + 1e-9):
            raise BadValue("this design cannot draw so many units", given=f"rate={rate:g}")
        found, drawn = here.predictions, units_drawn(here.facts)
    except SurveyError as error:
        return [base | WHOLE_PLAN | {"refused": error.what} | dict.fromkeys(FIGURES)]
    spent = here.charged.composed.epsilon(here.terms.budget.delta)
    base |= {"n": round(drawn), "epsilon_in_sample": spent} | _cost(here)
    numbers = [
        base
        | {key: row[key] for key in ("statistic", "of", "label", "by", "se_sampling", "se_noise", "se", "moe", "simulated")}
        | _against(row, census, here)
        for row, census in zip(found, full, strict=True)
    ]
    ratios = [(weight, row["ratio"]) for weight, row in zip(weights, numbers, strict=True) if weight > 0.0]
    known = [(weight, ratio) for weight, ratio in ratios if ratio is not None]
    together = None
    if known and len(known) == len(ratios):
        total = math.fsum(weight for weight, _ in known)
        together = math.sqrt(math.fsum(weight * ratio**2 for weight, ratio in known) / total)
    whole_plan = base | dict.fromkeys(FIGURES) | WHOLE_PLAN | {"ratio": together}
    whole_plan["simulated"] = any(row["simulated"] for row in numbers)
    return [*numbers, whole_plan]


FIGURES = ("se_sampling", "se_noise", "se", "moe", "ratio", "noise_inflation", "no_gain", "simulated")


def _against(row: Row, census: Row, here: Plan) -> Row:
    """The ratios to the whole frame; None where that has no error of its own."""
    error, noise = census["se"], census["se_noise"]
    known = row["se"] is not None and bool(error)
    inflation = row["se_noise"] / noise if row["se_noise"] is not None and noise else None
    rate = planned_rate(here)
    laplace = here.noise_class is Laplace and here.terms.budget.delta == 0.0 and here.terms.rate < 1.0
    excluded = None
    # The rule is about noise that is added, and about a whole frame that has no error but that.
    added = not row["simulated"] and not census["se_sampling"]
    if laplace and added and rate < 1.0 and row["se_sampling"] is not None and noise:
        excluded = row["se_sampling"] ** 2 >= noise**2 * gain_bound(here.terms.budget.epsilon, min(here.terms.rate, 1.0))
    return {"ratio": row["se"] / error if known else None, "noise_inflation": inflation, "no_gain": excluded}


def _cost(plan: Plan) -> Row:
    if plan.fieldwork is None:
        return {"answers": None, "cost": None, "affordable": True}
    found = plan.fieldwork.expected(plan.facts)
    return {key: found[key] for key in ("answers", "cost", "affordable")}


def best_rate(rows: list[Row], of: str | None = None) -> Row:
    """The rate with the least error of an estimate (by its label or column) or of the whole plan, and the advice in a sentence.

    Where a field budget is declared, among the rates that it pays for.

    >>> row = {"statistic": "plan", "of": "", "label": "", "n": 10, "affordable": True}
    >>> best_rate([row | {"rate": 0.1, "ratio": 0.8}, row | {"rate": 1.0, "ratio": 1.0}])["advice"]
    'draw 0.1 of the frame: the error is 0.8 of that on the whole frame'
    """
    own = [row for row in rows if (of in (row["label"], row["of"]) if of else row["statistic"] == "plan")]
    wanted = [row for row in own if row["ratio"] is not None]
    if not wanted:
        raise NotFound(f"no error by rate of {of!r}" if of else "no error by rate is known", hint="rates(plan) makes the rows")
    affordable = [row for row in wanted if row["affordable"]]
    if not affordable:
        least = min(wanted, key=lambda row: row["cost"])
        return {"rate": None, "n": None, "ratio": None, "gain": False} | {
            "advice": f"the field budget pays for none of these rates; the smallest costs {least['cost']:,.0f}"
        }
    best = min(affordable, key=lambda row: (row["ratio"], -row["rate"]))
    gain = best["ratio"] < 1.0 - (EQUAL_SIMULATED if best.get("simulated") else EQUAL)
    whole = max(affordable, key=lambda row: float(row["rate"]))
    if not gain and whole["rate"] == 1.0:
        # A hair less than the whole frame by chance is no reason to draw.
        best = whole
    return {
        "rate": best["rate"],
        "n": best["n"],
        "ratio": best["ratio"],
        "gain": gain,
        "advice": _advice(best, gain, affordable, wanted),
    }


def _advice(best: Row, gain: bool, affordable: list[Row], wanted: list[Row]) -> str:
    if gain:
        return f"draw {best['rate']:.3g} of the frame: the error is {best['ratio']:.3g} of that on the whole frame"
    if best["rate"] < 1.0:
        than = f"at rate {best['rate']:.3g} the error is {best['ratio']:.3g} times that of the whole frame"
        if best["rate"] < max(row["rate"] for row in affordable):
            return f"{than}, the least of these rates"
        why = "as many as the field budget pays for" if len(affordable) < len(wanted) else "as many as you can"
        return f"draw {why}: {than}, and less only with more units"
    return "do not draw for the sake of accuracy: no smaller sample has a smaller error than the whole frame"


def _checked(rate: float) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate <= 1.0:
        raise BadValue("a sampling rate is in (0, 1]", given=f"rate={rate!r}", hint="0.02 draws one in fifty")
    return float(rate)


def _importance(plan: Plan, importance: Mapping[str, float] | None) -> list[float]:
    """A weight for every number: that of its statistic, divided among its numbers."""
    given = dict(importance or {})
    for name, weight in given.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0.0 <= weight < math.inf:
            raise BadValue("importance is not negative", given=f"{name}={weight!r}")
    named = {name for statistic in plan.statistics for name in names_of(plan, statistic)}
    for name in given:
        if name not in named:
            raise NotFound(f"no statistic of {name!r} in this plan", hint=did_you_mean(name, sorted(named)))
    if given and not any(given.values()):
        raise BadValue("at least one importance is positive")
    found = []
    for item in plan.items:
        for statistic in item.statistics:
            count = len(statistic.published(item.query_of(statistic)))
            own = [given[name] for name in names_of(plan, statistic) if name in given]
            weight = (own[0] if own else 0.0) if given else 1.0
            found += [weight / count] * count
    return found
