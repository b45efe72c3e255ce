"""What one charge of a plan needs for its targets: the least amount, by trying the plan with it. Reads no rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

from ..errors import BadValue, NotFound, did_you_mean
from ..privacy.budget import amount
from .predictions import item_rows

if TYPE_CHECKING:
    from .plan import Plan

# A margin is met to this part; amounts are found to half of it, on the safe side.
CLOSE = 1.001
# A share so small that its answer is nothing but noise.
ALL_NOISE = 1e-6


@dataclass(frozen=True)
class Need:
    """What one charge needs for its targets: an in-sample amount, or None where no amount would do; and the margins it has."""

    item: int
    names: str
    moes: str
    amount: float | None
    whole: float
    best: float

    @property
    def share(self) -> float:
        """The amount as a part of the most that this charge alone may take of a sample."""
        return math.inf if self.amount is None else self.amount / self.whole


def needs_of(plan: Plan, targets: Mapping[str, float]) -> list[Need]:
    """The least amount for every charge that a target is about."""
    return [_need(plan, index, own) for index, own in wanted_of(plan, targets).items()]


def wanted_of(plan: Plan, targets: Mapping[str, float]) -> dict[int, dict[str, float]]:
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
    names = (statistic.of, plan.label(statistic), statistic.name, plan.name(statistic))
    return tuple(dict.fromkeys(each for each in names if each))


def _need(plan: Plan, index: int, wanted: dict[str, float]) -> Need:
    whole = amount(plan.most(index))
    names = " and ".join(_said(plan, index, name) for name in wanted)
    moes = " and ".join(f"{moe:g}" for moe in wanted.values())
    excess = partial(excess_of, plan, index, wanted)
    best = excess(max(plan.noise_class.measure.no_noise, 2.0 * whole))
    if _or_endless(excess, ALL_NOISE * whole) <= 1.0:
        raise BadValue(
            f"{names} would be within {moes} by noise alone",
            hint="a margin is in the units of the estimate: for a proportion 0.03, not 3",
        )
    # From the whole share down, so that what fits is never found not to by the last digit.
    found = least(excess, plan.share * whole) if best < 1.0 else None
    return Need(index, names, moes, found, whole, best)


def _said(plan: Plan, index: int, name: str) -> str:
    """What a target of one charge is called: by its own name, or where it stands for several charges by what is asked."""
    if len(_items_of(plan, name)) == 1:
        return repr(name)
    return " and ".join(repr(plan.name(each)) for each in plan.items[index].statistics if name in names_of(plan, each))


def _or_endless(excess: Callable[[float], float], spent: float) -> float:
    """The same, endless where so little cannot be spent at all."""
    try:
        return excess(spent)
    except BadValue:
        return math.inf


def excess_of(plan: Plan, index: int, wanted: dict[str, float], spent: float) -> float:
    """The largest margin over its target with this amount: at most 1 where all are met."""
    item = plan.item_at(index, spent)
    called = {plan.name(each): names_of(plan, each) for each in item.statistics}
    found = []
    for row in item_rows(plan, item):
        for name, moe in wanted.items():
            if name in called[row["name"]]:
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


def rests_of(plan: Plan, needs: list[Need]) -> str:
    """What the predictions of these charges rest on, in words."""
    said = [str(row["rests_on"]) for need in needs for row in item_rows(plan, plan.items[need.item])]
    return "; ".join(dict.fromkeys(said))
