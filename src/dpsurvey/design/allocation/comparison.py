"""Allocations side by side at one guarantee: the errors of each, and what it would cost if it were computed from secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .allocate import Allocation, allocate
from .guaranteed import StrataGuarantee
from .rules import RULES
from .takes import spent, strata_takes, written


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

    "private" is the best allocation, "minimax" the best for the worst values in the ranges, then the rules of the list that are
    compared: "proportional" and "neyman", or "cost" for a budget. Without deviations the first two are one, and errors are those
    of the worst values.

    >>> figures = {"sizes": {"a": 900, "b": 100}, "deviations": {"a": 1, "b": 4}, "source": "Yearbook 2024"}
    >>> for row in compare_allocations(n=50, epsilon=0.5, ranges=10, **figures):
    ...     print(row["rule"], row["takes"], round(row["se"], 4))
    private {'a': 37, 'b': 13} 0.2242
    minimax {'a': 44, 'b': 6} 0.2521
    proportional {'a': 45, 'b': 5} 0.2655
    neyman {'a': 35, 'b': 15} 0.2248
    """
    shared: dict[str, Any] = {"sizes": sizes, "minimum": minimum, "source": source, "costs": costs}
    guaranteed: dict[str, Any] = shared | {"n": n, "budget": budget, "epsilon": epsilon, "ranges": ranges, "release": release}
    best = allocate("private", **guaranteed, deviations=deviations)
    made = {"private": best}
    if deviations is not None:
        made["minimax"] = allocate("private", **guaranteed)
    varying = deviations is not None and any(deviations.values())
    for rule in RULES.values():
        if ("budget" if n is None else "n") not in rule.compared_at or ("deviations" in rule.needs and not varying):
            continue
        figures: dict[str, Any] = shared | ({"deviations": deviations} if "deviations" in rule.needs else {})
        if n is None and "budget" not in rule.uses:
            made[rule.name] = _within_budget(rule.name, figures, best, budget)
        else:
            made[rule.name] = allocate(rule.name, **figures, n=n, budget=budget)
    guarantee = best.guarantee
    assert guarantee is not None
    return [_row(name, each, guarantee) for name, each in made.items()]


def _within_budget(rule: str, figures: dict[str, Any], best: Allocation, budget: float | None) -> Allocation:
    """The allocation of as many units as a budget pays for, by a rule for a number of units."""
    assert best.costs is not None
    assert budget is not None
    prices, limit = written(best.costs.values()), written([budget])[0]
    # The minimum itself is within the budget, or there would be no best allocation.
    low, high = sum(best.floor.values()), sum(best.sizes.values()) + 1
    while high - low > 1:
        middle = (low + high) // 2
        takes = strata_takes(allocate(rule, **figures, n=middle).takes)
        low, high = (middle, high) if spent(prices, takes) <= limit else (low, middle)
    return allocate(rule, **figures, n=low)


def _row(name: str, made: Allocation, guarantee: StrataGuarantee) -> dict[str, Any]:
    figures = {"rule": name, "takes": dict(made.takes), "total": made.total, "cost": made.cost}
    return figures | guarantee.errors(made.takes) | {"if_confidential": RULES[made.rule].if_confidential(made, guarantee)}
