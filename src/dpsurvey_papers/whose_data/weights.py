"""Sections 4.3 to 4.5.2: what one record moves a weighted total by."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsurvey.statistic import weighted_total_sensitivity

from ..item import Result, Rows, Run
from ..specifications import Specification
from .framework import yes

WEIGHTS = (2.0, 5.0, 10.0)


def stratified_total_sensitivity(strata: Mapping[str, tuple[float, tuple[float, float]]]) -> float:
    """The most that a stratified total can move when one record is replaced inside its stratum: max of w_h times its range.

    >>> stratified_total_sensitivity({"a": (4, (0, 1)), "b": (20, (10, 12)), "c": (2, (0, 100))})
    200
    """
    return max(weight * (high - low) for weight, (low, high) in strata.values())


def weighted_counts(run: Run) -> Result:
    """Section 4.3: the sensitivity of a Horvitz-Thompson count, also by enumeration of all samples."""
    rows: Rows = []
    for name, weights in (("equal weights", (1.0, 1.0, 1.0)), ("weights 2, 5, 10", WEIGHTS)):
        samples = [
            frozenset(zip(chosen, values, strict=True))
            for size in range(4)
            for chosen in itertools.combinations(range(3), size)
            for values in itertools.product((0.0, 1.0), repeat=size)
        ]
        moved = max(
            abs(_total_of(one, weights) - _total_of(two, weights)) for one in samples for two in samples if len(one ^ two) == 1
        )
        stated = weighted_total_sensitivity(weights, (0.0, 1.0), neighbours="add-remove")
        rows.append({"count": name, "enumerated": moved, "stated": stated, "largest weight": max(weights)})
    return Result(
        rows,
        {
            "unweighted": rows[0]["enumerated"],
            "weighted": "max(w)" if rows[1]["enumerated"] == rows[1]["stated"] == rows[1]["largest weight"] else "not max(w)",
        },
        "For one record more or less, weights that do not change with the record, and answers yes or no.",
    )


def _total_of(sample: frozenset[tuple[int, float]], weights: tuple[float, ...]) -> float:
    return sum(weights[unit] * value for unit, value in sample)


def draw_counts_moved(rows: Rows) -> Any:
    """What a record moves a count by, enumerated and stated."""
    from ..pictures import bars, titled

    shown = [{"count": row["count"], "what": what, "moved": row[what]} for row in rows for what in ("enumerated", "stated")]
    chart = bars(shown, "count", "moved", "what", x_title="", y_title="one record moves the count by", size=(360, 240))
    return titled(chart, "Section 4.3: a weighted count moves by the largest weight", "one record more or less, frame held fixed")


# Pairs of samples that may differ in any stratum.
WITHIN, ACROSS = "within some stratum", "across strata"


def within_strata(run: Run) -> Result:
    """Section 4.4: sizes of strata that are the same in comparable samples reduce the sensitivity."""
    strata = {"a": (4.0, (0.0, 1.0)), "b": (20.0, (10.0, 12.0)), "c": (2.0, (0.0, 100.0))}
    inside = stratified_total_sensitivity(strata)
    pairs = [weight * end for weight, ends in strata.values() for end in ends]
    across = max(pairs) - min(pairs)
    rows: Rows = [
        {"neighbours": f"within stratum {name}", "moved": stratified_total_sensitivity({name: own})}
        for name, own in strata.items()
    ]
    rows += [{"neighbours": WITHIN, "moved": inside}, {"neighbours": ACROSS, "moved": across}]
    return Result(
        rows,
        {"reduced": yes(inside < across)},
        "Weights 4, 20, 2 and values in [0, 1], [10, 12], [0, 100]: what counts is the largest weight times range of a stratum.",
    )


def draw_strata(rows: Rows) -> Any:
    """What one record moves a stratified total by."""
    from ..pictures import dots, titled

    shown = [{**row, "kind": "all strata" if row["neighbours"] in (WITHIN, ACROSS) else "a stratum alone"} for row in rows]
    chart = dots(shown, "neighbours", "moved", "kind", x_title="one record moves the total by")
    return titled(chart, "Section 4.4: strata reduce the sensitivity", "sizes of strata are the same in comparable samples")


def horvitz_thompson(run: Run) -> Result:
    """Section 4.5.2: the two bounds on the sensitivity of a Horvitz-Thompson total, by enumeration."""
    # Four units, two drawn: the example of the errata, and random ones.
    frames = [(np.array([2.0, 5.0, 10.0, 4.0]), np.array([3.0, 1.0, 3.0, 2.0]))]
    rng = run.rng(1)
    frames += [(rng.uniform(1.0, 10.0, 6), rng.uniform(-1.0, 3.0, 6)) for _ in range(run.draws(1000, 60))]
    rows: Rows = []
    for number, (w, x) in enumerate(frames):
        every, one_step, per_step = _moved(w * x, 2 if number == 0 else 3)
        bound = float(np.ptp(w * x))
        rows.append(
            {"frame": number, "bound": bound, "all pairs": every, "one unit exchanged": one_step, "per unit exchanged": per_step}
        )
    free, most = weighted_total_sensitivity((1.0, 6.0), (-1.0, 3.0), frame="free", n=4), _free_frames("free")
    # Where weights add up to the same, values may be measured from the middle of their range.
    centred = weighted_total_sensitivity((1.0, 6.0), (-2.0, 2.0), frame="free", n=4)
    exact = weighted_total_sensitivity((1.0, 6.0), (-1.0, 3.0), frame="free", n=4, weight_total="fixed")
    reached = _free_frames("fixed")
    pairs, product = weighted_total_sensitivity(WEIGHTS, (1.0, 3.0)), max(WEIGHTS) * 2.0
    beyond = sum(row["all pairs"] > row["bound"] * (1.0 + 1e-12) for row in rows)
    return Result(
        rows,
        {
            "all pairs": yes(beyond == 0),
            "one step": yes(all(row["per unit exchanged"] <= row["bound"] * (1.0 + 1e-12) for row in rows)),
            "free frame holds": yes(most <= free),
            "free frame attained": yes(most == free),
        },
        f"In {beyond} of {len(rows)} frames two samples differ by more than the printed bound; the first has w = (2, 5, 10, 4), "
        f"x = (3, 1, 3, 2), n = 2: {rows[0]['all pairs']:g} against {rows[0]['bound']:g}. The announced proof is not there. "
        f"With values free in [1, 3] and weights 2, 5, 10 the extremes run over pairs of unit and value: {pairs:g}, not "
        f"{product:g}. Free frame, n = 4, weights in [1, 6], values in [-1, 3]: {free:g} is attained; if the weights always add "
        f"up to the same, {centred:g} is enough with values measured from the middle of their range, and {exact:g} is exact"
        + (" (reached)." if reached == exact else "."),
    )


def _moved(expanded: Any, n: int) -> tuple[float, float, float]:
    """The largest difference of two samples' totals: over all pairs, over one unit exchanged, and over pairs per exchange."""
    samples = list(itertools.combinations(range(len(expanded)), n))
    apart = Specification(samples, [samples], lambda d, e: float(len(set(d) - set(e))), 1.0)
    totals = np.array([float(expanded[list(sample)].sum()) for sample in samples])
    moved = np.abs(totals[:, None] - totals[None, :])
    steps = np.maximum(apart.steps, 1.0)
    return float(moved.max()), float(moved[apart.steps == 1.0].max()), float((moved / steps).max())


def _free_frames(total: str) -> float:
    """The largest difference of totals of four records when one value and all weights change: all cases, on a grid."""
    values = np.array(list(itertools.product((-1.0, 3.0), repeat=4)))
    weights = np.array(list(itertools.product((1.0, 3.5, 6.0), repeat=4)))
    allowed = np.ones((len(weights), len(weights)), dtype=bool)
    if total == "fixed":
        allowed = weights.sum(axis=1)[:, None] == weights.sum(axis=1)[None, :]
    most = 0.0
    for x in values:
        for end in (-1.0, 3.0):
            other = np.array([end, *x[1:]])
            moved = np.abs((weights @ x)[:, None] - (weights @ other)[None, :])
            most = max(most, float(moved[allowed].max()))
    return most


def draw_horvitz_thompson(rows: Rows) -> Any:
    """All pairs and pairs per exchange against the printed bound, a dot for each frame."""
    import altair as alt

    from ..pictures import FEW, colours, titled

    names = {"all pairs": "all pairs (as printed)", "per unit exchanged": "divided by the units exchanged"}
    shown = [{"bound": row["bound"], "moved": row[key], "what": name} for row in rows for key, name in names.items()]
    colour = colours("what", list(names.values()), shades=[FEW[1], FEW[0]]).copy()
    colour.legend = alt.Legend(title=None, orient="bottom", symbolType="circle", labelLimit=340)
    base = alt.Chart(alt.Data(values=shown)).encode(
        x=alt.X("bound:Q", title="printed bound, max wx - min wx"),
        y=alt.Y("moved:Q", title="two samples of one frame differ by"),
        color=colour,
    )
    far = max(row["bound"] for row in rows)
    ends = [{"bound": 0.0, "moved": 0.0}, {"bound": far, "moved": far}]
    line = alt.Chart(alt.Data(values=ends)).mark_line(color="#55575e", strokeDash=[4, 3]).encode(x="bound:Q", y="moved:Q")
    chart = (base.mark_point(filled=True, size=28, opacity=0.7) + line).properties(width=460, height=320)
    return titled(
        chart,
        "Section 4.5.2: the bound is for one unit exchanged",
        "above the dashed line the printed bound is broken; frames drawn at random",
    )
