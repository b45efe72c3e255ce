"""Accounts: what everything under one setting costs together, line by line, by how the samples depend on each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..design.recipe import poisson_rate
from ..privacy.account import amount
from ..privacy.profile import PrivacyProfile
from ..privacy.rounding import up
from ..privacy.running import Running
from ..privacy.setting import Setting
from ..privacy.windows import Window, joint_loss, worst_pattern
from ..terms import Terms
from .books import EVER, Books, SampleBook, SurveyBook
from .panels import Panel
from .spending import sample_losses, worst_known

SHARED = "samples of one key, by the mixture over the patterns in which somebody can be in them (Theorem L2)"
JOINT = "samples of one key, taken as one joint sample: unamplified"
WHOLE = "a budget with delta counts as a whole from its first charge on (Theorem L3)"
KEYED_WHOLE = "a keyed sample outside a panel, with a delta: its whole in-sample budget, unamplified"
ALONE = "a sample of its own: composed, then amplified once"
PANEL = "the waves of a panel with levels on record, by the mixture over inclusion patterns (Theorem L4)"
SAME_LABEL = "a unit has the same label in every wave, and nobody else has it"


@dataclass(frozen=True)
class Line:
    """Samples that depend on each other: their loss together, and that of somebody known to be in them."""

    name: str
    surveys: tuple[str, ...]
    epsilon: float
    delta: float
    known: float
    how: str
    # The key of the panel that the line is for, if it is.
    panel: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        # Infinity, where nothing is promised to somebody who is known to be sampled, is no JSON.
        known = self.known if math.isfinite(self.known) else None
        fields = {"name": self.name, "surveys": list(self.surveys), "epsilon": self.epsilon, "delta": self.delta}
        return fields | {"known": known, "how": self.how}


@dataclass(frozen=True)
class Account:
    """Everything that was charged under one setting and relation: ever, or in one year."""

    setting: Setting
    relation_name: str
    period: str
    lines: tuple[Line, ...]

    @property
    def epsilon(self) -> float:
        """The loss of somebody protected by the setting, from everything together."""
        return _added(line.epsilon for line in self.lines)

    @property
    def delta(self) -> float:
        """The delta that belongs to epsilon."""
        return _added(line.delta for line in self.lines)

    @property
    def known(self) -> float:
        """The loss of somebody known to be in the samples of one line, whichever is worst; the others as outsiders."""
        worst = worst_known([(line.known, line.epsilon) for line in self.lines])
        if worst is None:
            return 0.0
        return _added([self.lines[worst].known, *(line.epsilon for place, line in enumerate(self.lines) if place != worst)])

    @property
    def holds_when(self) -> tuple[str, ...]:
        """What the totals rest on, beside what each survey rests on."""
        return (SAME_LABEL,) if any(line.how in (SHARED, PANEL) for line in self.lines) else ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        fields: dict[str, Any] = {"setting": self.setting.to_dict(), "relation_name": self.relation_name, "period": self.period}
        fields |= {"epsilon": self.epsilon, "delta": self.delta, "known": self.known if math.isfinite(self.known) else None}
        return fields | {"lines": [line.to_dict() for line in self.lines], "holds_when": list(self.holds_when)}


def _added(values: Any) -> float:
    """The sum, rounded up where there is more than one."""
    found = [value for value in values if value]
    return 0.0 if not found else found[0] if len(found) == 1 else up(math.fsum(found))


@dataclass(frozen=True)
class Charged:
    """A sample that was charged in a period."""

    survey: SurveyBook
    sample: SampleBook
    running: Running


def account(
    books: Books, setting: Setting, relation_name: str = "", period: str = EVER, more: Mapping[str, Charged] | None = None
) -> Account:
    """The account of one (setting, relation); `more` holds samples as they would be after a request.

    A relation with a name of its own is a part of the plain one: what is lost under the plain one counts there too.
    """
    wanted = more or {}
    charged = [each for survey in books.surveys.values() for each in _charged(survey, period, wanted)]
    charged += [each for each in wanted.values() if each.sample.id not in books.samples]
    names = ("", relation_name)
    own = [each for each in charged if each.survey.terms.setting == setting and _name(each.survey.terms) in names]
    return Account(setting, relation_name, period, tuple(_lines(books, own)))


def _name(terms: Terms) -> str:
    return terms.design.relation_name(terms.setting)


def accounts(books: Books, period: str = EVER) -> list[Account]:
    """An account for each setting and relation that a survey or a budget is under."""
    return [account(books, setting, name, period) for setting, name in kept(books)]


def kept(books: Books) -> list[tuple[Setting, str]]:
    """The settings and relations that are accounted for."""
    surveys = [(survey.terms.setting, _name(survey.terms)) for survey in books.surveys.values()]
    limits = [(limit.setting, "") for limit in books.budgets.values()]
    have = {setting for setting, _ in surveys}
    return list(dict.fromkeys([*surveys, *(each for each in limits if each[0] not in have)]))


def concerned(books: Books, terms: Terms) -> list[str]:
    """The names of the relations whose accounts a survey counts in."""
    own = _name(terms)
    named = [name for setting, name in kept(books) if setting == terms.setting and name]
    return [own] if own else ["", *named]


def _charged(survey: SurveyBook, period: str, more: Mapping[str, Charged]) -> Iterator[Charged]:
    for sample in survey.samples.values():
        if sample.id in more:
            yield more[sample.id]
        elif running := sample.running(period):
            yield Charged(survey, sample, running)


def _lines(books: Books, charged: list[Charged]) -> Iterator[Line]:
    by_panel: dict[str, list[Charged]] = {}
    by_key: dict[str, list[Charged]] = {}
    whole: dict[str, Charged] = {}
    for each in charged:
        key, delta = each.sample.key_commitment, each.survey.terms.budget.delta
        if key in books.panels:
            by_panel.setdefault(str(key), []).append(each)
        elif key is not None:
            by_key.setdefault(key, []).append(each)
        elif delta > 0.0:
            whole.setdefault(each.survey.name, each)
        else:
            yield _alone(each)
    for each in whole.values():
        budget = each.survey.terms.budget
        yield Line(each.survey.name, (each.survey.name,), budget.epsilon, budget.delta, _capped(each)[0], WHOLE)
    for key, several in by_panel.items():
        yield _panel_line(books.panels[key], several)
    for key, several in by_key.items():
        yield from _key_lines(key, several)


def _alone(each: Charged) -> Line:
    loss, known = sample_losses(each.survey, each.running)
    return Line(f"{each.survey.name}, sample {each.sample.id[:8]}", (each.survey.name,), loss, 0.0, known, ALONE)


def _capped(each: Charged) -> tuple[float, float]:
    """Somebody known to be in a sample of a survey with a delta: everything that may still be charged, unamplified."""
    terms, currency = each.survey.terms, each.running.currency or "epsilon"
    if currency not in each.survey.caps:
        each.survey.caps[currency] = terms.on_sample(_cap(terms, currency)).epsilon(terms.budget.delta)
    return each.survey.caps[currency], terms.budget.delta


def _cap(terms: Terms, currency: str) -> PrivacyProfile:
    """The most that a sample may be charged in a currency under a budget with a delta."""
    if currency == "rho":
        return terms.in_sample_budget
    if currency == "epsilon":
        return PrivacyProfile.approximate(amount(terms.pure_in_sample_budget), terms.delta_in_sample, terms.relation)
    low, high = 0.0, 1.0
    while _keeps(terms, high):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _keeps(terms, middle) else (low, middle)
    # From above: what is named is never less than what may be charged.
    return PrivacyProfile.gaussian(high, terms.relation)


def _keeps(terms: Terms, mu: float) -> bool:
    return terms.amplify(PrivacyProfile.gaussian(mu, terms.relation)).epsilon(terms.budget.delta) <= terms.budget.epsilon


def _panel_line(panel: Panel, several: list[Charged]) -> Line:
    names = tuple(dict.fromkeys(each.survey.name for each in several))
    if panel.currency != "epsilon":
        return Line(f"panel {panel.name}", names, panel.loss, panel.delta, panel.known, PANEL, panel.key)
    losses = {wave_of(panel, each): _pure(each) for each in several}
    loss, known = panel.pure_losses(losses)
    return Line(f"panel {panel.name}", names, loss, 0.0, known, SHARED, panel.key)


def wave_of(panel: Panel, each: Charged) -> int:
    """The wave of a panel that a sample is."""
    rate = poisson_rate(each.survey.terms.design.recipe())
    assert rate is not None
    assert each.sample.start is not None
    return panel.wave(each.sample.start, rate)


def _pure(each: Charged) -> float:
    return each.running.composed.epsilon(0.0)


def _key_lines(key: str, several: list[Charged]) -> Iterator[Line]:
    """The lines of a key outside panels."""
    names = tuple(dict.fromkeys(each.survey.name for each in several))
    pure = [each for each in several if each.survey.terms.budget.delta == 0.0]
    for each in several:
        if each.survey.terms.budget.delta > 0.0:
            epsilon, delta = _capped(each)
            yield Line(f"{each.survey.name}, key {key[:8]}", (each.survey.name,), epsilon, delta, epsilon, KEYED_WHOLE)
    if len(several) == 1 and pure:
        yield _alone(pure[0])
    elif pure:
        unamplified = _added(sample_losses(each.survey, each.running)[1] for each in pure)
        rates = [_window_rate(each) for each in several]
        if None in rates or len(pure) < len(several) or len({each.survey.terms.frame.unit for each in several}) > 1:
            yield Line(f"key {key[:8]}", names, unamplified, 0.0, unamplified, JOINT)
            return
        windows = [Window(each.sample.start or 0.0, rate) for each, rate in zip(several, rates, strict=True) if rate]
        losses = [_pure(each) for each in several]
        yield Line(f"key {key[:8]}", names, joint_loss(windows, losses), 0.0, worst_pattern(windows, losses), SHARED)


def _window_rate(each: Charged) -> float | None:
    """The length of the window of a keyed sample, where the mixture over patterns is proved for it."""
    setting = each.survey.terms.setting
    if setting.neighbours != "add-remove" or setting.level > 1:
        return None
    return poisson_rate(each.survey.terms.design.recipe())
