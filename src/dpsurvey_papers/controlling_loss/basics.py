"""Section 2: two relations, simple random sampling, and how a sample is said to be used."""

from __future__ import annotations

from typing import Any

import dpsurvey as ds

from ..item import Result, Rows, Run
from . import printed
from .asking import dots_between, exact, loss, same, simple, tally, worst

EPSILONS = (0.1, 0.5, 1.0, 2.0)
ONE_OF_HUNDRED = ds.srs(n=1, size=100)


def replaced_in_two_steps(run: Run) -> Result:
    """Section 2.2: a record replaced is one removed and one added, and some mechanism loses both."""
    rows: Rows = []
    for n, size in ((4, 4), (2, 4), (1, 4)):
        design, share = ds.srs(n=n, size=size), f"{n} of {size} units"
        for epsilon in EPSILONS:
            row = {"sample": share, "epsilon": epsilon, "whole": n == size}
            row["loss"] = loss(design, epsilon, "add-remove", "replace-one")
            row["worst"] = worst(design, epsilon, "add-remove", "replace-one")
            rows.append(row)
    whole = [row for row in rows if row["whole"]]
    return Result(
        rows,
        {
            "factor": max(row["worst"] / row["epsilon"] for row in whole),
            "attained": tally(same(row["loss"], row["worst"]) for row in rows),
        },
        "A mechanism that is private under both relations, such as a noisy count, does not pay twice.",
    )


def draw_replaced(rows: Rows) -> Any:
    """Loss against epsilon, by sampling fraction."""
    from ..pictures import lines, titled

    chart = lines(
        rows,
        "epsilon",
        "worst",
        "sample",
        x_title="ε of the mechanism, a record more or less",
        y_title="worst loss, a record replaced",
        by_title="sample",
        points=True,
    )
    return titled(chart, "A replaced record is two steps", "worst mechanism by linear programme; without sampling it loses 2ε")


def simple_random_sampling(run: Run) -> Result:
    """Theorem 2.2 against the worst case over all mechanisms, and its delta."""
    rows: Rows = []
    for n, size in ((1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (3, 4), (2, 5), (3, 5)):
        units = "abcde"[: size - 1]
        for epsilon in EPSILONS:
            answer = ds.amplify(ds.srs(n=n, size=size), epsilon, base="replace-one", neighbours="replace-one")
            found = exact(simple(units + "x", n), simple(units + "y", n), epsilon, "replace-one")
            rows.append(
                {
                    "epsilon": f"{epsilon:g}",
                    "rate": n / size,
                    "printed": printed.sampling_theorem(epsilon, n / size),
                    "package": answer.epsilon,
                    "worst": found,
                }
            )
    delta = 1e-3
    lifted = ds.amplify(ds.srs(n=2, size=5), 1.0, delta=delta, base="replace-one", neighbours="replace-one").delta
    small = 1e-3
    return Result(
        rows,
        {
            "exact": tally(same(row["package"], row["worst"]) for row in rows),
            "formula": tally(same(row["package"], row["printed"]) for row in rows),
            "delta": (lifted or 0.0) / delta,
            "small epsilon": loss(ds.srs(n=2, size=5), small, "replace-one", "replace-one") / small,
        },
        "The mechanism must be private on data of the sample's size, and its relation is replace-one.",
    )


def draw_simple(rows: Rows) -> Any:
    """The formula as lines, the worst case as points."""
    from ..pictures import lines, titled

    ordered = sorted(rows, key=lambda row: (row["epsilon"], row["rate"]))
    chart = lines(
        ordered,
        "rate",
        "worst",
        "epsilon",
        x_title="sampling rate m/n",
        y_title="ε′",
        by_title="ε",
        x_format="~%",
        points=True,
    )
    return titled(
        chart, "Simple random sampling without replacement", "points: worst mechanism by linear programme = Theorem 2.2"
    )


def three_ways_to_draw(run: Run) -> Result:
    """Section 2.3: what is saved of a small epsilon, and what is lost, for the three designs that are named there."""
    size, small = 1000, 1e-3
    rows: Rows = []
    for share in (0.02, 0.1, 0.2, 0.3, 0.5, 0.65, 0.8, 0.95):
        n = round(share * size)
        once, never = 1.0 - share, (1.0 - 1.0 / size) ** n
        for design, outside, found in (
            ("without replacement", once, loss(ds.srs(n=n, size=size), small, "replace-one", "replace-one")),
            ("Poisson", once, loss(ds.poisson(share), small, "add-remove", "add-remove")),
            ("with replacement", never, loss(ds.with_replacement(n, size=size), small, "replace-one", "replace-one")),
        ):
            row = {"design": design, "draws per unit": share, "not included": outside}
            rows.append(row | {"lost": found / small, "saved": (small - found) / small})
    exact = [row for row in rows if row["design"] != "with replacement"]
    again = next(row for row in rows if row not in exact and row["draws per unit"] == 0.5)
    return Result(
        rows,
        {
            "saved": tally(abs(row["saved"] - row["not included"]) < small for row in exact),
            "three in ten": next(row["saved"] for row in exact if row["draws per unit"] == 0.3),
        },
        "What is saved, ε − ε′, is in proportion to not being included; the loss ε′ itself is in proportion to being included, "
        "and that is what the text after Theorem 2.2 calls the degree of amplification. For draws with replacement the pure loss "
        f"counts draws: {again['saved']:.4f} of ε is saved at 500 draws from 1,000 units, where a unit is never drawn with "
        f"probability {again['not included']:.4f}. Equal means within 0.001 of ε, at ε = 0.001.",
    )


def draw_three(rows: Rows) -> Any:
    """What is saved against the probability of not being included."""
    from ..pictures import lines, titled

    names = {"without replacement": "without replacement, Poisson", "with replacement": "with replacement, pure loss"}
    chart = lines(
        [row | {"design": names[row["design"]]} for row in rows if row["design"] in names],
        "not included",
        "saved",
        "design",
        x_title="probability of not being included",
        y_title="share of ε that is saved, 1 − ε′/ε",
        x_format="~%",
        points=True,
    )
    return titled(
        chart,
        "What sampling saves is in proportion to not being included",
        "ε = 0.001; the loss ε′ is in proportion to being included. Drawn with replacement, a unit may come twice: less is saved",
    )


def following_the_linear_rule(run: Run) -> Result:
    """Section 2.4: a one per cent sample, what it gives and what following the text would cost."""
    rate, guaranteed = ONE_OF_HUNDRED.largest_probability, 1.0
    followed = guaranteed / rate
    rows: Rows = []
    for spent in dots_between(0.05, followed, 60 if run.quick else 200):
        true = loss(ONE_OF_HUNDRED, spent, "replace-one", "replace-one")
        rows.append({"spent": spent, "rule": "true loss", "loss": true})
        rows.append({"spent": spent, "rule": "linear rule, as used", "loss": printed.linear_rule(spent, rate)})
    inverse = ds.invert(ONE_OF_HUNDRED, guaranteed, base="replace-one", neighbours="replace-one").spent_epsilon
    return Result(
        rows,
        {
            "given": loss(ONE_OF_HUNDRED, guaranteed, "replace-one", "replace-one"),
            "spent": inverse,
            "scale": 1.0 / inverse,
            "followed": loss(ONE_OF_HUNDRED, followed, "replace-one", "replace-one"),
        },
        f"Noise of the scale that the text asks for is {followed / inverse:.0f} times too small.",
    )


def draw_following(rows: Rows) -> Any:
    """Both rules on logarithmic axes."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "spent",
        "loss",
        "rule",
        x_title="ε spent on the sample",
        y_title="ε′ for the population",
        x_scale=logarithmic(0.05, 100.0),
        y_scale=logarithmic(),
        rules=[(1.0, "guaranteed: 1")],
    )
    return titled(
        chart,
        "A one per cent sample: the linear rule and the truth",
        [
            "the rule lets 100 be spent for a guarantee of 1; the true loss passes 1 a little above 5,",
            "and at 100 it is far beyond",
        ],
    )
