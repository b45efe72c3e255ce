"""How far a guarantee lets a belief move: posterior over prior, with the prior in the sharp bounds."""

from __future__ import annotations

import math

from ..errors import BadValue


def posterior_bounds(prior: float, epsilon: float) -> tuple[float, float]:
    """The least and the largest ratio of posterior to prior for a statement held with probability `prior`.

    1/(prior + (1-prior) e^epsilon) and 1/(prior + (1-prior) e^-epsilon): e^-epsilon and e^epsilon are approached only
    as the prior goes to 0 (Bailie and Drechsler, Equation 5.1, sharpened).

    >>> [round(each, 10) for each in posterior_bounds(0.5, 1.0)]
    [0.5378828427, 1.4621171573]
    """
    if not 0.0 < prior < 1.0:
        raise BadValue("a prior must be in (0, 1)", given=f"prior={prior}")
    if not epsilon >= 0.0:
        raise BadValue("epsilon must be at least 0", given=f"epsilon={epsilon}")
    low = math.exp(-epsilon) / (prior * math.exp(-epsilon) + 1.0 - prior)
    return low, 1.0 / (prior + (1.0 - prior) * math.exp(-epsilon))
