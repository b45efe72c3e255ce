"""Allocations as a picture: the takes of each stratum under every rule."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import altair as alt

from ..errors import BadValue
from ..text.layout import number_text
from .plots import ACCENT, INK, NOISE, SAMPLING

COLOURS = {"private": SAMPLING, "minimax": "#8fb3cf", "proportional": "#8a8d93", "neyman": NOISE, "cost": ACCENT}
# For rules that have no colour of their own.
OTHERS = ("#6b8f71", "#7d5ba6", "#b0892f", "#3f7f86")
# Above the first number of strata the bars are thin and without figures; above the second the largest takes are shown.
FEW, MOST = 12, 60


def allocation_plot(rows: list[dict[str, Any]]) -> Any:
    """Bars of takes by stratum, one for each rule; rows are those of `compare_allocations`."""
    if not rows:
        raise BadValue("there is no allocation to draw", hint="rows of compare_allocations(...)")
    every = list(rows[0]["takes"])
    kept = set(sorted(every, key=lambda label: -max(row["takes"][label] for row in rows))[:MOST])
    strata = [label for label in every if label in kept]
    rules = [row["rule"] for row in rows]
    few = len(strata) <= FEW
    values = [
        {"stratum": label, "rule": row["rule"], "units": row["takes"][label], "text": number_text(row["takes"][label])}
        for label in strata
        for row in rows
    ]
    # One large stratum would leave nothing to see of many small ones.
    middle = sorted(each["units"] for each in values)[len(values) // 2]
    flat = not few and max(each["units"] for each in values) > 10 * middle
    scale = alt.Scale(type="sqrt") if flat else alt.Scale(domainMax=1.06 * max(each["units"] for each in values), nice=False)
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y(
            "stratum:N",
            sort=strata,
            title=None,
            scale=alt.Scale(paddingInner=0.25, paddingOuter=0.12),
            axis=alt.Axis(labelLimit=220, domain=False, ticks=False, labelPadding=8),
        ),
        yOffset=alt.YOffset("rule:N", sort=rules),
        x=alt.X("units:Q", title=f"units drawn{', square-root scale' if flat else ''}", scale=scale, axis=alt.Axis(tickCount=6)),
    )
    spare = cycle(OTHERS)
    colours = [COLOURS[rule] if rule in COLOURS else next(spare) for rule in rules]
    legend = alt.Legend(orient="top", direction="horizontal", columns=len(rules))
    colour = alt.Color("rule:N", title=None, sort=rules, legend=legend, scale=alt.Scale(domain=rules, range=colours))
    picture = base.mark_bar().encode(color=colour)
    if few:
        picture += base.mark_text(align="left", dx=4, fontSize=10, color=INK).encode(text="text:N")
    errors = ", ".join(f"{row['rule']} {number_text(row['se'])}" for row in rows)
    also = [] if len(strata) == len(every) else [f"the {len(strata)} largest of {len(every)} strata"]
    title = alt.TitleParams(
        "Units from each stratum, rule by rule", subtitle=[f"standard error of the noisy mean: {errors}", *also], anchor="start"
    )
    return picture.properties(width=560, height=alt.Step(13 if few else 4), title=title)
