"""Sections 7 and 7.1: a loss for each stratum, and what an optimal allocation is when noise has a price too."""

from __future__ import annotations

from typing import Any

import dpsurvey as ds
from dpsurvey.design import Losses, crossing

from ..item import Result, Rows, Run
from .asking import dots_between, exact, loss, one_by_one, same, tally

EPSILON = 1.0
FIGURE = "log(1 + r(e^ε − 1)), the larger rate"
RATES = {"first": 0.1, "second": 0.5}
# Twenty strata as a register of firms has them: many small ones that vary little, few large ones that vary much.
SIZES = {f"stratum {h}": round(20_000 * 0.79**h) for h in range(20)}
DEVIATIONS = {label: 100.0 * (0.05, 0.3, 0.1, 0.4, 0.2)[h % 5] for h, label in enumerate(SIZES)}


def by_stratum(run: Run) -> Result:
    """Definition 7.1: Poisson sampling in two strata, a record removed, replaced, and moved to the other stratum."""
    rows: Rows = []
    deletion: list[bool] = []
    replaced: list[bool] = []
    alone = {stratum: loss(ds.poisson(rate), EPSILON, "add-remove", "add-remove") for stratum, rate in RATES.items()}
    others = {"a": RATES["first"], "b": RATES["second"]}
    for stratum, rate in RATES.items():
        found = exact(one_by_one(others | {"x": rate}), one_by_one(others), EPSILON, "add-remove")
        deletion.append(same(found, alone[stratum]))
        rows.append({"case": f"{stratum} stratum, a record more or less", "what": "exact", "loss": found})
        rows.append({"case": f"{stratum} stratum, a record more or less", "what": FIGURE, "loss": alone[stratum]})
    losses = Losses.of(EPSILON, "add-remove")
    for origin, goal in (("first", "first"), ("second", "second"), ("first", "second")):
        p, q = RATES[origin], RATES[goal]
        case = f"{origin} stratum, a record replaced" if origin == goal else "a record moves to the other stratum"
        found = exact(one_by_one(others | {"x": p}), one_by_one(others | {"y": q}), EPSILON, "add-remove")
        replaced.append(same(found, max(crossing(p, q, losses), crossing(q, p, losses))))
        larger = max(alone[origin], alone[goal])
        rows += [{"case": case, "what": "exact", "loss": found}, {"case": case, "what": FIGURE, "loss": larger}]
    return Result(
        rows,
        {
            "each stratum": tally(deletion),
            "lower rate": "yes" if alone["first"] < alone["second"] else "no",
            "label": tally(replaced),
        },
        "The add-remove figures of the strata are no replacement figures: a record that moves to the other stratum loses "
        f"{rows[-2]['loss']:.4f}, the larger of the two figures is {rows[-1]['loss']:.4f}.",
    )


def draw_by_stratum(rows: Rows) -> Any:
    """Exact losses beside the larger add-remove figure."""
    from ..pictures import dots, titled

    return titled(
        dots(rows, "case", "loss", "what", x_title="loss, ε = 1, rates 0.1 and 0.5"),
        "Definition 7.1: a loss for each stratum",
        "the figure of a stratum is the loss of a record more or less; replaced records lose more",
    )


def optimal(run: Run) -> Result:
    """Section 7.1: the optimal allocation with and without noise, over the guarantee."""
    n, rows = 800, []
    takes: dict[tuple[str, float], dict[str, int]] = {}
    errors: dict[tuple[str, float], float] = {}
    sizes = {label: max(size, 40) for label, size in SIZES.items()}
    for epsilon in dots_between(0.02, 5.0, 7 if run.quick else 20):
        found = ds.compare_allocations(
            sizes=sizes, epsilon=epsilon, ranges=100.0, n=n, deviations=DEVIATIONS, source="simulated strata, nobody's data"
        )
        best = found[0]["se"]
        for row in found:
            takes[row["rule"], epsilon], errors[row["rule"], epsilon] = row["takes"], row["se"]
            rows.append({"epsilon": epsilon, "rule": row["rule"], "excess": 100.0 * (row["se"] / best - 1.0)})
    first, last = min(row["epsilon"] for row in rows), max(row["epsilon"] for row in rows)
    moved = [_apart(takes["private", epsilon], takes["neyman", epsilon]) for epsilon in (first, last)]
    beaten = [100.0 * (errors["neyman", epsilon] / errors["proportional", epsilon] - 1.0) for epsilon in (first, last)]
    return Result(
        rows,
        {
            "differs": "yes" if moved[0] > 0.1 * n else "no",
            "depends on epsilon": "yes" if moved[0] > 2 * moved[1] else "no",
            "overwhelms": "yes" if beaten[0] > 0.0 > beaten[1] else "no",
        },
        f"{moved[0]} of {n} units stand elsewhere than under Neyman's rule at ε = {first:g}, {moved[1]} at ε = {last:g}; more "
        "than a tenth counts as different, more than twice as many as depending on ε. Beside proportional allocation Neyman's "
        f"has an error {-beaten[1]:.0f} % smaller at ε = {last:g} and {beaten[0]:.1f} % larger at ε = {first:g}: there noise "
        "overwhelms the gain. The "
        "optimum is known for means, Laplace noise, allocations that do not look at the data and records that stay in their "
        "stratum; equation 7 is undefined where a variance is 0.",
    )


def _apart(one: dict[str, int], other: dict[str, int]) -> int:
    """Units that stand in another stratum."""
    return sum(max(0, one[label] - other[label]) for label in one)


def draw_optimal(rows: Rows) -> Any:
    """How far each rule is from the best, over epsilon."""
    from ..pictures import between, lines, logarithmic, titled

    chart = lines(
        rows,
        "epsilon",
        "excess",
        "rule",
        x_title="ε guaranteed to a record",
        y_title="standard error of the noisy mean, % above the best",
        by_title="allocation",
        x_scale=logarithmic(0.02, 5.0),
        y_scale=between(0.0, 22.0),
    )
    return titled(chart, "The best allocation depends on the guarantee", "twenty strata, 800 units, noise on every stratum mean")
