"""`dpsurvey local form, discretise, split, aggregate, combine`: from a respondent's device to the sums of aggregators."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BadData, BadValue, NotFound
from ..text.reading import json_of, text_of
from ..text.writing import check_place, write_file
from .leakage import Option, QuestionFile, app
from .local import Output
from .talk import Json, emit, say


@app.command()
def form(file: QuestionFile, output: Output, as_json: Json = False) -> None:
    """Make a web page that asks the question, randomises in the browser and hands out the report. It works offline.

    Example: `dpsurvey local form question.toml -o form.html`
    """
    from ..local.form import form_html
    from ..local.question import Question

    asked = Question.read(file)
    write_file(output, form_html(asked))
    emit({"written": os.fspath(output), "question": asked.fingerprint}, os.fspath(output), as_json)
    say("the page sends nothing: respondents save their report, and dpsurvey local estimate reads it")


@app.command()
def discretise(
    table: Annotated[Path, typer.Argument(help="The table, CSV or Parquet.", show_default=False)],
    output: Output,
    size: Annotated[str | None, Option(help='Places: the size of a cell, "2 km" or "0.01 deg".')] = None,
    latitude: Annotated[str, Option(help="Places: the column of latitudes.")] = "latitude",
    longitude: Annotated[str, Option(help="Places: the column of longitudes.")] = "longitude",
    box: Annotated[str | None, Option(help="Places: south,west,north,east; cells outside become elsewhere.")] = None,
    value: Annotated[str | None, Option(help="Numbers: the column.")] = None,
    low: Annotated[float | None, Option(help="Numbers: the lower end of the first range.")] = None,
    high: Annotated[float | None, Option(help="Numbers: the upper end of the last range.")] = None,
    width: Annotated[float | None, Option(help="Numbers: the width of a range.")] = None,
    ends: Annotated[str, Option(help="Numbers outside: closed refuses them, open puts them into the end ranges.")] = "closed",
    name: Annotated[str, Option(help="The name of the new column.")] = "cell",
    as_json: Json = False,
) -> None:
    """Turn numbers or places into cells that never depend on the data: one more column, in place of the exact values.

    Example: `dpsurvey local discretise checkins.csv --size "0.5 km" --latitude lat --longitude lon -o cells.csv`

    Example: `dpsurvey local discretise people.csv --value age --low 0 --high 100 --width 10 --ends open -o cells.csv`
    """
    import pyarrow as pa

    from ..local.cells import Grid, Ranges
    from ..local.question import box_from
    from ..local.tables import column, kind_of, read_table, write_table

    kind_of(output)
    if (size is None) == (value is None):
        raise BadValue(
            "say what to discretise", hint='--size "2 km" for places, or --value COLUMN --low --high --width for numbers'
        )
    rows = read_table(os.fspath(table))
    if size is not None:
        grid = Grid(size, box_from([float(each) for each in _numbers(box)] if box else None))
        places = zip(
            column(rows, latitude, "latitude").to_pylist(), column(rows, longitude, "longitude").to_pylist(), strict=True
        )
        cells, gone = [grid.label(*place) for place in places], [latitude, longitude]
    else:
        if low is None or high is None or width is None:
            raise BadValue("ranges need --low, --high and --width")
        ranges = Ranges(low, high, width, ends)
        cells, gone = [ranges.label(each) for each in column(rows, str(value), "value").to_pylist()], [str(value)]
    if name in rows.column_names and name not in gone:
        raise BadValue(f"the table has a column {name!r} already", hint="--name another")
    kept = rows.drop_columns(gone)
    write_table(kept.append_column(name, pa.array(cells, pa.string())), output)
    told = {"written": os.fspath(output), "rows": len(cells), "cells": len(set(cells))}
    emit(told, f"{len(cells):,} rows in {len(set(cells)):,} cells: {os.fspath(output)}", as_json)
    say("cells are coarse, not private: randomise them before they leave the respondent")


@app.command()
def split(
    file: QuestionFile,
    reports: Annotated[Path, typer.Argument(help="The reports, CSV or Parquet.", show_default=False)],
    output: Output,
    aggregators: Annotated[int | None, Option(help="How many aggregators; by default 2, or as the question says.")] = None,
    keep: Annotated[list[str] | None, Option(help="A public column to send along, such as the stratum. Repeat it.")] = None,
    as_json: Json = False,
) -> None:
    """Split reports into additive shares, one file for each aggregator: NAME-1.csv, NAME-2.csv, ...

    Example: `dpsurvey local split question.toml reports.csv --aggregators 3 -o shares.csv`
    """
    from ..local.question import Question
    from ..local.shares import check_aggregators
    from ..local.shares import split as shared
    from ..local.tables import kind_of, write_table

    asked = Question.read(file)
    ending = kind_of(output)
    count = aggregators if aggregators is not None else int(getattr(asked.mechanism, "aggregators", 2))
    check_aggregators(asked, count)
    names = [output.with_name(f"{output.stem}-{number}{ending}") for number in range(1, count + 1)]
    for each in names:
        if each.exists():
            raise BadValue(f"{os.fspath(each)!r} exists already", hint="choose another name; nothing was overwritten")
    for each, table in zip(names, shared(asked, os.fspath(reports), count, keep=keep or []), strict=True):
        write_table(table, each)
    told = [os.fspath(each) for each in names]
    emit({"written": told}, "\n".join(told), as_json)
    say("send each file to its aggregator, by separate ways, and delete the reports: all files together give them back")


@app.command()
def aggregate(
    file: QuestionFile,
    shares: Annotated[Path, typer.Argument(help="The shares of this aggregator.", show_default=False)],
    output: Output,
    roster: Annotated[
        bool, Option("--roster", help="Write the list of respondents only: to compare with the other aggregators.")
    ] = False,
    together: Annotated[
        list[Path] | None, Option("--with", help="Rosters of all aggregators: add up who is on every list. Repeat it.")
    ] = None,
    by: Annotated[str | None, Option(help="Sums by the groups of a public column, such as the stratum.")] = None,
    least: Annotated[int, Option(help="Refuse a sum over fewer respondents than this.")] = 1,
    again: Annotated[
        bool, Option("--again", help="Add up a second time; reports then hide no better than one seen alone.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Add up the shares of one aggregator. It sees random numbers, and publishes sums that mean nothing alone.

    Example: `dpsurvey local aggregate question.toml shares-1.csv -o sums-1.json`

    Example: `dpsurvey local aggregate question.toml shares-1.csv --roster -o roster-1.json`

    Example: `dpsurvey local aggregate question.toml shares-1.csv --with roster-1.json --with roster-2.json -o sums-1.json`
    """
    from ..local.question import Question
    from ..local.shares import aggregate as aggregated
    from ..local.shares import held_shares

    asked = Question.read(file)
    check_place(output)
    if roster:
        held = held_shares(asked, os.fspath(shares))
        listed = {"question": asked.fingerprint, "aggregator": held.aggregator, "respondents": held.respondents}
        write_file(output, json.dumps(listed) + "\n")
        emit({"written": os.fspath(output), "respondents": len(held.respondents)}, os.fspath(output), as_json)
        return
    only = None
    for path in together or []:
        other = _read_json(path)
        tokens = other.get("respondents")
        sound = isinstance(tokens, list) and all(isinstance(each, str) for each in tokens)
        if other.get("question") != asked.fingerprint or not sound:
            raise BadData(f"{path.name!r} is no roster of this question")
        only = set(other["respondents"]) if only is None else only & set(other["respondents"])
    made = aggregated(asked, os.fspath(shares), only=only, by=by, least=least, again=again)
    write_file(output, json.dumps(made.to_dict(), indent=1) + "\n")
    told = {"written": os.fspath(output), "respondents": sum(made.respondents.values()), "aggregator": made.aggregator}
    emit(told, f"aggregator {made.aggregator}: {told['respondents']:,} respondents added up in {os.fspath(output)}", as_json)


@app.command()
def combine(
    file: QuestionFile,
    sums: Annotated[list[Path], typer.Argument(help="The sums of all aggregators.", show_default=False)],
    aggregators: Annotated[int | None, Option(help="How many aggregators there are; by default the highest number seen.")] = None,
    population: Annotated[int | None, Option(help="Size of the population of a simple random sample.")] = None,
    size: Annotated[list[str] | None, Option(help="For sums by group: GROUP=POPULATION. Repeat it.")] = None,
    level: Annotated[float, Option(help="Level of the intervals.")] = 0.95,
    output: Annotated[Path | None, Option("--output", "-o", help="Also write .json, .csv or .parquet.")] = None,
    as_json: Json = False,
) -> None:
    """Add up the sums of all aggregators and estimate every category.

    Example: `dpsurvey local combine question.toml sums-1.json sums-2.json --population 52000`

    Example: `dpsurvey local combine question.toml sums-1.json sums-2.json --size north=30000 --size south=22000`
    """
    from ..local.aggregated import Aggregated
    from ..local.combine import combine as combined
    from ..local.question import Question

    sizes: dict[str, int] | None = None
    for each in size or []:
        group, sign, number = each.rpartition("=")
        if not sign or not number.isdigit():
            raise BadValue("--size takes GROUP=POPULATION", given=each, hint="for example --size north=30000")
        sizes = (sizes or {}) | {group: int(number)}
    parts = [Aggregated.from_dict(_read_json(path)) for path in sums]
    made = combined(Question.read(file), parts, aggregators=aggregators, population=population, sizes=sizes, level=level)
    if output is not None:
        made.save(output)
    emit(made.to_dict(), str(made), as_json)


def _numbers(text: str) -> list[str]:
    parts = text.split(",")
    try:
        [float(each) for each in parts]
    except ValueError:
        raise BadValue("--box takes four numbers", given=text, hint="south,west,north,east") from None
    return parts


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise NotFound(f"there is no file {os.fspath(path)!r}")
    try:
        found = json_of(text_of(path))
    except ValueError:
        raise BadData(f"{path.name!r} cannot be read", because="it was cut off, or is no JSON file") from None
    if not isinstance(found, dict):
        raise BadData(f"{path.name!r} is not a file of an aggregator")
    return found


__all__ = ["app"]
