"""The list of mechanisms that add noise to sums: each enters it where it is defined."""

from __future__ import annotations

from typing import TypeVar

from ..errors import BadValue
from ..privacy.budget import Budget
from .base import Mechanism

Kind = TypeVar("Kind", bound=type[Mechanism])
MECHANISMS: dict[str, type[Mechanism]] = {}


def register(mechanism: Kind) -> Kind:
    """Enter a mechanism in the list under its `kind`; from then on plans, survey files and saved releases know it.

    >>> from dpsurvey.mechanism import Laplace
    >>> MECHANISMS["laplace"] is Laplace
    True
    """
    if MECHANISMS.get(mechanism.kind, mechanism) is not mechanism:
        raise BadValue(f"there is a mechanism called {mechanism.kind!r} already")
    MECHANISMS[mechanism.kind] = mechanism
    return mechanism


def mechanism_for(budget: Budget) -> type[Mechanism]:
    """The mechanism that a budget pays for: the first whose charges are counted as the budget is.

    >>> mechanism_for(Budget(1.0)).kind, mechanism_for(Budget(1.0, 1e-6)).kind
    ('laplace', 'gaussian')
    """
    return next(mechanism for mechanism in MECHANISMS.values() if mechanism.measure is budget.measure)
