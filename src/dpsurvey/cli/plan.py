"""Predict the error of every estimate and the guarantee. Reads no rows, spends nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from ..errors import BadValue, SurveyError
from ..planning import by_epsilon
from ..planning.error_curves import error_curves
from ..survey.plan import Plan
from ..text.layout import ceiling_text, text_table
from .options import Expect, File, Json, Option, new_app, numbers, read_pairs, read_plan
from .output import emit, error_row, progress_bars, say

PLACE_IN_HELP = 30

app = new_app()
Ask = Callable[[Any], float]


@app.command()
def plan(
    file: File,
    aim: Annotated[list[str] | None, Option(help="COLUMN=MOE: its estimates are expected within MOE; repeat it.")] = None,
    least_epsilon: Annotated[bool, Option("--least-epsilon", help="Also: the least epsilon that the aims need.")] = False,
    least_n: Annotated[bool, Option("--least-n", help="Also: the fewest units to draw that the aims need.")] = False,
    expect_from: Expect = None,
    epsilons: Annotated[str, Option(help="Error by epsilon, at these: 0.1,0.5,1.")] = "",
    plot: Annotated[Path | None, Option(help="Draw the error by epsilon, as .svg or .png.")] = None,
    as_json: Json = False,
) -> None:
    """Predict the error of every estimate and the guarantee. Reads no rows, spends nothing.

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
    table = [error_row(row, "epsilon") for row in rows] if epsilons else []
    needed = _needs_text(needs)
    lines = [str(made), *([""] if needed else []), *needed]
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


def _needs_text(needs: dict[str, Any]) -> list[str]:
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

        save_plot(epsilon_picture(error_curves(rows), made.terms.budget.epsilon), plot)
    return rows
