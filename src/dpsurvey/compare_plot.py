"""The comparison of designs as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from .errors import BadValue
from .plot import ACCENT, INK, SAMPLING, to_svg


def compare_plot(rows: list[dict[str, Any]], rate: float, epsilon: float) -> Any:
    """Losses as points on a log scale, the mechanism's own loss as a line: right of it sampling makes things worse."""
    shown = [
        {
            "design": f"{row['design']}  ({row['base']} → {row['neighbours']})",
            "epsilon": row["epsilon"],
            "text": f"{row['epsilon']:.4g}" + ("" if row["exact"] else " (bound)"),
            "effect": "worse"
            if row["epsilon"] > epsilon * (1.0 + 1e-9)
            else "smaller"
            if row["epsilon"] < 0.99 * epsilon
            else "no gain",
        }
        for row in rows
        if row["epsilon"] is not None
    ]
    low, high = min(row["epsilon"] for row in shown) / 1.5, max(row["epsilon"] for row in shown) * 3.0
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    base = alt.Chart(alt.Data(values=shown)).encode(
        y=alt.Y(
            "design:N", sort=[row["design"] for row in shown], title=None, axis=alt.Axis(labelLimit=430, minExtent=390, grid=True)
        ),
        x=alt.X("epsilon:Q", title="ε for the protected population, log scale", scale=scale, axis=alt.Axis(tickCount=6)),
    )
    colour = alt.Color(
        "effect:N",
        title=None,
        legend=alt.Legend(orient="bottom"),
        scale=alt.Scale(domain=["smaller", "no gain", "worse"], range=[SAMPLING, "#8a8d93", ACCENT]),
    )
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(color=colour)
    words = base.mark_text(align="left", dx=9, color=INK).encode(text="text:N")
    line = alt.Chart(alt.Data(values=[{"own": epsilon}])).mark_rule(strokeDash=[4, 3], color=INK).encode(x="own:Q")
    title = alt.TitleParams(
        f"Same sampling rate ({rate:g}), same ε = {epsilon:g} on the sample: what the population gets",
        subtitle="clusters and systematic samples of 10 units; in brackets: what the noise covers → what the promise covers",
        anchor="start",
    )
    return (line + dots + words).properties(width=560, title=title)


def save_plot(chart: Any, file: Path) -> None:
    """Write the picture as SVG or PNG, by the ending of the file's name."""
    ending = file.suffix.lower()
    if ending == ".svg":
        file.write_text(to_svg(chart), encoding="utf-8")
    elif ending == ".png":
        import vl_convert

        file.write_bytes(vl_convert.svg_to_png(to_svg(chart), scale=2))
    else:
        raise BadValue("a plot is a file that ends in .svg or .png", given=file.name)
