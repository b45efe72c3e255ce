"""Pictures of planning, each drawn from curves or a table: error by rate, error by epsilon, and the loss of designs by rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from ..errors import BadValue
from ..survey.errors_by_rate import PARTS, ErrorCurve
from ..text.layout import drawn_up, given_text, group_text
from .plots import ACCENT, INK, NOISE, SAMPLING

Rows = list[dict[str, Any]]
Curves = Sequence[ErrorCurve]
# At most so many panels, the first numbers of the plan.
MOST_PANELS = 6
SHADES = ("#2f6690", "#e07a3f", "#5b9aa0", "#b23a48", "#8a8d93", "#d9a441", "#7a1f3d", "#1b3a57", "#6a994e", "#a26769", "#3d5a80")


def _first(curves: Curves) -> Curves:
    """The numbers that have a panel."""
    if not curves:
        raise BadValue("there is no known error to draw")
    return curves[:MOST_PANELS]


def rate_picture(curves: Curves, own_rate: float | None = None) -> Any:
    """Error by rate: sampling and noise stacked, the least error marked, the whole frame as a line."""
    panels = []
    for curve in _first(curves):
        best, full = curve.least, curve.whole_frame
        x = alt.X(
            "rate:Q", scale=alt.Scale(type="log", nice=False), title="sampling rate", axis=alt.Axis(format="~%", tickCount=5)
        )
        colour = alt.Color(
            "part:N",
            title=None,
            scale=alt.Scale(domain=list(PARTS.values()), range=[SAMPLING, NOISE]),
            legend=alt.Legend(orient="top"),
        )
        chart: Any = (
            alt.Chart(alt.Data(values=curve.split))
            .mark_area(opacity=0.9)
            .encode(x=x, y=alt.Y("share:Q", stack="zero", title="standard error, split by source"), color=colour)
        )
        if full is not None:
            line = alt.Chart(alt.Data(values=[{"y": full, "word": "whole frame"}]))
            chart += line.mark_rule(color=INK, strokeWidth=1.2).encode(y="y:Q")
            chart += line.mark_text(align="right", baseline="bottom", dy=-3, x=336, color=INK).encode(y="y:Q", text="word:N")
        if own_rate is not None:
            here = alt.Chart(alt.Data(values=[{"rate": own_rate, "word": "as planned"}]))
            chart += here.mark_rule(color=INK, strokeDash=[4, 3]).encode(x="rate:Q")
            chart += here.mark_text(align="left", dx=5, y=10, color=INK).encode(x="rate:Q", text="word:N")
        point = alt.Chart(alt.Data(values=[{"rate": best["rate"], "share": best["se"], "word": "least error"}]))
        chart += point.mark_point(filled=True, size=70, color=ACCENT).encode(x="rate:Q", y="share:Q")
        chart += point.mark_text(dy=-22, align="right", color=ACCENT).encode(x="rate:Q", y="share:Q", text="word:N")
        panels.append(chart.properties(width=340, height=190, title=_title(curve)))
    return alt.concat(*panels, columns=2)


def epsilon_picture(curves: Curves, own_epsilon: float | None = None) -> Any:
    """Error by epsilon: the whole error as a line above the sampling error, which no epsilon removes."""
    panels = []
    for curve in _first(curves):
        x = alt.X("epsilon:Q", scale=alt.Scale(type="log", nice=False), title="ε of the guarantee", axis=alt.Axis(tickCount=5))
        names = ["standard error", "sampling error"]
        long = [
            {"epsilon": drawn_up(row["epsilon"], 12), "se": row[part], "what": name}
            for row in curve.rows
            for part, name in zip(("se", "se_sampling"), names, strict=True)
            if row[part] is not None
        ]
        colour = alt.Color(
            "what:N",
            title=None,
            sort=names,
            scale=alt.Scale(domain=names, range=[NOISE, SAMPLING]),
            legend=alt.Legend(orient="top"),
        )
        chart: Any = (
            alt.Chart(alt.Data(values=long))
            .mark_line(strokeWidth=2.5, point=alt.OverlayMarkDef(size=28))
            .encode(x=x, y=alt.Y("se:Q", title="standard error", scale=alt.Scale(zero=True)), color=colour)
        )
        if own_epsilon is not None:
            here = alt.Chart(alt.Data(values=[{"epsilon": drawn_up(own_epsilon, 12), "word": "as planned"}]))
            chart += here.mark_rule(color=INK, strokeDash=[4, 3]).encode(x="epsilon:Q")
            chart += here.mark_text(align="left", dx=5, y=10, color=INK).encode(x="epsilon:Q", text="word:N")
        panels.append(chart.properties(width=340, height=190, title=_title(curve)))
    return alt.concat(*panels, columns=2)


def designs_rate_picture(rows: Rows, epsilon: float) -> Any:
    """The loss for the frame of every design by rate; what lies on the dashed line gains nothing, above it is worse."""
    shown = [
        {
            "design": f"{row['design']} ({row['base']} → {row['neighbours']})",
            "rate": row["rate"],
            "epsilon": drawn_up(row["epsilon"]),
        }
        for row in rows
        if row["epsilon"] is not None
    ]
    names = list(dict.fromkeys(row["design"] for row in shown))
    dashes = [[1, 0], [6, 3], [2, 2]]
    chart = (
        alt.Chart(alt.Data(values=shown))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=24))
        .encode(
            x=alt.X(
                "rate:Q", scale=alt.Scale(type="log", nice=False), title="sampling rate", axis=alt.Axis(format="~%", tickCount=6)
            ),
            y=alt.Y("epsilon:Q", scale=alt.Scale(type="log"), title="ε for the frame, log scale"),
            color=alt.Color(
                "design:N",
                title=None,
                sort=names,
                scale=alt.Scale(domain=names, range=[SHADES[place % len(SHADES)] for place in range(len(names))]),
                legend=alt.Legend(orient="right", labelLimit=420, symbolType="stroke"),
            ),
            strokeDash=alt.StrokeDash(
                "design:N",
                sort=names,
                legend=None,
                scale=alt.Scale(domain=names, range=[dashes[place % 3] for place in range(len(names))]),
            ),
        )
    )
    line = alt.Chart(alt.Data(values=[{"own": drawn_up(epsilon, 12)}])).mark_rule(strokeDash=[4, 3], color=INK).encode(y="own:Q")
    title = alt.TitleParams(f"ε = {given_text(epsilon)} on the sample: what the frame gets, by rate", anchor="start")
    return (line + chart).properties(width=460, height=360, title=title)


def _title(curve: ErrorCurve) -> Any:
    words = f"{curve.title}, {group_text(curve.by)}" if curve.by else curve.title
    return alt.TitleParams(words, anchor="start", fontSize=12)
