"""Survey: a frame, a design, a setting, a budget and a ledger. Plans, draws and releases."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from .design import Design
from .engine import Engine, Expectations
from .errors import BadValue, LedgerDisagrees, NotFound
from .frame import Frame
from .ledger import Ledger, SealedSample
from .plan import Plan
from .privacy import Budget, Setting
from .release import Release
from .statistic import Statistic
from .terms import Terms

Progress = Callable[[str, int, int], None]


class Survey:
    """A frame, a design, a setting, a budget and a ledger: the object that plans, draws and releases.

    Without `setting` the sample is protected with the frame held fixed, the setting that promises most to those who
    are sampled; amplification by sampling has to be asked for with `Setting(protect="frame", ...)`.

    >>> frame = Frame("register.parquet", unit="person_id", size=1_000_000)
    >>> from dpsurvey import poisson
    >>> Survey(frame, poisson(0.02), Setting("frame", neighbours="add-remove"), budget=Budget(1.0), ledger="lfs.ledger")
    Survey('survey', poisson, protect='frame', epsilon=1.0)
    """

    def __init__(
        self,
        frame: Frame,
        design: Design,
        setting: Setting | None = None,
        *,
        budget: Budget,
        ledger: str | os.PathLike[str],
        name: str = "survey",
        progress: Progress | None = None,
    ) -> None:
        for value, kind in ((frame, Frame), (design, Design), (budget, Budget), (setting, Setting | None)):
            if not isinstance(value, kind):
                words = (
                    "frame, design, setting and budget are made by ds.Frame, ds.poisson (srs, stratified), ds.Setting, ds.Budget"
                )
                raise BadValue("an argument of Survey is of the wrong kind", given=f"a {type(value).__name__}", hint=words)
        if frame.size is None:
            raise BadValue(
                "a survey needs the public size of its frame",
                because="normalisers are declared, never read from rows",
                hint="declare Frame(..., size=N)",
            )
        if setting is None:
            setting = Setting("sample", given="frame", neighbours="replace-one" if design.fixed_size else "add-remove")
        self.terms = Terms(name, frame, design.resolve(frame), setting, budget)
        self.ledger_path = os.fspath(ledger)
        self.progress: Progress = progress or (lambda what, done, total: None)
        self._engine: Engine | None = None
        self._drawn: SealedSample | None = None

    def __repr__(self) -> str:
        terms = self.terms
        return f"Survey({terms.name!r}, {terms.design.kind}, protect={terms.setting.protect!r}, epsilon={terms.budget.epsilon})"

    def plan(self, *statistics: Statistic, share: float = 1.0, weights: Sequence[float] = (), responses: Any = None) -> Plan:
        """A plan of these statistics, spending a share of what one sample may be charged. Reads no rows.

        `weights` divide the share among the statistics (equal without them). `responses` is the table of answers
        that came back for a sealed sample; without it values come from the frame itself.
        """
        return Plan(self.terms, tuple(statistics), share, tuple(weights), responses, self.release).validated()

    def check(self, plan: Plan | None = None) -> None:
        """Check the frame against everything that was declared. Spends nothing, prints nothing of any row."""
        expected = self._expectations(plan)
        self._open().check_columns(expected)
        ledger = Ledger(self.ledger_path)
        if self.terms.name in ledger.surveys():
            ledger.open_survey(self.terms)
        self._check_rows(ledger, expected, again=True)
        ledger.close()

    def draw(self, path: str | os.PathLike[str], plan: Plan | None = None, *, new: bool = False) -> SealedSample:
        """Draw the units to interview, write them with their weights, and seal the sample in the ledger."""
        expected = self._expectations(plan)
        target = os.path.abspath(os.fspath(path))
        if not target.endswith(".parquet"):
            raise BadValue("a sample is written as .parquet", given=os.fspath(path))
        if not os.path.isdir(os.path.dirname(target)):
            raise NotFound(f"there is no folder {os.path.dirname(target)!r}")
        # An engine of its own: a sample on record as new must not be one that was released from before.
        engine = Engine(self.terms.frame.table)
        engine.check_columns(expected)
        ledger = Ledger(self.ledger_path)
        ledger.open_survey(self.terms)
        if ledger.sealed_sample(self.terms.name) and not new:
            raise LedgerDisagrees(
                "a sample of this survey is sealed already",
                hint="release from it, or draw an independent one with new=True (--new-sample)",
            )
        self._check_rows(ledger, expected)
        self.progress("drawing in secret", 0, 1)
        engine.draw(self.terms.design, expected)
        engine.write_sample(target, self.terms.frame.unit, self.terms.design)
        self.progress("drawing in secret", 1, 1)
        key = secrets.token_hex(32)
        sealed = ledger.seal(self.terms.name, target, key, _file_hash(target, key))
        ledger.close()
        return sealed

    def release(self, plan: Plan) -> Release:
        """Spend, draw (once per sample), add noise, publish. A failure after the reservation stays spent."""
        expected = self._expectations(plan)
        engine = self._open()
        ledger = Ledger(self.ledger_path)
        try:
            ledger.open_survey(self.terms)
            sealed = ledger.sealed_sample(self.terms.name)
            self._check_before(engine, ledger, sealed, plan, expected)
            reservation, sample = ledger.reserve(plan, sealed or self._drawn)
            self._drawn = sample
            self.progress("taking the sample", 0, 1)
            if sealed is None:
                engine.draw(self.terms.design, expected)
            elif not plan.respondents_only:
                engine.load(str(sealed.path), expected)
            self.progress("taking the sample", 1, 1)
            noisy = self._noisy_sums(engine, plan)
            totals = ledger.spending(self.terms)
            guarantee = self.terms.guarantee(totals.charges_of(sample.id), totals.elsewhere(sample.id), totals.known)
            about = {"id": sample.id, "design": self.terms.design.to_dict(), "engine": engine.name, "sealed": sealed is not None}
            release = Release.make(plan, noisy, about, guarantee.to_dict(), totals.to_dict())
            ledger.commit(reservation, release.hash)
            return release
        finally:
            ledger.close()

    def _noisy_sums(self, engine: Engine, plan: Plan) -> list[list[list[int]]]:
        noisy = []
        for done, item in enumerate(plan.items):
            self.progress("summing and adding noise", done, len(plan.items))
            # Straight from the engine into the noise: no variable of this function ever holds an exact sum.
            flat = item.mechanism.randomize(engine.sums(item.query).values.ravel().tolist())
            width = item.query.components
            noisy.append([flat[start : start + width] for start in range(0, len(flat), width)])
        self.progress("summing and adding noise", len(plan.items), len(plan.items))
        return noisy

    def _check_before(
        self, engine: Engine, ledger: Ledger, sealed: SealedSample | None, plan: Plan, expected: Expectations
    ) -> None:
        """Everything that can be wrong with the input, before anything is spent."""
        if plan.respondents_only:
            engine.check_responses(plan.responses, expected)
        else:
            engine.check_columns(expected)
        if sealed is not None:
            if not os.path.exists(str(sealed.path)):
                raise NotFound(
                    "the file of the sealed sample is gone", given=str(sealed.path), hint="put it back; the ledger knows its hash"
                )
            if _file_hash(str(sealed.path), str(sealed.key)) != sealed.commitment:
                raise LedgerDisagrees("the file of the sealed sample is not the one that was sealed", given=str(sealed.path))
        elif plan.respondents_only:
            raise NotFound("responses need a sealed sample", hint="draw one first: survey.draw(...), or dpsurvey draw")
        if plan.respondents_only:
            engine.load_responses(str(sealed.path if sealed else ""), plan.responses, expected)
        else:
            self._check_rows(ledger, expected)

    def _open(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(self.terms.frame.table)
        return self._engine

    def _expectations(self, plan: Plan | None) -> Expectations:
        if plan is not None and plan.terms != self.terms:
            raise BadValue("this plan was made by a survey with other terms", hint="plan with the survey that releases")
        frame, design, setting = self.terms.frame, self.terms.design, self.terms.setting
        queries = [item.query for item in plan.items] if plan else []
        grouping = {column: frame.labels(column) for query in queries for column in query.by}
        grouping |= {
            str(query.column): frame.labels(query.column)
            for query in queries
            if query.column in frame.categories and query.column and query.bounds is None
        }
        strata = {design.strata_column: frame.labels(design.strata_column)} if design.strata_column else {}
        # Declared sizes are compared with the frame only where every neighbour has the same ones.
        rests_on_sizes = design.fixed_size and setting.protect == "frame" and setting.neighbours == "replace-one"
        fixed = setting.weights_fixed or rests_on_sizes
        return Expectations(
            unit=frame.unit,
            numeric=tuple(dict.fromkeys(query.column for query in queries if query.column and query.bounds)),
            present=tuple(dict.fromkeys(query.column for query in queries if query.column and not query.bounds)),
            categories=strata | grouping,
            strata=design.strata_column,
            takes={part.label: part.take for part in design.parts() if part.take is not None},
            size=frame.size if fixed else None,
            sizes={column: sizes for column, sizes in frame.category_sizes.items() if fixed and column in strata},
        )

    def _check_rows(self, ledger: Ledger, expected: Expectations, *, again: bool = False) -> None:
        fingerprint = _frame_fingerprint(self.terms.frame.table, expected)
        if fingerprint and not again and ledger.was_checked(fingerprint):
            return
        self.progress("checking rows", 0, 1)
        self._open().check_rows(expected)
        self.progress("checking rows", 1, 1)
        if fingerprint:
            ledger.note_check(fingerprint)


def _frame_fingerprint(table: Any, expected: Expectations) -> str | None:
    """A hash of a file as it is now and of what is expected of it; None for tables in memory."""
    if not isinstance(table, str) or not os.path.isfile(table):
        return None
    stat = os.stat(table)
    facts = [
        os.path.abspath(table),
        stat.st_size,
        stat.st_mtime_ns,
        expected.strata,
        expected.columns,
        expected.numeric,
        dict(expected.categories),
        expected.size,
        {key: dict(value) for key, value in expected.sizes.items()},
        list(expected.takes.items()),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _file_hash(path: str, key: str) -> str:
    """A keyed hash: without the key nobody can confirm a guess of who was drawn by hashing a guessed file."""
    with open(path, "rb") as file:
        return hmac.new(bytes.fromhex(key), file.read(), "sha256").hexdigest()
