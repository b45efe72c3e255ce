"""What commands take: arguments and options that several of them have, and how their values are read."""

from __future__ import annotations

import csv
import io
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadValue, NotFound
from ..text.engines import IN_WORDS
from ..text.reading import text_of

if TYPE_CHECKING:
    from ..survey.plan import Plan

# What other packages may use for commands of their own.
__all__ = ["Json", "new_app"]

Option = typer.Option
File = Annotated[Path, typer.Argument(help="The survey.toml.", show_default=False)]
Engine = Annotated[str, Option(help=f"{IN_WORDS}.")]
Json = Annotated[bool, Option("--json", help="Print JSON on stdout.")]
Expect = Annotated[Path | None, Option(help="An earlier release.json: predict from its published figures, not the worst case.")]
Plot = Annotated[Path | None, Option(help="Also draw it, as .svg or .png.")]


def new_app(**given: Any) -> typer.Typer:
    """An app of the command line, set up like all of them.

    >>> app = new_app(help="Figures of our own.")
    >>> @app.command("count")
    ... def count(as_json: Json = False) -> None: ...
    >>> [each.name for each in app.registered_commands]
    ['count']
    """
    return typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False, **given)


def read_plan(file: Path, expect_from: Path | None) -> Plan:
    """The plan of a survey file, with the figures of an earlier release where one is named."""
    from ..planning import expecting
    from ..survey.release import Release
    from ..survey.survey_file import SurveyFile

    survey_file = SurveyFile.read(file)
    made = survey_file.plan(survey_file.survey())
    return made if expect_from is None else expecting(made, Release.load(expect_from))


def read_pairs(given: list[str], option: str, example: str) -> dict[str, float]:
    """NAME=NUMBER, several times."""
    found: dict[str, float] = {}
    for each in given:
        name, _, figure = each.rpartition("=")
        try:
            found[name.strip()] = float(figure)
        except ValueError:
            raise BadValue(f"{option} takes COLUMN=NUMBER", given=each, hint=f"for example {option} {example}") from None
        if not name.strip():
            raise BadValue(f"{option} takes COLUMN=NUMBER", given=each, hint=f"for example {option} {example}")
    return found


def numbers(text: str, option: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    """Numbers separated by commas, or a text file of them."""
    what = "whole numbers" if kind is int else "numbers"
    if len(text) < 250 and "," not in text and Path(text).is_file():
        return numbers_in(Path(text), option, kind)
    try:
        found = _numbers(text, kind)
    except ValueError:
        hint = "or the name of a file of them, which must exist"
        raise BadValue(f"--{option} must be {what} separated by commas", given=text[:60], hint=hint) from None
    if not found:
        raise BadValue(f"--{option} must be {what} separated by commas, at least one", given=repr(text[:60]))
    return found


def numbers_in(file: Path, option: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    """The numbers of a text file. What else it holds is said in no message: it may be another file than was meant."""
    with suppress(ValueError):
        if found := _numbers(read_text(file, option), kind):
            return found
    what = "whole numbers" if kind is int else "numbers"
    raise BadValue(f"the file of --{option} holds something else than {what}, or nothing", given=str(file)[:80])


def _numbers(text: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    return tuple(kind(word) for word in re.split(r"[,\s]+", text.strip()) if word)


def read_text(file: Path, option: str) -> str:
    """The text of a file that an option names; a byte-order mark is dropped."""
    try:
        return text_of(file)
    except OSError:
        raise NotFound(f"--{option} is neither a list of numbers nor a file that can be read", given=str(file)[:80]) from None
    except ValueError:
        raise BadValue(f"the file of --{option} is not text in UTF-8", given=str(file)[:80]) from None


def table_of(file: Path, columns: tuple[str, ...], option: str) -> list[dict[str, str]]:
    """The rows of a CSV file with these columns, by name; or by place, where there are just as many under other names or none."""
    if not file.is_file():
        raise NotFound(f"no file {str(file)!r}", hint=f"--{option} takes a CSV file with the columns " + ", ".join(columns))
    lines = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(read_text(file, option))) if any(row)]
    names = lines[0] if lines else []
    if set(columns) <= set(names):
        return [dict(zip(names, row, strict=False)) for row in lines[1:]]
    if len(names) != len(columns):
        raise BadValue(f"--{option} lacks a column", given=str(file)[:80], hint="needed: " + ", ".join(columns))
    named = any(not _is_number(cell) for cell in names)
    return [dict(zip(columns, row, strict=False)) for row in lines[named:]]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
