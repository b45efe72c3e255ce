"""Sections 4.1 and 4.2: both rounds, their expected counts, and the estimators, from the clients' own code."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import dpsurvey as ds

from ..item import Result, Rows, Run
from .parameters import SAMPLED, YES, deviation, estimates, published, spread_of, steps

TRUE = 100
PLACES = 9


def pairs(mechanism: Any, answer: int) -> dict[tuple[int, ...], Fraction]:
    """What a respondent sends in round one and in round two: every run of the client, with its probability.

    >>> {pair: str(chance) for pair, chance in sorted(pairs(published(), YES).items())}
    {(0, 0): '11/40', (0, 1): '9/20', (1, 1): '11/40'}
    """
    return ds.local.every_outcome(lambda chance: tuple(mechanism.randomize(np.array([answer]), chance)[0].tolist()))


def expected(mechanism: Any, turn: int, output: int, answers: Sequence[int]) -> Fraction:
    """The expected count of an output in a round, `answers[v]` respondents with answer v.

    >>> str(expected(published(), 0, YES, (60, 40)))
    '55/2'
    """
    chances = [
        sum((p for pair, p in pairs(mechanism, answer).items() if pair[turn] == output), Fraction(0))
        for answer in range(len(answers))
    ]
    return sum((count * chance for count, chance in zip(answers, chances, strict=True)), Fraction(0))


def binary(run: Run) -> Result:
    """Equations 6 to 11."""
    paper = published()
    no, yes = 60, 40
    total, pi_0 = no + yes, paper.chances[0]
    rest = 1 - pi_0 - SAMPLED
    printed = {
        (0, 0): pi_0 * total + SAMPLED * total,
        (0, 1): rest * total,
        (1, 0): pi_0 * total + SAMPLED * no,
        (1, 1): rest * total + SAMPLED * yes,
    }
    counts = all(expected(paper, turn, output, (no, yes)) == value for (turn, output), value in printed.items())
    of_yes, of_no = (sum(step * chance for step, chance in steps(paper, answer).items()) for answer in (YES, 0))
    unbiased = of_yes == SAMPLED and of_no == 0
    rows: Rows = []
    numbers = (0, 1_000, 10_000, 40_000) if run.quick else (0, 1_000, 10_000, 100_000)
    far = 0.0
    for place, many in enumerate(numbers):
        run.progress("003-equations-6-11", place, len(numbers))
        for turn, (name, each) in enumerate((("both rounds, as published", paper), ("round two alone", paper.round_two()))):
            drawn = estimates(each, TRUE, many, run.draws(1000, 60), run, 10 * place + turn)
            simulated, error = spread_of(drawn)
            exact = deviation(each, TRUE, many)
            far = max(far, abs(float(drawn.mean()) - TRUE) / (exact / len(drawn) ** 0.5))
            rows.append({"published": name, "no": many, "sd": exact, "simulated": simulated, "error": error})
    for name, each in (("both rounds, as published", paper), ("round two alone", paper.round_two())):
        grid = (round(numbers[-1] * (step / 25) ** 2) for step in range(26))
        rows += [{"published": name, "no": many, "sd": deviation(each, TRUE, many)} for many in grid]
    constant = {deviation(paper, TRUE, many) for many in numbers}
    return Result(
        rows,
        {
            "expected counts": "hold" if counts else "fail",
            "estimator": "unbiased" if unbiased and far < 4.9 else "biased",
            "error as no grows": "constant" if len(constant) == 1 else "grows",
        },
        f"The estimate is Binomial(Y, π_s)/π_s: its variance is Y(1 - π_s)/π_s, here {deviation(paper, TRUE, 0) ** 2:.2f} for "
        "Y = 100, whatever the number of No. Round two alone, which is what the printed ε belongs to, is shown beside it.",
    )


def draw_binary(rows: Rows) -> Any:
    """Exact lines with simulated points."""
    from ..pictures import lines, titled
    from .marks import whiskers

    chart = lines(
        rows,
        "no",
        "sd",
        "published",
        x_title="respondents who answer No",
        y_title="standard deviation of the estimate of 100 Yes",
        x_format="~s",
    ) + whiskers([row for row in rows if "simulated" in row], "no", "simulated", "error", by="published")
    return titled(
        chart,
        "The error of Sampling Privacy does not grow with No",
        [
            "lines: exact; points: simulated with the clients' own code, two standard errors",
            "round two alone grows with the root",
        ],
    )


def multiple(run: Run) -> Result:
    """Equations 12 to 16: nine places, ten outputs."""
    paper = published(PLACES + 1)
    faces = ds.local.every_outcome(lambda chance: int(paper.throw(1, chance)[0]))
    answers = (0, *range(10, 10 * (PLACES + 1), 10))
    total = sum(answers)
    with_no = (50, *answers[1:])
    right = all(
        expected(paper, 1, v, with_no) - expected(paper, 0, v, with_no) == SAMPLED * with_no[v] for v in range(1, PLACES + 1)
    )
    zero = (
        expected(paper, 0, 0, answers) == paper.chances[0] * total + SAMPLED * sum(answers[1:])
        and expected(paper, 1, 0, answers) == paper.chances[0] * total
    )
    kept = expected(paper, 1, 0, with_no) == paper.chances[0] * sum(with_no)
    left = 1 - sum((faces[face] for face in faces if face != PLACES), Fraction(0))
    subtracted = 1 - sum(faces.values(), Fraction(0))
    rows = _estimated(paper, with_no, run)
    return Result(
        rows,
        {
            "outputs of nine places": float(paper.k),
            "outputs": f"V + {paper.k - PLACES}",
            "sides of the die": f"V + {len(faces) - PLACES}",
            "last face": "subtracts π_V"
            if faces[PLACES] == subtracted
            else "does not subtract π_V"
            if faces[PLACES] == left
            else "?",
            "estimator": "unbiased" if right else "biased",
            "expected counts": "hold" if zero else "fail",
        },
        "Equation 15 for output 0 supposes that nobody's answer is 0"
        + (": with some who answer 0, their sampled part stays there in round two." if not kept else "."),
    )


def _estimated(paper: Any, answers: Sequence[int], run: Run) -> Rows:
    """The true counts and the mean of simulated estimates, by place."""
    chance, draws = ds.local.SimulatedChance(run.rng(3)), run.draws(1000, 200)
    people = np.repeat(np.arange(len(answers)), answers)
    found = np.array([paper.mark_sums(paper.randomize(people, chance)) for _ in range(draws)]) / float(SAMPLED)
    return [
        {
            "place": v,
            "true": answers[v],
            "mean": float(found[:, v].mean()),
            "error": float(found[:, v].std(ddof=1)) / draws**0.5,
            "sd": deviation(paper, answers[v], sum(answers) - answers[v]),
        }
        for v in range(1, paper.k)
    ]


def draw_multiple(rows: Rows) -> Any:
    """True counts with the mean of the estimates."""
    from ..pictures import bars, titled
    from .marks import whiskers

    truth = [{"place": row["place"], "people": row["true"], "of": "true count"} for row in rows]
    chart = bars(truth, "place", "people", "of", x_title="place", y_title="respondents", size=(460, 280)) + whiskers(
        rows, "place", "mean", "error", kind="N"
    )
    return titled(
        chart, "Nine places, ten outputs, eleven faces", "bars: true counts; points: mean of the estimates, two standard errors"
    )
