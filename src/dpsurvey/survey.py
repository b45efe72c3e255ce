"""Survey: a frame, a design, a setting, a budget and a ledger. Plans, draws and releases."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import uuid
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from .design import Design, declared_clusters
from .design.recipe import can_be_shifted, fixed_counts, fixed_takes
from .engine import Engine, Expectations
from .errors import BadValue, LedgerDisagrees, NotFound, did_you_mean
from .frame import Frame
from .key import Key
from .ledger import Ledger, SealedSample
from .plan import Plan
from .privacy import Budget, Setting
from .release import Release
from .sample_file import file_hash, sample_target, write_sample_file
from .statistic import Statistic, columns_asked
from .terms import KEY_SECRET, Terms

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
        weight_range: tuple[float, float] | None = None,
        engine: str = "duckdb",
        progress: Progress | None = None,
    ) -> None:
        for value, kind in ((frame, Frame), (design, Design), (budget, Budget), (setting, Setting | None)):
            if not isinstance(value, kind):
                words = "frame, design, setting and budget are made by ds.Frame, ds.srs (poisson, ...), ds.Setting, ds.Budget"
                raise BadValue("an argument of Survey is of the wrong kind", given=f"a {type(value).__name__}", hint=words)
        if frame.size is None:
            raise BadValue(
                "a survey needs the public size of its frame",
                because="normalisers are declared, never read from rows",
                hint="declare Frame(..., size=N)",
            )
        design = design.resolve(frame)
        if setting is None:
            setting = Setting("sample", given="frame", neighbours="replace-one" if design.fixed_size else "add-remove")
            if design.refuses(setting):
                setting = Setting("sample", given="frame", neighbours="replace-one")
        self.terms = Terms(name, frame, design, setting, budget, weight_range)
        if engine not in ("duckdb", "spark"):
            raise BadValue(f"unknown engine {engine!r}", hint=did_you_mean(str(engine), ("duckdb", "spark")))
        self.engine = engine
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
        self._check_rows(ledger, expected, self._open(), again=True)
        ledger.close()

    def draw(
        self,
        path: str | os.PathLike[str],
        plan: Plan | None = None,
        *,
        new: bool = False,
        key: Key | None = None,
        start: float = 0.0,
    ) -> SealedSample:
        """Draw the units to interview, write them with their weights, and seal the sample in the ledger.

        Without a key the draw is secret and cannot be made again. With one, each unit has a permanent random number:
        the same key draws the same units on every engine, and `start` in [0, 1) says where the numbers of this sample
        begin, so that surveys can share units or avoid each other.
        """
        if not isinstance(key, Key | None):
            raise BadValue("key= takes a Key", given=f"a {type(key).__name__}", hint='Key.read("panel.key")')
        if isinstance(start, bool) or not isinstance(start, int | float) or not 0.0 <= start < 1.0 or (start and key is None):
            raise BadValue("start is a number in [0, 1), and needs a key", given=f"start={start}, key={'given' if key else None}")
        if start and not can_be_shifted(self.terms.design.recipe()):
            raise BadValue(
                "a start does not coordinate this design",
                because="who is drawn does not depend on the order of the permanent random numbers alone",
                hint="srs, poisson, proportional, Pareto PPS, and strata or clusters drawn by them can be coordinated",
            )
        expected, terms = self._expectations(plan), self.terms
        target = sample_target(path)
        # An engine of its own: a sample on record as new must not be one that was released from before.
        engine = Engine(terms.frame.table, self.engine)
        engine.check_columns(expected)
        ledger = Ledger(self.ledger_path)
        try:
            ledger.open_survey(terms)
            shared = key.commitment if key else None
            ledger.refuse_second_draw(terms.name, shared, new=new)
            self._check_rows(ledger, expected, engine)
            recipe = terms.design.recipe()
            self.progress("drawing in secret", 0, 100)
            engine.draw(recipe, expected, key, start, lambda done: self.progress("drawing in secret", int(99 * done), 100))
            engine.check_unchanged()
            self.progress("drawing in secret", 100, 100)
            self.progress("writing and sealing", 0, 1)
            file_key, found = secrets.token_hex(32), SealedSample(uuid.uuid4().hex)
            public = getattr(terms.design, "allocation", "public") == "public"
            manifest = {
                "sample": found.id,
                "survey": terms.name,
                # Sizes computed from the confidential frame are not for a file that is passed on.
                "design": terms.design.to_dict() if public else {"kind": terms.design.kind, "allocation": "confidential"},
                "counts": fixed_counts(recipe) if public else {},
                "engine": engine.name,
                "software": f"dpsurvey {version('dpsurvey')}",
                "key_commitment": shared,
                "start": start if key else None,
            }

            def seal(commitment: str) -> None:
                nonlocal found
                begins = start if key else None
                found = SealedSample(found.id, target, file_key, commitment, shared, begins)
                ledger.seal(terms.name, found, new=new)

            write_sample_file(target, lambda file: engine.write_sample(file, terms.frame.unit, recipe), file_key, manifest, seal)
            self.progress("writing and sealing", 1, 1)
            return found
        finally:
            ledger.close()

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
                engine.draw(self.terms.design.recipe(), expected)
                engine.check_unchanged()
            elif not plan.respondents_only:
                engine.load(str(sealed.path), expected)
            self.progress("taking the sample", 1, 1)
            noisy = self._noisy_sums(engine, plan)
            totals = ledger.spending(self.terms)
            by_key = (KEY_SECRET,) if sealed is not None and sealed.key_commitment else ()
            guarantee = self.terms.guarantee(totals.charges_of(sample.id), totals.elsewhere(sample.id), totals.known, by_key)
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
            if file_hash(str(sealed.path), str(sealed.key)) != sealed.commitment:
                raise LedgerDisagrees("the file of the sealed sample is not the one that was sealed", given=str(sealed.path))
        elif plan.respondents_only:
            raise NotFound("responses need a sealed sample", hint="draw one first: survey.draw(...), or dpsurvey draw")
        if plan.respondents_only:
            engine.load_responses(str(sealed.path if sealed else ""), plan.responses, expected)
        else:
            self._check_rows(ledger, expected, engine)

    def _open(self) -> Engine:
        if self._engine is not None and self._engine.has_drawn:
            # Its sample is on record; a sample of another file would go by the same name.
            self._engine.check_unchanged()
        elif self._engine is None or self._engine.is_stale():
            self._engine = Engine(self.terms.frame.table, self.engine)
        return self._engine

    def _expectations(self, plan: Plan | None) -> Expectations:
        if plan is not None and plan.terms != self.terms:
            raise BadValue("this plan was made by a survey with other terms", hint="plan with the survey that releases")
        frame, design, setting = self.terms.frame, self.terms.design, self.terms.setting
        queries = [item.query for item in plan.items] if plan else []
        asked = columns_asked(queries)
        grouping = {column: frame.labels(column) for column in asked.grouping}
        grouping |= {column: frame.labels(column) for column in asked.labelled if column in frame.categories}
        strata = {design.strata_column: frame.labels(design.strata_column)} if design.strata_column else {}
        # Declared sizes are compared with the frame only where every neighbour has the same ones.
        in_place = setting.protect == "frame" and setting.neighbours == "replace-one"
        fixed = setting.weights_fixed or (design.rests_on_sizes and in_place)
        recipe = design.recipe()
        return Expectations(
            unit=frame.unit,
            numeric=asked.measured,
            present=asked.labelled,
            categories=strata | grouping,
            strata=design.strata_column,
            takes=fixed_takes(recipe),
            used=tuple(column for role in ("cluster", "order") for column in recipe.columns(role)),
            positive=tuple(column for role in ("size", "rate") for column in recipe.columns(role)),
            clusters=declared_clusters(design),
            size=frame.size if fixed else None,
            sizes={column: sizes for column, sizes in frame.category_sizes.items() if fixed and column in strata},
        )

    def _check_rows(self, ledger: Ledger, expected: Expectations, engine: Engine, *, again: bool = False) -> None:
        fingerprint = _frame_fingerprint(engine.stamp, expected)
        if fingerprint and not again and ledger.was_checked(fingerprint):
            return
        self.progress("checking rows", 0, 1)
        engine.check_rows(expected)
        engine.check_unchanged()
        self.progress("checking rows", 1, 1)
        if fingerprint:
            ledger.note_check(fingerprint)


def _frame_fingerprint(stamp: tuple[Any, ...] | None, expected: Expectations) -> str | None:
    """A hash of a file as it was opened and of what is expected of it; None for tables in memory."""
    if stamp is None:
        return None
    facts = [
        stamp,
        expected.strata,
        expected.columns,
        expected.numeric,
        expected.positive,
        dict(expected.categories),
        expected.size,
        {key: dict(value) for key, value in expected.sizes.items()},
        list(expected.takes.items()),
        list(expected.clusters),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
