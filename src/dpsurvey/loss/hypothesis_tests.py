"""Lower bounds on the loss from hypothesis tests: what a test that works says about any mechanism on the sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import BadValue


def advantage(epsilon: float) -> float:
    """The largest advantage of any test against an epsilon-private mechanism: tanh(epsilon/2), not e^epsilon - 1.

    >>> round(advantage(1.0), 10)
    0.4621171573
    """
    return math.tanh(epsilon / 2.0)


def loss_from_advantage(found: float) -> float:
    """The least epsilon' under which a test can have this advantage: 2 artanh(advantage).

    >>> round(loss_from_advantage(advantage(1.0)), 10)
    1.0
    """
    if not 0.0 <= found < 1.0:
        raise BadValue("an advantage is in [0, 1)", given=f"{found}")
    return 2.0 * math.atanh(found)


def size_advantage(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], epsilon: float) -> float | None:
    """The best advantage of an epsilon-private test that sees the sample's size alone (Proposition 4.1); None if they span
    more than 400. A test is a chance h(m) of guessing the first law, with h and 1 - h within e^epsilon per unit of size.

    >>> round(size_advantage(np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1.0), 6) == round(advantage(1.0), 6)
    True
    """
    from scipy.optimize import linprog

    length = max(len(first), len(second))
    gain = np.zeros(length)
    gain[: len(first)] += first
    gain[: len(second)] -= second
    used = np.nonzero(gain)[0]
    if not len(used):
        return 0.0
    if used[-1] - used[0] > 400:
        return None
    gain = gain[used[0] : used[-1] + 1]
    here, factor = np.arange(len(gain) - 1), math.exp(min(epsilon, 60.0))
    rows, limits = np.zeros((4 * len(here), len(gain))), np.zeros(4 * len(here))
    for block, (one, two) in enumerate(((here, here + 1), (here + 1, here))):
        at = 2 * block * len(here) + np.arange(len(here))
        rows[at, one], rows[at, two] = 1.0, -factor
        at = at + len(here)
        rows[at, one], rows[at, two], limits[at] = -1.0, factor, factor - 1.0
    found = linprog(-gain, A_ub=rows, b_ub=limits, bounds=(0.0, 1.0), method="highs") if len(here) else None
    return max(0.0, float(-found.fun)) if found is not None and found.status == 0 else 0.0


@dataclass(frozen=True)
class RedFlag:
    """One of the three ways in which a sample fails to hide anybody, with its number."""

    name: str
    number: float
    raised: bool
    says: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; an infinite number is null."""
        number = self.number if math.isfinite(self.number) else None
        return {"name": self.name, "number": number, "raised": self.raised, "says": self.says}


def red_flags(inclusion: float, factor: float, steps: float, epsilon: float) -> tuple[RedFlag, ...]:
    """The three red flags of Proposition 6.1, from the largest inclusion probability, the factor by which a record may

    change one, and the number of records by which samples with and without a unit differ.

    >>> [flag.raised for flag in red_flags(0.1, 1.0, 20.0, 1.0)]
    [False, False, True]
    """
    # A mechanism can tell samples with the unit from those without at odds e^(steps epsilon), against the prior odds.
    odds = steps * epsilon - math.log((1.0 - inclusion) / inclusion) if 0.0 < inclusion < 1.0 else math.inf * (inclusion - 0.5)
    return (
        RedFlag(
            "inclusion is likely",
            inclusion,
            inclusion > 0.5,
            f"the largest inclusion probability is {inclusion:.4g}; at 1 nothing is amplified",
        ),
        RedFlag(
            "inclusion depends on data",
            factor,
            factor > 1.0,
            f"a record may change an inclusion probability by a factor {factor:.4g}; above 1 the loss may exceed epsilon",
        ),
        RedFlag(
            "inclusion can be detected",
            steps,
            odds > 0.0 and steps > 1.0,
            f"samples with and without a unit may differ by {steps:.4g} records, which a mechanism can see",
        ),
    )
