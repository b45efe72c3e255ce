"""The ledger: surveys, samples and what was charged to each. It can refuse, and never forgets."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import AlreadyReleased, BadValue, LedgerBroken, LedgerDisagrees, NotFound, SurveyError
from ..privacy.budget import Budget
from ..privacy.profile import PrivacyProfile
from ..privacy.setting import Setting
from . import views
from .accounts import Account, accounts
from .books import EVER, AgencyBudget, ReleaseBook, SampleBook, SurveyBook
from .chain import WholeChain
from .documents import document_hash
from .journal import refuse_carried
from .limits import check_limit, check_panel
from .panels import Panel
from .quotes import Quote, check_wave, next_charged, quote, refuse_other_terms
from .request import Charge, Request
from .samples import SealedSample, by_shared_key, in_words, refuse_second_draw, with_file
from .schema import CHECKS
from .spending import Spending, survey_spending
from .terms import Terms

PERIODS = (EVER, "year")


class Ledger(WholeChain):
    """Append-only entries: surveys, samples, and what was charged to each. Can refuse; never forgets.

    A path is a SQLite file; `postgresql://user@host/base#schema` is a schema on a server that a team shares. `anchor` is a
    second place that remembers how far the ledger had come, so that a ledger that was rolled back refuses to spend.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Ledger(os.path.join(folder, "books.ledger")).surveys()
    []
    """

    # Surveys

    def surveys(self) -> list[str]:
        """The names of all surveys on record, in the order in which they were opened."""
        return list(self._books.surveys)

    def terms(self, survey: str) -> Terms:
        """The terms a survey was opened with."""
        return self._books.survey(survey).terms

    def open_survey(self, terms: Terms) -> None:
        """Put a survey on record, or make sure that its terms are those on record."""
        self.check_survey(terms)
        if terms.name not in self._books.surveys:
            with self._journal.writing() as pen:
                if terms.name not in self._journal.books.surveys:
                    pen.write("opened", {"terms": terms.to_dict()})
            self.check_survey(terms)

    def check_survey(self, terms: Terms) -> None:
        """Refuse terms that are not those on record, where the survey is on record. Writes nothing."""
        if not terms.name.isprintable():
            raise BadValue("the name of a survey is one line of text that can be printed")
        found = self._books.surveys.get(terms.name)
        if found is not None:
            refuse_other_terms(found, terms)

    def close_survey(self, survey: str, why: str = "") -> None:
        """End a survey: nothing more is drawn or released for it; what it spent stays on record."""
        with self._journal.writing() as pen:
            _open_still(self._journal.books.survey(survey))
            pen.write("closed", {"survey": survey, "why": why})

    # Samples

    def seal(self, survey: str, sample: SealedSample, *, new: bool) -> None:
        """Put a draw on record whose units were written to a file, with a keyed hash of that file."""
        if sample.path is None or sample.key is None or (sample.key_commitment is None) != (sample.start is None):
            raise BadValue("a sealed sample has a file with the key of its hash, and a start where it was drawn with a key")
        with self._journal.writing() as pen:
            found = self._journal.books.survey(survey)
            _open_still(found)
            # Asked again under the lock: two processes may have drawn at the same time.
            refuse_second_draw(found, sample.key_commitment, new=new)
            check_wave(self._journal.books, found, sample.key_commitment, sample.start)
            pen.write("sample", sample.body(survey))
            self._journal.store.add_file(pen.connection, sample.id, sample.path, sample.key)

    def refuse_second_draw(
        self, terms: Terms, key_commitment: str | None = None, start: float | None = None, *, new: bool = False
    ) -> None:
        """Refuse a draw that could not be put on record, before it is made."""
        survey = self._books.surveys.get(terms.name)
        refuse_second_draw(survey, key_commitment, new=new)
        if survey is not None:
            _open_still(survey)
            check_wave(self._journal.books, survey, key_commitment, start)

    def samples(self, survey: str | None = None) -> list[dict[str, Any]]:
        """Every sample on record, oldest first, with the commitment of the key it was drawn with."""
        return [in_words(each) for each in self._books.samples.values() if survey in (None, each.survey)]

    def sharing_a_key(self) -> dict[str, list[dict[str, Any]]]:
        """The samples of each key that has drawn more than one: they depend on each other."""
        return by_shared_key(self.samples())

    def sealed_sample(self, survey: str) -> SealedSample | None:
        """The newest sealed sample of a survey."""
        found = self._books.surveys.get(survey)
        sealed = [each for each in found.samples.values() if each.state == "sealed"] if found else []
        if not sealed:
            return None
        store = self._journal.store
        folder = None if store.address.is_server else os.path.dirname(os.path.abspath(store.address.path))
        with store.reading() as connection:
            return with_file(sealed[-1], store.file_of(connection, sealed[-1].id), folder)

    def collected_sample(self, survey: str) -> SealedSample:
        """The one sample of a survey of a collected file; put on record when it is first asked for."""
        found = next((each for each in self._books.survey(survey).samples.values() if each.state == "drawn"), None)
        if found is None:
            with self._journal.writing() as pen:
                found = next((each for each in self._journal.books.survey(survey).samples.values()), None)
                if found is None:
                    sample = SealedSample(uuid.uuid4().hex)
                    _open_still(self._journal.books.survey(survey))
                    pen.write("sample", sample.body(survey))
                    return sample
        return SealedSample(found.id)

    # Charges

    def reserve(self, request: Request, sample: SealedSample | None) -> tuple[str, SealedSample]:
        """Write the charges of a request before anything is drawn or summed; refuse if they do not fit.

        Without a sample a new one is put on record. Returns the id of the release, and the sample.
        """
        release, charged = uuid.uuid4().hex, sample or SealedSample(uuid.uuid4().hex)
        name, asked = request.terms.name, request.fingerprint
        with self._journal.writing() as pen:
            books = self._journal.books
            survey = books.survey(name)
            _open_still(survey)
            if (charged.id in books.samples) != (charged.id in survey.samples) or (
                charged.id not in books.samples and charged != SealedSample(charged.id)
            ):
                raise LedgerDisagrees(f"the survey {name!r} has no such sample", given=charged.id)
            if asked in survey.fingerprints:
                raise _already(books.releases[survey.fingerprints[asked]])
            book = survey.samples.get(charged.id) or SampleBook(charged.id, name, "drawn", pen.at)
            check_wave(books, survey, book.key_commitment, book.start, charged=True)
            quote(books, survey, book, request.profiles, pen.at[:4]).refuse()
            self._journal.store.keep_documents(pen.connection)
            if charged.id not in survey.samples:
                pen.write("sample", charged.body(name))
            charges = [charge.to_dict() for charge in request.charges]
            body = {"release": release, "survey": name, "sample": charged.id, "fingerprint": asked, "charges": charges}
            pen.write("reserved", body)
        return release, charged

    def book(self, survey: str, profile: PrivacyProfile | Sequence[PrivacyProfile], what: str, sample: str | None = None) -> str:
        """Reserve a charge for something that was made elsewhere, before it is made; `commit` it once it is published.

        `profile` is what it costs somebody in the sample; several are one release, settled together. `sample` is the id of
        the sample; without it a new one is put on record. Returns the id of the release.
        """
        profiles = [profile] if isinstance(profile, PrivacyProfile) else list(profile)
        if not what or not profiles:
            raise BadValue("say what is released, and what it costs", hint="what=, profile=")
        books = self._books
        for each in profiles:
            books.survey(survey).terms.amplify(each)
        if sample is not None and sample not in books.survey(survey).samples:
            raise LedgerDisagrees(f"the survey {survey!r} has no such sample", given=sample)
        charges = tuple(Charge(each, what=what) for each in profiles)
        request = Request(books.survey(survey).terms, charges, uuid.uuid4().hex)
        return self.reserve(request, None if sample is None else SealedSample(sample))[0]

    def commit(self, release: str, release_hash: str, document: Mapping[str, Any] | None = None) -> None:
        """Mark the charges of a release as published; its document is kept in the same step, so that it is never lost."""
        with self._journal.writing() as pen:
            found = self._journal.books.releases.get(release)
            if found is None or found.committed is not None:
                raise LedgerDisagrees("there is no such reservation", given=release)
            if document is not None:
                self._journal.store.add_documents(pen.connection, {release: json.dumps(document)})
            pen.write("committed", {"release": release, "release_hash": release_hash})

    def released(self, request: Request) -> dict[str, Any]:
        """The document that was published for a request, word for word, as often as it is wanted. Spends nothing."""
        books = self._books
        survey = books.survey(request.terms.name)
        refuse_other_terms(survey, request.terms)
        if request.fingerprint not in survey.fingerprints:
            raise NotFound("this plan was not released yet", hint="plan.release(), or dpsurvey release without --again")
        found = books.releases[survey.fingerprints[request.fingerprint]]
        if found.committed is None:
            raise interrupted()
        with self._journal.store.reading() as connection:
            kept = self._journal.store.documents(connection, found.id)
        if found.id not in kept:
            raise NotFound(
                "the ledger does not hold what this release published",
                because="it was made before version 0.9, or elsewhere",
                hint="its release.json has the estimates",
            )
        document: dict[str, Any] = json.loads(kept[found.id])
        if document_hash(document) != found.committed.body["release_hash"]:
            raise LedgerBroken("what the ledger keeps of this release is not what was committed", given=found.id)
        return document

    def quote(self, request: Request, sample: str | None = None) -> Quote:
        """What a request would cost now, at every level, and what would be left; or why it is refused. Spends nothing."""
        books, terms = self._books, request.terms
        survey = books.surveys.get(terms.name) or SurveyBook(terms.name, terms.to_dict(), "")
        book = survey.samples.get(sample or "") or next_charged(survey, terms) or SampleBook("new", terms.name, "drawn", "")
        try:
            refuse_carried(books)
            refuse_other_terms(survey, terms)
            _open_still(survey)
            if request.fingerprint in survey.fingerprints:
                raise _already(books.releases[survey.fingerprints[request.fingerprint]])
            check_wave(books, survey, book.key_commitment, book.start, charged=True)
            return quote(books, survey, book, request.profiles, self._journal.year)
        except SurveyError as error:
            return Quote((), survey_spending(survey), error)

    def spending(self, terms: Terms) -> Spending:
        """What a survey has spent: composed inside each sample, amplified once, added over samples."""
        found = self._books.surveys.get(terms.name)
        return survey_spending(found or SurveyBook(terms.name, terms.to_dict(), ""))

    def charges(self, survey: str) -> list[dict[str, Any]]:
        """Every charge of a survey, oldest first."""
        books = self._books
        return [charge for each in books.releases.values() if each.survey == survey for charge in views.charges(each)]

    def was_checked(self, fingerprint: str) -> bool:
        """Whether a frame file, as it is now, was already checked against these expectations."""
        with self._journal.store.reading() as connection:
            key = self._journal.store.check_key(connection)
        return key is not None and _mark(key, fingerprint) in self._books.checks

    def note_check(self, fingerprint: str) -> None:
        """Remember that a frame file passed its check, by a mark that says nothing to anybody without the key of the ledger."""
        with self._journal.writing() as pen:
            key = self._journal.store.check_key(pen.connection)
            if key is None:
                key = secrets.token_hex(32)
                self._journal.store.add_file(pen.connection, CHECKS, "", key)
            if (mark := _mark(key, fingerprint)) not in self._journal.books.checks:
                pen.write("checked", {"fingerprint": mark})

    # The agency

    def set_budget(
        self,
        setting: Setting,
        budget: Budget,
        per: str = EVER,
        *,
        population: str = "",
        without: Sequence[str] = (),
        although_spent: bool = False,
    ) -> None:
        """A limit on everything of a population under one setting, in total or in each year. It can be lowered, never raised.

        Surveys under other settings count where it is proved what they cost under this one. Where nothing is, the limit is
        refused, and so is what such a survey would spend later, unless `without` names it. Surveys whose frame declares another
        population do not count. A limit below what was spent already stops every survey, for good; it is refused unless
        `although_spent`.
        """
        if per not in PERIODS:
            raise BadValue(f"unknown period {per!r}", hint="use 'ever' or 'year'")
        if isinstance(without, str) or not all(isinstance(name, str) for name in without):
            raise BadValue("without= takes names of surveys", hint='without=["firms 2026"]')
        limit = AgencyBudget(setting, budget, per, population, tuple(without))
        with self._journal.writing() as pen:
            check_limit(self._journal.books, limit, pen.at[:4], although_spent=although_spent)
            body: dict[str, Any] = {"setting": setting.to_dict(), "epsilon": budget.epsilon, "delta": budget.delta, "per": per}
            body |= {"population": population} if population else {}
            pen.write("budget", body | ({"without": list(without)} if without else {}))

    def open_panel(self, panel: Panel) -> None:
        """Put the waves and levels of a panel on record, before its key has drawn anything."""
        with self._journal.writing() as pen:
            check_panel(self._journal.books, panel)
            pen.write("panel", panel.body())

    def panels(self) -> list[Panel]:
        """The panels on record."""
        return list(self._books.panels.values())

    def accounts(self, period: str = EVER) -> list[Account]:
        """What everything costs together, for each population, setting and relation; `period` is "ever" or a year."""
        return accounts(self._books, period)

    def tree(self) -> dict[str, Any]:
        """Agency, surveys, samples and charges, with what is spent and left: in total, and in the running year."""
        return views.tree(self._books) | {"warning": self._journal.warning()}


def _mark(key: str, fingerprint: str) -> str:
    # The size of a confidential file is in its fingerprint, and a plain hash of it could be guessed.
    return hmac.new(bytes.fromhex(key), fingerprint.encode(), "sha256").hexdigest()


def _open_still(survey: SurveyBook) -> None:
    if survey.closed is not None:
        raise LedgerDisagrees(
            f"the survey {survey.name!r} is closed",
            because=survey.closed,
            hint="another survey, with a name and a budget of its own",
        )


ANOTHER_SHARE = "plan another share= (in a survey file: share in [release])"


def interrupted() -> AlreadyReleased:
    """The refusal of a plan whose estimates were lost before they were published."""
    because = "an earlier release of it was interrupted: its charge stays, and nothing was published"
    return AlreadyReleased("this plan was already released", because=because, hint=ANOTHER_SHARE)


def _already(release: ReleaseBook) -> AlreadyReleased:
    if release.committed is None:
        return interrupted()
    hint = f"survey.released(plan), or dpsurvey release --again, gives them again; to ask with fresh noise, {ANOTHER_SHARE}"
    return AlreadyReleased("this plan was already released", because="its estimates are published", hint=hint)
