"""Predict the error by sampling rate at the same guarantee, and say whether to draw. Reads no rows, spends nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..planning import best_rate, rates, seconds_of_work
from ..planning.by_rate import curve_by_rate
from ..planning.error_curves import error_curves
from ..survey.errors_by_rate import planned_rate
from ..survey.plan import Plan
from ..text.layout import given_text, text_table
from .options import Expect, File, Json, Option, Plot, new_app, numbers, read_pairs, read_plan
from .output import emit, error_row, progress_bars

PLACE_IN_HELP = 40

app = new_app()


@app.command()
def rate(
    file: File,
    at: Annotated[str, Option(help="Sampling rates, 0.01,0.1,1; or a text file of them.")] = "",
    importance: Annotated[list[str] | None, Option(help="COLUMN=WEIGHT: how much its error counts; repeat it.")] = None,
    of: Annotated[str, Option(help="Advice for this estimate alone, by its name in the table.")] = "",
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
    shown = [error_row(row, "rate") | {"planned": "planned" if row["planned"] else ""} for row in rows]
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
    save_plot(rate_picture(error_curves(rows), planned_rate(made)), plot)
