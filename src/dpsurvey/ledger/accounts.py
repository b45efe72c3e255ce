"""Accounts: what everything costs together under one setting, line by line, by how the samples depend on each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ..design.base import Amplified
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation, Restriction
from ..privacy.rounding import finite, up
from ..privacy.setting import Setting
from ..privacy.windows import Window, joint_loss, worst_pattern
from .books import EVER, Books, SurveyBook
from .charged_sample import ChargedSample
from .other_settings import Implied, Rule, Unseen, implied
from .panels import Panel
from .spending import worst_sample
from .terms import Terms

NOT_FINITE = "with its delta, nothing finite is implied under this setting"
SAME_LABEL = "a unit has the same label in every wave, and nobody else has it"


class Dependence(Enum):
    """How the samples of a line depend on each other, and so what counts for them; printed in the words of `str`."""

    ALONE = "a sample of its own: composed, then amplified once"
    UNAMPLIFIED = "a sample of its own: composed; under this setting nothing amplifies it"
    SHARED = "samples of one key, by the mixture over the patterns in which somebody can be in them (Theorem L2)"
    JOINT = "samples of one key, taken as one joint sample: unamplified"
    PANEL = "the waves of a panel with levels on record, by the mixture over inclusion patterns (Theorem L4)"
    WHOLE = "a budget with delta counts as a whole from its first charge on (Theorem L3)"
    KEYED_WHOLE = "a keyed sample outside a panel, with a delta: its whole in-sample budget, unamplified"

    @property
    def needs_labels(self) -> bool:
        """Whether the loss rests on the labels of units: by them somebody has one number in every sample."""
        return self in (Dependence.SHARED, Dependence.PANEL)

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Line:
    """Samples that depend on each other: their loss together, and that of somebody known to be in them."""

    name: str
    surveys: tuple[str, ...]
    epsilon: float
    delta: float
    epsilon_in_sample: float
    dependence: Dependence
    # The rule by which it counts in this account.
    rule: Rule = Rule.OWN
    # The key of the panel that the line is for, if it is.
    panel: str = ""

    @property
    def how(self) -> str:
        """How it was counted, in words."""
        return "; ".join(filter(None, (str(self.dependence), str(self.rule))))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        fields = {"name": self.name, "surveys": list(self.surveys), "epsilon": self.epsilon, "delta": self.delta}
        return fields | {"epsilon_in_sample": finite(self.epsilon_in_sample), "how": self.how}


@dataclass(frozen=True)
class Account:
    """Everything of one population under one setting and relation: ever, or in one year.

    Surveys under other settings count where a proved rule says what they cost under this one; the others are `unseen`.
    """

    setting: Setting
    relation_name: Restriction
    period: str
    lines: tuple[Line, ...]
    population: str = ""
    # Surveys that spent something about which nothing is implied under this setting, and why.
    unseen: tuple[tuple[str, str], ...] = ()

    @property
    def epsilon(self) -> float:
        """The loss of somebody protected by the setting, from everything together."""
        return _added(line.epsilon for line in self.lines)

    @property
    def delta(self) -> float:
        """The delta that belongs to epsilon."""
        return _added(line.delta for line in self.lines)

    @property
    def epsilon_in_sample(self) -> float:
        """The loss of somebody known to be in the samples of one line, whichever is worst; the others as outsiders."""
        worst = worst_sample([(line.epsilon_in_sample, line.epsilon) for line in self.lines])
        if worst is None:
            return 0.0
        others = (line.epsilon for place, line in enumerate(self.lines) if place != worst)
        return _added([self.lines[worst].epsilon_in_sample, *others])

    @property
    def holds_when(self) -> tuple[str, ...]:
        """What the totals rest on, beside what each survey rests on."""
        return (SAME_LABEL,) if any(line.dependence.needs_labels for line in self.lines) else ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        fields: dict[str, Any] = {"setting": self.setting.to_dict(), "relation_name": self.relation_name, "period": self.period}
        fields |= {"population": self.population, "epsilon": self.epsilon, "delta": self.delta}
        fields |= {"epsilon_in_sample": finite(self.epsilon_in_sample)}
        fields |= {"unseen": [{"survey": name, "reason": reason} for name, reason in self.unseen]}
        return fields | {"lines": [line.to_dict() for line in self.lines], "holds_when": list(self.holds_when)}


def _added(values: Any) -> float:
    """The sum, rounded up where there is more than one."""
    found = [value for value in values if value]
    return 0.0 if not found else found[0] if len(found) == 1 else up(math.fsum(found))


def in_population(population: str, name: str) -> bool:
    """Whether a survey of a population is a part of another; where either has no name it counts, to be safe."""
    return not population or not name or population == name


def account(
    books: Books,
    setting: Setting,
    relation_name: Restriction = Restriction.NONE,
    period: str = EVER,
    more: Mapping[str, ChargedSample] | None = None,
    population: str = "",
) -> Account:
    """The account of one setting and relation in a population; `more` holds samples as they would be after a request.

    A relation with a name of its own is a part of the plain one: what is lost under the plain one counts there too.
    """
    wanted = more or {}
    charged = [each for survey in books.surveys.values() for each in _charged(survey, period, wanted)]
    charged += [each for each in wanted.values() if each.sample.id not in books.samples]
    rules: dict[str, Implied | Unseen] = {}
    counted, unseen = [], {}
    for each in charged:
        terms = each.survey.terms
        if not in_population(population, terms.frame.population):
            continue
        if terms.name not in rules:
            rules[terms.name] = implied(terms, setting, relation_name)
        rule = rules[terms.name]
        if isinstance(rule, Unseen):
            unseen[terms.name] = rule.reason
        else:
            counted.append(replace(each, under=rule))
    lines = tuple(_lines(books, setting, counted))
    for line in lines:
        unseen |= {} if math.isfinite(line.epsilon) else dict.fromkeys(line.surveys, NOT_FINITE)
    finite = tuple(line for line in lines if math.isfinite(line.epsilon))
    return Account(setting, relation_name, period, finite, population, tuple(unseen.items()))


def accounts(books: Books, period: str = EVER) -> list[Account]:
    """An account for each setting and relation that a survey or a budget is under."""
    return [account(books, setting, name, period, population=population) for population, setting, name in kept(books)]


def kept(books: Books) -> list[tuple[str, Setting, Restriction]]:
    """The populations, settings and relations that are accounted for."""
    own = [
        (terms.frame.population, terms.setting, terms.design.relation_name(terms.setting))
        for terms in (survey.terms for survey in books.surveys.values())
    ]
    limits = [
        (limit.population, limit.setting, name)
        for limit in books.budgets.values()
        for name in _relations(books, limit.population, limit.setting) or [Restriction.NONE]
    ]
    return list(dict.fromkeys([*own, *limits]))


def concerned(books: Books, terms: Terms, population: str, setting: Setting) -> list[Restriction]:
    """The names of the relations under a setting whose accounts a survey counts in; none where nothing is implied."""
    if not in_population(population, terms.frame.population):
        return []
    names = dict.fromkeys([Restriction.NONE, *_relations(books, population, setting), terms.design.relation_name(setting)])
    return [name for name in names if isinstance(implied(terms, setting, name), Implied)]


def _relations(books: Books, population: str, setting: Setting) -> list[Restriction]:
    """The names of the relations that surveys count under in the accounts of a setting, the plain one first."""
    found = set()
    for terms in (survey.terms for survey in books.surveys.values()):
        name = terms.design.relation_name(setting)
        if in_population(population, terms.frame.population) and isinstance(implied(terms, setting, name), Implied):
            found.add(name)
    return sorted(found)


def _charged(survey: SurveyBook, period: str, more: Mapping[str, ChargedSample]) -> Iterator[ChargedSample]:
    for sample in survey.samples.values():
        if sample.id in more:
            yield more[sample.id]
        elif running := sample.running(period):
            yield ChargedSample(survey, sample, running)


def _lines(books: Books, setting: Setting, charged: list[ChargedSample]) -> Iterator[Line]:
    by_panel: dict[str, list[ChargedSample]] = {}
    by_key: dict[str, list[ChargedSample]] = {}
    whole: dict[str, ChargedSample] = {}
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
        (loss, in_sample), delta = each.capped, each.survey.terms.budget.delta
        yield Line(each.survey.name, (each.survey.name,), loss, delta, in_sample, Dependence.WHOLE, each.rule)
    for key, several in by_panel.items():
        yield _panel_line(books.panels[key], setting, several)
    for key, several in by_key.items():
        yield from _key_lines(key, setting, several)


def _alone(each: ChargedSample) -> Line:
    loss, in_sample = each.losses
    hidden = isinstance(each.survey.terms.amplification, Amplified) and each.rule.amplified
    how = Dependence.ALONE if hidden else Dependence.UNAMPLIFIED
    return Line(f"{each.survey.name}, sample {each.sample.id[:8]}", (each.survey.name,), loss, 0.0, in_sample, how, each.rule)


def _mixture_holds(setting: Setting) -> bool:
    """Whether the mixtures over inclusion patterns are proved: for one unit more or less of the frame or the population."""
    return setting.neighbours == Relation.ADD_REMOVE and setting.level <= 1


def _panel_line(panel: Panel, setting: Setting, several: list[ChargedSample]) -> Line:
    names, first = tuple(dict.fromkeys(each.survey.name for each in several)), several[0]
    if not _mixture_holds(setting) or not all(each.rule.amplified for each in several):
        if not panel.measure.needs_delta:
            loss = _added(each.losses[1] for each in several)
        else:
            profile = PrivacyProfile(panel.unamplified(range(len(panel.windows))), Relation.ADD_REMOVE)
            loss = max((each.under.in_sample(profile) if each.under else profile).epsilon(panel.delta) for each in several)
        return Line(f"panel {panel.name}", names, loss, panel.delta, loss, Dependence.JOINT, first.rule, panel.key)
    if panel.measure.needs_delta:
        return Line(
            f"panel {panel.name}",
            names,
            panel.loss,
            panel.delta,
            panel.epsilon_in_sample,
            Dependence.PANEL,
            first.rule,
            panel.key,
        )
    losses = {wave_of(panel, each): _pure(each) for each in several}
    loss, in_sample = panel.pure_losses(losses)
    return Line(f"panel {panel.name}", names, loss, 0.0, in_sample, Dependence.SHARED, first.rule, panel.key)


def wave_of(panel: Panel, each: ChargedSample) -> int:
    """The wave of a panel that a sample is."""
    rate = each.survey.terms.design.recipe().poisson_rate
    assert rate is not None
    assert each.sample.start is not None
    return panel.wave(each.sample.start, rate)


def _pure(each: ChargedSample) -> float:
    return each.running.composed.epsilon(0.0)


def _key_lines(key: str, setting: Setting, several: list[ChargedSample]) -> Iterator[Line]:
    """The lines of a key outside panels."""
    names = tuple(dict.fromkeys(each.survey.name for each in several))
    pure = [each for each in several if each.survey.terms.budget.delta == 0.0]
    for each in several:
        if each.survey.terms.budget.delta > 0.0:
            epsilon, delta = each.capped[1], each.survey.terms.budget.delta
            name = f"{each.survey.name}, key {key[:8]}"
            yield Line(name, (each.survey.name,), epsilon, delta, epsilon, Dependence.KEYED_WHOLE, each.rule)
    if len(several) == 1 and pure:
        yield _alone(pure[0])
    elif pure:
        unamplified = _added(each.losses[1] for each in pure)
        rates = [_window_rate(each, setting) for each in several]
        if None in rates or len(pure) < len(several) or len({each.survey.terms.frame.unit for each in several}) > 1:
            yield Line(f"key {key[:8]}", names, unamplified, 0.0, unamplified, Dependence.JOINT, pure[0].rule)
            return
        windows = [Window(each.sample.start or 0.0, rate) for each, rate in zip(several, rates, strict=True) if rate]
        losses = [_pure(each) for each in several]
        loss, in_sample = joint_loss(windows, losses), worst_pattern(windows, losses)
        yield Line(f"key {key[:8]}", names, loss, 0.0, in_sample, Dependence.SHARED, pure[0].rule)


def _window_rate(each: ChargedSample, setting: Setting) -> float | None:
    """The length of the window of a keyed sample, where the mixture over patterns is proved for it."""
    own = each.survey.terms.setting
    if not _mixture_holds(setting) or not _mixture_holds(own) or not each.rule.amplified:
        return None
    return each.survey.terms.design.recipe().poisson_rate
