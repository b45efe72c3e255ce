"""`dpsurvey local question, randomize, estimate`: answers that nobody knows, not even the agency."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BadValue, NotFound
from ..text.writing import write_file
from .talk import Json, emit, progress_bars, say

app = typer.Typer(
    name="local",
    help="Answers randomised before they leave the respondent: questions, reports, estimates, and what is leaked.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)
Option = typer.Option
QuestionFile = Annotated[Path, typer.Argument(help="The question file.", show_default=False)]
Output = Annotated[Path, Option("--output", "-o", help="The file to write; nothing is overwritten.", show_default=False)]
Plot = Annotated[Path | None, Option(help="A picture, .svg or .png.")]


@app.command()
def question(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("question.toml"),
    example: Annotated[
        str, Option(help="Which mechanism it starts with: best, two-coins, warner, sampling-privacy or guarded.")
    ] = "best",
    as_json: Json = False,
) -> None:
    """Write a question file to start from.

    Example: `dpsurvey local question question.toml --example sampling-privacy`
    """
    from ..local.starter import starter_question

    write_file(path, starter_question(example))
    emit({"written": os.fspath(path)}, os.fspath(path), as_json)
    say(f"edit it, then: dpsurvey local guarantee {os.fspath(path)}")


@app.command()
def randomize(
    file: QuestionFile,
    answers: Annotated[Path, typer.Argument(help="The answers, CSV or Parquet.", show_default=False)],
    output: Output,
    answer: Annotated[str | None, Option(help="The column of answers; by default the question's name.")] = None,
    latitude: Annotated[str | None, Option(help="With a grid: the column of latitudes.")] = None,
    longitude: Annotated[str | None, Option(help="With a grid: the column of longitudes.")] = None,
    respondent: Annotated[str | None, Option(help="The column that tells respondents apart.")] = None,
    keep: Annotated[list[str] | None, Option(help="A public column to carry along: weight, stratum, cluster. Repeat it.")] = None,
    shuffle: Annotated[
        bool, Option("--shuffle", help="Random order and no respondents; columns kept along can still tell people apart.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Randomise answers as respondents' own devices would: reports go out, answers stay.

    Example: `dpsurvey local randomize question.toml answers.csv --answer smokes --respondent id -o reports.csv`

    Example: `dpsurvey local randomize where.toml places.parquet --latitude lat --longitude lon --shuffle -o reports.parquet`
    """
    from ..local.estimates import guarantee_text
    from ..local.question import Question
    from ..local.reports import randomize_table
    from ..local.tables import kind_of, write_table

    asked = Question.read(file)
    kind_of(output)
    if (latitude is None) != (longitude is None) or (latitude is not None and answer is not None):
        raise BadValue("a place needs --latitude and --longitude, and no --answer")
    where: Any = (latitude, longitude) if latitude is not None else answer or asked.name
    table = randomize_table(asked, os.fspath(answers), answer=where, respondent=respondent, keep=keep or [], shuffle=shuffle)
    write_table(table, output)
    told = {"written": os.fspath(output), "reports": len(table), "question": asked.fingerprint}
    emit(told, f"{len(table):,} reports in {os.fspath(output)}", as_json)
    if shuffle and keep:
        rarest = min(table.group_by(list(keep)).aggregate([([], "count_all")]).column("count_all").to_pylist())
        say(f"the rarest combination of the columns kept along stands in {rarest:,} reports: count on no more to hide in")
    if math.isinf(asked.mechanism.epsilon):
        say(guarantee_text(asked.mechanism) + " These reports, linked as they are, must not leave the respondent.")
    say("a second report of the same answer costs as much again: keep these reports, and delete the answers")


@app.command()
def estimate(
    file: QuestionFile,
    reports: Annotated[
        list[Path], typer.Argument(help="The reports, CSV or Parquet; several files, or a folder of them.", show_default=False)
    ],
    population: Annotated[
        int | None, Option(help="Size of the population of a simple random sample; the number of reports if all were asked.")
    ] = None,
    strata: Annotated[str | None, Option(help="Column of the stratum.")] = None,
    psu: Annotated[str | None, Option(help="Column of the first-stage unit.")] = None,
    ssu: Annotated[str | None, Option(help="Column of the second-stage unit.")] = None,
    weights: Annotated[str | None, Option(help="Column of the weights.")] = None,
    probs: Annotated[str | None, Option(help="Column of the inclusion probabilities.")] = None,
    fpc: Annotated[list[str] | None, Option(help="Column of population sizes; twice for two stages.")] = None,
    sampling: Annotated[str, Option(help="stages, or with --probs: poisson, brewer, deville, overton, hartley-rao.")] = "stages",
    lonely: Annotated[str, Option(help="Strata with one unit: refuse, certainty, adjust or average.")] = "refuse",
    classes: Annotated[str | None, Option(help="Column of nonresponse classes, with --sampled.")] = None,
    sampled: Annotated[
        Path | None, Option(help="Everybody drawn (the sealed sample): weights of those who reported are scaled up to theirs.")
    ] = None,
    sampled_weight: Annotated[str, Option(help="The column of design weights in --sampled.")] = "weight",
    public: Annotated[Path | None, Option(help="A table of public columns (weights, strata) to add by respondent.")] = None,
    unit: Annotated[str, Option(help="The column of respondents in --public.")] = "unit",
    by: Annotated[str | None, Option(help="A public column: shares in each of its groups.")] = None,
    consistent: Annotated[
        bool, Option("--consistent", help="Also the nearest shares that are not negative and add up to one.")
    ] = False,
    candidate: Annotated[list[str] | None, Option(help="In an open domain: a label to estimate. Repeat it.")] = None,
    expect: Annotated[int | None, Option(help="How many respondents the file should hold.")] = None,
    level: Annotated[float, Option(help="Level of the intervals.")] = 0.95,
    output: Annotated[Path | None, Option("--output", "-o", help="Also write .json, .csv or .parquet.")] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Estimate the share of every category from reports, with sampling error and randomisation error apart.

    Example: `dpsurvey local estimate question.toml reports.csv --population 52000`

    Example: `dpsurvey local estimate question.toml reports.parquet --strata region --weights weight --by sex --plot shares.svg`

    Example: `dpsurvey local estimate question.toml returned/ --public sample.parquet --unit unit --weights weight`

    Example: `dpsurvey local estimate question.toml reports.csv --weights weight --classes region --sampled sample.parquet`
    """
    from ..local.estimating import estimate as estimated
    from ..local.question import Question
    from ..local.weighting import class_weights

    asked = Question.read(file)
    if (classes is None) != (sampled is None):
        raise BadValue("--classes and --sampled go together", hint="the class column stands in both files")
    # Classes are scaled in the units that respondents are counted in: weights where there are some, else heads.
    weighted = sampled_weight if weights or probs or fpc else None
    sizes: Any = None if not fpc else fpc[0] if len(fpc) == 1 else tuple(fpc)
    with progress_bars() as bars:
        made = estimated(
            asked,
            _files(reports),
            population=population,
            strata=strata,
            psu=psu,
            ssu=ssu,
            weights=weights,
            probs=probs,
            fpc=sizes,
            sampling=sampling,
            lonely=lonely,
            classes=classes,
            class_totals=class_weights(os.fspath(sampled), classes, weighted) if sampled and classes else None,
            by=by,
            public=os.fspath(public) if public else None,
            unit=unit if public else None,
            candidates=candidate,
            expect=expect,
            level=level,
            progress=bars,
        )
    if consistent:
        made = replace(made, rows=tuple(made.consistent()))
    if output is not None:
        made.save(output)
    if plot is not None:
        from ..view.design_plots import save_plot
        from ..view.local_plots import estimates_plot

        save_plot(estimates_plot(made), plot)
    emit(made.to_dict(), str(made), as_json)


def _files(given: list[Path]) -> list[str]:
    """The files of reports: those named, and those in folders named."""
    for path in given:
        if not path.exists():
            raise NotFound(f"there is no file or folder {os.fspath(path)!r}")
    found = [
        each
        for path in given
        for each in (sorted(path.glob("*.csv")) + sorted(path.glob("*.parquet")) if path.is_dir() else [path])
    ]
    if not found:
        raise BadValue("the folder holds no CSV or Parquet file", given=", ".join(os.fspath(path) for path in given))
    return [os.fspath(path) for path in found]
