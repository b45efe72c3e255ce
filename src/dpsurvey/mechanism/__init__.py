"""How sums are hidden: noise with a profile. Pure, given OpenDP's randomness."""

from __future__ import annotations

from ..privacy.account import Budget
from .base import Mechanism
from .gaussian import Gaussian
from .laplace import Laplace

MECHANISMS: dict[str, type[Mechanism]] = {mechanism.kind: mechanism for mechanism in (Laplace, Gaussian)}


def mechanism_for(budget: Budget) -> type[Mechanism]:
    """The mechanism that a budget pays for: Laplace without delta, Gaussian with it.

    >>> mechanism_for(Budget(1.0)).kind
    'laplace'
    """
    return Gaussian if budget.currency == "zcdp" else Laplace


__all__ = ["MECHANISMS", "Gaussian", "Laplace", "Mechanism", "mechanism_for"]
