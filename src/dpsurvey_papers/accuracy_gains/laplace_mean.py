"""Section 4.2: the Laplace mean of a sample never has less noise than that of the population, and Figure 5 is rounding."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

import dpsurvey as ds

from ..item import Result, Rows, Run
from .rates import SIZE, spent

# How far below 1 a ratio must be to count as below: a thousand times what floats round.
CLEAR = 1e-12


def mean_plan(n: int, epsilon: float, size: int = 10_001, expect: tuple[float, float] = (0.2, 0.1)) -> ds.Plan:
    """A plan for the mean of values in [0, 1] by a simple random sample of n; nothing is read or spent by it."""
    survey = ds.Survey(
        ds.Frame("frame.parquet", unit="id", size=size),
        ds.srs(n=n),
        ds.Setting("frame", neighbours="replace-one"),
        budget=ds.Budget(epsilon),
        ledger="never-written.ledger",
    )
    return survey.plan(ds.mean("y", bounds=(0.0, 1.0), expect=expect))


def total_variance(run: Run) -> Result:
    """Equations 6 to 8: the variance that a plan predicts for a mean, against the formulas, and whether a sample ever gains."""
    spread, rows = 0.1, []
    sizes = [max(2, round(rate * SIZE)) for rate in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)]
    far, gains = 0.0, []
    for epsilon in (0.01, 0.1, 1.0, 5.0):
        whole = 2.0 / (epsilon * SIZE) ** 2
        for n in sizes:
            row = mean_plan(n, epsilon).predictions[0]
            # As it is printed, so that the plan is what is compared.
            noise = 2.0 / (math.log1p(math.expm1(epsilon) * SIZE / n) * n) ** 2
            sampling = (1.0 - n / SIZE) * spread**2 * SIZE / (SIZE - 1) / n
            predicted = math.hypot(row["se_sampling"], row["se_noise"]) ** 2
            far = max(far, abs(predicted / (sampling + noise) - 1.0) if n > 100 else 0.0)
            gains += [epsilon] if n < SIZE and (predicted < whole or row["se_noise"] ** 2 < whole) else []
            rows.append({"epsilon": f"{epsilon:g}", "rate": n / SIZE, "ratio": predicted / whole, "noise": noise / whole})
    values: dict[str, Any] = {
        "equation 7": "as printed" if far < 2e-3 else "another variance",
        "gains": "no gains" if not gains else "gains",
    }
    note = (
        f"Predicted variances are those of Equation 7 within {far:.1g}, which is what noise in whole steps adds; within 0.002 "
        "they are called as printed. The standard deviation of the values is 0.1, their range 1."
    )
    return Result(rows, values, note)


def draw_total_variance(rows: Rows) -> Any:
    """V_n over V_N by rate, on a log scale."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "rate",
        "ratio",
        "epsilon",
        x_title="sampling rate n/N",
        y_title="V_n over V_N",
        by_title="ε",
        x_format="~%",
        y_scale=logarithmic(),
        points=True,
        rules=[(1.0, "")],
    )
    return titled(
        chart,
        "The noisy mean of a sample against that of the population",
        "as a plan predicts it: more variance at every rate; dashed: the whole population",
    )


def as_written(epsilon: float, rate: float) -> float:
    """Equation 8 as it is printed, in double precision: exp(epsilon) - 1 loses the digits of a small epsilon."""
    return (rate * math.log(1.0 + (math.exp(epsilon) - 1.0) / rate) / epsilon) ** 2


def first_one(rate: float) -> float:
    """The largest epsilon on a fine grid at which Equation 8 as printed gives 1 or more."""
    grid = np.geomspace(1e-5 * rate, 1e-9 * rate, 100_000)
    ratios = rate * np.log(1.0 + (np.exp(grid) - 1.0) / rate) / grid
    return float(grid[np.argmax(ratios >= 1.0)])


def root_of_ratio(epsilon: float, rate: float) -> float:
    """The square root of r by what the package lets a sample spend, rate epsilon_n/epsilon: nothing keeps it below 1.

    >>> round(root_of_ratio(1.0, 0.1) ** 2, 6), root_of_ratio(1e-6, 0.5) < 1.0
    (0.084128, True)
    """
    part = Fraction(repr(rate))
    return spent(epsilon, part.numerator, part.denominator) * rate / epsilon


def root_in_digits(epsilon: float, rate: float, digits: int = 80) -> Decimal:
    """The root of Equation 8 as it is printed, in decimal arithmetic that has digits left after exp(epsilon) - 1.

    >>> root_in_digits(1e-30, 0.5) < 1, 1 - root_in_digits(1e-30, 0.5) < Decimal("1e-29")
    (True, True)
    """
    with localcontext() as context:
        context.prec = digits
        target, part = Decimal(repr(epsilon)), Decimal(repr(rate))
        return part * (1 + (target.exp() - 1) / part).ln() / target


RATES = (1e-4, 1e-3, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 0.999)


def equal_noise(run: Run) -> Result:
    """Figure 5: where r(epsilon, n/N) = 1. Nowhere; the printed curve is where the formula as written has no digits left."""
    rows: Rows = []
    for rate in RATES:
        epsilon = first_one(rate)
        # What the sample may spend, as the formula is written.
        inside = math.log(1.0 + (math.exp(epsilon) - 1.0) / rate)
        rows.append({"panel": "dots", "rate": rate, "log_epsilon": math.log(epsilon), "log_epsilon_n": math.log(inside)})
    rate, written = RATES[0], "Equation 8 as written"
    for epsilon in np.geomspace(1e-13, 1e-7, 120 if run.quick else 400).tolist():
        inside = spent(epsilon, 1, round(1.0 / rate))
        rows.append({"panel": "ratio", "epsilon_n": inside, "r": ds.planning.noise_ratio(epsilon, rate), "formula": "exact"})
        rows.append({"panel": "ratio", "epsilon_n": inside, "r": as_written(epsilon, rate), "formula": written})
    usual = np.geomspace(1e-6, 5.0, 60).tolist()
    others = [*np.geomspace(1e-30, 1e-6, 13).tolist(), *np.geomspace(5.0, 50.0, 4).tolist()]
    by_package = max(root_of_ratio(epsilon, rate) for rate in RATES for epsilon in usual)
    by_digits = max(root_in_digits(epsilon, rate) for rate in RATES for epsilon in others)
    none = by_package < 1.0 - CLEAR and by_digits < 1
    values: dict[str, Any] = {
        "solution": "no solution" if none else "a solution",
        "approaches one": "1" if all(abs(root_of_ratio(1e-9, rate) - 1.0) < 1e-7 for rate in (0.1, 0.5)) else "another limit",
        "log -8": math.exp(-8.0),
        "log -20": math.exp(-20.0),
        "conclusion": "no gains" if none else "gains",
    }
    note = (
        f"At a rate of {rate:g} the formula as written, in double precision, first gives 1 or more at ε_n of about "
        f"{math.exp(rows[0]['log_epsilon_n']):.1e}; further digits depend on the grid of ε. √r = f log(1 + (e^ε - 1)/f)/ε rises "
        f"in f, since log(1 + u) > u/(1 + u), and is 1 at f = 1, so r < 1 for every ε and every f < 1. Decided at {len(RATES)} "
        "rates: from ε = 1e-6 to 5 by what the package lets a sample spend, where √r stays below 1 by more than "
        f"{1.0 - by_package:.1g}; from 1e-30 to 1e-6 and from 5 to 50 by Equation 8 in arithmetic of 80 digits, where it "
        f"stays below 1 by more than {1 - by_digits:.1e}. Section 4.2 writes r ≤ 1, less than one and r < 1 where it means "
        "r ≥ 1, more than one and r > 1: below 1 the sample has the more noise."
    )
    return Result(rows, values, note)


def draw_equal_noise(rows: Rows) -> Any:
    """The two panels of the figure, recomputed from rounding errors, and the ratio itself."""
    from ..pictures import beside, lines, logarithmic, named

    found = [row | {"series": ""} for row in rows if row["panel"] == "dots"]
    panels = [
        named(
            lines(
                found,
                "rate",
                column,
                "series",
                x_title="sampling rate n/N",
                y_title=title,
                x_scale=logarithmic(),
                points=True,
                size=(230, 240),
            ),
            f"{side} panel, recomputed",
        )
        for column, title, side in (("log_epsilon", "log ε", "left"), ("log_epsilon_n", "log ε_n", "right"))
    ]
    ratio = lines(
        [row for row in rows if row["panel"] == "ratio" and abs(row["r"] - 1.0) <= 0.001],
        "epsilon_n",
        "r",
        "formula",
        x_title="ε_n, at a rate of 0.0001",
        y_title="r(ε, n/N)",
        x_scale=logarithmic(),
        x_format="~e",
        rules=[(1.0, "")],
        size=(270, 240),
    )
    whole = beside(
        [*panels, named(ratio, "the ratio r itself")],
        "The solutions of r = 1 in Figure 5 are rounding errors",
        "dots: the largest ε at which exp(ε) - 1 in double precision makes r reach 1; the exact ratio stays below 1 everywhere",
    )
    # The dots have no series, the ratio has two.
    return whole.resolve_scale(x="independent", y="independent", color="independent")
