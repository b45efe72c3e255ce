"""Budgets: what may be spent on the protected data, the most of it on a sample, and shares of that."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import BadValue
from .curve import Approximate, Gaussian, ZeroConcentrated
from .measure import Measure, counted
from .profile import PrivacyProfile
from .relation import Relation

Amplifier = Callable[[PrivacyProfile], PrivacyProfile]


@dataclass(frozen=True)
class Budget:
    """The total loss that may be spent on the protected data; delta 0 asks for pure privacy.

    >>> Budget(epsilon=1.0)
    Budget(epsilon=1.0, delta=0.0)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        for name, each in (("epsilon", self.epsilon), ("delta", self.delta)):
            if isinstance(each, bool) or not isinstance(each, int | float):
                hint = f"{name}={each}, without quotes" if isinstance(each, str) else "float(...) makes one of other numbers"
                raise BadValue(f"{name} must be a number", given=f"{name}={each!r}", hint=hint)
        if not (self.epsilon > 0.0 and math.isfinite(self.epsilon)):
            raise BadValue("a budget needs a positive, finite epsilon", given=f"epsilon={self.epsilon}")
        if not 0.0 <= self.delta < 1.0:
            raise BadValue("delta must be in [0, 1)", given=f"delta={self.delta}")

    @property
    def measure(self) -> Measure:
        """What charges are counted in: pure epsilon without delta, rho with it. Both have proved filters."""
        return Measure.RHO if self.delta > 0.0 else Measure.EPSILON


def amount_in(charge: PrivacyProfile, measure: Measure) -> float:
    """The amount of a charge that must be counted in one measure: an amount in another one would be another loss.

    >>> amount_in(PrivacyProfile.zcdp(0.5, "both"), Measure.RHO)
    0.5
    """
    own, _ = counted(charge)
    if own is not measure:
        raise BadValue(f"this mechanism is charged in {measure}", given=f"a charge in {own}", hint=f'noise="{own.noise}"')
    return amount(charge)


def amount(profile: PrivacyProfile) -> float:
    """How large a charge's profile is in its accounting measure: rho for zCDP, mu squared for Gaussian, epsilon for pure.

    >>> amount(PrivacyProfile.pure(0.5, "both"))
    0.5
    """
    curve = profile.curve
    pure = isinstance(curve, Approximate) and curve.at_delta == 0.0
    if not (pure or isinstance(curve, ZeroConcentrated | Gaussian)):
        raise BadValue("a charge is pure, zCDP or Gaussian", given=f"kind {curve.kind!r}")
    return float(counted(profile)[1])


def keeps(profile: PrivacyProfile, budget: Budget) -> bool:
    """Whether an amplified profile lies within a budget."""
    if budget.delta == 0.0:
        return profile.epsilon(0.0) <= budget.epsilon
    return profile.delta(budget.epsilon) <= budget.delta


def largest_in_sample(budget: Budget, relation: Relation, amplify: Amplifier, measure: Measure | None = None) -> PrivacyProfile:
    """The most that may be spent on a sample so that, amplified once, it keeps the budget: in a measure, or that of the budget.

    Bisection that ends on the private side; `amplify` must be monotone in the amount, as every one is.

    >>> most = largest_in_sample(Budget(1.0), "add-remove", lambda profile: profile.amplify(0.02))
    >>> round(most.epsilon(0.0), 4)
    4.4649
    """

    counted_in = measure or budget.measure

    def affordable(log_amount: float) -> bool:
        return keeps(amplify(counted_in.profile(math.exp(log_amount), relation)), budget)

    low, high = -60.0, 12.0
    if not affordable(low):
        raise BadValue("the budget is too small to spend", given=f"epsilon={budget.epsilon}, delta={budget.delta}")
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if affordable(middle) else (low, middle)
    if budget.measure.needs_delta:
        # The search for epsilon at a delta is good to about 1e-12; keeping back a little makes both directions agree.
        low -= 1e-9
    return counted_in.profile(math.exp(low), relation)


def take_share(total: PrivacyProfile, share: float) -> PrivacyProfile:
    """A share of an in-sample amount; shares of at most 1 never add up to more than the whole.

    >>> round(take_share(PrivacyProfile.pure(4.0, "both"), 0.25).epsilon(0.0), 9)
    1.0
    """
    if not 0.0 < share <= 1.0:
        raise BadValue("a share must be in (0, 1]", given=f"share={share}")
    measure, _ = counted(total)
    # A part in 10^12 is kept back, so that however many shares are rounded and added up, they fit into the whole.
    part = amount(total) * share * (1.0 if share == 1.0 else 1.0 - 1e-12)
    return PrivacyProfile(measure.curve(part), total.relation, total.parts)
