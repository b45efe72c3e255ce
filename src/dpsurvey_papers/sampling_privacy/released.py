"""Sections 4.3 and 6: what is released has no ε; what it costs to have one, with constant error or without."""

from __future__ import annotations

import math
from typing import Any

import dpsurvey as ds

from ..item import Result, Rows, Run
from .parameters import COINS, SAMPLED, deviation, published, randomised

FAR = 5.0
TRUE, ASKED = 100, 10_000
GRID = [step / 20 for step in range(121)]
LINKED = "both rounds of one respondent"
ALONE = "round two alone"
INK = "#2b2d33"


def satisfies(run: Run) -> Result:
    """Section 4.3: what each view leaks, enumerated from the clients' own code."""
    paper = published()
    views = {
        LINKED: ds.local.leakage(paper, "linked"),
        "the counts of both rounds": ds.local.leakage(paper, "counts", 4 if run.quick else 8),
        "the counts of round two alone": ds.local.leakage(paper, "round two", 4 if run.quick else 8),
    }
    rows: Rows = [{"seen": name, "epsilon": at, "delta": seen.delta(at)} for name, seen in views.items() for at in GRID]
    linked, counts, alone = views.values()
    chance = ds.local.SimulatedChance(run.rng(4))
    audited = ds.local.audit(paper, others=(99, 0), runs=run.draws(10_000, 1_000), chance=chance)
    same = math.isclose(alone.pure_epsilon, paper.printed_epsilon, rel_tol=1e-9)
    return Result(
        rows,
        {
            "linked": "yes" if math.isfinite(linked.pure_epsilon) else "no",
            "counts": "yes" if math.isfinite(counts.pure_epsilon) else "no",
            "delta of the counts": f"{counts.delta(FAR):.4g}",
            "round two alone": "yes" if same else "no",
            "delta at the printed ε": counts.delta(paper.printed_epsilon),
            "error of round two alone": deviation(paper.round_two(), TRUE, ASKED - TRUE),
            "error of both rounds": deviation(paper, TRUE, ASKED - TRUE),
        },
        f"π_0 = 0.275, π_s = 0.45: the printed ε is {paper.printed_epsilon:.4f}, that of round two alone, where the estimate has "
        f"a standard deviation of {deviation(paper.round_two(), TRUE, ASKED - TRUE):.0f} for {TRUE} Yes among {ASKED:,}, not "
        f"{deviation(paper, TRUE, ASKED - TRUE):.0f}. Over all data sets both counts are exactly (log((π_0 + π_s)/π_0), π_s)-"
        "private: δ is π_s at the printed ε, and at every other one, since one Yes among No is enough. "
        f"{audited.runs:,} simulated releases of 100 respondents prove ε ≥ {audited.epsilon:.2f} at 95 % "
        "confidence.",
    )


def draw_satisfies(rows: Rows) -> Any:
    """δ by ε for each view."""
    from ..pictures import lines, scatter, titled

    linked = [row for row in rows if row["seen"] == LINKED]
    chart = lines(
        [row for row in rows if row["seen"] != LINKED], "epsilon", "delta", "seen", x_title="ε", y_title="δ", by_title="published"
    ) + scatter(linked[::8], "epsilon", "delta", colour=INK)
    return titled(
        chart,
        "Published counts of two rounds have no ε",
        [
            "δ stays at π_s = 0.45, for the counts and for one respondent's linked rounds (points)",
            "only round two alone keeps the printed ε",
        ],
    )


def conclusion(run: Run) -> Result:
    """Section 6: constant error and an ε at once, and "as much as four times lower" leakage."""
    paper = published()
    printed = paper.printed_epsilon
    safe = ds.local.guarded(list(paper.chances), paper.pi_s, printed)
    extra = safe.sum_variance() / float(paper.pi_s) ** 2
    plain = ds.local.generalised(2, printed)
    rows: Rows = []
    for respondents in (100, 1_000, 10_000, 100_000, 1_000_000):
        no = respondents - TRUE
        found = {
            "Sampling Privacy, no ε": deviation(paper, TRUE, no),
            "guarded difference": math.hypot(deviation(paper, TRUE, no), math.sqrt(extra)),
            ALONE: deviation(paper.round_two(), TRUE, no),
            "randomised response": deviation(plain, TRUE, no),
        }
        rows += [{"respondents": respondents, "published": name, "sd": sd} for name, sd in found.items()]
    keeps = ds.local.leakage(safe, "published", 2).pure_epsilon <= printed * (1.0 + 1e-9)
    constant = deviation(safe, TRUE, 0) == deviation(safe, TRUE, 10**6)
    by_sampling = math.isfinite(ds.local.leakage(paper, "counts", 2).pure_epsilon)
    word = "by sampling alone" if by_sampling else "with noise on the difference" if keeps and constant else "not at once"
    # Equation 29 is least where one output has all that is left; the loss of round two is least for two equal outputs.
    ratios = [
        randomised().epsilon
        / ds.local.round_two([step / 200 * (1 - SAMPLED), (200 - step) / 200 * (1 - SAMPLED)], SAMPLED).epsilon
        for step in range(1, 200)
    ]
    linked = ds.local.leakage(paper, "linked").pure_epsilon
    return Result(
        rows,
        {
            "constant error and an ε": word,
            "times lower, round two": max(ratios),
            "times lower, as released": f"{randomised().epsilon / linked:.3g}" if math.isfinite(linked) else "no ε",
        },
        f"All but the first keep ε = {printed:.4f}, the printed one. The guarded difference has two aggregators. Four times "
        f"lower is Equation 29 at an output with π_v = {_chance_at(4):.3f}, beside coins {COINS[0]:g} and {COINS[1]:g}; "
        "the other output of such a die leaks more.",
    )


def _chance_at(times: float) -> float:
    """The chance of the output at which Equation 29 is so many times below the loss of randomised response."""
    return float(SAMPLED) / math.expm1(randomised().epsilon / times)


def draw_conclusion(rows: Rows) -> Any:
    """Standard deviations by the number of respondents."""
    from ..pictures import lines, logarithmic, scatter, titled

    chart = lines(
        [row for row in rows if row["published"] != ALONE],
        "respondents",
        "sd",
        "published",
        x_title="respondents, 100 of whom answer yes",
        y_title="standard deviation of the estimate",
        x_scale=logarithmic(100, 1_000_000),
        y_scale=logarithmic(5, 1_000),
        x_format="~s",
    ) + scatter([row for row in rows if row["published"] == ALONE], "respondents", "sd", colour=INK)
    return titled(
        chart,
        "What an ε costs",
        [
            "all but Sampling Privacy itself keep ε = 0.9694; points: round two alone",
            "noise on the difference keeps the error constant, and next to that of Sampling Privacy",
        ],
    )
