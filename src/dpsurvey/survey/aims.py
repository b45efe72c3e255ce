"""Accuracy first: the shares, the epsilon or the sample size that wanted errors need. Reads no rows.

Every statistic's expected margin falls with what is spent on its own charge, whatever is spent on the others. So each
target has a least amount, and targets can be met together exactly where those amounts fit into the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ..errors import BadValue, Refusal
from ..privacy.budget import amount
from ..privacy.running import Running
from ..statistic.predict.population import units_drawn
from ..text.layout import ceiling_text, given_text
from .least_amounts import CLOSE, excess_of, least, needs_of, rests_of, wanted_of
from .shares import room_left, share_of, taken

if TYPE_CHECKING:
    from .plan import Plan


def read_targets(of: str | Mapping[str, float], moe: float | None) -> Mapping[str, float]:
    """Wanted margins as a mapping, from a column and its margin or from a mapping."""
    if isinstance(of, Mapping) != (moe is None):
        hint = 'aim("income", moe=400), aim({"income": 400})'
        raise BadValue("a wanted margin is a column and its moe, or a mapping", hint=hint)
    return of if isinstance(of, Mapping) else {of: moe}  # type: ignore[dict-item]


def aimed(plan: Plan, targets: Mapping[str, float]) -> Plan:
    """The plan in which every target is met by the least share, and the other statistics divide what is left.

    Where every statistic has a target, no more is spent than they need. Targets that cannot be met are named.
    """
    needs = needs_of(plan, targets)
    hopeless = [need for need in needs if need.amount is None]
    if hopeless:
        raise Refusal(
            "; ".join(f"{need.names} cannot be estimated within {need.moes}" for need in hopeless),
            because="without any noise the expected margin would still be "
            + ", ".join(f"{need.best:.3g} times that" for need in hopeless)
            + f", by {rests_of(plan, hopeless)}",
            hint=_remedy(plan, targets),
        )
    shares = {need.item: need.share for need in needs}
    together = max(taken(plan, shares).values())
    others = [index for index in range(len(plan.items)) if index not in shares]
    if together > plan.share * (1.0 if not others else 1.0 - 1e-9):
        alone = [f"{need.names} cannot be estimated within {need.moes}" for need in needs if need.share > plan.share]
        needed = ", ".join(f"{need.names} {need.share:.3g}" for need in needs)
        raise Refusal(
            "; ".join(alone) or "these margins cannot be met together",
            because=f"of what one sample may be charged they need {needed}, by {rests_of(plan, needs)}; there is {plan.share:g}",
            hint=f"epsilon {ceiling_text(least_epsilon(plan, targets))} would do"
            + (" for these alone, with nothing left for the others" if others else "")
            + "; or wider margins, a larger sample, tighter bounds, expect= from a published source",
        )
    wishes = {index: max(plan.weights[member] for member in plan.members[index]) for index in others}
    room = room_left(plan, shares, wishes) if others else 0.0
    shares |= {index: min(1.0, room * wish) for index, wish in wishes.items()}
    return plan.with_shares([shares[index] for index in range(len(plan.items))])


def least_epsilon(plan: Plan, targets: Mapping[str, float]) -> float:
    """The least epsilon of the protected data that meets the targets; statistics without one are left out."""
    found = _epsilon(plan, targets)
    if found is None:
        hopeless = [need for need in needs_of(plan, targets) if need.amount is None]
        raise Refusal(
            "; ".join(f"{need.names} cannot be estimated within {need.moes} at any epsilon" for need in hopeless),
            because=f"the sampling error alone is too large, by {rests_of(plan, hopeless)}",
            hint=_remedy(plan, targets),
        )
    return found


def _epsilon(plan: Plan, targets: Mapping[str, float]) -> float | None:
    """The least epsilon that meets the targets, or None where none does."""
    needs = needs_of(plan, targets)
    if any(need.amount is None for need in needs):
        return None
    near = {need.item: need.amount or 0.0 for need in needs}
    needed = Running().plus(*(plan.item_at(index, spent / plan.share).charge for index, spent in near.items()))

    def excess(epsilon: float) -> float:
        return 0.5 if _fits(plan.at_epsilon(epsilon), targets, near, CLOSE**0.5) else 2.0

    # Another budget may change a recipe, and what is needed with it; so the answer is looked for near the first one.
    found = least(excess, plan.terms.amplify(needed.composed).epsilon(plan.terms.budget.delta), step=CLOSE)
    for _ in range(60):
        # Amounts are known to half a thousandth; a plan with this budget, and with it as it is printed, must find that they fit.
        if all(_fits(plan.at_epsilon(each), targets, {}) for each in (found, float(ceiling_text(found)))):
            break
        found *= CLOSE**0.5
    return found


def least_size(plan: Plan, targets: Mapping[str, float]) -> int:
    """The fewest units to draw that meet the targets at the plan's epsilon; refused where all units of the frame would not."""
    found = _units(plan, targets)
    if found is None:
        raise Refusal(
            "these margins cannot be met by any sample of this design at this epsilon",
            because=f"even {_largest(plan):,} units would not do, by {rests_of(plan, needs_of(plan, targets))}",
            hint=_remedy(plan, targets),
        )
    return found


def _largest(plan: Plan) -> int:
    """As many units as the design could draw."""
    size = plan.facts.frame.size
    if size is None:
        raise BadValue("the least sample needs the public size of the frame", hint="declare Frame(..., size=N)")
    return math.floor(min(size, units_drawn(plan.facts) * plan.terms.design.most) + 1e-9)


def _units(plan: Plan, targets: Mapping[str, float]) -> int | None:
    """The fewest units that meet the targets, or None where none do."""
    largest, now = _largest(plan), units_drawn(plan.facts)
    near: dict[int, float] = {}

    def meets(units: int) -> bool:
        return _fits(plan.resized(units / now), targets, near, 1.3)

    low, high = 1, largest
    # Where more units mean more noise, as for some medians, a part of the frame may do what all of it does not.
    while high > 1 and not meets(high):
        high //= 2
    if not meets(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle + 1, high)
    while high < largest and not _fits(plan.resized(high / now), targets, {}):
        high += 1
    return high


def _remedy(plan: Plan, targets: Mapping[str, float]) -> str:
    """What would meet the targets, by trying it: another epsilon, another number of units, or the most of them and an epsilon."""
    epsilon = _epsilon(plan, targets)
    found = [f"epsilon {ceiling_text(epsilon)}"] if epsilon else []
    # A file that was collected, and a frame of unknown size, have no other sample.
    with suppress(BadValue):
        largest = _largest(plan)
        if units := _units(plan, targets):
            found.append(f"{units:,} units at epsilon {given_text(plan.terms.budget.epsilon)}")
        elif not found and (epsilon := _epsilon(plan.resized(largest / units_drawn(plan.facts)), targets)):
            found.append(f"{largest:,} units with epsilon {ceiling_text(epsilon)}")
    others = "wider margins, tighter bounds, or a published figure for the spread (expect=)"
    return f"{' or '.join(found)} would do; or {others}" if found else others


def _fits(plan: Plan, targets: Mapping[str, float], near: dict[int, float], step: float = 4.0) -> bool:
    """Whether the targets fit into the plan's share; looked for near the amounts of a similar plan, which are updated."""
    wanted = wanted_of(plan, targets)
    most = {index: plan.share * amount(plan.most(index)) for index in wanted}
    if any(excess_of(plan, index, own, most[index]) > 1.0 for index, own in wanted.items()):
        return False
    if len(wanted) == 1:
        return True
    for index, own in wanted.items():
        near[index] = least(partial(excess_of, plan, index, own), min(near.get(index, most[index]), most[index]), step)
    shares = {index: share_of(plan, index, near[index]) for index in wanted}
    return max(taken(plan, shares).values()) <= plan.share * (1.0 - 1e-9)
