"""What has been spent, for ever. Reserve before rows are read, commit after; a reservation is never returned."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event, insert, inspect, select, update
from sqlalchemy.exc import DatabaseError

from ..errors import AlreadyReleased, BudgetExceeded, LedgerDisagrees, NotFound, UsageError
from ..plan import Plan
from ..privacy.profile import PrivacyProfile
from ..terms import Terms
from .samples import SealedSample, add_sample, by_shared_key, now, refuse_second_draw
from .schema import UPGRADES, VERSION, about, charges, checks, metadata, samples, surveys
from .spending import Spending, refuse_other_currency, spending


class Ledger:
    """Append-only charges grouped by sample, in a SQLite file. Can refuse; never forgets.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Ledger(os.path.join(folder, "books.ledger")).surveys()
    []
    """

    def __init__(self, path: str | os.PathLike[str], *, must_exist: bool = False) -> None:
        self.path = os.fspath(path)
        if not self.path or self.path == ":memory:":
            raise UsageError("a ledger is a file", given=repr(self.path), because="what was spent must outlive the process")
        if must_exist and not os.path.exists(self.path):
            raise NotFound(f"there is no ledger {self.path!r}")
        if not os.path.exists(self.path):
            _create_private(self.path)
        self._engine = create_engine(URL.create("sqlite", database=self.path), connect_args={"timeout": 30})
        event.listen(self._engine, "connect", _durable)
        event.listen(self._engine, "begin", _one_writer)
        hint = "it must be a ledger file in a folder that can be written"
        try:
            with self._engine.begin() as connection:
                found = self._version(connection)
                if found is None:
                    metadata.create_all(connection)
                    connection.execute(insert(about).values(key="version", value=str(VERSION)))
                elif found.isdigit() and int(found) < VERSION:
                    found = _upgrade(connection, int(found))
        except DatabaseError:
            raise UsageError("the ledger cannot be opened", given=self.path, hint=hint) from None
        if found not in (None, str(VERSION)):
            raise LedgerDisagrees("the ledger was written by another version", given=f"version {found}, this is {VERSION}")

    def _version(self, connection: Connection) -> str | None:
        """The version of a ledger, None for an empty file; a database of something else is left as it is."""
        tables = set(inspect(connection).get_table_names())
        if not tables:
            return None
        if about.name not in tables:
            raise UsageError(
                "this file is a database of something else", given=self.path, hint="name another file for the ledger"
            )
        return connection.execute(select(about.c.value).where(about.c.key == "version")).scalar()

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            yield connection

    def surveys(self) -> list[str]:
        """The names of all surveys on record."""
        with self._engine.begin() as connection:
            return list(connection.execute(select(surveys.c.name).order_by(surveys.c.opened_at)).scalars())

    def terms(self, survey: str) -> Terms:
        """The terms a survey was opened with."""
        with self._engine.begin() as connection:
            text = connection.execute(select(surveys.c.terms).where(surveys.c.name == survey)).scalar()
        if text is None:
            raise NotFound(f"the ledger has no survey {survey!r}")
        return Terms.from_dict(json.loads(text))

    def open_survey(self, terms: Terms) -> None:
        """Put a survey on record, or make sure that its terms are those on record."""
        text = json.dumps(terms.to_dict(), sort_keys=True)
        with self._writing() as connection:
            found = connection.execute(select(surveys.c.terms).where(surveys.c.name == terms.name)).scalar()
            if found is None:
                connection.execute(
                    insert(surveys).values(
                        name=terms.name, terms=text, epsilon=terms.budget.epsilon, delta=terms.budget.delta, opened_at=now()
                    )
                )
            elif found != text:
                before, after = json.loads(found), terms.to_dict()
                changed = [key for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)]
                raise LedgerDisagrees(
                    f"the ledger holds other terms for the survey {terms.name!r}",
                    given="changed: " + ", ".join(changed),
                    hint="a survey keeps its terms; another name opens another survey, and what both lose adds up",
                )

    def seal(self, survey: str, sample: SealedSample, *, new: bool) -> None:
        """Put a draw on record whose units were written to a file, with a keyed hash of that file."""
        with self._writing() as connection:
            # Asked again under the lock: two processes may have drawn at the same time.
            refuse_second_draw(connection, survey, sample.key_commitment, new=new)
            add_sample(connection, survey, sample)

    def refuse_second_draw(self, survey: str, key_commitment: str | None, *, new: bool) -> None:
        """Refuse to draw a sealed survey again, unless a new sample is asked for that is independent of the others."""
        with self._engine.begin() as connection:
            refuse_second_draw(connection, survey, key_commitment, new=new)

    def samples(self, survey: str | None = None) -> list[dict[str, Any]]:
        """Every sample on record, oldest first, with the commitment of the key it was drawn with."""
        columns = (samples.c.id, samples.c.survey, samples.c.state, samples.c.drawn_at, samples.c.key_commitment, samples.c.start)
        query = select(*columns).order_by(samples.c.drawn_at)
        with self._engine.begin() as connection:
            rows = connection.execute(query if survey is None else query.where(samples.c.survey == survey)).mappings().all()
        return [dict(row) for row in rows]

    def sharing_a_key(self) -> dict[str, list[dict[str, Any]]]:
        """The samples of each key that has drawn more than one: they depend on each other."""
        return by_shared_key(self.samples())

    def sealed_sample(self, survey: str) -> SealedSample | None:
        """The newest sealed sample of a survey."""
        columns = (samples.c.id, samples.c.path, samples.c.key, samples.c.commitment, samples.c.key_commitment, samples.c.start)
        query = select(*columns).where(samples.c.survey == survey, samples.c.state == "sealed")
        with self._engine.begin() as connection:
            row = connection.execute(query.order_by(samples.c.drawn_at.desc()).limit(1)).first()
        return SealedSample(*row) if row else None

    def collected_sample(self, survey: str) -> SealedSample:
        """The one sample of a survey of a collected file; put on record when it is first asked for."""
        with self._writing() as connection:
            query = select(samples.c.id).where(samples.c.survey == survey, samples.c.state == "drawn")
            found = connection.execute(query.order_by(samples.c.drawn_at).limit(1)).scalar()
            sample = SealedSample(found or uuid.uuid4().hex)
            if found is None:
                add_sample(connection, survey, sample)
        return sample

    def reserve(self, plan: Plan, sample: SealedSample | None) -> tuple[str, SealedSample]:
        """Write the charges of a plan before anything is drawn or summed; refuse if they do not fit.

        Without a sample a new one is put on record. Returns the id of the release, and the sample.
        """
        terms, release = plan.terms, uuid.uuid4().hex
        charged = sample or SealedSample(uuid.uuid4().hex)
        with self._writing() as connection:
            same = select(charges.c.state).where(charges.c.survey == terms.name, charges.c.fingerprint == plan.fingerprint)
            if (state := connection.execute(same.limit(1)).scalar()) is not None:
                because, hint = (
                    (
                        "an earlier release of it was interrupted: its charge stays, and nothing was published",
                        "plan another share=",
                    )
                    if state == "reserved"
                    else (
                        "its numbers are published",
                        "read the earlier release; to ask again with fresh noise, plan another share=",
                    )
                )
                raise AlreadyReleased("this plan was already released", because=because, hint=hint)
            before = self._spending(connection, terms)
            refuse_other_currency(before.charges_of(charged.id), [item.charge for item in plan.items])
            after = spending(terms, [*before.charged, *((charged.id, item.charge) for item in plan.items)])
            if after.spent > terms.budget.epsilon or after.too_many_samples:
                raise BudgetExceeded(
                    after.spent - before.spent, before.left, hint=after.refusal(terms, charged.id, len(plan.items))
                )
            if sample is None:
                add_sample(connection, terms.name, charged)
            for item in plan.items:
                connection.execute(
                    insert(charges).values(
                        release=release,
                        survey=terms.name,
                        sample=charged.id,
                        state="reserved",
                        profile=json.dumps(item.charge.to_dict()),
                        asked=json.dumps([statistic.to_dict() for statistic in item.statistics]),
                        fingerprint=plan.fingerprint,
                        software=version("dpsurvey"),
                        reserved_at=now(),
                    )
                )
        return release, charged

    def commit(self, release: str, release_hash: str) -> None:
        """Mark the charges of a release as published."""
        with self._writing() as connection:
            connection.execute(
                update(charges)
                .where(charges.c.release == release)
                .values(state="committed", committed_at=now(), release_hash=release_hash)
            )

    def spending(self, terms: Terms) -> Spending:
        """What a survey has spent: composed inside each sample, amplified once, added over samples."""
        with self._engine.begin() as connection:
            return self._spending(connection, terms)

    def _spending(self, connection: Connection, terms: Terms) -> Spending:
        rows = connection.execute(
            select(charges.c.sample, charges.c.profile).where(charges.c.survey == terms.name).order_by(charges.c.id)
        )
        return spending(terms, [(sample, PrivacyProfile.from_dict(json.loads(profile))) for sample, profile in rows])

    def entries(self, survey: str) -> Sequence[dict[str, Any]]:
        """Every charge of a survey, oldest first."""
        columns = (
            charges.c.release,
            charges.c.sample,
            charges.c.state,
            charges.c.profile,
            charges.c.asked,
            charges.c.reserved_at,
            charges.c.committed_at,
        )
        with self._engine.begin() as connection:
            rows = connection.execute(select(*columns).where(charges.c.survey == survey).order_by(charges.c.id)).mappings().all()
        return [{**row, "profile": json.loads(row["profile"]), "asked": json.loads(row["asked"])} for row in rows]

    def was_checked(self, fingerprint: str) -> bool:
        """Whether a frame file, as it is now, was already checked against these expectations."""
        with self._engine.begin() as connection:
            return (
                connection.execute(select(checks.c.fingerprint).where(checks.c.fingerprint == fingerprint)).scalar() is not None
            )

    def note_check(self, fingerprint: str) -> None:
        """Remember that a frame file passed its check."""
        with self._writing() as connection:
            if connection.execute(select(checks.c.fingerprint).where(checks.c.fingerprint == fingerprint)).scalar() is None:
                connection.execute(insert(checks).values(fingerprint=fingerprint, checked_at=now()))


def _create_private(path: str) -> None:
    """An empty file that only its owner can read: a ledger holds the keys of sealed samples."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError:
        raise UsageError("the ledger cannot be made", given=path, hint="its folder must exist and be writable") from None


def _upgrade(connection: Connection, found: int) -> str:
    """Bring a ledger of an earlier version up to this one; nothing on record changes."""
    for number in range(found + 1, VERSION + 1):
        for statement in UPGRADES[number]:
            connection.exec_driver_sql(statement)
    connection.execute(update(about).where(about.c.key == "version").values(value=str(VERSION)))
    return str(VERSION)


def _durable(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _one_writer(connection: Connection) -> None:
    # The lock is taken before the totals are read, so two processes cannot both see the same money.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


__all__ = ["Ledger", "SealedSample", "Spending"]
