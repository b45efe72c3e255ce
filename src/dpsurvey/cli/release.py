"""Spend the budget, add noise, publish: release.json, release.csv, report.html."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..errors import BadValue, NotSaved
from ..survey.release import Release
from ..survey.survey_file import SurveyFile
from ..text.writing import claimed_folder
from .options import Engine, File, Json, new_app
from .output import RELEASED, emit, progress_bars, reason, save_release, say

PLACE_IN_HELP = 100

app = new_app()


@app.command()
def release(
    file: File,
    responses: Annotated[Path | None, typer.Option(help="The answers that came back for the sealed sample.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for release.json, release.csv and report.html.")] = Path("release"),
    again: Annotated[
        bool, typer.Option("--again", help="Write a release again that was made already, from the ledger. Spends nothing.")
    ] = False,
    engine: Engine = "duckdb",
    as_json: Json = False,
) -> None:
    """Spend the budget, add noise, publish: release.json, release.csv, report.html.

    Without --responses the values come from the frame itself (a register). What was published is kept in the ledger: if a file
    could not be written (exit 3), --again writes it.

    Example: `dpsurvey release survey.toml --responses answers.parquet --out 2026q1`

    Example: `dpsurvey release survey.toml --again --out 2026q1-copy`
    """
    survey_file = SurveyFile.read(file)
    answers = os.fspath(responses) if responses else None
    with claimed_folder(out) as folder:
        _check_new(folder)
        with progress_bars() as bars:
            survey = survey_file.survey(bars, engine=engine)
            plan = survey_file.plan(survey, answers)
            done = survey.released(plan) if again else survey.release(plan, _rehearse)
            failed = save_release(done, folder, bars)
    if failed and not again:
        say(f"released, and on record: {failed[0]}")
    _print_released(done, out, as_json)
    if failed:
        raise NotSaved(
            "the release was made, but not everything could be written",
            because=failed[0],
            given=os.fspath(out),
            hint="dpsurvey release --again --out ANOTHER writes it again, at no cost; its charge counts once",
        )


def _check_new(folder: Path) -> None:
    """Refuse a folder that holds a release, before anything is spent."""
    for name in RELEASED:
        if os.path.lexists(folder / name):
            raise BadValue(
                f"{os.fspath(folder / name)!r} exists already", hint="choose another --out; a release is never overwritten"
            )


def _rehearse(made_up: Release) -> None:
    """Make everything of a release from made-up sums that will be made of the real one."""
    made_up.content(".json"), made_up.content(".csv"), made_up.content(".html"), str(made_up)


def _print_released(done: Release, out: Path, as_json: bool) -> None:
    """Print what was released. It is on record and saved: nobody who reads it being gone is a failure."""
    try:
        emit(done.to_dict(), str(done), as_json)
    except Exception as error:
        raise NotSaved(
            "the release was made and saved, but could not be printed", because=reason(error), given=os.fspath(out)
        ) from None
    say(f"saved in {os.fspath(out)}: {', '.join(name for name in RELEASED if (out / name).exists())}")
    if (samples := len(done.to_dict()["ledger"]["samples"])) > 1:
        say(f"this survey has now used {samples} independent samples; to ask one sample several times, draw and seal it first")
