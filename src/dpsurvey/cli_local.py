"""`dpsurvey local question, randomize, estimate, leakage, choose, promise`: answers that nobody knows, not even the agency."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from .cli_talk import Json, emit, progress_bars, say
from .errors import BadValue

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
    from .local.starter import starter_question

    text = starter_question(example)
    if path.exists():
        raise BadValue(f"{os.fspath(path)!r} exists already", hint="choose another name; nothing was overwritten")
    path.write_text(text, encoding="utf-8")
    emit({"written": os.fspath(path)}, os.fspath(path), as_json)
    say(f"edit it, then: dpsurvey local promise {os.fspath(path)}")


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
    from .local.question import Question
    from .local.reports import randomize_table
    from .local.tables import kind_of, write_table

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
    say("a second report of the same answer costs its epsilon again: delete the answers, or keep these reports")


@app.command()
def estimate(
    file: QuestionFile,
    reports: Annotated[Path, typer.Argument(help="The reports, CSV or Parquet.", show_default=False)],
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
    candidate: Annotated[list[str] | None, Option(help="In an open domain: a label to estimate. Repeat it.")] = None,
    expect: Annotated[int | None, Option(help="How many respondents the file should hold.")] = None,
    level: Annotated[float, Option(help="Level of the intervals.")] = 0.95,
    output: Annotated[Path | None, Option("--output", "-o", help="Also write .json, .csv or .parquet.")] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Estimate the share of every category from reports, with sampling error and randomisation error apart.

    Example: `dpsurvey local estimate question.toml reports.csv --population 52000`

    Example: `dpsurvey local estimate question.toml reports.parquet --strata region --weights weight --plot shares.svg`

    Example: `dpsurvey local estimate question.toml reports.csv --weights weight --classes region --sampled sample.parquet`
    """
    from .local.estimating import class_weights
    from .local.estimating import estimate as estimated
    from .local.question import Question

    asked = Question.read(file)
    if (classes is None) != (sampled is None):
        raise BadValue("--classes and --sampled go together", hint="the class column stands in both files")
    sizes: Any = None if not fpc else fpc[0] if len(fpc) == 1 else tuple(fpc)
    with progress_bars() as bars:
        made = estimated(
            asked,
            os.fspath(reports),
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
            class_totals=class_weights(os.fspath(sampled), classes, sampled_weight) if sampled and classes else None,
            candidates=candidate,
            expect=expect,
            level=level,
            progress=bars,
        )
    if output is not None:
        made.save(output)
    if plot is not None:
        from .compare_plot import save_plot
        from .local_plot import estimates_plot, estimates_rows

        save_plot(estimates_plot(estimates_rows(made), f"{asked.text or asked.name}"), plot)
    emit(made.to_dict(), str(made), as_json)


@app.command()
def leakage(
    file: QuestionFile,
    respondents: Annotated[int, Option(help="Respondents behind the published counts; enumerated in full, up to about 8.")] = 8,
    epsilon: Annotated[float, Option(help="Show delta at this epsilon.")] = 1.0,
    audit: Annotated[int, Option(help="Also simulate this many releases and bound epsilon from below.")] = 0,
    yes: Annotated[int, Option(help="Sampling Privacy: the count whose error is compared.")] = 100,
    among: Annotated[int, Option(help="Sampling Privacy: among this many respondents.")] = 10_000,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Show exactly what a mechanism leaks, for every view, enumerated from the client's own code.

    Example: `dpsurvey local leakage question.toml --respondents 6 --plot leakage.svg`

    Example: `dpsurvey local leakage paper.toml --audit 10000`
    """
    from .local.audit import audit as audited
    from .local.leak_report import error_rows, leakage_rows, leakage_text, leakages
    from .local.question import Question
    from .local.sampling_privacy import SamplingPrivacy

    mechanism = Question.read(file).mechanism
    if not 0 <= yes <= among:
        raise BadValue("--yes is at most --among", given=f"yes={yes}, among={among}")
    printed = mechanism.printed_epsilon if isinstance(mechanism, SamplingPrivacy) else None
    found = leakages(mechanism, respondents)
    rows = leakage_rows(found, epsilon, printed)
    errors = error_rows(mechanism, yes, among) if isinstance(mechanism, SamplingPrivacy) else None
    others = (99, *([0] * (mechanism.k - 1)))
    made = audited(mechanism, others=others, runs=audit) if audit else None
    if plot is not None:
        from .compare_plot import save_plot
        from .local_plot import leakage_plot

        save_plot(leakage_plot(found, printed, f"What {mechanism.title} leaks"), plot)
    told = {"mechanism": mechanism.to_dict(), "printed_epsilon": printed, "views": rows, "errors": errors}
    told |= {"audit": made.to_dict() if made else None}
    emit(told, leakage_text(mechanism, rows, errors, made, yes, among), as_json)


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
    from .local.choice import choose as chosen
    from .local.choice import sample_size

    made = chosen(k=k, epsilon=epsilon, n=n)
    told, text = made.to_dict(), str(made)
    if moe is not None:
        sizes = [
            sample_size(each.mechanism, moe, share=share, population=population, deff=deff, response=response)
            for each in made.options
        ]
        told["sample_sizes"] = [size.to_dict() for size in sizes]
        text += "\n\n" + "\n".join(str(size) for size in sizes)
    elif share is not None or population is not None or deff != 1.0 or response != 1.0:
        raise BadValue("--share, --population, --deff and --response go with --moe", hint="--moe 0.03 is three points")
    if plot is not None:
        from .compare_plot import save_plot
        from .local_plot import choice_plot, choice_rows

        respondents = n or 1000
        save_plot(choice_plot(choice_rows(k, respondents), k, respondents, epsilon), plot)
    emit(told, text, as_json)


@app.command()
def promise(
    file: QuestionFile,
    reports: Annotated[int | None, Option(help="How many honest respondents, for those who see reports without names.")] = None,
    delta: Annotated[float, Option(help="The delta of that promise.")] = 0.0,
    population: Annotated[int | None, Option(help="Respondents are a secret simple random sample of so many.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is promised, and against whom: one report, reports without names, or participation that is secret too.

    Example: `dpsurvey local promise question.toml`

    Example: `dpsurvey local promise question.toml --reports 5000 --delta 1e-8 --population 52000`
    """
    from .design.selection import WithoutReplacement
    from .local.promise import promise as promised
    from .local.question import Question

    asked = Question.read(file)
    if population is not None and reports is None:
        raise BadValue("--population needs the number of respondents", hint="--reports 5000 --delta 1e-8")
    selection = None if population is None or reports is None else WithoutReplacement(n=reports, population=population)
    made = promised(asked.mechanism, reports=reports, delta=delta, selection=selection)
    emit({"question": asked.fingerprint} | made.to_dict(), str(made), as_json)
