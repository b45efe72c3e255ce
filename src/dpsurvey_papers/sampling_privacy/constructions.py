"""Section 3: the two constructions that lead up to the mechanism, and the cells that places are put into (Figure 1)."""

from __future__ import annotations

from typing import Any

import dpsurvey as ds

from ..item import Result, Rows, Run
from .parameters import COINS, YES, deviation, estimates, randomised, spread_of
from .toys import toy_deniability, toy_noise

TAKEN = 0.4
TRUE = 100
OUTPUTS = ("No", "Yes", "silent")


def noise_alone(run: Run) -> Result:
    """Section 3.2, Equation 1: whoever is sampled answers yes."""
    toy = toy_noise(TAKEN)
    rows: Rows = [
        {"truth": f"the truth is {truth}", "answer": output, "chance": float(chance)}
        for answer, truth in enumerate(("No", "Yes"))
        for output, chance in zip(OUTPUTS, toy.law(answer), strict=True)
    ]
    return Result(
        rows,
        {
            "estimator": _solved(toy),
            "who answers no": "nobody" if not any(toy.law(answer)[0] for answer in (0, YES)) else "somebody",
            "leakage without accuracy": "no leakage" if toy.epsilon == 0.0 else "leakage",
        },
        "Both truths give the same answers with the same probabilities: ε = 0, and nothing can be estimated.",
    )


def _solved(mechanism: Any) -> str:
    try:
        mechanism.line(YES)
    except ds.SurveyError:
        return "unsolvable"
    return "solvable"


def draw_noise_alone(rows: Rows) -> Any:
    """The two laws beside each other."""
    from ..pictures import bars, titled

    chart = bars(rows, "answer", "chance", "truth", x_title="answer", y_title="probability", size=(420, 260))
    return titled(chart, "Equation 1: the answers of both groups have one law", "one equation for two unknowns, π_s = 0.4")


def deniability(run: Run) -> Result:
    """Section 3.3, Equations 2 to 5: randomised response by a sampled part, silence by the others."""
    toys = {f"toy, π_s = {share:g}": toy_deniability(share, *COINS) for share in (0.2, 0.5)}
    asked = toys | {"randomised response": randomised()}
    numbers = (100, 1_000, 10_000, 100_000, 1_000_000)
    rows: Rows = [
        {"mechanism": name, "no": no, "sd": deviation(each, TRUE, no), "epsilon": each.epsilon}
        for name, each in asked.items()
        for no in numbers
    ]
    toy = asked["toy, π_s = 0.5"]
    scale, shift = toy.line(YES)
    # Exact, in fractions: the expected value of the estimator for one Yes and for one No.
    means = [scale * toy.law(answer)[YES] + shift for answer in (0, YES)]
    drawn = estimates(toy, TRUE, 900, run.draws(1000, 200), run, 2)
    simulated, error = spread_of(drawn)
    grows = deviation(toy, TRUE, numbers[-1]) > 10 * deviation(toy, TRUE, numbers[0])
    return Result(
        rows,
        {
            "estimator": "unbiased" if means == [0, 1] else "biased",
            "structure": "randomised response"
            if all(each.epsilon == randomised().epsilon for each in toys.values())
            else "other",
            "error as no grows": "grows" if grows else "constant",
        },
        f"With its parentheses, π_s(π1 + (1 - π1)π2). Exact deviation for 100 of 1,000 at π_s = 0.5: "
        f"{deviation(toy, TRUE, 900):.2f}; simulated {simulated:.2f}, standard error {error:.2f}. N counts the silent ones too. "
        "Silence is seen, so being sampled adds nothing to privacy: ε is that of the coins alone.",
    )


def draw_deniability(rows: Rows) -> Any:
    """The error of both toys and of randomised response."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "no",
        "sd",
        "mechanism",
        x_title="respondents who answer No",
        y_title="standard deviation of the estimate of 100 Yes",
        x_scale=logarithmic(),
        y_scale=logarithmic(),
        x_format="~s",
        points=True,
    )
    return titled(
        chart,
        "Sampling and deniability: more noise, and no more privacy",
        "all three have the same ε; the error grows with the root of No",
    )


def cells(run: Run) -> Result:
    """Section 4 and Figure 1: how many cells a place can be put into."""
    side, cell, bits = 9_500, 0.15, 32
    across = side / cell
    km = 1.609344
    # Paris, whose area the paper gives, in cells of our own grid of the whole earth.
    paris = ds.local.Grid(f"{cell * km:.4f} km", box=(48.84, 2.27, 48.88, 2.33))
    rows: Rows = [
        {"what": "identifiers of 32 bits", "cells": float(2**bits)},
        {"what": "cells of 0.15 miles in 9,500 miles square", "cells": across**2},
        {"what": "cells of New York City, 305 square miles", "cells": 305 / cell**2},
        {"what": "cells of Paris, 41 square miles", "cells": 41 / cell**2},
        {"what": "cells of a box around the Eiffel Tower", "cells": float(len(paris.labels) - 1)},
    ]
    return Result(
        rows,
        {"identifiers": float(2**bits), "area": float(side**2), "enough": "yes" if across**2 <= 2**bits else "no"},
        f"The Eiffel Tower lies in cell {paris.label(48.8584, 2.2945)} of the package's grid.",
    )


def draw_cells(rows: Rows) -> Any:
    """Numbers of cells on one line."""
    from ..pictures import dots, logarithmic, titled

    chart = dots(
        [row | {"of": "cells"} for row in rows], "what", "cells", "of", x_title="number of cells", x_scale=logarithmic(100, 1e10)
    )
    return titled(chart, "Places as identifiers", "32 bits are enough for the square that the paper names")
