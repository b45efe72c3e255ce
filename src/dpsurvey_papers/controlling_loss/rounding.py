"""Sections 4.3 and 7.3: proportional allocation, rounded to the nearest whole number or at random."""

from __future__ import annotations

import math
from typing import Any

import dpsurvey as ds
from dpsurvey.privacy import RelationName

from ..item import Result, Rows, Run
from . import printed
from .asking import against, at_most, dots_between, exact, loss, same, sized, tally, worst

RATES, EPSILONS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75), (0.05, 0.1, 0.5, 1.0, 2.0)
# How many epsilon a replaced record costs on the sample, by the relation of the mechanism.
REPLACED: tuple[tuple[RelationName, float], ...] = (("add-remove", 2.0), ("both", 1.0))
TABLE = ((0.01, 0.1), (0.1, 0.1), (0.1, 1.0), (0.25, 1.0), (0.5, 2.0))


def nearest(run: Run) -> Result:
    """Section 4.3: 14 or 15 units at a rate of one in ten; and every size up to sixty, rounded to the nearest."""
    rate, epsilon = 1 / 10, 1.0
    design = ds.proportional(rate, rounding="nearest")
    rows: Rows = []
    for size in range(10, 61):
        for rounding in ("nearest", "random"):
            lost = loss(ds.proportional(rate, rounding=rounding, size=size), epsilon, "add-remove", "add-remove")
            rows.append({"size": size, "rounding": rounding, "loss": lost})
    moves = ds.size_rule(((14, design.take(14), 1.0), (15, design.take(15), 1.0)))
    example = loss(moves, epsilon, "add-remove", "add-remove")
    found = {
        each: against(loss(ds.proportional(each, rounding="nearest"), epsilon, "add-remove", "add-remove"), epsilon)
        for each in (rate, 1 / 4)
    }
    return Result(
        rows,
        {
            "from 14": design.take(14),
            "from 15": design.take(15),
            "example": against(example, epsilon),
            "example, worst": tally([same(example, worst(moves, epsilon, "add-remove", "add-remove"))]),
            "degradation": "yes" if "degradation" in found.values() else "no",
        },
        "Rounding to the nearest loses exactly ε where the take moves; it exceeds ε only where the take stays and is more than a "
        "share 1/(e^ε + 1) of the units. At ε = 1: "
        + ", ".join(f"{word} at a rate of {rate:g}" for rate, word in found.items())
        + ". A loss above 95 % of ε is called no amplification.",
    )


def draw_nearest(rows: Rows) -> Any:
    """Loss by stratum size: spikes where the allocation moves."""
    from ..pictures import lines, titled

    chart = lines(
        rows,
        "size",
        "loss",
        "rounding",
        x_title="units in the stratum, before one is added",
        y_title="exact ε′",
        by_title="rounding",
        points=True,
        rules=[(1.0, "ε")],
    )
    return titled(chart, "Rounding a tenth of the stratum", "to the nearest: no amplification at all where the take moves, ε = 1")


def randomised(run: Run) -> Result:
    """Theorem 4.3 beside the exact supremum, deterministic rounding, Poisson sampling and mechanisms of both types."""
    rows: Rows = []
    for rate, epsilon in TABLE:
        figures = {
            "Poisson sampling": loss(ds.proportional(rate, rounding="none"), epsilon, "add-remove", "add-remove"),
            "random rounding, both relations": loss(ds.proportional(rate, rounding="random"), epsilon, "both", "add-remove"),
            "random rounding, add-remove": loss(ds.proportional(rate, rounding="random"), epsilon, "add-remove", "add-remove"),
            "rounding to the nearest": loss(ds.proportional(rate, rounding="nearest"), epsilon, "add-remove", "add-remove"),
            "Theorem 4.3": printed.rounding_theorem(epsilon, rate),
        }
        label = f"r = {rate:g}, ε = {epsilon:g}"
        rows += [{"setting": label, "what": what, "share": value / epsilon, "loss": value} for what, value in figures.items()]
    grid = [(rate, epsilon) for rate in RATES for epsilon in EPSILONS]
    tight = {pair: loss(ds.proportional(pair[0], rounding="random"), pair[1], "add-remove", "add-remove") for pair in grid}
    valid = [at_most(found, printed.rounding_theorem(epsilon, rate)) for (rate, epsilon), found in tight.items()]
    # Small strata, also below 1/r units, by linear programme over all mechanisms.
    small = [_small(0.25, size, 1.0) for size in range(1, 7)]
    limit = loss(ds.proportional(0.25, rounding="random"), 1.0, "add-remove", "add-remove")
    tiny, rate = 1e-4, 1e-3
    best = loss(ds.proportional(rate, rounding="random"), tiny, "add-remove", "add-remove") / (rate * tiny)
    ratios = [printed.rounding_theorem(epsilon, rate) / found for (rate, epsilon), found in tight.items()]
    return Result(
        rows,
        {
            "valid": tally(valid),
            "small strata": tally(at_most(found, limit) for found in small),
            "constant": printed.rounding_theorem(tiny, rate) / (rate * tiny),
            "one more": tally(
                max(ds.proportional(share, rounding="random").sizes(size))
                <= ds.proportional(share, rounding="nearest").take(size) + 1
                for share in RATES
                for size in range(1, 201)
            ),
            "largest": loss(ds.proportional(0.634, rounding="random"), 1.0, "add-remove", "add-remove"),
            "replaced": tally(
                same(
                    loss(ds.proportional(share, rounding="random"), epsilon, base, "replace-one"),
                    printed.sampling_theorem(steps * epsilon, share),
                )
                for share, epsilon in grid
                for base, steps in REPLACED
            ),
        },
        f"The bound is valid, and {min(ratios):.1f} to {max(ratios):.1f} times too large for rates up to {max(RATES):g}; no "
        "condition on the size of the data is needed. The exact supremum is log(1 + r(e^ε − 1) + r(1 − r)(e^2ε − 1)), with "
        f"{best:.1f} in place of 6; it is not monotone in r. In the proof a factor (e^2ε − 1) is missing and p stands for q. A "
        "record replaced inside its stratum loses log(1 + r(e^2ε − 1)), and log(1 + r(e^ε − 1)) if the mechanism is private "
        "under both relations.",
    )


def _small(rate: float, size: int, epsilon: float) -> float:
    """The worst loss of randomised rounding in one small stratum, by full enumeration."""
    units, design = "abcdefgh"[:size], ds.proportional(rate, rounding="random")
    return exact(sized(units + "x", design.sizes(size + 1)), sized(units, design.sizes(size)), epsilon, "add-remove")


def draw_randomised(rows: Rows) -> Any:
    """Losses as shares of epsilon, by setting."""
    from ..pictures import dots, titled

    return titled(
        dots(rows, "setting", "share", "what", x_title="ε′/ε", rule=(1.0, "no amplification")),
        "Randomised rounding: Theorem 4.3 and the exact loss",
        "the printed bound is at least twice the exact loss, and passes ε where the truth does not",
    )


def in_strata(run: Run) -> Result:
    """Theorem 7.2 and the loss that may be spent on the sample, against the rule epsilon/(6r)."""
    rows: Rows = []
    rate = 0.01
    for guaranteed in dots_between(0.001, 3.0, 25 if run.quick else 80):
        figures = {
            "exact": _spent(guaranteed, rate),
            "rule ε/(6r), as printed": printed.rounding_rule(guaranteed, rate),
            "Theorem 7.2 solved": printed.rounding_theorem_inverse(guaranteed, rate),
        }
        rows += [{"guaranteed": guaranteed, "what": what, "spent": value} for what, value in figures.items()]
    strata = ds.stratified(
        "stratum", within=dict(enumerate((ds.proportional(0.1, rounding="random"), ds.proportional(0.25, rounding="random"))))
    )
    cases = [loss(strata, epsilon, "add-remove", "add-remove") for epsilon in EPSILONS]
    valid = [at_most(found, printed.rounding_theorem(e, 0.25)) for found, e in zip(cases, EPSILONS, strict=True)]
    worst_rule = loss(ds.proportional(rate, rounding="random"), printed.rounding_rule(1.0, rate), "add-remove", "add-remove")
    tiny = 1e-4
    return Result(
        rows,
        {
            "valid": tally(valid),
            "small epsilon": printed.rounding_theorem_inverse(tiny, rate) / printed.rounding_rule(tiny, rate),
            "at 1": printed.rounding_theorem_inverse(1.0, rate) / printed.rounding_rule(1.0, rate),
            "spent at 1": _spent(1.0, rate),
            "larger than epsilon": "yes" if _spent(1.0, rate) > 2.0 else "no",
        },
        "ε/(6r) is for small ε only: at ε = 1 and r = 1 % it lets the sample spend "
        f"{printed.rounding_rule(1.0, rate):.1f}, and the loss is {worst_rule:.1f}. Considerably larger than ε means "
        "more than 2ε here, at ε = 1. A record that changes stratum loses up to twice the figure.",
    )


def _spent(guaranteed: float, rate: float) -> float:
    """The most that may be spent on the sample for a guarantee, exactly."""
    found = ds.invert(ds.proportional(rate, rounding="random"), guaranteed, base="add-remove", neighbours="add-remove")
    return found.spent_epsilon if found.epsilon is not None else math.nan


def draw_in_strata(rows: Rows) -> Any:
    """What may be spent, by guarantee."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "guaranteed",
        "spent",
        "what",
        x_title="guaranteed ε",
        y_title="ε that may be spent on the sample",
        x_scale=logarithmic(0.001, 3.0),
        y_scale=logarithmic(),
    )
    return titled(
        chart,
        "Proportional allocation of one per cent: what may be spent",
        "ε/(6r) is for small ε: from about 0.05 on it allows more than is true",
    )
