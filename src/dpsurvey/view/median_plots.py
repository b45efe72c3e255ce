"""The error of a noisy median by sampling rate, as a table and a picture of it."""

from __future__ import annotations

from typing import Any

import altair as alt

from ..errors import BadValue
from ..text.layout import given_text
from .plots import INK, SHADES

# What other packages may use.
__all__ = ["median_plot"]

NAMES = {
    "smooth": "smooth sensitivity, β calibrated",
    "smooth-as-printed": "smooth sensitivity, β as printed",
    "exponential": "exponential mechanism",
}


def median_plot_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the picture shows of the rows of `median_rates` that have an error: the panel of each method, the name of its line.

    >>> row = {"method": "exponential", "epsilon": 0.1, "log_mse": 2.0, "rate": 0.5, "n": 5, "whole": False, "least": True}
    >>> [(each["panel"], each["epsilon"]) for each in median_plot_rows([row])]
    [('exponential mechanism', '0.1')]
    """
    kept = ("rate", "n", "log_mse", "whole", "least")
    return [
        {"panel": NAMES.get(row["method"], row["method"]), "epsilon": given_text(row["epsilon"])}
        | {key: row[key] for key in kept}
        for row in rows
        if row["log_mse"] is not None
    ]


def median_plot(rows: list[dict[str, Any]], title: str = "The error of a noisy median by sampling rate") -> Any:
    """The rows of `planning.median_rates` as a picture: one panel per method and a line per epsilon.

    The whole frame is a cross, and the least error of each line has a ring.

    >>> from dpsurvey.planning import median_rates
    >>> rows = median_rates(range(1, 202), bounds=(0, 1000), epsilons=[0.1], rates=[0.1, 1.0], draws=50)
    >>> [panel.title.text for panel in median_plot(rows).hconcat]
    ['smooth sensitivity, β calibrated', 'exponential mechanism']
    """
    shown = median_plot_rows(rows)
    if not shown:
        raise BadValue("there is nothing to draw: every setting was refused")
    order = sorted({row["epsilon"] for row in shown}, key=float)
    heights = [row["log_mse"] for row in shown]
    span = alt.Scale(domain=[min(heights) - 0.5, max(heights) + 0.5], nice=True)
    colour = alt.Color(
        "epsilon:N",
        title="ε",
        sort=order,
        scale=alt.Scale(domain=order, range=[SHADES[index % len(SHADES)] for index in range(len(order))]),
        legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3),
    )
    panels = []
    for number, name in enumerate(dict.fromkeys(row["panel"] for row in shown)):
        own = [row for row in shown if row["panel"] == name]
        axis = alt.Axis(title="log of the mean square error" if number == 0 else None)

        def layer(chosen: list[dict[str, Any]], axis: alt.Axis = axis) -> alt.Chart:
            return alt.Chart(alt.Data(values=chosen)).encode(
                x=alt.X(
                    "rate:Q", title="sampling rate", axis=alt.Axis(format="~%", tickCount=6), scale=alt.Scale(domain=[0.0, 1.03])
                ),
                y=alt.Y("log_mse:Q", axis=axis, scale=span),
                color=colour,
            )

        lines = layer([row for row in own if not row["whole"]]).mark_line(strokeWidth=2.2)
        dots = layer([row for row in own if not row["whole"]]).mark_point(filled=True, size=22, opacity=1, aria=False)
        crosses = layer([row for row in own if row["whole"]]).mark_point(shape="cross", filled=True, size=75, angle=45, opacity=1)
        rings = layer([row for row in own if row["least"]]).mark_point(
            size=190, strokeWidth=1.6, stroke=INK, opacity=1, aria=False
        )
        panels.append(
            (lines + dots + crosses + rings).properties(
                width=330, height=340, title=alt.TitleParams(name, anchor="start", fontSize=12)
            )
        )
    heading = alt.TitleParams(
        title,
        subtitle="simple random samples, the same guarantee at every rate; cross: the whole frame; ring: the least of its line",
        anchor="start",
        color=INK,
        offset=12,
    )
    return alt.hconcat(*panels, spacing=18).properties(title=heading)
