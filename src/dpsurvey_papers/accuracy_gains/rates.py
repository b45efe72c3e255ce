"""Sections 3 and 4.1: what a sample may spend at the same guarantee, and how much sampling variance that can pay for."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import dpsurvey as ds
from dpsurvey.design import Loss
from dpsurvey.mechanism import Laplace, Place, global_sensitivity

from ..item import Result, Rows, Run

SIZE = 10_001


def sampled(epsilon: float, n: int, delta: float = 0.0, size: int = SIZE) -> Loss:
    """What a simple random sample may spend for a guarantee to everybody, one record replaced: `spent_epsilon`, `spent_delta`."""
    return ds.invert(ds.srs(n=n, size=size), epsilon, delta=delta, base="replace-one", neighbours="replace-one")


def spent(epsilon: float, n: int, size: int = SIZE) -> float:
    """The epsilon that a simple random sample may spend."""
    return sampled(epsilon, n, size=size).spent_epsilon


def what_a_sample_may_spend(run: Run) -> Result:
    """Figure 3, and the example of Section 3: epsilon 1 at a rate of one per cent."""
    sizes = sorted({round(n) for n in np.geomspace(20, SIZE, 60 if run.quick else 200)})
    rows: Rows = [
        {"epsilon": f"{epsilon:g}", "rate": n / SIZE, "epsilon_n": spent(epsilon, n)}
        for epsilon in (0.1, 0.5, 1.0)
        for n in sizes
    ]
    small = 1e-6
    losses = [ds.amplify(ds.srs(n=n, size=SIZE), 1.0, delta=small, base="replace-one", neighbours="replace-one") for n in sizes]
    shares = [(each.delta or 0.0) / (small * n / SIZE) for each, n in zip(losses, sizes, strict=True)]
    linear = "linear" if max(abs(share - 1.0) for share in shares) < 1e-9 else "not linear"
    return Result(rows, {"one per cent": spent(1.0, 1, 100), "delta": linear}, "δ is called linear within 1e-9 of itself.")


def draw_spent(rows: Rows) -> Any:
    """Three lines that fall to their own epsilon."""
    from ..pictures import lines, titled

    chart = lines(
        rows,
        "rate",
        "epsilon_n",
        "epsilon",
        x_title="sampling rate n/N",
        y_title="ε_n on the sample",
        by_title="guaranteed ε",
        x_format="~%",
    )
    return titled(
        chart, "What a sample may spend at the same guarantee", "simple random sampling without replacement, one record replaced"
    )


def share_of_noise(epsilon: float, n: int, size: int) -> float:
    """q = 1 - epsilon^2/epsilon_n^2."""
    return 1.0 - (epsilon / spent(epsilon, n, size)) ** 2


def rate_with_share(epsilon: float, share: float, size: int = 10**9) -> float:
    """The rate at which q is a given share, by bisection over sample sizes of a large population.

    >>> from dpsurvey.planning import rate_for_gain
    >>> abs(rate_with_share(2.0, 0.5) - rate_for_gain(2.0, 0.5)) < 1e-8
    True
    """
    low, high = 1, size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if share_of_noise(epsilon, middle, size) > share else (low, middle)
    return low / size


def share_by_rate(run: Run) -> Result:
    """Figure 4: q by sampling rate, the two rates at which it is 60 per cent, and its limit for small epsilon."""
    sizes = sorted({round(rate * SIZE) for rate in np.linspace(0.002, 1.0, 60 if run.quick else 200)})
    levels = (5.0, 3.0, 1.0, 0.5, 0.1, 0.01, 0.001)
    rows: Rows = [
        {"epsilon": f"{epsilon:g}", "rate": n / SIZE, "q": ds.planning.gain_bound(epsilon, n / SIZE)}
        for epsilon in levels
        for n in sizes
    ]
    rates = [n / SIZE for n in sizes[:-1]]
    near = max(abs(share_of_noise(levels[-1], n, SIZE) - (1.0 - (n / SIZE) ** 2)) for n in sizes[:-1])
    hardly = max(abs(ds.planning.gain_bound(levels[-1], rate) - ds.planning.gain_bound(levels[-2], rate)) for rate in rates)
    noise = [Laplace.calibrate(ds.PrivacyProfile.pure(epsilon, "replace-one"), 1e6).variance for epsilon in (0.1, 3.0)]
    values: dict[str, Any] = {
        "rate at 3": rate_with_share(3.0, 0.6),
        "rate at 0.1": rate_with_share(0.1, 0.6),
        "times": noise[0] / noise[1],
        "limit": "1 - (n/N)²" if near < 1e-3 else "another limit",
        "hardly changes": "hardly" if hardly < 0.01 else "visibly",
    }
    note = (
        f"At ε = {levels[-1]:g} q is within {near:.1g} of its limit at every rate, and within {hardly:.1g} of what it is at ε = "
        f"{levels[-2]:g}; below 0.001 and 0.01 that is called the limit, and hardly a change. q is the bound where Δ_n = Δ_N. "
        "Equation 5 prints η_m for η_n, and ≤ in every step where = holds in all but the first."
    )
    return Result(rows, values, note)


def draw_share(rows: Rows) -> Any:
    """A line for each epsilon."""
    from ..pictures import lines, titled

    chart = lines(
        rows,
        "rate",
        "q",
        "epsilon",
        x_title="sampling rate n/N",
        y_title="q, largest share of V_N",
        by_title="ε",
        x_format="~%",
        rules=[(0.6, "")],
    )
    return titled(
        chart,
        "How much sampling variance a sample can afford",
        "gains need a sampling variance below the line of ε; dashed: 60 % of V_N; for small ε q is 1 - (n/N)²",
    )


def no_gain_rule(run: Run) -> Result:
    """Section 4.1: no gain if Var >= 2 Delta_N^2 (1/eps^2 - 1/eps_n^2). Checked on medians of all samples of three values."""
    population = (0.0, 0.5, 1.0)
    rows: Rows = []
    size = len(population)
    whole = global_sensitivity(Place.median(size), 0.0, 1.0)
    broken: dict[int, bool] = {}
    for n in (1, 2):
        medians = [float(np.median(sample)) for sample in itertools.combinations(population, n)]
        variance = float(np.var(medians))
        own = global_sensitivity(Place.median(n), 0.0, 1.0)
        for epsilon in (0.5 * step for step in range(1, 25)):
            total = variance + 2.0 * (own / spent(epsilon, n, size)) ** 2
            ratio, excluded = total / (2.0 * (whole / epsilon) ** 2), ds.planning.never_gains(variance, whole, epsilon, n / size)
            broken[n] = broken.get(n, False) or (excluded and ratio < 1.0)
            kind = "the rule excludes a gain" if excluded else "the rule says nothing"
            label = f"n = {n}: Δ_n = {'Δ_N' if own == whole else 'Δ_N/2'}"
            rows.append({"sample": label, "epsilon": epsilon, "ratio": ratio, "rule": kind})
    values: dict[str, Any] = {
        "same sensitivity": "holds" if not broken[1] else "fails",
        "any statistic": "only if Δ_n ≥ Δ_N" if broken[2] else "any statistic",
    }
    gains = [row["epsilon"] for row in rows if row["ratio"] < 1.0 and row["rule"] == "the rule excludes a gain"]
    note = (
        "Three values 0, 1/2 and 1: the median of all has global sensitivity R, that of a sample of two only R/2. From ε = "
        f"{min(gains, default=math.inf):g} to {max(gains, default=math.inf):g} the rule excludes a gain that is there."
    )
    return Result(rows, values, note)


def draw_no_gain_rule(rows: Rows) -> Any:
    """Total variance over that of the population, with the rule's word as colour."""
    from ..pictures import beside, lines, named, panels_of

    def panel(own: Rows, name: str) -> Any:
        chart = lines(
            own,
            "epsilon",
            "ratio",
            "rule",
            x_title="ε",
            y_title="V_n over V_N",
            points=True,
            rules=[(1.0, "gain below")],
            size=(330, 260),
        )
        return named(chart, name)

    return beside(
        panels_of(rows, "sample", panel),
        "The no-gain rule needs Δ_n ≥ Δ_N",
        "noisy medians of the values 0, 1/2 and 1: a sample of two has half the sensitivity, and gains where the rule says never",
    )
