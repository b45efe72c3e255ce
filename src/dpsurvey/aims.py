"""Accuracy first: the shares, the epsilon or the sample size that wanted errors need. Reads no rows.

Every statistic's expected margin falls with what is spent on its own charge, whatever is spent on the others. So each
target has a least amount, and targets can be met together exactly where those amounts fit into the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

from .errors import BadValue, NotFound, Refusal, did_you_mean
from .layout import ceiling_text
from .predictions import item_rows
from .privacy.account import amount
from .statistic.population import units_drawn

if TYPE_CHECKING:
    from .plan import Plan

# A margin is met to this part; amounts are found to half of it, on the safe side.
CLOSE = 1.001
# In-sample amounts that stand for no noise at all, in epsilon and in rho; more would leave the range of floats.
NO_NOISE = {"pure": 300.0, "zcdp": 1e4}
# A share so small that its answer is nothing but noise.
ALL_NOISE = 1e-6


@dataclass(frozen=True)
class Need:
    """What one charge needs for its targets: an in-sample amount, or None where no amount would do; and the margins it has."""

    item: int
    targets: tuple[tuple[str, float], ...]
    amount: float | None
    whole: float
    best: float

    @property
    def share(self) -> float:
        """The amount as a part of what one sample may be charged."""
        return math.inf if self.amount is None else self.amount / self.whole


def read_targets(of: str | Mapping[str, float], moe: float | None) -> Mapping[str, float]:
    """Wanted margins as a mapping, from a column and its margin or from a mapping."""
    if isinstance(of, Mapping) != (moe is None):
        hint = 'aim("income", moe=400), aim({"income": 400})'
        raise BadValue("a wanted margin is a column and its moe, or a mapping", hint=hint)
    return of if isinstance(of, Mapping) else {of: moe}  # type: ignore[dict-item]


def needs_of(plan: Plan, targets: Mapping[str, float]) -> list[Need]:
    """The least amount for every charge that a target is about."""
    return [_need(plan, index, own) for index, own in _wanted(plan, targets).items()]


def _wanted(plan: Plan, targets: Mapping[str, float]) -> dict[int, dict[str, float]]:
    """The targets of every charge."""
    if not targets:
        raise BadValue("name at least one wanted margin of error", hint='aim({"income": 400})')
    wanted: dict[int, dict[str, float]] = {}
    for name, moe in targets.items():
        if isinstance(moe, bool) or not isinstance(moe, Real) or not 0.0 < moe < math.inf:
            raise BadValue("a margin of error must be positive", given=f"moe={moe}")
        for index in _items_of(plan, name):
            wanted.setdefault(index, {})[name] = float(moe)
    return wanted


def _items_of(plan: Plan, name: str) -> list[int]:
    found = [i for i, item in enumerate(plan.items) if any(name in names_of(plan, each) for each in item.statistics)]
    if not found:
        known = [each for statistic in plan.statistics for each in names_of(plan, statistic)]
        raise NotFound(f"no statistic of {name!r} in this plan", hint=did_you_mean(name, known))
    return found


def names_of(plan: Plan, statistic: Any) -> tuple[str, ...]:
    """What a statistic may be called: its column, its label, or its whole name."""
    return tuple(dict.fromkeys(each for each in (statistic.of, plan.label(statistic), statistic.name) if each))


def _need(plan: Plan, index: int, wanted: dict[str, float]) -> Need:
    whole = amount(plan.terms.in_sample(plan.kind_of_noise))

    excess = partial(_excess, plan, index, wanted)
    currency = "pure" if plan.kind_of_noise == "laplace" else plan.terms.budget.currency
    best = excess(max(NO_NOISE[currency], 2.0 * whole))
    if _or_endless(excess, ALL_NOISE * whole) <= 1.0:
        margins = " and ".join(f"{moe:g}" for moe in wanted.values())
        raise BadValue(
            f"{' and '.join(map(repr, wanted))} would be within {margins} by noise alone",
            hint="a margin is in the units of the number: of a proportion 0.03, not 3",
        )
    # From the whole share down, so that what fits is never found not to by the last digit.
    found = least(excess, plan.share * whole) if best < 1.0 else None
    return Need(index, tuple(wanted.items()), found, whole, best)


def _or_endless(excess: Callable[[float], float], spent: float) -> float:
    """The same, endless where so little cannot be spent at all."""
    try:
        return excess(spent)
    except BadValue:
        return math.inf


def _excess(plan: Plan, index: int, wanted: dict[str, float], spent: float) -> float:
    """The largest margin over its target with this amount: at most 1 where all are met."""
    item = plan.item_at(index, spent)
    found = []
    for row in item_rows(plan, item):
        for name, moe in wanted.items():
            if name in (row["column"], row["of"], row["name"]):
                found.append(math.inf if row["moe"] is None else row["moe"] / moe)
    return max(found)


def least(excess: Callable[[float], float], start: float, step: float = 4.0) -> float:
    """The least amount at which a falling function is at most 1, to a part in a thousand and never below it.

    >>> round(least(lambda spent: 3.0 / spent, 1.0), 2)
    3.0
    """
    low = high = start
    below = above = excess(start)
    if below <= 1.0:
        while below <= 1.0 and low > start * 1e-9:
            high, above = low, below
            low, step = low / step, min(4.0, step**1.5)
            below = excess(low)
    else:
        while above > 1.0 and high < start * 1e9:
            low, below = high, above
            high, step = high * step, min(4.0, step**1.5)
            above = excess(high)
    halve = False
    while high > low * CLOSE**0.5:
        middle = math.sqrt(low * high)
        # Between its ends the function is near a power: a straight line of logarithms says where it passes 1.
        if not halve and 0.0 < above < 1.0 < below < math.inf:
            middle = low * (high / low) ** (math.log(below) / math.log(below / above)) * CLOSE**0.2
            middle = min(max(middle, low * CLOSE**0.2), high / CLOSE**0.2)
        found, width = excess(middle), high / low
        if found <= 1.0:
            high, above = middle, found
        else:
            low, below = middle, found
        # A step that left most of the interval is followed by one that halves it.
        halve = not halve and high / low > width**0.5
    return high


def aimed(plan: Plan, targets: Mapping[str, float]) -> Plan:
    """The plan in which every target is met by the least share, and the other statistics divide what is left.

    Where every statistic has a target, no more is spent than they need. Targets that cannot be met are named.
    """
    needs = needs_of(plan, targets)
    hopeless = [need for need in needs if need.amount is None]
    if hopeless:
        raise Refusal(
            "; ".join(f"{_names(need)} cannot be had within {_moes(need)}" for need in hopeless),
            because="without any noise the expected margin would still be "
            + ", ".join(f"{need.best:.3g} times that" for need in hopeless)
            + f", by {rests_of(plan, hopeless)}",
            hint="a larger sample (least_size), or a published figure for the spread (expect=)",
        )
    together = math.fsum(need.share for need in needs)
    others = [index for index in range(len(plan.items)) if index not in {need.item for need in needs}]
    if together > plan.share * (1.0 if not others else 1.0 - 1e-9):
        alone = [need for need in needs if need.share > plan.share]
        told = ", ".join(f"{_names(need)} {need.share:.3g}" for need in needs)
        what = (
            "; ".join(f"{_names(need)} cannot be had within {_moes(need)}" for need in alone)
            or "these margins cannot be had together"
        )
        raise Refusal(
            what,
            because=f"of what one sample may be charged they need {told}, by {rests_of(plan, needs)}; there is {plan.share:g}",
            hint=f"epsilon {ceiling_text(least_epsilon(plan, targets))} would do"
            + (" for these alone, with nothing left for the others" if others else "")
            + "; or wider margins, a larger sample, tighter bounds, expect= from a published source",
        )
    shares = {need.item: need.share for need in needs}
    wishes = {index: max(plan.weights[member] for member in plan.members[index]) for index in others}
    left = plan.share - together
    for index in others:
        shares[index] = left * wishes[index] / math.fsum(wishes.values())
    return plan.with_shares([shares[index] for index in range(len(plan.items))])


def least_epsilon(plan: Plan, targets: Mapping[str, float]) -> float:
    """The least epsilon of the protected data that meets the targets; statistics without one are left out."""
    needs = needs_of(plan, targets)
    hopeless = [need for need in needs if need.amount is None]
    if hopeless:
        raise Refusal(
            "; ".join(f"{_names(need)} cannot be had within {_moes(need)} at any epsilon" for need in hopeless),
            because=f"the sampling error alone is too large, by {rests_of(plan, hopeless)}",
            hint="a larger sample (least_size)",
        )
    near = {need.item: need.amount or 0.0 for need in needs}
    needed = math.fsum(near.values()) / plan.share

    def excess(epsilon: float) -> float:
        return 0.5 if _fits(plan.at_epsilon(epsilon), targets, near, CLOSE**0.5) else 2.0

    # Another budget may change a recipe, and what is needed with it; so the answer is looked for near the first one.
    found = least(excess, plan.terms.promised(needed, plan.kind_of_noise), step=CLOSE)
    for _ in range(60):
        # Amounts are known to half a thousandth; a plan with this budget must find that they fit.
        if _fits(plan.at_epsilon(found), targets, {}):
            break
        found *= CLOSE**0.5
    return found


def least_size(plan: Plan, targets: Mapping[str, float]) -> int:
    """The fewest units to draw that meet the targets at the plan's epsilon; refused where all units of the frame would not."""
    size = plan.facts.frame.size
    if size is None:
        raise BadValue("the least sample needs the public size of the frame", hint="declare Frame(..., size=N)")
    now = units_drawn(plan.facts)
    near: dict[int, float] = {}

    def meets(units: int) -> bool:
        return _fits(plan.resized(units / now), targets, near, 1.3)

    largest = math.floor(min(size, now * plan.terms.design.most) + 1e-9)
    low, high = 1, largest
    # Where more units mean more noise, as for some medians, a part of the frame may do what all of it does not.
    while high > 1 and not meets(high):
        high //= 2
    if not meets(high):
        raise Refusal(
            "these margins cannot be had by any sample of this design at this epsilon",
            because=f"even {largest:,} units would not do, by {rests_of(plan, needs_of(plan, targets))}",
            hint="a larger epsilon (least_epsilon), wider margins, or tighter bounds",
        )
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle + 1, high)
    while high < largest and not _fits(plan.resized(high / now), targets, {}):
        high += 1
    return high


def _fits(plan: Plan, targets: Mapping[str, float], near: dict[int, float], step: float = 4.0) -> bool:
    """Whether the targets fit into the plan's share; looked for near the amounts of a similar plan, which are updated."""
    wanted = _wanted(plan, targets)
    most = plan.share * amount(plan.terms.in_sample(plan.kind_of_noise))
    if any(_excess(plan, index, own, most) > 1.0 for index, own in wanted.items()):
        return False
    if len(wanted) == 1:
        return True
    for index, own in wanted.items():
        near[index] = least(partial(_excess, plan, index, own), min(near.get(index, most), most), step)
    return math.fsum(near[index] for index in wanted) <= most * (1.0 - 1e-9)


def rests_of(plan: Plan, needs: list[Need]) -> str:
    """What the predictions of these charges rest on, in words."""
    said = [str(row["rests_on"]) for need in needs for row in item_rows(plan, plan.items[need.item])]
    return "; ".join(dict.fromkeys(said))


def _names(need: Need) -> str:
    return " and ".join(repr(name) for name, _ in need.targets)


def _moes(need: Need) -> str:
    return " and ".join(f"{moe:g}" for _, moe in need.targets)
