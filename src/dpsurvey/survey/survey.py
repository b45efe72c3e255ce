"""Survey: a frame, a design, a setting, a budget and a ledger. Plans, draws and releases."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ..design import Design, collected
from ..design.collected import FileKeys
from ..design.columns import named_columns
from ..design.frame import Categories, Frame
from ..design.key import Key
from ..design.replicates import without_replicates
from ..errors import BadValue, NotFound, SurveyError
from ..ledger import Ledger, Quote, SealedSample
from ..ledger.terms import KEY_SECRET, Terms
from ..privacy import Budget, Setting
from ..privacy.relation import Relation
from ..statistic import Statistic, count, statistic_from_dict
from ..statistic.calibration import columns_of, read_margins
from ..statistic.weighted import no_clusters
from ..text.engines import check_engine
from .expectations import expectations, fingerprint
from .fieldwork import Fieldwork
from .noise_choice import choose_noise
from .plan import Plan
from .public_sizes import declared_sizes
from .release import Release
from .sample_file import check_sample_file, sample_target
from .sealing import RandomNumbers, check_numbers, draw_and_seal

# The engine takes long to load, so only those who read rows pay for it.
if TYPE_CHECKING:
    from ..engine import Engine, Expectations

Progress = Callable[[str, int, int], None]


class Survey:
    """A frame, a design, a setting, a budget and a ledger: the object that plans, draws and releases.

    `ledger` is a file, or `postgresql://user@host/base#schema` for a team; `anchor` is a second place that remembers how far
    the ledger had come, so that one that was rolled back refuses to spend.

    Without `setting` the sample is protected with the frame held fixed, the setting that guarantees most to those who
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
        weight_range: tuple[float, float] | Mapping[Any, tuple[float, float]] | None = None,
        engine: str = "duckdb",
        progress: Progress | None = None,
        anchor: str | os.PathLike[str] | None = None,
    ) -> None:
        for value, kind in ((frame, Frame), (design, Design), (budget, Budget), (setting, Setting | None)):
            if not isinstance(value, kind):
                words = "frame, design, setting and budget are made by ds.Frame, ds.srs (poisson, ...), ds.Setting, ds.Budget"
                raise BadValue("an argument of Survey is of the wrong kind", given=f"a {type(value).__name__}", hint=words)
        if frame.size is None and not design.already_drawn:
            raise BadValue(
                "a survey needs the public size of its frame",
                because="normalisers are declared, never read from rows",
                hint="declare Frame(..., size=N)",
            )
        if not frame.unit and not design.already_drawn:
            raise BadValue("a frame needs the name of its unit column", hint='for example unit="person_id"')
        design = design.with_columns(lambda: _columns_of(frame, engine)).resolve(frame)
        if setting is None and design.weights_are_final:
            setting = Setting("answers", given="respondents", neighbours=Relation.REPLACE_ONE)
        elif setting is None:
            fixed = design.fixed_size or design.already_drawn
            setting = Setting("sample", given="frame", neighbours=Relation.REPLACE_ONE if fixed else Relation.ADD_REMOVE)
            if design.refuses(setting):
                setting = Setting("sample", given="frame", neighbours=Relation.REPLACE_ONE)
        self.terms = Terms(name, frame, design, setting, budget, weight_range)  # type: ignore[arg-type]
        self.engine = check_engine(engine)
        self.ledger_path = os.fspath(ledger)
        self.anchor = os.fspath(anchor) if anchor is not None else None
        self.progress: Progress = progress or (lambda what, done, total: None)
        self._engine: Engine | None = None
        self._drawn: SealedSample | None = None

    @classmethod
    def collected(
        cls,
        table: Any,
        unit: str | None = None,
        *,
        weight_range: tuple[float, float] | Mapping[Any, tuple[float, float]] | None = None,
        weights_are: str | None = None,
        calibrated_on: Sequence[str] | None = None,
        imputed: str | None = None,
        donor_uses: int | None = None,
        fixed: Sequence[str] = (),
        n: int | Mapping[str, int] | None = None,
        psus: int | None = None,
        size: int | None = None,
        categories: Categories | None = None,
        population: str = "",
        sizes_are_public: bool = False,
        setting: Setting | None = None,
        budget: Budget,
        ledger: str | os.PathLike[str],
        name: str = "survey",
        engine: str = "duckdb",
        progress: Progress | None = None,
        anchor: str | os.PathLike[str] | None = None,
        **columns: Unpack[FileKeys],
    ) -> Survey:
        """A survey of a file that was collected already, by its columns of strata, clusters, weights and population sizes.

        `strata`, `psu`, `ssu`, `weights` and `fpc` name columns, as in `dpsurvey.classical.Sample` and `local.estimate`;
        `replicates` those of replicate weights, with the keywords of `collected`.
        `size` is the public number of units in the population; `n` and `psus` are the public numbers of records and of
        clusters, where they are published. `weight_range` holds the public extremes of the weights. `sizes_are_public` says that
        the numbers of records by stratum and the population sizes in `fpc` are published: they are read from the file, once, and
        stand in the terms of the survey from then on. `fixed` names columns of groups that are held fixed as the columns of the
        design are: numbers by such groups cost less, and the groups are not protected. `weights_are` says what the weights are:
        "design"; "by stratum"; "final", with `calibrated_on`, all columns that they were made from; or "adjusted", which is
        refused.

        >>> file = dict(strata="region", weights="w", weight_range=(10, 80), categories={"region": ["north", "south"]})
        >>> Survey.collected("lfs.parquet", **file, weights_are="design", budget=Budget(1.0), ledger="lfs.ledger")
        Survey('survey', collected, protect='sample', epsilon=1.0)
        >>> made = dict(weights_are="final", calibrated_on=["sex", "age"])
        >>> Survey.collected("lfs.parquet", **file, **made, budget=Budget(1.0), ledger="lfs.ledger")
        Survey('survey', collected, protect='answers', epsilon=1.0)
        """
        if sizes_are_public:
            declared = declared_sizes(table, named_columns(without_replicates(columns)), n, size, categories, setting, engine)
            n, size, categories = declared.n, declared.size, declared.categories
        frame = Frame(table, unit, size, categories, population=population)
        design = collected(
            n=n,
            psus=psus,
            weights_are=weights_are,
            calibrated_on=calibrated_on,
            imputed=imputed,
            donor_uses=donor_uses,
            fixed=fixed,
            **columns,
        )
        return cls(
            frame,
            design,
            setting,
            budget=budget,
            ledger=ledger,
            name=name,
            weight_range=weight_range,
            engine=engine,
            progress=progress,
            anchor=anchor,
        )

    def __repr__(self) -> str:
        terms = self.terms
        return f"Survey({terms.name!r}, {terms.design.kind}, protect={terms.setting.protect!r}, epsilon={terms.budget.epsilon})"

    def plan(
        self,
        *statistics: Statistic,
        share: float = 1.0,
        weights: Sequence[float] = (),
        responses: Any = None,
        noise: str = "auto",
        fieldwork: Fieldwork | None = None,
    ) -> Plan:
        """A plan of these statistics, spending a share of what one sample may be charged. Reads no rows.

        `weights` divide the share among the statistics (equal without them). `responses` is the table of answers
        that came back for a sealed sample; without it values come from the frame itself. `noise` is "laplace",
        "gaussian", which needs a delta, or another mechanism on the list; without it the plan takes the less noisy
        of the first two. `fieldwork` holds expected response rates and costs, for predictions.
        """
        plan = Plan(self.terms, tuple(statistics), share, tuple(weights), responses, "", fieldwork, _release=self.release)
        return choose_noise(plan, noise).validated()

    def weights(self, to: Mapping[Any, Mapping[Any, float]], share: float = 1.0) -> Release:
        """Release one noisy table of units by the columns of published margins, for weights of whatever is asked later.

        `to` maps a column, or a tuple of columns, to the published count of each category, as in `calibrated`. The release is
        charged once; `release.weights(to)` are the public weights, for `weighted`.
        """
        columns = columns_of(read_margins(to))
        if self.terms.design.clustering() is not None:
            raise no_clusters()
        return self.plan(count(by=columns), share=share).release()

    def check(self, plan: Plan | None = None) -> None:
        """Check the frame against everything that was declared. Spends nothing, prints nothing of any row."""
        expected = expectations(self.terms, plan)
        self._open().check_columns(expected)
        ledger = self._ledger()
        ledger.check_survey(self.terms)
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
        from ..engine import Engine

        check_numbers(self.terms.design.recipe(), key, start)
        if self.terms.design.already_drawn:
            raise BadValue("a collected file is not drawn from", hint="plan and release; to draw, describe the design of a frame")
        expected, terms = expectations(self.terms, plan), self.terms
        target = sample_target(path)
        # An engine of its own: a sample on record as new must not be one that was released from before.
        engine = Engine(terms.frame.table, self.engine)
        engine.check_columns(expected)
        ledger = self._ledger()
        try:
            ledger.check_survey(terms)
            ledger.refuse_second_draw(terms, key.commitment if key else None, start, new=new)
            self._check_rows(ledger, expected, engine)
            ledger.open_survey(terms)
            numbers = RandomNumbers(key, start)
            return draw_and_seal(terms, engine, ledger, expected, target, numbers, new=new, progress=self.progress)
        finally:
            ledger.close()

    def release(self, plan: Plan, rehearse: Callable[[Release], object] | None = None) -> Release:
        """Spend, draw (once per sample), add noise, publish. A failure after the reservation stays spent.

        Before anything is spent, the release is made once from sums of zero, to see that nothing of it can fail; `rehearse`
        is called with that one, and can try what will be done with the real one.
        """
        if plan.respondents_only and plan.responses is None:
            raise BadValue(
                "not everybody is expected to answer, so values come from a file of responses",
                hint="plan(..., responses=), or dpsurvey release --responses; or plan without response rates",
            )
        expected = expectations(self.terms, plan)
        engine = self._open()
        ledger = self._ledger()
        try:
            ledger.check_survey(self.terms)
            sealed = ledger.sealed_sample(self.terms.name)
            self._check_written()
            # Asked again when the charge is written; but what is refused anyway needs no scan of the rows.
            ledger.quote(plan.request, self._drawn.id if self._drawn and sealed is None else None).refuse()
            self._check_before(engine, ledger, sealed, plan, expected)
            self._rehearse(plan, engine.name, ledger, rehearse or (lambda release: None))
            # On record only once the rows have passed: how many entries a ledger has is published with every release.
            ledger.open_survey(self.terms)
            if self.terms.design.already_drawn:
                # Every release is about the same rows, whoever makes it and when.
                self._drawn = ledger.collected_sample(self.terms.name)
            reservation, sample = ledger.reserve(plan.request, sealed or self._drawn)
            self._drawn = sample
            self.progress("taking the sample", 0, 1)
            if sealed is None:
                engine.draw(self.terms.design.recipe(), expected)
                engine.check_unchanged()
            self.progress("taking the sample", 1, 1)
            noisy = self._noisy_sums(engine, plan)
            if self.terms.design.already_drawn:
                # Its rows were read where they are, after the check: what was summed must be what was checked.
                engine.check_unchanged()
            totals, stamp = ledger.spending(self.terms), ledger.stamp
            by_key = (KEY_SECRET,) if sealed is not None and sealed.key_commitment else ()
            answers = self._answers_released(ledger)
            guarantee = self.terms.guarantee(
                totals.charged[sample.id], totals.elsewhere(sample.id), totals.epsilon_in_sample, by_key, answers
            )
            about = {"id": sample.id, "design": self.terms.design.to_dict(), "engine": engine.name, "sealed": sealed is not None}
            release = Release.make(plan, noisy, about, guarantee.to_dict(), totals.to_dict() | stamp)
            ledger.commit(reservation, release.hash, release.document)
            return release
        finally:
            ledger.close()

    def released(self, plan: Plan) -> Release:
        """What was published for this plan before, word for word, from the ledger: as often as it is wanted, at no cost."""
        with self._ledger() as ledger:
            return Release(ledger.released(plan.request))

    def _check_written(self) -> None:
        """Refuse terms that a ledger or a release could not hold."""
        try:
            kept = Terms.from_dict(json.loads(json.dumps(self.terms.to_dict())))
        except (TypeError, ValueError, KeyError, AttributeError, SurveyError):
            kept = None
        if kept != self.terms:
            raise BadValue(
                "the terms of this survey cannot be written down and read back",
                because="a release and the ledger hold them, and are read later",
                hint=f"is the design {self.terms.design.kind!r} on the list of designs, with its to_dict and from_dict?",
            )

    def _rehearse(self, plan: Plan, engine: str, ledger: Ledger, rehearse: Callable[[Release], object]) -> None:
        """Make the document from sums of zero, and read it back: what can fail fails before anything is spent."""
        from ..engine.source import quietly

        noisy = quietly("trying the noise", lambda: [item.mechanism.answer(item.query.of_nobody) for item in plan.items])
        about = {"id": "", "design": self.terms.design.to_dict(), "engine": engine, "sealed": False}
        made = Release.make(plan, noisy, about, plan.guarantee.to_dict(), ledger.spending(self.terms).to_dict() | ledger.stamp)
        made.recompute()
        rehearse(made)

    def _answers_released(self, ledger: Ledger) -> tuple[str, ...]:
        """The answers that releases of this survey read so far: what they lose together is about all of them.

        None where something was charged without a word of what was asked: then it may have been any.
        """
        if not self.terms.setting.answers_alone:
            return ()
        asked = [charge["asked"] for charge in ledger.charges(self.terms.name)]
        return self.terms.answers_asked(statistic_from_dict(each) for own in asked for each in own) if all(asked) else ()

    def _noisy_sums(self, engine: Engine, plan: Plan) -> list[list[list[int]]]:
        noisy = []
        for done, item in enumerate(plan.items):
            self.progress("summing and adding noise", done, len(plan.items))
            # Straight from the engine into the noise: no variable of this function ever holds an exact sum.
            noisy.append(engine.answered(item.query, item.mechanism.answer))
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
            check_sample_file(str(sealed.path), str(sealed.key), sealed.commitment)
        elif plan.respondents_only:
            raise NotFound("responses need a sealed sample", hint="draw one first: survey.draw(...), or dpsurvey draw")
        if plan.respondents_only:
            engine.load_responses(str(sealed.path if sealed else ""), plan.responses, expected)
            return
        self._check_rows(ledger, expected, engine)
        if sealed is not None:
            # Joined to the frame before anything is spent: a unit that is not there any more is seen in time.
            engine.load(str(sealed.path), expected)
            engine.check_unchanged()

    def _ledger(self) -> Ledger:
        return Ledger(self.ledger_path, anchor=self.anchor)

    def what_if(self, plan: Plan) -> Quote:
        """What this plan would cost now, at every level above it, and what would be left. Spends nothing, reads no rows."""
        with self._ledger() as ledger:
            sealed = any(each["state"] == "sealed" for each in ledger.samples(self.terms.name))
            return ledger.quote(plan.request, None if sealed or self._drawn is None else self._drawn.id)

    def _open(self) -> Engine:
        from ..engine import Engine

        if self._engine is not None and self._engine.has_drawn:
            # Its sample is on record; a sample of another file would go by the same name.
            self._engine.check_unchanged()
        elif self._engine is None or self._engine.is_stale():
            self._engine = Engine(self.terms.frame.table, self.engine)
        return self._engine

    def _check_rows(self, ledger: Ledger, expected: Expectations, engine: Engine, *, again: bool = False) -> None:
        known = fingerprint(engine.stamp, expected, self.terms.design.recipe())
        if known and not again and ledger.was_checked(known):
            return
        self.progress("checking rows", 0, 1)
        engine.check_rows(expected, self.terms.design.recipe())
        engine.check_unchanged()
        self.progress("checking rows", 1, 1)
        if known:
            ledger.note_check(known)


def _columns_of(frame: Frame, engine: str) -> list[str]:
    """The names of the columns of a file, from its schema: no row is read."""
    from ..engine import Engine

    return Engine(frame.table, check_engine(engine)).columns
