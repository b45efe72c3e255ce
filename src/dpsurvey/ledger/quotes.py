"""Quotes: what a request would cost now at every level above it, and what would be left. Spends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..design.frame import table_name
from ..design.written_by_0_8 import with_kind_of_weights
from ..errors import BudgetExceeded, LedgerDisagrees, SurveyError
from ..privacy.measure import Measure
from ..privacy.profile import PrivacyProfile
from ..privacy.running import Running
from ..privacy.setting import Setting
from ..text.layout import ceiling_text, floor_text, given_text
from .accounts import account, concerned, in_population, wave_of
from .books import EVER, AgencyBudget, Books, SampleBook, SurveyBook
from .charged_sample import ChargedSample
from .other_settings import Unseen, implied
from .panels import Panel
from .spending import ONE_SAMPLE, Spending, pure_cap, spent_in, survey_spending, way_out
from .terms import Terms

LOWER = "the budget of the agency covers every survey whose cost under its setting is known"


@dataclass(frozen=True)
class Level:
    """One budget that a request must fit into."""

    whose: str
    limit: float
    before: float
    after: float
    unit: str = "epsilon"
    hint: str = ""
    # Why a request does not fit although its figure does; empty where it does.
    beyond: str = ""

    @property
    def requested(self) -> float:
        """What the request adds."""
        return self.after - self.before

    @property
    def left(self) -> float:
        """What the budget has before the request."""
        return max(0.0, self.limit - self.before)

    @property
    def fits(self) -> bool:
        """Whether the request keeps this budget."""
        return self.after <= self.limit and not self.beyond

    def exceeded(self) -> BudgetExceeded:
        """The refusal of a request that does not fit; what is requested is rounded up, and what is left is rounded down."""
        # What rounding leaves of a budget that is spent is nothing that could be asked for.
        left = 0.0 if self.left < 1e-9 and self.unit == "epsilon" else self.left
        short = ceiling_text(self.requested - left, 6)
        return BudgetExceeded(
            f"the budget{' of ' if self.whose else ''}{self.whose} does not cover this release",
            requested=self.requested,
            left=self.left,
            whose=self.whose,
            given=f"Requested {ceiling_text(self.requested, 6)} / Left {floor_text(left, 6)} / Short by {short} ({self.unit})",
            hint=self.beyond or self.hint or "plan with a smaller share=",
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        fields: dict[str, Any] = {"whose": self.whose or "the survey", "limit": self.limit, "unit": self.unit}
        fields |= {"before": self.before, "after": self.after, "requested": self.requested, "left": self.left}
        fields |= {"left_after": max(0.0, self.limit - self.after), "fits": self.fits}
        return fields | {"short_by": 0.0 if self.fits else max(0.0, self.requested - self.left)}


@dataclass(frozen=True)
class Quote:
    """The cost of a request at every level: its survey, its panel, and the agency."""

    levels: tuple[Level, ...]
    survey: Spending
    # Why a release would be refused whatever it costs.
    refusal: SurveyError | None = None

    @property
    def fits(self) -> bool:
        """Whether a release would be let through: every budget above it covers it, and nothing else is in its way."""
        return self.refusal is None and all(level.fits for level in self.levels)

    def refuse(self) -> None:
        """Raise what is in the way, or for the first budget that does not cover the request."""
        if self.refusal is not None:
            raise self.refusal
        for level in self.levels:
            if not level.fits:
                raise level.exceeded()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        refusal = self.refusal
        refused = None if refusal is None else "; ".join(each for each in (refusal.what, refusal.given, refusal.because) if each)
        levels = [level.to_dict() for level in self.levels]
        return {"fits": self.fits, "refused": refused, "levels": levels, "after": self.survey.to_dict()}


def quote(books: Books, survey: SurveyBook, sample: SampleBook, charges: Sequence[PrivacyProfile], year: str) -> Quote:
    """What charges to a sample would cost; the sample may be one that is not on record yet."""
    total = sample.running().plus(*charges)
    if survey.terms.budget.delta == 0.0 and (total.measure is not Measure.EPSILON or total.delta):
        raise LedgerDisagrees(
            "a budget without delta takes pure charges only",
            given=f"a charge in {total.measure}" + (" with a delta" if total.delta else ""),
            hint='noise="laplace"; or a survey with a delta in its budget',
        )
    before, after = survey_spending(survey), survey_spending(survey, {sample.id: total})
    levels = [_survey_level(survey, sample, before, after, total)]
    panel = books.panels.get(sample.key_commitment or "")
    if panel is not None:
        levels += _panel_levels(books, panel, survey, sample, total)
    for budget in _budgets(books, survey):
        period = EVER if budget.per == EVER else year
        running = sample.running(period).plus(*charges)
        levels += _agency_levels(books, budget, survey, period, {sample.id: ChargedSample(survey, sample, running)})
    return Quote(tuple(levels), after)


def _budgets(books: Books, survey: SurveyBook) -> list[AgencyBudget]:
    """The budgets above a survey; one that cannot see what it costs has to name it."""
    terms, found = survey.terms, []
    for budget in books.budgets.values():
        if not in_population(budget.population, terms.frame.population):
            continue
        if concerned(books, terms, budget.population, budget.setting):
            found.append(budget)
        elif survey.name not in budget.without:
            raise not_seen(budget, [(survey.name, unseen_reason(terms, budget.setting))])
    return found


def unseen_reason(terms: Terms, setting: Setting) -> str:
    """Why nothing is implied about what a survey costs under a setting."""
    answer = implied(terms, setting, terms.design.relation_name(setting))
    return answer.reason if isinstance(answer, Unseen) else ""


def not_seen(budget: AgencyBudget, surveys: Sequence[tuple[str, str]]) -> LedgerDisagrees:
    """The refusal of a limit that would not count what surveys cost."""
    names = ", ".join(repr(name) for name, _ in surveys)
    setting = budget.setting
    held = f", the {setting.given} held fixed" if setting.given else ""
    return LedgerDisagrees(
        f"the budget of {budget.name} does not see what {names} would cost",
        given=f"its setting: {setting.protect}, {setting.neighbours}{held}",
        because="; ".join(dict.fromkeys(reason for _, reason in surveys)),
        hint="a survey under the setting of the budget; or set the budget again and name the survey that it does not count: "
        "without=[...] (--without); or say that they are about others: population= in both frames and in the budget",
    )


def _survey_level(survey: SurveyBook, sample: SampleBook, before: Spending, after: Spending, total: Running) -> Level:
    """The budget of the survey; it has no name in a refusal, because it is what people mean by the budget."""
    limit, earlier = survey.terms.budget.epsilon, sample.running()
    if after.beyond == ONE_SAMPLE:
        return Level("", before.spent, before.spent, after.spent, hint=ONE_SAMPLE, beyond=ONE_SAMPLE)
    if after.beyond:
        epsilon, stratum = pure_cap(survey.terms, total)
        before_it, after_it = spent_in(earlier, stratum), spent_in(total, stratum)
        if after_it > epsilon:
            in_sample, unit = (float(epsilon), float(before_it), float(after_it)), "epsilon on the sample"
        else:
            limit_of_delta = survey.terms.delta_in_sample
            in_sample, unit = (limit_of_delta, float(earlier.delta), float(total.delta)), "delta on the sample"
        return Level("", *in_sample, unit, beyond=after.beyond)
    return Level("", limit, before.spent, after.spent, hint=way_out(survey, sample.id, list(after.charged)))


def _agency_levels(
    books: Books, budget: AgencyBudget, survey: SurveyBook, period: str, more: Mapping[str, ChargedSample]
) -> list[Level]:
    name = budget.name if period == EVER else f"{budget.name} ({period})"
    levels = []
    for relation in concerned(books, survey.terms, budget.population, budget.setting):
        setting, whose = budget.setting, name + (f" ({relation})" if relation else "")
        before = account(books, setting, relation, period, population=budget.population)
        after = account(books, setting, relation, period, more, population=budget.population)
        if survey.name in dict(after.unseen) and survey.name not in budget.without:
            raise not_seen(budget, [(survey.name, dict(after.unseen)[survey.name])])
        levels.append(Level(whose, budget.budget.epsilon, before.epsilon, after.epsilon, hint=LOWER))
        if after.delta > budget.budget.delta:
            levels.append(Level(whose, budget.budget.delta, before.delta, after.delta, "delta", LOWER))
    return levels


def _panel_levels(books: Books, panel: Panel, survey: SurveyBook, sample: SampleBook, total: Running) -> list[Level]:
    this = ChargedSample(survey, sample, total)
    wave = wave_of(panel, this)
    if panel.measure.needs_delta:
        if total.measure is not panel.measure:
            raise LedgerDisagrees(
                f"the panel {panel.name!r} is charged in {panel.measure}",
                given=f"a charge in {total.measure}",
                because="what it loses was computed from levels in one accounting measure",
                hint=f'plan(..., noise="{panel.measure.noise}"), or noise = "{panel.measure.noise}" under [release]',
            )
        limit, before, after = (float(each) for each in (panel.exact_level(wave), sample.running().amount, total.amount))
        beyond = "" if panel.level_left(wave, total) >= 0 else "plan less of this wave; its level was settled with the panel"
        whose = f"wave {wave + 1} of the panel {panel.name!r}"
        return [Level(whose, limit, before, after, panel.measure.unit, beyond=beyond)]
    before, after = (
        next(
            (line.epsilon for line in account(books, survey.terms.setting, more=more).lines if line.panel == panel.key),
            0.0,
        )
        for more in ({}, {sample.id: this})
    )
    return [Level(f"the panel {panel.name!r}", panel.epsilon, before, after, hint="the waves of a panel share one budget")]


def check_wave(books: Books, survey: SurveyBook, key: str | None, start: float | None, *, charged: bool = False) -> None:
    """Refuse a sample of a panel's key that is not one of its waves."""
    panel = books.panels.get(key or "")
    if panel is None:
        return
    terms = survey.terms
    rate = terms.design.recipe().poisson_rate
    if rate is None or terms.setting != panel.setting:
        raise LedgerDisagrees(
            f"the key of this sample belongs to the panel {panel.name!r}",
            given=f"design {terms.design.kind!r}, protect={terms.setting.protect!r}, neighbours={terms.setting.neighbours!r}",
            because="its loss was computed for Poisson samples under the setting on record",
            hint="draw with another key, or under the terms of the panel",
        )
    if (terms.budget.delta > 0.0) != panel.measure.needs_delta:
        raise LedgerDisagrees(
            f"the panel {panel.name!r} is charged in {panel.measure}",
            given=f"a budget with delta={given_text(terms.budget.delta)}",
            hint="a pure panel has pure waves; a panel in rho or mu has waves with a delta",
        )
    same_key = [each for each in books.samples.values() if each.key_commitment == key]
    if any(books.surveys[each.survey].terms.frame.unit != terms.frame.unit for each in same_key):
        raise LedgerDisagrees(
            f"the waves of the panel {panel.name!r} are of other units",
            given=f"the unit column {terms.frame.unit!r}",
            because="a unit has one number in every wave, by its label",
        )
    wave = panel.wave(start or 0.0, rate)
    taken = [each for each in same_key if each.start == panel.windows[wave].start and each.survey != survey.name]
    if taken and not charged:
        raise LedgerDisagrees(
            f"wave {wave + 1} of the panel {panel.name!r} is drawn already",
            given=f"by the survey {taken[0].survey!r}",
            because="a wave has one level, and one survey that is charged for it",
        )


def next_charged(survey: SurveyBook, terms: Terms) -> SampleBook | None:
    """The sample on record that a release would be charged to: the newest sealed one, or the rows of a collected file."""
    state = "drawn" if terms.design.already_drawn else "sealed"
    return next((each for each in reversed(survey.samples.values()) if each.state == state), None)


def refuse_other_terms(survey: SurveyBook, terms: Terms) -> None:
    """Refuse terms that are not those on record for a survey of this name; where its table lies is no part of them."""
    before, after = _without_place(survey.fields), _without_place(terms.to_dict())
    changed = [key for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)]
    if changed:
        raise LedgerDisagrees(
            f"the ledger holds other terms for the survey {survey.name!r}",
            given="changed: " + ", ".join(changed),
            hint="a survey keeps its terms; another name opens another survey, and what both lose adds up",
        )


def _without_place(fields: dict[str, Any]) -> dict[str, Any]:
    """Terms on record as they are written now: ledgers up to 0.8.0 kept the whole path of the table."""
    try:
        frame = fields["frame"] | {"table": table_name(fields["frame"]["table"])}
        return fields | {"frame": frame, "design": with_kind_of_weights(fields["design"])}
    except (KeyError, TypeError, AttributeError):
        return fields
