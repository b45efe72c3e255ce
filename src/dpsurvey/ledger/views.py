"""Views: the tree from the agency down to each charge, JSON-ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..privacy.relation import Restriction
from ..privacy.rounding import finite
from ..privacy.setting import Setting
from .accounts import Line, account, kept
from .books import EVER, Books, ReleaseBook, SampleBook, SurveyBook
from .panels import Panel
from .samples import in_words
from .spending import Spending, fixed_beforehand, survey_spending


def charges(release: ReleaseBook) -> list[dict[str, Any]]:
    """The charges of one release: what was asked, when, by whom, with which software."""
    reserved, committed = release.reserved, release.committed
    about = {
        "release": release.id,
        "sample": release.sample,
        "state": release.state,
        "reserved_at": reserved.at,
        "committed_at": committed.at if committed else None,
        "by": reserved.by,
        "software": reserved.body.get("software", reserved.software),
    }
    return [about | charge for charge in release.charges]


def tree(books: Books) -> dict[str, Any]:
    """Everything on record, from the agency down."""
    settings = list(dict.fromkeys(panel.setting for panel in books.panels.values()))
    lines = {line.panel: line for setting in settings for line in account(books, setting).lines if line.panel}
    waves: dict[str, dict[float | None, SampleBook]] = {}
    for sample in books.samples.values():
        if sample.key_commitment in books.panels:
            waves.setdefault(sample.key_commitment, {})[sample.start] = sample
    releases: dict[str, list[ReleaseBook]] = {}
    for release in books.releases.values():
        releases.setdefault(release.survey, []).append(release)
    return {
        "ledger": {"id": books.id, "count": books.count, "head": books.head, "last": books.at},
        "carried_to": books.carried_to,
        "anchors": list(books.anchors),
        "accounts": [_account(books, population, setting, name) for population, setting, name in kept(books)],
        "panels": [_panel(panel, lines.get(panel.key), waves.get(panel.key, {})) for panel in books.panels.values()],
        "surveys": [_survey(survey, releases.get(survey.name, ())) for survey in books.surveys.values()],
    }


def _panel(panel: Panel, line: Line | None, drawn: Mapping[float | None, SampleBook]) -> dict[str, Any]:
    """A panel, with what its waves were charged of what they may be."""
    spent, in_sample = (line.epsilon, line.epsilon_in_sample) if line is not None else (0.0, 0.0)
    waves = []
    for number, window in enumerate(panel.windows):
        sample = drawn.get(window.start)
        charged = float(sample.running().amount) if sample else 0.0
        level = float(panel.exact_level(number)) if panel.levels else None
        waves.append({"survey": sample.survey if sample else None, "start": window.start, "charged": charged, "level": level})
    figures = {"loss": panel.loss, "spent": spent, "left": max(0.0, panel.loss - spent), "epsilon_in_sample": in_sample}
    return panel.to_dict() | figures | {"waves": waves}


def years(books: Books) -> list[str]:
    """The years in which anything was charged."""
    return sorted({period for sample in books.samples.values() for period in sample.charged if period != EVER})


def _account(books: Books, population: str, of: Setting, name: Restriction) -> dict[str, Any]:
    ever = account(books, of, name, population=population)
    by_year = {year: account(books, of, name, year, population=population) for year in years(books)}
    budgets = []
    for limit in books.budgets.values():
        if (limit.population, limit.setting) != (population, of):
            continue
        spent = {EVER: ever} if limit.per == EVER else by_year
        figures = {
            period: {"epsilon": each.epsilon, "delta": each.delta, "left": max(0.0, limit.budget.epsilon - each.epsilon)}
            for period, each in spent.items()
        }
        fields = {"per": limit.per, "epsilon": limit.budget.epsilon, "delta": limit.budget.delta, "without": list(limit.without)}
        budgets.append(fields | {"spent": figures})
    return ever.to_dict() | {"years": {year: each.epsilon for year, each in by_year.items()}, "budgets": budgets}


def _survey(survey: SurveyBook, own: Sequence[ReleaseBook]) -> dict[str, Any]:
    """One survey with its samples and charges."""
    terms, totals = survey.terms, survey_spending(survey)
    keyed = {name: sample for name, sample in survey.samples.items() if sample.key_commitment}
    return {
        "survey": survey.name,
        "opened": survey.opened_at,
        "closed": survey.closed,
        "setting": terms.setting.to_dict(),
        "relation_name": terms.design.relation_name(terms.setting),
        "budget": terms.to_dict()["budget"],
        **totals.to_dict(),
        "epsilon_in_sample": finite(totals.epsilon_in_sample),
        "samples": [_sample(survey, sample, totals) for sample in survey.samples.values()],
        "charges": [charge for release in own for charge in charges(release)],
        "keys": {name: {"commitment": each.key_commitment, "start": each.start} for name, each in keyed.items()},
    }


def _sample(survey: SurveyBook, sample: SampleBook, totals: Spending) -> dict[str, Any]:
    view = {"sample": sample.id, **in_words(sample), "charges": len(sample.profiles)}
    view |= {"epsilon": totals.by_sample.get(sample.id, 0.0), "epsilon_in_sample": totals.in_sample.get(sample.id, 0.0)}
    fixed = fixed_beforehand(sample) if len(sample.profiles) > 1 and survey.terms.budget.delta > 0.0 else None
    if fixed is not None:
        # Beside, never instead: it holds if every charge was fixed before the first release, as these were.
        view["if_fixed_beforehand"] = min(view["epsilon"], survey.terms.amplify(fixed).epsilon(survey.terms.budget.delta))
    return view
