"""Books: what the entries add up to. A fold over the chain, entry by entry, so a new entry costs the same at any length."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

from ..errors import LedgerBroken, NotFound, SurveyError, did_you_mean
from ..privacy.budget import Budget
from ..privacy.measure import Measure
from ..privacy.profile import PrivacyProfile
from ..privacy.running import Running
from ..privacy.setting import Setting
from ..privacy.windows import Window
from .entry import START, Entry, canonical
from .panels import Panel
from .terms import Terms

EVER = "ever"


@dataclass
class SampleBook:
    """One sample on record, with everything charged to it, in total and by year."""

    id: str
    survey: str
    state: str
    drawn_at: str
    commitment: str | None = None
    key_hash: str | None = None
    key_commitment: str | None = None
    start: float | None = None
    charged: dict[str, Running] = field(default_factory=dict)
    profiles: list[PrivacyProfile] = field(default_factory=list)
    # How many charges were reserved before the first answer could be known.
    fixed: int | None = None

    def running(self, period: str = EVER) -> Running:
        """What was charged, ever or in one year."""
        return self.charged.get(period, Running())


@dataclass
class ReleaseBook:
    """One release: its charges, and whether its estimates are out."""

    id: str
    survey: str
    sample: str
    fingerprint: str
    reserved: Entry
    charges: list[dict[str, Any]]
    committed: Entry | None = None

    @property
    def state(self) -> str:
        """Reserved until its estimates are published, then committed."""
        return "committed" if self.committed else "reserved"


@dataclass
class SurveyBook:
    """One survey: its terms, its samples, and whether it is closed."""

    name: str
    fields: dict[str, Any]
    opened_at: str
    seq: int = 0
    samples: dict[str, SampleBook] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    closed: str | None = None
    # Losses by what was charged; the same sum is amplified once only.
    losses: dict[Any, tuple[float, float]] = field(default_factory=dict)
    caps: dict[Measure, float] = field(default_factory=dict)
    _terms: Terms | None = None

    @property
    def terms(self) -> Terms:
        """The terms that the survey was opened with."""
        if self._terms is None:
            try:
                self._terms = Terms.from_dict(self.fields)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, SurveyError):
                raise LedgerBroken(
                    f"the terms of the survey {self.name!r} cannot be understood", given=f"entry {self.seq}"
                ) from None
        return self._terms


@dataclass(frozen=True)
class AgencyBudget:
    """A limit on everything under one setting, of one population: in total, or for what is released in each year.

    `without` are surveys that it was set without: nothing is implied about what they cost under its setting.
    """

    setting: Setting
    budget: Budget
    per: str
    population: str = ""
    without: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How the limit is called in refusals and views."""
        whose = f"the agency for {self.population}" if self.population else "the agency"
        return whose if self.per == EVER else f"{whose} for a year"


@dataclass
class Books:
    """The state of a ledger after its entries so far."""

    id: str = ""
    count: int = 0
    head: str = START
    at: str = ""
    surveys: dict[str, SurveyBook] = field(default_factory=dict)
    samples: dict[str, SampleBook] = field(default_factory=dict)
    releases: dict[str, ReleaseBook] = field(default_factory=dict)
    budgets: dict[tuple[str, str, str], AgencyBudget] = field(default_factory=dict)
    panels: dict[str, Panel] = field(default_factory=dict)
    checks: set[str] = field(default_factory=set)
    anchors: list[str] = field(default_factory=list)
    merged: dict[str, int] = field(default_factory=dict)
    carried_to: str | None = None
    signed: int = 0

    def survey(self, name: str) -> SurveyBook:
        """A survey on record."""
        if name not in self.surveys:
            raise NotFound(f"the ledger has no survey {name!r}", hint=did_you_mean(name, self.surveys))
        return self.surveys[name]

    def apply(self, entry: Entry, hash: str) -> None:
        """Take one more entry into account."""
        try:
            _take(self, entry, entry.body, "")
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, SurveyError):
            raise LedgerBroken(
                f"entry {entry.seq} of the ledger cannot be understood", given=f"kind {entry.kind!r}, software {entry.software!r}"
            ) from None
        self.count, self.head, self.at = entry.seq, hash, entry.at


def setting_key(setting: Setting) -> str:
    """What budgets are kept apart by."""
    return canonical(setting.to_dict())


def _take(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    for name in _TEXTS & body.keys():
        if not isinstance(body[name], str):
            raise TypeError(name)
    if entry.kind == "brought":
        inner = Entry(**body["entry"])
        if inner.kind in _BROUGHT:
            _take(books, inner, inner.body, prefix + body["prefix"])
        return
    _KINDS[entry.kind](books, entry, body, prefix)


def _once(name: str, known: Container[str | None]) -> None:
    """What is on record is never replaced: an entry that tries to is none of ours."""
    if name in known:
        raise ValueError("on record already")


def _made(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    if books.id:
        raise ValueError("made twice")
    books.id = body["ledger"]


def _opened(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    fields = body["terms"] | {"name": prefix + body["terms"]["name"]}
    _once(fields["name"], books.surveys)
    books.surveys[fields["name"]] = SurveyBook(fields["name"], fields, entry.at, entry.seq)


def _closed(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    books.surveys[prefix + body["survey"]].closed = body["why"] or "no reason given"


def _budget(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    setting = Setting(**body["setting"])
    population = body.get("population", "")
    where = (population, setting_key(setting), body["per"])
    before = books.budgets.get(where)
    epsilon, delta = body["epsilon"], body["delta"]
    without = tuple(prefix + name for name in body.get("without", ()))
    if before is not None:
        # A limit is only ever lowered; of two ledgers that became one, the lower limit holds.
        epsilon, delta = min(epsilon, before.budget.epsilon), min(delta, before.budget.delta)
        without = tuple(dict.fromkeys((*before.without, *without)))
    books.budgets[where] = AgencyBudget(setting, Budget(epsilon, delta), body["per"], population, without)


def _panel(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    windows = tuple(Window(start, rate) for start, rate in body["windows"])
    fields = {name: body[name] for name in ("key", "fixed", "epsilon", "delta")} | {"measure": Measure(body["currency"])}
    panel = Panel(prefix + body["name"], windows, tuple(body["levels"]), Setting(**body["setting"]), **fields)
    _once(panel.key, books.panels)
    _once(panel.key, {sample.key_commitment for sample in books.samples.values()})
    _once(panel.name, {each.name for each in books.panels.values()})
    books.panels[panel.key] = panel


def _sample(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    _once(body["sample"], books.samples)
    sample = SampleBook(body["sample"], prefix + body["survey"], body["state"], entry.at)
    for name in ("commitment", "key_hash", "key_commitment", "start"):
        setattr(sample, name, body.get(name))
    books.samples[sample.id] = books.surveys[sample.survey].samples[sample.id] = sample


def _reserved(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    survey = books.surveys[prefix + body["survey"]]
    sample = survey.samples[body["sample"]]
    release = ReleaseBook(body["release"], survey.name, sample.id, body["fingerprint"], entry, body["charges"])
    _once(release.id, books.releases)
    profiles = [PrivacyProfile.from_dict(charge["profile"]) for charge in release.charges]
    for charge in release.charges:
        if not all(isinstance(each["kind"], str) for each in charge["asked"]) or not isinstance(charge.get("what", ""), str):
            raise TypeError("asked")
    for period in (EVER, entry.at[:4]):
        sample.charged[period] = sample.running(period).plus(*profiles)
    sample.profiles += profiles
    if sample.fixed is None:
        # What was reserved together with the first charge was settled before any answer.
        sample.fixed = len(profiles)
    books.releases[release.id] = release
    survey.fingerprints[release.fingerprint] = release.id


def _committed(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    release = books.releases[body["release"]]
    if release.committed is not None:
        raise ValueError("committed twice")
    release.committed = entry


def _checked(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    books.checks.add(body["fingerprint"])


def _anchored(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    if "\0" in body["where"]:
        raise ValueError("not a place")
    books.anchors = [place for place in books.anchors if place not in (body.get("instead_of"), body["where"])] + [body["where"]]


def _signed(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    books.signed = int(body["count"])


def _carried(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    books.carried_to = str(body["to"])


def _arrived(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    books.carried_to = None


def _merged(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    books.merged[body["ledger"]] = entry.seq


def _clock(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    """The entries before it had the wrong time: what they charged to later years counts in this one too."""
    year = entry.at[:4]
    for release in books.releases.values():
        if release.reserved.at[:4] > year:
            sample = books.samples[release.sample]
            profiles = [PrivacyProfile.from_dict(charge["profile"]) for charge in release.charges]
            sample.charged[year] = sample.running(year).plus(*profiles)


def _migrated(books: Books, entry: Entry, body: dict[str, Any], prefix: str) -> None:
    """Says from which version the entries before it were taken."""


_KINDS: dict[str, Callable[[Books, Entry, dict[str, Any], str], None]] = {
    "made": _made,
    "opened": _opened,
    "closed": _closed,
    "budget": _budget,
    "panel": _panel,
    "sample": _sample,
    "reserved": _reserved,
    "committed": _committed,
    "checked": _checked,
    "anchored": _anchored,
    "signed": _signed,
    "carried": _carried,
    "arrived": _arrived,
    "merged": _merged,
    "migrated": _migrated,
    "clock": _clock,
}
# What is a text in an entry of any kind.
_TEXTS = {
    "ledger",
    "survey",
    "sample",
    "state",
    "release",
    "fingerprint",
    "where",
    "instead_of",
    "why",
    "key",
    "currency",
    "name",
}
_TEXTS |= {"population", "prefix", "per", "release_hash", "key_hash", "commitment", "key_commitment", "head", "signature"}
# What another ledger brings along: what it guaranteed and spent; its anchors, signatures and moves stay its own.
_BROUGHT = ("opened", "closed", "budget", "panel", "sample", "reserved", "committed", "brought", "merged")
