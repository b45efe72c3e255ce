"""Plots of a Release: each is a table and a picture of it. Offline, through Altair and vl-convert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from ..survey.errors_by_rate import PARTS, ErrorCurve
from ..survey.estimates import interval_parts, statistics_of
from ..survey.release import Release
from ..text.layout import drawn_up, group_text

# What other packages may use: colours, and a picture as a file.
__all__ = ["ACCENT", "INK", "NOISE", "SAMPLING", "SHADES", "to_svg"]

SAMPLING, NOISE, INK, ACCENT = "#2f6690", "#e07a3f", "#2b2d33", "#b23a48"
# From much privacy to little, distinct in grey too.
SHADES = ("#7a1f3d", "#b23a48", "#e07a3f", "#d9a441", "#5b9aa0", "#2f6690", "#1b3a57", "#8a8d93")
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
Rows = list[dict[str, Any]]


def forest_rows(release: Release) -> Rows:
    """The two-tone forest plot as a table: intervals, and the part of each that sampling alone would need, by panel and group."""
    kept = ("panel", "by", "group", "estimate", "ci_low", "ci_high", "sampling_low", "sampling_high")
    rows = [
        row
        | {"panel": statistic.title(row["label"]), "group": group_text(row["by"])}
        | {"by": "" if statistic.labelled_by_groups else ", ".join(row["by"])}
        for statistic, row in zip(statistics_of(release.plan()), release.estimates, strict=True)
    ]
    return [{key: row[key] for key in kept} for row in interval_parts(rows)]


# Longer lists cannot be read as a picture, and a renderer of Vega gives up on them.
PANEL_ROWS, PANELS = 120, 40


def forest_plot(rows: Rows) -> alt.Chart | alt.VConcatChart:
    """Estimates with 95 % intervals: sampling error in blue, what privacy adds in orange. One panel per statistic.

    Of a long list the first `PANEL_ROWS` groups are drawn, and of many statistics the first `PANELS`: more is for the table.
    """
    by_panel: dict[tuple[str, str], Rows] = {}
    for row in rows:
        by_panel.setdefault((row["panel"], row["by"]), []).append(row)
    panels = []
    for title, every in list(by_panel.items())[:PANELS]:
        own = every[:PANEL_ROWS]
        base = alt.Chart(alt.Data(values=own)).encode(
            y=alt.Y("group:N", sort=[row["group"] for row in own], title=None, axis=alt.Axis(labelLimit=180, minExtent=130)),
        )
        scale = alt.Scale(zero=False, nice=True)
        outer = base.mark_rule(strokeWidth=6, color=NOISE).encode(x=alt.X("ci_low:Q", title=None, scale=scale), x2="ci_high:Q")
        inner = base.mark_rule(strokeWidth=6, color=SAMPLING).encode(x="sampling_low:Q", x2="sampling_high:Q")
        dot = base.mark_point(filled=True, size=34, color="white", stroke=INK, strokeWidth=1.4, opacity=1).encode(x="estimate:Q")
        name = title[0] + (f", by {title[1]}" if title[1] else "")
        name += f" (the first {len(own)} of {len(every):,})" if len(own) < len(every) else ""
        panels.append(
            (outer + inner + dot).properties(width=640, title=alt.TitleParams(name, anchor="start", frame="group", fontSize=13))
        )
    return alt.vconcat(*panels, spacing=14)


def rate_plot(curve: ErrorCurve, title: str) -> alt.LayerChart:
    """The two errors stacked over the rate; the least total and this survey's rate are marked."""
    best = curve.least
    long = [{key: row[key] for key in ("rate", "part", "share")} for row in curve.split]
    colour = alt.Color(
        "part:N",
        title=None,
        scale=alt.Scale(domain=list(PARTS.values()), range=[SAMPLING, NOISE]),
        legend=None,
    )
    x = alt.X("rate:Q", scale=alt.Scale(type="log", nice=False), title="sampling rate", axis=alt.Axis(format="~%"))
    area = (
        alt.Chart(alt.Data(values=long))
        .mark_area(opacity=0.9)
        .encode(x=x, y=alt.Y("share:Q", stack="zero", title="standard error, split by source"), color=colour)
    )
    here = alt.Chart(alt.Data(values=[{"rate": curve.planned_rate, "word": "this survey"}]))
    least = alt.Chart(alt.Data(values=[{"rate": best["rate"], "share": best["se"], "word": "least error"}]))
    marks = here.mark_rule(color=INK, strokeDash=[4, 3]).encode(x="rate:Q") + here.mark_text(
        align="left", dx=5, y=12, color=INK
    ).encode(x="rate:Q", text="word:N")
    dot = least.mark_point(filled=True, size=70, color=ACCENT).encode(x="rate:Q", y="share:Q") + least.mark_text(
        dy=-12, align="right", color=ACCENT
    ).encode(x="rate:Q", y="share:Q", text="word:N")
    return (area + marks + dot).properties(width=340, height=190, title=alt.TitleParams(title, anchor="start", fontSize=12))


def curve_plot(rows: Rows) -> alt.Chart:
    """The privacy curve before and after amplification."""
    names = list(dict.fromkeys(row["who"] for row in rows))
    drawn = [row | {"epsilon": drawn_up(row["epsilon"]), "delta": drawn_up(row["delta"])} for row in rows]
    colour = alt.Color(
        "who:N",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names, range=[NOISE, SAMPLING]),
        legend=alt.Legend(orient="top-right", labelLimit=420),
    )
    chart = (
        alt.Chart(alt.Data(values=drawn))
        .mark_line(strokeWidth=2.5)
        .encode(x=alt.X("epsilon:Q", title="ε"), y=alt.Y("delta:Q", title="δ at ε"), color=colour)
    )
    return chart.properties(width=640, height=230)


def to_svg(chart: Any) -> str:
    """A chart as SVG, in one style, without a browser or a network.

    >>> chart = alt.Chart(alt.Data(values=[{"rate": 0.1, "epsilon": 0.16}])).mark_point().encode(x="rate:Q", y="epsilon:Q")
    >>> to_svg(chart)[:4]
    '<svg'
    """
    import vl_convert

    styled = (
        chart.configure(font=FONT)
        .configure_view(stroke=None)
        .configure_axis(
            labelFlush=False, labelOverlap=True, labelColor=INK, titleColor=INK, titleFontWeight="normal", gridColor="#e8e8ea"
        )
    )
    return str(vl_convert.vegalite_to_svg(styled.to_json()))


def rate_plots(curves: Sequence[ErrorCurve]) -> alt.ConcatChart | None:
    """Error by sampling rate, one panel for each of the curves of a release."""
    panels = [rate_plot(each, f"{each.title}, {group_text(each.by)}") for each in curves]
    return alt.concat(*panels, columns=2) if panels else None
