"""Make the HTML report of a release again, from its release.json. Needs no data, spends nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..survey.release import Release
from .options import Json, new_app
from .output import emit

PLACE_IN_HELP = 110

app = new_app()


@app.command()
def report(
    file: Annotated[Path, typer.Argument(help="A release.json.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Make the HTML report of a release again, from its release.json. Needs no data, spends nothing.

    Example: `dpsurvey report release/release.json -o report.html`
    """
    saved = Release.load(file).save(output)
    emit({"written": os.fspath(saved)}, os.fspath(saved), as_json)
