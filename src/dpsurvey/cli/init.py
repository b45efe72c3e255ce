"""Write a survey.toml to start from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..survey.starter import starter_file
from ..text.writing import check_place, write_file
from .options import Json, new_app
from .output import emit, say

PLACE_IN_HELP = 10

app = new_app()


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("survey.toml"),
    table: Annotated[
        Path | None, typer.Option(help="The frame's table; its column names are listed for you. Of a CSV file the first line.")
    ] = None,
    collected: Annotated[
        bool, typer.Option("--collected", help="For a file that was collected already, with every kind of statistic.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a survey.toml to start from.

    Example: `dpsurvey init survey.toml --table register.parquet`

    Example: `dpsurvey init survey.toml --collected --table answers.csv`
    """
    check_place(path)
    write_file(path, starter_file(path, table, collected=collected))
    emit({"written": os.fspath(path)}, os.fspath(path), as_json)
    say("edit it, then: dpsurvey check " + os.fspath(path))
