"""Table 3.1 and Section 5.1.2: the ten settings, written down for a tiny survey and recognised by Definition 3.3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

import dpsurvey as ds
from dpsurvey.privacy import all_settings

from ..item import Result, Rows, Run
from ..specifications import PossibleData, Specification, records_apart
from .framework import yes

# A frame misses one unit of the population, so that the population and the frame are different things to hold fixed.
TINY = PossibleData("abcde", (0, 1), population=(4,), frame=(3,), sample=(2,))
LITERAL = replace(TINY, values_are="tied")
COMPLETE = (
    " They are ten different ones only if no frame can be complete: where a frame may hold the whole population, every "
    "sample-level setting that holds the population fixed also holds the frame fixed, by Definition 3.3."
)
SAME = "the same mechanisms satisfy both: any two samples that differ by one record have a frame in common."
HELD: tuple[Literal["population", "frame"] | None, ...] = (None, "population", "frame")
LEVELS = ("population", "frame", "sample", "respondents")


def comparable(specification: Specification) -> int:
    """The number of pairs of data sets that a specification compares."""
    return int((np.isfinite(specification.limits).sum() - np.isfinite(specification.limits.diagonal()).sum()) // 2)


def ten_settings(run: Run) -> Result:
    """Table 3.1: how many settings each level has, and whether each holds fixed what the table says, by Definition 3.3."""
    rows: Rows = []
    for setting in all_settings("add-remove"):
        own = LITERAL.specification(setting, 1.0)
        found = [tiny.invariances(tiny.specification(setting, 1.0), setting.protect) for tiny in (LITERAL, TINY)]
        rows.append(
            {
                "level": setting.protect,
                "held fixed": setting.given or "nothing",
                "data sets": len(own.domain),
                "universes": len(own.universes),
                "comparable pairs": comparable(own),
                "by definition 3.3": ", ".join(found[0]) or "nothing",
                "as in the table": yes(found == [setting.invariant] * 2),
            }
        )
    perfect = replace(LITERAL, frame=(3, 4))
    coincide = perfect.invariances(
        perfect.specification(ds.Setting("sample", "population", neighbours="add-remove"), 1.0), "sample"
    )
    counts = {level: float(sum(row["level"] == level for row in rows)) for level in LEVELS}
    return Result(
        rows,
        {
            "settings": float(len(rows)),
            **counts,
            "definition 3.3": yes(all(row["as in the table"] == "yes" for row in rows)),
        },
        "Written down for a population of 4 of 5 units with binary values, a frame that misses one of them, a sample of 2, and "
        "response by chance." + (COMPLETE if "frame" in coincide else ""),
    )


def draw_settings(rows: Rows) -> Any:
    """The table as a staircase: what is held fixed, by level, with the number of universes."""
    from ..pictures import cells, titled

    shown = [
        {
            "level": row["level"],
            "fixed": f"{row['held fixed']} fixed",
            "word": f"{row['universes']} universe{'s' * (row['universes'] != 1)}, {row['comparable pairs']} pairs",
            "kind": "as in Table 3.1" if row["as in the table"] == "yes" else "not as in Table 3.1",
        }
        for row in rows
    ]
    shades = {"as in Table 3.1": "#cfe3d4", "not as in Table 3.1": "#f3c9bf"}
    order = ["nothing fixed", "population fixed", "frame fixed", "sample fixed"]
    shown.sort(key=lambda cell: (order.index(cell["fixed"]), LEVELS.index(cell["level"])))
    chart = cells(shown, "fixed", "level", "word", "kind", shades, width=160)
    return titled(
        chart,
        "Table 3.1: ten settings, written down for a tiny survey",
        ["rows: the data that is protected; columns: what is held fixed", "universes, and pairs of data sets that are compared"],
    )


def levels_and_invariance(run: Run) -> Result:
    """Section 5.1.2: whether a frame-level guarantee can hold the frame fixed, and what invariance takes away."""
    rows: Rows = []
    for tiny in (TINY, LITERAL):
        for given in HELD:
            own = tiny.specification(ds.Setting("sample", given, neighbours="replace-one"), 1.0)
            rows.append({"values": tiny.values_are, "held fixed": given or "nothing", "comparable pairs": comparable(own)})
    # Definition 3.3 for both settings at the frame level, and what the same words would mean there: frames drawn from a frame.
    held = {phase for each in all_settings("add-remove") if each.protect == "frame" for phase in _held(each)}
    singles = Specification(LITERAL.data_sets("frame"), LITERAL.universes("frame", "frame"), records_apart("add-remove"), 1.0)
    possible = "yes" if "frame" in held or comparable(singles) else "no"
    words = " and ".join(f"the {each}" for each in sorted(held)) or "nothing"
    weaker = {}
    for tiny in (TINY, LITERAL):
        agnostic, fixed = (tiny.specification(ds.Setting("sample", given, neighbours="replace-one"), 1.0) for given in HELD[::2])
        weaker[tiny.values_are] = agnostic.allows_no_more_than(fixed) and not fixed.allows_no_more_than(agnostic)
    return Result(
        rows,
        {"frame level, frame fixed": possible, "fewer universes guarantee less": yes(weaker["tied"])},
        f"By Definition 3.3 the settings at the frame level hold {words} fixed at most; holding the frame itself "
        f"fixed would leave {comparable(singles)} pairs of frames, and so nothing to guarantee. "
        "The sentence is right one level down: two sample-level guarantees with one ε differ if one of them holds the frame "
        "fixed. That is so by the letter of Definition 3.2, where values are tied to the units of the frame and only who is "
        "drawn can differ. If values are free within public bounds, as in the package, "
        + ("holding the frame of a simple random sample fixed takes something away too." if weaker["free"] else SAME),
    )


def _held(setting: ds.Setting) -> tuple[str, ...]:
    """The phases that a setting holds fixed by Definition 3.3, for values tied to units."""
    return LITERAL.invariances(LITERAL.specification(setting, 1.0), setting.protect)


def draw_levels(rows: Rows) -> Any:
    """Comparable pairs by what is held fixed, for the two readings of values."""
    from ..pictures import bars, titled

    words = {"free": "values free within public bounds", "tied": "values tied to units (literal reading)"}
    shown = [{**row, "reading": words[row["values"]]} for row in rows]
    chart = bars(shown, "held fixed", "comparable pairs", "reading", x_title="held fixed", y_title="comparable pairs of samples")
    return titled(
        chart, "Section 5.1.2: what holding a phase fixed takes away", "pairs of samples that a sample-level guarantee compares"
    )
