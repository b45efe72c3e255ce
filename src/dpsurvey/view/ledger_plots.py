"""Budgets as a picture: what every survey and the agency have spent, against what they may spend."""

from __future__ import annotations

from typing import Any

import altair as alt

from ..text.layout import ceiling_text, drawn_up, floor_text, given_text
from .plots import ACCENT, INK, SAMPLING

Rows = list[dict[str, Any]]


def budget_rows(view: dict[str, Any]) -> Rows:
    """The budgets as a table: one row for each survey and each budget of the agency, with what is spent and left."""
    rows = []
    for account in view["accounts"]:
        for budget in account["budgets"]:
            for period, spent in budget["spent"].items():
                name = "agency, ever" if budget["per"] == "ever" else f"agency, {period}"
                of = f"{account['population']}, " if account["population"] else ""
                setting = f"{of}{account['setting']['protect']}, {account['setting']['neighbours']}"
                figures = (budget["epsilon"], spent["epsilon"], spent["left"], account["epsilon_in_sample"])
                rows.append(_row(f"{name} ({setting})", *figures))
    for panel in view["panels"]:
        rows.append(
            _row(f"panel {panel['name']}", panel["loss"], panel["spent"], panel["left"], panel["epsilon_in_sample"] or None)
        )
    for survey in view["surveys"]:
        rows.append(
            _row(survey["survey"], survey["budget"]["epsilon"], survey["spent"], survey["left"], survey["epsilon_in_sample"])
        )
    return rows


def _row(name: str, budget: float, spent: float, left: float, in_sample: float | None) -> dict[str, Any]:
    return {"name": name, "budget": budget, "spent": spent, "left": left, "epsilon_in_sample": in_sample}


def budget_plot(rows: Rows) -> Any:
    """One bar for each budget: spent in blue, left in grey; a mark for somebody known to be in the sample."""
    names = [row["name"] for row in rows]
    parts = [
        {"name": row["name"], "part": part, "epsilon": figure, "order": order}
        for row in rows
        for order, (part, figure) in enumerate((("spent", drawn_up(row["spent"])), ("left", float(floor_text(row["left"])))))
    ]
    largest = max([row["budget"] for row in rows] + [row["epsilon_in_sample"] or 0.0 for row in rows], default=1.0)
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=320, minExtent=180))
    scale = alt.Scale(domain=[0.0, 1.2 * largest])
    colour = alt.Color(
        "part:N",
        title=None,
        legend=alt.Legend(orient="bottom"),
        scale=alt.Scale(domain=["spent", "left"], range=[SAMPLING, "#d9dce1"]),
    )
    bars = (
        alt.Chart(alt.Data(values=parts))
        .mark_bar(height=18)
        .encode(y=y, x=alt.X("epsilon:Q", title="ε", scale=scale, stack="zero"), color=colour, order="order:Q")
    )
    labels = [
        {
            "name": row["name"],
            "at": drawn_up(max(row["budget"], row["epsilon_in_sample"] or 0.0), 12),
            "text": f"{ceiling_text(row['spent'])} of {given_text(row['budget'])}",
        }
        for row in rows
    ]
    words = (
        alt.Chart(alt.Data(values=labels))
        .mark_text(align="left", dx=7, color=INK)
        .encode(y=y, x=alt.X("at:Q", scale=scale), text="text:N")
    )
    marks = [
        {"name": row["name"], "epsilon_in_sample": drawn_up(row["epsilon_in_sample"])} for row in rows if row["epsilon_in_sample"]
    ]
    in_sample = (
        alt.Chart(alt.Data(values=marks))
        .mark_tick(color=ACCENT, thickness=3, size=18)
        .encode(y=y, x=alt.X("epsilon_in_sample:Q", scale=scale))
    )
    title = alt.TitleParams(
        "What is spent, and what is left",
        subtitle="ε by budget; the red mark is the loss of someone known to be in the sample, whom sampling does not hide",
        anchor="start",
    )
    return (bars + in_sample + words).properties(width=520, title=title)
