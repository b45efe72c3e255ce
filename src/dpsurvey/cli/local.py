"""Answers randomised before they leave the respondent: questions, reports, estimates, and what is leaked."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BadValue, NotFound
from ..text.writing import check_place, write_file
from .options import Json, Option, Plot, new_app
from .output import emit, progress_bars, say

PLACE_IN_HELP = 130

app = new_app(help=__doc__, no_args_is_help=True)
QuestionFile = Annotated[Path, typer.Argument(help="The question file.", show_default=False)]
Output = Annotated[Path, Option("--output", "-o", help="The file to write; nothing is overwritten.", show_default=False)]


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
    from ..local.question import Question
    from ..local.reports import randomize_table, rarest_combination
    from ..local.tables import kind_of, write_table

    asked = Question.read(file)
    kind_of(output)
    if (latitude is None) != (longitude is None) or (latitude is not None and answer is not None):
        raise BadValue("a place needs --latitude and --longitude, and no --answer")
    where: Any = (latitude, longitude) if latitude is not None else answer or asked.name
    table = randomize_table(asked, os.fspath(answers), answer=where, respondent=respondent, keep=keep or [], shuffle=shuffle)
    write_table(table, output)
    document = {"written": os.fspath(output), "reports": len(table), "question": asked.fingerprint}
    emit(document, f"{len(table):,} reports in {os.fspath(output)}", as_json)
    if shuffle and keep:
        rarest = rarest_combination(table, keep)
        say(f"the rarest combination of the kept columns stands in {rarest:,} reports: count on no more than that to hide among")
    if math.isinf(asked.mechanism.epsilon):
        say(asked.mechanism.reports_guarantee + " These reports, linked as they are, must not leave the respondent.")
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
    from ..local.estimate import estimate as estimated
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
    from ..local.cells import Grid, Ranges
    from ..local.discretise import discretise as discretised
    from ..local.question import box_from
    from ..local.tables import kind_of, write_table

    kind_of(output)
    if (size is None) == (value is None):
        raise BadValue(
            "say what to discretise", hint='--size "2 km" for places, or --value COLUMN --low --high --width for numbers'
        )
    if size is not None:
        grid = Grid(size, box_from(_numbers(box) if box else None))
        made = discretised(os.fspath(table), grid, (latitude, longitude), name=name)
    else:
        if low is None or high is None or width is None:
            raise BadValue("ranges need --low, --high and --width")
        made = discretised(os.fspath(table), Ranges(low, high, width, ends), str(value), name=name)
    write_table(made, output)
    rows, cells = len(made), len(made.column(name).unique())
    document = {"written": os.fspath(output), "rows": rows, "cells": cells}
    emit(document, f"{rows:,} rows in {cells:,} cells: {os.fspath(output)}", as_json)
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
    from ..local.secret_shares import check_aggregators
    from ..local.secret_shares import split as shared
    from ..local.tables import kind_of, write_table

    asked = Question.read(file)
    ending = kind_of(output)
    count = aggregators if aggregators is not None else asked.mechanism.aggregators or 2
    check_aggregators(asked, count)
    names = [output.with_name(f"{output.stem}-{number}{ending}") for number in range(1, count + 1)]
    for each in names:
        if each.exists():
            raise BadValue(f"{os.fspath(each)!r} exists already", hint="choose another name; nothing was overwritten")
    for each, table in zip(names, shared(asked, os.fspath(reports), count, keep=keep or []), strict=True):
        write_table(table, each)
    files = [os.fspath(each) for each in names]
    emit({"written": files}, "\n".join(files), as_json)
    say("send each file to its aggregator, by separate routes, and delete the reports: all files together give them back")


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
    from ..local.secret_shares import aggregate as aggregated
    from ..local.secret_shares import common_respondents
    from ..local.secret_shares import roster as listed

    asked = Question.read(file)
    check_place(output)
    if roster:
        own = listed(asked, os.fspath(shares))
        write_file(output, json.dumps(own) + "\n")
        emit({"written": os.fspath(output), "respondents": len(own["respondents"])}, os.fspath(output), as_json)
        return
    only = common_respondents(asked, together) if together else None
    made = aggregated(asked, os.fspath(shares), only=only, by=by, least=least, again=again)
    write_file(output, json.dumps(made.to_dict(), indent=1) + "\n")
    added = {"written": os.fspath(output), "respondents": sum(made.respondents.values()), "aggregator": made.aggregator}
    emit(added, f"aggregator {made.aggregator}: {added['respondents']:,} respondents added up in {os.fspath(output)}", as_json)


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
    parts = [Aggregated.read(path) for path in sums]
    made = combined(Question.read(file), parts, aggregators=aggregators, population=population, sizes=sizes, level=level)
    if output is not None:
        made.save(output)
    emit(made.to_dict(), str(made), as_json)


def _numbers(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise BadValue("--box takes four numbers", given=text, hint="south,west,north,east") from None


@app.command()
def leakage(
    file: QuestionFile,
    respondents: Annotated[
        int | None, Option(help="Respondents behind the published counts; by default as many up to 8 as can be enumerated.")
    ] = None,
    epsilon: Annotated[float, Option(help="Show delta at this epsilon.")] = 1.0,
    audit: Annotated[int, Option(help="Also simulate this many releases and bound epsilon from below.")] = 0,
    confidence: Annotated[float, Option(help="With --audit: the confidence of the bound.")] = 0.95,
    yes: Annotated[int, Option(help="Sampling Privacy: the count whose error is compared.")] = 100,
    among: Annotated[int, Option(help="Sampling Privacy: among this many respondents.")] = 10_000,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Show exactly what a mechanism leaks, for every view, enumerated from the client's own code.

    Example: `dpsurvey local leakage question.toml --respondents 6 --plot leakage.svg`

    Example: `dpsurvey local leakage paper.toml --audit 10000` (`question paper.toml --example sampling-privacy` writes it)
    """
    from ..local.audit import audit as audited
    from ..local.leak_report import curve_rows, error_rows, leakage_rows, leakage_text, leakages
    from ..local.question import Question

    whole = Question.read(file).mechanism
    mechanism = whole.small()
    if mechanism != whole:
        fewer = ", ".join(f"{key} {value}" for key, value in mechanism.to_dict().items() if whole.to_dict()[key] != value)
        say(f"{mechanism.title} has too many sequences of choices to go through: this is the same client with {fewer}")
    if not 0 <= yes <= among:
        raise BadValue("--yes is at most --among", given=f"yes={yes}, among={among}")
    printed = mechanism.refuted_epsilon
    found = leakages(mechanism, respondents)
    rows = leakage_rows(found, epsilon, printed)
    errors = error_rows(mechanism, yes, among) or None
    others = (99, *([0] * (mechanism.k - 1)))
    made = audited(mechanism, others=others, runs=audit, confidence=confidence) if audit else None
    if plot is not None:
        from ..view.design_plots import save_plot
        from ..view.local_plots import leakage_plot

        save_plot(leakage_plot(curve_rows(found, printed), printed, f"What {mechanism.title} leaks"), plot)
    document = {"mechanism": mechanism.to_dict(), "printed_epsilon": printed, "views": rows, "errors": errors}
    document |= {"audit": made.to_dict() if made else None}
    emit(document, leakage_text(mechanism, rows, errors, made, yes, among), as_json)


@app.command()
def choose(
    k: Annotated[int, Option("--k", help="How many categories.")],
    epsilon: Annotated[float, Option(help="The loss of one respondent.")],
    n: Annotated[int | None, Option("--n", help="How many respondents.")] = None,
    moe: Annotated[float | None, Option(help="A wanted margin of error of a share: how many respondents it needs.")] = None,
    share: Annotated[float | None, Option(help="With --moe: the share; by default the one that needs most.")] = None,
    population: Annotated[int | None, Option(help="With --moe: size of the population of a simple random sample.")] = None,
    deff: Annotated[float, Option(help="With --moe: the design effect of another design.")] = 1.0,
    response: Annotated[float, Option(help="With --moe: the expected response rate.")] = 1.0,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Choose the mechanism with the least error, and plan the number of respondents.

    Example: `dpsurvey local choose --k 100 --epsilon 1 --n 20000 --plot choice.svg`

    Example: `dpsurvey local choose --k 2 --epsilon 1 --moe 0.03 --response 0.6`
    """
    from ..local.choice import choose as chosen
    from ..local.choice import error_of_equal_shares, errors_by_epsilon, respondents_needed, sample_size

    made = chosen(k=k, epsilon=epsilon, n=n)
    document, text = made.to_dict(), str(made)
    if moe is not None:
        options = {"share": share, "population": population, "deff": deff, "response": response}
        document["sample_sizes"], lines = [], []
        for place, each in enumerate(made.options):
            # Only the recommended mechanism has to be within reach.
            size = (respondents_needed if place else sample_size)(each.mechanism, moe, **options)  # type: ignore[arg-type]
            if size.out_of_reach:
                lines.append(f"{each.mechanism.kind}: out of reach ({size.out_of_reach})")
                continue
            document["sample_sizes"].append(size.to_dict())
            lines.append(str(size))
        text += "\n\n" + "\n".join(lines)
        text += "" if share is not None else "\nat the share that needs most of each; --share 0.3 compares at one share"
    elif share is not None or population is not None or deff != 1.0 or response != 1.0:
        raise BadValue("--share, --population, --deff and --response go with --moe", hint="--moe 0.03 is three points")
    if plot is not None:
        from ..view.design_plots import save_plot
        from ..view.local_plots import choice_plot

        respondents = n or 1000
        title = f"{k} categories, {respondents:,} respondents: what randomisation costs"
        save_plot(choice_plot(errors_by_epsilon(k, respondents), error_of_equal_shares(k, respondents), epsilon, title), plot)
    emit(document, text, as_json)


@app.command()
def guarantee(
    file: QuestionFile,
    reports: Annotated[int | None, Option(help="How many honest respondents, for those who see reports without names.")] = None,
    delta: Annotated[float, Option(help="The delta of that guarantee.")] = 0.0,
    population: Annotated[int | None, Option(help="Respondents are a secret simple random sample of so many.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is guaranteed, and against whom: one report, reports without names, or participation that is secret too.

    Example: `dpsurvey local guarantee question.toml`

    Example: `dpsurvey local guarantee question.toml --reports 5000 --delta 1e-8 --population 52000`
    """
    from ..design import srs
    from ..local.guarantee import guarantee as guaranteed
    from ..local.question import Question

    asked = Question.read(file)
    if population is not None and reports is None:
        raise BadValue("--population needs the number of respondents", hint="--reports 5000 --delta 1e-8")
    design = None if population is None or reports is None else srs(n=reports, size=population)
    made = guaranteed(asked.mechanism, reports=reports, delta=delta, design=design)
    emit({"question": asked.fingerprint} | made.to_dict(), str(made), as_json)
