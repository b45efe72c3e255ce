"""Release: published numbers with errors, guarantee and provenance. Frozen, and never drawn again."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BadValue, NotFound
from .layout import group_text, text_table
from .plan import Plan, plan_from
from .privacy.guarantee import Guarantee
from .statistic import statistic_from_dict
from .terms import Terms

SCHEMA_VERSION = 1
NOT_IN_THE_ERROR = (
    "clipping: a value outside the declared bounds was moved to the bound; the estimates are of the clipped values",
    "frame: people who are not on the frame, or are on it twice",
    "nonresponse: people who were drawn and did not answer, if they differ from those who did",
    "measurement: wrong answers and wrong records",
)
NOT_PROTECTED = (
    "what these numbers teach about groups: a person who is like others is described by what is true of the others",
    "a household or firm with several records: the promise is for one record",
    "someone who tells others that they were interviewed has the larger figure, that of someone known to be in the sample",
    "the sample list: if it leaks it shows who was drawn; the figure for a leak is what the numbers add to that",
)
COLUMNS = ("estimate", "se", "se_sampling", "se_noise", "cv", "ci_low", "ci_high")


def software() -> dict[str, str]:
    """The versions that a release was made with."""
    names = ("dpsurvey", "opendp", "ibis-framework", "duckdb", "numpy", "scipy", "randomgen")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def estimate_rows(plan: Plan, noisy: list[list[list[int]]]) -> list[dict[str, Any]]:
    """Every published number, from noisy sums and public figures alone."""
    rows = []
    for item, sums in zip(plan.items, noisy, strict=True):
        for statistic in item.statistics:
            numbers = plan.estimate(item, statistic, np.asarray(sums, dtype=np.float64))
            fields = statistic.to_dict()
            for index, group in enumerate(statistic.published(item.query)):
                values = [
                    float(each[index])
                    for each in (numbers.estimate, numbers.se_sampling, numbers.se_noise, numbers.low, numbers.high)
                ]
                estimate, sampling, noise, low, high = (value if math.isfinite(value) else None for value in values)
                se = math.hypot(sampling, noise) if sampling is not None and noise is not None else None
                rows.append(
                    {
                        "statistic": statistic.kind,
                        "of": statistic.of,
                        "value": fields.get("value"),
                        "by": group,
                        "estimate": estimate,
                        "se": se,
                        "se_sampling": sampling,
                        "se_noise": noise,
                        "cv": se / abs(estimate) if se is not None and estimate else None,
                        "ci_low": low,
                        "ci_high": high,
                        "share": item.share,
                        "notes": list(numbers.notes[index]) if numbers.notes else [],
                    }
                )
    return rows


@dataclass(frozen=True)
class Release:
    """The published numbers and everything needed to check them, as one JSON document. Made by `Plan.release`."""

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
            "plan": plan.asked(),
            "noisy_sums": [
                {
                    "statistics": [each.name for each in item.statistics],
                    "encoding": item.query.encoding,
                    "mechanism": item.mechanism.kind,
                    "scale": item.mechanism.scale,
                    "sensitivity": item.mechanism.sensitivity,
                    "lattice": item.query.steps,
                    "sums": sums,
                }
                for item, sums in zip(plan.items, noisy, strict=True)
            ],
            "not_in_the_error": list(NOT_IN_THE_ERROR),
            "not_protected": list(NOT_PROTECTED),
        }
        # Through JSON, so that what is kept in memory is what a reader of the file gets.
        return cls(json.loads(json.dumps(document)))

    @property
    def estimates(self) -> list[dict[str, Any]]:
        """One row per published number."""
        return [dict(row) for row in self.document["estimates"]]

    @property
    def guarantee(self) -> Guarantee:
        """What was promised, to whom; it prints as one sentence."""
        return Guarantee.from_dict(self.document["guarantee"])

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(json.dumps(self.document, sort_keys=True).encode()).hexdigest()

    def recompute(self) -> list[dict[str, Any]]:
        """The numbers again, from the noisy sums and public constants of this document; needs no data."""
        plan = self.plan()
        return json.loads(json.dumps(estimate_rows(plan, [each["sums"] for each in self.document["noisy_sums"]])))  # type: ignore[no-any-return]

    def plan(self) -> Plan:
        """The plan behind this release, rebuilt from the document."""
        statistics = [statistic_from_dict(fields) for fields in self.document["plan"]["statistics"]]
        return plan_from(Terms.from_dict(self.document["survey"]), self.document["plan"], statistics)

    def explain(self) -> str:
        """Each step of the promise, its theorem, and what it assumes."""
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
        """One line per number."""
        grouping = list(dict.fromkeys(column for row in self.estimates for column in row["by"]))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["statistic", "of", "value", *grouping, *COLUMNS, "share", "notes"])
        for row in self.estimates:
            writer.writerow(
                [
                    row["statistic"],
                    row["of"] or "",
                    row["value"] or "",
                    *(row["by"].get(column, "") for column in grouping),
                    *(row[column] for column in COLUMNS),
                    row["share"],
                    "; ".join(row["notes"]),
                ]
            )
        return text.getvalue()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write .json, .csv or a self-contained .html report, whole or not at all."""
        target = Path(path)
        if target.suffix == ".json":
            text = json.dumps(self.document, indent=1) + "\n"
        elif target.suffix == ".csv":
            text = self.to_csv()
        elif target.suffix in (".html", ".htm"):
            # The report is drawn from a Release and lives downstream of it; only this verb looks back.
            from .report import report_html

            text = report_html(self)
        else:
            raise BadValue("a release is saved as .json, .csv or .html", given=str(path))
        temporary = target.with_name(target.name + ".part")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, target)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Release:
        """Read a release.json."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NotFound(f"there is no file {os.fspath(path)!r}") from None
        except (UnicodeDecodeError, json.JSONDecodeError):
            raise BadValue("this file is not a release.json", given=os.fspath(path)) from None
        if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
            raise BadValue(
                "this file is not a release of this version", given=os.fspath(path), hint=f"schema_version {SCHEMA_VERSION}"
            )
        missing = {"survey", "sample", "guarantee", "estimates", "ledger", "plan", "noisy_sums"} - set(document)
        if missing:
            raise BadValue("this file is not a whole release.json", given=f"without {', '.join(sorted(missing))}")
        return cls(document)

    def __str__(self) -> str:
        notes = sorted({note for row in self.estimates for note in row["notes"]})
        rows = [
            {
                **row,
                "of": row["of"] if row["value"] is None else f"{row['of']} = {row['value']}",
                "group": group_text(row["by"]),
                "notes": " ".join(f"[{notes.index(note) + 1}]" for note in sorted(row["notes"])),
            }
            for row in self.estimates
        ]
        table = text_table(rows, ["statistic", "of", "group", *COLUMNS, "notes"])
        return "\n".join([table, "", *(f"[{number}] {note}" for number, note in enumerate(notes, 1)), str(self.guarantee)])

    def __repr__(self) -> str:
        return f"Release({self.document['survey']['name']!r}, {len(self.document['estimates'])} numbers)"
