"""Shares of what one sample may be charged, where strata may lose different amounts: what charges take of it together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..privacy.budget import amount

if TYPE_CHECKING:
    from .plan import Plan


def loads(plan: Plan, place: int) -> Mapping[str | None, float]:
    """What a whole share of one charge takes of what each stratum may lose; of all (None) where they may all lose the same."""
    measure = plan.noise_class.measure
    return plan.terms.strata.loads(plan.most(place), measure, plan.terms.in_sample(measure))


def taken(plan: Plan, shares: Mapping[int, float]) -> dict[str | None, float]:
    """What shares of some charges take together of what each stratum may lose."""
    found: dict[str | None, list[float]] = {}
    for place, share in shares.items():
        for stratum, load in loads(plan, place).items():
            found.setdefault(stratum, []).append(share * load)
    return {stratum: math.fsum(each) for stratum, each in found.items()}


def share_used(plan: Plan, shares: Sequence[float]) -> float:
    """What shares of all charges take together of a sample: the most of any stratum."""
    return max(taken(plan, dict(enumerate(shares))).values())


def room_left(plan: Plan, shares: Mapping[int, float], wishes: Mapping[int, float]) -> float:
    """By how much wishes may be multiplied so that they fit into the share of a plan, beside these shares."""
    before, more = taken(plan, shares), taken(plan, wishes)
    return min((plan.share - before.get(stratum, 0.0)) / each for stratum, each in more.items() if each > 0.0)


def share_of(plan: Plan, place: int, spent: float) -> float:
    """An in-sample amount as a part of the most that one charge alone may take."""
    return spent / amount(plan.most(place))
