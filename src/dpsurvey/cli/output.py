"""What commands print and save: results on stdout, notes and progress on stderr, the three files of a release."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ..errors import SurveyError
from ..text.layout import given_text, group_text

if TYPE_CHECKING:
    from ..survey.release import Release

# What other packages may use for commands of their own.
__all__ = ["emit", "progress_bars", "say"]

notes = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Print a note for the person at the terminal, on stderr.

    >>> say("half of it is done")
    """
    notes.print(text, markup=False, soft_wrap=True)


def emit(data: Any, text: str, as_json: bool) -> None:
    """Print the result on stdout: JSON, or text for people. Whoever reads it may stop reading, as `head` does.

    >>> emit({"epsilon": 1.0}, "epsilon 1", as_json=False)
    epsilon 1
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.write((json.dumps(data, indent=1) if as_json else text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing more is written there, not even when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def progress_bars(
    interrupted: str = "interrupted; if a release had been reserved it stays spent, see dpsurvey ledger",
) -> Iterator[Any]:
    """Bars on stderr, one for each long step; `interrupted` is said where somebody stops it.

    >>> with progress_bars() as step:
    ...     for done in range(3):
    ...         step("counting", done + 1, 3)
    """
    columns = (
        TextColumn("{task.description:<26}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=notes, transient=not notes.is_terminal) as bars:
        known: dict[str, TaskID] = {}

        def step(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(what, total=total)
            bars.update(known[what], completed=done, total=total)

        try:
            yield step
        except KeyboardInterrupt:
            say(interrupted)
            raise


def error_row(row: dict[str, Any], first: str) -> dict[str, Any]:
    """A row of expected errors as a table shows it; `first` is the column of the epsilon or the rate."""
    return {
        **row,
        "of": row["label"],
        first: given_text(row[first]),
        "group": group_text(row["by"]) if row["by"] or row["statistic"] != "plan" else "",
    }


RELEASED = ("release.json", "release.csv", "report.html")


def save_release(done: Release, out: Path, step: Any) -> list[str]:
    """The three files, and why any of them could not be written: the release is on record by now, whatever happens here."""
    failed = []
    for index, name in enumerate(RELEASED):
        step("saving", index, len(RELEASED))
        try:
            done.save(out / name)
        except Exception as error:
            failed.append(f"{name}: {reason(error)}")
    step("saving", len(RELEASED), len(RELEASED))
    return failed


def reason(error: Exception) -> str:
    """Why a file could not be made, in a line."""
    if isinstance(error, SurveyError):
        return error.because or error.what
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
