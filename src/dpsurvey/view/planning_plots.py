"""Pictures of planning: error by rate, error by epsilon, and the loss of every design by rate. Each is drawn from a table."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from ..errors import BadValue
from ..text.layout import drawn_up, given_text, group_text
from .plots import ACCENT, INK, NOISE, SAMPLING

Rows = list[dict[str, Any]]
# At most so many panels, the first numbers of the plan.
MOST_PANELS = 6
PARTS = {"se_sampling": "sampling error", "se_noise": "privacy noise"}
SHADES = ("#2f6690", "#e07a3f", "#5b9aa0", "#b23a48", "#8a8d93", "#d9a441", "#7a1f3d", "#1b3a57", "#6a994e", "#a26769", "#3d5a80")


def _subjects(rows: Rows) -> list[tuple[str, str, str]]:
    """The numbers that have a panel: those with a known error."""
    found = dict.fromkeys(
        (str(row["statistic"]), str(row["label"]), group_text(row["by"]))
        for row in rows
        if row["statistic"] != "plan" and row.get("se") is not None
    )
    if not found:
        raise BadValue("there is no known error to draw")
    return list(found)[:MOST_PANELS]


def _own(rows: Rows, subject: tuple[str, str, str]) -> Rows:
    return [row for row in rows if (str(row["statistic"]), str(row["label"]), group_text(row["by"])) == subject and row.get("se")]


def stacked_rows(rows: Rows) -> Rows:
    """The error of one number split by source, so that the two parts stacked are the standard error.

    >>> row = {"rate": 0.1, "se_sampling": 3.0, "se_noise": 4.0, "se": 5.0}
    >>> [(each["part"], each["share"]) for each in stacked_rows([row])]
    [('sampling error', 1.8), ('privacy noise', 3.2)]
    """
    return [
        {**{key: row[key] for key in row if key not in ("by",)}, "part": name, "share": row[part] ** 2 / row["se"]}
        for row in rows
        for part, name in PARTS.items()
    ]


def rate_picture(rows: Rows, own_rate: float | None = None) -> Any:
    """Error by rate: sampling and noise stacked, the least error marked, the whole frame as a line."""
    panels = []
    for subject in _subjects(rows):
        own = _own(rows, subject)
        best = min(own, key=lambda row: float(row["se"]))
        full = next((row["se"] for row in own if row["rate"] == 1.0), None)
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
            alt.Chart(alt.Data(values=stacked_rows(own)))
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
        panels.append(chart.properties(width=340, height=190, title=_title(subject)))
    return alt.concat(*panels, columns=2)


def epsilon_picture(rows: Rows, own_epsilon: float | None = None) -> Any:
    """Error by epsilon: the whole error as a line above the sampling error, which no epsilon removes."""
    panels = []
    for subject in _subjects(rows):
        own = _own(rows, subject)
        x = alt.X("epsilon:Q", scale=alt.Scale(type="log", nice=False), title="ε of the guarantee", axis=alt.Axis(tickCount=5))
        names = ["standard error", "sampling error"]
        long = [
            {"epsilon": drawn_up(row["epsilon"], 12), "se": row[part], "what": name}
            for row in own
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
        panels.append(chart.properties(width=340, height=190, title=_title(subject)))
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
        if row["epsilon"] is not None and "printed" not in row["design"]
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


def _title(subject: tuple[str, str, str]) -> Any:
    kind, of, group = subject
    words = f"{kind} of {of}" if of else kind
    return alt.TitleParams(f"{words}, {group}" if group not in ("", "all") else words, anchor="start", fontSize=12)


def smooth_rates(lowest: float = 0.001, points: int = 41) -> list[float]:
    """Rates for a picture, even on a logarithmic scale, the whole frame last.

    >>> [round(rate, 3) for rate in smooth_rates(0.01, 3)]
    [0.01, 0.1, 1.0]
    """
    return [math.exp(math.log(lowest) * (1.0 - step / (points - 1))) for step in range(points - 1)] + [1.0]
