"""Table 4.1: whether the weight of a record can differ between comparable data sets, written down for a tiny survey."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.privacy import all_settings

from ..item import Result, Rows, Run, Value
from ..specifications import PossibleData
from .framework import yes

FIXED, MOVES = "Can be treated as fixed", "Sensitivity needs to be considered"
# The invariance that Table 4.1 speaks of is the latest phase held fixed.
INVARIANCE = {
    "sample": "Target sample invariance",
    "frame": "Frame invariance",
    "population": "Population invariance",
    None: "Population agnostic",
}
DRAWN = 2
# Values are sizes, known on the frame and held fixed with it. A frame has 2 or 3 of the 4 units of the population.
TINY = PossibleData("abcde", (1, 3), population=(4,), frame=(2, 3), sample=(DRAWN,), values_are="tied")
Data = frozenset[tuple[str, int]]
Weigh = Callable[[Data], dict[tuple[str, int], float]]


def simple(frame: Data) -> dict[tuple[str, int], float]:
    """Design weights of a simple random sample: N/n.

    >>> simple(frozenset({("a", 1), ("b", 3), ("c", 1)}))["a", 1]
    1.5
    """
    return dict.fromkeys(frame, len(frame) / DRAWN)


def by_size(frame: Data) -> dict[tuple[str, int], float]:
    """Design weights of sampling with probability proportional to size.

    >>> by_size(frozenset({("a", 1), ("b", 3), ("c", 1)}))["a", 1]
    2.5
    """
    return {record: sum(size for _, size in frame) / (DRAWN * record[1]) for record in frame}


def for_response(respondents: Data) -> dict[tuple[str, int], float]:
    """What weights are multiplied by for those who do not respond."""
    return dict.fromkeys(respondents, DRAWN / max(1, len(respondents)))


def spread(sources: Iterable[Data], weigh: Weigh) -> float:
    """How many times heavier one and the same record is with one source of its weight than with another, at most.

    >>> spread([frozenset({("a", 1), ("b", 1)}), frozenset({("a", 1), ("c", 3)})], by_size)
    2.0
    """
    found: dict[tuple[str, int], list[float]] = {}
    for source in sources:
        for record, weight in weigh(source).items():
            found.setdefault(record, []).append(weight)
    return max(max(each) / min(each) for each in found.values())


def frames_behind(setting: ds.Setting) -> list[list[Data]]:
    """For each universe of a setting the frames that its data sets can come from; one frame where one is behind all of them.

    >>> [len(each) for each in frames_behind(ds.Setting("population", neighbours="add-remove"))]
    [120]
    """
    protect, every = setting.protect, TINY.data_sets("frame")
    if protect == "population":
        # The frame is drawn from the data that is protected, inside the mechanism.
        reached = {frame: frozenset(each for each in TINY.data_sets(protect) if frame <= each) for frame in every}
    else:
        reached = {frame: TINY.drawn_from(frame, "frame", protect) for frame in every}
    found = []
    for universe in TINY.universes(protect, setting.given):
        common = [frame for frame in every if universe <= reached[frame]]
        found.append(common[:1] or [frame for frame in every if reached[frame] <= universe])
    return found


def table_4_1(run: Run) -> Result:
    """Table 4.1: how far design weights and final weights of one record differ between comparable data sets, by setting."""
    file = collected(weights="w", weights_are="design")
    rows: Rows = []
    for setting in all_settings("add-remove"):
        behind = frames_behind(setting)
        moved = {name: max(spread(each, weigh) for each in behind) for name, weigh in (("N/n", simple), ("by size", by_size))}
        respondents = [
            {each for data in universe for each in TINY.drawn_from(data, setting.protect, "respondents") if each}
            for universe in TINY.universes(setting.protect, setting.given)
        ]
        final = max(spread(each, for_response) for each in respondents if each)
        rows.append(
            {
                "invariance": INVARIANCE[setting.given],
                "level": setting.protect,
                **moved,
                "final, by response": final,
                "design weights": MOVES if max(moved.values()) > 1.0 else FIXED,
                "package": MOVES if file.weights_move(setting) else FIXED,
            }
        )
    values: dict[str, float | str | Value] = {
        name: " or ".join(sorted({row["design weights"] for row in rows if row["invariance"] == name}))
        for name in INVARIANCE.values()
    }
    values["final weights"] = "never fixed" if min(row["final, by response"] for row in rows) > 1.0 else "fixed in some setting"
    values["package"] = yes(all(row["design weights"] == row["package"] for row in rows))
    return Result(
        rows,
        values,
        "Every data set of a tiny survey is written down: frames of 2 or 3 of 4 units with sizes 1 or 3, samples of 2. Weights "
        "are fixed where one frame is behind all data sets of a universe, and are those of its frame then; else the weights of "
        "one record under all frames behind the universe are compared, for simple random sampling and for sampling by size. "
        "Final weights are n over the number of respondents. A design may still declare its weights (rates, sizes of strata) "
        "so that no record moves them, whatever is held fixed.",
    )


def draw_table_4_1(rows: Rows) -> Any:
    """A cell for each level and invariance: how far the weights of one record differ."""
    from ..pictures import cells, titled

    shown = [
        {
            "level": row["level"],
            "invariance": row["invariance"],
            "word": f"{row['N/n']:.3g} and {row['by size']:.3g} times" if row["design weights"] == MOVES else "the same",
            "kind": f"design weights: {row['design weights'].lower()}",
        }
        for row in sorted(rows, key=lambda row: list(INVARIANCE.values()).index(row["invariance"]))
    ]
    shades = {f"design weights: {FIXED.lower()}": "#cfe3d4", f"design weights: {MOVES.lower()}": "#f3c9bf"}
    return titled(
        cells(shown, "invariance", "level", "word", "kind", shades, width=170),
        "Table 4.1: design weights are constants only where the frame is held fixed",
        [
            "the weight of one record in one of two comparable data sets beside that in the other, at most:",
            "with simple random sampling (N/n), and with sampling by size",
        ],
    )
