"""Limits: what is checked before a budget of the agency, or a panel, is put on record."""

from __future__ import annotations

from ..errors import LedgerDisagrees
from ..privacy.relation import Restriction
from ..text.layout import ceiling_text, given_text
from .accounts import account, concerned, in_population
from .books import EVER, AgencyBudget, Books, setting_key
from .panels import Panel
from .quotes import not_seen, unseen_reason


def check_limit(books: Books, limit: AgencyBudget, year: str, *, although_spent: bool) -> None:
    """Refuse a limit that raises an earlier one, that would stop everything unasked, or that does not see a survey."""
    setting, budget, per = limit.setting, limit.budget, limit.per
    before = books.budgets.get((limit.population, setting_key(setting), per))
    old = before.budget if before else budget
    if budget.epsilon > old.epsilon or budget.delta > old.delta:
        raise LedgerDisagrees(
            "a budget on record is lowered, never raised",
            given=f"epsilon {given_text(old.epsilon)} -> {given_text(budget.epsilon)}, "
            f"delta {given_text(old.delta)} -> {given_text(budget.delta)}",
            because="a guarantee, once made, cannot be taken back",
        )
    named = {*limit.without, *(before.without if before else ())}
    unseen = []
    period = EVER if per == EVER else year
    names: dict[Restriction, None] = {}
    for survey in books.surveys.values():
        terms = survey.terms
        if not in_population(limit.population, terms.frame.population):
            continue
        relations = concerned(books, terms, limit.population, setting)
        names |= dict.fromkeys(relations)
        spends = survey.closed is None or any(sample.running() for sample in survey.samples.values())
        if not relations and spends and survey.name not in named:
            unseen.append((survey.name, unseen_reason(terms, setting)))
    if unseen:
        raise not_seen(limit, unseen)
    found = [account(books, setting, name, period, population=limit.population) for name in names]
    spent = max((each.epsilon for each in found), default=0.0)
    if (spent > budget.epsilon or any(each.delta > budget.delta for each in found)) and not although_spent:
        raise LedgerDisagrees(
            "more than that was spent already",
            given=f"epsilon {ceiling_text(spent, 6)}, and the limit would be {given_text(budget.epsilon)} "
            f"(delta {given_text(budget.delta)})",
            because="nothing more could be released under this setting, and a limit is never raised",
            hint="a larger limit; or, if that is what you want, although_spent=True (--although-spent)",
        )


def check_panel(books: Books, panel: Panel) -> None:
    """Refuse a panel whose name or key is in use: waves and levels are settled before the first draw."""
    if panel.key in books.panels or any(each.name == panel.name for each in books.panels.values()):
        raise LedgerDisagrees(
            "a panel of this name or of this key is on record",
            given=f"panel {panel.name!r}, key {panel.key[:8]}",
            because="what it loses was computed from waves and levels that do not change",
            hint="draw its waves; or another name and a new key",
        )
    if any(each.key_commitment == panel.key for each in books.samples.values()):
        raise LedgerDisagrees(
            "this key has drawn a sample already",
            because="waves and levels are settled before the first draw",
            hint="a new key for the panel",
        )
