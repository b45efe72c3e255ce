"""The command line. stdout is data; notes and progress go to stderr. Exit 0 done, 1 refused, 2 wrong usage, 3 not saved."""

from __future__ import annotations

import io
import json
import sys
from functools import cache
from typing import Annotated, Any

import typer

from ..errors import BadValue, SurveyError
from .commands import Commands

app = typer.Typer(
    name="dpsurvey",
    cls=Commands,
    help="Differential privacy for survey sampling: from a sampling frame to a published table.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"dpsurvey {version('dpsurvey')}\n")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Differential privacy for survey sampling: from a sampling frame to a published table."""


@cache
def command() -> Any:
    """The command line as Click runs it, built once."""
    return typer.main.get_command(app)


PREFIXES = {1: "refused", 3: "released, but"}


def main() -> None:
    """Run the command line."""
    # What a terminal cannot show is written as it is spelt in Python; no letter ends a command.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        command()()
    except (SurveyError, OSError) as caught:
        error = (
            caught
            if isinstance(caught, SurveyError)
            else BadValue("a file or folder cannot be used", because=caught.strerror or "", given=str(caught.filename or ""))
        )
        if "--json" in sys.argv:
            sys.stderr.write(json.dumps(error.to_dict()) + "\n")
        else:
            from .output import say

            say(f"{PREFIXES.get(error.exit_code, 'error')}: {error}")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
