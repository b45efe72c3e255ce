"""The command line. stdout is data; talk and progress go to stderr. Exit 0 done, 1 refused, 2 wrong usage, 3 not saved."""

from __future__ import annotations

import io
import json
import os
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BadValue, NotSaved, SurveyError
from ..privacy.running import Running
from ..survey.release import Release
from ..survey.starter import starter_file
from ..survey.survey_file import SurveyFile
from ..text.writing import check_place, claimed_folder, write_file
from .allocate import allocate
from .books import app as ledger_app
from .collect import app as local_app
from .compare import app as compare_app
from .designs import app as amplify_app
from .draw import draw, keys
from .papers import app as papers_app
from .plan import plan, rate
from .talk import Engine, File, Json, emit, progress_bars, say

app = typer.Typer(
    name="dpsurvey",
    help="Differential privacy for survey sampling: from a sampling frame to a published table.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.add_typer(amplify_app)
app.add_typer(keys, name="key")
app.add_typer(ledger_app)
app.add_typer(local_app)
app.add_typer(compare_app)
app.add_typer(papers_app)
app.command()(plan)
app.command()(rate)
app.command()(draw)
app.command()(allocate)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"dpsurvey {version('dpsurvey')}\n")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Differential privacy for survey sampling: from a sampling frame to a published table."""


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


@app.command()
def check(file: File, engine: Engine = "duckdb", as_json: Json = False) -> None:
    """Check a survey file, its columns and every row against what is declared. Spends nothing.

    Example: `dpsurvey check survey.toml`
    """
    survey_file = SurveyFile.read(file)
    with progress_bars() as bars:
        survey = survey_file.survey(bars, engine=engine)
        plan = survey_file.plan(survey) if survey_file.statistics() else None
        survey.check(plan)
    guarantee = str(survey.terms.guarantee(Running().plus(survey.terms.in_sample_budget)))
    emit({"ok": True, "survey": survey.terms.to_dict(), "guarantee": guarantee}, f"ok\n{guarantee}", as_json)


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
            failed = _save_all(done, folder, bars)
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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo writes.")] = Path("demo-out"), as_json: Json = False
) -> None:
    """Make a register of one million synthetic people, survey it, and print the estimates beside the truth.

    Example: `dpsurvey demo --out demo-out`
    """
    from .demo import run_demo

    with progress_bars() as bars:
        done, rows, text = run_demo(out, bars, _save_all)
    emit({"release": done.to_dict(), "beside_truth": rows}, text, as_json)
    say(f"everything is in {os.fspath(out)}; open {os.fspath(out / 'report.html')}")


FILES = ("release.json", "release.csv", "report.html")


def _check_new(folder: Path) -> None:
    """Refuse a folder that holds a release, before anything is spent."""
    for name in FILES:
        if os.path.lexists(folder / name):
            raise BadValue(
                f"{os.fspath(folder / name)!r} exists already", hint="choose another --out; a release is never overwritten"
            )


def _rehearse(made_up: Release) -> None:
    """Make everything of a release from made-up sums that will be made of the real one."""
    made_up.content(".json"), made_up.content(".csv"), made_up.content(".html"), str(made_up)


def _save_all(done: Release, out: Path, step: Any) -> list[str]:
    """The three files, and why any of them could not be written: the release is on record by now, whatever happens here."""
    failed = []
    for index, name in enumerate(FILES):
        step("saving", index, len(FILES))
        try:
            done.save(out / name)
        except Exception as error:
            failed.append(f"{name}: {_reason(error)}")
    step("saving", len(FILES), len(FILES))
    return failed


def _reason(error: Exception) -> str:
    """Why a file could not be made, in a line."""
    if isinstance(error, SurveyError):
        return error.because or error.what
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _print_released(done: Release, out: Path, as_json: bool) -> None:
    """Print what was released. It is on record and saved: nobody who reads it being gone is a failure."""
    try:
        emit(done.to_dict(), str(done), as_json)
    except Exception as error:
        raise NotSaved(
            "the release was made and saved, but could not be printed", because=_reason(error), given=os.fspath(out)
        ) from None
    say(f"saved in {os.fspath(out)}: {', '.join(name for name in FILES if (out / name).exists())}")
    if (samples := len(done.to_dict()["ledger"]["samples"])) > 1:
        say(f"this survey has now used {samples} independent samples; to ask one sample several times, draw and seal it first")


@cache
def command() -> Any:
    """The command line as Click runs it, built once: it takes longer than most commands."""
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
            say(f"{PREFIXES.get(error.exit_code, 'error')}: {error}")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
