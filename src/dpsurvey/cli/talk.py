"""How commands talk: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

talk = Console(stderr=True, highlight=False)

File = Annotated[Path, typer.Argument(help="The survey.toml.", show_default=False)]
Engine = Annotated[str, typer.Option(help="duckdb, or spark for files that one machine cannot read.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def say(text: str) -> None:
    """Talk to the person at the terminal."""
    talk.print(text, markup=False, soft_wrap=True)


def emit(data: Any, text: str, as_json: bool) -> None:
    """Print the result: JSON, or text for people. Whoever reads it may stop reading, as `head` does."""
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
    """Bars on stderr, one for each long step."""
    columns = (
        TextColumn("{task.description:<26}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=talk, transient=not talk.is_terminal) as bars:
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
