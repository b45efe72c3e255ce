"""Theorem 4.3: Laplace noise with a sensitivity for each component, refuted twice, and mended."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..item import Result, Rows, Run
from ..specifications import Specification, laplace_satisfies, laplace_scales
from .framework import random_specification

ASKED = {"a": 0.0, "b": 1.0, "c": 11.0}


def overlapping() -> Specification:
    """Two universes that share a data set."""
    return Specification("abc", ["ab", "bc"], {("a", "b"): 1.0, ("b", "c"): 1.0}, 1.0)


def incomplete() -> Specification:
    """One universe with a data set that nothing leads to."""
    return Specification("abc", ["abc"], {("a", "b"): 1.0}, 1.0)


def word(specification: Specification, query: Any, scales: Any) -> str:
    """Whether Laplace noise keeps the guarantee."""
    return (
        "satisfied" if laplace_satisfies(specification, query, laplace_scales(specification, query, scales)) else "not satisfied"
    )


def theorem_4_3(run: Run) -> Result:
    """Both counterexamples, disjoint complete universes where the theorem holds, and the mended scales everywhere."""
    rng, trials = run.rng(1), run.draws(2000, 40)
    counts = {name: [0, 0] for name in ("printed", "connected", "global", "printed, complete and disjoint")}
    for trial in range(trials):
        drawn = random_specification(rng)
        # A budget of 0 cannot be kept by any noise.
        own = Specification(drawn.domain, drawn.universes, drawn.distance, [max(0.3, each) for each in drawn.budgets.values()])
        query = {data: float(rng.integers(0, 12)) for data in own.domain}
        for scales in ("printed", "connected", "global"):
            counts[scales][word(own, query, scales) == "satisfied"] += 1
        tidy = _tidy(own)
        counts["printed, complete and disjoint"][word(tidy, query, "printed") == "satisfied"] += 1
        run.progress("002-theorem-4-3", trial + 1, trials)
    rows: Rows = [{"panel": "kept", "scales": name, "kept": kept, "broken": broken} for name, (broken, kept) in counts.items()]
    for scales in ("connected", "printed"):
        chosen = laplace_scales(overlapping(), ASKED, scales)  # type: ignore[arg-type]
        rows += [
            {
                "panel": "ratio",
                "scales": scales,
                "t": float(t),
                "ratio": abs(_log_density(t, "a", chosen) - _log_density(t, "b", chosen)),
            }
            for t in np.linspace(-40.0, 40.0, 161)
        ]
    none = laplace_scales(incomplete(), ASKED, "printed")
    return Result(
        rows,
        {
            "overlapping universes": word(overlapping(), ASKED, "printed"),
            "incomplete universe": word(incomplete(), ASKED, "printed"),
            "complete and disjoint": "satisfied" if counts["printed, complete and disjoint"][0] == 0 else "not satisfied",
        },
        f"With an incomplete universe the scales are {', '.join(f'{each:g}' for each in none.values())}: no noise at all. Of "
        f"{trials} random multiverses the printed scales break {counts['printed'][0]}; one scale for all data sets that a chain "
        f"of comparable ones connects breaks {counts['connected'][0]}, one global scale {counts['global'][0]}.",
    )


def _tidy(own: Specification) -> Specification:
    """The same data with disjoint, complete universes: the parts that chains of distances connect."""
    parts = dict.fromkeys(own.connected(data) for data in own.domain)
    return Specification(own.domain, parts, own.distance, 1.0)


def _log_density(t: float, data: str, scales: dict[Any, float]) -> float:
    return -math.log(2.0 * scales[data]) - abs(t - ASKED[data]) / scales[data]


def draw_theorem_4_3(rows: Rows) -> Any:
    """The ratio of densities of the overlapping example, and how often each rule keeps the guarantee."""
    from ..pictures import bars, beside, lines

    names = {"printed": "as printed", "connected": "one scale for what is connected", "global": "one scale for all"}
    ratio = [{**row, "scales": names[row["scales"]]} for row in rows if row["panel"] == "ratio"]
    left = lines(
        ratio,
        "t",
        "ratio",
        "scales",
        x_title="published value",
        y_title="|log ratio| of the densities at a and b",
        rules=[(1.0, "allowed")],
        size=(320, 260),
    ).properties(title=_panel("universes {a, b} and {b, c}, answers 0, 1, 11"))
    shown = [
        {"scales": label, "what": what, "multiverses": int(row[what])}
        for row in rows
        if row["panel"] == "kept"
        for label in (_short(row["scales"]),)
        for what in ("kept", "broken")
    ]
    right = bars(shown, "scales", "multiverses", "what", x_title="", y_title="random multiverses", size=(380, 260)).properties(
        title=_panel("guarantee kept or broken")
    )
    return beside(
        [left, right],
        "Theorem 4.3: a scale for each component need not keep the guarantee",
        "with different scales at comparable data sets the loss has no bound",
        columns=2,
    )


def _panel(title: str) -> Any:
    import altair as alt

    return alt.TitleParams(title, anchor="start", fontSize=12)


def _short(name: str) -> str:
    return {"printed": "as printed", "printed, complete and disjoint": "printed, if disjoint"}.get(name, name)
