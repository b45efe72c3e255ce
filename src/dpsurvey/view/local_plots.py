"""Pictures of local collection: the error of each mechanism, what each view leaks, estimates with both errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from ..local.choice import choose
from ..local.estimates import LocalEstimates
from ..local.leakage import Leakage
from ..text.layout import ceiling_text, drawn_up
from .plots import ACCENT, INK, NOISE, SAMPLING

Rows = list[dict[str, Any]]
COLOURS = {"generalised": SAMPLING, "subset": NOISE, "unary": "#6b8f71", "hashing": "#7d5ba6"}


def _lines(field: str, names: list[str], colours: list[str]) -> tuple[Any, Any]:
    """A colour and a dash for each line, in one legend: lines that lie on each other stay visible."""
    dashes = [[1, 0], [9, 4], [3, 3], [6, 2, 1, 2], [2, 5]]
    legend = alt.Legend(orient="bottom", symbolSize=400, symbolStrokeWidth=2.5)
    return (
        alt.Color(f"{field}:N", title=None, legend=legend, scale=alt.Scale(domain=names, range=colours[: len(names)])),
        alt.StrokeDash(f"{field}:N", title=None, legend=legend, scale=alt.Scale(domain=names, range=dashes[: len(names)])),
    )


def choice_rows(k: int, n: int, low: float = 0.1, high: float = 8.0, points: int = 60) -> Rows:
    """The standard error that randomisation adds, for each mechanism and epsilon."""
    steps = [low * (high / low) ** (step / (points - 1)) for step in range(points)]
    return [
        {"epsilon": epsilon, "mechanism": option.mechanism.kind, "se_noise": option.se_noise(n)}
        for epsilon in steps
        for option in choose(k=k, epsilon=epsilon).options
    ]


def choice_plot(rows: Rows, k: int, n: int, epsilon: float) -> Any:
    """Error by epsilon on log scales, a line for each mechanism; the chosen epsilon as a rule, the sampling error as a level."""
    domain = sorted({row["mechanism"] for row in rows})
    colour, dashes = _lines("mechanism", domain, [COLOURS[name] for name in domain])
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X(
                "epsilon:Q",
                title="ε of one respondent",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(values=[0.1, 0.2, 0.5, 1, 2, 4, 8]),
            ),
            y=alt.Y(
                "se_noise:Q", title="standard error added to a share", scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=5)
            ),
            color=colour,
            strokeDash=dashes,
        )
    )
    rule = alt.Chart(alt.Data(values=[{"at": drawn_up(epsilon, 12)}])).mark_rule(strokeDash=[4, 3], color=INK).encode(x="at:Q")
    level = math.sqrt((1.0 / k) * (1.0 - 1.0 / k) / n)
    own = alt.Chart(alt.Data(values=[{"level": level}])).mark_rule(color=ACCENT, strokeDash=[2, 2]).encode(y="level:Q")
    title = alt.TitleParams(
        f"{k} categories, {n:,} respondents: what randomisation costs",
        subtitle="red: the sampling error of equal shares, which is there without randomisation too",
        anchor="start",
    )
    return (lines + rule + own).properties(width=560, height=320, title=title)


def leakage_plot(found: Sequence[Leakage], claimed: float | None, title: str) -> Any:
    """delta by epsilon for each view; a claimed epsilon as a rule."""
    largest = max([each.pure_epsilon for each in found if math.isfinite(each.pure_epsilon)] + [claimed or 1.0, 1.0])
    steps = [1.5 * largest * step / 150 for step in range(151)]
    rows = [{"epsilon": drawn_up(at), "delta": drawn_up(each.delta(at)), "view": each.view} for each in found for at in steps]
    highest = max(each.delta(0.0) for each in found)
    names = [each.view for each in found]
    colour, dashes = _lines("view", names, [SAMPLING, ACCENT, NOISE, "#6b8f71", "#7d5ba6"])
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("epsilon:Q", title="ε"),
            y=alt.Y("delta:Q", title="δ, exactly", scale=alt.Scale(domain=[0.0, 1.05 * highest])),
            color=colour,
            strokeDash=dashes,
        )
    )
    parts = lines
    if claimed is not None:
        rule = (
            alt.Chart(alt.Data(values=[{"at": drawn_up(claimed, 12), "text": "printed ε"}]))
            .mark_rule(strokeDash=[4, 3], color=INK)
            .encode(x="at:Q")
        )
        word = alt.Chart(alt.Data(values=[{"at": drawn_up(claimed, 12), "text": f"printed ε {ceiling_text(claimed)}"}]))
        parts = lines + rule + word.mark_text(align="left", dx=5, color=INK).encode(x="at:Q", y=alt.value(60), text="text:N")
    told = alt.TitleParams(title, subtitle="a curve that stays up: some reports prove the answer", anchor="start")
    return parts.properties(width=560, height=300, title=told)


def estimates_rows(made: LocalEstimates) -> Rows:
    """Intervals as a table, and the part of each that sampling alone would need."""
    rows = []
    for row in made.rows:
        part = row["se_sampling"] / row["se"] if row["se"] else 0.0
        middle = min(1.0, max(0.0, row["estimate"]))
        rows.append(
            {
                "group": ", ".join(str(row[name]) for name in made.group_columns),
                "category": row["category"],
                "estimate": row["estimate"],
                "ci_low": row["ci_low"],
                "ci_high": row["ci_high"],
                "sampling_low": middle - part * (middle - row["ci_low"]),
                "sampling_high": middle + part * (row["ci_high"] - middle),
            }
        )
    return rows


def estimates_plot(rows: Rows, made: LocalEstimates) -> Any:
    """Shares with intervals, a panel for each group: sampling error in blue, what randomisation adds in orange."""
    groups = list(dict.fromkeys(row["group"] for row in rows))
    largest = max(max(row["ci_high"], row["estimate"]) for row in rows)
    scale = alt.Scale(domain=[min(0.0, *(row["estimate"] for row in rows)), min(1.0, 1.05 * largest)])
    panels = [_panel([row for row in rows if row["group"] == group], group, scale) for group in groups]
    shown = f"{100 * made.level:g} % intervals, {made.n:,} respondents"
    told = alt.TitleParams(
        made.question.text or made.question.name,
        subtitle=f"{shown}: sampling error in blue, what randomised answers add in orange",
        anchor="start",
    )
    return alt.vconcat(*panels).properties(title=told)


def _panel(rows: Rows, group: str, scale: Any) -> Any:
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("category:N", sort=[row["category"] for row in rows], title=None, axis=alt.Axis(labelLimit=220, minExtent=90))
    )
    axis = alt.Axis(tickCount=8)
    outer = base.mark_rule(strokeWidth=6, color=NOISE).encode(
        x=alt.X("ci_low:Q", title="share", scale=scale, axis=axis), x2="ci_high:Q"
    )
    inner = base.mark_rule(strokeWidth=6, color=SAMPLING).encode(x="sampling_low:Q", x2="sampling_high:Q")
    points = base.mark_point(filled=True, size=55, color="white", stroke=INK, strokeWidth=1.5, opacity=1).encode(x="estimate:Q")
    panel = (outer + inner + points).properties(width=560)
    return panel.properties(title=alt.TitleParams(group, anchor="start", fontSize=12)) if group else panel
