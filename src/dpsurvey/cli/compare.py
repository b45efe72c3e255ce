"""Designs and settings side by side, before anything is decided. Reads no rows, spends nothing.

Examples:

`dpsurvey compare designs --rate 0.1 --epsilon 1 --plot designs.svg`

`dpsurvey compare designs survey.toml --clusters psu,4000,30`

`dpsurvey compare settings survey.toml`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BadValue
from ..planning import best_rates, caps, compare_designs, compare_settings, designs_by_rate, median_rates, published_values
from ..planning.designs_by_rate import ICC, SIZE, compare
from ..planning.settings import recommendations
from ..survey.release import Release
from ..text.layout import ceiling_text, given_text, group_text, text_table
from .options import Expect, File, Json, Option, Plot, new_app, numbers, numbers_in, read_plan
from .output import emit, progress_bars

PLACE_IN_HELP = 50

app = new_app(help=__doc__, no_args_is_help=True)


@app.command()
def designs(
    file: Annotated[
        Path | None, typer.Argument(help="A survey.toml; without one, all designs at --rate.", show_default=False)
    ] = None,
    rate: Annotated[float | None, Option(help="Without a file: the sampling rate.")] = None,
    epsilon: Annotated[float | None, Option(help="Without a file: the loss of the mechanism on the sample.")] = None,
    size: Annotated[int, Option(help="Without a file: units of the frame that errors are predicted for.")] = SIZE,
    icc: Annotated[float, Option(help="Without a file: intraclass correlation of clusters of ten.")] = ICC,
    clusters: Annotated[str | None, Option(help="With a file: COLUMN,NUMBER,CAP of clusters to try out.")] = None,
    sizes: Annotated[
        str | None, Option(help="With a file: COLUMN,AT_MOST, a measure of size and the largest probability.")
    ] = None,
    by_rate: Annotated[bool, Option("--by-rate", help="Without a file: at several rates, as a table or a picture.")] = False,
    expect_from: Expect = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """All designs at the same expected sample size: guarantee, error, refusal.

    With a survey.toml, at its guarantee, for the frame; without, at one epsilon on the sample.

    Examples:

    `dpsurvey compare designs --rate 0.1 --epsilon 1`

    `dpsurvey compare designs --epsilon 1 --by-rate --plot designs-by-rate.svg`

    `dpsurvey compare designs survey.toml --clusters psu,4000,30 --sizes employees,0.2`
    """
    if file is not None:
        if rate is not None or epsilon is not None or by_rate or plot is not None or (size, icc) != (SIZE, ICC):
            hint = "leave out --rate, --epsilon, --by-rate, --size, --icc and --plot"
            raise BadValue("a survey file says the rate, the epsilon and the frame", hint=hint)
        made = read_plan(file, expect_from)
        rows = compare_designs(made, clusters=_clusters(clusters), sizes=_sizes(sizes))
        emit(rows, _designs_text(rows), as_json)
        return
    if clusters or sizes or expect_from:
        raise BadValue(
            "--clusters, --sizes and --expect-from are for a survey file", hint="dpsurvey compare designs survey.toml ..."
        )
    if epsilon is None or (rate is None) != by_rate:
        hint = "dpsurvey compare designs --rate 0.1 --epsilon 1"
        raise BadValue("without a survey file --epsilon is needed, and --rate or --by-rate", hint=hint)
    if by_rate:
        if (size, icc) != (SIZE, ICC):
            raise BadValue(
                "--size and --icc are for one --rate", hint="dpsurvey compare designs --rate 0.1 --epsilon 1 --size 5000"
            )
        rows = designs_by_rate(epsilon)
        if plot is not None:
            from ..view.design_plots import save_plot
            from ..view.planning_plots import designs_rate_picture

            save_plot(designs_rate_picture(rows, epsilon), plot)
        columns = ["rate", "design", "base", "neighbours", "epsilon", "epsilon_in_sample", "se", "exact", "note"]
    else:
        assert rate is not None
        rows = compare(rate, epsilon, size=size, icc=icc)
        if plot is not None:
            from ..view.design_plots import compare_plot, save_plot

            save_plot(compare_plot(rows, rate, epsilon), plot)
        columns = ["design", "base", "neighbours", "epsilon", "epsilon_in_sample", "se", "exact", "note"]
    shown = [
        row
        | {"exact": "yes" if row["exact"] else "no", "epsilon": _loss(row["epsilon"]), "se": _error(row["se"])}
        | {"epsilon_in_sample": "" if row["epsilon_in_sample"] is None else _loss(row["epsilon_in_sample"])}
        for row in rows
    ]
    sys.stdout.write((json.dumps(rows, indent=1) if as_json else text_table(shown, columns)) + "\n")


@app.command()
def settings(file: File, expect_from: Expect = None, as_json: Json = False) -> None:
    """The settings for one plan: what amplifies, what is fixed, the error, who is not protected; and recommendations.

    Example: `dpsurvey compare settings survey.toml`
    """
    rows = compare_settings(read_plan(file, expect_from))
    shown = [
        {
            "": "*" if row["own"] else "",
            "protect": row["protect"],
            "held fixed": row["given"] or "nothing",
            "amplifies": row["amplifies"] or "refused",
            "weights": "fixed" if row["weights_fixed"] else "not fixed",
            "epsilon": "" if row["epsilon"] is None else _loss(row["epsilon"]),
            "epsilon_in_sample": "" if row["epsilon_in_sample"] is None else _loss(row["epsilon_in_sample"]),
            "sensitivity": "" if row["sensitivity"] is None else f"{row['sensitivity']:.4g}",
            "error": "" if row["ratio"] is None else f"{row['ratio']:.3g}",
            "not protected": row["refused"] or row["not_protected"],
        }
        for row in rows
    ]
    lines = [text_table(shown, list(shown[0])), "", "* as planned; error: over that of the plan as it is.", ""]
    lines += [
        "Recommendations of Bailie and Drechsler (section 6):",
        *(f"  {n}. {text}." for n, text in enumerate(recommendations(), 1)),
    ]
    lines += [f"This plan goes against one: {row['recommendation']}." for row in rows if row["own"] and row["recommendation"]]
    emit({"settings": rows, "recommendations": recommendations()}, "\n".join(lines), as_json)


@app.command("caps")
def cap_table(
    rate: Annotated[float, Option(help="The sampling rate.")],
    epsilon: Annotated[float, Option(help="The guarantee for the frame.")],
    clusters: Annotated[int, Option(help="How many clusters there are.")] = 1000,
    as_json: Json = False,
) -> None:
    """What a public cap on the units of a cluster, or on the probability of a unit, buys in noise.

    Example: `dpsurvey compare caps --rate 0.05 --epsilon 1`
    """
    rows = caps(epsilon, rate, clusters=clusters)
    shown = [row | {key: f"{row[key]:.4g}" for key in ("cap", "rate", "noise")} for row in rows]
    emit(rows, text_table(shown, ["kind", "cap", "rate", "epsilon_in_sample", "noise", "epsilon_of_same_noise"]), as_json)


@app.command()
def medians(
    values: Annotated[Path, typer.Argument(help="Text file of PUBLIC or assumed values, or an earlier release.json with --of.")],
    bounds: Annotated[str, Option(help="LOW,HIGH: the public range.")],
    of: Annotated[str | None, Option(help="With a release.json: the column, of which it has a quantile by the tree.")] = None,
    size: Annotated[int, Option(help="With a release.json: how many units the frame has.")] = 10_001,
    epsilons: Annotated[str, Option(help="Guarantees for the frame.")] = "0.1,0.5,1,3",
    at: Annotated[str, Option(help="Sampling rates.")] = "0.01,0.1,0.2,0.5,0.8,1",
    methods: Annotated[str, Option(help="smooth, smooth-as-printed, exponential.")] = "smooth,exponential",
    draws: Annotated[int, Option(help="Simulated samples for each rate.")] = 1000,
    seed: Annotated[int, Option(help="The seed of the simulation.")] = 123,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Does a sample make a noisy median better? Simulated from public or assumed values, by method, epsilon and rate.

    Never give it the frame: what comes out depends on every value and has no noise.

    Examples:

    `dpsurvey compare medians published-incomes.txt --bounds 0,2000 --plot medians.svg`

    `dpsurvey compare medians 2025/release.json --of income --size 100001 --bounds 0,250000`
    """
    low_high = numbers(bounds, "bounds", float)
    if len(low_high) != 2:
        raise BadValue("--bounds takes two numbers, LOW,HIGH", given=bounds, hint="--bounds 0,2000")
    if of is not None:
        found: Any = published_values(Release.load(values), of, size)
    else:
        found = numbers_in(values, "values", float)
    with progress_bars() as bars:
        rows = median_rates(
            found,
            bounds=(low_high[0], low_high[1]),
            epsilons=numbers(epsilons, "epsilons", float),
            rates=numbers(at, "at", float),
            methods=[each.strip() for each in methods.split(",")],
            draws=draws,
            seed=seed,
            progress=bars,
        )
    best = best_rates(rows)
    if plot is not None:
        from ..view.design_plots import save_plot
        from ..view.median_plots import median_plot

        save_plot(median_plot(rows), plot)
    columns = ["method", "epsilon", "rate", "n", "epsilon_in_sample", "mse", "mse_sampling", "mse_noise", "ratio"]
    sentences = [f"{each['method']}, epsilon {given_text(each['epsilon'])}: {each['advice']}." for each in best]
    emit({"rows": rows, "best": best}, "\n".join([text_table(rows, columns), "", *sentences]), as_json)


def _designs_text(rows: list[dict[str, Any]]) -> str:
    shown = [
        row
        | {
            "epsilon": "" if row["epsilon"] is None else _loss(row["epsilon"]),
            "epsilon_in_sample": "" if row["epsilon_in_sample"] is None else _loss(row["epsilon_in_sample"]),
        }
        | {"of": row["label"] or "whole plan", "group": group_text(row["by"]) if row["by"] else ""}
        | {key: _error(row[key]) for key in ("se_sampling", "se_noise", "se", "ratio")}
        | {"refused": row["refused"] or ""}
        for row in rows
    ]
    columns = ["design", "epsilon", "epsilon_in_sample", "of", "group", "se_sampling", "se_noise", "se", "ratio", "refused"]
    notes = dict.fromkeys(f"{row['design']}: {row['note']}" for row in rows if row["amplified"] is False)
    return "\n".join([text_table(shown, columns), "", *notes])


def _loss(epsilon: float | None) -> str:
    return "refused" if epsilon is None else ceiling_text(epsilon)


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _clusters(given: str | None) -> tuple[str, int, int] | None:
    if given is None:
        return None
    parts = [part.strip() for part in given.split(",")]
    try:
        column, number, cap = parts
        return column, int(number), int(cap)
    except ValueError:
        raise BadValue("--clusters takes COLUMN,NUMBER,CAP", given=given, hint="--clusters psu,4000,30") from None


def _sizes(given: str | None) -> tuple[str, float] | None:
    if given is None:
        return None
    column, _, most = given.rpartition(",")
    try:
        return column.strip(), float(most)
    except ValueError:
        raise BadValue("--sizes takes COLUMN,AT_MOST", given=given, hint="--sizes employees,0.2") from None
