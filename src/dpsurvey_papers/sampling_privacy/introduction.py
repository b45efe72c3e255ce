"""Section 1: what randomised response estimates and how well, and the wish that privacy grows with the population."""

from __future__ import annotations

import math
from typing import Any

import dpsurvey as ds

from ..item import Result, Rows, Run
from .parameters import YES, deviation, estimates, exposed, published, spread_of

FIRST, SECOND = 0.85, 0.3
TRUE, SMALL, LARGE = 100, 10_000, 1_000_000
# The share of "yes" in the footnote's example, and the ε at which δ is read.
SHARE, AT = 0.6, 0.5
FEW, SOME, MOST = 1, 5, 100


def two_coins(run: Run) -> Result:
    """The worked example, and the deviations for 100 of 10,000 and of one million."""
    mechanism = ds.local.two_coins(FIRST, SECOND)
    divisor, by_chance = 1.0 / float(mechanism.line(YES)[0]), float(mechanism.law(0)[YES])

    def noise(size: int) -> float:
        """The deviation of the number of "yes" that second tosses make, before dividing."""
        return math.sqrt(by_chance * (1.0 - by_chance) * size)

    rows: Rows = []
    for size in (1_000, SMALL, 100_000, LARGE, 10_000_000):
        found = {
            "the estimate": deviation(mechanism, TRUE, size - TRUE),
            "as printed: root of N(1 - π1)π2": math.sqrt((1.0 - FIRST) * SECOND * size),
            "noise in the count, before dividing": noise(size),
        }
        rows += [{"population": size, "what": what, "sd": sd} for what, sd in found.items()]
    simulated, error = spread_of(estimates(mechanism, TRUE, SMALL - TRUE, run.draws(1000, 100), run, 1))
    values: dict[str, Any] = {
        "divisor": f"{divisor:g}",
        "first toss": SHARE * divisor,
        "second toss": by_chance,
        "noise in ten thousand": noise(SMALL),
        "noise in a million": noise(LARGE),
        "deviation in ten thousand": deviation(mechanism, TRUE, SMALL - TRUE),
        "deviation in a million": deviation(mechanism, TRUE, LARGE - TRUE),
    }
    return Result(
        rows,
        values,
        f"Simulated with the clients' own code, 100 of 10,000: {simulated:.2f}, standard error {error:.2f}. The deviation "
        f"due to the noise is the root of N b(1 - b), b = (1 - π1)π2: {noise(SMALL):.2f} and {noise(LARGE):.1f}, so 21 agrees to "
        "its digits. What was printed is the root of N b, which is no standard deviation: it lies between that of the noise in "
        "the count and that of the estimate.",
    )


def draw_two_coins(rows: Rows) -> Any:
    """Three lines of slope one half."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "population",
        "sd",
        "what",
        x_title="respondents, 100 of whom answer yes",
        y_title="standard deviation",
        x_scale=logarithmic(),
        y_scale=logarithmic(5, 1_000),
        x_format="~s",
        points=True,
    )
    return titled(
        chart,
        "Randomised response with coins 0.85 and 0.3",
        "the estimate is noisier than printed by about a seventh, whatever the population",
    )


def growing_population(run: Run) -> Result:
    """Section 1: "as the population increases the privacy should strengthen". More people, none of them a further Yes."""
    paper, numbers = published(), (0, 5, 20, 60)

    def counts(yes: int, no: int) -> float:
        """δ of both counts for one Yes of so many that becomes a No."""
        return ds.local.leakage(paper, "counts", others=(no, yes - 1), answers=(YES, 0)).delta(AT)

    rows: Rows = []
    for yes in (FEW, SOME):
        for no in numbers:
            rows.append({"seen": f"both counts, {yes} Yes", "no": no, "delta": counts(yes, no)})
    rows += [{"seen": f"their difference alone, {SOME} Yes", "no": no, "delta": exposed(paper, SOME, AT)} for no in numbers]
    alone, some = ([row["delta"] for row in rows if row["seen"] == f"both counts, {yes} Yes"] for yes in (FEW, SOME))
    differences = ", ".join(f"{exposed(paper, yes, AT):.2g}" for yes in (5, 20, 50, 100))
    both = " and ".join(f"{counts(yes, MOST - yes):.2g}" for yes in (20, 50))
    return Result(
        rows,
        {
            "a single yes": "unchanged" if max(alone) - min(alone) < 1e-9 else "strengthens",
            "five yes": some[-1],
            "limit of five yes": exposed(paper, SOME, AT),
        },
        f"δ at ε = {AT:g} for one Yes that becomes a No. With five Yes δ of both counts is {some[0]:.4f} where nobody says No, "
        f"and {some[-1]:.4f} where {numbers[-1]} do; it cannot fall below that of their difference, which does not involve No. "
        f"What strengthens privacy is more Yes: with 5, 20, 50 and 100 of them δ of the difference alone is {differences}, "
        f"however many say No. δ of both counts, which show a little more, is {both} with 20 and 50 Yes among "
        f"{MOST} respondents.",
    )


def draw_growing(rows: Rows) -> Any:
    """δ by the number of those who say No."""
    import altair as alt

    from ..pictures import lines, titled

    chart = lines(
        rows,
        "no",
        "delta",
        "seen",
        x_title="respondents who answer No",
        y_title="δ at ε = 0.5",
        by_title="published",
        points=True,
        y_scale=alt.Scale(domain=[0, 0.5], nice=False),
    )
    return titled(
        chart,
        "More who say No do not hide a Yes",
        "one Yes is as exposed among 60 others as alone; with five, δ falls to that of the difference and no further",
    )
