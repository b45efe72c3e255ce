"""Pictures of the papers' tables and figures, all in one style. Each takes plain rows; what is needed is named by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import numpy as np

from dpsurvey.view.plots import ACCENT, INK, NOISE, SAMPLING, SHADES

from .item import Row, Rows

GREY = "#8a8d93"
# Two or three lines that mean: what is right, what is printed, something else.
FEW = (SAMPLING, NOISE, ACCENT, GREY)


def heading(title: str, subtitle: str | Sequence[str] = "") -> Any:
    """The title of a picture; what one should see in it goes below."""
    extra = {"subtitle": subtitle, "subtitleColor": "#55575e"} if subtitle else {}
    return alt.TitleParams(title, anchor="start", color=INK, offset=12, **extra)


def colours(column: str, names: Sequence[str], title: str | None = None, shades: Sequence[str] | None = None) -> Any:
    """A colour for each name in the order given: few names get strong colours, many get shades from red to blue."""
    palette = shades or (FEW if len(names) <= 3 else SHADES)
    return alt.Color(
        f"{column}:N",
        title=title,
        sort=list(names),
        scale=alt.Scale(domain=list(names), range=[palette[index % len(palette)] for index in range(len(names))]),
        legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3, labelLimit=340, titleLimit=340) if len(names) > 1 else None,
    )


def distinct(rows: Rows, column: str) -> list[str]:
    """The values of a column in the order in which they come."""
    return list(dict.fromkeys(str(row[column]) for row in rows))


def lines(
    rows: Rows,
    x: str,
    y: str,
    by: str,
    *,
    x_title: str,
    y_title: str,
    by_title: str | None = None,
    x_scale: Any = None,
    y_scale: Any = None,
    x_format: str = "",
    points: bool = False,
    rules: Sequence[tuple[float, str]] = (),
    size: tuple[int, int] = (520, 320),
) -> Any:
    """Lines over a figure, one for each value of `by`; `rules` are horizontal marks with a word each."""
    axis_x = alt.Axis(format=x_format) if x_format else alt.Axis()
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(f"{x}:Q", title=x_title, scale=x_scale or alt.Scale(), axis=axis_x),
        y=alt.Y(f"{y}:Q", title=y_title, scale=y_scale or alt.Scale(zero=False)),
        color=colours(by, distinct(rows, by), by_title),
    )
    chart = base.mark_line(strokeWidth=2.3, interpolate="linear")
    whole = chart + base.mark_point(filled=True, size=30, opacity=1) if points else alt.layer(chart)
    return (whole + alt.layer(*[_rule(level, word, size[0]) for level, word in rules]) if rules else whole).properties(
        width=size[0], height=size[1]
    )


def logarithmic(low: float | None = None, high: float | None = None) -> Any:
    """A logarithmic scale, between two ends if both are given."""
    return alt.Scale(type="log") if low is None or high is None else alt.Scale(type="log", domain=[low, high], nice=False)


def between(low: float, high: float) -> Any:
    """A linear scale with these ends."""
    return alt.Scale(domain=[low, high], nice=False)


def _rule(level: float, word: str, width: int) -> Any:
    mark = alt.Chart(alt.Data(values=[{"level": level, "word": word}]))
    line = mark.mark_rule(color=INK, strokeDash=[4, 3]).encode(y="level:Q")
    return line + mark.mark_text(align="right", dy=-6, color=INK, x=width - 2).encode(y="level:Q", text="word:N")


def violins(
    samples: Rows,
    group: str,
    value: str,
    *,
    y_title: str,
    level: tuple[float, str] | None = None,
    title: str = "",
    clip: tuple[float, float] | None = None,
    size: tuple[int, int] = (300, 280),
) -> Any:
    """The distribution of each group as a violin, its middle half and its median; `samples` has a row for each simulation."""
    names = distinct(samples, group)
    shapes: Rows = []
    bars: Rows = []
    for place, name in enumerate(names):
        own = np.array([row[value] for row in samples if str(row[group]) == name], dtype=float)
        shapes += _violin(own, place, name, clip)
        low, middle, high = np.quantile(own, [0.25, 0.5, 0.75]).tolist()
        bars.append({"place": place, "low": low, "middle": middle, "high": high})
    labels = " : ".join(f"datum.value == {place} ? '{name}'" for place, name in enumerate(names)) + " : ''"
    x = alt.X(
        "place:Q",
        title=None,
        scale=alt.Scale(domain=[-0.6, len(names) - 0.4], nice=False),
        axis=alt.Axis(values=list(range(len(names))), labelExpr=labels, grid=False, ticks=False, labelFontSize=11),
    )
    domain = alt.Scale(zero=False, domain=list(clip)) if clip else alt.Scale(zero=False)
    y = alt.Y("y:Q", title=y_title, scale=domain)
    body = (
        alt.Chart(alt.Data(values=shapes))
        .mark_area(orient="horizontal", opacity=0.75, color=SAMPLING, clip=True)
        .encode(y=y, x=x, x2="right:Q", detail="name:N")
    )
    inner = alt.Chart(alt.Data(values=bars))
    box = inner.mark_rule(strokeWidth=5, color=INK, clip=True).encode(x=x, y=alt.Y("low:Q", scale=domain), y2="high:Q")
    dot = inner.mark_point(filled=True, size=42, color="white", stroke=INK, opacity=1, clip=True).encode(x=x, y="middle:Q")
    whole = body + box + dot
    if level is not None:
        mark = alt.Chart(alt.Data(values=[{"level": level[0]}]))
        whole += mark.mark_rule(color=ACCENT, strokeDash=[5, 3]).encode(y="level:Q")
    return whole.properties(width=size[0], height=size[1], title=alt.TitleParams(title, anchor="start", fontSize=12))


def _violin(own: Any, place: int, name: str, clip: tuple[float, float] | None, bins: int = 60) -> Rows:
    """A histogram, smoothed a little, as the outline of a violin: its left and right edge at each height."""
    low, high = (float(own.min()), float(own.max())) if clip is None else (max(clip[0], own.min()), min(clip[1], own.max()))
    if not high > low:
        return [{"name": name, "y": low, "place": place - 0.3, "right": place + 0.3}]
    counts, edges = np.histogram(own, bins=bins, range=(low, high))
    kernel = np.exp(-0.5 * (np.arange(-4, 5) / 1.6) ** 2)
    smooth = np.convolve(counts, kernel / kernel.sum(), mode="same")
    half = 0.42 * smooth / smooth.max()
    middle = 0.5 * (edges[1:] + edges[:-1])
    return [
        {"name": name, "y": float(m), "place": place - float(h), "right": place + float(h)}
        for m, h in zip(middle, half, strict=True)
    ]


def shape(
    rows: Rows,
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    dot: tuple[float, str] | None = None,
    size: tuple[int, int] = (300, 280),
) -> Any:
    """A filled density; `dot` marks a place on the axis with a word."""
    place = alt.X(f"{x}:Q", title=x_title)
    area = (
        alt.Chart(alt.Data(values=rows))
        .mark_area(color=SAMPLING, opacity=0.55, line={"color": SAMPLING})
        .encode(x=place, y=alt.Y(f"{y}:Q", title=y_title))
    )
    if dot is None:
        return area.properties(width=size[0], height=size[1])
    mark = alt.Chart(alt.Data(values=[{x: dot[0], y: 0.0, "word": dot[1]}])).encode(x=place, y=f"{y}:Q")
    point = mark.mark_point(filled=True, size=110, color=NOISE, opacity=1)
    text = mark.mark_text(align="left", dx=8, dy=-10, color=INK).encode(text="word:N")
    return (area + point + text).properties(width=size[0], height=size[1])


def scatter(rows: Rows, x: str, y: str, *, colour: str = SAMPLING) -> Any:
    """Points without a line, of one kind, to be laid over a picture with the same axes."""
    marks = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=26, opacity=0.6, color=colour)
    return marks.encode(x=f"{x}:Q", y=f"{y}:Q")


def dots(
    rows: Rows,
    label: str,
    value: str,
    by: str,
    *,
    x_title: str,
    x_scale: Any = None,
    rule: tuple[float, str] | None = None,
    width: int = 460,
) -> Any:
    """A line for each label with a dot for each value of `by`: printed beside right, bound beside exact."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(f"{label}:N", sort=distinct(rows, label), title=None, axis=alt.Axis(labelLimit=330, grid=True)),
        x=alt.X(f"{value}:Q", title=x_title, scale=x_scale or alt.Scale(zero=True)),
    )
    names = distinct(rows, by)
    shapes = alt.Shape(
        f"{by}:N",
        sort=names,
        scale=alt.Scale(domain=names, range=["circle", "diamond", "triangle-up", "cross", "square"][: len(names)]),
        legend=None,
    )
    colour = colours(by, names).copy()
    colour.legend = alt.Legend(title=None, orient="bottom", symbolType="circle", labelLimit=340)
    marks = base.mark_point(filled=True, size=75, opacity=0.9).encode(color=colour, shape=shapes)
    if rule is None:
        return marks.properties(width=width)
    mark = alt.Chart(alt.Data(values=[{"level": rule[0], "word": rule[1]}]))
    line = mark.mark_rule(color=INK, strokeDash=[4, 3]).encode(x="level:Q")
    return (
        line + marks + mark.mark_text(dy=-6, dx=3, align="left", color=INK, y=0).encode(x="level:Q", text="word:N")
    ).properties(width=width)


def bars(
    rows: Rows, x: str, y: str, by: str, *, x_title: str, y_title: str, size: tuple[int, int] = (620, 300), y_scale: Any = None
) -> Any:
    """Bars side by side in each group of x, one for each value of `by`."""
    names = distinct(rows, by)
    colour = colours(by, names).copy()
    colour.legend = alt.Legend(title=None, orient="top", labelLimit=340)
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X(f"{x}:N", title=x_title, sort=distinct(rows, x), axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset(f"{by}:N", sort=names),
            y=alt.Y(f"{y}:Q", title=y_title, scale=y_scale or alt.Scale()),
            color=colour,
        )
        .properties(width=size[0], height=size[1])
    )


def cells(rows: Rows, x: str, y: str, word: str, kind: str, shades: dict[str, str], *, width: int = 120, height: int = 34) -> Any:
    """A table of words as a picture: each cell is coloured by its kind."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            f"{x}:N",
            sort=distinct(rows, x),
            title=None,
            axis=alt.Axis(orient="top", labelAngle=0, labelLimit=width, domain=False, ticks=False),
        ),
        y=alt.Y(f"{y}:N", sort=distinct(rows, y), title=None, axis=alt.Axis(labelLimit=300, domain=False, ticks=False)),
    )
    colour = alt.Color(
        f"{kind}:N",
        title=None,
        scale=alt.Scale(domain=list(shades), range=list(shades.values())),
        legend=alt.Legend(orient="bottom", symbolType="square", labelLimit=340),
    )
    box = base.mark_rect(stroke="white", strokeWidth=2, opacity=0.85).encode(color=colour)
    text = base.mark_text(color=INK, fontSize=11, limit=width - 6).encode(text=f"{word}:N")
    return (box + text).properties(width=width * len(distinct(rows, x)), height=height * len(distinct(rows, y)))


def beside(panels: Sequence[Any], title: str, subtitle: str | Sequence[str] = "", columns: int = 3) -> Any:
    """Panels side by side below one title; scales are not shared."""
    whole = alt.concat(*panels, columns=columns, spacing=22).resolve_scale(y="independent", x="independent")
    return whole.properties(title=heading(title, subtitle))


def panels_of(rows: Rows, column: str, draw: Callable[[Rows, str], Any]) -> list[Any]:
    """One picture for each value of a column."""
    return [draw([row for row in rows if str(row[column]) == name], name) for name in distinct(rows, column)]


def named(chart: Any, name: str) -> Any:
    """A panel with its own small title, as `violins` has it."""
    return chart.properties(title=alt.TitleParams(name, anchor="start", fontSize=12))


def titled(chart: Any, title: str, subtitle: str | Sequence[str] = "") -> Any:
    """A picture with its title."""
    return chart.properties(title=heading(title, subtitle))


__all__ = [
    "FEW",
    "GREY",
    "Row",
    "bars",
    "beside",
    "between",
    "cells",
    "colours",
    "distinct",
    "dots",
    "heading",
    "lines",
    "logarithmic",
    "named",
    "panels_of",
    "scatter",
    "shape",
    "titled",
    "violins",
]
