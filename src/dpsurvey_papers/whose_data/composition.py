"""Section 5.2 and Figure 5.1: two mechanisms on one and the same sample."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

import dpsurvey as ds
from dpsurvey.design import Design
from dpsurvey.loss.worst_case import Contest, worst_loss

from ..item import Result, Rows, Run
from .framework import yes

DRAWN = ds.srs(n=1, size=10)


def alone(epsilon: float, design: Design = DRAWN) -> float:
    """The loss of one mechanism on the sample, seen from outside."""
    return ds.amplify(design, epsilon, base="replace-one", neighbours="replace-one").epsilon or 0.0


def together(*losses: float, design: Design = DRAWN) -> float:
    """The loss of several mechanisms on the same sample: composed first, then amplified once."""
    profiles = [ds.PrivacyProfile.pure(each, "replace-one") for each in losses]
    return profiles[0].compose(*profiles[1:]).amplify(design.largest_probability).epsilon(0.0)


def two_samples(how: str, epsilon: float = 1.0, units: str = "abc") -> float:
    """The largest loss of two mechanisms on two samples of one unit each: the same, drawn apart, or never a common unit."""
    laws: list[dict[Iterable[str], float]] = []
    for target in "xy":
        pairs = [
            (one + "1", two + "2")
            for one, two in itertools.product(units + target, repeat=2)
            if how == "drawn apart" or (one == two) == (how == "the same")
        ]
        laws.append(dict.fromkeys(pairs, 1.0 / len(pairs)))
    return worst_loss(Contest.of_units(*laws), epsilon, "replace-one").lower


def one_sample_twice(run: Run) -> Result:
    """The example of Section 5.2: losses of 1 and 2 on one sample at a rate of one in ten."""
    first, second = alone(1.0), alone(2.0)
    true = together(1.0, 2.0)
    worst = ds.amplify(DRAWN, 3.0, base="replace-one", neighbours="replace-one").worst_case()
    small = together(0.01, 0.01) / (2.0 * alone(0.01)) - 1.0
    rows: Rows = [
        {"loss of": "T₁ alone", "how": "right", "loss": first},
        {"loss of": "T₂ alone", "how": "right", "loss": second},
        {"loss of": "both", "how": "sum of the two (naive)", "loss": first + second},
        {"loss of": "both", "how": "right", "loss": true},
    ]
    quarter, half = ds.srs(n=1, size=4), ds.srs(n=2, size=4)
    found = {how: two_samples(how) for how in ("the same", "drawn apart", "never both")}
    rows += [{"loss of": f"two samples of 1 of 4, {how}", "how": "right", "loss": loss} for how, loss in found.items()]
    rows += [
        {"loss of": f"two samples of 1 of 4, {how}", "how": "sum of the two (naive)", "loss": 2.0 * alone(1.0, quarter)}
        for how in found
    ]
    rules = {
        "the same": together(1.0, 1.0, design=quarter),
        "drawn apart": 2.0 * alone(1.0, quarter),
        "never both": alone(1.0, half),
    }
    return Result(
        rows,
        {
            "first": first,
            "second": second,
            "naive": first + second,
            "true": true,
            "small": yes(small < 0.01),
            "independent": yes(all(abs(found[how] - rules[how]) < 1e-6 for how in rules)),
        },
        "The true loss of both is attained by some mechanism"
        + (f" ({worst.lower:.4f})" if worst is not None and abs(worst.lower - true) < 1e-6 else " (not checked)")
        + f", so nothing smaller can be claimed. At ε = 0.01 twice the sum is short by {small:.2%}; less than 1 % is called "
        f"approximate here. Dependence can help: of two samples of 1 of 4 at ε = 1 each the same one loses "
        f"{found['the same']:.4f}, two drawn apart the sum {found['drawn apart']:.4f}, and two without a common unit "
        f"{found['never both']:.4f}, as one sample of twice the size.",
    )


def draw_example(rows: Rows) -> Any:
    """The four losses of the example."""
    from ..pictures import dots, titled

    chart = dots(rows, "loss of", "loss", "how", x_title="loss outside the sample")
    return titled(
        chart,
        "Section 5.2: two mechanisms on one sample",
        "T₁, T₂: simple random sample at a rate of 0.1, ε = 1 and ε = 2; below: two samples, ε = 1 each",
    )


def figure_5_1(run: Run) -> Result:
    """Figure 5.1: the total loss of two mechanisms of equal loss, naive and true."""
    epsilons = np.linspace(0.02, 5.0, 60 if run.quick else 250).tolist()
    rows: Rows = []
    for epsilon in epsilons:
        rows.append({"epsilon": epsilon, "how": "naive sum", "loss": 2.0 * alone(epsilon)})
        rows.append({"epsilon": epsilon, "how": "true", "loss": together(epsilon, epsilon)})
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    short = [(true["loss"] - naive["loss"]) for naive, true in pairs]
    return Result(
        rows,
        {
            "above": yes(all(each > 0.0 for each in short)),
            "substantial": yes(max(short) > 1.0),
            "same for small": yes(short[0] < 1e-3),
        },
        f"The naive sum is always too small: amplification is superadditive. At ε = 5 each it is short by {short[-1]:.3f}. The "
        "figure itself is not in the text; its caption gives both formulas. The range of ε is ours, and so is what is called "
        "substantial (a gap above 1) and the same (a gap below 0.001, at ε = 0.02).",
    )


def draw_figure_5_1(rows: Rows) -> Any:
    """Two lines, the naive sum below the truth."""
    from ..pictures import lines, titled

    ordered = [row for how in ("true", "naive sum") for row in rows if row["how"] == how]
    chart = lines(
        ordered, "epsilon", "loss", "how", x_title="ε of each mechanism on the sample", y_title="total loss outside the sample"
    )
    return titled(
        chart,
        "Figure 5.1: privacy loss when two mechanisms share a sample",
        "simple random sampling without replacement, n/N = 0.1",
    )
