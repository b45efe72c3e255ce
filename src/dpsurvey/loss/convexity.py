"""Advanced joint convexity: the step from conditional to unconditional losses that every amplification rests on."""

from __future__ import annotations

from ..errors import BadValue
from ..privacy.rounding import log_mixture, up


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
    return up(epsilon + log_mixture((q, extra)))
