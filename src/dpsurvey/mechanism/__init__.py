"""How sums are hidden: noise with a profile. Pure, given OpenDP's randomness."""

from __future__ import annotations

from ..privacy.account import Budget
from .base import Mechanism
from .gaussian import Gaussian
from .laplace import Laplace
from .many_sensitivities import smooth_sensitivities
from .order_statistic import Place, global_sensitivity, local_sensitivities, padded_window, smooth_sensitivity
from .smooth import SmoothLaplace, smooth_delta
from .smooth import calibrated as smooth_calibrated
from .smooth import printed as smooth_printed

MECHANISMS: dict[str, type[Mechanism]] = {mechanism.kind: mechanism for mechanism in (Laplace, Gaussian)}


def mechanism_for(budget: Budget) -> type[Mechanism]:
    """The mechanism that a budget pays for: Laplace without delta, Gaussian with it.

    >>> mechanism_for(Budget(1.0)).kind
    'laplace'
    """
    return Gaussian if budget.measure == "zcdp" else Laplace


__all__ = [
    "MECHANISMS",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "Place",
    "SmoothLaplace",
    "global_sensitivity",
    "local_sensitivities",
    "mechanism_for",
    "padded_window",
    "smooth_calibrated",
    "smooth_delta",
    "smooth_printed",
    "smooth_sensitivities",
    "smooth_sensitivity",
]
