"""Section 4.4, Appendix A and Figure 3: the loss of round two by itself, and that of randomised response."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import dpsurvey as ds

from ..item import Result, Rows, Run
from .estimators import pairs
from .parameters import COINS, SAMPLED, YES, published, randomised

ZERO = Fraction(3, 10)


def second_round(mechanism: Any, answer: int, output: int) -> Fraction:
    """The probability of an output in round two, from every run of the client.

    >>> str(second_round(published(), YES, YES))
    '29/40'
    """
    return sum((p for pair, p in pairs(mechanism, answer).items() if pair[1] == output), Fraction(0))


def one_output(chance: Fraction, sampled: Fraction = SAMPLED) -> float:
    """Equation 29 as printed: the loss of one output alone.

    >>> round(one_output(Fraction(11, 40)), 4)
    0.9694
    """
    return math.log((chance + sampled) / chance)


def round_two(run: Run) -> Result:
    """Equations 18 to 29: no leakage in round one, and the ratios of round two."""
    die = ds.local.sampling_privacy([ZERO, 1 - ZERO - SAMPLED], SAMPLED)
    first = [_first_round(die, answer) for answer in (0, YES)]
    ratio = second_round(die, YES, 0) / second_round(die, 0, 0)
    names = {(ZERO + SAMPLED) / ZERO: "(π0 + π_s)/π0", ZERO / (ZERO + SAMPLED): "π0/(π0 + π_s)"}
    rows: Rows = []
    for twentieths in range(1, 11):
        pi_0 = Fraction(twentieths, 20)
        each = ds.local.sampling_privacy([pi_0, 1 - pi_0 - SAMPLED], SAMPLED)
        rows += [
            {"pi_0": float(pi_0), "what": "Equation 21, output 0", "epsilon": one_output(pi_0)},
            {"pi_0": float(pi_0), "what": "Equation 25, output 1", "epsilon": one_output(1 - pi_0 - SAMPLED)},
            {"pi_0": float(pi_0), "what": "round two, enumerated", "epsilon": ds.local.leakage(each, "report").pure_epsilon},
        ]
    many = ds.local.sampling_privacy([Fraction(1, 20), Fraction(1, 10), Fraction(3, 20), Fraction(1, 4)], SAMPLED)
    whole = ds.local.leakage(many, "report").pure_epsilon
    holds = [v for v, chance in enumerate(many.chances) if math.isclose(one_output(chance), whole, rel_tol=1e-9)]
    rarest = [v for v, chance in enumerate(many.chances) if chance == min(many.chances)]
    return Result(
        rows,
        {
            "round one": "no leakage" if first[0] == first[1] else "leakage",
            "Equation 19": names.get(ratio, "neither"),
            "Equation 29": "any output" if len(holds) == many.k else "the rarest output" if holds == rarest else "neither",
        },
        "All of this is about round two seen alone. Its loss is the largest over outputs, "
        f"max log(1 + π_s/π_v), which the package gives: {many.printed_epsilon:.4f} for chances 0.05, 0.1, 0.15 and 0.25.",
    )


def _first_round(mechanism: Any, answer: int) -> dict[int, Fraction]:
    law: dict[int, Fraction] = {}
    for pair, chance in pairs(mechanism, answer).items():
        law[pair[0]] = law.get(pair[0], Fraction(0)) + chance
    return law


def draw_round_two(rows: Rows) -> Any:
    """Two printed equations, and the larger of both."""
    from ..pictures import lines, titled

    chart = lines(rows, "pi_0", "epsilon", "what", x_title="π0, with π_s = 0.45", y_title="ε of round two alone", points=True)
    return titled(chart, "Each equation is one output; the loss is the larger one", "binary mechanism, round one unseen")


def equation_30(first: float, second: float) -> float:
    """Equation 30 as printed: the answer "yes" alone.

    >>> round(equation_30(0.8, 0.9), 3)
    1.695
    """
    return math.log1p(first / ((1.0 - first) * second))


def appendix(run: Run) -> Result:
    """Appendix A: the loss of randomised response by its second coin."""
    first, rows = COINS[0], []
    grid = [Fraction(step, 40) for step in range(2, 39)]
    right = []
    for second in grid:
        exact, printed = ds.local.two_coins(first, second).epsilon, equation_30(first, float(second))
        rows += [
            {"pi_2": float(second), "what": "exact, both answers", "epsilon": exact},
            {"pi_2": float(second), "what": "Equation 30, the answer Yes", "epsilon": printed},
        ]
        right += [second] if math.isclose(exact, printed, rel_tol=1e-9) else []
    word = "every π2" if right == grid else "π2 up to 1/2" if right == [each for each in grid if 2 * each <= 1] else "neither"
    own = ds.local.two_coins(*COINS).epsilon
    return Result(
        rows,
        {
            "where it holds": word,
            "the evaluation's coins": "as printed" if math.isclose(own, equation_30(*COINS), rel_tol=1e-9) else "larger",
        },
        f"At the evaluation's coins, 0.8 and 0.2, both are {own:.4f}. At 0.8 and 0.9 it is {equation_30(first, 0.9):.3f} as "
        f"printed and {ds.local.two_coins(first, 0.9).epsilon:.3f} in truth.",
    )


def draw_appendix(rows: Rows) -> Any:
    """The printed curve falls on; the exact one turns at one half."""
    from ..pictures import lines, titled

    chart = lines(rows, "pi_2", "epsilon", "what", x_title="π2, second coin; π1 = 0.8", y_title="ε of one report")
    return titled(chart, "Equation 30 forgets the answer No", "above one half the second coin gives the truth of a No away")


def leakage_curves(run: Run) -> Result:
    """Figure 3: Equation 29 and Equation 30 by their coin, beside the largest over outputs and what is released."""
    rows: Rows = []
    grid = [Fraction(step, 40) for step in range(1, 22)]
    for chance in grid:
        whole = ds.local.round_two([chance, 1 - SAMPLED - chance], SAMPLED).epsilon
        rows += [
            {"x": float(chance), "what": "Sampling Privacy, Equation 29", "epsilon": one_output(chance)},
            {"x": float(chance), "what": "round two, the larger of two outputs", "epsilon": whole},
        ]
    for second in [Fraction(step, 40) for step in range(1, 40)]:
        loss = ds.local.two_coins(COINS[0], second).epsilon
        rows.append({"x": float(second), "what": "randomised response, both answers", "epsilon": loss})
    falls = [one_output(chance) for chance in grid]
    coins = {second: ds.local.two_coins(COINS[0], second).epsilon for second in (Fraction(step, 40) for step in range(2, 39))}
    least = min(coins, key=lambda second: coins[second])
    turned = "falls" if least == max(coins) else f"falls up to {least}, then rises"
    released = ds.local.leakage(published(), "counts", 4)
    return Result(
        rows,
        {
            "by the chance of the output": "falls" if falls == sorted(falls, reverse=True) else "rises",
            "by the second coin": turned,
            "what is released": "finite" if math.isfinite(released.pure_epsilon) else "no ε",
        },
        f"The circle of randomised response, coins 0.8 and 0.2, lies at {randomised().epsilon:.4f}. That of Sampling Privacy is "
        f"not told: with equal chances the largest over outputs is {published(10).printed_epsilon:.3f} for nine places and "
        f"{published(12).printed_epsilon:.3f} for eleven groups.",
    )


def draw_curves(rows: Rows) -> Any:
    """Losses by coin; what is released has none and is off the scale."""
    import altair as alt

    from ..pictures import lines, titled

    shown = [row for row in rows if row["epsilon"] <= 4.0]
    chart = lines(
        shown,
        "x",
        "epsilon",
        "what",
        x_title="π_v of the output, or π2 of the second coin",
        y_title="ε",
        y_scale=alt.Scale(domain=[0, 4.4], nice=False),
        rules=[(4.2, "what is released, both rounds: no ε")],
    )
    return titled(
        chart,
        "Leakage as in Figure 3, and what it leaves out",
        ["Equation 29 falls as π_v grows, while the other output leaks more", "π_s = 0.45, first coin 0.8"],
    )
