"""Allocations side by side at one guarantee: the errors of each, and what it would cost if it were computed from secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...loss.bound import Bound, Losses, Refused
from ...privacy.relation import Relation
from ...text.layout import ceiling_text
from ..confidential_sizes import ConfidentialAllocation
from ..proportional import ProportionalShare
from .allocate import Allocation, allocate
from .guaranteed import StrataGuarantee
from .rules import spent, strata_takes, written

NOTHING = "it uses public sizes and ranges alone, so its sizes tell nothing about records"


def compare_allocations(
    *,
    sizes: Mapping[Any, int],
    epsilon: float | Mapping[Any, float],
    ranges: float | Mapping[Any, float],
    n: int | None = None,
    costs: Mapping[Any, float] | None = None,
    budget: float | None = None,
    deviations: Mapping[Any, float] | None = None,
    release: str = "strata",
    minimum: int | Mapping[Any, int] = 1,
    source: str = "",
) -> list[dict[str, Any]]:
    """A row for each rule: takes, standard errors of the mean under the same guarantee, and `if_confidential`.

    "private" is the best allocation, "minimax" the best for the worst values in the ranges, then "proportional" and
    "neyman", or "cost" for a budget. Without deviations the first two are one, and errors are those of the worst values.

    >>> figures = {"sizes": {"a": 900, "b": 100}, "deviations": {"a": 1, "b": 4}, "source": "Yearbook 2024"}
    >>> for row in compare_allocations(n=50, epsilon=0.5, ranges=10, **figures):
    ...     print(row["rule"], row["takes"], round(row["se"], 4))
    private {'a': 37, 'b': 13} 0.2242
    minimax {'a': 44, 'b': 6} 0.2521
    proportional {'a': 45, 'b': 5} 0.2655
    neyman {'a': 35, 'b': 15} 0.2248
    """
    shared: dict[str, Any] = {"sizes": sizes, "minimum": minimum, "source": source, "costs": costs}
    asked: dict[str, Any] = shared | {"n": n, "budget": budget}
    guaranteed: dict[str, Any] = {"epsilon": epsilon, "ranges": ranges, "release": release}
    best = allocate("private", **asked, **guaranteed, deviations=deviations)
    made = {"private": best}
    if deviations is not None:
        made["minimax"] = allocate("private", **asked, **guaranteed)
    made["proportional"] = _proportional(shared, n, best, budget)
    if deviations is not None and any(deviations.values()):
        rule = "cost" if n is None else "neyman"
        made[rule] = allocate(rule, **asked, deviations=deviations)
    guarantee = best.guarantee
    assert guarantee is not None
    return [_row(rule, each, guarantee) for rule, each in made.items()]


def _proportional(shared: dict[str, Any], n: int | None, best: Allocation, budget: float | None) -> Allocation:
    """n units in proportion to the sizes; for a budget as many as it pays for."""
    if n is not None or budget is None or best.costs is None:
        return allocate("proportional", **shared, n=n)
    prices, limit = written(best.costs.values()), written([budget])[0]
    # The minimum itself is within the budget, or there would be no best allocation.
    low, high = sum(best.floor.values()), sum(best.sizes.values()) + 1
    while high - low > 1:
        middle = (low + high) // 2
        takes = strata_takes(allocate("proportional", **shared, n=middle).takes)
        low, high = (middle, high) if spent(prices, takes) <= limit else (low, middle)
    return allocate("proportional", **shared, n=low)


def _row(rule: str, made: Allocation, guarantee: StrataGuarantee) -> dict[str, Any]:
    figures = {"rule": rule, "takes": dict(made.takes), "total": made.total, "cost": made.cost}
    return figures | guarantee.errors(made.takes) | {"if_confidential": _if_confidential(rule, made, guarantee)}


def _if_confidential(rule: str, made: Allocation, guarantee: StrataGuarantee) -> str:
    """What records would lose if this allocation were computed from confidential figures, in words with what is proved."""
    spent_on = guarantee.in_sample(made.takes)
    worst = Losses.of(max(spent_on.values()), Relation.BOTH)
    if rule == "minimax" or (rule == "private" and made.deviations is None):
        return NOTHING
    if rule == "proportional":
        # Noise that hides a record more or less as well as a replaced one: where nearest rounding moves, one step is lost,
        # and where it stays no more than that.
        bounds = [
            ProportionalShare(made.rates[label]).bound(Losses.of(loss, Relation.BOTH), Relation.ADD_REMOVE)
            for label, loss in spent_on.items()
        ]
        random = max(each.upper for each in bounds if isinstance(each, Bound))
        return (
            "from confidential stratum sizes, a record more or less: rounded to the nearest, takes move with a record and "
            f"sampling hides nothing, epsilon {ceiling_text(worst.add_remove)}; with randomised rounding epsilon "
            f"{ceiling_text(random)}; if the noise hides a record more or less as well"
        )
    refused = ConfidentialAllocation(made.total).bound(worst, Relation.REPLACE_ONE)
    assert isinstance(refused, Refused)
    return f"amplification is refused: {refused.reason}; all that is proved is {refused.bound}"
