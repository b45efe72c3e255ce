"""A long ledger: what a quote, opening, and a reservation cost, against the least that any program would have to do.

    python benchmarks/ledger.py [--charges 10000] [--quick] [--json]

Rows: `quote/...` is what one more release would cost, with every charge on one sample; the reference composes all charges
from scratch. `open/...` reads and verifies the whole chain; the reference only reads the rows and hashes them.
`reserve/...` is one durable charge; the reference is one durable row that says nothing. `view/...` is the whole tree.
Aims are seconds, not ratios.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import dpsurvey as ds
from dpsurvey.ledger import SealedSample
from dpsurvey.survey.plan import Plan
from release import best

SETTING = ds.Setting("frame", neighbours="add-remove")
BUDGETS = {"epsilon": ds.Budget(1.0), "rho": ds.Budget(3.0, 1e-6)}


def a_survey(folder: Path, measure: str) -> ds.Survey:
    """A survey of a frame that is never read."""
    frame = ds.Frame("register.parquet", unit="id", size=1_000_000)
    return ds.Survey(frame, ds.poisson(0.02), SETTING, budget=BUDGETS[measure], ledger=folder / f"{measure}.ledger", name="lfs")


def a_plan(survey: ds.Survey, share: float) -> Plan:
    """One more question."""
    noise = "gaussian" if survey.terms.budget.delta else "laplace"
    return survey.plan(ds.mean("income", bounds=(0, 100)), share=share, noise=noise)


def fill(survey: ds.Survey, charges: int) -> ds.PrivacyProfile:
    """A sealed sample with many small charges, each a release of its own; written in one go."""
    profile = a_plan(survey, 0.5 / charges).items[0].charge
    with ds.Ledger(survey.ledger_path) as ledger:
        ledger.open_survey(survey.terms)
        ledger.seal("lfs", SealedSample("one", "sample.parquet", "00", "00"), new=False)
        charge = {"profile": profile.to_dict(), "asked": [ds.mean("income", bounds=(0, 100)).to_dict()]}
        with ledger._journal.writing() as pen:
            for number in range(charges):
                body = {
                    "release": f"r{number}",
                    "survey": "lfs",
                    "sample": "one",
                    "fingerprint": f"f{number}",
                    "charges": [charge],
                }
                pen.write("reserved", body)
    return profile


def read_and_hash(path: str) -> None:
    """The least that a check of the chain has to do."""
    with sqlite3.connect(path) as connection:
        for text, digest in connection.execute("select text, hash from entries order by seq"):
            assert hashlib.sha256(text.encode()).hexdigest() == digest
    connection.close()


def plain_rows(path: Path, count: int) -> float:
    """Seconds for one durable row, in a file with the settings of a ledger."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=full")
        connection.execute("create table rows (text)")
        start = time.perf_counter()
        for _ in range(count):
            connection.execute("begin immediate")
            connection.execute("insert into rows values ('nothing')")
            connection.execute("commit")
        seconds = (time.perf_counter() - start) / count
    connection.close()
    return seconds


def open_and_close(path: Any) -> None:
    """The whole chain, read and verified."""
    ds.Ledger(path).close()


def quote_next(ledger: ds.Ledger, plans: Iterator[ds.Plan]) -> None:
    """A quote of a plan that was not asked about before."""
    ledger.quote(next(plans).request)


def reserve_next(ledger: ds.Ledger, plans: Iterator[ds.Plan]) -> None:
    """A reservation for a plan that was not asked about before."""
    ledger.reserve(next(plans).request, ledger.sealed_sample("lfs"))


def from_scratch(terms: Any, parts: list[ds.PrivacyProfile]) -> float:
    """The loss of all charges together, without what a ledger keeps between them."""
    return float(terms.amplify(parts[0].compose(*parts[1:])).epsilon(terms.budget.delta))


def run(charges: int, times: int) -> list[dict[str, object]]:
    """Measure and compare."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for measure in BUDGETS:
            survey = a_survey(folder, measure)
            profile = fill(survey, charges)
            opened = best(partial(open_and_close, survey.ledger_path), times)
            hashed = best(partial(read_and_hash, survey.ledger_path), times)
            ledger = ds.Ledger(survey.ledger_path)
            shares = iter(0.001 + number * 1e-6 for number in range(100_000))
            plans = [a_plan(survey, next(shares)) for _ in range(2 * times)]
            fresh = iter(plans)
            # Each plan has another share, so that no quote was computed before.
            quoted = best(partial(quote_next, ledger, fresh), times)
            terms, together = survey.terms, [profile] * charges
            scratch = best(partial(from_scratch, terms, together), 1)
            reserved = best(partial(reserve_next, ledger, fresh), times)
            seen = best(ledger.tree, 1)
            ledger.close()
            plain = plain_rows(folder / f"{measure}.plain", 50)
            found = (("quote", quoted, scratch, 0.05), ("open", opened, hashed, 1.0), ("reserve", reserved, plain, None))
            for what, value, reference, aim in (*found, ("view", seen, hashed, None)):
                ok = aim is None or value <= aim
                ratio = value / reference
                rows.append(
                    {"name": f"{what}/{measure}", "value": value, "reference": reference, "ratio": ratio, "aim": aim, "ok": ok}
                )
    return rows


def main() -> None:
    """Print a table, or one JSON object per line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--charges", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; takes less than a minute")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    rows = run(options.charges, 3 if options.quick else 7)
    if options.as_json:
        for row in rows:
            print(json.dumps(row))
        return
    table = Table(title=f"{options.charges:,} charges on one sample")
    for column in ("name", "seconds", "reference", "ratio", "aim"):
        table.add_column(column, justify="left" if column == "name" else "right")
    for row in rows:
        aim = "-" if row["aim"] is None else f"{row['aim']:g} s"
        table.add_row(str(row["name"]), f"{row['value']:.4f}", f"{row['reference']:.4f}", f"{row['ratio']:.2f}", aim)
    Console().print(table)


if __name__ == "__main__":
    main()
