"""Appendix A: three facts about indistinguishable laws that all proofs of the paper rest on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import dpsurvey as ds
from dpsurvey.errors import BadValue

from ..item import Result, Rows, Run
from .asking import at_most, loss, same, tally
from .printed import sampled

Law = npt.NDArray[np.float64]


def advanced_joint_convexity(q: float, epsilon: float, extra: float) -> float:
    """epsilon + log(1 + q(e^extra - 1)): the loss between X = (1-q)X0 + qX1 and Y = (1-q)Y0 + qY1.

    Holds when X0 and Y0 are epsilon-indistinguishable and X1 and Y1, X1 and Y0, X0 and Y1 are
    (epsilon + extra)-indistinguishable (Bun et al. 2022, Lemma A.4; Balle, Barthe and Gaboardi 2018).

    >>> round(advanced_joint_convexity(0.1, 0.0, 1.0), 10)
    0.1585650787
    """
    if not 0.0 <= q <= 1.0:
        raise BadValue("q must be in [0, 1]", given=f"q={q}")
    if not (epsilon >= 0.0 and extra >= 0.0):
        raise BadValue("losses must not be negative", given=f"epsilon={epsilon}, extra={extra}")
    # A bound is rounded up, by more than the sum and the logarithm may have lost.
    return (epsilon + sampled(q, extra)) * (1.0 + 2.0**-50)


def apart(one: Law, other: Law) -> float:
    """The least epsilon under which two laws on the same points are indistinguishable."""
    return float(np.max(np.abs(np.log(one) - np.log(other))))


def facts(run: Run) -> Result:
    """Lemmas A.2, A.3 and A.4 on random laws; A.4 also where it is attained."""
    rng, cases = run.rng(1), run.draws(3000, 300)
    rows: Rows = []
    triangle: list[bool] = []
    coupled: list[bool] = []
    for _ in range(cases):
        x, y, z = (rng.dirichlet(np.full(4, 2.0)) for _ in range(3))
        triangle.append(at_most(apart(x, z), apart(x, y) + apart(y, z)))
        coupled.append(_coupled(rng))
        x_0, x_1, y_0, y_1 = (rng.dirichlet(np.full(4, 3.0)) for _ in range(4))
        q = float(rng.uniform(0.05, 0.95))
        near = apart(x_0, y_0)
        far = max(near, apart(x_1, y_1), apart(x_1, y_0), apart(x_0, y_1))
        bound = advanced_joint_convexity(q, near, far - near)
        rows.append({"q": q, "bound": bound, "loss": apart((1 - q) * x_0 + q * x_1, (1 - q) * y_0 + q * y_1)})
    tight = [
        same(advanced_joint_convexity(n / 10, 0.0, e), _attained(n / 10, e))
        and same(advanced_joint_convexity(n / 10, 0.0, e), loss(ds.srs(n=n, size=10), e, "replace-one", "replace-one"))
        for n in range(1, 10)
        for e in (0.1, 1.0, 2.0)
    ]
    return Result(
        rows,
        {
            "A.2": tally(triangle),
            "A.3": tally(coupled),
            "A.4": tally(at_most(row["loss"], row["bound"]) for row in rows),
            "A.4 attained": tally(tight),
        },
        "Advanced joint convexity is attained by randomised response on a simple random sample.",
    )


def _attained(q: float, epsilon: float) -> float:
    """Randomised response that tells whether the record is in the sample: X0 = Y0 = Y1."""
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    no, yes = np.array([truth, 1.0 - truth]), np.array([1.0 - truth, truth])
    return apart((1.0 - q) * no + q * yes, no)


def _coupled(rng: Any) -> bool:
    """Two random laws on the sizes 0 to 6, coupled by quantiles, and a geometric mechanism on the size."""
    epsilon, sizes = float(rng.uniform(0.1, 1.5)), np.arange(7)
    one, two = rng.dirichlet(np.full(7, 0.5)), rng.dirichlet(np.full(7, 0.5))
    answers = np.exp(-epsilon * np.abs(np.arange(-20, 27)[None, :] - sizes[:, None]))
    cuts = np.unique(np.concatenate((np.cumsum(one), np.cumsum(two))))
    middles = (np.concatenate(([0.0], cuts[:-1])) + cuts) / 2.0
    low, high = (np.minimum(np.searchsorted(np.cumsum(law), middles), 6) for law in (one, two))
    distance = int(np.max(np.abs(low - high)))
    return at_most(apart(one @ answers, two @ answers), distance * epsilon)


def draw_facts(rows: Rows) -> Any:
    """The loss of random mixtures against the bound of Lemma A.4."""
    from ..pictures import lines, scatter, titled

    drawn = rows[:300]
    top = max(row["bound"] for row in drawn)
    ends = [{"bound": at, "loss": at, "what": "bound"} for at in (0.0, top)]
    diagonal = lines(ends, "bound", "loss", "what", x_title="bound of Lemma A.4", y_title="loss of the mixtures", size=(420, 340))
    chart = diagonal + scatter(drawn, "bound", "loss")
    return titled(chart, "Advanced joint convexity on random laws", "points: random mixtures, none above the diagonal")
