"""Sections 4.1 and 4.2, Lemma B.1: sample sizes that look at the data, and what tests say about them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import dpsurvey as ds
from dpsurvey.design import Losses, advantage, fixed_sizes
from dpsurvey.mechanism import Laplace

from ..item import Result, Row, Rows, Run
from . import printed
from .asking import at_most, exact, loss, same, simple, tally
from .corrected import allocation_error_floor

# What is drawn beside the bounds.
BEST_TEST, TRUE_ERROR = "best private test of the size", "true error of the rule"
EPSILONS = (0.1, 0.5, 1.0)


def noisy_size(run: Run) -> Result:
    """Section 4.1: m units or m + d, and a noisy number of units in the sample."""
    rows: Rows = []
    for difference in range(1, 11):
        design = ds.size_rule(((20, 5, 1.0), (21, 5 + difference, 1.0)))
        for epsilon in EPSILONS:
            found = loss(design, epsilon, "add-remove", "add-remove")
            rows.append({"epsilon": f"{epsilon:g}", "difference": difference, "loss": found, "times": found / epsilon})
    return Result(
        rows,
        {
            "times": max(row["times"] for row in rows),
            "every difference": tally(same(row["times"], row["difference"]) for row in rows),
        },
        "No mechanism loses more than the noisy size does, where the larger population has the larger sample.",
    )


def draw_noisy_size(rows: Rows) -> Any:
    """Loss by difference."""
    from ..pictures import bars, titled

    chart = bars(
        [row | {"epsilon": f"ε = {row['epsilon']}"} for row in rows],
        "difference",
        "loss",
        "epsilon",
        x_title="difference Δ of the sample sizes of two neighbours",
        y_title="exact ε′",
    )
    return titled(chart, "A sample size that moves by Δ costs Δε", "exact worst loss over all mechanisms; Δ > 1 is degradation")


def advantages(run: Run) -> Result:
    """Proposition 4.1: the best private test of the sample's size, against the printed bound and the sharp one."""
    rows: Rows = []
    for rate in (0.05, 0.2, 0.5, 0.8):
        for size in (3, 7, 14):
            table = [
                (n, m, chance)
                for n in (size, size + 1)
                for m, chance in ds.proportional(rate, rounding="random").sizes(n).items()
            ]
            for epsilon in (0.2, 1.0, 2.0, 4.0):
                answer = ds.amplify(ds.size_rule(tuple(table)), epsilon, base="add-remove", neighbours="add-remove")
                lost = answer.epsilon or math.nan
                for what, value in (
                    (BEST_TEST, answer.details["advantage"]),
                    ("sharp bound tanh(ε′/2)", advantage(lost)),
                    ("printed bound exp(ε′) − 1", min(1.0, printed.advantage(lost))),
                ):
                    rows.append({"loss": lost, "what": what, "advantage": value})
    found = [row for row in rows if row["what"] == BEST_TEST]
    small = 1e-3
    return Result(
        rows,
        {
            "printed bound": tally(at_most(row["advantage"], printed.advantage(row["loss"])) for row in found),
            "sharp bound": tally(at_most(row["advantage"], advantage(row["loss"])) for row in found),
            "small epsilon": printed.advantage(small) / small,
        },
        "The bound is true and says nothing from ε′ = log 2 on; the largest advantage is tanh(ε′/2).",
    )


def draw_advantages(rows: Rows) -> Any:
    """Two curves and the tests below them."""
    from ..pictures import FEW, lines, scatter, titled

    order = ("sharp bound tanh(ε′/2)", "printed bound exp(ε′) − 1")
    bounds = [row for row in rows if row["what"] in order]
    chart = lines(
        sorted(bounds, key=lambda row: (order.index(row["what"]), row["loss"])),
        "loss",
        "advantage",
        "what",
        x_title="ε′ of the sampled mechanism",
        y_title="advantage of a test",
    )
    tests = scatter([row for row in rows if row["what"] not in order], "loss", "advantage", colour=FEW[2])
    return titled(
        chart + tests,
        "Proposition 4.1: tests of the sample's size",
        [
            "points: the best private test of the size, proportional allocation with randomised rounding",
            "the printed bound is cut at 1, where it says nothing",
        ],
    )


def best_private_estimator(cap: int, epsilon: float, step: float) -> float:
    """A lower bound on the mean squared error of any epsilon-private estimator of min(count, cap), one count per record.

    The best estimator with answers on a grid is a linear programme; rounding any estimator to the grid moves an answer by
    half a step at most, so its root mean squared error is no more than half a step below.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_diag, coo_array, csr_array, hstack, vstack

    answers, counts = np.arange(0.0, cap + step / 2.0, step), np.arange(cap + 1)
    places = len(answers)
    entries: list[tuple[int, int, float]] = []
    row = 0
    for one in counts:
        for other in (one - 1, one + 1):
            if 0 <= other <= cap:
                for place in range(places):
                    entries.append((row, int(one) * places + place, 1.0))
                    entries.append((row, int(other) * places + place, -math.exp(epsilon)))
                    row += 1
    at, column, value = (np.array(part) for part in zip(*entries, strict=True))
    private = coo_array((value, (at, column)), shape=(row, places * (cap + 1)))
    errors = block_diag([csr_array((answers - count)[None, :] ** 2) for count in counts])
    sums = block_diag([csr_array(np.ones((1, places)))] * (cap + 1))
    limits = vstack([hstack([private, csr_array((row, 1))]), hstack([errors, csr_array(-np.ones((cap + 1, 1)))])]).tocsr()
    goal = np.zeros(limits.shape[1])
    goal[-1] = 1.0
    found = linprog(
        goal,
        A_ub=limits,
        b_ub=np.zeros(limits.shape[0]),
        A_eq=hstack([sums, csr_array((cap + 1, 1))]).tocsr(),
        b_eq=np.ones(cap + 1),
    )
    return (math.sqrt(float(found.fun)) - step / 2.0) ** 2


def noise_variance(epsilon: float, parts: int) -> float:
    """The variance of the noise that hides a count, by the package's mechanism; of whole numbers, or of small parts of one."""
    noise = Laplace.calibrate(ds.PrivacyProfile.pure(epsilon, "add-remove"), sensitivity=parts)
    return noise.variance / parts**2


def allocations_near_a_target(run: Run) -> Result:
    """Proposition 4.2 at the sample size min(number of ones, 20) in a population of ten million, used as it is."""
    cap, size, epsilon = 20, 10_000_000, 1.0
    # A record that changes from 0 to 1 moves the size by one, and is itself among at most cap - 1 drawn units.
    outside = fixed_sizes(size - 1, cap - 1, cap - 1, Losses.of(epsilon, "add-remove")) + epsilon
    alpha = best_private_estimator(cap, outside, 0.25)
    laplace, geometric = noise_variance(epsilon, parts=10**6), noise_variance(epsilon, parts=1)
    slacks = {
        "α − 1/ε², as printed": printed.allocation_slack(epsilon),
        "α − 2/ε², Laplace noise": laplace,
        "α − 1.84/ε², geometric noise": geometric,
    }
    floors = [allocation_error_floor(alpha, epsilon, "laplace"), allocation_error_floor(alpha, epsilon)]
    rows: Rows = [{"what": what, "error": alpha - slack} for what, slack in slacks.items()]
    rows.append({"what": TRUE_ERROR, "error": 0.0})
    refuted = alpha - slacks["α − 1/ε², as printed"] > 0.0
    return Result(
        rows,
        {
            "slack": laplace * epsilon**2,
            "holds": "no" if refuted else "yes",
            "outside": outside,
            "floor": tally(same(alpha - slack, floor) for slack, floor in zip((laplace, geometric), floors, strict=True)),
        },
        f"No ε′-private estimator of this size has a mean squared error below {alpha:.2f}, by a linear programme whose answers "
        "lie on a grid of quarters and a deduction for the grid; the rule itself has 0. α must belong to estimators that are "
        "private under replacement, as the composed mechanism is, not under deletion as printed.",
    )


def draw_allocations(rows: Rows) -> Any:
    """Three bounds and the truth."""
    from ..pictures import dots, titled

    kinds = [row | {"kind": "true" if row["what"] == TRUE_ERROR else "least error, by the bound"} for row in rows]
    return titled(
        dots(kinds, "what", "error", "kind", x_title="mean squared error of the sample size", rule=(0.0, "")),
        "Proposition 4.2: how close a private allocation can be",
        "target min(number of ones, 20), ε = 1: a bound above 0 is refuted by the rule that hits its target",
    )


def two_sizes(run: Run) -> Result:
    """Lemma B.1: m of the smaller population against m' of the larger, for three types of mechanisms."""
    rows: Rows = []
    population, epsilon = 3, 1.0
    units = "abc"
    for m in range(1, population + 1):
        for other in range(1, population + 2):
            first, second = simple(units + "x", other), simple(units, m)
            row: Row = {"sizes": f"{m} of 3, {other} of 4"}
            row["printed"] = printed.sample_size_lemma(population, m, other, epsilon)
            row["tight"] = fixed_sizes(population, m, other, Losses.of(epsilon, "add-remove"))
            row["add-remove"] = exact(first, second, epsilon, "add-remove")
            row["replace-one"] = exact(first, second, epsilon, "replace-one")
            rows.append(row)
            if (m, other) == (2, 3):
                shown = row
    bounded = all(math.isfinite(row["replace-one"]) for row in rows)
    return Result(
        rows,
        {
            "bounded": "yes" if bounded else "no",
            "replace-one": shown["replace-one"],
            "add-remove": tally(at_most(row["add-remove"], row["printed"]) for row in rows),
            "tight": tally(same(row["add-remove"], row["tight"]) for row in rows),
        },
        "The lemma holds for mechanisms that are private under add-remove, as the proof needs. For 2 of 3 against 3 of 4 units "
        f"it says {shown['printed']:.4f} at ε = 1; the exact loss is then {shown['add-remove']:.4f}, since |m − m′|ε is all that "
        "is lost where the larger population has the larger sample.",
    )


def draw_two_sizes(rows: Rows) -> Any:
    """The printed bound and the exact value for each pair of sizes; infinite values cannot be drawn."""
    from ..pictures import dots, titled

    shown = {"add-remove": "exact, private under add-remove", "printed": "printed bound", "replace-one": "exact, replace-one"}
    drawn = [
        {"sizes": row["sizes"], "what": what, "loss": row[key]}
        for row in rows
        for key, what in shown.items()
        if math.isfinite(row[key])
    ]
    return titled(
        dots(drawn, "sizes", "loss", "what", x_title="ε′, ε = 1"),
        "Lemma B.1: samples of m and m′ units",
        "the lemma is stated for replace-one mechanisms: for them the loss is infinite wherever no triangle is drawn",
    )
