"""Release: published estimates with errors, guarantee and provenance. Frozen, and never drawn again."""

from __future__ import annotations

import io
import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..design import Amplified
from ..errors import BadValue, NotFound
from ..ledger.documents import document_hash
from ..privacy.guarantee import Guarantee
from ..statistic.clipping import ClippingBounds
from ..text.formats import Format, formats, register_format
from ..text.layout import group_text, text_table
from ..text.writing import carries, check_place, holds, write_file
from .consistent import consistent_tables
from .estimates import estimate_rows, shown_columns, to_arrow, to_csv
from .plan import Plan
from .quality import RULE, with_quality
from .response_rate import response_rate, response_text
from .saved_release import SCHEMA_VERSION, plan_of, read_release

NEVER = "choose another name; a release is never overwritten"
NOT_IN_THE_ERROR = (
    "clipping: a value outside the declared bounds was moved to the bound; the estimates are of the clipped values",
    "frame: people who are not on the frame, or are on it twice",
    "nonresponse: people who were drawn and did not answer, if they differ from those who did",
    "measurement: wrong answers and wrong records",
)
NOT_PROTECTED = (
    "what these estimates teach about groups: a person who is like others is described by what is true of the others",
    "a household or firm with several records: the guarantee is for one record",
    "someone who tells others that they were interviewed has the larger figure, that of someone known to be in the sample",
    "the sample list: if it leaks it shows who was drawn; the figure for a leak is what the estimates add to that",
)


@cache
def software() -> dict[str, str]:
    """The versions that a release was made with."""
    names = ("dpsurvey", "opendp", "ibis-framework", "duckdb", "numpy", "scipy", "randomgen")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


@dataclass(frozen=True)
class Release:
    """The published estimates and everything needed to check them, as one JSON document. Made by `Plan.release`."""

    document: Mapping[str, Any]

    @classmethod
    def make(
        cls,
        plan: Plan,
        noisy: list[list[list[int]]],
        sample: Mapping[str, Any],
        guarantee: Mapping[str, Any],
        ledger: Mapping[str, Any],
    ) -> Release:
        """Freeze a release from noisy sums; no exact sum ever gets here."""
        document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "survey": plan.terms.to_dict(),
            "sample": dict(sample),
            "guarantee": dict(guarantee),
            "estimates": estimate_rows(plan, noisy),
            "ledger": dict(ledger),
            "software": software(),
            "plan": plan.written(),
            "noisy_sums": [
                {
                    "statistics": [each.name for each in item.statistics],
                    "encoding": item.query.encoding.name,
                    "mechanism": item.mechanism.kind,
                    "scale": item.mechanism.scale if math.isfinite(item.mechanism.scale) else None,
                    "sensitivity": item.mechanism.sensitivity,
                    "lattice": item.query.steps,
                    **item.kept(sums),
                }
                for item, sums in zip(plan.items, noisy, strict=True)
            ],
            **({"response": response_rate(plan, noisy)} if plan.respondents_only else {}),
            "not_in_the_error": [*NOT_IN_THE_ERROR, *plan.terms.not_compared],
            "not_protected": [*NOT_PROTECTED, *plan.terms.not_protected],
        }
        # Through JSON, so that what is kept in memory is what a reader of the file gets.
        return cls(json.loads(json.dumps(document)))

    @property
    def estimates(self) -> list[dict[str, Any]]:
        """One row per published estimate."""
        return [with_quality(row) for row in self.document["estimates"]]

    def consistent(self) -> list[dict[str, Any]]:
        """The rows of tables with cells that are not negative and margins that add up, as one more figure beside the estimate."""
        return consistent_tables(self.plan(), self.estimates)

    def bounds(self, of: str) -> tuple[float, float]:
        """The clipping bounds that were released for a column, for the statistics of a later plan."""
        rows = [row for row in self.document["estimates"] if row["statistic"] == ClippingBounds.kind and row["of"] == of]
        if not rows:
            raise NotFound(f"no clipping bounds of {of!r} in this release", hint="plan clipping_bounds(...) first")
        low, high = (float(row["estimate"]) for row in rows[:2])
        return low, high

    @property
    def guarantee(self) -> Guarantee:
        """What was guaranteed, to whom; it prints as one sentence."""
        return Guarantee.from_dict(self.document["guarantee"])

    @property
    def amplified(self) -> bool:
        """Whether sampling amplified the guarantee."""
        return isinstance(self.plan().terms.amplification, Amplified)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON."""
        return document_hash(self.document)

    def recompute(self) -> list[dict[str, Any]]:
        """The estimates again, from the noisy sums and public constants of this document; needs no data."""
        plan = self.plan()
        return json.loads(json.dumps(estimate_rows(plan, self.answers)))  # type: ignore[no-any-return]

    @property
    def answers(self) -> list[list[list[Any]]]:
        """The answer of every charge: noisy sums, and what was bought of standard errors."""
        return [[*each["sums"], *each.get("norms", ())] for each in self.document["noisy_sums"]]

    def plan(self) -> Plan:
        """The plan behind this release, rebuilt from the document."""
        return plan_of(dict(self.document))

    def explain(self) -> str:
        """Each step of the guarantee, its theorem, and what it assumes."""
        guarantee = self.document["guarantee"]
        lines = [
            str(self.guarantee),
            "",
            "Steps",
            *(f"  {number}. {step}" for number, step in enumerate(guarantee["steps"], 1)),
            "",
            "Holds when",
        ]
        lines += [f"  - {note}" for note in guarantee["holds_when"]]
        return "\n".join(
            [
                *lines,
                "",
                f"Whose record: {guarantee['record']}",
                "",
                "Specification",
                *(f"  {line}" for line in guarantee["specification"].splitlines()),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """The content of release.json."""
        return json.loads(json.dumps(self.document))  # type: ignore[no-any-return]

    def to_csv(self) -> str:
        """One line per estimate."""
        return to_csv(self.estimates)

    def to_arrow(self) -> Any:
        """An Arrow table, one row per estimate."""
        return to_arrow(self.estimates)

    def to_pandas(self) -> Any:
        """A pandas DataFrame, one row per estimate."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A polars DataFrame, one row per estimate; polars must be installed."""
        try:
            import polars
        except ImportError:
            raise BadValue("polars is not installed", hint="install polars, or use to_arrow or to_pandas") from None
        return polars.from_arrow(self.to_arrow())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write .json, .csv, .parquet or a self-contained .html report, whole or not at all.

        Estimates are never overwritten by others; a report may replace an earlier report.
        """
        made = _format_of(Path(path).suffix)
        if made.mark:
            may = carries(made.mark)
            check_place(path, replaces=may, hint=NEVER)
            return write_file(path, made.content(self), replaces=may, hint=NEVER)
        content = made.content(self)
        return write_file(path, content, replaces=holds(content), hint=NEVER)

    def content(self, ending: str) -> bytes:
        """The content of a file with this ending: .json, .csv, .parquet or .html."""
        return _format_of(ending).content(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Release:
        """Read a release.json; one that is damaged is refused."""
        return cls(read_release(path))

    def __str__(self) -> str:
        notes = sorted({note for row in self.estimates for note in row["notes"]})
        rows = [
            {
                **row,
                "of": row["label"],
                "group": group_text(row["by"]),
                "notes": " ".join(f"[{notes.index(note) + 1}]" for note in sorted(row["notes"])),
            }
            for row in self.estimates
        ]
        table = text_table(rows, ["statistic", "of", "group", *shown_columns(rows), "quality", "notes"])
        response = [response_text(self.document["response"])] if "response" in self.document else []
        numbered = (f"[{number}] {note}" for number, note in enumerate(notes, 1))
        return "\n".join([table, "", RULE, *numbered, *response, str(self.guarantee)])

    def __repr__(self) -> str:
        return f"Release({self.document['survey']['name']!r}, {len(self.document['estimates'])} estimates)"


def _format_of(ending: str) -> Format:
    known = formats()
    if ending not in known:
        *others, last = sorted({each.ending for each in known.values()})
        raise BadValue(f"a release is saved as {', '.join(others)} or {last}", given=ending)
    return known[ending]


@register_format(".json")
def _json(release: Release) -> bytes:
    return (json.dumps(release.document, indent=1) + "\n").encode()


@register_format(".csv")
def _csv(release: Release) -> bytes:
    return release.to_csv().encode()


@register_format(".parquet")
def _parquet(release: Release) -> bytes:
    import pyarrow.parquet as pq

    pq.write_table(release.to_arrow(), file := io.BytesIO())
    return file.getvalue()
