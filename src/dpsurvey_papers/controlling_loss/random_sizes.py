"""Section 3: a sample size drawn from a law that does not look at the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import dpsurvey as ds
from dpsurvey.design import RandomSize
from dpsurvey.privacy import RelationName

from ..item import Result, Row, Rows, Run
from . import printed
from .asking import NEARLY, against, at_most, dots_between, exact, loss, same, sized, tally

UNITS, EPSILON = 4, 1.0
BINOMIAL = "binomial, 1/2"
LAWS: dict[str, dict[int, float]] = {
    BINOMIAL: {m: math.comb(UNITS, m) / 2**UNITS for m in range(UNITS + 1)},
    "uniform on 0 to 4": dict.fromkeys(range(UNITS + 1), 1 / (UNITS + 1)),
    "1 or 2": {1: 0.5, 2: 0.5},
    "mostly none, rarely all": {0: 0.9, UNITS: 0.1},
    "always 2": {2: 1.0},
    "always all: no sampling": {UNITS: 1.0},
}
TYPES: tuple[RelationName, ...] = ("add-remove", "both")
POPULATION, SPENT = 10_000, 0.01
# Standard deviations at which both bounds are checked to all digits.
WIDTHS = (1, 100, 500, 800, 1000)


def with_bounds(design: RandomSize, epsilon: float) -> Row:
    """Both bounds of Theorem 3.1 as printed, and the package's exact loss for two types of mechanisms."""
    row: Row = {}
    for base in TYPES:
        found = ds.amplify(design, epsilon, base=base, neighbours="replace-one")
        row[base], row["share"] = found.epsilon, found.details["tilted_mean"] / design.size
    row["upper"] = printed.random_size_upper(epsilon, row["share"])
    row["lower"] = printed.random_size_lower(epsilon, row["share"])
    return row


def bounds_for_small_laws(run: Run) -> Result:
    """Theorem 3.1 for six laws of the size, four units: both bounds beside the worst case by linear programme."""
    rows: Rows = []
    cases: list[Row] = []
    for name, law in LAWS.items():
        case = with_bounds(ds.random_size(UNITS, table=law), EPSILON)
        case["worst"] = {base: exact(sized("abcx", law), sized("abcy", law), EPSILON, base) for base in TYPES}
        cases.append(case | {"law": name})
        shown = {
            "printed lower bound": case["lower"],
            "printed upper bound": case["upper"],
            "exact, private under both relations": case["worst"]["both"],
            "exact, private under add-remove": case["worst"]["add-remove"],
        }
        rows += [{"law": name, "what": what, "loss": value} for what, value in shown.items()]
    by_name = {case["law"]: case for case in cases}
    # One in a million draws everybody, the others one in ten.
    rarely = ds.random_size(100, table={10: 1.0 - 1e-6, 100: 1e-6})
    return Result(
        rows,
        {
            "upper, add-remove": "yes" if all(at_most(case["worst"]["add-remove"], case["upper"]) for case in cases) else "no",
            "upper, both": tally(at_most(case["worst"]["both"], case["upper"]) for case in cases),
            "lower": tally(at_most(case["lower"], case["worst"][base]) for case in cases for base in TYPES),
            "binomial": by_name[BINOMIAL]["worst"]["add-remove"],
            "chain": tally(same(case[base], case["worst"][base]) for case in cases for base in TYPES),
            # At twice epsilon, with the weights of epsilon: what the theorem would be for mechanisms that lose 2 epsilon.
            "lower, corrected": tally(
                at_most(printed.random_size_lower(2.0 * EPSILON, case["share"]), case["worst"]["add-remove"]) for case in cases
            ),
            "upper, corrected": tally(
                at_most(case["worst"]["add-remove"], printed.random_size_upper(2.0 * EPSILON, case["share"])) for case in cases
            ),
            "largest size": tally(
                at_most(case["worst"][base], loss(ds.srs(n=max(LAWS[case["law"]]), size=UNITS), EPSILON, base, "replace-one"))
                for case in cases
                for base in TYPES
            ),
            "rarely everybody": against(loss(rarely, EPSILON, "both", "replace-one"), EPSILON),
        },
        "The upper bound is true for a mechanism that is private under both relations. For one that is private under "
        "add-remove alone put 2ε for ε in its last factor; the lower bound is right, and sharper with 2ε there too. The largest "
        f"loss of the binomial size is above the printed bound of {by_name[BINOMIAL]['upper']:.4f}. "
        "A loss above 95 % of ε is called no amplification.",
    )


def draw_bounds(rows: Rows) -> Any:
    """Bounds and exact values by law."""
    from ..pictures import dots, titled

    return titled(
        dots(rows, "law", "loss", "what", x_title="ε′ for a replaced record, ε = 1, four units"),
        "Random sample sizes: Theorem 3.1 and the worst mechanisms",
        [
            "crosses: some mechanism that is private under add-remove loses more than the printed upper bound",
            "for mechanisms of both types the worst loss lies between the bounds",
        ],
    )


def truncated_gaussian(run: Run) -> Result:
    """Figure 2: a truncated normal law of the size; bounds as printed, and the exact loss."""
    rows: Rows = []
    at: dict[float, Row] = {}
    widths = sorted(
        {*WIDTHS, *dots_between(1.0, 1000.0, 8 if run.quick else 30), *np.linspace(100.0, 1000.0, 10 if run.quick else 37)}
    )
    shown = {
        "upper": "upper bound as printed",
        "lower": "lower bound as printed",
        "both": "exact, both relations",
        "add-remove": "exact, add-remove",
    }
    for number, width in enumerate(widths):
        run.progress("004-figure-2", number, len(widths))
        at[width] = with_bounds(ds.random_size(POPULATION, gaussian=(POPULATION / 2, width)), SPENT)
        rows += [{"sigma": width, "what": what, "loss": at[width][key]} for key, what in shown.items()]
    wide, narrow = at[800], at[1]
    return Result(
        rows,
        {
            "narrow, both": narrow["both"] / SPENT,
            "narrow, add-remove": narrow["add-remove"] / SPENT,
            "wide, bounds": "close to ε" if min(wide["upper"], wide["lower"]) > NEARLY * SPENT else "not close to ε",
            "wide, add-remove": "close to 2ε" if wide["add-remove"] > NEARLY * 2.0 * SPENT else "not close to 2ε",
            "wide, exact": wide["add-remove"],
            **{f"{bound} at {width}": at[width][bound] for width in WIDTHS for bound in ("upper", "lower")},
        },
        f"At σ = 800 the bounds are {wide['lower'] / SPENT:.4f} ε and {wide['upper'] / SPENT:.4f} ε; the exact loss of "
        f"mechanisms that are private under add-remove alone is {wide['add-remove'] / SPENT:.4f} ε. Above 95 % is called close.",
    )


def draw_gaussian(rows: Rows) -> Any:
    """Four curves over the width; the two bounds lie on each other."""
    from ..pictures import lines, titled

    chart = lines(
        rows,
        "sigma",
        "loss",
        "what",
        x_title="standard deviation σ of the sample size",
        y_title="ε′ for a replaced record",
        rules=[(SPENT, "ε"), (2.0 * SPENT, "2ε")],
    )
    return titled(
        chart,
        "Figure 2: a truncated normal sample size",
        [
            "n = 10,000, mean n/2, ε = 0.01; both bounds and the exact loss for both relations lie on one line",
            "for the mechanisms of the theorem, private under add-remove, everything doubles",
        ],
    )


def log_lipschitz(run: Run) -> Result:
    """Lemma B.3: the steepest weights are the worst for a rising w, against random weights and every corner."""
    rng, cases = run.rng(1), run.draws(400, 60)
    rows: Rows = []
    for case in range(cases):
        n, epsilon = int(rng.integers(2, 9)), float(rng.uniform(0.05, 2.0))
        w, p = np.sort(rng.random(n + 1)), rng.dirichlet(np.ones(n + 1))
        steep = np.exp(epsilon * np.arange(n + 1)) * p
        bound = float(steep @ w / steep.sum())
        # The ratio is quasi-linear in each log step, so its largest value is at a corner: every step up or down by epsilon.
        signs = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        steps = np.concatenate((np.zeros((2**n, 1)), np.cumsum(epsilon * (2.0 * signs - 1.0), axis=1)), axis=1)
        weights = np.exp(steps) * p
        best = float(np.max(weights @ w / weights.sum(axis=1)))
        rows.append({"case": case, "n": n, "epsilon": epsilon, "bound": bound, "largest": best})
    return Result(rows, {"holds": tally(same(row["largest"], row["bound"]) for row in rows)}, "The bound is attained.")


def draw_lipschitz(rows: Rows) -> Any:
    """The largest ratio against the bound: all on the diagonal."""
    from ..pictures import lines, titled

    drawn = [{"bound": row["bound"], "value": row["largest"], "what": "largest over all corners"} for row in rows]
    chart = lines(
        sorted(drawn, key=lambda row: row["bound"]),
        "bound",
        "value",
        "what",
        x_title="weights e^(εm), as in the lemma",
        y_title="largest weighted mean over all log-Lipschitz weights",
        points=True,
    )
    return titled(chart, "Lemma B.3: the steepest weights are the worst", "random laws and rising functions, every corner tried")
