"""Pictures of local collection: the error of each mechanism, what each view leaks, estimates with both errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from ..text.layout import ceiling_text, drawn_up
from .plots import ACCENT, INK, NOISE, SAMPLING

if TYPE_CHECKING:
    from ..local.estimated_shares import LocalEstimates

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


def choice_plot(rows: Rows, sampling_error: float, epsilon: float, title: str) -> Any:
    """Error by epsilon on log scales, a line for each mechanism; the chosen epsilon as a rule, the sampling error as a level.

    Rows are those of `errors_by_epsilon`, the sampling error that of `error_of_equal_shares`.
    """
    domain = sorted({row["mechanism"] for row in rows})
    colour, dashes = _lines("mechanism", domain, [COLOURS.get(name, ACCENT) for name in domain])
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
    own = alt.Chart(alt.Data(values=[{"level": sampling_error}])).mark_rule(color=ACCENT, strokeDash=[2, 2]).encode(y="level:Q")
    heading = alt.TitleParams(
        title,
        subtitle="red: the sampling error of equal shares, which is there without randomisation too",
        anchor="start",
    )
    return (lines + rule + own).properties(width=560, height=320, title=heading)


def leakage_plot(rows: Rows, claimed: float | None, title: str) -> Any:
    """delta by epsilon for each view, from rows of `curve_rows`; a claimed epsilon as a rule."""
    highest, names = max(row["delta"] for row in rows), list(dict.fromkeys(row["view"] for row in rows))
    drawn = [row | {"epsilon": drawn_up(row["epsilon"]), "delta": drawn_up(row["delta"])} for row in rows]
    colour, dashes = _lines("view", names, [SAMPLING, ACCENT, NOISE, "#6b8f71", "#7d5ba6"])
    lines = (
        alt.Chart(alt.Data(values=drawn))
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
    heading = alt.TitleParams(title, subtitle="a curve that stays up: some reports prove the answer", anchor="start")
    return parts.properties(width=560, height=300, title=heading)


def estimates_rows(made: LocalEstimates) -> Rows:
    """What the picture shows: intervals, and the part of each that sampling alone would need, by group and category."""
    kept = ("category", "estimate", "ci_low", "ci_high", "sampling_low", "sampling_high")
    return [
        {"group": ", ".join(str(row[name]) for name in made.group_columns)} | {key: row[key] for key in kept}
        for row in made.interval_parts()
    ]


def estimates_plot(made: LocalEstimates) -> Any:
    """Shares with intervals, a panel for each group: sampling error in blue, what randomisation adds in orange."""
    rows = estimates_rows(made)
    groups = list(dict.fromkeys(row["group"] for row in rows))
    largest = max(max(row["ci_high"], row["estimate"]) for row in rows)
    scale = alt.Scale(domain=[min(0.0, *(row["estimate"] for row in rows)), min(1.0, 1.05 * largest)])
    panels = [_panel([row for row in rows if row["group"] == group], group, scale) for group in groups]
    shown = f"{100 * made.level:g} % intervals, {made.n:,} respondents"
    heading = alt.TitleParams(
        made.question.text or made.question.name,
        subtitle=f"{shown}: sampling error in blue, what randomised answers add in orange",
        anchor="start",
    )
    return alt.vconcat(*panels).properties(title=heading)


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
