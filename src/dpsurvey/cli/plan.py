"""The commands `dpsurvey plan` and `dpsurvey rate`: the errors to expect, what wanted errors need, and whether to draw."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BadValue, SurveyError
from ..planning import best_rate, by_epsilon, expecting, rates, seconds_of_work
from ..planning.by_rate import curve_by_rate, planned_rate
from ..survey.plan import Plan
from ..survey.release import Release
from ..survey.survey_file import SurveyFile
from ..text.layout import ceiling_text, given_text, group_text, text_table
from .amplify import numbers
from .talk import File, Json, emit, progress_bars, say

Option = typer.Option
Expect = Annotated[Path | None, Option(help="An earlier release.json: predict from its published figures, not the worst case.")]
Ask = Callable[[Any], float]
Plot = Annotated[Path | None, Option(help="Also draw it, as .svg or .png.")]


def plan(
    file: File,
    aim: Annotated[list[str] | None, Option(help="COLUMN=MOE: its numbers are expected within MOE; repeat it.")] = None,
    least_epsilon: Annotated[bool, Option("--least-epsilon", help="Also: the least epsilon that the aims need.")] = False,
    least_n: Annotated[bool, Option("--least-n", help="Also: the fewest units to draw that the aims need.")] = False,
    expect_from: Expect = None,
    epsilons: Annotated[str, Option(help="Error by epsilon, at these: 0.1,0.5,1.")] = "",
    plot: Annotated[Path | None, Option(help="Draw the error by epsilon, as .svg or .png.")] = None,
    as_json: Json = False,
) -> None:
    """Predict the error of every number and the guarantee. Reads no rows, spends nothing.

    Examples:

    `dpsurvey plan survey.toml`

    `dpsurvey plan survey.toml --aim income=400 --aim status=0.01`

    `dpsurvey plan survey.toml --aim income=400 --least-epsilon --least-n`

    `dpsurvey plan survey.toml --expect-from 2025/release.json --plot error-by-epsilon.svg`
    """
    made = read_plan(file, expect_from)
    targets = read_pairs(aim or [], "--aim", "income=400")
    if (least_epsilon or least_n) and not targets:
        raise BadValue("--least-epsilon and --least-n need an --aim", hint="--aim income=400 --least-epsilon")
    asked: dict[str, Ask] = {"least_epsilon": made.least_epsilon} if least_epsilon else {}
    asked |= {"least_n": made.least_size} if least_n else {}
    needs = _needs(asked, targets)
    if targets and not needs:
        made = made.aim(targets)
    rows = _by_epsilon(made, epsilons, plot)
    table = [_short(row, "epsilon") for row in rows] if epsilons else []
    told = _told(needs)
    lines = [str(made), *([""] if told else []), *told]
    if table:
        lines += ["", text_table(table, ["epsilon", "statistic", "of", "group", "se_sampling", "se_noise", "se", "moe"])]
    emit(made.to_dict() | needs | ({"by_epsilon": rows} if rows else {}), "\n".join(lines), as_json)
    if targets and not needs and not as_json:
        weights = json.dumps([float(f"{weight:.6g}") for weight in made.weights])
        say(f"to release with these shares, put under [release]: share = {made.share:.6g}, weights = {weights}")


def _needs(asked: dict[str, Ask], targets: dict[str, float]) -> dict[str, Any]:
    """What the aims need: what one question refuses, another may answer, so only if none is answered is there a refusal."""
    found: dict[str, Any] = {}
    refused: dict[str, SurveyError] = {}
    for name, ask in asked.items():
        try:
            found[name] = ask(targets)
        except SurveyError as refusal:
            refused[name] = refusal
    if refused and not found:
        raise next(iter(refused.values()))
    if refused:
        found |= dict.fromkeys(refused) | {"refused": {name: each.to_dict() for name, each in refused.items()}}
    return found


def _told(needs: dict[str, Any]) -> list[str]:
    texts: dict[str, Callable[[Any], str]] = {"least_epsilon": lambda epsilon: ceiling_text(epsilon, 6), "least_n": "{:,}".format}
    refused = {name: f"none, as {each['what']}; {each['hint']}" for name, each in needs.get("refused", {}).items()}
    return [
        f"{name.replace('_', ' ')} for these aims: {refused[name] if name in refused else text(needs[name])}"
        for name, text in texts.items()
        if name in needs
    ]


def _by_epsilon(made: Plan, epsilons: str, plot: Path | None) -> list[dict[str, Any]]:
    if not epsilons and plot is None:
        return []
    with progress_bars() as bars:
        at = numbers(epsilons, "epsilons", float) if epsilons else None
        rows = by_epsilon(made, at, progress=bars) if at else by_epsilon(made, progress=bars)
    if plot is not None:
        from ..view.design_plots import save_plot
        from ..view.planning_plots import epsilon_picture

        save_plot(epsilon_picture(rows, made.terms.budget.epsilon), plot)
    return rows


def rate(
    file: File,
    at: Annotated[str, Option(help="Sampling rates, 0.01,0.1,1; or a text file of them.")] = "",
    importance: Annotated[list[str] | None, Option(help="COLUMN=WEIGHT: how much its error counts; repeat it.")] = None,
    of: Annotated[str, Option(help="Advice for this number alone, by its name in the table.")] = "",
    expect_from: Expect = None,
    seconds: Annotated[bool, Option("--seconds", help="Also seconds of work by rate, measured here on made-up rows.")] = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Predict the error by sampling rate at the same guarantee, and say whether to draw. Reads no rows, spends nothing.

    The sample gets smaller or larger by the survey's own design, and its own rule says what that does to the guarantee.

    Examples:

    `dpsurvey rate survey.toml`

    `dpsurvey rate survey.toml --at 0.01,0.05,0.2,1 --importance income=3 --importance status=1 --plot error-by-rate.svg`

    `dpsurvey rate survey.toml --seconds --json`
    """
    made = read_plan(file, expect_from)
    wanted = numbers(at, "at", float) if at else None
    weights = read_pairs(importance or [], "--importance", "income=3")
    with progress_bars() as bars:
        rows = rates(made, wanted, importance=weights or None, progress=bars)
        rows = seconds_of_work(made, rows) if seconds else rows
    advice = best_rate(rows, of or None)
    if plot is not None:
        _draw_rates(made, plot)
    shown = [_short(row, "rate") | {"planned": "planned" if row["planned"] else ""} for row in rows]
    columns = ["rate", "planned", "n", "statistic", "of", "group", "se_sampling", "se_noise", "se", "ratio", "epsilon_in_sample"]
    columns += ["cost"] if made.fieldwork is not None else []
    columns += ["seconds"] if seconds else []
    text = text_table(shown, columns)
    refused = [f"rate {given_text(row['rate'])}: {row['refused']}" for row in rows if row["refused"]]
    emit({"rows": rows, "advice": advice}, "\n".join([text, "", *refused, f"Advice: {advice['advice']}."]), as_json)


def _draw_rates(made: Plan, plot: Path) -> None:
    from ..view.design_plots import save_plot
    from ..view.planning_plots import rate_picture

    with progress_bars() as bars:
        rows = curve_by_rate(made, progress=bars)
    save_plot(rate_picture(rows, planned_rate(made)), plot)


def read_plan(file: Path, expect_from: Path | None) -> Plan:
    """The plan of a survey file, with the figures of an earlier release where one is named."""
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


def _short(row: dict[str, Any], first: str) -> dict[str, Any]:
    return {
        **row,
        "of": row["label"],
        first: given_text(row[first]),
        "group": group_text(row["by"]) if row["by"] or row["statistic"] != "plan" else "",
    }
