"""Section 5.1: posterior over posterior for an outsider, the nosy neighbour and the journalist, by enumeration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import dpsurvey as ds
from dpsurvey.privacy import posterior_bounds

from ..item import Result, Rows, Run
from ..specifications import law_of_samples, multiplicative_distance, noisy_count, posterior_ratios, sampled
from .framework import yes

EPSILON = 1.0
PRIORS = tuple(float(each) for each in np.geomspace(1e-7, 0.9, 29))
OUTSIDER, NEIGHBOUR, JOURNALIST = "outsider", "nosy neighbour", "journalist"


def design(n: int, size: int) -> dict[tuple[int, ...], float]:
    """Simple random sampling of places."""
    return dict.fromkeys(itertools.combinations(range(size), n), 1.0 / math.comb(size, n))


def ratios(who: str, prior: float, n: int = 1, size: int = 2, epsilon: float = EPSILON) -> dict[tuple[Any, Any], float]:
    """All ratios for an attacker who is sure that all others are 0 and believes with `prior` that the target is 1."""
    rest = (0,) * (size - 1)
    frames = {(1, *rest): prior, (0, *rest): 1.0 - prior}
    return _ratios(who, frames, n, size, epsilon)


def _ratios(who: str, frames: dict[Any, float], n: int, size: int, epsilon: float) -> dict[tuple[Any, Any], float]:
    mechanism, drawn = noisy_count(n, epsilon), design(n, size)
    if who == JOURNALIST:
        return posterior_ratios(law_of_samples(frames, drawn), mechanism, 0)
    seen = sampled(mechanism, drawn, frames, knows=0 if who == NEIGHBOUR else None)
    return posterior_ratios(frames, seen, 0)


def outside(n: int = 1, size: int = 2, epsilon: float = EPSILON) -> float:
    """The loss that the frame-level guarantee states."""
    return ds.amplify(ds.srs(n=n, size=size), epsilon, base="replace-one", neighbours="replace-one").epsilon or 0.0


def equation_5_1(run: Run) -> Result:
    """Equation 5.1 for random priors, also with records that depend on each other; and its sharp limits."""
    rng, trials, within = run.rng(1), run.draws(1000, 30), True
    rows: Rows = []
    for n, size in ((1, 2), (1, 3), (2, 3), (2, 4)):
        limit = outside(n, size)
        reached = 0.0
        for _ in range(trials):
            chances = rng.dirichlet(np.full(2**size, 0.3))
            frames = dict(zip(itertools.product((0, 1), repeat=size), (chances / chances.sum()).tolist(), strict=True))
            found = [abs(math.log(each)) for each in _ratios(OUTSIDER, frames, n, size, EPSILON).values()]
            reached = max(reached, *found)
        sharp = max(math.log(each) for each in ratios(OUTSIDER, PRIORS[0], n, size).values())
        within = within and reached <= limit + 1e-9 and abs(sharp - limit) < 1e-6
        rows.append({"n": n, "N": size, "limit": limit, "random priors": reached, "prior towards 0": sharp})
    for size, name in ((1, "every unit (rate 1)"), (2, "1 of 2"), (4, "1 of 4")):
        rows += [
            {
                "prior": prior,
                "who": name,
                "ratio": ratios(OUTSIDER, prior, 1, size)[1, 1],
                "sharp": posterior_bounds(prior, outside(1, size))[1],
            }
            for prior in PRIORS
        ]
    sharp_met = all(abs(row["ratio"] - row["sharp"]) < 1e-9 for row in rows if "prior" in row)
    return Result(
        rows,
        {"within": yes(within)},
        f"{trials} random priors for each n and N, records dependent or not. With prior mass π on r the ratio lies within "
        "1/(π + (1 - π)e^ε) and 1/(π + (1 - π)e^-ε), "
        + ("which the enumeration meets; " if sharp_met else "")
        + "e^±ε is approached as π goes to 0.",
    )


def draw_equation(rows: Rows) -> Any:
    """Ratio by prior: enumerated dots on the sharp limit, below the printed one."""
    return _by_prior(
        [row for row in rows if row.get("who")],
        "Equation 5.1: how far a belief can move",
        "ε = 1 on the sample, an outsider; the dashed line is approached where everybody is in it",
    )


def nosy_neighbour(run: Run) -> Result:
    """Section 5.1.3: the attacker knows that the target is in the sample."""
    return _attacker(NEIGHBOUR, "The neighbour knows that the unit is in the sample, nothing else about the draw.")


def journalist(run: Run) -> Result:
    """Section 5.1.4: the attacker asks about a record of the sample, whoever it is."""
    return _attacker(JOURNALIST, "The journalist asks about the first record of the sample, whoever that is.")


def _attacker(who: str, words: str) -> Result:
    rows: Rows = []
    for each, prior in itertools.product((OUTSIDER, who), PRIORS):
        found, loss = ratios(each, prior), outside() if each == OUTSIDER else EPSILON
        # The journalist's prior is that of a record of the sample, which is the target or another.
        held = prior if each != JOURNALIST else law_of_samples({(1, 0): prior, (0, 0): 1.0 - prior}, design(1, 2))[(1,)]
        low, high = posterior_bounds(held, loss)
        rows.append({"who": each, "prior": held, "ratio": found[1, 1], "sharp": high, "least": found[1, 0], "sharp least": low})
    own = [row for row in rows if row["who"] == who]
    outsiders = [row for row in rows if row["who"] == OUTSIDER]
    optimal = noisy_count(1, EPSILON)
    ratio = math.exp(multiplicative_distance(optimal[(0,)], optimal[(1,)]))
    met = all(abs(row["ratio"] - row["sharp"]) < 1e-9 and abs(row["least"] - row["sharp least"]) < 1e-9 for row in own)
    return Result(
        rows,
        {
            "outsider": yes(abs(math.log(outsiders[0]["ratio"]) - outside()) < 1e-6),
            "limit": math.log(own[0]["ratio"]),
            "lower limit": math.log(own[0]["least"]),
            "achieved": yes(any(row["ratio"] >= math.exp(EPSILON) * (1.0 - 1e-12) for row in own)),
            **({"optimal": ratio} if who == NEIGHBOUR else {}),
        },
        f"{words} A sample of 1 of 2, randomised response with ε = 1: an outsider's belief moves by a factor of at most "
        f"e^{outside():.4f}, this attacker's by up to e^{math.log(own[0]['ratio']):.4f} as the prior goes to 0"
        + (", and for every prior by 1/(π + (1 - π)e^-ε) exactly." if met else "."),
    )


def draw_attacker(who: str, where: str) -> Any:
    """A picture of the ratio by prior for the outsider and one attacker."""

    def draw(rows: Rows) -> Any:
        return _by_prior(
            rows,
            f"{where}: the {who} and an outsider",
            "sample of 1 of 2, ε = 1 on the sample; the dashed line is approached, not reached",
        )

    return draw


def _by_prior(rows: Rows, title: str, subtitle: str) -> Any:
    import altair as alt

    from ..pictures import colours, distinct, lines, titled

    chart = lines(
        rows,
        "prior",
        "sharp",
        "who",
        x_title="prior belief π (log scale)",
        y_title="posterior over posterior",
        x_scale=alt.Scale(type="log"),
        x_format="~e",
        rules=[(math.exp(EPSILON), "e^ε, as printed")],
    )
    dots = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=32, opacity=1)
        .encode(
            x=alt.X("prior:Q", scale=alt.Scale(type="log")),
            y=alt.Y("ratio:Q", scale=alt.Scale(zero=False)),
            color=colours("who", distinct(rows, "who")),
        )
    )
    return titled(chart + dots, title, [subtitle, "lines: 1/(π + (1 - π)e^-loss); dots: enumerated"])
